/* Names that the text makes and does not use where they belong: arguments that a forward never reads, masks and flags
 * that nothing takes, arguments that stand in each other's places. */
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/checks.h"
#include "debug/doctor/text/reads.h"
#include "debug/doctor/trace.h"
#include "view/elements.h"

/* ---------------------------------------------------------------- what forward reads */

/* Is it a name that the net or its forward gives a meaning to? */
static int is_own_name(const dlsh_node *net, const dlsh_node *forward, const char *name) {
    const dlsh_node *layers = net->kids[net->nkids - 1];
    for (int i = 0; i < layers->nkids; i++)
        if (layers->kids[i]->label && !strcmp(layers->kids[i]->label, name)) return 1;
    for (int i = 0; i < net->nkids; i++)
        if (net->kids[i]->kind == DLSH_N_PARAM && !strcmp(net->kids[i]->text, name)) return 1;
    for (int i = 0; i < forward->nkids; i++)
        if (forward->kids[i]->kind == DLSH_N_PARAM && !strcmp(forward->kids[i]->text, name)) return 1;
    return 0;
}

static int is_assigned_in(const dlsh_node *n, const char *name) {
    DLSH_EACH_BELOW (t, n)
        if (dlsh_assigns(t.n, name)) return 1;
    return 0;
}

/* The first tensor of the session that a forward reads. */
static const dlsh_node *outer_tensor(const dlsh_examination *e, const char *file, const dlsh_node *net,
                                     const dlsh_node *forward, const dlsh_node *n) {
    DLSH_EACH_BELOW (t, n) {
        const dlsh_value *v =
            t.n->kind == DLSH_N_NAME && !is_own_name(net, forward, t.n->text) ? dlsh_value_of(e, file, t.n) : NULL;
        if (v && v->type == DLSH_TENSOR && dl_ndim(v->as.tensor) && !dl_requires_grad(v->as.tensor) &&
            !is_assigned_in(forward, t.n->text))
            return t.n;
    }
    return NULL;
}

/* Is input number i of the net lengths of the sequences in another one? Without a batch its name tells. */
static int are_lengths(const dlsh_examination *e, int i, const char *name) {
    const dlsh_probe *p = &e->probe;
    dlsh_stats s;
    if (!e->probed || i >= p->nin) return strstr(name, "len") != NULL;
    if (dl_dtype_is_float(dl_dtype_of(p->in[i])) || dl_ndim(p->in[i]) != 1 || dlsh_stats_of(p->in[i], &s)) return 0;
    for (int k = 0; k < p->nin; k++)
        if (k != i && dl_ndim(p->in[k]) > 1 && s.min >= 1 && s.max <= (double)dl_shape(p->in[k])[1])
            return s.max > s.min;
    return 0;
}

/* y[:, -1] in a tree; NULL: it has none. */
static const dlsh_node *last_place(const dlsh_node *n) {
    const dlsh_node *found = NULL, *at = n->kind == DLSH_N_INDEX && n->nkids > 2 ? n->kids[2] : NULL;
    const dlsh_node *number = at && at->kind == DLSH_N_UNARY && at->op == DLSH_OP_NEG ? at->kids[0] : NULL;
    if (number && number->kind == DLSH_N_INT && number->num.i == 1) return n;
    if (at && at->kind == DLSH_N_INT && at->num.i == -1) return n;
    for (int i = 0; i < n->nkids && !found; i++) found = n->kids[i] ? last_place(n->kids[i]) : NULL;
    return found;
}

/* The last reading of an argument of a function that is given to the same callee twice, enc(a), enc(a); NULL: none is.
 */
static const dlsh_node *argument_twice(const dlsh_node *fn, const dlsh_node *body) {
    for (int k = 0; k + 1 < fn->nkids; k++) {
        const dlsh_node *first = NULL;
        DLSH_EACH_BELOW (t, body) {
            const dlsh_node *by = t.n->kind == DLSH_N_CALL && t.n->nkids == 2 ? t.n->kids[0] : NULL;
            if (!by || !by->text || fn->kids[k]->kind != DLSH_N_PARAM || !dlsh_names(t.n->kids[1], fn->kids[k]->text))
                continue;
            if (first && !strcmp(first->kids[0]->text, by->text)) return t.n->kids[1];
            first = t.n;
        }
    }
    return NULL;
}

