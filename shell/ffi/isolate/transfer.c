/* Transfers values to a helper process and back. */
#include "ffi/isolate/transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const dlsh_cparam *dlsh_transfer_param(const dlsh_cproto *p, int i) {
    for (int k = 0; k < p->nparams; k++)
        if (!(p->params[k].flags & DLSH_C_OUT) && !i--) return &p->params[k];
    return NULL;
}

const dlsh_ctype *dlsh_transfer_result(const dlsh_cproto *p, int i) {
    if (p->type->base->kind != DLSH_C_VOID && !i--) return p->type->base;
    for (int k = 0; k < p->nparams; k++)
        if (p->params[k].flags & (DLSH_C_OUT | DLSH_C_INOUT) && !i--) return p->params[k].type->base;
    return NULL;
}

/* ---------------------------------------------------------------- what cannot go */

/* Looks for an address other than NULL in an object: the name of its field, "" when it has none; NULL: there is none.
 * */
static const char *address_in(const dlsh_ctype *t, const char *at) {
    const char *found = NULL;
    t = t->plain;
    if (t->kind == DLSH_C_POINTER) {
        void *p;
        memcpy(&p, at, sizeof p);
        return p ? "" : NULL;
    }
    if (t->kind == DLSH_C_ARRAY)
        for (long i = 0; i < t->n && !found; i++) found = address_in(t->base, at + i * (long)dlsh_c_size(t->base));
    for (long i = 0; dlsh_c_is_struct(t) && i < t->n && !found; i++) {
        const dlsh_cfield *f = &t->fields[i];
        if (!f->bits && (found = address_in(f->type, at + f->offset)) && !*found && f->name) found = f->name;
    }
    return found;
}

static dl_status has_address(const dlsh_ctype *t, const char *field) {
    return dlsh_fail(DL_ERR_TYPE, "numbers and arrays of them can go there; pointers only as arguments",
                     "%s holds an address%s%s, which means nothing in another process", dlsh_c_name(t),
                     *field ? " in its field " : "", field);
}

/* Fails when one of n elements holds an address. */
static dl_status check_memory(const dlsh_ctype *t, const char *at, long n) {
    size_t size = dlsh_c_size(t);
    DLSH_FREED char *copy = malloc(size + 1);
    dl_status st = copy ? DL_OK : dlsh_no_memory("a call in a helper");
    for (long i = 0; i < n && !st && size; i++) {
        const char *field = NULL;
        if (!dlsh_c_read_memory(at + i * (long)size, copy, size))
            st = dlsh_c_unreadable(at + i * (long)size);
        else if ((field = address_in(t, copy)))
            st = has_address(t, field);
        if (dlsh_c_is_integer(t) || dlsh_c_is_float(t)) break; /* numbers hold no addresses */
    }
    return st;
}

/* A struct with a flexible array is transferred with all of its memory. */
static dl_status measure_flexible(const dlsh_cpointer *p, const dlsh_ctype *t, dlsh_cpart *part) {
    const dlsh_cfield *f = dlsh_c_is_struct(t) && t->n ? &t->fields[t->n - 1] : NULL;
    if (!f || f->type->kind != DLSH_C_ARRAY || f->type->n >= 0) return DL_OK;
    long bytes = dlsh_c_extent(p->owner, p->addr);
    if (bytes < 0)
        return dlsh_fail(DL_ERR_TYPE, "new(\"struct s\", record(...)) is memory that can go to a helper",
                         "%s: how many elements its field %s has is not known", dlsh_c_name(p->type), f->name);
    part->bytes = (size_t)bytes;
    long size = (long)dlsh_c_size(f->type->base);
    return size ? check_memory(f->type->base, p->addr + f->offset, (bytes - (long)f->offset) / size) : DL_OK;
}

/* Fails for structs that libffi cannot describe by their fields. */
static dl_status check_by_value(const dlsh_ctype *t) {
    int bits = t->custom_layout;
    for (long i = 0; i < t->n; i++) bits |= t->fields[i].bits != 0;
    return bits ? dlsh_fail(DL_ERR_UNSUPPORTED, "pass a pointer to it",
                            "%s has a layout of its own: it does not go to a helper by value", dlsh_c_name(t))
                : DL_OK;
}

