/* Arguments after the `...`: C's promotions, and the types that formats of printf and scanf ask for. */
#include <limits.h>
#include <stdlib.h>
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

typedef struct conversion {
    char letter;
    int size;            /* -2 hh, -1 h, 0, 1 l, 2 ll j z t, 3 L */
    int position;        /* %2$d: 2; 0: the next argument */
    int nstars, star[2]; /* * and *2$: positions, 0 for the next argument */
    int suppressed, allocates;
    long width; /* 0: none */
} conversion;

/* Reads "12$": 12. Returns 0, with *s unchanged, when there is none. */
static int read_position(const char **s) {
    char *end;
    long n = **s >= '1' && **s <= '9' ? strtol(*s, &end, 10) : 0;
    if (!n || *end != '$' || n > DLSH_C_MAX_ARGS) return 0;
    *s = end + 1;
    return (int)n;
}

/* Width and precision: digits, or a * that takes an argument. */
static void read_widths(const char **s, int scanf, conversion *c) {
    char *end;
    for (int part = 0; part < 2; part++) {
        if (!scanf && **s == '*') {
            ++*s;
            c->star[c->nstars++] = read_position(s);
        } else {
            long n = **s >= '0' && **s <= '9' ? strtol(*s, &end, 10) : 0;
            if (**s >= '0' && **s <= '9') *s = end;
            if (!part) c->width = n;
        }
        if (part || scanf || **s != '.') return;
        ++*s;
    }
}

/* Reads a conversion from after its %; returns the place after it. */
static const char *read_conversion(const char *s, int scanf, conversion *c) {
    *c = (conversion){0};
    c->position = read_position(&s);
    if (scanf && *s == '*') {
        c->suppressed = 1;
        s++;
    }
    while (!scanf && *s && strchr("-+ #0'I", *s)) s++;
    read_widths(&s, scanf, c);
    if (scanf && *s == 'm') {
        c->allocates = 1;
        s++;
    }
    for (; *s && strchr("hlLqjzt", *s); s++)
        c->size = *s == 'h' ? c->size - 1 : *s == 'L' ? 3 : *s == 'l' ? c->size + 1 : 2;
    c->letter = *s;
    if (*s == 'S' || *s == 'C') { /* POSIX has them for %ls and %lc */
        c->letter = *s == 'S' ? 's' : 'c';
        c->size = 1;
    }
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

/* The type that a conversion reads, in scanf a pointer to it; NULL: there is no such conversion. A conversion of
 * characters with `l` reads wchar_t. */
static const dlsh_ctype *type_of(dlsh_cspace *c, const conversion *v, int scanf) {
    const dlsh_ctype *t = NULL;
    if (!v->letter) return NULL;
    if (strchr("din", v->letter))
        t = integer_of(v->size, 0);
    else if (strchr("uoxX", v->letter))
        t = integer_of(v->size, 1);
    else if (strchr("eEfFgGaA", v->letter))
        t = dlsh_c_basic(v->size == 3 ? DLSH_C_LDOUBLE : v->size || !scanf ? DLSH_C_DOUBLE : DLSH_C_FLOAT);
    else if (v->letter == 'p')
        t = dlsh_c_pointer(c, scanf ? dlsh_c_basic(DLSH_C_VOID) : dlsh_c_const(c, dlsh_c_basic(DLSH_C_VOID)));
    else if (strchr(scanf ? "cs[" : "cs", v->letter) && (v->size >= 0 || (v->letter == 'c' && !scanf)))
        t = dlsh_c_basic(v->size > 0 ? DLSH_C_INT : DLSH_C_CHAR);
    if (v->letter == 's' && !scanf) t = dlsh_c_const(c, t);
    if (v->allocates && t && strchr("cs[", v->letter)) t = dlsh_c_pointer(c, t);
    return scanf || v->letter == 'n' || v->letter == 's' ? dlsh_c_pointer(c, t) : t;
}

/* Characters that scanf may store: -1 for any number of them, 0 when the conversion is not text. */
static long characters(const conversion *v) {
    if (v->allocates || (v->letter != 's' && v->letter != 'c' && v->letter != '[')) return 0;
    if (v->letter == 'c') return v->width ? v->width : 1;
    return v->width ? v->width + 1 : -1;
}

/* The arguments that a format wants. */
typedef struct wanted {
    dlsh_cformat *items;
    int n, max;
    int numbered; /* 1 all by position, 0 none, -1 as yet unknown */
} wanted;

/* Adds an argument at a position, or as the next one (0). 0: the format contradicts itself. */
static int want(wanted *w, int position, const dlsh_ctype *t, long chars) {
    if (w->numbered < 0) w->numbered = position > 0;
    if (w->numbered != (position > 0)) return 0;
    int at = position ? position - 1 : w->n;
    if (at >= w->max) return 1; /* more than a call can have: it is the number that is wrong */
    while (w->n <= at) w->items[w->n++] = (dlsh_cformat){0};
    if (w->items[at].type && w->items[at].type != t) return 0;
    w->items[at] = (dlsh_cformat){t, chars};
    return 1;
}

static int contradicts(const char *from, const char *to) {
    dlsh_fail(DL_ERR_VALUE, "%1$d, %2$s, ... each of one type, or none of them",
              "the format takes its arguments in two ways at '%.*s'", (int)(to - from), from);
    return -1;
}

int dlsh_c_format_types(dlsh_cspace *c, const char *format, int scanf, dlsh_cformat *types, int max) {
    wanted w = {types, 0, max, -1};
    for (const char *s = format; *s;) {
        conversion v;
        if (*s++ != '%') continue;
        if (*s == '%') {
            s++;
            continue;
        }
        const char *from = s - 1;
        s = read_conversion(s, scanf, &v);
        if (v.letter == 'm' && !scanf) continue; /* strerror(errno): no argument */
        const dlsh_ctype *t = type_of(c, &v, scanf);
        if (!t) {
            dlsh_fail(DL_ERR_VALUE, NULL, "the format has no valid conversion in '%.*s'", (int)(s - from), from);
            return -1;
        }
        for (int i = 0; i < v.nstars; i++)
            if (!want(&w, v.star[i], dlsh_c_basic(DLSH_C_INT), 0)) return contradicts(from, s);
        if (!v.suppressed && !want(&w, v.position, t, scanf ? characters(&v) : 0)) return contradicts(from, s);
    }
    for (int i = 0; i < w.n; i++)
        if (!types[i].type) {
            dlsh_fail(DL_ERR_VALUE, NULL, "the format does not say what argument %d is", i + 1);
            return -1;
        }
    return w.n;
}
