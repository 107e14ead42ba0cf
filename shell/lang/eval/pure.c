/* Is a function of the language pure, and which values does it depend on? The tree of its body is read, and those of
 * the functions it can reach. What only a run can tell (reads of results, writes to tensors, random numbers) is left to
 * the capture. */
#include "lang/eval/pure.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/eval/interp.h"

enum { MOST_VALUES = 4096, DEEPEST = 64 };

/* Where a value that the function uses is found: a global, or held here (a captured variable, a default). */
typedef struct root {
    int slot; /* -1: value */
    dlsh_value value;
} root;

struct dlsh_purity {
    dlsh_session *session;
    dlsh_value fn;
    root *roots;
    int nroots, caproots;
    dlsh_value *held; /* all that was reached: no other object can have the same address meanwhile */
    int nheld, capheld;
    int values;                               /* reached so far */
    dlsh_buf state, seen;                     /* of the roots as they were read, and as they are */
    unsigned long key;                        /* 0: not read yet */
    int busy;                                 /* its state is being read: what it uses leads back to it */
    char why[160];                            /* it is not pure because; "" */
    dl_status failed;                         /* other than that: while it was read */
    int (*grads_of)(void *ctx, dlsh_value v); /* NULL: no .grad may be read */
    void *grads_ctx;
};

/* A function whose body is being read. */
typedef struct scope {
    dlsh_purity *p;
    const dlsh_node *node;
    const dlsh_fninfo *info;
    const dlsh_fn *fn; /* NULL: written in the body of `up` */
    dlsh_unit *unit;
    const struct scope *up;
} scope;

/* ---------------------------------------------------------------- results */

/* Ends the reading. Returns 0, as all functions here do that find the function to be impure. */
static int fail(dlsh_purity *p, dl_status st) {
    p->failed = st;
    return 0;
}

__attribute__((format(printf, 3, 4))) static int impure(const scope *c, const dlsh_node *n, const char *fmt, ...) {
    char what[100];
    DLSH_FORMATTED(fmt, vsnprintf(what, sizeof what, fmt, ap));
    const scope *named = c;
    while (!named->node->text && named->up) named = named->up;
    snprintf(c->p->why, sizeof c->p->why, "%s (%s:%d) %s", named->node->text ? named->node->text : "a function",
             c->unit->name, n->span.line, what);
    return 0;
}

/* ---------------------------------------------------------------- values */

static void note(dlsh_buf *b, const void *p, size_t n) { dlsh_buf_add(b, p, n); }
static void note_number(dlsh_buf *b, unsigned long v) { note(b, &v, sizeof v); }

/* Appends what tells a value from others; of lists and records the elements, too. Returns how many values that were,
 * more than MOST_VALUES when it gave up; negative: no key, a recorded failure. */
static int add_state(dlsh_buf *b, dlsh_value v, int depth) {
    unsigned long key = 0;
    int n = 1, more;
    note_number(b, (unsigned long)v.type);
    if (v.type == DLSH_VOID || v.type == DLSH_NONE) return n;
    note(b, &v.as, v.type == DLSH_BOOL ? sizeof v.as.b : sizeof v.as);
    if (depth > DEEPEST) return MOST_VALUES + 1;
    switch (v.type) {
    case DLSH_TENSOR: note_number(b, dl_tensor_key(v.as.tensor)); break;
    case DLSH_LIST:
    case DLSH_RECORD: {
        int count = v.type == DLSH_LIST ? v.as.list->n : v.as.record->n;
        note_number(b, (unsigned long)count);
        for (int i = 0; i < count && n <= MOST_VALUES; i++) {
            if (v.type == DLSH_RECORD) note(b, v.as.record->keys[i], strlen(v.as.record->keys[i]) + 1);
            more = add_state(b, v.type == DLSH_LIST ? v.as.list->items[i] : v.as.record->values[i], depth + 1);
            if (more < 0) return more;
            n += more;
        }
        break;
    }
    case DLSH_METHOD: more = add_state(b, v.as.method->self, depth + 1); return more < 0 ? more : n + more;
    case DLSH_CELL: more = add_state(b, v.as.cell->v, depth + 1); return more < 0 ? more : n + more;
    case DLSH_HANDLE:
        if (v.as.handle->cls->key && v.as.handle->cls->key(v.as.handle->self, &key)) return -1;
        note_number(b, key);
        break;
    default: break;
    }
    return n;
}

