/* A long action in a notebook: one display with a bar, throughput, the curve of a metric and the figures of each line
 * that is done, drawn again a few times a second. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "view/rich/html.h"
#include "view/rich/rich.h"
#include "view/text.h"

static const double DRAWN_EVERY = 0.1;            /* seconds */
enum { CURVE_W = 300, CURVE_H = 110, FIRST = 2 }; /* lines always kept at the start */

/* ---------------------------------------------------------------- what is kept */

/* When the array is full, adjacent points are merged in pairs. */
static void add_point(dlsh_live *l, double v) {
    if (!l->per) l->per = 1;
    if (l->calls++ % l->per == 0) {
        if (l->npoints == DLSH_LIVE_POINTS) {
            l->npoints /= 2;
            for (int i = 0; i < l->npoints; i++) {
                l->sums[i] = l->sums[2 * i] + l->sums[2 * i + 1];
                l->counts[i] = l->counts[2 * i] + l->counts[2 * i + 1];
            }
            l->per *= 2;
        }
        l->sums[l->npoints] = 0;
        l->counts[l->npoints++] = 0;
    }
    if (!isfinite(v)) return;
    l->sums[l->npoints - 1] += v;
    l->counts[l->npoints - 1]++;
}

static dlsh_live_line line_of(const dlsh_live *l, const dlsh_progress *p, const dlsh_buf *text) {
    dlsh_live_line x = {.seconds = dl_seconds() - l->line_started};
    snprintf(x.label, sizeof x.label, "%s", p->label ? p->label : "");
    for (int i = 0; i < p->nmetrics && i < DLSH_LIVE_METRICS; i++) {
        snprintf(x.names[i], sizeof x.names[i], "%s", p->names[i]);
        x.values[x.nmetrics++] = p->values[i];
    }
    if (text->n < sizeof x.text) memcpy(x.text, text->s, text->n);
    return x;
}

static void add_line(dlsh_live *l, const dlsh_live_line *x) {
    if (l->nlines >= DLSH_LIVE_LINES)
        memmove(&l->lines[FIRST], &l->lines[FIRST + 1], sizeof *l->lines * (DLSH_LIVE_LINES - FIRST - 1));
    l->lines[l->nlines < DLSH_LIVE_LINES ? l->nlines : DLSH_LIVE_LINES - 1] = *x;
    l->nlines++;
}

static int kept(const dlsh_live *l) { return l->nlines < DLSH_LIVE_LINES ? (int)l->nlines : DLSH_LIVE_LINES; }
static long left_out(const dlsh_live *l) { return l->nlines - kept(l); }

/* ---------------------------------------------------------------- HTML */

static void put_bar(dlsh_buf *b, const dlsh_live *l, const dlsh_progress *p) {
    double seconds = p->seconds > 0 ? p->seconds : dl_seconds() - l->started, left = dlsh_progress_left(p, 0, seconds);
    double part = p->total > 0 ? dlsh_progress_part(p) : 1;
    int finished = p->stopped || (p->done && !p->more);
    const char *colour = p->failed ? DLSH_RED : p->stopped ? DLSH_ORANGE : finished ? DLSH_GREEN : DLSH_BLUE;
    dlsh_buf_puts(b, "<div style=\"display:flex;flex-wrap:wrap;align-items:center;gap:2px 10px\"><b>");
    dlsh_html_puts(b, p->label ? p->label : "");
    dlsh_buf_puts(b, "</b>");
    if (p->total > 0)
        dlsh_buf_printf(b,
                        "<div style=\"width:220px;height:10px;border-radius:5px;overflow:hidden;background:"
                        "rgba(127,127,127,.25)\"><div style=\"width:%.1f%%;height:10px;background:%s\"></div></div>",
                        100 * fmin(1, part), colour);
    dlsh_buf_printf(b, "<span>%ld", p->at);
    if (p->total > 0) dlsh_buf_printf(b, "/%ld", p->total);
    if (p->detail && !finished) {
        dlsh_buf_puts(b, "&ensp;");
        dlsh_html_puts(b, p->detail);
    }
    dlsh_buf_puts(b, "</span><span style=\"opacity:.65\">");
    if (p->rate > 0) {
        dlsh_grouped(b, lround(p->rate));
        dlsh_buf_puts(b, " ");
        dlsh_html_puts(b, p->unit ? p->unit : "/s");
        dlsh_buf_puts(b, "</span><span style=\"opacity:.65\">");
    }
    if (finished) {
        dlsh_duration(b, seconds);
    } else if (left >= 0) {
        dlsh_buf_puts(b, "eta ");
        dlsh_duration(b, left);
    }
    dlsh_buf_puts(b, "</span>");
    if (p->stopped) {
        dlsh_buf_printf(b, "<b style=\"color:%s\">", colour);
        dlsh_html_puts(b, p->stopped);
        dlsh_buf_puts(b, "</b>");
    }
    dlsh_buf_puts(b, "</div>");
}

