/* NumPy's arrays, scalars and dtypes in pickles: what ndarray.__reduce__ and its like write, for protocols 2 to 5. */
#include <stdlib.h>

#include "core/tensor.h"
#include "io/numpy/npy.h"
#include "io/pickle/pickle_value.h"

/* dtype("f4", False, True), to which a state tells the order of bytes: (3, "<", None, ...). */
static dl_status read_dtype(const dl_pickle_reader *r, const dl_pickle_node *x, dl_element *e) {
    static const struct {
        char word[4];
        dl_element element;
    } words[] = {{"b1", {DL_E_BOOL, 1, false}},    {"u1", {DL_E_UINT, 1, false}},     {"u2", {DL_E_UINT, 2, false}},
                 {"u4", {DL_E_UINT, 4, false}},    {"u8", {DL_E_UINT, 8, false}},     {"i1", {DL_E_INT, 1, false}},
                 {"i2", {DL_E_INT, 2, false}},     {"i4", {DL_E_INT, 4, false}},      {"i8", {DL_E_INT, 8, false}},
                 {"f2", {DL_E_FLOAT, 2, false}},   {"f4", {DL_E_FLOAT, 4, false}},    {"f8", {DL_E_FLOAT, 8, false}},
                 {"c8", {DL_E_COMPLEX, 8, false}}, {"c16", {DL_E_COMPLEX, 16, false}}};
    if (x->kind != DL_PICKLE_CALL || !dl_pickle_is_global(x->fn, "numpy", "dtype") || !x->args->n)
        return dl_pickle_bad(r, x, "a dtype of NumPy is wanted here");
    const dl_pickle_node *order =
        x->state && x->state->kind == DL_PICKLE_TUPLE && x->state->n > 1 ? x->state->item[1] : NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!dl_pickle_is_text(x->args->item[0], words[i].word)) continue;
        *e = words[i].element;
        e->big = order && dl_pickle_is_text(order, ">");
        return DL_OK;
    }
    return dl_fail(DL_ERR_DTYPE, "%s: byte %llu of the pickle: arrays of this dtype have no counterpart", r->name,
                   (unsigned long long)x->at);
}

/* The array of a shape whose elements are bytes[n]. */
static dl_status set_array(dl_pickle_reader *r, const dl_pickle_node *x, dl_npy_header *h, const dl_pickle_node *data,
                           dl_stored *out) {
    int64_t numel = 0;
    uint8_t *bytes;
    size_t n;
    long shape[DL_MAX_DIM];
    DL_TRY(dl_shape_check(h->ndim, h->shape, &numel));
    DL_TRY(dl_pickle_bytes(r, data, &bytes, &n));
    if ((uint64_t)numel * (uint64_t)h->element.size != n) {
        free(bytes);
        return dl_pickle_bad(r, x, "an array has more or fewer bytes than its shape takes");
    }
    dl_input in = dl_input_memory(r->name, bytes, n);
    dl_input_cursor elements = {&in, 0};
    dl_npy_stored_shape(h, shape);
    out->kind = DL_STORED_TENSOR;
    out->tensor =
        dl_npy_transpose(h, dl_element_tensor(h->element, h->ndim, shape, r->device, dl_input_next, &elements));
    free(bytes);
    return out->tensor ? DL_OK : dl_failed();
}

/* An empty array, whose state is (version, shape, dtype, column-major, bytes). */
static dl_status make_array(dl_pickle_reader *r, const dl_pickle_node *x, dl_stored *out) {
    const dl_pickle_node *s = x->state;
    dl_npy_header h = {0};
    if (!s || s->kind != DL_PICKLE_TUPLE || s->n != 5 || s->item[3]->kind != DL_PICKLE_BOOL)
        return dl_pickle_bad(r, x, "an array has no state (version, shape, dtype, order, bytes)");
    DL_TRY(dl_pickle_sizes(r, s->item[1], &h.ndim, h.shape));
    DL_TRY(read_dtype(r, s->item[2], &h.element));
    h.fortran = s->item[3]->i != 0;
    return set_array(r, x, &h, s->item[4], out);
}

/* (bytes, dtype, shape, "C" or "F"), since protocol 5. */
static dl_status make_from_buffer(dl_pickle_reader *r, const dl_pickle_node *x, dl_stored *out) {
    dl_npy_header h = {0};
    if (x->args->n != 4) return dl_pickle_bad(r, x, "an array has other than four arguments");
    DL_TRY(read_dtype(r, x->args->item[1], &h.element));
    DL_TRY(dl_pickle_sizes(r, x->args->item[2], &h.ndim, h.shape));
    h.fortran = dl_pickle_is_text(x->args->item[3], "F");
    return set_array(r, x, &h, x->args->item[0], out);
}

/* (dtype, bytes): a number. */
static dl_status make_scalar(dl_pickle_reader *r, const dl_pickle_node *x, dl_stored *out) {
    dl_npy_header h = {0};
    dl_stored t = {0};
    if (x->args->n != 2) return dl_pickle_bad(r, x, "a number of NumPy has other than two arguments");
    DL_TRY(read_dtype(r, x->args->item[0], &h.element));
    int device = r->device;
    r->device = 0;
    dl_status st = set_array(r, x, &h, x->args->item[1], &t);
    r->device = device;
    double v = 0;
    if (st == DL_OK && h.element.kind == DL_E_FLOAT) {
        st = dl_read_f64(t.tensor, &v);
        out->kind = DL_STORED_FLOAT, out->f = v;
    } else if (st == DL_OK) {
        const void *p = dl_ptr(t.tensor);
        dl_dtype dtype = dl_dtype_of(t.tensor);
        out->kind = dtype == DL_BOOL ? DL_STORED_BOOL : DL_STORED_INT;
        out->i = dtype == DL_I64 ? *(const int64_t *)p : dtype == DL_I32 ? *(const int32_t *)p : *(const uint8_t *)p;
    }
    dl_stored_clear(&t);
    return st;
}

const dl_pickle_row dl_pickle_numpy_rows[] = {
    {"numpy.core.multiarray", "_reconstruct", make_array},
    {"numpy._core.multiarray", "_reconstruct", make_array},
    {"numpy.core.multiarray", "scalar", make_scalar},
    {"numpy._core.multiarray", "scalar", make_scalar},
    {"numpy.core.numeric", "_frombuffer", make_from_buffer},
    {"numpy._core.numeric", "_frombuffer", make_from_buffer},
    {0},
};
