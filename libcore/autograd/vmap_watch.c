/* Watching what a function does to one sample. */
#include "autograd/vmap.h"
#include "autograd/tape.h"
#include "core/mix.h"
#include "core/scope.h"
#include "ops/names/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__thread dl_vmap_watch *dl_vmap_watching;

void dl_vmap_watch_begin(dl_vmap_watch *w, bool different) {
    *w = (dl_vmap_watch){.outer = dl_vmap_watching, .different = different, .before = dl_storage_serial()};
    dl_vmap_watching = w;
}

void dl_vmap_watch_end(dl_vmap_watch *w) { dl_vmap_watching = w->outer; }

static void call_free(dl_vmap_call *e) {
    for (int i = 0; e->t && i < e->nin + e->op->out; i++) dl_unref(e->t[i]);
    free(e->t);
    free(e->id);
    free(e->state);
    free(e->attr);
    dl_op_unref(e->op);
}

void dl_vmap_watch_free(dl_vmap_watch *w) {
    for (long i = 0; i < w->n; i++) call_free(&w->call[i]);
    free(w->call);
    free(w->place);
    free(w->slot);
    dl_addresses_free(&w->storages);
}

static void stop(dl_vmap_watch *w, const char *what, const char *name) {
    if (!*w->stop) snprintf(w->stop, sizeof w->stop, "%s%s", what, name);
}

/* ---- places */

static dl_vmap_place place_of(const dl_tensor *t) {
    dl_vmap_place p;
    memset(&p, 0, sizeof p); /* places are compared as bytes */
    p.st = t->st, p.offset = t->offset, p.dtype = t->dtype, p.ndim = t->ndim;
    memcpy(p.shape, t->shape, (size_t)t->ndim * sizeof *p.shape);
    for (int i = 0; i < t->ndim; i++) p.stride[i] = t->shape[i] == 1 ? 0 : t->stride[i];
    return p;
}

/* The slot of a place, or the free one where it would be. */
static long slot_of(const dl_vmap_watch *w, const dl_vmap_place *p) {
    uint64_t h = dl_mix((uint64_t)(uintptr_t)p->st, (uint64_t)p->offset);
    for (int i = 0; i < p->ndim; i++) h = dl_mix(dl_mix(h, (uint64_t)p->shape[i]), (uint64_t)p->stride[i]);
    long s = (long)(h & (uint64_t)(w->slots - 1));
    while (w->slot[s] && memcmp(&w->place[w->slot[s] - 1], p, sizeof *p)) s = (s + 1) & (w->slots - 1);
    return s;
}

long dl_vmap_watch_id(const dl_vmap_watch *w, const dl_tensor *t) {
    if (!w->slots || !t) return -1;
    dl_vmap_place p = place_of(t);
    return w->slot[slot_of(w, &p)] - 1;
}

bool dl_vmap_watch_depends(const dl_vmap_watch *w, const dl_tensor *t) {
    return t && dl_addresses_find(&w->storages, t->st) >= 0;
}

/* Makes the table twice as large as needed. */
static dl_status slots_room(dl_vmap_watch *w) {
    if (w->slots >= 2 * (w->nplaces + 1)) return DL_OK;
    long n = w->slots ? 2 * w->slots : 64;
    long *slot = calloc((size_t)n, sizeof *slot);
    if (!slot) return dl_fail(DL_ERR_MEMORY, "no memory for the calls of a sample");
    free(w->slot);
    w->slot = slot, w->slots = n;
    for (long i = 0; i < w->nplaces; i++) w->slot[slot_of(w, &w->place[i])] = i + 1;
    return DL_OK;
}

/* The id of a tensor that depends on the sample; -1: no memory. */
static long add_place(dl_vmap_watch *w, const dl_tensor *t) {
    if (slots_room(w) || DL_LIST_ROOM(w->place, w->nplaces, w->place_cap)) return -1;
    if (dl_addresses_add(&w->storages, t->st) < 0) return -1;
    dl_vmap_place p = place_of(t);
    long s = slot_of(w, &p);
    if (!w->slot[s]) w->place[w->nplaces] = p, w->slot[s] = ++w->nplaces;
    return w->slot[s] - 1;
}

dl_status dl_vmap_watch_sample(dl_vmap_watch *w, const dl_tensor *t) {
    return add_place(w, t) < 0 ? dl_failed() : DL_OK;
}

/* ---- calls */

static const dl_aval *training_of(const dl_call *c) {
    int i = dl_attr_index(c->op, "training");
    return i < 0 ? NULL : &c->attr[i];
}

static bool draws(const dl_call *c) {
    if (!(c->op->flags & DL_F_RNG) || c->op->flags & DL_F_COMPOSITE) return false;
    const dl_aval *training = training_of(c);
    return !training || training->u.i;
}

/* May the call write to its operands? */
static bool writes(const dl_call *c) {
    const dl_aval *training = c->op->mutates ? training_of(c) : NULL;
    if (!c->op->mutates || (training && !training->u.i)) return false;
    for (int i = 0; i < c->nin; i++)
        if (c->in[i] && c->op->mutates >> (i < 31 ? i : 31) & 1) return true;
    return false;
}

