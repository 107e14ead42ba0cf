/* Reading elements of tensors of any dtype and strides; mean, spread, extremes and histograms of them. */
#include "view/elements.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "lang/session.h"
#include "dlcore/complex.h"
#include "dlcore/elementary.h"
#include "dlcore/view.h"

dl_status dlsh_elements_open(dlsh_elements *e, const dl_tensor *t) {
    memset(e, 0, sizeof *e);
    DLSH_SCOPED_GRAD_MODE(0);
    int complex = dl_dtype_is_complex(dl_dtype_of(t));
    dl_tensor *source = complex ? dl_view_as_real((dl_tensor *)t) : dl_ref((dl_tensor *)t);
    if (!source) return dl_failed();
    if (dl_device_of(t) != 0) {
        dl_tensor *host = dl_to_device(source, 0);
        dl_unref(source);
        if (!host) return dl_failed();
        source = host;
    }
    e->owned = source;
    e->data = dl_data(source);
    e->dtype = dl_dtype_of(source);
    e->ndim = dl_ndim(source);
    e->shape = dl_shape(source);
    e->stride = dl_stride(source);
    e->numel = dl_numel(source);
    return DL_OK;
}

void dlsh_elements_close(dlsh_elements *e) {
    dl_unref(e->owned);
    e->owned = NULL;
}

static double bf16_value(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, sizeof f);
    return f;
}

/* IEEE half: 1 sign, 5 exponent, 10 fraction bits. */
static double f16_value(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double v = exponent == 31  ? (fraction ? NAN : INFINITY)
               : exponent == 0 ? ldexp(fraction, -24)
                               : ldexp(fraction + 1024, exponent - 25);
    return bits >> 15 ? -v : v;
}

double dlsh_element_f(const dlsh_elements *e, long offset) {
    switch (e->dtype) {
    case DL_F32: return ((const float *)e->data)[offset];
    case DL_F64: return ((const double *)e->data)[offset];
    case DL_F16: return f16_value(((const uint16_t *)e->data)[offset]);
    case DL_BF16: return bf16_value(((const uint16_t *)e->data)[offset]);
    default: return (double)dlsh_element_i(e, offset);
    }
}

long dlsh_element_i(const dlsh_elements *e, long offset) {
    switch (e->dtype) {
    case DL_BOOL: return ((const uint8_t *)e->data)[offset] != 0;
    case DL_U8: return ((const uint8_t *)e->data)[offset];
    case DL_I32: return ((const int32_t *)e->data)[offset];
    case DL_I64: return ((const int64_t *)e->data)[offset];
    default: return (long)dlsh_element_f(e, offset);
    }
}

void dlsh_walk_begin(const dlsh_elements *e, dlsh_walk *w) {
    memset(w, 0, sizeof *w);
    w->done = e->numel == 0;
}

void dlsh_walk_next(const dlsh_elements *e, dlsh_walk *w) {
    for (int d = e->ndim - 1; d >= 0; d--) {
        w->offset += e->stride[d];
        if (++w->index[d] < e->shape[d]) return;
        w->offset -= e->stride[d] * e->shape[d];
        w->index[d] = 0;
    }
    w->done = 1;
}

enum { BLOCK = 1024 };

/* Elements one after another in memory, as doubles. */
static void convert(const dlsh_elements *e, long offset, long n, double *out) {
    if (e->dtype == DL_F32)
        for (long i = 0; i < n; i++) out[i] = ((const float *)e->data)[offset + i];
    else if (e->dtype == DL_F64)
        memcpy(out, (const double *)e->data + offset, sizeof *out * (size_t)n);
    else
        for (long i = 0; i < n; i++) out[i] = dlsh_element_f(e, offset + i);
}

/* The next up to BLOCK elements of a walk in out; 0 at the end, or when interrupted. */
static long next_block(const dlsh_elements *e, dlsh_walk *w, double *out) {
    long n = 0;
    if (dlsh_interrupted()) return 0;
    if (dl_is_contiguous(e->owned)) {
        n = e->numel - w->offset < BLOCK ? e->numel - w->offset : BLOCK;
        convert(e, w->offset, n, out);
        w->offset += n;
    } else {
        for (; n < BLOCK && !w->done; dlsh_walk_next(e, w)) out[n++] = dlsh_element_f(e, w->offset);
    }
    return n;
}

