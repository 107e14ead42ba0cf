/* Loops of light formulas of ops/pointwise.def for operands of 16 bits, in one pass: a group of numbers is loaded, made
 * f32, computed, rounded once and stored without a way through memory. Light is a formula of operators and instructions
 * alone; the others take longer than conversions by blocks (dl_iter_run_f32), and have no such loops. Includes itself
 * once a dtype. */
#ifndef DTYPE
#include "cpu/kernels/pointwise/pointwise.h"
#include "cpu/kernels/pointwise/powers.h"
#include "cpu/runtime/half_read.h"
#include "cpu/runtime/loop_types.h"
#include "cpu/runtime/vec.h"
#include "ops/each.h"

#ifdef __AVX__
#include <immintrin.h>
#endif

#define T f32
#define DL_FN(f32_name, f64_name) f32_name
#include "ops/formula.h"

/* What needs a function is of type double, and so is a formula in which it occurs; it is never computed. */
#define HEAVY(...) ((double)NAN)
#undef DL_V
#define DL_V(name) HEAVY
#define DL_HELPER_OF(name) HEAVY
#define dl_vless1 HEAVY
#define dl_vlog1p01 HEAVY
#define dl_vlgamma HEAVY
#define dl_vacosh HEAVY
#define dl_vtwice_cdf HEAVY
#define dl_vbell HEAVY
#define LOW(n) n /* attributes are floats */
#define HIGH(n) n
#define IS_LIGHT(...) _Generic((__VA_ARGS__), float : true, default : false)

#pragma GCC diagnostic ignored "-Woverride-init" /* powers have loops by exponent */

/* ---- a group: two vectors of f32 */

typedef unsigned words __attribute__((vector_size(DL_PART)));
enum { GROUP = DL_PART / 2, HALF_GROUP = GROUP / 2 };
#define INLINE static inline __attribute__((always_inline))

/* Numbers of even and of odd places, as the words have them; of all operands in the same order. */
INLINE void load_bf16(const unsigned short *x, float *to) {
    words w, even, odd;
    memcpy(&w, x, sizeof w);
    even = w << 16, odd = w & 0xffff0000u;
    memcpy(to, &even, sizeof even), memcpy(to + HALF_GROUP, &odd, sizeof odd);
}

