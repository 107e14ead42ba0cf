/* The table of optimizers: options and their limits, state tensors, and the shape rule of their ops. */
#include "optim/algorithm.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "ops/each.h"
#include "ops/rules/optim.h"

#undef OPTIONS
#undef O

/* ---- which optional states the options ask for, and what they refuse: functions of the options' values */

#define LR(def)
#define TAKE_FLOAT(id)                                                                                                 \
    const double id = *v++;                                                                                            \
    (void)id;
#define TAKE_BOOL TAKE_FLOAT
#define TAKE_FLOATS(id) TAKE_FLOAT(id##1) TAKE_FLOAT(id##2)
#define O(id, other, kind, def, text) TAKE_##kind(id)
#define OPTIONS(npos, ...) __VA_ARGS__
#define RANGES(...) __VA_ARGS__
#define AT_LEAST(id, low)
#define BELOW_ONE(id)
#define REFUSE(condition, hint, message)                                                                               \
    if (condition) return dl_fail_hint(DL_ERR_VALUE, hint, "%s: " message, what);
#define STATES(...) (__VA_ARGS__)
#define OPTIONAL(...) (__VA_ARGS__)
#define WHEN(...)                                                                                                      \
    { __VA_ARGS__ __VA_OPT__(, ) false }
#define OPTIMIZER(name, other, text, how, options, ranges, states, optional, when, ...)                                \
    static unsigned wants_##name(const double *v) {                                                                    \
        options const bool wanted[] = when;                                                                            \
        unsigned bits = (1u << DL_COUNT(states)) - 1;                                                                  \
        for (int i = 0; i < DL_COUNT(optional); i++) bits |= (unsigned)wanted[i] << (DL_COUNT(states) + i);            \
        return bits;                                                                                                   \
    }                                                                                                                  \
    static dl_status refuse_##name(const char *what, const double *v) {                                                \
        options(void) what;                                                                                            \
        ranges return DL_OK;                                                                                           \
    }
#include "optim/optimizers.def"
#undef LR
#undef O
#undef AT_LEAST
#undef BELOW_ONE
#undef REFUSE
#undef STATES
#undef OPTIONAL
#undef OPTIONS

/* ---- limits of single options */

#define LR(def)
#define AT_LEAST(id, low) {#id, low, INFINITY},
#define BELOW_ONE(id) {#id, 0, 1},
#define REFUSE(condition, hint, message)
#define OPTIMIZER(name, other, text, how, options, ranges, ...)                                                        \
    static const dl_opt_range limits_##name[] = {{"lr", 0, INFINITY}, ranges{0}};
#define ALGORITHM OPTIMIZER
#include "optim/optimizers.def"
#undef LR

/* ---- the rows */

#define NAME_OF(i, n) #n,
#define LR(def) {"lr", "learning_rate", DL_ARG_FLOAT, def, "learning rate"},
#define O(id, other, k, def, text) {#id, other, DL_ARG_##k, def, text},
#define OPTIONS(npos, ...) .kind.options = (const dl_option_row[]){__VA_ARGS__{0}}, .kind.positional = npos
#define STATES(...) (__VA_ARGS__)
#define OPTIONAL(...) DL_EACH(NAME_OF, (__VA_ARGS__))
#define OPTIMIZER(id, other, text, how, options, ranges, states, optional, ...)                                        \
    {.kind.name = #id,                                                                                                 \
     .kind.alias = other,                                                                                              \
     .kind.doc = text,                                                                                                 \
     .kind.example = how,                                                                                              \
     .op = &dl_id_##id##_step,                                                                                         \
     .own = DL_COUNT(states),                                                                                          \
     .state = {DL_EACH(NAME_OF, states) optional NULL},                                                                \
     .limits = limits_##id,                                                                                            \
     .wants = wants_##id,                                                                                              \
     .refuse = refuse_##id,                                                                                            \
     options},
#define ALGORITHM(id, other, text, how, options, ranges)                                                               \
    {.kind.name = #id,                                                                                                 \
     .kind.alias = other,                                                                                              \
     .kind.doc = text,                                                                                                 \
     .kind.example = how,                                                                                              \
     .algorithm = &dl_algorithm_##id,                                                                                  \
     .limits = limits_##id,                                                                                            \
     options},
