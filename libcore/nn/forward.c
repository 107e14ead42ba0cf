/* Running nets: layers one after another, weights made when the first input comes, failures named by the layer. */
#include <stdio.h>
#include <string.h>

#include "autograd/tape.h"
#include "core/rng.h"
#include "core/scope.h"
#include "nn/module.h"

/* A pass of zeros, which finds the shapes. */
typedef struct dry_run {
    dl_watch_fn *watch;
    void *ctx;
    int depth;
    size_t n;
    char path[DL_PATH_MAX];
} dry_run;

static _Thread_local dry_run *dry; /* the one under way in this thread */

bool dl_m_training(const dl_module *m) { return m->training && !dry; }

/* ---------------------------------------------------------------- making weights */

dl_status dl_module_make(dl_module *m, int slot, int ndim, const long *shape, const char *init, double arg) {
    dl_tensor *t = dl_tensor_empty(ndim, shape, (dl_dtype)m->dtype, m->device);
    if (!t) return dl_failed();
    m->tensor[slot] = t;
    char name[DL_PATH_MAX + 32];
    snprintf(name, sizeof name, "%s%s%s", m->path ? m->path : "", m->path ? "." : "", m->row->tensors[slot]);
    DL_TRY(dl_tensor_set_name(t, name));
    DL_TRY(dl_init_fill(t, init, arg));
    t->weight = slot < m->row->nparams;
    return t->weight ? dl_set_requires_grad(t, 1) : DL_OK;
}

/* Makes a layer's tensors from the random numbers of its net, independent of the position of the process's streams. */
static dl_status build_from_origin(dl_module *m, long size) {
    if (!m->origin) return m->row->build(m, size);
    unsigned long at = dl_rng_position(DL_STREAM_INIT);
    uint64_t seed = dl_rng_swap_seed(m->origin->seed);
    dl_rng_seek(DL_STREAM_INIT, m->origin->next);
    dl_status st = m->row->build(m, size);
    if (st == DL_OK) m->origin->next = dl_rng_position(DL_STREAM_INIT);
    dl_rng_seek(DL_STREAM_INIT, at);
    dl_rng_swap_seed(seed);
    return st;
}

dl_status dl_module_build_one(dl_module *m, long size, int device) {
    int former = m->device;
    if (m->device < 0) m->device = device;
    dl_status st = build_from_origin(m, size);
    if (st != DL_OK) {
        m->device = former;
        for (int i = 0; i < DL_LAYER_TENSORS; i++) {
            dl_unref(m->tensor[i]);
            m->tensor[i] = NULL;
        }
        return st;
    }
    m->built = true;
    return DL_OK;
}

/* ---------------------------------------------------------------- failures */

/* Puts the name of a layer before the message of a failure, outer layers later: "in layer block0.conv1: ...". */
static void name_layer(const char *name) {
    static const char start[] = "in layer ";
    dl_error e;
    char text[sizeof e.message + sizeof e.file + DL_PATH_MAX + 512];
    if (dl_error_take(&e) == DL_OK) return;
    if (e.code != DL_ERR_INTERRUPT) {
        bool inner = !strncmp(e.message, start, sizeof start - 1);
        snprintf(text, sizeof text, "%s%s%s%s", start, name, inner ? "." : ": ",
                 e.message + (inner ? sizeof start - 1 : 0));
        text[sizeof e.message - 1] = 0;
        strcpy(e.message, text);
    }
    dl_error_put(&e);
}

/* ---------------------------------------------------------------- running */

static dl_tensor *run(dl_module *m, dl_tensor *x) {
    if (m->row->build && !m->built) {
        long size = m->row->size_of_input(m, x);
        if (size < 0 || dl_module_build_one(m, size, dl_device_of(x)) != DL_OK) return NULL;
    }
    return m->row->forward(m, x);
}

/* Runs a layer and shows it to the watcher of a dry run. */
static dl_tensor *run_watched(dl_module *m, dl_tensor *x) {
    uint64_t first = dl_node_next_seq();
    dl_tensor *y = run(m, x);
    if (y && dry->watch && dry->watch(dry->ctx, dry->path, dry->depth, m, y, first) != DL_OK) {
        dl_unref(y);
        return NULL;
    }
    return y;
}

