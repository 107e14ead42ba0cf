/* Taking over runs and points of other programs' files: what the store has already stays, what is new is added. */
#pragma once

#include <stdint.h>

#include "track/store.h"

/* Columns of the table `run` that a file may tell. Numbers of which 0 says something are texts, too. */
#define DL_INCOMING_TEXTS(X)                                                                                           \
    X(name)                                                                                                            \
    X(experiment)                                                                                                      \
    X(grp)                                                                                                             \
    X(status)                                                                                                          \
    X(host)                                                                                                            \
    X(device)                                                                                                          \
    X(model_name)                                                                                                      \
    X(dataset)                                                                                                         \
    X(git_commit)                                                                                                      \
    X(script_path)                                                                                                     \
    X(script_args)                                                                                                     \
    X(cmdline)                                                                                                         \
    X(note)                                                                                                            \
    X(error)                                                                                                           \
    X(seed)                                                                                                            \
    X(n_params)
#define DL_INCOMING_NUMBERS(X) X(active_us)
#define DL_INCOMING_TIMES(X)                                                                                           \
    X(started_us)                                                                                                      \
    X(ended_us)

/* A run as a file tells of it; NULL and 0: it does not. Texts are borrowed. */
typedef struct dl_incoming {
    char uuid[37], parent[37]; /* parent: "" none */
    const char *called;        /* the name of a new run that has none */
#define TEXT(column) const char *column;
    DL_INCOMING_TEXTS(TEXT)
#undef TEXT
#define NUMBER(column) int64_t column;
    DL_INCOMING_NUMBERS(NUMBER)
    DL_INCOMING_TIMES(NUMBER)
#undef NUMBER
} dl_incoming;

typedef struct dl_intake dl_intake;

/* One transaction of the writing connection, which is locked. */
dl_status dl_intake_begin(dl_intake **out, dl_store *s, const dl_import_spec *spec);
/* Commits when st is DL_OK, else takes everything back; frees. Returns the first failure. */
dl_status dl_intake_end(dl_intake *in, dl_status st, dl_import_result *out);

/* The run with this uuid: a new one, or one that is here. Of the latter a run that was imported is brought up to date,
 * one that ran here is left as it is. *run is what the calls below take. */
dl_status dl_intake_run(dl_intake *in, const dl_incoming *r, long *run);
/* Parameters and tags that the run lacks; values that are numbers count as numbers. */
dl_status dl_intake_param(dl_intake *in, long run, const char *key, const char *value);
dl_status dl_intake_tag(dl_intake *in, long run, const char *tag);
/* A point, unless its step has one; t_us 0: not known. */
dl_status dl_intake_point(dl_intake *in, long run, const char *key, int64_t step, int64_t t_us, double value);
/* The same for the last value of a metric whose points may come from elsewhere: only for one without points. */
dl_status dl_intake_last(dl_intake *in, long run, const char *key, int64_t step, double value);

const dl_import_spec *dl_intake_spec(const dl_intake *in);
/* The uuid of a run that a program knows by `id`: always the same one. */
void dl_intake_uuid(const char *program, const char *id, char out[37]);
/* A uuid written with or without dashes; 0: it is none. */
int dl_uuid_parse(const char *text, char out[37]);
