/* A state that a batch leaves is given to the next one, though batches are of samples that have nothing to do with each
 * other: they are shuffled, drawn anew, or rows that were drawn each by itself. */
#include <math.h>
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

/* Draws in a loop that no data from before it go into: noise on a series leaves its order. Both what is computed of the
 * state and what that is compared with have to come from one: of a world that is acted in, the noise is no sample. */
enum { DRAWS = 16 };
typedef struct drawing {
    const dlsh_node *loop, *use;
    const char *state;
    const dlsh_node *drawn[DRAWS]; /* that the use is made of */
    int n, beside, others;         /* beside: one goes into the loss on another way, too */
} drawing;

static int is_in(const dlsh_node *n, const dlsh_node *loop) {
    return n && n->span.start > loop->span.start && n->span.end <= loop->span.end;
}

static int is_given_in(const dlsh_node *loop, const char *name) {
    DLSH_EACH_BELOW (t, dlsh_body_of(loop))
        if (t.n->kind == DLSH_N_ASSIGN && dlsh_assigns(t.n, name)) return 1;
    return 0;
}

static dlsh_property draws_anew(void *ctx, const dlsh_step *at) {
    drawing *d = ctx;
    const dlsh_node *n = at->n, *call = dlsh_outer_call(at), *of = n->kind == DLSH_N_INDEX ? n->kids[0] : n;
    if (dlsh_names(n, d->state) || n == d->use) return DLSH_HAS_NOT;
    if (dlsh_is_call_of(n, "rand|randn|randint|normal|bernoulli|multinomial") && is_in(call ? call : n, d->loop)) {
        for (int i = 0; d->use && i < d->n; i++) d->beside |= d->drawn[i] == n;
        if (!d->use && d->n < DRAWS) d->drawn[d->n++] = n;
    }
    const dlsh_node *around[64];
    int depth =
        of->kind == DLSH_N_NAME && !call ? dlsh_nodes_around(dlsh_text_root(at->file), n->span.start, around, 64) : 0;
    while (depth && around[depth - 1]->kind != DLSH_N_ASSIGN && around[depth - 1]->kind != DLSH_N_BLOCK) depth--;
    if (!depth || dlsh_is_item_of(d->loop, of->text)) return DLSH_MAY_HAVE;
    const int own = around[depth - 1]->kind == DLSH_N_ASSIGN; /* x = f(x) reads what x was before */
    const dlsh_definition made =
        dlsh_define(dlsh_text_root(at->file), of->text, (own ? around[depth - 1] : n)->span.start);
    const int outside = made.value && made.value->kind != DLSH_N_FN && made.at < d->loop->span.start;
    d->others |= outside && (of != n || is_given_in(d->loop, of->text)); /* a part of it, or changed in the loop */
    return DLSH_MAY_HAVE;
}

/* ---------------------------------------------------------------- the way from a state to the next one */

/* Through what is given by the gradient it is no state of samples, but a weight; through choices that of a world. */
static dlsh_property is_use(void *use, const dlsh_step *at) {
    const dlsh_node *n = at->n;
    if (n == use) return DLSH_HAS_FIRST;
    return dlsh_is_call_of(n, "grad|multinomial|bernoulli|argmax|sample") ||
                   (n->kind == DLSH_N_FIELD && !strcmp(n->text, "grad"))
               ? DLSH_HAS_NOT
               : DLSH_MAY_HAVE;
}

static const dl_tensor *tensor_of(const dlsh_value *v) {
    while (v && v->type == DLSH_LIST && v->as.list->n) v = &v->as.list->items[0];
    return v && v->type == DLSH_TENSOR ? v->as.tensor : NULL;
}

/* x[i:i + 64], rows of a tensor; NULL: it is none. */
static const dlsh_node *rows_taken(const dlsh_node *n) {
    const dlsh_node *rows = n->kind == DLSH_N_INDEX && n->nkids == 2 ? n->kids[1] : NULL;
    return rows && rows->kind == DLSH_N_SLICE && rows->kids[0] && rows->kids[1] && !rows->kids[2] ? rows : NULL;
}

/* How many: 64 of x[i:i + 64] and of x[k * 64:(k + 1) * 64]; NaN: it is not known. */
static double count_taken(const dlsh_examination *e, const char *file, const dlsh_node *rows) {
    const dlsh_node *from = rows->kids[0], *till = rows->kids[1];
    const int sum = till->kind == DLSH_N_BINARY && till->op == DLSH_OP_ADD && dlsh_same_text(file, till->kids[0], from);
    const int product = till->kind == DLSH_N_BINARY && till->op == DLSH_OP_MUL && from->kind == DLSH_N_BINARY &&
                        from->op == DLSH_OP_MUL && dlsh_same_text(file, till->kids[1], from->kids[1]);
    return sum || product ? dlsh_number_of(e, file, till->kids[1]) : NAN;
}

