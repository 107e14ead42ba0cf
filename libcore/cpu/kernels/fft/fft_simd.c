/* Fourier transforms: Stockham's passes over lanes, a transform in each; long ones in four steps, whose rows and
 * columns are such lanes; other lengths by convolution. Includes itself once an element type. */
#ifndef REAL
#include "cpu/kernels/fft/fft.h"

#include <string.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* these functions are inlined: no vector crosses a call */

#if DL_SIMD_LEVEL == 4
#define BYTES DL_FFT_MAX_LANES
#define F32(list) list##_16
#define F64(list) list##_8
#else
#define BYTES (DL_FFT_MAX_LANES / 2)
#define F32(list) list##_8
#define F64(list) list##_4
#endif
typedef float dl_vf __attribute__((vector_size(BYTES)));
typedef double dl_vd __attribute__((vector_size(BYTES)));

#define LANES ((long)(BYTES / sizeof(REAL)))
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

/* The lanes of two vectors, a's before b's: the even and the odd ones, and both in turn. Of one: its pairs from the
 * last to the first, and the two of each pair exchanged. */
#define EVEN_4 0, 2, 4, 6
#define EVEN_8 EVEN_4, 8, 10, 12, 14
#define EVEN_16 EVEN_8, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD_4 1, 3, 5, 7
#define ODD_8 ODD_4, 9, 11, 13, 15
#define ODD_16 ODD_8, 17, 19, 21, 23, 25, 27, 29, 31
#define FIRST_4 0, 4, 1, 5
#define FIRST_8 0, 8, 1, 9, 2, 10, 3, 11
#define FIRST_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define SECOND_4 2, 6, 3, 7
#define SECOND_8 4, 12, 5, 13, 6, 14, 7, 15
#define SECOND_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define BACK_4 2, 3, 0, 1
#define BACK_8 6, 7, 4, 5, BACK_4
#define BACK_16 14, 15, 12, 13, 10, 11, 8, 9, BACK_8
#define CROSS_4 1, 0, 3, 2
#define CROSS_8 CROSS_4, 5, 4, 7, 6
#define CROSS_16 CROSS_8, 9, 8, 11, 10, 13, 12, 15, 14
#define EVEN_f32 F32(EVEN)
#define ODD_f32 F32(ODD)
#define FIRST_f32 F32(FIRST)
#define SECOND_f32 F32(SECOND)
#define BACK_f32 F32(BACK)
#define CROSS_f32 F32(CROSS)
#define EVEN_f64 F64(EVEN)
#define ODD_f64 F64(ODD)
#define FIRST_f64 F64(FIRST)
#define SECOND_f64 F64(SECOND)
#define BACK_f64 F64(BACK)
#define CROSS_f64 F64(CROSS)
#define EVENS(a, b) __builtin_shufflevector(a, b, S(EVEN))
#define ODDS(a, b) __builtin_shufflevector(a, b, S(ODD))
#define FIRSTS(a, b) __builtin_shufflevector(a, b, S(FIRST))
#define SECONDS(a, b) __builtin_shufflevector(a, b, S(SECOND))
#define BACKWARD(v) __builtin_shufflevector(v, v, S(BACK))
#define CROSSED(v) __builtin_shufflevector(v, v, S(CROSS))

#define BOTH_REALS "cpu/kernels/fft/fft_simd.c"
#include "cpu/runtime/both_reals.def"

