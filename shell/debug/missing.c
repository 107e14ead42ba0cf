/* Why a gradient is missing or zero: `why none`, `why zero`, from what was recorded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/debug.h"
#include "debug/doctor/doctor.h"
#include "debug/doctor/trace.h"
#include "debug/path.h"
#include "view/elements.h"
#include "view/sink.h"

/* What is said: cause, evidence with its line, remedy. */
typedef dlsh_missing finding;

static void set_place(finding *f, const dl_recorded *c) {
    dlsh_debug_place(c, f->where, sizeof f->where);
    f->file = c->file, f->line = c->line;
}

static dl_status show(const dlsh_args *a, const finding *f) {
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"cause", 'l', ""}, {"at", 'l', ""}, {"remedy", 'l', ""});
    DLSH_TRY(DLSH_TABLE_ROW(&t, dlsh_string(f->cause), *f->where ? dlsh_string(f->where) : dlsh_none(),
                            f->remedy ? dlsh_string(f->remedy) : dlsh_none()));
    return dlsh_table_show(dlsh_arg_sink(a), &t, DL_OK, NULL);
}

/* The numbers of nodes reached so far. */
typedef struct reached {
    unsigned long *seq;
    int n, cap;
} reached;

static int has(const reached *r, unsigned long seq) {
    for (int i = r->n - 1; seq && i >= 0; i--)
        if (r->seq[i] == seq) return 1;
    return 0;
}

static dl_status reach(reached *r, unsigned long seq) {
    if (has(r, seq)) return DL_OK;
    unsigned long *more = dlsh_grow(r->seq, r->n, &r->cap, sizeof *r->seq);
    if (!more) return dl_failed();
    r->seq = more;
    r->seq[r->n++] = seq;
    return DL_OK;
}

/* Is the leaf an operand, itself, or else cut off, as by detach? */
static int uses(const dl_recorded *c, const dl_tensor *x, int itself) {
    for (int k = 0; k < c->nin; k++)
        if (c->in[k] && !c->from[k] && dl_data(c->in[k]) == dl_data(x) && c->needs[k] == itself) return 1;
    return 0;
}

/* ---------------------------------------------------------------- why none */

/* The recorded call whose result, which has a history, lies at `data`; 0: none. */
static int made_at(const void *data, dl_recorded *out) {
    for (long i = dl_recording_count() - 1; i >= 0; i--)
        if (!dl_recording_at(i, out) && !out->gradient && !out->rule && out->seq && out->nout && out->out[0] &&
            dl_data(out->out[0]) == data)
            return 1;
    return 0;
}

static void no_need(dl_tensor *x, finding *f) {
    dl_recorded c;
    if (!dl_dtype_is_float(dl_dtype_of(x))) {
        snprintf(f->cause, sizeof f->cause, "it is %s: whole numbers have no gradient", dl_dtype_name(dl_dtype_of(x)));
        f->remedy = "x.to(f32), then param(x)";
    } else if (made_at(dl_data(x), &c)) {
        snprintf(f->cause, sizeof f->cause,
                 "it is a result without its history: detach(), no_grad or .data cut it off");
        f->remedy = "use the result itself";
        set_place(f, &c);
    } else {
        snprintf(f->cause, sizeof f->cause, "it needs no gradient: made without grad=true, or frozen");
        f->remedy = "param(x), tensor(..., grad=true), or x.requires_grad = true";
    }
}

/* A call without a node although an operand needs a gradient: its result has none, its op has no rule, or no_grad. */
static void explain_bare(const dl_recorded *c, const char *under_no_grad, finding *f) {
    dl_op_info info;
    const dl_tensor *y = c->nout ? c->out[0] : NULL;
    const int rule = !dl_op_describe_name(c->op, &info) || info.differentiable;
    set_place(f, c);
    f->remedy = "compute the loss without it";
    if (y && !dl_dtype_is_float(dl_dtype_of(y)) && !dl_dtype_is_complex(dl_dtype_of(y))) {
        snprintf(f->cause, sizeof f->cause, "%s gives %s, which has no gradient: the way to the loss ends there", c->op,
                 dl_dtype_name(dl_dtype_of(y)));
        f->remedy =
            "compute the loss without it; in place of a choice or a count something smooth, as softmax or sigmoid";
    } else if (!rule) {
        snprintf(f->cause, sizeof f->cause, "%s has no gradient: the way to the loss ends there", c->op);
    } else {
        snprintf(f->cause, sizeof f->cause, under_no_grad, c->op);
        f->remedy = "compute outside no_grad";
    }
}

