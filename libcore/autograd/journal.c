/* The rows of the journal: each event finds the row of its place, which is most often the one behind the last. */
#include "autograd/journal.h"
#include "autograd/nonfinite.h"
#include "autograd/tape.h"
#include "core/device/device.h"
#include "core/mode.h"
#include "core/random/rng.h"
#include "core/scope.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 256, CURVE = 64, SEEN = DL_JOURNAL_SEEN, SEEN_OF_PASS = 64, SEEN_OF_OTHERS = 4 };

/* Where random numbers were at the last step of a place, and the parameter by which a training is known. */
typedef struct seeding {
    const dl_tensor *leaf;
    uint32_t version;
    long changes; /* of that parameter */
    unsigned long seedings, seed;
    uint64_t drawn;
} seeding;

struct dl_journal {
    dl_journal_row row[ROWS];
    dl_journal_pass pass[ROWS][2];
    unsigned long *seen[ROWS]; /* [SEEN]; NULL: none yet */
    seeding seeding[ROWS];
    long training[ROWS], trainings;    /* in which training the row had its last event */
    long n, at;                        /* at: of the last event */
    uint32_t pass_before[ROWS];        /* number of the last pass of a place but one */
    uint32_t last_pass[ROWS], stepped; /* of the last pass, and of the last one before a step */
    uint64_t serial;                   /* of memory that the last step made, or would have made */
    long backward;                     /* row of the pass that began last; -1: none */
    unsigned long events;
};

__thread dl_journal_pass *dl_journal_looking;
static _Thread_local dl_journal *journal;
static _Thread_local bool off; /* by dl_journal_swap(NULL) */
static _Thread_local uint32_t passes;

uint32_t dl_journal_pass_number(void) { return ++passes; }

/* ---------------------------------------------------------------- life */

dl_journal *dl_journal_new(void) {
    dl_journal *j = calloc(1, sizeof *j);
    if (!j) dl_fail(DL_ERR_MEMORY, "no memory for a journal");
    return j;
}

void dl_journal_free(dl_journal *j) {
    for (long i = 0; j && i < j->n; i++) {
        for (int k = 0; k < 2; k++) free(j->pass[i][k].nodes);
        free(j->seen[i]);
    }
    free(j);
}

static pthread_key_t ending;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void free_at_end(void *j) { dl_journal_free(j); }
static void make_key(void) { pthread_key_create(&ending, free_at_end); }

/* The thread's own, which is freed when that ends. */
static void make_own(void) {
    DL_SCOPED_ERROR;
    pthread_once(&once, make_key);
    journal = dl_journal_new();
    pthread_setspecific(ending, journal);
}

/* The thread's own is made before, so that giving it back never means NULL, which is off. */
dl_journal *dl_journal_swap(dl_journal *j) {
    if (!journal && !off) make_own();
    dl_journal *former = journal;
    journal = j;
    off = !j;
    return former;
}

/* ---------------------------------------------------------------- rows */

typedef struct key {
    dl_journal_kind kind;
    const void *what;
    bool training, grad;
} key;

static bool is(const dl_journal_row *r, const key *k, dl_source here) {
    return r->kind == k->kind && r->line == here.line && r->what == k->what && r->training == k->training &&
           r->grad == k->grad && r->file == here.file;
}

/* The row of an event that happens now; NULL: there is no room. */
static dl_journal_row *row_of(key k) {
    if (!journal && !off) make_own();
    dl_journal *j = journal;
    if (!j) return NULL;
    dl_source here = dl_source_get();
    long at = -1;
    for (long i = 0; i < j->n && at < 0; i++) {
        long guess = j->at + 1 + i < j->n ? j->at + 1 + i : j->at + 1 + i - j->n;
        if (is(&j->row[guess], &k, here)) at = guess;
    }
    if (at < 0) {
        if (j->n == ROWS) return NULL;
        at = j->n++;
        j->row[at] = (dl_journal_row){.kind = k.kind,
                                      .file = here.file,
                                      .line = here.line,
                                      .what = k.what,
                                      .training = k.training,
                                      .grad = k.grad,
                                      .at = j->events,
                                      .first = NAN,
                                      .last = NAN,
                                      .low = NAN,
                                      .high = NAN,
                                      .limit = NAN,
                                      .every = 1,
                                      .ratio = {NAN, NAN, NAN, NAN}};
    }
    dl_journal_row *r = &j->row[at];
    if (j->training[at] != j->trainings) j->training[at] = j->trainings, r->since = r->count;
    r->till = j->events++;
    r->count++;
    j->at = at;
    return r;
}

