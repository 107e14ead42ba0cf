/* Recording failures. A function that can fail records the details once, where they are known, and returns the code. */
#pragma once

#include <stdarg.h>
#include "dlcore.h"

/* Records a failure with this thread's source position and returns its code. */
dl_status dl_fail(dl_status code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same, with a remedy. */
dl_status dl_fail_hint(dl_status code, const char *hint, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* DL_ERR_NAME for a word that is none of names[n]. The remedy names the most similar one; without one it is
 * `otherwise`, or, where that is NULL, the list of all. */
dl_status dl_fail_unknown(const char *word, const char *const *names, int n, const char *otherwise, const char *fmt,
                          ...) __attribute__((format(printf, 5, 6)));
/* The edit distance of two words: letters exchanged, left out, added, or swapped with the next. */
int dl_word_distance(const char *a, const char *b);
/* Adds to the current record what only a caller knows; a field that is set already stays. */
void dl_error_context(const char *op, const char *operands);
void dl_error_hint(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The first failure among the threads of a loop, each of which has an error record of its own. Starts as {0}. The
 * thread that failed calls `keep`; after the loop `raise` puts the failure into the caller's record. DL_OK: there was
 * none. */
typedef struct dl_first_error {
    int taken;
    dl_error err;
} dl_first_error;
void dl_first_error_keep(dl_first_error *f);
dl_status dl_first_error_raise(const dl_first_error *f);
/* An argument is NULL: the failure of the call that gave it stays recorded, else this one is. Returns the code. */
dl_status dl_fail_null(const char *what);

/* A parameter that a function has for its type alone: int index DL_UNUSED. */
#define DL_UNUSED __attribute__((unused))

/* The statement that this thread runs, see dl_source_set. */
dl_source dl_source_get(void);

#define DL_TRY(call)                                                                                                   \
    do {                                                                                                               \
        dl_status dl_try_ = (call);                                                                                    \
        if (dl_try_ != DL_OK) return dl_try_;                                                                          \
    } while (0)
