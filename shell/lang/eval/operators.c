/* Operators on plain values; what involves a tensor goes to the op table. */
#define _GNU_SOURCE /* memmem */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lang/eval/interp.h"

static dl_status overflow(dlsh_op op, long a, long b) {
    return dlsh_fail(DL_ERR_VALUE, "make one side a float: float(a) * b, or write 2.0",
                     "%ld %s %ld does not fit in 64 bits", a, dlsh_op_text(op), b);
}

static dl_status by_zero(dlsh_op op) {
    return dlsh_fail(DL_ERR_VALUE, "/ gives inf", "integer %s by zero", op == DLSH_OP_MOD ? "remainder" : "division");
}

static dl_status power(long a, long b, dlsh_value *out) {
    if (b < 0) {
        *out = dlsh_float(pow((double)a, (double)b));
        return DL_OK;
    }
    long r = 1, base = a, e = b;
    while (e) {
        if (e & 1 && __builtin_mul_overflow(r, base, &r)) return overflow(DLSH_OP_POW, a, b);
        e >>= 1;
        if (e && __builtin_mul_overflow(base, base, &base)) return overflow(DLSH_OP_POW, a, b);
    }
    *out = dlsh_int(r);
    return DL_OK;
}

static dl_status shift(dlsh_op op, long a, long b, dlsh_value *out) {
    if (b < 0) return dlsh_fail(DL_ERR_VALUE, NULL, "shift by %ld: the distance cannot be negative", b);
    if (op == DLSH_OP_SHR) {
        *out = dlsh_int(a >> (b > 63 ? 63 : b));
        return DL_OK;
    }
    if (a && (b > 62 || labs(a) > (0x7fffffffffffffffL >> b))) return overflow(op, a, b);
    *out = dlsh_int(b > 62 ? 0 : a * (1L << b));
    return DL_OK;
}

static dl_status int_binary(dlsh_op op, long a, long b, dlsh_value *out) {
    long r;
    switch (op) {
    case DLSH_OP_ADD:
        if (__builtin_add_overflow(a, b, &r)) return overflow(op, a, b);
        break;
    case DLSH_OP_SUB:
        if (__builtin_sub_overflow(a, b, &r)) return overflow(op, a, b);
        break;
    case DLSH_OP_MUL:
        if (__builtin_mul_overflow(a, b, &r)) return overflow(op, a, b);
        break;
    case DLSH_OP_FLOORDIV: /* towards minus infinity, the remainder has the divisor's sign */
        if (!b) return by_zero(op);
        if (b == -1) return __builtin_sub_overflow(0, a, &r) ? overflow(op, a, b) : (*out = dlsh_int(r), DL_OK);
        r = a / b - (a % b != 0 && (a % b < 0) != (b < 0));
        break;
    case DLSH_OP_MOD:
        if (!b) return by_zero(op);
        r = b == -1 ? 0 : a % b;
        if (r && (r < 0) != (b < 0)) r += b;
        break;
    case DLSH_OP_DIV: *out = dlsh_float((double)a / (double)b); return DL_OK;
    case DLSH_OP_POW: return power(a, b, out);
    case DLSH_OP_SHL:
    case DLSH_OP_SHR: return shift(op, a, b, out);
    case DLSH_OP_BITAND: r = a & b; break;
    case DLSH_OP_BITOR: r = a | b; break;
    case DLSH_OP_BITXOR: r = a ^ b; break;
    default: return DL_ERR_TYPE;
    }
    *out = dlsh_int(r);
    return DL_OK;
}

