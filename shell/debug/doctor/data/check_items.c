/* Lists whose items are one and the same tensor, as of a loop that writes into it and appends it each time. */

#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/trace.h"

enum { FEWEST = 4 };

/* The tensor that an item is, or that is number k of what it lists; NULL: there is none. */
static dl_tensor *tensor_in(const dlsh_value *v, int k) {
    if (v->type == DLSH_LIST) return k < v->as.list->n ? tensor_in(&v->as.list->items[k], v->as.list->n) : NULL;
    return v->type == DLSH_TENSOR ? v->as.tensor : NULL;
}

/* A tensor that most items of a list share with the one before; NULL: they differ, or there are few. */
static dl_tensor *only_item(const dlsh_list *l) {
    const int parts = l->n >= FEWEST && l->items[0].type == DLSH_LIST ? l->items[0].as.list->n : l->n >= FEWEST;
    for (int k = 0; k < parts; k++) {
        dl_tensor *t = NULL;
        int again = 0; /* items that have the tensor of the one before, which was written to between */
        for (int i = 1; i < l->n; i++) {
            dl_tensor *own = tensor_in(&l->items[i], k);
            if (!own || own != tensor_in(&l->items[i - 1], k)) continue;
            if (!dl_requires_grad(own) && dl_tensor_version(own) + 1 >= FEWEST) t = own, again++;
        }
        if (t && 3 * again > 2 * l->n && dl_tensor_version(t) + 1 >= FEWEST) return t;
    }
    return NULL;
}

/* Where what is put into a list of that name is made, or else the call; line 0: nothing is. */
static dl_source appended(const char *name) {
    DLSH_EACH_NODE (t) {
        if (!dlsh_is_method(t.n, "append") || !dlsh_names(t.n->kids[0]->kids[0], name)) continue;
        dl_source at = {t.file, t.n->span.line};
        for (int i = 1; i < t.n->nkids; i++) { /* before = s, which is put into the list */
            const dlsh_node *list = t.n->kids[i]->kind == DLSH_N_LIST ? t.n->kids[i] : t.n;
            for (int k = list == t.n ? i : 0; k < list->nkids; k++) {
                const dlsh_node *made = dlsh_defined(t.file, list->kids[k]);
                if (made && made->kind == DLSH_N_NAME) at.line = made->span.line;
            }
        }
        return at;
    }
    return (dl_source){NULL, 0};
}

void dlsh_find_same_items(dlsh_examination *e) {
    DLSH_EACH_HOLDER (h, &e->holders) {
        const dlsh_list *l = h->value.type == DLSH_LIST ? h->value.as.list : NULL;
        const dl_tensor *t = l ? only_item(l) : NULL;
        if (!t) continue;
        const dl_source a = appended(h->name);
        if (!a.line) continue;
        dlsh_found(e, a.file, a.line, "append a copy, .clone(), or make a new tensor each time",
                   "the items of %s are, or have, one and the same tensor: each of them has what was written last\n"
                   "%ld writes into it, the last at line %d; a list holds the tensor itself, not what it held",
                   h->name, dl_tensor_version(t), dlsh_writer_of(t).line);
    }
}