/* Parts that are reached on several ways count each time here: what is after the last that was noted is not watched.
 */
static void too_large(dlsh_purity *p) {
    const char *name = dlsh_function_name(p->fn);
    snprintf(p->why, sizeof p->why, "%s reads a list or record of more than %d values, or one that contains itself",
             name ? name : "a function", MOST_VALUES);
}

/* The state of all roots. */
static dl_status state_of(dlsh_purity *p, dlsh_buf *b) {
    b->n = 0;
    for (int i = 0; i < p->nroots; i++) {
        const dlsh_value *v =
            p->roots[i].slot < 0 ? &p->roots[i].value : dlsh_global_value(p->session, p->roots[i].slot);
        if (!v) dl_error_clear(); /* a global that is unset now */
        int n = add_state(b, v ? *v : dlsh_void(), 0);
        if (n < 0) return dl_failed();
        if (n > MOST_VALUES) too_large(p);
    }
    return b->failed ? dlsh_no_memory("what a function depends on") : DL_OK;
}

static int holds(const dlsh_purity *p, dlsh_value v) {
    for (int i = 0; i < p->nheld; i++)
        if (p->held[i].type == v.type && p->held[i].as.refs == v.as.refs) return 1;
    return 0;
}

static int hold(dlsh_purity *p, dlsh_value v) {
    dlsh_value *more = dlsh_grow(p->held, p->nheld, &p->capheld, sizeof *more);
    if (!more) return fail(p, DL_ERR_MEMORY);
    p->held = more;
    p->held[p->nheld++] = dlsh_ref(v);
    return 1;
}

static int add_root(dlsh_purity *p, int slot, dlsh_value v) {
    for (int i = 0; i < p->nroots; i++)
        if (slot >= 0 ? p->roots[i].slot == slot : p->roots[i].slot < 0 && p->roots[i].value.as.refs == v.as.refs)
            return 1;
    root *more = dlsh_grow(p->roots, p->nroots, &p->caproots, sizeof *more);
    if (!more) return fail(p, DL_ERR_MEMORY);
    p->roots = more;
    p->roots[p->nroots++] = (root){slot, v};
    return 1;
}

static int read_function(dlsh_purity *p, const dlsh_fn *f, const scope *from, const dlsh_node *at);

static int is_pure_row(const dlsh_command *row) { return row->flags & (DLSH_PURE | DLSH_CHANGES_FIRST); }

/* Ops that a session has defined call functions of C. */
static int reach_op(const scope *c, const dlsh_node *n, const char *name) {
    dl_op_info info;
    return dl_op_describe_name(name, &info) && info.defined
               ? impure(c, n, "uses the op %s, whose functions may do more than compute", name)
               : 1;
}

/* A value that the function can reach: whatever it holds may be called. */
static int reach(const scope *c, const dlsh_node *n, dlsh_value v, int depth) {
    dlsh_purity *p = c->p;
    if (v.type == DLSH_BUILTIN && !is_pure_row(v.as.builtin))
        return impure(c, n, "uses %s, which does more than compute", v.as.builtin->name);
    if (v.type == DLSH_BUILTIN && v.as.builtin->flags & DLSH_CHANGES_FIRST)
        return impure(c, n, "uses %s as a value: what it will change is not known", v.as.builtin->name);
    if (v.type == DLSH_OP) return reach_op(c, n, dlsh_op_value_name(v));
    if (++p->values > MOST_VALUES || depth > DEEPEST)
        return impure(c, n, "reads a list or record of more than %d values", MOST_VALUES);
    if (v.type < DLSH_STR || v.type == DLSH_BUILTIN || holds(p, v)) return 1;
    if (!hold(p, v)) return 0;
    switch (v.type) {
    case DLSH_LIST:
        for (int i = 0; i < v.as.list->n; i++)
            if (!reach(c, n, v.as.list->items[i], depth + 1)) return 0;
        return 1;
    case DLSH_RECORD:
        for (int i = 0; i < v.as.record->n; i++)
            if (!reach(c, n, v.as.record->values[i], depth + 1)) return 0;
        return 1;
    case DLSH_FN: return read_function(p, v.as.fn, c, n);
    case DLSH_METHOD: return reach(c, n, v.as.method->self, depth + 1) && reach(c, n, v.as.method->fn, depth + 1);
    case DLSH_CELL: return reach(c, n, v.as.cell->v, depth + 1);
    case DLSH_HANDLE:
        return v.as.handle->cls->key ? 1 : impure(c, n, "uses %s, which may do more than compute", dlsh_a(v));
    default: return 1;
    }
}

