/* Conversion between values of the language and C's arguments and memory. Nothing is converted silently to something
 * else: an int becomes a float only when that is exact, a float never an int, and a tensor is passed without a copy. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ffi/inside.h"

/* ---------------------------------------------------------------- numbers */

static dl_status wrong_type(const dlsh_ctype *t, dlsh_value v, const char *what, const char *hint) {
    return dlsh_fail(DL_ERR_TYPE, hint, "%s must be %s, got %s", what, dlsh_c_name(t), dlsh_a(v));
}

static dl_status too_large(const dlsh_ctype *t, unsigned long u, const char *what) {
    return dlsh_fail(DL_ERR_VALUE, "cast(\"long\", n) has the same bits", "%s: %lu does not fit into %s", what, u,
                     dlsh_c_name(t));
}

static dl_status integer(const dlsh_ctype *t, dlsh_value v, const char *what, dlsh_cslot *to) {
    int bits = (int)(8 * dlsh_c_size(t)), is_char = t->kind >= DLSH_C_CHAR && t->kind <= DLSH_C_UCHAR;
    if (v.type == DLSH_STR && is_char && v.as.str->len == 1) v = dlsh_int(v.as.str->s[0]);
    if (v.type == DLSH_BOOL) v.type = DLSH_INT;
    if (dlsh_c_unsigned_of(v, &to->u)) return dlsh_c_is_unsigned(t) && bits == 64 ? DL_OK : too_large(t, to->u, what);
    if (v.type == DLSH_FLOAT) return wrong_type(t, v, what, "a float is not cut off silently: int(x), or round(x)");
    if (v.type == DLSH_TENSOR) return wrong_type(t, v, what, "the number in a tensor is x.item()");
    if (v.type == DLSH_HANDLE && v.as.handle->cls == &dlsh_cpointer_class)
        return wrong_type(t, v, what, "cast(\"long\", p) is its address");
    char hint[60] = "";
    if (v.type == DLSH_STR && v.as.str->len == 1)
        snprintf(hint, sizeof hint, "C's '%c' is the number %d", v.as.str->s[0], v.as.str->s[0]);
    if (v.type != DLSH_INT) return wrong_type(t, v, what, *hint ? hint : NULL);
    long i = v.as.i;
    int is_unsigned = dlsh_c_is_unsigned(t), fits;
    if (t->kind == DLSH_C_BOOL)
        fits = i == 0 || i == 1;
    else if (t->kind == DLSH_C_ENUM && bits == 32)
        fits = i >= INT_MIN && i <= UINT_MAX;
    else if (bits >= 64)
        fits = !is_unsigned || i >= 0;
    else if (is_unsigned || (is_char && t->kind == DLSH_C_CHAR && i > 0))
        fits = i >= 0 && i < 1L << bits; /* a char takes a byte either way */
    else
        fits = i >= -(1L << (bits - 1)) && i < 1L << (bits - 1);
    if (!fits)
        return dlsh_fail(DL_ERR_VALUE, is_unsigned && i < 0 ? "it takes no negative numbers" : NULL,
                         "%s: %ld does not fit into %s", what, i, dlsh_c_name(t));
    to->i = i;
    return DL_OK;
}

static dl_status floating(const dlsh_ctype *t, dlsh_value v, const char *what, dlsh_cslot *to) {
    double f = dlsh_is_number(v) ? dlsh_number(v) : 0;
    if (v.type == DLSH_TENSOR) return wrong_type(t, v, what, "the number in a tensor is x.item()");
    if (!dlsh_is_number(v)) return wrong_type(t, v, what, NULL);
    if (v.type == DLSH_INT) {
        int exact = t->kind == DLSH_C_FLOAT ? (float)v.as.i < 0x1p63f && (long)(float)v.as.i == v.as.i
                                            : f < 0x1p63 && (long)f == v.as.i;
        if (!exact && t->kind != DLSH_C_LDOUBLE)
            return dlsh_fail(DL_ERR_VALUE, "float(n) rounds it", "%s: the int %ld is not exactly a %s", what, v.as.i,
                             dlsh_c_name(t));
    }
    if (t->kind == DLSH_C_FLOAT) {
        if (isfinite(f) && isinf((float)f))
            return dlsh_fail(DL_ERR_VALUE, NULL, "%s: %g is too large for a float", what, f);
        to->f = (float)f;
    } else if (t->kind == DLSH_C_DOUBLE) {
        to->d = f;
    } else {
        to->ld = v.type == DLSH_INT ? (long double)v.as.i : (long double)f;
    }
    return DL_OK;
}