#define LOOPS(t, size)                                                                                                 \
    { BYTES / size, run_lanes_##t, run_row_##t, step_##t, load_row_##t, store_row_##t, transform_##t }
const dl_fft_loops DL_SIMD_NAME(dl_fft)[2] = {LOOPS(f32, 4), LOOPS(f64, 8)};

#else

/* ---- passes: element j of all lanes has its real parts at x[2 j], its imaginary ones at x[2 j + 1] */

typedef struct S(pass) {
    long left, done; /* this pass splits transforms of left * factor elements, `done` of them side by side */
    const REAL *w;
} S(pass);

/* By the twiddle factor of output k, which is 1 for the first p. */
#define TURN(re, im, k)                                                                                                \
    if (turned) {                                                                                                      \
        const REAL c_ = w[2 * (k)-2], s_ = w[2 * (k)-1];                                                               \
        VEC r_ = re;                                                                                                   \
        re = r_ * c_ - im * s_;                                                                                        \
        im = r_ * s_ + im * c_;                                                                                        \
    }
#define IN(k) (x + 2 * (q + t->done * (p + t->left * (k))))
#define OUT(k) (y + 2 * (q + t->done * (radix * p + (k))))
#define EACH(radix_)                                                                                                   \
    const long radix = radix_;                                                                                         \
    for (long p = from; p < to; p++)                                                                                   \
        for (long q = 0; q < t->done; q++)
#define PART(radix)                                                                                                    \
    static inline __attribute__((always_inline)) void S(part##radix)(                                                  \
        const S(pass) * t, const VEC *restrict x, VEC *restrict y, long from, long to, const bool turned)
#define PASS(radix)                                                                                                    \
    static void S(pass##radix)(const S(pass) * t, const VEC *x, VEC *y) {                                              \
        S(part##radix)(t, x, y, 0, 1, false);                                                                          \
        S(part##radix)(t, x, y, 1, t->left, true);                                                                     \
    }

PART(2) {
    EACH(2) {
        const REAL *w = t->w + 2 * p;
        VEC ar = IN(0)[0], ai = IN(0)[1], br = IN(1)[0], bi = IN(1)[1], dr = ar - br, di = ai - bi;
        TURN(dr, di, 1)
        OUT(0)[0] = ar + br, OUT(0)[1] = ai + bi;
        OUT(1)[0] = dr, OUT(1)[1] = di;
    }
}
PASS(2)

PART(3) {
    const REAL half = (REAL)0.5, sine = (REAL)0.86602540378443864676;
    EACH(3) {
        const REAL *w = t->w + 4 * p;
        VEC ar = IN(0)[0], ai = IN(0)[1], br = IN(1)[0], bi = IN(1)[1], cr = IN(2)[0], ci = IN(2)[1];
        VEC sr = br + cr, si = bi + ci, dr = (bi - ci) * sine, di = (cr - br) * sine;
        VEC mr = ar - sr * half, mi = ai - si * half, ur = mr + dr, ui = mi + di, vr = mr - dr, vi = mi - di;
        TURN(ur, ui, 1)
        TURN(vr, vi, 2)
        OUT(0)[0] = ar + sr, OUT(0)[1] = ai + si;
        OUT(1)[0] = ur, OUT(1)[1] = ui;
        OUT(2)[0] = vr, OUT(2)[1] = vi;
    }
}
PASS(3)

PART(4) {
    EACH(4) {
        const REAL *w = t->w + 6 * p;
        VEC ar = IN(0)[0], ai = IN(0)[1], br = IN(1)[0], bi = IN(1)[1];
        VEC cr = IN(2)[0], ci = IN(2)[1], dr = IN(3)[0], di = IN(3)[1];
        VEC er = ar + cr, ei = ai + ci, fr = ar - cr, fi = ai - ci;
        VEC gr = br + dr, gi = bi + di, hr = bi - di, hi = dr - br; /* h = -i (b - d) */
        VEC ur = fr + hr, ui = fi + hi, vr = er - gr, vi = ei - gi, zr = fr - hr, zi = fi - hi;
        TURN(ur, ui, 1)
        TURN(vr, vi, 2)
        TURN(zr, zi, 3)
        OUT(0)[0] = er + gr, OUT(0)[1] = ei + gi;
        OUT(1)[0] = ur, OUT(1)[1] = ui;
        OUT(2)[0] = vr, OUT(2)[1] = vi;
        OUT(3)[0] = zr, OUT(3)[1] = zi;
    }
}
PASS(4)

PART(5) {
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
        TURN(ur, ui, 1)
        TURN(vr, vi, 2)
        TURN(gr, gi, 3)
        TURN(hr, hi, 4)
        OUT(0)[0] = ar + br + cr, OUT(0)[1] = ai + bi + ci;
        OUT(1)[0] = ur, OUT(1)[1] = ui, OUT(2)[0] = vr, OUT(2)[1] = vi;
        OUT(3)[0] = gr, OUT(3)[1] = gi, OUT(4)[0] = hr, OUT(4)[1] = hi;
    }
}
PASS(5)

/* Four outputs, from `first` in steps of 2, of four inputs. */
#define FOUR(first, ar, ai, br, bi, cr, ci, dr, di)                                                                    \
    do {                                                                                                               \
        VEC er = ar + cr, ei = ai + ci, fr = ar - cr, fi = ai - ci;                                                    \
        VEC gr = br + dr, gi = bi + di, hr = bi - di, hi = dr - br;                                                    \
        VEC sr = er + gr, si = ei + gi, ur = fr + hr, ui = fi + hi;                                                    \
        VEC vr = er - gr, vi = ei - gi, zr = fr - hr, zi = fi - hi;                                                    \
        if (first) TURN(sr, si, first)                                                                                 \
        TURN(ur, ui, (first) + 2)                                                                                      \
        TURN(vr, vi, (first) + 4)                                                                                      \
        TURN(zr, zi, (first) + 6)                                                                                      \
        OUT(first)[0] = sr, OUT(first)[1] = si;                                                                        \
        OUT((first) + 2)[0] = ur, OUT((first) + 2)[1] = ui;                                                            \
        OUT((first) + 4)[0] = vr, OUT((first) + 4)[1] = vi;                                                            \
        OUT((first) + 6)[0] = zr, OUT((first) + 6)[1] = zi;                                                            \
    } while (0)

PART(8) {
    const REAL root = (REAL)0.70710678118654752440;
    EACH(8) {
        const REAL *w = t->w + 14 * p;
        VEC ar = IN(0)[0], ai = IN(0)[1], er = IN(4)[0], ei = IN(4)[1];
        VEC cr = IN(2)[0], ci = IN(2)[1], gr = IN(6)[0], gi = IN(6)[1];
        VEC sr = ar + er, si = ai + ei, tr = cr + gr, ti = ci + gi;
        ar -= er, ai -= ei, cr -= gr, ci -= gi; /* c is still to be turned by -i */
        VEC br = IN(1)[0], bi = IN(1)[1], fr = IN(5)[0], fi = IN(5)[1];
        VEC dr = IN(3)[0], di = IN(3)[1], hr = IN(7)[0], hi = IN(7)[1];
        VEC ur = br + fr, ui = bi + fi, vr = dr + hr, vi = di + hi;
        FOUR(0, sr, si, ur, ui, tr, ti, vr, vi);
        br -= fr, bi -= fi, dr -= hr, di -= hi;
        VEC mr = (br + bi) * root, mi = (bi - br) * root, nr = (di - dr) * root, ni = -(dr + di) * root, lr = ci,
            li = -cr;
        FOUR(1, ar, ai, mr, mi, lr, li, nr, ni);
    }
}
PASS(8)

/* Any factor, by its roots of unity. */
static void S(pass_any)(const S(pass) * t, long factor, const REAL *root, const VEC *restrict x, VEC *restrict y) {
    const bool turned = true;
    const long from = 0, to = t->left;
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
            if (k) TURN(re, im, k)
            OUT(k)[0] = re, OUT(k)[1] = im;
        }
    }
}
#undef FOUR
#undef PASS
#undef PART
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
        if (r == 8)
            S(pass8)(&t, x, y);
        else if (r == 4)
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

