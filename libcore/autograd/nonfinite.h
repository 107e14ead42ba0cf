/* The making of NaN: after each kernel on the CPU dispatch asks the flags of the arithmetic unit, which are sticky and
 * cost a few instructions. Only when one is up are results looked at, and the first call kept that made a NaN from
 * operands without one. */
#pragma once

#include "core/op.h"

#ifdef __SSE2__
enum { DL_FP_RAISED = 0x0d }; /* of the register MXCSR: invalid, division by zero, overflow */
static inline unsigned dl_fp_raised(void) { return __builtin_ia32_stmxcsr() & DL_FP_RAISED; }
static inline void dl_fp_clear(void) { __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() & ~(unsigned)DL_FP_RAISED); }
#else
#include <fenv.h>
static inline unsigned dl_fp_raised(void) { return (unsigned)fetestexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW); }
static inline void dl_fp_clear(void) { feclearexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW); }
#endif

extern int dl_nan_mode;      /* a dl_nan_policy; atomic */
extern int dl_fp_from_teams; /* raised in threads of parallel regions; atomic */

/* At the end of each part of a parallel region: hands the flags of this thread to the one that began the region. */
static inline void dl_fp_hand_over(void) {
    if (__builtin_expect(!dl_fp_raised(), 1)) return;
    __atomic_store_n(&dl_fp_from_teams, 1, __ATOMIC_RELAXED);
    dl_fp_clear();
}

/* In place of a flag, for results of instructions that raise none. */
static inline void dl_fp_suspect(void) { __atomic_store_n(&dl_fp_from_teams, 1, __ATOMIC_RELAXED); }

/* Was a flag raised since the last look? */
static inline bool dl_fp_suspicious(void) {
    return (dl_fp_raised() || __atomic_load_n(&dl_fp_from_teams, __ATOMIC_RELAXED)) &&
           __atomic_load_n(&dl_nan_mode, __ATOMIC_RELAXED) != DL_NAN_OFF;
}

/* On a device results are looked at under DL_NAN_STOP, or where this thread runs a step again to find a NaN. */
extern __thread bool dl_nonfinite_again;
static inline bool dl_nonfinite_suspects(bool in_host_memory) {
    if (in_host_memory) return dl_fp_suspicious();
    return dl_nonfinite_again || __atomic_load_n(&dl_nan_mode, __ATOMIC_RELAXED) == DL_NAN_STOP;
}

/* Looks at what a call that raised flags has made, and clears them. An error only under DL_NAN_STOP. */
dl_status dl_nonfinite_check(const dl_call *c);
/* The same for a gradient made by a kernel: in b->gin. */
dl_status dl_nonfinite_check_rule(const dl_back *b);
/* The same for what lives on a device; waits for it. */
dl_status dl_nonfinite_check_device(const dl_call *c);
dl_status dl_nonfinite_check_rule_device(const dl_back *b);
/* Has a tensor in host memory elements that are not finite? */
bool dl_nonfinite_has(const dl_tensor *t);
/* A floating tensor in host memory, itself or a copy with its name. NULL: another dtype, or it cannot be read. */
dl_tensor *dl_nonfinite_copy(dl_tensor *t);
/* Sets reason and remedy where op and pass of the event make something that is not finite of a and b. */
bool dl_nonfinite_explain(dl_nan_event *e, double a, double b);
/* Describes operands of an event at its element. */
void dl_nonfinite_operands(dl_nan_event *e, dl_tensor *const *in, int n);
/* Keeps where the infinities of t come from, unless that is known. */
void dl_nonfinite_note_origin(const dl_tensor *t);
/* Around an op made of others: a NaN counts only when it is still in the results. composed also after a failure. */
void dl_nonfinite_compose(void);
dl_status dl_nonfinite_composed(const dl_call *c);
/* A NaN with a history on a device was read: tells the watcher, once for a statement, unless a NaN is known already. */
void dl_nonfinite_met(const dl_tensor *t);
/* An optimizer has taken a step. */
void dl_nonfinite_count_update(void);
/* The node whose gradient rule this thread runs; NULL: none. Returns the former one. */
const dl_node *dl_nonfinite_rule(const dl_node *n);
const dl_node *dl_nonfinite_rule_get(void);
