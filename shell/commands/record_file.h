/* Records with nets, optimizers, loaders, random streams and plain values as files (record_file.c). */
#pragma once

#include "lang/session.h"

/* self: dlsh_rng *: what rng_state() gives. */
extern const dlsh_class dlsh_rng_class;
typedef struct dlsh_rng {
    unsigned long state[DL_RNG_STATE];
} dlsh_rng;

/* The functions rng_state() and set_rng_state(STATE). */
dl_status dlsh_rng_state_run(const dlsh_args *a, dlsh_value *result);
dl_status dlsh_set_rng_state_run(const dlsh_args *a);

dl_status dlsh_record_save(const dlsh_record *r, const char *path);
/* The record that a file holds: states of nets and optimizers as records of tensors. */
dl_status dlsh_record_open(const dl_tensor_file *f, dlsh_value *out);
/* Loads into the nets, optimizers, loaders and tensors of a record, restores the random streams where it has a state of
 * them, and sets its plain fields. */
dl_status dlsh_record_load(dlsh_record *r, const char *path);
