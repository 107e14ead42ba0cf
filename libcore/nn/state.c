/* Nets as wholes: copies, moves to another dtype or device, files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/list.h"
#include "core/scope.h"
#include "io/stored.h"
#include "nn/reparam.h"
#include "dlcore/copy.h"

/* ---------------------------------------------------------------- copies */

/* Which module became which, so that a layer that occurs twice still does in the copy. */
typedef struct copies {
    dl_addresses from;
    dl_module **to; /* to[i] is the copy of number i */
    long cap;
    bool bare; /* without weights, which the net that takes the copy makes */
} copies;

static dl_module *copy(dl_module *m, copies *c);

static dl_status copy_tensors(dl_module *to, const dl_module *from) {
    for (int i = 0; i < DL_LAYER_TENSORS; i++) {
        if (!from->tensor[i]) continue;
        dl_tensor *t = dl_clone(from->tensor[i]);
        if (!t) return dl_failed();
        to->tensor[i] = t;
        t->weight = from->tensor[i]->weight;
        DL_TRY(dl_tensor_set_name(t, dl_tensor_name(from->tensor[i])));
        if (dl_requires_grad(from->tensor[i])) DL_TRY(dl_set_requires_grad(t, 1));
    }
    return DL_OK;
}

static dl_status copy_children(dl_module *to, const dl_module *from, copies *c) {
    for (int i = 0; i < from->nchild; i++) {
        if (c->bare && from->child[i].m->source) continue;
        dl_module *child = copy(from->child[i].m, c);
        if (!child) return dl_failed();
        DL_TRY(dl_module_append(to, from->child[i].name, NULL, child));
    }
    to->has_shortcut = from->has_shortcut;
    return DL_OK;
}

/* Layers that shared an origin share its copy: what is still to be made starts alike in both nets. */
static dl_status copy_origin(dl_module *to, const dl_module *from, const copies *c) {
    if (!from->origin) return DL_OK;
    for (long i = 0; i < c->from.n && !to->origin; i++)
        if (((const dl_module *)c->from.at[i])->origin == from->origin) to->origin = c->to[i]->origin;
    if (to->origin) {
        __atomic_add_fetch(&to->origin->refs, 1, __ATOMIC_RELAXED);
        return DL_OK;
    }
    if (!(to->origin = malloc(sizeof *to->origin))) return dl_fail(DL_ERR_MEMORY, "no memory for a copy of a net");
    *to->origin = (dl_origin){1, from->origin->seed, from->origin->next};
    return DL_OK;
}

static dl_module *copy_function(void *ctx, dl_module *m) { return copy(m, ctx); }

static dl_module *copy(dl_module *m, copies *c) {
    long known = dl_addresses_find(&c->from, m);
    if (known >= 0) return dl_module_ref(c->to[known]);
    dl_optval *opt = m->opt ? malloc(DL_OPT_MAX * sizeof *opt) : NULL;
    if (m->opt && !opt) return dl_fail(DL_ERR_MEMORY, "no memory for a copy of a net"), NULL;
    if (opt) memcpy(opt, m->opt, DL_OPT_MAX * sizeof *opt);
    dl_module *to = dl_module_new(m->row, opt);
    if (!to) return NULL;
    to->borrows = m->borrows && !c->bare, to->source = m->source, to->training = m->training, to->dtype = m->dtype,
    to->device = m->device;
    to->code = dl_code_ref(m->code);
    if (c->bare && dl_module_holds_tensor(m)) to->inputs = m->inputs; /* the shape that was declared */
    if (c->bare)
        to->src = m->src;
    else
        to->built = m->built, to->inputs = m->inputs, to->mark = m->mark; /* nodes are known by the layer copied */
    if (m->name && dl_module_set_name(to, m->name) != DL_OK) goto fail;
    if (!c->bare && m->path && !(to->path = strdup(m->path))) {
        dl_fail(DL_ERR_MEMORY, "no memory for a copy of a net");
        goto fail;
    }
    if (m->tie && !(to->tie = strdup(m->tie))) goto fail;
    if (!c->bare && (copy_origin(to, m, c) != DL_OK || copy_tensors(to, m) != DL_OK)) goto fail;
    if (copy_children(to, m, c) != DL_OK || dl_reparam_copy(to, m, c->bare, copy_function, c) != DL_OK) goto fail;
    if (DL_LIST_ROOM(c->to, c->from.n, c->cap) != DL_OK || dl_addresses_add(&c->from, m) < 0) goto fail;
    c->to[c->from.n - 1] = to;
    return to;
fail:
    dl_module_unref(to);
    return NULL;
}

