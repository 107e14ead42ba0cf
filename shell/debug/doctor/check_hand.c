/* Updates that a script writes itself: w -= rate * w.grad, w -= rate * g of g = grad(loss, w), w.sub_(rate * g). */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "debug/doctor/checks.h"
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"

enum { DEEPEST = 6 };

typedef struct reader {
    const dlsh_examination *e;
    const char *file;
    const dlsh_node *target; /* of walks: the weight that is written */
    double samples;          /* the loss is a mean of so many */
    const dlsh_node *found;
} reader;

/* What a walk back from an expression finds; NULL: nothing. */
static const dlsh_node *found_by(reader r, const dlsh_node *n, dlsh_has_property *has) {
    dlsh_origin(r.file, n, has, &r);
    return r.found;
}

/* 1: a gradient goes in with this sign, -1: with the other one, 0: none does. */
static int sign_of_gradient(const reader *r, const dlsh_node *n, int depth);

static int sign_of_number(const reader *r, const dlsh_node *n) {
    const double v = dlsh_number_of(r->e, r->file, n);
    if (n->kind == DLSH_N_UNARY && n->op == DLSH_OP_NEG) return -sign_of_number(r, n->kids[0]);
    const dlsh_value *now = dlsh_value_of(r->e, r->file, n);
    return v < 0 || (now && dlsh_is_number(*now) && dlsh_number(*now) < 0) ? -1 : 1;
}

static int sign_of_binary(const reader *r, const dlsh_node *n, int depth) {
    int left = sign_of_gradient(r, n->kids[0], depth), right = sign_of_gradient(r, n->kids[1], depth);
    if (n->op == DLSH_OP_ADD) return left ? left : right;
    if (n->op == DLSH_OP_SUB) return left ? left : -right;
    return left ? left * sign_of_number(r, n->kids[1]) : right * sign_of_number(r, n->kids[0]);
}

/* A name is what it was given last: gradients, or what was computed of some. */
static int sign_of_name(const reader *r, const dlsh_node *n, int depth) {
    const dlsh_node *made = depth < DEEPEST ? dlsh_defined(r->file, n) : NULL;
    if (!made || made->span.start >= n->span.start) return 0;
    return dlsh_gives_gradients(made) ? 1 : sign_of_gradient(r, made, depth + 1);
}

static int sign_of_gradient(const reader *r, const dlsh_node *n, int depth) {
    if (!n || depth > DEEPEST || n->kind == DLSH_N_FN) return 0;
    if ((n->kind == DLSH_N_FIELD && !strcmp(n->text, "grad")) || dlsh_gives_gradients(n)) return 1;
    if (n->kind == DLSH_N_UNARY && n->op == DLSH_OP_NEG) return -sign_of_gradient(r, n->kids[0], depth);
    if (n->kind == DLSH_N_NAME) return sign_of_name(r, n, depth);
    if (n->kind == DLSH_N_BINARY) return sign_of_binary(r, n, depth);
    int sign = 0;
    for (int i = 0; i < n->nkids && !sign; i++) sign = sign_of_gradient(r, n->kids[i], depth);
    return sign;
}

/* May it be a weight? Gradients and variables that hold something else are none. */
static int is_weight(const reader *r, const dlsh_node *n) {
    if (n->kind == DLSH_N_FIELD && !strcmp(n->text, "data")) n = n->kids[0];
    if (n->kind == DLSH_N_FIELD && !strcmp(n->text, "grad")) return 0;
    const dlsh_value *v = n->kind == DLSH_N_NAME ? dlsh_value_of(r->e, r->file, n) : NULL;
    if (v) return v->type == DLSH_TENSOR && dl_requires_grad(v->as.tensor);
    return n->kind == DLSH_N_NAME || n->kind == DLSH_N_FIELD || n->kind == DLSH_N_INDEX;
}

/* What a statement writes in place: w -= g, w = w - g, w.sub_(g), w.copy_(w - g); NULL: nothing. */
static const dlsh_node *written_by(const dlsh_node *n) {
    if (n->kind == DLSH_N_ASSIGN) return n->nkids == 2 ? n->kids[0] : NULL;
    const int method = n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD && n->nkids > 1;
    const char *by = method ? n->kids[0]->text : "";
    return dlsh_is_word("add_|sub_|copy_|addcdiv_", by) ? n->kids[0]->kids[0] : NULL;
}

/* The sign with which a gradient goes into it. */
static int sign_of_update(const reader *r, const dlsh_node *n) {
    if (n->kind == DLSH_N_ASSIGN)
        return sign_of_gradient(r, n->kids[n->nkids - 1], 0) * (n->op == DLSH_OP_SUB ? -1 : 1);
    const char *by = n->kids[0]->text;
    const int sign = sign_of_gradient(r, n->kids[1], 0) * (!strcmp(by, "sub_") ? -1 : 1);
    const dlsh_node *alpha = dlsh_argument_of(n, INT_MAX - 1, strcmp(by, "addcdiv_") != 0 ? "alpha" : "value");
    return alpha ? sign * sign_of_number(r, alpha) : sign;
}

