/* The inside of trainers. A step is issued on the trainer's device, which keeps sums and the halt in a control block
 * (core/device/control.h). The host reads the report of a step when it is there: at once on the CPU, up to DL_LATE
 * steps later on an asynchronous device. */
#ifndef DL_TRAIN_TRAINER_H
#define DL_TRAIN_TRAINER_H

#include <jansson.h>

#include "core/op.h"
#include "core/device/device.h"
#include "data/data.h"
#include "optim/optimizer.h"

/* Where a trainer stands within a step. */
typedef enum dl_phase { DL_PHASE_IDLE, DL_PHASE_FORWARD, DL_PHASE_BACKWARD } dl_phase;

/* Metrics recorded at every step; the names are in train/record.c. */
enum { DL_M_LOSS, DL_M_ACC, DL_M_LR, DL_M_NORM, DL_M_SPEED, DL_NMETRIC };

enum { DL_SPLITS = DL_VAL + 1 };

enum { DL_CAPTURE_STATE = 192 }; /* room for the text of dl_trainer_capture */

/* Where a step begins. */
typedef struct dl_step_start {
    long epoch, batch;
    dl_rng_at rng;
} dl_step_start;

/* The state of the host after a step that it has issued. */
typedef struct dl_issued {
    long epoch, batch;
    dl_rng_at rng;
    double lr, samples;
    bool failed; /* the optimizer failed: the step does not count */
    dl_step_start start;
} dl_issued;

typedef struct dl_checkpoint dl_checkpoint; /* a state in memory (train/checkpoint.c) */
typedef struct dl_past dl_past;             /* earlier states (train/rewind.c) */
typedef struct dl_step_mark dl_step_mark;   /* before a step that is made in parts (train/mark.c) */
typedef struct dl_breaks dl_breaks;         /* breakpoints (train/breaks.c) */
typedef struct dl_step_graph dl_step_graph; /* a captured step (train/replay.c) */

/* One metric of evaluations. */
typedef struct dl_chosen_metric {
    const dl_op *op;
    char attrs[160];               /* " average=micro" */
    char name[96 + DL_FIELD_NAME]; /* in records and in the history */
    int target;                    /* the number of the target that it is of */
    char output[DL_FIELD_NAME];    /* name or number of the output, where there is one target; "": the only one */
    int figures;                   /* 1, or one for each class */
} dl_chosen_metric;

/* A figure of evaluations that is watched during training (train/watch.c). */
typedef struct dl_watch {
    bool on;
    char metric[192], text[256]; /* "val/loss"; the option in full */
    dl_split split;
    int figure, direction; /* 0 the loss, 1 the accuracy, 2... the figures of metrics; 1 more is better, -1 less */
    long patience;
    double min_delta;
    double best;         /* NaN: none yet */
    long best_step, bad; /* evaluations since then */
} dl_watch;

/* Checkpoints on the way (train/saving.c). */
typedef struct dl_saving {
    char *path;         /* NULL: none */
    long epochs, steps; /* between two; one is 0 */
    long at;            /* the step of the last one */
    bool failed;        /* the last one was not written */
} dl_saving;

struct dl_trainer {
    dl_module *model;
    dl_dataset *given, *data, *held; /* as the caller gave it; less what is held out; that, as a test split, or NULL */
    dl_optimizer *opt;
    dl_schedule *schedule;
    dl_loader *loader, *eval_loader[DL_SPLITS];
    dl_loader_spec loader_spec;
    unsigned long data_seed;
    char *transforms;

    const dl_op *loss_op; /* NULL: loss_fn */
    dl_loss_fn *loss_fn;
    dl_key_fn *loss_key;
    void *loss_ctx;
    void (*loss_release)(void *);
    char *loss_name;
    bool classes;      /* targets are numbers of classes: right answers are counted */
    bool lone_output;  /* the net's last result is one tensor: scores are looked for in it */
    bool classes_last; /* scores [n, ..., classes] rather than [n, classes, ...] */

    dl_chosen_metric metric[DL_EVAL_METRICS]; /* of evaluations */
    int nmetrics;
    char **figure_name; /* of all metrics, and their values */
    double *figure;
    int nfigures;
    double val;
    dl_watch stop, keep;
    dl_saving saving;
    char stopped[320];          /* why training was stopped early; "" */
    dl_tensor **best, **latest; /* kept weights; those of the last step while the net has the best. NULL: none */
    uint64_t best_writes;       /* to the tensors of the net, when it got the best */
    long accumulate, eval_every;
    double clip_norm, clip_value, ema_decay, base_lr;
    bool allow_nan;
    int device;

