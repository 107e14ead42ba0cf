/* Loops of attention, see attention.h. Includes itself once an element type. */
#ifndef REAL
#include "cpu/kernels/attention.h"
#include "cpu/runtime/vec.h"
#include "cpu/runtime/vmath.h"

#define EXP(x) _Generic((x), float : dl_vexp, default : exp)(x)
#define BOTH_REALS "cpu/kernels/attention_simd.c"
#include "cpu/runtime/both_reals.def"

const dl_attention_loops DL_SIMD_NAME(dl_attention_rows)[2] = {
    {mask_f32, soften_f32, again_f32, scaled_f32, grad_f32, dot_f32},
    {mask_f64, soften_f64, again_f64, scaled_f64, grad_f64, dot_f64},
};

#else

static void S(mask)(void *xv, long n, double scale, const void *mv, long step, bool added) {
    REAL *x = xv, k = (REAL)scale;
    const REAL *m = mv;
    const unsigned char *b = mv;
    if (added)
        for (long i = 0; i < n; i++) x[i] = x[i] * k + m[i * step];
    else
        for (long i = 0; i < n; i++) x[i] = b[i * step] ? x[i] * k : (REAL)-INFINITY;
}

static REAL S(largest)(const REAL *x, long n) {
    enum { L = S(DL_LANES) };
    REAL m = (REAL)-INFINITY;
    long i = 0;
    if (n >= L) {
        VEC v = S(dl_vload)(x);
        for (i = L; i + L <= n; i += L) v = S(dl_vmax)(S(dl_vload)(x + i), v);
        m = S(dl_vtop)(v);
    }
    for (; i < n; i++) m = x[i] > m || x[i] != x[i] ? x[i] : m;
    return m;
}

static double S(total)(const REAL *x, long n) {
    enum { L = S(DL_LANES) };
    VEC v = {0};
    long i = 0;
    for (; i + L <= n; i += L) v += S(dl_vload)(x + i);
    if (i < n) v += S(dl_vloadn)(x + i, n - i);
    return (double)S(dl_vsum)(v);
}

static double S(dot)(const void *xv, const void *yv, long n) {
    enum { L = S(DL_LANES) };
    const REAL *x = xv, *y = yv;
    VEC v = {0};
    long i = 0;
    for (; i + L <= n; i += L) v += S(dl_vload)(x + i) * S(dl_vload)(y + i);
    if (i < n) v += S(dl_vloadn)(x + i, n - i) * S(dl_vloadn)(y + i, n - i);
    return (double)S(dl_vsum)(v);
}

static void S(scaled)(void *xv, long n, double scale) {
    REAL *x = xv, k = (REAL)scale;
    for (long i = 0; i < n; i++) x[i] *= k;
}

/* A query that has seen nothing yet stays so: its largest score is -inf. */
static void S(soften)(void *xv, long n, double scale, dl_soft *s, void *out, long n_out) {
    REAL *x = xv, k = (REAL)scale;
    REAL most = S(largest)(x, n);
    if (k < 0) { /* the least becomes the largest */
        for (long i = 0; i < n; i++) x[i] *= k;
        most = S(largest)(x, n), k = 1;
    }
    double top = (double)(most * k);
    top = top > s->top || top != top ? top : s->top;
    if (top == -INFINITY) {
        for (long i = 0; i < n; i++) x[i] = 0;
        return;
    }
    REAL t = (REAL)top;
    for (long i = 0; i < n; i++) x[i] = EXP(x[i] * k - t);
    if (top != s->top) {
        double less = s->top == -INFINITY ? 0 : exp(s->top - top);
        s->sum *= less;
        S(scaled)(out, n_out, less);
    }
    s->top = top, s->sum += S(total)(x, n);
}

/* lse is taken off in two parts, so that large scores lose no digits. */
static void S(again)(void *xv, long n, double scale, double lse) {
    REAL *x = xv, k = (REAL)scale, hi = (REAL)lse, lo = (REAL)(lse - (double)hi);
    if (lse == INFINITY) lo = 0;
    for (long i = 0; i < n; i++) x[i] = EXP(x[i] * k - hi - lo);
}

static void S(grad)(const void *pv, void *dv, long n, double mean, double scale) {
    const REAL *p = pv;
    REAL *d = dv, m = (REAL)mean, k = (REAL)scale;
    for (long i = 0; i < n; i++) d[i] = p[i] * (d[i] - m) * k;
}
#endif
