/* Tensors of layers that are computed: the tensors behind them are parts of the layer, those themselves are there only
 * while it runs. Nodes of a run end in what is trained, so that optimizers, files and copies need to know nothing. */
#include "nn/reparam.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "nn/parse.h"
#include "dlcore/copy.h"

enum { PATH_ROOM = 128 };

static dl_status no_memory(void) { return dl_fail(DL_ERR_MEMORY, "no memory for a parametrization"); }

/* ---------------------------------------------------------------- which tensor */

/* Where a tensor lies: in a slot of the layer, in a part that holds nothing else, or in the layer in braces. */
typedef struct holder {
    dl_module *m;
    int slot;
} holder;

static int slot_of(const dl_module *m, const char *name) {
    for (int i = 0; i < DL_LAYER_TENSORS && m->row->tensors[i]; i++)
        if (!strcmp(m->row->tensors[i], name)) return i;
    return -1;
}

/* m NULL: the layer has none of that name. */
static holder holder_of(const dl_module *m, const char *name, bool inside) {
    if (inside) {
        dl_module *c = dl_reparam_inner(m);
        return (holder){c, 0};
    }
    const int slot = slot_of(m, name);
    if (slot >= 0) return (holder){(dl_module *)m, slot};
    dl_module *part = strchr(name, '.') ? NULL : dl_module_find((dl_module *)m, name);
    return part && *name && dl_module_holds_tensor(part) && !part->source ? (holder){part, 0} : (holder){0};
}

static holder holder_for(const dl_module *m, const dl_reparam *r) { return holder_of(m, r->name, r->inside); }

static bool is_same(const dl_reparam *a, const dl_reparam *b) {
    return a->inside == b->inside && !strcmp(a->name, b->name);
}

/* Is r the first of its tensor? */
static bool is_first(const dl_module *m, const dl_reparam *r) {
    const dl_reparam *f = m->reparams;
    while (f != r && !is_same(f, r)) f = f->next;
    return f == r;
}

static dl_reparam *first_of(const dl_module *m, const char *name) {
    dl_reparam *r = m->reparams;
    while (r && (r->inside || strcmp(r->name, name) != 0)) r = r->next;
    return r;
}

static dl_reparam *last_of(const dl_module *m, const char *name) {
    dl_reparam *last = NULL;
    for (dl_reparam *r = m->reparams; r; r = r->next)
        if (!r->inside && !strcmp(r->name, name)) last = r;
    return last;
}

bool dl_reparam_computes(const dl_module *m, const char *name) {
    const dl_reparam *r = first_of(m, name);
    return r && r->started;
}

const dl_optval *dl_reparam_opt(const dl_module *m, const dl_reparam *r, const char *name) {
    return r->opt ? dl_option(&dl_layer_row_find(r->row->layer)->kind, r->opt, name) : dl_m_opt(m, name);
}

dl_module *dl_reparam_inner(const dl_module *m) {
    dl_module *c = NULL;
    int n = 0;
    for (int i = 0; i < m->nchild; i++)
        if (!m->child[i].m->source) c = m->child[i].m, n++;
    const char *first = n == 1 ? c->row->tensors[0] : NULL;
    if (first && c->row->build && !strcmp(first, "weight") && c->row->nparams && !c->tie && !c->reparams) return c;
    dl_fail_hint(DL_ERR_VALUE, m->row->kind.example, "layer %s takes one layer with a weight of its own in braces",
                 m->row->kind.name);
    return NULL;
}

/* ---------------------------------------------------------------- the tensors behind it */

/* The number of a function among those of its tensor. */
static int number_of(const dl_module *m, const dl_reparam *r) {
    int n = 0;
    for (const dl_reparam *f = m->reparams; f != r; f = f->next) n += f->fn && is_same(f, r);
    return n;
}

void dl_reparam_path(const dl_reparam *r, int i, char buf[DL_PATH_MAX]) {
    if (!r->fn)
        snprintf(buf, DL_PATH_MAX, "%.100s%s", r->name, r->row->suffix[i]);
    else if (r->ntrained == 1)
        snprintf(buf, DL_PATH_MAX, "parametrizations.%.100s.original", r->name);
    else
        snprintf(buf, DL_PATH_MAX, "parametrizations.%.100s.original%d", r->name, i);
}