/* Lengths that nobody reads, where the last place is taken, which is padding for most samples. */
static int ignores_lengths(dlsh_examination *e, const char *file, const dlsh_node *body, int i, const char *name) {
    const dlsh_node *last = are_lengths(e, i, name) ? last_place(body) : NULL;
    if (!last ||
        !dlsh_found(e, file, last->span.line,
                    dlsh_kept(e, "the last place of each sample: y[arange(len(y)), %s - 1]", name),
                    "the last place is taken, which is padding for samples that are shorter: forward never reads %s\n"
                    "%s has the lengths of the samples, and stands nowhere in its body",
                    name, name))
        return last != NULL;
    return 1;
}

static void look_at_forward(dlsh_examination *e, const char *file, const dlsh_node *net, const dlsh_node *forward) {
    const dlsh_node *body = forward->kids[forward->nkids - 1];
    for (int i = 0; i + 1 < forward->nkids; i++) {
        const dlsh_node *p = forward->kids[i];
        if (p->kind != DLSH_N_PARAM || *p->text == '_' || p->op || dlsh_mentions(body, p->text)) continue;
        if (ignores_lengths(e, file, body, i, p->text)) return;
        const dlsh_node *twice = argument_twice(forward, body);
        if (twice) {
            dlsh_found(e, file, twice->span.line, dlsh_kept(e, "%s here, in place of %s", p->text, twice->text),
                       "forward never reads its argument %s: %s stands twice\n"
                       "%s stands nowhere in its body; this line reads %s once more",
                       p->text, twice->text, p->text, twice->text);
            return;
        }
        const dlsh_node *other = outer_tensor(e, file, net, forward, body);
        dlsh_finding *f = dlsh_find_at(e, file, other ? other->span.line : forward->span.line,
                                       "compute the result from the argument of forward");
        if (!f) return;
        dlsh_cause(f, "forward never reads its argument %s: the result of %s does not depend on it", p->text,
                   net->text ? net->text : "the net");
        if (other)
            dlsh_evidence(f, "it reads %s, a variable of the script, which holds something else by then", other->text);
        else
            dlsh_evidence(f, "%s stands nowhere in its body", p->text);
    }
}

/* The first call of one of the net's layers in an expression. */
static const dlsh_node *layer_call(const dlsh_node *layers, const dlsh_node *n) {
    DLSH_EACH_BELOW (t, n)
        for (int i = 0; t.n->kind == DLSH_N_CALL && i < dlsh_count_layers(layers); i++)
            if (layers->kids[i]->label && dlsh_names(t.n->kids[0], layers->kids[i]->label)) return t.n;
    return NULL;
}

/* That no gradient reaches its weights was found before, and follows from it. */
static void mark_effects(dlsh_examination *e, const char *layer) {
    for (int i = 0; i < e->nfindings; i++) {
        dlsh_finding *f = &e->findings[i];
        const char *at = strstr(f->cause, "no gradient reaches") ? strstr(f->cause, layer) : NULL;
        f->effect |= at && at > f->cause && at[-1] == '.' && at[strlen(layer)] == '.';
    }
}

/* v = layer(x) in a forward that never reads v. */
static void look_at_results(dlsh_examination *e, const char *file, const dlsh_node *layers, const dlsh_node *forward,
                            const dlsh_node *n) {
    if (!n) return;
    for (int i = 0; i < n->nkids; i++) look_at_results(e, file, layers, forward, n->kids[i]);
    if (n->kind != DLSH_N_ASSIGN || n->nkids != 2 || n->op || n->kids[0]->kind != DLSH_N_NAME) return;
    const char *name = n->kids[0]->text;
    const dlsh_node *call = *name == '_' ? NULL : layer_call(layers, n->kids[1]);
    if (!call || dlsh_reads(forward->kids[forward->nkids - 1], name) || dlsh_mentions(n->kids[1], name)) return;
    dlsh_finding *f =
        dlsh_find_at(e, file, n->span.line, "let it go into what forward returns, or leave the layer out");
    if (!f) return;
    mark_effects(e, call->kids[0]->text);
    dlsh_cause(f, "what %s gives, %s, has no part in the result: no statement of forward reads it", call->kids[0]->text,
               name);
    dlsh_evidence(f, "so that the result does not depend on what %s is given, and its weights get no gradient",
                  call->kids[0]->text);
}

