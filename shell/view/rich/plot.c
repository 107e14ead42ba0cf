/* Running gnuplot on a script with the data inside, its output and its complaints read back. */
#include "view/rich/plot.h"

#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lang/session.h"
#include "view/braille.h"
#include "view/rich/html.h"

extern char **environ;

/* A string of gnuplot in single quotes, where nothing but the quote is special: no substitution of commands, macros or
 * escapes. Names of files never get there: gnuplot writes to its standard output, and we to the file. */
static void put_quoted(dlsh_buf *b, const char *s) {
    DLSH_SCOPED_BUF seen = {0};
    dlsh_buf_puts_visible(&seen, s);
    dlsh_buf_puts(b, "'");
    for (size_t i = 0; i < seen.n; i++) {
        if (seen.s[i] == '\n')
            dlsh_buf_puts(b, " ");
        else if (seen.s[i] == '\'')
            dlsh_buf_puts(b, "''");
        else
            dlsh_buf_add(b, seen.s + i, 1);
    }
    dlsh_buf_puts(b, "'");
}

static const struct {
    const char *format, *terminal;
} terminals[] = {{"png", "pngcairo size 960,600 noenhanced"},
                 {"svg", "svg size 960,600 dynamic noenhanced background 'white'"},
                 {"txt", "dumb size 100,30 noenhanced"}};

/* For the format that the name of a file asks for; NULL: refused. */
static const char *terminal_of(const char *file) {
    const char *format = dl_format_for(file, DL_HOLDS_PLOT);
    for (size_t i = 0; format && i < DLSH_COUNT(terminals); i++)
        if (!strcmp(format, terminals[i].format)) return terminals[i].terminal;
    return NULL;
}

static void put_terminal(dlsh_buf *b, const dlsh_look *look) {
    int width = look->width > 20 ? look->width - 1 : 79, height = width / 3;
    height = height > 30 ? 30 : height < 18 ? 18 : height; /* fewer rows have no room for the numbers of an axis */
    /* gnuplot 6 draws with braille dots */
    if (look->unicode)
        dlsh_buf_printf(b, "if (GPVAL_VERSION >= 6) { set terminal block braille size %d,%d } else {\n", width, height);
    dlsh_buf_printf(b, "set terminal dumb size %d,%d noenhanced mono\n%s", width, height, look->unicode ? "}\n" : "");
}

/* A long curve is cut into PIECES; of each the first, the last and the extreme points are drawn, in their order. They
 * give the same picture as all points, in a file of bounded size. */
enum { LONG_CURVE = 5000, PIECES = 1000 };
enum { FIRST, LAST, LOW, HIGH, LEFT, RIGHT, SHOWN };

static double curve_x(const dlsh_curve *c, long k) { return c->x ? c->x[k] : (double)k; }

static int has_point(const dlsh_curve *c, long k) { return isfinite(c->y[k]) && isfinite(curve_x(c, k)); }

static void put_point(dlsh_buf *b, const dlsh_curve *c, long k) {
    if (has_point(c, k))
        dlsh_buf_printf(b, "%.9g %.9g\n", curve_x(c, k), c->y[k]);
    else
        dlsh_buf_puts(b, "\n"); /* a gap in the line */
}

/* The points of a piece that are shown; returns 0 when it has none. */
static int choose_points(const dlsh_curve *c, long from, long to, long at[SHOWN]) {
    while (from < to && !has_point(c, from)) from++;
    for (int i = 0; i < SHOWN; i++) at[i] = from;
    for (long k = from; k < to; k++) {
        if (!has_point(c, k)) continue;
        at[LAST] = k;
        if (c->y[k] < c->y[at[LOW]]) at[LOW] = k;
        if (c->y[k] > c->y[at[HIGH]]) at[HIGH] = k;
        if (curve_x(c, k) < curve_x(c, at[LEFT])) at[LEFT] = k;
        if (curve_x(c, k) > curve_x(c, at[RIGHT])) at[RIGHT] = k;
    }
    return from < to;
}