/* Where the way from x to the loss ends. `last` is the newest call on it. */
static dl_status follow(dl_tensor *x, finding *f, int *backward) {
    reached r = {0};
    dl_recorded c, last = {0}, cut = {0}, bare = {0};
    int used = 0, outside = 0;
    dl_status st = DL_OK;
    for (long i = 0; !st && i < dl_recording_count() && !*f->cause; i++) {
        if (dl_recording_at(i, &c)) break;
        *backward |= c.gradient;
        if (c.gradient || c.rule) continue;
        int here = uses(&c, x, 1), next = here;
        if (!cut.op && uses(&c, x, 0)) cut = c;
        for (int k = 0; k < c.nin; k++) next |= has(&r, c.from[k]);
        used |= here;
        outside |= here && !c.seq;
        if (here && !c.seq && !bare.op) bare = c;
        if (next && c.seq) last = c, st = reach(&r, c.seq);
        if (next && !c.seq && !here) explain_bare(&c, "%s ran under no_grad", f);
        for (int k = 0; k < c.nin && !next; k++) {
            dl_recorded from;
            if (!c.in[k] || c.from[k] || !made_at(dl_data(c.in[k]), &from) || !has(&r, from.seq)) continue;
            set_place(f, &c);
            snprintf(f->cause, sizeof f->cause, "the result of %s (%s:%d) is used without its history: it was detached",
                     from.op, from.file, from.line);
            f->remedy = "use the result itself, not detach()";
        }
    }
    free(r.seq);
    if (st || *f->cause) return st;
    if (!used && cut.op) {
        set_place(f, &cut);
        snprintf(f->cause, sizeof f->cause, "%s takes it without its history: it was detached", cut.op);
        f->remedy = "use the tensor itself, not detach() or .data";
    } else if (!used) {
        snprintf(f->cause, sizeof f->cause, "no op used it: it is not part of the computation");
        f->remedy = "use it in the forward pass, or leave it out";
    } else if (outside && !last.op) {
        explain_bare(&bare, "it was used under no_grad only", f);
    } else if (*backward && last.op) {
        set_place(f, &last);
        snprintf(f->cause, sizeof f->cause, "there is no path to the loss: nothing uses the result of %s", last.op);
        f->remedy = "make the loss from it";
    }
    return DL_OK;
}

/* Does a call take the value of a result with a history, or of a leaf, without it? */
static int is_detached(const dl_recorded *c, int k, dl_tensor *const *leaves, int n) {
    dl_recorded from;
    if (!c->in[k] || c->from[k] || c->needs[k]) return 0;
    for (int i = 0; i < n; i++)
        if (dl_data(c->in[k]) == dl_data(leaves[i])) return 1;
    return made_at(dl_data(c->in[k]), &from);
}

int dlsh_missing_detached(dl_tensor *const *leaves, int n, dlsh_missing *out) {
    dl_recorded c;
    *out = (dlsh_missing){0};
    for (long i = 0; i < dl_recording_count(); i++) {
        if (dl_recording_at(i, &c)) break;
        for (int k = 0; k < c.nin && !c.gradient && !c.rule && c.seq; k++) {
            if (!is_detached(&c, k, leaves, n)) continue;
            set_place(out, &c);
            snprintf(out->cause, sizeof out->cause, "%s takes operand %d without its history: it was detached", c.op,
                     k);
            return 1;
        }
    }
    return 0;
}

dl_status dlsh_missing_end(dl_tensor *x, dlsh_missing *out) {
    int backward = 0;
    *out = (dlsh_missing){0};
    return follow(x, out, &backward);
}

/* The word of a statement that takes values without their history; NULL: none does. */
static const char *cutter_in(const dlsh_node *n) {
    static const char cutting[] = "detach|detach_|data|item|tolist|numpy|no_grad";
    const int named = n && (n->kind == DLSH_N_FIELD || n->kind == DLSH_N_NAME);
    if (named && dlsh_has_word(cutting, n->text, strlen(n->text))) return n->text;
    if (n && n->kind == DLSH_N_COMMAND && n->num.cmd && !strcmp(n->num.cmd->name, "no_grad")) return "no_grad";
    const char *found = NULL;
    for (int i = 0; n && i < n->nkids && !found; i++) found = cutter_in(n->kids[i]);
    return found;
}

