/* Gradient rules of linear algebra. g is the incoming gradient; the formulas are those of PyTorch's FunctionsManual
 * (Giles 2008; Townsend 2016; Roberts and Roberts 2020). */
#include "ops/grad.h"
#include "ops/matrices.h"
#include "dlcore/arithmetic.h"
#include "dlcore/complex.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/linalg.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/linalg.h"

#define MUL(a, b) dl_mat_mul(p, (a), (b))
#define ADJOINT(t) dl_mat_adjoint(p, (t))

/* The gradient of output i, zero where there is none. */
static dl_tensor *of_output(dl_pool *p, dl_back *b, int i) {
    const dl_meta *m = dl_out_meta(b, i);
    return b->g[i] ? b->g[i] : K(dl_zeros(m->shape, m->ndim, (dl_dtype)m->dtype, m->device));
}

/* ---- solving */

/* A X = B: dB = A^-T g, dA = -dB X^T, of a triangle the part that is read */
GRAD_RULE(solve_triangle) {
    POOL;
    const bool upper = ATTR_I(b, SOLVE_TRIANGLE_UPPER) != 0, unit = ATTR_I(b, SOLVE_TRIANGLE_UNITRIANGULAR) != 0;
    dl_tensor *d = dl_mat_triangle(p, IN_(SOLVE_TRIANGLE_A), G0, upper, true, unit);
    if (!d) return dl_failed();
    GIVE(SOLVE_TRIANGLE_B, dl_ref(d));
    if (!NEED(SOLVE_TRIANGLE_A)) return DL_OK;
    dl_tensor *whole = K(dl_neg(MUL(d, ADJOINT(OUT_(SOLVE_TRIANGLE_OUT)))));
    return dl_give(b, DL_IN_SOLVE_TRIANGLE_A, upper ? dl_triu(whole, unit) : dl_tril(whole, -unit));
}

/* A^H X = B by the factors of A, of which row i is row order[i] of A: U^H L^H reordered */
static dl_tensor *by_factors_adjoint(dl_pool *p, dl_tensor *lu, dl_tensor *order, dl_tensor *b) {
    dl_tensor *y = dl_mat_triangle(p, lu, b, true, true, false);
    return dl_mat_order_rows(p, dl_mat_triangle(p, lu, y, false, true, true), order, true);
}

/* The factors have no history, so that derivatives of higher order solve with A itself. */
GRAD_RULE(solve_square) {
    POOL;
    dl_tensor *d = b->create_graph ? K(dl_solve_square(ADJOINT(IN_(SOLVE_SQUARE_A)), G0))
                                   : by_factors_adjoint(p, OUT_(SOLVE_SQUARE_LU), OUT_(SOLVE_SQUARE_ORDER), G0);
    if (!d) return dl_failed();
    GIVE(SOLVE_SQUARE_B, dl_ref(d));
    GIVE(SOLVE_SQUARE_A, dl_neg(MUL(d, ADJOINT(OUT_(SOLVE_SQUARE_OUT)))));
    return DL_OK;
}

/* -A^-T g A^-T */
GRAD_RULE(inv) {
    POOL;
    dl_tensor *t = ADJOINT(OUT_(INV_OUT));
    return dl_give(b, 0, dl_neg(MUL(MUL(t, G0), t)));
}

/* X = (L L^H)^-1: -X (g + g^H) X L, of U: -U X (g + g^H) X; the part that is read */
GRAD_RULE(cholesky_inverse) {
    POOL;
    const bool upper = ATTR_I(b, CHOLESKY_INVERSE_UPPER) != 0;
    dl_tensor *x = OUT_(CHOLESKY_INVERSE_OUT), *l = IN_(CHOLESKY_INVERSE_L), *both = K(dl_add(G0, ADJOINT(G0)));
    dl_tensor *t = x && l && both ? MUL(MUL(x, both), x) : NULL;
    l = !t ? NULL : upper ? K(dl_triu(l, 0)) : K(dl_tril(l, 0));
    dl_tensor *whole = l ? K(dl_neg(upper ? MUL(l, t) : MUL(t, l))) : NULL;
    return dl_give(b, 0, !whole ? NULL : upper ? dl_triu(whole, 0) : dl_tril(whole, 0));
}

/* ---- factors */

