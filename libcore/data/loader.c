/* Loaders: the samples of a split in batches, made ahead by threads.
 *
 * Batches are numbered from the beginning of the first epoch. A thread takes the next number, makes that batch from
 * (seed, epoch, number) alone, and puts it into the slot of its number; the caller takes the slots in turn, so results
 * do not depend on the number of threads or their timing. A seek begins a new generation: batches of older ones are
 * dropped when they are ready. */
#include "data/data.h"
#include "core/scope.h"
#include "data/sampler.h"
#include "data/transforms/transform.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/mix.h"

enum { MAX_WORKERS = 16, MAX_PREFETCH = 1024, DEFAULT_BATCH = 64, DEFAULT_PREFETCH = 4 };

/* What one thread keeps from batch to batch. */
typedef struct maker {
    dl_loader *loader;
    long epoch, *order; /* the order of that epoch; -1: none yet */
    float *tmp;         /* room for transforms */
    long *sample;       /* of a batch: by which transforms draw */
    pthread_t thread;
} maker;

typedef struct slot {
    bool ready;
    dl_batch b; /* x[0] NULL: failed */
    dl_error error;
} slot;

struct dl_loader {
    int refs, place; /* first, for dl_trainer_references */
    dl_dataset *data;
    int split;
    long n, batch, batches; /* samples; samples in a batch; batches in an epoch */
    dl_sampling sampling;
    dl_sampler *sampler; /* a reference */
    dl_collate *collate; /* the same */
    dl_batch_form form;
    dl_net_input input[DL_NET_INPUTS];
    uint64_t seed;
    dl_transforms transforms;
    int nmakers, depth, started; /* threads wanted (0: the caller makes the batches), slots, threads running */
    dl_source started_by;        /* the source line that live tensors of their batches name */
    maker makers[MAX_WORKERS];
    long epoch, at; /* the next batch of the caller; at == batches: the end of the epoch */
    int passes;     /* iterations under way */
    long inner;     /* iterations that began while others were under way, since the caller's position changed */
    slot *slots;
    pthread_mutex_t lock; /* over all below, and the slots */
    pthread_cond_t work, ready;
    long next_made, next_taken; /* numbers of batches */
    long generation;
    bool stop;
};

/* ---------------------------------------------------------------- making a batch */

static dl_status set_order(maker *m, long epoch) {
    const dl_loader *l = m->loader;
    if (m->epoch == epoch) return DL_OK;
    m->epoch = -1;
    DL_TRY(dl_sampling_order(&l->sampling, l->seed, epoch, m->order));
    m->epoch = epoch;
    return DL_OK;
}

static dl_status make(maker *m, long number, dl_batch *b) {
    dl_loader *l = m->loader;
    dl_dataset *d = l->data;
    long epoch = number / l->batches, from = number % l->batches * l->batch;
    long n = l->n - from < l->batch ? l->n - from : l->batch;
    DL_TRY(set_order(m, epoch));
    if (l->collate) return dl_collate_run(l->collate, d, l->split, m->order + from, n, false, &l->form, b);
    DL_TRY(dl_data_collate(d, l->split, m->order + from, n, b->x, b->y));
    if (!l->transforms.n) return DL_OK;
    dl_changes c = {.list = &l->transforms,
                    .seed = l->seed,
                    .epoch = (uint64_t)epoch,
                    .batch = (uint64_t)from,
                    .room = m->tmp,
                    .classes = d->classes};
    for (long i = 0; i < n; i++) /* a sample that an epoch has more than once changes in another way each time */
        m->sample[i] = dl_sampler_repeats(l->sampler) ? from + i : m->order[from + i];
    c.sample = m->sample;
    dl_status st = dl_transforms_change(&c, &b->x[0], &b->y[0]);
    if (st != DL_OK) dl_batch_drop(b);
    return st;
}

/* ---------------------------------------------------------------- threads */

