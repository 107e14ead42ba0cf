/* Functions of PyTorch that give several tensors, or take tensors and numbers alike: slopes, histograms, normal
 * numbers; and questions about a tensor. */
#include <string.h>

#include "lang/eval/interp.h"
#include "dlcore/arithmetic.h"
#include "dlcore/create.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"

#define TENSOR_PARAM                                                                                                   \
    { .name = "input", .want = "tensor", .doc = "the tensor" }

/* ---------------------------------------------------------------- gradient */

/* Dimension i of those asked for: dim is an int, a list or absent, for all. */
static dl_status slope_dim(const dlsh_args *a, int ndim, int i, long *d) {
    const dlsh_value *dim = dlsh_arg(a, "dim");
    dlsh_value one = !dim || dim->type == DLSH_NONE ? dlsh_int(i)
                     : dim->type == DLSH_LIST       ? dim->as.list->items[i]
                                                    : *dim;
    *d = one.type == DLSH_INT && one.as.i < 0 ? one.as.i + ndim : one.as.i;
    if (one.type == DLSH_INT && *d >= 0 && *d < ndim) return DL_OK;
    return dlsh_arg_fail(a, "dim", DL_ERR_INDEX, NULL, "dim is a dimension of %d, or a list of them", ndim);
}

static dl_status slope_along(const dlsh_args *a, dl_tensor *t, long d, const dlsh_value *spacing, dl_tensor **out) {
    const int places = spacing && spacing->type == DLSH_TENSOR;
    if (spacing && !places && !dlsh_is_number(*spacing))
        return dlsh_arg_fail(a, "spacing", DL_ERR_TYPE, NULL,
                             "spacing is a number, a tensor of places, or a list of them");
    *out = dl_gradient_along(t, places ? spacing->as.tensor : NULL, d, spacing && !places ? dlsh_number(*spacing) : 1,
                             dlsh_arg_int(a, "edge_order"));
    return *out ? DL_OK : dl_failed();
}

static dl_status gradient_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *t = dlsh_arg_tensor(a, "input");
    const dlsh_value *dim = dlsh_arg(a, "dim"), *spacing = dlsh_arg(a, "spacing");
    const int all = !dim || dim->type == DLSH_NONE, n = all ? dl_ndim(t) : dim->type == DLSH_LIST ? dim->as.list->n : 1;
    const int each = spacing && spacing->type == DLSH_LIST;
    if (each && spacing->as.list->n != n)
        return dlsh_arg_fail(a, "spacing", DL_ERR_VALUE, NULL, "spacing has %d items for %d dimensions",
                             spacing->as.list->n, n);
    DLSH_DROPPED dlsh_value slopes = dlsh_new_list(n);
    for (int i = 0; i < n; i++) {
        long d;
        dl_tensor *slope;
        DLSH_TRY(slope_dim(a, dl_ndim(t), i, &d));
        DLSH_TRY(slope_along(a, t, d, each ? &spacing->as.list->items[i] : spacing, &slope));
        DLSH_TRY(dlsh_append(slopes, dlsh_tensor(slope)));
    }
    return dlsh_hand_over(&slopes, result);
}

/* ---------------------------------------------------------------- histograms */

/* Numbers 2 k and 2 k + 1 of the option range: from where to where; absent: from the least to the largest of t. */
static dl_status range_of(const dlsh_args *a, dl_tensor *t, int k, double *from, double *to) {
    const dlsh_value *range = dlsh_arg(a, "range");
    if (range && range->type == DLSH_LIST) {
        const dlsh_list *l = range->as.list;
        if (l->n <= 2 * k + 1 || !dlsh_is_number(l->items[2 * k]) || !dlsh_is_number(l->items[2 * k + 1]))
            return dlsh_arg_fail(a, "range", DL_ERR_VALUE, NULL, "range has two numbers for each dimension");
        *from = dlsh_number(l->items[2 * k]), *to = dlsh_number(l->items[2 * k + 1]);
    } else if (dl_numel(t)) {
        DLSH_OWNED dl_tensor *least = dl_amin(t, NULL, 0, 0), *most = least ? dl_amax(t, NULL, 0, 0) : NULL;
        DLSH_TRY(most ? dl_item_f(least, from) : dl_failed());
        DLSH_TRY(dl_item_f(most, to));
    } else
        *from = 0, *to = 1;
    if (*from == *to) *from -= 0.5, *to += 0.5;
    if (*from < *to) return DL_OK;
    return dlsh_arg_fail(a, "range", DL_ERR_VALUE, NULL, "a histogram from %g to %g is not possible", *from, *to);
}

