/* Steps from graphs. A step that has run op by op a few times is captured, with all its work on the device, and
 * replayed from then on. The first replay starts from the state in which the step op by op began, and must end in the
 * same bits. A step that cannot be captured runs op by op; capture_state says why. */
#include "train/trainer.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/tape.h"
#include "core/mix.h"
#include "core/mode.h"
#include "core/random/rng.h"
#include "core/scope.h"
#include "core/effects.h"
#include "nn/module.h"

static const char CAPTURED[] = "captured";
enum { WARM_UP_STEPS = 2 }; /* before a capture: in them libraries choose their algorithms */

/* The tensors of the last step that callers can get: batch, output, loss, gradients of n - FIRST_GRAD parameters. */
enum { OUTPUT = DL_BATCH_SLOTS, LOSS, FIRST_GRAD };
typedef struct results {
    dl_tensor **t;
    int *refs, *st_refs; /* in a graph: references to tensor and storage when no caller has any */
    long n;
} results;

/* A step of `micros` batches, the last of n samples. */
struct dl_step_graph {
    dl_step_graph *next;
    long micros, n;
    uint64_t key; /* hash of all else that the graph depends on */
    int seen;
    char refused[DL_CAPTURE_STATE]; /* why it always runs op by op; "": it may be captured */
    dl_graph *graph;                /* NULL: not yet, or refused */
    results end;
    bool recount; /* tensors of `end` are new */
    dl_batch sent;
    dl_rng_at draws;
    double samples;
};

/* ---------------------------------------------------------------- what a graph depends on */

static uint64_t mix_tensor(uint64_t h, const dl_tensor *t) { return dl_mix(h, t ? dl_tensor_key(t) : 1); }

/* DL_ERR_UNSUPPORTED: a function of the caller cannot be part of a graph. */
static dl_status key_of(const dl_trainer *t, uint64_t *key) {
    const dl_optimizer *o = t->opt;
    dl_loader_view v;
    unsigned long model, loss = 0;
    DL_TRY(dl_module_key(t->model, &model));
    if (t->loss_fn && !t->loss_key) return dl_fail(DL_ERR_UNSUPPORTED, "the loss is a function");
    if (t->loss_key) DL_TRY(t->loss_key(t->loss_ctx, &loss));
    uint64_t h = dl_mix(dl_mix(model, loss), (uint64_t)dl_precision_get() << 1 | (uint64_t)dl_deterministic_get());
    dl_loader_look(t->loader, &v);
    h = dl_mix(dl_mix(h, dl_seed_get()), v.seed); /* of dropout, and of the transforms of a resident split */
    for (long i = 0; i < o->n; i++) {
        h = mix_tensor(h, o->param[i].p);
        for (int s = 0; s < DL_OPTIM_STATES; s++) h = mix_tensor(h, o->param[i].state[s]);
    }
    for (long i = 0; t->ema && i < t->nparam; i++) h = mix_tensor(h, t->ema[i]);
    DL_TRY(dl_breaks_key(t, &h));
    *key = h;
    return DL_OK;
}

/* Parameters of a group whose step numbers differ get theirs from the host. */
static bool counted_apart(const dl_trainer *t) {
    for (long i = 0; i < t->opt->n; i++)
        if (t->opt->param[i].p->requires_grad && t->opt->param[i].steps != t->rates[t->opt->param[i].group + 1].steps)
            return true;
    return false;
}

static const char *obstacle(const dl_trainer *t) {
    if (!dl_capture_get()) return "capture is off";
    if (t->data->padded) return "samples differ in shape";
    if (t->loader_spec.collate) return "a function makes the batches";
    if (dl_closure_needed(t)) return "the optimizer evaluates the loss as often as it needs";
    if (dl_hooks_exist()) return "hooks look at gradients or at results of layers";
    if (counted_apart(t)) return "parameters have made different numbers of steps";
    if (!t->resident[DL_TRAIN].x && t->accumulate > 1) return "a step takes several batches that come from the host";
    return dl_breaks_obstacle(t);
}

