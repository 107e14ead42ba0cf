/* The plugin's only symbol, its table of kernels, and its devices: setting up, copies, faults. */
#include "cuda/runtime/base.h"
#include "cuda/conv/conv.h"
#include "cuda/runtime/graph.h"
#include "cuda/runtime/nvml.h"
#include "abi.h"
#include "dlcore_ops.h"

#include <string.h>

static const size_t STAGING = (size_t)4 << 20;

const dl_imports *dl_import_table;
#undef dl_dtype_size
/* Internal headers call this one by its name. */
long dl_dtype_size(dl_dtype t) { return dl_import_table->p_dl_dtype_size(t); }

static dl_gpu gpus[DL_MAX_GPUS];
static int count, culprit; /* culprit: the GPU whose error made CUDA unusable in this process */
static pthread_mutex_t setting_up = PTHREAD_MUTEX_INITIALIZER;
static bool every; /* wait after each launch */
static _Thread_local int current = -1;

/* ---- errors */

static bool sticky(cudaError_t e) {
    switch (e) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidPc:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorHardwareStackError:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorLaunchTimeout: return true;
    default: return false;
    }
}

/* Errors with a remedy. */
static const struct {
    cudaError_t e;
    dl_status code;
    const char *text, *hint; /* text: goes before the name of the GPU */
} remedies[] = {
    {cudaErrorMemoryAllocation, DL_ERR_MEMORY, "there is no memory left on",
     "free tensors, or end what else runs on it: nvidia-smi lists that"},
    {cudaErrorNoKernelImageForDevice, DL_ERR_UNSUPPORTED, "this build has no code for",
     "build it with -DCMAKE_CUDA_ARCHITECTURES=native, or choose `device cpu`"},
    {cudaErrorUnsupportedPtxVersion, DL_ERR_UNSUPPORTED, "the driver is too old for this build's code for",
     "update the driver, or choose `device cpu`"},
    {cudaErrorDevicesUnavailable, DL_ERR_DEVICE, "another process has, or the driver withholds,",
     "nvidia-smi tells who uses it and in what compute mode it is"},
};

dl_status dl_gpu_check(dl_gpu *g, cudaError_t e, const char *what) {
    if (e == cudaSuccess) return DL_OK;
    cudaGetLastError();
    if (sticky(e)) {
        if (!g->lost) culprit = g->index;
        g->lost = e;
        for (int i = 0; i < count; i++) gpus[i].lost = e; /* CUDA is unusable in this process from here on */
        return dl_fail_hint(DL_ERR_DEVICE,
                            "tensors on GPUs are gone; `device cpu` goes on with the rest, a new start with GPUs. `set "
                            "sync on` finds the statement that did it",
                            "the GPU cuda:%d is lost: %s (noticed in %s)", g->index, cudaGetErrorString(e), what);
    }
    for (unsigned i = 0; i < sizeof remedies / sizeof *remedies; i++)
        if (remedies[i].e == e)
            return dl_fail_hint(remedies[i].code, remedies[i].hint, "%s cuda:%d, needed for %s", remedies[i].text,
                                g->index, what);
    return dl_fail(DL_ERR_DEVICE, "CUDA failed in %s: %s", what, cudaGetErrorString(e));
}

static dl_status report_fault(dl_gpu *g) {
    static const struct {
        dl_status code;
        const char *text;
    } kinds[] = {{DL_OK, ""},
#define X(name, code, text) {code, text},
                 DL_FAULT_LIST(X)
#undef X
    };
    dl_fault f = *g->report;
    char text[160];
    snprintf(text, sizeof text, kinds[f.kind].text, f.a, f.b);
    g->report->kind = DL_FAULT_NONE;
    cudaMemsetAsync(g->claim, 0, sizeof *g->claim, g->stream); /* never within a capture, whose beginning waits */
    if (f.file && *f.file)
        return dl_fail(kinds[f.kind].code, "%s, found on the GPU by %s at %s:%d", text, f.op, f.file, f.line);
    return dl_fail(kinds[f.kind].code, "%s, found on the GPU by %s", text, f.op);
}

