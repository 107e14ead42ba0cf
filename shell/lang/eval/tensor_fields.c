/* Fields of tensors, and tensors made of lists. */
#include <stdlib.h>
#include <string.h>

#include "lang/eval/interp.h"
#include "dlcore/complex.h"
#include "dlcore/linalg.h"
#include "dlcore/view.h"

/* ---------------------------------------------------------------- fields */

static dlsh_value get_shape(dl_tensor *t) { return dlsh_new_ints(dl_shape(t), dl_ndim(t)); }
static dlsh_value get_ndim(dl_tensor *t) { return dlsh_int(dl_ndim(t)); }
static dlsh_value get_dtype(dl_tensor *t) { return dlsh_string(dl_dtype_name(dl_dtype_of(t))); }
static dlsh_value get_device(dl_tensor *t) { return dlsh_string(dl_device_name(dl_device_of(t))); }
static dlsh_value get_grad(dl_tensor *t) { return dl_grad(t) ? dlsh_tensor(dl_ref(dl_grad(t))) : dlsh_none(); }
static dlsh_value get_requires_grad(dl_tensor *t) { return dlsh_bool(dl_requires_grad(t)); }
static dlsh_value get_is_leaf(dl_tensor *t) { return dlsh_bool(dl_is_leaf(t)); }
static dlsh_value get_data(dl_tensor *t) { return dlsh_tensor(dl_detach(t)); }
static dlsh_value get_name(dl_tensor *t) { return dlsh_string(dl_tensor_name(t)); }
static dlsh_value get_real(dl_tensor *t) { return dlsh_tensor(dl_real(t)); }
static dlsh_value get_imag(dl_tensor *t) { return dlsh_tensor(dl_imag(t)); }
static dlsh_value get_transposed(dl_tensor *t) {
    long dims[8];
    for (int i = 0; i < dl_ndim(t); i++) dims[i] = dl_ndim(t) - 1 - i;
    return dlsh_tensor(dl_permute(t, dims, dl_ndim(t)));
}

/* The last two dimensions swapped, as a view; mH: and of complex numbers the conjugates. */
static dlsh_value get_matrices_turned(dl_tensor *t) {
    const int n = dl_ndim(t);
    long dims[8];
    if (n < 2) return dlsh_fail(DL_ERR_SHAPE, NULL, "a matrix has two dimensions, the tensor %d", n), dlsh_void();
    for (int i = 0; i < n; i++) dims[i] = i < n - 2 ? i : 2 * n - 3 - i;
    return dlsh_tensor(dl_permute(t, dims, n));
}
static dlsh_value get_adjoint(dl_tensor *t) { return dlsh_tensor(dl_adjoint(t)); }
static dlsh_value get_is_cuda(dl_tensor *t) { return dlsh_bool(dl_device_of(t) > 0); }
static dlsh_value get_is_cpu(dl_tensor *t) { return dlsh_bool(dl_device_of(t) == 0); }
static dlsh_value get_itemsize(dl_tensor *t) { return dlsh_int(dl_dtype_size(dl_dtype_of(t))); }
static dlsh_value get_nbytes(dl_tensor *t) { return dlsh_int(dl_numel(t) * dl_dtype_size(dl_dtype_of(t))); }

/* A gradient without history is stored detached: tensors that are each other's gradient would never be freed. */
static dl_status set_grad(dl_tensor *t, dlsh_value v) {
    if (v.type == DLSH_NONE) {
        dl_journal_cleared();
        return dl_set_grad(t, NULL);
    }
    if (v.type != DLSH_TENSOR) return dlsh_fail(DL_ERR_TYPE, NULL, "grad must be a tensor or none, got %s", dlsh_a(v));
    DLSH_OWNED dl_tensor *g = dl_is_leaf(v.as.tensor) ? dl_detach(v.as.tensor) : dl_ref(v.as.tensor);
    return g ? dl_set_grad(t, g) : dl_failed();
}
static dl_status set_requires_grad(dl_tensor *t, dlsh_value v) {
    int on;
    DLSH_TRY(dlsh_truth(v, &on));
    return dl_set_requires_grad(t, on);
}
/* As in PyTorch, where data of another shape would replace it. */
static dl_status other_shape(dl_tensor *t, dl_tensor *value) {
    DLSH_SCOPED_BUF own = {0}, other = {0};
    dlsh_value shapes[] = {get_shape(t), get_shape(value)};
    dl_status st = dlsh_failed(shapes[0]) || dlsh_failed(shapes[1]) ? dl_failed() : dlsh_text(&own, shapes[0]);
    if (st == DL_OK) st = dlsh_text(&other, shapes[1]);
    for (int i = 0; i < 2; i++) dlsh_drop(shapes[i]);
    return st ? st
              : dlsh_fail(DL_ERR_SHAPE, "no_grad { x[...] = value } fills it with a number or with what broadcasts",
                          "data of shape %s does not fit a tensor of shape %s", dlsh_buf_text(&other),
                          dlsh_buf_text(&own));
}
static dl_status set_data(dl_tensor *t, dlsh_value v) {
    DLSH_OWNED dl_tensor *value = dlsh_operand(v);
    if (!value) return dl_failed();
    DLSH_SCOPED_GRAD_MODE(0);
    int same = dl_ndim(value) == dl_ndim(t);
    for (int i = 0; same && i < dl_ndim(t); i++) same = dl_shape(value)[i] == dl_shape(t)[i];
    return same ? dl_assign(t, value) : other_shape(t, value);
}
static dl_status set_name(dl_tensor *t, dlsh_value v) {
    if (v.type != DLSH_STR) return dlsh_fail(DL_ERR_TYPE, NULL, "a name must be a string, got %s", dlsh_a(v));
    return dl_tensor_set_name(t, v.as.str->s);
}