/* Layers that shared a tensor share its copy. */
static void copy_ties(const copies *c) {
    for (long i = 0; i < c->from.n; i++) {
        const dl_module *from = c->from.at[i];
        dl_module *to = c->to[i];
        long owner = from->tie_owner ? dl_addresses_find(&c->from, from->tie_owner) : -1;
        if (from->tie_owner && owner < 0) { /* a part alone has a parameter of its own */
            free(to->tie);
            to->tie = NULL;
        }
        if (owner < 0) continue;
        to->tie_owner = dl_module_ref(c->to[owner]);
        to->tie_slot = from->tie_slot;
        if (to->built) dl_module_tie(to); /* shapes agree, as they do in the net */
    }
}

static dl_module *copy_all(dl_module *m, bool bare) {
    copies c = {.bare = bare};
    DL_SCOPED_GRAD_MODE(0);
    dl_module *to = copy(m, &c);
    if (to) copy_ties(&c);
    dl_addresses_free(&c.from);
    free(c.to);
    return to;
}

dl_module *dl_module_copy(dl_module *m) { return m ? copy_all(m, false) : (dl_fail_null("the net to copy"), NULL); }

dl_module *dl_module_again(dl_module *m) { return copy_all(m, true); }

/* ---------------------------------------------------------------- dtype and device */

/* Gives t the memory of `from`: all references to t see the new values. */
static void replace_storage(dl_tensor *t, dl_tensor *from) {
    dl_storage *old = t->st;
    t->st = dl_storage_ref(from->st);
    t->dtype = from->dtype;
    t->offset = from->offset;
    memcpy(t->stride, from->stride, sizeof t->stride);
    dl_storage_unref(old);
}

static dl_status move_tensor(dl_tensor *t, int dtype, int device) {
    bool recast = dtype >= 0 && dl_dtype_is_float(dl_dtype_of(t));
    DL_OWNED dl_tensor *plain = dl_detach(t);
    if (!plain) return dl_failed();
    DL_OWNED dl_tensor *cast = recast ? dl_to_dtype(plain, (dl_dtype)dtype) : dl_ref(plain);
    DL_OWNED dl_tensor *moved = cast && device >= 0 ? dl_to_device(cast, device) : dl_ref(cast);
    if (!moved) return dl_failed();
    if (moved->st != t->st) replace_storage(t, moved);
    return dl_grad(t) ? move_tensor(dl_grad(t), dtype, device) : DL_OK;
}

typedef struct target {
    int dtype, device;
} target;

static dl_status move_module(void *ctx, dl_module *m, const char *path DL_UNUSED) {
    const target *to = ctx;
    if (to->dtype >= 0) m->dtype = to->dtype;
    if (to->device >= 0) m->device = to->device;
    for (int i = 0; i < DL_LAYER_TENSORS; i++)
        if (m->tensor[i]) DL_TRY(move_tensor(m->tensor[i], to->dtype, to->device));
    return DL_OK;
}

dl_status dl_module_to(dl_module *m, int dtype, int device) {
    if (!m) return dl_fail_null("the net");
    if (dtype >= 0 && !dl_dtype_is_float((dl_dtype)dtype))
        return dl_fail(DL_ERR_DTYPE, "weights are floating; a net cannot become %s", dl_dtype_name((dl_dtype)dtype));
    target to = {dtype, device};
    DL_SCOPED_GRAD_MODE(0);
    return dl_module_visit(m, move_module, &to);
}

/* ---------------------------------------------------------------- files */

