/* A state that a batch leaves is given to the next one, though batches are of samples that have nothing to do with each
 * other: they are shuffled. */
#include <string.h>

#include "debug/doctor/text/reads.h"
#include "debug/doctor/trace.h"

/* What is computed of a state and a batch, and where the state is set for the next one. */
typedef struct carrying {
    const dlsh_node *loop, *use, *next;
    const char *name;
    long samples;
} carrying;

/* ---------------------------------------------------------------- batches in random order */

static dlsh_property draws_order(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    return dlsh_is_call_of(at->n, "randperm|randint|multinomial") ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* x[j] in the loop, of rows in random order, or a loader that shuffles. */
static int is_in_random_order(const char *file, const dlsh_node *loop) {
    int line;
    if (loop->kind == DLSH_N_FOR && dlsh_is_shuffled(file, loop->kids[loop->nkids - 2], &line)) return 1;
    DLSH_EACH_BELOW (t, dlsh_body_of(loop))
        if (t.n->kind == DLSH_N_INDEX && t.n->nkids == 2 && dlsh_origin(file, t.n->kids[1], draws_order, NULL))
            return 1;
    return 0;
}

/* ---------------------------------------------------------------- the way from a state to the next one */

/* Through what is given by the gradient it is no state of samples, but a weight. */
static dlsh_property is_use(void *use, const dlsh_step *at) {
    const dlsh_node *n = at->n;
    if (n == use) return DLSH_HAS_FIRST;
    return dlsh_is_call_of(n, "grad") || (n->kind == DLSH_N_FIELD && !strcmp(n->text, "grad")) ? DLSH_HAS_NOT
                                                                                               : DLSH_MAY_HAVE;
}

static const dl_tensor *tensor_of(const dlsh_value *v) {
    while (v && v->type == DLSH_LIST && v->as.list->n) v = &v->as.list->items[0];
    return v && v->type == DLSH_TENSOR ? v->as.tensor : NULL;
}

/* How many samples a batch has by what an expression names, where a state has that many, too; 0: it has not. */
static long samples_of(const dlsh_examination *e, const char *file, const dlsh_node *use, const char *state,
                       const dl_tensor *t) {
    DLSH_EACH_BELOW (w, use) {
        if (w.n->kind != DLSH_N_NAME || !strcmp(w.n->text, state)) continue;
        const dlsh_value *v = dlsh_value_of(e, file, w.n);
        const dl_tensor *x = v && v->type == DLSH_TENSOR && !dl_requires_grad(v->as.tensor) ? v->as.tensor : NULL;
        const long n = x && dl_ndim(x) ? dl_shape(x)[0] : 0;
        for (int k = 0; n > 1 && k < 2; k++)
            if (dl_shape(t)[k] == n) return n;
    }
    return 0;
}

static int is_none_or_zeros(const dlsh_node *v) {
    return v->kind == DLSH_N_NONE || dlsh_is_call_of(v, "zeros|zeros_like|new_zeros|full|ones");
}

/* Is a name set anew in a loop, before a place, or to zeros somewhere? */
static int is_set_anew(const dlsh_node *loop, const char *name, int before) {
    DLSH_EACH_BELOW (t, dlsh_body_of(loop)) {
        if (t.n->kind != DLSH_N_ASSIGN) continue;
        const dlsh_node *value = t.n->kids[t.n->nkids - 1];
        for (int k = 0; k + 1 < t.n->nkids; k++)
            if (dlsh_is_listed(t.n->kids[k], name) &&
                (t.n->span.end <= before || is_none_or_zeros(value) ||
                 (value->kind == DLSH_N_TUPLE && value->nkids && is_none_or_zeros(value->kids[0]))))
                return 1;
    }
    return 0;
}

/* The statement of the loop that makes a state of what was computed with it; NULL: none does. */
static const dlsh_node *set_for_next(const char *file, const carrying *c) {
    DLSH_EACH_BELOW (t, dlsh_body_of(c->loop)) {
        int sets = 0;
        for (int k = 0; t.n->kind == DLSH_N_ASSIGN && k + 1 < t.n->nkids; k++)
            sets |= dlsh_is_listed(t.n->kids[k], c->name);
        if (sets && dlsh_origin(file, t.n->kids[t.n->nkids - 1], is_use, (void *)c->use)) return t.n;
    }
    return NULL;
}

/* Is it computed of a state of samples that the pass before left? */
static int carries(const dlsh_examination *e, const char *file, carrying *c) {
    DLSH_EACH_BELOW (t, c->use) {
        const dlsh_value *v = t.n->kind == DLSH_N_NAME ? dlsh_value_of(e, file, t.n) : NULL;
        const dl_tensor *state = tensor_of(v);
        if (!state || dl_ndim(state) < 2 || dl_requires_grad(state) ||
            is_set_anew(c->loop, t.n->text, c->use->span.start))
            continue;
        c->name = t.n->text;
        c->samples = samples_of(e, file, c->use, c->name, state);
        if (c->samples && (c->next = set_for_next(file, c))) return 1;
    }
    return 0;
}

/* ---------------------------------------------------------------- all */

static int is_on_way_of_loss(const dlsh_examination *e, const char *file, const carrying *c) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        const dlsh_node *back = strcmp(r->file, file) ? NULL : dlsh_statement_at(file, r->line);
        if (back && back->span.start > c->loop->span.start && back->span.end <= c->loop->span.end &&
            dlsh_origin(file, back, is_use, (void *)c->use))
            return 1;
    }
    return 0;
}

void dlsh_find_carried_state(dlsh_examination *e, const char *file, const dlsh_node *loop) {
    if (!is_in_random_order(file, loop)) return;
    DLSH_EACH_BELOW (t, dlsh_body_of(loop)) {
        const dlsh_node *value = t.n->kind == DLSH_N_ASSIGN && t.n->nkids > 1 ? t.n->kids[t.n->nkids - 1] : NULL;
        carrying c = {.loop = loop, .use = value};
        if (!value || !carries(e, file, &c) || !is_on_way_of_loss(e, file, &c)) continue;
        dlsh_found(
            e, file, value->span.line, "begin each batch with a state of its own: zeros, or none",
            "%s, the state that a batch leaves, is given to the next batch, which is of other samples\n"
            "batches are in random order (line %d): each of %ld samples begins with the end of another one; line "
            "%d keeps it",
            c.name, loop->span.line, c.samples, c.next->span.line);
        return;
    }
}
