/* Recurrent layers and cells. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/scope.h"
#include "nn/layers.h"
#include "nn/reparam.h"
#include "ops/recurrent.h"
#include "dlcore/recurrent.h"

static const char *const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};

/* What the op calls the layer: "lstm", "gru", "tanh" or "relu". */
static const char *mode_of(const dl_module *m) {
    const char *kind = m->row->kind.name;
    return !strncmp(kind, "rnn", 3) ? dl_m_opt(m, "nonlinearity")->u.s : !strncmp(kind, "gru", 3) ? "gru" : "lstm";
}

static dl_status check_least(const dl_module *m, const char *option, long least, long most) {
    long n = dl_m_int(m, option);
    if (n >= least && n <= most) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "layer %s: %s must be %ld to %ld, not %ld", m->row->kind.name, option, least, most, n);
}

dl_status dl_layer_cell_check(dl_module *m) {
    DL_TRY(check_least(m, "hidden_size", 1, 1 << 20));
    const char *mode = mode_of(m);
    if (dl_cell_gates(mode) > 0 && (strncmp(m->row->kind.name, "rnn", 3) || dl_cell_gates(mode) == 1)) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "layer %s: nonlinearity is tanh or relu, not '%s'", m->row->kind.name, mode);
}

dl_status dl_layer_recurrent_check(dl_module *m) {
    double p = dl_m_float(m, "dropout");
    DL_TRY(dl_layer_cell_check(m));
    DL_TRY(check_least(m, "num_layers", 1, 64));
    if (p >= 0 && p <= 1) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "layer %s: dropout is a probability, between 0 and 1, not %g", m->row->kind.name, p);
}

/* The parameters of one layer and direction, for inputs of size `in`; -1: it is not known yet. */
static dl_status add_params(dl_module *m, const char *suffix, long in) {
    long hidden = dl_m_int(m, "hidden_size"), rows = dl_cell_gates(mode_of(m)) * hidden;
    int n = dl_m_int(m, "bias") ? 4 : 2;
    char init[80], name[64];
    double bound = 1 / sqrt((double)hidden);
    snprintf(init, sizeof init, "uniform(%.17g, %.17g)", -bound, bound);
    for (int k = 0; k < n; k++) {
        long shape[] = {rows, k ? hidden : in};
        snprintf(name, sizeof name, "%s%s", names[k], suffix);
        DL_TRY(dl_part_weight(m, name, k < 2 ? 2 : 1, shape, init));
    }
    return DL_OK;
}

dl_status dl_layer_recurrent_parts(dl_module *m) {
    int directions = dl_m_int(m, "bidirectional") ? 2 : 1;
    for (long l = 0; l < dl_m_int(m, "num_layers"); l++)
        for (int d = 0; d < directions; d++) {
            char suffix[40];
            snprintf(suffix, sizeof suffix, "_l%ld%s", l, d ? "_reverse" : "");
            DL_TRY(add_params(m, suffix, l ? directions * dl_m_int(m, "hidden_size") : -1));
        }
    return DL_OK;
}

dl_status dl_layer_cell_parts(dl_module *m) { return add_params(m, "", -1); }

/* The parameters in the order of the op, made for x if they are not there. Returns how many; -1: failed. */
static int params_of(dl_module *m, const dl_tensor *x, int least, dl_tensor **out) {
    if (x->ndim < least) {
        dl_fail(DL_ERR_SHAPE, "layer %s takes %s, not %s", m->row->kind.name,
                least == 1 ? "[N,input] or [input]" : "sequences [T,N,input] or [T,input]", dl_shape_of(x));
        return -1;
    }
    if (dl_part_weights_make(m, x->shape[x->ndim - 1], dl_device_of(x)) != DL_OK) return -1;
    if (dl_reparam_start(m) != DL_OK) return -1;
    int n = 0;
    for (int i = 0; i < m->nchild; i++)
        if (!m->child[i].m->source) out[n++] = m->child[i].m->tensor[0];
    return n;
}

enum { MOST = 64 * 2 * 4 }; /* parameters */

/* What the functions of layers have in common. */
typedef struct options {
    double dropout;
    long layers;
    int training, bidirectional, batch_first;
} options;

