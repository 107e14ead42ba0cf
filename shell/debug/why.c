/* `why`: the cause of a NaN. */
#include <string.h>

#include "debug/debug.h"

/* Is the argument this bare word? */
static int is_word(const dlsh_node *n, const char *word) {
    return n && n->kind == DLSH_N_NAME && !strcmp(n->text, word);
}

static dl_status why_run(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    if (is_word(dlsh_arg_node(a, "what"), "nan")) return dlsh_why_nan(a);
    return dlsh_arg_fail(a, "what", DL_ERR_VALUE, "why nan", "there is no explanation of %s", dlsh_arg_text(a, "what"));
}

const dlsh_command why_commands[] = {
    DLSH_ROW("why", DLSH_REPORT, why_run, "why nan",
             "Explains a NaN: the op that first made one from operands without, forward, in a gradient or in an "
             "optimizer's step, with its line, its operands there, the reason and a remedy. The first one since the "
             "script, the cell or the entry of the prompt began is kept, whatever became of it later.",
             DLSH_PARAMS({"what", DLSH_ARG_SYNTAX, .doc = "nan"}), .examples = "why nan"),
    {0}};
