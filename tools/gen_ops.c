/* Makes C from the op table, before the library is built: prototypes of rules and kernels, the table and its names, the
 * typed functions dl_NAME, dlcore.h. Fails when a differentiable row has no gradient rule. gen_ops WHAT FILE, with the
 * template behind it for the last two:
 *
 *   rules    ops/rules_gen.h
 *   kernels  KERNEL(name) for each row that has kernels
 *   table    ops/table_gen.h: the rows as initialisers of struct dl_op
 *   names    ops/names_gen.h: the places of attributes, inputs and outputs by name
 *   reversed the same with the values of attributes in the opposite order, for a test
 *   numbers  dlcore_ops.h: the enum of the rows
 *   api      the bodies of the typed functions
 *   samples  a line for each row: name, bits of inputs without a gradient, attributes as name:kind, calls
 *   imports  for plugins: each function of core/imports.def by its name, found through the import table
 *   header   dlcore.h: the template with the typed functions in place of its line @OPS@
 *   bare     the same without the docs of the functions, which the library itself is built with: a row's doc can change
 *            and little is compiled anew
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

/* Prints a prototype once, however many rows share the rule. */
static void declare(FILE *f, const char *macro, const char *name) {
    static const char *seen[4 * MAX_OPS][2];
    static int n;
    if (!name) return;
    for (int i = 0; i < n; i++)
        if (!strcmp(seen[i][0], macro) && !strcmp(seen[i][1], name)) return;
    seen[n][0] = macro, seen[n++][1] = name;
    fprintf(f, "%s(%s);\n", macro, name);
}

static int rules(FILE *f) {
    fprintf(f, "/* Made from ops/ops.def. */\n");
    for (int i = 0; i < nrows; i++) {
        const row *r = &rows[i];
        declare(f, "INFER_RULE", r->infer);
        declare(f, "GRAD_RULE", r->grad);
        declare(f, "FLOPS_RULE", r->flops);
        if (r->how == OP_COMPOSITE) declare(f, "COMPOSE_RULE", r->name);
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
};

static bool absent(const attr *a) { return !strcmp(a->dflt, "none"); }

static const char *ctype(const attr *a) {
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].kind, a->kind)) return absent(a) ? kinds[i].none : kinds[i].ctype;
    fprintf(stderr, "ops.def: no attribute kind %s\n", a->kind);
    exit(1);
}

static bool is(const attr *a, const char *kind) { return !strcmp(a->kind, kind); }

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
        if (is(a, "INTS")) fprintf(f, ", int n_%s", a->name);
    }
    for (int i = 1; i < r->visible; i++, sep = ", ") fprintf(f, "%sdl_tensor **out_%s", sep, r->out_name[i]);
    if (!*sep) fprintf(f, "void");
    fprintf(f, ")");
}

static void set_attr(FILE *f, const row *r, const attr *a) {
    const char *n = a->name;
    char at[128];
    attr_name(at, sizeof at, r, a);
    if (is(a, "INTS"))
        fprintf(f, "    if (%s) dl_api_ints(&a[%s], %s, n_%s);\n", n, at, n, n);
    else if (is(a, "STR"))
        fprintf(f, "    if (%s) dl_api_str(&a[%s], %s);\n", n, at, n);
    else if (is(a, "DTYPE") || is(a, "DEVICE"))
        fprintf(f, "    if (%s >= 0) dl_api_int(&a[%s], %s);\n", n, at, n);
    else {
        const char *star = absent(a) ? "*" : "", *fn = is(a, "FLOAT") ? "float" : is(a, "NUM") ? "num" : "int";
        fprintf(f, "    ");
        if (absent(a)) fprintf(f, "if (%s) ", n);
        fprintf(f, "dl_api_%s(&a[%s], %s%s);\n", fn, at, star, n);
    }
}

