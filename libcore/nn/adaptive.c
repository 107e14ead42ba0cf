/* The softmax of many classes in clusters (Grave et al.: Efficient softmax approximation for GPUs, 2017): frequent
 * classes and one entry for each cluster stand in the head; the classes of a cluster are computed for the samples alone
 * whose label is among them. Parts, names and order of computation are PyTorch's. */
#include <stdio.h>
#include <string.h>

#include "nn/layers.h"
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/loss.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "dlcore/where.h"

/* Clusters of the options: classes from[i] to from[i + 1] - 1; before from[0] those of the head. */
typedef struct clusters {
    long from[DL_MAX_DIM + 1];
    int n;
} clusters;

static clusters clusters_of(const dl_module *m) {
    const dl_optval *at = dl_m_opt(m, "cutoffs");
    clusters c = {.n = at->n};
    for (int i = 0; i < at->n; i++) c.from[i] = at->u.v[i];
    c.from[at->n] = dl_m_int(m, "n_classes");
    return c;
}

dl_status dl_layer_adaptive_softmax_check(dl_module *m) {
    const char *kind = m->row->kind.name;
    const clusters c = clusters_of(m);
    if (dl_m_int(m, "in_features") < 1)
        return dl_fail(DL_ERR_VALUE, "layer %s: in_features must be at least 1, not %ld", kind,
                       dl_m_int(m, "in_features"));
    if (!(dl_m_float(m, "div_value") > 0))
        return dl_fail(DL_ERR_VALUE, "layer %s: div_value must be above 0, not %g", kind, dl_m_float(m, "div_value"));
    if (c.n < 1 || c.n > DL_MAX_DIM)
        return dl_fail(DL_ERR_VALUE, "layer %s: 1 to %d cutoffs are needed, not %d", kind, DL_MAX_DIM, c.n);
    for (int i = 0; i <= c.n; i++)
        if (c.from[i] < 1 || (i && c.from[i] <= c.from[i - 1]))
            return dl_fail(DL_ERR_VALUE, "layer %s: cutoffs must rise, from 1 on to below n_classes", kind);
    return DL_OK;
}

static dl_status add_linear(dl_module *m, const char *name, long out, long bias) {
    const dl_arg args[] = {{.name = "out_features", .kind = DL_ARG_INT, .i = out},
                           {.name = "bias", .kind = DL_ARG_BOOL, .i = bias}};
    return dl_part_layer(m, name, "linear", args, 2);
}

dl_status dl_layer_adaptive_softmax_parts(dl_module *m) {
    const clusters c = clusters_of(m);
    double size = (double)dl_m_int(m, "in_features");
    DL_TRY(add_linear(m, "head", c.from[0] + c.n, dl_m_int(m, "head_bias")));
    DL_TRY(dl_part_layer(m, "tail", "list", NULL, 0));
    dl_module *tail = dl_part_of(m, "tail");
    for (int i = 0; i < c.n; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        size /= dl_m_float(m, "div_value");
        if (size < 1)
            return dl_fail(DL_ERR_VALUE,
                           "layer %s: cluster %d would have a projection of size 0; give fewer cutoffs or a "
                           "smaller div_value",
                           m->row->kind.name, i);
        DL_TRY(dl_part_layer(tail, name, "sequential", NULL, 0));
        DL_TRY(add_linear(dl_part_of(tail, name), "0", (long)size, 0));
        DL_TRY(add_linear(dl_part_of(tail, name), "1", c.from[i + 1] - c.from[i], 0));
    }
    return DL_OK;
}

/* Logarithms of the shares in the head, or of the classes in cluster i. */
static dl_tensor *head_of(dl_module *m, dl_pool *p, dl_tensor *x) {
    return K(dl_log_softmax(K(dl_part_run(m, "head", x)), -1));
}
static dl_tensor *tail_of(dl_module *m, dl_pool *p, dl_tensor *x, int i) {
    char path[24];
    snprintf(path, sizeof path, "tail.%d", i);
    return K(dl_log_softmax(K(dl_part_run(m, path, x)), -1));
}

/* Of all classes, [N, n_classes]. */
static dl_tensor *of_all(dl_module *m, dl_pool *p, dl_tensor *x) {
    const clusters c = clusters_of(m);
    dl_tensor *head = head_of(m, p, x), *part[DL_MAX_DIM + 1] = {head ? K(dl_narrow(head, 1, 0, c.from[0])) : NULL};
    for (int i = 0; i < c.n && part[i]; i++)
        part[i + 1] = K(dl_add(tail_of(m, p, x, i), K(dl_narrow(head, 1, c.from[0] + i, 1))));
    return part[c.n] ? dl_cat(part, c.n + 1, 1) : NULL;
}

