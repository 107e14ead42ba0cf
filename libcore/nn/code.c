/* Nets whose forward is a function of the caller, and the packs of tensors that go into them and come out. */
#include "core/mix.h"
#include "core/scope.h"
#include "nn/layers.h"
#include "nn/reparam.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- packs */

struct dl_pack {
    int refs, n;
    void *form;
    void (*release)(void *form);
    char (*names)[DL_FIELD_NAME]; /* [n]; NULL: none */
    dl_tensor *t[];
};

dl_pack *dl_pack_new(dl_tensor *const *t, int n, void *form, void (*release)(void *form)) {
    dl_pack *p = malloc(sizeof *p + (size_t)n * sizeof *p->t);
    if (!p) {
        if (release) release(form);
        return dl_fail(DL_ERR_MEMORY, "no memory for the inputs of a net"), NULL;
    }
    *p = (dl_pack){1, n, form, release, NULL};
    for (int i = 0; i < n; i++) p->t[i] = dl_ref(t[i]);
    return p;
}

dl_status dl_pack_set_names(dl_pack *p, const char *const *names) {
    if (!names || !p->n || !names[0] || !*names[0]) return DL_OK;
    if (!p->names && !(p->names = calloc((size_t)p->n, sizeof *p->names)))
        return dl_fail(DL_ERR_MEMORY, "no memory for the names of tensors");
    for (int i = 0; i < p->n; i++) snprintf(p->names[i], sizeof p->names[i], "%s", names[i] ? names[i] : "");
    return DL_OK;
}

dl_pack *dl_pack_named(dl_tensor *const *t, int n, const char *const *names) {
    dl_pack *p = dl_pack_new(t, n, NULL, NULL);
    if (!p || dl_pack_set_names(p, names) == DL_OK) return p;
    dl_pack_unref(p);
    return NULL;
}

const char *dl_pack_name(const dl_pack *p, int i) { return p->names && i >= 0 && i < p->n ? p->names[i] : NULL; }

DL_REF_FUNCTION(dl_pack)

void dl_pack_unref(dl_pack *p) {
    if (!p || __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL)) return;
    for (int i = 0; i < p->n; i++) dl_unref(p->t[i]);
    if (p->release) p->release(p->form);
    free(p->names);
    free(p);
}

int dl_pack_count(const dl_pack *p) { return p->n; }
dl_tensor *dl_pack_tensor(const dl_pack *p, int i) { return i >= 0 && i < p->n ? p->t[i] : NULL; }
void *dl_pack_form(const dl_pack *p) { return p->form; }

dl_tensor *dl_pack_single(const dl_pack *p, const char *what, const char *hint) {
    if (p->n == 1 && !p->form) return p->t[0];
    return dl_fail_hint(DL_ERR_VALUE, hint, "%s is not a tensor but a list or record of %d", what, p->n), NULL;
}

/* ---------------------------------------------------------------- inputs by name */

typedef struct text {
    char s[256];
    size_t n;
} text;

static void add(text *t, const char *separator, const char *word) {
    int k = snprintf(t->s + t->n, sizeof t->s - t->n, "%s%s", t->n ? separator : "", word);
    if (k > 0 && t->n + (size_t)k < sizeof t->s) t->n += (size_t)k;
}

static dl_status misplaced(const dl_module *m, const char *what, int n, const char (*names)[DL_FIELD_NAME]) {
    const dl_code_spec *c = m->code ? &m->code->is : NULL;
    text takes = {0}, has = {0};
    for (int i = 0; c && i < c->ninputs; i++) {
        char optional[DL_FIELD_NAME + 16];
        snprintf(optional, sizeof optional, "%s (optional)", c->inputs[i]);
        add(&takes, ", ", i < c->required ? c->inputs[i] : optional);
    }
    for (int i = 0; i < n && *names[i]; i++) add(&has, ", ", names[i]);
    return dl_fail_hint(DL_ERR_VALUE,
                        c ? "inputs with names go to those of the forward, others by position"
                          : "give the net a forward that takes them: forward(a, b) { ... }",
                        "net %s takes %s%s, and %s have %d input%s%s%s", dl_module_name(m),
                        takes.n ? "the inputs " : "one tensor", takes.s, what, n, n == 1 ? "" : "s", has.n ? ": " : "",
                        has.s);
}

/* The input of that name; -1: there is none. */
static int input_named(const dl_code_spec *c, const char *name) {
    for (int i = 0; i < c->ninputs; i++)
        if (!strcmp(c->inputs[i], name)) return i;
    return -1;
}

dl_status dl_module_place_inputs(const dl_module *m, const char *what, int n, const char (*names)[DL_FIELD_NAME],
                                 int *place) {
    const dl_code_spec *c = m->code && m->code->is.forward ? &m->code->is : NULL;
    bool known = c && c->inputs, by_name = known && n > 1 && *names[0];
    bool given[DL_NET_INPUTS] = {false};
    for (int i = 0; i < n; i++) {
        place[i] = by_name ? input_named(c, names[i]) : i;
        if (place[i] < 0 || place[i] >= DL_NET_INPUTS || (known && place[i] >= c->ninputs))
            return misplaced(m, what, n, names);
        given[place[i]] = true;
    }
    bool good = given[0] && (c || n == 1);
    for (int i = 0; known && i < c->required && i < DL_NET_INPUTS; i++) good = good && given[i];
    return good && (!known || c->required <= DL_NET_INPUTS) ? DL_OK : misplaced(m, what, n, names);
}

/* ---------------------------------------------------------------- code */

