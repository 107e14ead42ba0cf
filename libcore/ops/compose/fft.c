/* Fourier transforms with PyTorch's arguments, made of transforms along dimensions as they are. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/complex.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/fft.h"
#include "dlcore/index.h"
#include "dlcore/view.h"
#include "ops/rules/fft.h"

#include <math.h>
#include <string.h>

/* ---- arguments */

/* What results are multiplied with, of transforms of `count` elements. */
static dl_status scale_of(const char *norm, bool inverse, double count, double *out) {
    const bool none = !*norm || !strcmp(norm, "backward"), whole = !strcmp(norm, "forward");
    if (!none && !whole && strcmp(norm, "ortho") != 0)
        return dl_fail(DL_ERR_VALUE, "norm is backward, ortho or forward, not '%s'", norm);
    *out = !none && !whole ? 1 / sqrt(count) : inverse == none ? 1 / count : 1;
    return DL_OK;
}

/* The dimensions of a transform and their sizes, -1: as they are. */
typedef struct shape {
    int n;
    long dim[DL_MAX_DIM], size[DL_MAX_DIM];
} shape;

static dl_status check_size(long n) {
    return n > 0 ? DL_OK : dl_fail(DL_ERR_VALUE, "a transform is of 1 element or more, not of %ld", n);
}

static dl_status one_dim(const dl_call *c, shape *s) {
    const dl_aval *n = ATTR(c, FFT_ONE_N);
    int d;
    if (!c->in[0]->ndim) return dl_fail(DL_ERR_SHAPE, "a tensor without dimensions has no transform");
    DL_TRY(dl_dim_norm(ATTR_I(c, FFT_ONE_DIM), c->in[0]->ndim, &d));
    if (n->given) DL_TRY(check_size(n->u.i));
    *s = (shape){1, {d}, {n->given ? n->u.i : -1}};
    return DL_OK;
}

/* Without dimensions those of the sizes, from the last one; without either all. */
static dl_status many_dims(const dl_call *c, shape *s) {
    const dl_aval *sizes = ATTR(c, FFT_MANY_S), *dims = ATTR(c, FFT_MANY_DIM);
    const int nd = c->in[0]->ndim;
    unsigned seen = 0;
    s->n = dims->given ? dims->n : sizes->given ? sizes->n : nd;
    if (sizes->given && sizes->n != s->n)
        return dl_fail(DL_ERR_VALUE, "%d sizes are given for %d dimensions", sizes->n, s->n);
    if (s->n > nd) return dl_fail(DL_ERR_SHAPE, "%d dimensions of a tensor of %d", s->n, nd);
    for (int i = 0; i < s->n; i++) {
        int d;
        DL_TRY(dl_dim_norm(dims->given ? dims->u.v[i] : nd - s->n + i, nd, &d));
        if (seen >> d & 1) return dl_fail(DL_ERR_VALUE, "dimension %d is named twice", d);
        seen |= 1u << d;
        s->dim[i] = d, s->size[i] = sizes->given ? sizes->u.v[i] : -1;
        if (s->size[i] != -1) DL_TRY(check_size(s->size[i]));
    }
    return DL_OK;
}

/* x with n elements along a dimension: cut, or with zeros behind. */
static dl_tensor *resized(dl_pool *p, dl_tensor *x, int d, long n) {
    if (!x || n == -1 || x->shape[d] == n) return x;
    if (x->shape[d] > n) return K(dl_slice(x, d, NULL, &n, 1));
    long size[DL_MAX_DIM];
    memcpy(size, x->shape, sizeof size);
    size[d] = n - x->shape[d];
    dl_tensor *both[2] = {x, K(dl_zeros(size, x->ndim, x->dtype, x->st->device))};
    return both[1] ? K(dl_cat(both, 2, d)) : NULL;
}

/* 16-bit numbers become f32. */
static dl_tensor *wide_enough(dl_pool *p, dl_tensor *x) {
    return DL_BIT(x->dtype) & DL_HALVES ? K(dl_to(x, DL_F32)) : x;
}

static dl_status check_lengths(const dl_tensor *x, const shape *s) {
    for (int i = 0; i < s->n; i++) DL_TRY(check_size(x->shape[s->dim[i]]));
    return DL_OK;
}

static double count_of(const dl_tensor *x, const shape *s) {
    double n = 1;
    for (int i = 0; i < s->n; i++) n *= (double)x->shape[s->dim[i]];
    return n;
}

/* ---- complex to complex */

static dl_status complex_transform(dl_call *c, const shape *s, const char *norm, bool inverse) {
    POOL;
    dl_tensor *x = wide_enough(p, c->in[0]);
    double scale;
    for (int i = 0; i < s->n; i++) x = resized(p, x, (int)s->dim[i], s->size[i]);
    if (!x) return dl_failed();
    DL_TRY(check_lengths(x, s));
    DL_TRY(scale_of(norm, inverse, count_of(x, s), &scale));
    x = K(dl_to_dtype(x, dl_dtype_to_complex(x->dtype)));
    if (!x) return dl_failed();
    return dl_finish(c, s->n ? dl_fft_complex(x, s->dim, s->n, inverse, scale) : dl_clone(x));
}

/* ---- real to complex: the last dimension named has half of the frequencies */

