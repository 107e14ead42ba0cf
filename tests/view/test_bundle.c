/* Bundles: joining several displays into one, escapes, and sinks that lack what a bundle asks for. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "lang/session.h"

static void set(dlsh_buf *b, const char *s) { dlsh_buf_puts(b, s); }

static void texts_follow(void **state) {
    (void)state;
    dlsh_bundle a = {0}, b = {0};
    set(&a.text, "one\n");
    set(&b.text, "two\n");
    set(&b.form[DLSH_JSON], "[2]");
    dlsh_bundle_join(&a, &b);
    assert_string_equal(dlsh_buf_text(&a.text), "one\ntwo\n");
    for (int i = 0; i < DLSH_FORMS; i++)
        assert_int_equal(a.form[i].n, 0); /* JSON of a part would be taken for the whole */
    dlsh_bundle_free(&a);
    dlsh_bundle_free(&b);
}

static void first_is_taken_whole(void **state) {
    (void)state;
    dlsh_bundle a = {0}, b = {.width = 3};
    set(&b.text, "two\n");
    set(&b.form[DLSH_JSON], "[2]");
    dlsh_bundle_join(&a, &b);
    assert_string_equal(dlsh_buf_text(&a.form[DLSH_JSON]), "[2]");
    assert_int_equal(a.width, 3);
    dlsh_bundle_free(&a);
    dlsh_bundle_free(&b);
}

static void pictures_become_html(void **state) {
    (void)state;
    dlsh_bundle a = {0}, b = {0}, c = {0};
    set(&a.text, "\033[1ma < b & \"c\"\033[0m\n");
    set(&b.text, "[picture]\n");
    set(&b.form[DLSH_PNG], "\x89PNG");
    set(&b.alt, "a \"dot\"");
    set(&c.text, "table\n");
    set(&c.form[DLSH_HTML], "<table/>");
    dlsh_bundle_join(&a, &b);
    dlsh_bundle_join(&a, &c);
    assert_string_equal(dlsh_buf_text(&a.form[DLSH_HTML]),
                        "<pre>a &lt; b &amp; &quot;c&quot;\n</pre><img src=\"data:image/png;base64,iVBORw==\" alt=\"a "
                        "&quot;dot&quot;\"/><table/>");
    assert_int_equal(a.form[DLSH_PNG].n, 0);
    dlsh_bundle_free(&a);
    dlsh_bundle_free(&b);
    dlsh_bundle_free(&c);
}

static void base64_of_all_lengths(void **state) {
    (void)state;
    char data[200];
    memset(data, 'M', sizeof data);
    for (size_t n = 0; n <= sizeof data; n++) {
        dlsh_buf b = {0};
        dlsh_base64(&b, data, n);
        assert_int_equal(b.n, (n + 2) / 3 * 4);
        dlsh_buf_free(&b);
    }
}

static dlsh_buf told;
static void take_text(dlsh_sink *s, const char *bytes, size_t n) { (void)s, dlsh_buf_add(&told, bytes, n); }

static void poor_sink_shows_text(void **state) {
    (void)state;
    static const dlsh_sink_ops ops = {.text = take_text};
    dlsh_sink sink = {&ops};
    dlsh_bundle b = {.id = dlsh_display_id()};
    set(&b.text, "step 1\n");
    set(&b.form[DLSH_SVG], "<svg/>");
    assert_int_equal(dlsh_display(&sink, &b), DL_OK);
    b.update = 1;
    assert_int_equal(dlsh_display(&sink, &b), DL_OK);
    dlsh_page(&sink, "page\n", 5);
    dlsh_clear(&sink, 0);
    assert_string_equal(dlsh_buf_text(&told), "step 1\npage\n");
    dlsh_buf line = {0};
    assert_int_equal(dlsh_input(&sink, "? ", 0, &line), DL_ERR_UNSUPPORTED);
    dl_error_clear();
    assert_true(dlsh_display_id() > b.id);
    dlsh_bundle_free(&b);
    dlsh_buf_free(&told);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_follow), cmocka_unit_test(first_is_taken_whole),
                                       cmocka_unit_test(pictures_become_html), cmocka_unit_test(base64_of_all_lengths),
                                       cmocka_unit_test(poor_sink_shows_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
