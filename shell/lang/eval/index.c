/* x[...] on lists, strings, records, ranges and handles; tensors have a file of their own. */
#include <stdio.h>
#include <string.h>

#include "lang/eval/quick.h"

/* ---------------------------------------------------------------- positions */

/* i counted from the end when negative; DL_ERR_INDEX outside [0, n). */
static dl_status position(dlsh_value key, long n, const char *what, long *out) {
    if (key.type != DLSH_INT)
        return dlsh_fail(DL_ERR_TYPE,
                         key.type == DLSH_STR     ? "records have names for their values: {a: 1}[\"a\"]"
                         : key.type == DLSH_FLOAT ? "int(x) drops the fraction; // divides to a whole number"
                                                  : NULL,
                         "the index of a %s must be an int or a slice, got %s", what, dlsh_a(key));
    long i = key.as.i < 0 ? key.as.i + n : key.as.i;
    if (i < 0 || i >= n)
        return dlsh_fail(DL_ERR_INDEX, n ? NULL : "it is empty", "index %ld is outside a %s of %ld", key.as.i, what, n);
    *out = i;
    return DL_OK;
}

static dl_status bound(dlsh_session *s, const dlsh_node *n, long dflt, long *out) {
    dlsh_value v;
    *out = dflt;
    if (!n) return DL_OK;
    DLSH_TRY(dlsh_eval(s, n, &v));
    if (v.type == DLSH_NONE) return DL_OK;
    if (v.type != DLSH_INT) {
        dl_status st = dlsh_fail(DL_ERR_TYPE, NULL, "a slice goes from int to int, got %s", dlsh_type_name(v));
        dlsh_drop(v);
        return dlsh_at(s, n, st);
    }
    *out = v.as.i;
    return DL_OK;
}

static long clip(long i, long lo, long hi) { return i < lo ? lo : i > hi ? hi : i; }

/* A slice of x as first index, count and step, clipped as Python clips; by the length that x has when the bounds, which
 * may change it, are known. */
static dl_status slice_of(dlsh_session *s, const dlsh_node *slice, dlsh_value x, long *from, long *count, long *step) {
    const long absent = -(1L << 62);
    long a, b, n;
    DLSH_TRY(bound(s, slice->kids[2], 1, step));
    if (!*step) return dlsh_at(s, slice, dlsh_fail(DL_ERR_VALUE, NULL, "the step of a slice cannot be 0"));
    *step = clip(*step, absent, -absent);
    DLSH_TRY(bound(s, slice->kids[0], absent, &a));
    DLSH_TRY(bound(s, slice->kids[1], absent, &b));
    DLSH_TRY(dlsh_length(x, &n));
    const long lo = *step > 0 ? 0 : -1, hi = *step > 0 ? n : n - 1;
    a = a == absent ? (*step > 0 ? lo : hi) : clip(a < 0 ? a + n : a, lo, hi);
    b = b == absent ? (*step > 0 ? hi : lo) : clip(b < 0 ? b + n : b, lo, hi);
    *from = a;
    *count = *step > 0 ? (b > a ? (b - a - 1) / *step + 1 : 0) : (a > b ? (a - b - 1) / -*step + 1 : 0);
    return DL_OK;
}

/* ---------------------------------------------------------------- reading */

/* The error for a key of a record that is not a string. */
static dl_status no_key(const dlsh_record *r, dlsh_value key) {
    return dlsh_fail(DL_ERR_TYPE,
                     r->n ? "by name: r.name or r[\"name\"]; r.keys() lists the names, r.values() the values"
                          : "it is empty",
                     "a record is indexed by a string, got %s", dlsh_type_name(key));
}

static dl_status no_such_field(const dlsh_record *r, const char *name) {
    const char *nearest = dlsh_nearest(name, (const char *const *)r->keys, r->n);
    char hint[120];
    snprintf(hint, sizeof hint,
             nearest ? "did you mean \"%.80s\"?"
             : r->n  ? "r.keys() lists them"
                     : "it is empty",
             nearest);
    return dlsh_fail(DL_ERR_NAME, hint, "the record has no field '%.200s'", name);
}