dl_status dl_module_save(dl_module *m, const char *path, const char *const *meta) {
    if (!m) return dl_fail_null("the net to save");
    DL_TRY(dl_module_check_built(m));
    dl_module_list *l = dl_module_tensors(m, 3);
    char *text = dl_module_text(m);
    long n = l ? l->n : 0, extra = 0;
    while (meta && meta[extra]) extra++;
    const char **names = malloc((size_t)(n + 1) * sizeof *names), **all = malloc((size_t)(extra + 9) * sizeof *all);
    dl_tensor **tensors = malloc((size_t)(n + 1) * sizeof *tensors);
    dl_status st = DL_OK;
    if (!l || !text || !names || !all || !tensors)
        st = dl_fail(DL_ERR_MEMORY, "no memory for the list of weights");
    else {
        for (long i = 0; i < n; i++) names[i] = l->entries[i].path, tensors[i] = l->entries[i].tensor;
        const char *own[] = {"dlsh.model",   text,         "dlsh.name",    dl_module_name(m),
                             "dlsh.version", dl_version(), "dlsh.forward", dl_module_has_forward(m) ? "own" : "chain"};
        memcpy(all, own, sizeof own);
        for (long i = 0; i < extra; i++) all[8 + i] = meta[i];
        all[8 + extra] = NULL;
        st = dl_tensors_write(path, DL_HOLDS_NET, n, names, tensors, all);
    }
    free(names);
    free(all);
    free(tensors);
    dl_text_free(text);
    dl_module_list_free(l);
    return st;
}

typedef struct loading {
    const dl_module *net;
    const dl_tensor_file *f;
    const char *path;   /* of the file */
    const char *prefix; /* before the names of the net's tensors; others in the file are not looked at */
    dl_load_note *note; /* NULL: names must agree */
    void *ctx;          /* of the note */
    bool check;         /* nothing is to be changed */
    dl_module **made;   /* modules whose weights this file brought into being */
    long nmade, cap;
} loading;

static dl_tensor *find_stored(const loading *l, const char *name) {
    char full[DL_PATH_MAX + 64];
    snprintf(full, sizeof full, "%s%s", l->prefix, name);
    return dl_tensor_file_find(l->f, full);
}

/* What helps where names of the net and of a file differ; a checkpoint is always taken whole. */
static const char *lenient_hint(const loading *l) {
    return *l->prefix ? "" : "strict=false ignores what only one of them has; map={...} or by=order pairs other names";
}

/* The tensor that a layer shares, which the file has under the name of the other layer. */
static dl_tensor *find_tied(const loading *l, const dl_module *m) {
    char buf[DL_PATH_MAX], name[DL_PATH_MAX + 32];
    const char *owner = dl_module_path_of(l->net, m->tie_owner, buf);
    if (!owner) return NULL;
    snprintf(name, sizeof name, "%s%s%s", owner, *owner ? "." : "", m->tie_owner->row->tensors[m->tie_slot]);
    return find_stored(l, name);
}

/* The stored tensor `name` of a layer, or the one of its shape from which it is computed. */
static dl_tensor *find_of_layer(const loading *l, const dl_module *m, const char *path, const char *own) {
    char name[DL_PATH_MAX + 32], behind[DL_PATH_MAX];
    snprintf(name, sizeof name, "%s%s%s", path, *path && *own ? "." : "", own);
    dl_tensor *t = find_stored(l, name);
    if (t || !dl_reparam_stored(m, own, behind)) return t;
    snprintf(name, sizeof name, "%s%s%.200s", path, *path ? "." : "", behind);
    return find_stored(l, name);
}

/* Builds a layer of that size; what is loaded draws nothing. */
static dl_status build_loaded(loading *l, dl_module *m, long size) {
    DL_TRY(DL_LIST_ROOM(l->made, l->nmade, l->cap));
    uint64_t at = m->origin ? m->origin->next : 0;
    DL_TRY(dl_module_build_one(m, size, 0));
    if (m->origin) m->origin->next = at;
    l->made[l->nmade++] = m;
    return DL_OK;
}

/* Makes the parts of a layer that are computed, and that of a layer around another, from what is behind them. */
static dl_status make_computed(loading *l, dl_module *m, const char *path) {
    for (const dl_reparam *r = m->reparams; r; r = r->next) {
        dl_module *part = r->inside ? m : dl_module_find(m, r->name);
        dl_tensor *t = r->started || !part || part->built ? NULL : find_of_layer(l, m, path, r->name);
        long size = t ? part->row->size_of_stored(part, 0, t) : -2;
        if (size == -1) return dl_failed();
        if (size < 0) continue;
        DL_TRY(build_loaded(l, part, size));
        if (part == m) continue;
        DL_TRY(DL_LIST_ROOM(l->made, l->nmade, l->cap));
        l->made[l->nmade++] = m;
        DL_TRY(dl_reparam_start(m));
    }
    return DL_OK;
}