static dl_status poll(dl_gpu *g) {
    return __atomic_load_n(&g->report->kind, __ATOMIC_ACQUIRE) ? report_fault(g) : DL_OK;
}

dl_fault_site dl_gpu_site(dl_gpu *g, const dl_op *op) {
    dl_source at = dl_source_get();
    return (dl_fault_site){g->report, g->claim, at.file, op->name, at.line};
}

/* ---- devices */

static void *driver_get(void *arg DL_UNUSED, size_t bytes) {
    void *p = NULL;
    if (cudaMalloc(&p, bytes) == cudaSuccess) return p;
    cudaGetLastError();
    return NULL;
}

static void driver_put(void *arg DL_UNUSED, void *p) { cudaFree(p); }

static size_t driver_room(void *arg DL_UNUSED) {
    size_t room = 0, total = 0;
    cudaMemGetInfo(&room, &total);
    return room;
}

static dl_status set_up_parts(dl_gpu *g, int index) {
    DL_CUDA_TRY(g, cudaSetDevice(index), "starting the GPU");
    DL_CUDA_TRY(g, cudaDeviceGetAttribute(&g->sms, cudaDevAttrMultiProcessorCount, index), "asking the GPU");
    DL_CUDA_TRY(g, cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking), "making a stream");
    DL_CUDA_TRY(g, cudaStreamCreateWithFlags(&g->copies, cudaStreamNonBlocking), "making a stream");
    DL_CUDA_TRY(g, cudaHostAlloc((void **)&g->report, sizeof *g->report, cudaHostAllocPortable), "pinned memory");
    memset(g->report, 0, sizeof *g->report);
    DL_CUDA_TRY(g, cudaMalloc((void **)&g->claim, sizeof *g->claim), "the report of faults");
    DL_CUDA_TRY(g, cudaMemset(g->claim, 0, sizeof *g->claim), "the report of faults");
    DL_CUDA_TRY(g, cudaMalloc((void **)&g->done, DL_GPU_DONE * sizeof *g->done), "the parts of sums");
    DL_CUDA_TRY(g, cudaMemsetAsync(g->done, 0, DL_GPU_DONE * sizeof *g->done, g->stream), "the parts of sums");
    for (int i = 0; i < 2; i++) {
        DL_CUDA_TRY(g, cudaHostAlloc((void **)&g->staging[i], STAGING, cudaHostAllocPortable), "pinned memory");
        DL_CUDA_TRY(g, cudaEventCreateWithFlags(&g->staged[i], cudaEventDisableTiming), "making an event");
    }
    pthread_mutex_init(&g->lock, NULL);
    dl_cache_driver d = {driver_get, driver_put, driver_room, NULL};
    g->cache = dl_cache_new(&d);
    return g->cache ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for the allocator of the GPU");
}

/* Undoes everything after an error: the next try may succeed, when another process has freed memory. */
static dl_status set_up(dl_gpu *g, int index) {
    dl_status s = set_up_parts(g, index);
    if (s == DL_OK) return DL_OK;
    for (int i = 0; i < 2; i++) {
        if (g->staged[i]) cudaEventDestroy(g->staged[i]);
        cudaFreeHost(g->staging[i]);
    }
    cudaFree(g->done), cudaFree(g->claim), cudaFreeHost(g->report);
    if (g->copies) cudaStreamDestroy(g->copies);
    if (g->stream) cudaStreamDestroy(g->stream);
    cudaGetLastError();
    return s;
}

