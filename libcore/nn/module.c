/* Modules: life, names, the tree and what is in it. */
#include "autograd/journal.h"
#include "core/list.h"
#include "core/random/rng.h"
#include "core/scope.h"
#include "nn/reparam.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dl_status no_memory(void) { return dl_fail(DL_ERR_MEMORY, "no memory for a layer"); }

/* ---------------------------------------------------------------- life */

dl_module *dl_module_new(const dl_layer_row *row, dl_optval *opt) {
    static uint64_t made;
    dl_module *m = calloc(1, sizeof *m);
    if (!m) return free(opt), no_memory(), NULL;
    *m = (dl_module){.refs = 1, .place = -1, .row = row, .training = true, .device = -1, .opt = opt};
    m->dtype = dl_default_dtype_get();
    m->serial = __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
    m->built = !row->build;
    return m;
}

DL_REF_FUNCTION(dl_module)

static void release_origin(dl_origin *o) {
    if (o && !__atomic_sub_fetch(&o->refs, 1, __ATOMIC_ACQ_REL)) free(o);
}

static dl_status take_origin(void *ctx, dl_module *m, const char *path DL_UNUSED) {
    if (m->origin) return DL_OK;
    m->origin = ctx;
    __atomic_add_fetch(&m->origin->refs, 1, __ATOMIC_RELAXED);
    return DL_OK;
}

dl_status dl_module_set_origin(dl_module *root) {
    dl_origin *o = malloc(sizeof *o);
    if (!o) return no_memory();
    *o = (dl_origin){1, dl_seed_get(), dl_rng_next_net()};
    dl_status st = dl_module_visit(root, take_origin, o);
    release_origin(o);
    return st;
}

void dl_module_unref(dl_module *m) {
    if (!m || __atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL)) return;
    for (int i = 0; i < m->nchild; i++) {
        dl_module_unref(m->child[i].m);
        free(m->child[i].name);
    }
    for (int i = 0; i < DL_LAYER_TENSORS; i++) dl_unref(m->tensor[i]), dl_unref(m->tied[i]);
    dl_module_unref(m->tie_owner);
    free(m->tie);
    dl_code_unref(m->code);
    release_origin(m->origin);
    dl_reparam_free(m);
    free(m->child);
    dl_layer_names_free(&m->names);
    free(m->opt);
    dl_hooks_free(&m->hooks);
    dl_unref(m->kept);
    free(m->path);
    free(m->name);
    free(m);
}

dl_module *dl_module_function(const char *name, dl_code_spec spec) {
    if (!spec.layer) {
        if (spec.release) spec.release(spec.ctx);
        return dl_fail_null("the function of a layer"), NULL;
    }
    dl_code *c = dl_code_new(spec);
    dl_module *m = c ? dl_module_new(dl_layer_row_find("function"), NULL) : NULL;
    if (m && dl_module_set_name(m, name ? name : "function") == DL_OK) {
        m->code = c;
        return m;
    }
    dl_code_unref(c);
    dl_module_unref(m);
    return NULL;
}

/* ---------------------------------------------------------------- names */

dl_status dl_module_set_name(dl_module *m, const char *name) {
    if (!m || !name) return dl_fail_null(!m ? "the net" : "the name of a net");
    char *copy = strdup(name);
    if (!copy) return no_memory();
    free(m->name);
    m->name = copy;
    return DL_OK;
}

const char *dl_module_name(const dl_module *m) { return m->name ? m->name : m->row->kind.name; }
const char *dl_module_kind(const dl_module *m) { return m->row->kind.name; }

static dl_child *find_child(const dl_module *m, const char *name, size_t n) {
    const dl_name_entry *e = dl_layer_names_find(&m->names, name, n);
    return e && e->child >= 0 ? &m->child[e->child] : NULL;
}

/* base0, base1, ...: numbers count layers of the same base; one taken by a label is passed over. */
static char *numbered(const dl_module *parent, const char *base) {
    size_t size = strlen(base) + 24;
    char *name = malloc(size);
    const dl_name_entry *e = dl_layer_names_find(&parent->names, base, strlen(base));
    for (long i = e ? e->numbered : 0; name; i++) {
        snprintf(name, size, "%s%ld", base, i);
        if (!find_child(parent, name, strlen(name))) break;
    }
    return name;
}