/* How many samples a batch has by what an expression names, where a state has that many, too; 0: it has not. */
static long samples_of(const dlsh_examination *e, const char *file, const dlsh_node *use, const char *state,
                       const dl_tensor *t) {
    DLSH_EACH_BELOW (w, use) {
        const dlsh_node *rows = rows_taken(w.n), *of = rows ? w.n->kids[0] : w.n;
        if ((!rows && of->kind != DLSH_N_NAME) || dlsh_names(of, state)) continue;
        const dlsh_value *v = dlsh_value_of(e, file, of);
        const dl_tensor *x = v && v->type == DLSH_TENSOR && !dl_requires_grad(v->as.tensor) ? v->as.tensor : NULL;
        const double taken = rows ? count_taken(e, file, rows) : NAN;
        const int times_first = x && dl_ndim(x) > 1 && dl_shape(x)[1] == dl_shape(t)[0];
        const long n = !x || !dl_ndim(x) ? 0 : taken > 1 && !times_first ? (long)taken : dl_shape(x)[0];
        for (int k = 0; n > 1 && k < 2; k++)
            if (dl_shape(t)[k] == n) return n;
    }
    return 0;
}

static int is_none_or_zeros(const dlsh_node *v) {
    return v->kind == DLSH_N_NONE || dlsh_is_call_of(v, "zeros|zeros_like|new_zeros|full|ones");
}

/* h.detach(), [v.clone() for v in h]: what a name was, as it is. */
static int is_as_it_was(const dlsh_node *value, const char *name) {
    DLSH_EACH_BELOW (t, value)
        if (t.n->kind == DLSH_N_BINARY || t.n->kind == DLSH_N_INDEX ||
            (t.n->kind == DLSH_N_CALL && !dlsh_is_call_of(t.n, "detach|clone|contiguous|tuple|list")))
            return 0;
    return dlsh_mentions(value, name);
}

/* h = h.detach() in a loop before a place; NULL: there is none. */
static const dlsh_node *kept_before(const dlsh_node *loop, const char *name, int before) {
    DLSH_EACH_BELOW_IF (t, dlsh_body_of(loop), t.n->span.start < before)
        if (t.n->kind == DLSH_N_ASSIGN && t.n->span.end <= before && dlsh_is_listed(t.n->kids[0], name) &&
            is_as_it_was(t.n->kids[t.n->nkids - 1], name))
            return t.n;
    return NULL;
}

