/* Sparse matrices as values: sparse(x), sparse_csr(...), sparse_coo(...), their methods and operators. */
#include <stdlib.h>
#include <string.h>

#include "commands/sparse.h"
#include "lang/eval/interp.h"
#include "view/sink.h"
#include "dlcore/arithmetic.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/linalg.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"

/* ---- the value */

static dl_status give_sparse(dl_sparse *s, dlsh_value *out) {
    return dlsh_give(dlsh_new_handle(&dlsh_sparse_class, s), out);
}

static dl_status give_tensor(dl_tensor *t, dlsh_value *out) { return dlsh_give(dlsh_tensor(t), out); }

static dl_sparse *sparse_of(dlsh_value v) {
    return v.type == DLSH_HANDLE && v.as.handle->cls == &dlsh_sparse_class ? v.as.handle->self : NULL;
}

static void destroy(void *self) { dl_sparse_unref(self); }

static dl_status text(void *self, dlsh_buf *out) {
    const dl_tensor *v = dl_sparse_values(self);
    dlsh_buf_printf(out, "sparse(%ld entries, %s[%ld,%ld])", dl_sparse_nnz(self), dl_dtype_name(dl_dtype_of(v)),
                    dl_sparse_rows(self), dl_sparse_cols(self));
    return DL_OK;
}

static dl_status show(void *self, struct dlsh_sink *sink) {
    static const char *const names[] = {"crow  ", "col   ", "values"};
    dl_tensor *parts[] = {dl_sparse_crow(self), dl_sparse_col(self), dl_sparse_values(self)};
    DLSH_SCOPED_BUF b = {0};
    DLSH_TRY(text(self, &b));
    for (int i = 0; i < 3; i++) {
        dlsh_buf_printf(&b, "\n  %s  ", names[i]);
        const size_t from = b.n;
        DLSH_TRY(dlsh_text(&b, (dlsh_value){DLSH_TENSOR, {.tensor = parts[i]}}));
        for (size_t k = from; k < b.n; k++) /* the lines of one tensor are one here */
            if (b.s[k] == '\n') b.s[k] = ' ';
    }
    dlsh_put(sink, "%s\n", dlsh_buf_text(&b));
    return DL_OK;
}

/* Captured steps go on while indices and values stay where they are. */
static dl_status key(void *self, unsigned long *out) {
    const unsigned long parts[] = {dl_tensor_key(dl_sparse_crow(self)), dl_tensor_key(dl_sparse_col(self)),
                                   dl_tensor_key(dl_sparse_values(self)), (unsigned long)dl_sparse_cols(self)};
    *out = dl_hash(parts, sizeof parts);
    return DL_OK;
}

static dlsh_value shape_of(const dl_sparse *s) {
    return dlsh_new_ints((const long[]){dl_sparse_rows(s), dl_sparse_cols(s)}, 2);
}

static dl_status get_across(void *self, dlsh_value *out) { return give_sparse(dl_sparse_transpose(self), out); }
DLSH_GETTER(get_shape, shape_of(self))
DLSH_GETTER(get_nnz, dlsh_int(dl_sparse_nnz(self)))
DLSH_GETTER(get_dtype, dlsh_string(dl_dtype_name(dl_dtype_of(dl_sparse_values(self)))))
DLSH_GETTER(get_device, dlsh_string(dl_device_name(dl_device_of(dl_sparse_values(self)))))
DLSH_GETTER(get_needs, dlsh_bool(dl_requires_grad(dl_sparse_values(self))))

static const dlsh_field fields[] = {
    {"shape", "rows and columns", get_shape, NULL},
    {"nnz", "how many entries it has", get_nnz, NULL},
    {"T", "the transpose", get_across, NULL},
    {"dtype", "of the values", get_dtype, NULL},
    {"device", "where it is", get_device, NULL},
    {"requires_grad", "whether gradients flow to the values", get_needs, NULL},
    {0},
};

/* ---- operators */

