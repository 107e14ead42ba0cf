/* Files of tensors in the format that their name or their content tells. */
#include "io/format.h"
#include "io/input.h"
#include "io/numpy/npz.h"
#include "io/pictures/picture.h"
#include "io/pickle/pickle_value.h"
#include "io/safetensors.h"
#include "io/torch.h"
#include "io/wav.h"

dl_status dl_tensors_write(const char *path, dl_content content, long n, const char *const *names,
                           dl_tensor *const *tensors, const char *const *meta) {
    dl_format f;
    DL_TRY(dl_format_to_write(path, content, &f));
    switch (f) {
    case DL_FORMAT_NPY: return dl_npy_write(path, n ? tensors[0] : NULL);
    case DL_FORMAT_NPZ: return dl_npz_write(path, n, names, tensors);
    case DL_FORMAT_PNG:
    case DL_FORMAT_JPEG: return dl_picture_write(path, n ? tensors[0] : NULL, 0);
    default: return dl_safetensors_write(path, n, names, tensors, meta);
    }
}

/* A file of one array as a handle with one tensor. */
static dl_tensor_file *npy_file(const char *path, int device) {
    dl_tensor_file *f = dl_tensor_file_new(1, dl_format_name(DL_FORMAT_NPY));
    if (f && dl_tensor_file_add(f, "", dl_npy_read(path, device)) == DL_OK) return f;
    dl_tensor_file_free(f);
    return NULL;
}

/* An archive whose name does not tell whose it is may be PyTorch's. */
static dl_tensor_file *archive_from(const dl_input *in, int device) {
    dl_zip z;
    bool torch = dl_zip_open(&z, in) == DL_OK && dl_torch_pickle_of(&z);
    dl_zip_close(&z);
    return torch && dl_format_of_name(in->name) == DL_NFORMAT ? dl_torch_from(in, device) : dl_npz_from(in, device);
}

static dl_tensor_file *with_input(const char *path, int device,
                                  dl_tensor_file *(*from)(const dl_input *in, int device)) {
    dl_input in;
    if (dl_input_open(&in, path) != DL_OK) return NULL;
    dl_tensor_file *f = from(&in, device);
    dl_input_close(&in);
    return f;
}

static dl_tensor_file *read_any(const char *path, int device) {
    char first[DL_FORMAT_FIRST];
    dl_format f;
    dl_input in;
    if (dl_input_open(&in, path) != DL_OK) return NULL;
    size_t n = in.size < sizeof first ? (size_t)in.size : sizeof first;
    dl_status st = dl_input_read(&in, 0, first, n);
    dl_input_close(&in);
    if (st != DL_OK || dl_format_to_read(path, first, n, &f) != DL_OK) return NULL;
    switch (f) {
    case DL_FORMAT_NPY: return npy_file(path, device);
    case DL_FORMAT_NPZ: return with_input(path, device, archive_from);
    case DL_FORMAT_TORCH: return with_input(path, device, dl_torch_from);
    case DL_FORMAT_PNG:
    case DL_FORMAT_JPEG: return with_input(path, device, dl_picture_from);
    case DL_FORMAT_WAV: return with_input(path, device, dl_wav_from);
    case DL_FORMAT_PICKLE: return with_input(path, device, dl_pickle_from);
    default: return dl_safetensors_read(path, device);
    }
}

dl_tensor_file *dl_tensors_read(const char *path, int device) {
    dl_tensor_file *f = read_any(path, device);
    if (!f) dl_error_of_file(path);
    return f;
}
