/* Gradients as values and under test: grad, gradcheck. */
#include "commands/functional.h"
#include "commands/opcheck.h"
#include "debug/debug.h"
#include "debug/finding.h"
#include "dlcore/arithmetic.h"
#include "dlcore/reduce.h"
#include "lang/command.h"
#include "lang/session.h"
#include "view/sink.h"
#include "dlcore/copy.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_INPUTS = 32 };

/* ---- grad(y, x) */

/* Tensors one by one, or in one list. */
static dl_status collect_tensors(const dlsh_args *a, const char *name, dl_tensor **t, int *n) {
    *n = dlsh_arg_count(a, name);
    const dlsh_value *first = *n == 1 ? dlsh_arg_at(a, name, 0) : NULL;
    const dlsh_list *list = first && first->type == DLSH_LIST ? first->as.list : NULL;
    if (list) *n = list->n;
    if (*n > MAX_INPUTS)
        return dlsh_arg_fail(a, name, DL_ERR_VALUE, NULL, "at most %d tensors, not %d", MAX_INPUTS, *n);
    for (int i = 0; i < *n; i++) {
        const dlsh_value *v = list ? &list->items[i] : dlsh_arg_at(a, name, i);
        if (v->type != DLSH_TENSOR)
            return dlsh_arg_fail(a, name, DL_ERR_TYPE, "gradcheck(f, x), or gradcheck(f, [a, b])",
                                 "gradcheck: an input must be a tensor, got %s", dlsh_a(*v));
        t[i] = v->as.tensor;
    }
    return DL_OK;
}

/* What to differentiate by: the tensors of one list or record, else arguments. */
typedef struct wanted {
    const dlsh_args *a;
    dlsh_value of, seed; /* seed: where it is the last argument, else VOID */
    int n;
} wanted;

/* Has the value the shape of the tensor? */
static int has_shape(const dlsh_value *v, const dl_tensor *of) {
    if (v->type != DLSH_TENSOR || dl_ndim(v->as.tensor) != dl_ndim(of)) return 0;
    for (int i = 0; i < dl_ndim(of); i++)
        if (dl_shape(v->as.tensor)[i] != dl_shape(of)[i]) return 0;
    return 1;
}

/* grad(y, x, v) as PyTorch has it: v has the form of y, and nothing can be differentiated by it. Where y is not one
 * number, a v of another shape is one, too, which dl_gradients_of refuses. */
static int last_is_seed(const dlsh_args *a, int n) {
    const dlsh_value output = *dlsh_arg(a, "output"), *last = dlsh_arg_at(a, "inputs", n - 1);
    if (n != 2 || dlsh_given(a, "seed")) return 0;
    if (last->type != DLSH_TENSOR) return last->type == DLSH_LIST;
    if (output.type != DLSH_TENSOR || dl_requires_grad(last->as.tensor)) return 0;
    return dl_numel(output.as.tensor) != 1 || has_shape(last, output.as.tensor);
}

static wanted wanted_of(const dlsh_args *a) {
    wanted w = {a, dlsh_void(), dlsh_void(), dlsh_arg_count(a, "inputs")};
    if (dlsh_given(a, "seed")) w.seed = *dlsh_arg(a, "seed");
    if (last_is_seed(a, w.n)) w.seed = *dlsh_arg_at(a, "inputs", --w.n);
    const dlsh_value *first = dlsh_arg_at(a, "inputs", 0);
    if (w.n != 1 || first->type == DLSH_TENSOR) return w;
    w.of = *first;
    w.n = first->type == DLSH_LIST ? first->as.list->n : first->as.record->n;
    return w;
}

static const dlsh_value *wanted_at(const wanted *w, int i) {
    return w->of.type == DLSH_LIST     ? &w->of.as.list->items[i]
           : w->of.type == DLSH_RECORD ? &w->of.as.record->values[i]
                                       : dlsh_arg_at(w->a, "inputs", i);
}