static double point(const dlsh_live *l, int i) { return l->counts[i] ? l->sums[i] / (double)l->counts[i] : NAN; }

/* The curve over the calls, and the lines' ends as marks below it. */
static void put_curve(dlsh_buf *b, const dlsh_live *l, const char *name) {
    enum { LEFT = 46, TOP = 8, BOTTOM = 16 };
    double lo = INFINITY, hi = -INFINITY;
    for (int i = 0; i < l->npoints; i++)
        if (isfinite(point(l, i))) lo = fmin(lo, point(l, i)), hi = fmax(hi, point(l, i));
    if (l->npoints < 2 || !(hi >= lo)) return;
    if (lo == hi) lo -= 0.5, hi += 0.5;
    double w = CURVE_W - LEFT - 6, h = CURVE_H - TOP - BOTTOM;
    dlsh_buf_printf(b,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
                    "font-family=\"sans-serif\" font-size=\"10\"><g stroke=\"" DLSH_GREY
                    "\" stroke-width=\"0.5\"><path d=\"M%d %dV%.1fH%d\" fill=\"none\"/><path d=\"M%d %dH%d\" "
                    "stroke-dasharray=\"2 3\"/></g>",
                    CURVE_W, CURVE_H, CURVE_W, CURVE_H, LEFT, TOP, TOP + h, CURVE_W - 6, LEFT, TOP, CURVE_W - 6);
    dlsh_buf_printf(b,
                    "<g fill=\"" DLSH_GREY "\"><text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.3g</text><text x=\"%d\" "
                    "y=\"%.1f\" text-anchor=\"end\">%.3g</text><text x=\"%d\" y=\"%d\" text-anchor=\"end\">step "
                    "%ld</text><text x=\"%d\" y=\"%d\">",
                    LEFT - 4, TOP + 4, hi, LEFT - 4, TOP + h, lo, CURVE_W - 6, CURVE_H - 3, l->calls, LEFT,
                    CURVE_H - 3);
    dlsh_html_puts(b, name);
    dlsh_buf_puts(b, "</text></g><path fill=\"none\" stroke=\"" DLSH_BLUE "\" stroke-width=\"1.6\" d=\"");
    for (int i = 0, pen = 0; i < l->npoints; i++) {
        double v = point(l, i);
        if (isfinite(v))
            dlsh_buf_printf(b, "%c%.1f %.1f", pen ? 'L' : 'M', LEFT + w * i / (l->npoints - 1),
                            TOP + h * (hi - v) / (hi - lo));
        pen = isfinite(v);
    }
    dlsh_buf_puts(b, "\"/></svg>");
    DLSH_SCOPED_BUF text = {0};
    dlsh_buf_printf(&text, "%s over %ld steps, between %.3g and %.3g", name, l->calls, lo, hi);
    dlsh_svg_describe(b, dlsh_buf_text(&text));
}

#define TD "<td style=\"text-align:right;padding:1px 9px\">"

static const double *metric_of(const dlsh_live_line *x, const char *name) {
    for (int i = 0; i < x->nmetrics; i++)
        if (!strcmp(x->names[i], name)) return &x->values[i];
    return NULL;
}

static void put_line(dlsh_buf *b, const dlsh_live_line *x, const dlsh_live_line *names) {
    dlsh_buf_puts(b, "<tr style=\"background:none\"><td style=\"text-align:left;padding:1px 9px\">");
    dlsh_html_puts(b, x->label);
    dlsh_buf_puts(b, "</td>");
    for (int i = 0; i < names->nmetrics; i++) {
        const double *v = metric_of(x, names->names[i]);
        dlsh_buf_puts(b, TD);
        if (v) dlsh_buf_printf(b, "%.4g", dlsh_plain_nan(*v));
        dlsh_buf_puts(b, "</td>");
    }
    dlsh_buf_puts(b, TD);
    if (x->seconds >= 0.001) dlsh_duration(b, x->seconds);
    dlsh_buf_puts(b, "</td></tr>");
}