/* The edges of dimension k, [n, d] being the examples: given, or so many intervals of one size. */
static dl_tensor *edges_of(const dlsh_args *a, dlsh_value bins, dl_tensor *examples, int k) {
    double from, to;
    if (bins.type == DLSH_TENSOR) return dl_ref(bins.as.tensor);
    if (bins.type != DLSH_INT || bins.as.i < 1)
        return dlsh_arg_fail(a, "bins", DL_ERR_VALUE, NULL, "bins are a number from 1 on, or a tensor of edges"), NULL;
    DLSH_OWNED dl_tensor *plain = dl_detach(examples), *column = plain ? dl_select(plain, 1, k) : NULL;
    if (!column || range_of(a, column, k, &from, &to)) return NULL;
    return dl_linspace(from, to, bins.as.i + 1, dl_dtype_of(examples), dl_device_of(examples));
}

/* The counts, which are taken, and the edges as the fields of a list. */
static dl_status give_histogram(dl_tensor *counts, dlsh_value edges, dlsh_value *result) {
    static const char *const names[] = {"hist", "bin_edges"};
    dlsh_value both = counts ? DLSH_LIST_OF(dlsh_tensor(counts), edges) : dlsh_void();
    if (!counts || dlsh_failed(both)) return dl_failed();
    both.as.list->names = names, both.as.list->nnames = 2;
    return dlsh_give(both, result);
}

enum { MOST_BINS = 8 };
static dl_status count_boxes(const dlsh_args *a, dl_tensor *examples, const dlsh_value *bins, int n, dl_tensor **edges,
                             dl_tensor **counts) {
    const dlsh_value *weight = dlsh_arg(a, "weight");
    dl_tensor *w = weight && weight->type == DLSH_TENSOR ? weight->as.tensor : NULL;
    for (int i = 0; i < n; i++)
        if (!(edges[i] = edges_of(a, bins[i], examples, i))) return dl_failed();
    *counts = dl_histogram_counts(examples, w, edges, n, dlsh_arg_bool(a, "density"));
    return *counts ? DL_OK : dl_failed();
}

static dl_status histogram_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *t = dlsh_arg_tensor(a, "input"), *edges[1] = {NULL}, *counts = NULL;
    DLSH_OWNED dl_tensor *column = dl_reshape(t, (long[]){dl_numel(t), 1}, 2);
    dl_status st = column ? count_boxes(a, column, dlsh_arg(a, "bins"), 1, edges, &counts) : dl_failed();
    if (!st) return give_histogram(counts, dlsh_tensor(edges[0]), result);
    DLSH_UNREF(edges[0]);
    return st;
}

static dl_status histogramdd_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *t = dlsh_arg_tensor(a, "input"), *edges[MOST_BINS] = {NULL}, *counts = NULL;
    const dlsh_value *bins = dlsh_arg(a, "bins");
    dlsh_value each[MOST_BINS];
    const int rows = dl_ndim(t) > 0, n = rows ? (int)dl_shape(t)[dl_ndim(t) - 1] : 0;
    if (n < 1 || n > MOST_BINS)
        return dlsh_arg_fail(a, "input", DL_ERR_SHAPE, NULL, "examples are rows of 1 to %d numbers", MOST_BINS);
    if (bins->type == DLSH_LIST && bins->as.list->n != n)
        return dlsh_arg_fail(a, "bins", DL_ERR_VALUE, NULL, "bins has %d items for rows of %d numbers",
                             bins->as.list->n, n);
    for (int i = 0; i < n; i++) each[i] = bins->type == DLSH_LIST ? bins->as.list->items[i] : *bins;
    DLSH_OWNED dl_tensor *examples = dl_reshape(t, (long[]){-1, n}, 2);
    DLSH_DROPPED dlsh_value list = dlsh_new_list(n);
    dl_status st = examples ? count_boxes(a, examples, each, n, edges, &counts) : dl_failed();
    for (int i = 0; i < n; i++) {
        if (!st)
            st = dlsh_append(list, dlsh_tensor(edges[i]));
        else
            DLSH_UNREF(edges[i]);
    }
    if (st) return dl_unref(counts), st;
    return give_histogram(counts, dlsh_ref(list), result);
}

/* ---------------------------------------------------------------- normal numbers */

static dl_tensor *number_or_tensor(const dlsh_args *a, const char *name, double dflt) {
    const dlsh_value *v = dlsh_arg(a, name);
    return v ? dlsh_operand(*v) : dl_scalar_f(dflt);
}

