/* The caching allocator over a driver that counts: rounding, splitting and joining, reuse by stream, what happens when
 * there is no room. Needs no GPU. */
#include "support/tensors.h"

#include "cuda/runtime/cache.c"

typedef struct driver {
    size_t room, given, calls;
} driver;

static void *get(void *arg, size_t bytes) {
    driver *d = arg;
    if (bytes > d->room) return NULL;
    void *p = aligned_alloc(512, bytes + 512);
    if (!p) return NULL;
    *(size_t *)p = bytes; /* the size is stored before the memory */
    d->room -= bytes, d->given += bytes, d->calls++;
    return (char *)p + 512;
}

static void put(void *arg, void *p) {
    driver *d = arg;
    char *base = (char *)p - 512;
    d->room += *(size_t *)base, d->given -= *(size_t *)base;
    free(base);
}

static size_t room(void *arg) { return ((driver *)arg)->room; }

static dl_cache *start(driver *d, size_t bytes) {
    *d = (driver){.room = bytes};
    dl_cache *c = dl_cache_new(&(dl_cache_driver){get, put, room, d});
    assert_non_null(c);
    return c;
}

static void rounding(void **state) {
    (void)state;
    driver d;
    size_t used, peak, held;
    dl_cache *c = start(&d, 100 * MIB);
    char *a = dl_cache_alloc(c, 1, NULL), *b = dl_cache_alloc(c, 513, NULL);
    assert_int_equal(b - a, 512);
    dl_cache_stats(c, &used, &peak, &held);
    assert_int_equal(used, 512 + 1024);
    assert_int_equal(held, 2 * MIB);
    void *mid = dl_cache_alloc(c, 2 * MIB, NULL); /* from a segment of 20 MiB */
    assert_int_equal(d.given, 22 * MIB);
    void *big = dl_cache_alloc(c, 11 * MIB, NULL); /* fits into the rest of it */
    assert_int_equal(d.given, 22 * MIB);
    void *more = dl_cache_alloc(c, 11 * MIB, NULL);
    assert_int_equal(d.given, 34 * MIB);
    dl_cache_free(c, a), dl_cache_free(c, b), dl_cache_free(c, mid), dl_cache_free(c, big), dl_cache_free(c, more);
    dl_cache_stats(c, &used, &peak, &held);
    assert_int_equal(used, 0);
    assert_int_equal(dl_cache_empty(c), 34 * MIB);
    assert_int_equal(d.given, 0);
    dl_cache_delete(c);
}

static void neighbours_join(void **state) {
    (void)state;
    driver d;
    dl_cache *c = start(&d, 100 * MIB);
    char *p[4];
    for (int i = 0; i < 4; i++) p[i] = dl_cache_alloc(c, MIB / 2, NULL);
    assert_int_equal(d.calls, 1);
    dl_cache_free(c, p[1]), dl_cache_free(c, p[2]);
    assert_ptr_equal(dl_cache_alloc(c, MIB, NULL), p[1]); /* the two halves together */
    dl_cache_free(c, p[0]), dl_cache_free(c, p[3]), dl_cache_free(c, p[1]);
    assert_int_equal(dl_cache_empty(c), 2 * MIB);
    dl_cache_delete(c);
}

static void streams_do_not_share(void **state) {
    (void)state;
    driver d;
    int one, two;
    dl_cache *c = start(&d, 100 * MIB);
    void *p = dl_cache_alloc(c, 1000, &one);
    dl_cache_free(c, p);
    void *q = dl_cache_alloc(c, 1000, &two);
    assert_ptr_not_equal(p, q);
    assert_ptr_equal(dl_cache_alloc(c, 1000, &one), p);
    assert_int_equal(d.calls, 2);
    dl_cache_delete(c);
    assert_int_equal(d.given, 0);
}

