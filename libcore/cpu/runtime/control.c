/* The step of a trainer on the CPU: sums of loss and right answers, limits on gradients, averaged weights, and the
 * report, on a control block in host memory. */
#include "cpu/runtime/control.h"

#include <math.h>
#include <string.h>

#include "core/device/control_step.h"
#include "core/scope.h"
#include "optim/clip.h"
#include "dlcore/arithmetic.h"

/* Nothing to do: dropout takes its random numbers from the counter of the process, and no step is begun after one that
 * has halted. */
void dl_cpu_use_control(int index, const dl_control *c, const dl_rng_at *rng) { (void)index, (void)c, (void)rng; }

/* ---------------------------------------------------------------- right answers */

/* The class with the largest of n scores, the first of equal ones, as in argmax; of a single score, whether it is above
 * 0. */
#define ANSWER(name, T)                                                                                                \
    static inline long name(const dl_tensor *t, long from, long n, long stride) {                                      \
        const T *score = (const T *)dl_ptr(t) + from;                                                                  \
        long best = n == 1 && *score > 0;                                                                              \
        for (long c = 1; c < n; c++)                                                                                   \
            if (score[c * stride] > score[best * stride]) best = c;                                                    \
        return best;                                                                                                   \
    }
ANSWER(answer_f32, float)
ANSWER(answer_f64, double)

static double count_right(const dl_tensor *scores, const dl_tensor *target) {
    long n = target->numel, classes = scores->ndim > 1 ? scores->shape[1] : 1, right = 0;
    long inner = classes > 1 ? n / scores->shape[0] : 1;
    const long *wide = dl_ptr(target);
    const int *narrow = dl_ptr(target);
    for (long i = 0; i < n; i++) {
        long from = i / inner * classes * inner + i % inner;
        long best = scores->dtype == DL_F64 ? answer_f64(scores, from, classes, inner)
                    : inner == 1            ? answer_f32(scores, from, classes, 1)
                                            : answer_f32(scores, from, classes, inner);
        right += best == (target->dtype == DL_I64 ? wide[i] : narrow[i]);
    }
    return (double)right;
}

/* ---------------------------------------------------------------- a step */

dl_status dl_cpu_accumulate(int index DL_UNUSED, dl_control *c, const dl_accumulate *a) {
    double loss, right = 0;
    DL_TRY(dl_item_f(a->loss, &loss));
    if (a->output) {
        dl_dtype wide = a->output->dtype == DL_F64 ? DL_F64 : DL_F32;
        dl_tensor *scores = dl_to_dtype((dl_tensor *)a->output, wide);
        if (!scores) return dl_failed();
        right = count_right(scores, a->target);
        dl_unref(scores);
    }
    dl_control_add(c, &a->rule, loss, right, a->output ? (double)a->target->numel : 0);
    return DL_OK;
}

dl_status dl_cpu_decide(int index, dl_control *c, const dl_decide *d) {
    bool holds = false;
    (void)index;
    for (int i = 0; i < d->n && !holds; i++) holds = dl_cpu_finds(d->t[i], d->rule.test == DL_BREAK_NAN);
    dl_control_decide(c, &d->rule, holds);
    return DL_OK;
}

static dl_status decide_numbers(dl_control *c, const dl_finish_step *f, double norm) {
    for (int i = 0; i < f->ndecide; i++) {
        const dl_decide_one *d = &f->decide[i];
        double v = norm;
        if (d->is) DL_TRY(dl_cpu_measure((dl_tensor *)d->is, d->of, &v));
        dl_control_decide(c, &d->rule, dl_break_holds(&d->rule, v));
    }
    return DL_OK;
}

/* Divides the loss scale out of the gradients, and limits their elements. */
static dl_status unscale(const dl_finish_step *f, double scale) {
    if (f->rule.scaled) DL_TRY(dl_grads_scale(f->grad, f->n, 1 / scale));
    return f->rule.clip_value > 0 ? dl_grads_clamp(f->grad, f->n, f->rule.clip_value) : DL_OK;
}

dl_status dl_cpu_finish_step(int index, dl_control *c, const dl_finish_step *f) {
    double scale = c->scale, norm;
    (void)index;
    dl_control_begin_report(c, &f->rule, 0);
    for (int i = 0; i < f->nkeep && !dl_control_void(c); i++)
        memcpy(f->keep[i].to[(c->index + 1) % 2], f->keep[i].from, f->keep[i].bytes);
    if (!f->rule.scaled) DL_TRY(unscale(f, 1));
    DL_TRY(dl_grads_norm(f->grad, f->n, &norm));
    norm /= scale;
    DL_TRY(decide_numbers(c, f, norm));
    int end = dl_control_end(c, &f->rule, norm);
    if (end == DL_END_DONE && f->rule.scaled) {
        DL_TRY(unscale(f, scale));
        DL_TRY(dl_grads_norm(f->grad, f->n, &norm));
    }
    double factor = dl_clip_factor(f->rule.clip_norm, norm);
    if (end == DL_END_DONE && factor < 1) DL_TRY(dl_grads_scale(f->grad, f->n, factor));
    for (int g = 0; g < f->rule.groups; g++) {
        dl_control_rate(c, &f->rule, g);
        dl_control_group(c, g, end);
    }
    dl_report *r = dl_control_report(c, &f->rule);
    dl_control_end_report(c, r, end, norm);
    dl_control_next(c, &f->rule);
    r->number = c->index;
    return DL_OK;
}

/* avg = avg * keep + p * (1 - keep), rounded as ops round it. */
dl_status dl_cpu_average_weights(int index DL_UNUSED, const dl_control *c, dl_tensor *const *avg, dl_tensor *const *p,
                                 int n, double keep) {
    if (c->group[0].halt != 0) return DL_OK;
    dl_tensor *k = dl_scalar_f(keep), *take = dl_scalar_f(1 - keep);
    dl_status st = k && take ? DL_OK : dl_failed();
    DL_SCOPED_GRAD_MODE(0);
    for (int i = 0; i < n && st == DL_OK; i++) {
        dl_tensor *old = dl_mul(avg[i], k), *fresh = dl_mul(p[i], take);
        dl_tensor *sum = old && fresh ? dl_add(old, fresh) : NULL;
        st = sum ? dl_assign(avg[i], sum) : dl_failed();
        dl_unref(old);
        dl_unref(fresh);
        dl_unref(sum);
    }
    dl_unref(k);
    dl_unref(take);
    return st;
}
