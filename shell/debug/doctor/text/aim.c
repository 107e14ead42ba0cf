/* Which way a figure is to go: by how it is computed, or else by its name. */
#include <string.h>

#include "debug/doctor/text/reads.h"
#include "debug/doctor/trace.h"

enum { DEEPEST = 8 };

int dlsh_aim_of_name(const char *name) {
    static const char falling[] = "loss|err|mse|mae|rmse|perplexity|nll|wer|distance",
                      rising[] = "acc|f1|auc|recall|precision|reward|score|iou|dice|bleu|r2";
    const int falls = name && dlsh_speaks_of(name, falling), rises = name && dlsh_speaks_of(name, rising);
    return falls == rises ? 0 : rises ? 1 : -1;
}

/* (pred - y).square(), pow(pred - y, 2), ** 2 */
static int is_distance(const dlsh_node *n) {
    if (n->kind == DLSH_N_BINARY && n->op == DLSH_OP_POW) return n->kids[0]->kind == DLSH_N_BINARY;
    if (!dlsh_is_call_of(n, "square|pow|abs|norm")) return 0;
    const dlsh_node *of = n->kids[0]->kind == DLSH_N_FIELD ? n->kids[0]->kids[0] : n->nkids > 1 ? n->kids[1] : NULL;
    return of && of->kind == DLSH_N_BINARY && of->op == DLSH_OP_SUB;
}

/* By the first node below that is an error, a score, or a count of what is right or wrong. */
static int aim_below(const dlsh_node *root) {
    int right = 0, wrong = 0, error = 0;
    DLSH_EACH_BELOW (t, root) {
        const char *by = t.n->kind == DLSH_N_CALL ? t.n->kids[0]->text : NULL;
        wrong |= t.n->kind == DLSH_N_BINARY && t.n->op == DLSH_OP_NE;
        right |= dlsh_is_word("argmax|accuracy|f1_score|auc|r2_score", by) || (by && strstr(by, "acc")) ||
                 (t.n->kind == DLSH_N_BINARY && t.n->op == DLSH_OP_EQ);
        error |= (by && dlsh_speaks_of(by, "loss|entropy")) || dlsh_is_word("rmse|mae|mse|perplexity", by) ||
                 is_distance(t.n);
    }
    return wrong ? -1 : right ? 1 : error ? -1 : 0;
}

static int is_constant(const dlsh_node *n) { return n->kind == DLSH_N_INT || n->kind == DLSH_N_FLOAT; }

static int aim_at(const char *file, const dlsh_node *n, int depth) {
    int aim = 0;
    if (!n || depth > DEEPEST) return 0;
    if (n->kind == DLSH_N_UNARY) return -aim_at(file, n->kids[0], depth + 1);
    if (n->kind == DLSH_N_FIELD) return dlsh_aim_of_name(n->text);
    if (n->kind == DLSH_N_BINARY && n->op == DLSH_OP_SUB && is_constant(n->kids[0]))
        return -aim_at(file, n->kids[1], depth + 1);
    if (n->kind == DLSH_N_BINARY && (n->op == DLSH_OP_DIV || n->op == DLSH_OP_MUL))
        for (int k = 0; k < 2 && !aim; k++) aim = aim_at(file, n->kids[k], depth + 1);
    const dlsh_node *fn = aim ? NULL : dlsh_function_called(file, n), *back = fn ? dlsh_last_return(fn) : NULL;
    if (back && back->nkids) aim = aim_at(file, back->kids[0], depth + 1);
    if (!aim) aim = aim_below(fn ? fn : n);
    if (!aim && n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD)
        aim = aim_at(file, n->kids[0]->kids[0], depth + 1);
    const dlsh_node *made = !aim && n->kind == DLSH_N_NAME ? dlsh_defined(file, n) : NULL;
    if (made && made != n) aim = aim_at(file, made, depth + 1);
    return aim || n->kind != DLSH_N_NAME ? aim : dlsh_aim_of_name(n->text);
}

int dlsh_aim_of(const char *file, const dlsh_node *n) { return aim_at(file, n, 0); }
