/* img: the PNG for a sink that shows pictures, and the text beside it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "lang/session.h"

extern const dlsh_command data_commands[], image_commands[];

static uint8_t png[1 << 20];
static size_t png_size;
static char text[1 << 16];

static void take_text(dlsh_sink *s, const char *bytes, size_t n) { (void)s, (void)bytes, (void)n; }
static dl_status take_value(dlsh_sink *s, dlsh_value v) { return (void)s, (void)v, DL_OK; }
static dl_status take_table(dlsh_sink *s, const dlsh_table *t) { return (void)s, (void)t, DL_OK; }
static void take_error(dlsh_sink *s, const dlsh_diag *d) { (void)s, (void)d; }
static dl_status take_display(dlsh_sink *s, const dlsh_bundle *b) {
    (void)s;
    const dlsh_buf *p = &b->form[DLSH_PNG];
    assert_true(p->n && p->n < sizeof png && b->text.n < sizeof text);
    memcpy(png, p->s, png_size = p->n);
    memcpy(text, b->text.s, b->text.n);
    text[b->text.n] = 0;
    return DL_OK;
}
static void take_look(dlsh_sink *s, dlsh_look *out) {
    (void)s;
    *out = (dlsh_look){.unicode = 1, .rich = 1};
}
static const dlsh_sink_ops ops = {.text = take_text,
                                  .value = take_value,
                                  .table = take_table,
                                  .error = take_error,
                                  .display = take_display,
                                  .look = take_look};
static dlsh_sink sink = {&ops};

static uint32_t word(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Checks the chunks and their check sums; returns the pixels, which the caller frees. */
static uint8_t *decode(uint32_t *w, uint32_t *h, int *channels) {
    uint8_t *raw = NULL;
    assert_memory_equal(png, "\x89PNG\r\n\x1a\n", 8);
    for (size_t at = 8; at < png_size;) {
        uint32_t n = word(png + at);
        const uint8_t *type = png + at + 4, *data = type + 4;
        assert_true(at + 12 + n <= png_size);
        assert_int_equal(word(data + n), crc32(0, type, n + 4));
        if (!memcmp(type, "IHDR", 4)) {
            *w = word(data), *h = word(data + 4), *channels = data[9] == 6 ? 4 : 2; /* with alpha */
            assert_int_equal(data[8], 8);
            assert_true(data[9] == 6 || data[9] == 4);
        }
        if (!memcmp(type, "IDAT", 4)) {
            uLongf size = (uLongf)*h * (1 + (uLongf)*w * (uLongf)*channels);
            raw = malloc(size + 1);
            uLongf got = size + 1;
            assert_int_equal(uncompress(raw, &got, data, n), Z_OK);
            assert_int_equal(got, size);
        }
        at += 12 + n;
    }
    return raw;
}

static void run(const char *code) {
    dlsh_session *s = dlsh_session_new(&sink, NULL);
    assert_int_equal(dlsh_add_commands(s, data_commands), DL_OK);
    assert_int_equal(dlsh_add_commands(s, image_commands), DL_OK);
    dl_status st = dlsh_run(s, "<c>", code, strlen(code), NULL);
    if (st) fail_msg("%s: %s", code, dl_errmsg());
    dlsh_session_free(s);
}

static void grey_picture(void **state) {
    (void)state;
    uint32_t w, h;
    int c;
    run("img tensor([[0, 1.0], [3, 4], [4, 0]])");
    uint8_t *raw = decode(&w, &h, &c);
    assert_true(w == 2 * 16 && h == 3 * 16 && c == 2); /* sixteen points a pixel */
    const uint8_t *row = raw + 1 + (1 + w * 2) * 16;   /* of the second pixels */
    assert_memory_equal(raw, ((uint8_t[]){0, 0, 255, 0, 255}), 5);
    assert_memory_equal(row - 1, ((uint8_t[]){0, 191, 255, 191, 255}), 5);
    assert_memory_equal(row + 2 * 15, ((uint8_t[]){191, 255, 255, 255}), 4);
    free(raw);
    assert_string_equal(text, "\u2584\u2584\n\u2580\n");
}

static void colours_side_by_side(void **state) {
    (void)state;
    uint32_t w, h;
    int c;
    run("x = zeros(2, 3, 1, 1); x[1, 2] = 5.0; img x");
    uint8_t *raw = decode(&w, &h, &c);
    assert_true(w == 16 + 6 + 16 && h == 16 && c == 4);
    assert_memory_equal(raw + 1 + 4 * 15, ((uint8_t[]){0, 0, 0, 255}), 4);
    assert_memory_equal(raw + 1 + 4 * 16, ((uint8_t[]){0, 0, 0, 0}), 4); /* nothing between them */
    assert_memory_equal(raw + 1 + 4 * 22, ((uint8_t[]){0, 0, 255, 255}), 4);
    free(raw);
}

static void samples(void **state) {
    (void)state;
    uint32_t w, h;
    int c;
    run("d = dataset(\"digits\", n=10, test=1); img d 2 n=20");
    free(decode(&w, &h, &c));
    assert_true(w == 8 * 86 - 2 && h == 84 && c == 2); /* eight are left, three points a pixel */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(grey_picture), cmocka_unit_test(colours_side_by_side),
                                       cmocka_unit_test(samples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
