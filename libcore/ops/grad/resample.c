/* The gradient of resample_along: the same with the list turned round, of each element the places that it went to. */
#include "dlcore/copy.h"
#include "dlcore/index.h"
#include "ops/grad.h"
#include "ops/rules/index.h"

#include <stdlib.h>

/* The list of a call in plain memory: terms of `from` elements, which go to `to` ones. */
typedef struct list {
    long terms, from, to;
    const long *index;
    const double *weight; /* NULL: ones */
} list;

/* How many places an element went to at most; -1 without memory. */
static long most_of(const list *l) {
    long *count = calloc((size_t)l->to + 1, sizeof *count), most = 1;
    if (!count) return -1;
    for (long i = 0; i < l->terms * l->from; i++) {
        const long at = l->index[i];
        if (at >= 0 && ++count[at] > most) most = count[at];
    }
    free(count);
    return most;
}

static bool turn(const list *l, long most, long *index, double *weight) {
    long *count = calloc((size_t)l->to + 1, sizeof *count);
    if (!count) return false;
    for (long i = 0; i < most * l->to; i++) index[i] = -1, weight[i] = 0;
    for (long i = 0; i < l->terms * l->from; i++) {
        const long at = l->index[i];
        if (at < 0) continue;
        const long place = count[at]++ * l->to + at;
        index[place] = i % l->from, weight[place] = l->weight ? l->weight[i] : 1;
    }
    free(count);
    return true;
}

static dl_tensor *turned(dl_back *b, const list *l, int d) {
    const long most = most_of(l), shape[2] = {most, l->to};
    if (most < 0) return dl_fail(DL_ERR_MEMORY, "no memory for %ld places", l->to), NULL;
    long *index = malloc((size_t)(most * l->to + 1) * sizeof *index);
    double *weight = malloc((size_t)(most * l->to + 1) * sizeof *weight);
    dl_tensor *places = NULL, *weights = NULL, *out = NULL;
    if (index && weight && turn(l, most, index, weight)) {
        places = T(dl_tensor_from(2, shape, DL_I64, 0, index));
        weights = l->weight ? T(dl_tensor_from(2, shape, DL_F64, 0, weight)) : NULL;
        if (places && (weights || !l->weight)) out = dl_resample_along(G0, places, weights, d);
    } else
        dl_fail(DL_ERR_MEMORY, "no memory for %ld places", most * l->to);
    free(index), free(weight);
    return out;
}

GRAD_RULE(resample_along) {
    const dl_meta *m = dl_in_meta(b, 0);
    dl_tensor *index = IN_(RESAMPLE_ALONG_INDEX),
              *weight = dl_in_meta(b, DL_IN_RESAMPLE_ALONG_WEIGHT)->ndim ? IN_(RESAMPLE_ALONG_WEIGHT) : NULL;
    int d;
    DL_TRY(dl_dim_norm(ATTR_I(b, RESAMPLE_ALONG_DIM), m->ndim, &d));
    index = index ? T(dl_contiguous(T(dl_to(index, DL_I64)))) : NULL;
    if (weight) weight = T(dl_contiguous(T(dl_to(weight, DL_F64))));
    if (!index) return dl_failed();
    const list l = {.terms = index->shape[0],
                    .from = index->shape[1],
                    .to = m->shape[d],
                    .index = dl_ptr(index),
                    .weight = weight ? dl_ptr(weight) : NULL};
    return dl_give(b, 0, turned(b, &l, d));
}
