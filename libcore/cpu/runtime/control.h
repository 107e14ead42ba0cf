/* What the CPU offers to training (cpu/runtime/control.c), see core/device/control.h. */
#pragma once

#include "core/device/device.h"

void dl_cpu_use_control(int index, const dl_control *c, const dl_rng_at *rng);
dl_status dl_cpu_accumulate(int index, dl_control *c, const dl_accumulate *a);
dl_status dl_cpu_decide(int index, dl_control *c, const dl_decide *d);
dl_status dl_cpu_finish_step(int index, dl_control *c, const dl_finish_step *f);
dl_status dl_cpu_average_weights(int index, const dl_control *c, dl_tensor *const *avg, dl_tensor *const *p, int n,
                                 double keep);

/* Of breakpoints (cpu/runtime/measures.c): what is measured of a tensor; is there a NaN, or an infinity, in one of f32
 * or f64? */
dl_status dl_cpu_measure(dl_tensor *t, dl_break_measure of, double *out);
bool dl_cpu_finds(const dl_tensor *t, bool nan);
