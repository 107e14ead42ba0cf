/* Widths of UTF-8 text, padding and wrapping, bars and sparks, durations. */
#include "view/text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <wchar.h>

/* Decodes one character; returns its bytes, at least 1. A byte that is not UTF-8 counts as a character. */
static size_t decode(const char *s, size_t n, wchar_t *out) {
    size_t len = dlsh_utf8(s, n);
    *out = (wchar_t)(len ? dlsh_utf8_code(s, len) : (unsigned char)*s);
    return len ? len : 1;
}

static int width_of(wchar_t c) {
    if (c >= 32 && c < 127) return 1;
    int w = wcwidth(c);
    return w < 0 ? 1 : w;
}

int dlsh_text_width(const char *s, size_t n) {
    int width = 0;
    wchar_t c;
    for (size_t i = 0; i < n;) {
        i += decode(s + i, n - i, &c);
        width += width_of(c);
    }
    return width;
}

size_t dlsh_text_cut(const char *s, size_t n, int columns) {
    size_t i = 0;
    wchar_t c;
    while (i < n) {
        size_t len = decode(s + i, n - i, &c);
        columns -= width_of(c);
        if (columns < 0) break;
        i += len;
    }
    return i;
}

size_t dlsh_text_clip(const char *s, size_t n, int columns) {
    size_t cut = dlsh_text_cut(s, n, columns), word = cut;
    int digit = 0;
    if (cut == n) return cut;
    while (word && !strchr(" =(,[", s[word - 1])) digit |= isdigit((unsigned char)s[--word]) != 0;
    digit |= isdigit((unsigned char)s[cut]) != 0;
    return digit && cut > word && !isalpha((unsigned char)s[word]) && !strchr(" ,)]", s[cut]) ? word : cut;
}

const char *dlsh_ellipsis(int unicode) { return unicode ? "…" : ">"; }

void dlsh_text_pad(dlsh_buf *b, const char *s, int width, char align, int last, int unicode) {
    size_t n = strlen(s);
    int has = dlsh_text_width(s, n);
    if (has > width) {
        size_t cut = dlsh_text_clip(s, n, width - 1);
        dlsh_buf_add(b, s, cut);
        dlsh_buf_puts(b, dlsh_ellipsis(unicode));
        has = dlsh_text_width(s, cut) + 1;
    } else if (align == 'r') {
        dlsh_buf_printf(b, "%*s%s", width - has, "", s);
        return;
    } else {
        dlsh_buf_add(b, s, n);
    }
    if (!last && width > has) dlsh_buf_printf(b, "%*s", width - has, "");
}

