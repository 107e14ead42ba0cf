/* A function of one sample as a function of a batch. It runs for the first sample, watched; then the rows that it
 * called are called once more, for all samples, by the batch rules of their rows. Where that is not possible the
 * function runs for each of the other samples, too, and dl_vmap_each tells so. The results must be all that is left of
 * the first sample: a tensor of it that the function keeps would stand for that sample alone, which is an error. */
#include "autograd/vmap.h"
#include "autograd/recording.h"
#include "autograd/tape.h"
#include "core/random/rng.h"
#include "core/scope.h"
#include "dlcore/copy.h"
#include "dlcore/index.h"
#include "dlcore/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct batch {
    dl_tensor_fn *fn;
    void *arg;
    int n, nout;
    long size;
    dl_vmap_random random;
    dl_tensor **all; /* [n], owned; samples along dimension 0 where `mapped` */
    dl_tensor **one; /* [n], owned: what the function gets for the first sample */
    bool *mapped;
    uint32_t *version; /* of `one` before the call */
    dl_tensor **first; /* [nout], owned: results for the first sample */
    dl_vmap_watch watch;
    dl_tensor **now; /* [watch.nplaces]: for all samples what has this id */
    bool *needed;    /* [watch.n]: the calls that results need */
    long *last;      /* [watch.nplaces]: the last call that reads it; watch.n of a result, -1: none */
    unsigned long drawn[DL_RNG_STATE];
} batch;

static _Thread_local char each_text[1024];

const char *dl_vmap_each(void) { return each_text; }

static void note(const char *what) {
    size_t n = strlen(each_text);
    if (strstr(each_text, what) || n + strlen(what) + 3 > sizeof each_text) return;
    if (n) strcat(each_text, ", ");
    strcat(each_text, what);
}

static void unref_all(dl_tensor **t, long n) {
    for (long i = 0; t && i < n; i++) {
        dl_unref(t[i]);
        t[i] = NULL;
    }
}

static void batch_free(batch *b) {
    unref_all(b->all, b->n);
    unref_all(b->one, b->n);
    unref_all(b->now, b->watch.nplaces);
    unref_all(b->first, b->nout);
    dl_vmap_watch_free(&b->watch);
    free(b->all);
    free(b->one);
    free(b->mapped);
    free(b->version);
    free(b->first);
    free(b->now);
    free(b->needed);
    free(b->last);
}

/* ---- operands */

/* Dimension d in front. */
static dl_tensor *in_front(dl_tensor *t, int d) {
    long dims[DL_MAX_DIM] = {d};
    for (int i = 0, n = 1; i < t->ndim; i++)
        if (i != d) dims[n++] = i;
    return d ? dl_permute(t, dims, t->ndim) : dl_ref(t);
}

static dl_status prepare_one(batch *b, dl_tensor *t, long dim, int i) {
    int d;
    if (!t) return dl_fail_null("an argument");
    if (dim == DL_VMAP_WHOLE) return b->all[i] = dl_ref(t), b->one[i] = dl_ref(t), DL_OK;
    if (!t->ndim || dl_dim_norm(dim, t->ndim, &d) != DL_OK)
        return dl_fail_hint(DL_ERR_SHAPE, "in_dims=none leaves a tensor as it is",
                            "vmap: a tensor with %d dimensions has no dimension %ld", t->ndim, dim);
    if (b->size >= 0 && b->size != t->shape[d])
        return dl_fail(DL_ERR_SHAPE, "vmap: arguments have %ld and %ld samples", b->size, t->shape[d]);
    b->size = t->shape[d];
    b->mapped[i] = true;
    return (b->all[i] = in_front(t, d)) ? DL_OK : dl_failed();
}

static dl_status prepare(batch *b, dl_tensor **in, const long *dim) {
    b->size = -1;
    b->all = calloc((size_t)b->n + 1, sizeof *b->all);
    b->one = calloc((size_t)b->n + 1, sizeof *b->one);
    b->mapped = calloc((size_t)b->n + 1, sizeof *b->mapped);
    b->version = calloc((size_t)b->n + 1, sizeof *b->version);
    b->first = calloc(DL_MAX_VMAP_RESULTS, sizeof *b->first);
    if (!b->all || !b->one || !b->mapped || !b->version || !b->first)
        return dl_fail(DL_ERR_MEMORY, "no memory for %d arguments", b->n);
    for (int i = 0; i < b->n; i++) DL_TRY(prepare_one(b, in[i], dim[i], i));
    if (b->size > 0) return DL_OK;
    return b->size < 0 ? dl_fail(DL_ERR_VALUE, "vmap: no argument is a tensor with a dimension to map over")
                       : dl_fail(DL_ERR_VALUE, "vmap: a batch without samples");
}

