/* Convolution as products of the weights with the matrix of image patches. Chellapilla, Puri, Simard: High performance
 * convolutional neural networks for document processing (2006). */
#include "cuda/conv/conv.h"
#include "cuda/runtime/cublaslt.h"

/* Most bytes of the matrix of patches that is built at a time. */
static const long AT_ONCE = 1L << 29;

/* Some images of the call, and the sizes of the products with their patches. */
typedef struct part {
    const dl_conv_job *job;
    dl_conv g; /* N: number of images in this part */
    bool last, plain;
    long og, k, p, m; /* result channels a group; columns a group; pixels of one result; pixels of all */
    char *image, *weight, *result;
    bool first; /* this is the first part */
} part;

/* 1x1 kernels with stride 1 and no padding: the images themselves are the matrix of patches. */
static bool plain(const dl_conv *g) {
    bool yes = g->groups == 1;
    for (int d = 0; d < 2; d++) yes = yes && g->k[d] == 1 && g->stride[d] == 1 && !g->pad[d];
    return yes;
}

static long columns(const dl_conv *g) { return g->C * g->k[0] * g->k[1] * g->out[0] * g->out[1]; }

long dl_conv_gemm_size(const dl_conv *g, dl_conv_kind kind, bool last) {
    return plain(g) && (last || kind != DL_CONV_DW) ? 0 : g->N * columns(g);
}

static size_t bytes(const part *p, long n) { return (size_t)n * (size_t)dl_dtype_size(p->job->t); }

/* Copies the tensor of results, channels first or last, to a matrix: [groups][pixels][result channels a group], or
 * [pixels][result channels] if `whole`. `out`: copies the matrix to the tensor instead. */
static dl_status copy_results(const part *p, void *matrix, bool whole, bool out) {
    long O = p->g.O, P = p->p, shape[4] = {p->g.N, p->g.groups, p->og, P};
    long mine[4] = {P * O, p->og, 1, O}, apart[4] = {P * p->og, p->m * p->og, 1, p->og};
    long first[4] = {O * P, p->og * P, P, 1};
    const long *there = p->last ? mine : first, *here = whole ? mine : apart;
    dl_dtype t = p->job->t;
    return out ? dl_cuda_copy_strided(p->job->gpu, 4, shape, p->result, t, there, matrix, t, here)
               : dl_cuda_copy_strided(p->job->gpu, 4, shape, matrix, t, here, p->result, t, there);
}

/* y = patches w' */
static dl_status forward(const part *p, void *cols) {
    dl_gpu *g = p->job->gpu;
    bool direct = p->last && p->g.groups == 1;
    dl_gemm q = {.t = p->job->t, .m = p->m, .n = p->og, .k = p->k, .count = p->g.groups};
    q.a = p->last ? (dl_mat){cols, p->k, 1} : (dl_mat){cols, 1, p->m};
    q.b = (dl_mat){p->weight, 1, p->k};
    q.step_a = p->k * p->m, q.step_b = p->og * p->k;
    void *y = direct ? p->result : dl_gpu_take(g, bytes(p, p->m * p->g.O));
    if (!y) return dl_failed();
    q.out = y;
    dl_status s = dl_gemm_run(g, &q);
    if (direct) return s;
    if (s == DL_OK) s = copy_results(p, y, false, true);
    dl_gpu_drop(g, y);
    return s;
}

/* cols = gradient of the patches = grad w */
static dl_status back_to_cols(const part *p, void *grad, void *cols) {
    dl_gemm q = {.t = p->job->t, .k = p->og, .out = cols, .count = p->g.groups};
    dl_mat w = {p->weight, p->k, 1}, gr = {grad, p->g.O, 1};
    long step_w = p->og * p->k;
    if (p->last)
        q.m = p->m, q.n = p->k, q.a = gr, q.b = w, q.step_a = p->og, q.step_b = step_w;
    else
        q.m = p->k, q.n = p->m, q.a = (dl_mat){w.p, 1, p->k}, q.b = (dl_mat){grad, 1, p->g.O}, q.step_a = step_w,
        q.step_b = p->og;
    return dl_gemm_run(p->job->gpu, &q);
}

