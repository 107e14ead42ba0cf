/* Gradient rules of complex numbers. The gradient of a real L is dL/da + i dL/db for each x = a + i b (PyTorch's
 * convention): where y is an analytic function of x, that of x is the one of y times the conjugate of dy/dx. */
#include "ops/grad.h"
#include "dlcore/complex.h"
#include "ops/rules/complex.h"

dl_tensor *dl_conj_of(dl_back *b, dl_tensor *t) {
    return t && dl_dtype_is_complex(t->dtype) ? dl_tmp(b, dl_conj(t)) : t;
}

RULE(view_as_real, dl_view_as_complex(T(dl_contiguous(G0))))

RULE(view_as_complex, dl_view_as_real(G0))

RULE(conj, dl_conj(G0))