/* ---- the first sample */

/* Samples in memory of their own, so that nothing else depends on the sample because it shares memory with one. */
static dl_status take_first(batch *b) {
    for (int i = 0; i < b->n; i++) {
        if (!b->mapped[i]) continue;
        DL_OWNED dl_tensor *view = dl_select(b->all[i], 0, 0);
        if (!view || !(b->one[i] = dl_clone(view))) return dl_failed();
        b->version[i] = b->one[i]->st->version;
    }
    return DL_OK;
}

/* What the function wrote to its sample belongs into the batch. */
static dl_status write_back(batch *b) {
    for (int i = 0; i < b->n; i++) {
        if (!b->mapped[i] || b->one[i]->st->version == b->version[i]) continue;
        dl_vmap_meet(b->one[i], "it writes to its argument");
        DL_OWNED dl_tensor *view = dl_select(b->all[i], 0, 0);
        if (!view) return dl_failed();
        DL_TRY(dl_assign(view, b->one[i]));
    }
    return DL_OK;
}

static dl_status run_first(batch *b) {
    dl_vmap_watch *w = &b->watch;
    dl_rng_save(b->drawn);
    DL_TRY(take_first(b));
    dl_vmap_watch_begin(w, b->random == DL_VMAP_DIFFERENT);
    dl_status s = DL_OK;
    for (int i = 0; i < b->n && s == DL_OK; i++)
        if (b->mapped[i]) s = dl_vmap_watch_sample(w, b->one[i]);
    if (s == DL_OK) b->nout = b->fn(b->one, b->n, b->first, DL_MAX_VMAP_RESULTS, b->arg);
    if (b->nout < 0) b->nout = 0, s = dl_failed();
    if (s == DL_OK) s = write_back(b);
    dl_vmap_watch_end(w);
    if (s == DL_OK) s = dl_vmap_watch_close(w);
    DL_TRY(s);
    if (w->drew && b->random == DL_VMAP_ERROR)
        return dl_fail_hint(DL_ERR_VALUE,
                            "vmap(f, randomness=\"different\") draws for each sample, \"same\" once for all",
                            "vmap: %s draws random numbers", w->drew->name);
    return DL_OK;
}

/* ---- one call for all samples */

static dl_tensor *stacked(dl_tensor **t, long n) {
    DL_OWNED dl_tensor *first = n == 1 ? dl_ref(t[0]) : dl_stack(t, (int)n, 0);
    if (n > 1 || !first) return dl_ref(first);
    long shape[DL_MAX_DIM + 1] = {1};
    memcpy(shape + 1, first->shape, (size_t)first->ndim * sizeof *shape);
    return dl_reshape(first, shape, first->ndim + 1);
}

static dl_status call_sample(const dl_batched *b, long k, dl_tensor **out) {
    dl_tensor **in = calloc((size_t)b->nin + 1, sizeof *in);
    dl_status s = in ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for %d operands", b->nin);
    for (int i = 0; i < b->nin && s == DL_OK; i++) {
        in[i] = b->in[i] && b->mapped[i] ? dl_select(b->in[i], 0, k) : dl_ref(b->in[i]);
        if (b->in[i] && !in[i]) s = dl_failed();
    }
    if (s == DL_OK) s = dl_invoke(b->op, in, b->nin, b->attr, out);
    unref_all(in, in ? b->nin : 0);
    free(in);
    return s;
}

/* The row for each sample; `same`: with the random numbers of the first. */
static dl_status call_each(dl_batched *b, bool same) {
    const int nout = b->op->out;
    unsigned long before[DL_RNG_STATE];
    dl_tensor **t = calloc((size_t)(nout * b->size) + 1, sizeof *t), *out[DL_MAX_OUT];
    if (!t) return dl_fail(DL_ERR_MEMORY, "no memory for %ld results", b->size);
    dl_status s = DL_OK;
    dl_rng_save(before);
    for (long k = 0; k < b->size && s == DL_OK; k++) {
        memset(out, 0, sizeof out);
        if (same) dl_rng_restore(before);
        s = call_sample(b, k, out);
        for (int i = 0; i < nout && s == DL_OK; i++) t[i * b->size + k] = out[i];
    }
    for (int i = 0; i < nout && s == DL_OK; i++)
        if (t[i * b->size] && !(b->out[i] = stacked(t + i * b->size, b->size))) s = dl_failed();
    unref_all(t, nout * b->size);
    free(t);
    return s;
}