static dl_status multiply(const dl_sparse *s, dlsh_value by, int divide, dlsh_value *out) {
    DLSH_OWNED dl_tensor *k = dlsh_operand(by);
    if (k && dl_numel(k) != 1)
        return dlsh_fail(DL_ERR_TYPE, "s @ x is the product of matrices; s.with_values(...) has other values",
                         "a sparse matrix is multiplied by a number, not by a tensor of %d dimensions",
                         dl_ndim(by.as.tensor));
    DLSH_OWNED dl_tensor *v = !k ? NULL : divide ? dl_div(dl_sparse_values(s), k) : dl_mul(dl_sparse_values(s), k);
    return v ? give_sparse(dl_sparse_with(s, v), out) : dl_failed();
}

static dl_status add(const dl_sparse *a, const dl_sparse *b, int minus, dlsh_value *out) {
    DLSH_OWNED dl_tensor *less = minus ? dl_neg(dl_sparse_values(b)) : NULL;
    DLSH_ENDED(dl_sparse_unref)
    dl_sparse *other = !minus ? dl_sparse_ref((dl_sparse *)b) : less ? dl_sparse_with(b, less) : NULL;
    return other ? give_sparse(dl_sparse_add(a, other), out) : dl_failed();
}

static dl_status binary(int op, dlsh_value a, dlsh_value b, dlsh_value *out) {
    const dl_sparse *left = sparse_of(a), *right = sparse_of(b);
    const int number = dlsh_is_number(left ? b : a) || (left ? b : a).type == DLSH_TENSOR;
    if (op == DLSH_OP_MATMUL && left && b.type == DLSH_TENSOR)
        return give_tensor(dl_sparse_matmul(left, b.as.tensor), out);
    if (op == DLSH_OP_MATMUL && right && a.type == DLSH_TENSOR)
        return give_tensor(dl_sparse_premultiplied(a.as.tensor, right), out);
    if (op == DLSH_OP_MATMUL && left && right)
        return dlsh_fail(DL_ERR_UNSUPPORTED, "make one dense: a @ b.to_dense()",
                         "the product of two sparse matrices is not known");
    if ((op == DLSH_OP_ADD || op == DLSH_OP_SUB) && left && right) return add(left, right, op == DLSH_OP_SUB, out);
    if (op == DLSH_OP_MUL && number) return multiply(left ? left : right, left ? b : a, 0, out);
    if (op == DLSH_OP_DIV && left && number) return multiply(left, b, 1, out);
    return DL_ERR_TYPE;
}

/* ---- methods */

static dl_status values_run(const dlsh_args *a, dlsh_value *result) {
    return give_tensor(dl_ref(dl_sparse_values(dlsh_arg_self(a))), result);
}
static dl_status crow_run(const dlsh_args *a, dlsh_value *result) {
    return give_tensor(dl_ref(dl_sparse_crow(dlsh_arg_self(a))), result);
}
static dl_status col_run(const dlsh_args *a, dlsh_value *result) {
    return give_tensor(dl_ref(dl_sparse_col(dlsh_arg_self(a))), result);
}
/* In the order of columns: the rows of the entries, or where columns begin. */
static dl_status columns_of(const dl_sparse *s, int rows, dlsh_value *result) {
    DLSH_DROPPED dlsh_value across = dlsh_void();
    DLSH_TRY(get_across((void *)s, &across));
    const dl_sparse *t = sparse_of(across);
    return give_tensor(dl_ref(rows ? dl_sparse_col(t) : dl_sparse_crow(t)), result);
}
static dl_status ccol_run(const dlsh_args *a, dlsh_value *result) { return columns_of(dlsh_arg_self(a), 0, result); }
static dl_status row_run(const dlsh_args *a, dlsh_value *result) { return columns_of(dlsh_arg_self(a), 1, result); }
static dl_status dense_run(const dlsh_args *a, dlsh_value *result) {
    return give_tensor(dl_sparse_dense(dlsh_arg_self(a)), result);
}
static dl_status t_run(const dlsh_args *a, dlsh_value *result) { return get_across(dlsh_arg_self(a), result); }
static dl_status with_run(const dlsh_args *a, dlsh_value *result) {
    return give_sparse(dl_sparse_with(dlsh_arg_self(a), dlsh_arg_tensor(a, "values")), result);
}
static dl_status to_run(const dlsh_args *a, dlsh_value *result) {
    const dl_sparse *s = dlsh_arg_self(a);
    const char *target = dlsh_arg_str(a, "target");
    dl_dtype dtype = dl_dtype_of(dl_sparse_values(s));
    int device = dl_device_of(dl_sparse_values(s));
    DLSH_TRY(!strncmp(target, "cuda", 4) || !strcmp(target, "cpu") ? dl_device_parse(target, &device)
                                                                   : dl_dtype_parse(target, &dtype));
    return give_sparse(dl_sparse_to(s, dtype, device), result);
}

