/* Functions that serve numbers and tensors alike where the op table's rows do not: max, min, median, abs, round, sum of
 * lists. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/eval/interp.h"
#include "dlcore/arithmetic.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/sort.h"

/* ---------------------------------------------------------------- max and min: data is the name */

static const dlsh_param minmax_params[] = {
    {"input", .want = "number|list|range|tensor", .doc = "numbers, a list of them, or a tensor"},
    {"others", .want = "number|tensor|bool", .flags = DLSH_VARIADIC,
     .doc = "more numbers, another tensor, or the dimension"},
    {0}};
static const dlsh_option minmax_options[] = {
    {"dim", DLSH_OPT_VALUE, NULL, .doc = "tensors: dimension; the result is then values and indices", .want = "int"},
    {"keepdim", DLSH_OPT_BOOL, "false", .doc = "tensors: keep the dimension with size 1"},
    {0}};

static int is_max(const dlsh_args *a) { return !strcmp(dlsh_arg_data(a), "max"); }

/* The two as a list with names, as those of max_dim's row. */
static dl_status give_both(dl_tensor *values, dl_tensor *indices, dlsh_value *result) {
    static const char *const names[] = {"values", "indices"};
    dlsh_value both = DLSH_LIST_OF(dlsh_tensor(values), dlsh_tensor(indices));
    if (!dlsh_failed(both)) both.as.list->names = names, both.as.list->nnames = 2;
    return dlsh_give(both, result);
}

static dl_status minmax_of_tensor(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *x = dlsh_arg_tensor(a, "input"), *indices = NULL, *values;
    const dlsh_value *other = dlsh_arg_at(a, "others", 0), *dim = dlsh_arg(a, "dim");
    if (other && other->type == DLSH_INT) dim = other;
    if (other && other->type == DLSH_TENSOR) {
        dl_tensor *y = other->as.tensor;
        return dlsh_give(dlsh_tensor(is_max(a) ? dl_maximum(x, y) : dl_minimum(x, y)), result);
    }
    if (other && other->type == DLSH_FLOAT)
        return dlsh_arg_fail(a, "others", DL_ERR_TYPE, "clamp(x, min=0.5) limits a tensor by a number",
                             "the second argument must be a tensor or a dimension");
    if (!dim) return dlsh_give(dlsh_tensor(is_max(a) ? dl_amax(x, NULL, 0, 0) : dl_amin(x, NULL, 0, 0)), result);
    int keep = dlsh_arg_bool(a, "keepdim");
    values = is_max(a) ? dl_max_dim(x, dim->as.i, keep, &indices) : dl_min_dim(x, dim->as.i, keep, &indices);
    return values ? give_both(values, indices, result) : dl_failed();
}

static const dlsh_param median_params[] = {
    {"input", .want = "tensor", .doc = "a tensor"},
    {"dim", .want = "int", .flags = DLSH_OPTIONAL, .doc = "dimension"},
    {"keepdim", .want = "bool", .flags = DLSH_OPTIONAL, .doc = "keep it with size 1"},
    {0}};

/* median; nanmedian where data is set. */
static dl_status median_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *x = dlsh_arg_tensor(a, "input"), *indices = NULL, *values;
    const int numbers = dlsh_arg_data(a) != NULL, keep = dlsh_given(a, "keepdim") && dlsh_arg_bool(a, "keepdim");
    if (!dlsh_given(a, "dim")) return dlsh_give(dlsh_tensor((numbers ? dl_nanmedian : dl_median)(x)), result);
    values = (numbers ? dl_nanmedian_dim : dl_median_dim)(x, dlsh_arg_int(a, "dim"), keep, &indices);
    return values ? give_both(values, indices, result) : dl_failed();
}

static const dlsh_param unique_params[] = {{"input", .want = "tensor", .doc = "a tensor"}, {0}},
                        differing_params[] = {{"input", .want = "tensor|list", .doc = "a tensor, or a list"}, {0}};
#define UNIQUE_OPTIONS                                                                                                 \
    {"return_inverse", DLSH_OPT_BOOL, "false", .doc = "give the place of each element among the values"},              \
        {"return_counts", DLSH_OPT_BOOL, "false", .doc = "give how often each value occurs"}, {                        \
        "dim", DLSH_OPT_INT, NULL, .doc = "dimension whose entries are compared; none: all elements"                   \
    }

