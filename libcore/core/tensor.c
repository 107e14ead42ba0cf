/* Tensors as objects: making, counting references, reading elements. Arithmetic is in the op table. */
#include "core/tensor.h"
#include "autograd/cycles.h"
#include "autograd/nonfinite.h"
#include "autograd/tape.h"
#include "autograd/vmap.h"
#include "core/device/device.h"
#include "core/effects.h"
#include "core/mix.h"
#include "core/scope.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

dl_tensor *dl_view_new(dl_storage *st, dl_dtype dtype, int ndim, const long *shape, const long *stride,
                       int64_t offset) {
    int64_t numel;
    if (dl_shape_check(ndim, shape, &numel) != DL_OK) return NULL;
    dl_tensor *t = dl_host_alloc(sizeof *t);
    if (!t) return NULL;
    *t = (dl_tensor){.refs = 1, .ndim = (int8_t)ndim, .dtype = (int8_t)dtype, .offset = offset, .numel = numel};
    for (int i = 0; i < ndim; i++) {
        t->shape[i] = shape[i];
        t->stride[i] = stride[i];
    }
    t->st = dl_storage_ref(st);
    t->rebased = st->rebased;
    return t;
}

static dl_status check_dtype(dl_dtype dtype) {
    return (unsigned)dtype < DL_NDTYPE ? DL_OK : dl_fail(DL_ERR_DTYPE, "there is no dtype number %d", (int)dtype);
}

dl_tensor *dl_tensor_empty(int ndim, const long *shape, dl_dtype dtype, int device) {
    int64_t numel;
    long stride[DL_MAX_DIM];
    if (dl_shape_check(ndim, shape, &numel) != DL_OK) return NULL;
    if (check_dtype(dtype) != DL_OK) return NULL;
    dl_storage *st = dl_storage_new((size_t)(numel * dl_dtype_size(dtype)), device);
    if (!st) return NULL;
    dl_strides_contiguous(ndim, shape, stride);
    dl_tensor *t = dl_view_new(st, dtype, ndim, shape, stride, 0);
    dl_storage_unref(st);
    return t;
}

dl_tensor *dl_tensor_full(int ndim, const long *shape, dl_dtype dtype, int device, double value) {
    static const long none = 0;
    return dl_full(shape ? shape : &none, ndim, value, dtype, device);
}

dl_tensor *dl_tensor_zeros(int ndim, const long *shape, dl_dtype dtype, int device) {
    return dl_tensor_full(ndim, shape, dtype, device, 0);
}

dl_tensor *dl_tensor_from(int ndim, const long *shape, dl_dtype dtype, int device, const void *data) {
    DL_OWNED dl_tensor *t = dl_tensor_empty(ndim, shape, dtype, device);
    if (!t) return NULL;
    if (t->numel && !data) return dl_fail_null("the data of a tensor"), NULL;
    return dl_device_copy(dl_ptr(t), device, data, 0, t->st->bytes) == DL_OK ? dl_ref(t) : NULL;
}

static dl_tensor *scalar(dl_dtype dtype, double f, long i) {
    dl_tensor *t = dl_tensor_empty(0, NULL, dtype, 0);
    if (!t) return NULL;
    t->weak = true;
    if (dtype == DL_F64)
        dl_store_f64(dl_ptr(t), dtype, f);
    else
        dl_store_i64(dl_ptr(t), dtype, i);
    return t;
}

dl_tensor *dl_scalar_f(double value) { return scalar(DL_F64, value, 0); }
dl_tensor *dl_scalar_i(long value) { return scalar(DL_I64, 0, value); }
dl_tensor *dl_scalar_b(int value) { return scalar(DL_BOOL, 0, value != 0); }

dl_tensor *dl_scalar_c(double real, double imag) {
    const double parts[2] = {real, imag};
    dl_tensor *t = dl_tensor_from(0, NULL, DL_C128, 0, parts);
    if (t) t->weak = true;
    return t;
}

dl_tensor *dl_tensor_wrap(int ndim, const long *shape, dl_dtype dtype, void *data, void (*release)(void *), void *arg) {
    int64_t numel;
    long stride[DL_MAX_DIM];
    if (dl_shape_check(ndim, shape, &numel) != DL_OK || check_dtype(dtype) != DL_OK) return NULL;
    if (numel && !data) return dl_fail_null("the memory of a tensor"), NULL;
    dl_storage *st = dl_host_alloc(sizeof *st);
    if (!st) return NULL;
    *st = (dl_storage){.refs = 1,
                       .bytes = (size_t)(numel * dl_dtype_size(dtype)),
                       .data = data,
                       .wrapped = true,
                       .serial = dl_storage_serial(),
                       .writer = dl_source_get()};
    dl_strides_contiguous(ndim, shape, stride);
    dl_tensor *t = dl_view_new(st, dtype, ndim, shape, stride, 0);
    if (t) st->release = release, st->arg = arg; /* on failure the memory stays the caller's */
    dl_storage_unref(st);
    return t;
}

