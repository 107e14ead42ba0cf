/* Kernels of Fourier transforms, by cuFFT: neighbouring dimensions at once. */
#include "cuda/kernels/fft.h"
#include "cuda/runtime/cufft.h"
#include "ops/names/fft.h"

#include <string.h>

enum { FEW_GROUPS = 4 };
_Static_assert(DL_FFT_OTHERS == DL_FFT_RANK - 1, "dimensions of a transform");

/* Neighbouring dimensions that are transformed together: `rank` of them from d on. */
typedef struct span {
    int d, rank;
} span;

/* Transforms along a span: `outer` groups of `inner` ones, whose elements lie `inner` apart. */
typedef struct lines {
    long outer, inner;
} lines;

static lines along(const dl_tensor *t, span s) {
    lines l = {1, 1};
    for (int i = 0; i < s.d; i++) l.outer *= t->shape[i];
    for (int i = s.d + s.rank; i < t->ndim; i++) l.inner *= t->shape[i];
    return l;
}

static cudaDataType type_of(int dtype) {
    return dtype == DL_F32 ? CUDA_R_32F : dtype == DL_F64 ? CUDA_R_64F : dtype == DL_C64 ? CUDA_C_32F : CUDA_C_64F;
}

/* One call of cuFFT, which wants real numbers, too, to begin where a complex one could: others go through memory of
 * their own. `align`: bytes of a complex number; in_size, out_size: bytes of all transforms of the call. */
static dl_status execute(dl_gpu *g, const dl_fft_use *u, char *from, size_t in_size, char *to, size_t out_size,
                         size_t align, bool inverse) {
    char *in = (size_t)from % align ? dl_gpu_take(g, in_size) : from;
    char *out = (size_t)to % align ? dl_gpu_take(g, out_size) : to;
    dl_status st = in && out ? DL_OK : dl_failed();
    if (st == DL_OK && in != from)
        st = dl_gpu_check(g, cudaMemcpyAsync(in, from, in_size, cudaMemcpyDeviceToDevice, g->stream), "a transform");
    if (st == DL_OK)
        st = dl_fft_check(u->f->cufftXtExec(u->plan, in, out, inverse ? CUFFT_INVERSE : CUFFT_FORWARD), "a transform");
    if (st == DL_OK && out != to)
        st = dl_gpu_check(g, cudaMemcpyAsync(to, out, out_size, cudaMemcpyDeviceToDevice, g->stream), "a transform");
    if (in && in != from) dl_gpu_drop(g, in);
    if (out && out != to) dl_gpu_drop(g, out);
    return st;
}

/* From x to y, whose lines lie alike. A transform has as many elements as its real side, if there is one. */
static dl_status transform_lines(dl_gpu *g, const dl_tensor *x, dl_tensor *y, span d, lines l, bool inverse) {
    const bool side = l.inner == 1; /* transforms lie one after another: all at once */
    const dl_dtype part = dl_dtype_of_parts(x->dtype);
    const dl_tensor *counted = y->dtype == (int)part ? y : x;
    long each_in = 1, each_out = 1;
    for (int i = d.d; i < d.d + d.rank; i++) each_in *= x->shape[i], each_out *= y->shape[i];
    dl_fft_shape s = {.device = g->index,
                      .rank = d.rank,
                      .from = type_of(x->dtype),
                      .to = type_of(y->dtype),
                      .in = type_of(part),
                      .step = l.inner,
                      .batch = side ? l.outer : l.inner,
                      .next_in = side ? each_in : 1,
                      .next_out = side ? each_out : 1};
    for (int i = 0; i < d.rank; i++) s.n[i] = counted->shape[d.d + i];
    dl_fft_use u;
    DL_TRY(dl_fft_begin(g, &s, &u));
    dl_status st = DL_OK;
    const size_t from = (size_t)(each_in * l.inner) * dl_esize(x), to = (size_t)(each_out * l.inner) * dl_esize(y),
                 groups = side ? (size_t)l.outer : 1;
    for (long i = 0; i < (side ? 1 : l.outer) && st == DL_OK; i++)
        st = execute(g, &u, (char *)dl_ptr(x) + (size_t)i * from, groups * from, (char *)dl_ptr(y) + (size_t)i * to,
                     groups * to, 2 * (size_t)dl_dtype_size(part), inverse);
    dl_fft_end(&u);
    return st;
}

/* A tensor like t whose elements along the span lie side by side. */
static dl_tensor *moved(const dl_tensor *t, span d) {
    dl_tensor *m = dl_tensor_empty(t->ndim, t->shape, t->dtype, t->st->device);
    long step = 1;
    for (int i = d.d + d.rank - 1; m && i >= d.d; i--) m->stride[i] = step, step *= t->shape[i];
    for (int i = t->ndim - 1; m && i >= 0; i--)
        if (i < d.d || i >= d.d + d.rank) m->stride[i] = step, step *= t->shape[i];
    return m;
}

/* From one contiguous tensor to another. Two copies take less time than a launch for each of many groups, and than
 * transforms along several dimensions whose elements lie apart. */
