/* cuDNN's graphs of attention. cuDNN recognises them as a whole by the operations and their order, which are those of
 * NVIDIA's front end (cudnn-frontend). */
#include "cuda/runtime/cudnn_attention.h"

#include "cuda/runtime/cudnn_graph.h"

#include <float.h>
#include <math.h>
#include <string.h>

#ifdef DL_HAVE_CUDNN

typedef dl_dnn_desc desc;

/* Operands by their ids; those of virtual tensors follow. Values are numbers in host memory. */
/* clang-format off */
enum {
    Q = 1, K, V, G, O, STATS, SEED, OFFSET, ROWS, KEYS, BIAS, SCALE, LOWEST, KEPT, SHARE, DQ, DK, DV, SUM, DQ_SUM, NIDS,
    MOST = 96, FOUND = 16
};
/* clang-format on */

/* A graph while it is made; `good` says whether all of it was. */
typedef struct graph {
    const dl_dnn_attention *p;
    desc tensor[MOST], op[MOST], how[MOST];
    desc operand[NIDS];
    int ntensors, nops, nhows;
    int64_t next;
    bool good;
} graph;

static void graph_free(graph *b) {
    for (int i = 0; i < b->nops; i++) dl_dnn_drop(b->op[i]);
    for (int i = 0; i < b->nhows; i++) dl_dnn_drop(b->how[i]);
    for (int i = 0; i < b->ntensors; i++) dl_dnn_drop(b->tensor[i]);
}

/* Keeps a part of the graph in list[*n]. */
static desc keep(graph *b, desc *list, int *n, desc d) {
    if (d && *n < MOST) return list[(*n)++] = d;
    dl_dnn_drop(d);
    b->good = false;
    return NULL;
}

/* ---- tensors */

typedef enum place { MEMORY, VIRTUAL, VALUE } place;

static desc tensor(graph *b, int64_t id, const long size[4], const long stride[4], cudnnDataType_t t, place where) {
    int64_t dims[4], steps[4], align = t == CUDNN_DATA_INT64 ? 8 : t == CUDNN_DATA_INT32 ? 4 : 16;
    bool yes = true;
    for (int i = 0; i < 4; i++) dims[i] = size[i], steps[i] = stride[i];
    const dl_dnn_attr a[] = {
        {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t},
        DL_DNN_INT64(CUDNN_ATTR_TENSOR_DIMENSIONS, 4, dims),
        DL_DNN_INT64(CUDNN_ATTR_TENSOR_STRIDES, 4, steps),
        DL_DNN_INT64(CUDNN_ATTR_TENSOR_UNIQUE_ID, 1, &id),
        DL_DNN_INT64(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &align),
        {where == VIRTUAL ? CUDNN_ATTR_TENSOR_IS_VIRTUAL : CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes}};
    desc d = dl_dnn_build(CUDNN_BACKEND_TENSOR_DESCRIPTOR, a, where == MEMORY ? 5 : 6);
    return keep(b, b->tensor, &b->ntensors, d);
}

static desc operand(graph *b, int id, const long size[4], const long stride[4], cudnnDataType_t t, place where) {
    return b->operand[id] = tensor(b, id, size, stride, t, where);
}
static desc dense(graph *b, int id, long n, long h, long rows, long cols, cudnnDataType_t t) {
    const long size[4] = {n, h, rows, cols}, stride[4] = {h * rows * cols, rows * cols, cols, 1};
    return id ? operand(b, id, size, stride, t, MEMORY) : tensor(b, b->next++, size, stride, t, VIRTUAL);
}
/* The same memory with its last dimensions exchanged. */
static desc turned(graph *b, int id, long n, long h, long rows, long cols, const long s[4], cudnnDataType_t t) {
    const long size[4] = {n, h, rows, cols}, stride[4] = {s[0], s[1], s[3], s[2]};
    return id ? operand(b, id, size, stride, t, MEMORY) : tensor(b, b->next++, size, stride, t, VIRTUAL);
}
static void value(graph *b, int id) {
    const long one[4] = {1, 1, 1, 1};
    operand(b, id, one, one, CUDNN_DATA_FLOAT, VALUE);
}

