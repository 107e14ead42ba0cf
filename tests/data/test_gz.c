/* Files in gzip: members one after the other, and nothing but zeros after the last. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "data/data.h"
#include "data/temp.h"

static unsigned char packed[256], file[400000];
static size_t npacked;

/* One member that holds "1,2\n". */
static int pack(void **state) {
    (void)state;
    z_stream z = {.next_in = (unsigned char *)"1,2\n", .avail_in = 4, .next_out = packed, .avail_out = sizeof packed};
    if (deflateInit2(&z, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) return -1;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END) return -1;
    npacked = sizeof packed - z.avail_out;
    deflateEnd(&z);
    return temp_make(state);
}

/* The contents read from a file of `members` members and n bytes after them; NULL when it is refused. */
static char *read_file(int members, const void *behind, size_t n, size_t expected) {
    static char text[64];
    size_t at = 0, got;
    uint8_t *bytes;
    for (int i = 0; i < members; i++, at += npacked) memcpy(file + at, packed, npacked);
    memcpy(file + at, behind, n);
    FILE *f = fopen(temp_path("a.csv.gz"), "wb");
    fwrite(file, 1, at + n, f);
    fclose(f);
    if (dl_file_read(temp_path("a.csv.gz"), expected, &bytes, &got) != DL_OK) return NULL;
    snprintf(text, sizeof text, "%.*s", (int)got, (char *)bytes);
    free(bytes);
    return text;
}

static void expect(const char *got, const char *want) {
    if (!got) fail_msg("%s", dl_errmsg());
    assert_string_equal(got, want);
}

static void members_are_joined(void **state) {
    (void)state;
    expect(read_file(1, "", 0, 0), "1,2\n");
    expect(read_file(3, "", 0, 0), "1,2\n1,2\n1,2\n");
    expect(read_file(2, "", 0, 8), "1,2\n1,2\n");
    expect(read_file(0, "3,4\n", 4, 0), "3,4\n"); /* plain */
    expect(read_file(0, "", 0, 0), "");
    expect(read_file(0, "\x1f", 1, 0), "\x1f");
}

static void zeros_may_follow(void **state) {
    (void)state;
    static const char zeros[300000];
    expect(read_file(1, zeros, 1, 0), "1,2\n");
    expect(read_file(2, zeros, sizeof zeros, 0), "1,2\n1,2\n");
    expect(read_file(1, zeros, 512, 4), "1,2\n");
}

static void nothing_else_may(void **state) {
    (void)state;
    static char late[300001];
    late[sizeof late - 1] = 'x';
    const struct {
        const char *behind;
        size_t n;
    } cases[] = {{"5,6\n", 4}, {"x", 1}, {"\x1f", 1}, {"\0\0x", 3}, {late, sizeof late}, {"\0\x1f\x8b\x08", 4}};
    for (int members = 1; members <= 2; members++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            for (size_t expected = 0; expected <= 4; expected += 4) {
                char want[80];
                if (expected && members == 2) continue; /* longer than expected: the caller says so */
                if (read_file(members, cases[i].behind, cases[i].n, expected)) fail_msg("case %zu is read", i);
                snprintf(want, sizeof want, "last gzip member, from byte %zu on, is not gzip",
                         (size_t)members * npacked);
                if (!strstr(dl_errmsg(), want)) fail_msg("case %zu: %s", i, dl_errmsg());
            }
}

static void damaged_members_are_refused(void **state) {
    (void)state;
    unsigned char second[256];
    const struct {
        size_t at;
        const char *message;
    } cases[] = {{2, "unknown compression method"},
                 {12, NULL},
                 {npacked - 8, "incorrect data check"},
                 {npacked - 4, "incorrect length check"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(second, packed, npacked);
        second[cases[i].at] ^= 0x55;
        for (int before = 0; before < 2; before++) {
            assert_null(read_file(before, second, npacked, 0));
            assert_non_null(strstr(dl_errmsg(), "cannot uncompress '"));
            if (cases[i].message && !strstr(dl_errmsg(), cases[i].message)) fail_msg("%s", dl_errmsg());
        }
    }
    for (size_t n = 2; n < npacked; n++) {
        assert_null(read_file(1, packed, n, 0));
        assert_non_null(strstr(dl_errmsg(), "it ends too early"));
    }
}

static void a_head_needs_no_end(void **state) {
    (void)state;
    uint8_t head[8];
    size_t n = 4;
    assert_null(read_file(1, "text", 4, 0));
    assert_int_equal(dl_file_head(temp_path("a.csv.gz"), head, &n), DL_OK);
    assert_int_equal(n, 4);
    assert_memory_equal(head, "1,2\n", 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_joined),  cmocka_unit_test(zeros_may_follow),
        cmocka_unit_test(nothing_else_may),    cmocka_unit_test(damaged_members_are_refused),
        cmocka_unit_test(a_head_needs_no_end),
    };
    return cmocka_run_group_tests(tests, pack, temp_remove);
}