    dl_tensor **param; /* of the net, borrowed; ema[i] goes with param[i] */
    dl_tensor **grad;  /* list of their gradients, filled in each step */
    dl_module_list *params;
    dl_tensor **ema;
    long nparam;
    dl_module_list *state; /* parameters and buffers, as they were when the trainer was made */
    bool built;            /* all layers had their weights then */
    unsigned long changes; /* dl_module_changes when they were last compared with the net's */

    /* the control block (train/step.c) */
    const dl_backend *backend;
    int index; /* of the device, for the backend */
    dl_tensor *block, *eval_block;
    dl_control *control, *eval_control; /* on the device, in these */
    const dl_control *seen;             /* the control, where the host can read it; else NULL */
    dl_group_rates *rates;              /* [groups] */
    int groups;
    unsigned edits;                     /* of the optimizer, when the trainer was made */
    bool scaled;                        /* the control scales the loss, as under f16 */
    double loss_scale, loss_scale_good; /* as of the last checkpoint or change of precision; 0: none yet */
    /* how the control stands when all issued work is done */
    long control_epoch, control_from;
    dl_rng_at control_rng, step_rng,
        net_rng; /* step_rng: when the step began; net_rng: when its last batch was there */

    /* steps under way (train/reports.c) */
    dl_report *report;  /* [DL_REPORTS], which the device writes */
    double *rate;       /* [DL_REPORTS][groups], which it reads */
    long issued, taken; /* steps issued; reports read */
    dl_issued after[DL_REPORTS];
    dl_look *look[DL_REPORTS]; /* NULL: the size of that step's update is not recorded */
    bool updates_off;          /* it cannot be */
    dl_step_start start;       /* of the step that is being issued */
    long report_time;          /* of the last report; 0: none */
    double epochs;             /* done after the last step that was read, */
    long epochs_at;            /* and the step at which they were recorded last; 0: none of this run */

    /* batches (train/batch.c) */
    bool resident_asked[DL_SPLITS];  /* has it been decided whether a split is on the device? */
    dl_resident resident[DL_SPLITS]; /* x NULL: no */
    dl_tensor *order;                /* of the epoch, on the device */
    long order_epoch;
    dl_batch sent; /* the last batch that came from the host, as it came */
    bool resend;   /* the next batch is that one again */

    /* graphs (train/replay.c) */
    dl_step_graph *graphs;
    char capture_state[DL_CAPTURE_STATE]; /* why steps run op by op, or that they are captured */
    bool state_shown, no_graphs;          /* the state has been returned to the caller; no step can be captured */
    bool drain_first;                     /* a capture waits for the steps under way */
    bool same_rate;                       /* the next step has the rate of the last: it is that one again */

    dl_past *past;
    dl_step_mark *mark; /* before a step that is made in parts; NULL: none is under way */

    /* breakpoints (train/breaks.c) */
    dl_breaks *breaks;    /* NULL: there never were any */
    bool breaking;        /* the step that is being issued has them */
    unsigned broke;       /* those that stopped the last training, as bits */
    char broke_text[320]; /* what it says */

    dl_phase phase;
    long micro, micros;               /* batches of the step so far, and how many it has */
    dl_batch_form form;               /* of batches */
    int place[DL_NET_INPUTS], places; /* which input of the net each of a batch is, and how many it is given */
    dl_batch batch;                   /* the last one */
    dl_tensor *output, *loss_tensor;
    double grad_norm, lr, last_loss, last_acc, test_loss, test_acc, next_lr, samples; /* next_lr: of the step issued */
    double val_loss, val_acc;
    long step, epoch;
    double step_began, speed;
    bool diverged;
    bool traced; /* the leaves that the loss depends on have been checked */
    char error[512];

    dl_store *store;
    dl_run *run;
    dl_run_spec run_spec; /* strings owned */
    dl_series *series[DL_NMETRIC];
};

/* ---- train/trainer.c */
double dl_now(void); /* seconds of the clock of activity: of a monotonic one, without idle time */
/* Holds samples out for seed t->data_seed, if that is wanted, and makes the loader of the training split. */
dl_status dl_trainer_make_data(dl_trainer *t);
void dl_trainer_drop_batch(dl_trainer *t);
/* Exchanges weights and averaged weights; nothing without averages. */
void dl_trainer_swap_ema(dl_trainer *t);