/* Virtual tensors of the shape of scores, and of a number for each query. */
static desc scores(graph *b, cudnnDataType_t t) {
    const dl_attention_sizes *a = &b->p->a;
    return dense(b, 0, a->batch, a->heads, a->rows, a->keys, t);
}
static desc numbers(graph *b) {
    const dl_attention_sizes *a = &b->p->a;
    return dense(b, 0, a->batch, a->heads, a->rows, 1, CUDNN_DATA_FLOAT);
}
static cudnnDataType_t given(const graph *b) { return dl_dnn_type(b->p->t); }

/* ---- operations */

static desc how(graph *b, desc d) { return keep(b, b->how, &b->nhows, d); }
static void add_op(graph *b, desc d) { keep(b, b->op, &b->nops, d); }

/* to = x y; of lengths, which limit the sizes m, n, k, those that are no 0. */
static void product(graph *b, desc x, desc y, desc to, int m, int n, int k) {
    cudnnDataType_t f = CUDNN_DATA_FLOAT;
    desc d = how(
        b, DL_DNN_BUILD(CUDNN_BACKEND_MATMUL_DESCRIPTOR, {CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f}));
    dl_dnn_attr a[7] = {
        DL_DNN_DESC(CUDNN_ATTR_OPERATION_MATMUL_ADESC, &x), DL_DNN_DESC(CUDNN_ATTR_OPERATION_MATMUL_BDESC, &y),
        DL_DNN_DESC(CUDNN_ATTR_OPERATION_MATMUL_CDESC, &to), DL_DNN_DESC(CUDNN_ATTR_OPERATION_MATMUL_DESC, &d)};
    static const cudnnBackendAttributeName_t limit[3] = {CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC,
                                                         CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC,
                                                         CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC};
    int which[3] = {m, n, k}, count = 4;
    for (int i = 0; i < 3 && b->p->lengths; i++)
        if (which[i]) a[count++] = (dl_dnn_attr)DL_DNN_DESC(limit[i], &b->operand[which[i]]);
    if (b->good) add_op(b, dl_dnn_build(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, a, count));
}

/* to = mode(x, y, t), of which y and t may be NULL; returns `to`. */
static desc pointwise(graph *b, cudnnPointwiseMode_t mode, cudnnDataType_t compute, int64_t axis, desc x, desc y,
                      desc t, desc to) {
    float one = 1;
    const dl_dnn_attr parts[3] = {{CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode},
                                  {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute},
                                  DL_DNN_INT64(CUDNN_ATTR_POINTWISE_AXIS, 1, &axis)};
    desc d = how(b, dl_dnn_build(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, parts, mode == CUDNN_POINTWISE_GEN_INDEX ? 3 : 2));
    dl_dnn_attr a[7] = {DL_DNN_DESC(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &d),
                        DL_DNN_DESC(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, &x),
                        DL_DNN_DESC(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &to)};
    int n = 3;
    if (y) a[n++] = (dl_dnn_attr)DL_DNN_DESC(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, &y);
    if (t) a[n++] = (dl_dnn_attr)DL_DNN_DESC(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, &t);
    a[n++] = (dl_dnn_attr){CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, 1, &one};
    a[n++] = (dl_dnn_attr){CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, 1, &one};
    if (b->good) add_op(b, dl_dnn_build(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, a, n));
    return to;
}
/* mode(x, y) in f32 as scores. */
static desc of(graph *b, cudnnPointwiseMode_t mode, desc x, desc y) {
    return pointwise(b, mode, CUDNN_DATA_FLOAT, 0, x, y, NULL, scores(b, CUDNN_DATA_FLOAT));
}

static void reduce(graph *b, cudnnReduceTensorOp_t mode, desc x, desc to) {
    cudnnDataType_t f = CUDNN_DATA_FLOAT;
    desc d = how(b, DL_DNN_BUILD(CUDNN_BACKEND_REDUCTION_DESCRIPTOR,
                                 {CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f},
                                 {CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode}));
    if (b->good)
        add_op(b, DL_DNN_BUILD(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
                               DL_DNN_DESC(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, &x),
                               DL_DNN_DESC(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, &to),
                               DL_DNN_DESC(CUDNN_ATTR_OPERATION_REDUCTION_DESC, &d)));
}

