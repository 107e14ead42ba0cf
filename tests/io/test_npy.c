/* The header of .npy files: those of NumPy are accepted, others are refused at the first difference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "dlcore.h"
#include "io/numpy/npy.h"

/* A file with this header and 24 bytes of elements. */
static dl_tensor *parse_bytes(const char *head, size_t len, int version) {
    unsigned char file[512] = {0};
    size_t before = version == 1 ? 10 : 12;
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (unsigned char)version;
    file[8] = (unsigned char)len;
    memcpy(file + before, head, len);
    return dl_npy_parse("a.npy", file, before + len + 24, 0);
}

static dl_tensor *parse(const char *head) { return parse_bytes(head, strlen(head), 1); }

static void what_numpy_writes_is_read(void **state) {
    (void)state;
    const struct {
        const char *head;
        int ndim;
        long shape[3];
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }      \n", 2, {2, 3}},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", 2, {2, 3}},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}\n", 1, {6}},
        {"{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (6,)}\n", 1, {6}},
        {"{\"shape\":(1,2,3,),'fortran_order':False,\"descr\":'<f4'}", 3, {1, 2, 3}},
        {" { 'fortran_order' : False , 'descr' : '<i4' ,\n 'shape' : ( 6 , ) , } \n", 1, {6}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int version = 1; version <= 3; version++) {
            dl_tensor *t = parse_bytes(cases[i].head, strlen(cases[i].head), version);
            if (!t) fail_msg("%s: %s", cases[i].head, dl_errmsg());
            assert_int_equal(dl_ndim(t), cases[i].ndim);
            for (int k = 0; k < cases[i].ndim; k++) assert_int_equal(dl_shape(t)[k], cases[i].shape[k]);
            dl_unref(t);
        }
}

#define HEAD "{'descr': '<f4', 'fortran_order': False, 'shape': "
#define WRONG "a.npy: the header is wrong at byte "

static void all_else_is_refused(void **state) {
    (void)state;
    const struct {
        const char *head, *message;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (6,)}", WRONG "44: expected True or False, found 'Maybe'"},
        {"{'descr': '<f4', 'fortran_order': Trueish, 'shape': (6,)}", WRONG "44: expected True or False"},
        {"{'descr': '<f4', 'fortran_order': 1, 'shape': (6,)}", WRONG "44: expected True or False, found '1'"},
        {"{'descr': '<f4', 'fortran_order': , 'shape': (6,)}", WRONG "44: expected True or False, found ','"},
        {HEAD "(6,)", WRONG "64: expected ',' or '}', found its end"},
        {HEAD "(6", WRONG "62: expected ',' behind the first size, found its end"},
        {HEAD "(6)}", WRONG "62: expected ',' behind the first size, found ')'"},
        {HEAD "(2 3)}", WRONG "63: expected ',' behind the first size, found '3'"},
        {HEAD "(1, 2 3)}", WRONG "66: expected ',' or ')', found '3'"},
        {HEAD "(,)}", WRONG "61: expected a size in decimal digits, found ','"},
        {HEAD "(6,,)}", WRONG "63: expected a size in decimal digits, found ','"},
        {HEAD "(06,)}", WRONG "61: expected a size in decimal digits, found '06'"},
        {HEAD "(+6,)}", WRONG "61: expected a size in decimal digits, found '+'"},
        {HEAD "(0x6,)}", WRONG "61: expected a size in decimal digits, found '0x6'"},
        {HEAD "(6.,)}", WRONG "62: expected ','"},
        {HEAD "(True,)}", WRONG "61: expected a size in decimal digits, found 'True'"},
        {HEAD "(99999999999999999999,)}", "the size at byte 61 of the header is too large"},
        {HEAD "[6]}", WRONG "60: expected a shape in parentheses, found '['"},
        {HEAD "(6,)*1}", WRONG "64: expected ',' or '}', found '*'"},
        {HEAD "(6,)} or else", WRONG "66: expected only blanks behind '}', found 'or'"},
        {HEAD "(6,)}}", WRONG "65: expected only blanks behind '}', found '}'"},
        {HEAD "(6,),,}", WRONG "65: expected one of the keys"},
        {HEAD "(6,), 'shape': (6,)}", "the header has the key 'shape' a second time at byte 66"},
        {HEAD "(6,), 'Shape': (6,)}", WRONG "67: expected one of the keys 'descr', 'fortran_order', 'shape'"},
        {HEAD "(6,), shape: (6,)}", WRONG "66: expected one of the keys"},
        {HEAD "(6,) 'more': 1}", WRONG "65: expected ',' or '}'"},
        {"{'descr': '<f4' 'fortran_order': False, 'shape': (6,)}", WRONG "26: expected ',' or '}'"},
        {"{'descr' '<f4'}", WRONG "19: expected ':' behind a key"},
        {"{'descr\": '<f4'}", WRONG "12: expected one of the keys"},
        {"{'descr': <f4}", WRONG "20: expected a dtype in quotes, found '<'"},
        {"{'descr': '<\\x664'}", WRONG "22: expected the end of a string, found '\\'"},
        {"['descr']", WRONG "10: expected '{', found '['"},
        {"", WRONG "10: expected '{', found its end"},
        {"{}", "the header has no descr"},
        {"{'descr': '<f4', 'shape': (6,)}", "the header has no fortran_order"},
        {"{'descr': '<f4', 'fortran_order': False}", "the header has no shape"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}", "names no simple dtype"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (parse(cases[i].head)) fail_msg("accepted: %s", cases[i].head);
        if (!strstr(dl_errmsg(), cases[i].message)) fail_msg("%s: %s", cases[i].head, dl_errmsg());
    }
    static const char nul[] = HEAD "(6,)}\0\n";
    assert_null(parse_bytes(nul, sizeof nul - 1, 1));
    assert_non_null(strstr(dl_errmsg(), WRONG "65: expected only blanks behind '}', found the byte 0x00"));
}

static void only_known_versions_are_read(void **state) {
    (void)state;
    unsigned char file[128] = "\x93NUMPY\1\1\x40";
    assert_null(dl_npy_parse("a.npy", file, sizeof file, 0));
    assert_non_null(strstr(dl_errmsg(), "version 1.1 of .npy is not supported"));
    file[6] = 4, file[7] = 0;
    assert_null(dl_npy_parse("a.npy", file, sizeof file, 0));
    assert_non_null(strstr(dl_errmsg(), "version 4.0 of .npy is not supported"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_numpy_writes_is_read),
        cmocka_unit_test(all_else_is_refused),
        cmocka_unit_test(only_known_versions_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
