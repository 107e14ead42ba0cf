/* Comprehensions: the list, or the record, of what a function makes of each item. */
#include "lang/eval/collect.h"
#include "lang/eval/interp.h"

/* Adds the value of an item to the list; takes it. */
static dl_status add(dlsh_session *s, const dlsh_node *n, dlsh_value list, dlsh_value v) {
    if (v.type == DLSH_VOID) return DL_OK; /* left out by an `if` */
    if (!(n->num.i & DLSH_COMP_JOINED)) return dlsh_list_push(list.as.list, v);
    dl_status st = DL_OK;
    for (int i = 0; !st && i < v.as.list->n; i++) st = dlsh_list_push(list.as.list, dlsh_ref(v.as.list->items[i]));
    dlsh_drop(v);
    return st ? dlsh_at(s, n, st) : DL_OK;
}

static dl_status collect(dlsh_session *s, const dlsh_node *n, dlsh_value f, dlsh_iter *it, dlsh_value list) {
    dlsh_value item, v;
    int done = 0;
    for (;;) {
        dlsh_collect_if_due();
        DLSH_TRY(dlsh_at(s, n->kids[1], dlsh_iter_next(s, it, &item, &done)));
        if (done) return DL_OK;
        DLSH_TRY(dlsh_at(s, n, dlsh_call_one(s, f, item, &v)));
        DLSH_TRY(add(s, n, list, v));
    }
}

dl_status dlsh_record_put(dlsh_record *r, dlsh_value key, dlsh_value v) {
    if (key.type == DLSH_STR) return dlsh_record_set(r, key.as.str->s, v);
    dlsh_drop(v);
    return dlsh_fail(DL_ERR_TYPE, "str(key) makes text of a value", "a key of a record is a string, got %s",
                     dlsh_a(key));
}

/* The record of a list of keys and values; a key that comes again gets the later value. */
static dl_status record_of(dlsh_session *s, const dlsh_node *n, dlsh_value pairs, dlsh_value *out) {
    DLSH_DROPPED dlsh_value r = dlsh_new_record();
    if (dlsh_failed(r)) return dl_failed();
    for (int i = 0; i < pairs.as.list->n; i++) {
        const dlsh_value *pair = pairs.as.list->items[i].as.list->items;
        DLSH_TRY(dlsh_at(s, n, dlsh_record_put(r.as.record, pair[0], dlsh_ref(pair[1]))));
    }
    return dlsh_hand_over(&r, out);
}

dl_status dlsh_eval_comprehension(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    dlsh_value over, f, list = dlsh_void();
    dlsh_iter it;
    DLSH_TRY(dlsh_eval(s, n->kids[1], &over));
    dl_status st = dlsh_at(s, n->kids[1], dlsh_iter_begin(s, over, &it));
    dlsh_drop(over);
    if (st) return st;
    it.part = n->num.i & DLSH_COMP_PAIRS ? DLSH_PAIRS : DLSH_KEYS;
    st = dlsh_make_fn(s, n->kids[0], &f);
    if (!st) {
        list = dlsh_new_list(0);
        st = dlsh_failed(list) ? dl_failed() : collect(s, n, f, &it, list);
        dlsh_drop(f);
    }
    dlsh_iter_end(&it);
    if (!st && n->num.i & DLSH_COMP_RECORD) {
        st = record_of(s, n, list, out);
        dlsh_drop(list);
        return st;
    }
    return dlsh_give_filled(st, list, out);
}
