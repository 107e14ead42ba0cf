/* The logarithm of the gamma function of f32 that compilers vectorise, as the functions of vmath.h: below 3 a
 * polynomial times the two zeros, above Stirling's series; below 0 by reflection. */
#pragma once

#include "cpu/runtime/vmath_circle.h"

/* For x > 0: t is the distance from 2, or below 1 that of x + 1. */
DL_VECTOR float dl_vlgamma_above(float x) {
    float t = x < 1.0f ? x - 1.0f : x < 3.0f ? x - 2.0f : 0.0f, w = x < 3.0f ? 3.0f : x, q = 1.0f / w, z = q * q;
    float p =
        DL_HORNER(DL_MUL_ADD, t, -3.87407558e-05f, 7.81911924e-05f, -5.2401713e-05f, 0.000130593173f, -0.000425588405f,
                  0.000944331241f, -0.00210205471f, 0.00499154847f, -0.0123849762f, 0.0329656273f);
    float log = dl_vlog(x < 1.0f ? x : w), near = (p * t + -0.100317273f) * t + 0.422784326f;
    near *= t * (t + 1.0f);
    float far =
        (w - 0.5f) * (log - 1.0f) + (0.418938533f + q * DL_HORNER(DL_MUL_ADD, z, -0.000455589266f, 0.000784910435f,
                                                                  -0.00277759405f, 0.0833333327f));
    return x < 1.0f ? near - log : x < 3.0f ? near : x < INFINITY ? far : x;
}
/* Below 0 it is ln(pi / |sin(pi x)|) less that of 1 - x. */
DL_VECTOR float dl_vlgamma(float x) {
    float above = dl_vlgamma_above(x < 0.0f ? 1.0f - x : x), rest = fabsf(x) < 1e7f ? x - nearbyintf(x) : 0.0f;
    float sine = dl_vsin(3.14159265f * fabsf(x < 0.0f ? rest : 0.5f));
    return x < 0.0f ? (x == -INFINITY ? INFINITY : 1.14472989f - dl_vlog(sine) - above) : above;
}
