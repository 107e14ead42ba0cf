/* The directory of an archive: only the end record that fits the file is used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "dlcore.h"
#include "io/zip.h"

enum { END = 22, END64 = 56, LOCATOR = 20, MOST = 70000 };
static uint8_t file[4 * MOST];
static size_t nfile;

static void add(const void *bytes, size_t n) {
    memcpy(file + nfile, bytes, n);
    nfile += n;
}

static void add_number(uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++, v >>= 8) file[nfile++] = (uint8_t)v;
}

static void add_end(int n, size_t size, size_t at, size_t comment) {
    add("PK\5\6\0\0\0\0", 8);
    add_number((uint64_t)n, 2), add_number((uint64_t)n, 2), add_number(size, 4), add_number(at, 4);
    add_number(comment, 2);
}

/* One stored member "a" without bytes, its directory, and the larger end record where it is asked for. */
static void begin_archive(bool wide, size_t comment) {
    nfile = 0;
    add("PK\3\4", 4), add_number(20, 2), add_number(0, 20), add_number(1, 2), add_number(0, 2), add("a", 1);
    size_t at = nfile;
    add("PK\1\2", 4), add_number(0, 24), add_number(1, 2), add_number(0, 16), add("a", 1);
    size_t size = nfile - at, end = nfile;
    if (wide) {
        add("PK\6\6", 4), add_number(44, 8), add_number(0, 12), add_number(1, 8), add_number(1, 8);
        add_number(size, 8), add_number(at, 8);
        add("PK\6\7", 4), add_number(0, 4), add_number(end, 8), add_number(1, 4);
        add_end(0xffff, 0xffffffff, 0xffffffff, comment);
    } else {
        add_end(1, size, at, comment);
    }
}

/* The members of the archive; -1: it is refused. */
static long members(void) {
    dl_input in = dl_input_memory("a.npz", file, nfile);
    dl_zip z;
    long n = dl_zip_open(&z, &in) == DL_OK ? z.n : -1;
    dl_zip_close(&z);
    return n;
}

static void comments_are_passed_over(void **state) {
    (void)state;
    static uint8_t text[65535];
    memset(text, 'c', sizeof text);
    for (int wide = 0; wide < 2; wide++) {
        const size_t lengths[] = {0, 1, END, 1000, sizeof text};
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            begin_archive(wide, lengths[i]);
            add(text, lengths[i]);
            assert_int_equal(members(), 1);
        }
    }
}

static void end_records_in_comments_are_none(void **state) {
    (void)state;
    for (int wide = 0; wide < 2; wide++)
        for (size_t before = 0; before < 100; before += 33)
            for (size_t behind = 0; behind < 100; behind += 33)
                for (size_t says = 0; says < 100; says += 33) { /* equal to `behind`, too */
                    begin_archive(wide, before + END + behind);
                    memset(file + nfile, 'c', before), nfile += before;
                    add_end(0, 0, 0, says);
                    memset(file + nfile, 'c', behind), nfile += behind;
                    if (members() != 1) fail_msg("%d %zu %zu %zu", wide, before, behind, says);
                }
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    begin_archive(false, 0);
    size_t whole = nfile;
    add("more", 4);
    assert_int_equal(members(), -1);
    assert_non_null(strstr(dl_errmsg(), "no end that fits the file: it is cut off, or bytes were added"));
    nfile = whole - 1;
    assert_int_equal(members(), -1);
    begin_archive(false, 8); /* a comment that is cut */
    add("1234", 4);
    assert_int_equal(members(), -1);
    begin_archive(false, 0); /* of no members, before a directory that has one */
    file[whole - END + 8] = file[whole - END + 10] = 0;
    assert_int_equal(members(), -1);
    assert_non_null(strstr(dl_errmsg(), "has more members than its end says"));
    begin_archive(false, 0);
    file[whole - END + 4] = 1;
    assert_int_equal(members(), -1);
    assert_non_null(strstr(dl_errmsg(), "archives of several parts"));
    nfile = 0; /* a locator in a file too short for what it locates */
    add("PK\6\7", 4), add_number(0, 16);
    add_end(0, 0, LOCATOR, 0);
    assert_int_equal(members(), 0);
    nfile = 0;
    add_end(0, 0, 0, 0);
    assert_int_equal(members(), 0);
}

/* An archive of the deflated member "a", which holds "x". */
static void begin_deflated(void) {
    nfile = 0;
    add("PK\3\4", 4), add_number(20, 2), add_number(0, 2), add_number(8, 2), add_number(0, 4);
    add_number(0x8cdc1683, 4), add_number(6, 4), add_number(1, 4), add_number(1, 2), add_number(0, 2), add("a", 1);
    add("\1\1\0\xfe\xffx", 6);
    size_t at = nfile;
    add("PK\1\2", 4), add_number(20, 2), add_number(20, 2), add_number(0, 2), add_number(8, 2), add_number(0, 4);
    add_number(0x8cdc1683, 4), add_number(6, 4), add_number(1, 4), add_number(1, 2), add_number(0, 16), add("a", 1);
    size_t size = nfile - at;
    add_end(1, size, at, 0);
}

static void unpacking_is_interrupted(void **state) {
    (void)state;
    char x = 0;
    begin_deflated();
    dl_input in = dl_input_memory("a.npz", file, nfile);
    dl_zip z;
    assert_int_equal(dl_zip_open(&z, &in), DL_OK);
    dl_zip_stream *s = dl_zip_begin(&z, z.members);
    assert_non_null(s);
    dl_interrupt_set(1);
    assert_int_equal(dl_zip_next(s, &x, 1), DL_ERR_INTERRUPT);
    dl_interrupt_set(0);
    assert_int_equal(dl_zip_next(s, &x, 1), DL_OK);
    assert_int_equal(x, 'x');
    assert_int_equal(dl_zip_end(s), DL_OK);
    dl_zip_close(&z);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comments_are_passed_over),
        cmocka_unit_test(end_records_in_comments_are_none),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(unpacking_is_interrupted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
