/* Progress: rates measured from the first call with a label on; redrawn ten times a second at a terminal
 * and in a notebook. */
#include "view/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "view/fit.h"
#include "view/text.h"

static const double KNOWN = 0.1; /* seconds after which the time that remains can be told */

/* ---------------------------------------------------------------- the fields of a line */

enum { GAP = 2, BAR = 20, LEAST_BAR = 4, FIELDS = 16, MARK = 1 };
/* The lowest rank is left out of a narrow line first; metrics add their own rank. */
enum { RANK_BAR, RANK_RATE, RANK_COUNT, RANK_METRIC, RANK_TIME = RANK_METRIC + 1, RANK_LABEL = RANK_METRIC + 8 };

typedef struct line {
    dlsh_fit fit[FIELDS];
    char text[FIELDS][64];
    int n, bar; /* the field that is the bar; -1: none */
} line;

__attribute__((format(printf, 3, 4))) static void field(line *l, int rank, const char *fmt, ...) {
    if (l->n == FIELDS) return;
    DLSH_FORMATTED(fmt, vsnprintf(l->text[l->n], sizeof l->text[0], fmt, ap));
    int width = dlsh_text_width(l->text[l->n], strlen(l->text[l->n]));
    if (width) l->fit[l->n++] = (dlsh_fit){width, width, rank};
}

/* Text that others chose. */
static void visible_field(line *l, int rank, const char *text) {
    DLSH_SCOPED_BUF b = {0};
    dlsh_buf_puts_visible(&b, text);
    field(l, rank, "%s", dlsh_buf_text(&b));
}

static void duration_field(line *l, int rank, const char *before, double seconds) {
    DLSH_SCOPED_BUF b = {0};
    dlsh_duration(&b, seconds);
    field(l, rank, "%s%s", before, dlsh_buf_text(&b));
}

static int has_metric(const dlsh_progress *p, const char *name) {
    for (int i = 0; i < p->nmetrics; i++)
        if (!strcmp(p->names[i], name)) return 1;
    return 0;
}

double dlsh_progress_part(const dlsh_progress *p) {
    long total = p->job_total ? p->job_total : p->total, at = p->job_total ? p->job_at : p->at;
    double part = total > 0 ? (double)at / (double)total : 0;
    return part < 0 ? 0 : part > 1 ? 1 : part;
}

double dlsh_progress_left(const dlsh_progress *p, long first, double seconds) {
    long total = p->job_total ? p->job_total : p->total, at = p->job_total ? p->job_at : p->at;
    if (total <= 0 || at <= first || seconds < KNOWN) return -1;
    return seconds / (double)(at - first) * (double)(total - at);
}

/* A running line has the bar of the job and its remaining time; a finished one the time that it took. */
static void make_line(line *l, const dlsh_meter *m, const dlsh_progress *p, const dlsh_look *look, double t) {
    int standing = p->done || p->stopped;
    const int told = p->seconds > 0;
    double seconds = told ? p->seconds : t - m->started, steps = told ? p->turns : (double)(p->at - m->first);
    *l = (line){.bar = -1};
    visible_field(l, RANK_LABEL, m->label);
    if ((look->live || look->rich) && p->total > 0 && !standing) {
        l->bar = l->n;
        field(l, RANK_BAR, "%*s", BAR, "");
        l->fit[l->bar].least = LEAST_BAR;
        field(l, RANK_COUNT, "%3.0f%%", 100 * dlsh_progress_part(p));
    }
    if (p->total > 0)
        field(l, RANK_COUNT, "%ld/%ld", p->at, p->total);
    else
        field(l, RANK_COUNT, "%ld", p->at);
    if (p->detail && *p->detail && !standing) visible_field(l, RANK_METRIC, p->detail);
    for (int i = 0; i < p->nmetrics; i++) {
        char text[64];
        snprintf(text, sizeof text, "%.40s %.4g", p->names[i], dlsh_plain_nan(p->values[i]));
        visible_field(l, RANK_METRIC + (p->ranks ? p->ranks[i] : 0), text);
    }
    if (!has_metric(p, "it/s") && steps > 0 && seconds > 0)
        field(l, RANK_RATE, "%.*f it/s", steps / seconds < 10 ? 2 : 0, steps / seconds);
    double left = told ? dlsh_progress_left(p, 0, seconds)
                       : dlsh_progress_left(p, p->job_total ? m->job_first : m->first, t - m->job_started);
    if (standing)
        duration_field(l, RANK_TIME, "", seconds);
    else if (left >= 0)
        duration_field(l, RANK_TIME, "eta ", left);
}