/* Gradients in the form in which the inputs came: a tensor, a list or a record. Takes the gradients. */
static dl_status give_gradients(const wanted *w, dl_tensor **g, dlsh_value *result) {
    if (w->n == 1 && w->of.type == DLSH_VOID) return dlsh_give(*g ? dlsh_tensor(*g) : dlsh_none(), result);
    int record = w->of.type == DLSH_RECORD;
    dlsh_value v = record ? dlsh_new_record() : dlsh_new_list(w->n);
    dl_status st = dlsh_failed(v) ? dl_failed() : DL_OK;
    for (int i = 0; i < w->n; i++) {
        dlsh_value one = g[i] ? dlsh_tensor(g[i]) : dlsh_none();
        if (st)
            dlsh_drop(one);
        else
            st = record ? dlsh_record_set(v.as.record, w->of.as.record->keys[i], one) : dlsh_list_push(v.as.list, one);
    }
    return dlsh_give_filled(st, v, result);
}

/* The tensors of a tensor or of a list of them, n at most MAX_INPUTS; of seeds, none stands for 1. */
static dl_status tensors_of(const wanted *w, const char *name, dlsh_value v, dl_tensor **t, int *n) {
    const int list = v.type == DLSH_LIST;
    *n = list ? v.as.list->n : 1;
    if (*n < 1 || *n > MAX_INPUTS)
        return dlsh_arg_fail(w->a, name, DL_ERR_VALUE, NULL, "1 to %d tensors, not %d", MAX_INPUTS, *n);
    for (int i = 0; i < *n; i++) {
        const dlsh_value one = list ? v.as.list->items[i] : v;
        if (one.type != DLSH_TENSOR)
            return dlsh_arg_fail(w->a, name, DL_ERR_TYPE, "grad(y, x); grad(f)(x) of a function",
                                 "grad: %s must be a tensor, got %s", name, dlsh_a(one));
        t[i] = one.as.tensor;
    }
    return DL_OK;
}

static dl_status find_gradients(const wanted *w, dl_tensor **in, dl_tensor **out) {
    const dlsh_args *a = w->a;
    dl_tensor *y[MAX_INPUTS], *v[MAX_INPUTS];
    int m = 0, seeds = 0;
    for (int i = 0; i < w->n; i++) {
        const dlsh_value *x = wanted_at(w, i);
        if (x->type != DLSH_TENSOR)
            return dlsh_arg_fail(a, "inputs", DL_ERR_TYPE, "give tensors, a list of them or a record of them",
                                 "grad: an input must be a tensor, got %s", dlsh_a(*x));
        in[i] = x->as.tensor;
    }
    DLSH_TRY(tensors_of(w, "output", *dlsh_arg(a, "output"), y, &m));
    const int seeded = w->seed.type != DLSH_VOID && w->seed.type != DLSH_NONE;
    if (seeded) DLSH_TRY(tensors_of(w, dlsh_given(a, "seed") ? "seed" : "inputs", w->seed, v, &seeds));
    if (seeded && seeds != m)
        return dlsh_arg_fail(a, dlsh_given(a, "seed") ? "seed" : "inputs", DL_ERR_VALUE, "give a seed for each output",
                             "grad: %d seeds for %d outputs", seeds, m);
    return dl_gradients_of(y, seeded ? v : NULL, m, in, w->n, dlsh_arg_bool(a, "retain"),
                           dlsh_arg_bool(a, "create_graph") || dl_differentiating(), out);
}

