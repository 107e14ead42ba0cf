/* Tensors that variables, nets and optimizers hold, looked at around a statement: what it wrote to, and was not seen to
 * be about to write to, as within a function. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/undo/undo.h"

enum { DEEPEST = 4 };

typedef struct seen {
    dl_tensor *t; /* owned */
    long version;
    const dl_tensor *grad; /* its gradient then; to be compared alone */
    long grad_version;
    char name[64];
} seen;

static struct {
    seen *all;
    int n, cap;
} watch;

static void see(dl_tensor *t, const char *of, const char *path) {
    seen *more = dlsh_grow(watch.all, watch.n, &watch.cap, sizeof *more);
    if (!more) return dl_error_clear();
    watch.all = more;
    more = &watch.all[watch.n++];
    const dl_tensor *g = dl_grad(t);
    *more = (seen){dl_ref(t), dl_tensor_version(t), g, g ? dl_tensor_version(g) : 0, ""};
    snprintf(more->name, sizeof more->name, "%.30s%s%.30s", of, *path ? "." : "", path);
}

static void see_net(dl_module *m, const char *name) {
    dl_module_list *l = dl_module_is_built(m) ? dl_module_tensors(m, 1) : NULL;
    for (long i = 0; l && i < l->n; i++) see(l->entries[i].tensor, name, l->entries[i].path);
    dl_module_list_free(l);
}

static void see_optimizer(dl_optimizer *o, const char *name) {
    const char *path;
    dl_tensor *t;
    for (long i = 0; (t = dl_optimizer_param(o, i, &path)); i++) see(t, name, path ? path : "");
}

static void see_value(const dlsh_value *v, const char *name, int depth) {
    dl_module *m = dlsh_unwrap(*v, &dlsh_net_class);
    dl_optimizer *o = dlsh_unwrap(*v, &dlsh_optimizer_class);
    const int list = v->type == DLSH_LIST;
    if (v->type == DLSH_TENSOR) see(v->as.tensor, name, "");
    if (m) see_net(m, name);
    if (o) see_optimizer(o, name);
    if ((!list && v->type != DLSH_RECORD) || depth == DEEPEST) return;
    const int n = list ? v->as.list->n : v->as.record->n;
    for (int i = 0; i < n; i++) see_value(list ? &v->as.list->items[i] : &v->as.record->values[i], name, depth + 1);
}

void dlsh_undo_watch_begin(dlsh_session *s) {
    for (int i = 0; i < dlsh_global_count(s); i++) {
        const dlsh_value *v;
        const char *name = dlsh_global_at(s, i, &v);
        if (v && strcmp(name, "_")) see_value(v, name, 0);
    }
}

static int is_kept(const dlsh_undo_entry *e, const dl_tensor *t) {
    for (int i = 0; i < e->n; i++) {
        const dlsh_undo_part *p = &e->parts[i];
        if (p->kind == DLSH_UNDO_TRAINER || (p->kind == DLSH_UNDO_CONTENTS && p->owner.as.tensor == t)) return 1;
    }
    return 0;
}

static int has_other_gradient(const seen *x) {
    const dl_tensor *g = dl_grad(x->t);
    return g != x->grad || (g && dl_tensor_version(g) != x->grad_version);
}

const char *dlsh_undo_watch_end(const dlsh_undo_entry *e, char *name, size_t size) {
    const char *found = NULL;
    for (int i = 0; i < watch.n; i++) {
        const seen *x = &watch.all[i];
        if (!found && dl_tensor_version(x->t) != x->version && !is_kept(e, x->t)) {
            snprintf(name, size, "%s", x->name);
            found = name;
        }
        if (!found && !e->n && has_other_gradient(x)) {
            snprintf(name, size, "%.50s.grad", x->name);
            found = name;
        }
        dl_unref(x->t);
    }
    free(watch.all);
    watch.all = NULL, watch.n = watch.cap = 0;
    return found;
}
