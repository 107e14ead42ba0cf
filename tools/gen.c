/* Writes the reference pages of the manual from the tables: gen OUT writes each file at its path below OUT. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands/families.h"
#include "commands/help.h"
#include "debug/debug.h"
#include "dlcore.h"
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
            "# Ops\n\nEvery op: a function of the shell, a method of tensors, and `dl_NAME` in C. "
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

/* ---- docs/commands.md, docs/settings.md, docs/doctor.md */

static void commands_page(FILE *f) {
    dlsh_buf b = {0};
    dlsh_session *s = dlsh_session_new(dlsh_console(), NULL);
    dl_status status = s ? dlsh_add_families(s) : DL_ERR_MEMORY;
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

static void doctor_page(FILE *f) {
    dlsh_buf b = {0};
    dlsh_doctor_page(&b);
    fputs(dlsh_buf_text(&b), f);
    dlsh_buf_free(&b);
}

/* ---- docs/layers.md */

static const char *const kind_words[] = {"int",  "float",  "true or false",      "word",
                                         "ints", "floats", "ints, valid or same"};

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
              "What a net is made of. The first options may be given without their names; a short name stands for the "
              "full name. "
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
            fprintf(f, "- `%s` (%s%s%s%s%s): %s\n", p->name, p->words ? p->words : "", p->words ? "; " : "",
                    p->dflt ? "default `" : "needed", p->dflt ? p->dflt : "", p->dflt ? "`" : "", p->doc);
    }
}

/* ---- all of them */

static const struct {
    const char *path;
    void (*write)(FILE *f);
} pages[] = {{"docs/ops.md", ops_page},       {"docs/commands.md", commands_page}, {"docs/settings.md", settings_page},
             {"docs/doctor.md", doctor_page}, {"docs/layers.md", layers_page},     {"docs/datasets.md", datasets_page}};

/* Makes the folders above a file. */
static void make_folders(char *path) {
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        mkdir(path, 0777);
        *p = '/';
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: gen OUT\n");
        return 2;
    }
    for (unsigned i = 0; i < sizeof pages / sizeof *pages; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], pages[i].path);
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