static void no_room(void **state) {
    (void)state;
    driver d;
    dl_cache *c = start(&d, 40 * MIB);
    void *small = dl_cache_alloc(c, 100, NULL);
    dl_source_set("train.dlsh", 12);
    void *kept = dl_cache_alloc(c, 12 * MIB, NULL);
    dl_cache_free(c, dl_cache_alloc(c, 20 * MIB, NULL));
    assert_int_equal(d.given, 34 * MIB);
    void *again = dl_cache_alloc(c, 24 * MIB, NULL); /* only after the unused 20 MiB were given back */
    assert_non_null(again);
    assert_int_equal(d.given, 38 * MIB);
    assert_null(dl_cache_alloc(c, 30 * MIB, NULL));
    assert_int_equal(dl_failed(), DL_ERR_MEMORY);
    assert_non_null(strstr(dl_errmsg(), "30.0 MiB asked for"));
    assert_non_null(strstr(dl_errmsg(), "the largest: 24.0 MiB (train.dlsh:12), 12.0 MiB (train.dlsh:12)"));
    dl_cache_free(c, again), dl_cache_free(c, kept);
    assert_non_null(again = dl_cache_alloc(c, 30 * MIB, NULL)); /* the cache still works */
    dl_cache_free(c, again), dl_cache_free(c, small);
    assert_null(dl_cache_alloc(c, (size_t)1 << 60, NULL));
    dl_cache_delete(c);
    dl_source_set("", 0);
}

/* Allocated blocks never overlap, and no memory is lost. */
static void many(void **state) {
    (void)state;
    driver d;
    enum { N = 300 };
    struct {
        char *p;
        size_t n;
    } live[N] = {0};
    unsigned seed = 7;
    dl_cache *c = start(&d, 400 * MIB);
    for (int step = 0; step < 20000; step++) {
        seed = seed * 1664525u + 1013904223u;
        int i = (int)(seed >> 8) % N;
        if (live[i].p) {
            for (size_t k = 0; k < live[i].n; k += 4096) assert_int_equal(live[i].p[k], (char)i);
            dl_cache_free(c, live[i].p);
            live[i].p = NULL;
            continue;
        }
        live[i].n = (seed >> 12) % 100 ? (seed >> 4) % 60000 + 1 : (seed >> 4) % (3 * MIB) + 1;
        live[i].p = dl_cache_alloc(c, live[i].n, NULL);
        assert_non_null(live[i].p);
        for (size_t k = 0; k < live[i].n; k += 4096) live[i].p[k] = (char)i;
    }
    for (int i = 0; i < N; i++)
        if (live[i].p) dl_cache_free(c, live[i].p);
    size_t used, peak, held;
    dl_cache_stats(c, &used, &peak, &held);
    assert_int_equal(used, 0);
    assert_int_equal(dl_cache_empty(c), held);
    dl_cache_delete(c);
}

/* Memory of a pool stays with it until it ends; then others may have it. */
static void pools(void **state) {
    (void)state;
    driver d;
    int stream, graph;
    dl_cache *c = start(&d, 100 * MIB);
    void *a = dl_cache_alloc(c, MIB, &stream);
    assert_true(dl_cache_pool(c, &graph));
    void *b = dl_cache_alloc(c, 3 * MIB, &graph), *kept = dl_cache_alloc(c, 512, &graph);
    size_t with = d.given;
    dl_cache_free(c, b);
    dl_cache_free(c, a);
    assert_int_equal(dl_cache_empty(c), 2 * MIB); /* the stream's alone */
    assert_int_equal(d.given, with - 2 * MIB);
    void *other = dl_cache_alloc(c, 3 * MIB, &stream);
    assert_ptr_not_equal(other, b);
    assert_ptr_equal(dl_cache_alloc(c, 3 * MIB, &graph), b);
    dl_cache_free(c, b);
    dl_cache_adopt(c, &graph, &stream);
    assert_ptr_not_equal(dl_cache_alloc(c, 512, &stream), kept);
    dl_cache_free(c, kept);
    dl_cache_free(c, other);
    assert_true(dl_cache_empty(c) >= 20 * MIB);
    dl_cache_delete(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounding), cmocka_unit_test(neighbours_join), cmocka_unit_test(streams_do_not_share),
        cmocka_unit_test(pools),    cmocka_unit_test(no_room),         cmocka_unit_test(many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
