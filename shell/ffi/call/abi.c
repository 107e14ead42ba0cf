/* The libffi types of C types. */
#include <string.h>

#include "ffi/inside.h"

static ffi_type *element_types(dlsh_cspace *c, const dlsh_ctype *t, ffi_type **to, int *n, int max) {
    long times = 1;
    while (t->kind == DLSH_C_ARRAY) {
        times *= t->n;
        t = t->base;
    }
    ffi_type *one = dlsh_c_ffi_type(c, t);
    if (!one || times < 0 || *n + times > max) {
        if (one)
            dlsh_fail(DL_ERR_UNSUPPORTED, "pass a pointer to it",
                      "a struct of more than %d parts cannot be passed by value", max);
        return NULL;
    }
    while (times--) to[(*n)++] = one;
    return one;
}

/* Marks the eightbytes of a struct that hold anything but floating-point numbers, by which the ABI chooses registers. 0
 * when a field is not aligned: such a struct is passed in memory, which libffi cannot describe. */
static int mark_integers(const dlsh_ctype *t, size_t at, char *integers, size_t n) {
    t = t->plain;
    if (t->kind == DLSH_C_ARRAY) {
        for (long i = 0; i < t->n; i++)
            if (!mark_integers(t->base, at + (size_t)i * dlsh_c_size(t->base), integers, n)) return 0;
        return 1;
    }
    for (long i = 0; dlsh_c_is_struct(t) && i < t->n; i++) {
        const dlsh_cfield *f = &t->fields[i];
        for (int b = 0; b < f->bits; b += 8) integers[(at + f->offset + (size_t)(f->bit_at + b) / 8) / 8 % n] = 1;
        if (!f->bits && !mark_integers(f->type, at + f->offset, integers, n)) return 0;
    }
    if (dlsh_c_is_struct(t)) return 1;
    if (t->kind != DLSH_C_FLOAT && t->kind != DLSH_C_DOUBLE) integers[at / 8 % n] = 1;
    return t->align && at % t->align == 0;
}

/* The elements of unions, and of structs with bit-fields or attributes, for libffi: floating-point or integer as each
 * eightbyte is, in units of the alignment. */
static int parts_by_class(const dlsh_ctype *t, ffi_type **parts, int max) {
    char integers[64] = {0};
    size_t unit = t->align < 8 ? t->align : 8;
    int n = 0;
    if (!mark_integers(t, 0, integers, sizeof integers)) return 0;
    for (size_t at = 0; at < t->size && n < max; at += unit)
        parts[n++] = !integers[at / 8 % sizeof integers] && unit >= 4 ? unit == 8 ? &ffi_type_double : &ffi_type_float
                     : unit == 8                                      ? &ffi_type_uint64
                     : unit == 4                                      ? &ffi_type_uint32
                     : unit == 2                                      ? &ffi_type_uint16
                                                                      : &ffi_type_uint8;
    return n;
}

static int has_bits(const dlsh_ctype *t) {
    for (long i = 0; i < t->n; i++)
        if (t->fields[i].bits) return 1;
    return 0;
}

static ffi_type *struct_type(dlsh_cspace *c, dlsh_ctype *t) {
    enum { MAX_PARTS = 512 };
    ffi_type *parts[MAX_PARTS], *made;
    int n = 0;
    if (!t->laid_out || !t->size) {
        dlsh_c_no_layout(t);
        return NULL;
    }
    if (t->kind == DLSH_C_UNION || t->custom_layout || has_bits(t)) {
        if (!(n = parts_by_class(t, parts, MAX_PARTS))) {
            dlsh_fail(DL_ERR_UNSUPPORTED, "pass a pointer to it", "the packed %s cannot be passed by value",
                      dlsh_c_name(t));
            return NULL;
        }
    } else {
        for (long i = 0; i < t->n; i++)
            if (!element_types(c, t->fields[i].type->plain, parts, &n, MAX_PARTS)) return NULL;
    }
    made = dlsh_c_alloc(c, sizeof *made + ((size_t)n + 1) * sizeof *parts);
    if (!made) return NULL;
    *made = (ffi_type){.type = FFI_TYPE_STRUCT, .elements = (ffi_type **)(made + 1)};
    memcpy(made->elements, parts, (size_t)n * sizeof *parts);
    return made;
}

ffi_type *dlsh_c_ffi_type(dlsh_cspace *c, const dlsh_ctype *t) {
    static ffi_type *const scalars[] = {[DLSH_C_VOID] = &ffi_type_void,
#define KIND(id, name, type, ffi) [DLSH_C_##id] = &ffi_type_##ffi,
                                        DLSH_CSCALARS(KIND)
#undef KIND
    };
    dlsh_ctype *plain = (dlsh_ctype *)t->plain;
    if (plain->kind <= DLSH_C_LDOUBLE) return scalars[plain->kind];
    if (plain->kind == DLSH_C_ENUM) return scalars[plain->base->kind];
    if (plain->kind == DLSH_C_POINTER) return &ffi_type_pointer;
    if (dlsh_c_is_struct(plain)) return plain->ffi ? plain->ffi : (plain->ffi = struct_type(c, plain));
    dlsh_fail(DL_ERR_UNSUPPORTED, "pass a pointer to it", "values of type %s cannot be passed", dlsh_c_name(t));
    return NULL;
}
