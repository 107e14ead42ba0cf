/* The inside of optimizers and schedules: what the trainer and checkpoints read and restore. */
#pragma once

#include "nn/options.h"
#include "optim/steps.h"

/* One parameter and its state. */
typedef struct dl_opt_param {
    char *name;
    dl_tensor *p;
    int group; /* -1: the optimizer's own options */
    long steps;
    dl_tensor *state[DL_OPTIM_STATES]; /* NULL until first used */
} dl_opt_param;

typedef struct dl_opt_group {
    char *pattern; /* of names; "": none, it was begun and ended */
    dl_optval val[DL_OPT_MAX];
} dl_opt_group;

/* What the control block of a trainer holds for the optimizer's own options, or for a group, in place of the
 * optimizer's numbers: the rate and the halt, f64 [2], and the number of the step. */
typedef struct dl_group_rates {
    dl_tensor *rates, *step;
    long steps; /* done, as far as the host has issued them */
} dl_group_rates;

typedef struct dl_opt_row dl_opt_row;
typedef struct dl_opt_algorithm dl_opt_algorithm;
struct dl_optimizer {
    int refs;
    const dl_opt_row *row;
    dl_optval val[DL_OPT_MAX];
    double base_lr, lr; /* as made; as set since */
    dl_opt_group *group;
    int ngroup, current; /* current: the number of the group that parameters are added to; 0: by pattern */
    dl_opt_param *param;
    long n, cap, steps;
    dl_tensor *lr_tensor, *step_tensor;
    int trainers;                /* that have it, and set its rate */
    unsigned edits;              /* how often options were changed after it was made */
    const dl_group_rates *rates; /* [1 + ngroup] while a trainer steps; else NULL */
    void *algorithm;             /* what the row's algorithm keeps */
    char *text;
    dl_source src;                   /* the statement that made it */
    struct dl_hook *before, *behind; /* of its steps */
};

/* Limits of an option, or of each number of a list: at least low and, if that is finite, below another. */
typedef struct dl_opt_range {
    const char *name; /* NULL ends a list */
    double low, below;
} dl_opt_range;

/* A row of optimizers.def. v: options as numbers, the rate aside, in the order of the row; of a list each number. */
struct dl_opt_row {
    dl_kind_row kind;
    const int *op;                          /* dl_id_NAME_step; NULL: the row is an algorithm's */
    const dl_opt_algorithm *algorithm;      /* or NULL */
    int own;                                /* states that are always there; others depend on the options */
    const char *state[DL_OPTIM_STATES + 1]; /* names, ending in NULL */
    const dl_opt_range *limits;
    unsigned (*wants)(const double *v);                     /* bits: those that the options ask for */
    dl_status (*refuse)(const char *what, const double *v); /* options that do not go together */
};
extern const dl_opt_row dl_opt_rows[];
extern const int dl_opt_nrows;

dl_status dl_opt_check(const dl_opt_row *row, const dl_optval *val);
void dl_opt_values(const dl_opt_row *row, const dl_optval *val, double v[DL_MAX_ATTR]);
/* The opposite. */
void dl_opt_take_values(const dl_opt_row *row, const double *v, dl_optval *val);
/* The attributes of a call of the row's op. */
void dl_opt_attrs(const dl_opt_row *row, const double *v, bool first, dl_aval *attr);

/* Groups (optim/groups.c); -1: the optimizer's own options. */
int dl_optimizer_group_for(const dl_optimizer *o, const char *name);
dl_status dl_optimizer_check_groups(const dl_optimizer *o);
const dl_optval *dl_optimizer_options(const dl_optimizer *o, int group);
/* All options as numbers, f64 [groups, values], of which the first is the rate. */
dl_tensor *dl_optimizer_groups_tensor(const dl_optimizer *o);
dl_status dl_optimizer_check_groups_tensor(const dl_optimizer *o, const dl_tensor *t);
void dl_optimizer_restore_groups(dl_optimizer *o, const dl_tensor *t);
/* The rate of a group when the optimizer's is `lr`. */
double dl_optimizer_rate(const dl_optimizer *o, int group, double lr);
/* Adds a parameter of a net; also a frozen one, which needs no gradient until it is thawed. */
dl_status dl_optimizer_register(dl_optimizer *o, const char *name, dl_tensor *param);
bool dl_optimizer_has(const dl_optimizer *o, const dl_tensor *param);
/* The name of a state tensor, "exp_avg.conv0.weight", into out. */
void dl_optimizer_state_name(const dl_optimizer *o, long param, int state, char *out, size_t size);
/* Refuses an optimizer that has to evaluate the loss itself. */
dl_status dl_optimizer_check_single(const dl_optimizer *o);
/* Of an optimizer whose states are factors (FACTORED): the shape of a state of the parameter p, as large as p's or
 * smaller; of others p's. Whether each parameter that made steps has the state. */
int dl_optimizer_state_shape(const dl_optimizer *o, const dl_tensor *p, int state, long *shape);
bool dl_optimizer_state_needed(const dl_optimizer *o, int state);
/* Restores a state tensor (a reference is taken). */
dl_status dl_optimizer_restore(dl_optimizer *o, long param, int state, dl_tensor *t);
dl_status dl_optimizer_check_restore(const dl_optimizer *o, long param, int state, const dl_tensor *t);
dl_status dl_optimizer_check_lr(double lr); /* DL_ERR_VALUE */
/* As dl_optimizer_set_lr, also where a trainer has it. */
dl_status dl_optimizer_put_lr(dl_optimizer *o, double lr);
