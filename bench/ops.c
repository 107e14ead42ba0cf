/* Calls and times rows of the op table, as bench/ops.py asks: it reads orders from stdin, a line each with fields
 * parted by tabs, and answers each with one line, "ok ..." or "no MESSAGE". Tensors are kept under numbers. Usage:
 * bench_ops DEVICE [THREADS].
 *
 *   load K DTYPE SHAPE FILE       tensor K from the bytes of a file; SHAPE is a list such as 2,3, "" of none
 *   number K VALUE                a number of the language
 *   turn K L                      tensor K is L with its last two dimensions exchanged
 *   set any                       sums by index may come in any order
 *   set processor                 times are the processor's, which other load of the machine changes little
 *   set thread                    the same of the busiest thread alone: its share of work that threads share
 *   call OP TENSORS ATTRS LEAVES  what `time` is about: TENSORS is a list of K, - of an absent one. With LEAVES, also
 * the gradients by these, from a gradient of ones. Runs it once; answers the result's shape time N runs it N times;
 * answers microseconds of one run */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dlcore.h"

enum { SLOTS = 256, INPUTS = 32, FIELDS = 5, THREADS = 256 };

static dl_tensor *slot[SLOTS];
static int device;
static clockid_t clock_used = CLOCK_MONOTONIC;
static int of_threads; /* times are those of the busiest thread */

static struct {
    char op[64], attrs[512];
    dl_tensor *in[INPUTS], *leaf[INPUTS], *seed;
    int nin, nleaf;
} now;

