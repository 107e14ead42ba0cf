/* Running nets: layers one after another, weights made when the first input comes, failures named by the layer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/journal.h"
#include "autograd/tape.h"
#include "core/list.h"
#include "core/random/rng.h"
#include "core/scope.h"
#include "nn/layers.h"
#include "nn/reparam.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/view.h"

/* A buffer of a net, the values it had, and the version of its memory then. */
typedef struct kept {
    dl_tensor *buffer, *values;
    uint32_t version;
} kept;

/* A pass of zeros, or of given inputs, which finds the shapes. */
typedef struct dry_run {
    kept *kept; /* of the nets that ran */
    long nkept, cap;
    dl_watch_fn *watch;
    void *ctx;
    int depth;
    size_t n;
    char path[DL_PATH_MAX];
} dry_run;

static _Thread_local dry_run *dry; /* the one under way in this thread */

bool dl_m_dry(void) { return dry != NULL; }
bool dl_m_training(const dl_module *m) { return m->training && !dry; }

/* The inputs and results of dl_module_call on their way through the layers of calls that know single tensors. */
typedef struct passing {
    const dl_module *m;
    dl_pack *in, *out;
} passing;
static _Thread_local passing *passed;

/* Stands for the input of a net that was called without any tensor: with a tree, a text, a number. */
static _Thread_local const dl_tensor *no_tensor;

/* ---------------------------------------------------------------- making weights */

dl_status dl_module_make(dl_module *m, int slot, int ndim, const long *shape, const char *init, double arg) {
    dl_tensor *t = dl_tensor_empty(ndim, shape, m->dtype, m->device);
    if (!t) return dl_failed();
    m->tensor[slot] = t;
    char name[DL_PATH_MAX + 32];
    const char *own = m->row->tensors[slot];
    snprintf(name, sizeof name, "%s%s%s", m->path ? m->path : "", m->path && *own ? "." : "", own);
    DL_TRY(dl_tensor_set_name(t, name));
    DL_TRY(dl_init_fill(t, init, arg));
    t->weight = slot < m->row->nparams;
    return t->weight ? dl_set_requires_grad(t, 1) : DL_OK;
}

static dl_status build_row(dl_module *m, long size) { return m->row->build(m, size); }
static dl_status start_reparams(dl_module *m, long size DL_UNUSED) { return dl_reparam_start(m); }

/* Makes a layer's tensors from the random numbers of its net, independent of the position of the process's streams. */
static dl_status from_origin(dl_module *m, dl_status (*make)(dl_module *m, long size), long size) {
    if (!m->origin) return make(m, size);
    unsigned long at = dl_rng_position(DL_STREAM_INIT);
    uint64_t seed = dl_rng_swap_seed(m->origin->seed);
    dl_rng_seek(DL_STREAM_INIT, m->origin->next);
    dl_status st = make(m, size);
    if (st == DL_OK) m->origin->next = dl_rng_position(DL_STREAM_INIT);
    dl_rng_seek(DL_STREAM_INIT, at);
    dl_rng_swap_seed(seed);
    return st;
}

static dl_status belongs(dl_module *m);

