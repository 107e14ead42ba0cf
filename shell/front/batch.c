/* Scripts without a terminal: the code of -c, a file, or what stands in standard input. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/context.h"
#include "front/front.h"
#include "lang/parse/parse.h"
#include "view/console.h"

char *dlsh_slurp(const char *path, size_t *len) {
    FILE *f = strcmp(path, "-") ? dlsh_script_open(path) : stdin;
    char *text = NULL;
    size_t cap = 0, n = 0, got;
    int failed = !f;
    while (!failed) {
        if (n > DLSH_LONGEST_SCRIPT) {
            failed = 1, errno = EFBIG;
            break;
        }
        if (n + 4096 > cap) {
            cap = cap ? 2 * cap : 16384;
            char *grown = realloc(text, cap);
            failed = !grown;
            if (failed) break;
            text = grown;
        }
        got = fread(text + n, 1, cap - n - 1, f);
        n += got;
        if (!got) {
            failed = ferror(f);
            break;
        }
    }
    if (failed) {
        char hint[240];
        int err = errno;
        dl_file_remedy(path, err, hint, sizeof hint);
        if (err == EFBIG) snprintf(hint, sizeof hint, "a script is a text");
        dlsh_console_say("cannot read \"%s\": %s%s%s", path, strerror(err), *hint ? "; " : "", hint);
        free(text);
        text = NULL;
    } else {
        text[n] = 0;
        *len = n;
    }
    if (f && f != stdin) fclose(f);
    return text;
}

/* What ended the session, with its place: "train.dlsh:12:5: ...". */
static void end_by(const dlsh_diag *d, dl_status status) {
    DLSH_SCOPED_BUF text = {0};
    if (d && d->line) dlsh_buf_printf(&text, "%s:%d:%d: ", d->file, d->line, d->col);
    dlsh_buf_printf(&text, "%s", d ? d->message : dl_status_name(status));
    dlsh_end_by(dlsh_buf_text(&text));
}

int dlsh_run_text(dlsh_session *s, const char *name, const char *text, size_t len) {
    dlsh_signals_reset();
    dl_status status = dlsh_run(s, name, text, len, NULL);
    int code = DLSH_EXIT_OK;
    if (status) {
        const dlsh_diag *d = dlsh_error_diag(s);
        int interrupted = status == DL_ERR_INTERRUPT;
        end_by(d, status);
        dlsh_report_error(s);
        return interrupted ? DLSH_EXIT_INTERRUPTED : DLSH_EXIT_ERROR;
    }
    dlsh_exiting(s, &code);
    return code;
}

static dl_status remember(const dlsh_options *o, const char *path, const char *text) {
    DLSH_SCOPED_BUF args = {0};
    for (int i = 0; i < o->nwords; i++) dlsh_buf_printf(&args, "%s%s", i ? " " : "", o->words[i]);
    dlsh_origin origin = {path, text, dlsh_buf_text(&args)};
    return dlsh_origin_set(&origin);
}

/* The script's `args` statement, as offsets into its text; 0 when it has none. A script that does not parse counts as
 * one that has: running it tells what is wrong. */
static int find_args(dlsh_session *s, const char *text, size_t len, size_t *from, size_t *to) {
    dlsh_syntax_error err;
    dlsh_unit *u = dlsh_unit_new("", text, len);
    int found = u && dlsh_parse(u, dlsh_command_finder(), s, &err);
    *from = 0;
    *to = len;
    for (int i = 0; u && !found && i < u->root->nkids; i++) {
        const dlsh_node *n = u->root->kids[i];
        if (n->kind != DLSH_N_COMMAND || strcmp(n->num.cmd->name, "args")) continue;
        *from = (size_t)n->span.start;
        *to = (size_t)n->span.end;
        found = 1;
    }
    dlsh_unit_drop(u);
    return found;
}

/* With arguments on the command line, or --help, the script must declare some. For --help the text is cut to the
 * declaration, so that nothing else runs. */
static int check_args(dlsh_session *s, const dlsh_options *o, const char *name, char *text, size_t *len) {
    size_t from, to;
    if (!o->nwords && !o->script_help) return DLSH_EXIT_OK;
    if (!find_args(s, text, *len, &from, &to)) {
        if (o->script_help)
            printf("%s declares no arguments\n", name);
        else
            dlsh_console_say("%s declares no arguments, got %s; write args NAME=DEFAULT at its top", name, o->words[0]);
        return o->script_help ? -1 : DLSH_EXIT_USAGE;
    }
    if (o->script_help) {
        memmove(text, text + from, to - from);
        *len = to - from;
        text[*len] = 0;
    }
    return DLSH_EXIT_OK;
}

/* The words behind `dlsh sweep` as a statement; the first is a script's name or a word of the command. */
static int run_sweep(dlsh_session *s, const dlsh_options *o) {
    DLSH_SCOPED_BUF text = {0};
    dlsh_buf_puts(&text, "sweep");
    for (int i = 0; i < o->nwords; i++) {
        dlsh_buf_puts(&text, " ");
        if (strchr(o->words[i], '='))
            dlsh_buf_puts(&text, o->words[i]);
        else
            dlsh_buf_quote(&text, o->words[i], strlen(o->words[i]));
    }
    return dlsh_run_text(s, "<sweep>", dlsh_buf_text(&text), text.n);
}

int dlsh_batch(dlsh_session *s, const dlsh_options *o) {
    if (o->sweep) return run_sweep(s, o);
    size_t len;
    const char *path = o->script ? o->script : "-";
    DLSH_FREED char *text = o->code ? strdup(o->code) : dlsh_slurp(path, &len);
    if (!text) return DLSH_EXIT_USAGE;
    if (o->code) len = strlen(text);
    const char *name = o->code ? "<c>" : strcmp(path, "-") ? path : "<stdin>";
    if (remember(o, o->script ? path : "", text)) {
        dlsh_console_say("%s", dl_errmsg());
        return DLSH_EXIT_ERROR;
    }
    int code = check_args(s, o, name, text, &len);
    if (!code) {
        code = dlsh_run_text(s, name, text, len);
        if (o->keep_going || o->interactive) dlsh_end_by(NULL); /* it did not end the session */
        if (code == DLSH_EXIT_ERROR && dlsh_script_args_get()->wrong) code = DLSH_EXIT_USAGE;
    }
    return code < 0 ? DLSH_EXIT_OK : code;
}
