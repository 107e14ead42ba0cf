/* Variables to slots: globals get numbers in the session, locals numbers in the frame of their function. A name
 * assigned inside a function is local to it; other names are looked up outwards. */
#include <stdlib.h>
#include <string.h>

#include "lang/command.h"
#include "lang/eval/interp.h"

typedef struct scope {
    struct scope *up;
    dlsh_fninfo *info;
    const dlsh_node *layers; /* of the net whose function it is */
    int cap, capcaptures;
    dl_names index; /* of the slots, once there are more than FEW */
} scope;

enum { FEW = 16 };

typedef struct resolver {
    dlsh_session *s;
    dlsh_unit *unit;
    scope *top;
    int failed;
} resolver;

static const char *slot_name(const void *info, int i) { return ((const dlsh_fninfo *)info)->names[i]; }

static int find(const scope *c, const char *name) {
    if (c->index.size) return dl_names_find(&c->index, name, (long)strlen(name), slot_name, c->info);
    for (int i = 0; i < c->info->nslots; i++)
        if (!strcmp(c->info->names[i], name)) return i;
    return -1;
}

static void *grown(resolver *r, const void *old, int n, size_t size) {
    void *p = dlsh_unit_alloc(r->unit, (size_t)(2 * n + 8) * size);
    if (!p)
        r->failed = 1;
    else if (n)
        memcpy(p, old, (size_t)n * size);
    return p;
}

static int add_slot(resolver *r, scope *c, const char *name) {
    dlsh_fninfo *f = c->info;
    if (f->nslots == c->cap) {
        const char **names = grown(r, f->names, f->nslots, sizeof *names);
        unsigned char *cells = grown(r, f->cells, f->nslots, 1);
        if (!names || !cells) return 0;
        f->names = names;
        f->cells = cells;
        c->cap = 2 * c->cap + 8;
    }
    f->names[f->nslots] = name;
    f->cells[f->nslots] = 0;
    if (f->nslots >= FEW && dl_names_add(&c->index, f->nslots, slot_name, f)) r->failed = 1;
    return f->nslots++;
}

static void declare(resolver *r, scope *c, const char *name) {
    if (find(c, name) < 0) add_slot(r, c, name);
}

/* Is it a parameter or buffer of the net whose function c is? */
static int is_net_tensor(const scope *c, const char *name) {
    for (int i = 0; c->layers && i < c->layers->nkids; i++)
        if (c->layers->kids[i]->kind == DLSH_N_TENSOR && !strcmp(c->layers->kids[i]->label, name)) return 1;
    return 0;
}

static void declare_target(resolver *r, scope *c, const dlsh_node *n, int compound) {
    if (n->kind == DLSH_N_NAME && !compound && is_net_tensor(c, n->text)) c->info->hides = n;
    if (n->kind == DLSH_N_NAME) declare(r, c, n->text);
    for (int i = 0; dlsh_holds_targets(n) && i < n->nkids; i++) declare_target(r, c, n->kids[i], compound);
}

static int is_supposed(const dlsh_node *command, const dlsh_node *arg) {
    return arg && arg->kind == DLSH_N_ARG && command->num.cmd->params[arg->num.i].flags & DLSH_SUPPOSED;
}

/* Declares what the statements of a function assign, without looking into inner functions. */
static void declare_all(resolver *r, scope *c, const dlsh_node *n) {
    if (!n) return;
    switch (n->kind) {
    case DLSH_N_FN:
        if (n->text) declare(r, c, n->text);
        return;
    case DLSH_N_NET:
        if (n->text) declare(r, c, n->text);
        return;
    case DLSH_N_LAYERS: return; /* its functions are scopes of their own */
    case DLSH_N_COMMAND:
        for (int i = 0; i < n->nkids; i++)
            if (!is_supposed(n, n->kids[i])) declare_all(r, c, n->kids[i]);
        return;
    case DLSH_N_ASSIGN:
    case DLSH_N_FOR: {
        int targets = n->nkids - (n->kind == DLSH_N_FOR ? 2 : 1);
        int compound = n->kind == DLSH_N_ASSIGN && n->op; /* += changes what there is */
        for (int i = 0; i < targets; i++) declare_target(r, c, n->kids[i], compound);
        break;
    }
    case DLSH_N_TRY:
        if (n->kids[1]) declare(r, c, n->kids[1]->text);
        break;
    default: break;
    }
    for (int i = 0; i < n->nkids; i++) declare_all(r, c, n->kids[i]);
}

