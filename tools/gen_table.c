/* The op table as C: the names of places in a call, and the rows. */
#include "gen_ops.h"

#include <ctype.h>
#include <string.h>

/* ---- names */

/* DL_KIND_OWNER_NAME, in capitals. */
static void full_name(char *out, size_t size, const char *kind, const char *owner, const char *name) {
    snprintf(out, size, "DL_%s_%s_%s", kind, owner, name);
    for (; *out; out++) *out = (char)toupper((unsigned char)*out);
}

void attr_name(char *out, size_t size, const row *r, const attr *a) { full_name(out, size, "A", r->name, a->name); }

static void put_place(FILE *f, const char *kind, const char *owner, const char *name, int place) {
    char full[128];
    full_name(full, sizeof full, kind, owner, name);
    fprintf(f, "    %s = %d,\n", full, place);
}

static int place_of_attr(const row *r, const char *name) {
    for (int i = 0; i < r->nattr; i++)
        if (!strcmp(r->attrs[i].name, name)) return r->place[i];
    return -1;
}

static int place_of_in(const row *r, const char *name) {
    for (int i = 0; r->in_name[i]; i++)
        if (!strcmp(r->in_name[i], name)) return i;
    return -1;
}

static int place_of_out(const row *r, const char *name) {
    for (int i = 0; r->out_name[i]; i++)
        if (!strcmp(r->out_name[i], name)) return i;
    return -1;
}

/* Does the name stand at one place in all ops of the family of r? */
static bool agreed(const row *r, int (*place)(const row *, const char *), const char *name) {
    for (int i = 0; i < nrows; i++)
        if (rows[i].family && !strcmp(rows[i].family, r->family) && place(&rows[i], name) != place(r, name))
            return false;
    return true;
}

/* All names of an op, or, for a family, those that all its ops have at one place. */
static void put_places(FILE *f, const row *r, const char *owner, bool family) {
    for (int i = 0; i < r->nattr; i++)
        if (!family || agreed(r, place_of_attr, r->attrs[i].name))
            put_place(f, "A", owner, r->attrs[i].name, r->place[i]);
    for (int i = 0; r->in_name[i]; i++)
        if (!family || agreed(r, place_of_in, r->in_name[i])) put_place(f, "IN", owner, r->in_name[i], i);
    for (int i = 0; r->out_name[i]; i++)
        if (!family || agreed(r, place_of_out, r->out_name[i])) put_place(f, "OUT", owner, r->out_name[i], i);
}

static bool first_of_family(const row *r) {
    for (const row *q = rows; q < r; q++)
        if (q->family && !strcmp(q->family, r->family)) return false;
    return true;
}

int write_names(FILE *f, const section *s) {
    fprintf(f,
            "#pragma once\n"
            "/* Made from ops/ops.def: where attributes (DL_A), inputs (DL_IN) and outputs (DL_OUT) of the ops of\n"
            " * SECTION(%s), and of families that begin there, stand in a call; and the numbers of these ops. */\n"
            "#include \"ops/names.h\"\n\nenum {\n",
            s->name);
    for (const row *r = rows + s->first; r < rows + s->end; r++) {
        if (r->family && first_of_family(r)) put_places(f, r, r->family, true);
        put_places(f, r, r->name, false);
    }
    fprintf(f, "};\n");
    for (const row *r = rows + s->first; r < rows + s->end; r++) fprintf(f, "extern const int dl_id_%s;\n", r->name);
    return 0;
}

/* ---- rows */

static void put_quoted(FILE *f, const char *text) {
    fputc('"', f);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', f);
        fputc(*text, f);
    }
    fputc('"', f);
}

static void put_text(FILE *f, const char *field, const char *text) {
    if (!text) return;
    fprintf(f, "        .%s = ", field);
    put_quoted(f, text);
    fputs(",\n", f);
}

static void put_list(FILE *f, const char *field, const char *type, const char *const *names) {
    if (!names[0]) return;
    fprintf(f, "        .%s = %s{", field, type);
    for (int i = 0; names[i]; i++) fprintf(f, "\"%s\", ", names[i]);
    fputs("NULL},\n", f);
}

static void put_bits(FILE *f, const char *field, unsigned bits) {
    if (bits) fprintf(f, "        .%s = 0x%xu,\n", field, bits);
}

static void put_word(FILE *f, const char *field, const char *prefix, const char *word) {
    if (word) fprintf(f, "        .%s = %s%s,\n", field, prefix, word);
}

static void put_attrs(FILE *f, const row *r) {
    char full[128];
    if (!r->nattr) return;
    fprintf(f, "        .nattr = %d,\n        .attrs = (const dl_attr[]){\n", r->nattr);
    for (const attr *a = r->attrs; a->name; a++) {
        attr_name(full, sizeof full, r, a);
        fprintf(f, "            [%s] = {\"%s\", DL_A_%s, \"%s\", ", full, a->name, a->kind, a->dflt);
        put_quoted(f, a->doc);
        fputs("},\n", f);
    }
    fputs("        },\n        .listed = (const int8_t[]){", f);
    for (const attr *a = r->attrs; a->name; a++) {
        attr_name(full, sizeof full, r, a);
        fprintf(f, "%s, ", full);
    }
    fputs("},\n", f);
}

static void put_row(FILE *f, const row *r) {
    static const char *const kinds[] = {"0", "DL_F_VIEW", "DL_F_COMPOSITE"};
    fprintf(f, "    {\n        .name = \"%s\", .id = DL_OP_%s,\n", r->name, r->name);
    put_text(f, "doc", r->doc);
    put_text(f, "formula", r->formula);
    fprintf(f, "        .in_min = %d, .in_max = %d, .out = %d, .visible = %d,\n", r->in_min, r->in_max, r->out,
            r->visible);
    put_list(f, "in_name", "", r->in_name);
    put_list(f, "out_name", "", r->out_name);
    put_list(f, "order", "(const char *const[])", r->order);
    put_attrs(f, r);
    put_bits(f, "save_in", r->save_in);
    put_bits(f, "save_out", r->save_out);
    put_bits(f, "mutates", r->mutated);
    put_bits(f, "nondiff_in", r->without_in);
    put_bits(f, "nondiff_out", r->nodiff ? 0xff : r->without_out);
    fprintf(f, "        .flags = %s | %s | (%s),\n", kinds[r->how], r->nodiff ? "DL_F_NODIFF" : "0",
            r->flags ? r->flags : "0");
    put_word(f, "promote", "DL_P_", r->promote);
    put_word(f, "amp", "DL_AMP_", r->amp);
    put_word(f, "infer", "dl_infer_", r->infer);
    put_word(f, "grad", "dl_grad_", r->grad);
    put_word(f, "batch", "dl_batch_", r->batch);
    put_word(f, "flops", "dl_flops_", r->flops);
    if (r->how == OP_COMPOSITE || r->composed) put_word(f, "compose", "dl_compose_", r->name);
    put_word(f, "composed", "dl_composed_", r->composed);
    put_text(f, "samples", r->samples);
    if (r->how == OP_KERNEL) fprintf(f, "        .kernel = {&dl_cpu_%s},\n", r->name);
    fputs("    },\n", f);
}

int write_table(FILE *f) {
    fprintf(f, "/* Made from ops/ops.def: the rows of the table. */\n");
    for (const row *r = rows; r < rows + nrows; r++) put_row(f, r);
    return 0;
}
