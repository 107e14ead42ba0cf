/* Datasets made of values of the language: of tensors, of lists of samples, of functions, of other datasets. */
#include "commands/data/samples.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "commands/data/data.h"
#include "commands/nets.h"
#include "lang/parse/fn.h"
#include "lang/session.h"

/* ---------------------------------------------------------------- options */

/* What may stand behind the values by name. */
typedef struct settings {
    long n, test, classes; /* n -1: not given */
    int padded;
    double pad, pad_target;
} settings;

static dl_status whole(const char *name, const dlsh_value *v, long *out) {
    if (v->type != DLSH_INT)
        return dlsh_fail(DL_ERR_TYPE, NULL, "%s is a number of samples or classes, an int, not %s", name, dlsh_a(*v));
    if (v->as.i < 0)
        return dlsh_fail(DL_ERR_VALUE, NULL, "%s is a number of samples or classes, from 0 on, not %ld", name,
                         (long)v->as.i);
    *out = v->as.i;
    return DL_OK;
}

static dl_status number(const char *name, const dlsh_value *v, double *out) {
    if (!dlsh_is_number(*v)) return dlsh_fail(DL_ERR_TYPE, NULL, "%s is a number, not %s", name, dlsh_a(*v));
    *out = dlsh_number(*v);
    return DL_OK;
}

static dl_status read_setting(settings *s, const char *name, const dlsh_value *v) {
    if (!strcmp(name, "n")) return whole(name, v, &s->n);
    if (!strcmp(name, "test")) return whole(name, v, &s->test);
    if (!strcmp(name, "classes")) return whole(name, v, &s->classes);
    if (!strcmp(name, "pad_target")) return number(name, v, &s->pad_target);
    if (!strcmp(name, "pad")) return s->padded = 1, number(name, v, &s->pad);
    return dlsh_fail(DL_ERR_NAME, "the options are n, test, classes, pad and pad_target",
                     "a dataset of values has no option '%s'", name);
}

static dl_status read_settings(const dlsh_args *a, settings *s) {
    const dlsh_value *v;
    const char *name;
    *s = (settings){.n = -1};
    for (int i = 0; (name = dlsh_arg_extra(a, i, &v)); i++) DLSH_TRY(read_setting(s, name, v));
    return DL_OK;
}

/* ---------------------------------------------------------------- one sample */

/* A new reference to a value as a tensor without history: numbers and lists by `tensor`. */
static dl_status to_tensor(dlsh_session *s, dlsh_value v, dl_tensor **out) {
    dlsh_value made = dlsh_void();
    if (v.type == DLSH_TENSOR) {
        *out = dl_detach(v.as.tensor);
        return *out ? DL_OK : dl_failed();
    }
    DLSH_TRY(dlsh_call_command(s, dlsh_find_command(s, "tensor", 6), &(dlsh_callargs){1, &v, NULL}, &made));
    *out = made.as.tensor;
    return DL_OK;
}

/* Samples without targets are their own targets; pictures of bytes as samples are, from 0 to 1. */
static dl_tensor *own_target(dl_tensor *x, int ndim) {
    if (dl_dtype_of(x) != DL_U8 || ndim < 2) return dl_ref(x);
    dl_tensor *real = dl_to_dtype(x, DL_F32), *scale = real ? dl_full(NULL, 0, 255, DL_F32, dl_device_of(x)) : NULL;
    dl_tensor *y = scale ? dl_div(real, scale) : NULL;
    dl_unref(real);
    dl_unref(scale);
    return y;
}

/* A sample: {x, y}, [x, y], or x alone. */
static dl_status to_pair(dlsh_session *s, dlsh_value v, dl_tensor **x, dl_tensor **y) {
    const dlsh_value *part[2] = {&v, NULL};
    *x = *y = NULL;
    if (v.type == DLSH_RECORD) {
        part[0] = dlsh_record_get(v.as.record, "x"), part[1] = dlsh_record_get(v.as.record, "y");
        if (!part[0] || v.as.record->n != (part[1] ? 2 : 1))
            return dlsh_fail(DL_ERR_VALUE, "{x: [1.0, 2.0], y: 0}", "a sample that is a record has the fields x and y");
    } else if (v.type == DLSH_LIST && v.as.list->n == 2) {
        part[0] = &v.as.list->items[0], part[1] = &v.as.list->items[1];
    }
    dl_status st = to_tensor(s, *part[0], x);
    if (st == DL_OK && part[1]) st = to_tensor(s, *part[1], y);
    if (st == DL_OK && !part[1] && !(*y = own_target(*x, dl_ndim(*x)))) st = dl_failed();
    if (st == DL_OK) return st;
    dl_unref(*x);
    *x = *y = NULL;
    return st;
}