/* The first statement of a function's body that has a name in it. */
static const dlsh_node *first_use(const dlsh_node *body, const char *name) {
    for (int i = 0; i < body->nkids; i++)
        if (body->kids[i] && dlsh_mentions(body->kids[i], name)) return body->kids[i];
    return NULL;
}

/* fn fit(m, ...) { m = build(); ... }: the net that the caller gives is not the one that is trained. */
static void look_at_overwritten(dlsh_examination *e, const char *file, const dlsh_node *fn) {
    const dlsh_node *body = fn->kids[fn->nkids - 1], *root = dlsh_text_root(file);
    for (int k = 0; root && fn->text && k + 1 < fn->nkids; k++) {
        const dlsh_node *p = fn->kids[k], *use = p->kind == DLSH_N_PARAM && !p->op ? first_use(body, p->text) : NULL;
        const int writes = use && use->kind == DLSH_N_ASSIGN && !use->op && dlsh_assigns(use, p->text);
        if (!writes || dlsh_mentions(use->kids[use->nkids - 1], p->text)) continue;
        const dlsh_node *call = dlsh_last_call(root, fn), *given = call ? dlsh_argument_of(call, k, p->text) : NULL;
        if (!given || given->kind != DLSH_N_NAME || !dlsh_object_of(e, file, given, &dlsh_net_class)) continue;
        dlsh_found(e, file, use->span.line, "use the net that is given, or return the one that is made",
                   "%s is overwritten before it is read: %s trains another net than it is given, %s\n"
                   "line %d gives it %s, which stays as it is; what is made here is gone when %s returns",
                   p->text, fn->text, given->text, call->span.line, given->text, fn->text);
    }
}

/* ---------------------------------------------------------------- masks and flags that nothing takes */

/* Is it a sum with a discounted value, as of what comes next? Then two factors would be an average. */
static int is_bootstrapped(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    DLSH_EACH_BELOW (t, n)
        if (t.n->kind == DLSH_N_BINARY && t.n->op == DLSH_OP_ADD) {
            const dlsh_node *a = t.n->kids[0], *b = t.n->kids[1];
            const int scaled = a->kind == DLSH_N_BINARY && a->op == DLSH_OP_MUL;
            const dlsh_node *k = b->kind == DLSH_N_BINARY && b->op == DLSH_OP_MUL ? b->kids[0] : NULL;
            while (k && k->kind == DLSH_N_BINARY && k->op == DLSH_OP_MUL) k = k->kids[0];
            const double discount = k ? dlsh_number_of(e, file, k) : 0;
            if (!scaled && discount > 0.5 && discount < 1) return 1;
        }
    return 0;
}

static int is_attention(DLSH_UNUSED const dlsh_examination *e, DLSH_UNUSED const char *file, const dlsh_node *n) {
    const char *name = n->kind == DLSH_N_CALL ? n->kids[0]->text : NULL;
    return dlsh_speaks_of(name, "attn|attention|encoder|decoder|transformer");
}

static int is_computed_target(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    return n->kind == DLSH_N_ASSIGN && is_bootstrapped(e, file, n->kids[n->nkids - 1]);
}

static int is_loss(DLSH_UNUSED const dlsh_examination *e, DLSH_UNUSED const char *file, const dlsh_node *n) {
    const char *name = n->kind == DLSH_N_CALL ? n->kids[0]->text : NULL;
    return dlsh_speaks_of(name, "loss|entropy");
}

/* What names are made for, and the statement that is meant to take them. */
static const struct {
    const char *words;
    int (*taker)(const dlsh_examination *e, const char *file, const dlsh_node *n);
    const char *without, *remedy;
} roles[] = {
    {"mask", is_attention, "the attention sees all places", "hand the mask over: attn(h, h, h, attn_mask=mask)"},
    {"done|terminal", is_computed_target, "the value of a state behind the end counts, too",
     "reward + gamma * (1 - done) * value of the next state"},
    {"weight", is_loss, "the loss weighs all alike", "hand them over: weight= of the loss"},
};