/* dw (+)= grad' patches */
static dl_status weights(const part *p, void *grad, void *cols) {
    dl_gemm q = {.t = p->job->t, .m = p->og, .n = p->k, .k = p->m, .out = p->weight, .count = p->g.groups};
    q.a = (dl_mat){grad, 1, p->g.O};
    q.b = p->last ? (dl_mat){cols, p->k, 1} : (dl_mat){cols, 1, p->m};
    q.step_a = p->og, q.step_b = p->k * p->m, q.accumulate = !p->first;
    return dl_gemm_run(p->job->gpu, &q);
}

/* 1x1 kernels with channels first: one product for each image. */
static dl_status plain_first(const part *p) {
    bool dx = p->job->kind == DL_CONV_DX;
    long C = p->g.C, O = p->g.O, P = p->p;
    dl_gemm q = {.t = p->job->t, .n = P, .count = p->g.N, .m = dx ? C : O, .k = dx ? O : C};
    q.a = dx ? (dl_mat){p->weight, 1, C} : (dl_mat){p->weight, C, 1};
    q.b = (dl_mat){dx ? p->result : p->image, P, 1};
    q.step_b = q.k * P;
    q.out = dx ? p->image : p->result;
    return dl_gemm_run(p->job->gpu, &q);
}

static dl_status gradient(const part *p, void *cols) {
    dl_gpu *g = p->job->gpu;
    bool dx = p->job->kind == DL_CONV_DX;
    void *grad = p->last ? p->result : dl_gpu_take(g, bytes(p, p->m * p->g.O));
    if (!grad) return dl_failed();
    dl_status s = p->last ? DL_OK : copy_results(p, grad, true, false);
    if (s == DL_OK) s = dx ? back_to_cols(p, grad, cols) : weights(p, grad, cols);
    if (!p->last) dl_gpu_drop(g, grad);
    return s;
}

static dl_status run_part(const part *p) {
    dl_gpu *g = p->job->gpu;
    dl_conv_kind kind = p->job->kind;
    if (p->plain && !p->last && kind != DL_CONV_DW) return plain_first(p);
    bool made = !p->plain || !p->last;
    void *cols = made ? dl_gpu_take(g, bytes(p, p->g.N * columns(&p->g))) : p->image;
    dl_status s = cols ? DL_OK : dl_failed();
    if (s == DL_OK && made && kind != DL_CONV_DX) s = dl_cols_make(g, &p->g, p->job->t, p->image, cols, p->last);
    if (s == DL_OK) s = kind == DL_CONV_FORWARD ? forward(p, cols) : gradient(p, cols);
    if (s == DL_OK && made && kind == DL_CONV_DX) s = dl_cols_sum(g, &p->g, p->job->t, cols, p->image, p->last);
    if (made) dl_gpu_drop(g, cols);
    return s;
}

dl_status dl_conv_gemm(const dl_conv_job *job, bool last) {
    const dl_conv *g = &job->g;
    long each = columns(g), P = g->out[0] * g->out[1], image = g->C * g->in[0] * g->in[1];
    bool bare = plain(g);
    if (each >= 1L << 31 || image >= 1L << 31)
        return dl_fail_hint(DL_ERR_UNSUPPORTED, "cut the image into tiles",
                            "the patches of one image have %ld elements, more than a GPU convolution takes", each);
    long room = AT_ONCE / dl_dtype_size(job->t), most = bare ? g->N : room / each > 1 ? room / each : 1;
    for (long n = 0; n < g->N; n += most) {
        part p = {.job = job, .g = *g, .last = last, .plain = bare, .og = g->O / g->groups, .p = P, .first = !n};
        p.k = g->C / g->groups * g->k[0] * g->k[1];
        p.g.N = g->N - n < most ? g->N - n : most;
        p.m = p.g.N * P;
        p.image = (char *)dl_ptr(job->image) + bytes(&p, n * image);
        p.weight = dl_ptr(job->weight);
        p.result = (char *)dl_ptr(job->result) + bytes(&p, n * g->O * P);
        DL_TRY(run_part(&p));
    }
    return DL_OK;
}