static int by_number(const void *a, const void *b) {
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

static void put_piece(dlsh_buf *b, const dlsh_curve *c, long from, long to) {
    long at[SHOWN];
    if (!choose_points(c, from, to, at)) {
        dlsh_buf_puts(b, "\n");
        return;
    }
    qsort(at, SHOWN, sizeof *at, by_number);
    for (int i = 0; i < SHOWN; i++)
        if (!i || at[i] != at[i - 1]) put_point(b, c, at[i]);
}

static int is_drawn(const dlsh_plot *p, const dlsh_curve *c, long k) {
    return k >= 0 && k < c->n && has_point(c, k) && (!p->logy || c->y[k] > 0) && (!p->logx || curve_x(c, k) > 0);
}

/* Points without neighbours are not a line: they become dots. Returns whether there are any. */
static int put_dots(dlsh_buf *b, const dlsh_plot *p, int i) {
    const dlsh_curve *c = &p->curves[i];
    int any = 0;
    for (long k = 0; k < c->n && c->n <= LONG_CURVE && !p->bars; k++) {
        if (!is_drawn(p, c, k) || is_drawn(p, c, k - 1) || is_drawn(p, c, k + 1)) continue;
        if (!any++) dlsh_buf_printf(b, "$dot%d << EOD\n", i);
        put_point(b, c, k);
    }
    if (any) dlsh_buf_puts(b, "EOD\n");
    return any;
}

static void put_data(dlsh_buf *b, const dlsh_plot *p) {
    for (int i = 0; i < p->ncurves; i++) {
        const dlsh_curve *c = &p->curves[i];
        dlsh_buf_printf(b, "$d%d << EOD\n", i);
        if (c->n > LONG_CURVE && !p->bars)
            for (long k = 0; k < PIECES; k++) put_piece(b, c, c->n * k / PIECES, c->n * (k + 1) / PIECES);
        else
            for (long k = 0; k < c->n; k++) put_point(b, c, k);
        dlsh_buf_puts(b, "EOD\n");
        if (c->low) dlsh_buf_printf(b, "$b%d << EOD\n", i);
        for (long k = 0; c->low && k < c->n; k++)
            if (is_drawn(p, c, k)) dlsh_buf_printf(b, "%.9g %.9g %.9g\n", curve_x(c, k), c->low[k], c->high[k]);
        if (c->low) dlsh_buf_puts(b, "EOD\n");
    }
}

static const char round_dots[] = "set for [i=1:16] linetype i pt 7\nset pointsize 0.5\n";

/* No background and colours that are readable on white and on black: the theme of the notebook is not known. */
static void put_notebook_terminal(dlsh_buf *b) {
    static const char *const colours[] = {DLSH_BLUE, DLSH_ORANGE, DLSH_GREEN, DLSH_RED, "#a06cc8", "#2fa5a5"};
    enum { N = DLSH_COUNT(colours) };
    dlsh_buf_puts(b, "set terminal svg size 680,360 fixed noenhanced font 'sans-serif,12' butt\n"
                     "set border 3 lc rgb '" DLSH_GREY "'\nset xtics nomirror\nset ytics nomirror\n"
                     "set tics textcolor rgb '" DLSH_GREY "'\nset key textcolor rgb '" DLSH_GREY "'\n"
                     "set grid lc rgb '" DLSH_GREY "' lw 0.4 dt 3\n");
    for (int i = 0; i < 16; i++)
        dlsh_buf_printf(b, "set linetype %d lc rgb '%s' lw 1.8%s\n", i + 1, colours[i % N], i < N ? "" : " dt 2");
    dlsh_buf_puts(b, round_dots);
}

static void put_labels(dlsh_buf *b, const dlsh_plot *p, const char *colour) {
    struct {
        const char *what, *text;
    } labels[] = {{"title", p->title}, {"xlabel", p->xlabel}, {"ylabel", p->ylabel}};
    for (int i = 0; i < 3; i++) {
        if (!labels[i].text || !*labels[i].text) continue;
        dlsh_buf_printf(b, "set %s ", labels[i].what);
        put_quoted(b, labels[i].text);
        dlsh_buf_printf(b, "%s\n", colour);
    }
}

/* The range of an axis with one value only, for which gnuplot would warn and choose a narrow one. */
static void put_range(dlsh_buf *b, const dlsh_plot *p, char axis) {
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < p->ncurves; i++)
        for (long k = 0; k < p->curves[i].n; k++) {
            const dlsh_curve *c = &p->curves[i];
            if (!is_drawn(p, c, k)) continue;
            double v = axis == 'x' ? curve_x(c, k) : c->y[k];
            low = fmin(low, v), high = fmax(high, v);
        }
    double room = low == 0 ? 1 : fabs(low) / 2;
    if (low == high) dlsh_buf_printf(b, "set %crange [%.9g:%.9g]\n", axis, low - room, high + room);
}

