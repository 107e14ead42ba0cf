/* Kernel of cross_entropy: log-sum-exp and loss of a row in one pass, and a gradient in one pass. The definitions of
 * class weights, ignored labels, smoothing and reduction are PyTorch's; ops/compose/loss.c has them as a formula. */
#include "autograd/nonfinite.h"
#include "cpu/runtime/iter.h"
#include "cpu/runtime/rows.h"
#include "ops/compose/loss.h"
#include "ops/rules/loss.h"

#include <string.h>

/* The call in plain memory: logits [N][C][S] and labels [N][S], contiguous. */
typedef struct entropy {
    dl_dtype t;
    dl_rows_shape r;
    dl_reduction how;
    long ignore;
    double smooth, weight_sum; /* weight_sum: of all classes */
    const char *x;
    const void *y;
    bool wide;          /* labels are i64, else i32 */
    const char *w;      /* class weights, or NULL for ones */
    dl_tensor *keep[3]; /* contiguous copies or references, to be released */
} entropy;

static double number(const char *p, dl_dtype t, long i) {
    return t == DL_F64 ? ((double *)p)[i] : t == DL_F32 ? ((float *)p)[i] : dl_load_f64(p + i * dl_dtype_size(t), t);
}
static double weight_of(const entropy *e, long c) { return e->w ? number(e->w, e->t, c) : 1; }
static long label_at(const entropy *e, long i) { return e->wide ? ((long *)e->y)[i] : ((int *)e->y)[i]; }

static void entropy_free(entropy *e) {
    for (int i = 0; i < 3; i++) dl_unref(e->keep[i]);
}

/* Of cross_entropy, or of nll_picked, which has no smoothing. */
static dl_status entropy_of(entropy *e, const dl_op *op, dl_tensor *const *in, const dl_aval *attr) {
    const bool smooths = op->id == dl_id_cross_entropy;
    *e = (entropy){.t = in[0]->dtype,
                   .ignore = attr[smooths ? DL_A_CROSS_ENTROPY_IGNORE_INDEX : DL_A_NLL_PICKED_IGNORE_INDEX].u.i};
    if (smooths) e->smooth = attr[DL_A_CROSS_ENTROPY_LABEL_SMOOTHING].u.f;
    DL_TRY(dl_reduction_of(&attr[DL_A_LOSS_REDUCTION], &e->how));
    for (int i = 0; i < 3; i++) {
        if (in[i] && !(e->keep[i] = dl_cpu_contiguous(in[i]))) {
            entropy_free(e);
            return dl_failed();
        }
    }
    int cls = in[0]->ndim > 1;
    e->r = (dl_rows_shape){.outer = cls ? in[0]->shape[0] : 1, .d = in[0]->shape[cls], .inner = 1};
    for (int i = 2; i < in[0]->ndim; i++) e->r.inner *= in[0]->shape[i];
    e->r.blocks = (e->r.inner + DL_COLUMNS - 1) / DL_COLUMNS;
    e->x = dl_ptr(e->keep[0]);
    e->y = dl_ptr(e->keep[1]);
    e->wide = in[1]->dtype == DL_I64;
    e->w = in[2] ? dl_ptr(e->keep[2]) : NULL;
    for (long c = 0; c < e->r.d; c++) e->weight_sum += weight_of(e, c);
    return DL_OK;
}

static dl_status check_labels(const entropy *e, const dl_tensor *y) {
    long n = e->r.outer * e->r.inner;
    for (long i = 0; i < n; i++) {
        long label = label_at(e, i);
        if (label == e->ignore || (label >= 0 && label < e->r.d)) continue;
        long at[DL_MAX_DIM];
        for (int d = y->ndim - 1; d >= 0; i /= y->shape[d--]) at[d] = i % y->shape[d];
        return dl_fail_hint(DL_ERR_INDEX, "labels count from 0; the logits need one column for each class",
                            "label %ld at position %s is not one of the %ld classes 0 to %ld", label,
                            dl_shape_text(y->ndim, at), e->r.d, e->r.d - 1);
    }
    return DL_OK;
}

