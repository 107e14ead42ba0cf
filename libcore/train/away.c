/* A trainer that trains for a while to be looked at, and comes back to where it was: nothing of it is recorded. */
#include "train/trainer.h"

#include <stdlib.h>
#include <string.h>

#include "core/scope.h"

/* What a checkpoint does not hold: the last batch and its results, gradients, where points go, random streams. */
struct dl_away {
    dl_checkpoint *state;
    dl_trainer now;   /* the members that steps change; references of its own in batch, output, loss_tensor */
    dl_tensor **grad; /* [nparam], owned */
    unsigned long rng[DL_RNG_STATE];
    dl_journal *journal, *former;
    dl_run *active;
    int training; /* the mode of the net */
};

static void free_away(dl_trainer *t, dl_away *s) {
    for (long i = 0; s->grad && i < t->nparam; i++) dl_unref(s->grad[i]);
    free(s->grad);
    dl_checkpoint_free(s->state);
    free(s);
}

dl_away *dl_away_begin(dl_trainer *t) {
    dl_away *s = calloc(1, sizeof *s);
    if (!s || !(s->grad = calloc((size_t)t->nparam + 1, sizeof *s->grad))) {
        free(s);
        return dl_fail(DL_ERR_MEMORY, "no memory for gradients"), NULL;
    }
    if (!(s->state = dl_checkpoint_take(t))) return free_away(t, s), NULL;
    dl_rng_save(s->rng);
    s->training = dl_module_training(t->model);
    for (long i = 0; i < t->nparam; i++) s->grad[i] = dl_ref(t->param[i]->grad);
    s->now = *t;
    s->now.batch = dl_batch_ref(&t->batch);
    dl_ref(s->now.output);
    dl_ref(s->now.loss_tensor);
    s->active = dl_run_active();
    t->run = NULL, t->store = NULL, t->saving.path = NULL;
    memset(t->series, 0, sizeof t->series);
    s->journal = dl_journal_new();
    s->former = dl_journal_swap(s->journal);
    return s;
}

const dl_checkpoint *dl_away_state(const dl_away *s) { return s->state; }

dl_status dl_away_end(dl_trainer *t, dl_away *s) {
    dl_journal_swap(s->former);
    dl_journal_free(s->journal);
    const dl_trainer *was = &s->now;
    t->schedule = was->schedule, t->allow_nan = was->allow_nan;
    dl_status st = dl_checkpoint_put_back(t, s->state);
    t->run = was->run, t->store = was->store, t->saving = was->saving;
    t->epochs = was->epochs, t->epochs_at = was->epochs_at;
    memcpy(t->series, was->series, sizeof t->series);
    for (long i = 0; i < t->nparam; i++) dl_set_grad(t->param[i], s->grad[i]);
    dl_trainer_drop_batch(t);
    t->batch = was->batch, t->output = was->output, t->loss_tensor = was->loss_tensor;
    t->phase = was->phase, t->diverged = was->diverged, t->lone_output = was->lone_output;
    t->last_loss = was->last_loss, t->last_acc = was->last_acc, t->grad_norm = was->grad_norm;
    t->samples = was->samples, t->speed = was->speed;
    memcpy(t->error, was->error, sizeof t->error);
    dl_module_train(t->model, s->training);
    dl_rng_restore(s->rng);
    dl_run_activate(s->active);
    free_away(t, s);
    return st;
}
