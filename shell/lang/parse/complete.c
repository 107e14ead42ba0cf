/* Whether a text is complete: it is incomplete exactly when its syntax error stands at its end. */
#include "lang/parse/parse.h"
#include "lang/session.h"

#include <stdlib.h>
#include <string.h>

static const dlsh_command *find(void *s, const char *word, size_t len) {
    const dlsh_command *row = dlsh_find_command(s, word, len);
    return row && (row->flags & DLSH_ONLY_FUNCTION) != DLSH_ONLY_FUNCTION ? row : NULL;
}

dlsh_command_lookup *dlsh_command_finder(void) { return find; }

dlsh_completeness dlsh_is_complete(const dlsh_session *s, const char *text, size_t len) {
    /* the newline that will follow belongs to the text: `show` alone lacks its argument, `if x` its block */
    DLSH_FREED char *line = malloc(len + 2);
    if (!line) return DLSH_INVALID;
    memcpy(line, text, len);
    memcpy(line + len, "\n", 2);
    dlsh_syntax_error err = {.code = DL_ERR_MEMORY};
    dlsh_unit *u = dlsh_unit_new("", line, len + 1);
    if (u) dlsh_parse(u, find, (void *)s, &err);
    dlsh_unit_drop(u);
    return !err.code ? DLSH_COMPLETE : err.at_end ? DLSH_INCOMPLETE : DLSH_INVALID;
}
