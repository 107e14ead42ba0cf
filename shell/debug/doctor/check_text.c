/* What the text of a training shows beside what it did: losses that are scaled for 16-bit floats, averages of weights,
 * hooks that turn gradients round. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "commands/nets/scaler.h"
#include "debug/doctor/checks.h"
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"

/* ---------------------------------------------------------------- scaled losses */

typedef struct scaling {
    const dlsh_examination *e;
    const char *file;         /* that scales a loss; NULL: none does */
    int scale, step, unscale; /* lines; 0: not there */
} scaling;

static void see_scaling(scaling *s, const char *file, const dlsh_node *n) {
    if (n->kind != DLSH_N_CALL || n->kids[0]->kind != DLSH_N_FIELD ||
        !dlsh_object_of(s->e, file, n->kids[0]->kids[0], &dlsh_scaler_class))
        return;
    if (dlsh_is_method(n, "scale")) s->file = file, s->scale = n->span.line;
    if (dlsh_is_method(n, "step")) s->step = n->span.line;
    if (dlsh_is_method(n, "unscale_")) s->unscale = n->span.line;
}

static void find_never_unscaled(dlsh_examination *e, const scaling *s) {
    DLSH_EACH_ROW_WHILE (!s->step && !s->unscale, r, e, DL_DID_STEP) {
        if (strcmp(r->file, s->file) != 0) continue;
        dlsh_found(e, r->file, r->line, "g.step(o), which divides by the scale, in place of o.step()",
                   "steps use the gradients of a loss that is scaled: nothing divides them by the scale\n"
                   "line %d scales the loss; %ld steps, and neither unscale_ nor step of the scaler",
                   s->scale, r->count);
    }
}

static void find_clipped_scaled(dlsh_examination *e, const scaling *s) {
    DLSH_EACH_ROW (r, e, DL_DID_CLIP) {
        if (strcmp(r->file, s->file) != 0 || r->line < s->scale || (s->unscale && s->unscale < r->line)) continue;
        dlsh_finding *f = dlsh_find_at(e, r->file, r->line, "g.unscale_(o) before the clipping");
        if (!f) continue;
        dlsh_cause(f, "gradients are clipped before they are unscaled: the limit is that of scaled ones");
        char norm[48] = ""; /* clipping by value computes none */
        if (!isnan(r->first)) snprintf(norm, sizeof norm, ", the norm before it %.4g", r->first);
        dlsh_evidence(f, "the limit is %.3g%s; line %d scales the loss%s", r->limit, norm, s->scale,
                      s->unscale ? ", unscale_ comes later" : "");
    }
}

dl_status dlsh_check_scaling(dlsh_examination *e) {
    scaling s = {.e = e};
    DLSH_EACH_NODE (t) see_scaling(&s, t.file, t.n);
    dlsh_find_clipped_before_scaled(e);
    if (!s.file) return DL_OK;
    find_never_unscaled(e, &s);
    find_clipped_scaled(e, &s);
    dlsh_passed(e, "gradients are unscaled before they are used");
    return DL_OK;
}

/* ---------------------------------------------------------------- averages of weights */

/* An average as its own part and that of what is new. */
typedef struct average {
    double own, other;
    const dlsh_node *of, *fed; /* what is one, and what is new; NULL: not known */
} average;
static const average none = {.own = NAN, .other = NAN};

/* x.data, x.detach() -> x */
static const dlsh_node *bare(const dlsh_node *n) {
    while (n->kind == DLSH_N_FIELD && !strcmp(n->text, "data")) n = n->kids[0];
    if (dlsh_is_method(n, "detach") || dlsh_is_method(n, "clone")) return bare(n->kids[0]->kids[0]);
    return n;
}

/* A number times something; of what is only something 1. */
static double factor_of(const dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node **what) {
    *what = n;
    if (n->kind != DLSH_N_BINARY || n->op != DLSH_OP_MUL) return 1;
    for (int i = 0; i < 2; i++) {
        const double k = dlsh_number_of(e, file, n->kids[i]);
        if (isnan(k)) continue;
        *what = n->kids[1 - i];
        return k;
    }
    return NAN;
}

static average of_sum(const dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node *of) {
    const dlsh_node *what[2];
    average a = none;
    if (n->kind != DLSH_N_BINARY || n->op != DLSH_OP_ADD) return a;
    const double k[2] = {factor_of(e, file, n->kids[0], &what[0]), factor_of(e, file, n->kids[1], &what[1])};
    for (int i = 0; i < 2; i++)
        if (dlsh_same_text(file, bare(what[i]), bare(of))) a = (average){k[i], k[1 - i], of, what[1 - i]};
    return a;
}

/* a.mul_(d).add_(b, alpha=1 - d), a.mul_(d).add_((1 - d) * b) */
static average of_chain(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_node *first = n->kids[0]->kids[0], *alpha = dlsh_argument_of(n, 1, "alpha");
    if (!dlsh_is_method(first, "mul_") || first->nkids < 2 || n->nkids < 2) return none;
    average a = {dlsh_number_of(e, file, first->kids[1]), NAN, first->kids[0]->kids[0], n->kids[1]};
    a.other = alpha ? dlsh_number_of(e, file, alpha) : factor_of(e, file, n->kids[1], &a.fed);
    return a;
}