/* A row for each line that is done, and for the present one; columns by the row with the most metrics. */
static void put_lines(dlsh_buf *b, const dlsh_live *l, const dlsh_live_line *present) {
    const dlsh_live_line *names = present;
    for (int i = 0; i < kept(l); i++)
        if (!names || l->lines[i].nmetrics > names->nmetrics) names = &l->lines[i];
    if (!names) return;
    dlsh_buf_puts(b, "<table style=\"border-collapse:collapse;border:none;color:inherit;font-size:12px;"
                     "font-variant-numeric:tabular-nums\"><tr style=\"background:none\"><th></th>");
    for (int i = 0; i < names->nmetrics; i++) {
        dlsh_buf_puts(b, "<th style=\"text-align:right;padding:1px 9px\">");
        dlsh_html_puts(b, names->names[i]);
        dlsh_buf_puts(b, "</th>");
    }
    dlsh_buf_puts(b, "<th style=\"text-align:right;padding:1px 9px\">time</th></tr>");
    for (int i = 0; i < kept(l); i++) {
        if (i == FIRST && left_out(l))
            dlsh_buf_printf(b,
                            "<tr style=\"background:none\"><td style=\"padding:1px 9px;opacity:.65\">&#8230; %ld "
                            "more</td></tr>",
                            left_out(l));
        put_line(b, &l->lines[i], names);
    }
    if (present) put_line(b, present, names);
    dlsh_buf_puts(b, "</table>");
}

/* ---------------------------------------------------------------- both forms */

static void put_text(dlsh_buf *b, const dlsh_live *l, const dlsh_buf *present) {
    for (int i = 0; i < kept(l); i++) {
        if (i == FIRST && left_out(l)) dlsh_buf_printf(b, "... %ld more\n", left_out(l));
        dlsh_buf_puts(b, l->lines[i].text);
    }
    if (present) dlsh_buf_add(b, present->s, present->n);
}

static void put_html(dlsh_buf *b, const dlsh_live *l, const dlsh_progress *p, const dlsh_live_line *present) {
    dlsh_buf_puts(b, "<div style=\"font-family:sans-serif;font-size:12px;line-height:1.5\">");
    put_bar(b, l, p);
    dlsh_buf_puts(b, "<div style=\"display:flex;flex-wrap:wrap;align-items:flex-start;gap:6px 24px;margin-top:6px\">");
    DLSH_SCOPED_BUF curve = {0};
    if (p->curve) put_curve(&curve, l, p->curve);
    if (curve.n && (p->stopped || (p->done && !p->more)))
        dlsh_html_picture(b, &curve);
    else /* a picture that is loaded again ten times a second would flicker */
        dlsh_buf_add(b, dlsh_buf_text(&curve), curve.n);
    put_lines(b, l, present);
    dlsh_buf_puts(b, "</div></div>");
}

/* Shows the last state, why the action stopped, and the unfinished line as one of the others. */
static void put_stopped(dlsh_live *l, const dlsh_progress *p, const dlsh_look *look, dlsh_bundle *b) {
    DLSH_SCOPED_BUF text = {0};
    if (l->line_started) {
        dlsh_meter_line(&l->meter, p, look, &text);
        dlsh_live_line x = line_of(l, p, &text);
        add_line(l, &x);
    }
    put_text(&b->text, l, NULL);
    dlsh_buf_puts(&b->text, p->stopped);
    put_html(&b->form[DLSH_HTML], l, p, NULL);
    *l = (dlsh_live){0};
}

int dlsh_rich_progress(dlsh_live *l, const dlsh_progress *p, const dlsh_look *look, dlsh_bundle *b) {
    double t = dl_seconds();
    if (p->stopped) {
        if (l->started) put_stopped(l, p, look, b);
        return b->text.n > 0;
    }
    if (!l->started) l->started = t;
    if (!l->line_started) l->line_started = t;
    if (p->curve) add_point(l, p->point);
    DLSH_SCOPED_BUF text = {0};
    dlsh_meter_draw(&l->meter, p, look, &text);
    dlsh_live_line present = {0};
    if (text.n) present = line_of(l, p, &text);
    if (text.n && p->done) add_line(l, &present);
    /* lines may be done a thousand times a second, and no page draws as often */
    int due = text.n && (t - l->drawn >= DRAWN_EVERY || (p->done && !p->more));
    if (due) {
        l->drawn = t;
        put_text(&b->text, l, p->done ? NULL : &text);
        put_html(&b->form[DLSH_HTML], l, p, p->done ? NULL : &present);
    }
    if (p->done) l->line_started = 0;
    if (p->done && !p->more) *l = (dlsh_live){0};
    return due;
}
