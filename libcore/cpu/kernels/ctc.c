/* Kernel of ctc_paths: ways up to each step and state, and the gradient from these and the ways on. A task is a
 * sequence. */
#include "ops/ctc.h"
#include "cpu/runtime/iter.h"
#include "ops/compose/compose.h"
#include "ops/rules/loss.h"

#include <string.h>

enum { COST = 64 }; /* of a state in elements, in which threads are counted: exponentials and a logarithm */

typedef struct job {
    dl_ctc_sizes k;
    bool f64;
    const void *x, *g;
    void *out, *dx;
    const long *labels, *steps, *lengths;
    double *ways, *work; /* work: 2 l numbers of each sequence */
    const void *loss;
} job;

static double number(const void *p, bool f64, long i) { return f64 ? ((const double *)p)[i] : ((const float *)p)[i]; }
static void put(void *p, bool f64, long i, double v) {
    if (f64)
        ((double *)p)[i] = v;
    else
        ((float *)p)[i] = (float)v;
}

/* Where the log-probabilities of a step stand. */
static long row_of(const job *j, long t, long n) { return (t * j->k.n + n) * j->k.classes; }

static void forward(void *arg, long n) {
    const job *j = arg;
    const dl_ctc_sizes *k = &j->k;
    const long *labels = j->labels + n * k->s, steps = dl_ctc_within(j->steps[n], k->t),
               states = 2 * dl_ctc_within(j->lengths[n], k->s) + 1;
    double *now = j->ways + n * k->t * k->l;
    for (long t = 0; t < k->t; t++, now += k->l)
        for (long s = 0; s < k->l; s++) {
            now[s] = -INFINITY;
            if (s >= states || t >= steps) continue;
            const double before = t ? dl_ctc_forward(k, labels, now - k->l, s) : s < 2 ? 0 : -INFINITY;
            now[s] = before + number(j->x, j->f64, row_of(j, t, n) + dl_ctc_class(k, labels, s));
        }
    now -= (k->t - steps + 1) * k->l;
    put(j->out, j->f64, n, steps ? dl_ctc_lost(now, states) : INFINITY);
}

/* dx is zero where nothing is added. */
static void backward(void *arg, long n) {
    const job *j = arg;
    const dl_ctc_sizes *k = &j->k;
    const long *labels = j->labels + n * k->s, steps = dl_ctc_within(j->steps[n], k->t),
               states = 2 * dl_ctc_within(j->lengths[n], k->s) + 1;
    const double loss = number(j->loss, j->f64, n), g = number(j->g, j->f64, n);
    if (loss == INFINITY) return;
    for (long t = steps - 1; t >= 0; t--) {
        double *now = j->work + (2 * n + t % 2) * k->l, *next = j->work + (2 * n + 1 - t % 2) * k->l;
        const double *ways = j->ways + (n * k->t + t) * k->l;
        const long row = row_of(j, t, n);
        for (long s = 0; s < states; s++) {
            const double on = t < steps - 1     ? dl_ctc_onward(k, labels, next, states, s)
                              : s >= states - 2 ? 0
                                                : -INFINITY;
            const long at = row + dl_ctc_class(k, labels, s);
            now[s] = on + number(j->x, j->f64, at);
            put(j->dx, j->f64, at, number(j->dx, j->f64, at) - g * exp(ways[s] + on + loss));
        }
    }
}

static dl_status check_labels(const job *j) {
    for (long n = 0; n < j->k.n; n++)
        for (long i = 0; i < dl_ctc_within(j->lengths[n], j->k.s); i++) {
            const long label = j->labels[n * j->k.s + i];
            if (label < 0 || label >= j->k.classes)
                return dl_fail(DL_ERR_INDEX, "label %ld is not one of the %ld classes, which count from 0", label,
                               j->k.classes);
        }
    return DL_OK;
}

static void *operand(dl_pool *p, dl_tensor *t) {
    dl_tensor *own = K(dl_cpu_contiguous(t));
    return own ? dl_ptr(own) : NULL;
}

static dl_status operands(job *j, dl_pool *p, dl_tensor *const *in, long blank) {
    j->k = dl_ctc_sizes_of(in[0], in[1], blank), j->f64 = in[0]->dtype == DL_F64;
    j->x = operand(p, in[0]), j->labels = operand(p, in[1]);
    j->steps = operand(p, in[2]), j->lengths = operand(p, in[3]);
    return p->n == 4 ? DL_OK : dl_failed();
}

static int threads(const job *j) { return dl_cpu_threads(COST * j->k.n * j->k.t * j->k.l); }

static dl_status ctc_run(dl_call *c) {
    POOL;
    job j = {.out = dl_ptr(c->out[0]), .ways = dl_ptr(OUTPUT(c, CTC_PATHS_WAYS))};
    DL_TRY(operands(&j, p, c->in, ATTR_I(c, CTC_PATHS_BLANK)));
    DL_TRY(check_labels(&j));
    dl_cpu_for(j.k.n, threads(&j), forward, &j);
    return DL_OK;
}

static dl_status ctc_back(dl_back *b) {
    POOL;
    dl_tensor *in[4] = {IN_(CTC_PATHS_LOG_PROBS), IN_(CTC_PATHS_LABELS), IN_(CTC_PATHS_STEPS), IN_(CTC_PATHS_LENGTHS)};
    dl_tensor *loss = OUT_(CTC_PATHS_OUT), *ways = OUT_(CTC_PATHS_WAYS);
    for (int i = 0; i < 4; i++)
        if (!in[i]) return dl_failed();
    if (!loss || !ways) return dl_failed();
    dl_tensor *dx = dl_tmp(b, dl_tensor_empty(3, in[0]->shape, in[0]->dtype, 0));
    job j = {.loss = dl_ptr(loss), .ways = dl_ptr(ways)};
    DL_TRY(operands(&j, p, in, ATTR_I(b, CTC_PATHS_BLANK)));
    j.g = operand(p, b->g[0]);
    if (!dx || p->n < 5) return dl_failed();
    const size_t bytes = sizeof(double) * 2 * (size_t)(j.k.n * j.k.l);
    if (!(j.work = dl_host_alloc(bytes))) return dl_failed();
    j.dx = dl_ptr(dx);
    dl_cpu_clear(j.dx, (size_t)(dx->numel * dl_esize(dx)));
    dl_cpu_for(j.k.n, threads(&j), backward, &j);
    dl_host_free(j.work, bytes);
    return dl_give(b, 0, dl_ref(dx));
}

const dl_kernel dl_cpu_ctc_paths = {.run = ctc_run, .fused_grad = ctc_back, .dtypes = DL_BIT(DL_F32) | DL_BIT(DL_F64)};