/* ---------------------------------------------------------------- memory there and back */

static dl_status measure_pointer(const dlsh_cparam *param, const dlsh_cpointer *p, dlsh_cpart *part) {
    const dlsh_ctype *t = p->type->base->plain;
    if (!p->addr) return DL_OK;
    if (p->n < 0 || !dlsh_c_size(t))
        return dlsh_fail(DL_ERR_TYPE, "new(\"T[n]\") is memory that can go to a helper",
                         "%s: how much it points to is not known, so it cannot go to another process",
                         dlsh_c_name(p->type));
    DLSH_TRY(check_memory(t, p->addr, p->n));
    int writes = !param || param->type->kind != DLSH_C_POINTER || !param->type->base->is_const;
    if (writes) DLSH_TRY(dlsh_c_may_write(p->owner));
    *part = (dlsh_cpart){.bytes = (size_t)p->n * dlsh_c_size(t), .data = p->addr, .written = writes};
    return measure_flexible(p, t, part);
}

static dl_status measure_struct(const dlsh_cparam *param, const dlsh_cstruct *x, dlsh_cpart *part) {
    int by_pointer = param && param->type->kind == DLSH_C_POINTER;
    if (!by_pointer) DLSH_TRY(check_by_value(x->type->plain));
    DLSH_TRY(check_memory(x->type->plain, x->data, 1));
    *part = (dlsh_cpart){
        .bytes = dlsh_c_size(x->type), .data = x->data, .written = by_pointer && !param->type->base->is_const};
    return DL_OK;
}

static dl_status measure_tensor(const dlsh_cparam *param, dlsh_value v, dlsh_cpart *part) {
    const dl_tensor *t = v.as.tensor;
    int writes = !param || param->type->kind != DLSH_C_POINTER || !param->type->base->is_const;
    if (!dl_is_contiguous(t))
        return dlsh_fail(DL_ERR_TYPE, "x.contiguous() is a copy that is", "only contiguous tensors go to a helper");
    if (writes) DLSH_TRY(dlsh_c_may_write(v));
    *part = (dlsh_cpart){.bytes = (size_t)dl_numel(t) * (size_t)dl_dtype_size(dl_dtype_of(t)),
                         .data = dl_device_of(t) ? NULL : dl_data((dl_tensor *)t),
                         .written = writes};
    return DL_OK;
}

dl_status dlsh_transfer_measure(const dlsh_cproto *p, const dlsh_callargs *args, dlsh_cpart *parts, size_t *size) {
    *size = 0;
    for (int i = 0; i < args->n; i++) {
        dlsh_value v = args->values[i];
        const dlsh_cparam *param = dlsh_transfer_param(p, i);
        const dlsh_cpointer *pointer = dlsh_unwrap(v, &dlsh_cpointer_class);
        const dlsh_cstruct *x = dlsh_unwrap(v, &dlsh_cstruct_class);
        dl_status st = DL_OK;
        parts[i] = (dlsh_cpart){0};
        if (v.type == DLSH_TENSOR)
            st = measure_tensor(param, v, &parts[i]);
        else if (pointer)
            st = measure_pointer(param, pointer, &parts[i]);
        else if (x)
            st = measure_struct(param, x, &parts[i]);
        else if (param && dlsh_c_is_struct(param->type)) /* a record or list of its fields */
            st = check_by_value(param->type->plain);
        if (st) return st;
        parts[i].at = *size;
        *size += (parts[i].bytes + 63) & ~(size_t)63;
    }
    return DL_OK;
}

dl_status dlsh_transfer_share(dlsh_value v, const dlsh_cpart *part, char *memory) {
    if (!part->bytes) return DL_OK;
    if (!part->data) return dl_read(v.as.tensor, memory + part->at);
    return dlsh_c_read_memory(part->data, memory + part->at, part->bytes) ? DL_OK : dlsh_c_unreadable(part->data);
}

