/* Loading weights under other names (load_names.c), for `load` and m.load_state. */
#pragma once

#include "lang/session.h"

typedef struct dlsh_load_names {
    dlsh_session *session;
    dlsh_sink *sink;      /* of the report */
    int strict, by_order; /* strict: what only one side has is an error */
    dlsh_value map;       /* a record or a function from names of the file to names of the net; none: as they are */
    dlsh_value transpose; /* a pattern of names of the file, or a list of them; none */
} dlsh_load_names;

/* Options of rows that load so. */
#define DLSH_LOAD_OPTIONS                                                                                              \
    {"strict", DLSH_OPT_BOOL, "true",                                                                                  \
     .doc = "false: tensors that only the file or only the net has are reported, and left as they are"},               \
        {"map", DLSH_OPT_VALUE, NULL,                                                                                  \
         .doc =                                                                                                        \
             "names of the file to names of the net: a record of names, beginnings of names or patterns with *, or "   \
             "a function; none leaves a tensor out"},                                                                  \
        {"by", DLSH_OPT_WORD, "name",                                                                                  \
         .doc = "order: tensors are paired by the order and shapes of the layers, whatever their names",               \
         .complete = "name|order"},                                                                                    \
    {                                                                                                                  \
        "transpose", DLSH_OPT_VALUE, NULL, .doc = "names in the file, or patterns, of matrices that it has transposed" \
    }

/* What the options say; strict and without a map when none is given. */
dlsh_load_names dlsh_load_names_of(const dlsh_args *a);
int dlsh_load_names_given(const dlsh_args *a);
/* Loads, shows the report and gives it as a record: matched, missing, unexpected. */
dl_status dlsh_load_named(const dlsh_load_names *how, dl_module *m, const dl_tensor_file *f, const char *what,
                          dlsh_value *out);