/* Of a row of n classes `step` apart without weights: the sum of base - x, and x less a number. */
#define SMOOTHING(T)                                                                                                   \
    static double sum_below_##T(const T *x, long n, long step, double base) {                                          \
        double part[8] = {0}, sum = 0;                                                                                 \
        long c = 0;                                                                                                    \
        for (; c + 8 <= n && step == 1; c += 8)                                                                        \
            for (int j = 0; j < 8; j++) part[j] += base - x[c + j];                                                    \
        for (; c < n; c++) sum += base - x[c * step];                                                                  \
        for (int j = 0; j < 8; j++) sum += part[j];                                                                    \
        return sum;                                                                                                    \
    }                                                                                                                  \
    static void lower_##T(T *x, long n, long step, double by) {                                                        \
        if (step == 1)                                                                                                 \
            for (long c = 0; c < n; c++) x[c] = (T)(x[c] - by);                                                        \
        else                                                                                                           \
            for (long c = 0; c < n; c++) x[c * step] = (T)(x[c * step] - by);                                          \
    }
SMOOTHING(float)
SMOOTHING(double)

/* Loss of one position: column `col` of the block whose first logit is number `first`. */
static double loss_at(const entropy *e, long first, long col, long label, double top, double logsum) {
    if (label == e->ignore) return 0;
    double own = weight_of(e, label) * (logsum - (number(e->x, e->t, first + label * e->r.inner + col) - top));
    if (e->smooth == 0) return own;
    double all = 0, base = logsum + top;
    const bool f64 = e->t == DL_F64;
    const long at = first + col, step = e->r.inner;
    if (!e->w)
        all = f64 ? sum_below_double((const double *)e->x + at, e->r.d, step, base)
                  : sum_below_float((const float *)e->x + at, e->r.d, step, base);
    for (long c = 0; e->w && c < e->r.d; c++)
        all += weight_of(e, c) * (logsum - (number(e->x, e->t, first + c * e->r.inner + col) - top));
    return (1 - e->smooth) * own + e->smooth / (double)e->r.d * all;
}

/* The sum of the weights of all labels but the ignored ones, by which the mean divides. */
static double total_weight(const entropy *e) {
    double sum = 0;
    long n = e->r.outer * e->r.inner, count = 0;
    for (long i = 0; !e->w && i < n; i++) count += label_at(e, i) != e->ignore;
    if (!e->w) return (double)count;
    for (long i = 0; i < n; i++) {
        long label = label_at(e, i);
        if (label != e->ignore) sum += weight_of(e, label);
    }
    return sum;
}

static void forward(const entropy *e, double *loss, double *lse) {
    const dl_row_loops *f = dl_rows_of(e->t);
    long es = dl_dtype_size(e->t);
    dl_stop stop = dl_stop_begin();
#pragma omp parallel for schedule(static) num_threads(dl_cpu_threads(4 * e->r.outer * e->r.d * e->r.inner))
    for (long i = 0; i < e->r.outer * e->r.blocks; i++) {
        if (dl_stop_asked(&stop)) continue;
        double top[DL_COLUMNS], logsum[DL_COLUMNS];
        long nc, first = dl_rows_at(&e->r, i, &nc);
        long at = i / e->r.blocks * e->r.inner + i % e->r.blocks * DL_COLUMNS;
        f->logsum(e->x + first * es, e->r.d, e->r.inner, nc, top, logsum);
        for (long c = 0; c < nc; c++) {
            lse[at + c] = top[c] + logsum[c];
            loss[at + c] = loss_at(e, first, c, label_at(e, at + c), top[c], logsum[c]);
        }
        dl_fp_hand_over();
    }
    dl_stop_end(&stop);
}

static void store(dl_tensor *t, long i, double v) {
    if (t->dtype == DL_F64)
        ((double *)dl_ptr(t))[i] = v;
    else if (t->dtype == DL_F32)
        ((float *)dl_ptr(t))[i] = (float)v;
    else
        dl_store_f64((char *)dl_ptr(t) + i * (long)dl_esize(t), t->dtype, v);
}

static dl_status cross_entropy_float(dl_call *c) {
    entropy e;
    dl_tensor *in[3] = {c->in[0], c->in[1], INPUT(c, CROSS_ENTROPY_WEIGHT)};
    DL_TRY(entropy_of(&e, c->op, in, c->attr));
    long n = e.r.outer * e.r.inner;
    double *loss = dl_host_alloc((size_t)(n + 1) * sizeof *loss), sum = 0;
    dl_status s = loss ? check_labels(&e, c->in[1]) : dl_failed();
    if (s == DL_OK) {
        forward(&e, loss, dl_ptr(c->out[1]));
        for (long i = 0; i < n; i++) {
            sum += loss[i];
            if (e.how == DL_REDUCE_NONE) store(c->out[0], i, loss[i]);
        }
        if (e.how != DL_REDUCE_NONE) store(c->out[0], 0, e.how == DL_REDUCE_MEAN ? sum / total_weight(&e) : sum);
    }
    if (loss) dl_host_free(loss, (size_t)(n + 1) * sizeof *loss);
    entropy_free(&e);
    return s;
}