dl_status dlsh_c_scalar(const dlsh_ctype *t, dlsh_value v, const char *what, dlsh_cslot *to) {
    if (dlsh_c_is_float(t)) return floating(t, v, what, to);
    if (dlsh_c_is_integer(t)) return integer(t, v, what, to);
    int list = t->kind == DLSH_C_OPAQUE && t->tag && strstr(t->tag, "va_list");
    return dlsh_fail(DL_ERR_UNSUPPORTED,
                     list                       ? "call the function that takes ... in its place, such as printf"
                     : t->kind == DLSH_C_OPAQUE ? "a pointer to it can be passed"
                                                : NULL,
                     "%s: values of type %s cannot be passed", what, dlsh_c_name(t));
}

/* ---------------------------------------------------------------- tensors */

/* The element type of nested arrays; of complex numbers their part. */
static const dlsh_ctype *innermost(const dlsh_ctype *t) {
    while (t->kind == DLSH_C_ARRAY) t = t->base;
    return dlsh_c_is_complex(t) ? t->plain->fields[0].type : t->plain; /* a complex number is two */
}

static int dtype_matches(const dlsh_ctype *t, dl_dtype d) {
    switch (d) {
    case DL_F32:
    case DL_C64: return t->kind == DLSH_C_FLOAT; /* in C, too, the parts stand one after the other */
    case DL_F64:
    case DL_C128: return t->kind == DLSH_C_DOUBLE;
    case DL_BOOL: return t->kind == DLSH_C_BOOL;
    case DL_U8: return t->kind == DLSH_C_UCHAR;
    case DL_I32: return dlsh_c_is_integer(t) && t->size == 4 && !dlsh_c_is_unsigned(t);
    case DL_I64: return dlsh_c_is_integer(t) && t->size == 8 && !dlsh_c_is_unsigned(t);
    default: return t->kind == DLSH_C_USHORT; /* the bits of bf16 and f16 */
    }
}

const char *dlsh_c_dtype_of(const dlsh_ctype *t) {
    t = innermost(t);
    for (int d = DL_BOOL; d <= DL_F64; d++)
        if (t->size && dtype_matches(t, (dl_dtype)d) && t->kind != DLSH_C_USHORT) return dl_dtype_name((dl_dtype)d);
    return NULL;
}

static int char_like(const dlsh_ctype *t) {
    return t->plain->kind == DLSH_C_CHAR || t->plain->kind == DLSH_C_SCHAR || t->plain->kind == DLSH_C_UCHAR;
}

static dl_status tensor_pointer(const dlsh_ctype *t, dlsh_value v, const char *what, int device, void **to) {
    dl_tensor *x = v.as.tensor;
    const dlsh_ctype *element = innermost(t->base);
    char hint[120] = "";
    if (element->tag && !strcmp(element->tag, "dl_tensor")) {
        *to = x;
        return DL_OK;
    }
    if (element->kind != DLSH_C_VOID && !dtype_matches(element, dl_dtype_of(x))) {
        const char *wanted = dlsh_c_dtype_of(element);
        if (element->kind == DLSH_C_POINTER)
            snprintf(hint, sizeof hint, "new(\"%s\", cast(\"%s\", x)) points to a pointer into it",
                     dlsh_c_name(element), dlsh_c_name(element));
        else if (char_like(element))
            snprintf(hint, sizeof hint, "cast(\"%s *\", x) is its memory, byte by byte", dlsh_c_name(element));
        else if (wanted)
            snprintf(hint, sizeof hint, "x.to(%s) converts it, as a copy", wanted);
        return dlsh_fail(DL_ERR_DTYPE, hint, "%s is %s, but the tensor is %s", what, dlsh_c_name(t),
                         dl_dtype_name(dl_dtype_of(x)));
    }
    if (!dl_is_contiguous(x))
        return dlsh_fail(DL_ERR_SHAPE, "x.contiguous() is a copy that is", "%s: the tensor is not contiguous", what);
    if (dl_device_of(x) != device) {
        snprintf(hint, sizeof hint, "x.to(\"%s\") copies it there", dl_device_name(device));
        char where[24];
        snprintf(where, sizeof where, "%s", dl_device_name(dl_device_of(x)));
        return dlsh_fail(DL_ERR_DEVICE, hint, "%s: the tensor is on %s, the function works on %s", what, where,
                         dl_device_name(device));
    }
    int written = !t->base->is_const && !innermost(t->base)->is_const;
    if (written && dl_is_readonly(x))
        return dlsh_fail(DL_ERR_VALUE, "x.clone() can be written",
                         "%s: C may write through %s, and this tensor's memory is read-only", what, dlsh_c_name(t));
    if (written && dl_tensor_saved(x))
        return dlsh_fail(
            DL_ERR_AUTOGRAD, "pass x.clone(), or call after backward; a parameter that is only read is const T *",
            "%s: C may write through %s, and autograd has saved this tensor for a gradient", what, dlsh_c_name(t));
    *to = dl_data(x);
    return DL_OK;
}

