/* The parts of a distribution, for the files of this room. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "commands/chance/bijector.h"
#include "commands/chance/distribution.h"
#include "lang/eval/interp.h"

enum { MAX_PARAMS = 3 };
typedef enum limit { ANY, POSITIVE, SHARES } limit;

/* A parameter, as it is given by position, and under another name, as the ops take it: `convert` leads there. */
typedef struct param {
    const char *name;
    limit limit;
    const char *kept;
    dl_tensor *(*convert)(dl_tensor *);
    const char *also; /* a third way, which `from` leads from */
    dl_tensor *(*from)(dl_tensor *);
} param;

typedef struct kind {
    const char *name, *doc;
    int nparams;
    param params[MAX_PARAMS];
    int differentiable; /* draws are functions of the parameters and of noise */
    enum { NUMBERS, INDICES, VECTORS, MATRICES } values;
    int more;          /* how many numbers a vector has more than the parameters */
    const char *ops;   /* whose ops it has, NULL: its own; then a draw has the gradient of the shares of the classes */
    const char *whole; /* a parameter that is a whole number, before the others: an attribute of the draw */
    /* What is made of other distributions has no parameters. */
    enum { PLAIN, MIXTURE, INDEPENDENT, TRANSFORMED } form;
} kind;

typedef struct distribution {
    const kind *is;
    dl_tensor *param[MAX_PARAMS];
    long whole;         /* of an independent one: the dimensions that count as one value */
    dlsh_value part[2]; /* of a mixture: a categorical distribution, and the components; else the base, and a list of
                           transforms */
} distribution;

/* The name that the ops begin with. */
static inline const char *ops_of(const kind *is) { return is->ops ? is->ops : is->name; }

static inline int is_mixture(const distribution *d) { return d->is->form == MIXTURE; }
static inline distribution *part_of(const distribution *d, int i) { return d->part[i].as.handle->self; }

/* The distribution that says what values there are. */
static inline const distribution *plain_of(const distribution *d) {
    while (d->is->form) d = part_of(d, is_mixture(d));
    return d;
}

/* The dimensions of one value. */
static inline int event_of(const distribution *d) {
    int own = d->is->form == INDEPENDENT ? (int)d->whole : 0;
    if (d->is->form == TRANSFORMED) {
        const dlsh_list *by = d->part[1].as.list;
        const int more = event_of(part_of(d, 0)) - dlsh_bijectors_event(by, 0);
        return dlsh_bijectors_event(by, 1) + (more > 0 ? more : 0);
    }
    if (d->is->form) return own + event_of(part_of(d, is_mixture(d)));
    return d->is->values == VECTORS ? 1 : d->is->values == MATRICES ? 2 : 0;
}

/* Of a transformed one: how many dimensions of the base's batch the bijectors take for one value, too. */
static inline int taken_of(const distribution *d) {
    const int more = dlsh_bijectors_event(d->part[1].as.list, 0) - event_of(part_of(d, 0));
    return more > 0 ? more : 0;
}

/* A distribution of the same kind, without parameters and parts; NULL: failed. */
distribution *dlsh_distribution_new(const kind *is);
/* Takes d; VOID: failed. */
dlsh_value dlsh_distribution_value(distribution *d);
/* The result of the op that is called KIND_WHAT. */
dl_status dlsh_distribution_call(const kind *is, const char *what, dl_tensor **in, int n, const char *attrs,
                                 dlsh_value *result);
/* The sum over the last n dimensions, a new reference. */
dl_tensor *dlsh_sum_of_last(dl_tensor *t, int n);

/* ---- batch.c: how many distributions d is, and more of them */

dl_status dlsh_distribution_shapes(const distribution *d, dlsh_value *batch, dlsh_value *event);
/* d with batches of these sizes. */
dl_status dlsh_distribution_expand(const distribution *d, const long *sizes, int n, dlsh_value *result);

/* All values that d has, along a first dimension; with `expand` for each of the batch. */
dl_status dlsh_distribution_support(const distribution *d, int expand, dlsh_value *result);

/* ---- divergence.c */

dl_status dlsh_distribution_kl(const distribution *p, const distribution *q, dlsh_value *result);