/* The last update of a line: in blocks of one line those of averages of gradients stand before it. */
static const dlsh_node *update_in(const reader *r, const dlsh_node *n, int line) {
    const dlsh_node *found = NULL, *target;
    if (!n) return NULL;
    for (int i = 0; i < n->nkids; i++) {
        const dlsh_node *below = update_in(r, n->kids[i], line);
        if (below) found = below;
    }
    if (found || n->span.line != line) return found;
    target = written_by(n);
    return target && is_weight(r, target) ? n : NULL;
}

/* ---------------------------------------------------------------- what sets the size of updates */

/* Where a name was given its number; the line of the expression where it is none. */
static int line_of_number(const char *file, const dlsh_node *n) {
    const dlsh_node *made = dlsh_defined(file, n);
    return made ? made->span.line : n->span.line;
}

/* The largest gradient and weight, as roots of mean squares, of the leaves of a pass. */
static void sizes_of(dlsh_pass p, double *gradient, double *weight) {
    *gradient = *weight = 0;
    DLSH_EACH_OP (m, p)
        DLSH_EACH_OPERAND (v, m) {
            if (!v->there || !v->leaf || !(v->gradient >= *gradient)) continue;
            *gradient = v->gradient, *weight = v->n ? sqrt(v->mean * v->mean + v->std * v->std) : 0;
        }
}

/* A part with a factor of its own and a tensor, k * w, that is added to a gradient; its number. */
static dlsh_property decays(void *ctx, const dlsh_step *at) {
    reader *r = ctx;
    for (int k = 0; at->n->kind == DLSH_N_BINARY && at->n->op == DLSH_OP_ADD && k < 2; k++) {
        const dlsh_node *part = at->n->kids[k];
        if (part->kind != DLSH_N_BINARY || part->op != DLSH_OP_MUL || !sign_of_gradient(r, at->n->kids[1 - k], 0))
            continue;
        for (int j = 0; j < 2 && !r->found; j++)
            if (dlsh_same_text(r->file, part->kids[j], r->target)) r->found = part->kids[1 - j];
    }
    return r->found ? DLSH_HAS_FIRST : at->added ? DLSH_HAS_NOT : DLSH_MAY_HAVE;
}

/* g.clamp(-limit, limit): the limit. */
static dlsh_property limits(void *ctx, const dlsh_step *at) {
    reader *r = ctx;
    if (!dlsh_is_call_of(at->n, "clamp|clip|clamp_") || !sign_of_gradient(r, at->n, 0))
        return at->added ? DLSH_HAS_NOT : DLSH_MAY_HAVE;
    r->found = at->n->nkids > 2 ? at->n->kids[at->n->nkids - 1] : NULL;
    return DLSH_HAS_FIRST;
}

static dlsh_property is_gradient(void *ctx, const dlsh_step *at) {
    reader *r = ctx;
    if ((at->n->kind != DLSH_N_FIELD || strcmp(at->n->text, "grad") != 0) && !dlsh_gives_gradients(at->n))
        return at->added ? DLSH_HAS_NOT : DLSH_MAY_HAVE;
    return r->found = at->n, DLSH_HAS_FIRST;
}

/* The number that a variable, or one in an expression, holds by now; NaN: none is known. */
static double held_number(const reader *r, const dlsh_node *n) {
    const dlsh_value *v = n->kind == DLSH_N_NAME ? dlsh_value_of(r->e, r->file, n) : NULL;
    if (v && dlsh_is_number(*v)) return dlsh_number(*v);
    double one = NAN;
    if (v && v->type == DLSH_TENSOR && dl_numel(v->as.tensor) == 1 && !dl_read_f64(v->as.tensor, &one)) return one;
    dl_error_clear();
    for (int i = 0; n->kind != DLSH_N_CALL && isnan(one) && i < n->nkids; i++) one = held_number(r, n->kids[i]);
    return one;
}

/* A limit that is divided by the norm of gradients, as clipping by hand does. */
typedef struct quotient {
    const dlsh_examination *e;
    const dlsh_node *limit;
    const char *file;
    double number, norm;
} quotient;

static int see_quotient(void *ctx, const char *file, const dlsh_node *n) {
    quotient *q = ctx;
    const reader r = {.e = q->e, .file = file};
    if (n->kind != DLSH_N_BINARY || n->op != DLSH_OP_DIV) return 0;
    const double number = dlsh_number_of(q->e, file, n->kids[0]);
    if (!(number > 0) || !found_by(r, n->kids[1], is_gradient)) return 0;
    *q = (quotient){q->e, n->kids[0], file, number, held_number(&r, n->kids[1])};
    return 1;
}

/* p.grad.clamp_(-limit, limit), p.grad.clamp(-limit, limit), the smallest number of its limits. */
static int see_cut(void *ctx, const char *file, const dlsh_node *n) {
    quotient *q = ctx;
    const reader r = {.e = q->e, .file = file};
    if ((!dlsh_is_method(n, "clamp_") && !dlsh_is_method(n, "clamp")) || n->nkids < 2 ||
        !found_by(r, n->kids[0]->kids[0], is_gradient))
        return 0;
    const dlsh_node *limit = n->kids[n->nkids - 1];
    *q = (quotient){q->e, limit, file, dlsh_number_of(q->e, file, limit), NAN};
    return q->number > 0;
}