static const struct {
    const char *name;
    dlsh_value (*get)(dl_tensor *);
    dl_status (*set)(dl_tensor *, dlsh_value);
} fields[] = {
    {"shape", get_shape, NULL},        {"ndim", get_ndim, NULL},
    {"dtype", get_dtype, NULL},        {"device", get_device, NULL},
    {"grad", get_grad, set_grad},      {"requires_grad", get_requires_grad, set_requires_grad},
    {"is_leaf", get_is_leaf, NULL},    {"data", get_data, set_data},
    {"name", get_name, set_name},      {"T", get_transposed, NULL},
    {"real", get_real, NULL},          {"imag", get_imag, NULL},
    {"mT", get_matrices_turned, NULL}, {"mH", get_adjoint, NULL},
    {"H", get_adjoint, NULL},          {"is_cuda", get_is_cuda, NULL},
    {"is_cpu", get_is_cpu, NULL},      {"itemsize", get_itemsize, NULL},
    {"nbytes", get_nbytes, NULL},
};
enum { NFIELDS = DLSH_COUNT(fields) };

dl_status dlsh_tensor_field(dl_tensor *t, const char *name, dlsh_value *out) {
    for (int i = 0; i < NFIELDS; i++)
        if (!strcmp(fields[i].name, name)) return dlsh_give(fields[i].get(t), out);
    return DL_ERR_NAME;
}

dl_status dlsh_tensor_set_field(dl_tensor *t, const char *name, dlsh_value v) {
    const char *names[NFIELDS];
    for (int i = 0; i < NFIELDS; i++) {
        names[i] = fields[i].name;
        if (strcmp(fields[i].name, name)) continue;
        if (fields[i].set) return fields[i].set(t, v);
        return dlsh_fail(DL_ERR_TYPE,
                         !strcmp(name, "shape") ? "x.reshape(...) gives the same values in another shape" : NULL,
                         "field '%s' of a tensor cannot be set", name);
    }
    const char *nearest = dlsh_nearest(name, names, NFIELDS);
    return dlsh_fail(DL_ERR_NAME, nearest, "a tensor has no field '%s' to set", name);
}

dl_status dlsh_tensor_names(dlsh_value list) {
    dl_op_info info;
    for (int i = 0; i < NFIELDS; i++) DLSH_TRY(dlsh_append(list, dlsh_string(fields[i].name)));
    for (int i = 0; dl_op_describe(i, &info); i++)
        if (!info.internal && info.nargs && !strcmp(info.args[0].kind, "tensor"))
            DLSH_TRY(dlsh_append(list, dlsh_string(info.name)));
    return DL_OK;
}

/* ---------------------------------------------------------------- tensors of lists */

typedef struct literal {
    long shape[8];
    int ndim, any_float, any_complex, all_bool;
    long n;
    double *f; /* real and imaginary part */
    long *i;
} literal;

static dl_status measure(literal *l, dlsh_value v, int depth) {
    if (v.type != DLSH_LIST) return DL_OK;
    if (depth >= 8) return dlsh_fail(DL_ERR_SHAPE, NULL, "a tensor has at most 8 dimensions");
    l->shape[depth] = v.as.list->n;
    l->ndim = depth + 1;
    return v.as.list->n ? measure(l, v.as.list->items[0], depth + 1) : DL_OK;
}

