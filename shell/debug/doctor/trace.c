/* Following the variables of a statement back through assignments, loops and calls, in the order of the text. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/texts.h"
#include "debug/doctor/trace.h"

typedef struct tracer {
    const dlsh_examination *e;
    const dlsh_unit *unit;
    dlsh_traced *out;
    int n;
    const dlsh_node *call; /* through which a function was come to that picks; NULL: through none */
} tracer;

enum { DEEPEST = 12 };

/* ---------------------------------------------------------------- the tree */

static int is_statement(const dlsh_node *n) {
    return n->kind == DLSH_N_ASSIGN || n->kind == DLSH_N_EXPR || n->kind == DLSH_N_RETURN || n->kind == DLSH_N_COMMAND;
}

/* backward l, or l.backward(). */
static int goes_back(const dlsh_node *n) {
    if (n->kind == DLSH_N_COMMAND) return n->num.cmd && !strcmp(n->num.cmd->name, "backward");
    const dlsh_node *call = n->kind == DLSH_N_EXPR && n->nkids ? n->kids[0] : NULL;
    const dlsh_node *by = call && call->kind == DLSH_N_CALL ? call->kids[0] : NULL;
    return by && by->text && !strcmp(by->text, "backward");
}

/* The statement that begins on a line; the innermost. */
static const dlsh_node *statement_at(const dlsh_node *n, int line, int back) {
    const dlsh_node *found = NULL;
    for (int i = 0; n && i < n->nkids && !found; i++) found = n->kids[i] ? statement_at(n->kids[i], line, back) : NULL;
    return found ? found : n && is_statement(n) && n->span.line == line && (!back || goes_back(n)) ? n : NULL;
}

const dlsh_node *dlsh_statement_at(const char *file, int line) {
    const dlsh_unit *u = dlsh_text_of(file);
    const dlsh_node *back = u && u->root ? statement_at(u->root, line, 1) : NULL;
    return back ? back : u && u->root ? statement_at(u->root, line, 0) : NULL;
}

/* ---------------------------------------------------------------- values */

static dl_tensor *data_of(const tracer *t, const char *name, int place) {
    const dlsh_value *v = dlsh_value_at(t->e, t->unit->name, place, name);
    dl_tensor *x = v && v->type == DLSH_TENSOR ? v->as.tensor : NULL;
    return x && !dl_requires_grad(x) ? x : NULL;
}

static int is_net_or_function(const tracer *t, const dlsh_node *callee) {
    const dlsh_value *v = dlsh_value_of(t->e, t->unit->name, callee);
    return v && (dlsh_unwrap(*v, &dlsh_net_class) || v->type == DLSH_FN);
}

/* ---------------------------------------------------------------- picks */

static int add_text(char *to, size_t size, const char *text, int n) {
    size_t used = strlen(to);
    for (int i = 0; i < n && used + 1 < size; i++)
        if (!isspace((unsigned char)text[i])) to[used++] = text[i];
    to[used] = 0;
    return (int)used;
}

static int is_backwards(const dlsh_node *slice) {
    const dlsh_node *step = slice->kids[2];
    return step && step->kind == DLSH_N_UNARY && step->op == DLSH_OP_NEG;
}

/* arange(n), arange(n)[:, none], or a name of that: all rows, in their order. */
static int is_all_rows(const tracer *t, const dlsh_node *n) {
    if (n->kind == DLSH_N_NAME) {
        const dlsh_definition d = dlsh_define(t->unit->root, n->text, n->span.start);
        n = d.value && !d.each && !d.param ? d.value : n;
    }
    if (n->kind == DLSH_N_INDEX) n = n->kids[0];
    return n->kind == DLSH_N_CALL && n->nkids == 2 && dlsh_names(n->kids[0], "arange");
}

/* i:i + 1, the row that the index i takes. */
static int is_one_row(const tracer *t, const dlsh_node *n) {
    const dlsh_node *from = n->kind == DLSH_N_SLICE ? n->kids[0] : NULL, *to = from ? n->kids[1] : NULL;
    return to && !n->kids[2] && to->kind == DLSH_N_BINARY && to->op == DLSH_OP_ADD && to->kids[1]->kind == DLSH_N_INT &&
           to->kids[1]->num.i == 1 && dlsh_same_text(t->unit->name, from, to->kids[0]);
}

