/* Where a value came to be what it is: back along the course of the values of a text, through variables, what is put
 * into lists, items, arguments, and what functions return. */
#include <string.h>

#include "debug/doctor/texts.h"
#include "debug/doctor/syntax.h"

enum { DEEPEST = 48, NODES = 128, ALIASES = 4 };

/* The call that runs the function in which an expression stands, and the one of the function around that. */
typedef struct dlsh_frame {
    const dlsh_node *call, *fn;
    const struct dlsh_frame *up;
} frame;

/* What of an expression is asked for. */
typedef struct part {
    int item;          /* -1: all of it */
    int each;          /* of any of its items */
    const char *field; /* NULL: all of it */
} part;

typedef struct walk {
    const char *file;
    const dlsh_node *root;
    dlsh_has_property *has;
    void *ctx;
    dlsh_course *passed;
    const dlsh_step *now;
    int added; /* what comes next is put into what a name holds */
} walk;

static const part whole = {.item = -1};

static const dlsh_node *visit(walk *w, const dlsh_node *n, const frame *in, part p, int depth);

static const dlsh_node *visit_kids(walk *w, const dlsh_node *n, int from, const frame *in, int depth) {
    const dlsh_node *found = NULL;
    for (int i = from; i < n->nkids && !found; i++) found = visit(w, n->kids[i], in, whole, depth);
    return found;
}

/* ---------------------------------------------------------------- names */

/* From where a name is looked up: x = x + 1 reads what x was before. */
static int place_of_name(const walk *w, const dlsh_node *n) {
    const dlsh_node *around[NODES];
    for (int i = dlsh_nodes_around(w->root, n->span.start, around, NODES) - 1; i > 0; i--) {
        const int own = around[i]->kind == DLSH_N_FN && around[i - 1]->kind != DLSH_N_COMPREHENSION;
        if (own || around[i]->kind == DLSH_N_BLOCK) break;
        if (around[i]->kind == DLSH_N_ASSIGN) return around[i]->span.start;
    }
    return n->span.start;
}

/* Which of the names of a comprehension's items it is; -1: the only one, -2: none of them. */
static int item_named(const dlsh_node *fn, const char *name) {
    const dlsh_node *body = fn->kids[fn->nkids - 1], *to = body->nkids ? body->kids[0] : NULL;
    if (!strcmp(fn->kids[0]->text, name)) return -1;
    for (int k = 0; to && to->kind == DLSH_N_ASSIGN && k + 1 < to->nkids; k++)
        if (dlsh_names(to->kids[k], name)) return k;
    return -2;
}

int dlsh_is_item_of(const dlsh_node *loop, const char *name) {
    if (loop->kind == DLSH_N_COMPREHENSION) return item_named(loop->kids[0], name) > -2;
    for (int k = 0; loop->kind == DLSH_N_FOR && k + 2 < loop->nkids; k++)
        if (dlsh_mentions(loop->kids[k], name)) return 1;
    return 0;
}

/* The comprehension around a place, or else on the way there in the same call, whose items have the name; NULL: none.
 * The value of one with several loops stands before it. */
static const dlsh_node *comprehension_of(const walk *w, const dlsh_node *n, const frame *in, int *item) {
    const dlsh_node *around[NODES];
    for (int i = dlsh_nodes_around(w->root, n->span.start, around, NODES) - 1; i > 0; i--)
        if (around[i - 1]->kind == DLSH_N_COMPREHENSION && around[i]->kind == DLSH_N_FN &&
            (*item = item_named(around[i], n->text)) > -2)
            return around[i - 1];
    for (const dlsh_step *s = w->now; s && s->call == (in ? in->call : NULL); s = s->from)
        if (s->n->kind == DLSH_N_COMPREHENSION && (*item = item_named(s->n->kids[0], n->text)) > -2) return s->n;
    return NULL;
}

/* What a method that writes in place is of: v of v[j].mul_(m).add_ */
static const dlsh_node *holder_of(const dlsh_node *method) {
    const dlsh_node *n = method->kids[0];
    while (n->kind == DLSH_N_INDEX || (n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD &&
                                       n->kids[0]->text[strlen(n->kids[0]->text) - 1] == '_'))
        n = n->kind == DLSH_N_INDEX ? n->kids[0] : n->kids[0]->kids[0];
    return n;
}

