/* Elements of files as elements of tensors: widened, and their bytes put in this machine's order. */
#include "io/element.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"

static const struct {
    dl_element_kind kind;
    int size;
    dl_dtype dtype;
} types[] = {
    {DL_E_BOOL, 1, DL_BOOL},   {DL_E_UINT, 1, DL_U8},   {DL_E_UINT, 2, DL_I32},  {DL_E_UINT, 4, DL_I64},
    {DL_E_UINT, 8, DL_I64},    {DL_E_INT, 1, DL_I32},   {DL_E_INT, 2, DL_I32},   {DL_E_INT, 4, DL_I32},
    {DL_E_INT, 8, DL_I64},     {DL_E_FLOAT, 2, DL_F16}, {DL_E_FLOAT, 4, DL_F32}, {DL_E_FLOAT, 8, DL_F64},
    {DL_E_BFLOAT, 2, DL_BF16}, {DL_E_E4M3, 1, DL_F32},  {DL_E_E5M2, 1, DL_F16},
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

dl_tensor *dl_element_tensor(dl_element e, int ndim, const long *shape, int device, const void *data) {
    int dtype = dl_element_dtype(e);
    int64_t n;
    if (dtype < 0) return dl_fail(DL_ERR_DTYPE, "elements of %d bytes have no counterpart", e.size), NULL;
    int size = dl_dtype_size((dl_dtype)dtype);
    if (size == e.size && !e.big && !(e.kind == DL_E_UINT && size == 8))
        return dl_tensor_from(ndim, shape, (dl_dtype)dtype, device, data);
    if (dl_shape_check(ndim, shape, &n) != DL_OK) return NULL;
    unsigned char *out = malloc((size_t)n * (size_t)size + 1);
    if (!out) return dl_fail(DL_ERR_MEMORY, "no memory to convert %lld elements", (long long)n), NULL;
    dl_tensor *t = NULL;
    for (int64_t i = 0; i < n; i++) {
        uint64_t x = converted(e, bits_of(e, (const unsigned char *)data + i * e.size));
        if (e.kind == DL_E_UINT && e.size == 8 && x >> 63) {
            dl_fail_hint(DL_ERR_DTYPE, "i64 is the widest integer dtype", "the number %llu is above those of i64",
                         (unsigned long long)x);
            goto done;
        }
        memcpy(out + i * size, &x, (size_t)size);
    }
    t = dl_tensor_from(ndim, shape, (dl_dtype)dtype, device, out);
done:
    free(out);
    return t;
}