/* Notes rows that are picked: the text of the index, and of a variable in it where it was made. */
static void pick(const tracer *t, const dlsh_node *index, dlsh_traced *to) {
    char mark[32];
    dlsh_definition d = {.at = -1};
    int slice = index->kind == DLSH_N_SLICE;
    if (slice && !index->kids[0] && !index->kids[1] && !is_backwards(index)) return; /* all rows */
    if (index->kind == DLSH_N_ELLIPSIS || index->kind == DLSH_N_NONE || is_all_rows(t, index)) return;
    const dlsh_node *fn = dlsh_function_called(t->unit->name, t->call);
    const int line = fn && !dlsh_only_call(t->unit->root, fn) ? t->call->span.line : index->span.line;
    if (!to->moved && !to->random) to->pick_line = line; /* of what moves rows, where something does */
    if (to->nlines < (int)DLSH_COUNT(to->lines)) to->lines[to->nlines++] = line;
    to->moved |= slice && is_backwards(index);
    if (!*to->picks) to->pick_place = index->span.start;
    if (is_one_row(t, index)) index = index->kids[0];
    const char *text = t->unit->text + index->span.start;
    int n = index->span.end - index->span.start;
    add_text(to->picks, sizeof to->picks, text, n);
    if (index->kind == DLSH_N_NAME) d = dlsh_define(t->unit->root, index->text, index->span.start);
    const dlsh_node *made = d.value ? d.value : index;
    const char *how = t->unit->text + made->span.start;
    int random = 0;
    for (const char *p = how; p + 4 < t->unit->text + made->span.end; p++) {
        random |= !strncmp(p, "rand", 4);
        to->moved |= !strncmp(p, "sort", 4);
    }
    to->random |= random;
    const int again = random && t->call ? t->call->span.start << 8 : 0; /* each call draws anew */
    snprintf(mark, sizeof mark, "#%d;", random ? made->span.start + again : d.value && !d.each ? d.at : 0);
    add_text(to->picks, sizeof to->picks, mark, (int)strlen(mark));
}

/* ---------------------------------------------------------------- following */

static void follow(tracer *t, const dlsh_node *n, dlsh_traced so_far, int before, int depth);

static int is_method(const dlsh_node *n, const char *name) { return n->kind == DLSH_N_FIELD && !strcmp(n->text, name); }

/* What a call is given at a place behind the tensor, or by name; NULL: nothing. */
static const dlsh_node *given(const dlsh_node *call, int place, const char *name) {
    return dlsh_argument_of(call, place + (call->kids[0]->kind != DLSH_N_FIELD), name);
}

/* Dimension 0, alone or in a list? */
static int has_rows(const dlsh_node *dim) {
    if (dim->kind == DLSH_N_INT) return dim->num.i == 0;
    for (int i = 0; dim->kind == DLSH_N_LIST && i < dim->nkids; i++)
        if (has_rows(dim->kids[i])) return 1;
    return 0;
}

/* Calls that take rows, or put them in another order: where the dimension and the rows stand behind the tensor. */
static const struct {
    const char *name, *dim_name, *rows_name;
    int dim, rows, moves;
} pickers[] = {{"index_select", "dim", "index", 0, 1, 0},
               {"gather", "dim", "index", 0, 1, 0},
               {"flip", "dims", "dims", 0, 0, 1},
               {"roll", "dims", "shifts", 1, 0, 1},
               {"sort", "dim", "dim", 0, 0, 1}};

