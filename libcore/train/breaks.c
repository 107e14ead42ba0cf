/* Breakpoints of a trainer: conditions that are computed with each step and decided on its device, whose halt leaves
 * the trainer as before the step. */
#include "train/trainer.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/tape.h"
#include "core/device/control_step.h"
#include "core/mix.h"
#include "core/mode.h"
#include "core/random/rng.h"
#include "core/scope.h"
#include "nn/module.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"
#include "dlcore/reduce.h"

typedef struct point {
    bool on, on_host; /* on_host: what it decides about has been there */
    dl_breakpoint is; /* lists and text are its own */
    dl_break_rule rule;
    uint64_t serial;
} point;

struct dl_breaks {
    point at[DL_BREAKS];
    int n;            /* that are on */
    dl_tensor **copy; /* [ncopy] of the buffers of the net, before a step */
    dl_tensor **of;   /* borrowed */
    dl_span *span;
    int ncopy;
    uint64_t written;                /* versions of `of` after the last step that had breakpoints; 0: none has */
    dl_decide_one number[DL_BREAKS]; /* of the step that is issued; held[i] is the reference */
    dl_tensor *held[DL_BREAKS];
    int nnumbers;
};

static dl_status no_memory(void) { return dl_fail(DL_ERR_MEMORY, "no memory for a breakpoint"); }

/* ---------------------------------------------------------------- copies of buffers */

/* A forward pass writes to buffers before it is known whether the step counts. The end of a step copies them for the
 * next one; what else writes to them is seen by their versions, and copied when a step begins. */
static dl_status copy_buffers(dl_trainer *t, dl_breaks *b) {
    const dl_module_list *all = t->state;
    b->copy = calloc(2 * (size_t)all->n + 1, sizeof(dl_tensor *)),
    b->of = calloc((size_t)all->n + 1, sizeof(dl_tensor *));
    b->span = calloc((size_t)all->n + 1, sizeof *b->span);
    if (!b->copy || !b->of || !b->span) return no_memory();
    for (long i = 0; i < all->n; i++) {
        dl_tensor *x = all->entries[i].tensor;
        long bytes = (long)x->st->bytes;
        if (!all->entries[i].buffer) continue;
        dl_span *s = &b->span[b->ncopy];
        *s = (dl_span){.from = x->st->data, .bytes = x->st->bytes};
        b->of[b->ncopy++] = x;
        for (int k = 0; k < 2; k++) {
            dl_tensor *c = b->copy[2 * b->ncopy - 2 + k] = dl_tensor_empty(1, &bytes, DL_U8, t->device);
            if (!c) return dl_failed();
            s->to[k] = c->st->data;
        }
    }
    return DL_OK;
}

/* The buffers as they were before step `index` of those issued. */
static dl_status undo(dl_trainer *t, long index) {
    const dl_breaks *b = t->breaks;
    for (int i = 0; i < b->ncopy; i++) {
        const dl_span *s = &b->span[i];
        DL_TRY(dl_device_copy((void *)s->from, t->device, s->to[index % 2], t->device, s->bytes));
        dl_touch(b->of[i]);
    }
    return DL_OK;
}

dl_status dl_breaks_undo(dl_trainer *t) { return undo(t, t->issued); }

static uint64_t versions(const dl_breaks *b) {
    uint64_t h = 1;
    for (int i = 0; i < b->ncopy; i++) h = dl_mix(h, b->of[i]->st->version);
    return h;
}

/* Steps behind a halt that has not been reported are void. */
dl_status dl_breaks_begin(dl_trainer *t) {
    const dl_breaks *b = t->breaks;
    dl_control c;
    if (!b->ncopy || b->written == versions(b)) return DL_OK;
    DL_TRY(dl_control_read(t, t->control, &c));
    for (int i = 0; i < b->ncopy && c.halt == 0; i++) {
        const dl_span *s = &b->span[i];
        DL_TRY(dl_device_copy(s->to[t->issued % 2], t->device, s->from, t->device, s->bytes));
    }
    return DL_OK;
}

void dl_breaks_issued(dl_trainer *t) { t->breaks->written = versions(t->breaks); }

/* ---------------------------------------------------------------- life */

static void point_end(point *p) {
    if (p->is.release) p->is.release(p->is.ctx); /* while there are the layers */
    for (int i = 0; p->is.layer && i < p->is.nlayers; i++) {
        dl_module_keep(p->is.layer[i], 0);
        dl_module_unref(p->is.layer[i]);
    }
    for (long i = 0; p->is.param && i < p->is.nparam; i++) dl_unref(p->is.param[i]);
    free((void *)p->is.layer);
    free((void *)p->is.param);
    free((char *)p->is.text);
    *p = (point){0};
}

