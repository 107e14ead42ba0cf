/* Files of compiled C: the user's cache of libraries by content, and this process's own folder. */
#define _GNU_SOURCE
#include "ffi/compile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lang/session.h"

enum { PATH_SIZE = 256, KEPT = 512 };
#define PREFIX "dlsh-c-"
#define LIBRARY ".so"
#define ANSWER ".txt"

/* ---------------------------------------------------------------- the process's folder */

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

/* What processes left behind that were killed. */
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

int dlsh_cc_copy(const char *from, const char *to) {
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700), ok = 0;
    char buf[32768];
    ssize_t n = -1;
    while (in >= 0 && out >= 0 && (n = read(in, buf, sizeof buf)) > 0)
        if (write(out, buf, (size_t)n) != n) break;
    ok = n == 0;
    if (in >= 0) close(in);
    if (out >= 0 && close(out)) ok = 0;
    if (!ok && out >= 0) unlink(to);
    return ok;
}

/* ---------------------------------------------------------------- the cache */

/* ~/.cache/dlsh/c, made when missing; NULL when there is none to be had. */
static const char *cache_folder(void) {
    static char path[PATH_SIZE];
    static int known;
    if (known) return known > 0 ? path : NULL;
    known = -1;
    if (dl_cache_folder("c", path, sizeof path - 64)) {
        dl_error_clear();
        return NULL;
    }
    struct stat st;
    /* code that others could write is not run */
    if (stat(path, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
        return NULL;
    known = 1;
    return path;
}

const char *dlsh_cc_cache_path(const char *key, const char *ending, char *path) {
    const char *base = cache_folder();
    if (!base) return NULL;
    snprintf(path, PATH_SIZE, "%.200s/%.40s%.8s", base, key, ending);
    return path;
}

/* A header as it was: its path, size and time of change. What this process wrote itself does not count. */
static void print_header(FILE *f, const char *path) {
    struct stat st;
    if (strncmp(path, folder, strlen(folder)) && !stat(path, &st))
        fprintf(f, "%lld %lld %ld %s\n", (long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, path);
}

static int headers_unchanged(FILE *f) {
    long long size, sec;
    long nsec;
    char path[4096];
    int n;
    while ((n = fscanf(f, "%lld %lld %ld %4095[^\n]", &size, &sec, &nsec, path)) == 4) {
        struct stat st;
        if (stat(path, &st) || st.st_size != size || st.st_mtim.tv_sec != sec || st.st_mtim.tv_nsec != nsec) return 0;
    }
    return n == EOF;
}

/* The file of an entry whose headers are as they were; it counts as used now. */
static int find_entry(const char *key, const char *ending, char *path) {
    char list[PATH_SIZE];
    if (!dlsh_cc_cache_path(key, ending, path) || !dlsh_cc_cache_path(key, ".h", list)) return 0;
    FILE *f = access(path, R_OK) ? NULL : fopen(list, "re");
    int ok = f && headers_unchanged(f);
    if (f) fclose(f);
    if (ok) utimensat(AT_FDCWD, path, NULL, 0);
    return ok;
}

int dlsh_cc_cached(const char *key) {
    char so[PATH_SIZE];
    return find_entry(key, LIBRARY, so);
}

int dlsh_cc_answer(const char *key, dlsh_buf *said, int *good) {
    char path[PATH_SIZE], part[16384];
    FILE *f = find_entry(key, ANSWER, path) ? fopen(path, "re") : NULL;
    if (!f) return 0;
    int first = fgetc(f), ok = first == '0' || first == '1';
    for (size_t n; ok && (n = fread(part, 1, sizeof part, f)) > 0;) dlsh_buf_add(said, part, n);
    if (ferror(f)) ok = 0;
    fclose(f);
    *good = first == '1';
    return ok;
}

/* The next character of a makefile; a continued line is a blank, and *escaped is set for a blank of a name. */
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

/* The names after the colon of "a.so: a.c b.h \ c.h". */
static void write_headers(FILE *out, FILE *makefile) {
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

/* Lets the entries go that were not used for longest, once there are a good many more than KEPT. */
static void prune(const char *base) {
    entry *all = malloc(2 * KEPT * sizeof *all);
    int n = 0;
    DIR *d = all ? opendir(base) : NULL;
    for (struct dirent *e; d && n < 2 * KEPT && (e = readdir(d));) {
        struct stat st;
        char *dot = strrchr(e->d_name, '.');
        if (!dot || (strcmp(dot, LIBRARY) && strcmp(dot, ANSWER)) || strlen(e->d_name) >= sizeof all->name) continue;
        if (fstatat(dirfd(d), e->d_name, &st, 0)) continue;
        all[n].used = st.st_mtim;
        memcpy(all[n++].name, e->d_name, strlen(e->d_name) + 1);
    }
    if (n > KEPT + KEPT / 4) {
        qsort(all, (size_t)n, sizeof *all, newest_first);
        for (int i = KEPT; i < n; i++) {
            unlinkat(dirfd(d), all[i].name, 0);
            strcpy(strrchr(all[i].name, '.'), ".h");
            unlinkat(dirfd(d), all[i].name, 0);
        }
    }
    if (d) closedir(d);
    free(all);
}

/* Writes the list of headers that a makefile names. */
static int keep_headers(const char *key, const char *depends) {
    char list[PATH_SIZE], temp[PATH_SIZE + 16];
    if (!dlsh_cc_cache_path(key, ".h", list)) return 0;
    snprintf(temp, sizeof temp, "%s.%ld", list, (long)getpid());
    FILE *makefile = fopen(depends, "re"), *out = makefile ? fopen(temp, "we") : NULL;
    if (out) write_headers(out, makefile);
    int ok = out != NULL;
    if (makefile) fclose(makefile);
    if (out && fclose(out)) ok = 0;
    if (ok && !rename(temp, list)) return 1;
    unlink(temp);
    return 0;
}

void dlsh_cc_keep(const char *key, const char *so, const char *depends) {
    char path[PATH_SIZE], temp[PATH_SIZE + 16];
    if (!dlsh_cc_cache_path(key, LIBRARY, path) || !keep_headers(key, depends)) return;
    snprintf(temp, sizeof temp, "%s.%ld", path, (long)getpid());
    if (!dlsh_cc_copy(so, temp) || rename(temp, path)) unlink(temp);
    prune(cache_folder());
}

void dlsh_cc_keep_answer(const char *key, const char *said, size_t n, int good, const char *depends) {
    char path[PATH_SIZE], temp[PATH_SIZE + 16];
    if (!dlsh_cc_cache_path(key, ANSWER, path) || !keep_headers(key, depends)) return;
    snprintf(temp, sizeof temp, "%s.%ld", path, (long)getpid());
    FILE *f = fopen(temp, "we");
    int ok = f && fputc(good ? '1' : '0', f) != EOF && fwrite(said, 1, n, f) == n;
    if (f && fclose(f)) ok = 0;
    if (!ok || rename(temp, path)) unlink(temp);
    prune(cache_folder());
}
