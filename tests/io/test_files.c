/* Files of tensors: written files are read back, here and by other programs; malformed ones are refused with the
 * reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "dlcore.h"
#include "io/element.h"
#include "io/input.h"
#include "io/safetensors.h"
#include "support/folder.h"
#include "dlcore/view.h"

static void ok(dl_status st) {
    if (st != DL_OK) fail_msg("%s", dl_errmsg());
}

/* ---------------------------------------------------------------- safetensors */

static const float floats[] = {0, -1.5, 2, 1e30F, 0.25, -0};
static const long longs[] = {1, -2, 1L << 60};

enum { N = 8 };
static const char *const names[N] = {"bool", "bytes", "empty", "f32", "f64", "half", "ints", "transposed"};

static void make(dl_tensor **t) {
    const unsigned char bytes[] = {0, 7, 255}, bools[] = {1, 0};
    t[0] = dl_tensor_from(1, (long[]){2}, DL_BOOL, 0, bools);
    t[1] = dl_tensor_from(1, (long[]){3}, DL_U8, 0, bytes);
    t[2] = dl_tensor_from(2, (long[]){0, 4}, DL_F32, 0, floats);
    t[3] = dl_tensor_from(2, (long[]){2, 3}, DL_F32, 0, floats);
    t[4] = dl_tensor_full(0, NULL, DL_F64, 0, 0.1);
    t[5] = dl_tensor_full(1, (long[]){3}, DL_BF16, 0, 1.5);
    t[6] = dl_tensor_from(1, (long[]){3}, DL_I64, 0, longs);
    t[7] = dl_permute(t[3], (long[]){1, 0}, 2);
}

static void drop(dl_tensor **t) {
    for (int i = 0; i < N; i++) dl_unref(t[i]);
}

static void written_files_read_back(void **state) {
    (void)state;
    dl_tensor *t[N];
    make(t);
    const char *meta[] = {"who", "a \"quoted\" name", "dlsh.model", "linear 3 -> relu", NULL};
    ok(dl_safetensors_write(temp_path("a.safetensors"), N, names, t, meta));
    dl_tensor_file *f = dl_safetensors_read(temp_path("a.safetensors"), 0);
    if (!f) fail_msg("%s", dl_errmsg());
    assert_int_equal(dl_tensor_file_count(f), N);
    for (int i = 0; i < N; i++) {
        dl_tensor *got = dl_tensor_file_find(f, names[i]);
        assert_non_null(got);
        assert_int_equal(dl_dtype_of(got), dl_dtype_of(t[i]));
        assert_int_equal(dl_ndim(got), dl_ndim(t[i]));
        for (int k = 0; k < dl_ndim(got); k++) assert_int_equal(dl_shape(got)[k], dl_shape(t[i])[k]);
        unsigned char a[64] = {0}, b[64] = {0};
        ok(dl_read(t[i], a));
        ok(dl_read(got, b));
        assert_memory_equal(a, b, sizeof a);
        assert_string_equal(dl_tensor_name(got), names[i]);
    }
    assert_string_equal(dl_tensor_file_meta(f, "who"), "a \"quoted\" name");
    assert_null(dl_tensor_file_meta(f, "nobody"));
    assert_null(dl_tensor_file_find(f, "nothing"));
    assert_null(dl_tensor_file_at(f, N));
    dl_tensor_file_free(f);
    drop(t);
}

