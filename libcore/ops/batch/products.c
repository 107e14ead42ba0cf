/* Batch rules of products, of attention, and of factors of matrices. */
#include "ops/batch/batch.h"
#include "autograd/vmap.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/complex.h"
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "ops/rules/linalg.h"
#include "ops/rules/matmul.h"

#include <string.h>

static int larger(int a, int b) { return a > b ? a : b; }

/* A vector as a matrix, of one row on the left and of one column on the right. */
static dl_status as_matrix(dl_batched *b, int i) {
    if (!dl_samples_has(b, i) || b->one[i]->ndim != 1) return DL_OK;
    long n = b->one[i]->shape[0];
    return dl_samples_reshape(b, i, i ? (long[]){b->size, n, 1} : (long[]){b->size, 1, n}, 3);
}

BATCH_RULE(matmul) {
    const int left = b->one[0]->ndim, right = b->one[1]->ndim;
    const bool both = dl_samples_has(b, 0) && dl_samples_has(b, 1);
    /* One operand for all samples: vectors of samples are the rows of a matrix, or the product from the other side. */
    if (!both && dl_samples_has(b, 0) && left == 1 && right <= 2) return dl_samples_invoke(b);
    if (!both && dl_samples_has(b, 1) && right == 1 && left <= 2) {
        DL_OWNED dl_tensor *turned = left == 2 ? dl_permute(b->in[0], (long[]){1, 0}, 2) : dl_ref(b->in[0]);
        b->out[0] = turned ? dl_matmul(b->in[1], turned) : NULL;
        return b->out[0] ? DL_OK : dl_failed();
    }
    const int ndim = larger(larger(left, right), 2);
    if (ndim == DL_MAX_DIM) return dl_samples_each(b);
    for (int i = 0; i < 2; i++) {
        DL_TRY(as_matrix(b, i));
        if (dl_samples_has(b, i)) DL_TRY(dl_samples_deepen(b, i, ndim));
    }
    return dl_samples_invoke(b);
}

/* x @ weight.T + bias with a weight or bias for each sample. */
static dl_status own_weights(dl_batched *b) {
    const dl_tensor *x = b->one[0];
    const long in = x->shape[x->ndim - 1], rows = in ? x->numel / in : 0;
    if (!in) return dl_samples_each(b);
    DL_TRY(dl_samples_spread(b, 0));
    DL_TRY(dl_samples_reshape(b, 0, (long[]){b->size, rows, in}, 3));
    DL_OWNED dl_tensor *w =
        dl_samples_has(b, 1) ? dl_permute(b->in[1], (long[]){0, 2, 1}, 3) : dl_permute(b->in[1], (long[]){1, 0}, 2);
    DL_OWNED dl_tensor *y = w ? dl_matmul(b->in[0], w) : NULL;
    if (!y) return dl_failed();
    if (!dl_samples_given(b, DL_IN_LINEAR_BIAS)) return b->out[0] = dl_ref(y), DL_OK;
    if (dl_samples_has(b, DL_IN_LINEAR_BIAS)) DL_TRY(dl_samples_deepen(b, DL_IN_LINEAR_BIAS, 2));
    b->out[0] = dl_add(y, b->in[DL_IN_LINEAR_BIAS]);
    return b->out[0] ? DL_OK : dl_failed();
}

BATCH_RULE(linear) {
    return dl_samples_has(b, 1) || dl_samples_has(b, DL_IN_LINEAR_BIAS) ? own_weights(b) : dl_samples_invoke(b);
}

/* A mask [n,heads,length,keys] whose n may be 1, for all sequences of all samples. */
static dl_status whole_mask(dl_batched *b, int i) {
    const dl_tensor *m = b->one[i];
    const long n = b->one[0]->shape[0];
    if (!dl_samples_has(b, i) && m->shape[0] == 1) return DL_OK;
    DL_TRY(dl_samples_spread(b, i));
    long size[] = {b->size, n, m->shape[1], m->shape[2], m->shape[3]};
    DL_TRY(dl_samples_put(b, i, dl_expand(b->in[i], size, 5)));
    return dl_samples_fold(b, i);
}

BATCH_RULE(attention) {
    if (dl_samples_has(b, DL_IN_ATTENTION_SEED)) return dl_samples_each(b);
    for (int i = 0; i < 3; i++) {
        DL_TRY(dl_samples_spread(b, i));
        DL_TRY(dl_samples_fold(b, i));
    }
    if (dl_samples_given(b, DL_IN_ATTENTION_ATTN_MASK)) DL_TRY(whole_mask(b, DL_IN_ATTENTION_ATTN_MASK));
    if (dl_samples_given(b, DL_IN_ATTENTION_LENGTHS)) {
        DL_TRY(dl_samples_spread(b, DL_IN_ATTENTION_LENGTHS));
        DL_TRY(dl_samples_fold(b, DL_IN_ATTENTION_LENGTHS));
    }
    return dl_samples_invoke(b);
}

/* ---- factors of matrices */

/* Fails where a report is not 0, or a matrix is not finite. */
static dl_status check_factors(dl_batched *b) {
    int info = 0;
    long good;
    while (strcmp(b->op->out_name[info], "info")) info++;
    DL_OWNED dl_tensor *parts = dl_dtype_is_complex(b->in[0]->dtype) ? dl_view_as_real(b->in[0]) : dl_ref(b->in[0]);
    DL_OWNED dl_tensor *finite = parts ? dl_isfinite(parts) : NULL, *all = finite ? dl_all(finite, NULL, 0, 0) : NULL;
    DL_TRY(all ? dl_item_i(all, &good) : dl_failed());
    if (good && b->out[info]->numel) {
        DL_OWNED dl_tensor *some = dl_any(b->out[info], NULL, 0, 0);
        DL_TRY(some ? dl_item_i(some, &good) : dl_failed());
        good = !good;
    }
    return good ? DL_OK : dl_fail(DL_ERR_VALUE, "a matrix has no factors of %s", b->op->name);
}

/* Composites look at the report of one sample alone; the others are seen here. */
BATCH_RULE(factors) {
    DL_TRY(dl_samples_spread_all(b));
    DL_TRY(dl_samples_invoke(b));
    DL_VMAP_UNSEEN;
    return check_factors(b);
}
