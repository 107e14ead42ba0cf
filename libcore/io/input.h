/* Bytes to read from anywhere in them: a file's, or some in memory. A file is read and not mapped: one that another
 * program shortens meanwhile is then an error and not a signal. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "dlcore.h"

typedef struct dl_input {
    const char *name;      /* for messages; borrowed */
    int fd;                /* -1: in memory */
    const uint8_t *memory; /* borrowed */
    uint64_t size;
} dl_input;

/* The number of n bytes, the highest first. */
static inline uint64_t dl_big_endian(const uint8_t *p, int n) {
    uint64_t v = 0;
    for (int i = 0; i < n; i++) v = v << 8 | p[i];
    return v;
}

/* Opens a file; devices, FIFOs and folders are refused, and none of them is waited for. Errors: DL_ERR_IO. */
dl_status dl_input_open(dl_input *s, const char *path);
dl_input dl_input_memory(const char *name, const void *data, size_t n);
/* Exactly n bytes from `at` on. DL_ERR_FORMAT: there are fewer. DL_ERR_IO: the file cannot be read, or has become
 * shorter. */
dl_status dl_input_read(const dl_input *s, uint64_t at, void *to, size_t n);
/* Reading on from a place; dl_input_next is a dl_element_reader of one. */
typedef struct dl_input_cursor {
    const dl_input *in;
    uint64_t at;
} dl_input_cursor;
dl_status dl_input_next(void *cursor, void *to, size_t n);
void dl_input_close(dl_input *s);
