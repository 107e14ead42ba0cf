/* x[...] on tensors: ints, slices, none, ..., masks and index tensors; reading and writing. */
#include <limits.h>
#include <string.h>

#include "lang/eval/interp.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "dlcore/where.h"

/* An index tensor on `ndims` dimensions of the view from `dim` on, which hold `size` positions. */
typedef struct part {
    int dim, ndims;
    long size;
    dl_tensor *index; /* owned */
} part;

/* What the subscripts amount to: a view by ints, slices and none, and a group of index tensors on some of its
 * dimensions. When these are not adjacent they are moved to the front of the view, as PyTorch does. */
typedef struct plan {
    part parts[8];
    int nparts;
    dl_tensor *view;  /* owned */
    dl_tensor *base;  /* owned: what is written; the view itself, unless it is a copy that lies backwards somewhere */
    unsigned back;    /* a bit for each dimension of the view in which it lies backwards from the base */
    int ndim;         /* of the tensor that is indexed */
    int dim;          /* first dimension the group indexes; -1: no group */
    int ndims;        /* adjacent dimensions that it indexes */
    dl_tensor *index; /* owned: i64 positions in those dimensions laid out as one; any shape */
    dl_tensor *mask;  /* owned: the bool tensor when the group is one mask */
} plan;

static void plan_free(plan *p) {
    for (int i = 0; i < p->nparts; i++) dl_unref(p->parts[i].index);
    dl_unref(p->view);
    dl_unref(p->base);
    dl_unref(p->index);
    dl_unref(p->mask);
}

/* Replaces *t by the result of an op on it. */
static dl_status replace(dl_tensor **t, dl_tensor *by) {
    if (!by) return dl_failed();
    dl_unref(*t);
    *t = by;
    return DL_OK;
}

/* ---------------------------------------------------------------- basic subscripts */

dl_tensor *dlsh_unsqueeze(dl_tensor *t, int dim) {
    long shape[9];
    int n = dl_ndim(t);
    if (n >= 8) return dlsh_fail(DL_ERR_SHAPE, NULL, "a tensor has at most 8 dimensions"), NULL;
    for (int i = 0; i <= n; i++) shape[i] = i < dim ? dl_shape(t)[i] : i == dim ? 1 : dl_shape(t)[i - 1];
    return dl_reshape(t, shape, n + 1);
}

static dl_status bound(dlsh_session *s, const dlsh_node *n, long *out, int *given) {
    DLSH_DROPPED dlsh_value v = dlsh_void();
    dl_status st = DL_OK;
    *given = 0;
    if (!n) return DL_OK;
    DLSH_TRY(dlsh_eval(s, n, &v));
    if (v.type == DLSH_INT)
        *out = v.as.i, *given = 1;
    else if (v.type == DLSH_TENSOR && !dl_dtype_is_float(dl_dtype_of(v.as.tensor)))
        st = dl_item_i(v.as.tensor, out), *given = 1;
    else if (v.type != DLSH_NONE)
        st = dlsh_fail(DL_ERR_TYPE, NULL, "a slice goes from int to int, got %s", dlsh_type_name(v));
    return dlsh_at(s, n, st);
}

/* A negative step: the same elements forwards, which are flipped at the end. */
static dl_status slice_backwards(dl_tensor **t, int dim, const long *start, const long *stop, long step) {
    long n = dl_shape(*t)[dim], from = start ? *start : n - 1, to = stop ? *stop : -1;
    if (start && from < 0) from += n;
    if (stop && to < 0) to = to + n < -1 ? -1 : to + n;
    if (from > n - 1) from = n - 1;
    if (to > n - 1) to = n - 1;
    long count = from > to ? (from - to - 1) / -step + 1 : 0;
    long first = count ? from + (count - 1) * step : 0, end = count ? from + 1 : 0;
    return replace(t, dl_slice(*t, dim, &first, &end, -step));
}