static dl_module *source_at(const dl_module *m, const dl_reparam *r, int i) {
    char path[DL_PATH_MAX];
    dl_reparam_path(r, i, path);
    return dl_module_find((dl_module *)m, path);
}

/* All of them, trained ones first, borrowed; of a way that takes what a former one computes that in the first place.
 * Returns how many are trained, -1: one is missing. */
static int tensors_of(const dl_module *m, const dl_reparam *r, dl_tensor *former, dl_tensor **t) {
    int n = r->ntrained ? r->ntrained : 1;
    if (!r->ntrained) t[0] = former;
    for (int i = r->ntrained ? 0 : 1; i < n + r->row->nbuffers; i++) {
        const dl_module *s = source_at(m, r, r->ntrained || i < n ? i : i - n + r->row->ntrained);
        if (!s || !s->tensor[0]) return dl_fail(DL_ERR_INTERNAL, "a tensor behind %s is missing", r->name), -1;
        t[i] = s->tensor[0];
    }
    return n;
}

static dl_module *plain_module(const char *kind) {
    const dl_layer_row *row = dl_layer_row_find(kind);
    dl_optval *opt = calloc(DL_OPT_MAX, sizeof *opt);
    int bad;
    if (!opt) return no_memory(), NULL;
    if (dl_options_read("layer", &row->kind, NULL, 0, opt, &bad) != DL_OK) return free(opt), NULL;
    dl_module *m = dl_module_new(row, opt);
    if (m) m->source = true;
    return m;
}

/* Adds a part of a name at a place in m, with the path that it has there. Takes the reference. */
static dl_status add_part(dl_module *m, int at, const char *name, dl_module *part) {
    char path[2 * DL_PATH_MAX];
    if (!part) return dl_failed();
    part->training = m->training, part->dtype = m->dtype, part->device = m->device;
    snprintf(path, sizeof path, "%s%s%s", m->path ? m->path : "", m->path ? "." : "", name);
    DL_TRY(dl_module_insert(m, at, name, part));
    return part->path ? DL_OK : dl_module_take_path(part, path);
}

/* The list of a name in m, made if it is not there. */
static dl_module *list_in(dl_module *m, const char *name) {
    dl_module *l = m ? dl_module_find(m, name) : NULL;
    if (l || !m) return l;
    if (add_part(m, m->nchild, name, plain_module("list")) != DL_OK) return NULL;
    return dl_module_find(m, name);
}

static dl_module *functions_of(dl_module *m, const char *name) { return list_in(list_in(m, "parametrizations"), name); }

/* Makes t the tensor number i behind r, a reference to which is taken. */
static dl_status add_source(dl_module *m, const dl_reparam *r, int i, dl_tensor *t, bool trained) {
    char path[DL_PATH_MAX], full[2 * DL_PATH_MAX];
    dl_reparam_path(r, i, path);
    const char *dot = strrchr(path, '.');
    dl_module *in = r->fn ? functions_of(m, r->name) : m, *s = in ? plain_module(trained ? "param" : "buffer") : NULL;
    if (!s) return dl_failed();
    s->tensor[0] = dl_ref(t), s->built = true;
    s->inputs.n = 1, s->inputs.in[0].ndim = t->ndim, s->inputs.in[0].dtype = t->dtype;
    memcpy(s->inputs.in[0].shape, t->shape, sizeof t->shape);
    t->weight = trained;
    snprintf(full, sizeof full, "%s%s%s", m->path ? m->path : "", m->path ? "." : "", path);
    dl_status st = dl_tensor_set_name(t, full);
    return st == DL_OK ? add_part(in, in->nchild, dot ? dot + 1 : path, s) : (dl_module_unref(s), st);
}

static void remove_part(dl_module *in, dl_module *part) {
    for (int i = 0; in && i < in->nchild; i++)
        if (in->child[i].m == part) dl_module_remove(in, i);
}

/* Removes the list of a tensor's functions, and that of the lists, when they are empty. */
static void remove_lists(dl_module *m, const char *name) {
    dl_module *all = dl_module_find(m, "parametrizations"), *own = all ? dl_module_find(all, name) : NULL;
    if (own && !own->nchild) remove_part(all, own);
    if (all && !all->nchild) remove_part(m, all);
}

