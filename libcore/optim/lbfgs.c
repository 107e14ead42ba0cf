/* L-BFGS: steps along an estimate of Newton's direction, from the last steps and changes of the gradient (Nocedal,
 * Wright: Numerical Optimization, 2006, algorithm 7.4). Names, constants and stops are PyTorch's. All parameters are
 * one vector here. */
#include "optim/algorithm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "optim/line_search.h"

/* A step s and the change y of the gradient over it; rho is 1 / (y . s). */
typedef struct pair {
    dl_tensor *y, *s;
    double rho;
} pair;

typedef struct lbfgs {
    long iterations, evaluations;
    double length, scale; /* of the last step; of the first estimate of the inverse Hessian */
    dl_tensor *direction, *last_grad;
    pair *pair; /* the oldest first */
    int n;
} lbfgs;

/* One minimisation under way. */
typedef struct work {
    dl_optimizer *o;
    lbfgs *l;
    dl_closure_fn *closure;
    void *ctx;
    double loss;
    dl_tensor *grad; /* of the parameters as they are */
    dl_tensor *from; /* the parameters before a line search */
    long evaluations;
} work;

/* ---- vectors */

static void put(dl_tensor **to, dl_tensor *t) {
    dl_unref(*to);
    *to = t;
}

static dl_status dot(dl_tensor *a, dl_tensor *b, double *out) {
    DL_OWNED dl_tensor *product = dl_dot(a, b);
    return product ? dl_item_f(product, out) : dl_failed();
}

static dl_status largest(dl_tensor *a, double *out) {
    DL_OWNED dl_tensor *size = dl_abs(a), *most = size ? dl_amax(size, NULL, 0, 0) : NULL;
    return most ? dl_item_f(most, out) : dl_failed();
}

static dl_tensor *times(dl_tensor *a, double factor) {
    DL_OWNED dl_tensor *f = dl_scalar_f(factor);
    return f ? dl_mul(a, f) : NULL;
}

/* *a += factor * b */
static dl_status add(dl_tensor **a, dl_tensor *b, double factor) {
    DL_OWNED dl_tensor *scaled = times(b, factor);
    dl_tensor *sum = scaled ? dl_add(*a, scaled) : NULL;
    if (!sum) return dl_failed();
    put(a, sum);
    return DL_OK;
}

/* Joins n vectors; an op takes DL_MAX_IN at most. */
static dl_tensor *join(dl_tensor **part, long n) {
    if (n <= DL_MAX_IN) return dl_cat(part, (int)n, 0);
    DL_OWNED dl_tensor *head = dl_cat(part, DL_MAX_IN, 0), *tail = head ? join(part + DL_MAX_IN, n - DL_MAX_IN) : NULL;
    return tail ? dl_cat((dl_tensor *[]){head, tail}, 2, 0) : NULL;
}

/* All parameters, or their gradients, as one vector; a gradient that there is not is zero. */
static dl_tensor *flat(const dl_optimizer *o, bool gradients) {
    const long all = -1;
    dl_tensor **part = calloc((size_t)o->n, sizeof *part), *vector = NULL;
    if (!part) return dl_fail(DL_ERR_MEMORY, "no memory for the list of parameters"), NULL;
    long n = 0;
    for (; n < o->n; n++) {
        dl_tensor *p = o->param[n].p;
        DL_OWNED dl_tensor *t = !gradients ? dl_ref(p)
                                : p->grad  ? dl_ref(p->grad)
                                           : dl_tensor_zeros(p->ndim, p->shape, p->dtype, p->st->device);
        if (!t || !(part[n] = dl_reshape(t, p->numel ? &all : (const long[]){0}, 1))) break;
    }
    if (n == o->n) vector = join(part, n);
    for (long i = 0; i < n; i++) dl_unref(part[i]);
    free(part);
    return vector;
}

/* Parameters get the values of the vector. */
static dl_status spread(dl_optimizer *o, dl_tensor *vector) {
    long from = 0;
    for (long i = 0; i < o->n; i++) {
        dl_tensor *p = o->param[i].p;
        long to = from + p->numel, shape[DL_MAX_DIM];
        for (int d = 0; d < p->ndim; d++) shape[d] = p->shape[d];
        DL_OWNED dl_tensor *part = dl_slice(vector, 0, &from, &to, 1);
        DL_OWNED dl_tensor *shaped = part ? dl_reshape(part, shape, p->ndim) : NULL;
        DL_TRY(shaped ? dl_assign(p, shaped) : dl_failed());
        from = to;
    }
    return DL_OK;
}