/* Without a recording the text tells where the way to a loss is cut off. */
static int is_cut(const dlsh_args *a, finding *f) {
    const dlsh_place at = dlsh_path_cut(dlsh_arg_session(a));
    if (!at.file) return 0;
    const char *by = cutter_in(dlsh_statement_at(at.file, at.line));
    if (by)
        snprintf(f->cause, sizeof f->cause, "%s cuts the way from it to the loss: what comes of it has no history", by);
    else
        snprintf(f->cause, sizeof f->cause,
                 "the way from it to the loss is cut off here: what is computed has no history");
    snprintf(f->where, sizeof f->where, "%s:%d", at.file, at.line);
    return 1;
}

dl_status dlsh_why_none(const dlsh_args *a, dl_tensor *x) {
    finding f = {0};
    int backward = 0;
    if (dl_grad(x)) {
        dlsh_put(dlsh_arg_sink(a), "it has a gradient: why zero %s, ", dlsh_arg_text(a, "whose"));
        dlsh_put(dlsh_arg_sink(a), "or why %s.grad\n", dlsh_arg_text(a, "whose"));
        return DL_OK;
    }
    if (!dl_requires_grad(x)) {
        no_need(x, &f);
    } else if (!dl_is_leaf(x)) {
        snprintf(f.cause, sizeof f.cause, "it was computed: only leaves keep gradients");
        f.remedy = "g = grad(loss, x)";
    } else if (!dl_recording_count() && is_cut(a, &f)) {
        f.remedy = "use the tensor itself, which has a history";
    } else if (!dl_recording_count()) {
        snprintf(f.cause, sizeof f.cause, "no backward pass has reached it since its gradient was cleared");
        f.remedy = "run backward; to see where the path ends: set record full, run the step again, then why none";
    } else {
        DLSH_TRY(follow(x, &f, &backward));
        if (!*f.cause) {
            snprintf(f.cause, sizeof f.cause,
                     backward ? "its gradient was cleared after backward"
                              : "backward has not run since recording began");
            f.remedy = backward ? "look at it before zero_grad" : "backward l";
        }
    }
    return show(a, &f);
}

/* ---------------------------------------------------------------- why zero */

/* Why an op passes nothing on. */
static const struct {
    const char *op, *cause, *remedy;
} blocks[] = {
    {"relu", "all its inputs are 0 or less: dead", "smaller learning rate, another initialisation, or leaky_relu"},
    {"sigmoid", "it is saturated: its inputs are far from 0", "scale its inputs down, or normalise them"},
    {"tanh", "it is saturated: its inputs are far from 0", "scale its inputs down, or normalise them"},
    {"clamp", "its inputs are outside the limits", "wider limits, or no clamp before the loss"},
    {"mul", "the other factor is 0", "look at the other factor: a mask, or weights that are 0"},
    {"matmul", "the other operand is 0", "initialise weights randomly, not with 0"},
    {"linear", "the other operand is 0", "initialise weights randomly, not with 0"},
    {"where", "the branch was not taken", "look at the condition"},
    {"softmax", "it is saturated: one class has all the probability", "scale the scores down"},
    {"log_softmax", "it runs over a dimension of size 1, or one class has all the probability",
     "a score for each class; with one score binary_cross_entropy_with_logits"},
    {"round", "its slope is 0 everywhere", "leave it out of the loss"},
    {"sign", "its slope is 0 everywhere", "leave it out of the loss"},
    {"floor", "its slope is 0 everywhere", "leave it out of the loss"},
    {"dropout", "all its elements were dropped", "smaller p, or m.eval()"},
};

static void explain_op(const char *op, finding *f) {
    snprintf(f->cause, sizeof f->cause, "%s passes nothing on: its derivative is 0 there", op);
    for (size_t i = 0; i < DLSH_COUNT(blocks); i++)
        if (!strcmp(blocks[i].op, op)) {
            snprintf(f->cause, sizeof f->cause, "%s passes nothing on: %s", op, blocks[i].cause);
            f->remedy = blocks[i].remedy;
        }
}

static void explain_block(const dl_recorded *c, finding *f) {
    set_place(f, c);
    explain_op(c->op, f);
}

/* Without a recording the figures of the last passes tell. */
static int is_blocked(const dlsh_args *a, const dl_tensor *x, finding *f) {
    const dlsh_place at = dlsh_path_blocked(dlsh_arg_session(a), x);
    if (!at.file) return 0;
    explain_op(at.op, f);
    snprintf(f->where, sizeof f->where, "%s:%d", at.file, at.line);
    return 1;
}

