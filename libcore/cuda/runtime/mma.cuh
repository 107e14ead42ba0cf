/* Products of matrices on tensor cores. With g = lane / 4 and t = lane % 4 of a thread, the fragments are
 *   C [16,8]: (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1)
 * and for f32, by the instruction mma.m16n8k8,
 *   A [16,8]: (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)
 *   B [8,8]:  (t, g), (t + 4, g)
 * and for 16 bits, by mma.m16n8k16, pairs of numbers that begin at
 *   A [16,16]: (g, 2 t), (g + 8, 2 t), (g, 2 t + 8), (g + 8, 2 t + 8)
 *   B [16,8]:  (2 t, g), (2 t + 8, g)
 * Products of f32 keep its digits: a number is the sum of two of 11 bits (tf32), and of the four products of such sums
 * the three larger ones are added. */
#pragma once

#include "cuda/runtime/types.cuh"

template <int N> struct dl_split_n { unsigned high[N], low[N]; };
typedef dl_split_n<4> dl_split_a;
typedef dl_split_n<2> dl_split_b;

/* The two numbers of x; of an infinity or NaN the second one is 0. */
__device__ inline void dl_split_f32(float x, unsigned &high, unsigned &low) {
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(high) : "f"(x));
    const float rest = x - __uint_as_float(high);
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(low) : "f"(fabsf(rest) < INFINITY ? rest : 0.f));
}

/* Four fragments from shared memory, each of 8 rows of 16 bytes: thread 8 m + r tells where row r of fragment m lies,
 * on 16 bytes. Of a row of four numbers of 32 bits the thread with g = row gets that of column t; of eight numbers of
 * 16 bits, those of columns 2 t and 2 t + 1. */
__device__ inline void dl_take_fragments(unsigned *to, const void *row) {
    const unsigned at = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}
/* The same of numbers of 16 bits, transposed: the thread with g = column gets those of rows 2 t and 2 t + 1. */
__device__ inline void dl_take_turned(unsigned *to, const void *row) {
    const unsigned at = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}

/* c += a b */
__device__ inline void dl_mma(float *c, const unsigned *a, const unsigned *b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* high[j] + low[j] += a b[j], N products side by side. The instruction cuts its sums off, always towards 0, so that few
 * of them may be added one after another: the small products have sums of their own, and the caller adds the sums of
 * short pieces as f32. */
template <int N>
__device__ inline void dl_mma_split(float (*high)[4], float (*low)[4], const dl_split_a &a, const dl_split_b *b) {
#pragma unroll
    for (int j = 0; j < N; j++) dl_mma(low[j], a.low, b[j].high);
#pragma unroll
    for (int j = 0; j < N; j++) dl_mma(high[j], a.high, b[j].high);
#pragma unroll
    for (int j = 0; j < N; j++) dl_mma(low[j], a.high, b[j].low);
}

/* c += a b in 16 bits */
template <class T> __device__ inline void dl_mma_short(float *c, const unsigned *a, const unsigned *b) {
    if constexpr (std::is_same_v<T, bf16>)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "
            "%1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
            "%2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Two numbers rounded to 16 bits, the first in the lower half. */
template <class T> __device__ inline unsigned dl_pair(float low, float high) {
    static_assert(sizeof(T) == 2, "numbers of 16 bits");
    const T two[2] = {dl_down<T>(low), dl_down<T>(high)};
    unsigned both;
    memcpy(&both, two, sizeof both);
    return both;
}