/* Read by a program that shares no code with the library. */
static void others_read_the_files(void **state) {
    (void)state;
    dl_tensor *t[N];
    make(t);
    const char *meta[] = {"who", "me", NULL};
    ok(dl_safetensors_write(temp_path("b.safetensors"), N, names, t, meta));
    drop(t);
    char command[256], got[2048] = "";
    snprintf(command, sizeof command, "python3 tests/io/read_safetensors.py %s", temp_path("b.safetensors"));
    FILE *p = popen(command, "r");
    assert_non_null(p);
    got[fread(got, 1, sizeof got - 1, p)] = 0;
    assert_int_equal(pclose(p), 0);
    assert_string_equal(got, "bool BOOL [2] [1, 0]\n"
                             "bytes U8 [3] [0, 7, 255]\n"
                             "empty F32 [0, 4] []\n"
                             "f32 F32 [2, 3] [0.0, -1.5, 2.0, 1.0000000150474662e+30, 0.25, 0.0]\n"
                             "f64 F64 [] [0.1]\n"
                             "half BF16 [3] [1.5, 1.5, 1.5]\n"
                             "ints I64 [3] [1, -2, 1152921504606846976]\n"
                             "transposed F32 [3, 2] [0.0, 1.0000000150474662e+30, -1.5, 0.25, 2.0, 0.0]\n"
                             "who = me\n");
}

static void writing_is_all_or_nothing(void **state) {
    (void)state;
    dl_tensor *t = dl_tensor_zeros(1, (long[]){4}, DL_F32, 0), *two[] = {t, t};
    const char *same[] = {"a", "a"}, *bad[] = {"a\xff"};
    ok(dl_safetensors_write(temp_path("c.safetensors"), 1, same, &t, NULL));
    struct stat before, after;
    assert_int_equal(stat(temp_path("c.safetensors"), &before), 0);
    assert_int_equal(dl_safetensors_write(temp_path("c.safetensors"), 2, same, two, NULL), DL_ERR_NAME);
    assert_int_equal(dl_safetensors_write(temp_path("c.safetensors"), 1, bad, &t, NULL), DL_ERR_NAME);
    assert_int_equal(stat(temp_path("c.safetensors"), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino); /* untouched */
    assert_int_equal(dl_safetensors_write(temp_path("no/such/folder"), 1, same, &t, NULL), DL_ERR_IO);
    assert_non_null(strstr(dl_errmsg(), "No such file or directory"));
    /* a link is followed, and stays one */
    char target[128];
    snprintf(target, sizeof target, "%s", temp_path("c.safetensors"));
    assert_int_equal(symlink(target, temp_path("link")), 0);
    ok(dl_safetensors_write(temp_path("link"), 1, same, &t, NULL));
    assert_int_equal(lstat(temp_path("link"), &after), 0);
    assert_true(S_ISLNK(after.st_mode));
    dl_unref(t);
}

/* A file of a header and `body` zero bytes. */
static dl_tensor_file *parse(const char *head, size_t body) {
    static unsigned char bytes[4096];
    size_t n = strlen(head);
    memset(bytes, 0, sizeof bytes);
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)n >> 8 * i);
    memcpy(bytes + 8, head, n);
    return dl_safetensors_parse("file", bytes, 8 + n + body, 0);
}

static void damaged_files_are_refused(void **state) {
    (void)state;
    const struct {
        const char *head;
        size_t body;
        const char *message;
    } cases[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4,
         "bytes [0, 8) of tensor 'a' are not within the 4"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 12,
         "the tensors take 8 bytes, the file has 12"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, "takes 12 bytes, but 8 are set aside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "bytes [8, 0)"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8, "bytes [-8, 0)"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_"
         "offsets\":[2,6]}}",
         6, "tensor 'b' begins at byte 2, before the end of the one before at 4"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_"
         "offsets\":[4,6]}}",
         6, "tensor 'b' begins at byte 4, after the end of the one before at 2"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_"
         "offsets\":[0,1]}}",
         1, "not valid JSON: duplicate object key"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "has no dtype"},
        {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "has no shape"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "has no data_offsets"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1.5],\"data_offsets\":[0,1]}}", 1, "a size that is not a number"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, "9 dimensions"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4611686018427387904,4611686018427387904],\"data_offsets\":[0,1]}}", 1,
         "too large"},
        {"{\"a\":[1]}", 0, "not described by an object"},
        {"{\"__metadata__\":{\"k\":1}}", 0, "metadata 'k' is not a string"},
        {"[1]", 0, "not an object"},
        {"{\"a\":", 0, "not valid JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_tensor_file *f = parse(cases[i].head, cases[i].body);
        if (f) fail_msg("accepted: %s", cases[i].head);
        if (!strstr(dl_errmsg(), cases[i].message)) fail_msg("%s: %s", cases[i].head, dl_errmsg());
    }
    dl_tensor_file *f = parse("{}      ", 0); /* padding is allowed, and so are not tensors */
    assert_int_equal(dl_tensor_file_count(f), 0);
    dl_tensor_file_free(f);
    const unsigned char huge[16] = {255, 255, 255, 255, 255, 255, 255, 127};
    assert_null(dl_safetensors_parse("file", huge, sizeof huge, 0));
    assert_non_null(strstr(dl_errmsg(), "the header should have 9223372036854775807 bytes"));
    assert_null(dl_safetensors_parse("file", huge, 5, 0));
    assert_null(dl_safetensors_read("/no/such/file", 0));
    assert_int_equal(dl_failed(), DL_ERR_IO);
    assert_null(dl_safetensors_read("/tmp", 0));
}

