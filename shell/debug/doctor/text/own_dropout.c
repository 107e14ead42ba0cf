/* Units that functions of the script drop themselves, by dropout() or by a mask of their own, in evaluation, too. */
#include <string.h>

#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"
#include "debug/doctor/trial.h"

/* A call of the function that trials run with what an evaluation gives it. */
typedef struct evaluation {
    const dlsh_examination *e;
    const char *function, *file;
    const dlsh_node *call;
    int any; /* with any number of arguments */
    int by;  /* of a function that calls it */
} evaluation;

/* Does a loop around a call repeat it as it is, as for the spread of its results? */
static int repeats_call(const dlsh_node *call, const dlsh_node *const *within, int depth) {
    for (int i = depth - 1; i >= 0 && !(within[i]->kind == DLSH_N_FN && within[i]->text); i--) {
        if (!dlsh_is_loop(within[i]) && within[i]->kind != DLSH_N_COMPREHENSION) continue;
        if (dlsh_trains(within[i])) return 0; /* of epochs */
        int used = 0;
        for (int k = 0; dlsh_is_loop(within[i]) && k + 2 < within[i]->nkids; k++)
            used |= within[i]->kids[k]->kind == DLSH_N_NAME && dlsh_mentions(call, within[i]->kids[k]->text);
        if (!used &&
            !(within[i]->kind == DLSH_N_COMPREHENSION && dlsh_mentions(call, within[i]->kids[0]->kids[0]->text)))
            return 1;
    }
    return 0;
}

/* Does no loss come from what a line computes? */
static int is_of_no_loss(const dlsh_examination *e, const char *file, int line) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if (strcmp(r->file, file) != 0 || dlsh_comes_from(e, file, r->line, line)) return 0;
    return 1;
}

static int see_evaluation(void *ctx, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth) {
    evaluation *v = ctx;
    if (n->kind != DLSH_N_CALL || (n->nkids != 2 && !v->any) || !dlsh_names(n->kids[0], v->function) ||
        repeats_call(n, within, depth))
        return 0;
    if (!dlsh_is_within(within, depth, "no_grad") && !is_of_no_loss(v->e, file, n->span.line)) return 0;
    v->file = file, v->call = n;
    return 1;
}

/* The argument that tells a dropout whether to drop; NULL: there is none. */
static const dlsh_node *mode_of(const dlsh_node *call) {
    if (!strstr(call->kids[0]->text, "dropout")) return NULL;
    return dlsh_argument_of(call, call->kids[0]->kind == DLSH_N_FIELD ? 1 : 2, "training");
}

static int is_true(const dlsh_node *n) { return n && n->kind == DLSH_N_BOOL && n->num.i; }

/* Does a call drop units whatever the mode of a net is? */
static int drops_always(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_node *by = n->kind == DLSH_N_CALL ? n->kids[0] : NULL;
    if (!by || !by->text) return 0;
    if (!strcmp(by->text, "scaled_dot_product_attention"))
        return dlsh_number_of(e, file, dlsh_argument_of(n, by->kind == DLSH_N_FIELD ? 3 : 4, "dropout_p")) > 0;
    return strstr(by->text, "dropout") && !dlsh_is_part_of_net(dlsh_text_root(file), by) &&
           (!mode_of(n) || is_true(mode_of(n)));
}

/* Is it left out in a function where a condition does not hold, or where the function returns before? */
static int is_conditional(const dlsh_tree *t, const dlsh_node *fn) {
    for (int i = t->depth - 1; i >= 0 && t->within[i] != fn; i--)
        if (t->within[i]->kind == DLSH_N_IF || t->within[i]->kind == DLSH_N_COND) return 1;
    DLSH_EACH_BELOW (b, fn)
        if (b.n->kind == DLSH_N_RETURN && b.n->span.end < t->n->span.start) return 1;
    return 0;
}

/* The innermost function around the node of a walk that has a name, fn f(x) or f = fn(x), and that name; NULL: none. */
static const dlsh_node *named_function(const dlsh_tree *t, const char **name) {
    const dlsh_node *fn = NULL;
    for (int i = 0; i < t->depth; i++) {
        const dlsh_node *n = t->within[i],
                        *to = i && t->within[i - 1]->kind == DLSH_N_ASSIGN ? t->within[i - 1]->kids[0] : NULL;
        const char *own = n->kind != DLSH_N_FN            ? NULL
                          : n->text                       ? n->text
                          : to && to->kind == DLSH_N_NAME ? to->text
                                                          : NULL;
        if (own) fn = n, *name = own;
    }
    return fn;
}