/* Returns the columns that the line takes. */
static int put_line(line *l, const dlsh_progress *p, const dlsh_look *look, dlsh_buf *b) {
    /* the last column stays free while the line is redrawn: a cursor after it would begin a new one */
    int room = look->width > 0 ? look->width - (look->live && !p->done) : 0;
    int out = room > 0 ? dlsh_fit_line(l->fit, l->n, GAP, room, MARK) : 0, first = 1;
    for (int i = 0; i < l->n; i++) {
        if (!l->fit[i].width) continue;
        if (!first) dlsh_buf_printf(b, "%*s", GAP, "");
        first = 0;
        if (i != l->bar) {
            dlsh_text_pad(b, l->text[i], l->fit[i].width, 'l', 1, look->unicode);
            continue;
        }
        DLSH_SCOPED_BUF bar = {0};
        dlsh_bar(&bar, dlsh_progress_part(p), l->fit[i].width, look->unicode);
        if (look->colour) dlsh_buf_puts(b, "\033[36m");
        dlsh_text_pad(b, dlsh_buf_text(&bar), l->fit[i].width, 'l', 0, look->unicode);
        if (look->colour) dlsh_buf_puts(b, "\033[0m");
    }
    if (out) dlsh_buf_printf(b, "%*s%s", GAP, "", dlsh_ellipsis(look->unicode));
    return dlsh_fit_width(l->fit, l->n, GAP) + (out ? GAP + MARK : 0);
}

void dlsh_meter_line(dlsh_meter *m, const dlsh_progress *p, const dlsh_look *look, dlsh_buf *out) {
    line l;
    make_line(&l, m, p, look, dl_seconds());
    put_line(&l, p, look, out);
    dlsh_buf_puts(out, "\n");
}

/* Starts what is measured: a line by its label, a job by the first of its lines. */
static void start(dlsh_meter *m, const dlsh_progress *p, double t) {
    snprintf(m->label, sizeof m->label, "%s", p->label ? p->label : "");
    m->started = t;
    m->drawn = 0;
    m->first = p->at > 0 && !p->done ? p->at - 1 : 0;
    if (m->job_started) return;
    m->job_started = t;
    m->job_first = p->job_at > 0 ? p->job_at - 1 : 0;
}

void dlsh_meter_draw(dlsh_meter *m, const dlsh_progress *p, const dlsh_look *look, dlsh_buf *out) {
    double t = dl_seconds();
    line l;
    if (!m->started || strcmp(m->label, p->label ? p->label : "")) start(m, p, t);
    if (!p->done && (!(look->live || look->rich) || t - m->drawn < 0.1)) return;
    m->drawn = t;
    make_line(&l, m, p, look, t);
    if (look->live) {
        /* a terminal that has become narrower has wrapped the line that stands there */
        int rows = m->open && look->width > 0 ? (m->open - 1) / look->width : 0;
        if (rows > 0) dlsh_buf_printf(out, "\033[%dA", rows);
        dlsh_buf_puts(out, "\r");
    }
    int width = put_line(&l, p, look, out);
    if (look->live) dlsh_buf_puts(out, "\033[J");
    if (p->done) dlsh_buf_puts(out, "\n");
    m->open = look->live && !p->done ? width : 0;
    if (p->done) m->started = 0;
    if (p->done && !p->more) m->job_started = 0;
}
