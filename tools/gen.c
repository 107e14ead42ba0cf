/* Writes the reference pages of the manual, and the words that highlighting knows, from the tables: gen TEMPLATES OUT
 * writes each file at its path below OUT.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands/families.h"
#include "commands/help.h"
#include "dlcore.h"
#include "lang/lexer.h"
#include "view/console.h"

/* ---- docs/ops.md */

static void signature(FILE *f, const dl_op_info *op) {
    fprintf(f, "%s(", op->name);
    for (int i = 0; i < op->nargs; i++) {
        const dl_op_arg *a = &op->args[i];
        fprintf(f, "%s%s", i ? ", " : "", a->name);
        if (a->dflt) fprintf(f, "=%s", a->dflt);
    }
    fprintf(f, ")");
}

static void results(FILE *f, const dl_op_info *op) {
    if (op->nout < 2) return;
    fprintf(f, " Results: ");
    for (int i = 0; i < op->nout; i++) fprintf(f, "%s%s", i ? ", " : "", op->out[i]);
    fprintf(f, ".");
}

static void ops_page(FILE *f) {
    fprintf(f,
            "# Ops\n\nEvery row of the op table: a function of the shell, a method of tensors, and `dl_NAME` in C. "
            "Names and arguments are\nPyTorch's. `=` gives the default; `none` means that the argument may be absent. "
            "This page is made from the table.\n");
    dl_op_info op;
    for (int i = 0; dl_op_describe(i, &op); i++) {
        if (op.internal) continue;
        fprintf(f, "\n## %s\n\n`", op.name);
        signature(f, &op);
        fprintf(f, "`\n\n%s `%s`", op.doc, op.formula);
        results(f, &op);
        fprintf(f, "%s\n", op.differentiable ? "" : " No gradient.");
        for (int k = 0, first = 1; k < op.nargs; k++) {
            if (!*op.args[k].doc) continue;
            fprintf(f, "%s- `%s` (%s): %s\n", first ? "\n" : "", op.args[k].name, op.args[k].kind, op.args[k].doc);
            first = 0;
        }
    }
}

/* ---- docs/commands.md, docs/settings.md */

static dl_status add_families(dlsh_session *s) {
    static const dlsh_command *const families[] = {
#define FAMILY(name) name##_commands,
#include "commands/families.def"
#undef FAMILY
    };
    dl_status status = DL_OK;
    for (unsigned i = 0; !status && i < sizeof families / sizeof *families; i++)
        status = dlsh_add_commands(s, families[i]);
    return status;
}

static void commands_page(FILE *f) {
    dlsh_buf b = {0};
    dlsh_session *s = dlsh_session_new(dlsh_console());
    dl_status status = s ? add_families(s) : DL_ERR_MEMORY;
    if (!status) status = dlsh_docs_commands(s, &b);
    if (status) fprintf(stderr, "docs/commands.md: %s\n", dl_errmsg());
    fputs(dlsh_buf_text(&b), f);
    dlsh_buf_free(&b);
    dlsh_session_free(s);
}

static void settings_page(FILE *f) {
    dlsh_buf b = {0};
    dlsh_docs_settings(&b);
    fputs(dlsh_buf_text(&b), f);
    dlsh_buf_free(&b);
}

/* ---- docs/layers.md */

static const char *const kind_words[] = {"int", "float", "true or false", "word", "ints", "floats"};

static void option_rows(FILE *f, const dl_option_row *o) {
    for (; o->name; o++) {
        fprintf(f, "\n- `%s`", o->name);
        for (const char *p = o->alias; *p; p += strcspn(p, " "), p += strspn(p, " "))
            fprintf(f, ", `%.*s`", (int)strcspn(p, " "), p);
        fprintf(f, " (%s", kind_words[o->kind]);
        if (*o->dflt) fprintf(f, ", %s", o->dflt);
        fprintf(f, "%s): %s", *o->dflt ? "" : ", needed", o->doc);
    }
    fputs("\n", f);
}

static void kind_rows(FILE *f, const char *title, const char *intro, const dl_kind_row *at(int i)) {
    fprintf(f, "%s# %s\n\n%s\n", ftell(f) > 0 ? "\n" : "", title, intro);
    for (int i = 0; at(i); i++) {
        const dl_kind_row *k = at(i);
        fprintf(f, "\n## %s\n\n%s", k->name, k->doc);
        if (*k->alias) fprintf(f, " Also called: %s.", k->alias);
        if (*k->example) fprintf(f, " Example: `%s`", k->example);
        fputs("\n", f);
        if (k->options->name) option_rows(f, k->options);
    }
}

