/* Adding rows at listed places without atomics: sorted by place, and added up in the order in which they came, in runs
 * of fixed lengths. The same operands give the same bits. */
#ifndef DL_CUDA_SCATTER_H
#define DL_CUDA_SCATTER_H

#include "cuda/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* o[a][key[i]][b] += v[a][i][b] for a < outer, i < n, b < inner, where o has `size` places; both contiguous. */
typedef struct dl_adds {
    void *o;
    const void *v;
    int dtype;
    long outer, size, n, inner;
} dl_adds;

/* Are keys 32 bits wide, else 64? */
static inline bool dl_adds_narrow(const dl_adds *a) { return a->size < 0xffffffff && a->n < 0xffffffff; }
/* key: n numbers on the device below `size`, unsigned or uint64_t; those with `size` are left out. Floating sums run in
 * f64. */
dl_status dl_cuda_adds(dl_gpu *g, const dl_adds *a, const void *key);

/* Sorts n numbers and, beside them, others, by bits `from` to `to` - 1; equal ones keep their order. Results in the
 * second array of each pair. */
dl_status dl_cuda_sort_pairs(dl_gpu *g, const uint64_t *key, uint64_t *sorted_key, const long *v, long *sorted_v,
                             long n, int from, int to);
dl_status dl_cuda_sort_words(dl_gpu *g, const unsigned *key, unsigned *sorted_key, const unsigned *v,
                             unsigned *sorted_v, long n, int from, int to);

/* Gradients of index_select and gather (adds.cu). */
dl_status dl_cuda_grad_index_select(dl_back *b);
dl_status dl_cuda_grad_gather(dl_back *b);

#ifdef __cplusplus
}
#endif
#endif
