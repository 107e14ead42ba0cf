/* Makes C from the op table, before the library is built: prototypes of rules and kernels, the table and its names, the
 * typed functions dl_NAME, dlcore.h. Fails when a differentiable op has no gradient rule.
 *
 * gen_ops WHAT FILE:
 *   kernels  KERNEL(name) for each op that has kernels on all devices
 *   table    ops/table_gen.h: the rows as initialisers of struct dl_op
 *   numbers  dlcore_ops.h: the enum of the ops
 *   ids      ops/ids_gen.h: the numbers as constants of the linker, dl_id_NAME
 *   api      the bodies of the typed functions
 *   samples  a line for each op: name, bits of inputs without a gradient, attributes as name:kind, calls
 *   imports  for plugins: each function of core/device/imports.def by its name, found through the import table
 * gen_ops WHAT FILE TEMPLATE:
 *   header   dlcore.h: the template with the typed functions in place of its line @OPS@
 *   bare     the same without them, which the library itself is built with: a new row recompiles little
 * gen_ops WHAT FOLDER, a file FOLDER/SECTION.h for each section of ops.def, and all.h, which includes them:
 *   calls    dlcore/: prototypes of the typed functions, for those who call them
 *   names    ops/names/: the places of attributes, inputs and outputs by name
 *   reversed the same with the values of attributes in the opposite order, for a test
 *   rules    ops/rules/: the names, and prototypes of the rules and kernels
 *
 * A file whose text would stay is left alone. */
#include <stdlib.h>
#include <string.h>

#include "gen_ops.h"

/* The file in memory, zero-terminated; the caller frees it. NULL when there is none. */
static char *slurp(const char *path) {
    FILE *f = fopen(path, "r");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *s = malloc((size_t)n + 1);
    if (!s || fread(s, 1, (size_t)n, f) != (size_t)n) {
        perror(path);
        exit(1);
    }
    s[n] = 0;
    fclose(f);
    return s;
}

/* Writes the text to the file, unless that is its text already. */
static int keep_or_write(const char *path, const char *text, size_t size) {
    char *old = slurp(path);
    bool same = old && !strcmp(old, text);
    free(old);
    if (same) return 0;
    FILE *f = fopen(path, "w");
    if (f) fwrite(text, 1, size, f);
    if (f && !fclose(f)) return 0;
    perror(path);
    return 1;
}

/* Prints a prototype once in a section, however many of its ops share the rule. */
static void declare(FILE *f, const section *s, const char *macro, const char *name) {
    static const char *seen[7 * MAX_OPS][2];
    static const section *of;
    static int n;
    if (of != s) of = s, n = 0;
    if (!name) return;
    for (int i = 0; i < n; i++)
        if (!strcmp(seen[i][0], macro) && !strcmp(seen[i][1], name)) return;
    seen[n][0] = macro, seen[n++][1] = name;
    fprintf(f, "%s(%s);\n", macro, name);
}

static int rules(FILE *f, const section *s) {
    fprintf(f, "#pragma once\n/* Made from ops/ops.def: rules and kernels of the ops of SECTION(%s). */\n", s->name);
    fprintf(f, "#include \"ops/names/%s.h\"\n#include \"ops/rules.h\"\n\n", s->name);
    for (const row *r = rows + s->first; r < rows + s->end; r++) {
        declare(f, s, "INFER_RULE", r->infer);
        declare(f, s, "GRAD_RULE", r->grad);
        declare(f, s, "BATCH_RULE", r->batch);
        declare(f, s, "FLOPS_RULE", r->flops);
        declare(f, s, "COMPOSE_RULE", r->how == OP_COMPOSITE || r->composed ? r->name : NULL);
        declare(f, s, "COMPOSED_RULE", r->composed);
        declare(f, s, "CPU_KERNEL", r->how == OP_KERNEL ? r->name : NULL);
    }
    return 0;
}

static const struct {
    const char *kind, *ctype, *none; /* `none`: the C type when the default is absent: a pointer, NULL for absent */
} kinds[] = {
    {"INT", "long ", "const long *"},
    {"FLOAT", "double ", "const double *"},
    {"NUM", "double ", "const double *"},
    {"BOOL", "int ", "const int *"},
    {"DTYPE", "int ", "int "},
    {"DEVICE", "int ", "int "},
    {"INTS", "const long *", "const long *"},
    {"STR", "const char *", "const char *"},
    {"PADS", "const long *", "const long *"},
};

static bool absent(const attr *a) { return !strcmp(a->dflt, "none"); }

static const char *ctype(const attr *a) {
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].kind, a->kind)) return absent(a) ? kinds[i].none : kinds[i].ctype;
    fprintf(stderr, "ops.def: no attribute kind %s\n", a->kind);
    exit(1);
}

static bool is(const attr *a, const char *kind) { return !strcmp(a->kind, kind); }
static bool is_list(const attr *a) { return is(a, "INTS") || is(a, "PADS"); }

