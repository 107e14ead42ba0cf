/* The CPU as a backend: memory of the host, and work that is done when a call returns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/memory/memory.h"
#include "cpu/kernels/pointwise/row_sum.h"
#include "cpu/runtime/control.h"
#include "ops/rules/norm.h"

static void *host_alloc(int index, size_t bytes) { return (void)index, dl_host_alloc(bytes); }
static void host_release(int index, void *p, size_t bytes) { (void)index, dl_host_free(p, bytes); }

/* In pieces that take some milliseconds, also when they come from a mapped file. */
static dl_status copy(void *dst, int dst_device DL_UNUSED, const void *src, int src_device DL_UNUSED, size_t bytes) {
    enum { PIECE = 1 << 22 };
    for (size_t at = 0; at < bytes; at += PIECE) {
        memcpy((char *)dst + at, (const char *)src + at, bytes - at < PIECE ? bytes - at : PIECE);
        if (bytes > PIECE) DL_TRY(dl_interrupt_check());
    }
    return DL_OK;
}

static dl_status describe(int index DL_UNUSED, char *text, int size) {
    snprintf(text, (size_t)size, "%d thread%s", dl_threads(), dl_threads() == 1 ? "" : "s");
    return DL_OK;
}

static dl_status memory(int index DL_UNUSED, dl_device_memory *out) {
    size_t left = dl_memory_available().left, used = dl_host_bytes();
    *out = (dl_device_memory){.used = (long)used,
                              .peak = (long)dl_host_peak(),
                              .cached = (long)dl_host_cached(),
                              .available = left == SIZE_MAX ? 0 : (long)left};
    return DL_OK;
}

static dl_status reset_peak(int index DL_UNUSED) {
    dl_host_reset_peak();
    return DL_OK;
}

static dl_status empty_cache(int index DL_UNUSED) {
    dl_host_empty_cache();
    return DL_OK;
}

static void *pinned(int index DL_UNUSED, size_t bytes) {
    void *p = calloc(1, bytes);
    if (!p) dl_fail(DL_ERR_MEMORY, "no memory for %zu bytes", bytes);
    return p;
}

static void unpin(int index, void *p) { (void)index, free(p); }
static dl_status synchronize(int index) { return (void)index, DL_OK; }
static dl_status idle(int index, bool *yes) { return (void)index, *yes = true, DL_OK; }
static dl_status no_stream(int index, void **out) { return (void)index, *out = NULL, DL_OK; }
static void sync_every(bool on) { (void)on; }

/* oneDNN is fastest so in f32, and of volumes in any dtype. */
static dl_layout prefers_layout(int index, const dl_call *c) {
    const bool volume = c->in[0]->ndim == 5;
    return (void)index, c->dtype == DL_F32 || volume ? DL_LAYOUT_CHANNELS_LAST : DL_LAYOUT_OF_INPUT;
}

/* The other rows run as the calls that they join. */
static bool supports(int index, const dl_call *c) {
    return (void)index, c->op == dl_op_row(dl_id_norm_groups) || dl_cpu_sums_row(c);
}

const dl_backend dl_cpu_backend = {.name = "cpu",
                                   .count = 1,
                                   .alloc = host_alloc,
                                   .release = host_release,
                                   .copy = copy,
                                   .synchronize = synchronize,
                                   .describe = describe,
                                   .memory = memory,
                                   .stream = no_stream,
                                   .reset_peak = reset_peak,
                                   .empty_cache = empty_cache,
                                   .sync_every = sync_every,
                                   .pinned = pinned,
                                   .unpin = unpin,
                                   .idle = idle,
                                   .prefers_layout = prefers_layout,
                                   .supports = supports,
                                   .use_control = dl_cpu_use_control,
                                   .accumulate = dl_cpu_accumulate,
                                   .decide = dl_cpu_decide,
                                   .finish_step = dl_cpu_finish_step,
                                   .average = dl_cpu_average_weights};
