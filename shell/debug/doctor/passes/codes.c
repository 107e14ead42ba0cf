/* Codes that a choice gives, book[d.argmin(dim=1)], and that go on without a way for gradients to what was chosen by.
 */
#include <stdlib.h>

#include "debug/doctor/passes/passes.h"
#include "debug/doctor/syntax.h"

/* The call of a part of a net, in its functions. */
static dlsh_property is_of_part(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    const int call = at->n->kind == DLSH_N_CALL && dlsh_is_part_of_net(dlsh_text_root(at->file), at->n->kids[0]);
    return call ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* A choice, which lets no gradient through. */
static dlsh_property chooses(void *ctx, const dlsh_step *at) {
    const dlsh_examination *e = ctx;
    if (dlsh_function_called(at->file, at->n)) return DLSH_HAS_NOT; /* what it gives was made within */
    if (!dlsh_is_call_of(at->n, "argmin|argmax|topk|bucketize|searchsorted")) return DLSH_MAY_HAVE;
    const int of_net = dlsh_uses_net(e, at->file, at->n) || dlsh_origin_at(at, at->n->kids[0], is_of_part, NULL);
    return of_net ? DLSH_HAS_FIRST : DLSH_HAS_NOT;
}

static const dlsh_node *choice_behind(const dlsh_examination *e, const dl_journal_value *v) {
    const dlsh_node *s = v->made.line ? dlsh_statement_at(v->made.file, v->made.line) : NULL;
    const dlsh_node *value = s && s->kind == DLSH_N_ASSIGN ? s->kids[s->nkids - 1] : s;
    return value ? dlsh_origin(v->made.file, value, chooses, (void *)e) : NULL;
}

/* What is computed from choices alone and goes through weights. */
typedef struct chosen {
    const dlsh_node *choice;
    const dl_journal_node *layer; /* the first one that takes them */
} chosen;

static chosen chosen_alone(const dlsh_examination *e, dlsh_pass p, const char *met) {
    chosen c = {NULL, NULL};
    for (long i = p.n - 1; i >= 0; i--) {
        if (met[i] && c.choice && !c.layer && !p.at[i].in[0].constant && dlsh_node_weight(&p.at[i], NULL))
            c.layer = &p.at[i];
        for (int k = 0; met[i] && k < p.at[i].nin && k < 8; k++) {
            const dl_journal_value *v = &p.at[i].in[k];
            if (!v->there || !v->constant || !v->ndim || dlsh_elements_in(v) < 2) continue;
            const dlsh_node *choice = choice_behind(e, v);
            if (!choice) return (chosen){NULL, NULL};
            if (!c.choice) c.choice = choice;
        }
    }
    return c;
}

/* codes.detach(), which goes on in place of the codes. */
static dlsh_property is_cut(void *ctx, const dlsh_step *at) {
    if (dlsh_is_call_of(at->n, "argmin|argmax|topk|bucketize|searchsorted")) return DLSH_HAS_NOT;
    if (at->n != ctx && (dlsh_is_method(at->n, "detach") || dlsh_is_call_of(at->n, "stop_gradient")))
        return DLSH_HAS_FIRST;
    return DLSH_MAY_HAVE;
}

static int line_of_codes(const dl_journal_node *layer) {
    const dlsh_node *s = dlsh_statement_at(layer->file, layer->line),
                    *value = s && s->nkids ? s->kids[s->nkids - 1] : s;
    const dlsh_node *cut = value ? dlsh_origin(layer->file, value, is_cut, NULL) : NULL;
    return cut ? cut->span.line : layer->line;
}

void dlsh_find_codes_cut_off(dlsh_examination *e, dlsh_pass p) {
    static const char pairs[] = "sub|square_difference|huber_difference|cross_entropy|logit_loss|probability_loss";
    DLSH_EACH_OP (n, p) {
        const int k = n->in[0].constant;
        if (!dlsh_op_is(n, pairs) || n->in[0].constant == n->in[1].constant || n->in[!k].ndim < 2) continue;
        const dl_journal_node *from = dlsh_pass_source(p, n, k);
        DLSH_FREED char *met = from ? dlsh_sources_of(p, from, NULL) : NULL;
        const chosen c = met ? chosen_alone(e, p, met) : (chosen){NULL, NULL};
        if (!c.layer) continue;
        dlsh_found(e, c.layer->file, line_of_codes(c.layer),
                   "straight through: z + (q - z).detach() goes on in place of q",
                   "codes that were chosen go on without a way back for the gradient: what is made of them does not "
                   "train what chose them\n"
                   "%s at line %d lets no gradient through, and all that is compared at line %d depends on the input "
                   "through it alone",
                   c.choice->kids[0]->text, c.choice->span.line, n->line);
        return;
    }
}
