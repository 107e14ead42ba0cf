/* LSTM, GRU and plain recurrent layers as they are called, and single steps of them: shapes and options around the op
 * `recurrent`, and dropout between layers. */
#include "dlcore/index.h"
#include "dlcore/norm.h"
#include "dlcore/recurrent.h"
#include "dlcore/view.h"
#include "ops/compose/compose.h"
#include "ops/rules/recurrent.h"

#include <string.h>

/* One call. States are [parts,N,H] once it runs. */
typedef struct layers {
    const char *mode;
    dl_tensor *x, *hx, *cx, *lengths, **params;
    int nparams;
    dl_tensor *y, *h, *c;
} layers;

static dl_status swap_first(dl_pool *p, dl_tensor **t) {
    *t = K(dl_permute(*t, (long[]){1, 0, 2}, 3));
    return *t ? DL_OK : dl_failed();
}

/* t with a dimension of size 1 at `at`; NULL passes. */
static dl_status put_in(dl_pool *p, dl_tensor **t, int at) {
    if (!*t) return DL_OK;
    *t = K(dl_with_dim(*t, at));
    return *t ? DL_OK : dl_failed();
}

/* t, whose reference it takes, without its dimension `at` of size 1. */
static dl_tensor *take_out(dl_tensor *t, int at) {
    long shape[DL_MAX_DIM];
    if (!t) return NULL;
    for (int i = 0, k = 0; i < t->ndim; i++)
        if (i != at) shape[k++] = t->shape[i];
    DL_OWNED dl_tensor *whole = t;
    return dl_reshape(whole, shape, whole->ndim - 1);
}

static dl_tensor *run(const layers *l, dl_tensor *x, dl_tensor *hx, dl_tensor *cx, int from, int n, long num,
                      int directions, dl_tensor **h, dl_tensor **c) {
    return dl_recurrent(x, hx, cx, l->lengths, l->params + from, n, l->mode, num, directions - 1, h, c);
}

/* Rows [from, from + n) of a state; NULL passes. */
static dl_tensor *rows(dl_pool *p, dl_tensor *state, long from, long n) {
    long to = from + n;
    return state ? K(dl_slice(state, 0, &from, &to, 1)) : NULL;
}

/* Layer by layer, with dropout between them. */
static dl_status run_apart(layers *l, long num, int directions, double dropout) {
    dl_tensor *h[64] = {NULL}, *c[64] = {NULL}, *y = dl_ref(l->x);
    int each = l->nparams / (int)num;
    for (int i = 0; i < num && y; i++) {
        POOL;
        if (i) y = K(y), y = dl_dropout(y, dropout, 1);
        dl_tensor *x = K(y), *hx = rows(p, l->hx, i * directions, directions),
                  *cx = rows(p, l->cx, i * directions, directions);
        bool good = x && (!l->hx || hx) && (!l->cx || cx);
        y = good ? run(l, x, hx, cx, i * each, each, 1, directions, &h[i], &c[i]) : NULL;
    }
    l->y = y;
    if (y) l->h = dl_cat(h, (int)num, 0);
    if (y && c[0]) l->c = dl_cat(c, (int)num, 0);
    for (int i = 0; i < num; i++) dl_unref(h[i]), dl_unref(c[i]);
    return l->y && l->h && (l->c || strcmp(l->mode, "lstm")) ? DL_OK : dl_failed();
}

static dl_status check_dropout(double p, long num) {
    if (!(p >= 0 && p <= 1)) return dl_fail(DL_ERR_VALUE, "dropout is a probability, between 0 and 1, not %g", p);
    return num >= 1 && num <= 64 ? DL_OK : dl_fail(DL_ERR_VALUE, "num_layers must be 1 to 64, not %ld", num);
}

/* The parameters of so many layers and directions can be split into layers; else `recurrent` says what is wrong. */
static bool divides(const layers *l, long num, int directions) {
    return l->nparams == 4 * num * directions || l->nparams == 2 * num * directions;
}

/* A state of the wrong number of dimensions, before one is added for a sequence alone. */
static dl_status check_state(const dl_tensor *t, const char *what, bool alone) {
    int want = alone ? 2 : 3;
    if (!t || t->ndim == want) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "for %s, %s must have %d dimensions, not the shape %s",
                   alone ? "a sequence [T,input]" : "sequences in a batch", what, want, dl_shape_of(t));
}