/* ---- train/metrics.c */
/* The output of each batch of a split and its target, for one metric; when the list is full it becomes one tensor. */
enum { DL_COLLECTED = 64 };
typedef struct dl_collected {
    dl_tensor *out[DL_COLLECTED], *truth[DL_COLLECTED];
    int n;
} dl_collected;
/* Reads the texts of metrics. DL_ERR_NAME: there is no such metric or target. */
dl_status dl_metrics_take(dl_trainer *t, const char *const *texts);
void dl_metrics_free(dl_trainer *t);
/* Adds a batch to those of each metric. */
dl_status dl_metrics_keep(const dl_trainer *t, dl_collected *all, const dl_pack *result, const dl_batch *b);
void dl_metrics_drop(dl_collected (*all)[DL_EVAL_METRICS]);
dl_status dl_metrics_compute(const dl_trainer *t, dl_collected *all, dl_eval_result *r);

/* ---- train/control.c */
/* Makes the control block and the memory for reports. */
dl_status dl_control_new(dl_trainer *t);
void dl_control_free(dl_trainer *t);
/* Writes the whole control from the optimizer's counts, after a checkpoint has been loaded. */
dl_status dl_control_reset(dl_trainer *t);
/* Sets the control to the beginning of the next step: position, order of the epoch, dropout calls, step numbers. */
dl_status dl_control_align(dl_trainer *t);
/* Sets its positions of the random streams alone. */
dl_status dl_control_align_rng(dl_trainer *t);
/* Writes bytes of the control, after all work issued. */
dl_status dl_control_write(dl_trainer *t, void *field, const void *value, size_t bytes);
/* Reads the control, after all work issued. */
dl_status dl_control_read(dl_trainer *t, const dl_control *from, dl_control *to);
/* Ends a halt. */
dl_status dl_control_resume(dl_trainer *t);
/* Loss scale and good steps, for checkpoints. */
dl_status dl_control_scale(dl_trainer *t, double state[2]);

/* ---- train/batch.c */
/* Batches that the next step takes: fewer at the end of an epoch. */
long dl_trainer_micros(const dl_trainer *t);
/* Epoch and number of the next batch, and its samples. */
long dl_batch_next(const dl_loader *l, long *epoch, long *at);
/* Sets the control to the next batch of the training split, if the device makes batches. */
dl_status dl_batch_align(dl_trainer *t);
/* The next batch of the training split in the dtype of the net and on its device: t->batch. */
dl_status dl_batch_fetch(dl_trainer *t);
/* The next batch of a loader for evaluation. b->x[0] NULL: the end. */
dl_status dl_batch_fetch_eval(dl_trainer *t, dl_loader *l, dl_batch *b);
/* The next batch of the training split from the host into the tensors of b, which are on the device. */
dl_status dl_batch_send(dl_trainer *t, dl_batch *b);
/* The place of what a loader reads on the device. */
dl_split dl_batch_split(const dl_trainer *t, const dl_loader *l);
/* Puts a split on the device if the device makes batches and the split fits: t->resident. */
dl_status dl_batch_make_resident(dl_trainer *t, dl_split split);

/* ---- train/step.c */
dl_pack *dl_step_run_net(dl_trainer *t, const dl_batch *b); /* what the net makes of a batch */
/* Do the targets of this loss stay numbers of classes? */
bool dl_loss_takes_labels(const dl_op *op);
/* The output of one number above which it stands for class 1; loss NULL: that of a function. */
double dl_loss_threshold(const dl_op *loss);
dl_status dl_trainer_loss_of(dl_trainer *t, const dl_pack *result, const dl_batch *b, dl_tensor **loss);
/* Adds a batch to the sums of a control. */
dl_status dl_step_accumulate(dl_trainer *t, dl_control *c, dl_tensor *loss, dl_tensor *output, dl_tensor *target,
                             const dl_batch_rule *rule);
/* A whole step, issued: from a graph, or op by op. */
dl_status dl_step_issue(dl_trainer *t);
/* Of optimizers that evaluate the loss themselves (train/closure.c): is it one, are the options for it, and its update
 * once the gradients of the batch are there. */
bool dl_closure_needed(const dl_trainer *t);
dl_status dl_closure_check(const dl_trainer_spec *s);
dl_status dl_closure_step(dl_trainer *t);
dl_status dl_step_issue_eagerly(dl_trainer *t);
/* The rates of the next step, for the control. */
dl_status dl_step_set_rates(dl_trainer *t);
/* Runs a step of a device that diverged again up to its gradients, before the control resumes, to find the op that made
 * NaN; the trainer is as before. */
