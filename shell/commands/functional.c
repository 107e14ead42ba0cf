/* Functions of functions: products with the Jacobian matrix, the matrix, second derivatives, and a function of one
 * sample as a function of a batch. */
#include "commands/functional.h"
#include "commands/tree.h"
#include "lang/command.h"
#include "lang/session.h"
#include "dlcore/arithmetic.h"
#include "dlcore/index.h"
#include "dlcore/loss.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/view.h"

#include <stdlib.h>
#include <string.h>

/* A function of the language as one of tensors: what it was called with, and what came of it. */
typedef struct subject {
    dlsh_session *session;
    dlsh_value fn, args, result; /* args: a list, one item for each argument */
} subject;

static void subject_free(subject *s) {
    dlsh_drop(s->args);
    dlsh_drop(s->result);
}
#define SCOPED_SUBJECT __attribute__((cleanup(subject_free), unused)) subject

/* Arguments as PyTorch has them: the items of a list, or one of another kind. */
static dlsh_value arguments_of(dlsh_value v) { return v.type == DLSH_LIST ? dlsh_ref(v) : DLSH_LIST_OF(dlsh_ref(v)); }

static dl_status subject_begin(const dlsh_args *a, subject *s) {
    *s = (subject){dlsh_arg_session(a), *dlsh_arg(a, "function"), dlsh_void(), dlsh_void()};
    if (!dlsh_callable(s->fn))
        return dlsh_arg_fail(a, "function", DL_ERR_TYPE, "give a function, an op or a net", "%s cannot be called",
                             dlsh_type_name(s->fn));
    s->args = arguments_of(*dlsh_arg(a, "inputs"));
    return dlsh_failed(s->args) ? dl_failed() : DL_OK;
}

static int call_subject(dl_tensor **in, DLSH_UNUSED int n, dl_tensor **out, int max_out, void *arg) {
    subject *s = arg;
    DLSH_DROPPED dlsh_value args = dlsh_tree_of(s->args, in);
    if (dlsh_failed(args)) return -1;
    dlsh_drop(s->result);
    s->result = dlsh_void();
    dlsh_callargs call = {args.as.list->n, args.as.list->items, NULL};
    dl_status st = dlsh_call(s->session, s->fn, &call, &s->result);
    DLSH_SCOPED_LEAVES made = {0};
    if (!st) st = dlsh_tree_leaves(s->result, "the result of the function", &made);
    if (!st && made.n > max_out) st = dlsh_fail(DL_ERR_VALUE, NULL, "the function gave more than %d tensors", max_out);
    for (int i = 0; !st && i < made.n; i++) out[i] = dl_ref(made.t[i]);
    return st ? -1 : made.n;
}

static void unref_all(dl_tensor **t, int n) {
    for (int i = 0; i < n; i++) DLSH_UNREF(t[i]);
}

/* ---- vjp and jvp: [result, product] */

static dl_status give_product(subject *s, dl_tensor **out, int nout, dlsh_value form, dl_tensor **product, int n,
                              dlsh_value *result) {
    dlsh_value value = dlsh_tree_of(s->result, out), made = dlsh_tree_of(form, product);
    unref_all(out, nout);
    unref_all(product, n);
    return dlsh_give(DLSH_LIST_OF(value, made), result);
}

/* A call whose inputs and results keep their history, for products with vectors that come later. */
typedef struct kept_call {
    subject *s;
    dlsh_value at, results; /* lists of the fresh inputs and of the results */
} kept_call;

static dlsh_value list_of(dl_tensor **t, int n) {
    DLSH_DROPPED dlsh_value all = dlsh_new_list(n);
    dlsh_value out = dlsh_void();
    for (int i = 0; i < n && !dlsh_failed(all); i++)
        if (dlsh_append(all, dlsh_tensor(dl_ref(t[i])))) return out;
    return dlsh_hand_over(&all, &out) ? dlsh_void() : out;
}

/* Says that there are no results, so that dl_jacobian does no more than make the call. */
static int keep_subject(dl_tensor **in, int n, dl_tensor **out, int max_out, void *arg) {
    kept_call *k = arg;
    const int made = call_subject(in, n, out, max_out, k->s);
    if (made < 0) return -1;
    k->at = list_of(in, n);
    k->results = list_of(out, made);
    unref_all(out, made);
    return dlsh_failed(k->at) || dlsh_failed(k->results) ? -1 : 0;
}

static dl_tensor *zeros_like(const dl_tensor *t) {
    return dl_tensor_full(dl_ndim(t), dl_shape(t), dl_dtype_of(t), dl_device_of(t), 0);
}

/* Those that need a gradient, and the vectors that belong to them. */
static int differentiable(const dlsh_leaves *from, const dlsh_leaves *v, dl_tensor **root, dl_tensor **seed) {
    int n = 0;
    for (int i = 0; i < from->n; i++)
        if (from->t[i] && dl_requires_grad(from->t[i])) root[n] = from->t[i], seed[n++] = v->n ? v->t[i] : NULL;
    return n;
}

/* Gradients g[n] of the results, whose history stays; 0 for what nothing depends on. */
static dl_status pull(const dlsh_leaves *results, dlsh_leaves *v, const dlsh_leaves *at, int create, dl_tensor **g) {
    dl_tensor *root[DL_MAX_RESULTS], *seed[DL_MAX_RESULTS];
    const int k = differentiable(results, v, root, seed);
    dl_status st = DL_OK;
    if (k) DLSH_TRY(dl_gradients_of(root, v->n ? seed : NULL, k, at->t, at->n, 1, create, g));
    for (int i = 0; i < at->n && !st; i++) {
        if (!g[i] && !(g[i] = zeros_like(at->t[i]))) st = dl_failed();
    }
    if (st) unref_all(g, at->n);
    return st;
}