/* The slot of a name seen from scope c; captures it from outer functions. -1: a global. */
static int lookup(resolver *r, scope *c, const char *name) {
    if (!c) return -1;
    int slot = find(c, name);
    if (slot >= 0) return slot;
    int outer = lookup(r, c->up, name);
    if (outer < 0) return -1;
    c->up->info->cells[outer] = 1;
    c->up->info->has_cells = 1;
    dlsh_fninfo *f = c->info;
    slot = add_slot(r, c, name);
    if (f->ncaptures == c->capcaptures) {
        dlsh_capture *more = grown(r, f->captures, f->ncaptures, sizeof *more);
        if (!more) return slot;
        f->captures = more;
        c->capcaptures = 2 * c->capcaptures + 8;
    }
    f->captures[f->ncaptures++] = (dlsh_capture){slot, outer};
    return slot;
}

static void resolve_name(resolver *r, dlsh_node *n, const char *name) {
    int slot = lookup(r, r->top, name);
    if (slot >= 0)
        n->flags |= DLSH_LOCAL;
    else if ((slot = dlsh_global_slot(r->s, name)) < 0)
        r->failed = 1;
    n->slot = slot;
}

static void resolve(resolver *r, dlsh_node *n);

static void kids(resolver *r, dlsh_node *n, int from) {
    for (int i = from; i < n->nkids && !r->failed; i++) resolve(r, n->kids[i]);
}

/* The names of a net's parts and methods, which its functions see first; the forward does not see itself. Then, where
 * it is used, `self`, the net. */
static void add_parts(resolver *r, scope *c, const dlsh_node *layers, const dlsh_node *fn) {
    for (int i = 0; layers && i < layers->nkids; i++) {
        const dlsh_node *k = layers->kids[i];
        if (!dlsh_is_part(k) || find(c, k->label) >= 0 || (k == fn && k == dlsh_forward_of(layers))) continue;
        add_slot(r, c, k->label);
        c->info->nparts++;
        c->info->nmethods += k->kind == DLSH_N_FN;
    }
    if (!layers || find(c, "self") >= 0 || !dlsh_mentions(fn->kids[fn->nkids - 1], "self")) return;
    add_slot(r, c, "self");
    c->info->nparts++, c->info->nmethods++;
}

/* FN, or NET with parameters: a scope of its own. Defaults belong to the scope around it. `layers`: it is a function of
 * theirs. */
static void resolve_function(resolver *r, dlsh_node *n, const dlsh_node *layers) {
    scope c = {.up = r->top, .info = dlsh_unit_alloc(r->unit, sizeof *c.info), .layers = layers};
    if (n->text && !layers) resolve_name(r, n, n->text);
    if (!c.info || r->failed) {
        r->failed = 1;
        return;
    }
    n->info = c.info;
    for (int i = 0; i < n->nkids - 1; i++) {
        kids(r, n->kids[i], 0);
        int slot = add_slot(r, &c, n->kids[i]->text), op = n->kids[i]->op;
        if (op == DLSH_OP_MUL) c.info->rest = slot + 1;
        if (op == DLSH_OP_POW) c.info->named_rest = slot + 1;
        c.info->nfixed += !op;
    }
    c.info->nparams = n->nkids - 1;
    add_parts(r, &c, layers, n);
    declare_all(r, &c, n->kids[n->nkids - 1]);
    r->top = &c;
    resolve(r, n->kids[n->nkids - 1]);
    r->top = c.up;
    c.info->plain =
        n->kind == DLSH_N_FN && !c.info->has_cells && !c.info->ncaptures && c.info->nfixed == c.info->nparams;
    dl_names_free(&c.index);
}

static void mark_positional(dlsh_node *call) {
    for (int i = 1; i < call->nkids; i++)
        if (call->kids[i]->kind == DLSH_N_KWARG || call->kids[i]->kind == DLSH_N_SPREAD) return;
    call->flags |= DLSH_POSITIONAL;
}

static void resolve(resolver *r, dlsh_node *n) {
    if (!n || r->failed) return;
    switch (n->kind) {
    case DLSH_N_FN: resolve_function(r, n, NULL); return;
    case DLSH_N_NET:
        if (n->op)
            resolve_function(r, n, NULL);
        else {
            if (n->text) resolve_name(r, n, n->text);
            kids(r, n, 0);
        }
        return;
    case DLSH_N_LAYERS:
        for (int i = 0; i < n->nkids && !r->failed; i++)
            if (n->kids[i]->kind == DLSH_N_FN)
                resolve_function(r, n->kids[i], n);
            else
                resolve(r, n->kids[i]);
        return;
    case DLSH_N_CALL: mark_positional(n); break;
    case DLSH_N_NAME:
    case DLSH_N_LAYER: /* a layer may be a net or function of this name */ resolve_name(r, n, n->text); break;
    default: break;
    }
    kids(r, n, 0);
}

dl_status dlsh_resolve(dlsh_session *s, dlsh_unit *unit) {
    resolver r = {.s = s, .unit = unit};
    resolve(&r, unit->root);
    return r.failed ? dl_failed() : DL_OK;
}