static dl_tensor *run_child(dl_child *c, dl_tensor *x) {
    dl_tensor *y;
    if (!dry)
        y = run(c->m, x);
    else {
        size_t n = dry->n, room = sizeof dry->path - n;
        int k = snprintf(dry->path + n, room, "%s%s", n ? "." : "", c->name);
        dry->n += k > 0 && (size_t)k < room ? (size_t)k : 0;
        dry->depth++;
        y = run_watched(c->m, x);
        dry->depth--;
        dry->n = n;
        dry->path[n] = 0;
    }
    if (!y) name_layer(c->name);
    return y;
}

/* Layers from..to one after another. */
static dl_tensor *run_chain(dl_module *m, int from, int to, dl_tensor *x) {
    dl_tensor *at = dl_ref(x);
    for (int i = from, ran; i < to && at; i += ran) {
        dl_tensor *next = NULL;
        ran = dry ? 0 : dl_module_fused(&m->child[i], to - i, at, &next);
        if (ran && !next) name_layer(m->child[i].name);
        if (!ran) next = run_child(&m->child[i], at), ran = 1;
        dl_unref(at);
        at = next;
    }
    return at;
}

dl_tensor *dl_layer_sequential(dl_module *m, dl_tensor *x);
dl_tensor *dl_layer_residual(dl_module *m, dl_tensor *x);

dl_tensor *dl_layer_sequential(dl_module *m, dl_tensor *x) { return run_chain(m, 0, m->nchild, x); }

dl_tensor *dl_layer_residual(dl_module *m, dl_tensor *x) {
    int body = m->nchild - m->has_shortcut;
    DL_OWNED dl_tensor *y = run_chain(m, 0, body, x);
    DL_OWNED dl_tensor *z = !y ? NULL : m->has_shortcut ? run_child(&m->child[body], x) : dl_ref(x);
    if (!z) return NULL;
    if (dl_shape_eq(y, z)) return dl_add(y, z);
    dl_fail_hint(DL_ERR_SHAPE, "give it a shortcut of the right size: residual { ... } shortcut { linear 64 }",
                 "layer residual: its body gives shape %s, its shortcut %s", dl_shape_text(y->ndim, y->shape),
                 dl_shape_text(z->ndim, z->shape));
    return NULL;
}

/* ---------------------------------------------------------------- functions as layers */

static _Thread_local dl_module *outermost; /* the net that runs in this thread */
static _Thread_local bool in_function;     /* and the function of one of its layers */

typedef struct wanted { /* a part or a parameter of a net that is looked for */
    const dl_module *part;
    const dl_tensor *weight;
    bool found;
} wanted;

static dl_status see_module(void *ctx, dl_module *m, const char *path) {
    (void)path;
    wanted *w = ctx;
    w->found |= m == w->part;
    for (int i = 0; w->weight && i < m->row->nparams; i++) w->found |= m->tensor[i] == w->weight;
    return DL_OK;
}

static bool has_part(dl_module *net, wanted w) {
    dl_module_visit(net, see_module, &w);
    return w.found;
}

static dl_status not_trained(const char *what) {
    return dl_fail_hint(DL_ERR_STATE,
                        "write the net as a layer instead of calling it from a function; weights that are not to be "
                        "trained: set requires_grad of each to false",
                        "the function of a layer %s would not be trained with %s", what, dl_module_name(outermost));
}

/* Weights of another net that a layer's function uses are not part of the net that runs: they would collect gradients
 * and not be trained. Fixed weights, and passes that are not recorded, are allowed. */
static dl_status check_weight(void *ctx, dl_tensor *leaf) {
    (void)ctx;
    if (!leaf->weight || has_part(outermost, (wanted){.weight = leaf})) return DL_OK;
    char what[DL_PATH_MAX + 64];
    snprintf(what, sizeof what, "uses %s of another net, which", dl_tensor_name(leaf));
    return not_trained(what);
}