typedef struct taking {
    const dlsh_examination *e;
    const char *file;
    int (*taker)(const dlsh_examination *e, const char *file, const dlsh_node *n);
    int behind;
} taking;

static const dlsh_node *taker_in(const taking *t, const dlsh_node *n) {
    const dlsh_node *found = NULL;
    if (!n || n->span.end <= t->behind) return NULL;
    for (int i = 0; i < n->nkids && !found; i++) found = taker_in(t, n->kids[i]);
    return found ? found : n->span.start > t->behind && t->taker(t->e, t->file, n) ? n : NULL;
}

/* What a function makes may be meant for another one. */
static const dlsh_node *elsewhere(const char *file, const dlsh_node *scope) {
    return scope->kind == DLSH_N_FN && dlsh_function_of(file, scope->text ? scope->text : "") == scope
               ? dlsh_text_root(file)
               : NULL;
}

/* Is it computed, and of something? */
static int is_computed(const dlsh_node *n) {
    if (n->kind == DLSH_N_LIST) return !n->nkids; /* to be filled */
    if (n->kind != DLSH_N_CALL && n->kind != DLSH_N_BINARY) return 0;
    return n->kind == DLSH_N_BINARY || n->kids[0]->kind == DLSH_N_FIELD || n->nkids > 1;
}

/* A variable whose value is lost: of a function at its end; of a program, which may have figures to be looked at, one
 * of several numbers. */
static void find_lost(dlsh_examination *e, const char *file, const dlsh_node *made, const dlsh_node *scope) {
    const char *name = made->kids[0]->text;
    const int program = (scope->kind != DLSH_N_FN && scope->kind != DLSH_N_NET) || dlsh_trains(scope);
    const dlsh_value *v = program ? dlsh_value_of(e, file, made->kids[0]) : NULL;
    if (program && !(v && v->type == DLSH_TENSOR && dl_ndim(v->as.tensor) > 0)) return;
    if (*name == '_' || !is_computed(made->kids[1])) return;
    dlsh_finding *f = dlsh_find_at(e, file, made->span.line, "use it where it is meant, or leave the statement out");
    dlsh_only_note(e, f);
    dlsh_cause(f, "%s is made and never used", name);
    dlsh_evidence(
        f, program ? "no statement reads %s" : "no statement of the function reads %s, whose value is lost at its end",
        name);
}

/* How often a statement only appends to a list of that name. */
static int appends_to(const dlsh_node *n, const char *name) {
    int count = 0;
    DLSH_EACH_BELOW (t, n) count += dlsh_is_method(t.n, "append") && dlsh_names(t.n->kids[0]->kids[0], name);
    return count;
}

/* Is it known of a flag that no sample has it, or that it is none? */
static int is_never_set(const dlsh_examination *e, const char *file, const dlsh_node *name) {
    const dlsh_value *v = dlsh_value_of(e, file, name);
    dlsh_stats s;
    if (!v || v->type != DLSH_TENSOR) return 0;
    if (dlsh_stats_of(v->as.tensor, &s)) return dl_error_clear(), 0;
    return s.min == s.max && s.max == 0;
}

/* The name that a statement gives a value, which nothing reads: is it one that is meant for another statement? */
static int look_at_unread(dlsh_examination *e, const char *file, const dlsh_node *made, const dlsh_node *to,
                          const dlsh_node *scope) {
    const char *name = to->text;
    for (size_t i = 0; i < DLSH_COUNT(roles); i++) {
        if (!dlsh_speaks_of(name, roles[i].words)) continue;
        const taking t = {e, file, roles[i].taker, made->span.end};
        const dlsh_node *own = taker_in(&t, scope), *use = own ? own : taker_in(&t, elsewhere(file, scope));
        if (use && !is_never_set(e, file, to))
            dlsh_found(e, file, use->span.line, roles[i].remedy,
                       "%s is made and never used: %s\n"
                       "line %d makes it, no statement reads it, and this one, which it is for, does without",
                       name, roles[i].without, made->span.line);
        return 1;
    }
    return 0;
}

