/* Kernel of cross: a walk over vectors, whose elements lie some bytes apart in each operand. */
#include "cpu/runtime/iter.h"
#include "ops/rules/matmul.h"

#define LOOP(T)                                                                                                        \
    static void cross_##T(long n, char **p, const long *s, void *arg) {                                                \
        const long *apart = arg, o1 = apart[0], a1 = apart[1], b1 = apart[2];                                          \
        char *o = p[0], *a = p[1], *b = p[2];                                                                          \
        for (long i = 0; i < n; i++, o += s[0], a += s[1], b += s[2]) {                                                \
            const T x = *(const T *)a, y = *(const T *)(a + a1), z = *(const T *)(a + 2 * a1);                         \
            const T u = *(const T *)b, v = *(const T *)(b + b1), w = *(const T *)(b + 2 * b1);                         \
            *(T *)o = y * w - z * v, *(T *)(o + o1) = z * u - x * w, *(T *)(o + 2 * o1) = x * v - y * u;               \
        }                                                                                                              \
    }
LOOP(float)
LOOP(double)

static dl_status cross(dl_call *c) {
    dl_tensor *t[3] = {c->out[0], c->in[0], c->in[1]};
    long shape[DL_MAX_DIM], apart[3];
    int nd = t[0]->ndim, d;
    dl_iter it;
    DL_TRY(dl_dim_norm(ATTR_I(c, CROSS_DIM), nd, &d));
    for (int i = 0; i < nd; i++) shape[i] = i == d ? 1 : t[0]->shape[i];
    dl_iter_begin(&it, nd, shape);
    for (int k = 0; k < 3; k++) {
        long own[DL_MAX_DIM];
        for (int i = 0; i < nd; i++) own[i] = i == d ? 1 : t[k]->shape[i];
        apart[k] = t[k]->shape[d] == 3 ? t[k]->stride[d] * (long)dl_esize(t[k]) : 0;
        dl_iter_operand(&it, dl_ptr(t[k]), (dl_dtype)t[k]->dtype, nd, own, t[k]->stride);
    }
    dl_iter_end(&it);
    dl_iter_run(&it, t[0]->dtype == DL_F64 ? cross_double : cross_float, apart);
    return DL_OK;
}
DL_CPU_KERNEL(cross, cross, false, DL_FLOATS)
