/* Kernels of conv2d, conv2d_dx and conv2d_dw, and their generic path: columns of image patches (im2col) and matrix
 * products. Chellapilla, Puri, Simard: High performance convolutional neural networks for document processing (2006).
 */
#include "cpu/conv/conv.h"
#include "cpu/runtime/gemm.h"
#include "cpu/runtime/iter.h"
#include "cpu/runtime/simd.h"
#include "cpu/runtime/team.h"
#include "ops/rules/conv.h"

#include <string.h>

/* One group of one image, and what a product with its matrix of patches needs. */
typedef struct patch {
    const dl_conv *g;
    long cg, og, k, pq; /* channels and outputs a group, rows and columns of the matrix of patches */
    long sc, sh, sw;    /* strides of the image */
    bool plain;         /* 1x1 windows over evenly spaced pixels: the image is its own matrix of patches */
    dl_dtype t;
    long esize;
    dl_stop *stop; /* between rows of patches */
} patch;

/* Outputs along direction d whose input at tap k lies inside the image: [*lo, *hi). */
static void valid_range(const dl_conv *g, int d, long k, long *lo, long *hi) {
    long off = k * g->dil[d] - g->pad[d], s = g->stride[d];
    *lo = off >= 0 ? 0 : (-off + s - 1) / s;
    *hi = g->in[d] - off <= 0 ? 0 : (g->in[d] - off + s - 1) / s;
    if (*hi > g->out[d]) *hi = g->out[d];
    if (*lo > *hi) *lo = *hi;
}