/* ---- the direction */

static void forget_oldest(lbfgs *l) {
    dl_unref(l->pair[0].y);
    dl_unref(l->pair[0].s);
    memmove(l->pair, l->pair + 1, (size_t)--l->n * sizeof *l->pair);
}

/* The last step and what it did to the gradient, if the loss curves upwards along it. */
static dl_status remember(work *w, long most) {
    lbfgs *l = w->l;
    DL_OWNED dl_tensor *y = dl_sub(w->grad, l->last_grad), *s = times(l->direction, l->length);
    double ys, yy;
    if (!y || !s) return dl_failed();
    DL_TRY(dot(y, s, &ys));
    if (!(ys > 1e-10)) return DL_OK;
    DL_TRY(dot(y, y, &yy));
    if (l->n >= most) forget_oldest(l);
    pair *more = realloc(l->pair, (size_t)(l->n + 1) * sizeof *more);
    if (!more) return dl_fail(DL_ERR_MEMORY, "no memory for the history of lbfgs");
    l->pair = more;
    l->pair[l->n++] = (pair){dl_ref(y), dl_ref(s), 1 / ys};
    l->scale = ys / yy;
    return DL_OK;
}

/* The two loops of the recursion, over d, which begins as the negative gradient. */
static dl_status recursion(const lbfgs *l, dl_tensor **d, double *share) {
    double along;
    for (int i = l->n - 1; i >= 0; i--) {
        DL_TRY(dot(l->pair[i].s, *d, &along));
        share[i] = along * l->pair[i].rho;
        DL_TRY(add(d, l->pair[i].y, -share[i]));
    }
    dl_tensor *scaled = times(*d, l->scale);
    if (!scaled) return dl_failed();
    put(d, scaled);
    for (int i = 0; i < l->n; i++) {
        DL_TRY(dot(l->pair[i].y, *d, &along));
        DL_TRY(add(d, l->pair[i].s, share[i] - along * l->pair[i].rho));
    }
    return DL_OK;
}

static dl_status choose_direction(work *w, long history) {
    lbfgs *l = w->l;
    if (l->last_grad) DL_TRY(remember(w, history));
    dl_tensor *d = dl_neg(w->grad);
    double *share = calloc((size_t)l->n + 1, sizeof *share);
    dl_status st = !d ? dl_failed() : !share ? dl_fail(DL_ERR_MEMORY, "no memory for lbfgs") : recursion(l, &d, share);
    free(share);
    if (st != DL_OK) return dl_unref(d), st;
    put(&l->direction, d);
    put(&l->last_grad, dl_ref(w->grad));
    return DL_OK;
}

/* ---- the step along it */

static dl_status evaluate(work *w, double *loss, dl_tensor **grad) {
    {
        DL_SCOPED_GRAD_MODE(1);
        DL_TRY(w->closure(w->ctx, loss));
    }
    w->evaluations++, w->l->evaluations++;
    dl_tensor *g = flat(w->o, true);
    if (!g) return dl_failed();
    put(grad, g);
    return DL_OK;
}

static dl_status move(work *w, double length) {
    DL_OWNED dl_tensor *to = dl_ref(w->from);
    DL_TRY(add(&to, w->l->direction, length));
    return spread(w->o, to);
}

static dl_status at_point(void *ctx, dl_line_point *p) {
    work *w = ctx;
    DL_TRY(move(w, p->t));
    DL_TRY(evaluate(w, &p->loss, &p->grad));
    return dot(p->grad, w->l->direction, &p->slope);
}

/* As far as the strong Wolfe conditions ask for. After a failure the parameters are where they were. */
static dl_status search(work *w, double slope, double longest, double tolerance) {
    dl_line_point end = {.t = w->l->length};
    dl_line line = {.at = at_point,
                    .ctx = w,
                    .start = {.loss = w->loss, .slope = slope, .grad = w->grad},
                    .longest = longest,
                    .tolerance = tolerance};
    dl_status st = dl_line_search(&line, &end);
    if (st != DL_OK) {
        DL_SCOPED_ERROR;
        spread(w->o, w->from);
        return st;
    }
    put(&w->grad, end.grad);
    w->loss = end.loss, w->l->length = end.t;
    return move(w, end.t);
}

typedef struct limits {
    long iterations, evaluations, history;
    double grad, change;
    bool wolfe;
} limits;

static double option(const dl_optimizer *o, const char *name) { return dl_option_f(&o->row->kind, o->val, name); }