/* What the output does not depend on has gradient none, or zeros, or is an error. */
static dl_status check_used(const wanted *w, dl_tensor *const *in, dl_tensor **g) {
    const int zeros = dlsh_arg_bool(w->a, "materialize_grads");
    for (int i = 0; i < w->n; i++) {
        if (g[i]) continue;
        if (zeros &&
            !(g[i] = dl_tensor_full(dl_ndim(in[i]), dl_shape(in[i]), dl_dtype_of(in[i]), dl_device_of(in[i]), 0)))
            return dl_failed();
        if (!zeros && !dlsh_arg_bool(w->a, "allow_unused"))
            return dlsh_arg_fail(w->a, "inputs", DL_ERR_VALUE, "allow_unused=true gives none for it",
                                 "grad: the output does not depend on input %d", i);
    }
    return DL_OK;
}

static dl_status grad_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value output = *dlsh_arg(a, "output");
    if (dlsh_callable(output) && !dlsh_arg_count(a, "inputs"))
        return dlsh_derivatives_of(a, output, DLSH_GRADIENT, result);
    if (output.type != DLSH_TENSOR && output.type != DLSH_LIST)
        return dlsh_arg_fail(a, "output", DL_ERR_TYPE, "grad(y, x); grad(f)(x) of a function",
                             "grad: output must be a tensor, got %s", dlsh_a(output));
    wanted w = wanted_of(a);
    if (!w.n)
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "write grad(y, x)", "grad needs a tensor to differentiate by");
    DLSH_FREED dl_tensor **in = malloc(2 * (size_t)w.n * sizeof(dl_tensor *));
    if (!in) return dlsh_no_memory("gradients");
    DLSH_TRY(find_gradients(&w, in, in + w.n));
    dl_status st = check_used(&w, in, in + w.n);
    for (int i = 0; st && i < w.n; i++) dl_unref(in[w.n + i]);
    DLSH_TRY(st);
    return give_gradients(&w, in + w.n, result);
}

/* ---- gradcheck FN INPUT... */

/* Are gradients of gradients checked, too? gradgradcheck says so by its row. */
static int of_second(const dlsh_args *a) { return dlsh_arg_data(a) || dlsh_arg_bool(a, "second"); }

typedef struct subject {
    dlsh_session *session;
    dlsh_value fn;
} subject;

/* Results of the function: a tensor, or a list of them. */
static int take_results(dlsh_value v, dl_tensor **out, int max_out) {
    if (v.type == DLSH_TENSOR) return out[0] = dl_ref(v.as.tensor), 1;
    int n = v.type == DLSH_LIST && v.as.list->n <= max_out ? v.as.list->n : -1;
    for (int i = 0; i < n; i++)
        if (v.as.list->items[i].type != DLSH_TENSOR) n = -1;
    if (n < 0) {
        dlsh_fail(DL_ERR_TYPE, "return a tensor, or a list of at most 8 tensors", "the function returned %s",
                  dlsh_type_name(v));
        return -1;
    }
    for (int i = 0; i < n; i++) out[i] = dl_ref(v.as.list->items[i].as.tensor);
    return n;
}

static int call_subject(dl_tensor **in, int n, dl_tensor **out, int max_out, void *arg) {
    subject *s = arg;
    dlsh_value values[MAX_INPUTS];
    DLSH_DROPPED dlsh_value result = dlsh_void();
    for (int i = 0; i < n; i++) values[i] = (dlsh_value){DLSH_TENSOR, {.tensor = in[i]}};
    dlsh_callargs args = {n, values, NULL};
    if (dlsh_call(s->session, s->fn, &args, &result) != DL_OK) return -1;
    return take_results(result, out, max_out);
}

/* An f64 leaf with the values of a floating tensor; others as they are. */
static dl_tensor *as_leaf(dl_tensor *t) {
    const int complex = dl_dtype_is_complex(dl_dtype_of(t));
    if (!complex && !dl_dtype_is_float(dl_dtype_of(t))) return dl_ref(t);
    DLSH_SCOPED_GRAD_MODE(0);
    dl_tensor *f = dl_to_dtype(t, complex ? DL_C128 : DL_F64), *x = f ? dl_clone(f) : NULL;
    dl_unref(f);
    if (x && dl_set_requires_grad(x, 1) == DL_OK) return x;
    dl_unref(x);
    return NULL;
}