/* ---------------------------------------------------------------- the results of a step */

static dl_tensor **slot_of(dl_trainer *t, long i) {
    if (i < OUTPUT) return dl_batch_slot(&t->batch, (int)i);
    if (i >= FIRST_GRAD) return &t->param[i - FIRST_GRAD]->grad;
    return i == OUTPUT ? &t->output : &t->loss_tensor;
}

/* References that the trainer has, beside the graph's. */
static int own_references(dl_trainer *t, const dl_tensor *x, long i) {
    return (*slot_of(t, i) == x) + (i < OUTPUT && *dl_batch_slot(&t->sent, (int)i) == x);
}

static void results_drop(results *s) {
    for (long i = 0; s->t && i < s->n; i++) dl_unref(s->t[i]);
    free(s->t);
    free(s->refs);
    *s = (results){0};
}

static dl_status results_take(dl_trainer *t, results *s) {
    long n = FIRST_GRAD + t->nparam;
    *s = (results){.n = n, .t = calloc((size_t)n, sizeof(dl_tensor *)), .refs = calloc(2 * (size_t)n, sizeof(int))};
    if (!s->t || !s->refs) return dl_fail(DL_ERR_MEMORY, "no memory for the results of a step");
    s->st_refs = s->refs + n;
    for (long i = 0; i < n; i++) s->t[i] = dl_ref(*slot_of(t, i));
    return DL_OK;
}

static void results_put(dl_trainer *t, const results *s) {
    for (long i = 0; i < s->n; i++) {
        dl_tensor **slot = slot_of(t, i), *former = *slot;
        if (i >= FIRST_GRAD && former == s->t[i]) continue;
        *slot = dl_ref(s->t[i]);
        if (i < FIRST_GRAD && s->t[i]) dl_touch(s->t[i]);
        dl_unref(former);
    }
}

/* Counts the references to each before any caller has one. */
static void count_references(dl_trainer *t, results *s) {
    for (long i = 0; i < s->n; i++) {
        if (!s->t[i]) continue;
        s->refs[i] = s->t[i]->refs - own_references(t, s->t[i], i);
        s->st_refs[i] = s->t[i]->st->refs;
    }
}

/* ---------------------------------------------------------------- life */

static void forget(dl_trainer *t, dl_step_graph *p) {
    if (p->graph) t->backend->graph_free(t->index, p->graph);
    p->graph = NULL;
    results_drop(&p->end);
    dl_batch_drop(&p->sent);
}

void dl_replay_free(dl_trainer *t) {
    for (dl_step_graph *p = t->graphs, *next; p; p = next) {
        next = p->next;
        forget(t, p);
        free(p);
    }
    t->graphs = NULL;
}

/* The graph of the next step; without a capture when the net or the optimizer has changed since. */
static dl_step_graph *find(dl_trainer *t, uint64_t key) {
    long epoch, at, n = dl_batch_next(t->loader, &epoch, &at), micros = dl_trainer_micros(t);
    if (micros > 1) { /* the last of them may be short */
        dl_loader_view v;
        dl_loader_look(t->loader, &v);
        long batches = dl_loader_len(t->loader), rows = v.n;
        long from = (at + micros - 1) * dl_loader_batch(t->loader);
        n = at + micros == batches && rows - from < n ? rows - from : n;
    }
    dl_step_graph *p = t->graphs;
    while (p && (p->n != n || p->micros != micros)) p = p->next;
    if (p && p->key != key) {
        forget(t, p);
        p->key = key, p->seen = 0, *p->refused = 0;
    }
    if (p) return p;
    if (!(p = calloc(1, sizeof *p))) return dl_fail(DL_ERR_MEMORY, "no memory for a graph"), NULL;
    p->n = n, p->micros = micros, p->key = key;
    p->next = t->graphs;
    return t->graphs = p;
}

