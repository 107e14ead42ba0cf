/* Inverses of the error function and of the normal distribution function, and in f64 of hyperbolic functions, that
 * compilers vectorise, as the functions of vmath.h. With w = -ln(1 - erf(y)**2), y is erf(y) times a polynomial of w up
 * to 5, above sqrt(w) times one of 1 / sqrt(w). In f64 these have 7 digits, of which a step of Halley's makes all. */
#pragma once

#include "cpu/runtime/vmath_f64.h"

DL_VECTOR float dl_verfinv_start(float u, float w) {
    float v = (w < 5.0f ? w : 5.0f) - 2.5f, r = sqrtf(w < 5.0f ? 5.0f : w), q = 1.0f / r, near, far;
    near = DL_HORNER(DL_MUL_ADD, v, -8.93192597e-9f, 2.33359672e-8f, 4.68131348e-7f, -3.46398527e-6f, -4.97241969e-6f,
                     2.18349386e-4f, -0.00125272639f, -0.00417739288f, 0.246640279f, 1.50140936f);
    far = DL_HORNER(DL_MUL_ADD, q, 74.982474f, -178.536249f, 189.626975f, -121.109307f, 52.9049749f, -17.5760931f,
                    5.21170612f, -1.2407926f, -0.0273561874f, 1.00032517f);
    return w < 5.0f ? near * u : far * r;
}
/* y of u = erf(y) = 1 - t; both are given, so that neither loses digits. */
DL_VECTOR float dl_verfinv_of(float u, float t) { return dl_verfinv_start(u, -dl_vlog(t * (1.0f + u))); }
DL_VECTOR float dl_verfinv(float x) { return copysignf(dl_verfinv_of(fabsf(x), 1.0f - fabsf(x)), x); }
DL_VECTOR float dl_vquantile(float p) {
    float t = 2.0f * (p < 0.5f ? p : 1.0f - p), y = 1.41421356f * dl_verfinv_of(1.0f - t, t);
    return p < 0.5f ? -y : y;
}

DL_VECTOR double dl_verfinv_start_f64(double u, double w) {
    double v = (w < 5.0 ? w : 5.0) - 2.5, r = sqrt(w < 5.0 ? 5.0 : w), q = 1.0 / r, near, far;
    near = DL_HORNER(DL_MUL_ADD, v, -8.93192597024e-9, 2.33359671957e-8, 4.68131348055e-7, -3.46398526763e-6,
                     -4.97241968945e-6, 2.1834938624e-4, -0.00125272639177, -0.0041773928752, 0.246640279055,
                     1.50140936045);
    far = DL_HORNER(DL_MUL_ADD, q, -9942.56891927, 30625.2357625, -42430.7644522, 35037.3571623, -19263.4113205,
                    7463.14501137, -2106.80605845, 444.460235426, -72.9664719195, 10.6972358155);
    far = DL_HORNER(DL_MUL_ADD, q, far, -1.6019141193, -0.0131688127385, 1.00007377298);
    return w < 5.0 ? near * u : far * r;
}
/* The miss of the first y, t - erfc(y), times e**y**2; with u below 0.53 that of erf(y). */
DL_VECTOR double dl_verfinv_of_f64(double u, double t) {
    double w = -dl_vlog_f64(t * (1.0 + u)), y = dl_verfinv_start_f64(u, w), a = y < 28.0 ? y : 28.0, square = a * a;
    int far = u > 0.53;
    double e = dl_vexp_f64(far ? square - w : square), scaled = dl_verfcx_far_f64(far ? a : 1.0);
    double miss = far ? e / (1.0 + u) - scaled : (dl_verf_near_f64(far ? 0.0 : a) - u) * e;
    miss *= 0.88622692545275801365;
    return y < 28.0 ? y - miss / (1.0 + y * miss) : y;
}
/* Without that step, for numbers that are not so close to 1 as quantiles may be (w up to 36.1): y / u by w up to 5,
 * then y by sqrt(w) in two ranges, through Chebyshev's points, to 1e-16. */
