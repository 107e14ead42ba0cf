/* The logarithm of what data are multiplied with on their way to a latent: exp(v) times them asks for v in a figure
 * that the loss takes away, as the log determinant of a flow. With the other sign the loss falls without end as the
 * data are drawn together. */
#include "debug/doctor/passes/passes.h"

#include <math.h>
#include <stdlib.h>

static const char linear[] =
    "add|sub|neg|mul|div|sum|mean|reshape|view|restride|transfer|to|clone|expand|permute|transpose|squeeze|unsqueeze|"
    "flatten|as_strided|select|narrow|slice|contiguous|index_select|cat|stack|split|chunk";
static const char measuring[] =
    "square|square_sum|root_square_sum|pow|abs|norm|square_difference|huber_difference|softplus|log_sigmoid";

enum { MIXED = 2 };
/* Of the nodes of a pass. */
typedef struct signs {
    dlsh_pass p;
    signed char *root; /* the sign with which it goes into the root by linear ops; 0: it does not, or MIXED */
    char *measured;    /* elementwise ops take it to a square, or the like */
} signs;

/* The product of data and an exp, and what that is of. */
typedef struct scaled {
    const dl_journal_node *product, *x, *v; /* v: with numbers and minus signs left out */
    int k;                                  /* the operand that is x */
    int sign;                               /* of v in the logarithm of the factor */
} scaled;

static void signs_free(signs *s) {
    free(s->root);
    free(s->measured);
}

static const dl_journal_node *operand(dlsh_pass p, const dl_journal_node *n, int k) {
    return n->in[k].there ? dlsh_pass_node(p, n->in[k].from) : NULL;
}

/* The sign with which a linear node takes operand k; 0: it is not linear, or not known. */
static int sign_of_operand(const dl_journal_node *n, int k) {
    const dl_journal_value *other = n->nin > 1 ? &n->in[!k] : NULL;
    if (!dlsh_op_is(n, linear)) return 0;
    if (dlsh_op_is(n, "neg") || (k == 1 && dlsh_op_is(n, "sub"))) return -1;
    if (!dlsh_op_is(n, "mul|div")) return 1;
    if (k > 1 || !other || !other->constant || !other->n || (k && dlsh_op_is(n, "div"))) return 0;
    return other->low > 0 ? 1 : other->high < 0 ? -1 : 0;
}

static int is_elementwise(const dl_journal_node *n) { return dlsh_op_is(n, linear) && !dlsh_op_is(n, "sum|mean"); }

static int find_signs(signs *s) {
    s->root = calloc((size_t)s->p.n + 1, 1), s->measured = calloc((size_t)s->p.n + 1, 1);
    if (!s->root || !s->measured) return 0;
    s->root[0] = 1;
    for (long i = 0; i < s->p.n; i++) { /* from the loss back */
        const dl_journal_node *n = &s->p.at[i];
        const int own = s->root[i], measures = dlsh_op_is(n, measuring) || (s->measured[i] && is_elementwise(n));
        for (int k = 0; k < n->nin && k < 8; k++) {
            const dl_journal_node *of = operand(s->p, n, k);
            const int sign = sign_of_operand(n, k);
            if (!of) continue;
            signed char *at = &s->root[of - s->p.at];
            const int by = own == MIXED ? MIXED : own * sign;
            if (sign && by) *at = (signed char)(!*at || *at == by ? by : MIXED);
            s->measured[of - s->p.at] |= (char)measures;
        }
    }
    return 1;
}

/* Is a node the product of data, or what is made of them, with an exp? */
static int is_scaled(const signs *s, const dl_journal_node *n, scaled *out) {
    if (!dlsh_op_is(n, "mul|div") || !s->measured[n - s->p.at]) return 0;
    for (int k = dlsh_op_is(n, "div"); k < 2; k++) {
        const dl_journal_node *x = dlsh_pass_source(s->p, n, k), *v = NULL, *below;
        if (!dlsh_op_is(x, "exp")) continue;
        *out = (scaled){n, x, NULL, k, dlsh_op_is(n, "div") ? -1 : 1};
        for (v = dlsh_pass_source(s->p, x, 0); v && dlsh_op_is(v, "neg|mul|div"); v = below) {
            const int j = v->nin > 1 && v->in[0].constant, sign = sign_of_operand(v, j);
            if (!sign || !(below = dlsh_pass_source(s->p, v, j))) break;
            out->sign *= sign;
        }
        return (out->v = v) != NULL;
    }
    return 0;
}

