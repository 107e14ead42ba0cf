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

typedef struct append {
    const char *name, *file;
    int line;
} append;

static int see_append(void *ctx, const char *file, const dlsh_node *n) {
    append *a = ctx;
    if (!dlsh_is_method(n, "append") || !dlsh_names(n->kids[0]->kids[0], a->name)) return 0;
    a->file = file, a->line = n->span.line;
    for (int i = 1; i < n->nkids; i++) { /* before = s, which is put into the list */
        const dlsh_node *list = n->kids[i]->kind == DLSH_N_LIST ? n->kids[i] : n;
        for (int k = list == n ? i : 0; k < list->nkids; k++) {
            const dlsh_node *of = list->kids[k];
            const dlsh_node *made = dlsh_defined(file, of);
            if (made && made->kind == DLSH_N_NAME) a->line = made->span.line;
        }
    }
    return 1;
}

void dlsh_find_same_items(dlsh_examination *e) {
    DLSH_EACH_HOLDER (h, &e->holders) {
        const dlsh_list *l = h->value.type == DLSH_LIST ? h->value.as.list : NULL;
        const dl_tensor *t = l ? only_item(l) : NULL;
        if (!t) continue;
        append a = {h->name, NULL, 0};
        if (!dlsh_each_node(see_append, &a)) continue;
        dl_source maker, writer;
        dlsh_tensor_places(t, &maker, &writer);
        dlsh_found(e, a.file, a.line, "append a copy, .clone(), or make a new tensor each time",
                   "the items of %s are, or have, one and the same tensor: each of them has what was written last\n"
                   "%ld writes into it, the last at line %d; a list holds the tensor itself, not what it held",
                   h->name, dl_tensor_version(t), writer.line);
    }
}