static dlsh_value report_record(const dl_gradcheck_report *r) {
    return DLSH_RECORD_OF({"ok", dlsh_bool(r->ok)}, {"checked", dlsh_int(r->checked)}, {"worst", dlsh_float(r->worst)},
                          {"tolerance", dlsh_float(r->tolerance)}, {"input", dlsh_int(r->input)},
                          {"element", dlsh_int(r->element)}, {"analytic", dlsh_float(r->analytic)},
                          {"numeric", dlsh_float(r->numeric)});
}

/* The index of an element in logical order, as "[1, 2]". */
static const char *index_text(const dl_tensor *t, long element, char *buf, size_t size) {
    long index[8];
    size_t n = 0;
    for (int i = dl_ndim(t) - 1; i >= 0; i--) {
        index[i] = element % dl_shape(t)[i];
        element /= dl_shape(t)[i];
    }
    buf[0] = 0;
    for (int i = 0; i < dl_ndim(t) && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%ld", i ? ", " : "", index[i]);
    return buf;
}

static void print_report(dlsh_sink *sink, const dl_gradcheck_report *r, dl_tensor **in) {
    if (!r->checked) {
        dlsh_put(sink, "gradcheck: nothing to compare: no floating input has elements\n");
        return;
    }
    char index[160];
    index_text(in[r->input], r->element, index, sizeof index);
    dlsh_put(sink,
             "gradcheck %s: %ld elements, worst at input %d [%s]: rule %.10g, differences %.10g, error %.2g (allowed "
             "%.2g)\n",
             r->ok ? "ok" : "FAILED", r->checked, r->input, index, dlsh_plain_nan(r->analytic),
             dlsh_plain_nan(r->numeric), dlsh_plain_nan(r->worst), r->tolerance);
}

/* The op made in C that is to be checked; NULL: something else. */
static const dlsh_userop *user_op(dlsh_value fn) {
    const char *name = fn.type == DLSH_OP ? dlsh_function_name(fn) : NULL;
    return name ? dlsh_userop_find(name) : NULL;
}

/* The tensors given, or samples of an op made in C. Owned. */
static dl_status gradcheck_inputs(const dlsh_args *a, const dlsh_userop *u, dl_tensor **in, int *n) {
    DLSH_TRY(collect_tensors(a, "inputs", in, n));
    for (int i = 0; i < *n; i++) dl_ref(in[i]);
    if (*n) return DL_OK;
    if (!u)
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "for example: gradcheck tanh (randn(3, 2))",
                             "gradcheck needs tensors to call the function with");
    *n = dlsh_userop_inputs(u);
    return dlsh_opcheck_inputs(u, in);
}

/* ---- each node by itself */

/* The real results of the function as one number: their sum. NULL: a recorded failure, or nothing to differentiate. */
static dl_tensor *as_loss(subject *s, dl_tensor **in, int n) {
    DLSH_SCOPED_GRAD_MODE(1);
    dl_tensor *out[8] = {NULL}, *loss = NULL;
    int made = call_subject(in, n, out, 8, s);
    for (int i = 0; i < made; i++) {
        int real = !dl_dtype_is_complex(dl_dtype_of(out[i]));
        dl_tensor *one = real && dl_requires_grad(out[i]) ? dl_sum(out[i], NULL, 0, 0) : NULL, *both = NULL;
        if (loss && one) both = dl_add(loss, one);
        if (!loss) loss = dl_ref(one);
        if (both) dl_unref(loss), loss = both;
        dl_unref(one);
        dl_unref(out[i]);
    }
    return loss;
}

/* Checks the nodes below a number and adds to the record. Where every rule is right by itself, a difference of the
 * whole is that of a kink. */