static dl_status slice(dlsh_session *s, plan *p, int dim, const dlsh_node *n) {
    dl_tensor **t = &p->view;
    long start, stop, step = 1;
    int has_start, has_stop, has_step;
    DLSH_TRY(bound(s, n->kids[0], &start, &has_start));
    DLSH_TRY(bound(s, n->kids[1], &stop, &has_stop));
    DLSH_TRY(bound(s, n->kids[2], &step, &has_step));
    if (step < -LONG_MAX) step = -LONG_MAX;
    if (has_step && step < 0) {
        p->back |= 1U << dim;
        return slice_backwards(t, dim, has_start ? &start : NULL, has_stop ? &stop : NULL, step);
    }
    if (has_step && step == 0) return dlsh_fail(DL_ERR_VALUE, NULL, "the step of a slice cannot be 0");
    if (!has_start && !has_stop && step == 1) return DL_OK;
    return replace(t, dl_slice(*t, dim, has_start ? &start : NULL, has_stop ? &stop : NULL, step));
}

/* ---------------------------------------------------------------- index tensors */

/* Negative positions count from the end. */
static dl_tensor *wrap_negative(dl_tensor *index, long n) {
    DLSH_OWNED dl_tensor *zero = dl_scalar_i(0), *size = dl_scalar_i(n), *neg = dl_lt(index, zero),
                         *up = dl_add(index, size);
    return dl_where(neg, up, index);
}

/* The positions of a mask's true elements, its dimensions laid out as one. */
static dl_tensor *mask_positions(dl_tensor *mask) {
    long flat = -1;
    dl_tensor *one = dl_reshape(mask, &flat, 1), *at = dl_nonzero(one), *r = dl_reshape(at, &flat, 1);
    DLSH_UNREF(one, at);
    return r;
}

static dl_status check_mask(const dl_tensor *t, int dim, const dl_tensor *mask) {
    for (int i = 0; i < dl_ndim(mask); i++)
        if (dim + i >= dl_ndim(t) || dl_shape(t)[dim + i] != dl_shape(mask)[i]) {
            DLSH_SCOPED_BUF a = {0};
            for (int k = 0; k < dl_ndim(mask); k++) dlsh_buf_printf(&a, k ? ", %ld" : "%ld", dl_shape(mask)[k]);
            dlsh_fail(DL_ERR_SHAPE, "mask and tensor must agree in the dimensions they share",
                      "a mask of shape [%s] does not fit dimension %d of the tensor", dlsh_buf_text(&a), dim);
            return DL_ERR_SHAPE;
        }
    return DL_OK;
}

/* Makes one index of several: position = position * size + index, with broadcasting. */
static dl_status combine(plan *p, const part *x) {
    if (!p->index) {
        p->index = dl_ref(x->index);
        return DL_OK;
    }
    dl_tensor *n = dl_scalar_i(x->size), *up = dl_mul(p->index, n), *sum = dl_add(up, x->index);
    DLSH_UNREF(n, up);
    return replace(&p->index, sum);
}

/* A position out of range would address another element after combine(). */
static dl_status check_range(const part *x) {
    long ends[2] = {0, x->size - 1};
    dl_tensor *(*const find[2])(dl_tensor *, const long *, int, int) = {dl_amin, dl_amax};
    for (int i = 0; i < 2 && dl_numel(x->index); i++) {
        DLSH_OWNED dl_tensor *end = find[i](x->index, NULL, 0, 0);
        DLSH_TRY(end ? dl_item_i(end, &ends[i]) : dl_failed());
    }
    if (ends[0] >= 0 && ends[1] < x->size) return DL_OK;
    return dlsh_fail(DL_ERR_INDEX, NULL, "index %ld is out of range for dimension %d of size %ld",
                     ends[0] < 0 ? ends[0] - x->size : ends[1], x->dim, x->size);
}

