/* Kernels that join real numbers to complex ones: of parts, or of sizes and angles. */
#include "cpu/runtime/copy.h"
#include "core/scope.h"
#include "dlcore/unary.h"
#include "ops/rules/complex.h"

#define LOOPS(T)                                                                                                       \
    static void polar_##T(long n, char **p, const long *s, void *arg) {                                                \
        (void)arg;                                                                                                     \
        for (long i = 0; i < n; i++) {                                                                                 \
            T *o = (T *)(p[0] + i * s[0]), size = *(const T *)(p[1] + i * s[1]);                                       \
            o[0] = size * *(const T *)(p[2] + i * s[2]), o[1] = size * *(const T *)(p[3] + i * s[3]);                  \
        }                                                                                                              \
    }
LOOPS(float)
LOOPS(double)

static dl_status complex_run(dl_call *c) {
    dl_iter it;
    dl_iter_init(&it, 3, (dl_tensor *[]){c->out[0], c->in[0], c->in[1]});
    int parts = 2;
    dl_iter_run(&it, DL_SIMD_PICK(dl_weave_loop)[c->dtype == DL_F64 ? sizeof(double) : sizeof(float)], &parts);
    return DL_OK;
}

static dl_status polar_run(dl_call *c) {
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *cosine = dl_cos(c->in[1]);
    DL_OWNED dl_tensor *sine = cosine ? dl_sin(c->in[1]) : NULL;
    if (!sine) return dl_failed();
    dl_iter it;
    dl_iter_init(&it, 4, (dl_tensor *[]){c->out[0], c->in[0], cosine, sine});
    dl_iter_run(&it, c->dtype == DL_F64 ? polar_double : polar_float, NULL);
    return DL_OK;
}

enum { PARTS = DL_BIT(DL_F32) | DL_BIT(DL_F64) };
const dl_kernel dl_cpu_complex = {.run = complex_run, .dtypes = PARTS};
const dl_kernel dl_cpu_polar = {.run = polar_run, .dtypes = PARTS};
