/* NaN and infinities: what made the first of them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "debug/doctor/checks.h"
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/trace.h"

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
        dlsh_cause(f, "eps=0 of the optimizer: where a gradient is 0, its step is 0 / 0");
        dlsh_evidence(f, "%s made nan in an update", dl_optimizer_text(o));
        return 1;
    }
    return 0;
}

/* A call that gives infinities, on a line before. */
static dlsh_property may_be_infinite(void *line, const dlsh_step *at) {
    const int gives = dlsh_is_call_of(at->n, "log|log2|log10|exp|pow|reciprocal|rsqrt|div");
    return gives && at->n->span.line < *(int *)line ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* A NaN of infinities that no op was seen to make: the statement blamed is the one whose call in the text may have. */
static const dlsh_node *source_of_infinity(dl_nan_event *event) {
    int infinite = 0, line = event->line;
    for (int i = 0; i < event->noperands; i++) infinite |= event->operand[i].inf > 0;
    const dlsh_node *s = infinite ? dlsh_statement_at(event->file, event->line) : NULL;
    const dlsh_node *value = s && s->kind == DLSH_N_ASSIGN ? s->kids[s->nkids - 1] : s;
    return value ? dlsh_origin(event->file, value, may_be_infinite, &line) : NULL;
}

/* Where an op has no value at a number, as log at 0, the scale of data explains no NaN: it is a note. */
static void soften_scale(dlsh_examination *e) {
    for (int i = 0; i < e->nfindings; i++) {
        dlsh_finding *f = &e->findings[i];
        if (f->note || strcmp(f->check, "the data") != 0 || !strstr(f->cause, "not scaled")) continue;
        f->note = 1, e->nnotes++;
    }
}

dl_status dlsh_check_nonfinite(dlsh_examination *e) {
    static dl_nan_event event; /* a finding borrows its texts */
    const int any = dlsh_first_nan(&event);
    const dlsh_node *from = any ? source_of_infinity(&event) : NULL;
    if (any && event.update && blame_eps(e)) return DL_OK;
    for (int i = 0; any && i < e->nfindings; i++) /* told of the data that came of it */
        if (e->findings[i].line == event.line && strstr(e->findings[i].cause, "not finite")) return DL_OK;
    dlsh_finding *f = any ? dlsh_find_at(e, event.file, from ? from->span.line : event.line, event.remedy) : NULL;
    if (!f) return DL_OK;
    if (!event.updates) dlsh_mark_effects(e, "the net uses its input");
    if (dlsh_is_word("log|log2|log10|log1p|div|reciprocal|sqrt|rsqrt|pow", event.op)) soften_scale(e);
    f->own = !event.updates && !dlsh_was_found(e, "the data", "not finite") &&
             !dlsh_was_found(e, "gradients are zeroed", "") && !dlsh_was_found(e, "updates written by hand", "");
    dlsh_cause(f, "%s%s%s made %s%s%s", event.op, event.backward ? " in the gradient of " : "",
               event.backward ? event.forward : "", isnan(event.value) ? "nan" : "an infinity",
               *event.reason ? ": " : "", event.reason);
    char made[80] = "";
    if (from) snprintf(made, sizeof made, " (line %d) of what %.20s gives here", event.line, from->kids[0]->text);
    const int stepped = dlsh_row_behind(e, DL_DID_STEP, NULL) != NULL; /* by an optimizer */
    dlsh_evidence(f, "%ld of %ld elements%s%s; why nan tells more", event.count, event.numel, made,
                  stepped || event.updates ? dlsh_kept(e, ", after %ld steps of optimizers", event.updates) : "");
    return DL_OK;
}