static dl_status normal_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value *size = dlsh_arg(a, "size");
    const int tensors =
        dlsh_arg(a, "mean")->type == DLSH_TENSOR || (dlsh_given(a, "std") && dlsh_arg(a, "std")->type == DLSH_TENSOR);
    DLSH_SCOPED_GRAD_MODE(0);
    DLSH_OWNED dl_tensor *mean = number_or_tensor(a, "mean", 0), *std = number_or_tensor(a, "std", 1);
    DLSH_OWNED dl_tensor *both = mean && std && tensors ? dl_add(mean, std) : NULL;
    long shape[8];
    int n = 0, device = both ? dl_device_of(both) : dlsh_default_device();
    dl_dtype dtype = both && dl_dtype_is_float(dl_dtype_of(both)) ? dl_dtype_of(both) : DL_F32;
    if (!mean || !std || (tensors && !both)) return dl_failed();
    if (tensors == (size != NULL))
        return dlsh_arg_fail(a, "size", DL_ERR_VALUE, "normal(0.0, 1.0, [2, 3]), or normal(means, deviations)",
                             tensors ? "tensors have their own size" : "two numbers need a size");
    if (size && size->as.list->n > 8)
        return dlsh_arg_fail(a, "size", DL_ERR_SHAPE, NULL, "a tensor has at most 8 dimensions");
    for (; size && n < size->as.list->n; n++) {
        if (size->as.list->items[n].type != DLSH_INT)
            return dlsh_arg_fail(a, "size", DL_ERR_TYPE, NULL, "sizes must be ints");
        shape[n] = size->as.list->items[n].as.i;
    }
    DLSH_OWNED dl_tensor *drawn = dl_randn(both ? dl_shape(both) : shape, both ? dl_ndim(both) : n, dtype, device);
    DLSH_OWNED dl_tensor *scaled = drawn ? dl_mul(drawn, std) : NULL;
    return dlsh_give(dlsh_tensor(scaled ? dl_add(scaled, mean) : NULL), result);
}

/* ---------------------------------------------------------------- questions */

static dl_status is_complex_run(const dlsh_args *a, dlsh_value *result) {
    return *result = dlsh_bool(dl_dtype_is_complex(dl_dtype_of(dlsh_arg_tensor(a, "input")))), DL_OK;
}
static dl_status is_floating_point_run(const dlsh_args *a, dlsh_value *result) {
    return *result = dlsh_bool(dl_dtype_is_float(dl_dtype_of(dlsh_arg_tensor(a, "input")))), DL_OK;
}
static dl_status is_signed_run(const dlsh_args *a, dlsh_value *result) {
    const dl_dtype t = dl_dtype_of(dlsh_arg_tensor(a, "input"));
    return *result = dlsh_bool(t != DL_BOOL && t != DL_U8), DL_OK;
}
static dl_status is_nonzero_run(const dlsh_args *a, dlsh_value *result) {
    int yes;
    DLSH_TRY(dlsh_truth(*dlsh_arg(a, "input"), &yes));
    return *result = dlsh_bool(yes), DL_OK;
}
static dl_status is_tensor_run(const dlsh_args *a, dlsh_value *result) {
    return *result = dlsh_bool(dlsh_arg(a, "value")->type == DLSH_TENSOR), DL_OK;
}
static dl_status is_same_size_run(const dlsh_args *a, dlsh_value *result) {
    const dl_tensor *x = dlsh_arg_tensor(a, "input"), *y = dlsh_arg_tensor(a, "other");
    int same = dl_ndim(x) == dl_ndim(y);
    for (int i = 0; same && i < dl_ndim(x); i++) same = dl_shape(x)[i] == dl_shape(y)[i];
    return *result = dlsh_bool(same), DL_OK;
}

/* The shape that shapes broadcast to: from the last size on the one that is not 1. */
static dl_status broadcast_shapes_run(const dlsh_args *a, dlsh_value *result) {
    long shape[8];
    int n = 0;
    for (int k = 0; k < dlsh_arg_count(a, "shapes"); k++) {
        const dlsh_value *s = dlsh_arg_at(a, "shapes", k);
        const int own = s->type == DLSH_LIST ? s->as.list->n : 1;
        if (own > 8)
            return dlsh_arg_fail(a, NULL, DL_ERR_SHAPE, NULL, "a tensor has at most 8 dimensions, got %d", own);
        for (; n < own; n++) memmove(shape + 1, shape, (size_t)n * sizeof *shape), shape[0] = 1;
        for (int i = 0; i < own; i++) {
            const dlsh_value v = s->type == DLSH_LIST ? s->as.list->items[i] : *s;
            long *at = &shape[n - own + i];
            if (v.type != DLSH_INT || v.as.i < 0)
                return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, NULL, "sizes must be ints from 0 on");
            if (*at != 1 && v.as.i != 1 && *at != v.as.i)
                return dlsh_arg_fail(a, NULL, DL_ERR_SHAPE, NULL, "sizes %ld and %ld do not broadcast", *at, v.as.i);
            if (*at == 1) *at = v.as.i;
        }
    }
    return dlsh_give(dlsh_new_ints(shape, n), result);
}

