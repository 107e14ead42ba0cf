/* What the targets of files of tensors check: every element of a file that is read can be read. */
#ifndef TESTS_FUZZ_TENSORS_H
#define TESTS_FUZZ_TENSORS_H

#include <stdlib.h>

#include "dlcore.h"

/* Releases f, which may be NULL: a file that is refused. */
static inline void fuzz_read_all(dl_tensor_file *f) {
    for (long i = 0; f && i < dl_tensor_file_count(f); i++) {
        dl_tensor *t = dl_tensor_file_at(f, i);
        double *values = malloc((size_t)dl_numel(t) * sizeof *values + 1);
        if (values && dl_read_f64(t, values) != DL_OK) abort();
        free(values);
    }
    dl_tensor_file_free(f);
}

#endif
