/* Sparse matrices as objects: a pattern, which several may share, and a tensor of values, which has the history. All is
 * made of ops, so that it works on every device, and gradients follow. */
#include "core/scope.h"
#include "ops/compose/compose.h"
#include "ops/sparse.h"
#include "dlcore/arithmetic.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/sort.h"
#include "dlcore/sparse.h"
#include "dlcore/view.h"

#include <pthread.h>
#include <stdlib.h>

/* crow, col, and of the transpose, when it was asked for: crow, col, and which entry each of its entries is. */
typedef struct pattern {
    int refs;
    long rows, cols;
    dl_tensor *crow, *col, *across[3];
    long version; /* of the indices of which `across` was made */
} pattern;

struct dl_sparse {
    int refs;
    pattern *p;
    dl_tensor *values;
};

static pthread_mutex_t across_lock = PTHREAD_MUTEX_INITIALIZER; /* guards `across` and `version` of all patterns */

/* ---- making and releasing */

static void pattern_unref(pattern *p) {
    if (!p || __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL)) return;
    dl_unref(p->crow), dl_unref(p->col);
    for (int i = 0; i < 3; i++) dl_unref(p->across[i]);
    free(p);
}

static pattern *pattern_new(dl_tensor *crow, dl_tensor *col, long rows, long cols) {
    pattern *p = crow && col ? calloc(1, sizeof *p) : NULL;
    if (!p) return crow && col ? dl_fail(DL_ERR_MEMORY, "no memory for a sparse matrix"), NULL : NULL;
    *p = (pattern){.refs = 1, .rows = rows, .cols = cols, .crow = dl_ref(crow), .col = dl_ref(col)};
    return p;
}

/* Takes the pattern over. NULL for one of them: it could not be made. */
static dl_sparse *sparse_new(pattern *p, dl_tensor *values) {
    dl_sparse *s = p && values ? malloc(sizeof *s) : NULL;
    if (s) {
        *s = (dl_sparse){1, p, dl_ref(values)};
        return s;
    }
    if (p && values) dl_fail(DL_ERR_MEMORY, "no memory for a sparse matrix");
    pattern_unref(p);
    return NULL;
}

static pattern *shared(pattern *p) {
    __atomic_add_fetch(&p->refs, 1, __ATOMIC_RELAXED);
    return p;
}

dl_sparse *dl_sparse_ref(dl_sparse *s) {
    if (s) __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
    return s;
}

void dl_sparse_unref(dl_sparse *s) {
    if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL)) return;
    pattern_unref(s->p);
    dl_unref(s->values);
    free(s);
}

static const char *shape_of(const dl_sparse *s) { return dl_shape_text(2, (long[]){s->p->rows, s->p->cols}); }
static bool given(const void *s) { return s || (dl_fail_null("the sparse matrix"), false); }

long dl_sparse_rows(const dl_sparse *s) { return s->p->rows; }
long dl_sparse_cols(const dl_sparse *s) { return s->p->cols; }
long dl_sparse_nnz(const dl_sparse *s) { return s->values->numel; }
dl_tensor *dl_sparse_values(const dl_sparse *s) { return s->values; }
dl_tensor *dl_sparse_crow(const dl_sparse *s) { return s->p->crow; }
dl_tensor *dl_sparse_col(const dl_sparse *s) { return s->p->col; }

/* ---- checks of what is given */

static dl_status check_size(long rows, long cols) {
    int64_t n = 1;
    if (rows >= 0 && cols >= 0 && dl_count_mul(&n, rows) && dl_count_mul(&n, cols)) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "a sparse matrix cannot have %ld rows and %ld columns", rows, cols);
}

static dl_status check_values(const dl_tensor *values, long entries) {
    if (!dl_dtype_is_float((dl_dtype)values->dtype))
        return dl_fail_hint(DL_ERR_DTYPE, "convert them with .to(f32)",
                            "values of a sparse matrix are floating numbers, not %s",
                            dl_dtype_name((dl_dtype)values->dtype));
    if (values->ndim == 1 && values->numel == entries) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "%ld entries need as many values, not %s", entries,
                   dl_shape_text(values->ndim, values->shape));
}

static dl_status check_device(const dl_tensor *index, const dl_tensor *values) {
    const int from = index->st->device, to = values->st->device;
    if (from == to) return DL_OK;
    return dl_fail_hint(DL_ERR_DEVICE, "move them with .to(DEVICE)", "indices and values are on two devices");
}

