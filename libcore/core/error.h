/* Recording failures. Every function that can fail records the detail once, where it is known, and hands the code up.
 */
#ifndef DL_CORE_ERROR_H
#define DL_CORE_ERROR_H

#include <stdarg.h>
#include "dlcore.h"

/* Records a failure with this thread's source position and returns its code. */
dl_status dl_fail(dl_status code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same, with a remedy. */
dl_status dl_fail_hint(dl_status code, const char *hint, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* DL_ERR_NAME for a word that is none of names[n]. The remedy names the nearest; when none is near it is `otherwise`,
 * and where that is NULL the list of all. */
dl_status dl_fail_unknown(const char *word, const char *const *names, int n, const char *otherwise, const char *fmt,
                          ...) __attribute__((format(printf, 5, 6)));
/* How many letters two words differ by: one exchanged, left out, added, or moved by a place. */
int dl_word_distance(const char *a, const char *b);
/* Adds to the current record what only an outer level knows; each is kept only where it is still empty. */
void dl_error_context(const char *op, const char *operands);
void dl_error_hint(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The first failure among the threads of a loop: each has a record of its own, and who reports must have it in its.
 * Starts as {0}. `note` is for the thread that failed; `raise` gives DL_OK when none has. */
typedef struct dl_first_error {
    int taken;
    dl_error err;
} dl_first_error;
void dl_first_error_note(dl_first_error *f);
dl_status dl_first_error_raise(const dl_first_error *f);
/* For constructors given NULL by a failed call: keeps that failure, or records a new one. Returns the code. */
dl_status dl_fail_null(const char *what);

/* Where this thread's statement stands, see dl_source_set. */
typedef struct dl_source {
    const char *file;
    int line;
} dl_source;
dl_source dl_source_get(void);

#define DL_TRY(call)                                                                                                   \
    do {                                                                                                               \
        dl_status dl_try_ = (call);                                                                                    \
        if (dl_try_ != DL_OK) return dl_try_;                                                                          \
    } while (0)

#endif
