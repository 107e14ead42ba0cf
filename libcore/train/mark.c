/* How a trainer stood before a step that is made in parts, by which the parts are taken back before the update. */
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>

#include "core/scope.h"
#include "dlcore/copy.h"

typedef struct kept_buffer {
    dl_tensor *of, *copy;
} kept_buffer;

struct dl_step_mark {
    long step;
    unsigned long seed, writes; /* writes: to parameters */
    double base_lr, last_loss, last_acc;
    unsigned broke;
    bool training; /* the mode of the net */
    bool touched;  /* something had been changed since the last step */
    kept_buffer *buffer;
    long nbuffers;
};

void dl_mark_drop(dl_trainer *t) {
    dl_step_mark *m = t->mark;
    t->mark = NULL;
    if (!m) return;
    for (long i = 0; i < m->nbuffers; i++) {
        dl_unref(m->buffer[i].of);
        dl_unref(m->buffer[i].copy);
    }
    free(m->buffer);
    free(m);
}

static unsigned long writes_of(const dl_trainer *t) {
    unsigned long sum = 0;
    for (long i = 0; i < t->nparam; i++) sum += (unsigned long)t->param[i]->st->version;
    return sum;
}

static dl_status copy_buffers(const dl_trainer *t, dl_step_mark *m) {
    const dl_module_list *all = t->state;
    DL_SCOPED_GRAD_MODE(0);
    if (!(m->buffer = calloc((size_t)all->n + 1, sizeof *m->buffer)))
        return dl_fail(DL_ERR_MEMORY, "no memory for a step");
    for (long i = 0; i < all->n; i++) {
        dl_tensor *x = all->entries[i].tensor, *copy = all->entries[i].buffer ? dl_clone(x) : NULL;
        if (!all->entries[i].buffer) continue;
        if (!copy) return dl_failed();
        m->buffer[m->nbuffers++] = (kept_buffer){dl_ref(x), copy};
    }
    return DL_OK;
}

dl_status dl_mark_set(dl_trainer *t) {
    dl_mark_drop(t);
    dl_step_mark *m = t->mark = calloc(1, sizeof *m);
    if (!m) return dl_fail(DL_ERR_MEMORY, "no memory for a step");
    m->step = t->step, m->broke = t->broke;
    m->seed = dl_seed_get(), m->writes = writes_of(t);
    m->base_lr = t->base_lr, m->last_loss = t->last_loss, m->last_acc = t->last_acc;
    m->training = dl_module_training(t->model);
    m->touched = dl_past_touched(t);
    dl_status st = copy_buffers(t, m);
    if (st != DL_OK) dl_mark_drop(t);
    return st;
}

/* Was more changed since than a forward and a backward pass do? */
static bool changed(const dl_trainer *t, const dl_step_mark *m) {
    return m->touched || m->writes != writes_of(t) || m->seed != dl_seed_get() || fabs(m->base_lr - t->base_lr) > 0;
}

/* Random streams of another seed are left alone. */
static dl_status go_back(dl_trainer *t, const dl_step_mark *m) {
    const bool touched = changed(t, m);
    DL_SCOPED_GRAD_MODE(0);
    for (long i = 0; i < m->nbuffers; i++) DL_TRY(dl_assign(m->buffer[i].of, m->buffer[i].copy));
    for (long i = 0; i < t->nparam; i++) dl_set_grad(t->param[i], NULL);
    dl_trainer_drop_batch(t);
    t->phase = DL_PHASE_IDLE, t->micro = 0;
    t->epoch = t->start.epoch, t->broke = m->broke;
    t->last_loss = m->last_loss, t->last_acc = m->last_acc;
    dl_module_train(t->model, m->training);
    if (m->seed == dl_seed_get()) dl_rng_go(&t->start.rng);
    DL_TRY(dl_loader_seek(t->loader, t->start.epoch, t->start.batch));
    DL_TRY(dl_control_align(t));
    dl_past_home(t, touched);
    return DL_OK;
}

bool dl_mark_stands(const dl_trainer *t) { return t->mark && t->mark->step == t->step; }

dl_status dl_mark_return(dl_trainer *t) {
    dl_status st = go_back(t, t->mark);
    dl_mark_drop(t);
    return st;
}
