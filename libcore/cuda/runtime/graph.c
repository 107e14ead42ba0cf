/* Capture of a stream into graphs, each with a pool of memory of its own; and uploads beside the work under way. */
#include "cuda/runtime/graph.h"
#include "cuda/runtime/tensor_lists.h"

#include <string.h>

struct dl_graph {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
};

dl_status dl_gpu_no_capture(const dl_gpu *g, const char *what) {
    if (!g->capturing) return DL_OK;
    return dl_fail(DL_ERR_UNSUPPORTED, "%s cannot be captured", what);
}

static void dismiss(dl_gpu *g, dl_graph *graph) {
    if (graph->exec) cudaGraphExecDestroy(graph->exec);
    if (graph->graph) cudaGraphDestroy(graph->graph);
    dl_table_forget(g, graph);
    pthread_mutex_lock(&g->lock);
    dl_cache_adopt(g->cache, graph, g->stream);
    pthread_mutex_unlock(&g->lock);
    free(graph);
}

dl_status dl_cuda_capture_begin(dl_gpu *g, dl_graph **out) {
    DL_TRY(dl_gpu_no_capture(g, "a capture"));
    DL_TRY(dl_gpu_wait(g)); /* tables made on the way are uploaded at once, into memory that nothing uses any more */
    dl_graph *graph = calloc(1, sizeof *graph);
    pthread_mutex_lock(&g->lock);
    bool pool = graph && dl_cache_pool(g->cache, graph);
    pthread_mutex_unlock(&g->lock);
    if (!pool) {
        free(graph);
        return dl_fail(DL_ERR_MEMORY, "no memory for a graph");
    }
    dl_status s = dl_gpu_check(g, cudaStreamBeginCapture(g->stream, cudaStreamCaptureModeRelaxed), "capturing");
    if (s != DL_OK) return dismiss(g, graph), s;
    g->capturing = graph;
    *out = graph;
    return DL_OK;
}

dl_status dl_cuda_capture_end(dl_gpu *g, dl_graph *graph, bool keep) {
    cudaError_t e = cudaStreamEndCapture(g->stream, &graph->graph);
    g->capturing = NULL;
    dl_status s = DL_OK;
    if (keep) s = dl_gpu_check(g, e, "capturing");
    if (keep && s == DL_OK) s = dl_gpu_check(g, cudaGraphInstantiate(&graph->exec, graph->graph, 0), "making a graph");
    if (keep && s == DL_OK) s = dl_gpu_check(g, cudaGraphUpload(graph->exec, g->stream), "making a graph");
    if (!keep || s != DL_OK) {
        cudaGetLastError();
        dismiss(g, graph);
    }
    return s;
}

dl_status dl_cuda_replay(dl_gpu *g, dl_graph *graph) {
    DL_CUDA_TRY(g, cudaGraphLaunch(graph->exec, g->stream), "running a graph");
    return dl_gpu_launched(g);
}

void dl_cuda_graph_free(dl_gpu *g, dl_graph *graph) {
    if (!graph) return;
    cudaStreamSynchronize(g->stream);
    dismiss(g, graph);
}

/* ---- uploads beside the work under way: to pinned memory, to a slot on the device, and from there to the destination;
 * only the last copy, a quick one, is in the order of the work */

enum { SLOTS = 8 };

typedef struct slot {
    char *pinned, *there;
    size_t bytes;
    cudaEvent_t copied, taken;
} slot;

static slot slots[DL_MAX_GPUS][SLOTS];
static unsigned next_slot[DL_MAX_GPUS];

static dl_status make_events(dl_gpu *g, slot *s) {
    if (s->copied) return DL_OK;
    DL_CUDA_TRY(g, cudaEventCreateWithFlags(&s->copied, cudaEventDisableTiming), "making an event");
    return dl_gpu_check(g, cudaEventCreateWithFlags(&s->taken, cudaEventDisableTiming), "making an event");
}

static dl_status make_room(dl_gpu *g, slot *s, size_t bytes) {
    if (s->bytes >= bytes) return DL_OK;
    DL_TRY(dl_gpu_wait(g));
    if (s->pinned) cudaFreeHost(s->pinned);
    dl_gpu_drop(g, s->there);
    s->pinned = s->there = NULL, s->bytes = 0;
    DL_CUDA_TRY(g, cudaHostAlloc((void **)&s->pinned, bytes, cudaHostAllocPortable), "pinned memory");
    if (!(s->there = dl_gpu_take_lasting(g, bytes))) return dl_failed();
    /* work that used this memory before must be over before the other stream writes to it */
    DL_TRY(dl_gpu_wait(g));
    s->bytes = bytes;
    return DL_OK;
}

dl_status dl_cuda_async_copy(dl_gpu *g, void *dst, const void *src, size_t bytes) {
    static const char what[] = "a copy to the GPU";
    slot *s = &slots[g->index][next_slot[g->index]++ % SLOTS];
    if (!bytes) return DL_OK;
    DL_TRY(dl_gpu_no_capture(g, what));
    DL_TRY(make_events(g, s));
    DL_TRY(make_room(g, s, bytes));
    DL_CUDA_TRY(g, cudaEventSynchronize(s->copied), what);
    memcpy(s->pinned, src, bytes);
    DL_CUDA_TRY(g, cudaStreamWaitEvent(g->copies, s->taken, 0), what);
    DL_CUDA_TRY(g, cudaMemcpyAsync(s->there, s->pinned, bytes, cudaMemcpyHostToDevice, g->copies), what);
    DL_CUDA_TRY(g, cudaEventRecord(s->copied, g->copies), what);
    DL_CUDA_TRY(g, cudaStreamWaitEvent(g->stream, s->copied, 0), what);
    DL_CUDA_TRY(g, cudaMemcpyAsync(dst, s->there, bytes, cudaMemcpyDeviceToDevice, g->stream), what);
    return dl_gpu_check(g, cudaEventRecord(s->taken, g->stream), what);
}
