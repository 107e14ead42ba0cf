/* Shapes of recurrent layers. */
#include "ops/recurrent.h"
#include "autograd/tape.h"
#include "ops/infer.h"
#include "ops/rules/recurrent.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *mode;
    int gates;
} cells[DL_NCELL] = {[DL_CELL_LSTM] = {"lstm", 4}, [DL_CELL_GRU] = {"gru", 3}, {"tanh", 1}, {"relu", 1}};

static int cell_of(const char *mode) {
    for (int i = 0; i < DL_NCELL; i++)
        if (!strcmp(mode, cells[i].mode)) return i;
    return -1;
}

int dl_cell_gates(const char *mode) {
    int cell = cell_of(mode);
    return cell < 0 ? -1 : cells[cell].gates;
}

int dl_recurrent_param(const dl_recurrent_sizes *r, int layer, int direction, int k) {
    return DL_IN_RECURRENT_PARAMS + (layer * r->directions + direction) * r->each + k;
}

/* What the attributes, the input and the first weight_hh say. */
static void sizes(const dl_aval *attr, const long *input, const long *weight, int nparams, dl_recurrent_sizes *r) {
    int cell = cell_of(attr[DL_A_RECURRENT_MODE].u.s);
    memset(r, 0, sizeof *r); /* plans compare its bytes */
    r->cell = (dl_cell)cell, r->gates = cells[cell].gates;
    r->layers = (int)attr[DL_A_RECURRENT_NUM_LAYERS].u.i;
    r->directions = attr[DL_A_RECURRENT_BIDIRECTIONAL].u.i ? 2 : 1;
    r->steps = input[0], r->batch = input[1], r->input = input[2], r->hidden = weight[1];
    r->each = nparams / dl_recurrent_parts(r);
}

static dl_status expect(const dl_call *c, int i, const char *what, int ndim, const long *shape) {
    const dl_tensor *t = c->in[i];
    bool good = t->ndim == ndim;
    for (int d = 0; good && d < ndim; d++) good = t->shape[d] == shape[d];
    if (!good)
        return dl_fail(DL_ERR_SHAPE, "%s must have shape %s, not %s", what, dl_shape_text(ndim, shape), dl_shape_of(t));
    if (t->dtype == (int8_t)c->dtype) return DL_OK;
    return dl_fail(DL_ERR_DTYPE, "%s must be %s like the input, not %s", what, dl_dtype_name(c->dtype), dl_type_of(t));
}

static dl_status check_params(const dl_call *c, const dl_recurrent_sizes *r) {
    static const char *const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    long rows = r->gates * r->hidden;
    for (int i = 0; i < dl_recurrent_parts(r); i++) {
        int layer = i / r->directions;
        for (int k = 0; k < r->each; k++) {
            char what[48];
            snprintf(what, sizeof what, "%s_l%d%s", names[k], layer, i % r->directions ? "_reverse" : "");
            long shape[] = {rows, k ? r->hidden : dl_recurrent_input(r, layer)};
            DL_TRY(expect(c, dl_recurrent_param(r, layer, i % r->directions, k), what, k < 2 ? 2 : 1, shape));
        }
    }
    return DL_OK;
}

static dl_status check_states(const dl_call *c, const dl_recurrent_sizes *r) {
    const dl_tensor *lengths = INPUT(c, RECURRENT_LENGTHS);
    const long state[] = {dl_recurrent_parts(r), r->batch, r->hidden};
    if (INPUT(c, RECURRENT_HX)) DL_TRY(expect(c, DL_IN_RECURRENT_HX, "hx", 3, state));
    if (INPUT(c, RECURRENT_CX)) {
        if (r->cell != DL_CELL_LSTM) return dl_fail(DL_ERR_VALUE, "only an LSTM has a state cx");
        DL_TRY(expect(c, DL_IN_RECURRENT_CX, "cx", 3, state));
    }
    if (!lengths) return DL_OK;
    DL_TRY(dl_check_index(lengths));
    if (lengths->ndim == 1 && lengths->shape[0] == r->batch) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "lengths must have shape [%ld], one for each sequence, not %s", r->batch,
                   dl_shape_of(lengths));
}

