/* The prompt: lines from readline by callbacks, so that Ctrl-C needs no longjmp; entries of several lines; history. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <readline/history.h>
#include <readline/readline.h>

#include "commands/context.h"
#include "commands/nets/nets.h"
#include "commands/settings.h"
#include "ffi/call/guard.h"
#include "front/question.h"
#include "front/front.h"
#include "view/console.h"
#include "view/text.h"

enum { HISTORY_MAX = 10000 };

static struct {
    dlsh_session *s;
    int editing;    /* by readline; not where the cursor cannot be moved: a dumb terminal, a pipe */
    dlsh_buf entry; /* the lines so far of the statement being typed */
    dlsh_buf typed; /* the same as it was typed, for the history: NAME? is `help NAME` in the entry */
    int number;     /* of the entry: <3> */
    char *line;     /* what readline handed over */
    int got, eof;
    int hint_shown;       /* about open brackets */
    const char *question; /* asked instead of the prompt */
    int offered;          /* to save what there is, after a crash */
    char *history;
} repl;

/* ---------------------------------------------------------------- history */

static void history_open(void) {
    using_history();
    stifle_history(HISTORY_MAX);
    /* time stamps divide the entries of several lines */
    history_comment_char = '#';
    history_write_timestamps = 1;
    repl.history = dlsh_state_file("history");
    if (!repl.history) return;
    if (read_history(repl.history) == ENOENT) {
        FILE *f = fopen(repl.history, "a");
        if (f) fclose(f);
    }
    chmod(repl.history, 0600);
}

/* Each entry is on disk at once, so that sessions side by side do not overwrite each other's. */
static void history_keep(const char *text) {
    if (strspn(text, " \t\n") == strlen(text)) return;
    HIST_ENTRY *last = history_length > 0 ? history_get(history_base + history_length - 1) : NULL;
    if (last && !strcmp(last->line, text)) return;
    add_history(text);
    if (repl.history) append_history(1, repl.history);
}

static void history_close(void) {
    if (repl.history) history_truncate_file(repl.history, HISTORY_MAX);
    free(repl.history);
    repl.history = NULL;
}

/* ---------------------------------------------------------------- reading a line */

static void on_line(char *line) {
    rl_callback_handler_remove();
    repl.got = 1;
    repl.eof = !line;
    repl.line = line;
}

static void on_eof(void) {
    repl.got = repl.eof = 1;
    repl.line = NULL;
}

static const char *prompt(char *buf, size_t size) {
    if (repl.question) return repl.question;
    dlsh_look look = dlsh_sink_look(dlsh_session_sink(repl.s));
    char number[32];
    int n = snprintf(number, sizeof number, dlsh_damaged(NULL) ? "<%d damaged>" : "<%d>", repl.number);
    if (repl.entry.n) snprintf(number, sizeof number, "%*s", n, "...");
    if (look.colour && repl.editing)
        snprintf(buf, size, "\001\033[32m\002%s\001\033[0m\002 ", number);
    else
        snprintf(buf, size, "%s ", number);
    return buf;
}

/* Discards the entry being typed. */
static void abandon(void) {
    if (repl.editing) {
        /* below the last line of what is shown, which may be an entry of several */
        rl_point = rl_end;
        rl_redisplay();
    }
    fputs(repl.editing || !isatty(STDIN_FILENO) ? "^C\n" : "\n", stdout); /* else the terminal has echoed it */
    fflush(stdout);
    if (repl.editing) { /* only now: it returns to the first column */
        rl_free_line_state();
        rl_callback_sigcleanup();
        rl_callback_handler_remove();
    }
    repl.entry.n = repl.typed.n = 0;
    dlsh_signals_reset();
}

/* Reports at once, above the prompt, that a thread which C code started has crashed while no statement ran. */
static void report_crash(void) {
    if (!repl.editing || !dlsh_guard_check()) return;
    rl_clear_visible_line();
    const dl_error *e = dl_error_last();
    dlsh_warn(repl.s, e->hint, "%s", e->message);
    dl_error_clear();
    rl_set_prompt(""); /* what was typed stays, below a new prompt */
    char text[64];
    rl_set_prompt(prompt(text, sizeof text));
    rl_on_new_line();
    rl_redisplay();
}

/* Waits for input. Returns 0 after Ctrl-C, which has given up the line, and -1 where nothing can be read. */
static int wait_for_input(void) {
    for (;;) {
        if (dlsh_signals_pressed()) {
            abandon();
            return 0;
        }
        struct pollfd p = {.fd = fileno(stdin), .events = POLLIN};
        int ready = poll(&p, 1, 250);
        if (ready < 0 && errno != EINTR) return -1;
        if (ready > 0) return 1;
        report_crash();
    }
}

