/* bijector(NAME, ...): invertible functions of what a distribution draws, with the logarithms of their slopes, as
 * torch.distributions has them. */
#include "commands/chance/transform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/chance/kind.h"
#include "lang/eval/interp.h"

/* ---- their use */

dl_tensor *dlsh_bijector_apply(const void *self, dl_tensor *x, int back) {
    const transform *t = self;
    const int inverse = back != t->inverse;
    if (t->is->apply) return t->is->apply(t, x, inverse);
    pool p = {.param = t->param};
    dl_tensor *out = (inverse ? t->is->back : t->is->forward)(&p, x);
    return end_pool(&p, out);
}

static dl_tensor *slope_forward(const transform *t, dl_tensor *x, dl_tensor *y) {
    if (t->is->slope_of) return t->is->slope_of(t, x, y);
    if (!t->is->slope)
        return dlsh_fail(DL_ERR_UNSUPPORTED, "stick_breaking is one to the same values as softmax",
                         "%s has no density: it is not one to one", t->is->name),
               NULL;
    pool p = {.param = t->param};
    dl_tensor *out = t->is->slope(&p, x, y);
    return end_pool(&p, out);
}

dl_tensor *dlsh_bijector_slope(const void *self, dl_tensor *x, dl_tensor *y) {
    const transform *t = self;
    if (!t->inverse) return slope_forward(t, x, y);
    DLSH_OWNED dl_tensor *slope = slope_forward(t, y, x);
    return slope ? dl_neg(slope) : NULL;
}

/* ---- the value */

static void destroy(void *self) {
    transform *t = self;
    for (int i = 0; i < TRANSFORM_ARGS; i++) dlsh_drop(t->arg[i]);
    free(t);
}

static dl_status text(void *self, dlsh_buf *out) {
    const transform *t = self;
    dlsh_buf_printf(out, "<bijector %s%s>", t->is->name, t->inverse ? ", inverse" : "");
    return DL_OK;
}

static transform *new_transform(const transform_kind *is, int inverse, const dlsh_value *arg) {
    transform *t = malloc(sizeof *t);
    if (!t) return dlsh_no_memory("a bijector"), NULL;
    *t = (transform){.is = is, .inverse = inverse};
    for (int i = 0; i < TRANSFORM_ARGS; i++) {
        t->arg[i] = arg ? dlsh_ref(arg[i]) : dlsh_void();
        if (t->arg[i].type == DLSH_TENSOR) t->param[i] = t->arg[i].as.tensor;
    }
    return t;
}

static dl_status get_inverse(void *self, dlsh_value *out) {
    const transform *t = self;
    return dlsh_give(dlsh_new_handle(&dlsh_bijector_class, new_transform(t->is, !t->inverse, t->arg)), out);
}

static const dlsh_field fields[] = {{"inv", "its inverse", get_inverse, NULL}, {NULL, NULL, NULL, NULL}};

static dl_status get(void *self, const char *name, dlsh_value *out) {
    const transform *t = self;
    for (int i = 0; i < TRANSFORM_ARGS && t->is->args[i].name; i++)
        if (!strcmp(t->is->args[i].name, name))
            return *out = t->arg[i].type == DLSH_VOID ? dlsh_none() : dlsh_ref(t->arg[i]), DL_OK;
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

static const int forward = 0, inverse = 1;
static dl_status shape_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_sizes s = {0};
    const dlsh_list *l = dlsh_arg(a, "shape")->as.list;
    for (; s.n < l->n && s.n < DLSH_MAX_SIZES && l->items[s.n].type == DLSH_INT; s.n++)
        s.size[s.n] = l->items[s.n].as.i;
    if (s.n < l->n) return dlsh_arg_fail(a, "shape", DL_ERR_TYPE, "[5, 2]", "a shape is at most 8 ints");
    DLSH_TRY(dlsh_bijector_sizes(dlsh_arg_self(a), &s, *(const int *)dlsh_arg_data(a)));
    DLSH_DROPPED dlsh_value out = dlsh_new_list(s.n);
    for (int i = 0; i < s.n && !dlsh_failed(out); i++) DLSH_TRY(dlsh_append(out, dlsh_int(s.size[i])));
    return dlsh_hand_over(&out, result);
}