static dl_status product_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_list *made = dlsh_arg(a, "made")->as.list;
    DLSH_SCOPED_LEAVES at = {0}, results = {0}, v = {0};
    DLSH_TRY(dlsh_tree_leaves(made->items[0], "inputs", &at));
    DLSH_TRY(dlsh_tree_leaves(made->items[1], "results", &results));
    for (int i = 0; i < dlsh_arg_count(a, "v"); i++) DLSH_TRY(dlsh_tree_leaves(*dlsh_arg_at(a, "v", i), "v", &v));
    if (v.n ? v.n != results.n : results.n != 1 || dl_numel(*results.t) != 1)
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "vectors have the form of what the function gave",
                             "%d vectors for %d results; one number alone needs none", v.n, results.n);
    DLSH_FREED dl_tensor **g = calloc((size_t)at.n + 1, sizeof *g);
    if (!g) return dlsh_no_memory("gradients");
    DLSH_TRY(pull(&results, &v, &at, (int)made->items[3].as.i, g));
    dlsh_value all = dlsh_tree_of(made->items[2], g);
    unref_all(g, at.n);
    return dlsh_give(all, result);
}

static const dlsh_command product_row = DLSH_FN_ROW(
    "product", product_run, "product(MADE, V, ...)", "What vjp makes of a function and its inputs.",
    DLSH_PARAMS({"made", .want = "list", .doc = "inputs and results with a history, form, create_graph"},
                {"v", .want = "tensor|list|record", .flags = DLSH_VARIADIC, .doc = "a vector for each result"}));

/* Of a tensor: with `create` itself, else without its history. */
static dlsh_value result_leaf(dlsh_value leaf, DLSH_UNUSED int i, void *create) {
    return dlsh_tensor(*(const int *)create ? dl_ref(leaf.as.tensor) : dl_detach(leaf.as.tensor));
}

/* Calls the function of inputs `in`, whose history is kept in k. create: so is that of what is made of it. */
static dl_status keep_call(const dlsh_args *a, const dlsh_leaves *in, kept_call *k, int *create) {
    DLSH_FREED dl_tensor **none = calloc((size_t)in->n * DL_MAX_RESULTS + 1, sizeof *none);
    int nout;
    *create = dlsh_arg_bool(a, "create_graph");
    if (!none) return dlsh_no_memory("gradients");
    for (int i = 0; i < in->n; i++) *create |= dl_grad_mode_get() && dl_requires_grad(in->t[i]);
    return dl_jacobian(keep_subject, k, in->t, in->n, *create, &nout, none);
}

/* [value of the kept call, the function `row` bound to `made`], of which it takes the reference. */
static dl_status give_bound(const kept_call *k, int create, dlsh_value made, const dlsh_command *row,
                            dlsh_value *result) {
    int next = 0;
    DLSH_DROPPED dlsh_value kept = made, value = dlsh_tree_map(k->s->result, result_leaf, &create, &next);
    if (dlsh_failed(value) || dlsh_failed(kept)) return dl_failed();
    DLSH_DROPPED dlsh_value bound = dlsh_new_method(kept, (dlsh_value){DLSH_BUILTIN, {.builtin = row}});
    if (dlsh_failed(bound)) return dl_failed();
    return dlsh_give(DLSH_LIST_OF(dlsh_ref(value), dlsh_ref(bound)), result);
}

/* vjp(f, x): the result, and the function of a vector that gives the product. */
static dl_status give_product_function(const dlsh_args *a, subject *s, dlsh_leaves *in, dlsh_value *result) {
    kept_call k = {s, dlsh_void(), dlsh_void()};
    int create;
    dl_status st = keep_call(a, in, &k, &create);
    DLSH_DROPPED dlsh_value at = k.at, results = k.results;
    DLSH_TRY(st);
    return give_bound(&k, create,
                      DLSH_LIST_OF(dlsh_ref(at), dlsh_ref(results), dlsh_ref(*dlsh_arg(a, "inputs")), dlsh_int(create)),
                      &product_row, result);
}

static dl_status vjp_run(const dlsh_args *a, dlsh_value *result) {
    SCOPED_SUBJECT s;
    DLSH_SCOPED_LEAVES in = {0}, v = {0}, g = {0};
    dl_tensor *out[DL_MAX_RESULTS];
    int nout;
    DLSH_TRY(subject_begin(a, &s));
    DLSH_TRY(dlsh_tree_leaves(s.args, "inputs", &in));
    if (!dlsh_given(a, "v")) return give_product_function(a, &s, &in, result);
    DLSH_TRY(dlsh_tree_leaves(s.args, "inputs", &g));
    DLSH_TRY(dlsh_tree_leaves(*dlsh_arg(a, "v"), "v", &v));
    DLSH_TRY(dl_vjp(call_subject, &s, in.t, in.n, v.t, v.n, dlsh_arg_bool(a, "create_graph"), out, &nout, g.t));
    return give_product(&s, out, nout, *dlsh_arg(a, "inputs"), g.t, g.n, result);
}

/* The function, its inputs, and v, which has a tensor for each of them. */
static dl_status begin_along(const dlsh_args *a, subject *s, dlsh_leaves *in, dlsh_leaves *v) {
    DLSH_TRY(subject_begin(a, s));
    DLSH_TRY(dlsh_tree_leaves(s->args, "inputs", in));
    DLSH_TRY(dlsh_tree_leaves(*dlsh_arg(a, "v"), "v", v));
    if (v->n == in->n) return DL_OK;
    return dlsh_arg_fail(a, "v", DL_ERR_VALUE, NULL, "v has %d tensors for %d inputs", v->n, in->n);
}

