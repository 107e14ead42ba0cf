/* Functions on lists, which are their methods too. */
#define _GNU_SOURCE /* memmem */
#include <stdlib.h>
#include <string.h>

#include "lang/eval/interp.h"

#define LIST_PARAM                                                                                                     \
    { .name = "list", .want = "list", .doc = "the list" }

#define SORT_OPTIONS                                                                                                   \
    DLSH_OPTIONS({"key", DLSH_OPT_VALUE, NULL, .doc = "function whose result is compared", .want = "function"},        \
                 {"reverse", DLSH_OPT_BOOL, "false", .doc = "largest first"})
#define REDUCE_PARAMS                                                                                                  \
    DLSH_PARAMS({"input", .want = "list|range|tensor", .doc = "a sequence or a tensor"},                               \
                {"dim", .want = "int|list", .flags = DLSH_OPTIONAL, .doc = "tensors: dimensions"},                     \
                {"keepdim", .want = "bool", .flags = DLSH_OPTIONAL, .doc = "tensors: keep them with size 1"})

static dlsh_list *self(const dlsh_args *a) { return dlsh_arg(a, "list")->as.list; }

static const dlsh_param only_list[] = {LIST_PARAM, {0}};
static const dlsh_param item_params[] = {LIST_PARAM, {"item", .doc = "any value"}, {0}};

static dl_status append_run(const dlsh_args *a) { return dlsh_list_push(self(a), dlsh_ref(*dlsh_arg(a, "item"))); }

static int append_quick(const dlsh_value *v, int n, DLSH_UNUSED dlsh_value *result) {
    if (n != 2 || v[0].type != DLSH_LIST || v[1].type == DLSH_VOID) return 0;
    if (!dlsh_list_push(v[0].as.list, dlsh_ref(v[1]))) return 1;
    return dl_error_clear(), 0;
}

static dl_status extend_run(const dlsh_args *a) {
    dlsh_iter it;
    dlsh_value x;
    dlsh_session *s = dlsh_arg_session(a);
    int done = 0;
    DLSH_TRY(dlsh_iter_begin(s, *dlsh_arg(a, "other"), &it));
    long n = it.n; /* a list may extend itself */
    dl_status st = DL_OK;
    while (n-- > 0 && !st && !(st = dlsh_iter_next(s, &it, &x, &done)) && !done) st = dlsh_list_push(self(a), x);
    dlsh_iter_end(&it);
    return st;
}

static dl_status insert_run(const dlsh_args *a) {
    dlsh_list *l = self(a);
    long at = dlsh_arg_int(a, "at");
    if (at < 0) at += l->n;
    if (at < 0 || at > l->n)
        return dlsh_arg_fail(a, "at", DL_ERR_INDEX, NULL, "position %ld is outside a list of %d", dlsh_arg_int(a, "at"),
                             l->n);
    return dlsh_list_insert(l, (int)at, dlsh_ref(*dlsh_arg(a, "item")));
}

/* Of a record the field of that name, as Python's dict.pop. */
static dl_status pop_field(const dlsh_args *a, dlsh_record *r, dlsh_value *result) {
    const dlsh_value *key = dlsh_arg(a, "at"), *other = dlsh_arg(a, "otherwise");
    if (!key || key->type != DLSH_STR)
        return dlsh_arg_fail(a, "at", DL_ERR_TYPE, "r.pop(\"name\")", "a field of a record is taken by its name");
    const dlsh_value *v = dlsh_record_get(r, key->as.str->s);
    if (!v && !other)
        return dlsh_arg_fail(a, "at", DL_ERR_NAME, "r.pop(NAME, 0) gives 0 where there is none",
                             "the record has no field '%s'", key->as.str->s);
    *result = dlsh_ref(v ? *v : *other);
    dlsh_record_remove(r, key->as.str->s);
    return DL_OK;
}

static dl_status pop_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value *from = dlsh_arg(a, "list"), *where = dlsh_arg(a, "at");
    if (from->type == DLSH_RECORD) return pop_field(a, from->as.record, result);
    if (dlsh_given(a, "otherwise") || (where && where->type != DLSH_INT))
        return dlsh_arg_fail(a, "at", DL_ERR_TYPE, "xs.pop(0); xs.remove(item) takes an item out by its value",
                             "an item of a list is taken by its position");
    dlsh_list *l = from->as.list;
    long given = dlsh_given(a, "at") ? dlsh_arg_int(a, "at") : -1, at = given < 0 ? given + l->n : given;
    if (at < 0 || at >= l->n)
        return dlsh_arg_fail(a, NULL, DL_ERR_INDEX, NULL, "position %ld is outside a list of %d", given, l->n);
    *result = dlsh_ref(l->items[at]);
    dlsh_list_remove(l, (int)at, (int)at + 1);
    return DL_OK;
}

