/* Options of the command line: one table, read for parsing and for --help. */
#include "front/options.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/session.h"
#include "view/console.h"

enum kind { FLAG, TEXT, ONCE /* a text that no second one replaces */, NUMBER };

static const struct option {
    char letter;
    enum kind kind;
    const char *name; /* with its dashes; NULL: only the letter */
    const char *arg, *choices, *doc;
    size_t at;
} options[] = {
    {'c', ONCE, NULL, "CODE", NULL, "run CODE and end", offsetof(dlsh_options, code)},
    {'i', FLAG, NULL, NULL, NULL, "go on at the prompt after the script or the code",
     offsetof(dlsh_options, interactive)},
    {'q', FLAG, NULL, NULL, NULL, "print no banner", offsetof(dlsh_options, quiet)},
    {'n', FLAG, NULL, NULL, NULL, "read no rc file", offsetof(dlsh_options, no_rc)},
    {'k', FLAG, NULL, NULL, NULL, "go on after an error; exit 1 at the end if there was one",
     offsetof(dlsh_options, keep_going)},
    {0, FLAG, "--echo", NULL, NULL, "print each statement, marked >, before it runs", offsetof(dlsh_options, echo)},
    {0, TEXT, "--db", "FILE", NULL,
     "the experiment database (experiments.db, or $DLSH_DB): a file, postgresql://..., or none",
     offsetof(dlsh_options, db)},
    {0, TEXT, "--device", "D", NULL, "cpu or cuda", offsetof(dlsh_options, device)},
    {0, NUMBER, "--seed", "N", NULL, "seed of the random numbers", offsetof(dlsh_options, seed)},
    {0, TEXT, "--mode", "MODE", "table|csv|json", "how values and tables are printed: table, csv or json",
     offsetof(dlsh_options, mode)},
    {0, FLAG, "--version", NULL, NULL, "print the version", offsetof(dlsh_options, version)},
    {'h', FLAG, "--help", NULL, NULL, "print this; after a script: list its arguments", offsetof(dlsh_options, help)},
};
enum { NOPTIONS = DLSH_COUNT(options) };

void dlsh_options_help(FILE *f) {
    fputs("usage: dlsh [options] [FILE.dlsh [name=value ...]]\n"
          "       dlsh [options] serve [RUN ...] [port=N] [where=CONDITION]\n"
          "       dlsh [options] sweep FILE.dlsh NAME=VALUES ... | show | worker ID | resume ID\n"
          "       dlsh kernel install [--user | --prefix P | --sys-prefix]\n\n"
          "Without a script: a prompt; or, when standard input is not a terminal, what stands there is run as a "
          "script.\n\n",
          f);
    for (int i = 0; i < NOPTIONS; i++) {
        const struct option *o = &options[i];
        char left[64] = "";
        if (o->letter) snprintf(left, sizeof left, "-%c%s", o->letter, o->name ? ", " : "");
        size_t n = strlen(left);
        snprintf(left + n, sizeof left - n, "%s%s%s", o->name ? o->name : "", o->arg ? " " : "", o->arg ? o->arg : "");
        fprintf(f, "  %-14s %s\n", left, o->doc);
    }
    fputs("\nExit status: 0 success, 1 an error in the script, 2 wrong usage or a file not found, 130 interrupted.\n"
          "dlsh -c help  lists what the shell knows.\n",
          f);
}

static int complain(const char *fmt, const char *a, const char *hint) {
    char what[512];
    snprintf(what, sizeof what, fmt, a);
    dlsh_console_say("%s; %s", what, hint ? hint : "dlsh --help lists the options");
    return 0;
}

/* How launchers and trainers of other kinds are asked for several processes. */
static int asks_for_processes(const char *word, size_t len) {
    return dlsh_has_word("-np|--np|-nproc|--nproc|--nprocs|--ntasks|--ranks|--nproc_per_node|--nproc-per-node|"
                         "--nnodes|--processes|--workers",
                         word, len);
}

/* No option is called word[0, len); as shown to people. */
static int unknown(const char *word, size_t len, const char *shown) {
    const char *names[NOPTIONS];
    int n = 0;
    for (int i = 0; i < NOPTIONS; i++)
        if (options[i].name) names[n++] = options[i].name;
    char name[64], hint[96];
    snprintf(name, sizeof name, "%.*s", (int)len, word);
    if (asks_for_processes(word, len))
        return complain("%s: several processes are not supported; one uses all cores, and one GPU", name,
                        "runs that do not depend on each other can be started side by side");
    const char *nearest = dlsh_nearest(name, names, n);
    if (nearest) snprintf(hint, sizeof hint, "did you mean %s?", nearest);
    return complain("there is no option %s", shown ? shown : name, nearest ? hint : NULL);
}

static int store(const struct option *o, const char *value, dlsh_options *out) {
    char shown[32];
    snprintf(shown, sizeof shown, "%s", o->name ? o->name : (char[]){'-', o->letter, 0});
    if (o->kind == FLAG) {
        *(int *)((char *)out + o->at) = 1;
        return 1;
    }
    if (!value) return complain("%s needs a value", shown, NULL);
    if (o->choices && !dlsh_has_word(o->choices, value, strlen(value))) {
        char hint[96];
        snprintf(hint, sizeof hint, "%s takes one of %s", shown, o->choices);
        return complain("\"%s\" is not a mode", value, hint);
    }
    if (o->kind == NUMBER) {
        char *end;
        errno = 0;
        strtoul(value, &end, 10);
        if (!*value || *value == '-' || *end || errno) {
            char hint[96];
            snprintf(hint, sizeof hint, "%s takes a whole number from 0 on", shown);
            return complain("\"%s\" is not a number", value, hint);
        }
    }
    const char **to = (const char **)((char *)out + o->at);
    if (o->kind == ONCE && *to)
        return complain("%s was given twice", shown, "statements stand in one text, separated by ; or new lines");
    *to = value;
    return 1;
}

