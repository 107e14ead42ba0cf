/* Kernel of ctc_paths: ways up to each step and state, and the gradient from these and the ways on. A task is a
 * sequence. */
#include "ops/ctc.h"
#include "cpu/kernels/ctc.h"
#include "cpu/runtime/iter.h"
#include "ops/compose/compose.h"
#include "ops/rules/loss.h"

#include <string.h>

enum { COST = 16 }; /* of a state in elements, in which threads are counted: exponentials and a logarithm */

typedef struct job {
    dl_ctc_sizes k;
    bool f64;
    const void *x, *g;
    void *out, *dx;
    const long *labels, *steps, *lengths;
    double *ways, *work; /* work: lines of each sequence */
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

/* Work space of a sequence: lines of l states, with two before and behind. */
enum { LINES = 5, AROUND = 2 };
typedef struct lines {
    long states, steps;
    long *class;        /* of each state */
    double *skip;       /* 0 where a state is reached from that two before, else -infinity */
    double *in, *a, *b; /* a and b: no way leads to the states around */
} lines;

static size_t line_of(const job *j) { return (size_t)j->k.l + 2 * AROUND; }
static size_t work_of(const job *j) { return sizeof(double) * LINES * line_of(j) * (size_t)j->k.n; }

static lines lines_of(const job *j, long n) {
    const dl_ctc_sizes *k = &j->k;
    const long *labels = j->labels + n * k->s;
    double *line[LINES];
    for (size_t i = 0; i < LINES; i++) {
        line[i] = j->work + ((size_t)n * LINES + i) * line_of(j) + AROUND;
        for (long s = -AROUND; i && s < k->l + AROUND; s++) line[i][s] = -INFINITY;
    }
    lines w = {.skip = line[1], .in = line[2], .a = line[3], .b = line[4], .class = (long *)(void *)line[0]};
    w.states = 2 * dl_ctc_within(j->lengths[n], k->s) + 1, w.steps = dl_ctc_within(j->steps[n], k->t);
    for (long s = 0; s < w.states; s++) {
        w.class[s] = dl_ctc_class(k, labels, s);
        if (dl_ctc_skips(k, labels, s)) w.skip[s] = 0;
    }
    return w;
}

static void emitted(const job *j, const lines *w, long row) {
    for (long s = 0; s < w->states; s++) w->in[s] = number(j->x, j->f64, row + w->class[s]);
}

static void forward(void *arg, long n) {
    const job *j = arg;
    const dl_ctc_sizes *k = &j->k;
    const lines w = lines_of(j, n);
    double *now = j->ways + n * k->t * k->l;
    for (long t = 0; t < w.steps; t++) {
        emitted(j, &w, row_of(j, t, n));
        if (t)
            DL_SIMD_PICK(dl_ctc).join(w.states, w.a, w.a - 1, w.a - 2, w.skip, w.in, w.b);
        else
            for (long s = 0; s < w.states && s < 2; s++) w.b[s] = w.in[s];
        memcpy(w.a, w.b, (size_t)k->l * sizeof *now);
        memcpy(now + t * k->l, w.b, (size_t)k->l * sizeof *now);
    }
    for (long i = w.steps * k->l; i < k->t * k->l; i++) now[i] = -INFINITY;
    put(j->out, j->f64, n, w.steps ? dl_ctc_lost(w.a, w.states) : INFINITY);
}

/* dx is zero where nothing is added. Line a has the ways on from each state, b those by way of the next step. */
static void backward(void *arg, long n) {
    const job *j = arg;
    const dl_ctc_sizes *k = &j->k;
    const double loss = number(j->loss, j->f64, n), g = number(j->g, j->f64, n);
    if (loss == INFINITY) return;
    const lines w = lines_of(j, n);
    double *none = w.in; /* what is added to the ways on: nothing */
    for (long s = 0; s < w.states; s++) w.a[s] = s + 2 >= w.states ? 0 : -INFINITY;
    for (long t = w.steps - 1; t >= 0; t--) {
        const long row = row_of(j, t, n);
        DL_SIMD_PICK(dl_ctc).shares(w.states, j->ways + (n * k->t + t) * k->l, w.a, loss, w.b);
        for (long s = 0; s < w.states; s++) {
            const long at = row + w.class[s];
            put(j->dx, j->f64, at, number(j->dx, j->f64, at) - g * w.b[s]);
        }
        if (!t) break;
        emitted(j, &w, row);
        for (long s = 0; s < w.states; s++) w.b[s] = w.a[s] + w.in[s], none[s] = 0;
        DL_SIMD_PICK(dl_ctc).join(w.states, w.b, w.b + 1, w.b + 2, w.skip + 2, none, w.a);
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
    if (!(j.work = dl_host_alloc(work_of(&j)))) return dl_failed();
    dl_cpu_for(j.k.n, threads(&j), forward, &j);
    dl_host_free(j.work, work_of(&j));
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
    if (!(j.work = dl_host_alloc(work_of(&j)))) return dl_failed();
    j.dx = dl_ptr(dx);
    dl_cpu_clear(j.dx, (size_t)(dx->numel * dl_esize(dx)));
    dl_cpu_for(j.k.n, threads(&j), backward, &j);
    dl_host_free(j.work, work_of(&j));
    return dl_give(b, 0, dl_ref(dx));
}

const dl_kernel dl_cpu_ctc_paths = {.run = ctc_run, .fused_grad = ctc_back, .dtypes = DL_BIT(DL_F32) | DL_BIT(DL_F64)};