static void remove_sources(dl_module *m, const dl_reparam *r) {
    dl_module *in = r->fn ? dl_module_find(m, "parametrizations") : m;
    if (in && r->fn) in = dl_module_find(in, r->name);
    for (int i = r->ntrained ? 0 : r->row->ntrained;
         i < (r->ntrained ? r->ntrained : r->row->ntrained) + r->row->nbuffers; i++)
        remove_part(in, source_at(m, r, i));
    if (r->fn) remove_part(in, r->fn), remove_lists(m, r->name);
    dl_module_parts_changed();
    dl_module_changed();
}

/* ---------------------------------------------------------------- computing */

/* One more way is applied to what lies there. */
static dl_status compute_one(dl_module *m, const dl_reparam *r) {
    dl_tensor *t[2 * DL_REPARAM_TENSORS];
    holder h = holder_for(m, r);
    if (!h.m) return dl_failed();
    dl_tensor **at = &h.m->tensor[h.slot];
    const int n = tensors_of(m, r, *at, t);
    dl_tensor *value = n < 0 ? NULL : r->row->value(m, r, t, n);
    if (!value) return dl_failed();
    dl_unref(*at);
    *at = value;
    return DL_OK;
}

static void clear(dl_module *m) {
    for (const dl_reparam *r = m->reparams; r; r = r->next) {
        holder h = r->started ? holder_for(m, r) : (holder){0};
        if (!h.m) continue;
        dl_unref(h.m->tensor[h.slot]);
        h.m->tensor[h.slot] = NULL;
    }
}

static dl_status compute(dl_module *m) {
    dl_status st = DL_OK;
    clear(m);
    for (const dl_reparam *r = m->reparams; r && st == DL_OK; r = r->next)
        if (r->started) st = compute_one(m, r);
    if (st != DL_OK) clear(m);
    return st;
}

dl_status dl_reparam_enter(dl_module *m, bool *entered) {
    *entered = false;
    if (m->computed) return DL_OK;
    DL_TRY(compute(m));
    *entered = m->computed = true;
    return DL_OK;
}

void dl_reparam_leave(dl_module *m) {
    m->computed = false;
    clear(m);
}

static _Thread_local bool reads;
bool dl_reparam_reading(void) { return reads; }

/* The same for somebody who asks. */
static dl_status compute_to_read(dl_module *m, bool *entered) {
    const bool outer = reads;
    reads = true;
    const dl_status st = dl_module_compute(m, entered);
    reads = outer;
    return st;
}

/* The layer that computes the tensor at a path, and its name there; NULL: none does. */
static dl_module *computing(dl_module *m, const char *path, const char **name) {
    const char *dot = strrchr(path, '.');
    char head[DL_PATH_MAX];
    snprintf(head, sizeof head, "%.*s", dot ? (int)(dot - path) : 0, path);
    dl_module *layer = dl_module_find(m, head);
    *name = dot ? dot + 1 : path;
    if (layer && !dl_reparam_computes(layer, *name))
        *name = !strcmp(*name, "w") ? "weight" : !strcmp(*name, "b") ? "bias" : *name;
    return layer && dl_reparam_computes(layer, *name) ? layer : NULL;
}

dl_tensor *dl_module_value(dl_module *m, const char *path) {
    if (!m) return dl_fail_null("the net"), NULL;
    dl_tensor *there = dl_module_tensor(m, path);
    if (there) return dl_ref(there);
    const char *name;
    dl_module *layer = computing(m, path, &name);
    bool entered;
    if (!layer || compute_to_read(layer, &entered) != DL_OK) return NULL;
    holder h = holder_of(layer, name, false);
    dl_tensor *value = dl_ref(h.m->tensor[h.slot]);
    if (entered) dl_reparam_leave(layer);
    return value;
}

/* ---------------------------------------------------------------- starting */

/* The value that r begins with, owned. */
static dl_tensor *value_before(dl_module *m, const dl_reparam *r, holder h) {
    if (is_first(m, r)) return dl_ref(h.m->tensor[h.slot]);
    bool entered;
    if (compute_to_read(m, &entered) != DL_OK) return NULL;
    dl_tensor *value = dl_detach(h.m->tensor[h.slot]);
    if (entered) dl_reparam_leave(m);
    return value;
}