dl_status dlsh_index_value(dlsh_session *s, dlsh_value x, dlsh_value key, dlsh_value *out) {
    long i = 0, n;
    if (x.type == DLSH_HANDLE && x.as.handle->cls->index)
        return x.as.handle->cls->index(s, x.as.handle->self, key, out);
    if (x.type == DLSH_RECORD) {
        const dlsh_value *v = key.type == DLSH_STR ? dlsh_record_get_text(x.as.record, key.as.str) : NULL;
        if (key.type != DLSH_STR) return no_key(x.as.record, key);
        if (!v) return no_such_field(x.as.record, key.as.str->s);
        *out = dlsh_ref(*v);
        return DL_OK;
    }
    if (x.type != DLSH_LIST && x.type != DLSH_STR && x.type != DLSH_RANGE)
        return dlsh_fail(DL_ERR_TYPE,
                         dlsh_callable(x)    ? "functions are called with ( )"
                         : dlsh_is_number(x) ? "lists, strings, records and tensors have elements"
                                             : NULL,
                         "%s cannot be indexed", dlsh_a(x));
    DLSH_TRY(dlsh_length(x, &n));
    DLSH_TRY(position(key, n, dlsh_type_name(x), &i));
    if (x.type == DLSH_LIST)
        *out = dlsh_ref(x.as.list->items[i]);
    else if (x.type == DLSH_RANGE)
        *out = dlsh_int(x.as.range->from + i * x.as.range->step);
    else
        *out = dlsh_letter(s, x.as.str->s[i]);
    return dlsh_failed(*out) ? DL_ERR_MEMORY : DL_OK;
}

static dl_status slice_list(const dlsh_list *l, long from, long count, long step, dlsh_value *out) {
    DLSH_DROPPED dlsh_value v = dlsh_new_list(count);
    for (long k = 0; k < count; k++) DLSH_TRY(dlsh_append(v, dlsh_ref(l->items[from + k * step])));
    return dlsh_hand_over(&v, out);
}

static dl_status slice_value(dlsh_session *s, dlsh_value x, const dlsh_node *slice, dlsh_value *out) {
    long from, count, step;
    const dlsh_class *c = x.type == DLSH_HANDLE ? x.as.handle->cls : NULL;
    if (x.type != DLSH_LIST && x.type != DLSH_STR && x.type != DLSH_RANGE && !(c && c->index && c->len))
        return dlsh_fail(DL_ERR_TYPE, NULL, "%s cannot be sliced", dlsh_a(x));
    DLSH_TRY(slice_of(s, slice, x, &from, &count, &step));
    if (c) {
        DLSH_DROPPED dlsh_value range = dlsh_new_range(from, from + count * step, step);
        if (dlsh_failed(range)) return DL_ERR_MEMORY;
        return c->index(s, x.as.handle->self, range, out);
    }
    if (x.type == DLSH_LIST) return slice_list(x.as.list, from, count, step, out);
    if (x.type == DLSH_RANGE) {
        const dlsh_range *r = x.as.range;
        long first = r->from + from * r->step, d = step * r->step;
        return dlsh_give(dlsh_new_range(first, first + count * d, d), out);
    }
    dlsh_buf b = {0};
    for (long k = 0; k < count; k++) dlsh_buf_add(&b, x.as.str->s + from + k * step, 1);
    return dlsh_give(dlsh_buf_string(&b), out);
}

static dl_status one_key(const dlsh_node *n, dlsh_value x) {
    if (n->nkids == 2 && n->kids[1]->kind != DLSH_N_ELLIPSIS) return DL_OK;
    return dlsh_fail(DL_ERR_TYPE, x.type == DLSH_LIST ? "lists of lists are indexed step by step: x[i][j]" : NULL,
                     "%s takes one index", dlsh_a(x));
}

