/* With what power of the gradient updates go that a script writes itself: 1 of descent, 0 of Adam or of steps of one
 * length. Below 0 steps grow where gradients shrink, as without the root of a mean square; 2 makes large ones larger,
 * as with norm / limit for a factor. And with what power of a variable figures go: those of what was scaled by its
 * deviation with 0. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/syntax.h"
#include "debug/doctor/samples.h"
#include "debug/doctor/text/reads.h"
#include "debug/doctor/texts.h"

/* OTHER: something that is no number of the text, as a weight. LOST: it has gradients in it, no one knows how. */
typedef enum known { NUMBER, OTHER, KNOWN, LOST } known;
typedef struct power {
    known known;
    double of;
    const dlsh_node *at; /* what makes it that */
} power;

enum { ACTIVE = 24, LONGEST = 4000 };
typedef struct reader {
    const dlsh_examination *e;
    const dlsh_node *base; /* the value of the variable whose powers are counted; NULL: they are those of gradients */
    int line;              /* where that first stands in a divisor alone; 0: nowhere */
    double met;            /* its power where the result of a net is compared with it; NaN: it is not */
    int met_line;
    int lowest; /* of several that it may be: the lowest, else the highest, the same everywhere */
    power sum;
    int touched; /* numbers were met */
    long left;   /* steps that may be gone */
    const dlsh_node *active[ACTIVE];
    int nactive;
} reader;

static power power_of(reader *r, const dlsh_step *at, const dlsh_node *n);

static power joined(const reader *r, power a, power b) {
    if (a.known != KNOWN || b.known != KNOWN) return a.known > b.known ? a : b;
    return (a.of < b.of) == r->lowest ? a : b;
}

/* ... of which a number may be the result: power 0. */
static power chosen(const reader *r, power a, power b) {
    if (a.known == KNOWN && b.known == NUMBER) b.known = KNOWN;
    if (b.known == KNOWN && a.known == NUMBER) a.known = KNOWN;
    return joined(r, a, b);
}

static power raised(power a, double by, const dlsh_node *n) {
    return a.known == KNOWN ? (power){KNOWN, a.of * by, n} : a;
}

static power multiplied(power a, power b, const dlsh_node *n) {
    const power *more = a.known > b.known ? &a : &b, *less = more == &a ? &b : &a;
    if (more->known == LOST || (more->known == KNOWN && less->known == OTHER)) return (power){.known = LOST};
    if (less->known != KNOWN) return *more;
    const power *far = fabs(a.of - 0.5) > fabs(b.of - 0.5) ? &a : &b; /* as the square that has no root */
    return (power){KNOWN, a.of + b.of, far->of < -0.4 || far->of > 1.9 ? far->at : n};
}

int dlsh_gives_gradients(const dlsh_node *n) {
    return dlsh_is_call_of(n, "grad") || (n && n->kind == DLSH_N_CALL && dlsh_is_call_of(n->kids[0], "grad"));
}

static const dlsh_node *without_items(const dlsh_node *n) {
    while (n->kind == DLSH_N_INDEX) n = n->kids[0];
    return n;
}

/* The line that runs what is met on the way, outside of the functions that run it. */
static int line_outside(const dlsh_step *at, const dlsh_node *n) {
    const dlsh_node *outer = dlsh_outer_call(at);
    return outer ? outer->span.line : n->span.line;
}

static void compare(reader *r, const dlsh_step *at, const dlsh_node *n, const dlsh_node *const side[2], power a,
                    power b) {
    const int result = a.known == OTHER ? 0 : 1;
    const power *other = result ? &a : &b;
    if (!r->base || !isnan(r->met) || (result ? b : a).known != OTHER || other->known != KNOWN) return;
    if (!dlsh_uses_net(r->e, at->file, side[result])) return;
    r->met = other->of, r->met_line = line_outside(at, n);
}

/* ---------------------------------------------------------------- calls */

/* Of the receiver and arguments of a call, from number `from` on: those that it may choose of, or their sum. */
static power of_all(reader *r, const dlsh_step *at, const dlsh_node *n, int from, int chooses) {
    const dlsh_node *self = n->kids[0]->kind == DLSH_N_FIELD ? n->kids[0]->kids[0] : NULL;
    power all = self ? power_of(r, at, self) : (power){.known = NUMBER};
    for (int i = from, first = !self; i < n->nkids; i++, first = 0) {
        if (n->kids[i]->kind == DLSH_N_KWARG && !chooses) continue;
        const power one = power_of(r, at, n->kids[i]->kind == DLSH_N_KWARG ? n->kids[i]->kids[0] : n->kids[i]);
        all = first ? one : chooses ? chosen(r, all, one) : joined(r, all, one);
    }
    return all;
}

