/* Datasets made of values of the language: of tensors, of lists of samples, of functions, of other datasets. */
#include "commands/data/samples.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/data/data.h"
#include "commands/data/fields.h"
#include "commands/nets/nets.h"
#include "lang/parse/fn.h"
#include "lang/session.h"
#include "dlcore/view.h"

/* ---------------------------------------------------------------- options */

/* What may stand after the values by name. */
typedef struct settings {
    long n, test, classes; /* -1: n or classes is not given; 0 classes: targets are numbers */
    int padded;
    double pad, pad_target;
    const dlsh_value *targets; /* names of the fields that are targets; NULL: y */
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
    if (v->type == DLSH_INT && (fabs(*out) >= 9223372036854775808.0 || (long)*out != v->as.i))
        return dlsh_fail(DL_ERR_VALUE, "integers up to 2**53", "%s=%ld has too many digits", name, v->as.i);
    return DL_OK;
}

static dl_status names(const dlsh_value *v, const dlsh_value **out) {
    int good = v->type == DLSH_STR || (v->type == DLSH_LIST && v->as.list->n > 0);
    for (int i = 0; good && v->type == DLSH_LIST && i < v->as.list->n; i++)
        good = v->as.list->items[i].type == DLSH_STR;
    *out = v;
    return good ? DL_OK
                : dlsh_fail(DL_ERR_TYPE, "targets=[\"mask\", \"kind\"]", "targets is a name or a list of names, not %s",
                            dlsh_a(*v));
}

static dl_status read_setting(settings *s, const char *name, const dlsh_value *v) {
    if (!strcmp(name, "n")) return whole(name, v, &s->n);
    if (!strcmp(name, "test")) return whole(name, v, &s->test);
    if (!strcmp(name, "classes")) return whole(name, v, &s->classes);
    if (!strcmp(name, "pad_target")) return number(name, v, &s->pad_target);
    if (!strcmp(name, "targets")) return names(v, &s->targets);
    if (!strcmp(name, "pad")) return s->padded = 1, number(name, v, &s->pad);
    return dlsh_fail(DL_ERR_NAME, "the options are n, test, classes, pad, pad_target and targets",
                     "a dataset of values has no option '%s'", name);
}

static dl_status read_settings(const dlsh_args *a, settings *s) {
    const dlsh_value *v;
    const char *name;
    *s = (settings){.n = -1, .classes = -1};
    for (int i = 0; (name = dlsh_arg_extra(a, i, &v)); i++) DLSH_TRY(read_setting(s, name, v));
    return DL_OK;
}

/* ---------------------------------------------------------------- tensors */

static dl_tensor **column(dlsh_fields *f, int i) { return i < DL_NET_INPUTS ? &f->x[i] : &f->y[i - DL_NET_INPUTS]; }

static dl_tensor *rows(dl_tensor *t, long first, long n) {
    long end = first + n;
    return dl_slice(t, 0, &first, &end, 1);
}

/* n and test: of the first n + test rows the last ones are the test split. */
static dl_status part_rows(const settings *o, dlsh_fields f[2]) {
    long have = dl_ndim(f->x[0]) ? dl_shape(f->x[0])[0] : 0, n = o->n < 0 ? have - o->test : o->n;
    if (n < 0 || n > have - o->test)
        return dlsh_fail(DL_ERR_VALUE, NULL, "n=%ld and test=%ld are more than the %ld samples there are",
                         n < 0 ? 0 : n, o->test, have);
    for (int i = 0; i < 2 * DL_NET_INPUTS; i++) {
        dl_tensor *all = *column(f, i);
        if (!all) continue;
        if (!dl_ndim(all) || dl_shape(all)[0] != have)
            return dlsh_fail(DL_ERR_SHAPE, NULL,
                             "each tensor has a row a sample, and their first sizes differ: %ld and %ld", have,
                             dl_ndim(all) ? dl_shape(all)[0] : 0);
        if (o->test && !(*column(f + 1, i) = rows(all, n, o->test))) return dl_failed();
        if (!(*column(f, i) = rows(all, 0, n))) return *column(f, i) = all, dl_failed();
        dl_unref(all);
    }
    return DL_OK;
}

