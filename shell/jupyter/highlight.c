/* Highlighting: the files of notebooks/highlight with the names of this dlsh, which its tables give. */
#include "jupyter/highlight.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "commands/families.h"
#include "lang/parse/lexer.h"
#include "view/console.h"

static const char mode[] =
#include "mode.in.js.inc"
    ;

/* A list of names that stand in a text with blanks between them. */
static void add(json_t *list, const char *names) {
    for (size_t n; (n = strcspn(names, " ")); names += n, names += strspn(names, " "))
        json_array_append_new(list, json_stringn(names, n));
}

/* Rows that begin statements, and rows and ops that are functions. */
static int add_rows(json_t *commands, json_t *functions) {
    dlsh_session *s = dlsh_session_new(dlsh_console(), NULL);
    int good = s && !dlsh_add_families(s);
    for (int i = 0; good && i < dlsh_command_count(s); i++) {
        const dlsh_command *row = dlsh_command_at(s, i);
        if (row->flags & DLSH_FUNCTION) add(functions, row->name);
        if ((row->flags & DLSH_ONLY_FUNCTION) != DLSH_ONLY_FUNCTION) add(commands, row->name);
    }
    dl_op_info op;
    for (int i = 0; dl_op_describe(i, &op); i++)
        if (!op.internal) add(functions, op.name);
    dlsh_session_free(s);
    return good;
}

/* {"keywords": [...], ...}, which is Python, too; NULL: a recorded failure. To be freed. */
static char *names_text(void) {
    json_t *keywords = json_array(), *commands = json_array(), *functions = json_array(), *layers = json_array(),
           *dtypes = json_array();
#define TOK(id, text) text " "
    add(keywords, DLSH_KEYWORDS(TOK) "net extern C CUDA");
#undef TOK
    int good = add_rows(commands, functions);
    for (int i = 0; dl_layer_kind_at(i); i++)
        add(layers, dl_layer_kind_at(i)->name), add(layers, dl_layer_kind_at(i)->alias);
    for (int t = DL_BOOL; t <= DL_C128; t++) add(dtypes, dl_dtype_name((dl_dtype)t));
    json_t *all = json_pack("{s:o, s:o, s:o, s:o, s:o}", "keywords", keywords, "commands", commands, "functions",
                            functions, "layers", layers, "dtypes", dtypes);
    char *text = good && all ? json_dumps(all, 0) : NULL;
    json_decref(all);
    if (good && !text) dlsh_no_memory("the names of highlighting");
    return text;
}

/* Adds a text, in it the names, and the mode where a line asks for that. */
static void fill(dlsh_buf *to, const char *text, const char *names) {
    static const char shared[] = "//= mode.in.js\n", hole[] = "NAMES = {";
    const char *at = strstr(text, shared);
    if (at) {
        dlsh_buf_add(to, text, (size_t)(at - text));
        fill(to, mode, names);
        text = at + sizeof shared - 1;
    } else if ((at = strstr(text, hole))) {
        dlsh_buf_add(to, text, (size_t)(at - text) + sizeof hole - 2);
        dlsh_buf_puts(to, names);
        text = at + sizeof hole; /* after the } */
    }
    dlsh_buf_puts(to, text);
}

dl_status dlsh_highlight(const char *text, dlsh_buf *to) {
    DLSH_FREED char *names = names_text();
    if (!names) return dl_failed();
    fill(to, text, names);
    return to->failed ? DL_ERR_MEMORY : DL_OK;
}