static void *run_maker(void *arg) {
    maker *m = arg;
    dl_loader *l = m->loader;
    dl_source_set(l->started_by.file, l->started_by.line);
    dl_interrupt_hold(1); /* the batch will be wanted later */
    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        if (l->next_made >= l->next_taken + l->depth) {
            pthread_cond_wait(&l->work, &l->lock);
            continue;
        }
        long number = l->next_made++, generation = l->generation;
        pthread_mutex_unlock(&l->lock);
        slot done = {.ready = true};
        if (make(m, number, &done.b) != DL_OK) dl_error_take(&done.error);
        pthread_mutex_lock(&l->lock);
        if (generation == l->generation && !l->stop) {
            l->slots[number % l->depth] = done;
            pthread_cond_signal(&l->ready);
        } else
            dl_batch_drop(&done.b);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* Starts the threads, at the first batch. They block all signals, which other threads handle. */
static dl_status start(dl_loader *l) {
    sigset_t all, before;
    int err = 0;
    l->started_by = dl_source_get();
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (!err && l->started < l->nmakers) {
        maker *m = &l->makers[l->started];
        if (!(err = pthread_create(&m->thread, NULL, run_maker, m))) l->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (l->started) return DL_OK; /* fewer threads make the same batches */
    return dl_fail_hint(DL_ERR_MEMORY, "workers=-1 loads without threads", "cannot start a loader's thread: %s",
                        strerror(err));
}

/* Drops finished batches and continues at `number`. The lock is held. */
static void restart(dl_loader *l, long number) {
    for (int i = 0; i < l->depth; i++) {
        dl_batch_drop(&l->slots[i].b);
        l->slots[i] = (slot){0};
    }
    l->generation++;
    l->next_made = l->next_taken = number;
    pthread_cond_broadcast(&l->work);
}

/* ---------------------------------------------------------------- life */

static dl_status check_batch(const dl_loader_spec *s, long n) {
    long batch = s->batch ? s->batch : DEFAULT_BATCH;
    if (!s->drop_last || n >= batch) return DL_OK;
    return dl_fail_hint(DL_ERR_VALUE, "choose a smaller batch, or keep the last one",
                        "drop_last leaves nothing: %ld samples do not fill a batch of %ld", n, batch);
}

static dl_status check_spec(const dl_dataset *d, int split, const dl_loader_spec *s) {
    if (!d->split[split].n)
        return dl_fail_hint(DL_ERR_VALUE,
                            split ? "open the data set with a test file, or with holdout" : "more samples are needed",
                            "the %s split of '%s' is empty", split ? "test" : "train", d->name);
    if (s->batch < 0) return dl_fail(DL_ERR_VALUE, "batch=%ld; it is at least 1", s->batch);
    if (s->workers < -1 || s->workers > MAX_WORKERS)
        return dl_fail(DL_ERR_VALUE, "workers=%d; it is -1 to %d", s->workers, MAX_WORKERS);
    if (s->prefetch < 0 || s->prefetch > MAX_PREFETCH)
        return dl_fail(DL_ERR_VALUE, "prefetch=%d; it is 0 to %d", s->prefetch, MAX_PREFETCH);
    return DL_OK;
}

static dl_status read_transforms(dl_loader *l, const char *text) {
    dl_dtype t = dl_dataset_batch_dtype(l->data);
    DL_TRY(dl_transforms_parse(text, l->data->ndim, l->data->shape, &l->transforms));
    if (l->transforms.mixes && !l->data->classes)
        return dl_fail_hint(DL_ERR_TYPE, "mix the batches in a loop by hand",
                            "mixup and cutmix mix classes, and the targets of '%s' are not classes", l->data->name);
    if (l->transforms.n && l->data->padded)
        return dl_fail_hint(DL_ERR_SHAPE, "change the samples where they are made",
                            "transforms need samples of one shape, and those of '%s' differ", l->data->name);
    if (l->transforms.n && l->collate)
        return dl_fail_hint(DL_ERR_VALUE, "change the samples in the function",
                            "it takes transforms or collate, not both");
    if (!l->transforms.n || t == DL_F32) return DL_OK;
    return dl_fail_hint(DL_ERR_DTYPE, "make the data set of floating samples: x.float()",
                        "transforms change f32 samples, and those of '%s' are %s", l->data->name, dl_dtype_name(t));
}

static dl_status make_room(dl_loader *l) {
    int makers = l->nmakers ? l->nmakers : 1;
    if (!(l->slots = dl_data_alloc(l->depth, sizeof *l->slots))) return dl_failed();
    for (int i = 0; i < makers; i++) {
        maker *m = &l->makers[i];
        *m = (maker){.loader = l, .epoch = -1};
        if (!(m->order = dl_data_alloc(l->n, sizeof *m->order))) return dl_failed();
        if (!l->transforms.n) continue;
        if (!(m->tmp = dl_data_alloc(2 * l->transforms.most, sizeof *m->tmp))) return dl_failed();
        if (!(m->sample = dl_data_alloc(l->batch, sizeof *m->sample))) return dl_failed();
    }
    return DL_OK;
}

/* What its batches are. A function that makes them is asked for one of two samples, or of the only one. */
static dl_status take_form(dl_loader *l) {
    dl_dataset *d = l->data;
    l->form = d->form;
    for (int i = 0; i < l->form.inputs; i++) {
        dl_net_input f = dl_dataset_field(d, i);
        l->input[i] = (dl_net_input){.ndim = f.ndim + 1, .shape = {1}, .dtype = f.dtype};
        memcpy(l->input[i].shape + 1, f.shape, (size_t)f.ndim * sizeof *f.shape);
    }
    if (l->transforms.reshapes) memcpy(l->input[0].shape + 1, l->transforms.shape, sizeof l->transforms.shape);
    if (!l->collate) return DL_OK;
    DL_SCOPED_BATCH b = {0};
    unsigned long rng[DL_NSTREAM];
    for (int i = 0; i < DL_NSTREAM; i++) rng[i] = dl_rng_position((dl_stream)i);
    DL_TRY(
        dl_collate_run(l->collate, d, l->split, (long[]){0, 1}, d->split[l->split].n > 1 ? 2 : 1, true, &l->form, &b));
    for (int i = 0; i < DL_NSTREAM; i++) dl_rng_seek((dl_stream)i, rng[i]);
    for (int i = 0; i < l->form.inputs; i++) {
        l->input[i] = (dl_net_input){.ndim = dl_ndim(b.x[i]), .dtype = dl_dtype_of(b.x[i])};
        memcpy(l->input[i].shape, dl_shape(b.x[i]), (size_t)dl_ndim(b.x[i]) * sizeof(long));
    }
    return DL_OK;
}

static dl_loader *blank(dl_dataset *d, int split) {
    dl_loader *l = dl_data_alloc(1, sizeof *l);
    if (!l) return NULL;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->ready, NULL);
    l->refs = 1, l->place = -1, l->data = dl_dataset_ref(d), l->split = split;
    return l;
}

dl_loader *dl_loader_new(dl_dataset *d, dl_split split, const dl_loader_spec *spec) {
    dl_loader_spec none = {0};
    const dl_loader_spec *s = spec ? spec : &none;
    int which = split == DL_TEST;
    if (!d) return dl_fail_null("the data set of a loader"), NULL;
    if (check_spec(d, which, s) != DL_OK) return NULL;
    dl_loader *l = blank(d, which);
    if (!l) return NULL;
    l->sampler = dl_sampler_ref(s->sampler), l->collate = dl_collate_ref(s->collate);
    l->seed = s->seed ? *s->seed : dl_seed_get();
    dl_status st = dl_sampling_begin(&l->sampling, d, which, l->sampler, s->shuffle);
    if (st == DL_OK) st = check_batch(s, l->sampling.n);
    if (st != DL_OK) {
        dl_loader_free(l);
        return NULL;
    }
    l->n = l->sampling.n, l->batch = s->batch ? s->batch : DEFAULT_BATCH;
    l->batches = s->drop_last ? l->n / l->batch : (l->n - 1) / l->batch + 1;
    l->nmakers = s->workers < 0 || d->source.alone || l->collate ? 0 : s->workers ? s->workers : 1;
    l->depth = s->prefetch ? s->prefetch : DEFAULT_PREFETCH;
    if (l->depth < l->nmakers) l->depth = l->nmakers;
    if (read_transforms(l, s->transforms) == DL_OK && make_room(l) == DL_OK && take_form(l) == DL_OK) return l;
    dl_loader_free(l);
    return NULL;
}

DL_REF_FUNCTION(dl_loader)

void dl_loader_free(dl_loader *l) {
    if (!l || __atomic_sub_fetch(&l->refs, 1, __ATOMIC_ACQ_REL)) return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->started; i++) pthread_join(l->makers[i].thread, NULL);
    for (int i = 0; l->slots && i < l->depth; i++) dl_batch_drop(&l->slots[i].b);
    for (int i = 0; i < MAX_WORKERS; i++) {
        free(l->makers[i].order);
        free(l->makers[i].tmp);
        free(l->makers[i].sample);
    }
    free(l->slots);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->work);
    pthread_cond_destroy(&l->ready);
    dl_dataset_unref(l->data);
    dl_sampling_end(&l->sampling);
    dl_sampler_unref(l->sampler);
    dl_collate_unref(l->collate);
    free(l);
}