/* First pass: counts, extremes, sum and sum of squares of the finite elements. */
static void stats_sums(const dlsh_elements *e, dlsh_stats *s, long *finite) {
    double sum = 0, squares = 0, min = INFINITY, max = -INFINITY, block[BLOCK];
    dlsh_walk w;
    dlsh_walk_begin(e, &w);
    for (long n; (n = next_block(e, &w, block)) > 0;)
        for (long i = 0; i < n; i++) {
            double v = block[i];
            if (isnan(v)) {
                s->nans++;
            } else if (isinf(v)) {
                s->infs++;
            } else {
                s->zeros += v == 0;
                sum += v;
                squares += v * v;
                if (v < min) min = v;
                if (v > max) max = v;
            }
        }
    *finite = s->n - s->nans - s->infs;
    s->mean = *finite ? sum / (double)*finite : NAN;
    s->norm = sqrt(squares);
    if (*finite) s->min = min, s->max = max;
}

/* Opens a view without the dimensions of stride 0, so that each element occurs once instead of *times. */
static dl_status open_distinct(dlsh_elements *e, const dl_tensor *t, long *times) {
    DLSH_SCOPED_GRAD_MODE(0);
    dl_tensor *view = dl_dtype_is_complex(dl_dtype_of(t)) ? dl_abs((dl_tensor *)t) : dl_ref((dl_tensor *)t);
    if (!view) return dl_failed();
    t = view;
    *times = 1;
    for (int d = dl_ndim(t) - 1; view && d >= 0; d--) {
        long n = dl_shape(t)[d];
        if (dl_stride(t)[d] || n < 2) continue;
        dl_tensor *one = dl_select(view, d, 0);
        dl_unref(view);
        view = one;
        *times *= n;
    }
    dl_status status = view ? dlsh_elements_open(e, view) : dl_failed();
    dl_unref(view);
    return status;
}

dl_status dlsh_stats_of(const dl_tensor *t, dlsh_stats *s) {
    dlsh_elements e;
    long times;
    DLSH_TRY(open_distinct(&e, t, &times));
    *s = (dlsh_stats){.n = e.numel, .min = NAN, .max = NAN, .std = NAN};
    long finite;
    stats_sums(&e, s, &finite);
    /* a second pass, since squares less the squared mean cancel */
    double spread = 0, block[BLOCK];
    dlsh_walk w;
    dlsh_walk_begin(&e, &w);
    for (long n; (n = next_block(&e, &w, block)) > 0;)
        for (long i = 0; i < n; i++) {
            double v = block[i] - s->mean;
            if (isfinite(v)) spread += v * v;
        }
    s->n *= times, s->nans *= times, s->infs *= times, s->zeros *= times, finite *= times;
    s->norm *= sqrt((double)times);
    if (finite > 1) s->std = sqrt(spread * (double)times / (double)(finite - 1));
    dlsh_elements_close(&e);
    return dlsh_check_interrupt();
}

dl_status dlsh_histogram(const dl_tensor *t, double lo, double hi, int n, long *counts) {
    dlsh_elements e;
    long times;
    DLSH_TRY(open_distinct(&e, t, &times));
    memset(counts, 0, sizeof *counts * (size_t)n);
    double scale = hi > lo ? n / (hi - lo) : 0;
    double block[BLOCK];
    dlsh_walk w;
    dlsh_walk_begin(&e, &w);
    for (long got; (got = next_block(&e, &w, block)) > 0;)
        for (long i = 0; i < got; i++) {
            if (!(block[i] >= lo && block[i] <= hi)) continue;
            int bin = (int)((block[i] - lo) * scale);
            counts[bin < n ? bin : n - 1] += times;
        }
    dlsh_elements_close(&e);
    return dlsh_check_interrupt();
}
