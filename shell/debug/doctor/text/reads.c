/* Where names are read and written in a tree. */
#include "debug/doctor/text/reads.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "debug/doctor/texts.h"
#include "debug/doctor/trace.h"

/* Is it the name, alone or in a tuple? */
int dlsh_is_listed(const dlsh_node *t, const char *name) {
    if (dlsh_names(t, name)) return 1;
    for (int i = 0; t && dlsh_holds_targets(t) && i < t->nkids; i++)
        if (dlsh_is_listed(t->kids[i], name)) return 1;
    return 0;
}

int dlsh_assigns(const dlsh_node *n, const char *name) {
    const int last = n->kind == DLSH_N_ASSIGN ? n->nkids - 1 : n->kind == DLSH_N_FOR ? n->nkids - 2 : 0;
    for (int i = 0; i < last; i++)
        if (dlsh_is_listed(n->kids[i], name)) return 1;
    return 0;
}

/* x[i] = v: what stands in the brackets is read, x is not. */
static int reads_of_target(const dlsh_node *t, const char *name, int place) {
    if (!t || dlsh_names(t, name)) return 0;
    int count = 0;
    for (int i = 0; i < t->nkids; i++) {
        const int base = t->kind == DLSH_N_INDEX && !i && dlsh_names(t->kids[i], name);
        if (base) continue;
        count += dlsh_holds_targets(t) ? reads_of_target(t->kids[i], name, place)
                                       : dlsh_reads_behind(t->kids[i], name, place);
    }
    return count;
}

int dlsh_reads_behind(const dlsh_node *n, const char *name, int place) {
    int count = 0;
    if (!n || n->span.end <= place) return 0;
    if (n->kind == DLSH_N_ASSIGN || n->kind == DLSH_N_FOR) {
        const int last = n->nkids - (n->kind == DLSH_N_FOR ? 2 : 1);
        for (int i = 0; i < last; i++) count += reads_of_target(n->kids[i], name, place);
        const int alone = n->kind == DLSH_N_ASSIGN && n->nkids == 2 && !dlsh_holds_targets(n->kids[0]);
        if (alone && dlsh_assigns(n, name)) return count; /* with others, y, state = f(x, state), they read it */
        for (int i = last; i < n->nkids; i++) count += dlsh_reads_behind(n->kids[i], name, place);
        return count;
    }
    if (!n->nkids) return n->span.start >= place ? dlsh_mentions(n, name) : 0;
    for (int i = 0; i < n->nkids; i++) count += dlsh_reads_behind(n->kids[i], name, place);
    return count;
}

int dlsh_reads(const dlsh_node *n, const char *name) { return dlsh_reads_behind(n, name, -1); }

const dlsh_node *dlsh_scope_of(const dlsh_node *const *within, int depth) {
    for (int i = depth - 1; i > 0; i--)
        if (within[i]->kind == DLSH_N_FN || within[i]->kind == DLSH_N_NET) return within[i];
    return depth ? within[0] : NULL;
}

int dlsh_trains(const dlsh_node *n) {
    DLSH_EACH_BELOW (t, n) {
        if (t.n->kind == DLSH_N_COMMAND && t.n->num.cmd && !strcmp(t.n->num.cmd->name, "backward")) return 1;
        if (dlsh_is_method(t.n, "backward") || dlsh_is_method(t.n, "step")) return 1;
    }
    return 0;
}

static int holds(const char *text, const char *word, size_t len) {
    for (; *text; text++) {
        size_t k = 0;
        while (k < len && tolower((unsigned char)text[k]) == word[k]) k++;
        if (k == len) return 1;
    }
    return 0;
}

int dlsh_speaks_of(const char *text, const char *words) {
    for (const char *w = words; text && *w;) {
        const size_t len = strcspn(w, "|");
        if (holds(text, w, len)) return 1;
        w += len, w += *w == '|';
    }
    return 0;
}

/* ---------------------------------------------------------------- results of layers that are lost */

/* A call of a part of a net in its forward, or in a method of it. */
typedef struct part_call {
    const char *name;
    const dlsh_node *net, *fn, *call, *statement;
    const char *file;
    int count;
} part_call;