/* ---------------------------------------------------------------- tensors */

static dl_status of_tensors(dl_tensor *const t[4], dl_dataset **d) {
    dl_tensor *own[2] = {NULL, NULL};
    if (!t[0]) return dlsh_fail(DL_ERR_VALUE, "dataset(x, y)", "a dataset of tensors needs samples x");
    for (int k = 0; k < 2; k++) {
        dl_tensor *x = t[2 * k];
        if (x && !t[2 * k + 1] && !t[1] && !(own[k] = own_target(x, dl_ndim(x) - 1))) {
            dl_unref(own[0]);
            return dl_failed();
        }
    }
    *d = dl_dataset_from(t[0], own[0] ? own[0] : t[1], t[2], own[1] ? own[1] : t[3], NULL);
    DLSH_UNREF(own[0], own[1]);
    return *d ? DL_OK : dl_failed();
}

static const char *const tensor_names[] = {"x", "y", "test_x", "test_y"};

static dl_status place_tensor(dl_tensor **t, const char *name, const dlsh_value *v) {
    int at = 0;
    while (at < 4 && strcmp(tensor_names[at], name) != 0) at++;
    if (at == 4 || v->type != DLSH_TENSOR)
        return dlsh_fail(DL_ERR_NAME, at == 4 ? NULL : "tensor([...]) makes one of a list",
                         "a dataset of tensors takes tensors x, y, test_x and test_y, not %s=%s", name,
                         dlsh_type_name(*v));
    t[at] = v->as.tensor;
    return DL_OK;
}

dl_status dlsh_dataset_of_tensors(const dlsh_args *a, const dlsh_value *values, int n, dl_dataset **d) {
    dl_tensor *t[4] = {NULL, NULL, NULL, NULL};
    const dlsh_value *v;
    const char *name;
    if (n > 4) return dlsh_fail(DL_ERR_VALUE, NULL, "a dataset takes at most 4 tensors, x, y, test_x and test_y");
    for (int i = 0; i < n; i++) {
        if (values[i].type != DLSH_TENSOR)
            return dlsh_fail(DL_ERR_TYPE, "tensor([...]) makes one of a list",
                             "argument %d of a dataset of tensors must be a tensor, got %s", i + 1,
                             dlsh_type_name(values[i]));
        t[i] = values[i].as.tensor;
    }
    for (int i = 0; (name = dlsh_arg_extra(a, i, &v)); i++) DLSH_TRY(place_tensor(t, name, v));
    return of_tensors(t, d);
}

/* {x: tensor, y: tensor, test_x: ..., test_y: ...} */
static dl_status of_record(const dlsh_record *r, dl_dataset **d) {
    dl_tensor *t[4] = {NULL, NULL, NULL, NULL};
    for (int i = 0; i < r->n; i++) DLSH_TRY(place_tensor(t, r->keys[i], &r->values[i]));
    return of_tensors(t, d);
}

/* ---------------------------------------------------------------- lists of samples */

typedef struct items {
    long n, cap;
    dl_tensor **x, **y; /* on the CPU */
} items;

static void free_items(void *ctx) {
    items *l = ctx;
    for (long i = 0; i < l->n; i++) DLSH_UNREF(l->x[i], l->y[i]);
    free(l->x);
    free(l->y);
    free(l);
}

static dl_status give_item(void *ctx, dl_split split, long i, dl_tensor **x, dl_tensor **y) {
    const items *l = ctx;
    (void)split;
    *x = dl_ref(l->x[i]), *y = dl_ref(l->y[i]);
    return DL_OK;
}

/* Takes both, also on failure. */
static dl_status add_item(items *l, dl_tensor *x, dl_tensor *y) {
    if (l->n == l->cap) {
        long cap = l->cap ? 2 * l->cap : 256;
        dl_tensor **xs = dl_memory_resize(l->x, l->cap, cap, sizeof *xs), **ys = NULL;
        if (xs) l->x = xs;
        if (xs && (ys = dl_memory_resize(l->y, l->cap, cap, sizeof *ys))) l->y = ys, l->cap = cap;
        if (!ys) {
            DLSH_UNREF(x, y);
            return dl_failed();
        }
    }
    l->x[l->n] = dl_to_device(x, 0), l->y[l->n] = dl_to_device(y, 0);
    DLSH_UNREF(x, y);
    return l->x[l->n] && l->y[l->n++] ? DL_OK : dl_failed();
}

