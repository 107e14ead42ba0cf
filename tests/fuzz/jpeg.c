/* Fuzz target: JPEG pictures from any bytes. */
#include "fuzz/fuzz.h"
#include "fuzz/pictures.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_picture(dl_jpeg_decode, data, size); }