static void prototype(FILE *f, const row *r) {
    const char *sep = "";
    fprintf(f, "%sdl_%s(", r->visible ? "dl_tensor *" : "dl_status ", r->name);
    for (int i = 0; r->in_name[i]; i++, sep = ", ")
        if (r->in_max == VARIADIC && !r->in_name[i + 1])
            fprintf(f, "%sdl_tensor **%s, int n_%s", sep, r->in_name[i], r->in_name[i]);
        else
            fprintf(f, "%sdl_tensor *%s", sep, r->in_name[i]);
    for (const attr *a = r->attrs; a->name; a++, sep = ", ") {
        fprintf(f, "%s%s%s", sep, ctype(a), a->name);
        if (is_list(a)) fprintf(f, ", int n_%s", a->name);
    }
    for (int i = 1; i < r->visible; i++, sep = ", ") fprintf(f, "%sdl_tensor **out_%s", sep, r->out_name[i]);
    if (!*sep) fprintf(f, "void");
    fprintf(f, ")");
}

static void set_attr(FILE *f, const row *r, const attr *a) {
    const char *n = a->name;
    char at[128];
    attr_name(at, sizeof at, r, a);
    if (is_list(a))
        fprintf(f, "    if (%s) dl_api_ints(&given[%s], %s, n_%s);\n", n, at, n, n);
    else if (is(a, "STR"))
        fprintf(f, "    if (%s) dl_api_str(&given[%s], %s);\n", n, at, n);
    else if (is(a, "DTYPE") || is(a, "DEVICE"))
        fprintf(f, "    if (%s >= 0) dl_api_int(&given[%s], %s);\n", n, at, n);
    else {
        const char *star = absent(a) ? "*" : "", *fn = is(a, "FLOAT") ? "float" : is(a, "NUM") ? "num" : "int";
        fprintf(f, "    ");
        if (absent(a)) fprintf(f, "if (%s) ", n);
        fprintf(f, "dl_api_%s(&given[%s], %s%s);\n", fn, at, star, n);
    }
}

static void more_outputs(FILE *f, const row *r) {
    fprintf(f, "    dl_tensor **more[] = {");
    for (int i = 1; i < r->visible; i++) fprintf(f, "out_%s, ", r->out_name[i]);
    fprintf(f, "NULL};\n");
}

static void body(FILE *f, const row *r) {
    int named = 0, nattr = r->nattr;
    while (r->in_name[named]) named++;
    bool var = r->in_max == VARIADIC;
    fprintf(f, "\n");
    prototype(f, r);
    fprintf(f, " {\n    const dl_op *op = dl_op_row(DL_OP_%s);\n", r->name);
    if (nattr)
        fprintf(f, "    dl_aval given[%d];\n    dl_attr_defaults(op, given);\n", nattr);
    else
        fprintf(f, "    const dl_aval *given = NULL;\n");
    for (int i = 0; i < nattr; i++) set_attr(f, r, &r->attrs[i]);
    const char *last = named ? r->in_name[named - 1] : "";
    if (var) {
        fprintf(f, "    dl_tensor *head[] = {");
        for (int i = 0; i < named - 1; i++) fprintf(f, "%s, ", r->in_name[i]);
        fprintf(f, "NULL};\n");
        if (r->visible) more_outputs(f, r);
        fprintf(f, "    return dl_api_list%s(op, head, %d, %s, n_%s, given%s);\n}\n", r->visible ? "" : "_status",
                named - 1, last, last, r->visible ? ", more" : "");
        return;
    }
    if (named) {
        fprintf(f, "    dl_tensor *in[] = {");
        for (int i = 0; i < named; i++) fprintf(f, "%s%s", i ? ", " : "", r->in_name[i]);
        fprintf(f, "};\n");
    }
    more_outputs(f, r);
    fprintf(f, "    return dl_api_run(op, %s, %d, given, more);\n}\n", named ? "in" : "NULL", named);
}

static int api(FILE *f) {
    fprintf(f, "/* Made from ops/ops.def: the typed function of each op. */\n"
               "#include \"ops/api.h\"\n#include \"dlcore_ops.h\"\n#include \"ops/names/all.h\"\n\n"
               "#pragma GCC visibility push(default)\n#include \"dlcore/all.h\"\n#pragma GCC visibility pop\n");
    for (int i = 0; i < nrows; i++) body(f, &rows[i]);
    return 0;
}

static const char *template; /* of header and bare */

static void documented(FILE *f) {
    fprintf(f, "/* clang-format off */\n");
    for (int i = 0; i < nrows; i++) {
        fprintf(f, "/* %s  %s */\n", rows[i].doc, rows[i].formula);
        prototype(f, &rows[i]);
        fprintf(f, ";\n");
    }
    fprintf(f, "/* clang-format on */\n");
}

static int calls(FILE *f, const section *s) {
    fprintf(f,
            "#pragma once\n/* Made from ops/ops.def: the typed functions of the ops of SECTION(%s), which dlcore.h\n"
            " * describes. */\n#include \"dlcore.h\"\n\n",
            s->name);
    for (const row *r = rows + s->first; r < rows + s->end; r++) {
        prototype(f, r);
        fprintf(f, ";\n");
    }
    return 0;
}

