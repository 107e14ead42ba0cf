/* Lists whose items are one and the same tensor, as of a loop that writes into it and appends it each time. */
#include <string.h>

#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"

enum { FEWEST = 4 };

/* The tensor that all items of a list are; NULL: they differ, or there are few. */
static dl_tensor *only_item(const dlsh_list *l) {
    dl_tensor *t = l->n >= FEWEST && l->items[0].type == DLSH_TENSOR ? l->items[0].as.tensor : NULL;
    for (int i = 1; t && i < l->n; i++)
        if (l->items[i].type != DLSH_TENSOR || l->items[i].as.tensor != t) return NULL;
    return t;
}

typedef struct append {
    const char *name, *file;
    int line;
} append;

static int see_append(void *ctx, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth) {
    append *a = ctx;
    (void)within, (void)depth;
    if (!dlsh_is_method(n, "append") || !dlsh_names(n->kids[0]->kids[0], a->name)) return 0;
    a->file = file, a->line = n->span.line;
    return 1;
}

void dlsh_find_same_items(dlsh_examination *e) {
    const dlsh_holder *h;
    for (int i = 0; (h = dlsh_holder_next(&e->holders, &i));) {
        const dlsh_list *l = h->value.type == DLSH_LIST ? h->value.as.list : NULL;
        const dl_tensor *t = l ? only_item(l) : NULL;
        if (!t || dl_requires_grad(t) || dl_tensor_version(t) + 1 < l->n) continue; /* nothing changed it between */
        append a = {h->name, NULL, 0};
        if (!dlsh_each_node(see_append, &a)) continue;
        dl_source maker, writer;
        dlsh_tensor_places(t, &maker, &writer);
        dlsh_finding *f = dlsh_find_at(e, a.file, a.line, "append a copy, .clone(), or make a new tensor each time");
        if (!f) continue;
        dlsh_cause(f, "all %d items of %s are one and the same tensor: each of them has what was written last", l->n,
                   h->name);
        dlsh_evidence(f, "%ld writes into it, the last at line %d; a list holds the tensor itself, not what it held",
                      dl_tensor_version(t), writer.line);
    }
}