dl_status dl_module_append(dl_module *parent, const char *label, const char *base, dl_module *child) {
    char *name = NULL;
    dl_status st = DL_OK;
    if (label && find_child(parent, label, strlen(label)))
        st = dl_fail_hint(DL_ERR_NAME, "give each layer a name of its own", "two layers are named '%s'", label);
    dl_child *more = st == DL_OK ? realloc(parent->child, (size_t)(parent->nchild + 1) * sizeof *more) : NULL;
    if (more) parent->child = more;
    if (more) name = label ? strdup(label) : numbered(parent, base);
    if (st == DL_OK) st = name ? dl_layer_names_add(&parent->names, name, parent->nchild) : no_memory();
    if (st != DL_OK) {
        free(name);
        dl_module_unref(child);
        return st;
    }
    parent->child[parent->nchild++] = (dl_child){name, child};
    parent->has_code |= child->code || child->has_code;
    return DL_OK;
}

/* The names anew, of layers that changed their places. */
static dl_status index_names(dl_module *parent) {
    dl_layer_names_free(&parent->names);
    parent->names = (dl_layer_names){0};
    for (int i = 0; i < parent->nchild; i++) DL_TRY(dl_layer_names_add(&parent->names, parent->child[i].name, i));
    return DL_OK;
}

dl_status dl_module_insert(dl_module *parent, int at, const char *name, dl_module *child) {
    DL_TRY(dl_module_append(parent, name, NULL, child));
    const int last = parent->nchild - 1;
    const dl_child c = parent->child[last];
    memmove(parent->child + at + 1, parent->child + at, (size_t)(last - at) * sizeof c);
    parent->child[at] = c;
    return at < last ? index_names(parent) : DL_OK;
}

void dl_module_remove(dl_module *parent, int at) {
    dl_module_unref(parent->child[at].m);
    free(parent->child[at].name);
    parent->nchild--;
    memmove(parent->child + at, parent->child + at + 1, (size_t)(parent->nchild - at) * sizeof *parent->child);
    index_names(parent);
}

/* ---------------------------------------------------------------- the tree */

int dl_module_count(const dl_module *m) { return m->nchild; }
dl_module *dl_module_at(const dl_module *m, int i) { return i >= 0 && i < m->nchild ? m->child[i].m : NULL; }
const char *dl_module_label(const dl_module *m, int i) { return i >= 0 && i < m->nchild ? m->child[i].name : NULL; }

static dl_status visit(dl_module *m, char *path, size_t n, dl_visit_fn *fn, void *ctx) {
    DL_TRY(fn(ctx, m, path));
    for (int i = 0; i < m->nchild; i++) {
        int k = snprintf(path + n, DL_PATH_MAX - n, "%s%s", n ? "." : "", m->child[i].name);
        if (k < 0 || n + (size_t)k >= DL_PATH_MAX)
            return dl_fail(DL_ERR_VALUE, "the layers are nested too deeply, or their names are too long: '%.60s...'",
                           path);
        DL_TRY(visit(m->child[i].m, path, n + (size_t)k, fn, ctx));
        path[n] = 0;
    }
    return DL_OK;
}

dl_status dl_module_visit(dl_module *m, dl_visit_fn *fn, void *ctx) {
    char path[DL_PATH_MAX] = "";
    return visit(m, path, 0, fn, ctx);
}

const char *dl_module_path_of(const dl_module *m, const dl_module *part, char buf[DL_PATH_MAX]) {
    if (m == part) return *buf = 0, buf;
    for (int i = 0; i < m->nchild; i++) {
        size_t n = strlen(m->child[i].name);
        if (n + 1 >= DL_PATH_MAX) continue;
        char rest[DL_PATH_MAX];
        const char *below = dl_module_path_of(m->child[i].m, part, rest);
        if (!below || n + strlen(below) + 2 > DL_PATH_MAX) continue;
        snprintf(buf, DL_PATH_MAX, "%s%s%.*s", m->child[i].name, *below ? "." : "", (int)(DL_PATH_MAX - n - 2), below);
        return buf;
    }
    return NULL;
}

static dl_status set_path(void *ctx DL_UNUSED, dl_module *m, const char *path) {
    return m->path || !*path ? DL_OK : dl_module_set_path(m, strdup(path));
}

