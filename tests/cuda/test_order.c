/* sort and topk on the GPU against the CPU, place by place: lengths for each of the kernels, all dtypes, equal elements
 * and NaN, dimensions that are not last. */
#include "cuda/gpu.h"
#include "dlcore/sort.h"

/* Few different values, so that many are equal, and some NaN. */
static dl_tensor *made(int ndim, const long *shape, dl_dtype dtype) {
    dl_tensor *x = must(dl_tensor_empty(ndim, shape, DL_F64, 0));
    double *p = dl_data(x);
    for (long i = 0; i < dl_numel(x); i++) {
        unsigned long h = (unsigned long)(i + 1) * 0x9e3779b97f4a7c15u >> 33;
        p[i] =
            dl_dtype_is_float(dtype) && h % 997 == 0 ? NAN : (double)(long)(h % 1000) / 4 - (dtype == DL_U8 ? 0 : 100);
    }
    dl_tensor *t = must(dl_to_dtype(x, dtype));
    dl_unref(x);
    return t;
}

/* Releases both. */
static void same(dl_tensor *cpu, dl_tensor *gpu, const char *what, long n, long k) {
    dl_tensor *back = must(dl_to_device(must(gpu), 0));
    size_t bytes = (size_t)dl_numel(must(cpu)) * (size_t)dl_dtype_size(dl_dtype_of(cpu));
    assert_int_equal(dl_numel(cpu), dl_numel(back));
    if (memcmp(dl_data(cpu), dl_data(back), bytes))
        fail_msg("%s of %s differ: n %ld, k %ld", what, dl_dtype_name(dl_dtype_of(cpu)), n, k);
    dl_unref(cpu), dl_unref(gpu), dl_unref(back);
}

/* k < 0: sort, else topk. */
static void compare(dl_tensor *x, long dim, long k, int largest) {
    dl_tensor *there = must(dl_to_device(x, GPU)), *at, *at_there;
    long n = dl_shape(x)[dim];
    dl_tensor *v = k < 0 ? dl_sort(x, dim, largest, &at) : dl_topk(x, k, dim, largest, &at);
    dl_tensor *w = k < 0 ? dl_sort(there, dim, largest, &at_there) : dl_topk(there, k, dim, largest, &at_there);
    same(must(v), must(w), "values", n, k);
    same(at, at_there, "places", n, k);
    dl_unref(there);
}

static void rows_of_all_lengths(void **state) {
    (void)state;
    NEEDS_GPU();
    static const struct {
        long rows, n;
    } cases[] = {{1, 1},    {1000, 2}, {7, 31},    {300, 33},   {5, 1000},   {3, 2048},
                 {3, 2049}, {1, 5000}, {40, 5000}, {1, 100000}, {2, 100000}, {200, 3000}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int t = DL_BOOL; t <= DL_F64; t++) {
            long n = cases[i].n;
            dl_tensor *x = made(2, (const long[]){cases[i].rows, n}, (dl_dtype)t);
            for (int largest = 0; largest < 2; largest++) {
                compare(x, 1, -1, largest);
                compare(x, 1, n / 2, largest);
                compare(x, 1, n < 1000 ? n / 5 : n / 7 < 1024 ? n / 7 : 1024, largest);
                compare(x, 1, n < 10 ? 1 : 10, largest);
            }
            dl_unref(x);
        }
}

static void other_dimensions(void **state) {
    (void)state;
    NEEDS_GPU();
    dl_tensor *x = made(3, (const long[]){4, 3000, 5}, DL_F32), *y = made(3, (const long[]){33, 7, 2}, DL_I64);
    for (int dim = 0; dim < 3; dim++) {
        compare(x, dim, -1, 1);
        compare(x, dim, 3, 0);
        compare(y, dim, -1, 0);
        compare(y, dim, 2, 1);
    }
    dl_unref(x), dl_unref(y);
}

/* The first of a row that is cut into parts, whose first ones are cut again. */
static void parts_of_parts(void **state) {
    (void)state;
    NEEDS_GPU();
    const long n = 1600001;
    for (int t = DL_F32; t <= DL_F64; t++) {
        dl_tensor *x = made(1, &n, (dl_dtype)t);
        for (int largest = 0; largest < 2; largest++) compare(x, 0, 128, largest);
        dl_unref(x);
    }
}

/* Places of ranks in long rows: some given ones, and the middle, of all and of numbers alone. The largest row ends in a
 * part, and odd ones begin where vectors do not. */
static void ranks(void **state) {
    (void)state;
    NEEDS_GPU();
    static const struct { long rows, n; } cases[] = {{1, 65536}, {1, 1600001}, {3, 70001}, {2, 131072}, {300, 65537}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int t = DL_BOOL; t <= DL_F64; t++) {
            const long n = cases[i].n, given[] = {0, 1, n / 3, n - 1};
            dl_tensor *x = made(2, (const long[]){cases[i].rows, n}, (dl_dtype)t), *there = must(dl_to_device(x, GPU));
            for (int k = 0; k < 4; k++)
                same(dl_ranked_place(x, 1, &given[k], 0), dl_ranked_place(there, 1, &given[k], 0), "ranks", n,
                     given[k]);
            for (int numbers = 0; numbers < 2; numbers++)
                same(dl_ranked_place(x, 1, NULL, numbers), dl_ranked_place(there, 1, NULL, numbers), "middles", n,
                     numbers);
            dl_unref(x), dl_unref(there);
        }
    for (int value = 0; value < 2; value++) { /* all alike */
        dl_tensor *x = must(dl_tensor_full(1, (const long[]){100000}, DL_F32, 0, value ? NAN : 0.5)),
                  *there = must(dl_to_device(x, GPU));
        const long k = 77777;
        same(dl_ranked_place(x, 0, &k, 0), dl_ranked_place(there, 0, &k, 0), "equal ones", 100000, k);
        same(dl_ranked_place(x, 0, NULL, 1), dl_ranked_place(there, 0, NULL, 1), "equal ones", 100000, -1);
        dl_unref(x), dl_unref(there);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_all_lengths),
        cmocka_unit_test(other_dimensions),
        cmocka_unit_test(parts_of_parts),
        cmocka_unit_test(ranks),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
