/* The objects that the journal has addresses of, as far as variables still hold them. */
#include <stdio.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"

/* The object of a class at an address, in a variable. */
static void *live(const dlsh_examination *e, const dlsh_class *cls, const void *at, const char **name) {
    DLSH_EACH_HOLDER (h, &e->holders) {
        void *self = dlsh_unwrap(h->value, cls);
        if (self != at || !self) continue;
        if (name) *name = h->name;
        return self;
    }
    return NULL;
}

dl_optimizer *dlsh_optimizer_at(const dlsh_examination *e, int i, dl_trainer **of) {
    int n = 0;
    DLSH_EACH_HOLDER (h, &e->holders) {
        dl_trainer *t = dlsh_unwrap(h->value, &dlsh_trainer_class);
        dl_optimizer *o = t ? dl_trainer_optimizer(t) : dlsh_unwrap(h->value, &dlsh_optimizer_class);
        if (!o || n++ != i) continue;
        if (of) *of = t;
        return o;
    }
    return NULL;
}

int dlsh_has_rivals(const dlsh_examination *e) {
    const dl_journal_row *a, *b;
    for (long i = 0; (a = dlsh_row_next(e, DL_DID_STEP, &i));)
        for (long k = i; (b = dlsh_row_next(e, DL_DID_STEP, &k));)
            if (a->what != b->what && a->at < b->till && b->at < a->till) return 1;
    return 0;
}

dl_optimizer *dlsh_live_optimizer(const dlsh_examination *e, const void *at, const char **name) {
    dl_optimizer *o;
    if (name) *name = "";
    live(e, &dlsh_optimizer_class, at, name);
    for (int i = 0; at && (o = dlsh_optimizer_at(e, i, NULL)); i++)
        if (o == at) return o;
    return NULL;
}

dl_module *dlsh_live_net(const dlsh_examination *e, const void *at, const char **name) {
    dl_module *m = live(e, &dlsh_net_class, at, name);
    DLSH_EACH_HOLDER_WHILE (!m, h, &e->holders) {
        dl_trainer *t = dlsh_unwrap(h->value, &dlsh_trainer_class);
        if (!t || dl_trainer_model(t) != at) continue;
        m = dl_trainer_model(t);
        if (name) *name = dl_module_name(m);
    }
    return m;
}

int dlsh_net_has(dl_module *m, const void *param) {
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_tensors(m, 1);
    for (long i = 0; l && i < l->n; i++)
        if (l->entries[i].tensor == param) return 1;
    return 0;
}

int dlsh_optimizer_has(const dl_optimizer *o, const void *param) {
    const dl_tensor *p;
    for (long i = 0; (p = dl_optimizer_param(o, i, NULL)); i++)
        if (p == param) return 1;
    return 0;
}

static dl_tensor *leaf_of_net(dl_module *m, const char *var, const void *at, char *name, size_t size) {
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = m ? dl_module_tensors(m, 1) : NULL;
    dl_tensor *t = NULL;
    for (long i = 0; l && !t && i < l->n; i++)
        if (l->entries[i].tensor == at) {
            t = l->entries[i].tensor;
            snprintf(name, size, "%s.%s", var, l->entries[i].path);
        }
    return t;
}

/* Of a tensor, a net or trainer, or what a list or record holds. */
static dl_tensor *leaf_of_value(const dlsh_value *v, const char *var, const void *at, char *name, size_t size,
                                int depth) {
    enum { DEEPEST = 3 };
    char item[120];
    dl_tensor *found = NULL;
    if (v->type == DLSH_TENSOR && v->as.tensor == at && dl_is_leaf(v->as.tensor)) /* not what took its memory since */
        return snprintf(name, size, "%s", var), v->as.tensor;
    for (int i = 0; v->type == DLSH_LIST && depth < DEEPEST && !found && i < v->as.list->n; i++) {
        snprintf(item, sizeof item, "%.80s[%d]", var, i);
        found = leaf_of_value(&v->as.list->items[i], item, at, name, size, depth + 1);
    }
    for (int i = 0; v->type == DLSH_RECORD && depth < DEEPEST && !found && i < v->as.record->n; i++) {
        snprintf(item, sizeof item, "%.60s.%.40s", var, v->as.record->keys[i]);
        found = leaf_of_value(&v->as.record->values[i], item, at, name, size, depth + 1);
    }
    if (found) return found;
    dl_trainer *t = dlsh_unwrap(*v, &dlsh_trainer_class);
    dl_module *m = t ? dl_trainer_model(t) : dlsh_unwrap(*v, &dlsh_net_class);
    return leaf_of_net(m, t ? dl_module_name(m) : var, at, name, size);
}

/* name = param(...), in the text, or `param name [...]` of a net. */
typedef struct made {
    const char *name, *part; /* NULL: of any name, of one number; the last part of it */
    int constant;            /* of a net's parameter: with one number, init=0.1 */
    dl_source at;
    int count;
    const dlsh_examination *e;
} made;