/* index_select(x, 0, p), x.index_select(0, p), flip and roll: rows in another order. */
static int pick_by_call(const tracer *t, const dlsh_node *n, dlsh_traced *to) {
    const dlsh_node *callee = n->kids[0];
    if (dlsh_function_called(t->unit->name, n)) return 0; /* a function of the script that has such a name */
    for (size_t i = 0; i < DLSH_COUNT(pickers); i++) {
        if (!dlsh_names(callee, pickers[i].name) && !is_method(callee, pickers[i].name)) continue;
        const dlsh_node *dim = given(n, pickers[i].dim, pickers[i].dim_name);
        const dlsh_node *rows = given(n, pickers[i].rows, pickers[i].rows_name);
        if (dim ? !has_rows(dim) : !pickers[i].moves) return 0;
        pick(t, rows ? rows : callee, to);
        to->moved |= pickers[i].moves;
        return 1;
    }
    return 0;
}

/* Is it an item of a list or a field of a record, which picks no rows? */
static int is_item(const tracer *t, const dlsh_node *n) {
    const dlsh_node *of = n->kind == DLSH_N_FIELD || (n->kind == DLSH_N_INDEX && n->nkids == 2) ? n->kids[0] : NULL;
    const dlsh_value *v = of ? dlsh_value_of(t->e, t->unit->name, of) : NULL;
    const dlsh_node *made = of && !v ? dlsh_made(t->unit->name, of) : NULL;
    if (v) return v->type == DLSH_LIST || v->type == DLSH_RECORD;
    return made && (made->kind == DLSH_N_LIST || dlsh_is_record(made));
}

/* The parts of cat([x[p], more], 1), whose rows are those of the first one; NULL: it is none. */
static const dlsh_node *first_of_columns(const tracer *t, const dlsh_node *n) {
    const int joins = dlsh_is_call_of(n, "cat|concat|concatenate"), columns = dlsh_is_call_of(n, "hstack|column_stack");
    const dlsh_node *list = (joins || columns) && n->nkids > 1 ? n->kids[1] : NULL;
    const dlsh_node *dim = joins ? dlsh_argument_of(n, 1, "dim") : NULL;
    const double d = dim ? dlsh_number_of(t->e, t->unit->name, dim) : columns ? 1 : 0;
    return list && list->kind == DLSH_N_LIST && list->nkids && (d == 1 || d == -1) ? list : NULL;
}

/* Is it one table of data as it is, but for the order or number of its rows, and its form? Then what it is made of. */
static const dlsh_node *kept(const tracer *t, const dlsh_node *n, dlsh_traced *to) {
    static const char casts[] = "to|clone|contiguous|reshape|view|float|long|detach|squeeze|unsqueeze|flatten|double";
    if (n->kind == DLSH_N_NAME) return n;
    if (n->kind == DLSH_N_INDEX) {
        if (n->nkids > 1 && n->kids[1]->kind != DLSH_N_INT) pick(t, n->kids[1], to);
        return n->kids[0];
    }
    if (n->kind == DLSH_N_FIELD && !strcmp(n->text, "values")) return n->kids[0];
    if (n->kind != DLSH_N_CALL) return NULL;
    const dlsh_node *callee = n->kids[0], *columns = first_of_columns(t, n);
    if (columns) return columns;
    int method = callee->kind == DLSH_N_FIELD, named = method || callee->kind == DLSH_N_NAME;
    const dlsh_node *of = method ? callee->kids[0] : n->nkids > 1 ? n->kids[1] : NULL;
    if (!named || !of) return NULL;
    int picks = pick_by_call(t, n, to);
    return picks || dlsh_is_word(casts, callee->text) ? of : NULL;
}

/* A number, or figures that are taken of all rows: y.mean(), std + 1e-6, or a name of that. */
static int is_figure(const tracer *t, const dlsh_node *n, int depth) {
    static const char figures[] = "mean|std|var|median|min|max|amin|amax|sum|norm|item";
    if (depth > 4) return 0;
    if (dlsh_is_call_of(n, figures)) return 1;
    if (n->kind == DLSH_N_BINARY) return is_figure(t, n->kids[0], depth + 1) && is_figure(t, n->kids[1], depth + 1);
    if (n->kind == DLSH_N_NAME) {
        const dlsh_definition d = dlsh_define(t->unit->root, n->text, n->span.start);
        if (d.value && !d.each && d.value->kind != DLSH_N_FN && is_figure(t, d.value, depth + 1)) return 1;
    }
    return !isnan(dlsh_number_of(t->e, t->unit->name, n));
}

