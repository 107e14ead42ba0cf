/* Tables in CSV text (RFC 4180), from memory: for the reader of data sets and the fuzz target. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

/* A table as read. Owned; released by dl_csv_table_free. */
typedef struct dl_csv_table {
    long n, features;
    float *x;       /* [n, features]; NULL with dl_csv_spec.whole */
    int64_t *whole; /* [n, features]; NULL without it */
    long labels;    /* label columns */
    double *y;      /* [n, labels]: labels that are numbers; NaN where they are words */
    char **label;   /* [n, labels]: labels as text */
    char **names;   /* [labels]: of the columns, as the first line has them; "" without a header */
    bool words;     /* some label is a word */
    bool integers;  /* all labels are integers of at most 2^53 */
} dl_csv_table;

typedef struct dl_csv_spec {
    const char *label;  /* columns by name or number, separated by commas; "": the last */
    const char *header; /* "auto", "yes", "no" */
    char sep;
    bool whole; /* features are integers, read exactly */
} dl_csv_spec;

/* Reads a whole table. `t` is released by the caller, also on failure. Errors: DL_ERR_FORMAT with line and column,
 * DL_ERR_NAME (no such label column), DL_ERR_MEMORY. */
dl_status dl_csv_table_read(const char *name, const char *text, size_t n, const dl_csv_spec *spec, dl_csv_table *t);
/* The 64-bit integer that a field is, blanks around it allowed. */
bool dl_csv_whole(const char *field, int64_t *v);
void dl_csv_table_free(dl_csv_table *t);