static int edit_line(void) {
    char text[64];
    rl_callback_handler_install(prompt(text, sizeof text), on_line);
    while (!repl.got) {
        int ready = wait_for_input();
        if (ready <= 0) return ready != 0;
        rl_callback_read_char();
        if (!repl.got) report_crash();
    }
    return 1;
}

/* A line as the terminal edits it, or a pipe has it. */
static int plain_line(void) {
    char text[64];
    DLSH_SCOPED_BUF line = {0};
    fputs(prompt(text, sizeof text), stdout);
    fflush(stdout);
    for (int c = 0; c != '\n' && c != EOF;) {
        int ready = wait_for_input();
        if (ready <= 0) return ready != 0;
        c = getc(stdin); /* unbuffered: what follows may be read by input() */
        if (c != '\n' && c != EOF) dlsh_buf_add(&line, &(char){(char)c}, 1);
        if (c == EOF) clearerr(stdin);
        if (c == EOF && !line.n) on_eof();
    }
    if (!repl.got) {
        if (!isatty(STDIN_FILENO)) printf("%s\n", dlsh_buf_text(&line)); /* a transcript shows what was typed */
        repl.got = 1;
        repl.eof = 0;
        repl.line = strdup(dlsh_buf_text(&line));
    }
    return 1;
}

/* Waits for one line. Returns 0 after Ctrl-C. */
static int read_line(void) {
    repl.got = 0;
    return repl.editing ? edit_line() : plain_line();
}

/* Reads the answer to a question of a command that runs, such as a word of the debugger; answers have a history of
 * their own. */
static dl_status ask(const char *question, dlsh_buf *out) {
    static HISTORY_STATE answers;
    const dlsh_buf entry = repl.entry, typed = repl.typed;
    const char *former = repl.question;
    HISTORY_STATE *entries = history_get_history_state(), *now;
    history_set_history_state(&answers);
    repl.entry = repl.typed = (dlsh_buf){0};
    repl.question = question;
    repl.line = NULL;
    if (!dlsh_interrupted()) dlsh_signals_reset(); /* a Ctrl-C that has been dealt with */
    const int answered = read_line();
    dl_status st = DL_OK;
    if (!answered) {
        dl_interrupt_set(1);
        st = dlsh_fail(DL_ERR_INTERRUPT, NULL, "interrupted");
    } else if (!repl.line)
        st = dlsh_fail(DL_ERR_IO, NULL, "standard input is at its end");
    else {
        dlsh_buf_puts(out, repl.line);
        if (*repl.line) add_history(repl.line);
    }
    free(repl.line);
    if ((now = history_get_history_state())) answers = *now, free(now);
    if (entries) history_set_history_state(entries), free(entries);
    dlsh_buf_free(&repl.entry);
    dlsh_buf_free(&repl.typed);
    repl.entry = entry, repl.typed = typed, repl.question = former;
    repl.line = NULL, repl.eof = 0, repl.got = 1;
    return st;
}

/* ---------------------------------------------------------------- entries */

/* After a crash in C, once a session and only at a terminal: offers to save the objects into a new folder. Ctrl-C and
 * the end of input mean no. */
static void offer_rescue(void) {
    char folder[64], question[160], command[96];
    time_t t = time(NULL);
    struct tm tm;
    int n = dlsh_rescue_count(repl.s);
    if (repl.offered || !n || !isatty(STDIN_FILENO) || !dlsh_console_live()) return;
    repl.offered = 1;
    strftime(folder, sizeof folder, "rescue-%Y%m%d-%H%M%S", localtime_r(&t, &tm));
    snprintf(question, sizeof question, "save what there is (%d object%s) in %s now? [Y/n] ", n, n == 1 ? "" : "s",
             folder);
    repl.question = question;
    repl.line = NULL;
    int answered = read_line() && repl.line;
    repl.question = NULL;
    int yes = answered && (!*repl.line || *repl.line == 'y' || *repl.line == 'Y');
    if (answered) free(repl.line);
    repl.line = NULL;
    repl.eof = 0;
    if (!yes) {
        printf("nothing was saved; rescue FOLDER does it later\n");
        return;
    }
    snprintf(command, sizeof command, "rescue \"%s\"", folder);
    dlsh_run_text(repl.s, "<rescue>", command, strlen(command));
    dlsh_end_by(NULL);
}

