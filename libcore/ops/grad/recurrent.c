/* The gradient of recurrent layers to any order: the layers computed again, step by step, by differentiable ops. The
 * kernels bring the first order themselves. */
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/matmul.h"
#include "dlcore/unary.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/grad.h"
#include "ops/recurrent.h"
#include "ops/rules/recurrent.h"

#include <stdlib.h>

/* A rerun of the layers: `in` are stand-ins of the saved inputs, from which the gradients come. */
typedef struct rerun {
    dl_back *b;
    dl_recurrent_sizes r;
    dl_tensor **in;
} rerun;

#define KEEP(expr) dl_tmp(u->b, (expr))

/* Columns k * n to (k + 1) * n of a matrix. */
static dl_tensor *block(const rerun *u, dl_tensor *t, int k) {
    long from = k * u->r.hidden, to = from + u->r.hidden;
    return t ? KEEP(dl_slice(t, 1, &from, &to, 1)) : NULL;
}

static dl_tensor *step_lstm(const rerun *u, dl_tensor *a, dl_tensor **c) {
    dl_tensor *i = KEEP(dl_sigmoid(block(u, a, 0))), *f = KEEP(dl_sigmoid(block(u, a, 1))),
              *g = KEEP(dl_tanh(block(u, a, 2))), *o = KEEP(dl_sigmoid(block(u, a, 3)));
    *c = KEEP(dl_add(KEEP(dl_mul(f, *c)), KEEP(dl_mul(i, g))));
    return KEEP(dl_mul(o, KEEP(dl_tanh(*c))));
}

static dl_tensor *step_gru(const rerun *u, dl_tensor *x, dl_tensor *hh, dl_tensor *h) {
    dl_tensor *r = KEEP(dl_sigmoid(KEEP(dl_add(block(u, x, 0), block(u, hh, 0))))),
              *z = KEEP(dl_sigmoid(KEEP(dl_add(block(u, x, 1), block(u, hh, 1))))),
              *n = KEEP(dl_tanh(KEEP(dl_add(block(u, x, 2), KEEP(dl_mul(r, block(u, hh, 2)))))));
    return KEEP(dl_add(n, KEEP(dl_mul(z, KEEP(dl_sub(h, n))))));
}

/* The next state h, and *c of an LSTM, for the inputs' part x of the gates. */
static dl_tensor *next_step(const rerun *u, dl_tensor *x, dl_tensor *h, dl_tensor **c, dl_tensor *w, dl_tensor *bias) {
    dl_tensor *hh = KEEP(dl_linear(h, w, bias));
    if (u->r.cell == DL_CELL_GRU) return step_gru(u, x, hh, h);
    dl_tensor *a = KEEP(dl_add(x, hh));
    if (u->r.cell == DL_CELL_LSTM) return step_lstm(u, a, c);
    return KEEP(u->r.cell == DL_CELL_TANH ? dl_tanh(a) : dl_relu(a));
}

static dl_tensor *zeros(const rerun *u) {
    const dl_tensor *x = u->in[0];
    return KEEP(dl_zeros((long[]){u->r.batch, u->r.hidden}, 2, x->dtype, x->st->device));
}

/* The state that a layer and direction starts with. */
static dl_tensor *first_state(const rerun *u, int input, int part) {
    return u->in[input] ? KEEP(dl_select(u->in[input], 0, part)) : zeros(u);
}

/* One direction of a layer for x [T,N,..]: out[t] for all steps, *h and *c at the end. */
static dl_status run_direction(const rerun *u, dl_tensor *x, int layer, int direction, dl_tensor **out, dl_tensor **h,
                               dl_tensor **c) {
    int part = layer * u->r.directions + direction;
    dl_tensor **w = u->in + dl_recurrent_param(&u->r, layer, direction, 0), *lengths = u->in[DL_IN_RECURRENT_LENGTHS];
    dl_tensor *gates = KEEP(dl_linear(x, w[0], u->r.each > 2 ? w[2] : NULL)), *none = KEEP(dl_scalar_f(0));
    *h = first_state(u, DL_IN_RECURRENT_HX, part);
    *c = u->r.cell == DL_CELL_LSTM ? first_state(u, DL_IN_RECURRENT_CX, part) : NULL;
    for (long i = 0; i < u->r.steps && gates && *h; i++) {
        long t = direction ? u->r.steps - 1 - i : i;
        dl_tensor *c1 = *c,
                  *h1 = next_step(u, KEEP(dl_select(gates, 0, t)), *h, &c1, w[1], u->r.each > 2 ? w[3] : NULL);
        dl_tensor *in = lengths ? KEEP(dl_gt(lengths, KEEP(dl_scalar_i(t)))) : NULL;
        if (in) in = KEEP(dl_reshape(in, (long[]){u->r.batch, 1}, 2));
        out[t] = in ? KEEP(dl_where(in, h1, none)) : h1;
        *h = in ? KEEP(dl_where(in, h1, *h)) : h1;
        if (*c) *c = in ? KEEP(dl_where(in, c1, *c)) : c1;
    }
    return gates && *h ? DL_OK : dl_failed();
}
#undef KEEP

/* All layers: y, and the states of each layer and direction. */
static dl_tensor *run_layers(const rerun *u, dl_tensor **h, dl_tensor **c) {
    dl_back *b = u->b;
    dl_tensor *y = u->in[0], *side[2] = {NULL};
    dl_tensor **step = malloc((size_t)u->r.steps * sizeof *step);
    if (!step) return dl_fail(DL_ERR_MEMORY, "no memory for the steps of a sequence"), NULL;
    for (int l = 0; l < u->r.layers && y; l++) {
        for (int d = 0; d < u->r.directions; d++) {
            int part = l * u->r.directions + d;
            dl_status s = run_direction(u, y, l, d, step, &h[part], &c[part]);
            side[d] = s == DL_OK ? T(dl_stack(step, (int)u->r.steps, 0)) : NULL;
        }
        bool whole = side[0] && (u->r.directions == 1 || side[1]);
        y = !whole ? NULL : u->r.directions == 1 ? side[0] : T(dl_cat(side, 2, 2));
    }
    free(step);
    return y;
}

/* The sum whose gradient is wanted; NULL: failed. */
static dl_tensor *objective(dl_back *b, dl_tensor **in, void *arg) {
    enum { PARTS = 128 };
    rerun *u = arg;
    u->in = in;
    dl_tensor *h[PARTS], *c[PARTS], *y = run_layers(u, h, c), *total = NULL;
    int n = dl_recurrent_parts(&u->r);
    if (!y) return NULL;
    if (b->g[DL_OUT_RECURRENT_OUT]) total = dl_plus_product(b, NULL, y, b->g[DL_OUT_RECURRENT_OUT]);
    if (b->g[DL_OUT_RECURRENT_H]) total = dl_plus_product(b, total, T(dl_stack(h, n, 0)), b->g[DL_OUT_RECURRENT_H]);
    if (b->g[DL_OUT_RECURRENT_C]) total = dl_plus_product(b, total, T(dl_stack(c, n, 0)), b->g[DL_OUT_RECURRENT_C]);
    return total;
}

GRAD_RULE(recurrent) {
    rerun u = {.b = b};
    DL_TRY(dl_recurrent_of_node(b, &u.r));
    return dl_grad_by_rerun(b, objective, &u);
}