/* Assigns changed bytes to a tensor on an accelerator. */
static dl_status assign(dl_tensor *t, const char *bytes) {
    DLSH_OWNED dl_tensor *host = dl_tensor_wrap(dl_ndim(t), dl_shape(t), dl_dtype_of(t), (void *)bytes, NULL, NULL);
    DLSH_OWNED dl_tensor *there = host ? dl_to_device(host, dl_device_of(t)) : NULL;
    return there ? dl_assign(t, there) : dl_failed();
}

dl_status dlsh_transfer_copy_back(dlsh_value v, const dlsh_cpart *part, const char *memory) {
    if (!part->bytes || !part->written) return DL_OK;
    if (!part->data) return assign(v.as.tensor, memory + part->at);
    if (!dlsh_c_write_memory(part->data, memory + part->at, part->bytes))
        return dlsh_fail(DL_ERR_VALUE, NULL, "there is no memory at address %p any more", part->data);
    const dlsh_cpointer *p = dlsh_unwrap(v, &dlsh_cpointer_class);
    if (v.type == DLSH_TENSOR) dl_touch(v.as.tensor);
    if (p && p->owner.type == DLSH_TENSOR) dl_touch(p->owner.as.tensor);
    return DL_OK;
}

/* ---------------------------------------------------------------- JSON */