/* ---------------------------------------------------------------- what came before it in its place */

/* Is it made of what is trained: a net, a parameter, or a record or list of these? */
static int is_trained_value(const dlsh_value *v) {
    if (!v) return 0;
    if (v->type == DLSH_RECORD) return v->as.record->n && is_trained_value(&v->as.record->values[0]);
    if (v->type == DLSH_LIST) return v->as.list->n && is_trained_value(&v->as.list->items[0]);
    return dlsh_unwrap(*v, &dlsh_net_class) || (v->type == DLSH_TENSOR && dl_requires_grad(v->as.tensor));
}

/* The first name, but that of a function or net, in what a statement computes that stands for weights; NULL: none. */
static const dlsh_node *weights_in(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_node *found = NULL;
    const dlsh_value *v = n && n->kind == DLSH_N_NAME ? dlsh_value_of(e, file, n) : NULL;
    if (!n) return NULL;
    if (v && !dlsh_unwrap(*v, &dlsh_net_class) && is_trained_value(v)) return n;
    for (int i = n->kind == DLSH_N_CALL; i < n->nkids && !found; i++) found = weights_in(e, file, n->kids[i]);
    return found;
}

/* The first node behind a place that reads a name. */
static const dlsh_node *first_read(const dlsh_node *n, const char *name, int behind) {
    DLSH_EACH_BELOW_IF (t, n, t.n->span.end > behind)
        if (t.n->span.start > behind && dlsh_names(t.n, name)) return t.n;
    return NULL;
}

/* fast = adapt(slow, ...), which nothing reads, while what comes behind takes slow. */
static int look_at_replaced(dlsh_examination *e, const char *file, const dlsh_node *made, const dlsh_node *scope) {
    const dlsh_node *value = made->kids[made->nkids - 1], *of;
    if (made->nkids != 2 || (value->kind != DLSH_N_CALL && value->kind != DLSH_N_COMPREHENSION)) return 0;
    of = weights_in(e, file, value);
    const dlsh_node *use = of ? first_read(scope, of->text, made->span.end) : NULL;
    return use &&
           dlsh_found(e, file, use->span.line, dlsh_kept(e, "take %s here", made->kids[0]->text),
                      "%s is made and never used: this line takes %s, which it was made of, as it was before\n"
                      "line %d computes %s of %s, and no statement reads it, although it depends on what is trained",
                      made->kids[0]->text, of->text, made->span.line, made->kids[0]->text, of->text) != NULL;
}

/* ---------------------------------------------------------------- arguments that do not reach the loss */

/* Did a backward pass go through a statement of the function? */
static int gives_loss(const dlsh_examination *e, const char *file, const dlsh_node *fn) {
    const dl_journal_node *op;
    const dlsh_node *body = fn->kids[fn->nkids - 1], *around[DLSH_AROUND];
    for (dlsh_node_walk w = {0}; fn->text && (op = dlsh_node_next(e, NULL, &w));) {
        if (strcmp(op->file, file) != 0 || op->line < body->span.line) continue;
        const dlsh_node *n = dlsh_statement_at(file, op->line);
        const int depth = n ? dlsh_functions_around(dlsh_text_root(file), n->span.start, around) : 0;
        if (depth && around[depth - 1] == fn) return 1;
    }
    return 0;
}

/* The expression behind a statement that has another one of its names twice, za @ za.T beside zb; NULL: there is none.
 */
static const dlsh_node *twice_behind(const dlsh_node *n, const dlsh_node *made, int target) {
    const dlsh_node *found = NULL;
    for (int i = 0; i < n->nkids && !found; i++)
        if (n->kids[i] && n->kids[i]->span.end > made->span.end) found = twice_behind(n->kids[i], made, target);
    if (found || n->kind != DLSH_N_BINARY || n->span.start < made->span.end) return found;
    for (int k = 0; k + 1 < made->nkids; k++)
        if (k != target && made->kids[k]->kind == DLSH_N_NAME && dlsh_mentions(n, made->kids[k]->text) > 1) return n;
    return NULL;
}

