/* Functions for C's memory: new, cast, sizeof, and the methods of pointers. */
#include <stdlib.h>
#include <string.h>

#include "ffi/inside.h"

/* A type argument given as text. */
static const dlsh_ctype *type_arg(const dlsh_args *a, const char *name) {
    dlsh_cspace *c = dlsh_c_space(dlsh_arg_session(a));
    const char *text = dlsh_arg_str(a, name);
    dlsh_cerror e;
    if (!c) {
        dlsh_arg_fail(a, name, DL_ERR_UNSUPPORTED, NULL, "this session cannot call C");
        return NULL;
    }
    const dlsh_ctype *t = dlsh_c_parse_type(c, text, strlen(text), &e);
    if (!t) dlsh_arg_fail(a, name, DL_ERR_TYPE, e.hint, "\"%s\" is not C type: %s", text, e.message);
    return t;
}

/* ---------------------------------------------------------------- new */

static dl_status sized(const dlsh_args *a, const dlsh_ctype *t) {
    int function = t->kind == DLSH_C_FUNCTION;
    if (t->kind == DLSH_C_VOID || function)
        return dlsh_arg_fail(a, "type", DL_ERR_TYPE, function ? "a pointer to it has one" : "void * has one",
                             "%s has no size", dlsh_c_name(t));
    if (dlsh_c_size(t) && (!dlsh_c_is_struct(t) || t->plain->laid_out)) return DL_OK;
    return dlsh_arg_fail(a, "type", DL_ERR_TYPE,
                         dlsh_c_is_struct(t)       ? "declare or import the struct with its fields"
                         : t->kind == DLSH_C_ARRAY ? "write its length: \"int[10]\""
                                                   : NULL,
                         "the size of %s is not known", dlsh_c_name(t));
}

/* The length of T[] for a value; a string needs one more for its NUL. */
static long open_length(dlsh_value v) {
    return v.type == DLSH_STR ? (long)v.as.str->len + 1 : v.type == DLSH_LIST ? v.as.list->n : -1;
}

/* The flexible array at the end of a struct; NULL: it has none. */
static const dlsh_cfield *flexible(const dlsh_ctype *t) {
    const dlsh_cfield *f = dlsh_c_is_struct(t) && t->plain->n ? &t->plain->fields[t->plain->n - 1] : NULL;
    return f && f->name && f->type->kind == DLSH_C_ARRAY && f->type->n < 0 ? f : NULL;
}

/* The value for the flexible array in a record or list; NULL: none. */
static const dlsh_value *flexible_value(const dlsh_ctype *t, const dlsh_value *v) {
    const dlsh_cfield *f = flexible(t);
    if (f && v && v->type == DLSH_RECORD) return dlsh_record_get(v->as.record, f->name);
    return f && v && v->type == DLSH_LIST && v->as.list->n == t->plain->n ? &v->as.list->items[t->plain->n - 1] : NULL;
}

/* The value without its last field. */
static dlsh_value without_flexible(const dlsh_ctype *t, dlsh_value v) {
    dlsh_value copy = v.type == DLSH_RECORD ? dlsh_new_record() : dlsh_new_list(t->plain->n);
    dl_status st = dlsh_failed(copy) ? DL_ERR_MEMORY : DL_OK;
    for (int i = 0; !st && v.type == DLSH_RECORD && i < v.as.record->n; i++)
        if (strcmp(v.as.record->keys[i], flexible(t)->name))
            st = dlsh_record_set(copy.as.record, v.as.record->keys[i], dlsh_ref(v.as.record->values[i]));
    for (int i = 0; !st && v.type == DLSH_LIST && i < v.as.list->n - 1; i++)
        st = dlsh_list_push(copy.as.list, dlsh_ref(v.as.list->items[i]));
    if (!st) return copy;
    dlsh_drop(copy);
    return dlsh_void();
}

/* Fills new memory, the flexible array last. */
static dl_status fill(dlsh_session *s, const dlsh_ctype *t, const dlsh_value *v, dlsh_value owner, char *addr) {
    const dlsh_value *more = flexible_value(t, v);
    if (!more) return dlsh_c_store_in(s, t, *v, owner, addr, addr);
    DLSH_DROPPED dlsh_value rest = without_flexible(t, *v);
    DLSH_TRY(dlsh_failed(rest) ? DL_ERR_MEMORY : dlsh_c_store_in(s, t, rest, owner, addr, addr));
    return dlsh_c_set_field(s, t, addr, owner, flexible(t)->name, *more);
}