/* The GPU, set up and current for this thread; faults of earlier work are not reported. */
static dl_gpu *open_gpu(int index) {
    dl_gpu *g = &gpus[index];
    if (g->lost) {
        char with[32] = "";
        if (index != culprit) snprintf(with, sizeof with, " with cuda:%d", culprit);
        dl_fail_hint(DL_ERR_DEVICE, "`device cpu` goes on without GPUs; start again to use them",
                     "the GPU cuda:%d is lost%s: %s", index, with, cudaGetErrorString(g->lost));
        return NULL;
    }
    if (!__atomic_load_n(&g->cache, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&setting_up);
        dl_gpu fresh = {.index = index};
        dl_status s = g->cache ? DL_OK : set_up(&fresh, index);
        if (s == DL_OK && !g->cache) {
            dl_cache *cache = fresh.cache;
            fresh.cache = NULL;
            *g = fresh;
            __atomic_store_n(&g->cache, cache, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&setting_up);
        if (s != DL_OK) return NULL;
        current = index;
    }
    if (current != index || count > 1) { /* code of the user may have chosen another one meanwhile */
        if (dl_gpu_check(g, cudaSetDevice(index), "choosing the GPU") != DL_OK) return NULL;
        current = index;
    }
    return g;
}

dl_gpu *dl_gpu_use(int device) {
    dl_gpu *g = open_gpu(device - 1);
    return g && poll(g) == DL_OK ? g : NULL;
}

dl_status dl_gpu_wait(dl_gpu *g) {
    DL_TRY(dl_gpu_no_capture(g, "waiting for the GPU"));
    DL_CUDA_TRY(g, cudaStreamSynchronize(g->stream), "waiting for the GPU");
    return poll(g);
}

dl_status dl_gpu_launched(dl_gpu *g) {
    DL_CUDA_TRY(g, cudaGetLastError(), "starting a kernel");
    return __atomic_load_n(&every, __ATOMIC_RELAXED) && !g->capturing ? dl_gpu_wait(g) : DL_OK;
}

static void *take(dl_gpu *g, size_t bytes, const void *pool) {
    pthread_mutex_lock(&g->lock);
    void *p = dl_cache_alloc(g->cache, bytes, pool);
    pthread_mutex_unlock(&g->lock);
    return p;
}

void *dl_gpu_take(dl_gpu *g, size_t bytes) {
    return take(g, bytes, g->capturing ? (const void *)g->capturing : (const void *)g->stream);
}

void *dl_gpu_take_lasting(dl_gpu *g, size_t bytes) { return take(g, bytes, g->stream); }

void dl_gpu_drop(dl_gpu *g, void *p) {
    if (!p) return;
    pthread_mutex_lock(&g->lock);
    dl_cache_free(g->cache, p);
    pthread_mutex_unlock(&g->lock);
}

static void *backend_alloc(int index, size_t bytes) {
    dl_gpu *g = open_gpu(index);
    return g ? dl_gpu_take(g, bytes) : NULL;
}

static void backend_release(int index, void *p, size_t bytes DL_UNUSED) {
    if (gpus[index].cache) dl_gpu_drop(&gpus[index], p);
}

/* ---- copies */

/* The next of the two pinned buffers, free again. The lock is held. */
static dl_status staging(dl_gpu *g, int *which) {
    *which = g->next_staging ^= 1;
    return dl_gpu_check(g, cudaEventSynchronize(g->staged[*which]), "a copy");
}

/* Returns as soon as the source has been read; the copy itself runs in the stream's order. */
static dl_status upload(dl_gpu *g, char *dst, const char *src, size_t bytes) {
    if (bytes <= DL_GPU_WRITE) return bytes ? dl_gpu_write(g, dst, src, bytes) : DL_OK;
    DL_TRY(dl_gpu_no_capture(g, "a copy to the GPU"));
    for (size_t at = 0; at < bytes; at += STAGING) {
        size_t n = bytes - at < STAGING ? bytes - at : STAGING;
        int i = 0;
        DL_TRY(staging(g, &i));
        memcpy(g->staging[i], src + at, n);
        DL_CUDA_TRY(g, cudaMemcpyAsync(dst + at, g->staging[i], n, cudaMemcpyHostToDevice, g->stream),
                    "a copy to the GPU");
        DL_CUDA_TRY(g, cudaEventRecord(g->staged[i], g->stream), "a copy to the GPU");
    }
    return DL_OK;
}

/* While one piece is copied out of its pinned buffer the next one travels. */
static dl_status download(dl_gpu *g, char *dst, const char *src, size_t bytes) {
    DL_TRY(dl_gpu_no_capture(g, "reading what the GPU has computed"));
    size_t pieces = (bytes + STAGING - 1) / STAGING;
    int slot[2] = {0, 0};
    for (size_t k = 0; k <= pieces; k++) {
        if (k < pieces) {
            size_t at = k * STAGING, n = bytes - at < STAGING ? bytes - at : STAGING;
            DL_TRY(staging(g, &slot[k & 1]));
            int i = slot[k & 1];
            DL_CUDA_TRY(g, cudaMemcpyAsync(g->staging[i], src + at, n, cudaMemcpyDeviceToHost, g->stream),
                        "a copy from the GPU");
            DL_CUDA_TRY(g, cudaEventRecord(g->staged[i], g->stream), "a copy from the GPU");
        }
        if (k) {
            size_t at = (k - 1) * STAGING, n = bytes - at < STAGING ? bytes - at : STAGING;
            int i = slot[(k - 1) & 1];
            DL_CUDA_TRY(g, cudaEventSynchronize(g->staged[i]), "a copy from the GPU");
            memcpy(dst + at, g->staging[i], n);
        }
    }
    return poll(g);
}

dl_status dl_gpu_upload(dl_gpu *g, void *dst, const void *src, size_t bytes) {
    pthread_mutex_lock(&g->lock);
    dl_status s = upload(g, dst, src, bytes);
    pthread_mutex_unlock(&g->lock);
    return s;
}

dl_status dl_gpu_upload_now(dl_gpu *g, void *dst, const void *src, size_t bytes) {
    if (!g->capturing) return dl_gpu_upload(g, dst, src, bytes);
    DL_CUDA_TRY(g, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyHostToDevice, g->copies), "a copy to the GPU");
    return dl_gpu_check(g, cudaStreamSynchronize(g->copies), "a copy to the GPU");
}