static void note(dl_journal_row *r, double v) {
    if (r->count == 1) r->first = r->low = r->high = v;
    r->last = v;
    r->sum += v;
    r->low = fmin(r->low, v), r->high = fmax(r->high, v);
}

/* Numbers of passes at equal distances, which double when there is no more room. */
static void note_curve(dl_journal_row *r, double v) {
    if ((r->count - 1) % r->every) return;
    if (r->ncurve == CURVE) {
        for (int i = 0; i < CURVE / 2; i++) r->curve[i] = r->curve[2 * i];
        r->ncurve = CURVE / 2, r->every *= 2;
        if ((r->count - 1) % r->every) return;
    }
    r->curve[r->ncurve++] = v;
}

long dl_journal_count(void) { return journal ? journal->n : 0; }

dl_status dl_journal_at(long i, dl_journal_row *out) {
    if (i < 0 || i >= dl_journal_count())
        return dl_fail(DL_ERR_INDEX, "row %ld of %ld in the journal", i, dl_journal_count());
    *out = journal->row[i];
    for (int k = 0; k < 2; k++) out->nodes[k] = journal->pass[i][k].nodes, out->nnodes[k] = journal->pass[i][k].n;
    if (!out->nnodes[1]) out->nodes[1] = out->nodes[0], out->nnodes[1] = out->nnodes[0];
    return DL_OK;
}

/* ---------------------------------------------------------------- events of nets and optimizers */

static bool is_power_of_two(long n) { return !(n & (n - 1)); }

/* Is the event one that is looked at, number 1, 2, 4, 8, ... of the training? */
static bool is_looked_at(const dl_journal_row *r) { return is_power_of_two(r->count - r->since); }

/* Rows of a pass among those of the passes before; without memory they are left out. */
static void keep_rows(dl_journal_row *r, const dl_tensor *x, long most) {
    unsigned long hash[SEEN_OF_PASS], **seen = &journal->seen[r - journal->row];
    if (r->nseen == SEEN || !dl_in_host_memory(x)) return;
    if (!*seen) r->seen = *seen = malloc(SEEN * sizeof **seen);
    const long n = *seen ? dl_journal_row_hashes(x, hash, most) : 0;
    for (long i = 0; i < n && r->nseen < SEEN; i++) {
        long k = 0;
        while (k < r->nseen && (*seen)[k] != hash[i]) k++;
        if (k == r->nseen) (*seen)[r->nseen++] = hash[i];
    }
}

static void look_at_input(dl_journal_row *r, const dl_tensor *x) {
    const dl_journal_value before = r->x;
    if (!dl_in_host_memory(x)) return;
    r->x = (dl_journal_value){.there = 1, .dead = -1, .gradient = -1, .ndim = x->ndim};
    memcpy(r->x.shape, x->shape, sizeof x->shape);
    dl_journal_figures(x, &r->x);
    r->alike += r->looked && before.n == r->x.n && before.hash == r->x.hash;
    r->looked++;
    r->nrows = dl_journal_row_hashes(x, r->rows, (long)(sizeof r->rows / sizeof *r->rows));
    keep_rows(r, x, SEEN_OF_PASS);
}

void dl_journal_zero(const void *optimizer) { row_of((key){.kind = DL_DID_ZERO, .what = optimizer}); }

