/* Tables as aligned text, CSV and lines of JSON. */
#pragma once

#include "view/sink.h"

/* Heading, rule and rows, columns cut to fit the width of the look. Ends with a newline. */
dl_status dlsh_table_text(dlsh_buf *b, const dlsh_table *t, const dlsh_look *look);
/* Heading and rows by RFC 4180; absent values are empty. */
dl_status dlsh_table_csv(dlsh_buf *b, const dlsh_table *t);
/* One object a row and line. */
dl_status dlsh_table_json(dlsh_buf *b, const dlsh_table *t);
/* A row as one object. */
dl_status dlsh_table_object(dlsh_buf *b, const dlsh_table *t, int row);
/* The text of a cell for people. Line breaks become blanks: a row is a line. */
dl_status dlsh_table_cell(dlsh_buf *b, const dlsh_column *col, dlsh_value v);
/* Text as a field of CSV: quoted where it must be. */
void dlsh_csv_text(dlsh_buf *b, const char *s, size_t n);
/* One value as a field of CSV: quoted where it must be. */
dl_status dlsh_csv_field(dlsh_buf *b, dlsh_value v);

/* A cell for an amount: for people "12.5 MB" (bytes) or "3.1M", in the other modes the whole number. */
dlsh_value dlsh_amount(double v, int bytes, dlsh_mode mode);