/* The view with the dimensions of all parts in front, in their order. */
static dl_status to_front(plan *p) {
    long order[8];
    int n = 0, taken[8] = {0};
    for (int i = 0; i < p->nparts; i++)
        for (int k = 0; k < p->parts[i].ndims; k++) taken[order[n++] = p->parts[i].dim + k] = 1;
    for (int d = 0; d < dl_ndim(p->view); d++)
        if (!taken[d]) order[n++] = d;
    unsigned back = 0;
    for (int i = 0; i < n; i++) back |= (p->back >> order[i] & 1) << i;
    p->dim = 0, p->back = back;
    return replace(&p->view, dl_permute(p->view, order, n));
}

/* Makes one index tensor on adjacent dimensions of all parts. */
static dl_status group(plan *p) {
    int apart = 0;
    if (!p->nparts) return DL_OK;
    p->dim = p->parts[0].dim;
    for (int i = 0; i < p->nparts; i++) {
        const part *x = &p->parts[i];
        apart |= x->dim != p->dim + p->ndims;
        p->ndims += x->ndims;
        if (p->nparts > 1) DLSH_TRY(check_range(x));
        DLSH_TRY(combine(p, x));
    }
    return apart ? to_front(p) : DL_OK;
}

static dl_status too_many_indices(const plan *p) {
    return dlsh_fail(DL_ERR_INDEX, NULL, "too many indices for a tensor of %d dimensions", p->ndim);
}

static dl_status add_index(plan *p, int dim, dl_tensor *t) {
    part x = {.dim = dim, .ndims = 1};
    if (p->nparts == 8) return too_many_indices(p);
    if (dl_dtype_of(t) == DL_BOOL) {
        DLSH_TRY(check_mask(p->view, dim, t));
        x.index = mask_positions(t);
        x.ndims = dl_ndim(t);
        x.size = dl_numel(t);
        if (x.index && !p->nparts) p->mask = dl_ref(t);
    } else if (dl_dtype_is_float(dl_dtype_of(t)))
        return dlsh_fail(DL_ERR_DTYPE, "x.to(i64) makes indices of it",
                         "an index tensor holds integers or bools, got %s", dl_dtype_name(dl_dtype_of(t)));
    else {
        if (dim >= dl_ndim(p->view)) return too_many_indices(p);
        dl_tensor *wide = dl_to_dtype(t, DL_I64);
        x.size = dl_shape(p->view)[dim];
        x.index = wide ? wrap_negative(wide, x.size) : NULL;
        dl_unref(wide);
    }
    if (!x.index) return dl_failed();
    if (p->nparts) { /* beside other index tensors the mask is used by its positions only */
        dl_unref(p->mask);
        p->mask = NULL;
    }
    p->parts[p->nparts++] = x;
    return DL_OK;
}

/* ---------------------------------------------------------------- the plan */

/* How many dimensions a subscript indexes: a bool mask as many as it has. */
static int dims_of(const dlsh_node *n, dlsh_value v) {
    if (n->kind == DLSH_N_ELLIPSIS || v.type == DLSH_NONE) return n->kind == DLSH_N_SLICE;
    if (v.type == DLSH_TENSOR && dl_dtype_of(v.as.tensor) == DL_BOOL) return dl_ndim(v.as.tensor);
    return 1;
}

static dl_status list_index(plan *p, int dim, dlsh_value list) {
    DLSH_DROPPED dlsh_value t = dlsh_void();
    DLSH_TRY(dlsh_list_to_tensor(list, -1, dl_device_of(p->view), &t));
    return add_index(p, dim, t.as.tensor);
}

static dl_status range_index(plan *p, int dim, const dlsh_range *r) {
    DLSH_DROPPED dlsh_value list = dlsh_new_list(0);
    for (long i = r->from; r->step > 0 ? i < r->to : i > r->to; i += r->step) DLSH_TRY(dlsh_append(list, dlsh_int(i)));
    return list_index(p, dim, list);
}

