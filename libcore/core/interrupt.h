/* Interrupts: long loops check for one between blocks of work, work that must not end half done holds it back, and the
 * work that runs at present has a name, which is shown to those who wait. */
#pragma once

#include <stdbool.h>

#include "dlcore.h"

/* Until a call with 0, dl_interrupt_get returns 0 in this thread; the interrupt stays pending. Returns the former
 * setting. See DL_SCOPED_INTERRUPT_HOLD. */
int dl_interrupt_hold(int on);

/* DL_ERR_INTERRUPT recorded when an interrupt is pending; else DL_OK. */
dl_status dl_interrupt_check(void);

/* The same for loops with little work in a turn: checks at every 4,096th. */
static inline dl_status dl_interrupt_check_at(long turn) { return turn & 0xfff ? DL_OK : dl_interrupt_check(); }

/* A loop of a kernel that may end early, shared by the threads that run it:
 *     dl_stop stop = dl_stop_begin();
 *     #pragma omp parallel for
 *     for (...) { if (dl_stop_asked(&stop)) continue; ... }
 *     dl_stop_end(&stop);
 * A block between two checks should take some milliseconds at most. An op whose kernel ended early fails with
 * DL_ERR_INTERRUPT, so that its result is never seen. */
typedef struct dl_stop {
    bool enabled;    /* the thread that began does not hold interrupts back */
    bool incomplete; /* some block was not run; atomic */
} dl_stop;

extern int dl_interrupt_flag; /* atomic */

dl_stop dl_stop_begin(void);
static inline bool dl_stop_asked(dl_stop *s) {
    if (__builtin_expect(!__atomic_load_n(&dl_interrupt_flag, __ATOMIC_RELAXED), 1) || !s->enabled) return false;
    __atomic_store_n(&s->incomplete, true, __ATOMIC_RELAXED);
    return true;
}
/* By the thread that began. True: the loop is incomplete. */
bool dl_stop_end(const dl_stop *s);
/* Is any loop of this thread incomplete? Sets what the next call returns, so that calls of kernels nest. */
bool dl_stop_swap(bool incomplete);

/* Names what runs from here on (a text that stays valid); returns the former name, to be set again afterwards. */
const char *dl_doing_set(const char *what);
