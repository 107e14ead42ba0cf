/* The table of the project's own convolution kernels. Their names appear in stored plans and in DLCORE_CONV_WAYS. */
#include "cuda/conv/sums.h"

#include <string.h>

static const struct {
    const char *name;
    bool (*takes)(const dl_conv *g);
    dl_status (*run)(dl_gpu *gpu, const dl_conv *g, const dl_conv_weight *weight, const float *x, float *y);
} results[DL_CONV_SUMS] = {{"strips", dl_conv_strips_take, dl_conv_strips},
                           {"winograd", dl_conv_winograd_take, dl_conv_winograd}};

static const struct {
    const char *name;
    bool (*takes)(const dl_conv *g);
    dl_status (*run)(dl_gpu *gpu, const dl_conv *g, const float *x, const float *grad, float *dw);
} weights[DL_CONV_SUMS] = {{"strips", dl_conv_strip_weights_take, dl_conv_strip_weights},
                           {"bands", dl_conv_bands_take, dl_conv_bands},
                           {"winograd", dl_conv_winograd_weights_take, dl_conv_winograd_weights}};

const char *dl_conv_sums_name(dl_conv_kind kind, int which) {
    return kind == DL_CONV_DW ? weights[which].name : results[which].name;
}

int dl_conv_sums_find(dl_conv_kind kind, const char *name) {
    for (int i = 0; i < DL_CONV_SUMS; i++) {
        const char *known = dl_conv_sums_name(kind, i);
        if (known && !strcmp(known, name)) return i;
    }
    return -1;
}

bool dl_conv_sums_take(const dl_conv *g, dl_conv_kind kind, dl_dtype t, int which) {
    dl_conv o = *g;
    bool square = g->k[0] == g->k[1] && g->stride[0] == g->stride[1] && g->dil[0] == 1 && g->dil[1] == 1;
    bool size = g->k[0] == 3 || g->k[0] == 5 || g->k[0] == 7;
    if (which < 0 || which >= DL_CONV_SUMS) return false;
    if (t != DL_F32 || !square || !size || g->stride[0] > 2 || g->groups > 1) return false;
    if (kind == DL_CONV_DW) return weights[which].takes && weights[which].takes(g);
    if (kind == DL_CONV_DX && !dl_conv_opposite(g, &o)) return false;
    return results[which].takes && results[which].takes(&o);
}

dl_status dl_conv_sums(const dl_conv_job *job, int which) {
    const dl_conv *g = &job->g;
    long taps = g->k[0] * g->k[1], all = g->C * taps;
    float *image = dl_ptr(job->image), *weight = dl_ptr(job->weight), *result = dl_ptr(job->result);
    dl_conv o;
    if (job->kind == DL_CONV_DW) return weights[which].run(job->gpu, g, image, result, weight);
    if (job->kind == DL_CONV_FORWARD)
        return results[which].run(job->gpu, g, &(dl_conv_weight){weight, all, taps, false}, image, result);
    dl_conv_opposite(g, &o);
    return results[which].run(job->gpu, &o, &(dl_conv_weight){weight, taps, all, true}, result, image);
}
