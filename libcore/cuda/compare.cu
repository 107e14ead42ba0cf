/* Kernels of comparisons, logic and bits. */
#include "cuda/pointwise.cuh"

DL_BINARY_F(eq, a == b)
DL_BINARY_F(ne, a != b)
DL_BINARY_F(lt, a < b)
DL_BINARY_F(le, a <= b)
DL_BINARY_F(logical_and, (a != T(0)) & (b != T(0)))
DL_BINARY_F(logical_or, (a != T(0)) | (b != T(0)))
DL_BINARY_F(logical_xor, (a != T(0)) ^ (b != T(0)))
DL_BINARY_F(bitwise_and, (T)(a &b))
DL_BINARY_F(bitwise_or, (T)(a | b))
DL_BINARY_F(bitwise_xor, (T)(a ^ b))

#define COMPARISON(name)                                                                                               \
    static dl_status run_##name(dl_call *c) { return dl_run_binary<name##_f, DL_ANY, true>(c); }                       \
    const dl_kernel dl_cuda_##name = {run_##name, NULL, DL_ANY, NULL, DL_K_NUMBERS};
COMPARISON(eq)
COMPARISON(ne)
COMPARISON(lt)
COMPARISON(le)
COMPARISON(logical_and)
COMPARISON(logical_or)
COMPARISON(logical_xor)

/* The other way round. */
#define TURNED(name, other)                                                                                            \
    static dl_status run_##name(dl_call *c) {                                                                          \
        dl_tensor *in[2] = {c->in[1], c->in[0]};                                                                       \
        dl_call t = *c;                                                                                                \
        t.in = in;                                                                                                     \
        return run_##other(&t);                                                                                        \
    }                                                                                                                  \
    const dl_kernel dl_cuda_##name = {run_##name, NULL, DL_ANY, NULL, DL_K_NUMBERS};
TURNED(gt, lt)
TURNED(ge, le)

DL_BINARY_KERNEL(bitwise_and, DL_INTS | DL_BIT(DL_BOOL))
DL_BINARY_KERNEL(bitwise_or, DL_INTS | DL_BIT(DL_BOOL))
DL_BINARY_KERNEL(bitwise_xor, DL_INTS | DL_BIT(DL_BOOL))