/* U with the smallest number in place of zeros on its diagonal, as in PyTorch's gradient of the determinant. */
static dl_tensor *regular(dl_pool *p, dl_tensor *u) {
    dl_tensor *d = u ? K(dl_diagonal(u, 0, -2, -1)) : NULL, *zero = d ? K(dl_scalar_f(0)) : NULL;
    dl_tensor *least = zero ? K(dl_scalar_f(dl_dtype_of_parts(d->dtype) == DL_F64 ? 0x1p-52 : 0x1p-23)) : NULL;
    dl_tensor *fixed = least ? K(dl_where(K(dl_eq(d, zero)), least, d)) : NULL;
    return fixed ? dl_mat_with_diagonal(p, u, fixed) : NULL;
}

/* The square part: P L^-T (tril(L^T gL, -1) + triu(gU U^T)) U^-T, with what the other part of a matrix that is not
 * square takes off. */
GRAD_RULE(factor_lu) {
    POOL;
    dl_tensor *lu = OUT_(FACTOR_LU_LU), *order = OUT_(FACTOR_LU_ORDER), *g = b->g[DL_OUT_FACTOR_LU_LU];
    if (!lu || !order || !g) return lu && order ? DL_OK : dl_failed();
    const long m = dl_mat_height(lu), n = dl_mat_width(lu), k = m < n ? m : n;
    dl_tensor *square = dl_mat_columns(p, dl_mat_rows(p, lu, 0, k), 0, k);
    dl_tensor *gs = dl_mat_columns(p, dl_mat_rows(p, g, 0, k), 0, k);
    if (!square || !gs) return dl_failed();
    dl_tensor *l = dl_mat_with_diagonal(p, K(dl_tril(square, -1)), K(dl_scalar_f(1)));
    dl_tensor *u = square->numel ? regular(p, K(dl_triu(square, 0))) : K(dl_triu(square, 0));
    dl_tensor *low = MUL(ADJOINT(l), K(dl_tril(gs, -1))), *up = MUL(K(dl_triu(gs, 0)), ADJOINT(u)), *rest = NULL;
    if (m < n) {
        rest = dl_mat_columns(p, g, k, -1);
        low = K(dl_sub(low, MUL(rest, ADJOINT(dl_mat_columns(p, lu, k, -1)))));
    } else if (m > n) {
        rest = dl_mat_rows(p, g, k, -1);
        up = K(dl_sub(up, MUL(ADJOINT(dl_mat_rows(p, lu, k, -1)), rest)));
    }
    dl_tensor *phi = low && up ? K(dl_add(K(dl_tril(low, -1)), K(dl_triu(up, 0)))) : NULL;
    if (rest && m < n) /* both parts together from the left */
        phi = K(dl_cat((dl_tensor *[]){ADJOINT(dl_mat_triangle(p, u, ADJOINT(phi), true, false, false)), rest}, 2, -1));
    else if (phi) {
        phi = dl_mat_triangle(p, l, phi, false, true, true);
        if (rest && phi) phi = K(dl_cat((dl_tensor *[]){phi, rest}, 2, -2));
        phi = ADJOINT(dl_mat_triangle(p, u, ADJOINT(phi), true, false, false));
    }
    if (rest && m < n) phi = dl_mat_triangle(p, l, phi, false, true, true);
    dl_tensor *a = dl_mat_order_rows(p, phi, order, true);
    return dl_give(b, 0, a ? dl_ref(a) : NULL);
}

/* P L^-H diag(g conj(u)) U^-H of gradients g of the diagonal u of U. The factors have no history, so that derivatives
 * of higher order make them anew. */
GRAD_RULE(lu_diagonal) {
    POOL;
    dl_tensor *lu = OUT_(LU_DIAGONAL_LU), *order = OUT_(LU_DIAGONAL_ORDER), *pivots = NULL, *info = NULL;
    if (!lu || !order || !G0) return lu && order ? DL_OK : dl_failed();
    if (b->create_graph) {
        lu = K(dl_factor_lu(IN_(LU_DIAGONAL_A), &pivots, &order, &info));
        K(pivots), K(order), K(info);
        if (!lu) return dl_failed();
    }
    dl_tensor *u = lu->numel ? regular(p, lu) : lu;
    dl_tensor *d = u ? K(dl_mul(G0, K(dl_conj(K(dl_diagonal(u, 0, -2, -1)))))) : NULL;
    dl_tensor *zeros = d ? K(dl_zeros(lu->shape, lu->ndim, (dl_dtype)lu->dtype, lu->st->device)) : NULL;
    dl_tensor *phi = dl_mat_triangle(p, lu, dl_mat_with_diagonal(p, zeros, d), false, true, true);
    phi = ADJOINT(dl_mat_triangle(p, u, ADJOINT(phi), true, false, false));
    dl_tensor *a = dl_mat_order_rows(p, phi, order, true);
    return dl_give(b, 0, a ? dl_ref(a) : NULL);
}