static power of_product(reader *r, const dlsh_step *at, const dlsh_node *n, double by) {
    const dlsh_node *self = n->kids[0]->kind == DLSH_N_FIELD ? n->kids[0]->kids[0] : NULL;
    const int second = self ? 1 : 2;
    if (n->nkids <= second) return (power){.known = LOST};
    const power a = power_of(r, at, self ? self : n->kids[1]);
    return multiplied(a, raised(power_of(r, at, n->kids[second]), by, n), n);
}

/* a.addcmul(b, c), a.addcdiv(b, c) */
static power of_three(reader *r, const dlsh_step *at, const dlsh_node *n, double by) {
    if (n->kids[0]->kind != DLSH_N_FIELD || n->nkids < 3) return (power){.known = LOST};
    const power bc = multiplied(power_of(r, at, n->kids[1]), raised(power_of(r, at, n->kids[2]), by, n), n);
    return joined(r, power_of(r, at, n->kids[0]->kids[0]), bc);
}

static power of_call(reader *r, const dlsh_step *at, const dlsh_node *n) {
    static const char same[] =
        "sum|mean|norm|abs|item|detach|clone|float|double|reshape|view|flatten|squeeze|unsqueeze|"
        "transpose|stack|cat|neg|list|tuple|to|add|sub|add_|sub_|copy_|lerp|lerp_|expand|std|"
        "median|contiguous|tolist|round|zip|enumerate|vector_norm|expand_as|view_as|reversed|sorted";
    static const struct {
        const char *names;
        double by;
    } powers[] = {{"square|var", 2}, {"sqrt|sqrt_", 0.5}, {"rsqrt", -0.5}, {"reciprocal", -1}, {"sign|sign_", 0}};
    const char *name = n->kids[0]->text ? n->kids[0]->text : "";
    if (dlsh_is_word("zeros|ones|zeros_like|ones_like|full|len|range|arange|eye|linspace|numel|size", name))
        return r->touched = 1, (power){.known = NUMBER};
    if (dlsh_is_word("min|max|amin|amax|clamp|clip|clamp_|maximum|minimum", name)) return of_all(r, at, n, 1, 1);
    if (dlsh_is_word("where", name)) return of_all(r, at, n, 2, 1);
    if (dlsh_is_word("mul|mul_|multiply|dot|outer", name)) return of_product(r, at, n, 1);
    if (dlsh_is_word("div|div_|divide", name)) return of_product(r, at, n, -1);
    if (dlsh_is_word("addcmul|addcmul_", name)) return of_three(r, at, n, 1);
    if (dlsh_is_word("addcdiv|addcdiv_", name)) return of_three(r, at, n, -1);
    if (r->base && n->nkids > 2 && dlsh_speaks_of(name, "loss|score|error"))
        compare(r, at, n, (const dlsh_node *[]){n->kids[1], n->kids[2]}, power_of(r, at, n->kids[1]),
                power_of(r, at, n->kids[2]));
    const power all = of_all(r, at, n, 1, 0);
    if (dlsh_is_word(same, name)) return all;
    for (size_t i = 0; i < DLSH_COUNT(powers); i++)
        if (dlsh_is_word(powers[i].names, name)) return raised(all, powers[i].by, n);
    if (dlsh_is_word("pow|pow_", name)) {
        const double by = dlsh_number_of(r->e, at->file, n->kids[n->nkids - 1]);
        return isfinite(by) ? raised(all, by, n) : (power){.known = LOST};
    }
    return all.known == KNOWN ? (power){.known = LOST} : all;
}

/* ---------------------------------------------------------------- expressions */

