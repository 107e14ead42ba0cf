/* cuDNN's descriptors of one convolution. */
#include "cuda/runtime/cudnn_graph.h"

#include <string.h>

#ifdef DL_HAVE_CUDNN

typedef dl_dnn_desc desc;

enum { HEURISTICS = 3, FOUND = 48, RANKS = 5 };

/* [outer, channels, places in each direction] */
static desc tensor(const dl_dnn_problem *p, int64_t id, long outer, long channels, const long *places) {
    const int rank = (int)p->g.dims + 2;
    int64_t size[RANKS] = {outer, channels}, stride[RANKS], step = 1, align = 16;
    cudnnDataType_t t = dl_dnn_type(p->t);
    for (int d = 2; d < rank; d++) size[d] = places[d - 2];
    for (int i = 0; i < rank; i++) {
        int d = dl_conv_order(rank, p->last, i);
        stride[d] = step;
        step *= size[d];
    }
    return DL_DNN_BUILD(
        CUDNN_BACKEND_TENSOR_DESCRIPTOR, {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t},
        DL_DNN_INT64(CUDNN_ATTR_TENSOR_DIMENSIONS, rank, size), DL_DNN_INT64(CUDNN_ATTR_TENSOR_STRIDES, rank, stride),
        DL_DNN_INT64(CUDNN_ATTR_TENSOR_UNIQUE_ID, 1, &id), DL_DNN_INT64(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &align));
}

static desc convolution(const dl_dnn_problem *p) {
    cudnnDataType_t compute = p->t == DL_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t dims = p->g.dims, dil[RANKS], stride[RANKS], pad[RANKS];
    for (int i = 0; i < dims; i++) dil[i] = p->g.dil[i], stride[i] = p->g.stride[i], pad[i] = p->g.pad[i];
    return DL_DNN_BUILD(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
                        {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute},
                        {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode},
                        DL_DNN_INT64(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1, &dims),
                        DL_DNN_INT64(CUDNN_ATTR_CONVOLUTION_DILATIONS, dims, dil),
                        DL_DNN_INT64(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, dims, stride),
                        DL_DNN_INT64(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, dims, pad),
                        DL_DNN_INT64(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, dims, pad));
}

/* What cuDNN calls the operands of each kind. */
static const struct {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t image, weight, result, how, alpha, beta;
} kinds[] = {
#define KIND(descriptor, prefix, image, weight, result)                                                                \
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_##descriptor##_DESCRIPTOR,                                                    \
     CUDNN_ATTR_OPERATION_CONVOLUTION_##prefix##_##image,                                                              \
     CUDNN_ATTR_OPERATION_CONVOLUTION_##prefix##_##weight,                                                             \
     CUDNN_ATTR_OPERATION_CONVOLUTION_##prefix##_##result,                                                             \
     CUDNN_ATTR_OPERATION_CONVOLUTION_##prefix##_CONV_DESC,                                                            \
     CUDNN_ATTR_OPERATION_CONVOLUTION_##prefix##_ALPHA,                                                                \
     CUDNN_ATTR_OPERATION_CONVOLUTION_##prefix##_BETA},
    KIND(FORWARD, FORWARD, X, W, Y) KIND(BACKWARD_DATA, BWD_DATA, DX, W, DY)
        KIND(BACKWARD_FILTER, BWD_FILTER, X, DW, DY)
#undef KIND
};

enum { IMAGE = 1, WEIGHT, RESULT };

/* A problem as cuDNN knows it; graph NULL: it does not take it. */
typedef struct graph {
    desc operand[3], how, op, graph;
} graph;

static void graph_free(graph *g) {
    dl_dnn_drop(g->graph), dl_dnn_drop(g->op), dl_dnn_drop(g->how);
    for (int i = 0; i < 3; i++) dl_dnn_drop(g->operand[i]);
    memset(g, 0, sizeof *g); /* of a plan that could not be made, it is freed again */
}