/* Values that hold a sample a row, for both splits (NULL: no test split), as a dataset. */
static dl_status of_columns(dlsh_session *s, const dlsh_value *train, const dlsh_value *test, const settings *o,
                            dl_dataset **d) {
    dlsh_fields f[2] = {{{NULL}, {NULL}}, {{NULL}, {NULL}}};
    dlsh_sample_form form, other;
    const dlsh_fields_rule rule = {o->targets, 1};
    DLSH_TRY(dlsh_fields_read(s, *train, &rule, &form, &f[0]));
    dl_status st = DL_OK;
    if (o->padded)
        st = dlsh_fail(DL_ERR_VALUE, "samples that differ in shape are given as a list or by a function",
                       "pad has no meaning for tensors, whose samples have one shape");
    else if (test && (o->n >= 0 || o->test))
        st = dlsh_fail(DL_ERR_VALUE, "leave out n and test", "the test split has tensors of its own");
    else if (test)
        st = dlsh_fields_read(s, *test, &rule, &other, &f[1]);
    else if (o->n >= 0 || o->test)
        st = part_rows(o, f);
    if (st == DL_OK && test) st = dlsh_fields_alike(&form, &other, "the test split");
    if (st == DL_OK) {
        int two = f[1].x[0] != NULL;
        dl_columns c = {form.parts,
                        {f[0].x, two ? f[1].x : NULL},
                        {f[0].y, two ? f[1].y : NULL},
                        o->classes < 0    ? 0
                        : o->classes == 0 ? -1
                                          : o->classes};
        *d = dl_dataset_columns(&c, NULL);
        st = *d ? DL_OK : dl_failed();
    }
    dlsh_fields_drop(&f[0]);
    dlsh_fields_drop(&f[1]);
    return st;
}

static dl_status of_tensors(dlsh_session *s, dl_tensor *const t[4], const settings *o, dl_dataset **d) {
    dlsh_value split[2];
    if (!t[0]) return dlsh_fail(DL_ERR_VALUE, "dataset(x, y)", "a dataset of tensors needs samples x");
    if (t[1] && !t[2] != !t[3]) return dlsh_fail(DL_ERR_VALUE, NULL, "test_x and test_y go together");
    for (int k = 0; k < 2; k++) {
        dlsh_entry e[2] = {{"x", dlsh_void()}, {"y", dlsh_void()}};
        int n = 0;
        for (int i = 0; i < 2; i++)
            if (t[2 * k + i]) e[n++].value = dlsh_tensor(dl_ref(t[2 * k + i]));
        split[k] = n ? dlsh_record_of(e, n) : dlsh_none();
    }
    dl_status st = dlsh_failed(split[0]) || dlsh_failed(split[1]) ? dl_failed() : DL_OK;
    if (st == DL_OK) st = of_columns(s, &split[0], t[2] ? &split[1] : NULL, o, d);
    dlsh_drop(split[0]);
    dlsh_drop(split[1]);
    return st;
}

static const char *const tensor_names[] = {"x", "y", "test_x", "test_y"};

/* A tensor, none for no tensor, or an option. */
static dl_status place_tensor(dl_tensor **t, settings *o, const char *name, const dlsh_value *v) {
    int at = 0;
    while (at < 4 && strcmp(tensor_names[at], name) != 0) at++;
    if (at == 4) return read_setting(o, name, v);
    if (v->type == DLSH_NONE) return DL_OK;
    if (v->type != DLSH_TENSOR)
        return dlsh_fail(DL_ERR_NAME, "tensor([...]) makes one of a list",
                         "a dataset of tensors takes tensors x, y, test_x and test_y, not %s=%s", name,
                         dlsh_type_name(*v));
    t[at] = v->as.tensor;
    return DL_OK;
}

