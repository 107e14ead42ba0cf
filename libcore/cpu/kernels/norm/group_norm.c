/* Kernel of norm_groups and its fused gradient, by the loops of batch_norm: a group of channels of one image is a
 * plane, and so is each of its channels. A task is a group, so that results do not depend on the number of threads. */
#include "core/scope.h"
#include "cpu/kernels/norm/norm.h"
#include "cpu/runtime/iter.h"
#include "ops/rules/norm.h"

#include <math.h>
#include <string.h>

typedef struct groups {
    dl_dtype t;
    long images, channels, number, per, plane; /* number: groups of an image; per: channels of a group */
    const dl_norm_loops *f;
    const char *x, *g;
    char *y; /* the result, or dx; may be NULL */
    double eps;
    const double *weight, *bias;      /* of each channel */
    double *mean, *rstd, *sum, *sumx; /* of each group; of each channel of each image, of g and g * (x - mean) */
} groups;

static void groups_of(groups *n, const dl_tensor *x, long number) {
    *n = (groups){.t = x->dtype, .images = x->shape[0], .channels = x->shape[1], .number = number, .x = dl_ptr(x)};
    n->per = n->channels / number;
    n->plane = x->numel / (n->images * n->channels);
    n->f = &DL_SIMD_PICK(dl_norm)[n->t];
}

/* Numbers of channels as f64; `other` where there are none. */
static void load(double *to, const dl_tensor *from, long n, double other) {
    for (long i = 0; i < n; i++)
        to[i] = from ? dl_load_f64((char *)dl_ptr(from) + i * from->stride[from->ndim - 1] * (long)dl_esize(from),
                                   from->dtype)
                     : other;
}
static void store(dl_tensor *to, const double *from) {
    for (long i = 0; i < to->numel; i++) dl_store_f64((char *)dl_ptr(to) + i * (long)dl_esize(to), to->dtype, from[i]);
}

static void normalise_group(void *arg, long i) {
    const groups *n = arg;
    const long d = n->per * n->plane, es = dl_dtype_size(n->t), first = i % n->number * n->per;
    const char *x = n->x + i * d * es;
    char *y = n->y + i * d * es;
    double square;
    n->f->moments(x, d, 1, 1, &n->mean[i], &square);
    n->rstd[i] = 1 / sqrt(square / (double)d + n->eps);
    for (long c = 0; c < n->per; c++) {
        const double scale = n->rstd[i] * n->weight[first + c];
        const long at = c * n->plane * es;
        n->f->apply(x + at, y + at, n->plane, 1, 1, &n->mean[i], &scale, &n->bias[first + c]);
    }
}

static dl_status norm_groups_run(dl_call *c) {
    if (!c->in[0]->numel) return DL_OK;
    DL_OWNED dl_tensor *x = dl_cpu_contiguous(c->in[0]);
    if (!x) return dl_failed();
    groups n;
    groups_of(&n, x, ATTR_I(c, NORM_GROUPS_NUM_GROUPS));
    n.y = dl_ptr(c->out[0]), n.eps = ATTR_F(c, NORM_GROUPS_EPS);
    const long rows = n.images * n.number;
    const size_t bytes = (size_t)(2 * rows + 2 * n.channels) * sizeof(double);
    double *work = dl_host_alloc(bytes), *vectors = work + 2 * rows;
    if (!work) return dl_failed();
    load(vectors, INPUT(c, NORM_GROUPS_WEIGHT), n.channels, 1);
    load(vectors + n.channels, INPUT(c, NORM_GROUPS_BIAS), n.channels, 0);
    n.mean = work, n.rstd = work + rows, n.weight = vectors, n.bias = vectors + n.channels;
    dl_cpu_for(rows, dl_cpu_threads(x->numel), normalise_group, &n);
    store(c->out[1], n.mean), store(c->out[2], n.rstd);
    dl_host_free(work, bytes);
    return DL_OK;
}

/* ---- gradient */

