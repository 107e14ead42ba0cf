/* Checks the accuracy of candidate algorithms for a convolution in f32, see cuda/conv/check.h. */
#include "cuda/conv/check.h"

#include <math.h>
#include <string.h>

static const long LARGEST = 1L << 27; /* elements of an operand that is still checked */
/* The relative error allowed to a sum of n numbers is max(FLOOR, EACH * sqrt(n)), less than the mean error of adding
 * them in order. */
static const double FLOOR = 2.7e-7, EACH = 2.7e-8;

/* A new tensor with the shape and strides of t; random numbers if `drawn`. */
static dl_tensor *like(dl_gpu *g, const dl_tensor *t, bool drawn, unsigned seed) {
    dl_tensor *d = dl_cuda_empty_like(t, DL_F32);
    if (!d || !drawn || dl_conv_draw(g, dl_ptr(d), d->numel, seed) == DL_OK) return d;
    dl_unref(d);
    return NULL;
}

static dl_tensor *in_f64(dl_gpu *g, const dl_tensor *t, bool filled) {
    dl_tensor *d = dl_tensor_empty(t->ndim, t->shape, DL_F64, t->st->device);
    if (!d || !filled || dl_cuda_copy(g, d, t) == DL_OK) return d;
    dl_unref(d);
    return NULL;
}

static dl_tensor *output(const dl_conv_job *j) {
    return j->kind == DL_CONV_FORWARD ? j->result : j->kind == DL_CONV_DX ? j->image : j->weight;
}

static void drop(dl_conv_job *j) {
    dl_unref(j->image), dl_unref(j->weight), dl_unref(j->result);
    j->image = j->weight = j->result = NULL;
}

static bool exact_result(dl_conv_check *c) {
    const dl_conv_job *j = &c->job;
    dl_conv_job wide = *j;
    wide.t = DL_F64;
    wide.image = in_f64(j->gpu, j->image, j->kind != DL_CONV_DX);
    wide.weight = in_f64(j->gpu, j->weight, j->kind != DL_CONV_DW);
    wide.result = in_f64(j->gpu, j->result, j->kind != DL_CONV_FORWARD);
    bool good = wide.image && wide.weight && wide.result &&
                (j->volume ? dl_conv_by_images(&wide) : dl_conv_gemm(&wide, false)) == DL_OK;
    if (good) c->exact = dl_ref(output(&wide));
    drop(&wide);
    return good;
}

bool dl_conv_check_begin(dl_conv_check *c, const dl_conv_job *job) {
    const dl_conv_nd g = job->volume ? *job->volume : dl_conv_of_images(&job->g);
    double taps = 1.0 / (double)g.groups, pixels = (double)g.N;
    for (int d = 0; d < g.dims; d++) taps *= (double)g.k[d], pixels *= (double)g.out[d];
    double terms = job->kind == DL_CONV_FORWARD ? taps * (double)g.C
                   : job->kind == DL_CONV_DX    ? taps * (double)g.O
                                                : pixels;
    *c = (dl_conv_check){.job = *job, .allowed = fmax(FLOOR, EACH * sqrt(terms))};
    if (job->image->numel > LARGEST || job->result->numel > LARGEST || job->weight->numel > LARGEST) return false;
    c->job.image = like(job->gpu, job->image, job->kind != DL_CONV_DX, 1);
    c->job.weight = like(job->gpu, job->weight, job->kind != DL_CONV_DW, 2);
    c->job.result = like(job->gpu, job->result, job->kind != DL_CONV_FORWARD, 3);
    if (c->job.image && c->job.weight && c->job.result && exact_result(c)) return true;
    dl_conv_check_end(c);
    return false;
}

double dl_conv_check_off(dl_conv_check *c) {
    dl_tensor *got = in_f64(c->job.gpu, output(&c->job), true);
    double d = got ? dl_conv_distance(c->job.gpu, dl_ptr(got), dl_ptr(c->exact), got->numel) : -1;
    dl_unref(got);
    return d / c->allowed;
}

void dl_conv_check_end(dl_conv_check *c) {
    drop(&c->job);
    dl_unref(c->exact);
    c->exact = NULL;
}
