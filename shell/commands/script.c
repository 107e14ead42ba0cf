/* Commands about scripts: `args` declares what may be given on the command line, `read` runs another script. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/context.h"

/* ---------------------------------------------------------------- args */

/* A default as written: `device=cpu` means the word cpu, although it is also a function. */
static dlsh_value as_default(dlsh_value v) {
    const char *name = v.type == DLSH_BUILTIN || v.type == DLSH_OP ? dlsh_function_name(v) : NULL;
    return name ? dlsh_string(name) : dlsh_ref(v);
}

/* The word of the command line, converted to the type of the default. */
static dl_status convert(const dlsh_args *a, const char *name, dlsh_value dflt, const char *text, dlsh_value *out) {
    char *end = NULL;
    errno = 0;
    if (dflt.type == DLSH_INT) {
        *out = dlsh_int(strtol(text, &end, 10));
    } else if (dflt.type == DLSH_FLOAT) {
        *out = dlsh_float(strtod(text, &end));
    } else if (dflt.type == DLSH_BOOL) {
        int yes = !strcmp(text, "true") || !strcmp(text, "on") || !strcmp(text, "1");
        int no = !strcmp(text, "false") || !strcmp(text, "off") || !strcmp(text, "0");
        *out = dlsh_bool(yes);
        if (yes || no) return DL_OK;
        end = (char *)text;
    } else if (dflt.type == DLSH_STR || dflt.type == DLSH_NONE) {
        *out = dlsh_string(text);
        return dlsh_failed(*out) ? DL_ERR_MEMORY : DL_OK;
    } else {
        return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, "defaults are numbers, strings, true, false or none",
                             "args cannot read a %s (%s) from the command line", dlsh_type_name(dflt), name);
    }
    if (*text && !*end && !errno) return DL_OK;
    *out = dlsh_void();
    return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, NULL, "the script's argument %s takes a value of type %s, got \"%s\"",
                         name, dlsh_type_name(dflt), text);
}

static dl_status list_args(const dlsh_args *a) {
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"argument", 'l', ""}, {"type", 'l', ""}, {"default", 'l', ""});
    const dlsh_value *v;
    const char *name;
    for (int i = 0; (name = dlsh_arg_extra(a, i, &v)); i++) {
        dlsh_buf text = {0};
        DLSH_DROPPED dlsh_value dflt = as_default(*v);
        DLSH_TRY(dlsh_repr(&text, dflt));
        DLSH_TRY(dlsh_table_row(
            &t, (dlsh_value[]){dlsh_string(name), dlsh_string(dlsh_type_name(dflt)), dlsh_buf_string(&text)}));
    }
    DLSH_TRY(dlsh_table_show(dlsh_arg_sink(a), &t, DL_OK, NULL));
    dlsh_exit(dlsh_arg_session(a), 0);
    return DL_OK;
}

/* What the script declares, by name. */
typedef struct declared {
    const char *name, *text; /* the value given on the command line; NULL: none */
    const dlsh_value *dflt;
} declared;

typedef struct declarations {
    declared *all;
    int n;
    dl_names names;
} declarations;

static const char *name_at(const void *d, int i) { return ((const declarations *)d)->all[i].name; }

static dl_status collect(const dlsh_args *a, declarations *d) {
    while (dlsh_arg_extra(a, d->n, NULL)) d->n++;
    d->all = calloc((size_t)d->n + 1, sizeof *d->all);
    if (!d->all) return dlsh_no_memory("the script's arguments");
    for (int i = 0; i < d->n; i++) {
        d->all[i].name = dlsh_arg_extra(a, i, &d->all[i].dflt);
        DLSH_TRY(dl_names_add(&d->names, i, name_at, d));
    }
    return DL_OK;
}

static dl_status unknown_word(const dlsh_args *a, const declarations *d, const char *given, size_t len) {
    char hint[240];
    DLSH_FREED char *word = strndup(given, len);
    DLSH_FREED const char **names = malloc((size_t)(d->n + 1) * sizeof *names);
    if (!word || !names) return dlsh_no_memory("the script's arguments");
    for (int i = 0; i < d->n; i++) names[i] = d->all[i].name;
    const char *near = dlsh_nearest(word, names, d->n);
    if (near) {
        snprintf(hint, sizeof hint, "did you mean %s=?", near);
    } else {
        size_t used = (size_t)snprintf(hint, sizeof hint, "the script declares: ");
        for (int k = 0; k < d->n && used < sizeof hint; k++) {
            int fits = used + strlen(names[k]) + sizeof ", , ..." < sizeof hint;
            used += (size_t)snprintf(hint + used, sizeof hint - used, "%s%s", k ? ", " : "", fits ? names[k] : "...");
            if (!fits) break;
        }
    }
    return dlsh_arg_fail(a, NULL, DL_ERR_NAME, hint, "the script has no argument '%.200s'", word);
}

/* Every word given must be declared; the last one of a name counts. */
static dl_status match(const dlsh_args *a, declarations *d, const dlsh_script_args *given) {
    for (int i = 0; i < given->n; i++) {
        const char *word = given->words[i];
        size_t len = strcspn(word, "=");
        int k = dl_names_find(&d->names, word, (long)len, name_at, d);
        if (k < 0) return unknown_word(a, d, word, len);
        if (word[len]) d->all[k].text = word + len + 1;
    }
    return DL_OK;
}

