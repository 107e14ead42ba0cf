/* NumPy's .npy files: a magic word, a version, a dictionary written in Python's syntax, then the elements.
 * Format: numpy.lib.format, versions 1.0 to 3.0. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "core/tensor.h"
#include "io/atomic.h"
#include "io/numpy/npy.h"
#include "io/input.h"
#include "dlcore/view.h"

/* What is written. */
static const struct {
    const char *descr;
    dl_dtype dtype;
} dtypes[] = {
    {"|b1", DL_BOOL}, {"|u1", DL_U8},  {"<i4", DL_I32}, {"<i8", DL_I64},   {"<f2", DL_F16},
    {"<f4", DL_F32},  {"<f8", DL_F64}, {"<c8", DL_C64}, {"<c16", DL_C128},
};
enum { NDTYPES = sizeof dtypes / sizeof *dtypes };

void dl_npy_stored_shape(const dl_npy_header *h, long *shape) {
    for (int i = 0; i < h->ndim; i++) shape[i] = h->shape[h->fortran ? h->ndim - 1 - i : i];
}

dl_tensor *dl_npy_transpose(const dl_npy_header *h, dl_tensor *raw) {
    long dims[DL_MAX_DIM];
    if (!raw || !h->fortran || h->ndim < 2) return raw;
    for (int i = 0; i < h->ndim; i++) dims[i] = h->ndim - 1 - i;
    DL_OWNED dl_tensor *stored = raw, *view = dl_permute(stored, dims, h->ndim);
    return view ? dl_contiguous(view) : NULL;
}

static dl_status read_source(void *ctx, uint64_t at, void *to, size_t n) { return dl_input_read(ctx, at, to, n); }

static dl_tensor *from_source(dl_input *s, int device) {
    dl_npy_header h;
    long shape[DL_MAX_DIM];
    if (dl_npy_read_header(s->name, s->size, read_source, s, &h) != DL_OK) return NULL;
    dl_npy_stored_shape(&h, shape);
    dl_input_cursor elements = {s, h.at};
    return dl_npy_transpose(&h, dl_element_tensor(h.element, h.ndim, shape, device, dl_input_next, &elements));
}

dl_tensor *dl_npy_parse(const char *name, const void *bytes, size_t n, int device) {
    dl_input s = dl_input_memory(name, bytes, n);
    return from_source(&s, device);
}

dl_tensor *dl_npy_read(const char *path, int device) {
    dl_input s;
    if (dl_input_open(&s, path) != DL_OK) return NULL;
    dl_tensor *t = from_source(&s, device);
    if (!t) dl_error_of_file(path);
    dl_input_close(&s);
    return t;
}

/* ---------------------------------------------------------------- writing */

static int header_text(const dl_tensor *t, const char *descr, char *out, size_t size) {
    int n = snprintf(out, size, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; i < dl_ndim(t); i++)
        n += snprintf(out + n, size - (size_t)n, "%ld%s", dl_shape(t)[i],
                      dl_ndim(t) == 1      ? ","
                      : i + 1 < dl_ndim(t) ? ", "
                                           : "");
    n += snprintf(out + n, size - (size_t)n, "), }");
    while ((10 + n + 1) % 64) out[n++] = ' '; /* elements begin at a multiple of 64 */
    out[n++] = '\n';
    return n;
}

dl_status dl_npy_make_header(const dl_tensor *t, char *out, size_t *n) {
    const char *descr = NULL;
    for (int i = 0; i < NDTYPES; i++)
        if (dtypes[i].dtype == dl_dtype_of(t)) descr = dtypes[i].descr;
    if (!descr)
        return dl_fail_hint(DL_ERR_DTYPE, "convert it to f32 first", ".npy has no dtype %s",
                            dl_dtype_name(dl_dtype_of(t)));
    int len = header_text(t, descr, out + 10, DL_NPY_HEAD - 10);
    memcpy(out, "\x93NUMPY\1\0", 8);
    out[8] = (char)len, out[9] = (char)(len >> 8);
    *n = 10 + (size_t)len;
    return DL_OK;
}

dl_status dl_npy_write(const char *path, dl_tensor *t) {
    char head[DL_NPY_HEAD];
    size_t len, bytes;
    if (!t) return dl_fail_null("the tensor to write");
    DL_TRY(dl_npy_make_header(t, head, &len));
    void *copy = dl_element_copy(t, &bytes);
    if (!copy) return dl_failed();
    dl_atomic a = {.fd = -1};
    dl_status st = dl_atomic_open(&a, path);
    if (st == DL_OK) st = dl_atomic_write(&a, head, len);
    if (st == DL_OK) st = dl_atomic_write(&a, copy, bytes);
    st = dl_atomic_finish(&a, st);
    free(copy);
    return st;
}
