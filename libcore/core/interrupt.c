/* The pending interrupt, and the name of the work that runs. */
#include "core/interrupt.h"

#include "core/error.h"

int dl_interrupt_flag;
static const char *doing; /* atomic */
static _Thread_local int held;
static _Thread_local bool incomplete;

void dl_interrupt_set(int on) { __atomic_store_n(&dl_interrupt_flag, on, __ATOMIC_RELAXED); }
int dl_interrupt_get(void) {
    int on = __atomic_load_n(&dl_interrupt_flag, __ATOMIC_RELAXED); /* first: it is cheaper to read than `held` */
    return on && !held ? on : 0;
}

const int *dl_interrupt_word(void) { return &dl_interrupt_flag; }

int dl_interrupt_hold(int on) {
    int before = held;
    held = on;
    return before;
}

dl_status dl_interrupt_check(void) {
    if (__builtin_expect(!dl_interrupt_get(), 1)) return DL_OK;
    return dl_fail(DL_ERR_INTERRUPT, "interrupted");
}

dl_stop dl_stop_begin(void) { return (dl_stop){.enabled = !held}; }

bool dl_stop_end(const dl_stop *s) {
    bool mine = __atomic_load_n(&s->incomplete, __ATOMIC_RELAXED);
    incomplete |= mine;
    return mine;
}

bool dl_stop_swap(bool now) {
    bool was = incomplete;
    incomplete = now;
    return was;
}

const char *dl_doing_set(const char *what) {
    const char *before = dl_doing();
    __atomic_store_n(&doing, what, __ATOMIC_RELAXED);
    return before;
}
const char *dl_doing(void) { return __atomic_load_n(&doing, __ATOMIC_RELAXED); }
