/* Exponentials, logarithms, circular functions and their kin of f64 that compilers vectorise, as those of vmath.h.
 * AVX2 neither converts between f64 and 64-bit integers nor shifts these arithmetically: integers come out of the low
 * bits of a sum with a large number, and shifts are of numbers that an offset makes positive. */
#pragma once

#include "cpu/runtime/vmath.h"

DL_VECTOR long dl_vbits_f64(double x) {
    long i;
    memcpy(&i, &x, 8);
    return i;
}
DL_VECTOR double dl_vdouble(long i) {
    double x;
    memcpy(&x, &i, 8);
    return x;
}

/* Of NaN the integers are of any size: they wrap around. */
DL_VECTOR long dl_vplus(long a, long b) { return (long)((unsigned long)a + (unsigned long)b); }
DL_VECTOR long dl_vless(long a, long b) { return (long)((unsigned long)a - (unsigned long)b); }

#define DL_VROUND 6755399441055744.0 /* 1.5 * 2**52: a sum with it is rounded to an integer */
#define DL_VLN2_HIGH 0.693147180369123816490
#define DL_VLN2_LOW 1.90821492927058770002e-10

/* 2**k for -1023 < k <= 1023 */
/* dl_vmantissa and dl_vexponent; those below 2**-1022 are multiplied by 2**53. */
DL_VECTOR int dl_vsplits_f64(double x) { return fabs(x) > 0.0 && fabs(x) < (double)INFINITY; }
DL_VECTOR double dl_vmantissa_f64(double x) {
    long bits = dl_vbits_f64(fabs(x) < 0x1p-1022 ? x * 0x1p53 : x);
    return dl_vsplits_f64(x) ? dl_vdouble((bits & (long)0x800ffffffffffffful) | 0x3fe0000000000000l) : x;
}
DL_VECTOR double dl_vexponent_f64(double x) {
    int tiny = fabs(x) < 0x1p-1022;
    long bits = dl_vbits_f64(tiny ? x * 0x1p53 : x);
    return dl_vsplits_f64(x) ? (double)((int)((bits >> 52) & 2047) - (tiny ? 1075 : 1022)) : 0.0;
}

DL_VECTOR double dl_vpower_f64(long k) { return dl_vdouble((long)((unsigned long)dl_vplus(k, 1023) << 52)); }

/* The larger half of k, and the rest, of |k| <= 4096. */
DL_VECTOR long dl_vhalf_of(long k) { return (long)((unsigned long)dl_vplus(k, 4096) >> 1) - 2048; }

/* 2**k v, in two steps, so that results below the normal range are right, too. */
DL_VECTOR double dl_vscale_f64(double v, long k) {
    long h = dl_vhalf_of(k);
    return v * dl_vpower_f64(h) * dl_vpower_f64(dl_vless(k, h));
}

/* (e**r - 1 - r) / r**2 of |r| <= ln(2)/2 */
DL_VECTOR double dl_vexp_series_f64(double r) {
    return DL_HORNER(DL_MUL_ADD, r, 2.499996441195917e-08, 2.763037871799513e-07, 2.755758734609652e-06,
                     2.480149276252035e-05, 0.00019841269504759426, 0.00138888889439229, 0.008333333333495627,
                     0.04166666666652919, 0.1666666666666641, 0.5000000000000011);
}
/* x = n ln(2) + r, |r| <= ln(2)/2; gives r, its series and n. */
DL_VECTOR double dl_vexp_parts_f64(double x, double *r, long *n) {
    double t = x * 1.44269504088896340736 + DL_VROUND, k = t - DL_VROUND;
    *n = dl_vless(dl_vbits_f64(t), dl_vbits_f64(DL_VROUND));
    *r = x - k * DL_VLN2_HIGH;
    *r = *r - k * DL_VLN2_LOW;
    return dl_vexp_series_f64(*r);
}

/* 2**by e**x; from dl_vmath_bits.top_f64 on it overflows. */
DL_VECTOR double dl_vexp_by_f64(double x, long by) {
    double r, top = dl_vdouble(dl_vmath_bits.top_f64);
    long n;
    x = x > top ? top : x;
    x = x < -746.0 ? -746.0 : x;
    double p = dl_vexp_parts_f64(x, &r, &n);
    p = r * r * p + r + 1.0;
    return dl_vscale_f64(p, dl_vplus(n, by));
}
DL_VECTOR double dl_vexp_f64(double x) { return dl_vexp_by_f64(x, 0); }