/* One block of columns: dx = scale * (sum(t) * softmax(x) - t) with t as in ops/compose/loss.c. */
static void backward_block(const entropy *e, const double *scale, const double *lse, dl_tensor *dx, long first, long at,
                           long nc) {
    double k[DL_COLUMNS], spread = e->smooth / (double)e->r.d;
    long es = dl_dtype_size(e->t);
    bool ignored[DL_COLUMNS];
    for (long c = 0; c < nc; c++) {
        long label = label_at(e, at + c);
        ignored[c] = label == e->ignore;
        k[c] = ignored[c] ? 0 : scale[c] * ((1 - e->smooth) * weight_of(e, label) + spread * e->weight_sum);
    }
    dl_rows_of(e->t)->exp_scaled(e->x + first * es, (char *)dl_ptr(dx) + first * es, e->r.d, e->r.inner, nc, lse + at,
                                 k);
    for (long c = 0; c < nc; c++) {
        if (ignored[c]) continue;
        long label = label_at(e, at + c), own = first + label * e->r.inner + c;
        store(dx, own, number(dl_ptr(dx), e->t, own) - scale[c] * (1 - e->smooth) * weight_of(e, label));
        const double by = scale[c] * spread;
        char *row = (char *)dl_ptr(dx) + (first + c) * es;
        if (e->smooth != 0 && !e->w && e->t == DL_F64) lower_double((double *)row, e->r.d, e->r.inner, by);
        if (e->smooth != 0 && !e->w && e->t != DL_F64) lower_float((float *)row, e->r.d, e->r.inner, by);
        for (long j = 0; e->smooth != 0 && e->w && j < e->r.d; j++) {
            long i = first + j * e->r.inner + c;
            store(dx, i, number(dl_ptr(dx), e->t, i) - by * weight_of(e, j));
        }
    }
}

static void backward(const entropy *e, const dl_tensor *g, const double *lse, dl_tensor *dx) {
    double one = e->how == DL_REDUCE_NONE ? 0 : number(dl_ptr(g), e->t, 0);
    if (e->how == DL_REDUCE_MEAN) one /= total_weight(e);
    dl_stop stop = dl_stop_begin();
#pragma omp parallel for schedule(static) num_threads(dl_cpu_threads(2 * dx->numel))
    for (long i = 0; i < e->r.outer * e->r.blocks; i++) {
        if (dl_stop_asked(&stop)) continue;
        double scale[DL_COLUMNS];
        long nc, first = dl_rows_at(&e->r, i, &nc);
        long at = i / e->r.blocks * e->r.inner + i % e->r.blocks * DL_COLUMNS;
        for (long c = 0; c < nc; c++) scale[c] = e->how == DL_REDUCE_NONE ? number(dl_ptr(g), e->t, at + c) : one;
        backward_block(e, scale, lse, dx, first, at, nc);
        dl_fp_hand_over();
    }
    dl_stop_end(&stop);
}

static dl_status cross_entropy_grad(dl_back *b) {
    bool weighted = b->nin > DL_IN_CROSS_ENTROPY_WEIGHT && META(CROSS_ENTROPY_WEIGHT)->ndim;
    dl_tensor *in[3] = {IN_(CROSS_ENTROPY_INPUT), IN_(CROSS_ENTROPY_TARGET),
                        weighted ? IN_(CROSS_ENTROPY_WEIGHT) : NULL};
    dl_tensor *lse = OUT_(CROSS_ENTROPY_LSE);
    if (!in[0] || !in[1] || !lse) return dl_fail_null("the logits");
    dl_tensor *g = T(dl_cpu_contiguous(G0)), *dx = dl_tensor_empty(in[0]->ndim, in[0]->shape, in[0]->dtype, 0);
    if (!g || !dx) return dl_unref(dx), dl_failed();
    entropy e;
    dl_status s = entropy_of(&e, b->op, in, b->attr);
    if (s != DL_OK) return dl_unref(dx), s;
    backward(&e, g, dl_ptr(lse), dx);
    entropy_free(&e);
    return dl_give(b, 0, dx);
}

static dl_status cross_entropy_fused(dl_back *b) {
    return b->need == 1 ? dl_cpu_grad_via_f32(b, cross_entropy_grad) : dl_grad_cross_entropy(b);
}

