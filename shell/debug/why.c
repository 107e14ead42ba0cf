/* `why`: the cause of a NaN, of the value of a gradient, of one that is zero or missing. */
#include <string.h>

#include "debug/debug.h"
#include "dlcore/create.h"
#include "dlcore/view.h"
#include "lang/eval/interp.h"

/* Is the argument this bare word? */
static int is_word(const dlsh_node *n, const char *word) { return n->kind == DLSH_N_NAME && !strcmp(n->text, word); }

static const dlsh_node *without_grad(const dlsh_node *n) {
    return n->kind == DLSH_N_FIELD && !strcmp(n->text, "grad") ? n->kids[0] : n;
}

/* Numbers of the elements that an index picks of a tensor. */
static dl_status number_part(dlsh_session *s, const dl_tensor *of, const dlsh_node *index, dlsh_value *part) {
    DLSH_SCOPED_GRAD_MODE(0);
    const double n = (double)dl_numel(of);
    DLSH_OWNED dl_tensor *flat = dl_arange(0, &n, 1, DL_I64, 0),
                         *all = flat ? dl_reshape(flat, dl_shape(of), dl_ndim(of)) : NULL;
    return all ? dlsh_tensor_index(s, all, index, part) : dl_failed();
}

/* The tensor of `w`, `w.grad`, `w[2]` or `w.grad[2]`; of the last two also the numbers of the elements. */
static dl_status whose(const dlsh_args *a, dlsh_value *v, dlsh_value *part) {
    const dlsh_node *n = dlsh_arg_node(a, "whose");
    if (!n) return dlsh_arg_fail(a, "what", DL_ERR_VALUE, "why none w, why zero w.grad", "whose gradient?");
    if (n->kind == DLSH_N_INDEX) {
        DLSH_TRY(dlsh_eval(dlsh_arg_session(a), without_grad(n->kids[0]), v));
        if (v->type == DLSH_TENSOR) return number_part(dlsh_arg_session(a), v->as.tensor, n, part);
        dlsh_drop(*v);
        *v = dlsh_void();
    }
    DLSH_TRY(dlsh_eval(dlsh_arg_session(a), without_grad(n), v));
    if (v->type == DLSH_TENSOR) return DL_OK;
    DLSH_DROPPED dlsh_value other = *v;
    *v = dlsh_void();
    return dlsh_arg_fail(a, "whose", DL_ERR_TYPE, "why none w", "a gradient is that of a tensor, not of %s",
                         dlsh_a(other));
}

static dl_status why_run(const dlsh_args *a) {
    const dlsh_node *n = dlsh_arg_node(a, "what");
    int zero = is_word(n, "zero"), none = n->kind == DLSH_N_NONE;
    if (zero || none) {
        DLSH_DROPPED dlsh_value v = dlsh_void(), part = dlsh_void();
        DLSH_TRY(whose(a, &v, &part));
        if (none) return dlsh_why_none(a, v.as.tensor);
        return part.type == DLSH_TENSOR ? dlsh_why_zero_part(a, v.as.tensor, part.as.tensor)
                                        : dlsh_why_zero(a, v.as.tensor);
    }
    if (is_word(n, "nan")) return dlsh_why_nan(a);
    if (is_word(n, "inf")) return dlsh_why_inf(a);
    if (n->kind == DLSH_N_INT) return dlsh_why_term(a, n->num.i);
    const dlsh_node *field = n->kind == DLSH_N_INDEX ? n->kids[0] : n;
    if (field->kind == DLSH_N_FIELD && !strcmp(field->text, "grad")) return dlsh_why_gradient(a, n);
    return dlsh_arg_fail(a, "what", DL_ERR_VALUE, "why nan, why inf, why w.grad[3, 2], why zero w.grad, why none w",
                         "there is no explanation of %s", dlsh_arg_text(a, "what"));
}

const dlsh_command why_commands[] = {
    DLSH_ROW(
        "why", DLSH_REPORT, why_run, "why nan | why inf | why TENSOR.grad[I, ...] | why zero TENSOR | why none TENSOR",
        "Explains a NaN or a gradient. why nan: the op that first made one from operands without, forward, in a "
        "gradient or in an optimizer's step, with its line, its operands there, the reason and a remedy; the first one "
        "since the script, the cell or the entry of the prompt began is kept. why inf: the same of an infinity, as of "
        "log(0), "
        "which a NaN often begins with. The others look at what was recorded "
        "under `set record full`. why w.grad[3, 2]: the terms that an element of a gradient is the sum of, the "
        "largest first; without an index the largest element; why 1 follows term 1 further back. why zero: the op "
        "that passes no gradient on, also of a part, as in why zero w.grad[2]. why none: where the path from a tensor "
        "to the loss ends.",
        DLSH_PARAMS(
            {"what", DLSH_ARG_SYNTAX, .doc = "nan, inf, zero, none, an element of a gradient, or the number of a term"},
            {"whose", DLSH_ARG_SYNTAX, .flags = DLSH_OPTIONAL, .doc = "the tensor, after zero and none"}),
        .examples = "why nan\nset record full; w = param(ones(2)); backward sum(w * w); why w.grad[1]; why 1\n"
                    "l = sum(relu(w - 5)); backward l; why zero w; u = param(ones(2)); why none u"),
    {0}};