/* e**x - 1 = 2**n (e**r - 1) + 2**n - 1, in two steps as in dl_vscale_f64. */
DL_VECTOR double dl_vexpm1_f64(double x) {
    double r, top = dl_vdouble(dl_vmath_bits.top_f64), y = x > top ? top : x;
    long n;
    y = y < -746.0 ? -746.0 : y;
    double p = dl_vexp_parts_f64(y, &r, &n);
    long h = dl_vhalf_of(n), g = dl_vless(n, h);
    double first = dl_vpower_f64(h);
    p = r * r * p + r;
    p = (first * p + (first - dl_vpower_f64(dl_vless(0, g)))) * dl_vpower_f64(g);
    return x == 0.0 ? x : p;
}

/* ln(1 + f) = f - half + tail with half = f**2 / 2, for 1 + f between sqrt(1/2) and sqrt(2): by 2 artanh(s) with
 * s = f / (2 + f). */
DL_VECTOR double dl_vlog_tail_f64(double f, double half) {
    double s = f / (2.0 + f), z = s * s;
    double p = DL_HORNER(DL_MUL_ADD, z, 0.14797507964482168, 0.1531390323321067, 0.18183569739728042,
                         0.22222198476003124, 0.2857142874326231, 0.39999999999411096, 0.6666666666666735);
    return s * (half + p * z);
}
/* e ln(2) + ln(1 + f) */
DL_VECTOR double dl_vlog_of_f64(double e, double f) {
    double half = 0.5 * (f * f), tail = dl_vlog_tail_f64(f, half);
    return e * DL_VLN2_HIGH - ((half - (tail + e * DL_VLN2_LOW)) - f);
}

/* x = 2**e (1 + f); of a negative number e is NaN. */
DL_VECTOR double dl_vlog_parts_f64(double x, double *e) {
    int tiny = x < 2.2250738585072014e-308;
    double y = tiny ? x * 18014398509481984.0 : x;                           /* 2**54 */
    unsigned long i = (unsigned long)dl_vbits_f64(y) - 0x3fe6a09e667f3bcdul; /* wraps for what is no positive number */
    long biased = (long)((i + (1024ul << 52)) >> 52);
    *e = dl_vdouble(biased | 0x4330000000000000l) - (tiny ? 4503599627370496.0 + 1078 : 4503599627370496.0 + 1024);
    *e = x < 0.0 ? dl_vdouble(dl_vmath_bits.snan_f64) : *e;
    return dl_vdouble((long)((i & 0xffffffffffffful) + 0x3fe6a09e667f3bcdul)) - 1.0;
}
DL_VECTOR double dl_vlog_f64(double x) {
    double e, f = dl_vlog_parts_f64(x, &e), r = dl_vlog_of_f64(e, f);
    r = x == 0.0 ? -INFINITY : r;
    return x < INFINITY ? r : x; /* infinity and NaN are themselves */
}

/* The logarithm to another base: e * power + ln(1 + f) * unit, power and unit in two parts. High parts have so few bits
 * that their products are exact: powers of the base have whole logarithms. */
DL_VECTOR double dl_vlog_to_f64(double x, double power, double power_low, double unit, double unit_low) {
    double e, f = dl_vlog_parts_f64(x, &e), half = 0.5 * (f * f), tail = dl_vlog_tail_f64(f, half);
    double high = dl_vdouble(dl_vbits_f64(f - half) & ~0xffffffffl), low = ((f - high) - half) + tail;
    double big = e * power, small = high * unit, sum = big + small;
    double r = sum + (((big - sum) + small) + (e * power_low + (low + high) * unit_low + low * unit));
    r = x == 0.0 ? -INFINITY : r;
    return x < INFINITY ? r : x;
}
DL_VECTOR double dl_vlog2_f64(double x) {
    return dl_vlog_to_f64(x, 1.0, 0.0, 1.4426946640014648, 3.768874985636099e-07);
}
DL_VECTOR double dl_vlog10_f64(double x) {
    return dl_vlog_to_f64(x, 0.30102999560767785, 5.630334806675098e-11, 0.4342944622039795, 1.9699272335463627e-08);
}

/* ln(1 + u) for 0 <= u <= 1, above sqrt(2) - 1 as ln(2) + ln(1 + (u - 1) / 2). */
DL_VECTOR double dl_vlog1p01_f64(double u) {
    double e = u > 0.41421356237309504880 ? 1.0 : 0.0;
    return dl_vlog_of_f64(e, u > 0.41421356237309504880 ? 0.5 * (u - 1.0) : u);
}

