/* The op table described through plain strings, for those outside the library. */
#include <string.h>

#include "core/form.h"

static const char *const kinds[] = {[DL_A_INT] = "int",   [DL_A_FLOAT] = "float", [DL_A_NUM] = "number",
                                    [DL_A_BOOL] = "bool", [DL_A_DTYPE] = "dtype", [DL_A_DEVICE] = "device",
                                    [DL_A_INTS] = "ints", [DL_A_STR] = "string",  [DL_A_PADS] = "ints, valid or same"};

static dl_op_arg input_arg(const dl_op *op, int i) {
    int list = op->in_max == DL_MAX_IN && !op->in_name[i + 1];
    return (dl_op_arg){.name = op->in_name[i],
                       .kind = list ? "tensors" : "tensor",
                       .dflt = i < op->in_min ? NULL : "none",
                       .doc = "",
                       .input = i};
}

static dl_op_arg attr_arg(const dl_attr *a) {
    return (dl_op_arg){.name = a->name,
                       .kind = kinds[a->kind],
                       .dflt = *a->dflt ? a->dflt : NULL,
                       .doc = a->doc ? a->doc : "",
                       .input = -1};
}

/* Is this argument given by position, and then as which? -1: by name alone. */
static int place_of(const dl_op *op, const char *name, int natural, int by_name) {
    if (!op->order) return by_name ? -1 : natural;
    for (int i = 0; op->order[i]; i++)
        if (!strcmp(op->order[i], name)) return i;
    return -1;
}

static int describe(const dl_op *op, dl_op_info *out) {
    if (!op) return 0;
    *out = (dl_op_info){.name = op->name,
                        .doc = op->doc ? op->doc : "",
                        .formula = op->formula ? op->formula : "",
                        .nout = op->visible,
                        .internal = (op->flags & DL_F_INTERNAL) != 0,
                        .yields = (op->flags & DL_F_YIELDS) != 0,
                        .differentiable = op->grad || op->compose,
                        .defined = op->uses != NULL};
    enum { MAX = sizeof out->args / sizeof *out->args };
    dl_op_arg all[MAX], named[MAX];
    int n = 0, nnamed = 0;
    for (int i = 0; i < DL_MAX_NAMED_IN && op->in_name[i] && n < MAX; i++) all[n++] = input_arg(op, i);
    for (int i = 0; i < op->nattr && n < MAX; i++) all[n++] = attr_arg(&op->attrs[dl_attr_listed(op, i)]);
    const int own = n;
    const dl_form *form;
    for (int i = 0; n < MAX && (form = dl_form_at(op, i)); i++) all[n++] = attr_arg(&form->argument);
    for (int i = 0; i < n; i++) {
        int creates = op->flags & DL_F_CREATE && (!strcmp(all[i].kind, "dtype") || !strcmp(all[i].kind, "device"));
        int place = i < own ? place_of(op, all[i].name, i, creates) : -1;
        if (place < 0)
            named[nnamed++] = all[i];
        else
            out->args[place] = all[i], out->npositional++;
    }
    memcpy(out->args + out->npositional, named, (size_t)nnamed * sizeof *named);
    out->nargs = n;
    for (int i = 0; i < op->visible && i < DL_MAX_OUT; i++) out->out[i] = op->out_name[i];
    return 1;
}

int dl_op_describe(int i, dl_op_info *out) { return i >= 0 && describe(dl_op_at(i), out); }
int dl_op_describe_name(const char *name, dl_op_info *out) { return describe(dl_op_find(name), out); }