/* Between two GPUs the copy waits for both. */
static dl_status between(int to, void *dst, int from, const void *src, size_t bytes) {
    dl_gpu *a = open_gpu(from);
    if (!a) return dl_failed();
    if (to == from)
        return dl_gpu_check(a, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, a->stream), "a copy");
    DL_TRY(dl_gpu_wait(a));
    dl_gpu *b = open_gpu(to);
    if (!b) return dl_failed();
    DL_CUDA_TRY(b, cudaMemcpyPeerAsync(dst, to, src, from, bytes, b->stream), "a copy between GPUs");
    return dl_gpu_wait(b);
}

static dl_status backend_copy(void *dst, int dst_device, const void *src, int src_device, size_t bytes) {
    if (dst_device && src_device) return between(dst_device - 1, dst, src_device - 1, src, bytes);
    dl_gpu *g = open_gpu((dst_device ? dst_device : src_device) - 1);
    if (!g) return dl_failed();
    pthread_mutex_lock(&g->lock);
    dl_status s = dst_device ? upload(g, dst, src, bytes) : download(g, dst, src, bytes);
    pthread_mutex_unlock(&g->lock);
    return s;
}

/* ---- the backend */

static dl_status backend_synchronize(int index) {
    dl_gpu *g = open_gpu(index);
    return g ? dl_gpu_wait(g) : dl_failed();
}

static dl_status backend_describe(int index, char *text, int size) {
    struct cudaDeviceProp p;
    int driver = 0;
    if (gpus[index].lost) return open_gpu(index) ? DL_OK : dl_failed();
    DL_CUDA_TRY(&gpus[index], cudaGetDeviceProperties(&p, index), "asking the GPU");
    cudaDriverGetVersion(&driver);
    snprintf(text, (size_t)size, "%s, %.1f GiB, compute capability %d.%d, CUDA %d.%d", p.name,
             (double)p.totalGlobalMem / 1073741824, p.major, p.minor, driver / 1000, driver % 1000 / 10);
    return DL_OK;
}

static dl_status backend_memory(int index, dl_device_memory *out) {
    dl_gpu *g = open_gpu(index);
    size_t used = 0, peak = 0, held = 0;
    if (!g) return dl_failed();
    pthread_mutex_lock(&g->lock);
    dl_cache_stats(g->cache, &used, &peak, &held);
    pthread_mutex_unlock(&g->lock);
    *out = (dl_device_memory){
        .used = (long)used, .peak = (long)peak, .cached = (long)(held - used), .available = (long)driver_room(g)};
    return DL_OK;
}

static dl_status backend_stream(int index, void **out) {
    dl_gpu *g = open_gpu(index);
    if (!g) return dl_failed();
    *out = g->stream;
    return DL_OK;
}