/* dx = g * a + (x - mean) * b + c, from dx = rstd (w g - mean(w g) - xhat mean(w g xhat)). */
static void grad_group(void *arg, long i) {
    const groups *n = arg;
    const long d = n->per * n->plane, es = dl_dtype_size(n->t), first = i % n->number * n->per;
    const char *x = n->x + i * d * es, *g = n->g + i * d * es;
    const double r = n->rstd[i];
    double all = 0, allx = 0;
    for (long c = 0; c < n->per; c++) {
        const long at = c * n->plane * es;
        double *sum = &n->sum[i * n->per + c], *sumx = &n->sumx[i * n->per + c];
        *sum = *sumx = 0;
        n->f->grad_sums(x + at, g + at, n->plane, 1, 1, &n->mean[i], sum, sumx);
        all += n->weight[first + c] * *sum, allx += n->weight[first + c] * *sumx;
    }
    const double b = -r * r * r * allx / (double)d, shift = -r * all / (double)d;
    for (long c = 0; n->y && c < n->per; c++) {
        const long at = c * n->plane * es;
        const double a = r * n->weight[first + c];
        n->f->grad_apply(x + at, g + at, n->y + i * d * es + at, n->plane, 1, 1, &n->mean[i], &a, &b, &shift);
    }
}

/* dweight = sum(g * xhat), dbias = sum(g). */
static dl_status give_channels(dl_back *b, const groups *n, int i, bool weight) {
    if (b->nin <= i || !DL_NEED(i)) return DL_OK;
    dl_tensor *d = T(dl_tensor_empty(1, &n->channels, dl_in_meta(b, i)->dtype, 0));
    if (!d) return dl_failed();
    const long images = n->per ? n->images : 0; /* none of images without pixels */
    for (long c = 0; c < n->channels; c++) {
        double sum = 0;
        for (long image = 0; image < images; image++) {
            const long at = image * n->channels + c;
            sum += weight ? n->sumx[at] * n->rstd[at / n->per] : n->sum[at];
        }
        dl_store_f64((char *)dl_ptr(d) + c * (long)dl_esize(d), d->dtype, sum);
    }
    return dl_give(b, i, dl_ref(d));
}

static dl_status norm_groups_fused(dl_back *b) {
    const bool weight = b->nin > DL_IN_NORM_GROUPS_WEIGHT && META(NORM_GROUPS_WEIGHT)->ndim;
    dl_tensor *saved = IN_(NORM_GROUPS_INPUT), *w = weight ? IN_(NORM_GROUPS_WEIGHT) : NULL;
    dl_tensor *mean = OUT_(NORM_GROUPS_MEAN), *rstd = OUT_(NORM_GROUPS_RSTD);
    if (!saved || !mean || !rstd || (weight && !w)) return dl_fail_null("the input");
    dl_tensor *x = T(dl_contiguous(saved)), *g = x ? T(dl_contiguous(G0)) : NULL;
    dl_tensor *dx = g ? T(dl_tensor_empty(x->ndim, x->shape, x->dtype, 0)) : NULL;
    if (!dx) return dl_failed();
    groups n = {.images = x->shape[0], .channels = x->shape[1], .t = x->dtype};
    if (x->numel) groups_of(&n, x, ATTR_I(b, NORM_GROUPS_NUM_GROUPS));
    const long rows = n.images * n.number, all = n.images * n.channels;
    dl_tensor *work = T(dl_tensor_empty(1, (long[]){2 * (rows + all) + n.channels + 1}, DL_F64, 0));
    if (!work) return dl_failed();
    double *vector = n.mean = dl_ptr(work);
    n.rstd = n.mean + rows, n.sum = n.rstd + rows, n.sumx = n.sum + all, n.weight = vector = n.sumx + all;
    memset(n.sum, 0, (size_t)(2 * all) * sizeof *n.sum);
    load(n.mean, mean, rows, 0), load(n.rstd, rstd, rows, 0), load(vector, w, n.channels, 1);
    n.g = dl_ptr(g), n.y = DL_NEED(DL_IN_NORM_GROUPS_INPUT) ? dl_ptr(dx) : NULL;
    dl_cpu_for(rows, dl_cpu_threads(x->numel), grad_group, &n);
    if (n.y || DL_NEED(DL_IN_NORM_GROUPS_INPUT)) DL_TRY(dl_give(b, DL_IN_NORM_GROUPS_INPUT, dl_ref(dx)));
    DL_TRY(give_channels(b, &n, DL_IN_NORM_GROUPS_WEIGHT, true));
    return give_channels(b, &n, DL_IN_NORM_GROUPS_BIAS, false);
}

const dl_kernel dl_cpu_norm_groups = {.run = norm_groups_run, .fused_grad = norm_groups_fused, .dtypes = DL_FLOATS};
