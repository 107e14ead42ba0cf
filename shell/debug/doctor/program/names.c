/* What names mean at a place of a text: the functions around it, their parameters and what calls give them, and what
 * functions return. */
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "debug/doctor/texts.h"
#include "debug/doctor/syntax.h"

enum { DEEPEST = 16, REMEMBERED = 4096, ANY_NET = -2, ANY_FN = -3 };

/* Answers of dlsh_define, and functions and nets by name (ANY_FN and ANY_NET in place of where it is asked), while the
 * texts stay as they are: those who follow values ask for the same ones thousands of times. */
static struct {
    int on;
    struct answer {
        const dlsh_node *root;
        char name[32]; /* longer ones are looked for each time */
        int before;
        dlsh_definition is;
    } at[REMEMBERED];
} remembered;

void dlsh_names_remember(int on) {
    memset(&remembered, 0, sizeof remembered);
    remembered.on = on;
}

static struct answer *place_for(const dlsh_node *root, const char *name, int before) {
    uint64_t h = (uint64_t)(uintptr_t)root ^ (uint64_t)(unsigned)before * 0x9E3779B97F4A7C15u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 0x100000001B3u;
    return &remembered.at[(h >> 20) % REMEMBERED];
}

/* NULL: not known. */
static const dlsh_definition *recall(const dlsh_node *root, const char *name, int before) {
    const struct answer *a = place_for(root, name, before);
    return a->root && a->root == root && a->before == before && !strcmp(a->name, name) ? &a->is : NULL;
}

static dlsh_definition remember(const dlsh_node *root, const char *name, int before, dlsh_definition is) {
    struct answer *a = place_for(root, name, before);
    if (!remembered.on || strlen(name) >= sizeof a->name) return is;
    *a = (struct answer){.root = root, .before = before, .is = is};
    memcpy(a->name, name, strlen(name));
    return is;
}

int dlsh_names(const dlsh_node *n, const char *name) { return n && n->kind == DLSH_N_NAME && !strcmp(n->text, name); }

const dlsh_node *dlsh_block_around(const dlsh_node *n, int place) {
    const dlsh_node *found = NULL;
    DLSH_EACH_BELOW_IF (t, n, place >= t.n->span.start && place <= t.n->span.end)
        if (dlsh_is_loop(t.n) || t.n->kind == DLSH_N_FN) found = t.n;
    return found;
}

int dlsh_nodes_around(const dlsh_node *n, int at, const dlsh_node **out, int max) {
    int depth = 0;
    while (n && depth < max) {
        const dlsh_node *below = NULL;
        out[depth++] = n;
        for (int i = 0; i < n->nkids && !below; i++)
            if (n->kids[i] && n->kids[i]->kind != DLSH_N_PARAM && at >= n->kids[i]->span.start &&
                at <= n->kids[i]->span.end)
                below = n->kids[i];
        n = below;
    }
    return depth;
}

const dlsh_node *dlsh_net_around(const dlsh_node *root, int place) {
    enum { NODES = 128 };
    const dlsh_node *within[NODES], *net = NULL;
    const int n = root ? dlsh_nodes_around(root, place, within, NODES) : 0;
    for (int i = 0; i < n; i++)
        if (within[i]->kind == DLSH_N_NET) net = within[i];
    return net;
}

static int has_part(const dlsh_node *net, const char *name) {
    for (int i = 0; net && i < net->nkids; i++) {
        const dlsh_node *k = net->kids[i];
        const int part = k && (k->kind == DLSH_N_LAYER || k->kind == DLSH_N_TENSOR) && k->label;
        if ((part && !strcmp(k->label, name)) || (k && k->kind == DLSH_N_LAYERS && has_part(k, name))) return 1;
    }
    return 0;
}

int dlsh_is_part_of_net(const dlsh_node *root, const dlsh_node *n) {
    return n->kind == DLSH_N_NAME && has_part(dlsh_net_around(root, n->span.start), n->text);
}

int dlsh_functions_around(const dlsh_node *root, int at, const dlsh_node *out[DLSH_AROUND]) {
    enum { NODES = 128 };
    const dlsh_node *within[NODES];
    const int n = dlsh_nodes_around(root, at, within, NODES);
    int depth = 0;
    for (int i = 0; i < n && depth < DLSH_AROUND; i++)
        if (within[i]->kind == DLSH_N_FN) out[depth++] = within[i];
    return depth;
}

/* ---------------------------------------------------------------- definitions */

static const dlsh_node *defined(const dlsh_node *root, dlsh_kind kind, const char *name) {
    const int any = kind == DLSH_N_FN ? ANY_FN : ANY_NET;
    const dlsh_definition *known = recall(root, name, any);
    if (known) return known->value;
    DLSH_EACH_BELOW (t, root)
        if (t.n->kind == kind && t.n->text && !strcmp(t.n->text, name))
            return remember(root, name, any, (dlsh_definition){.value = t.n}).value;
    return remember(root, name, any, (dlsh_definition){.value = NULL}).value;
}

