/* biject_to, transform_to: the bijectors from all numbers to those that a constraint allows. */
#include <string.h>

#include "commands/chance/kind.h"
#include "commands/chance/transform.h"
#include "lang/eval/interp.h"

/* Names of the bijectors to it; NULL: there is none. */
typedef struct constraint {
    const char *name, *one_to_one, *other;
    int bounds; /* how many */
    enum { AS_IT_IS, ABOVE, BELOW, BETWEEN } form;
} constraint;

static const constraint constraints[] = {
    {"real", "identity", "identity", 0, AS_IT_IS},
    {"positive", "exp", "exp", 0, AS_IT_IS},
    {"nonnegative", "exp", "exp", 0, AS_IT_IS},
    {"greater_than", "exp", "exp", 1, ABOVE},
    {"greater_than_eq", "exp", "exp", 1, ABOVE},
    {"less_than", "exp", "exp", 1, BELOW},
    {"interval", "sigmoid", "sigmoid", 2, BETWEEN},
    {"half_open_interval", "sigmoid", "sigmoid", 2, BETWEEN},
    {"unit_interval", "sigmoid", "sigmoid", 0, AS_IT_IS},
    {"simplex", "stick_breaking", "softmax", 0, AS_IT_IS},
    {"corr_cholesky", "corr_cholesky", "corr_cholesky", 0, AS_IT_IS},
    {"lower_cholesky", NULL, "lower_cholesky", 0, AS_IT_IS},
    {"positive_definite", NULL, "positive_definite", 0, AS_IT_IS},
    {"positive_semidefinite", NULL, "positive_definite", 0, AS_IT_IS},
};
enum { CONSTRAINTS = DLSH_COUNT(constraints) };

static dl_tensor *bound(const dlsh_args *a, int i) {
    const dlsh_value v = *dlsh_arg_at(a, "bounds", i);
    return v.type == DLSH_TENSOR ? dl_ref(v.as.tensor) : dl_scalar_f(dlsh_number(v));
}

/* [bijector NAME, affine from the bounds], one after the other. */
static dl_status make_bounded(const dlsh_args *a, const constraint *c, const char *name, dlsh_value *result) {
    DLSH_OWNED dl_tensor *low = bound(a, 0), *high = c->form == BETWEEN ? bound(a, 1) : NULL,
                         *width = c->form == BETWEEN ? low && high ? dl_sub(high, low) : NULL
                                                     : dl_scalar_f(c->form == ABOVE ? 1 : -1);
    if (!low || !width) return dl_failed();
    DLSH_DROPPED dlsh_value parts = dlsh_new_list(2);
    const dlsh_value line[TRANSFORM_ARGS] = {dlsh_tensor(low), dlsh_tensor(width)};
    if (dlsh_failed(parts)) return dl_failed();
    DLSH_TRY(dlsh_append(parts, dlsh_bijector_make(name, NULL)));
    DLSH_TRY(dlsh_append(parts, dlsh_bijector_make("affine", line)));
    const dlsh_value both[TRANSFORM_ARGS] = {parts};
    return dlsh_give(dlsh_bijector_make("compose", both), result);
}

static const int one_to_one = 1, any = 0;
static dl_status constraint_run(const dlsh_args *a, dlsh_value *result) {
    const int bijective = *(const int *)dlsh_arg_data(a), given = dlsh_arg_count(a, "bounds");
    const char *name = dlsh_arg_str(a, "constraint"), *known[CONSTRAINTS];
    int k = 0;
    for (; k < CONSTRAINTS && strcmp(constraints[k].name, name) != 0; k++) known[k] = constraints[k].name;
    if (k == CONSTRAINTS) {
        const char *near = dlsh_nearest(name, known, CONSTRAINTS);
        return dlsh_arg_fail(a, "constraint", DL_ERR_NAME, near ? near : "positive, interval, simplex",
                             "there is no constraint '%s'", name);
    }
    const constraint *c = &constraints[k];
    const char *to = bijective ? c->one_to_one : c->other;
    if (given != c->bounds)
        return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, "biject_to(\"interval\", 0, 2)", "%s has %d bounds, not %d", name,
                             c->bounds, given);
    if (!to)
        return dlsh_arg_fail(a, NULL, DL_ERR_UNSUPPORTED, "transform_to has functions that are not one to one",
                             "no bijector leads to %s", name);
    return c->form ? make_bounded(a, c, to, result) : dlsh_give(dlsh_bijector_make(to, NULL), result);
}

#define CONSTRAINT_PARAMS                                                                                              \
    DLSH_PARAMS({"constraint", .want = "string",                                                                       \
                 .doc = "real, positive, nonnegative, greater_than, greater_than_eq, less_than, interval, "            \
                        "half_open_interval, unit_interval, simplex, corr_cholesky, lower_cholesky, "                  \
                        "positive_definite, positive_semidefinite"},                                                   \
                {"bounds", .want = "number|tensor", .flags = DLSH_VARIADIC,                                            \
                 .doc = "of interval two, of greater_than and less_than one"})

const dlsh_command constraint_commands[] = {
    DLSH_FN_ROW("biject_to", constraint_run, "biject_to(CONSTRAINT, BOUND...)",
                "The bijector from all numbers to those that a constraint allows, as for parameters of distributions "
                "that are to be learned.",
                CONSTRAINT_PARAMS, .data = &one_to_one,
                .examples =
                    "scale = biject_to(\"positive\")(param(zeros(3)))\nbiject_to(\"interval\", -1, 1)(zeros(2))"),
    DLSH_FN_ROW("transform_to", constraint_run, "transform_to(CONSTRAINT, BOUND...)",
                "The same, but where a simpler function will do it need not be one to one: softmax to a simplex.",
                CONSTRAINT_PARAMS, .data = &any, .examples = "transform_to(\"simplex\")(randn(4)).sum()"),
    {0}};
