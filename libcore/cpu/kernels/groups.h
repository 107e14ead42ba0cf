/* Loops over floats of any dtype for *_simd.c files that floats.def includes: a group of elements is 64 bytes of
 * numbers that are computed with, in DL_PARTS parts; 16 bits become such numbers in registers. Here are load and store
 * of groups and of single elements, sums over elements, and results for each element. */
#pragma once

#include "cpu/runtime/half_write.h"
#include "cpu/runtime/vec.h"

/* Part k of the group at p. */
#define DL_HALF_PART(t)                                                                                                \
    enum { DL_LANES_##t = DL_LANES_f32 };                                                                              \
    static inline __attribute__((always_inline)) dl_pf dl_pload_##t(const t *p, long k) {                              \
        enum { PART = DL_PART / sizeof(float) };                                                                       \
        float wide[PART];                                                                                              \
        dl_pf v;                                                                                                       \
        dl_read_##t(PART, p + k * PART, wide);                                                                         \
        memcpy(&v, wide, sizeof v);                                                                                    \
        return v;                                                                                                      \
    }
DL_HALF_PART(f16)
DL_HALF_PART(bf16)

static inline float dl_read_one_f32(float x) { return x; }
static inline double dl_read_one_f64(double x) { return x; }
static inline void dl_write_one_f32(float x, float *to) { *to = x; }
static inline void dl_write_one_f64(double x, double *to) { *to = x; }
static inline void dl_write_f32(long n, const float *x, float *to) { memcpy(to, x, (size_t)n * sizeof *to); }
static inline void dl_write_f64(long n, const double *x, double *to) { memcpy(to, x, (size_t)n * sizeof *to); }

/* Keeps compilers from making vectors of the few elements that are left at the end. */
#define DL_FEW(i) __asm__("" : "+r"(i))

/* EACH(T, IN, IN_REAL) declares what a formula is of, variables of type T: IN(p) is the element of an array of ELEM,
 * IN_REAL(p) that of an array of REAL, `at` its place. */
#define DL_IN_PART(p) S(dl_pload)((p) + at, k)
#define DL_IN_PART_REAL(p) R(dl_pload)((p) + at, k)
#define DL_IN_ONE(p) S(dl_read_one)((p)[at])
#define DL_IN_ONE_REAL(p) ((p)[at])

/* sum1 += `one`, sum2 += `two`, formulas of the elements from place `from` to before `to`; two sums of each, so that an
 * addition need not wait for the one before. */
#define DL_SUM_STRETCH(from, to, EACH, one, two, sum1, sum2)                                                           \
    do {                                                                                                               \
        enum { L_ = R(DL_LANES) };                                                                                     \
        VPART p1_[2][DL_PARTS] = {0}, p2_[2][DL_PARTS] = {0};                                                          \
        long i_ = (from);                                                                                              \
        for (; i_ + 2 * L_ <= (to); i_ += 2 * L_)                                                                      \
            for (long h_ = 0; h_ < 2; h_++)                                                                            \
                for (long k = 0; k < DL_PARTS; k++) {                                                                  \
                    const long at = i_ + h_ * L_;                                                                      \
                    EACH(VPART, DL_IN_PART, DL_IN_PART_REAL)                                                           \
                    p1_[h_][k] += one, p2_[h_][k] += two;                                                              \
                }                                                                                                      \
        for (; i_ + L_ <= (to); i_ += L_)                                                                              \
            for (long k = 0; k < DL_PARTS; k++) {                                                                      \
                const long at = i_;                                                                                    \
                EACH(VPART, DL_IN_PART, DL_IN_PART_REAL)                                                               \
                p1_[0][k] += one, p2_[0][k] += two;                                                                    \
            }                                                                                                          \
        for (long k = 0; k < DL_PARTS; k++) p1_[0][k] += p1_[1][k], p2_[0][k] += p2_[1][k];                            \
        REAL s1_ = R(dl_psum)(p1_[0]), s2_ = R(dl_psum)(p2_[0]);                                                       \
        for (long at = i_; at < (to); at++) {                                                                          \
            DL_FEW(at);                                                                                                \
            EACH(REAL, DL_IN_ONE, DL_IN_ONE_REAL)                                                                      \
            s1_ += one, s2_ += two;                                                                                    \
        }                                                                                                              \
        (sum1) += s1_, (sum2) += s2_;                                                                                  \
    } while (0)
