/* cuDNN: the library, and what its graphs have in common. */
#include "cuda/runtime/cudnn_graph.h"

#include "cuda/runtime/library.h"

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;

#ifdef DL_HAVE_CUDNN

const char *dl_dnn_open(dl_dnn_functions *f) {
    pthread_mutex_lock(&starting);
    if (!f->tried) {
        char so[64];
        snprintf(so, sizeof so, "libcudnn.so.%d", CUDNN_MAJOR);
        dl_library_open(so, f->names, f->into, f->missing, sizeof f->missing);
        f->tried = true;
    }
    pthread_mutex_unlock(&starting);
    return f->missing;
}

#define LIST(X)                                                                                                        \
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
DL_DNN_TABLE(LIST)

typedef dl_dnn_desc desc;
typedef dl_dnn_attr attr;

static cudnnHandle_t handle[DL_MAX_GPUS];

long dl_dnn_version(void) { return *dl_dnn_open(&functions) ? 0 : (long)dnn.cudnnGetVersion(); }

static dl_status check(cudnnStatus_t s, const char *what) {
    return s == CUDNN_STATUS_SUCCESS
               ? DL_OK
               : dl_fail(DL_ERR_DEVICE, "cuDNN failed in %s: %s", what, dnn.cudnnGetErrorString(s));
}

dl_status dl_dnn_ready(dl_gpu *g) {
    if (!dl_dnn_version())
        return dl_fail_hint(DL_ERR_UNSUPPORTED, "install cuDNN, or add its folder to LD_LIBRARY_PATH",
                            "cuDNN cannot be used: %s", functions.missing);
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

void dl_dnn_drop(desc d) {
    if (d) dnn.cudnnBackendDestroyDescriptor(d);
}

static bool set(desc d, attr a) {
    return dnn.cudnnBackendSetAttribute(d, a.name, a.type, a.n, a.p) == CUDNN_STATUS_SUCCESS;
}

desc dl_dnn_build(cudnnBackendDescriptorType_t type, const attr *a, int n) {
    desc d = make(type);
    bool good = d != NULL;
    for (int i = 0; good && i < n; i++) good = set(d, a[i]);
    if (good && dnn.cudnnBackendFinalize(d) == CUDNN_STATUS_SUCCESS) return d;
    dl_dnn_drop(d);
    return NULL;
}

long dl_dnn_get(desc d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, long n, void *p) {
    int64_t got = 0;
    return dnn.cudnnBackendGetAttribute(d, name, type, n, &got, p) == CUDNN_STATUS_SUCCESS ? got : -1;
}

int dl_dnn_get_descs(desc from, cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type, desc *out,
                     int max) {
    for (int i = 0; i < max; i++)
        if (!(out[i] = make(type))) max = i;
    long n = dl_dnn_get(from, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, max, out);
    n = n < 0 ? 0 : n > max ? max : n;
    for (int i = (int)n; i < max; i++) dl_dnn_drop(out[i]);
    return (int)n;
}

cudnnDataType_t dl_dnn_type(dl_dtype t) {
    return t == DL_F64   ? CUDNN_DATA_DOUBLE
           : t == DL_F32 ? CUDNN_DATA_FLOAT
           : t == DL_F16 ? CUDNN_DATA_HALF
                         : CUDNN_DATA_BFLOAT16;
}

/* ---- graphs, engines, plans */

desc dl_dnn_graph(const dl_gpu *g, const desc *ops, int n) {
    return DL_DNN_BUILD(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
                        {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle[g->index]},
                        {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, ops});
}

int dl_dnn_configs(desc graph, cudnnBackendHeurMode_t mode, desc *out, int max) {
    desc heur =
        DL_DNN_BUILD(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, DL_DNN_DESC(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &graph),
                     {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode});
    int n =
        heur ? dl_dnn_get_descs(heur, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, out, max) : 0;
    dl_dnn_drop(heur);
    return n;
}

bool dl_dnn_notes(desc engine, unsigned *bits) {
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    long n = dl_dnn_get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                        CUDNN_NUMERICAL_NOTE_TYPE_COUNT, note);
    *bits = 0;
    for (int i = 0; i < n; i++) *bits |= 1u << note[i];
    return n >= 0;
}

desc dl_dnn_planned(const dl_gpu *g, desc config, size_t *workspace) {
    int64_t space = 0;
    desc plan = DL_DNN_BUILD(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
                             {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle[g->index]},
                             DL_DNN_DESC(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &config));
    if (plan && dl_dnn_get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &space) < 0) {
        dl_dnn_drop(plan);
        plan = NULL;
    }
    *workspace = (size_t)space;
    return plan;
}

dl_status dl_dnn_execute(dl_gpu *g, desc plan, const int64_t *id, void *const *at, int n, void *workspace,
                         const char *what) {
    desc pack =
        DL_DNN_BUILD(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, DL_DNN_INT64(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, n, id),
                     {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, at},
                     {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace});
    if (!pack) return dl_fail(DL_ERR_DEVICE, "cuDNN does not take the operands of %s", what);
    cudnnStatus_t s = dnn.cudnnBackendExecute(handle[g->index], plan, pack);
    dl_dnn_drop(pack);
    return check(s, what);
}

#else

/* A build without cuDNN's headers. */
const char *dl_dnn_open(dl_dnn_functions *f) { return (void)f, "this build does not know it"; }
long dl_dnn_version(void) { return (void)starting, 0; }

dl_status dl_dnn_ready(dl_gpu *g DL_UNUSED) {
    return dl_fail_hint(DL_ERR_UNSUPPORTED, "build it where cuDNN's headers are installed",
                        "this build does not know cuDNN");
}

void *dl_dnn_handle(const dl_gpu *g) { return (void)g, NULL; }

#endif