/* The call of a function, or of one that calls it whatever it is given, for an evaluation; call NULL: there is none. */
static evaluation evaluated_by(const dlsh_examination *e, const char *file, const char *name, int depth) {
    enum { DEEPEST = 4 };
    evaluation v = {.e = e, .function = name, .any = 1};
    if (dlsh_each_within(see_evaluation, &v) || depth == DEEPEST) return v;
    DLSH_EACH_BELOW (t, dlsh_text_root(file)) {
        const char *own = "";
        const dlsh_node *by =
            t.n->kind == DLSH_N_CALL && dlsh_names(t.n->kids[0], name) ? named_function(&t, &own) : NULL;
        if (!by || !strcmp(own, name) || is_conditional(&t, by)) continue;
        evaluation outer = evaluated_by(e, file, own, depth + 1);
        outer.by = 1;
        if (outer.call) return outer;
    }
    return v;
}

/* Is the share of units that a call drops one number, whoever calls the function around it? */
static int is_share_fixed(const char *file, const dlsh_node *fn, const char *name, const dlsh_node *call) {
    const dlsh_node *p = dlsh_argument_of(call, call->kids[0]->kind == DLSH_N_FIELD ? 0 : 1, "p"), *set = NULL;
    int sets = 0;
    if (!p || p->kind == DLSH_N_FLOAT) return 1;
    if (p->kind != DLSH_N_NAME) return 0;
    for (int k = 0; k + 1 < fn->nkids; k++) {
        if (fn->kids[k]->kind != DLSH_N_PARAM || !dlsh_is_word(fn->kids[k]->text, p->text)) continue;
        DLSH_EACH_BELOW (t, dlsh_text_root(file))
            if (t.n->kind == DLSH_N_CALL && dlsh_names(t.n->kids[0], name) && dlsh_argument_of(t.n, k, p->text))
                return 0;
        return fn->kids[k]->nkids > 0;
    }
    DLSH_EACH_BELOW (t, dlsh_text_root(file))
        if (t.n->kind == DLSH_N_ASSIGN && dlsh_assigns(t.n, p->text)) sets++, set = t.n->kids[t.n->nkids - 1];
    return sets == 1 && set->kind == DLSH_N_FLOAT;
}

/* (rand_like(h) > 0.5).float() / 0.5, bernoulli(...), through names: what chooses by chance; NULL: it is no mask. */
static const dlsh_node *mask_behind(const char *file, const dlsh_node *n, int depth) {
    enum { DEEPEST = 8 };
    if (!n || depth > DEEPEST) return NULL;
    if (dlsh_is_call_of(n, "bernoulli")) return n;
    for (int k = 0; dlsh_is_comparison(n) && k < 2; k++)
        if (dlsh_is_call_of(n->kids[k], "rand|rand_like")) return n;
    if (n->kind == DLSH_N_BINARY && (n->op == DLSH_OP_DIV || n->op == DLSH_OP_MUL))
        return mask_behind(file, n->kids[0], depth + 1);
    if (dlsh_is_call_of(n, "float|to|double|bool") && n->kids[0]->kind == DLSH_N_FIELD)
        return mask_behind(file, n->kids[0]->kids[0], depth + 1);
    return n->kind == DLSH_N_NAME ? mask_behind(file, dlsh_defined(file, n), depth + 1) : NULL;
}

/* Does a condition, or what the function is given beside its data, tell how many units a mask keeps? */
static int is_told(const char *file, const dlsh_node *fn, const dlsh_node *mask) {
    DLSH_EACH_BELOW (t, mask) {
        if (t.n->kind == DLSH_N_COND) return 1;
        if (t.n->kind != DLSH_N_NAME) continue;
        for (int k = 1; k + 1 < fn->nkids; k++)
            if (fn->kids[k]->kind == DLSH_N_PARAM && dlsh_is_word(fn->kids[k]->text, t.n->text)) return 1;
        const dlsh_node *made = dlsh_defined(file, t.n);
        if (made && made->kind == DLSH_N_COND) return 1;
    }
    return 0;
}

/* h * mask, where the mask is drawn in the function: that draw; NULL: it is something else. */
static const dlsh_node *mask_of_product(const char *file, const dlsh_node *fn, const dlsh_node *n) {
    const dlsh_node *found = NULL;
    for (int k = 0; n->kind == DLSH_N_BINARY && n->op == DLSH_OP_MUL && k < 2 && !found; k++)
        found = mask_behind(file, n->kids[k], 0);
    const int own = found && found->span.start > fn->span.start && found->span.end < fn->span.end;
    return own && !is_told(file, fn, found) ? found : NULL;
}

