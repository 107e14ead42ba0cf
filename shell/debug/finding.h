/* What the debugger has found: shown to the person by whoever found it, and kept as an event of the active run. */
#pragma once

#include "lang/session.h"

typedef struct dlsh_finding {
    const char *by;            /* "nan", "doctor", ...: the kind of the event */
    const char *check;         /* what was looked at; NULL */
    const char *op, *layer;    /* NULL or "": not known */
    const char *pass;          /* "forward", "backward", "update"; NULL */
    const char *file, *remedy; /* of the caller, lasting as long as the finding */
    int line;                  /* 0: not known */
    int note;                  /* it may be meant: the person is told, and nothing is kept */
    int own;                   /* of a symptom: it has a cause of its own, whatever else is found */
    int effect;                /* it may follow from what else is found */
    char cause[320], evidence[480];
} dlsh_finding;

/* Makes -nan nan. */
void dlsh_drop_sign_of_nan(char *text);
/* The texts of a finding; f NULL: nothing happens. */
void dlsh_cause(dlsh_finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void dlsh_evidence(dlsh_finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Adds it to the active run, once however often it is found; without a run nothing happens. A store that cannot keep it
 * is a warning. */
void dlsh_finding_keep(dlsh_session *s, const dlsh_finding *f);
