/* Fuzz target: .npz archives from any bytes; every element of an archive that is read can be read. */
#include <stdint.h>

#include "fuzz/fuzz.h"
#include "fuzz/tensors.h"
#include "io/numpy/npz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dl_input in = dl_input_memory("fuzz", data, size);
    fuzz_read_all(dl_npz_from(&in, 0));
    return 0;
}