/* Makes the weights of a layer that has none, for the input size its stored tensors tell. */
static dl_status make_from_file(void *ctx, dl_module *m, const char *path) {
    loading *l = ctx;
    if (m->reparams) DL_TRY(make_computed(l, m, path));
    if (m->built) return DL_OK;
    for (int i = 0; i < DL_LAYER_TENSORS && m->row->tensors[i]; i++) {
        dl_tensor *t = find_of_layer(l, m, path, m->row->tensors[i]);
        if (!t && i == 0 && m->tie_owner) t = find_tied(l, m);
        long size = t ? m->row->size_of_stored(m, i, t) : -2;
        if (size == -1) return dl_failed();
        if (size < 0) continue;
        return build_loaded(l, m, size);
    }
    if (!m->row->tensors[0] && !m->row->build) return DL_OK;
    if (!l->note) return dl_fail_hint(DL_ERR_NAME, lenient_hint(l), "%s has no weights for layer %s", l->path, path);
    l->note(l->ctx, path, 1);
    return DL_OK;
}

/* A counter that PyTorch writes beside batchnorm's statistics is not used. */
static bool is_ignored(const char *name) {
    const char *dot = strrchr(name, '.');
    return !strcmp(dot ? dot + 1 : name, "num_batches_tracked");
}

static dl_status missing_tensor(const loading *l, const char *path) {
    const char *names[256], *name, *why;
    long known = dl_tensor_file_count(l->f);
    int n = 0;
    for (long i = 0; (name = dl_tensor_file_skipped(l->f, i, &why)); i++)
        if (!strncmp(name, l->prefix, strlen(l->prefix)) && !strcmp(name + strlen(l->prefix), path))
            return dl_fail(DL_ERR_DTYPE, "%s: tensor '%s' cannot be read: %s", l->path, path, why);
    while (n < 256 && n < known) names[n] = dl_tensor_file_name(l->f, n), n++;
    const char *near = dl_nearest(path, names, n);
    char hint[160] = "";
    snprintf(hint, sizeof hint, near ? "the file has '%s'" : "%s", near ? near : lenient_hint(l));
    return dl_fail_hint(DL_ERR_NAME, hint, "%s has no tensor '%s'", l->path, path);
}

/* Has the net a tensor of that name? One that is shared is also known by the names of those that share it. */
static bool is_wanted(const loading *l, const dl_module_list *want, const char *name) {
    if (is_ignored(name)) return true;
    for (long k = 0; k < want->n; k++)
        if (!strcmp(want->entries[k].path, name)) return true;
    return dl_module_tensor((dl_module *)l->net, name) != NULL;
}

/* A tensor that was given another name still has that of its file. */
static dl_status wrong_shape(const loading *l, const char *path, const dl_tensor *t, const dl_tensor *mine) {
    const char *name = dl_tensor_name(t), *full = name && strcmp(name, path) != 0 && !*l->prefix ? name : path;
    return dl_fail(DL_ERR_SHAPE, "%s: tensor '%s' has shape %s, the net's%s%s has %s", l->path, full, dl_shape_of(t),
                   full == path ? "" : " ", full == path ? "" : path, dl_shape_of(mine));
}

/* The stored tensor for one of the net's; of one that layers share it may have the name of any of them. */
static dl_tensor *stored_for(const loading *l, const dl_module_entry *e) {
    dl_tensor *t = find_stored(l, e->path);
    size_t n = strlen(l->prefix);
    for (long i = 0; !t && i < dl_tensor_file_count(l->f); i++) {
        const char *name = dl_tensor_file_name(l->f, i);
        if (!strncmp(name, l->prefix, n) && dl_module_tensor((dl_module *)l->net, name + n) == e->tensor)
            t = dl_tensor_file_at(l->f, i);
    }
    return t;
}

/* Do names and shapes agree? */
static dl_status check_agreement(const loading *l, const dl_module_list *want) {
    long known = dl_tensor_file_count(l->f);
    for (long i = 0; i < want->n; i++) {
        const char *path = want->entries[i].path;
        dl_tensor *t = stored_for(l, &want->entries[i]), *mine = want->entries[i].tensor;
        if (!t && !l->note) return missing_tensor(l, path);
        if (!t) l->note(l->ctx, path, 1);
        if (!t || dl_shape_eq(t, mine)) continue;
        return wrong_shape(l, path, t, mine);
    }
    for (long i = 0; i < known; i++) {
        const char *name = dl_tensor_file_name(l->f, i);
        if (strncmp(name, l->prefix, strlen(l->prefix)) || is_wanted(l, want, name + strlen(l->prefix))) continue;
        name += strlen(l->prefix);
        if (!l->note)
            return dl_fail_hint(DL_ERR_NAME, lenient_hint(l), "%s has a tensor '%s', which the net does not have",
                                l->path, name);
        l->note(l->ctx, name, 0);
    }
    return DL_OK;
}

