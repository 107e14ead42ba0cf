/* The inside of optimizers and schedules: what the trainer and checkpoints read and restore. */
#ifndef DL_OPTIM_OPTIMIZER_H
#define DL_OPTIM_OPTIMIZER_H

#include "core/op.h"
#include "nn/options.h"

enum { DL_OPTIM_STATES = 3 };

/* One parameter and what is kept for it. */
typedef struct dl_opt_param {
    char *name;
    dl_tensor *p;
    int group; /* -1: the optimizer's own options */
    long steps;
    dl_tensor *state[DL_OPTIM_STATES]; /* NULL until first used */
} dl_opt_param;

typedef struct dl_opt_group {
    char *pattern;
    dl_optval val[DL_OPT_MAX];
} dl_opt_group;

/* What the control block of a trainer holds for the optimizer's own options, or for a group, in place of the
 * optimizer's numbers: the rate and the halt, f64 [2], and the number of the step. */
typedef struct dl_group_rates {
    dl_tensor *rates, *step;
    long steps; /* done, as far as the host has issued them */
} dl_group_rates;

typedef struct dl_opt_row dl_opt_row;
struct dl_optimizer {
    int refs;
    const dl_opt_row *row;
    dl_optval val[DL_OPT_MAX];
    double base_lr, lr; /* as made; as set since */
    dl_opt_group *group;
    int ngroup;
    dl_opt_param *param;
    long n, cap, steps;
    dl_tensor *lr_tensor, *step_tensor;
    const dl_group_rates *rates; /* [1 + ngroup] while a trainer steps; else NULL */
    char *text;
};

/* One run of the op over parameters that share options, dtype and age. */
typedef struct dl_opt_run {
    const dl_optval *val;
    dl_tensor **list; /* parameters, gradients, first states, second states, ... each n */
    int n, lists;
    bool first;
    dl_tensor *lr, *step;
} dl_opt_run;

struct dl_opt_row {
    dl_kind_row kind;
    const char *state[DL_OPTIM_STATES + 1];
    dl_status (*check)(const dl_kind_row *kind, const dl_optval *val);
    int (*states)(const dl_kind_row *kind, const dl_optval *val); /* how many of state[] the options need */
    dl_status (*step)(const dl_kind_row *kind, const dl_opt_run *run);
};

/* The rate of a group (-1: of the optimizer's own options) when the optimizer's is `lr`. */
double dl_optimizer_rate(const dl_optimizer *o, int group, double lr);
/* Takes a parameter of a net on, also one that is frozen (needs no gradient): it may be thawed later. */
dl_status dl_optimizer_take(dl_optimizer *o, const char *name, dl_tensor *param);
bool dl_optimizer_has(const dl_optimizer *o, const dl_tensor *param);
/* Name of a kept tensor, "exp_avg.conv0.weight", into out. */
void dl_optimizer_state_name(const dl_optimizer *o, long param, int state, char *out, size_t size);
/* Puts back a kept tensor (a reference is taken). */
dl_status dl_optimizer_restore(dl_optimizer *o, long param, int state, dl_tensor *t);

/* Numbers a schedule remembers (plateau), for checkpoints. */
enum { DL_SCHEDULE_STATE = 4 };
void dl_schedule_get_state(const dl_schedule *s, double state[DL_SCHEDULE_STATE]);
void dl_schedule_set_state(dl_schedule *s, const double state[DL_SCHEDULE_STATE]);

#endif