static json_t *hex(const void *data, size_t n) {
    static const char digits[] = "0123456789abcdef";
    const unsigned char *bytes = data;
    DLSH_FREED char *text = malloc(2 * n + 1);
    if (!text) return dlsh_no_memory("a call in a helper"), NULL;
    for (size_t i = 0; i < n; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    return json_stringn_nocheck(text, 2 * n);
}

static int unhex(const json_t *j, void *to, size_t n) {
    const char *s = json_string_value(j);
    if (!s || json_string_length(j) != 2 * n) return 0;
    for (size_t i = 0; i < n; i++) {
        char digits[] = {s[2 * i], s[2 * i + 1], 0}, *end;
        ((unsigned char *)to)[i] = (unsigned char)strtoul(digits, &end, 16);
        if (*end) return 0;
    }
    return 1;
}

static json_t *pack_tensor(dl_tensor *t, const dlsh_cpart *part) {
    json_t *shape = json_array();
    for (int i = 0; i < dl_ndim(t); i++) json_array_append_new(shape, json_integer(dl_shape(t)[i]));
    json_t *j = json_pack("{s:o, s:i, s:i}", "shape", shape, "dtype", (int)dl_dtype_of(t), "device", dl_device_of(t));
    if (part) {
        json_object_set_new(j, "at", json_integer((json_int_t)part->at));
        return j;
    }
    size_t n = (size_t)dl_numel(t) * (size_t)dl_dtype_size(dl_dtype_of(t));
    DLSH_FREED char *bytes = malloc(n + 1);
    if (bytes && !dl_read(t, bytes)) json_object_set_new(j, "bytes", hex(bytes, n));
    return j;
}

static json_t *pack_struct(const dlsh_cstruct *x, const dlsh_cpart *part) {
    if (part) return json_pack("{s:I}", "struct", (json_int_t)part->at);
    char copy[4096];
    size_t n = dlsh_c_size(x->type);
    if (n > sizeof copy || !dlsh_c_struct_bytes(x, copy)) {
        dlsh_fail(DL_ERR_TYPE, NULL, "this %s cannot come from another process", dlsh_c_name(x->type));
        return NULL;
    }
    const char *field = address_in(x->type, copy);
    if (!field) return json_pack("{s:o}", "bytes", hex(copy, n));
    has_address(x->type, field);
    return NULL;
}

static json_t *pack_pointer(const dlsh_cpointer *p, const dlsh_cpart *part) {
    if (!p->addr) return json_pack("{s:b}", "null", 1);
    if (part) return json_pack("{s:I, s:I}", "pointer", (json_int_t)part->at, "n", (json_int_t)p->n);
    dlsh_fail(DL_ERR_TYPE, "give it memory of yours to write to: new(\"T[n]\")",
              "the result, %s, points into the helper's memory, which is gone", dlsh_c_name(p->type));
    return NULL;
}

/* An item of a list or record. `part` as of the whole: arguments hold no memory in their items. */
static json_t *pack_item(dlsh_value v, const dlsh_cpart *part, const char *whole) {
    static const dlsh_cpart nowhere;
    char hint[60];
    if (!part || (v.type != DLSH_TENSOR && v.type != DLSH_HANDLE))
        return dlsh_transfer_to_json(v, part ? &nowhere : NULL);
    snprintf(hint, sizeof hint, "numbers and strings in %ss can", whole);
    dlsh_fail(DL_ERR_TYPE, hint, "%s in a %s cannot go to another process", dlsh_a(v), whole);
    return NULL;
}

static json_t *pack_list(const dlsh_list *list, const dlsh_cpart *part) {
    json_t *l = json_array();
    for (int i = 0; i < list->n; i++) {
        json_t *item = pack_item(list->items[i], part, "list");
        if (!item || json_array_append_new(l, item)) return json_decref(l), NULL;
    }
    return l;
}

static json_t *pack_record(const dlsh_record *r, const dlsh_cpart *part) {
    json_t *fields = json_object();
    for (int i = 0; i < r->n; i++) {
        json_t *item = pack_item(r->values[i], part, "record");
        if (!item || json_object_set_new(fields, r->keys[i], item)) return json_decref(fields), NULL;
    }
    return json_pack("{s:o}", "record", fields);
}

json_t *dlsh_transfer_to_json(dlsh_value v, const dlsh_cpart *part) {
    const dlsh_cpointer *p = dlsh_unwrap(v, &dlsh_cpointer_class);
    const dlsh_cstruct *x = dlsh_unwrap(v, &dlsh_cstruct_class);
    char text[32];
    unsigned long u;
    if (p) return pack_pointer(p, part);
    if (x) return pack_struct(x, part);
    if (dlsh_c_unsigned_of(v, &u)) {
        snprintf(text, sizeof text, "%lu", u);
        return json_pack("{s:s}", "unsigned", text);
    }
    switch (v.type) {
    case DLSH_VOID:
    case DLSH_NONE: return json_null();
    case DLSH_BOOL: return json_boolean(v.as.i);
    case DLSH_INT: return json_integer(v.as.i);
    case DLSH_FLOAT: /* as text: NaN and infinities have no JSON */
        snprintf(text, sizeof text, "%.17g", v.as.f);
        return json_pack("{s:s}", "float", text);
    case DLSH_STR: return json_stringn_nocheck(v.as.str->s, (size_t)v.as.str->len);
    case DLSH_TENSOR: return pack_tensor(v.as.tensor, part);
    case DLSH_LIST: return pack_list(v.as.list, part);
    case DLSH_RECORD: return pack_record(v.as.record, part);
    default:
        dlsh_fail(DL_ERR_TYPE, "numbers, strings, tensors, structs and memory of new(...) can",
                  "%s cannot go to another process, or come from one", dlsh_a(v));
        return NULL;
    }
}

/* ---------------------------------------------------------------- and back */

static dlsh_value open_tensor(const json_t *j, char *memory) {
    long shape[8];
    const json_t *sizes = json_object_get(j, "shape"), *bytes = json_object_get(j, "bytes");
    int ndim = (int)json_array_size(sizes), device = (int)json_integer_value(json_object_get(j, "device"));
    dl_dtype dtype = (dl_dtype)json_integer_value(json_object_get(j, "dtype"));
    for (int i = 0; i < ndim && i < 8; i++) shape[i] = (long)json_integer_value(json_array_get(sizes, (size_t)i));
    if (bytes) {
        size_t n = json_string_length(bytes) / 2;
        DLSH_FREED char *data = malloc(n + 1);
        if (!data) return dlsh_no_memory("a call in a helper"), dlsh_void();
        return unhex(bytes, data, n) ? dlsh_tensor(dl_tensor_from(ndim, shape, dtype, 0, data)) : dlsh_void();
    }
    dl_tensor *t =
        dl_tensor_wrap(ndim, shape, dtype, memory + json_integer_value(json_object_get(j, "at")), NULL, NULL);
    if (!t || !device) return dlsh_tensor(t);
    dl_tensor *there = dl_to_device(t, device);
    dl_unref(t);
    return dlsh_tensor(there);
}

/* The value of transferred memory, as the parameter's type needs it. */
static dlsh_value open_memory(dlsh_session *s, const dlsh_ctype *t, char *at, long n) {
    dlsh_cspace *c = dlsh_c_space(s);
    if (t && dlsh_c_is_struct(t)) return dlsh_c_struct_value(s, t, at);
    if (!t || t->kind != DLSH_C_POINTER) t = dlsh_c_pointer(c, dlsh_c_basic(DLSH_C_VOID));
    return dlsh_c_pointer_value(s, t->plain, at, dlsh_void(), t->base->kind == DLSH_C_VOID ? -1 : n);
}

static dlsh_value open_struct(dlsh_session *s, const json_t *bytes, const dlsh_ctype *t) {
    char copy[4096];
    if (t && dlsh_c_is_struct(t) && dlsh_c_size(t) <= sizeof copy && unhex(bytes, copy, dlsh_c_size(t)))
        return dlsh_c_struct_value(s, t->plain, copy);
    dlsh_fail(DL_ERR_INTERNAL, NULL, "the helper's answer does not fit the type");
    return dlsh_void();
}

static dlsh_value open_record(dlsh_session *s, const json_t *fields) {
    dlsh_value r = dlsh_new_record();
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)fields, key, item) {
        if (dlsh_failed(r)) break;
        dlsh_value v = dlsh_transfer_from_json(s, item, NULL, NULL);
        if (dlsh_failed(v) || dlsh_record_set(r.as.record, key, v)) {
            dlsh_drop(r);
            return dlsh_void();
        }
    }
    return r;
}

