/* The notebook kernel's parts that need no sockets: text of any bytes, positions, signatures and frames, magics. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "jupyter/kernel.h"

static void any_bytes_are_text(void **state) {
    (void)state;
    static const struct {
        const char *bytes, *text;
    } rows[] = {{"plain", "plain"},
                {"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80"},
                {"a\xff z", "a\xef\xbf\xbd z"},
                {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                                 /* too long a form */
                {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},                 /* a surrogate */
                {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* beyond the last plane */
                {"cut \xe2\x82", "cut \xef\xbf\xbd\xef\xbf\xbd"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *j = jup_text(rows[i].bytes, strlen(rows[i].bytes));
        assert_string_equal(json_string_value(j), rows[i].text);
        json_decref(j);
    }
    json_t *j = jup_text("a\0b", 3);
    assert_int_equal(json_string_length(j), 3);
    json_decref(j);
    j = jup_text(NULL, 0);
    assert_string_equal(json_string_value(j), "");
    json_decref(j);
}

static void a_cut_character_is_waited_for(void **state) {
    (void)state;
    const char euro[] = "x\xe2\x82\xac", face[] = "\xf0\x9f\x98\x80";
    assert_int_equal(jup_text_unfinished(euro, 4), 0);
    assert_int_equal(jup_text_unfinished(euro, 3), 2);
    assert_int_equal(jup_text_unfinished(euro, 2), 1);
    assert_int_equal(jup_text_unfinished(euro, 1), 0);
    for (size_t n = 1; n < 4; n++) assert_int_equal(jup_text_unfinished(face, n), n);
    assert_int_equal(jup_text_unfinished(face, 4), 0);
    assert_int_equal(jup_text_unfinished("\x80\x80\x80\x80", 4), 0); /* no character ever */
    assert_int_equal(jup_text_unfinished("", 0), 0);
}

static void positions_are_code_points(void **state) {
    (void)state;
    const char s[] = "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80z";
    static const size_t bytes[] = {0, 2, 5, 9, 10};
    for (long i = 0; i < 5; i++) {
        assert_int_equal(jup_bytes_of(s, 10, i), bytes[i]);
        assert_int_equal(jup_points_of(s, bytes[i]), i);
    }
    assert_int_equal(jup_bytes_of(s, 10, 1000), 10);
    assert_int_equal(jup_bytes_of(s, 10, 0), 0);
}

/* HMAC-SHA256 of RFC 4231, test case 2, the text cut into four frames. */
static void signatures_are_hmac(void **state) {
    (void)state;
    char text[] = "what do ya want for nothing?", out[JUP_SIGNATURE];
    jup_frame f[4] = {{text, 7}, {text + 7, 0}, {text + 7, 20}, {text + 27, 1}};
    jup_signer *s = jup_signer_new("sha256", "Jefe");
    for (int i = 0; i < 3; i++) {
        jup_sign(s, f, out);
        assert_string_equal(out, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }
    jup_signer_free(s);
    s = jup_signer_new("sha256", "");
    jup_sign(s, f, out);
    assert_string_equal(out, "");
    jup_signer_free(s);
}

static jup_frame copy(const char *s) { return (jup_frame){strdup(s), strlen(s)}; }

static void what_is_written_can_be_read(void **state) {
    (void)state;
    jup_signer *s = jup_signer_new("sha256", "key");
    jup_writer w;
    jup_frame out[JUP_OUT_FRAMES], *frames = malloc(sizeof *frames * 8);
    char content[] = "{\"code\":\"1+1\",\"n\":3,\"yes\":true}";
    const char *why;
    size_t len;
    jup_writer_init(&w, s);
    jup_write(&w, NULL, "execute_request", (jup_frame){0}, (jup_frame){content, strlen(content)}, out);
    frames[0] = copy("who asks");
    for (int i = 0; i < JUP_OUT_FRAMES; i++) { frames[i + 1] = (jup_frame){strndup(out[i].s, out[i].n), out[i].n}; }
    jup_request *r = jup_request_read(s, JUP_SHELL, frames, 1 + JUP_OUT_FRAMES, &why);
    assert_non_null(r);
    assert_string_equal(r->type, "execute_request");
    assert_string_equal(jup_content_text(r, "code", &len), "1+1");
    assert_int_equal(jup_content_int(r, "n", 0), 3);
    assert_int_equal(jup_content_bool(r, "yes", 0), 1);
    assert_null(jup_content_text(r, "n", &len));
    assert_int_equal(jup_content_int(r, "code", 9), 9);
    assert_int_equal(r->nids, 1);
    jup_request_unref(r);
    jup_signer_free(s);
}

static void check_cell(const char *code, const char *wanted) {
    size_t n;
    char *text = jup_cell_text(code, strlen(code), &n);
    assert_string_equal(text, wanted);
    assert_int_equal(n, strlen(wanted));
    free(text);
}

static void magics(void **state) {
    (void)state;
    check_cell("x = 1\n", "x = 1\n");
    check_cell("", "");
    check_cell("%time x", " time x");
    check_cell("a\n  %time x = 2\nb", "a\n   time x = 2\nb");
    check_cell("f(7,\n%time\n)", "f(7,\n%time\n)"); /* 7 modulo a variable */
    check_cell("s = \"\n%time\n\"", "s = \"\n%time\n\"");
    check_cell("%timex", "%timex");
    check_cell("%%time\nx", "      \nx");
    check_cell("\n%%c\nint f;", "\nC  {\nint f;\n}");
    check_cell("%%c flags=\"-O2\"\nint f;", "C  flags=\"-O2\" {\nint f;\n}");
    assert_true(jup_cell_timed("%%time\n1", 8));
    assert_false(jup_cell_timed("%%timer", 7));
    assert_true(jup_cell_is_c("%%c", 3));
    assert_false(jup_cell_is_c("%%cpp", 5));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bytes_are_text),          cmocka_unit_test(a_cut_character_is_waited_for),
        cmocka_unit_test(positions_are_code_points),   cmocka_unit_test(signatures_are_hmac),
        cmocka_unit_test(what_is_written_can_be_read), cmocka_unit_test(magics)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
