/* How much of the machine a process uses. */
#pragma once

#include <stdint.h>

#include "dlcore.h"

enum { DL_USAGE_S = 5 /* between two records, in active time */ };

/* Counters at a moment; what they grow by until the next is the use between the two. */
typedef struct dl_usage {
    int device;
    int64_t active_us;
    double wall, cpu, joules;
} dl_usage;

/* `device` as a run has it: "cpu", "cuda:0 NVIDIA H200". */
void dl_usage_begin(dl_usage *u, const char *device);
void dl_usage_next(dl_usage *u);
int dl_usage_due(const dl_usage *u);
/* Pushes what an open run used since the last time, with the seconds of its active time as steps. */
void dl_usage_record(dl_run *r);
