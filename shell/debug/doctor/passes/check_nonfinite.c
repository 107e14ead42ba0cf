/* NaN and infinities: what made the first of them. */
#include <math.h>
#include <string.h>

#include "debug/doctor/checks.h"
#include "debug/doctor/passes/passes.h"

int dlsh_first_nan(dl_nan_event *out) {
    dl_nan_event from;
    int infinite = 0;
    if (dlsh_nan_event_at(0, 0, out)) return dl_error_clear(), 0;
    for (int i = 0; i < out->noperands; i++) infinite |= out->operand[i].inf > 0;
    for (int i = 0; infinite && !dlsh_nan_event_at(1, i, &from); i++) {
        *out = from;
        if (!from.backward) break; /* what it all began with */
    }
    dl_error_clear();
    return 1;
}

/* An optimizer that divides by the root of squares of 0. */
static int blame_eps(dlsh_examination *e) {
    dl_optimizer *o;
    for (int i = 0; (o = dlsh_optimizer_at(e, i, NULL)); i++) {
        if (dl_optimizer_option(o, "eps", 1) != 0) continue;
        const dl_source made = dlsh_optimizer_source(o);
        dlsh_finding *f = dlsh_find_at(e, made.file, made.line, "eps=1e-8");
        if (f) f->own = 1;
        if (f) dlsh_cause(f, "eps=0 of the optimizer: where a gradient is 0, its step is 0 / 0");
        if (f) dlsh_evidence(f, "%s made nan in an update", dl_optimizer_text(o));
        return 1;
    }
    return 0;
}

dl_status dlsh_check_nonfinite(dlsh_examination *e) {
    static dl_nan_event event; /* a finding borrows its texts */
    const int any = dlsh_first_nan(&event);
    if (any && event.update && blame_eps(e)) return DL_OK;
    for (int i = 0; any && i < e->nfindings; i++) /* told of the data that came of it */
        if (e->findings[i].line == event.line && strstr(e->findings[i].cause, "not finite")) return DL_OK;
    dlsh_finding *f = any ? dlsh_find_at(e, event.file, event.line, event.remedy) : NULL;
    if (!f) return DL_OK;
    f->own = !event.updates && !dlsh_was_found(e, "the data", "not finite") &&
             !dlsh_was_found(e, "gradients are zeroed", "") && !dlsh_was_found(e, "updates written by hand", "");
    dlsh_cause(f, "%s%s%s made %s%s%s", event.op, event.backward ? " in the gradient of " : "",
               event.backward ? event.forward : "", isnan(event.value) ? "nan" : "an infinity",
               *event.reason ? ": " : "", event.reason);
    dlsh_evidence(f, "%ld of %ld elements, after %ld steps of optimizers; why nan tells more", event.count, event.numel,
                  event.updates);
    return DL_OK;
}