/* ---------------------------------------------------------------- use */

static dl_status take(dl_loader *l, long number, dl_batch *b) {
    if (!l->started) DL_TRY(start(l));
    slot *s = &l->slots[number % l->depth], got;
    pthread_mutex_lock(&l->lock);
    while (!s->ready) pthread_cond_wait(&l->ready, &l->lock);
    got = *s;
    *s = (slot){0};
    l->next_taken++;
    if (!got.b.x[0]) restart(l, number); /* the caller may try again */
    pthread_cond_signal(&l->work);
    pthread_mutex_unlock(&l->lock);
    if (!got.b.x[0]) return dl_error_put(&got.error);
    *b = got.b;
    return DL_OK;
}

dl_status dl_loader_next(dl_loader *l, dl_tensor **x, dl_tensor **y) {
    *x = *y = NULL;
    if (!l) return dl_fail_null("the loader");
    l->inner = 0;
    if (l->at == l->batches) {
        l->epoch++, l->at = 0;
        return DL_OK;
    }
    long number = l->epoch * l->batches + l->at;
    dl_batch b = {0};
    DL_TRY(l->nmakers ? take(l, number, &b) : make(&l->makers[0], number, &b));
    memcpy(x, b.x, (size_t)l->form.inputs * sizeof *x);
    memcpy(y, b.y, (size_t)l->form.targets * sizeof *y);
    l->at++;
    return DL_OK;
}