/* ---------------------------------------------------------------- pointers */

static dl_status pointer_to_pointer(const dlsh_ctype *t, const dlsh_cpointer *p, const char *what, void **to) {
    const dlsh_ctype *from = p->type->base, *into = t->base;
    if (!p->addr) { /* NULL, of whatever type */
        *to = NULL;
        return DL_OK;
    }
    int fits = into->kind == DLSH_C_VOID || from->kind == DLSH_C_VOID || dlsh_c_same(from, into, 0) ||
               (char_like(from) && char_like(into)) ||
               (into->kind == DLSH_C_ARRAY && dlsh_c_same(innermost(into), from, 0) && p->n < 0);
    if (!fits)
        return dlsh_fail(DL_ERR_TYPE, "cast(\"T *\", p) gives it another type", "%s must be %s, got %s", what,
                         dlsh_c_name(t), dlsh_c_name(p->type));
    if (from->is_const && !into->is_const && into->kind != DLSH_C_FUNCTION)
        return dlsh_fail(DL_ERR_TYPE, "cast(\"T *\", p) takes the const away",
                         "%s: C may write through %s, but the pointer is %s", what, dlsh_c_name(t),
                         dlsh_c_name(p->type));
    *to = p->addr;
    return DL_OK;
}

static dl_status string_pointer(const dlsh_ctype *t, dlsh_value v, const char *what, void **to) {
    const dlsh_ctype *into = t->base;
    if (into->kind == DLSH_C_POINTER && char_like(into->base))
        return wrong_type(t, v, what,
                          into->base->is_const ? "new(\"const char *[]\", [s, t]) is memory that holds strings"
                                               : "new(\"char *[]\", [new(\"char[]\", s)]) is memory that holds one");
    if (!into->is_const)
        return dlsh_fail(DL_ERR_TYPE, "new(\"char[100]\", s) is memory that C may write to",
                         "%s is %s: C may write there, and strings cannot be changed", what, dlsh_c_name(t));
    if (!char_like(into) && into->kind != DLSH_C_VOID) return wrong_type(t, v, what, NULL);
    if (into->plain->kind == DLSH_C_CHAR && strlen(v.as.str->s) != v.as.str->len)
        return dlsh_fail(DL_ERR_VALUE, "C would see its beginning only", "%s: the string has a NUL inside", what);
    *to = v.as.str->s;
    return DL_OK;
}

static dl_status function_pointer(dlsh_session *s, const dlsh_ctype *t, dlsh_value v, const char *what,
                                  const void *owner, void **to) {
    const dlsh_cfunc *f = dlsh_cfunc_of(v);
    if (f && !dlsh_c_same(f->proto->type, t->base, 1))
        return dlsh_fail(DL_ERR_TYPE, NULL, "%s must be %s, but %s is %s", what, dlsh_c_name(t), f->proto->name,
                         f->proto->text);
    if (f) {
        *to = f->addr;
        return DL_OK;
    }
    if (!dlsh_callable(v)) return wrong_type(t, v, what, "a function fits here: fn (a, b) { return a - b }");
    *to = dlsh_c_closure(s, t->base, v, owner);
    return *to ? DL_OK : dl_failed();
}

