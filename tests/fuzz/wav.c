/* Fuzz target: WAV files from any bytes; every sample of one that is read can be read. */
#include <stdint.h>
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "io/wav.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dl_input in = dl_input_memory("fuzz", data, size);
    dl_tensor_file *f = dl_wav_from(&in, 0);
    for (long i = 0; f && i < dl_tensor_file_count(f); i++) {
        dl_tensor *t = dl_tensor_file_at(f, i);
        double *values = malloc((size_t)dl_numel(t) * sizeof *values + 1);
        if (values && dl_read_f64(t, values) != DL_OK) abort();
        free(values);
    }
    dl_tensor_file_free(f);
    return 0;
}