const dlsh_node *dlsh_function_of(const char *file, const char *name) {
    return defined(dlsh_text_root(file), DLSH_N_FN, name);
}

const dlsh_node *dlsh_net_of(const char *file, const char *name) {
    return defined(dlsh_text_root(file), DLSH_N_NET, name);
}

/* Of the forward of a net, too. */
const dlsh_node *dlsh_last_return(const dlsh_node *n) {
    const dlsh_node *found = NULL;
    if (!n || n->kind == DLSH_N_RETURN) return n;
    if (n->kind == DLSH_N_LAYERS && dlsh_forward_of(n)) return dlsh_last_return(dlsh_forward_of(n));
    for (int i = n->nkids - 1; i >= 0 && !found; i--) found = dlsh_last_return(n->kids[i]);
    return found;
}

int dlsh_place_of(const dlsh_definition *d) { return d->param && d->value ? d->value->span.start : d->at; }

/* Position k of what is given to several targets, as zip() has it. */
static const dlsh_node *item_of(const dlsh_node *value, int k) {
    if (value->kind == DLSH_N_TUPLE && k < value->nkids) return value->kids[k];
    int zipped = value->kind == DLSH_N_CALL && dlsh_names(value->kids[0], "zip") && k + 1 < value->nkids;
    return zipped ? value->kids[k + 1] : value;
}

static void look_at_targets(const dlsh_node *n, const char *name, int before, dlsh_definition *best) {
    const int loop = n->kind == DLSH_N_FOR, last = n->nkids - (loop ? 2 : 1), at = n->span.start;
    const dlsh_node *value = n->kids[last];
    if (!value || at >= before || at < best->at) return;
    for (int k = 0; k < last; k++) {
        const dlsh_node *t = n->kids[k];
        int item = dlsh_names(t, name) ? last > 1 ? k : -1 : -2;
        for (int j = 0; t && t->kind == DLSH_N_TUPLE && j < t->nkids; j++)
            if (dlsh_names(t->kids[j], name)) item = j;
        const dlsh_node *own = item < 0 ? value : item_of(value, item);
        if (item > -2) *best = (dlsh_definition){own, at, loop, 0, own == value ? item : -1};
    }
}

/* The newest one before a place, functions within left out. */
static void find_own(const dlsh_node *n, const char *name, int before, dlsh_definition *best) {
    DLSH_EACH_BELOW_IF (t, n, t.n == n || t.n->kind != DLSH_N_FN)
        if (t.n->kind == DLSH_N_ASSIGN || t.n->kind == DLSH_N_FOR) look_at_targets(t.n, name, before, best);
}

/* Has a body a name, as of an assignment, a function or a net? */
static int has_own(const dlsh_node *n, const char *name) {
    const int defines = n->kind == DLSH_N_FN || n->kind == DLSH_N_NET;
    if (defines && n->text && !strcmp(n->text, name)) return 1;
    for (int i = 0; !defines && i < n->nkids; i++)
        if (n->kids[i] && has_own(n->kids[i], name)) return 1;
    return 0;
}

int dlsh_is_own_name(const dlsh_node *fn, const char *name) {
    const dlsh_node *body = fn->kids[fn->nkids - 1];
    dlsh_definition d = {.at = -1};
    for (int k = 0; k + 1 < fn->nkids; k++)
        if (fn->kids[k] && fn->kids[k]->kind == DLSH_N_PARAM && !strcmp(fn->kids[k]->text, name)) return 1;
    find_own(body, name, INT_MAX, &d);
    return d.at >= 0 || has_own(body, name);
}

/* The last one of all functions. */
static void find_any(const dlsh_node *n, const char *name, dlsh_definition *best) {
    DLSH_EACH_BELOW (t, n)
        if (t.n->kind == DLSH_N_FN) find_own(t.n->kids[t.n->nkids - 1], name, INT_MAX, best);
}

/* The last call of a function. */
static void find_calls(const dlsh_node *n, const char *function, const dlsh_node **last, int *count) {
    DLSH_EACH_BELOW (t, n)
        if (t.n->kind == DLSH_N_CALL && dlsh_names(t.n->kids[0], function)) *last = t.n, ++*count;
}

