/* Which way a figure is to go: what is kept or waited for as the best, against what the figure's name says. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/checks.h"
#include "debug/doctor/text/reads.h"

static void find_turned(dlsh_examination *e, const char *file, int line, const char *figure, int way, const char *how) {
    dlsh_found(e, file, line,
               way > 0 ? "take the lowest one: mode=\"min\", `<`" : "take the highest one: mode=\"max\", `>`",
               "%s is better when it is %s, but here the %s one counts as the best\n"
               "%s; so the best is taken for the worst, and what waits for it stops at once or keeps a bad state",
               figure, way > 0 ? "low" : "high", way > 0 ? "highest" : "lowest", how);
}

/* ---------------------------------------------------------------- options with a mode */

/* "val/loss patience=2 mode=max" */
static void look_at_words(dlsh_examination *e, const char *file, const dlsh_node *n) {
    char figure[64];
    const char *mode = n->text ? strstr(n->text, "mode=") : NULL;
    if (!mode || sscanf(n->text, "%63s", figure) != 1 || strchr(figure, '=')) return;
    const int way = !strncmp(mode + 5, "max", 3) ? 1 : !strncmp(mode + 5, "min", 3) ? -1 : 0;
    char how[120];
    snprintf(how, sizeof how, "the option says \"%.80s\"", n->text);
    if (way && dlsh_aim_of_name(figure) == -way) find_turned(e, file, n->span.line, figure, way, how);
}

/* The name of a figure, without calls and fields: loss.item() -> loss. */
static const char *name_of(const dlsh_node *n) {
    while (n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD) n = n->kids[0]->kids[0];
    return n->kind == DLSH_N_NAME || n->kind == DLSH_N_FIELD ? n->text : NULL;
}

/* ---------------------------------------------------------------- schedules that wait for a figure */

