/* The space of a sweep: which values each parameter takes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/history/sweep.h"
#include "lang/eval/interp.h"

static dl_status bad_value(dlsh_session *s, const dlsh_node *node, const char *name, const char *what) {
    return dlsh_at(s, node,
                   dlsh_fail(DL_ERR_VALUE, "lr=[0.1, 0.01], lr=logspace(1e-4, 1e-1, 7), lr=loguniform(1e-4, 1e-1)",
                             "%s cannot be swept over %s", name, what));
}

/* ---------------------------------------------------------------- ranges */

/* Functions that have a meaning of their own here: numbers between two ends. */
static const struct range_of {
    const char *name;
    int nargs, log, whole;
} ranges[] = {
    {"uniform", 2, 0, 0}, {"loguniform", 2, 1, 0}, {"randint", 2, 0, 1}, {"logrange", 2, 1, 1}, {"logspace", 3, 1, 0}};

static const struct range_of *range_of(const dlsh_node *n) {
    if (n->kind != DLSH_N_CALL || n->kids[0]->kind != DLSH_N_NAME) return NULL;
    for (size_t i = 0; i < DLSH_COUNT(ranges); i++)
        if (!strcmp(ranges[i].name, n->kids[0]->text)) return &ranges[i];
    return NULL;
}

static dl_status arguments(dlsh_session *s, const dlsh_node *n, const struct range_of *r, double *x) {
    if (n->nkids - 1 != r->nargs)
        return dlsh_at(s, n,
                       dlsh_fail(DL_ERR_VALUE, r->nargs == 2 ? "FROM, TO" : "FROM, TO, HOW MANY",
                                 "%s takes %d numbers in a sweep", r->name, r->nargs));
    for (int i = 0; i < r->nargs; i++) {
        DLSH_DROPPED dlsh_value v = dlsh_void();
        DLSH_TRY(dlsh_eval(s, n->kids[i + 1], &v));
        int number = dlsh_is_number(v);
        x[i] = number ? dlsh_number(v) : 0;
        if (!number) return bad_value(s, n->kids[i + 1], r->name, "what is no number");
    }
    return DL_OK;
}

/* 12 digits: 0.001, not 0.0010000000000000002. */
static double rounded(double x) {
    char text[40];
    snprintf(text, sizeof text, "%.12g", x);
    return strtod(text, NULL);
}

/* logspace(A, B, N): N numbers from A to B, each the same multiple of the one before; with an A of 0 or less the
 * exponents, as the function has them. */
static dl_status spaced(const double *x, dlsh_value *values) {
    long n = (long)x[2];
    double from = x[0] > 0 && x[1] > 0 ? log(x[0]) : x[0] * M_LN10,
           to = x[0] > 0 && x[1] > 0 ? log(x[1]) : x[1] * M_LN10;
    *values = dlsh_new_list(n);
    if (dlsh_failed(*values)) return dl_failed();
    for (long i = 0; i < n; i++)
        DLSH_TRY(dlsh_append(
            *values, dlsh_float(rounded(exp(n > 1 ? from + (to - from) * (double)i / (double)(n - 1) : from)))));
    return DL_OK;
}

/* ---------------------------------------------------------------- values */

/* A value that a script can take as an argument; tensors of one element become numbers. Takes v. */
static dl_status add_value(dlsh_session *s, const dlsh_node *node, const char *name, dlsh_value values, dlsh_value v) {
    double x;
    if (v.type == DLSH_TENSOR && dl_numel(v.as.tensor) == 1) {
        int whole = dl_dtype_of(v.as.tensor) == DL_I64 || dl_dtype_of(v.as.tensor) == DL_I32;
        char text[40];
        dl_status st = dl_item_f(v.as.tensor, &x);
        snprintf(text, sizeof text, dl_dtype_of(v.as.tensor) == DL_F64 ? "%.12g" : "%.7g", x);
        dlsh_drop(v);
        DLSH_TRY(st);
        v = whole ? dlsh_int((long)x) : dlsh_float(strtod(text, NULL));
    }
    const char *function = v.type == DLSH_BUILTIN || v.type == DLSH_OP ? dlsh_function_name(v) : NULL;
    if (function) {
        dlsh_value word = dlsh_string(function);
        dlsh_drop(v);
        v = word;
    }
    if (v.type == DLSH_STR || v.type == DLSH_BOOL || dlsh_is_number(v)) return dlsh_append(values, v);
    char what[80];
    snprintf(what, sizeof what, "%s: values are numbers, strings, true or false", dlsh_a(v));
    dlsh_drop(v);
    return bad_value(s, node, name, what);
}