/* Each element is cut, while an optimizer takes the steps. */
int dlsh_find_cut_by_hand(dlsh_examination *e, const dl_journal_row *pass) {
    quotient q = {.e = e};
    double size = 0, weight;
    if (pass) sizes_of(dlsh_pass_of(pass, 1), &size, &weight);
    if (!pass || !dlsh_each_node(see_cut, &q) || !(q.number < 0.05 * size) || dlsh_settled_lower(pass, 0.8)) return 0;
    const dlsh_node *made = dlsh_origin_of_number(e, q.file, q.limit, q.number);
    dlsh_found(e, q.file, made ? made->span.line : q.limit->span.line, "a limit about as large as usual gradients",
               "gradients are cut to %.3g, %.2g of their size: almost nothing is learned\n"
               "they have size %.3g; the loss went from %.4g to %.4g in %ld passes",
               q.number, q.number / size, size, pass->first, pass->last, pass->count);
    return 1;
}

/* The norm of all gradients of leaves in a pass. */
static double norm_of(dlsh_pass p) {
    double squares = 0;
    DLSH_EACH_OP (m, p)
        DLSH_EACH_OPERAND (v, m) {
            if (v->there && v->leaf && v->gradient > 0) squares += v->gradient * v->gradient * dlsh_elements_in(v);
        }
    return sqrt(squares);
}

int dlsh_find_clipped_by_hand(dlsh_examination *e, const dl_journal_row *pass) {
    quotient q = {.e = e};
    const int any = dlsh_each_node(see_quotient, &q);
    if (any && pass && isnan(q.norm)) q.norm = norm_of(dlsh_pass_of(pass, 1)); /* of a function, which has left it */
    if (!any || !(q.number < 0.05 * q.norm) || !pass || dlsh_settled_lower(pass, 0.5)) return 0;
    const dlsh_node *made = dlsh_origin_of_number(e, q.file, q.limit, q.number);
    dlsh_found(e, q.file, made ? made->span.line : q.limit->span.line,
               "a limit about as large as usual norms of gradients, as 1 or 5",
               "gradients are clipped to the norm %.3g, %.2g of their size: almost nothing is learned\n"
               "line %d divides it by their norm, %.3g by now; the loss went from %.4g to %.4g in %ld passes",
               q.number, q.number / q.norm, q.limit->span.line, q.norm, pass->first, pass->last, pass->count);
    return 1;
}

/* The number that a gradient is multiplied by in an update; NULL: it is not known. */
static const dlsh_node *rate_in(const reader *r, const dlsh_node *n, const char *round) {
    DLSH_EACH_BELOW (t, n)
        for (int k = 0; t.n->kind == DLSH_N_BINARY && t.n->op == DLSH_OP_MUL && k < 2; k++)
            if (dlsh_number_with(r->e, r->file, t.n->kids[k], round, 0) > 0 && sign_of_gradient(r, t.n->kids[1 - k], 0))
                return t.n->kids[k];
    return NULL;
}

/* ---------------------------------------------------------------- a rate that goes in twice */

/* The factor of a gradient, or of what is made of some: lr * g, g * lr, alpha=lr; *other: what it multiplies. */
static const dlsh_node *factor_of(const reader *r, const dlsh_node *n, int k, const dlsh_node **other) {
    const int product = n->kind == DLSH_N_BINARY && n->op == DLSH_OP_MUL && k < 2;
    const int adds = dlsh_is_call_of(n, "add|sub|add_|sub_") && n->nkids > 1 && !k;
    *other = product ? n->kids[1 - k] : adds ? n->kids[1] : NULL;
    const dlsh_node *factor = product ? n->kids[k] : adds ? dlsh_argument_of(n, INT_MAX - 1, "alpha") : NULL;
    while (factor && factor->kind == DLSH_N_UNARY && factor->op == DLSH_OP_NEG) factor = factor->kids[0];
    return factor && dlsh_number_of(r->e, r->file, factor) > 0 ? factor : NULL;
}

/* The factors of a product, without those of its sums. */
static int factors_of(const reader *r, const dlsh_node *n, const dlsh_node **out, int max) {
    const dlsh_node *other;
    int found = 0;
    for (int k = 0; n && k < 2 && found < max; k++) {
        const dlsh_node *by = factor_of(r, n, k, &other);
        if (by) out[found++] = by;
    }
    const int divides = n && n->kind == DLSH_N_BINARY && n->op == DLSH_OP_DIV;
    const int within = n && ((n->kind == DLSH_N_BINARY && n->op == DLSH_OP_MUL) || n->kind == DLSH_N_UNARY || divides);
    for (int i = 0; within && i < n->nkids - divides; i++) found += factors_of(r, n->kids[i], out + found, max - found);
    return found;
}

