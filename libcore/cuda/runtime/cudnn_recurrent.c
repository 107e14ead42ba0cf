/* cuDNN's functions for recurrent layers and their descriptors. */
#include "cuda/runtime/cudnn_recurrent.h"

#include "cuda/runtime/cudnn_graph.h"

#include <string.h>

#ifdef DL_HAVE_CUDNN

#define RNN_LIST(X)                                                                                                    \
    X(cudnnGetErrorString)                                                                                             \
    X(cudnnCreateDropoutDescriptor)                                                                                    \
    X(cudnnDestroyDropoutDescriptor)                                                                                   \
    X(cudnnSetDropoutDescriptor)                                                                                       \
    X(cudnnCreateTensorDescriptor)                                                                                     \
    X(cudnnDestroyTensorDescriptor)                                                                                    \
    X(cudnnSetTensorNdDescriptor)                                                                                      \
    X(cudnnGetTensorNdDescriptor)                                                                                      \
    X(cudnnCreateRNNDescriptor)                                                                                        \
    X(cudnnDestroyRNNDescriptor)                                                                                       \
    X(cudnnSetRNNDescriptor_v8)                                                                                        \
    X(cudnnCreateRNNDataDescriptor)                                                                                    \
    X(cudnnDestroyRNNDataDescriptor)                                                                                   \
    X(cudnnSetRNNDataDescriptor)                                                                                       \
    X(cudnnGetRNNTempSpaceSizes)                                                                                       \
    X(cudnnGetRNNWeightSpaceSize)                                                                                      \
    X(cudnnGetRNNWeightParams)                                                                                         \
    X(cudnnRNNForward)                                                                                                 \
    X(cudnnRNNBackwardData_v8)                                                                                         \
    X(cudnnRNNBackwardWeights_v8)

DL_DNN_TABLE(RNN_LIST)

static dl_status ready(dl_gpu *g) {
    DL_TRY(dl_dnn_ready(g));
    const char *missing = dl_dnn_open(&functions);
    if (!*missing) return DL_OK;
    return dl_fail_hint(DL_ERR_UNSUPPORTED, "install all of cuDNN", "cuDNN has no recurrent layers: %s", missing);
}

static dl_status check(cudnnStatus_t s, const char *what) {
    if (s == CUDNN_STATUS_SUCCESS) return DL_OK;
    return dl_fail(DL_ERR_DEVICE, "cuDNN failed in %s of recurrent layers: %s", what, dnn.cudnnGetErrorString(s));
}

struct dl_dnn_recurrent {
    dl_dnn_layers l;
    cudnnRNNDescriptor_t rnn;
    cudnnDropoutDescriptor_t dropout;
    cudnnRNNDataDescriptor_t x, y;
    cudnnTensorDescriptor_t state;
    dl_dnn_place *places;
    size_t weights;
};

void dl_dnn_recurrent_free(dl_dnn_recurrent *p) {
    if (!p) return;
    if (p->rnn) dnn.cudnnDestroyRNNDescriptor(p->rnn);
    if (p->dropout) dnn.cudnnDestroyDropoutDescriptor(p->dropout);
    if (p->x) dnn.cudnnDestroyRNNDataDescriptor(p->x);
    if (p->y) dnn.cudnnDestroyRNNDataDescriptor(p->y);
    if (p->state) dnn.cudnnDestroyTensorDescriptor(p->state);
    free(p->places);
    free(p);
}

static dl_status describe_layers(dl_dnn_recurrent *p, dl_dnn_steps steps) {
    static const cudnnRNNMode_t modes[DL_NCELL] = {CUDNN_LSTM, CUDNN_GRU, CUDNN_RNN_TANH, CUDNN_RNN_RELU};
    static const cudnnRNNAlgo_t algos[DL_NSTEPS] = {CUDNN_RNN_ALGO_STANDARD, CUDNN_RNN_ALGO_PERSIST_STATIC,
                                                    CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H};
    const dl_recurrent_sizes *r = &p->l.r;
    dl_dtype t = p->l.t;
    bool half = t == DL_F16 || t == DL_BF16;
    cudnnMathType_t math = half                        ? CUDNN_TENSOR_OP_MATH
                           : t == DL_F32 && !p->l.tf32 ? CUDNN_FMA_MATH
                                                       : CUDNN_DEFAULT_MATH;
    cudnnDataType_t compute = t == DL_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    return check(dnn.cudnnSetRNNDescriptor_v8(
                     p->rnn, algos[steps], modes[r->cell], r->each > 2 ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_NO_BIAS,
                     r->directions > 1 ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, dl_dnn_type(t),
                     compute, math, (int)r->input, (int)r->hidden, (int)r->hidden, r->layers, p->dropout,
                     p->l.padded ? CUDNN_RNN_PADDED_IO_ENABLED : CUDNN_RNN_PADDED_IO_DISABLED),
                 "the description");
}

