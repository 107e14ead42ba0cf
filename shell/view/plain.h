/* Values, tables and errors as text in the three modes: what a terminal shows, and what stands beside the pictures of a
 * notebook. */
#pragma once

#include "view/sink.h"

/* Appends the value as the look wants it (people, CSV, JSON), ending in a newline. */
dl_status dlsh_plain_value(dlsh_buf *b, dlsh_value v, const dlsh_look *look);
dl_status dlsh_plain_table(dlsh_buf *b, const dlsh_table *t, const dlsh_look *look);
/* The error as it is told to people: its place, the line of source with a caret, the hint, the calls that led there.
 * Each part ends in a newline. */
void dlsh_plain_error(dlsh_buf *b, const dlsh_diag *d, int colour);
