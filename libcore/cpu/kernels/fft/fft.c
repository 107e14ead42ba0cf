/* Kernels of Fourier transforms: complex to complex, real to complex and back, one dimension after the other. */
#include "core/scope.h"
#include "cpu/kernels/fft/fft.h"
#include "cpu/runtime/iter.h"
#include "ops/rules/fft.h"

#include <math.h>
#include <stdlib.h>

/* A call shared among threads: some tasks of so many transforms each, or the steps of one. */
typedef struct task {
    dl_fft_job job;
    const dl_fft_loops *loops;
    long each, count; /* transforms of a task, of all */
    bool by_row;
    int step; /* of one long transform */
    char *z, *t, *work;
    size_t lane_bytes;
    int failed;
} task;

enum {
    MOST_DIRECT = 1 << 14, /* elements of a column whose passes stay in a cache */
    MOST_LANES = 1000,     /* elements of a row, below which lanes of rows are faster than the steps of each */
};

static void *aligned(size_t bytes) { return aligned_alloc(DL_FFT_MAX_LANES, dl_fft_padded(bytes + 1)); }

static void run_some(void *arg, long i) {
    task *k = arg;
    const long end = (i + 1) * k->each < k->count ? (i + 1) * k->each : k->count;
    const long pair = k->job.kind == DL_FFT_COMPLEX ? 1 : 2, at_once = k->by_row ? pair : pair * k->loops->lanes;
    void *work = aligned(dl_fft_work(k->job.plan));
    if (!work) {
        __atomic_store_n(&k->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (long from = i * k->each; from < end; from += at_once)
        (k->by_row ? k->loops->run_row : k->loops->run_lanes)(&k->job, from,
                                                              end - from < at_once ? end - from : at_once, work);
    free(work);
}

static void run_step(void *arg, long i) {
    const task *k = arg;
    k->loops->step(k->job.plan, k->step, i * k->loops->lanes, k->step ? k->t : k->z, k->step ? k->z : k->t,
                   k->work + (size_t)i * k->lane_bytes);
}

/* One transform, or two of real numbers, whose steps the threads share. */
static dl_status run_one(task *k, int threads) {
    const dl_fft_plan *p = k->job.plan;
    const long lanes = k->loops->lanes, longest = p->rows->n > p->columns->n ? p->rows->n : p->columns->n;
    const size_t pairs = (size_t)p->n * 2 * (size_t)dl_dtype_size(p->type);
    k->lane_bytes = 4 * DL_FFT_MAX_LANES * (size_t)longest;
    k->z = aligned(pairs), k->t = aligned(pairs);
    k->work = aligned(k->lane_bytes * (size_t)((longest + lanes - 1) / lanes));
    dl_status s = k->z && k->t && k->work ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for a Fourier transform");
    if (s == DL_OK) {
        k->loops->load(&k->job, 0, k->count, k->z);
        for (k->step = 0; k->step < 2; k->step++)
            dl_cpu_for(((k->step ? p->rows->n : p->columns->n) + lanes - 1) / lanes, threads, run_step, k);
        k->loops->store(&k->job, 0, k->count, k->z);
    }
    free(k->z), free(k->t), free(k->work);
    return s;
}

static dl_status run_job(dl_fft_job job, dl_dtype part) {
    if (!job.rows || !job.n) return DL_OK;
    task k = {.job = job, .loops = &DL_SIMD_PICK(dl_fft)[part == DL_F64], .count = job.rows};
    const long pair = job.kind == DL_FFT_COMPLEX ? 1 : 2;
    /* Columns side by side are lanes as they are; rows are where they fill half of them. */
    const bool side = job.kind == DL_FFT_COMPLEX && job.inner >= DL_FFT_MAX_LANES / 2 && job.n <= MOST_DIRECT;
    const bool many = job.n <= MOST_LANES && 2 * job.rows >= pair * k.loops->lanes;
    dl_fft_plan *plan = dl_fft_plan_get(job.n, part, side || many);
    if (!plan) return dl_fail(DL_ERR_MEMORY, "no memory for the roots of unity of a transform of %ld elements", job.n);
    const int threads = dl_cpu_threads((long)((double)job.rows * (double)job.n * (1 + log2((double)job.n)) / 4));
    k.job.plan = plan;
    k.by_row = dl_fft_by_row(plan);
    dl_status s = DL_OK;
    if (threads > 1 && job.rows <= pair && plan->rows) {
        s = run_one(&k, threads);
    } else {
        const long unit = k.by_row ? pair : pair * k.loops->lanes, units = (job.rows + unit - 1) / unit;
        const long tasks = units < 4 * threads ? units : 4 * threads;
        k.each = (units + tasks - 1) / tasks * unit;
        dl_cpu_for((job.rows + k.each - 1) / k.each, threads, run_some, &k);
        if (k.failed) s = dl_fail(DL_ERR_MEMORY, "no memory for a Fourier transform");
    }
    dl_fft_done(plan);
    return s;
}

/* The transforms along dimension d of tensors of this shape. */
static dl_fft_job along(const dl_tensor *t, int d, long n) {
    dl_fft_job j = {.n = n, .inner = 1, .rows = 1, .scale = 1};
    for (int i = 0; i < t->ndim; i++) {
        if (i != d) j.rows *= t->shape[i];
        if (i > d) j.inner *= t->shape[i];
    }
    return j;
}

/* Complex numbers along n dimensions, from x, which may be `out`: both are contiguous. */
static dl_status run_complex(dl_tensor *x, dl_tensor *out, const long *dim, int n, bool inverse, double scale) {
    for (int i = 0, d; i < n; i++) {
        DL_TRY(dl_dim_norm(dim[i], x->ndim, &d));
        dl_fft_job j = along(x, d, x->shape[d]);
        j.inverse = inverse;
        j.in = i ? dl_ptr(out) : dl_ptr(x), j.out = dl_ptr(out);
        if (i + 1 == n) j.scale = scale;
        DL_TRY(run_job(j, dl_dtype_of_parts(x->dtype)));
    }
    return DL_OK;
}

static dl_status run_fft_complex(dl_call *c) {
    const dl_aval *dim = ATTR(c, FFT_COMPLEX_DIM);
    DL_OWNED dl_tensor *x = dl_cpu_contiguous(c->in[0]);
    if (!x) return dl_failed();
    return run_complex(x, c->out[0], dim->u.v, dim->n, ATTR_I(c, FFT_COMPLEX_INVERSE) != 0,
                       ATTR_F(c, FFT_COMPLEX_SCALE));
}
const dl_kernel dl_cpu_fft_complex = {.run = run_fft_complex, .dtypes = DL_COMPLEX};

/* Along one dimension, between real numbers and half of the frequencies; of gradients `once`. */
static dl_status run_half(const dl_tensor *x, dl_tensor *out, dl_fft_kind kind, long dim, double scale, bool once) {
    const dl_tensor *real = kind == DL_FFT_FROM_REAL ? x : out;
    int d;
    DL_TRY(dl_dim_norm(dim, x->ndim, &d));
    dl_fft_job j = along(x, d, real->shape[d]);
    j.kind = kind, j.inverse = kind == DL_FFT_TO_REAL, j.scale = scale, j.once = once;
    j.in = dl_ptr(x), j.out = dl_ptr(out);
    return run_job(j, real->dtype);
}

/* The last of the dimensions has half of the frequencies. */
static dl_status from_real(dl_tensor *in, dl_tensor *out, const dl_aval *dim, double scale, bool once) {
    const int others = dim->n - 1;
    DL_OWNED dl_tensor *x = dl_cpu_contiguous(in);
    if (!x) return dl_failed();
    DL_TRY(run_half(x, out, DL_FFT_FROM_REAL, dim->u.v[others], scale, once));
    return run_complex(out, out, dim->u.v, others, false, 1);
}
static dl_status to_real(dl_tensor *in, dl_tensor *out, const dl_aval *dim, double scale, bool once) {
    const int others = dim->n - 1;
    DL_OWNED dl_tensor *x = dl_cpu_contiguous(in);
    DL_OWNED dl_tensor *half = x && others ? dl_tensor_empty(x->ndim, x->shape, x->dtype, 0) : dl_ref(x);
    if (!half) return dl_failed();
    DL_TRY(run_complex(x, half, dim->u.v, others, true, 1));
    return run_half(half, out, DL_FFT_TO_REAL, dim->u.v[others], scale, once);
}

typedef dl_status transform(dl_tensor *in, dl_tensor *out, const dl_aval *dim, double scale, bool once);
static dl_status real_back(dl_back *b, transform *other, const dl_aval *dim, double scale) {
    const dl_meta *m = dl_in_meta(b, 0);
    dl_tensor *dx = dl_tensor_empty(m->ndim, m->shape, (dl_dtype)m->dtype, 0);
    if (!dx) return dl_failed();
    if (other(b->g[0], dx, dim, scale, true) == DL_OK) return dl_give(b, 0, dx);
    dl_unref(dx);
    return dl_failed();
}

static dl_status run_fft_from_real(dl_call *c) {
    return from_real(c->in[0], c->out[0], ATTR(c, FFT_FROM_REAL_DIM), ATTR_F(c, FFT_FROM_REAL_SCALE), false);
}
static dl_status fft_from_real_back(dl_back *b) {
    return real_back(b, to_real, ATTR(b, FFT_FROM_REAL_DIM), ATTR_F(b, FFT_FROM_REAL_SCALE));
}
const dl_kernel dl_cpu_fft_from_real = {.run = run_fft_from_real,
                                        .fused_grad = fft_from_real_back,
                                        .dtypes = DL_BIT(DL_F32) | DL_BIT(DL_F64),
                                        .flags = DL_K_GRAD_COMPLEX};

static dl_status run_fft_to_real(dl_call *c) {
    return to_real(c->in[0], c->out[0], ATTR(c, FFT_TO_REAL_DIM), ATTR_F(c, FFT_TO_REAL_SCALE), false);
}
static dl_status fft_to_real_back(dl_back *b) {
    return real_back(b, from_real, ATTR(b, FFT_TO_REAL_DIM), ATTR_F(b, FFT_TO_REAL_SCALE));
}
const dl_kernel dl_cpu_fft_to_real = {
    .run = run_fft_to_real, .fused_grad = fft_to_real_back, .dtypes = DL_COMPLEX, .flags = DL_K_GRAD_COMPLEX};