static dl_status jvp_run(const dlsh_args *a, dlsh_value *result) {
    SCOPED_SUBJECT s;
    DLSH_SCOPED_LEAVES in = {0}, v = {0};
    dl_tensor *out[DL_MAX_RESULTS], *t[DL_MAX_RESULTS];
    int nout;
    DLSH_TRY(begin_along(a, &s, &in, &v));
    DLSH_TRY(dl_jvp(call_subject, &s, in.t, in.n, v.t, dlsh_arg_bool(a, "create_graph"), out, &nout, t));
    DLSH_DROPPED dlsh_value form = dlsh_ref(s.result);
    return give_product(&s, out, nout, form, t, nout, result);
}

/* ---- linearize: the value, and the function of a vector that gives the product from the right. The gradient by the
 * inputs is linear in the vector u that it starts from; its gradient by u is the product. */

static dl_status linear_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_list *made = dlsh_arg(a, "made")->as.list;
    DLSH_SCOPED_LEAVES u = {0}, g = {0}, v = {0};
    DLSH_TRY(dlsh_tree_leaves(made->items[0], "vectors", &u));
    DLSH_TRY(dlsh_tree_leaves(made->items[1], "gradients", &g));
    for (int i = 0; i < dlsh_arg_count(a, "v"); i++) DLSH_TRY(dlsh_tree_leaves(*dlsh_arg_at(a, "v", i), "v", &v));
    if (v.n != g.n)
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "vectors have the form of the inputs", "%d vectors for %d inputs",
                             v.n, g.n);
    dl_tensor *root[DL_MAX_RESULTS], *seed[DL_MAX_RESULTS], *t[DL_MAX_RESULTS] = {0};
    DLSH_SCOPED_GRAD_MODE(1);
    const int n = differentiable(&g, &v, root, seed);
    if (n) DLSH_TRY(dl_gradients_of(root, seed, n, u.t, u.n, 1, (int)made->items[3].as.i, t));
    dl_status st = DL_OK;
    for (int i = 0; i < u.n && !st; i++)
        if (!t[i] && !(t[i] = zeros_like(u.t[i]))) st = dl_failed();
    dlsh_value all = st ? dlsh_void() : dlsh_tree_of(made->items[2], t);
    unref_all(t, u.n);
    return dlsh_give(all, result);
}

static const dlsh_command linear_row = DLSH_FN_ROW(
    "linear", linear_run, "linear(MADE, V, ...)", "What linearize makes of a function and its inputs.",
    DLSH_PARAMS({"made", .want = "list", .doc = "vectors u, gradients that are linear in them, form, create_graph"},
                {"v", .want = "tensor|list|record", .flags = DLSH_VARIADIC, .doc = "a vector for each input"}));

/* For each result zeros with a gradient, and for each input its gradient that starts from them. */
static dl_status linear_gradients(const dlsh_leaves *results, const dlsh_leaves *at, dlsh_value *u, dlsh_value *g) {
    dl_tensor *start[DL_MAX_RESULTS] = {0}, *by[DL_MAX_RESULTS] = {0};
    dl_tensor *root[DL_MAX_RESULTS], *seed[DL_MAX_RESULTS];
    dl_status st = DL_OK;
    if (at->n > DL_MAX_RESULTS) return dlsh_fail(DL_ERR_VALUE, NULL, "at most %d inputs", DL_MAX_RESULTS);
    for (int i = 0; i < results->n && !st; i++)
        if (!(start[i] = zeros_like(results->t[i])) || dl_set_requires_grad(start[i], 1)) st = dl_failed();
    dlsh_leaves from = {start, results->n, 0};
    const int n = st ? 0 : differentiable(results, &from, root, seed);
    if (n) st = dl_gradients_of(root, seed, n, at->t, at->n, 1, 1, by);
    for (int i = 0; i < at->n && !st; i++)
        if (!by[i] && !(by[i] = zeros_like(at->t[i]))) st = dl_failed();
    if (!st) *u = list_of(start, results->n), *g = list_of(by, at->n);
    unref_all(start, results->n);
    unref_all(by, at->n);
    return st ? st : dlsh_failed(*u) || dlsh_failed(*g) ? dl_failed() : DL_OK;
}

static dl_status linearize_run(const dlsh_args *a, dlsh_value *result) {
    SCOPED_SUBJECT s;
    DLSH_SCOPED_LEAVES in = {0}, from = {0}, made = {0};
    DLSH_TRY(subject_begin(a, &s));
    DLSH_TRY(dlsh_tree_leaves(s.args, "inputs", &in));
    kept_call k = {&s, dlsh_void(), dlsh_void()};
    int create;
    dl_status st = keep_call(a, &in, &k, &create);
    DLSH_DROPPED dlsh_value at = k.at, results = k.results, u = dlsh_void(), g = dlsh_void();
    DLSH_TRY(st);
    DLSH_TRY(dlsh_tree_leaves(at, "inputs", &from));
    DLSH_TRY(dlsh_tree_leaves(results, "results", &made));
    DLSH_SCOPED_GRAD_MODE(1);
    DLSH_TRY(linear_gradients(&made, &from, &u, &g));
    return give_bound(&k, create, DLSH_LIST_OF(dlsh_ref(u), dlsh_ref(g), dlsh_ref(s.result), dlsh_int(create)),
                      &linear_row, result);
}

/* ---- jacobian and hessian: for each result, in its form, for each input, in theirs */