static dl_status new_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_ctype *t = type_arg(a, "type");
    const dlsh_value *v = dlsh_arg(a, "value");
    dlsh_session *s = dlsh_arg_session(a);
    char *addr;
    if (!t) return DL_ERR_TYPE;
    int array = t->kind == DLSH_C_ARRAY;
    long n = !array ? 1 : t->n >= 0 ? t->n : v ? open_length(*v) : -1;
    const dlsh_ctype *of = array ? t->base : t;
    if (n < 0)
        return dlsh_arg_fail(a, "type", DL_ERR_VALUE, "new(\"int[10]\"), or new(\"int[]\", [1, 2, 3])",
                             "how many elements should \"%s\" have?", dlsh_arg_str(a, "type"));
    DLSH_TRY(sized(a, of));
    const dlsh_value *more = array ? NULL : flexible_value(of, v);
    long extra = more ? open_length(*more) * (long)dlsh_c_size(flexible(of)->type->base) : 0;
    DLSH_DROPPED dlsh_value made = dlsh_c_new_memory(s, of, n, extra > 0 ? extra : 0, &addr);
    const dlsh_cpointer *p = dlsh_unwrap(made, &dlsh_cpointer_class);
    if (!p) return dl_failed();
    if (v) DLSH_TRY(fill(s, array ? dlsh_c_array(dlsh_c_space(s), of->plain, n) : of->plain, v, p->owner, addr));
    return dlsh_hand_over(&made, result);
}

/* ---------------------------------------------------------------- cast */

static dl_status cast_to_int(const dlsh_args *a, const dlsh_ctype *t, dlsh_value v, dlsh_value *out) {
    const dlsh_cpointer *p = dlsh_unwrap(v, &dlsh_cpointer_class);
    long i = 0;
    unsigned long u;
    if (p)
        i = (long)p->addr;
    else if (dlsh_c_unsigned_of(v, &u))
        i = (long)u;
    else if (v.type == DLSH_INT || v.type == DLSH_BOOL)
        i = v.as.i;
    else if (v.type == DLSH_FLOAT && v.as.f >= -0x1p63 && v.as.f < 0x1p63)
        i = (long)v.as.f;
    else if (v.type == DLSH_FLOAT)
        return dlsh_arg_fail(a, "value", DL_ERR_VALUE, NULL, "no integer of C holds %g", v.as.f);
    else
        return dlsh_arg_fail(a, "value", DL_ERR_TYPE, NULL, "%s cannot be cast to %s", dlsh_a(v), dlsh_c_name(t));
    return dlsh_c_load(dlsh_arg_session(a), t, &i, out); /* cut off as C cuts */
}

static dl_status released(const dlsh_args *a, const dlsh_cpointer *p) {
    return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, NULL, "the memory behind this %s was released with free",
                         dlsh_c_name(p->type));
}

static dl_status cast_to_pointer(const dlsh_args *a, const dlsh_ctype *t, dlsh_value v, dlsh_value *out) {
    const dlsh_cpointer *p = dlsh_unwrap(v, &dlsh_cpointer_class);
    const dlsh_cstruct *x = dlsh_unwrap(v, &dlsh_cstruct_class);
    dlsh_value owner = p ? p->owner : x ? x->owner : v.type == DLSH_INT ? dlsh_void() : v;
    long bytes = -1, size = (long)dlsh_c_size(t->base);
    void *addr;
    if (p && p->freed) return released(a, p);
    if (p) {
        addr = p->addr;
        bytes = p->n < 0 ? dlsh_c_extent(p->owner, p->addr) : p->n * (long)dlsh_c_size(p->type->base);
    } else if (x) {
        addr = x->data;
        bytes = (long)dlsh_c_size(x->type);
    } else if (dlsh_cfunc_of(v)) {
        addr = dlsh_cfunc_of(v)->addr;
    } else if (v.type == DLSH_TENSOR) {
        dl_tensor *tensor = v.as.tensor;
        if (dl_device_of(tensor) || !dl_is_contiguous(tensor))
            return dlsh_arg_fail(a, "value", DL_ERR_VALUE, NULL,
                                 "a pointer to a tensor's elements needs a contiguous tensor on the CPU");
        addr = dl_data(tensor);
        bytes = dl_numel(tensor) * dl_dtype_size(dl_dtype_of(tensor));
    } else if (v.type == DLSH_INT) {
        addr = (void *)v.as.i;
    } else {
        return dlsh_arg_fail(a, "value", DL_ERR_TYPE, NULL, "%s cannot be cast to %s", dlsh_a(v), dlsh_c_name(t));
    }
    long n = bytes < 0 || !size ? -1 : bytes / size;
    return dlsh_give(dlsh_c_pointer_value(dlsh_arg_session(a), t->plain, addr, dlsh_ref(owner), n), out);
}