static dl_status no_pointer(const dlsh_ctype *t, dlsh_value v, const char *what) {
    const char *hint = NULL;
    char text[120] = "";
    const char *dtype = t->base->kind == DLSH_C_VOID ? NULL : dlsh_c_dtype_of(t->base);
    int numbers = dlsh_c_is_integer(t->base->plain) || dlsh_c_is_float(t->base->plain);
    if (v.type == DLSH_NONE || v.type == DLSH_VOID || (v.type == DLSH_INT && !v.as.i))
        hint = "C's null pointer is written NULL";
    else if (t->base->plain->kind == DLSH_C_CHAR && (dlsh_is_number(v) || (v.type == DLSH_LIST && t->base->is_const)))
        hint = t->base->is_const ? "a string fits here" : "new(\"char[100]\") is memory for text";
    else if (v.type == DLSH_LIST && t->base->kind == DLSH_C_VOID)
        hint = "tensor(list), or new(\"double[]\", list), is memory";
    else if (v.type == DLSH_LIST && dtype)
        snprintf(text, sizeof text, "tensor(list, dtype=%s), or new(\"%s[]\", list)", dtype,
                 dlsh_c_name(t->base->plain));
    else if (v.type == DLSH_LIST && !dlsh_c_is_struct(t->base))
        snprintf(text, sizeof text, "new(\"%s[]\", x) is memory that holds them", dlsh_c_name(t->base->plain));
    else if (v.type == DLSH_LIST || v.type == DLSH_RECORD || (dlsh_is_number(v) && numbers))
        snprintf(text, sizeof text, "new(\"%s\", x) is memory that holds it", dlsh_c_name(t->base->plain));
    else if (v.type == DLSH_FN)
        hint = "functions go where a pointer to a function is declared: int (*f)(int)";
    else if (v.type == DLSH_INT)
        hint = "cast(\"T *\", n) makes a pointer of a number";
    if (*text) hint = text;
    return wrong_type(t, v, what, hint);
}

/* Any value as a pointer of type t. device -1: the pointer will be stored, so tensors and strings are refused unless
 * something keeps them alive. */
static dl_status pointer(dlsh_session *s, const dlsh_ctype *t, dlsh_value v, const char *what, int device,
                         const void *owner, void **to) {
    const dlsh_cpointer *p = dlsh_unwrap(v, &dlsh_cpointer_class);
    const dlsh_cstruct *x = dlsh_unwrap(v, &dlsh_cstruct_class);
    if (p && p->freed)
        return dlsh_fail(DL_ERR_VALUE, NULL, "%s: the memory behind this %s was released with free", what,
                         dlsh_c_name(p->type));
    if (p && device < 0) dlsh_c_keep(v);
    if (p && !t->base->is_const && t->base->kind != DLSH_C_FUNCTION && p->addr && device >= 0)
        DLSH_TRY(dlsh_c_may_write(p->owner));
    if (p) return pointer_to_pointer(t, p, what, to);
    if (device < 0 && dlsh_cfunc_of(v)) dlsh_c_keep(v);
    if (t->base->kind == DLSH_C_FUNCTION) return function_pointer(s, t, v, what, owner, to);
    if (device < 0 && (v.type == DLSH_TENSOR || (v.type == DLSH_STR && (!t->base->is_const || !dlsh_c_keep(v)))))
        return wrong_type(t, v, what,
                          v.type == DLSH_STR ? "new(\"char[]\", s) is memory that lasts"
                                             : "cast(\"T *\", x) points to its elements");
    if (v.type == DLSH_TENSOR) return tensor_pointer(t, v, what, device, to);
    if (v.type == DLSH_STR) return string_pointer(t, v, what, to);
    if (x && (t->base->kind == DLSH_C_VOID || dlsh_c_same(x->type, t->base, 1))) {
        *to = x->data;
        return DL_OK;
    }
    if (x) return dlsh_fail(DL_ERR_TYPE, NULL, "%s must be %s, got a %s", what, dlsh_c_name(t), dlsh_c_name(x->type));
    if (dlsh_cfunc_of(v) && t->base->kind == DLSH_C_VOID) {
        *to = dlsh_cfunc_of(v)->addr;
        return DL_OK;
    }
    return no_pointer(t, v, what);
}

/* ---------------------------------------------------------------- arguments */

/* A struct by value: the slot points to its bytes. */
static dl_status by_value(dlsh_ccall *k, int at, const dlsh_ctype *t, dlsh_value v, const char *what) {
    k->owners[at] = dlsh_c_struct_value(k->s, t, NULL);
    const dlsh_cstruct *copy = dlsh_unwrap(k->owners[at], &dlsh_cstruct_class);
    if (!copy) return DL_ERR_MEMORY;
    k->ptrs[at] = copy->data;
    if (!t->plain->laid_out) return dlsh_c_no_layout(t);
    if (!(dlsh_c_is_complex(t) && dlsh_is_number(v)) && !dlsh_unwrap(v, &dlsh_cstruct_class) && v.type != DLSH_RECORD &&
        v.type != DLSH_LIST)
        return wrong_type(t, v, what,
                          dlsh_c_is_complex(t)                   ? "a complex number is a list of two, [re, im]"
                          : dlsh_unwrap(v, &dlsh_cpointer_class) ? "p[0] is what a pointer points to"
                                                                 : "a record of its fields, or a list of them, is one");
    return dlsh_c_store_in(k->s, t, v, copy->owner, copy->data, copy->data);
}

