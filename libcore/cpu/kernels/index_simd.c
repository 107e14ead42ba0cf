/* Whether indices are in range. */
#include "cpu/kernels/indices.h"

unsigned long DL_SIMD_NAME(dl_index_signs)(long n, const long *index, long size) {
    unsigned long signs = 0;
    for (long i = 0; i < n; i++)
        signs |= (unsigned long)index[i] | ((unsigned long)(size - 1) - (unsigned long)index[i]);
    return signs;
}