static int samples(FILE *f) {
    for (int i = 0; i < nrows; i++) {
        fprintf(f, "%s\t%u\t", rows[i].name, rows[i].nodiff ? ~0u : rows[i].without_in);
        for (const attr *a = rows[i].attrs; a->name; a++)
            fprintf(f, "%s%s:%s", a == rows[i].attrs ? "" : " ", a->name, a->kind);
        fprintf(f, "\t%s\n", rows[i].samples ? rows[i].samples : "");
    }
    return 0;
}

/* The template with the typed functions, or nothing, in place of the line that names it. */
static int fill(FILE *f, bool ops) {
    static const char mark[] = "/* @OPS@ */\n";
    char *text = slurp(template), *at = text ? strstr(text, mark) : NULL;
    if (!at) {
        fprintf(stderr, "%s: there is no such file, or it has no line @OPS@\n", template);
        return 1;
    }
    fwrite(text, 1, (size_t)(at - text), f);
    if (ops) documented(f);
    fputs(at + sizeof mark - 1, f);
    free(text);
    return 0;
}
static int header(FILE *f) { return fill(f, true); }
static int bare(FILE *f) { return fill(f, false); }

static int numbers(FILE *f) {
    fprintf(f, "/* dlcore_ops.h - the ops by number, for dl_op_describe(). Numbers hold for this "
               "version alone. */\n"
               "#pragma once\n\nenum {\n");
    for (int i = 0; i < nrows; i++) fprintf(f, "    DL_OP_%s,\n", rows[i].name);
    fprintf(f, "    DL_NOP /* how many there are */\n};\n");
    return 0;
}

static int ids(FILE *f) {
    fprintf(f, "/* Made from ops/ops.def. */\n");
    for (int i = 0; i < nrows; i++) fprintf(f, "const int dl_id_%s = DL_OP_%s;\n", rows[i].name, rows[i].name);
    return 0;
}

static int kernels(FILE *f) {
    fprintf(f, "/* Made from ops/ops.def. */\n");
    for (int i = 0; i < nrows; i++)
        if (rows[i].how == OP_KERNEL && !(rows[i].composed && !strcmp(rows[i].composed, "elsewhere")))
            fprintf(f, "KERNEL(%s)\n", rows[i].name);
    return 0;
}

static int imports(FILE *f) {
    static const char *const names[] = {
#define IMPORT(name) #name,
#include "core/device/imports.def"
#undef IMPORT
    };
    fprintf(f, "/* Made from core/device/imports.def. */\n");
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        fprintf(f, "#define %s (dl_import_table->p_%s)\n", names[i], names[i]);
    return 0;
}

/* Writes what `run` prints: for a section, into FOLDER/SECTION.h; for none, into the file. */
static int write_file(int (*run)(FILE *), int (*part)(FILE *, const section *), const section *s, const char *path) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    int rc = !f ? 1 : s ? part(f, s) : run(f);
    if (!f || fclose(f)) rc = 1;
    if (!rc) rc = keep_or_write(path, text, size);
    free(text);
    return rc;
}

static const char *what; /* says which files these are: gcc takes two of one text and time for one file */
static int all_sections(FILE *f) {
    fprintf(f, "#pragma once\n/* Made from ops/ops.def: %s of all its sections. */\n", what);
    for (int i = 0; i < nsections; i++) fprintf(f, "#include \"%s.h\"\n", sections[i].name);
    return 0;
}

static int write_folder(int (*part)(FILE *, const section *), const char *folder) {
    char path[4096];
    int rc = 0;
    for (int i = 0; !rc && i < nsections; i++) {
        snprintf(path, sizeof path, "%s/%s.h", folder, sections[i].name);
        rc = write_file(NULL, part, &sections[i], path);
    }
    snprintf(path, sizeof path, "%s/all.h", folder);
    return rc ? rc : write_file(all_sections, NULL, NULL, path);
}

static const char usage[] = "usage: gen_ops kernels|table|numbers|ids|api|samples|imports FILE, gen_ops header|bare "
                            "FILE TEMPLATE, or gen_ops calls|names|reversed|rules FOLDER\n";

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int argc;
        int (*run)(FILE *);
        int (*part)(FILE *, const section *);
    } modes[] = {{"table", 3, .run = write_table},
                 {"kernels", 3, .run = kernels},
                 {"numbers", 3, .run = numbers},
                 {"api", 3, .run = api},
                 {"samples", 3, .run = samples},
                 {"imports", 3, .run = imports},
                 {"ids", 3, .run = ids},
                 {"header", 4, .run = header},
                 {"bare", 4, .run = bare},
                 {"calls", 3, .part = calls},
                 {"names", 3, .part = write_names},
                 {"rules", 3, .part = rules},
                 {"reversed", 3, .part = write_names}};
    for (unsigned i = 0; argc >= 3 && i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(argv[1], modes[i].name) || argc != modes[i].argc) continue;
        if (!read_rows(!strcmp(argv[1], "reversed"))) return 1;
        what = argv[1], template = argv[3];
        return modes[i].part ? write_folder(modes[i].part, argv[2]) : write_file(modes[i].run, NULL, NULL, argv[2]);
    }
    fputs(usage, stderr);
    return 2;
}
