/* HTML that notebooks show: tensors and tables. Colours are half transparent or taken from the surroundings, so that
 * light and dark themes are readable alike; styles stand in the elements, since notebooks and their exports keep no
 * others. */
#pragma once

#include "view/elements.h"
#include "view/sink.h"

/* Colours with enough contrast on white and on black, for pictures too, which see nothing of the theme. */
#define DLSH_GREY "#7d7d7d"
#define DLSH_BLUE "#3f87d6"
#define DLSH_RED "#e0524d"
#define DLSH_GREEN "#3fa35c"
#define DLSH_ORANGE "#d98324"

/* dlsh_html_escape of a string. */
void dlsh_html_puts(dlsh_buf *b, const char *s);

/* The elements of a tensor as tables, the last two dimensions each: all of a small one, corners of a large one, shaded
 * by sign and magnitude; above them dtype, shape, figures and a histogram where s is not NULL. */
dl_status dlsh_html_tensor(dlsh_buf *b, const dl_tensor *t, const dlsh_stats *s);
/* The part above the tables alone; title may be NULL. */
dl_status dlsh_html_figures(dlsh_buf *b, const char *title, const dl_tensor *t, const dlsh_stats *s);
/* A table with its title as caption; numbers to the right. At most 1000 rows, and how many more there are. */
dl_status dlsh_html_table(dlsh_buf *b, const dlsh_table *t);

/* Says in an SVG document what it shows, for who cannot see it: as the label of its root, and as its title. */
void dlsh_svg_describe(dlsh_buf *svg, const char *text);
/* An SVG as a picture in HTML, what it says of itself as alternative text. Clients take SVG elements out of HTML that
 * they do not trust, and nbconvert 6.5 empties SVG that stands alone. */
void dlsh_html_picture(dlsh_buf *b, const dlsh_buf *svg);
