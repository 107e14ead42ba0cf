/* What breakpoints of trainings measure of a tensor in host memory: its norm, units that are dead, NaN, infinities. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/control_step.h"
#include "core/scope.h"
#include "cpu/runtime/control.h"
#include "optim/clip.h"

/* Marks units that are alive; returns how many are not. The first samples tell of most, so that few are read. */
#define DEAD_UNITS(name, T)                                                                                            \
    static long name(const T *p, const dl_units *u, char *alive) {                                                     \
        long dead = u->units;                                                                                          \
        for (long i = 0; i < u->n && dead; i++)                                                                        \
            for (long c = 0; c < u->units; c++) {                                                                      \
                const T *at = p + i * u->sample_step + c * u->unit_step;                                               \
                long k = 0;                                                                                            \
                while (!alive[c] && k < u->places && at[k * u->place_step] <= 0) k++;                                  \
                if (alive[c] || k == u->places) continue;                                                              \
                alive[c] = 1, dead--;                                                                                  \
            }                                                                                                          \
        return dead;                                                                                                   \
    }
DEAD_UNITS(dead_units_f32, float)
DEAD_UNITS(dead_units_f64, double)

/* Is there an element that is NaN, or infinite? */
#define FINDS(name, T)                                                                                                 \
    static bool name(const T *v, long n, bool nan) {                                                                   \
        for (long i = 0; i < n; i++)                                                                                   \
            if (nan ? isnan(v[i]) : isinf(v[i])) return true;                                                          \
        return false;                                                                                                  \
    }
FINDS(finds_f32, float)
FINDS(finds_f64, double)

bool dl_cpu_finds(const dl_tensor *t, bool nan) {
    return t->dtype == DL_F64 ? finds_f64(dl_ptr(t), t->numel, nan) : finds_f32(dl_ptr(t), t->numel, nan);
}

static dl_status dead_share(const dl_tensor *t, double *out) {
    dl_units u;
    if (!dl_units_of(t, &u)) return dl_fail(DL_ERR_INTERNAL, "the units of a result do not lie regularly");
    DL_FREED char *alive = calloc((size_t)u.units + 1, 1);
    if (!alive) return dl_fail(DL_ERR_MEMORY, "no memory for the units of a layer");
    long dead = t->dtype == DL_F64 ? dead_units_f64(dl_ptr(t), &u, alive) : dead_units_f32(dl_ptr(t), &u, alive);
    return *out = (double)dead / (double)u.units, DL_OK;
}

static double root_of_sum(const dl_tensor *t) {
    double sum = 0;
    for (long i = 0; i < t->numel; i++) sum += ((const double *)dl_ptr(t))[i];
    return sqrt(sum);
}

dl_status dl_cpu_measure(dl_tensor *t, dl_break_measure of, double *out) {
    if (of == DL_BREAK_VALUE) return dl_item_f(t, out);
    DL_OWNED dl_tensor *x = dl_to_dtype(t, t->dtype == DL_F64 ? DL_F64 : DL_F32);
    if (!x) return dl_failed();
    if (of == DL_BREAK_NORM) DL_TRY(dl_grads_norm(&x, 1, out));
    if (of == DL_BREAK_SQUARES) *out = root_of_sum(x);
    if (of == DL_BREAK_DEAD) DL_TRY(dead_share(x, out));
    if (of == DL_BREAK_ANY_NAN || of == DL_BREAK_ANY_INF) *out = dl_cpu_finds(x, of == DL_BREAK_ANY_NAN);
    if (t->dtype != DL_F64 || of == DL_BREAK_SQUARES) *out = (float)*out; /* as ops give it */
    return DL_OK;
}
