/* Fuzz target: safetensors files from any bytes; every tensor of a file that parses can be read. */
#include <stdint.h>

#include "fuzz/fuzz.h"
#include "fuzz/tensors.h"
#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_read_all(dl_safetensors_parse("fuzz", data, size, 0));
    return 0;
}