/* `to` is the memory of x read in another way. */
static desc reshape(graph *b, desc x, desc to) {
    if (b->good)
        add_op(b, DL_DNN_BUILD(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
                               DL_DNN_DESC(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, &x),
                               DL_DNN_DESC(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, &to)));
    return to;
}

/* 1 where dropout keeps a weight, else 0; NULL without dropout. */
static desc drawn(graph *b) {
    cudnnRngDistribution_t how_drawn = CUDNN_RNG_DISTRIBUTION_BERNOULLI;
    double keeps = 1 - b->p->a.dropout;
    if (keeps == 1) return NULL;
    desc d = how(b, DL_DNN_BUILD(CUDNN_BACKEND_RNG_DESCRIPTOR,
                                 {CUDNN_ATTR_RNG_DISTRIBUTION, CUDNN_TYPE_RNG_DISTRIBUTION, 1, &how_drawn},
                                 {CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, CUDNN_TYPE_DOUBLE, 1, &keeps}));
    desc to = scores(b, CUDNN_DATA_FLOAT);
    if (b->good)
        add_op(b, DL_DNN_BUILD(CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR, DL_DNN_DESC(CUDNN_ATTR_OPERATION_RNG_YDESC, &to),
                               DL_DNN_DESC(CUDNN_ATTR_OPERATION_RNG_DESC, &d),
                               DL_DNN_DESC(CUDNN_ATTR_OPERATION_RNG_SEED, &b->operand[SEED]),
                               DL_DNN_DESC(CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC, &b->operand[OFFSET])));
    return to;
}

/* ---- masks */

static desc place_along(graph *b, desc s, int64_t axis, cudnnDataType_t compute) {
    return pointwise(b, CUDNN_POINTWISE_GEN_INDEX, compute, axis, s, NULL, NULL, scores(b, CUDNN_DATA_INT32));
}
static desc test(graph *b, cudnnPointwiseMode_t mode, desc x, desc y) {
    return pointwise(b, mode, CUDNN_DATA_BOOLEAN, 0, x, y, NULL, scores(b, CUDNN_DATA_BOOLEAN));
}
static desc chosen(graph *b, desc s, desc where) {
    return pointwise(b, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, 0, s, b->operand[LOWEST], where,
                     scores(b, CUDNN_DATA_FLOAT));
}

static desc within_lengths(graph *b, desc s) {
    if (!b->p->lengths) return s;
    desc row = place_along(b, s, 2, CUDNN_DATA_INT32), col = place_along(b, s, 3, CUDNN_DATA_INT32);
    desc r = test(b, CUDNN_POINTWISE_CMP_LT, row, b->operand[ROWS]),
         c = test(b, CUDNN_POINTWISE_CMP_LT, col, b->operand[KEYS]);
    return chosen(b, s, test(b, CUDNN_POINTWISE_LOGICAL_AND, r, c));
}
static desc causal(graph *b, desc s) {
    if (!b->p->a.causal) return s;
    desc row = place_along(b, s, 2, CUDNN_DATA_FLOAT), col = place_along(b, s, 3, CUDNN_DATA_FLOAT);
    return chosen(b, s, test(b, CUDNN_POINTWISE_CMP_GE, row, col));
}

/* The scores of a product as the softmax sees them, but for the causal mask. */
static desc scaled(graph *b, desc s) {
    s = of(b, CUDNN_POINTWISE_MUL, s, b->operand[SCALE]);
    if (b->p->bias) s = of(b, CUDNN_POINTWISE_ADD, s, b->operand[BIAS]);
    return within_lengths(b, s);
}

/* ---- both graphs */