/* What of values, places and counts is asked for: the values alone, or a list. */
static dl_status unique_run(const dlsh_args *a, dlsh_value *result) {
    static const char *const names[4][3] = {
        {"output"}, {"output", "inverse_indices"}, {"output", "counts"}, {"output", "inverse_indices", "counts"}};
    const dlsh_value *input = dlsh_arg(a, "input");
    const int asked = (dlsh_arg_bool(a, "return_inverse") ? 1 : 0) + (dlsh_arg_bool(a, "return_counts") ? 2 : 0);
    if (input->type == DLSH_LIST && (asked || dlsh_given(a, "dim")))
        return dlsh_arg_fail(a, "input", DL_ERR_TYPE, "tensor(xs) of numbers, categories(xs).codes of words",
                             "return_inverse, return_counts and dim are for tensors, not for lists");
    if (input->type == DLSH_LIST) return dlsh_unique_items(a, input->as.list, result);
    dl_tensor *x = dlsh_arg_tensor(a, "input"), *part[3] = {NULL};
    const long dim = dlsh_given(a, "dim") ? dlsh_arg_int(a, "dim") : 0;
    part[0] = dl_unique_groups(x, dlsh_given(a, "dim") ? &dim : NULL, dlsh_arg_data(a) != NULL, &part[1], &part[2]);
    if (!part[0]) return dl_failed();
    dlsh_value list = dlsh_new_list(0);
    dl_status st = dlsh_failed(list) ? dl_failed() : DL_OK;
    for (int i = 0; i < 3; i++)
        if (asked && !st && (i == 0 || asked >> (i - 1) & 1)) st = dlsh_append(list, dlsh_tensor(dl_ref(part[i])));
    if (!st) list.as.list->names = names[asked], list.as.list->nnames = list.as.list->n;
    dlsh_value alone = dlsh_tensor(dl_ref(part[0]));
    DLSH_UNREF(part[0], part[1], part[2]);
    dlsh_drop(asked ? alone : list);
    return dlsh_give_filled(st, asked ? list : alone, result);
}

static dl_status keep_better(const dlsh_args *a, dlsh_value x, dlsh_value *best) {
    int c;
    if (best->type != DLSH_VOID && !(x.type == DLSH_FLOAT && isnan(x.as.f))) {
        DLSH_TRY(dlsh_compare(x, *best, &c));
        if (is_max(a) ? c <= 0 : c >= 0) return DL_OK;
    }
    dlsh_drop(*best);
    *best = dlsh_ref(x);
    return DL_OK;
}

static dl_status minmax_of_sequence(const dlsh_args *a, dlsh_value seq, dlsh_value *best) {
    dlsh_iter it;
    dlsh_value x;
    dlsh_session *s = dlsh_arg_session(a);
    int done = 0;
    DLSH_TRY(dlsh_iter_begin(s, seq, &it));
    dl_status st = DL_OK;
    while (!st && !(st = dlsh_iter_next(s, &it, &x, &done)) && !done) {
        st = keep_better(a, x, best);
        dlsh_drop(x);
    }
    dlsh_iter_end(&it);
    if (!st && best->type == DLSH_VOID)
        st = dlsh_arg_fail(a, "input", DL_ERR_VALUE, NULL, "%s of an empty list", (const char *)dlsh_arg_data(a));
    return st;
}

static dl_status minmax_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_value x = *dlsh_arg(a, "input"), best = dlsh_void();
    if (x.type == DLSH_TENSOR) return minmax_of_tensor(a, result);
    dl_status st;
    int n = dlsh_arg_count(a, "others");
    if (!dlsh_is_number(x))
        st = minmax_of_sequence(a, x, &best);
    else if (n == 1 && dlsh_arg_at(a, "others", 0)->type == DLSH_TENSOR)
        st = dlsh_arg_fail(a, "input", DL_ERR_TYPE, "clamp(x, min=0.5) limits a tensor by a number",
                           "%s of a number and a tensor", (const char *)dlsh_arg_data(a));
    else {
        st = keep_better(a, x, &best);
        for (int i = 0; i < n && !st; i++) st = keep_better(a, *dlsh_arg_at(a, "others", i), &best);
    }
    return dlsh_give_filled(st, best, result);
}