/* The tensor itself stays a parameter, as one of those behind it: optimizers know it. */
static dl_status keep_object(const dl_reparam *r, dl_tensor *own, dl_tensor **t, int n) {
    const int i = n > r->row->shaped ? r->row->shaped : 0;
    for (int k = 0; k < n; k++)
        if (k != i && dl_requires_grad(own)) DL_TRY(dl_set_requires_grad(t[k], 1));
    if (!dl_shape_eq(own, t[i]) || own->dtype != t[i]->dtype)
        return dl_requires_grad(own) ? dl_set_requires_grad(t[i], 1) : DL_OK;
    if (t[i] != own) DL_TRY(dl_assign(own, t[i]));
    dl_ref(own);
    dl_unref(t[i]);
    t[i] = own;
    return DL_OK;
}

static dl_status start_trained(dl_module *m, dl_reparam *r, holder h, dl_tensor *value) {
    dl_tensor *t[DL_REPARAM_TENSORS] = {NULL}, *own = h.m->tensor[h.slot];
    const bool trained = h.slot < h.m->row->nparams;
    r->ntrained = r->row->split(m, r, value, t);
    dl_status st = r->ntrained < 0 ? dl_failed() : keep_object(r, own, t, r->ntrained);
    for (int i = 0; i < r->ntrained && st == DL_OK; i++) st = add_source(m, r, i, t[i], trained);
    for (int i = 0; i < r->ntrained; i++) dl_unref(t[i]);
    return st;
}

static dl_status start_buffers(dl_module *m, dl_reparam *r, dl_tensor *value) {
    dl_tensor *t[DL_REPARAM_TENSORS] = {NULL};
    dl_status st = r->row->begin ? r->row->begin(m, r, value, t) : DL_OK;
    for (int i = 0; i < r->row->nbuffers && st == DL_OK; i++) st = add_source(m, r, r->row->ntrained + i, t[i], false);
    for (int i = 0; i < r->row->nbuffers; i++) dl_unref(t[i]);
    return st;
}

static dl_status add_function(dl_module *m, const dl_reparam *r) {
    dl_module *in = functions_of(m, r->name);
    char number[24];
    const int k = number_of(m, r);
    snprintf(number, sizeof number, "%d", k);
    return in ? add_part(in, k, number, dl_module_ref(r->fn)) : dl_failed();
}

static dl_status start_one(dl_module *m, dl_reparam *r) {
    holder h = holder_for(m, r);
    if (!h.m || !h.m->built || (is_first(m, r) && !h.m->tensor[h.slot])) return h.m ? DL_OK : dl_failed();
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *value = value_before(m, r, h);
    if (!value) return dl_failed();
    const bool first = is_first(m, r);
    dl_status st = r->fn ? add_function(m, r) : DL_OK;
    if (st == DL_OK && first) st = start_trained(m, r, h, value);
    if (st == DL_OK) st = start_buffers(m, r, value);
    if (st != DL_OK) {
        dl_error e;
        dl_error_take(&e);
        remove_sources(m, r);
        return dl_error_put(&e);
    }
    r->started = true, h.m->borrows = h.m != m;
    if (first) dl_unref(h.m->tensor[h.slot]), h.m->tensor[h.slot] = NULL;
    dl_module_parts_changed();
    dl_module_changed();
    return DL_OK;
}

dl_status dl_reparam_start(dl_module *m) {
    for (dl_reparam *r = m->reparams; r; r = r->next) {
        if (r->started) continue;
        DL_TRY(start_one(m, r));
        if (r->started && m->computed) DL_TRY(compute(m));
    }
    return DL_OK;
}

void dl_reparam_reset(dl_module *m) {
    for (dl_reparam *r = m->reparams; r; r = r->next) {
        holder h = r->started ? holder_for(m, r) : (holder){0};
        if (!h.m) continue;
        remove_sources(m, r);
        r->started = false;
        if (h.m == m) continue;
        for (int i = 0; i < DL_LAYER_TENSORS; i++) dl_unref(h.m->tensor[i]), h.m->tensor[i] = NULL;
        h.m->built = false;
    }
}

/* ---------------------------------------------------------------- life */

static void free_one(dl_reparam *r) {
    dl_module_unref(r->fn);
    dl_module_unref(r->inverse);
    free(r->opt);
    free(r->name);
    free(r);
}

