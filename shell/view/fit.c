/* Fields of a line, fitted to its width. */
#include "view/fit.h"

int dlsh_fit_width(const dlsh_fit *f, int n, int gap) {
    int width = 0;
    for (int i = 0; i < n; i++) width += f[i].width ? f[i].width + (width ? gap : 0) : 0;
    return width;
}

/* Narrows the widest field that may shrink until the line fits; returns the columns that are still too many. */
static int shrink(dlsh_fit *f, int n, int excess) {
    while (excess > 0) {
        int widest = -1;
        for (int i = 0; i < n; i++)
            if (f[i].width > f[i].least && (widest < 0 || f[i].width > f[widest].width)) widest = i;
        if (widest < 0) break;
        f[widest].width--;
        excess--;
    }
    return excess;
}

/* The shown field of the lowest rank; -1 when only one is left. */
static int weakest(const dlsh_fit *f, int n) {
    int found = -1, shown = 0;
    for (int i = 0; i < n; i++) {
        if (!f[i].width) continue;
        shown++;
        if (found < 0 || f[i].rank <= f[found].rank) found = i;
    }
    return shown > 1 ? found : -1;
}

/* Whether the fields fit when each takes its least. */
static int can_fit(const dlsh_fit *f, int n, int gap, int room) {
    int width = 0;
    for (int i = 0; i < n; i++)
        if (f[i].width) width += (f[i].width < f[i].least ? f[i].width : f[i].least) + (width ? gap : 0);
    return width <= room;
}

int dlsh_fit_line(dlsh_fit *f, int n, int gap, int room, int mark) {
    int out = 0, at;
    while (!can_fit(f, n, gap, room - (out ? mark + gap : 0)) && (at = weakest(f, n)) >= 0) {
        f[at].width = 0;
        out++;
    }
    shrink(f, n, dlsh_fit_width(f, n, gap) - room + (out ? mark + gap : 0));
    return out;
}
