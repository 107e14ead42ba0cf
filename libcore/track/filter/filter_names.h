/* Names in filters: columns, tags, parameters and metrics of runs, each with its type. */
#pragma once

#include "track/query.h"

typedef enum dl_filter_kind { DL_FK_COLUMN, DL_FK_TAG, DL_FK_PARAM, DL_FK_METRIC } dl_filter_kind;
typedef enum dl_filter_type {
    DL_FY_NUMBER,
    DL_FY_TEXT,
    DL_FY_STATUS,   /* one of the words of dl_run_status */
    DL_FY_DATE,     /* seconds since 1970 */
    DL_FY_DURATION, /* seconds */
    DL_FY_EITHER,   /* a parameter: some runs have numbers, others text */
} dl_filter_type;

typedef struct dl_filter_name {
    dl_filter_kind kind;
    dl_filter_type type;
    const char *sql; /* column, or statistic of a metric */
    char key[DL_RING_KEY_MAX + 1];
} dl_filter_name;

/* Finds what a name stands for; statistic is the word before "(", or NULL. Errors: DL_ERR_NAME. */
dl_status dl_filter_find(sqlite3 *db, const char *statistic, const char *name, dl_filter_name *out);
/* Is there a parameter of this name, and of what type are its values? */
int dl_filter_param(sqlite3 *db, const char *name, dl_filter_type *type);

/* Hints for conditions that fail (filter_values.c). `live` is the SQL condition on "run as r" for the runs that count.
 */

/* "its values are adam, sgd, ...", in order, or by distance to `wanted`; "" where there are none. */
void dl_filter_values(sqlite3 *db, const dl_filter_name *name, const char *live, const char *wanted, char *out,
                      size_t size);
/* "it lies between 0.1 and 0.5"; "" where there are no values. */
void dl_filter_range(sqlite3 *db, const dl_filter_name *name, const char *live, char *out, size_t size);