/* A square matrix with half of its diagonal. */
static dl_tensor *half_diagonal(dl_pool *p, dl_tensor *t) {
    dl_tensor *d = t ? K(dl_diagonal(t, 0, -2, -1)) : NULL;
    return d ? dl_mat_with_diagonal(p, t, K(dl_mul(d, K(dl_scalar_f(0.5))))) : NULL;
}

static dl_tensor *symmetric(dl_pool *p, dl_tensor *t) { return t ? K(dl_add(t, ADJOINT(t))) : NULL; }

/* phi = tril(L^T g) with half of the diagonal: (L^-T (phi + phi^T) L^-1) / 2 */
GRAD_RULE(factor_cholesky) {
    POOL;
    dl_tensor *l = OUT_(FACTOR_CHOLESKY_L);
    if (!l || !G0) return l ? DL_OK : dl_failed();
    dl_tensor *phi = symmetric(p, half_diagonal(p, K(dl_tril(MUL(ADJOINT(l), G0), 0))));
    phi = dl_mat_triangle(p, l, phi, false, true, false);
    phi = ADJOINT(dl_mat_triangle(p, l, ADJOINT(phi), false, true, false));
    return dl_give(b, 0, phi ? dl_mul(phi, K(dl_scalar_f(0.5))) : NULL);
}

/* M = triu(gR R^T - Q^T gQ), copied to the lower part: (gQ + Q M) R^-T. Of a wide A = [X | Y], R = [U | V]: X = Q U,
 * and V = Q^T Y adds Y gV^T to gQ; gY = Q gV. */
GRAD_RULE(factor_qr) {
    POOL;
    dl_tensor *q = OUT_(FACTOR_QR_Q), *r = OUT_(FACTOR_QR_R), *a = IN_(FACTOR_QR_INPUT);
    dl_tensor *gq = of_output(p, b, 0), *gr = of_output(p, b, 1), *gv = NULL;
    if (!q || !r || !a || !gq || !gr) return dl_failed();
    const long m = dl_mat_height(a), n = dl_mat_width(a);
    if (dl_mat_width(q) > n)
        return dl_fail_hint(DL_ERR_UNSUPPORTED, "qr(a) has mode=reduced, which has one",
                            "mode=complete of a matrix that is higher than wide has no gradient");
    if (m < n) {
        gv = dl_mat_columns(p, gr, m, -1);
        gq = K(dl_add(gq, MUL(dl_mat_columns(p, a, m, -1), ADJOINT(gv))));
        gr = dl_mat_columns(p, gr, 0, m), r = dl_mat_columns(p, r, 0, m);
    }
    dl_tensor *inner = K(dl_sub(MUL(gr, ADJOINT(r)), MUL(ADJOINT(q), gq)));
    dl_tensor *both = half_diagonal(p, symmetric(p, inner ? K(dl_triu(inner, 0)) : NULL));
    dl_tensor *left = both ? K(dl_add(gq, MUL(q, both))) : NULL;
    dl_tensor *x = ADJOINT(dl_mat_triangle(p, r, ADJOINT(left), true, false, false));
    if (!x || !gv) return dl_give(b, 0, x ? dl_ref(x) : NULL);
    return dl_give(b, 0, dl_cat((dl_tensor *[]){x, MUL(q, gv)}, 2, -1));
}

/* v[j] - v[i], with ones on the diagonal */
static dl_tensor *gaps(dl_pool *p, dl_tensor *v) {
    long row[DL_MAX_DIM + 1], column[DL_MAX_DIM + 1];
    if (!v) return NULL;
    for (int i = 0; i < v->ndim; i++) row[i] = column[i] = v->shape[i];
    row[v->ndim] = v->shape[v->ndim - 1], row[v->ndim - 1] = column[v->ndim] = 1;
    dl_tensor *gap = K(dl_sub(K(dl_reshape(v, row, v->ndim + 1)), K(dl_reshape(v, column, v->ndim + 1))));
    return gap ? dl_mat_with_diagonal(p, gap, K(dl_scalar_f(1))) : NULL;
}