/* ---------------------------------------------------------------- names */

/* The scope that a local variable of c belongs to, and its slot there. NULL: it was captured by a function value, in
 * cell *cell. */
static const scope *owner(const scope *c, int *slot, dlsh_cell **cell) {
    for (int i = 0; i < c->info->ncaptures; i++) {
        if (c->info->captures[i].slot != *slot) continue;
        if (c->fn) return *cell = c->fn->captured[i], NULL;
        *slot = c->info->captures[i].outer;
        return owner(c->up, slot, cell);
    }
    return c;
}

static int read_name(const scope *c, const dlsh_node *n) {
    dlsh_cell *cell = NULL;
    int slot = n->slot;
    if (n->flags & DLSH_LOCAL) {
        if (owner(c, &slot, &cell)) return 1;
        dlsh_value v = {DLSH_CELL, {.cell = cell}};
        return add_root(c->p, -1, v) && reach(c, n, v, 0);
    }
    if (!add_root(c->p, slot, dlsh_void())) return 0;
    const dlsh_value *v = dlsh_global_value(c->p->session, slot);
    if (!v) return dl_error_clear(), 1; /* a call says so */
    return reach(c, n, *v, 0);
}

/* The value of a global NAME; NULL: none. */
static const dlsh_value *global_of(const scope *c, const dlsh_node *n) {
    if (n->kind != DLSH_N_NAME || n->flags & DLSH_LOCAL) return NULL;
    const dlsh_value *v = dlsh_global_value(c->p->session, n->slot);
    if (!v) dl_error_clear();
    return v;
}

/* ---------------------------------------------------------------- what may be changed */

static int makes(const dlsh_command *row) { return is_pure_row(row) && !(row->flags & DLSH_GIVES_PART); }

/* Is it a part of the net, in a function of it? */
static int is_part(const scope *c, const dlsh_node *n) {
    dlsh_cell *cell = NULL;
    int slot = n->slot;
    const scope *o = n->kind == DLSH_N_NAME && n->flags & DLSH_LOCAL ? owner(c, &slot, &cell) : NULL;
    return o && slot >= o->info->nparams && slot < o->info->nparams + o->info->nparts - o->info->nmethods;
}

/* Is it a tensor of the net, in a function of it? */
static int is_of_net(const scope *c, const dlsh_node *n) {
    if (n->kind != DLSH_N_FIELD && n->kind != DLSH_N_INDEX) return 0;
    while (n->kind == DLSH_N_FIELD || n->kind == DLSH_N_INDEX) n = n->kids[0];
    return is_part(c, n);
}

/* Does the expression make a list or record that nobody else has? Tensors may be written to: the capture sees it. */
static int is_fresh(const scope *c, const dlsh_node *n) {
    if (n->kind == DLSH_N_COND) return is_fresh(c, n->kids[1]) && is_fresh(c, n->kids[2]);
    if (n->kind == DLSH_N_LIST || n->kind == DLSH_N_RECORD || n->kind == DLSH_N_BINARY || n->kind == DLSH_N_UNARY)
        return 1;
    if (n->kind != DLSH_N_CALL) return 0;
    const dlsh_node *f = n->kids[0];
    if (f->kind == DLSH_N_FIELD) {
        const dlsh_command *row = dlsh_find_command(c->p->session, f->text, strlen(f->text));
        return row ? makes(row) : !dlsh_failed(dlsh_op_method(f->text));
    }
    if (is_part(c, f)) return 1; /* layers give tensors, and forwards what they have made */
    const dlsh_value *v = global_of(c, f);
    return v && (v->type == DLSH_OP || (v->type == DLSH_BUILTIN && makes(v->as.builtin)));
}