void dl_journal_cleared(void) { row_of((key){.kind = DL_DID_ZERO}); }

bool dl_journal_forward(const void *net, bool training, const dl_tensor *x) {
    dl_journal_row *r = row_of((key){DL_DID_FORWARD, net, training, dl_recording()});
    if (!r) return false;
    r->moved += r->count > 1 && r->data != dl_ptr(x);
    r->data = dl_ptr(x);
    r->ndim = x->ndim;
    memcpy(r->shape, x->shape, sizeof x->shape);
    const bool looked = is_looked_at(r);
    if (looked)
        look_at_input(r, x);
    else if (!training || !dl_recording()) /* of evaluations, some rows of each */
        keep_rows(r, x, SEEN_OF_OTHERS);
    return looked;
}

void dl_journal_modes(long other, long layers, bool frozen) {
    dl_journal_row *r = journal ? &journal->row[journal->at] : NULL;
    if (r) r->without = other, r->total = layers, r->empty += frozen;
}

void dl_journal_mode(const void *net, bool training) { row_of((key){DL_DID_MODE, net, training, false}); }

void dl_journal_clip(const dl_tensor *first, double limit, double norm) {
    dl_journal_row *r = row_of((key){.kind = DL_DID_CLIP, .what = first});
    if (!r) return;
    r->limit = limit;
    note(r, norm);
}

void dl_journal_rate(const void *optimizer, double rate) {
    dl_journal_row *r = row_of((key){.kind = DL_DID_RATE, .what = optimizer});
    if (r) note(r, rate);
}

void dl_journal_shape(dl_journal_kind kind, const void *what, const dl_tensor *x, int ndim, const long *shape) {
    dl_journal_row *r = row_of((key){.kind = kind, .what = what});
    if (!r) return;
    r->ndim = ndim, r->x.ndim = x->ndim;
    memcpy(r->shape, shape, (size_t)ndim * sizeof *shape);
    memcpy(r->x.shape, x->shape, (size_t)x->ndim * sizeof *shape);
}

/* ---------------------------------------------------------------- elements on a device */

enum { RUNS = 4 }; /* copies of a large tensor: each costs some microseconds */

dl_tensor *dl_journal_sample(const dl_tensor *t, long most) {
    if (dl_in_host_memory(t)) return dl_ref((dl_tensor *)t);
    if (dl_deferred_get() || !dl_is_contiguous(t)) return NULL;
    const size_t size = dl_esize(t);
    const long run = (most + RUNS - 1) / RUNS, n = t->numel <= 16 * most ? t->numel : RUNS * run;
    dl_tensor *near = dl_tensor_empty(1, &n, t->dtype, 0);
    dl_status st = near ? DL_OK : dl_failed();
    const char *from = dl_ptr(t);
    if (st == DL_OK && n == t->numel) st = dl_device_copy(dl_ptr(near), 0, from, t->st->device, (size_t)n * size);
    for (long i = 0; st == DL_OK && n < t->numel && i < RUNS; i++)
        st = dl_device_copy((char *)dl_ptr(near) + (size_t)(i * run) * size, 0,
                            from + (size_t)((t->numel - run) / (RUNS - 1) * i) * size, t->st->device,
                            (size_t)run * size);
    if (st == DL_OK) return near;
    dl_error_clear();
    dl_unref(near);
    return NULL;
}

dl_tensor *dl_journal_rows(const dl_tensor *t, long rows) {
    long shape[DL_MAX_DIM];
    if (dl_deferred_get() || !dl_is_contiguous(t)) return NULL;
    memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
    shape[0] = rows < shape[0] ? rows : shape[0];
    dl_tensor *near = dl_tensor_empty(t->ndim, shape, t->dtype, 0);
    if (near && !dl_device_copy(dl_ptr(near), 0, dl_ptr(t), t->st->device, (size_t)near->numel * dl_esize(t)))
        return near;
    dl_error_clear();
    dl_unref(near);
    return NULL;
}