void dlsh_text_wrap(dlsh_buf *b, const char *s, int width, int indent) {
    int column = indent;
    while (*s) {
        size_t word = strcspn(s, " \n");
        int w = dlsh_text_width(s, word);
        if (column > indent && width > 0 && column + 1 + w > width) {
            dlsh_buf_printf(b, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            dlsh_buf_puts(b, " ");
            column++;
        }
        dlsh_buf_add(b, s, word);
        column += w;
        s += word;
        if (*s == '\n') {
            dlsh_buf_printf(b, "\n%*s", indent, "");
            column = indent;
        }
        if (*s) s++;
    }
}

/* Bytes of an escape of colours at s, 0 when there is none. */
static size_t escape_at(const char *s, size_t n) {
    size_t i = 2;
    if (n < 3 || s[0] != '\033' || s[1] != '[') return 0;
    while (i < n && (isdigit((unsigned char)s[i]) || s[i] == ';')) i++;
    return i < n && s[i] == 'm' ? i + 1 : 0;
}

/* Bytes of s that fit into `columns`, up to a blank; the whole first word when it alone is wider. */
static size_t fitting(const char *s, size_t n, int columns) {
    size_t i = 0, good = 0;
    wchar_t c;
    while (i < n && (columns >= 0 || !good)) {
        size_t escape = escape_at(s + i, n - i), len = escape ? escape : decode(s + i, n - i, &c);
        if (!escape && c == ' ' && i && s[i - 1] != ' ' && columns >= 0) good = i;
        if (!escape && c == ' ' && columns < 0) return good ? good : i;
        columns -= escape ? 0 : width_of(c);
        i += len;
    }
    return columns >= 0 || !good ? n : good;
}

static void rewrap_line(dlsh_buf *b, const char *s, size_t n, int width) {
    size_t indent = 0;
    while (indent < n && s[indent] == ' ') indent++;
    dlsh_buf_add(b, s, indent);
    s += indent, n -= indent;
    for (int room = width - (int)indent;; room = width - (int)indent - 2) {
        size_t fits = width > 0 ? fitting(s, n, room) : n;
        dlsh_buf_add(b, s, fits);
        while (fits < n && s[fits] == ' ') fits++;
        s += fits, n -= fits;
        if (!n) return;
        dlsh_buf_printf(b, "\n%*s", (int)indent + 2, "");
    }
}

void dlsh_text_rewrap(dlsh_buf *b, const char *s, size_t n, int width) {
    for (const char *end = s + n; s < end;) {
        const char *newline = memchr(s, '\n', (size_t)(end - s)), *stop = newline ? newline : end;
        rewrap_line(b, s, (size_t)(stop - s), width);
        if (newline) dlsh_buf_puts(b, "\n");
        s = stop + (newline != NULL);
    }
}

void dlsh_text_fields(dlsh_buf *b, const char *const *fields, int n, int width) {
    for (int i = 0, column = 0; i < n; i++) {
        int w = 2 + dlsh_text_width(fields[i], strlen(fields[i]));
        if (column && width > 0 && column + w > width) dlsh_buf_puts(b, "\n"), column = 0;
        dlsh_buf_printf(b, "  %s", fields[i]);
        column += w;
    }
    dlsh_buf_puts(b, "\n");
}

void dlsh_spark(dlsh_buf *b, const double *values, int n, int unicode) {
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const plain[] = {" ", ".", ":", "-", "=", "+", "*", "%", "#"};
    double most = 0;
    for (int i = 0; i < n; i++)
        if (values[i] > most) most = values[i];
    for (int i = 0; i < n; i++) {
        /* values above 0 get at least the lowest block */
        int level = most > 0 && values[i] > 0 ? (int)ceil(values[i] / most * 8) : 0;
        dlsh_buf_puts(b, unicode ? blocks[level] : plain[level]);
    }
}

void dlsh_bar(dlsh_buf *b, double part, int width, int unicode) {
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    part = part < 0 || isnan(part) ? 0 : part > 1 ? 1 : part;
    int steps = (int)lround(part * width * 8);
    if (!steps && part > 0) steps = 1;
    for (int i = 0; i < steps / 8; i++) dlsh_buf_puts(b, unicode ? "█" : "#");
    if (unicode) dlsh_buf_puts(b, eighths[steps % 8]);
}

void dlsh_duration(dlsh_buf *b, double seconds) {
    long s = (long)seconds;
    if (seconds > 0 && seconds < 1e-4)
        dlsh_buf_printf(b, "%.3g us", seconds * 1e6);
    else if (seconds < 60)
        dlsh_buf_printf(b, seconds < 0.01 ? "%.2g s" : seconds < 10 ? "%.2f s" : "%.1f s", seconds);
    else if (s < 3600)
        dlsh_buf_printf(b, "%ld:%02ld", s / 60, s % 60);
    else
        dlsh_buf_printf(b, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
}

void dlsh_grouped(dlsh_buf *b, long n) {
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%ld", n);
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0 && digits[i - 1] != '-') dlsh_buf_puts(b, ",");
        dlsh_buf_add(b, digits + i, 1);
    }
}

void dlsh_when(dlsh_buf *b, long us) {
    time_t t = us / 1000000;
    struct tm tm;
    char text[32];
    if (us && localtime_r(&t, &tm) && strftime(text, sizeof text, "%Y-%m-%d %H:%M", &tm)) dlsh_buf_puts(b, text);
}
