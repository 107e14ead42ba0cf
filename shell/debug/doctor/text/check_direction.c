/* Which way a figure is to go: what is kept or waited for as the best, against what the figure's name says. */
#include <stdio.h>
#include <string.h>

#include "debug/doctor/checks.h"
#include "debug/doctor/text/reads.h"

static const char falling[] = "loss|error|mse|mae|rmse|perplexity|nll|wer|distance";
static const char rising[] = "acc|f1|auc|recall|precision|reward|score|iou|dice|bleu|r2";

/* 1: figures of that name are to rise, -1: to fall, 0: not known. */
static int direction_of(const char *name) {
    const int falls = dlsh_speaks_of(name, falling), rises = dlsh_speaks_of(name, rising);
    return falls == rises ? 0 : rises ? 1 : -1;
}

static void find_turned(dlsh_examination *e, const char *file, int line, const char *figure, int way, const char *how) {
    dlsh_finding *f = dlsh_find_at(
        e, file, line, way > 0 ? "take the lowest one: mode=\"min\", `<`" : "take the highest one: mode=\"max\", `>`");
    if (!f) return;
    dlsh_cause(f, "%s is better when it is %s, but here the %s one counts as the best", figure,
               way > 0 ? "low" : "high", way > 0 ? "highest" : "lowest");
    dlsh_evidence(f, "%s; so the best is taken for the worst, and what waits for it stops at once or keeps a bad state",
                  how);
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
    if (way && direction_of(figure) == -way) find_turned(e, file, n->span.line, figure, way, how);
}

/* reduce_on_plateau(mode="max"), whose step is given a loss: s.step(val_loss). */
typedef struct stepping {
    const char *name, *figure;
} stepping;

static int see_step(void *ctx, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth) {
    stepping *s = ctx;
    (void)file, (void)within, (void)depth;
    if (!dlsh_is_method(n, "step") || n->nkids != 2 || !dlsh_names(n->kids[0]->kids[0], s->name)) return 0;
    const dlsh_node *x = n->kids[1];
    while (x->kind == DLSH_N_CALL && x->kids[0]->kind == DLSH_N_FIELD) x = x->kids[0]->kids[0];
    s->figure = x->text;
    return x->kind == DLSH_N_NAME;
}

static void look_at_schedule(dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_node *call = n->kids[n->nkids - 1];
    const dlsh_node *mode =
        call->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_NAME ? dlsh_argument_of(call, 1000, "mode") : NULL;
    if (!mode || mode->kind != DLSH_N_STR) return;
    stepping s = {n->kids[0]->text, NULL};
    const int way = !strcmp(mode->text, "max") ? 1 : !strcmp(mode->text, "min") ? -1 : 0;
    if (!way || !dlsh_each_node(see_step, &s) || direction_of(s.figure) != -way) return;
    find_turned(e, file, call->span.line, s.figure, way, "the option mode says so");
}

/* ---------------------------------------------------------------- the best one by hand */

/* The name of a figure, without calls and fields: loss.item() -> loss. */
static const char *name_of(const dlsh_node *n) {
    while (n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD) n = n->kids[0]->kids[0];
    return n->kind == DLSH_N_NAME || n->kind == DLSH_N_FIELD ? n->text : NULL;
}

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
        if (direction_of(figure) == -way) find_turned(e, file, n->span.line, figure, way, "the comparison says so");
    }
}

/* ---------------------------------------------------------------- the check */

static int see(void *ctx, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth) {
    dlsh_examination *e = ctx;
    (void)within, (void)depth;
    if (n->kind == DLSH_N_STR) look_at_words(e, file, n);
    if (n->kind == DLSH_N_ASSIGN && n->nkids == 2) look_at_schedule(e, file, n);
    if (n->kind == DLSH_N_IF) look_at_choice(e, file, n);
    return 0;
}

dl_status dlsh_check_direction(dlsh_examination *e) {
    long i = 0;
    if (dlsh_row_next(e, DL_DID_BACKWARD, &i)) dlsh_each_node(see, e);
    return DL_OK;
}
