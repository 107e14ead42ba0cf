/* Programs that run well and do not do what is meant: a weight that is replaced by a result, a list that holds one net
 * several times, the worst net kept for the best, masks the wrong way round, class numbers as quantities. */
#include <math.h>
#include <string.h>

#include "commands/data/data.h"
#include "commands/nets/nets.h"
#include "debug/doctor/checks.h"
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"
#include "debug/doctor/trace.h"

static const char *callee_of(const dlsh_node *n) { return n && n->kind == DLSH_N_CALL ? n->kids[0]->text : NULL; }

/* Is there a node in the tree for which see holds? */
typedef int test_node(const void *ctx, const dlsh_node *n);
static int any_in(const dlsh_node *n, test_node *test, const void *ctx) {
    DLSH_EACH_BELOW (t, n)
        if (test(ctx, t.n)) return 1;
    return 0;
}

static int is_in(const dlsh_node *const *within, int depth, dlsh_kind kind) {
    for (int i = 0; i < depth; i++)
        if (within[i]->kind == kind) return 1;
    return 0;
}

/* ---------------------------------------------------------------- w = w - rate * w.grad */

static int is_gradient_of(const void *name, const dlsh_node *n) {
    return n->kind == DLSH_N_FIELD && !strcmp(n->text, "grad") && dlsh_names(n->kids[0], name);
}

static void find_replaced_weight(dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_node *to = n->kids[0], *value = n->nkids == 2 ? n->kids[1] : NULL;
    if (n->op || !value || to->kind != DLSH_N_NAME || value->kind != DLSH_N_BINARY) return;
    if (!any_in(value, is_gradient_of, to->text)) return;
    if (dlsh_was_found(e, "statements stand in the right loop", "parameter itself")) return;
    dlsh_found(e, file, n->span.line, "change it in place: no_grad { w -= rate * w.grad }",
               "%s is replaced by a result: it is no parameter any more, and gets no gradient of its own\n"
               "the line gives the name to a new tensor, which was computed; the next backward gives that no gradient",
               to->text);
}

/* ---------------------------------------------------------------- [net] * 3 */

static dlsh_property is_weights(void *ctx, const dlsh_step *at) {
    const dlsh_value *v = dlsh_value_of(ctx, at->file, at->n);
    if (dlsh_is_call_of(at->n, "param|Parameter") || at->n->kind == DLSH_N_NET) return DLSH_HAS_FIRST;
    if (v) return dlsh_unwrap(*v, &dlsh_net_class) ? DLSH_HAS_FIRST : DLSH_HAS_NOT;
    const char *by = callee_of(at->n);
    if (by && dlsh_net_of(at->file, by)) return DLSH_HAS_FIRST;
    return at->n->kind == DLSH_N_NAME || at->n->kind == DLSH_N_RETURN || dlsh_function_called(at->file, at->n)
               ? DLSH_MAY_HAVE
               : DLSH_HAS_NOT;
}

static int makes_weights(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    return dlsh_origin(file, n, is_weights, (void *)e) != NULL;
}

static void find_repeated_net(dlsh_examination *e, const char *file, const dlsh_node *n) {
    const int k = n->kids[0]->kind == DLSH_N_LIST ? 0 : 1;
    const dlsh_node *list = n->kids[k];
    if (n->op != DLSH_OP_MUL || list->kind != DLSH_N_LIST || !list->nkids || !makes_weights(e, file, list->kids[0]))
        return;
    dlsh_found(e, file, n->span.line, "make each anew: [layer(8) for i in range(3)]",
               "the list holds the same weights several times: its layers are one layer\n"
               "* repeats references; nothing is copied, and all items are trained as one");
}

/* What holds one object as an item, by its address; NULL: no net and no parameter. */
static const void *weights_in(dlsh_value v) {
    if (v.type == DLSH_TENSOR) return dl_requires_grad(v.as.tensor) && dl_is_leaf(v.as.tensor) ? v.as.tensor : NULL;
    return dlsh_unwrap(v, &dlsh_net_class);
}

/* What puts an item into a list in each round of a loop, nets.append(net), [net for k in range(5)], whatever holds the
 * list; NULL: it is written out, or not known. */
