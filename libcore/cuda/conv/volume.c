/* Kernels of conv_volume, conv_volume_dx and conv_volume_dw: cuDNN's engines, or the images that a volume is seen as.
 */
#include "cuda/conv/conv.h"
#include "core/mode.h"
#include "core/scope.h"
#include "ops/names/conv.h"

static const long MOST = (1L << 31) - 1; /* most elements of an operand that cuDNN takes */

dl_status dl_conv_by_images(const dl_conv_job *job) {
    DL_SCOPED_GRAD_MODE(0);
    dl_tensor *in[] = {job->kind == DL_CONV_FORWARD ? job->image : job->result,
                       job->kind == DL_CONV_DW ? job->image : job->weight},
              *out = job->kind == DL_CONV_FORWARD ? job->result
                     : job->kind == DL_CONV_DX    ? job->image
                                                  : job->weight,
              *made[1] = {NULL};
    dl_call parts = *job->call;
    parts.in = in, parts.nin = 2, parts.out = made, parts.dtype = job->t;
    DL_TRY(parts.op->compose(&parts));
    DL_OWNED dl_tensor *y = made[0];
    return dl_cuda_copy(job->gpu, out, y);
}

/* Adds the bias to dense volumes, as to images of which the height is depth times height. */
static dl_status add_bias(dl_gpu *g, dl_tensor *y, dl_tensor *bias) {
    const long *s = y->shape, *step = y->stride;
    DL_OWNED dl_tensor *images = dl_view_new(y->st, y->dtype, 4, (long[]){s[0], s[1], s[2] * s[3], s[4]},
                                             (long[]){step[0], step[1], step[3], step[4]}, y->offset);
    return images ? dl_channels_normalise(g, images, &(dl_channel_norm){.bias = bias}) : dl_failed();
}

static dl_status run(const dl_conv_job *job) {
    dl_tensor *const operand[] = {job->image, job->weight, job->result};
    for (int i = 0; i < 3; i++)
        if (operand[i]->numel > MOST) return dl_conv_by_images(job);
    return dl_conv_run(job);
}

static dl_status run_volumes(dl_call *c) {
    dl_tensor *out = c->out[0], *bias = c->op->id == dl_id_conv_volume ? INPUT(c, CONV_VOLUME_BIAS) : NULL;
    dl_conv_nd g;
    dl_conv_job job = {.t = c->dtype, .volume = &g, .call = c};
    DL_TRY(dl_conv_volume_of(c, &g));
    if (!out->numel) return DL_OK;
    if (!(job.gpu = dl_gpu_use(c->device))) return dl_failed();
    if (c->op->id == dl_id_conv_volume)
        job.kind = DL_CONV_FORWARD, job.image = c->in[0], job.weight = c->in[1], job.result = out;
    else if (c->op->id == dl_id_conv_volume_dx)
        job.kind = DL_CONV_DX, job.image = out, job.weight = c->in[1], job.result = c->in[0];
    else
        job.kind = DL_CONV_DW, job.image = c->in[1], job.weight = out, job.result = c->in[0];
    DL_TRY(job.image->numel && job.weight->numel && job.result->numel ? run(&job) : dl_conv_clear(job.gpu, out));
    return bias ? add_bias(job.gpu, out, bias) : DL_OK;
}

const dl_kernel dl_cuda_conv_volume = {.run = run_volumes, .dtypes = DL_FLOATS};
const dl_kernel dl_cuda_conv_volume_dx = {.run = run_volumes, .dtypes = DL_FLOATS};
const dl_kernel dl_cuda_conv_volume_dw = {.run = run_volumes, .dtypes = DL_FLOATS};
