/* Bessel functions of order 0 and 1, of |x| <= 1e6, that compilers vectorise, as the functions of vmath.h: up to 5
 * polynomials of x**2, in f64, and those of the second kind with a logarithm; above sqrt(2 / (pi x)) times a cosine and
 * a sine, with polynomials of 25 / x**2. Errors are a few units in the last place of the largest value near x. */
#pragma once

#include "cpu/runtime/vmath_circle.h"
#include "cpu/runtime/vmath_f64.h"

/* The factors of the cosine and, times 5 / x, of the sine. */
DL_VECTOR float dl_vj_cosine(int order, float q) {
    return order ? DL_HORNER(DL_MUL_ADD, q, -5.93399142e-06f, 3.63136258e-05f, -0.000228654088f, 0.00468727289f, 1.0f)
                 : DL_HORNER(DL_MUL_ADD, q, 5.10750808e-06f, -3.04372095e-05f, 0.000177622101f, -0.00281229952f, 1.0f);
}
DL_VECTOR float dl_vj_sine(int order, float q) {
    return order ? DL_HORNER(DL_MUL_ADD, q, 3.78598636e-06f, -1.98243748e-05f, 8.72022666e-05f, -0.000820137235f,
                             0.0749999969f)
                 : DL_HORNER(DL_MUL_ADD, q, -3.30865568e-06f, 1.70092547e-05f, -7.12245117e-05f, 0.000585781166f,
                             -0.0249999972f);
}
/* For x >= 5; `second` is the function of the second kind. */
DL_VECTOR float dl_vj_far(int order, int second, float x) {
    float w = 5.0f / x, q = w * w, less, more = dl_vdiagonal(x, &less);
    float p = dl_vj_cosine(order, q), s = w * dl_vj_sine(order, q);
    float r = order != second ? p * less + s * more : p * more - s * less;
    return x == INFINITY ? 0.0f : (order & second ? -r : r) * sqrtf(0.318309886f / x);
}
DL_VECTOR double dl_vj0_near(double z) {
    return (z - 5.7831859629467845) * DL_HORNER(DL_MUL_ADD, z, 6.56896707e-15, -2.23741468e-12, 4.54792337e-10,
                                                -6.51382103e-08, 6.40453764e-06, -0.000396986814, 0.0133291448,
                                                -0.172915069);
}
/* J1 over x */
DL_VECTOR double dl_vj1_near(double z) {
    return (z - 14.681970642123893) * DL_HORNER(DL_MUL_ADD, z, -1.03051634e-13, 3.01582338e-11, -5.16344796e-09,
                                                6.01758445e-07, -4.54139206e-05, 0.00193738278, -0.0340553733);
}
DL_VECTOR float dl_vj0(float x) {
    float y = fabsf(x), s = y < 5.0f ? y : 5.0f, far = dl_vj_far(0, 0, y < 5.0f ? 5.0f : y);
    return y < 5.0f ? (float)dl_vj0_near((double)s * (double)s) : far;
}
DL_VECTOR float dl_vj1(float x) {
    float y = fabsf(x), s = y < 5.0f ? x : 5.0f, far = copysignf(1.0f, x) * dl_vj_far(1, 0, y < 5.0f ? 5.0f : y);
    return y < 5.0f ? (float)(dl_vj1_near((double)s * (double)s) * (double)s) : far;
}
DL_VECTOR float dl_vy0(float x) {
    float s = x < 5.0f ? x : 5.0f, far = dl_vj_far(0, 1, x < 5.0f ? 5.0f : x);
    double z = (double)s * (double)s;
    double p = DL_HORNER(DL_MUL_ADD, z, 2.7404718e-12, -7.16056659e-10, 1.02497543e-07, -9.48254603e-06, 0.000538524641,
                         -0.0160737273, 0.177605733, -0.0738042403);
    float near = (float)(p + 0.63661977236758134 * ((double)dl_vlog(s) * dl_vj0_near(z)));
    return x < 5.0f ? near : far;
}
DL_VECTOR float dl_vy1(float x) {
    float s = x < 5.0f ? x : 5.0f, far = dl_vj_far(1, 1, x < 5.0f ? 5.0f : x);
    double z = (double)s * (double)s;
    double p = DL_HORNER(DL_MUL_ADD, z, 1.83949098e-13, -5.33835443e-11, 8.86841026e-09, -9.91944943e-07,
                         7.16381134e-05, -0.0029552912, 0.0543486715, -0.196057087);
    double log = (double)dl_vlog(s > 1e-30f ? s : 1e-30f) * dl_vj1_near(z) * (double)s;
    float near = (float)(p * (double)s + 0.63661977236758134 * (log - 1.0 / (double)s));
    return x < 5.0f ? near : far;
}

