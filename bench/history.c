/* Makes the store that bench/history.py reads, by recording: RUNS runs of four metrics over STEPS steps each, with
 * parameters and tags, and a run "long" with one metric over LONG steps. Usage: bench_history FILE RUNS STEPS LONG */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "dlcore.h"

static void must(int good) {
    if (good) return;
    fprintf(stderr, "bench_history: %s\n", dl_errmsg());
    exit(1);
}

static void record(dl_store *s, long i, long steps) {
    static const char *const opts[] = {"adam", "sgd", "lamb"};
    char lr[32], width[32], seed[32];
    double rate = 1e-4 * (double)(1 + i % 97);
    snprintf(lr, sizeof lr, "%g", rate);
    snprintf(width, sizeof width, "%ld", 16 * (1 + i % 8));
    snprintf(seed, sizeof seed, "%ld", i % 5);
    const char *params[] = {"lr", lr,      "opt", opts[i % 3], "width", width, "seed",
                            seed, "batch", "64",  "epochs",    "5",     NULL};
    dl_run_spec spec = {.name = "bench", .cmdline = "bench", .seed = (unsigned long)(i % 5), .params = params};
    dl_run *r = dl_run_begin(s, &spec);
    must(r != NULL);
    if (i % 3 == 0) must(dl_run_tag(s, dl_run_id(r), "cnn", 1) == DL_OK);
    if (i % 50 == 0) must(dl_run_tag(s, dl_run_id(r), "good", 1) == DL_OK);
    for (long k = 0; k < steps; k++) {
        double loss = 2.3 * exp(-rate * (double)k) + 0.1 * sin((double)(i * 7 + k));
        must(dl_metric(r, "train/loss", k, loss) == DL_OK && dl_metric(r, "train/acc", k, 1 / (1 + loss)) == DL_OK &&
             dl_metric(r, "val/loss", k, loss + 0.1) == DL_OK && dl_metric(r, "val/acc", k, 1 / (1.2 + loss)) == DL_OK);
    }
    must(dl_run_end(r, i % 40 ? DL_RUN_FINISHED : DL_RUN_FAILED, NULL) == DL_OK);
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: bench_history FILE RUNS STEPS LONG\n");
        return 2;
    }
    long runs = atol(argv[2]), steps = atol(argv[3]), length = atol(argv[4]);
    dl_store *s = dl_store_open(argv[1]);
    must(s != NULL);
    dl_run *r = dl_run_begin(s, &(dl_run_spec){.name = "long"});
    must(r != NULL);
    for (long k = 0; k < length; k++)
        must(dl_metric(r, "train/loss", k, 2.3 * exp(-1e-5 * (double)k) + 0.1 * sin((double)k)) == DL_OK);
    must(dl_run_end(r, DL_RUN_FINISHED, NULL) == DL_OK);
    for (long i = 0; i < runs; i++) record(s, i, steps);
    must(dl_store_close(s) == DL_OK);
    return 0;
}
