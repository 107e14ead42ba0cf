/* `lesson`: shows prose, runs code statement by statement, and lets the learner answer and try things. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "commands/context.h"
#include "debug/debug.h"
#include "debug/learn/learn.h"
#include "view/sink.h"
#include "view/text.h"

enum { COLUMNS = 88 };

/* ---------------------------------------------------------------- progress
 * A line for each lesson that came to its end: number, answers that were right, answers, time. The last one counts. */

typedef struct progress {
    long right, asked, when; /* when: seconds; 0 never */
} progress;

static progress read_progress(long number) {
    progress found = {0}, p;
    char line[120];
    DLSH_FREED char *path = dlsh_state_file("lessons");
    DLSH_ENDED(fclose) FILE *f = path ? fopen(path, "r") : NULL;
    long k;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "%ld %ld %ld %ld", &k, &p.right, &p.asked, &p.when) == 4 && k == number) found = p;
    return found;
}

/* A folder that cannot be written to only costs the list its last column. */
static void write_progress(long number, dlsh_score score) {
    char *path = dlsh_state_file("lessons"), line[120];
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    int n = snprintf(line, sizeof line, "%ld %ld %ld %ld\n", number, score.right, score.asked, (long)time(NULL));
    if (fd >= 0) {
        if (write(fd, line, (size_t)n) < n) line[0] = 0;
        close(fd);
    }
    free(path);
}

static dl_status list_lessons(const dlsh_args *a) {
    dlsh_table t =
        DLSH_TABLE({"lesson", 'r', ""}, {"about", 'l', ""}, {"answers right", 'r', ""}, {"finished", 'l', ""});
    const char *text;
    dl_status st = DL_OK;
    for (long i = 1; !st && (text = dlsh_lesson_text(i)); i++) {
        DLSH_SCOPED_BUF title = {0}, when = {0};
        dlsh_lesson_title(text, &title);
        progress p = read_progress(i);
        const char *about = strchr(dlsh_buf_text(&title), ':');
        if (p.when) dlsh_when(&when, p.when * 1000000);
        st = DLSH_TABLE_ROW(&t, dlsh_int(i), dlsh_string(about ? about + 2 : dlsh_buf_text(&title)),
                            p.asked ? dlsh_stringf("%ld of %ld", p.right, p.asked) : dlsh_none(),
                            p.when ? dlsh_buf_string(&when) : dlsh_none());
    }
    return dlsh_table_show(dlsh_arg_sink(a), &t, st, NULL);
}

/* ---------------------------------------------------------------- running */

typedef struct lesson {
    dlsh_session *session;
    dlsh_sink *sink;
    const char *text;
    char name[80];
    dlsh_look look;
    dlsh_value *former; /* of the first nformer globals when the lesson began; VOID: unset, or given back already */
    int nformer;
    int over; /* the learner left */
} lesson;

/* Formulas, which are indented, keep their lines. */
static void put_prose(lesson *l, const dlsh_lesson_part *p) {
    DLSH_SCOPED_BUF prose = {0}, wide = {0};
    int width = l->look.width > 0 && l->look.width < COLUMNS ? l->look.width : COLUMNS;
    dlsh_lesson_prose(p, &prose);
    char *s = prose.s + strspn(dlsh_buf_text(&prose), "# "); /* without the sign of the heading */
    for (char *line; (line = strsep(&s, "\n"));) {
        dlsh_buf_puts(&wide, wide.n ? "\n" : "");
        if (*line == ' ')
            dlsh_buf_puts(&wide, line);
        else
            dlsh_text_wrap(&wide, line, width, 0);
    }
    dlsh_put(l->sink, "\n%s\n\n", dlsh_buf_text(&wide));
}

/* A statement of the lesson, with the line that it has there. */
static dl_status run_statement(lesson *l, int line, const char *s, size_t n) {
    DLSH_SCOPED_BUF text = {0};
    for (int i = 1; i < line; i++) dlsh_buf_puts(&text, "\n");
    dlsh_buf_add(&text, s, n);
    dlsh_put(l->sink, "> %.*s\n", (int)n, s);
    dlsh_predicted.left = 0;
    dl_status st = dlsh_run(l->session, l->name, dlsh_buf_text(&text), text.n, NULL);
    l->over |= dlsh_predicted.left;
    return st;
}

static dl_status run_code(lesson *l, const dlsh_lesson_part *p) {
    int line = p->line;
    for (const char *s = p->text, *end = p->text + p->n; s < end && !l->over;) {
        size_t n = 0, room = (size_t)(end - s);
        int first = line;
        do { /* lines, until they are whole */
            n += strcspn(s + n, "\n");
            if (n >= room) n = room;
            line++;
        } while (n < room && dlsh_is_complete(l->session, s, n) == DLSH_INCOMPLETE && ++n);
        DLSH_TRY(run_statement(l, first, s, n));
        s += n + (n < room);
    }
    return DL_OK;
}

