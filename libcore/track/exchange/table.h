/* Tables of text files as they are imported: rows of named fields, from CSV or from JSON. */
#pragma once

#include "track/exchange/intake.h"

typedef struct dl_fields {
    struct dl_field {
        char *name, *value; /* value NULL: this row has none; "" of CSV counts as none */
        size_t room;        /* of the value */
        char *text;         /* memory of the value */
    } * field;
    long n, cap;
    long row;         /* from 1, for messages */
    const char *path; /* of the file, for messages */
} dl_fields;

/* The value of a field; NULL: none. */
const char *dl_field(const dl_fields *f, const char *name);
int dl_field_has(const dl_fields *f, const char *name);
/* Records what is wrong with a field of this row. */
dl_status dl_field_wrong(const dl_fields *f, const char *name, const char *value, const char *want);
/* A whole number, a number (NaN, Infinity; where it is none: NaN), a time; of absent ones *out stays. */
dl_status dl_field_whole(const dl_fields *f, const char *name, int64_t *out);
dl_status dl_field_number(const dl_fields *f, const char *name, double *out);
dl_status dl_field_when(const dl_fields *f, const char *name, int64_t *us);

/* Takes rows: the first decides what the table is. */
typedef struct dl_table_taker {
    dl_intake *in;
    const struct dl_layout *layout; /* NULL: before the first row */
    int program;                    /* what the caller says it comes from, 0: anything */
    dl_fields fields;
    long run; /* of the last row; -1 */
    char *run_key;
} dl_table_taker;
dl_status dl_table_take(dl_table_taker *t);
void dl_table_free(dl_table_taker *t);

/* A file of such rows. */
dl_status dl_table_read_csv(dl_table_taker *t, const char *path);
dl_status dl_table_read_jsonl(dl_table_taker *t, const char *path);
/* What TensorBoard downloads as JSON: a list of [wall time, step, value]. */
dl_status dl_table_read_json(dl_table_taker *t, const char *path);
/* The row anew: fields keep their names, and lose their values. Sets one, making it. */
void dl_fields_clear(dl_fields *f);
dl_status dl_fields_set(dl_fields *f, const char *name, const char *value);
