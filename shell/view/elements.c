/* Reading elements of tensors of any dtype and strides; mean, spread, extremes and histograms of them. */
#include "view/elements.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

dl_status dlsh_elements_open(dlsh_elements *e, const dl_tensor *t) {
    memset(e, 0, sizeof *e);
    dl_tensor *source = dl_ref((dl_tensor *)t);
    if (dl_device_of(t) != 0) {
        int grad = dl_grad_mode(0);
        dl_tensor *host = dl_to_device(source, 0);
        dl_grad_mode(grad);
        dl_unref(source);
        if (!host) return dl_error_last()->code;
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

/* First pass: counts, extremes, sum and sum of squares of the finite elements. */
static void stats_sums(const dlsh_elements *e, dlsh_stats *s, long *finite) {
    double sum = 0, squares = 0;
    dlsh_walk w;
    for (dlsh_walk_begin(e, &w); !w.done; dlsh_walk_next(e, &w)) {
        double v = dlsh_element_f(e, w.offset);
        if (isnan(v)) {
            s->nans++;
        } else if (isinf(v)) {
            s->infs++;
        } else {
            s->zeros += v == 0;
            sum += v;
            squares += v * v;
            if (!(v >= s->min)) s->min = v;
            if (!(v <= s->max)) s->max = v;
        }
    }
    *finite = s->n - s->nans - s->infs;
    s->mean = *finite ? sum / (double)*finite : NAN;
    s->norm = sqrt(squares);
}

dl_status dlsh_stats_of(const dl_tensor *t, dlsh_stats *s) {
    dlsh_elements e;
    dl_status status = dlsh_elements_open(&e, t);
    if (status) return status;
    *s = (dlsh_stats){.n = e.numel, .min = NAN, .max = NAN, .std = NAN};
    long finite;
    stats_sums(&e, s, &finite);
    /* a second pass, since squares less the squared mean cancel */
    double spread = 0;
    dlsh_walk w;
    for (dlsh_walk_begin(&e, &w); !w.done; dlsh_walk_next(&e, &w)) {
        double v = dlsh_element_f(&e, w.offset) - s->mean;
        if (isfinite(v)) spread += v * v;
    }
    if (finite > 1) s->std = sqrt(spread / (double)(finite - 1));
    dlsh_elements_close(&e);
    return DL_OK;
}

dl_status dlsh_histogram(const dl_tensor *t, double lo, double hi, int n, long *counts) {
    dlsh_elements e;
    dl_status status = dlsh_elements_open(&e, t);
    if (status) return status;
    memset(counts, 0, sizeof *counts * (size_t)n);
    double scale = hi > lo ? n / (hi - lo) : 0;
    dlsh_walk w;
    for (dlsh_walk_begin(&e, &w); !w.done; dlsh_walk_next(&e, &w)) {
        double v = dlsh_element_f(&e, w.offset);
        if (!(v >= lo && v <= hi)) continue;
        int bin = (int)((v - lo) * scale);
        counts[bin < n ? bin : n - 1]++;
    }
    dlsh_elements_close(&e);
    return DL_OK;
}