static void tell_plain_dropout(dlsh_examination *e, const char *file, const dlsh_node *n, int evaluated) {
    const int given = mode_of(n) != NULL;
    dlsh_found(e, file, n->span.line,
               strstr(n->kids[0]->text, "attention")
                   ? "a share that the mode decides: dropout_p=(self.training ? 0.1 : 0.0)"
               : evaluated ? "training=training, an argument of the function which says whether it is trained"
                           : "a layer `dropout`, which eval() switches off, or training=m.training",
               "%s drops units in evaluation%s, too: it does not know %s\n"
               "it is called %s training=%s; %s",
               n->kids[0]->text, evaluated ? "" : " mode", evaluated ? "that it is one" : "the mode of the net",
               given ? "with" : "without", given ? "true" : "",
               evaluated ? dlsh_kept(e, "line %d calls the function for an evaluation", evaluated)
                         : "nets are run without gradients, too, as for an evaluation");
}

/* A parameter of the function that tells dropout to drop, and that an evaluation gives true. */
static void look_at_given_mode(dlsh_examination *e, const dlsh_node *fn, const char *name, const dlsh_node *mode,
                               const evaluation *v) {
    const dlsh_node *given = NULL, *parameter = NULL;
    for (int k = 0; v->call && !v->by && k + 1 < fn->nkids; k++) {
        if (fn->kids[k]->kind != DLSH_N_PARAM || !dlsh_is_word(fn->kids[k]->text, mode->text)) continue;
        parameter = fn->kids[k], given = dlsh_argument_of(v->call, k, mode->text);
    }
    if (!parameter || !is_true(given ? given : parameter->nkids ? parameter->kids[0] : NULL)) return;
    dlsh_found(e, v->file, v->call->span.line, dlsh_kept(e, "%s=false for an evaluation", mode->text),
               "%s drops units in an evaluation: it is told to train\n"
               "line %d calls it %s; line %d drops units where it is true",
               name, v->call->span.line,
               dlsh_kept(e, given ? "with %s=true" : "without %s, which is true then", mode->text), mode->span.line);
}

/* A function that drops units by a mask of its own; those of one argument trials tell of. */
static void look_at_masks(dlsh_examination *e, const dlsh_tree *t) {
    const char *name = "";
    const dlsh_node *fn = t->n->kind == DLSH_N_BINARY && dlsh_has_history_at(e, t->file, t->n->span.line)
                              ? named_function(t, &name)
                              : NULL;
    const dlsh_node *mask = fn && fn->nkids > 2 ? mask_of_product(t->file, fn, t->n) : NULL;
    if (!mask || is_conditional(t, fn) || dlsh_net_around(dlsh_text_root(t->file), t->n->span.start)) return;
    const evaluation v = evaluated_by(e, t->file, name, 0);
    if (v.call)
        dlsh_found(e, t->file, mask->span.line, "only in training: an argument that says so, and is read",
                   "%s drops units in evaluation, too\n"
                   "this line draws a mask, and line %d multiplies by it; line %d calls the function for an evaluation",
                   name, t->n->span.line, v.call->span.line);
}

/* A function that drops units, run in training, with nets that are evaluated, too, or run for an evaluation itself. */
static void find_plain_dropout(dlsh_examination *e) {
    int evaluated = 0;
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) evaluated |= !r->grad && dlsh_training_began(e, r);
    DLSH_EACH_NODE (t) {
        look_at_masks(e, &t);
        const dlsh_node *mode = t.n->kind == DLSH_N_CALL && t.n->kids[0]->text ? mode_of(t.n) : NULL;
        const int always = drops_always(e, t.file, t.n), told = mode && mode->kind == DLSH_N_NAME;
        if ((!always && !told) || !dlsh_has_history_at(e, t.file, t.n->span.line)) continue;
        if (always && evaluated && !mode) {
            tell_plain_dropout(e, t.file, t.n, 0);
            continue;
        }
        const char *name = "";
        const dlsh_node *fn = named_function(&t, &name);
        if (!fn || is_conditional(&t, fn) || dlsh_net_around(dlsh_text_root(t.file), t.n->span.start)) continue;
        const evaluation v = evaluated_by(e, t.file, name, 0);
        if (told)
            look_at_given_mode(e, fn, name, mode, &v);
        else if (v.call && is_share_fixed(t.file, fn, name, t.n))
            tell_plain_dropout(e, t.file, t.n, v.call->span.line);
    }
}

