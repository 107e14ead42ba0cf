/* Connectionist temporal classification (Graves et al. 2006): the probability of a sequence of labels, summed over all
 * ways to spread it over the time steps, in logarithms. Kernels bring losses and their gradients; gradients of these
 * come from the same made of other ops, where what is impossible has a large negative number, whose gradients stay
 * finite. */
#include "ops/compose/compose.h"
#include "ops/compose/loss.h"
#include "dlcore/arithmetic.h"
#include "dlcore/binary.h"
#include "dlcore/compare.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/loss.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/ctc.h"
#include "ops/grad.h"
#include "ops/rules/loss.h"

#include <math.h>

static const double impossible = -1e30;

/* Constants of a call: n sequences of labels, with blanks around each l states. */
typedef struct ctc {
    long t, n, l;
    dl_tensor *lp;              /* log-probabilities [T,N,C] */
    dl_tensor *labels;          /* [N,S]; what stands behind the last one counts nothing */
    dl_tensor *steps, *lengths; /* [N] */
    dl_tensor *states;          /* the class of each state, [N,L] */
    dl_tensor *skip;            /* may a state be reached from that two before? [N,L] */
    dl_tensor *never;           /* [N,1] */
} ctc;

/* t on the host; the largest and the sum of its numbers. */
static dl_status check_lengths(dl_tensor *t, long n, long most, const char *what, long *largest, long *sum) {
    POOL;
    long least = 0;
    *largest = *sum = 0;
    if (t->numel != n || t->ndim > 1)
        return dl_fail(DL_ERR_SHAPE, "%s must have shape [%ld], not %s", what, n, dl_shape_of(t));
    if (!n) return DL_OK;
    DL_TRY(dl_item_i(K(dl_amin(t, NULL, 0, 0)), &least));
    DL_TRY(dl_item_i(K(dl_amax(t, NULL, 0, 0)), largest));
    if (least < 0 || *largest > most)
        return dl_fail(DL_ERR_VALUE, "%s must lie between 0 and %ld, not be %ld", what, most,
                       least < 0 ? least : *largest);
    return dl_item_i(K(dl_sum(t, NULL, 0, 0)), sum);
}

static dl_tensor *count_to(dl_pool *p, long n, int device) {
    return K(dl_arange(0, &(double){(double)n}, 1, DL_I64, device));
}

/* Targets that stand one after the other, [sum of lengths], as rows [N,S]. */
static dl_tensor *rows_of(dl_pool *p, dl_tensor *flat, dl_tensor *lengths, long n, long s) {
    dl_tensor *ends = K(dl_cumsum(lengths, 0)), *begins = ends ? K(dl_sub(ends, lengths)) : NULL;
    dl_tensor *column = begins ? K(dl_reshape(begins, (long[]){n, 1}, 2)) : NULL;
    dl_tensor *at = column ? K(dl_add(column, count_to(p, s, flat->st->device))) : NULL;
    const double low = 0, high = (double)(flat->numel ? flat->numel - 1 : 0);
    at = at ? K(dl_clamp(at, &low, &high)) : NULL;
    dl_tensor *line = at ? K(dl_reshape(at, (long[]){n * s}, 1)) : NULL;
    dl_tensor *picked = line ? K(dl_index_select(flat, line, 0)) : NULL;
    return picked ? K(dl_reshape(picked, (long[]){n, s}, 2)) : NULL;
}

/* What a part makes for the whole call. */
static dl_tensor *give(dl_pool *whole, dl_tensor *t) { return t ? dl_keep(whole, dl_ref(t)) : NULL; }

/* Lengths as whole numbers on the host, where they are looked at, so that a GPU is waited for once. */
static dl_tensor *lengths_on_host(dl_pool *p, dl_tensor *t) {
    if (dl_check_index(t) != DL_OK) return NULL;
    return K(dl_to_device(K(dl_reshape(K(dl_to(t, DL_I64)), (long[]){t->numel}, 1)), 0));
}

static dl_status read_targets(dl_call *c, dl_pool *whole, ctc *k) {
    POOL;
    dl_tensor *y = c->in[1], *steps = lengths_on_host(p, c->in[2]),
              *lengths = steps ? lengths_on_host(p, c->in[3]) : NULL;
    const int device = k->lp->st->device;
    long longest = 0, all = 0;
    if (!lengths) return dl_failed();
    DL_TRY(dl_check_index(y));
    DL_TRY(check_lengths(steps, k->n, k->t, "input_lengths", &longest, &all));
    DL_TRY(check_lengths(lengths, k->n, y->ndim == 2 ? y->shape[1] : y->numel, "target_lengths", &longest, &all));
    if (y->ndim == 2 ? y->shape[0] != k->n : y->ndim != 1 || y->numel != all)
        return dl_fail(DL_ERR_SHAPE, "targets must be [%ld,S], or [%ld] one after the other, not %s", k->n, all,
                       dl_shape_of(y));
    y = K(dl_to_device(K(dl_to(y, DL_I64)), device));
    k->steps = dl_keep(whole, dl_to_device(steps, device)), k->lengths = dl_keep(whole, dl_to_device(lengths, device));
    if (!y || !k->steps || !k->lengths) return dl_failed();
    k->labels =
        give(whole, y->ndim == 2 ? K(dl_slice(y, 1, NULL, &longest, 1)) : rows_of(p, y, k->lengths, k->n, longest));
    return k->labels ? DL_OK : dl_failed();
}

