/* Formulas of tensors in few words, for the files of distributions: P(i) is parameter i, N(x) a number; a failed part
 * makes all after it NULL. */
#pragma once

#include "lang/session.h"
#include "dlcore/arithmetic.h"
#include "dlcore/elementary.h"
#include "dlcore/unary.h"

/* The tensors that a formula is made of; a failed one makes all after it NULL. */
enum { POOL_MOST = 64 };
typedef struct pool {
    dl_tensor *t[POOL_MOST];
    int n;
    dl_tensor *const *param;
} pool;

static inline dl_tensor *keep(pool *p, dl_tensor *t) {
    if (!t || p->n < POOL_MOST) return t ? p->t[p->n++] = t : NULL;
    dl_unref(t);
    return dlsh_fail(DL_ERR_INTERNAL, NULL, "a formula of more than %d parts", POOL_MOST), NULL;
}

static inline dl_tensor *number(pool *p, double x) { return keep(p, dl_scalar_f(x)); }

typedef dl_tensor *pair(dl_tensor *, dl_tensor *);
static inline dl_tensor *two(pool *p, pair *f, dl_tensor *a, dl_tensor *b) { return a && b ? keep(p, f(a, b)) : NULL; }
static inline dl_tensor *one(pool *p, dl_tensor *(*f)(dl_tensor *), dl_tensor *a) { return a ? keep(p, f(a)) : NULL; }

#define P(i) (p->param[i])
#define N(x) number(p, x)
#define ADD(a, b) two(p, dl_add, a, b)
#define SUB(a, b) two(p, dl_sub, a, b)
#define MUL(a, b) two(p, dl_mul, a, b)
#define DIV(a, b) two(p, dl_div, a, b)
#define SQUARE(a) one(p, dl_square, a)
#define EXP(a) one(p, dl_exp, a)
#define SIGMOID(a) one(p, dl_sigmoid, a)
/* a in the shape that it has with b */
#define BESIDE(a, b) ADD(a, SUB(b, b))

/* Ends the pool; a new reference to out, which may be NULL. */
static inline dl_tensor *end_pool(pool *p, dl_tensor *out) {
    if (out) dl_ref(out);
    for (int i = 0; i < p->n; i++) dl_unref(p->t[i]);
    return out;
}
