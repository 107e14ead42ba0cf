/* For tests that need a GPU: without one they are skipped, and say why once. */
#ifndef TESTS_CUDA_GPU_H
#define TESTS_CUDA_GPU_H

#include "support/tensors.h"

#include <stdio.h>

enum { GPU = 1 };

#define NEEDS_GPU()                                                                                                    \
    do {                                                                                                               \
        if (dl_device_count() > 1) break;                                                                              \
        print_message("skipped: no GPU (%s)\n", dl_device_missing());                                                  \
        skip();                                                                                                        \
    } while (0)

#endif
