/* Curves and bars drawn by gnuplot: as text, or to a PNG or SVG file. */
#pragma once

#include "view/sink.h"

/* Draws p. With p->file the picture appears there whole or not at all; without, its text is appended to `out`, sized to
 * the look. DL_ERR_UNSUPPORTED when gnuplot is not installed, DL_ERR_IO when it fails or the file cannot be made. */
dl_status dlsh_plot_draw(const dlsh_plot *p, const dlsh_look *look, dlsh_buf *out);
/* Draws p as an SVG document without background, readable on white and on black. p->file is not looked at. */
dl_status dlsh_plot_svg(const dlsh_plot *p, dlsh_buf *out);
