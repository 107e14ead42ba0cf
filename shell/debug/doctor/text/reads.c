/* Where names are read and written in a tree. */
#include "debug/doctor/text/reads.h"

#include <ctype.h>
#include <string.h>

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
    if (!n) return 0;
    if (n->kind == DLSH_N_COMMAND && n->num.cmd && !strcmp(n->num.cmd->name, "backward")) return 1;
    if (dlsh_is_method(n, "backward") || dlsh_is_method(n, "step")) return 1;
    for (int i = 0; i < n->nkids; i++)
        if (dlsh_trains(n->kids[i])) return 1;
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