static bool any_depends(const dl_vmap_watch *w, const dl_call *c) {
    for (int i = 0; i < c->nin; i++)
        if (dl_vmap_watch_depends(w, c->in[i])) return true;
    return false;
}

static dl_status keep_call(dl_vmap_watch *w, const dl_call *c) {
    const int nout = c->op->out, n = c->nin + nout;
    DL_TRY(DL_LIST_ROOM(w->call, w->n, w->cap));
    dl_vmap_call *e = &w->call[w->n];
    *e = (dl_vmap_call){.op = c->op, .nin = c->nin, .grad = dl_grad_mode_get(), .draws = draws(c)};
    dl_op_ref(c->op);
    e->t = calloc((size_t)n + 1, sizeof *e->t);
    e->id = calloc((size_t)n + 1, sizeof *e->id);
    e->state = calloc((size_t)c->nin + 1, sizeof *e->state);
    e->attr = calloc((size_t)c->op->nattr + 1, sizeof *e->attr);
    w->n++;
    if (!e->t || !e->id || !e->state || !e->attr) return dl_fail(DL_ERR_MEMORY, "no memory for the calls of a sample");
    if (c->op->nattr) memcpy(e->attr, c->attr, (size_t)c->op->nattr * sizeof *c->attr);
    for (int i = 0; i < n; i++) {
        dl_tensor *t = e->t[i] = dl_ref(i < c->nin ? c->in[i] : c->out[i - c->nin]);
        e->id[i] = -1;
        if (t && i < c->nin) e->state[i] = 2 * t->st->version + (uint32_t)dl_requires_grad(t);
    }
    return DL_OK;
}

/* Results depend on the sample now. */
static dl_status spread_to_results(dl_vmap_watch *w, const dl_vmap_call *e) {
    for (int i = e->nin; i < e->nin + e->op->out; i++)
        if (e->t[i] && dl_addresses_add(&w->storages, e->t[i]->st) < 0) return dl_failed();
    return DL_OK;
}

/* Writing is understood where one row does it, to memory that the function has made. */
static bool understood(const dl_vmap_watch *w, const dl_call *c) {
    return c->op->id == dl_id_as_strided_set && c->in[0]->st->serial > w->before;
}

static void add(dl_vmap_watch *w, const dl_call *c) {
    if (*w->stop) return;
    if (draws(c) && !w->drew) w->drew = c->op;
    bool depends = any_depends(w, c) || (w->different && draws(c));
    if (depends && writes(c) && !understood(w, c))
        return stop(w, "memory that is the same for all samples is written to by ", c->op->name);
    dl_status s = keep_call(w, c);
    if (s == DL_OK && depends) s = spread_to_results(w, &w->call[w->n - 1]);
    if (s != DL_OK) stop(w, "there is no memory for a list of its calls", "");
}

void dl_vmap_add(const dl_call *c) {
    DL_SCOPED_ERROR;
    for (dl_vmap_watch *w = dl_vmap_watching; w; w = w->outer) add(w, c);
}

void dl_vmap_meet(const dl_tensor *t, const char *what) {
    for (dl_vmap_watch *w = dl_vmap_watching; w; w = w->outer)
        if (dl_vmap_watch_depends(w, t)) stop(w, what, "");
}

/* ---- what depends on the sample, in the end */

static bool depends(const dl_vmap_watch *w, const dl_vmap_call *e, int from, int to) {
    for (int i = from; i < to; i++)
        if (dl_vmap_watch_depends(w, e->t[i])) return true;
    return false;
}

/* Memory into which something of the sample was written depends on it from its making on, and so does what was read of
 * it before. */
static dl_status close_set(dl_vmap_watch *w) {
    long n;
    do {
        n = w->storages.n;
        for (long k = 0; k < w->n; k++)
            if (depends(w, &w->call[k], 0, w->call[k].nin)) DL_TRY(spread_to_results(w, &w->call[k]));
    } while (w->storages.n > n);
    return DL_OK;
}

static dl_status number(dl_vmap_watch *w, dl_vmap_call *e) {
    const int n = e->nin + e->op->out;
    if (!depends(w, e, 0, n)) return DL_OK;
    for (int i = 0; i < n; i++) {
        if (!e->t[i]) continue;
        e->id[i] = i < e->nin ? dl_vmap_watch_id(w, e->t[i]) : add_place(w, e->t[i]);
        if (e->id[i] >= 0) continue;
        if (i >= e->nin) return dl_failed();
        if (dl_vmap_watch_depends(w, e->t[i])) stop(w, "it makes an operand in its own way of ", e->op->name);
    }
    return DL_OK;
}

dl_status dl_vmap_watch_close(dl_vmap_watch *w) {
    if (*w->stop) return DL_OK;
    DL_TRY(close_set(w));
    for (long k = 0; k < w->n; k++) DL_TRY(number(w, &w->call[k]));
    return DL_OK;
}