dl_tensor *dl_ref(dl_tensor *t) {
    if (t) __atomic_add_fetch(&t->refs, 1, __ATOMIC_RELAXED);
    return t;
}

void dl_unref(dl_tensor *t) {
    if (!t || __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL)) return;
    if (t->candidate) dl_cycle_remove(t);
    dl_node_unref(t->node);
    dl_unref(t->base);
    dl_unref(t->grad);
    dl_storage_unref(t->st);
    if (t->hooks) dl_hooks_free(&t->hooks);
    free(t->name);
    dl_host_free(t, sizeof *t);
}

int dl_ndim(const dl_tensor *t) { return t->ndim; }
const long *dl_shape(const dl_tensor *t) { return t->shape; }
const long *dl_stride(const dl_tensor *t) { return t->stride; }
long dl_numel(const dl_tensor *t) { return t->numel; }
dl_dtype dl_dtype_of(const dl_tensor *t) { return (dl_dtype)t->dtype; }
int dl_device_of(const dl_tensor *t) { return t->st->device; }
int dl_is_contiguous(const dl_tensor *t) { return dl_strides_are_contiguous(t->ndim, t->shape, t->stride); }
int dl_is_readonly(const dl_tensor *t) { return t->st->readonly; }
void *dl_data(const dl_tensor *t) {
    dl_vmap_read(t);
    return dl_ptr(t);
}
long dl_tensor_version(const dl_tensor *t) { return t->st->version; }
void dl_tensor_places(const dl_tensor *t, dl_source *maker, dl_source *writer) {
    *maker = t->st->maker, *writer = t->st->writer;
}
int dl_tensor_saved(const dl_tensor *t) { return __atomic_load_n(&t->st->saved, __ATOMIC_RELAXED); }
const char *dl_tensor_name(const dl_tensor *t) { return t->name ? t->name : ""; }

unsigned long dl_tensor_key(const dl_tensor *t) {
    uint64_t h = dl_mix((uint64_t)(uintptr_t)t->st->data + (uint64_t)t->offset,
                        (uint64_t)t->dtype << 8 | (uint64_t)t->ndim << 1 | t->requires_grad);
    for (int i = 0; i < t->ndim; i++) h = dl_mix(dl_mix(h, (uint64_t)t->shape[i]), (uint64_t)t->stride[i]);
    return t->st->device ? h : dl_mix(h, t->st->version);
}

void dl_touch(dl_tensor *t) {
    dl_effects_write(t->st);
    t->st->version++;
    t->st->writer = dl_source_get();
}

dl_status dl_tensor_set_name(dl_tensor *t, const char *name) {
    if (!t) return dl_fail_null("the tensor");
    char *copy = name && *name ? strdup(name) : NULL;
    if (name && *name && !copy) return dl_fail(DL_ERR_MEMORY, "no memory for the name of a tensor");
    free(t->name);
    t->name = copy;
    return DL_OK;
}

/* ---- elements */

/* The first element in host memory: `buf` holds it when it had to be fetched. */
static dl_status first_element(const dl_tensor *t, char *buf, const void **p) {
    if (!t) return dl_fail_null("the tensor");
    if (t->numel != 1)
        return dl_fail_hint(DL_ERR_SHAPE, "index it, or reduce it with sum() or mean()",
                            "a tensor of shape %s is not a single number", dl_shape_text(t->ndim, t->shape));
    dl_vmap_read(t);
    *p = dl_ptr(t);
    if (!t->st->device) return DL_OK;
    *p = buf;
    return dl_device_copy(buf, 0, dl_ptr(t), t->st->device, dl_esize(t));
}

dl_status dl_item_f(const dl_tensor *t, double *out) {
    char buf[16];
    const void *p;
    DL_TRY(first_element(t, buf, &p));
    *out = dl_load_f64(p, (dl_dtype)t->dtype);
    if (__builtin_expect(t->node && isnan(*out), 0)) dl_nonfinite_met(t);
    return DL_OK;
}

dl_status dl_item_i(const dl_tensor *t, long *out) {
    char buf[16];
    const void *p;
    DL_TRY(first_element(t, buf, &p));
    *out = dl_load_i64(p, (dl_dtype)t->dtype);
    return DL_OK;
}

