/* Makes foreign text (names, notes, cells of tables, messages of programs) safe to show: characters that control a
 * terminal or the direction of writing are written as escapes. */
#include <stdint.h>
#include <string.h>

#include "lang/session.h"

size_t dlsh_utf8(const char *s, size_t n) {
    const unsigned char *u = (const unsigned char *)s;
    size_t len = u[0] < 0x80                   ? 1
                 : u[0] >= 0xC2 && u[0] < 0xE0 ? 2
                 : (u[0] & 0xF0) == 0xE0       ? 3
                 : u[0] >= 0xF0 && u[0] < 0xF5 ? 4
                                               : 0;
    if (!len || len > n) return 0;
    for (size_t i = 1; i < len; i++)
        if ((u[i] & 0xC0) != 0x80) return 0;
    if (len == 3 && ((u[0] == 0xE0 && u[1] < 0xA0) || (u[0] == 0xED && u[1] >= 0xA0))) return 0;
    if (len == 4 && ((u[0] == 0xF0 && u[1] < 0x90) || (u[0] == 0xF4 && u[1] >= 0x90))) return 0;
    return len;
}

/* Control characters: C0 and DEL, C1, marks and overrides of direction, line separators, tags. */
static const struct {
    uint32_t from, to;
} steering[] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},   {0x200e, 0x200f},  {0x2028, 0x202e},
                {0x2066, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};

unsigned dlsh_utf8_code(const char *s, size_t len) {
    uint32_t c = (unsigned char)*s;
    if (len > 1) c &= 0xffu >> (len + 1);
    for (size_t i = 1; i < len; i++) c = c << 6 | ((unsigned char)s[i] & 0x3f);
    return c;
}

unsigned dlsh_control_char(const char *s, size_t n, size_t *len) {
    *len = dlsh_utf8(s, n);
    if (!*len) return *len = 1, DLSH_NOT_UTF8;
    uint32_t c = dlsh_utf8_code(s, *len);
    for (size_t i = 0; i < DLSH_COUNT(steering); i++)
        if (c >= steering[i].from && c <= steering[i].to) return c + 1;
    return 0;
}

void dlsh_buf_visible(dlsh_buf *b, const char *s, size_t n) {
    size_t from = 0, len;
    for (size_t i = 0; i < n; i += len) {
        unsigned char c = (unsigned char)s[i];
        len = 1;
        if ((c >= 32 && c < 127) || c == '\n' || c == '\t') continue;
        uint32_t steers = dlsh_control_char(s + i, n - i, &len);
        if (!steers) continue;
        dlsh_buf_add(b, s + from, i - from);
        from = i + len;
        if (c < 0x80 || steers == DLSH_NOT_UTF8)
            dlsh_buf_printf(b, "\\x%02x", c);
        else
            dlsh_buf_printf(b, steers - 1 > 0xffff ? "\\U%08x" : "\\u%04x", steers - 1);
    }
    dlsh_buf_add(b, s + from, n - from);
}

void dlsh_buf_vprintf_visible(dlsh_buf *b, const char *fmt, va_list ap) {
    DLSH_SCOPED_BUF raw = {0};
    dlsh_buf_vprintf(&raw, fmt, ap);
    dlsh_buf_puts_visible(b, dlsh_buf_text(&raw));
}

void dlsh_one_line(char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (s[i] == '\n' || s[i] == '\t' || s[i] == '\r') s[i] = ' ';
}

void dlsh_buf_puts_visible(dlsh_buf *b, const char *s) { dlsh_buf_visible(b, s, strlen(s)); }