/* ---- vectors in memory */

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
            t[2 * i] = FIRSTS(v[i], v[i + LANES / 2]);
            t[2 * i + 1] = SECONDS(v[i], v[i + LANES / 2]);
        }
        memcpy(v, t, sizeof t);
    }
}

/* `some` pairs of parts, as many as lanes at most, as real and imaginary parts, and back. */
static inline void S(get_pairs)(const REAL *p, long some, VEC *re, VEC *im) {
    VEC v[2] = {{0}};
    if (some == LANES)
        memcpy(v, p, sizeof v);
    else
        memcpy(v, p, (size_t)some * 2 * sizeof *p);
    *re = EVENS(v[0], v[1]), *im = ODDS(v[0], v[1]);
}
static inline void S(put_pairs)(REAL *p, long some, VEC re, VEC im) {
    const VEC v[2] = {FIRSTS(re, im), SECONDS(re, im)};
    if (some == LANES)
        memcpy(p, v, sizeof v);
    else
        memcpy(p, v, (size_t)some * 2 * sizeof *p);
}

/* ---- one transform z, pairs of parts, in four steps through t */

/* Elements k.. of `some` lanes x as rows of n pairs at `to`. */
static void S(put_rows)(const VEC *x, long n, long some, REAL *to) {
    const long whole = 2 * n / LANES * LANES;
    const REAL *lane = (const REAL *)x;
    for (long k = 0; k < whole; k += LANES) {
        VEC v[LANES];
        memcpy(v, x + k, sizeof v);
        S(transpose)(v);
        for (long l = 0; l < some; l++) S(put)(to + 2 * l * n + k, v[l]);
    }
    for (long k = whole; k < 2 * n; k++)
        for (long l = 0; l < some; l++) to[2 * l * n + k] = lane[k * LANES + l];
}

