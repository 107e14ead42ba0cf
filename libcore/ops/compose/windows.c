/* Ops made of other ops: windows of signals, periodic or symmetric. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/unary.h"
#include "dlcore/view.h"
#include "ops/rules/create.h"

#include <math.h>

/* A window of n numbers, `period` steps from one end to where it begins again, or to the other end. */
typedef struct window {
    long n, period;
    int dtype, device;
} window;

static dl_status window_new(const dl_call *c, long n, bool periodic, const dl_aval *dtype, window *w) {
    if (n < 0) return dl_fail(DL_ERR_VALUE, "a window of %ld numbers", n);
    *w = (window){n, periodic ? n : n - 1, dtype->given ? (int)dtype->u.i : (int)dl_default_dtype_get(), c->device};
    return DL_OK;
}

static dl_status periodic_window(const dl_call *c, window *w) {
    return window_new(c, ATTR_I(c, WINDOW_WINDOW_LENGTH), ATTR_I(c, WINDOW_PERIODIC), ATTR(c, WINDOW_DTYPE), w);
}

static dl_status symmetric_window(const dl_call *c, window *w) {
    return window_new(c, ATTR_I(c, SYMWINDOW_M), !ATTR_I(c, SYMWINDOW_SYM), ATTR(c, SYMWINDOW_DTYPE), w);
}

/* (i - from) * step of its n numbers. */
static dl_tensor *places(const window *w, int dtype, double from, double step) {
    double start = -from * step, end = start + (w->n ? ((double)w->n - 0.5) * step : 0);
    return dl_arange(start, &end, step, dtype, w->device);
}

/* The same, by which a period is `whole`. */
static dl_tensor *phases(const window *w, int dtype, double whole) {
    return places(w, dtype, 0, whole / (double)(w->period > 0 ? w->period : 1));
}

/* The result; that of one number is 1. */
static dl_status finish_window(dl_call *c, const window *w, dl_tensor *x) {
    return dl_finish(c, w->n == 1 ? dl_ones(&w->n, 1, w->dtype, w->device) : x ? dl_to(x, w->dtype) : NULL);
}

/* a[0], or 0 of no numbers. */
static dl_tensor *constant(const window *w, dl_tensor *a) {
    POOL;
    dl_tensor *zeros = K(dl_zeros(&w->n, 1, DL_F64, w->device));
    return zeros && a->numel ? dl_add(zeros, K(dl_select(a, 0, 0))) : dl_ref(zeros);
}

/* a[0] - a[1] cos(x) + a[2] cos(2 x) - ... over a period, as the result. */
static dl_status waves(dl_call *c, const window *w, dl_tensor *a) {
    if (w->n == 1) return finish_window(c, w, NULL);
    DL_OWNED dl_tensor *x = phases(w, DL_F64, 2 * M_PI);
    DL_OWNED dl_tensor *sum = a->numel > 1 ? dl_select(a, 0, 0) : constant(w, a);
    for (int i = 1; sum && i < a->numel; i++) {
        POOL;
        dl_tensor *before = K(sum), *wave = K(dl_cos(i == 1 ? x : K(dl_mul(x, N(i))))),
                  *term = K(dl_mul(wave, K(dl_select(a, 0, i))));
        sum = i % 2 ? dl_sub(before, term) : dl_add(before, term);
    }
    return finish_window(c, w, sum);
}

static dl_status known_waves(dl_call *c, const window *w, const double *factor, long n) {
    DL_OWNED dl_tensor *a = dl_tensor_from(1, &n, DL_F64, w->device, factor);
    return a ? waves(c, w, a) : dl_failed();
}

/* From 0 up to 1 and back. */
static dl_status triangle(dl_call *c, const window *w) {
    POOL;
    dl_tensor *x = K(phases(w, w->dtype == DL_F64 ? DL_F64 : DL_F32, 2));
    return finish_window(c, w, K(dl_minimum(x, K(dl_sub(N(2), x)))));
}

static dl_status bessel(dl_call *c, const window *w, double beta) {
    POOL;
    if (!(beta >= 0)) return dl_fail(DL_ERR_VALUE, "beta must be 0 or more, not %g", beta);
    return finish_window(c, w, K(dl_kaiser_at(K(dl_sub(K(phases(w, DL_F64, 2)), N(1))), beta)));
}