static dl_status index_plain(dlsh_session *s, dlsh_value x, const dlsh_node *n, dlsh_value *out) {
    dl_status st = one_key(n, x);
    if (st) return st;
    if (n->kids[1]->kind == DLSH_N_SLICE) return slice_value(s, x, n->kids[1], out);
    dlsh_value key = dlsh_value_of(s, n->kids[1], &st);
    if (st) return st;
    const dlsh_value *place = dlsh_quick_place(x, key);
    if (place)
        dlsh_put_at(out, dlsh_ref(dlsh_get_at(place)));
    else
        st = dlsh_index_value(s, x, key, out);
    dlsh_drop(key);
    return st;
}

/* Functions that give a tensor where PyTorch gives a tuple of one. */
static const struct {
    const char *name, *hint;
} alone[] = {{"grad", "leave [0] out, or write grad(y, [x])[0]; the first row of a gradient is (grad(y, x))[0]"}};

/* Refuses [0] behind such a call, which would be the first row of the tensor. */
static dl_status check_alone(dlsh_session *s, const dlsh_node *n) {
    const dlsh_node *call = n->kids[0], *sub = n->kids[1];
    if (call->kind != DLSH_N_CALL || call->flags & DLSH_PAREN || call->kids[0]->kind != DLSH_N_NAME) return DL_OK;
    if (n->nkids != 2 || sub->kind != DLSH_N_INT || sub->num.i) return DL_OK;
    for (size_t i = 0; i < DLSH_COUNT(alone); i++) {
        if (strcmp(call->kids[0]->text, alone[i].name) != 0) continue;
        dl_status st = DL_OK;
        dlsh_value f = dlsh_value_of(s, call->kids[0], &st);
        const int own = f.type == DLSH_BUILTIN;
        dlsh_drop(f);
        if (st || !own) return st;
        return dlsh_fail(DL_ERR_TYPE, alone[i].hint, "%s of one tensor gives a tensor, not a list of one",
                         alone[i].name);
    }
    return DL_OK;
}

dl_status dlsh_eval_index(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    dl_status st = DL_OK;
    dlsh_value x;
    const dlsh_value *place = dlsh_peek_place(s, n, &x);
    if (place) {
        dlsh_put_at(out, dlsh_ref(dlsh_get_at(place)));
        return DL_OK;
    }
    dlsh_put_at(out, dlsh_void());
    x = dlsh_value_of(s, n->kids[0], &st);
    if (st) return st;
    if (x.type == DLSH_TENSOR) st = check_alone(s, n);
    if (!st) st = x.type == DLSH_TENSOR ? dlsh_tensor_index(s, x.as.tensor, n, out) : index_plain(s, x, n, out);
    dlsh_drop(x);
    return st;
}

/* ---------------------------------------------------------------- writing */

/* A list of the items of a list or range. */
static dl_status items_for_slice(dlsh_session *s, dlsh_value v, dlsh_value *out) {
    dlsh_iter it;
    dlsh_value item;
    long n = 0;
    int done = 0, many = v.type == DLSH_LIST || v.type == DLSH_RANGE;
    if (!many)
        return dlsh_fail(DL_ERR_TYPE, "a list or a range stands on the right", "a slice is not set to %s", dlsh_a(v));
    DLSH_TRY(dlsh_length(v, &n));
    dlsh_value items = dlsh_new_list(n);
    if (dlsh_failed(items)) return dl_failed();
    dl_status st = dlsh_iter_begin(s, v, &it);
    while (!st && !(st = dlsh_iter_next(s, &it, &item, &done)) && !done) st = dlsh_list_push(items.as.list, item);
    dlsh_iter_end(&it);
    return dlsh_give_filled(st, items, out);
}