const dlsh_node *dlsh_call_that_adds(const dlsh_step *at) {
    const dlsh_node *around[NODES];
    int depth = at->added ? dlsh_nodes_around(dlsh_text_root(at->file), at->n->span.start, around, NODES) : 0;
    while (depth && around[depth - 1]->kind != DLSH_N_CALL) depth--;
    return depth ? around[depth - 1] : NULL;
}

/* What stands between two places and puts something into what a name holds: name.append(v), name[i].add_(v), name[i] =
 * v, name.f = v. */
static const dlsh_node *visit_added(walk *w, const dlsh_node *n, const dlsh_node *name, int from, int till,
                                    const frame *in, part p, int depth) {
    static const char adding[] = "append|extend|insert|copy_|add_|mul_|sub_|div_|index_copy_|masked_fill_|"
                                 "index_add_|scatter_add_";
    const dlsh_node *found = NULL, *by = n->kind == DLSH_N_CALL ? n->kids[0] : NULL;
    if (n->span.end <= from || n->span.start >= till) return NULL;
    const dlsh_node *of = by && by->kind == DLSH_N_FIELD && dlsh_is_word(adding, by->text) ? holder_of(by) : NULL;
    const int part_of = of && of->kind == DLSH_N_FIELD && (!p.field || !strcmp(p.field, of->text)); /* name.f.add_(v) */
    if (of && (dlsh_names(of, name->text) || (part_of && dlsh_names(of->kids[0], name->text))))
        for (int i = 1; i < n->nkids && !found; i++) w->added = 1, found = visit(w, n->kids[i], in, p, depth);
    const dlsh_node *to = n->kind == DLSH_N_ASSIGN && n->nkids == 2 ? n->kids[0] : NULL;
    const int field = to && to->kind == DLSH_N_FIELD && (!p.field || !strcmp(p.field, to->text));
    if (to && (field || to->kind == DLSH_N_INDEX) && dlsh_names(to->kids[0], name->text))
        w->added = 1, found = visit(w, n->kids[1], in, p, depth);
    for (int i = 0; i < n->nkids && !found; i++)
        if (n->kids[i]) found = visit_added(w, n->kids[i], name, from, till, in, p, depth);
    return found;
}

/* What the call through which the walk came gives a parameter; NULL: it is none of that function, or was not given. */
static const dlsh_node *given(const frame *in, const char *name) {
    for (int k = 0; in && k + 1 < in->fn->nkids; k++)
        if (in->fn->kids[k]->kind == DLSH_N_PARAM && !strcmp(in->fn->kids[k]->text, name))
            return dlsh_argument_of(in->call, k, name);
    return NULL;
}

/* The data of the trainer whose loss a function is: trainer(m, d, loss=fn). NULL: it is that of none. */
static const dlsh_node *data_of_loss(const dlsh_node *n, const char *fn) {
    DLSH_EACH_BELOW (t, n) {
        const dlsh_node *loss = dlsh_is_call_of(t.n, "trainer") ? dlsh_argument_of(t.n, 99, "loss") : NULL;
        if (loss && dlsh_names(loss, fn)) return dlsh_argument_of(t.n, 1, "data");
    }
    return NULL;
}

/* What a trainer gives its loss for the targets, as a parameter behind the first one; NULL: it is none. */
static const dlsh_node *given_by_trainer(const walk *w, const dlsh_node *n) {
    const dlsh_node *around[DLSH_AROUND], *data = NULL;
    const int depth = dlsh_functions_around(w->root, n->span.start, around);
    const dlsh_node *fn = depth && around[depth - 1]->text ? around[depth - 1] : NULL;
    for (int k = 1; fn && !data && k + 1 < fn->nkids; k++)
        if (fn->kids[k]->kind == DLSH_N_PARAM && !strcmp(fn->kids[k]->text, n->text))
            data = data_of_loss(w->root, fn->text);
    const dlsh_node *made = data ? dlsh_made(w->file, data) : NULL;
    const int tables = dlsh_is_call_of(made, "dataset") && made->nkids > 2 && made->kids[1]->kind != DLSH_N_STR;
    return tables ? dlsh_argument_of(made, 1, "y") : data;
}

