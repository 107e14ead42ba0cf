/* For gradient rules: saved tensors, temporaries, and returning a gradient. */
#include "autograd/tape.h"
#include "core/list.h"
#include "core/scope.h"
#include "dlcore/copy.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"

#include <stdlib.h>

const dl_meta *dl_in_meta(const dl_back *b, int i) { return &b->node->meta[i]; }
const dl_meta *dl_out_meta(const dl_back *b, int i) { return &b->node->meta[b->node->nin + i]; }

int dl_back_device(const dl_back *b) {
    for (int i = 0; i < b->nout; i++)
        if (b->g[i]) return b->g[i]->st->device;
    return 0;
}

static dl_saved *find(dl_back *b, int key) {
    dl_node *n = b->node;
    if (n->freed) {
        dl_fail_hint(
            DL_ERR_AUTOGRAD,
            "compute the result again; detach() what comes from an earlier pass, as the state of a recurrence or "
            "a target; or call backward with retain=true the first time",
            "the history of this result was freed by an earlier backward: that of %s, which ran at %s:%d", n->op->name,
            n->src.file, n->src.line);
        return NULL;
    }
    for (int i = 0; i < n->nsaved; i++) {
        dl_saved *s = &n->saved[i];
        if (s->out != key) continue;
        if (s->t->st->version == s->version) return s;
        dl_fail_hint(DL_ERR_AUTOGRAD, "compute a new tensor instead of changing this one, or clone() it before",
                     "a tensor that the gradient of %s (%s:%d) needs was changed in place at %s:%d", n->op->name,
                     n->src.file, n->src.line, s->t->st->writer.file, s->t->st->writer.line);
        return NULL;
    }
    return NULL;
}

/* A saved header with the history it had; `node` NULL: it had none. */
static dl_tensor *attached(dl_back *b, const dl_saved *s, dl_node *node, int idx) {
    dl_tensor *t = dl_tmp(b, dl_detach(s->t));
    if (t && node) {
        t->node = dl_node_ref(node);
        t->out = idx;
    }
    return t;
}

/* For a rule whose own work is not recorded. */
static dl_tensor *plain(dl_back *b, const dl_saved *s) {
    bool half = s && DL_BIT(s->t->dtype) & DL_HALVES;
    return !s ? NULL : b->wide && half ? dl_tmp(b, dl_to(s->t, DL_F32)) : s->t;
}

dl_tensor *dl_saved_in(dl_back *b, int i) {
    const dl_saved *s = find(b, -1 - i);
    if (!s || !b->create_graph) return plain(b, s);
    const dl_edge *e = &b->node->edge[i];
    return e->leaf ? e->leaf : attached(b, s, e->node, e->idx);
}

dl_tensor *dl_saved_out(dl_back *b, int i) {
    const dl_saved *s = find(b, i);
    if (!s || !b->create_graph) return plain(b, s);
    bool differentiable = dl_dtype_is_smooth(s->t->dtype) && !(b->op->nondiff_out >> i & 1);
    return attached(b, s, differentiable ? b->node : NULL, i);
}

dl_tensor *dl_tmp(dl_back *b, dl_tensor *t) {
    if (!t) return NULL;
    if (DL_LIST_ROOM(b->tmp, b->ntmp, b->cap) != DL_OK) return dl_unref(t), NULL;
    return b->tmp[b->ntmp++] = t;
}

/* Sums a gradient over the dimensions along which an input of shape m was broadcast. Takes ownership of g. */
static dl_tensor *sum_to(dl_tensor *g, const dl_meta *m) {
    long dims[DL_MAX_DIM];
    int n = 0, lead = g->ndim - m->ndim;
    bool equal = lead == 0;
    for (int i = 0; i < g->ndim; i++) {
        bool gone = i < lead || (m->shape[i - lead] == 1 && g->shape[i] != 1);
        if (gone) dims[n++] = i;
        equal = equal && !gone;
    }
    if (equal) return g;
    DL_OWNED dl_tensor *whole = g;
    if (n == lead) return dl_sum(g, dims, n, 0);
    DL_OWNED dl_tensor *s = n ? dl_sum(g, dims, n, 1) : dl_ref(g);
    return s && lead ? dl_reshape(s, m->shape, m->ndim) : dl_ref(s);
}

dl_status dl_give(dl_back *b, int i, dl_tensor *t) {
    const dl_meta *m = dl_in_meta(b, i);
    if (!t) return dl_failed();
    if (t->ndim >= m->ndim) t = sum_to(t, m);
    if (t && t->dtype != m->dtype) {
        dl_tensor *c = dl_to(t, m->dtype);
        dl_unref(t);
        t = c;
    }
    if (!t) return dl_failed();
    if (!dl_sizes_eq(t->ndim, t->shape, m->ndim, m->shape)) {
        dl_status s = dl_fail(DL_ERR_INTERNAL, "the gradient rule of %s made %s for input %d of shape %s", b->op->name,
                              dl_shape_of(t), i, dl_shape_text(m->ndim, m->shape));
        dl_unref(t);
        return s;
    }
    b->gin[i] = t;
    return DL_OK;
}
