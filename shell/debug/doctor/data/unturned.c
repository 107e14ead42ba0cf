/* Pictures that are mirrored, turned or shifted at random on their way into a net, whose targets have a number for each
 * place and stay as they are: the text says what becomes of both. */
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/data/turned.h"
#include "debug/doctor/syntax.h"

typedef struct ways {
    const dlsh_examination *e;
    const char *file;
    const dlsh_node *turn, *fn; /* of the input, and the function in which it is; NULL: none */
    int others, into_net;       /* something else is turned; a net's arguments are looked at */
} ways;

/* x.flip(3), roll(x, 2, 1), x[:, :, ::-1], but not of samples. */
static int is_turn(const ways *w, const dlsh_node *n) {
    static const char turning[] = "flip|fliplr|flipud|hflip|vflip|rot90|rotate|roll";
    for (int i = 2; n->kind == DLSH_N_INDEX && i < n->nkids; i++) {
        const dlsh_node *step = n->kids[i]->kind == DLSH_N_SLICE ? n->kids[i]->kids[2] : NULL;
        if (step && dlsh_number_of(w->e, w->file, step) < 0) return 1;
    }
    if (!dlsh_is_call_of(n, turning)) return 0;
    const int method = n->kids[0]->kind == DLSH_N_FIELD, shifts = !strcmp(n->kids[0]->text, "roll");
    const dlsh_node *dims = dlsh_argument_of(n, !method + shifts, "dims");
    if (dims && dims->kind == DLSH_N_LIST && dims->nkids) dims = dims->kids[0];
    return !(dims && dlsh_number_of(w->e, w->file, dims) == 0);
}

static dlsh_property is_on_way(void *ctx, const dlsh_step *at) {
    ways *w = ctx;
    const dlsh_node *n = at->n;
    if (is_turn(w, n)) {
        w->others |= !w->into_net;
        const dlsh_node *block = dlsh_block_around(dlsh_text_root(w->file), n->span.start);
        if (!w->into_net || w->turn || !dlsh_draws(block)) return w->into_net ? DLSH_MAY_HAVE : DLSH_HAS_FIRST;
        w->turn = n, w->fn = dlsh_function_called(w->file, at->call);
        return DLSH_MAY_HAVE;
    }
    if (w->into_net || n->kind != DLSH_N_CALL || !dlsh_object_of(w->e, w->file, n->kids[0], &dlsh_net_class))
        return DLSH_MAY_HAVE;
    w->into_net = 1;
    for (int i = 1; i < n->nkids; i++) dlsh_origin(w->file, n->kids[i], is_on_way, w);
    w->into_net = 0;
    return DLSH_HAS_NOT;
}

/* Of a function that turns one of the values it returns: where another one is given its value; 0: it returns one. */
static int line_of_unturned(const ways *w) {
    const dlsh_node *back = w->fn ? dlsh_last_return(w->fn) : NULL, *all = back && back->nkids ? back->kids[0] : NULL;
    for (int i = 0; all && all->kind == DLSH_N_TUPLE && i < all->nkids; i++) {
        ways own = {w->e, w->file, NULL, NULL, 0, 0};
        if (dlsh_origin(w->file, all->kids[i], is_on_way, &own) || all->kids[i]->kind != DLSH_N_NAME) continue;
        const dlsh_definition d = dlsh_define(dlsh_text_root(w->file), all->kids[i]->text, back->span.start);
        if (d.value && !d.param) return d.value->span.line;
    }
    return 0;
}

/* Has the pass targets with a number for each place of the pictures that a net was given? */
static int has_places(dlsh_pass p, const dl_journal_row *r) {
    for (long k = 0; r->ndim > 2 && k < p.n; k++)
        for (int j = 0; j < p.at[k].nin && j < 8; j++) {
            const dl_journal_value *v = &p.at[k].in[j];
            const int same = v->there && v->constant && v->ndim > 2 && v->shape[0] == r->shape[0] &&
                             v->shape[v->ndim - 1] == r->shape[r->ndim - 1] &&
                             v->shape[v->ndim - 2] == r->shape[r->ndim - 2];
            if (same && dlsh_op_is(&p.at[k], "logit_loss|probability_loss|cross_entropy|sub|huber_difference|"
                                             "square_difference|nll_picked|mul"))
                return 1;
        }
    return 0;
}

void dlsh_find_unturned(dlsh_examination *e) {
    DLSH_EACH_ROW (b, e, DL_DID_BACKWARD) {
        const dlsh_pass p = dlsh_pass_of(b, 1);
        ways w = {e, b->file, NULL, NULL, 0, 0};
        int places = 0;
        DLSH_EACH_ROW_WHILE (!places, r, e, DL_DID_FORWARD) places = dlsh_is_in_pass(p, r) && has_places(p, r);
        const dlsh_node *n = places ? dlsh_statement_at(b->file, b->line) : NULL;
        if (!n || dlsh_origin(b->file, n, is_on_way, &w) || !w.turn) continue;
        const int line = line_of_unturned(&w);
        dlsh_found(e, b->file, line ? line : w.turn->span.line, "turn both alike: x = x.flip(3); mask = mask.flip(3)",
                   "labels do not belong to their inputs: pictures are mirrored or turned, their targets are not\n"
                   "line %d turns what the net is given; the targets of the loss have a number for each place, and "
                   "nothing turns them",
                   w.turn->span.line);
    }
}
