/* Parameters that two layers of a net share: tie=emb.weight. */
#include <string.h>

#include "core/scope.h"
#include "nn/reparam.h"

/* ---------------------------------------------------------------- finding the other layer */

typedef struct search {
    dl_module *net;
    bool last;
} search;

static dl_status not_found(const search *s, const dl_module *m, const char *why) {
    return dl_fail_hint(DL_ERR_NAME, "tie=emb.weight, where emb is a layer of the same net",
                        "layer %s cannot share %s in net %s: %s", m->row->kind.name, m->tie, dl_module_name(s->net),
                        why);
}

static dl_status resolve(const search *s, dl_module *m, int depth);

/* Tensor `slot` of a layer: of one that shares it itself, where it comes from. */
static dl_status take_owner(const search *s, dl_module *m, dl_module *owner, int slot, int depth) {
    if (owner->tie && slot == 0) {
        DL_TRY(resolve(s, owner, depth + 1));
        if (!owner->tie_owner) return DL_OK; /* later, in an outer net */
        slot = owner->tie_slot, owner = owner->tie_owner;
    }
    if (owner == m) return not_found(s, m, "layers share in a circle, and none of them owns it");
    m->tie_owner = dl_module_ref(owner);
    m->tie_slot = slot;
    return DL_OK;
}

enum { LONGEST = 100 }; /* of chains */

static dl_status resolve(const search *s, dl_module *m, int depth) {
    if (!m->tie || m->tie_owner) return DL_OK;
    if (depth > LONGEST) return not_found(s, m, "layers share in a circle, and none of them owns it");
    const char *dot = strrchr(m->tie, '.');
    char head[DL_PATH_MAX];
    if (!dot || (size_t)(dot - m->tie) >= sizeof head) return not_found(s, m, "it is written LAYER.PARAMETER");
    memcpy(head, m->tie, (size_t)(dot - m->tie));
    head[dot - m->tie] = 0;
    dl_module *owner = dl_module_find(s->net, head);
    if (!owner) return s->last ? not_found(s, m, "it has no such layer") : DL_OK;
    if (owner == m) return not_found(s, m, "that is the layer itself");
    if (!m->row->tensors[0]) return not_found(s, m, "this layer has no parameters");
    for (int i = 0; i < DL_LAYER_TENSORS && owner->row->tensors[i]; i++)
        if (!strcmp(owner->row->tensors[i], dot + 1)) return take_owner(s, m, owner, i, depth);
    return not_found(s, m, "that layer has no such parameter");
}

static dl_status find_tie(void *ctx, dl_module *m, const char *path DL_UNUSED) { return resolve(ctx, m, 0); }

dl_status dl_module_find_ties(dl_module *m, bool last) {
    search s = {m, last};
    return dl_module_visit(m, find_tie, &s);
}

/* ---------------------------------------------------------------- sharing */

static dl_status check_shape(const dl_module *m, const dl_tensor *mine, const dl_tensor *other) {
    if (dl_shape_eq(mine, other)) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "layer %s cannot share %s: its own has shape %s, the other %s", m->row->kind.name,
                   dl_tensor_name(other), dl_shape_of(mine), dl_shape_of(other));
}

static void put(dl_tensor **slot, dl_tensor *t) {
    dl_tensor *former = *slot;
    *slot = dl_ref(t);
    dl_unref(former);
}

/* Puts the tensor that is there already in the place of the one just made, whose values it takes. */
static dl_status adopt(dl_tensor **made, dl_tensor *shared, const dl_module *m) {
    DL_SCOPED_GRAD_MODE(0);
    if (!*made)
        return dl_fail_hint(DL_ERR_NAME, "tie a parameter that the layer has", "layer %s has no %s to share",
                            m->row->kind.name, dl_tensor_name(shared));
    DL_TRY(check_shape(m, *made, shared));
    DL_TRY(dl_assign(shared, *made));
    DL_TRY(dl_tensor_set_name(shared, dl_tensor_name(*made)));
    put(made, shared);
    return DL_OK;
}

/* The values are those with which the owner starts, whichever layer is built first. */
dl_status dl_module_tie(dl_module *m) {
    dl_module *owner = m->tie_owner;
    if (owner) {
        dl_tensor **there = owner->built ? dl_reparam_place(owner, m->tie_slot) : &owner->tied[m->tie_slot];
        if (!there)
            return dl_fail(DL_ERR_STATE, "layer %s cannot share %s, which is computed from several tensors",
                           m->row->kind.name, owner->row->tensors[m->tie_slot]);
        if (owner->built && !*there)
            return dl_fail_hint(DL_ERR_NAME, "tie a parameter that the layer has", "layer %s has no %s to share",
                                owner->row->kind.name, owner->row->tensors[m->tie_slot]);
        if (*there) DL_TRY(check_shape(m, m->tensor[0], *there));
        if (*there)
            put(&m->tensor[0], *there);
        else
            put(there, m->tensor[0]);
    }
    for (int i = 0; i < DL_LAYER_TENSORS; i++) {
        if (!m->tied[i]) continue;
        DL_TRY(adopt(&m->tensor[i], m->tied[i], m));
        put(&m->tied[i], NULL);
    }
    return DL_OK;
}
