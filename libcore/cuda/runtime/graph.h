/* Captured work, and what the backend offers for training (cuda/runtime/graph.c, control.cu, batch.cu). */
#pragma once

#include "cuda/runtime/base.h"

DL_C_BEGIN
dl_status dl_cuda_accumulate(dl_gpu *g, dl_control *c, const dl_accumulate *a);
dl_status dl_cuda_decide(dl_gpu *g, dl_control *c, const dl_decide *d);
dl_status dl_cuda_finish_step(dl_gpu *g, dl_control *c, const dl_finish_step *f);
dl_status dl_cuda_average(dl_gpu *g, const dl_control *c, dl_tensor *const *avg, dl_tensor *const *p, int n,
                          double keep);
dl_status dl_cuda_make_batch(dl_gpu *g, const dl_control *c, const dl_batch_source *s, void *x, void *y, long n);

dl_status dl_cuda_capture_begin(dl_gpu *g, dl_graph **out);
dl_status dl_cuda_capture_end(dl_gpu *g, dl_graph *graph, bool keep);
dl_status dl_cuda_replay(dl_gpu *g, dl_graph *graph);
void dl_cuda_graph_free(dl_gpu *g, dl_graph *graph);

/* Host memory to the device on the stream of copies, see dl_backend.async_copy. */
dl_status dl_cuda_async_copy(dl_gpu *g, void *dst, const void *src, size_t bytes);
DL_C_END