static dl_status apply(dlsh_session *s, plan *p, int *dim, const dlsh_node *n, dlsh_value v) {
    if (v.type == DLSH_TENSOR && dl_ndim(v.as.tensor) == 0 && !dl_dtype_is_float(dl_dtype_of(v.as.tensor)) &&
        dl_dtype_of(v.as.tensor) != DL_BOOL) {
        long i;
        DLSH_TRY(dl_item_i(v.as.tensor, &i));
        v = dlsh_int(i);
    }
    if ((n->kind == DLSH_N_SLICE || v.type == DLSH_INT) && *dim >= dl_ndim(p->view)) return too_many_indices(p);
    if (n->kind == DLSH_N_SLICE) return slice(s, p, (*dim)++, n);
    int d = *dim;
    switch (v.type) {
    case DLSH_INT: return replace(&p->view, dl_select(p->view, d, v.as.i));
    case DLSH_NONE: return replace(&p->view, dlsh_unsqueeze(p->view, (*dim)++));
    case DLSH_LIST: return list_index(p, (*dim)++, v);
    case DLSH_RANGE: return range_index(p, (*dim)++, v.as.range);
    case DLSH_TENSOR: *dim += dims_of(n, v); return add_index(p, d, v.as.tensor);
    default:
        return dlsh_fail(DL_ERR_TYPE, NULL,
                         "a tensor is indexed by ints, slices, none, ..., masks and index tensors, got %s", dlsh_a(v));
    }
}

/* t with the dimensions turned that lie backwards in the view; an operation that undoes itself. */
static dl_tensor *turned(const plan *p, dl_tensor *t) {
    long dims[8];
    int n = 0;
    for (int i = 0; i < 8; i++)
        if (p->back >> i & 1) dims[n++] = i;
    return dl_flip(t, dims, n);
}

static dl_status turn_view(plan *p) {
    p->base = dl_ref(p->view);
    return p->back ? replace(&p->view, turned(p, p->base)) : DL_OK;
}

enum { MAX_SUBS = 32 };

static dl_status make_plan(dlsh_session *s, dl_tensor *t, const dlsh_node *n, plan *p) {
    dlsh_value v[MAX_SUBS];
    int subs = n->nkids - 1, evaluated = 0, after = 0, ellipsis = -1, dim = 0;
    dl_status st = DL_OK;
    *p = (plan){.view = dl_ref(t), .ndim = dl_ndim(t), .dim = -1};
    if (subs > MAX_SUBS) return dlsh_fail(DL_ERR_INDEX, NULL, "%d subscripts; a tensor has at most 8 dimensions", subs);
    for (; evaluated < subs && !st; evaluated++) {
        const dlsh_node *k = n->kids[evaluated + 1];
        v[evaluated] = dlsh_none();
        if (k->kind == DLSH_N_ELLIPSIS) {
            if (ellipsis >= 0) st = dlsh_at(s, k, dlsh_fail(DL_ERR_INDEX, NULL, "... may stand only once in an index"));
            ellipsis = evaluated;
            after = 0;
        } else {
            if (k->kind != DLSH_N_SLICE) st = dlsh_eval(s, k, &v[evaluated]);
            if (st) break;
            after += dims_of(k, v[evaluated]);
        }
    }
    for (int i = 0; i < subs && !st; i++) {
        const dlsh_node *k = n->kids[i + 1];
        if (i == ellipsis) {
            if (dl_ndim(p->view) - after > dim) dim = dl_ndim(p->view) - after;
        } else
            st = dlsh_at(s, k, apply(s, p, &dim, k, v[i]));
    }
    for (int i = 0; i < evaluated; i++) dlsh_drop(v[i]);
    if (!st) st = group(p);
    if (!st) st = turn_view(p);
    if (st) plan_free(p);
    return st;
}

/* The view with the group's dimensions laid out as one. */
static dl_tensor *merged(const plan *p) {
    long shape[8];
    int n = 0;
    if (p->ndims == 1) return dl_ref(p->view);
    for (int i = 0; i < dl_ndim(p->view); i++)
        if (i > p->dim && i < p->dim + p->ndims)
            shape[n - 1] *= dl_shape(p->view)[i];
        else
            shape[n++] = dl_shape(p->view)[i];
    if (p->ndims == 0) { /* a 0-d mask */
        for (int i = n; i > p->dim; i--) shape[i] = shape[i - 1];
        shape[p->dim] = 1;
        n++;
    }
    return dl_reshape(p->view, shape, n);
}

