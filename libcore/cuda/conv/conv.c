/* Kernels of conv2d, conv2d_dx, conv2d_dw and conv2d_norm. They sort operands by role, handle empty ones, and divide
 * operands of 2^31 elements or more into parts: some images at a time, or some channels of one image. */
#include "cuda/conv/conv.h"
#include "ops/names/conv.h"

static const long MOST = (1L << 31) - 1; /* most elements of an operand that cuDNN and cuBLASLt take */

dl_status dl_conv_clear(dl_gpu *g, dl_tensor *t) {
    return dl_gpu_check(g, cudaMemsetAsync(dl_ptr(t), 0, (size_t)t->numel * dl_esize(t), g->stream), "clearing memory");
}

/* A view of t[n : n + count, c : c + channels]. */
static dl_tensor *block(const dl_tensor *t, long n, long count, long c, long channels) {
    long shape[4] = {count, channels, t->shape[2], t->shape[3]};
    long offset = t->offset + n * t->stride[0] + c * t->stride[1];
    return dl_view_new(t->st, t->dtype, 4, shape, t->stride, offset);
}

/* A view of t[n : n + count]. */
static dl_tensor *images(const dl_tensor *t, long n, long count) { return block(t, n, count, 0, t->shape[1]); }

static dl_status run_part(const dl_conv_job *whole, long n, long count, dl_tensor *weight) {
    dl_conv_job job = *whole;
    job.g.N = count, job.weight = weight;
    job.image = images(whole->image, n, count);
    job.result = images(whole->result, n, count);
    dl_status s = job.image && job.result ? dl_conv_run(&job) : dl_failed();
    dl_unref(job.image);
    dl_unref(job.result);
    return s;
}

/* Runs `most` images at a time; the gradient of the weights is summed over the parts. */
static dl_status run_parts(const dl_conv_job *job, long most) {
    dl_tensor *w = job->weight, *one = NULL;
    dl_status s = DL_OK;
    if (job->kind == DL_CONV_DW && !(one = dl_tensor_empty(4, w->shape, w->dtype, w->st->device))) return dl_failed();
    for (long n = 0; n < job->g.N && s == DL_OK; n += most) {
        bool apart = one && n;
        s = run_part(job, n, job->g.N - n < most ? job->g.N - n : most, apart ? one : w);
        if (s == DL_OK && apart) s = dl_conv_add(job->gpu, w, one);
    }
    dl_unref(one);
    return s;
}

/* Part of image n: `channels` of its channels from c on and `results` result channels from o on, in `groups` groups; w
 * is the first of these image channels in the weight. */
typedef struct piece {
    long n, c, channels, o, results, groups, w;
} piece;

/* `add`: adds to the output instead of replacing it. */
static dl_status run_piece(const dl_conv_job *whole, const piece *p, bool add) {
    dl_conv_job job = *whole;
    job.g.N = 1, job.g.C = p->channels, job.g.O = p->results, job.g.groups = p->groups;
    job.image = block(whole->image, p->n, 1, p->c, p->channels);
    job.result = block(whole->result, p->n, 1, p->o, p->results);
    job.weight = block(whole->weight, p->o, p->results, p->w, p->channels / p->groups);
    dl_tensor **out = job.kind == DL_CONV_FORWARD ? &job.result : job.kind == DL_CONV_DX ? &job.image : &job.weight;
    dl_tensor *sum = NULL;
    dl_status s = job.image && job.result && job.weight ? DL_OK : dl_failed();
    if (s == DL_OK && add) {
        sum = *out;
        *out = dl_tensor_empty(4, sum->shape, sum->dtype, sum->st->device);
        if (!*out) s = dl_failed();
    }
    if (s == DL_OK) s = dl_conv_run(&job);
    if (s == DL_OK && sum) s = dl_conv_add(job.gpu, sum, *out);
    dl_unref(job.image), dl_unref(job.result), dl_unref(job.weight), dl_unref(sum);
    return s;
}

static long least(long a, long b) { return a < b ? a : b; }

/* Image by image, several groups at a time. A group that is too large is divided further: results are then summed over
 * the parts of the image channels, image gradients over the parts of the result channels. */