static dl_status backend_reset_peak(int index) {
    dl_gpu *g = open_gpu(index);
    if (!g) return dl_failed();
    pthread_mutex_lock(&g->lock);
    dl_cache_reset_peak(g->cache);
    pthread_mutex_unlock(&g->lock);
    return DL_OK;
}

static dl_status backend_empty_cache(int index) {
    dl_gpu *g = open_gpu(index);
    if (!g) return dl_failed();
    DL_TRY(dl_gpu_no_capture(g, "giving memory back"));
    DL_TRY(dl_gpu_wait(g));
    pthread_mutex_lock(&g->lock);
    dl_cache_empty(g->cache);
    pthread_mutex_unlock(&g->lock);
    return DL_OK;
}

static void backend_sync_every(bool on) { __atomic_store_n(&every, on, __ATOMIC_RELAXED); }

static void *backend_pinned(int index, size_t bytes) {
    dl_gpu *g = open_gpu(index);
    void *p = NULL;
    if (!g || dl_gpu_check(g, cudaHostAlloc(&p, bytes, cudaHostAllocPortable), "pinned memory") != DL_OK) return NULL;
    memset(p, 0, bytes);
    return p;
}

static void backend_unpin(int index, void *p) {
    if (!gpus[index].lost) cudaFreeHost(p);
}

static dl_status backend_idle(int index, bool *yes) {
    dl_gpu *g = open_gpu(index);
    if (!g) return dl_failed();
    cudaError_t e = cudaStreamQuery(g->stream);
    *yes = e != cudaErrorNotReady;
    return e == cudaErrorNotReady ? DL_OK : dl_gpu_check(g, e, "waiting for the GPU");
}

/* Marks are events on the stream. */
static dl_status backend_mark(int index, void **out) {
    cudaEvent_t e = NULL;
    dl_gpu *g = dl_gpu_use(index + 1);
    if (!g) return dl_failed();
    DL_TRY(dl_gpu_check(g, cudaEventCreate(&e), "an event"));
    dl_status st = dl_gpu_check(g, cudaEventRecord(e, g->stream), "an event");
    if (st != DL_OK) cudaEventDestroy(e);
    *out = st == DL_OK ? e : NULL;
    return st;
}

static dl_status backend_between(int index, void *from, void *to, double *seconds) {
    float ms = 0;
    dl_gpu *g = open_gpu(index);
    if (!g) return dl_failed();
    DL_TRY(dl_gpu_check(g, cudaEventSynchronize((cudaEvent_t)to), "an event"));
    DL_TRY(dl_gpu_check(g, cudaEventElapsedTime(&ms, (cudaEvent_t)from, (cudaEvent_t)to), "the time between events"));
    *seconds = 1e-3 * ms;
    return DL_OK;
}

static void backend_unmark(int index, void *mark) {
    if (mark && !gpus[index].lost) cudaEventDestroy((cudaEvent_t)mark);
}

static void backend_use_control(int index, const dl_control *c, const dl_rng_at *rng) {
    gpus[index].control = c;
    if (c) gpus[index].rng = *rng;
}

/* Entries that are a call for a device that is ready. */
#define ON_GPU(name, params, ...)                                                                                      \
    static dl_status backend_##name params {                                                                           \
        dl_gpu *g = dl_gpu_use(index + 1);                                                                             \
        return g ? dl_cuda_##name(g, __VA_ARGS__) : dl_failed();                                                       \
    }
ON_GPU(accumulate, (int index, dl_control *c, const dl_accumulate *a), c, a)
ON_GPU(decide, (int index, dl_control *c, const dl_decide *d), c, d)
ON_GPU(finish_step, (int index, dl_control *c, const dl_finish_step *f), c, f)
ON_GPU(average, (int index, const dl_control *c, dl_tensor *const *avg, dl_tensor *const *p, int n, double keep), c,
       avg, p, n, keep)
ON_GPU(make_batch, (int index, const dl_control *c, const dl_batch_source *s, void *x, void *y, long n), c, s, x, y, n)
ON_GPU(async_copy, (int index, void *dst, const void *src, size_t bytes), dst, src, bytes)
ON_GPU(capture_begin, (int index, dl_graph **out), out)
ON_GPU(replay, (int index, dl_graph *graph), graph)