/* Between two parts the learner may try statements; an empty line goes on. */
static dl_status pause_here(lesson *l) {
    while (l->look.live || l->look.rich) {
        DLSH_SCOPED_BUF line = {0};
        if (dlsh_debug_ask(l->sink, "[Enter goes on, q leaves, or try a statement] ", &line)) {
            if (dlsh_interrupted()) return dl_failed();
            l->over = dl_failed() != DL_ERR_UNSUPPORTED; /* the input ended; else nobody can be asked */
            l->look.live = l->look.rich = 0;
            dl_error_clear();
            return DL_OK;
        }
        const char *s = dlsh_buf_text(&line);
        if (!*s) return DL_OK;
        if (!strcmp(s, "skip")) return DL_OK;
        l->over = dlsh_is_leaving(s);
        if (l->over) return DL_OK;
        if (dlsh_run(l->session, "<try>", s, line.n, NULL)) {
            if (dlsh_interrupted()) return dl_failed();
            dlsh_warn_failure(l->session);
        }
    }
    return DL_OK;
}

static dl_status run_parts(lesson *l) {
    dlsh_lesson_part p, next;
    size_t at = 0;
    int line = 1;
    dl_status st = DL_OK;
    for (int more = dlsh_lesson_next(l->text, &at, &line, &p); !st && more && !l->over; p = next) {
        if (p.prose)
            put_prose(l, &p);
        else
            st = run_code(l, &p);
        more = dlsh_lesson_next(l->text, &at, &line, &next);
        if (!st && more && !p.prose && !l->over) st = pause_here(l);
    }
    return st;
}

/* ---------------------------------------------------------------- variables of the session */

static dl_status keep_variables(lesson *l) {
    int n = dlsh_global_count(l->session);
    l->former = calloc((size_t)n + 1, sizeof *l->former);
    if (!l->former) return dlsh_no_memory("the variables before a lesson");
    for (l->nformer = 0; l->nformer < n; l->nformer++) {
        const dlsh_value *v;
        dlsh_global_at(l->session, l->nformer, &v);
        l->former[l->nformer] = v ? dlsh_ref(*v) : dlsh_void();
    }
    return DL_OK;
}

/* What had a value before the lesson gets it back. */
static void restore_variables(lesson *l) {
    for (int i = 0; i < l->nformer; i++) {
        const dlsh_value *v;
        const char *name = dlsh_global_at(l->session, i, &v);
        if (l->former[i].type == DLSH_VOID)
            continue;
        else if (dlsh_set(l->session, name, l->former[i]))
            dl_error_clear();
    }
    free(l->former);
}

/* ---------------------------------------------------------------- the command */

static dl_status attend(const dlsh_args *a, lesson *l, long number) {
    dlsh_score before = dlsh_predicted;
    l->session = dlsh_arg_session(a);
    l->sink = dlsh_arg_sink(a);
    l->look = dlsh_sink_look(l->sink);
    int recording = dl_recording_get();
    dl_status st = keep_variables(l);
    if (!st) st = run_parts(l);
    restore_variables(l);
    dl_recording_set(recording);
    if (!recording) dl_recording_clear();
    dlsh_score score = {dlsh_predicted.asked - before.asked, dlsh_predicted.right - before.right, 0};
    if (!st && l->over) dlsh_put(l->sink, "left before its end\n");
    if (st || l->over) return st;
    if (score.asked) dlsh_put(l->sink, "\n%ld of %ld answers were right\n", score.right, score.asked);
    if (number && score.asked) write_progress(number, score);
    return DL_OK;
}

static dl_status lesson_run(const dlsh_args *a) {
    static int running;
    const char *which = dlsh_arg_str(a, "which");
    DLSH_SCOPED_BUF file = {0};
    lesson l = {0};
    if (!which) return list_lessons(a);
    char *end;
    long number = strtol(which, &end, 10);
    if (*end) number = 0;
    if (!*end && !(l.text = dlsh_lesson_text(number)))
        return dlsh_arg_fail(a, "which", DL_ERR_VALUE, "`lesson` lists them", "there is no lesson %s", which);
    if (*end) DLSH_TRY(dlsh_script_text(a, "which", &file));
    if (!l.text) l.text = dlsh_buf_text(&file);
    snprintf(l.name, sizeof l.name, number ? "lesson %.60s" : "%.79s", which);
    if (dlsh_given(a, "out")) return dlsh_lesson_write(l.text, dlsh_arg_str(a, "out"));
    if (running) return dlsh_arg_fail(a, NULL, DL_ERR_STATE, "q leaves it", "a lesson runs already");
    running = 1;
    dl_status st = attend(a, &l, number);
    running = 0;
    return st;
}

const dlsh_command lesson_commands[] = {
    DLSH_ROW("lesson", DLSH_REPORT, lesson_run, "lesson [NUMBER | FILE] [out=FILE]",
             "Gives a lesson about gradients, or lists the lessons. A lesson shows prose, runs code and asks, as "
             "predict does, where hint, skip and q help; between its parts statements can be tried, and q leaves it. "
             "Variables that had a value before it get it "
             "back at the end. A lesson is a script whose comments at the beginning of lines are the prose, so a file "
             "of your own can be given, too. out= writes it as a script or, with a name in .ipynb, as a notebook.",
             DLSH_PARAMS(
                 {"which", DLSH_ARG_WORD, .flags = DLSH_OPTIONAL, .doc = "its number, or a file", .complete = "file"}),
             DLSH_OPTIONS({"out", DLSH_OPT_STRING, .doc = "write it to this file", .complete = "file"}),
             .examples = "lesson\nlesson 1\nlesson 5 out=\"linear.ipynb\""),
    {0}};