dl_status dlsh_dataset_of_tensors(const dlsh_args *a, const dlsh_value *values, int n, dl_dataset **d) {
    dl_tensor *t[4] = {NULL, NULL, NULL, NULL};
    settings o = {.n = -1, .classes = -1};
    const dlsh_value *v;
    const char *name;
    if (n > 4) return dlsh_fail(DL_ERR_VALUE, NULL, "a dataset takes at most 4 tensors, x, y, test_x and test_y");
    for (int i = 0; i < n; i++) {
        if (values[i].type == DLSH_NONE) continue;
        if (values[i].type != DLSH_TENSOR)
            return dlsh_fail(DL_ERR_TYPE, "tensor([...]) makes one of a list",
                             "argument %d of a dataset of tensors must be a tensor, got %s", i + 1,
                             dlsh_type_name(values[i]));
        t[i] = values[i].as.tensor;
    }
    for (int i = 0; (name = dlsh_arg_extra(a, i, &v)); i++) DLSH_TRY(place_tensor(t, &o, name, v));
    return of_tensors(dlsh_arg_session(a), t, &o, d);
}

/* The fields of a record whose names begin with `prefix`, without it, or those that do not begin with test_. */
static dlsh_value fields_of(const dlsh_record *r, const char *prefix) {
    dlsh_value out = dlsh_new_record();
    dl_status st = dlsh_failed(out) ? dl_failed() : DL_OK;
    for (int i = 0; st == DL_OK && i < r->n; i++) {
        int test = !strncmp(r->keys[i], "test_", 5);
        if (test == (*prefix != 0))
            st = dlsh_record_set(out.as.record, r->keys[i] + strlen(prefix), dlsh_ref(r->values[i]));
    }
    if (st == DL_OK) return out;
    dlsh_drop(out);
    return dlsh_void();
}

/* {x: tensor, y: tensor, test_x: ..., test_y: ...}, and other names for several inputs. */
static dl_status of_record(dlsh_session *s, const dlsh_record *r, const settings *o, dl_dataset **d) {
    DLSH_DROPPED dlsh_value train = fields_of(r, ""), test = fields_of(r, "test_");
    dl_status st = dlsh_failed(train) || dlsh_failed(test) ? dl_failed() : DL_OK;
    int has_test = st == DL_OK && test.as.record->n;
    if (has_test && test.as.record->n != train.as.record->n)
        st = dlsh_fail(DL_ERR_VALUE, "each part of the training split has one of the test split: test_x, test_y",
                       "the record has %d parts of the training split and %d of the test split", train.as.record->n,
                       test.as.record->n);
    if (st == DL_OK) st = of_columns(s, &train, has_test ? &test : NULL, o, d);
    return st;
}

/* How many rows a tensor has, or all tensors of a list or record; -1: they are not tensors or differ. */
static long rows_of(const dlsh_value *v) {
    const dlsh_value *items = v;
    int n = 1;
    if (v->type == DLSH_LIST) items = v->as.list->items, n = v->as.list->n;
    if (v->type == DLSH_RECORD) items = v->as.record->values, n = v->as.record->n;
    long rows = -1;
    for (int i = 0; i < n; i++) {
        if (items[i].type != DLSH_TENSOR || !dl_ndim(items[i].as.tensor)) return -1;
        long have = dl_shape(items[i].as.tensor)[0];
        if (i && have != rows) return -1;
        rows = have;
    }
    return rows;
}

/* Do x and y hold a sample a row: tensors side by side? A list of as many tensors as there are targets has one a
 * sample. */
static int are_columns(const dlsh_value *x, const dlsh_value *y) {
    long rows = y ? rows_of(x) : -1;
    if (rows < 0 || rows_of(y) != rows) return 0;
    return x->type == DLSH_RECORD || (x->type == DLSH_LIST && x->as.list->n != rows);
}

/* dataset([a, b], y), dataset({a: .., b: ..}, y) and the same for the test split after them. */
static dl_status of_pairs(const dlsh_args *a, const dlsh_value *x, const settings *o, dl_dataset **d) {
    int more = dlsh_arg_count(a, "arguments");
    if (more != 1 && more != 3)
        return dlsh_arg_fail(a, "arguments", DL_ERR_VALUE, NULL, "inputs and targets of the test split go together");
    dlsh_value split[2] = {dlsh_void(), dlsh_none()};
    dl_status st = DL_OK;
    for (int k = 0; st == DL_OK && k <= more / 2; k++) {
        const dlsh_value *in = k ? dlsh_arg_at(a, "arguments", 1) : x;
        split[k] = dlsh_list_of((dlsh_value[]){dlsh_ref(*in), dlsh_ref(*dlsh_arg_at(a, "arguments", 2 * k))}, 2);
        if (dlsh_failed(split[k])) st = dl_failed();
    }
    if (st == DL_OK) st = of_columns(dlsh_arg_session(a), &split[0], more == 3 ? &split[1] : NULL, o, d);
    dlsh_drop(split[0]);
    dlsh_drop(split[1]);
    return st;
}

