/* Command statements: from the tree to arguments of a row. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/eval/args.h"

static const char *item_name(const void *a, int i) {
    const char *name = ((const dlsh_args *)a)->items[i].name;
    return name ? name : "";
}

/* Of few items the names are compared, of more they are looked up. */
static int is_given(const dlsh_args *a, const dl_names *given, const char *name) {
    if (a->items != a->few) return dl_names_find(given, name, (long)strlen(name), item_name, a) >= 0;
    int i = 0;
    while (i < a->n && strcmp(item_name(a, i), name) != 0) i++;
    return i < a->n;
}

static dl_status gather(dlsh_args *a, dl_names *given, const dlsh_node *k) {
    dlsh_session *s = a->s;
    dlsh_arg_item it = {.value = dlsh_void(), .node = k->nkids ? k->kids[0] : k};
    if (k->kind == DLSH_N_OPTION) {
        it.name = k->text;
        it.option = dlsh_command_option(a->cmd, k->text, strlen(k->text));
        if (is_given(a, given, k->text))
            return dlsh_at(s, k, dlsh_fail(DL_ERR_VALUE, NULL, "option %s is given twice", k->text));
        if (!k->nkids)
            it.value = dlsh_bool(1);
        else if (it.option || !(a->cmd->flags & DLSH_OPEN_SYNTAX))
            DLSH_TRY(dlsh_eval_argument(s, k->kids[0], &it.value));
    } else {
        it.param = &a->cmd->params[k->num.i];
        if (it.param->kind != DLSH_ARG_STATEMENT && it.param->kind != DLSH_ARG_BLOCK &&
            it.param->kind != DLSH_ARG_SYNTAX)
            DLSH_TRY(dlsh_eval_argument(s, k->kids[0], &it.value));
    }
    a->items[a->n++] = it;
    return a->items == a->few ? DL_OK : dl_names_add(given, a->n - 1, item_name, a);
}

static dlsh_flow run_command(dlsh_session *s, const dlsh_node *top, const dlsh_node *n, int silent) {
    const dlsh_command *row = n->num.cmd;
    const dlsh_node *tail = n->nkids ? n->kids[n->nkids - 1] : NULL;
    if (tail && tail->kind == DLSH_N_COMMAND) return run_command(s, top, tail, silent);
    dlsh_args a = {.s = s, .cmd = row, .node = n, .self = dlsh_void(), .flow = DLSH_GO};
    dlsh_value result = dlsh_void();
    dl_names given = {0};
    dl_status st = dlsh_args_reserve(&a, n->nkids);
    for (int i = 0; i < n->nkids && !st; i++) st = gather(&a, &given, n->kids[i]);
    dl_names_free(&given);
    if (st) {
        for (int i = 0; i < a.n; i++) dlsh_drop(a.items[i].value);
        if (a.items != a.few) free(a.items);
        return dlsh_at(s, n, st), DLSH_FAILED;
    }
    if (!row->run && !row->act)
        return dlsh_at(s, n, dlsh_fail(DL_ERR_TYPE, row->usage, "%s needs a subcommand", row->name)), DLSH_FAILED;
    if (dlsh_run_command(&a, silent, &result)) return DLSH_FAILED;
    if (row->flags & DLSH_SHOW_RESULT) {
        if (dlsh_at(s, n, dlsh_show_value(s, top, silent, result))) return DLSH_FAILED;
    } else
        dlsh_drop(result);
    return s->exiting ? DLSH_FLOW_EXIT : a.flow;
}

/* A word alone is a command also where a variable has its name. */
static void warn_of_variable(dlsh_session *s, const dlsh_node *n) {
    const char *name = n->num.cmd->name;
    char hint[120];
    if (!dlsh_get(s, name)) return;
    snprintf(hint, sizeof hint, "a name in parentheses is the variable: (%s)", name);
    dlsh_warn_at(s, n->span, hint, "this is the command %s, not the variable of that name", name);
}

dlsh_flow dlsh_exec_command(dlsh_session *s, const dlsh_node *n) {
    if (!n->nkids) warn_of_variable(s, n);
    return run_command(s, n, n, n->flags & DLSH_SILENT);
}
