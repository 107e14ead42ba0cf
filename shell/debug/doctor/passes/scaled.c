/* Losses that the script scales and whose gradients it divides by the scale itself; scores that are scaled the wrong
 * way. */
#include "debug/doctor/passes/passes.h"

#include <math.h>
#include <string.h>

#include "debug/doctor/syntax.h"

static int is_gradient(const dlsh_node *n) { return n && n->kind == DLSH_N_FIELD && !strcmp(n->text, "grad"); }

/* p.grad.mul_(k), p.grad.div_(k), p.grad /= k, p.grad *= k, p.grad = p.grad / k */
int dlsh_line_of_scaled_gradients(const char *file) {
    DLSH_EACH_BELOW (t, dlsh_text_root(file)) {
        const dlsh_node *n = t.n, *to = n->kind == DLSH_N_ASSIGN && n->nkids == 2 ? n->kids[0] : NULL;
        const dlsh_node *v = to ? n->kids[1] : NULL;
        const int method = (dlsh_is_method(n, "mul_") || dlsh_is_method(n, "div_")) && is_gradient(n->kids[0]->kids[0]);
        const int scales = v && v->kind == DLSH_N_BINARY && (v->op == DLSH_OP_MUL || v->op == DLSH_OP_DIV) &&
                           (is_gradient(v->kids[0]) || is_gradient(v->kids[1]));
        if (method || (is_gradient(to) && (n->op == DLSH_OP_MUL || n->op == DLSH_OP_DIV || scales)))
            return n->span.line;
    }
    return 0;
}

/* The number that the root of a pass was multiplied by; 1: by none. */
static double scale_of(dlsh_pass p) {
    const dl_journal_node *n = p.n ? p.at : NULL;
    if (!dlsh_op_is(n, "mul|div") || !n->in[1].constant || !n->in[1].n || n->in[1].low != n->in[1].high) return 1;
    return dlsh_op_is(n, "mul") ? n->in[1].low : 1 / n->in[1].low;
}

void dlsh_find_clipped_before_scaled(dlsh_examination *e) {
    DLSH_EACH_ROW (clip, e, DL_DID_CLIP) {
        const int line = dlsh_line_of_scaled_gradients(clip->file);
        if (!line || !dlsh_runs_behind(clip->file, line, clip->line)) continue;
        DLSH_EACH_ROW (pass, e, DL_DID_BACKWARD) {
            const double scale = scale_of(dlsh_pass_of(pass, 1));
            if (!(scale >= 4) || strcmp(pass->file, clip->file) != 0) continue;
            dlsh_found(e, clip->file, clip->line, "divide gradients by the scale first, then clip them",
                       "gradients are clipped before they are unscaled: the limit is that of scaled ones\n"
                       "the loss is multiplied by %.4g, the norm before clipping was %.4g, the limit is %.3g; line %d "
                       "divides what is left, so that steps have at most the norm %.2g",
                       scale, clip->last, clip->limit, line, clip->limit / scale);
        }
    }
}

/* The operand of a product or quotient that is a number; -1: none is. */
static int number_of(const dl_journal_node *n) {
    if (!dlsh_op_is(n, "mul|div")) return -1;
    if (dlsh_is_number_in(&n->in[1]) && n->in[1].low != 0) return 1;
    return dlsh_op_is(n, "mul") && dlsh_is_number_in(&n->in[0]) ? 0 : -1;
}

/* The node on the way to scores that multiplies them by a number; NULL: there is none. */
static const dl_journal_node *scaling(dlsh_pass p, const dl_journal_node *n, double *factor) {
    for (int i = 0; n && i < 6; i++) {
        const int k = number_of(n);
        if (k >= 0) {
            *factor = fabs(dlsh_op_is(n, "mul") ? n->in[k].low : 1 / n->in[k].low);
            return n;
        }
        if (!dlsh_op_is(n, "permute|transpose|restride|reshape|matmul|squeeze|unsqueeze|cat")) return NULL;
        const dl_journal_node *from = dlsh_pass_source(p, n, 0), *other = dlsh_pass_source(p, n, 1);
        n = dlsh_op_is(n, "matmul") && number_of(other) >= 0 ? other : from;
    }
    return NULL;
}

/* Are the numbers that a node multiplies cosines, or otherwise bounded, and differ as far as they can? */
int dlsh_scales_cosines(dlsh_pass p, const dl_journal_node *n) {
    const int k = number_of(n) == 0;
    const dl_journal_value *v = &n->in[k];
    if (dlsh_op_is(dlsh_pass_source(p, n, k), "linear|add|conv2d|conv1d")) return 0; /* scores of a layer */
    return v->n && v->low >= -1.01 && v->high <= 1.01 && v->high - v->low > 0.7;
}

void dlsh_find_scaled_scores(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    double factor = 1;
    const dl_journal_value *z = &n->in[0];
    const int classes = dlsh_op_is(n, "cross_entropy|log_softmax") && z->ndim > 1;
    const dl_journal_node *by =
        classes || dlsh_op_is(n, "logit_loss") ? scaling(p, dlsh_pass_source(p, n, 0), &factor) : NULL;
    if (!by) return;
    const int direct = by == dlsh_pass_source(p, n, 0) && dlsh_op_is(n, "cross_entropy|logit_loss");
    const int far = direct && (factor <= 0.025 || factor >= 400);
    const double many = classes ? (double)z->shape[z->ndim - 1] : 1;
    const double least = log(1 + (many - 1) * exp(-2 * factor)), most = log(many);
    if (!far && !(many > 2 && factor < 0.5 && least > 0.85 * most && dlsh_scales_cosines(p, by))) return;
    dlsh_finding *f = dlsh_find_at(e, dlsh_node_file(by), dlsh_node_line(by),
                                   far ? "a temperature near 1" : "divide by the temperature: cosines / 0.1");
    dlsh_cause(f, "scores are multiplied by %.3g before the loss: probabilities %s", factor,
               factor < 1 ? "hardly differ, and gradients are as small" : "are 0 or 1 at once");
    if (far)
        dlsh_evidence(f, "%s at this line gives %s at %s:%d its scores", by->op, n->op, n->file, n->line);
    else
        dlsh_evidence(
            f,
            "they were from -1 to 1, so that scores of %.0f classes differ by %.2g at most, and the loss never "
            "falls below %.3g (ln %.0f = %.3g)",
            many, 2 * factor, least, many, most);
}

/* Scores of attention, of which the root of their length is a factor where it belongs in the divisor. */
void dlsh_find_grown_attention(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    double factor = 1;
    const dl_journal_node *by = dlsh_op_is(n, "softmax") ? scaling(p, dlsh_pass_source(p, n, 0), &factor) : NULL;
    const dl_journal_node *of = by ? dlsh_pass_source(p, by, number_of(by) == 0) : NULL;
    while (dlsh_op_is(of, "permute|transpose|restride|reshape")) of = dlsh_pass_source(p, of, 0);
    if (!dlsh_op_is(of, "matmul") || of->in[0].ndim < 2 || dlsh_scales_cosines(p, by)) return;
    const double length = (double)of->in[0].shape[of->in[0].ndim - 1];
    if (length < 4 || fabs(factor - sqrt(length)) > 0.01 * factor) return;
    dlsh_found(e, dlsh_node_file(by), dlsh_node_line(by), "divide by the root of the length: q @ k.T / sqrt(d)",
               "scores of attention are multiplied by the root of their length: softmax is saturated\n"
               "each is a sum of %.0f products and the larger for it; %s multiplies it by %.3g, where a division gives "
               "scores near 1",
               length, by->op, factor);
}