void dl_reparam_free(dl_module *m) {
    for (dl_reparam *r = m->reparams, *next; r; r = next) {
        next = r->next;
        free_one(r);
    }
}

/* Appends a way; references to the modules are taken. NULL without memory. */
static dl_reparam *append(dl_module *m, const dl_reparam_row *row, const char *name, dl_module *fn,
                          dl_module *inverse) {
    dl_reparam *r = calloc(1, sizeof *r), **end = &m->reparams;
    if (r) *r = (dl_reparam){.row = row, .name = strdup(name)};
    if (!r || !r->name) return free(r), no_memory(), NULL;
    r->fn = dl_module_ref(fn), r->inverse = dl_module_ref(inverse);
    while (*end) end = &(*end)->next;
    return *end = r;
}

static void drop(dl_module *m, dl_reparam *r) {
    dl_reparam **at = &m->reparams;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
    free_one(r);
}

dl_status dl_reparam_copy(dl_module *to, const dl_module *from, bool bare, dl_module *(*twin)(void *ctx, dl_module *m),
                          void *ctx) {
    for (const dl_reparam *r = from->reparams; r; r = r->next) {
        dl_reparam *c = append(to, r->row, r->name, NULL, r->inverse);
        if (!c || (r->fn && !(c->fn = twin(ctx, r->fn)))) return dl_failed();
        c->inside = r->inside, c->started = r->started && !bare, c->ntrained = r->ntrained;
        if (r->opt && !(c->opt = malloc(DL_OPT_MAX * sizeof *c->opt))) return no_memory();
        if (r->opt) memcpy(c->opt, r->opt, DL_OPT_MAX * sizeof *c->opt);
    }
    return DL_OK;
}

dl_status dl_reparam_of_row(dl_module *m) {
    const dl_reparam_row *row = dl_reparam_row_of_layer(m->row->kind.name);
    dl_reparam *r = row ? append(m, row, "weight", NULL, NULL) : NULL;
    if (r) r->inside = true;
    return !row || r ? DL_OK : dl_failed();
}

dl_tensor **dl_reparam_place(dl_module *m, int slot) {
    const char *name = m->row->tensors[slot];
    const dl_reparam *r = name ? first_of(m, name) : NULL;
    if (!r || !r->started) return &m->tensor[slot];
    dl_module *s = r->ntrained == 1 ? source_at(m, r, 0) : NULL;
    return s ? &s->tensor[0] : NULL;
}

const char *dl_reparam_stored(const dl_module *m, const char *name, char buf[DL_PATH_MAX]) {
    dl_reparam *r = m->reparams;
    while (r && strcmp(r->name, name) != 0) r = r->next;
    if (!r) return NULL;
    dl_reparam_path(r, r->row->shaped, buf);
    return buf;
}

/* ---------------------------------------------------------------- text: parametrize="mask weight; weight_norm bias" */

typedef struct reading {
    dl_module *m;
} reading;
static _Thread_local reading *reader; /* dl_parse_call hands over no context */

static dl_reparam *read_one(dl_module *m, const char *way, const dl_arg *args, int nargs) {
    const dl_reparam_row *row = dl_reparam_row_find(way);
    int bad;
    if (!row || !row->suffix[0])
        return dl_fail_hint(DL_ERR_NAME,
                            "ways are mask, weight_norm and spectral_norm; functions are registered with a layer that "
                            "is there: register_parametrization(layer, \"weight\", f)",
                            "no text holds the parametrization '%s'", way),
               NULL;
    if (!nargs || args[0].name || args[0].kind != DL_ARG_STR || !holder_of(m, args[0].s, false).m)
        return dl_fail_hint(DL_ERR_NAME, "parametrize=\"mask weight\"",
                            "a parametrization names a tensor of the layer"),
               NULL;
    if (first_of(m, args[0].s) && row->ntrained > 1)
        return dl_fail(DL_ERR_VALUE, "%s of a tensor comes before its other parametrizations", way), NULL;
    dl_reparam *r = append(m, row, args[0].s, NULL, NULL);
    if (!r) return NULL;
    if (!row->layer) return nargs == 1 ? r : (dl_fail(DL_ERR_VALUE, "%s takes a tensor alone", way), NULL);
    if (!(r->opt = calloc(DL_OPT_MAX, sizeof *r->opt))) return no_memory(), NULL;
    dl_status st =
        dl_options_read("parametrization", &dl_layer_row_find(row->layer)->kind, args + 1, nargs - 1, r->opt, &bad);
    return st == DL_OK ? r : NULL;
}