/* ln(1 + u) = ln(w) + (1 + u - w) / w, w being 1 + u as it is rounded. */
DL_VECTOR double dl_vlog1p_f64(double u) {
    double w = 1.0 + u, d = w - 1.0;
    double lost = w == 0.0 || !(d < INFINITY) ? 0.0 : (1.0 - (w - d)) + (u - d);
    double r = dl_vlog_f64(w) + lost / (w == 0.0 ? 1.0 : w);
    return d == 0.0 ? u : r;
}

/* e**|x| / 2, of which e**-|x| / 2 is a quarter over it */
DL_VECTOR double dl_vcosh_f64(double x) {
    double e = dl_vexp_by_f64(fabs(x), -1);
    return e + 0.25 / e;
}
/* With t = e**|x| - 1 it is (t + t / (t + 1)) / 2 where that cannot overflow. */
DL_VECTOR double dl_vsinh_f64(double x) {
    double a = fabs(x), t = dl_vexpm1_f64(a < 2.0 ? a : 2.0), e = dl_vexp_by_f64(a, -1);
    return x == 0.0 ? x : copysign(a < 2.0 ? 0.5 * (t + t / (t + 1.0)) : e - 0.25 / e, x);
}
DL_VECTOR double dl_vtanh_f64(double x) {
    double a = fabs(x), t = dl_vexpm1_f64(a > 22.0 ? 44.0 : 2.0 * a);
    return x == 0.0 ? x : copysign(t / (t + 2.0), x);
}

/* x P(x**2) for |x| <= 1 */
DL_VECTOR double dl_verf_near_f64(double x) {
    double z = x * x;
    double p = DL_HORNER(DL_MUL_ADD, z, -7.816801387180342e-10, 1.3731927914502793e-08, -1.6211406447269773e-07,
                         1.6447834297587705e-06, -1.4924772861062532e-05, 0.00012055296956015618,
                         -0.0008548326051782965, 0.005223977608933545, -0.026866170643499766, 0.1128379167094708);
    p = p * z + -0.37612638903183615;
    return x == 0.0 ? x : p * z * x + (x * 0.12837916709551256 + x);
}

/* e**x**2 erfc(x) for x >= 1/2, times 1 + 2 x: a polynomial of (x - 3) / (x + 3). */
DL_VECTOR double dl_verfcx_over_f64(double x) {
    double v = (x - 3.0) / (x + 3.0);
    double p =
        DL_HORNER(DL_MUL_ADD, v, -1.2112642850873481e-08, 1.4232572419651821e-08, 1.0970390839642526e-07,
                  -1.0058035502890288e-07, -6.365756414045011e-07, 3.2317011694294794e-07, 3.4928130793030374e-06,
                  -7.148439143162886e-07, -2.0112054766387043e-05, 4.9443135510707585e-06);
    p = DL_HORNER(DL_MUL_ADD, v, p, 0.00012510322995170088, -0.00010515878694672962, -0.0007798330693532222,
                  0.0018886902362564321, 0.002529391912958149, -0.023770514909844862, 0.06830802733757108,
                  -0.11927366341564309, 0.12964515870295365);
    p = DL_HORNER(DL_MUL_ADD, v, p, -0.047562294353445486, -0.13562110612458286, 1.2530080582697296);
    return p;
}
DL_VECTOR double dl_verfcx_far_f64(double x) { return dl_verfcx_over_f64(x) / (1.0 + 2.0 * x); }
/* For x >= 1/2. x**2 is taken in two parts: x is split into halves whose products are exact. */
DL_VECTOR double dl_verfc_far_f64(double x) {
    double u = x < 28.0 ? x : 28.0, p = dl_verfcx_over_f64(u);
    double high = dl_vdouble(dl_vbits_f64(u) & ~0x7ffffffl), low = u - high;
    double z = u * u, rest = ((high * high - z) + 2.0 * high * low) + low * low;
    return (p - p * rest) / (1.0 + 2.0 * u) * dl_vexp_f64(-z);
}
DL_VECTOR double dl_verf_f64(double x) {
    double a = fabs(x), far = 1.0 - dl_verfc_far_f64(a < 1.0 ? 1.0 : a);
    return a >= 1.0 ? copysign(far, x) : dl_verf_near_f64(x);
}
DL_VECTOR double dl_verfc_f64(double x) {
    double a = fabs(x), far = dl_verfc_far_f64(a < 0.5 ? 0.5 : a), near = 1.0 - dl_verf_near_f64(a < 0.5 ? x : 0.0);
    far = x < 0.0 ? 2.0 - far : far;
    return a >= 0.5 ? far : x != x ? x : near;
}

