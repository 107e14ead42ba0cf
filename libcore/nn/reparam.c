/* Layers whose weight is computed from other parameters: weightnorm { ... } and spectralnorm { ... } take over the
 * weight of the layer in braces, which has one only while it runs. */
#include <stdio.h>
#include <string.h>

#include "core/scope.h"
#include "nn/layers.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"
#include "dlcore/elementary.h"
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"

/* The layer in braces; NULL with an error recorded: it cannot be one. */
static dl_module *inner(const dl_module *m) {
    dl_module *c = m->nchild == 1 ? m->child[0].m : NULL;
    const char *first = c ? c->row->tensors[0] : NULL;
    if (c && c->row->build && first && !strcmp(first, "weight") && c->row->nparams && !c->tie) return c;
    dl_fail_hint(DL_ERR_VALUE, m->row->kind.example, "layer %s takes one layer with a weight of its own in braces",
                 m->row->kind.name);
    return NULL;
}

static long inner_input(const dl_module *m, const dl_tensor *x) {
    const dl_module *c = inner(m);
    return c ? c->row->size_of_input(c, x) : -1;
}

/* Tensor `source` of m has the shape of the weight. */
static long inner_stored(const dl_module *m, int slot, int source, const dl_tensor *t) {
    const dl_module *c = inner(m);
    return !c ? -1 : slot != source ? -2 : c->row->size_of_stored(c, 0, t);
}

/* Makes the tensors of the layer in braces, and its weight that of slot `source` of m. The random numbers are those of
 * m, which is being made. */
static dl_status take_weight(dl_module *m, int source, long size) {
    dl_module *c = inner(m);
    if (!c) return dl_failed();
    for (int i = 0; i < DL_LAYER_TENSORS && (!c->built || !c->tensor[0]); i++) { /* after loading that failed */
        dl_unref(c->tensor[i]);
        c->tensor[i] = NULL;
    }
    if (!c->tensor[0]) {
        c->dtype = m->dtype, c->device = m->device;
        DL_TRY(c->row->build(c, size));
        c->built = true;
    }
    m->tensor[source] = c->tensor[0];
    c->tensor[0] = NULL;
    c->borrows = true;
    char name[DL_PATH_MAX + 32];
    snprintf(name, sizeof name, "%s%s%s", m->path ? m->path : "", m->path ? "." : "", m->row->tensors[source]);
    return dl_tensor_set_name(m->tensor[source], name);
}

/* What the layer makes of x with that weight. */
static dl_tensor *run_with(dl_module *m, dl_tensor *weight, dl_tensor *x) {
    dl_module *c = inner(m);
    if (!c || !weight) return NULL;
    c->tensor[0] = dl_ref(weight);
    dl_tensor *y = dl_part_run(m, m->child[0].name, x);
    dl_unref(c->tensor[0]);
    c->tensor[0] = NULL;
    return y;
}

static dl_status check_dim(const dl_module *m, const dl_tensor *weight, long dim) {
    if (dim >= -1 && dim < weight->ndim) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "layer %s: dim is -1, of the whole weight, to %d, not %ld", m->row->kind.name,
                   weight->ndim - 1, dim);
}

/* ---------------------------------------------------------------- weightnorm: g v / |v| */

enum { NORM_G, NORM_V };

/* Lengths of the slices along a dimension, of which the others have size 1; of the whole for -1. */
static dl_tensor *lengths(dl_tensor *v, long dim) {
    long others[DL_MAX_DIM];
    int n = 0;
    for (int i = 0; i < v->ndim; i++)
        if (i != dim) others[n++] = i;
    return n ? dl_norm(v, others, n, dim >= 0, 2) : dl_abs(v);
}

long dl_layer_weightnorm_input(const dl_module *m, const dl_tensor *x) { return inner_input(m, x); }

long dl_layer_weightnorm_stored(const dl_module *m, int slot, const dl_tensor *t) {
    return inner_stored(m, slot, NORM_V, t);
}

dl_status dl_layer_weightnorm_build(dl_module *m, long size) {
    DL_TRY(take_weight(m, NORM_V, size));
    DL_TRY(check_dim(m, m->tensor[NORM_V], dl_m_int(m, "dim")));
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *g = lengths(m->tensor[NORM_V], dl_m_int(m, "dim"));
    if (!g) return dl_failed();
    DL_TRY(dl_module_make(m, NORM_G, g->ndim, g->shape, "ones", 0));
    return dl_assign(m->tensor[NORM_G], g);
}