typedef struct rows {
    dlsh_value inputs;
    dl_tensor **t;
    int n;
} rows;

static dlsh_value row_at(DLSH_UNUSED dlsh_value leaf, int i, void *ctx) {
    rows *r = ctx;
    return dlsh_tree_of(r->inputs, r->t + (long)i * r->n);
}

dlsh_value dlsh_rows_of(dlsh_value results, dlsh_value inputs, dl_tensor **t, int m, int n) {
    rows r = {inputs, t, n};
    int next = 0;
    dlsh_value made = dlsh_tree_map(results, row_at, &r, &next);
    unref_all(t, m * n);
    return made;
}

static dl_status matrix_run(const dlsh_args *a, dlsh_value *result) {
    const int *second = dlsh_arg_data(a);
    if (!dlsh_given(a, "inputs"))
        return dlsh_derivatives_of(a, *dlsh_arg(a, "function"), *second ? DLSH_HESSIANS : DLSH_JACOBIANS, result);
    SCOPED_SUBJECT s;
    DLSH_SCOPED_LEAVES in = {0};
    DLSH_TRY(subject_begin(a, &s));
    DLSH_TRY(dlsh_tree_leaves(s.args, "inputs", &in));
    int create = dlsh_arg_bool(a, "create_graph"), m = in.n;
    DLSH_FREED dl_tensor **t = calloc((size_t)in.n * DL_MAX_RESULTS + 1, sizeof(dl_tensor *));
    if (!t) return dlsh_no_memory("a matrix of derivatives");
    DLSH_TRY(*second ? dl_hessian(call_subject, &s, in.t, in.n, create, t)
                     : dl_jacobian(call_subject, &s, in.t, in.n, create, &m, t));
    dlsh_value inputs = *dlsh_arg(a, "inputs");
    return dlsh_give(dlsh_rows_of(*second ? inputs : s.result, inputs, t, m, in.n), result);
}
static const int first_order = 0, second_order = 1;

/* ---- the product of the Hessian matrix and a vector: the gradient's gradient along it */

/* Gradients of the function by its inputs, with history. */
static int call_gradient(dl_tensor **in, int n, dl_tensor **out, int max_out, void *arg) {
    dl_tensor *made[DL_MAX_RESULTS], *value = NULL;
    int nmade;
    (void)max_out;
    if (dl_vjp(call_subject, arg, in, n, NULL, 0, 1, made, &nmade, out)) return -1;
    value = nmade == 1 ? dl_ref(made[0]) : NULL;
    unref_all(made, nmade);
    if (value) return dl_unref(value), n;
    unref_all(out, n);
    return dlsh_fail(DL_ERR_VALUE, NULL, "the function gave %d tensors, not one", nmade), -1;
}

static dl_status hvp_run(const dlsh_args *a, dlsh_value *result) {
    SCOPED_SUBJECT s;
    DLSH_SCOPED_LEAVES in = {0}, v = {0};
    dl_tensor *g[DL_MAX_RESULTS], *p[DL_MAX_RESULTS];
    int n;
    DLSH_TRY(begin_along(a, &s, &in, &v));
    if (in.n > DL_MAX_RESULTS)
        return dlsh_arg_fail(a, "inputs", DL_ERR_VALUE, NULL, "at most %d inputs", DL_MAX_RESULTS);
    DLSH_TRY(dl_vjp(call_gradient, &s, in.t, in.n, v.t, v.n, dlsh_arg_bool(a, "create_graph"), g, &n, p));
    unref_all(g, n);
    dlsh_value value = dlsh_ref(s.result), made = dlsh_tree_of(*dlsh_arg(a, "inputs"), p);
    unref_all(p, in.n);
    return dlsh_give(DLSH_LIST_OF(value, made), result);
}

/* ---- vmap */

/* A bound function holds {function, in_dims, out_dims, randomness, chunk_size}; this is one call of it. */
typedef struct batch {
    dlsh_session *session;
    dlsh_value fn, in_dims, out_dims, args, result; /* args: a list, one item for each argument */
    dlsh_leaves leaves;                             /* tensors of the arguments */
    long *dim;                                      /* of each, DL_VMAP_WHOLE: none */
} batch;

/* The dimension that an argument is mapped over: dims is a number or none for all, or has the form of the arguments. */
static const dlsh_value *dims_at(const dlsh_value *dims, dlsh_value of, int i) {
    if (dims->type == DLSH_LIST && of.type == DLSH_LIST) return i < dims->as.list->n ? &dims->as.list->items[i] : NULL;
    if (dims->type == DLSH_RECORD && of.type == DLSH_RECORD)
        return dlsh_record_get(dims->as.record, of.as.record->keys[i]);
    return dims->type == DLSH_LIST || dims->type == DLSH_RECORD ? NULL : dims;
}

static dl_status bad_dims(const char *name) {
    return dlsh_fail(DL_ERR_VALUE, "give one dimension or none for all, or a list of them, one for each",
                     "vmap: %s has another form than what it belongs to", name);
}

/* Calls `see` for every leaf with its dimension. */
typedef dl_status leaf_fn(dlsh_value *leaf, const dlsh_value *dim, void *ctx);
static dl_status each_leaf(dlsh_value *v, const dlsh_value *dims, const char *name, leaf_fn *see, void *ctx) {
    if (!dims) return bad_dims(name);
    int list = v->type == DLSH_LIST;
    if (!list && v->type != DLSH_RECORD) {
        if (dims->type != DLSH_INT && dims->type != DLSH_NONE) return bad_dims(name);
        return see(v, dims, ctx);
    }
    int n = list ? v->as.list->n : v->as.record->n;
    if (dims->type == DLSH_LIST && list && dims->as.list->n != n) return bad_dims(name);
    for (int i = 0; i < n; i++)
        DLSH_TRY(
            each_leaf(list ? &v->as.list->items[i] : &v->as.record->values[i], dims_at(dims, *v, i), name, see, ctx));
    return DL_OK;
}

