/* Curves in a terminal, drawn with braille dots: two by four in each place of a character. */
#ifndef DLSH_VIEW_BRAILLE_H
#define DLSH_VIEW_BRAILLE_H

#include "view/sink.h"

/* Appends the picture of a plot without bars, as wide as the look allows. Curves have colours where the look has them,
 * else their numbers stand in them. */
void dlsh_plot_braille(const dlsh_plot *p, const dlsh_look *look, dlsh_buf *out);

#endif