static void *make_one(const char *kind, const dl_arg *args, int nargs) {
    return read_one(reader->m, kind, args, nargs);
}

dl_status dl_reparam_read(dl_module *m, const char *text) {
    reading now = {m};
    bool good = true;
    for (const char *at = text; good && *at;) {
        size_t n = strcspn(at, ";");
        DL_FREED char *one = strndup(at, n);
        reader = &now;
        good = one && dl_parse_call(one, make_one);
        reader = NULL;
        at += n + (at[n] == ';');
        at += strspn(at, " ");
    }
    return good ? DL_OK : dl_failed();
}

void dl_reparam_write(dl_text *t, const dl_module *m) {
    const char *before = " parametrize=\"";
    for (const dl_reparam *r = m->reparams; r; r = r->next) {
        if (r->inside) continue;
        dl_text_add(t, "%s%s %s", before, r->fn ? dl_module_name(r->fn) : r->row->name, r->name);
        const dl_option_row *o = r->opt ? dl_layer_row_find(r->row->layer)->kind.options : NULL;
        for (int i = 0; o && o[i].name; i++) {
            char value[256];
            if (!r->opt[i].set) continue;
            dl_optval_text(&o[i], &r->opt[i], value, sizeof value);
            dl_text_add(t, " %s=%s", o[i].name, value);
        }
        before = "; ";
    }
    if (*before == ';') dl_text_add(t, "\"");
}

/* ---------------------------------------------------------------- by the caller */

/* The tensor may be computed from others from now on. */
static dl_status check_tensor(dl_module *m, const char *name, const dl_reparam_row *row) {
    holder h = holder_of(m, name, false);
    if (!h.m) return dl_fail(DL_ERR_NAME, "layer %s has no tensor '%s'", m->row->kind.name, name);
    if (m->borrows)
        return dl_fail_hint(DL_ERR_STATE, "remove the layer around it, or parametrize another",
                            "the weight of layer %s is computed by the layer around it", m->row->kind.name);
    if (m->computed) return dl_fail(DL_ERR_STATE, "layer %s runs: its tensors stay as they are", m->row->kind.name);
    DL_TRY(dl_module_check_built(h.m));
    if (h.m->tie_owner && h.slot == 0)
        return dl_fail_hint(DL_ERR_STATE, h.m->tie, "layer %s shares its %s with another, which has it",
                            m->row->kind.name, name);
    if (first_of(m, name))
        return row->ntrained < 2
                   ? DL_OK
                   : dl_fail(DL_ERR_VALUE, "%s of a tensor comes before its other parametrizations", row->name);
    if (!h.m->tensor[h.slot])
        return dl_fail(DL_ERR_NAME, "layer %s has no %s: its options leave it out", m->row->kind.name, name);
    if (dl_dtype_is_float(h.m->tensor[h.slot]->dtype)) return DL_OK;
    return dl_fail(DL_ERR_DTYPE, "%s has whole numbers, no gradient flows through them", name);
}

/* Starts a way that was appended; NULL: it could not be. */
static dl_status begin(dl_module *m, dl_reparam *r) {
    dl_status st = r ? start_one(m, r) : dl_failed();
    if (r && st != DL_OK) drop(m, r);
    return st;
}

dl_status dl_module_parametrize(dl_module *m, const char *name, const char *way, const dl_arg *args, int nargs) {
    if (!m || !name || !way) return dl_fail_null(!m ? "the layer" : "a name");
    const dl_reparam_row *row = dl_reparam_row_find(way);
    if (!row || !row->suffix[0]) return dl_fail(DL_ERR_NAME, "there is no parametrization '%s'", way);
    DL_TRY(check_tensor(m, name, row));
    dl_arg all[DL_OPT_MAX + 1] = {{.kind = DL_ARG_STR, .s = name}};
    if (nargs > DL_OPT_MAX) return dl_fail(DL_ERR_VALUE, "too many options");
    for (int i = 0; i < nargs; i++) all[i + 1] = args[i];
    dl_reparam *last = m->reparams, *r;
    while (last && last->next) last = last->next;
    if (!(r = read_one(m, way, all, nargs + 1))) { /* it was appended, and its options are wrong */
        r = last ? last->next : m->reparams;
        if (r) drop(m, r);
        return dl_failed();
    }
    return begin(m, r);
}

