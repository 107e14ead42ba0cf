/* The ways to compute a tensor of a layer: by a mask, from lengths and directions, divided by its largest singular
 * value, by a function; and the layers in braces that compute the weight of another. */
#include "nn/reparam.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "nn/layers.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"
#include "dlcore/elementary.h"
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"

static const char *way_of(const dl_module *m, const dl_reparam *r) {
    return r->inside ? m->row->kind.name : r->row->name;
}

static dl_status check_dim(const dl_module *m, const dl_reparam *r, const dl_tensor *weight, long dim) {
    if (dim >= -1 && dim < weight->ndim) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "%s%s: dim is -1, of the whole weight, to %d, not %ld", r->inside ? "layer " : "",
                   way_of(m, r), weight->ndim - 1, dim);
}

/* What is trained is the value itself. */
static int split_same(dl_module *m DL_UNUSED, const dl_reparam *r DL_UNUSED, dl_tensor *value, dl_tensor **out) {
    return out[0] = dl_ref(value), 1;
}

/* ---------------------------------------------------------------- mask: w where it is 1 */

static dl_status begin_mask(dl_module *m DL_UNUSED, const dl_reparam *r DL_UNUSED, dl_tensor *value, dl_tensor **out) {
    out[0] = dl_tensor_full(value->ndim, value->shape, (dl_dtype)value->dtype, dl_device_of(value), 1);
    return out[0] ? DL_OK : dl_failed();
}

static dl_tensor *masked(dl_module *m DL_UNUSED, const dl_reparam *r DL_UNUSED, dl_tensor *const *t, int n DL_UNUSED) {
    return dl_mul(t[0], t[1]);
}

/* ---------------------------------------------------------------- weight norm: g v / |v| */

enum { NORM_G, NORM_V };

/* Lengths of the slices along a dimension, of which the others have size 1; of the whole for -1. */
static dl_tensor *lengths(dl_tensor *v, long dim) {
    long others[DL_MAX_DIM];
    int n = 0;
    for (int i = 0; i < v->ndim; i++)
        if (i != dim) others[n++] = i;
    return n ? dl_norm(v, others, n, dim >= 0, 2) : dl_abs(v);
}

static int split_norm(dl_module *m, const dl_reparam *r, dl_tensor *value, dl_tensor **out) {
    const long dim = dl_reparam_opt(m, r, "dim")->u.i;
    if (check_dim(m, r, value, dim) != DL_OK || !(out[NORM_G] = lengths(value, dim))) return -1;
    out[NORM_V] = dl_ref(value);
    return 2;
}

static dl_tensor *normed(dl_module *m, const dl_reparam *r, dl_tensor *const *t, int n DL_UNUSED) {
    DL_OWNED dl_tensor *norm = lengths(t[NORM_V], dl_reparam_opt(m, r, "dim")->u.i);
    DL_OWNED dl_tensor *factor = norm ? dl_div(t[NORM_G], norm) : NULL;
    return factor ? dl_mul(t[NORM_V], factor) : NULL;
}

/* ---------------------------------------------------------------- spectral norm: w / its largest singular value */

enum { SPECTRAL_W, SPECTRAL_U, SPECTRAL_V };

/* The dimension of outputs: of transposed convolutions the second. */
static long outputs_of(const dl_module *m, const dl_reparam *r) {
    const dl_optval *dim = dl_reparam_opt(m, r, "dim");
    const dl_module *layer = r->inside ? dl_reparam_inner(m) : m;
    return dim->given ? dim->u.i : layer && !strncmp(layer->row->kind.name, "convtranspose", 13);
}

/* The weight as a matrix, whose rows are of dimension dim. */
static dl_tensor *as_matrix(dl_tensor *w, long dim) {
    long order[DL_MAX_DIM] = {dim};
    for (int i = 0, n = 1; i < w->ndim; i++)
        if (i != dim) order[n++] = i;
    DL_OWNED dl_tensor *turned = dl_permute(w, order, w->ndim);
    return turned ? dl_reshape(turned, (long[]){w->shape[dim], -1}, 2) : NULL;
}