static dl_status add_all(dlsh_session *s, const dlsh_node *node, const char *name, dlsh_value over, dlsh_value values) {
    dlsh_iter it = {0};
    DLSH_TRY(dlsh_iter_begin(s, over, &it));
    dl_status st = DL_OK;
    for (int done = 0; !st && !done;) {
        dlsh_value v = dlsh_void();
        st = dlsh_iter_next(s, &it, &v, &done);
        if (!st && !done) st = add_value(s, node, name, values, v);
    }
    dlsh_iter_end(&it);
    return st;
}

static dl_status listed(dlsh_session *s, const dlsh_node *node, const char *name, dlsh_value *values) {
    DLSH_DROPPED dlsh_value v = dlsh_void();
    *values = dlsh_new_list(8);
    if (dlsh_failed(*values)) return dl_failed();
    DLSH_TRY(dlsh_eval_argument(s, node, &v));
    int many = v.type == DLSH_LIST || v.type == DLSH_RANGE || (v.type == DLSH_TENSOR && dl_numel(v.as.tensor) != 1);
    DLSH_TRY(many ? add_all(s, node, name, v, *values) : add_value(s, node, name, *values, dlsh_ref(v)));
    return values->as.list->n ? DL_OK : bad_value(s, node, name, "no values");
}

/* Numbers in one direction have an order. */
static int is_ordered(const dlsh_list *l) {
    int up = 1, down = 1;
    for (int i = 0; i < l->n; i++) {
        if (!dlsh_is_number(l->items[i])) return 0;
        if (!i) continue;
        up &= dlsh_number(l->items[i - 1]) < dlsh_number(l->items[i]);
        down &= dlsh_number(l->items[i - 1]) > dlsh_number(l->items[i]);
    }
    return up || down;
}

/* ---------------------------------------------------------------- the space */

static dl_status read_one(dlsh_session *s, const char *name, const dlsh_node *node, dlsh_value *out,
                          dl_dimension *dim) {
    const struct range_of *r = range_of(node);
    double x[3];
    dlsh_value values = dlsh_void();
    if (r) DLSH_TRY(arguments(s, node, r, x));
    if (r && r->nargs == 2) {
        if (!(x[0] < x[1]) || (r->log && !(x[0] > 0)))
            return dlsh_at(s, node,
                           dlsh_fail(DL_ERR_VALUE, r->log ? "0 < FROM < TO" : "FROM < TO", "%s(%g, %g) has no numbers",
                                     r->name, x[0], x[1]));
        *dim = (dl_dimension){.choices = 0};
        *out = DLSH_RECORD_OF({"name", dlsh_string(name)}, {"low", dlsh_float(x[0])}, {"high", dlsh_float(x[1])},
                              {"log", dlsh_bool(r->log)}, {"whole", dlsh_bool(r->whole)});
        return dlsh_failed(*out) ? dl_failed() : DL_OK;
    }
    if (r && !(x[2] >= 1 && x[2] <= 1e6)) return bad_value(s, node, name, "no values");
    dl_status st = r ? spaced(x, &values) : listed(s, node, name, &values);
    if (st) return dlsh_drop(values), st;
    *dim = (dl_dimension){.choices = values.as.list->n, .ordered = is_ordered(values.as.list)};
    *out = DLSH_RECORD_OF({"name", dlsh_string(name)}, {"values", values});
    return dlsh_failed(*out) ? dl_failed() : DL_OK;
}