void dl_step_explain(dl_trainer *t, const dl_step_start *start);
/* The same for any step: gradients, output and loss become those of it. */
void dl_step_again(dl_trainer *t, const dl_step_start *start);
/* Counts a step that has been issued. */
void dl_step_count(dl_trainer *t, double samples);

/* ---- train/rewind.c */
/* Keeps the state before a step, where it is time to. True: it would, but steps are under way; they are to be waited
 * for.
 */
bool dl_past_before_step(dl_trainer *t);
/* Notes how weights and rate stand, by which changes from outside are seen. */
void dl_past_after_step(dl_trainer *t);
/* The steps to come are made by train, or one by one. */
void dl_past_turn(dl_trainer *t, bool train);
/* Forgets the states that were kept. */
void dl_past_forget(dl_trainer *t);
/* For a trainer that is away (train/away.c): */
long dl_past_kept(const dl_trainer *t, long i); /* step of the state i that was kept, rising; -1: there are fewer */
/* Says that no state for the step was kept, and why; fails. */
dl_status dl_past_none(const dl_trainer *t, long step);
/* Can the state after a step be had again? */
bool dl_past_reaches(const dl_trainer *t, long step);
/* Goes to the state after a step, where possible by a step made again, so that gradients and figures are those of it;
 * adds the steps made. A state that was kept for that step is compared, as by replay. */
dl_status dl_past_visit(dl_trainer *t, long step, long *made);
/* Fails where the trainer's state is not that one bit for bit; random: the streams count, too. */
dl_status dl_past_compare(dl_trainer *t, const dl_checkpoint *state, bool random);
/* What is known of changes from outside, kept while the trainer is away. */
bool dl_past_touched(const dl_trainer *t);
void dl_past_home(dl_trainer *t, bool touched);
/* Which statement made the step; no file: not known. */
dl_source dl_past_source(const dl_trainer *t, long step);

bool dl_past_replaying(const dl_trainer *t); /* steps are made again */

/* ---- train/mark.c */
/* Notes how the trainer stands before the first part of a step. */
dl_status dl_mark_set(dl_trainer *t);
void dl_mark_drop(dl_trainer *t);
/* Is a step under way of which the update is missing? */
bool dl_mark_stands(const dl_trainer *t);
/* Takes it back: place in the data, random streams, buffers and figures are as before; gradients are none. */
dl_status dl_mark_return(dl_trainer *t);

/* ---- train/breaks.c */
void dl_breaks_free(dl_trainer *t);
bool dl_breaks_wanted(const dl_trainer *t);
/* Why no step can be captured; NULL. */
const char *dl_breaks_obstacle(const dl_trainer *t);
/* Mixes in what captured steps depend on. DL_ERR_UNSUPPORTED: they cannot be captured. */
dl_status dl_breaks_key(const dl_trainer *t, uint64_t *h);
/* Before a step is issued, and after; between them, behind its last backward pass. */
dl_status dl_breaks_begin(dl_trainer *t);
void dl_breaks_issued(dl_trainer *t);
dl_status dl_breaks_decide(dl_trainer *t);
/* What finish_step is to decide and to copy; forgotten behind it. */
void dl_breaks_finish(const dl_trainer *t, dl_finish_step *f);
void dl_breaks_forget(dl_trainer *t);
/* Buffers as they were before the step that is issued. */
dl_status dl_breaks_undo(dl_trainer *t);
/* Step `index` of those issued, which began there, was stopped by those; those after it have been taken back. */
dl_status dl_breaks_stop(dl_trainer *t, unsigned fired, long index, const dl_step_start *start);

/* ---- train/updates.c */
/* Before a step is issued: NULL where the size of its update is not recorded. Goes to dl_updates_after, with how the
 * issue ended. No failure in here ends a training. */
dl_look *dl_updates_before(dl_trainer *t);
void dl_updates_after(dl_trainer *t, dl_look *x, dl_status issued);
/* The report of the step that was issued as `number` (from 0) is there; good: it counts, and the figures are recorded.
 */
void dl_updates_take(dl_trainer *t, long number, bool good);
void dl_updates_drop(dl_trainer *t);
void dl_look_free(dl_look *x);

/* ---- train/reports.c */
/* Reads the oldest report, if there is one, into the trainer: *got. wait: waits for it. Fails where the step diverged;
 * steps issued after it are then undone. */
dl_status dl_report_take(dl_trainer *t, bool wait, bool *got);
/* Reads all of them. */
dl_status dl_report_drain(dl_trainer *t);
/* Fails, and marks the run as diverged, when v is not finite. */
dl_status dl_report_check(dl_trainer *t, double v, const char *what);