dl_code *dl_code_new(dl_code_spec spec) {
    char *text = spec.text ? strdup(spec.text) : NULL;
    dl_code *c = !spec.text || text ? malloc(sizeof *c) : NULL;
    if (!c) {
        free(text);
        if (spec.release) spec.release(spec.ctx);
        return dl_fail(DL_ERR_MEMORY, "no memory for the forward of a net"), NULL;
    }
    *c = (dl_code){1, -1, spec};
    c->is.text = text;
    return c;
}

DL_REF_FUNCTION(dl_code)

void dl_code_unref(dl_code *c) {
    if (!c || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL)) return;
    if (c->is.release) c->is.release(c->is.ctx);
    free((char *)c->is.text);
    free(c);
}

void *dl_code_context(const dl_code *c, void (*release)(void *)) { return c->is.release == release ? c->is.ctx : NULL; }

/* Layers (whose options never change), modes, their tensors, and what their code depends on. */
static dl_status add_key(const dl_module *m, uint64_t *h) {
    *h = dl_mix(dl_mix(*h, m->serial), (uint64_t)m->nchild * 2 + m->training);
    for (int i = 0; i < DL_LAYER_TENSORS; i++) *h = dl_mix(*h, m->tensor[i] ? dl_tensor_key(m->tensor[i]) : 1);
    if (m->code && !m->code->is.shape) {
        unsigned long key = 0;
        if (!m->code->is.key) return dl_fail(DL_ERR_UNSUPPORTED, "a layer of the net is a function");
        DL_TRY(m->code->is.key(m->code->is.ctx, &key));
        *h = dl_mix(*h, key);
    }
    for (int i = 0; i < m->nchild; i++) DL_TRY(add_key(m->child[i].m, h));
    return DL_OK;
}

dl_status dl_module_key(const dl_module *m, unsigned long *out) {
    uint64_t h = 7;
    if (!m) return dl_fail_null("the net");
    DL_TRY(add_key(m, &h));
    *out = h;
    return DL_OK;
}

/* Parts without code lead to none. */
void dl_module_references(dl_module *m, dl_part_fn *part, dl_code_fn *code, void *ctx) {
    if (m->code) code(ctx, m->code);
    for (const dl_reparam *r = m->reparams; r; r = r->next) {
        if (r->fn && (r->fn->code || r->fn->has_code)) part(ctx, r->fn);
        if (r->inverse && (r->inverse->code || r->inverse->has_code)) part(ctx, r->inverse);
    }
    for (int i = 0; m->has_code && i < m->nchild; i++)
        if (m->child[i].m->code || m->child[i].m->has_code) part(ctx, m->child[i].m);
}

/* ---------------------------------------------------------------- parameters and buffers of a net itself */

/* The size that a shape may name `in`: the last dimension of the input. */
long dl_layer_param_input(const dl_module *m DL_UNUSED, const dl_tensor *x) {
    return x->ndim ? x->shape[x->ndim - 1] : 1;
}

bool dl_param_is_sized(const dl_module *m) {
    long one[DL_MAX_DIM] = {0}, two[DL_MAX_DIM] = {0};
    const dl_net_input *own = &m->inputs.in[0];
    bool sized = true;
    if (m->inputs.n) {
        for (int i = 0; i < own->ndim; i++) sized &= own->shape[i] >= 0;
        return sized;
    }
    int n = m->code->is.shape(m->code->is.ctx, 1, one), k = m->code->is.shape(m->code->is.ctx, 2, two);
    if (n < 0 || k < 0) return dl_error_clear(), false;
    return n == k && !memcmp(one, two, sizeof one);
}

long dl_layer_param_stored(const dl_module *m, int slot DL_UNUSED, const dl_tensor *t) {
    dl_module *to = (dl_module *)m; /* a shape that a file holds needs no input */
    if (m->inputs.n && dl_part_fits(m, t) != DL_OK) return -1;
    to->inputs.n = 1, to->inputs.in[0].ndim = t->ndim;
    memcpy(to->inputs.in[0].shape, t->shape, sizeof t->shape);
    return 0;
}

dl_status dl_layer_param_build(dl_module *m, long size) {
    long shape[DL_MAX_DIM];
    int n = m->inputs.in[0].ndim;
    memcpy(shape, m->inputs.in[0].shape, sizeof shape);
    if (!m->inputs.n) n = m->code->is.shape(m->code->is.ctx, size, shape);
    if (n < 0) return dl_failed();
    const dl_optval *value = dl_m_opt(m, "value"), *std = dl_m_opt(m, "std");
    if (value->given) return dl_module_make(m, 0, n, shape, "constant", value->u.f);
    if (std->given) return dl_module_make(m, 0, n, shape, "deviation", std->u.f);
    const char *init = dl_m_opt(m, "init")->u.s;
    bool vector = n < 2 && !strcmp(init, "default"); /* a bias or a scale has no fan */
    return dl_module_make(m, 0, n, shape, vector ? NULL : init, 0);
}

dl_status dl_layer_param_check(dl_module *m) { return dl_init_check(dl_m_opt(m, "init")->u.s); }

dl_tensor *dl_layer_param(dl_module *m, dl_tensor *x DL_UNUSED) {
    return dl_fail(DL_ERR_TYPE, "'%s' is a tensor of a net, not a layer", m->path ? m->path : "param"), NULL;
}

dl_tensor *dl_layer_list(dl_module *m, dl_tensor *x) {
    (void)x;
    return dl_fail_hint(DL_ERR_TYPE, "for b in blocks { x = b(x) }", "%s is a list of layers: call them one by one",
                        m->path ? m->path : "this"),
           NULL;
}
