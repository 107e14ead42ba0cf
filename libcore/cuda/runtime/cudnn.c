/* cuDNN: the library, and its descriptors of one convolution. */
#include "cuda/runtime/cudnn.h"

#include "cuda/runtime/library.h"

#include <string.h>

#ifdef DL_HAVE_CUDNN
#include <cudnn.h>

#define DNN_LIST(X)                                                                                                    \
    X(cudnnCreate)                                                                                                     \
    X(cudnnSetStream)                                                                                                  \
    X(cudnnGetVersion)                                                                                                 \
    X(cudnnGetErrorString)                                                                                             \
    X(cudnnBackendCreateDescriptor)                                                                                    \
    X(cudnnBackendDestroyDescriptor)                                                                                   \
    X(cudnnBackendFinalize)                                                                                            \
    X(cudnnBackendSetAttribute)                                                                                        \
    X(cudnnBackendGetAttribute)                                                                                        \
    X(cudnnBackendExecute)

static struct {
#define X(name) __typeof__(name) *name;
    DNN_LIST(X)
#undef X
} dnn;

typedef cudnnBackendDescriptor_t desc;

enum { HEURISTICS = 3, FOUND = 48 };
static cudnnHandle_t handle[DL_MAX_GPUS];
static char missing[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;

static void open_library(void) {
    static const char *const names[] = {
#define X(name) #name,
        DNN_LIST(X)
#undef X
            NULL};
    char so[64];
    snprintf(so, sizeof so, "libcudnn.so.%d", CUDNN_MAJOR);
    if (dl_library_open(so, names, (void **)&dnn, missing, sizeof missing)) *missing = 0;
}

long dl_dnn_version(void) {
    pthread_once(&once, open_library);
    return *missing ? 0 : (long)dnn.cudnnGetVersion();
}

static dl_status check(cudnnStatus_t s, const char *what) {
    return s == CUDNN_STATUS_SUCCESS
               ? DL_OK
               : dl_fail(DL_ERR_DEVICE, "cuDNN failed in %s: %s", what, dnn.cudnnGetErrorString(s));
}

dl_status dl_dnn_ready(dl_gpu *g) {
    if (!dl_dnn_version())
        return dl_fail_hint(DL_ERR_UNSUPPORTED, "install cuDNN, or add its folder to LD_LIBRARY_PATH",
                            "cuDNN cannot be used: %s", missing);
    pthread_mutex_lock(&starting);
    dl_status s = DL_OK;
    if (!handle[g->index]) {
        cudnnHandle_t h = NULL;
        s = check(dnn.cudnnCreate(&h), "starting");
        if (s == DL_OK) s = check(dnn.cudnnSetStream(h, g->stream), "starting");
        if (s == DL_OK) handle[g->index] = h;
    }
    pthread_mutex_unlock(&starting);
    return s;
}

void *dl_dnn_handle(const dl_gpu *g) { return handle[g->index]; }

/* ---- descriptors */

static desc make(cudnnBackendDescriptorType_t type) {
    desc d = NULL;
    return dnn.cudnnBackendCreateDescriptor(type, &d) == CUDNN_STATUS_SUCCESS ? d : NULL;
}

static void drop(desc d) {
    if (d) dnn.cudnnBackendDestroyDescriptor(d);
}

/* One attribute of a descriptor. */
typedef struct attr {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    long n;
    const void *p;
} attr;

static bool set(desc d, attr a) {
    return dnn.cudnnBackendSetAttribute(d, a.name, a.type, a.n, a.p) == CUDNN_STATUS_SUCCESS;
}

/* A finished descriptor, or NULL. */
static desc build(cudnnBackendDescriptorType_t type, const attr *a, int n) {
    desc d = make(type);
    bool good = d != NULL;
    for (int i = 0; good && i < n; i++) good = set(d, a[i]);
    if (good && dnn.cudnnBackendFinalize(d) == CUDNN_STATUS_SUCCESS) return d;
    drop(d);
    return NULL;
}
#define BUILD(type, ...) build(type, (const attr[]){__VA_ARGS__}, sizeof((const attr[]){__VA_ARGS__}) / sizeof(attr))
#define INT64(name, n, p)                                                                                              \
    { name, CUDNN_TYPE_INT64, n, p }
#define DESC(name, p)                                                                                                  \
    { name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, p }

static cudnnDataType_t type_of(dl_dtype t) {
    return t == DL_F64   ? CUDNN_DATA_DOUBLE
           : t == DL_F32 ? CUDNN_DATA_FLOAT
           : t == DL_F16 ? CUDNN_DATA_HALF
                         : CUDNN_DATA_BFLOAT16;
}

static desc tensor(const dl_dnn_problem *p, int64_t id, const long shape[4]) {
    static const int order[2][4] = {{3, 2, 1, 0}, {1, 3, 2, 0}};
    int64_t size[4], stride[4], step = 1, align = 16;
    cudnnDataType_t t = type_of(p->t);
    for (int i = 0; i < 4; i++) {
        int d = order[p->last][i];
        size[d] = shape[d], stride[d] = step;
        step *= shape[d];
    }
    return BUILD(CUDNN_BACKEND_TENSOR_DESCRIPTOR, {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t},
                 INT64(CUDNN_ATTR_TENSOR_DIMENSIONS, 4, size), INT64(CUDNN_ATTR_TENSOR_STRIDES, 4, stride),
                 INT64(CUDNN_ATTR_TENSOR_UNIQUE_ID, 1, &id), INT64(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &align));
}

static desc convolution(const dl_dnn_problem *p) {
    cudnnDataType_t compute = p->t == DL_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t dims = 2, dil[2], stride[2], pad[2];
    for (int i = 0; i < 2; i++) dil[i] = p->g.dil[i], stride[i] = p->g.stride[i], pad[i] = p->g.pad[i];
    return BUILD(
        CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute},
        {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode},
        INT64(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1, &dims), INT64(CUDNN_ATTR_CONVOLUTION_DILATIONS, 2, dil),
        INT64(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 2, stride), INT64(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 2, pad),
        INT64(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 2, pad));
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
    drop(g->graph), drop(g->op), drop(g->how);
    for (int i = 0; i < 3; i++) drop(g->operand[i]);
}