static const dlsh_command methods[] = {
    DLSH_FN_ROW("log_abs_det_jacobian", slope_run, "t.log_abs_det_jacobian(X, Y)",
                "The logarithm of the slope at each value of X, of which the transform made Y: of vectors and matrices "
                "of the determinant of the Jacobian matrix.",
                DLSH_PARAMS({"x", .want = "tensor", .doc = "before"}, {"y", .want = "tensor", .doc = "after"})),
    DLSH_FN_ROW("forward_shape", shape_run, "t.forward_shape(SHAPE)", "The shape of what values of a shape become.",
                DLSH_PARAMS({"shape", .want = "list", .doc = "of X"}), .data = &forward),
    DLSH_FN_ROW("inverse_shape", shape_run, "t.inverse_shape(SHAPE)",
                "The shape of what values of a shape are made of.",
                DLSH_PARAMS({"shape", .want = "list", .doc = "of Y"}), .data = &inverse),
    {0}};

const dlsh_class dlsh_bijector_class = {.name = "bijector",
                                        .doc = "An invertible function of the values of a tensor; t(x), t.inv(y).",
                                        .destroy = destroy,
                                        .text = text,
                                        .fields = fields,
                                        .get = get,
                                        .methods = methods,
                                        .call = call};

/* ---- making */

static const char example[] =
    "bijector(\"affine\", 1.0, 2.0), bijector(\"compose\", [bijector(\"exp\"), bijector(\"tanh\")])";

static int is_bijector(dlsh_value v) { return dlsh_unwrap(v, &dlsh_bijector_class) != NULL; }
static int is_size(dlsh_value v) { return v.type == DLSH_INT && v.as.i >= 0; }
static int all_of(dlsh_value v, int (*is)(dlsh_value), int least, int most) {
    if (v.type != DLSH_LIST || v.as.list->n < least || v.as.list->n > most) return 0;
    for (int i = 0; i < v.as.list->n; i++)
        if (!is(v.as.list->items[i])) return 0;
    return 1;
}

enum { MOST_PARTS = 64 };
static int fits(const transform_arg *is, dlsh_value v) {
    const distribution *d = is->kind == CHANCE_ARG ? dlsh_unwrap(v, &dlsh_distribution_class) : NULL;
    switch (is->kind) {
    case TENSOR_ARG: return v.type == DLSH_TENSOR || dlsh_is_number(v);
    case PARTS_ARG: return all_of(v, is_bijector, 1, MOST_PARTS);
    case BASE_ARG: return is_bijector(v);
    case WHOLE_ARG: return v.type == DLSH_INT;
    case SIZES_ARG: return all_of(v, is_size, 0, DLSH_MAX_SIZES);
    case LENGTHS_ARG: return all_of(v, is_size, 1, MOST_PARTS) || v.type == DLSH_NONE;
    default: return d && !d->is->form;
    }
}

static dl_status read_arg(const dlsh_args *a, transform *t, int i, int *next) {
    static const char *const wanted[] = {[TENSOR_ARG] = "a number or a tensor",
                                         [PARTS_ARG] = "a list of 1 to 64 bijectors",
                                         [BASE_ARG] = "a bijector",
                                         [WHOLE_ARG] = "an int",
                                         [SIZES_ARG] = "a list of sizes",
                                         [LENGTHS_ARG] = "a list of lengths",
                                         [CHANCE_ARG] = "a plain distribution"};
    const transform_arg *is = &t->is->args[i];
    const dlsh_value *v = dlsh_given(a, is->name) ? dlsh_arg(a, is->name) : dlsh_arg_at(a, "params", *next);
    if (v && !dlsh_given(a, is->name)) (*next)++;
    if (!v && (is->kind == LENGTHS_ARG || (is->kind == WHOLE_ARG && t->is->args[0].kind == PARTS_ARG)))
        return t->arg[i] = is->kind == WHOLE_ARG ? dlsh_int(0) : dlsh_none(), DL_OK;
    if (!v || !fits(is, *v))
        return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, example, "bijector %s needs %s, %s", t->is->name, is->name,
                             wanted[is->kind]);
    t->arg[i] =
        is->kind == TENSOR_ARG && v->type != DLSH_TENSOR ? dlsh_tensor(dl_scalar_f(dlsh_number(*v))) : dlsh_ref(*v);
    if (dlsh_failed(t->arg[i])) return dl_failed();
    if (is->kind == TENSOR_ARG) t->param[i] = t->arg[i].as.tensor;
    return DL_OK;
}

