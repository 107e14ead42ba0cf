/* DLPack: sharing the memory of tensors with other array libraries, without a copy. */
#include "io/dlpack.h"
#include "core/device/device.h"
#include "core/tensor.h"

#include <stdlib.h>
#include <string.h>

/* ---- dtypes and devices */

static const dlpack_dtype dtypes[DL_NDTYPE] = {
    [DL_BOOL] = {DLPACK_BOOL, 8, 1},      [DL_U8] = {DLPACK_UINT, 8, 1},    [DL_I32] = {DLPACK_INT, 32, 1},
    [DL_I64] = {DLPACK_INT, 64, 1},       [DL_F16] = {DLPACK_FLOAT, 16, 1}, [DL_BF16] = {DLPACK_BFLOAT, 16, 1},
    [DL_F32] = {DLPACK_FLOAT, 32, 1},     [DL_F64] = {DLPACK_FLOAT, 64, 1}, [DL_C64] = {DLPACK_COMPLEX, 64, 1},
    [DL_C128] = {DLPACK_COMPLEX, 128, 1},
};

static dl_status dtype_of(dlpack_dtype d, dl_dtype *out) {
    for (int i = 0; i < DL_NDTYPE; i++)
        if (!memcmp(&dtypes[i], &d, sizeof d)) return *out = (dl_dtype)i, DL_OK;
    return dl_fail_hint(
        DL_ERR_DTYPE, "convert it first, to one of bool, uint8, int32, int64, float16, bfloat16, float32, float64",
        "DLPack type code %d with %d bits and %d lanes has no counterpart here", d.code, d.bits, d.lanes);
}

static dl_status device_of(dlpack_device d, int *out) {
    bool host = d.type == DLPACK_CPU || d.type == DLPACK_CUDA_HOST;
    if (!host && d.type != DLPACK_CUDA && d.type != DLPACK_CUDA_MANAGED)
        return dl_fail_hint(DL_ERR_DEVICE, "copy it to the CPU first", "DLPack device type %d has no counterpart here",
                            d.type);
    *out = host ? 0 : 1 + d.id;
    return dl_device_check(*out);
}

/* ---- out */

/* What a consumer holds: the structure it reads, and a reference to the tensor. */
typedef struct exported {
    union {
        DLManagedTensor plain;
        DLManagedTensorVersioned versioned;
    } form;
    dl_tensor *t;
    int64_t shape[DL_MAX_DIM], stride[DL_MAX_DIM];
} exported;

static void end(exported *x) {
    dl_unref(x->t);
    free(x);
}

static void end_plain(DLManagedTensor *self) { end(self->manager_ctx); }
static void end_versioned(DLManagedTensorVersioned *self) { end(self->manager_ctx); }

static exported *export(dl_tensor *t, dlpack_tensor *out) {
    if (!t) return dl_fail_null("the tensor"), NULL;
    if (dl_requires_grad(t)) {
        dl_fail_hint(
            DL_ERR_AUTOGRAD, "export dl_detach() of it",
            "a tensor that needs a gradient cannot be exported through DLPack: writes to it would not be seen");
        return NULL;
    }
    if (t->st->device && dl_device_synchronize(t->st->device) != DL_OK) return NULL;
    exported *l = calloc(1, sizeof *l);
    if (!l) return dl_fail(DL_ERR_MEMORY, "no memory for a DLPack structure"), NULL;
    l->t = dl_ref(t);
    for (int i = 0; i < t->ndim; i++) l->shape[i] = t->shape[i], l->stride[i] = t->stride[i];
    int device = t->st->device;
    *out = (dlpack_tensor){.data = t->st->data,
                           .device = {device ? DLPACK_CUDA : DLPACK_CPU, device ? device - 1 : 0},
                           .ndim = t->ndim,
                           .dtype = dtypes[t->dtype],
                           .shape = l->shape,
                           .strides = l->stride,
                           .byte_offset = (uint64_t)t->offset * dl_esize(t)};
    return l;
}

DLManagedTensor *dl_to_dlpack(dl_tensor *t) {
    dlpack_tensor d;
    if (t && t->st->readonly) {
        dl_fail_hint(DL_ERR_STATE, "use dl_to_dlpack_versioned, or export a clone",
                     "memory that may only be read cannot be exported through DLPack's old structure");
        return NULL;
    }
    exported *l = export(t, &d);
    if (!l) return NULL;
    l->form.plain = (DLManagedTensor){d, l, end_plain};
    return &l->form.plain;
}

DLManagedTensorVersioned *dl_to_dlpack_versioned(dl_tensor *t, int readonly) {
    dlpack_tensor d;
    exported *l = export(t, &d);
    if (!l) return NULL;
    uint64_t flags = readonly || t->st->readonly ? DLPACK_READ_ONLY : 0;
    l->form.versioned = (DLManagedTensorVersioned){DLPACK_MAJOR, DLPACK_MINOR, l, end_versioned, flags, d};
    return &l->form.versioned;
}