/* The whole numbers of a list in host memory, to be freed; NULL: failed. */
static long *numbers(dl_tensor *list) {
    DL_OWNED dl_tensor *wide = dl_to_dtype(list, DL_I64);
    long *at = wide ? malloc((size_t)(wide->numel + 1) * sizeof *at) : NULL;
    if (wide && !at) dl_fail(DL_ERR_MEMORY, "no memory for %ld indices", (long)wide->numel);
    if (at && dl_read(wide, at)) free(at), at = NULL;
    return at;
}

/* DL_ERR_INDEX naming the first number of a list that is not below `limit`. */
static dl_status check_below(dl_tensor *list, long limit, const char *what) {
    long least = 0, most = -1;
    POOL;
    if (!list->numel) return DL_OK;
    DL_TRY(dl_item_i(K(dl_amin(list, NULL, 0, 0)), &least));
    DL_TRY(dl_item_i(K(dl_amax(list, NULL, 0, 0)), &most));
    if (least >= 0 && most < limit) return DL_OK;
    long *at = numbers(list), e = 0;
    if (!at) return dl_failed();
    while (e < list->numel - 1 && at[e] >= 0 && at[e] < limit) e++;
    const long wrong = at[e];
    free(at);
    return dl_fail(DL_ERR_INDEX, "%s %ld of entry %ld is out of range for a matrix of %ld %ss", what, wrong, e, limit,
                   what);
}

static dl_status check_csr(dl_tensor *crow, dl_tensor *col, dl_tensor *values, long rows, long cols) {
    DL_TRY(check_size(rows, cols));
    DL_TRY(dl_check_index(crow));
    DL_TRY(dl_check_index(col));
    if (crow->ndim != 1 || crow->numel != rows + 1)
        return dl_fail(DL_ERR_SHAPE, "crow of %ld rows has shape [%ld], not %s", rows, rows + 1,
                       dl_shape_text(crow->ndim, crow->shape));
    if (col->ndim != 1) return dl_fail(DL_ERR_SHAPE, "col must be a list, not of %d dimensions", col->ndim);
    DL_TRY(check_values(values, col->numel));
    DL_TRY(check_device(crow, values));
    DL_TRY(check_device(col, values));
    long *at = numbers(crow);
    const long wrong = at ? dl_crow_wrong(at, rows, col->numel) : 0;
    dl_status st = !at ? dl_failed() : wrong < 0 ? DL_OK : dl_fail_crow(at, rows, col->numel, wrong);
    free(at);
    return st ? st : check_below(col, cols, "column");
}

dl_sparse *dl_sparse_csr(dl_tensor *crow, dl_tensor *col, dl_tensor *values, long rows, long cols) {
    if (!crow || !col || !values) return dl_fail_null("a part of the sparse matrix"), NULL;
    if (check_csr(crow, col, values, rows, cols)) return NULL;
    POOL;
    dl_tensor *from = K(dl_to_dtype(crow, DL_I64)), *at = K(dl_to_dtype(col, DL_I64));
    dl_tensor *whole = from ? K(dl_contiguous(from)) : NULL, *list = at ? K(dl_contiguous(at)) : NULL;
    return sparse_new(pattern_new(whole, list, rows, cols), values);
}

/* ---- from places: those of rows that are sorted need only be counted */

static dl_tensor *starts_of(dl_pool *p, dl_tensor *row, long rows) {
    const double end = (double)(rows + 1);
    dl_tensor *each = row ? K(dl_arange(0, &end, 1, DL_I64, row->st->device)) : NULL;
    return each ? K(dl_searchsorted(row, each, NULL, 0, 0, NULL)) : NULL;
}

/* Entries at places row * cols + col, sorted, none twice. */
static dl_sparse *of_places(dl_tensor *place, dl_tensor *values, long rows, long cols) {
    POOL;
    dl_tensor *width = K(dl_scalar_i(cols ? cols : 1)), *row = place ? K(dl_floor_divide(place, width)) : NULL;
    dl_tensor *col = row ? K(dl_sub(place, K(dl_mul(row, width)))) : NULL;
    dl_tensor *crow = col ? starts_of(p, row, rows) : NULL;
    return sparse_new(crow ? pattern_new(crow, col, rows, cols) : NULL, values);
}

/* The same for places in any order; the values of one place add up. */
static dl_sparse *joined(dl_tensor *place, dl_tensor *values, long rows, long cols) {
    POOL;
    dl_tensor *inverse = NULL, *counts = NULL;
    dl_tensor *all = place ? K(dl_unique_groups(place, NULL, 0, &inverse, &counts)) : NULL;
    K(inverse), K(counts);
    dl_tensor *none = all ? K(dl_zeros(&all->numel, 1, (int)values->dtype, values->st->device)) : NULL;
    dl_tensor *sums = none ? K(dl_index_add(none, inverse, values, 0)) : NULL;
    return sums ? of_places(all, sums, rows, cols) : NULL;
}