/* What the kinds of arguments do not say. */
static dl_status check_made(const dlsh_args *a, const transform *t) {
    long count[2] = {1, 1};
    if (t->is->args[2].kind == LENGTHS_ARG && t->arg[2].type == DLSH_LIST &&
        t->arg[2].as.list->n != t->arg[0].as.list->n)
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, example, "%d lengths for %d bijectors", (int)t->arg[2].as.list->n,
                             (int)t->arg[0].as.list->n);
    if (t->is->args[0].kind == BASE_ARG && t->arg[1].as.i < 0)
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, example, "reinterpreted_batch_ndims is at least 0");
    for (int k = 0; t->is->args[0].kind == SIZES_ARG && k < 2; k++)
        for (int i = 0; i < t->arg[k].as.list->n; i++) count[k] *= t->arg[k].as.list->items[i].as.i;
    return count[0] == count[1] ? DL_OK
                                : dlsh_arg_fail(a, NULL, DL_ERR_SHAPE, example,
                                                "in_shape has %ld numbers, and out_shape has %ld", count[0], count[1]);
}

static const transform_kind *kind_at(int i) {
    if (i < dlsh_nplain_transforms) return &dlsh_plain_transforms[i];
    i -= dlsh_nplain_transforms;
    return i < dlsh_nmade_transforms ? &dlsh_made_transforms[i] : NULL;
}

dlsh_value dlsh_bijector_make(const char *name, const dlsh_value *arg) {
    const transform_kind *is;
    for (int k = 0; (is = kind_at(k)) && strcmp(is->name, name) != 0; k++) {}
    return dlsh_new_handle(&dlsh_bijector_class, new_transform(is, 0, arg));
}

static dl_status bijector_run(const dlsh_args *a, dlsh_value *result) {
    const char *name = dlsh_arg_str(a, "name");
    const transform_kind *is;
    int next = 0;
    DLSH_SCOPED_BUF known = {0};
    for (int k = 0; (is = kind_at(k)) && strcmp(is->name, name) != 0; k++)
        dlsh_buf_printf(&known, "%s%s", k ? ", " : "", is->name);
    if (!is) return dlsh_arg_fail(a, "name", DL_ERR_NAME, dlsh_buf_text(&known), "there is no bijector '%s'", name);
    transform *t = new_transform(is, 0, NULL);
    dl_status st = t ? DL_OK : dl_failed();
    for (int i = 0; !st && i < TRANSFORM_ARGS && is->args[i].name; i++) st = read_arg(a, t, i, &next);
    if (!st && next < dlsh_arg_count(a, "params"))
        st = dlsh_arg_fail(a, NULL, DL_ERR_TYPE, "leave the others out", "bijector %s takes %d parameters, not %d",
                           name, next, dlsh_arg_count(a, "params"));
    if (!st) st = check_made(a, t);
    if (st) return t ? destroy(t) : (void)0, st;
    return dlsh_give(dlsh_new_handle(&dlsh_bijector_class, t), result);
}

#define OPTION(name, text)                                                                                             \
    { name, DLSH_OPT_VALUE, NULL, .doc = text }

const dlsh_command bijector_commands[] = {
    DLSH_FN_ROW(
        "bijector", bijector_run, "bijector(NAME, PARAMETER...)",
        "An invertible function of what a distribution draws. Of numbers: exp, tanh, sigmoid, softplus, affine (loc + "
        "scale x), power (x ** exponent), identity, abs, cumulative_distribution. Of vectors: softmax, stick_breaking "
        "(n numbers to n + 1 shares), corr_cholesky (to the triangle of correlations). Of matrices: lower_cholesky, "
        "positive_definite. Of others: compose, independent, reshape, cat, stack. t(x) applies it, t.inv is its "
        "inverse.",
        DLSH_PARAMS({"name", .want = "string", .doc = "which"},
                    {"params", .flags = DLSH_VARIADIC, .doc = "what it is made with, in the order below"}),
        DLSH_OPTIONS(OPTION("loc", "affine: what is added"), OPTION("scale", "affine: factor"),
                     OPTION("exponent", "power: exponent"), OPTION("parts", "compose: bijectors, the first goes first"),
                     OPTION("base_transform", "independent: the bijector whose slopes are summed"),
                     OPTION("reinterpreted_batch_ndims", "independent: over how many last dimensions"),
                     OPTION("in_shape", "reshape: sizes of a value"), OPTION("out_shape", "reshape: sizes it gets"),
                     OPTION("tseq", "cat, stack: a bijector for each part"),
                     OPTION("dim", "cat, stack: the dimension that is divided (0)"),
                     OPTION("lengths", "cat: sizes of the parts (1 each)"),
                     OPTION("distribution", "cumulative_distribution: a plain distribution")),
        .examples = "d = distribution(\"normal\", zeros(2), ones(2))\n"
                    "s = distribution(\"transformed_distribution\", d, bijector(\"tanh\"))\n"
                    "s.log_prob(s.rsample())\n"
                    "bijector(\"stick_breaking\")(zeros(2))"),
    {0}};
