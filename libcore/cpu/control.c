/* The step of a trainer on the CPU: sums of loss and right answers, limits on gradients, averaged weights, and the
 * report, on a control block in host memory. */
#include "cpu/control.h"
#include "core/control_step.h"
#include "optim/clip.h"

/* Rows of the dropout stream take their numbers from the host's, and no step is issued after one that has halted. */
void dl_cpu_use_control(int index, const dl_control *c, uint64_t rng) { (void)index, (void)c, (void)rng; }

/* ---------------------------------------------------------------- right answers */

/* The usual case without ops: f32 scores [N,C]. The first of equal largest scores answers, as in argmax. */
static double count_rows(const float *scores, const long *label, long n, long classes) {
    long correct = 0;
    for (long i = 0; i < n; i++, scores += classes) {
        long best = 0;
        for (long c = 1; c < classes; c++)
            if (scores[c] > scores[best]) best = c;
        correct += best == label[i];
    }
    return (double)correct;
}

/* Scores above 0 for a single output, the largest score along dimension 1 for several. */
static dl_tensor *answers(dl_tensor *output, const dl_tensor *target) {
    long dim = 1;
    if (output->ndim >= 2 && output->shape[1] > 1) return dl_argmax(output, &dim, 0);
    dl_tensor *zero = dl_scalar_f(0), *above = zero ? dl_gt(output, zero) : NULL;
    dl_tensor *flat = above ? dl_reshape(above, target->shape, target->ndim) : NULL;
    dl_unref(zero);
    dl_unref(above);
    return flat;
}

static dl_status count_right(const dl_accumulate *a, double *correct) {
    dl_tensor *output = (dl_tensor *)a->output, *target = (dl_tensor *)a->target;
    bool rows = output->ndim == 2 && output->shape[1] > 1 && output->dtype == DL_F32 && target->dtype == DL_I64;
    if (rows) return *correct = count_rows(dl_ptr(output), dl_ptr(target), target->numel, output->shape[1]), DL_OK;
    int mode = dl_grad_mode(0);
    dl_tensor *best = answers(output, target), *same = best ? dl_eq(best, target) : NULL,
              *sum = same ? dl_sum(same, NULL, 0, 0) : NULL;
    dl_status st = sum ? dl_item_f(sum, correct) : dl_failed();
    dl_unref(best);
    dl_unref(same);
    dl_unref(sum);
    dl_grad_mode(mode);
    return st;
}

/* ---------------------------------------------------------------- a step */

dl_status dl_cpu_accumulate(int index, dl_control *c, const dl_accumulate *a) {
    double loss, correct = 0;
    (void)index;
    DL_TRY(dl_item_f(a->loss, &loss));
    if (a->output) DL_TRY(count_right(a, &correct));
    dl_control_add(c, &a->rule, loss, correct, a->output ? (double)a->target->numel : 0);
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
    if (!f->rule.scaled) DL_TRY(unscale(f, 1));
    DL_TRY(dl_grads_norm(f->grad, f->n, &norm));
    norm /= scale;
    int end = dl_control_end(c, &f->rule, norm);
    if (end == DL_END_DONE && f->rule.scaled) {
        DL_TRY(unscale(f, scale));
        DL_TRY(dl_grads_norm(f->grad, f->n, &norm));
    }
    double factor = dl_clip_factor(f->rule.clip_norm, norm);
    if (end == DL_END_DONE && factor < 1) DL_TRY(dl_grads_scale(f->grad, f->n, factor));
    dl_report *r = &f->rule.report[c->index % DL_REPORTS];
    dl_control_report(c, &f->rule, end, norm, scale, 0);
    r->number = c->index;
    return DL_OK;
}

/* Row by row, rounded as a sum of two products is. */
dl_status dl_cpu_average_weights(int index, const dl_control *c, dl_tensor *const *avg, dl_tensor *const *p, int n,
                                 double keep) {
    (void)index;
    if (c->group[0].halt != 0) return DL_OK;
    dl_tensor *k = dl_scalar_f(keep), *take = dl_scalar_f(1 - keep);
    dl_status st = k && take ? DL_OK : dl_failed();
    int mode = dl_grad_mode(0);
    for (int i = 0; i < n && st == DL_OK; i++) {
        dl_tensor *old = dl_mul(avg[i], k), *fresh = dl_mul(p[i], take);
        dl_tensor *sum = old && fresh ? dl_add(old, fresh) : NULL;
        st = sum ? dl_assign(avg[i], sum) : dl_failed();
        dl_unref(old);
        dl_unref(fresh);
        dl_unref(sum);
    }
    dl_grad_mode(mode);
    dl_unref(k);
    dl_unref(take);
    return st;
}