/* Of a matrix with many zeros the sums of rows are a product with ones. */
static dl_status sum_run(const dlsh_args *a, dlsh_value *result) {
    const dl_sparse *s = dlsh_arg_self(a);
    dl_tensor *v = dl_sparse_values(s);
    long dim = dlsh_arg_int(a, "dim");
    if (!dlsh_given(a, "dim")) return give_tensor(dl_sum(v, NULL, 0, 0), result);
    if (dim < -2 || dim > 1)
        return dlsh_arg_fail(a, "dim", DL_ERR_VALUE, NULL, "dim is 0, which adds up rows, or 1, columns, not %ld", dim);
    const int over_rows = !(dim & 1);
    DLSH_ENDED(dl_sparse_unref)
    dl_sparse *by_row = over_rows ? dl_sparse_transpose(s) : dl_sparse_ref((dl_sparse *)s);
    const long n = by_row ? dl_sparse_cols(by_row) : 0;
    DLSH_OWNED dl_tensor *ones = by_row ? dl_tensor_full(1, &n, dl_dtype_of(v), dl_device_of(v), 1) : NULL;
    return ones ? give_tensor(dl_sparse_matmul(by_row, ones), result) : dl_failed();
}

static dl_tensor *given_tensor(const dlsh_args *a, const char *name) {
    return dlsh_given(a, name) ? dlsh_arg_tensor(a, name) : NULL;
}

static dl_status lobpcg_run(const dlsh_args *a, dlsh_value *result) {
    static const char *const names[] = {"eigenvalues", "eigenvectors"};
    dl_sparse *s = dlsh_arg_self(a);
    if (dl_sparse_rows(s) != dl_sparse_cols(s))
        return dlsh_arg_fail(a, NULL, DL_ERR_SHAPE, NULL, "the matrix must be square, not %ld by %ld",
                             dl_sparse_rows(s), dl_sparse_cols(s));
    const long k = dlsh_given(a, "k") ? dlsh_arg_int(a, "k") : 0, n = dlsh_given(a, "n") ? dlsh_arg_int(a, "n") : 0,
               steps = dlsh_given(a, "niter") ? dlsh_arg_int(a, "niter") : 0;
    const double tol = dlsh_given(a, "tol") ? dlsh_arg_float(a, "tol") : 0;
    dl_tensor *v = NULL;
    dl_tensor *e = dl_lobpcg_csr(dl_sparse_values(s), dl_sparse_crow(s), dl_sparse_col(s), given_tensor(a, "B"),
                                 given_tensor(a, "X"), given_tensor(a, "iK"), dlsh_given(a, "k") ? &k : NULL,
                                 dlsh_given(a, "n") ? &n : NULL, dlsh_given(a, "niter") ? &steps : NULL,
                                 dlsh_given(a, "tol") ? &tol : NULL, dlsh_arg_bool(a, "largest"),
                                 dlsh_given(a, "method") ? dlsh_arg_str(a, "method") : NULL, &v);
    if (!e) return dl_failed();
    dlsh_value both = DLSH_LIST_OF(dlsh_tensor(e), dlsh_tensor(v));
    if (!dlsh_failed(both)) both.as.list->names = names, both.as.list->nnames = 2;
    return dlsh_give(both, result);
}

