/* How many threads an op uses, and that no thread is started again for each op. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "support/tensors.h"

#include "cpu/runtime/iter.h"
#include "cpu/runtime/team.h"

#include <dlfcn.h>
#include <pthread.h>
#include <omp.h>
#include "dlcore/conv.h"
#include "dlcore/create.h"
#include "dlcore/matmul.h"

/* ---- how many */

static void ask(void *arg, long i) { ((int *)arg)[i] = dl_cpu_threads(1 << 30); }

static void only_large_work_has_threads(void **state) {
    (void)state;
    int had = omp_get_max_threads();
    for (int n = 1; n <= 4; n++) {
        omp_set_num_threads(n);
        assert_int_equal(dl_cpu_threads(0), 1);
        assert_int_equal(dl_cpu_threads(50000), 1);
        assert_int_equal(dl_cpu_threads(1 << 20), n);
        assert_int_equal(dl_cpu_threads_product(64.0 * 64 * 64), 1);
        assert_int_equal(dl_cpu_threads_product(1e30), n);
    }
    omp_set_num_threads(2);
    for (long k = 1; k < 1L << 40; k *= 2) assert_true(dl_cpu_threads(k) == (k >= 2 * DL_ITER_GRAIN ? 2 : 1));
    int within[2] = {0};
    dl_cpu_for(2, 2, ask, within);
    assert_true(within[0] == 1 && within[1] == 1);
    omp_set_num_threads(had);
}

static void limits_are_given_back(void **state) {
    (void)state;
    int had = omp_get_max_threads(), before = dl_cpu_team_limit(1);
    assert_int_equal(before, had);
    assert_int_equal(omp_get_max_threads(), 1);
    dl_cpu_team_limit(before);
    assert_int_equal(omp_get_max_threads(), had);
}

/* ---- the same numbers with any number of threads */

static dl_tensor *draw(int threads, int kind) {
    const long n = 123457;
    omp_set_num_threads(threads);
    dl_seed(11);
    if (kind < 2) return must(kind ? dl_randn(&n, 1, DL_F64, 0) : dl_rand(&n, 1, DL_F32, 0));
    if (kind == 2) return must(dl_randperm(n, DL_I64, 0));
    dl_tensor *p = must(dl_tensor_full(1, &n, DL_F64, 0, 0.3)), *y = must(kind == 3 ? dl_bernoulli(p) : dl_poisson(p));
    dl_unref(p);
    return y;
}

static void draws_are_the_same(void **state) {
    (void)state;
    const int had = omp_get_max_threads();
    for (int kind = 0; kind < 5; kind++) {
        dl_tensor *one = draw(1, kind);
        for (int threads = 2; threads <= 5; threads++) {
            dl_tensor *many = draw(threads, kind);
            assert_memory_equal(dl_data(one), dl_data(many),
                                (size_t)dl_numel(one) * (size_t)dl_dtype_size(dl_dtype_of(one)));
            dl_unref(many);
        }
        dl_unref(one);
    }
    omp_set_num_threads(had);
}

/* ---- no thread is started twice */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which have a pthread_create of their own */
typedef int (*create_fn)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static long started;

/* Replaces pthread_create for libgomp. */
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg) {
    create_fn real;
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    __atomic_add_fetch(&started, 1, __ATOMIC_RELAXED);
    return real(t, a, run, arg);
}

static dl_tensor *product(long n) {
    dl_tensor *a = drawn(1, 2, SHAPE(n, n), DL_F32), *y = must(dl_matmul(a, a));
    return dl_unref(a), y;
}

static dl_tensor *batch(long n) {
    dl_tensor *a = drawn(1, 3, SHAPE(3, n, n), DL_F32), *y = must(dl_matmul(a, a));
    return dl_unref(a), y;
}

static dl_tensor *convolution(long n) {
    dl_tensor *x = drawn(1, 4, SHAPE(2, 3, n, n), DL_F64), *w = drawn(2, 4, SHAPE(4, 3, 3, 3), DL_F64);
    dl_tensor *y = must(dl_conv2d(x, w, NULL, NULL, 0, NULL, 0, NULL, 0, 1));
    return dl_unref(x), dl_unref(w), y;
}

static void no_call_starts_threads(void **state) {
    (void)state;
    static dl_tensor *(*const work[])(long) = {product, batch, convolution};
    static const long sizes[] = {8, 70, 100, 150, 300};
    int had = omp_get_max_threads();
    omp_set_num_threads(2);
    long before = 0;
    for (int round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 15; i++) dl_unref(work[i % 3](sizes[i / 3]));
        if (!round) before = started;
    }
    assert_int_equal(started, before);
    omp_set_num_threads(had);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_large_work_has_threads),
        cmocka_unit_test(limits_are_given_back),
        cmocka_unit_test(draws_are_the_same),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        cmocka_unit_test(no_call_starts_threads),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
