/* The request to stop, as work sees it: long loops look for it between blocks, work that must not end half done holds
 * it back, and what runs at present has a name, for those who wait. */
#ifndef DL_CORE_INTERRUPT_H
#define DL_CORE_INTERRUPT_H

#include <stdbool.h>

#include "dlcore.h"

/* Until a call with 0, dl_interrupt_get answers 0 in this thread; the request is not forgotten. Returns the former
 * setting. */
int dl_interrupt_hold(int on);

/* DL_ERR_INTERRUPT recorded when a stop is asked for; DL_OK otherwise. */
dl_status dl_interrupt_check(void);

/* The same for loops with little work a turn: looks at every 4,096th. */
static inline dl_status dl_interrupt_check_at(long turn) { return turn & 0xfff ? DL_OK : dl_interrupt_check(); }

/* A loop of a kernel that may be left early, shared by the threads that run it:
 *     dl_stop stop = dl_stop_begin();
 *     #pragma omp parallel for
 *     for (...) { if (dl_stop_asked(&stop)) continue; ... }
 *     dl_stop_end(&stop);
 * A block between two looks should take some milliseconds at most. The row whose kernel left something undone fails
 * with DL_ERR_INTERRUPT, so that nobody sees its result. */
typedef struct dl_stop {
    bool heeds; /* the thread that began does not hold the request back */
    bool left;  /* some block was left undone; atomic */
} dl_stop;

extern int dl_interrupt_flag; /* atomic */

dl_stop dl_stop_begin(void);
static inline bool dl_stop_asked(dl_stop *s) {
    if (__builtin_expect(!__atomic_load_n(&dl_interrupt_flag, __ATOMIC_RELAXED), 1) || !s->heeds) return false;
    __atomic_store_n(&s->left, true, __ATOMIC_RELAXED);
    return true;
}
/* By the thread that began. True: something was left undone. */
bool dl_stop_end(const dl_stop *s);
/* Was anything left undone in this thread? Sets the answer to the next call, by which calls of kernels nest. */
bool dl_stop_swap(bool left);

/* Names what runs from here on (a text that lives on); returns the former name, which is to be given back. */
const char *dl_doing_set(const char *what);

#endif
