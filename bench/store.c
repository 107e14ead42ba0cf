/* What recording costs: a push, four processes at once, opening and ending a run beside seven that write, commits.
 * Usage: bench_store [FOLDER [SECONDS]]; databases are made in FOLDER (default: the current one) and removed at the
 * end. SECONDS is how long pushes are measured, 10. bench/history.py measures the commands that read. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "dlcore.h"

enum { RATE = 300000, DRAIN = 2000000, WRITERS = 4, EACH = 1000000, OTHERS = 7, TURNS = 40 };

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

/* A figure beside what it should stay below, or above when `above`. */
static void line(const char *what, const char *unit, double figure, double target, int above) {
    char goal[48] = "", got[48];
    snprintf(got, sizeof got, "%.*f %s", figure < 100, figure, unit);
    if (target) snprintf(goal, sizeof goal, "%s %.0f %s", above ? "above" : "below", target, unit);
    const char *verdict = !target ? "" : (above ? figure > target : figure < target) ? "met" : "MISSED";
    printf("%-44s %18s   %-22s %s\n", what, got, goal, verdict);
    fflush(stdout);
}

/* ---------------------------------------------------------------- a store that is removed again */

typedef struct place {
    char path[4096];
} place;

static dl_store *open_new(place *p, const char *folder) {
    snprintf(p->path, sizeof p->path, "%s/bench-%ld.db", folder, (long)getpid());
    dl_store *s = dl_store_open(p->path);
    must(s != NULL);
    return s;
}

static void remove_store(const place *p) {
    char name[4200];
    for (const char *const *end = (const char *const[]){"", "-wal", "-shm", NULL}; *end; end++) {
        snprintf(name, sizeof name, "%s%s", p->path, *end);
        unlink(name);
    }
}

/* ---------------------------------------------------------------- pushes */

static double clock_cost(void) {
    double least = 1;
    for (int i = 0; i < 1000; i++) {
        double a = now(), b = now();
        if (b - a < least) least = b - a;
    }
    return least;
}

/* Latency of single pushes at 300,000 a second, without the cost of reading the clock. The scheduler's turns of other
 * processes are in the slowest ones: how often this thread lost its core stands beside them. */
static void push_latency(dl_store *s, double seconds) {
    static const char *const keys[] = {"train/loss", "train/acc", "lr", "grad_norm"};
    long n = (long)(seconds * RATE);
    struct rusage before, after;
    dl_run *r = dl_run_begin(s, NULL);
    must(r != NULL);
    double *t = malloc((size_t)n * sizeof *t), clock = clock_cost();
    must(t != NULL);
    for (long i = 0; i < n; i++) t[i] = 0; /* its pages are there before the first push */
    getrusage(RUSAGE_THREAD, &before);
    double begin = now();
    for (long i = 0; i < n; i++) {
        double a = now();
        must(dl_metric(r, keys[i & 3], i / 4, 1.0 / (double)(1 + i)) == DL_OK);
        t[i] = now() - a - clock;
        while (now() < begin + (double)(i + 1) / RATE) {}
    }
    double took = now() - begin;
    getrusage(RUSAGE_THREAD, &after);
    must(dl_store_flush(s) == DL_OK);
    qsort(t, (size_t)n, sizeof *t, by_value);
    line("push by name at the rate below: median", "ns", 1e9 * t[n / 2], 100, 0);
    line("  99 %", "ns", 1e9 * t[n - n / 100], 0, 0);
    line("  99.99 %", "us", 1e6 * t[n - n / 10000], 50, 0);
    line("  the slowest", "us", 1e6 * t[n - 1], 0, 0);
    line("  turns of other threads on this core", "", (double)(after.ru_nivcsw - before.ru_nivcsw), 0, 0);
    line("  the rate, that no stall held up", "points/s", (double)n / took, 0.99 * RATE, 1);
    dl_series *x = dl_series_of(r, "train/loss");
    must(x != NULL);
    double a = now();
    for (int i = 0; i < 100000; i++) must(dl_series_push(x, n + i, i) == DL_OK);
    line("push by handle, mean of 100,000", "ns", 1e9 * (now() - a) / 1e5, 0, 0);
    must(dl_run_end(r, DL_RUN_FINISHED, NULL) == DL_OK);
    free(t);
}

/* Points a second until all are committed with full durability. Returns how many pushes were refused and repeated. */
static long drain_rate(dl_store *s, int nseries, long n, const char *what) {
    dl_run *r = dl_run_begin(s, NULL);
    must(r != NULL);
    dl_series *x[1000];
    for (int i = 0; i < nseries; i++) {
        char key[32];
        snprintf(key, sizeof key, "series/%d", i);
        must((x[i] = dl_series_of(r, key)) != NULL);
    }
    long refused = 0;
    double a = now();
    for (long i = 0; i < n; i++)
        while (dl_series_push(x[i % nseries], i / nseries, (double)i) != DL_OK) refused++;
    must(dl_store_flush(s) == DL_OK);
    if (what) line(what, "points/s", (double)n / (now() - a), 0, 1);
    must(dl_run_end(r, DL_RUN_FINISHED, NULL) == DL_OK);
    return refused;
}

/* ---------------------------------------------------------------- several processes */

