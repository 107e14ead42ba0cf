/* Gradient rules of products of sparse matrices: each is the other's, with the matrix or its transpose. */
#include "ops/grad.h"
#include "dlcore/index.h"
#include "dlcore/sparse.h"
#include "dlcore/view.h"
#include "ops/rules/sparse.h"

/* A dense matrix transposed: a view. */
static dl_tensor *across_of(dl_tensor *t) { return dl_permute(t, (long[]){1, 0}, 2); }

/* The transpose of the matrix with these values, times x. The pattern of the transpose may be given: crow, col, and
 * which entry of the matrix each of its entries is; else it is made. */
static dl_tensor *transposed_product(dl_back *b, dl_tensor *values, dl_tensor *crow, dl_tensor *col, long cols,
                                     dl_tensor *const given[3], dl_tensor *x) {
    dl_tensor *t_crow = given[0], *t_col = given[1], *order = given[2];
    if (!order) {
        t_crow = T(dl_csr_transpose(crow, col, cols, &t_col, &order));
        T(t_col), T(order);
    }
    dl_tensor *v = t_crow ? T(dl_index_select(values, order, 0)) : NULL;
    return v ? dl_spmm(v, t_crow, t_col, x, NULL, NULL, NULL) : NULL;
}

/* Y = A X: the values' gradient is G X^T where A has entries, that of X is A^T G. */
GRAD_RULE(spmm) {
    dl_tensor *crow = IN_(SPMM_CROW), *col = IN_(SPMM_COL);
    if (NEED(SPMM_VALUES)) {
        dl_tensor *x = IN_(SPMM_DENSE), *across = x ? T(across_of(x)) : NULL;
        GIVE(SPMM_VALUES, across ? dl_sddmm(G0, across, crow, col) : NULL);
    }
    if (NEED(SPMM_DENSE)) {
        const bool whole = b->nin > DL_IN_SPMM_T_ORDER && META(SPMM_T_ORDER)->ndim;
        dl_tensor *given[3] = {whole ? IN_(SPMM_T_CROW) : NULL, whole ? IN_(SPMM_T_COL) : NULL,
                               whole ? IN_(SPMM_T_ORDER) : NULL};
        GIVE(SPMM_DENSE, transposed_product(b, IN_(SPMM_VALUES), crow, col, META(SPMM_DENSE)->shape[0], given, G0));
    }
    return DL_OK;
}

/* v = A B where the pattern P has entries: with values g it is G, and dA = G B^T, dB = A^T G = (G^T A)^T. */
GRAD_RULE(sddmm) {
    dl_tensor *crow = IN_(SDDMM_CROW), *col = IN_(SDDMM_COL);
    if (NEED(SDDMM_MAT1)) {
        dl_tensor *other = IN_(SDDMM_MAT2), *across = other ? T(across_of(other)) : NULL;
        GIVE(SDDMM_MAT1, across ? dl_spmm(G0, crow, col, across, NULL, NULL, NULL) : NULL);
    }
    if (NEED(SDDMM_MAT2)) {
        dl_tensor *const none[3] = {0};
        dl_tensor *t = T(transposed_product(b, G0, crow, col, META(SDDMM_MAT2)->shape[1], none, IN_(SDDMM_MAT1)));
        GIVE(SDDMM_MAT2, t ? across_of(t) : NULL);
    }
    return DL_OK;
}
