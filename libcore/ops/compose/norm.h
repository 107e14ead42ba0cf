/* What the kernels and the rule of rms_norm share. */
#pragma once

#include <float.h>

#include "core/op.h"

/* What is added to the mean square; when absent the epsilon of the dtype that is computed in. */
static inline double dl_rms_eps(const dl_aval *eps, dl_dtype dtype) {
    return eps->given ? eps->u.f : dtype == DL_F64 ? DBL_EPSILON : FLT_EPSILON;
}