/* to = matrix from, of length 1. */
static dl_status improve(dl_tensor *matrix, dl_tensor *from, dl_tensor *to, double eps) {
    DL_OWNED dl_tensor *product = matrix ? dl_mv(matrix, from) : NULL;
    DL_OWNED dl_tensor *unit = product ? dl_normalize(product, 2, 0, eps) : NULL;
    return unit ? dl_assign(to, unit) : dl_failed();
}

/* Steps of power iteration, which bring u and v nearer to the singular vectors. */
static dl_status iterate(dl_tensor *matrix, dl_tensor *u, dl_tensor *v, double eps, long steps) {
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *turned = dl_permute(matrix, (long[]){1, 0}, 2);
    for (long i = 0; i < steps; i++) {
        DL_TRY(improve(turned, u, v, eps));
        DL_TRY(improve(matrix, v, u, eps));
    }
    return DL_OK;
}

static dl_tensor *random_vector(const dl_tensor *like, long n) {
    dl_tensor *t = dl_tensor_empty(1, &n, (dl_dtype)like->dtype, dl_device_of(like));
    if (t && dl_init_fill(t, "deviation", 1) != DL_OK) return dl_unref(t), NULL;
    return t;
}

static dl_status begin_spectral(dl_module *m, const dl_reparam *r, dl_tensor *value, dl_tensor **out) {
    enum { FIRST = 15 }; /* steps, as PyTorch does */
    const long dim = outputs_of(m, r), steps = dl_reparam_opt(m, r, "n_power_iterations")->u.i;
    DL_TRY(check_dim(m, r, value, dim));
    if (dim < 0)
        return dl_fail(DL_ERR_VALUE, "%s%s: dim is a dimension of the weight, not %ld", r->inside ? "layer " : "",
                       way_of(m, r), dim);
    if (steps < 1)
        return dl_fail(DL_ERR_VALUE, "%s: n_power_iterations must be at least 1, not %ld", way_of(m, r), steps);
    DL_OWNED dl_tensor *matrix = as_matrix(value, dim);
    if (!matrix || !(out[0] = random_vector(matrix, matrix->shape[0])) ||
        !(out[1] = random_vector(matrix, matrix->shape[1])))
        return dl_failed();
    return iterate(matrix, out[0], out[1], dl_reparam_opt(m, r, "eps")->u.f, FIRST);
}

static dl_tensor *divided(dl_module *m, const dl_reparam *r, dl_tensor *const *t, int n DL_UNUSED) {
    DL_OWNED dl_tensor *matrix = as_matrix(t[SPECTRAL_W], outputs_of(m, r));
    if (!matrix) return NULL;
    const bool runs = dl_m_training(m) && !dl_reparam_reading();
    if (runs && iterate(matrix, t[SPECTRAL_U], t[SPECTRAL_V], dl_reparam_opt(m, r, "eps")->u.f,
                        dl_reparam_opt(m, r, "n_power_iterations")->u.i) != DL_OK)
        return NULL;
    /* copies: the next step of training changes u and v */
    DL_OWNED dl_tensor *u = dl_clone(t[SPECTRAL_U]), *v = dl_clone(t[SPECTRAL_V]);
    DL_OWNED dl_tensor *image = v ? dl_mv(matrix, v) : NULL;
    DL_OWNED dl_tensor *largest = u && image ? dl_dot(u, image) : NULL;
    return largest ? dl_div(t[SPECTRAL_W], largest) : NULL;
}

/* ---------------------------------------------------------------- a function */