/* Of x[p] - 3 the expression whose rows it has; NULL: it is none with a number. */
static const dlsh_node *rows_behind_number(const tracer *t, const dlsh_node *n) {
    const int plain = n->kind == DLSH_N_BINARY &&
                      (n->op == DLSH_OP_ADD || n->op == DLSH_OP_SUB || n->op == DLSH_OP_MUL || n->op == DLSH_OP_DIV);
    for (int i = 0; plain && i < 2; i++)
        if (is_figure(t, n->kids[1 - i], 0)) return n->kids[i];
    return NULL;
}

/* The first part of an expression that holds data, as x of x.permute(0, 2, 1) or log1p(x); NULL: none does. */
static const dlsh_node *data_in(const tracer *t, const dlsh_node *n, int before) {
    for (int i = 0; i < n->nkids; i++) {
        const dlsh_node *k = n->kids[i];
        if (k && ((k->kind == DLSH_N_NAME && data_of(t, k->text, before)) || data_in(t, k, before))) return k;
    }
    return NULL;
}

/* The rows that an expression takes by the item of a loop, or by order[k] for its number k; NULL: it takes none. */
static const dlsh_node *rows_by_item(const dlsh_node *n, const char *item, const char *number, const dlsh_node *seq) {
    const dlsh_node *found = NULL;
    for (int i = 1; n->kind == DLSH_N_INDEX && i < n->nkids; i++) {
        const dlsh_node *at = n->kids[i];
        if (at->kind == DLSH_N_CALL && at->kids[0]->kind == DLSH_N_FIELD) at = at->kids[0]->kids[0]; /* .item() */
        if (item && dlsh_names(at, item)) return seq;
        if (number && at->kind == DLSH_N_INDEX && at->nkids == 2 && dlsh_names(at->kids[1], number) &&
            at->kids[0]->kind == DLSH_N_NAME)
            return at->kids[0];
    }
    for (int i = 0; i < n->nkids && !found; i++)
        if (n->kids[i]) found = rows_by_item(n->kids[i], item, number, seq);
    return found;
}

/* order of order.tolist(), and of enumerate(order); *numbered: it is that. */
static const dlsh_node *sequence_of(const dlsh_node *n, int *numbered) {
    *numbered = n->kind == DLSH_N_CALL && dlsh_names(n->kids[0], "enumerate") && n->nkids > 1;
    if (*numbered) n = n->kids[1];
    return n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD ? n->kids[0]->kids[0] : n;
}

/* The order in which a loop puts rows into what a name holds, x[k] = rows[order[k]]; NULL: there is none. */
static const dlsh_node *order_of_filling(const dlsh_node *n, const char *name, const dlsh_node *loop) {
    const dlsh_node *found = NULL, *to = n->kind == DLSH_N_ASSIGN && n->nkids == 2 ? n->kids[0] : NULL;
    if (n->kind == DLSH_N_FOR) loop = n;
    if (loop && to && to->kind == DLSH_N_INDEX && to->nkids > 1 && dlsh_names(to->kids[0], name) &&
        to->kids[1]->kind == DLSH_N_NAME && loop->kids[0]->kind == DLSH_N_NAME) {
        int numbered;
        const dlsh_node *seq = sequence_of(loop->kids[loop->nkids - 2], &numbered);
        const char *item =
            numbered && loop->nkids == 4 && loop->kids[1]->kind == DLSH_N_NAME ? loop->kids[1]->text : NULL;
        if (dlsh_names(loop->kids[0], to->kids[1]->text)) return rows_by_item(n->kids[1], item, to->kids[1]->text, seq);
    }
    for (int i = 0; i < n->nkids && !found; i++)
        if (n->kids[i] && n->kids[i]->kind != DLSH_N_FN) found = order_of_filling(n->kids[i], name, loop);
    return found;
}

