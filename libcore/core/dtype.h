/* Element types: table access and the per-dtype instantiation macros that kernels use. */
#ifndef DL_CORE_DTYPE_H
#define DL_CORE_DTYPE_H

#include "dlcore.h"

enum { DL_NDTYPE = DL_F64 + 1 };

/* Bit sets of dtypes, for op rows and kernels. */
#define DL_BIT(t) (1u << (t))
#define DL_HALVES (DL_BIT(DL_F16) | DL_BIT(DL_BF16))
#define DL_FLOATS (DL_BIT(DL_F32) | DL_BIT(DL_F64) | DL_HALVES)
#define DL_INTS (DL_BIT(DL_U8) | DL_BIT(DL_I32) | DL_BIT(DL_I64))
#define DL_NUMBERS (DL_FLOATS | DL_INTS)
#define DL_ANY (DL_NUMBERS | DL_BIT(DL_BOOL))

/* "f32, f64, i64": the members of a set, into buf. */
const char *dl_dtype_set_text(unsigned set, char *buf, int size);

/* Conversions of the 16-bit floats, exact up, round to nearest even down. */
float dl_f16_to_f32(unsigned short h);
unsigned short dl_f32_to_f16(float f);

/* One element as double or long and back, by dtype; for cold paths (printing, item, tests). */
double dl_load_f64(const void *p, dl_dtype t);
long dl_load_i64(const void *p, dl_dtype t);
void dl_store_f64(void *p, dl_dtype t, double v);
void dl_store_i64(void *p, dl_dtype t, long v);

#endif
