/* Fourier transforms: Stockham's passes over lanes, a transform in each; long ones in four steps, whose rows and
 * columns are such lanes; other lengths by convolution. Includes itself once an element type. */
#ifndef REAL
#include "cpu/kernels/fft/fft.h"

#include <string.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* these functions are inlined: no vector crosses a call */

typedef float dl_vf __attribute__((vector_size(DL_FFT_LANE_BYTES)));
typedef double dl_vd __attribute__((vector_size(DL_FFT_LANE_BYTES)));

#define LANES ((long)(DL_FFT_LANE_BYTES / sizeof(REAL)))
enum { TILE = 16 };
/* Functions for the type by names that read as calls. */
#define LOAD_AT S(load_at)
#define STORE_AT S(store_at)
#define LOAD S(load)
#define STORE S(store)
#define LOAD_ROW S(load_row)
#define STORE_ROW S(store_row)
#define STEP S(step)
#define TRANSFORM S(transform)
#define CONVOLVE S(convolve)

/* The lanes of two vectors, a's before b's: the even and the odd ones, and both in turn. */
#define EVEN_f32 0, 2, 4, 6, 8, 10, 12, 14
#define ODD_f32 1, 3, 5, 7, 9, 11, 13, 15
#define FIRST_f32 0, 8, 1, 9, 2, 10, 3, 11
#define SECOND_f32 4, 12, 5, 13, 6, 14, 7, 15
#define EVEN_f64 0, 2, 4, 6
#define ODD_f64 1, 3, 5, 7
#define FIRST_f64 0, 4, 1, 5
#define SECOND_f64 2, 6, 3, 7

#define BOTH_REALS "cpu/kernels/fft/fft_simd.c"
#include "cpu/runtime/both_reals.def"