/* e**x**2 erfc(x); below 0 it is 2 e**x**2 less that of -x. */
DL_VECTOR double dl_verfcx_f64(double x) {
    double a = fabs(x), u = a < 27.0 ? a : 27.0, high = dl_vdouble(dl_vbits_f64(u) & ~0x7ffffffl), low = u - high;
    double z = u * u, rest = ((high * high - z) + 2.0 * high * low) + low * low;
    double power = dl_vexp_f64(z), back = power + power * rest;
    double far = dl_verfcx_far_f64(a < 0.5 ? 0.5 : a < 1e300 ? a : 1e300), near = dl_verf_near_f64(a < 0.5 ? x : 0.0);
    far = x < 0.0 ? 2.0 * back - far : far;
    far = a < 0.5 ? back * (1.0 - near) : x < -26.7 ? INFINITY : x > 1e300 ? 0.56418958354775628695 / x : far;
    return x != x ? x : far;
}

/* e**(-x**2 / 2), and twice the standard normal distribution function. */
DL_VECTOR double dl_vbell_f64(double x) { return dl_vexp_f64(-0.5 * x * x); }
DL_VECTOR double dl_vtwice_cdf_f64(double x) { return dl_verfc_f64(x * -0.70710678118654752440); }

/* ---- circular functions, of |x| <= 1e6 */

/* x = n pi/2 + r, |r| <= pi/4. The first two parts of pi/2 have 33 bits, so that n times them is exact; what the second
 * difference loses is added to the third. */
DL_VECTOR double dl_vquarter_f64(double x, long *n) {
    double t = x * 0.63661977236758134308 + DL_VROUND, k = t - DL_VROUND;
    *n = dl_vbits_f64(t);
    double a = x - k * 1.57079632673412561417, b = k * 6.07710050630396597660e-11;
    double r = a - b, back = a - r, lost = (a - (r + back)) + (back - b);
    return r + (lost - k * 2.02226624879595063154e-21);
}
DL_VECTOR double dl_vsine_near(double r, double z) {
    return DL_HORNER(DL_MUL_ADD, z, 1.5896795707506886e-10, -2.505075811624782e-08, 2.7557313691924606e-06,
                     -0.0001984126982980783, 0.008333333333322413, -0.16666666666666632) *
               z * r +
           r;
}
DL_VECTOR double dl_vcosine_near(double z) {
    double half = 0.5 * z, w = 1.0 - half;
    return w + (((1.0 - w) - half) + DL_HORNER(DL_MUL_ADD, z, -1.1359647761725295e-11, 2.0875723272501897e-09,
                                               -2.7557314352328286e-07, 2.4801587289482174e-05, -0.0013888888888874125,
                                               0.0416666666666666) *
                                         z * z);
}
/* The sine of n pi/2 + r. */
DL_VECTOR double dl_vsine_of_f64(double r, long n) {
    double z = r * r, s = dl_vsine_near(r, z), c = dl_vcosine_near(z);
    return dl_vdouble(dl_vbits_f64(n & 1 ? c : s) ^ (long)((unsigned long)(n & 2) << 62));
}
DL_VECTOR double dl_vsin_f64(double x) {
    long n;
    double r = dl_vquarter_f64(x, &n);
    return x == 0.0 ? x : dl_vsine_of_f64(r, n);
}
DL_VECTOR double dl_vcos_f64(double x) {
    long n;
    double r = dl_vquarter_f64(x, &n);
    return dl_vsine_of_f64(r, dl_vplus(n, 1));
}
DL_VECTOR double dl_vtan_f64(double x) {
    long n;
    double r = dl_vquarter_f64(x, &n), z = r * r, s = dl_vsine_near(r, z), c = dl_vcosine_near(z);
    return x == 0.0 ? x : (n & 1 ? -c : s) / (n & 1 ? s : c);
}

/* cos(x) + sin(x), and as `less` sin(x) - cos(x) */
DL_VECTOR double dl_vdiagonal_f64(double x, double *less) {
    long n;
    double r = dl_vquarter_f64(x, &n), s = dl_vsine_of_f64(r, n), c = dl_vsine_of_f64(r, dl_vplus(n, 1));
    *less = s - c;
    return c + s;
}