/* The mean of the logarithm of the factor, about; NaN: it is not known. */
static double log_of_factor(const scaled *s) {
    const dl_journal_value *v = &s->product->in[s->k];
    return v->n && v->mean > 0 ? (dlsh_op_is(s->product, "div") ? -1 : 1) * log(v->mean) : NAN;
}

/* Marks the nodes that have the product in them, by other ways than through a net; NULL without memory. */
static char *holders_of(const signs *s, const dl_journal_node *product) {
    char *held = calloc((size_t)s->p.n + 1, 1);
    if (!held) return NULL;
    held[product - s->p.at] = 1;
    for (long i = product - s->p.at - 1; i >= 0; i--) {
        const dl_journal_node *n = &s->p.at[i];
        const int passes = dlsh_op_is(n, linear) || dlsh_op_is(n, measuring);
        for (int k = 0; passes && k < n->nin && k < 8; k++) {
            const dl_journal_node *of = operand(s->p, n, k);
            held[i] |= (char)(of && held[of - s->p.at]);
        }
    }
    return held;
}

/* Up from v, the first node of the figure and the one that joins it with what is measured. *sign: of v in the figure.
 */
static const dl_journal_node *figure_of(const signs *s, const scaled *by, const dl_journal_node **join, int *sign) {
    const dl_journal_node *n = by->v, *first = NULL, *beside;
    DLSH_FREED char *held = holders_of(s, by->product);
    *sign = 1, *join = NULL;
    for (long i = n - s->p.at - 1; held && i >= 0; i--) {
        const dl_journal_node *u = &s->p.at[i];
        int k = 0;
        while (k < u->nin && k < 8 && operand(s->p, u, k) != n) k++;
        if (k == u->nin || k == 8 || !sign_of_operand(u, k) || !s->root[i]) continue;
        beside = u->nin > 1 && dlsh_op_is(u, "add|sub") ? operand(s->p, u, !k) : NULL;
        if (beside && held[beside - s->p.at]) return *join = u, first ? first : u;
        if (!first && dlsh_op_is(u, "sum|add|sub|mean")) first = u;
        *sign *= sign_of_operand(u, k), n = u;
    }
    return NULL;
}

static int tell(dlsh_examination *e, const dl_journal_row *r, const signs *s, const scaled *by, double sum) {
    const dl_journal_node *join = NULL;
    int sign = 1;
    const dl_journal_node *first = figure_of(s, by, &join, &sign), *at = sign * by->sign > 0 ? join : first;
    if (!first) return 0;
    dlsh_found(e, at->file, at->line,
               "the loss takes away the logarithm of what the data are multiplied with: s for exp(s), -s for exp(-s)",
               "the log determinant has the wrong sign: the loss falls without end as the data are drawn together\n"
               "line %d multiplies the data by an exp whose logarithm the loss should fall with, but rises with; these "
               "factors have a product of %.3g by now, and the loss went from %.4g to %.4g",
               by->product->line, exp(sum), r->first, r->last);
    return 1;
}

int dlsh_find_jacobian_sign(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p) {
    DLSH_SCOPED(signs_free) signs s = {.p = p};
    scaled by, wrong = {0};
    double sum = 0;
    if (!(r->last < r->first) || r->count < 10 || !find_signs(&s)) return 0;
    for (long i = p.n - 1; i >= 0; i--) {
        if (!is_scaled(&s, &p.at[i], &by)) continue;
        const int sign = s.root[by.v - p.at];
        if (sign == MIXED || sign * by.sign < 0) return 0;
        if (sign && !isnan(log_of_factor(&by))) sum += log_of_factor(&by), wrong = wrong.v ? wrong : by;
    }
    return wrong.v && sum < 0 && tell(e, r, &s, &wrong, sum);
}