static double float_mod(double a, double b) {
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* floor(a / b) of the exact quotient, as that of tensors: 3 // 0.001 is 2999, although 3 / 0.001 rounds to 3000 */
static double float_quotient(double a, double b) {
    if (b == 0) return a / b;
    double r = fmod(a, b), q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;
    if (q == 0) return copysign(0, a / b);
    double whole = floor(q);
    return q - whole > 0.5 ? whole + 1 : whole;
}

static dl_status float_binary(dlsh_op op, double a, double b, dlsh_value *out) {
    switch (op) {
    case DLSH_OP_ADD: *out = dlsh_float(a + b); return DL_OK;
    case DLSH_OP_SUB: *out = dlsh_float(a - b); return DL_OK;
    case DLSH_OP_MUL: *out = dlsh_float(a * b); return DL_OK;
    case DLSH_OP_DIV: *out = dlsh_float(a / b); return DL_OK;
    case DLSH_OP_FLOORDIV: *out = dlsh_float(float_quotient(a, b)); return DL_OK;
    case DLSH_OP_MOD: *out = dlsh_float(float_mod(a, b)); return DL_OK;
    case DLSH_OP_POW: *out = dlsh_float(pow(a, b)); return DL_OK;
    default: return DL_ERR_TYPE;
    }
}

/* ---------------------------------------------------------------- strings and lists */

static dl_status too_long(const char *most) {
    return dlsh_fail(DL_ERR_MEMORY, NULL, "the result would be too long: more than %s", most);
}

static dl_status join_strings(const dlsh_str *a, const dlsh_str *b, dlsh_value *out) {
    dlsh_buf buf = {0};
    dlsh_buf_add(&buf, a->s, a->len);
    dlsh_buf_add(&buf, b->s, b->len);
    return dlsh_give(dlsh_buf_string(&buf), out);
}

static dl_status repeat_string(const dlsh_str *a, long n, dlsh_value *out) {
    dlsh_buf buf = {0};
    if (!a->len) n = 0;
    if (n > 0 && (size_t)n > ((size_t)1 << 28) / a->len) return too_long("2^28 bytes");
    for (long i = 0; i < n && !dlsh_interrupted_at(i); i++) dlsh_buf_add(&buf, a->s, a->len);
    return dlsh_give(dlsh_buf_string(&buf), out);
}

static dl_status append_all(dlsh_list *to, const dlsh_list *from) {
    for (int i = 0, n = from->n; i < n && !dlsh_interrupted_at(i + 1L); i++)
        DLSH_TRY(dlsh_list_push(to, dlsh_ref(from->items[i])));
    return DL_OK;
}

static dl_status join_lists(const dlsh_list *a, const dlsh_list *b, long times, dlsh_value *out) {
    if (!a->n) times = 0;
    if (times > 0 && times > (1L << 26) / a->n) return too_long("2^26 items");
    long n = a->n * (times > 0 ? times : 0) + (b ? b->n : 0);
    DLSH_DROPPED dlsh_value v = dlsh_new_list(n);
    if (dlsh_failed(v)) return DL_ERR_MEMORY;
    for (long i = 0; i < times && !dlsh_interrupted_at(i); i++) DLSH_TRY(append_all(v.as.list, a));
    if (b) DLSH_TRY(append_all(v.as.list, b));
    return dlsh_hand_over(&v, out);
}

/* + and * of strings and lists; DL_ERR_TYPE, unrecorded, when it is neither. */
static dl_status sequence_binary(dlsh_op op, dlsh_value a, dlsh_value b, dlsh_value *out) {
    if (op == DLSH_OP_ADD && a.type == DLSH_STR && b.type == DLSH_STR) return join_strings(a.as.str, b.as.str, out);
    if (op == DLSH_OP_ADD && a.type == DLSH_LIST && b.type == DLSH_LIST)
        return join_lists(a.as.list, b.as.list, 1, out);
    if (op == DLSH_OP_MUL && a.type == DLSH_INT) {
        dlsh_value t = a;
        a = b;
        b = t;
    }
    if (op == DLSH_OP_MUL && b.type == DLSH_INT && a.type == DLSH_STR) return repeat_string(a.as.str, b.as.i, out);
    if (op == DLSH_OP_MUL && b.type == DLSH_INT && a.type == DLSH_LIST) return join_lists(a.as.list, NULL, b.as.i, out);
    return DL_ERR_TYPE;
}

/* A result that an interrupt has cut short is dropped. */
static dl_status long_binary(dlsh_op op, dlsh_value a, dlsh_value b, dlsh_value *out) {
    DLSH_DROPPED dlsh_value v = dlsh_void();
    DLSH_TRY(sequence_binary(op, a, b, &v));
    DLSH_TRY(dlsh_check_interrupt());
    return dlsh_hand_over(&v, out);
}

/* ---------------------------------------------------------------- comparison */

dl_status dlsh_compare(dlsh_value a, dlsh_value b, int *out) {
    if (a.type == DLSH_INT && b.type == DLSH_INT)
        *out = (a.as.i > b.as.i) - (a.as.i < b.as.i);
    else if (dlsh_is_number(a) && dlsh_is_number(b)) {
        double x = dlsh_number(a), y = dlsh_number(b);
        *out = (x > y) - (x < y);
    } else if (a.type == DLSH_STR && b.type == DLSH_STR) {
        size_t n = a.as.str->len < b.as.str->len ? a.as.str->len : b.as.str->len;
        int d = memcmp(a.as.str->s, b.as.str->s, n);
        *out = d ? (d > 0) - (d < 0) : (a.as.str->len > b.as.str->len) - (a.as.str->len < b.as.str->len);
    } else
        return dlsh_fail(DL_ERR_TYPE, NULL, "%s and %s have no order", dlsh_a(a), dlsh_a(b));
    return DL_OK;
}

static dl_status order(dlsh_op op, dlsh_value a, dlsh_value b, dlsh_value *out) {
    int c;
    DLSH_TRY(dlsh_compare(a, b, &c));
    int unordered = dlsh_is_number(a) && (isnan(dlsh_number(a)) || isnan(dlsh_number(b)));
    int yes = op == DLSH_OP_LT ? c < 0 : op == DLSH_OP_LE ? c <= 0 : op == DLSH_OP_GT ? c > 0 : c >= 0;
    *out = dlsh_bool(yes && !unordered);
    return DL_OK;
}

static int contains_text(const dlsh_str *in, const dlsh_str *what) {
    return memmem(in->s, in->len, what->s, what->len) != NULL;
}

static dl_status membership(dlsh_value a, dlsh_value b, dlsh_value *out) {
    int found = 0;
    if (b.type == DLSH_STR && a.type == DLSH_STR)
        found = contains_text(b.as.str, a.as.str);
    else if (b.type == DLSH_RECORD && a.type == DLSH_STR)
        found = dlsh_record_get_text(b.as.record, a.as.str) != NULL;
    else if (b.type == DLSH_LIST)
        for (int i = 0; i < b.as.list->n && !found && !dlsh_interrupted_at(i + 1L); i++)
            DLSH_TRY(dlsh_equal(a, b.as.list->items[i], &found));
    else if (b.type == DLSH_RANGE && a.type == DLSH_INT) {
        const dlsh_range *r = b.as.range;
        found = r->step > 0 ? a.as.i >= r->from && a.as.i < r->to : a.as.i <= r->from && a.as.i > r->to;
        found = found && (a.as.i - r->from) % r->step == 0;
    } else
        return dlsh_fail(DL_ERR_TYPE, "it looks in lists, records (names), strings (text) and ranges",
                         "'in' cannot look for %s in %s", dlsh_a(a), dlsh_a(b));
    *out = dlsh_bool(found);
    return b.type == DLSH_LIST ? dlsh_check_interrupt() : DL_OK;
}

/* ---------------------------------------------------------------- all together */

static dl_status no_operator(dlsh_op op, dlsh_value a, dlsh_value b) {
    const char *hint = NULL;
    if (op == DLSH_OP_ADD && (a.type == DLSH_STR || b.type == DLSH_STR))
        hint = "make text of the other with str(x), or use format(\"%d\", x)";
    else if (op == DLSH_OP_MOD && a.type == DLSH_STR)
        hint = "text is put together with format(\"%d of %s\", n, s)";
    else if (a.type == DLSH_LIST || b.type == DLSH_LIST)
        hint = "lists are not tensors: tensor([1, 2]) makes one";
    else if (a.type == DLSH_BOOL || b.type == DLSH_BOOL)
        hint = "int(b) makes a number of a bool; && || ! work on bools";
    else if (op == DLSH_OP_BITXOR && dlsh_is_number(a))
        hint = "powers are written a ** b";
    else if (a.type == DLSH_NONE || a.type == DLSH_VOID || b.type == DLSH_NONE || b.type == DLSH_VOID)
        hint = "did a function return nothing?";
    return dlsh_fail(DL_ERR_TYPE, hint, "%s does not work on %s and %s", dlsh_op_text(op), dlsh_a(a), dlsh_a(b));
}

static int is_order(dlsh_op op) { return op == DLSH_OP_LT || op == DLSH_OP_LE || op == DLSH_OP_GT || op == DLSH_OP_GE; }

/* The class of an operand that has operators of its own; NULL: neither has. */
static const dlsh_class *operators_of(dlsh_value a, dlsh_value b) {
    if (a.type == DLSH_HANDLE && a.as.handle->cls->binary) return a.as.handle->cls;
    return b.type == DLSH_HANDLE && b.as.handle->cls->binary ? b.as.handle->cls : NULL;
}

static dl_status class_binary(const dlsh_class *c, dlsh_op op, dlsh_value a, dlsh_value b, dlsh_value *out) {
    dl_error_clear();
    dl_status st = c->binary((int)op, a, b, out);
    return st && !dl_error_last() ? no_operator(op, a, b) : st;
}

dl_status dlsh_binary(dlsh_op op, dlsh_value a, dlsh_value b, dlsh_value *out) {
    if (op == DLSH_OP_IN) return membership(a, b, out);
    const dlsh_class *own = op == DLSH_OP_EQ || op == DLSH_OP_NE || is_order(op) ? NULL : operators_of(a, b);
    if (own) return class_binary(own, op, a, b, out);
    if (a.type == DLSH_TENSOR || b.type == DLSH_TENSOR) {
        dlsh_value other = a.type == DLSH_TENSOR ? b : a;
        int comparable = other.type == DLSH_TENSOR || dlsh_is_number(other) || other.type == DLSH_BOOL;
        if (comparable || (op != DLSH_OP_EQ && op != DLSH_OP_NE)) return dlsh_tensor_binary(op, a, b, out);
    }
    if (op == DLSH_OP_EQ || op == DLSH_OP_NE) {
        int same;
        DLSH_TRY(dlsh_equal(a, b, &same));
        *out = dlsh_bool(same == (op == DLSH_OP_EQ));
        return DL_OK;
    }
    if (is_order(op)) return order(op, a, b, out);
    if (a.type == DLSH_BOOL && b.type == DLSH_BOOL &&
        (op == DLSH_OP_BITAND || op == DLSH_OP_BITOR || op == DLSH_OP_BITXOR)) {
        *out = dlsh_bool(op == DLSH_OP_BITAND  ? a.as.i & b.as.i
                         : op == DLSH_OP_BITOR ? a.as.i | b.as.i
                                               : a.as.i ^ b.as.i);
        return DL_OK;
    }
    dl_status st = DL_ERR_TYPE;
    dl_error_clear();
    if (a.type == DLSH_INT && b.type == DLSH_INT)
        st = int_binary(op, a.as.i, b.as.i, out);
    else if (dlsh_is_number(a) && dlsh_is_number(b))
        st = float_binary(op, dlsh_number(a), dlsh_number(b), out);
    else
        st = long_binary(op, a, b, out);
    return st && !dl_error_last() ? no_operator(op, a, b) : st;
}

dl_status dlsh_unary(dlsh_op op, dlsh_value a, dlsh_value *out) {
    int yes;
    long r;
    if (a.type == DLSH_TENSOR) return dlsh_tensor_unary(op, a, out);
    if (op == DLSH_OP_NOT) {
        DLSH_TRY(dlsh_truth(a, &yes));
        *out = dlsh_bool(!yes);
        return DL_OK;
    }
    if (op == DLSH_OP_NEG && operators_of(a, a))
        return class_binary(a.as.handle->cls, DLSH_OP_MUL, a, dlsh_int(-1), out);
    if (op == DLSH_OP_NEG && a.type == DLSH_INT) {
        if (__builtin_sub_overflow(0, a.as.i, &r)) return overflow(DLSH_OP_SUB, 0, a.as.i);
        *out = dlsh_int(r);
        return DL_OK;
    }
    if (op == DLSH_OP_NEG && a.type == DLSH_FLOAT) {
        *out = dlsh_float(-a.as.f);
        return DL_OK;
    }
    if (op == DLSH_OP_BITNOT && a.type == DLSH_INT) {
        *out = dlsh_int(~a.as.i);
        return DL_OK;
    }
    const char *hint = op == DLSH_OP_BITNOT && a.type == DLSH_BOOL ? "the opposite of a bool is !x" : NULL;
    return dlsh_fail(DL_ERR_TYPE, hint, "%s does not work on %s", dlsh_op_text(op), dlsh_a(a));
}