static bool graph_of(dl_gpu *gpu, const dl_dnn_problem *p, graph *g) {
    const dl_conv *c = &p->g;
    double one = 1, none = 0;
    float one_f = 1, none_f = 0;
    bool wide = p->t == DL_F64;
    cudnnBackendAttributeType_t number = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
    *g = (graph){{tensor(p, IMAGE, (long[]){c->N, c->C, c->in[0], c->in[1]}),
                  tensor(p, WEIGHT, (long[]){c->O, c->C / c->groups, c->k[0], c->k[1]}),
                  tensor(p, RESULT, (long[]){c->N, c->O, c->out[0], c->out[1]})},
                 convolution(p),
                 NULL,
                 NULL};
    if (g->operand[0] && g->operand[1] && g->operand[2] && g->how)
        g->op = BUILD(kinds[p->kind].type, DESC(kinds[p->kind].image, &g->operand[0]),
                      DESC(kinds[p->kind].weight, &g->operand[1]), DESC(kinds[p->kind].result, &g->operand[2]),
                      DESC(kinds[p->kind].how, &g->how),
                      {kinds[p->kind].alpha, number, 1, wide ? (const void *)&one : &one_f},
                      {kinds[p->kind].beta, number, 1, wide ? (const void *)&none : &none_f});
    if (g->op)
        g->graph = BUILD(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
                         {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle[gpu->index]},
                         DESC(CUDNN_ATTR_OPERATIONGRAPH_OPS, &g->op));
    if (!g->graph) graph_free(g);
    return g->graph != NULL;
}

/* ---- engines */

/* Up to n values of an attribute into p; how many it has, -1: it cannot be read. */
static long get(desc d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, long n, void *p) {
    int64_t got = 0;
    return dnn.cudnnBackendGetAttribute(d, name, type, n, &got, p) == CUDNN_STATUS_SUCCESS ? got : -1;
}

/* How many descriptors of `type` an attribute holds, put into out[]. */
static int get_descs(desc from, cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type, desc *out,
                     int max) {
    for (int i = 0; i < max; i++)
        if (!(out[i] = make(type))) max = i;
    long n = get(from, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, max, out);
    n = n < 0 ? 0 : n > max ? max : n;
    for (int i = (int)n; i < max; i++) drop(out[i]);
    return (int)n;
}

/* Would the engine compute in another way than asked? */
static bool unwanted(desc engine, const dl_dnn_problem *p) {
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    long n =
        get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, note);
    if (n < 0) return true;
    unsigned bits = 0, against = 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    for (int i = 0; i < n; i++) bits |= 1u << note[i];
    if (p->deterministic) against |= 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    if (p->t == DL_F32 && !p->tf32) against |= 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    if (p->t == DL_F32) /* large tiles lose digits */
        against |= 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 |
                   1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
    return bits & against;
}

static bool read_knobs(desc config, dl_dnn_choice *c) {
    desc knob[CUDNN_KNOB_TYPE_COUNTS];
    int n = get_descs(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, knob,
                      CUDNN_KNOB_TYPE_COUNTS);
    bool good = n <= DL_DNN_KNOBS;
    for (int i = 0; i < n; i++) {
        cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;
        int64_t value = 0;
        good = good && get(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type) >= 0 &&
               get(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value) >= 0;
        if (good) c->knob[i].type = (int)type, c->knob[i].value = value;
        drop(knob[i]);
    }
    c->nknobs = n;
    return good;
}

