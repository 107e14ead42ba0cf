/* Steps of recurrent cells and their gradients, for one sequence. Includes itself once an element type. */
#ifndef REAL
#include "cpu/kernels/recurrent.h"
#include "cpu/runtime/vmath_f64.h"

static inline float sigmoid_f32(float x) { return 1.0f / (1.0f + dl_vexp(-x)); }
static inline float tanh_f32(float x) { return dl_vtanh(x); }
static inline double sigmoid_f64(double x) { return 1.0 / (1.0 + dl_vexp_f64(-x)); }
static inline double tanh_f64(double x) { return dl_vtanh_f64(x); }

/* No array of a cell overlaps another, which compilers do not see of parts of one. */
#define EACH(k, n) _Pragma("GCC ivdep") for (long k = 0; k < (n); k++)

#define BOTH_REALS "cpu/kernels/recurrent_simd.c"
#include "cpu/runtime/both_reals.def"

const dl_cell_loops DL_SIMD_NAME(dl_cells)[2] = {
    {{lstm_f32, gru_f32, plain_tanh_f32, plain_relu_f32}, {lstm_back_f32, gru_back_f32, tanh_back_f32, relu_back_f32}},
    {{lstm_f64, gru_f64, plain_tanh_f64, plain_relu_f64}, {lstm_back_f64, gru_back_f64, tanh_back_f64, relu_back_f64}}};

#else

static void S(lstm)(const dl_cell_row *r) {
    const long n = r->hidden;
    REAL *restrict i = r->gates, *restrict f = i + n, *restrict g = f + n, *restrict o = g + n;
    const REAL *restrict c0 = r->before;
    REAL *restrict c = r->extra, *restrict y = r->y;
    EACH(k, n) {
        REAL ik = S(sigmoid)(i[k]), fk = S(sigmoid)(f[k]), gk = S(tanh)(g[k]), ok = S(sigmoid)(o[k]);
        REAL ck = fk * c0[k] + ik * gk;
        i[k] = ik, f[k] = fk, g[k] = gk, o[k] = ok, c[k] = ck;
        y[k] = ok * S(tanh)(ck);
    }
}

static void S(lstm_back)(const dl_cell_row *r) {
    const long n = r->hidden;
    const REAL *restrict i = r->gates, *restrict f = i + n, *restrict g = f + n, *restrict o = g + n;
    const REAL *restrict c0 = r->before, *restrict c = r->extra, *restrict gy = r->g;
    REAL *restrict di = r->d_gates, *restrict df = di + n, *restrict dg = df + n, *restrict dout = dg + n;
    REAL *restrict dh = r->dh, *restrict dc = r->dc;
    EACH(k, n) {
        REAL d = dh[k] + (gy ? gy[k] : 0), t = S(tanh)(c[k]), e = dc[k] + d * o[k] * (1 - t * t);
        dout[k] = d * t * o[k] * (1 - o[k]);
        di[k] = e * g[k] * i[k] * (1 - i[k]);
        df[k] = e * c0[k] * f[k] * (1 - f[k]);
        dg[k] = e * i[k] * (1 - g[k] * g[k]);
        dc[k] = e * f[k];
        dh[k] = 0;
    }
}

static void S(gru)(const dl_cell_row *w) {
    const long n = w->hidden;
    REAL *restrict r = w->gates, *restrict z = r + n, *restrict q = z + n;
    const REAL *restrict pr = w->part, *restrict pz = pr + n, *restrict pq = pz + n;
    const REAL *restrict bias = w->bias, *restrict h0 = w->before;
    REAL *restrict m = w->extra, *restrict y = w->y;
    EACH(k, n) {
        REAL mk = pq[k] + (bias ? bias[k] : 0), rk = S(sigmoid)(r[k] + pr[k]), zk = S(sigmoid)(z[k] + pz[k]);
        REAL qk = S(tanh)(q[k] + rk * mk);
        r[k] = rk, z[k] = zk, q[k] = qk, m[k] = mk;
        y[k] = qk + zk * (h0[k] - qk);
    }
}

static void S(gru_back)(const dl_cell_row *w) {
    const long n = w->hidden;
    const REAL *restrict r = w->gates, *restrict z = r + n, *restrict q = z + n;
    const REAL *restrict h0 = w->before, *restrict m = w->extra, *restrict gy = w->g;
    REAL *restrict dr = w->d_gates, *restrict dz = dr + n, *restrict dq = dz + n;
    REAL *restrict er = w->d_hidden, *restrict ez = er + n, *restrict eq = ez + n, *restrict dh = w->dh;
    EACH(k, n) {
        REAL d = dh[k] + (gy ? gy[k] : 0), a = d * (1 - z[k]) * (1 - q[k] * q[k]);
        dq[k] = a;
        eq[k] = a * r[k];
        dr[k] = er[k] = a * m[k] * r[k] * (1 - r[k]);
        dz[k] = ez[k] = d * (h0[k] - q[k]) * z[k] * (1 - z[k]);
        dh[k] = d * z[k];
    }
}

static void S(plain_tanh)(const dl_cell_row *r) {
    REAL *restrict a = r->gates, *restrict y = r->y;
    for (long k = 0; k < r->hidden; k++) y[k] = a[k] = S(tanh)(a[k]);
}

static void S(plain_relu)(const dl_cell_row *r) {
    REAL *restrict a = r->gates, *restrict y = r->y;
    for (long k = 0; k < r->hidden; k++) y[k] = a[k] = a[k] < 0 ? 0 : a[k];
}

static void S(tanh_back)(const dl_cell_row *r) {
    const REAL *restrict a = r->gates, *restrict gy = r->g;
    REAL *restrict da = r->d_gates, *restrict dh = r->dh;
    for (long k = 0; k < r->hidden; k++) {
        da[k] = (dh[k] + (gy ? gy[k] : 0)) * (1 - a[k] * a[k]);
        dh[k] = 0;
    }
}

static void S(relu_back)(const dl_cell_row *r) {
    const REAL *restrict a = r->gates, *restrict gy = r->g;
    REAL *restrict da = r->d_gates, *restrict dh = r->dh;
    for (long k = 0; k < r->hidden; k++) {
        da[k] = a[k] <= 0 ? 0 : dh[k] + (gy ? gy[k] : 0);
        dh[k] = 0;
    }
}
#endif
