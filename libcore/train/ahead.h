/* Training on an accelerator: steps are issued ahead of the device, whose reports are read later. */
#ifndef DL_TRAIN_AHEAD_H
#define DL_TRAIN_AHEAD_H

#include "core/device.h"
#include "data/data.h"
#include "optim/optimizer.h"
#include "train/trainer.h"

/* What the host notes of a step that it has issued: how things stand after it. */
typedef struct dl_mark {
    long epoch, batch;
    uint64_t rng;
    double lr, samples;
} dl_mark;

typedef struct dl_program dl_program; /* a captured step (train/capture.c) */

struct dl_ahead {
    const dl_backend *b;
    int index; /* of the device, for the backend */
    dl_tensor *block, *eval_block;
    dl_control *control, *eval_control; /* on the device, in these */
    dl_ring *ring;
    dl_pace pace;
    int groups;
    long launched, taken; /* steps issued; reports read */
    dl_mark mark[DL_RING];
    long time; /* of the last report; 0: none */
    bool scaled;
    bool quiet; /* a capture waits for the steps under way */
    /* how the control stands when all issued work is done */
    long from, at_epoch;
    uint64_t rng, step_rng; /* step_rng: of the dropout stream when the step began */
    /* batches */
    bool asked[2];       /* has a split been put there? */
    dl_resident data[2]; /* x NULL: no */
    dl_tensor *order;
    long order_epoch;
    dl_tensor *sent_x, *sent_y; /* the last batch that came from the host, as it came */
    bool resend;                /* the next batch is that one again */
    /* capture */
    dl_program *programs;
    char note[192];
    bool told, hindered; /* the note has been handed out; something keeps all steps from graphs */
};

/* ---- train/ahead.c */
/* Makes t->ahead when the trainer's device is an accelerator. */
dl_status dl_ahead_new(dl_trainer *t);
void dl_ahead_free(dl_trainer *t);
/* The parts of a step, each of which waits for its figures. */
dl_status dl_ahead_forward(dl_trainer *t);
dl_status dl_ahead_backward(dl_trainer *t);
dl_status dl_ahead_update(dl_trainer *t);
/* A whole step, issued. */
dl_status dl_ahead_step(dl_trainer *t);
/* Issues a step op by op. */
dl_status dl_ahead_issue(dl_trainer *t);
/* Takes one report into the trainer, the oldest one: *got. wait: until it is there. Fails where the step diverged;
 * steps issued after it are then undone. */
dl_status dl_ahead_take(dl_trainer *t, bool wait, bool *got);
/* Takes all of them. */
dl_status dl_ahead_drain(dl_trainer *t);
/* Sums over a split into *sums. */
dl_status dl_ahead_eval(dl_trainer *t, dl_loader *l, dl_control *sums);
/* The control anew, from the optimizer's counts: after a checkpoint has been loaded. */
dl_status dl_ahead_reset(dl_trainer *t);

/* ---- for train/capture.c */
/* Epoch and number of the next batch, and its samples. */
long dl_ahead_next(const dl_loader *l, long *epoch, long *at);
/* The rates of the next step into its slip. */
dl_status dl_ahead_slip(dl_trainer *t);
/* The next batch from the host into x and y, which are on the device. */
dl_status dl_ahead_send(dl_trainer *t, dl_tensor *x, dl_tensor *y);
/* Notes a step that has been issued. */
void dl_ahead_note(dl_trainer *t, double samples);

/* ---- train/capture.c */
/* Runs the next step from a graph, if it can be: *done. */
dl_status dl_capture_step(dl_trainer *t, bool *done);
void dl_capture_free(dl_trainer *t);

#endif
