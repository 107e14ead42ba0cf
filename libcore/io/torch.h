/* PyTorch's files of tensors (.pt, .pth): what the reader and the fuzz targets share. */
#pragma once

#include "io/input.h"
#include "io/zip.h"

/* An archive or, of PyTorch before 1.6, a sequence of pickles. NULL on failure. */
dl_tensor_file *dl_torch_from(const dl_input *in, int device);
/* The member of an archive that says what it holds, ".../data.pkl"; NULL: it is not PyTorch's. */
const dl_zip_member *dl_torch_pickle_of(const dl_zip *z);