/* The shape of the elements that the group addresses. DL_ERR_SHAPE above 8 dimensions. */
static dl_status gathered_shape(const plan *p, long *shape, int *n) {
    int ni = dl_ndim(p->index), rest = dl_ndim(p->view) - p->ndims, k = 0;
    if (ni + rest > 8)
        return dlsh_fail(DL_ERR_SHAPE, NULL, "the result would have %d dimensions; 8 are allowed", ni + rest);
    for (int i = 0; i < p->dim; i++) shape[k++] = dl_shape(p->view)[i];
    for (int i = 0; i < ni; i++) shape[k++] = dl_shape(p->index)[i];
    for (int i = p->dim + p->ndims; i < dl_ndim(p->view); i++) shape[k++] = dl_shape(p->view)[i];
    *n = k;
    return DL_OK;
}

/* ---------------------------------------------------------------- reading */

static dl_tensor *gather(const plan *p) {
    long shape[8], flat = -1;
    int n;
    if (gathered_shape(p, shape, &n)) return NULL;
    DLSH_OWNED dl_tensor *from = merged(p), *at = dl_reshape(p->index, &flat, 1),
                         *rows = dl_index_select(from, at, p->dim);
    return dl_ndim(p->index) == 1 && rows ? dl_ref(rows) : dl_reshape(rows, shape, n);
}

dl_status dlsh_tensor_index(dlsh_session *s, dl_tensor *t, const dlsh_node *n, dlsh_value *out) {
    plan p;
    DLSH_TRY(make_plan(s, t, n, &p));
    dl_status st = dlsh_give(dlsh_tensor(p.dim < 0 ? dl_ref(p.view) : gather(&p)), out);
    plan_free(&p);
    return st;
}

dl_status dlsh_tensor_at(dl_tensor *t, long i, dlsh_value *out) {
    return dlsh_give(dlsh_tensor(dl_select(t, 0, i)), out);
}

/* ---------------------------------------------------------------- writing */

/* The mask with dimensions of size 1 added, so that it broadcasts against the view. */
static dl_tensor *aligned_mask(const plan *p) {
    long shape[8];
    int n = dl_ndim(p->view);
    for (int i = 0; i < n; i++) shape[i] = i >= p->dim && i < p->dim + p->ndims ? dl_shape(p->view)[i] : 1;
    return dl_reshape(p->mask, shape, n);
}

/* `x[i] += v` would count an index that occurs several times once. */
static dl_status refuse_duplicates(const plan *p) {
    if (p->dim < 0 || p->mask || !dl_numel(p->index) || !dl_numel(p->view)) return DL_OK;
    long flat = -1, most = 0, m = dl_numel(p->index);
    DLSH_OWNED dl_tensor *at = dl_reshape(p->index, &flat, 1), *from = merged(p);
    long n = from ? dl_shape(from)[p->dim] : 0;
    DLSH_OWNED dl_tensor *none = dl_tensor_zeros(1, &n, DL_I64, dl_device_of(p->view));
    DLSH_OWNED dl_tensor *ones = dl_tensor_full(1, &m, DL_I64, dl_device_of(p->view), 1);
    DLSH_OWNED dl_tensor *counts = dl_index_add(none, at, ones, 0), *max = dl_amax(counts, NULL, 0, 0);
    DLSH_TRY(max ? dl_item_i(max, &most) : dl_failed());
    if (most > 1)
        return dlsh_fail(DL_ERR_VALUE, "each place can be changed once; index_add adds several up",
                         "an index occurs %ld times in an assignment", most);
    return DL_OK;
}