static dl_status run_layers(dl_call *c, layers *l) {
    POOL;
    long num = ATTR_I(c, SEQUENCE_NUM_LAYERS);
    int directions = ATTR_I(c, SEQUENCE_BIDIRECTIONAL) ? 2 : 1;
    double dropout = ATTR_I(c, SEQUENCE_TRAINING) ? ATTR_F(c, RNN_DROPOUT) : 0;
    bool alone = l->x->ndim == 2, first = ATTR_I(c, SEQUENCE_BATCH_FIRST) && !alone;
    DL_TRY(check_dropout(ATTR_F(c, SEQUENCE_DROPOUT), num));
    if (!alone && l->x->ndim != 3)
        return dl_fail(DL_ERR_SHAPE, "the input must be [%s,input], or [T,input], not %s", first ? "N,T" : "T,N",
                       dl_shape_of(l->x));
    DL_TRY(check_state(l->hx, "hx", alone));
    DL_TRY(check_state(l->cx, "cx", alone));
    if (alone) {
        DL_TRY(put_in(p, &l->x, 1));
        DL_TRY(put_in(p, &l->hx, 1));
        DL_TRY(put_in(p, &l->cx, 1));
    }
    if (first) DL_TRY(swap_first(p, &l->x));
    if (dropout > 0 && num > 1 && divides(l, num, directions))
        DL_TRY(run_apart(l, num, directions, dropout));
    else
        l->y = run(l, l->x, l->hx, l->cx, 0, l->nparams, num, directions, &l->h, &l->c);
    if (!l->y) return dl_failed();
    if (first) l->y = dl_permute(K(l->y), (long[]){1, 0, 2}, 3);
    if (alone) l->y = take_out(l->y, 1), l->h = take_out(l->h, 1), l->c = take_out(l->c, 1);
    return l->y && l->h ? DL_OK : dl_failed();
}

/* Runs the layers of a call whose inputs are input, hx, [cx,] lengths, params. */
static dl_status finish(dl_call *c, const char *mode, bool cell) {
    int lengths = cell ? DL_IN_LSTM_LENGTHS : DL_IN_GRU_LENGTHS, params = lengths + 1;
    layers l = {
        .mode = mode, .x = c->in[0], .params = c->in + params, .nparams = c->nin > params ? c->nin - params : 0};
    if (c->nin > 1) l.hx = c->in[1];
    if (cell && c->nin > 2) l.cx = c->in[2];
    if (c->nin > lengths) l.lengths = c->in[lengths];
    dl_status s = run_layers(c, &l);
    c->out[0] = l.y, c->out[1] = l.h;
    if (cell)
        c->out[2] = l.c;
    else
        dl_unref(l.c);
    return s;
}

COMPOSE_RULE(lstm) { return finish(c, "lstm", true); }
COMPOSE_RULE(gru) { return finish(c, "gru", false); }
COMPOSE_RULE(rnn) { return finish(c, ATTR_S(c, RNN_NONLINEARITY), false); }

/* ---- single steps */

/* One step of inputs [N,input], or [input], with states like them; params: from input `at` on. */
static dl_status one_step(dl_call *c, const char *mode, int at) {
    POOL;
    bool cell = !strcmp(mode, "lstm"), alone = c->in[0]->ndim == 1;
    dl_tensor *x = c->in[0], *hx = c->in[1], *cx = cell ? c->in[2] : NULL, *params[4], *y, *h = NULL, *c1 = NULL;
    int n = 0;
    for (int i = at; i < c->nin; i++)
        if (c->in[i]) params[n++] = c->in[i];
    for (int i = 0; i < 2; i++) { /* [input] to [1,input] to [1,1,input] */
        if (i && !alone) break;
        DL_TRY(put_in(p, &x, 0));
        DL_TRY(put_in(p, &hx, 0));
        DL_TRY(put_in(p, &cx, 0));
    }
    y = K(dl_recurrent(x, hx, cx, NULL, params, n, mode, 1, 0, &h, &c1));
    if (!y) return dl_failed();
    for (int i = 0; i < (alone ? 2 : 1); i++) h = take_out(h, 0), c1 = take_out(c1, 0);
    c->out[0] = h;
    if (cell)
        c->out[1] = c1;
    else
        dl_unref(c1);
    return h ? DL_OK : dl_failed();
}

COMPOSE_RULE(lstm_cell) { return one_step(c, "lstm", DL_IN_LSTM_CELL_W_IH); }
COMPOSE_RULE(gru_cell) { return one_step(c, "gru", DL_IN_GRU_CELL_W_IH); }
COMPOSE_RULE(rnn_tanh_cell) { return one_step(c, "tanh", DL_IN_RNN_TANH_CELL_W_IH); }
COMPOSE_RULE(rnn_relu_cell) { return one_step(c, "relu", DL_IN_RNN_RELU_CELL_W_IH); }
