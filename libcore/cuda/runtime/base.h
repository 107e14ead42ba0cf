/* What every source of the CUDA plugin starts with: libdlcore's internal headers, its functions through the host's
 * table, and the devices of this process. Plain C and C++17. */
#ifndef DL_CUDA_BASE_H
#define DL_CUDA_BASE_H

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __cplusplus
#include <cmath>
#include <cstring>
extern "C" {
#endif

#include "cuda/runtime/internal.h"
#include "cuda/runtime/fault.h"
#include "cuda/runtime/cache.h"

#define KERNEL(name) extern const dl_kernel dl_cuda_##name;
#include "ops/kernels_gen.h"
#undef KERNEL

/* A row without a kernel here, and why. */
#define DL_NONE(name, reason) const dl_kernel dl_cuda_##name = {NULL, NULL, 0, reason, 0};

enum { DL_GPU_DONE = 2048 }; /* blocks of a launch that can wait for each other's parts */

/* One device of this process. All work goes to `stream`, in order. */
typedef struct dl_gpu {
    int index, sms;
    cudaStream_t stream;
    dl_cache *cache;
    dl_fault *report; /* pinned: what a kernel found wrong */
    int *claim;       /* on the device: who writes the report */
    int *done;        /* on the device: parts finished of each result of a launch; zero between launches */
    char *staging[2]; /* pinned */
    cudaEvent_t staged[2];
    int next_staging;
    pthread_mutex_t lock;      /* of cache and staging */
    cudaError_t lost;          /* a sticky error; nothing works any more on the device */
    cudaStream_t copies;       /* beside `stream`: uploads of what comes next */
    dl_graph *capturing;       /* work on `stream` is recorded into it and not done */
    const dl_control *control; /* of the trainer whose work is being issued; NULL: none */
    uint64_t rng;              /* calls of the dropout stream count from here within a graph */
} dl_gpu;

/* The device of a call, current for this thread; set up on first use. Reports faults of earlier work. NULL: recorded.
 */
dl_gpu *dl_gpu_use(int device);
/* DL_OK, or the error recorded. `what` was tried. */
dl_status dl_gpu_check(dl_gpu *g, cudaError_t e, const char *what);
/* After a launch: its error, and in synchronous mode that of the kernel. */
dl_status dl_gpu_launched(dl_gpu *g);
/* Memory for the length of a call, ordered by the stream. NULL: recorded. dl_gpu_drop may be called at once after the
 * last launch that uses it. */
void *dl_gpu_take(dl_gpu *g, size_t bytes);
void dl_gpu_drop(dl_gpu *g, void *p);
/* Memory that outlives a capture, and an upload that is done at once, also within a capture; the memory must be fresh
 * there. */
void *dl_gpu_take_lasting(dl_gpu *g, size_t bytes);
dl_status dl_gpu_upload_now(dl_gpu *g, void *dst, const void *src, size_t bytes);
/* At most DL_GPU_WRITE bytes, by a launch that carries them. */
enum { DL_GPU_WRITE = 1024 };
dl_status dl_gpu_write(dl_gpu *g, void *dst, const void *src, size_t bytes);
/* Fails while a graph is being captured: `what` cannot be part of it. */
dl_status dl_gpu_no_capture(const dl_gpu *g, const char *what);
/* Waits, and reports what the work so far had to say. */
dl_status dl_gpu_wait(dl_gpu *g);
/* Small host data to the device, in order. */
dl_status dl_gpu_upload(dl_gpu *g, void *dst, const void *src, size_t bytes);
/* Where a launch that may find a fault stands. */
dl_fault_site dl_gpu_site(dl_gpu *g, const dl_op *op);

/* Strided copy with conversion (copy.cu): shapes as in dl_iter; strides in elements. */
dl_status dl_cuda_copy_strided(dl_gpu *g, int ndim, const long *shape, void *dst, dl_dtype dt, const long *ds,
                               const void *src, dl_dtype st, const long *ss);
dl_status dl_cuda_copy(dl_gpu *g, dl_tensor *dst, const dl_tensor *src);
/* t laid out contiguously, or with like's strides and dtype: t itself (a new reference) or a copy. */
dl_tensor *dl_cuda_contiguous(dl_gpu *g, dl_tensor *t);
dl_tensor *dl_cuda_strided_like(dl_gpu *g, dl_tensor *t, const dl_tensor *like);
/* A fresh tensor with the shape of t and, if dense, its strides. */
dl_tensor *dl_cuda_empty_like(const dl_tensor *t, dl_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
