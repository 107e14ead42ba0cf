/* Losses that the script scales and whose gradients it divides by the scale itself. */
#include "debug/doctor/passes/passes.h"

#include <math.h>
#include <string.h>

#include "debug/doctor/syntax.h"

static int is_gradient(const dlsh_node *n) { return n && n->kind == DLSH_N_FIELD && !strcmp(n->text, "grad"); }

/* p.grad.mul_(k), p.grad.div_(k), p.grad /= k, p.grad *= k, p.grad = p.grad / k */
static int see_scaled(void *ctx, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth) {
    dl_source *s = ctx;
    (void)within, (void)depth;
    if (strcmp(file, s->file) != 0) return 0;
    const int method = (dlsh_is_method(n, "mul_") || dlsh_is_method(n, "div_")) && is_gradient(n->kids[0]->kids[0]);
    const dlsh_node *to = n->kind == DLSH_N_ASSIGN && n->nkids == 2 ? n->kids[0] : NULL, *v = to ? n->kids[1] : NULL;
    const int scales = v && v->kind == DLSH_N_BINARY && (v->op == DLSH_OP_MUL || v->op == DLSH_OP_DIV) &&
                       (is_gradient(v->kids[0]) || is_gradient(v->kids[1]));
    if (!method && !(is_gradient(to) && (n->op == DLSH_OP_MUL || n->op == DLSH_OP_DIV || scales))) return 0;
    s->line = n->span.line;
    return 1;
}

int dlsh_line_of_scaled_gradients(const char *file) {
    dl_source s = {file, 0};
    return dlsh_each_node(see_scaled, &s) ? s.line : 0;
}

/* The number that the root of a pass was multiplied by; 1: by none. */
static double scale_of(dlsh_pass p) {
    const dl_journal_node *n = p.n ? p.at : NULL;
    if (!dlsh_op_is(n, "mul|div") || !n->in[1].constant || !n->in[1].n || n->in[1].low != n->in[1].high) return 1;
    return dlsh_op_is(n, "mul") ? n->in[1].low : 1 / n->in[1].low;
}

/* Does a line run behind another one, in the same pass of a loop? */
static int is_behind(const char *file, int line, int other) {
    int a[DLSH_LEVELS], b[DLSH_LEVELS];
    int n = dlsh_places_of(file, line, a), m = dlsh_places_of(file, other, b);
    while (n > 1 && m > 1 && a[n - 1] == b[m - 1]) n--, m--;
    return n > 0 && m > 0 && a[n - 1] > b[m - 1];
}

void dlsh_find_clipped_before_scaled(dlsh_examination *e) {
    const dl_journal_row *clip, *pass;
    for (long i = 0; (clip = dlsh_row_next(e, DL_DID_CLIP, &i));) {
        const int line = dlsh_line_of_scaled_gradients(clip->file);
        if (!line || !is_behind(clip->file, line, clip->line)) continue;
        for (long k = 0; (pass = dlsh_row_next(e, DL_DID_BACKWARD, &k));) {
            const double scale = scale_of(dlsh_pass_of(pass, 1));
            if (!(scale >= 4) || strcmp(pass->file, clip->file) != 0) continue;
            dlsh_finding *f =
                dlsh_find_at(e, clip->file, clip->line, "divide gradients by the scale first, then clip them");
            if (!f) continue;
            dlsh_cause(f, "gradients are clipped before they are unscaled: the limit is that of scaled ones");
            dlsh_evidence(f,
                          "the loss is multiplied by %.4g, the norm before clipping was %.4g, the limit is %.3g; line "
                          "%d divides what is left, so that steps have at most the norm %.2g",
                          scale, clip->last, clip->limit, line, clip->limit / scale);
        }
    }
}
