/* Arguments checked against rows of options, for layers, optimizers and schedules alike. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

enum { DL_OPT_MAX = 16, DL_OPT_LIST = 16 };

/* How rows are written in the .def tables: O(name, "aliases", KIND, "default", "doc"). */
#define O(id, other, k, def, text) {#id, other, DL_ARG_##k, def, text},
#define OPTIONS(npos, ...) .options = (const dl_option_row[]){__VA_ARGS__{0}}, .positional = npos,
#define NO_OPTIONS .options = (const dl_option_row[]){{0}},

/* A checked value. */
typedef struct dl_optval {
    bool given; /* false: absent */
    bool set;   /* by the caller, not by default */
    int n;
    union {
        long i;
        double f;
        long v[DL_OPT_LIST];
        double fv[DL_OPT_LIST];
        char s[128];
    } u;
} dl_optval;

/* Checks args against the row and fills val[count] with what is given, else with defaults. `what` is "layer" or
 * "optimizer". *bad (may be NULL): the argument at fault, -1 when none is. */
dl_status dl_options_read(const char *what, const dl_kind_row *row, const dl_arg *args, int nargs, dl_optval *val,
                          int *bad);
/* The same, but what is not given keeps its value in val: for groups of parameters. */
dl_status dl_options_change(const char *what, const dl_kind_row *row, const dl_arg *args, int nargs, dl_optval *val,
                            int *bad);
/* Index of an option by name or alias; -1 when there is none. */
int dl_option_find(const dl_kind_row *row, const char *name);
/* The value of an option of the row; asserts that there is one. */
const dl_optval *dl_option(const dl_kind_row *row, const dl_optval *val, const char *name);
static inline double dl_option_f(const dl_kind_row *row, const dl_optval *val, const char *name) {
    return dl_option(row, val, name)->u.f;
}
static inline long dl_option_i(const dl_kind_row *row, const dl_optval *val, const char *name) {
    return dl_option(row, val, name)->u.i;
}

/* One value as text that reads back: "3", "[1, 2]", "0.001". */
void dl_optval_text(const dl_option_row *o, const dl_optval *v, char *out, size_t size);

/* A row among n by name or alias (rows lie `stride` bytes apart); -1 when there is none. */
int dl_kind_find(const dl_kind_row *rows, int n, size_t stride, const char *name);
/* DL_ERR_NAME "there is no WHAT called NAME" with the nearest one as hint. */
dl_status dl_kind_unknown(const char *what, const dl_kind_row *rows, int n, size_t stride, const char *name);

/* A growing string. */
typedef struct dl_text {
    char *s;
    size_t n, cap;
    bool failed; /* out of memory */
} dl_text;
void dl_text_add(dl_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The string, owned by the caller; NULL, error recorded, when memory ran out. */
char *dl_text_take(dl_text *t);
