/* Units of source and the nodes of their trees: one arena a unit. */
#include "lang/parse/ast.h"

#include <stdlib.h>
#include <string.h>

#include "lang/session.h"

enum { CHUNK = 16 * 1024, ALIGN = 16 };

struct dlsh_chunk {
    struct dlsh_chunk *next;
    size_t used, size;
    _Alignas(16) char data[];
};

static const char *const kind_names[] = {
#define NODE(id, name, doc) name,
    DLSH_NODES(NODE)
#undef NODE
};

static const struct {
    const char *text, *name;
    int prec;
} ops[] = {{"=", "", 0},
#define OP(id, text, prec, name) {text, name, prec},
           DLSH_OPS(OP)
#undef OP
};

const char *dlsh_kind_name(int kind) { return kind_names[kind]; }
const char *dlsh_op_text(int op) { return ops[op].text; }
const char *dlsh_op_name(int op) { return ops[op].name; }
int dlsh_op_prec(int op) { return ops[op].prec; }

static char *copy(const char *s, size_t n) {
    char *p = malloc(n + 1);
    if (p) {
        memcpy(p, s, n);
        p[n] = 0;
    }
    return p;
}

/* Names are stored once and never freed, because nodes of the tape and errors point to them. */
static const char *intern(const char *name) {
    static struct kept {
        struct kept *next;
        char s[];
    } * all;
    for (struct kept *k = all; k; k = k->next)
        if (!strcmp(k->s, name)) return k->s;
    struct kept *k = malloc(sizeof *k + strlen(name) + 1);
    if (!k) return NULL;
    strcpy(k->s, name);
    k->next = all;
    all = k;
    return k->s;
}

dlsh_unit *dlsh_unit_new(const char *name, const char *text, size_t len) {
    dlsh_unit *u = calloc(1, sizeof *u);
    if (u) {
        u->refs = 1;
        u->name = intern(name);
        u->text = copy(text, len);
        u->len = len;
    }
    if (!u || !u->name || !u->text || len > 0x7fffffff - 2) {
        dlsh_unit_drop(u);
        dlsh_fail(DL_ERR_MEMORY, NULL, "no memory for %zu bytes of source text", len);
        return NULL;
    }
    return u;
}

dlsh_unit *dlsh_unit_ref(dlsh_unit *u) {
    u->refs++;
    return u;
}

void dlsh_unit_drop(dlsh_unit *u) {
    if (!u || --u->refs > 0) return;
    for (struct dlsh_chunk *c = u->arena, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    for (int i = 0; i < u->nkept; i++) dlsh_drop(u->kept[i]);
    free(u->kept);
    free(u->text);
    free(u);
}

dl_status dlsh_unit_keep(dlsh_unit *u, dlsh_value v) {
    dlsh_value *kept = dlsh_grow(u->kept, u->nkept, &u->capkept, sizeof *kept);
    if (!kept) return dlsh_drop(v), DL_ERR_MEMORY;
    u->kept = kept;
    u->kept[u->nkept++] = v;
    return DL_OK;
}

void *dlsh_unit_alloc(dlsh_unit *u, size_t bytes) {
    bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    struct dlsh_chunk *c = u->arena;
    if (!c || c->size - c->used < bytes) {
        size_t size = bytes > CHUNK ? bytes : u->len < 256 ? 2048 : CHUNK;
        if (size < bytes) size = bytes;
        c = calloc(1, sizeof *c + size);
        if (!c) {
            dlsh_no_memory("the syntax tree");
            return NULL;
        }
        c->size = size;
        c->next = u->arena;
        u->arena = c;
    }
    void *p = c->data + c->used;
    c->used += bytes;
    return p;
}

char *dlsh_unit_text(dlsh_unit *u, const char *s, size_t n) {
    char *p = dlsh_unit_alloc(u, n + 1);
    if (p) memcpy(p, s, n);
    return p;
}

dlsh_node *dlsh_node_new(dlsh_unit *u, dlsh_kind kind, dlsh_span span) {
    dlsh_node *n = dlsh_unit_alloc(u, sizeof *n);
    if (n) {
        n->kind = (unsigned char)kind;
        n->span = span;
        n->slot = -1;
    }
    return n;
}

dl_status dlsh_node_kids(dlsh_unit *u, dlsh_node *node, dlsh_node **kids, int n) {
    int depth = 0;
    for (int i = 0; i < n; i++)
        if (kids[i] && kids[i]->depth >= depth) depth = kids[i]->depth + 1;
    if (depth > DLSH_MAX_DEPTH)
        return dlsh_fail(DL_ERR_SYNTAX, "split it with names for its parts",
                         "this is nested too deeply (more than %d levels)", DLSH_MAX_DEPTH);
    if (n && !(node->kids = dlsh_unit_alloc(u, (size_t)n * sizeof *kids))) return DL_ERR_MEMORY;
    if (n) memcpy(node->kids, kids, (size_t)n * sizeof *kids);
    node->nkids = n;
    node->depth = (unsigned short)depth;
    return DL_OK;
}

int dlsh_count_layers(const dlsh_node *layers) {
    int n = 0;
    while (n < layers->nkids && layers->kids[n]->kind != DLSH_N_FN) n++;
    return n;
}

const dlsh_node *dlsh_forward_of(const dlsh_node *layers) {
    for (int i = dlsh_count_layers(layers); i < layers->nkids; i++)
        if (!strcmp(layers->kids[i]->label, "forward")) return layers->kids[i];
    return NULL;
}

int dlsh_mentions(const dlsh_node *n, const char *name) {
    if (!n) return 0;
    const int word = n->kind == DLSH_N_STR && (n->flags & DLSH_WORD) && n->text && !strcmp(n->text, name);
    int count = (n->kind == DLSH_N_NAME && !strcmp(n->text, name)) || word;
    for (int i = 0; i < n->nkids; i++) count += dlsh_mentions(n->kids[i], name);
    return count;
}
