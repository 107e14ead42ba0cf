/* Adding elements at listed places so that the same operands give the same bits: sorted by place and added up in their
 * order, in runs of fixed lengths (scatter.cu), or as integers in shared memory where a line of the result fits there
 * (index_add_lines.cu). */
#pragma once

#include "cuda/runtime/base.h"

DL_C_BEGIN

/* o[a][key[i]][b] += v[a][i][b] for a < outer, i < n, b < inner, where o has `size` places; both contiguous. */
typedef struct dl_scatter {
    void *o;
    const void *v;
    int dtype;
    long outer, size, n, inner;
    bool whole; /* no key is `size`, unless a fault was reported: keys have a bit less to sort by */
} dl_scatter;

/* Are keys 32 bits wide? Else 64. */
static inline bool dl_scatter_narrow(const dl_scatter *a) { return a->size < 0xffffffff && a->n < 0xffffffff; }
/* key: n numbers on the device below `size`, unsigned or uint64_t; those with `size` are left out. Floating sums run in
 * f64. */
dl_status dl_cuda_scatter_sorted(dl_gpu *g, const dl_scatter *a, const void *key);

/* o[a][index][b] = start + the sum of v[a][i][b] over the i with that index, index[i] if `list` is set, else
 * index[a][i][b], for a < outer, i < n, index < size, b < inner; all contiguous. start NULL: zeros; o: in place. */
typedef struct dl_lines {
    void *o;
    const void *start, *v, *index;
    int dtype;
    bool list, wide, same; /* wide: indices are i64, else i32; same: all parts are the number at v */
    long outer, size, n, inner;
    dl_fault_site site;
} dl_lines;

/* Is this a case for dl_cuda_lines? Short lines of floats, and enough of them. */
bool dl_lines_take(const dl_gpu *g, const dl_lines *l);
dl_status dl_cuda_lines(dl_gpu *g, const dl_lines *l);

/* Sorts n numbers and, beside them, others, by bits `from` to `to` - 1; equal ones keep their order. Results in the
 * second array of each pair. */
dl_status dl_cuda_sort_pairs(dl_gpu *g, const uint64_t *key, uint64_t *sorted_key, const long *v, long *sorted_v,
                             long n, int from, int to);
dl_status dl_cuda_sort_words(dl_gpu *g, const unsigned *key, unsigned *sorted_key, const unsigned *v,
                             unsigned *sorted_v, long n, int from, int to);

/* Gradients of index_select and gather (index_add.cu). */
dl_status dl_cuda_grad_index_select(dl_back *b);
dl_status dl_cuda_grad_gather(dl_back *b);

DL_C_END
