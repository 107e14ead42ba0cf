/* Line search: a bracket grows until it holds a point that will do, then shrinks around it. */
#include "optim/line_search.h"

#include <math.h>

enum { MOST_EVALUATIONS = 25 };
static const double DECREASE = 1e-4, CURVATURE = 0.9; /* c1 and c2 of the conditions */

/* low: the better end of the bracket. */
typedef struct bracket {
    dl_line_point low, high;
} bracket;

static void keep(dl_line_point *to, const dl_line_point *from) {
    dl_tensor *old = to->grad;
    *to = *from;
    dl_ref(to->grad);
    dl_unref(old);
}

/* Where the cubic through both points, with their slopes, is smallest between least and most. */
static double cubic_minimum(const dl_line_point *a, const dl_line_point *b, double least, double most) {
    if (a->t > b->t) {
        const dl_line_point *swap = a;
        a = b, b = swap;
    }
    double d1 = a->slope + b->slope - 3 * (a->loss - b->loss) / (a->t - b->t), square = d1 * d1 - a->slope * b->slope;
    if (!(square >= 0)) return (least + most) / 2;
    double d2 = sqrt(square);
    double t = b->t - (b->t - a->t) * ((b->slope + d2 - d1) / (b->slope - a->slope + 2 * d2));
    return fmin(fmax(t, least), most);
}

static bool decreases_enough(const dl_line *l, const dl_line_point *p) {
    return p->loss <= l->start.loss + DECREASE * p->t * l->start.slope;
}

static bool is_flat_enough(const dl_line *l, const dl_line_point *p) {
    return fabs(p->slope) <= -CURVATURE * l->start.slope;
}

static dl_status evaluate(dl_line *l, dl_line_point *p, double t) {
    dl_unref(p->grad);
    *p = (dl_line_point){.t = t};
    l->evaluations++;
    return l->at(l->ctx, p);
}

/* A loss that is not a number is the worse one. */
static void set_bracket(bracket *b, const dl_line_point *one, const dl_line_point *other) {
    bool first = !(other->loss < one->loss);
    keep(&b->low, first ? one : other);
    keep(&b->high, first ? other : one);
}

/* Longer and longer steps; true: p will do, else b holds one that will. */
static dl_status grow(dl_line *l, dl_line_point *p, bracket *b, bool *done) {
    dl_line_point before = {0};
    keep(&before, &l->start);
    dl_status st = evaluate(l, p, p->t);
    for (long i = 0; st == DL_OK; i++) {
        if (i == MOST_EVALUATIONS) {
            set_bracket(b, &l->start, p);
            break;
        }
        bool rises = !decreases_enough(l, p) || (i > 1 && p->loss >= before.loss);
        *done = !rises && is_flat_enough(l, p);
        if (*done) break;
        if (rises || p->slope >= 0) {
            set_bracket(b, &before, p);
            break;
        }
        double next = cubic_minimum(&before, p, p->t + 0.01 * (p->t - before.t), p->t * 10);
        keep(&before, p);
        st = evaluate(l, p, next);
    }
    dl_unref(before.grad);
    return st;
}

/* The next point within the bracket, away from its ends when the last one was near an end, too. */
static double inside(const bracket *b, bool *slow) {
    double least = fmin(b->low.t, b->high.t), most = fmax(b->low.t, b->high.t), margin = 0.1 * (most - least);
    double t = cubic_minimum(&b->low, &b->high, least, most);
    bool near = fmin(most - t, t - least) < margin;
    if (near && (*slow || t >= most || t <= least)) {
        *slow = false;
        return fabs(t - most) < fabs(t - least) ? most - margin : least + margin;
    }
    *slow = near;
    return t;
}

/* Shrinks the bracket until its better end will do. */
static dl_status shrink(dl_line *l, dl_line_point *p, bracket *b) {
    bool slow = false;
    while (l->evaluations <= MOST_EVALUATIONS) {
        if (fabs(b->high.t - b->low.t) * l->longest < l->tolerance) break;
        DL_TRY(evaluate(l, p, inside(b, &slow)));
        if (!decreases_enough(l, p) || p->loss >= b->low.loss) {
            keep(&b->high, p);
            if (b->high.loss < b->low.loss) {
                bracket turned = {b->high, b->low};
                *b = turned;
            }
            continue;
        }
        bool done = is_flat_enough(l, p);
        if (!done && p->slope * (b->high.t - b->low.t) >= 0) keep(&b->high, &b->low);
        keep(&b->low, p);
        if (done) break;
    }
    return DL_OK;
}

dl_status dl_line_search(dl_line *l, dl_line_point *out) {
    bracket b = {0};
    bool done = false;
    out->grad = NULL;
    l->evaluations = 0;
    dl_status st = grow(l, out, &b, &done);
    if (st == DL_OK && !done) st = shrink(l, out, &b);
    if (st == DL_OK && !done) keep(out, &b.low);
    if (st != DL_OK) {
        dl_unref(out->grad);
        out->grad = NULL;
    }
    dl_unref(b.low.grad);
    dl_unref(b.high.grad);
    return st;
}