static dl_status is_zero(const dl_tensor *t, int *yes) {
    dlsh_stats s;
    *yes = 1;
    if (t) DLSH_TRY(dlsh_stats_of(t, &s));
    if (t) *yes = s.zeros == s.n;
    return DL_OK;
}

/* Does the part that `numbers` names hold zeros alone? An empty one does not. */
static dl_status part_is_zero(dl_tensor *g, dl_tensor *numbers, int *yes, long *first) {
    DLSH_OWNED dl_tensor *v = dlsh_debug_plain(g), *at = dlsh_debug_plain(numbers);
    if (!v || !at) return dl_failed();
    const double *values = dl_data(v), *places = dl_data(at);
    *yes = dl_numel(at) > 0;
    for (long i = 0; i < dl_numel(at); i++) *yes = *yes && values[(long)places[i]] == 0;
    *first = *yes ? (long)places[0] : 0;
    return DL_OK;
}

int dlsh_debug_picks(const char *op) {
    return dlsh_is_word("embedding|embedding_bag|index_select|gather|index|take|take_along_dim|select|narrow|slice",
                        op);
}

/* A part of a gradient: its first element. */
dl_status dlsh_why_zero_part(const dlsh_args *a, dl_tensor *x, dl_tensor *numbers) {
    finding f = {0};
    dl_recorded c = {0};
    int zero = 0, direct = 0;
    long first = 0;
    if (!dl_grad(x)) return dlsh_why_none(a, x);
    DLSH_TRY(part_is_zero(dl_grad(x), numbers, &zero, &first));
    if (!zero) {
        dlsh_put(dlsh_arg_sink(a), "it is not zero everywhere\n");
        return DL_OK;
    }
    if (!dl_recording_count())
        return dlsh_arg_fail(a, "what", DL_ERR_STATE, "set record full, then run the step again",
                             "the backward pass that made it was not recorded");
    DLSH_TRY(dlsh_debug_zero_end(x, first, &c, &direct));
    if (c.op && direct && dlsh_debug_picks(c.op)) {
        set_place(&f, &c);
        snprintf(f.cause, sizeof f.cause, "%s did not look it up: only what it picks has a gradient",
                 c.composite ? c.composite : c.op);
        f.remedy = "nothing is wrong if the batch does not hold it";
    } else if (c.op) {
        explain_block(&c, &f);
    } else {
        snprintf(f.cause, sizeof f.cause,
                 "the gradient that backward started from is 0, or no recorded pass reached it");
        f.remedy = "look at the loss: a weight or a factor of 0";
    }
    return show(a, &f);
}

dl_status dlsh_why_zero(const dlsh_args *a, dl_tensor *x) {
    finding f = {0};
    reached r = {0};
    dl_recorded c;
    int zero, seen = 0;
    dl_status st = DL_OK;
    if (!dl_grad(x)) return dlsh_why_none(a, x);
    DLSH_TRY(is_zero(dl_grad(x), &zero));
    if (!zero) {
        const char *name = dlsh_arg_text(a, "whose"), *grad = strstr(name, ".grad") ? "" : ".grad";
        dlsh_put(dlsh_arg_sink(a), "it is not zero everywhere: why %s%s, ", name, grad);
        dlsh_put(dlsh_arg_sink(a), "or why zero %s%s[I, ...] of a part that is\n", dlsh_arg_text(a, "whose"), grad);
        return DL_OK;
    }
    if (!dl_recording_count() && is_blocked(a, x, &f)) return show(a, &f);
    if (!dl_recording_count())
        return dlsh_arg_fail(a, "what", DL_ERR_STATE, "set record full, then run the step again",
                             "the backward pass that made it was not recorded");
    for (long i = dl_recording_count() - 1; !st && i >= 0 && !*f.cause; i--) {
        if (dl_recording_at(i, &c) || !c.gradient) continue;
        for (int k = 0; !st && k < c.nin && !*f.cause; k++) {
            int leaf = !c.from[k] && c.in[k] && dl_data(c.in[k]) == dl_data(x);
            if (!leaf && !has(&r, c.from[k])) continue;
            seen = 1;
            st = is_zero(c.grad, &zero);
            if (!st && !zero) explain_block(&c, &f);
            if (!st && zero) st = reach(&r, c.seq);
        }
    }
    free(r.seq);
    if (!st && !*f.cause) {
        snprintf(f.cause, sizeof f.cause,
                 seen ? "the gradient that backward started from is 0" : "no recorded backward pass reached it");
        f.remedy = seen ? "look at the loss: a weight or a factor of 0" : "why none";
    }
    return st ? st : show(a, &f);
}
