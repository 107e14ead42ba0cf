/* Functions made of functions, as torch.func has them: the gradient of a function of one number, with its value or
 * without it, all derivatives of its results, and second ones; by one argument, or by several. */
#include <stdlib.h>

#include "commands/functional.h"
#include "commands/tree.h"
#include "lang/command.h"
#include "lang/session.h"

/* What is made of a function, a row of each. */
typedef struct made_kind {
    const char *name, *gives;
    int number, value, second; /* of a function that must give one number; its value too; second derivatives */
} made_kind;
static const made_kind made_kinds[] = {
    [DLSH_JACOBIANS] = {"jacrev", "the derivatives of all elements"},
    [DLSH_GRADIENT] = {"grad", "the gradient", .number = 1},
    [DLSH_GRADIENT_AND_VALUE] = {"grad_and_value", "the gradient, and the value", .number = 1, .value = 1},
    [DLSH_HESSIANS] = {"hessian", "the second derivatives", .number = 1, .second = 1},
};

/* A call of such a function. */
typedef struct derivation {
    dlsh_session *session;
    const made_kind *is;
    dlsh_value fn, argnums, args, chosen; /* args: a list; chosen: one argument, or a list of those in argnums */
    dlsh_value result, aux;               /* of the last call */
    int has_aux;
} derivation;

static void derivation_free(derivation *d) {
    dlsh_drop(d->args);
    dlsh_drop(d->chosen);
    dlsh_drop(d->result);
    dlsh_drop(d->aux);
}

static dl_status argument_at(const dlsh_args *a, const derivation *d, dlsh_value num, dlsh_value **slot) {
    const int n = d->args.as.list->n;
    const long at = num.as.i < 0 ? num.as.i + n : num.as.i;
    if (at < 0 || at >= n)
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, NULL, "argnums is %ld, and there are %d arguments", num.as.i, n);
    *slot = &d->args.as.list->items[at];
    return DL_OK;
}

/* The arguments by which it is differentiated. */
static dl_status choose(const dlsh_args *a, derivation *d) {
    dlsh_value *slot = NULL;
    if (d->argnums.type == DLSH_INT) {
        DLSH_TRY(argument_at(a, d, d->argnums, &slot));
        d->chosen = dlsh_ref(*slot);
        return DL_OK;
    }
    d->chosen = dlsh_new_list(d->argnums.as.list->n);
    for (int i = 0; i < d->argnums.as.list->n && !dlsh_failed(d->chosen); i++) {
        DLSH_TRY(argument_at(a, d, d->argnums.as.list->items[i], &slot));
        DLSH_TRY(dlsh_append(d->chosen, dlsh_ref(*slot)));
    }
    return dlsh_failed(d->chosen) ? dl_failed() : DL_OK;
}

/* The arguments with the tensors `in` in the places of those that were chosen. */
static dlsh_value arguments_with(const derivation *d, dl_tensor **in) {
    DLSH_DROPPED dlsh_value args = dlsh_new_list(d->args.as.list->n), moved = dlsh_tree_of(d->chosen, in);
    dlsh_value out = dlsh_void();
    if (dlsh_failed(args) || dlsh_failed(moved)) return out;
    for (int i = 0; i < d->args.as.list->n; i++)
        if (dlsh_append(args, dlsh_ref(d->args.as.list->items[i]))) return out;
    const int one = d->argnums.type == DLSH_INT, n = one ? 1 : d->argnums.as.list->n;
    for (int i = 0; i < n; i++) {
        const long num = one ? d->argnums.as.i : d->argnums.as.list->items[i].as.i;
        dlsh_value *slot = &args.as.list->items[num < 0 ? num + args.as.list->n : num];
        dlsh_drop(*slot);
        *slot = dlsh_ref(one ? moved : moved.as.list->items[i]);
    }
    return dlsh_hand_over(&args, &out) ? dlsh_void() : out;
}

/* With has_aux the function gives a list of what is differentiated and of what goes along. */
static dl_status take_result(derivation *d, dlsh_value *v) {
    dlsh_drop(d->result);
    dlsh_drop(d->aux);
    d->result = d->aux = dlsh_void();
    if (!d->has_aux) return dlsh_hand_over(v, &d->result);
    if (v->type != DLSH_LIST || v->as.list->n != 2)
        return dlsh_fail(DL_ERR_TYPE, "return y, more", "with has_aux the function gives a list of two items, not %s",
                         dlsh_a(*v));
    d->result = dlsh_ref(v->as.list->items[0]);
    d->aux = dlsh_ref(v->as.list->items[1]);
    return DL_OK;
}