static const dlsh_node *visit_name(walk *w, const dlsh_node *n, const frame *in, part p, int depth) {
    int item;
    const dlsh_node *over = comprehension_of(w, n, in, &item);
    if (over) return visit(w, over->kids[1], in, (part){item >= 0 ? item : p.item, 1, p.field}, depth);
    const int place = place_of_name(w, n);
    const dlsh_definition d = dlsh_define(w->root, n->text, place);
    const dlsh_node *argument = d.param ? given(in, n->text) : NULL;
    if (argument) return visit(w, argument, in->up, p, depth);
    if (d.param && !d.value && (argument = given_by_trainer(w, n))) return visit(w, argument, NULL, p, depth);
    if (!d.value || d.value->kind == DLSH_N_FN) return NULL;
    if (d.param) {
        const dlsh_node *found = visit(w, d.value, NULL, p, depth);
        return found ? found : visit_added(w, w->root, n, d.at, place, in, p, depth);
    }
    while (in && (d.at < in->fn->span.start || d.at >= in->fn->span.end)) in = in->up;
    if (d.each) p.each = 1;
    if (d.item >= 0) p.item = d.item;
    const dlsh_node *s = dlsh_statement_at(w->file, d.value->span.line), *found = NULL;
    if (s && s->kind == DLSH_N_ASSIGN && s->op && dlsh_names(s->kids[0], n->text) && s->span.start == d.at)
        found = visit(w, s->kids[0], in, p, depth); /* x += 1: first what x was */
    if (!found) found = visit(w, d.value, in, p, depth);
    return found ? found : visit_added(w, w->root, n, d.value->span.end, place, in, p, depth);
}

/* ---------------------------------------------------------------- calls */

int dlsh_is_call_of(const dlsh_node *n, const char *names) {
    const char *by = n && n->kind == DLSH_N_CALL ? n->kids[0]->text : NULL;
    return dlsh_is_word(names, by);
}

static const dlsh_node *called(const char *file, const dlsh_node *n, int depth);

/* The function that a function of the text gives back last; NULL: none. */
static const dlsh_node *function_given(const char *file, const dlsh_node *call, int depth) {
    const dlsh_node *fn = called(file, call, depth), *back = fn ? dlsh_last_return(fn) : NULL;
    const dlsh_node *value = back && back->nkids ? back->kids[0] : NULL;
    if (value && value->kind == DLSH_N_NAME) return dlsh_function_of(file, value->text);
    return value && value->kind == DLSH_N_FN ? value : NULL;
}

/* A function may give back one that calls it, so that `depth` ends the search. */
static const dlsh_node *called(const char *file, const dlsh_node *n, int depth) {
    const dlsh_node *by = n && n->kind == DLSH_N_CALL ? n->kids[0] : NULL, *root = dlsh_text_root(file);
    for (int i = 0; root && by && by->kind == DLSH_N_NAME && i < ALIASES; i++) {
        const dlsh_node *fn = dlsh_function_of(file, by->text), *net = fn ? NULL : dlsh_net_of(file, by->text);
        if (fn || net) return fn ? fn : dlsh_forward_of(net->kids[net->nkids - 1]);
        by = dlsh_define(root, by->text, by->span.start).value;
    }
    if (by && by->kind == DLSH_N_CALL) return depth < ALIASES ? function_given(file, by, depth + 1) : NULL;
    return by && by->kind == DLSH_N_FN ? by : NULL;
}

const dlsh_node *dlsh_function_called(const char *file, const dlsh_node *n) { return called(file, n, 0); }

int dlsh_is_record(const dlsh_node *n) {
    return n && (n->kind == DLSH_N_RECORD || (n->kind == DLSH_N_CALL && dlsh_names(n->kids[0], "record")));
}

const dlsh_node *dlsh_value_of_key(const dlsh_node *record, const char *key) {
    for (int i = 0; dlsh_is_record(record) && i < record->nkids; i++)
        if (record->kids[i]->kind == DLSH_N_KWARG && !strcmp(record->kids[i]->text, key))
            return record->kids[i]->kids[0];
    return NULL;
}

static const dlsh_node *visit_record(walk *w, const dlsh_node *n, const frame *in, part p, int depth) {
    const dlsh_node *value = p.field ? dlsh_value_of_key(n, p.field) : NULL;
    return value ? visit(w, value, in, whole, depth) : visit_kids(w, n, n->kind == DLSH_N_CALL, in, depth);
}

/* What a function returns, the last first. */
static const dlsh_node *visit_returns(walk *w, const dlsh_node *n, const frame *in, part p, int depth) {
    const dlsh_node *found = NULL;
    if (!n || n->kind == DLSH_N_FN) return NULL;
    if (n->kind == DLSH_N_RETURN) return n->nkids ? visit(w, n->kids[0], in, p, depth) : NULL;
    for (int i = n->nkids - 1; i >= 0 && !found; i--) found = visit_returns(w, n->kids[i], in, p, depth);
    return found;
}

