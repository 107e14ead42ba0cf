/* Tensors of layers that a function computes whenever the layer runs: PyTorch's functions of
 * torch.nn.utils.parametrize, and its weight_norm and spectral_norm. */
#include <string.h>

#include "commands/nets/nets.h"

/* ---------------------------------------------------------------- functions as nets */

enum { MOST = 8 }; /* tensors that a function takes, and an inverse gives */

static dl_pack *pack_of(dlsh_value v) {
    dl_tensor *t[MOST];
    int n = 0;
    if (v.type == DLSH_TENSOR) return dl_pack_new(&v.as.tensor, 1, NULL, NULL);
    for (int i = 0; v.type == DLSH_LIST && i < v.as.list->n && i < MOST; i++) {
        if (v.as.list->items[i].type != DLSH_TENSOR) break;
        t[n++] = v.as.list->items[i].as.tensor;
    }
    if (v.type == DLSH_LIST && n && n == v.as.list->n) return dl_pack_new(t, n, NULL, NULL);
    return dlsh_fail(DL_ERR_TYPE, "return a tensor",
                     "a parametrization gives a tensor, its inverse one or a list, got %s", dlsh_a(v)),
           NULL;
}

static dl_pack *forward(void *ctx, DLSH_UNUSED dl_module *net, dl_pack *in) {
    dlsh_callback *cb = ctx;
    dlsh_value values[MOST];
    const int n = dl_pack_count(in) < MOST ? dl_pack_count(in) : MOST;
    for (int i = 0; i < n; i++) values[i] = dlsh_tensor(dl_ref(dl_pack_tensor(in, i)));
    DLSH_DROPPED dlsh_value out = dlsh_void();
    dl_status st = dlsh_call(cb->session, cb->fn, &(dlsh_callargs){n, values, NULL}, &out);
    for (int i = 0; i < n; i++) dlsh_drop(values[i]);
    return st ? NULL : pack_of(out);
}

/* A function of the language as a net; a net is one. Owned; NULL: a recorded failure. */
static dl_module *as_net(const dlsh_args *a, dlsh_value fn) {
    dl_module *m = dlsh_unwrap(fn, &dlsh_net_class);
    if (m) return dl_module_ref(m);
    dlsh_callback *cb = dlsh_callback_new(dlsh_arg_session(a), fn);
    dl_code *code = cb ? dl_code_new((dl_code_spec){
                             .forward = forward, .key = dlsh_callback_key, .ctx = cb, .release = dlsh_callback_free})
                       : NULL;
    if (!code) return NULL;
    const char *name = dlsh_function_name(fn);
    m = dl_net_build_code(name && *name ? name : "function", NULL, 0, code, NULL, NULL);
    dl_code_unref(code);
    return m;
}

/* The inverse that is given, or that the net has as a method; VOID: none. Owned. */
static dl_status inverse_of(const dlsh_args *a, dlsh_value *out) {
    if (dlsh_given(a, "right_inverse")) {
        *out = dlsh_ref(*dlsh_arg(a, "right_inverse"));
        return DL_OK;
    }
    dl_module *m = dlsh_unwrap(*dlsh_arg(a, "function"), &dlsh_net_class);
    dl_status st = m ? dlsh_net_function(m, "right_inverse", out) : DL_OK;
    return st == DL_ERR_NAME && !dl_error_last() ? DL_OK : st;
}

static dl_module *layer_of(const dlsh_args *a) { return dlsh_arg_handle(a, "layer", &dlsh_net_class); }

static dl_status give_layer(const dlsh_args *a, dlsh_value *result) {
    *result = dlsh_ref(*dlsh_arg(a, "layer"));
    return DL_OK;
}

/* ---------------------------------------------------------------- the functions */

