/* Costs of the experiment store: a push, the writer, a list of many runs. Usage: bench_store [FOLDER]; the database is
 * made in FOLDER (default: the current one) and removed at the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "dlcore.h"

enum { SAMPLES = 200000, DRAIN = 2000000, RUNS = 500, STEPS = 10000, SERIES = 4 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(int good) {
    if (good) return;
    fprintf(stderr, "bench_store: %s\n", dl_errmsg());
    exit(1);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Latency of single pushes at about 300,000 a second, without the cost of reading the clock. */
static void push_latency(dl_store *s) {
    static const char *const keys[] = {"train/loss", "train/acc", "lr", "grad_norm"};
    dl_run *r = dl_run_begin(s, NULL);
    must(r != NULL);
    double *t = malloc(SAMPLES * sizeof *t), clock_cost = 1;
    must(t != NULL);
    for (int i = 0; i < 1000; i++) {
        double a = now(), b = now();
        if (b - a < clock_cost) clock_cost = b - a;
    }
    for (int i = 0; i < SAMPLES; i++) {
        double a = now();
        must(dl_metric(r, keys[i & 3], i / 4, 1.0 / (1 + i)) == DL_OK);
        t[i] = now() - a - clock_cost;
        while (now() - a < 3.3e-6) {}
    }
    qsort(t, SAMPLES, sizeof *t, by_value);
    printf("push by name      median %.0f ns   99%% %.0f ns   99.99%% %.0f ns\n", 1e9 * t[SAMPLES / 2],
           1e9 * t[SAMPLES - SAMPLES / 100], 1e9 * t[SAMPLES - SAMPLES / 10000]);
    dl_series *x = dl_series_of(r, "train/loss");
    must(x != NULL);
    double a = now();
    for (int i = 0; i < 100000; i++) must(dl_series_push(x, 100000 + i, i) == DL_OK);
    printf("push by handle    mean %.0f ns in a tight loop of 100,000\n", 1e9 * (now() - a) / 1e5);
    must(dl_run_end(r, DL_RUN_FINISHED, NULL) == DL_OK);
    free(t);
}

static void drain_rate(dl_store *s, int nseries) {
    dl_run *r = dl_run_begin(s, NULL);
    must(r != NULL);
    dl_series *x[1000];
    for (int i = 0; i < nseries; i++) {
        char key[32];
        snprintf(key, sizeof key, "series/%d", i);
        must((x[i] = dl_series_of(r, key)) != NULL);
    }
    double a = now();
    for (long i = 0; i < DRAIN; i++) must(dl_series_push(x[i % nseries], i / nseries, (double)i) == DL_OK);
    must(dl_store_flush(s) == DL_OK);
    printf("drain             %.0f points/s, %d series, committed with full durability\n", DRAIN / (now() - a),
           nseries);
    must(dl_run_end(r, DL_RUN_FINISHED, NULL) == DL_OK);
}

static void list_time(dl_store *s) {
    static const char *const keys[SERIES] = {"train/loss", "train/acc", "test/loss", "test/acc"};
    double a = now();
    for (int i = 0; i < RUNS; i++) {
        char lr[32];
        snprintf(lr, sizeof lr, "%g", 1e-4 * (1 + i % 7));
        const char *params[] = {"lr", lr, "opt", "adam", "batch", "64", "epochs", "5", NULL};
        dl_run_spec spec = {.name = "bench", .cmdline = "bench", .params = params};
        dl_run *r = dl_run_begin(s, &spec);
        must(r != NULL);
        for (int step = 0; step < STEPS; step++)
            for (int k = 0; k < SERIES; k++) must(dl_metric(r, keys[k], step, (double)(i * k) / (1 + step)) == DL_OK);
        must(dl_run_end(r, DL_RUN_FINISHED, NULL) == DL_OK);
    }
    printf("made              %d runs x %d steps x %d series in %.1f s\n", RUNS, STEPS, SERIES, now() - a);
    double best[3] = {1e9, 1e9, 1e9};
    for (int round = 0; round < 5; round++) {
        dl_run_query q[2] = {{0}, {.where = "lr >= 2e-4 and test/loss < 100", .sort = "test/loss"}};
        for (int i = 0; i < 2; i++) {
            a = now();
            dl_run_list *l = dl_run_query_list(s, &q[i]);
            must(l != NULL && l->n >= RUNS / 2 && l->runs[0].nparam == 4);
            if (now() - a < best[i]) best[i] = now() - a;
            dl_run_list_free(l);
        }
        a = now();
        dl_ranking *r = dl_run_best(s, "test/loss", 0, NULL, 1);
        must(r != NULL);
        if (now() - a < best[2]) best[2] = now() - a;
        dl_ranking_free(r);
    }
    printf("list all runs     %.1f ms\nfilter and sort   %.1f ms\nbest              %.1f ms\n", 1e3 * best[0],
           1e3 * best[1], 1e3 * best[2]);
}

int main(int argc, char **argv) {
    char path[4096], extra[4200];
    snprintf(path, sizeof path, "%s/bench-%ld.db", argc > 1 ? argv[1] : ".", (long)getpid());
    dl_store *s = dl_store_open(path);
    must(s != NULL);
    push_latency(s);
    drain_rate(s, 4);
    drain_rate(s, 1000);
    list_time(s);
    char text[512];
    while (dl_store_warning(s, text, sizeof text)) printf("warning: %s\n", text);
    must(dl_store_close(s) == DL_OK);
    struct stat st;
    if (!stat(path, &st))
        printf("file              %.1f bytes a point\n",
               (double)st.st_size / (SAMPLES + 100000.0 + 2.0 * DRAIN + (double)RUNS * STEPS * SERIES));
    unlink(path);
    for (const char *const *end = (const char *const[]){"-wal", "-shm", NULL}; *end; end++) {
        snprintf(extra, sizeof extra, "%s%s", path, *end);
        unlink(extra);
    }
    return 0;
}
