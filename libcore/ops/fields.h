/* How the fields of ops.def become initialisers of struct dl_op. */
#ifndef DL_OPS_FIELDS_H
#define DL_OPS_FIELDS_H

#define VARIADIC DL_MAX_IN
#define DOC(text, form) .doc = text, .formula = form,
#define IN(min, max, ...) .in_min = min, .in_max = max, .in_name = {__VA_ARGS__},
#define OUT(n, vis, ...) .out = n, .visible = vis, .out_name = {__VA_ARGS__},
#define A(n, kind, def, text) {#n, DL_A_##kind, def, text},
#define ORDER(...) .order = (const char *const[]){__VA_ARGS__, NULL},
#define ATTRS(...) .attrs = (const dl_attr[]){__VA_ARGS__{0}},
#define INFER(rule) .infer = dl_infer_##rule,
#define GRAD(rule) .grad = dl_grad_##rule,
#define SAVE(i, o) .save_in = i, .save_out = o,
#define PROMOTE(rule) .promote = DL_P_##rule,
#define AMP(policy) .amp = DL_AMP_##policy,
#define FLAGS(bits) .flags = bits,
#define NODIFF .nondiff_out = 0xff,
#define MUTATES(bits) .mutates = bits,
#define NONDIFF_IN(bits) .nondiff_in = bits,
#define NONDIFF_OUT(bits) .nondiff_out = bits,
#define FLOPS(rule) .flops = dl_flops_##rule,
#define SAMPLES(text) .samples = text,
#include "ops/groups.h"

#endif
