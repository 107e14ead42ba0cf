/* Reads ops.def, alone: every field of a row as text, and what its names stand for. */
#include "gen_ops.h"

#include <string.h>

#define DOC(text, form) .doc = text, .formula = form,
#define IN(min, max, ...) .in_min = min, .in_max = max, .in_name = {__VA_ARGS__},
#define OUT(n, vis, ...) .out = n, .visible = vis, .out_name = {__VA_ARGS__},
#define A(n, kind, def, text) {#n, #kind, def, text},
#define ORDER(...) .order = {__VA_ARGS__},
#define ATTRS(...) .attrs = {__VA_ARGS__},
#define FAMILY(name) .family = #name,
#define INFER(rule) .infer = #rule,
#define GRAD(rule) .grad = #rule,
#define BATCH(rule) .batch = #rule,
#define FLOPS(rule) .flops = #rule,
#define COMPOSED(rule) .composed = #rule,
#define NODIFF .nodiff = true,
#define SAVE(...) .save = #__VA_ARGS__,
#define PROMOTE(rule) .promote = #rule,
#define AMP(policy) .amp = #policy,
#define FLAGS(bits) .flags = #bits,
#define MUTATES(...) .mutates = #__VA_ARGS__,
#define NONDIFF_IN(...) .nondiff_in = #__VA_ARGS__,
#define NONDIFF_OUT(...) .nondiff_out = #__VA_ARGS__,
#define SAMPLES(text) .samples = text,
#include "ops/groups.h"

#pragma GCC diagnostic ignored "-Woverride-init"
#define ROW(h, n, ...) {.how = h, .infer = "same", .out = 1, .visible = 1, .out_name = {"out"}, __VA_ARGS__.name = #n},
#define OP(n, ...) ROW(OP_KERNEL, n, __VA_ARGS__)
#define VIEW(n, ...) ROW(OP_VIEW, n, __VA_ARGS__)
#define COMPOSITE(n, ...) ROW(OP_COMPOSITE, n, __VA_ARGS__)

#define SECTION(name)
row rows[] = {
#include "ops/ops.def"
};
const int nrows = sizeof rows / sizeof *rows;
#undef SECTION
#undef OP
#undef VIEW
#undef COMPOSITE

/* The number of each row, and of the first one of each section. */
#define OP(n, ...) ROW_##n,
#define VIEW(n, ...) ROW_##n,
#define COMPOSITE(n, ...) ROW_##n,
#define SECTION(name) FIRST_##name, BEFORE_##name = FIRST_##name - 1,
enum {
#include "ops/ops.def"
};
#undef SECTION
#undef OP
#undef VIEW
#undef COMPOSITE
#define OP(n, ...)
#define VIEW(n, ...)
#define COMPOSITE(n, ...)
#define SECTION(id) {.name = #id, .first = FIRST_##id},
section sections[] = {
#include "ops/ops.def"
};
const int nsections = sizeof sections / sizeof *sections;

/* The bits of a tensor of this name; a list's are all from its first on. */
static unsigned bit_of(const char *const *names, bool list, const char *word, size_t n) {
    for (int i = 0; names[i]; i++)
        if (strlen(names[i]) == n && !strncmp(names[i], word, n)) return list && !names[i + 1] ? ~0u << i : 1u << i;
    return 0;
}

/* Words become bits of inputs and outputs; where one of the two may not be named, its place is NULL. */
static bool bits_of(const row *r, const char *field, const char *words, unsigned *in, unsigned *out) {
    for (const char *p = words; p && *p; p += strspn(p, ", ")) {
        size_t n = strcspn(p, ", ");
        unsigned i = in ? bit_of(r->in_name, r->in_max == VARIADIC, p, n) : 0;
        unsigned o = out ? bit_of(r->out_name, false, p, n) : 0;
        if (!i == !o) {
            fprintf(stderr, "ops.def: %s(%.*s) of op %s names %s\n", field, (int)n, p, r->name,
                    i ? "an input and an output" : "nothing that it has");
            return false;
        }
        if (in) *in |= i;
        if (out) *out |= o;
        p += n;
    }
    return true;
}

static bool has_attr(const row *r, const char *name) {
    for (int i = 0; i < r->nattr; i++)
        if (!strcmp(r->attrs[i].name, name)) return true;
    return false;
}

static bool of_family(const row *r, const char *family) { return r->family && !strcmp(r->family, family); }

/* Do all ops of the family have the attribute? */
static bool shared(const char *family, const char *name) {
    for (int i = 0; i < nrows; i++)
        if (of_family(&rows[i], family) && !has_attr(&rows[i], name)) return false;
    return true;
}

/* What a family shares stands first, in the order of its first op. */
static int shared_place(const row *r, const char *name, int *count) {
    const row *first = rows;
    int place = -1;
    *count = 0;
    while (!of_family(first, r->family)) first++;
    for (int i = 0; i < first->nattr; i++) {
        if (!shared(r->family, first->attrs[i].name)) continue;
        if (!strcmp(first->attrs[i].name, name)) place = *count;
        ++*count;
    }
    return place;
}

static void place_attrs(row *r, bool reversed) {
    int nshared = 0, own = 0;
    for (int i = 0; i < r->nattr; i++) {
        int place = r->family ? shared_place(r, r->attrs[i].name, &nshared) : -1;
        if (place >= 0)
            r->place[i] = reversed ? nshared - 1 - place : place;
        else
            r->place[i] = reversed ? r->nattr - 1 - own++ : nshared + own++;
    }
}

bool read_rows(bool reversed) {
    bool ok = true;
    for (row *r = rows; r < rows + nrows; r++) {
        while (r->attrs[r->nattr].name) r->nattr++;
        ok &= bits_of(r, "SAVE", r->save, &r->save_in, &r->save_out);
        ok &= bits_of(r, "MUTATES", r->mutates, &r->mutated, NULL);
        ok &= bits_of(r, "NONDIFF_IN", r->nondiff_in, &r->without_in, NULL);
        ok &= bits_of(r, "NONDIFF_OUT", r->nondiff_out, NULL, &r->without_out);
        if (r->how != OP_COMPOSITE && !r->grad && !r->nodiff) {
            fprintf(stderr, "ops.def: op %s needs GRAD(rule), or NODIFF if it has no gradient by nature\n", r->name);
            ok = false;
        }
    }
    for (int i = 0; i < nrows; i++) place_attrs(&rows[i], reversed);
    for (int i = 0; i < nsections; i++) sections[i].end = i + 1 < nsections ? sections[i + 1].first : nrows;
    return ok;
}
