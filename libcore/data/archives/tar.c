/* Archives of tar: a header of 512 bytes for each file, then its bytes, filled up to a multiple of 512.
 * Format: POSIX.1-2017, pax, "ustar Interchange Format". */
#include "data/archives/tar.h"

#include <string.h>

enum { BLOCK = 512, NAME = 100, SIZE = 124, CHECK = 148, TYPE = 156 };

static dl_status bad(const char *name, size_t at, const char *what) {
    return dl_fail_hint(DL_ERR_FORMAT, "the file is damaged or was not copied whole; fetch it again",
                        "%s: byte %zu of the archive: %s", name, at, what);
}

/* Octal digits up to a blank or NUL, or with the first bit set a number of bytes, the highest first. */
static int read_number(const uint8_t *p, int n, uint64_t *v) {
    *v = 0;
    if (*p & 0x80) {
        for (int i = 1; i < n; i++) {
            if (*v >> 55) return 0;
            *v = *v << 8 | p[i];
        }
        return !(*p & 0x7f);
    }
    int i = 0;
    while (i < n && p[i] == ' ') i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++) *v = *v << 3 | (uint64_t)(p[i] - '0');
    return i == n || !p[i] || p[i] == ' ';
}

/* The sum of the header's bytes, those of the sum itself taken as blanks. */
static int check_sum(const uint8_t *h) {
    uint64_t stored, sum = 0;
    for (int i = 0; i < BLOCK; i++) sum += i >= CHECK && i < CHECK + 8 ? ' ' : h[i];
    return read_number(h + CHECK, 8, &stored) && stored == sum;
}

static int has_base(const uint8_t *h, const char *base) {
    char name[NAME + 1] = "";
    memcpy(name, h, NAME);
    const char *slash = strrchr(name, '/');
    return !strcmp(slash ? slash + 1 : name, base);
}

dl_status dl_tar_find(const char *name, const uint8_t *p, size_t n, const char *base, const uint8_t **at,
                      size_t *size) {
    *at = NULL, *size = 0;
    for (size_t i = 0; i < n && p[i];) {
        uint64_t bytes;
        if (n - i < BLOCK) return bad(name, i, "it ends within a header");
        if (!check_sum(p + i)) return bad(name, i, "the checksum of a header is wrong");
        if (!read_number(p + i + SIZE, 12, &bytes)) return bad(name, i, "the size of a file is not a number");
        if (bytes > n - i - BLOCK) return bad(name, i, "it ends within a file");
        int plain = p[i + TYPE] == '0' || !p[i + TYPE];
        if (plain && has_base(p + i, base)) return *at = p + i + BLOCK, *size = (size_t)bytes, DL_OK;
        size_t padded = ((size_t)bytes + BLOCK - 1) / BLOCK * BLOCK;
        if (padded > n - i - BLOCK) return DL_OK; /* the last one, not filled up */
        i += BLOCK + padded;
    }
    return DL_OK;
}
