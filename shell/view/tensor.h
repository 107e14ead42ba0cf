/* Tensors as text: rows of numbers, one line of figures, CSV, JSON. */
#pragma once

#include "lang/value.h"

/* `set digits` and its like. */
typedef struct dlsh_print_options {
    int digits;     /* after the point */
    int edgeitems;  /* shown at each end of a dimension of an abridged tensor */
    long threshold; /* elements above which a tensor is abridged */
    int linewidth;  /* columns; 0: the terminal's, or 80 */
} dlsh_print_options;
extern dlsh_print_options dlsh_print;

/* The rows, laid out like PyTorch's, followed by dtype and shape: "tensor([[1., 2.],\n        [3., 4.]], f32[2,2])".
 * width 0: dlsh_print's. colour: NaN and infinities stand out. No newline at the end. */
dl_status dlsh_tensor_layout(dlsh_buf *b, const dl_tensor *t, int width, int colour);
/* "tensor f32[64,10] n=640 min=-3.1 max=2.9 mean=0.01 std=1 grad 3 NaN!"; reads all elements. */
dl_status dlsh_tensor_summary(dlsh_buf *b, const dl_tensor *t, int colour);
/* A value in one line: of a tensor that summary, else its text, cut. */
dl_status dlsh_value_line(dlsh_buf *b, dlsh_value v);
/* "f32[64,10]" */
void dlsh_tensor_kind(dlsh_buf *b, const dl_tensor *t);
/* Rows of comma-separated numbers: the last dimension a row; all digits. Ends with a newline. */
dl_status dlsh_tensor_csv(dlsh_buf *b, const dl_tensor *t);
/* One line, for lists: up to 8 elements of a vector, "f32[2](1.0, 2.0)", else "f32[2,3]"; of a 0-d tensor its number.
 */
dl_status dlsh_tensor_line(dlsh_buf *b, const dl_tensor *t);
/* {"shape":..., "dtype":..., "device":..., "data":...}; of a 0-d tensor its number. */
dl_status dlsh_tensor_json(dlsh_buf *b, const dl_tensor *t);
/* The first of these fields, without the closing brace. */
void dlsh_tensor_json_head(dlsh_buf *b, const dl_tensor *t);
/* Shortest text of a number that reads back the same in its dtype; NaN and infinities as given. */
void dlsh_element_digits(dlsh_buf *b, double v, dl_dtype dtype);
