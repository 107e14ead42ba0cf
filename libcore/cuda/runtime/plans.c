/* The store of measured choices. One text file for each kind of GPU, driver and library versions, and revision of what
 * there is to choose from; a line holds key, value and their check sum, and is written at once, so that processes may
 * append side by side. What is damaged is ignored, and measured again. */
#include "cuda/runtime/plans.h"

#include "cuda/runtime/cudnn.h"
#include "cuda/runtime/cublaslt.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct entry {
    char *key, *value;
} entry;

/* One for each kind of GPU. */
typedef struct store {
    char path[512]; /* "": the user has no cache folder */
    entry *e;
    long n, cap;
    bool read;
} store;

/* REVISION counts up when there are new ways among which to choose: older choices are then made again. */
enum { REPEATS = 4, REVISION = 4 };
static const float SLOW = 3;
static store stores[DL_MAX_GPUS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the file */

static void driver_version(char *out, size_t size) {
    FILE *f = fopen("/sys/module/nvidia/version", "r");
    int n = 0;
    *out = 0;
    if (f) {
        if (fgets(out, (int)size, f)) out[strcspn(out, "\n")] = 0;
        fclose(f);
    }
    if (!*out && cudaDriverGetVersion(&n) == cudaSuccess) snprintf(out, size, "cuda%d", n);
}

static void find_path(const dl_gpu *g, store *s) {
    struct cudaDeviceProp p;
    char folder[300], version[64];
    if (cudaGetDeviceProperties(&p, g->index) != cudaSuccess || dl_cache_folder("plans", folder, sizeof folder)) return;
    for (char *c = p.name; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    driver_version(version, sizeof version);
    snprintf(s->path, sizeof s->path, "%s/%.64s-driver%.32s-cudnn%ld-cublas%ld-r%d", folder, p.name, version,
             dl_dnn_version(), dl_gemm_version(), REVISION);
}

static bool add(store *s, const char *key, const char *value) {
    if (s->n == s->cap) {
        long cap = s->cap ? 2 * s->cap : 64;
        entry *e = realloc(s->e, (size_t)cap * sizeof *e);
        if (!e) return false;
        s->e = e, s->cap = cap;
    }
    entry e = {strdup(key), strdup(value)};
    if (!e.key || !e.value) return free(e.key), free(e.value), false;
    s->e[s->n++] = e;
    return true;
}

static unsigned sum_of(const char *key, const char *value) {
    char both[2 * DL_PLAN_TEXT + 2];
    int n = snprintf(both, sizeof both, "%s\t%s", key, value);
    return (unsigned)dl_hash(both, n);
}

/* key TAB value TAB sum */
static void read_line(store *s, char *line) {
    char *value = strchr(line, '\t'), *sum = value ? strchr(value + 1, '\t') : NULL, *end;
    if (!sum) return;
    *value++ = 0, *sum++ = 0;
    unsigned long want = strtoul(sum, &end, 16);
    if (end == sum || *end != '\n' || strlen(line) >= DL_PLAN_TEXT || strlen(value) >= DL_PLAN_TEXT) return;
    if (want == sum_of(line, value)) add(s, line, value);
}

/* For reading, when it is a file of the user's that nobody else can write. */
static FILE *open_own(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    bool own = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
               !(st.st_mode & (S_IWGRP | S_IWOTH));
    FILE *f = own ? fdopen(fd, "r") : NULL;
    if (!f && fd >= 0) close(fd);
    return f;
}

static store *store_of(const dl_gpu *g) {
    store *s = &stores[g->index];
    if (s->read) return s;
    s->read = true;
    find_path(g, s);
    FILE *f = *s->path ? open_own(s->path) : NULL;
    char line[2 * DL_PLAN_TEXT + 32];
    while (f && fgets(line, sizeof line, f)) read_line(s, line);
    if (f) fclose(f);
    return s;
}

/* The first entry of a key counts: other processes run with it already. */
static const char *lookup(const store *s, const char *key) {
    for (long i = 0; i < s->n; i++)
        if (!strcmp(s->e[i].key, key)) return s->e[i].value;
    return NULL;
}

bool dl_plan_find(dl_gpu *g, const char *key, char *value) {
    pthread_mutex_lock(&lock);
    const char *found = lookup(store_of(g), key);
    if (found) snprintf(value, DL_PLAN_TEXT, "%s", found);
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

static void append(const store *s, const char *key, const char *value) {
    char line[2 * DL_PLAN_TEXT + 32];
    int n = snprintf(line, sizeof line, "%s\t%s\t%08x\n", key, value, sum_of(key, value));
    int fd = *s->path ? open(s->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (fd < 0) return;
    if (write(fd, line, (size_t)n) != n) errno = 0; /* a torn line fails its check sum */
    close(fd);
}

void dl_plan_keep(dl_gpu *g, const char *key, const char *value) {
    pthread_mutex_lock(&lock);
    store *s = store_of(g);
    if (!lookup(s, key) && add(s, key, value)) append(s, key, value);
    pthread_mutex_unlock(&lock);
}

/* ---- measuring */

dl_status dl_plan_may_measure(dl_gpu *g, const char *what) {
    enum cudaStreamCaptureStatus s = cudaStreamCaptureStatusNone;
    DL_CUDA_TRY(g, cudaStreamIsCapturing(g->stream, &s), "choosing an algorithm");
    if (s == cudaStreamCaptureStatusNone) return DL_OK;
    return dl_fail_hint(DL_ERR_STATE, "run the step once before it is captured",
                        "%s has not run with these shapes yet, and cannot be measured while the stream is captured",
                        what);
}

static float timed(dl_gpu *g, dl_status (*run)(void *), void *arg, cudaEvent_t e[2], int n) {
    float ms = -1;
    cudaError_t s = cudaEventRecord(e[0], g->stream);
    for (int i = 0; i < n && s == cudaSuccess; i++)
        if (run(arg) != DL_OK) return -1;
    if (s == cudaSuccess) s = cudaEventRecord(e[1], g->stream);
    if (s == cudaSuccess) s = cudaEventSynchronize(e[1]);
    if (s == cudaSuccess) s = cudaEventElapsedTime(&ms, e[0], e[1]);
    return dl_gpu_check(g, s, "measuring an algorithm") == DL_OK ? ms / (float)n : -1;
}

float dl_plan_measure(dl_gpu *g, dl_status (*run)(void *), void *arg, float best) {
    cudaEvent_t e[2];
    float ms = -1;
    if (dl_gpu_check(g, cudaEventCreate(&e[0]), "making an event") != DL_OK) return -1;
    if (dl_gpu_check(g, cudaEventCreate(&e[1]), "making an event") == DL_OK) {
        if (run(arg) == DL_OK) ms = timed(g, run, arg, e, 1); /* the first run loads code */
        if (ms >= 0 && (best < 0 || ms < SLOW * best)) ms = timed(g, run, arg, e, REPEATS);
        cudaEventDestroy(e[1]);
    }
    cudaEventDestroy(e[0]);
    if (ms < 0) cudaGetLastError(); /* an error of the library must not be reported by the next launch */
    return ms;
}