void dl_breaks_free(dl_trainer *t) {
    dl_breaks *b = t->breaks;
    if (!b) return;
    dl_breaks_forget(t);
    for (int i = 0; i < DL_BREAKS; i++) point_end(&b->at[i]);
    for (int i = 0; b->copy && i < 2 * b->ncopy; i++) dl_unref(b->copy[i]);
    free(b->copy);
    free(b->of);
    free(b->span);
    free(b);
    t->breaks = NULL;
}

static dl_status make(dl_trainer *t) {
    if (t->breaks) return DL_OK;
    if (!(t->breaks = calloc(1, sizeof *t->breaks))) return no_memory();
    dl_status st = copy_buffers(t, t->breaks);
    if (st != DL_OK) dl_breaks_free(t);
    return st;
}

/* The lists of a breakpoint, copied. */
static dl_status take_lists(point *p, const dl_breakpoint *b) {
    dl_module **layer = calloc((size_t)b->nlayers + 1, sizeof(dl_module *));
    dl_tensor **param = calloc((size_t)b->nparam + 1, sizeof(dl_tensor *));
    p->is.layer = layer, p->is.param = param, p->is.text = strdup(b->text);
    if (!layer || !param || !p->is.text) {
        p->is.nlayers = 0, p->is.nparam = 0;
        return no_memory();
    }
    for (int i = 0; i < b->nlayers; i++) dl_module_keep(layer[i] = dl_module_ref(b->layer[i]), 1);
    for (long i = 0; i < b->nparam; i++) param[i] = dl_ref(b->param[i]);
    return DL_OK;
}

static int free_place(const dl_breaks *b) {
    int i = 0;
    while (i < DL_BREAKS && b->at[i].on) i++;
    return i;
}

static dl_status add(dl_trainer *t, const dl_breakpoint *b, int *number) {
    static uint64_t serials;
    const dl_break_state none = {0, 0};
    DL_TRY(dl_report_drain(t));
    DL_TRY(make(t));
    int i = free_place(t->breaks);
    if (i == DL_BREAKS) return dl_fail(DL_ERR_STATE, "a trainer has at most %d breakpoints", DL_BREAKS);
    point *p = &t->breaks->at[i];
    *p = (point){
        .is = *b, .rule = {.test = b->test, .number = i, .each = b->each, .ignore = b->ignore}, .serial = ++serials};
    p->is.release = NULL; /* the caller does, until it is on */
    dl_status st = take_lists(p, b);
    if (st == DL_OK) st = dl_control_write(t, &t->control->at[i], &none, sizeof none);
    if (st != DL_OK) return point_end(p), st;
    p->is.release = b->release;
    p->on = true;
    t->breaks->n++;
    *number = i;
    return DL_OK;
}

dl_status dl_trainer_break(dl_trainer *t, const dl_breakpoint *b, int *number) {
    dl_status st = t ? add(t, b, number) : dl_fail_null("the trainer");
    if (st != DL_OK && b->release) b->release(b->ctx);
    return st;
}

/* The breakpoint; NULL: there is none. */
static point *find(dl_trainer *t, int number) {
    point *p = t && t->breaks && number >= 0 && number < DL_BREAKS ? &t->breaks->at[number] : NULL;
    if (p && p->on) return p;
    dl_fail(DL_ERR_INDEX, "the trainer has no breakpoint %d", number);
    return NULL;
}

dl_status dl_trainer_unbreak(dl_trainer *t, int number) {
    point *p = find(t, number);
    if (!p) return dl_failed();
    DL_TRY(dl_report_drain(t));
    point_end(p);
    t->breaks->n--;
    return DL_OK;
}

dl_status dl_trainer_break_hits(dl_trainer *t, int number, long *hits, int *on_host) {
    const point *p = find(t, number);
    dl_break_state s;
    if (!p) return dl_failed();
    DL_TRY(dl_device_copy(&s, 0, &t->control->at[number], t->device, sizeof s));
    *hits = (long)s.hits, *on_host = p->on_host || (!p->is.key && p->is.fn);
    return DL_OK;
}

unsigned dl_trainer_broke(const dl_trainer *t, long *step) {
    *step = t->step + 1;
    return t->broke;
}

/* ---------------------------------------------------------------- what captured steps depend on */

bool dl_breaks_wanted(const dl_trainer *t) { return t->breaks && t->breaks->n && !dl_past_replaying(t); }

