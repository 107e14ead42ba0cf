/* Functions of functions (functional.c, derivatives.c). */
#pragma once

#include "lang/command.h"

typedef enum dlsh_derivatives {
    DLSH_JACOBIANS,
    DLSH_GRADIENT,
    DLSH_GRADIENT_AND_VALUE,
    DLSH_HESSIANS
} dlsh_derivatives;

/* A function that gives derivatives of fn, by the options of the call: argnums and has_aux. */
dl_status dlsh_derivatives_of(const dlsh_args *a, dlsh_value fn, dlsh_derivatives what, dlsh_value *result);
#define DLSH_ARGNUMS_OPTION                                                                                            \
    {                                                                                                                  \
        "argnums", DLSH_OPT_VALUE, .want = "int|list",                                                                 \
                                   .doc = "of a function: by which argument, from 0 (0); a list: by each of these"     \
    }
#define DLSH_AUX_OPTION                                                                                                \
    {                                                                                                                  \
        "has_aux", DLSH_OPT_BOOL, "false",                                                                             \
            .doc = "of a function: it returns y, more; y is differentiated, and more stands behind the result"         \
    }

/* For each result, in its form, the derivatives by each input, in theirs. Takes the m * n tensors. VOID: failed. */
dlsh_value dlsh_rows_of(dlsh_value results, dlsh_value inputs, dl_tensor **t, int m, int n);