DL_VECTOR double dl_verfinv_f64(double x) {
    double u = fabs(x), w = -dl_vlog_f64((1.0 - u) * (1.0 + u)), root = sqrt(w < 5.0 ? 5.0 : w < 37.0 ? w : 37.0);
    double v = (w < 5.0 ? w : 5.0) - 2.5, m = (root < 4.0 ? root : 4.0) - 3.12, f = (root < 4.0 ? 4.0 : root) - 5.05;
    double near, mid, far;
    near = DL_HORNER(DL_MUL_ADD, v, -6.89074726378266587e-20, 1.70090808939359109e-19, 4.90939392188834562e-18,
                     -2.6828646429085144e-17, -1.36619178906667323e-16, 1.89672935414359222e-15,
                     -2.88111101752405928e-15, -7.61266913013849664e-14, 5.35634316639305472e-13);
    near = DL_HORNER(DL_MUL_ADD, v, near, 9.11566038167194399e-13, -3.11027867222647554e-11, 1.19606988172095233e-10,
                     9.07303649540558236e-10, -1.08611689382878732e-8, 1.34168037552428223e-8, 4.78725218523900011e-7,
                     -3.41661959656508685e-6, -4.99607959885020655e-6);
    near = DL_HORNER(DL_MUL_ADD, v, near, 0.000218250264344061216, -0.00125270790781103205, -0.00417731772438362387,
                     0.246640276744166999, 1.50140935111079192);
    mid = DL_HORNER(DL_MUL_ADD, m, 1.91410227398667465e-9, -5.25737753047619802e-9, -3.64047457717481438e-9,
                    4.11167519111462546e-8, -8.30278113395348843e-8, -1.02371696269646329e-8, 5.03396758492784367e-7,
                    -1.34029281599001123e-6, 9.16488365334684304e-7, 4.90076098971648176e-6);
    mid = DL_HORNER(DL_MUL_ADD, m, mid, -0.0000198225013869956347, 0.0000345786705533312557, 1.11993167837578994e-6,
                    -0.000232905667697307565, 0.00100484463128381713, -0.00292940725632524376, 0.00569827516731535287,
                    1.0041637053540176, 2.95321429809304472);
    far = DL_HORNER(DL_MUL_ADD, f, -5.95589114256203223e-12, 2.01867827554904768e-11, -2.74869609599077561e-11,
                    2.4056460028286065e-11, 7.74828012899959766e-11, -9.65302431006723675e-10, 6.21801213798493484e-9,
                    -3.42970089767950681e-8, 1.78059065906704133e-7, -8.84106490340648997e-7);
    far = DL_HORNER(DL_MUL_ADD, f, far, 4.17491585190568996e-6, -0.0000183615630413508742, 0.0000712331146613630867,
                    -0.000200308891525886909, -0.000169859078112982725, 1.01028501780146209, 4.90042105142305282);
    double y = w < 5.0 ? near * u : root < 4.0 ? mid : far;
    return copysign(w < 37.0 ? y : w, x); /* infinity at 1, NaN beyond */
}
DL_VECTOR double dl_vquantile_f64(double p) {
    double t = 2.0 * (p < 0.5 ? p : 1.0 - p), y = 1.41421356237309504880 * dl_verfinv_of_f64(1.0 - t, t);
    return p < 0.5 ? -y : y;
}

/* ---- inverse hyperbolic functions, where a square could overflow by the logarithm of 2 x */
#define DL_VLN2 0.69314718055994530942
DL_VECTOR double dl_vasinh_f64(double x) {
    double a = fabs(x), d = a < 1e8 ? a : 0.0, square = d * d;
    double r = a < 1e8 ? dl_vlog1p_f64(d + square / (1.0 + sqrt(square + 1.0))) : dl_vlog_f64(a) + DL_VLN2;
    return copysign(r, x);
}
DL_VECTOR double dl_vatanh_f64(double x) {
    double a = fabs(x), t = a + a, q = (a < 0.5 ? t * a : t) / (1.0 - a);
    return copysign(0.5 * dl_vlog1p_f64(a < 0.5 ? t + q : q), x);
}