/* V (V^T gV / gaps, with gL on the diagonal) V^T */
GRAD_RULE(factor_eigh) {
    POOL;
    dl_tensor *values = OUT_(FACTOR_EIGH_VALUES), *v = OUT_(FACTOR_EIGH_VECTORS), *inner = NULL;
    dl_tensor *gl = of_output(p, b, 0);
    if (!values || !v || !gl) return dl_failed();
    if (!b->g[1]) {
        inner = MUL(dl_mat_scale_columns(p, v, gl), ADJOINT(v));
        return dl_give(b, 0, inner ? dl_ref(inner) : NULL);
    }
    inner = K(dl_div(MUL(ADJOINT(v), b->g[1]), gaps(p, values)));
    inner = dl_mat_with_diagonal(p, inner, K(dl_to_dtype(gl, v->dtype)));
    inner = MUL(MUL(v, inner), ADJOINT(v));
    return dl_give(b, 0, inner ? dl_ref(inner) : NULL);
}

static dl_tensor *skew(dl_pool *p, dl_tensor *t) { return t ? K(dl_sub(t, ADJOINT(t))) : NULL; }

/* gS on the diagonal of M. Complex vectors turn by angles that both sides share: what that asks of the diagonal. */
static dl_tensor *svd_diagonal(dl_pool *p, dl_tensor *gs, dl_tensor *turn, dl_tensor *s, const dl_tensor *like) {
    dl_tensor *own = K(dl_to_dtype(gs, like->dtype));
    if (!turn || !dl_dtype_is_complex(like->dtype)) return own;
    dl_tensor *twice = K(dl_mul(s, K(dl_scalar_f(2)))), *more = K(dl_div(K(dl_diagonal(turn, 0, -2, -1)), twice));
    return own && more ? K(dl_add(own, more)) : NULL;
}

/* M = (skew(U^T gU) / E) S + S (skew(V^T gV) / E) + gS on the diagonal, E = S[j]**2 - S[i]**2: U M V^T, and what lies
 * outside of the spaces of U and V. */
GRAD_RULE(factor_svd) {
    POOL;
    dl_tensor *u = OUT_(FACTOR_SVD_U), *s = OUT_(FACTOR_SVD_S), *vh = OUT_(FACTOR_SVD_VH);
    dl_tensor *gu = b->g[DL_OUT_FACTOR_SVD_U], *gs = of_output(p, b, DL_OUT_FACTOR_SVD_S),
              *gvh = b->g[DL_OUT_FACTOR_SVD_VH];
    if (!u || !s || !vh || !gs) return dl_failed();
    const long k = s->shape[s->ndim - 1], m = dl_mat_height(u), n = dl_mat_width(vh);
    u = dl_mat_columns(p, u, 0, k), vh = dl_mat_rows(p, vh, 0, k);
    gu = gu ? dl_mat_columns(p, gu, 0, k) : NULL, gvh = gvh ? dl_mat_rows(p, gvh, 0, k) : NULL;
    dl_tensor *e = gu || gvh ? gaps(p, K(dl_square(s))) : NULL, *inner = NULL;
    dl_tensor *turn = gu ? skew(p, MUL(ADJOINT(u), gu)) : NULL;
    if (gu) inner = dl_mat_scale_columns(p, K(dl_div(turn, e)), s);
    if (gvh) {
        dl_tensor *right = dl_mat_scale_rows(p, K(dl_div(skew(p, MUL(vh, ADJOINT(gvh))), e)), s);
        inner = inner ? K(dl_add(inner, right)) : right;
    }
    if ((gu || gvh) && !inner) return dl_failed();
    dl_tensor *diagonal = inner ? svd_diagonal(p, gs, gvh ? turn : NULL, s, u) : NULL;
    dl_tensor *left = inner ? MUL(u, dl_mat_with_diagonal(p, inner, diagonal)) : dl_mat_scale_columns(p, u, gs);
    dl_tensor *shrunk = gu || gvh ? K(dl_reciprocal(s)) : NULL;
    if (gu && m > k) {
        dl_tensor *out = K(dl_sub(gu, MUL(u, MUL(ADJOINT(u), gu))));
        left = K(dl_add(left, dl_mat_scale_columns(p, out, shrunk)));
    }
    dl_tensor *a = MUL(left, vh);
    if (gvh && n > k) {
        dl_tensor *out = K(dl_sub(gvh, MUL(MUL(gvh, ADJOINT(vh)), vh)));
        a = K(dl_add(a, MUL(u, dl_mat_scale_rows(p, out, shrunk))));
    }
    return dl_give(b, 0, a ? dl_ref(a) : NULL);
}

/* V^-H ((V^H gV - V^H V Re(diag(V^H gV))) / conj(gaps), with gL on the diagonal) V^H; of real matrices the real part.
 */