/* The order in which [rows[k] for k in order] takes them, also within a call as stack(); NULL: there is none. */
static const dlsh_node *order_of_items(const dlsh_node *n) {
    if (n->kind == DLSH_N_CALL && n->nkids == 2 && n->kids[0]->kind == DLSH_N_NAME) n = n->kids[1];
    if (n->kind != DLSH_N_COMPREHENSION) return NULL;
    int numbered;
    const dlsh_node *fn = n->kids[0], *seq = sequence_of(n->kids[1], &numbered), *back = dlsh_last_return(fn);
    const char *item = fn->kids[0]->text;
    return back && back->nkids && item && !numbered ? rows_by_item(back->kids[0], item, item, seq) : NULL;
}

/* Rows that are put into a table, or a list of them, one after another in an order of their own. */
static void note_order(const tracer *t, const dlsh_node *name, const dlsh_node *made, dlsh_traced *to) {
    const dlsh_node *order = order_of_items(made);
    if (!order && dlsh_is_call_of(made, "zeros|ones|empty|full|zeros_like|empty_like"))
        order = order_of_filling(t->unit->root, name->text, NULL);
    if (order && order->kind == DLSH_N_NAME) pick(t, order, to);
}

/* A variable that holds the data on the way; the first one is the nearest. */
static void note_data(dlsh_traced *x, dl_tensor *data, const char *name, int line) {
    if (!x->tensor) {
        x->tensor = data, x->name_line = line;
        snprintf(x->name, sizeof x->name, "%s", name);
    }
    const int k = x->nway < (int)DLSH_COUNT(x->way) ? x->nway++ : x->nway - 1;
    x->way[k] = data, x->way_name[k] = name, x->way_line[k] = line;
    x->whole = data, x->base_line = line, x->of_base = strlen(x->picks);
    snprintf(x->base, sizeof x->base, "%s", name);
}

/* Is the name at a place a parameter of a function that is called at several places? Which call counts is not known. */
static int is_of_several_calls(const tracer *t, const char *name, int place) {
    const dlsh_node *around[DLSH_AROUND];
    const int depth = dlsh_functions_around(t->unit->root, place, around);
    for (int i = depth - 1; i >= 0; i--)
        if (dlsh_is_own_name(around[i], name))
            return dlsh_last_call(t->unit->root, around[i]) && !dlsh_only_call(t->unit->root, around[i]);
    return 0;
}

/* One table on the way back: through names and picks of rows up to where its numbers were made. */
typedef struct chain {
    tracer *t;
    dlsh_traced x, given; /* by other names: parameters, and variables of functions that return them */
    dlsh_traced own;      /* picks before numbers were added to or multiplied with all */
    int beyond;
    const void *tip;       /* the last step */
    const dlsh_node *next; /* what has the rows of it; NULL: all that it is made of */
} chain;

/* Does a place stand in the function of a call that is not its last one? Its variables have another call's values. */
static int is_of_other_call(const tracer *t, const dlsh_node *call, int place) {
    const dlsh_node *fn = call ? dlsh_function_of(t->unit->name, call->kids[0]->text) : NULL;
    return fn && place > fn->span.start && place < fn->span.end && dlsh_last_call(t->unit->root, fn) != call;
}

static void note_name(chain *c, const dlsh_step *at) {
    tracer *t = c->t;
    const dlsh_node *n = at->n;
    const dlsh_definition d = dlsh_define(t->unit->root, n->text, n->span.start);
    const dlsh_node *back = dlsh_returned(t->unit->name, &d);
    const int alias = d.param || (back && back->kind == DLSH_N_NAME); /* another one made it */
    dl_tensor *data = is_of_other_call(t, at->call, n->span.start) ? NULL : data_of(t, n->text, n->span.start);
    c->x.several |= d.param && !at->call && is_of_several_calls(t, n->text, n->span.start);
    if (data && !alias && d.value && dlsh_uses_net(t->e, at->file, d.value)) data = NULL; /* what it holds came later */
    if (data) c->x.scope = d.param && !c->x.tensor ? d.at + 1 : 0;
    if (data) note_data(alias ? &c->given : &c->x, data, n->text, d.value ? d.value->span.line : 0);
    if (d.value && !d.each && !d.param) note_order(t, n, d.value, &c->x);
}