static void operands(graph *b) {
    const dl_attention_sizes *a = &b->p->a;
    const long(*s)[4] = b->p->stride;
    cudnnDataType_t t = given(b);
    const long q[4] = {a->batch, a->heads, a->rows, a->size}, v[4] = {a->batch, a->kv_heads, a->keys, a->value_size},
               g[4] = {a->batch, a->heads, a->rows, a->value_size};
    operand(b, Q, q, s[DL_DNN_Q], t, MEMORY);
    turned(b, K, a->batch, a->kv_heads, a->size, a->keys, s[DL_DNN_K], t);
    if (b->p->backward) {
        turned(b, V, a->batch, a->kv_heads, a->value_size, a->keys, s[DL_DNN_V], t);
        operand(b, G, g, s[DL_DNN_G], t, MEMORY);
    } else {
        operand(b, V, v, s[DL_DNN_V], t, MEMORY);
    }
    dense(b, O, a->batch, a->heads, a->rows, a->value_size, t);
    dense(b, STATS, a->batch, a->heads, a->rows, 1, CUDNN_DATA_FLOAT);
    if (b->p->bias) operand(b, BIAS, b->p->bias_shape, b->p->bias_stride, t, MEMORY);
    value(b, SCALE);
    if (a->causal || b->p->lengths) value(b, LOWEST);
    if (b->p->backward) value(b, SHARE);
    if (b->p->lengths)
        for (int i = ROWS; i <= KEYS; i++) dense(b, i, a->batch, 1, 1, 1, CUDNN_DATA_INT32);
    if (!(a->dropout > 0)) return;
    value(b, KEPT);
    for (int i = SEED; i <= OFFSET; i++) dense(b, i, 1, 1, 1, 1, CUDNN_DATA_INT64);
}

static void forward(graph *b) {
    desc s = scores(b, CUDNN_DATA_FLOAT), top = numbers(b), sum = numbers(b), log = numbers(b), w, r;
    bool drops = b->p->a.dropout > 0;
    product(b, b->operand[Q], b->operand[K], s, ROWS, KEYS, 0);
    s = causal(b, scaled(b, s));
    reduce(b, CUDNN_REDUCE_TENSOR_MAX, s, top);
    s = of(b, CUDNN_POINTWISE_EXP, of(b, CUDNN_POINTWISE_SUB, s, top), NULL);
    reduce(b, CUDNN_REDUCE_TENSOR_ADD, s, sum);
    pointwise(b, CUDNN_POINTWISE_LOG, CUDNN_DATA_FLOAT, 0, sum, NULL, NULL, log);
    pointwise(b, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, 0, top, log, NULL, b->operand[STATS]);
    w = pointwise(b, CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, 0, s, sum, NULL,
                  scores(b, drops ? CUDNN_DATA_FLOAT : given(b)));
    if (drops) {
        r = drawn(b);
        w = of(b, CUDNN_POINTWISE_MUL, w, r);
        w = pointwise(b, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, 0, w, b->operand[KEPT], NULL, scores(b, given(b)));
    }
    product(b, w, b->operand[V], b->operand[O], ROWS, 0, KEYS);
}

/* Scores as a matrix of keys by queries, in the dtype of the operands. */
static desc by_keys(graph *b, desc s) {
    const dl_attention_sizes *a = &b->p->a;
    const long as[4] = {a->heads * a->rows * a->keys, a->rows * a->keys, a->keys, 1};
    return reshape(b, s, turned(b, 0, a->batch, a->heads, a->keys, a->rows, as, given(b)));
}

/* The gradient of keys or values: weights times rows of x, summed over the heads that share keys. */
static void to_keys(graph *b, desc weights, desc x, int id, long size) {
    const dl_attention_sizes *a = &b->p->a;
    desc to = dense(b, id, a->batch, a->kv_heads, a->keys, size, given(b));
    desc all = a->group == 1 ? to : dense(b, 0, a->batch, a->heads, a->keys, size, given(b));
    product(b, weights, x, all, KEYS, 0, ROWS);
    if (all != to) reduce(b, CUDNN_REDUCE_TENSOR_ADD, all, to);
}