static int pop_quick(const dlsh_value *v, int n, dlsh_value *result) {
    if (n != 1 || v[0].type != DLSH_LIST || !v[0].as.list->n) return 0;
    *result = v[0].as.list->items[--v[0].as.list->n];
    return 1;
}

/* The position of an item; -1 when there is none. */
static dl_status find(const dlsh_list *l, dlsh_value item, int *at) {
    int same = 0;
    for (*at = 0; *at < l->n && !same && !dlsh_interrupted_at(*at + 1L); *at += !same)
        DLSH_TRY(dlsh_equal(l->items[*at], item, &same));
    if (!same) *at = -1;
    return DL_OK;
}

static dl_status index_run(const dlsh_args *a, dlsh_value *result) {
    int i;
    DLSH_TRY(find(self(a), *dlsh_arg(a, "item"), &i));
    *result = i < 0 ? dlsh_none() : dlsh_int(i);
    return DL_OK;
}

static dl_status remove_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_list *l = self(a);
    int i;
    DLSH_TRY(find(l, *dlsh_arg(a, "item"), &i));
    if (i >= 0) dlsh_list_remove(l, i, i + 1);
    *result = dlsh_bool(i >= 0);
    return DL_OK;
}

static dl_status copy_of(const dlsh_list *l, dlsh_value *out) {
    DLSH_DROPPED dlsh_value v = dlsh_new_list(l->n);
    for (int i = 0; i < l->n; i++) DLSH_TRY(dlsh_append(v, dlsh_ref(l->items[i])));
    return dlsh_hand_over(&v, out);
}

static dl_status copy_run(const dlsh_args *a, dlsh_value *result) { return copy_of(self(a), result); }

static void turn(dlsh_list *l) {
    for (int i = 0, k = l->n - 1; i < k; i++, k--) {
        dlsh_value x = l->items[i];
        l->items[i] = l->items[k], l->items[k] = x;
    }
}

static dl_status reverse_run(const dlsh_args *a, DLSH_UNUSED dlsh_value *result) { return turn(self(a)), DL_OK; }

/* ---------------------------------------------------------------- any sequence */

static const dlsh_param sequence_params[] = {{"items", .doc = "anything that for iterates over"}, {0}};
static const dlsh_param filter_params[] = {{"f", .want = "function", .doc = "called with each item"},
                                           {"items", .doc = "anything that for iterates over"},
                                           {0}};

/* Appends to a list what an item makes; takes the item. */
typedef dl_status add_fn(const dlsh_args *a, dlsh_value item, dlsh_value list);

/* A list of what `add` appends for each of `items`, with room for `reserve`. */
static dl_status each(const dlsh_args *a, add_fn *add, long reserve, dlsh_value *result) {
    dlsh_iter it;
    dlsh_value x, v = dlsh_new_list(reserve);
    dlsh_session *s = dlsh_arg_session(a);
    int done = 0;
    if (dlsh_failed(v)) return dl_failed();
    dl_status st = dlsh_iter_begin(s, *dlsh_arg(a, "items"), &it);
    while (!st && !(st = dlsh_iter_next(s, &it, &x, &done)) && !done) st = add(a, x, v);
    dlsh_iter_end(&it);
    return dlsh_give_filled(st, v, result);
}

static dl_status add_item(const dlsh_args *a, dlsh_value item, dlsh_value to) { return (void)a, dlsh_append(to, item); }

/* A range that is too long for a list is refused before it is walked. */
static dl_status list_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value *items = dlsh_arg(a, "items");
    long n = 0;
    if (items->type == DLSH_RANGE) DLSH_TRY(dlsh_length(*items, &n));
    return each(a, add_item, n, result);
}

static dl_status reversed_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_TRY(list_run(a, result));
    return turn(result->as.list), DL_OK;
}