/* A file that another program shortens while it is read is an error, and so is one that ends early. */
static void files_may_become_shorter(void **state) {
    (void)state;
    char path[128], bytes[100000];
    memset(bytes, 'x', sizeof bytes);
    snprintf(path, sizeof path, "%s", temp_path("shrinking"));
    ok(dl_file_write(path, bytes, sizeof bytes));
    dl_input in;
    ok(dl_input_open(&in, path));
    ok(dl_input_read(&in, 50000, bytes, 50000));
    assert_int_equal(dl_input_read(&in, 50000, bytes, 50001), DL_ERR_FORMAT);
    assert_int_equal(dl_input_read(&in, UINT64_MAX, bytes, 1), DL_ERR_FORMAT);
    assert_int_equal(truncate(path, 60000), 0);
    assert_int_equal(dl_input_read(&in, 50000, bytes, 50000), DL_ERR_IO);
    assert_non_null(strstr(dl_errmsg(), "has become shorter while it was read"));
    dl_input_cursor from = {&in, 0};
    assert_null(dl_element_tensor((dl_element){DL_E_FLOAT, 4, false}, 1, (long[]){20000}, 0, dl_input_next, &from));
    dl_input_close(&in);
}

/* ---------------------------------------------------------------- .npy */

static void npy_reads_back(void **state) {
    (void)state;
    const dl_dtype dtypes[] = {DL_BOOL, DL_U8, DL_I32, DL_I64, DL_F16, DL_F32, DL_F64};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        for (int ndim = 0; ndim <= 3; ndim++) {
            dl_tensor *t = dl_tensor_full(ndim, (long[]){2, 3, 4}, dtypes[i], 0, 1);
            ok(dl_npy_write(temp_path("t.npy"), t));
            dl_tensor *got = dl_npy_read(temp_path("t.npy"), 0);
            if (!got) fail_msg("%s", dl_errmsg());
            assert_int_equal(dl_dtype_of(got), dtypes[i]);
            assert_int_equal(dl_ndim(got), ndim);
            assert_int_equal(dl_numel(got), dl_numel(t));
            double a[24], b[24];
            ok(dl_read_f64(t, a));
            ok(dl_read_f64(got, b));
            assert_memory_equal(a, b, (size_t)dl_numel(t) * sizeof *a);
            dl_unref(t);
            dl_unref(got);
        }
    dl_tensor *t = dl_tensor_zeros(0, NULL, DL_BF16, 0);
    assert_int_equal(dl_npy_write(temp_path("t.npy"), t), DL_ERR_DTYPE);
    dl_unref(t);
}

static void write_bytes(const char *path, const char *head, const void *data, size_t n) {
    FILE *f = fopen(path, "wb");
    size_t len = strlen(head);
    fwrite("\x93NUMPY\1\0", 1, 8, f);
    fputc((int)len & 255, f);
    fputc((int)len >> 8, f);
    fwrite(head, 1, len, f);
    fwrite(data, 1, n, f);
    fclose(f);
}

