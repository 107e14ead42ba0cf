/* Arguments that calls by name have beside the attributes of a row: ops/forms.def. */
#pragma once

#include "core/op.h"

typedef enum dl_form_kind {
    DL_FORM_ROW,        /* another row is called, which has the argument */
    DL_FORM_WHEN,       /* another row is called when the argument is true */
    DL_FORM_CAST,       /* input 0 is cast to the argument, a dtype, first, and the result has it, too */
    DL_FORM_CAST_FLOAT, /* input 0 alone is, to a floating or complex dtype */
    DL_FORM_SAME,       /* every value gives the same result */
} dl_form_kind;

typedef struct dl_form {
    const char *row;
    dl_attr argument;
    dl_form_kind kind;
    const char *to; /* the other row; NULL: none */
} dl_form;

/* Form i of the row, in the order of the table; NULL past the last. */
const dl_form *dl_form_at(const dl_op *op, int i);
/* The form of the row with an argument of this name; NULL: none. */
const dl_form *dl_form_find(const dl_op *op, const char *argument);
/* Parses the value of an argument; `op` names its row in messages. */
dl_status dl_attr_read(const char *op, const dl_attr *row, const char *value, dl_aval *out);
