/* The formats in which runs leave the store and come into it, and what their files share. */
#pragma once

#include <stdio.h>

#include "io/format.h"
#include "track/exchange/intake.h"
#include "track/query.h"

/* What is to be written: runs by their ids, the reading connection locked. */
typedef struct dl_leaving {
    sqlite3 *db;
    const long *ids;
    long n;
    dl_format text; /* csv.c: how rows are written */
} dl_leaving;

/* A column of microseconds since 1970 as ISO 8601, in SQL. */
#define DL_SQL_ISO(us)                                                                                                 \
    "strftime('%Y-%m-%dT%H:%M:%S', " us " / 1000000, 'unixepoch') || printf('.%06dZ', " us " % 1000000)"
/* Text in the notation of CSV, and of JSON. */
void dl_put_csv(FILE *f, const char *text);
void dl_put_json(FILE *f, const char *text);

/* Writers (export.c, export_runs.c). */
dl_status dl_export_points(const dl_leaving *l, FILE *f);
dl_status dl_export_runs(const dl_leaving *l, FILE *f);
