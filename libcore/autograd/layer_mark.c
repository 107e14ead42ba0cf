/* Marks of layers, each made once: nets that are built again and again in a loop share theirs. */
#include "autograd/layer_mark.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1024 };

__thread const dl_layer_mark *dl_layer_running;
__thread dl_composite dl_composite_running;

unsigned long dl_composite_begin(const char *name) {
    static uint64_t calls;
    if (dl_composite_running.name) return 0;
    dl_composite_running = (dl_composite){name, __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED)};
    return dl_composite_running.call;
}

void dl_composite_end(unsigned long call) {
    if (call) dl_composite_running = (dl_composite){0};
}

static struct {
    pthread_mutex_t lock;
    const dl_layer_mark *at[BUCKETS];
} marks = {.lock = PTHREAD_MUTEX_INITIALIZER};

static unsigned bucket_of(const char *path, int line) {
    unsigned h = (unsigned)line;
    for (; *path; path++) h = h * 31 + (unsigned char)*path;
    return h % BUCKETS;
}

static const dl_layer_mark *make(const char *path, dl_source src) {
    size_t n = strlen(path) + 1, m = strlen(src.file) + 1;
    dl_layer_mark *k = malloc(sizeof *k + n + m);
    if (!k) return dl_fail(DL_ERR_MEMORY, "no memory for the name of a layer"), NULL;
    char *text = (char *)(k + 1);
    memcpy(text, path, n);
    memcpy(text + n, src.file, m);
    *k = (dl_layer_mark){.path = text, .src = {text + n, src.line}};
    return k;
}

const dl_layer_mark *dl_layer_mark_of(const char *path, dl_source src) {
    if (!src.file) src.file = "";
    unsigned b = bucket_of(path, src.line);
    pthread_mutex_lock(&marks.lock);
    const dl_layer_mark *k = marks.at[b];
    while (k && (k->src.line != src.line || strcmp(k->path, path) != 0 || strcmp(k->src.file, src.file) != 0))
        k = k->next;
    if (!k && (k = make(path, src))) {
        ((dl_layer_mark *)k)->next = marks.at[b];
        marks.at[b] = k;
    }
    pthread_mutex_unlock(&marks.lock);
    return k;
}
