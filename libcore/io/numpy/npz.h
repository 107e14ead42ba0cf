/* .npz, a ZIP archive of .npy members: what the reader and the fuzz target share. */
#pragma once

#include "io/input.h"

dl_tensor_file *dl_npz_from(const dl_input *in, int device);
dl_status dl_npz_write(const char *path, long n, const char *const *names, dl_tensor *const *tensors);
