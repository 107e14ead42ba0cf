/* NumPy's .npz files: named arrays, each a .npy file in a ZIP archive; what numpy.savez and savez_compressed write. */
#include "io/numpy/npz.h"
#include "core/scope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "io/format.h"
#include "io/numpy/npy.h"
#include "io/safetensors.h"
#include "io/torch.h"
#include "io/zip.h"

/* ---------------------------------------------------------------- reading */

/* A member is a stream, and the header's reader reads 12 bytes and then from byte 10 on: those that it reads twice. */
typedef struct begun {
    dl_zip_stream *s;
    uint8_t first[12];
    size_t have;
} begun;

static dl_status read_header_bytes(void *ctx, uint64_t at, void *to, size_t n) {
    begun *b = ctx;
    if (!at && n <= sizeof b->first) {
        DL_TRY(dl_zip_next(b->s, b->first, n));
        memcpy(to, b->first, n);
        b->have = n;
        return DL_OK;
    }
    size_t again = at < b->have ? b->have - (size_t)at : 0;
    if (again > n) again = n;
    memcpy(to, b->first + at, again);
    return dl_zip_next(b->s, (uint8_t *)to + again, n - again);
}

static dl_status next_bytes(void *ctx, void *to, size_t n) { return dl_zip_next(ctx, to, n); }

static dl_tensor *read_array(const dl_zip *z, const dl_zip_member *m, int device) {
    char name[256];
    snprintf(name, sizeof name, "%.150s: %.90s", z->in->name, m->name);
    begun b = {.s = dl_zip_begin(z, m)};
    if (!b.s) return NULL;
    dl_npy_header h;
    dl_tensor *t = NULL;
    long shape[DL_MAX_DIM];
    if (dl_npy_read_header(name, m->size, read_header_bytes, &b, &h) == DL_OK) {
        dl_npy_stored_shape(&h, shape);
        t = dl_element_tensor(h.element, h.ndim, shape, device, next_bytes, b.s);
    }
    if (!t) {
        dl_zip_drop(b.s);
        return NULL;
    }
    if (dl_zip_end(b.s) == DL_OK) return dl_npy_transpose(&h, t);
    dl_unref(t);
    return NULL;
}

static int is_array(const char *name, size_t *n) {
    size_t len = strlen(name);
    *n = len < 4 ? 0 : len - 4;
    return len > 4 && !strcmp(name + len - 4, ".npy");
}

static dl_status not_arrays(const dl_zip *z, const char *name) {
    if (dl_torch_pickle_of(z))
        return dl_fail_hint(DL_ERR_FORMAT, "give it a name that ends in .pt", "'%s' is an archive of PyTorch",
                            z->in->name);
    return dl_fail_hint(DL_ERR_FORMAT, "numpy.savez writes archives of arrays",
                        "%s: '%s' in this archive is not an array, whose name ends in .npy", z->in->name, name);
}

dl_tensor_file *dl_npz_from(const dl_input *in, int device) {
    dl_zip z;
    dl_tensor_file *f = NULL;
    dl_status st = dl_zip_open(&z, in);
    if (st == DL_OK && !(f = dl_tensor_file_new(z.n, dl_format_name(DL_FORMAT_NPZ)))) st = DL_ERR_MEMORY;
    for (long i = 0; st == DL_OK && i < z.n; i++) {
        size_t n;
        char *name = NULL;
        if (!is_array(z.members[i].name, &n))
            st = not_arrays(&z, z.members[i].name);
        else if (!(name = strndup(z.members[i].name, n)))
            st = dl_fail(DL_ERR_MEMORY, "no memory for the names in '%s'", in->name);
        else if (dl_tensor_file_find(f, name))
            st = dl_fail(DL_ERR_FORMAT, "%s: two arrays have the name '%s'", in->name, name);
        else {
            dl_tensor *t = read_array(&z, &z.members[i], device);
            st = t ? dl_tensor_file_add(f, name, t) : dl_tensor_file_leave_out(f, name);
        }
        free(name);
    }
    dl_zip_close(&z);
    if (st == DL_OK) return f;
    dl_tensor_file_free(f);
    return NULL;
}

/* ---------------------------------------------------------------- writing */

static dl_status add_array(dl_zip_writer *w, const char *name, dl_tensor *t) {
    char head[DL_NPY_HEAD], member[512];
    size_t len, bytes;
    if (snprintf(member, sizeof member, "%s.npy", name) >= (int)sizeof member)
        return dl_fail(DL_ERR_VALUE, "the name '%.60s...' is too long for .npz", name);
    DL_TRY(dl_npy_make_header(t, head, &len));
    DL_FREED void *copy = dl_element_copy(t, &bytes);
    if (!copy) return dl_failed();
    return dl_zip_add(w, member, (dl_zip_part[]){{head, len}, {copy, bytes}}, 2);
}

dl_status dl_npz_write(const char *path, long n, const char *const *names, dl_tensor *const *tensors) {
    dl_atomic a;
    DL_TRY(dl_atomic_open(&a, path));
    dl_zip_writer w = {.out = &a};
    dl_status st = DL_OK;
    for (long i = 0; st == DL_OK && i < n; i++) st = add_array(&w, names[i], tensors[i]);
    if (st == DL_OK) st = dl_zip_finish(&w);
    dl_zip_writer_free(&w);
    return dl_atomic_finish(&a, st);
}