/* ---------------------------------------------------------------- sum of a list, rounding of a number */

dl_status dlsh_call_row_op(const dlsh_args *a, dlsh_value *result) {
    const dlsh_command *row = dlsh_arg_command(a);
    dlsh_value values[8];
    const char *given[8];
    dlsh_callargs args = {0, values, given};
    for (const dlsh_param *p = row->params; p->name; p++) {
        if (!dlsh_given(a, p->name)) continue;
        given[args.n] = p > row->params ? p->name : NULL;
        values[args.n++] = *dlsh_arg(a, p->name);
    }
    return dlsh_call_op(dlsh_op_value(row->name), &args, result);
}

static dl_status sum_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_value seq = *dlsh_arg(a, "input"), total = dlsh_int(0), x, next;
    if (seq.type == DLSH_TENSOR) return dlsh_call_row_op(a, result);
    dlsh_session *s = dlsh_arg_session(a);
    dlsh_iter it;
    int done = 0;
    DLSH_TRY(dlsh_iter_begin(s, seq, &it));
    dl_status st = DL_OK;
    while (!st && !(st = dlsh_iter_next(s, &it, &x, &done)) && !done) {
        st = dlsh_binary(DLSH_OP_ADD, total, x.type == DLSH_BOOL ? dlsh_int(x.as.i) : x, &next);
        dlsh_drop(x);
        if (st) break;
        dlsh_drop(total);
        total = next;
    }
    dlsh_iter_end(&it);
    return dlsh_give_filled(st, total, result);
}

static const dlsh_param rounding_params[] = {{"input", .want = "number|tensor", .doc = "a number or a tensor"}, {0}};

/* floor, ceil, round of a number are whole numbers; of a tensor the op. */
static dl_status rounding_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_value x = *dlsh_arg(a, "input");
    const char *name = dlsh_arg_command(a)->name;
    if (x.type == DLSH_TENSOR) return dlsh_call_row_op(a, result);
    if (x.type == DLSH_INT) return dlsh_give(x, result);
    double f = *name == 'f' ? floor(x.as.f) : *name == 'c' ? ceil(x.as.f) : rint(x.as.f);
    if (!(fabs(f) < 9.2233720368547758e18))
        return dlsh_arg_fail(a, "input", DL_ERR_VALUE, NULL, "%s of %g does not fit in a 64-bit integer", name, x.as.f);
    *result = dlsh_int((long)f);
    return DL_OK;
}

/* x 10^n rounded and divided again: a tensor's elements. */
static dl_status round_tensor(dl_tensor *x, long decimals, dlsh_value *result) {
    dl_tensor *scale = dl_scalar_f(pow(10, (double)labs(decimals))),
              *wide = decimals < 0 ? dl_div(x, scale) : dl_mul(x, scale), *whole = dl_round(wide),
              *r = decimals < 0 ? dl_mul(whole, scale) : dl_div(whole, scale);
    DLSH_UNREF(scale, wide, whole);
    return dlsh_give(dlsh_tensor(r), result);
}

/* With decimals a float stays one: its nearest decimal number, as printf and Python find it. */
static dl_status round_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_value x = *dlsh_arg(a, "input");
    char text[400];
    if (!dlsh_given(a, "decimals")) return rounding_run(a, result);
    long n = dlsh_arg_int(a, "decimals");
    if (n < -300 || n > 300) return dlsh_arg_fail(a, "decimals", DL_ERR_VALUE, NULL, "decimals go from -300 to 300");
    if (x.type == DLSH_TENSOR) return round_tensor(x.as.tensor, n, result);
    if (x.type == DLSH_INT && n >= 0) return dlsh_give(x, result);
    double f = dlsh_number(x), scale = pow(10, (double)-n);
    if (n < 0)
        f = rint(f / scale) * scale;
    else if (isfinite(f) && fabs(f) < 1e15) {
        snprintf(text, sizeof text, "%.*f", (int)n, f);
        f = strtod(text, NULL);
    }
    *result = x.type == DLSH_INT ? dlsh_int((long)f) : dlsh_float(f);
    return DL_OK;
}