static dl_status take_argument(dlsh_value *leaf, const dlsh_value *dim, void *ctx) {
    batch *b = ctx;
    if (leaf->type != DLSH_TENSOR) return DL_OK;
    int n = b->leaves.n;
    DLSH_TRY(dlsh_tree_leaves(*leaf, "an argument", &b->leaves));
    long *more = realloc(b->dim, (size_t)(n + 1) * sizeof *more);
    if (!more) return dlsh_no_memory("arguments of vmap");
    b->dim = more;
    b->dim[n] = dim->type == DLSH_NONE ? DL_VMAP_WHOLE : dim->as.i;
    return DL_OK;
}

/* The tensors of one sample, or of all, in the places of those of a tree. */
typedef struct filling {
    dl_tensor **t;
    int next;
} filling;

static dlsh_value fill_leaf(dlsh_value leaf, DLSH_UNUSED int i, void *ctx) {
    filling *f = ctx;
    return leaf.type == DLSH_TENSOR ? dlsh_tensor(dl_ref(f->t[f->next++])) : dlsh_ref(leaf);
}

/* Of a result the form is kept, with a tensor in the place of each: those of one sample are not. */
static dlsh_value form_leaf(dlsh_value leaf, DLSH_UNUSED int i, DLSH_UNUSED void *ctx) {
    return leaf.type == DLSH_TENSOR ? dlsh_tensor(dl_scalar_b(0)) : dlsh_ref(leaf);
}

static int call_sample(dl_tensor **in, DLSH_UNUSED int n, dl_tensor **out, int max_out, void *arg) {
    batch *b = arg;
    filling f = {in, 0};
    int next = 0;
    if (dlsh_check_interrupt()) return -1;
    DLSH_DROPPED dlsh_value args = dlsh_tree_map(b->args, fill_leaf, &f, &next);
    if (dlsh_failed(args)) return -1;
    dlsh_drop(b->result);
    b->result = dlsh_void();
    dlsh_callargs call = {args.as.list->n, args.as.list->items, NULL};
    DLSH_SCOPED_LEAVES made = {0};
    dlsh_variables_hold(1); /* the function must keep nothing of its first sample */
    const dl_status st = dlsh_call(b->session, b->fn, &call, &b->result);
    dlsh_variables_hold(0);
    if (st || dlsh_tree_leaves(b->result, "the result of a function under vmap", &made)) return -1;
    if (made.n > max_out) return dlsh_fail(DL_ERR_VALUE, NULL, "the function gave more than %d tensors", max_out), -1;
    for (int i = 0; i < made.n; i++) out[i] = dl_ref(made.t[i]);
    int count = 0;
    dlsh_value form = dlsh_tree_map(b->result, form_leaf, NULL, &count);
    if (dlsh_failed(form)) return unref_all(out, made.n), -1;
    dlsh_drop(b->result);
    b->result = form;
    return made.n;
}

/* Samples lie along dimension 0 of a result: moves them to where they are wanted; none: the last one alone. */
static dl_status place_result(dlsh_value *leaf, const dlsh_value *dim, DLSH_UNUSED void *ctx) {
    dl_tensor *t = leaf->as.tensor;
    dl_tensor *placed = dim->type == DLSH_NONE ? dl_select(t, 0, -1) : dl_movedim(t, (long[]){0}, 1, &dim->as.i, 1);
    if (!placed) return dl_failed();
    dlsh_drop(*leaf);
    *leaf = dlsh_tensor(placed);
    return DL_OK;
}

/* Says what was called sample by sample: each text once. */
static void tell_each(dlsh_session *s) {
    static char *told[32];
    const char *what = dl_vmap_each();
    if (!*what) return;
    for (int i = 0; i < 32; i++) {
        if (told[i] && !strcmp(told[i], what)) return;
        if (told[i]) continue;
        told[i] = strdup(what);
        dlsh_warn(s, NULL, "vmap calls for each sample: %s", what);
        return;
    }
}

/* Samples from .. from + n of argument i. */
static dl_tensor *samples_of(const batch *b, int i, long from, long n) {
    const long to = from + n;
    return b->dim[i] == DL_VMAP_WHOLE ? dl_ref(b->leaves.t[i]) : dl_slice(b->leaves.t[i], b->dim[i], &from, &to, 1);
}

static dl_status map_samples(batch *b, long from, long n, dl_vmap_random random, dl_tensor **out, int *nout) {
    DLSH_FREED dl_tensor **in = calloc((size_t)b->leaves.n + 1, sizeof *in);
    if (!in) return dlsh_no_memory("arguments of vmap");
    dl_status st = DL_OK;
    for (int i = 0; i < b->leaves.n && !st; i++) st = (in[i] = samples_of(b, i, from, n)) ? DL_OK : dl_failed();
    if (!st) st = dl_vmap(call_sample, b, in, b->dim, b->leaves.n, random, out, nout);
    unref_all(in, b->leaves.n);
    return st;
}

/* Results of a chunk behind those of the chunks before, whose references it takes. */
static dl_status join_chunk(dl_tensor **all, dl_tensor **out, int n, int first) {
    dl_status st = DL_OK;
    for (int i = 0; i < n; i++) {
        dl_tensor *both[2] = {all[i], out[i]};
        all[i] = first ? out[i] : !st ? dl_cat(both, 2, 0) : NULL;
        if (!all[i]) st = dl_failed();
        if (!first) DLSH_UNREF(both[0], both[1]);
    }
    return st;
}