static average average_of(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    if (n->kind == DLSH_N_ASSIGN && !n->op && n->nkids == 2 && n->kids[0]->kind != DLSH_N_NAME)
        return of_sum(e, file, n->kids[1], n->kids[0]);
    if (dlsh_is_method(n, "copy_") && n->nkids == 2) return of_sum(e, file, n->kids[1], n->kids[0]->kids[0]);
    if (dlsh_is_method(n, "add_")) return of_chain(e, file, n);
    average a = none;
    if (dlsh_is_method(n, "lerp_") && n->nkids == 3)
        a = (average){1 - dlsh_number_of(e, file, n->kids[2]), NAN, n->kids[0]->kids[0], n->kids[1]};
    if (dlsh_is_method(n, "update_parameters")) a.own = dlsh_number_of(e, file, dlsh_argument_of(n, 1, "decay"));
    a.other = 1 - a.own;
    return a;
}

static int is_average(average a) { return fabs(a.own + a.other - 1) < 1e-6; }

int dlsh_keeps_average(const dlsh_examination *e, const char *file, int line) {
    DLSH_EACH_NODE (t) {
        if (file && (t.n->span.line != line || strcmp(t.file, file) != 0)) continue;
        if (is_average(average_of(e, t.file, t.n))) return 1;
    }
    return 0;
}

dl_status dlsh_check_average(dlsh_examination *e) {
    int seen = 0;
    DLSH_EACH_NODE (t) {
        const average a = average_of(e, t.file, t.n);
        if (is_average(a) && ++seen && a.own > 0 && a.own <= 0.1)
            dlsh_found(e, t.file, t.n->span.line, "decay * average + (1 - decay) * new, with a decay such as 0.999",
                       "the average has its decay reversed: it follows the newest weights alone\n"
                       "each update keeps %.3g of the average and takes %.3g of what is new",
                       a.own, a.other);
    }
    if (seen) dlsh_passed(e, "they keep most of what they were");
    return DL_OK;
}

/* ---------------------------------------------------------------- averages of deviations and of variances */

typedef enum spread { NEITHER, DEVIATION, VARIANCE } spread;
typedef struct fed {
    const dlsh_examination *e;
    spread kind;
} fed;

/* 0.5 of sqrt(x) and x ** 0.5, 2 of squares; NaN: it is no power. */
static double power_in(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    if (dlsh_is_call_of(n, "sqrt|rsqrt|sqrt_|rsqrt_")) return 0.5;
    if (dlsh_is_call_of(n, "square|square_")) return 2;
    const int binary = n->kind == DLSH_N_BINARY && n->op == DLSH_OP_POW;
    if (!binary && !(dlsh_is_call_of(n, "pow") && n->nkids > 1)) return NAN;
    return fabs(dlsh_number_of(e, file, n->kids[n->nkids - 1]));
}

