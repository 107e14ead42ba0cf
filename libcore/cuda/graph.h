/* Captured work, and what the backend offers for training (cuda/graph.c, control.cu, feed.cu). */
#ifndef DL_CUDA_GRAPH_H
#define DL_CUDA_GRAPH_H

#include "cuda/base.h"

#ifdef __cplusplus
extern "C" {
#endif
dl_status dl_cuda_tally(dl_gpu *g, dl_control *c, const dl_tally *t);
dl_status dl_cuda_judge(dl_gpu *g, dl_control *c, const dl_judge *j);
dl_status dl_cuda_average(dl_gpu *g, const dl_control *c, dl_tensor *const *avg, dl_tensor *const *p, int n,
                          double keep);
dl_status dl_cuda_deal(dl_gpu *g, const dl_control *c, const dl_feed *f, void *x, void *y, long n);

dl_status dl_cuda_capture_begin(dl_gpu *g, dl_graph **out);
dl_status dl_cuda_capture_end(dl_gpu *g, dl_graph *graph, bool keep);
dl_status dl_cuda_replay(dl_gpu *g, dl_graph *graph);
void dl_cuda_graph_free(dl_gpu *g, dl_graph *graph);

/* Host memory to the device on the stream of copies, see dl_backend.stage. */
dl_status dl_cuda_stage(dl_gpu *g, void *dst, const void *src, size_t bytes);
#ifdef __cplusplus
}
#endif
#endif