static bool graph_of(dl_gpu *gpu, const dl_dnn_problem *p, graph *g) {
    const dl_conv_nd *c = &p->g;
    double one = 1, none = 0;
    float one_f = 1, none_f = 0;
    bool wide = p->t == DL_F64;
    cudnnBackendAttributeType_t number = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
    *g = (graph){{tensor(p, IMAGE, c->N, c->C, c->in), tensor(p, WEIGHT, c->O, c->C / c->groups, c->k),
                  tensor(p, RESULT, c->N, c->O, c->out)},
                 convolution(p),
                 NULL,
                 NULL};
    if (g->operand[0] && g->operand[1] && g->operand[2] && g->how)
        g->op =
            DL_DNN_BUILD(kinds[p->kind].type, DL_DNN_DESC(kinds[p->kind].image, &g->operand[0]),
                         DL_DNN_DESC(kinds[p->kind].weight, &g->operand[1]),
                         DL_DNN_DESC(kinds[p->kind].result, &g->operand[2]), DL_DNN_DESC(kinds[p->kind].how, &g->how),
                         {kinds[p->kind].alpha, number, 1, wide ? (const void *)&one : &one_f},
                         {kinds[p->kind].beta, number, 1, wide ? (const void *)&none : &none_f});
    if (g->op) g->graph = dl_dnn_graph(gpu, &g->op, 1);
    if (!g->graph) graph_free(g);
    return g->graph != NULL;
}

/* ---- engines */

/* Would the engine compute in another way than asked? */
static bool unwanted(desc engine, const dl_dnn_problem *p) {
    unsigned bits, against = 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    if (!dl_dnn_notes(engine, &bits)) return true;
    if (p->deterministic) against |= 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    if (p->t == DL_F32 && !p->tf32) against |= 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    if (p->t == DL_F32) /* large tiles lose digits */
        against |= 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 |
                   1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
    return bits & against;
}

static bool read_knobs(desc config, dl_dnn_choice *c) {
    desc knob[CUDNN_KNOB_TYPE_COUNTS];
    int n = dl_dnn_get_descs(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, knob,
                             CUDNN_KNOB_TYPE_COUNTS);
    bool good = n <= DL_DNN_KNOBS;
    for (int i = 0; i < n; i++) {
        cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;
        int64_t value = 0;
        good = good && dl_dnn_get(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type) >= 0 &&
               dl_dnn_get(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value) >= 0;
        if (good) c->knob[i].type = (int)type, c->knob[i].value = value;
        dl_dnn_drop(knob[i]);
    }
    c->nknobs = n;
    return good;
}

static bool read_choice(desc config, const dl_dnn_problem *p, dl_dnn_choice *c) {
    desc engine = NULL;
    int64_t index = 0;
    memset(c, 0, sizeof *c);
    if (dl_dnn_get_descs(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine, 1) != 1)
        return false;
    bool good =
        !unwanted(engine, p) && dl_dnn_get(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index) >= 0;
    dl_dnn_drop(engine);
    c->engine = index;
    return good && read_knobs(config, c);
}

/* Adds the engines that a heuristic proposes to the n choices in out[]; returns how many there are then. */
static int engines_of(const graph *g, const dl_dnn_problem *p, cudnnBackendHeurMode_t mode, dl_dnn_choice *out, int n,
                      int max) {
    desc config[FOUND];
    int found = dl_dnn_configs(g->graph, mode, config, FOUND);
    for (int i = 0; i < found; i++) {
        dl_dnn_choice c;
        bool good = n < max && read_choice(config[i], p, &c);
        for (int k = 0; good && k < n; k++) good = memcmp(&out[k], &c, sizeof c) != 0;
        if (good) out[n++] = c;
        dl_dnn_drop(config[i]);
    }
    return n;
}

int dl_dnn_choices(dl_gpu *g, const dl_dnn_problem *p, dl_dnn_choice *out, int max) {
    static const cudnnBackendHeurMode_t modes[HEURISTICS] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B,
                                                             CUDNN_HEUR_MODE_FALLBACK};
    graph it;
    int n = 0;
    if (!graph_of(g, p, &it)) return 0;
    for (int i = 0; i < HEURISTICS; i++) n = engines_of(&it, p, modes[i], out, n, i < HEURISTICS - 1 ? max - 2 : max);
    graph_free(&it);
    return n;
}