static const dlsh_node *fills(const char *file, const dlsh_holder *h) {
    const dlsh_node *root = dlsh_text_root(file);
    const dlsh_node *made = root ? dlsh_define(root, h->name, h->place).value : NULL;
    const dlsh_node *fn = dlsh_function_called(file, made), *back = fn ? dlsh_last_return(fn) : NULL;
    const dlsh_node *given = back && back->nkids ? back->kids[0] : NULL;
    const char *name = given && given->kind == DLSH_N_NAME ? given->text : h->name;
    if (given && given->kind != DLSH_N_NAME) made = given;
    if (made && made->kind == DLSH_N_COMPREHENSION) return made;
    DLSH_EACH_BELOW (t, made ? root : NULL) {
        const int adds = t.n->kind == DLSH_N_ASSIGN && t.n->op == DLSH_OP_ADD && dlsh_names(t.n->kids[0], name);
        if ((adds || (dlsh_is_method(t.n, "append") && dlsh_names(t.n->kids[0]->kids[0], name))) &&
            dlsh_tree_in_loop(&t))
            return t.n;
    }
    return NULL;
}

/* Are the items of a list trained or asked apart from each other, by optimizers of their own, or [m(x) for m in nets]?
 * Layers that follow each other may be one on purpose. */
static int are_meant_apart(const dlsh_examination *e, const char *list, dlsh_value item) {
    dl_module *m = dlsh_unwrap(item, &dlsh_net_class);
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = m ? dl_module_tensors(m, 1) : NULL;
    const void *p = m ? l && l->n ? l->entries[0].tensor : NULL : item.as.tensor;
    dl_optimizer *o;
    int trained = 0;
    for (int i = 0; (o = dlsh_optimizer_at(e, i, NULL)); i++) trained += dlsh_optimizer_has(o, p);
    if (trained > 1) return 1;
    DLSH_EACH_NODE (t) {
        if (t.n->kind != DLSH_N_COMPREHENSION || !dlsh_mentions(t.n->kids[1], list)) continue;
        DLSH_EACH_BELOW (c, t.n->kids[0])
            if (c.n->kind == DLSH_N_CALL && c.n->kids[0]->kind == DLSH_N_NAME &&
                dlsh_is_item_of(t.n, c.n->kids[0]->text))
                return 1;
    }
    return 0;
}

/* A list that was filled in a loop with one and the same net. */
static void find_same_net(dlsh_examination *e, const char *file) {
    DLSH_EACH_HOLDER (h, &e->holders) {
        const dlsh_list *l = h->value.type == DLSH_LIST ? h->value.as.list : NULL;
        const void *first = l && l->n > 1 ? weights_in(l->items[0]) : NULL;
        long same = 0;
        for (long i = 0; first && i < l->n; i++) same += weights_in(l->items[i]) == first;
        const dlsh_node *by = first && same == l->n ? fills(h->file ? h->file : file, h) : NULL;
        if (!by) continue;
        dlsh_finding *f =
            dlsh_found(e, h->file ? h->file : file, by->span.line,
                       "make or copy it anew for each item: net.copy(), or the call that makes it within the loop",
                       "the list holds the same weights several times: its %d items are one\n"
                       "each round puts a reference to what was made before the loop into %s; nothing is copied",
                       l->n, h->name);
        if (!are_meant_apart(e, h->name, l->items[0])) dlsh_only_note(e, f);
    }
}

/* ---------------------------------------------------------------- the best of several */

/* name = value, in a block; the name may be a field, as of a record. */
static int sets(const char *file, const dlsh_node *n, const dlsh_node *best, const char *value) {
    for (int i = 0; n && i < n->nkids; i++) {
        const dlsh_node *a = n->kids[i];
        if (a && a->kind == DLSH_N_ASSIGN && !a->op && a->nkids == 2 && dlsh_same_text(file, a->kids[0], best) &&
            dlsh_names(a->kids[1], value))
            return 1;
    }
    return 0;
}

static int is_comparison(const dlsh_node *c) {
    return c->kind == DLSH_N_BINARY &&
           (c->op == DLSH_OP_LT || c->op == DLSH_OP_LE || c->op == DLSH_OP_GT || c->op == DLSH_OP_GE);
}

static void look_at_comparison(dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node *c) {
    const int less = c->op == DLSH_OP_LT || c->op == DLSH_OP_LE;
    for (int k = 0; k < 2; k++) {
        const dlsh_node *v = c->kids[k], *best = c->kids[1 - k];
        if (v->kind != DLSH_N_NAME || (best->kind != DLSH_N_NAME && best->kind != DLSH_N_FIELD)) continue;
        if (!sets(file, n->kids[1], best, v->text)) continue;
        const int keeps_low = less == (k == 0), aim = dlsh_aim_of(file, v);
        if (!aim || (aim < 0) == keeps_low || dlsh_was_found(e, "the best is the best", "")) return;
        dlsh_found(e, file, n->span.line,
                   aim < 0 ? "keep the smaller one: if loss < best" : "keep the larger one: if acc > best",
                   "the comparison is the wrong way round: what is kept as the best is the worst\n"
                   "%s is %s, and %s takes it when it is %s",
                   v->text, aim < 0 ? "an error, which is to be small" : "a score, which is to be large", best->text,
                   keeps_low ? "smaller" : "larger");
        return;
    }
}