static dlsh_property is_plateau(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    const char *by = at->n->kind == DLSH_N_CALL ? at->n->kids[0]->text : NULL;
    int named = by && dlsh_speaks_of(by, "plateau");
    for (int i = 1; at->n->kind == DLSH_N_CALL && i < at->n->nkids; i++)
        named |= at->n->kids[i]->kind == DLSH_N_STR && dlsh_speaks_of(at->n->kids[i]->text, "plateau");
    return named ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* s.step(accuracy) of a plateau schedule whose mode is "min", as it is by itself, or s.step(loss) of one of "max". */
static void look_at_watched(dlsh_examination *e, const char *file, const dlsh_node *n) {
    if (!(dlsh_is_method(n, "step") || dlsh_is_method(n, "report")) || n->nkids != 2) return;
    const dlsh_node *made = dlsh_origin(file, n->kids[0]->kids[0], is_plateau, NULL);
    const dlsh_node *given = made ? dlsh_argument_of(made, INT_MAX - 1, "mode") : NULL;
    const dlsh_node *mode = given ? dlsh_made(file, given) : NULL;
    if (!made || (given && (!mode || mode->kind != DLSH_N_STR))) return;
    const int way = mode && !strcmp(mode->text, "max") ? 1 : -1;
    const char *name = name_of(n->kids[1]);
    char how[120];
    snprintf(how, sizeof how, "line %d gives it to a schedule with mode=\"%s\"%s", n->span.line,
             way > 0 ? "max" : "min", mode ? "" : ", which it has by itself");
    if (dlsh_aim_of(file, n->kids[1]) == -way)
        find_turned(e, file, made->span.line, name ? name : "what the schedule waits for", way, how);
}

/* ---------------------------------------------------------------- the best one by hand */

/* Does the block give the name the figure's value? */
static int takes(const dlsh_node *n, const char *best, const char *figure) {
    if (!n) return 0;
    if (n->kind == DLSH_N_ASSIGN && !n->op && n->nkids == 2 && dlsh_names(n->kids[0], best)) {
        const char *from = name_of(n->kids[1]);
        return from && !strcmp(from, figure);
    }
    for (int i = 0; i < n->nkids; i++)
        if (takes(n->kids[i], best, figure)) return 1;
    return 0;
}

/* if loss > best { best = loss ... } */
static void look_at_choice(dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_node *c = n->kids[0];
    if (c->kind != DLSH_N_BINARY) return;
    int way = c->op == DLSH_OP_GT || c->op == DLSH_OP_GE ? 1 : c->op == DLSH_OP_LT || c->op == DLSH_OP_LE ? -1 : 0;
    for (int k = 0; way && k < 2; k++, way = -way) {
        const char *figure = name_of(c->kids[k]);
        const char *best = c->kids[1 - k]->kind == DLSH_N_NAME ? c->kids[1 - k]->text : NULL;
        if (!figure || !best || !dlsh_speaks_of(best, "best") || !takes(n->kids[1], best, figure)) continue;
        if (dlsh_aim_of_name(figure) == -way) find_turned(e, file, n->span.line, figure, way, "the comparison says so");
    }
}

/* ---------------------------------------------------------------- the lowest against the highest */

static int is_set(const dlsh_examination *e, const char *file, const dlsh_node *call, const char *option, double to) {
    const dlsh_node *given = dlsh_argument_of(call, INT_MAX - 1, option);
    if (given && given->kind == DLSH_N_BOOL) return (double)given->num.i == to;
    return given && dlsh_number_of(e, file, given) == to;
}

/* [:k] or [:, :k] around a call, or around a field of its result. */
static int takes_first(const dlsh_node *n, const dlsh_node *const *within, int depth) {
    const dlsh_node *around = depth ? within[depth - 1] : NULL;
    if (around && around->kind == DLSH_N_FIELD && depth > 1) n = around, around = within[depth - 2];
    const dlsh_node *last = around && around->kind == DLSH_N_INDEX && around->kids[0] == n && around->nkids > 1
                                ? around->kids[around->nkids - 1]
                                : NULL;
    return last && last->kind == DLSH_N_SLICE && !last->kids[0] && last->kids[1] && last->kids[1]->kind != DLSH_N_UNARY;
}

/* What a call takes the highest of, 1, or the lowest, -1; 0: it is no such call. */
static int end_of(const dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node *const *within,
                  int depth) {
    const char *by = n->kind == DLSH_N_CALL && n->nkids ? n->kids[0]->text : NULL;
    if (!by) return 0;
    if (!strcmp(by, "topk")) return is_set(e, file, n, "largest", 0) ? -1 : 1;
    if (!strcmp(by, "argmax") || !strcmp(by, "argmin")) return by[3] == 'm' && by[4] == 'a' ? 1 : -1;
    if (strcmp(by, "argsort") != 0 && strcmp(by, "sort") != 0) return 0;
    return !takes_first(n, within, depth) ? 0 : is_set(e, file, n, "descending", 1) ? 1 : -1;
}

/* The tensor of a variable that such a call looks at; NULL: it is something else. */
static dl_tensor *ranked_by(const dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node **name) {
    const int method = n->kids[0]->kind == DLSH_N_FIELD;
    const dlsh_node *of = method ? n->kids[0]->kids[0] : n->nkids > 1 ? n->kids[1] : NULL;
    const dlsh_value *v = of && of->kind == DLSH_N_NAME ? dlsh_value_of(e, file, of) : NULL;
    *name = of;
    return v && v->type == DLSH_TENSOR && !dl_requires_grad(v->as.tensor) ? v->as.tensor : NULL;
}

static double correlation(const dl_tensor *a, const dl_tensor *b) {
    const long n = dl_numel(a);
    double sx = 0, sy = 0, xx = 0, yy = 0, xy = 0;
    DLSH_FREED double *x = malloc(((size_t)n + 1) * sizeof *x), *y = malloc(((size_t)n + 1) * sizeof *y);
    if (n < 16 || !x || !y || dl_read_f64(a, x) || dl_read_f64(b, y)) return dl_error_clear(), 0;
    for (long i = 0; i < n; i++) sx += x[i], sy += y[i], xx += x[i] * x[i], yy += y[i] * y[i], xy += x[i] * y[i];
    const double m = (double)n;
    return (xy - sx * sy / m) / sqrt((xx - sx * sx / m) * (yy - sy * sy / m));
}

typedef struct ranking {
    dlsh_examination *e;
    const dlsh_node *scope, *low, *low_name; /* the call that takes the lowest, and of what */
    dl_tensor *score;
} ranking;

/* A call of the same function that takes the highest of what rises with the scores. */
static int see_highest(void *ctx, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth) {
    ranking *r = ctx;
    const dlsh_node *name;
    if (end_of(r->e, file, n, within, depth) != 1 || dlsh_scope_of(within, depth) != r->scope) return 0;
    dl_tensor *g = ranked_by(r->e, file, n, &name);
    if (!g || g == r->score || dl_ndim(g) != dl_ndim(r->score) ||
        memcmp(dl_shape(g), dl_shape(r->score), (size_t)dl_ndim(g) * sizeof(long)) != 0)
        return 0;
    const double c = correlation(r->score, g);
    return c > 0.3 &&
           dlsh_found(
               r->e, file, r->low->span.line, "the highest ones: descending=true, or topk(k)",
               "the lowest of %s are taken here, but the highest of %s in line %d: the metric counts the worst\n"
               "both rise together, with a correlation of %.2f: the training is right, its figure is turned round",
               r->low_name->text, name->text, n->span.line, c) != NULL;
}

static void look_at_ranking(dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node *const *within,
                            int depth) {
    ranking r = {.e = e, .scope = dlsh_scope_of(within, depth), .low = n};
    if (end_of(e, file, n, within, depth) != -1 || !(r.score = ranked_by(e, file, n, &r.low_name))) return;
    const dlsh_definition d = dlsh_define(dlsh_text_root(file), r.low_name->text, n->span.start);
    if (d.value && dlsh_uses_net(e, file, d.value)) dlsh_each_within(see_highest, &r);
}

/* ---------------------------------------------------------------- the check */

static void see(dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth) {
    look_at_ranking(e, file, n, within, depth);
    if (n->kind == DLSH_N_STR) look_at_words(e, file, n);
    look_at_watched(e, file, n);
    if (n->kind == DLSH_N_IF) look_at_choice(e, file, n);
}

dl_status dlsh_check_direction(dlsh_examination *e) {
    long i = 0;
    if (dlsh_row_next(e, DL_DID_BACKWARD, &i))
        DLSH_EACH_NODE (t) see(e, t.file, t.n, t.within, t.depth);
    return DL_OK;
}
