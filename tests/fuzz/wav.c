/* Fuzz target: WAV files from any bytes; every sample of one that is read can be read. */
#include <stdint.h>

#include "fuzz/fuzz.h"
#include "fuzz/tensors.h"
#include "io/wav.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dl_input in = dl_input_memory("fuzz", data, size);
    fuzz_read_all(dl_wav_from(&in, 0));
    return 0;
}