dl_status dl_module_set_path(dl_module *m, char *path) {
    if (!path) return no_memory();
    free(m->path);
    m->path = path;
    m->mark = dl_layer_mark_of(path, m->src);
    return m->mark ? DL_OK : dl_failed();
}

dl_status dl_module_set_paths(dl_module *root) { return dl_module_visit(root, set_path, NULL); }

dl_module *dl_module_find(dl_module *m, const char *path) {
    while (m && *path) {
        size_t n = strcspn(path, ".");
        dl_child *c = find_child(m, path, n);
        m = c ? c->m : NULL;
        path += n + (path[n] == '.');
    }
    return m;
}

/* The slot of a tensor's name, "weight" or "w"; -1 when the layer has none of that name. */
static int find_slot(const dl_module *m, const char *name) {
    for (int i = 0; i < DL_LAYER_TENSORS && m->row->tensors[i]; i++)
        if (!strcmp(m->row->tensors[i], name)) return i;
    static const char *const brief[][2] = {{"w", "weight"}, {"b", "bias"}};
    for (int i = 0; i < 2; i++)
        if (!strcmp(name, brief[i][0])) return find_slot(m, brief[i][1]);
    return -1;
}

/* The tensor of a parameter or buffer that a net itself holds. */
static dl_tensor *own_tensor(dl_module *m) { return m && dl_module_holds_tensor(m) ? m->tensor[0] : NULL; }

dl_tensor *dl_module_tensor(dl_module *m, const char *path) {
    dl_tensor *own = own_tensor(dl_module_find(m, path));
    if (own) return own;
    const char *dot = strrchr(path, '.');
    char head[DL_PATH_MAX];
    size_t n = dot ? (size_t)(dot - path) : 0;
    if (n >= sizeof head) return NULL;
    memcpy(head, path, n);
    head[n] = 0;
    m = dl_module_find(m, head);
    int slot = m ? find_slot(m, dot ? dot + 1 : path) : -1;
    return slot < 0 ? NULL : m->tensor[slot];
}

dl_status dl_module_set_tensor(dl_module *m, const char *path, dl_tensor *value) {
    if (!value) return dl_fail_null("the value of a parameter");
    dl_tensor *t = dl_module_tensor(m, path);
    if (!t)
        return dl_fail_hint(DL_ERR_NAME, dl_module_is_built(m) ? "" : "the first call with an input makes the weights",
                            "the net has no tensor '%s'", path);
    if (!dl_shape_eq(t, value))
        return dl_fail(DL_ERR_SHAPE, "%s has shape %s; a value of shape %s does not fit", path, dl_shape_of(t),
                       dl_shape_of(value));
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *here = dl_to_device(value, dl_device_of(t));
    return here ? dl_assign(t, here) : dl_failed();
}

static dl_status see_built(void *ctx, dl_module *m, const char *path DL_UNUSED) {
    *(int *)ctx &= m->built;
    return DL_OK;
}

int dl_module_is_built(const dl_module *m) {
    int all = 1;
    dl_module_visit((dl_module *)m, see_built, &all);
    return all;
}

/* Do the sizes of its tensors follow without an input? */
static bool is_sized(const dl_module *m) {
    return m->row->flags & DL_L_SIZED || (dl_module_holds_tensor(m) && dl_param_is_sized(m));
}

typedef struct built {
    bool any;                  /* some layer has weights for which it needed an input */
    char missing[DL_PATH_MAX]; /* the first that has none; "": all have them */
} built;

static dl_status see_weights(void *ctx, dl_module *m, const char *path) {
    built *b = ctx;
    b->any |= m->built && m->tensor[0] && !is_sized(m);
    if (!m->built && !*b->missing) snprintf(b->missing, sizeof b->missing, "%s", *path ? path : m->row->kind.name);
    return DL_OK;
}

static dl_status see_input(void *ctx, dl_module *m, const char *path) {
    (void)path;
    *(bool *)ctx |= !m->built && !is_sized(m);
    return DL_OK;
}

static dl_status make_sized(void *ctx, dl_module *m, const char *path) {
    (void)ctx, (void)path;
    if (m->built) return DL_OK;
    long size = m->row->flags & DL_L_SIZED ? m->row->size_of_input(m, NULL) : 1;
    return dl_module_build_one(m, size, 0);
}