/* Is it the same number of the text, by whatever name? */
static int is_same_number(const reader *r, const dlsh_node *a, const dlsh_node *b) {
    const int item = a->kind == DLSH_N_FIELD || (a->kind == DLSH_N_INDEX && a->nkids == 2);
    if (item && dlsh_same_text(r->file, a, b)) return 1;
    if (a->kind != DLSH_N_NAME && a->kind != DLSH_N_FIELD) return 0;
    const dlsh_node *made = dlsh_made(r->file, a);
    return made && made == dlsh_made(r->file, b);
}

typedef struct twice {
    reader r;
    const dlsh_node *rate[4], *again; /* the factors of an update; what has one of them once more */
    int n;
} twice;

/* Is it a weight, w or w.detach()? */
static int holds_weight(const reader *r, const dlsh_node *n) {
    while (n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD && n->nkids == 1) n = n->kids[0]->kids[0];
    const dlsh_value *v = n->kind == DLSH_N_NAME ? dlsh_value_of(r->e, r->file, n) : NULL;
    return (v && v->type == DLSH_TENSOR && dl_requires_grad(v->as.tensor)) || dlsh_same_text(r->file, n, r->target);
}

/* Back from what an update is made of, not beyond gradients and weights. */
static dlsh_property has_rate_again(void *ctx, const dlsh_step *at) {
    twice *t = ctx;
    reader r = t->r;
    const dlsh_node *of[] = {at->n, dlsh_call_that_adds(at)}, *by[8];
    const int sum = at->n->kind == DLSH_N_BINARY && (at->n->op == DLSH_OP_SUB || at->n->op == DLSH_OP_ADD);
    for (int k = 0; sum && k < 2; k++)
        if (holds_weight(&r, at->n->kids[k])) return DLSH_HAS_NOT; /* the way that weights went meanwhile */
    for (int k = 0; k < 2; k++) {
        const int n = factors_of(&r, of[k], by, (int)DLSH_COUNT(by));
        for (int i = 0; i < n * t->n; i++)
            if (by[i / t->n] != t->rate[i % t->n] && is_same_number(&r, by[i / t->n], t->rate[i % t->n]) &&
                found_by(t->r, of[k], is_gradient))
                return t->again = of[k], DLSH_HAS_FIRST;
    }
    return is_gradient(&r, at) == DLSH_HAS_FIRST || holds_weight(&r, at->n) ? DLSH_HAS_NOT : DLSH_MAY_HAVE;
}

/* v = mu * v + lr * g; w -= lr * v. Was it found? */
static int find_rate_twice(dlsh_examination *e, const reader *r, const dlsh_node *update) {
    enum { MOST = 4 };
    twice t = {.r = {.e = e, .file = r->file, .target = written_by(update)}};
    const int call = update->kind == DLSH_N_CALL;
    const dlsh_node *value = update->kids[call ? 1 : update->nkids - 1];
    if (value->kind == DLSH_N_BINARY && (value->op == DLSH_OP_SUB || value->op == DLSH_OP_ADD)) value = value->kids[1];
    t.n = factors_of(r, value, t.rate, MOST);
    if (call) t.n += factors_of(r, update, t.rate + t.n, MOST - t.n);
    if (t.n) dlsh_origin(r->file, value, has_rate_again, &t);
    if (!t.again) return 0;
    dlsh_found(e, r->file, update->span.line, "the rate at one of both places alone",
               "the learning rate goes into the update twice: steps are as small as its square makes them\n"
               "line %d multiplies the gradient by it, and line %d what is made of that once more",
               t.again->span.line, update->span.line);
    return 1;
}

/* Was NaN made where a function ends, as a logarithm at 0, or from the start? No rate helps then. */
static int leaves_domain(const dl_journal_row *pass) {
    static dl_nan_event event;
    if (!isfinite(pass->first)) return 1;
    if (isfinite(pass->last)) return 0;
    const int any = !dl_nan_event_at(1, 0, &event) || !dl_nan_event_at(0, 0, &event);
    dl_error_clear();
    const char *op = event.backward ? event.forward : event.op;
    return any && dlsh_is_word("sqrt|log|norm|cdist|div|pow|log1p|acos|asin|where", op);
}

/* The only pass of a training by hand; NULL: there are several, or optimizers step. */
static const dl_journal_row *pass_of_updates(const dlsh_examination *e) {
    const dl_journal_row *pass = NULL;
    DLSH_EACH_ROW (r, e, DL_DID_STEP)
        if (r->what) return NULL;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        if (pass || !r->nnodes[1]) return NULL;
        pass = r;
    }
    return pass;
}

