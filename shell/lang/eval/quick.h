/* Short ways of the evaluator for what loops do most: names, numbers, and operations on numbers. */
#pragma once

#include "lang/eval/interp.h"

/* The value at p, in two parts: as one of sixteen bytes it would wait for both parts to be written. */
static inline dlsh_value dlsh_get_at(const dlsh_value *p) { return (dlsh_value){p->type, {.i = p->as.i}}; }
static inline void dlsh_put_at(dlsh_value *p, dlsh_value v) {
    p->type = v.type;
    p->as.i = v.as.i;
}

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
    dlsh_value *v = n->flags & DLSH_LOCAL ? &s->locals[n->slot] : &s->globals[n->slot].value;
    if (v->type == DLSH_CELL) v = &v->as.cell->v;
    return v->type == DLSH_VOID ? NULL : v;
}

/* The value of a literal or of a NAME that has one, borrowed: evaluating anything may drop it. VOID: it must be
 * evaluated. */
static inline dlsh_value dlsh_peek(dlsh_session *s, const dlsh_node *n) {
    if (n->kind == DLSH_N_NAME) {
        const dlsh_value *v = dlsh_quick_slot(s, n);
        return v ? dlsh_get_at(v) : dlsh_void();
    }
    if (n->kind == DLSH_N_INT) return dlsh_int(n->num.i);
    if (n->kind == DLSH_N_FLOAT) return dlsh_float(n->num.f);
    if (n->kind == DLSH_N_STR && n->info) return (dlsh_value){DLSH_STR, {.str = (dlsh_str *)n->info}};
    return dlsh_void();
}

/* dlsh_eval, straight to what is no literal and no name most often. */
static inline dl_status dlsh_eval_made(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    dl_status st;
    if (n->kind == DLSH_N_BINARY)
        st = dlsh_eval_binary(s, n, out);
    else if (n->kind == DLSH_N_CALL)
        st = dlsh_eval_call(s, n, out);
    else
        return dlsh_eval(s, n, out);
    return dlsh_at(s, n, st);
}

/* The value of an expression, owned; *st tells of a failure. */
static inline dlsh_value dlsh_value_of(dlsh_session *s, const dlsh_node *n, dl_status *st) {
    dlsh_value v = dlsh_peek(s, n), made;
    if (v.type != DLSH_VOID) return dlsh_ref(v);
    *st = dlsh_eval_made(s, n, &made);
    return *st ? dlsh_void() : dlsh_get_at(&made);
}

/* The truth of an expression's value, as dlsh_truth has it. */
static inline dl_status dlsh_eval_truth(dlsh_session *s, const dlsh_node *n, int *yes) {
    dl_status st = DL_OK;
    dlsh_value v = dlsh_value_of(s, n, &st);
    *yes = v.as.i != 0;
    return st || v.type == DLSH_BOOL ? st : dlsh_truth_of(s, n, v, yes);
}

static inline dl_status dlsh_eval_quick(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    dlsh_value v = dlsh_peek(s, n);
    if (v.type == DLSH_VOID) return dlsh_eval_made(s, n, out);
    dlsh_put_at(out, dlsh_ref(v));
    return DL_OK;
}

/* v is put in the place of an older value; takes it. */
static inline void dlsh_replace(dlsh_value *place, dlsh_value v) {
    dlsh_value old = dlsh_get_at(place);
    dlsh_put_at(place, v);
    dlsh_drop(old);
}

/* v becomes the value of a NAME; takes it. */
static inline void dlsh_assign_name(dlsh_session *s, const dlsh_node *n, dlsh_value v) {
    if (v.type == DLSH_VOID) v = dlsh_none();
    dlsh_value *slot = n->flags & DLSH_LOCAL ? &s->locals[n->slot] : &s->globals[n->slot].value;
    if (slot->type == DLSH_CELL) {
        dlsh_hold(dlsh_get_at(slot), v);
        slot = &slot->as.cell->v;
    }
    dlsh_replace(slot, v);
}

/* Where x[key] is, an item of a list or a field of a record that are there; NULL: the general way. */
static inline dlsh_value *dlsh_quick_place(dlsh_value x, dlsh_value key) {
    if (x.type == DLSH_LIST && key.type == DLSH_INT)
        return (unsigned long)key.as.i < (unsigned long)x.as.list->n ? &x.as.list->items[key.as.i] : NULL;
    return x.type == DLSH_RECORD && key.type == DLSH_STR ? dlsh_record_get_text(x.as.record, key.as.str) : NULL;
}

/* The same of an INDEX whose object, *x, and key need no evaluation. */
static inline dlsh_value *dlsh_peek_place(dlsh_session *s, const dlsh_node *n, dlsh_value *x) {
    if (n->nkids != 2) return NULL;
    *x = dlsh_peek(s, n->kids[0]);
    if (x->type != DLSH_LIST && x->type != DLSH_RECORD) return NULL;
    return dlsh_quick_place(*x, dlsh_peek(s, n->kids[1]));
}

/* dlsh_check_interrupt, and dlsh_check_stack, without a call while there is nothing to be said. */
static inline dl_status dlsh_quick_interrupt(const dlsh_session *s) {
    return __builtin_expect(__atomic_load_n(s->interrupt, __ATOMIC_RELAXED), 0) ? dlsh_check_interrupt() : DL_OK;
}
static inline dl_status dlsh_quick_stack(dlsh_session *s) {
    size_t used = (size_t)(s->stack_base - (const char *)__builtin_frame_address(0));
    return __builtin_expect(used < s->stack_limit, 1) ? DL_OK : dlsh_check_stack(s);
}