static void run_entry(void) {
    char name[24];
    int damages = dlsh_damaged(NULL);
    snprintf(name, sizeof name, "<%d>", repl.number);
    double start = dl_seconds();
    dlsh_run_text(repl.s, name, dlsh_buf_text(&repl.entry), repl.entry.n);
    dlsh_end_by(NULL); /* an error at the prompt does not end the session */
    dlsh_signals_reset();
    dlsh_console_end_line();
    if (dlsh_timing) {
        DLSH_SCOPED_BUF b = {0};
        dlsh_duration(&b, dl_seconds() - start);
        printf("(%s)\n", dlsh_buf_text(&b));
    }
    repl.number++;
    if (dlsh_damaged(NULL) > damages) offer_rescue();
}

/* Takes the line just read; runs the entry when it is whole. */
static void take_line(void) {
    int blank = strspn(repl.line, " \t") == strlen(repl.line);
    if (blank && !repl.entry.n) {
        free(repl.line);
        return;
    }
    dlsh_put_line(&repl.entry, repl.line, strlen(repl.line));
    dlsh_buf_puts(&repl.typed, repl.line);
    free(repl.line);
    if (dlsh_is_complete(repl.s, dlsh_buf_text(&repl.entry), repl.entry.n) == DLSH_INCOMPLETE) {
        if (blank && !repl.hint_shown++)
            fputs("(a bracket, block or argument is still open; Ctrl-C gives up)\n", stdout);
        dlsh_buf_puts(&repl.entry, "\n");
        dlsh_buf_puts(&repl.typed, "\n");
        return;
    }
    if (!strncmp(dlsh_buf_text(&repl.entry), "#include", 8) || !strncmp(dlsh_buf_text(&repl.entry), "#define ", 8))
        fputs("(# begins a comment here; C stands in C { ... }, a header comes with extern \"lib\" header <name.h>;)\n",
              stdout);
    history_keep(dlsh_buf_text(&repl.typed));
    dlsh_buf_puts(&repl.entry, "\n");
    run_entry();
    repl.entry.n = repl.typed.n = 0;
}

static void banner(void) {
    char what[192];
    if (dl_device_describe(dlsh_default_device(), what, sizeof what)) snprintf(what, sizeof what, "%s", dl_errmsg());
    const char *db = dlsh_store_shown();
    DLSH_SCOPED_BUF b = {0}, shown = {0};
    dlsh_buf_printf(&b, "dlsh %s   device %s (%s)   runs in %s\nhelp tells more, Tab completes, Ctrl-D leaves.\n",
                    dl_version(), dl_device_name(dlsh_default_device()), what, strcmp(db, "none") ? db : "no database");
    dlsh_text_rewrap(&shown, dlsh_buf_text(&b), b.n, dlsh_sink_look(dlsh_session_sink(repl.s)).width);
    fputs(dlsh_buf_text(&shown), stdout);
}

/* End of input inside an entry: it is run as it stands, and the syntax error says what is missing. */
static void at_eof(void) {
    fputs("\n", stdout); /* the prompt stands there */
    if (!repl.entry.n) return;
    run_entry();
    repl.entry.n = repl.typed.n = 0;
}

int dlsh_repl(dlsh_session *s, const dlsh_options *o) {
    repl.s = s;
    repl.number = 1;
    repl.editing = isatty(STDIN_FILENO) && dlsh_console_live();
    if (!repl.editing) setvbuf(stdin, NULL, _IONBF, 0);
    if (repl.editing) dlsh_console_ask = ask;
    if (!o->quiet) banner();
    rl_readline_name = "dlsh";
    rl_catch_signals = 0; /* ours finishes training steps; readline's would not know */
    rl_catch_sigwinch = 1;
    rl_change_environment = 0;
    rl_variable_bind("enable-bracketed-paste", dlsh_console_live() ? "on" : "off");
    rl_variable_bind("blink-matching-paren", "on");
    rl_variable_bind("show-all-if-ambiguous", "on"); /* one Tab lists what fits; ~/.inputrc may say otherwise */
    dlsh_complete_setup(s, &repl.entry);
    history_open();
    int code = DLSH_EXIT_OK, end = 0;
    while (!end) {
        fflush(stdout);
        if (!read_line()) continue;
        if (repl.eof || !repl.got) {
            at_eof();
            break;
        }
        take_line();
        end = dlsh_exiting(s, &code);
    }
    dlsh_exiting(s, &code);
    dlsh_console_ask = NULL;
    history_close();
    dlsh_buf_free(&repl.entry);
    dlsh_buf_free(&repl.typed);
    return code;
}
