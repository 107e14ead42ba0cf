/* Shared memory: copies into it that run beside the arithmetic, and reading it in vectors. */
#pragma once

#include "cuda/runtime/types.cuh"

/* Starts to copy a number, or clears its place; `from` is an address in either case. */
__device__ inline void dl_copy_or_clear(float *to, const float *from, bool copy) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(copy ? 4 : 0));
}
/* Starts to copy four numbers between addresses that are multiples of 16. */
__device__ inline void dl_copy_four(float *to, const float *from) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from));
}
__device__ inline void dl_copy_four_or_clear(float *to, const float *from, bool copy) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(copy ? 16 : 0));
}
__device__ inline void dl_copies_end() { asm volatile("cp.async.commit_group;"); }
/* Until all copies of this thread are done. */
__device__ inline void dl_copies_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/* From an address that is a multiple of 16. */
template <int N> __device__ inline void dl_read(const float *p, float (&v)[N]) {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        if (i + 4 <= N) {
            float4 q = *(const float4 *)(p + i);
            v[i] = q.x, v[i + 1] = q.y, v[i + 2] = q.z, v[i + 3] = q.w;
            continue;
        }
        if (N % 4 >= 2) {
            float2 q = *(const float2 *)(p + i);
            v[i] = q.x, v[i + 1] = q.y;
        }
        if (N % 2) v[N - 1] = p[N - 1];
    }
}