dl_status dlsh_space_read(const dlsh_args *a, dlsh_value *space, dl_dimension dims[DL_SWEEP_DIMS], int *n) {
    const char *name;
    *space = dlsh_new_list(8);
    if (dlsh_failed(*space)) return dl_failed();
    for (*n = 0; (name = dlsh_arg_extra(a, *n, NULL)); ++*n) {
        dlsh_value one = dlsh_void();
        if (*n == DL_SWEEP_DIMS)
            return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, NULL, "a sweep has at most %d parameters", DL_SWEEP_DIMS);
        const dlsh_node *node = dlsh_arg_extra_node(a, *n);
        if (!node) return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, NULL, "sweep is written as a statement");
        if (!strcmp(name, "seed"))
            return dlsh_at(dlsh_arg_session(a), node,
                           dlsh_fail(DL_ERR_NAME, "seeds=[1, 2]: they seed the random numbers, too",
                                     "seed is not a parameter of a sweep: seeds= gives each trial its own"));
        DLSH_TRY(read_one(dlsh_arg_session(a), name, node, &one, &dims[*n]));
        DLSH_TRY(dlsh_append(*space, one));
    }
    return DL_OK;
}

dl_status dlsh_space_parse(dlsh_session *s, const char *text, dlsh_value *space) {
    DLSH_TRY(dlsh_run(s, "<sweep>", text, strlen(text), space));
    if (space->type == DLSH_LIST) return DL_OK;
    dlsh_drop(*space);
    *space = dlsh_void();
    return dlsh_fail(DL_ERR_STORE, NULL, "the space of the sweep in the store is damaged");
}

static const dlsh_value *field(dlsh_value space, int i, const char *name) {
    const dlsh_value *v = i < space.as.list->n ? &space.as.list->items[i] : NULL;
    return v && v->type == DLSH_RECORD ? dlsh_record_get(v->as.record, name) : NULL;
}

const char *dlsh_space_name(dlsh_value space, int i) {
    const dlsh_value *v = field(space, i, "name");
    return v && v->type == DLSH_STR ? v->as.str->s : NULL;
}

dl_status dlsh_space_value(dlsh_value space, int i, double at, dlsh_value *out) {
    const dlsh_value *values = field(space, i, "values"), *low = field(space, i, "low"),
                     *high = field(space, i, "high");
    if (values && values->type == DLSH_LIST && at >= 0 && at < values->as.list->n)
        return *out = dlsh_ref(values->as.list->items[(int)at]), DL_OK;
    if (!low || !high) return dlsh_fail(DL_ERR_STORE, NULL, "the space of the sweep in the store is damaged");
    const dlsh_value *is_log = field(space, i, "log"), *is_whole = field(space, i, "whole");
    double from = dlsh_number(*low), to = dlsh_number(*high), x;
    if (is_log && is_log->as.i)
        x = exp(log(from) + (log(to) - log(from)) * at);
    else
        x = from + (to - from) * at;
    *out = is_whole && is_whole->as.i ? dlsh_int((long)floor(x)) : dlsh_float(rounded(x));
    return DL_OK;
}

void dlsh_space_text(dlsh_value space, int i, dlsh_buf *b) {
    const dlsh_value *values = field(space, i, "values");
    int n = values ? values->as.list->n : 2;
    dlsh_buf_printf(b, "%s=", dlsh_space_name(space, i));
    for (int k = 0; k < n; k++) {
        if (n > 6 && k == 3) {
            dlsh_buf_puts(b, ", ...");
            k = n - 2;
            continue;
        }
        if (k) dlsh_buf_puts(b, values ? ", " : " to ");
        const dlsh_value v = values ? values->as.list->items[k] : *field(space, i, k ? "high" : "low");
        const dlsh_value *whole = field(space, i, "whole");
        dlsh_text(b, !values && whole && whole->as.i ? dlsh_int((long)dlsh_number(v)) : v);
    }
    if (n > 6) dlsh_buf_printf(b, " (%d)", n);
}