static const dlsh_command methods[] = {
    DLSH_FN_ROW("sum", sum_run, "s.sum([DIM])", "The sum of all entries, or those of rows (dim=1) or columns (dim=0).",
                DLSH_PARAMS({"dim", .want = "int", .flags = DLSH_OPTIONAL, .doc = "the dimension that is added up"}),
                .examples = "sparse(eye(3)).sum(dim=1)"),
    DLSH_FN_ROW("values", values_run, "s.values()", "The values of the entries, row by row."),
    DLSH_FN_ROW("crow_indices", crow_run, "s.crow_indices()",
                "Where rows begin: row r has the entries crow[r] to crow[r + 1] - 1."),
    DLSH_FN_ROW("col_indices", col_run, "s.col_indices()", "The column of each entry."),
    DLSH_FN_ROW("ccol_indices", ccol_run, "s.ccol_indices()",
                "Where columns begin in the order of columns, which s.T.values() has."),
    DLSH_FN_ROW("row_indices", row_run, "s.row_indices()", "The row of each entry in the order of columns."),
    DLSH_FN_ROW("to_dense", dense_run, "s.to_dense()", "The matrix with its zeros, a tensor."),
    DLSH_FN_ROW("t", t_run, "s.t()", "The transpose, which s.T is, too; its columns are sorted."),
    DLSH_FN_ROW("with_values", with_run, "s.with_values(VALUES)", "Entries at the same places with other values.",
                DLSH_PARAMS({"values", .want = "tensor", .doc = "one for each entry"}),
                .examples = "s = sparse(eye(3)); s.with_values(s.values().exp())"),
    DLSH_FN_ROW("lobpcg", lobpcg_run, "s.lobpcg([K])",
                "The k largest, or smallest, eigenvalues of a symmetric matrix and their vectors, as columns, by "
                "products with the "
                "matrix alone; options as those of the function lobpcg of tensors, without gradients.",
                DLSH_PARAMS({"k", .want = "int", .flags = DLSH_OPTIONAL, .doc = "how many (the width of X, or 1)"}),
                DLSH_OPTIONS({"B", DLSH_OPT_VALUE, .want = "tensor", .doc = "the matrix of A V = B V diag(L)"},
                             {"X", DLSH_OPT_VALUE, .want = "tensor", .doc = "vectors to begin with, as columns"},
                             {"n", DLSH_OPT_INT, .doc = "how many vectors are iterated, where X is not given (k)"},
                             {"iK", DLSH_OPT_VALUE, .want = "tensor",
                              .doc = "a preconditioner: about the inverse of the matrix"},
                             {"niter", DLSH_OPT_INT, .doc = "steps at most, negative: no limit (1000)"},
                             {"tol", DLSH_OPT_FLOAT, .doc = "where a residual counts as 0, relative"},
                             {"largest", DLSH_OPT_BOOL, "true", .doc = "false: the smallest"},
                             {"method", DLSH_OPT_STRING, .doc = "ortho or basic"}),
                .examples = "s = sparse(diag(arange(1.0, 31.0))); e, v = s.lobpcg(2); e"),
    DLSH_FN_ROW("to", to_run, "s.to(DTYPE|DEVICE)", "The same matrix in another dtype, or on another device.",
                DLSH_PARAMS({"target", .want = "string", .doc = "f64, cuda, ..."})),
    {0}};

const dlsh_class dlsh_sparse_class = {
    .name = "sparse",
    .doc = "A matrix that is mostly zeros, in compressed rows. s @ x and x @ s are products with vectors and matrices, "
           "with gradients for both; s * 2, s / 2, s + s and s - s are sparse again.",
    .destroy = destroy,
    .key = key,
    .text = text,
    .show = show,
    .fields = fields,
    .methods = methods,
    .binary = binary};

/* ---- making */

/* An argument as a tensor; lists take the dtype, -1: that of their numbers, and the device. */
static dl_tensor *tensor_of(dlsh_value v, int dtype, int device) {
    dlsh_value made;
    if (v.type == DLSH_TENSOR) return dl_ref(v.as.tensor);
    return dlsh_list_to_tensor(v, dtype, device, &made) ? NULL : made.as.tensor;
}

static dl_tensor *values_of(const dlsh_args *a) {
    return tensor_of(*dlsh_arg(a, "values"), DL_F32, dlsh_default_device());
}

/* Lists stay on the device of the values. */
static dl_tensor *indices_of(const dlsh_args *a, const char *name, const dl_tensor *values) {
    DLSH_OWNED dl_tensor *t = tensor_of(*dlsh_arg(a, name), -1, dl_device_of(values));
    dl_tensor *whole = t && !dl_numel(t) ? dl_to_dtype(t, DL_I64) : dl_ref(t); /* no numbers, no dtype */
    return whole;
}