/* zb = normalize(b), which no statement of a loss reads: its argument b has no part in it. */
static void look_at_argument(dlsh_examination *e, const char *file, const dlsh_node *made, int target,
                             const dlsh_node *fn) {
    const dlsh_node *value = made->kids[made->nkids - 1], *body = fn->kids[fn->nkids - 1];
    const int several = value->kind == DLSH_N_TUPLE && value->nkids == made->nkids - 1;
    if (fn->kind != DLSH_N_FN || (made->nkids > 2 && !several) || !gives_loss(e, file, fn)) return;
    if (several) value = value->kids[target];
    for (int k = 0; k + 1 < fn->nkids; k++) {
        const char *name = fn->kids[k]->kind == DLSH_N_PARAM ? fn->kids[k]->text : NULL;
        if (!name || !dlsh_mentions(value, name) || dlsh_mentions(body, name) != dlsh_mentions(value, name)) continue;
        const dlsh_node *call = dlsh_last_call(dlsh_text_root(file), fn);
        const dlsh_node *argument = call ? dlsh_argument_of(call, k, name) : NULL;
        if (!argument || !dlsh_uses_net(e, file, argument)) continue;
        const dlsh_node *twice = twice_behind(body, made, target);
        dlsh_found(e, file, twice ? twice->span.line : made->span.line,
                   "let it into the loss, in place of what stands there twice",
                   "the argument %s of %s has no part in the loss: what is made of it, %s, is never used\n"
                   "line %d gives it what a net computes; no statement of the function reads %s, so that the loss "
                   "is the same whatever that is",
                   name, fn->text, made->kids[target]->text, call->span.line, made->kids[target]->text);
    }
}

/* ---------------------------------------------------------------- layers that nothing runs */

/* The call of a layer beside it of the same kind, behind another one, which may have been meant for it; 0: none. */
static int line_of_second_call(const dlsh_node *n, const char *label, int *calls) {
    DLSH_EACH_BELOW (t, n)
        if (t.n->kind == DLSH_N_CALL && dlsh_names(t.n->kids[0], label) && ++*calls == 2) return t.n->span.line;
    return 0;
}

/* The second call of another layer of the kind of an unused one, beside its definition; 0: there is none. */
static int line_of_neighbour(const dl_module *unused, dl_source at) {
    int line = 0;
    DLSH_EACH_NODE (t) {
        const dlsh_node *layers =
            t.n->kind == DLSH_N_NET && !strcmp(t.file, at.file) ? t.n->kids[t.n->nkids - 1] : NULL;
        const dlsh_node *forward = layers ? dlsh_forward_of(layers) : NULL;
        int defines = 0;
        for (int i = 0; forward && i < layers->nkids; i++) defines |= layers->kids[i]->span.line == at.line;
        for (int i = 0; defines && i < layers->nkids && !line; i++) {
            const dlsh_node *k = layers->kids[i];
            const int like = k->kind == DLSH_N_LAYER && k->label && k->text && !strcmp(k->text, dl_module_kind(unused));
            int calls = 0;
            if (like) line = line_of_second_call(forward, k->label, &calls);
        }
        if (line) break;
    }
    return line;
}

/* Layers without weights yet of a net that is trained: these are made as the first input comes. */
static void find_unused(dlsh_examination *e, const dl_module *m) {
    for (int i = 0; i < dl_module_count(m); i++) {
        dl_module *layer = dl_module_at(m, i);
        if (dl_module_is_built(layer)) continue;
        if (dl_module_count(layer)) {
            find_unused(e, layer);
            continue;
        }
        const dl_source at = dlsh_module_source(layer);
        const int other = at.file ? line_of_neighbour(layer, at) : 0;
        dlsh_found(e, at.file, other ? other : at.line, "call it where its result belongs, or leave it out",
                   "the layer %s is never used: nothing has run it, and it has no weights yet\n"
                   "line %d defines it; the net was trained without it%s",
                   dl_module_label(m, i), at.line,
                   other ? ", and another layer of its kind is called a second time here" : "");
    }
}

static void find_unused_layers(dlsh_examination *e) {
    const void *known = NULL;
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        dl_module *m = r->what != known && r->grad && r->count > 4 ? dlsh_live_net(e, r->what, NULL) : NULL;
        if (m && dlsh_is_trained(e, r)) find_unused(e, m), known = r->what;
    }
}

