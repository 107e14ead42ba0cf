/* A command table with every kind of parameter and option, for the tests of parsing. */
#ifndef TESTS_LANG_ROWS_H
#define TESTS_LANG_ROWS_H

#include <string.h>

#include "lang/command.h"

static const dlsh_param p_step[] = {{.name = "trainer", .kind = DLSH_ARG_EXPR, .doc = "a trainer"},
                                    {.name = "n", .kind = DLSH_ARG_EXPR, .flags = DLSH_OPTIONAL, .doc = "steps"},
                                    {0}};
static const dlsh_option o_step[] = {{"epochs", DLSH_OPT_INT, "1", "epochs", NULL, NULL},
                                     {"quiet", DLSH_OPT_BOOL, "false", "say nothing", NULL, NULL},
                                     {"metric", DLSH_OPT_WORD, NULL, "metric", NULL, NULL},
                                     {"opt", DLSH_OPT_VALUE, NULL, "any value", NULL, NULL},
                                     {0}};
static const dlsh_param p_rest[] = {{.name = "condition", .kind = DLSH_ARG_REST, .doc = "an expression"}, {0}};
static const dlsh_param p_words[] = {{.name = "metric", .kind = DLSH_ARG_WORD, .doc = "a metric"},
                                     {.name = "runs", .kind = DLSH_ARG_WORD, .flags = DLSH_VARIADIC, .doc = "runs"},
                                     {0}};
static const dlsh_param p_values[] = {
    {.name = "values", .kind = DLSH_ARG_EXPR, .flags = DLSH_VARIADIC, .doc = "values"}, {0}};
static const dlsh_param p_statement[] = {{.name = "statement", .kind = DLSH_ARG_STATEMENT, .doc = "a statement"}, {0}};
static const dlsh_param p_block[] = {{.name = "block", .kind = DLSH_ARG_BLOCK, .doc = "statements"}, {0}};
static const dlsh_param p_sub[] = {{.name = "what", .kind = DLSH_ARG_SUBCOMMAND, .doc = "a subcommand"}, {0}};
static const dlsh_param p_file[] = {{.name = "net", .kind = DLSH_ARG_EXPR, .doc = "a net"},
                                    {.name = "file", .kind = DLSH_ARG_WORD, .doc = "a file"},
                                    {0}};
static const dlsh_command run_subs[] = {{.name = "show", .usage = "run show RUN", .params = p_words},
                                        {.name = "delete", .usage = "run delete RUN", .params = p_words},
                                        {0}};

static const dlsh_command test_rows[] = {
    {.name = "step",
     .flags = DLSH_ACTION | DLSH_FUNCTION,
     .usage = "step TRAINER [N]",
     .params = p_step,
     .options = o_step},
    {.name = "assert", .usage = "assert CONDITION", .params = p_rest},
    {.name = "plot", .usage = "plot METRIC [RUN...]", .params = p_words},
    {.name = "best", .usage = "best METRIC", .params = p_words},
    {.name = "show", .usage = "show VALUE...", .params = p_values},
    {.name = "time", .usage = "time STATEMENT", .params = p_statement},
    {.name = "no_grad", .usage = "no_grad { }", .params = p_block},
    {.name = "run", .usage = "run show|delete RUN", .params = p_sub, .subs = run_subs},
    {.name = "save", .usage = "save NET FILE", .params = p_file},
    {.name = "runs", .usage = "runs"},
    {.name = "args", .flags = DLSH_OPEN_OPTIONS, .usage = "args NAME=DEFAULT..."},
    {0}};

static inline const dlsh_command *find_test_row(void *ctx, const char *word, size_t len) {
    (void)ctx;
    for (const dlsh_command *c = test_rows; c->name; c++)
        if (strlen(c->name) == len && !memcmp(c->name, word, len)) return c;
    return NULL;
}

#endif
