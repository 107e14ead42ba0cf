/* Writes the reference pages of the manual from the tables: gen TEMPLATES OUT writes each page at its path below OUT.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands/families.h"
#include "commands/help.h"
#include "dlcore.h"
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

static void commands_page(FILE *f) {
    static const dlsh_command *const families[] = {
#define FAMILY(name) name##_commands,
#include "commands/families.def"
#undef FAMILY
    };
    dlsh_buf b = {0};
    dlsh_session *s = dlsh_session_new(dlsh_console());
    dl_status status = s ? DL_OK : DL_ERR_MEMORY;
    for (unsigned i = 0; !status && i < sizeof families / sizeof *families; i++)
        status = dlsh_add_commands(s, families[i]);
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

static const struct {
    const char *path;
    void (*write)(FILE *f);
} pages[] = {{"docs/ops.md", ops_page}, {"docs/commands.md", commands_page}, {"docs/settings.md", settings_page}};

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: gen TEMPLATES OUT\n");
        return 2;
    }
    for (unsigned i = 0; i < sizeof pages / sizeof *pages; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/docs", argv[2]);
        mkdir(path, 0777);
        snprintf(path, sizeof path, "%s/%s", argv[2], pages[i].path);
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
