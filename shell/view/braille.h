/* Curves in a terminal, drawn with braille dots: two by four in each place of a character. */
#pragma once

#include "view/sink.h"

/* Appends the picture of a plot without bars, as wide as the look allows. Curves have colours where the look has them,
 * else their numbers stand in them. */
void dlsh_plot_braille(const dlsh_plot *p, const dlsh_look *look, dlsh_buf *out);

/* A picture of dots: 2 columns by 4 rows of them in each place of a character. */
typedef struct dlsh_canvas {
    int columns, rows;
    unsigned char *dots, *owner,
        *mark; /* a place each: its dots, 1 + the curve that set the last, a character on top */
} dlsh_canvas;
/* Empty; 0: no memory. The caller frees c->dots. */
int dlsh_canvas_new(dlsh_canvas *c, int columns, int rows);
/* From dot to dot, counted from the lower left corner. Curves from 0 have colours, -1 has none. */
void dlsh_canvas_line(dlsh_canvas *c, int curve, double x0, double y0, double x1, double y1);
/* Appends a row of characters, the uppermost of which is 0. */
void dlsh_canvas_row(dlsh_buf *out, const dlsh_canvas *c, int row, int colour);
