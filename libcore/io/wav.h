/* WAV files: what the reader and the fuzz target share. */
#pragma once

#include "io/input.h"

/* A record {rate, samples}: samples a second, and an f32 tensor [channels, n] in -1..1. NULL on failure. */
dl_tensor_file *dl_wav_from(const dl_input *in, int device);