/* Result i in the shape and dtype that it has for each sample. */
static dl_status fit(dl_batched *b, int i) {
    long shape[DL_MAX_DIM + 1] = {b->size};
    const dl_tensor *one = b->was[i];
    if (!one) return DL_OK;
    if (!b->out[i] || b->out[i]->numel != one->numel * b->size)
        return dl_fail(DL_ERR_INTERNAL, "the batch rule of %s gave no result for all samples", b->op->name);
    memcpy(shape + 1, one->shape, (size_t)one->ndim * sizeof *shape);
    if (!dl_sizes_eq(b->out[i]->ndim, b->out[i]->shape, one->ndim + 1, shape)) {
        DL_OWNED dl_tensor *flat = b->out[i];
        if (!(b->out[i] = dl_reshape(flat, shape, one->ndim + 1))) return dl_failed();
    }
    if (b->out[i]->dtype == one->dtype) return DL_OK;
    DL_OWNED dl_tensor *other = b->out[i];
    return (b->out[i] = dl_to(other, one->dtype)) ? DL_OK : dl_failed();
}

/* A tensor, as that of each sample; `own`: in memory for all of them. */
static dl_tensor *repeated(dl_tensor *t, long n, bool own) {
    long size[DL_MAX_DIM + 1] = {n};
    memcpy(size + 1, t->shape, (size_t)t->ndim * sizeof *size);
    DL_OWNED dl_tensor *view = dl_expand(t, size, t->ndim + 1);
    return !own || !view ? dl_ref(view) : dl_contiguous(view);
}

/* A call that depends on no sample, whose result something is written to later. */
static dl_status call_once(dl_batched *b) {
    dl_tensor *out[DL_MAX_OUT] = {0};
    DL_TRY(dl_invoke(b->op, b->in, b->nin, b->attr, out));
    dl_status s = DL_OK;
    for (int i = 0; i < b->op->out; i++) {
        if (out[i] && s == DL_OK && !(b->out[i] = repeated(out[i], b->size, true))) s = dl_failed();
        dl_unref(out[i]);
    }
    return s;
}

static dl_status run_batched(const batch *b, dl_batched *c, const dl_vmap_call *e) {
    const bool draws = e->draws, same = draws && b->random == DL_VMAP_SAME;
    bool mapped = draws && !same;
    for (int i = 0; i < c->nin; i++) {
        if (draws && !same && c->in[i] && !c->mapped[i]) {
            DL_OWNED dl_tensor *once = c->in[i];
            if (!(c->in[i] = repeated(once, c->size, false))) return dl_failed();
            c->mapped[i] = true;
        }
        mapped |= c->mapped[i];
    }
    if (!mapped) return call_once(c);
    if (c->op->batch && !same) DL_TRY(c->op->batch(c));
    if (!c->op->batch || same || c->each) {
        if (!same) note(c->op->name);
        DL_TRY(call_each(c, same));
    }
    for (int i = 0; i < c->op->out; i++) {
        const long id = e->id[e->nin + i];
        if (id >= 0 && b->last[id] >= 0)
            DL_TRY(fit(c, i));
        else /* nobody reads it */
            unref_all(&c->out[i], 1);
    }
    return DL_OK;
}

/* The operand as the call saw it: without a history where it had none. */
static dl_tensor *operand(const batch *b, const dl_vmap_call *e, int i) {
    dl_tensor *t = e->t[i];
    if (!t) return NULL;
    if (e->id[i] >= 0) {
        dl_tensor *all = b->now[e->id[i]];
        return e->grad && !(e->state[i] & 1) && dl_requires_grad(all) ? dl_detach(all) : dl_ref(all);
    }
    if (2 * t->st->version == (e->state[i] & ~1u)) return dl_ref(t);
    dl_fail(DL_ERR_STATE, "an operand of %s was changed later", e->op->name);
    return NULL;
}

static dl_status run_call(batch *b, const dl_vmap_call *e) {
    dl_batched c = {.op = e->op, .nin = e->nin, .size = b->size, .one = e->t, .was = e->t + e->nin};
    DL_SCOPED_GRAD_MODE(e->grad);
    c.in = calloc((size_t)e->nin + 1, sizeof *c.in);
    c.mapped = calloc((size_t)e->nin + 1, sizeof *c.mapped);
    dl_status s = c.in && c.mapped ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for %d operands", e->nin);
    for (int i = 0; i < e->nin && s == DL_OK; i++) {
        if (e->t[i] && !(c.in[i] = operand(b, e, i))) s = dl_failed();
        c.mapped[i] = e->t[i] && e->id[i] >= 0;
    }
    if (e->op->nattr) memcpy(c.attr, e->attr, (size_t)e->op->nattr * sizeof *c.attr);
    if (s == DL_OK) s = run_batched(b, &c, e);
    for (int i = 0; i < e->op->out; i++) {
        const long id = s == DL_OK && c.out[i] ? e->id[e->nin + i] : -1;
        if (id >= 0) {
            dl_unref(b->now[id]);
            b->now[id] = c.out[i];
        } else
            dl_unref(c.out[i]);
    }
    unref_all(c.in, c.in ? e->nin : 0);
    free(c.in);
    free(c.mapped);
    return s;
}

