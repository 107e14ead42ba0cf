/* Iteration over values, and their lengths. */
#include <string.h>

#include "lang/eval/interp.h"

/* ---------------------------------------------------------------- iterating */

static long range_length(const dlsh_range *r) {
    if (r->step > 0) return r->to > r->from ? (r->to - r->from - 1) / r->step + 1 : 0;
    return r->from > r->to ? (r->from - r->to - 1) / -r->step + 1 : 0;
}

dl_status dlsh_length(dlsh_value v, long *out) {
    switch (v.type) {
    case DLSH_STR: *out = (long)v.as.str->len; return DL_OK;
    case DLSH_LIST: *out = v.as.list->n; return DL_OK;
    case DLSH_RECORD: *out = v.as.record->n; return DL_OK;
    case DLSH_RANGE: *out = range_length(v.as.range); return DL_OK;
    case DLSH_TENSOR:
        if (dl_ndim(v.as.tensor) == 0)
            return dlsh_fail(DL_ERR_TYPE, "its value is x.item()", "a 0-d tensor has no length");
        *out = dl_shape(v.as.tensor)[0];
        return DL_OK;
    case DLSH_HANDLE:
        if (v.as.handle->cls->len) return v.as.handle->cls->len(v.as.handle->self, out);
        break;
    default: break;
    }
    return dlsh_fail(DL_ERR_TYPE, NULL, "%s has no length", dlsh_a(v));
}

dlsh_value dlsh_letter(dlsh_session *s, char c) {
    dlsh_str **kept = &s->letters[(unsigned char)c];
    if (*kept) return dlsh_ref((dlsh_value){DLSH_STR, {.str = *kept}});
    dlsh_value v = dlsh_string_n(&c, 1);
    if (!dlsh_failed(v)) *kept = dlsh_ref(v).as.str;
    return v;
}

dl_status dlsh_iter_begin(dlsh_session *s, dlsh_value over, dlsh_iter *it) {
    *it = (dlsh_iter){.over = dlsh_void()};
    if (over.type == DLSH_HANDLE) {
        const dlsh_class *c = over.as.handle->cls;
        if (c->iterate) return c->iterate(s, over.as.handle->self, &it->over);
        if (!c->next) return dlsh_fail(DL_ERR_TYPE, NULL, "a %s has no elements to go over", c->name);
    } else if (over.type == DLSH_INT)
        return dlsh_fail(DL_ERR_TYPE, "write for i in range(n) { ... }", "an int has no elements to go over");
    else if (over.type < DLSH_STR || over.type > DLSH_RANGE)
        return dlsh_fail(DL_ERR_TYPE, NULL, "%s has no elements to go over", dlsh_a(over));
    else
        DLSH_TRY(dlsh_length(over, &it->n));
    it->over = dlsh_ref(over);
    return DL_OK;
}

static dlsh_value part_of(const dlsh_record *r, long i, dlsh_part part) {
    if (part == DLSH_VALUES) return dlsh_ref(r->values[i]);
    dlsh_value key = dlsh_string(r->keys[i]);
    return part == DLSH_KEYS ? key : DLSH_LIST_OF(key, dlsh_ref(r->values[i]));
}

dl_status dlsh_iter_next(dlsh_session *s, dlsh_iter *it, dlsh_value *out, int *done) {
    dlsh_value v = it->over;
    DLSH_TRY(dlsh_check_interrupt());
    if (v.type == DLSH_HANDLE) {
        const dlsh_class *c = v.as.handle->cls;
        *done = 0;
        if (c->next) return c->next(s, v.as.handle->self, out, done);
        return dlsh_fail(DL_ERR_INTERNAL, NULL, "the iterator of a %s gives nothing", c->name);
    }
    if (v.type == DLSH_LIST) it->n = v.as.list->n; /* it may grow or shrink meanwhile */
    if (v.type == DLSH_RECORD) it->n = v.as.record->n;
    *done = it->at >= it->n;
    if (*done) return DL_OK;
    long i = it->at++;
    switch (v.type) {
    case DLSH_RANGE: *out = dlsh_int(v.as.range->from + i * v.as.range->step); return DL_OK;
    case DLSH_LIST: *out = dlsh_ref(v.as.list->items[i]); return DL_OK;
    case DLSH_RECORD: *out = part_of(v.as.record, i, it->part); break;
    case DLSH_STR: *out = dlsh_letter(s, v.as.str->s[i]); break;
    default: return dlsh_tensor_at(v.as.tensor, i, out);
    }
    return dlsh_failed(*out) ? DL_ERR_MEMORY : DL_OK;
}

void dlsh_iter_end(dlsh_iter *it) {
    dlsh_drop(it->over);
    it->over = dlsh_void();
}
