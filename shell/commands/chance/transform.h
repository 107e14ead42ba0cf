/* What bijectors are made of, for their files: formulas.c has those of tensors, made.c those made of other bijectors.
 */
#pragma once

#include "commands/chance/bijector.h"
#include "commands/chance/pool.h"

enum { TRANSFORM_ARGS = 3 };
typedef struct transform transform;

/* An argument: a tensor or number, bijectors in a list, one of them, a whole number (0 when it is left out), sizes,
 * sizes that may be left out, a plain distribution. */
typedef enum arg_kind { TENSOR_ARG, PARTS_ARG, BASE_ARG, WHOLE_ARG, SIZES_ARG, LENGTHS_ARG, CHANCE_ARG } arg_kind;
typedef struct transform_arg {
    const char *name;
    arg_kind kind;
} transform_arg;

/* New references; NULL: failed. y is what the transform makes of x. */
typedef dl_tensor *formula(pool *p, dl_tensor *x);
typedef dl_tensor *slope_formula(pool *p, dl_tensor *x, dl_tensor *y);
typedef struct transform_kind {
    const char *name;
    transform_arg args[TRANSFORM_ARGS];
    int from, to; /* dimensions of one value, before and after */
    formula *forward, *back;
    slope_formula *slope; /* ln|dy / dx| of each value; NULL: there is none, for several x make the same y */
    /* In place of these, of what is made of others: */
    dl_tensor *(*apply)(const transform *t, dl_tensor *x, int back);
    dl_tensor *(*slope_of)(const transform *t, dl_tensor *x, dl_tensor *y);
    int (*event)(const transform *t, int after);
    int more; /* by how much the last size of a value grows */
} transform_kind;
struct transform {
    const transform_kind *is;
    int inverse;
    dlsh_value arg[TRANSFORM_ARGS];
    dl_tensor *param[TRANSFORM_ARGS]; /* those of them that are tensors, borrowed */
};

extern const transform_kind dlsh_plain_transforms[], dlsh_made_transforms[];
extern const int dlsh_nplain_transforms, dlsh_nmade_transforms;

/* A bijector of a known name with TRANSFORM_ARGS arguments, which are shared (NULL: it has none). VOID: failed. */
dlsh_value dlsh_bijector_make(const char *name, const dlsh_value *arg);
