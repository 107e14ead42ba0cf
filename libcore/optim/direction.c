/* Directions that are matrices: muon's. */
#include "optim/direction.h"
#include "dlcore/arithmetic.h"
#include "dlcore/elementary.h"
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/view.h"
#include "ops/compose/compose.h"

#include <math.h>
#include <string.h>

#define OPTIMIZER(...)
#define ALGORITHM(...)
#define DIRECTION(id) {#id, dl_direction_##id},
static const struct {
    const char *row;
    dl_direction_fn *fn;
} directions[] = {
#include "optim/optimizers.def"
};

dl_direction_fn *dl_direction_of(const dl_opt_row *row) {
    for (size_t i = 0; i < sizeof directions / sizeof *directions; i++)
        if (!strcmp(directions[i].row, row->kind.name)) return directions[i].fn;
    return NULL;
}

/* ---- Jordan et al.: Muon (2024) */

static dl_tensor *times(dl_pool *p, dl_tensor *t, double by) { return K(dl_mul(t, K(dl_scalar_f(by)))); }

static dl_tensor *turned(dl_pool *p, dl_tensor *t) { return t ? K(dl_permute(t, (long[]){1, 0}, 2)) : NULL; }

/* A step of Newton and Schulz: a X + (b G + c G G) X, G = X X^T; a new reference. */
static dl_tensor *nearer(dl_tensor *x) {
    POOL;
    dl_tensor *gram = K(dl_matmul(x, turned(p, x)));
    dl_tensor *both = K(dl_add(times(p, gram, -4.7750), times(p, K(dl_matmul(gram, gram)), 2.0315)));
    return dl_add(times(p, x, 3.4445), K(dl_matmul(both, x)));
}

/* The matrix with singular values near 1 and the singular vectors of x, which is not higher than wide. */
static dl_tensor *orthogonal(dl_pool *p, dl_tensor *x, double eps, int steps) {
    dl_tensor *length = K(dl_clamp(K(dl_sqrt(K(dl_sum(K(dl_square(x)), NULL, 0, 0)))), &eps, NULL));
    dl_tensor *y = length ? dl_div(x, length) : NULL;
    for (int i = 0; y && i < steps; i++) {
        dl_tensor *was = y;
        y = nearer(was);
        dl_unref(was);
    }
    return K(y);
}

/* The momentum after this step, with Nesterov's what it is one step ahead. */
static dl_tensor *momentum_of(dl_pool *p, dl_tensor *buffer, dl_tensor *g, double keep, bool nesterov) {
    dl_tensor *m = K(dl_add(times(p, buffer, keep), times(p, g, 1 - keep)));
    return nesterov ? K(dl_add(times(p, m, keep), times(p, g, 1 - keep))) : m;
}

/* Parameters that are no matrices count as [first dimension, all others]. */
dl_status dl_direction_muon(const dl_opt_row *row, const dl_optval *val, dl_opt_param *param) {
    POOL;
    const dl_kind_row *k = &row->kind;
    const dl_tensor *t = param->p;
    const long high = t->ndim ? t->shape[0] : 1, wide = high ? t->numel / high : 0;
    if (!t->numel) return DL_OK;
    dl_tensor *g = K(dl_to_dtype(t->grad, dl_optim_state_dtype(t)));
    dl_tensor *m =
        momentum_of(p, param->state[0], g, dl_option_f(k, val, "momentum"), dl_option_i(k, val, "nesterov") != 0);
    dl_tensor *x = m ? K(dl_reshape(m, (long[]){high, wide}, 2)) : NULL;
    if (high > wide) x = turned(p, x);
    dl_tensor *y = x ? orthogonal(p, x, dl_option_f(k, val, "eps"), (int)dl_option_f(k, val, "ns_steps")) : NULL;
    if (high > wide) y = turned(p, y);
    const double ratio = dl_option_i(k, val, "match_rms_adamw") ? 0.2 * sqrt((double)(high > wide ? high : wide))
                                                                : sqrt(fmax(1, (double)high / (double)wide));
    dl_tensor *d = y ? times(p, y, ratio) : NULL, *shaped = d ? K(dl_reshape(d, t->shape, t->ndim)) : NULL;
    return shaped ? dl_assign(param->state[1], shaped) : dl_failed();
}
