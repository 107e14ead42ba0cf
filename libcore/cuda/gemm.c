/* cuBLASLt: descriptors and the algorithm of each product are made once and kept under a key of all that matters. For
 * large products the candidates of the heuristic are measured. */
#include "cuda/gemm.h"
#include "cuda/library.h"

#include <cublasLt.h>
#include <string.h>

/* The formatter never comes to rest on these. */
/* clang-format off */
#define LT_LIST(X)                                                                                                     \
    X(cublasLtCreate)                                                                                                  \
    X(cublasLtMatmul) X(cublasLtMatmulDescCreate) X(cublasLtMatmulDescSetAttribute) X(cublasLtMatmulDescDestroy)       \
        X(cublasLtMatrixLayoutCreate) X(cublasLtMatrixLayoutSetAttribute) X(cublasLtMatrixLayoutDestroy)               \
            X(cublasLtMatmulPreferenceCreate) X(cublasLtMatmulPreferenceSetAttribute)                                  \
                X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulAlgoGetHeuristic)

static struct {
#define X(name) __typeof__(name) *name;
    LT_LIST(X)
#undef X
} lt;
/* clang-format on */

enum { SLOTS = 4096, CANDIDATES = 8, REPEATS = 3, MAX_GPUS = 64 };
static const size_t WORKSPACE = (size_t)32 << 20;
static const double MEASURED = 1 << 24; /* multiplications from which measuring pays */

typedef struct key {
    long m, n, k, lda, ldb, count, step_a, step_b;
    int t, gpu, align_a, align_b, align_out, align_bias;
    char ta, tb, bias, beta;
    int tf32;
} key;

typedef struct plan {
    key k;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, out;
    cublasLtMatmulAlgo_t algo;
} plan;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static plan *plans[SLOTS];
static cublasLtHandle_t handle[MAX_GPUS];
static void *workspace[MAX_GPUS];
static bool opened;
static char missing[256];

static dl_status check(cublasStatus_t s, const char *what) {
    return s == CUBLAS_STATUS_SUCCESS ? DL_OK : dl_fail(DL_ERR_DEVICE, "cuBLASLt failed in %s (status %d)", what, s);
}

/* The library, and what each device needs of it. The lock is held. */
static dl_status ready(dl_gpu *g) {
    static const char *const names[] = {
#define X(name) #name,
        LT_LIST(X)
#undef X
            NULL};
    if (!opened) {
        char so[64];
        snprintf(so, sizeof so, "libcublasLt.so.%d", CUBLAS_VER_MAJOR);
        dl_library_open(so, names, (void **)&lt, missing, sizeof missing);
        opened = true;
    }
    if (*missing)
        return dl_fail_hint(DL_ERR_UNSUPPORTED,
                            "install cuBLAS of the CUDA toolkit, or add its folder to LD_LIBRARY_PATH",
                            "matrix products on the GPU need cuBLASLt: %s", missing);
    if (!handle[g->index]) DL_TRY(check(lt.cublasLtCreate(&handle[g->index]), "starting"));
    if (!workspace[g->index] && !(workspace[g->index] = dl_gpu_take(g, WORKSPACE))) return dl_error_last()->code;
    return DL_OK;
}

