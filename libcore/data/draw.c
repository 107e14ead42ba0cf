/* Permutations, see draw.h. */
#include "data/draw.h"

void dl_draw_permutation(dl_draw *r, long n, long *order) {
    for (long i = 0; i < n; i++) order[i] = i;
    for (long i = n - 1; i > 0; i--) {
        long j = dl_draw_below(r, (uint32_t)(i + 1)), t = order[i];
        order[i] = order[j], order[j] = t;
    }
}