void dl_loader_look(const dl_loader *l, dl_loader_view *v) {
    *v = (dl_loader_view){.data = l->data,
                          .split = l->split,
                          .n = l->n,
                          .batch = l->batch,
                          .batches = l->batches,
                          .sampling = &l->sampling,
                          .seed = l->seed,
                          .transforms = &l->transforms};
}

void dl_loader_references(dl_loader *l, const dl_references *to) {
    to->data(to->ctx, l->data);
    if (l->collate) to->collate(to->ctx, l->collate);
}

dl_collate *dl_loader_collate(const dl_loader *l) { return l->collate; }
const dl_batch_form *dl_loader_form(const dl_loader *l) { return &l->form; }
dl_net_input dl_loader_input(const dl_loader *l, int i) { return l->input[i]; }
long dl_loader_len(const dl_loader *l) { return l->batches; }
long dl_loader_samples(const dl_loader *l) { return l->n; }
dl_status dl_loader_order(const dl_loader *l, long epoch, long *order) {
    return dl_sampling_order(&l->sampling, l->seed, epoch, order);
}
dl_dataset *dl_loader_dataset(const dl_loader *l) { return l->data; }
dl_split dl_loader_split(const dl_loader *l) { return (dl_split)l->split; }
long dl_loader_batch(const dl_loader *l) { return l->batch; }
unsigned long dl_loader_seed(const dl_loader *l) { return l->seed; }

