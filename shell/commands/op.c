/* op: an op of the table made from C functions, at run time. */
#include <string.h>

#include "ffi/call/userop.h"

/* Checks that the name of an input or number is new and not reserved. */
static dl_status check_name(const dlsh_args *a, const dlsh_op_plan *p, const char *name) {
    int taken = !strcmp(name, "n") || !strcmp(name, "stream");
    if (taken)
        return dlsh_arg_fail(a, "signature", DL_ERR_NAME, "choose another name",
                             !strcmp(name, "n") ? "'n' is the number of elements in every op"
                                                : "'stream' is the stream to launch on in every op");
    for (int i = 0; i < p->nin; i++) taken |= !strcmp(p->in[i], name);
    for (int i = 0; i < p->nattr; i++) taken |= !strcmp(p->attr[i], name);
    return taken ? dlsh_arg_fail(a, "signature", DL_ERR_NAME, NULL, "two things of the op are called '%s'", name)
                 : DL_OK;
}

/* A default as text: "3" an integer, "3.0" floating, "true". 0: it is not a number. */
static int put_default(dlsh_buf *b, const dlsh_node *v) {
    int minus = v && v->kind == DLSH_N_UNARY && v->op == DLSH_OP_NEG;
    if (minus) v = v->kids[0];
    if (!v) return 0;
    if (minus) dlsh_buf_puts(b, "-");
    if (v->kind == DLSH_N_INT)
        dlsh_buf_printf(b, "%ld", v->num.i);
    else if (v->kind == DLSH_N_BOOL && !minus)
        dlsh_buf_puts(b, v->num.i ? "true" : "false");
    else if (v->kind == DLSH_N_FLOAT)
        dlsh_buf_float(b, v->num.f);
    else
        return 0;
    dlsh_buf_add(b, "", 1);
    return 1;
}

/* name(x, y, slope=0.1): inputs, then numbers with their defaults. */
static dl_status read_signature(const dlsh_args *a, const dlsh_node *n, dlsh_op_plan *p, dlsh_buf *defaults) {
    static const char usage[] = "op NAME(INPUT, ...[, NUMBER=DEFAULT ...]) forward=F backward=B";
    if (!n || n->kind != DLSH_N_CALL || n->kids[0]->kind != DLSH_N_NAME || n->nkids < 2)
        return dlsh_arg_fail(a, "signature", DL_ERR_SYNTAX, usage,
                             "expected the op's name with its inputs in brackets");
    p->name = n->kids[0]->text;
    for (int i = 1; i < n->nkids; i++) {
        const dlsh_node *k = n->kids[i], *v = k->kind == DLSH_N_KWARG ? k->kids[0] : NULL;
        if (k->kind == DLSH_N_NAME || v) DLSH_TRY(check_name(a, p, k->text));
        if (!v && k->kind == DLSH_N_NAME && p->nin < DLSH_OP_MAX_IN && !p->nattr) {
            p->in[p->nin++] = k->text;
            continue;
        }
        size_t at = defaults->n;
        if (v && p->nattr < DLSH_OP_MAX_ATTR && !put_default(defaults, v))
            return dlsh_arg_fail(a, "signature", DL_ERR_SYNTAX, "slope=0.1, k=3, on=true",
                                 "the default of '%s' is not a number", k->text);
        if (!v || p->nattr == DLSH_OP_MAX_ATTR)
            return dlsh_arg_fail(a, "signature", DL_ERR_SYNTAX, usage,
                                 "an op has up to 8 inputs, then up to 8 numbers with defaults");
        p->attr[p->nattr] = k->text;
        p->attr_default[p->nattr++] = (const char *)at; /* an offset until the buffer stops growing */
    }
    for (int i = 0; i < p->nattr; i++) p->attr_default[i] = defaults->s + (size_t)p->attr_default[i];
    if (!p->nin) return dlsh_arg_fail(a, "signature", DL_ERR_SYNTAX, usage, "an op needs at least one input");
    return defaults->failed ? dlsh_no_memory("an op") : DL_OK;
}

static dlsh_value option(const dlsh_args *a, const char *name) {
    const dlsh_value *v = dlsh_arg(a, name);
    return v ? *v : dlsh_void();
}

static dl_status op_run(const dlsh_args *a) {
    dlsh_op_plan p = {.doc = dlsh_arg_str(a, "doc"),
                      .visible = (int)dlsh_arg_int(a, "visible"),
                      .forward = option(a, "forward"),
                      .backward = option(a, "backward"),
                      .cuda_forward = option(a, "cuda"),
                      .cuda_backward = option(a, "cuda_backward"),
                      .shape = option(a, "shape"),
                      .sample = option(a, "sample")};
    DLSH_SCOPED_BUF defaults = {0};
    DLSH_TRY(read_signature(a, dlsh_arg_node(a, "signature"), &p, &defaults));
    if (p.forward.type == DLSH_VOID && p.cuda_forward.type == DLSH_VOID)
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "forward=F, a C function", "op %s needs a forward function",
                             p.name);
    if (dlsh_arg(a, "visible") && p.visible < 1)
        return dlsh_arg_fail(a, "visible", DL_ERR_VALUE, NULL, "visible= is 1 or more");
    if (p.shape.type != DLSH_VOID && !dlsh_callable(p.shape))
        return dlsh_arg_fail(a, "shape", DL_ERR_TYPE, NULL, "shape= takes a function of the inputs");
    return dlsh_userop_define(dlsh_arg_session(a), &p);
}

const dlsh_command op_commands[] = {
    DLSH_ROW(
        "op", DLSH_ACTION, op_run, "op NAME(INPUT, ...[, NUMBER=DEFAULT ...]) forward=F [backward=B] ...",
        "Makes an op from C functions: it can be called, recorded by autograd, used as a layer and checked by "
        "gradcheck. The names of the functions' parameters say what they are: an input, a result, gNAME for the "
        "gradient of "
        "either, a number, n for the number of elements, NAME_n and NAME_shape for those of a tensor.",
        DLSH_PARAMS(
            {"signature", DLSH_ARG_SYNTAX, .doc = "the op's name, its inputs, and numbers with their defaults"}),
        DLSH_OPTIONS(
            {"forward", DLSH_OPT_VALUE, NULL, .doc = "the C function that computes the results", .complete = "var"},
            {"backward", DLSH_OPT_VALUE, NULL,
             .doc = "the C function that computes the gradients; without it the op has none", .complete = "var"},
            {"cuda", DLSH_OPT_VALUE, NULL, .doc = "the function of a CUDA block that computes the results on a GPU",
             .complete = "var"},
            {"cuda_backward", DLSH_OPT_VALUE, NULL, .doc = "its gradients there", .complete = "var"},
            {"shape", DLSH_OPT_VALUE, NULL,
             .doc = "a function of the inputs and numbers that gives the sizes of the results; else the first input's",
             .complete = "var"},
            {"visible", DLSH_OPT_INT, NULL,
             .doc = "how many results callers see; the rest serve the backward function (all)"},
            {"sample", DLSH_OPT_VALUE, NULL, .doc = "sizes of inputs to check gradients with, [[5, 4], [4]]",
             .want = "list"},
            {"doc", DLSH_OPT_STRING, NULL, .doc = "what it computes, for help"}),
        .examples = "op sq(x) forward=sq_f backward=sq_b"),
    {0}};