static dlsh_property on_chain(void *ctx, const dlsh_step *at) {
    chain *c = ctx;
    const dlsh_node *n = at->n;
    if (at->from != c->tip) return DLSH_HAS_FIRST; /* it ended */
    if (at->added || (c->next && n != c->next)) return DLSH_HAS_NOT;
    c->tip = at, c->next = NULL, c->t->call = at->call;
    if (n->kind == DLSH_N_NAME && !c->beyond) return note_name(c, at), DLSH_MAY_HAVE;
    if (n->kind == DLSH_N_NAME) {
        const dlsh_definition d = dlsh_define(c->t->unit->root, n->text, n->span.start);
        return d.each || (d.param && !at->call) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
    }
    if (n->kind == DLSH_N_TUPLE || dlsh_is_record(n) || n->kind == DLSH_N_LIST) return DLSH_MAY_HAVE;
    if (dlsh_function_called(at->file, n)) return DLSH_MAY_HAVE;
    if (is_item(c->t, n)) return c->next = n->kids[0], DLSH_MAY_HAVE;
    if (c->beyond) c->next = rows_behind_number(c->t, n);
    if (!c->next) c->next = kept(c->t, n, c->beyond ? &c->own : &c->x);
    if (!c->next) c->beyond = 1, c->next = rows_behind_number(c->t, n);
    if (!c->next) c->next = data_in(c->t, n, n->span.start);
    if (c->next && n->kind == DLSH_N_CALL && c->next == n->kids[0]) c->next = c->next->nkids ? c->next->kids[0] : NULL;
    return c->next ? DLSH_MAY_HAVE : DLSH_HAS_FIRST;
}

static void follow_name(tracer *t, const dlsh_node *n, dlsh_traced so_far) {
    chain c = {.t = t, .x = so_far, .given = so_far};
    dlsh_origin(t->unit->name, n, on_chain, &c);
    t->call = NULL;
    snprintf(c.x.beyond, sizeof c.x.beyond, "%s", c.own.picks), c.x.beyond_line = c.own.lines[0];
    if (!c.x.tensor && c.given.tensor) note_data(&c.x, c.given.whole, c.given.name, c.given.name_line);
    if (c.x.tensor && t->n < DLSH_TRACED) t->out[t->n++] = c.x;
}

static int is_loss(const dlsh_node *callee) {
    const char *name = callee->text;
    return callee->kind == DLSH_N_NAME && (strstr(name, "loss") || strstr(name, "entropy") || !strcmp(name, "kl_div"));
}

static void follow_call(tracer *t, const dlsh_node *n, dlsh_traced so_far, int before, int depth) {
    static const char forms[] = "len|size|numel|dim|zeros_like|ones_like|full_like|rand_like|randn_like|empty_like";
    const dlsh_node *callee = n->kids[0];
    int net = is_net_or_function(t, callee), loss = is_loss(callee);
    if (dlsh_is_word(forms, callee->text)) return; /* none of its numbers */
    pick_by_call(t, n, &so_far);
    if (callee->kind == DLSH_N_FIELD) follow(t, callee->kids[0], so_far, before, depth);
    const int data = dlsh_names(callee, "dataset");
    for (int i = 1; i < n->nkids; i++) {
        dlsh_traced next = so_far;
        if (!next.role && data && n->kids[i]->kind != DLSH_N_KWARG)
            next.role = i % 2 ? DLSH_ROLE_INPUT : DLSH_ROLE_TARGET; /* dataset(x, y, test_x, test_y) */
        if (!next.role && loss && i > 1) next.role = DLSH_ROLE_TARGET;
        if (!next.role && net &&
            (n->nkids == 2 || dlsh_unwrap(*dlsh_value_of(t->e, t->unit->name, callee), &dlsh_net_class)))
            next.role = DLSH_ROLE_INPUT;
        follow(t, n->kids[i], next, before, depth);
    }
}

