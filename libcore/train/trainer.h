/* The inside of trainers. */
#ifndef DL_TRAIN_TRAINER_H
#define DL_TRAIN_TRAINER_H

#include <jansson.h>

#include "core/op.h"

/* Where a trainer stands within a step. */
typedef enum dl_phase { DL_PHASE_IDLE, DL_PHASE_FORWARD, DL_PHASE_BACKWARD } dl_phase;

/* Metrics recorded at every step; the names are in train/record.c. */
enum { DL_M_LOSS, DL_M_ACC, DL_M_LR, DL_M_NORM, DL_M_SPEED, DL_NMETRIC };

typedef struct dl_ahead dl_ahead;

struct dl_trainer {
    dl_module *model;
    dl_dataset *data;
    dl_optimizer *opt;
    dl_schedule *schedule;
    dl_loader *loader, *eval_loader[2];
    dl_loader_spec loader_spec;
    unsigned long data_seed;
    char *transforms;

    const dl_op *loss_op; /* NULL: loss_fn */
    dl_loss_fn *loss_fn;
    void *loss_ctx;
    void (*loss_release)(void *);
    char *loss_name;

    long accumulate, eval_every;
    double clip_norm, clip_value, ema_decay, base_lr;
    bool allow_nan;
    int device;

    dl_tensor **param; /* of the net, borrowed; ema[i] goes with param[i] */
    const char **param_name;
    dl_module_list *params;
    dl_tensor **ema;
    long nparam;

    dl_module_list *state;              /* parameters and buffers, as they were when the trainer was made */
    dl_ahead *ahead;                    /* on an accelerator: train/ahead.h */
    double loss_scale, loss_scale_good; /* under f16; on an accelerator as of the last checkpoint; 0: none yet */

    dl_phase phase;
    long micro, micros; /* batches of the step so far, and how many it has */
    dl_tensor *x, *y, *output, *loss_tensor;
    double loss_sum, correct, counted, grad_norm, lr, last_loss, last_acc, test_loss, test_acc, next_lr,
        samples; /* of the step being issued; of the last step */
    long step, epoch;
    double step_began, speed;
    bool diverged;
    char error[512];

    dl_store *store;
    dl_run *run;
    dl_run_spec run_spec; /* strings owned */
    dl_series *series[DL_NMETRIC];
};

/* ---- train/trainer.c */
double dl_now(void); /* seconds of the clock of activity: of a monotonic one, without idle time */
dl_status dl_trainer_loss_of(dl_trainer *t, dl_tensor *output, dl_tensor *target, dl_tensor **loss);
/* Correct answers among the targets; *of 0 where there are no classes. */
dl_status dl_trainer_correct(dl_trainer *t, dl_tensor *output, dl_tensor *target, double *correct, double *of);
/* A batch where the net wants it. Takes nothing, replaces *x and *y. */
dl_status dl_trainer_place(dl_trainer *t, dl_tensor **x, dl_tensor **y);
/* Makes the loader of the training split for seed t->data_seed. */
dl_status dl_trainer_make_loader(dl_trainer *t);
void dl_trainer_drop_batch(dl_trainer *t);
/* Counts and gradients of a step that begins. */
void dl_trainer_begin_step(dl_trainer *t);
/* Output and loss of t->x and t->y. */
dl_status dl_trainer_run_net(dl_trainer *t);
/* Fails, and marks the run as diverged, when v is not finite. */
dl_status dl_trainer_check_finite(dl_trainer *t, double v, const char *what);
/* Exchanges weights and averaged weights; nothing without averages. */
void dl_trainer_swap_ema(dl_trainer *t);
/* Batches that the next step takes: fewer at the end of an epoch. */
long dl_trainer_micros(const dl_trainer *t);

/* ---- train/scaler.c */
bool dl_scaler_on(const dl_trainer *t);
/* What the loss is multiplied by; 1 when scaling is off. */
double dl_scaler_scale(dl_trainer *t);
/* Divides the gradients of a scaled loss. *skip: they have overflowed, and the step is to be left out. */
dl_status dl_scaler_unscale(dl_trainer *t, bool *skip);
/* Scale and good steps, for checkpoints. */
dl_status dl_scaler_read(dl_trainer *t, double state[2]);

/* ---- train/record.c */
dl_status dl_record_copy_spec(dl_trainer *t, const dl_run_spec *spec);
void dl_record_free_spec(dl_trainer *t);
/* Opens the run, if there is a store and none is open. */
dl_status dl_record_begin(dl_trainer *t);
dl_status dl_record_open_series(dl_trainer *t);
void dl_record_step(dl_trainer *t);
void dl_record_eval(dl_trainer *t, dl_split split, const dl_eval_result *r);
/* Notes a failed step; an interruption is none. Returns st. */
dl_status dl_record_failure(dl_trainer *t, dl_status st);
dl_status dl_record_end(dl_trainer *t);

#endif