static dl_status describe_data(dl_dnn_recurrent *p, cudnnRNNDataDescriptor_t d, long width, const int *lengths) {
    double zero = 0;
    return check(dnn.cudnnSetRNNDataDescriptor(d, dl_dnn_type(p->l.t),
                                               p->l.padded ? CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED
                                                           : CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
                                               (int)p->l.r.steps, (int)p->l.r.batch, (int)width, lengths, &zero),
                 "the operands");
}

dl_status dl_dnn_recurrent_lengths(dl_dnn_recurrent *p, const long *lengths) {
    const dl_recurrent_sizes *r = &p->l.r;
    int *n = malloc((size_t)(r->batch + 1) * sizeof *n);
    if (!n) return dl_fail(DL_ERR_MEMORY, "no memory for the lengths of sequences");
    for (long i = 0; i < r->batch; i++) n[i] = (int)(lengths ? lengths[i] : r->steps);
    dl_status s = describe_data(p, p->x, r->input, n);
    if (s == DL_OK) s = describe_data(p, p->y, r->directions * r->hidden, n);
    free(n);
    return s;
}

static dl_status describe_state(dl_dnn_recurrent *p) {
    int size[3] = {dl_recurrent_parts(&p->l.r), (int)p->l.r.batch, (int)p->l.r.hidden},
        stride[3] = {size[1] * size[2], size[2], 1};
    return check(dnn.cudnnSetTensorNdDescriptor(p->state, dl_dnn_type(p->l.t), 3, size, stride), "the states");
}

/* Gates of one parameter lie one after another; the first place is that of the parameter. */
static dl_status place_of(dl_dnn_recurrent *p, cudnnHandle_t h, cudnnTensorDescriptor_t d[2], int part, int k) {
    const dl_recurrent_sizes *r = &p->l.r;
    long cols = k > 1 ? 1 : k ? r->hidden : dl_recurrent_input(r, part / r->directions);
    size_t each = (size_t)(r->hidden * cols * dl_dtype_size(p->l.t));
    char *base = (char *)(uintptr_t)(1 << 20); /* addresses are computed, and nothing is read */
    dl_dnn_place *to = &p->places[part * r->each + k];
    for (int i = 0; i < r->gates; i++) {
        void *m = NULL, *b = NULL;
        DL_TRY(check(
            dnn.cudnnGetRNNWeightParams(h, p->rnn, part, p->weights, base, i + (k % 2) * r->gates, d[0], &m, d[1], &b),
            "the places of weights"));
        char *at = k > 1 ? b : m;
        if (!i) to->at = (size_t)(at - base), to->bytes = each * (size_t)r->gates;
        if (!at || (size_t)(at - base) != to->at + (size_t)i * each)
            return dl_fail(DL_ERR_UNSUPPORTED, "cuDNN lays out the weights of recurrent layers in an unknown order");
    }
    return DL_OK;
}

static dl_status find_places(dl_dnn_recurrent *p, cudnnHandle_t h) {
    cudnnTensorDescriptor_t d[2] = {NULL, NULL};
    dl_status s = check(dnn.cudnnCreateTensorDescriptor(&d[0]), "a description");
    if (s == DL_OK) s = check(dnn.cudnnCreateTensorDescriptor(&d[1]), "a description");
    for (int i = 0; i < dl_recurrent_parts(&p->l.r) && s == DL_OK; i++)
        for (int k = 0; k < p->l.r.each && s == DL_OK; k++) s = place_of(p, h, d, i, k);
    for (int i = 0; i < 2; i++)
        if (d[i]) dnn.cudnnDestroyTensorDescriptor(d[i]);
    return s;
}

static dl_status fill(dl_gpu *g, dl_dnn_recurrent *p, dl_dnn_steps steps) {
    cudnnHandle_t h = dl_dnn_handle(g);
    p->places = calloc((size_t)(dl_recurrent_parts(&p->l.r) * p->l.r.each), sizeof *p->places);
    if (!p->places) return dl_fail(DL_ERR_MEMORY, "no memory for recurrent layers");
    DL_TRY(check(dnn.cudnnCreateRNNDescriptor(&p->rnn), "a description"));
    DL_TRY(check(dnn.cudnnCreateDropoutDescriptor(&p->dropout), "a description"));
    DL_TRY(check(dnn.cudnnSetDropoutDescriptor(p->dropout, h, 0, NULL, 0, 0), "a description"));
    DL_TRY(check(dnn.cudnnCreateRNNDataDescriptor(&p->x), "a description"));
    DL_TRY(check(dnn.cudnnCreateRNNDataDescriptor(&p->y), "a description"));
    DL_TRY(check(dnn.cudnnCreateTensorDescriptor(&p->state), "a description"));
    DL_TRY(describe_layers(p, steps));
    DL_TRY(describe_state(p));
    DL_TRY(dl_dnn_recurrent_lengths(p, NULL));
    DL_TRY(check(dnn.cudnnGetRNNWeightSpaceSize(h, p->rnn, &p->weights), "the size of weights"));
    return find_places(p, h);
}

