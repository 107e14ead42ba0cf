/* The op table described through plain strings, for those outside the library. */
#include <string.h>

#include "core/op.h"

static const char *const kinds[] = {
    [DL_A_INT] = "int",     [DL_A_FLOAT] = "float",   [DL_A_NUM] = "number", [DL_A_BOOL] = "bool",
    [DL_A_DTYPE] = "dtype", [DL_A_DEVICE] = "device", [DL_A_INTS] = "ints",  [DL_A_STR] = "string"};

static int describe(const dl_op *op, dl_op_info *out) {
    if (!op) return 0;
    *out = (dl_op_info){.name = op->name,
                        .doc = op->doc ? op->doc : "",
                        .formula = op->formula ? op->formula : "",
                        .nout = op->visible,
                        .internal = (op->flags & DL_F_INTERNAL) != 0,
                        .differentiable = op->grad || op->compose};
    int max = (int)(sizeof out->args / sizeof *out->args);
    for (int i = 0; i < DL_MAX_NAMED_IN && op->in_name[i] && out->nargs < max; i++) {
        int list = op->in_max == DL_MAX_IN && !op->in_name[i + 1];
        out->args[out->nargs++] = (dl_op_arg){.name = op->in_name[i],
                                              .kind = list ? "tensors" : "tensor",
                                              .dflt = i < op->in_min ? NULL : "none",
                                              .doc = ""};
    }
    for (int i = 0; i < op->nattr && out->nargs < max; i++) {
        const dl_attr *a = &op->attrs[i];
        out->args[out->nargs++] = (dl_op_arg){
            .name = a->name, .kind = kinds[a->kind], .dflt = *a->dflt ? a->dflt : NULL, .doc = a->doc ? a->doc : ""};
    }
    for (int i = 0; i < op->visible && i < DL_MAX_OUT; i++) out->out[i] = op->out_name[i];
    return 1;
}

int dl_op_describe(int i, dl_op_info *out) { return i >= 0 && describe(dl_op_at(i), out); }
int dl_op_describe_name(const char *name, dl_op_info *out) { return describe(dl_op_find(name), out); }