/* Weights whose sizes follow from the options are made when they are asked for, if no other is missing. */
static dl_status build_sized(dl_module *m) {
    bool input = false;
    dl_module_visit(m, see_input, &input);
    return input ? DL_OK : dl_module_visit(m, make_sized, NULL);
}

dl_status dl_module_check_built(dl_module *m) {
    built b = {0};
    if (!m) return dl_fail_null("the net");
    if (!dl_module_is_built(m)) DL_TRY(build_sized(m));
    dl_module_visit(m, see_weights, &b);
    if (!*b.missing) return DL_OK;
    if (!b.any)
        return dl_fail_hint(DL_ERR_STATE,
                            "m.build([1, 28, 28]) makes them for samples of that shape; a trainer or the first batch "
                            "does so too",
                            "there are no weights yet: the size of the input is not known");
    return dl_fail_hint(DL_ERR_STATE, "call the net with inputs that reach it, or leave the layer out of the net",
                        "layer %s of net %s has no weights yet: it was never called", b.missing, dl_module_name(m));
}

static dl_status see_forward(void *ctx, dl_module *m, const char *path DL_UNUSED) {
    *(bool *)ctx |= m->code && m->code->is.forward;
    return DL_OK;
}

bool dl_module_has_forward(dl_module *m) {
    bool own = false;
    dl_module_visit(m, see_forward, &own);
    return own;
}

/* The first layer with weights ends the visit. */
static dl_status see_indices(void *ctx, dl_module *m, const char *path DL_UNUSED) {
    if (!m->row->build || m->row->flags & DL_L_BODY) return DL_OK;
    *(bool *)ctx = m->row->flags & DL_L_INDICES;
    return DL_ERR_STATE;
}

dl_dtype dl_module_takes(const dl_module *m) {
    bool indices = false;
    dl_module_visit((dl_module *)m, see_indices, &indices);
    return indices ? DL_I64 : DL_F32;
}

static dl_status set_training(void *ctx, dl_module *m, const char *path DL_UNUSED) {
    m->training = *(int *)ctx;
    return DL_OK;
}

void dl_module_train(dl_module *m, int on) {
    dl_journal_mode(m, on);
    dl_module_visit(m, set_training, &on);
}
dl_source dl_module_source(const dl_module *m) { return (dl_source){m->src.file ? m->src.file : "", m->src.line}; }
int dl_module_training(const dl_module *m) { return m->training; }

/* ---------------------------------------------------------------- tensors of a net */

typedef struct collector {
    const dl_module *net;
    dl_addresses known; /* of the tensors; entry e[i] is that of number i */
    dl_module_entry *e;
    long n, cap; /* entries with a path */
    int what;
} collector;

static dl_status collect_one(collector *c, const char *path, const char *name, dl_tensor *t, int buffer) {
    long i = dl_addresses_add(&c->known, t);
    if (i < 0) return dl_failed();
    if (i < c->n) return DL_OK; /* a shared layer counts once */
    DL_TRY(DL_LIST_ROOM(c->e, c->n, c->cap));
    size_t size = strlen(path) + strlen(name) + 2;
    char *full = malloc(size);
    if (!full) return no_memory();
    snprintf(full, size, "%s%s%s", path, *path && *name ? "." : "", name);
    c->e[c->n++] = (dl_module_entry){full, t, buffer};
    return DL_OK;
}

static dl_status collect(void *ctx, dl_module *m, const char *path) {
    collector *c = ctx;
    for (int i = 0; i < DL_LAYER_TENSORS && m->row->tensors[i]; i++) {
        char buf[DL_PATH_MAX];
        if (i == 0 && m->tie_owner && dl_module_path_of(c->net, m->tie_owner, buf))
            continue; /* it has the name there */
        if ((i == 0 && m->borrows) || dl_reparam_computes(m, m->row->tensors[i]))
            continue; /* what is behind it counts */
        int buffer = i >= m->row->nparams;
        if (m->tensor[i] && c->what & (buffer ? 2 : 1))
            DL_TRY(collect_one(c, path, m->row->tensors[i], m->tensor[i], buffer));
    }
    return DL_OK;
}

static void free_entries(dl_module_entry *e, long n) {
    for (long i = 0; i < n; i++) free((char *)e[i].path);
    free(e);
}

