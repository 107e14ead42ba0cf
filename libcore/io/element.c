/* Elements of files as elements of tensors: widened, and their bytes put in this machine's order. */
#include "io/element.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/tensor.h"

static const struct {
    dl_element_kind kind;
    int size;
    dl_dtype dtype;
} types[] = {
    {DL_E_BOOL, 1, DL_BOOL},     {DL_E_UINT, 1, DL_U8},   {DL_E_UINT, 2, DL_I32},  {DL_E_UINT, 4, DL_I64},
    {DL_E_UINT, 8, DL_I64},      {DL_E_INT, 1, DL_I32},   {DL_E_INT, 2, DL_I32},   {DL_E_INT, 4, DL_I32},
    {DL_E_INT, 8, DL_I64},       {DL_E_FLOAT, 2, DL_F16}, {DL_E_FLOAT, 4, DL_F32}, {DL_E_FLOAT, 8, DL_F64},
    {DL_E_BFLOAT, 2, DL_BF16},   {DL_E_E4M3, 1, DL_F32},  {DL_E_E5M2, 1, DL_F16},  {DL_E_COMPLEX, 8, DL_C64},
    {DL_E_COMPLEX, 16, DL_C128},
};

int dl_element_dtype(dl_element e) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].kind == e.kind && types[i].size == e.size) return (int)types[i].dtype;
    return -1;
}

static uint64_t bits_of(dl_element e, const unsigned char *p) {
    uint64_t x = 0;
    for (int i = 0; i < e.size; i++) x |= (uint64_t)p[e.big ? e.size - 1 - i : i] << 8 * i;
    return x;
}

/* Sign, 4 bits of exponent with bias 7, 3 of mantissa. */
static uint64_t from_e4m3(uint64_t x) {
    int exponent = (int)(x >> 3 & 15), mantissa = (int)(x & 7);
    float v = exponent == 15 && mantissa == 7 ? NAN
              : exponent                      ? ldexpf((float)(8 + mantissa), exponent - 10)
                                              : ldexpf((float)mantissa, -9);
    uint32_t out;
    v = x >> 7 ? -v : v;
    memcpy(&out, &v, sizeof out);
    return out;
}

static uint64_t converted(dl_element e, uint64_t x) {
    int unused = 64 - 8 * e.size;
    switch (e.kind) {
    case DL_E_BOOL: return x != 0;
    case DL_E_INT: return (uint64_t)((int64_t)(x << unused) >> unused);
    case DL_E_E4M3: return from_e4m3(x);
    case DL_E_E5M2: return x << 8;
    default: return x;
    }
}

/* Whether elements of the file are those of tensors, byte for byte. */
static bool as_they_are(dl_element e, int size) {
    return size == e.size && !e.big && !(e.kind == DL_E_UINT && size == 8);
}

void *dl_element_copy(dl_tensor *t, size_t *bytes) {
    *bytes = (size_t)dl_numel(t) * dl_esize(t);
    void *copy = dl_memory_alloc((long)*bytes, 1);
    if (!copy || dl_read(t, copy) == DL_OK) return copy;
    free(copy);
    return NULL;
}

enum { CHUNK = 1 << 13 }; /* elements converted at once */

static dl_status convert(dl_element e, int size, const unsigned char *in, long n, unsigned char *out) {
    for (long i = 0; i < n; i++) {
        uint64_t x = converted(e, bits_of(e, in + i * e.size));
        if (e.kind == DL_E_UINT && e.size == 8 && x >> 63)
            return dl_fail_hint(DL_ERR_DTYPE, "i64 is the widest integer dtype",
                                "the number %llu is above those of i64", (unsigned long long)x);
        memcpy(out + i * size, &x, (size_t)size);
    }
    return DL_OK;
}

static dl_status read_converted(dl_element e, dl_tensor *t, dl_element_reader *next, void *ctx) {
    unsigned char *in = malloc((size_t)CHUNK * (size_t)e.size), *out = dl_ptr(t);
    if (!in) return dl_fail(DL_ERR_MEMORY, "no memory to convert elements");
    const int parts = e.kind == DL_E_COMPLEX ? 2 : 1, size = (int)dl_dtype_size(t->dtype) / parts;
    dl_status st = DL_OK;
    e.size /= parts;
    for (long left = parts * t->numel, n; left && st == DL_OK; left -= n) {
        n = left < CHUNK ? left : CHUNK;
        st = next(ctx, in, (size_t)n * (size_t)e.size);
        if (st == DL_OK) st = convert(e, size, in, n, out);
        out += n * size;
    }
    free(in);
    return st;
}

dl_tensor *dl_element_tensor(dl_element e, int ndim, const long *shape, int device, dl_element_reader *next,
                             void *ctx) {
    int dtype = dl_element_dtype(e);
    if (dtype < 0) return dl_fail(DL_ERR_DTYPE, "elements of %d bytes have no counterpart", e.size), NULL;
    dl_tensor *t = dl_tensor_empty(ndim, shape, (dl_dtype)dtype, 0), *there = NULL;
    if (!t) return NULL;
    size_t bytes = (size_t)t->numel * (size_t)dl_dtype_size((dl_dtype)dtype);
    dl_status st =
        as_they_are(e, dl_dtype_size((dl_dtype)dtype)) ? next(ctx, dl_ptr(t), bytes) : read_converted(e, t, next, ctx);
    if (st == DL_OK && !device) return t;
    if (st == DL_OK) there = dl_tensor_from(ndim, shape, (dl_dtype)dtype, device, dl_ptr(t));
    dl_unref(t);
    return there;
}
