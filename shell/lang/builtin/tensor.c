/* Functions on tensors that are not ops: making them of lists, moving, shapes, and the parts of PyTorch's interface
 * that are words for other ops. Each is also a method. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lang/eval/interp.h"
#include "dlcore/compare.h"
#include "dlcore/copy.h"
#include "dlcore/reduce.h"
#include "dlcore/index.h"
#include "dlcore/view.h"

#define TENSOR_PARAM                                                                                                   \
    { .name = "input", .want = "tensor", .doc = "the tensor" }
static dl_status give(dl_tensor *t, dlsh_value *out) {
    *out = dlsh_tensor(t);
    return t ? DL_OK : dl_failed();
}

static const dlsh_param only_tensor[] = {TENSOR_PARAM, {0}};

/* ---------------------------------------------------------------- making */

static const dlsh_param tensor_params[] = {
    {"data", .want = "number|bool|list|range|tensor", .doc = "a number, or nested lists of numbers"}, {0}};

/* A new tensor of any value that can be one; dtype NULL: f32 for numbers of the language with a point. */
static dl_tensor *from_value(dlsh_value v, const char *dtype) {
    dlsh_value made;
    dl_dtype to;
    if (dtype && dl_dtype_parse(dtype, &to)) return NULL;
    if (v.type == DLSH_TENSOR) {
        dl_tensor *plain = dl_detach(v.as.tensor), *copy = plain ? dl_clone(plain) : NULL;
        dl_unref(plain);
        return copy;
    }
    return dlsh_list_to_tensor(v, dtype ? (int)to : -1, 0, &made) ? NULL : made.as.tensor;
}

/* Casts and moves t, which it takes; NULL for dtype and device: as it is. need_float: integers become floats. */
static dl_tensor *convert(dl_tensor *t, const char *dtype, const char *device, int need_float) {
    dl_dtype to = dl_default_dtype_get();
    int where;
    if (t && (dtype || (need_float && dl_dtype_kind(dl_dtype_of(t)) < dl_dtype_kind(DL_F32)))) {
        dl_tensor *cast = dtype && dl_dtype_parse(dtype, &to) ? NULL : dl_to_dtype(t, to);
        dl_unref(t);
        t = cast;
    }
    if (t && device) {
        dl_tensor *moved = dl_device_parse(device, &where) ? NULL : dl_to_device(t, where);
        dl_unref(t);
        t = moved;
    }
    return t;
}

/* t, which it takes, as a tensor that asks for a gradient. */
static dl_tensor *with_grad(dl_tensor *t) {
    if (!t || !dl_set_requires_grad(t, 1)) return t;
    dl_unref(t);
    return NULL;
}

/* The device asked for; for numbers and lists the default device. NULL: the tensor stays where it is. */
static const char *target_device(const dlsh_args *a, const char *asked) {
    if (asked || dlsh_arg(a, "data")->type == DLSH_TENSOR || !dlsh_default_device()) return asked;
    return dl_device_name(dlsh_default_device());
}

static dl_status tensor_run(const dlsh_args *a, dlsh_value *result) {
    int grad = dlsh_arg_bool(a, "grad") || dlsh_arg_bool(a, "requires_grad");
    const char *dtype = dlsh_arg_str(a, "dtype");
    dl_tensor *t =
        convert(from_value(*dlsh_arg(a, "data"), dtype), dtype, target_device(a, dlsh_arg_str(a, "device")), grad);
    return give(grad ? with_grad(t) : t, result);
}

/* x.new_tensor(DATA): in the dtype and on the device of x. */
static dl_status new_tensor_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *like = dlsh_arg_tensor(a, "input");
    const char *asked = dlsh_arg_str(a, "dtype"), *dtype = asked ? asked : dl_dtype_name(dl_dtype_of(like));
    char device[32];
    snprintf(device, sizeof device, "%s", dl_device_name(dl_device_of(like)));
    dl_tensor *t = convert(from_value(*dlsh_arg(a, "data"), dtype), dtype, device, 0);
    return give(dlsh_arg_bool(a, "requires_grad") ? with_grad(t) : t, result);
}

static dl_status param_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *t = convert(from_value(*dlsh_arg(a, "data"), NULL), NULL, target_device(a, NULL), 1);
    return give(with_grad(t), result);
}

static const dlsh_option like_options[] = {
    {"dtype", DLSH_OPT_WORD, NULL, .doc = "that of the input unless given", .complete = "dtype"}, {0}};

/* A tensor of the given shape, of the dtype (unless another is given) and on the device of `input`. data is the name of
 * the op that makes it, which takes fill_value where there is one. */
static dl_status made_like(const dlsh_args *a, const long *shape, int n, const char *fill, dlsh_value *result) {
    dl_tensor *t = dlsh_arg_tensor(a, "input"), *res[8] = {0};
    const char *dtype = dlsh_arg_str(a, "dtype");
    DLSH_SCOPED_BUF attrs = {0};
    int nres = 0;
    dlsh_buf_puts(&attrs, "size=[");
    for (int i = 0; i < n; i++) dlsh_buf_printf(&attrs, i ? ",%ld" : "%ld", shape[i]);
    dlsh_buf_printf(&attrs, "] dtype=%s device=%s", dtype ? dtype : dl_dtype_name(dl_dtype_of(t)),
                    dl_device_name(dl_device_of(t)));
    if (fill) dlsh_buf_printf(&attrs, " fill_value=%s", fill);
    DLSH_TRY(dl_op_call(dlsh_arg_data(a), NULL, 0, dlsh_buf_text(&attrs), res, &nres));
    return give(res[0], result);
}

static dl_status like_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *t = dlsh_arg_tensor(a, "input");
    return made_like(a, dl_shape(t), dl_ndim(t), NULL, result);
}