dl_module_list *dl_module_tensors(dl_module *m, int what) {
    if (!m) return dl_fail_null("the net"), NULL;
    collector c = {.net = m, .what = what};
    dl_status st = dl_module_visit(m, collect, &c);
    dl_module_list *l = st == DL_OK ? malloc(sizeof *l) : NULL;
    if (st == DL_OK && !l) no_memory();
    if (l)
        *l = (dl_module_list){c.n, c.e};
    else
        free_entries(c.e, c.n);
    dl_addresses_free(&c.known);
    return l;
}

void dl_module_list_free(dl_module_list *l) {
    if (!l) return;
    free_entries((dl_module_entry *)l->entries, l->n);
    free(l);
}

/* A layer that occurs twice is met twice: parameters are counted through the list, which has each once. */
long dl_module_params(const dl_module *m) {
    dl_module_list *l = dl_module_tensors((dl_module *)m, 1);
    long n = 0;
    for (long i = 0; l && i < l->n; i++) n += dl_numel(l->entries[i].tensor);
    dl_module_list_free(l);
    return n;
}

void dl_module_zero_grad(dl_module *m) {
    dl_module_list *l = dl_module_tensors(m, 1);
    for (long i = 0; l && i < l->n; i++) dl_set_grad(l->entries[i].tensor, NULL);
    dl_module_list_free(l);
}

/* ---------------------------------------------------------------- text */

static void add_layer(dl_text *t, const dl_module *m, int depth);

/* The items of a net, one a line: layers from..to, and its forward as it was written. */
static void add_items(dl_text *t, const dl_module *m, int from, int to, int depth) {
    for (int i = from; i < to; i++) {
        if (m->child[i].m->source) continue;
        dl_text_add(t, "%*s%s: ", 4 * depth, "", m->child[i].name);
        add_layer(t, m->child[i].m, depth);
        dl_text_add(t, "\n");
    }
    if (m->code && m->code->is.forward && m->code->is.text) dl_text_add(t, "%*s%s\n", 4 * depth, "", m->code->is.text);
}

static void add_block(dl_text *t, const dl_module *m, int from, int to, int depth) {
    dl_text_add(t, "{\n");
    add_items(t, m, from, to, depth + 1);
    dl_text_add(t, "%*s}", 4 * depth, "");
}

/* "conv 16 kernel_size=3": bare what may stand bare, then what differs from the default. */
static void add_options(dl_text *t, const dl_module *m) {
    const dl_kind_row *k = &m->row->kind;
    bool bare = true;
    for (int i = 0; m->opt && k->options[i].name; i++) {
        if (!m->opt[i].set) {
            bare = false;
            continue;
        }
        char value[256];
        dl_optval_text(&k->options[i], &m->opt[i], value, sizeof value);
        bare = bare && i == 0 && k->positional > 0;
        dl_text_add(t, bare ? " %s" : " %s=%s", bare ? value : k->options[i].name, value);
    }
    if (m->tie) dl_text_add(t, " tie=%s", m->tie);
    dl_reparam_write(t, m);
}

static void add_layer(dl_text *t, const dl_module *m, int depth) {
    /* an expanded repeat reads back as the sequence of its layers; a function by its name */
    const char *kind = !strcmp(m->row->kind.name, "repeat") ? "sequential" : m->row->kind.name;
    dl_text_add(t, "%s", m->code && m->code->is.layer ? dl_module_name(m) : kind);
    if (strcmp(m->row->kind.name, "repeat")) add_options(t, m);
    if (!(m->row->flags & DL_L_BODY)) return;
    int body = m->nchild - m->has_shortcut;
    dl_text_add(t, " ");
    add_block(t, m, 0, body, depth);
    if (!m->has_shortcut) return;
    dl_text_add(t, " shortcut ");
    add_block(t, m->child[body].m, 0, m->child[body].m->nchild, depth);
}

char *dl_module_text(const dl_module *m) {
    if (!m) return dl_fail_null("the net"), NULL;
    dl_text t = {0};
    bool net = m->row->flags & DL_L_BODY && !(m->row->flags & DL_L_SHORTCUT);
    if (net)
        add_items(&t, m, 0, m->nchild, 0);
    else
        add_layer(&t, m, 0);
    return dl_text_take(&t);
}

void dl_text_free(char *text) { free(text); }