static const dlsh_node *function_at(const dlsh_node *n, int line) {
    DLSH_EACH_BELOW (t, n)
        if (t.n->kind == DLSH_N_FN && t.n->text && t.n->span.line == line) return t.n;
    return NULL;
}

/* Has a function a parameter with a default, which a call may set? */
static int has_switch(const dlsh_node *fn) {
    for (int k = 0; k + 1 < fn->nkids; k++)
        if (fn->kids[k]->kind == DLSH_N_PARAM && fn->kids[k]->nkids) return 1;
    return 0;
}

/* Is a name, or a field of that name, asked for in a condition of a tree? */
static int is_asked(const dlsh_node *n, const char *name, int in_condition) {
    if (in_condition && (n->kind == DLSH_N_NAME || n->kind == DLSH_N_FIELD) && !strcmp(n->text, name)) return 1;
    for (int i = 0; i < n->nkids; i++) {
        const int asks = (n->kind == DLSH_N_IF || n->kind == DLSH_N_COND) && !i;
        if (n->kids[i] && is_asked(n->kids[i], name, in_condition || asks)) return 1;
    }
    return 0;
}

/* training = false, or settings.training = false: of what the function around asks for. */
static int see_switched_off(void *ctx, DLSH_UNUSED const char *file, const dlsh_node *n) {
    const dlsh_node *to = n->kind == DLSH_N_ASSIGN && n->nkids == 2 ? n->kids[0] : NULL,
                    *value = to ? n->kids[1] : NULL;
    if (!to || (to->kind != DLSH_N_NAME && to->kind != DLSH_N_FIELD)) return 0;
    const int off = (value->kind == DLSH_N_BOOL || value->kind == DLSH_N_INT) && !value->num.i;
    return (off || value->kind == DLSH_N_NAME || value->kind == DLSH_N_UNARY) && is_asked(ctx, to->text, 0);
}

/* Does a variable, which the program sets, tell the function around a place whether to drop units? Then what a trial
 * finds now says nothing of what was evaluated. */
static int is_switched_elsewhere(const dl_source *at) {
    const dlsh_node *around[DLSH_AROUND], *root = dlsh_text_root(at->file), *s = dlsh_statement_at(at->file, at->line);
    const int depth = root && s ? dlsh_functions_around(root, s->span.start, around) : 0;
    return depth && dlsh_each_node(see_switched_off, (void *)around[depth - 1]);
}

/* A net whose forward drops units itself, in evaluation mode, too. */
static void find_dropout_in_forward(dlsh_examination *e) {
    const dl_journal_row *evaluated = NULL;
    DLSH_EACH_ROW_WHILE (e->probe.net, r, e, DL_DID_FORWARD)
        if (r->what == e->net && !r->training && (!r->grad || !dlsh_is_trained(e, r)) && dlsh_training_began(e, r))
            evaluated = r;
    dl_source by;
    if (!evaluated || !dlsh_find_chosen_by_chance(e, &by) || is_switched_elsewhere(&by)) return;
    dlsh_found(
        e, by.file, by.line, "a layer `dropout`, which eval() switches off, or `if training`",
        "the net drops units in evaluation mode, too\n"
        "tried twice on the same samples, it gives other results: this line chooses at random; line %d evaluates it",
        evaluated->line);
}

/* A function of the script that drops units itself, and does so where it is evaluated, too. */
static void find_own_dropout(dlsh_examination *e) {
    const dlsh_node *root = e->probe.fn ? dlsh_text_root(e->place.file) : NULL;
    const dlsh_node *fn = root ? function_at(root, e->place.line) : NULL;
    evaluation v = {.e = e, .function = fn ? fn->text : NULL};
    dl_source by;
    if (!v.function || !dlsh_each_within(see_evaluation, &v) || !dlsh_find_chosen_by_chance(e, &by) ||
        is_switched_elsewhere(&by))
        return;
    const int set = has_switch(fn);
    dlsh_found(e, v.file, set ? v.call->span.line : by.line,
               set ? "tell the function that it is an evaluation, as train=false"
                   : "only in training: an argument that says so, or a net with a layer dropout",
               "%s drops units in evaluation, too\n"
               "tried twice on the same samples, it gives other results: %s:%d chooses at random; %s:%d calls it for "
               "an evaluation",
               v.function, by.file, by.line, v.file, v.call->span.line);
}

void dlsh_find_own_dropout(dlsh_examination *e) {
    find_plain_dropout(e);
    find_own_dropout(e);
    if (!e->bad) find_dropout_in_forward(e);
}