/* m(x)[keep]: rows of a result, not of what the net is given. */
static int is_result(const tracer *t, const dlsh_node *n) {
    return n->kind == DLSH_N_CALL && dlsh_object_of(t->e, t->unit->name, n->kids[0], &dlsh_net_class);
}

static void follow(tracer *t, const dlsh_node *n, dlsh_traced so_far, int before, int depth) {
    if (!n || depth > DEEPEST || t->n == DLSH_TRACED) return;
    dlsh_traced left = so_far, right = so_far;
    if (is_item(t, n)) return follow_name(t, n, so_far);
    switch (n->kind) {
    case DLSH_N_NAME: follow_name(t, n, so_far); return;
    case DLSH_N_CALL: follow_call(t, n, so_far, before, depth); return;
    case DLSH_N_INDEX:
        if (n->nkids > 1 && n->kids[1]->kind != DLSH_N_INT && !is_result(t, n->kids[0])) pick(t, n->kids[1], &so_far);
        follow(t, n->kids[0], so_far, before, depth);
        return;
    case DLSH_N_FIELD:
        if (dlsh_is_word("shape|ndim|dtype|device", n->text)) return;
        follow(t, n->kids[0], so_far, before, depth);
        return;
    case DLSH_N_FN: return;
    case DLSH_N_BINARY:
        if (n->op == DLSH_OP_MATMUL) left.role = DLSH_ROLE_INPUT;
        if (n->op == DLSH_OP_SUB && !right.role && !dlsh_uses_net(t->e, t->unit->name, n->kids[1]))
            right.role = DLSH_ROLE_TARGET;
        follow(t, n->kids[0], left, before, depth);
        follow(t, n->kids[1], right, before, depth);
        return;
    default:
        for (int i = 0; i < n->nkids; i++) follow(t, n->kids[i], so_far, before, depth);
    }
}

/* What the role leaves open the tensor decides: whole numbers, and a number a row, are targets. */
static void settle(dlsh_traced *x) {
    const dl_tensor *v = x->tensor;
    if (x->role || !v) return;
    int column = dl_ndim(v) == 2 && dl_shape(v)[1] == 1;
    x->guessed = 1;
    x->role = dl_ndim(v) < 2 || column ? DLSH_ROLE_TARGET : DLSH_ROLE_INPUT;
}

static void follow_value(tracer *t, const dlsh_node *value) {
    int first = t->n;
    follow(t, value, (dlsh_traced){0}, value->span.start, 0);
    for (int i = first; i < t->n; i++) settle(&t->out[i]);
}

int dlsh_trace_value(const dlsh_examination *e, const char *file, const dlsh_node *value,
                     dlsh_traced out[DLSH_TRACED]) {
    tracer t = {e, dlsh_text_of(file), out, 0, NULL};
    if (t.unit && value) follow_value(&t, value);
    return t.n;
}

/* All statements that begin on the line, as far as no other one stands in them. */
static int follow_line(tracer *t, const dlsh_node *n, int line) {
    int within = 0;
    for (int i = 0; n && i < n->nkids; i++) within |= n->kids[i] && follow_line(t, n->kids[i], line);
    if (within || !is_statement(n) || n->span.line != line) return within;
    follow_value(t, n->kind == DLSH_N_ASSIGN ? n->kids[n->nkids - 1] : n);
    return 1;
}

int dlsh_trace(const dlsh_examination *e, const char *file, int line, dlsh_traced out[DLSH_TRACED]) {
    tracer t = {e, dlsh_text_of(file), out, 0, NULL};
    if (t.unit && t.unit->root) follow_line(&t, t.unit->root, line);
    return t.n;
}

const dlsh_node *dlsh_argument_of(const dlsh_node *call, int place, const char *name) {
    for (int i = 1; i < call->nkids; i++)
        if (call->kids[i]->kind == DLSH_N_KWARG && !strcmp(call->kids[i]->text, name)) return call->kids[i]->kids[0];
    return place < call->nkids - 1 && call->kids[place + 1]->kind != DLSH_N_KWARG ? call->kids[place + 1] : NULL;
}
