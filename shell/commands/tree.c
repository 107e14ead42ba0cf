/* Tensors in nested lists and records. */
#include "commands/tree.h"
#include "lang/session.h"

#include <stdlib.h>

void dlsh_leaves_free(dlsh_leaves *l) { free(l->t); }

static dl_status add_leaf(dlsh_leaves *l, dl_tensor *t) {
    if (l->n == l->cap) {
        long cap = l->cap ? 2 * l->cap : 8;
        dl_tensor **more = realloc(l->t, (size_t)cap * sizeof *more);
        if (!more) return dlsh_no_memory("tensors of a list");
        l->t = more;
        l->cap = cap;
    }
    l->t[l->n++] = t;
    return DL_OK;
}

/* The items of a list or the values of a record. */
static int parts(dlsh_value v, const dlsh_value **items) {
    *items = v.type == DLSH_LIST ? v.as.list->items : v.as.record->values;
    return v.type == DLSH_LIST ? v.as.list->n : v.as.record->n;
}

static int is_leaf(dlsh_value v) { return v.type != DLSH_LIST && v.type != DLSH_RECORD; }

dl_status dlsh_tree_leaves(dlsh_value v, const char *what, dlsh_leaves *l) {
    const dlsh_value *items;
    if (v.type == DLSH_TENSOR) return add_leaf(l, v.as.tensor);
    if (is_leaf(v))
        return dlsh_fail(DL_ERR_TYPE, "give tensors, or lists or records of them", "%s holds %s where a tensor belongs",
                         what, dlsh_a(v));
    int n = parts(v, &items);
    for (int i = 0; i < n; i++) DLSH_TRY(dlsh_tree_leaves(items[i], what, l));
    return DL_OK;
}

dlsh_value dlsh_tree_map(dlsh_value v, dlsh_leaf_fn *leaf, void *ctx, int *next) {
    const dlsh_value *items;
    if (is_leaf(v)) return leaf(v, (*next)++, ctx);
    int n = parts(v, &items), record = v.type == DLSH_RECORD;
    dlsh_value made = record ? dlsh_new_record() : dlsh_new_list(n), all;
    dl_status st = dlsh_failed(made) ? dl_failed() : DL_OK;
    for (int i = 0; i < n && !st; i++) {
        dlsh_value one = dlsh_tree_map(items[i], leaf, ctx, next);
        if (dlsh_failed(one))
            st = dl_failed();
        else
            st =
                record ? dlsh_record_set(made.as.record, v.as.record->keys[i], one) : dlsh_list_push(made.as.list, one);
    }
    return dlsh_give_filled(st, made, &all) ? dlsh_void() : all;
}

static dlsh_value tensor_at(DLSH_UNUSED dlsh_value leaf, int i, void *ctx) {
    dl_tensor *const *t = ctx;
    return dlsh_tensor(dl_ref(t[i]));
}

dlsh_value dlsh_tree_of(dlsh_value v, dl_tensor *const *t) {
    int next = 0;
    return dlsh_tree_map(v, tensor_at, (void *)t, &next);
}