DL_CPU_KERNEL(cross_entropy, cross_entropy_float, false, DL_FLOATS, .fused_grad = cross_entropy_fused)

/* ---- nll_picked */

/* For each position that is not ignored: its number i, its label, and the place of its own class. */
#define EACH_LABEL(e, i, label, own, ...)                                                                              \
    for (long outer = 0, i = 0; outer < (e)->r.outer; outer++)                                                         \
        for (long inner = 0; inner < (e)->r.inner; inner++, i++) {                                                     \
            const long label = label_at(e, i), own = (outer * (e)->r.d + label) * (e)->r.inner + inner;                \
            if (label != (e)->ignore) __VA_ARGS__;                                                                     \
        }

static dl_status picked_run(dl_call *c) {
    entropy e;
    dl_tensor *in[3] = {c->in[0], c->in[1], INPUT(c, NLL_PICKED_WEIGHT)}, *o = c->out[0];
    DL_TRY(entropy_of(&e, c->op, in, c->attr));
    dl_status s = check_labels(&e, c->in[1]);
    double sum = 0, total = 0;
    if (s == DL_OK && e.how == DL_REDUCE_NONE) dl_cpu_clear(dl_ptr(o), (size_t)o->numel * dl_esize(o));
    if (s == DL_OK)
        EACH_LABEL(&e, i, label, own, {
            const double w = weight_of(&e, label), loss = -w * number(e.x, e.t, own);
            sum += loss, total += w;
            if (e.how == DL_REDUCE_NONE) store(o, i, loss);
        })
    if (s == DL_OK && e.how != DL_REDUCE_NONE) store(o, 0, e.how == DL_REDUCE_MEAN ? sum / total : sum);
    entropy_free(&e);
    return s;
}

#define PICKED_BACK(T)                                                                                                 \
    static void picked_back_##T(const entropy *e, const T *g, T *dx) {                                                 \
        const double by = e->how == DL_REDUCE_MEAN ? total_weight(e) : 1;                                              \
        if (e->how == DL_REDUCE_NONE)                                                                                  \
            EACH_LABEL(e, i, label, own, dx[own] = (T)(-weight_of(e, label) * g[i]))                                   \
        else if (e->w)                                                                                                 \
            EACH_LABEL(e, i, label, own, dx[own] = (T)(-weight_of(e, label) * *g / by))                                \
        else {                                                                                                         \
            const T all = (T)(-*g / by);                                                                               \
            EACH_LABEL(e, i, label, own, dx[own] = all)                                                                \
        }                                                                                                              \
    }
PICKED_BACK(float)
PICKED_BACK(double)

/* The same in 16 bits, rounded once. */
static void picked_back_half(const entropy *e, const dl_tensor *g, dl_tensor *dx) {
    const bool each = e->how == DL_REDUCE_NONE;
    const double all = each ? 0 : number(dl_ptr(g), e->t, 0) / (e->how == DL_REDUCE_MEAN ? total_weight(e) : 1);
    EACH_LABEL(e, i, label, own, store(dx, own, -weight_of(e, label) * (each ? number(dl_ptr(g), e->t, i) : all)))
}

static dl_status picked_back(dl_back *b) {
    bool weighted = b->nin > DL_IN_NLL_PICKED_WEIGHT && META(NLL_PICKED_WEIGHT)->ndim;
    dl_tensor *in[3] = {IN_(NLL_PICKED_INPUT), IN_(NLL_PICKED_TARGET), weighted ? IN_(NLL_PICKED_WEIGHT) : NULL};
    if (!in[0] || !in[1]) return dl_failed();
    dl_tensor *g = T(dl_cpu_contiguous(G0)), *dx = T(dl_tensor_empty(in[0]->ndim, in[0]->shape, in[0]->dtype, 0));
    entropy e;
    if (!g || !dx) return dl_failed();
    DL_TRY(entropy_of(&e, b->op, in, b->attr));
    dl_cpu_clear(dl_ptr(dx), (size_t)(dx->numel * (long)dl_esize(dx)));
    if (e.t == DL_F64)
        picked_back_double(&e, dl_ptr(g), dl_ptr(dx));
    else if (e.t != DL_F32)
        picked_back_half(&e, g, dx);
    else
        picked_back_float(&e, dl_ptr(g), dl_ptr(dx));
    entropy_free(&e);
    return dl_give(b, 0, dl_ref(dx));
}

const dl_kernel dl_cpu_nll_picked = {.run = picked_run, .fused_grad = picked_back, .dtypes = DL_FLOATS};
