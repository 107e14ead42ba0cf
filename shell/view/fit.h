/* Fields of a line of limited width: which are shown, and how wide. Tables and progress lines have one rule: text is
 * shortened first, then fields are left out by rank; a number is never cut. */
#pragma once

typedef struct dlsh_fit {
    int width; /* columns it would take; afterwards those it gets, 0: left out */
    int least; /* to which it may shrink; of numbers their whole width */
    int rank;  /* the lowest is left out first; of equal ones the last */
} dlsh_fit;

/* Makes n fields, `gap` columns between them, fit into `room` columns. Before one is left out, `mark` columns and a gap
 * are kept for what says so. The last one stays, however narrow the room. Returns how many were left out. */
int dlsh_fit_line(dlsh_fit *f, int n, int gap, int room, int mark);
/* The columns that the fields take now, with their gaps. */
int dlsh_fit_width(const dlsh_fit *f, int n, int gap);