static dl_tensor *places_of(dl_pool *p, dl_tensor *row, dl_tensor *col, long cols) {
    dl_tensor *first = row && col ? K(dl_mul(row, K(dl_scalar_i(cols)))) : NULL;
    return first ? K(dl_add(first, col)) : NULL;
}

dl_sparse *dl_sparse_coo(dl_tensor *indices, dl_tensor *values, long rows, long cols) {
    if (!indices || !values) return dl_fail_null("a part of the sparse matrix"), NULL;
    if (check_size(rows, cols) || dl_check_index(indices)) return NULL;
    if (indices->ndim != 2 || indices->shape[0] != 2)
        return dl_fail(DL_ERR_SHAPE, "indices have shape [2,entries], rows above columns, not %s",
                       dl_shape_text(indices->ndim, indices->shape)),
               NULL;
    if (check_values(values, indices->shape[1]) || check_device(indices, values)) return NULL;
    POOL;
    dl_tensor *wide = K(dl_to_dtype(indices, DL_I64)), *row = wide ? K(dl_select(wide, 0, 0)) : NULL,
              *col = row ? K(dl_select(wide, 0, 1)) : NULL;
    if (!col || check_below(row, rows, "row") || check_below(col, cols, "column")) return NULL;
    return joined(places_of(p, row, col, cols), values, rows, cols);
}

dl_sparse *dl_sparse_of(dl_tensor *dense) {
    if (!dense) return dl_fail_null("the matrix"), NULL;
    if (dense->ndim != 2)
        return dl_fail(DL_ERR_SHAPE, "a sparse matrix is made of a matrix, not of a tensor of shape %s",
                       dl_shape_text(dense->ndim, dense->shape)),
               NULL;
    if (!dl_dtype_is_float((dl_dtype)dense->dtype)) return check_values(dense, 0), NULL;
    POOL;
    dl_tensor *flat = K(dl_reshape(dense, (long[]){dense->numel}, 1)), *found;
    dl_tensor *plain = flat ? K(dl_detach(flat)) : NULL;
    if (!plain || !(found = K(dl_nonzero(plain)))) return NULL;
    dl_tensor *place = K(dl_reshape(found, (long[]){found->numel}, 1));
    dl_tensor *values = place ? K(dl_index_select(flat, place, 0)) : NULL;
    return values ? of_places(place, values, dense->shape[0], dense->shape[1]) : NULL;
}

dl_sparse *dl_sparse_with(const dl_sparse *s, dl_tensor *values) {
    if (!given(s) || !values) return dl_fail_null("the values"), NULL;
    if (check_values(values, dl_sparse_nnz(s)) || check_device(s->p->col, values)) return NULL;
    return sparse_new(shared(s->p), values);
}

dl_sparse *dl_sparse_to(const dl_sparse *s, dl_dtype dtype, int device) {
    if (!given(s)) return NULL;
    POOL;
    dl_tensor *there = K(dl_to_device(s->values, device)), *values = there ? K(dl_to_dtype(there, dtype)) : NULL;
    if (!values || check_values(values, dl_sparse_nnz(s))) return NULL;
    dl_tensor *crow = K(dl_to_device(s->p->crow, device)), *col = K(dl_to_device(s->p->col, device));
    if (crow == s->p->crow && col == s->p->col) return sparse_new(shared(s->p), values);
    return sparse_new(crow && col ? pattern_new(crow, col, s->p->rows, s->p->cols) : NULL, values);
}

/* ---- the transpose */

/* Its pattern, made once, and anew when indices were changed; pooled references. */
static dl_status across_of(dl_pool *pool, pattern *p, dl_tensor *out[3]) {
    const long version = dl_tensor_version(p->crow) + dl_tensor_version(p->col);
    pthread_mutex_lock(&across_lock);
    if (!p->across[0] || p->version != version) {
        for (int i = 0; i < 3; i++) dl_unref(p->across[i]), p->across[i] = NULL;
        p->across[0] = dl_csr_transpose(p->crow, p->col, p->cols, &p->across[1], &p->across[2]);
        p->version = version;
    }
    bool made = p->across[0] != NULL;
    for (int i = 0; i < 3 && made; i++) out[i] = dl_ref(p->across[i]);
    pthread_mutex_unlock(&across_lock);
    for (int i = 0; i < 3 && made; i++) dl_keep(pool, out[i]);
    return made ? DL_OK : dl_failed();
}

dl_sparse *dl_sparse_transpose(const dl_sparse *s) {
    if (!given(s)) return NULL;
    POOL;
    dl_tensor *t[3];
    if (across_of(p, s->p, t)) return NULL;
    dl_tensor *values = K(dl_index_select(s->values, t[2], 0));
    return sparse_new(values ? pattern_new(t[0], t[1], s->p->cols, s->p->rows) : NULL, values);
}