static const dlsh_node *visit_call(walk *w, const dlsh_node *n, const frame *in, part p, int depth) {
    static const char passing[] = "list|progress|enumerate|loader|zip|tuple|reversed|sorted";
    static const char forms[] = "len|size|numel|dim|zeros_like|ones_like|full_like|rand_like|randn_like|empty_like";
    const dlsh_node *by = n->kids[0], *fn = dlsh_function_called(w->file, n), *found = NULL;
    const char *name = by->text ? by->text : "";
    const dlsh_node *back = fn ? dlsh_last_return(fn) : NULL;
    const frame within = {n, fn, in};
    if (dlsh_is_record(n)) return visit_record(w, n, in, p, depth);
    if (back && back->nkids) found = visit_returns(w, fn->kids[fn->nkids - 1], &within, p, depth);
    if (found || (back && back->nkids && fn->text)) return found;
    if (dlsh_is_word(forms, name) && !dlsh_is_part_of_net(w->root, by)) return NULL; /* no numbers */
    if (by->kind == DLSH_N_FIELD) found = visit(w, by->kids[0], in, p, depth);
    const int zipped = !strcmp(name, "zip") && p.item >= 0 && p.item + 1 < n->nkids;
    if (zipped) return visit(w, n->kids[p.item + 1], in, (part){-1, 1, p.field}, depth);
    if (!strcmp(name, "enumerate")) p.item = p.item > 0 ? p.item - 1 : -1;
    for (int i = 1; i < n->nkids && !found; i++)
        found = visit(w, n->kids[i], in, dlsh_is_word(passing, name) ? p : whole, depth);
    return found;
}

/* ---------------------------------------------------------------- expressions */

static const dlsh_node *visit_index(walk *w, const dlsh_node *n, const frame *in, part p, int depth) {
    const dlsh_node *at = n->nkids == 2 ? n->kids[1] : NULL;
    const int item = at && at->kind == DLSH_N_INT && at->num.i >= 0 ? (int)at->num.i : -1;
    const dlsh_node *found = visit(w, n->kids[0], in, (part){item, 0, item < 0 ? p.field : NULL}, depth);
    for (int i = 1; i < n->nkids && !found; i++)
        if (n->kids[i]->kind != DLSH_N_SLICE) found = visit(w, n->kids[i], in, whole, depth);
    return found;
}

static const dlsh_node *visit_items(walk *w, const dlsh_node *n, const frame *in, part p, int depth) {
    const dlsh_node *found = NULL;
    if (p.item >= 0 && !p.each && p.item < n->nkids)
        return visit(w, n->kids[p.item], in, (part){-1, 0, p.field}, depth);
    p.each = 0;
    for (int i = 0; i < n->nkids && !found; i++) found = visit(w, n->kids[i], in, p, depth);
    return found;
}

static const dlsh_node *sources(walk *w, const dlsh_node *n, const frame *in, part p, int depth) {
    switch (n->kind) {
    case DLSH_N_NAME: return visit_name(w, n, in, p, depth);
    case DLSH_N_CALL: return visit_call(w, n, in, p, depth);
    case DLSH_N_INDEX: return visit_index(w, n, in, p, depth);
    case DLSH_N_FIELD:
        if (dlsh_is_word("shape|ndim|dtype|device", n->text)) return NULL;
        return visit(w, n->kids[0], in, (part){-1, 0, n->text}, depth);
    case DLSH_N_LIST:
    case DLSH_N_TUPLE: return visit_items(w, n, in, p, depth);
    case DLSH_N_RECORD: return visit_record(w, n, in, p, depth);
    case DLSH_N_COMPREHENSION: {
        const dlsh_node *back = dlsh_last_return(n->kids[0]);
        if (!p.each) p.item = -1;
        p.each = 0;
        return back && back->nkids ? visit(w, back->kids[0], in, p, depth) : NULL;
    }
    case DLSH_N_COND: return visit_kids(w, n, 1, in, depth);
    case DLSH_N_FN: return NULL;
    default: return visit_kids(w, n, 0, in, depth);
    }
}

static int is_among(const dlsh_course *c, const dlsh_step *s, int any_call) {
    for (int i = 0; i < c->n; i++)
        if (c->at[i].n == s->n && c->at[i].item == s->item && (any_call || c->at[i].call == s->call)) return 1;
    return 0;
}

