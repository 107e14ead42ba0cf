/* cuBLASLt: descriptors and the algorithm of each product are made once and kept under a key of all that matters. For
 * large products the candidates of the heuristic are measured. */
#include "cuda/runtime/cublaslt.h"
#include "cuda/runtime/library.h"
#include "cuda/runtime/plans.h"

#include <cublasLt.h>
#include <string.h>

/* clang-format moves these lines at every run. */
/* clang-format off */
#define LT_LIST(X)                                                                                                     \
    X(cublasLtCreate) X(cublasLtGetVersion)                                                                                                  \
    X(cublasLtMatmul) X(cublasLtMatmulDescCreate) X(cublasLtMatmulDescSetAttribute) X(cublasLtMatmulDescDestroy)       \
        X(cublasLtMatrixLayoutCreate) X(cublasLtMatrixLayoutSetAttribute) X(cublasLtMatrixLayoutDestroy)               \
            X(cublasLtMatmulPreferenceCreate) X(cublasLtMatmulPreferenceSetAttribute)                                  \
                X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulAlgoGetHeuristic)                                   \
                    X(cublasLtMatmulAlgoCheck) X(cublasLtGetStatusString)

static struct {
#define X(name) __typeof__(name) *name;
    LT_LIST(X)
#undef X
} lt;
/* clang-format on */

enum { SLOTS = 4096, CANDIDATES = 20 };
static const size_t WORKSPACE = (size_t)32 << 20;
static const double MEASURED = 1 << 16; /* multiplications from which measuring pays */
static const long BATCHES = 1 << 24;    /* of one call, which counts them in 32 bits */

