/* MLflow's tracking store in SQLite, read and written. */
#pragma once

#include "track/exchange/exchange.h"

/* Columns of a run that MLflow keeps as tags. */
#define DL_MLFLOW_TAGS(X)                                                                                              \
    X(name, "mlflow.runName")                                                                                          \
    X(note, "mlflow.note.content")                                                                                     \
    X(git_commit, "mlflow.source.git.commit")                                                                          \
    X(script_path, "mlflow.source.name")                                                                               \
    X(script_args, "dlsh.args")                                                                                        \
    X(cmdline, "dlsh.command")                                                                                         \
    X(grp, "dlsh.group")                                                                                               \
    X(host, "dlsh.host")                                                                                               \
    X(device, "dlsh.device")                                                                                           \
    X(model_name, "dlsh.model")                                                                                        \
    X(dataset, "dlsh.dataset")                                                                                         \
    X(error, "dlsh.error")                                                                                             \
    X(seed, "dlsh.seed")                                                                                               \
    X(n_params, "dlsh.n_params")
#define DL_MLFLOW_PARENT "mlflow.parentRunId"

/* Does an SQLite file have MLflow's tables? */
int dl_mlflow_found(const char *path);
dl_status dl_mlflow_read(dl_intake *in, const char *path);
/* Into a file that is made, or into one of MLflow, of which the runs that have these uuids are brought up to date. */
dl_status dl_mlflow_write(const dl_leaving *l, const char *path);