/* A capture is ended whatever has happened meanwhile. */
static dl_status backend_capture_end(int index, dl_graph *graph, bool keep) {
    return dl_cuda_capture_end(&gpus[index], graph, keep);
}
static void backend_graph_free(int index, dl_graph *graph) { dl_cuda_graph_free(&gpus[index], graph); }

/* Tensor cores (16-bit floats, tf32) want channels last. With so few channels changing the order of the images costs
 * little, and the first layer of a net decides for all that follow. */
static dl_layout backend_prefers_layout(int index DL_UNUSED, const dl_call *c) {
    enum { FEW_CHANNELS = 4 };
    bool cores = c->dtype == DL_F16 || c->dtype == DL_BF16 || (c->dtype == DL_F32 && dl_tf32_allowed());
    return cores && c->in[0]->shape[1] <= FEW_CHANNELS ? DL_LAYOUT_CHANNELS_LAST : DL_LAYOUT_OF_INPUT;
}

static bool backend_supports(int index DL_UNUSED, const dl_call *c) {
    return c->op->id != DL_OP_conv2d_relu_max_pool2d || dl_cuda_pools_at_once(c);
}

static const dl_kernel *const kernels[DL_NOP] = {
#define KERNEL(name) [DL_OP_##name] = &dl_cuda_##name,
#include "ops/kernels_gen.h"
#undef KERNEL
};
#include "ops/ids_gen.h"

static char none[256];
static dl_backend backend = {.name = "cuda",
                             .kernel = kernels,
                             .alloc = backend_alloc,
                             .release = backend_release,
                             .copy = backend_copy,
                             .synchronize = backend_synchronize,
                             .describe = backend_describe,
                             .memory = backend_memory,
                             .usage = dl_cuda_usage,
                             .stream = backend_stream,
                             .reset_peak = backend_reset_peak,
                             .empty_cache = backend_empty_cache,
                             .sync_every = backend_sync_every,
                             .pinned = backend_pinned,
                             .unpin = backend_unpin,
                             .idle = backend_idle,
                             .prefers_layout = backend_prefers_layout,
                             .supports = backend_supports,
                             .use_control = backend_use_control,
                             .accumulate = backend_accumulate,
                             .decide = backend_decide,
                             .finish_step = backend_finish_step,
                             .average = backend_average,
                             .make_batch = backend_make_batch,
                             .async_copy = backend_async_copy,
                             .mark = backend_mark,
                             .between = backend_between,
                             .unmark = backend_unmark,
                             .capture_begin = backend_capture_begin,
                             .capture_end = backend_capture_end,
                             .replay = backend_replay,
                             .graph_free = backend_graph_free};

static void count_devices(void) {
    int driver = 0, runtime = 0;
    cudaError_t e = cudaGetDeviceCount(&count);
    cudaGetLastError();
    if (e != cudaSuccess || !count) {
        count = 0;
        cudaDriverGetVersion(&driver);
        cudaRuntimeGetVersion(&runtime);
        if (!driver)
            snprintf(none, sizeof none, "there is no NVIDIA driver on this machine");
        else if (e == cudaErrorInsufficientDriver)
            snprintf(none, sizeof none, "the NVIDIA driver is too old: it knows CUDA %d.%d, this build needs %d.%d",
                     driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
        else
            snprintf(none, sizeof none, "no GPU can be used: %s", cudaGetErrorString(e ? e : cudaErrorNoDevice));
    }
    if (count > DL_MAX_GPUS) count = DL_MAX_GPUS;
    for (int i = 0; i < count; i++) gpus[i].index = i;
    backend.count = count;
    backend.none = none;
}

__attribute__((visibility("default"))) const dl_backend *dl_plugin(const dl_imports *imports, const char **abi);

const dl_backend *dl_plugin(const dl_imports *imports, const char **abi) {
    if (strcmp(*abi, DL_ABI)) return *abi = DL_ABI, NULL;
    dl_import_table = imports;
    count_devices();
    return &backend;
}