/* ---------------------------------------------------------------- lists of samples */

typedef struct items {
    long n, cap;
    dlsh_fields *of; /* on the CPU */
    dlsh_sample_form form;
} items;

static void free_items(void *ctx) {
    items *l = ctx;
    for (long i = 0; i < l->n; i++) dlsh_fields_drop(&l->of[i]);
    free(l->of);
    free(l);
}

static dl_status give_item(void *ctx, DLSH_UNUSED dl_split split, long i, dl_tensor **x, dl_tensor **y) {
    const items *l = ctx;
    for (int k = 0; k < l->form.parts.inputs; k++) x[k] = dl_ref(l->of[i].x[k]);
    for (int k = 0; k < l->form.parts.targets; k++) y[k] = dl_ref(l->of[i].y[k]);
    return DL_OK;
}

/* Moves tensors to the CPU. Releases all when that fails. */
static dl_status bring(dlsh_fields *f) {
    for (int i = 0; i < 2 * DL_NET_INPUTS; i++) {
        dl_tensor **t = i < DL_NET_INPUTS ? &f->x[i] : &f->y[i - DL_NET_INPUTS],
                  *here = *t ? dl_to_device(*t, 0) : NULL;
        if (*t && !here) return dlsh_fields_drop(f), dl_failed();
        dl_unref(*t);
        *t = here;
    }
    return DL_OK;
}

static dl_status add_item(dlsh_session *s, items *l, dlsh_value v, const settings *o) {
    dlsh_sample_form form;
    char what[48];
    if (l->n == l->cap) {
        long cap = l->cap ? 2 * l->cap : 256;
        dlsh_fields *more = dl_memory_resize(l->of, l->cap, cap, sizeof *more);
        if (!more) return dl_failed();
        l->of = more, l->cap = cap;
    }
    DLSH_TRY(dlsh_fields_read(s, v, &(dlsh_fields_rule){o->targets, 0}, &form, &l->of[l->n]));
    DLSH_TRY(bring(&l->of[l->n]));
    if (!l->n++) return l->form = form, DL_OK;
    snprintf(what, sizeof what, "sample %ld", l->n - 1);
    return dlsh_fields_alike(&l->form, &form, what);
}

/* Targets that are all numbers from 0 to 99999 are class numbers, as those of a tensor are. */
static dl_status count_classes(const items *l, long *classes) {
    *classes = 0;
    for (long i = 0; l->form.parts.targets == 1 && i < l->n; i++) {
        long label;
        dl_tensor *y = l->of[i].y[0];
        dl_dtype t = dl_dtype_of(y);
        if (dl_ndim(y) || (t != DL_I64 && t != DL_I32 && t != DL_U8)) return *classes = 0, DL_OK;
        DLSH_TRY(dl_item_i(y, &label));
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
        DLSH_DROPPED dlsh_value v = dlsh_void(), w = dlsh_void();
        st = dlsh_iter_next(s, &it, &v, &done);
        if (st == DL_OK && targets) st = dlsh_iter_next(s, &of_y, &w, &ended);
        if (st == DL_OK && targets && done != ended)
            st = dlsh_fail(DL_ERR_SHAPE, NULL, "there are only %ld %s, and more %s", l->n, done ? "samples" : "targets",
                           done ? "targets" : "samples");
        if (st == DL_OK && !done && targets) {
            v = dlsh_list_of((dlsh_value[]){v, w}, 2), w = dlsh_void();
            if (dlsh_failed(v)) st = dl_failed();
        }
        if (st == DL_OK && !done) st = add_item(s, l, v, o);
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
        st = dlsh_fail(DL_ERR_VALUE, NULL, "test=%ld is more than the %ld samples of the list", o->test, l->n);
    if (st == DL_OK && classes < 0) st = count_classes(l, &classes);
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
                                                          .classes = classes,
                                                          .form = &l->form.parts});
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
    dlsh_value named; /* the fields that are targets; none: y */
    dlsh_sample_form form;
    dlsh_fields first; /* sample 0, until it is asked for the first time */
} maker;