static cudaDataType_t type_of(int t) {
    return t == DL_F64 ? CUDA_R_64F : t == DL_F32 ? CUDA_R_32F : t == DL_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

/* ---- layouts */

static bool rows_apart(const dl_gmat *m, long rows, long cols) {
    return (m->cs == 1 || cols == 1) && (rows == 1 || m->rs >= cols);
}
static bool cols_apart(const dl_gmat *m, long rows, long cols) {
    return (m->rs == 1 || rows == 1) && (cols == 1 || m->cs >= rows);
}

bool dl_gemm_ready(const dl_gmat *m, long rows, long cols) {
    return rows_apart(m, rows, cols) || cols_apart(m, rows, cols);
}

/* cuBLASLt knows columns side by side, so it is given the transposed product: out' = b' a'. A matrix with its rows side
 * by side is its own transpose there. */
static void orient(const dl_gmat *m, long rows, long cols, char *transposed, long *ld) {
    *transposed = !rows_apart(m, rows, cols);
    *ld = *transposed ? (cols == 1 ? rows : m->cs) : rows == 1 ? cols : m->rs;
}

static int alignment(const void *p) {
    size_t a = (size_t)p & -(size_t)p;
    return p ? a > 256 ? 256 : (int)a : 0;
}

static key key_of(const dl_gpu *g, const dl_gemm *p, bool beta) {
    key k;
    memset(&k, 0, sizeof k); /* padding counts in comparisons */
    k.m = p->m, k.n = p->n, k.k = p->k, k.count = p->count;
    if (p->count > 1) k.step_a = p->step_a, k.step_b = p->step_b;
    k.tf32 = p->t == DL_F32 && dl_tf32_allowed();
    k.t = p->t, k.gpu = g->index, k.bias = p->bias && !beta, k.beta = beta;
    k.align_a = alignment(p->a.p), k.align_b = alignment(p->b.p), k.align_out = alignment(p->out);
    if (k.bias) k.align_bias = alignment(p->bias);
    orient(&p->a, p->m, p->k, &k.ta, &k.lda);
    orient(&p->b, p->k, p->n, &k.tb, &k.ldb);
    return k;
}

static dl_status layout(cublasLtMatrixLayout_t *l, int t, long rows, long cols, long ld, long count, long step) {
    DL_TRY(check(lt.cublasLtMatrixLayoutCreate(l, type_of(t), (uint64_t)rows, (uint64_t)cols, ld), "a layout"));
    int32_t n = (int32_t)count;
    int64_t s = step;
    DL_TRY(
        check(lt.cublasLtMatrixLayoutSetAttribute(*l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n, sizeof n), "a layout"));
    return check(lt.cublasLtMatrixLayoutSetAttribute(*l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &s, sizeof s),
                 "a layout");
}

static dl_status describe(plan *p) {
    const key *k = &p->k;
    cublasComputeType_t how = k->t == DL_F64 ? CUBLAS_COMPUTE_64F
                              : k->tf32      ? CUBLAS_COMPUTE_32F_FAST_TF32
                                             : CUBLAS_COMPUTE_32F;
    cublasOperation_t n = CUBLAS_OP_N, t = CUBLAS_OP_T;
    DL_TRY(check(lt.cublasLtMatmulDescCreate(&p->op, how, k->t == DL_F64 ? CUDA_R_64F : CUDA_R_32F), "a product"));
    DL_TRY(check(lt.cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_TRANSA, k->tb ? &t : &n, sizeof n),
                 "a product"));
    DL_TRY(check(lt.cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_TRANSB, k->ta ? &t : &n, sizeof n),
                 "a product"));
    DL_TRY(layout(&p->b, k->t, k->tb ? k->k : k->n, k->tb ? k->n : k->k, k->ldb, k->count, k->step_b));
    DL_TRY(layout(&p->a, k->t, k->ta ? k->m : k->k, k->ta ? k->k : k->m, k->lda, k->count, k->step_a));
    return layout(&p->out, k->t, k->n, k->m, k->n, k->count, k->m * k->n);
}

static void destroy(plan *p) {
    if (p->op) lt.cublasLtMatmulDescDestroy(p->op);
    if (p->a) lt.cublasLtMatrixLayoutDestroy(p->a);
    if (p->b) lt.cublasLtMatrixLayoutDestroy(p->b);
    if (p->out) lt.cublasLtMatrixLayoutDestroy(p->out);
    free(p);
}

/* ---- running and choosing */

static dl_status set_bias(const plan *p, const void *bias) {
    cublasLtEpilogue_t e = CUBLASLT_EPILOGUE_BIAS;
    if (!p->k.bias) return DL_OK;
    DL_TRY(check(lt.cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_EPILOGUE, &e, sizeof e), "a bias"));
    return check(lt.cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
                 "a bias");
}

static cublasStatus_t start(const dl_gpu *g, const plan *p, const cublasLtMatmulAlgo_t *algo, const dl_gemm *q) {
    double one = 1, none = 0;
    float one_f = 1, none_f = 0;
    bool wide = p->k.t == DL_F64;
    const void *alpha = wide ? (void *)&one : (void *)&one_f, *zero = wide ? (void *)&none : (void *)&none_f;
    return lt.cublasLtMatmul(handle[g->index], p->op, alpha, q->b.p, p->b, q->a.p, p->a, p->k.beta ? alpha : zero,
                             q->out, p->out, q->out, p->out, algo, workspace[g->index], WORKSPACE, g->stream);
}

/* Milliseconds of one run, or a negative number. */
static float measure(const dl_gpu *g, const plan *p, const cublasLtMatmulAlgo_t *algo, const dl_gemm *q,
                     cudaEvent_t e[2]) {
    float ms = -1;
    if (start(g, p, algo, q) != CUBLAS_STATUS_SUCCESS) return -1;
    cudaEventRecord(e[0], g->stream);
    for (int i = 0; i < REPEATS; i++) start(g, p, algo, q);
    cudaEventRecord(e[1], g->stream);
    if (cudaEventSynchronize(e[1]) != cudaSuccess || cudaEventElapsedTime(&ms, e[0], e[1]) != cudaSuccess) return -1;
    return ms;
}