/* 1 + the largest number of t, 0 when it has none. */
static dl_status least_size(dl_tensor *t, long *n) {
    DLSH_OWNED dl_tensor *most = dl_numel(t) ? dl_amax(t, NULL, 0, 0) : NULL;
    dl_status st = !dl_numel(t) ? (*n = -1, DL_OK) : most ? dl_item_i(most, n) : dl_failed();
    ++*n;
    return st;
}

/* size=; 0: it is not given. */
static int given_size(const dlsh_args *a, long size[2], dl_status *st) {
    const dlsh_value *v = dlsh_arg(a, "size");
    *st = DL_OK;
    if (!v || v->type == DLSH_NONE) return 0;
    for (int i = 0; i < 2 && v->as.list->n == 2; i++)
        size[i] = v->as.list->items[i].type == DLSH_INT ? v->as.list->items[i].as.i : -1;
    if (v->as.list->n != 2 || size[0] < 0 || size[1] < 0)
        *st = dlsh_arg_fail(a, "size", DL_ERR_VALUE, NULL, "size is a list of two ints from 0: rows and columns");
    return 1;
}

static dl_status csr_run(const dlsh_args *a, dlsh_value *result) {
    long size[2] = {0};
    dl_status st;
    const int given = given_size(a, size, &st);
    DLSH_TRY(st);
    DLSH_OWNED dl_tensor *values = values_of(a);
    if (!values) return dl_failed();
    DLSH_OWNED dl_tensor *crow = indices_of(a, "crow", values), *col = crow ? indices_of(a, "col", values) : NULL;
    st = col ? DL_OK : dl_failed();
    if (!given && !st) st = least_size(col, &size[1]), size[0] = dl_numel(crow) - 1;
    if (!st) st = give_sparse(dl_sparse_csr(crow, col, values, size[0], size[1]), result);
    return st;
}

/* The numbers of columns and rows that indices need. */
static dl_status size_for(dl_tensor *indices, long size[2]) {
    for (int i = 0; i < 2 && dl_ndim(indices) == 2 && dl_shape(indices)[0] == 2; i++) {
        DLSH_OWNED dl_tensor *line = dl_select(indices, 0, i);
        DLSH_TRY(line ? least_size(line, &size[i]) : dl_failed());
    }
    return DL_OK;
}

static dl_status coo_run(const dlsh_args *a, dlsh_value *result) {
    long size[2] = {0};
    dl_status st;
    const int given = given_size(a, size, &st);
    DLSH_TRY(st);
    DLSH_OWNED dl_tensor *values = values_of(a);
    if (!values) return dl_failed();
    DLSH_OWNED dl_tensor *indices = indices_of(a, "indices", values);
    st = !indices ? dl_failed() : given ? DL_OK : size_for(indices, size);
    if (!st) st = give_sparse(dl_sparse_coo(indices, values, size[0], size[1]), result);
    return st;
}

/* Compressed columns are the compressed rows of the transpose. */
static dl_status csc_run(const dlsh_args *a, dlsh_value *result) {
    long size[2] = {0};
    dl_status st;
    const int given = given_size(a, size, &st);
    DLSH_TRY(st);
    DLSH_OWNED dl_tensor *values = values_of(a);
    DLSH_OWNED dl_tensor *ccol = values ? indices_of(a, "ccol", values) : NULL,
                         *row = ccol ? indices_of(a, "row", values) : NULL;
    if (!row) return dl_failed();
    if (!given) DLSH_TRY(least_size(row, &size[0]));
    if (!given) size[1] = dl_numel(ccol) - 1;
    dl_sparse *across = dl_sparse_csr(ccol, row, values, size[1], size[0]);
    st = across ? get_across(across, result) : dl_failed();
    dl_sparse_unref(across);
    return st;
}

/* ---- diagonals */