static dl_status check_nodes(const dlsh_args *a, dl_tensor *loss, int say, dlsh_value record) {
    dlsh_nodecheck sum;
    DLSH_TRY(dlsh_nodecheck_run(dlsh_arg_session(a), dlsh_arg_sink(a), loss, of_second(a), &sum));
    if (sum.failed || sum.kinks || sum.without || say) dlsh_nodecheck_say(dlsh_arg_sink(a), &sum);
    const dlsh_value *whole = dlsh_record_get(record.as.record, "ok");
    int right = whole && whole->as.i, kink = !right && !sum.failed && sum.kinks && !sum.skipped && !sum.without;
    if (kink) dlsh_put(dlsh_arg_sink(a), "each rule is right: the difference is that of the kink\n");
    if (kink) DLSH_TRY(dlsh_record_set(record.as.record, "ok", dlsh_bool(1)));
    DLSH_TRY(dlsh_record_set(record.as.record, "nodes", dlsh_int(sum.nodes)));
    DLSH_TRY(dlsh_record_set(record.as.record, "wrong", dlsh_int(sum.failed)));
    return sum.failed || sum.without ? dlsh_record_set(record.as.record, "ok", dlsh_bool(0)) : DL_OK;
}

/* gradcheck l: the nodes of a number that has been computed. */
static dl_status check_expression(const dlsh_args *a, dl_tensor *y, dlsh_value *result) {
    if (dlsh_arg_count(a, "inputs"))
        return dlsh_arg_fail(a, "inputs", DL_ERR_TYPE, "gradcheck l, or gradcheck FUNCTION INPUT ...",
                             "a tensor is not called with others");
    DLSH_SCOPED_GRAD_MODE(1);
    DLSH_OWNED dl_tensor *loss = dl_sum(y, NULL, 0, 0);
    DLSH_TRY(loss ? dlsh_give(DLSH_RECORD_OF({"ok", dlsh_bool(1)}), result) : dl_failed());
    const dl_status st = check_nodes(a, loss, 1, *result);
    if (st != DL_ERR_AUTOGRAD || !strstr(dl_errmsg(), "was freed by an earlier backward")) return st;
    return dlsh_arg_fail(a, NULL, st, "compute it once more, without a backward pass: gradcheck (mse_loss(net(x), y))",
                         "gradcheck: a backward pass went through this result and freed what its nodes had kept");
}

/* After the function as a whole: recorded once more, its nodes. Of a net the parameters are among the operands. */
static dl_status check_function(const dlsh_args *a, subject *s, dl_tensor **in, int n, dlsh_value record) {
    int had = dl_recording_set(1);
    DLSH_OWNED dl_tensor *loss = as_loss(s, in, n);
    dl_status st = loss ? check_nodes(a, loss, 0, record) : DL_OK;
    dlsh_missing cut;
    const dlsh_value *ok = dlsh_record_get(record.as.record, "ok"), *wrong = dlsh_record_get(record.as.record, "wrong");
    dl_recording_set(had);
    if (!st && ok && !ok->as.b && !(wrong && wrong->as.i) && dlsh_missing_detached(in, n, &cut))
        dlsh_put(dlsh_arg_sink(a), "%s (%s); differences see what comes of it, gradients do not\n", cut.cause,
                 cut.where);
    if (!had) dl_recording_clear();
    return st;
}

/* What no node by itself shows, as of an op made in C. */
static void keep_failure(const dlsh_args *a, dlsh_value fn, const dl_gradcheck_report *r, dlsh_value record) {
    const dlsh_value *ok = dlsh_record_get(record.as.record, "ok"), *wrong = dlsh_record_get(record.as.record, "wrong");
    const char *name = dlsh_function_name(fn);
    if (!ok || ok->as.b || (wrong && wrong->as.i)) return;
    dlsh_finding f = {.by = "gradcheck", .check = "the gradients of a function", .op = name, .pass = "backward"};
    dlsh_cause(&f, "the gradients of %s are not those of differences", name ? name : "a function");
    dlsh_evidence(&f, "input %d, element %ld: rule %.6g, differences %.6g", r->input, r->element,
                  dlsh_plain_nan(r->analytic), dlsh_plain_nan(r->numeric));
    dlsh_finding_keep(dlsh_arg_session(a), &f);
}

