/* What a run records of its environment: process, host, hashes, library versions. */
#include "track/whoami.h"

#include <errno.h>
#include <jansson.h>
#define OPENSSL_SUPPRESS_DEPRECATED /* SHA256_Init and its kin, which allocate nothing and so cannot fail */
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>
#include "core/error.h"
#include "cpu/runtime/blas.h"

static int64_t clock_us(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t dl_now_us(void) { return clock_us(CLOCK_REALTIME); }
int64_t dl_steady_us(void) { return clock_us(CLOCK_BOOTTIME); }

/* ---------------------------------------------------------------- processes */

/* Field 22 of /proc/PID/stat; the name in field 2 may contain anything, so counting starts after its last ')'. */
static uint64_t start_of(int64_t pid) {
    char path[64], text[1024], *p;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    p = strrchr(text, ')');
    if (p && p[1] == ' ' && p[2] == 'Z') return 0; /* a zombie has ended, whatever its parent thinks */
    for (int field = 2; p && field < 22; field++) p = strchr(p + 1, ' ');
    return p ? strtoull(p + 1, NULL, 10) : 0;
}

static void read_line(const char *path, char *out, size_t size) {
    FILE *f = fopen(path, "re");
    if (!f || !fgets(out, (int)size, f)) out[0] = 0;
    if (f) fclose(f);
    out[strcspn(out, "\n")] = 0;
}

static dl_whoami self;

static void find_self(void) {
    if (gethostname(self.host, sizeof self.host - 1)) self.host[0] = 0;
    read_line("/proc/sys/kernel/random/boot_id", self.boot_id, sizeof self.boot_id);
    self.pid = getpid();
    self.pid_start = start_of(self.pid);
}

const dl_whoami *dl_whoami_self(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (self.pid != getpid()) find_self(); /* the first time, and in a child of fork() */
    pthread_mutex_unlock(&lock);
    return &self;
}

int dl_whoami_gone(const dl_whoami *who) {
    const dl_whoami *me = dl_whoami_self();
    if (strcmp(who->host, me->host)) return -1;
    if (strcmp(who->boot_id, me->boot_id)) return 1;
    if (!who->pid_start) return kill((pid_t)who->pid, 0) && errno == ESRCH; /* there was no /proc */
    return start_of(who->pid) != who->pid_start;
}

/* ---------------------------------------------------------------- hashes */

static void to_hex(const unsigned char *bytes, unsigned n, char *out) {
    for (unsigned i = 0; i < n; i++) sprintf(out + 2 * i, "%02x", bytes[i]);
}

void dl_sha256_hex(const void *data, uint64_t n, char out[65]) {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256_CTX c;
    SHA256_Init(&c);
    if (n) SHA256_Update(&c, data, n);
    SHA256_Final(digest, &c);
    to_hex(digest, sizeof digest, out);
}

dl_status dl_sha256_file(const char *path, char out[65], int64_t *bytes) {
    unsigned char buf[1 << 14], digest[SHA256_DIGEST_LENGTH];
    dl_status st = DL_OK;
    FILE *f = fopen(path, "rbe");
    if (!f) return dl_fail(DL_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    SHA256_CTX c;
    *bytes = 0;
    SHA256_Init(&c);
    for (size_t n; (n = fread(buf, 1, sizeof buf, f)) > 0; *bytes += (int64_t)n) SHA256_Update(&c, buf, n);
    SHA256_Final(digest, &c);
    if (ferror(f))
        st = dl_fail(DL_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    else
        to_hex(digest, sizeof digest, out);
    fclose(f);
    return st;
}

void dl_uuid(char out[37]) {
    unsigned char b[16];
    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b) {
        char text[128], hex[65];
        snprintf(text, sizeof text, "%s %ld %ld", self.boot_id, (long)getpid(), (long)dl_now_us());
        dl_sha256_hex(text, strlen(text), hex);
        for (int i = 0; i < 16; i++) sscanf(hex + 2 * i, "%2hhx", &b[i]);
    }
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    char hex[33];
    to_hex(b, 16, hex);
    snprintf(out, 37, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

/* ---------------------------------------------------------------- versions */

static void processor(char *out, size_t size) {
    char line[256];
    out[0] = 0;
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon) continue;
        snprintf(out, size, "%s", colon + 2);
        out[strcspn(out, "\n")] = 0;
        break;
    }
    if (f) fclose(f);
}

char *dl_env_json(const char *const *extra) {
    char cpu[256];
    struct utsname os = {0};
    processor(cpu, sizeof cpu);
    uname(&os);
    json_t *o = json_object();
    const char *threads = getenv("OMP_NUM_THREADS");
    const dl_blas *blas = dl_blas_get();
    const struct {
        const char *key, *value;
    } rows[] = {
        {"dlcore", DL_VERSION},
        {"sqlite", sqlite3_libversion()},
        {"openblas", blas ? blas->config : ""},
        {"openssl", OpenSSL_version(OPENSSL_VERSION_STRING)},
        {"zlib", zlibVersion()},
        {"compiler", __VERSION__},
        {"kernel", os.release},
        {"machine", os.machine},
        {"processor", cpu},
        {"OMP_NUM_THREADS", threads ? threads : ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].value[0]) json_object_set_new(o, rows[i].key, json_string(rows[i].value));
    json_object_set_new(o, "processors", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    for (; extra && extra[0] && extra[1]; extra += 2) json_object_set_new(o, extra[0], json_string(extra[1]));
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (!text) dl_fail(DL_ERR_MEMORY, "no memory for the list of versions");
    return text;
}

char *dl_cmdline(void) {
    char *text = NULL;
    size_t size = 0, cap = 0, len = 0;
    char *arg = NULL;
    FILE *in = fopen("/proc/self/cmdline", "re"), *out = in ? open_memstream(&text, &size) : NULL;
    while (out && getdelim(&arg, &cap, 0, in) > 0) {
        char shown[4096]; /* passwords are not written down */
        if (strstr(arg, "postgres") && strlen(arg) < sizeof shown) {
            dl_store_shown(arg, shown, sizeof shown);
            size_t n = strlen(shown) + 1;
            if (n <= cap) memcpy(arg, shown, n);
        }
        int plain = arg[0] && !arg[strspn(arg, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                               "_-+=./:,@%^")];
        if (len++) fputc(' ', out);
        if (!plain) fputc('\'', out);
        for (const char *p = arg; *p; p++)
            if (!plain && *p == '\'')
                fputs("'\\''", out);
            else
                fputc(*p, out);
        if (!plain) fputc('\'', out);
    }
    free(arg);
    if (in) fclose(in);
    if (out && fclose(out)) {
        free(text);
        text = NULL;
    }
    return text;
}
