/* Calls of C functions: gathers, converts and checks the arguments, calls through libffi, converts the results. */
#include <errno.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>

#include "ffi/call/guard.h"
#include "ffi/compiler/block.h"
#include "ffi/inside.h"

/* ---------------------------------------------------------------- descriptions for libffi */

static dl_status prepare_failed(const dlsh_cfunc *f) {
    return dlsh_fail(DL_ERR_UNSUPPORTED, NULL, "libffi cannot call %s", f->proto->text);
}

/* The call interface of a function without varargs, prepared once. */
static dl_status prepare(dlsh_cfunc *f) {
    const dlsh_ctype *t = f->proto->type;
    dlsh_cspace *c = dlsh_c_space(f->s);
    ffi_type *result = dlsh_c_ffi_type(c, t->base), **types = dlsh_c_alloc(c, ((size_t)t->n + 1) * sizeof *types);
    if (!result || !types) return dl_failed();
    for (long i = 0; i < t->n; i++)
        if (!(types[i] = dlsh_c_ffi_type(c, t->params[i]))) return dl_failed();
    if (ffi_prep_cif(&f->cif, FFI_DEFAULT_ABI, (unsigned)t->n, result, types) != FFI_OK) return prepare_failed(f);
    f->prepared = 1;
    return DL_OK;
}

static dl_status prepare_varargs(const dlsh_ccall *k, ffi_cif *cif, ffi_type **types) {
    const dlsh_ctype *t = k->f->proto->type;
    dlsh_cspace *c = dlsh_c_space(k->s);
    ffi_type *result = dlsh_c_ffi_type(c, t->base);
    if (!result) return dl_failed();
    for (int i = 0; i < k->n; i++)
        if (!(types[i] = dlsh_c_ffi_type(c, k->types[i]))) return dl_failed();
    if (ffi_prep_cif_var(cif, FFI_DEFAULT_ABI, (unsigned)t->n, (unsigned)k->n, result, types) != FFI_OK)
        return prepare_failed(k->f);
    return DL_OK;
}

/* ---------------------------------------------------------------- going there */

/* Keeps the shell's output before C's, also when C does not write through stdio. */
static inline void flush_before(void) {
    if (__fpending(stdout)) fflush(stdout);
}

/* ---------------------------------------------------------------- the quick ways
 * Functions of at most three doubles, ints or longs that give the same are called without libffi. */

enum { FAST_NO, FAST_DOUBLE, FAST_INT, FAST_LONG, FAST_NONE = -1 };

typedef struct fast_call {
    void (*fn)(void);
    int n, err;
    dlsh_cslot a[3], r;
} fast_call;

#define FAST(name, T, field)                                                                                           \
    static void name(void *arg) {                                                                                      \
        fast_call *c = arg;                                                                                            \
        errno = 0;                                                                                                     \
        switch (c->n) {                                                                                                \
        case 0: c->r.field = ((T(*)(void))c->fn)(); break;                                                             \
        case 1: c->r.field = ((T(*)(T))c->fn)((T)c->a[0].field); break;                                                \
        case 2: c->r.field = ((T(*)(T, T))c->fn)((T)c->a[0].field, (T)c->a[1].field); break;                           \
        default: c->r.field = ((T(*)(T, T, T))c->fn)((T)c->a[0].field, (T)c->a[1].field, (T)c->a[2].field);            \
        }                                                                                                              \
        c->err = errno;                                                                                                \
    }
FAST(fast_double, double, d)
FAST(fast_int, int, i)
FAST(fast_long, long, i)

static int fast_kind(const dlsh_cproto *p) {
    const dlsh_ctype *t = p->type->base->plain;
    int kind = t->kind == DLSH_C_DOUBLE ? FAST_DOUBLE
               : t->kind == DLSH_C_INT  ? FAST_INT
               : t->kind == DLSH_C_LONG ? FAST_LONG
                                        : FAST_NONE;
    if (p->nparams > 3 || p->type->varargs) return FAST_NONE;
    for (int i = 0; i < p->nparams; i++)
        if (p->params[i].type->plain != t) return FAST_NONE;
    return kind;
}

