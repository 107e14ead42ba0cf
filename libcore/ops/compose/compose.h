/* What rows made of other rows are written with: temporaries that are released together. A failed call gives NULL,
 * which passes through the calls that follow it. */
#ifndef DL_OPS_COMPOSE_H
#define DL_OPS_COMPOSE_H

#include "ops/infer.h"
#include "ops/rules.h"

enum { DL_POOL = 40 };

typedef struct dl_pool {
    dl_tensor *t[DL_POOL];
    int n;
} dl_pool;

/* Hands a temporary to the pool, and returns it. */
static inline dl_tensor *dl_keep(dl_pool *p, dl_tensor *t) {
    if (t && p->n < DL_POOL) return p->t[p->n++] = t;
    if (t) dl_fail(DL_ERR_INTERNAL, "an op made of others has more than %d parts", DL_POOL);
    dl_unref(t);
    return NULL;
}

static inline void dl_release(dl_pool *p) {
    while (p->n) dl_unref(p->t[--p->n]);
}

/* Ends a composition: takes over its result, NULL being the failure of a part. */
static inline dl_status dl_finish(dl_pool *p, dl_call *c, dl_tensor *result) {
    dl_release(p);
    c->out[0] = result;
    return result ? DL_OK : dl_fail_null("a part of the result");
}

/* In a rule with a pool called p. */
#define K(expr) dl_keep(&p, (expr))

#endif