/* Is a name set anew in a loop, before a place, or to zeros somewhere? */
static int is_set_anew(const dlsh_node *loop, const char *name, int before) {
    DLSH_EACH_BELOW (t, dlsh_body_of(loop)) {
        if (t.n->kind != DLSH_N_ASSIGN) continue;
        const dlsh_node *value = t.n->kids[t.n->nkids - 1];
        for (int k = 0; k + 1 < t.n->nkids; k++)
            if (dlsh_is_listed(t.n->kids[k], name) &&
                ((t.n->span.end <= before && !is_as_it_was(value, name)) || is_none_or_zeros(value) ||
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
        if (!state || dl_ndim(state) < 2 || (dl_requires_grad(state) && dl_is_leaf(state)) ||
            is_set_anew(c->loop, t.n->text, c->use->span.start))
            continue;
        c->name = t.n->text;
        c->samples = samples_of(e, file, c->use, c->name, state);
        if (c->samples && (c->next = set_for_next(file, c))) return 1;
    }
    return 0;
}

/* Is all that a backward pass in a loop goes back to, but for a state, drawn anew in each round? */
static int is_drawn_anew(const dlsh_examination *e, const char *file, const carrying *c) {
    drawing d = {.loop = c->loop, .state = c->name};
    dlsh_origin(file, c->use, draws_anew, &d);
    d.use = c->use;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        const dlsh_node *back = strcmp(r->file, file) ? NULL : dlsh_statement_at(file, r->line);
        if (is_in(back, c->loop)) dlsh_origin(file, back, draws_anew, &d);
    }
    return d.beside && !d.others;
}

/* ---------------------------------------------------------------- rows that were drawn each by itself */

/* What is made before a loop, row by row, of draws: then no row tells of another one. */
typedef struct row_making {
    const dlsh_node *loop, *use, *rows;
    const dlsh_node *drawn[DRAWS];
    int n, beside, others; /* as of a drawing */
} row_making;

static const char draws[] = "rand|randn|randint|normal|bernoulli|rand_like|randn_like";

/* Does a call of the library leave each row by itself? */
static int keeps_rows(const dlsh_node *call) {
    static const char each[] = "zeros|ones|full|arange|linspace|tensor|float|to|long|int|item|abs|sin|cos|tan|exp|log|"
                               "sqrt|tanh|sigmoid|relu|clamp|round|floor|ceil|sign|pow|where|maximum|minimum|one_hot|"
                               "unsqueeze|squeeze|zeros_like|ones_like|clone|contiguous|range|len";
    static const char along[] = "sum|mean|amax|amin|max|min|argmax|argmin|cumsum|cumprod|prod|std|var|any|all|softmax|"
                                "sort|flip|diff|norm|roll|cat|stack";
    if (dlsh_is_call_of(call, draws) || dlsh_is_call_of(call, each)) return 1;
    if (!dlsh_is_call_of(call, along)) return 0;
    const dlsh_node *last = call->nkids > 1 ? call->kids[call->nkids - 1] : NULL; /* dim=, but for keepdim= */
    for (int k = 1; k < call->nkids; k++)
        if (call->kids[k]->kind == DLSH_N_KWARG && !strcmp(call->kids[k]->text, "dim")) last = call->kids[k];
    if (last && last->kind == DLSH_N_KWARG) last = !strcmp(last->text, "dim") ? last->kids[0] : call->kids[1];
    if (last && last->kind == DLSH_N_LIST && last->nkids == 1) last = last->kids[0];
    return last && last->kind == DLSH_N_INT && last->num.i > 0;
}

static dlsh_property is_made_by_rows(void *ctx, const dlsh_step *at) {
    row_making *m = ctx;
    const dlsh_node *n = at->n, *call = dlsh_outer_call(at);
    if (n == m->use || dlsh_is_call_of(n, "param|parameter")) return DLSH_HAS_NOT;
    if (is_in(call ? call : n, m->loop)) {
        const dlsh_node *rows = !call ? rows_taken(n) : NULL;
        if (!call && n->kind == DLSH_N_INDEX)
            m->others |= !rows || (m->rows && !dlsh_same_text(at->file, rows, m->rows)), m->rows = rows;
        return DLSH_MAY_HAVE;
    }
    if (dlsh_is_call_of(n, draws)) {
        for (int i = 0; m->use && i < m->n; i++) m->beside |= m->drawn[i] == n;
        if (!m->use && m->n < DRAWS) m->drawn[m->n++] = n;
    }
    if (n->kind == DLSH_N_CALL) m->others |= !dlsh_function_called(at->file, n) && !keeps_rows(n);
    if (n->kind == DLSH_N_BINARY) m->others |= n->op == DLSH_OP_MATMUL;
    if (n->kind == DLSH_N_INDEX) {
        const dlsh_node *first = n->nkids > 2 ? n->kids[1] : NULL;
        m->others |= !first || first->kind != DLSH_N_SLICE || first->kids[0] || first->kids[1] || first->kids[2];
    }
    m->others |= n->kind == DLSH_N_FOR || n->kind == DLSH_N_WHILE || n->kind == DLSH_N_COMPREHENSION;
    return DLSH_MAY_HAVE;
}

/* x, y = draw(1000); for i ... m(x[i:i + 50], state), y[i:i + 50]: is each row of both made of its own draws? */
static int is_drawn_by_rows(const dlsh_examination *e, const char *file, const carrying *c) {
    row_making m = {.loop = c->loop};
    dlsh_origin(file, c->use, is_made_by_rows, &m);
    m.use = c->use;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        const dlsh_node *back = strcmp(r->file, file) ? NULL : dlsh_statement_at(file, r->line);
        if (is_in(back, c->loop)) dlsh_origin(file, back, is_made_by_rows, &m);
    }
    return m.rows && m.beside && !m.others;
}

/* ---------------------------------------------------------------- all */

static int is_on_way_of_loss(const dlsh_examination *e, const char *file, const carrying *c) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        const dlsh_node *back = strcmp(r->file, file) ? NULL : dlsh_statement_at(file, r->line);
        if (is_in(back, c->loop) && dlsh_origin(file, back, is_use, (void *)c->use)) return 1;
    }
    return 0;
}

void dlsh_find_carried_state(dlsh_examination *e, const char *file, const dlsh_node *loop) {
    const int mixed = is_in_random_order(file, loop);
    DLSH_EACH_BELOW (t, dlsh_body_of(loop)) {
        const dlsh_node *value = t.n->kind == DLSH_N_ASSIGN && t.n->nkids > 1 ? t.n->kids[t.n->nkids - 1] : NULL;
        carrying c = {.loop = loop, .use = value};
        if (!value || !carries(e, file, &c) || !is_on_way_of_loss(e, file, &c)) continue;
        const int anew = !mixed && is_drawn_anew(e, file, &c);
        if (!mixed && !anew && !is_drawn_by_rows(e, file, &c)) continue;
        const dlsh_node *kept = kept_before(loop, c.name, value->span.start);
        dlsh_found(e, file, kept ? kept->span.line : value->span.line,
                   "begin each batch with a state of its own: zeros, or none",
                   "%s, the state that a batch leaves, is given to the next batch, which is of other samples\n"
                   "batches are %s (line %d): each of %ld samples begins with the end of another one; line %d keeps it",
                   c.name,
                   mixed  ? "in random order"
                   : anew ? "drawn anew"
                          : "of rows that have nothing to do with each other",
                   loop->span.line, c.samples, c.next->span.line);
        return;
    }
}
