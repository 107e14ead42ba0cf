/* Rows made of other rows. */
#include "ops/infer.h"
#include "ops/rules.h"

/* Temporaries of one composition. */
typedef struct pool {
    dl_tensor *t[16];
    int n;
} pool;

static dl_tensor *hold(pool *p, dl_tensor *t) { return p->t[p->n++] = t; }

static dl_status finish(pool *p, dl_call *c, dl_tensor *out) {
    c->out[0] = out;
    while (p->n) dl_unref(p->t[--p->n]);
    return out ? DL_OK : dl_error_last()->code;
}

#define H(expr) hold(&p, (expr))

/* ---- making */

static dl_status filled(dl_call *c, double value) {
    pool p = {0};
    return finish(&p, c, dl_full(c->attr[0].u.v, c->attr[0].n, value, c->dtype, c->device));
}
COMPOSE_RULE(zeros) { return filled(c, 0); }
COMPOSE_RULE(ones) { return filled(c, 1); }

/* ---- joining */

static dl_tensor *with_dim(dl_tensor *t, int d) {
    long shape[DL_MAX_DIM + 1];
    for (int i = 0; i <= t->ndim; i++) shape[i] = i < d ? t->shape[i] : i == d ? 1 : t->shape[i - 1];
    return dl_reshape(t, shape, t->ndim + 1);
}

COMPOSE_RULE(stack) {
    dl_tensor *part[DL_MAX_IN];
    int d, n = 0;
    DL_TRY(dl_dim_norm(c->attr[0].u.i, c->in[0]->ndim + 1, &d));
    dl_status s = DL_OK;
    for (; n < c->nin && s == DL_OK; n++) {
        part[n] = NULL;
        if (!dl_shape_eq(c->in[0], c->in[n])) {
            char x[160], y[160];
            s = dl_fail_hint(DL_ERR_SHAPE, "use cat() to join along a dimension that exists",
                             "the tensors must have one shape, not %s and %s",
                             dl_shape_text(c->in[0]->ndim, c->in[0]->shape, x, sizeof x),
                             dl_shape_text(c->in[n]->ndim, c->in[n]->shape, y, sizeof y));
        } else if (!(part[n] = with_dim(c->in[n], d)))
            s = dl_error_last()->code;
    }
    if (s == DL_OK && !(c->out[0] = dl_cat(part, n, d))) s = dl_error_last()->code;
    while (n) dl_unref(part[--n]);
    return s;
}

/* ---- statistics */

/* sum((x - mean)**2) / (n - correction), reduced dimensions kept; what is not positive divides as 0. */
static dl_tensor *variance(dl_call *c, pool *pp, unsigned mask) {
    pool p = *pp;
    dl_tensor *x = c->in[0];
    const dl_aval *dim = &c->attr[0];
    double n = 1;
    for (int i = 0; i < x->ndim; i++) n *= mask >> i & 1 ? (double)x->shape[i] : 1;
    n -= (double)c->attr[1].u.i;
    dl_tensor *mean = H(dl_mean(x, dim->given ? dim->u.v : NULL, dim->n, 1));
    dl_tensor *sq = H(dl_square(H(dl_sub(x, mean))));
    dl_tensor *sum = H(dl_sum(sq, dim->given ? dim->u.v : NULL, dim->n, c->attr[2].u.i != 0));
    dl_tensor *var = dl_div(sum, H(dl_scalar_f(n > 0 ? n : 0)));
    *pp = p;
    return var;
}

COMPOSE_RULE(var) {
    pool p = {0};
    unsigned mask;
    DL_TRY(dl_reduced_dims(c->op, &c->attr[0], c->in[0]->ndim, &mask));
    dl_tensor *v = variance(c, &p, mask);
    return finish(&p, c, v);
}

/* The root of s, with gradient 0 where s is 0. */
static dl_tensor *safe_root(dl_tensor *s, pool *pp) {
    pool p = *pp;
    dl_tensor *zero = H(dl_scalar_f(0)), *is = H(dl_eq(s, zero));
    dl_tensor *root = H(dl_sqrt(H(dl_where(is, H(dl_scalar_f(1)), s))));
    dl_tensor *out = dl_where(is, zero, root);
    *pp = p;
    return out;
}

COMPOSE_RULE(std) {
    pool p = {0};
    unsigned mask;
    DL_TRY(dl_reduced_dims(c->op, &c->attr[0], c->in[0]->ndim, &mask));
    dl_tensor *v = H(variance(c, &p, mask));
    return finish(&p, c, safe_root(v, &p));
}

COMPOSE_RULE(norm) {
    pool p = {0};
    const dl_aval *dim = &c->attr[0];
    dl_tensor *sq = H(dl_square(c->in[0]));
    dl_tensor *s = H(dl_sum(sq, dim->given ? dim->u.v : NULL, dim->n, c->attr[1].u.i != 0));
    return finish(&p, c, safe_root(s, &p));
}
