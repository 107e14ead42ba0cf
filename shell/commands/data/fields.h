/* Samples and batches with any number of inputs and targets, as values of the language and back. */
#pragma once

#include "lang/command.h"

/* The tensors of a sample or a batch, owned; NULL past those that there are. */
typedef struct dlsh_fields {
    dl_tensor *x[DL_NET_INPUTS], *y[DL_NET_INPUTS];
} dlsh_fields;
void dlsh_fields_drop(dlsh_fields *f);
/* Moves them to the default device. Releases all when that fails. */
dl_status dlsh_fields_place(dlsh_fields *f);

/* The inputs, or the targets, as a value: a tensor, or a list or record of several. VOID: a recorded failure. */
dlsh_value dlsh_fields_value(const dl_batch_form *form, int targets, dl_tensor *const *t);
/* {x, y} of a batch, and of its only sample; both take the tensors. */
dl_status dlsh_fields_record(const dl_batch_form *form, dlsh_fields *f, dlsh_value *out);
dl_status dlsh_fields_sample(const dl_batch_form *form, dlsh_fields *f, dlsh_value *out);

/* The parts of a sample, and whether it is its own target. */
typedef struct dlsh_sample_form {
    dl_batch_form parts;
    int own;
} dlsh_sample_form;

/* What a value is to be read as. */
typedef struct dlsh_fields_rule {
    const dlsh_value *targets; /* names of the fields that are targets, a string or a list; NULL: y */
    int rows;                  /* the tensors hold a sample a row, else one sample */
} dlsh_fields_rule;
/* Reads {x: .., y: ..}, {a: .., b: .., y: ..}, [x, y] or x alone, where x and y may be lists of tensors or records;
 * numbers and lists of them become tensors. Samples without targets are their own. */
dl_status dlsh_fields_read(dlsh_session *s, dlsh_value v, const dlsh_fields_rule *rule, dlsh_sample_form *form,
                           dlsh_fields *f);
/* Fails where a sample is not like the first. `what` names it. */
dl_status dlsh_fields_alike(const dlsh_sample_form *first, const dlsh_sample_form *form, const char *what);

#define DLSH_COLLATE_OPTION                                                                                            \
    {                                                                                                                  \
        "collate", DLSH_OPT_VALUE, NULL,                                                                               \
            .doc = "makes a batch of a list of samples: fn (samples) { return {x: .., y: ..} }", .want = "function"    \
    }
/* The function of this option for the library; NULL: there is none. */
dl_status dlsh_arg_collate(const dlsh_args *a, dl_collate **out);