static int split_inverse(dl_module *m, const dl_reparam *r, dl_tensor *value, dl_tensor **out) {
    if (!r->inverse) return split_same(m, r, value, out);
    dl_pack *in = dl_pack_new(&value, 1, NULL, NULL), *all = in ? dl_module_call(r->inverse, in) : NULL;
    dl_pack_unref(in);
    int n = all ? dl_pack_count(all) : -1;
    if (n > DL_REPARAM_TENSORS || !n)
        dl_fail(DL_ERR_VALUE, "the inverse of a parametrization gives 1 to %d tensors, not %d", DL_REPARAM_TENSORS, n),
            n = -1;
    for (int i = 0; i < n; i++) { /* of their own: a view, or the value itself, may come */
        if (!(out[i] = dl_clone(dl_pack_tensor(all, i)))) n = -1;
    }
    dl_pack_unref(all);
    return n;
}

static dl_tensor *by_function(dl_module *m, const dl_reparam *r, dl_tensor *const *t, int n) {
    char path[DL_PATH_MAX];
    int number = 0;
    for (const dl_reparam *f = m->reparams; f != r; f = f->next) number += f->fn && !strcmp(f->name, r->name);
    snprintf(path, sizeof path, "parametrizations.%.100s.%d", r->name, number);
    if (n == 1) return dl_part_run(m, path, t[0]);
    dl_pack *all = dl_part_call(m, path, t, n);
    dl_tensor *y = all ? dl_ref(dl_pack_single(all, "what a parametrization gives", "return one tensor")) : NULL;
    if (!y && !dl_error_last())
        dl_fail(DL_ERR_VALUE, "the parametrization of %s takes one tensor, its inverse gives %d", r->name, n);
    dl_pack_unref(all);
    return y;
}

/* ---------------------------------------------------------------- the table */

static const dl_reparam_row rows[] = {
    {"mask", NULL, {"_orig", "_mask"}, 1, 1, 0, split_same, begin_mask, masked},
    {"weight_norm", "weightnorm", {"_g", "_v"}, 2, 0, NORM_V, split_norm, NULL, normed},
    {"spectral_norm", "spectralnorm", {"_orig", "_u", "_v"}, 1, 2, 0, split_same, begin_spectral, divided},
    {"function", NULL, {NULL}, 1, 0, 0, split_inverse, NULL, by_function},
};
enum { ROWS = sizeof rows / sizeof *rows };

const dl_reparam_row *dl_reparam_row_find(const char *name) {
    for (int i = 0; i < ROWS; i++)
        if (!strcmp(rows[i].name, name)) return &rows[i];
    return NULL;
}

const dl_reparam_row *dl_reparam_row_of_layer(const char *layer) {
    for (int i = 0; i < ROWS; i++)
        if (rows[i].layer && !strcmp(rows[i].layer, layer)) return &rows[i];
    return NULL;
}

/* ---------------------------------------------------------------- weightnorm { ... }, spectralnorm { ... } */

dl_status dl_layer_spectralnorm_check(dl_module *m) {
    const long n = dl_m_int(m, "n_power_iterations");
    return n > 0 ? DL_OK
                 : dl_fail(DL_ERR_VALUE, "layer spectralnorm: n_power_iterations must be at least 1, not %ld", n);
}

long dl_layer_reparam_input(const dl_module *m, const dl_tensor *x) {
    const dl_module *c = dl_reparam_inner(m);
    return c ? c->row->size_of_input(c, x) : -1;
}

/* Of a tensor with the shape of the weight. */
long dl_layer_reparam_stored(const dl_module *m, int slot DL_UNUSED, const dl_tensor *t) {
    const dl_module *c = dl_reparam_inner(m);
    return c ? c->row->size_of_stored(c, 0, t) : -1;
}

/* The random numbers of the layer in braces are those of m, which is being made. */
dl_status dl_layer_reparam_build(dl_module *m, long size) {
    dl_module *c = dl_reparam_inner(m);
    if (!c) return dl_failed();
    if (c->built) return DL_OK;
    c->dtype = m->dtype, c->device = m->device;
    DL_TRY(c->row->build(c, size));
    c->built = true;
    return DL_OK;
}

dl_tensor *dl_layer_reparam(dl_module *m, dl_tensor *x) {
    for (int i = 0; i < m->nchild; i++)
        if (!m->child[i].m->source) return dl_part_run(m, m->child[i].name, x);
    return NULL;
}