dl_status dlsh_c_convert(dlsh_ccall *k, int at, const dlsh_ctype *t, dlsh_value v) {
    const dlsh_cparam *param = at < k->f->proto->nparams ? &k->f->proto->params[at] : NULL;
    int device = k->f->lib ? k->f->lib->device : 0;
    k->ptrs[at] = &k->slots[at];
    if (v.type == DLSH_FLOAT && t->kind == DLSH_C_DOUBLE) { /* the common cases need no words for messages */
        k->slots[at].d = v.as.f;
        return DL_OK;
    }
    if (v.type == DLSH_INT && (t->kind == DLSH_C_LONG || (t->kind == DLSH_C_INT && v.as.i == (int)v.as.i))) {
        k->slots[at].i = v.as.i;
        return DL_OK;
    }
    const char *what = dlsh_c_what(k, at);
    if (dlsh_c_is_struct(t)) return by_value(k, at, t, v, what);
    if (t->kind != DLSH_C_POINTER) return dlsh_c_scalar(t->plain, v, what, &k->slots[at]);
    return pointer(k->s, t, v, what, device, param && param->flags & DLSH_C_KEEP ? NULL : k, &k->slots[at].p);
}

/* ---------------------------------------------------------------- C's memory */

static dl_status store_array(dlsh_session *s, const dlsh_ctype *t, dlsh_value v, char *to) {
    size_t size = dlsh_c_size(t->base);
    if (v.type == DLSH_STR && char_like(t->base) && v.as.str->len <= (size_t)t->n) {
        memset(to, 0, (size_t)t->n);
        memcpy(to, v.as.str->s, v.as.str->len);
        return DL_OK;
    }
    const dlsh_cpointer *p = dlsh_unwrap(v, &dlsh_cpointer_class);
    if (p && p->n == t->n && dlsh_c_same(p->type->base, t->base, 0) &&
        dlsh_c_read_memory(p->addr, to, (size_t)t->n * size))
        return DL_OK;
    if (v.type != DLSH_LIST || v.as.list->n > t->n)
        return dlsh_fail(DL_ERR_TYPE, NULL, "%s takes a list of at most %ld elements, got %s%s", dlsh_c_name(t), t->n,
                         dlsh_a(v), v.type == DLSH_LIST || v.type == DLSH_STR ? " that is longer" : "");
    memset(to, 0, dlsh_c_size(t));
    for (int i = 0; i < v.as.list->n; i++)
        DLSH_TRY(dlsh_c_store(s, t->base, v.as.list->items[i], to + (size_t)i * size));
    return DL_OK;
}

/* How many values a list for a struct may have: none for padding, one for a union. */
static long places(const dlsh_ctype *t) {
    long n = 0;
    for (long i = 0; i < t->n; i++) n += t->fields[i].name || !t->fields[i].bits;
    return t->kind == DLSH_C_UNION && n ? 1 : n;
}

static dl_status store_in_order(dlsh_session *s, const dlsh_ctype *t, const dlsh_list *l, char *to) {
    memset(to, 0, dlsh_c_size(t));
    const dlsh_cfield *f = t->fields;
    for (int i = 0; i < l->n; i++, f++) {
        while (f->bits && !f->name) f++;
        if (f->bits)
            DLSH_TRY(dlsh_c_set_field(s, t, to, dlsh_none(), f->name, l->items[i]));
        else
            DLSH_TRY(dlsh_c_store(s, f->type, l->items[i], to + f->offset));
    }
    return DL_OK;
}