/* ---- in */

/* Called with the last reference to the storage: tells the owner that its memory is no longer used. */
static void wait_for_use(const dlpack_tensor *d) {
    if (d->device.type != DLPACK_CPU) dl_device_synchronize(1 + d->device.id);
}

static void return_plain(void *arg) {
    DLManagedTensor *m = arg;
    wait_for_use(&m->dl_tensor);
    if (m->deleter) m->deleter(m);
}

static void return_versioned(void *arg) {
    DLManagedTensorVersioned *m = arg;
    wait_for_use(&m->dl_tensor);
    if (m->deleter) m->deleter(m);
}

/* Checks shape and strides, and finds how many elements from the first to the last one there are. */
static dl_status read_layout(const dlpack_tensor *d, long *shape, long *stride, int64_t *span) {
    int64_t numel;
    if (d->ndim < 0 || d->ndim > DL_MAX_DIM)
        return dl_fail(DL_ERR_SHAPE, "a tensor has at most %d dimensions, not %d", DL_MAX_DIM, d->ndim);
    for (int i = 0; i < d->ndim; i++) shape[i] = d->shape[i];
    DL_TRY(dl_shape_check(d->ndim, shape, &numel));
    dl_strides_contiguous(d->ndim, shape, stride);
    for (int i = 0; d->strides && i < d->ndim; i++) stride[i] = d->strides[i];
    *span = numel > 0;
    for (int i = 0; numel && i < d->ndim; i++) {
        int64_t reach;
        if (stride[i] < 0 && shape[i] > 1)
            return dl_fail_hint(DL_ERR_SHAPE, "copy it first", "stride %ld of dimension %d is negative", stride[i], i);
        if (stride[i] < 0) stride[i] = 1;
        if (__builtin_mul_overflow(shape[i] - 1, stride[i], &reach) || __builtin_add_overflow(*span, reach, span) ||
            *span > INT64_MAX / 8)
            return dl_fail(DL_ERR_SHAPE, "stride %ld of dimension %d leads out of any memory", stride[i], i);
    }
    return DL_OK;
}

/* A tensor over d's memory. `release` is called with `arg` at its end, if this succeeds. */
static dl_tensor *import(const dlpack_tensor *d, bool readonly, void (*release)(void *), void *arg) {
    static double nothing; /* stands for the memory of a tensor without elements */
    dl_dtype dtype = DL_F32;
    int device = 0;
    long shape[DL_MAX_DIM], stride[DL_MAX_DIM];
    int64_t span = 0;
    if (dtype_of(d->dtype, &dtype) != DL_OK || device_of(d->device, &device) != DL_OK ||
        read_layout(d, shape, stride, &span) != DL_OK)
        return NULL;
    char *data = d->data ? (char *)d->data + d->byte_offset : span ? NULL : (char *)&nothing;
    size_t size = (size_t)dl_dtype_size(dtype);
    if (!data || (uintptr_t)data % size) {
        dl_fail_hint(DL_ERR_VALUE, "copy it first", "its memory at %p is not aligned for elements of %zu bytes",
                     (void *)data, size);
        return NULL;
    }
    if (device && dl_device_synchronize(device) != DL_OK) return NULL;
    dl_storage *st = dl_host_alloc(sizeof *st);
    if (!st) return NULL;
    *st = (dl_storage){.refs = 1,
                       .device = device,
                       .bytes = (size_t)span * size,
                       .data = data,
                       .wrapped = true,
                       .readonly = readonly,
                       .serial = dl_storage_serial(),
                       .writer = dl_source_get()};
    dl_tensor *t = dl_view_new(st, dtype, d->ndim, shape, stride, 0);
    if (t) st->release = release, st->arg = arg;
    dl_storage_unref(st);
    return t;
}

dl_tensor *dl_from_dlpack(DLManagedTensor *m) {
    if (!m) return dl_fail_null("the DLPack structure"), NULL;
    return import(&m->dl_tensor, false, return_plain, m);
}

dl_tensor *dl_from_dlpack_versioned(DLManagedTensorVersioned *m) {
    if (!m) return dl_fail_null("the DLPack structure"), NULL;
    if (m->major != DLPACK_MAJOR) {
        dl_fail(DL_ERR_UNSUPPORTED, "DLPack version %u.%u is not understood; this library knows %d.%d", m->major,
                m->minor, DLPACK_MAJOR, DLPACK_MINOR);
        return NULL;
    }
    return import(&m->dl_tensor, m->flags & DLPACK_READ_ONLY, return_versioned, m);
}