static limits limits_of(const dl_optimizer *o) {
    const dl_kind_row *k = &o->row->kind;
    const dl_optval *most = dl_option(k, o->val, "max_eval");
    limits m = {.iterations = dl_option_i(k, o->val, "max_iter"),
                .history = dl_option_i(k, o->val, "history_size"),
                .grad = option(o, "tolerance_grad"),
                .change = option(o, "tolerance_change"),
                .wolfe = !strcmp(dl_option(k, o->val, "line_search_fn")->u.s, "strong_wolfe")};
    m.evaluations = most->given ? most->u.i : m.iterations * 5 / 4;
    return m;
}

/* One iteration; *done where a limit has been reached. */
static dl_status iterate(work *w, const limits *m, bool last, bool *done) {
    lbfgs *l = w->l;
    double before = w->loss, slope, longest, steepest;
    DL_TRY(choose_direction(w, m->history));
    l->length = w->o->lr;
    if (l->iterations++ == 0) {
        DL_OWNED dl_tensor *size = dl_abs(w->grad), *sum = size ? dl_sum(size, NULL, 0, 0) : NULL;
        double all;
        DL_TRY(sum ? dl_item_f(sum, &all) : dl_failed());
        l->length *= fmin(1, 1 / all);
    }
    DL_TRY(dot(w->grad, l->direction, &slope));
    DL_TRY(largest(l->direction, &longest));
    *done = slope > -m->change;
    if (*done) return DL_OK;
    put(&w->from, flat(w->o, false));
    if (!w->from) return dl_failed();
    if (m->wolfe) {
        DL_TRY(search(w, slope, longest, 1e-9));
    } else {
        DL_TRY(move(w, l->length));
        if (!last) DL_TRY(evaluate(w, &w->loss, &w->grad));
    }
    DL_TRY(largest(w->grad, &steepest));
    *done = last || w->evaluations >= m->evaluations || steepest <= m->grad || longest * l->length <= m->change ||
            fabs(w->loss - before) < m->change;
    return DL_OK;
}

static dl_status minimize(work *w, double *loss) {
    limits m = limits_of(w->o);
    double steepest;
    DL_TRY(evaluate(w, &w->loss, &w->grad));
    *loss = w->loss;
    DL_TRY(largest(w->grad, &steepest));
    bool done = steepest <= m.grad;
    for (long i = 1; !done && i <= m.iterations; i++) DL_TRY(iterate(w, &m, i == m.iterations, &done));
    return DL_OK;
}

static dl_status run(dl_optimizer *o, dl_closure_fn *closure, void *ctx, double *loss) {
    work w = {.o = o, .l = o->algorithm, .closure = closure, .ctx = ctx};
    for (long i = 1; i < o->n; i++)
        if (o->param[i].p->dtype != o->param[0].p->dtype || o->param[i].p->st->device != o->param[0].p->st->device)
            return dl_fail(DL_ERR_VALUE, "lbfgs needs parameters of one dtype on one device: '%s' and '%s' differ",
                           o->param[0].name, o->param[i].name);
    DL_SCOPED_GRAD_MODE(0);
    dl_status st = minimize(&w, loss);
    dl_unref(w.grad);
    dl_unref(w.from);
    return st;
}

/* ---- life and state */

static void drop(lbfgs *l) {
    while (l->n) forget_oldest(l);
    free(l->pair);
    dl_unref(l->direction);
    dl_unref(l->last_grad);
    *l = (lbfgs){.scale = 1};
}

static void *create(void) {
    lbfgs *l = calloc(1, sizeof *l);
    if (!l) return dl_fail(DL_ERR_MEMORY, "no memory for an optimizer"), NULL;
    l->scale = 1;
    return l;
}

static void destroy(void *self) {
    if (self) drop(self);
    free(self);
}

static dl_status check(const dl_kind_row *k, const dl_optval *val) {
    const char *how = dl_option(k, val, "line_search_fn")->u.s;
    if (!*how || !strcmp(how, "none") || !strcmp(how, "strong_wolfe")) return DL_OK;
    return dl_fail_hint(DL_ERR_VALUE, "lbfgs(line_search_fn=\"strong_wolfe\")",
                        "optimizer lbfgs: line_search_fn is none or strong_wolfe, not '%.40s'", how);
}

enum { NUMBERS = 4 };

static dl_status give(dl_state_fn *fn, void *ctx, const char *name, dl_tensor *t) {
    DL_OWNED dl_tensor *owned = t;
    return owned ? fn(ctx, name, owned) : dl_failed();
}