/* ---- plans */

struct dl_dnn_plan {
    graph g;
    desc engine, config, plan;
    size_t workspace;
};

void dl_dnn_plan_free(dl_dnn_plan *p) {
    if (!p) return;
    dl_dnn_drop(p->plan), dl_dnn_drop(p->config), dl_dnn_drop(p->engine);
    graph_free(&p->g);
    free(p);
}

static desc configured(const dl_dnn_choice *c, desc engine) {
    desc knob[DL_DNN_KNOBS] = {NULL}, config = NULL;
    bool good = true;
    for (int i = 0; i < c->nknobs; i++) {
        cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)c->knob[i].type;
        int64_t value = c->knob[i].value;
        knob[i] = DL_DNN_BUILD(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
                               {CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type},
                               DL_DNN_INT64(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 1, &value));
        good = good && knob[i];
    }
    const dl_dnn_attr a[] = {DL_DNN_DESC(CUDNN_ATTR_ENGINECFG_ENGINE, &engine),
                             {CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, c->nknobs, knob}};
    if (good) config = dl_dnn_build(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, a, c->nknobs ? 2 : 1);
    for (int i = 0; i < c->nknobs; i++) dl_dnn_drop(knob[i]);
    return config;
}

static bool plan_of(dl_gpu *g, const dl_dnn_problem *p, const dl_dnn_choice *c, dl_dnn_plan *plan) {
    int64_t index = c->engine;
    if (!graph_of(g, p, &plan->g)) return false;
    plan->engine =
        DL_DNN_BUILD(CUDNN_BACKEND_ENGINE_DESCRIPTOR, DL_DNN_DESC(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, &plan->g.graph),
                     DL_DNN_INT64(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1, &index));
    if (!plan->engine || !(plan->config = configured(c, plan->engine))) return false;
    plan->plan = dl_dnn_planned(g, plan->config, &plan->workspace);
    return plan->plan != NULL;
}

dl_dnn_plan *dl_dnn_plan_new(dl_gpu *g, const dl_dnn_problem *p, const dl_dnn_choice *c) {
    if (dl_dnn_ready(g) != DL_OK) return NULL;
    dl_dnn_plan *plan = calloc(1, sizeof *plan);
    if (plan && plan_of(g, p, c, plan)) return plan;
    dl_fail(plan ? DL_ERR_UNSUPPORTED : DL_ERR_MEMORY, "cuDNN's engine %ld does not run this convolution", c->engine);
    dl_dnn_plan_free(plan);
    return NULL;
}

size_t dl_dnn_workspace(const dl_dnn_plan *p) { return p->workspace; }

dl_status dl_dnn_run(dl_gpu *g, dl_dnn_plan *p, void *image, void *weight, void *result, void *workspace) {
    int64_t id[3] = {IMAGE, WEIGHT, RESULT};
    void *at[3] = {image, weight, result};
    return dl_dnn_execute(g, p->plan, id, at, 3, workspace, "a convolution");
}

#else

/* A build without cuDNN's headers. */
int dl_dnn_choices(dl_gpu *g DL_UNUSED, const dl_dnn_problem *p DL_UNUSED, dl_dnn_choice *out DL_UNUSED,
                   int max DL_UNUSED) {
    return 0;
}

dl_dnn_plan *dl_dnn_plan_new(dl_gpu *g, const dl_dnn_problem *p DL_UNUSED, const dl_dnn_choice *c DL_UNUSED) {
    dl_dnn_ready(g);
    return NULL;
}

void dl_dnn_plan_free(dl_dnn_plan *p) { (void)p; }
size_t dl_dnn_workspace(const dl_dnn_plan *p) { return (void)p, (size_t)0; }

dl_status dl_dnn_run(dl_gpu *g, dl_dnn_plan *p DL_UNUSED, void *image DL_UNUSED, void *weight DL_UNUSED,
                     void *result DL_UNUSED, void *workspace DL_UNUSED) {
    return dl_dnn_ready(g);
}

#endif