/* 1: called, with *st; 0: an argument needs the general path. */
static int fast(dlsh_cfunc *f, const dlsh_callargs *args, dlsh_value *out, dl_status *st) {
    static void (*const bodies[])(void *) = {NULL, fast_double, fast_int, fast_long};
    fast_call c = {.n = args->n};
    if (args->names || args->n != f->proto->nparams) return 0;
    memcpy(&c.fn, &f->addr, sizeof c.fn);
    for (int i = 0; i < args->n; i++) {
        dlsh_value v = args->values[i];
        if (f->fast == FAST_DOUBLE) {
            if (v.type == DLSH_INT && v.as.i <= 1L << 53 && v.as.i >= -(1L << 53))
                c.a[i].d = (double)v.as.i;
            else if (v.type == DLSH_FLOAT)
                c.a[i].d = v.as.f;
            else
                return 0;
        } else if (v.type == DLSH_INT && (f->fast == FAST_LONG || v.as.i == (int)v.as.i)) {
            c.a[i].i = v.as.i;
        } else {
            return 0;
        }
    }
    flush_before();
    *st = dlsh_guard_call(f, bodies[f->fast], &c);
    dlsh_cstate *state = dlsh_c_state(f->s);
    state->last_errno = c.err;
    if (state->callback_failed || state->foreign_thread) { /* of a kept one */
        *st = dlsh_c_callback_failure(state, *st);
    }
    if (*st) return 1;
    *out = f->fast == FAST_DOUBLE ? dlsh_float(c.r.d) : dlsh_int(c.r.i);
    return 1;
}

/* ---------------------------------------------------------------- which argument is which */

const char *dlsh_c_what(const dlsh_ccall *k, int at) {
    static _Thread_local char texts[2][160];
    static _Thread_local int next;
    char *s = texts[next++ % 2];
    const dlsh_cproto *p = k->f->proto;
    int number = 1;
    for (int i = 0; i < at && i < p->nparams; i++) number += !(p->params[i].flags & DLSH_C_OUT);
    if (at > p->nparams) number += at - p->nparams;
    const char *name = at < p->nparams ? p->params[at].name : NULL;
    snprintf(s, sizeof texts[0], name ? "argument %d (%s) of %s" : "argument %d%.0s of %s", number, name ? name : "",
             p->name);
    return s;
}

static dl_status wrong_count(const dlsh_cproto *p, int visible, int given) {
    char hint[200];
    snprintf(hint, sizeof hint, "%s", p->text);
    return dlsh_fail(DL_ERR_TYPE, hint, "%s takes %s%d argument%s, got %d", p->name,
                     p->type->varargs ? "at least " : "", visible, visible == 1 ? "" : "s", given);
}

static int param_named(const dlsh_cproto *p, const char *name) {
    for (int i = 0; i < p->nparams; i++)
        if (p->params[i].name && !strcmp(p->params[i].name, name) && !(p->params[i].flags & DLSH_C_OUT)) return i;
    return -1;
}

/* Sets given[i] for each C argument, and source[i] to its number in the call. */
static dl_status gather(dlsh_ccall *k, const dlsh_callargs *args, int *source) {
    const dlsh_cproto *p = k->f->proto;
    int visible = 0, next = 0;
    for (int i = 0; i < p->nparams; i++) {
        k->given[i] = NULL;
        visible += !(p->params[i].flags & DLSH_C_OUT);
    }
    if (args->n < visible || (args->n > visible && !p->type->varargs) ||
        args->n - visible + p->nparams > DLSH_C_MAX_ARGS)
        return wrong_count(p, visible, args->n);
    k->n = p->nparams;
    for (int i = 0; i < args->n; i++) {
        const char *name = args->names ? args->names[i] : NULL;
        int at = name ? param_named(p, name) : 0;
        if (at < 0) return dlsh_fail(DL_ERR_NAME, p->text, "%s has no parameter '%s'", p->name, name);
        if (!name) {
            while (next < p->nparams && (p->params[next].flags & DLSH_C_OUT || k->given[next])) next++;
            at = next < p->nparams ? next : k->n++;
        }
        if (at < p->nparams && k->given[at])
            return dlsh_fail(DL_ERR_TYPE, p->text, "%s got two values for '%s'", p->name,
                             p->params[at].name ? p->params[at].name : "");
        k->given[at] = &args->values[i];
        source[at] = i;
    }
    for (int i = 0; i < p->nparams; i++)
        if (!k->given[i] && !(p->params[i].flags & DLSH_C_OUT))
            return dlsh_fail(DL_ERR_TYPE, p->text, "%s needs a value for '%s'", p->name,
                             p->params[i].name ? p->params[i].name : "");
    return DL_OK;
}