/* Everything after the choice of the terminal. */
static void put_script(dlsh_buf *b, const dlsh_plot *p) {
    if (!p->bars) put_range(b, p, 'x'), put_range(b, p, 'y');
    if (p->logy) dlsh_buf_puts(b, "set logscale y\nset format y '%g'\n");
    if (p->logx) dlsh_buf_puts(b, "set logscale x\nset format x '%g'\n");
    dlsh_buf_puts(b, p->bars ? "set style fill solid 0.6\nset boxwidth 0.9 relative\n" : "");
    const dlsh_curve *c = p->curves;
    if (p->bars && c->n > 1) {
        double first = c->x ? c->x[0] : 0, last = c->x ? c->x[c->n - 1] : (double)(c->n - 1);
        double half = (last - first) / (double)(c->n - 1) / 2;
        dlsh_buf_printf(b, "set xrange [%.9g:%.9g]\n", first - half, last + half);
    }
    put_data(b, p);
    DLSH_SCOPED_BUF command = {0};
    for (int i = 0; i < p->ncurves; i++) {
        const char *with = p->bars ? "boxes" : p->curves[i].n == 1 || p->curves[i].points ? "points" : "lines";
        dlsh_buf_puts(&command, i ? ", " : "plot ");
        if (p->curves[i].low)
            dlsh_buf_printf(&command, "$b%d using 1:2:3 with filledcurves lt %d fill transparent solid 0.2 notitle, ",
                            i, i + 1);
        dlsh_buf_printf(&command, "$d%d using 1:2 with %s lt %d title ", i, with, i + 1);
        put_quoted(&command, p->curves[i].label ? p->curves[i].label : "");
        if (p->curves[i].n > 1 && !p->curves[i].points && put_dots(b, p, i))
            dlsh_buf_printf(&command, ", $dot%d using 1:2 with points lt %d notitle", i, i + 1);
    }
    dlsh_buf_puts(b, dlsh_buf_text(&command));
    dlsh_buf_puts(b, "\n");
}

/* Starts gnuplot with its own settings alone: script as its input, a pipe for what it draws, a file for what it
 * complains of. Returns 0 or an errno. */
static int start(FILE *script, FILE *complaints, int *from, pid_t *pid) {
    int ends[2];
    if (pipe(ends)) return errno;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(script), 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, fileno(complaints), 2);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    char *argv[] = {"gnuplot", "-d", "-", NULL};
    int failed = posix_spawnp(pid, "gnuplot", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (failed)
        close(ends[0]);
    else
        *from = ends[0];
    return failed;
}

static void read_all(int from, dlsh_buf *out) {
    char chunk[4096];
    ssize_t got;
    while ((got = read(from, chunk, sizeof chunk)) > 0 || (got < 0 && errno == EINTR))
        if (got > 0) dlsh_buf_add(out, chunk, (size_t)got);
    close(from);
}

/* The first of what gnuplot complained of. */
static dl_status complain(FILE *complaints) {
    char text[300];
    rewind(complaints);
    text[fread(text, 1, sizeof text - 1, complaints)] = 0;
    return dlsh_fail(DL_ERR_IO, NULL, "gnuplot failed: %s", text);
}

static dl_status draw(FILE *script, FILE *complaints, dlsh_buf *out) {
    int from = -1, status = 0;
    pid_t pid;
    int failed = start(script, complaints, &from, &pid);
    if (failed == ENOENT)
        return dlsh_fail(DL_ERR_UNSUPPORTED, "install it (Debian: apt install gnuplot-nox), or export the values",
                         "plots are drawn by gnuplot, which is not installed");
    if (failed) return dlsh_fail(DL_ERR_IO, NULL, "cannot start gnuplot: %s", strerror(failed));
    read_all(from, out);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (!WIFEXITED(status) || WEXITSTATUS(status)) return complain(complaints);
    return out->failed ? DL_ERR_MEMORY : DL_OK;
}

static dl_status run_gnuplot(const char *script, size_t n, dlsh_buf *out) {
    DLSH_ENDED(fclose) FILE *f = tmpfile(), *complaints = tmpfile();
    if (!f || !complaints || fwrite(script, 1, n, f) != n || fflush(f) || fseek(f, 0, SEEK_SET))
        return dlsh_fail(DL_ERR_IO, "is the disk of /tmp full?", "cannot write gnuplot's script to a temporary file");
    return draw(f, complaints, out);
}

/* Says in the picture "plot of loss over step: 1 first, 300 points from 2.31 to 0.12; ...". */
static void describe(dlsh_buf *svg, const dlsh_plot *p) {
    dlsh_buf text = {0}, *b = &text;
    const char *what = p->title && *p->title ? p->title : p->ylabel && *p->ylabel ? p->ylabel : "values";
    dlsh_buf_printf(b, "%s of %s", p->bars ? "histogram" : "plot", what);
    if (p->xlabel && *p->xlabel) dlsh_buf_printf(b, " over %s", p->xlabel);
    for (int i = 0; i < p->ncurves; i++) {
        const dlsh_curve *c = &p->curves[i];
        dlsh_buf_puts(b, i ? "; " : ": ");
        if (c->label && *c->label) dlsh_buf_printf(b, "%s, ", c->label);
        dlsh_buf_printf(b, "%ld %s", c->n, p->bars ? "bars" : c->n == 1 ? "point" : "points");
        if (c->n && p->bars)
            dlsh_buf_printf(b, " between %.4g and %.4g", curve_x(c, 0), curve_x(c, c->n - 1));
        else if (c->n)
            dlsh_buf_printf(b, " from %.4g to %.4g", c->y[0], c->y[c->n - 1]);
    }
    dlsh_svg_describe(svg, dlsh_buf_text(b));
    dlsh_buf_free(b);
}