static dl_status check_part(dl_module *m) {
    if (!in_function || !outermost || !dl_recording() || has_part(outermost, (wanted){.part = m})) return DL_OK;
    dl_module_list *l = dl_module_tensors(m, 1);
    if (!l) return dl_failed();
    bool trains = !dl_module_is_built(m);
    for (long i = 0; i < l->n; i++) trains |= dl_requires_grad(l->entries[i].tensor);
    dl_module_list_free(l);
    if (!trains) return DL_OK;
    char what[DL_PATH_MAX + 64];
    snprintf(what, sizeof what, "calls the net %s, whose weights", dl_module_name(m));
    return not_trained(what);
}

dl_tensor *dl_layer_function(dl_module *m, dl_tensor *x);

dl_tensor *dl_layer_function(dl_module *m, dl_tensor *x) {
    bool former = in_function;
    in_function = true;
    DL_SCOPED_INTERRUPT_HOLD(0); /* it may run for ever */
    dl_leaf_watch watch = dl_watch_leaves((dl_leaf_watch){outermost ? check_weight : NULL, NULL});
    dl_tensor *y = m->call->fn(m->call->ctx, x);
    dl_watch_leaves(watch);
    in_function = former;
    if (!y && !dl_error_last())
        dl_fail_hint(DL_ERR_VALUE, "a layer's function returns a tensor", "the function of layer %s gave no tensor",
                     m->name);
    return y;
}

static dl_tensor *run_outermost(dl_module *m, dl_tensor *x) {
    outermost = m;
    dl_tensor *y = run(m, x);
    outermost = NULL;
    return y;
}

dl_tensor *dl_module_forward(dl_module *m, dl_tensor *x) {
    if (!m) return dl_fail_null("the net"), NULL;
    if (!x) return dl_fail_null("the input of a net"), NULL;
    if (check_part(m) != DL_OK) return NULL;
    if (!m->in_ndim) {
        m->in_ndim = x->ndim, m->in_dtype = x->dtype;
        memcpy(m->in_shape, x->shape, sizeof m->in_shape);
    }
    if (dry) return run_watched(m, x);
    return outermost ? run(m, x) : run_outermost(m, x);
}

int dl_module_input(const dl_module *m, long *shape, dl_dtype *dtype) {
    memcpy(shape, m->in_shape, (size_t)m->in_ndim * sizeof *shape);
    if (m->in_ndim > 1) shape[0] = 1;
    *dtype = (dl_dtype)m->in_dtype;
    return m->in_ndim;
}

/* ---------------------------------------------------------------- dry runs */

dl_status dl_module_dry_run(dl_module *m, int ndim, const long *shape, dl_dtype dtype, int device, bool record,
                            dl_watch_fn *watch, void *ctx) {
    dry_run state = {.watch = watch, .ctx = ctx}, *former = dry;
    unsigned long rng[DL_NSTREAM];
    dl_tensor *x = dl_tensor_zeros(ndim, shape, dtype, device), *y = NULL;
    if (!x) return dl_failed();
    dl_status st = record && dl_dtype_is_float(dtype) ? dl_set_requires_grad(x, 1) : DL_OK;
    for (int i = 0; i < DL_NSTREAM; i++) rng[i] = dl_rng_position((dl_stream)i);
    if (st == DL_OK) {
        DL_SCOPED_GRAD_MODE(record);
        dry = &state;
        y = dl_module_forward(m, x);
        dry = former;
        if (!y) st = dl_failed();
    }
    for (int i = 0; i < DL_NSTREAM; i++)
        if (i != DL_STREAM_INIT) dl_rng_seek((dl_stream)i, rng[i]);
    dl_unref(y);
    dl_unref(x);
    return st;
}

dl_status dl_module_build(dl_module *m, int ndim, const long *shape, dl_dtype dtype, int device) {
    if (!m) return dl_fail_null("the net");
    if (dl_module_is_built(m)) return DL_OK;
    return dl_module_dry_run(m, ndim, shape, dtype, device, false, NULL, NULL);
}
