/* Tensors inside text and JSON of values; their layout as rows is the view's. */
#include "lang/tensor_text.h"

#include <math.h>
#include <stdlib.h>

#include "lang/session.h"
#include "view/tensor.h"

enum { SHORT = 8 };

/* All elements on the host: integers and bools as longs, floats as doubles. */
typedef struct elements {
    dl_tensor *t;
    double *f; /* NULL: not floating */
    long *i;
} elements;

static dl_status read_elements(elements *e, dl_tensor *t) {
    int is_float = dl_dtype_is_float(dl_dtype_of(t));
    void *mem = dl_memory_alloc(dl_numel(t), 8);
    if (!mem) return DL_ERR_MEMORY;
    int mode = dl_grad_mode(0);
    dl_tensor *wide = is_float ? dl_ref(t) : dl_to_dtype(t, DL_I64);
    dl_status st = !wide ? dl_failed() : is_float ? dl_read_f64(wide, mem) : dl_read(wide, mem);
    dl_unref(wide);
    dl_grad_mode(mode);
    if (st) {
        free(mem);
        return st;
    }
    *e = (elements){t, is_float ? mem : NULL, is_float ? NULL : mem};
    return DL_OK;
}

static void put_element(dlsh_buf *b, const elements *e, long k, int json) {
    if (e->f && json && !isfinite(e->f[k]))
        dlsh_json_float(b, e->f[k]);
    else if (e->f)
        dlsh_element_digits(b, e->f[k], dl_dtype_of(e->t));
    else if (dl_dtype_of(e->t) == DL_BOOL)
        dlsh_buf_puts(b, e->i[k] ? "true" : "false");
    else
        dlsh_buf_printf(b, "%ld", e->i[k]);
}

dl_status dlsh_tensor_text(dlsh_buf *b, dl_tensor *t) {
    if (dl_ndim(t) == 0) return dlsh_tensor_line(b, t);
    return dlsh_tensor_layout(b, t, 0, 0);
}

dl_status dlsh_tensor_line(dlsh_buf *b, dl_tensor *t) {
    elements e;
    if (dl_ndim(t)) dlsh_tensor_kind(b, t);
    if (dl_ndim(t) > 1 || dl_numel(t) > SHORT || !dl_numel(t)) return DL_OK;
    DLSH_TRY(read_elements(&e, t));
    for (long k = 0; k < dl_numel(t); k++) {
        if (dl_ndim(t)) dlsh_buf_puts(b, k ? ", " : "(");
        put_element(b, &e, k, 0);
    }
    if (dl_ndim(t)) dlsh_buf_puts(b, ")");
    free(e.f ? (void *)e.f : (void *)e.i);
    return DL_OK;
}

static void put_rows(dlsh_buf *b, const elements *e, int dim, long *at) {
    dlsh_buf_puts(b, "[");
    for (long i = 0; i < dl_shape(e->t)[dim]; i++) {
        if (i) dlsh_buf_puts(b, ",");
        if (dim == dl_ndim(e->t) - 1)
            put_element(b, e, (*at)++, 1);
        else
            put_rows(b, e, dim + 1, at);
    }
    dlsh_buf_puts(b, "]");
}

dl_status dlsh_tensor_json(dlsh_buf *b, dl_tensor *t) {
    elements e;
    long at = 0;
    DLSH_TRY(read_elements(&e, t));
    if (dl_ndim(t) == 0)
        put_element(b, &e, 0, 1);
    else {
        dlsh_buf_puts(b, "{\"shape\":[");
        for (int d = 0; d < dl_ndim(t); d++) dlsh_buf_printf(b, d ? ",%ld" : "%ld", dl_shape(t)[d]);
        dlsh_buf_printf(b, "],\"dtype\":\"%s\",\"device\":\"%s\",\"data\":", dl_dtype_name(dl_dtype_of(t)),
                        dl_device_name(dl_device_of(t)));
        put_rows(b, &e, 0, &at);
        dlsh_buf_puts(b, "}");
    }
    free(e.f ? (void *)e.f : (void *)e.i);
    return b->failed ? DL_ERR_MEMORY : DL_OK;
}