static dl_status cast_to_function(const dlsh_args *a, const dlsh_ctype *t, dlsh_value v, dlsh_value *out) {
    const dlsh_cpointer *p = dlsh_unwrap(v, &dlsh_cpointer_class);
    const dlsh_cfunc *f = dlsh_cfunc_of(v);
    void *addr = p ? p->addr : f ? f->addr : NULL;
    if (!addr)
        return dlsh_arg_fail(a, "value", DL_ERR_TYPE, NULL, "%s cannot be cast to %s", dlsh_a(v), dlsh_c_name(t));
    return dlsh_give(dlsh_c_unnamed_function(dlsh_arg_session(a), t->base, addr), out);
}

static dl_status cast_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_ctype *t = type_arg(a, "type");
    dlsh_value v = *dlsh_arg(a, "value");
    if (!t) return DL_ERR_TYPE;
    if (t->kind == DLSH_C_POINTER && t->base->kind == DLSH_C_FUNCTION) return cast_to_function(a, t, v, result);
    if (t->kind == DLSH_C_POINTER) return cast_to_pointer(a, t, v, result);
    if (dlsh_c_is_integer(t)) return cast_to_int(a, t, v, result);
    if (dlsh_c_is_float(t) && dlsh_is_number(v)) {
        *result = dlsh_float(t->kind == DLSH_C_FLOAT ? (double)(float)dlsh_number(v) : dlsh_number(v));
        return DL_OK;
    }
    return dlsh_arg_fail(a, "value", DL_ERR_TYPE, NULL, "%s cannot be cast to %s", dlsh_a(v), dlsh_c_name(t));
}

static dl_status sizeof_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_ctype *t = type_arg(a, "type");
    if (!t) return DL_ERR_TYPE;
    DLSH_TRY(sized(a, t));
    *result = dlsh_int((long)dlsh_c_size(t));
    return DL_OK;
}

/* ---------------------------------------------------------------- methods of pointers */

static long count_arg(const dlsh_args *a, const dlsh_cpointer *p) {
    const dlsh_value *n = dlsh_arg(a, "n");
    if (n && n->as.i >= 0 && (p->n < 0 || n->as.i <= p->n)) return n->as.i;
    if (!n && p->n >= 0) return p->n;
    if (!n)
        dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "give their number", "the number of elements behind this %s is not known",
                      dlsh_c_name(p->type));
    else
        dlsh_arg_fail(a, "n", DL_ERR_INDEX, NULL,
                      n->as.i < 0 ? "%ld elements cannot be" : "%ld elements are more than the %ld there", n->as.i,
                      p->n);
    return -1;
}

static dl_status no_memory_there(const dlsh_args *a, const void *at) {
    return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, NULL, "there is no memory at address %p", at);
}

static dl_status string_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_cpointer *p = dlsh_arg_self(a);
    const dlsh_value *n = dlsh_arg(a, "n");
    char c;
    if (p->type->base->size > 1 || p->type->base->kind == DLSH_C_FUNCTION)
        return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, "cast(\"char *\", p).string()", "this %s points to no characters",
                             dlsh_c_name(p->type));
    if (p->freed) return released(a, p);
    long limit = n ? count_arg(a, p) : p->n;
    if (n && limit < 0) return dl_failed();
    if (!p->addr || !dlsh_c_read_memory(p->addr, &c, limit != 0)) return no_memory_there(a, p->addr);
    size_t len = n ? (size_t)limit : dlsh_c_strlen(p->addr, limit < 0 ? (size_t)-1 : (size_t)limit);
    DLSH_FREED char *copy = malloc(len + 1);
    if (!copy) return dlsh_arg_fail(a, NULL, DL_ERR_MEMORY, NULL, "no memory for %zu characters", len);
    if (dlsh_c_read_memory(p->addr, copy, len)) *result = dlsh_string_n(copy, len);
    return dlsh_failed(*result) ? no_memory_there(a, p->addr) : DL_OK;
}

static dl_status list_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_cpointer *p = dlsh_arg_self(a);
    long n = count_arg(a, p);
    return n < 0 ? dl_failed() : dlsh_c_pointer_list(p, n, result);
}

