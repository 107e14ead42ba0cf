/* What every source of the CUDA plugin starts with: libdlcore's internal headers, its functions through the table that
 * the plugin is given, and the devices of this process. Plain C and C++17. */
#pragma once

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Around declarations that C and C++ sources share. */
#ifdef __cplusplus
#include <cmath>
#include <cstring>
#define DL_C_BEGIN extern "C" {
#define DL_C_END }
#else
#define DL_C_BEGIN
#define DL_C_END
#endif

DL_C_BEGIN

#include "cuda/runtime/internal.h"
#include "cuda/runtime/fault.h"
#include "cuda/runtime/cache.h"

#define KERNEL(name) extern const dl_kernel dl_cuda_##name;
#include "ops/kernels_gen.h"
#undef KERNEL

/* An op without a kernel here, and why. */
#define DL_NONE(name, reason) const dl_kernel dl_cuda_##name = {NULL, NULL, 0, reason, 0};

enum {
    DL_MAX_GPUS = 64,
    DL_GPU_DONE = 2048 /* results of a launch of which several blocks compute parts */
};

/* One device of this process. All work goes to `stream`, in order. */
typedef struct dl_gpu {
    int index, sms;
    cudaStream_t stream;
    dl_cache *cache;
    dl_fault *report; /* pinned: the fault that a kernel found */
    int *claim;       /* on the device: set by the thread that writes the report */
    int *done;        /* on the device: finished parts of each result of a launch; zero between launches */
    char *staging[2]; /* pinned */
    cudaEvent_t staged[2];
    int next_staging;
    pthread_mutex_t lock;      /* of cache and staging */
    cudaError_t lost;          /* a sticky error; nothing works any more on the device */
    cudaStream_t copies;       /* beside `stream`: uploads for later work */
    dl_graph *capturing;       /* the graph that records the work on `stream`, which is not run; NULL: none */
    const dl_control *control; /* of the trainer whose work is being issued; NULL: none */
    dl_rng_at rng;             /* random calls count from here within a graph */
} dl_gpu;

/* The device of a call, current for this thread; set up on first use. Reports faults of earlier work. NULL: recorded.
 */
dl_gpu *dl_gpu_use(int device);
/* Declares g, the device of a call, or returns from the function with the error. */
#define DL_USE_GPU(g, device)                                                                                          \
    dl_gpu *g = dl_gpu_use(device);                                                                                    \
    if (!g) return dl_failed()
/* DL_OK, or the error recorded; `what` names what was tried. */
dl_status dl_gpu_check(dl_gpu *g, cudaError_t e, const char *what);
#define DL_CUDA_TRY(g, call, what) DL_TRY(dl_gpu_check(g, call, what))
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
/* Waits for the work on the stream, and reports faults that it found. */
dl_status dl_gpu_wait(dl_gpu *g);
/* Small data of the host to the device, in the order of the stream. */
dl_status dl_gpu_upload(dl_gpu *g, void *dst, const void *src, size_t bytes);
/* What a kernel needs to report a fault: where the report goes, the op and the statement that called it. */
dl_fault_site dl_gpu_site(dl_gpu *g, const dl_op *op);

/* Strided copy with conversion (copy.cu): shapes as in dl_iter; strides in elements. */
dl_status dl_cuda_copy_strided(dl_gpu *g, int ndim, const long *shape, void *dst, dl_dtype dt, const long *ds,
                               const void *src, dl_dtype st, const long *ss);
dl_status dl_cuda_copy(dl_gpu *g, dl_tensor *dst, const dl_tensor *src);
/* Blocks of memory to other places, in one launch for DL_GPU_BLOCKS of them. */
enum { DL_GPU_BLOCKS = 32 };
typedef struct dl_gpu_block {
    void *to;
    const void *from;
    size_t bytes;
} dl_gpu_block;
dl_status dl_cuda_copy_blocks(dl_gpu *g, const dl_gpu_block *blocks, int n);
/* All bytes of t, which is contiguous, become zero. */
dl_status dl_cuda_clear(dl_gpu *g, dl_tensor *t);
/* t laid out contiguously, or with like's strides and dtype: t itself (a new reference) or a copy. */
dl_tensor *dl_cuda_contiguous(dl_gpu *g, dl_tensor *t);
dl_tensor *dl_cuda_strided_like(dl_gpu *g, dl_tensor *t, const dl_tensor *like);
/* *out = t, contiguous and of the dtype given, or NULL when t is NULL. False: an error is recorded. */
bool dl_cuda_operand(dl_gpu *g, dl_tensor *t, int dtype, dl_tensor **out);
/* Are all elements one number in memory, such as those of the gradient of a sum? */
bool dl_cuda_repeated(const dl_tensor *t);
/* A fresh tensor with the shape of t and, if dense, its strides. */
dl_tensor *dl_cuda_empty_like(const dl_tensor *t, dl_dtype dtype);

DL_C_END