void dl_loader_position(const dl_loader *l, long *epoch, long *batch) { *epoch = l->epoch, *batch = l->at; }

dl_status dl_loader_check_position(const dl_loader *l, long epoch, long batch) {
    if (!l) return dl_fail_null("the loader");
    if (epoch >= 0 && batch >= 0 && batch <= l->batches && epoch <= (1L << 48) / (l->batches + 1)) return DL_OK;
    return dl_fail(DL_ERR_INDEX, "epoch %ld, batch %ld: epochs count from 0, and batches are 0 to %ld", epoch, batch,
                   l->batches);
}

dl_status dl_loader_seek(dl_loader *l, long epoch, long batch) {
    DL_TRY(dl_loader_check_position(l, epoch, batch));
    if (epoch == l->epoch && batch == l->at) return DL_OK;
    l->epoch = epoch, l->at = batch, l->inner = 0;
    pthread_mutex_lock(&l->lock);
    restart(l, epoch * l->batches + batch);
    pthread_mutex_unlock(&l->lock);
    return DL_OK;
}

/* ---------------------------------------------------------------- iterations */

/* A loader of its own for an iteration within another one. Its seed follows from the place of the outer one and from
 * how many began there before, so that a run that continues from that place has the same orders. */
static dl_loader *twin(dl_loader *l) {
    dl_loader *t = blank(l->data, l->split);
    if (!t) return NULL;
    t->sampler = dl_sampler_ref(l->sampler), t->collate = dl_collate_ref(l->collate);
    t->form = l->form, t->transforms = l->transforms;
    memcpy(t->input, l->input, sizeof t->input);
    t->batch = l->batch, t->batches = l->batches, t->nmakers = l->nmakers, t->depth = l->depth;
    t->seed = dl_mix(dl_mix(l->seed, (uint64_t)(l->epoch * l->batches + l->at)), (uint64_t)++l->inner);
    if (dl_sampling_begin(&t->sampling, t->data, t->split, t->sampler, l->sampling.shuffle) == DL_OK) {
        t->n = t->sampling.n;
        if (make_room(t) == DL_OK) return t;
    }
    dl_loader_free(t);
    return NULL;
}

dl_status dl_loader_pass_begin(dl_loader *l, dl_loader_pass *p) {
    if (!l || !p) return dl_fail_null(!l ? "the loader" : "the iteration");
    *p = (dl_loader_pass){0};
    if (l->passes) {
        if (!(p->inner = twin(l))) return dl_failed();
    } else if (l->at)
        DL_TRY(dl_loader_seek(l, l->epoch + 1, 0));
    p->loader = dl_loader_ref(l);
    l->passes++;
    return DL_OK;
}

dl_status dl_loader_pass_next(dl_loader_pass *p, dl_tensor **x, dl_tensor **y) {
    *x = *y = NULL;
    if (!p) return dl_fail_null("the iteration");
    if (!p->loader) return DL_OK;
    DL_TRY(dl_loader_next(p->inner ? p->inner : p->loader, x, y));
    if (!*x) dl_loader_pass_end(p);
    return DL_OK;
}

void dl_loader_pass_end(dl_loader_pass *p) {
    if (!p || !p->loader) return;
    p->loader->passes--;
    dl_loader_free(p->inner);
    dl_loader_free(p->loader);
    *p = (dl_loader_pass){0};
}