/* if v > best { best = v ... } of an error, or < of a score; the condition may have other parts, too. */
static void find_worst_kept(dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_node *c = n->kids[0];
    if (is_comparison(c)) look_at_comparison(e, file, n, c);
    for (int k = 0; (c->kind == DLSH_N_AND || c->kind == DLSH_N_OR) && k < c->nkids; k++)
        if (is_comparison(c->kids[k])) look_at_comparison(e, file, n, c->kids[k]);
}

/* ---------------------------------------------------------------- masks of lengths */

/* Lengths differ from sample to sample: a number parts the samples themselves. */
static int are_lengths(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_value *v = dlsh_value_of(e, file, n);
    if (v) return v->type == DLSH_TENSOR && dl_numel(v->as.tensor) > 1;
    return isnan(dlsh_number_of(e, file, n));
}

/* arange(T) > lengths: 1, of places behind the end; < : -1, of places within; 0: neither. */
static int mask_kind(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    while (n && n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD) n = n->kids[0]->kids[0];
    if (!n || n->kind != DLSH_N_BINARY) return 0;
    const int less = n->op == DLSH_OP_LT || n->op == DLSH_OP_LE, more = n->op == DLSH_OP_GT || n->op == DLSH_OP_GE;
    const dlsh_node *a = n->kids[0], *b = n->kids[1];
    while (a->kind == DLSH_N_INDEX) a = a->kids[0];
    while (b->kind == DLSH_N_INDEX) b = b->kids[0];
    const int left = dlsh_is_word("arange", callee_of(a)), right = dlsh_is_word("arange", callee_of(b));
    if (left == right || (!less && !more) || !are_lengths(e, file, left ? b : a)) return 0;
    return (left ? more : less) ? 1 : -1;
}

static int kind_of_name(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    while (n && (n->kind == DLSH_N_INDEX || (n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD)))
        n = n->kind == DLSH_N_INDEX ? n->kids[0] : n->kids[0]->kids[0];
    const dlsh_node *made = dlsh_defined(file, n);
    return made ? mask_kind(e, file, made) : 0;
}

static int mask_line(const char *file, const dlsh_node *n, int otherwise) {
    while (n && (n->kind == DLSH_N_INDEX || (n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD)))
        n = n->kind == DLSH_N_INDEX ? n->kids[0] : n->kids[0]->kids[0];
    const dlsh_node *made = dlsh_defined(file, n);
    return made ? made->span.line : otherwise;
}

static void tell_mask(dlsh_examination *e, const char *file, const dlsh_node *mask, int line, const char *how) {
    dlsh_found(e, file, mask_line(file, mask, line), "turn the comparison round",
               "the mask is the wrong way round: it leaves the padding, and takes what is real away\n"
               "places are numbered from 0, and those below the length are real; line %d %s",
               line, how);
}

/* Is it a number, by which a mask is made a penalty? */
static int is_a_number(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_value *v = dlsh_value_of(e, file, n);
    return !isnan(dlsh_number_of(e, file, n)) || (v && dlsh_is_number(*v));
}

static void find_turned_mask(dlsh_examination *e, const char *file, const dlsh_node *n) {
    if (n->kind == DLSH_N_BINARY && n->op == DLSH_OP_MUL)
        for (int k = 0; k < 2; k++)
            if (!is_a_number(e, file, n->kids[1 - k]) && kind_of_name(e, file, n->kids[k]) == 1)
                tell_mask(e, file, n->kids[k], n->span.line, "keeps what it is 1 for, those behind the end");
    if (dlsh_is_method(n, "masked_fill") && n->nkids > 1 && kind_of_name(e, file, n->kids[1]) == -1)
        tell_mask(e, file, n->kids[1], n->span.line, "overwrites what it is true for, those within the length");
}

/* ---------------------------------------------------------------- tensors that were to be parameters */

static int is_activation(const void *ctx, const dlsh_node *n) {
    (void)ctx;
    return dlsh_is_word("relu|tanh|sigmoid|gelu|silu|elu|leaky_relu|softplus", callee_of(n));
}