/* ---------------------------------------------------------------- arguments in each other's places */

/* Functions whose arguments mean different things, and what names there say of them. */
static const struct {
    const char *function, *first, *second, *order;
    int at;
} orders[] = {
    {"triplet_margin_loss", "neg", "pos|same", "anchor, positive, negative", 1},
    {"precision_score|recall_score", "pred|guess", "y|target|label|true", "targets, predictions", 0},
};

/* Do all names of an expression that say something say this? */
static int says(const dlsh_node *n, const char *words) {
    if (!n) return 0;
    if (n->kind == DLSH_N_NAME && dlsh_speaks_of(n->text, words)) return 1;
    for (int i = n->kind == DLSH_N_CALL; i < n->nkids; i++)
        if (says(n->kids[i], words)) return 1;
    return 0;
}

static void look_at_order(dlsh_examination *e, const char *file, const dlsh_node *n) {
    const char *name = n->kids[0]->text;
    for (size_t i = 0; name && i < DLSH_COUNT(orders); i++) {
        if (!dlsh_is_word(orders[i].function, name) || n->nkids < orders[i].at + 3) continue;
        const dlsh_node *a = n->kids[1 + orders[i].at], *b = n->kids[2 + orders[i].at];
        if (a->kind == DLSH_N_KWARG || b->kind == DLSH_N_KWARG) return;
        if (!says(a, orders[i].first) || says(a, orders[i].second)) return;
        if (says(b, orders[i].first) || !says(b, orders[i].second)) return;
        dlsh_found(e, file, n->span.line, "swap the two arguments",
                   "arguments of %s stand in each other's places: it takes %s\n"
                   "their names say so: argument %d is what argument %d should be",
                   name, orders[i].order, orders[i].at + 1, orders[i].at + 2);
    }
}

/* ---------------------------------------------------------------- the check */

/* How often a name is read, to be more than appended to, in a function or at the top level; not in functions that have
 * one of their own. */
static int reads_own(const dlsh_node *scope, const dlsh_node *n, const char *name) {
    int count = 0;
    for (int i = 0; i < n->nkids; i++) {
        const dlsh_node *k = n->kids[i];
        const int own = k && k->kind == DLSH_N_FN && dlsh_is_own_name(k, name);
        if (k) count += own ? dlsh_reads(k, name) - appends_to(k, name) : reads_own(scope, k, name);
    }
    return n == scope ? dlsh_reads(scope, name) - appends_to(scope, name) - count : count;
}

static int see_name(void *ctx, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth) {
    dlsh_examination *e = ctx;
    const dlsh_node *scope = dlsh_scope_of(within, depth);
    if (n->kind == DLSH_N_CALL) look_at_order(e, file, n);
    if (n->kind == DLSH_N_FN && dlsh_trains(n)) look_at_overwritten(e, file, n);
    if (n->kind == DLSH_N_NET) {
        const dlsh_node *forward = dlsh_forward_of(n->kids[n->nkids - 1]);
        if (forward) look_at_forward(e, file, n, forward);
        if (forward) look_at_results(e, file, n->kids[n->nkids - 1], forward, forward->kids[forward->nkids - 1]);
    }
    for (int i = 0; n->kind == DLSH_N_ASSIGN && !n->op && scope && i + 1 < n->nkids; i++) {
        const char *name = n->kids[i]->kind == DLSH_N_NAME ? n->kids[i]->text : NULL;
        if (!name || *name == '_' || reads_own(scope, scope, name) > 0) continue;
        const int found = look_at_unread(e, file, n, n->kids[i], scope) || look_at_replaced(e, file, n, scope);
        if (!found) look_at_argument(e, file, n, i, scope);
        if (!found && n->nkids == 2) find_lost(e, file, n, scope);
    }
    return 0;
}

dl_status dlsh_check_names(dlsh_examination *e) {
    const dl_journal_row *r;
    long i = 0;
    r = dlsh_row_next(e, DL_DID_BACKWARD, &i);
    if (r) dlsh_each_within(see_name, e), find_unused_layers(e);
    return DL_OK;
}
