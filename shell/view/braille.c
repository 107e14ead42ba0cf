/* Curves in a terminal, drawn with braille dots: two by four in each place of a character. */
#include "view/braille.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL = 10 /* columns of the numbers at the left */, FEWEST_ROWS = 12, MOST_ROWS = 24, TICKS = 6 };

typedef struct axis {
    double low, high; /* logarithms when log */
    int log, size;    /* dots */
} axis;

typedef struct picture {
    dlsh_canvas c;
    axis x, y;
} picture;

static const char *const colours[] = {"\033[34m", "\033[33m", "\033[32m", "\033[31m", "\033[35m", "\033[36m",
                                      "\033[94m", "\033[93m", "\033[92m", "\033[91m", "\033[95m", "\033[96m"};
enum { NCOLOUR = DLSH_COUNT(colours) };

static double at_x(const dlsh_curve *c, long k) { return c->x ? c->x[k] : (double)k; }

/* ---------------------------------------------------------------- axes */

static double on_axis(const axis *a, double v) { return !a->log ? v : v > 0 ? log10(v) : NAN; }

static void widen(axis *a, double v) {
    v = on_axis(a, v);
    if (isfinite(v)) a->low = fmin(a->low, v), a->high = fmax(a->high, v);
}

static void measure(picture *p, const dlsh_plot *plot) {
    p->x = (axis){INFINITY, -INFINITY, plot->logx, 2 * p->c.columns};
    p->y = (axis){INFINITY, -INFINITY, plot->logy, 4 * p->c.rows};
    for (int i = 0; i < plot->ncurves; i++) {
        const dlsh_curve *c = &plot->curves[i];
        for (long k = 0; k < c->n; k++) {
            if (!isfinite(on_axis(&p->x, at_x(c, k))) || !isfinite(on_axis(&p->y, c->y[k]))) continue;
            widen(&p->x, at_x(c, k));
            widen(&p->y, c->y[k]);
            if (c->low) widen(&p->y, c->low[k]), widen(&p->y, c->high[k]);
        }
    }
    axis *both[] = {&p->x, &p->y};
    for (int i = 0; i < 2; i++) {
        double room = both[i]->low == 0 ? 1 : fabs(both[i]->low) / 2;
        if (both[i]->low > both[i]->high) both[i]->low = 0, both[i]->high = 1;
        if (both[i]->low == both[i]->high) both[i]->low -= room, both[i]->high += room;
    }
}

/* The dot of a value; NaN outside the axis. Halves, as the span of the largest numbers is none. */
static double place(const axis *a, double v) {
    return (on_axis(a, v) / 2 - a->low / 2) / (a->high / 2 - a->low / 2) * (double)(a->size - 1);
}

/* ---------------------------------------------------------------- dots */

static void dot(dlsh_canvas *c, int curve, double x, double y) {
    static const unsigned char bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    if (!(x >= 0 && y >= 0 && x < 2 * c->columns && y < 4 * c->rows)) return;
    int i = (int)x, k = 4 * c->rows - 1 - (int)y, at = k / 4 * c->columns + i / 2;
    c->dots[at] |= bits[k % 4][i % 2];
    c->owner[at] = (unsigned char)(1 + curve % 255);
}

void dlsh_canvas_line(dlsh_canvas *c, int curve, double x0, double y0, double x1, double y1) {
    int n = (int)fmax(fabs(x1 - x0), fabs(y1 - y0)) + 1;
    for (int i = 0; i <= n; i++) dot(c, curve, round(x0 + (x1 - x0) * i / n), round(y0 + (y1 - y0) * i / n));
}

int dlsh_canvas_new(dlsh_canvas *c, int columns, int rows) {
    size_t places = (size_t)columns * (size_t)rows;
    *c = (dlsh_canvas){columns, rows, calloc(3, places + 1), NULL, NULL};
    if (!c->dots) return 0;
    c->owner = c->dots + places, c->mark = c->owner + places;
    return 1;
}

/* The band's edges, with gaps, so that the curve stands out. */
static void draw_band(picture *p, int curve, const dlsh_curve *c) {
    for (long k = 0; c->low && k < c->n; k++)
        if ((long)place(&p->x, at_x(c, k)) % 2 == 0) {
            dot(&p->c, curve, round(place(&p->x, at_x(c, k))), round(place(&p->y, c->low[k])));
            dot(&p->c, curve, round(place(&p->x, at_x(c, k))), round(place(&p->y, c->high[k])));
        }
}

