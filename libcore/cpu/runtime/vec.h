/* Vectors of 64 bytes for *_simd.c files, by the compiler's vector extension: the same lanes, and so the same order of
 * sums, at every level of the instruction set. */
#pragma once

#include <stdint.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* these functions are inlined: no vector crosses a call */

typedef float dl_vf __attribute__((vector_size(64)));
typedef double dl_vd __attribute__((vector_size(64)));
typedef int32_t dl_vi32 __attribute__((vector_size(64)));
typedef int64_t dl_vi64 __attribute__((vector_size(64)));

/* What the machine computes at once of such a vector: of longer ones compilers make code that goes through memory. */
#if defined(__AVX512F__)
enum { DL_PART = 64 };
#elif defined(__AVX__)
enum { DL_PART = 32 };
#else
enum { DL_PART = 16 };
#endif
enum { DL_PARTS = 64 / DL_PART };
typedef float dl_pf __attribute__((vector_size(DL_PART)));
typedef double dl_pd __attribute__((vector_size(DL_PART)));
typedef int32_t dl_pi32 __attribute__((vector_size(DL_PART)));
typedef int64_t dl_pi64 __attribute__((vector_size(DL_PART)));

/* For one element type each: load and store of whole vectors and of the first n lanes (others 0), a vector of one
 * value, m ? a : b by lane, sum of the lanes in a fixed order, of a vector and of one in parts; part k of the vector
 * at p. */
#define DL_VEC_FUNCTIONS(V, M, P, PM, E, S)                                                                            \
    enum { DL_LANES_##S = sizeof(V) / sizeof(E) };                                                                     \
    static inline V dl_vload_##S(const E *p) {                                                                         \
        V v;                                                                                                           \
        memcpy(&v, p, sizeof v);                                                                                       \
        return v;                                                                                                      \
    }                                                                                                                  \
    static inline void dl_vstore_##S(E *p, V v) { memcpy(p, &v, sizeof v); }                                           \
    static inline V dl_vloadn_##S(const E *p, long n) {                                                                \
        E tmp[DL_LANES_##S] = {0};                                                                                     \
        memcpy(tmp, p, (size_t)n * sizeof *p);                                                                         \
        return dl_vload_##S(tmp);                                                                                      \
    }                                                                                                                  \
    static inline void dl_vstoren_##S(E *p, V v, long n) { memcpy(p, &v, (size_t)n * sizeof *p); }                     \
    static inline V dl_vset_##S(E x) { return x - (V){0}; }                                                            \
    static inline V dl_vsel_##S(M m, V a, V b) { return (V)(((M)a & m) | ((M)b & ~m)); }                               \
    static inline E dl_psum_##S(const P *v) {                                                                          \
        enum { N = DL_PART / sizeof(E) };                                                                              \
        PM place;                                                                                                      \
        P p[DL_PARTS];                                                                                                 \
        for (long k = 0; k < DL_PARTS; k++) p[k] = v[k];                                                               \
        for (int l = 0; l < (int)N; l++) place[l] = l;                                                                 \
        for (long n = DL_PARTS / 2; n; n /= 2)                                                                         \
            for (long k = 0; k < n; k++) p[k] += p[k + n];                                                             \
        for (int w = N / 2; w; w /= 2) p[0] += __builtin_shuffle(p[0], place + w);                                     \
        return p[0][0];                                                                                                \
    }                                                                                                                  \
    static inline E dl_vsum_##S(V v) {                                                                                 \
        P p[DL_PARTS];                                                                                                 \
        memcpy(p, &v, sizeof p);                                                                                       \
        return dl_psum_##S(p);                                                                                         \
    }                                                                                                                  \
    static inline P dl_pload_##S(const E *p, long k) {                                                                 \
        P v;                                                                                                           \
        memcpy(&v, p + k * (long)(sizeof v / sizeof *p), sizeof v);                                                    \
        return v;                                                                                                      \
    }

DL_VEC_FUNCTIONS(dl_vf, dl_vi32, dl_pf, dl_pi32, float, f32)
DL_VEC_FUNCTIONS(dl_vd, dl_vi64, dl_pd, dl_pi64, double, f64)
