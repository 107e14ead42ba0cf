/* The rules that ops.def names: dl_infer_*, dl_grad_*, dl_batch_*, dl_compose_*, dl_flops_*, and the kernels. Naming
 * one in a row of SECTION(x) declares it in ops/rules/x.h, which tools/gen_ops.c makes; a missing definition fails the
 * link, so that no differentiable op lacks its rule. */
#pragma once

#include "ops/names.h"

#define INFER_RULE(name) dl_status dl_infer_##name(const dl_call *c, dl_meta *out)
#define GRAD_RULE(name) dl_status dl_grad_##name(dl_back *b)
#define BATCH_RULE(name) dl_status dl_batch_##name(dl_batched *b)
#define COMPOSE_RULE(name) dl_status dl_compose_##name(dl_call *c)
#define COMPOSED_RULE(name) bool dl_composed_##name(const dl_call *c)
#define FLOPS_RULE(name) double dl_flops_##name(const dl_call *c)
#define CPU_KERNEL(name) extern const dl_kernel dl_cpu_##name

/* In gradient rules: the gradient of output 0, a pooled temporary; and see names.h. RULE: that of an op with a gradient
 * for input 0 alone. */
#define G0 (b->g[0])
#define T(expr) dl_tmp(b, (expr))
#define RULE(name, expr)                                                                                               \
    GRAD_RULE(name) { return dl_give(b, 0, (expr)); }