static dl_status apply(const dlsh_args *a, dlsh_value *items, int n, dlsh_value *out) {
    dlsh_callargs args = {n, items, NULL};
    DLSH_TRY(dlsh_call(dlsh_arg_session(a), *dlsh_arg(a, "f"), &args, out));
    if (out->type == DLSH_VOID) *out = dlsh_none();
    return DL_OK;
}

static dl_status add_mapped(const dlsh_args *a, dlsh_value item, dlsh_value to) {
    dlsh_value y;
    dl_status st = apply(a, &item, 1, &y);
    dlsh_drop(item);
    return st ? st : dlsh_append(to, y);
}

/* The item is a list of arguments. */
static dl_status add_mapped_row(const dlsh_args *a, dlsh_value row, dlsh_value to) {
    dlsh_value y;
    dl_status st = apply(a, row.as.list->items, row.as.list->n, &y);
    dlsh_drop(row);
    return st ? st : dlsh_append(to, y);
}

static dl_status add_filtered(const dlsh_args *a, dlsh_value item, dlsh_value to) {
    dlsh_value y;
    int yes = 0;
    dl_status st = apply(a, &item, 1, &y);
    if (!st) {
        st = dlsh_truth(y, &yes);
        dlsh_drop(y);
    }
    if (!st && yes) return dlsh_append(to, item);
    dlsh_drop(item);
    return st;
}

static dl_status filter_run(const dlsh_args *a, dlsh_value *result) { return each(a, add_filtered, 0, result); }

static dl_status add_numbered(const dlsh_args *a, dlsh_value item, dlsh_value to) {
    return (void)a, dlsh_append(to, DLSH_LIST_OF(dlsh_int(dlsh_failed(to) ? 0 : to.as.list->n), item));
}
static dl_status enumerate_run(const dlsh_args *a, dlsh_value *result) { return each(a, add_numbered, 0, result); }

/* The next item of each; *done when one has none left. */
static dl_status zip_next(dlsh_session *s, dlsh_iter *its, int n, dlsh_value *row, int *done) {
    dlsh_value x;
    *row = dlsh_new_list(n);
    dl_status st = dlsh_failed(*row) ? dl_failed() : DL_OK;
    for (int i = 0; i < n && !st && !*done; i++)
        if (!(st = dlsh_iter_next(s, &its[i], &x, done)) && !*done) st = dlsh_append(*row, x);
    if (st || *done) dlsh_drop(*row), *row = dlsh_void();
    return st;
}

/* The sequences of zip, and those after map's function. */
static const dlsh_value *sequence_at(const dlsh_args *a, int i) {
    return i ? dlsh_arg_at(a, "others", i - 1) : dlsh_arg(a, "items");
}

/* A list of what `add` appends for each list of the items at one position. */
static dl_status each_row(const dlsh_args *a, add_fn *add, dlsh_value *result) {
    int n = sequence_at(a, 0) ? 1 + dlsh_arg_count(a, "others") : 0, begun = 0, done = !n;
    DLSH_FREED dlsh_iter *its = dl_memory_alloc(n, sizeof *its);
    dlsh_session *s = dlsh_arg_session(a);
    dlsh_value v = dlsh_new_list(0), row;
    dl_status st = its ? DL_OK : DL_ERR_MEMORY;
    for (; begun < n && !st; begun += !st) st = dlsh_iter_begin(s, *sequence_at(a, begun), &its[begun]);
    while (!st && !done)
        if (!(st = zip_next(s, its, n, &row, &done)) && !done) st = add(a, row, v);
    for (int i = 0; i < begun; i++) dlsh_iter_end(&its[i]);
    return dlsh_give_filled(st, v, result);
}

static dl_status zip_run(const dlsh_args *a, dlsh_value *result) { return each_row(a, add_item, result); }

static dl_status map_run(const dlsh_args *a, dlsh_value *result) {
    return dlsh_arg_count(a, "others") ? each_row(a, add_mapped_row, result) : each(a, add_mapped, 0, result);
}

/* ---------------------------------------------------------------- any, all, count */

/* any; all where data is set. Of a tensor it is the op. */
static dl_status any_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value seq = *dlsh_arg(a, "input");
    if (seq.type == DLSH_TENSOR) return dlsh_call_row_op(a, result);
    int all = dlsh_arg_data(a) != NULL, yes = all, done = 0;
    dlsh_iter it;
    dlsh_value x;
    dlsh_session *s = dlsh_arg_session(a);
    DLSH_TRY(dlsh_iter_begin(s, seq, &it));
    dl_status st = DL_OK;
    while (!st && yes == all && !(st = dlsh_iter_next(s, &it, &x, &done)) && !done) {
        st = dlsh_truth(x, &yes);
        dlsh_drop(x);
    }
    dlsh_iter_end(&it);
    *result = dlsh_bool(yes);
    return st;
}

