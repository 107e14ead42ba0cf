/* Bijectors that are made of others: one after the other, for parts of a tensor, with more dimensions of a value, of
 * another shape, by the shares of a distribution. */
#include <string.h>

#include "commands/chance/kind.h"
#include "commands/chance/transform.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/view.h"

static const transform *self_of(dlsh_value v) { return v.as.handle->self; }
static int larger(int a, int b) { return a > b ? a : b; }

int dlsh_bijector_event(const void *self, int after) {
    const transform *t = self;
    const int to = after != t->inverse;
    return t->is->event ? t->is->event(t, to) : to ? t->is->to : t->is->from;
}

static int grows(const transform *t) { return dlsh_bijector_event(t, 1) - dlsh_bijector_event(t, 0); }

/* ---- one after the other */

int dlsh_bijectors_event(const dlsh_list *by, int after) {
    int event = by->n ? dlsh_bijector_event(self_of(by->items[after ? 0 : by->n - 1]), !after) : 0;
    for (int k = 0; k < by->n; k++) {
        const transform *t = self_of(by->items[after ? k : by->n - 1 - k]);
        event = larger(event + (after ? grows(t) : -grows(t)), dlsh_bijector_event(t, after));
    }
    return event;
}

dl_tensor *dlsh_bijectors_apply(const dlsh_list *by, dl_tensor *x, int back) {
    dl_tensor *at = dl_ref(x);
    for (int k = 0; at && k < by->n; k++) {
        dl_tensor *y = dlsh_bijector_apply(self_of(by->items[back ? by->n - 1 - k : k]), at, back);
        dl_unref(at), at = y;
    }
    return at;
}

/* Adds what part t, which made y of x, has to the slopes so far; `event` dimensions of x are one value. Takes *sum. */
static dl_status add_slope(const transform *t, dl_tensor *x, dl_tensor *y, int event, dl_tensor **sum) {
    DLSH_OWNED dl_tensor *slope = dlsh_bijector_slope(t, x, y),
                         *one = slope ? dlsh_sum_of_last(slope, event - dlsh_bijector_event(t, 0)) : NULL,
                         *both = one && *sum ? dl_add(*sum, one)
                                 : one       ? dl_ref(one)
                                             : NULL,
                         *was = *sum;
    *sum = both ? dl_ref(both) : NULL;
    return both ? DL_OK : dl_failed();
}

dl_tensor *dlsh_bijectors_slope(const dlsh_list *by, dl_tensor *x, dl_tensor *y, int event) {
    dl_tensor *at = dl_ref(x), *sum = NULL;
    dl_status st = DL_OK;
    for (int k = 0; !st && k < by->n; k++) {
        const transform *t = self_of(by->items[k]);
        dl_tensor *next = k + 1 < by->n ? dlsh_bijector_apply(t, at, 0) : dl_ref(y);
        st = next ? add_slope(t, at, next, event, &sum) : dl_failed();
        event += grows(t);
        dl_unref(at), at = next;
    }
    dl_unref(at);
    if (!st) return sum;
    dl_unref(sum);
    return NULL;
}

static dl_tensor *apply_parts(const transform *t, dl_tensor *x, int back) {
    return dlsh_bijectors_apply(t->arg[0].as.list, x, back);
}
static dl_tensor *slope_of_parts(const transform *t, dl_tensor *x, dl_tensor *y) {
    return dlsh_bijectors_slope(t->arg[0].as.list, x, y, dlsh_bijectors_event(t->arg[0].as.list, 0));
}
static int event_of_parts(const transform *t, int after) { return dlsh_bijectors_event(t->arg[0].as.list, after); }

/* ---- more dimensions of a value */

static dl_tensor *apply_base(const transform *t, dl_tensor *x, int back) {
    return dlsh_bijector_apply(self_of(t->arg[0]), x, back);
}
static dl_tensor *slope_of_base(const transform *t, dl_tensor *x, dl_tensor *y) {
    DLSH_OWNED dl_tensor *slope = dlsh_bijector_slope(self_of(t->arg[0]), x, y);
    return slope ? dlsh_sum_of_last(slope, (int)t->arg[1].as.i) : NULL;
}
static int event_of_base(const transform *t, int after) {
    return dlsh_bijector_event(self_of(t->arg[0]), after) + (int)t->arg[1].as.i;
}

/* ---- another shape */

static int sizes_of(dlsh_value list, long *out) {
    for (int i = 0; i < list.as.list->n; i++) out[i] = list.as.list->items[i].as.i;
    return (int)list.as.list->n;
}