/* ---- by other ops */

/* Blank, label, blank, label, ..., blank; and where a label differs from the one before. */
static dl_status make_states(dl_pool *whole, ctc *k, long blank) {
    POOL;
    const int device = k->lp->st->device;
    const long n = k->n, s = k->labels->shape[1], two = 2;
    k->l = 2 * s + 1;
    const long but_two = k->l - 2;
    dl_tensor *length = K(dl_reshape(k->lengths, (long[]){n, 1}, 2));
    dl_tensor *there = length ? K(dl_lt(count_to(p, s, device), length)) : NULL;
    dl_tensor *labels = there ? K(dl_where(there, k->labels, K(dl_scalar_i(blank)))) : NULL;
    if (!labels) return dl_failed();
    dl_tensor *blanks = K(dl_full((long[]){n, s}, 2, (double)blank, DL_I64, device));
    dl_tensor *last = K(dl_full((long[]){n, 1}, 2, (double)blank, DL_I64, device));
    dl_tensor *pair[2] = {blanks, labels}, *mixed = blanks ? K(dl_stack(pair, 2, 2)) : NULL;
    dl_tensor *line[2] = {mixed ? K(dl_reshape(mixed, (long[]){n, 2 * s}, 2)) : NULL, last};
    k->states = line[0] && last ? K(dl_cat(line, 2, 1)) : NULL;
    if (!k->states) return dl_failed();
    long first = k->l < 2 ? k->l : 2;
    dl_tensor *none = K(dl_full((long[]){n, first}, 2, 0, DL_BOOL, device));
    k->states = give(whole, k->states), k->skip = give(whole, none);
    if (k->l <= 2) return k->skip ? DL_OK : dl_failed();
    dl_tensor *here = K(dl_slice(k->states, 1, &two, NULL, 1)), *before = K(dl_slice(k->states, 1, NULL, &but_two, 1));
    dl_tensor *differs =
        here && before ? K(dl_logical_and(K(dl_ne(here, before)), K(dl_ne(here, K(dl_scalar_i(blank)))))) : NULL;
    dl_tensor *parts[2] = {none, differs};
    k->skip = none && differs ? dl_keep(whole, dl_cat(parts, 2, 1)) : NULL;
    return k->skip ? DL_OK : dl_failed();
}

/* States moved on by `by` places; what comes in is impossible. */
static dl_tensor *moved(dl_pool *p, const ctc *k, dl_tensor *alpha, long by) {
    const long keep = k->l - by;
    if (keep <= 0) return K(dl_expand(k->never, (long[]){k->n, k->l}, 2));
    dl_tensor *in = K(dl_expand(k->never, (long[]){k->n, by}, 2)), *rest = K(dl_slice(alpha, 1, NULL, &keep, 1));
    dl_tensor *parts[2] = {in, rest};
    return in && rest ? K(dl_cat(parts, 2, 1)) : NULL;
}

/* Logarithms of the probabilities of all ways up to step t that end in each state; owned. */
static dl_tensor *advance(const ctc *k, dl_tensor *alpha, dl_tensor *emitted, long t) {
    POOL;
    dl_tensor *now = K(dl_select(emitted, 0, t)), *ways = alpha;
    if (!now) return NULL;
    dl_tensor *one = moved(p, k, alpha, 1), *two = moved(p, k, alpha, 2);
    two = two ? K(dl_where(k->skip, two, k->never)) : NULL;
    ways = one && two ? K(dl_add(K(dl_logaddexp(K(dl_logaddexp(alpha, one)), two)), now)) : NULL;
    dl_tensor *runs = K(dl_gt(k->steps, K(dl_scalar_i(t))));
    dl_tensor *column = runs ? K(dl_reshape(runs, (long[]){k->n, 1}, 2)) : NULL;
    return column && ways ? dl_where(column, ways, alpha) : NULL;
}

/* Before the first step: in the state before the first, which is reached by moving on. */
static dl_tensor *start(dl_pool *p, const ctc *k, dl_tensor *emitted) {
    const int device = k->lp->st->device;
    dl_tensor *first = K(dl_lt(count_to(p, k->l, device), K(dl_scalar_i(2))));
    dl_tensor *now = k->t ? K(dl_select(emitted, 0, 0)) : NULL;
    dl_tensor *alpha = first && now ? K(dl_where(first, now, k->never)) : NULL;
    dl_tensor *runs = alpha ? K(dl_reshape(K(dl_gt(k->steps, K(dl_scalar_i(0)))), (long[]){k->n, 1}, 2)) : NULL;
    return runs ? dl_where(runs, alpha, k->never) : NULL;
}

