/* IDX files and the datasets made of them: contents, and the errors of damaged files. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "data/pictures/idx.h"
#include "data/temp.h"
#include "dlcore.h"

static const uint8_t pictures[] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0,  0,
                                   0, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255};
static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 9};

static void fails(dl_status code, const char *part) {
    assert_non_null(dl_error_last());
    assert_int_equal(dl_failed(), code);
    if (!strstr(dl_error_last()->message, part)) fail_msg("\"%s\" lacks \"%s\"", dl_error_last()->message, part);
    dl_error_clear();
}

static void parses_types(void **state) {
    (void)state;
    dl_idx x;
    const uint8_t i8[] = {0, 0, 9, 1, 0, 0, 0, 1, 0xff}, i16[] = {0, 0, 0x0b, 1, 0, 0, 0, 1, 0xff, 0xfe},
                  i32[] = {0, 0, 0x0c, 1, 0, 0, 0, 1, 0, 1, 0, 0},
                  f32[] = {0, 0, 0x0d, 1, 0, 0, 0, 1, 0xbf, 0xc0, 0, 0},
                  f64[] = {0, 0, 0x0e, 1, 0, 0, 0, 1, 0x40, 4, 0, 0, 0, 0, 0, 0};
    assert_int_equal(dl_idx_parse("a", pictures, sizeof pictures, &x), DL_OK);
    assert_int_equal(x.ndim, 3);
    assert_int_equal(x.shape[0], 3);
    assert_true(dl_idx_get(&x, 11) == 255);
    assert_int_equal(dl_idx_parse("a", i8, sizeof i8, &x), DL_OK);
    assert_true(dl_idx_get(&x, 0) == -1);
    assert_int_equal(dl_idx_parse("a", i16, sizeof i16, &x), DL_OK);
    assert_true(dl_idx_get(&x, 0) == -2);
    assert_int_equal(dl_idx_parse("a", i32, sizeof i32, &x), DL_OK);
    assert_true(dl_idx_get(&x, 0) == 65536);
    assert_int_equal(dl_idx_parse("a", f32, sizeof f32, &x), DL_OK);
    assert_true(dl_idx_get(&x, 0) == -1.5);
    assert_int_equal(dl_idx_parse("a", f64, sizeof f64, &x), DL_OK);
    assert_true(dl_idx_get(&x, 0) == 2.5);
}

static void refuses_damaged(void **state) {
    (void)state;
    dl_idx x;
    uint8_t b[sizeof pictures + 1];
    memcpy(b, pictures, sizeof pictures);
    dl_idx_parse("a", b, 3, &x);
    fails(DL_ERR_FORMAT, "has 3 bytes");
    dl_idx_parse("a", b, 9, &x);
    fails(DL_ERR_FORMAT, "ends inside its header");
    dl_idx_parse("a", b, sizeof pictures - 1, &x);
    fails(DL_ERR_FORMAT, "claims the shape [3,2,2], which takes 12 bytes after the header, and has 11");
    dl_idx_parse("a", b, sizeof pictures + 1, &x);
    fails(DL_ERR_FORMAT, "and has 13");
    b[2] = 7;
    dl_idx_parse("a", b, sizeof pictures, &x);
    fails(DL_ERR_FORMAT, "begins with 00 00 07 03");
    b[2] = 8, b[3] = 8;
    memset(b + 4, 0xff, 20);
    dl_idx_parse("a", b, sizeof pictures, &x);
    fails(DL_ERR_FORMAT, "ends inside its header");
    uint8_t huge[40] = {0, 0, 14, 8};
    memset(huge + 4, 0xff, 32);
    dl_idx_parse("a", huge, sizeof huge, &x);
    fails(DL_ERR_FORMAT, "more elements than a file can hold");
}

static dl_dataset *open_mnist(void) {
    const char *options[] = {"path", temp_dir, "normalize", "unit", NULL};
    return dl_dataset_open("mnist", options);
}

static void reads_four_files(void **state) {
    (void)state;
    temp_write("train-images-idx3-ubyte.gz", pictures, sizeof pictures);
    temp_write("train-labels-idx1-ubyte", labels, sizeof labels);
    temp_write("t10k-images.idx3-ubyte", pictures, sizeof pictures);
    temp_write("t10k-labels-idx1-ubyte.gz", labels, sizeof labels);
    dl_dataset *d = open_mnist();
    assert_non_null(d);
    assert_int_equal(dl_dataset_len(d, DL_TRAIN), 3);
    assert_int_equal(dl_dataset_len(d, DL_TEST), 3);
    assert_int_equal(dl_dataset_ndim(d), 3);
    assert_int_equal(dl_dataset_shape(d)[0], 1);
    assert_int_equal(dl_dataset_shape(d)[2], 2);
    assert_int_equal(dl_dataset_dtype(d), DL_U8);
    assert_int_equal(dl_dataset_classes(d), 10);
    assert_string_equal(dl_dataset_class_name(d, 9), "9");
    assert_int_equal(strlen(dl_dataset_fingerprint(d)), 64);
    long counts[10], last = -1;
    assert_int_equal(dl_dataset_counts(d, DL_TRAIN, counts), DL_OK);
    assert_int_equal(counts[7], 1);
    dl_tensor *x, *y;
    assert_int_equal(dl_dataset_gather(d, DL_TEST, &last, 1, &x, &y), DL_OK);
    assert_true(((float *)dl_data(x))[3] == 1);
    assert_true(((float *)dl_data(x))[0] == (float)(8 / 255.0));
    assert_int_equal(((long *)dl_data(y))[0], 9);
    dl_unref(x);
    dl_unref(y);
    last = 3;
    assert_int_equal(dl_dataset_gather(d, DL_TEST, &last, 1, &x, &y), DL_ERR_INDEX);
    dl_dataset_unref(d);
}

static void names_the_bad_file(void **state) {
    (void)state;
    uint8_t bad[sizeof labels];
    memcpy(bad, labels, sizeof labels);
    bad[8] = 10;
    temp_write("train-labels-idx1-ubyte", bad, sizeof bad);
    assert_null(open_mnist());
    fails(DL_ERR_FORMAT, "label 0 is 10; labels are 0 to 9");
    bad[7] = 2;
    temp_write("train-labels-idx1-ubyte", bad, sizeof bad - 1);
    assert_null(open_mnist());
    fails(DL_ERR_FORMAT, "3 samples and");
    /* gzip that ends early */
    char cmd[256];
    snprintf(cmd, sizeof cmd, "head -c 30 '%s' > '%s'", temp_path("train-images-idx3-ubyte.gz"), temp_path("cut"));
    assert_int_equal(system(cmd), 0);
    assert_int_equal(rename(temp_path("cut"), temp_path("train-images-idx3-ubyte.gz")), 0);
    assert_null(open_mnist());
    fails(DL_ERR_FORMAT, "cannot uncompress");
    /* a name that promises gzip, and contents that are none */
    FILE *f = fopen(temp_path("train-images-idx3-ubyte.gz"), "wb");
    fputs("<html>not found</html>", f);
    fclose(f);
    assert_null(open_mnist());
    fails(DL_ERR_FORMAT, "begins with 3c 68 74 6d");
    unlink(temp_path("train-images-idx3-ubyte.gz"));
    assert_null(open_mnist());
    fails(DL_ERR_IO, "neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz");
    const char *nowhere[] = {"path", "/nonexistent/folder", NULL};
    assert_null(dl_dataset_open("mnist", nowhere));
    fails(DL_ERR_IO, "cannot open '/nonexistent/folder'");
}