static dl_status transform(dl_gpu *g, const dl_tensor *x, dl_tensor *y, span d, bool inverse) {
    lines l = along(x, d);
    if (l.inner == 1 || (l.outer <= FEW_GROUPS && d.rank == 1)) return transform_lines(g, x, y, d, l, inverse);
    dl_tensor *from = moved(x, d), *to = from && x->dtype == y->dtype ? dl_ref(from) : from ? moved(y, d) : NULL;
    l = (lines){l.outer * l.inner, 1};
    dl_status st = to ? dl_cuda_copy(g, from, x) : dl_failed();
    if (st == DL_OK) st = transform_lines(g, from, to, d, l, inverse);
    if (st == DL_OK) st = dl_cuda_copy(g, y, to);
    dl_unref(from), dl_unref(to);
    return st;
}

/* Sets named[d] for each of the dimensions. */
static dl_status name_dims(const long *dim, int n, int ndim, bool named[DL_MAX_DIM + 1]) {
    for (int i = 0, d; i < n; i++) {
        DL_TRY(dl_dim_norm(dim[i], ndim, &d));
        named[d] = true;
    }
    return DL_OK;
}

/* Complex numbers along the named dimensions, from x, which may be `out`. */
static dl_status transform_named(dl_gpu *g, const dl_tensor *x, dl_tensor *out, const bool named[DL_MAX_DIM + 1],
                                 bool inverse) {
    const dl_tensor *from = x;
    for (int d = 0; d < x->ndim; d++) {
        span t = {d, 0};
        while (named[d + t.rank]) t.rank++;
        if (!t.rank) continue;
        if (t.rank > DL_FFT_RANK)
            t.rank = (t.rank - 1) % DL_FFT_RANK + 1; /* the last ones, side by side, are the more */
        DL_TRY(transform(g, from, out, t, inverse));
        from = out, d += t.rank - 1;
    }
    return DL_OK;
}

static dl_status run_fft_complex(dl_call *c) {
    const dl_aval *dim = ATTR(c, FFT_COMPLEX_DIM);
    DL_USE_GPU(g, c->device);
    dl_tensor *out = c->out[0], *x = out->numel ? dl_cuda_contiguous(g, c->in[0]) : NULL;
    if (!x) return out->numel ? dl_failed() : DL_OK;
    bool named[DL_MAX_DIM + 1] = {false};
    dl_status s = name_dims(dim->u.v, dim->n, x->ndim, named);
    if (s == DL_OK) s = transform_named(g, x, out, named, ATTR_I(c, FFT_COMPLEX_INVERSE) != 0);
    dl_unref(x);
    return s == DL_OK ? dl_fft_scale(g, out, ATTR_F(c, FFT_COMPLEX_SCALE)) : s;
}
const dl_kernel dl_cuda_fft_complex = {.run = run_fft_complex, .dtypes = DL_COMPLEX};

/* The last of the dimensions, which has half of the frequencies, with those before it that are transformed at once;
 * named[d] for each of the others. */
static dl_status half_span(const dl_aval *dim, int ndim, bool named[DL_MAX_DIM + 1], span *half) {
    int d;
    DL_TRY(name_dims(dim->u.v, dim->n - 1, ndim, named));
    DL_TRY(dl_dim_norm(dim->u.v[dim->n - 1], ndim, &d));
    *half = (span){d, 1};
    while (d == ndim - 1 && half->d && named[half->d - 1] && half->rank < DL_FFT_RANK)
        named[--half->d] = false, half->rank++;
    return DL_OK;
}

static dl_status run_fft_from_real(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *out = c->out[0], *x = out->numel ? dl_cuda_contiguous(g, c->in[0]) : NULL;
    if (!x) return out->numel ? dl_failed() : DL_OK;
    bool named[DL_MAX_DIM + 1] = {false};
    span half;
    dl_status s = half_span(ATTR(c, FFT_FROM_REAL_DIM), x->ndim, named, &half);
    if (s == DL_OK) s = transform(g, x, out, half, false);
    if (s == DL_OK) s = transform_named(g, out, out, named, false);
    dl_unref(x);
    return s == DL_OK ? dl_fft_scale(g, out, ATTR_F(c, FFT_FROM_REAL_SCALE)) : s;
}
const dl_kernel dl_cuda_fft_from_real = {.run = run_fft_from_real, .dtypes = DL_BIT(DL_F32) | DL_BIT(DL_F64)};

/* A copy of x for cuFFT, which reads what has no meaning in the half of the frequencies and writes to its input. */
static dl_status run_fft_to_real(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *out = c->out[0], *x = out->numel ? dl_cuda_contiguous(g, c->in[0]) : NULL;
    if (!x) return out->numel ? dl_failed() : DL_OK;
    bool named[DL_MAX_DIM + 1] = {false};
    span half;
    dl_tensor *from = x, *copy = dl_tensor_empty(x->ndim, x->shape, x->dtype, x->st->device);
    dl_status s = copy ? half_span(ATTR(c, FFT_TO_REAL_DIM), x->ndim, named, &half) : dl_failed();
    if (s == DL_OK && memchr(named, true, sizeof named)) {
        from = dl_tensor_empty(x->ndim, x->shape, x->dtype, x->st->device);
        s = from ? transform_named(g, x, from, named, true) : dl_failed();
    }
    if (s == DL_OK)
        s = dl_fft_half(g, copy, from, half.d, half.rank, ATTR_I(c, FFT_TO_REAL_N), ATTR_F(c, FFT_TO_REAL_SCALE));
    if (s == DL_OK) s = transform(g, copy, out, half, true);
    if (from != x) dl_unref(from);
    dl_unref(copy), dl_unref(x);
    return s;
}
const dl_kernel dl_cuda_fft_to_real = {.run = run_fft_to_real, .dtypes = DL_COMPLEX};