int dlsh_is_on(const dlsh_course *c, const dlsh_step *s) { return is_among(c, s, 1); }

static const dlsh_node *visit(walk *w, const dlsh_node *n, const frame *in, part p, int depth) {
    if (!n || depth > DEEPEST || (n->kind == DLSH_N_LIST && !n->nkids)) return NULL;
    const dlsh_step at = {w->file, n, in ? in->call : NULL, p.item, w->added, w->now, in, p.field}, *from = w->now;
    w->added = 0;
    if (is_among(w->passed, &at, 0) || w->passed->n == DLSH_STEPS) return NULL;
    w->passed->at[w->passed->n++] = (dlsh_step){w->file, n, at.call, p.item, at.added, NULL, NULL, p.field};
    const dlsh_property has = w->has ? w->has(w->ctx, &at) : DLSH_MAY_HAVE;
    if (has == DLSH_HAS_FIRST) return n;
    w->now = &at;
    const dlsh_node *found = has == DLSH_HAS_NOT ? NULL : sources(w, n, in, p, depth + 1);
    w->now = from;
    return found ? found : has == DLSH_HAS ? n : NULL;
}

const dlsh_node *dlsh_origin_at(const dlsh_step *at, const dlsh_node *n, dlsh_has_property *has, void *ctx) {
    dlsh_course passed;
    passed.n = 0;
    walk w = {at->file, dlsh_text_root(at->file), has, ctx, &passed, at->n ? at : NULL, 0};
    return w.root ? visit(&w, n, at->in, whole, 0) : NULL;
}

const dlsh_node *dlsh_origin_in(const char *file, const dlsh_node *n, const dlsh_node *call, dlsh_has_property *has,
                                void *ctx) {
    const frame in = {call, dlsh_function_called(file, call), NULL};
    const dlsh_step start = {.file = file, .in = in.fn ? &in : NULL};
    return dlsh_origin_at(&start, n, has, ctx);
}

const dlsh_node *dlsh_origin(const char *file, const dlsh_node *n, dlsh_has_property *has, void *ctx) {
    return dlsh_origin_in(file, n, NULL, has, ctx);
}

const dlsh_node *dlsh_outer_call(const dlsh_step *at) {
    const frame *in = at->in;
    while (in && in->up) in = in->up;
    return in ? in->call : NULL;
}

/* What gives a value: no name, nor an item or field of what is written out. */
static dlsh_property is_made(void *ctx, const dlsh_step *at) {
    const dlsh_node *n = at->n, *of = n->kind == DLSH_N_FIELD || n->kind == DLSH_N_INDEX ? n->kids[0] : NULL;
    const dlsh_node *whole_of = of ? dlsh_origin_at(at, of, is_made, ctx) : NULL;
    if (n->kind == DLSH_N_NAME || (n->kind == DLSH_N_TUPLE && at->item >= 0)) return DLSH_MAY_HAVE;
    if (dlsh_is_record(n) && at->field) return DLSH_MAY_HAVE;
    if (whole_of && (dlsh_is_record(whole_of) || whole_of->kind == DLSH_N_LIST)) return DLSH_MAY_HAVE;
    return dlsh_function_called(at->file, n) ? DLSH_HAS : DLSH_HAS_FIRST;
}

const dlsh_node *dlsh_made(const char *file, const dlsh_node *n) { return dlsh_origin(file, n, is_made, NULL); }

const dlsh_value *dlsh_value_then(const dlsh_examination *e, const dlsh_step *at) {
    const dlsh_node *fn = dlsh_function_called(at->file, at->call);
    if (at->n->kind != DLSH_N_NAME || (fn && dlsh_last_call(dlsh_text_root(at->file), fn) != at->call)) return NULL;
    return dlsh_value_of(e, at->file, at->n);
}

/* Does it take all rows, or neighbouring ones, x[:, none], x[:800]? */
static int takes_slices(const dlsh_node *n) {
    for (int i = 1; i < n->nkids; i++)
        if (n->kids[i]->kind != DLSH_N_SLICE && n->kids[i]->kind != DLSH_N_NONE && n->kids[i]->kind != DLSH_N_ELLIPSIS)
            return 0;
    return n->kind == DLSH_N_INDEX;
}

