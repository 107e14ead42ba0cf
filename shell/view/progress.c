/* Progress: rates measured from the first call with a label on; redrawn ten times a second at a terminal
 * and in a notebook. */
#include "view/progress.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "view/text.h"

enum { BAR = 20 };
static const double KNOWN = 0.1; /* seconds after which the time that remains can be told */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void put_metrics(dlsh_buf *b, const dlsh_progress *p) {
    for (int i = 0; i < p->nmetrics; i++) {
        dlsh_buf_puts(b, "  ");
        dlsh_buf_see(b, p->names[i]);
        dlsh_buf_printf(b, " %.4g", p->values[i]);
    }
}

/* The rate, unless the caller brought one. */
static void put_rate(dlsh_buf *b, const dlsh_progress *p, double done, double seconds) {
    for (int i = 0; i < p->nmetrics; i++)
        if (!strcmp(p->names[i], "it/s")) return;
    if (done > 0 && seconds > 0) dlsh_buf_printf(b, "  %.*f it/s", done / seconds < 10 ? 2 : 0, done / seconds);
}

static void put_count(dlsh_buf *b, const dlsh_progress *p) {
    if (p->total > 0)
        dlsh_buf_printf(b, "  %ld/%ld", p->at, p->total);
    else
        dlsh_buf_printf(b, "  %ld", p->at);
}

static void put_line(dlsh_meter *m, const dlsh_progress *p, const dlsh_look *look, double t, dlsh_buf *b) {
    double seconds = t - m->started, done = (double)(p->at - m->first);
    dlsh_buf_see(b, m->label);
    if ((look->live || look->rich) && p->total > 0 && !p->done && !p->stopped) {
        dlsh_buf bar = {0};
        double part = (double)p->at / (double)p->total;
        dlsh_bar(&bar, part, BAR, look->unicode);
        dlsh_buf_puts(b, "  ");
        if (look->colour) dlsh_buf_puts(b, "\033[36m");
        dlsh_text_pad(b, dlsh_buf_text(&bar), BAR, 'l', 0, look->unicode);
        if (look->colour) dlsh_buf_puts(b, "\033[0m");
        dlsh_buf_printf(b, " %3.0f%%", part * 100);
        dlsh_buf_free(&bar);
    }
    put_count(b, p);
    put_metrics(b, p);
    put_rate(b, p, done, seconds);
    dlsh_buf_puts(b, "  ");
    if (p->done || p->stopped) {
        dlsh_duration(b, seconds);
    } else if (p->total > 0 && done > 0 && seconds >= KNOWN) {
        dlsh_buf_puts(b, "eta ");
        dlsh_duration(b, seconds / done * (double)(p->total - p->at));
    }
}

void dlsh_meter_line(dlsh_meter *m, const dlsh_progress *p, const dlsh_look *look, dlsh_buf *out) {
    put_line(m, p, look, now(), out);
    dlsh_buf_puts(out, "\n");
}

void dlsh_meter_draw(dlsh_meter *m, const dlsh_progress *p, const dlsh_look *look, dlsh_buf *out) {
    double t = now();
    if (!m->started || strcmp(m->label, p->label ? p->label : "")) {
        snprintf(m->label, sizeof m->label, "%s", p->label ? p->label : "");
        m->started = t;
        m->drawn = 0;
        m->first = p->at > 0 && !p->done ? p->at - 1 : 0;
    }
    if (!p->done && (!(look->live || look->rich) || t - m->drawn < 0.1)) return;
    m->drawn = t;
    dlsh_buf line = {0};
    put_line(m, p, look, t, &line);
    if (look->live) {
        /* a line that wraps could not be redrawn; escapes of colours count nothing */
        int limit = look->width > 1 ? look->width - 1 + (look->colour && !p->done ? 9 : 0) : 0;
        size_t n = limit ? dlsh_text_cut(dlsh_buf_text(&line), line.n, limit) : line.n;
        dlsh_buf_puts(out, "\r");
        dlsh_buf_add(out, line.s, n);
        dlsh_buf_puts(out, "\033[K");
        if (look->colour) dlsh_buf_puts(out, "\033[0m");
    } else {
        dlsh_buf_add(out, line.s, line.n);
    }
    if (p->done) dlsh_buf_puts(out, "\n");
    m->open = look->live && !p->done;
    if (p->done) m->started = 0;
    dlsh_buf_free(&line);
}
