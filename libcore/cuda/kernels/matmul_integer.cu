/* Matrix products of integers, which no library offers. */
#include "cuda/runtime/cublaslt.h"
#include "cuda/runtime/types.cuh"

template <class T> __global__ void product_kernel(dl_gemm p) {
    long at = (long)blockIdx.x * blockDim.x + threadIdx.x, one = p.m * p.n;
    if (at >= one * p.count) return;
    long batch = at / one, i = at % one / p.n, j = at % p.n;
    const T *a = (const T *)p.a.p + batch * p.step_a + i * p.a.rs,
            *b = (const T *)p.b.p + batch * p.step_b + j * p.b.cs;
    unsigned long sum = 0; /* wraps around like the type */
    for (long l = 0; l < p.k; l++) sum += (unsigned long)a[l * p.a.cs] * (unsigned long)b[l * p.b.rs];
    ((T *)p.out)[at] = (T)sum;
}

dl_status dl_product_run(dl_gpu *g, const dl_gemm *p) {
    return dl_dispatch<DL_INTS>(p->t, [&](auto tag) {
        long n = p->m * p->n * p->count;
        product_kernel<decltype(tag)><<<(unsigned)((n + 255) / 256), 256, 0, g->stream>>>(*p);
        return dl_gpu_launched(g);
    });
}