/* The argument fill_value as text; it holds whatever int or float of the language there is. */
typedef char number_text[40];
static const char *fill_text(const dlsh_args *a, number_text text) {
    dlsh_value v = *dlsh_arg(a, "fill_value");
    if (v.type == DLSH_FLOAT)
        snprintf(text, sizeof(number_text), v.as.f == floor(v.as.f) && fabs(v.as.f) < 1e15 ? "%.1f" : "%.17g", v.as.f);
    else
        snprintf(text, sizeof(number_text), "%ld", v.as.i);
    return text;
}

static dl_status full_like_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *t = dlsh_arg_tensor(a, "input");
    number_text text;
    return made_like(a, dl_shape(t), dl_ndim(t), fill_text(a, text), result);
}

/* Sizes that are given one after another or as a list. */
static dl_status sizes_of(const dlsh_args *a, const char *name, long shape[8], int *n) {
    const dlsh_value *first = dlsh_arg_at(a, name, 0);
    int list = first && first->type == DLSH_LIST;
    *n = list ? first->as.list->n : dlsh_arg_count(a, name);
    if (*n > 8) return dlsh_arg_fail(a, NULL, DL_ERR_SHAPE, NULL, "a tensor has at most 8 dimensions, got %d", *n);
    for (int i = 0; i < *n; i++) {
        dlsh_value v = list ? first->as.list->items[i] : *dlsh_arg_at(a, name, i);
        if (v.type != DLSH_INT)
            return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, NULL, "sizes must be ints, got %s", dlsh_a(v));
        shape[i] = v.as.i;
    }
    return DL_OK;
}

static dl_status new_run(const dlsh_args *a, dlsh_value *result) {
    long shape[8];
    int n;
    DLSH_TRY(sizes_of(a, "size", shape, &n));
    return made_like(a, shape, n, NULL, result);
}

static dl_status new_full_run(const dlsh_args *a, dlsh_value *result) {
    long shape[8];
    int n;
    number_text text;
    DLSH_TRY(sizes_of(a, "size", shape, &n));
    return made_like(a, shape, n, fill_text(a, text), result);
}

static const dlsh_param new_params[] = {
    TENSOR_PARAM, {"size", .want = "int|list", .flags = DLSH_VARIADIC, .doc = "sizes"}, {0}};

/* ---------------------------------------------------------------- reading */

static dl_status item_run(const dlsh_args *a, dlsh_value *result) {
    return dlsh_tensor_item(dlsh_arg_tensor(a, "input"), result);
}

/* Nested lists of the elements of a contiguous tensor of i64, f64, c128 or bool; *at is the element that comes next. */
static dl_status nested(const dl_tensor *t, int dim, const char **at, dlsh_value *out) {
    long n = dl_shape(t)[dim];
    dlsh_value v = dlsh_new_list(n), x;
    if (dlsh_failed(v)) return DL_ERR_MEMORY;
    dlsh_list *l = v.as.list;
    dl_status st = DL_OK;
    if (dim + 1 < dl_ndim(t)) {
        for (long i = 0; i < n && !st && !dlsh_interrupted_at(i); i++)
            if (!(st = nested(t, dim + 1, at, &x))) st = dlsh_append(v, x);
        return dlsh_give_filled(st, v, out);
    }
    switch (dl_dtype_of(t)) {
    case DL_C128:
        for (const double *p = (const double *)*at; l->n < n; l->n++) {
            dl_tensor *z = dl_scalar_c(p[2 * l->n], p[2 * l->n + 1]);
            if (!z) return dlsh_drop(v), dl_failed();
            l->items[l->n] = dlsh_tensor(z);
        }
        break;
    case DL_I64:
        for (const long *p = (const long *)*at; l->n < n; l->n++) l->items[l->n] = dlsh_int(p[l->n]);
        break;
    case DL_F64:
        for (const double *p = (const double *)*at; l->n < n; l->n++) l->items[l->n] = dlsh_float(p[l->n]);
        break;
    default:
        for (const char *p = *at; l->n < n; l->n++) l->items[l->n] = dlsh_bool(p[l->n]);
        break;
    }
    *at += n * dl_dtype_size(dl_dtype_of(t));
    return dlsh_give(v, out);
}

static dl_status tolist_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *given = dlsh_arg_tensor(a, "input");
    if (dl_ndim(given) == 0) return dlsh_tensor_item(given, result);
    if (dl_numel(given) > 0x7fffffff) return dlsh_give(dlsh_new_list(dl_numel(given)), result); /* refused there */
    static const dl_dtype widest[] = {DL_BOOL, DL_I64, DL_F64, DL_C128};                        /* by kind */
    dl_dtype from = dl_dtype_of(given);
    DLSH_OWNED dl_tensor *t = dl_detach(given), *near = t ? dl_to_device(t, 0) : NULL,
                         *wide = near ? dl_to_dtype(near, widest[dl_dtype_kind(from)]) : NULL,
                         *whole = wide ? dl_contiguous(wide) : NULL;
    const char *at = whole ? dl_data(whole) : NULL;
    return whole ? nested(whole, 0, &at, result) : dl_failed();
}

static dl_status numel_run(const dlsh_args *a, dlsh_value *result) {
    *result = dlsh_int(dl_numel(dlsh_arg_tensor(a, "input")));
    return DL_OK;
}

static const dlsh_param dim_params[] = {
    TENSOR_PARAM,
    {"dim", .want = "int", .flags = DLSH_OPTIONAL, .doc = "dimension; negative counts from the end"},
    {0}};