/* ---------------------------------------------------------------- steps */

static bool is_added(const dl_tensor *gradient) {
    return gradient->again && gradient->used == gradient->st->version + 1;
}

static bool is_readable(const dl_tensor *t) {
    return (dl_in_host_memory(t) || !dl_deferred_get()) && t->dtype == DL_F32 && t->numel && dl_is_contiguous(t);
}

static void take(const dl_tensor *t, float *out) {
    DL_OWNED dl_tensor *near = dl_journal_sample(t, DL_JOURNAL_ELEMENTS);
    const float *v = near ? dl_ptr(near) : NULL;
    for (int i = 0; i < DL_JOURNAL_ELEMENTS; i++) out[i] = v ? v[(long)i * near->numel / DL_JOURNAL_ELEMENTS] : NAN;
}

/* A parameter that no step has changed, where others have been, begins another training: passes are looked at anew. */
static bool begins_another(const dl_tensor *leaf) {
    bool others = false;
    for (long i = 0; i < journal->n; i++) {
        const seeding *s = &journal->seeding[i];
        if (s->leaf == leaf && s->version <= leaf->st->version) return false;
        others = others || s->leaf;
    }
    return others;
}

/* Has a seed taken random numbers back to where they were at the step before, or further, in the same training? */
static void note_seeding(dl_journal_row *r, const dl_tensor *leaf) {
    seeding *s = &journal->seeding[r - journal->row], now = {.leaf = leaf, .version = leaf->st->version};
    dl_source at;
    const dl_rng_at here = dl_rng_here();
    now.seedings = dl_rng_seedings(&at), now.seed = dl_seed_get();
    for (int i = 0; i < DL_RNG_STREAMS; i++) now.drawn += here.call[i];
    now.changes = s->leaf == leaf ? s->changes + 1 : 1;
    if (s->leaf && s->leaf != leaf && !r->what) return; /* of several that are changed at one place the first */
    journal->trainings += begins_another(leaf);
    const bool goes_on = s->leaf == leaf && now.version >= s->version;
    if (goes_on && now.seedings != s->seedings && now.seed == s->seed && now.drawn && now.drawn <= s->drawn)
        r->reseeded++, r->seeded = at;
    *s = now;
}

bool dl_journal_step_begin(dl_journal_step *s, const void *optimizer, double rate, dl_tensor *const *p, long n) {
    dl_journal_row *r = row_of((key){.kind = DL_DID_STEP, .what = optimizer});
    long with = 0, again = 0;
    s->n = 0;
    if (!r) return false;
    for (long i = 0; i < n; i++)
        if (p[i]->grad) with++, again += is_added(p[i]->grad);
    note(r, rate);
    r->without = n - with, r->total = n;
    r->empty += !with;
    r->again += again > 0;
    journal->stepped = passes, journal->serial = dl_storage_serial();
    if (n) note_seeding(r, p[0]);
    if (!with || !is_looked_at(r)) return false;
    s->row = r - journal->row;
    for (long i = 0; i < n && s->n < DL_JOURNAL_PARAMS; i++)
        if (p[i]->grad && p[i]->ndim > 1 && is_readable(p[i])) s->p[s->n++] = p[i];
    for (long i = 0; i < n && !s->n; i++)
        if (p[i]->grad && is_readable(p[i])) s->p[s->n++] = p[i];
    for (int i = 0; i < s->n; i++) take(s->p[i], s->before[i]);
    return s->n > 0;
}

void dl_journal_step_end(dl_journal_step *s) {
    double change = 0, size = 0;
    float now[DL_JOURNAL_ELEMENTS];
    if (!journal || s->row >= journal->n) return;
    for (int i = 0; i < s->n; i++) {
        take(s->p[i], now);
        for (int k = 0; k < DL_JOURNAL_ELEMENTS; k++) {
            double was = s->before[i][k], d = (double)now[k] - was;
            change += d * d, size += was * was;
        }
    }
    double *ratio = journal->row[s->row].ratio, v = size > 0 ? sqrt(change / size) : NAN;
    if (isnan(ratio[0])) ratio[0] = v;
    ratio[1] = v;
    ratio[2] = fmin(ratio[2], v), ratio[3] = fmax(ratio[3], v);
}