dl_status dl_recurrent_of(const dl_call *c, dl_recurrent_sizes *r) {
    const char *mode = ATTR_S(c, RECURRENT_MODE);
    long layers = ATTR_I(c, RECURRENT_NUM_LAYERS), parts = ATTR_I(c, RECURRENT_BIDIRECTIONAL) ? 2 * layers : layers;
    int nparams = c->nin - DL_IN_RECURRENT_PARAMS;
    const dl_tensor *x = c->in[0], *w = nparams > 1 ? c->in[DL_IN_RECURRENT_PARAMS + 1] : NULL;
    if (cell_of(mode) < 0) return dl_fail(DL_ERR_VALUE, "mode is lstm, gru, tanh or relu, not '%s'", mode);
    if (layers < 1 || layers > 64) return dl_fail(DL_ERR_VALUE, "num_layers must be 1 to 64, not %ld", layers);
    if (!dl_dtype_is_float(c->dtype))
        return dl_fail_hint(DL_ERR_DTYPE, "convert with .to(f32)", "the input must be floating, not %s",
                            dl_dtype_name(c->dtype));
    if (x->ndim != 3) return dl_fail(DL_ERR_SHAPE, "the input must be [T,N,input], not %s", dl_shape_of(x));
    if (!x->shape[0]) return dl_fail(DL_ERR_SHAPE, "the sequences must have at least one step");
    if (nparams != 4 * parts && nparams != 2 * parts)
        return dl_fail_hint(DL_ERR_VALUE, "weight_ih, weight_hh, bias_ih, bias_hh of each, or the two weights alone",
                            "%ld layer%s and direction%s take %ld or %ld params, not %d", parts, parts == 1 ? "" : "s",
                            parts == 1 ? "" : "s", 4 * parts, 2 * parts, nparams < 0 ? 0 : nparams);
    if (w->ndim != 2 || !w->shape[1])
        return dl_fail(DL_ERR_SHAPE, "weight_hh_l0 must be a matrix [%d H, H], not %s", dl_cell_gates(mode),
                       dl_shape_of(w));
    sizes(c->attr, x->shape, w->shape, nparams, r);
    DL_TRY(check_params(c, r));
    return check_states(c, r);
}

dl_status dl_recurrent_of_node(const dl_back *b, dl_recurrent_sizes *r) {
    sizes(b->attr, META(RECURRENT_INPUT)->shape, dl_in_meta(b, DL_IN_RECURRENT_PARAMS + 1)->shape,
          b->nin - DL_IN_RECURRENT_PARAMS, r);
    return DL_OK;
}

bool dl_recurrent_keeps(const dl_call *c) {
    bool any = false;
    for (int i = 0; i < c->nin; i++) any |= c->in[i] && dl_requires_grad(c->in[i]);
    return any && dl_recording();
}

dl_status dl_recurrent_check_lengths(const dl_recurrent_sizes *r, const long *lengths) {
    for (long i = 0; i < r->batch; i++)
        if (lengths[i] < 1 || lengths[i] > r->steps)
            return dl_fail(DL_ERR_VALUE, "lengths must be 1 to %ld, the number of steps; that of sequence %ld is %ld",
                           r->steps, i, lengths[i]);
    return DL_OK;
}

/* The reserve is what the gradient of the device's kernel reads: the kernel makes it when a gradient may be asked for.
 */
INFER_RULE(recurrent) {
    dl_recurrent_sizes r;
    DL_TRY(dl_recurrent_of(c, &r));
    const long state[] = {dl_recurrent_parts(&r), r.batch, r.hidden};
    out[DL_OUT_RECURRENT_OUT] = dl_meta_fresh(c, c->dtype, 3, (long[]){r.steps, r.batch, r.directions * r.hidden});
    out[DL_OUT_RECURRENT_H] = out[DL_OUT_RECURRENT_C] = dl_meta_fresh(c, c->dtype, 3, state);
    out[DL_OUT_RECURRENT_C].absent = r.cell != DL_CELL_LSTM;
    out[DL_OUT_RECURRENT_RESERVE].absent = true;
    return DL_OK;
}

FLOPS_RULE(recurrent) {
    dl_recurrent_sizes r;
    double n = 0;
    if (dl_recurrent_of(c, &r) != DL_OK) return 0;
    for (int l = 0; l < r.layers; l++) n += (double)(dl_recurrent_input(&r, l) + r.hidden) * r.directions;
    return 2 * n * r.gates * (double)r.hidden * (double)(r.steps * r.batch);
}
