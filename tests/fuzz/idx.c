/* Fuzz target: IDX files from any bytes; what parses has exactly the elements it claims. */
#include <stdint.h>
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "data/pictures/idx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dl_idx x;
    if (dl_idx_parse("fuzz", data, size, &x) != DL_OK) return 0;
    volatile double sum = 0;
    for (long i = 0; i < x.numel; i++) sum = sum + dl_idx_get(&x, i);
    return 0;
}