/* "--name", "--name=value". Returns the words used, 0 on a mistake. */
static int read_long(int left, char **argv, dlsh_options *out) {
    size_t len = strcspn(argv[0], "=");
    const char *value = argv[0][len] ? argv[0] + len + 1 : NULL;
    for (int i = 0; i < NOPTIONS; i++) {
        const struct option *o = &options[i];
        if (!o->name || strlen(o->name) != len || memcmp(o->name, argv[0], len)) continue;
        if (o->kind == FLAG && value) return complain("%s takes no value", o->name, NULL);
        int next = o->kind != FLAG && !value;
        if (next && left > 1) value = argv[1];
        return store(o, value, out) ? 1 + next : 0;
    }
    return unknown(argv[0], len, NULL);
}

/* "-qn", "-c CODE", "-cCODE". Returns the words used, 0 on a mistake. */
static int read_letters(int left, char **argv, dlsh_options *out) {
    if (asks_for_processes(argv[0], strlen(argv[0]))) return unknown(argv[0], strlen(argv[0]), NULL);
    for (const char *p = argv[0] + 1; *p; p++) {
        const struct option *o = NULL;
        for (int i = 0; i < NOPTIONS; i++)
            if (options[i].letter == *p) o = &options[i];
        if (!o) {
            char name[3] = {'-', *p, 0};
            /* -echo, -version: one dash too few */
            char twice[64];
            snprintf(twice, sizeof twice, "-%s", argv[0]);
            for (int i = 0; i < NOPTIONS; i++)
                if (options[i].name && !strncmp(options[i].name, twice, strcspn(twice, "=")))
                    return unknown(twice, strlen(twice), argv[0]);
            return unknown(name, 2, NULL);
        }
        if (o->kind == FLAG) {
            store(o, NULL, out);
            continue;
        }
        if (p[1]) return store(o, p + 1, out);
        return store(o, left > 1 ? argv[1] : NULL, out) ? 2 : 0;
    }
    return 1;
}

static int is_help(const char *word) { return !strcmp(word, "--help") || !strcmp(word, "-h"); }

static int read_words(int n, char **words, dlsh_options *out) {
    out->words = words;
    for (int i = 0; i < n; i++) {
        const char *eq = strchr(words[i], '=');
        if (is_help(words[i])) {
            out->script_help = 1;
        } else if (!eq || eq == words[i]) {
            return complain("\"%s\" is not an argument of a script", words[i],
                            *words[i] == '-' ? "options of dlsh stand before the script's name"
                                             : "write name=value, without blanks around the =");
        } else {
            words[out->nwords++] = words[i];
        }
    }
    return 1;
}

/* `dlsh serve port=8080 where="lr < 0.1"` as a statement: values that are not numbers in quotes. It lives as long as
 * the program. */
static const char *statement_of(const char *command, int n, char **words) {
    static dlsh_buf text;
    dlsh_buf_puts(&text, command);
    for (int i = 0; i < n; i++) {
        size_t key = strcspn(words[i], "=");
        const char *value = words[i] + key + (words[i][key] != 0);
        dlsh_buf_printf(&text, " %.*s%s", words[i][key] ? (int)key : 0, words[i], words[i][key] ? "=" : "");
        if (!words[i][key]) value = words[i];
        if (value[strspn(value, "0123456789")])
            dlsh_buf_quote(&text, value, strlen(value));
        else
            dlsh_buf_puts(&text, value);
    }
    return dlsh_buf_text(&text);
}

/* `dlsh sweep --help`; behind a script the words are the script's: dlsh sweep FILE --help is an error of `sweep`. */
static int asks_for_help(int n, char **words) { return n == 1 && is_help(words[0]); }

int dlsh_options_read(int argc, char **argv, dlsh_options *out) {
    *out = (dlsh_options){0};
    int i = 1;
    while (i < argc && argv[i][0] == '-' && argv[i][1]) {
        if (!strcmp(argv[i], "--")) {
            i++;
            break;
        }
        int used = argv[i][1] == '-' ? read_long(argc - i, argv + i, out) : read_letters(argc - i, argv + i, out);
        if (!used) return 0;
        i += used;
    }
    if (i < argc && !out->code) out->script = argv[i++];
    if (out->script && !strcmp(out->script, "kernel")) { /* ./kernel runs a script of that name */
        out->script = NULL;
        out->kernel = 1;
        out->nwords = argc - i;
        out->words = argv + i;
        return 1;
    }
    if (out->script && asks_for_help(argc - i, argv + i)) {
        out->code = !strcmp(out->script, "serve") ? "help serve" : !strcmp(out->script, "sweep") ? "help sweep" : NULL;
        if (out->code) return out->script = NULL, 1;
    }
    if (out->script && !strcmp(out->script, "serve")) { /* likewise */
        out->script = NULL;
        out->code = statement_of("serve", argc - i, argv + i);
        return 1;
    }
    if (out->script && !strcmp(out->script, "sweep")) { /* likewise */
        out->sweep = 1;
        out->nwords = argc - i;
        out->words = argv + i;
        return 1;
    }
    return read_words(argc - i, argv + i, out);
}