/* ---------------------------------------------------------------- lengths */

static long length_of(const dlsh_ccall *k, const dlsh_clen *e) {
    if (!e->op) return e->value;
    if (e->op == 'p') {
        const dlsh_ctype *t = k->types[e->param];
        if (t->kind != DLSH_C_POINTER) return k->slots[e->param].i;
        long v = 0;
        size_t n = dlsh_c_size(t->base);
        if (n <= sizeof v) dlsh_c_read_memory(k->slots[e->param].p, &v, n);
        return v;
    }
    long a = length_of(k, e->left), b = length_of(k, e->right), r = -1;
    int over = e->op == '*'   ? __builtin_mul_overflow(a, b, &r)
               : e->op == '+' ? __builtin_add_overflow(a, b, &r)
               : e->op == '-' ? __builtin_sub_overflow(a, b, &r)
                              : b == 0;
    if (!over && e->op == '/') r = a / b;
    return over ? -1 : r;
}

static dl_status check_length(const dlsh_ccall *k, int at) {
    const dlsh_cparam *p = &k->f->proto->params[at];
    const dlsh_value *v = k->given[at];
    long want = length_of(k, p->len), have = -1, each = 1;
    const dlsh_cpointer *ptr = dlsh_unwrap(*v, &dlsh_cpointer_class);
    if (want < 0) return dlsh_fail(DL_ERR_VALUE, NULL, "%s has %ld elements", dlsh_c_what(k, at), want);
    for (const dlsh_ctype *t = p->type->base; t->kind == DLSH_C_ARRAY; t = t->base) each *= t->n;
    if (v->type == DLSH_TENSOR) have = dl_numel(v->as.tensor) / (each > 0 ? each : 1);
    if (v->type == DLSH_STR) have = (long)v->as.str->len + 1;
    if (ptr && !ptr->addr && want) have = 0;
    if (ptr && ptr->n >= 0 && ptr->addr) {
        size_t size = dlsh_c_size(p->type->base);
        have = ptr->n * (long)dlsh_c_size(ptr->type->base) / (long)(size ? size : 1);
    }
    if (have < 0 || have >= want) return DL_OK;
    return dlsh_fail(DL_ERR_SHAPE, NULL, "%s must have %ld elements or more, got %ld", dlsh_c_what(k, at), want, have);
}

/* ---------------------------------------------------------------- out and inout parameters */

static dl_status make_out(dlsh_ccall *k, int at) {
    const dlsh_cparam *p = &k->f->proto->params[at];
    const dlsh_ctype *t = p->type->base;
    long n = p->flags & DLSH_C_ARRAY_PARAM ? p->len ? length_of(k, p->len) : -1 : 1;
    char *addr = NULL;
    if (n < 0)
        return dlsh_fail(DL_ERR_VALUE, "out T x[n], n being a parameter or a number",
                         "the length of the out array '%s' of %s is not known", p->name ? p->name : "",
                         k->f->proto->name);
    if (t->kind == DLSH_C_VOID || !dlsh_c_size(t))
        return dlsh_fail(DL_ERR_TYPE, NULL, "an out parameter needs a type of known size, not %s",
                         dlsh_c_name(p->type));
    k->ptrs[at] = &k->slots[at].p;
    if (!(p->flags & DLSH_C_ARRAY_PARAM) && dlsh_c_size(t) <= sizeof(dlsh_cslot) && !dlsh_c_is_struct(t) &&
        t->kind != DLSH_C_ARRAY) {
        k->boxes[at] = (dlsh_cslot){0};
        k->slots[at].p = &k->boxes[at];
    } else {
        k->owners[at] = dlsh_c_new_memory(k->s, t, n, 0, &addr);
        if (dlsh_failed(k->owners[at])) return dl_failed();
        k->slots[at].p = addr;
    }
    return k->given[at] ? dlsh_c_store(k->s, t, *k->given[at], k->slots[at].p) : DL_OK;
}

