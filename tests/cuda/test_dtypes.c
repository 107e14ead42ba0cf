/* Calls in f32 of operands that have other dtypes, which kernels convert as they read them: the same bits as of
 * operands that were converted before. */
#include "cuda/gpu.h"
#include "dlcore/arithmetic.h"
#include "dlcore/binary.h"
#include "dlcore/compare.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/view.h"
#include "dlcore/unary.h"

#include <string.h>

static const dl_dtype others[] = {DL_BOOL, DL_U8, DL_I32, DL_I64, DL_F16, DL_BF16};
enum { OTHERS = sizeof others / sizeof *others, ROWS = 37, COLUMNS = 53 };

/* Numbers from 0 to 4 of a dtype, on the GPU. */
static dl_tensor *matrix(dl_dtype dtype, long rows, long columns) {
    dl_tensor *t = must(dl_tensor_empty(2, (long[]){rows, columns}, DL_F32, 0));
    for (long i = 0; i < rows * columns; i++) ((float *)dl_data(t))[i] = (float)(i * 7 % 5);
    dl_tensor *cast = must(dl_to_dtype(t, dtype)), *there = must(dl_to_device(cast, GPU));
    dl_unref(t), dl_unref(cast);
    return there;
}

/* `turned`: not contiguous. */
static dl_tensor *numbers(dl_dtype dtype, bool turned) {
    if (!turned) return matrix(dtype, ROWS, COLUMNS);
    dl_tensor *there = matrix(dtype, COLUMNS, ROWS), *view = must(dl_permute(there, (long[]){1, 0}, 2));
    dl_unref(there);
    return view;
}

/* Releases both. */
static void same(dl_tensor *got, dl_tensor *want, const char *name, dl_dtype dtype) {
    dl_tensor *a = must(dl_to_device(must(got), 0)), *b = must(dl_to_device(must(want), 0));
    dl_tensor *x = must(dl_contiguous(a)), *y = must(dl_contiguous(b));
    const size_t size = dl_dtype_of(y) == DL_BOOL ? 1 : sizeof(float);
    if (dl_dtype_of(x) != dl_dtype_of(y) || memcmp(dl_data(x), dl_data(y), (size_t)dl_numel(y) * size) != 0)
        fail_msg("%s of %s is not that of numbers converted to f32 before", name, dl_dtype_name(dtype));
    dl_unref(got), dl_unref(want), dl_unref(a), dl_unref(b), dl_unref(x), dl_unref(y);
}

static void of_one(void **state) {
    (void)state;
    NEEDS_GPU();
    static const struct {
        const char *name;
        dl_tensor *(*fn)(dl_tensor *);
    } rows[] = {{"sqrt", dl_sqrt}, {"acosh", dl_acosh}, {"sin", dl_sin}, {"sigmoid", dl_sigmoid}};
    for (int k = 0; k < 2 * OTHERS; k++) {
        dl_tensor *x = numbers(others[k / 2], k % 2), *f = must(dl_to_dtype(x, DL_F32));
        if (!dl_dtype_is_float(others[k / 2]))
            for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
                same(rows[i].fn(x), rows[i].fn(f), rows[i].name, others[k / 2]);
        dl_unref(x), dl_unref(f);
    }
}

static void of_two(void **state) {
    (void)state;
    NEEDS_GPU();
    static const struct {
        const char *name;
        dl_tensor *(*fn)(dl_tensor *, dl_tensor *);
    } rows[] = {{"add", dl_add},
                {"sub", dl_sub},
                {"mul", dl_mul},
                {"div", dl_div},
                {"maximum", dl_maximum},
                {"atan2", dl_atan2},
                {"ldexp", dl_ldexp},
                {"pow", dl_pow},
                {"lt", dl_lt},
                {"eq", dl_eq},
                {"remainder", dl_remainder}};
    for (int k = 0; k < 2 * OTHERS; k++) {
        dl_tensor *x = numbers(others[k / 2], k % 2), *f = must(dl_to_dtype(x, DL_F32)), *a = numbers(DL_F32, false);
        for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
            same(rows[i].fn(a, x), rows[i].fn(a, f), rows[i].name, others[k / 2]);
            same(rows[i].fn(x, a), rows[i].fn(f, a), rows[i].name, others[k / 2]);
        }
        dl_unref(x), dl_unref(f), dl_unref(a);
    }
}

/* Rows and columns that are broadcast, and parts of larger tensors, whose vectors are aligned or not. */
static void of_views(void **state) {
    (void)state;
    NEEDS_GPU();
    enum { HIGH = 36, WIDE = 52 };
    static const struct {
        long rows, columns, from;
    } views[] = {{HIGH, 1, 0},        {1, WIDE, 0},        {HIGH, WIDE, 0},
                 {HIGH, WIDE + 4, 4}, {HIGH, WIDE + 4, 1}, {1, WIDE + 3, 3}};
    dl_tensor *a = matrix(DL_F32, HIGH, WIDE);
    for (unsigned k = 0; k < OTHERS * (sizeof views / sizeof *views); k++) {
        const dl_dtype dtype = others[k % OTHERS];
        const long columns = views[k / OTHERS].columns, from = views[k / OTHERS].from;
        const long end = columns < WIDE ? columns : from + WIDE;
        dl_tensor *whole = matrix(dtype, views[k / OTHERS].rows, columns);
        dl_tensor *x = must(dl_slice(whole, 1, &from, &end, 1)), *f = must(dl_to_dtype(x, DL_F32));
        same(dl_ldexp(a, x), dl_ldexp(a, f), "ldexp of a view", dtype);
        same(dl_sub(x, a), dl_sub(f, a), "sub of a view", dtype);
        same(dl_lt(x, a), dl_lt(f, a), "lt of a view", dtype);
        dl_unref(whole), dl_unref(x), dl_unref(f);
    }
    dl_unref(a);
}

/* A tensor of one number and no dimension, whose dtype gives way to that of the others. */
static void of_a_number(void **state) {
    (void)state;
    NEEDS_GPU();
    dl_tensor *near = must(dl_tensor_empty(0, NULL, DL_F64, 0)), *a = numbers(DL_F32, false);
    *(double *)dl_data(near) = 0.3;
    dl_tensor *x = must(dl_to_device(near, GPU)), *f = must(dl_to_dtype(x, DL_F32));
    same(dl_mul(a, x), dl_mul(a, f), "mul", DL_F64);
    same(dl_sub(x, a), dl_sub(f, a), "sub", DL_F64);
    dl_unref(near), dl_unref(a), dl_unref(x), dl_unref(f);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_one), cmocka_unit_test(of_two), cmocka_unit_test(of_views),
                                       cmocka_unit_test(of_a_number)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