dl_status dl_module_build_one(dl_module *m, long size, int device) {
    int former = m->device;
    if (m->device < 0) m->device = device;
    dl_status st = from_origin(m, build_row, size);
    if (st == DL_OK) st = dl_module_tie(m);
    m->built = st == DL_OK;
    if (m->built && m->reparams) st = from_origin(m, start_reparams, 0);
    if (st == DL_OK) st = belongs(m);
    if (st != DL_OK) {
        dl_reparam_reset(m);
        m->built = false, m->device = former;
        for (int i = 0; i < DL_LAYER_TENSORS; i++) {
            dl_unref(m->tensor[i]);
            m->tensor[i] = NULL;
        }
        return st;
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- failures */

/* Puts the name of a layer before the message of a failure, outer layers later: "in layer block0.conv1: ...". A net
 * that calls itself has no name there. */
static void name_layer(const char *name) {
    static const char start[] = "in layer ";
    dl_error e;
    char text[sizeof e.message + sizeof e.file + DL_PATH_MAX + 512];
    if (!name || !*name || dl_error_take(&e) == DL_OK) return;
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

static dl_tensor *run_call(dl_module *m, dl_tensor *x);

/* Functions that compute a tensor are nets, which are not those that run, nor shown. */
dl_status dl_module_compute(dl_module *m, bool *entered) {
    passing *p = passed;
    dl_watch_fn *watch = dry ? dry->watch : NULL;
    passed = NULL;
    if (dry) dry->watch = NULL;
    dl_status st = dl_reparam_enter(m, entered);
    if (dry) dry->watch = watch;
    passed = p;
    return st;
}

static dl_tensor *run_unmarked(dl_module *m, dl_tensor *x) {
    if (m->row->build && !m->built) {
        long size = m->row->size_of_input(m, x);
        if (size < 0 || dl_module_build_one(m, size, dl_device_of(x)) != DL_OK) return NULL;
    }
    bool entered = false;
    if (__builtin_expect(m->reparams != NULL, 0) && dl_module_compute(m, &entered) != DL_OK) return NULL;
    dl_tensor *y = m->row->call ? run_call(m, x) : m->row->forward(m, x);
    if (entered) dl_reparam_leave(m);
    return y;
}

static void keep_result(dl_module *m, dl_tensor *y) {
    if (__builtin_expect(m->keeps == 0, 1) || !y || !dl_m_training(m)) return;
    dl_unref(m->kept);
    m->kept = dl_ref(y), m->kept_squares = false;
}

static dl_tensor *run_marked(dl_module *m, dl_tensor *x) {
    const dl_layer_mark *outer = dl_layer_running;
    if (m->mark) dl_layer_running = m->mark;
    dl_tensor *y = run_unmarked(m, x);
    dl_layer_running = outer;
    return y;
}

/* Which of its two tensors a hook of a layer looks at. */
enum { RESULT, INPUT };
static _Thread_local dl_tensor *hooked; /* the input of the layer whose hooks run */

dl_tensor *dl_hook_input(void) { return hooked; }

/* The inputs of a call with another one in the place of the first. */
static dl_pack *with_first(const dl_pack *in, dl_tensor *first) {
    dl_tensor *t[DL_NET_INPUTS] = {first};
    const long n = dl_pack_count(in);
    if (dl_pack_form(in) || n > DL_NET_INPUTS)
        return dl_fail_hint(DL_ERR_UNSUPPORTED, "return nothing",
                            "a hook cannot replace an input of a call with inputs by name, in lists or records"),
               NULL;
    for (long i = 1; i < n; i++) t[i] = dl_pack_tensor(in, (int)i);
    return dl_pack_new(t, (int)n, NULL, NULL);
}

/* What the hooks before a layer make of its input x, a reference; *pack: of a call that holds its inputs. */
static dl_tensor *input_by_hooks(const dl_module *m, dl_tensor *x, dl_pack **pack) {
    dl_tensor *seen[2] = {NULL, dl_ref(x)};
    const bool held = passed && passed->m == m;
    dl_status st = dl_hooks_run_outputs(m->hooks, seen);
    if (st == DL_OK && seen[INPUT] != x && held) {
        if (!(*pack = with_first(passed->in, seen[INPUT])))
            st = dl_failed();
        else
            passed->in = *pack;
    }
    if (st != DL_OK) dl_unref(seen[INPUT]);
    return st == DL_OK ? seen[INPUT] : NULL;
}

/* The first of several results as hooks left it. */
static dl_status put_result(passing *p, dl_tensor *y) {
    if (!p->out || dl_pack_form(p->out) || dl_pack_tensor(p->out, 0) == y) return DL_OK;
    dl_pack *all = with_first(p->out, y);
    dl_pack_unref(p->out);
    p->out = all;
    return all ? DL_OK : dl_failed();
}

static dl_tensor *run_hooked(dl_module *m, dl_tensor *given) {
    dl_pack *pack = NULL, *former = passed && passed->m == m ? passed->in : NULL;
    passing *p = former ? passed : NULL;
    DL_OWNED dl_tensor *x = input_by_hooks(m, given, &pack);
    dl_tensor *seen[2] = {x ? run_marked(m, x) : NULL, NULL}, *outer = hooked;
    hooked = x;
    if (seen[RESULT] && dl_hooks_run_outputs(m->hooks, seen) != DL_OK) dl_unref(seen[RESULT]), seen[RESULT] = NULL;
    hooked = outer;
    if (p && seen[RESULT] && put_result(p, seen[RESULT]) != DL_OK) dl_unref(seen[RESULT]), seen[RESULT] = NULL;
    if (p) p->in = former;
    dl_pack_unref(pack);
    return seen[RESULT];
}

/* The layer is held: functions that run within it may replace it in its net. */
static dl_tensor *run(dl_module *m, dl_tensor *x) {
    dl_module_ref(m);
    dl_tensor *y = __builtin_expect(m->hooks != NULL, 0) && !dry ? run_hooked(m, x) : run_marked(m, x);
    keep_result(m, y);
    dl_module_unref(m);
    return y;
}

/* Runs a layer and shows it to the watcher of a dry run. */
static dl_tensor *run_watched(dl_module *m, dl_tensor *x) {
    uint64_t first = dl_node_next_seq();
    const passing *p = passed && passed->m == m ? passed : NULL;
    dl_tensor *y = run(m, x);
    if (y && dry->watch && dry->watch(dry->ctx, dry->path, dry->depth, m, y, p ? p->out : NULL, first) != DL_OK) {
        dl_unref(y);
        return NULL;
    }
    return y;
}

/* A dry run goes into a part of a module, and comes out of it: the length that the path had. */
static size_t go_into(const char *name) {
    size_t n = dry->n, room = sizeof dry->path - n;
    int k = snprintf(dry->path + n, room, "%s%s", n ? "." : "", name);
    dry->n += k > 0 && (size_t)k < room ? (size_t)k : 0;
    dry->depth++;
    return n;
}

static void come_out(size_t n) {
    dry->depth--;
    dry->n = n;
    dry->path[n] = 0;
}

/* Runs a part of the module that runs, called `name` in it; failures and the watcher are given that name. */
static dl_tensor *run_part(const char *name, dl_module *m, dl_tensor *x) {
    dl_tensor *y;
    if (!dry)
        y = run(m, x);
    else {
        size_t n = go_into(name);
        y = run_watched(m, x);
        come_out(n);
    }
    if (!y) name_layer(name);
    return y;
}

/* Is whoever looks at the result content with its peaks? */
static bool peaks_do(const dl_module *m) { return m->keeps == m->keeps_peaks; }

/* Or with its norm? */
static bool norm_does(const dl_module *m) { return m->keeps && m->keeps == m->keeps_norm; }

/* Do the results of n layers have the peaks of that of layer number i? A relu leaves them as they are, as to NaN and as
 * to being above 0, and so does a pooling whose windows reach all. */
static bool has_peaks(const dl_child *c, int i, int n, const dl_tensor *x) {
    int k = i + 1;
    while (k < n && dl_module_is_relu(c + k)) k++;
    return k == n || (k + 1 == n && dl_module_fused_peaks(c, n, x));
}

/* May the layer number i run within the first n of them, although its result is looked at? The peaks may do, or the
 * result of a relu before a pooling is computed once more beside. */
static bool may_be_within(const dl_child *c, int i, int n) {
    if (!c[i].m->keeps) return true;
    return i + 2 <= n && (dl_module_is_relu_pool(c + i) || (peaks_do(c[i].m) && dl_module_is_relu(c + i + 1)));
}

/* The result of a convolution, from that without a bias. */
static dl_tensor *with_bias(const dl_module *conv, dl_tensor *y) {
    dl_tensor *bias = conv->tensor[1];
    if (!bias) return dl_ref(y);
    DL_OWNED dl_tensor *low = dl_to_dtype(bias, (dl_dtype)y->dtype),
                       *by_channel = low ? dl_reshape(low, (const long[]){bias->numel, 1, 1}, 3) : NULL;
    return by_channel ? dl_add(y, by_channel) : NULL;
}

/* The result of layer number i, which ran as one of the n that gave y, for those who look at it: without a history, so
 * that the pass is the same as if nobody did. */
static dl_status keep_within(const dl_child *c, int i, int n, dl_tensor *x, dl_tensor *y, const dl_beside *b) {
    dl_module *m = c[i].m;
    if (!m->keeps || !dl_m_training(m)) return DL_OK;
    if (peaks_do(m) && has_peaks(c, i, n, x)) return keep_result(m, y), DL_OK;
    if (b->sums && i == n - 2 && norm_does(m)) return keep_result(m, b->sums), m->kept_squares = true, DL_OK;
    DL_SCOPED_GRAD_MODE(0);
    dl_tensor *at = b->conv ? with_bias(c->m, b->conv) : dl_ref(x);
    for (int k = b->conv != NULL; k <= i && at; k++) {
        dl_tensor *next = run_unmarked(c[k].m, at);
        dl_unref(at);
        at = next;
    }
    if (!at) return dl_failed();
    keep_result(m, at);
    dl_unref(at);
    return DL_OK;
}

/* Does something of its own happen when it runs? */
static bool runs_alone(const dl_module *m) { return m->hooks || m->reparams; }

/* Neighbours that run as one, of which those but the last may be within; 0: none. */
static int run_fused(dl_child *c, int n, dl_tensor *x, dl_tensor **y) {
    const dl_layer_mark *outer = dl_layer_running;
    int last = 0;
    n = n < DL_FUSED_MAX ? n : DL_FUSED_MAX;
    while (last < n && !runs_alone(c[last].m) && may_be_within(c, last, n)) last++;
    if (last < n && !runs_alone(c[last].m)) last++;
    dl_layer_running = c->m->mark;
    dl_beside b = {.squares = last > 1 && dl_module_is_relu_pool(c + last - 2) && norm_does(c[last - 2].m)};
    int ran = dl_module_fused(c, last, x, &b, y);
    dl_layer_running = outer;
    for (int i = 0; i + 1 < ran && *y; i++)
        if (keep_within(c, i, ran, x, *y, &b) != DL_OK) dl_unref(*y), *y = NULL;
    dl_unref(b.sums), dl_unref(b.conv);
    if (ran) keep_result(c[ran - 1].m, *y);
    return ran;
}

/* Layers from..to one after another. */
static dl_tensor *run_chain(dl_module *m, int from, int to, dl_tensor *x) {
    dl_tensor *at = dl_ref(x);
    for (int i = from, ran; i < to && at; i += ran) {
        dl_tensor *next = NULL;
        ran = dry ? 0 : run_fused(&m->child[i], to - i, at, &next);
        if (ran && !next) name_layer(m->child[i].name);
        if (!ran) next = run_part(m->child[i].name, m->child[i].m, at), ran = 1;
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
    DL_OWNED dl_tensor *z = !y                ? NULL
                            : m->has_shortcut ? run_part(m->child[body].name, m->child[body].m, x)
                                              : dl_ref(x);
    if (!z) return NULL;
    if (dl_shape_eq(y, z)) return dl_add(y, z);
    dl_fail_hint(DL_ERR_SHAPE, "give it a shortcut of the right size: residual { ... } shortcut { linear 64 }",
                 "layer residual: its body gives shape %s, its shortcut %s", dl_shape_of(y), dl_shape_of(z));
    return NULL;
}

/* ---------------------------------------------------------------- functions as layers */

static _Thread_local dl_module *outermost; /* the net that runs in this thread */
static _Thread_local bool in_function;     /* and the function of one of its layers */
static _Thread_local dl_module *scope;     /* the net whose own forward runs */

/* The parts of the outermost net and their parameters: gathered when a function is first asked what it uses, and added
 * to as parameters are made. */
static _Thread_local dl_addresses own;

static dl_status add_own(dl_module *m) {
    if (dl_addresses_add(&own, m) < 0) return dl_failed();
    for (int i = 0; i < m->row->nparams; i++)
        if (m->tensor[i] && dl_addresses_add(&own, m->tensor[i]) < 0) return dl_failed();
    for (int i = 0; i < m->nchild; i++) DL_TRY(add_own(m->child[i].m));
    return DL_OK;
}

/* The parameters of a part that have just been made are the net's. */
static dl_status belongs(dl_module *m) { return dl_addresses_find(&own, m) < 0 ? DL_OK : add_own(m); }

/* Is it a part or a parameter of the outermost net? */
static dl_status is_own(const void *part, bool *yes) {
    if (!own.n) DL_TRY(add_own(outermost));
    *yes = dl_addresses_find(&own, part) >= 0;
    return DL_OK;
}

void dl_module_parts_changed(void) { dl_addresses_free(&own); }

static dl_status not_trained(const char *what) {
    return dl_fail_hint(
        DL_ERR_STATE,
        "make it a part, as in net { part: NET; forward(x) { return part(x) } }; weights that are not to be "
        "trained: NET.requires_grad_(false)",
        "%s %s would not be trained with %s", scope ? "the forward of a net" : "the function of a layer", what,
        dl_module_name(outermost));
}

/* Weights of another net that a layer's function uses are not part of the net that runs: they would collect gradients
 * and not be trained. Fixed weights, and passes that are not recorded, are allowed. */
static dl_status check_weight(void *ctx DL_UNUSED, dl_tensor *leaf) {
    bool yes = true;
    if (leaf->weight) DL_TRY(is_own(leaf, &yes));
    if (yes) return DL_OK;
    char what[DL_PATH_MAX + 64];
    snprintf(what, sizeof what, "uses %s of another net, which", dl_tensor_name(leaf));
    return not_trained(what);
}

static dl_status check_part(dl_module *m) {
    bool yes = true;
    if (in_function && outermost && dl_recording()) DL_TRY(is_own(m, &yes));
    if (yes) return DL_OK;
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

/* Functions of the caller may run for ever, and use weights: entering and leaving one. */
typedef struct guest {
    bool in_function;
    int held;
    dl_leaf_watch watch;
    dl_module *scope;
} guest;

static guest enter(dl_module *net) {
    guest g = {in_function, dl_interrupt_hold(0), {0}, scope};
    g.watch = dl_watch_leaves((dl_leaf_watch){outermost ? check_weight : NULL, NULL});
    in_function = true, scope = net;
    return g;
}

static void leave(guest g) {
    dl_watch_leaves(g.watch);
    dl_interrupt_hold(g.held);
    in_function = g.in_function, scope = g.scope;
}

dl_tensor *dl_layer_function(dl_module *m, dl_tensor *x) {
    guest g = enter(scope);
    dl_tensor *y = m->code->is.layer(m->code->is.ctx, x);
    leave(g);
    if (!y && !dl_error_last())
        dl_fail_hint(DL_ERR_VALUE, "a layer's function returns a tensor", "the function of layer %s gave no tensor",
                     m->name);
    return y;
}

/* ---------------------------------------------------------------- nets with a forward of their own */

/* Takes over what is passed to m, if it is m that runs next; else x alone goes in. */
static passing *take_passed(const dl_module *m, dl_tensor *x, dl_pack **in) {
    passing *p = passed && passed->m == m ? passed : NULL;
    *in = p ? dl_pack_ref(p->in) : dl_pack_new(&x, 1, NULL, NULL);
    passed = NULL;
    return p;
}

/* The first of the results, owned; all of them go where they are awaited. */
static dl_tensor *give_passed(passing *p, dl_pack *out) {
    dl_tensor *y = out ? dl_ref(dl_pack_tensor(out, 0)) : NULL;
    if (p && y)
        p->out = out;
    else
        dl_pack_unref(out);
    return y;
}

/* A layer of several inputs and results. */
static dl_tensor *run_call(dl_module *m, dl_tensor *x) {
    dl_pack *in;
    passing *p = take_passed(m, x, &in);
    dl_pack *out = in ? m->row->call(m, in) : NULL;
    dl_pack_unref(in);
    return give_passed(p, out);
}

static dl_module *part_at(dl_module *m, const char *path) {
    dl_module *part = dl_module_find(m, path);
    if (!part) dl_fail(DL_ERR_INTERNAL, "layer %s has no part '%s'", m->row->kind.name, path);
    return part;
}

dl_tensor *dl_part_run(dl_module *m, const char *path, dl_tensor *x) {
    dl_module *part = part_at(m, path);
    return part ? run_part(path, part, x) : NULL;
}

dl_pack *dl_part_call(dl_module *m, const char *path, dl_tensor *const *in, int n) {
    dl_module *part = part_at(m, path);
    dl_pack *all = part ? dl_pack_new(in, n, NULL, NULL) : NULL;
    if (!all) return NULL;
    passing now = {part, all, NULL}, *former = passed;
    passed = &now;
    dl_tensor *y = run_part(path, part, in[0]);
    passed = former;
    dl_unref(y);
    dl_pack_unref(all);
    return now.out;
}

/* A dry run notes the values of a buffer, which the forward may change. */
static dl_status keep(dl_tensor *buffer) {
    for (long i = 0; i < dry->nkept; i++)
        if (dry->kept[i].buffer == buffer) return DL_OK;
    DL_TRY(DL_LIST_ROOM(dry->kept, dry->nkept, dry->cap));
    DL_SCOPED_GRAD_MODE(0);
    dl_tensor *values = dl_clone(buffer);
    if (!values) return dl_failed();
    dry->kept[dry->nkept++] = (kept){dl_ref(buffer), values, buffer->st->version};
    return DL_OK;
}

/* Buffers have the values of before again. */
static dl_status put_back(dry_run *d) {
    dl_status st = DL_OK;
    DL_SCOPED_GRAD_MODE(0);
    for (long i = 0; i < d->nkept; i++) {
        bool changed = d->kept[i].buffer->st->version != d->kept[i].version;
        if (st == DL_OK && changed) st = dl_assign(d->kept[i].buffer, d->kept[i].values);
        dl_unref(d->kept[i].buffer);
        dl_unref(d->kept[i].values);
    }
    free(d->kept);
    return st;
}

/* Makes the tensors that the net itself holds, and shows them to the watcher of a dry run. */
static dl_status make_own(dl_module *m, const dl_tensor *x) {
    for (int i = 0; i < m->nchild; i++) {
        dl_module *c = m->child[i].m;
        if (!dl_module_holds_tensor(c)) continue;
        if (!c->built && x == no_tensor && !dl_param_is_sized(c))
            return dl_fail_hint(DL_ERR_SHAPE, "give its sizes without `in`, or call the net with a tensor",
                                "the shape of '%s' depends on the input, in which there is no tensor",
                                m->child[i].name);
        if (!c->built) {
            DL_TRY(dl_module_build_one(c, c->row->size_of_input(c, x), dl_device_of(x)));
            DL_TRY(dl_reparam_start(m));
        }
        if (dry && !c->row->nparams) DL_TRY(keep(c->tensor[0]));
        if (!dry || !dry->watch) continue;
        size_t n = go_into(m->child[i].name);
        dl_status st = dry->watch(dry->ctx, dry->path, dry->depth, c, c->tensor[0], NULL, dl_node_next_seq());
        come_out(n);
        DL_TRY(st);
    }
    return DL_OK;
}

dl_tensor *dl_layer_net(dl_module *m, dl_tensor *x) {
    dl_pack *in, *out = NULL;
    passing *p = take_passed(m, x, &in);
    if (in && make_own(m, x) == DL_OK) {
        guest g = enter(m);
        out = m->code->is.forward(m->code->is.ctx, m, in);
        leave(g);
    }
    dl_pack_unref(in);
    char what[200];
    snprintf(what, sizeof what, "the result of net %s", dl_module_name(m));
    dl_tensor *y = !out ? NULL
                   : p  ? dl_pack_tensor(out, 0)
                        : dl_pack_single(out, what, "make it a part of a net whose forward chooses what goes on");
    if (out && p && !y) dl_fail_hint(DL_ERR_VALUE, "return what the layers give", "%s holds no tensor", what);
    if (y) return give_passed(p, out);
    dl_pack_unref(out);
    return NULL;
}

typedef struct modes {
    bool training;
    long other, layers, tensors, trains;
} modes;

static dl_status see_mode(void *ctx, dl_module *m, const char *path DL_UNUSED) {
    modes *c = ctx;
    c->other += m->training != c->training, c->layers++;
    for (int i = 0; i < DL_LAYER_TENSORS; i++)
        c->tensors += m->tensor[i] != NULL, c->trains += m->tensor[i] && dl_requires_grad(m->tensor[i]);
    return DL_OK;
}

static void note_modes(dl_module *m) {
    modes c = {.training = m->training};
    dl_module_visit(m, see_mode, &c);
    dl_journal_modes(c.other, c.layers, c.tensors && !c.trains);
}

static dl_tensor *run_outermost(dl_module *m, dl_tensor *x) {
    if (dl_journal_forward(m, m->training, x)) note_modes(m);
    outermost = m;
    dl_tensor *y = run(m, x);
    outermost = NULL;
    dl_addresses_free(&own);
    return y;
}

/* A dry run shows a part under its path in the net whose forward calls it. */
static dl_tensor *run_in_scope(dl_module *m, dl_tensor *x) {
    char path[DL_PATH_MAX];
    const char *name = scope ? dl_module_path_of(scope, m, path) : NULL;
    return name ? run_part(name, m, x) : run_watched(m, x);
}

/* Shapes and dtypes of the inputs: those of a call, or the single one. */
static dl_net_inputs inputs_of(const dl_module *m, dl_tensor *x) {
    const dl_pack *in = passed && passed->m == m ? passed->in : NULL;
    int n = in ? dl_pack_count(in) : 1;
    dl_net_inputs all = {0};
    if (n > DL_NET_INPUTS || (in && dl_pack_form(in))) return all;
    for (int i = 0; i < n; i++) {
        const dl_tensor *t = in ? dl_pack_tensor(in, i) : x;
        all.in[i].ndim = -1;
        if (!t) continue;
        all.in[i].ndim = t->ndim, all.in[i].dtype = t->dtype;
        memcpy(all.in[i].shape, t->shape, sizeof t->shape);
    }
    all.n = n;
    return all;
}

dl_tensor *dl_module_forward(dl_module *m, dl_tensor *x) {
    if (!m) return dl_fail_null("the net"), NULL;
    if (!x) return dl_fail_null("the input of a net"), NULL;
    if (check_part(m) != DL_OK) return NULL;
    if (m->borrows && !m->tensor[0])
        return dl_fail_hint(DL_ERR_STATE, "call the layer around it",
                            "layer %s has its weight only while the layer around it runs", dl_module_name(m)),
               NULL;
    char path[DL_PATH_MAX];
    dl_net_inputs seen = m->inputs.n ? (dl_net_inputs){0} : inputs_of(m, x);
    dl_tensor *y = dry ? run_in_scope(m, x) : outermost ? run(m, x) : run_outermost(m, x);
    if (!y && scope && !dry) name_layer(dl_module_path_of(scope, m, path));
    if (y && !m->inputs.n) m->inputs = seen;
    return y;
}

dl_pack *dl_module_call(dl_module *m, dl_pack *in) {
    if (!m || !in) return dl_fail_null(!m ? "the net" : "the input of a net"), NULL;
    bool own = m->row->call || (m->code && m->code->is.forward);
    dl_tensor *x =
        own ? dl_pack_tensor(in, 0)
            : dl_pack_single(in, "the input of a net", "a net without a forward of its own takes one tensor");
    DL_OWNED dl_tensor *none = !x && m->code && m->code->is.forward ? dl_scalar_f(0) : NULL;
    if (none) x = none;
    if (!x && own)
        dl_fail_hint(DL_ERR_VALUE, "m(x); the fields of a record as inputs: m(**r)", "a net takes at least one tensor");
    if (!x) return NULL;
    passing now = {m, in, NULL}, *former = passed;
    const dl_tensor *outer = no_tensor;
    passed = own ? &now : NULL, no_tensor = none;
    DL_OWNED dl_tensor *y = dl_module_forward(m, x);
    passed = former, no_tensor = outer;
    return own || !y ? now.out : dl_pack_new(&y, 1, NULL, NULL);
}

const char *const *dl_module_arguments(const dl_module *m) { return m->row->call ? m->row->inputs : NULL; }

int dl_module_inputs(const dl_module *m, dl_net_input *in) {
    memcpy(in, m->inputs.in, (size_t)m->inputs.n * sizeof *in);
    for (int i = 0; i < m->inputs.n; i++)
        if (in[i].ndim > 1) in[i].shape[0] = 1;
    return m->inputs.n;
}

/* ---------------------------------------------------------------- dry runs */

/* Integers are 1, which is a length, an index and a token alike. */
static dl_tensor *plain_input(const dl_net_input *in, int device) {
    bool whole = in->dtype == DL_I64 || in->dtype == DL_I32;
    return whole ? dl_full(in->shape, in->ndim, 1, in->dtype, device)
                 : dl_tensor_zeros(in->ndim, in->shape, in->dtype, device);
}

static dl_pack *plain_inputs(const dl_net_input *in, int n, int device, bool record) {
    dl_tensor *t[DL_NET_INPUTS] = {NULL};
    bool good = true;
    for (int i = 0; i < n && good; i++) {
        if (in[i].ndim < 0) continue;
        good = (t[i] = plain_input(&in[i], device)) != NULL;
        if (good && record && dl_dtype_is_float(in[i].dtype)) good = dl_set_requires_grad(t[i], 1) == DL_OK;
    }
    dl_pack *p = good ? dl_pack_new(t, n, NULL, NULL) : NULL;
    for (int i = 0; i < n; i++) dl_unref(t[i]);
    return p;
}

static dl_pack *run_dry_on(dl_module *m, dl_pack *x, bool record, dry_run state) {
    dry_run *former = dry;
    dl_pack *y = NULL;
    dl_rng_at rng = dl_rng_here();
    dry = &state;
    {
        DL_SCOPED_GRAD_MODE(record);
        y = dl_module_call(m, x);
    }
    dry = former;
    dl_error e;
    dl_status st = dl_error_take(&e);
    if (put_back(&state) != DL_OK && y) dl_pack_unref(y), y = NULL;
    if (st) dl_error_put(&e);
    rng.call[DL_STREAM_INIT] = dl_rng_position(DL_STREAM_INIT); /* weights may have been made */
    dl_rng_go(&rng);
    return y;
}

static dl_pack *run_dry(dl_module *m, const dl_net_input *in, int n, int device, bool record, dry_run state) {
    if (n < 1 || n > DL_NET_INPUTS) return dl_fail(DL_ERR_VALUE, "a net takes 1 to %d inputs", DL_NET_INPUTS), NULL;
    dl_pack *x = plain_inputs(in, n, device, record), *y = x ? run_dry_on(m, x, record, state) : NULL;
    dl_pack_unref(x);
    return y;
}

dl_pack *dl_module_dry_call(dl_module *m, dl_pack *in) { return run_dry_on(m, in, false, (dry_run){0}); }

dl_pack *dl_module_dry_result(dl_module *m, const dl_net_input *in, int n, int device) {
    return run_dry(m, in, n, device, false, (dry_run){0});
}

dl_status dl_module_dry_run(dl_module *m, const dl_net_input *in, int n, int device, bool record, dl_watch_fn *watch,
                            void *ctx) {
    dl_pack *y = run_dry(m, in, n, device, record, (dry_run){.watch = watch, .ctx = ctx});
    dl_status st = y ? DL_OK : dl_failed();
    dl_pack_unref(y);
    return st;
}

dl_status dl_module_build_for(dl_module *m, const dl_net_input *in, int n, int device) {
    if (!m) return dl_fail_null("the net");
    return dl_module_is_built(m) ? DL_OK : dl_module_dry_run(m, in, n, device, false, NULL, NULL);
}

dl_status dl_module_build(dl_module *m, int ndim, const long *shape, dl_dtype dtype, int device) {
    dl_net_input in = {.ndim = ndim, .dtype = dtype};
    if (ndim < 0 || ndim > DL_MAX_DIM) return dl_fail(DL_ERR_SHAPE, "a tensor has at most %d dimensions", DL_MAX_DIM);
    if (ndim) memcpy(in.shape, shape, (size_t)ndim * sizeof *shape);
    return dl_module_build_for(m, &in, 1, device);
}

static dl_status hook_layer(dl_module *m, int of, dl_hook_fn *fn, void *ctx, void (*release)(void *ctx)) {
    if (m && fn) return dl_hooks_add(&m->hooks, of, fn, ctx, release);
    if (release) release(ctx);
    if (!m) return dl_fail_null("the layer");
    dl_hooks_remove(&m->hooks, of);
    return DL_OK;
}

dl_status dl_on_forward(dl_module *m, dl_hook_fn *fn, void *ctx, void (*release)(void *ctx)) {
    return hook_layer(m, RESULT, fn, ctx, release);
}

dl_status dl_before_forward(dl_module *m, dl_hook_fn *fn, void *ctx, void (*release)(void *ctx)) {
    return hook_layer(m, INPUT, fn, ctx, release);
}

void dl_module_keep(dl_module *m, int on) {
    const int what = on < 0 ? -on : on, by = on > 0 ? 1 : -1;
    *(what == DL_KEEPS_PEAKS ? &m->keeps_peaks : what == DL_KEEPS_NORM ? &m->keeps_norm : &m->keeps) += by;
    dl_module_forget_kept(m);
}

void dl_module_forget_kept(dl_module *m) {
    dl_unref(m->kept);
    m->kept = NULL, m->kept_squares = false;
}

dl_tensor *dl_module_kept(const dl_module *m) { return m->kept; }

int dl_module_kept_squares(const dl_module *m) { return m->kept_squares; }
