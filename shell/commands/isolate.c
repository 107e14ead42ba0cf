/* isolate: a call of C in a helper process. */
#include "ffi/isolate/isolate.h"
#include "lang/eval/interp.h"

static dl_status call_of(const dlsh_args *a, dlsh_value f, const dlsh_value *values, int n, dlsh_value *result) {
    dlsh_cfunc *c = dlsh_cfunc_of(f);
    if (!c)
        return dlsh_arg_fail(a, "call", DL_ERR_TYPE, dlsh_callable(f) ? "functions of the language cannot crash" : NULL,
                             "isolate calls C functions, not %s%s", dlsh_a(f),
                             dlsh_callable(f) ? " of the language" : "");
    dlsh_callargs args = {.n = n, .values = values};
    DLSH_TRY(dlsh_isolate(dlsh_arg_session(a), c, &args, result));
    if (result->type == DLSH_NONE && !dlsh_arg_called(a)) *result = dlsh_void(); /* a void function shows nothing */
    return DL_OK;
}

/* isolate f(x, y): function and arguments are evaluated here. */
static dl_status run_tree(const dlsh_args *a, const dlsh_node *n, dlsh_value *result) {
    enum { MAX = 64 };
    dlsh_value v[MAX + 1] = {{0}};
    int made = 0;
    dl_status st = DL_OK;
    if (n->kind != DLSH_N_CALL || n->nkids > MAX)
        return dlsh_arg_fail(a, "call", DL_ERR_SYNTAX, "isolate f(x)", "expected a call of a C function");
    for (; made < n->nkids && !st; made++) {
        v[made] = dlsh_void();
        st = n->kids[made]->kind == DLSH_N_KWARG
                 ? dlsh_arg_fail(a, "call", DL_ERR_SYNTAX, NULL, "arguments of an isolated call have no names")
                 : dlsh_eval(dlsh_arg_session(a), n->kids[made], &v[made]);
    }
    if (!st) st = call_of(a, v[0], v + 1, made - 1, result);
    for (int i = 0; i < made; i++) dlsh_drop(v[i]);
    return st;
}

static dl_status isolate_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_node *n = dlsh_arg_node(a, "call");
    if (!dlsh_arg_called(a)) return run_tree(a, n, result);
    dlsh_value values[64];
    int count = dlsh_arg_count(a, "arguments");
    if (count > (int)(DLSH_COUNT(values)))
        return dlsh_arg_fail(a, "arguments", DL_ERR_TYPE, NULL, "a call has at most %zu arguments, got %d",
                             DLSH_COUNT(values), count);
    for (int i = 0; i < count; i++) values[i] = *dlsh_arg_at(a, "arguments", i); /* borrowed */
    return call_of(a, *dlsh_arg(a, "call"), values, count, result);
}

const dlsh_command isolate_commands[] = {
    DLSH_ROW("isolate", DLSH_FUNCTION | DLSH_SHOW_RESULT, isolate_run,
             "isolate F(ARGUMENT, ...), or isolate(F, ARGUMENT, ...)",
             "Calls a C function in a helper process, so that a crash cannot damage the session. Numbers, strings and "
             "contiguous tensors are passed to it; what C writes to tensors is copied back.",
             DLSH_PARAMS({"call", DLSH_ARG_SYNTAX,
                          .doc = "a call f(x, ...) of a C function; as isolate(f, x, ...) the function"},
                         {"arguments", .flags = DLSH_VARIADIC, .doc = "of the function, in isolate(f, x, ...)"}),
             .examples = "isolate f(3)"),
    {0}};
