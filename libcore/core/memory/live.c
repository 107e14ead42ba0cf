/* The list of live storages of some size, with the statements that made them. */
#include "core/memory/live.h"
#include "autograd/cycles.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static dl_storage *first;
static size_t on_devices;
static int (*reclaim)(void);

void dl_live_add(dl_storage *s) {
    pthread_mutex_lock(&lock);
    s->next_live = first;
    s->prev_live = NULL;
    if (first) first->prev_live = s;
    first = s;
    if (s->device) on_devices += s->bytes;
    pthread_mutex_unlock(&lock);
}

void dl_live_remove(dl_storage *s) {
    pthread_mutex_lock(&lock);
    *(s->prev_live ? &s->prev_live->next_live : &first) = s->next_live;
    if (s->next_live) s->next_live->prev_live = s->prev_live;
    if (s->device) on_devices -= s->bytes;
    pthread_mutex_unlock(&lock);
}

int dl_device_memory_largest(int device, dl_memory_block *out, int max) {
    int n = 0;
    pthread_mutex_lock(&lock);
    for (const dl_storage *s = first; s; s = s->next_live) {
        if (s->device != device || max < 1 || (n == max && (long)s->bytes <= out[n - 1].bytes)) continue;
        int at = n < max ? n++ : n - 1;
        for (; at > 0 && out[at - 1].bytes < (long)s->bytes; at--) out[at] = out[at - 1];
        out[at] = (dl_memory_block){(long)s->bytes, s->maker.line ? s->maker.file : NULL, s->maker.line};
    }
    pthread_mutex_unlock(&lock);
    return n;
}

long dl_memory_held(void) { return (long)(dl_host_bytes() + __atomic_load_n(&on_devices, __ATOMIC_RELAXED)); }

void dl_set_reclaim(int (*fn)(void)) { reclaim = fn; }

bool dl_reclaim_memory(void) {
    const dl_error *e = dl_error_last();
    if (!e || e->code != DL_ERR_MEMORY) return false;
    bool freed = dl_cycles_collect() > 0;
    if (!(reclaim && reclaim()) && !freed) return false;
    dl_error_clear();
    return true;
}