static dl_status tensor_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_cpointer *p = dlsh_arg_self(a);
    long n = count_arg(a, p);
    dl_dtype d;
    if (n < 0) return dl_failed();
    const char *dtype = p->type->base->kind == DLSH_C_VOID ? NULL : dlsh_c_dtype_of(p->type->base);
    if (!dtype || dl_dtype_parse(dtype, &d))
        return dlsh_arg_fail(a, NULL, DL_ERR_DTYPE, "cast(\"float *\", p).tensor(n)", "there are no tensors of %s",
                             dlsh_c_name(p->type->base));
    n = n * (long)dlsh_c_size(p->type->base) / dl_dtype_size(d);
    dl_tensor *t = dl_tensor_empty(1, &n, d, 0);
    if (!t) return dl_failed();
    if (!dlsh_c_read_memory(p->addr, dl_data(t), (size_t)(n * dl_dtype_size(d)))) {
        dl_unref(t);
        return no_memory_there(a, p->addr);
    }
    *result = dlsh_tensor(t);
    return DL_OK;
}

static dl_status offset_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_cpointer *p = dlsh_arg_self(a);
    long i = dlsh_arg_int(a, "n"), size = (long)dlsh_c_size(p->type->base);
    if (p->n >= 0 && (i < 0 || i > p->n))
        return dlsh_arg_fail(a, "n", DL_ERR_INDEX, NULL, "an offset of %ld leads outside the %ld elements", i, p->n);
    long far;
    if (__builtin_mul_overflow(i, size ? size : 1, &far))
        return dlsh_arg_fail(a, "n", DL_ERR_INDEX, NULL, "an offset of %ld is beyond all memory", i);
    char *at = (char *)((unsigned long)p->addr + (unsigned long)far);
    return dlsh_give(
        dlsh_c_pointer_value(dlsh_arg_session(a), p->type, at, dlsh_ref(p->owner), p->n < 0 ? -1 : p->n - i), result);
}

static const dlsh_param maybe_count[] = {
    {"n", .want = "int", .flags = DLSH_OPTIONAL, .doc = "How many; needed where the pointer does not know."}, {0}};

const dlsh_command dlsh_cpointer_methods[] = {
    DLSH_FN_ROW("string", string_run, "p.string([n])", "The characters up to a NUL, or n of them, copied.",
                .params = maybe_count, .examples = "new(\"char[]\", \"abc\").string()"),
    DLSH_FN_ROW("list", list_run, "p.list([n])", "The elements as a list.", .params = maybe_count,
                .examples = "new(\"int[]\", [1, 2]).list()"),
    DLSH_FN_ROW("tensor", tensor_run, "p.tensor([n])", "The elements copied into a tensor.", .params = maybe_count,
                .examples = "new(\"float[]\", [1, 2]).tensor()"),
    DLSH_FN_ROW("offset", offset_run, "p.offset(n)", "The pointer n elements further, as p + n in C.",
                DLSH_PARAMS({"n", .want = "int", .doc = "How many elements further."}),
                .examples = "new(\"int[]\", [1, 2]).offset(1)[0]"),
    {0}};

/* ---------------------------------------------------------------- rows */

const dlsh_command c_commands[] = {
    DLSH_FN_ROW("new", new_run, "new(TYPE [, VALUE])",
                "Allocates memory for a C object or array and returns a pointer; the memory is freed when no pointer "
                "to it is left. T[] takes its length "
                "from the value.",
                DLSH_PARAMS({"type", .want = "string", .doc = "A C type: \"int[10]\", \"struct tm\"."},
                            {"value", .flags = DLSH_OPTIONAL, .doc = "What it holds at first; zeros."}),
                .examples = "p = new(\"int[3]\", [1, 2, 3])\nnew(\"char[]\", \"text\")"),
    DLSH_FN_ROW("cast", cast_run, "cast(TYPE, VALUE)",
                "A value as another C type: a pointer, an address as an int, a number truncated as C does, a tensor's "
                "elements as a pointer.",
                DLSH_PARAMS({"type", .want = "string", .doc = "A C type: \"double *\"."},
                            {"value", .doc = "A pointer, number, tensor or C function."}),
                .examples = "cast(\"unsigned char *\", new(\"int\", 1))[0]\ncast(\"unsigned char\", 300)"),
    DLSH_FN_ROW("sizeof", sizeof_run, "sizeof(TYPE)", "Bytes of a C type.",
                DLSH_PARAMS({"type", .want = "string", .doc = "A C type."}), .examples = "sizeof(\"long\")"),
    {0}};