/* SUM, of each query the gradient of its weights times the weights. */
static void sums(graph *b) {
    const dl_attention_sizes *a = &b->p->a;
    desc each = dense(b, 0, a->batch, a->heads, a->rows, a->value_size, CUDNN_DATA_FLOAT), sum = numbers(b);
    pointwise(b, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, 0, b->operand[G], b->operand[O], NULL, each);
    reduce(b, CUDNN_REDUCE_TENSOR_ADD, each, sum);
    dense(b, SUM, a->batch, a->heads, a->rows, 1, CUDNN_DATA_FLOAT);
    pointwise(b, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, 0, sum, b->operand[SHARE], NULL, b->operand[SUM]);
}

/* The gradient of queries; blocks of keys add to it in f32, in any order unless that is forbidden. */
static void to_queries(graph *b, desc s) {
    const dl_attention_sizes *a = &b->p->a;
    const long k[4] = {a->batch, a->kv_heads, a->keys, a->size};
    desc keys = reshape(b, b->operand[K], tensor(b, b->next++, k, b->p->stride[DL_DNN_K], CUDNN_DATA_FLOAT, VIRTUAL));
    desc dq = dense(b, DQ, a->batch, a->heads, a->rows, a->size, given(b));
    if (b->p->deterministic) {
        product(b, s, keys, dq, ROWS, 0, KEYS);
        return;
    }
    desc sum = dense(b, DQ_SUM, a->batch, a->heads, a->rows, a->size, CUDNN_DATA_FLOAT);
    product(b, s, keys, sum, ROWS, 0, KEYS);
    pointwise(b, CUDNN_POINTWISE_IDENTITY, CUDNN_DATA_FLOAT, 0, sum, NULL, NULL, dq);
}

static void backward(graph *b) {
    const dl_attention_sizes *a = &b->p->a;
    desc r = drawn(b), s, w, p, d;
    sums(b);
    product(b, b->operand[Q], b->operand[K], s = scores(b, CUDNN_DATA_FLOAT), ROWS, KEYS, 0);
    s = causal(b, of(b, CUDNN_POINTWISE_SUB, scaled(b, s), b->operand[STATS]));
    p = w = of(b, CUDNN_POINTWISE_EXP, s, NULL);
    if (r) p = of(b, CUDNN_POINTWISE_MUL, of(b, CUDNN_POINTWISE_MUL, p, r), b->operand[KEPT]);
    to_keys(b, by_keys(b, p), b->operand[G], DV, a->value_size);
    product(b, b->operand[G], b->operand[V], d = scores(b, CUDNN_DATA_FLOAT), ROWS, KEYS, 0);
    if (r) d = of(b, CUDNN_POINTWISE_MUL, d, r);
    d = of(b, CUDNN_POINTWISE_MUL, of(b, CUDNN_POINTWISE_SUB, d, b->operand[SUM]), w);
    if (r) d = of(b, CUDNN_POINTWISE_MUL, d, b->operand[KEPT]);
    d = of(b, CUDNN_POINTWISE_MUL, d, b->operand[SCALE]);
    to_keys(b, by_keys(b, d), b->operand[Q], DK, a->size);
    to_queries(b, d);
}

/* ---- plans */

struct dl_dnn_attention_plan {
    dl_dnn_attention p;
    graph b;
    desc whole, config, plan;
    float value[NIDS];       /* of the operands that are values */
    size_t own, sum, dq_sum; /* bytes of the workspace: cuDNN's, and of the operands in it */
};

static size_t rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }

/* A plan of the first engine proposed that runs; which engines there are for a graph follows from its operations. */
static bool choose(const dl_gpu *g, dl_dnn_attention_plan *plan) {
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    for (int m = 0; m < 2 && !plan->plan; m++) {
        desc config[FOUND];
        int n = dl_dnn_configs(plan->whole, modes[m], config, FOUND);
        for (int i = 0; i < n; i++) {
            if (!plan->plan) plan->plan = dl_dnn_planned(g, config[i], &plan->own);
            if (plan->plan && !plan->config)
                plan->config = config[i];
            else
                dl_dnn_drop(config[i]);
        }
    }
    return plan->plan != NULL;
}