GRAD_RULE(factor_eig) {
    POOL;
    dl_tensor *values = OUT_(FACTOR_EIG_VALUES), *v = OUT_(FACTOR_EIG_VECTORS), *gv = b->g[DL_OUT_FACTOR_EIG_VECTORS];
    dl_tensor *gl = of_output(p, b, DL_OUT_FACTOR_EIG_VALUES), *vh = ADJOINT(v), *inner = NULL;
    if (!values || !vh || !gl) return dl_failed();
    if (gv) {
        dl_tensor *t = MUL(vh, gv), *own = t ? K(dl_real(K(dl_diagonal(t, 0, -2, -1)))) : NULL;
        dl_tensor *along = own ? MUL(vh, dl_mat_scale_columns(p, v, own)) : NULL;
        inner = along ? K(dl_div(K(dl_sub(t, along)), K(dl_conj(gaps(p, values))))) : NULL;
        inner = MUL(dl_mat_with_diagonal(p, inner, gl), vh);
    } else
        inner = dl_mat_scale_rows(p, vh, gl);
    dl_tensor *a = inner ? K(dl_solve(vh, inner, 1)) : NULL;
    if (!a) return dl_failed();
    return dl_give(b, 0, dl_dtype_is_complex(META(FACTOR_EIG_INPUT)->dtype) ? dl_ref(a) : dl_real(a));
}

/* ---- functions of a matrix */

/* Golub, Pereyra 1973: P = pinv(A), K = g^T P */
GRAD_RULE(pinv) {
    POOL;
    dl_tensor *a = IN_(PINV_INPUT), *x = OUT_(PINV_OUT);
    if (!a || !x) return dl_failed();
    dl_tensor *gh = ADJOINT(G0), *xh = ADJOINT(x), *k = MUL(gh, x), *kh = MUL(k, xh);
    dl_tensor *first = K(dl_sub(kh, ADJOINT(MUL(x, k)))), *second = MUL(MUL(a, x), kh);
    dl_tensor *third = MUL(MUL(xh, x), K(dl_sub(gh, MUL(k, a))));
    return dl_give(b, 0, first ? dl_add(K(dl_sub(first, second)), third) : NULL);
}

/* exp([[A^T, g], [0, A^T]]) has the gradient in its upper right corner (Mathias 1996). */
GRAD_RULE(matrix_exp) {
    POOL;
    dl_tensor *t = ADJOINT(IN_(MATRIX_EXP_A));
    if (!t) return dl_failed();
    const long n = dl_mat_width(t);
    dl_tensor *zero = K(dl_zeros(t->shape, t->ndim, (dl_dtype)t->dtype, t->st->device)), *g = G0;
    dl_tensor *top = K(dl_cat((dl_tensor *[]){t, g}, 2, -1)),
              *bottom = zero ? K(dl_cat((dl_tensor *[]){zero, t}, 2, -1)) : NULL;
    dl_tensor *whole = top && bottom ? K(dl_matrix_exp(K(dl_cat((dl_tensor *[]){top, bottom}, 2, -2)))) : NULL;
    dl_tensor *corner = dl_mat_columns(p, dl_mat_rows(p, whole, 0, n), n, -1);
    return dl_give(b, 0, corner ? dl_ref(corner) : NULL);
}

/* dX solves X dX + dX X = dA, and the equation is its own adjoint; dA is symmetric. */
GRAD_RULE(matrix_sqrth) {
    POOL;
    dl_tensor *both = K(dl_add(G0, ADJOINT(G0))), *even = both ? K(dl_mul(both, K(dl_scalar_f(0.5)))) : NULL;
    return dl_give(b, 0, even ? dl_lyapunov(OUT_(MATRIX_SQRTH_OUT), even) : NULL);
}

/* A dX + dX A = dC - dA X - X dA: with P that solves A P + P A = g, dC = P and dA = -(P X^H + X^H P) */
GRAD_RULE(lyapunov) {
    POOL;
    dl_tensor *back = K(dl_lyapunov(IN_(LYAPUNOV_A), G0)), *x = ADJOINT(OUT_(LYAPUNOV_OUT));
    if (!back) return dl_failed();
    GIVE(LYAPUNOV_C, dl_ref(back));
    if (!NEED(LYAPUNOV_A)) return DL_OK;
    return dl_give(b, DL_IN_LYAPUNOV_A, dl_neg(K(dl_add(MUL(back, x), MUL(x, back)))));
}