/* Targets that are all numbers from 0 to 99999 are class numbers, as those of a tensor are. */
static dl_status count_classes(const items *l, long *classes) {
    *classes = 0;
    for (long i = 0; i < l->n; i++) {
        long label;
        dl_dtype t = dl_dtype_of(l->y[i]);
        if (dl_ndim(l->y[i]) || (t != DL_I64 && t != DL_I32 && t != DL_U8)) return *classes = 0, DL_OK;
        DLSH_TRY(dl_item_i(l->y[i], &label));
        if (label < 0 || label > 99999) return *classes = 0, DL_OK;
        if (label >= *classes) *classes = label + 1;
    }
    return DL_OK;
}

/* Samples, and their targets where they are a list of their own. */
static dl_status collect(dlsh_session *s, dlsh_value from, const dlsh_value *targets, const settings *o, items *l) {
    dlsh_iter it, of_y = {0};
    long most = o->n < 0 ? LONG_MAX : o->n + o->test;
    DLSH_TRY(dlsh_iter_begin(s, from, &it));
    dl_status st = targets ? dlsh_iter_begin(s, *targets, &of_y) : DL_OK;
    for (int done = 0, ended = 0; st == DL_OK && l->n < most;) {
        dlsh_value v = dlsh_void(), w = dlsh_void();
        dl_tensor *x = NULL, *y = NULL;
        st = dlsh_iter_next(s, &it, &v, &done);
        if (st == DL_OK && targets) st = dlsh_iter_next(s, &of_y, &w, &ended);
        if (st == DL_OK && targets && done != ended)
            st = dlsh_fail(DL_ERR_SHAPE, NULL, "there are %s samples than targets: %ld of the fewer",
                           done ? "fewer" : "more", l->n);
        if (st == DL_OK && !done) st = targets ? to_tensor(s, v, &x) : to_pair(s, v, &x, &y);
        if (st == DL_OK && !done && targets && (st = to_tensor(s, w, &y)) != DL_OK) dl_unref(x);
        if (st == DL_OK && !done) st = add_item(l, x, y);
        dlsh_drop(v);
        dlsh_drop(w);
        if (done) break;
    }
    if (targets) dlsh_iter_end(&of_y);
    dlsh_iter_end(&it);
    return st;
}

static dl_status of_items(dlsh_session *s, dlsh_value from, const dlsh_value *targets, const settings *o,
                          dl_dataset **d) {
    items *l = calloc(1, sizeof *l);
    long classes = o->classes;
    if (!l) return dlsh_no_memory("the samples of a dataset");
    dl_status st = collect(s, from, targets, o, l);
    if (st == DL_OK && !l->n)
        st = dlsh_fail(DL_ERR_VALUE, "dataset([{x: [1.0, 2.0], y: 0}, ...])", "the list of samples is empty");
    if (st == DL_OK && o->test > l->n)
        st = dlsh_fail(DL_ERR_VALUE, NULL, "test=%ld, and there are %ld samples", o->test, l->n);
    if (st == DL_OK && !classes) st = count_classes(l, &classes);
    if (st != DL_OK) {
        free_items(l);
        return st;
    }
    dl_dataset *all = dl_dataset_given(&(dl_dataset_spec){.name = "list",
                                                          .n = {l->n},
                                                          .give = give_item,
                                                          .release = free_items,
                                                          .ctx = l,
                                                          .any_thread = 1,
                                                          .padded = o->padded,
                                                          .pad = o->pad,
                                                          .pad_target = o->pad_target,
                                                          .classes = classes});
    if (all && o->test) { /* the last ones */
        long n = dl_dataset_len(all, DL_TRAIN), *order = dl_memory_alloc(n, sizeof *order);
        for (long i = 0; order && i < n; i++) order[i] = i;
        *d = order ? dl_dataset_view(&(dl_part){all, DL_TRAIN, order, n - o->test},
                                     &(dl_part){all, DL_TRAIN, order + n - o->test, o->test})
                   : NULL;
        free(order);
        dl_dataset_unref(all);
    } else
        *d = all;
    return *d ? DL_OK : dl_failed();
}

/* ---------------------------------------------------------------- functions */

/* A function of the number of a sample, and how many of them are of the training split. */
typedef struct maker {
    dlsh_callback *call;
    long train;
} maker;

static void free_maker(void *ctx) {
    maker *m = ctx;
    dlsh_callback_free(m->call);
    free(m);
}