/* a; b where x is no number. */
INLINE words unless_nan(words a, words b, dl_pf x) {
#if defined(__AVX2__) && !defined(__AVX512F__) /* one instruction, which compilers do not find */
    return (words)_mm256_blendv_ps((__m256)a, (__m256)b, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
#else
    const words none = (words)(x != x);
    return (a & ~none) | (b & none);
#endif
}

/* In the upper 16 bits the nearest number, of two the even one. */
INLINE words rounded(dl_pf x) {
    const words u = (words)x;
    return unless_nan(u + 0x7fff + ((u >> 16) & 1), u | 0x400000, x);
}

INLINE void store_bf16(const float *x, unsigned short *to) {
    dl_pf even, odd;
    memcpy(&even, x, sizeof even), memcpy(&odd, x + HALF_GROUP, sizeof odd);
    const words low = rounded(even) >> 16, high = rounded(odd);
#if defined(__AVX2__) && !defined(__AVX512F__)
    const words w = (words)_mm256_blend_epi16((__m256i)low, (__m256i)high, 0xaa);
#else
    const words w = low | (high & 0xffff0000u);
#endif
    memcpy(to, &w, sizeof w);
}

#ifdef __F16C__
INLINE void load_f16(const unsigned short *x, float *to) { dl_read_f16(GROUP, x, to); }
#endif
#ifdef __AVX512F__
INLINE void store_f16(const float *x, unsigned short *to) {
    for (int k = 0; k < GROUP; k += HALF_GROUP)
        _mm256_storeu_si256((__m256i *)(to + k), _mm512_cvtps_ph(_mm512_loadu_ps(x + k), _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__F16C__)
INLINE void store_f16(const float *x, unsigned short *to) {
    for (int k = 0; k < GROUP; k += HALF_GROUP)
        _mm_storeu_si128((__m128i *)(to + k), _mm256_cvtps_ph(_mm256_loadu_ps(x + k), _MM_FROUND_TO_NEAREST_INT));
}
#endif

/* ---- loops: of results side by side and operands that are so or repeat one number */

typedef struct operand {
    const unsigned short *at;
    long step; /* to the next group */
    unsigned short same[GROUP];
} operand;

static __attribute__((noinline)) bool begin(int operands, long n, char **p, const long *s, operand *op) {
    if (n < GROUP || s[0] != 2) return false;
    for (int k = 0; k < operands; k++) {
        const long stride = s[1 + k];
        if (stride && stride != 2) return false;
        op[k].at = stride ? (const unsigned short *)p[1 + k] : op[k].same;
        op[k].step = stride ? GROUP : 0;
        for (int i = 0; !stride && i < GROUP; i++) op[k].same[i] = *(const unsigned short *)p[1 + k];
    }
    return true;
}

#define NAME(name) DL_JOIN(name##_, DTYPE)
#define DECLARE(i, n)                                                                                                  \
    const T n = (T)((const dl_pointwise_arg *)arg_)->number[i].f;                                                      \
    (void)n;
#define NAMED(i, n)                                                                                                    \
    const T n = 0;                                                                                                     \
    (void)n;
#define OPERAND(i, n)                                                                                                  \
    const unsigned short *n##_at_ = op_[i].at;                                                                         \
    const long n##_step_ = op_[i].step;
#define READ(i, n)                                                                                                     \
    T n##_[GROUP];                                                                                                     \
    NAME(load)(n##_at_, n##_);                                                                                         \
    n##_at_ += n##_step_;
#define LANE(i, n)                                                                                                     \
    const T n = n##_[k_];                                                                                              \
    (void)n;
/* unroll 1: loops over numbers one by one would become so many statements, before they become vectors. */
#define LOOP_OF(name, far, numbers, operands, ...)                                                                     \
    __VA_OPT__(static long NAME(name)(long n_, char **p_, const long *s_, void *arg_) {                                \
        operand op_[DL_COUNT(operands)];                                                                               \
        unsigned short *o_ = (unsigned short *)p_[0];                                                                  \
        long done_ = 0;                                                                                                \
        (void)arg_;                                                                                                    \
        DL_EACH(DECLARE, numbers) {                                                                                    \
            DL_EACH(NAMED, operands)                                                                                   \
            if (far || !IS_LIGHT(__VA_ARGS__)) return 0;                                                               \
        }                                                                                                              \
        if (!begin(DL_COUNT(operands), n_, p_, s_, op_)) return 0;                                                     \
        DL_EACH(OPERAND, operands)                                                                                     \
        for (; done_ + GROUP <= n_; done_ += GROUP) {                                                                  \
            T r_[GROUP];                                                                                               \
            DL_EACH(READ, operands)                                                                                    \
            _Pragma("GCC ivdep") _Pragma("GCC unroll 1") for (int k_ = 0; k_ < GROUP; k_++) {                          \
                DL_EACH(LANE, operands)                                                                                \
                r_[k_] = (T)(__VA_ARGS__);                                                                             \
            }                                                                                                          \
            NAME(store)(r_, o_ + done_);                                                                               \
        }                                                                                                              \
        return done_;                                                                                                  \
    })

/* Formulas that are others far from 0. */
#define FUNCTION_OF(name, numbers, ...) enum { far_##name = 0 __VA_ARGS__ };
#define FUNCTION2_OF FUNCTION_OF
#define FUNCTION3_OF FUNCTION_OF
#define FAR(...) | 1
#include "ops/pointwise.def"

#define ALL(...) __VA_ARGS__
#define DTYPE bf16
#include "halves_simd.c"
#undef DTYPE
#ifdef __F16C__
#define DTYPE f16
#include "halves_simd.c"
#undef DTYPE
#endif

const dl_halves_loops DL_SIMD_NAME(dl_halves)[DL_NDTYPE] = {
#ifdef __F16C__
    [DL_F16] = &loops_f16,
#endif
    [DL_BF16] = &loops_bf16,
};

#else /* what is made for one dtype */

#define FUNCTION_OF(name, numbers, ...) LOOP_OF(name, far_##name, numbers, (x), __VA_ARGS__)
#define FUNCTION2_OF(name, numbers, ...) LOOP_OF(name, far_##name, numbers, (a, b), __VA_ARGS__)
#define FUNCTION3_OF(name, numbers, ...) LOOP_OF(name, far_##name, numbers, (a, b, c), __VA_ARGS__)
#define FLOAT ALL
#include "ops/pointwise.def"
#define FUNCTION_OF(name, numbers, ...) LOOP_OF(name##_grad_a, 0, numbers, (g, x), __VA_ARGS__)
#define GRAD_X ALL
#include "ops/pointwise.def"
#define FUNCTION_OF(name, numbers, ...) LOOP_OF(name##_grad_a, 0, numbers, (g, y), __VA_ARGS__)
#define GRAD_Y ALL
#include "ops/pointwise.def"
#define FUNCTION2_OF(name, numbers, ...) LOOP_OF(name##_grad_a, 0, numbers, (g, a, b), __VA_ARGS__)
#define FUNCTION3_OF(name, numbers, ...) LOOP_OF(name##_grad_a, 0, numbers, (g, a, b, c), __VA_ARGS__)
#define GRAD_A ALL
#include "ops/pointwise.def"
#define FUNCTION2_OF(name, numbers, ...) LOOP_OF(name##_grad_b, 0, numbers, (g, a, b), __VA_ARGS__)
#define FUNCTION3_OF(name, numbers, ...) LOOP_OF(name##_grad_b, 0, numbers, (g, a, b, c), __VA_ARGS__)
#define GRAD_B ALL
#include "ops/pointwise.def"
#define FUNCTION3_OF(name, numbers, ...) LOOP_OF(name##_grad_c, 0, numbers, (g, a, b, c), __VA_ARGS__)
#define GRAD_C ALL
#include "ops/pointwise.def"

#define POWER(exponent, name, ...) LOOP_OF(name, 0, (), (a, b), __VA_ARGS__)
DL_POWERS(POWER)
#undef POWER
static long NAME(any_pow)(long n, char **p, const long *s, void *arg) {
#define POWER(exponent, name, ...) NAME(name),
    static const dl_some loops[] = {DL_POWERS(POWER)};
#undef POWER
    unsigned short same[GROUP];
    T exponent[GROUP];
    if (s[2] || n < GROUP) return 0;
    for (int i = 0; i < GROUP; i++) same[i] = *(const unsigned short *)p[2];
    NAME(load)(same, exponent);
    const int i = dl_power_place(exponent[0], DL_F32);
    return i < 0 ? 0 : loops[i](n, p, s, arg);
}

#define ENTRY(name, function, ...) __VA_OPT__([DL_FORMULA_##name] = NAME(function), )
static const struct dl_halves_table NAME(loops) = {
    .run =
        {
#define FUNCTION_OF(name, numbers, ...) ENTRY(name, name, __VA_ARGS__)
#define FUNCTION2_OF FUNCTION_OF
#define FUNCTION3_OF FUNCTION_OF
#define FLOAT ALL
#include "ops/pointwise.def"
            [DL_FORMULA_pow] = NAME(any_pow),
        },
    .grad =
        {
#include "cpu/kernels/pointwise/gradients.def"
        },
};
#undef ENTRY

#endif