/* -ln(probability) of each sequence [N], infinite for an impossible one; owned. */
static dl_tensor *losses(const ctc *k) {
    POOL;
    dl_tensor *index = K(dl_reshape(k->states, (long[]){1, k->n, k->l}, 3));
    index = index ? K(dl_expand(index, (long[]){k->t, k->n, k->l}, 3)) : NULL;
    dl_tensor *emitted = index ? K(dl_gather(k->lp, index, 2)) : NULL, *alpha = emitted ? start(p, k, emitted) : NULL;
    for (long t = 1; t < k->t && alpha; t++) {
        dl_tensor *next = advance(k, alpha, emitted, t);
        dl_unref(alpha);
        alpha = next;
    }
    if (!alpha) return NULL;
    K(alpha);
    dl_tensor *end = K(dl_reshape(K(dl_mul(k->lengths, K(dl_scalar_i(2)))), (long[]){k->n, 1}, 2));
    const double zero = 0;
    dl_tensor *before = end ? K(dl_clamp(K(dl_sub(end, K(dl_scalar_i(1)))), &zero, NULL)) : NULL;
    dl_tensor *last = end ? K(dl_gather(alpha, end, 1)) : NULL, *label = before ? K(dl_gather(alpha, before, 1)) : NULL;
    label = label ? K(dl_where(K(dl_gt(end, K(dl_scalar_i(0)))), label, k->never)) : NULL;
    dl_tensor *loss = label ? K(dl_neg(K(dl_logaddexp(last, label)))) : NULL;
    loss = loss ? K(dl_where(K(dl_lt(loss, N(-impossible / 2))), loss, N(INFINITY))) : NULL;
    return loss ? dl_reshape(loss, (long[]){k->n}, 1) : NULL;
}

/* The sum of losses times their gradients, of stand-ins of the operands. */
static dl_tensor *objective(dl_back *b, dl_tensor **in, void *arg) {
    POOL;
    (void)arg;
    const dl_tensor *x = in[DL_IN_CTC_PATHS_LOG_PROBS];
    const long blank = ATTR_I(b, CTC_PATHS_BLANK);
    ctc k = {.t = x->shape[0],
             .n = x->shape[1],
             .lp = in[DL_IN_CTC_PATHS_LOG_PROBS],
             .labels = in[DL_IN_CTC_PATHS_LABELS],
             .steps = in[DL_IN_CTC_PATHS_STEPS],
             .lengths = in[DL_IN_CTC_PATHS_LENGTHS]};
    k.never = K(dl_full((long[]){k.n, 1}, 2, impossible, x->dtype, x->st->device));
    if (!k.never || make_states(p, &k, blank) != DL_OK) return NULL;
    dl_tensor *each = K(losses(&k));
    return each ? dl_plus_product(b, NULL, each, G0) : NULL;
}
GRAD_RULE(ctc_paths) { return dl_grad_by_rerun(b, objective, NULL); }

/* ---- the loss */

POOLED_RULE(ctc_loss) {
    dl_reduction how = DL_REDUCE_MEAN;
    dl_tensor *x = c->in[0];
    const long blank = ATTR_I(c, CTC_LOSS_BLANK);
    const bool one = x->ndim == 2;
    DL_TRY(dl_reduction_of(ATTR(c, LOSS_REDUCTION), &how));
    if (x->ndim != 3 && !one) return dl_fail(DL_ERR_SHAPE, "log-probabilities are [T,N,C] or [T,C], not %d-d", x->ndim);
    if (!dl_dtype_is_float(x->dtype)) return dl_fail(DL_ERR_DTYPE, "log-probabilities are floating numbers");
    ctc k = {.t = x->shape[0], .n = one ? 1 : x->shape[1]};
    const long classes = x->shape[x->ndim - 1];
    if (blank < 0 || blank >= classes) return dl_fail(DL_ERR_VALUE, "blank is class %ld of %ld", blank, classes);
    if (!k.t) return dl_fail(DL_ERR_SHAPE, "log-probabilities of no time step");
    k.lp = K(dl_reshape(x, (long[]){k.t, k.n, classes}, 3));
    if (!k.lp) return dl_failed();
    DL_TRY(read_targets(c, p, &k));
    dl_tensor *each = K(dl_ctc_paths(k.lp, k.labels, k.steps, k.lengths, blank));
    if (each && ATTR_I(c, CTC_LOSS_ZERO_INFINITY)) each = K(dl_where(K(dl_isinf(each)), N(0), each));
    if (each && how == DL_REDUCE_MEAN) {
        const double least = 1;
        each = K(dl_div(each, K(dl_to(K(dl_clamp(k.lengths, &least, NULL)), x->dtype))));
    }
    if (each && one && how == DL_REDUCE_NONE) return dl_finish(c, dl_reshape(each, (long[]){0}, 0));
    return dl_finish(c, dl_reduced_loss(each, how));
}