static dl_status draw_file(const dlsh_plot *p) {
    const char *terminal = terminal_of(p->file);
    if (!terminal) return dl_failed();
    DLSH_SCOPED_BUF script = {0}, picture = {0};
    dlsh_buf_printf(&script, "set terminal %s\n", terminal);
    put_labels(&script, p, "");
    dlsh_buf_puts(&script, "set grid\n");
    dlsh_buf_puts(&script, round_dots);
    put_script(&script, p);
    DLSH_TRY(run_gnuplot(dlsh_buf_text(&script), script.n, &picture));
    if (!strncmp(terminal, "svg", 3)) describe(&picture, p);
    return dlsh_buf_write(&picture, p->file);
}

/* Leaves out the blanks at the ends of lines and the empty lines around the picture, which the dumb terminal puts
 * there. */
static void put_trimmed(dlsh_buf *out, const char *s, size_t n) {
    int empty = 0, any = 0;
    for (size_t i = 0; i < n;) {
        size_t len = strcspn(s + i, "\n"), text = len;
        const char *line = s + i;
        if (*line == '\f') {
            line++;
            text--;
        }
        while (text && line[text - 1] == ' ') text--;
        for (; text && any && empty; empty--) dlsh_buf_puts(out, "\n");
        if (text) {
            dlsh_buf_add(out, line, text);
            dlsh_buf_puts(out, "\n");
            any = 1;
            empty = 0;
        } else {
            empty++;
        }
        i += len + 1;
    }
}

static dl_status any_point(const dlsh_plot *p) {
    for (int i = 0; i < p->ncurves; i++)
        for (long k = 0; k < p->curves[i].n; k++)
            if (is_drawn(p, &p->curves[i], k)) return DL_OK;
    return dlsh_fail(DL_ERR_VALUE, NULL, "nothing to plot: no finite%s value", p->logy || p->logx ? " positive" : "");
}

dl_status dlsh_plot_svg(const dlsh_plot *p, dlsh_buf *out) {
    DLSH_TRY(any_point(p));
    DLSH_SCOPED_BUF script = {0};
    put_notebook_terminal(&script);
    put_labels(&script, p, " textcolor rgb '" DLSH_GREY "'");
    int key = 0;
    for (int i = 0; i < p->ncurves; i++) key += p->curves[i].label && *p->curves[i].label;
    dlsh_buf_puts(&script, !key       ? "unset key\n"
                           : key == 1 ? "set key above\n"
                                      : "set key outside right top vertical Left reverse samplen 2\n");
    put_script(&script, p);
    DLSH_SCOPED_BUF drawn = {0};
    dl_status status = run_gnuplot(dlsh_buf_text(&script), script.n, &drawn);
    /* without the declaration, so that it can stand inside another document */
    const char *from = status ? NULL : strstr(dlsh_buf_text(&drawn), "<svg");
    if (from) {
        dlsh_buf_puts(out, from);
        describe(out, p);
    } else if (!status)
        status = dlsh_fail(DL_ERR_IO, NULL, "gnuplot drew no SVG: %.200s", dlsh_buf_text(&drawn));
    return status;
}

dl_status dlsh_plot_draw(const dlsh_plot *p, const dlsh_look *look, dlsh_buf *out) {
    DLSH_TRY(any_point(p));
    if (p->file) return draw_file(p);
    if (look->unicode && !p->bars) {
        dlsh_plot_braille(p, look, out);
        return DL_OK;
    }
    DLSH_SCOPED_BUF script = {0};
    dlsh_plot narrow = *p;
    if (!p->bars) narrow.ylabel = NULL;
    put_terminal(&script, look);
    put_labels(&script, &narrow, "");
    dlsh_buf_puts(
        &script,
        "set key above width 2 samplen 3\n"); /* text has no room for a key inside, nor for a name at the left */
    put_script(&script, p);
    DLSH_SCOPED_BUF picture = {0};
    DLSH_TRY(run_gnuplot(dlsh_buf_text(&script), script.n, &picture));
    put_trimmed(out, dlsh_buf_text(&picture), picture.n);
    return DL_OK;
}
