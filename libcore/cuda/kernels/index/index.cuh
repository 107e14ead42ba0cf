/* Indices on the device: i64 or i32, negative ones counting from the end, those out of range reported; and the types in
 * which listed elements are summed. */
#pragma once

#include "cuda/runtime/iter.cuh"

/* The index at p in 0 .. size - 1; -1 for one out of range. */
__device__ inline long dl_index_at(const char *p, int wide, long size, const dl_fault_site &site) {
    long given = wide ? *(const long *)p : *(const int *)p, at = given < 0 ? given + size : given;
    if (at >= 0 && at < size) return at;
    dl_fault_raise(site, DL_FAULT_INDEX, given, size);
    return -1;
}

/* Sums of T run in f64, or in integers that wrap. */
template <class T> struct dl_accumulator {
    typedef std::conditional_t<std::is_floating_point<calc_t<T>>::value, double, uint64_t> A;
    static __device__ A up(T x) { return (A)dl_up(x); }
    static __device__ T down(A x) {
        if constexpr (std::is_same<A, double>::value)
            return dl_down<T>((calc_t<T>)x);
        else
            return (T)x;
    }
};
