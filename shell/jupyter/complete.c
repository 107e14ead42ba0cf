/* Completion as clients ask for it: names that fit, with what each of them is. */
#include <ctype.h>
#include <string.h>

#include "front/front.h"
#include "jupyter/kernel.h"

/* The length of a name without the bracket of a call, which is for the one who types it. */
static size_t bare(const char *name) {
    size_t n = strlen(name);
    return n > 1 && name[n - 1] == '(' ? n - 1 : n;
}

/* What a name is, in the words that clients have icons for. `before` is the character it stands after. */
static const char *type_of(const char *name, size_t n, char before) {
    static const char *const words[] = {"if",       "else", "while", "for", "in",     "fn",   "return", "break",
                                        "continue", "try",  "net",   "and", "extern", "true", "false",  "none"};
    char last = n ? name[n - 1] : 0;
    if (before == '"' || before == '\'') return "path";
    if (last == '=') return "param";
    for (size_t i = 0; i < DLSH_COUNT(words); i++)
        if (!strcmp(words[i], name)) return "keyword";
    if (last == '(') return before == '.' ? "method" : "function";
    if (before == '.') return "property";
    if (dlsh_get(jup.s, name)) return "instance";
    if (dlsh_find_command(jup.s, name, n)) return "statement";
    return dl_layer_kind(name) ? "class" : "text";
}

/* The reply: strings, and the same with their types for clients that show them (JupyterLab, Notebook 7). */
typedef struct reply {
    const char *code;
    size_t from, to;
    json_t *matches, *types;
} reply;

static void add(reply *r, const char *name, size_t n, const char *type) {
    json_array_append_new(r->matches, jup_text(name, n));
    json_array_append_new(r->types, json_pack("{s:o?, s:s, s:s, s:I, s:I}", "text", jup_text(name, n), "type", type,
                                              "signature", "", "start", (json_int_t)jup_points_of(r->code, r->from),
                                              "end", (json_int_t)jup_points_of(r->code, r->to)));
}

static json_t *finish(reply *r) {
    return json_pack("{s:s, s:o, s:I, s:I, s:{s:o}}", "status", "ok", "matches", r->matches, "cursor_start",
                     (json_int_t)jup_points_of(r->code, r->from), "cursor_end",
                     (json_int_t)jup_points_of(r->code, r->to), "metadata", "_jupyter_types_experimental", r->types);
}

/* The magics that fit a line of nothing but the beginning of one; 0: it is no such line. */
static int add_magics(reply *r, size_t cursor) {
    static const struct {
        const char *name;
        int first; /* in the first line only */
    } all[] = {{"%%c", 1}, {"%%time", 1}, {"%time", 0}};
    const char *code = r->code;
    size_t from = cursor, before;
    while (from > 0 && (isalnum((unsigned char)code[from - 1]) || code[from - 1] == '%')) from--;
    for (before = from; before > 0 && (code[before - 1] == ' ' || code[before - 1] == '\t');) before--;
    if (from == cursor || code[from] != '%' || (before > 0 && code[before - 1] != '\n')) return 0;
    r->from = from;
    for (size_t i = 0; i < DLSH_COUNT(all); i++)
        if (!(all[i].first && before) && !strncmp(all[i].name, code + from, cursor - from))
            add(r, all[i].name, strlen(all[i].name), "magic");
    return 1;
}

json_t *jup_complete(jup_request *request) {
    const char *code;
    size_t len, cursor, start, n;
    if (!jup_code_and_cursor(request, &code, &len, &cursor)) return jup_refused("code");
    reply r = {.code = code, .from = cursor, .to = cursor, .matches = json_array(), .types = json_array()};
    if (add_magics(&r, cursor)) return finish(&r);
    char *text = jup_cell_text(code, cursor, &n), *const * names;
    if (!text) {
        json_decref(r.matches);
        json_decref(r.types);
        return jup_failure("out of memory", "no memory for the cell");
    }
    int count = jup_cell_is_c(code, cursor) ? 0 : dlsh_complete(jup.s, text, n, &start, &names);
    if (count) r.from = start;
    for (int i = 0; i < count; i++) {
        size_t size = bare(names[i]);
        if (i && size == bare(names[i - 1]) && !memcmp(names[i], names[i - 1], size)) continue; /* `train`, `train(` */
        add(&r, names[i], size, type_of(names[i], strlen(names[i]), start ? text[start - 1] : 0));
    }
    free(text);
    return finish(&r);
}