/* How often an item occurs in a list, or a text in a string, without overlap. */
static dl_status count_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value in = *dlsh_arg(a, "in"), what = *dlsh_arg(a, "item");
    long n = 0;
    int same;
    if (in.type == DLSH_STR && (what.type != DLSH_STR || !what.as.str->len))
        return dlsh_arg_fail(a, "item", DL_ERR_TYPE, NULL, "in a string a text is counted, got %s",
                             what.type == DLSH_STR ? "an empty one" : dlsh_a(what));
    if (in.type == DLSH_STR) {
        const char *p = in.as.str->s, *end = p + in.as.str->len;
        for (; (p = memmem(p, (size_t)(end - p), what.as.str->s, what.as.str->len)); p += what.as.str->len) n++;
    } else
        for (int i = 0; i < in.as.list->n && !dlsh_interrupted_at(i); i++) {
            DLSH_TRY(dlsh_equal(in.as.list->items[i], what, &same));
            n += same;
        }
    *result = dlsh_int(n);
    return DL_OK;
}

/* ---------------------------------------------------------------- sorting */

/* -1, 0, 1; numbers and strings are compared without a call. */
static inline dl_status compare(dlsh_value a, dlsh_value b, int *out) {
    if (a.type == DLSH_INT && b.type == DLSH_INT) return *out = (a.as.i > b.as.i) - (a.as.i < b.as.i), DL_OK;
    return dlsh_compare(a, b, out);
}

/* Stable merge of keys and items together; a failing comparison ends it. Halves in order are left as they are. */
static dl_status merge_sort(dlsh_value *keys, dlsh_value *items, dlsh_value *tmp, long n, int reverse) {
    if (n < 2) return DL_OK;
    long h = n / 2;
    int c = 0;
    DLSH_TRY(merge_sort(keys, items, tmp, h, reverse));
    DLSH_TRY(merge_sort(keys + h, items + h, tmp, n - h, reverse));
    DLSH_TRY(compare(keys[h - 1], keys[h], &c));
    if (reverse ? c >= 0 : c <= 0) return DL_OK;
    for (long i = 0, j = h, k = 0; k < n; k++) {
        int right;
        c = 0;
        if (dlsh_interrupted_at(k)) return dlsh_check_interrupt();
        if (i < h && j < n) DLSH_TRY(compare(keys[i], keys[j], &c));
        right = i == h || (j < n && (reverse ? c < 0 : c > 0));
        tmp[2 * k] = keys[right ? j : i];
        tmp[2 * k + 1] = items[right ? j++ : i++];
    }
    for (long k = 0; k < n; k++) {
        keys[k] = tmp[2 * k];
        items[k] = tmp[2 * k + 1];
    }
    return DL_OK;
}

static dl_status make_keys(const dlsh_args *a, const dlsh_list *l, const dlsh_value *f, dlsh_value *keys) {
    for (int i = 0; i < l->n && !dlsh_interrupted_at(i); i++) {
        dlsh_callargs args = {1, &l->items[i], NULL};
        if (f)
            DLSH_TRY(dlsh_call(dlsh_arg_session(a), *f, &args, &keys[i]));
        else
            keys[i] = dlsh_ref(l->items[i]);
        if (keys[i].type == DLSH_TENSOR) {
            DLSH_DROPPED dlsh_value t = keys[i];
            dl_status st = dlsh_tensor_item(t.as.tensor, &keys[i]);
            if (st) keys[i] = dlsh_void();
            if (st) return st;
        }
    }
    return dlsh_check_interrupt(); /* keys may be missing */
}

/* By the values that the function f gives for the items; NULL: by the items. */
static dl_status sort_list(const dlsh_args *a, dlsh_list *l, const dlsh_value *f, int reverse) {
    DLSH_FREED dlsh_value *keys = dl_memory_alloc(l->n, sizeof *keys),
                          *tmp = keys ? dl_memory_alloc(2L * l->n, sizeof *tmp) : NULL;
    for (int i = 0; keys && i < l->n; i++) keys[i] = dlsh_void();
    dl_status st = keys && tmp ? make_keys(a, l, f, keys) : DL_ERR_MEMORY;
    if (!st) st = merge_sort(keys, l->items, tmp, l->n, reverse);
    for (int i = 0; keys && i < l->n; i++) dlsh_drop(keys[i]);
    return st;
}

