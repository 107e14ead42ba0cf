/* Loops of attention, see attention.h. Includes itself once an element type. */
#ifndef REAL
#include "cpu/kernels/attention.h"
#include "cpu/runtime/vmath_f64.h"

enum { LANES = 32 }; /* of a loop that the compiler turns into vectors: the same at every level */

#define EXP(x) _Generic((x), float : dl_vexp, default : dl_vexp_f64)(x)
#define BOTH_REALS "cpu/kernels/attention_simd.c"
#include "cpu/runtime/both_reals.def"

const dl_attention_loops DL_SIMD_NAME(dl_attention_rows)[2] = {
    {mask_f32, soften_f32, again_f32, scaled_f32, grad_f32, dot_f32},
    {mask_f64, soften_f64, again_f64, scaled_f64, grad_f64, dot_f64},
};

#else

#include "cpu/kernels/largest.def"

static void S(mask)(void *xv, long n, double scale, const void *mv, long step, bool added) {
    REAL *x = xv, k = (REAL)scale;
    const REAL *m = mv;
    const unsigned char *b = mv;
    if (added)
        for (long i = 0; i < n; i++) x[i] = x[i] * k + m[i * step];
    else
        for (long i = 0; i < n; i++) x[i] = b[i * step] ? x[i] * k : (REAL)-INFINITY;
}

/* x = e ** (x * k - top); their sum, lane by lane. */
static double S(exponentials)(REAL *x, long n, REAL k, REAL top) {
    REAL lane[LANES] = {0};
    double sum = 0;
    long i = 0;
    for (; i + LANES <= n; i += LANES)
        for (long l = 0; l < LANES; l++) {
            x[i + l] = EXP(x[i + l] * k - top);
            lane[l] += x[i + l];
        }
    for (long l = 0; i < n; i++, l++) lane[l] += x[i] = EXP(x[i] * k - top);
    for (long l = 0; l < LANES; l++) sum += (double)lane[l];
    return sum;
}

static double S(dot)(const void *xv, const void *yv, long n) {
    const REAL *x = xv, *y = yv;
    REAL lane[LANES] = {0};
    double sum = 0;
    long i = 0;
    for (; i + LANES <= n; i += LANES)
        for (long l = 0; l < LANES; l++) lane[l] += x[i + l] * y[i + l];
    for (long l = 0; i < n; i++, l++) lane[l] += x[i] * y[i];
    for (long l = 0; l < LANES; l++) sum += (double)lane[l];
    return sum;
}

static void S(scaled)(void *xv, long n, double scale) {
    REAL *x = xv, k = (REAL)scale;
    for (long i = 0; i < n; i++) x[i] *= k;
}

/* Scores none of which is above -inf: NaN, or nothing that is seen. */
static void S(without_top)(REAL *x, long n, dl_soft *s) {
    for (long i = 0; i < n; i++) {
        if (x[i] != x[i]) s->top = (double)x[i];
        x[i] = x[i] != x[i] ? x[i] : 0;
    }
}

/* A query that has seen nothing yet stays so: its largest score is -inf. A score of NaN makes the sum NaN. */
static void S(soften)(void *xv, long n, double scale, dl_soft *s, void *out, long n_out) {
    REAL *x = xv, k = (REAL)scale;
    if (k < 0) { /* the least becomes the largest */
        S(scaled)(x, n, scale);
        k = 1;
    }
    double top = (double)(S(largest)(x, n, LANES) * k);
    top = top > s->top || s->top != s->top ? top : s->top;
    if (!(top > -INFINITY)) {
        S(without_top)(x, n, s);
        return;
    }
    double sum = S(exponentials)(x, n, k, (REAL)top);
    if (top != s->top) {
        double less = s->top == -INFINITY ? 0 : exp(s->top - top);
        s->sum *= less;
        S(scaled)(out, n_out, less);
    }
    s->top = top, s->sum += sum;
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
