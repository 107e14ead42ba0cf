/* UTF-8, and the classes of characters by the tables of Unicode. */
#include "data/text/unicode.h"

static const struct {
    uint32_t first, last;
    uint8_t class;
} ranges[] = {
#define LETTER(first, last) {first, last, DL_CHAR_LETTER},
#define NUMBER(first, last) {first, last, DL_CHAR_NUMBER},
#define SPACE(first, last) {first, last, DL_CHAR_SPACE},
#include "data/text/unicode.def"
#undef LETTER
#undef NUMBER
#undef SPACE
};

long dl_utf8_next(const char *p, size_t left, int *length) {
    static const struct {
        uint8_t mask, lead;
        long least;
    } forms[] = {{0x80, 0, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    const uint8_t *b = (const uint8_t *)p;
    *length = 1;
    for (int n = 0; n < 4 && (size_t)n < left; n++) {
        if ((b[0] & forms[n].mask) != forms[n].lead) continue;
        long c = b[0] & (uint8_t)~forms[n].mask;
        for (int i = 1; i <= n; i++) {
            if ((b[i] & 0xc0) != 0x80) return -1;
            c = c << 6 | (b[i] & 0x3f);
        }
        if (c < forms[n].least || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return -1;
        *length = n + 1;
        return c;
    }
    return -1;
}

int dl_utf8_put(long c, char *out) {
    if (c < 0x80) return out[0] = (char)c, 1;
    int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
    return n;
}

dl_char_class dl_char_class_of(long c) {
    long from = 0, to = sizeof ranges / sizeof *ranges;
    while (c >= 0 && from < to) {
        long mid = (from + to) / 2;
        if (c > (long)ranges[mid].last)
            from = mid + 1;
        else if (c < (long)ranges[mid].first)
            to = mid;
        else
            return (dl_char_class)ranges[mid].class;
    }
    return DL_CHAR_OTHER;
}