static int is_target(const dlsh_node *n, const char *name) {
    if (n->kind == DLSH_N_NAME) return !strcmp(n->text, name);
    for (int i = 0; dlsh_holds_targets(n) && i < n->nkids; i++)
        if (is_target(n->kids[i], name)) return 1;
    return 0;
}

/* Is every value that variable `name` gets in the tree fresh? */
static int only_fresh(const scope *c, const dlsh_node *n, const char *name) {
    if (!n) return 1;
    int values = n->kind == DLSH_N_ASSIGN ? 1 : n->kind == DLSH_N_FOR ? 2 : 0, targets = n->nkids - values;
    for (int i = 0; values && i < targets; i++) {
        if (!is_target(n->kids[i], name)) continue;
        int whole = values == 1 && targets == 1 && n->kids[i]->kind == DLSH_N_NAME;
        if (!whole || (!n->op && !is_fresh(c, n->kids[targets]))) return 0;
    }
    if (n->kind == DLSH_N_PARAM && !strcmp(n->text, name)) return 0;
    for (int i = 0; i < n->nkids; i++)
        if (!only_fresh(c, n->kids[i], name)) return 0;
    return 1;
}

/* May the function change what stands there? It may change what it has made itself. */
static int changes(const scope *c, const dlsh_node *n) {
    dlsh_cell *cell = NULL;
    int slot = n->slot;
    if (n->kind == DLSH_N_NAME && n->flags & DLSH_LOCAL) {
        const scope *o = owner(c, &slot, &cell);
        if (o && slot >= o->info->nparams && only_fresh(o, o->node->kids[o->node->nkids - 1], n->text)) return 1;
    }
    const dlsh_value *v = global_of(c, n);
    if ((v && v->type == DLSH_TENSOR) || is_of_net(c, n)) return 1;
    return n->kind == DLSH_N_NAME ? impure(c, n, "changes '%s', which may live longer than the call", n->text)
                                  : impure(c, n, "changes a value that may live longer than the call");
}

/* ---------------------------------------------------------------- calls */

/* A method by its name: of lists, records and tensors, an op, or of nets. The type of x is not known here. */
static int reads_method(const scope *c, const dlsh_node *n, int *changes_first) {
    const dlsh_session *s = c->p->session;
    const dlsh_command *row = dlsh_find_command(s, n->text, strlen(n->text)), *impure_row = NULL;
    *changes_first = row && row->flags & DLSH_CHANGES_FIRST;
    if (row && is_pure_row(row)) return 1;
    impure_row = row;
    const dlsh_command *const tables[] = {dlsh_tensor_casts, s->services.net_methods};
    for (size_t i = 0; i < DLSH_COUNT(tables); i++)
        for (row = tables[i]; row && row->name; row++) {
            if (strcmp(row->name, n->text)) continue;
            if (is_pure_row(row)) return 1;
            impure_row = row;
        }
    if (!dlsh_failed(dlsh_op_method(n->text))) return reach_op(c, n, n->text);
    if (!impure_row) return 1; /* a field that holds a function */
    return impure(c, n, "calls %s, which does more than compute", n->text);
}

static int read_kids(const scope *c, const dlsh_node *n, int from);
static int read_node(const scope *c, const dlsh_node *n);

/* Is it a field of a record, rather than a method? */
static int is_record_field(const scope *c, const dlsh_node *n) {
    const dlsh_value *v = global_of(c, n->kids[0]);
    return v && v->type == DLSH_RECORD && dlsh_record_get(v->as.record, n->text);
}