static const dlsh_node *call_in(const dlsh_node *n, const char *names) {
    DLSH_EACH_BELOW (t, n)
        if (dlsh_is_call_of(t.n, names) && t.n->kids[0]->kind == DLSH_N_NAME) return t.n;
    return NULL;
}

/* param w [n, in] init=0.1 */
static int begins_constant(const dlsh_node *n) {
    for (int i = 0; i < n->nkids; i++) {
        const dlsh_node *o = n->kids[i];
        if (o && o->kind == DLSH_N_OPTION && !strcmp(o->text, "init") && o->nkids)
            return o->kids[0]->kind == DLSH_N_FLOAT || o->kids[0]->kind == DLSH_N_INT;
    }
    return 0;
}

static int see_made(void *ctx, const char *file, const dlsh_node *n) {
    made *m = ctx;
    const dlsh_node *by = NULL;
    if (m->part && n->kind == DLSH_N_TENSOR && n->label && !strcmp(n->label, m->part)) by = n;
    if (by && m->constant && !begins_constant(by)) by = NULL;
    if (m->name && n->kind == DLSH_N_ASSIGN && !n->op)
        for (int i = 0; i + 1 < n->nkids && !by; i++)
            if (dlsh_names(n->kids[i], m->name)) by = call_in(n->kids[n->nkids - 1], "param|Parameter");
    if (!m->name && n->kind == DLSH_N_CALL && call_in(n, "param|Parameter") == n) by = call_in(n, "full|ones");
    if (!by) return 0;
    if (!m->count++) m->at = (dl_source){file, by->span.line};
    return 0;
}

dl_source dlsh_constant_parameter(dl_source otherwise) {
    made m = {.name = NULL};
    dlsh_each_node(see_made, &m);
    return m.count == 1 ? m.at : otherwise;
}

dl_source dlsh_constant_in_net(const char *path, dl_source otherwise) {
    const char *last = strrchr(path, '.');
    made m = {.part = last ? last + 1 : path, .constant = 1};
    dlsh_each_node(see_made, &m);
    return m.count == 1 ? m.at : otherwise;
}

/* Does a statement before the training give what has that name its numbers in place? W.copy_(...), m.W[:] = ... */
static void see_set(made *m, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth) {
    static const char setting[] =
        "copy_|fill_|normal_|uniform_|mul_|div_|constant_|trunc_normal_|xavier_uniform_|kaiming_";
    const dlsh_node *by = n->kind == DLSH_N_CALL ? n->kids[0] : NULL, *to = NULL;
    if (by && by->kind == DLSH_N_FIELD && dlsh_is_word(setting, by->text)) to = by->kids[0];
    if (n->kind == DLSH_N_ASSIGN && (n->op || n->kids[0]->kind == DLSH_N_INDEX)) to = n->kids[0];
    while (to && (to->kind == DLSH_N_INDEX || (to->kind == DLSH_N_FIELD && !strcmp(to->text, "data"))))
        to = to->kids[0];
    const char *name = to && (to->kind == DLSH_N_FIELD || to->kind == DLSH_N_NAME) ? to->text : NULL;
    if (!name || strcmp(name, m->part ? m->part : m->name) != 0 || !dlsh_is_within(within, depth, "no_grad")) return;
    DLSH_EACH_ROW (r, m->e, DL_DID_BACKWARD)
        if (!strcmp(r->file, file) && !dlsh_is_before_loop(file, n->span.line, r->line)) return;
    m->at = (dl_source){file, n->span.line}, m->count++;
}

/* How many layers of a net have a parameter, which a later one may be tied to; *first: the first of them. */
static int count_owners(dl_module *m, const void *leaf, const dl_module **first) {
    int n = 0;
    for (int i = 0; i < dl_module_count(m); i++) n += count_owners(dl_module_at(m, i), leaf, first);
    dl_module_list *own = dl_module_count(m) ? NULL : dl_module_tensors(m, 1);
    for (long i = 0; own && i < own->n; i++) {
        if (own->entries[i].tensor != leaf) continue;
        if (!*first) *first = m;
        n++;
    }
    return dl_module_list_free(own), n;
}

/* The layer of a net that has a parameter, which the script uses by itself, m.emb.weight; no file: none has. */
static dl_source source_of_layer(const dlsh_examination *e, const dl_tensor *w) {
    const dl_module *owner = NULL;
    DLSH_EACH_HOLDER_WHILE (!owner, h, &e->holders) {
        dl_module *net = dlsh_unwrap(h->value, &dlsh_net_class);
        if (net) count_owners(net, w, &owner);
    }
    return owner ? dlsh_module_source(owner) : (dl_source){0};
}

