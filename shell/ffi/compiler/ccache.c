/* Files of compiled C: the user's cache, by content, and a temporary folder of the process. */
#define _GNU_SOURCE
#include "ffi/compiler/compile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ffi/compiler/sealed.h"
#include "lang/session.h"

enum { PATH_SIZE = 256, KEPT = 512 };
#define PREFIX "dlsh-c-"
#define LIBRARY ".so"
#define ANSWER ".txt"

static char folder[PATH_SIZE];
static pid_t owner;

static void remove_folder(const char *path) {
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        char file[1024];
        if (e->d_name[0] == '.') continue;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        unlink(file);
    }
    if (d) closedir(d);
    rmdir(path);
}

static void remove_own(void) {
    if (folder[0] && owner == getpid()) remove_folder(folder);
}

/* Removes the folders of processes that were killed. */
static void remove_stale(const char *tmp) {
    DIR *d = opendir(tmp);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[PATH_SIZE + 256];
        struct stat st;
        long pid;
        if (sscanf(e->d_name, PREFIX "%ld-", &pid) != 1 || pid <= 0) continue;
        snprintf(path, sizeof path, "%s/%s", tmp, e->d_name);
        if (!lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == getuid() && kill((pid_t)pid, 0) && errno == ESRCH)
            remove_folder(path);
    }
    if (d) closedir(d);
}

const char *dlsh_cc_folder(void) {
    if (folder[0] && owner == getpid()) return folder;
    const char *tmp = getenv("TMPDIR");
    if (!tmp || !*tmp || strlen(tmp) > PATH_SIZE / 2) tmp = "/tmp";
    remove_stale(tmp);
    snprintf(folder, sizeof folder, "%s/" PREFIX "%ld-XXXXXX", tmp, (long)getpid());
    if (!mkdtemp(folder)) {
        dlsh_fail(DL_ERR_IO, "set TMPDIR to a folder that can be written to", "no folder for compiled C in %s: %s", tmp,
                  strerror(errno));
        folder[0] = 0;
        return NULL;
    }
    if (!owner) atexit(remove_own);
    owner = getpid();
    return folder;
}

/* ~/.cache/dlsh/c, created if missing; NULL when that fails. */
static const char *cache_folder(void) {
    static char path[PATH_SIZE];
    static int known;
    if (known) return known > 0 ? path : NULL;
    known = -1;
    if (dl_cache_folder("c", path, sizeof path - 64)) {
        dl_error_clear();
        return NULL;
    }
    known = 1;
    return path;
}

/* The path of an entry, KEY + ending, with room for PATH_SIZE; 0 when there is no cache. */
static int entry_path(const char *key, const char *ending, char *path) {
    const char *base = cache_folder();
    if (base) snprintf(path, PATH_SIZE, "%.200s/%.40s%.8s", base, key, ending);
    return base != NULL;
}

/* A header with its size and time of change. Files that this process wrote are left out. */
static void print_header(dlsh_buf *b, const char *path) {
    if (strncmp(path, folder, strlen(folder))) dlsh_cc_identify(path, b);
}

/* Do the headers of a list still have the size and time noted there? */
static int headers_unchanged(const char *list) {
    char path[4096];
    for (const char *s = list, *end; *s; s = end + (*end == '\n')) {
        char *at;
        struct stat st;
        end = s + strcspn(s, "\n");
        long long size = strtoll(s, &at, 10), sec = strtoll(at, &at, 10);
        long nsec = strtol(at, &at, 10);
        if (*at != ' ' || end - at > (long)sizeof path) return 0;
        snprintf(path, sizeof path, "%.*s", (int)(end - at - 1), at + 1);
        if (stat(path, &st) || st.st_size != size || st.st_mtim.tv_sec != sec || st.st_mtim.tv_nsec != nsec) return 0;
    }
    return 1;
}

/* Reads an intact entry whose headers are unchanged, and sets its time of use. Its notes are the list of headers. */
static int read_entry(const char *key, const char *ending, dlsh_sealed *entry) {
    char path[PATH_SIZE];
    *entry = (dlsh_sealed){0};
    int ok = entry_path(key, ending, path) && dlsh_sealed_read(path, entry) && headers_unchanged(entry->notes);
    if (ok) utimensat(AT_FDCWD, path, NULL, 0);
    return ok;
}

int dlsh_cc_cache_get(const char *key, const char *to) {
    dlsh_sealed entry;
    FILE *f = read_entry(key, LIBRARY, &entry) ? fopen(to, "wxe") : NULL;
    int ok = f && fwrite(entry.bytes, 1, entry.n, f) == entry.n;
    if (f && fclose(f)) ok = 0;
    if (f && !ok) unlink(to);
    dlsh_sealed_free(&entry);
    return ok;
}