static dl_status fill(literal *l, dlsh_value v, int depth) {
    if (v.type == DLSH_LIST) {
        if (depth == l->ndim || v.as.list->n != l->shape[depth])
            return dlsh_fail(DL_ERR_SHAPE, "all rows must be equally long",
                             "the list is ragged: %d elements where %ld are expected", v.as.list->n,
                             depth == l->ndim ? 0 : l->shape[depth]);
        for (int i = 0; i < v.as.list->n; i++) DLSH_TRY(fill(l, v.as.list->items[i], depth + 1));
        return DL_OK;
    }
    if (depth != l->ndim)
        return dlsh_fail(DL_ERR_SHAPE, "all rows must be equally long",
                         "the list is ragged: a number where a list is expected");
    dlsh_value number = v;
    if (v.type == DLSH_TENSOR) {
        if (dl_numel(v.as.tensor) != 1)
            return dlsh_fail(DL_ERR_TYPE, "stack([a, b]) joins tensors",
                             "a list for tensor() holds numbers, got a tensor of %ld elements", dl_numel(v.as.tensor));
        DLSH_TRY(dlsh_tensor_item(v.as.tensor, &number));
    } else if (!dlsh_is_number(v) && v.type != DLSH_BOOL)
        return dlsh_fail(DL_ERR_TYPE, NULL, "a list for tensor() holds numbers, got %s", dlsh_a(v));
    int complex = number.type == DLSH_TENSOR;
    double *parts = &l->f[2 * l->n], real = number.type == DLSH_FLOAT ? number.as.f : (double)number.as.i;
    l->any_float |= number.type == DLSH_FLOAT;
    l->any_complex |= complex;
    l->all_bool &= number.type == DLSH_BOOL;
    if (complex)
        DLSH_TRY(dl_item_c(number.as.tensor, parts));
    else
        parts[0] = real, parts[1] = 0;
    l->i[l->n++] = number.type == DLSH_FLOAT || complex ? 0 : number.as.i;
    if (complex) dlsh_drop(number);
    return DL_OK;
}

/* The tensor of a dtype; -1: complex when a number is, the default dtype when one has a point, else bool or i64.
 * Numbers are rounded once, from f64. */
static dl_tensor *typed(literal *l, int dtype) {
    int whole = !l->any_float && !l->any_complex;
    if (l->any_complex && dtype >= 0 && !dl_dtype_is_complex((dl_dtype)dtype))
        return dlsh_fail(DL_ERR_DTYPE, "give dtype=c64 or c128, or none", "complex numbers do not go into %s",
                         dl_dtype_name((dl_dtype)dtype)),
               NULL;
    for (long i = 0; !l->any_complex && i < l->n; i++) l->f[i] = l->f[2 * i];
    dl_dtype widest = whole ? DL_I64 : l->any_complex ? DL_C128 : DL_F64;
    DLSH_OWNED dl_tensor *wide = dl_tensor_from(l->ndim, l->shape, widest, 0, whole ? (void *)l->i : l->f);
    const int usual = dl_default_dtype_get();
    int want = dtype >= 0            ? dtype
               : l->any_complex      ? (usual == DL_F64 ? DL_C128 : DL_C64)
               : l->any_float        ? usual
               : l->all_bool && l->n ? DL_BOOL
               : l->n                ? DL_I64
                                     : usual;
    return wide ? dl_to_dtype(wide, (dl_dtype)want) : NULL;
}

static dl_status list_of_range(dlsh_value v, dlsh_value *out) {
    dlsh_iter it;
    dlsh_value x;
    int end = 0;
    DLSH_TRY(dlsh_iter_begin(NULL, v, &it));
    dlsh_value list = dlsh_new_list(it.n);
    dl_status st = DL_OK;
    while (!st && !(st = dlsh_iter_next(NULL, &it, &x, &end)) && !end) st = dlsh_append(list, x);
    dlsh_iter_end(&it);
    return dlsh_give_filled(st, list, out);
}

dl_status dlsh_list_to_tensor(dlsh_value v, int dtype, int device, dlsh_value *out) {
    literal l = {.all_bool = 1};
    DLSH_DROPPED dlsh_value range = dlsh_void();
    *out = dlsh_void();
    if (v.type == DLSH_RANGE) {
        DLSH_TRY(list_of_range(v, &range));
        v = range;
    }
    dl_status st = measure(&l, v, 0);
    long n = st ? 0 : dl_shape_count(l.ndim, l.shape); /* lists that share parts may be far larger than memory */
    if (n < 0) st = dl_failed();
    l.f = st ? NULL : dl_memory_alloc(n, 2 * sizeof *l.f);
    l.i = l.f ? dl_memory_alloc(n, sizeof *l.i) : NULL;
    if (!st && !l.i) st = dl_failed();
    if (!st) st = fill(&l, v, 0);
    if (!st) {
        DLSH_OWNED dl_tensor *host = typed(&l, dtype);
        *out = dlsh_tensor(host ? dl_to_device(host, device) : NULL);
        if (dlsh_failed(*out)) st = dl_failed();
    }
    free(l.f);
    free(l.i);
    return st;
}
