/* Short-time Fourier transforms: spectra of windows of a signal, and back. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/complex.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/fft.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "ops/rules/fft.h"

#include <math.h>

enum { FEW_HOPS = 8 };

/* What both directions have in common. */
typedef struct frames {
    long n, hop;
    bool one_sided;
} frames;

static dl_status read_frames(long n, const dl_aval *hop, frames *f) {
    f->n = n, f->hop = hop->given ? hop->u.i : n / 4;
    if (n < 1) return dl_fail(DL_ERR_VALUE, "n_fft must be at least 1, not %ld", n);
    if (f->hop < 1) return dl_fail(DL_ERR_VALUE, "hop_length must be at least 1, not %ld", f->hop);
    return DL_OK;
}

/* The window of n numbers, that of c with zeros on both sides. */
static dl_tensor *window_of(dl_call *c, dl_pool *p, const dl_aval *length, long n, dl_dtype t) {
    dl_tensor *w = c->nin > 1 ? c->in[1] : NULL;
    const long wide = length->given ? length->u.i : n, left = (n - wide) / 2;
    if (wide < 1 || wide > n)
        return dl_fail(DL_ERR_VALUE, "win_length must be 1 to n_fft, %ld, not %ld", n, wide), NULL;
    if (w && (w->ndim != 1 || w->shape[0] != wide))
        return dl_fail(DL_ERR_SHAPE, "the window must have shape [%ld], not %s", wide, dl_shape_of(w)), NULL;
    w = w ? K(dl_to_dtype(w, t)) : K(dl_ones(&wide, 1, t, c->device));
    if (!w || wide == n) return w;
    return K(dl_pad(w, (long[]){left, n - wide - left}, 2, 0, "constant"));
}

/* The place of each element of `count` frames, [count n] of i64. */
static dl_tensor *places(dl_pool *p, const frames *f, long count, int device) {
    const double wide = (double)f->n, many = (double)count;
    const long flat = -1;
    dl_tensor *start = K(dl_mul(K(dl_arange(0, &many, 1, DL_I64, device)), K(dl_scalar_i(f->hop))));
    dl_tensor *column = start ? K(dl_reshape(start, (long[]){count, 1}, 2)) : NULL;
    dl_tensor *all = column ? K(dl_add(column, K(dl_arange(0, &wide, 1, DL_I64, device)))) : NULL;
    return all ? K(dl_reshape(all, &flat, 1)) : NULL;
}

static bool complex_dtype(const dl_tensor *t) { return dl_dtype_kind(t->dtype) == 3; }

/* The signal [N, L], padded by half a window on both sides. */
static dl_tensor *centred(dl_pool *p, dl_tensor *x, long by, const char *mode) {
    dl_tensor *three = K(dl_reshape(x, (long[]){x->shape[0], 1, x->shape[1]}, 3));
    if (three && complex_dtype(three)) {
        dl_tensor *re = K(dl_pad(K(dl_real(three)), (long[]){by, by}, 2, 0, mode));
        dl_tensor *im = re ? K(dl_pad(K(dl_imag(three)), (long[]){by, by}, 2, 0, mode)) : NULL;
        three = im ? K(dl_complex(re, im)) : NULL;
    } else if (three)
        three = K(dl_pad(three, (long[]){by, by}, 2, 0, mode));
    return three ? K(dl_reshape(three, (long[]){x->shape[0], x->shape[1] + 2 * by}, 2)) : NULL;
}

/* The frames of the signal [N, L], [N, count, n]: a view, or with a gradient, which then adds up, a list of elements.
 */
static dl_tensor *framed(dl_pool *p, const frames *f, dl_tensor *x, long count) {
    const long size[3] = {x->shape[0], count, f->n}, step = x->stride[1],
               stride[3] = {x->stride[0], f->hop * step, step};
    if (!dl_grad_mode_get() || !dl_requires_grad(x)) return K(dl_as_strided(x, size, 3, stride, 3, x->offset));
    dl_tensor *at = places(p, f, count, x->st->device), *parts = at ? K(dl_index_select(x, at, 1)) : NULL;
    return parts ? K(dl_reshape(parts, size, 3)) : NULL;
}