static dlsh_value open_object(dlsh_session *s, const json_t *j, char *memory, const dlsh_ctype *t) {
    const json_t *x;
    if ((x = json_object_get(j, "float"))) return dlsh_float(strtod(json_string_value(x), NULL));
    if ((x = json_object_get(j, "unsigned"))) return dlsh_c_unsigned_value(strtoul(json_string_value(x), NULL, 10));
    if (json_object_get(j, "null")) return open_memory(s, t && t->kind == DLSH_C_POINTER ? t : NULL, NULL, -1);
    if ((x = json_object_get(j, "pointer")))
        return open_memory(s, t, memory + json_integer_value(x), (long)json_integer_value(json_object_get(j, "n")));
    if ((x = json_object_get(j, "struct"))) return open_memory(s, t, memory + json_integer_value(x), 1);
    if ((x = json_object_get(j, "record"))) return open_record(s, x);
    if (json_object_get(j, "shape")) return open_tensor(j, memory);
    return open_struct(s, json_object_get(j, "bytes"), t);
}

dlsh_value dlsh_transfer_from_json(dlsh_session *s, const json_t *j, char *memory, const dlsh_ctype *t) {
    switch (json_typeof(j)) {
    case JSON_TRUE: return dlsh_bool(1);
    case JSON_FALSE: return dlsh_bool(0);
    case JSON_INTEGER: return dlsh_int((long)json_integer_value(j));
    case JSON_STRING: return dlsh_string_n(json_string_value(j), json_string_length(j));
    case JSON_OBJECT: return open_object(s, j, memory, t);
    case JSON_ARRAY: {
        dlsh_value l = dlsh_new_list(json_array_size(j));
        for (size_t i = 0; i < json_array_size(j) && !dlsh_failed(l); i++)
            if (dlsh_list_push(l.as.list, dlsh_transfer_from_json(s, json_array_get(j, i), memory, NULL))) break;
        return l;
    }
    default: return dlsh_none();
    }
}