static void layers_page(FILE *f) {
    kind_rows(f, "Layers",
              "What a net is made of. Options that stand first may be given bare; names and short names are equal. "
              "This page is made from the tables.",
              dl_layer_kind_at);
    kind_rows(f, "Initialisations", "How weights start: `linear 64 init=\"kaiming_normal\"`.", dl_init_kind_at);
    kind_rows(f, "Optimizers", "Functions that make an optimizer: `trainer(m, d, opt=adam(lr=1e-3))`.",
              dl_optimizer_kind_at);
    kind_rows(
        f, "Schedules",
        "The learning rate over time: `trainer(m, d, schedule=schedule(\"cosine\", 1000))`. Steps are counted, or "
        "epochs with `by=\"epoch\"`.",
        dl_schedule_kind_at);
}

/* ---- notebooks/highlight/pygments_dlsh/names.py */

static void put_word(FILE *f, const char *word, size_t n) { fprintf(f, "    \"%.*s\",\n", (int)n, word); }

static void put_rows(FILE *f, const dlsh_session *s, const char *name, int functions) {
    fprintf(f, "]\n%s = [\n", name);
    for (int i = 0; i < dlsh_command_count(s); i++) {
        const dlsh_command *row = dlsh_command_at(s, i);
        int only_function = (row->flags & DLSH_ONLY_FUNCTION) == DLSH_ONLY_FUNCTION;
        if (functions ? row->flags & DLSH_FUNCTION : !only_function) put_word(f, row->name, strlen(row->name));
    }
}

/* The names of all tables, for highlighting. */
static void words_module(FILE *f) {
    static const char *const keywords[] = {
#define TOK(id, text) text,
        DLSH_KEYWORDS(TOK)
#undef TOK
            "net",
        "extern", "C", "CUDA"};
    fprintf(f, "\"\"\"Names of the language; made from the tables of dlsh.\"\"\"\nKEYWORDS = [\n");
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) put_word(f, keywords[i], strlen(keywords[i]));
    dlsh_session *s = dlsh_session_new(dlsh_console());
    if (!s || add_families(s)) fprintf(stderr, "names.py: %s\n", dl_errmsg());
    put_rows(f, s, "COMMANDS", 0);
    put_rows(f, s, "FUNCTIONS", 1);
    dl_op_info op;
    for (int i = 0; dl_op_describe(i, &op); i++)
        if (!op.internal) put_word(f, op.name, strlen(op.name));
    fprintf(f, "]\nLAYERS = [\n");
    for (int i = 0; dl_layer_kind_at(i); i++) {
        const dl_kind_row *k = dl_layer_kind_at(i);
        put_word(f, k->name, strlen(k->name));
        for (const char *p = k->alias; *p; p += strcspn(p, " "), p += strspn(p, " ")) put_word(f, p, strcspn(p, " "));
    }
    fprintf(f, "]\nDTYPES = [\n");
    for (int t = DL_BOOL; t <= DL_F64; t++) put_word(f, dl_dtype_name((dl_dtype)t), strlen(dl_dtype_name((dl_dtype)t)));
    fprintf(f, "]\n");
    dlsh_session_free(s);
}

static const struct {
    const char *path;
    void (*write)(FILE *f);
} pages[] = {{"docs/ops.md", ops_page},
             {"docs/commands.md", commands_page},
             {"docs/settings.md", settings_page},
             {"docs/layers.md", layers_page},
             {"notebooks/highlight/pygments_dlsh/names.py", words_module}};

/* Makes the folders above a file. */
static void make_folders(char *path) {
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        mkdir(path, 0777);
        *p = '/';
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: gen TEMPLATES OUT\n");
        return 2;
    }
    for (unsigned i = 0; i < sizeof pages / sizeof *pages; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[2], pages[i].path);
        make_folders(path);
        FILE *f = fopen(path, "w");
        if (!f) {
            perror(path);
            return 1;
        }
        pages[i].write(f);
        if (fclose(f)) {
            perror(path);
            return 1;
        }
    }
    return 0;
}
