/* What the benchmarks on the GPU share: cases measured with a full queue, and a table of ops. */
#ifndef BENCH_GPU_MEASURE_H
#define BENCH_GPU_MEASURE_H

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dlcore.h"

enum { GPU = 1 };

static inline double bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Milliseconds of one run: the least of several full queues. run returns 0 on failure; the result is then negative,
 * with the error recorded. The first queue may measure algorithms, which heats the device: its clocks then get a second
 * to recover. */
static inline double bench_time(int (*run)(const void *), const void *arg) {
    double best = 1e30, begin = bench_now();
    int n = 3;
    if (!run(arg) || dl_device_synchronize(GPU) != DL_OK) return -1;
    if (bench_now() - begin > 50) sleep(1);
    for (int k = 0; k < 6; k++) {
        double from = bench_now();
        for (int i = 0; i < n; i++)
            if (!run(arg)) return -1;
        if (dl_device_synchronize(GPU) != DL_OK) return -1;
        double each = (bench_now() - from) / n;
        if (k && each < best) best = each;
        if (k == 0) n = each > 20 ? 1 : (int)(20 / (each + 0.001)) + 1;
    }
    return best;
}

/* Prints the name of the GPU; 0, with a message: there is none. */
static inline int bench_begin(void) {
    char text[200] = "";
    if (dl_device_count() < 2) {
        printf("skipped: no GPU (%s)\n", dl_device_missing());
        return 0;
    }
    dl_device_describe(GPU, text, sizeof text);
    printf("# %s\n", text);
    dl_seed(1);
    return 1;
}

/* ---- ops: a table of expressions */

typedef struct bench_case {
    const char *name, *unit; /* of work, "GB": bytes read and written by one run at least */
    double work;
    dl_tensor *(*run)(void);
} bench_case;

static inline int bench_run_case(const void *c) {
    dl_tensor *t = ((const bench_case *)c)->run();
    dl_unref(t);
    return t != NULL;
}

/* Forward and backward of y, a function of in[0 .. n - 1], from a gradient of ones. Gradients are recorded between
 * dl_grad_mode(1) and this. */
static inline dl_tensor *bench_step(dl_tensor *y, dl_tensor **in, int n) {
    dl_tensor *grad[3] = {NULL}, *sum = y && dl_ndim(y) ? dl_sum(y, NULL, 0, 0) : y ? dl_ref(y) : NULL;
    dl_status s = sum ? dl_gradients(sum, NULL, in, n, 0, 0, grad) : DL_ERR_MEMORY;
    dl_grad_mode(0);
    dl_unref(y);
    for (int i = 0; i < n; i++) dl_unref(grad[i]);
    if (s == DL_OK) return sum;
    dl_unref(sum);
    return NULL;
}

/* Runs the cases whose names contain argv[1], after `make` has made what they need. */
static inline int bench_main(int argc, char **argv, const bench_case *cases, int n, void (*make)(void)) {
    if (!bench_begin()) return 0;
    dl_grad_mode(0);
    make();
    for (int i = 0; i < n; i++) {
        if (argc > 1 && !strstr(cases[i].name, argv[1])) continue;
        double ms = bench_time(bench_run_case, &cases[i]);
        if (ms < 0)
            printf("%s\tfailed: %s\n", cases[i].name, dl_errmsg());
        else
            printf("%s\t%.4f\t%.1f\t%s/s\n", cases[i].name, ms, cases[i].work / (ms * 1e-3), cases[i].unit);
        fflush(stdout);
    }
    return 0;
}

#endif