static dl_status gradcheck_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *given[MAX_INPUTS], *in[MAX_INPUTS];
    int n, made = 0, ok = 1;
    subject subj = {dlsh_arg_session(a), *dlsh_arg(a, "function")};
    const dlsh_userop *u = user_op(subj.fn);
    if (subj.fn.type == DLSH_TENSOR) return check_expression(a, subj.fn.as.tensor, result);
    if (!dlsh_callable(subj.fn))
        return dlsh_arg_fail(a, "function", DL_ERR_TYPE, "give a function, an op or a net", "%s cannot be called",
                             dlsh_type_name(subj.fn));
    if (u) DLSH_TRY(dlsh_userop_double(u));
    DLSH_TRY(gradcheck_inputs(a, u, given, &n));
    dl_gradcheck_report r = {0};
    dl_status s = DL_OK;
    for (; made < n && s == DL_OK; made++)
        if (!(in[made] = as_leaf(given[made]))) s = dl_failed();
    int forward_only = u && !dlsh_userop_has_backward(u);
    r.ok = forward_only;
    if (s == DL_OK && !forward_only)
        s = dl_gradcheck(call_subject, &subj, in, n, of_second(a), dlsh_arg_float(a, "tol"), &r);
    if (s == DL_OK && forward_only)
        dlsh_put(dlsh_arg_sink(a), "gradcheck: %s was made without backward=, so it has no gradient to compare\n",
                 dlsh_function_name(subj.fn));
    else if (s == DL_OK)
        print_report(dlsh_arg_sink(a), &r, in);
    if (s == DL_OK) s = dlsh_give(report_record(&r), result);
    if (s == DL_OK && u) {
        s = dlsh_opcheck(u, dlsh_function_name(subj.fn), in, n, dlsh_arg_sink(a), result->as.record, &ok);
        if (s == DL_OK && !ok) s = dlsh_record_set(result->as.record, "ok", dlsh_bool(0));
    }
    if (s == DL_OK && !u) s = check_function(a, &subj, in, n, *result);
    if (s == DL_OK && !forward_only) keep_failure(a, subj.fn, &r, *result);
    for (int i = 0; i < made; i++) dl_unref(in[i]);
    for (int i = 0; i < n; i++) dl_unref(given[i]);
    return s;
}

static dl_status is_grad_enabled_run(DLSH_UNUSED const dlsh_args *a, dlsh_value *result) {
    *result = dlsh_bool(dl_grad_mode_get());
    return DL_OK;
}

#define GRADCHECK_PARAMS                                                                                               \
    DLSH_PARAMS(                                                                                                       \
        {"function", .doc = "a function, op or net from tensors to tensors, or a result with a history"},              \
        {"inputs", .want = "tensor|list", .flags = DLSH_VARIADIC,                                                      \
         .doc = "tensors to call it with, one by one or in a list; floating ones are checked, in f64; may be left "    \
                "out for an op made in C"})
#define TOLERANCE_OPTION                                                                                               \
    { "tol", DLSH_OPT_FLOAT, "0.0", .doc = "largest error allowed; 0: 1e-6, and 1e-5 for second derivatives" }
static const int second_too = 1;

