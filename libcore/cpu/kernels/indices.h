/* Indices of kernels on the CPU. */
#pragma once

#include "core/op.h"
#include "cpu/runtime/simd.h"

/* The indices as contiguous i64 numbers in 0 .. size - 1, negative ones counted from the end; a new reference. NULL
 * with DL_ERR_INDEX naming the first that is out of range, and the dimension. */
dl_tensor *dl_cpu_indices(dl_tensor *index, int dim, long size);

/* An index that repeats along a dimension other than `dim` has size 1 there: it is read once. A new reference. */
dl_tensor *dl_cpu_without_repeats(dl_tensor *index, int dim);

/* Indices that a loop checks on its way, a block before it is used, which spares a pass over them: `wrong` is set where
 * one is negative or too large, and the loop ends. dl_cpu_indices then says which, or makes them count from the start.
 */
enum { DL_INDEX_BLOCK = 2048 };
typedef struct dl_index_walk {
    long step; /* bytes from one index to the next */
    long size; /* the indices there are */
    int wrong;
} dl_index_walk;

/* Its highest bit is set where one of n indices is negative or too large. */
DL_SIMD_DECL(unsigned long, dl_index_signs, (long n, const long *index, long size));

static inline bool dl_indices_fit(dl_index_walk *w, const long *index, long n) {
    const unsigned long signs = n == 1 ? (unsigned long)*index | ((unsigned long)(w->size - 1) - (unsigned long)*index)
                                       : DL_SIMD_PICK(dl_index_signs)(n, index, w->size);
    if (signs >> 63) __atomic_store_n(&w->wrong, 1, __ATOMIC_RELAXED);
    return !(signs >> 63);
}
/* The indices as they are, to be checked on the way, or else those that dl_cpu_indices made; a new reference. */
static inline dl_tensor *dl_cpu_indices_to_check(dl_tensor *index, int dim, long size) {
    return index->dtype == DL_I64 && dl_is_contiguous(index) ? dl_ref(index) : dl_cpu_indices(index, dim, size);
}

/* out[0] = in[0], with in[2] added at the indices in[1], of the same shape or a list, along the dimension of attribute
 * 0: elements in order along it, threads share the largest of the others. */
dl_status dl_cpu_add_elements(dl_call *c);