bool dl_journal_is_fresh(uint64_t serial) { return journal && serial > journal->serial; }

bool dl_journal_change_begin(dl_journal_step *s, dl_tensor *leaf) {
    dl_journal_row *r = row_of((key){.kind = DL_DID_STEP});
    const bool again = leaf->grad && is_added(leaf->grad);
    if (leaf->grad) dl_journal_used(leaf->grad);
    if (!r) return false;
    s->row = r - journal->row, s->n = 0;
    r->again += again, r->total = 1, journal->stepped = passes, journal->serial = dl_storage_serial();
    note_seeding(r, leaf);
    const seeding *first = &journal->seeding[s->row];
    if (first->leaf != leaf || !is_power_of_two(first->changes) || !is_readable(leaf)) return false;
    take(leaf, s->before[0]);
    s->p[s->n++] = leaf;
    return true;
}

/* By their memory, as a function is given leaves of its own for what it is called with. */
static _Thread_local const void *gifts[DL_JOURNAL_PARAMS];
__thread int dl_journal_gifts;

void dl_journal_given(dl_tensor *const *inputs, int n) {
    dl_journal_gifts = n < DL_JOURNAL_PARAMS ? n : DL_JOURNAL_PARAMS;
    for (int i = 0; i < dl_journal_gifts; i++) gifts[i] = dl_ptr(inputs[i]);
}

bool dl_journal_takes_gift(const dl_tensor *leaf) {
    for (int i = 0; i < dl_journal_gifts; i++) {
        if (gifts[i] != dl_ptr(leaf)) continue;
        gifts[i] = gifts[--dl_journal_gifts];
        return true;
    }
    return false;
}

/* ---------------------------------------------------------------- backward passes */

static double number(const dl_tensor *t) {
    DL_OWNED dl_tensor *near = t->numel == 1 ? dl_journal_sample(t, 1) : NULL;
    if (!near) return NAN;
    return t->dtype == DL_F32 ? *(const float *)dl_ptr(near) : t->dtype == DL_F64 ? *(const double *)dl_ptr(near) : NAN;
}

/* A number on a device is waited for: only in the passes that are looked at, and there is no curve of it. */
static bool wanted(const dl_journal_row *r, const dl_tensor *root) {
    return dl_in_host_memory(root) || (is_looked_at(r) && !dl_deferred_get());
}

void dl_journal_reached(const dl_source *joint, const dl_source *taken, uint32_t earlier) {
    const long i = journal ? journal->backward : -1;
    if (i < 0 || earlier > journal->stepped || earlier > journal->pass_before[i]) return;
    journal->row[i].reached++, journal->row[i].joint = *joint, journal->row[i].seeded = *taken;
}

long dl_journal_backward_begin(const dl_tensor *root) {
    if (journal) journal->backward = -1;
    if (!root || dl_journal_looking) return -1;
    dl_journal_row *r = row_of((key){.kind = DL_DID_BACKWARD});
    if (!r) return -1;
    const long at = r - journal->row;
    journal->backward = at, journal->pass_before[at] = journal->last_pass[at], journal->last_pass[at] = passes + 1;
    if (!wanted(r, root)) return -1;
    double v = number(root);
    if (isinf(v)) dl_nonfinite_note_origin(root);
    note(r, v);
    if (dl_in_host_memory(root)) note_curve(r, v);
    long i = r - journal->row;
    if (!is_looked_at(r)) return i;
    dl_journal_looking = &journal->pass[i][r->count > 1];
    dl_journal_looking->n = 0;
    return i;
}

void dl_journal_backward_end(long row) {
    if (row >= 0) dl_journal_looking = NULL;
}