/* Numbers become a tensor when there is a dtype of their kind, characters a string, the rest a list. */
static dl_status array_result(dlsh_ccall *k, int at, dlsh_value *out) {
    dlsh_cpointer *p = dlsh_unwrap(k->owners[at], &dlsh_cpointer_class);
    const dlsh_ctype *t = p->type->base;
    const char *dtype = t->kind == DLSH_C_ARRAY ? NULL : dlsh_c_dtype_of(t);
    dl_dtype d;
    if (t->kind == DLSH_C_CHAR) return dlsh_give(dlsh_string_n(p->addr, strnlen(p->addr, (size_t)p->n)), out);
    if (dtype && !dl_dtype_parse(dtype, &d))
        return dlsh_give(dlsh_tensor(dl_tensor_from(1, &p->n, d, 0, p->addr)), out);
    dlsh_value list = dlsh_new_list(p->n), v;
    dl_status st = dlsh_failed(list) ? DL_ERR_MEMORY : DL_OK;
    for (long i = 0; i < p->n && !st; i++)
        if (!(st = dlsh_c_load(k->s, t, p->addr + i * (long)dlsh_c_size(t), &v))) st = dlsh_list_push(list.as.list, v);
    return dlsh_give_filled(st, list, out);
}

/* The value that keeps the memory behind an argument alive; VOID: it is not the shell's. */
static dlsh_value keeper_of(dlsh_value v) {
    const dlsh_cpointer *p = dlsh_unwrap(v, &dlsh_cpointer_class);
    const dlsh_cstruct *x = dlsh_unwrap(v, &dlsh_cstruct_class);
    return p ? p->owner : x ? x->owner : v.type == DLSH_TENSOR || v.type == DLSH_STR ? v : dlsh_void();
}

/* A result that points into the memory of an argument, as strchr's does, keeps that memory alive. */
static void keep_argument(const dlsh_ccall *k, dlsh_value result) {
    dlsh_cpointer *p = dlsh_unwrap(result, &dlsh_cpointer_class);
    if (!p || !p->addr || dlsh_counted(p->owner)) return;
    for (int i = 0; i < k->n; i++) {
        if (!k->given[i] || k->types[i]->kind != DLSH_C_POINTER) continue;
        dlsh_value owner = keeper_of(*k->given[i]);
        long bytes = dlsh_counted(owner) ? dlsh_c_extent(owner, p->addr) : -1, size = (long)dlsh_c_size(p->type->base);
        if (bytes <= 0) continue;
        p->owner = dlsh_ref(owner);
        p->n = size ? bytes / size : -1;
        return;
    }
}

static dl_status out_result(dlsh_ccall *k, int at, dlsh_value *out) {
    const dlsh_cparam *p = &k->f->proto->params[at];
    if (p->flags & DLSH_C_ARRAY_PARAM) return array_result(k, at, out);
    DLSH_TRY(dlsh_c_load(k->s, p->type->base, k->slots[at].p, out));
    keep_argument(k, *out);
    return DL_OK;
}

/* ---------------------------------------------------------------- results */

static void (*release_of(const dlsh_cfunc *f, dlsh_clib **lib))(void *) {
    const char *name = f->proto->release;
    *lib = f->lib;
    if (!name) return free; /* the one that goes with the malloc of this process */
    const dlsh_cname *n = dlsh_c_find(dlsh_c_space(f->s), name, strlen(name));
    const dlsh_value *v = dlsh_get(f->s, name);
    const dlsh_cfunc *own = v ? dlsh_cfunc_of(*v) : NULL; /* of a C block */
    void *addr = own ? own->addr : n && n->kind == DLSH_C_SYMBOL ? n->addr : NULL;
    void (*release)(void *) = NULL;
    if (own) *lib = own->lib;
    if (!addr) addr = dlsh_c_symbol(f->lib, name);
    memcpy(&release, &addr, sizeof release);
    return release;
}

/* A result of owned T *f(): text is copied and released, other memory is released with the last pointer to it. */
static dl_status owned_result(dlsh_ccall *k, const dlsh_ctype *t, char *p, dlsh_value *out) {
    dlsh_clib *lib;
    void (*release)(void *) = release_of(k->f, &lib);
    if (p && t->base->plain->kind == DLSH_C_CHAR) {
        *out = dlsh_string(p);
        release(p);
    } else {
        dlsh_value owner = p ? dlsh_c_owner(p, -1, release, lib) : dlsh_void();
        *out = p && dlsh_failed(owner) ? owner : dlsh_c_pointer_value(k->s, t->plain, p, owner, -1);
    }
    return dlsh_failed(*out) ? dl_failed() : DL_OK;
}