/* x @ w of a random tensor that nothing can train, beside parameters. */
static void find_plain_weight(dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_node *w = n->op == DLSH_OP_MATMUL ? n->kids[1] : NULL;
    const dlsh_value *v = dlsh_value_of(e, file, w);
    if (!v || v->type != DLSH_TENSOR || dl_requires_grad(v->as.tensor) || dl_ndim(v->as.tensor) != 2) return;
    const dlsh_node *made = dlsh_defined(file, w);
    if (made && made->kind == DLSH_N_BINARY && made->op == DLSH_OP_MUL)
        made = made->kids[0]->kind == DLSH_N_CALL ? made->kids[0] : made->kids[1];
    if (!dlsh_is_word("randn|rand|normal|uniform", callee_of(made))) return;
    const dlsh_node *statement = dlsh_statement_at(file, n->span.line);
    if (!dlsh_has_history_at(e, file, n->span.line) && !any_in(statement, is_activation, NULL)) return;
    int used = 0;
    DLSH_EACH_ROW_WHILE (!used, r, e, DL_DID_BACKWARD)
        used = r->count > 2 && !strcmp(r->file, file) && dlsh_comes_from(e, file, r->line, n->span.line) &&
               !dlsh_is_before_loop(file, n->span.line, r->line);
    if (!used) return;
    dlsh_finding *f = dlsh_found(
        e, file, made->span.line,
        "w = param(randn(3, 4) * 0.1), and give it to the optimizer; none, "
        "if it is to stay random",
        "%s is no parameter: it stays as random as it was made\n"
        "line %d multiplies by it on the way to the loss; it was made without param, so that it has no gradient",
        w->text, n->span.line);
    dlsh_only_note(e, f);
}

/* ---------------------------------------------------------------- targets */

static dlsh_property is_random(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    if (dlsh_is_call_of(at->n, "randn|rand|randint|randn_like|rand_like|normal")) return DLSH_HAS_FIRST;
    const int passes = at->n->kind == DLSH_N_NAME || at->n->kind == DLSH_N_TUPLE || dlsh_is_record(at->n) ||
                       at->n->kind == DLSH_N_FIELD || dlsh_function_called(at->file, at->n);
    return passes || dlsh_is_call_of(at->n, "float|long|to|reshape|view|unsqueeze|squeeze|detach") ? DLSH_MAY_HAVE
                                                                                                   : DLSH_HAS_NOT;
}

/* The numbers that are drawn for y in each pass, and which nothing that x is made of sees; NULL: there are none. */
static const dlsh_node *drawn_apart(const char *file, const dlsh_node *x, const dlsh_node *y, int line) {
    dlsh_course way;
    const dlsh_node *drawn = dlsh_origin(file, y, is_random, NULL);
    if (!drawn || (drawn->span.line != line && !dlsh_runs_in_loop(file, drawn->span.line, line))) return NULL;
    dlsh_course_of(file, x, &way);
    for (int i = 0; i < way.n; i++)
        if (way.at[i].n == drawn) return NULL;
    return way.n < DLSH_STEPS ? drawn : NULL;
}

/* mse_loss(m(x), randn_like(y)), (m(x) - e).pow(2): noise that nothing else sees. */
static void find_noise_target(dlsh_examination *e, const char *file, const dlsh_node *n) {
    const char *by = callee_of(n);
    const dlsh_node *x = NULL, *y = NULL, *of = n->kind == DLSH_N_BINARY && n->op == DLSH_OP_POW ? n->kids[0] : NULL;
    if (dlsh_is_call_of(n, "pow|square|abs")) of = n->kids[0]->kind == DLSH_N_FIELD ? n->kids[0]->kids[0] : n->kids[1];
    if (of && of->kind == DLSH_N_BINARY && of->op == DLSH_OP_SUB) {
        const int right = dlsh_uses_net(e, file, of->kids[1]);
        x = of->kids[right], y = of->kids[!right];
    } else if (by && n->nkids > 2 && (strstr(by, "loss") || strstr(by, "entropy"))) {
        x = n->kids[1], y = dlsh_argument_of(n, 1, "target");
    }
    if (!x || !y || !dlsh_uses_net(e, file, x) || !dlsh_has_history_at(e, file, n->span.line)) return;
    const dlsh_node *drawn = drawn_apart(file, x, y, n->span.line);
    if (!drawn) return;
    dlsh_found(e, file, drawn->span.line,
               "the targets of the samples; of noise the same numbers that the input was given",
               "the targets are random numbers, made anew for each pass: there is nothing to learn\n"
               "line %d compares the result with them, and nothing that the result is made of sees these numbers",
               n->span.line);
}