static void look_at_size(dlsh_examination *e, const reader *r, const dlsh_node *n, const dl_journal_row *pass) {
    double first, last, weight;
    const dlsh_node *value = n->kids[n->nkids - 1], *target = written_by(n);
    const dlsh_node *decay = found_by((reader){.e = e, .file = r->file, .target = target}, value, decays);
    const dlsh_node *limit = found_by(*r, value, limits), *rate = rate_in(r, value, NULL);
    const double k = decay ? dlsh_number_of(e, r->file, decay) : NAN,
                 l = limit ? dlsh_number_of(e, r->file, limit) : NAN;
    sizes_of(dlsh_pass_of(pass, 0), &first, &weight);
    sizes_of(dlsh_pass_of(pass, 1), &last, &weight);
    if (k >= 0.1 && weight > 0 && last > 0.3 * k * weight) {
        dlsh_found(e, r->file, line_of_number(r->file, decay), "a smaller decay, such as 1e-4",
                   "the decay of the weights, %.3g, is as strong as the gradient: it holds them near 0\n"
                   "at line %d it is added to the gradient, which has size %.3g, times weights of %.3g; the loss stays "
                   "at %.4g",
                   k, n->span.line, last, weight, pass->last);
    } else if (l > 0 && l < 0.05 * first && !dlsh_settled_lower(pass, 0.8)) {
        dlsh_found(e, r->file, line_of_number(r->file, limit), "a limit about as large as usual gradients",
                   "gradients are cut to %.3g, %.2g of their size: almost nothing is learned\n"
                   "they have size %.3g at first; the loss went from %.4g to %.4g in %ld passes",
                   l, l / first, first, pass->first, pass->last, pass->count);
    } else if (rate && pass->count > 4 && (!isfinite(pass->last) || pass->last > 1.5 * fabs(pass->first))) {
        const long added = dlsh_samples_added(pass);
        const dl_journal_node *root = dlsh_pass_of(pass, 1).at;
        dlsh_finding *f =
            e->bad || leaves_domain(pass) ? NULL
            : added
                ? dlsh_find_at(e, root->file, root->line, "the mean over samples, or a rate that many times smaller")
                : dlsh_find_at(e, r->file, line_of_number(r->file, rate), "a smaller rate, 2 to 100 times");
        if (f) f->effect = !added; /* of weights that make gradients explode, as well */
        const double size = dlsh_number_of(e, r->file, rate);
        if (added)
            dlsh_cause(f, "the learning rate, %.3g, is too large for a loss that is the sum over %ld samples", size,
                       added);
        else
            dlsh_cause(f, "the learning rate, %.3g, is too large: each step goes too far, and the loss grows", size);
        dlsh_evidence(f, "it went from %.4g to %.4g in %ld passes; line %d multiplies the gradient by it", pass->first,
                      pass->last, pass->count, n->span.line);
    }
}

/* What an update divides its gradient by, where the loss is a mean over as many samples already. */
static dlsh_property divides_again(void *ctx, const dlsh_step *at) {
    reader *r = ctx;
    if (at->n->kind == DLSH_N_BINARY && at->n->op == DLSH_OP_DIV &&
        (double)dlsh_divisor_of(r->e, r->file, at->n->kids[1]) == r->samples)
        r->found = at->n->kids[1];
    return r->found ? DLSH_HAS_FIRST : at->added ? DLSH_HAS_NOT : DLSH_MAY_HAVE;
}

/* Does the rate depend on the number of the round of a loop, for i in range(n), so that it is nearly 0 in most of them,
 * while gradients are still there? The name where the loop's number is used. */
static const dlsh_node *fades(const reader *r, const dlsh_node *update, double *share) {
    enum { ROUNDS = 64 };
    const dlsh_node *around[ROUNDS], *root = dlsh_text_root(r->file);
    const int depth = dlsh_nodes_around(root, update->span.start, around, ROUNDS);
    for (int i = depth - 1; i >= 0; i--) {
        const dlsh_node *of = around[i], *seq = of->kind == DLSH_N_FOR && of->nkids == 3 ? of->kids[1] : NULL;
        const int counts = dlsh_is_call_of(seq, "range") && seq->nkids == 2 && of->kids[0]->kind == DLSH_N_NAME;
        const double rounds = counts ? dlsh_number_of(r->e, r->file, seq->kids[1]) : 0;
        const char *round = rounds >= ROUNDS ? of->kids[0]->text : NULL;
        const dlsh_node *rate = round ? rate_in(r, update->kids[update->nkids - 1], round) : NULL;
        const double first = rate ? dlsh_number_with(r->e, r->file, rate, round, 0) : 0;
        *share = 0;
        for (int k = 0; rate && k < ROUNDS; k++)
            *share += dlsh_number_with(r->e, r->file, rate, round, rounds * (k + 0.5) / ROUNDS) / ROUNDS / first;
        if (rate && *share < 0.02) return rate;
    }
    return NULL;
}

/* Is the gradient of the last pass still of the size that it had? */
static int has_gradient_left(const dl_journal_row *pass) {
    double first, last, weight;
    sizes_of(dlsh_pass_of(pass, 0), &first, &weight), sizes_of(dlsh_pass_of(pass, 1), &last, &weight);
    return last > 0.05 * first && last > 0;
}

/* Was it found that the rate fades too early? */
static int find_fading_rate(dlsh_examination *e, const reader *r, const dlsh_node *update, const dl_journal_row *pass) {
    double share;
    const dlsh_node *rate = fades(r, update, &share);
    if (!rate || !has_gradient_left(pass)) return 0;
    dlsh_found(e, r->file, line_of_number(r->file, rate),
               "a rate that lasts as long as the training: rate / sqrt(1 + i), or a constant one",
               "the learning rate fades too early: the weights stop before they have learned\n"
               "over all rounds it is %.2g of its first value on average; the gradient is there still, and the loss "
               "went from %.4g to %.4g",
               share, pass->first, pass->last);
    return 1;
}