static void draw_curve(picture *p, int curve, const dlsh_curve *c) {
    double x0 = NAN, y0 = NAN;
    for (long k = 0; k < c->n; k++) {
        double x = place(&p->x, at_x(c, k)), y = place(&p->y, c->y[k]);
        if (isfinite(x) && isfinite(y)) {
            if (c->points || !isfinite(x0))
                dot(&p->c, curve, round(x), round(y));
            else
                dlsh_canvas_line(&p->c, curve, x0, y0, x, y);
        }
        x0 = isfinite(y) ? x : NAN, y0 = y;
    }
}

/* Where there are no colours, some places of a curve show its number. */
static void mark_curve(picture *p, int curve, const dlsh_curve *c) {
    static const char numbers[] = "123456789abcdefghijklmnop";
    for (int i = 0; i < 3; i++) {
        long k = (long)((double)(c->n - 1) * (0.3 * i + 0.2));
        double x = c->n ? place(&p->x, at_x(c, k)) : NAN, y = c->n ? place(&p->y, c->y[k]) : NAN;
        if (!isfinite(x) || !isfinite(y)) continue;
        int at = (p->y.size - 1 - (int)round(y)) / 4 * p->c.columns + (int)round(x) / 2;
        p->c.mark[at] = (unsigned char)numbers[curve % (int)(sizeof numbers - 1)];
    }
}

/* ---------------------------------------------------------------- numbers */

/* A round distance for about n ticks. */
static double tick_step(double low, double high, int n) {
    static const double nice[] = {1, 2, 5, 10};
    double raw = high / n - low / n, e = pow(10, floor(log10(raw)));
    int i = 0;
    while (i < 3 && nice[i] * e < raw) i++;
    return nice[i] * e;
}

/* The numbers of an axis, at most n, in *values; powers of ten where the axis is logarithmic and long enough. */
static int ticks(const axis *a, double *values, int n) {
    int powers = a->log && floor(a->high) - ceil(a->low) >= 1;
    double low = a->log && !powers ? pow(10, a->low) : a->low, high = a->log && !powers ? pow(10, a->high) : a->high;
    double step = powers ? ceil((high - low) / n) : tick_step(low, high, n);
    int count = 0;
    for (double v = ceil(low / step - 1e-9) * step; v <= high + step * 1e-9 && count < 2 * TICKS; v += step)
        values[count++] = powers ? pow(10, v) : fabs(v) < step * 1e-9 ? 0 : v;
    return count;
}

void dlsh_canvas_row(dlsh_buf *out, const dlsh_canvas *p, int row, int colour) {
    int last = 0;
    for (int i = 0; i < p->columns; i++) {
        int at = row * p->columns + i, owner = p->dots[at] ? p->owner[at] : 0;
        if (colour && owner != last) dlsh_buf_puts(out, owner ? colours[(owner - 1) % NCOLOUR] : "\033[0m");
        last = owner;
        if (p->mark[at])
            dlsh_buf_printf(out, "%c", p->mark[at]);
        else if (!p->dots[at])
            dlsh_buf_puts(out, " ");
        else
            dlsh_buf_add(out, (char[]){(char)0xe2, (char)(0xa0 | p->dots[at] >> 6), (char)(0x80 | (p->dots[at] & 63))},
                         3);
    }
    if (colour && last) dlsh_buf_puts(out, "\033[0m");
    while (out->n && out->s[out->n - 1] == ' ') out->s[--out->n] = 0;
}

static void put_body(dlsh_buf *out, const picture *p, int colour) {
    double values[2 * TICKS];
    int n = ticks(&p->y, values, p->c.rows / 3 < TICKS ? p->c.rows / 3 : TICKS);
    for (int row = 0; row < p->c.rows; row++) {
        char text[32] = "";
        for (int i = 0; i < n; i++)
            if ((p->y.size - 1 - (int)round(place(&p->y, values[i]))) / 4 == row)
                snprintf(text, sizeof text, "%.4g", values[i]);
        dlsh_buf_printf(out, "%*s %s", LABEL - 2, text, *text ? "┤" : "│");
        dlsh_canvas_row(out, &p->c, row, colour);
        dlsh_buf_puts(out, "\n");
    }
}