/* ---- products, sums, and back to a dense matrix */

/* Has dimension `dim` of a matrix, or a vector, this size? */
static bool fits(const dl_tensor *x, int dim, long size) {
    return (x->ndim == 1 || x->ndim == 2) && x->shape[x->ndim == 1 ? 0 : dim] == size;
}

dl_tensor *dl_sparse_matmul(const dl_sparse *s, dl_tensor *x) {
    if (!given(s) || !x) return dl_fail_null("the matrix"), NULL;
    if (!fits(x, 0, s->p->cols))
        return dl_fail(DL_ERR_SHAPE, "a sparse matrix of shape %s cannot be multiplied by %s", shape_of(s),
                       dl_shape_text(x->ndim, x->shape)),
               NULL;
    POOL;
    dl_tensor *t[3] = {0}, *wide = x->ndim == 1 ? K(dl_reshape(x, (long[]){x->numel, 1}, 2)) : x;
    if (dl_grad_mode_get() && dl_requires_grad(x) && across_of(p, s->p, t)) return NULL;
    dl_tensor *y = wide ? dl_spmm(s->values, s->p->crow, s->p->col, wide, t[0], t[1], t[2]) : NULL;
    if (x->ndim == 2 || !K(y)) return y;
    return dl_reshape(y, (long[]){s->p->rows}, 1);
}

dl_tensor *dl_sparse_premultiplied(dl_tensor *x, const dl_sparse *s) {
    if (!given(s) || !x) return dl_fail_null("the matrix"), NULL;
    if (!fits(x, 1, s->p->rows))
        return dl_fail(DL_ERR_SHAPE, "%s cannot be multiplied by a sparse matrix of shape %s",
                       dl_shape_text(x->ndim, x->shape), shape_of(s)),
               NULL;
    dl_sparse *across = dl_sparse_transpose(s);
    if (!across) return NULL;
    POOL;
    const long swap[] = {1, 0};
    dl_tensor *turned = x->ndim == 2 ? K(dl_permute(x, swap, 2)) : x;
    dl_tensor *y = turned ? dl_sparse_matmul(across, turned) : NULL;
    dl_sparse_unref(across);
    if (x->ndim == 1 || !K(y)) return y;
    return dl_permute(y, swap, 2);
}

/* The place row * cols + col of each entry. */
static dl_tensor *places(dl_pool *p, const pattern *of) {
    const double end = (double)of->rows;
    const long zero = 0, one = 1, last = of->rows;
    dl_tensor *lo = K(dl_slice(of->crow, 0, &zero, &last, 1)), *hi = K(dl_slice(of->crow, 0, &one, NULL, 1));
    dl_tensor *counts = lo && hi ? K(dl_sub(hi, lo)) : NULL;
    dl_tensor *each = counts ? K(dl_arange(0, &end, 1, DL_I64, of->crow->st->device)) : NULL;
    return each ? places_of(p, K(dl_repeat_interleave(each, counts, NULL)), of->col, of->cols) : NULL;
}

dl_tensor *dl_sparse_dense(const dl_sparse *s) {
    if (!given(s)) return NULL;
    POOL;
    const long numel = s->p->rows * s->p->cols;
    dl_tensor *none = K(dl_zeros(&numel, 1, (int)s->values->dtype, s->values->st->device));
    dl_tensor *place = none ? places(p, s->p) : NULL, *flat = place ? K(dl_index_add(none, place, s->values, 0)) : NULL;
    return flat ? dl_reshape(flat, (long[]){s->p->rows, s->p->cols}, 2) : NULL;
}

dl_sparse *dl_sparse_add(const dl_sparse *a, const dl_sparse *b) {
    if (!given(a) || !given(b)) return NULL;
    POOL;
    if (a->p->rows != b->p->rows || a->p->cols != b->p->cols)
        return dl_fail(DL_ERR_SHAPE, "sparse matrices of shape %s and %s cannot be added", shape_of(a), shape_of(b)),
               NULL;
    if (a->p == b->p) {
        dl_tensor *sum = K(dl_add(a->values, b->values));
        return sum ? sparse_new(shared(a->p), sum) : NULL;
    }
    dl_tensor *place[2] = {places(p, a->p), places(p, b->p)}, *values[2] = {a->values, b->values};
    dl_tensor *all = place[0] && place[1] ? K(dl_cat(place, 2, 0)) : NULL, *each = all ? K(dl_cat(values, 2, 0)) : NULL;
    return each ? joined(all, each, a->p->rows, a->p->cols) : NULL;
}