static void S(step)(const dl_fft_plan *f, int step, long from, const void *z_, void *t_, void *work) {
    const dl_fft_plan *own = step ? f->columns : f->rows;
    const long n = own->n, across = step ? f->rows->n : f->columns->n,
               some = across - from < LANES ? across - from : LANES;
    const REAL *z = z_;
    REAL *to = t_;
    VEC *x = work, *y = x + 2 * n;
    for (long j = 0; j < n; j++) S(get_pairs)(z + 2 * (j * across + from), some, &x[2 * j], &x[2 * j + 1]);
    x = S(passes)(own, x, y);
    if (step) {
        for (long k = 0; k < n; k++) S(put_pairs)(to + 2 * (k * across + from), some, x[2 * k], x[2 * k + 1]);
        return;
    }
    const VEC *turn = (const VEC *)f->turn + 2 * n * (from / LANES);
    for (long k = 0; k < n; k++) {
        VEC re = x[2 * k], im = x[2 * k + 1];
        x[2 * k] = re * turn[2 * k] - im * turn[2 * k + 1];
        x[2 * k + 1] = re * turn[2 * k + 1] + im * turn[2 * k];
    }
    S(put_rows)(x, n, some, to + 2 * from * n);
}

/* From z to out, which may be z; work: n pairs, then the lanes of a step. */
static void S(transform_to)(const dl_fft_plan *f, const void *z, void *out, void *work) {
    char *lanes = (char *)work + dl_fft_padded((size_t)f->n * 2 * sizeof(REAL));
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

/* Transforms whose elements stand side by side in memory: a line of memory has element k of all lanes. */
static void S(load_side)(const dl_fft_job *j, long from, VEC *x) {
    const REAL *p = S(source)(j, from, j->n, 2);
    const int re = j->inverse, im = !j->inverse;
    for (long k = 0; k < j->n; k++, p += 2 * j->inner) S(get_pairs)(p, LANES, &x[2 * k + re], &x[2 * k + im]);
}
static void S(store_side)(const dl_fft_job *j, long from, const VEC *x) {
    REAL *p = (REAL *)j->out + (S(source)(j, from, j->n, 2) - (const REAL *)j->in);
    const int re = j->inverse, im = !j->inverse;
    const REAL s = (REAL)j->scale;
    for (long k = 0; k < j->n; k++, p += 2 * j->inner) S(put_pairs)(p, LANES, x[2 * k + re] * s, x[2 * k + im] * s);
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

/* ---- one transform, or two of real numbers, by vectors: the elements between two ends, which the loops above do */

typedef struct S(span) {
    long from, to;
} S(span);

/* The two parts of each number exchanged, as inverse transforms want them. */
static inline VEC S(turned_pairs)(const dl_fft_job *j, VEC v) { return j->inverse ? CROSSED(v) : v; }

static S(span) S(load_row_real)(const dl_fft_job *j, long from, REAL *z) {
    const REAL *x = S(source)(j, from, j->n, 1), *y = x + j->n;
    long k = 0;
    for (; k + LANES <= j->n; k += LANES) {
        const VEC a = S(at)(x + k), b = S(at)(y + k);
        S(put)(z + 2 * k, S(turned_pairs)(j, FIRSTS(a, b)));
        S(put)(z + 2 * k + LANES, S(turned_pairs)(j, SECONDS(a, b)));
    }
    return (S(span)){0, k};
}
static S(span) S(store_row_real)(const dl_fft_job *j, long from, const REAL *z) {
    REAL *x = (REAL *)j->out + from * j->n, *y = x + j->n;
    const REAL s = (REAL)j->scale;
    long k = 0;
    for (; k + LANES <= j->n; k += LANES) {
        const VEC a = S(turned_pairs)(j, S(at)(z + 2 * k)) * s, b = S(turned_pairs)(j, S(at)(z + 2 * k + LANES)) * s;
        S(put)(x + k, EVENS(a, b)), S(put)(y + k, ODDS(a, b));
    }
    return (S(span)){0, k};
}

/* Signs of the two parts of each number. */
static inline VEC S(signs)(REAL re, REAL im) {
    VEC v;
    for (long i = 0; i < LANES; i++) v[i] = i % 2 ? im : re;
    return v;
}

/* Frequency k of a + i b, and k of conj(a) + i conj(b) at n - k; see load_at and store_at. */
static S(span) S(load_row_half)(const dl_fft_job *j, long from, REAL *z) {
    const long half = j->n / 2 + 1, some = LANES / 2;
    const REAL *x = (const REAL *)j->in + 2 * from * half, *y = x + 2 * half, by = j->once ? (REAL)0.5 : 1;
    const VEC plus = S(signs)(1, -1), minus = S(signs)(-1, 1);
    long k = 1;
    for (; k + some <= (j->n + 1) / 2; k += some) {
        const VEC a = S(at)(x + 2 * k) * by, b = CROSSED(S(at)(y + 2 * k) * by);
        S(put)(z + 2 * k, S(turned_pairs)(j, a + b * minus));
        S(put)(z + 2 * (j->n - k - some + 1), BACKWARD(S(turned_pairs)(j, a * plus + b)));
    }
    return (S(span)){1, k};
}
static S(span) S(store_row_half)(const dl_fft_job *j, long from, const REAL *z) {
    const long half = j->n / 2 + 1, some = LANES / 2;
    REAL *x = (REAL *)j->out + 2 * from * half, *y = x + 2 * half;
    const VEC t = S(signs)(1, 1) * ((REAL)j->scale / (j->once ? 1 : 2)), plus = S(signs)(1, -1);
    long k = 1;
    for (; k + some <= (j->n + 1) / 2; k += some) {
        const VEC u = S(turned_pairs)(j, S(at)(z + 2 * k));
        const VEC v = S(turned_pairs)(j, BACKWARD(S(at)(z + 2 * (j->n - k - some + 1))));
        S(put)(x + 2 * k, (u + v * plus) * t);
        S(put)(y + 2 * k, CROSSED(v - u * plus) * t);
    }
    return (S(span)){1, k};
}

static S(span) S(load_row_complex)(const dl_fft_job *j, long from, REAL *z) {
    const REAL *x = S(source)(j, from, j->n, 2);
    long k = 0;
    for (; k + LANES / 2 <= j->n; k += LANES / 2) S(put)(z + 2 * k, S(turned_pairs)(j, S(at)(x + 2 * k)));
    return (S(span)){0, k};
}
static S(span) S(store_row_complex)(const dl_fft_job *j, long from, const REAL *z) {
    REAL *x = (REAL *)j->out + 2 * from * j->n;
    const REAL s = (REAL)j->scale;
    long k = 0;
    for (; k + LANES / 2 <= j->n; k += LANES / 2) S(put)(x + 2 * k, S(turned_pairs)(j, S(at)(z + 2 * k)) * s);
    return (S(span)){0, k};
}

static void S(load_row)(const dl_fft_job *j, long from, long count, void *z) {
    S(span) done = {0, 0};
    if (j->inner == 1 && (count > 1 || j->kind == DL_FFT_COMPLEX))
        done = j->kind == DL_FFT_COMPLEX     ? S(load_row_complex)(j, from, z)
               : j->kind == DL_FFT_FROM_REAL ? S(load_row_real)(j, from, z)
                                             : S(load_row_half)(j, from, z);
    const S(ends) e = S(part_ends)(j, z, (REAL *)z + 1, 2);
    const long end = j->kind == DL_FFT_TO_REAL && done.to > done.from ? j->n - done.to + 1 : j->n;
    LOAD(j, from, count > 1, e, 0, done.from);
    LOAD(j, from, count > 1, e, done.to, end);
}

static void S(store_row)(const dl_fft_job *j, long from, long count, const void *z) {
    S(span) done = {0, 0};
    if (j->inner == 1 && (count > 1 || j->kind == DL_FFT_COMPLEX))
        done = j->kind == DL_FFT_COMPLEX   ? S(store_row_complex)(j, from, z)
               : j->kind == DL_FFT_TO_REAL ? S(store_row_real)(j, from, z)
                                           : S(store_row_half)(j, from, z);
    const S(ends) e = S(part_ends)(j, (REAL *)z, (REAL *)z + 1, 2);
    STORE(j, from, count > 1, e, 0, done.from);
    STORE(j, from, count > 1, e, done.to, j->n);
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
    void *rest = (char *)work + dl_fft_padded((size_t)j->n * 2 * sizeof(REAL));
    if (S(in_place)(j, from, rest)) return;
    LOAD_ROW(j, from, count, work);
    if (j->plan->wide)
        CONVOLVE(j->plan, work, rest);
    else
        TRANSFORM(j->plan, work, rest);
    STORE_ROW(j, from, count, work);
}

#endif