static int call_derived(dl_tensor **in, DLSH_UNUSED int n, dl_tensor **out, int max_out, void *arg) {
    derivation *d = arg;
    DLSH_DROPPED dlsh_value args = arguments_with(d, in), v = dlsh_void();
    if (dlsh_failed(args)) return -1;
    dlsh_callargs call = {args.as.list->n, args.as.list->items, NULL};
    dl_status st = dlsh_call(d->session, d->fn, &call, &v);
    if (!st) st = take_result(d, &v);
    DLSH_SCOPED_LEAVES made = {0};
    if (!st) st = dlsh_tree_leaves(d->result, "the result of the function", &made);
    if (!st && made.n > max_out) st = dlsh_fail(DL_ERR_VALUE, NULL, "the function gave more than %d tensors", max_out);
    if (!st && d->is->number && (d->result.type != DLSH_TENSOR || dl_ndim(d->result.as.tensor)))
        st = dlsh_fail(DL_ERR_VALUE, "reduce it with sum() or mean(); jacrev(FUNCTION) differentiates all elements",
                       "%s(FUNCTION) is for functions that give one number, not %s", d->is->name, dlsh_a(d->result));
    for (int i = 0; !st && i < made.n; i++) out[i] = dl_ref(made.t[i]);
    return st ? -1 : made.n;
}

static dlsh_value as_value(dlsh_value leaf, DLSH_UNUSED int i, void *tracked) {
    const int keep = leaf.type != DLSH_TENSOR || *(const int *)tracked;
    return keep ? dlsh_ref(leaf) : dlsh_tensor(dl_detach(leaf.as.tensor));
}

/* The derivatives alone, or in a list with the value and with what went along with it. */
static dl_status give_derived(derivation *d, dlsh_value derivatives, int tracked, dlsh_value *result) {
    int next = 0;
    DLSH_DROPPED dlsh_value all = derivatives;
    if (dlsh_failed(all)) return dl_failed();
    if (!d->is->value && !d->has_aux) return dlsh_hand_over(&all, result);
    DLSH_DROPPED dlsh_value value = dlsh_tree_map(d->result, as_value, &tracked, &next),
                            aux = d->has_aux ? dlsh_tree_map(d->aux, as_value, &tracked, &next) : dlsh_none();
    if (dlsh_failed(value) || dlsh_failed(aux)) return dl_failed();
    if (!d->is->value) return dlsh_give(DLSH_LIST_OF(dlsh_ref(all), dlsh_ref(aux)), result);
    if (!d->has_aux) return dlsh_give(DLSH_LIST_OF(dlsh_ref(all), dlsh_ref(value)), result);
    return dlsh_give(DLSH_LIST_OF(dlsh_ref(all), DLSH_LIST_OF(dlsh_ref(value), dlsh_ref(aux))), result);
}

static dlsh_value see_tracked(dlsh_value leaf, DLSH_UNUSED int i, void *tracked) {
    *(int *)tracked |= leaf.type == DLSH_TENSOR && dl_requires_grad(leaf.as.tensor);
    return dlsh_none();
}

/* Does one of all arguments need a gradient, so that the derivatives do, too? */
static int are_tracked(const derivation *d) {
    int tracked = 0, next = 0;
    if (dl_grad_mode_get()) dlsh_drop(dlsh_tree_map(d->args, see_tracked, &tracked, &next));
    return tracked;
}

static dl_status derive(derivation *d, dlsh_value *result) {
    DLSH_SCOPED_LEAVES in = {0};
    DLSH_TRY(dlsh_tree_leaves(d->chosen, "an argument", &in));
    DLSH_FREED dl_tensor **t = calloc((size_t)in.n * DL_MAX_RESULTS + 1, sizeof(dl_tensor *));
    if (!t) return dlsh_no_memory("a matrix of derivatives");
    int tracked = are_tracked(d), m = in.n;
    DLSH_TRY(d->is->second ? dl_hessian(call_derived, d, in.t, in.n, tracked, t)
                           : dl_jacobian(call_derived, d, in.t, in.n, tracked, &m, t));
    return give_derived(d, dlsh_rows_of(d->is->second ? d->chosen : d->result, d->chosen, t, m, in.n), tracked, result);
}

