/* A batch norm folded into the layer before it: fuse_conv_bn_eval, fuse_linear_bn_eval. */
#include "commands/nets/nets.h"

/* data: how the parameter for the layer is called. */
static dl_status fold_run(const dlsh_args *a, dlsh_value *result) {
    dl_module *m = dl_module_fold_norm(dlsh_arg_handle(a, dlsh_arg_data(a), &dlsh_net_class),
                                       dlsh_arg_handle(a, "bn", &dlsh_net_class));
    if (!m) return dl_failed();
    dl_status st = dlsh_give(dlsh_net_value(m), result);
    dl_module_unref(m);
    return st;
}

#define FOLDED(what)                                                                                                   \
    "A " what " that computes what a " what                                                                            \
    " and the batch norm behind it compute in evaluation: a new layer. Nets in "                                       \
    "evaluation run the two as one where they can; this makes one of them that can be saved and handed on."
#define BN_PARAM                                                                                                       \
    { "bn", .want = "net", .doc = "the batchnorm behind it" }

const dlsh_command fold_commands[] = {
    DLSH_FN_ROW(
        "fuse_conv_bn_eval", fold_run, "fuse_conv_bn_eval(CONV, BN)", FOLDED("convolution"), .data = "conv",
        DLSH_PARAMS({"conv", .want = "net", .doc = "a convolution, also a transposed one"}, BN_PARAM),
        DLSH_OPTIONS({"transpose", DLSH_OPT_BOOL, "false", .doc = "for PyTorch's sake: the layer itself tells"}),
        .examples = "net m { conv 8 k=3 -> batchnorm }\nm(randn(4, 3, 8, 8)); m.eval()\n"
                    "c = fuse_conv_bn_eval(m.conv0, m.batchnorm0); x = randn(2, 3, 8, 8)\n"
                    "allclose(c(x), m(x), atol=1e-5)"),
    DLSH_FN_ROW("fuse_linear_bn_eval", fold_run, "fuse_linear_bn_eval(LINEAR, BN)", FOLDED("linear layer"),
                .data = "linear", DLSH_PARAMS({"linear", .want = "net", .doc = "a linear layer"}, BN_PARAM),
                .examples = "net m { linear 8 -> batchnorm }\nm(randn(4, 3)); m.eval()\n"
                            "fuse_linear_bn_eval(m.linear0, m.batchnorm0)"),
    {0}};
