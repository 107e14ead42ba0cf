/* bijector(NAME, ...): invertible functions of what a distribution draws, with the logarithms of their slopes, as
 * torch.distributions has them. */
#include "commands/chance/bijector.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/chance/pool.h"
#include "lang/eval/interp.h"
#include "dlcore/rounding.h"
#include "dlcore/unary.h"

enum { MAX_PARAMS = 2 };

typedef dl_tensor *formula(pool *p, dl_tensor *x);
typedef struct kind {
    const char *name, *params[MAX_PARAMS + 1];
    formula *forward, *back, *slope; /* slope: ln|dy / dx| at x */
} kind;

typedef struct transform {
    const kind *is;
    int inverse;
    dl_tensor *param[MAX_PARAMS];
} transform;

#define LOG(a) one(p, dl_log, a)
#define NEG(a) one(p, dl_neg, a)
static dl_tensor *softplus(pool *p, dl_tensor *x) { return x ? keep(p, dl_softplus(x, 1, INFINITY)) : NULL; }
/* y within the open interval, so that its inverse is finite */
static dl_tensor *inside(pool *p, dl_tensor *y, double low, double high) {
    const double step = y && dl_dtype_of(y) == DL_F64 ? 0x1p-52 : 0x1p-23, from = low + step, to = high - step;
    return y ? keep(p, dl_clamp(y, &from, &to)) : NULL;
}

#define TRANSFORM(name) static dl_tensor *name(pool *p, dl_tensor *x)
TRANSFORM(to_exp) { return EXP(x); }
TRANSFORM(to_log) { return LOG(x); }
TRANSFORM(same) { return ADD(x, N(0)); }
TRANSFORM(to_tanh) { return one(p, dl_tanh, x); }
TRANSFORM(from_tanh) { return one(p, dl_atanh, inside(p, x, -1, 1)); }
TRANSFORM(tanh_slope) { return MUL(N(2), SUB(SUB(N(M_LN2), x), softplus(p, MUL(N(-2), x)))); }
TRANSFORM(to_sigmoid) { return SIGMOID(x); }
TRANSFORM(from_sigmoid) {
    dl_tensor *y = inside(p, x, 0, 1);
    return SUB(LOG(y), one(p, dl_log1p, NEG(y)));
}
TRANSFORM(sigmoid_slope) { return NEG(ADD(softplus(p, x), softplus(p, NEG(x)))); }
TRANSFORM(to_softplus) { return softplus(p, x); }
TRANSFORM(from_softplus) { return ADD(x, LOG(NEG(one(p, dl_expm1, NEG(x))))); }
TRANSFORM(softplus_slope) { return NEG(softplus(p, NEG(x))); }
TRANSFORM(to_affine) { return ADD(P(0), MUL(P(1), x)); }
TRANSFORM(from_affine) { return DIV(SUB(x, P(0)), P(1)); }
TRANSFORM(affine_slope) { return BESIDE(LOG(one(p, dl_abs, P(1))), x); }
TRANSFORM(to_power) { return two(p, dl_pow, x, P(0)); }
TRANSFORM(from_power) { return two(p, dl_pow, x, DIV(N(1), P(0))); }
TRANSFORM(power_slope) { return LOG(one(p, dl_abs, DIV(MUL(P(0), to_power(p, x)), x))); }

static const kind kinds[] = {{"exp", {NULL}, to_exp, to_log, same},
                             {"tanh", {NULL}, to_tanh, from_tanh, tanh_slope},
                             {"sigmoid", {NULL}, to_sigmoid, from_sigmoid, sigmoid_slope},
                             {"softplus", {NULL}, to_softplus, from_softplus, softplus_slope},
                             {"affine", {"loc", "scale"}, to_affine, from_affine, affine_slope},
                             {"power", {"exponent"}, to_power, from_power, power_slope}};
enum { KINDS = DLSH_COUNT(kinds) };

/* ---- their use */

static dl_tensor *computed(const transform *t, formula *f, dl_tensor *x) {
    pool p = {.param = t->param};
    dl_tensor *out = f(&p, x);
    return end_pool(&p, out);
}

dl_tensor *dlsh_bijector_apply(const void *self, dl_tensor *x, int back) {
    const transform *t = self;
    return computed(t, back != t->inverse ? t->is->back : t->is->forward, x);
}

dl_tensor *dlsh_bijector_slope(const void *self, dl_tensor *x, dl_tensor *y) {
    const transform *t = self;
    dl_tensor *slope = computed(t, t->is->slope, t->inverse ? y : x),
              *out = slope && t->inverse ? dl_neg(slope) : slope;
    if (out != slope) dl_unref(slope);
    return out;
}

/* ---- the value */

static void destroy(void *self) {
    transform *t = self;
    for (int i = 0; i < MAX_PARAMS; i++) dl_unref(t->param[i]);
    free(t);
}

static dl_status text(void *self, dlsh_buf *out) {
    const transform *t = self;
    dlsh_buf_printf(out, "<bijector %s%s>", t->is->name, t->inverse ? ", inverse" : "");
    return DL_OK;
}

static transform *new_transform(const kind *is, int inverse, dl_tensor *const *param) {
    transform *t = malloc(sizeof *t);
    if (!t) return dlsh_no_memory("a bijector"), NULL;
    *t = (transform){.is = is, .inverse = inverse};
    for (int i = 0; i < MAX_PARAMS; i++) t->param[i] = param && param[i] ? dl_ref(param[i]) : NULL;
    return t;
}

