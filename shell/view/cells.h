/* Which elements of a tensor are shown, and the one format that they all have. */
#pragma once

#include <stddef.h>

#include "view/elements.h"

/* Set e and edge, then call dlsh_cells_choose. */
typedef struct dlsh_cells {
    const dlsh_elements *e;
    long edge[8]; /* shown at each end of a dimension; 0: all */
    enum {
        DLSH_WHOLE,
        DLSH_BOOLEAN,
        DLSH_POINTED,
        DLSH_FIXED,
        DLSH_SCIENTIFIC
    } style;            /* POINTED: whole floats, "2." */
    int width;          /* of the longest */
    int joined;         /* a part of complex numbers: zeros have all digits */
    double least, most; /* magnitudes that are finite and not 0; 0 without any */
} dlsh_cells;

enum { DLSH_CELL_TEXT = 512 }; /* bytes that the text of a cell fits in */

/* Chooses style and width by the elements that are shown. */
void dlsh_cells_choose(dlsh_cells *c);
/* The next index to show along a dimension, or its size at the end; *gap is set before one that follows a gap. */
long dlsh_cells_next(const dlsh_cells *c, int dim, long i, int *gap);
/* The element at an offset; returns its length. */
int dlsh_element_text(const dlsh_cells *c, long offset, char *buf, size_t size);