static dl_status run_pieces(const dl_conv_job *job) {
    const dl_conv *g = &job->g;
    long cg = g->C / g->groups, og = g->O / g->groups;
    long most_c = MOST / (g->in[0] * g->in[1]), most_o = MOST / (g->out[0] * g->out[1]);
    long many = least(most_c / cg, most_o / og), step_c = many ? cg : least(cg, most_c);
    long step_o = many ? og : least(og, most_o);
    if (!many) many = 1;
    dl_status s = DL_OK;
    for (long n = 0; n < g->N; n++)
        for (long k = 0; k < g->groups; k += many) {
            long count = least(many, g->groups - k);
            for (long o = 0; o < og; o += step_o)
                for (long c = 0; c < cg && s == DL_OK; c += step_c) {
                    piece p = {
                        n,     k * cg + c, count * least(step_c, cg - c), k * og + o, count * least(step_o, og - o),
                        count, c};
                    bool add = job->kind == DL_CONV_FORWARD ? c > 0 : job->kind == DL_CONV_DX ? o > 0 : n > 0;
                    s = run_piece(job, &p, add);
                }
        }
    return s;
}

static dl_status run(const dl_conv_job *job) {
    const dl_conv *g = &job->g;
    long planes[2] = {g->in[0] * g->in[1], g->out[0] * g->out[1]}, plane = planes[planes[1] > planes[0]];
    long image = g->C * planes[0], result = g->O * planes[1], larger = image > result ? image : result;
    if (job->weight->numel > MOST || plane > MOST)
        return dl_fail_hint(DL_ERR_UNSUPPORTED, "cut it into parts",
                            "%s of %ld elements is more than a GPU convolution takes, 2^31",
                            plane > MOST ? "a channel" : "a weight", plane > MOST ? plane : job->weight->numel);
    if (larger > MOST) return run_pieces(job);
    return larger * g->N <= MOST ? dl_conv_run(job) : run_parts(job, MOST / larger);
}

/* conv2d, conv2d_dx or conv2d_dw, without the bias. */
static dl_status convolve(const dl_call *c, dl_gpu **gpu) {
    dl_tensor *out = c->out[0];
    dl_conv_job job = {.t = c->dtype};
    DL_TRY(dl_conv_of(c, &job.g));
    if (!out->numel) return DL_OK;
    if (!(*gpu = job.gpu = dl_gpu_use(c->device))) return dl_failed();
    if (c->op->id == dl_id_conv2d)
        job.kind = DL_CONV_FORWARD, job.image = c->in[0], job.weight = c->in[1], job.result = out;
    else if (c->op->id == dl_id_conv2d_dx)
        job.kind = DL_CONV_DX, job.image = out, job.weight = c->in[1], job.result = c->in[0];
    else
        job.kind = DL_CONV_DW, job.image = c->in[1], job.weight = out, job.result = c->in[0];
    bool empty = !job.image->numel || !job.weight->numel || !job.result->numel;
    return empty ? dl_conv_clear(job.gpu, out) : run(&job);
}

static dl_status conv_run(dl_call *c) {
    dl_gpu *g = NULL;
    dl_tensor *bias = c->op->id == dl_id_conv2d ? INPUT(c, CONV2D_BIAS) : NULL;
    DL_TRY(convolve(c, &g));
    return bias && g ? dl_channels_normalise(g, c->out[0], &(dl_channel_norm){.bias = bias}) : DL_OK;
}

static dl_status conv_norm_run(dl_call *c) {
    dl_call inner;
    dl_gpu *g = NULL;
    dl_conv_norm_inner(c, &inner);
    DL_TRY(convolve(&inner, &g));
    dl_channel_norm n = {.mean = INPUT(c, CONV2D_NORM_RUNNING_MEAN),
                         .var = INPUT(c, CONV2D_NORM_RUNNING_VAR),
                         .bias = INPUT(c, CONV2D_NORM_BIAS),
                         .weight = INPUT(c, CONV2D_NORM_NORM_WEIGHT),
                         .shift = INPUT(c, CONV2D_NORM_NORM_BIAS),
                         .eps = ATTR_F(c, CONV2D_NORM_EPS),
                         .relu = ATTR_I(c, CONV2D_NORM_RELU) != 0};
    return g ? dl_channels_normalise(g, c->out[0], &n) : DL_OK;
}

const dl_kernel dl_cuda_conv2d = {.run = conv_run, .dtypes = DL_FLOATS};
const dl_kernel dl_cuda_conv2d_dx = {.run = conv_run, .dtypes = DL_FLOATS};
const dl_kernel dl_cuda_conv2d_dw = {.run = conv_run, .dtypes = DL_FLOATS};
const dl_kernel dl_cuda_conv2d_norm = {.run = conv_norm_run, .dtypes = DL_FLOATS};