#define QUESTION(name, run, doc) DLSH_PURE_ROW(name, run, "x." name "()", doc, DLSH_PARAMS(TENSOR_PARAM))
#define HISTOGRAM_OPTIONS                                                                                              \
    DLSH_OPTIONS(                                                                                                      \
        {"range", DLSH_OPT_VALUE, .want = "list|none",                                                                 \
         .doc = "from where to where, two numbers a dimension; the least and the largest number unless given"},        \
        {"weight", DLSH_OPT_VALUE, .want = "tensor|none", .doc = "what each example counts"},                          \
        {"density", DLSH_OPT_BOOL, "false", .doc = "divide by the sum and by the sizes of the bins"})

const dlsh_command dlsh_numeric_rows[] = {
    DLSH_PURE_ROW(
        "gradient", gradient_run, "gradient(X, spacing=1, dim=none, edge_order=1)",
        "Slopes of values at regular or given places, by differences of neighbours: a list with a tensor for "
        "each dimension. (grad gives derivatives of what was computed.)",
        DLSH_PARAMS(TENSOR_PARAM),
        DLSH_OPTIONS({"spacing", DLSH_OPT_VALUE, .want = "number|tensor|list",
                      .doc = "distance of neighbours (1), a tensor of places, or a list with one for each dimension"},
                     {"dim", DLSH_OPT_VALUE, .want = "int|list|none", .doc = "dimension, or several (all)"},
                     {"edge_order", DLSH_OPT_INT, "1", .doc = "at the ends: 1 or 2"}),
        .examples = "gradient(tensor([1.0, 4, 9, 16]))\ny, x = gradient(randn(4, 5), spacing=[0.1, 0.2])"),
    DLSH_PURE_ROW("histogram", histogram_run, "histogram(X, BINS, range=, weight=, density=false)",
                  "How many numbers lie in each interval, or the sum of their weights, and the edges of the intervals; "
                  "the last edge belongs to its interval.",
                  DLSH_PARAMS(TENSOR_PARAM, {"bins", .want = "int|tensor", .doc = "how many, or their edges"}),
                  HISTOGRAM_OPTIONS, .examples = "h = histogram(randn(1000), 20, range=[-3, 3]); h.hist"),
    DLSH_PURE_ROW("histogramdd", histogramdd_run, "histogramdd(X, BINS, range=, weight=, density=false)",
                  "How many examples, the rows, lie in each box, and a list of the edges of each dimension.",
                  DLSH_PARAMS(TENSOR_PARAM, {"bins", .want = "int|list",
                                             .doc = "how many in each dimension, or a list of numbers or edges"}),
                  HISTOGRAM_OPTIONS, .examples = "h = histogramdd(randn(1000, 2), [4, 5]); h.hist.shape"),
    DLSH_FN_ROW("normal", normal_run, "normal(MEAN, STD [, SIZE])",
                "Normal numbers, each of its own mean and deviation; of two numbers with a size.",
                DLSH_PARAMS({"mean", .want = "number|tensor", .doc = "their mean"},
                            {"std", .want = "number|tensor", .flags = DLSH_OPTIONAL, .doc = "their deviation (1)"},
                            {"size", .want = "list", .flags = DLSH_OPTIONAL, .doc = "sizes, where both are numbers"}),
                .examples = "normal(0.0, 2.0, [2, 3])\nnormal(arange(3.0), tensor([1.0, 0.1, 0.01]))"),
    QUESTION("is_complex", is_complex_run, "Are the numbers complex?"),
    QUESTION("is_floating_point", is_floating_point_run, "Are the numbers floating ones, and real?"),
    QUESTION("is_signed", is_signed_run, "Can the numbers be negative?"),
    QUESTION("is_nonzero", is_nonzero_run, "Is the one element not zero?"),
    DLSH_PURE_ROW("is_tensor", is_tensor_run, "is_tensor(VALUE)", "Is it a tensor?",
                  DLSH_PARAMS({"value", .doc = "anything"})),
    DLSH_PURE_ROW("is_same_size", is_same_size_run, "x.is_same_size(OTHER)", "Have two tensors the same shape?",
                  DLSH_PARAMS(TENSOR_PARAM, {"other", .want = "tensor", .doc = "compared with it"})),
    DLSH_PURE_ROW("broadcast_shapes", broadcast_shapes_run, "broadcast_shapes(SHAPE, ...)",
                  "The shape that shapes broadcast to.",
                  DLSH_PARAMS({"shapes", .want = "int|list", .flags = DLSH_VARIADIC, .doc = "lists of sizes"}),
                  .examples = "broadcast_shapes([3, 1], [4])"),
    {0}};
