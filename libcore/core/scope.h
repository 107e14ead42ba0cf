/* What ends with the block it stands in, on every path out of it: modes are restored, memory and references released;
 * and references to objects that are counted. */
#pragma once

#include <stdlib.h>

#include "core/interrupt.h"

static inline void dl_scope_grad_mode(const int *former) { dl_grad_mode(*former); }
static inline void dl_scope_interrupt(const int *former) { dl_interrupt_hold(*former); }
static inline void dl_scope_error(const dl_error *former) { dl_error_put(former); }
static inline void dl_scope_tensor(dl_tensor *const *t) {
    if (*t) dl_unref(*t);
}
static inline void dl_scope_free(void *p) { free(*(void **)p); }

#define DL_SCOPE(end) __attribute__((cleanup(end), unused))
/* In the rest of the block gradients are recorded (1) or not (0). */
#define DL_SCOPED_GRAD_MODE(on) int dl_former_mode DL_SCOPE(dl_scope_grad_mode) = dl_grad_mode(on)
/* In the rest of the block interrupts are held back (1) or seen (0). */
#define DL_SCOPED_INTERRUPT_HOLD(on) int dl_former_hold DL_SCOPE(dl_scope_interrupt) = dl_interrupt_hold(on)
/* What fails in the rest of the block is forgotten; the error recorded before it stays. */
#define DL_SCOPED_ERROR                                                                                                \
    dl_error dl_former_error DL_SCOPE(dl_scope_error);                                                                 \
    dl_error_take(&dl_former_error)
/* DL_OWNED dl_tensor *t = ..., *u = ...: the block owns the references. */
#define DL_OWNED DL_SCOPE(dl_scope_tensor)
/* DL_FREED char *p = ..., *q = ...: the block owns the memory. */
#define DL_FREED DL_SCOPE(dl_scope_free)

/* type_ref of the public header: one reference more. NULL passes. */
#define DL_REF_FUNCTION(type)                                                                                          \
    type *type##_ref(type *o) {                                                                                        \
        if (o) __atomic_add_fetch(&o->refs, 1, __ATOMIC_RELAXED);                                                      \
        return o;                                                                                                      \
    }