static dl_status get_inverse(void *self, dlsh_value *out) {
    const transform *t = self;
    return dlsh_give(dlsh_new_handle(&dlsh_bijector_class, new_transform(t->is, !t->inverse, t->param)), out);
}

static const dlsh_field fields[] = {{"inv", "its inverse", get_inverse, NULL}, {NULL, NULL, NULL, NULL}};

static dl_status get(void *self, const char *name, dlsh_value *out) {
    const transform *t = self;
    for (int i = 0; t->is->params[i]; i++)
        if (!strcmp(t->is->params[i], name)) return *out = dlsh_tensor(dl_ref(t->param[i])), DL_OK;
    return DL_ERR_NAME;
}

static dl_status call(dlsh_session *s, void *self, const dlsh_callargs *args, dlsh_value *out) {
    (void)s;
    if (args->n != 1 || args->values[0].type != DLSH_TENSOR)
        return dlsh_fail(DL_ERR_TYPE, "bijector(\"tanh\")(x)", "a bijector takes one tensor");
    return dlsh_give(dlsh_tensor(dlsh_bijector_apply(self, args->values[0].as.tensor, 0)), out);
}

static dl_status slope_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *x = dlsh_arg_tensor(a, "x"), *y = dlsh_arg_tensor(a, "y");
    return dlsh_give(dlsh_tensor(dlsh_bijector_slope(dlsh_arg_self(a), x, y)), result);
}

static const dlsh_command methods[] = {
    DLSH_FN_ROW("log_abs_det_jacobian", slope_run, "t.log_abs_det_jacobian(X, Y)",
                "The logarithm of the slope at each element of X, of which the transform made Y.",
                DLSH_PARAMS({"x", .want = "tensor", .doc = "before"}, {"y", .want = "tensor", .doc = "after"})),
    {0}};

const dlsh_class dlsh_bijector_class = {.name = "bijector",
                                        .doc = "An invertible function of the elements of a tensor; t(x), t.inv(y).",
                                        .destroy = destroy,
                                        .text = text,
                                        .fields = fields,
                                        .get = get,
                                        .methods = methods,
                                        .call = call};

/* ---- making */

static dl_status read_param(const dlsh_args *a, const kind *is, int i, int *next, dl_tensor **out) {
    const char *name = is->params[i];
    const dlsh_value *v = dlsh_given(a, name) ? dlsh_arg(a, name) : dlsh_arg_at(a, "params", (*next)++);
    if (v && v->type == DLSH_TENSOR) return *out = dl_ref(v->as.tensor), DL_OK;
    if (!v || !dlsh_is_number(*v))
        return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, "bijector(\"affine\", 1.0, 2.0), bijector(\"power\", 2.0)",
                             "bijector %s needs %s, a number or a tensor", is->name, name);
    return (*out = dl_scalar_f(dlsh_number(*v))) ? DL_OK : dl_failed();
}

static dl_status bijector_run(const dlsh_args *a, dlsh_value *result) {
    const char *name = dlsh_arg_str(a, "name");
    int k = 0, next = 0;
    DLSH_SCOPED_BUF known = {0};
    for (; k < KINDS && strcmp(kinds[k].name, name) != 0; k++)
        dlsh_buf_printf(&known, "%s%s", k ? ", " : "", kinds[k].name);
    if (k == KINDS)
        return dlsh_arg_fail(a, "name", DL_ERR_NAME, dlsh_buf_text(&known), "there is no bijector '%s'", name);
    transform *t = new_transform(&kinds[k], 0, NULL);
    dl_status st = t ? DL_OK : dl_failed();
    for (int i = 0; !st && kinds[k].params[i]; i++) st = read_param(a, &kinds[k], i, &next, &t->param[i]);
    if (!st && next < dlsh_arg_count(a, "params"))
        st = dlsh_arg_fail(a, NULL, DL_ERR_TYPE, "leave the others out", "bijector %s takes %d parameters, not %d",
                           name, next, dlsh_arg_count(a, "params"));
    if (st) return t ? destroy(t) : (void)0, st;
    return dlsh_give(dlsh_new_handle(&dlsh_bijector_class, t), result);
}

const dlsh_command bijector_commands[] = {
    DLSH_FN_ROW(
        "bijector", bijector_run, "bijector(NAME, PARAMETER...)",
        "An invertible function of what a distribution draws: exp, tanh, sigmoid, softplus, affine (loc + scale "
        "x) or power (x ** exponent). t(x) applies it, t.inv is its inverse.",
        DLSH_PARAMS({"name", .want = "string", .doc = "which"},
                    {"params", .flags = DLSH_VARIADIC, .doc = "of affine loc and scale, of power exponent"}),
        DLSH_OPTIONS({"loc", DLSH_OPT_VALUE, NULL, .doc = "affine: what is added"},
                     {"scale", DLSH_OPT_VALUE, NULL, .doc = "affine: factor"},
                     {"exponent", DLSH_OPT_VALUE, NULL, .doc = "power: exponent"}),
        .examples = "d = distribution(\"normal\", zeros(2), ones(2))\n"
                    "s = distribution(\"transformed_distribution\", d, bijector(\"tanh\"))\n"
                    "s.log_prob(s.rsample())"),
    {0}};