static dl_status plain_result(dlsh_ccall *k, char *raw, dlsh_value *out) {
    const dlsh_ctype *t = k->f->proto->type->base;
    if (t->kind == DLSH_C_POINTER) {
        char *p;
        memcpy(&p, raw, sizeof p);
        if (k->f->proto->flags & DLSH_C_OWNED) return owned_result(k, t, p, out);
        if (t->base->tag && !strcmp(t->base->tag, "dl_tensor") && !t->base->is_const) {
            if (!p && dl_error_last()) return dl_failed();
            if (!p) return dlsh_fail(DL_ERR_VALUE, NULL, "%s gave no tensor", k->f->proto->name);
            *out = dlsh_tensor((dl_tensor *)p);
            return DL_OK;
        }
    }
    DLSH_TRY(dlsh_c_load(k->s, t, raw, out));
    keep_argument(k, *out);
    return DL_OK;
}

/* The result and the out parameters: a single value as it is, several as a list. */
static dl_status results(dlsh_ccall *k, char *raw, dlsh_value *out) {
    const dlsh_cproto *p = k->f->proto;
    int is_void = p->type->base->kind == DLSH_C_VOID, outs = 0, last = -1;
    for (int i = 0; i < p->nparams; i++)
        if (p->params[i].flags & (DLSH_C_OUT | DLSH_C_INOUT)) {
            outs++;
            last = i;
        }
    if (!outs) return plain_result(k, raw, out);
    if (is_void && outs == 1) return out_result(k, last, out);
    dlsh_value list = dlsh_new_list(outs + 1), v;
    dl_status st = dlsh_failed(list) ? DL_ERR_MEMORY : DL_OK;
    if (!st && !is_void && !(st = plain_result(k, raw, &v))) st = dlsh_list_push(list.as.list, v);
    for (int i = 0; i < p->nparams && !st; i++)
        if (p->params[i].flags & (DLSH_C_OUT | DLSH_C_INOUT) && !(st = out_result(k, i, &v)))
            st = dlsh_list_push(list.as.list, v);
    return dlsh_give_filled(st, list, out);
}

/* ---------------------------------------------------------------- the long way */

typedef struct invocation {
    ffi_cif *cif;
    void *addr, *result, **args;
    int err;
} invocation;

static void invoke(void *arg) {
    invocation *g = arg;
    void (*fn)(void);
    memcpy(&fn, &g->addr, sizeof fn);
    errno = 0;
    ffi_call(g->cif, fn, g->result, g->args);
    g->err = errno;
}

static dl_status fixed_arguments(dlsh_ccall *k) {
    const dlsh_cproto *p = k->f->proto;
    for (int i = 0; i < k->n; i++) k->owners[i] = dlsh_void();
    for (int i = 0; i < p->nparams; i++) k->types[i] = p->type->params[i];
    for (int i = 0; i < p->nparams; i++)
        if (k->given[i] && !(p->params[i].flags & DLSH_C_INOUT)) {
            k->failed_at = i;
            DLSH_TRY(dlsh_c_convert(k, i, k->types[i], *k->given[i]));
        }
    for (int pass = 0; pass < 2; pass++) /* lengths may depend on inout parameters */
        for (int i = 0; i < p->nparams; i++)
            if (p->params[i].flags & (DLSH_C_OUT | DLSH_C_INOUT) && pass == !(p->params[i].flags & DLSH_C_INOUT)) {
                k->failed_at = i;
                DLSH_TRY(make_out(k, i));
            }
    for (int i = 0; i < p->nparams; i++)
        if (p->params[i].len && k->given[i] && k->types[i]->kind == DLSH_C_POINTER) {
            k->failed_at = i;
            DLSH_TRY(check_length(k, i));
        }
    return DL_OK;
}