static dl_status check_target(const dl_module *m, dl_pool *p, dl_tensor *x, dl_tensor *target) {
    long low = 0, high = 0;
    if (target->ndim != 1 || target->shape[0] != x->shape[0])
        return dl_fail(DL_ERR_SHAPE, "layer %s: labels of shape %s do not fit an input of shape %s", m->row->kind.name,
                       dl_shape_text(target->ndim, target->shape), dl_shape_text(x->ndim, x->shape));
    if (dl_dtype_is_smooth((dl_dtype)target->dtype))
        return dl_fail(DL_ERR_DTYPE, "layer %s: labels are whole numbers, not %s", m->row->kind.name,
                       dl_type_of(target));
    if (!target->numel) return DL_OK;
    DL_TRY(dl_item_i(K(dl_amin(target, NULL, 0, 0)), &low));
    DL_TRY(dl_item_i(K(dl_amax(target, NULL, 0, 0)), &high));
    if (low >= 0 && high < dl_m_int(m, "n_classes")) return DL_OK;
    return dl_fail(DL_ERR_INDEX, "layer %s: label %ld is not one of the %ld classes", m->row->kind.name,
                   low < 0 ? low : high, dl_m_int(m, "n_classes"));
}

/* Elements index[i] of row i: [N]. */
static dl_tensor *picked(dl_pool *p, dl_tensor *rows, dl_tensor *index) {
    dl_tensor *column = index ? K(dl_with_dim(index, -1)) : NULL, *some = column ? K(dl_gather(rows, column, 1)) : NULL;
    return some ? K(dl_reshape(some, index->shape, 1)) : NULL;
}

/* y with what cluster i gives for the samples of its classes; `in` says which these are. */
static dl_tensor *with_cluster(dl_module *m, dl_pool *p, dl_tensor *y, dl_tensor *x, dl_tensor *target, dl_tensor *in,
                               int i, long from) {
    const long all = -1;
    dl_tensor *rows = K(dl_reshape(K(dl_nonzero(in)), &all, 1));
    if (!rows || !rows->numel) return rows ? y : NULL;
    dl_tensor *some = K(dl_index_select(target, rows, 0)), *own = some ? K(dl_sub(some, K(dl_scalar_i(from)))) : NULL;
    dl_tensor *tail = own ? tail_of(m, p, K(dl_index_select(x, rows, 0)), i) : NULL;
    return tail ? K(dl_index_add(y, rows, picked(p, tail, own), 0)) : NULL;
}

/* Of the labels alone, [N]. */
static dl_tensor *of_labels(dl_module *m, dl_pool *p, dl_tensor *x, dl_tensor *target) {
    const clusters c = clusters_of(m);
    dl_tensor *in[DL_MAX_DIM], *entry = target;
    for (int i = 0; i < c.n && entry; i++) {
        in[i] = K(dl_logical_and(K(dl_ge(target, K(dl_scalar_i(c.from[i])))),
                                 K(dl_lt(target, K(dl_scalar_i(c.from[i + 1]))))));
        entry = in[i] ? K(dl_where(in[i], K(dl_scalar_i(c.from[0] + i)), entry)) : NULL;
    }
    dl_tensor *head = entry ? head_of(m, p, x) : NULL, *y = head ? picked(p, head, entry) : NULL;
    for (int i = 0; i < c.n && y; i++) y = with_cluster(m, p, y, x, target, in[i], i, c.from[i]);
    return y;
}

static dl_status check_input(const dl_module *m, const dl_tensor *x) {
    if (x->ndim == 2 && x->shape[1] == dl_m_int(m, "in_features")) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "layer %s takes [N,%ld] or [%ld], not %s", m->row->kind.name,
                   dl_m_int(m, "in_features"), dl_m_int(m, "in_features"), dl_shape_text(x->ndim, x->shape));
}

/* With labels their logarithms [N] and the loss, else the logarithms of all classes. One sample may come alone. */
dl_pack *dl_layer_adaptive_softmax_call(dl_module *m, dl_pack *in) {
    POOL;
    dl_tensor *x = dl_pack_tensor(in, 0), *target = dl_pack_tensor(in, 1), *y[2] = {NULL};
    const bool alone = x->ndim == 1;
    if (alone) x = K(dl_with_dim(x, 0));
    if (alone && target && target->ndim == 0) target = K(dl_with_dim(target, 0));
    if (!x || check_input(m, x) != DL_OK) return NULL;
    if (!target) {
        dl_tensor *all = K(of_all(m, p, x));
        y[0] = all && alone ? dl_reshape(all, all->shape + 1, 1) : dl_ref(all);
        return dl_layer_results(y, 1);
    }
    if (check_target(m, p, x, target) != DL_OK) return NULL;
    dl_tensor *each = of_labels(m, p, x, target);
    if (!each) return NULL;
    y[0] = alone ? dl_reshape(each, each->shape, 0) : dl_ref(each);
    y[1] = dl_neg(K(dl_mean(each, NULL, 0, 0)));
    return dl_layer_results(y, 2);
}
