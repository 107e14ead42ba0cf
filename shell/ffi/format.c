/* Arguments after the `...`: C's promotions, and the types that formats of printf and scanf ask for. */
#include <limits.h>
#include <string.h>

#include "ffi/inside.h"

const dlsh_ctype *dlsh_c_promoted(dlsh_cspace *c, dlsh_value v, const char *what) {
    const dlsh_cpointer *p = dlsh_unwrap(v, &dlsh_cpointer_class);
    const dlsh_cstruct *x = dlsh_unwrap(v, &dlsh_cstruct_class);
    if (p) return p->type;
    if (x) return x->type;
    unsigned long u;
    if (dlsh_c_unsigned_of(v, &u)) return dlsh_c_basic(DLSH_C_ULONG);
    if (dlsh_cfunc_of(v)) return dlsh_c_pointer(c, dlsh_cfunc_of(v)->proto->type);
    switch (v.type) {
    case DLSH_BOOL: return dlsh_c_basic(DLSH_C_INT);
    case DLSH_INT: return dlsh_c_basic(v.as.i >= INT_MIN && v.as.i <= INT_MAX ? DLSH_C_INT : DLSH_C_LONG);
    case DLSH_FLOAT: return dlsh_c_basic(DLSH_C_DOUBLE);
    case DLSH_STR: return dlsh_c_pointer(c, dlsh_c_const(c, dlsh_c_basic(DLSH_C_CHAR)));
    case DLSH_TENSOR: return dlsh_c_pointer(c, dlsh_c_basic(DLSH_C_VOID));
    default:
        dlsh_fail(DL_ERR_TYPE, v.type == DLSH_NONE ? "C's null pointer is written NULL" : NULL,
                  "%s: %s cannot be passed to C where no type is declared", what, dlsh_a(v));
        return NULL;
    }
}

/* ---------------------------------------------------------------- formats */

typedef struct conversion {
    char letter;
    int size; /* -2 hh, -1 h, 0, 1 l, 2 ll j z t, 3 L */
    int stars, suppressed;
} conversion;

/* After the %; the position behind the conversion. */
static const char *read_conversion(const char *s, int scanf, conversion *c) {
    *c = (conversion){0};
    if (scanf && *s == '*') {
        c->suppressed = 1;
        s++;
    }
    while (!scanf && *s && strchr("-+ #0'I", *s)) s++;
    for (int part = 0; part < 2; part++) {
        if (!scanf && *s == '*') {
            c->stars++;
            s++;
        }
        while (*s >= '0' && *s <= '9') s++;
        if (part || scanf || *s != '.') break;
        s++;
    }
    for (; *s && strchr("hlLqjzt", *s); s++)
        c->size = *s == 'h' ? c->size - 1 : *s == 'L' ? 3 : *s == 'l' ? c->size + 1 : 2;
    c->letter = *s;
    if (scanf && *s == '[') {
        s++;
        if (*s == '^') s++;
        if (*s == ']') s++;
        while (*s && *s != ']') s++;
    }
    return *s ? s + 1 : s;
}

static const dlsh_ctype *integer_of(int size, int is_unsigned) {
    static const dlsh_ckind kinds[] = {DLSH_C_SCHAR, DLSH_C_SHORT, DLSH_C_INT, DLSH_C_LONG, DLSH_C_LONG};
    int i = size < -2 ? 0 : size > 2 ? 4 : size + 2;
    return dlsh_c_basic(kinds[i] + (is_unsigned ? 1 : 0));
}

/* What printf reads for it; NULL: no such conversion. */
static const dlsh_ctype *printf_type(dlsh_cspace *c, const conversion *v) {
    switch (v->letter) {
    case 'd':
    case 'i': return integer_of(v->size < 0 ? 0 : v->size, 0);
    case 'u':
    case 'o':
    case 'x':
    case 'X': return integer_of(v->size < 0 ? 0 : v->size, 1);
    case 'c': return dlsh_c_basic(v->size ? DLSH_C_INT : DLSH_C_CHAR);
    case 's': return v->size ? NULL : dlsh_c_pointer(c, dlsh_c_const(c, dlsh_c_basic(DLSH_C_CHAR)));
    case 'p': return dlsh_c_pointer(c, dlsh_c_const(c, dlsh_c_basic(DLSH_C_VOID)));
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case 'a':
    case 'A': return dlsh_c_basic(v->size == 3 ? DLSH_C_LDOUBLE : DLSH_C_DOUBLE);
    default: return NULL;
    }
}

static const dlsh_ctype *scanf_type(dlsh_cspace *c, const conversion *v) {
    switch (v->letter) {
    case 'd':
    case 'i':
    case 'n': return dlsh_c_pointer(c, integer_of(v->size, 0));
    case 'u':
    case 'o':
    case 'x':
    case 'X': return dlsh_c_pointer(c, integer_of(v->size, 1));
    case 'c':
    case 's':
    case '[': return v->size ? NULL : dlsh_c_pointer(c, dlsh_c_basic(DLSH_C_CHAR));
    case 'p': return dlsh_c_pointer(c, dlsh_c_pointer(c, dlsh_c_basic(DLSH_C_VOID)));
    case 'e':
    case 'f':
    case 'g':
    case 'a':
        return dlsh_c_pointer(c, dlsh_c_basic(v->size == 3 ? DLSH_C_LDOUBLE : v->size ? DLSH_C_DOUBLE : DLSH_C_FLOAT));
    default: return NULL;
    }
}

int dlsh_c_format_types(dlsh_cspace *c, const char *format, int scanf, const dlsh_ctype **types, int max) {
    int n = 0;
    for (const char *s = format; *s;) {
        conversion v;
        if (*s++ != '%') continue;
        if (*s == '%') {
            s++;
            continue;
        }
        const char *from = s - 1;
        s = read_conversion(s, scanf, &v);
        const dlsh_ctype *t = v.letter ? (scanf ? scanf_type : printf_type)(c, &v) : NULL;
        if (!t) {
            dlsh_fail(DL_ERR_VALUE, v.letter == 'n' ? "%n would write to memory" : NULL,
                      "the format has no valid conversion in '%.*s'", (int)(s - from), from);
            return -1;
        }
        for (int i = 0; i < v.stars && n < max; i++) types[n++] = dlsh_c_basic(DLSH_C_INT);
        if (!v.suppressed && n < max) types[n++] = t;
    }
    return n;
}
