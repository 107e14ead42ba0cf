/* Tensors as text, for values' printing. */
#ifndef DLSH_LANG_TENSOR_TEXT_H
#define DLSH_LANG_TENSOR_TEXT_H

#include "lang/value.h"

/* The view's layout in rows; a 0-d tensor is its number. */
dl_status dlsh_tensor_text(dlsh_buf *b, dl_tensor *t);
/* One line, for lists: up to 8 elements of a vector, else "f32[2,3]". */
dl_status dlsh_tensor_line(dlsh_buf *b, dl_tensor *t);
/* {"shape":..., "dtype":..., "device":..., "data":...}; a 0-d tensor is its number. */
dl_status dlsh_tensor_json(dlsh_buf *b, dl_tensor *t);
/* JSON of a number; NaN and infinities as strings. */
void dlsh_json_float(dlsh_buf *b, double f);

#endif