POOLED_RULE(stft) {
    frames f;
    dl_tensor *x = c->in[0];
    const bool complex = complex_dtype(x), single = x->ndim == 1;
    const dl_aval *sides = ATTR(c, STFT_ONESIDED);
    DL_TRY(read_frames(ATTR_I(c, STFT_N_FFT), ATTR(c, STFT_HOP_LENGTH), &f));
    if (x->ndim != 1 && x->ndim != 2)
        return dl_fail(DL_ERR_SHAPE, "the signal must be [L] or [N,L], not of %d dimensions", x->ndim);
    if (!complex && !dl_dtype_is_float(x->dtype))
        return dl_fail_hint(DL_ERR_DTYPE, "convert it with .to(f32)", "the signal must be floating, not %s",
                            dl_type_of(x));
    f.one_sided = sides->given ? sides->u.i != 0 : !complex && !(c->nin > 1 && c->in[1] && complex_dtype(c->in[1]));
    if (complex && f.one_sided) return dl_fail(DL_ERR_VALUE, "a complex signal has no one-sided spectrum");
    if (DL_BIT(x->dtype) & DL_HALVES) x = K(dl_to_dtype(x, DL_F32)); /* the spectrum has parts of f32 */
    dl_tensor *w = x ? window_of(c, p, ATTR(c, STFT_WIN_LENGTH), f.n, x->dtype) : NULL;
    if (!w) return dl_failed();
    if (single) x = K(dl_reshape(x, (long[]){1, x->shape[0]}, 2));
    if (x && ATTR_I(c, STFT_CENTER)) x = centred(p, x, f.n / 2, ATTR_S(c, STFT_PAD_MODE));
    if (!x) return dl_failed();
    const long length = x->shape[1], count = length < f.n ? 0 : 1 + (length - f.n) / f.hop;
    if (!count) return dl_fail(DL_ERR_SHAPE, "a signal of %ld has no frame of %ld", length, f.n);
    dl_tensor *each = K(dl_mul(framed(p, &f, x, count), w));
    const char *norm = ATTR_I(c, STFT_NORMALIZED) ? "ortho" : "backward";
    dl_tensor *y = !each ? NULL : K(f.one_sided ? dl_rfft(each, NULL, -1, norm) : dl_fft(each, NULL, -1, norm));
    y = y ? K(dl_permute(y, (long[]){0, 2, 1}, 3)) : NULL;
    if (y && single) y = K(dl_select(y, 0, 0));
    if (!y || ATTR_I(c, STFT_RETURN_COMPLEX)) RESULT(y);
    return dl_finish(c, dl_view_as_real(K(dl_contiguous(y))));
}

/* The same where a frame is a few whole hops: the k-th hops of all frames lie side by side in the result, k hops from
 * its beginning. */
static dl_tensor *added_hops(dl_pool *outer, const frames *f, dl_tensor *t, long length) {
    POOL;
    const long rows = t->shape[0], count = t->shape[1], hops = f->n / f->hop;
    dl_tensor *parts = K(dl_reshape(t, (long[]){rows, count, hops, f->hop}, 4)), *sum = NULL;
    for (long k = 0; k < hops && parts; k++) {
        dl_tensor *part = K(dl_select(parts, 2, k));
        part = part ? K(dl_pad(part, (long[]){0, 0, k, hops - 1 - k}, 4, 0, "constant")) : NULL;
        if (!part || !(sum = k ? K(dl_add(sum, part)) : part)) return NULL;
    }
    return sum ? dl_keep(outer, dl_reshape(sum, (long[]){rows, length}, 2)) : NULL;
}

/* Frames [N, count, n] added at their places: [N, length]. */
static dl_tensor *overlapped(dl_pool *p, const frames *f, dl_tensor *t, long length) {
    const long rows = t->shape[0];
    if (f->n % f->hop == 0 && f->n / f->hop <= FEW_HOPS && !complex_dtype(t)) return added_hops(p, f, t, length);
    dl_tensor *at = places(p, f, t->shape[1], t->st->device);
    dl_tensor *none = K(dl_zeros((long[]){rows, length}, 2, t->dtype, t->st->device));
    dl_tensor *flat = K(dl_reshape(t, (long[]){rows, t->shape[1] * f->n}, 2));
    return none && flat && at ? K(dl_index_add(none, at, flat, 1)) : NULL;
}

