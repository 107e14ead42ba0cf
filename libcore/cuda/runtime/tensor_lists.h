/* Lists of tensors for kernels that go through all of them in one launch. Tables are kept on the device and found again
 * by their contents, so that a training step uploads one only when an address has changed. */
#pragma once

#include "cuda/runtime/base.h"
#ifdef __CUDACC__
#include "cuda/runtime/types.cuh"
#endif

enum { DL_LISTS = 5, DL_PIECE = 2048 };

typedef struct dl_item {
    void *p[DL_LISTS];
    long n; /* elements */
    long dtype;
} dl_item;

/* Elements from part * DL_PIECE on of an item: one block of a launch. */
typedef struct dl_piece {
    int item, part;
} dl_piece;

typedef struct dl_table {
    const dl_item *items;
    const dl_piece *pieces;
    long count; /* of pieces */
} dl_table;

DL_C_BEGIN
/* The table of n items (zeroed before they were filled in, since bytes are compared), valid for launches until the next
 * call; within a capture as long as the graph. */
dl_status dl_table_get(dl_gpu *g, const dl_item *items, int n, dl_table *out);
/* Forgets the tables of a graph. */
void dl_table_forget(dl_gpu *g, const dl_graph *owner);
DL_C_END

#ifdef __CUDACC__
/* f(a number of the element type, the item, from, to) for the elements of a piece. */
template <class F> __device__ inline void dl_each_part(const dl_table &all, F f, unsigned piece = blockIdx.x) {
    const dl_piece at = all.pieces[piece];
    const dl_item t = all.items[at.item];
    long from = (long)at.part * DL_PIECE, to = from + DL_PIECE < t.n ? from + DL_PIECE : t.n;
    switch (t.dtype) {
    case DL_F64: return f(double(), t, from, to);
    case DL_F16: return f(f16(), t, from, to);
    case DL_BF16: return f(bf16(), t, from, to);
    default: return f(float(), t, from, to);
    }
}
#endif