const dl_opt_row dl_opt_rows[] = {
#include "optim/optimizers.def"
};
const int dl_opt_nrows = sizeof dl_opt_rows / sizeof *dl_opt_rows;

const dl_kind_row *dl_optimizer_kind_at(int i) { return i >= 0 && i < dl_opt_nrows ? &dl_opt_rows[i].kind : NULL; }

/* ---- options as numbers: the rate aside, in the order of the row; a list of two is two */

static dl_status check_range(const dl_kind_row *k, const dl_opt_range *r, double v) {
    if (v >= r->low && (v < r->below || (v == r->below && isinf(v)))) return DL_OK;
    if (isinf(r->below))
        return dl_fail(DL_ERR_VALUE, "optimizer %s: %s must be at least %g, not %g", k->name, r->name, r->low, v);
    return dl_fail(DL_ERR_VALUE, "optimizer %s: %s must be at least %g and below %g, not %g", k->name, r->name, r->low,
                   r->below, v);
}

static dl_status check_ranges(const dl_opt_row *row, const dl_optval *val) {
    for (const dl_opt_range *r = row->limits; r->name; r++) {
        const dl_option_row *o = &row->kind.options[dl_option_find(&row->kind, r->name)];
        const dl_optval *x = dl_option(&row->kind, val, r->name);
        bool list = o->kind == DL_ARG_FLOATS;
        if (!x->given) continue;
        for (int i = 0; i < (list ? x->n : 1); i++)
            DL_TRY(check_range(&row->kind, r, list ? x->u.fv[i] : o->kind == DL_ARG_INT ? (double)x->u.i : x->u.f));
    }
    return DL_OK;
}

void dl_opt_values(const dl_opt_row *row, const dl_optval *val, double v[DL_MAX_ATTR]) {
    const dl_option_row *o = row->kind.options;
    for (int i = 1; o[i].name; i++) {
        const dl_optval *x = &val[i];
        if (o[i].kind == DL_ARG_FLOATS) *v++ = x->u.fv[0];
        *v++ = o[i].kind == DL_ARG_FLOATS ? x->u.fv[1] : o[i].kind == DL_ARG_BOOL ? (double)x->u.i : x->u.f;
    }
}

void dl_opt_take_values(const dl_opt_row *row, const double *v, dl_optval *val) {
    const dl_option_row *o = row->kind.options;
    for (int i = 1; o[i].name; i++) {
        dl_optval *x = &val[i];
        if (o[i].kind == DL_ARG_FLOATS)
            x->u.fv[0] = *v++, x->u.fv[1] = *v++;
        else if (o[i].kind == DL_ARG_BOOL)
            x->u.i = *v++ != 0;
        else
            x->u.f = *v++;
    }
}

dl_status dl_opt_check(const dl_opt_row *row, const dl_optval *val) {
    const dl_kind_row *k = &row->kind;
    double v[DL_MAX_ATTR];
    char what[64];
    for (int i = 0; k->options[i].name; i++)
        if (k->options[i].kind == DL_ARG_FLOATS && val[i].n != 2)
            return dl_fail(DL_ERR_VALUE, "optimizer %s: %s are two numbers, %s", k->name, k->options[i].name,
                           k->options[i].dflt);
    DL_TRY(check_ranges(row, val));
    if (row->algorithm) return row->algorithm->check(k, val);
    dl_opt_values(row, val, v);
    snprintf(what, sizeof what, "optimizer %s", k->name);
    return row->refuse(what, v);
}

/* ---- the same in a call of the row's op */