static power of_binary(reader *r, const dlsh_step *at, const dlsh_node *n) {
    const power a = power_of(r, at, n->kids[0]), b = power_of(r, at, n->kids[1]);
    const double by = n->op == DLSH_OP_POW ? dlsh_number_of(r->e, at->file, n->kids[1]) : 0;
    if (n->op == DLSH_OP_SUB) compare(r, at, n, (const dlsh_node *[]){n->kids[0], n->kids[1]}, a, b);
    if (n->op == DLSH_OP_DIV && r->base && !r->line && a.known == KNOWN && a.of == 0 && b.known == KNOWN && b.of > 0)
        r->line = line_outside(at, n);
    switch (n->op) {
    case DLSH_OP_ADD:
    case DLSH_OP_SUB: return joined(r, a, b);
    case DLSH_OP_MUL: return multiplied(a, b, n);
    case DLSH_OP_DIV: return multiplied(a, raised(b, -1, n), n);
    case DLSH_OP_POW: return a.known == KNOWN && !isfinite(by) ? (power){.known = LOST} : raised(a, by, n);
    default: return a.known == KNOWN || b.known == KNOWN ? (power){.known = LOST} : (power){.known = OTHER};
    }
}

/* What a call changes in place, x of x.mul_(a).add_(b); NULL: nothing. */
static const dlsh_node *changed_by(const dlsh_node *n) {
    const dlsh_node *x = NULL;
    while (n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD) {
        const char *by = n->kids[0]->text;
        if (by[strlen(by) - 1] != '_') return NULL;
        x = n = n->kids[0]->kids[0];
    }
    return x;
}

/* What else the text puts into what an expression names, in the function around it. */
static void see_written(reader *r, const dlsh_step *at) {
    const dlsh_node *around[DLSH_AROUND], *own = without_items(at->n), *root = dlsh_text_root(at->file);
    const int depth = dlsh_functions_around(root, at->n->span.start, around);
    DLSH_EACH_BELOW_IF (t, depth ? around[depth - 1] : root, t.n == t.root || t.n->kind != DLSH_N_FN) {
        const int plain = t.n->kind == DLSH_N_ASSIGN && t.n->nkids == 2;
        const dlsh_node *to = plain ? t.n->kids[0] : changed_by(t.n);
        if (!to || (plain && to->kind == DLSH_N_NAME && !t.n->op) || !dlsh_same_text(at->file, without_items(to), own))
            continue;
        const power p = plain ? power_of(r, at, t.n->kids[1]) : of_call(r, at, t.n);
        const int times = plain && (t.n->op == DLSH_OP_MUL || t.n->op == DLSH_OP_DIV);
        r->sum = joined(r, r->sum, times && p.known == KNOWN ? (power){.known = LOST} : p);
        dlsh_tree_skip(&t);
    }
}

static int is_active(const reader *r, const dlsh_step *at) {
    const dlsh_node *own = without_items(at->n);
    for (int i = 0; i < r->nactive; i++)
        if (dlsh_same_text(at->file, r->active[i], own)) return 1;
    return r->nactive == ACTIVE;
}

static dlsh_property see_variable(reader *r, const dlsh_step *at) {
    const dlsh_value *v = dlsh_value_of(r->e, at->file, at->n);
    if (is_active(r, at)) return DLSH_HAS_NOT;
    if (v && v->type == DLSH_TENSOR && dl_requires_grad(v->as.tensor) && (!r->base || dl_is_leaf(v->as.tensor)))
        return r->sum = joined(r, r->sum, (power){.known = OTHER}), DLSH_HAS_NOT;
    r->active[r->nactive++] = without_items(at->n);
    see_written(r, at);
    r->nactive--;
    return DLSH_MAY_HAVE;
}

/* Is it what powers are counted of? */
static int is_base(const reader *r, const dlsh_step *at) {
    const dlsh_node *n = at->n;
    if (!r->base) return (n->kind == DLSH_N_FIELD && !strcmp(n->text, "grad")) || dlsh_gives_gradients(n);
    return n->kind == DLSH_N_NAME && dlsh_define(dlsh_text_root(at->file), n->text, n->span.start).value == r->base;
}

static dlsh_property see(void *ctx, const dlsh_step *at) {
    reader *r = ctx;
    const dlsh_node *n = at->n;
    power p;
    if (--r->left < 0) return r->sum.known = LOST, DLSH_HAS_NOT;
    if (is_base(r, at)) return r->sum = joined(r, r->sum, (power){KNOWN, 1, n}), DLSH_HAS_NOT;
    switch (n->kind) {
    case DLSH_N_INT:
    case DLSH_N_FLOAT: return r->touched = 1, DLSH_HAS_NOT;
    case DLSH_N_BINARY: p = of_binary(r, at, n); break;
    case DLSH_N_CALL:
        p.known = OTHER;
        if (r->base && dlsh_call_of_net(r->e, at->file, n) == n) break;
        if (dlsh_function_called(at->file, n)) return DLSH_MAY_HAVE;
        p = of_call(r, at, n);
        break;
    case DLSH_N_NAME:
    case DLSH_N_FIELD:
    case DLSH_N_INDEX: return see_variable(r, at);
    default: return DLSH_MAY_HAVE;
    }
    r->sum = joined(r, r->sum, p);
    return DLSH_HAS_NOT;
}