/* Fails when a value does not fit its conversion in the format, with a hint at one that does. */
static dl_status check_conversion(const dlsh_ccall *k, const dlsh_ctype *t, dlsh_value v) {
    const char *hint = NULL;
    if (t->kind == DLSH_C_POINTER && !t->base->is_const && (dlsh_is_number(v) || v.type == DLSH_BOOL))
        return dlsh_fail(DL_ERR_TYPE, "C writes there: new(\"int\"), new(\"double\"), new(\"char[20]\") are memory",
                         "the format of %s wants %s here, got %s", k->f->proto->name, dlsh_c_name(t), dlsh_a(v));
    if (v.type == DLSH_FLOAT && !dlsh_c_is_float(t))
        hint = "%f, %g and %e print floats; int(x) makes it an int";
    else if (v.type == DLSH_STR && t->kind != DLSH_C_POINTER && (t->kind != DLSH_C_CHAR || v.as.str->len != 1))
        hint = "%s prints strings";
    else if ((v.type == DLSH_INT || v.type == DLSH_BOOL) && t->kind == DLSH_C_POINTER)
        hint = "%d and %ld print ints";
    else if (v.type == DLSH_INT && t->kind == DLSH_C_INT && v.as.i != (int)v.as.i)
        hint = "%ld prints large ints";
    if (!hint) return DL_OK;
    return dlsh_fail(DL_ERR_TYPE, hint, "the format of %s wants %s here, got %s%s", k->f->proto->name, dlsh_c_name(t),
                     dlsh_a(v), v.type == DLSH_INT && t->kind == DLSH_C_INT ? " that does not fit" : "");
}

/* A copy of the format string that is passed, also through a pointer. */
static dl_status format_text(const dlsh_ccall *k, char **text) {
    int at = k->f->proto->format;
    const char *s = k->slots[at].p;
    char c;
    if (!s || !dlsh_c_read_memory(s, &c, 1))
        return dlsh_fail(DL_ERR_VALUE, "%s prints a string",
                         s ? "%s points to no memory" : "%s is NULL: it must be a format", dlsh_c_what(k, at));
    size_t n = dlsh_c_strlen(s, (size_t)-1);
    if (!(*text = malloc(n + 1))) return dlsh_no_memory("a format");
    memcpy(*text, s, n);
    (*text)[n] = 0;
    return DL_OK;
}

/* Fails when scanf may store more characters than the argument is known to have room for. */
static dl_status check_room(const dlsh_ccall *k, int at, long chars) {
    const dlsh_cpointer *p = dlsh_unwrap(*k->given[at], &dlsh_cpointer_class);
    long room = p && p->n >= 0 ? p->n * (long)dlsh_c_size(p->type->base) / (long)dlsh_c_size(k->types[at]->base) : -1;
    const dlsh_value *source = k->given[0];
    char hint[60];
    if (!chars || room < 0) return DL_OK;
    if (chars < 0 && source->type != DLSH_STR) return DL_OK; /* a file's words may have any length */
    if (chars < 0) chars = (long)source->as.str->len + 1;
    if (chars <= room) return DL_OK;
    snprintf(hint, sizeof hint, "new(\"%.20s[%ld]\") has room", dlsh_c_name(k->types[at]->base), chars);
    return dlsh_fail(DL_ERR_SHAPE, hint, "%s: up to %ld characters may be stored, and there is room for %ld",
                     dlsh_c_what(k, at), chars, room);
}

static dl_status variable_arguments(dlsh_ccall *k) {
    const dlsh_cproto *p = k->f->proto;
    dlsh_cformat wanted[DLSH_C_MAX_ARGS];
    dlsh_cspace *c = dlsh_c_space(k->s);
    int n = -1, given = k->n - p->nparams;
    char *format = NULL;
    if (p->format >= 0 && k->given[p->format]) {
        k->failed_at = p->format;
        DLSH_TRY(format_text(k, &format));
        n = dlsh_c_format_types(c, format, p->scanf, wanted, DLSH_C_MAX_ARGS);
        free(format);
        if (n < 0) return dl_failed();
        if (n != given)
            return dlsh_fail(DL_ERR_VALUE, NULL, "the format of %s wants %d argument%s after it, got %d", p->name, n,
                             n == 1 ? "" : "s", given);
    }
    for (int i = 0; i < given; i++) {
        int at = p->nparams + i;
        k->failed_at = at;
        k->types[at] = n >= 0 ? wanted[i].type : dlsh_c_promoted(c, *k->given[at], dlsh_c_what(k, at));
        if (!k->types[at]) return dl_failed();
        if (n >= 0) DLSH_TRY(check_conversion(k, wanted[i].type, *k->given[at]));
        DLSH_TRY(dlsh_c_convert(k, at, k->types[at], *k->given[at]));
        if (n >= 0 && p->scanf) DLSH_TRY(check_room(k, at, wanted[i].chars));
        if (n >= 0 && !dlsh_c_is_float(k->types[at]) && dlsh_c_size(k->types[at]) < sizeof(int))
            k->types[at] = dlsh_c_basic(DLSH_C_INT); /* chars travel as ints */
    }
    return DL_OK;
}