/* v = 0.99 * v + g, v.mul_(0.99).add_(g), where g is a gradient as it is: the statement; *momentum: its factor. NULL:
 * there is none. */
static const dlsh_node *velocity(const reader *r, double *momentum, const dlsh_node **target) {
    DLSH_EACH_BELOW (t, dlsh_text_root(r->file)) {
        const dlsh_node *n = t.n, *sum = n->kind == DLSH_N_ASSIGN && n->nkids == 2 && !n->op ? n->kids[1] : NULL;
        const dlsh_node *kept = NULL, *by = NULL, *g = NULL;
        if (dlsh_is_method(n, "add_") && n->nkids == 2 && dlsh_is_method(n->kids[0]->kids[0], "mul_"))
            by = n->kids[0]->kids[0]->kids[1], g = n->kids[1];
        for (int k = 0; sum && sum->kind == DLSH_N_BINARY && sum->op == DLSH_OP_ADD && !by && k < 2; k++) {
            kept = sum->kids[k], g = sum->kids[!k];
            for (int j = 0; kept->kind == DLSH_N_BINARY && kept->op == DLSH_OP_MUL && j < 2; j++)
                if (dlsh_same_text(r->file, kept->kids[j], n->kids[0])) by = kept->kids[!j];
        }
        const int scaled = g && g->kind == DLSH_N_BINARY && (g->op == DLSH_OP_MUL || g->op == DLSH_OP_DIV);
        if (!by || scaled || !sign_of_gradient(r, g, 0)) continue; /* as of an average */
        *momentum = dlsh_number_of(r->e, r->file, by);
        *target = sum ? n->kids[0] : n->kids[0]->kids[0]->kids[0]->kids[0];
        if (*momentum > 0) return n;
    }
    return NULL;
}

/* Was it found that the script's own momentum adds up too much? */
static int find_swings(dlsh_examination *e, const reader *r, const dl_journal_row *step, const dl_journal_row *pass,
                       const dlsh_node *update) {
    double momentum = 0, lr = 0;
    const dlsh_node *target = NULL, *by = velocity(r, &momentum, &target);
    DLSH_EACH_BELOW (t, by ? update->kids[update->nkids - 1] : NULL)
        for (int k = 0; t.n->kind == DLSH_N_BINARY && t.n->op == DLSH_OP_MUL && k < 2; k++)
            if (dlsh_same_text(r->file, t.n->kids[k], target)) lr = dlsh_number_of(e, r->file, t.n->kids[!k]);
    if (!by || !dlsh_momentum_swings(e, step, pass, momentum, lr)) return 0;
    dlsh_finding *f = dlsh_find_at(e, r->file, by->span.line, "a factor of 0.9, or a smaller rate");
    if (f) dlsh_tell_swings(e, f, step, pass, momentum, lr);
    return 1;
}

int dlsh_judge_own_update(dlsh_examination *e, const dl_journal_row *step) {
    reader r = {.e = e, .file = step->file};
    const dlsh_node *n = update_in(&r, dlsh_text_root(step->file), step->line);
    const dl_journal_row *pass = n ? pass_of_updates(e) : NULL;
    if (!pass || isnan(step->ratio[3])) return 0;
    const dlsh_node *value = n->kids[n->nkids - 1], *rate = rate_in(&r, value, NULL);
    const double samples = r.samples = dlsh_samples_averaged(dlsh_pass_of(pass, 1));
    const dlsh_node *by = samples >= 4 && step->ratio[3] < 5e-3 ? found_by(r, value, divides_again) : NULL;
    if (dlsh_was_found(e, "updates written by hand", "clipped to the norm") ||
        dlsh_was_found(e, "updates written by hand", "twice"))
        return 1;
    if (find_fading_rate(e, &r, n, pass) || find_swings(e, &r, step, pass, n)) return 1;
    const int line = by ? by->span.line : rate ? line_of_number(r.file, rate) : n->span.line;
    dlsh_finding *f = by || dlsh_stands_still(e, step, pass)
                          ? dlsh_find_at(e, r.file, line,
                                         by ? "divide once: the mean over samples is enough"
                                            : dlsh_kept(e, "%.0f times as much: updates of a thousandth of the weights",
                                                        1e-3 / step->ratio[3]))
                          : NULL;
    if (!f) {
        if (!dlsh_are_wild(e, step))
            dlsh_passed(e, "%.2g times the size of the weights at first, %.2g at last", step->ratio[0], step->ratio[1]);
        return 1;
    }
    if (by)
        dlsh_cause(f,
                   "the update divides by the number of samples, %.0f, although the loss is a mean over them: steps "
                   "are %.0f times too small",
                   samples, samples);
    else
        dlsh_cause(f, "the learning rate is too small: the weights hardly change");
    dlsh_evidence(
        f, "updates are at most %.2g times the size of the weights; in %ld passes the loss went from %.4g to %.4g",
        step->ratio[3], pass->count, pass->first, pass->last);
    return 1;
}

