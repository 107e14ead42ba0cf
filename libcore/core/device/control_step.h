/* How the control block changes with batches and steps, on every backend. Plain C and C++17. */
#ifndef DL_CORE_CONTROL_STEP_H
#define DL_CORE_CONTROL_STEP_H

#include <math.h>

#include "core/device/control.h"
#include "core/random/rng.h"

/* Adds a batch: its loss, and `correct` right answers of `counted`. */
DL_HD void dl_control_add(dl_control *c, const dl_batch_rule *b, double loss, double correct, double counted) {
    c->from += b->advance;
    c->last_loss = loss, c->last_correct = correct, c->last_counted = counted;
    c->seed = c->scale / b->batches, c->seed_f32 = (float)c->seed;
    if (b->first) c->loss = c->weight = c->correct = c->counted = 0;
    if (c->halt != 0) return;
    c->loss += loss * b->weight, c->weight += b->weight;
    c->correct += correct, c->counted += counted;
    if (!b->lenient && !b->scaled && !isfinite(loss)) c->halt = DL_END_LOSS, c->bad = loss;
}

DL_HD bool dl_break_holds(const dl_break_rule *b, double v) {
    switch (b->test) {
    case DL_BREAK_NAN: return v != v;
    case DL_BREAK_INF: return v == v && v - v != 0;
    case DL_BREAK_LESS: return v < b->limit;
    case DL_BREAK_LESS_EQUAL: return v <= b->limit;
    case DL_BREAK_GREATER: return v > b->limit;
    case DL_BREAK_GREATER_EQUAL: return v >= b->limit;
    case DL_BREAK_TRUE: break;
    }
    return v != 0;
}

/* False: the places of a unit do not lie regularly. */
static inline bool dl_units_of(const dl_tensor *t, dl_units *u) {
    const int at = t->ndim > 1;
    u->n = at ? t->shape[0] : 1, u->sample_step = at ? t->stride[0] : 0;
    u->units = t->ndim ? t->shape[at] : 1, u->unit_step = t->ndim ? t->stride[at] : 1;
    u->places = t->numel > 0, u->place_step = 1;
    for (int i = t->ndim - 1; i > 1 && t->numel; i--) {
        if (t->shape[i] == 1) continue;
        if (u->places == 1) u->place_step = t->stride[i];
        if (t->stride[i] != u->place_step * u->places) return false;
        u->places *= t->shape[i];
    }
    return true;
}

/* Is the step void, issued before a halt was seen? Asked before its end. */
DL_HD bool dl_control_void(const dl_control *c) { return c->halt != 0 && c->reported != 0; }

/* A breakpoint whose test holds or not. A loss that is not finite has halted this step when it is not reported yet: the
 * breakpoint comes first. Steps issued after a halt leave it as it was. */
DL_HD void dl_control_decide(dl_control *c, const dl_break_rule *b, bool holds) {
    dl_break_state *s = &c->at[b->number];
    if (dl_control_void(c)) return;
    const bool begins = holds && (b->each || s->held == 0);
    s->held = holds;
    if (!begins || s->hits++ < (double)b->ignore) return;
    c->halt = DL_END_BREAK;
    c->fired |= 1u << b->number;
}

/* How a step ends when nothing has halted it. */
DL_HD int dl_control_verdict(dl_control *c, const dl_step_rule *s, double norm) {
    if (!s->scaled) {
        if (s->lenient || isfinite(norm)) return DL_END_DONE;
        c->halt = DL_END_NORM, c->reported = 1;
        return DL_END_NORM;
    }
    if (isfinite(norm) && isfinite(c->loss)) {
        if (++c->good == DL_SCALE_GROWTH) c->scale *= 2, c->good = 0;
        return DL_END_DONE;
    }
    c->good = 0;
    if (c->scale > 1 || s->lenient) {
        if (c->scale > 1) c->scale /= 2;
        return DL_END_SKIPPED;
    }
    c->halt = isfinite(c->loss) ? DL_END_NORM : DL_END_LOSS, c->bad = c->loss, c->reported = 1;
    return (int)c->halt;
}

/* Ends a step whose gradients have this norm, the loss scale divided out. */
DL_HD int dl_control_end(dl_control *c, const dl_step_rule *s, double norm) {
    if (c->halt == 0) return dl_control_verdict(c, s, norm);
    if (dl_control_void(c)) return DL_END_VOID;
    c->reported = 1;
    return (int)c->halt;
}

/* The report of the step that is under way. */
DL_HD dl_report *dl_control_report(const dl_control *c, const dl_step_rule *s) {
    return &s->report[c->index % DL_REPORTS];
}

/* What the end of a step knows before it knows the norm: of the report, and the rate that the optimizer reads for a
 * group. */
DL_HD void dl_control_begin_report(const dl_control *c, const dl_step_rule *s, long time) {
    dl_report *r = dl_control_report(c, s);
    r->loss = c->loss / s->batches;
    r->acc = c->counted > 0 ? c->correct / c->counted : NAN;
    r->scale = c->scale, r->time = time;
}
DL_HD void dl_control_rate(dl_control *c, const dl_step_rule *s, int group) {
    c->group[group].rate = s->rate[c->index % DL_REPORTS * s->groups + group];
}

/* The rest: of the report all but its number, which the backend writes last, and what a group does in the update. */
DL_HD void dl_control_end_report(const dl_control *c, dl_report *r, int end, double norm) {
    r->norm = norm, r->end = end, r->fired = c->fired;
    if (end == DL_END_LOSS) r->loss = c->bad;
}
DL_HD void dl_control_group(dl_control *c, int group, int end) {
    c->group[group].halt = end != DL_END_DONE;
    c->group[group].step += end == DL_END_DONE;
}

/* Goes on to the next step. */
DL_HD void dl_control_next(dl_control *c, const dl_step_rule *s) {
    c->index++;
    dl_rng_add(&c->rng, &s->draws);
}

#endif