/* asin(s) - s for s**2 = z <= 1/4 */
DL_VECTOR double dl_vasin_rest_f64(double s, double z) {
    double p = DL_HORNER(DL_MUL_ADD, z, 0.031958970380031496, -0.016294084102458188, 0.019573915712819818,
                         0.0065108484507858675, 0.01217328090795963, 0.013884598117026933, 0.017359771159864104,
                         0.022371753518221824, 0.03038195933154489, 0.04464285682347329);
    return ((p * z + 0.07500000000343059) * z + 0.16666666666665383) * z * s;
}
#define DL_VQUARTER_PI 0.78539816339744830962
#define DL_VPI_LOW 1.2246467991473531772e-16
DL_VECTOR double dl_vasin_f64(double x) {
    double a = fabs(x), z = a > 0.5 ? 0.5 - 0.5 * a : a * a, s = a > 0.5 ? sqrt(z) : a;
    double p = dl_vasin_rest_f64(s, z);
    double far = DL_VQUARTER_PI + (((DL_VQUARTER_PI - 2.0 * s) - 2.0 * p) + 0.5 * DL_VPI_LOW);
    return copysign(a > 0.5 ? far : s + p, x);
}
DL_VECTOR double dl_vacos_f64(double x) {
    double a = fabs(x), z = a > 0.5 ? 0.5 - 0.5 * a : a * a, s = a > 0.5 ? sqrt(z) : x;
    double p = dl_vasin_rest_f64(s, z);
    double above = 2.0 * s + 2.0 * p, below = (4.0 * DL_VQUARTER_PI - above) + DL_VPI_LOW;
    double mid = ((2.0 * DL_VQUARTER_PI - s) - p) + 0.5 * DL_VPI_LOW;
    return a > 0.5 ? (x > 0.0 ? above : below) : mid;
}

/* pi/2 - |atan(over / under)|, or that itself, for 0 <= over <= under: above tan(pi/8) it is pi/4 + atan((over - under)
 * / (over + under)). */
DL_VECTOR double dl_vatan_of_f64(double over, double under, int turned) {
    int mid = over > 0.41421356237309504880 * under;
    double q = (mid ? over - under : over) / (mid ? over + under : under), z = q * q;
    double p = DL_HORNER(DL_MUL_ADD, z, 0.02126402881028972, -0.043595224096768206, 0.05692719022093249,
                         -0.06641162272904758, 0.0769007386121871, -0.09090782870424585, 0.11111106676137597,
                         -0.14285714195884236, 0.19999999999097334, -0.3333333333333019);
    p = p * z * q;
    double at = mid ? DL_VQUARTER_PI : 0.0, low = mid ? 0.25 * DL_VPI_LOW : 0.0;
    double far = (2.0 * DL_VQUARTER_PI - at) - (q + (p + (low - 0.5 * DL_VPI_LOW)));
    return turned ? far : at + (q + (p + low));
}
DL_VECTOR double dl_vatan_f64(double x) {
    double a = fabs(x);
    double r = dl_vatan_of_f64(a > 1.0 ? 1.0 : a, a > 1.0 ? a : 1.0, a > 1.0);
    return x == 0.0 ? x : copysign(r, x);
}
/* Large numbers are made smaller, so that their sum does not overflow. */
DL_VECTOR double dl_vatan2_f64(double y, double x) {
    double a = fabs(x), b = fabs(y), low = b > a ? a : b, high = b > a ? b : a;
    double by = high > 1e300 ? 0.0009765625 : 1.0;
    double under = high == INFINITY || high == 0.0 ? 1.0 : high * by;
    double over = high == INFINITY ? (low == INFINITY ? 1.0 : 0.0) : low * by;
    double p = dl_vatan_of_f64(over, under, b > a);
    p = dl_vbits_f64(x) < 0 ? 4.0 * DL_VQUARTER_PI - (p - DL_VPI_LOW) : p;
    return x != x || y != y ? x + y : copysign(p, y);
}

/* Multiplied by a power of two first, so that no square overflows or vanishes. */
DL_VECTOR double dl_vhypot_f64(double x, double y) {
    double a = fabs(x), b = fabs(y), most = a > b ? a : b;
    double by = most > 1e150 ? 0x1p-600 : most < 1e-150 ? 0x1p600 : 1.0;
    double back = most > 1e150 ? 0x1p600 : most < 1e-150 ? 0x1p-600 : 1.0;
    double u = a * by, v = b * by, r = sqrt(u * u + v * v) * back;
    return a == INFINITY || b == INFINITY ? INFINITY : r;
}