/* Is what the gradients are of no error, but something that is made large, and did it come to rest? */
static int rises_to_rest(const dlsh_examination *e) {
    const dl_journal_row *r = pass_of_updates(e);
    const dlsh_pass p = r ? dlsh_pass_of(r, 1) : (dlsh_pass){0};
    const int part = r ? r->ncurve / 4 : 0;
    double middle = 0, end = 0;
    if (part < 2 || !isfinite(r->last) || isfinite(dlsh_bounds_of(p, p.at).low)) return 0;
    for (int i = 0; i < part; i++) middle += r->curve[r->ncurve / 2 + i], end += r->curve[r->ncurve - 1 - i];
    return end > part * r->curve[0] && end - middle < 0.2 * (middle - part * r->curve[0]);
}

static dlsh_property is_that(void *that, const dlsh_step *at) { return at->n == that ? DLSH_HAS_FIRST : DLSH_MAY_HAVE; }

/* Is what a statement adds taken away again in the same loop, as where a gradient is wanted at a place beside? */
static int is_taken_back(const char *file, int line) {
    const dlsh_node *n = dlsh_statement_at(file, line), *root = dlsh_text_root(file), *around[DLSH_TREE_DEPTH];
    const int depth =
        n && n->kind == DLSH_N_ASSIGN ? dlsh_nodes_around(root, n->span.start, around, DLSH_TREE_DEPTH) : 0;
    const dlsh_node *given = depth ? n->kids[1] : NULL, *made = dlsh_defined(file, given);
    const dlsh_node *added = made ? made : given;
    const dlsh_node *loop = NULL;
    for (int i = 0; i < depth && !loop; i++)
        if (dlsh_is_loop(around[i])) loop = around[i];
    DLSH_EACH_BELOW (t, loop)
        if (t.n->kind == DLSH_N_ASSIGN && t.n->op == DLSH_OP_SUB && t.n->span.start > n->span.start &&
            dlsh_origin(file, t.n->kids[1], is_that, (void *)added))
            return 1;
    return 0;
}

static void judge(dlsh_examination *e, const char *file, int line, int sign, long count) {
    if (sign > 0 && is_taken_back(file, line)) return;
    if (sign > 0 && rises_to_rest(e)) {
        dlsh_passed(e, "they go with the gradient of what is made large, and it comes to rest");
        return;
    }
    if (sign < 0 || dlsh_loss_is_negated(e)) {
        dlsh_passed(e, "they go against the gradient");
        return;
    }
    dlsh_found(e, file, line, "subtract it: w -= rate * w.grad",
               "the update adds the gradient: the loss is made larger, not smaller\n"
               "%ld updates at this line went with the gradient",
               count);
}

/* ---------------------------------------------------------------- weights that are made anew */

/* Is a name, w, the one that a gradient belongs to: w.grad, grad(loss, w)? */
static dlsh_property is_own(void *ctx, const dlsh_step *at) {
    reader *r = ctx, any = *r;
    if (is_gradient(&any, at) != DLSH_HAS_FIRST) return at->added ? DLSH_HAS_NOT : DLSH_MAY_HAVE;
    if (dlsh_mentions(at->n, r->target->text)) r->found = at->n;
    return r->found ? DLSH_HAS_FIRST : DLSH_HAS_NOT;
}

/* w = param(w - rate * g), in the loop of a backward pass. */
static void see_made_anew(dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node *const *within,
                          int depth) {
    const reader r = {.e = e, .file = file, .target = n->nkids ? n->kids[0] : NULL};
    if (n->kind != DLSH_N_ASSIGN || n->op || n->nkids != 2 || n->kids[0]->kind != DLSH_N_NAME) return;
    if (!dlsh_mentions(n->kids[1], n->kids[0]->text) || !found_by(r, n->kids[1], is_own)) return;
    const int sign = sign_of_gradient(&r, n->kids[1], 0);
    int loop = 0;
    for (int i = 0; i < depth; i++) loop |= dlsh_is_loop(within[i]);
    DLSH_EACH_ROW_WHILE (sign &&loop, pass, e, DL_DID_BACKWARD) {
        if (pass->count < 3 || strcmp(pass->file, file) != 0) continue;
        judge(e, file, n->span.line, sign, pass->count);
        break;
    }
}

/* ---------------------------------------------------------------- the gradient of another one, and weights left out */

/* The name of which an expression takes .grad; NULL: it takes none, or of several. */
static const dlsh_node *taken_from(const dlsh_node *n) {
    const dlsh_node *found = NULL;
    if (n->kind == DLSH_N_FIELD && !strcmp(n->text, "grad")) return n->kids[0]->kind == DLSH_N_NAME ? n->kids[0] : NULL;
    for (int i = 0; i < n->nkids; i++) {
        const dlsh_node *by = n->kids[i] ? taken_from(n->kids[i]) : NULL;
        if (by && found && strcmp(by->text, found->text) != 0) return NULL;
        found = by ? by : found;
    }
    return found;
}

