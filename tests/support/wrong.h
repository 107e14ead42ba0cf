/* Texts that a parser refuses, with what it says of each. */
#ifndef TESTS_SUPPORT_WRONG_H
#define TESTS_SUPPORT_WRONG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "dlcore.h"

typedef struct wrong {
    const char *text;
    dl_status code;
    const char *message, *hint; /* how the message begins; the whole hint, NULL: any */
} wrong;

/* After the parser refused w->text. */
static inline void assert_refused(const wrong *w, const void *parsed) {
    if (parsed) fail_msg("'%s' should not have been taken", w->text);
    dl_error e;
    assert_int_equal(dl_error_take(&e), w->code);
    if (strncmp(e.message, w->message, strlen(w->message))) fail_msg("'%s': %s", w->text, e.message);
    if (w->hint) assert_string_equal(e.hint, w->hint);
}

#endif
