/* Checkpoints that a training writes as it goes on: at ends of epochs or every so many steps, and when it ends. */
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "io/format.h"
#include "track/store.h"

static const char place[] = "{step}";

dl_status dl_saving_take(dl_trainer *t, const dl_trainer_spec *s) {
    if (!s->checkpoint) {
        if (s->checkpoint_every || s->checkpoint_steps)
            return dl_fail_hint(DL_ERR_VALUE, "checkpoint=\"t.safetensors\"",
                                "checkpoint_every and checkpoint_steps need the name of a file");
        return DL_OK;
    }
    dl_format f;
    DL_TRY(dl_format_to_write(s->checkpoint, DL_HOLDS_TRAINER, &f));
    if (s->checkpoint_every < 0 || s->checkpoint_steps < 0)
        return dl_fail(DL_ERR_VALUE, "epochs and steps between two checkpoints are 1 or more, not %ld",
                       s->checkpoint_every < 0 ? s->checkpoint_every : s->checkpoint_steps);
    if (s->checkpoint_every && s->checkpoint_steps)
        return dl_fail(DL_ERR_VALUE, "checkpoints are written every %ld epochs or every %ld steps, not both",
                       s->checkpoint_every, s->checkpoint_steps);
    t->saving.steps = s->checkpoint_steps;
    t->saving.epochs = s->checkpoint_steps ? 0 : s->checkpoint_every ? s->checkpoint_every : 1;
    t->saving.at = -1;
    t->saving.path = strdup(s->checkpoint);
    return t->saving.path ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for a trainer");
}

void dl_saving_free(dl_trainer *t) { free(t->saving.path); }

bool dl_saving_is_due(const dl_trainer *t, long step, bool epoch_end) {
    long epoch, batch;
    if (!t->saving.path) return false;
    if (t->saving.steps) return step % t->saving.steps == 0;
    dl_loader_position(t->loader, &epoch, &batch);
    return epoch_end && (epoch + 1) % t->saving.epochs == 0;
}

/* A disk that is full must not stop the training: the store tells of it, once until a checkpoint is written again. */
static dl_status failed(dl_trainer *t, const char *path) {
    if (!t->store) return dl_failed();
    if (!t->saving.failed)
        dl_store_warn(t->store, "the checkpoint %.200s is not written, the training goes on: %.300s", path,
                      dl_errmsg());
    t->saving.failed = true;
    dl_error_clear();
    return DL_OK;
}

dl_status dl_saving_save(dl_trainer *t) {
    if (!t->saving.path || t->saving.at == t->step) return DL_OK;
    DL_SCOPED_INTERRUPT_HOLD(1);
    const char *at = strstr(t->saving.path, place);
    const size_t size = strlen(t->saving.path) + 24;
    char *path = malloc(size);
    if (!path) return dl_fail(DL_ERR_MEMORY, "no memory for the name of a checkpoint");
    if (at)
        snprintf(path, size, "%.*s%ld%s", (int)(at - t->saving.path), t->saving.path, t->step, at + sizeof place - 1);
    else
        snprintf(path, size, "%s", t->saving.path);
    dl_status st = dl_trainer_save(t, path);
    if (st == DL_OK)
        t->saving.at = t->step, t->saving.failed = false;
    else
        st = failed(t, path);
    free(path);
    return st;
}