static int best_of(const dl_gpu *g, const plan *p, const cublasLtMatmulHeuristicResult_t *r, int n, const dl_gemm *q) {
    cudaEvent_t e[2];
    int best = 0;
    float least = -1;
    if (cudaEventCreate(&e[0]) != cudaSuccess) return 0;
    if (cudaEventCreate(&e[1]) == cudaSuccess) {
        for (int i = 0; i < n; i++) {
            float ms = measure(g, p, &r[i].algo, q, e);
            if (ms >= 0 && (least < 0 || ms < least)) least = ms, best = i;
        }
        cudaEventDestroy(e[1]);
    }
    cudaEventDestroy(e[0]);
    return best;
}

static dl_status choose(const dl_gpu *g, plan *p, const dl_gemm *q) {
    const key *k = &p->k;
    cublasLtMatmulPreference_t pref = NULL;
    cublasLtMatmulHeuristicResult_t r[CANDIDATES];
    int n = 0;
    uint32_t a = (uint32_t)k->align_b, b = (uint32_t)k->align_a, out = (uint32_t)k->align_out;
    size_t space = WORKSPACE;
    DL_TRY(check(lt.cublasLtMatmulPreferenceCreate(&pref), "choosing an algorithm"));
    lt.cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &space, sizeof space);
    lt.cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a);
    lt.cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b);
    lt.cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &out, sizeof out);
    lt.cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &out, sizeof out);
    cublasStatus_t s =
        lt.cublasLtMatmulAlgoGetHeuristic(handle[g->index], p->op, p->b, p->a, p->out, p->out, pref, CANDIDATES, r, &n);
    lt.cublasLtMatmulPreferenceDestroy(pref);
    DL_TRY(check(s, "choosing an algorithm"));
    if (!n) return dl_fail(DL_ERR_UNSUPPORTED, "cuBLASLt has no algorithm for this product");
    bool worth = (double)k->m * (double)k->n * (double)k->k * (double)k->count >= MEASURED && !k->beta;
    p->algo = r[worth && n > 1 ? best_of(g, p, r, n, q) : 0].algo;
    return DL_OK;
}

static unsigned hash(const key *k) {
    const unsigned char *p = (const unsigned char *)k;
    unsigned h = 2166136261u;
    for (size_t i = 0; i < sizeof *k; i++) h = (h ^ p[i]) * 16777619u;
    return h;
}

/* The plan of a key, made when there is none; a full neighbourhood loses its oldest. */
static dl_status find(dl_gpu *g, const key *k, const dl_gemm *q, plan **out) {
    unsigned h = hash(k), at = h % SLOTS;
    for (unsigned i = 0; i < 8; i++) {
        at = (h + i) % SLOTS;
        if (!plans[at]) break;
        if (!memcmp(&plans[at]->k, k, sizeof *k)) return *out = plans[at], DL_OK;
    }
    plan *p = calloc(1, sizeof *p);
    if (!p) return dl_fail(DL_ERR_MEMORY, "no memory for the plan of a product");
    p->k = *k;
    dl_status s = describe(p);
    if (s == DL_OK) s = set_bias(p, q->bias);
    if (s == DL_OK) s = choose(g, p, q);
    if (s != DL_OK) return destroy(p), s;
    if (plans[at]) destroy(plans[at]);
    plans[at] = p;
    return *out = p, DL_OK;
}

static dl_status run_locked(dl_gpu *g, const dl_gemm *q, bool beta) {
    plan *p = NULL;
    DL_TRY(ready(g));
    key k = key_of(g, q, beta);
    DL_TRY(find(g, &k, q, &p));
    DL_TRY(set_bias(p, q->bias));
    return check(start(g, p, &p->algo, q), "a product");
}

dl_status dl_gemm_run(dl_gpu *g, const dl_gemm *p) {
    size_t bytes = (size_t)(p->m * p->n * p->count) * (size_t)dl_dtype_size(p->t);
    bool beta = false;
    if (!bytes) return DL_OK;
    if (p->bias && (p->t == DL_F64 || !p->k)) { /* no epilogue there: rows start as the bias */
        long shape[2] = {p->m * p->count, p->n}, to[2] = {p->n, 1}, from[2] = {0, 1};
        DL_TRY(dl_cuda_copy_strided(g, 2, shape, p->out, p->t, to, p->bias, p->t, from));
        beta = true;
    }
    if (!p->k)
        return beta ? DL_OK : dl_gpu_check(g, cudaMemsetAsync(p->out, 0, bytes, g->stream), "a product of nothing");
    pthread_mutex_lock(&lock);
    dl_status s = run_locked(g, p, beta);
    pthread_mutex_unlock(&lock);
    return s == DL_OK ? dl_gpu_launched(g) : s;
}