/* ---- train/checkpoint.c */
/* A checkpoint in memory, between steps. NULL: failed. Putting it back leaves run and store alone where they are NULL.
 */
dl_checkpoint *dl_checkpoint_take(dl_trainer *t);
dl_status dl_checkpoint_put_back(dl_trainer *t, const dl_checkpoint *c);
void dl_checkpoint_free(dl_checkpoint *c);
long dl_checkpoint_step(const dl_checkpoint *c);
size_t dl_checkpoint_bytes(const dl_checkpoint *c); /* of its tensors */
/* The first tensor of a that is not bit for bit that of b, or what else differs; NULL: nothing. Without `random` the
 * process's seed and random streams do not count. */
const char *dl_checkpoint_difference(const dl_checkpoint *a, const dl_checkpoint *b, bool random);
/* SHA-256 of its tensors and the rest, in hexadecimal. */
dl_status dl_checkpoint_hash(const dl_checkpoint *c, char out[65]);

/* ---- train/away.c */
/* Between these two the trainer may train and be put back to any state; no run, store or file hears of it. At the end
 * it is as it was, gradients, last batch and random streams included. Begins between steps, all work done, the net with
 * the weights of the last step. NULL: failed. */
typedef struct dl_away dl_away;
dl_away *dl_away_begin(dl_trainer *t);
const dl_checkpoint *dl_away_state(const dl_away *s);
dl_status dl_away_end(dl_trainer *t, dl_away *s);

/* ---- train/saving.c */
dl_status dl_saving_take(dl_trainer *t, const dl_trainer_spec *s);
void dl_saving_free(dl_trainer *t);
/* Is a checkpoint to be written after this step? epoch_end: it ended an epoch. */
bool dl_saving_is_due(const dl_trainer *t, long step, bool epoch_end);
/* Writes one, if they are wanted and there is none of this step. */
dl_status dl_saving_save(dl_trainer *t);

/* ---- train/watch.c */
/* Reads the texts of stop= and keep=. DL_ERR_NAME: there is no such figure. */
dl_status dl_watch_take(dl_trainer *t, const char *stop, const char *keep);
const char *dl_watch_prefix(dl_split split); /* "val/", of the names of figures */
/* An evaluation at the end of an epoch; t->stopped says whether it ends the training. */
dl_status dl_watch_see(dl_trainer *t, dl_split split, const dl_eval_result *r);
void dl_watch_begin(dl_trainer *t); /* training begins, or goes on */
/* The weights of the best evaluation: keeps the present ones; lets the net have them, if there are any; and those of
 * the last step again, to go on. */
dl_status dl_best_keep(dl_trainer *t);
dl_status dl_best_enter(dl_trainer *t);
dl_status dl_best_leave(dl_trainer *t);
bool dl_best_shows(const dl_trainer *t); /* has it the best now? */
void dl_best_drop(dl_trainer *t);
long dl_best_count(const dl_trainer *t); /* tensors, and their names in checkpoints */
void dl_best_name(const dl_trainer *t, long i, char *out, size_t size);

/* ---- train/replay.c */
/* Runs the next step from a graph, where that is possible: *done. */
dl_status dl_replay_step(dl_trainer *t, bool *done);
void dl_replay_free(dl_trainer *t);

/* ---- train/record.c */
dl_status dl_record_copy_spec(dl_trainer *t, const dl_run_spec *spec);
void dl_record_free_spec(dl_trainer *t);
/* Opens the run, if there is a store and none is open. */
dl_status dl_record_begin(dl_trainer *t);
dl_status dl_record_open_series(dl_trainer *t);
/* The step whose report was read, and the state that the host had after it. */
void dl_record_step(dl_trainer *t, const dl_issued *after);
/* A step whose loss or gradients are not finite; error says what. */
void dl_record_divergence(dl_trainer *t, const char *what);
void dl_record_stop(dl_trainer *t);
void dl_record_best(dl_trainer *t);
void dl_record_eval(dl_trainer *t, dl_split split, const dl_eval_result *r);
/* Keeps the message of a failed step for the run; an interrupt is not a failure. Returns st. */
dl_status dl_record_failure(dl_trainer *t, dl_status st);
dl_status dl_record_end(dl_trainer *t);

/* Are the tensors of the net those that the trainer was made for? DL_ERR_STATE: a layer was replaced (trainer.c). */
dl_status dl_trainer_check_net(dl_trainer *t);
/* Did a layer make weights since, which the trainer does not know? DL_ERR_STATE (trainer.c). */
dl_status dl_trainer_check_built(dl_trainer *t);

#endif