/* ---- what is left of the first sample */

/* Storages that depended on the sample, each with a reference of this list. */
typedef struct remains {
    dl_storage **st;
    long n;
} remains;

static void remains_free(remains *r) {
    for (long i = 0; i < r->n; i++) dl_storage_unref(r->st[i]);
    free(r->st);
}

static dl_status remains_of(const dl_vmap_watch *w, remains *r) {
    r->st = calloc((size_t)w->storages.n + 1, sizeof *r->st);
    if (!r->st) return dl_fail(DL_ERR_MEMORY, "no memory for the calls of a sample");
    for (; r->n < w->storages.n; r->n++) r->st[r->n] = dl_storage_ref((dl_storage *)w->storages.at[r->n]);
    return DL_OK;
}

/* Once this file has given up everything of the first sample: what is still used is kept by the function, say in a list
 * of the caller, where it would stand for one sample alone. */
static dl_status check_kept(const remains *r) {
    for (long i = 0; i < r->n; i++)
        if (__atomic_load_n(&r->st[i]->refs, __ATOMIC_RELAXED) > 1)
            return dl_fail_hint(DL_ERR_STATE, "return it: the results hold all samples",
                                "vmap: the function keeps a tensor of the first sample");
    return DL_OK;
}

/* ---- all of them */

/* For each call whether a result needs it, and for each id the last call that reads it; n where it is a result. */
static void find_uses(batch *b) {
    const dl_vmap_watch *w = &b->watch;
    bool *needed = b->needed;
    long *last = b->last;
    for (long i = 0; i < w->nplaces; i++) last[i] = -1;
    for (int i = 0; i < b->nout; i++) {
        long id = dl_vmap_watch_id(w, b->first[i]);
        if (id >= 0) last[id] = w->n;
    }
    for (long k = w->n - 1; k >= 0; k--) {
        const dl_vmap_call *e = &w->call[k];
        needed[k] = e->op->mutates != 0 && e->id[0] >= 0;
        for (int i = 0; i < e->op->out; i++) needed[k] |= e->id[e->nin + i] >= 0 && last[e->id[e->nin + i]] >= 0;
        for (int i = 0; needed[k] && i < e->nin; i++)
            if (e->id[i] >= 0 && last[e->id[i]] < k) last[e->id[i]] = k;
    }
}

static dl_status run_calls(batch *b) {
    dl_vmap_watch *w = &b->watch;
    for (int i = 0; i < b->n; i++)
        if (b->mapped[i]) b->now[dl_vmap_watch_id(w, b->one[i])] = dl_ref(b->all[i]);
    for (long k = 0; k < w->n; k++) {
        const dl_vmap_call *e = &w->call[k];
        if (!b->needed[k]) continue;
        DL_TRY(dl_interrupt_check());
        DL_TRY(run_call(b, e));
        for (int i = 0; i < e->nin; i++)
            if (e->id[i] >= 0 && b->last[e->id[i]] == k) {
                dl_unref(b->now[e->id[i]]);
                b->now[e->id[i]] = NULL;
            }
    }
    return DL_OK;
}

static dl_status give_results(batch *b, dl_tensor **out) {
    for (int i = 0; i < b->nout; i++) {
        const long id = dl_vmap_watch_id(&b->watch, b->first[i]);
        dl_tensor *all = id < 0 ? NULL : b->now[id];
        if (id < 0 && dl_vmap_watch_depends(&b->watch, b->first[i]))
            return dl_fail(DL_ERR_STATE, "result %d was made in its own way", i);
        if (!all)
            out[i] = repeated(b->first[i], b->size, false);
        else
            out[i] = dl_requires_grad(b->first[i]) || !dl_requires_grad(all) ? dl_ref(all) : dl_detach(all);
        if (!out[i]) return dl_failed();
    }
    return DL_OK;
}