/* The value as rows along the group's dimension of `from`, the merged view. */
static dl_tensor *as_rows(const plan *p, dl_tensor *from, dl_tensor *value) {
    long shape[8], lined[8];
    int k;
    if (gathered_shape(p, shape, &k)) return NULL;
    memcpy(lined, dl_shape(from), (size_t)dl_ndim(from) * sizeof *lined);
    lined[p->dim] = dl_numel(p->index);
    DLSH_OWNED dl_tensor *cast = dl_to_dtype(value, dl_dtype_of(from)),
                         *near = cast ? dl_to_device(cast, dl_device_of(from)) : NULL;
    dl_tensor *wide = near ? dl_expand(near, shape, k) : NULL,
              *rows = wide ? dl_reshape(wide, lined, dl_ndim(from)) : NULL;
    dl_unref(wide);
    return rows;
}

/* The whole view with the addressed elements replaced; of several values for one place the last one counts. */
static dl_tensor *replaced(const plan *p, dl_tensor *value) {
    if (p->mask && dl_numel(value) == 1) {
        dl_tensor *mask = aligned_mask(p), *r = dl_where(mask, value, p->view);
        dl_unref(mask);
        return r;
    }
    long flat = -1;
    DLSH_OWNED dl_tensor *from = merged(p), *rows = from ? as_rows(p, from, value) : NULL;
    DLSH_OWNED dl_tensor *at = rows ? dl_reshape(p->index, &flat, 1) : NULL,
                         *joined = at ? dl_index_copy(from, at, rows, p->dim) : NULL;
    return joined ? dl_reshape(joined, dl_shape(p->view), dl_ndim(p->view)) : NULL;
}

/* Writes a value for the whole view, which may broadcast. */
static dl_status put_whole(const plan *p, dl_tensor *whole) {
    if (!p->back || dl_numel(whole) == 1) return dl_assign(p->base, whole);
    DLSH_OWNED dl_tensor *wide =
        dl_tensor_empty(dl_ndim(p->view), dl_shape(p->view), dl_dtype_of(p->view), dl_device_of(p->view));
    DLSH_OWNED dl_tensor *back = wide && dl_assign(wide, whole) == DL_OK ? turned(p, wide) : NULL;
    return back ? dl_assign(p->base, back) : dl_failed();
}

dl_status dlsh_tensor_update_index(dlsh_session *s, dl_tensor *t, const dlsh_node *n, dlsh_op op, dlsh_value v) {
    plan p;
    DLSH_DROPPED dlsh_value r = dlsh_void();
    DLSH_TRY(make_plan(s, t, n, &p));
    if (refuse_duplicates(&p)) {
        plan_free(&p);
        return dl_failed();
    }
    DLSH_OWNED dl_tensor *old =
        p.dim < 0 ? dlsh_read_in_place(dlsh_op_name(op), p.view, &v.as.tensor, v.type == DLSH_TENSOR) : gather(&p);
    dl_status st = old ? dlsh_tensor_binary(op, (dlsh_value){DLSH_TENSOR, {.tensor = old}}, v, &r) : dl_failed();
    if (!st) st = dlsh_tensor_check_kept(old, r.as.tensor, NULL);
    if (!st) {
        DLSH_OWNED dl_tensor *whole = p.dim < 0 ? dl_ref(r.as.tensor) : replaced(&p, r.as.tensor);
        st = whole ? put_whole(&p, whole) : dl_failed();
    }
    plan_free(&p);
    return st;
}

dl_status dlsh_tensor_assign(dlsh_session *s, dl_tensor *t, const dlsh_node *n, dlsh_value v) {
    plan p;
    DLSH_DROPPED dlsh_value literal = dlsh_void();
    if (v.type == DLSH_LIST || v.type == DLSH_RANGE) {
        DLSH_TRY(dlsh_list_to_tensor(v, -1, dl_device_of(t), &literal));
        v = literal;
    }
    DLSH_OWNED dl_tensor *value = dlsh_operand(v);
    if (!value) return dl_failed();
    dl_status st = make_plan(s, t, n, &p);
    if (!st) {
        DLSH_OWNED dl_tensor *whole = p.dim < 0 ? dl_ref(value) : replaced(&p, value);
        st = whole ? put_whole(&p, whole) : dl_failed();
        plan_free(&p);
    }
    return st;
}