#define PATCHES(T, S)                                                                                                  \
    /* col[c,i,j][y,x] = image[c, y*s+i*d-p, x*s+j*d-p], 0 outside */                                                  \
    static void im2col_##S(const patch *p, const void *image, void *col) {                                             \
        const dl_conv *g = p->g;                                                                                       \
        for (long r = 0; r < p->k && !dl_stop_asked(p->stop); r++) {                                                   \
            long j = r % g->k[1], i = r / g->k[1] % g->k[0], c = r / (g->k[0] * g->k[1]);                              \
            long y0, y1, x0, x1, step = g->stride[1] * p->sw;                                                          \
            valid_range(g, 0, i, &y0, &y1);                                                                            \
            valid_range(g, 1, j, &x0, &x1);                                                                            \
            T *row = (T *)col + r * p->pq;                                                                             \
            for (long y = 0; y < g->out[0]; y++, row += g->out[1]) {                                                   \
                if (y < y0 || y >= y1) {                                                                               \
                    memset(row, 0, (size_t)g->out[1] * sizeof *row);                                                   \
                    continue;                                                                                          \
                }                                                                                                      \
                const T *src = (const T *)image + c * p->sc + (y * g->stride[0] + i * g->dil[0] - g->pad[0]) * p->sh + \
                               (j * g->dil[1] - g->pad[1]) * p->sw;                                                    \
                for (long x = 0; x < x0; x++) row[x] = 0;                                                              \
                for (long x = x0; x < x1; x++) row[x] = src[x * step];                                                 \
                for (long x = x1; x < g->out[1]; x++) row[x] = 0;                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* the transpose of im2col: adds columns to the image */                                                           \
    static void col2im_##S(const patch *p, const void *col, void *image) {                                             \
        const dl_conv *g = p->g;                                                                                       \
        for (long r = 0; r < p->k && !dl_stop_asked(p->stop); r++) {                                                   \
            long j = r % g->k[1], i = r / g->k[1] % g->k[0], c = r / (g->k[0] * g->k[1]);                              \
            long y0, y1, x0, x1, step = g->stride[1] * p->sw;                                                          \
            valid_range(g, 0, i, &y0, &y1);                                                                            \
            valid_range(g, 1, j, &x0, &x1);                                                                            \
            for (long y = y0; y < y1; y++) {                                                                           \
                const T *row = (const T *)col + r * p->pq + y * g->out[1];                                             \
                T *dst = (T *)image + c * p->sc + (y * g->stride[0] + i * g->dil[0] - g->pad[0]) * p->sh +             \
                         (j * g->dil[1] - g->pad[1]) * p->sw;                                                          \
                for (long x = x0; x < x1; x++) dst[x * step] += row[x];                                                \
            }                                                                                                          \
        }                                                                                                              \
    }
PATCHES(float, f32)
PATCHES(double, f64)

/* Are the pixels evenly spaced, so that rows and columns are one dimension? */
static bool even(const long shape[2], const dl_tensor *t) {
    return shape[0] == 1 || shape[1] == 1 || t->stride[2] == shape[1] * t->stride[3];
}

static long pixel_stride(const dl_tensor *t) { return t->shape[3] > 1 ? t->stride[3] : t->stride[2]; }

static patch patch_of(const dl_conv *g, const dl_tensor *image, dl_stop *stop) {
    patch p = {.g = g,
               .stop = stop,
               .cg = g->C / g->groups,
               .og = g->O / g->groups,
               .pq = g->out[0] * g->out[1],
               .sc = image->stride[1],
               .sh = image->stride[2],
               .sw = image->stride[3],
               .t = image->dtype,
               .esize = (long)dl_esize(image)};
    p.k = p.cg * g->k[0] * g->k[1];
    p.plain = even(g->in, image);
    for (int d = 0; d < 2; d++) p.plain = p.plain && g->k[d] == 1 && g->stride[d] == 1 && !g->pad[d];
    return p;
}

static char *at(const dl_tensor *t, long n, long channel) {
    return (char *)dl_ptr(t) + (n * t->stride[0] + channel * t->stride[1]) * (long)dl_esize(t);
}

/* The matrix [outputs of the group, pixels] of image n of a result or its gradient; pixels evenly spaced. */
static dl_mat result_matrix(const dl_tensor *t, long n, long channel) {
    return (dl_mat){at(t, n, channel), t->stride[1], pixel_stride(t)};
}

static dl_mat weight_matrix(const patch *p, const dl_tensor *w, long group) {
    return (dl_mat){(char *)dl_ptr(w) + group * p->og * p->k * p->esize, p->k, 1};
}

/* The matrix of patches, made in `col` unless the image is one itself. */
static dl_mat columns(const patch *p, const dl_tensor *x, long n, long group, void *col) {
    char *image = at(x, n, group * p->cg);
    if (p->plain) return (dl_mat){image, p->sc, pixel_stride(x)};
    (p->t == DL_F32 ? im2col_f32 : im2col_f64)(p, image, col);
    return (dl_mat){col, p->pq, 1};
}

static size_t column_bytes(const patch *p) { return p->plain ? 0 : (size_t)(p->k * p->pq * p->esize); }

static dl_status forward_one(const patch *p, const dl_call *c, long n, long group, void *col) {
    dl_mat y = result_matrix(c->out[0], n, group * p->og), w = weight_matrix(p, c->in[1], group);
    return dl_cpu_gemm(p->t, p->og, p->pq, p->k, w, columns(p, c->in[0], n, group, col), y,
                       INPUT(c, CONV2D_BIAS) != NULL);
}

static dl_status dx_one(const patch *p, const dl_call *c, long n, long group, void *col) {
    dl_mat gr = result_matrix(c->in[0], n, group * p->og), w = weight_matrix(p, c->in[1], group);
    char *image = at(c->out[0], n, group * p->cg);
    if (p->plain)
        return dl_cpu_gemm(p->t, p->k, p->pq, p->og, dl_mat_transposed(w), gr,
                           (dl_mat){image, p->sc, pixel_stride(c->out[0])}, false);
    DL_TRY(dl_cpu_gemm(p->t, p->k, p->pq, p->og, dl_mat_transposed(w), gr, (dl_mat){col, p->pq, 1}, false));
    (p->t == DL_F32 ? col2im_f32 : col2im_f64)(p, col, image);
    return DL_OK;
}

typedef dl_status (*one_fn)(const patch *, const dl_call *, long n, long group, void *col);

typedef struct images {
    const patch *p;
    const dl_call *c;
    one_fn one;
    dl_first_error failed;
} images;

static void run_image(void *arg, long i) {
    images *j = (images *)arg;
    long groups = j->p->g->groups;
    size_t bytes = column_bytes(j->p);
    void *col = bytes ? dl_host_alloc(bytes) : NULL;
    bool ready = col || !bytes;
    if (!ready || j->one(j->p, j->c, i / groups, i % groups, col) != DL_OK) dl_first_error_keep(&j->failed);
    if (col) dl_host_free(col, bytes);
}

/* A task is one group of one image. */
static dl_status each_image(const patch *p, const dl_call *c, one_fn one) {
    long count = p->g->N * p->g->groups;
    double macs = (double)count * (double)p->og * (double)p->k * (double)p->pq;
    images j = {p, c, one, {0}};
    dl_cpu_for(count, dl_cpu_threads_product(macs), run_image, &j);
    return dl_first_error_raise(&j.failed);
}

/* dw = sum over images, in order: gradient [O,PQ] @ patches.T [PQ,K]. Threads work inside the product. */
static dl_status dw_all(const patch *p, const dl_call *c) {
    const dl_conv *g = p->g;
    size_t bytes = column_bytes(p);
    void *col = bytes ? dl_host_alloc(bytes) : NULL;
    if (bytes && !col) return dl_failed();
    dl_status s = DL_OK;
    for (long group = 0; group < g->groups && s == DL_OK; group++)
        for (long n = 0; n < g->N && s == DL_OK; n++)
            s = dl_cpu_gemm(p->t, p->og, p->k, p->pq, result_matrix(c->in[0], n, group * p->og),
                            dl_mat_transposed(columns(p, c->in[1], n, group, col)), weight_matrix(p, c->out[0], group),
                            n > 0);
    if (col) dl_host_free(col, bytes);
    return s;
}

static void clear(dl_tensor *t) { dl_cpu_clear(dl_ptr(t), (size_t)t->numel * dl_esize(t)); }

static void fill_bias(dl_tensor *y, const dl_tensor *bias) {
    dl_cpu_copy_strided(4, y->shape, dl_ptr(y), y->dtype, y->stride, dl_ptr(bias), bias->dtype,
                        (long[]){0, bias->stride[0], 0, 0});
}

static dl_status run_generic(dl_call *c, const dl_conv *g, dl_stop *stop) {
    if (c->op->id == dl_id_conv2d) {
        patch p = patch_of(g, c->in[0], stop);
        if (INPUT(c, CONV2D_BIAS)) fill_bias(c->out[0], INPUT(c, CONV2D_BIAS));
        return each_image(&p, c, forward_one);
    }
    if (c->op->id == dl_id_conv2d_dx) {
        patch p = patch_of(g, c->out[0], stop);
        if (!p.plain) clear(c->out[0]);
        return each_image(&p, c, dx_one);
    }
    patch p = patch_of(g, c->in[1], stop);
    if (!g->N) clear(c->out[0]);
    return dw_all(&p, c);
}

/* Any call of f32 or f64. The weights must be contiguous, the pixels of a result's gradient evenly spaced. */
static dl_status generic(const dl_call *call, const dl_conv *g) {
    dl_call c = *call;
    dl_tensor *in[3] = {call->in[0], call->in[1], INPUT(call, CONV2D_BIAS)}, *own[2];
    bool dw = c.op->id == dl_id_conv2d_dw, forward = c.op->id == dl_id_conv2d;
    bool as_it_is[2] = {forward || even(g->out, in[0]), dw}; /* else contiguous */
    for (int i = 0; i < 2; i++) own[i] = as_it_is[i] ? dl_ref(in[i]) : dl_cpu_contiguous(in[i]);
    in[0] = own[0], in[1] = own[1], c.in = in;
    dl_stop stop = dl_stop_begin();
    dl_status s = own[0] && own[1] ? run_generic(&c, g, &stop) : dl_failed();
    dl_stop_end(&stop);
    dl_unref(own[0]);
    dl_unref(own[1]);
    return s;
}

static dl_status conv_float(dl_call *c) {
    dl_conv g;
    DL_TRY(dl_conv_of(c, &g));
    if (!c->out[0]->numel) return DL_OK;
    bool done;
    dl_conv_nd of = dl_conv_of_images(&g);
    DL_TRY(dl_conv_dnnl(c, &of, &done));
    if (done) return DL_OK;
    return DL_BIT(c->dtype) & DL_HALVES ? dl_cpu_via_f32(c, conv_float, false) : generic(c, &g);
}

const dl_kernel dl_cpu_conv2d = {.run = conv_float, .dtypes = DL_FLOATS};
const dl_kernel dl_cpu_conv2d_dx = {.run = conv_float, .dtypes = DL_FLOATS};
const dl_kernel dl_cpu_conv2d_dw = {.run = conv_float, .dtypes = DL_FLOATS};