static dl_status give_made(void *ctx, dl_split split, long i, dl_tensor **x, dl_tensor **y) {
    maker *m = ctx;
    dlsh_value arg = dlsh_int(split == DL_TEST ? m->train + i : i), out = dlsh_void();
    DLSH_TRY(dlsh_call(m->call->session, m->call->fn, &(dlsh_callargs){1, &arg, NULL}, &out));
    dl_status st = to_pair(m->call->session, out, x, y);
    dlsh_drop(out);
    return st;
}

/* Known by its text and how many samples there are. */
static dl_status mark_of(dlsh_value fn, const settings *o, dlsh_buf *b) {
    size_t n = 0;
    const char *text = fn.type == DLSH_FN ? dlsh_fn_source(fn.as.fn, &n) : dlsh_function_name(fn);
    dlsh_buf_printf(b, "function of %ld and %ld: ", o->n, o->test);
    if (text) dlsh_buf_add(b, text, n ? n : strlen(text));
    dlsh_buf_text(b);
    return b->failed ? dlsh_no_memory("the text of a function") : DL_OK;
}

static dl_status of_function(dlsh_session *s, dlsh_value fn, const settings *o, dl_dataset **d) {
    DLSH_SCOPED_BUF mark = {0};
    if (o->n < 0)
        return dlsh_fail(DL_ERR_VALUE, "dataset(fn (i) { return [x, y] }, n=1000)",
                         "a dataset of a function needs the number of samples, n");
    DLSH_TRY(mark_of(fn, o, &mark));
    maker *m = calloc(1, sizeof *m);
    if (!m) return dlsh_no_memory("a dataset of a function");
    m->train = o->n;
    if (!(m->call = dlsh_callback_new(s, fn))) {
        free(m);
        return dl_failed();
    }
    *d = dl_dataset_given(&(dl_dataset_spec){.name = "function",
                                             .n = {o->n, o->test},
                                             .give = give_made,
                                             .release = free_maker,
                                             .ctx = m,
                                             .padded = o->padded,
                                             .pad = o->pad,
                                             .pad_target = o->pad_target,
                                             .classes = o->classes,
                                             .mark = dlsh_buf_text(&mark)});
    return *d ? DL_OK : dl_failed();
}

/* ---------------------------------------------------------------- other datasets */

int dlsh_part_of(dlsh_value v, dl_part *out) {
    dl_dataset *d = dlsh_unwrap(v, &dlsh_dataset_class);
    const dlsh_split *split = dlsh_unwrap(v, &dlsh_split_class);
    *out = (dl_part){split ? split->data : d, split ? split->which : DL_TRAIN, NULL, 0};
    return out->data != NULL;
}

static dl_status of_datasets(const dlsh_value *train, const dlsh_value *test, dl_dataset **d) {
    dl_part parts[2];
    if (!dlsh_part_of(*train, &parts[0]) || (test && !dlsh_part_of(*test, &parts[1])))
        return dlsh_fail(DL_ERR_TYPE, "dataset(a, b): a to train on, b to test with",
                         "a dataset is joined from datasets or splits, got %s", dlsh_a(test ? *test : *train));
    *d = dl_dataset_view(&parts[0], test ? &parts[1] : NULL);
    return *d ? DL_OK : dl_failed();
}

/* ---------------------------------------------------------------- which one */

dl_status dlsh_dataset_of_values(const dlsh_args *a, dl_dataset **d) {
    const dlsh_value *first = dlsh_arg(a, "kind"), *second = NULL;
    int more = dlsh_arg_count(a, "arguments");
    dlsh_session *s = dlsh_arg_session(a);
    dl_part part;
    settings o;
    if (first->type == DLSH_TENSOR) {
        dlsh_value values[5] = {*first};
        for (int i = 0; i < more && i < 4; i++) values[i + 1] = *dlsh_arg_at(a, "arguments", i);
        return dlsh_dataset_of_tensors(a, values, more + 1, d);
    }
    DLSH_TRY(read_settings(a, &o));
    if (more > 1) return dlsh_arg_fail(a, "arguments", DL_ERR_VALUE, NULL, "a dataset of values takes two at most");
    if (more) second = dlsh_arg_at(a, "arguments", 0);
    if (dlsh_part_of(*first, &part)) return of_datasets(first, second, d);
    if (second && first->type != DLSH_LIST)
        return dlsh_arg_fail(a, "arguments", DL_ERR_TYPE, "dataset(xs, ys): lists of samples and of their targets",
                             "one argument too many behind %s", dlsh_a(*first));
    if (first->type == DLSH_RECORD) return of_record(first->as.record, d);
    if (dlsh_callable(*first)) return of_function(s, *first, &o, d);
    return of_items(s, *first, second, &o, d);
}