enum { FIRST = DL_MAX_ATTR }; /* the place after all values */
static int8_t places[sizeof dl_opt_rows / sizeof *dl_opt_rows][DL_MAX_ATTR + 1];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Where the attributes of each op stand that hold the values. */
static void find_places(void) {
    for (int r = 0; r < dl_opt_nrows; r++) {
        if (dl_opt_rows[r].algorithm) continue;
        const dl_op *op = dl_op_row(*dl_opt_rows[r].op);
        const dl_option_row *o = dl_opt_rows[r].kind.options;
        char name[64];
        for (int i = 1, n = 0; o[i].name; i++)
            for (int k = 1; k <= (o[i].kind == DL_ARG_FLOATS ? 2 : 1); k++) {
                snprintf(name, sizeof name, o[i].kind == DL_ARG_FLOATS ? "%s%d" : "%s", o[i].name, k);
                places[r][n++] = (int8_t)dl_attr_index(op, name);
            }
        places[r][FIRST] = (int8_t)dl_attr_index(op, "first");
    }
}

static const int8_t *places_of(int row) {
    pthread_once(&once, find_places);
    return places[row];
}

void dl_opt_attrs(const dl_opt_row *row, const double *v, bool first, dl_aval *attr) {
    const dl_op *op = dl_op_row(*row->op);
    const int8_t *place = places_of((int)(row - dl_opt_rows));
    dl_attr_defaults(op, attr);
    for (int n = 0; n < op->nattr - 1; n++) {
        dl_aval *a = &attr[place[n]];
        *a = (dl_aval){.given = true, .is_int = op->attrs[place[n]].kind == DL_A_BOOL};
        if (a->is_int)
            a->u.i = (long)v[n];
        else
            a->u.f = v[n];
    }
    attr[place[FIRST]] = (dl_aval){.given = true, .is_int = true, .u.i = first};
}

static const dl_opt_row *row_of(const dl_op *op) {
    int r = 0;
    while (!dl_opt_rows[r].op || *dl_opt_rows[r].op != op->id) r++;
    return &dl_opt_rows[r];
}

void dl_optim_read(const dl_call *c, dl_optim_call *out) {
    const dl_opt_row *row = row_of(c->op);
    const int8_t *place = places_of((int)(row - dl_opt_rows));
    for (int n = 0; n < c->op->nattr - 1; n++) {
        const dl_aval *a = &c->attr[place[n]];
        out->v[n] = c->op->attrs[place[n]].kind == DL_A_BOOL ? (double)a->u.i : a->u.f;
    }
    out->states = row->wants(out->v);
    out->own = row->own;
    out->first = c->attr[place[FIRST]].u.i;
}

/* ---- the rule of the ops */

/* lr may bring a halt with it. */
static bool is_rates(const dl_call *c, int i) {
    return !i && c->in[0]->numel == 2 && c->in[0]->dtype == DL_F64 && dl_is_contiguous(c->in[0]);
}

/* Are the tensors lists of one length, alike position by position: parameters, gradients and each state? */
INFER_RULE(optimizer_step) {
    enum { HEAD = 2 };
    (void)out;
    dl_optim_call o;
    dl_optim_read(c, &o);
    DL_TRY(row_of(c->op)->refuse(c->op->name, o.v));
    int lists = 2 + __builtin_popcount(o.states), n = (c->nin - HEAD) / lists;
    for (int i = 0; i < HEAD; i++)
        if (c->in[i]->numel != 1 && !is_rates(c, i))
            return dl_fail(DL_ERR_SHAPE, "%s must be a single number", c->op->in_name[i]);
    if (n * lists != c->nin - HEAD)
        return dl_fail(DL_ERR_VALUE, "%d tensors cannot be parameters, gradients and %d states of each", c->nin - HEAD,
                       lists - 2);
    for (int i = 0; i < n * lists; i++) {
        const dl_tensor *p = c->in[HEAD + i % n], *t = c->in[HEAD + i];
        if (!t) return dl_fail(DL_ERR_VALUE, "tensor %d of the list is absent", i);
        if (!dl_dtype_is_float((dl_dtype)p->dtype))
            return dl_fail(DL_ERR_DTYPE, "parameters are floats, not %s", dl_type_of(p));
        if (!dl_shape_eq(p, t) || t->dtype != (i < 2 * n ? p->dtype : (int)dl_optim_state_dtype(p)))
            return dl_fail(DL_ERR_SHAPE, "tensor %d of the list differs from parameter %d in shape or dtype", i, i % n);
    }
    return DL_OK;
}