const char *dl_breaks_obstacle(const dl_trainer *t) {
    for (int i = 0; t->breaking && i < DL_BREAKS; i++) {
        const point *p = &t->breaks->at[i];
        if (p->on && (p->on_host || (p->is.fn && !p->is.key)))
            return "the condition of a breakpoint is evaluated on the host";
    }
    return NULL;
}

dl_status dl_breaks_key(const dl_trainer *t, uint64_t *h) {
    for (int i = 0; t->breaking && i < DL_BREAKS; i++) {
        const point *p = &t->breaks->at[i];
        unsigned long own = 0;
        if (!p->on) continue;
        if (p->is.key) DL_TRY(p->is.key(p->is.ctx, &own));
        *h = dl_mix(dl_mix(*h, p->serial), own);
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- deciding */

/* Is it the gradient of a parameter that the end of the step limits in place before it is measured? */
static bool is_limited(const dl_trainer *t, const dl_tensor *x) {
    for (long i = 0; t->clip_value > 0 && i < t->nparam; i++)
        if (t->param[i]->grad && t->param[i]->grad->st == x->st) return true;
    return false;
}

/* As measures need it: elements in any order, units that lie regularly, gradients as they are now. */
static dl_tensor *to_measure(const dl_trainer *t, dl_tensor *x, dl_break_measure of) {
    dl_units u;
    if (is_limited(t, x)) return dl_clone(x);
    return (of == DL_BREAK_DEAD ? dl_units_of(x, &u) : dl_is_dense(x)) ? dl_ref(x) : dl_contiguous(x);
}

/* What the function gives, on the device: one number, or what is measured there. Where it gives nothing, 0: it may have
 * held before. */
static dl_status condition(dl_trainer *t, point *p, dl_decide_one *is, dl_tensor **held) {
    DL_SCOPED_INTERRUPT_HOLD(0);
    dl_break_value v = {NULL, DL_BREAK_TRUE, 0, DL_BREAK_VALUE};
    dl_status st = p->is.fn(p->is.ctx, t, &v);
    DL_OWNED dl_tensor *own = v.is, *there = NULL, *one = NULL;
    DL_TRY(st);
    const bool host = own && own->st->device != t->device;
    if (host && dl_deferred_get())
        return dl_fail(DL_ERR_UNSUPPORTED, "the condition %s is evaluated on the host", p->is.text);
    p->on_host |= host;
    p->rule.test = own ? v.test : DL_BREAK_TRUE, p->rule.limit = v.limit;
    if (own && v.of && !dl_dtype_is_float((dl_dtype)own->dtype))
        return dl_fail(DL_ERR_DTYPE, "the condition %s measures real floating numbers", p->is.text);
    there = own ? dl_to_device(own, t->device) : dl_tensor_zeros(0, NULL, DL_F32, t->device);
    if (!there) return dl_failed();
    one = own && v.of ? to_measure(t, there, v.of) : dl_numel(there) == 1 ? dl_ref(there) : dl_any(there, NULL, 0, 0);
    if (!one) return dl_failed();
    *is = (dl_decide_one){one, own ? v.of : DL_BREAK_VALUE, p->rule};
    *held = dl_ref(one);
    return DL_OK;
}

static dl_status decide_condition(dl_trainer *t, point *p) {
    dl_breaks *b = t->breaks;
    DL_TRY(condition(t, p, &b->number[b->nnumbers], &b->held[b->nnumbers]));
    b->nnumbers++;
    return DL_OK;
}

/* Has every parameter of `all` with a gradient a place in `list`? */
static bool covers(dl_tensor *const *list, long n, dl_tensor *const *all, long m) {
    for (long i = 0; i < m; i++) {
        long k = 0;
        while (k < n && list[k] != all[i]) k++;
        if (all[i]->grad && k == n) return false;
    }
    return true;
}

/* Is it about NaN in all gradients? Their norm, which each step has, is then NaN, and not otherwise. */
static bool norm_tells(const dl_trainer *t, const point *p) {
    return p->rule.test == DL_BREAK_NAN && covers(p->is.param, p->is.nparam, t->param, t->nparam) &&
           covers(t->param, t->nparam, p->is.param, p->is.nparam);
}

/* Gradients that are not there do not count. */
static dl_status decide_gradients(dl_trainer *t, const point *p) {
    if (norm_tells(t, p))
        return t->breaks->number[t->breaks->nnumbers++] = (dl_decide_one){NULL, DL_BREAK_VALUE, p->rule}, DL_OK;
    dl_tensor **g = calloc((size_t)p->is.nparam + 1, sizeof *g);
    dl_status st = g ? DL_OK : no_memory();
    int n = 0;
    for (long i = 0; st == DL_OK && i < p->is.nparam; i++) {
        dl_tensor *own = dl_grad(p->is.param[i]);
        if (own && !(g[n++] = dl_contiguous(own))) st = dl_failed();
    }
    if (st == DL_OK) st = t->backend->decide(t->index, t->control, &(dl_decide){g, n, p->rule});
    for (int i = 0; g && i < n; i++) dl_unref(g[i]);
    free(g);
    return st;
}

/* Numbers wait for the end of the step, where the device decides about them beside the norm of the gradients. */
void dl_breaks_finish(const dl_trainer *t, dl_finish_step *f) {
    const dl_breaks *b = t->breaks;
    if (!t->breaking) return;
    f->decide = b->number, f->ndecide = b->nnumbers;
    f->keep = b->span, f->nkeep = b->ncopy;
}

void dl_breaks_forget(dl_trainer *t) {
    dl_breaks *b = t->breaks;
    for (int i = 0; i < b->nnumbers; i++) {
        dl_unref(b->held[i]);
        b->held[i] = NULL;
    }
    b->nnumbers = 0;
}

static void forget_results(const dl_breaks *b) {
    for (int i = 0; i < DL_BREAKS; i++)
        for (int k = 0; b->at[i].on && k < b->at[i].is.nlayers; k++) dl_module_forget_kept(b->at[i].is.layer[k]);
}

static dl_status decide_all(dl_trainer *t) {
    dl_status st = DL_OK;
    for (int i = 0; st == DL_OK && i < DL_BREAKS; i++) {
        point *p = &t->breaks->at[i];
        if (p->on) st = p->is.fn ? decide_condition(t, p) : decide_gradients(t, p);
    }
    return st;
}

/* Under loss scaling conditions are about gradients without the scale. */
static dl_status unscaled(dl_trainer *t, dl_tensor **had) {
    long none = 0, step = 1;
    const size_t at = offsetof(dl_control, scale) / sizeof(double);
    DL_OWNED dl_tensor *scale = dl_view_new(t->block->st, DL_F64, 0, &none, &step, (int64_t)at);
    if (!scale) return dl_failed();
    for (long i = 0; i < t->nparam; i++) {
        dl_tensor *g = t->param[i]->grad, *plain = g ? dl_div(g, scale) : NULL;
        if (!g) continue;
        if (!plain) return dl_failed();
        had[i] = dl_ref(g);
        dl_set_grad(t->param[i], plain);
        dl_unref(plain);
    }
    return DL_OK;
}

static dl_status decide_scaled(dl_trainer *t) {
    if (!t->scaled) return decide_all(t);
    dl_tensor **had = calloc((size_t)t->nparam + 1, sizeof *had);
    if (!had) return no_memory();
    dl_status st = unscaled(t, had);
    if (st == DL_OK) st = decide_all(t);
    for (long i = 0; i < t->nparam; i++) {
        if (had[i]) dl_set_grad(t->param[i], had[i]);
        dl_unref(had[i]);
    }
    free(had);
    return st;
}

/* Neither random streams nor the watch for NaN hear of it. */
dl_status dl_breaks_decide(dl_trainer *t) {
    const dl_rng_at rng = dl_rng_here();
    const dl_nan_policy policy = dl_nan_policy_get();
    DL_SCOPED_GRAD_MODE(0);
    dl_breaks_forget(t);
    dl_nan_policy_set(DL_NAN_OFF);
    dl_status st = decide_scaled(t);
    dl_nan_policy_set(policy);
    dl_rng_go(&rng);
    forget_results(t->breaks);
    return st;
}

/* ---------------------------------------------------------------- a step that was stopped */

dl_status dl_breaks_stop(dl_trainer *t, unsigned fired, long index, const dl_step_start *start) {
    const unsigned none = 0;
    t->broke = fired;
    t->epoch = start->epoch;
    if (t->device) dl_step_again(t, start);
    DL_TRY(undo(t, index));
    DL_TRY(dl_control_write(t, &t->control->fired, &none, sizeof none));
    DL_TRY(dl_control_resume(t));
    t->phase = DL_PHASE_IDLE, t->micro = 0;
    int first = 0;
    while (first < DL_BREAKS - 1 && !(fired >> first & 1)) first++;
    const char *text = t->breaks->at[first].on ? t->breaks->at[first].is.text : "a breakpoint";
    snprintf(t->broke_text, sizeof t->broke_text, "%.200s holds in step %ld, before its update", text, t->step + 1);
    if (t->run) dl_run_event(t->run, t->step, "break", t->broke_text, NULL);
    return DL_OK;
}
