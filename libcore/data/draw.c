/* Random numbers for data, see draw.h. */
#include "data/draw.h"

#include <math.h>

#include "core/rng_math.h"

uint32_t dl_draw_below(dl_draw *r, uint32_t n) {
    uint64_t m = (uint64_t)dl_draw_u32(r) * n;
    if ((uint32_t)m < n)
        for (uint32_t least = -n % n; (uint32_t)m < least;) m = (uint64_t)dl_draw_u32(r) * n;
    return (uint32_t)(m >> 32);
}

/* Taylor's series on an eighth of a turn, where nine terms leave less than 1e-17. */
static void eighth(double x, double *s, double *c) {
    double q = x * x, sum = 0, cosine = 0;
    for (int k = 17; k >= 1; k -= 2) sum = 1 - q * sum / ((k + 1) * (k + 2));
    for (int k = 16; k >= 0; k -= 2) cosine = 1 - q * cosine / ((k + 1) * (k + 2));
    *s = x * sum, *c = cosine;
}

void dl_fixed_sincos(double turns, double *s, double *c) {
    double t = turns - floor(turns), n = floor(t * 4 + 0.5), a, b;
    eighth((t - n / 4) * 6.283185307179586477, &a, &b);
    int quadrant = (int)n & 3;
    *s = quadrant & 1 ? b : a, *c = quadrant & 1 ? a : b;
    if (quadrant == 2 || quadrant == 3) *s = -*s;
    if (quadrant == 1 || quadrant == 2) *c = -*c;
}

double dl_draw_normal(dl_draw *r) {
    uint32_t w0 = dl_draw_u32(r), w1 = dl_draw_u32(r);
    float z0, z1;
    dl_rng_normal(w0, w1, &z0, &z1);
    return z0;
}

void dl_draw_permutation(dl_draw *r, long n, long *order) {
    for (long i = 0; i < n; i++) order[i] = i;
    for (long i = n - 1; i > 0; i--) {
        long j = dl_draw_below(r, (uint32_t)(i + 1)), t = order[i];
        order[i] = order[j], order[j] = t;
    }
}