static dl_status size_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *t = dlsh_arg_tensor(a, "input");
    long d;
    if (!dlsh_given(a, "dim")) return dlsh_get_field(dlsh_arg_session(a), *dlsh_arg(a, "input"), "shape", result);
    DLSH_TRY(dlsh_arg_dim(a, "dim", dl_ndim(t), 0, &d));
    *result = dlsh_int(dl_shape(t)[d]);
    return DL_OK;
}

static dl_status ndim_run(const dlsh_args *a, dlsh_value *result) {
    *result = dlsh_int(dl_ndim(dlsh_arg_tensor(a, "input")));
    return DL_OK;
}

static dl_status stride_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *t = dlsh_arg_tensor(a, "input");
    return dlsh_give(dlsh_new_ints(dl_stride(t), dl_ndim(t)), result);
}

static dl_status is_contiguous_run(const dlsh_args *a, dlsh_value *result) {
    *result = dlsh_bool(dl_is_contiguous(dlsh_arg_tensor(a, "input")));
    return DL_OK;
}

/* ---------------------------------------------------------------- moving and copying */

#define NON_BLOCKING                                                                                                   \
    { "non_blocking", DLSH_OPT_BOOL, NULL, .doc = "as PyTorch has it: the host may go on before the copy is done" }

static dl_status to_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value *target = dlsh_arg(a, "target");
    const char *dtype = dlsh_arg_str(a, "dtype"), *device = dlsh_arg_str(a, "device");
    dl_tensor *t = dl_ref(dlsh_arg_tensor(a, "input"));
    dl_dtype ignored;
    if (target && target->type == DLSH_TENSOR) {
        dtype = dl_dtype_name(dl_dtype_of(target->as.tensor));
        device = dl_device_name(dl_device_of(target->as.tensor));
    } else if (target && (!strncmp(target->as.str->s, "cuda", 4) || !strcmp(target->as.str->s, "cpu")))
        device = target->as.str->s;
    else if (target)
        dtype = target->as.str->s;
    if (dlsh_given(a, "other")) { /* x.to("cuda", f64) */
        if (!device || dtype)
            return dl_unref(t), dlsh_arg_fail(a, "other", DL_ERR_TYPE, "x.to(\"cuda\", f64)",
                                              "behind a device there may be a dtype");
        dtype = dlsh_arg_str(a, "other");
    }
    if (dtype && dl_dtype_parse(dtype, &ignored)) {
        dl_unref(t);
        return dlsh_arg_fail(a, target ? "target" : "dtype", DL_ERR_DTYPE, target ? "a device is cpu or cuda:N" : NULL,
                             "%s", dl_errmsg());
    }
    dl_tensor *moved = convert(dl_ref(t), dtype, device, 0);
    if (moved == t && dlsh_arg_bool(a, "copy")) dl_unref(moved), moved = dl_clone(t);
    dl_unref(t);
    return give(moved, result);
}

/* x.float(), x.long(), ...: casts under PyTorch's names, as methods only. */
static dl_status cast_run(const dlsh_args *a, dlsh_value *result) {
    return give(convert(dl_ref(dlsh_arg_tensor(a, "input")), dlsh_arg_command(a)->name, NULL, 0), result);
}

#define CAST(dtype)                                                                                                    \
    {                                                                                                                  \
        .name = #dtype, .flags = DLSH_ONLY_FUNCTION, .usage = "x." #dtype "()",                                        \
        .doc = "The same values in another dtype; x.to(f32) does it by name.", .params = only_tensor, .run = cast_run  \
    }
/* x.type(f64): the same by its dtype. */
static dl_status type_run(const dlsh_args *a, dlsh_value *result) {
    return give(convert(dl_ref(dlsh_arg_tensor(a, "input")), dlsh_arg_str(a, "dtype"), NULL, 0), result);
}

static const dlsh_param type_params[] = {
    TENSOR_PARAM, {"dtype", .want = "string", .doc = "what it is cast to", .complete = "dtype"}, {0}};

const dlsh_command dlsh_tensor_casts[] = {CAST(float),
                                          CAST(double),
                                          CAST(half),
                                          CAST(bfloat16),
                                          CAST(int),
                                          CAST(long),
                                          CAST(bool),
                                          CAST(byte),
                                          CAST(cfloat),
                                          CAST(cdouble),
                                          {.name = "type",
                                           .flags = DLSH_ONLY_FUNCTION,
                                           .usage = "x.type(DTYPE)",
                                           .doc = "The same values in another dtype: another name of x.to(DTYPE).",
                                           .params = type_params,
                                           .run = type_run},
                                          {0}};

static dl_status detach_run(const dlsh_args *a, dlsh_value *result) {
    return give(dl_detach(dlsh_arg_tensor(a, "input")), result);
}
static dl_status contiguous_run(const dlsh_args *a, dlsh_value *result) {
    return give(dl_contiguous(dlsh_arg_tensor(a, "input")), result);
}
/* cpu; cuda where data is set. */
static dl_status to_device_run(const dlsh_args *a, dlsh_value *result) {
    return give(dl_to_device(dlsh_arg_tensor(a, "input"), dlsh_arg_data(a) != NULL), result);
}

static dl_status get_device_run(const dlsh_args *a, dlsh_value *result) {
    *result = dlsh_int(dl_device_of(dlsh_arg_tensor(a, "input")) - 1);
    return DL_OK;
}

static dl_status requires_grad_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *t = dlsh_arg_tensor(a, "input");
    DLSH_TRY(dl_set_requires_grad(t, dlsh_given(a, "on") ? dlsh_arg_bool(a, "on") : 1));
    *result = dlsh_ref(*dlsh_arg(a, "input"));
    return DL_OK;
}