#define WAVES(name, of, ...)                                                                                           \
    COMPOSE_RULE(name) {                                                                                               \
        window w = {0};                                                                                                \
        const double a[] = {__VA_ARGS__};                                                                              \
        DL_TRY(of(c, &w));                                                                                             \
        return known_waves(c, &w, a, sizeof a / sizeof *a);                                                            \
    }
WAVES(hann_window, periodic_window, 0.5, 0.5)
WAVES(hamming_window, periodic_window, ATTR_F(c, HAMMING_WINDOW_ALPHA), ATTR_F(c, HAMMING_WINDOW_BETA))
WAVES(blackman_window, periodic_window, 0.42, 0.5, 0.08)
WAVES(hann, symmetric_window, 0.5, 0.5)
WAVES(hamming, symmetric_window, 0.54, 0.46)
WAVES(general_hamming, symmetric_window, ATTR_F(c, GENERAL_HAMMING_ALPHA), 1 - ATTR_F(c, GENERAL_HAMMING_ALPHA))
WAVES(blackman, symmetric_window, 0.42, 0.5, 0.08)
WAVES(nuttall, symmetric_window, 0.3635819, 0.4891775, 0.1365995, 0.0106411)

COMPOSE_RULE(bartlett_window) {
    window w = {0};
    DL_TRY(periodic_window(c, &w));
    return triangle(c, &w);
}

COMPOSE_RULE(bartlett) {
    window w = {0};
    DL_TRY(symmetric_window(c, &w));
    return triangle(c, &w);
}

COMPOSE_RULE(kaiser_window) {
    window w = {0};
    DL_TRY(periodic_window(c, &w));
    return bessel(c, &w, ATTR_F(c, KAISER_WINDOW_BETA));
}

COMPOSE_RULE(kaiser) {
    window w = {0};
    DL_TRY(symmetric_window(c, &w));
    return bessel(c, &w, ATTR_F(c, KAISER_BETA));
}

POOLED_RULE(cosine) {
    window w = {0};
    DL_TRY(symmetric_window(c, &w));
    return finish_window(c, &w, K(dl_sin(K(places(&w, DL_F64, -0.5, M_PI / (double)(w.n ? w.period + 1 : 1))))));
}

/* The middle of a window; of one number it is that number. */
static double middle(const window *w) { return w->n > 1 ? (double)w->period / 2 : 0; }

POOLED_RULE(exponential) {
    window w = {0};
    const dl_aval *center = ATTR(c, EXPONENTIAL_CENTER);
    const double tau = ATTR_F(c, EXPONENTIAL_TAU);
    DL_TRY(symmetric_window(c, &w));
    if (!(tau > 0)) return dl_fail(DL_ERR_VALUE, "tau must be above 0, not %g", tau);
    if (center->given && ATTR_I(c, SYMWINDOW_SYM))
        return dl_fail_hint(DL_ERR_VALUE, "exponential(10, sym=false, center=2)",
                            "a symmetric window has its center in the middle");
    dl_tensor *x = K(places(&w, DL_F64, center->given ? center->u.f : middle(&w), 1 / tau));
    dl_tensor *e = K(dl_exp(K(dl_neg(K(dl_abs(x))))));
    return dl_finish(c, e ? dl_to(e, w.dtype) : NULL);
}

POOLED_RULE(gaussian) {
    window w = {0};
    const double std = ATTR_F(c, GAUSSIAN_STD);
    DL_TRY(symmetric_window(c, &w));
    if (!(std > 0)) return dl_fail(DL_ERR_VALUE, "std must be above 0, not %g", std);
    dl_tensor *x = K(places(&w, DL_F64, middle(&w), M_SQRT1_2 / std));
    return finish_window(c, &w, K(dl_exp(K(dl_neg(K(dl_square(x)))))));
}

/* Factors one by one, or all in one tensor. */
POOLED_RULE(general_cosine) {
    window w = {0};
    dl_tensor *a = c->in[0];
    bool together = c->nin == 1 && a->ndim == 1;
    DL_TRY(symmetric_window(c, &w));
    if (!together) a = K(dl_stack(c->in, c->nin, 0));
    if (a && a->ndim != 1) return dl_fail(DL_ERR_SHAPE, "factors of waves are single numbers");
    if (a && !a->numel) return dl_fail(DL_ERR_VALUE, "a window of no waves");
    a = a ? K(dl_to_device(a, c->device)) : NULL;
    return a ? waves(c, &w, a) : dl_failed();
}