static dl_status run_all(batch *b, dl_tensor **out) {
    const dl_vmap_watch *w = &b->watch;
    b->needed = calloc((size_t)w->n + 1, sizeof *b->needed);
    b->last = calloc((size_t)w->nplaces + 1, sizeof *b->last);
    b->now = calloc((size_t)w->nplaces + 1, sizeof *b->now);
    if (!b->needed || !b->last || !b->now) return dl_fail(DL_ERR_MEMORY, "no memory for %ld calls", w->n);
    find_uses(b);
    DL_TRY(run_calls(b));
    return give_results(b, out);
}

/* ---- sample by sample */

static dl_status run_sample(batch *b, long k, dl_tensor **out) {
    dl_tensor **in = calloc((size_t)b->n + 1, sizeof *in);
    dl_status s = in ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for %d arguments", b->n);
    for (int i = 0; i < b->n && s == DL_OK; i++) {
        in[i] = b->mapped[i] ? dl_select(b->all[i], 0, k) : dl_ref(b->all[i]);
        if (!in[i]) s = dl_failed();
    }
    int n = s == DL_OK ? b->fn(in, b->n, out, DL_MAX_VMAP_RESULTS, b->arg) : 0;
    if (n < 0) s = dl_failed();
    if (s == DL_OK && n != b->nout)
        s = dl_fail(DL_ERR_VALUE, "vmap: the function gave %d tensors for one sample and %d for another", b->nout, n);
    if (s != DL_OK && n > 0) unref_all(out, n);
    unref_all(in, in ? b->n : 0);
    free(in);
    return s;
}

static dl_status run_each(batch *b, dl_tensor **out) {
    const int nout = b->nout;
    dl_tensor **t = calloc((size_t)(nout * b->size) + 1, sizeof *t), **some = calloc(DL_MAX_VMAP_RESULTS, sizeof *some);
    dl_status s = t && some ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for the results of %ld samples", b->size);
    for (int i = 0; s == DL_OK && i < nout; i++) t[i * b->size] = dl_ref(b->first[i]);
    for (long k = 1; k < b->size && s == DL_OK; k++) {
        s = dl_interrupt_check();
        if (b->random == DL_VMAP_SAME) dl_rng_restore(b->drawn);
        if (s == DL_OK) s = run_sample(b, k, some);
        for (int i = 0; s == DL_OK && i < nout; i++) t[i * b->size + k] = some[i];
    }
    for (int i = 0; s == DL_OK && i < nout; i++)
        if (!(out[i] = stacked(t + i * b->size, b->size))) s = dl_failed();
    unref_all(t, t ? nout * b->size : 0);
    free(t);
    free(some);
    return s;
}

/* With the calls of the first sample, where they can be made for all; a rule that fails leaves the error to those who
 * run the function for the sample at fault. */
static dl_status run_others(batch *b, dl_tensor **out, bool *once) {
    unsigned long after[DL_RNG_STATE];
    dl_error why;
    char text[700];
    if (!*b->watch.stop) {
        dl_rng_save(after);
        if (b->watch.drew) dl_rng_restore(b->drawn);
        dl_status s = run_all(b, out);
        *once = s == DL_OK;
        if (s == DL_OK || s == DL_ERR_INTERRUPT) return s;
        unref_all(out, b->nout);
        dl_error_take(&why);
        snprintf(text, sizeof text, "the function, because all samples at once fail: %s", why.message);
        dl_rng_restore(after);
    } else
        snprintf(text, sizeof text, "the function, because %s", b->watch.stop);
    note(text);
    return run_each(b, out);
}

dl_status dl_vmap(dl_tensor_fn *fn, void *arg, dl_tensor **in, const long *dim, int n, dl_vmap_random random,
                  dl_tensor **out, int *nout) {
    batch b DL_SCOPE(batch_free) = {.fn = fn, .arg = arg, .n = n, .random = random};
    remains left DL_SCOPE(remains_free) = {0};
    bool once = false;
    if (!dl_vmap_watching) *each_text = 0;
    *nout = 0;
    DL_TRY(prepare(&b, in, dim));
    DL_TRY(run_first(&b));
    memset(out, 0, (size_t)b.nout * sizeof *out);
    dl_status s = b.size == 1 && *b.watch.stop ? run_each(&b, out) : run_others(&b, out, &once);
    *nout = b.nout;
    /* of a watch within another, and while calls are recorded, others keep the tensors, too */
    if (s == DL_OK && once && b.size > 1 && !dl_vmap_watching && !dl_recorder) {
        s = remains_of(&b.watch, &left);
        batch_free(&b);
        b = (batch){.nout = 0};
        if (s == DL_OK) s = check_kept(&left);
    }
    if (s != DL_OK) unref_all(out, *nout), *nout = 0;
    return s;
}