static dl_status load(dl_module *m, loading *l) {
    DL_TRY(dl_module_visit(m, make_from_file, l));
    dl_module_list *want = dl_module_tensors(m, 3);
    if (!want) return dl_failed();
    dl_status st = check_agreement(l, want);
    for (long i = 0; i < want->n && st == DL_OK && !l->check; i++) {
        dl_tensor *t = stored_for(l, &want->entries[i]);
        if (t) st = dl_module_set_tensor(m, want->entries[i].path, t);
    }
    dl_module_list_free(want);
    return st;
}

static dl_status load_whole(dl_module *m, loading l) {
    DL_SCOPED_INTERRUPT_HOLD(1);
    unsigned long rng = dl_rng_position(DL_STREAM_INIT);
    dl_journal *journal = dl_journal_swap(NULL); /* what is put in is no step of a training */
    dl_status st = load(m, &l);
    dl_journal_swap(journal);
    dl_rng_seek(DL_STREAM_INIT, rng);
    for (long i = 0; i < l.nmade && (l.check || st != DL_OK); i++) { /* as before */
        dl_reparam_reset(l.made[i]);
        for (int k = 0; k < DL_LAYER_TENSORS; k++) {
            dl_unref(l.made[i]->tensor[k]);
            l.made[i]->tensor[k] = NULL;
        }
        l.made[i]->built = !l.made[i]->row->build;
    }
    free(l.made);
    return st;
}

dl_status dl_module_load_file(dl_module *m, const dl_tensor_file *f, const char *path, const char *prefix) {
    return load_whole(m, (loading){.net = m, .f = f, .path = path, .prefix = prefix});
}

dl_status dl_module_check_file(dl_module *m, const dl_tensor_file *f, const char *path, const char *prefix) {
    return load_whole(m, (loading){.net = m, .f = f, .path = path, .prefix = prefix, .check = true});
}

dl_status dl_module_check_tensors(dl_module *m, const dl_tensor_file *f, const char *what) {
    if (!m || !f) return dl_fail_null(!m ? "the net to load into" : "the file");
    return dl_module_check_file(m, f, what, "");
}

dl_status dl_module_load_tensors(dl_module *m, const dl_tensor_file *f, const char *what, dl_load_note *note,
                                 void *ctx) {
    if (!m || !f) return dl_fail_null(!m ? "the net to load into" : "the file");
    return load_whole(m, (loading){.net = m, .f = f, .path = what, .prefix = "", .note = note, .ctx = ctx});
}

dl_status dl_module_load(dl_module *m, const char *path) {
    if (!m) return dl_fail_null("the net to load into");
    char prefix[256];
    dl_tensor_file *f = dl_tensors_read(path, 0);
    if (!f) return dl_failed();
    dl_status st = dl_stored_weights(f, path, prefix, sizeof prefix);
    if (st == DL_OK) st = dl_module_load_file(m, f, path, prefix);
    dl_tensor_file_free(f);
    return st;
}

dl_module *dl_module_open(const char *path, int device) {
    dl_tensor_file *f = dl_tensors_read(path, 0);
    if (!f) return NULL;
    const char *text = dl_tensor_file_meta(f, "dlsh.model"), *name = dl_tensor_file_meta(f, "dlsh.name");
    const char *forward = dl_tensor_file_meta(f, "dlsh.forward");
    dl_module *m = NULL;
    if (forward && !strcmp(forward, "own"))
        dl_fail_hint(DL_ERR_UNSUPPORTED,
                     "write the net down first, net m { ... }, then load the file into it: load m FILE",
                     "%s has the weights of a net with a forward of its own, whose code no file holds", path);
    else if (text)
        m = dl_net_parse(text);
    else
        dl_fail_hint(DL_ERR_FORMAT, "write the net down first, then load the file into it",
                     "%s has weights, but no description of a net", path);
    bool ok = m && (!name || dl_module_set_name(m, name) == DL_OK) && dl_module_load_file(m, f, path, "") == DL_OK &&
              dl_module_to(m, -1, device) == DL_OK;
    dl_tensor_file_free(f);
    if (ok) return m;
    dl_module_unref(m);
    return NULL;
}
