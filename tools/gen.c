/* Writes the reference pages of the manual, and the words that highlighting knows, from the tables: gen TEMPLATES OUT
 * writes each file at its path below OUT.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands/families.h"
#include "commands/help.h"
#include "dlcore.h"
#include "lang/parse/lexer.h"
#include "view/console.h"

/* ---- docs/ops.md */

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
        dlsh_buf call = {0};
        dlsh_op_signature(&call, &op);
        fprintf(f, "\n## %s\n\n`%s`\n\n%s `%s`", op.name, dlsh_buf_text(&call), op.doc, op.formula);
        dlsh_buf_free(&call);
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
    dlsh_session *s = dlsh_session_new(dlsh_console(), NULL);
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

/* ---- docs/datasets.md */

static void datasets_page(FILE *f) {
    fputs("# Datasets\n\nKinds of data that `dataset(KIND, ...)` opens or makes. Options that stand first may be given "
          "by "
          "position. This page is made\nfrom the tables; [Data](data.md) says how datasets are used.\n",
          f);
    for (int i = 0; dl_data_kind_at(i); i++) {
        const dl_data_kind *k = dl_data_kind_at(i);
        fprintf(f, "\n## %s\n\n%s.\n\n", k->name, k->doc);
        for (const dl_data_option *o = k->options; o->name; o++) {
            fprintf(f, "- `%s` (%s", o->name, o->words ? "" : o->type);
            for (const char *p = o->words; p && *p; p += strcspn(p, "|"), p += *p == '|')
                fprintf(f, "%s`%.*s`", p == o->words ? "" : ", ", (int)strcspn(p, "|"), p);
            fprintf(f, "%s%s%s): %s\n",
                    !o->dflt   ? ", needed"
                    : *o->dflt ? "; default `"
                               : "",
                    o->dflt && *o->dflt ? o->dflt : "", o->dflt && *o->dflt ? "`" : "", o->doc);
        }
    }
    fputs("\n# Transforms\n\nChanges that a loader makes to samples: `loader(d.train, transforms=\"crop 4, flip\")`. "
          "The first "
          "parameter may be given bare.\n",
          f);
    for (int i = 0; dl_transform_at(i); i++) {
        const dl_transform_kind *k = dl_transform_at(i);
        fprintf(f, "\n## %s\n\n%s.\n\n", k->name, k->doc);
        for (const dl_transform_param *p = k->params; p->name; p++)
            fprintf(f, "- `%s` (default `%s`): %s\n", p->name, p->dflt, p->doc);
    }
}

/* ---- notebooks/highlight: names.py of the Pygments lexer, scripts for notebooks */

/* A list of names in Python or JavaScript. */
typedef struct namelist {
    FILE *f;
    int js;
} namelist;

static void begin(const namelist *l, const char *name) {
    if (l->js)
        fprintf(l->f, "\n    %s: [", name);
    else
        for (; *name; name++) fputc(toupper((unsigned char)*name), l->f);
    if (!l->js) fputs(" = [\n", l->f);
}

static void put_name(const namelist *l, const char *name, size_t n) {
    fprintf(l->f, l->js ? "\n        \"%.*s\"," : "    \"%.*s\",\n", (int)n, name);
}

static void end(const namelist *l) { fputs(l->js ? "]," : "]\n", l->f); }

/* Rows that start statements, or those that are functions. */
static void put_rows(const namelist *l, const dlsh_session *s, int functions) {
    for (int i = 0; i < dlsh_command_count(s); i++) {
        const dlsh_command *row = dlsh_command_at(s, i);
        int only_function = (row->flags & DLSH_ONLY_FUNCTION) == DLSH_ONLY_FUNCTION;
        if (functions ? row->flags & DLSH_FUNCTION : !only_function) put_name(l, row->name, strlen(row->name));
    }
}

static void put_session(const namelist *l) {
    dlsh_session *s = dlsh_session_new(dlsh_console(), NULL);
    if (!s || add_families(s)) fprintf(stderr, "names for highlighting: %s\n", dl_errmsg());
    begin(l, "commands");
    put_rows(l, s, 0);
    end(l);
    begin(l, "functions");
    put_rows(l, s, 1);
    dl_op_info op;
    for (int i = 0; dl_op_describe(i, &op); i++)
        if (!op.internal) put_name(l, op.name, strlen(op.name));
    end(l);
    dlsh_session_free(s);
}

static void put_names(const namelist *l) {
    static const char *const keywords[] = {
#define TOK(id, text) text,
        DLSH_KEYWORDS(TOK)
#undef TOK
            "net",
        "extern", "C", "CUDA"};
    begin(l, "keywords");
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) put_name(l, keywords[i], strlen(keywords[i]));
    end(l);
    put_session(l);
    begin(l, "layers");
    for (int i = 0; dl_layer_kind_at(i); i++) {
        const dl_kind_row *k = dl_layer_kind_at(i);
        put_name(l, k->name, strlen(k->name));
        for (const char *p = k->alias; *p; p += strcspn(p, " "), p += strspn(p, " ")) put_name(l, p, strcspn(p, " "));
    }
    end(l);
    begin(l, "dtypes");
    for (int t = DL_BOOL; t <= DL_F64; t++) {
        const char *name = dl_dtype_name((dl_dtype)t);
        put_name(l, name, strlen(name));
    }
    end(l);
}

static void names_module(FILE *f) {
    fputs("\"\"\"Names of the language; made from the tables of dlsh.\"\"\"\n", f);
    put_names(&(namelist){f, 0});
}

static const char *templates;

/* A template with the names filled in, and other templates where a line `//= NAME` asks for them. */
static void script(FILE *f, const char *name) {
    static const char hole[] = "const NAMES = {", other[] = "//= ";
    char path[4096], line[1024];
    snprintf(path, sizeof path, "%s/notebooks/highlight/%s", templates, name);
    FILE *in = fopen(path, "r");
    if (!in) perror(path);
    while (in && fgets(line, sizeof line, in)) {
        if (!strncmp(line, other, sizeof other - 1)) {
            line[strcspn(line, "\n")] = 0;
            script(f, line + sizeof other - 1);
        } else if (!strncmp(line, hole, sizeof hole - 1)) {
            fputs(hole, f);
            put_names(&(namelist){f, 1});
            fputs("\n};\n", f);
        } else {
            fputs(line, f);
        }
    }
    if (in) fclose(in);
}

static void kernel_script(FILE *f) { script(f, "kernel.in.js"); }
static void labextension(FILE *f) { script(f, "labextension.in.js"); }

static const struct {
    const char *path;
    void (*write)(FILE *f);
} pages[] = {{"docs/ops.md", ops_page},
             {"docs/commands.md", commands_page},
             {"docs/settings.md", settings_page},
             {"docs/layers.md", layers_page},
             {"docs/datasets.md", datasets_page},
             {"notebooks/highlight/pygments_dlsh/names.py", names_module},
             {"notebooks/highlight/kernel.js", kernel_script},
             {"notebooks/highlight/labextension.js", labextension}};

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
    templates = argv[1];
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
