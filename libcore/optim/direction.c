/* Directions that depend on whole matrices: muon's and adafactor's. */
#include "optim/direction.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/elementary.h"
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
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

#define OPTIMIZER(...)
#define ALGORITHM(...)
#define FACTORED(id) #id,
static const char *const factored[] = {
#include "optim/optimizers.def"
};

bool dl_direction_passes(const dl_opt_row *row) {
    for (size_t i = 0; i < sizeof factored / sizeof *factored; i++)
        if (!strcmp(factored[i], row->kind.name)) return true;
    return false;
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
dl_status dl_direction_muon(const dl_opt_row *row, const dl_optval *val, dl_opt_param *param,
                            DL_UNUSED dl_tensor *const *number) {
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

/* ---- Shazeer, Stern: Adafactor (2018), as PyTorch has it: means of squares by rows and by columns stand for those of
 * the elements. The direction is what the gradient is multiplied by. A vector has its own, in the place of those by
 * rows. */

enum { DIRECTION, BY_ROWS, BY_COLUMNS };

static dl_tensor *mean_of(dl_pool *p, dl_tensor *t, long dim) { return t ? K(dl_mean(t, &dim, 1, 1)) : NULL; }

static double precision_of(dl_dtype t) {
    return t == DL_F64 ? 0x1p-52 : t == DL_F32 ? 0x1p-23 : t == DL_F16 ? 0x1p-10 : 0x1p-7;
}

/* The average of a state after this step, of which `share` is new; it is kept unless the step is halted. */
static dl_tensor *averaged(dl_pool *p, dl_tensor **state, dl_tensor *now, dl_tensor *share, dl_tensor *halt) {
    if (now && !*state) *state = dl_tensor_zeros(now->ndim, now->shape, now->dtype, now->st->device);
    if (!now || !*state) return NULL;
    dl_tensor *next = K(dl_add(*state, K(dl_mul(share, K(dl_sub(now, *state))))));
    dl_tensor *kept = halt && next ? K(dl_where(halt, *state, next)) : next;
    return kept && dl_assign(*state, kept) == DL_OK ? next : NULL;
}

/* Root of the mean square, at least `low`. */
static dl_tensor *size_of(dl_pool *p, dl_tensor *t, double by, double low) {
    dl_tensor *mean = t ? K(dl_mean(K(dl_square(t)), NULL, 0, 0)) : NULL;
    return mean ? K(dl_clamp(times(p, K(dl_sqrt(mean)), by), &low, NULL)) : NULL;
}

/* Mean squares of the gradient's elements, estimated. */
static dl_tensor *squares_of(dl_pool *p, dl_opt_param *param, dl_tensor *g, dl_tensor *share, dl_tensor *halt,
                             double eps) {
    dl_tensor *square = K(dl_square(g));
    if (param->p->ndim < 2) return averaged(p, &param->state[BY_ROWS], square, share, halt);
    dl_tensor *rows = averaged(p, &param->state[BY_ROWS], mean_of(p, square, -1), share, halt),
              *columns = averaged(p, &param->state[BY_COLUMNS], mean_of(p, square, -2), share, halt),
              *all = mean_of(p, rows, -2), *least = all ? K(dl_clamp(all, &eps, NULL)) : NULL;
    return rows && columns && least ? K(dl_div(K(dl_mul(rows, columns)), least)) : NULL;
}

dl_status dl_direction_adafactor(const dl_opt_row *row, const dl_optval *val, dl_opt_param *param,
                                 dl_tensor *const *number) {
    POOL;
    const dl_kind_row *k = &row->kind;
    dl_tensor *t = param->p;
    const double *given = dl_option(k, val, "eps")->u.fv, eps = given[0] > 0 ? given[0] : precision_of(t->dtype);
    const double least = eps * eps, sign = dl_option_i(k, val, "maximize") ? -1 : 1;
    const dl_dtype dtype = dl_optim_state_dtype(t);
    if (!t->numel) return DL_OK;
    dl_tensor *share = K(dl_pow(number[1], N(dl_option_f(k, val, "beta2_decay"))));
    dl_tensor *flag = number[0]->numel > 1 ? K(dl_select(number[0], 0, 1)) : NULL;
    dl_tensor *halt = flag ? K(dl_ne(flag, N(0))) : NULL;
    dl_tensor *g = K(dl_to_dtype(t->grad, dtype)), *w = K(dl_to_dtype(t, dtype));
    dl_tensor *v = g && share ? squares_of(p, param, g, share, halt, eps) : NULL;
    dl_tensor *root = v ? K(dl_rsqrt(K(dl_clamp(v, &least, NULL)))) : NULL, *u = root ? K(dl_mul(g, root)) : NULL;
    dl_tensor *limit = size_of(p, u, 1 / dl_option_f(k, val, "d"), 1), *length = size_of(p, w, 1, given[1]);
    dl_tensor *step = u && limit && length ? K(dl_mul(root, times(p, K(dl_div(length, limit)), sign))) : NULL;
    return step ? dl_assign(param->state[DIRECTION], step) : dl_failed();
}
