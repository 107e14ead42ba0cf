/* Short ways of the evaluator for what loops do most: names, numbers, and operations on numbers. */
#ifndef DLSH_LANG_QUICK_H
#define DLSH_LANG_QUICK_H

#include "lang/eval/interp.h"

/* Operations on ints that cannot fail; 0: dlsh_binary must do it. */
static inline int dlsh_quick_ints(int op, long a, long b, dlsh_value *out) {
    long i;
    switch (op) {
    case DLSH_OP_ADD:
        if (__builtin_add_overflow(a, b, &i)) return 0;
        break;
    case DLSH_OP_SUB:
        if (__builtin_sub_overflow(a, b, &i)) return 0;
        break;
    case DLSH_OP_MUL:
        if (__builtin_mul_overflow(a, b, &i)) return 0;
        break;
    case DLSH_OP_FLOORDIV:
        if (b <= 0) return 0;
        i = a / b - (a % b < 0);
        break;
    case DLSH_OP_MOD:
        if (b <= 0) return 0;
        i = a % b;
        if (i < 0) i += b;
        break;
    case DLSH_OP_DIV: *out = dlsh_float((double)a / (double)b); return 1;
    case DLSH_OP_BITAND: i = a & b; break;
    case DLSH_OP_LT: *out = dlsh_bool(a < b); return 1;
    case DLSH_OP_GT: *out = dlsh_bool(a > b); return 1;
    case DLSH_OP_LE: *out = dlsh_bool(a <= b); return 1;
    case DLSH_OP_GE: *out = dlsh_bool(a >= b); return 1;
    case DLSH_OP_EQ: *out = dlsh_bool(a == b); return 1;
    case DLSH_OP_NE: *out = dlsh_bool(a != b); return 1;
    default: return 0;
    }
    *out = dlsh_int(i);
    return 1;
}

/* The same for numbers. */
static inline int dlsh_quick_binary(int op, dlsh_value a, dlsh_value b, dlsh_value *out) {
    if (a.type == DLSH_INT && b.type == DLSH_INT) return dlsh_quick_ints(op, a.as.i, b.as.i, out);
    if (!dlsh_is_number(a) || !dlsh_is_number(b)) return 0;
    double x = dlsh_number(a), y = dlsh_number(b);
    switch (op) {
    case DLSH_OP_ADD: *out = dlsh_float(x + y); return 1;
    case DLSH_OP_SUB: *out = dlsh_float(x - y); return 1;
    case DLSH_OP_MUL: *out = dlsh_float(x * y); return 1;
    case DLSH_OP_DIV: *out = dlsh_float(x / y); return 1;
    case DLSH_OP_LT: *out = dlsh_bool(x < y); return 1;
    case DLSH_OP_GT: *out = dlsh_bool(x > y); return 1;
    default: return 0;
    }
}

/* Where a NAME that has a value keeps it; NULL: dlsh_eval finds out what it means. */
static inline dlsh_value *dlsh_quick_slot(dlsh_session *s, const dlsh_node *n) {
    dlsh_value *v = n->flags & DLSH_LOCAL ? &s->frame->slots[n->slot] : &s->globals[n->slot].value;
    if (v->type == DLSH_CELL) v = &v->as.cell->v;
    return v->type == DLSH_VOID ? NULL : v;
}

static inline dl_status dlsh_eval_quick(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    if (n->kind == DLSH_N_NAME) {
        const dlsh_value *v = dlsh_quick_slot(s, n);
        if (v) return *out = dlsh_ref(*v), DL_OK;
    } else if (n->kind == DLSH_N_INT)
        return *out = dlsh_int(n->num.i), DL_OK;
    return dlsh_eval(s, n, out);
}

#endif