/* The value is what a tensor of this layer may be. */
static dl_status check_value(const dl_module *m, const char *name, const dl_tensor *before, const dl_tensor *after) {
    if (before->dtype == after->dtype && dl_shape_eq(before, after)) return DL_OK;
    return dl_fail_hint(DL_ERR_SHAPE, "unsafe=true allows it",
                        "the parametrization makes %s %s of the %s %s of %s of layer %s",
                        dl_dtype_name((dl_dtype)after->dtype), dl_shape_of(after),
                        dl_dtype_name((dl_dtype)before->dtype), dl_shape_of(before), name, m->row->kind.name);
}

dl_status dl_module_parametrize_by(dl_module *m, const char *name, dl_module *fn, dl_module *inverse, int unsafe) {
    if (!m || !name || !fn) return dl_fail_null(!m ? "the layer" : !name ? "a name" : "the function");
    const dl_reparam_row *row = dl_reparam_row_find("function");
    DL_TRY(check_tensor(m, name, row));
    char buf[DL_PATH_MAX];
    if (dl_module_path_of(fn, m, buf))
        return dl_fail(DL_ERR_VALUE, "a layer cannot be a part of its own parametrization");
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *before = dl_module_value(m, name);
    DL_OWNED dl_tensor *former = before ? dl_clone(before) : NULL;
    if (!former) return dl_failed();
    const bool first = !first_of(m, name);
    dl_reparam *r = append(m, row, name, fn, inverse);
    DL_TRY(begin(m, r));
    DL_OWNED dl_tensor *after = dl_module_value(m, name);
    dl_status st = after ? unsafe ? DL_OK : check_value(m, name, former, after) : dl_failed();
    if (st == DL_OK) return DL_OK;
    dl_error e;
    dl_error_take(&e);
    holder h = holder_of(m, name, false);
    if (first) h.m->tensor[h.slot] = dl_ref(source_at(m, r, 0)->tensor[0]), h.m->borrows = false;
    remove_sources(m, r);
    drop(m, r);
    if (first && dl_shape_eq(h.m->tensor[h.slot], former)) dl_assign(h.m->tensor[h.slot], former);
    return dl_error_put(&e);
}

/* Gives the tensors behind r, and behind those before it, values from which r computes this one. */
static dl_status assign_through(dl_module *m, const dl_reparam *r, dl_tensor *value) {
    dl_tensor *t[DL_REPARAM_TENSORS] = {NULL};
    const int n = r->row->split(m, r, value, t);
    dl_status st = n < 0 ? dl_failed() : DL_OK;
    const dl_reparam *former = NULL;
    for (const dl_reparam *f = m->reparams; f != r; f = f->next)
        if (is_same(f, r)) former = f;
    if (former && n == 1)
        st = assign_through(m, former, t[0]);
    else if (st == DL_OK && n != r->ntrained)
        st = dl_fail(DL_ERR_VALUE, "the inverse gives %d tensors, %d are there", n, r->ntrained);
    for (int i = 0; !former && i < n && st == DL_OK; i++) {
        dl_tensor *own = source_at(m, r, i)->tensor[0];
        st = dl_shape_eq(own, t[i]) ? dl_assign(own, t[i])
                                    : dl_fail(DL_ERR_SHAPE, "the inverse gives shape %s in the place of %s",
                                              dl_shape_of(t[i]), dl_shape_of(own));
    }
    for (int i = 0; i < n; i++) dl_unref(t[i]);
    return st;
}

dl_status dl_module_set_value(dl_module *net, const char *path, dl_tensor *value) {
    if (!net || !value) return dl_fail_null(!net ? "the layer" : "the value of a parameter");
    const char *name;
    dl_module *m = computing(net, path, &name);
    if (!m) return dl_module_set_tensor(net, path, value);
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *now = dl_module_value(m, name), *here = now ? dl_to_device(value, dl_device_of(now)) : NULL;
    DL_OWNED dl_tensor *cast = here ? dl_to_dtype(here, dl_dtype_of(now)) : NULL;
    if (!cast) return dl_failed();
    if (!dl_shape_eq(now, cast))
        return dl_fail(DL_ERR_SHAPE, "%s has shape %s; a value of shape %s does not fit", name, dl_shape_of(now),
                       dl_shape_of(cast));
    return assign_through(m, last_of(m, name), cast);
}