static dl_status register_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value fn = *dlsh_arg(a, "function");
    if (!dlsh_callable(fn))
        return dlsh_arg_fail(a, "function", DL_ERR_TYPE, "register_parametrization(m.fc, \"weight\", fn (w) { ... })",
                             "a parametrization is a function or a net, got %s", dlsh_a(fn));
    dl_error_clear();
    DLSH_DROPPED dlsh_value inverse = dlsh_void();
    DLSH_TRY(inverse_of(a, &inverse));
    const int has = dlsh_callable(inverse);
    DLSH_ENDED(dl_module_unref) dl_module *f = as_net(a, fn), *back = f && has ? as_net(a, inverse) : NULL;
    if (!f || (has && !back)) return dl_failed();
    DLSH_TRY(dl_module_parametrize_by(layer_of(a), dlsh_arg_str(a, "name"), f, back, dlsh_arg_bool(a, "unsafe")));
    return give_layer(a, result);
}

static dl_status remove_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_TRY(
        dl_module_unparametrize(layer_of(a), dlsh_arg_str(a, "name"), NULL, dlsh_arg_bool(a, "leave_parametrized")));
    return give_layer(a, result);
}

static dl_status is_parametrized_run(const dlsh_args *a, dlsh_value *result) {
    const char *name = dlsh_given(a, "name") ? dlsh_arg_str(a, "name") : NULL;
    *result = dlsh_bool(dl_module_is_parametrized(layer_of(a), name, NULL));
    return DL_OK;
}

static dl_status weight_norm_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value dim = *dlsh_arg(a, "dim");
    const dl_arg arg = {.name = "dim", .kind = DL_ARG_INT, .i = dim.type == DLSH_INT ? dim.as.i : -1};
    DLSH_TRY(dl_module_parametrize(layer_of(a), dlsh_arg_str(a, "name"), "weight_norm", &arg, 1));
    return give_layer(a, result);
}

static dl_status spectral_norm_run(const dlsh_args *a, dlsh_value *result) {
    const dl_arg args[] = {
        {.name = "n_power_iterations", .kind = DL_ARG_INT, .i = dlsh_arg_int(a, "n_power_iterations")},
        {.name = "eps", .kind = DL_ARG_FLOAT, .f = dlsh_arg_float(a, "eps")},
        {.name = "dim", .kind = DL_ARG_INT, .i = dlsh_arg_int(a, "dim")}};
    const int dim = dlsh_given(a, "dim") && dlsh_arg(a, "dim")->type == DLSH_INT;
    DLSH_TRY(dl_module_parametrize(layer_of(a), dlsh_arg_str(a, "name"), "spectral_norm", args, dim ? 3 : 2));
    return give_layer(a, result);
}

/* data: the way that goes. */
static dl_status remove_way_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_TRY(dl_module_unparametrize(layer_of(a), dlsh_arg_str(a, "name"), dlsh_arg_data(a), 1));
    return give_layer(a, result);
}

/* ---------------------------------------------------------------- the rows */

#define LAYER                                                                                                          \
    { "layer", .want = "net", .doc = "a layer with weights, or a net that holds the tensor itself" }
#define NAME                                                                                                           \
    { "name", .want = "string", .doc = "its tensor: \"weight\"" }
#define NAME_OPTION                                                                                                    \
    { "name", DLSH_OPT_STRING, "weight", .doc = "its tensor" }
#define A_NET "net m { fc: linear 3 }\nm(randn(2, 3));\n"