static power power_of(reader *r, const dlsh_step *at, const dlsh_node *n) {
    const power had = r->sum;
    const int touched = r->touched;
    r->sum = (power){.known = NUMBER}, r->touched = 0;
    dlsh_origin_at(at, n, see, r);
    power p = r->sum;
    if (p.known == NUMBER && !r->touched && !isfinite(dlsh_number_of(r->e, at->file, n))) p.known = OTHER;
    r->sum = had, r->touched = touched || p.known == NUMBER;
    return p;
}

/* ---------------------------------------------------------------- updates */

/* Of what a statement adds to a weight, or of what it makes of a gradient. */
static power of_update(reader *r, const char *file, const dlsh_node *n, int of_gradient) {
    const dlsh_step start = {.file = file};
    const dlsh_node *by = n->kind == DLSH_N_CALL ? n->kids[0] : NULL;
    if (of_gradient && n->kind == DLSH_N_ASSIGN && (n->op == DLSH_OP_MUL || n->op == DLSH_OP_DIV))
        return multiplied((power){KNOWN, 1, n},
                          raised(power_of(r, &start, n->kids[1]), n->op == DLSH_OP_DIV ? -1 : 1, n), n);
    if (!by) return power_of(r, &start, n->kids[n->nkids - 1]);
    if (of_gradient) return of_call(r, &start, n);
    const double sign = !strcmp(by->text, "addcdiv_") ? -1 : 1;
    const power first = n->nkids > 1 ? power_of(r, &start, n->kids[1]) : (power){.known = LOST};
    if (!dlsh_is_word("addcdiv_|addcmul_", by->text)) return first;
    return n->nkids < 3 ? (power){.known = LOST}
                        : multiplied(first, raised(power_of(r, &start, n->kids[2]), sign, n), n);
}

/* Has one of the factors the gradient, with power 0? */
static int has_factor_of_one_size(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    const int product = n->kind == DLSH_N_BINARY && (n->op == DLSH_OP_MUL || n->op == DLSH_OP_DIV);
    const dlsh_step start = {.file = file};
    reader r = {.e = e, .left = LONGEST};
    const power p = power_of(&r, &start, n);
    if (p.known == KNOWN) return p.of > -0.1 && p.of < 0.1;
    return product && (has_factor_of_one_size(e, file, n->kids[0]) ||
                       (n->op == DLSH_OP_MUL && has_factor_of_one_size(e, file, n->kids[1])));
}

int dlsh_is_scale_free(const dlsh_examination *e, const char *file, int line) {
    DLSH_EACH_BELOW (t, dlsh_text_root(file)) {
        const int writes = t.n->kind == DLSH_N_ASSIGN || changed_by(t.n);
        if (writes && t.n->span.line == line && t.n->nkids > 1)
            return has_factor_of_one_size(e, file, t.n->kids[t.n->kind == DLSH_N_CALL ? 1 : t.n->nkids - 1]);
    }
    return 0;
}

int dlsh_find_wrong_power(dlsh_examination *e, const char *file, const dlsh_node *n, int of_gradient) {
    power p = {.known = NUMBER};
    for (int lowest = 0; lowest < 2 && (p.known != KNOWN || (p.of > -0.4 && p.of < 1.9)); lowest++) {
        reader r = {.e = e, .lowest = lowest, .left = LONGEST};
        p = of_update(&r, file, n, of_gradient);
    }
    if (p.known != KNOWN || (p.of > -0.4 && p.of < 1.9)) return 0;
    const int grows = p.of > 0;
    return dlsh_found(
               e, file, p.at ? p.at->span.line : n->span.line,
               grows ? "the norm in the divisor: gradient * limit / norm where the norm is beyond the limit"
                     : "the root of the mean square in the divisor: rate * mean / (sqrt(square) + eps)",
               "%s\n%s go with power %.2g of the gradient (line %d), where those of descent go with 1, and those "
               "of Adam, or of one length, with 0",
               grows ? "gradients are multiplied by what grows with them: large ones are made larger, not smaller"
                     : "the step is larger where the gradient is smaller: it is divided by more than its size",
               of_gradient ? "gradients" : "updates", p.of, n->span.line) != NULL;
}