/* Does a comparison read a slice of what has that name, y[:800] > 0? Then it has no numbers to be mended. */
static int is_compared(const dlsh_node *n, const char *name) {
    const int comparison = dlsh_is_comparison(n);
    int found = comparison && takes_slices(n->kids[0]) && dlsh_names(n->kids[0]->kids[0], name);
    for (int i = 0; i < n->nkids && !found; i++) found = n->kids[i] && is_compared(n->kids[i], name);
    return found;
}

/* What gives it its numbers: no name, nor a slice, nor a pick or a cast of what was asked for. */
static dlsh_property makes(void *ctx, const dlsh_step *at) {
    static const char keeping[] = "to|clone|contiguous|reshape|view|float|long|detach|squeeze|unsqueeze|flatten|double";
    const dlsh_node *n = at->n, *of = ctx, *by = n->kind == DLSH_N_CALL ? n->kids[0] : NULL;
    const int own = n->span.start >= of->span.start && n->span.end <= of->span.end;
    if (n->kind == DLSH_N_NAME || n->kind == DLSH_N_TUPLE) return DLSH_MAY_HAVE;
    const int slice = takes_slices(n) && n->kids[0]->kind == DLSH_N_NAME;
    if (slice && !is_compared(dlsh_text_root(at->file), n->kids[0]->text)) return DLSH_MAY_HAVE;
    if (own && (n->kind == DLSH_N_INDEX || n->kind == DLSH_N_FIELD)) return DLSH_MAY_HAVE;
    if (by && by->kind == DLSH_N_FIELD && (own || dlsh_is_word(keeping, by->text))) return DLSH_MAY_HAVE;
    if (by && by->kind == DLSH_N_NAME && dlsh_function_of(at->file, by->text)) return DLSH_HAS;
    return dlsh_names(by, "dataset") ? DLSH_HAS_NOT : DLSH_HAS_FIRST;
}

int dlsh_line_of_making(const char *file, const dlsh_node *n, int otherwise) {
    const dlsh_node *by = n ? dlsh_origin(file, n, makes, (void *)n) : NULL;
    return by ? by->span.line : otherwise;
}

static dlsh_property is_data_set(void *ctx, const dlsh_step *at) {
    const int set = dlsh_is_call_of(at->n, "dataset") && at->n->nkids > 1;
    if (set && at->n->kids[1]->kind == DLSH_N_STR) return DLSH_HAS_FIRST;
    if (set) return at->n->nkids == 2 ? DLSH_MAY_HAVE : DLSH_HAS_NOT; /* inputs alone */
    return makes(ctx, at) == DLSH_HAS_FIRST && at->n->kind != DLSH_N_INDEX && at->n->kind != DLSH_N_FIELD &&
                   !dlsh_is_call_of(at->n, "loader|progress|enumerate|zip|list")
               ? DLSH_HAS_NOT
               : DLSH_MAY_HAVE;
}

const dlsh_node *dlsh_data_set_behind(const char *file, const dlsh_node *n) {
    return n ? dlsh_origin(file, n, is_data_set, (void *)n) : NULL;
}

/* What two values do not have in common. */
typedef struct difference {
    dlsh_course way;
    int names; /* count, too: y = x */
} difference;

static dlsh_property is_apart(void *ctx, const dlsh_step *at) {
    const difference *d = ctx;
    if (dlsh_is_on(&d->way, at)) return DLSH_HAS_NOT;
    return at->n->kind == DLSH_N_NAME && !d->names ? DLSH_MAY_HAVE : DLSH_HAS;
}

const dlsh_node *dlsh_apart(const char *file, const dlsh_node *n, const dlsh_node *other) {
    difference d = {.names = 0};
    if (!n || !other || n == other) return NULL;
    dlsh_course_of(file, other, &d.way);
    const dlsh_node *found = dlsh_origin(file, n, is_apart, &d);
    d.names = 1;
    return found ? found : dlsh_origin(file, n, is_apart, &d);
}

void dlsh_course_in(const char *file, const dlsh_node *n, const dlsh_node *call, dlsh_course *out) {
    const frame in = {call, dlsh_function_called(file, call), NULL};
    out->n = 0;
    walk w = {file, dlsh_text_root(file), NULL, NULL, out, NULL, 0};
    if (w.root) visit(&w, n, in.fn ? &in : NULL, whole, 0);
}

void dlsh_course_of(const char *file, const dlsh_node *n, dlsh_course *out) { dlsh_course_in(file, n, NULL, out); }