static void free_maker(void *ctx) {
    maker *m = ctx;
    dlsh_callback_free(m->call);
    dlsh_fields_drop(&m->first);
    dlsh_drop(m->named);
    free(m);
}

/* Puts the number of the sample before the message of a failure. */
static dl_status name_sample(long i) {
    dl_error e;
    char text[sizeof e.message + 32];
    dl_error_take(&e);
    int n = snprintf(text, sizeof text, "sample %ld: ", i);
    if (e.code != DL_ERR_INTERRUPT && strncmp(e.message, text, (size_t)n) != 0) { /* a function may ask for itself */
        snprintf(text + n, sizeof text - (size_t)n, "%s", e.message);
        text[sizeof e.message - 1] = 0;
        strcpy(e.message, text);
    }
    return dl_error_put(&e);
}

static dl_status make_sample(maker *m, long i, dlsh_sample_form *form, dlsh_fields *f) {
    dlsh_value arg = dlsh_int(i);
    DLSH_DROPPED dlsh_value out = dlsh_void();
    const dlsh_fields_rule rule = {m->named.type == DLSH_NONE ? NULL : &m->named, 0};
    dl_status st = dlsh_call(m->call->session, m->call->fn, &(dlsh_callargs){1, &arg, NULL}, &out);
    if (st == DL_OK) st = dlsh_fields_read(m->call->session, out, &rule, form, f);
    return st == DL_OK ? st : name_sample(i);
}

static dl_status give_made(void *ctx, dl_split split, long i, dl_tensor **x, dl_tensor **y) {
    maker *m = ctx;
    dlsh_fields f = m->first;
    dlsh_sample_form form;
    char what[48];
    m->first = (dlsh_fields){{NULL}, {NULL}};
    if (!f.x[0]) {
        long number = split == DL_TEST ? m->train + i : i;
        DLSH_TRY(make_sample(m, number, &form, &f));
        snprintf(what, sizeof what, "sample %ld", number);
        if (dlsh_fields_alike(&m->form, &form, what) != DL_OK) return dlsh_fields_drop(&f), dl_failed();
    }
    memcpy(x, f.x, (size_t)m->form.parts.inputs * sizeof *x);
    memcpy(y, f.y, (size_t)m->form.parts.targets * sizeof *y);
    return DL_OK;
}

const dlsh_callback *dlsh_dataset_function(const dl_dataset *d) {
    const maker *m = dl_dataset_context(d, free_maker);
    return m ? m->call : NULL;
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
    m->train = o->n, m->named = o->targets ? dlsh_ref(*o->targets) : dlsh_none();
    if (!(m->call = dlsh_callback_new(s, fn)) || make_sample(m, 0, &m->form, &m->first) != DL_OK) {
        free_maker(m);
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
                                             .classes = o->classes < 0 ? 0 : o->classes,
                                             .mark = dlsh_buf_text(&mark),
                                             .form = &m->form.parts});
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
    if (are_columns(first, more ? dlsh_arg_at(a, "arguments", 0) : NULL)) return of_pairs(a, first, &o, d);
    if (more > 1) return dlsh_arg_fail(a, "arguments", DL_ERR_VALUE, NULL, "a dataset of values takes two at most");
    if (more) second = dlsh_arg_at(a, "arguments", 0);
    if (dlsh_part_of(*first, &part)) {
        const dlsh_value *v;
        const char *option = dlsh_arg_extra(a, 0, &v);
        if (!option) return of_datasets(first, second, d);
        return dlsh_fail(DL_ERR_NAME, "random_split, subset and kfold part a dataset",
                         "a dataset of datasets takes no option '%s'", option);
    }
    if (second && first->type != DLSH_LIST)
        return dlsh_arg_fail(a, "arguments", DL_ERR_TYPE, "dataset(xs, ys): lists of samples and of their targets",
                             "one argument too many behind %s", dlsh_a(*first));
    if (first->type == DLSH_RECORD) return of_record(s, first->as.record, &o, d);
    if (dlsh_callable(*first)) return of_function(s, *first, &o, d);
    return of_items(s, *first, second, &o, d);
}
