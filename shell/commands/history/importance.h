/* Runs beside what they were given: the parameters that differ, and one figure of each run. */
#pragma once

#include "commands/history/history.h"

typedef struct dlsh_factors {
    dl_run_list *list;
    const dl_run_info **runs; /* those with the figure */
    double *figure;
    const char **params; /* names of the parameters that differ among them */
    int n, nparams;
    char metric[128], label[160]; /* "val/loss", "min(val/loss)" */
    int direction;                /* 1: more is better */
} dlsh_factors;

/* Reads what the argument `metric` and the options that choose runs say. DL_ERR_NAME: no run has the figure. */
dl_status dlsh_factors_read(const dlsh_args *a, dlsh_factors *f);
void dlsh_factors_free(dlsh_factors *f);
/* The value of a parameter of a run; NULL: it has none. */
const dl_param_info *dlsh_factor_of(const dl_run_info *r, const char *param);

#define DLSH_FACTORS_METRIC                                                                                            \
    {                                                                                                                  \
        "metric", DLSH_ARG_WORD,                                                                                       \
            .doc =                                                                                                     \
                "a metric, of which the best counts, or min(...), max(...), last(...), first(...), mean(...) of one",  \
            .complete = "metric"                                                                                       \
    }
#define DLSH_FACTORS_RUNS                                                                                              \
    { "runs", DLSH_ARG_WORD, .flags = DLSH_VARIADIC, .doc = "runs; all when left out", .complete = "run" }