static int read_call(const scope *c, const dlsh_node *n) {
    const dlsh_node *f = n->kids[0];
    const dlsh_value *v = global_of(c, f);
    int changes_first = v && v->type == DLSH_BUILTIN && v->as.builtin->flags & DLSH_CHANGES_FIRST;
    if (changes_first)
        return (n->nkids < 2 || changes(c, n->kids[1])) && add_root(c->p, f->slot, dlsh_void()) && read_kids(c, n, 1);
    if (f->kind == DLSH_N_FIELD && !is_record_field(c, f)) {
        if (!reads_method(c, f, &changes_first)) return 0;
        if (changes_first && !changes(c, f->kids[0])) return 0;
        f = f->kids[0];
    }
    return read_node(c, f) && read_kids(c, n, 1);
}

/* May the gradient of what stands there be read? */
static int may_read_grad(const scope *c, const dlsh_node *of) {
    const dlsh_purity *p = c->p;
    while (of->kind == DLSH_N_FIELD || of->kind == DLSH_N_INDEX) of = of->kids[0];
    if (!p->grads_of || of->kind != DLSH_N_NAME) return 0;
    if (of->flags & DLSH_LOCAL) return p->fn.type == DLSH_FN && c->fn == p->fn.as.fn;
    const dlsh_value *v = global_of(c, of);
    return v && p->grads_of(p->grads_ctx, *v);
}

/* A method that is not called at once would be called later unseen. */
static int read_field(const scope *c, const dlsh_node *n) {
    const dlsh_command *row = dlsh_find_command(c->p->session, n->text, strlen(n->text));
    if (row && row->flags & DLSH_CHANGES_FIRST && !is_record_field(c, n))
        return impure(c, n, "takes '%s', perhaps a method, without calling it", n->text);
    if (!strcmp(n->text, "grad") && !is_record_field(c, n) && !may_read_grad(c, n->kids[0]))
        return impure(c, n, "reads .grad, which may be another tensor at every step");
    return read_node(c, n->kids[0]);
}

/* ---------------------------------------------------------------- statements */

static int read_target(const scope *c, const dlsh_node *to) {
    dlsh_cell *cell = NULL;
    int slot = to->slot;
    if (dlsh_holds_targets(to)) {
        for (int i = 0; i < to->nkids; i++)
            if (!read_target(c, to->kids[i])) return 0;
        return 1;
    }
    if (to->kind != DLSH_N_NAME) {
        int element = to->kind == DLSH_N_INDEX && is_part(c, to->kids[0]); /* of a net's own tensor */
        return (element || changes(c, to->kids[0])) && read_node(c, to);
    }
    if (!(to->flags & DLSH_LOCAL)) return impure(c, to, "sets the global variable '%s'", to->text);
    if (!owner(c, &slot, &cell)) return impure(c, to, "sets '%s', a variable of the function around it", to->text);
    return 1;
}

/* The targets of an assignment, or of a loop, and the rest. */
static int read_targets(const scope *c, const dlsh_node *n, int targets) {
    for (int i = 0; i < targets; i++)
        if (!read_target(c, n->kids[i])) return 0;
    return read_kids(c, n, targets);
}

static int read_inner(const scope *c, const dlsh_node *n) {
    const scope inner = {c->p, n, n->info, NULL, c->unit, c};
    for (int i = 0; i < n->nkids - 1; i++)
        if (!read_kids(c, n->kids[i], 0)) return 0;
    return read_node(&inner, n->kids[n->nkids - 1]);
}

static int read_node(const scope *c, const dlsh_node *n) {
    if (!n) return 1;
    switch (n->kind) {
    case DLSH_N_NAME: return read_name(c, n);
    case DLSH_N_CALL: return read_call(c, n);
    case DLSH_N_FIELD: return read_field(c, n);
    case DLSH_N_ASSIGN: return read_targets(c, n, n->nkids - 1);
    case DLSH_N_FOR: return read_targets(c, n, n->nkids - 2);
    case DLSH_N_FN: return read_inner(c, n);
    case DLSH_N_COMMAND:
        return n->num.cmd->flags & DLSH_PURE ? read_kids(c, n, 0)
                                             : impure(c, n, "runs the command %s", n->num.cmd->name);
    case DLSH_N_NET:
    case DLSH_N_LAYERS: return impure(c, n, "makes a net");
    case DLSH_N_EXTERN:
    case DLSH_N_CBLOCK: return impure(c, n, "holds C");
    default: return read_kids(c, n, 0);
    }
}