dl_tensor *dl_layer_weightnorm(dl_module *m, dl_tensor *x) {
    DL_OWNED dl_tensor *norm = lengths(m->tensor[NORM_V], dl_m_int(m, "dim"));
    DL_OWNED dl_tensor *factor = norm ? dl_div(m->tensor[NORM_G], norm) : NULL;
    DL_OWNED dl_tensor *weight = factor ? dl_mul(m->tensor[NORM_V], factor) : NULL;
    return run_with(m, weight, x);
}

/* ---------------------------------------------------------------- spectralnorm: w / its largest singular value */

enum { SPECTRAL_W, SPECTRAL_U, SPECTRAL_V };

/* The dimension of outputs: of transposed convolutions the second. */
static long outputs_of(const dl_module *m) {
    const dl_optval *dim = dl_m_opt(m, "dim");
    return dim->given ? dim->u.i : !strncmp(inner(m)->row->kind.name, "convtranspose", 13);
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
static dl_status iterate(dl_module *m, dl_tensor *matrix, long steps) {
    DL_SCOPED_GRAD_MODE(0);
    const double eps = dl_m_float(m, "eps");
    DL_OWNED dl_tensor *turned = dl_permute(matrix, (long[]){1, 0}, 2);
    for (long i = 0; i < steps; i++) {
        DL_TRY(improve(turned, m->tensor[SPECTRAL_U], m->tensor[SPECTRAL_V], eps));
        DL_TRY(improve(matrix, m->tensor[SPECTRAL_V], m->tensor[SPECTRAL_U], eps));
    }
    return DL_OK;
}

dl_status dl_layer_spectralnorm_check(dl_module *m) {
    const long n = dl_m_int(m, "n_power_iterations");
    return n > 0 ? DL_OK
                 : dl_fail(DL_ERR_VALUE, "layer spectralnorm: n_power_iterations must be at least 1, not %ld", n);
}

long dl_layer_spectralnorm_input(const dl_module *m, const dl_tensor *x) { return inner_input(m, x); }

long dl_layer_spectralnorm_stored(const dl_module *m, int slot, const dl_tensor *t) {
    return inner_stored(m, slot, SPECTRAL_W, t);
}

dl_status dl_layer_spectralnorm_build(dl_module *m, long size) {
    enum { FIRST = 15 }; /* steps, as PyTorch does */
    DL_TRY(take_weight(m, SPECTRAL_W, size));
    const long dim = outputs_of(m);
    DL_TRY(check_dim(m, m->tensor[SPECTRAL_W], dim));
    if (dim < 0) return dl_fail(DL_ERR_VALUE, "layer spectralnorm: dim is a dimension of the weight, not %ld", dim);
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *matrix = as_matrix(m->tensor[SPECTRAL_W], dim);
    if (!matrix) return dl_failed();
    DL_TRY(dl_module_make(m, SPECTRAL_U, 1, &matrix->shape[0], "deviation", 1));
    DL_TRY(dl_module_make(m, SPECTRAL_V, 1, &matrix->shape[1], "deviation", 1));
    return iterate(m, matrix, FIRST);
}

dl_tensor *dl_layer_spectralnorm(dl_module *m, dl_tensor *x) {
    DL_OWNED dl_tensor *matrix = as_matrix(m->tensor[SPECTRAL_W], outputs_of(m));
    if (!matrix) return NULL;
    if (dl_m_training(m) && iterate(m, matrix, dl_m_int(m, "n_power_iterations")) != DL_OK) return NULL;
    /* copies: the next step of training changes u and v */
    DL_OWNED dl_tensor *u = dl_clone(m->tensor[SPECTRAL_U]), *v = dl_clone(m->tensor[SPECTRAL_V]);
    DL_OWNED dl_tensor *image = v ? dl_mv(matrix, v) : NULL;
    DL_OWNED dl_tensor *largest = u && image ? dl_dot(u, image) : NULL;
    DL_OWNED dl_tensor *weight = largest ? dl_div(m->tensor[SPECTRAL_W], largest) : NULL;
    return run_with(m, weight, x);
}
