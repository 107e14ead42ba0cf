/* Times of kernels, while someone asks (core/op_times.c). */
#pragma once

#include "core/op.h"

struct dl_times;
extern __thread struct dl_times *dl_timer; /* of this thread; NULL: nobody asks */
/* Runs the kernel between two marks. */
dl_status dl_times_run(const dl_kernel *k, dl_call *c);
/* The same for the kernel of a gradient. */
dl_status dl_times_run_fused(const dl_kernel *k, dl_back *b);
