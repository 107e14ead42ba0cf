/* Samples and batches as values of the language and back; functions that make batches. */
#include "commands/data/fields.h"

#include <stdio.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "lang/session.h"
#include "dlcore/arithmetic.h"
#include "dlcore/create.h"
#include "dlcore/view.h"

void dlsh_fields_drop(dlsh_fields *f) {
    for (int i = 0; i < DL_NET_INPUTS; i++) DLSH_UNREF(f->x[i], f->y[i]);
    *f = (dlsh_fields){{NULL}, {NULL}};
}

static dl_tensor **slot(dlsh_fields *f, int i) { return i < DL_NET_INPUTS ? &f->x[i] : &f->y[i - DL_NET_INPUTS]; }

dl_status dlsh_fields_place(dlsh_fields *f) {
    int device = dlsh_default_device();
    for (int i = 0; device && i < 2 * DL_NET_INPUTS; i++) {
        dl_tensor **t = slot(f, i), *there = *t ? dl_to_device(*t, device) : NULL;
        if (*t && !there) return dlsh_fields_drop(f), dl_failed();
        dl_unref(*t);
        *t = there;
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- as values */

dlsh_value dlsh_fields_value(const dl_batch_form *form, int targets, dl_tensor *const *t) {
    const char *names[DL_NET_INPUTS];
    int n = targets ? form->targets : form->inputs;
    for (int i = 0; i < n; i++) names[i] = form->names[(targets ? form->inputs : 0) + i];
    return dlsh_tensors_value(t, n, names);
}

dl_status dlsh_fields_record(const dl_batch_form *form, dlsh_fields *f, dlsh_value *out) {
    dlsh_value x = dlsh_fields_value(form, 0, f->x), y = dlsh_fields_value(form, 1, f->y);
    dlsh_fields_drop(f);
    return dlsh_give(DLSH_RECORD_OF({"x", x}, {"y", y}), out);
}

dl_status dlsh_fields_sample(const dl_batch_form *form, dlsh_fields *f, dlsh_value *out) {
    dlsh_fields one = {{NULL}, {NULL}};
    dl_status st = DL_OK;
    for (int i = 0; st == DL_OK && i < 2 * DL_NET_INPUTS; i++)
        if (*slot(f, i) && !(*slot(&one, i) = dl_select(*slot(f, i), 0, 0))) st = dl_failed();
    dlsh_fields_drop(f);
    if (st == DL_OK) return dlsh_fields_record(form, &one, out);
    dlsh_fields_drop(&one);
    return st;
}

/* ---------------------------------------------------------------- reading values */

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
    DLSH_OWNED dl_tensor *real = dl_to_dtype(x, DL_F32),
                         *scale = real ? dl_full(&(long){0}, 0, 255, DL_F32, dl_device_of(x)) : NULL;
    return scale ? dl_div(real, scale) : NULL;
}

/* An input becomes a target. */
static dl_status make_target(dl_tensor **t, int rows) {
    dl_tensor *y = own_target(*t, dl_ndim(*t) - rows);
    if (!y) return dl_failed();
    dl_unref(*t);
    *t = y;
    return DL_OK;
}

/* Values with their names ("": by position) that are the inputs, or the targets. */
typedef struct parts {
    int n;
    const char *names[DL_NET_INPUTS];
    const dlsh_value *values[DL_NET_INPUTS];
} parts;

static dl_status add_part(parts *p, const char *name, const dlsh_value *v, const char *what) {
    if (p->n == DL_NET_INPUTS) return dlsh_fail(DL_ERR_VALUE, NULL, "a sample has at most %d %ss", DL_NET_INPUTS, what);
    if (strlen(name) >= DL_FIELD_NAME)
        return dlsh_fail(DL_ERR_VALUE, NULL, "the name of the %s '%.20s...' has more than %d characters", what, name,
                         DL_FIELD_NAME - 1);
    p->names[p->n] = name, p->values[p->n++] = v;
    return DL_OK;
}

/* A list that holds a tensor of a dimension or more stands for several; lists of numbers are one tensor. */
static int is_several(const dlsh_value *v) {
    for (int i = 0; v->type == DLSH_LIST && i < v->as.list->n; i++) {
        dlsh_value item = v->as.list->items[i];
        if (item.type == DLSH_RECORD || (item.type == DLSH_TENSOR && dl_ndim(item.as.tensor) > 0)) return 1;
    }
    return v->type == DLSH_RECORD;
}

/* The only part may be a list or record of several. */
static dl_status spread(parts *p, const char *what) {
    if (p->n != 1 || !is_several(p->values[0])) return DL_OK;
    dlsh_value v = *p->values[0];
    p->n = 0;
    for (int i = 0; v.type == DLSH_LIST && i < v.as.list->n; i++) DLSH_TRY(add_part(p, "", &v.as.list->items[i], what));
    for (int i = 0; v.type == DLSH_RECORD && i < v.as.record->n; i++)
        DLSH_TRY(add_part(p, v.as.record->keys[i], &v.as.record->values[i], what));
    return DL_OK;
}

static int is_target(const dlsh_fields_rule *rule, const char *name) {
    const dlsh_value *v = rule->targets;
    if (!v) return !strcmp(name, "y");
    if (v->type == DLSH_STR) return !strcmp(name, v->as.str->s);
    for (int i = 0; i < v->as.list->n; i++)
        if (!strcmp(name, v->as.list->items[i].as.str->s)) return 1;
    return 0;
}

/* Each name in targets= is that of a field. */
static dl_status check_targets(const dlsh_value *v, const dlsh_value *targets) {
    int n = !targets ? 0 : targets->type == DLSH_STR ? 1 : targets->as.list->n;
    for (int i = 0; i < n; i++) {
        const char *name = targets->type == DLSH_STR ? targets->as.str->s : targets->as.list->items[i].as.str->s;
        if (v->type != DLSH_RECORD)
            return dlsh_fail(DL_ERR_TYPE, "{a: .., b: ..} has fields",
                             "targets names fields of records, and the samples are not records but %s", dlsh_a(*v));
        if (!dlsh_record_get(v->as.record, name))
            return dlsh_fail(DL_ERR_NAME, NULL, "targets names '%s', and the samples have no field of this name", name);
    }
    return DL_OK;
}

static dl_status sort_parts(const dlsh_value *v, const dlsh_fields_rule *rule, parts *x, parts *y) {
    DLSH_TRY(check_targets(v, rule->targets));
    if (v->type == DLSH_RECORD) {
        const dlsh_record *r = v->as.record;
        for (int i = 0; i < r->n; i++) {
            int target = is_target(rule, r->keys[i]);
            DLSH_TRY(add_part(target ? y : x, r->keys[i], &r->values[i], target ? "target" : "input"));
        }
    } else if (v->type == DLSH_LIST && v->as.list->n == 2) {
        DLSH_TRY(add_part(x, "x", &v->as.list->items[0], "input"));
        DLSH_TRY(add_part(y, "y", &v->as.list->items[1], "target"));
    } else
        DLSH_TRY(add_part(x, "x", v, "input"));
    if (!x->n)
        return dlsh_fail(DL_ERR_VALUE, "{x: [1.0, 2.0], y: 0}",
                         "a sample that is a record has inputs beside its targets");
    DLSH_TRY(spread(x, "input"));
    return spread(y, "target");
}

/* Tensors of the parts. A single one called x or y needs no name. */
static dl_status take(dlsh_session *s, const parts *p, const char *usual, char (*names)[DL_FIELD_NAME], dl_tensor **t) {
    for (int i = 0; i < p->n; i++) {
        int plain = p->n == 1 && !strcmp(p->names[i], usual);
        snprintf(names[i], DL_FIELD_NAME, "%s", plain ? "" : p->names[i]);
        if (is_several(p->values[i]))
            return dlsh_fail(DL_ERR_TYPE, "name them side by side: {a: .., b: .., y: ..}",
                             "the part '%s' of a sample is a list or record of tensors", p->names[i]);
        DLSH_TRY(to_tensor(s, *p->values[i], &t[i]));
    }
    return DL_OK;
}

dl_status dlsh_fields_read(dlsh_session *s, dlsh_value v, const dlsh_fields_rule *rule, dlsh_sample_form *form,
                           dlsh_fields *f) {
    parts x = {0}, y = {0};
    *form = (dlsh_sample_form){0};
    *f = (dlsh_fields){{NULL}, {NULL}};
    DLSH_TRY(sort_parts(&v, rule, &x, &y));
    form->own = !y.n;
    form->parts.inputs = x.n, form->parts.targets = y.n ? y.n : x.n;
    dl_status st = take(s, &x, "x", form->parts.names, f->x);
    if (st == DL_OK) st = take(s, y.n ? &y : &x, y.n ? "y" : "x", form->parts.names + x.n, f->y);
    for (int i = 0; st == DL_OK && !y.n && i < x.n; i++) st = make_target(&f->y[i], rule->rows);
    if (st != DL_OK) dlsh_fields_drop(f);
    return st;
}

dl_status dlsh_fields_alike(const dlsh_sample_form *first, const dlsh_sample_form *form, const char *what) {
    const dl_batch_form *f = &first->parts, *g = &form->parts;
    int i = 0, n = f->inputs + f->targets;
    if (first->own != form->own)
        return dlsh_fail(
            DL_ERR_VALUE, "{x: .., y: ..} or [x, y] for each sample",
            form->own ? "%s has no target, and the first has one" : "%s has a target, and the first has none", what);
    if (!memcmp(f, g, sizeof *f)) return DL_OK;
    if (f->inputs != g->inputs || f->targets != g->targets)
        return dlsh_fail(DL_ERR_VALUE, NULL, "%s has %d inputs and %d targets, the first %d and %d", what, g->inputs,
                         g->targets, f->inputs, f->targets);
    while (i < n && !strcmp(f->names[i], g->names[i])) i++;
    return dlsh_fail(DL_ERR_VALUE, "samples name their parts alike, in the same order",
                     "%s has '%s' where the first has '%s'", what, g->names[i], f->names[i]);
}

/* ---------------------------------------------------------------- functions that make batches */

/* Samples as d.train[i] gives them. */
static dl_status list_samples(dl_dataset *d, dl_split split, const long *index, long n, dlsh_value *out) {
    DLSH_DROPPED dlsh_value list = dlsh_new_list(n);
    for (long i = 0; i < n; i++) {
        dlsh_fields one = {{NULL}, {NULL}};
        dlsh_value sample = dlsh_void();
        DLSH_TRY(dl_dataset_gather(d, split, &index[i], 1, one.x, one.y));
        DLSH_TRY(dlsh_fields_place(&one));
        DLSH_TRY(dlsh_fields_sample(dl_dataset_form(d), &one, &sample));
        DLSH_TRY(dlsh_append(list, sample));
    }
    return dlsh_hand_over(&list, out);
}

static dl_status collate(void *ctx, dl_dataset *d, dl_split split, const long *index, long n, dl_batch_form *form,
                         dl_tensor **x, dl_tensor **y) {
    dlsh_callback *cb = ctx;
    dlsh_value samples = dlsh_void(), out = dlsh_void();
    dlsh_fields f = {{NULL}, {NULL}};
    dlsh_sample_form read = {0};
    DLSH_TRY(list_samples(d, split, index, n, &samples));
    dl_status st = dlsh_call(cb->session, cb->fn, &(dlsh_callargs){1, &samples, NULL}, &out);
    int pair = out.type == DLSH_RECORD || (out.type == DLSH_LIST && out.as.list->n == 2);
    if (st == DL_OK && !pair)
        st = dlsh_fail(DL_ERR_TYPE, "return {x: stack(map(fn (s) { return s.x }, samples)), y: ...}, or [x, y]",
                       "the collate function must return inputs and targets, got %s", dlsh_a(out));
    if (st == DL_OK) st = dlsh_fields_read(cb->session, out, &(dlsh_fields_rule){NULL, 1}, &read, &f);
    *form = read.parts;
    dlsh_drop(samples);
    dlsh_drop(out);
    memcpy(x, f.x, sizeof f.x);
    memcpy(y, f.y, sizeof f.y);
    return st;
}

dl_status dlsh_arg_collate(const dlsh_args *a, dl_collate **out) {
    const dlsh_value *v = dlsh_arg(a, "collate");
    *out = NULL;
    if (!v || v->type == DLSH_NONE) return DL_OK;
    if (!dlsh_callable(*v))
        return dlsh_arg_fail(a, "collate", DL_ERR_TYPE, "collate=fn (samples) { return {x: .., y: ..} }",
                             "collate must be a function, got %s", dlsh_type_name(*v));
    dlsh_callback *cb = dlsh_callback_new(dlsh_arg_session(a), *v);
    *out = cb ? dl_collate_new(collate, cb, dlsh_callback_free) : NULL;
    return *out ? DL_OK : dl_failed();
}
