/* Fuzz target: tar archives from any bytes; the bytes of a file that is found lie within them. */
#include <stdlib.h>

#include "data/archives/tar.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *at;
    size_t n;
    if (dl_tar_find("fuzz", data, size, "train", &at, &n) == DL_OK && at &&
        (at < data || n > size - (size_t)(at - data)))
        abort();
    return 0;
}
