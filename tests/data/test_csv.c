/* CSV: fields, headers, labels, and errors that name line and column. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "data/tables/csv.h"
#include "data/temp.h"
#include "dlcore.h"

static dl_csv_table table;

static dl_status read_text(const char *text, const char *label, const char *header) {
    dl_csv_spec spec = {label, header, ',', false};
    dl_csv_table_free(&table);
    return dl_csv_table_read("t.csv", text, strlen(text), &spec, &table);
}

static void says(const char *text, const char *part) {
    assert_int_not_equal(read_text(text, "", "auto"), DL_OK);
    if (!strstr(dl_error_last()->message, part)) fail_msg("\"%s\" lacks \"%s\"", dl_error_last()->message, part);
    dl_csv_table_free(&table);
}

static void reads_numbers(void **state) {
    (void)state;
    assert_int_equal(read_text("1,2,0\n3,4.5,1\r\n\n-1e3, 6 ,2", "", "auto"), DL_OK);
    assert_int_equal(table.n, 3);
    assert_int_equal(table.features, 2);
    assert_true(table.x[3] == 4.5f && table.x[4] == -1000 && table.x[5] == 6);
    assert_true(table.integers && !table.words && table.y[2] == 2);
    dl_csv_table_free(&table);
}

static void finds_header(void **state) {
    (void)state;
    assert_int_equal(read_text("\xef\xbb\xbfwidth,\"kind, of\",height\n1,a,2\n3,b,4\n", "kind, of", "auto"), DL_OK);
    assert_int_equal(table.n, 2);
    assert_true(table.x[1] == 2 && table.x[2] == 3 && table.words);
    assert_string_equal(table.label[1], "b");
    assert_int_equal(read_text("1,2,yes\n3,4,no\n", "-1", "auto"),
                     DL_OK); /* words in the label column are not a header */
    assert_int_equal(table.n, 2);
    assert_int_equal(read_text("1,2,3\n3,4,5\n", "", "yes"), DL_OK);
    assert_int_equal(table.n, 1);
    assert_int_equal(read_text("a,b\n1,2\n", "c", "auto"), DL_ERR_NAME);
    dl_csv_table_free(&table);
}

static void reads_quotes(void **state) {
    (void)state;
    assert_int_equal(read_text("\"1\",\"say \"\"hi\"\"\nthere\"\n2,\"\"\"\"\n", "", "no"), DL_OK);
    assert_string_equal(table.label[0], "say \"hi\"\nthere");
    assert_string_equal(table.label[1], "\"");
    dl_csv_table_free(&table);
}

static void places_errors(void **state) {
    (void)state;
    says("a,b\n1,0\n2x,1\n", "line 3, column 1: \"2x\" is not a number (field 0)");
    says("1,2,0\n3,,1\n", "line 2, column 3: \"\" is not a number (field 1)");
    says("1,2,0\n3,nan,1\n", "line 2, column 3");
    says("1,2,0\n3,4\n", "line 2: 2 fields; the first line has 3");
    says("1,2,0\n3,4,5,6\n", "line 2: 4 fields; the first line has 3");
    says("1,\"2\n3,4\n", "line 1, column 3: quotes are opened and never closed");
    says("1,2\n3,\"4\"x\n", "line 2, column 6: text follows the closing quotes");
    says("1,\"a\nb\"\nx,2\n", "line 3, column 1: \"x\" is not a number");
    says("", "0 columns");
    says("1\n2\n", "1 columns");
    says("a,b\n", "no lines of data");
}

static void nul_bytes(void **state) {
    (void)state;
    dl_csv_spec spec = {"", "auto", ',', false};
    assert_int_equal(dl_csv_table_read("t.csv", "1,2\n3,\0", 7, &spec, &table), DL_ERR_FORMAT);
    assert_non_null(strstr(dl_errmsg(), "line 2, column 3: a NUL byte"));
    dl_csv_table_free(&table);
}

static dl_dataset *open_text(const char *text, const char *key, const char *value) {
    const char *path = temp_write("t.csv", text, strlen(text));
    const char *options[] = {"path", path, "holdout", "0", key, value, NULL};
    return dl_dataset_open("csv", options);
}

static void decides_the_task(void **state) {
    (void)state;
    dl_dataset *d = open_text("1,cat\n2,ant\n3,cat\n", NULL, NULL);
    assert_int_equal(dl_dataset_classes(d), 2);
    assert_string_equal(dl_dataset_class_name(d, 0), "ant");
    long i = 2;
    dl_tensor *x, *y;
    assert_int_equal(dl_dataset_gather(d, DL_TRAIN, &i, 1, &x, &y), DL_OK);
    assert_int_equal(((long *)dl_data(y))[0], 1);
    assert_true(((float *)dl_data(x))[0] == 3);
    dl_unref(x);
    dl_unref(y);
    dl_dataset_unref(d);
    d = open_text("1,10\n2,9\n3,10\n", NULL, NULL); /* by value, not as text */
    assert_string_equal(dl_dataset_class_name(d, 0), "9");
    dl_dataset_unref(d);
    d = open_text("1,1\n2,0\n", "task", "regression");
    assert_int_equal(dl_dataset_classes(d), 0);
    dl_dataset_unref(d);
    d = open_text("1,0.5\n2,1\n", NULL, NULL);
    assert_int_equal(dl_dataset_classes(d), 0);
    assert_int_equal(dl_dataset_counts(d, DL_TRAIN, &i), DL_ERR_TYPE);
    dl_dataset_unref(d);
    assert_null(open_text("1,a\n", "task", "regression"));
    assert_null(open_text("1,a\n", "task", "regresion"));
    assert_non_null(strstr(dl_errmsg(), "one of auto|classes|regression"));
    assert_null(open_text("1,a\n", "lable", "0"));
    assert_string_equal(dl_error_last()->hint, "did you mean 'label'?");
}

static void standardises_features(void **state) {
    (void)state;
    dl_dataset *d = open_text("1,1000,0\n3,1002,1\n", "normalize", "standard");
    long both[] = {0, 1};
    dl_tensor *x, *y;
    assert_int_equal(dl_dataset_gather(d, DL_TRAIN, both, 2, &x, &y), DL_OK);
    const float *v = dl_data(x);
    assert_true(v[0] == -1 && v[1] == -1 && v[2] == 1 && v[3] == 1);
    dl_unref(x);
    dl_unref(y);
    dl_dataset_unref(d);
}

static void test_files_share_classes(void **state) {
    (void)state;
    char test[256];
    strcpy(test, temp_write("test.csv", "5,ant\n", 6));
    dl_dataset *d = open_text("1,cat\n2,ant\n", "test_path", test);
    assert_int_equal(dl_dataset_len(d, DL_TEST), 1);
    dl_dataset_unref(d);
    temp_write("test.csv", "5,dog\n", 6);
    assert_null(open_text("1,cat\n2,ant\n", "test_path", test));
    assert_non_null(strstr(dl_errmsg(), "label \"dog\" of sample 0 does not occur in the training file"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_numbers),
        cmocka_unit_test(finds_header),
        cmocka_unit_test(reads_quotes),
        cmocka_unit_test(places_errors),
        cmocka_unit_test(nul_bytes),
        cmocka_unit_test(decides_the_task),
        cmocka_unit_test(standardises_features),
        cmocka_unit_test(test_files_share_classes),
    };
    return cmocka_run_group_tests(tests, temp_make, temp_remove);
}
