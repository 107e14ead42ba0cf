/* The table of settings: from it come `set`, its help, completion and the manual. */
#pragma once

#include "lang/value.h"

typedef struct dlsh_setting {
    const char *name;
    const char *values; /* choices separated by |, or what is to be given: "0 to 17", "FILE" */
    const char *dflt, *doc;
    int *number;                     /* where the value lies; of choices the index */
    long min, max;                   /* of a number; choices have min > max */
    dl_status (*get)(dlsh_buf *out); /* of values kept elsewhere, as text */
    dl_status (*set)(const char *value);
    int (*chosen)(void); /* of choices kept elsewhere, as the index */
    dl_status (*choose)(int n);
} dlsh_setting;

/* Ends with a row without name. */
const dlsh_setting *dlsh_settings(void);
/* The value as text. */
dl_status dlsh_setting_get(const dlsh_setting *row, dlsh_buf *out);

/* All settings as a table. */
struct dlsh_sink;
dl_status dlsh_settings_list(struct dlsh_sink *sink);

/* `set timing`: the prompt tells how long each entry took. */
extern int dlsh_timing;