static void body(FILE *f, const row *r) {
    int named = 0, nattr = r->nattr;
    while (r->in_name[named]) named++;
    bool var = r->in_max == VARIADIC;
    fprintf(f, "\n");
    prototype(f, r);
    fprintf(f, " {\n    const dl_op *op = dl_op_row(DL_OP_%s);\n", r->name);
    if (nattr)
        fprintf(f, "    dl_aval a[%d];\n    dl_attr_defaults(op, a);\n", nattr);
    else
        fprintf(f, "    const dl_aval *a = NULL;\n");
    for (int i = 0; i < nattr; i++) set_attr(f, r, &r->attrs[i]);
    const char *last = named ? r->in_name[named - 1] : "";
    if (var) {
        fprintf(f, "    dl_tensor *head[] = {");
        for (int i = 0; i < named - 1; i++) fprintf(f, "%s, ", r->in_name[i]);
        fprintf(f, "NULL};\n    return dl_api_list%s(op, head, %d, %s, n_%s, a);\n}\n", r->visible ? "" : "_status",
                named - 1, last, last);
        return;
    }
    if (named) {
        fprintf(f, "    dl_tensor *in[] = {");
        for (int i = 0; i < named; i++) fprintf(f, "%s%s", i ? ", " : "", r->in_name[i]);
        fprintf(f, "};\n");
    }
    fprintf(f, "    dl_tensor **more[] = {");
    for (int i = 1; i < r->visible; i++) fprintf(f, "out_%s, ", r->out_name[i]);
    fprintf(f, "NULL};\n    return dl_api_run(op, %s, %d, a, more);\n}\n", named ? "in" : "NULL", named);
}

static int api(FILE *f) {
    fprintf(f, "/* Made from ops/ops.def: the typed function of each row. */\n"
               "#include \"ops/api.h\"\n#include \"ops/names.h\"\n");
    for (int i = 0; i < nrows; i++) body(f, &rows[i]);
    return 0;
}

static const char *template; /* of header and bare */

static void section(FILE *f, bool docs) {
    fprintf(f, "/* clang-format off */\n");
    for (int i = 0; i < nrows; i++) {
        if (docs) fprintf(f, "/* %s  %s */\n", rows[i].doc, rows[i].formula);
        prototype(f, &rows[i]);
        fprintf(f, ";\n");
    }
    fprintf(f, "/* clang-format on */\n");
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

/* The template with the section in place of the line that names it. */
static int fill(FILE *f, bool docs) {
    static const char mark[] = "/* @OPS@ */\n";
    char *text = slurp(template), *at = text ? strstr(text, mark) : NULL;
    if (!at) {
        fprintf(stderr, "%s: there is no such file, or it has no line @OPS@\n", template);
        return 1;
    }
    fwrite(text, 1, (size_t)(at - text), f);
    section(f, docs);
    fputs(at + sizeof mark - 1, f);
    free(text);
    return 0;
}
static int header(FILE *f) { return fill(f, true); }
static int bare(FILE *f) { return fill(f, false); }

static int numbers(FILE *f) {
    fprintf(f, "/* dlcore_ops.h - the rows of the op table by number, for dl_op_describe(). Numbers hold for this "
               "version alone. */\n"
               "#pragma once\n\nenum {\n");
    for (int i = 0; i < nrows; i++) fprintf(f, "    DL_OP_%s,\n", rows[i].name);
    fprintf(f, "    DL_NOP /* how many there are */\n};\n");
    return 0;
}

static int kernels(FILE *f) {
    fprintf(f, "/* Made from ops/ops.def. */\n");
    for (int i = 0; i < nrows; i++)
        if (rows[i].how == OP_KERNEL) fprintf(f, "KERNEL(%s)\n", rows[i].name);
    return 0;
}

static int imports(FILE *f) {
    static const char *const names[] = {
#define IMPORT(name) #name,
#include "core/imports.def"
#undef IMPORT
    };
    fprintf(f, "/* Made from core/imports.def. */\n");
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        fprintf(f, "#define %s (dl_import_table->p_%s)\n", names[i], names[i]);
    return 0;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int argc;
        int (*run)(FILE *);
    } modes[] = {
        {"rules", 3, rules},     {"table", 3, write_table}, {"names", 3, write_names}, {"reversed", 3, write_names},
        {"kernels", 3, kernels}, {"numbers", 3, numbers},   {"api", 3, api},           {"samples", 3, samples},
        {"header", 4, header},   {"bare", 4, bare},         {"imports", 3, imports}};
    for (unsigned i = 0; argc >= 3 && i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(argv[1], modes[i].name) || argc != modes[i].argc) continue;
        if (!read_rows(!strcmp(argv[1], "reversed"))) return 1;
        template = argv[3];
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);
        int rc = f ? modes[i].run(f) : 1;
        if (!f || fclose(f)) rc = 1;
        if (!rc) rc = keep_or_write(argv[2], text, size);
        free(text);
        return rc;
    }
    fprintf(stderr, "usage: gen_ops rules|kernels|table|names|reversed|numbers|api|samples|imports FILE, or gen_ops "
                    "header|bare FILE TEMPLATE\n");
    return 2;
}
