/* IDX files: two zero bytes, a type, a number of dimensions, big-endian sizes, big-endian elements. */
#include "data/pictures/idx.h"

#include <string.h>

#include "core/tensor.h"
#include "io/input.h"

static const struct {
    uint8_t type, size;
} types[] = {{0x08, 1}, {0x09, 1}, {0x0B, 2}, {0x0C, 4}, {0x0D, 4}, {0x0E, 8}};

static int type_size(uint8_t type) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type) return types[i].size;
    return 0;
}

static dl_status bad_magic(const char *name, const uint8_t *p, size_t n) {
    if (n < 4)
        return dl_fail(DL_ERR_FORMAT, "'%s' is not an IDX file: it has %zu bytes, and the header alone takes 4", name,
                       n);
    return dl_fail_hint(
        DL_ERR_FORMAT,
        p[0] == 0x1f && p[1] == 0x8b ? "it is compressed twice" : "an IDX file, or one in gzip, is wanted",
        "'%s' is not an IDX file: it begins with %02x %02x %02x %02x, not with 00 00, a type (08 09 0b 0c 0d "
        "0e) and 1 to 8 dimensions",
        name, p[0], p[1], p[2], p[3]);
}

dl_status dl_idx_header(const char *name, const uint8_t *p, size_t n, dl_idx *out, size_t *size) {
    memset(out, 0, sizeof *out);
    if (n < 4 || p[0] || p[1] || !type_size(p[2]) || p[3] < 1 || p[3] > 8) return bad_magic(name, p, n);
    out->type = p[2], out->ndim = p[3];
    size_t head = 4 + 4 * (size_t)out->ndim, bytes;
    if (n < head) return dl_fail(DL_ERR_FORMAT, "'%s' ends inside its header: %zu bytes of %zu", name, n, head);
    int64_t numel = 1;
    for (int i = 0; i < out->ndim; i++) {
        out->shape[i] = (long)dl_big_endian(p + 4 + 4 * i, 4);
        if (!dl_count_mul(&numel, out->shape[i]))
            return dl_fail(DL_ERR_FORMAT, "'%s' claims more elements than a file can hold", name);
    }
    out->numel = numel;
    if (__builtin_mul_overflow((size_t)out->numel, (size_t)type_size(out->type), &bytes) ||
        __builtin_add_overflow(bytes, head, size))
        return dl_fail(DL_ERR_FORMAT, "'%s' claims more elements than a file can hold", name);
    return DL_OK;
}

dl_status dl_idx_parse(const char *name, const uint8_t *p, size_t n, dl_idx *out) {
    size_t size, head;
    DL_TRY(dl_idx_header(name, p, n, out, &size));
    head = 4 + 4 * (size_t)out->ndim;
    if (n != size)
        return dl_fail_hint(DL_ERR_FORMAT, "the file is damaged or was not copied whole; fetch it again",
                            "'%s' claims the shape %s, which takes %zu bytes after the header, and has %zu", name,
                            dl_shape_text(out->ndim, out->shape), size - head, n - head);
    out->data = p + head;
    return DL_OK;
}

double dl_idx_get(const dl_idx *x, long i) {
    int size = type_size(x->type);
    uint64_t v = dl_big_endian(x->data + i * size, size);
    uint32_t v32 = (uint32_t)v;
    float f;
    double d;
    switch (x->type) {
    case 0x08: return (double)v;
    case 0x09: return (int8_t)v;
    case 0x0B: return (int16_t)v;
    case 0x0C: return (int32_t)v;
    case 0x0D: memcpy(&f, &v32, sizeof f); return f;
    default: memcpy(&d, &v, sizeof d); return d;
    }
}