static dl_status sorted_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_value v;
    DLSH_TRY(list_run(a, &v));
    return dlsh_give_filled(sort_list(a, v.as.list, dlsh_arg(a, "key"), dlsh_arg_bool(a, "reverse")), v, result);
}

dl_status dlsh_unique_items(const dlsh_args *a, const dlsh_list *l, dlsh_value *result) {
    dlsh_value v = dlsh_void();
    int n = 0, c = 1;
    dl_status st = copy_of(l, &v);
    if (!st) st = sort_list(a, v.as.list, NULL, 0);
    for (int i = 0; !st && i < v.as.list->n; i++) {
        dlsh_value *items = v.as.list->items, item = items[i];
        if (n) st = compare(items[n - 1], item, &c);
        if (st || c) {
            items[i] = items[n];
            items[n++] = item; /* what stands behind is dropped with the rest */
        }
    }
    while (!st && v.as.list->n > n) dlsh_drop(v.as.list->items[--v.as.list->n]);
    return dlsh_give_filled(st, v, result);
}

/* A list in place; of a tensor it is the op. The keys are functions of the user: they see the list as it was. */
static dl_status sort_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value x = *dlsh_arg(a, "input");
    DLSH_DROPPED dlsh_value v = dlsh_void();
    const char *wrong = x.type == DLSH_LIST        ? (dlsh_given(a, "dim")          ? "dim"
                                                      : dlsh_given(a, "descending") ? "descending"
                                                                                    : NULL)
                        : dlsh_given(a, "key")     ? "key"
                        : dlsh_given(a, "reverse") ? "reverse"
                                                   : NULL;
    if (wrong)
        return dlsh_arg_fail(a, wrong, DL_ERR_NAME,
                             x.type == DLSH_LIST ? "lists take key= and reverse="
                                                 : "its arguments are: input dim descending stable",
                             "sort has no argument '%s'", wrong);
    if (x.type == DLSH_TENSOR) return dlsh_call_row_op(a, result);
    DLSH_TRY(copy_of(x.as.list, &v));
    DLSH_TRY(sort_list(a, v.as.list, dlsh_arg(a, "key"), dlsh_arg_bool(a, "reverse")));
    if (v.as.list->n != x.as.list->n) return dlsh_fail(DL_ERR_STATE, NULL, "the list was changed while it was sorted");
    dlsh_value *items = x.as.list->items;
    int cap = x.as.list->cap;
    x.as.list->items = v.as.list->items, x.as.list->cap = v.as.list->cap;
    v.as.list->items = items, v.as.list->cap = cap;
    return DL_OK;
}