typedef struct key {
    long m, n, k, lda, ldb, count, step_a, step_b, step_out;
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
static cublasLtHandle_t handle[DL_MAX_GPUS];
static void *workspace[DL_MAX_GPUS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char missing[256];

static dl_status check(cublasStatus_t s, const char *what) {
    if (s == CUBLAS_STATUS_SUCCESS) return DL_OK;
    return dl_fail(DL_ERR_DEVICE, "cuBLASLt failed in %s: %s", what, lt.cublasLtGetStatusString(s));
}

static void open_library(void) {
    static const char *const names[] = {
#define X(name) #name,
        LT_LIST(X)
#undef X
            NULL};
    char so[64];
    snprintf(so, sizeof so, "libcublasLt.so.%d", CUBLAS_VER_MAJOR);
    dl_library_open(so, names, (void **)&lt, missing, sizeof missing);
}

long dl_gemm_version(void) {
    pthread_once(&once, open_library);
    return *missing ? 0 : (long)lt.cublasLtGetVersion();
}

/* The library, and what each device needs of it. The lock is held. */
static dl_status ready(dl_gpu *g) {
    pthread_once(&once, open_library);
    if (*missing)
        return dl_fail_hint(DL_ERR_UNSUPPORTED,
                            "install cuBLAS of the CUDA toolkit, or add its folder to LD_LIBRARY_PATH",
                            "matrix products on the GPU need cuBLASLt: %s", missing);
    if (!handle[g->index]) DL_TRY(check(lt.cublasLtCreate(&handle[g->index]), "starting"));
    if (!workspace[g->index] && !(workspace[g->index] = dl_gpu_take_lasting(g, WORKSPACE))) return dl_failed();
    return DL_OK;
}

static cudaDataType_t type_of(int t) {
    return t == DL_F64    ? CUDA_R_64F
           : t == DL_F32  ? CUDA_R_32F
           : t == DL_C128 ? CUDA_C_64F
           : t == DL_C64  ? CUDA_C_32F
           : t == DL_F16  ? CUDA_R_16F
                          : CUDA_R_16BF;
}
/* Is it computed in f64? */
static bool is_wide(int t) { return t == DL_F64 || t == DL_C128; }
/* The type of the factors of products. */
static cudaDataType_t scale_of(int t) { return is_wide(t) || t == DL_C64 ? type_of(t) : CUDA_R_32F; }

/* ---- layouts */

static bool rows_apart(const dl_mat *m, long rows, long cols) {
    return (m->cs == 1 || cols == 1) && (rows == 1 || m->rs >= cols);
}
static bool cols_apart(const dl_mat *m, long rows, long cols) {
    return (m->rs == 1 || rows == 1) && (cols == 1 || m->cs >= rows);
}

bool dl_gemm_ready(const dl_mat *m, long rows, long cols) {
    return rows_apart(m, rows, cols) || cols_apart(m, rows, cols);
}

/* cuBLASLt knows columns side by side, so it is given the transposed product: out' = b' a'. A matrix with its rows side
 * by side is its own transpose there. */
static void orient(const dl_mat *m, long rows, long cols, char *transposed, long *ld) {
    *transposed = !rows_apart(m, rows, cols);
    *ld = *transposed ? (cols == 1 ? rows : m->cs) : rows == 1 ? cols : m->rs;
}

static int alignment(const void *p) {
    size_t a = (size_t)p & -(size_t)p;
    return p ? a > 256 ? 256 : (int)a : 0;
}

static long step_out(const dl_gemm *p) { return p->count > 1 && p->step_out ? p->step_out : p->m * p->n; }

static key key_of(const dl_gpu *g, const dl_gemm *p, bool beta) {
    key k;
    memset(&k, 0, sizeof k); /* padding counts in comparisons */
    k.m = p->m, k.n = p->n, k.k = p->k, k.count = p->count;
    if (p->count > 1) k.step_a = p->step_a, k.step_b = p->step_b;
    k.step_out = step_out(p);
    k.tf32 = (p->t == DL_F32 || p->t == DL_C64) && dl_tf32_allowed();
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

static dl_status set(const plan *p, cublasLtMatmulDescAttributes_t name, const void *value, size_t size) {
    return check(lt.cublasLtMatmulDescSetAttribute(p->op, name, value, size), "a product");
}

static dl_status describe(plan *p) {
    const key *k = &p->k;
    cublasComputeType_t how = is_wide(k->t) ? CUBLAS_COMPUTE_64F
                              : k->tf32     ? CUBLAS_COMPUTE_32F_FAST_TF32
                                            : CUBLAS_COMPUTE_32F;
    cublasOperation_t n = CUBLAS_OP_N, t = CUBLAS_OP_T;
    DL_TRY(check(lt.cublasLtMatmulDescCreate(&p->op, how, scale_of(k->t)), "a product"));
    DL_TRY(set(p, CUBLASLT_MATMUL_DESC_TRANSA, k->tb ? &t : &n, sizeof n));
    DL_TRY(set(p, CUBLASLT_MATMUL_DESC_TRANSB, k->ta ? &t : &n, sizeof n));
    DL_TRY(layout(&p->b, k->t, k->tb ? k->k : k->n, k->tb ? k->n : k->k, k->ldb, k->count, k->step_b));
    DL_TRY(layout(&p->a, k->t, k->ta ? k->m : k->k, k->ta ? k->k : k->m, k->lda, k->count, k->step_a));
    return layout(&p->out, k->t, k->n, k->m, k->n, k->count, k->step_out);
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
    DL_TRY(set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, &e, sizeof e));
    return set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
}

static cublasStatus_t start(const dl_gpu *g, const plan *p, const cublasLtMatmulAlgo_t *algo, const dl_gemm *q) {
    double one[2] = {1}, none[2] = {0}; /* of complex numbers the imaginary part follows */
    float one_f[2] = {1}, none_f[2] = {0};
    bool wide = is_wide(p->k.t);
    const void *alpha = wide ? (void *)one : (void *)one_f, *zero = wide ? (void *)none : (void *)none_f;
    return lt.cublasLtMatmul(handle[g->index], p->op, alpha, q->b.p, p->b, q->a.p, p->a, p->k.beta ? alpha : zero,
                             q->out, p->out, q->out, p->out, algo, workspace[g->index], WORKSPACE, g->stream);
}

/* One way to compute a product, to be measured. */
typedef struct trial {
    const dl_gpu *g;
    const plan *p;
    const cublasLtMatmulAlgo_t *algo;
    const dl_gemm *q;
} trial;

static dl_status run_trial(void *arg) {
    const trial *t = arg;
    return start(t->g, t->p, t->algo, t->q) == CUBLAS_STATUS_SUCCESS ? DL_OK : DL_ERR_DEVICE;
}

static int best_of(dl_gpu *g, const plan *p, const cublasLtMatmulHeuristicResult_t *r, int n, const dl_gemm *q) {
    int best = -1; /* none of them runs */
    float least = -1;
    for (int i = 0; i < n; i++) {
        trial t = {g, p, &r[i].algo, q};
        float ms = dl_plan_measure(g, run_trial, &t, least);
        if (ms >= 0 && (least < 0 || ms < least)) least = ms, best = i;
    }
    return best;
}

/* ---- choices that are stored: an algorithm is plain data, written in hexadecimal digits */

static void key_text(const key *k, char *text) {
    int n = snprintf(text, DL_PLAN_TEXT,
                     "gemm %d tf32=%d %ld %ld %ld ld %ld %ld count %ld %ld %ld %d%d%d%d align %d %d %d %d", k->t,
                     k->tf32, k->m, k->n, k->k, k->lda, k->ldb, k->count, k->step_a, k->step_b, k->ta, k->tb, k->bias,
                     k->beta, k->align_a, k->align_b, k->align_out, k->align_bias);
    if (k->step_out != k->m * k->n) snprintf(text + n, (size_t)(DL_PLAN_TEXT - n), " apart %ld", k->step_out);
}

static bool read_algo(const char *text, cublasLtMatmulAlgo_t *algo) {
    unsigned char *b = (unsigned char *)algo;
    if (strlen(text) != 2 * sizeof *algo) return false;
    for (size_t i = 0; i < sizeof *algo; i++)
        if (sscanf(text + 2 * i, "%2hhx", &b[i]) != 1) return false;
    return true;
}

static void write_algo(const cublasLtMatmulAlgo_t *algo, char *text) {
    for (size_t i = 0; i < sizeof *algo; i++) snprintf(text + 2 * i, 3, "%02x", ((const unsigned char *)algo)[i]);
}

static dl_status choose_anew(dl_gpu *g, plan *p, const dl_gemm *q, bool measured) {
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
    if (s != CUBLAS_STATUS_NOT_SUPPORTED) DL_TRY(check(s, "choosing an algorithm"));
    int best = n ? measured ? best_of(g, p, r, n, q) : 0 : -1;
    if (g->lost) return dl_gpu_check(g, g->lost, "choosing an algorithm");
    dl_error_clear(); /* of candidates that failed */
    if (best < 0) return dl_fail(DL_ERR_UNSUPPORTED, "cuBLASLt has no algorithm for this product");
    p->algo = r[best].algo;
    return DL_OK;
}

/* Does a stored algorithm run here, in the workspace there is? */
static bool fits(const dl_gpu *g, const plan *p) {
    cublasLtMatmulHeuristicResult_t r;
    return lt.cublasLtMatmulAlgoCheck(handle[g->index], p->op, p->b, p->a, p->out, p->out, &p->algo, &r) ==
               CUBLAS_STATUS_SUCCESS &&
           r.workspaceSize <= WORKSPACE;
}

static dl_status choose(dl_gpu *g, plan *p, const dl_gemm *q) {
    const key *k = &p->k;
    char text[DL_PLAN_TEXT], value[DL_PLAN_TEXT];
    bool worth = (double)k->m * (double)k->n * (double)k->k * (double)k->count >= MEASURED && !k->beta;
    if (!worth) return choose_anew(g, p, q, false);
    key_text(k, text);
    if (dl_plan_find(g, text, value) && read_algo(value, &p->algo) && fits(g, p)) return DL_OK;
    DL_TRY(dl_plan_may_measure(g, "a matrix product"));
    DL_TRY(choose_anew(g, p, q, true));
    write_algo(&p->algo, value);
    dl_plan_keep(g, text, value);
    return DL_OK;
}

/* The plan of a key, made when there is none; it replaces another where the 8 slots after its hash are taken. */
static dl_status find(dl_gpu *g, const key *k, const dl_gemm *q, plan **out) {
    unsigned long h = dl_hash(k, sizeof *k), at = h % SLOTS;
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

/* The batches from `from` on. */
static dl_status run_some(dl_gpu *g, const dl_gemm *whole, bool beta, long from) {
    dl_gemm p = *whole;
    long size = dl_dtype_size(p.t);
    p.count = whole->count - from < BATCHES ? whole->count - from : BATCHES;
    p.a.p = (char *)p.a.p + from * p.step_a * size, p.b.p = (char *)p.b.p + from * p.step_b * size;
    p.out = (char *)p.out + from * step_out(whole) * size;
    return run_locked(g, &p, beta);
}

dl_status dl_gemm_run(dl_gpu *g, const dl_gemm *p) {
    size_t bytes = (size_t)(p->m * p->n * p->count) * (size_t)dl_dtype_size(p->t);
    bool beta = p->accumulate;
    if (!bytes) return DL_OK;
    if (p->bias && (p->t == DL_F64 || !p->k)) { /* no epilogue there: rows start as the bias */
        long shape[2] = {p->m * p->count, p->n}, to[2] = {p->n, 1}, from[2] = {0, 1};
        DL_TRY(dl_cuda_copy_strided(g, 2, shape, p->out, p->t, to, p->bias, p->t, from));
        beta = true;
    }
    if (!p->k)
        return beta ? DL_OK : dl_gpu_check(g, cudaMemsetAsync(p->out, 0, bytes, g->stream), "a product of nothing");
    pthread_mutex_lock(&lock);
    dl_status s = DL_OK;
    for (long from = 0; from < p->count && s == DL_OK; from += BATCHES) s = run_some(g, p, beta, from);
    pthread_mutex_unlock(&lock);
    return s == DL_OK ? dl_gpu_launched(g) : s;
}