dl_status dl_item_c(const dl_tensor *t, double out[2]) {
    char buf[16];
    const void *p;
    DL_TRY(first_element(t, buf, &p));
    const dl_dtype part = dl_dtype_of_parts((dl_dtype)t->dtype);
    out[0] = dl_load_f64(p, part);
    out[1] = (int)part == t->dtype ? 0 : dl_load_f64((const char *)p + dl_dtype_size(part), part);
    return DL_OK;
}

/* The tensor, or a contiguous copy of it in host memory; not recorded. */
static dl_tensor *host_contiguous(const dl_tensor *t) {
    dl_vmap_read(t);
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *c = dl_contiguous((dl_tensor *)t);
    return c ? dl_to_device(c, 0) : NULL;
}

dl_status dl_read(const dl_tensor *t, void *out) {
    DL_OWNED dl_tensor *h = host_contiguous(t);
    if (!h) return dl_failed();
    memcpy(out, dl_ptr(h), (size_t)h->numel * dl_esize(h));
    return DL_OK;
}

dl_status dl_read_f64(const dl_tensor *t, double *out) {
    DL_OWNED dl_tensor *h = host_contiguous(t);
    if (!h) return dl_failed();
    const char *p = dl_ptr(h);
    for (int64_t i = 0; i < h->numel; i++) out[i] = dl_load_f64(p + i * (int64_t)dl_esize(h), (dl_dtype)h->dtype);
    return DL_OK;
}

/* ---- copies */

dl_tensor *dl_to_dtype(dl_tensor *t, dl_dtype dtype) {
    if (!t) return dl_fail_null("the tensor"), NULL;
    return t->dtype == (int8_t)dtype ? dl_ref(t) : dl_to(t, dtype);
}

dl_tensor *dl_contiguous(dl_tensor *t) {
    if (!t) return dl_fail_null("the tensor"), NULL;
    if (dl_is_contiguous(t)) return dl_ref(t);
    long stride[DL_MAX_DIM];
    dl_strides_contiguous(t->ndim, t->shape, stride);
    return dl_restride(t, stride, t->ndim);
}

dl_tensor *dl_to_device(dl_tensor *t, int device) {
    if (!t) return dl_fail_null("the tensor"), NULL;
    if (t->st->device == device) return dl_ref(t);
    return dl_transfer(t, device);
}

/* ---- gradients */

int dl_requires_grad(const dl_tensor *t) {
    if (t->base && t->rebased != t->st->rebased) dl_history_renew((dl_tensor *)t);
    return t->node != NULL || t->requires_grad;
}

int dl_is_leaf(const dl_tensor *t) { return t->node == NULL; }

dl_status dl_set_requires_grad(dl_tensor *t, int on) {
    if (!t) return dl_fail_null("the tensor");
    if (on && !dl_dtype_is_smooth((dl_dtype)t->dtype))
        return dl_fail_hint(DL_ERR_DTYPE, "convert it first, with .to(f32)",
                            "a tensor of dtype %s cannot need a gradient", dl_dtype_name((dl_dtype)t->dtype));
    if (t->node)
        return dl_fail_hint(DL_ERR_AUTOGRAD, "use detach() to cut a tensor off from its history",
                            "only a leaf can be told whether it needs a gradient; this is the result of %s",
                            t->node->op->name);
    t->requires_grad = on;
    return DL_OK;
}

dl_tensor *dl_grad(const dl_tensor *t) { return t->grad || !t->node ? t->grad : *dl_retained_grad(t); }

dl_status dl_set_grad(dl_tensor *t, dl_tensor *g) {
    if (!t) return dl_fail_null("the tensor");
    if (g && !dl_shape_eq(t, g))
        return dl_fail(DL_ERR_SHAPE, "a gradient of shape %s does not fit a tensor of shape %s",
                       dl_shape_text(g->ndim, g->shape), dl_shape_text(t->ndim, t->shape));
    if (g && g->dtype != t->dtype)
        return dl_fail_hint(DL_ERR_DTYPE, "convert it: .to(DTYPE)", "a gradient of %s does not fit a tensor of %s",
                            dl_dtype_name((dl_dtype)g->dtype), dl_dtype_name((dl_dtype)t->dtype));
    if (g && g->st->device != t->st->device)
        return dl_fail_hint(DL_ERR_DEVICE, "move it: .to(DEVICE)",
                            "the gradient and the tensor are on different devices");
    dl_tensor *former = t->grad;
    t->grad = dl_ref(g);
    dl_unref(former);
    dl_cycle_check(t);
    return DL_OK;
}

dl_tensor *dl_detach(dl_tensor *t) {
    if (!t) return dl_fail_null("the tensor"), NULL;
    dl_tensor *d = dl_view_new(t->st, (dl_dtype)t->dtype, t->ndim, t->shape, t->stride, t->offset);
    if (d) d->weak = t->weak;
    return d;
}