static void see_crossed(dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_node *target = written_by(n), *value = target ? n->kids[n->nkids - 1] : NULL;
    const dlsh_node *of = target && target->kind == DLSH_N_NAME ? taken_from(value) : NULL;
    if (!of || !strcmp(of->text, target->text) || dlsh_speaks_of(target->text, "grad")) return;
    const int updates = n->kind == DLSH_N_CALL || n->op || dlsh_mentions(value, target->text);
    const dlsh_value *v = dlsh_value_of(e, file, of), *to = dlsh_value_of(e, file, target);
    const int tensors = v && to && v->type == DLSH_TENSOR && to->type == DLSH_TENSOR;
    if (!updates || !tensors || !dl_requires_grad(v->as.tensor) || !dlsh_is_as_made(v->as.tensor)) return;
    dlsh_found(e, file, n->span.line, "give each parameter its own gradient",
               "%s is updated with the gradient of %s\n"
               "the statement takes %s.grad and changes %s; nothing changes %s",
               target->text, of->text, of->text, target->text, of->text);
}

/* Is it the first operand of a product, as data are? */
static int is_like_data(dlsh_pass p, const void *leaf) {
    for (long k = 0; k < p.n; k++)
        if (p.at[k].in[0].leaf == leaf && dlsh_op_is(&p.at[k], "matmul|linear|conv1d|conv2d|conv3d")) return 1;
    return 0;
}

/* The leaves of the only pass of a training by hand that nothing writes, while others are written. */
static void find_left_out(dlsh_examination *e, const dl_journal_row *pass) {
    const dlsh_pass first = dlsh_pass_of(pass, 0), last = dlsh_pass_of(pass, 1);
    char name[120], left[120] = "", written[120] = "";
    dl_source at = {0}, maker;
    DLSH_EACH_OP (m, last)
        DLSH_EACH_OPERAND (v, m) {
            dl_tensor *t = v->there && v->leaf ? dlsh_live_leaf(e, v->leaf, name, sizeof name) : NULL;
            if (!t || !dl_requires_grad(t) || !dlsh_pass_has(first, t) || is_like_data(last, t)) continue;
            const int made = dlsh_is_as_made(t);
            if (!made) memcpy(written, name, sizeof written), dlsh_tensor_places(t, &maker, &at);
            if (made && !*left) memcpy(left, name, sizeof left);
        }
    if (!*left || !*written || dlsh_script_line_with(e, pass->file, "grad(") > 0) return;
    dlsh_found(e, at.file, at.line, "update it like the others",
               "%s gets a gradient and is never updated\n"
               "%ld passes gave it one; this line changes %s and others, and no statement changed %s",
               left, pass->count, written, left);
}

dl_status dlsh_check_hand_update(dlsh_examination *e) {
    const dl_journal_row *row;
    long steps = 0;
    for (long i = 0; (row = dlsh_row_next(e, DL_DID_STEP, &i));) {
        const reader r = {.e = e, .file = row->file};
        const dlsh_node *n = row->what ? NULL : update_in(&r, dlsh_text_root(row->file), row->line);
        const int sign = n ? sign_of_update(&r, n) : 0;
        steps += row->count;
        if (sign) judge(e, row->file, row->line, sign, row->count);
        if (n && (dlsh_find_wrong_power(e, row->file, n, 0) || find_rate_twice(e, &r, n))) continue;
        const dl_journal_row *pass = sign < 0 && !e->bad ? pass_of_updates(e) : NULL;
        if (!sign && !row->what && !e->bad) dlsh_find_cut_by_hand(e, pass_of_updates(e)); /* by a velocity */
        const int known =
            dlsh_was_found(e, "gradients are zeroed", "") || dlsh_was_found(e, "what the loss is given", "");
        if (pass && !known && !dlsh_find_clipped_by_hand(e, pass)) look_at_size(e, &r, n, pass);
    }
    DLSH_EACH_NODE (t) {
        const int by = dlsh_is_method(t.n, "mul_") || dlsh_is_method(t.n, "div_");
        const dlsh_node *to = by ? t.n->kids[0]->kids[0] : written_by(t.n);
        while (to && to->kind == DLSH_N_INDEX) to = to->kids[0];
        if (to && to->kind == DLSH_N_FIELD && !strcmp(to->text, "grad")) dlsh_find_wrong_power(e, t.file, t.n, 1);
    }
    if (!steps)
        DLSH_EACH_NODE (t) see_made_anew(e, t.file, t.n, t.within, t.depth);
    if (steps)
        DLSH_EACH_NODE (t) see_crossed(e, t.file, t.n);
    row = steps && !e->bad ? pass_of_updates(e) : NULL;
    if (row && row->count > 3) find_left_out(e, row);
    DLSH_EACH_ROW_WHILE (!e->bad && !e->told, step, e, DL_DID_STEP)
        if (!step->what)
            dlsh_unchecked(e, "the text does not tell with which sign gradients go into the update of line %d",
                           step->line);
    return DL_OK;
}