/* The part of the signal that is wanted, in a whole one of `all` elements. */
static dl_status part_of(const dl_call *c, const frames *f, long all, long *from, long *to) {
    const dl_aval *length = ATTR(c, ISTFT_LENGTH);
    const bool centre = ATTR_I(c, ISTFT_CENTER) != 0;
    *from = centre ? f->n / 2 : 0;
    *to = length->given ? *from + length->u.i : centre ? all - f->n / 2 : all;
    if (*to < *from) return dl_fail(DL_ERR_SHAPE, "the frames cover no signal");
    return DL_OK;
}

POOLED_RULE(istft) {
    frames f;
    dl_tensor *x = c->in[0];
    const bool single = x->ndim == 2, whole = ATTR_I(c, ISTFT_RETURN_COMPLEX) != 0;
    const dl_aval *sides = ATTR(c, ISTFT_ONESIDED);
    DL_TRY(read_frames(ATTR_I(c, ISTFT_N_FFT), ATTR(c, ISTFT_HOP_LENGTH), &f));
    if ((x->ndim != 2 && x->ndim != 3) || !complex_dtype(x))
        return dl_fail(DL_ERR_SHAPE, "the input must be complex, [frequencies, frames] or [N, frequencies, frames]");
    const long bins = x->shape[x->ndim - 2], count = x->shape[x->ndim - 1];
    f.one_sided = sides->given ? sides->u.i != 0 : !whole && bins != f.n;
    if (whole && f.one_sided) return dl_fail(DL_ERR_VALUE, "a one-sided spectrum gives a real signal");
    if (bins != (f.one_sided ? f.n / 2 + 1 : f.n) || !count)
        return dl_fail(DL_ERR_SHAPE, "a spectrum of %ld frequencies and %ld frames does not fit n_fft = %ld", bins,
                       count, f.n);
    const dl_dtype real = x->dtype == DL_C64 ? DL_F32 : DL_F64;
    dl_tensor *w = window_of(c, p, ATTR(c, ISTFT_WIN_LENGTH), f.n, real);
    if (single) x = K(dl_reshape(x, (long[]){1, bins, count}, 3));
    if (x && !whole && !f.one_sided)
        x = K(dl_slice(x, 1, NULL, &(long){f.n / 2 + 1}, 1)); /* the others are conjugates */
    dl_tensor *turned = w && x ? K(dl_permute(x, (long[]){0, 2, 1}, 3)) : NULL;
    if (!turned) return dl_failed();
    /* the window takes the factor of the transforms along */
    const double n = (double)f.n, scale = ATTR_I(c, ISTFT_NORMALIZED) ? 1 / sqrt(n) : 1 / n;
    dl_tensor *each = K(whole ? dl_ifft(turned, NULL, -1, "forward") : dl_irfft(turned, &f.n, -1, "forward"));
    each = K(dl_mul(each, K(dl_mul(w, N(scale)))));
    const long all = f.n + f.hop * (count - 1);
    long from, to;
    DL_TRY(part_of(c, &f, all, &from, &to));
    const long end = to < all ? to : all;
    dl_tensor *sum = each ? overlapped(p, &f, each, all) : NULL;
    dl_tensor *row = sum ? K(dl_square(w)) : NULL;
    dl_tensor *rows = row ? K(dl_expand(row, (long[]){1, count, f.n}, 3)) : NULL;
    dl_tensor *weight = rows ? overlapped(p, &f, rows, all) : NULL;
    weight = weight ? K(dl_slice(weight, 1, &from, &end, 1)) : NULL;
    if (!weight) return dl_failed();
    double least = 1;
    if (weight->numel) DL_TRY(dl_item_f(K(dl_amin(K(dl_abs(weight)), NULL, 0, 0)), &least));
    if (least < 1e-11)
        return dl_fail_hint(DL_ERR_VALUE, "use a smaller hop_length or another window",
                            "the windows leave out a part of the signal");
    dl_tensor *y = K(dl_div(K(dl_slice(sum, 1, &from, &end, 1)), weight));
    if (y && to > end)
        y = K(
            dl_cat((dl_tensor *[]){y, K(dl_zeros((long[]){y->shape[0], to - end}, 2, y->dtype, y->st->device))}, 2, 1));
    return dl_finish(c, !y ? NULL : single ? dl_select(y, 0, 0) : dl_ref(y));
}
