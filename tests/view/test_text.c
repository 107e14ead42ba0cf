/* Widths, wrapping, padding, bars, times of the view; rows of tables; tensors. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <locale.h>
#include <string.h>

#include <cmocka.h>

#include "../../shell/view/elements.h"
#include "../../shell/view/table.h"
#include "../../shell/view/tensor.h"
#include "../../shell/view/text.h"
#include "dlcore/create.h"
#include "dlcore/view.h"

#define SAYS(buf, want)                                                                                                \
    do {                                                                                                               \
        assert_string_equal(dlsh_buf_text(&(buf)), want);                                                              \
        (buf).n = 0;                                                                                                   \
    } while (0)

static void widths(void **state) {
    (void)state;
    assert_int_equal(dlsh_text_width("abc", 3), 3);
    assert_int_equal(dlsh_text_width("näme", strlen("näme")), 4);
    assert_int_equal(dlsh_text_width("日本", strlen("日本")), 4);
    assert_int_equal(dlsh_text_width("\xff\xfe", 2), 2);
    assert_int_equal(dlsh_text_cut("日本", strlen("日本"), 3), 3);
    dlsh_buf b = {0};
    dlsh_text_pad(&b, "日本", 3, 'l', 0, 1);
    SAYS(b, "日…");
    dlsh_text_pad(&b, "ab", 4, 'r', 1, 1);
    SAYS(b, "  ab");
    dlsh_text_wrap(&b, "one two three", 8, 2);
    SAYS(b, "one\n  two\n  three");
    dlsh_buf_free(&b);
}

static void pictures(void **state) {
    (void)state;
    dlsh_buf b = {0};
    dlsh_spark(&b, (double[]){0, 1, 4, 8}, 4, 1);
    SAYS(b, " ▁▄█");
    dlsh_spark(&b, (double[]){0, 0.001, 8}, 3, 0);
    SAYS(b, " .#");
    dlsh_bar(&b, 0.5, 4, 0);
    SAYS(b, "##");
    dlsh_bar(&b, 0.3125, 4, 1);
    SAYS(b, "█▎");
    dlsh_duration(&b, 3725);
    SAYS(b, "1:02:05");
    dlsh_grouped(&b, -1234567);
    SAYS(b, "-1,234,567");
    dlsh_buf_free(&b);
}

static dl_tensor *vector(int n, const double *values) { return dl_tensor_from(1, (long[]){n}, DL_F64, 0, values); }

static void tensors(void **state) {
    (void)state;
    dlsh_buf b = {0};
    dl_tensor *t = vector(4, (double[]){1, 2, -3, 0});
    assert_int_equal(dlsh_tensor_layout(&b, t, 80, 0), 0);
    SAYS(b, "tensor([ 1.,  2., -3.,  0.], f64[4])");
    dl_unref(t);
    t = vector(4, (double[]){0.5, NAN, -INFINITY, 0});
    assert_int_equal(dlsh_tensor_layout(&b, t, 80, 0), 0);
    SAYS(b, "tensor([0.5000,    nan,   -inf, 0.    ], f64[4])");
    assert_int_equal(dlsh_tensor_summary(&b, t, 0), 0);
    SAYS(b, "f64[4] n=4 in [0, 0.5] mean=0.25 std=0.3536 1 NaN! 1 Inf!");
    assert_int_equal(dlsh_tensor_csv(&b, t), 0);
    SAYS(b, "0.5,nan,-inf,0.0\n");
    dl_unref(t);
    t = vector(2, (double[]){1e-9, 2});
    dlsh_tensor_layout(&b, t, 80, 0);
    SAYS(b, "tensor([1.0000e-09, 2.0000e+00], f64[2])");
    dl_unref(t);
    dlsh_buf_free(&b);
}

static void figures(void **state) {
    (void)state;
    dl_tensor *t = vector(5, (double[]){1, 2, 3, 0, NAN});
    dlsh_stats s;
    assert_int_equal(dlsh_stats_of(t, &s), 0);
    assert_int_equal(s.n, 5);
    assert_int_equal(s.nans, 1);
    assert_int_equal(s.zeros, 1);
    assert_float_equal(s.mean, 1.5, 1e-12);
    assert_float_equal(s.std, sqrt(5.0 / 3), 1e-12);
    assert_float_equal(s.norm, sqrt(14), 1e-12);
    long counts[3];
    assert_int_equal(dlsh_histogram(t, 0, 3, 3, counts), 0);
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[1], 1);
    assert_int_equal(counts[2], 2); /* the last bin is closed */
    dl_unref(t);
}

/* More elements than are read at once, in a row and with strides. */
static void many(void **state) {
    (void)state;
    dl_tensor *line = dl_arange(0, &(double){6000}, 1, DL_F32, 0), *grid = dl_reshape(line, (long[]){2, 3000}, 2),
              *turned = dl_permute(grid, (long[]){1, 0}, 2), *half = dl_to_dtype(turned, DL_I32),
              *all[] = {grid, turned, half};
    for (int i = 0; i < 3; i++) {
        dlsh_stats s;
        assert_int_equal(dlsh_stats_of(all[i], &s), 0);
        assert_int_equal(s.n, 6000);
        assert_int_equal(s.zeros, 1);
        assert_float_equal(s.min, 0, 0);
        assert_float_equal(s.max, 5999, 0);
        assert_float_equal(s.mean, 2999.5, 1e-9);
        long counts[6];
        assert_int_equal(dlsh_histogram(all[i], 0, 6000, 6, counts), 0);
        for (int k = 0; k < 6; k++) assert_int_equal(counts[k], 1000);
    }
    dl_unref(half), dl_unref(turned), dl_unref(grid), dl_unref(line);
}

static void tables(void **state) {
    (void)state;
    static const dlsh_column cols[] = {{"id", 'r', ""}, {"name", 'l', ""}, {"acc", 'r', "%.2f"}};
    dlsh_table t = {.ncols = 3, .cols = cols};
    dlsh_table_row(&t, (dlsh_value[]){dlsh_int(1), dlsh_string("a,\"b\""), dlsh_float(0.971)});
    dlsh_table_row(&t, (dlsh_value[]){dlsh_int(12), dlsh_string("a rather long name"), dlsh_none()});
    dlsh_buf b = {0};
    dlsh_look look = {.width = 24, .unicode = 1};
    assert_int_equal(dlsh_table_text(&b, &t, &look), 0);
    SAYS(b, "id  name             acc\n--  --------------  ----\n 1  a,\"b\"           0.97\n12  a rather long…\n");
    assert_int_equal(dlsh_table_csv(&b, &t), 0);
    SAYS(b, "id,name,acc\n1,\"a,\"\"b\"\"\",0.971\n12,a rather long name,\n");
    assert_int_equal(dlsh_table_json(&b, &t), 0);
    SAYS(b, "{\"id\":1,\"name\":\"a,\\\"b\\\"\",\"acc\":0.971}\n{\"id\":12,\"name\":\"a rather long "
            "name\",\"acc\":null}\n");
    dlsh_table_clear(&t);
    dlsh_buf_free(&b);
}

int main(void) {
    setlocale(LC_CTYPE, "C.UTF-8");
    const struct CMUnitTest tests[] = {cmocka_unit_test(widths),  cmocka_unit_test(pictures), cmocka_unit_test(tensors),
                                       cmocka_unit_test(figures), cmocka_unit_test(many),     cmocka_unit_test(tables)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