static dl_status abs_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_value x = *dlsh_arg(a, "input");
    if (x.type == DLSH_TENSOR) return dlsh_call_row_op(a, result);
    if (x.type == DLSH_INT && x.as.i < 0) return dlsh_unary(DLSH_OP_NEG, x, result);
    *result = x.type == DLSH_INT ? x : dlsh_float(fabs(x.as.f));
    return DL_OK;
}

const dlsh_command dlsh_math_rows[] = {
    DLSH_ROW("max", DLSH_ONLY_FUNCTION | DLSH_PURE | DLSH_GIVES_PART, minmax_run, "max(X, ...), max(TENSOR [, dim=])",
             "The largest of numbers, of a list, or of a tensor; with dim values and indices.", .params = minmax_params,
             .options = minmax_options, .data = "max", .examples = "max(1, 2.5)\nvalues, indices = max(x, dim=1)"),
    DLSH_ROW("min", DLSH_ONLY_FUNCTION | DLSH_PURE | DLSH_GIVES_PART, minmax_run, "min(X, ...), min(TENSOR [, dim=])",
             "The smallest of numbers, of a list, or of a tensor; with dim values and indices.",
             .params = minmax_params, .options = minmax_options, .data = "min"),
    DLSH_PURE_ROW(
        "sum", sum_run, "sum(ITEMS), sum(TENSOR [, dim=, keepdim=, dtype=])",
        "The sum of a list or of a tensor's elements.",
        DLSH_PARAMS({"input", .want = "list|range|tensor", .doc = "numbers, or a tensor"},
                    {"dim", .want = "int|list", .flags = DLSH_OPTIONAL, .doc = "tensors: dimensions"},
                    {"keepdim", .want = "bool", .flags = DLSH_OPTIONAL, .doc = "tensors: keep them with size 1"},
                    {"dtype", .want = "string", .flags = DLSH_OPTIONAL, .doc = "tensors: what they are cast to first",
                     .complete = "dtype"})),
    DLSH_PURE_ROW("median", median_run, "median(X [, dim=, keepdim=])",
                  "The element in the middle, the lower one of two; with dim values and indices.",
                  .params = median_params, .examples = "values, indices = median(x, dim=1)"),
    DLSH_PURE_ROW("nanmedian", median_run, "nanmedian(X [, dim=, keepdim=])",
                  "The element in the middle of those that are not NaN; with dim values and indices.",
                  .params = median_params, .data = "numbers", .examples = "values, indices = nanmedian(x, dim=1)"),
    DLSH_PURE_ROW(
        "unique", unique_run, "unique(X, sorted=true, return_inverse=false, return_counts=false, dim=)",
        "The values of a tensor, or the items of a list, that differ, sorted; of a tensor with dim the entries of a "
        "dimension. On request also the place of each element among them, and how often each occurs.",
        .params = differing_params,
        DLSH_OPTIONS({"sorted", DLSH_OPT_BOOL, "true", .doc = "the values are sorted in any case"}, UNIQUE_OPTIONS),
        .examples = "values, counts = unique(tensor([2, 1, 2]), return_counts=true)\nunique([\"b\", \"a\", \"b\"])"),
    DLSH_PURE_ROW("unique_consecutive", unique_run,
                  "unique_consecutive(X, return_inverse=false, return_counts=false, dim=)",
                  "Runs of equal neighbours as one value each.", .params = unique_params, DLSH_OPTIONS(UNIQUE_OPTIONS),
                  .data = "consecutive"),
    DLSH_PURE_ROW("floor", rounding_run, "floor(X)", "Rounded down.", .params = rounding_params),
    DLSH_PURE_ROW("ceil", rounding_run, "ceil(X)", "Rounded up.", .params = rounding_params),
    DLSH_PURE_ROW("round", round_run, "round(X [, DECIMALS])", "Rounded to the nearest whole number, ties to even.",
                  DLSH_PARAMS({"input", .want = "number|tensor", .doc = "a number or a tensor"},
                              {"decimals", .want = "int", .flags = DLSH_OPTIONAL,
                               .doc = "digits after the point; the result is then a float"}),
                  .examples = "round(2.567, 2)"),
    DLSH_PURE_ROW("abs", abs_run, "abs(X)", "Absolute value.", .params = rounding_params),
    {0}};
