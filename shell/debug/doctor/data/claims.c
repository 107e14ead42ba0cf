/* What a text says of its figures: those that it tells to be of a test, and that are of the samples of the training. */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "debug/doctor/data/pools.h"
#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"

static const char tests[] = "test|valid|held|unseen|general|eval", telling[] = "print|format|log|printf|append|title";

/* A figure, by its name or the words before it: "val" alone is short for values, too. */
static int says_test(const char *text) {
    for (const char *at = text; at && *at; at++) { /* latest is none */
        const int begins = at == text || !isalpha((unsigned char)at[-1]);
        if (begins && (!strncasecmp(at, "test", 4) || (!strncasecmp(at, "val", 3) && strncasecmp(at, "value", 5) != 0)))
            return 1;
    }
    return dlsh_speaks_of(text, "valid|held|unseen|new data");
}
static int says_training(const char *text) { return dlsh_speaks_of(text, "train|fit|learned"); }

int dlsh_claims_test(const char *file, int told) {
    int found = 0;
    DLSH_EACH_BELOW (t, dlsh_text_root(file)) {
        const int words = t.n->kind == DLSH_N_STR, by_name = t.n->kind == DLSH_N_NAME || t.n->kind == DLSH_N_FN;
        if (!t.n->text || (!words && !by_name && t.n->kind != DLSH_N_FIELD)) continue;
        if (!told && t.n->kind != DLSH_N_FIELD && dlsh_speaks_of(t.n->text, tests)) return 1;
        if (!told) continue;
        if (t.n->kind == DLSH_N_FIELD && strlen(t.n->text) > 4 && says_test(t.n->text)) return 0; /* as of a history */
        int shown = 0;
        for (int i = 0; words && i < t.depth; i++) shown |= dlsh_is_call_of(t.within[i], telling);
        if (shown && says_training(t.n->text)) return 0;
        found |= shown && says_test(t.n->text);
    }
    return found;
}

/* ---------------------------------------------------------------- one figure */

typedef struct figure {
    const dlsh_examination *e;
    const dlsh_pools *all;
    const dlsh_node *by; /* what evaluates samples of the training */
    int others;          /* others are evaluated, too */
} figure;

/* The pool that an argument is by its name, xa, d.train.x; that of a parameter is what the last call gave it. */
static const dlsh_pool *pool_named(const dlsh_pools *all, const char *file, const dlsh_node *n) {
    const dlsh_node *part = n->kind == DLSH_N_FIELD && n->kids[0]->kind == DLSH_N_FIELD ? n->kids[0] : NULL;
    const dlsh_node *name = part ? part->kids[0] : n;
    char text[80];
    if (name->kind != DLSH_N_NAME || dlsh_define(dlsh_text_root(file), name->text, n->span.start).param) return NULL;
    snprintf(text, sizeof text, part ? "%s.%s" : "%s", name->text, part ? part->text : "");
    for (int k = 0; k < all->n; k++)
        if (!strcmp(all->at[k].name, text)) return &all->at[k];
    return NULL;
}

/* "train", or any other split. */
static dlsh_property is_split(void *ctx, const dlsh_step *at) {
    figure *f = ctx;
    const int text = at->n->kind == DLSH_N_STR, training = text && !strcmp(at->n->text, "train");
    if (training) f->by = at->n;
    f->others |= text && !training;
    return DLSH_MAY_HAVE;
}

/* What a call evaluates: eval(t, split="train"), accuracy(m, xa, ya), m(xa). */
static dlsh_property is_evaluated(void *ctx, const dlsh_step *at) {
    figure *f = ctx;
    const dlsh_node *n = at->n;
    const int by_trainer = dlsh_is_call_of(n, "eval|evaluate") && !dlsh_function_called(at->file, n);
    const dlsh_node *split = by_trainer ? dlsh_argument_of(n, INT_MAX - 1, "split") : NULL;
    if (split) dlsh_origin_at(at, split, is_split, f);
    f->others |= by_trainer && !split;
    if (by_trainer) return DLSH_HAS_NOT;
    for (int i = 1; n->kind == DLSH_N_CALL && i < n->nkids; i++) {
        const dlsh_pool *p =
            pool_named(f->all, at->file, n->kids[i]->kind == DLSH_N_KWARG ? n->kids[i]->kids[0] : n->kids[i]);
        const dlsh_node *fn = p ? dlsh_function_called(at->file, n) : NULL;
        const int runs =
            p && (dlsh_call_of_net(f->e, at->file, n) == n || (fn && dlsh_call_of_net(f->e, at->file, fn)));
        if (runs && p->trained) f->by = n;
        f->others |= runs && !p->trained;
    }
    return DLSH_MAY_HAVE;
}

/* What words tell of values, all of them together. */
static void look_at_claim(dlsh_examination *e, const dlsh_pools *all, const char *file, const char *words,
                          dlsh_node *const *value, int n) {
    figure f = {.e = e, .all = all};
    if (!words || !n || !says_test(words) || says_training(words)) return;
    for (int i = 0; i < n; i++) dlsh_origin(file, value[i], is_evaluated, &f);
    if (!f.by || f.others) return;
    dlsh_found(
        e, file, f.by->span.line, "evaluate the samples that were kept apart: eval(t), or those of the test",
        "what is told as a figure of a test is one of the samples of the training: the net is evaluated with the "
        "samples that it was trained on\n"
        "line %d says \"%.40s\"; what it shows comes from line %d, of training samples alone",
        value[0]->span.line, words, f.by->span.line);
}

/* print("test", a, b): up to the next words; format("test %.3f", a). */
static void look_at_told(dlsh_examination *e, const dlsh_pools *all, const char *file, const dlsh_node *n) {
    const char *words = NULL;
    int from = 1;
    for (int i = 1; i <= n->nkids; i++) {
        if (i < n->nkids && n->kids[i]->kind != DLSH_N_STR && n->kids[i]->kind != DLSH_N_KWARG) continue;
        look_at_claim(e, all, file, words, n->kids + from, i - from);
        words = i < n->nkids && n->kids[i]->kind == DLSH_N_STR ? n->kids[i]->text : NULL, from = i + 1;
    }
}

void dlsh_find_wrong_claim(dlsh_examination *e, const dlsh_pools *all) {
    if (dlsh_was_found(e, e->check, "that it was trained on")) return;
    DLSH_EACH_NODE (t) {
        const dlsh_node *n = t.n;
        if (dlsh_is_call_of(n, telling)) look_at_told(e, all, t.file, n);
        if (n->kind == DLSH_N_KWARG) look_at_claim(e, all, t.file, n->text, n->kids, 1);
        if (n->kind == DLSH_N_ASSIGN && n->nkids == 2 && n->kids[0]->text)
            look_at_claim(e, all, t.file, n->kids[0]->text, n->kids + 1, 1);
    }
}