DL_VECTOR double dl_vj_far_f64(int order, int second, double x) {
    double w = 5.0 / x, q = w * w, less, more = dl_vdiagonal_f64(x, &less), p, s;
    if (order) {
        p = DL_HORNER(DL_MUL_ADD, q, 2.334490263850562e-07, -1.9381661837378866e-06, 7.394084478270943e-06,
                      -1.7252537789094104e-05, 2.772075106584055e-05, -3.291710200119782e-05, 3.0600670253178444e-05,
                      -2.3789122941831962e-05, 1.702001026283768e-05, -1.2918415266537237e-05);
        p = DL_HORNER(DL_MUL_ADD, q, p, 1.2381482760059381e-05, -1.7617272534704176e-05, 4.33016528225657e-05,
                      -0.00023071288344929662, 0.00468749999992438, 1.0);
        s = DL_HORNER(DL_MUL_ADD, q, -3.681176510877257e-07, 3.04205575228235e-06, -1.153569557354048e-05,
                      2.6699278931470453e-05, -4.241641404457877e-05, 4.953580265495501e-05, -4.487492638691575e-05,
                      3.344539273837006e-05, -2.2300007468308754e-05, 1.5103133311430138e-05);
        s = DL_HORNER(DL_MUL_ADD, q, s, -1.2247307721514988e-05, 1.3942055955236868e-05, -2.5516750540055748e-05,
                      8.882445098940869e-05, -0.0008203124998753379, 0.075);
    } else {
        p = DL_HORNER(DL_MUL_ADD, q, -2.1947019502629731e-07, 1.8215812339016e-06, -6.946666977615695e-06,
                      1.6200159339150687e-05, -2.6010497884392348e-05, 3.085163217350973e-05, -2.862891927162811e-05,
                      2.2187948483389827e-05, -1.5788186968357777e-05, 1.186980041001182e-05);
        p = DL_HORNER(DL_MUL_ADD, q, p, -1.1199528424862084e-05, 1.5544312174671152e-05, -3.663983359744827e-05,
                      0.0001794433526093019, -0.002812499999928725, 1.0);
        s = DL_HORNER(DL_MUL_ADD, q, 3.4680942341565547e-07, -2.865224946747701e-06, 1.0861468846896167e-05,
                      -2.5127316500046334e-05, 3.9893386604579194e-05, -4.654471749802638e-05, 4.2101596942487915e-05,
                      -3.129897698593471e-05, 2.077639947507157e-05, -1.3962477263053249e-05);
        s = DL_HORNER(DL_MUL_ADD, q, s, 1.1178383520021883e-05, -1.2473996834328681e-05, 2.2114481410673456e-05,
                      -7.267454930364877e-05, 0.0005859374998822693, -0.025);
    }
    s *= w;
    double r = order != second ? p * less + s * more : p * more - s * less;
    return x == INFINITY ? 0.0 : (order & second ? -r : r) * sqrt(0.31830988618379067 / x);
}
DL_VECTOR double dl_vj0_near_f64(double z) {
    double p = DL_HORNER(DL_MUL_ADD, z, 2.0341927845004524e-25, -1.4450771453697688e-22, 7.142208900862133e-20,
                         -2.8551500545432677e-17, 9.220765161035753e-15, -2.349481080675043e-12, 4.573627841805843e-10,
                         -6.517182618655711e-08, 6.404783237165446e-06, -0.0003969877252643179);
    return (z - 5.7831859629467845) * DL_HORNER(DL_MUL_ADD, z, p, 0.013329146159788459, -0.1729150690306449);
}
DL_VECTOR double dl_vj1_near_f64(double z) {
    double p = DL_HORNER(DL_MUL_ADD, z, -4.839071514748574e-24, 3.1279893126182217e-21, -1.3988670397047052e-18,
                         5.008112760946279e-16, -1.4282097986976236e-13, 3.154239370607896e-11, -5.1882987131411594e-09,
                         6.019939526535025e-07, -4.5415014680363124e-05, 0.0019373847544142224);
    return (z - 14.681970642123893) * (p * z + -0.03405537391318947);
}
DL_VECTOR double dl_vj0_f64(double x) {
    double y = fabs(x), s = y < 5.0 ? y : 5.0, far = dl_vj_far_f64(0, 0, y < 5.0 ? 5.0 : y);
    return y < 5.0 ? dl_vj0_near_f64(s * s) : far;
}
DL_VECTOR double dl_vj1_f64(double x) {
    double y = fabs(x), s = y < 5.0 ? x : 5.0, far = copysign(1.0, x) * dl_vj_far_f64(1, 0, y < 5.0 ? 5.0 : y);
    return y < 5.0 ? dl_vj1_near_f64(s * s) * s : far;
}
DL_VECTOR double dl_vy0_f64(double x) {
    double s = x < 5.0 ? x : 5.0, far = dl_vj_far_f64(0, 1, x < 5.0 ? 5.0 : x), z = s * s;
    double p = DL_HORNER(DL_MUL_ADD, z, -4.157817561682081e-25, 2.9066959942498987e-22, -1.4005726672281598e-19,
                         5.430181705976905e-17, -1.6932556454450405e-14, 4.1435637649297396e-12, -7.693079733106324e-10,
                         1.0358476024053166e-07, -9.495005204870724e-06, 0.0005386026668608899);
    p = DL_HORNER(DL_MUL_ADD, z, p, -0.01607396802593756, 0.17760601686906677, -0.07380429510868719);
    double near = p + 0.63661977236758134 * (dl_vlog_f64(s) * dl_vj0_near_f64(z));
    return x < 5.0 ? near : far;
}
DL_VECTOR double dl_vy1_f64(double x) {
    double s = x < 5.0 ? x : 5.0, far = dl_vj_far_f64(1, 1, x < 5.0 ? 5.0 : x), z = s * s;
    double p = DL_HORNER(DL_MUL_ADD, z, 9.847429470614454e-24, -6.3023548035639075e-21, 2.7552069426905628e-18,
                         -9.589969133003098e-16, 2.6494577552663575e-13, -5.648022066037147e-11, 8.931879449771897e-09,
                         -9.926740611921914e-07, 7.164268749780145e-05, -0.0029553053360772464);
    p = DL_HORNER(DL_MUL_ADD, z, p, 0.05434868816050889, -0.19605709064623883);
    double log = dl_vlog_f64(s > 1e-300 ? s : 1e-300) * dl_vj1_near_f64(z) * s;
    double near = p * s + 0.63661977236758134 * (log - 1.0 / s);
    return x < 5.0 ? near : far;
}
