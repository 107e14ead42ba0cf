/* The texts that sessions ran. */
#pragma once

#include "lang/session.h"

/* Keeps a reference to a text that was parsed; the oldest of many are let go. */
void dlsh_texts_keep(dlsh_session *s, dlsh_unit *u);
/* Number i, the newest first; NULL past the last. Borrowed. While the pieces that were typed are one text, see
 * text/joined.h, dlsh_text_at gives that in their place. */
const dlsh_unit *dlsh_kept_text(int i);
const dlsh_unit *dlsh_text_at(int i);
const dlsh_unit *dlsh_text_of(const char *file);
