/* Kernels of formulas with one operand, and their gradients in one pass. */
#include "cuda/kernels/pointwise/pointwise.cuh"
#include "cuda/kernels/pointwise/power.cuh"

/* The slope of y = sin(u) / u, as ops/grad/pointwise.c has it, in one pass: (cos(u) - y) / u, near 0 the series. */
template <class T> __device__ T quotient_slope(T u) {
    const double term[] = {1.0 / 93405312000, -1.0 / 518918400, 1.0 / 3991680, -1.0 / 45360,
                           1.0 / 840,         -1.0 / 30,        1.0 / 3};
    T square = u * u, series = T(term[0]), sine, cosine;
    if (square < T(0.25)) {
#pragma unroll
        for (int i = 1; i < 7; i++) series = series * square + T(term[i]);
        return -(u * series);
    }
    sincos(u, &sine, &cosine);
    return (cosine - sine / u) / u;
}
struct sinc_row;
struct sinc_grad_a;
struct spherical_bessel_j0_row;
struct spherical_bessel_j0_grad_a;
static dl_status grad_sinc(dl_back *b);
static dl_status grad_j0(dl_back *b);
template <> constexpr dl_grad_function *dl_grad_of_row<sinc_row, sinc_grad_a>() { return grad_sinc; }
template <> constexpr dl_grad_function *dl_grad_of_row<spherical_bessel_j0_row, spherical_bessel_j0_grad_a>() {
    return grad_j0;
}

#define DL_FUNCTIONS
#include "cuda/kernels/pointwise/pointwise_rows.cuh"

DL_GRAD_STRUCT(sinc, a, (), (T g, T x), (PI * g) * quotient_slope(T(PI * x)))
DL_GRAD_STRUCT(spherical_bessel_j0, a, (), (T g, T x), quotient_slope(x) * g)
static dl_status grad_sinc(dl_back *b) { return dl_grad_row<sinc_row, sinc_grad_a>(b); }
static dl_status grad_j0(dl_back *b) { return dl_grad_row<spherical_bessel_j0_row, spherical_bessel_j0_grad_a>(b); }
