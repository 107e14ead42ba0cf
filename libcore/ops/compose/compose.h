/* For ops made of other ops: temporaries that are released together. A failed call returns NULL, which passes through
 * the calls that follow it. */
#pragma once

#include "core/scope.h"
#include "ops/infer.h"
#include "ops/rules.h"

enum { DL_POOL = 64 };

typedef struct dl_pool {
    dl_tensor *t[DL_POOL];
    int n;
} dl_pool;

/* Gives a temporary to the pool, and returns it. */
static inline dl_tensor *dl_keep(dl_pool *p, dl_tensor *t) {
    if (t && p->n < DL_POOL) return p->t[p->n++] = t;
    if (t) dl_fail(DL_ERR_INTERNAL, "an op made of others has more than %d parts", DL_POOL);
    dl_unref(t);
    return NULL;
}

static inline void dl_release(dl_pool *p) {
    while (p->n) dl_unref(p->t[--p->n]);
}

/* The result of a composition, whose reference it takes; NULL: a part of it failed. */
static inline dl_status dl_finish(dl_call *c, dl_tensor *result) {
    c->out[0] = result;
    return result ? DL_OK : dl_fail_null("a part of the result");
}

/* The same of an op whose result is never the memory of its first input: copied where there was nothing to do. */
dl_status dl_finish_own(dl_call *c, dl_tensor *result);

/* The root of a sum of powers, 0 with gradient 0 where that is 0: a new reference. NULL passes. */
dl_tensor *dl_norm_root(dl_tensor *sum, double power);

/* x without history, in a dtype of the kernels that compare: i32, i64, f32 or f64. A new reference. */
dl_tensor *dl_ordered(dl_tensor *x);

/* t with a dimension of size 1 put in at d, which counts from the end of the result when negative: a new reference.
 * NULL passes. */
dl_tensor *dl_with_dim(dl_tensor *t, int d);

/* A pool p, released at the end of the block; and a temporary of such a pool. */
#define POOL dl_pool pool DL_SCOPE(dl_release) = {0}, *p = &pool
#define K(expr) dl_keep(p, (expr))
/* A number of the language, kept by the pool; and as the result, with a new reference, what the pool keeps. */
#define N(v) K(dl_scalar_f(v))
#define RESULT(x) return dl_finish(c, dl_ref(x))
/* The function of a composite that has a pool. */
#define POOLED_RULE(name)                                                                                              \
    static dl_status pooled_##name(dl_call *c, dl_pool *p);                                                            \
    COMPOSE_RULE(name) {                                                                                               \
        POOL;                                                                                                          \
        return pooled_##name(c, p);                                                                                    \
    }                                                                                                                  \
    static dl_status pooled_##name(dl_call *c, dl_pool *p)

/* Has the device no kernel for a call, of its dtype? While vmap watches, no device has one. */
bool dl_lacks_kernel(const dl_call *c);
