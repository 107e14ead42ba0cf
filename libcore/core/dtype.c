/* Element types: names, sizes, promotion, conversion of single elements. */
#include "core/dtype.h"
#include "core/error.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int size, kind, rank;
} rows[] = {
#define DTYPE(id, name, ctype, size, kind, rank) [DL_##id] = {name, size, kind, rank},
#include "core/dtypes.def"
#undef DTYPE
};

/* PyTorch's names for the same types. */
static const struct {
    const char *name;
    dl_dtype type;
} aliases[] = {
    {"float", DL_F32},       {"float32", DL_F32},   {"double", DL_F64}, {"float64", DL_F64},   {"half", DL_F16},
    {"float16", DL_F16},     {"bfloat16", DL_BF16}, {"int", DL_I32},    {"int32", DL_I32},     {"long", DL_I64},
    {"int64", DL_I64},       {"uint8", DL_U8},      {"byte", DL_U8},    {"complex64", DL_C64}, {"cfloat", DL_C64},
    {"complex128", DL_C128}, {"cdouble", DL_C128},
};

long dl_dtype_size(dl_dtype t) { return rows[t].size; }

const char *dl_dtype_name(dl_dtype t) { return (unsigned)t < DL_NDTYPE ? rows[t].name : "?"; }

int dl_dtype_kind(dl_dtype t) { return rows[t].kind; }

int dl_dtype_is_float(dl_dtype t) { return rows[t].kind == 2; }

int dl_dtype_is_complex(dl_dtype t) { return rows[t].kind == 3; }

bool dl_dtype_is_smooth(dl_dtype t) { return rows[t].kind >= 2; }

dl_dtype dl_dtype_of_parts(dl_dtype t) { return t == DL_C64 ? DL_F32 : t == DL_C128 ? DL_F64 : t; }

dl_dtype dl_dtype_to_complex(dl_dtype t) { return t == DL_F64 || t == DL_C128 ? DL_C128 : DL_C64; }

const char *dl_dtype_set_text(unsigned set, char *buf, int size) {
    int n = 0;
    buf[0] = 0;
    for (int t = 0; t < DL_NDTYPE; t++)
        if (set & DL_BIT(t) && n < size)
            n += snprintf(buf + n, (size_t)(size - n), "%s%s", n ? ", " : "", rows[t].name);
    return buf;
}

dl_status dl_dtype_parse(const char *name, dl_dtype *out) {
    if (!name) return dl_fail_null("the name of a dtype");
    for (int t = 0; t < DL_NDTYPE; t++)
        if (!strcmp(rows[t].name, name)) return *out = (dl_dtype)t, DL_OK;
    for (unsigned i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (!strcmp(aliases[i].name, name)) return *out = aliases[i].type, DL_OK;
    char all[128];
    return dl_fail_hint(DL_ERR_DTYPE, "", "no dtype is called '%s'; there are %s", name,
                        dl_dtype_set_text(~0u, all, sizeof all));
}

dl_dtype dl_dtype_promote(dl_dtype a, dl_dtype b) {
    if (a == b) return a;
    if (a == DL_F64 && b == DL_C64) return DL_C128; /* neither holds the other */
    if (b == DL_F64 && a == DL_C64) return DL_C128;
    if (rows[a].kind != rows[b].kind) return rows[a].kind > rows[b].kind ? a : b;
    if (rows[a].rank == rows[b].rank) return DL_F32; /* f16 with bf16: neither holds the other */
    return rows[a].rank > rows[b].rank ? a : b;
}

static float bits_to_float(unsigned u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static unsigned float_to_bits(float f) {
    unsigned u;
    memcpy(&u, &f, 4);
    return u;
}

float dl_f16_to_f32(unsigned short h) {
    unsigned sign = (unsigned)(h & 0x8000) << 16, exp = (h >> 10) & 31, man = h & 0x3ff;
    if (exp == 31) return bits_to_float(sign | 0x7f800000u | man << 13);
    if (exp) return bits_to_float(sign | (exp + 112) << 23 | man << 13);
    float v = ldexpf((float)man, -24);
    return sign ? -v : v;
}

unsigned short dl_f32_to_f16(float f) {
    unsigned u = float_to_bits(f), sign = (u >> 16) & 0x8000, mag = u & 0x7fffffff;
    if (mag > 0x7f800000) return (unsigned short)(sign | 0x7e00);
    if (mag >= 0x47800000) return (unsigned short)(sign | 0x7c00); /* at least 2^16 */
    if (mag < 0x38800000) /* subnormal: multiples of 2^-24, rounded to even by nearbyint */
        return (unsigned short)(sign | (unsigned)nearbyintf(ldexpf(bits_to_float(mag), 24)));
    unsigned round = mag + 0xfff + ((mag >> 13) & 1);
    return (unsigned short)(sign | ((round - 0x38000000) >> 13));
}

static float bf16_to_f32(unsigned short h) { return bits_to_float((unsigned)h << 16); }

static unsigned short f32_to_bf16(float f) {
    unsigned u = float_to_bits(f);
    if ((u & 0x7fffffff) > 0x7f800000) return (unsigned short)(u >> 16 | 0x40);
    return (unsigned short)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

double dl_load_f64(const void *p, dl_dtype t) {
    switch (t) {
    case DL_BOOL: return *(const unsigned char *)p != 0;
    case DL_U8: return *(const unsigned char *)p;
    case DL_I32: return *(const int *)p;
    case DL_I64: return (double)*(const long *)p;
    case DL_F16: return dl_f16_to_f32(*(const unsigned short *)p);
    case DL_BF16: return bf16_to_f32(*(const unsigned short *)p);
    case DL_F32:
    case DL_C64: return *(const float *)p;
    case DL_F64:
    case DL_C128: return *(const double *)p;
    }
    return 0;
}

/* Out of range saturates and NaN becomes 0, so that the result never depends on the compiler. */
static long to_long(double v) {
    if (!(v == v)) return 0;
    if (v >= 9223372036854775807.0) return 9223372036854775807L;
    if (v <= -9223372036854775808.0) return -9223372036854775807L - 1;
    return (long)v;
}

long dl_load_i64(const void *p, dl_dtype t) { return t == DL_I64 ? *(const long *)p : to_long(dl_load_f64(p, t)); }

void dl_store_f64(void *p, dl_dtype t, double v) {
    if (dl_dtype_is_complex(t)) memset(p, 0, (size_t)dl_dtype_size(t));
    switch (t) {
    case DL_BOOL: *(unsigned char *)p = v != 0; break;
    case DL_U8: *(unsigned char *)p = (unsigned char)to_long(v); break;
    case DL_I32: *(int *)p = (int)to_long(v); break;
    case DL_I64: *(long *)p = to_long(v); break;
    case DL_F16: *(unsigned short *)p = dl_f32_to_f16((float)v); break;
    case DL_BF16: *(unsigned short *)p = f32_to_bf16((float)v); break;
    case DL_F32:
    case DL_C64: *(float *)p = (float)v; break;
    case DL_F64:
    case DL_C128: *(double *)p = v; break;
    }
}

void dl_store_i64(void *p, dl_dtype t, long v) {
    switch (t) {
    case DL_U8: *(unsigned char *)p = (unsigned char)v; break;
    case DL_I32: *(int *)p = (int)v; break;
    case DL_I64: *(long *)p = v; break;
    default: dl_store_f64(p, t, (double)v); break;
    }
}