static dl_status retain_grad_run(const dlsh_args *a, dlsh_value *result) {
    *result = dlsh_void();
    return dl_retain_grad(dlsh_arg_tensor(a, "input"));
}

static const dlsh_param fill_params[] = {
    TENSOR_PARAM, {"value", .want = "number|bool|tensor|list", .doc = "what to write, broadcast"}, {0}};

/* copy_, fill_ and zero_: data is "0" for the last. */
static dl_status fill_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *to = dlsh_arg_tensor(a, "input");
    const dlsh_value *given = dlsh_arg_data(a) ? NULL : dlsh_arg(a, "value");
    DLSH_DROPPED dlsh_value made = dlsh_void();
    if (given && given->type == DLSH_LIST) DLSH_TRY(dlsh_list_to_tensor(*given, -1, dl_device_of(to), &made));
    DLSH_OWNED dl_tensor *v = given ? dlsh_operand(dlsh_failed(made) ? *given : made) : dl_scalar_i(0);
    DLSH_TRY(v ? dl_assign(to, v) : dl_failed());
    *result = dlsh_ref(*dlsh_arg(a, "input"));
    return DL_OK;
}

/* The elements whose indices are all equal: a view, of t, which it takes. */
static dl_tensor *all_diagonal(dl_tensor *t) {
    while (t && dl_ndim(t) > 1) {
        dl_tensor *next = dl_diagonal(t, 0, 0, dl_ndim(t) - 1);
        dl_unref(t);
        t = next;
    }
    return t;
}

/* Writes the value on the diagonal of rows from `first` on. */
static dl_status fill_from(dl_tensor *t, long first, dl_tensor *v) {
    const long end = dl_shape(t)[0];
    dl_tensor *rows = dl_slice(t, 0, &first, &end, 1);
    DLSH_OWNED dl_tensor *diagonal = all_diagonal(rows);
    return diagonal ? dl_assign(diagonal, v) : dl_failed();
}

/* With wrap the diagonal of a high matrix begins again, a row after its end. */
static dl_status fill_diagonal_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *t = dlsh_arg_tensor(a, "input");
    const int n = dl_ndim(t), wrap = dlsh_given(a, "wrap") && dlsh_arg_bool(a, "wrap");
    if (n < 2)
        return dlsh_arg_fail(a, "input", DL_ERR_SHAPE, NULL, "a diagonal needs at least 2 dimensions, not %d", n);
    for (int i = 1; n > 2 && i < n; i++)
        if (dl_shape(t)[i] != dl_shape(t)[0])
            return dlsh_arg_fail(a, "input", DL_ERR_SHAPE, NULL, "of more than 2 dimensions all must have one size");
    const long high = dl_shape(t)[0], step = wrap && n == 2 ? dl_shape(t)[1] + 1 : high;
    DLSH_OWNED dl_tensor *v = dlsh_operand(*dlsh_arg(a, "fill_value"));
    if (!v) return dl_failed();
    for (long i = 0; i < high; i += step) DLSH_TRY(fill_from(t, i, v));
    *result = dlsh_ref(*dlsh_arg(a, "input"));
    return DL_OK;
}

static dl_status element_size_run(const dlsh_args *a, dlsh_value *result) {
    return dlsh_give(dlsh_int((long)dl_dtype_size(dl_dtype_of(dlsh_arg_tensor(a, "input")))), result);
}

static dl_status type_as_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *like = dlsh_arg_tensor(a, "other"), *cast = dl_to_dtype(dlsh_arg_tensor(a, "input"), dl_dtype_of(like)),
              *t = cast ? dl_to_device(cast, dl_device_of(like)) : NULL;
    dl_unref(cast);
    return give(t, result);
}

/* ---------------------------------------------------------------- shapes */

static dl_status transpose_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *t = dlsh_arg_tensor(a, "input");
    long dims[8], x, y;
    DLSH_TRY(dlsh_arg_dim(a, "dim0", dl_ndim(t), 0, &x));
    DLSH_TRY(dlsh_arg_dim(a, "dim1", dl_ndim(t), 1, &y));
    for (int i = 0; i < dl_ndim(t); i++) dims[i] = i == x ? y : i == y ? x : i;
    return give(dl_permute(t, dims, dl_ndim(t)), result);
}

static dl_status t_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *t = dlsh_arg_tensor(a, "input");
    if (dl_ndim(t) > 2)
        return dlsh_arg_fail(a, "input", DL_ERR_SHAPE, "x.transpose(a, b) swaps two dimensions",
                             "t is for up to 2 dimensions, got %d", dl_ndim(t));
    return dlsh_get_field(dlsh_arg_session(a), *dlsh_arg(a, "input"), "T", result);
}

/* Which dimensions the argument dim names, one or a list, as bits; all unless it is given. */
static dl_status dims_of(const dlsh_args *a, int ndim, unsigned *bits) {
    const dlsh_value *v = dlsh_given(a, "dim") ? dlsh_arg(a, "dim") : NULL;
    int list = v && v->type == DLSH_LIST, n = list ? v->as.list->n : v != NULL;
    *bits = v ? 0 : ~0u;
    for (int i = 0; i < n; i++) {
        dlsh_value x = list ? v->as.list->items[i] : *v;
        if (x.type != DLSH_INT)
            return dlsh_arg_fail(a, "dim", DL_ERR_TYPE, NULL, "dimensions must be ints, got %s", dlsh_a(x));
        long d = x.as.i < 0 ? x.as.i + ndim : x.as.i;
        if (d < 0 || d >= (ndim ? ndim : 1))
            return dlsh_arg_fail(a, "dim", DL_ERR_INDEX, NULL,
                                 "dimension %ld does not exist in a tensor of %d dimensions", x.as.i, ndim);
        *bits |= 1u << d;
    }
    return DL_OK;
}