static double microseconds(clockid_t clock) {
    struct timespec t = {0, 0};
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* The clocks of the processor time of this process's threads, as Linux makes them of numbers of threads. */
static int clocks(clockid_t *out) {
    DIR *dir = of_threads ? opendir("/proc/self/task") : NULL;
    int n = 0;
    if (!dir) return out[0] = clock_used, 1;
    for (struct dirent *e; n < THREADS && (e = readdir(dir));)
        if (atoi(e->d_name) > 0) out[n++] = (clockid_t)(~(unsigned)atoi(e->d_name) << 3 | 6);
    closedir(dir);
    return n;
}

/* What the clocks show. */
typedef struct reading {
    int n;
    clockid_t clock[THREADS];
    double us[THREADS];
} reading;

static void take(reading *r) {
    r->n = clocks(r->clock);
    for (int i = 0; i < r->n; i++) r->us[i] = microseconds(r->clock[i]);
}

/* The most that one of them has advanced; that of a new thread began at 0. */
static double most_since(const reading *before) {
    static reading now;
    double most = 0;
    take(&now);
    for (int i = 0; i < now.n; i++) {
        double passed = now.us[i];
        for (int k = 0; k < before->n; k++)
            if (before->clock[k] == now.clock[i]) passed -= before->us[k];
        if (passed > most) most = passed;
    }
    return most;
}

/* Fields of a line in place. */
static int split(char *line, char parting, char **out, int most) {
    int n = 0;
    for (char *at = line; at && n < most;) {
        out[n++] = at;
        at = strchr(at, parting);
        if (at) *at++ = 0;
    }
    return n;
}

static int put(const char *k, dl_tensor *t) {
    int i = atoi(k);
    if (!t || i < 0 || i >= SLOTS) return 0;
    dl_unref(slot[i]);
    slot[i] = t;
    return 1;
}

static int load(char **f) {
    char *part[8];
    long shape[8], bytes;
    int n = *f[3] ? split(f[3], ',', part, 8) : 0;
    dl_dtype dtype;
    if (dl_dtype_parse(f[2], &dtype) != DL_OK) return 0;
    bytes = dl_dtype_size(dtype);
    for (int i = 0; i < n; i++) bytes *= shape[i] = atol(part[i]);
    void *data = malloc((size_t)bytes + 1);
    FILE *file = fopen(f[4], "rb");
    size_t got = data && file ? fread(data, 1, (size_t)bytes, file) : 0;
    if (file) fclose(file);
    dl_tensor *t = got == (size_t)bytes ? dl_tensor_from(n, shape, dtype, device, data) : NULL;
    free(data);
    return put(f[1], t);
}

static int number(char **f) {
    return put(f[1], strpbrk(f[2], ".en") ? dl_scalar_f(atof(f[2])) : dl_scalar_i(atol(f[2])));
}

static int turn(char **f) {
    dl_tensor *in = slot[atoi(f[2])];
    long dims[8];
    for (int i = 0; i < dl_ndim(in); i++) dims[i] = i;
    dims[dl_ndim(in) - 1]--, dims[dl_ndim(in) - 2]++;
    return put(f[1], dl_permute(in, dims, dl_ndim(in)));
}

static int set(char **f) {
    if (!strcmp(f[1], "any")) return dl_deterministic_set(0), 1;
    if (!strcmp(f[1], "thread")) return of_threads = 1;
    return !strcmp(f[1], "processor") ? clock_used = CLOCK_PROCESS_CPUTIME_ID, 1 : 0;
}

/* The first result; the others are released. */
static dl_tensor *result(void) {
    dl_tensor *out[8] = {NULL};
    int n = 0;
    if (dl_op_call(now.op, now.in, now.nin, now.attrs, out, &n) != DL_OK) return NULL;
    for (int i = 1; i < n; i++) dl_unref(out[i]);
    return out[0];
}

static dl_tensor *run(void) {
    dl_tensor *y = result(), *grad[INPUTS] = {NULL};
    if (!y || !now.nleaf) return y;
    if (!now.seed && !(now.seed = dl_ones(dl_shape(y), dl_ndim(y), (int)dl_dtype_of(y), device)))
        return dl_unref(y), NULL;
    dl_status s = dl_gradients(y, now.seed, now.leaf, now.nleaf, 0, 0, grad);
    for (int i = 0; i < now.nleaf; i++) dl_unref(grad[i]);
    if (s == DL_OK) return y;
    dl_unref(y);
    return NULL;
}

/* Tensors by their numbers; -1: one is not there. */
static int pick(char *list, dl_tensor **out) {
    char *part[INPUTS];
    int n = *list ? split(list, ',', part, INPUTS) : 0;
    for (int i = 0; i < n; i++) {
        int k = *part[i] == '-' ? -1 : atoi(part[i]);
        out[i] = k >= 0 && k < SLOTS ? slot[k] : NULL;
        if (k >= 0 && !out[i]) return -1;
    }
    return n;
}

static int call(char **f) {
    for (int i = 0; i < now.nleaf; i++) dl_set_requires_grad(now.leaf[i], 0);
    dl_unref(now.seed);
    now.seed = NULL;
    snprintf(now.op, sizeof now.op, "%s", f[1]);
    snprintf(now.attrs, sizeof now.attrs, "%s", f[3]);
    now.nin = pick(f[2], now.in), now.nleaf = pick(f[4], now.leaf);
    if (now.nin < 0 || now.nleaf < 0) return now.nleaf = 0;
    dl_grad_mode(now.nleaf > 0);
    for (int i = 0; i < now.nleaf; i++) dl_set_requires_grad(now.leaf[i], 1);
    dl_tensor *y = run();
    if (!y || dl_device_synchronize(device) != DL_OK) return dl_unref(y), 0;
    printf("ok ");
    for (int i = 0; i < dl_ndim(y); i++) printf("%s%ld", i ? "," : "", dl_shape(y)[i]);
    printf("\n");
    dl_unref(y);
    return 2;
}

static int measure(char **f) {
    long n = atol(f[1]);
    static reading before;
    take(&before);
    for (long i = 0; i < n; i++) {
        dl_tensor *y = run();
        if (!y) return 0;
        dl_unref(y);
    }
    if (dl_device_synchronize(device) != DL_OK) return 0;
    printf("ok %.4f\n", most_since(&before) / (double)n);
    return 2;
}

static const struct {
    const char *name;
    int fields;
    int (*run)(char **f); /* 0 failed, 1 done, 2 done and answered */
} orders[] = {{"load", 5, load}, {"number", 3, number}, {"turn", 3, turn},
              {"set", 2, set},   {"call", 5, call},     {"time", 2, measure}};

static void obey(char *line) {
    char *f[FIELDS];
    int n = split(line, '\t', f, FIELDS), done = 0;
    dl_error_clear();
    for (unsigned i = 0; i < sizeof orders / sizeof *orders; i++)
        if (!strcmp(f[0], orders[i].name) && n == orders[i].fields) done = orders[i].run(f);
    if (!done) {
        char text[300];
        snprintf(text, sizeof text, "%s", dl_errmsg());
        text[strcspn(text, "\n")] = 0;
        printf("no %s\n", *text ? text : "not understood");
    } else if (done == 1) {
        printf("ok\n");
    }
    fflush(stdout);
}

int main(int argc, char **argv) {
    static char line[4096];
    device = argc > 1 && !strcmp(argv[1], "cuda");
    if (device && dl_device_count() < 2) {
        printf("no GPU: %s\n", dl_device_missing());
        return 1;
    }
    if (argc > 2 && dl_threads_set(atoi(argv[2])) != DL_OK) return 1;
    printf("ok\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        obey(line);
    }
    return 0;
}