static void see_part_call(part_call *c, const char *file, const dlsh_node *n, const dlsh_node *const *within,
                          int depth) {
    const dlsh_node *net = NULL, *fn = NULL, *statement = NULL;
    if (n->kind != DLSH_N_CALL || !dlsh_names(n->kids[0], c->name)) return;
    for (int i = 0; i < depth; i++) {
        if (within[i]->kind == DLSH_N_NET) net = within[i];
        if (net && within[i]->kind == DLSH_N_FN && within[i]->label) fn = within[i];
        if (within[i]->kind == DLSH_N_ASSIGN || within[i]->kind == DLSH_N_EXPR) statement = within[i];
    }
    if (!net || !statement) return;
    c->net = net, c->fn = fn ? fn : net, c->call = n, c->statement = statement, c->file = file, c->count++;
}

/* The declaration of a part of a net; NULL: it has none of that name. */
static const dlsh_node *part_named(const dlsh_node *n, const char *name) {
    DLSH_EACH_BELOW_IF (t, n, t.n->kind != DLSH_N_FN)
        if (t.n->kind == DLSH_N_LAYER && t.n->label && !strcmp(t.n->label, name)) return t.n;
    return NULL;
}

static int is_recurrent(const dlsh_node *net, const char *name) {
    const dlsh_node *part = name ? part_named(net, name) : NULL;
    return part && dlsh_is_word("gru|lstm|rnn", part->text);
}

/* A call of a recurrent part behind a place that is given no state. */
static const dlsh_node *call_without_state(const dlsh_node *net, const dlsh_node *n, int place) {
    DLSH_EACH_BELOW (t, n) {
        const int call = t.n->kind == DLSH_N_CALL && t.n->span.start > place && t.n->nkids == 2;
        if (call && t.n->kids[0]->kind == DLSH_N_NAME && is_recurrent(net, t.n->kids[0]->text)) return t.n;
    }
    return NULL;
}

/* A part of a net that its functions never name, and another one of its kind that stands in its place. */
typedef struct unnamed {
    const char *name;
    int kind; /* DLSH_N_LAYER, or DLSH_N_TENSOR */
    dl_source at;
    const char *instead;
} unnamed;

/* How often the functions of a net have a name; *last: the last place. */
static int named_in(const dlsh_node *n, const char *name, const dlsh_node **last) {
    int count = 0;
    for (int i = 0; i < n->nkids; i++) {
        if (n->kind == DLSH_N_LAYERS && n->kids[i]->kind != DLSH_N_FN) continue;
        count += n->kids[i] ? named_in(n->kids[i], name, last) : 0;
    }
    if (n->kind != DLSH_N_NAME || strcmp(n->text, name) != 0) return count;
    if (!*last || (*last)->span.start < n->span.start) *last = n;
    return count + 1;
}

static int see_unnamed(void *ctx, const char *file, const dlsh_node *n) {
    unnamed *u = ctx;
    const dlsh_node *layers = n->kind == DLSH_N_NET ? n->kids[n->nkids - 1] : NULL, *own = NULL, *last = NULL;
    for (int i = 0; layers && i < layers->nkids; i++)
        if (layers->kids[i]->kind == u->kind && layers->kids[i]->label && !strcmp(layers->kids[i]->label, u->name))
            own = layers->kids[i];
    if (!own || named_in(layers, u->name, &last)) return 0;
    for (int i = 0; i < layers->nkids; i++) {
        const dlsh_node *other = layers->kids[i];
        if (other == own || other->kind != own->kind || !other->label || strcmp(other->text, own->text) != 0) continue;
        last = NULL;
        if (named_in(layers, other->label, &last) < 2) continue;
        u->at = (dl_source){file, last->span.line}, u->instead = other->label;
        return 1;
    }
    return 0;
}