const dlsh_command autograd_commands[] = {
    DLSH_FN_ROW("is_grad_enabled", is_grad_enabled_run, "is_grad_enabled()",
                "Are results recorded for gradients? Not within no_grad { ... }."),
    DLSH_PURE_ROW(
        "grad", grad_run, "grad(OUTPUT, INPUT, ...)",
        "Gradients of one tensor with respect to others, as values; .grad is left unchanged. The result is a tensor "
        "for one tensor, a list for several or a list of them, and a record for a record; none where the tensor does "
        "not depend on the other. Of a function alone, grad(f) is the function of f's arguments that gives the "
        "gradient by argument argnums.",
        DLSH_PARAMS(
            {"output",
             .doc = "what to differentiate: a tensor of one number, unless seed is given, or a list; a function"},
            {"inputs", .want = "tensor|list|record", .flags = DLSH_VARIADIC,
             .doc = "tensors to differentiate by, one by one, or in one list or record; behind them, as in PyTorch, "
                    "may stand what seed names"}),
        DLSH_OPTIONS({"seed", DLSH_OPT_VALUE, NULL,
                      .doc = "gradient to start from, in the shape of the output, of several in a list; also called "
                             "grad_outputs",
                      .want = "tensor|list"},
                     {"retain", DLSH_OPT_BOOL, "false", .doc = "keep the history for another pass"},
                     DLSH_ARGNUMS_OPTION, DLSH_AUX_OPTION,
                     {"allow_unused", DLSH_OPT_BOOL, "true",
                      .doc = "false: an error where the tensor does not depend on another"},
                     {"materialize_grads", DLSH_OPT_BOOL, "false",
                      .doc = "zeros instead of none where the tensor does not depend on another"},
                     {"create_graph", DLSH_OPT_BOOL, "false",
                      .doc = "record the pass, so that its results can be differentiated; always so within a function "
                             "that jvp, vjp, jacobian or hessian differentiates"}),
        .examples = "x = param(2.0); y = x ** 3\ng = grad(y, x, create_graph=true); grad(g, x)\n"
                    "gs = grad(l, m.named_parameters())\ngrad(fn (x) { return (x ** 2).sum() })(tensor([1.0, 2.0]))"),
    DLSH_ROW(
        "gradcheck", DLSH_ACTION | DLSH_FUNCTION, gradcheck_run,
        "gradcheck FUNCTION INPUT ... [second] [tol=T] | gradcheck TENSOR [second]",
        "Compares the gradients of a function with central differences, element by element, and reports the worst. "
        "Then each node of the computation is checked by itself, operands that are parameters included: an op whose "
        "rule is wrong is named with its line, also where two errors cancel. Kinks, where slopes from left and right "
        "differ, are not errors. Of a function with one number as its result the figures are slopes; of one with "
        "several "
        "they are those of a sum with fixed weights from 0.5 to 1.5, so that errors do not cancel. "
        "gradcheck l checks the nodes of what has been computed, before a "
        "backward pass frees what they keep. With second the gradients of the gradients are checked too, also of each "
        "node. As a function its result is a "
        "record with ok, checked, worst, tolerance, input, element, analytic, numeric, nodes, wrong.",
        GRADCHECK_PARAMS,
        DLSH_OPTIONS({"second", DLSH_OPT_BOOL, "false", .doc = "check the gradients of the gradients too"},
                     TOLERANCE_OPTION),
        .examples =
            "gradcheck tanh (randn(3, 2))\ngradcheck (fn (a, b) { return a @ b }) (randn(2, 3)) (randn(3, 2)) second\n"
            "w = param(randn(4)); gradcheck (sum(tanh(w) * 2)); gradcheck (sum(tanh(w) * 2)) second"),
    DLSH_ROW("gradgradcheck", DLSH_ACTION | DLSH_FUNCTION, gradcheck_run, "gradgradcheck FUNCTION INPUT ... [tol=T]",
             "The same as gradcheck FUNCTION INPUT ... second: gradients, and the gradients of the gradients.",
             GRADCHECK_PARAMS, DLSH_OPTIONS(TOLERANCE_OPTION), .data = &second_too,
             .examples = "gradgradcheck tanh (randn(3, 2))"),
    {0}};