/* The offsets of n diagonals; NULL: a recorded failure. */
static long *offsets_of(const dlsh_args *a, long n) {
    DLSH_OWNED dl_tensor *t = tensor_of(*dlsh_arg(a, "offsets"), DL_I64, 0),
                         *flat = t ? dl_reshape(t, (const long[]){-1}, 1) : NULL;
    long *off = flat ? malloc(((size_t)n + 1) * sizeof *off) : NULL;
    if (!flat) return NULL;
    if (!off) return dlsh_no_memory("offsets"), NULL;
    dl_status st = dl_numel(flat) == n ? DL_OK
                                       : dlsh_arg_fail(a, "offsets", DL_ERR_SHAPE, NULL,
                                                       "%ld offsets for %ld diagonals", dl_numel(flat), n);
    for (long i = 0; i < n && !st; i++) {
        DLSH_OWNED dl_tensor *one = dl_select(flat, 0, i);
        st = one ? dl_item_i(one, &off[i]) : dl_failed();
        for (long k = 0; k < i && !st; k++)
            if (off[k] == off[i])
                st = dlsh_arg_fail(a, "offsets", DL_ERR_VALUE, NULL, "two diagonals have the offset %ld", off[i]);
    }
    if (st) return free(off), NULL;
    return off;
}

/* Where the elements of diagonals [n,length] go that lie in the matrix: rows, columns, and their numbers. Returns how
 * many. */
static long places_of(const long *off, long n, long length, const long size[2], long *row, long *col, long *from) {
    long k = 0;
    for (long i = 0; i < n; i++)
        for (long j = 0; j < length && j < size[1]; j++) {
            if (j - off[i] < 0 || j - off[i] >= size[0]) continue;
            row[k] = j - off[i], col[k] = j, from[k++] = i * length + j;
        }
    return k;
}

static dl_status give_diagonals(dl_tensor *diagonals, const long *off, const long size[2], dlsh_value *result) {
    const long n = dl_shape(diagonals)[0], length = dl_shape(diagonals)[1], all = -1;
    const int device = dl_device_of(diagonals);
    const size_t room = (size_t)(n * length) + 1;
    DLSH_FREED long *at = malloc(3 * room * sizeof *at);
    if (!at) return dlsh_no_memory("the places of diagonals");
    const long k = places_of(off, n, length, size, at, at + room, at + 2 * room);
    memmove(at + k, at + room, (size_t)k * sizeof *at);
    DLSH_OWNED dl_tensor *indices = dl_tensor_from(2, (const long[]){2, k}, DL_I64, device, at),
                         *from = dl_tensor_from(1, &k, DL_I64, device, at + 2 * room),
                         *flat = dl_reshape(diagonals, &all, 1),
                         *values = flat && from ? dl_index_select(flat, from, 0) : NULL;
    return values && indices ? give_sparse(dl_sparse_coo(indices, values, size[0], size[1]), result) : dl_failed();
}

static dl_status spdiags_run(const dlsh_args *a, dlsh_value *result) {
    long size[2] = {0};
    dl_status st;
    if (!given_size(a, size, &st) && !st)
        return dlsh_arg_fail(a, "size", DL_ERR_VALUE, "spdiags(d, [0, 1], [3, 3])",
                             "the size of the matrix is not given");
    DLSH_TRY(st);
    DLSH_OWNED dl_tensor *given = tensor_of(*dlsh_arg(a, "diagonals"), DL_F32, dlsh_default_device());
    if (!given) return dl_failed();
    const long row[2] = {1, -1};
    DLSH_OWNED dl_tensor *d = dl_ndim(given) == 1 ? dl_reshape(given, row, 2) : dl_ref(given);
    if (!d) return dl_failed();
    if (dl_ndim(d) != 2) return dlsh_arg_fail(a, "diagonals", DL_ERR_SHAPE, NULL, "diagonals are the rows of a matrix");
    DLSH_FREED long *off = offsets_of(a, dl_shape(d)[0]);
    return off ? give_diagonals(d, off, size, result) : dl_failed();
}

static dl_status sparse_run(const dlsh_args *a, dlsh_value *result) {
    return give_sparse(dl_sparse_of(dlsh_arg_tensor(a, "input")), result);
}

#define SIZE_PARAM                                                                                                     \
    {                                                                                                                  \
        "size", .want = "list|none", .flags = DLSH_OPTIONAL,                                                           \
                .doc = "rows and columns; those that have entries unless given"                                        \
    }