static dl_status squeeze_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *t = dlsh_arg_tensor(a, "input");
    long shape[8];
    unsigned named;
    int n = 0;
    DLSH_TRY(dims_of(a, dl_ndim(t), &named));
    for (int i = 0; i < dl_ndim(t); i++)
        if (dl_shape(t)[i] != 1 || !(named >> i & 1)) shape[n++] = dl_shape(t)[i];
    return give(dl_reshape(t, shape, n), result);
}

static dl_status unsqueeze_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *t = dlsh_arg_tensor(a, "input");
    long d;
    DLSH_TRY(dlsh_arg_dim(a, "dim", dl_ndim(t) + 1, 0, &d));
    return give(dlsh_unsqueeze(t, (int)d), result);
}

static dl_status flatten_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *t = dlsh_arg_tensor(a, "input");
    long shape[8], from, to, one = 1;
    int n = 0;
    if (dl_ndim(t) == 0) return give(dl_reshape(t, &one, 1), result);
    DLSH_TRY(dlsh_arg_dim(a, "start_dim", dl_ndim(t), 0, &from));
    DLSH_TRY(dlsh_arg_dim(a, "end_dim", dl_ndim(t), -1, &to));
    if (to < from)
        return dlsh_arg_fail(a, NULL, DL_ERR_INDEX, NULL,
                             "flatten from dimension %ld to %ld: the end lies before the start", from, to);
    for (int i = 0; i < dl_ndim(t); i++)
        if (i > from && i <= to)
            shape[n - 1] *= dl_shape(t)[i];
        else
            shape[n++] = dl_shape(t)[i];
    return give(dl_reshape(t, shape, n), result);
}

static dl_status ravel_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *t = dlsh_arg_tensor(a, "input");
    long n = dl_numel(t);
    return give(dl_reshape(t, &n, 1), result);
}

static dl_status view_run(const dlsh_args *a, dlsh_value *result) {
    long shape[8];
    int n;
    DLSH_TRY(sizes_of(a, "shape", shape, &n));
    return give(dl_reshape(dlsh_arg_tensor(a, "input"), shape, n), result);
}

static const dlsh_param other_params[] = {TENSOR_PARAM, {"other", .want = "tensor", .doc = "whose shape it is"}, {0}};

/* view_as and reshape_as; expand_as where data is set. */
static dl_status shape_as_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *t = dlsh_arg_tensor(a, "input"), *like = dlsh_arg_tensor(a, "other");
    return give((dlsh_arg_data(a) ? dl_expand : dl_reshape)(t, dl_shape(like), dl_ndim(like)), result);
}

/* The ints of a list. */
static dl_status ints_of(const dlsh_args *a, const char *name, long out[8], int *n) {
    const dlsh_list *l = dlsh_arg(a, name)->as.list;
    if (l->n > 8) return dlsh_arg_fail(a, name, DL_ERR_SHAPE, NULL, "a tensor has at most 8 dimensions, got %d", l->n);
    for (*n = 0; *n < l->n; ++*n) {
        if (l->items[*n].type != DLSH_INT)
            return dlsh_arg_fail(a, name, DL_ERR_TYPE, NULL, "%s must be ints, got %s", name, dlsh_a(l->items[*n]));
        out[*n] = l->items[*n].as.i;
    }
    return DL_OK;
}

typedef struct region {
    long size[8], stride[8], offset; /* offset -1: that of the tensor */
    int n, strides;
} region;

static dl_status region_of(const dlsh_args *a, region *r) {
    DLSH_TRY(ints_of(a, "size", r->size, &r->n));
    DLSH_TRY(ints_of(a, "stride", r->stride, &r->strides));
    const dlsh_value *offset = dlsh_arg(a, "storage_offset");
    r->offset = offset && offset->type == DLSH_INT ? offset->as.i : -1;
    if (offset && offset->type == DLSH_INT && r->offset < 0)
        return dlsh_arg_fail(a, "storage_offset", DL_ERR_INDEX, NULL,
                             "the region begins at element %ld, before the memory", r->offset);
    return DL_OK;
}

static dl_status as_strided_run(const dlsh_args *a, dlsh_value *result) {
    region r;
    DLSH_TRY(region_of(a, &r));
    return give(dl_as_strided(dlsh_arg_tensor(a, "input"), r.size, r.n, r.stride, r.strides, r.offset), result);
}

static dl_status as_strided_scatter_run(const dlsh_args *a, dlsh_value *result) {
    region r;
    DLSH_TRY(region_of(a, &r));
    return give(dl_as_strided_scatter(dlsh_arg_tensor(a, "input"), dlsh_arg_tensor(a, "src"), r.size, r.n, r.stride,
                                      r.strides, r.offset),
                result);
}

/* ---------------------------------------------------------------- comparing */

static dl_status allclose_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value *r_given = dlsh_arg(a, "rtol"), *a_given = dlsh_arg(a, "atol");
    double rtol = r_given ? dlsh_number(*r_given) : 1e-5, atol = a_given ? dlsh_number(*a_given) : 1e-8;
    long yes = 0;
    DLSH_SCOPED_GRAD_MODE(0);
    DLSH_OWNED dl_tensor *near = dl_isclose(dlsh_arg_tensor(a, "input"), dlsh_arg_tensor(a, "other"), rtol, atol,
                                            dlsh_given(a, "equal_nan") && dlsh_arg_bool(a, "equal_nan"));
    DLSH_OWNED dl_tensor *all = near ? dl_all(near, NULL, 0, 0) : NULL;
    dl_status st = all ? dl_item_i(all, &yes) : dl_failed();
    return dlsh_give_filled(st, dlsh_bool(yes != 0), result);
}