/* The last call of what a function was given as: step = make(w), of a function that make() gives back. */
static const dlsh_node *call_of_given(const dlsh_node *root, const dlsh_node *fn) {
    const dlsh_node *around[DLSH_AROUND], *last = NULL;
    const int depth = dlsh_functions_around(root, fn->span.start, around);
    const dlsh_node *maker = depth > 1 && around[depth - 1] == fn ? around[depth - 2] : NULL;
    const dlsh_node *back = maker && maker->text ? dlsh_last_return(maker) : NULL;
    const dlsh_node *value = back && back->nkids ? back->kids[0] : NULL;
    int count = 0;
    if (!value || (value != fn && !(fn->text && dlsh_names(value, fn->text)))) return NULL;
    DLSH_EACH_BELOW (t, root)
        if (t.n->kind == DLSH_N_ASSIGN && t.n->nkids == 2 && t.n->kids[0]->kind == DLSH_N_NAME &&
            t.n->kids[1]->kind == DLSH_N_CALL && dlsh_names(t.n->kids[1]->kids[0], maker->text))
            find_calls(root, t.n->kids[0]->text, &last, &count);
    return last;
}

const dlsh_node *dlsh_last_call(const dlsh_node *root, const dlsh_node *fn) {
    const dlsh_node *last = NULL;
    int count = 0;
    if (fn->text) find_calls(root, fn->text, &last, &count);
    return last ? last : call_of_given(root, fn);
}

const dlsh_node *dlsh_only_call(const dlsh_node *root, const dlsh_node *fn) {
    const dlsh_node *last = NULL;
    int count = 0;
    if (fn->text) find_calls(root, fn->text, &last, &count);
    return count == 1 ? last : NULL;
}

static int find_param(const dlsh_node *root, const dlsh_node *fn, const char *name, dlsh_definition *best) {
    for (int k = 0; k + 1 < fn->nkids; k++) {
        const dlsh_node *p = fn->kids[k];
        if (!p || p->kind != DLSH_N_PARAM || strcmp(p->text, name) != 0) continue;
        const dlsh_node *call = dlsh_last_call(root, fn), *given = call ? dlsh_argument_of(call, k, name) : NULL;
        *best = (dlsh_definition){given ? given : p->nkids ? p->kids[0] : NULL, fn->span.start, 0, 1, -1};
        return 1;
    }
    return 0;
}

static dlsh_definition look_up(const dlsh_node *root, const char *name, int before) {
    const dlsh_node *around[DLSH_AROUND];
    dlsh_definition best = {.at = -1};
    const int depth = dlsh_functions_around(root, before, around);
    for (int i = depth - 1; i >= 0 && best.at < 0; i--) {
        const dlsh_node *body = around[i]->kids[around[i]->nkids - 1];
        find_own(body, name, before, &best);
        if (best.at < 0 && find_param(root, around[i], name, &best)) break;
        if (best.at < 0 && i < depth - 1) find_own(body, name, INT_MAX, &best); /* before the inner one was called */
    }
    if (best.at < 0) find_own(root, name, before, &best);
    if (best.at < 0 && depth) find_own(root, name, INT_MAX, &best);
    if (best.at < 0 && before == INT_MAX) find_any(root, name, &best);
    return best;
}

dlsh_definition dlsh_define(const dlsh_node *root, const char *name, int before) {
    const dlsh_definition *known = recall(root, name, before);
    return known ? *known : remember(root, name, before, look_up(root, name, before));
}

/* What a function of the text returns for the definition, which is a call of it; NULL: it is none. */
const dlsh_node *dlsh_returned(const char *file, const dlsh_definition *d) {
    const dlsh_node *call = d->value && !d->each && d->value->kind == DLSH_N_CALL ? d->value : NULL;
    const dlsh_node *fn =
        call && call->kids[0]->kind == DLSH_N_NAME ? dlsh_function_of(file, call->kids[0]->text) : NULL;
    const dlsh_node *back = fn ? dlsh_last_return(fn) : NULL, *all = back && back->nkids ? back->kids[0] : NULL;
    if (!all) return NULL;
    const int several = all->kind == DLSH_N_TUPLE || all->kind == DLSH_N_LIST;
    if (d->item >= 0) return several && d->item < all->nkids ? all->kids[d->item] : NULL;
    return all->kind == DLSH_N_NAME ? all : NULL;
}

const dlsh_node *dlsh_definition_of(const char *file, const char *name, int before, int *at) {
    const dlsh_node *root = dlsh_text_root(file);
    dlsh_definition d = {.at = -1};
    for (int i = 0; root && i < DEEPEST; i++) {
        d = dlsh_define(root, name, before);
        const dlsh_node *back = dlsh_returned(file, &d), *next = back ? back : d.param ? d.value : NULL;
        if (back) d = (dlsh_definition){back, back->span.start, 0, 0, -1};
        if (!next || next->kind != DLSH_N_NAME) break;
        const dlsh_definition further = dlsh_define(root, next->text, next->span.start);
        if (!further.value) break;
        name = next->text, before = next->span.start;
    }
    if (at) *at = dlsh_place_of(&d);
    return d.value;
}

const dlsh_node *dlsh_defined(const char *file, const dlsh_node *n) {
    return n && n->kind == DLSH_N_NAME ? dlsh_definition_of(file, n->text, n->span.start, NULL) : NULL;
}