static options options_of(const dl_module *m) {
    return (options){dl_m_float(m, "dropout"), dl_m_int(m, "num_layers"), dl_m_training(m),
                     (int)dl_m_int(m, "bidirectional"), (int)dl_m_int(m, "batch_first")};
}

dl_pack *dl_layer_lstm_call(dl_module *m, dl_pack *in) {
    dl_tensor *w[MOST], *x = dl_pack_tensor(in, 0), *y[3] = {NULL};
    int n = params_of(m, x, 2, w);
    if (n < 0) return NULL;
    options o = options_of(m);
    y[0] = dl_lstm(x, dl_pack_tensor(in, 1), dl_pack_tensor(in, 2), dl_pack_tensor(in, 3), w, n, o.layers, o.dropout,
                   o.training, o.bidirectional, o.batch_first, &y[1], &y[2]);
    return dl_layer_results(y, 3);
}

dl_pack *dl_layer_gru_call(dl_module *m, dl_pack *in) {
    dl_tensor *w[MOST], *x = dl_pack_tensor(in, 0), *y[2] = {NULL};
    int n = params_of(m, x, 2, w);
    if (n < 0) return NULL;
    options o = options_of(m);
    y[0] = dl_gru(x, dl_pack_tensor(in, 1), dl_pack_tensor(in, 2), w, n, o.layers, o.dropout, o.training,
                  o.bidirectional, o.batch_first, &y[1]);
    return dl_layer_results(y, 2);
}

dl_pack *dl_layer_rnn_call(dl_module *m, dl_pack *in) {
    dl_tensor *w[MOST], *x = dl_pack_tensor(in, 0), *y[2] = {NULL};
    int n = params_of(m, x, 2, w);
    if (n < 0) return NULL;
    options o = options_of(m);
    y[0] = dl_rnn(x, dl_pack_tensor(in, 1), dl_pack_tensor(in, 2), w, n, o.layers, mode_of(m), o.dropout, o.training,
                  o.bidirectional, o.batch_first, &y[1]);
    return dl_layer_results(y, 2);
}

/* ---- cells */

/* State i of a cell that is given, or zeros. Owned. */
static dl_tensor *state(const dl_module *m, const dl_pack *in, int i) {
    const dl_tensor *x = dl_pack_tensor(in, 0);
    long shape[DL_MAX_DIM];
    if (dl_pack_tensor(in, i)) return dl_ref(dl_pack_tensor(in, i));
    memcpy(shape, x->shape, sizeof shape);
    shape[x->ndim - 1] = dl_m_int(m, "hidden_size");
    return dl_tensor_zeros(x->ndim, shape, x->dtype, dl_device_of(x));
}

dl_pack *dl_layer_lstm_cell_call(dl_module *m, dl_pack *in) {
    dl_tensor *w[4] = {NULL}, *x = dl_pack_tensor(in, 0), *y[2] = {NULL};
    if (params_of(m, x, 1, w) < 0) return NULL;
    DL_OWNED dl_tensor *h = state(m, in, 1), *c = state(m, in, 2);
    if (h && c) y[0] = dl_lstm_cell(x, h, c, w[0], w[1], w[2], w[3], &y[1]);
    return dl_layer_results(y, 2);
}

dl_pack *dl_layer_gru_cell_call(dl_module *m, dl_pack *in) {
    dl_tensor *w[4] = {NULL}, *x = dl_pack_tensor(in, 0), *y[1] = {NULL};
    if (params_of(m, x, 1, w) < 0) return NULL;
    DL_OWNED dl_tensor *h = state(m, in, 1);
    if (h) y[0] = dl_gru_cell(x, h, w[0], w[1], w[2], w[3]);
    return dl_layer_results(y, 1);
}

dl_pack *dl_layer_rnn_cell_call(dl_module *m, dl_pack *in) {
    dl_tensor *w[4] = {NULL}, *x = dl_pack_tensor(in, 0), *y[1] = {NULL};
    if (params_of(m, x, 1, w) < 0) return NULL;
    DL_OWNED dl_tensor *h = state(m, in, 1);
    if (h) y[0] = (!strcmp(mode_of(m), "relu") ? dl_rnn_relu_cell : dl_rnn_tanh_cell)(x, h, w[0], w[1], w[2], w[3]);
    return dl_layer_results(y, 1);
}