/* Increases the version of tensors that C may have written to. */
static void touch(const dlsh_ccall *k) {
    for (int i = 0; i < k->n; i++) {
        const dlsh_ctype *t = k->types[i];
        if (!k->given[i] || t->kind != DLSH_C_POINTER || t->base->is_const ||
            (t->base->tag && !strcmp(t->base->tag, "dl_tensor")))
            continue;
        const dlsh_cpointer *p = dlsh_unwrap(*k->given[i], &dlsh_cpointer_class);
        dlsh_value owner = p ? p->owner : *k->given[i];
        if (owner.type == DLSH_TENSOR) dl_touch(owner.as.tensor);
    }
}

static int on_gpu(const dlsh_cfunc *f) {
    const dlsh_clib *lib = dlsh_cfunc_lib(f);
    return lib ? lib->device : 0;
}

/* With `set sync on`: waits for the kernels of a CUDA block's function, so that their faults are reported here. */
static dl_status settle(const dlsh_cfunc *f) {
    int device = dl_device_sync_every_get() ? on_gpu(f) : 0;
    return device ? dl_device_synchronize(device) : DL_OK;
}

/* Finds the function that releases an owned result before the call, so that nothing leaks when there is none. */
static dl_status check_release(const dlsh_cfunc *f) {
    dlsh_clib *lib;
    if (!(f->proto->flags & DLSH_C_OWNED) || release_of(f, &lib)) return DL_OK;
    return dlsh_fail(DL_ERR_NAME, "owned(NAME) names the function that releases it",
                     "the function '%s' that releases the result of %s was not found", f->proto->release,
                     f->proto->name);
}

static dl_status call_out(dlsh_ccall *k, dlsh_value *out) {
    dlsh_cfunc *f = k->f;
    DLSH_TRY(check_release(f));
    dlsh_cstate *state = dlsh_c_state(k->s);
    ffi_cif variable;
    ffi_type *types[DLSH_C_MAX_ARGS];
    dlsh_cslot small[4] = {{0}};
    size_t size = dlsh_c_size(f->proto->type->base);
    char *result = size > sizeof small ? calloc(1, size) : (char *)small;
    if (!result) return dlsh_fail(DL_ERR_MEMORY, NULL, "no memory for a result of %zu bytes", size);
    invocation g = {.cif = &f->cif, .addr = f->addr, .result = result, .args = k->ptrs};
    dl_status st = DL_OK;
    if (f->proto->type->varargs) {
        st = prepare_varargs(k, &variable, types);
        g.cif = &variable;
    } else if (!f->prepared) {
        st = prepare(f);
    }
    if (!st) {
        dl_error_clear();
        flush_before();
        st = dlsh_guard_call(f, invoke, &g);
        state->last_errno = g.err;
        touch(k);
        st = dlsh_c_callback_failure(state, st);
    }
    if (!st) st = settle(f);
    if (!st) st = results(k, result, out);
    if (result != (char *)small) free(result);
    return st;
}

/* Functions that are called for their output: the prompt does not show their result. */
static int prints(const char *name) {
    static const char *const names[] = {"printf", "fprintf", "dprintf", "puts",  "putchar",
                                        "fputs",  "fputc",   "putc",    "fflush"};
    for (size_t i = 0; i < DLSH_COUNT(names); i++)
        if (!strcmp(name, names[i])) return 1;
    return 0;
}