static bool plan_of(const dl_gpu *g, dl_dnn_attention_plan *plan) {
    const dl_attention_sizes *a = &plan->p.a;
    graph *b = &plan->b;
    b->p = &plan->p, b->next = NIDS, b->good = true;
    operands(b);
    if (plan->p.backward)
        backward(b);
    else
        forward(b);
    if (!b->good || !(plan->whole = dl_dnn_graph(g, b->op, b->nops)) || !choose(g, plan)) return false;
    plan->value[SCALE] = (float)a->scale, plan->value[SHARE] = (float)(1 - a->dropout);
    plan->value[KEPT] = (float)(1 / (1 - a->dropout));
    plan->value[LOWEST] = dl_dnn_version() < 91000 ? -FLT_MAX : -INFINITY;
    size_t rows = (size_t)(a->batch * a->heads * a->rows) * sizeof(float);
    if (b->operand[SUM]) plan->sum = rounded(rows);
    if (b->operand[DQ_SUM]) plan->dq_sum = rounded(rows * (size_t)a->size);
    return true;
}

dl_dnn_attention_plan *dl_dnn_attention_new(dl_gpu *g, const dl_dnn_attention *p) {
    if (dl_dnn_ready(g) != DL_OK) return NULL;
    dl_dnn_attention_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return dl_fail(DL_ERR_MEMORY, "no memory for a plan"), NULL;
    plan->p = *p;
    if (plan_of(g, plan)) return plan;
    dl_fail(DL_ERR_UNSUPPORTED, "cuDNN does not run this attention here");
    dl_dnn_attention_free(plan);
    return NULL;
}

void dl_dnn_attention_free(dl_dnn_attention_plan *plan) {
    if (!plan) return;
    dl_dnn_drop(plan->plan), dl_dnn_drop(plan->config), dl_dnn_drop(plan->whole);
    graph_free(&plan->b);
    free(plan);
}

size_t dl_dnn_attention_workspace(const dl_dnn_attention_plan *plan) {
    return rounded(plan->own) + plan->sum + plan->dq_sum;
}

dl_status dl_dnn_attention_execute(dl_gpu *g, dl_dnn_attention_plan *plan, const dl_dnn_attention_run *r) {
    char *space = (char *)r->workspace + rounded(plan->own);
    const void *at[NIDS] = {[Q] = r->view[DL_DNN_Q],
                            [K] = r->view[DL_DNN_K],
                            [V] = r->view[DL_DNN_V],
                            [G] = r->view[DL_DNN_G],
                            [O] = r->out,
                            [STATS] = r->stats,
                            [SEED] = r->seed,
                            [OFFSET] = r->seed ? r->seed + 1 : NULL,
                            [ROWS] = r->rows,
                            [KEYS] = r->keys,
                            [BIAS] = r->bias,
                            [DQ] = r->dq,
                            [DK] = r->dk,
                            [DV] = r->dv,
                            [SUM] = space,
                            [DQ_SUM] = space + plan->sum};
    int64_t id[NIDS];
    void *used[NIDS];
    int n = 0;
    for (int i = SCALE; i <= SHARE; i++) at[i] = &plan->value[i];
    for (int i = 1; i < NIDS; i++)
        if (plan->b.operand[i]) id[n] = i, used[n++] = (void *)at[i];
    if (plan->dq_sum && dl_dnn_version() < 90600) /* later ones clear it themselves */
        DL_CUDA_TRY(g, cudaMemsetAsync(space + plan->sum, 0, plan->dq_sum, g->stream), "the gradient of attention");
    return dl_dnn_execute(g, plan->plan, id, used, n, r->workspace, "attention");
}

#else

/* A build without cuDNN's headers: there are none. */
dl_dnn_attention_plan *dl_dnn_attention_new(dl_gpu *g, const dl_dnn_attention *p DL_UNUSED) {
    dl_dnn_ready(g);
    return NULL;
}
void dl_dnn_attention_free(dl_dnn_attention_plan *plan) { (void)plan; }
size_t dl_dnn_attention_workspace(const dl_dnn_attention_plan *plan) { return (void)plan, (size_t)0; }
dl_status dl_dnn_attention_execute(dl_gpu *g, dl_dnn_attention_plan *plan, const dl_dnn_attention_run *r) {
    return (void)g, (void)plan, (void)r, dl_failed();
}

#endif
