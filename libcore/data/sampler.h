/* Orders of samples: what loaders deal out in an epoch. */
#pragma once

#include "data/data.h"

/* What a sampler knows of a split: made once, read by all threads. */
typedef struct dl_sampling {
    const dl_sampler *sampler; /* NULL: `shuffle`, or the order of the split */
    bool shuffle;
    long size, n; /* samples of the split, and of an epoch */
    int *label;   /* [size], of stratified ones; owned */
    long classes;
} dl_sampling;

/* Checks that the sampler fits the split. Released by dl_sampling_end, also on failure. */
dl_status dl_sampling_begin(dl_sampling *s, dl_dataset *d, int split, const dl_sampler *sampler, bool shuffle);
/* The samples of an epoch, order[s->n]. */
dl_status dl_sampling_order(const dl_sampling *s, uint64_t seed, long epoch, long *order);
void dl_sampling_end(dl_sampling *s);
/* Whether an epoch may have a sample twice. */
bool dl_sampler_repeats(const dl_sampler *s);