/* So many samples at a time; 0: all. With the same random numbers for all, each chunk draws those of the first. */
static dl_status map_chunks(batch *b, dl_vmap_random random, long chunk, dl_tensor **all, int *nall) {
    long size = -1;
    unsigned long drawn[DL_RNG_STATE];
    for (int i = 0; i < b->leaves.n && size < 0; i++) {
        const long d = b->dim[i], ndim = dl_ndim(b->leaves.t[i]);
        if (d != DL_VMAP_WHOLE && d >= -ndim && d < ndim) size = dl_shape(b->leaves.t[i])[d < 0 ? d + ndim : d];
    }
    if (!chunk || size <= chunk) return dl_vmap(call_sample, b, b->leaves.t, b->dim, b->leaves.n, random, all, nall);
    DLSH_FREED dl_tensor **out = calloc(DL_MAX_VMAP_RESULTS, sizeof *out);
    if (!out) return dlsh_no_memory("results of vmap");
    dl_rng_save(drawn);
    for (long from = 0; from < size; from += chunk) {
        int n = 0;
        if (random == DL_VMAP_SAME) dl_rng_restore(drawn);
        DLSH_TRY(map_samples(b, from, size - from < chunk ? size - from : chunk, random, out, &n));
        if (from && n != *nall) {
            unref_all(out, n);
            return dlsh_fail(DL_ERR_VALUE, NULL,
                             "vmap: the function gave %d tensors for some samples, and %d for others", *nall, n);
        }
        *nall = n;
        DLSH_TRY(join_chunk(all, out, n, from == 0));
    }
    return DL_OK;
}

static dl_status map_batch(batch *b, dl_vmap_random random, long chunk, dlsh_value *result) {
    DLSH_FREED dl_tensor **out = calloc(DL_MAX_VMAP_RESULTS, sizeof *out);
    int n = 0;
    if (!out) return dlsh_no_memory("results of vmap");
    dl_status st = map_chunks(b, random, chunk, out, &n);
    if (st) return unref_all(out, n), st;
    DLSH_DROPPED dlsh_value all = dlsh_tree_of(b->result, out);
    unref_all(out, n);
    DLSH_TRY(dlsh_failed(all) ? dl_failed() : each_leaf(&all, &b->out_dims, "out_dims", place_result, NULL));
    tell_each(b->session);
    return dlsh_hand_over(&all, result);
}

static void batch_free(batch *b) {
    dlsh_drop(b->args);
    dlsh_drop(b->result);
    dlsh_leaves_free(&b->leaves);
    free(b->dim);
}

static dl_status mapped_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_list *made = dlsh_arg(a, "made")->as.list;
    int n = dlsh_arg_count(a, "inputs");
    DLSH_SCOPED(batch_free)
    batch b = {.session = dlsh_arg_session(a),
               .fn = made->items[0],
               .in_dims = made->items[1],
               .out_dims = made->items[2],
               .args = dlsh_new_list(n),
               .result = dlsh_void()};
    if (dlsh_failed(b.args)) return dl_failed();
    for (int i = 0; i < n; i++) DLSH_TRY(dlsh_list_push(b.args.as.list, dlsh_ref(*dlsh_arg_at(a, "inputs", i))));
    DLSH_TRY(each_leaf(&b.args, &b.in_dims, "in_dims", take_argument, &b));
    return map_batch(&b, (dl_vmap_random)made->items[3].as.i, made->items[4].as.i, result);
}

static const dlsh_command mapped =
    DLSH_FN_ROW("vmapped", mapped_run, "vmapped(MADE, INPUT, ...)", "What vmap makes of a function.",
                DLSH_PARAMS({"made", .want = "list", .doc = "function, in_dims, out_dims, randomness, chunk_size"},
                            {"inputs", .flags = DLSH_VARIADIC, .doc = "arguments of the function, for a batch"}));

static dl_status vmap_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_value fn = *dlsh_arg(a, "function"), zero = dlsh_int(0);
    const dlsh_value *in = dlsh_arg(a, "in_dims"), *out = dlsh_arg(a, "out_dims");
    if (!dlsh_callable(fn))
        return dlsh_arg_fail(a, "function", DL_ERR_TYPE, "give a function, an op or a net", "%s cannot be called",
                             dlsh_type_name(fn));
    static const char *const modes[] = {[DL_VMAP_ERROR] = "error", "different", "same"};
    const char *mode = dlsh_arg_str(a, "randomness");
    int random = 0;
    while (random < 3 && strcmp(modes[random], mode)) random++;
    if (random == 3)
        return dlsh_arg_fail(a, "randomness", DL_ERR_VALUE, "error, different or same", "there is no randomness \"%s\"",
                             mode);
    const dlsh_value *at_once = dlsh_arg(a, "chunk_size");
    const long chunk = at_once && at_once->type == DLSH_INT ? at_once->as.i : 0;
    if (chunk < 0 || (at_once && at_once->type == DLSH_INT && !chunk))
        return dlsh_arg_fail(a, "chunk_size", DL_ERR_VALUE, NULL, "chunk_size must be at least 1, got %ld", chunk);
    DLSH_DROPPED dlsh_value made = DLSH_LIST_OF(dlsh_ref(fn), dlsh_ref(in ? *in : zero), dlsh_ref(out ? *out : zero),
                                                dlsh_int(random), dlsh_int(chunk));
    if (dlsh_failed(made)) return dl_failed();
    return dlsh_give(dlsh_new_method(made, (dlsh_value){DLSH_BUILTIN, {.builtin = &mapped}}), result);
}