static dl_status from_real(dl_call *c, const shape *s, const char *norm, bool inverse) {
    POOL;
    dl_tensor *x = wide_enough(p, c->in[0]);
    double scale;
    if (!s->n) return dl_fail(DL_ERR_SHAPE, "a transform of real numbers has one dimension or more");
    for (int i = 0; i < s->n; i++) x = resized(p, x, (int)s->dim[i], s->size[i]);
    if (!x) return dl_failed();
    DL_TRY(check_lengths(x, s));
    DL_TRY(scale_of(norm, inverse, count_of(x, s), &scale));
    dl_tensor *y = dl_fft_from_real(x, s->dim, s->n, inverse ? 1 : scale);
    return dl_finish(c, y && inverse ? dl_conj_scaled(K(y), scale) : y);
}

/* ---- complex to real. `hermitian`: to frequencies, of numbers whose second half is the conjugate of the first */

static dl_status to_real(dl_call *c, const shape *s, const char *norm, bool hermitian) {
    POOL;
    dl_tensor *x = wide_enough(p, c->in[0]);
    double scale, count = 1;
    if (!s->n) return dl_fail(DL_ERR_SHAPE, "a transform to real numbers has one dimension or more");
    const int last = (int)s->dim[s->n - 1];
    const long n = s->size[s->n - 1] == -1 ? 2 * (x->shape[last] - 1) : s->size[s->n - 1];
    DL_TRY(check_size(n));
    for (int i = 0; i < s->n; i++) {
        x = resized(p, x, (int)s->dim[i], i == s->n - 1 ? n / 2 + 1 : s->size[i]);
        if (!x) return dl_failed();
        count *= i == s->n - 1 ? (double)n : (double)x->shape[s->dim[i]];
    }
    DL_TRY(check_lengths(x, s));
    DL_TRY(scale_of(norm, !hermitian, count, &scale));
    x = K(dl_to_dtype(x, dl_dtype_to_complex(x->dtype)));
    if (x && hermitian) x = K(dl_conj(x));
    return dl_finish(c, x ? dl_fft_to_real(x, s->dim, s->n, n, scale) : NULL);
}

/* ---- rows */

#define ONE(name, call)                                                                                                \
    COMPOSE_RULE(name) {                                                                                               \
        shape s;                                                                                                       \
        const char *norm = ATTR_S(c, FFT_ONE_NORM);                                                                    \
        DL_TRY(one_dim(c, &s));                                                                                        \
        return call;                                                                                                   \
    }
#define MANY(name, call)                                                                                               \
    COMPOSE_RULE(name) {                                                                                               \
        shape s = {0};                                                                                                 \
        const char *norm = ATTR_S(c, FFT_MANY_NORM);                                                                   \
        DL_TRY(many_dims(c, &s));                                                                                      \
        return call;                                                                                                   \
    }
ONE(fft, complex_transform(c, &s, norm, false))
ONE(ifft, complex_transform(c, &s, norm, true))
ONE(rfft, from_real(c, &s, norm, false))
ONE(irfft, to_real(c, &s, norm, false))
ONE(hfft, to_real(c, &s, norm, true))
ONE(ihfft, from_real(c, &s, norm, true))
MANY(fft2, complex_transform(c, &s, norm, false))
MANY(ifft2, complex_transform(c, &s, norm, true))
MANY(rfft2, from_real(c, &s, norm, false))
MANY(irfft2, to_real(c, &s, norm, false))
MANY(hfft2, to_real(c, &s, norm, true))
MANY(ihfft2, from_real(c, &s, norm, true))
MANY(hfftn, to_real(c, &s, norm, true))
MANY(ihfftn, from_real(c, &s, norm, true))
MANY(fftn, complex_transform(c, &s, norm, false))
MANY(ifftn, complex_transform(c, &s, norm, true))
MANY(rfftn, from_real(c, &s, norm, false))
MANY(irfftn, to_real(c, &s, norm, false))

/* ---- frequencies */

static dl_status frequencies(dl_call *c, bool half) {
    POOL;
    const long n = ATTR_I(c, FREQUENCIES_N);
    const long below = half ? 0 : n / 2; /* frequencies below 0, which stand behind the others */
    const double up = (double)(half ? n / 2 + 1 : n - below), step = (double)n * ATTR_F(c, FREQUENCIES_D);
    DL_TRY(check_size(n));
    if (step == 0) return dl_fail(DL_ERR_VALUE, "the distance d of two samples is not 0");
    dl_tensor *rising = K(dl_arange(-(double)below, &up, 1, c->dtype, c->device));
    dl_tensor *whole = rising && below ? K(dl_roll(rising, (long[]){-below}, 1, (long[]){0}, 1)) : rising;
    return dl_finish(c, whole ? dl_mul(whole, N(1 / step)) : NULL);
}
COMPOSE_RULE(fftfreq) { return frequencies(c, false); }
COMPOSE_RULE(rfftfreq) { return frequencies(c, true); }

static dl_status shifted(dl_call *c, bool back) {
    dl_tensor *x = c->in[0];
    const dl_aval *dims = ATTR(c, FFT_SHIFT_DIM);
    long dim[DL_MAX_DIM], by[DL_MAX_DIM];
    const int n = dims->given ? dims->n : x->ndim;
    if (!n) return dl_finish(c, dl_clone(x));
    for (int i = 0; i < n; i++) {
        int d;
        DL_TRY(dl_dim_norm(dims->given ? dims->u.v[i] : i, x->ndim, &d));
        dim[i] = d;
        by[i] = back ? -(x->shape[d] / 2) : x->shape[d] / 2;
    }
    return dl_finish(c, dl_roll(x, by, n, dim, n));
}
COMPOSE_RULE(fftshift) { return shifted(c, false); }
COMPOSE_RULE(ifftshift) { return shifted(c, true); }