const dlsh_command dlsh_list_rows[] = {
    DLSH_CHANGE_ROW("append", append_run, "xs.append(ITEM)", "Puts an item at the end of a list.",
                    .params = item_params, .examples = "xs = []; xs.append(1)", .quick = append_quick),
    DLSH_CHANGE_ROW("extend", extend_run, "xs.extend(ITEMS)", "Puts the items of another list at the end.",
                    DLSH_PARAMS(LIST_PARAM, {"other", .want = "list|range", .doc = "more items"})),
    DLSH_CHANGE_ROW("insert", insert_run, "xs.insert(AT, ITEM)", "Puts an item before a position.",
                    DLSH_PARAMS(LIST_PARAM, {"at", .want = "int", .doc = "position"}, {"item", .doc = "any value"})),
    DLSH_CHANGE_ROW(
        "pop", pop_run, "xs.pop([AT]), r.pop(NAME [, OTHERWISE])",
        "Takes an item out of a list, the last one by default, or a field out of a record.",
        DLSH_PARAMS({"list", .want = "list|record", .doc = "the list or record"},
                    {"at", .want = "int|string", .flags = DLSH_OPTIONAL, .doc = "position (-1: the last), or name"},
                    {"otherwise", .flags = DLSH_OPTIONAL, .doc = "result when the record has no such field"}),
        .quick = pop_quick),
    DLSH_CHANGE_ROW("remove", remove_run, "xs.remove(ITEM)",
                    "Removes the first equal item; returns whether it was there.", .params = item_params),
    DLSH_PURE_ROW("index", index_run, "xs.index(ITEM)", "Position of the first equal item, or none.",
                  .params = item_params),
    DLSH_PURE_ROW("copy", copy_run, "xs.copy()", "A list of the same items.", .params = only_list),
    DLSH_CHANGE_ROW("reverse", reverse_run, "xs.reverse()", "Reverses the order of the items.", .params = only_list),
    DLSH_PURE_ROW("reversed", reversed_run, "reversed(ITEMS)", "A list of what for goes over, in reverse.",
                  DLSH_PARAMS({"items", .want = "list|range|string|tensor|record|net", .doc = "a sequence"}),
                  .examples = "for i in reversed(range(3)) { print(i) }"),
    DLSH_PURE_ROW("list", list_run, "list(ITEMS)", "A list of what for goes over.", .params = sequence_params),
    DLSH_PURE_ROW("map", map_run, "map(F, ITEMS, ...)",
                  "The results of a function on each item; of several sequences, on their items at one position.",
                  DLSH_PARAMS({"f", .want = "function", .doc = "called with each item"},
                              {"items", .doc = "anything that for iterates over"},
                              {"others", .flags = DLSH_VARIADIC, .doc = "more of them; the shortest ends it"}),
                  .examples =
                      "map(fn (x) { return x * x }, range(5))\nmap(fn (a, b) { return a * b }, [1, 2], [3, 4])"),
    DLSH_PURE_ROW("filter", filter_run, "filter(F, ITEMS)", "The items for which a function is true.",
                  .params = filter_params),
    DLSH_PURE_ROW("enumerate", enumerate_run, "enumerate(ITEMS)", "Pairs of position and item.",
                  .params = sequence_params, .examples = "for i, x in enumerate([\"a\", \"b\"]) { print(i, x) }"),
    DLSH_PURE_ROW("zip", zip_run, "zip(ITEMS, ...)", "Lists of the items of several sequences at one position.",
                  DLSH_PARAMS({"items", .flags = DLSH_OPTIONAL, .doc = "anything that for iterates over"},
                              {"others", .flags = DLSH_VARIADIC, .doc = "more of them; the shortest ends it"}),
                  .examples = "for a, b in zip([1, 2], [\"x\", \"y\"]) { print(a, b) }"),
    DLSH_PURE_ROW("any", any_run, "any(ITEMS), any(TENSOR [, dim=, keepdim=])", "Is one of the items true?",
                  REDUCE_PARAMS),
    DLSH_PURE_ROW("all", any_run, "all(ITEMS), all(TENSOR [, dim=, keepdim=])", "Are all items true?", REDUCE_PARAMS,
                  .data = "all"),
    DLSH_PURE_ROW("count", count_run, "xs.count(ITEM)", "How often an item is in a list, or a text in a string.",
                  DLSH_PARAMS({"in", .want = "list|string", .flags = DLSH_BYTES, .doc = "a list or a string"},
                              {"item", .doc = "what to count"}),
                  .examples = "[1, 2, 1].count(1)"),
    DLSH_ROW("sort", DLSH_ONLY_FUNCTION | DLSH_CHANGES_FIRST, sort_run,
             "xs.sort(key=, reverse=false), sort(TENSOR [, dim, descending, stable])",
             "Sorts a list in place; of a tensor, values in order and their indices.",
             DLSH_PARAMS({"input", .want = "list|tensor", .doc = "a list or a tensor"},
                         {"dim", .want = "int", .flags = DLSH_OPTIONAL, .doc = "tensors: dimension (-1)"},
                         {"descending", .want = "bool", .flags = DLSH_OPTIONAL, .doc = "tensors: largest first"},
                         {"stable", .want = "bool", .flags = DLSH_OPTIONAL,
                          .doc = "tensors: equal elements keep their order in any case"}),
             SORT_OPTIONS, .examples = "xs = [3, 1, 2]; xs.sort(); xs"),
    DLSH_PURE_ROW("sorted", sorted_run, "sorted(ITEMS, key=, reverse=false)",
                  "A sorted list; equal items keep their order.",
                  DLSH_PARAMS({"items", .doc = "anything that for iterates over"}), SORT_OPTIONS),
    {0}};