dl_source dlsh_leaf_source(const dlsh_examination *e, const dl_journal_value *v, dl_source otherwise) {
    char name[120];
    dl_tensor *w = dlsh_live_leaf(e, v->leaf, name, sizeof name);
    dl_source maker = otherwise, writer;
    if (w) dlsh_tensor_places(w, &maker, &writer);
    made m = {.name = w ? name : *v->name ? v->name : NULL};
    DLSH_EACH_HOLDER_WHILE (w, h, &e->holders) /* also in a list, by the name of its own */
        if (h->value.type == DLSH_TENSOR && h->value.as.tensor == w) m.name = h->name;
    if (m.name && strrchr(m.name, '.')) m.part = strrchr(m.name, '.') + 1;
    made set = {.name = m.name, .part = m.part, .e = e};
    if (m.name) dlsh_each_node(see_made, &m); /* memory is made anew by updates */
    if (m.name)
        DLSH_EACH_NODE (t) see_set(&set, t.file, t.n, t.within, t.depth);
    const dl_source layer = w && !set.count && !m.count ? source_of_layer(e, w) : (dl_source){0};
    return set.count ? set.at : m.count == 1 ? m.at : layer.file ? layer : maker;
}

dl_source dlsh_source_of_use(const dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    const dl_source at = {dlsh_node_file(n), dlsh_node_line(n)};
    const char *end = strrchr(n->layer, '.');
    char path[160];
    int again = 0;
    for (long k = 0; end && k < p.n; k++)
        again |= p.at[k].layer_line == n->layer_line && *p.at[k].layer && !strcmp(p.at[k].op, n->op) &&
                 strcmp(p.at[k].layer, n->layer) != 0;
    snprintf(path, sizeof path, "%.*s", end ? (int)(end - n->layer) : 0, n->layer);
    DLSH_EACH_HOLDER_WHILE (again, h, &e->holders) {
        dl_module *net = dlsh_unwrap(h->value, &dlsh_net_class), *part = net ? dl_module_find(net, path) : NULL;
        const dl_source use = part ? dlsh_module_source(part) : at;
        dl_error_clear();
        if (use.file && use.line != at.line) return use;
    }
    return at;
}

/* Where the weight of a layer that is tied to another one is made; else where the layer is. */
static dl_source source_of_tied(const dlsh_examination *e, const void *leaf, dl_source layer) {
    DLSH_EACH_HOLDER (h, &e->holders) {
        dl_module *net = dlsh_unwrap(h->value, &dlsh_net_class);
        const dl_module *owner = NULL;
        if (net && count_owners(net, leaf, &owner) > 1) return dlsh_module_source(owner);
    }
    return layer;
}

/* Where a function of the text draws the weight of a statement, w = weight(784, 64), as it does several others, by no
 * scale that it is given; the line itself: it does not. */
static int line_of_drawing(const char *file, int line) {
    const dlsh_node *root = dlsh_text_root(file), *n = root ? dlsh_statement_at(file, line) : NULL;
    const dlsh_node *value = n && n->kind == DLSH_N_ASSIGN ? n->kids[n->nkids - 1] : NULL, *fn = NULL, *drawn = NULL;
    int calls = 0;
    DLSH_EACH_BELOW_IF (t, value, t.n->kind != DLSH_N_BINARY)
        if (!fn && t.n->kind == DLSH_N_CALL && t.n->kids[0]->kind == DLSH_N_NAME)
            fn = dlsh_function_of(file, t.n->kids[0]->text);
    const dlsh_node *back = fn ? dlsh_last_return(fn) : NULL;
    DLSH_EACH_BELOW_IF (t, back, t.n->kind != DLSH_N_BINARY)
        if (dlsh_is_call_of(t.n, "randn|rand|normal")) drawn = t.n;
    DLSH_EACH_BELOW (t, drawn ? root : NULL) calls += t.n->kind == DLSH_N_CALL && dlsh_names(t.n->kids[0], fn->text);
    return calls > 1 ? drawn->span.line : line;
}

dl_source dlsh_weight_source(const dlsh_examination *e, const dl_journal_node *n) {
    const dl_journal_value *own = dlsh_node_weight(n, NULL);
    const dl_journal_value *v = own ? own : n->in[0].leaf ? &n->in[0] : n->in[1].leaf ? &n->in[1] : NULL;
    const dl_source at = {dlsh_node_file(n), dlsh_node_line(n)};
    if (!v || *n->layer_file) return own ? source_of_tied(e, own->leaf, at) : at;
    dl_source made = dlsh_leaf_source(e, v, at);
    if (made.file) made.line = line_of_drawing(made.file, made.line);
    return made;
}

int dlsh_is_as_made(const dl_tensor *t) {
    dl_source maker, writer;
    dlsh_tensor_places(t, &maker, &writer);
    return !writer.file || (maker.line == writer.line && maker.file && !strcmp(maker.file, writer.file));
}

dl_tensor *dlsh_live_leaf(const dlsh_examination *e, const void *at, char *name, size_t size) {
    const char *own;
    dl_optimizer *o;
    dl_tensor *t, *found = NULL;
    DLSH_EACH_HOLDER_WHILE (at && !found, h, &e->holders) found = leaf_of_value(&h->value, h->name, at, name, size, 0);
    for (int i = 0; at && !found && (o = dlsh_optimizer_at(e, i, NULL)); i++)
        for (long k = 0; !found && (t = dl_optimizer_param(o, k, &own)); k++)
            if (t == at) found = t, snprintf(name, size, "%s", own);
    return found;
}