const dlsh_command parametrize_commands[] = {
    DLSH_ACT_ROW(
        "register_parametrization", register_run, "register_parametrization(LAYER, NAME, FUNCTION, right_inverse=)",
        "Lets a function compute a tensor of a layer whenever the layer runs, or the tensor is read. What it takes is "
        "trained: parametrizations.NAME.original. Further functions are applied to what the former ones gave. A net "
        "may stand for the function; its parameters are trained, and its method right_inverse is its inverse.",
        DLSH_PARAMS(LAYER, NAME, {"function", .doc = "from tensor to tensor, or a net"}),
        DLSH_OPTIONS({"right_inverse", DLSH_OPT_VALUE,
                      .doc = "makes what is trained from a tensor, when it begins and when the tensor is assigned"},
                     {"unsafe", DLSH_OPT_BOOL, "false", .doc = "the function may change shape and dtype"}),
        .examples = A_NET "register_parametrization(m.fc, \"weight\", fn (w) { return w.triu() + w.triu(1).T })\n"
                          "equal(m.fc.weight, m.fc.weight.T)\nkeys(m.state())"),
    DLSH_ACT_ROW("remove_parametrizations", remove_run, "remove_parametrizations(LAYER, NAME)",
                 "Makes a computed tensor of a layer a parameter again, with the value that it has now.",
                 DLSH_PARAMS(LAYER, NAME),
                 DLSH_OPTIONS({"leave_parametrized", DLSH_OPT_BOOL, "true", .doc = "false: with that of its original"}),
                 .examples = A_NET "weight_norm(m.fc);\nremove_parametrizations(m.fc, \"weight\")\nkeys(m.state())"),
    DLSH_FN_ROW(
        "is_parametrized", is_parametrized_run, "is_parametrized(LAYER, NAME)",
        "Is a tensor of a layer computed from others: by a function, a norm, a mask?",
        DLSH_PARAMS(LAYER, {"name", .want = "string", .flags = DLSH_OPTIONAL, .doc = "its tensor; any without it"}),
        .examples = A_NET "is_parametrized(m.fc, \"weight\")"),
    DLSH_ACT_ROW(
        "weight_norm", weight_norm_run, "weight_norm(LAYER)",
        "Computes a weight of a layer that is there as g * v / |v|, which are trained apart; the layer "
        "weightnorm { ... } does so from the start.",
        DLSH_PARAMS(LAYER),
        DLSH_OPTIONS(NAME_OPTION,
                     {"dim", DLSH_OPT_VALUE, "0", .want = "int|none",
                      .doc = "dimension of the rows, which have a length each; -1 or none: one length of the whole"}),
        .examples = A_NET "weight_norm(m.fc)\nm.fc.weight_g"),
    DLSH_ACT_ROW("spectral_norm", spectral_norm_run, "spectral_norm(LAYER)",
                 "Divides a weight of a layer that is there by its largest singular value, which power iteration "
                 "approaches; the layer spectralnorm { ... } does so from the start.",
                 DLSH_PARAMS(LAYER),
                 DLSH_OPTIONS(NAME_OPTION,
                              {"n_power_iterations", DLSH_OPT_INT, "1", .doc = "steps in each pass of training"},
                              {"eps", DLSH_OPT_FLOAT, "1e-12", .doc = "least length that is divided by"},
                              {"dim", DLSH_OPT_VALUE, "none", .want = "int|none",
                               .doc = "dimension of the outputs; 0, of transposed convolutions 1, when absent"}),
                 .examples = A_NET "spectral_norm(m.fc)\nm.fc.weight_u.shape"),
    DLSH_ACT_ROW("remove_weight_norm", remove_way_run, "remove_weight_norm(LAYER)",
                 "Makes the weight of weight_norm(LAYER) a parameter again, with its present value.",
                 DLSH_PARAMS(LAYER), DLSH_OPTIONS(NAME_OPTION), .data = "weight_norm",
                 .examples = A_NET "weight_norm(m.fc);\nremove_weight_norm(m.fc)"),
    DLSH_ACT_ROW("remove_spectral_norm", remove_way_run, "remove_spectral_norm(LAYER)",
                 "Makes the weight of spectral_norm(LAYER) a parameter again, with its present value.",
                 DLSH_PARAMS(LAYER), DLSH_OPTIONS(NAME_OPTION), .data = "spectral_norm",
                 .examples = A_NET "spectral_norm(m.fc);\nremove_spectral_norm(m.fc)"),
    {0}};