/* Waits for n processes; they are to have ended well. */
static void wait_all(const pid_t *pids, int n) {
    for (int i = 0; i < n; i++) {
        int status = 0;
        if (waitpid(pids[i], &status, 0) != pids[i] || !WIFEXITED(status) || WEXITSTATUS(status)) {
            fprintf(stderr, "bench_store: a process that wrote has failed\n");
            exit(1);
        }
    }
}

/* The processes open the store themselves: a child writes nothing into one that its parent has open. They push as fast
 * as they can, so that their rings are full and they compete for the write lock. */
static void four_writers(const char *folder) {
    place p;
    int refusals[2];
    long refused = 0, one;
    pid_t pids[WRITERS];
    must(dl_store_close(open_new(&p, folder)) == DL_OK);
    if (pipe(refusals)) exit(1);
    fflush(stdout);
    double a = now();
    for (int i = 0; i < WRITERS; i++)
        if (!(pids[i] = fork())) {
            dl_store *s = dl_store_open(p.path);
            must(s != NULL);
            one = drain_rate(s, 4, EACH, NULL);
            must(dl_store_close(s) == DL_OK && write(refusals[1], &one, sizeof one) == sizeof one);
            _exit(0);
        }
    wait_all(pids, WRITERS);
    line("four processes, from start to end", "points/s", (double)WRITERS * EACH / (now() - a), 200000, 1);
    for (int i = 0; i < WRITERS && read(refusals[0], &one, sizeof one) == sizeof one; i++) refused += one;
    line("  pushes refused", "", (double)refused, 1, 0);
    for (int i = 0; i < 2; i++) close(refusals[i]);
    remove_store(&p);
}

/* 10 points of 4 metrics a millisecond, until the pipe is closed; the byte tells that it has begun. */
static void write_on(const char *path, int ready, int stop) {
    static const char *const keys[] = {"train/loss", "train/acc", "lr", "grad_norm"};
    dl_store *s = dl_store_open(path);
    must(s != NULL);
    dl_run *r = dl_run_begin(s, NULL);
    must(r != NULL && write(ready, "", 1) == 1);
    for (long i = 0; getppid() != 1; i++) {
        char byte;
        must(dl_metric(r, keys[i & 3], i / 4, (double)i) == DL_OK);
        if (i % 10) continue;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        if (!read(stop, &byte, 1)) break;
    }
    must(dl_run_end(r, DL_RUN_FINISHED, NULL) == DL_OK && dl_store_close(s) == DL_OK);
    _exit(0);
}

static void quantiles(const char *what, double *t, int n, double target) {
    char text[64];
    qsort(t, (size_t)n, sizeof *t, by_value);
    snprintf(text, sizeof text, "%s: median", what);
    line(text, "ms", 1e3 * t[n / 2], target, 0);
    line("  90 %", "ms", 1e3 * t[n - 1 - n / 10], 0, 0);
    line("  the slowest", "ms", 1e3 * t[n - 1], 0, 0);
}

static void beside_others(const char *folder) {
    place p;
    pid_t pids[OTHERS];
    int ready[2], stop[2];
    double begin[TURNS], end[TURNS];
    char byte;
    dl_store *s = open_new(&p, folder);
    must(dl_store_close(s) == DL_OK);
    if (pipe(ready) || pipe2(stop, O_NONBLOCK)) exit(1);
    fflush(stdout);
    for (int i = 0; i < OTHERS; i++)
        if (!(pids[i] = fork())) {
            close(stop[1]);
            write_on(p.path, ready[1], stop[0]);
        }
    for (int i = 0; i < OTHERS; i++) must(read(ready[0], &byte, 1) == 1);
    s = dl_store_open(p.path);
    must(s != NULL);
    for (int i = 0; i < TURNS; i++) {
        double a = now();
        dl_run *r = dl_run_begin(s, NULL);
        must(r != NULL);
        begin[i] = now() - a;
        must(dl_metric(r, "loss", 0, 1) == DL_OK);
        a = now();
        must(dl_run_end(r, DL_RUN_FINISHED, NULL) == DL_OK);
        end[i] = now() - a;
    }
    close(stop[1]);
    wait_all(pids, OTHERS);
    must(dl_store_close(s) == DL_OK);
    quantiles("opening a run beside seven that write", begin, TURNS, 20);
    quantiles("ending it", end, TURNS, 20);
    for (int i = 0; i < 2; i++) close(ready[i]);
    close(stop[0]);
    remove_store(&p);
}

int main(int argc, char **argv) {
    const char *folder = argc > 1 ? argv[1] : ".";
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 10;
    place p;
    char text[512];
    struct stat st;
    if (!(seconds > 0)) {
        fprintf(stderr, "usage: bench_store [FOLDER [SECONDS]]\n");
        return 2;
    }
    four_writers(folder); /* those that fork come first: the process has no threads yet */
    beside_others(folder);
    dl_store *s = open_new(&p, folder);
    push_latency(s, seconds);
    drain_rate(s, 4, DRAIN, "committed, 4 series");
    drain_rate(s, 1000, DRAIN, "committed, 1000 series");
    while (dl_store_warning(s, text, sizeof text)) printf("warning: %s\n", text);
    must(dl_store_close(s) == DL_OK);
    if (!stat(p.path, &st))
        line("the file", "bytes a point", (double)st.st_size / (seconds * RATE + 100000.0 + 2.0 * DRAIN), 0, 0);
    remove_store(&p);
    return 0;
}