static dl_status made_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_list *made = dlsh_arg(a, "made")->as.list;
    const int n = dlsh_arg_count(a, "inputs");
    DLSH_SCOPED(derivation_free)
    derivation d = {.session = dlsh_arg_session(a),
                    .is = &made_kinds[made->items[2].as.i],
                    .fn = made->items[0],
                    .argnums = made->items[1],
                    .has_aux = (int)made->items[3].as.i,
                    .args = dlsh_new_list(n),
                    .chosen = dlsh_void(),
                    .result = dlsh_void(),
                    .aux = dlsh_void()};
    if (dlsh_failed(d.args)) return dl_failed();
    for (int i = 0; i < n; i++) DLSH_TRY(dlsh_append(d.args, dlsh_ref(*dlsh_arg_at(a, "inputs", i))));
    DLSH_TRY(choose(a, &d));
    return derive(&d, result);
}

static const dlsh_command made_row = DLSH_FN_ROW(
    "derivatives", made_run, "derivatives(MADE, INPUT, ...)", "What grad, jacrev and hessian make of a function.",
    DLSH_PARAMS({"made", .want = "list", .doc = "function, argnums, what it gives, has_aux"},
                {"inputs", .flags = DLSH_VARIADIC, .doc = "arguments of the function"}));

static int are_numbers(const dlsh_value *v) {
    if (v->type == DLSH_INT) return 1;
    int good = v->type == DLSH_LIST && v->as.list->n > 0;
    for (int i = 0; good && i < v->as.list->n; i++) good = v->as.list->items[i].type == DLSH_INT;
    return good;
}

dl_status dlsh_derivatives_of(const dlsh_args *a, dlsh_value fn, dlsh_derivatives what, dlsh_value *result) {
    const dlsh_value *nums = dlsh_arg(a, "argnums"), zero = dlsh_int(0);
    if (!nums || nums->type == DLSH_NONE) nums = &zero;
    if (!dlsh_callable(fn))
        return dlsh_arg_fail(a, "function", DL_ERR_TYPE, "give a function, an op or a net", "%s cannot be called",
                             dlsh_type_name(fn));
    if (!are_numbers(nums))
        return dlsh_arg_fail(a, "argnums", DL_ERR_TYPE, "argnums=0, or argnums=[0, 1]",
                             "argnums is the number of an argument, or a list of numbers, not %s", dlsh_a(*nums));
    DLSH_DROPPED dlsh_value made =
        DLSH_LIST_OF(dlsh_ref(fn), dlsh_ref(*nums), dlsh_int(what), dlsh_int(dlsh_arg_bool(a, "has_aux")));
    if (dlsh_failed(made)) return dl_failed();
    return dlsh_give(dlsh_new_method(made, (dlsh_value){DLSH_BUILTIN, {.builtin = &made_row}}), result);
}

static dl_status derivatives_run(const dlsh_args *a, dlsh_value *result) {
    return dlsh_derivatives_of(a, *dlsh_arg(a, "function"), *(const dlsh_derivatives *)dlsh_arg_data(a), result);
}

static const dlsh_derivatives jacobians = DLSH_JACOBIANS, and_value = DLSH_GRADIENT_AND_VALUE;
#define DERIVATIVES(name, doc_, kind, example)                                                                         \
    DLSH_FN_ROW(name, derivatives_run, name "(FUNCTION)", doc_,                                                        \
                DLSH_PARAMS({"function", .doc = "a function, op or net from tensors to tensors"}),                     \
                DLSH_OPTIONS(DLSH_ARGNUMS_OPTION, DLSH_AUX_OPTION), .data = &(kind), .examples = example)
#define ALL_DERIVATIVES(name)                                                                                          \
    DERIVATIVES(name,                                                                                                  \
                "A function of FUNCTION's arguments that gives the derivatives of every element of its result by "     \
                "every element of the argument argnums, in the shape [shape of the result, shape of the argument].",   \
                jacobians, name "(fn (x) { return x ** 2 })(tensor([1.0, 2.0]))")
const dlsh_command derivatives_commands[] = {
    ALL_DERIVATIVES("jacrev"),
    ALL_DERIVATIVES("jacfwd"),
    DERIVATIVES("grad_and_value",
                "A function of FUNCTION's arguments that gives a list of its gradient by the argument argnums and of "
                "its value, one number.",
                and_value, "g, y = grad_and_value(fn (x) { return (x ** 2).sum() })(tensor([1.0, 2.0]))"),
    {0}};