static int read_kids(const scope *c, const dlsh_node *n, int from) {
    for (int i = from; i < n->nkids; i++)
        if (!read_node(c, n->kids[i])) return 0;
    return 1;
}

static int read_function(dlsh_purity *p, const dlsh_fn *f, const scope *from, const dlsh_node *at) {
    if (f->node->kind == DLSH_N_NET) return from ? impure(from, at, "can make the net %s", f->node->text) : 1;
    const scope c = {p, f->node, f->info, f, f->unit, NULL};
    if (dlsh_check_stack(p->session)) return fail(p, dl_failed());
    for (int i = 0; i < f->info->nparams; i++)
        if (f->defaults[i].type >= DLSH_STR &&
            !(add_root(p, -1, f->defaults[i]) && reach(&c, f->node, f->defaults[i], 0)))
            return 0;
    return read_node(&c, f->body);
}

/* ---------------------------------------------------------------- the whole */

dlsh_purity *dlsh_purity_new(dlsh_session *s, dlsh_value fn) {
    dlsh_purity *p = calloc(1, sizeof *p);
    if (p)
        p->session = s, p->fn = fn;
    else
        dlsh_no_memory("what a function depends on");
    return p;
}

void dlsh_purity_allow_grads(dlsh_purity *p, int (*of)(void *ctx, dlsh_value v), void *ctx) {
    p->grads_of = of, p->grads_ctx = ctx;
}

static void forget(dlsh_purity *p) {
    for (int i = 0; i < p->nheld; i++) dlsh_drop(p->held[i]);
    p->nheld = p->nroots = p->values = 0;
    p->failed = DL_OK;
    *p->why = 0;
}

void dlsh_purity_free(dlsh_purity *p) {
    if (!p) return;
    forget(p);
    free(p->held);
    free(p->roots);
    dlsh_buf_free(&p->state);
    dlsh_buf_free(&p->seen);
    free(p);
}

void dlsh_purity_values(const dlsh_purity *p, const dlsh_visitor *to) {
    for (int i = 0; p && i < p->nheld; i++) to->value(p->held[i], to->ctx);
}

/* Reads the function again. */
static dl_status read_again(dlsh_purity *p) {
    static unsigned long keys;
    static const dlsh_node nowhere = {.kind = DLSH_N_NONE};
    dlsh_unit outside = {.name = "the call"};
    const scope top = {p, &nowhere, NULL, NULL, &outside, NULL};
    forget(p);
    p->key = 0;
    if (p->fn.type == DLSH_FN && p->fn.as.fn->node->kind != DLSH_N_NET)
        read_function(p, p->fn.as.fn, NULL, NULL);
    else
        reach(&top, &nowhere, p->fn, 0);
    if (p->failed) return p->failed;
    DLSH_TRY(state_of(p, &p->state));
    p->key = ++keys;
    return DL_OK;
}

static dl_status follow(dlsh_purity *p) {
    DLSH_TRY(state_of(p, &p->seen));
    int same = p->key && p->seen.n == p->state.n && (!p->seen.n || !memcmp(p->seen.s, p->state.s, p->seen.n));
    return same ? DL_OK : read_again(p);
}

dl_status dlsh_purity_key(dlsh_purity *p, unsigned long *out) {
    *out = 0;
    if (p->busy) return DL_OK; /* a forward that uses its own net: the call around this one answers */
    p->busy = 1;
    dl_status st = follow(p);
    p->busy = 0;
    if (st != DL_OK) return st;
    *out = p->key;
    return *p->why ? dlsh_fail(DL_ERR_UNSUPPORTED, NULL, "%s", p->why) : DL_OK;
}
