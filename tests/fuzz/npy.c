/* Fuzz target: .npy files from any bytes; every element of an array that parses can be read. */
#include <stdint.h>
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "io/numpy/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dl_tensor *t = dl_npy_parse("fuzz", data, size, 0);
    if (!t) return 0;
    double *values = malloc((size_t)dl_numel(t) * sizeof *values + 1);
    if (values && dl_read_f64(t, values) != DL_OK) abort();
    free(values);
    dl_unref(t);
    return 0;
}