/* The last thing that was done to what is fed to an average: was a deviation or a variance made of it? */
static dlsh_property is_fed(void *ctx, const dlsh_step *at) {
    fed *f = ctx;
    const double power = power_in(f->e, at->file, at->n);
    if ((at->n->kind == DLSH_N_FIELD && !strcmp(at->n->text, "grad")) || dlsh_gives_gradients(at->n))
        return DLSH_HAS_FIRST;
    f->kind = dlsh_is_call_of(at->n, "std|std_mean") || power == 0.5 ? DEVIATION
              : dlsh_is_call_of(at->n, "var|var_mean") || power == 2 ? VARIANCE
                                                                     : NEITHER;
    return f->kind ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

static int holds(const char *file, const dlsh_node *n, const dlsh_node *what) {
    DLSH_EACH_BELOW (t, n)
        if (dlsh_same_text(file, t.n, what)) return 1;
    return 0;
}

/* Where the text takes the root of something, or divides by it as it is; NULL: nowhere. */
static const dlsh_node *use_of(const dlsh_examination *e, const char *file, const dlsh_node *of, int root) {
    DLSH_EACH_BELOW (t, dlsh_text_root(file)) {
        const int divides = t.n->kind == DLSH_N_BINARY && t.n->op == DLSH_OP_DIV;
        if (root ? power_in(e, file, t.n) == 0.5 && holds(file, t.n, of) : divides && holds(file, t.n->kids[1], of))
            return t.n;
    }
    return NULL;
}

/* var = 0.9 * var + 0.1 * x.std(), of which sqrt(var) is taken; std = 0.9 * std + 0.1 * x.var(), which divides as it
 * is. */
void dlsh_find_wrong_averages(dlsh_examination *e) {
    DLSH_EACH_NODE (t) {
        const int named = t.n->kind == DLSH_N_ASSIGN && !t.n->op && t.n->nkids == 2;
        const average a = named ? of_sum(e, t.file, t.n->kids[1], t.n->kids[0]) : average_of(e, t.file, t.n);
        fed f = {e, NEITHER};
        if (!is_average(a) || !a.fed || !dlsh_origin(t.file, a.fed, is_fed, &f) || !f.kind) continue;
        const dlsh_node *root = use_of(e, t.file, a.of, 1);
        const dlsh_node *use = f.kind == DEVIATION ? root : root ? NULL : use_of(e, t.file, a.of, 0);
        if (!use) continue;
        dlsh_found(e, t.file, t.n->span.line,
                   root ? "feed it with the variance, x.var(dim=0)" : "divide by the root, sqrt(average + eps)",
                   "a running average of %s is used as one of %s: what divides is no deviation of the data\n"
                   "this line feeds it with a %s; line %d %s",
                   root ? "deviations" : "variances", root ? "variances" : "deviations",
                   root ? "deviation" : "variance", use->span.line,
                   root ? "takes the root of it" : "divides by it as it is");
    }
}

/* Does the function around a line keep averages of what is there and what is new, as batch norm written by hand? */
int dlsh_averages_around(const dlsh_examination *e, const char *file, int line) {
    const dlsh_node *around[DLSH_AROUND], *root = dlsh_text_root(file);
    const int depth = root ? dlsh_functions_around(root, dlsh_place_of_line(file, line), around) : 0;
    DLSH_EACH_BELOW (t, depth ? around[depth - 1] : NULL)
        if (is_average(average_of(e, file, t.n))) return 1;
    return 0;
}

/* ---------------------------------------------------------------- hooks of gradients */

/* The sign with which a parameter of a function goes into an expression; 0: not known. */
static int sign_of(const dlsh_examination *e, const char *file, const dlsh_node *n, const char *param) {
    static const char keeping[] = "clamp|clip|mul|div|clone|nan_to_num|tanh|sign|normalize|to|float|half|hardtanh";
    if (dlsh_names(n, param)) return 1;
    if (n->kind == DLSH_N_UNARY && n->op == DLSH_OP_NEG) return -sign_of(e, file, n->kids[0], param);
    if (n->kind == DLSH_N_BINARY && (n->op == DLSH_OP_MUL || n->op == DLSH_OP_DIV))
        for (int i = 0; i < 2; i++) {
            const double k = dlsh_number_of(e, file, n->kids[1 - i]);
            if (!isnan(k) && k != 0) return sign_of(e, file, n->kids[i], param) * (k < 0 ? -1 : 1);
        }
    const dlsh_node *by = n->kind == DLSH_N_CALL ? n->kids[0] : NULL;
    if (!dlsh_is_call_of(n, keeping)) return 0;
    return by->kind == DLSH_N_FIELD ? sign_of(e, file, by->kids[0], param)
           : n->nkids > 1           ? sign_of(e, file, n->kids[1], param)
                                    : 0;
}

/* Is the hook at a parameter, which no layer in front of it makes? */
static int is_of_parameter(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_value *v = dlsh_value_of(e, file, n);
    const dlsh_node *made = dlsh_defined(file, n);
    const dlsh_node *by = made && made->kind == DLSH_N_CALL ? made->kids[0] : NULL;
    if (n->kind == DLSH_N_FIELD || (by && by->text && strstr(by->text, "param"))) return 1;
    return v && v->type == DLSH_TENSOR && dl_is_leaf(v->as.tensor);
}

static int see_hook(void *ctx, const char *file, const dlsh_node *n) {
    dlsh_examination *e = ctx;
    const int method = dlsh_is_method(n, "register_hook");
    const int plain = n->kind == DLSH_N_CALL && dlsh_names(n->kids[0], "on_grad");
    if (!(method && n->nkids > 1) && !(plain && n->nkids > 2)) return 0;
    const dlsh_node *of = method ? n->kids[0]->kids[0] : n->kids[1], *fn = n->kids[method ? 1 : 2];
    if (fn->kind == DLSH_N_NAME) fn = dlsh_function_of(file, fn->text);
    if (!fn || fn->kind != DLSH_N_FN || fn->nkids < 2) return 0;
    const dlsh_node *back = dlsh_last_return(fn);
    if (!back || !back->nkids || !back->kids[0] || sign_of(e, file, back->kids[0], fn->kids[0]->text) >= 0) return 0;
    dlsh_finding *f = dlsh_found(e, file, back->span.line, "return the gradient with its sign",
                                 "a hook turns gradients round: each step makes the error larger\n"
                                 "the function that the hook of line %d calls returns its argument with the other sign",
                                 n->span.line);
    if (!f) return 0;
    if (!is_of_parameter(e, file, of)) dlsh_only_note(e, f); /* as domains are made alike */
    return 0;
}

dl_status dlsh_check_hooks(dlsh_examination *e) {
    dlsh_each_node(see_hook, e);
    return DL_OK;
}