/* ---------------------------------------------------------------- results that callers keep */

/* Where a graph and its trainer hold tensors of the graph. NULL past the end. */
static dl_tensor **holder_of(dl_trainer *t, dl_step_graph *p, long i) {
    if (i < p->end.n) return &p->end.t[i];
    i -= p->end.n;
    if (i >= 2 * DL_BATCH_SLOTS) return NULL;
    return dl_batch_slot(i < DL_BATCH_SLOTS ? &p->sent : &t->sent, (int)i % DL_BATCH_SLOTS);
}

/* Replaces a tensor of the graph by a new one over another storage. */
static dl_status renew(dl_trainer *t, dl_step_graph *p, dl_tensor *old, dl_storage *st) {
    dl_tensor *fresh = dl_view_new(st, (dl_dtype)old->dtype, old->ndim, old->shape, old->stride, old->offset), **at;
    if (!fresh) return dl_failed();
    if (old->node) fresh->node = dl_node_ref(old->node), fresh->out = old->out;
    dl_ref(old);
    for (long i = 0; (at = holder_of(t, p, i)); i++)
        if (*at == old) {
            dl_unref(old);
            *at = dl_ref(fresh);
        }
    dl_unref(fresh);
    dl_unref(old);
    return DL_OK;
}

/* Callers hold tensors over `kept`: these get memory of their own with the same values. The graph, which writes to the
 * former memory, gets new tensors over that. */
static dl_status move_out(dl_trainer *t, dl_step_graph *p, dl_storage *kept) {
    dl_storage *own = dl_storage_new(kept->bytes, kept->device);
    if (!own) return dl_failed();
    dl_status st = dl_device_copy(own->data, own->device, kept->data, kept->device, kept->bytes);
    void *data = own->data;
    dl_tensor **at;
    if (st == DL_OK) own->data = kept->data, kept->data = data;
    dl_storage_ref(kept);
    for (long i = 0; st == DL_OK && (at = holder_of(t, p, i)); i++)
        if (*at && (*at)->st == kept) st = renew(t, p, *at, own);
    dl_storage_unref(kept);
    dl_storage_unref(own);
    return st;
}