/* param wq and wk, of which only wq is read, twice; the same of layers. */
static int stands_twice(const char *part, dlsh_lost *lost) {
    char path[120];
    snprintf(path, sizeof path, "%s", part);
    for (int kind = 0; kind < 2; kind++) {
        char *dot = strrchr(path, '.');
        unnamed u = {dot ? dot + 1 : path, kind ? DLSH_N_LAYER : DLSH_N_TENSOR, {"", 0}, NULL};
        if (dlsh_each_node(see_unnamed, &u)) return lost->at = u.at, lost->instead = u.instead, 1;
        if (!dot) return 0;
        *dot = 0;
    }
    return 0;
}

dlsh_lost dlsh_lost_result(const char *path) {
    char part[120];
    dlsh_lost lost = {.at = {"", 0}};
    snprintf(part, sizeof part, "%.*s", (int)strcspn(path, ","), path);
    if (stands_twice(part, &lost)) return lost;
    char *last_dot = strrchr(part, '.'), *dot = last_dot;
    while (dot && dot > part && (dot == last_dot || *dot != '.')) dot--;
    if (!dot || *dot != '.') return lost;
    *last_dot = 0;
    part_call c = {.name = dot + 1};
    DLSH_EACH_NODE (t) see_part_call(&c, t.file, t.n, t.within, t.depth);
    const int last = c.statement ? c.statement->nkids - 1 : 0;
    if (c.count != 1 || c.statement->kind != DLSH_N_ASSIGN) return lost;
    for (int i = 0; i < last; i++) {
        const dlsh_node *t = c.statement->kids[i];
        for (int k = 0; t && k < (dlsh_holds_targets(t) ? t->nkids : 1); k++) {
            const dlsh_node *name = dlsh_holds_targets(t) ? t->kids[k] : t;
            if (name->kind != DLSH_N_NAME || dlsh_reads_behind(c.fn, name->text, c.statement->span.end)) return lost;
            if (strcmp(name->text, "_") != 0) lost.name = name->text;
        }
    }
    if (!lost.name) return lost;
    const dlsh_node *value = c.statement->kids[last]; /* enc(src(s)): what enc gives is lost */
    const char *by = value->kind == DLSH_N_CALL && value->kids[0]->kind == DLSH_N_NAME ? value->kids[0]->text : c.name;
    const dlsh_node *taker = is_recurrent(c.net, by) ? call_without_state(c.net, c.fn, c.statement->span.end) : NULL;
    lost.taker = taker ? taker->kids[0]->text : NULL;
    lost.made = c.statement->span.line;
    lost.at = (dl_source){c.file, taker ? taker->span.line : lost.made};
    return lost;
}

/* ---------------------------------------------------------------- blocks of a net, one after another */

/* for b in blocks { h = b(h) } in a tree: that assignment; NULL: there is none. */
static const dlsh_node *block_in(const dlsh_node *n, const dlsh_node *loop) {
    const dlsh_node *found = NULL, *call = n->kind == DLSH_N_ASSIGN && n->nkids == 2 && !n->op ? n->kids[1] : NULL;
    if (n->kind == DLSH_N_FOR) loop = n;
    if (loop && call && call->kind == DLSH_N_CALL && call->nkids == 2 && n->kids[0]->kind == DLSH_N_NAME &&
        call->kids[1]->kind != DLSH_N_TUPLE && dlsh_mentions(call->kids[1], n->kids[0]->text) &&
        loop->kids[0]->kind == DLSH_N_NAME && dlsh_names(call->kids[0], loop->kids[0]->text))
        return n;
    for (int i = 0; i < n->nkids && !found; i++) found = n->kids[i] ? block_in(n->kids[i], loop) : NULL;
    return found;
}

int dlsh_line_of_blocks(const char *file, int line, int *own) {
    const dlsh_unit *u = dlsh_text_of(file);
    const dlsh_node *net = u ? dlsh_net_around(u->root, dlsh_place_of_line(file, line)) : NULL;
    const dlsh_node *block = net ? block_in(net, NULL) : NULL;
    *own = block != NULL;
    if (net && !block) /* of the net that has these blocks */
        DLSH_EACH_BELOW (t, u->root)
            if (!block && t.n->kind == DLSH_N_NET && t.n != net) block = block_in(t.n, NULL);
    return block ? block->span.line : 0;
}