static void pair_of_files(void **state) {
    (void)state;
    char x[256], y[256];
    strcpy(x, temp_write("x.idx.gz", pictures, sizeof pictures));
    strcpy(y, temp_write("y.idx", labels, sizeof labels));
    const char *options[] = {"path", x, "labels", y, "holdout", "0.34", NULL};
    dl_dataset *d = dl_dataset_open("idx", options);
    assert_non_null(d);
    assert_int_equal(dl_dataset_len(d, DL_TRAIN), 2);
    assert_int_equal(dl_dataset_len(d, DL_TEST), 1);
    assert_int_equal(dl_dataset_classes(d), 10);
    dl_dataset_unref(d);
    const char *swapped[] = {"path", y, "labels", x, NULL};
    assert_null(dl_dataset_open("idx", swapped));
    fails(DL_ERR_FORMAT, "holds no labels");
}

/* A record of CIFAR-10 and the files that hold copies of it. */
static void cifar(void **state) {
    (void)state;
    static uint8_t record[2 * 3073];
    record[0] = 3, record[1] = 255, record[1 + 1024] = 51, record[3073] = 9;
    char name[32];
    for (int i = 1; i <= 5; i++) {
        snprintf(name, sizeof name, i == 2 ? "data_batch_%d.bin.gz" : "data_batch_%d.bin", i);
        temp_write(name, record, sizeof record);
    }
    temp_write("test_batch.bin", record, 3073);
    const char *options[] = {"path", temp_dir, "normalize", "none", NULL};
    dl_dataset *d = dl_dataset_open("cifar10", options);
    assert_non_null(d);
    assert_int_equal(dl_dataset_len(d, DL_TRAIN), 10);
    assert_int_equal(dl_dataset_len(d, DL_TEST), 1);
    assert_string_equal(dl_dataset_class_name(d, 9), "truck");
    dl_tensor *x, *y;
    long i = 0;
    assert_int_equal(dl_dataset_gather(d, DL_TRAIN, &i, 1, &x, &y), DL_OK);
    assert_true(((float *)dl_data(x))[0] == 255 && ((float *)dl_data(x))[1024] == 51);
    dl_unref(x);
    dl_unref(y);
    dl_dataset_unref(d);
    temp_write("test_batch.bin", record, 3000);
    assert_null(dl_dataset_open("cifar10", options));
    fails(DL_ERR_FORMAT, "not a whole number of records");
}

/* The official layout, where a copy of it is at hand: DLSH_MNIST names the folder. */
static void real_mnist(void **state) {
    (void)state;
    const char *dir = getenv("DLSH_MNIST");
    if (!dir) {
        print_message("no folder of MNIST: set DLSH_MNIST to test with one\n");
        skip();
    }
    const char *options[] = {"path", dir, NULL};
    dl_dataset *d = dl_dataset_open("mnist", options);
    if (!d) fail_msg("%s", dl_errmsg());
    assert_int_equal(dl_dataset_shape(d)[1], 28);
    assert_int_equal(dl_dataset_shape(d)[2], 28);
    assert_true(dl_dataset_len(d, DL_TRAIN) > 0 && dl_dataset_len(d, DL_TEST) > 0);
    double lo, hi;
    assert_int_equal(dl_dataset_range(d, DL_TRAIN, &lo, &hi), DL_OK);
    assert_true(lo > -0.5 && lo < -0.4 && hi > 2.7 && hi < 2.9); /* mean 0.1307, deviation 0.3081 */
    dl_dataset_unref(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_types),       cmocka_unit_test(refuses_damaged), cmocka_unit_test(reads_four_files),
        cmocka_unit_test(names_the_bad_file), cmocka_unit_test(pair_of_files),   cmocka_unit_test(cifar),
        cmocka_unit_test(real_mnist),
    };
    return cmocka_run_group_tests(tests, temp_make, temp_remove);
}
