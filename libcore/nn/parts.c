/* Layers that are made of other layers and of weights of any number, which they add themselves: names and order as in
 * PyTorch's state. A weight is a part of its own, which waits for the sizes that follow from the input. */
#include <stdlib.h>
#include <string.h>

#include "nn/layers.h"

static dl_status add(dl_module *m, const char *name, const char *kind, const dl_arg *args, int nargs, dl_module **out) {
    const dl_layer_row *row = dl_layer_row_find(kind);
    dl_optval *opt = calloc(DL_OPT_MAX, sizeof *opt);
    int bad;
    if (!opt) return dl_fail(DL_ERR_MEMORY, "no memory for a layer");
    dl_status s = dl_options_read("layer", &row->kind, args, nargs, opt, &bad);
    dl_module *part = s == DL_OK ? dl_module_new(row, opt) : (free(opt), NULL);
    if (!part) return dl_failed();
    if (row->check) s = row->check(part);
    if (s == DL_OK && row->parts) s = row->parts(part);
    if (s != DL_OK) return dl_module_unref(part), s;
    *out = part;
    return dl_module_append(m, name, NULL, part);
}

dl_status dl_part_layer(dl_module *m, const char *name, const char *kind, const dl_arg *args, int nargs) {
    dl_module *part = NULL;
    return add(m, name, kind, args, nargs, &part);
}

dl_status dl_part_weight(dl_module *m, const char *name, int ndim, const long *shape, const char *init) {
    dl_module *part = NULL;
    const dl_arg how = {.name = "init", .kind = DL_ARG_STR, .s = init};
    DL_TRY(add(m, name, "param", &how, 1, &part));
    part->inputs.n = 1, part->inputs.in[0].ndim = ndim;
    memcpy(part->inputs.in[0].shape, shape, (size_t)ndim * sizeof *shape);
    return DL_OK;
}

dl_status dl_part_fits(const dl_module *part, const dl_tensor *t) {
    const dl_net_input *want = &part->inputs.in[0];
    long shape[DL_MAX_DIM];
    bool good = t->ndim == want->ndim;
    for (int i = 0; good && i < t->ndim; i++) {
        shape[i] = want->shape[i] < 0 ? t->shape[i] : want->shape[i]; /* a size that follows from the input fits */
        good = shape[i] == t->shape[i];
    }
    if (good) return DL_OK;
    for (int i = 0; i < want->ndim; i++)
        shape[i] = want->shape[i] < 0 && t->ndim ? t->shape[t->ndim - 1] : want->shape[i];
    return dl_fail(DL_ERR_SHAPE, "tensor '%s' has shape %s, the net's has %s", part->path ? part->path : "",
                   dl_shape_of(t), dl_shape_text(want->ndim, shape));
}

dl_status dl_part_weights_make(dl_module *m, long size, int device) {
    for (int i = 0; i < m->nchild; i++) {
        dl_module *part = m->child[i].m;
        if (part->built || !dl_module_holds_tensor(part)) continue;
        dl_net_input *want = &part->inputs.in[0];
        const dl_net_input declared = *want; /* what a copy that is made anew waits with */
        for (int d = 0; d < want->ndim; d++)
            if (want->shape[d] < 0) want->shape[d] = size;
        part->dtype = m->dtype;
        const dl_status st = dl_module_build_one(part, 0, device);
        *want = declared;
        DL_TRY(st);
    }
    return DL_OK;
}

dl_module *dl_part_of(const dl_module *m, const char *name) {
    for (int i = 0; i < m->nchild; i++)
        if (!strcmp(m->child[i].name, name)) return m->child[i].m;
    return NULL;
}

dl_tensor *dl_part_tensor(const dl_module *m, const char *name) {
    const dl_module *part = dl_part_of(m, name);
    return part ? part->tensor[0] : NULL;
}

dl_pack *dl_layer_results(dl_tensor **t, int n) {
    dl_pack *p = t[0] ? dl_pack_new(t, n, NULL, NULL) : NULL;
    for (int i = 0; i < n; i++) dl_unref(t[i]);
    return p;
}