static dl_status store_struct(dlsh_session *s, const dlsh_ctype *t, dlsh_value v, char *to) {
    const dlsh_cstruct *x = dlsh_unwrap(v, &dlsh_cstruct_class);
    dlsh_value to_value = dlsh_none();               /* memory of ours: plain access */
    if (dlsh_c_is_complex(t) && dlsh_is_number(v)) { /* a real number is one */
        memset(to, 0, dlsh_c_size(t));
        return dlsh_c_store(s, t->plain->fields[0].type, v, to);
    }
    if (x && (x->type->plain == t->plain || dlsh_c_same(x->type, t, 1)) && dlsh_c_struct_bytes(x, to)) {
        dlsh_c_keep(v);
        return DL_OK;
    }
    if (v.type == DLSH_RECORD) {
        memset(to, 0, dlsh_c_size(t));
        for (int i = 0; i < v.as.record->n; i++) {
            dl_status st = dlsh_c_set_field(s, t->plain, to, to_value, v.as.record->keys[i], v.as.record->values[i]);
            if (st == DL_ERR_NAME)
                return dlsh_fail(DL_ERR_NAME, NULL, "%s has no field '%s'", dlsh_c_name(t), v.as.record->keys[i]);
            DLSH_TRY(st);
        }
        return DL_OK;
    }
    if (v.type == DLSH_LIST && v.as.list->n <= places(t->plain)) return store_in_order(s, t->plain, v.as.list, to);
    return dlsh_fail(DL_ERR_TYPE, "a record with its fields, or a list of them in order, becomes one",
                     "wanted %s, got %s", dlsh_c_name(t), x ? dlsh_c_name(x->type) : dlsh_a(v));
}

dl_status dlsh_c_store(dlsh_session *s, const dlsh_ctype *t, dlsh_value v, void *to) {
    dlsh_cslot slot = {0};
    if (t->kind == DLSH_C_ARRAY) return store_array(s, t, v, to);
    if (dlsh_c_is_struct(t)) return store_struct(s, t, v, to);
    if (t->kind == DLSH_C_POINTER)
        DLSH_TRY(pointer(s, t, v, "the value", -1, NULL, &slot.p));
    else
        DLSH_TRY(dlsh_c_scalar(t->plain, v, "the value", &slot));
    memcpy(to, &slot, dlsh_c_size(t)); /* little-endian: the low bytes come first */
    return DL_OK;
}

long dlsh_c_integer_at(const dlsh_ctype *t, const void *from) {
    unsigned long u = 0;
    memcpy(&u, from, dlsh_c_size(t));
    int shift = (int)(64 - 8 * dlsh_c_size(t));
    return dlsh_c_is_unsigned(t) ? (long)u : (long)(u << shift) >> shift;
}

double dlsh_c_floating_at(const dlsh_ctype *t, const void *from) {
    dlsh_cslot v;
    memcpy(&v, from, dlsh_c_size(t));
    return t->kind == DLSH_C_FLOAT ? (double)v.f : t->kind == DLSH_C_DOUBLE ? v.d : (double)v.ld;
}

static dlsh_value integer_value(const dlsh_ctype *t, const void *from) {
    long i = dlsh_c_integer_at(t, from);
    if (t->kind == DLSH_C_BOOL) return dlsh_bool(i != 0);
    return dlsh_c_is_unsigned(t) && i < 0 ? dlsh_c_unsigned_value((unsigned long)i) : dlsh_int(i);
}

/* A const char * gives a string, a pointer to a function a C function, any other a pointer. */
static dlsh_value pointer_at(dlsh_session *s, const dlsh_ctype *t, const void *from) {
    char *p;
    memcpy(&p, from, sizeof p);
    if (t->base->kind == DLSH_C_CHAR && t->base->is_const && p) return dlsh_string_n(p, dlsh_c_strlen(p, (size_t)-1));
    if (t->base->kind == DLSH_C_FUNCTION && p) return dlsh_c_unnamed_function(s, t->base, p);
    return dlsh_c_pointer_value(s, t->is_const ? t->plain : t, p, dlsh_void(), -1);
}

dl_status dlsh_c_load(dlsh_session *s, const dlsh_ctype *t, const void *from, dlsh_value *out) {
    *out = dlsh_void();
    if (t->kind == DLSH_C_VOID) return DL_OK;
    if (t->kind == DLSH_C_POINTER) return dlsh_give(pointer_at(s, t, from), out);
    if (dlsh_c_is_integer(t)) return dlsh_give(integer_value(t->plain, from), out);
    if (dlsh_c_is_float(t)) return dlsh_give(dlsh_float(dlsh_c_floating_at(t, from)), out);
    if (!dlsh_c_is_struct(t))
        return dlsh_fail(DL_ERR_UNSUPPORTED, NULL, "%s is not a value of the language", dlsh_c_name(t));
    if (!t->plain->laid_out) return dlsh_c_no_layout(t);
    return dlsh_give(dlsh_c_struct_value(s, t, from), out);
}