/* The same of all n, in stretches that are added up in f64. */
#define DL_SUMS(n, stretch, EACH, one, two, sum1, sum2)                                                                \
    for (long from_ = 0; from_ < (n); from_ += (stretch))                                                              \
    DL_SUM_STRETCH(from_, (n)-from_ < (stretch) ? (n) : from_ + (stretch), EACH, one, two, sum1, sum2)

/* d[at] = `formula` for the n places. */
#define DL_MAP(n, EACH, formula, d)                                                                                    \
    do {                                                                                                               \
        enum { PART_ = DL_PART / sizeof(REAL), k = 0 };                                                                \
        long at = 0;                                                                                                   \
        for (; at + PART_ <= (n); at += PART_) {                                                                       \
            REAL to_[PART_];                                                                                           \
            EACH(VPART, DL_IN_PART, DL_IN_PART_REAL)                                                                   \
            const VPART r_ = formula;                                                                                  \
            memcpy(to_, &r_, sizeof r_);                                                                               \
            S(dl_write)(PART_, to_, (d) + at);                                                                         \
        }                                                                                                              \
        for (; at < (n); at++) {                                                                                       \
            DL_FEW(at);                                                                                                \
            EACH(REAL, DL_IN_ONE, DL_IN_ONE_REAL)                                                                      \
            S(dl_write_one)(formula, (d) + at);                                                                        \
        }                                                                                                              \
    } while (0)

/* sum1[at] += `one`, sum2[at] += `two`, arrays of n numbers of REAL. */
#define DL_ADD(n, EACH, one, two, sum1, sum2)                                                                          \
    do {                                                                                                               \
        enum { PART_ = DL_PART / sizeof(REAL), k = 0 };                                                                \
        long at = 0;                                                                                                   \
        for (; at + PART_ <= (n); at += PART_) {                                                                       \
            EACH(VPART, DL_IN_PART, DL_IN_PART_REAL)                                                                   \
            const VPART s1_ = DL_IN_PART_REAL(sum1) + one, s2_ = DL_IN_PART_REAL(sum2) + two;                          \
            memcpy((sum1) + at, &s1_, sizeof s1_), memcpy((sum2) + at, &s2_, sizeof s2_);                              \
        }                                                                                                              \
        for (; at < (n); at++) {                                                                                       \
            DL_FEW(at);                                                                                                \
            EACH(REAL, DL_IN_ONE, DL_IN_ONE_REAL)                                                                      \
            (sum1)[at] += one, (sum2)[at] += two;                                                                      \
        }                                                                                                              \
    } while (0)

/* sum1[at] += `one`, sum2[at] += `two`, arrays of n numbers of f64, n at most `most`, over rows: EACH sums formulas of
 * the elements of `together` rows from row r on. */
#define DL_COLUMN_SUMS(rows, n, most, EACH, one, two, sum1, sum2)                                                      \
    for (long r0_ = 0; r0_ < (rows); r0_ += DL_ROWS) {                                                                 \
        const long end_ = (rows)-r0_ < DL_ROWS ? (rows) : r0_ + DL_ROWS;                                               \
        REAL one_[most] = {0}, two_[most] = {0};                                                                       \
        long r = r0_;                                                                                                  \
        for (; r + DL_TOGETHER <= end_; r += DL_TOGETHER) {                                                            \
            enum { together = DL_TOGETHER };                                                                           \
            DL_ADD(n, EACH, one, two, one_, two_);                                                                     \
        }                                                                                                              \
        for (; r < end_; r++) {                                                                                        \
            enum { together = 1 };                                                                                     \
            DL_ADD(n, EACH, one, two, one_, two_);                                                                     \
        }                                                                                                              \
        for (long c = 0; c < (n); c++) (sum1)[c] += one_[c], (sum2)[c] += two_[c];                                     \
    }
enum { DL_ROWS = 64 /* that are added up in the element type */, DL_TOGETHER = 4 /* in registers */ };