/* Before the graph runs again and overwrites its results. */
static dl_status move_out_kept(dl_trainer *t, dl_step_graph *p) {
    for (long i = 0; i < p->end.n; i++) {
        dl_tensor *x = p->end.t[i];
        if (!x || !p->end.refs[i]) continue;
        if (x->refs == p->end.refs[i] + own_references(t, x, i) && x->st->refs == p->end.st_refs[i]) continue;
        p->recount = true;
        DL_TRY(move_out(t, p, x->st));
        for (long k = i; k < p->end.n; k++) /* of one storage: seen to */
            if (p->end.t[k] && p->end.t[k]->st == p->end.t[i]->st) p->end.refs[k] = 0;
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- replay */

/* Counts up the versions of all that a step writes to. */
static void touch_all(dl_trainer *t) {
    for (long i = 0; i < t->state->n; i++) dl_touch(t->state->entries[i].tensor);
    for (long i = 0; i < t->opt->n; i++)
        for (int s = 0; s < DL_OPTIM_STATES; s++)
            if (t->opt->param[i].state[s]) dl_touch(t->opt->param[i].state[s]);
}

/* Makes the results of the graph those of the trainer. */
static void show_results(dl_trainer *t, const dl_step_graph *p) {
    results_put(t, &p->end);
    touch_all(t);
}

/* The work of the host for a step that runs from a graph. */
static dl_status count_step(dl_trainer *t, const dl_step_graph *p, long epoch, long at) {
    if (t->resident[DL_TRAIN].x) DL_TRY(dl_loader_seek(t->loader, epoch, at + p->micros));
    dl_rng_at rng = dl_rng_here();
    dl_rng_add(&rng, &p->draws);
    dl_rng_go(&rng);
    dl_rng_add(&t->control_rng, &p->draws);
    t->control_from += (p->micros - 1) * dl_loader_batch(t->loader) + p->n;
    for (long i = 0; i < t->opt->n; i++) t->opt->param[i].steps += t->opt->param[i].p->grad != NULL;
    t->opt->steps++;
    t->micros = t->micro = p->micros;
    dl_step_count(t, p->samples);
    return DL_OK;
}

static dl_status replay(dl_trainer *t, dl_step_graph *p) {
    long epoch, at;
    dl_status st = move_out_kept(t, p);
    if (st != DL_OK) {
        forget(t, p);
        return p->seen = 0, st;
    }
    dl_batch_next(t->loader, &epoch, &at);
    t->epoch = epoch;
    if (!t->resident[DL_TRAIN].x) DL_TRY(dl_batch_send(t, &p->sent));
    DL_TRY(dl_control_align_rng(t)); /* a function that makes samples may have drawn */
    DL_TRY(dl_step_set_rates(t));
    DL_TRY(t->backend->replay(t->index, p->graph));
    show_results(t, p);
    if (p->recount) count_references(t, &p->end);
    p->recount = false;
    return count_step(t, p, epoch, at);
}

/* ---------------------------------------------------------------- saved states */

/* All that a step changes on the device. */
typedef struct device_state {
    dl_tensor **t; /* borrowed */
    dl_tensor **copy;
    long n;
} device_state;

/* All that it changes on the host. */
typedef struct host_state {
    long epoch, batch, t_epoch, issued, from, at_epoch, opt_steps;
    long *steps; /* of the optimizer's parameters, then of its groups */
    dl_rng_at rng;
    dl_report report;
} host_state;

static void state_free(device_state *m) {
    for (long i = 0; m->copy && i < m->n; i++) dl_unref(m->copy[i]);
    free(m->copy);
    free(m->t);
}

/* A flat copy of a storage. */
static dl_tensor *copy_of(const dl_tensor *t) {
    long bytes = (long)t->st->bytes;
    DL_OWNED dl_tensor *c = dl_tensor_empty(1, &bytes, DL_U8, t->st->device);
    if (!c) return NULL;
    dl_status st = dl_device_copy(c->st->data, t->st->device, t->st->data, t->st->device, t->st->bytes);
    return st == DL_OK ? dl_ref(c) : NULL;
}

static dl_status state_save(dl_trainer *t, device_state *m) {
    long most = t->state->n + t->opt->n * DL_OPTIM_STATES + t->nparam + 1;
    *m = (device_state){.t = calloc((size_t)most, sizeof *m->t), .copy = calloc((size_t)most, sizeof *m->copy)};
    if (!m->t || !m->copy) return dl_fail(DL_ERR_MEMORY, "no memory for the state of a training");
    for (long i = 0; i < t->state->n; i++) m->t[m->n++] = t->state->entries[i].tensor;
    for (long i = 0; i < t->opt->n; i++)
        for (int s = 0; s < DL_OPTIM_STATES; s++)
            if (t->opt->param[i].state[s]) m->t[m->n++] = t->opt->param[i].state[s];
    for (long i = 0; t->ema && i < t->nparam; i++) m->t[m->n++] = t->ema[i];
    m->t[m->n++] = t->block;
    for (long i = 0; i < m->n; i++)
        if (!(m->copy[i] = copy_of(m->t[i]))) return dl_failed();
    return DL_OK;
}

static dl_status state_restore(const device_state *m) {
    for (long i = 0; i < m->n; i++) {
        dl_storage *st = m->t[i]->st;
        DL_TRY(dl_device_copy(st->data, st->device, m->copy[i]->st->data, st->device, st->bytes));
        dl_touch(m->t[i]);
    }
    return DL_OK;
}

/* Do the tensors hold the saved bits? */
static dl_status state_same(const device_state *m, bool *same) {
    *same = true;
    for (long i = 0; i < m->n && *same; i++) {
        size_t n = m->t[i]->st->bytes;
        int device = m->t[i]->st->device;
        char *both = malloc(2 * n + 1);
        if (!both) return dl_fail(DL_ERR_MEMORY, "no memory to compare the state of a training");
        dl_status st = dl_device_copy(both, 0, m->t[i]->st->data, device, n);
        if (st == DL_OK) st = dl_device_copy(both + n, 0, m->copy[i]->st->data, device, n);
        *same = st == DL_OK && !memcmp(both, both + n, n);
        free(both);
        DL_TRY(st);
    }
    return DL_OK;
}

static dl_status host_save(dl_trainer *t, host_state *p) {
    *p = (host_state){.t_epoch = t->epoch,
                      .issued = t->issued,
                      .from = t->control_from,
                      .at_epoch = t->control_epoch,
                      .opt_steps = t->opt->steps,
                      .rng = dl_rng_here(),
                      .report = t->report[t->taken % DL_REPORTS]};
    dl_loader_position(t->loader, &p->epoch, &p->batch);
    p->steps = malloc((size_t)(t->opt->n + t->groups) * sizeof *p->steps);
    if (!p->steps) return dl_fail(DL_ERR_MEMORY, "no memory for the state of a training");
    for (long i = 0; i < t->opt->n; i++) p->steps[i] = t->opt->param[i].steps;
    for (int g = 0; g < t->groups; g++) p->steps[t->opt->n + g] = t->rates[g].steps;
    return DL_OK;
}

static dl_status host_restore(dl_trainer *t, const host_state *p) {
    t->epoch = p->t_epoch, t->issued = p->issued, t->control_from = p->from, t->control_epoch = p->at_epoch;
    t->opt->steps = p->opt_steps, t->control_rng = p->rng;
    dl_rng_go(&p->rng);
    t->report[t->taken % DL_REPORTS] = p->report;
    for (long i = 0; i < t->opt->n; i++) t->opt->param[i].steps = p->steps[i];
    for (int g = 0; g < t->groups; g++) t->rates[g].steps = p->steps[t->opt->n + g];
    t->micro = 0, t->phase = DL_PHASE_IDLE;
    return dl_loader_seek(t->loader, p->epoch, p->batch);
}

/* ---------------------------------------------------------------- capture */

/* Random numbers of the host are not part of a graph. Memory that the step wrote to and that was there before must be
 * restored for the first replay. */
static dl_status check_effects(dl_trainer *t, const dl_effects *e, const device_state *known) {
    if (e->incomplete) return dl_fail(DL_ERR_MEMORY, "no memory for the list of what a step writes to");
    if (e->host_draws) return dl_fail(DL_ERR_UNSUPPORTED, "the net or the loss draws random numbers on the CPU");
    for (long i = 0; i < e->writes.n; i++) {
        const dl_storage *s = e->writes.at[i];
        bool own = false;
        for (int k = 0; k < DL_BATCH_SLOTS && !own; k++) {
            const dl_tensor *sent = *dl_batch_slot(&t->sent, k);
            own = sent && sent->st == s;
        }
        for (long k = 0; k < known->n && !own; k++) own = known->t[k]->st == s;
        if (!own)
            return dl_fail(DL_ERR_UNSUPPORTED, "the net or the loss writes to a tensor that is not part of the net");
    }
    return DL_OK;
}

/* Issues the next step, whose work is recorded. `known`: what a step may write to. */
static dl_status issue_recorded(dl_trainer *t, const device_state *known) {
    dl_effects e;
    dl_effects_watch(&e);
    dl_status st = dl_step_issue_eagerly(t);
    dl_effects_end(&e);
    if (st == DL_OK) st = check_effects(t, &e, known);
    dl_effects_free(&e);
    return st;
}

/* Records the next step without running it. */
static dl_status record(dl_trainer *t, dl_step_graph *p, const device_state *known) {
    dl_graph *graph = NULL;
    dl_rng_at before = dl_rng_here();
    t->resend = !t->resident[DL_TRAIN].x;
    dl_status st = t->backend->capture_begin(t->index, &graph);
    if (st != DL_OK) return t->resend = false, st;
    dl_deferred_set(true);
    st = issue_recorded(t, known);
    dl_deferred_set(false);
    dl_error e;
    if (st != DL_OK) dl_error_take(&e);
    dl_status end = t->backend->capture_end(t->index, graph, st == DL_OK);
    if (st != DL_OK) return dl_error_put(&e);
    DL_TRY(end);
    p->graph = graph;
    p->sent = dl_batch_ref(&t->sent);
    DL_TRY(results_take(t, &p->end));
    p->draws = dl_rng_since(&before);
    p->samples = t->after[(t->issued - 1) % DL_REPORTS].samples;
    return DL_OK;
}

/* Runs the graph for the first time, where the step op by op began, and compares. */
static dl_status verify(dl_trainer *t, dl_step_graph *p, const device_state *after, const dl_report *want, bool *same) {
    const dl_report *got = &t->report[t->taken % DL_REPORTS];
    DL_TRY(t->backend->replay(t->index, p->graph));
    DL_TRY(t->backend->synchronize(t->index));
    DL_TRY(state_same(after, same));
    *same = *same && !memcmp(got, want, offsetof(dl_report, time)) && got->end == want->end;
    if (!*same) return DL_OK;
    show_results(t, p);
    count_references(t, &p->end);
    return DL_OK;
}

/* Why some step runs op by op, else that steps are captured. */
static void update_state(dl_trainer *t) {
    const char *text = "";
    for (const dl_step_graph *p = t->graphs; p; p = p->next)
        if (*p->refused || (p->graph && !*text)) text = *p->refused ? p->refused : CAPTURED;
    snprintf(t->capture_state, sizeof t->capture_state, "%s", text);
}

/* The step runs without a graph from now on; the recorded error is the reason. */
static dl_status refuse(dl_trainer *t, dl_step_graph *p) {
    snprintf(p->refused, sizeof p->refused, "%s", dl_errmsg());
    forget(t, p); /* whose end may fail too */
    dl_error_clear();
    update_state(t);
    return DL_OK;
}

/* A step that ran op by op, with the states before and after it. */
typedef struct eager {
    device_state before, after;
    host_state from, to;
    results end;
} eager;

static dl_status eager_end(dl_trainer *t, eager *e) {
    DL_TRY(state_save(t, &e->after));
    DL_TRY(results_take(t, &e->end));
    DL_TRY(host_save(t, &e->to));
    e->to.report = t->report[t->taken % DL_REPORTS];
    return DL_OK;
}

static void eager_free(eager *e) {
    state_free(&e->before);
    state_free(&e->after);
    results_drop(&e->end);
    free(e->from.steps);
    free(e->to.steps);
}

/* Runs the step again from a graph. On failure the state after the step op by op is restored. */
static dl_status capture(dl_trainer *t, dl_step_graph *p, const eager *e) {
    bool same = false;
    DL_TRY(state_restore(&e->before));
    DL_TRY(host_restore(t, &e->from));
    if (!t->resident[DL_TRAIN].x) dl_rng_go(&t->net_rng); /* the batch is not made again */
    DL_TRY(dl_control_align_rng(t));
    t->same_rate = true; /* a schedule of the caller's is asked once a step */
    dl_status st = dl_step_set_rates(t);
    if (st == DL_OK) st = record(t, p, &e->before);
    t->same_rate = false;
    if (st == DL_OK) st = verify(t, p, &e->after, &e->to.report, &same);
    if (st == DL_OK && !same) st = dl_fail(DL_ERR_UNSUPPORTED, "a replay did not end in the same bits");
    if (st == DL_OK) return update_state(t), DL_OK;
    refuse(t, p);
    DL_TRY(t->backend->synchronize(t->index));
    DL_TRY(state_restore(&e->after));
    DL_TRY(host_restore(t, &e->to));
    results_put(t, &e->end); /* those of the capture were never computed */
    return t->backend->synchronize(t->index);
}

/* The step op by op, after saving the state before it. */
static dl_status eager_run(dl_trainer *t, eager *e) {
    DL_TRY(host_save(t, &e->from));
    DL_TRY(state_save(t, &e->before));
    dl_status st = dl_step_issue_eagerly(t);
    if (st == DL_OK) return t->backend->synchronize(t->index);
    if (st != DL_ERR_MEMORY) return st;
    dl_error error; /* without the saved state there may be enough memory: the step is undone, to be run again */
    dl_error_take(&error);
    DL_TRY(state_restore(&e->before));
    DL_TRY(host_restore(t, &e->from));
    DL_TRY(t->backend->synchronize(t->index));
    return dl_error_put(&error);
}

/* The step op by op, then from a graph; op by op alone where memory is short. */
static dl_status run_and_capture(dl_trainer *t, dl_step_graph *p) {
    eager e = {0};
    dl_status st = eager_run(t, &e);
    bool bare = st == DL_ERR_MEMORY;
    if (st == DL_OK && t->report[t->taken % DL_REPORTS].end == DL_END_DONE) {
        dl_issued after = t->after[t->taken % DL_REPORTS];
        st = eager_end(t, &e) == DL_OK ? capture(t, p, &e) : refuse(t, p);
        t->after[t->taken % DL_REPORTS] = after;
    }
    eager_free(&e);
    if (!bare) return st;
    refuse(t, p);
    return dl_step_issue_eagerly(t);
}

const char *dl_trainer_notice(dl_trainer *t) {
    if (!t || t->state_shown || !*t->capture_state || !strcmp(t->capture_state, CAPTURED) || !dl_capture_get())
        return NULL;
    t->state_shown = true;
    return t->capture_state;
}

/* Why no step can be captured; else "", and the key of the next one. */
static dl_status decide(dl_trainer *t, uint64_t *key, char why[DL_CAPTURE_STATE]) {
    const char *reason = obstacle(t);
    snprintf(why, DL_CAPTURE_STATE, "%s", reason ? reason : "");
    dl_status st = reason ? DL_OK : key_of(t, key);
    if (st != DL_ERR_UNSUPPORTED) return st;
    snprintf(why, DL_CAPTURE_STATE, "%s", dl_errmsg());
    return dl_error_clear(), DL_OK;
}

dl_status dl_replay_step(dl_trainer *t, bool *done) {
    uint64_t key = 0;
    *done = t->drain_first = false;
    if (!t->backend->capture_begin) return DL_OK;
    dl_module_train(t->model, 1); /* as the step op by op does, and the key tells modes apart */
    char why[DL_CAPTURE_STATE];
    DL_TRY(decide(t, &key, why));
    if (*why) {
        memcpy(t->capture_state, why, sizeof why);
        t->no_graphs = true;
        return DL_OK;
    }
    if (t->no_graphs) update_state(t);
    t->no_graphs = false;
    dl_step_graph *p = find(t, key);
    if (!p) return dl_failed();
    if (p->graph) {
        *done = true;
        return replay(t, p);
    }
    if (*p->refused || ++p->seen <= WARM_UP_STEPS || t->opt->steps < 1)
        return DL_OK;                       /* the first step makes the optimizer's states */
    t->drain_first = t->taken != t->issued; /* captured next time, when all reports have been read */
    if (t->drain_first) return DL_OK;
    *done = true;
    return run_and_capture(t, p);
}
