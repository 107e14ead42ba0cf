/* Finds and frees values that hold each other in a cycle. Everything else is freed by its reference count. */
#pragma once

#include "lang/value.h"

/* A collection is due: to be looked at between statements, where no value is half made. */
extern int dlsh_collect_due;
void dlsh_collect_now(void);
static inline void dlsh_collect_if_due(void) {
    if (__builtin_expect(dlsh_collect_due, 0)) dlsh_collect_now();
}
/* Frees all cycles, however long it takes. Returns the number of values freed. */
long dlsh_collect_all(void);
/* From now on values are given up where memory runs out. */
void dlsh_collect_reclaims(void);
/* Drops what is kept of functions that have ended, of all sessions. Did that hold memory? (kept.c) */
int dlsh_kept_give_up(void);

/* Memory outside tensors was allocated: counts towards the next collection. */
void dlsh_collect_count_bytes(size_t bytes);

typedef struct dlsh_collect_stats {
    long tracked;     /* values that can hold others, alive now */
    long freed;       /* by collections so far */
    long collections; /* so far */
    double longest;   /* pause, in seconds */
} dlsh_collect_stats;
dlsh_collect_stats dlsh_collect_statistics(void);