static dl_status equal_run(const dlsh_args *a, dlsh_value *result) {
    int same = 0;
    dl_status st = dlsh_tensors_equal(dlsh_arg_tensor(a, "input"), dlsh_arg_tensor(a, "other"), &same);
    return dlsh_give_filled(st, dlsh_bool(same), result);
}

static dl_status shape_run(const dlsh_args *a, dlsh_value *result) {
    const dl_tensor *x = dlsh_arg_tensor(a, "input");
    return dlsh_give(dlsh_new_ints(dl_shape(x), dl_ndim(x)), result);
}

#define REGION_PARAMS                                                                                                  \
    {"size", .want = "list", .doc = "sizes"}, {"stride", .want = "list", .doc = "strides, in elements"}, {             \
        "storage_offset", .want = "int|none", .flags = DLSH_OPTIONAL,                                                  \
                          .doc = "the first element, in the memory (that of the tensor)"                               \
    }

const dlsh_command dlsh_tensor_rows[] = {
    DLSH_PURE_ROW("tensor", tensor_run, "tensor(DATA, dtype=, device=, grad=false)",
                  "A tensor of a number or of nested lists.", .params = tensor_params,
                  DLSH_OPTIONS({"dtype", DLSH_OPT_WORD, NULL,
                                .doc = "i64 for whole numbers, f32 when one has a point, bool for bools, unless given",
                                .complete = "dtype"},
                               {"device", DLSH_OPT_WORD, NULL, .doc = "where it lives", .complete = "device"},
                               {"grad", DLSH_OPT_BOOL, "false", .doc = "ask for a gradient; whole numbers become f32"},
                               {"requires_grad", DLSH_OPT_BOOL, "false", .doc = "the same"}),
                  .examples = "tensor([[1, 2], [3, 4]])\ntensor([1.5, 2], grad=true)"),
    DLSH_PURE_ROW("as_tensor", tensor_run, "as_tensor(DATA, dtype=, device=)",
                  "The same as tensor(DATA): a tensor of its own.", .params = tensor_params,
                  DLSH_OPTIONS({"dtype", DLSH_OPT_WORD, NULL, .doc = "as in tensor", .complete = "dtype"},
                               {"device", DLSH_OPT_WORD, NULL, .doc = "where it lives", .complete = "device"},
                               {"grad", DLSH_OPT_BOOL, "false", .doc = "ask for a gradient"},
                               {"requires_grad", DLSH_OPT_BOOL, "false", .doc = "the same"})),
    DLSH_PURE_ROW("asarray", tensor_run, "asarray(DATA, dtype=, device=)", "The same as tensor(DATA).",
                  .params = tensor_params,
                  DLSH_OPTIONS({"dtype", DLSH_OPT_WORD, NULL, .doc = "as in tensor", .complete = "dtype"},
                               {"device", DLSH_OPT_WORD, NULL, .doc = "where it lives", .complete = "device"},
                               {"grad", DLSH_OPT_BOOL, "false", .doc = "ask for a gradient"},
                               {"requires_grad", DLSH_OPT_BOOL, "false", .doc = "the same"})),
    DLSH_PURE_ROW(
        "new_tensor", new_tensor_run, "x.new_tensor(DATA, dtype=, requires_grad=false)",
        "tensor(DATA) in the dtype and on the device of a tensor.",
        DLSH_PARAMS(TENSOR_PARAM,
                    {"data", .want = "number|bool|list|range|tensor", .doc = "a number, or nested lists of numbers"}),
        DLSH_OPTIONS({"dtype", DLSH_OPT_WORD, NULL, .doc = "that of the tensor unless given", .complete = "dtype"},
                     {"requires_grad", DLSH_OPT_BOOL, "false", .doc = "ask for a gradient"})),
    DLSH_PURE_ROW("param", param_run, "param(DATA)", "A copy that asks for a gradient: a parameter.",
                  .params = tensor_params, .examples = "w = param(randn(3, 2))"),
    DLSH_PURE_ROW("zeros_like", like_run, "zeros_like(X, dtype=)", "Zeros in the shape of a tensor.",
                  .params = only_tensor, .options = like_options, .data = "zeros"),
    DLSH_PURE_ROW("ones_like", like_run, "ones_like(X, dtype=)", "Ones in the shape of a tensor.",
                  .params = only_tensor, .options = like_options, .data = "ones"),
    DLSH_PURE_ROW("rand_like", like_run, "rand_like(X, dtype=)", "Uniform numbers in the shape of a tensor.",
                  .params = only_tensor, .options = like_options, .data = "rand"),
    DLSH_PURE_ROW("randn_like", like_run, "randn_like(X, dtype=)", "Normal numbers in the shape of a tensor.",
                  .params = only_tensor, .options = like_options, .data = "randn"),
    DLSH_PURE_ROW("empty_like", like_run, "empty_like(X, dtype=)",
                  "A tensor to be written to, in the shape of another; its elements are 0.", .params = only_tensor,
                  .options = like_options, .data = "empty"),
    DLSH_PURE_ROW("full_like", full_like_run, "full_like(X, VALUE, dtype=)", "One value in the shape of a tensor.",
                  DLSH_PARAMS(TENSOR_PARAM, {"fill_value", .want = "number|bool", .doc = "the value"}),
                  .options = like_options, .data = "full", .examples = "full_like(x, 0.5)"),
    DLSH_PURE_ROW("new_zeros", new_run, "x.new_zeros(SIZE..., dtype=)",
                  "Zeros in the dtype and on the device of a tensor.", .params = new_params, .options = like_options,
                  .data = "zeros"),
    DLSH_PURE_ROW("new_ones", new_run, "x.new_ones(SIZE..., dtype=)",
                  "Ones in the dtype and on the device of a tensor.", .params = new_params, .options = like_options,
                  .data = "ones"),
    DLSH_PURE_ROW("new_empty", new_run, "x.new_empty(SIZE..., dtype=)",
                  "A tensor to be written to, in the dtype and on the device of another; its elements are 0.",
                  .params = new_params, .options = like_options, .data = "empty"),
    DLSH_PURE_ROW("new_full", new_full_run, "x.new_full([SIZE...], VALUE, dtype=)",
                  "One value in the dtype and on the device of a tensor.",
                  DLSH_PARAMS(TENSOR_PARAM, {"size", .want = "int|list", .doc = "sizes"},
                              {"fill_value", .want = "number|bool", .doc = "the value"}),
                  .options = like_options, .data = "full", .examples = "x.new_full([2, 3], 0.5)"),
    DLSH_PURE_ROW("item", item_run, "x.item()", "The number in a tensor of one element.", .params = only_tensor),
    DLSH_PURE_ROW("tolist", tolist_run, "x.tolist()", "The elements as nested lists.", .params = only_tensor),
    DLSH_PURE_ROW("numel", numel_run, "x.numel()", "Number of elements.", .params = only_tensor),
    DLSH_PURE_ROW("size", size_run, "x.size([DIM])", "The shape, or one size of it.", .params = dim_params),
    DLSH_PURE_ROW("dim", ndim_run, "x.dim()", "Number of dimensions.", .params = only_tensor),
    DLSH_PURE_ROW("stride", stride_run, "x.stride()", "Strides in elements.", .params = only_tensor),
    DLSH_PURE_ROW("is_contiguous", is_contiguous_run, "x.is_contiguous()", "Do the elements lie row by row?",
                  .params = only_tensor),
    DLSH_PURE_ROW(
        "to", to_run, "x.to(DTYPE or DEVICE [, DTYPE])", "The same values in another dtype or on another device.",
        DLSH_PARAMS(
            TENSOR_PARAM,
            {"target", .want = "string|tensor", .flags = DLSH_OPTIONAL,
             .doc = "a dtype (f64), a device (\"cuda\"), or a tensor to be like", .complete = "dtype"},
            {"other", .want = "string", .flags = DLSH_OPTIONAL, .doc = "a dtype behind a device", .complete = "dtype"}),
        DLSH_OPTIONS(NON_BLOCKING, {"copy", DLSH_OPT_BOOL, "false", .doc = "a tensor of its own in any case"},
                     {"dtype", DLSH_OPT_WORD, NULL, .doc = "element type", .complete = "dtype"},
                     {"device", DLSH_OPT_WORD, NULL, .doc = "target device", .complete = "device"}),
        .examples = "x.to(f64)\nx.to(\"cuda\")"),
    DLSH_PURE_ROW("get_device", get_device_run, "x.get_device()",
                  "The number of the GPU that a tensor lives on; -1: the CPU.", .params = only_tensor),
    DLSH_PURE_ROW("cpu", to_device_run, "x.cpu()", "The tensor on the CPU.", .params = only_tensor,
                  DLSH_OPTIONS(NON_BLOCKING)),
    DLSH_PURE_ROW("cuda", to_device_run, "x.cuda()", "The tensor on the first GPU.", .params = only_tensor,
                  DLSH_OPTIONS(NON_BLOCKING), .data = "cuda"),
    DLSH_PURE_ROW("detach", detach_run, "x.detach()", "The same values without history.", .params = only_tensor),
    DLSH_PURE_ROW("contiguous", contiguous_run, "x.contiguous()", "The tensor itself or a copy, row by row.",
                  .params = only_tensor),
    DLSH_PURE_ROW(
        "requires_grad_", requires_grad_run, "x.requires_grad_([ON])", "Asks for a gradient from now on.",
        DLSH_PARAMS(TENSOR_PARAM, {"on", .want = "bool", .flags = DLSH_OPTIONAL, .doc = "true unless given"})),
    DLSH_FN_ROW(
        "retain_grad", retain_grad_run, "x.retain_grad()",
        "backward keeps the gradient of this result, too, in x.grad, without a history. (A leaf keeps its own.)",
        .params = only_tensor, .examples = "w = param(ones(2)); y = w * 2; y.retain_grad(); backward y.sum(); y.grad"),
    DLSH_PURE_ROW("copy_", fill_run, "x.copy_(VALUE)", "Writes a value into the tensor, broadcast and cast.",
                  .params = fill_params),
    DLSH_PURE_ROW("fill_", fill_run, "x.fill_(VALUE)", "Writes one number everywhere.", .params = fill_params),
    DLSH_PURE_ROW("zero_", fill_run, "x.zero_()", "Writes zeros.", .params = only_tensor, .data = "0"),
    DLSH_PURE_ROW("fill_diagonal_", fill_diagonal_run, "x.fill_diagonal_(VALUE [, WRAP])",
                  "Writes one number where all indices are equal.",
                  DLSH_PARAMS(TENSOR_PARAM, {"fill_value", .want = "number|bool", .doc = "what to write"},
                              {"wrap", .want = "bool", .flags = DLSH_OPTIONAL,
                               .doc = "in a high matrix the diagonal begins again, a row after its end (false)"}),
                  .examples = "zeros(3, 3).fill_diagonal_(1)"),
    DLSH_PURE_ROW("transpose", transpose_run, "x.transpose(DIM, DIM)", "Two dimensions swapped, without copying.",
                  DLSH_PARAMS(TENSOR_PARAM, {"dim0", .want = "int", .doc = "first dimension"},
                              {"dim1", .want = "int", .doc = "second dimension"})),
    DLSH_PURE_ROW("swapaxes", transpose_run, "x.swapaxes(DIM, DIM)",
                  "Two dimensions swapped: another name of transpose.",
                  DLSH_PARAMS(TENSOR_PARAM, {"dim0", .want = "int", .doc = "first dimension"},
                              {"dim1", .want = "int", .doc = "second dimension"})),
    DLSH_PURE_ROW("swapdims", transpose_run, "x.swapdims(DIM, DIM)",
                  "Two dimensions swapped: another name of transpose.",
                  DLSH_PARAMS(TENSOR_PARAM, {"dim0", .want = "int", .doc = "first dimension"},
                              {"dim1", .want = "int", .doc = "second dimension"})),
    DLSH_PURE_ROW("type_as", type_as_run, "x.type_as(OTHER)", "The values in the dtype of another tensor, beside it.",
                  .params = other_params),
    DLSH_PURE_ROW("element_size", element_size_run, "x.element_size()", "Bytes of an element.", .params = only_tensor),
    DLSH_PURE_ROW("nelement", numel_run, "x.nelement()", "Number of elements: another name of numel.",
                  .params = only_tensor),
    DLSH_PURE_ROW("ndimension", ndim_run, "x.ndimension()", "Number of dimensions: another name of dim.",
                  .params = only_tensor),
    DLSH_PURE_ROW("t", t_run, "x.t()", "A matrix transposed.", .params = only_tensor),
    DLSH_PURE_ROW("squeeze", squeeze_run, "x.squeeze([DIM])", "Dimensions of size 1 dropped.",
                  DLSH_PARAMS(TENSOR_PARAM, {"dim", .want = "int|list", .flags = DLSH_OPTIONAL,
                                             .doc = "the dimension, or those, that may go; others stay"})),
    DLSH_PURE_ROW("unsqueeze", unsqueeze_run, "x.unsqueeze(DIM)", "A dimension of size 1 put in.",
                  DLSH_PARAMS(TENSOR_PARAM, {"dim", .want = "int", .doc = "place of the new dimension"})),
    DLSH_PURE_ROW("flatten", flatten_run, "x.flatten([START [, END]])", "Dimensions joined into one.",
                  DLSH_PARAMS(TENSOR_PARAM,
                              {"start_dim", .want = "int", .flags = DLSH_OPTIONAL, .doc = "first dimension joined (0)"},
                              {"end_dim", .want = "int", .flags = DLSH_OPTIONAL, .doc = "last dimension joined (-1)"})),
    DLSH_PURE_ROW("ravel", ravel_run, "x.ravel()", "All dimensions joined into one.", .params = only_tensor),
    DLSH_PURE_ROW("view", view_run, "x.view(SIZE...)", "The same elements in another shape.",
                  DLSH_PARAMS(TENSOR_PARAM,
                              {"shape", .want = "int|list", .flags = DLSH_VARIADIC, .doc = "sizes; one may be -1"})),
    DLSH_PURE_ROW("view_as", shape_as_run, "x.view_as(OTHER)", "The same elements in the shape of another tensor.",
                  .params = other_params),
    DLSH_PURE_ROW("reshape_as", shape_as_run, "x.reshape_as(OTHER)",
                  "The same elements in the shape of another tensor.", .params = other_params),
    DLSH_PURE_ROW("expand_as", shape_as_run, "x.expand_as(OTHER)",
                  "Dimensions of size 1 repeated without copying, up to the shape of another tensor.",
                  .params = other_params, .data = "expand"),
    DLSH_PURE_ROW(
        "as_strided", as_strided_run, "x.as_strided([SIZE...], [STRIDE...] [, OFFSET])",
        "A view of the memory of a tensor: element [i, j] is that at OFFSET + i * STRIDE[0] + j * STRIDE[1]. Views may "
        "overlap; gradients of what they share add up.",
        DLSH_PARAMS(TENSOR_PARAM, REGION_PARAMS), .examples = "arange(6).as_strided([4, 3], [1, 1])"),
    DLSH_PURE_ROW(
        "as_strided_scatter", as_strided_scatter_run, "x.as_strided_scatter(SRC, [SIZE...], [STRIDE...] [, OFFSET])",
        "A copy of a tensor with SRC in the place of what as_strided views. No two elements of that may be one.",
        DLSH_PARAMS(TENSOR_PARAM, {"src", .want = "tensor", .doc = "what is written, of this size"}, REGION_PARAMS),
        .examples = "zeros(3, 3).as_strided_scatter(ones(3), [3], [4])"),
    DLSH_PURE_ROW("allclose", allclose_run, "allclose(A, B, rtol=1e-5, atol=1e-8, equal_nan=false)",
                  "Do two tensors agree within tolerances?",
                  DLSH_PARAMS(TENSOR_PARAM, {"other", .want = "tensor", .doc = "compared with it"},
                              {"rtol", .want = "number", .flags = DLSH_OPTIONAL, .doc = "relative tolerance (1e-5)"},
                              {"atol", .want = "number", .flags = DLSH_OPTIONAL, .doc = "absolute tolerance (1e-8)"},
                              {"equal_nan", .want = "bool", .flags = DLSH_OPTIONAL, .doc = "NaN equals NaN (false)"})),
    DLSH_PURE_ROW("shape", shape_run, "shape(X)", "The sizes of a tensor, a list: the same as x.shape.",
                  DLSH_PARAMS(TENSOR_PARAM), .examples = "shape(ones(2, 3))"),
    DLSH_PURE_ROW("equal", equal_run, "equal(A, B)", "Have two tensors the same shape and elements?",
                  DLSH_PARAMS(TENSOR_PARAM, {"other", .want = "tensor", .doc = "compared with it"})),
    {0}};