static void put_x(dlsh_buf *out, const picture *p, const char *name) {
    char label[40];
    snprintf(label, sizeof label, "%.*s", p->c.columns < 39 ? p->c.columns : 39, name ? name : "");
    double values[2 * TICKS];
    int n = ticks(&p->x, values, p->c.columns / 14 < TICKS ? p->c.columns / 14 + 1 : TICKS), end = 0;
    DLSH_FREED char *text = malloc((size_t)p->c.columns + 40);
    if (!text) return;
    memset(text, ' ', (size_t)p->c.columns + 40);
    dlsh_buf_printf(out, "%*s└", LABEL - 1, "");
    for (int i = 0; i < p->c.columns; i++) {
        int tick = 0;
        for (int k = 0; k < n; k++) tick |= (int)round(place(&p->x, values[k])) / 2 == i;
        dlsh_buf_puts(out, tick ? "┬" : "─");
    }
    int room = LABEL + p->c.columns - (int)strlen(label) - 2; /* the label stands at the right end */
    for (int k = 0; k < n; k++) {
        char number[32];
        int len = snprintf(number, sizeof number, "%.5g", values[k]);
        int from = LABEL + (int)round(place(&p->x, values[k])) / 2 - len / 2;
        if (from <= end || from + len > room) continue;
        memcpy(text + from, number, (size_t)len);
        end = from + len;
    }
    dlsh_buf_printf(out, "\n%.*s  %s\n", room > 0 ? room : 0, text, label);
}

static void drop_blanks(dlsh_buf *out) {
    while (out->n && out->s[out->n - 1] == ' ') out->s[--out->n] = 0;
}

static void put_legend(dlsh_buf *out, const dlsh_plot *plot, const picture *p, int colour) {
    int width = 0, most = p->c.columns;
    for (int i = 0; i < plot->ncurves; i++) {
        DLSH_SCOPED_BUF label = {0};
        dlsh_buf_puts_visible(&label, plot->curves[i].label ? plot->curves[i].label : "");
        if (label.n > (size_t)p->c.columns - 6) label.n = (size_t)p->c.columns - 6;
        int n = (int)label.n + 6;
        if (width && width + n > most) {
            drop_blanks(out);
            dlsh_buf_puts(out, "\n");
            width = 0;
        }
        if (!width) dlsh_buf_printf(out, "%*s", LABEL, "");
        if (colour)
            dlsh_buf_printf(out, "%s━━\033[0m ", colours[i % NCOLOUR]);
        else if (plot->ncurves > 1)
            dlsh_buf_printf(out, "%c: ", "123456789abcdefghijklmnop"[i % 25]);
        dlsh_buf_add(out, dlsh_buf_text(&label), label.n);
        dlsh_buf_puts(out, "   ");
        width += n;
    }
    drop_blanks(out);
    dlsh_buf_puts(out, "\n");
}

void dlsh_plot_braille(const dlsh_plot *plot, const dlsh_look *look, dlsh_buf *out) {
    int width = look->width > 20 ? look->width - 1 : 79, rows = (width - LABEL) / 4;
    picture p;
    rows = rows > MOST_ROWS ? MOST_ROWS : rows < FEWEST_ROWS ? FEWEST_ROWS : rows;
    if (!dlsh_canvas_new(&p.c, width - LABEL, rows)) return;
    measure(&p, plot);
    for (int i = 0; i < plot->ncurves; i++) draw_band(&p, i, &plot->curves[i]);
    for (int i = 0; i < plot->ncurves; i++) draw_curve(&p, i, &plot->curves[i]);
    for (int i = 0; i < plot->ncurves && !look->colour && plot->ncurves > 1; i++) mark_curve(&p, i, &plot->curves[i]);
    if (plot->title && *plot->title) {
        dlsh_buf_printf(out, "%*s", LABEL, "");
        DLSH_SCOPED_BUF title = {0};
        dlsh_buf_puts_visible(&title, plot->title);
        dlsh_buf_add(out, dlsh_buf_text(&title), title.n < (size_t)p.c.columns ? title.n : (size_t)p.c.columns);
        dlsh_buf_puts(out, "\n");
    }
    put_body(out, &p, look->colour);
    put_x(out, &p, plot->xlabel);
    put_legend(out, plot, &p, look->colour);
    free(p.c.dots);
}