#define LOOPS(t, size)                                                                                                 \
    { DL_FFT_LANE_BYTES / size, run_lanes_##t, run_row_##t, step_##t, load_row_##t, store_row_##t, transform_##t }
const dl_fft_loops DL_SIMD_NAME(dl_fft)[2] = {LOOPS(f32, 4), LOOPS(f64, 8)};

#else

/* ---- passes: element j of all lanes has its real parts at x[2 j], its imaginary ones at x[2 j + 1] */

typedef struct S(pass) {
    long left, done; /* this pass splits transforms of left * factor elements, `done` of them side by side */
    const REAL *w;
} S(pass);

#define TURN(re, im, k)                                                                                                \
    do {                                                                                                               \
        const REAL c_ = w[2 * (k)-2], s_ = w[2 * (k)-1];                                                               \
        VEC r_ = re;                                                                                                   \
        re = r_ * c_ - im * s_;                                                                                        \
        im = r_ * s_ + im * c_;                                                                                        \
    } while (0)
#define IN(k) (x + 2 * (q + t->done * (p + t->left * (k))))
#define OUT(k) (y + 2 * (q + t->done * (radix * p + (k))))
#define EACH(radix_)                                                                                                   \
    const long radix = radix_;                                                                                         \
    for (long p = 0; p < t->left; p++)                                                                                 \
        for (long q = 0; q < t->done; q++)

static void S(pass2)(const S(pass) * t, const VEC *restrict x, VEC *restrict y) {
    EACH(2) {
        const REAL *w = t->w + 2 * p;
        VEC ar = IN(0)[0], ai = IN(0)[1], br = IN(1)[0], bi = IN(1)[1], dr = ar - br, di = ai - bi;
        TURN(dr, di, 1);
        OUT(0)[0] = ar + br, OUT(0)[1] = ai + bi;
        OUT(1)[0] = dr, OUT(1)[1] = di;
    }
}

static void S(pass3)(const S(pass) * t, const VEC *restrict x, VEC *restrict y) {
    const REAL half = (REAL)0.5, sine = (REAL)0.86602540378443864676;
    EACH(3) {
        const REAL *w = t->w + 4 * p;
        VEC ar = IN(0)[0], ai = IN(0)[1], br = IN(1)[0], bi = IN(1)[1], cr = IN(2)[0], ci = IN(2)[1];
        VEC sr = br + cr, si = bi + ci, dr = (bi - ci) * sine, di = (cr - br) * sine;
        VEC mr = ar - sr * half, mi = ai - si * half, ur = mr + dr, ui = mi + di, vr = mr - dr, vi = mi - di;
        TURN(ur, ui, 1);
        TURN(vr, vi, 2);
        OUT(0)[0] = ar + sr, OUT(0)[1] = ai + si;
        OUT(1)[0] = ur, OUT(1)[1] = ui;
        OUT(2)[0] = vr, OUT(2)[1] = vi;
    }
}

static void S(pass4)(const S(pass) * t, const VEC *restrict x, VEC *restrict y) {
    EACH(4) {
        const REAL *w = t->w + 6 * p;
        VEC ar = IN(0)[0], ai = IN(0)[1], br = IN(1)[0], bi = IN(1)[1];
        VEC cr = IN(2)[0], ci = IN(2)[1], dr = IN(3)[0], di = IN(3)[1];
        VEC er = ar + cr, ei = ai + ci, fr = ar - cr, fi = ai - ci;
        VEC gr = br + dr, gi = bi + di, hr = bi - di, hi = dr - br; /* h = -i (b - d) */
        VEC ur = fr + hr, ui = fi + hi, vr = er - gr, vi = ei - gi, zr = fr - hr, zi = fi - hi;
        TURN(ur, ui, 1);
        TURN(vr, vi, 2);
        TURN(zr, zi, 3);
        OUT(0)[0] = er + gr, OUT(0)[1] = ei + gi;
        OUT(1)[0] = ur, OUT(1)[1] = ui;
        OUT(2)[0] = vr, OUT(2)[1] = vi;
        OUT(3)[0] = zr, OUT(3)[1] = zi;
    }
}

static void S(pass5)(const S(pass) * t, const VEC *restrict x, VEC *restrict y) {
    const REAL c1 = (REAL)0.30901699437494742410, c2 = (REAL)-0.80901699437494742410;
    const REAL s1 = (REAL)0.95105651629515357212, s2 = (REAL)0.58778525229247312917;
    EACH(5) {
        const REAL *w = t->w + 8 * p;
        VEC ar = IN(0)[0], ai = IN(0)[1];
        VEC br = IN(1)[0] + IN(4)[0], bi = IN(1)[1] + IN(4)[1], er = IN(1)[0] - IN(4)[0], ei = IN(1)[1] - IN(4)[1];
        VEC cr = IN(2)[0] + IN(3)[0], ci = IN(2)[1] + IN(3)[1], dr = IN(2)[0] - IN(3)[0], di = IN(2)[1] - IN(3)[1];
        VEC mr = ar + br * c1 + cr * c2, mi = ai + bi * c1 + ci * c2, nr = ar + br * c2 + cr * c1,
            ni = ai + bi * c2 + ci * c1;
        VEC or = ei * s1 + di * s2, oi = -(er * s1 + dr * s2), pr = ei * s2 - di * s1, pi = -(er * s2 - dr * s1);
        VEC ur = mr + or, ui = mi + oi, vr = nr + pr, vi = ni + pi, gr = nr - pr, gi = ni - pi, hr = mr - or,
            hi = mi - oi;
        TURN(ur, ui, 1);
        TURN(vr, vi, 2);
        TURN(gr, gi, 3);
        TURN(hr, hi, 4);
        OUT(0)[0] = ar + br + cr, OUT(0)[1] = ai + bi + ci;
        OUT(1)[0] = ur, OUT(1)[1] = ui, OUT(2)[0] = vr, OUT(2)[1] = vi;
        OUT(3)[0] = gr, OUT(3)[1] = gi, OUT(4)[0] = hr, OUT(4)[1] = hi;
    }
}

/* Any factor, by its roots of unity. */
static void S(pass_any)(const S(pass) * t, long factor, const REAL *root, const VEC *restrict x, VEC *restrict y) {
    VEC a[2 * DL_FFT_MAX_RADIX];
    EACH(factor) {
        const REAL *w = t->w + 2 * (factor - 1) * p;
        for (long k = 0; k < factor; k++) a[2 * k] = IN(k)[0], a[2 * k + 1] = IN(k)[1];
        for (long k = 0; k < factor; k++) {
            VEC re = a[0], im = a[1];
            for (long j = 1, at = k; j < factor; j++, at = at + k < factor ? at + k : at + k - factor) {
                const REAL c = root[2 * at], s = root[2 * at + 1];
                re += a[2 * j] * c - a[2 * j + 1] * s;
                im += a[2 * j] * s + a[2 * j + 1] * c;
            }
            if (k) TURN(re, im, k);
            OUT(k)[0] = re, OUT(k)[1] = im;
        }
    }
}
#undef EACH
#undef IN
#undef OUT
#undef TURN

/* All passes, from x to x or y by turns; returns where the result is. */
static VEC *S(passes)(const dl_fft_plan *f, VEC *x, VEC *y) {
    S(pass) t = {f->n, 1, NULL};
    for (int i = 0; i < f->nfactors; i++) {
        const long r = f->factor[i];
        t.left /= r;
        t.w = f->twiddle[i];
        if (r == 4)
            S(pass4)(&t, x, y);
        else if (r == 2)
            S(pass2)(&t, x, y);
        else if (r == 3)
            S(pass3)(&t, x, y);
        else if (r == 5)
            S(pass5)(&t, x, y);
        else
            S(pass_any)(&t, r, f->roots[i], x, y);
        t.done *= r;
        VEC *other = x;
        x = y, y = other;
    }
    return x;
}

/* ---- one transform z, pairs of parts, in four steps through t */

static void S(step)(const dl_fft_plan *f, int step, long from, const void *z_, void *t_, void *work) {
    const dl_fft_plan *own = step ? f->columns : f->rows;
    const long n = own->n, across = step ? f->rows->n : f->columns->n,
               some = across - from < LANES ? across - from : LANES;
    const REAL *z = z_;
    VEC *x = work, *y = x + 2 * n;
    REAL *lane = work;
    if (some < LANES) memset(x, 0, (size_t)n * 2 * sizeof *x);
    for (long j = 0; j < n; j++) {
        const REAL *from_row = z + 2 * (j * across + from);
        for (long l = 0; l < some; l++) {
            lane[2 * j * LANES + l] = from_row[2 * l];
            lane[(2 * j + 1) * LANES + l] = from_row[2 * l + 1];
        }
    }
    x = S(passes)(own, x, y);
    lane = (REAL *)x;
    if (step) {
        REAL *to = t_;
        for (long k = 0; k < n; k++)
            for (long l = 0; l < some; l++) {
                to[2 * (k * across + from + l)] = lane[2 * k * LANES + l];
                to[2 * (k * across + from + l) + 1] = lane[(2 * k + 1) * LANES + l];
            }
        return;
    }
    const VEC *turn = (const VEC *)f->turn + 2 * n * (from / LANES);
    for (long k = 0; k < n; k++) {
        VEC re = x[2 * k], im = x[2 * k + 1];
        x[2 * k] = re * turn[2 * k] - im * turn[2 * k + 1];
        x[2 * k + 1] = re * turn[2 * k + 1] + im * turn[2 * k];
    }
    REAL *to = t_;
    for (long k = 0; k < n; k += TILE)
        for (long l = 0; l < some; l++)
            for (long i = k; i < n && i < k + TILE; i++) {
                to[2 * ((from + l) * n + i)] = lane[2 * i * LANES + l];
                to[2 * ((from + l) * n + i) + 1] = lane[(2 * i + 1) * LANES + l];
            }
}

/* From z to out, which may be z; work: n pairs, then the lanes of a step. */
static void S(transform_to)(const dl_fft_plan *f, const void *z, void *out, void *work) {
    char *lanes = (char *)work +
                  ((size_t)f->n * 2 * sizeof(REAL) + DL_FFT_LANE_BYTES - 1) / DL_FFT_LANE_BYTES * DL_FFT_LANE_BYTES;
    for (int step = 0; step < 2; step++) {
        const long across = step ? f->rows->n : f->columns->n;
        for (long from = 0; from < across; from += LANES)
            STEP(f, step, from, step ? work : z, step ? out : work, lanes);
    }
}

static void S(transform)(const dl_fft_plan *f, void *z, void *work) { S(transform_to)(f, z, z, work); }

/* Bluestein's way: w**(jk) = chirp[j] chirp[k] / chirp[k - j], a convolution. */
static void S(convolve)(const dl_fft_plan *f, REAL *restrict z, REAL *restrict work) {
    const long n = f->n, m = f->wide->n;
    const REAL *restrict c = f->chirp, *restrict b = f->filter;
    REAL *restrict a = work, *rest = a + 2 * m;
    for (long j = 0; j < n; j++) {
        a[2 * j] = z[2 * j] * c[2 * j] - z[2 * j + 1] * c[2 * j + 1];
        a[2 * j + 1] = z[2 * j] * c[2 * j + 1] + z[2 * j + 1] * c[2 * j];
    }
    memset(a + 2 * n, 0, (size_t)(m - n) * 2 * sizeof *a);
    TRANSFORM(f->wide, a, rest);
    for (long j = 0; j < m; j++) { /* the conjugate of the product: a forward transform then is the inverse one's */
        REAL re = a[2 * j] * b[2 * j] - a[2 * j + 1] * b[2 * j + 1];
        REAL im = a[2 * j] * b[2 * j + 1] + a[2 * j + 1] * b[2 * j];
        a[2 * j] = re, a[2 * j + 1] = -im;
    }
    TRANSFORM(f->wide, a, rest);
    for (long j = 0; j < n; j++) {
        REAL re = a[2 * j], im = -a[2 * j + 1];
        z[2 * j] = re * c[2 * j] - im * c[2 * j + 1];
        z[2 * j + 1] = re * c[2 * j + 1] + im * c[2 * j];
    }
}

/* ---- between tensors and the transform. An inverse transform is the forward one with the two parts exchanged. Real
 * numbers go by twos: those of one as real parts, those of the other as imaginary ones. */

typedef struct S(ends) {
    REAL *re, *im; /* of element 0 */
    long step;     /* to the next element */
} S(ends);

static const REAL *S(source)(const dl_fft_job *j, long row, long length, int parts) {
    return (const REAL *)j->in + parts * (row / j->inner * length * j->inner + row % j->inner);
}

/* Elements from..to of a transform; `b`: is there a second row of real numbers? */
static inline __attribute__((always_inline)) void S(load_at)(const dl_fft_job *j, long row, bool b, S(ends) e,
                                                             long from, long to, const long in, const long step) {
    const long half = j->n / 2 + 1;
    if (j->kind == DL_FFT_COMPLEX) {
        const REAL *x = S(source)(j, row, j->n, 2);
        for (long k = from; k < to; k++) e.re[k * step] = x[2 * k * in], e.im[k * step] = x[2 * k * in + 1];
        return;
    }
    if (j->kind == DL_FFT_FROM_REAL) {
        const REAL *x = S(source)(j, row, j->n, 1), *y = b ? S(source)(j, row + 1, j->n, 1) : NULL;
        for (long k = from; k < to; k++) e.re[k * step] = x[k * in], e.im[k * step] = y ? y[k * in] : 0;
        return;
    }
    const REAL *x = S(source)(j, row, half, 2), *y = b ? S(source)(j, row + 1, half, 2) : NULL;
    for (long k = from; k < to; k++) {
        const long at = k < half ? k : j->n - k;
        const bool own = at == 0 || 2 * at == j->n; /* its own conjugate: the imaginary part does not count */
        REAL ar = x[2 * at * in], ai = own ? 0 : x[2 * at * in + 1];
        REAL br = y ? y[2 * at * in] : 0, bi = !y || own ? 0 : y[2 * at * in + 1];
        if (j->once && !own) ar /= 2, ai /= 2, br /= 2, bi /= 2;
        if (k >= half) ai = -ai, bi = -bi;
        e.re[k * step] = ar - bi, e.im[k * step] = ai + br;
    }
}

/* Strides that are known beforehand make loops of vectors. */
static void S(load)(const dl_fft_job *j, long row, bool b, S(ends) e, long from, long to) {
    if (j->inner == 1 && e.step == 2)
        LOAD_AT(j, row, b, e, from, to, 1, 2);
    else if (j->inner == 1 && e.step == 2 * LANES)
        LOAD_AT(j, row, b, e, from, to, 1, 2 * LANES);
    else
        LOAD_AT(j, row, b, e, from, to, j->inner, e.step);
}

static inline __attribute__((always_inline)) void S(store_at)(const dl_fft_job *j, long row, bool b, S(ends) e,
                                                              long from, long to, const long in, const long step) {
    const long half = j->n / 2 + 1;
    const REAL s = (REAL)j->scale;
#define TARGET(row, length, parts) ((REAL *)j->out + (parts) * ((row) / in * (length)*in + (row) % in))
    if (j->kind == DL_FFT_COMPLEX) {
        REAL *y = TARGET(row, j->n, 2);
        for (long k = from; k < to; k++) y[2 * k * in] = e.re[k * step] * s, y[2 * k * in + 1] = e.im[k * step] * s;
        return;
    }
    if (j->kind == DL_FFT_TO_REAL) {
        REAL *x = TARGET(row, j->n, 1), *y = b ? TARGET(row + 1, j->n, 1) : NULL;
        for (long k = from; k < to; k++) {
            x[k * in] = e.re[k * step] * s;
            if (y) y[k * in] = e.im[k * step] * s;
        }
        return;
    }
    REAL *x = TARGET(row, half, 2), *y = b ? TARGET(row + 1, half, 2) : NULL;
    for (long k = from; k < to && k < half; k++) {
        const long other = (k ? j->n - k : 0) * step, at = k * step;
        const REAL t = s / (j->once && k && 2 * k != j->n ? 1 : 2);
        x[2 * k * in] = (e.re[at] + e.re[other]) * t, x[2 * k * in + 1] = (e.im[at] - e.im[other]) * t;
        if (y) y[2 * k * in] = (e.im[at] + e.im[other]) * t, y[2 * k * in + 1] = (e.re[other] - e.re[at]) * t;
    }
#undef TARGET
}

/* Strides that are known beforehand make loops of vectors. */
static void S(store)(const dl_fft_job *j, long row, bool b, S(ends) e, long from, long to) {
    if (j->inner == 1 && e.step == 2)
        STORE_AT(j, row, b, e, from, to, 1, 2);
    else if (j->inner == 1 && e.step == 2 * LANES)
        STORE_AT(j, row, b, e, from, to, 1, 2 * LANES);
    else
        STORE_AT(j, row, b, e, from, to, j->inner, e.step);
}

static S(ends) S(part_ends)(const dl_fft_job *j, REAL *re, REAL *im, long step) {
    return j->inverse ? (S(ends)){im, re, step} : (S(ends)){re, im, step};
}

/* ---- whole lanes, by vectors */

static inline VEC S(at)(const REAL *p) {
    VEC v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void S(put)(REAL *p, VEC v) { memcpy(p, &v, sizeof v); }

/* Rows become columns: as many perfect shuffles of all lanes as a lane's number has bits. */
static inline __attribute__((always_inline)) void S(transpose)(VEC *v) {
    VEC t[LANES];
    for (int bit = 1; bit < LANES; bit *= 2) {
        for (int i = 0; i < LANES / 2; i++) {
            t[2 * i] = __builtin_shufflevector(v[i], v[i + LANES / 2], S(FIRST));
            t[2 * i + 1] = __builtin_shufflevector(v[i], v[i + LANES / 2], S(SECOND));
        }
        memcpy(v, t, sizeof t);
    }
}

/* Transforms whose elements stand side by side in memory: a line of memory has element k of all lanes. */
static void S(load_side)(const dl_fft_job *j, long from, VEC *x) {
    const REAL *p = S(source)(j, from, j->n, 2);
    const int re = j->inverse, im = !j->inverse;
    for (long k = 0; k < j->n; k++, p += 2 * j->inner) {
        const VEC a = S(at)(p), b = S(at)(p + LANES);
        x[2 * k + re] = __builtin_shufflevector(a, b, S(EVEN)), x[2 * k + im] = __builtin_shufflevector(a, b, S(ODD));
    }
}
static void S(store_side)(const dl_fft_job *j, long from, const VEC *x) {
    REAL *p = (REAL *)j->out + (S(source)(j, from, j->n, 2) - (const REAL *)j->in);
    const int re = j->inverse, im = !j->inverse;
    const REAL s = (REAL)j->scale;
    for (long k = 0; k < j->n; k++, p += 2 * j->inner) {
        const VEC a = x[2 * k + re] * s, b = x[2 * k + im] * s;
        S(put)(p, __builtin_shufflevector(a, b, S(FIRST))), S(put)(p + LANES, __builtin_shufflevector(a, b, S(SECOND)));
    }
}

/* Transforms one after another. Elements up to the last whole vector of a row; how many these are. */
static long S(load_complex)(const dl_fft_job *j, long from, VEC *x) {
    const REAL *p = (const REAL *)j->in + 2 * from * j->n;
    const long whole = 2 * j->n / LANES * LANES;
    for (long k = 0; k < whole; k += LANES) {
        VEC v[LANES];
        for (int l = 0; l < LANES; l++) v[l] = S(at)(p + 2 * l * j->n + k);
        S(transpose)(v);
        for (int i = 0; i < LANES; i++) x[k + (j->inverse ? i ^ 1 : i)] = v[i];
    }
    return whole / 2;
}
static long S(store_complex)(const dl_fft_job *j, long from, const VEC *x) {
    REAL *p = (REAL *)j->out + 2 * from * j->n;
    const long whole = 2 * j->n / LANES * LANES;
    for (long k = 0; k < whole; k += LANES) {
        VEC v[LANES];
        for (int i = 0; i < LANES; i++) v[i] = x[k + (j->inverse ? i ^ 1 : i)] * (REAL)j->scale;
        S(transpose)(v);
        for (int l = 0; l < LANES; l++) S(put)(p + 2 * l * j->n + k, v[l]);
    }
    return whole / 2;
}

/* The same of real numbers, two rows a lane. */
static long S(load_real)(const dl_fft_job *j, long from, VEC *x) {
    const REAL *p = (const REAL *)j->in + from * j->n;
    const long whole = j->n / LANES * LANES;
    for (long k = 0; k < whole; k += LANES)
        for (int part = 0; part < 2; part++) {
            VEC v[LANES];
            for (int l = 0; l < LANES; l++) v[l] = S(at)(p + (2 * l + part) * j->n + k);
            S(transpose)(v);
            for (int i = 0; i < LANES; i++) x[2 * (k + i) + (j->inverse ? !part : part)] = v[i];
        }
    return whole;
}
static long S(store_real)(const dl_fft_job *j, long from, const VEC *x) {
    REAL *p = (REAL *)j->out + from * j->n;
    const long whole = j->n / LANES * LANES;
    for (long k = 0; k < whole; k += LANES)
        for (int part = 0; part < 2; part++) {
            VEC v[LANES];
            for (int i = 0; i < LANES; i++) v[i] = x[2 * (k + i) + (j->inverse ? !part : part)] * (REAL)j->scale;
            S(transpose)(v);
            for (int l = 0; l < LANES; l++) S(put)(p + (2 * l + part) * j->n + k, v[l]);
        }
    return whole;
}

/* Half of the frequencies of two rows a lane, see load_at and store_at. */
static long S(load_half)(const dl_fft_job *j, long from, VEC *x) {
    const long half = j->n / 2 + 1, whole = 2 * half / LANES * LANES;
    const REAL *p = (const REAL *)j->in + 2 * from * half;
    const int re = j->inverse, im = !j->inverse;
    for (long k = 0; k < whole; k += LANES) {
        VEC a[LANES], b[LANES];
        for (int l = 0; l < LANES; l++) a[l] = S(at)(p + 4 * l * half + k), b[l] = S(at)(p + (4 * l + 2) * half + k);
        S(transpose)(a), S(transpose)(b);
        for (int i = 0; i < LANES; i += 2) {
            const long at = (k + i) / 2;
            const bool own = at == 0 || 2 * at == j->n;
            const REAL by = own || !j->once ? 1 : (REAL)0.5;
            const VEC ar = a[i] * by, ai = own ? (VEC){0} : a[i + 1] * by, br = b[i] * by,
                      bi = own ? (VEC){0} : b[i + 1] * by;
            x[2 * at + re] = ar - bi, x[2 * at + im] = ai + br;
            if (!own) x[2 * (j->n - at) + re] = ar + bi, x[2 * (j->n - at) + im] = br - ai;
        }
    }
    return whole / 2;
}
static long S(store_half)(const dl_fft_job *j, long from, const VEC *x) {
    const long half = j->n / 2 + 1, whole = 2 * half / LANES * LANES;
    REAL *p = (REAL *)j->out + 2 * from * half;
    const int re = j->inverse, im = !j->inverse;
    for (long k = 0; k < whole; k += LANES) {
        VEC a[LANES], b[LANES];
        for (int i = 0; i < LANES; i += 2) {
            const long at = (k + i) / 2, other = at ? j->n - at : 0;
            const REAL t = (REAL)j->scale / (j->once && at && 2 * at != j->n ? 1 : 2);
            const VEC ur = x[2 * at + re], ui = x[2 * at + im], vr = x[2 * other + re], vi = x[2 * other + im];
            a[i] = (ur + vr) * t, a[i + 1] = (ui - vi) * t, b[i] = (ui + vi) * t, b[i + 1] = (vr - ur) * t;
        }
        S(transpose)(a), S(transpose)(b);
        for (int l = 0; l < LANES; l++) S(put)(p + 4 * l * half + k, a[l]), S(put)(p + (4 * l + 2) * half + k, b[l]);
    }
    return whole / 2;
}

static bool S(side_by_side)(const dl_fft_job *j, long from) {
    return j->kind == DL_FFT_COMPLEX && from % j->inner + LANES <= j->inner;
}

/* Elements of all lanes that vectors bring in or out; the others follow one by one. */
static long S(load_lanes)(const dl_fft_job *j, long from, VEC *x) {
    if (S(side_by_side)(j, from)) return S(load_side)(j, from, x), j->n;
    if (j->inner != 1) return 0;
    return j->kind == DL_FFT_COMPLEX     ? S(load_complex)(j, from, x)
           : j->kind == DL_FFT_FROM_REAL ? S(load_real)(j, from, x)
                                         : S(load_half)(j, from, x);
}
static long S(store_lanes)(const dl_fft_job *j, long from, const VEC *x) {
    if (S(side_by_side)(j, from)) return S(store_side)(j, from, x), j->n;
    if (j->inner != 1) return 0;
    return j->kind == DL_FFT_COMPLEX   ? S(store_complex)(j, from, x)
           : j->kind == DL_FFT_TO_REAL ? S(store_real)(j, from, x)
                                       : S(store_half)(j, from, x);
}

static void S(run_lanes)(const dl_fft_job *j, long from, long count, void *work) {
    const long each = j->kind == DL_FFT_COMPLEX ? 1 : 2, lanes = (count + each - 1) / each;
    const bool whole = count == each * LANES;
    VEC *x = work, *y = x + 2 * j->n;
    REAL *lane = work;
    if (lanes < LANES) memset(x, 0, (size_t)j->n * 2 * sizeof *x);
    long first = whole ? S(load_lanes)(j, from, x) : 0, end = j->n;
    /* half of the frequencies bring in the other half with them */
    if (j->kind == DL_FFT_TO_REAL && first) end = j->n - first + 1;
    for (long k = first; k < end; k += TILE)
        for (long l = 0; l < lanes; l++)
            LOAD(j, from + l * each, l * each + 1 < count, S(part_ends)(j, lane + l, lane + LANES + l, 2 * LANES), k,
                 k + TILE < end ? k + TILE : end);
    x = S(passes)(j->plan, x, y), lane = (REAL *)x;
    first = whole ? S(store_lanes)(j, from, x) : 0;
    for (long k = first; k < j->n; k += TILE)
        for (long l = 0; l < lanes; l++)
            STORE(j, from + l * each, l * each + 1 < count, S(part_ends)(j, lane + l, lane + LANES + l, 2 * LANES), k,
                  k + TILE < j->n ? k + TILE : j->n);
}

static void S(load_row)(const dl_fft_job *j, long from, long count, void *z) {
    LOAD(j, from, count > 1, S(part_ends)(j, z, (REAL *)z + 1, 2), 0, j->n);
}

static void S(store_row)(const dl_fft_job *j, long from, long count, const void *z) {
    STORE(j, from, count > 1, S(part_ends)(j, (REAL *)z, (REAL *)z + 1, 2), 0, j->n);
}

/* Complex numbers that stand one after another are read and written where they are. */
static bool S(in_place)(const dl_fft_job *j, long from, void *work) {
    if (j->kind != DL_FFT_COMPLEX || j->inverse || j->inner != 1 || j->plan->wide) return false;
    REAL *out = (REAL *)j->out + 2 * from * j->n;
    S(transform_to)(j->plan, (const REAL *)j->in + 2 * from * j->n, out, work);
    for (long k = 0; j->scale != 1 && k < 2 * j->n; k++) out[k] *= (REAL)j->scale;
    return true;
}

static void S(run_row)(const dl_fft_job *j, long from, long count, void *work) {
    const size_t pairs = ((size_t)j->n * 2 * sizeof(REAL) + DL_FFT_LANE_BYTES - 1) / DL_FFT_LANE_BYTES;
    void *rest = (char *)work + pairs * DL_FFT_LANE_BYTES;
    if (S(in_place)(j, from, rest)) return;
    LOAD_ROW(j, from, count, work);
    if (j->plan->wide)
        CONVOLVE(j->plan, work, rest);
    else
        TRANSFORM(j->plan, work, rest);
    STORE_ROW(j, from, count, work);
}

#endif