static dl_tensor *stacked(const lbfgs *l, bool steps) {
    DL_FREED dl_tensor **part = calloc((size_t)l->n, sizeof *part);
    if (!part) return dl_fail(DL_ERR_MEMORY, "no memory for the state of lbfgs"), NULL;
    for (int i = 0; i < l->n; i++) part[i] = steps ? l->pair[i].s : l->pair[i].y;
    return dl_stack(part, l->n, 0);
}

/* The numbers, and once there was a step: direction, gradient; then steps and changes of the gradient, [n, elements].
 */
static dl_status state(void *self, dl_state_fn *fn, void *ctx) {
    lbfgs *l = self;
    double numbers[NUMBERS] = {(double)l->iterations, (double)l->evaluations, l->length, l->scale};
    DL_TRY(give(fn, ctx, "numbers", dl_tensor_from(1, (long[]){NUMBERS}, DL_F64, 0, numbers)));
    if (!l->last_grad) return DL_OK;
    DL_TRY(fn(ctx, "direction", l->direction));
    DL_TRY(fn(ctx, "last_grad", l->last_grad));
    if (!l->n) return DL_OK;
    DL_TRY(give(fn, ctx, "steps_done", stacked(l, true)));
    return give(fn, ctx, "changes", stacked(l, false));
}

static dl_status restore_pairs(lbfgs *l, dl_tensor *s, dl_tensor *y) {
    l->pair = calloc((size_t)s->shape[0] + 1, sizeof *l->pair);
    if (!l->pair) return dl_fail(DL_ERR_MEMORY, "no memory for the history of lbfgs");
    for (long i = 0; i < s->shape[0]; i++) {
        pair *p = &l->pair[l->n++];
        double ys;
        *p = (pair){dl_select(y, 0, i), dl_select(s, 0, i), 0};
        if (!p->y || !p->s) return dl_failed();
        DL_TRY(dot(p->y, p->s, &ys));
        p->rho = 1 / ys;
    }
    return DL_OK;
}

/* Like the parameters: their number of elements, dtype and device. */
static dl_tensor *fitted(const dl_optimizer *o, dl_tensor *t) {
    const dl_tensor *p = o->param[0].p;
    DL_OWNED dl_tensor *cast = dl_to_dtype(t, p->dtype), *moved = cast ? dl_to_device(cast, p->st->device) : NULL;
    return moved ? dl_clone(moved) : NULL;
}

static dl_status restore(dl_optimizer *o, dl_find_fn *find, const void *ctx, bool write) {
    dl_tensor *numbers = find(ctx, "numbers"), *part[4] = {find(ctx, "direction"), find(ctx, "last_grad"),
                                                           find(ctx, "steps_done"), find(ctx, "changes")};
    long elements = 0;
    double v[NUMBERS];
    for (long i = 0; i < o->n; i++) elements += o->param[i].p->numel;
    bool good = numbers && numbers->dtype == DL_F64 && numbers->numel == NUMBERS && !part[0] == !part[1] &&
                !part[2] == !part[3] && (part[0] || !part[2]) && (!part[2] || dl_shape_eq(part[2], part[3]));
    for (int i = 0; i < 4 && good; i++)
        good = !part[i] || (part[i]->ndim == 1 + i / 2 && part[i]->shape[i / 2] == elements);
    if (!good)
        return dl_fail_hint(DL_ERR_SHAPE, "make it with the net or parameters that it was saved with",
                            "the state of lbfgs does not fit %ld parameters of %ld elements", o->n, elements);
    if (!write) return DL_OK;
    DL_TRY(dl_read_f64(numbers, v));
    lbfgs new = {.iterations = (long)v[0], .evaluations = (long)v[1], .length = v[2], .scale = v[3]}, *l = o->algorithm;
    dl_status st = DL_OK;
    dl_tensor *own[4] = {0};
    for (int i = 0; i < 4 && st == DL_OK; i++)
        if (part[i] && !(own[i] = fitted(o, part[i]))) st = dl_failed();
    if (st == DL_OK && own[2]) st = restore_pairs(&new, own[2], own[3]);
    new.direction = dl_ref(own[0]), new.last_grad = dl_ref(own[1]);
    for (int i = 0; i < 4; i++) dl_unref(own[i]);
    drop(st == DL_OK ? l : &new);
    if (st == DL_OK) *l = new;
    return st;
}

const dl_opt_algorithm dl_algorithm_lbfgs = {create, destroy, check, run, state, restore};
