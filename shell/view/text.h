/* Text measured in columns of a terminal; little pictures made of characters; times and sizes for people. */
#pragma once

#include "lang/value.h"

/* Columns that n bytes of UTF-8 take; bytes that are not UTF-8 and control characters count as one. */
int dlsh_text_width(const char *s, size_t n);
/* Bytes of the longest start of s that takes at most `columns`. */
size_t dlsh_text_cut(const char *s, size_t n, int columns);
/* The same, but a word with a digit in it, which may be a number, is left out whole when it would be cut, unless it
 * begins with a letter. */
size_t dlsh_text_clip(const char *s, size_t n, int columns);
/* What stands for text that was left out, one column wide. */
const char *dlsh_ellipsis(int unicode);
/* Appends s in exactly `width` columns, cut with an ellipsis when longer; align 'l' or 'r'. Trailing blanks of a
 * left-aligned text are left out when `last`. */
void dlsh_text_pad(dlsh_buf *b, const char *s, int width, char align, int last, int unicode);
/* Appends text broken at blanks to lines of at most `width` columns, each after the first indented. */
void dlsh_text_wrap(dlsh_buf *b, const char *s, int width, int indent);

/* Appends text of several lines; those wider than `width` (0: any) are broken at blanks and continue two columns after
 * their own indentation. Escapes of colours take no room. */
void dlsh_text_rewrap(dlsh_buf *b, const char *s, size_t n, int width);

/* Appends lines of fields, two blanks before each, as many a line as fit into `width` (0: all). */
void dlsh_text_fields(dlsh_buf *b, const char *const *fields, int n, int width);

/* One character a value, its height the value between 0 and the largest. */
void dlsh_spark(dlsh_buf *b, const double *values, int n, int unicode);
/* A bar of up to `width` columns, `part` (0 to 1) of it filled. */
void dlsh_bar(dlsh_buf *b, double part, int width, int unicode);

/* "0.42 s", "1:03", "2:15:07" */
void dlsh_duration(dlsh_buf *b, double seconds);
/* "12,345,678" */
void dlsh_grouped(dlsh_buf *b, long n);
/* Local time, "2026-11-20 23:45". */
void dlsh_when(dlsh_buf *b, long us);
