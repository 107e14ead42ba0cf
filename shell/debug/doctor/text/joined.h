/* What was typed at the prompt, or run in cells, as one text: the pieces that still count, in their order, under the
 * name dlsh_joined_name, with lines of its own. While it is there, dlsh_text_at gives it in the place of its pieces,
 * and places of what ran have to be turned to it. */
#pragma once

#include "debug/doctor/doctor.h"

extern const char dlsh_joined_name[];

dl_status dlsh_texts_join(void);
void dlsh_texts_part(void);
/* NULL: there is none. */
const dlsh_unit *dlsh_joined_text(void);
/* Is it a piece of the text, or one that another came instead of? */
int dlsh_is_piece(const dlsh_unit *u);

/* Is it a piece that was changed and run again? What it did counts no more. */
int dlsh_is_outdated(const char *file);

/* To the place in the text, from that in a piece; others stay. */
dl_source dlsh_join_source(dl_source at);
dl_status dlsh_join_row(dl_journal_row *r);
/* Does the row go on with one of those before it, as of a statement that was run again? It is then part of that. */
int dlsh_join_rows(dl_journal_row *rows, long n, const dl_journal_row *r);
/* And back: a place, that of a finding, and every place that words name. */
dl_source dlsh_part_source(dl_source at);
void dlsh_part_finding(dlsh_finding *f);
void dlsh_part_text(dlsh_buf *text);
