/* The elements of a triangle of a matrix, counted row by row, for C and for CUDA. */
#pragma once

#ifdef __CUDACC__
#define DL_BOTH_SIDES static __host__ __device__ inline
#else
#define DL_BOTH_SIDES static inline
#endif

/* On and below a diagonal, or on and above it; below 2**31 rows and columns. */
typedef struct dl_corner {
    long rows, columns, offset;
    int lower;
} dl_corner;

DL_BOTH_SIDES long dl_corner_within(long v, long most) { return v < 0 ? 0 : v > most ? most : v; }

/* Of a row: its first column in the triangle, and the one behind its last. */
DL_BOTH_SIDES long dl_corner_row(const dl_corner *t, long row, long *end) {
    const long at = dl_corner_within(row + t->offset + t->lower, t->columns);
    *end = t->lower ? at : t->columns;
    return t->lower ? 0 : at;
}

/* How many elements the rows before this one have: the edge lies at 0 first, then goes on by one a row, then stays. */
DL_BOTH_SIDES long dl_corner_before(const dl_corner *t, long row) {
    const long given = t->offset + t->lower; /* beyond the matrix it makes no difference */
    const long edge = given < -t->rows ? -t->rows : given > t->columns ? t->columns : given;
    const long first = dl_corner_within(-edge, row);
    const long last = t->columns - edge < first ? first : dl_corner_within(t->columns - edge, row);
    const long sum = (last - first) * (first + last - 1 + 2 * edge) / 2 + (row - last) * t->columns;
    return t->lower ? sum : row * t->columns - sum;
}