static dl_tensor *apply_shape(const transform *t, dl_tensor *x, int back) {
    long from[DLSH_MAX_SIZES], shape[2 * DLSH_MAX_SIZES];
    const int n = sizes_of(t->arg[back], from), batch = dl_ndim(x) - n;
    if (batch < 0 || memcmp(dl_shape(x) + batch, from, (size_t)n * sizeof *from) != 0)
        return dlsh_fail(DL_ERR_SHAPE, "x.shape tells",
                         "the last %d sizes of a tensor of %d dimensions are not those of the bijector's values", n,
                         dl_ndim(x)),
               NULL;
    memcpy(shape, dl_shape(x), (size_t)batch * sizeof *shape);
    return dl_reshape(x, shape, batch + sizes_of(t->arg[!back], shape + batch));
}
static dl_tensor *slope_of_shape(const transform *t, dl_tensor *x, DLSH_UNUSED dl_tensor *y) {
    const int batch = dl_ndim(x) - (int)t->arg[0].as.list->n;
    return dl_zeros(dl_shape(x), larger(batch, 0), (int)dl_dtype_of(x), dl_device_of(x));
}
static int event_of_shape(const transform *t, int after) { return (int)t->arg[after != 0].as.list->n; }

/* ---- parts of a tensor */

static int event_of_largest(const transform *t, int after) {
    const dlsh_list *by = t->arg[0].as.list;
    int event = 0;
    for (int i = 0; i < by->n; i++) event = larger(event, dlsh_bijector_event(self_of(by->items[i]), after));
    return event;
}

enum { PARTS_MOST = 64 };
typedef struct pieces {
    dl_tensor *t[PARTS_MOST];
    int n;
} pieces;
static void drop_pieces(pieces *p) {
    for (int i = 0; i < p->n; i++) dl_unref(p->t[i]);
}
#define SCOPED_PIECES __attribute__((cleanup(drop_pieces))) pieces

static int is_stack(const transform *t) { return !strcmp(t->is->name, "stack"); }

/* What part i has of x, which begins at *start along the dimension. */
static dl_tensor *slice(const transform *t, dl_tensor *x, int i, long *start) {
    const long dim = t->arg[1].as.i, at = *start;
    const dlsh_list *lengths = t->arg[2].type == DLSH_LIST ? t->arg[2].as.list : NULL;
    const long length = lengths ? lengths->items[i].as.i : 1;
    *start += length;
    return is_stack(t) ? dl_select(x, dim, at) : dl_narrow(x, dim, at, length);
}

static dl_status check_parts(const transform *t, const dl_tensor *x) {
    const int n = dl_ndim(x);
    const long dim = t->arg[1].as.i;
    long sum = 0, have;
    if (dim < -n || dim >= n)
        return dlsh_fail(DL_ERR_SHAPE, NULL, "a tensor of %d dimensions has no dimension %ld", n, dim);
    have = dl_shape(x)[dim < 0 ? dim + n : dim];
    for (int i = 0; i < t->arg[0].as.list->n; i++)
        sum += t->arg[2].type == DLSH_LIST ? t->arg[2].as.list->items[i].as.i : 1;
    return sum == have ? DL_OK
                       : dlsh_fail(DL_ERR_SHAPE, "bijector(\"cat\", [a, b], dim=0, lengths=[2, 3])",
                                   "the parts take %ld places of dimension %ld, which has %ld", sum, dim, have);
}

static dl_tensor *joined(const transform *t, pieces *p, long dim) {
    return (is_stack(t) ? dl_stack : dl_cat)(p->t, p->n, dim);
}

static dl_tensor *apply_each(const transform *t, dl_tensor *x, int back) {
    const dlsh_list *by = t->arg[0].as.list;
    SCOPED_PIECES out = {.n = 0};
    long start = 0;
    if (check_parts(t, x)) return NULL;
    for (int i = 0; i < by->n; i++) {
        DLSH_OWNED dl_tensor *part = slice(t, x, i, &start);
        if (!part || !(out.t[i] = dlsh_bijector_apply(self_of(by->items[i]), part, back))) return NULL;
        out.n++;
    }
    return joined(t, &out, t->arg[1].as.i);
}

/* One part's slopes, of which the last dimensions belong to a value of the whole. */
static dl_tensor *slope_of_part(const transform *t, int i, dl_tensor *x, dl_tensor *y) {
    const transform *part = self_of(t->arg[0].as.list->items[i]);
    dl_tensor *slope = x && y ? dlsh_bijector_slope(part, x, y) : NULL;
    if (!slope || is_stack(t)) return slope;
    dl_tensor *sum = dlsh_sum_of_last(slope, event_of_largest(t, 0) - dlsh_bijector_event(part, 0));
    dl_unref(slope);
    return sum;
}

static dl_tensor *slope_of_each(const transform *t, dl_tensor *x, dl_tensor *y) {
    const dlsh_list *by = t->arg[0].as.list;
    SCOPED_PIECES out = {.n = 0};
    long start = 0, from = 0, dim = t->arg[1].as.i;
    if (check_parts(t, x)) return NULL;
    for (int i = 0; i < by->n; i++) {
        DLSH_OWNED dl_tensor *a = slice(t, x, i, &start), *b = slice(t, y, i, &from);
        if (!(out.t[i] = slope_of_part(t, i, a, b))) return NULL;
        out.n++;
    }
    if (is_stack(t)) return joined(t, &out, dim);
    dim = (dim < 0 ? dim : dim - dl_ndim(x)) + event_of_largest(t, 0);
    if (dim < 0) return joined(t, &out, dim);
    dl_tensor *sum = dl_ref(out.t[0]); /* the parts are of one value */
    for (int i = 1; sum && i < out.n; i++) {
        dl_tensor *more = dl_add(sum, out.t[i]);
        dl_unref(sum), sum = more;
    }
    return sum;
}