static const dlsh_param csr_params[] = {
    {"crow", .want = "list|tensor", .doc = "where rows begin, and the end: one number more than rows"},
    {"col", .want = "list|tensor", .doc = "the column of each entry"},
    {"values", .want = "list|tensor", .doc = "the value of each entry; it may ask for a gradient"},
    SIZE_PARAM,
    {0}};
static const dlsh_param csc_params[] = {
    {"ccol", .want = "list|tensor", .doc = "where columns begin, and the end: one number more than columns"},
    {"row", .want = "list|tensor", .doc = "the row of each entry"},
    {"values", .want = "list|tensor", .doc = "the value of each entry; it may ask for a gradient"},
    SIZE_PARAM,
    {0}};
static const dlsh_param coo_params[] = {
    {"indices", .want = "list|tensor", .doc = "[2,entries]: rows above columns, in any order"},
    {"values", .want = "list|tensor", .doc = "the value of each entry; it may ask for a gradient"},
    SIZE_PARAM,
    {0}};
static const dlsh_param dense_params[] = {{"input", .want = "tensor", .doc = "a matrix"}, {0}};

const dlsh_command sparse_commands[] = {
    DLSH_FN_ROW("sparse", sparse_run, "sparse(MATRIX)",
                "A sparse matrix of the elements that are not 0, which get its gradient.", .params = dense_params,
                .examples = "s = sparse(eye(3) * 2)\ns @ ones(3)\ns.to_dense()"),
    DLSH_FN_ROW("to_sparse", sparse_run, "x.to_sparse()", "The same as sparse(x).", .params = dense_params),
    DLSH_FN_ROW("sparse_csr", csr_run, "sparse_csr(CROW, COL, VALUES, [[ROWS, COLUMNS]])",
                "A sparse matrix of compressed rows: row r has the entries crow[r] to crow[r + 1] - 1. Entries of one "
                "place add up.",
                .params = csr_params,
                .examples = "s = sparse_csr([0, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0], size=[2, 3])\ns @ ones(3, 4)"),
    DLSH_FN_ROW("sparse_csr_tensor", csr_run, "sparse_csr_tensor(CROW, COL, VALUES, [[ROWS, COLUMNS]])",
                "The same as sparse_csr.", .params = csr_params),
    DLSH_FN_ROW("sparse_csc_tensor", csc_run, "sparse_csc_tensor(CCOL, ROW, VALUES, [[ROWS, COLUMNS]])",
                "A sparse matrix from compressed columns, kept as compressed rows: column c has the entries ccol[c] to "
                "ccol[c + 1] - 1.",
                .params = csc_params,
                .examples =
                    "s = sparse_csc_tensor([0, 1, 3], [1, 0, 1], [1.0, 2.0, 3.0])\ns.to_dense()\ns.ccol_indices()"),
    DLSH_FN_ROW(
        "spdiags", spdiags_run, "spdiags(DIAGONALS, OFFSETS, [ROWS, COLUMNS])",
        "A sparse matrix from diagonals, the rows of a matrix: element j of one stands in column j, offset columns "
        "right of the main diagonal. Elements outside are left out.",
        DLSH_PARAMS({"diagonals", .want = "list|tensor", .doc = "[diagonals,columns]; it may ask for a gradient"},
                    {"offsets", .want = "list|tensor|int", .doc = "one for each: above 0 right of the main one"},
                    {"size", .want = "list", .doc = "rows and columns"}),
        .examples = "spdiags([[1.0, 2, 3], [4, 5, 6]], [0, 1], [3, 3]).to_dense()"),
    DLSH_FN_ROW("sparse_coo", coo_run, "sparse_coo(INDICES, VALUES, [[ROWS, COLUMNS]])",
                "A sparse matrix of places and values, kept as sorted compressed rows; values of one place are added.",
                .params = coo_params,
                .examples = "sparse_coo([[0, 1, 1], [2, 0, 0]], [1.0, 2.0, 3.0], size=[2, 3]).to_dense()"),
    DLSH_FN_ROW("sparse_coo_tensor", coo_run, "sparse_coo_tensor(INDICES, VALUES, [[ROWS, COLUMNS]])",
                "The same as sparse_coo.", .params = coo_params),
    {0}};