/* ---- triplet_margin_with_distance_loss */

/* The distance of two tensors by the function, or that of pairwise_distance. A new reference. */
static dl_tensor *distance_of(const dlsh_args *a, dl_tensor *x, dl_tensor *y) {
    const dlsh_value *fn = dlsh_arg(a, "distance_function");
    if (!fn || fn->type == DLSH_NONE) return dl_pairwise_distance(x, y, 2, 1e-6, 0);
    dlsh_value both[2] = {{DLSH_TENSOR, {.tensor = x}}, {DLSH_TENSOR, {.tensor = y}}}, made = dlsh_void();
    dlsh_callargs call = {2, both, NULL};
    if (dlsh_call(dlsh_arg_session(a), *fn, &call, &made)) return NULL;
    if (made.type == DLSH_TENSOR) return made.as.tensor;
    dlsh_arg_fail(a, "distance_function", DL_ERR_TYPE, NULL, "the distance must be a tensor, got %s", dlsh_a(made));
    return dlsh_drop(made), NULL;
}

static dl_status triplet_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *anchor = dlsh_arg_tensor(a, "anchor"), *positive = dlsh_arg_tensor(a, "positive"),
              *negative = dlsh_arg_tensor(a, "negative");
    const double margin = dlsh_arg_float(a, "margin"), zero = 0;
    const char *how = dlsh_arg_str(a, "reduction");
    if (strcmp(how, "mean") && strcmp(how, "sum") && strcmp(how, "none"))
        return dlsh_arg_fail(a, "reduction", DL_ERR_VALUE, NULL, "reduction is mean, sum or none, not %s", how);
    DLSH_OWNED dl_tensor *near = distance_of(a, anchor, positive),
                         *far = near ? distance_of(a, anchor, negative) : NULL;
    if (far && dlsh_arg_bool(a, "swap")) {
        DLSH_OWNED dl_tensor *other = distance_of(a, positive, negative), *was = far;
        far = other ? dl_minimum(was, other) : NULL;
    }
    DLSH_OWNED dl_tensor *gap = far ? dl_sub(near, far) : NULL, *least = dl_scalar_f(margin);
    DLSH_OWNED dl_tensor *over = gap && least ? dl_add(gap, least) : NULL,
                         *each = over ? dl_clamp(over, &zero, NULL) : NULL;
    if (!each) return dl_failed();
    return dlsh_give(dlsh_tensor(!strcmp(how, "none")  ? dl_ref(each)
                                 : !strcmp(how, "sum") ? dl_sum(each, NULL, 0, 0)
                                                       : dl_mean(each, NULL, 0, 0)),
                     result);
}

/* ---- rows */

#define TENSOR_ARGUMENT(name_, doc_)                                                                                   \
    { .name = (name_), .want = "tensor", .doc = (doc_) }
#define FUNCTION_PARAM                                                                                                 \
    { "function", .doc = "a function, op or net from tensors to tensors" }
#define INPUTS_PARAM                                                                                                   \
    {                                                                                                                  \
        "inputs",                                                                                                      \
            .want = "tensor|list|record",                                                                              \
            .doc = "what to call it with: a tensor, a record of tensors, or a list with one item for each argument"    \
    }
#define MAYBE_INPUTS_PARAM                                                                                             \
    {                                                                                                                  \
        "inputs",                                                                                                      \
            .want = "tensor|list|record", .flags = DLSH_OPTIONAL,                                                      \
            .doc = "what to call it with: a tensor, a record of tensors, or a list with one item for each argument"    \
    }
#define CREATE_OPTION                                                                                                  \
    { "create_graph", DLSH_OPT_BOOL, "false", .doc = "the results can be differentiated, by the inputs, too" }

