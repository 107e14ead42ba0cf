/* JSON text to values. */
#include "lang/json.h"

#include "lang/eval/args.h"

static dlsh_value value_of(const json_t *j);

static dlsh_value list_of(const json_t *j) {
    size_t n = json_array_size(j);
    dlsh_value list = dlsh_new_list((long)n), out;
    dl_status st = dlsh_failed(list) ? dl_failed() : DL_OK;
    for (size_t i = 0; i < n && !st && !dlsh_interrupted_at((long)i); i++)
        st = dlsh_append(list, value_of(json_array_get(j, i)));
    return dlsh_give_filled(st, list, &out) ? dlsh_void() : out;
}

static dlsh_value record_of(const json_t *j) {
    const char *key;
    json_t *field;
    dlsh_value r = dlsh_new_record(), out;
    dl_status st = dlsh_failed(r) ? dl_failed() : DL_OK;
    json_object_foreach((json_t *)j, key, field) {
        if (!st) st = dlsh_record_fill(r, &(dlsh_entry){key, value_of(field)}, 1);
    }
    return dlsh_give_filled(st, r, &out) ? dlsh_void() : out;
}

/* VOID: a recorded failure. */
static dlsh_value value_of(const json_t *j) {
    switch (json_typeof(j)) {
    case JSON_OBJECT: return record_of(j);
    case JSON_ARRAY: return list_of(j);
    case JSON_STRING: return dlsh_string_n(json_string_value(j), json_string_length(j));
    case JSON_INTEGER: return dlsh_int((long)json_integer_value(j));
    case JSON_REAL: return dlsh_float(json_real_value(j));
    case JSON_TRUE: return dlsh_bool(1);
    case JSON_FALSE: return dlsh_bool(0);
    default: return dlsh_none();
    }
}

dl_status dlsh_json_parse(const dlsh_args *a, dlsh_value *result) {
    const dlsh_str *text = dlsh_arg(a, "x")->as.str;
    json_error_t e;
    DLSH_ENDED(json_decref) json_t *j = json_loadb(text->s, text->len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
    if (!j)
        return dlsh_arg_fail(a, "x", DL_ERR_VALUE, "to_json(x) writes a string as JSON",
                             "this is not JSON: line %d, column %d: %s", e.line, e.column, e.text);
    return dlsh_give(value_of(j), result);
}