static dl_status assign(const dlsh_args *a, const declared *d) {
    dlsh_value v = as_default(*d->dflt);
    if (d->text) {
        dlsh_value word = dlsh_void();
        dl_status status = convert(a, d->name, v, d->text, &word);
        dlsh_drop(v);
        DLSH_TRY(status);
        v = word;
    }
    return dlsh_set(dlsh_arg_session(a), d->name, v);
}

/* Notes name and value of an argument, for the runs of the script. */
static dl_status keep(dlsh_session *s, dlsh_script_args *given, const char *name) {
    const dlsh_value *v = dlsh_get(s, name);
    if (!v || v->type == DLSH_NONE) return DL_OK;
    int n = 0;
    while (given->values && given->values[n]) n++;
    char **more = realloc(given->values, (size_t)(n + 3) * sizeof *more);
    if (!more) return dlsh_no_memory("the script's arguments");
    given->values = more;
    DLSH_SCOPED_BUF text = {0};
    DLSH_TRY(dlsh_text(&text, *v));
    more[n] = strdup(name), more[n + 1] = more[n] ? strdup(dlsh_buf_text(&text)) : NULL, more[n + 2] = NULL;
    if (more[n + 1]) return DL_OK;
    free(more[n]);
    more[n] = NULL;
    return dlsh_no_memory("the script's arguments");
}

static dl_status args_run(const dlsh_args *a) {
    dlsh_script_args *given = dlsh_script_args_get();
    given->seen = 1;
    if (given->list) return list_args(a);
    given->wrong = 1;
    declarations d = {0};
    dl_status st = collect(a, &d);
    if (!st) st = match(a, &d, given);
    for (int i = 0; i < d.n && !st; i++) st = assign(a, &d.all[i]);
    for (int i = 0; i < d.n && !st; i++) st = keep(dlsh_arg_session(a), given, d.all[i].name);
    free(d.all);
    dl_names_free(&d.names);
    DLSH_TRY(st);
    given->wrong = 0;
    given->n = 0; /* a script that this one reads has its own defaults */
    return DL_OK;
}

/* ---------------------------------------------------------------- read */

FILE *dlsh_script_open(const char *path) {
    const char *root = getenv("DLSH_RERUN_ROOT");
    char folder[PATH_MAX];
    DLSH_SCOPED_BUF kept = {0};
    if (root && *path == '/')
        dlsh_buf_printf(&kept, "%s%s", root, path);
    else if (root && getcwd(folder, sizeof folder))
        dlsh_buf_printf(&kept, "%s%s/%s", root, folder, path);
    FILE *f = kept.n ? fopen(dlsh_buf_text(&kept), "rb") : NULL;
    return f ? f : fopen(path, "rb");
}

dl_status dlsh_script_text(const dlsh_args *a, const char *param, dlsh_buf *out) {
    const char *path = dlsh_arg_str(a, param);
    FILE *f = dlsh_script_open(path);
    char chunk[4096];
    size_t got;
    while (f && out->n <= DLSH_LONGEST_SCRIPT && (got = fread(chunk, 1, sizeof chunk, f)) > 0)
        dlsh_buf_add(out, chunk, got);
    int failed = !f || ferror(f) || out->n > DLSH_LONGEST_SCRIPT, err = f && !ferror(f) ? EFBIG : errno;
    if (f) fclose(f);
    if (!failed) return DL_OK;
    char hint[240];
    dl_file_remedy(path, err, hint, sizeof hint);
    if (err == EFBIG) snprintf(hint, sizeof hint, "a script is a text");
    return dlsh_arg_fail(a, param, DL_ERR_IO, hint, "cannot read \"%s\": %s", path, strerror(err));
}

static dl_status read_run(const dlsh_args *a) {
    DLSH_SCOPED_BUF text = {0};
    const char *path = dlsh_arg_str(a, "file");
    DLSH_TRY(dlsh_script_text(a, "file", &text));
    DLSH_TRY(dl_run_source(path, dlsh_buf_text(&text), (long)text.n));
    return dlsh_run(dlsh_arg_session(a), path, dlsh_buf_text(&text), text.n, NULL);
}

const dlsh_command script_commands[] = {
    DLSH_ROW("args", DLSH_ACTION | DLSH_OPEN_OPTIONS, args_run, "args NAME=DEFAULT ...",
             "Declares the arguments of a script, at its top: names, defaults and, through these, types. "
             "`dlsh FILE.dlsh NAME=VALUE` sets them, `dlsh FILE.dlsh --help` lists them.",
             .examples = "args epochs=5 data=\"\" device=cpu"),
    DLSH_ROW("read", DLSH_ACTION, read_run, "read FILE", "Runs a script in this session.",
             DLSH_PARAMS({"file", DLSH_ARG_WORD, .doc = "a script", .complete = "file"}),
             .examples = "read \"model.dlsh\""),
    {0}};
