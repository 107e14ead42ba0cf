/* With what power of the gradient updates go that a script writes itself: 1 of descent, 0 of Adam or of steps of one
 * length. Below 0 steps grow where gradients shrink, as without the root of a mean square; 2 makes large ones larger,
 * as with norm / limit for a factor. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"

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
        "median|contiguous|tolist|zip|enumerate|vector_norm|expand_as|view_as|reversed|sorted";
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
    if (v && v->type == DLSH_TENSOR && dl_requires_grad(v->as.tensor))
        return r->sum = joined(r, r->sum, (power){.known = OTHER}), DLSH_HAS_NOT;
    r->active[r->nactive++] = without_items(at->n);
    see_written(r, at);
    r->nactive--;
    return DLSH_MAY_HAVE;
}

static dlsh_property see(void *ctx, const dlsh_step *at) {
    reader *r = ctx;
    const dlsh_node *n = at->n;
    power p;
    if (--r->left < 0) return r->sum.known = LOST, DLSH_HAS_NOT;
    if ((n->kind == DLSH_N_FIELD && !strcmp(n->text, "grad")) || dlsh_gives_gradients(n))
        return r->sum = joined(r, r->sum, (power){KNOWN, 1, n}), DLSH_HAS_NOT;
    switch (n->kind) {
    case DLSH_N_INT:
    case DLSH_N_FLOAT: return r->touched = 1, DLSH_HAS_NOT;
    case DLSH_N_BINARY: p = of_binary(r, at, n); break;
    case DLSH_N_CALL:
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