const dlsh_command functional_commands[] = {
    DLSH_FN_ROW("vjp", vjp_run, "vjp(FUNCTION, INPUTS, [V])",
                "A function's result, and the product of a vector with its Jacobian matrix, in a list. The product has "
                "the form of the inputs; the vector that of the result. Without the vector, the result and a function "
                "of the vector, which gives the product; it can be called again, and without a vector where the "
                "result is one number.",
                DLSH_PARAMS(FUNCTION_PARAM, INPUTS_PARAM,
                            {"v", .want = "tensor|list|record", .flags = DLSH_OPTIONAL, .doc = "the vector"}),
                DLSH_OPTIONS(CREATE_OPTION),
                .examples = "y, g = vjp(fn (x) { return x ** 2 }, tensor([1.0, 2.0]), tensor([1.0, 0.5]))\n"
                            "y, back = vjp(fn (x) { return x ** 2 }, tensor([1.0, 2.0])); back(tensor([1.0, 0.5]))"),
    DLSH_FN_ROW("jvp", jvp_run, "jvp(FUNCTION, INPUTS, V)",
                "A function's result, and the product of its Jacobian matrix with a vector, in a list: how the result "
                "changes as the inputs move along the vector.",
                DLSH_PARAMS(FUNCTION_PARAM, INPUTS_PARAM,
                            {"v", .want = "tensor|list|record", .doc = "the vector, in the form of the inputs"}),
                DLSH_OPTIONS(CREATE_OPTION),
                .examples = "y, t = jvp(fn (x, w) { return x @ w }, [randn(2, 3), randn(3)], [randn(2, 3), zeros(3)])"),
    DLSH_FN_ROW(
        "linearize", linearize_run, "linearize(FUNCTION, INPUTS)",
        "A function's result, and the function of a vector that gives the product of its Jacobian matrix at the "
        "inputs with it, in a list, as torch.func has it. The function is called once, however many products "
        "follow.",
        DLSH_PARAMS(FUNCTION_PARAM, INPUTS_PARAM), DLSH_OPTIONS(CREATE_OPTION),
        .examples = "y, along = linearize(fn (x) { return x ** 2 }, tensor([1.0, 2.0])); along(tensor([1.0, 0.5]))"),
    DLSH_FN_ROW(
        "jacobian", matrix_run, "jacobian(FUNCTION, [INPUTS])",
        "Derivatives of every element of a function's result by every element of its inputs: of shape [shape of "
        "the result, shape of the input]; for several results or inputs in lists or records of their form. Without "
        "inputs the same as jacrev: a function.",
        DLSH_PARAMS(FUNCTION_PARAM, MAYBE_INPUTS_PARAM),
        DLSH_OPTIONS(CREATE_OPTION, DLSH_ARGNUMS_OPTION, DLSH_AUX_OPTION), .data = &first_order,
        .examples = "jacobian(fn (x) { return x ** 2 }, tensor([1.0, 2.0]))"),
    DLSH_FN_ROW("hvp", hvp_run, "hvp(FUNCTION, INPUTS, V)",
                "The result of a function with one element, and the product of its Hessian matrix with a vector, in a "
                "list, as PyTorch's torch.autograd.functional has it.",
                DLSH_PARAMS(FUNCTION_PARAM, INPUTS_PARAM,
                            {"v", .want = "tensor|list|record", .doc = "the vector, in the form of the inputs"}),
                DLSH_OPTIONS(CREATE_OPTION),
                .examples = "y, p = hvp(fn (x) { return (x ** 3).sum() }, ones(2), ones(2))"),
    DLSH_FN_ROW("vhp", hvp_run, "vhp(FUNCTION, INPUTS, V)", "The same as hvp: the Hessian matrix is symmetric.",
                DLSH_PARAMS(FUNCTION_PARAM, INPUTS_PARAM,
                            {"v", .want = "tensor|list|record", .doc = "the vector, in the form of the inputs"}),
                DLSH_OPTIONS(CREATE_OPTION),
                .examples = "y, p = vhp(fn (x) { return (x ** 3).sum() }, ones(2), ones(2))"),
    DLSH_FN_ROW(
        "hessian", matrix_run, "hessian(FUNCTION, [INPUTS])",
        "Second derivatives of a function with one result of one element: of shape [shape of the input, shape of "
        "the input]; for several inputs in lists or records of their form. Without inputs, hessian(f) is the function "
        "of f's arguments that gives the second derivatives by argument argnums.",
        DLSH_PARAMS(FUNCTION_PARAM, MAYBE_INPUTS_PARAM),
        DLSH_OPTIONS(CREATE_OPTION, DLSH_ARGNUMS_OPTION, DLSH_AUX_OPTION), .data = &second_order,
        .examples = "hessian(fn (x) { return (x ** 3).sum() }, tensor([1.0, 2.0]))\n"
                    "hessian(fn (x) { return (x ** 3).sum() })(tensor([1.0, 2.0]))"),
    DLSH_FN_ROW(
        "vmap", vmap_run, "vmap(FUNCTION)",
        "A function of one sample as a function of a batch. It is called for the first sample, and the ops that "
        "it called run for all samples at once. Ops without a batched form run for each sample, and so does "
        "the function where it looks at values, as in if x.sum() > 0: a warning says so once. What it makes of a "
        "sample must be a result of it: a tensor that it keeps elsewhere is an error.",
        DLSH_PARAMS(FUNCTION_PARAM),
        DLSH_OPTIONS({"in_dims", DLSH_OPT_VALUE, .want = "int|none|list",
                      .doc = "the dimension of the samples (0), none: an argument is the same for all; a list: "
                             "one for each argument"},
                     {"out_dims", DLSH_OPT_VALUE, .want = "int|none|list|record",
                      .doc = "the dimension of the samples in the results (0)"},
                     {"randomness", DLSH_OPT_STRING, "error",
                      .doc = "random numbers: error refuses them, different draws for each sample, same once "
                             "for all"},
                     {"chunk_size", DLSH_OPT_VALUE, .want = "int|none",
                      .doc = "so many samples at once, to save memory (none: all)"}),
        .examples = "vmap(fn (a, b) { return a.dot(b) })(randn(5, 3), randn(5, 3))"),
    DLSH_FN_ROW(
        "triplet_margin_with_distance_loss", triplet_run,
        "triplet_margin_with_distance_loss(ANCHOR, POSITIVE, NEGATIVE)",
        "How much nearer the negative ones are than the positive ones and a margin, by a distance of one's own.",
        DLSH_PARAMS(TENSOR_ARGUMENT("anchor", "vectors"), TENSOR_ARGUMENT("positive", "what is to be near"),
                    TENSOR_ARGUMENT("negative", "what is to be far")),
        DLSH_OPTIONS({"distance_function", DLSH_OPT_VALUE, .doc = "a function of two tensors (pairwise_distance)"},
                     {"margin", DLSH_OPT_FLOAT, "1", .doc = "by how much farther negative ones shall be"},
                     {"swap", DLSH_OPT_BOOL, "false", .doc = "also the distance of positive and negative ones"},
                     {"reduction", DLSH_OPT_STRING, "mean", .doc = "mean, sum or none"}),
        .examples = "triplet_margin_with_distance_loss(randn(4, 8), randn(4, 8), randn(4, 8), "
                    "distance_function=fn (x, y) { return 1 - cosine_similarity(x, y) })"),
    {0}};