void dlsh_cc_cache_remove(const char *key) {
    char path[PATH_SIZE];
    if (entry_path(key, LIBRARY, path)) unlink(path);
}

int dlsh_cc_cache_get_answer(const char *key, dlsh_buf *said, int *good) {
    dlsh_sealed entry;
    int ok = read_entry(key, ANSWER, &entry) && entry.n && (*entry.bytes == '0' || *entry.bytes == '1');
    if (ok) {
        *good = *entry.bytes == '1';
        dlsh_buf_add(said, entry.bytes + 1, entry.n - 1);
    }
    dlsh_sealed_free(&entry);
    return ok;
}

/* The next character of a makefile. A continued line is a blank; *escaped: the blank belongs to a name. */
static int next_char(FILE *f, int *escaped) {
    int c = fgetc(f);
    *escaped = 0;
    if (c != '\\') return c;
    c = fgetc(f);
    if (c == '\n') return ' ';
    *escaped = c == ' ';
    if (*escaped) return c;
    ungetc(c, f);
    return '\\';
}

/* Lists the names after the colon of "a.so: a.c b.h \ c.h". */
static void list_headers(dlsh_buf *out, FILE *makefile) {
    char word[4096];
    size_t n = 0;
    for (int begun = 0, c = 0, escaped; c != EOF;) {
        c = next_char(makefile, &escaped);
        if (!escaped && (c == ' ' || c == '\n' || c == EOF)) {
            word[n] = 0;
            if (n && begun) print_header(out, word);
            if (n && word[n - 1] == ':') begun = 1;
            n = 0;
        } else if (n + 1 < sizeof word) {
            word[n++] = (char)c;
        }
    }
}

typedef struct entry {
    char name[64];
    struct timespec used;
} entry;

static int newest_first(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? 1 : -1;
    return (x->used.tv_nsec < y->used.tv_nsec) - (x->used.tv_nsec > y->used.tv_nsec);
}

/* 1: the file is an entry. Incomplete files older than an hour, and files of older versions, are removed. */
static int is_entry(int dir, const char *name, const struct stat *st) {
    const char *dot = strrchr(name, '.');
    int left = dlsh_sealed_is_left(name) && st->st_mtim.tv_sec < time(NULL) - 3600;
    if (left || (dot && !strcmp(dot, ".h"))) unlinkat(dir, name, 0);
    return dot && (!strcmp(dot, LIBRARY) || !strcmp(dot, ANSWER)) && strlen(name) < sizeof(((entry *)0)->name);
}

/* Removes the entries that were not used for longest, once there are 25 % more than KEPT. */
static void prune(const char *base) {
    DLSH_FREED entry *all = malloc(2 * KEPT * sizeof *all);
    int n = 0;
    DIR *d = all ? opendir(base) : NULL;
    for (struct dirent *e; d && n < 2 * KEPT && (e = readdir(d));) {
        struct stat st;
        if (fstatat(dirfd(d), e->d_name, &st, 0) || !is_entry(dirfd(d), e->d_name, &st)) continue;
        all[n].used = st.st_mtim;
        memcpy(all[n++].name, e->d_name, strlen(e->d_name) + 1);
    }
    if (n > KEPT + KEPT / 4) {
        qsort(all, (size_t)n, sizeof *all, newest_first);
        for (int i = KEPT; i < n; i++) unlinkat(dirfd(d), all[i].name, 0);
    }
    if (d) closedir(d);
}

/* Adds an entry; `depends` is a makefile with the headers it was made from. */
static void keep(const char *key, const char *ending, const void *data, size_t n, const char *depends) {
    char path[PATH_SIZE];
    DLSH_SCOPED_BUF headers = {0};
    FILE *makefile = entry_path(key, ending, path) ? fopen(depends, "re") : NULL;
    if (!makefile) return;
    list_headers(&headers, makefile);
    fclose(makefile);
    if (!headers.failed) dlsh_sealed_write(path, data, n, dlsh_buf_text(&headers));
    prune(cache_folder());
}

void dlsh_cc_cache_put(const char *key, const char *so, const char *depends) {
    char part[16384];
    DLSH_SCOPED_BUF code = {0};
    DLSH_ENDED(fclose) FILE *f = fopen(so, "re");
    for (size_t n; f && (n = fread(part, 1, sizeof part, f)) > 0;) dlsh_buf_add(&code, part, n);
    if (f && !ferror(f) && !code.failed) keep(key, LIBRARY, dlsh_buf_text(&code), code.n, depends);
}

void dlsh_cc_cache_put_answer(const char *key, const char *said, size_t n, int good, const char *depends) {
    DLSH_SCOPED_BUF content = {0};
    dlsh_buf_puts(&content, good ? "1" : "0");
    dlsh_buf_add(&content, said, n);
    if (!content.failed) keep(key, ANSWER, content.s, content.n, depends);
}