static int see(void *ctx, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth) {
    dlsh_examination *e = ctx;
    if (n->kind == DLSH_N_ASSIGN) find_replaced_weight(e, file, n);
    if (n->kind == DLSH_N_BINARY && n->nkids == 2) find_repeated_net(e, file, n), find_plain_weight(e, file, n);
    if (n->kind == DLSH_N_IF &&
        (is_in(within, depth, DLSH_N_FOR) || is_in(within, depth, DLSH_N_WHILE) || is_in(within, depth, DLSH_N_FN)))
        find_worst_kept(e, file, n);
    find_turned_mask(e, file, n);
    if (n->kind == DLSH_N_CALL || n->kind == DLSH_N_BINARY) find_noise_target(e, file, n);
    return 0;
}

/* ---------------------------------------------------------------- class numbers as quantities */

static int whole_targets(const dl_journal_value *v, double classes) {
    if (!v->there || !v->constant || v->nfew < 8 || v->low < 0 || v->high > classes - 1 || v->low == v->high) return 0;
    for (long i = 0; i < v->nfew; i++)
        if (v->few[i] != floor(v->few[i])) return 0;
    return 1;
}

static void look_at_quantities(dlsh_examination *e, dlsh_pass p) {
    long classes = 0;
    DLSH_EACH_HOLDER (h, &e->holders) {
        const dl_dataset *d = dlsh_unwrap(h->value, &dlsh_dataset_class);
        const long k = d ? dl_dataset_classes(d) : 0;
        classes = k > classes ? k : classes;
    }
    for (long i = 0; classes > 2 && i < p.n; i++) {
        const dl_journal_node *n = &p.at[i];
        const int huber = dlsh_op_is(n, "huber_difference");
        if (!huber && !dlsh_op_is(n, "sub")) continue;
        if (n->out.ndim > 2 || (n->out.ndim == 2 && n->out.shape[1] != 1)) continue;
        const int unknown = n->in[0].constant != n->in[1].constant && !n->in[!n->in[0].constant].n;
        const int cast = unknown && dlsh_script_has(e, n->file, n->line, "float()"); /* targets were not saved */
        if (!cast && !whole_targets(&n->in[1], (double)classes) && !whole_targets(&n->in[0], (double)classes)) continue;
        dlsh_found(e, n->file, n->line, "a score for each class, and cross_entropy",
                   "class numbers are taken for quantities: class 2 is not twice class 1\n"
                   "the loss is of differences to numbers of classes, 0 to %ld; a net that is not sure lands between "
                   "classes that have nothing in common",
                   classes - 1);
        return;
    }
}

/* ---------------------------------------------------------------- rows in two orders */

static int turns_text(const dlsh_examination *e, const char *file, int line) {
    return dlsh_script_has(e, file, line, ".T") || dlsh_script_has(e, file, line, "transpose") ||
           dlsh_script_has(e, file, line, "permute") || dlsh_script_has(e, file, line, "swapaxes");
}

/* Scores [T, N, C] in rows, for inputs [N, T]: their targets, in the order of the inputs, are those of other places. */
static void look_at_rows(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_node *by =
        dlsh_op_is(n, "cross_entropy|nll_picked|log_softmax") ? dlsh_pass_node(p, n->in[0].from) : NULL;
    if (!dlsh_op_is(by, "reshape|view|flatten") || by->in[0].ndim != 3 || by->out.ndim != 2) return;
    const long t = by->in[0].shape[0], b = by->in[0].shape[1];
    if (t == b || by->out.shape[0] != t * b || turns_text(e, n->file, n->line)) return;
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        if (!r->grad || r->ndim < 2 || r->shape[0] != b || r->shape[1] != t) continue;
        dlsh_found(e, n->file, n->line, "give both one order before they become rows: out.transpose(0, 1)",
                   "labels do not belong to their scores: both become rows in different orders\n"
                   "the net makes [%ld,%ld,%ld] of an input [%ld,%ld]: its rows are by places first, those of targets "
                   "like the input by samples",
                   t, b, by->in[0].shape[2], b, t);
        return;
    }
}

dl_status dlsh_check_habits(dlsh_examination *e) {
    dlsh_each_within(see, e);
    const dl_journal_row *pass = dlsh_row_behind(e, DL_DID_BACKWARD, NULL);
    if (pass) find_same_net(e, pass->file);
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        const dlsh_pass p = dlsh_pass_of(r, 1);
        look_at_quantities(e, p);
        for (long k = 0; k < p.n; k++) look_at_rows(e, p, &p.at[k]);
        for (long k = 0; k < p.n && !dlsh_was_found(e, "gradients get through", "the product behind it"); k++)
            dlsh_find_weights_of_sum(e, p, &p.at[k], 0);
    }
    return DL_OK;
}
