/* Handles of data: datasets, their splits, loaders, tokenizers. For commands that take or give them. */
#pragma once

#include "lang/value.h"

/* self: dl_dataset *. */
extern const dlsh_class dlsh_dataset_class;
/* self: dlsh_split *. */
extern const dlsh_class dlsh_split_class;
/* self: dl_loader *. */
extern const dlsh_class dlsh_loader_class;
/* self: dl_tokenizer *. */
extern const dlsh_class dlsh_tokenizer_class;

/* self: dl_sampler *. */
extern const dlsh_class dlsh_sampler_class;

/* Tells of the references behind a data set, a loader and a function that makes batches, a reference to each of which
 * is held (`values` of classes). */
void dlsh_dataset_values(void *data, const dlsh_visitor *to);
/* Bytes of its samples, of what is computed when it is asked for none (held of a class). */
size_t dlsh_dataset_held(void *data);
void dlsh_loader_values(void *loader, const dlsh_visitor *to);
/* The same of what a trainer holds itself. */
void dlsh_trainer_values(void *trainer, const dlsh_visitor *to);
/* The function behind a data set of a function (samples.c); NULL: it is another one. */
struct dlsh_callback;
const struct dlsh_callback *dlsh_dataset_function(const dl_dataset *d);

typedef struct dlsh_split {
    dl_dataset *data; /* owned reference */
    dl_split which;
} dlsh_split;

/* The samples that a dataset (its training split) or a split stands for; 0: v is neither. The reference is borrowed. */
int dlsh_part_of(dlsh_value v, dl_part *out);
/* Numbers in a list, a range or a tensor [n], or those where a mask [samples] is true; -1 samples: there is nothing
 * that a mask could mean. The caller frees *index. */
dl_status dlsh_indices(struct dlsh_session *s, dlsh_value key, long samples, long **index, long *n);
struct dlsh_args;
#define DLSH_SAMPLER_OPTION                                                                                            \
    {                                                                                                                  \
        "sampler", DLSH_OPT_VALUE, NULL,                                                                               \
            .doc = "instead of shuffle: sampler(...), \"stratified\", \"random\", or a list of samples",               \
            .want = "sampler|string|list|range|tensor"                                                                 \
    }
/* A new reference to the sampler of this option; NULL: there is none. */
dl_status dlsh_arg_sampler(const struct dlsh_args *a, dl_sampler **out);