/* free and realloc may get memory that C has allocated, and no other. */
static dl_status may_free(const dlsh_ccall *k) {
    const dlsh_value *v = k->given[0];
    const dlsh_cpointer *p = v ? dlsh_unwrap(*v, &dlsh_cpointer_class) : NULL;
    if (!v || (p && (!p->addr || dlsh_failed(p->owner)))) return DL_OK;
    const char *what = p && p->owner.type != DLSH_TENSOR ? "memory of new(...)" : p ? "a tensor's memory" : dlsh_a(*v);
    return dlsh_fail(DL_ERR_VALUE, "it goes by itself when nothing uses it any more", "%s: C must not release %s",
                     dlsh_c_what(k, 0), what);
}

/* The pointer was released by free, or by a realloc that succeeded. */
static void set_freed(const dlsh_ccall *k, dlsh_value result) {
    dlsh_cpointer *p = k->given[0] ? dlsh_unwrap(*k->given[0], &dlsh_cpointer_class) : NULL;
    const dlsh_cpointer *now = dlsh_unwrap(result, &dlsh_cpointer_class);
    if (!p || !p->addr || (now && !now->addr)) return;
    p->freed = 1;
    p->addr = NULL;
}

/* Refuses functions that return twice, jump to frames that are gone, or end the thread of the session. */
static dl_status refuse(const dlsh_cfunc *f) {
    static const struct {
        const char *name, *why;
    } known[] = {{"setjmp", "comes back twice"},
                 {"_setjmp", "comes back twice"},
                 {"sigsetjmp", "comes back twice"},
                 {"__sigsetjmp", "comes back twice"},
                 {"vfork", "comes back twice"},
                 {"getcontext", "comes back twice"},
                 {"longjmp", "leaves through the shell"},
                 {"siglongjmp", "leaves through the shell"},
                 {"setcontext", "leaves through the shell"},
                 {"pthread_exit", "ends the thread of the session"}};
    for (size_t i = 0; i < DLSH_COUNT(known); i++)
        if (!strcmp(f->proto->name, known[i].name))
            return dlsh_fail(DL_ERR_UNSUPPORTED, "code of a C block can use it, between its own functions and threads",
                             "%s cannot be called from here: it %s", f->proto->name, known[i].why);
    return DL_OK;
}

dl_status dlsh_c_call(dlsh_session *s, dlsh_cfunc *f, const dlsh_callargs *args, dlsh_value *out) {
    dl_status st = DL_OK;
    if (!f->fast) {
        if (!dlsh_cblock_of(f)) DLSH_TRY(refuse(f));
        f->fast = on_gpu(f) ? FAST_NONE : fast_kind(f->proto);
        f->counts = dlsh_c_counts_bytes(f);
        f->prints = prints(f->proto->name);
        f->frees = f->proto->nparams > 0 && (!strcmp(f->proto->name, "free") || !strcmp(f->proto->name, "realloc"));
    }
    if (f->prints) dlsh_set_result_silent(s);
    if (f->fast > 0 && fast(f, args, out, &st)) return st;
    dlsh_cslot slots[DLSH_C_MAX_ARGS], boxes[DLSH_C_MAX_ARGS];
    void *ptrs[DLSH_C_MAX_ARGS];
    const dlsh_ctype *types[DLSH_C_MAX_ARGS];
    const dlsh_value *given[DLSH_C_MAX_ARGS];
    dlsh_value owners[DLSH_C_MAX_ARGS];
    int source[DLSH_C_MAX_ARGS];
    dlsh_ccall k = {s, f, 0, slots, ptrs, types, given, boxes, owners, -1};
    *out = dlsh_void();
    st = gather(&k, args, source);
    int begun = !st;
    if (!st) st = fixed_arguments(&k);
    if (!st && (k.n > f->proto->nparams || f->proto->format >= 0)) st = variable_arguments(&k);
    if (!st && f->counts) st = dlsh_c_check_bytes(&k);
    if (!st && f->frees && (st = may_free(&k))) k.failed_at = 0;
    if (st && k.failed_at >= 0 && given[k.failed_at]) dlsh_set_failed_arg(s, source[k.failed_at]);
    if (!st) st = call_out(&k, out);
    if (!st && f->frees) set_freed(&k, *out);
    if (!begun) return st;
    for (int i = 0; i < k.n; i++) dlsh_drop(owners[i]);
    dlsh_c_closures_end(dlsh_c_state(s), &k);
    return st;
}
