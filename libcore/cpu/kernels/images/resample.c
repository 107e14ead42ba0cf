/* Kernel of resample_along: sums of a few elements along a dimension, by lists of places and weights. */
#include "cpu/kernels/images/resample.h"
#include "core/scope.h"
#include "cpu/runtime/iter.h"
#include "dlcore/copy.h"
#include "ops/infer.h"
#include "ops/rules/index.h"

#include <stdlib.h>

enum { ROWS = 64 };

typedef struct job {
    dl_resampling j;
    dl_resample_loop run;
    long rows;
} job;

static void run_rows(void *arg, long i) {
    const job *k = arg;
    for (long row = i * ROWS; row < k->rows && row < (i + 1) * ROWS; row++) k->run(&k->j, row);
}

/* The places as i32, which vectors gather by. */
static dl_status places_of(const dl_tensor *index, int d, long n, int32_t *to) {
    const long *from = dl_ptr(index);
    for (long i = 0; i < index->numel; i++) {
        if (from[i] < -1 || from[i] >= n) return dl_fail_index(from[i], d, n);
        to[i] = (int32_t)from[i];
    }
    return DL_OK;
}

static dl_status over(job *k, const dl_tensor *x, const dl_tensor *index, int d) {
    if (k->j.n > INT32_MAX) return dl_fail(DL_ERR_SHAPE, "dimension %d of size %ld is too long", d, k->j.n);
    int32_t *places = malloc((size_t)(index->numel + 1) * sizeof *places);
    if (!places) return dl_fail(DL_ERR_MEMORY, "no memory for %ld places", (long)index->numel);
    dl_status s = places_of(index, d, k->j.n, places);
    k->j.index = places, k->run = DL_SIMD_PICK(dl_resample_rows)[x->dtype == DL_F64];
    if (s == DL_OK)
        dl_cpu_for((k->rows + ROWS - 1) / ROWS, dl_cpu_threads(k->rows * k->j.count * k->j.inner), run_rows, k);
    free(places);
    return s;
}

static dl_status resample_run(dl_call *c) {
    dl_tensor *x = c->in[0], *weight = INPUT(c, RESAMPLE_ALONG_WEIGHT);
    DL_OWNED dl_tensor *wide = dl_to(INPUT(c, RESAMPLE_ALONG_INDEX), DL_I64),
                       *index = wide ? dl_cpu_contiguous(wide) : NULL;
    int d;
    if (!index) return dl_failed();
    DL_TRY(dl_dim_norm(ATTR_I(c, RESAMPLE_ALONG_DIM), x->ndim, &d));
    job k = {.rows = 1, .j = {.terms = index->shape[0], .n = x->shape[d], .count = index->shape[1], .inner = 1}};
    for (int i = 0; i < x->ndim; i++) *(i < d ? &k.rows : &k.j.inner) *= i == d ? 1 : x->shape[i];
    k.j.x = dl_ptr(x), k.j.weight = weight ? dl_ptr(weight) : NULL, k.j.out = dl_ptr(c->out[0]);
    if (x->numel && c->out[0]->numel) return over(&k, x, index, d);
    dl_cpu_clear(dl_ptr(c->out[0]), (size_t)c->out[0]->numel * dl_esize(c->out[0])); /* no elements to add */
    return DL_OK;
}
DL_CPU_KERNEL(resample_along, resample_run, true, DL_FLOATS)