/* ---- shares of a distribution */

static dl_tensor *ask(const transform *t, const char *what, dl_tensor *x) {
    const distribution *d = t->arg[0].as.handle->self;
    dl_tensor *in[1 + MAX_PARAMS] = {x, d->param[0], d->param[1], d->param[2]};
    dlsh_value out = dlsh_void();
    return dlsh_distribution_call(d->is, what, in, 1 + d->is->nparams, NULL, &out) ? NULL : out.as.tensor;
}
static dl_tensor *apply_share(const transform *t, dl_tensor *x, int back) { return ask(t, back ? "icdf" : "cdf", x); }
static dl_tensor *slope_of_share(const transform *t, dl_tensor *x, DLSH_UNUSED dl_tensor *y) {
    return ask(t, "log_prob", x);
}
static int event_of_share(DLSH_UNUSED const transform *t, DLSH_UNUSED int after) { return 0; }

const transform_kind dlsh_made_transforms[] = {
    {"compose", {{"parts", PARTS_ARG}}, .apply = apply_parts, .slope_of = slope_of_parts, .event = event_of_parts},
    {"independent",
     {{"base_transform", BASE_ARG}, {"reinterpreted_batch_ndims", WHOLE_ARG}},
     .apply = apply_base,
     .slope_of = slope_of_base,
     .event = event_of_base},
    {"reshape",
     {{"in_shape", SIZES_ARG}, {"out_shape", SIZES_ARG}},
     .apply = apply_shape,
     .slope_of = slope_of_shape,
     .event = event_of_shape},
    {"cat",
     {{"tseq", PARTS_ARG}, {"dim", WHOLE_ARG}, {"lengths", LENGTHS_ARG}},
     .apply = apply_each,
     .slope_of = slope_of_each,
     .event = event_of_largest},
    {"stack",
     {{"tseq", PARTS_ARG}, {"dim", WHOLE_ARG}},
     .apply = apply_each,
     .slope_of = slope_of_each,
     .event = event_of_largest},
    {"cumulative_distribution",
     {{"distribution", CHANCE_ARG}},
     .apply = apply_share,
     .slope_of = slope_of_share,
     .event = event_of_share},
};
const int dlsh_nmade_transforms = DLSH_COUNT(dlsh_made_transforms);

/* ---- sizes */

/* The sizes of what t makes of values of these sizes: two numbers of sizes where they grow. */
static dl_status own_sizes(const transform *t, dlsh_sizes *s, int back) {
    const int was = back ? t->is->to : t->is->from, is = back ? t->is->from : t->is->to;
    long *last = &s->size[s->n - 1];
    if (s->n < was) return dlsh_fail(DL_ERR_SHAPE, NULL, "values of %d dimensions are wanted", was);
    if (t->is->more) *last += back ? -t->is->more : t->is->more;
    if (is > was) { /* a triangle of its numbers */
        long n = 1;
        while (n * (n - 1) / 2 < *last) n++;
        if (s->n == DLSH_MAX_SIZES) return dlsh_fail(DL_ERR_SHAPE, NULL, "too many dimensions");
        *last = s->size[s->n++] = n;
    } else if (is < was) {
        last[-1] = *last * (*last - 1) / 2;
        s->n--;
    }
    return DL_OK;
}

static dl_status reshaped(const transform *t, dlsh_sizes *s, int back) {
    long to[DLSH_MAX_SIZES];
    const int n = sizes_of(t->arg[!back], to), batch = s->n - (int)t->arg[back].as.list->n;
    if (batch < 0 || batch + n > DLSH_MAX_SIZES)
        return dlsh_fail(DL_ERR_SHAPE, NULL, "values of %d dimensions are wanted", t->arg[back].as.list->n);
    memcpy(s->size + batch, to, (size_t)n * sizeof *to);
    s->n = batch + n;
    return DL_OK;
}

dl_status dlsh_bijectors_sizes(const dlsh_list *by, dlsh_sizes *s, int back) {
    for (int k = 0; k < by->n; k++)
        DLSH_TRY(dlsh_bijector_sizes(self_of(by->items[back ? by->n - 1 - k : k]), s, back));
    return DL_OK;
}

dl_status dlsh_bijector_sizes(const void *self, dlsh_sizes *s, int back) {
    const transform *t = self;
    const int inverse = back != t->inverse;
    if (t->is->apply == apply_parts) return dlsh_bijectors_sizes(t->arg[0].as.list, s, inverse);
    if (t->is->apply == apply_base) return dlsh_bijector_sizes(self_of(t->arg[0]), s, inverse);
    if (t->is->apply == apply_shape) return reshaped(t, s, inverse);
    return own_sizes(t, s, inverse);
}