/* ---------------------------------------------------------------- figures of two scales */

enum { SCALED = 16 };

/* The variables of whose figures the text makes use, by their values; how many. */
static int figured(const char *file, const dlsh_node *base[SCALED]) {
    int count = 0;
    DLSH_EACH_BELOW (t, dlsh_text_root(file)) {
        if (!dlsh_is_call_of(t.n, "std|var|std_mean|max|amax")) continue;
        const dlsh_node *by = t.n->kids[0], *of = by->kind == DLSH_N_FIELD ? by->kids[0]
                                                  : t.n->nkids > 1         ? t.n->kids[1]
                                                                           : NULL;
        const dlsh_node *name = of ? without_items(of) : NULL;
        if (!name || name->kind != DLSH_N_NAME) continue;
        const dlsh_definition d = dlsh_define(dlsh_text_root(file), name->text, name->span.start);
        int known = !d.value || d.param || d.each || d.item >= 0;
        for (int i = 0; i < count; i++) known |= base[i] == d.value;
        if (!known && count < SCALED) base[count++] = d.value;
    }
    return count;
}

/* Is a statement in a function that runs several times, maybe with other values? */
static int runs_again(const char *file, const dlsh_node *n) {
    const dlsh_node *around[DLSH_AROUND], *root = dlsh_text_root(file);
    const int depth = dlsh_functions_around(root, n->span.start, around);
    return depth && dlsh_last_call(root, around[depth - 1]) && !dlsh_only_call(root, around[depth - 1]);
}

/* Do all losses that compare results with a variable compare them with what was divided by figures of it? */
static int learns_scaled(const dlsh_examination *e, const char *file, const dlsh_node *base) {
    const dlsh_step start = {.file = file};
    int count = 0;
    DLSH_EACH_ROW (row, e, DL_DID_BACKWARD) {
        reader r = {.e = e, .base = base, .met = NAN, .left = LONGEST};
        const dlsh_node *n = strcmp(row->file, file) ? NULL : dlsh_statement_at(file, row->line);
        if (n) power_of(&r, &start, n);
        if (n && (r.met > 0 || runs_again(file, n))) return 0;
        count += r.met == 0;
    }
    const dlsh_node *made = !count && e->trainer ? dlsh_trainer_option(e, file, 1, "data") : NULL;
    const dlsh_node *y = made ? dlsh_argument_of(made, 1, "y") : NULL;
    reader r = {.e = e, .base = base, .met = NAN, .left = LONGEST};
    const power p = y ? power_of(&r, &start, y) : (power){.known = LOST};
    return count || (p.known == KNOWN && p.of == 0);
}

static void look_at_figure(dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node *base) {
    const dlsh_step start = {.file = file};
    reader r = {.e = e, .base = base, .met = NAN, .left = LONGEST, .lowest = 1};
    const power p = power_of(&r, &start, n);
    const int quotient = p.known == KNOWN && p.of < 0 && r.line, alone = !quotient && r.met == 1;
    if ((!quotient && !alone) || !learns_scaled(e, file, base)) return;
    if (quotient)
        dlsh_found(e, file, r.line,
                   "both of one scale: the error and the variance of the scaled targets, or of both as they were",
                   "a figure divides what is scaled by what is not: the errors are those of scaled targets, the "
                   "divisor has the size of the targets before\n"
                   "by its formula it goes with power %.2g of the values of line %d; a share or a ratio goes with 0",
                   p.of, base->span.line);
    else
        dlsh_found(e, file, r.met_line, "scale the result back first: result * std + mean",
                   "results of a net that learned scaled targets are compared with targets as they were before\n"
                   "the loss compares with what was divided by figures of the values of line %d, this line with the "
                   "values themselves",
                   base->span.line);
}

void dlsh_find_mixed_scales(dlsh_examination *e) {
    const dlsh_node *base[SCALED];
    const dlsh_unit *u;
    for (int text = 0; (u = dlsh_text_at(text)); text++) {
        const int count = figured(u->name, base);
        DLSH_EACH_BELOW (t, count ? u->root : NULL)
            for (int i = 1; dlsh_is_call_of(t.n, "print|format|log|round") && i < t.n->nkids; i++)
                for (int k = 0; t.n->kids[i]->kind != DLSH_N_STR && k < count; k++)
                    if (dlsh_uses_net(e, u->name, t.n->kids[i])) look_at_figure(e, u->name, t.n->kids[i], base[k]);
    }
}