static void npy_variants(void **state) {
    (void)state;
    const char *path = temp_path("v.npy");
    const int columns[] = {1, 4, 2, 5, 3, 6};
    write_bytes(path, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }\n", columns, sizeof columns);
    dl_tensor *t = dl_npy_read(path, 0);
    double v[6];
    ok(dl_read_f64(t, v));
    for (int i = 0; i < 6; i++) assert_true(v[i] == i + 1);
    dl_unref(t);
    const struct {
        const char *head, *message;
    } cases[] = {{"{'descr': '<c32', 'fortran_order': False, 'shape': (3,), }", "dtype '<c32' is not supported"},
                 {"{'descr': '<U1', 'fortran_order': False, 'shape': (6,), }", "dtype '<U1' is not supported"},
                 {"{'descr': '<f3', 'fortran_order': False, 'shape': (8,), }", "dtype '<f3' is not supported"},
                 {"{'descr': [('a', '<f4')], 'shape': (6,)}", "names no simple dtype"},
                 {"{'descr': '<f4', 'fortran_order': False, 'shape': (7,), }", "takes 28 bytes, the file has 24"},
                 {"{'descr': '<f4', 'fortran_order': False, 'shape': 6}", "expected a shape in parentheses, found '6'"},
                 {"{'descr': '<f4', 'shape': (-6,)}", "expected a size in decimal digits, found '-'"},
                 {"{'descr': '<f4', 'shape': (1,1,1,1,1,1,1,1,6)}", "more than 8 dimensions"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_bytes(path, cases[i].head, columns, sizeof columns);
        assert_null(dl_npy_read(path, 0));
        if (!strstr(dl_errmsg(), cases[i].message)) fail_msg("%s: %s", cases[i].head, dl_errmsg());
    }
}

/* Bytes of elements and the numbers that they encode. */
static const struct {
    const char *word, *descr; /* of safetensors and of .npy; NULL: there is none */
    unsigned char bytes[16];
    int n;
    dl_dtype dtype;
    double want[4];
} foreign[] = {
    {"I8", "|i1", {0x80, 0x7f, 0xff, 0}, 4, DL_I32, {-128, 127, -1, 0}},
    {"I16", "<i2", {0, 0x80, 0xff, 0x7f}, 2, DL_I32, {-32768, 32767}},
    {NULL, ">i2", {0x80, 0, 0x7f, 0xff}, 2, DL_I32, {-32768, 32767}},
    {"U16", "<u2", {1, 0, 0xff, 0xff}, 2, DL_I32, {1, 65535}},
    {NULL, ">u2", {0, 1, 0xff, 0xff}, 2, DL_I32, {1, 65535}},
    {"U32", "<u4", {0xff, 0xff, 0xff, 0xff}, 1, DL_I64, {4294967295.0}},
    {NULL, ">u4", {0, 0, 1, 2}, 1, DL_I64, {258}},
    {NULL, ">i4", {0xff, 0xff, 0xff, 0xfe}, 1, DL_I32, {-2}},
    {"U64", "<u8", {1, 0, 0, 0, 1}, 1, DL_I64, {4294967297.0}},
    {NULL, ">i8", {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0}, 1, DL_I64, {-256}},
    {NULL, ">f2", {0x3c, 0, 0xc0, 0}, 2, DL_F16, {1, -2}},
    {NULL, ">f4", {0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0}, 2, DL_F32, {1, -2}},
    {NULL, ">f8", {0x3f, 0xf0}, 1, DL_F64, {1}},
    {NULL, "|u1", {200, 7}, 2, DL_U8, {200, 7}},
    {NULL, ">b1", {1, 0}, 2, DL_BOOL, {1, 0}},
    {"F8_E4M3", NULL, {0x38, 0xb8, 0x01, 0x7e}, 4, DL_F32, {1, -1, 0.001953125, 448}},
    {"F8_E5M2", NULL, {0x3c, 0xbc, 0x01, 0x7b}, 4, DL_F16, {1, -1, 0.0000152587890625, 57344}},
};

static void expect_foreign(dl_tensor *t, size_t i) {
    double v[4];
    if (!t) fail_msg("case %zu: %s", i, dl_errmsg());
    assert_int_equal(dl_dtype_of(t), foreign[i].dtype);
    assert_int_equal(dl_numel(t), foreign[i].n);
    ok(dl_read_f64(t, v));
    for (int k = 0; k < foreign[i].n; k++)
        if (v[k] != foreign[i].want[k]) fail_msg("case %zu: [%d] is %.17g", i, k, v[k]);
}

static size_t size_of_foreign(size_t i) {
    const char *digit = foreign[i].word ? foreign[i].word + strcspn(foreign[i].word, "0123456789") : NULL;
    int bytes = digit ? atoi(digit) / 8 : foreign[i].descr[2] - '0';
    return (size_t)(bytes * foreign[i].n);
}

static void foreign_elements_are_widened(void **state) {
    (void)state;
    const char *path = temp_path("w.npy");
    char head[200];
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        size_t bytes = size_of_foreign(i);
        for (int fortran = 0; foreign[i].descr && fortran < 2; fortran++) {
            snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': %s, 'shape': (%d, 1), }", foreign[i].descr,
                     fortran ? "True" : "False", foreign[i].n);
            write_bytes(path, head, foreign[i].bytes, bytes);
            dl_tensor *t = dl_npy_read(path, 0);
            expect_foreign(t, i);
            dl_unref(t);
        }
        if (!foreign[i].word) continue;
        unsigned char file[256] = {0};
        int n = snprintf((char *)file + 8, 200, "{\"a\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[0,%zu]}}",
                         foreign[i].word, foreign[i].n, bytes);
        file[0] = (unsigned char)n;
        memcpy(file + 8 + n, foreign[i].bytes, bytes);
        dl_tensor_file *f = dl_safetensors_parse("file", file, 8 + (size_t)n + bytes, 0);
        if (!f) fail_msg("%s: %s", foreign[i].word, dl_errmsg());
        expect_foreign(dl_tensor_file_find(f, "a"), i);
        dl_tensor_file_free(f);
    }
}