/* The tensor takes its place again, with a value. */
static dl_status restore(dl_module *m, dl_reparam *r, dl_tensor *value) {
    holder h = holder_for(m, r);
    dl_module *s = source_at(m, r, r->ntrained > r->row->shaped ? r->row->shaped : 0);
    DL_OWNED dl_tensor *own = dl_ref(s->tensor[0]);
    if (!dl_shape_eq(own, value) || own->dtype != value->dtype) {
        dl_tensor *other = dl_clone(value);
        if (!other) return dl_failed();
        const int trained = dl_requires_grad(own);
        dl_unref(own);
        own = other;
        own->weight = h.slot < h.m->row->nparams;
        if (trained) DL_TRY(dl_set_requires_grad(own, 1));
    } else if (own != value)
        DL_TRY(dl_assign(own, value));
    char name[2 * DL_PATH_MAX];
    snprintf(name, sizeof name, "%s%s%s", m->path ? m->path : "", m->path ? "." : "", r->name);
    DL_TRY(dl_tensor_set_name(own, name));
    h.m->tensor[h.slot] = dl_ref(own);
    h.m->borrows = false;
    return DL_OK;
}

static dl_status check_removal(const dl_module *m, const char *name, const char *way) {
    const dl_reparam *last = last_of(m, name);
    if (m->computed) return dl_fail(DL_ERR_STATE, "layer %s runs: its tensors stay as they are", m->row->kind.name);
    if (!last || !last->started)
        return dl_fail(DL_ERR_STATE, "%s of layer %s is no computed tensor", name, m->row->kind.name);
    if (!way || !strcmp(last->row->name, way)) return DL_OK;
    const dl_reparam *r = m->reparams;
    while (r && (strcmp(r->row->name, way) != 0 || strcmp(r->name, name) != 0)) r = r->next;
    return r ? dl_fail(DL_ERR_STATE, "%s of %s is followed by %s, which is to be removed first", way, name,
                       last->row->name)
             : dl_fail(DL_ERR_STATE, "%s of layer %s has no %s", name, m->row->kind.name, way);
}

/* Removes the last way alone. */
static dl_status remove_last(dl_module *m, const char *name) {
    dl_reparam *r = last_of(m, name);
    DL_OWNED dl_tensor *value = dl_module_value(m, name), *fixed = value ? dl_clone(value) : NULL;
    if (!fixed) return dl_failed();
    const dl_reparam *former = NULL;
    for (const dl_reparam *f = m->reparams; f != r; f = f->next)
        if (is_same(f, r)) former = f;
    DL_TRY(former ? assign_through(m, former, fixed) : restore(m, r, fixed));
    remove_sources(m, r);
    drop(m, r);
    return DL_OK;
}

dl_status dl_module_unparametrize(dl_module *m, const char *name, const char *way, int keep) {
    if (!m || !name) return dl_fail_null(!m ? "the layer" : "the name of a tensor");
    DL_TRY(check_removal(m, name, way));
    DL_SCOPED_GRAD_MODE(0);
    if (way) return remove_last(m, name);
    dl_reparam *r = first_of(m, name);
    if (!keep && r->ntrained != 1)
        return dl_fail(DL_ERR_VALUE, "%s is computed from %d tensors: there is no original to go back to", name,
                       r->ntrained);
    DL_OWNED dl_tensor *value = keep ? dl_module_value(m, name) : dl_ref(source_at(m, r, 0)->tensor[0]);
    DL_OWNED dl_tensor *fixed = value && keep ? dl_clone(value) : dl_ref(value);
    if (!fixed) return dl_failed();
    DL_TRY(restore(m, r, fixed));
    while ((r = last_of(m, name))) {
        remove_sources(m, r);
        drop(m, r);
    }
    return DL_OK;
}

int dl_module_is_parametrized(const dl_module *m, const char *name, const char *way) {
    for (const dl_reparam *r = m->reparams; r; r = r->next)
        if ((!name || !strcmp(r->name, name)) && (!way || !strcmp(r->row->name, way))) return 1;
    return 0;
}