dl_dnn_recurrent *dl_dnn_recurrent_new(dl_gpu *g, const dl_dnn_layers *l, dl_dnn_steps steps) {
    if (ready(g) != DL_OK) return NULL;
    dl_dnn_recurrent *p = calloc(1, sizeof *p);
    if (!p) return dl_fail(DL_ERR_MEMORY, "no memory for recurrent layers"), NULL;
    p->l = *l;
    if (fill(g, p, steps) == DL_OK) return p;
    dl_dnn_recurrent_free(p);
    return NULL;
}

dl_status dl_dnn_recurrent_room(dl_gpu *g, dl_dnn_recurrent *p, bool training, dl_dnn_room *out) {
    *out = (dl_dnn_room){.weights = p->weights};
    return check(dnn.cudnnGetRNNTempSpaceSizes(dl_dnn_handle(g), p->rnn,
                                               training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE, p->x,
                                               &out->work, &out->reserve),
                 "the size of memory");
}

dl_dnn_place dl_dnn_recurrent_place(const dl_dnn_recurrent *p, int part, int k) {
    return p->places[part * p->l.r.each + k];
}

dl_status dl_dnn_recurrent_forward(dl_gpu *g, dl_dnn_recurrent *p, const dl_dnn_room *room, const dl_dnn_run_of *o) {
    bool training = o->reserve != NULL;
    return check(dnn.cudnnRNNForward(dl_dnn_handle(g), p->rnn,
                                     training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE, NULL, p->x, o->x,
                                     p->y, o->y, p->state, o->hx, o->h, p->state, o->cx, o->c, room->weights,
                                     o->weights, room->work, o->work, training ? room->reserve : 0, o->reserve),
                 "the run");
}

dl_status dl_dnn_recurrent_backward(dl_gpu *g, dl_dnn_recurrent *p, const dl_dnn_room *room, const dl_dnn_run_of *o) {
    cudnnHandle_t h = dl_dnn_handle(g);
    DL_TRY(check(dnn.cudnnRNNBackwardData_v8(h, p->rnn, NULL, p->y, o->y, o->gy, p->x, o->dx, p->state, o->hx, o->gh,
                                             o->dhx, p->state, o->cx, o->gc, o->dcx, room->weights, o->weights,
                                             room->work, o->work, room->reserve, o->reserve),
                 "the gradient"));
    if (!o->dweights) return DL_OK;
    return check(dnn.cudnnRNNBackwardWeights_v8(h, p->rnn, CUDNN_WGRAD_MODE_ADD, NULL, p->x, o->x, p->state, o->hx,
                                                p->y, o->y, room->weights, o->dweights, room->work, o->work,
                                                room->reserve, o->reserve),
                 "the gradient of weights");
}

#else

/* A build without cuDNN's headers: there are none. */
dl_dnn_recurrent *dl_dnn_recurrent_new(dl_gpu *g, const dl_dnn_layers *l DL_UNUSED, dl_dnn_steps steps DL_UNUSED) {
    dl_dnn_ready(g);
    return NULL;
}
void dl_dnn_recurrent_free(dl_dnn_recurrent *p) { (void)p; }
dl_status dl_dnn_recurrent_lengths(dl_dnn_recurrent *p, const long *n) { return (void)p, (void)n, dl_failed(); }
dl_status dl_dnn_recurrent_room(dl_gpu *g, dl_dnn_recurrent *p, bool training, dl_dnn_room *out) {
    return (void)g, (void)p, (void)training, (void)out, dl_failed();
}
dl_dnn_place dl_dnn_recurrent_place(const dl_dnn_recurrent *p, int part, int k) {
    return (void)p, (void)part, (void)k, (dl_dnn_place){0, 0};
}
dl_status dl_dnn_recurrent_forward(dl_gpu *g, dl_dnn_recurrent *p, const dl_dnn_room *room, const dl_dnn_run_of *o) {
    return (void)g, (void)p, (void)room, (void)o, dl_failed();
}
dl_status dl_dnn_recurrent_backward(dl_gpu *g, dl_dnn_recurrent *p, const dl_dnn_room *room, const dl_dnn_run_of *o) {
    return (void)g, (void)p, (void)room, (void)o, dl_failed();
}

#endif