static void others_load_beside_what_cannot_be(void **state) {
    (void)state;
    const char *why = NULL;
    dl_tensor_file *f = parse("{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]},"
                              "\"a\":{\"dtype\":\"X64\",\"shape\":[1],\"data_offsets\":[0,8]}}",
                              12);
    if (!f) fail_msg("%s", dl_errmsg());
    assert_int_equal(dl_tensor_file_count(f), 1);
    assert_non_null(dl_tensor_file_find(f, "b"));
    assert_string_equal(dl_tensor_file_skipped(f, 0, &why), "a");
    assert_string_equal(why, "dtype X64 has no counterpart here");
    assert_null(dl_tensor_file_skipped(f, 1, NULL));
    dl_tensor_file_free(f);
    unsigned char file[128] = {0};
    int n = snprintf((char *)file + 8, 100, "{\"u\":{\"dtype\":\"U64\",\"shape\":[],\"data_offsets\":[0,8]}}");
    file[0] = (unsigned char)n;
    memset(file + 8 + n, 0xff, 8);
    assert_non_null(f = dl_safetensors_parse("file", file, 16 + (size_t)n, 0));
    assert_string_equal(dl_tensor_file_skipped(f, 0, &why), "u");
    assert_non_null(strstr(why, "18446744073709551615 is above those of i64"));
    dl_tensor_file_free(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(foreign_elements_are_widened),
        cmocka_unit_test(others_load_beside_what_cannot_be),
        cmocka_unit_test(written_files_read_back),
        cmocka_unit_test(others_read_the_files),
        cmocka_unit_test(writing_is_all_or_nothing),
        cmocka_unit_test(files_may_become_shorter),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(npy_reads_back),
        cmocka_unit_test(npy_variants),
    };
    return cmocka_run_group_tests(tests, temp_make, temp_remove);
}