/* Makes room for `more` items before item `at`, or takes away the -more items from there on. */
static dl_status move_items(dlsh_list *l, long at, long more) {
    long n = l->n;
    if (more < 0) return dlsh_list_remove(l, (int)at, (int)(at - more)), DL_OK;
    for (long k = 0; k < more; k++) {
        dl_status st = dlsh_list_push(l, dlsh_none());
        if (st != DL_OK) return dlsh_list_remove(l, (int)n, l->n), st;
    }
    if (!more) return DL_OK;
    memmove(l->items + at + more, l->items + at, (size_t)(n - at) * sizeof *l->items);
    for (long k = 0; k < more; k++) l->items[at + k] = dlsh_none();
    return DL_OK;
}

/* Neighbouring items may be replaced by more or fewer, which moves those behind them. */
static dl_status set_slice(dlsh_session *s, dlsh_value x, const dlsh_node *slice, dlsh_value v) {
    dlsh_list *l = x.as.list;
    dlsh_value items; /* those of v, which may be x itself */
    long from, count, step;
    DLSH_TRY(slice_of(s, slice, x, &from, &count, &step));
    DLSH_TRY(items_for_slice(s, v, &items));
    long n = items.as.list->n;
    dl_status st = DL_OK;
    if (n != count && step == 1)
        st = move_items(l, n > count ? from + count : from + n, n - count);
    else if (n != count)
        st = dlsh_fail(DL_ERR_VALUE, "a slice of step 1 may be set to more or fewer items",
                       "the slice has %ld elements, the %s on the right has %ld", count, dlsh_type_name(v), n);
    for (long k = 0; st == DL_OK && k < n; k++) {
        dlsh_value *at = &l->items[from + k * step], *item = &items.as.list->items[k], old = *at;
        *at = *item;
        *item = old; /* dropped with the others */
        dlsh_hold(x, *at);
    }
    dlsh_drop(items);
    return st;
}

dl_status dlsh_set_key(dlsh_session *s, dlsh_value x, dlsh_value key, dlsh_value v) {
    long i = 0;
    if (x.type == DLSH_HANDLE && x.as.handle->cls->set_index)
        return x.as.handle->cls->set_index(s, x.as.handle->self, key, v);
    if (x.type == DLSH_RECORD) {
        if (key.type == DLSH_STR) return dlsh_record_set(x.as.record, key.as.str->s, dlsh_ref(v));
        return no_key(x.as.record, key);
    }
    if (x.type != DLSH_LIST)
        return dlsh_fail(DL_ERR_TYPE, x.type == DLSH_STR ? "strings cannot be changed: build a new one" : NULL,
                         "elements of %s cannot be set", dlsh_a(x));
    DLSH_TRY(position(key, x.as.list->n, "list", &i));
    DLSH_DROPPED dlsh_value old = x.as.list->items[i];
    x.as.list->items[i] = dlsh_ref(v);
    dlsh_hold(x, v);
    return DL_OK;
}

static dl_status assign_plain(dlsh_session *s, dlsh_value x, const dlsh_node *n, dlsh_value v) {
    dl_status st = one_key(n, x);
    if (st) return st;
    if (n->kids[1]->kind == DLSH_N_SLICE) {
        if (x.type == DLSH_LIST) return set_slice(s, x, n->kids[1], v);
        return dlsh_fail(DL_ERR_TYPE, NULL, "slices of %s cannot be set", dlsh_a(x));
    }
    dlsh_value key = dlsh_value_of(s, n->kids[1], &st);
    if (st) return st;
    st = dlsh_set_key(s, x, key, v);
    dlsh_drop(key);
    return st;
}

dl_status dlsh_assign_index(dlsh_session *s, const dlsh_node *target, dlsh_value v) {
    dl_status st = DL_OK;
    if (v.type == DLSH_VOID) v = dlsh_none();
    dlsh_value x = dlsh_value_of(s, target->kids[0], &st);
    if (st) return st;
    st = x.type == DLSH_TENSOR ? dlsh_tensor_assign(s, x.as.tensor, target, v) : assign_plain(s, x, target, v);
    dlsh_drop(x);
    return dlsh_at(s, target, st);
}
