/* Element types: table access and the per-dtype instantiation macros that kernels use. */
#pragma once

#include "dlcore.h"

#include <stdbool.h>

enum { DL_NDTYPE = DL_C128 + 1 };

/* Bit sets of dtypes, for op rows and kernels. */
#define DL_BIT(t) (1u << (t))
#define DL_HALVES (DL_BIT(DL_F16) | DL_BIT(DL_BF16))
#define DL_FLOATS (DL_BIT(DL_F32) | DL_BIT(DL_F64) | DL_HALVES)
#define DL_INTS (DL_BIT(DL_U8) | DL_BIT(DL_I32) | DL_BIT(DL_I64))
#define DL_NUMBERS (DL_FLOATS | DL_INTS)
#define DL_ANY (DL_NUMBERS | DL_BIT(DL_BOOL))
#define DL_COMPLEX (DL_BIT(DL_C64) | DL_BIT(DL_C128))
#define DL_ALL (DL_ANY | DL_COMPLEX) /* of kernels that move elements, whatever they mean */

/* "f32, f64, i64": the members of a set, into buf. */
const char *dl_dtype_set_text(unsigned set, char *buf, int size);

/* Conversions of the 16-bit floats, exact up, round to nearest even down. */
float dl_f16_to_f32(unsigned short h);
unsigned short dl_f32_to_f16(float f);

/* Do tensors of this dtype have gradients: is it floating or complex? */
bool dl_dtype_is_smooth(dl_dtype t);
/* The dtype of the parts of a complex one, and the complex one whose parts hold numbers of a dtype. */
dl_dtype dl_dtype_of_parts(dl_dtype t);
dl_dtype dl_dtype_to_complex(dl_dtype t);

/* One element as double or long and back, by dtype; for cold paths (printing, item, tests). Of a complex one
 * the real part; the imaginary part of a stored one becomes 0. */
double dl_load_f64(const void *p, dl_dtype t);
long dl_load_i64(const void *p, dl_dtype t);
void dl_store_f64(void *p, dl_dtype t, double v);
void dl_store_i64(void *p, dl_dtype t, long v);
