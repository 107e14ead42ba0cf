/* Characters of UTF-8 and their classes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef enum dl_char_class { DL_CHAR_OTHER, DL_CHAR_LETTER, DL_CHAR_NUMBER, DL_CHAR_SPACE } dl_char_class;

/* The character at p, which has `left` > 0 bytes, and its length; -1 with length 1: bytes that are not UTF-8. */
long dl_utf8_next(const char *p, size_t left, int *length);
/* Writes a character, at most 4 bytes; their number. */
int dl_utf8_put(long c, char *out);
/* Of a character; those outside of Unicode, such as -1, are DL_CHAR_OTHER. */
dl_char_class dl_char_class_of(long c);