static bool read_choice(desc config, const dl_dnn_problem *p, dl_dnn_choice *c) {
    desc engine = NULL;
    int64_t index = 0;
    memset(c, 0, sizeof *c);
    if (get_descs(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine, 1) != 1) return false;
    bool good = !unwanted(engine, p) && get(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index) >= 0;
    drop(engine);
    c->engine = index;
    return good && read_knobs(config, c);
}

/* Adds the engines that a heuristic proposes to the n choices in out[]; returns how many there are then. */
static int engines_of(const graph *g, const dl_dnn_problem *p, cudnnBackendHeurMode_t mode, dl_dnn_choice *out, int n,
                      int max) {
    desc heur = BUILD(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, DESC(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &g->graph),
                      {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode});
    desc config[FOUND];
    int found =
        heur ? get_descs(heur, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, config, FOUND) : 0;
    for (int i = 0; i < found; i++) {
        dl_dnn_choice c;
        bool good = n < max && read_choice(config[i], p, &c);
        for (int k = 0; good && k < n; k++) good = memcmp(&out[k], &c, sizeof c) != 0;
        if (good) out[n++] = c;
        drop(config[i]);
    }
    drop(heur);
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
    drop(p->plan), drop(p->config), drop(p->engine);
    graph_free(&p->g);
    free(p);
}

static desc configured(const dl_dnn_choice *c, desc engine) {
    desc knob[DL_DNN_KNOBS] = {NULL}, config = NULL;
    bool good = true;
    for (int i = 0; i < c->nknobs; i++) {
        cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)c->knob[i].type;
        int64_t value = c->knob[i].value;
        knob[i] = BUILD(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
                        {CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type},
                        INT64(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 1, &value));
        good = good && knob[i];
    }
    const attr a[] = {DESC(CUDNN_ATTR_ENGINECFG_ENGINE, &engine),
                      {CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, c->nknobs, knob}};
    if (good) config = build(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, a, c->nknobs ? 2 : 1);
    for (int i = 0; i < c->nknobs; i++) drop(knob[i]);
    return config;
}

static bool plan_of(dl_gpu *g, const dl_dnn_problem *p, const dl_dnn_choice *c, dl_dnn_plan *plan) {
    int64_t index = c->engine, space = 0;
    if (!graph_of(g, p, &plan->g)) return false;
    plan->engine = BUILD(CUDNN_BACKEND_ENGINE_DESCRIPTOR, DESC(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, &plan->g.graph),
                         INT64(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1, &index));
    if (!plan->engine || !(plan->config = configured(c, plan->engine))) return false;
    plan->plan = BUILD(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
                       {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle[g->index]},
                       DESC(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &plan->config));
    if (!plan->plan || get(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &space) < 0)
        return false;
    plan->workspace = (size_t)space;
    return true;
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
    desc pack = BUILD(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, INT64(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 3, id),
                      {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, at},
                      {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace});
    if (!pack) return dl_fail(DL_ERR_DEVICE, "cuDNN does not take the operands of a convolution");
    cudnnStatus_t s = dnn.cudnnBackendExecute(handle[g->index], p->plan, pack);
    drop(pack);
    return check(s, "a convolution");
}

#else

/* A build without cuDNN's headers. */
long dl_dnn_version(void) { return 0; }

dl_status dl_dnn_ready(dl_gpu *g) {
    (void)g;
    return dl_fail_hint(DL_ERR_UNSUPPORTED, "build it where cuDNN's headers are installed",
                        "this build does not know cuDNN");
}

void *dl_dnn_handle(const dl_gpu *g) { return (void)g, NULL; }

int dl_dnn_choices(dl_gpu *g, const dl_dnn_problem *p, dl_dnn_choice *out, int max) {
    (void)g, (void)p, (void)out, (void)max;
    return 0;
}

dl_dnn_plan *dl_dnn_plan_new(dl_gpu *g, const dl_dnn_problem *p, const dl_dnn_choice *c) {
    (void)p, (void)c;
    dl_dnn_ready(g);
    return NULL;
}

void dl_dnn_plan_free(dl_dnn_plan *p) { (void)p; }
size_t dl_dnn_workspace(const dl_dnn_plan *p) { return (void)p, (size_t)0; }

dl_status dl_dnn_run(dl_gpu *g, dl_dnn_plan *p, void *image, void *weight, void *result, void *workspace) {
    (void)p, (void)image, (void)weight, (void)result, (void)workspace;
    return dl_dnn_ready(g);
}

#endif
