/* Compound assignment: target op= value. Tensors are changed in place; of other values a new one is assigned. The parts
 * of the target are evaluated once, before the value. */
#include <stdio.h>
#include <string.h>

#include "lang/eval/quick.h"

/* The statement that makes a new value, "x = x + y", for hints. */
static void plain_form(const dlsh_session *s, const dlsh_node *n, char *text, size_t size) {
    const dlsh_span to = n->kids[0]->span, from = n->kids[1]->span;
    const char *source = s->unit->text, *op = dlsh_op_text(n->op);
    int left = to.end - to.start, right = from.end - from.start;
    if (left > 40 || right > 40 || memchr(source + from.start, '\n', (size_t)right))
        snprintf(text, size, "x = x %s y", op);
    else
        snprintf(text, size, "%.*s = %.*s %s %.*s", left, source + to.start, left, source + to.start, op, right,
                 source + from.start);
}

/* old op value, for a target that is not a tensor's element. *in_place: it was a tensor, which has changed. Takes both.
 */
static dl_status combine(dlsh_session *s, const dlsh_node *n, dlsh_value old, dlsh_value v, dlsh_value *out,
                         int *in_place) {
    char instead[120];
    dl_status st = DL_OK;
    *in_place = old.type == DLSH_TENSOR;
    *out = dlsh_void();
    if (dlsh_quick_binary(n->op, old, v, out)) return DL_OK;
    if (*in_place) {
        plain_form(s, n, instead, sizeof instead);
        st = dlsh_tensor_update((dlsh_op)n->op, old.as.tensor, v, instead);
    } else
        st = dlsh_binary((dlsh_op)n->op, old, v, out);
    dlsh_drop(old);
    dlsh_drop(v);
    return dlsh_at(s, n, st);
}

/* Appends to the string of a name, which `old` references, too. Takes both values. */
static dl_status extend(dlsh_session *s, const dlsh_node *name, dlsh_value old, dlsh_value v) {
    dlsh_value *slot = dlsh_quick_slot(s, name);
    dl_status st;
    if (slot && slot->type == DLSH_STR && slot->as.str == old.as.str && old.as.str->refs == 2) {
        dlsh_drop(old);
        st = dlsh_string_extend(slot, v.as.str);
    } else if ((st = dlsh_string_extend(&old, v.as.str)))
        dlsh_drop(old);
    else
        st = dlsh_assign(s, name, old);
    dlsh_drop(v);
    return st;
}

dl_status dlsh_extend_name(dlsh_session *s, const dlsh_node *name, const dlsh_node *more) {
    dlsh_value old, v, r;
    DLSH_TRY(dlsh_eval(s, name, &old));
    dl_status st = dlsh_eval(s, more, &v);
    if (!st && v.type == DLSH_STR) return extend(s, name, old, v);
    if (!st) {
        st = dlsh_binary(DLSH_OP_ADD, old, v, &r);
        dlsh_drop(v);
    }
    dlsh_drop(old);
    return st ? st : dlsh_assign(s, name, r);
}

static dl_status update_name(dlsh_session *s, const dlsh_node *n) {
    const dlsh_node *name = n->kids[0];
    dl_status st = DL_OK;
    dlsh_value old = dlsh_value_of(s, name, &st), r;
    int in_place;
    if (st) return st;
    dlsh_value v = dlsh_value_of(s, n->kids[1], &st);
    if (st) {
        dlsh_drop(old);
        return st;
    }
    if (dlsh_quick_binary(n->op, old, v, &r)) {
        dlsh_assign_name(s, name, r);
        return DL_OK;
    }
    if (n->op == DLSH_OP_ADD && old.type == DLSH_STR && v.type == DLSH_STR) return extend(s, name, old, v);
    DLSH_TRY(combine(s, n, old, v, &r, &in_place));
    return in_place ? DL_OK : dlsh_assign(s, name, r);
}

/* A number in a record and an operand that needs no evaluation: is it changed where it stands? */
static inline int update_number(dlsh_session *s, const dlsh_node *n, dlsh_value *place) {
    dlsh_value v = dlsh_peek(s, n->kids[1]), r;
    if (!place || !dlsh_quick_binary(n->op, dlsh_get_at(place), v, &r)) return 0;
    dlsh_put_at(place, r);
    return 1;
}

static dl_status update_field(dlsh_session *s, const dlsh_node *n) {
    const dlsh_node *target = n->kids[0];
    dlsh_value x = dlsh_peek(s, target->kids[0]), old, v;
    DLSH_DROPPED dlsh_value r = dlsh_void();
    int in_place;
    if (x.type == DLSH_RECORD && update_number(s, n, dlsh_record_get(x.as.record, target->text))) return DL_OK;
    DLSH_TRY(dlsh_eval_quick(s, target->kids[0], &x));
    dl_status st = dlsh_at(s, target, dlsh_get_field(s, x, target->text, &old));
    if (!st && (st = dlsh_eval_quick(s, n->kids[1], &v))) dlsh_drop(old);
    if (!st) st = combine(s, n, old, v, &r, &in_place);
    if (!st && !in_place) st = dlsh_at(s, target, dlsh_set_field(s, x, target->text, r));
    dlsh_drop(x);
    return st;
}

/* x[key] op= value, x being no tensor. */
static dl_status update_key(dlsh_session *s, const dlsh_node *n, dlsh_value x) {
    const dlsh_node *target = n->kids[0];
    dlsh_value old, v;
    DLSH_DROPPED dlsh_value key = dlsh_void(), r = dlsh_void();
    int in_place;
    DLSH_TRY(dlsh_eval_quick(s, target->kids[1], &key));
    dl_status st = dlsh_at(s, target, dlsh_index_value(s, x, key, &old));
    if (!st && (st = dlsh_eval_quick(s, n->kids[1], &v))) dlsh_drop(old);
    if (!st) st = combine(s, n, old, v, &r, &in_place);
    if (!st && !in_place) st = dlsh_at(s, target, dlsh_set_key(s, x, key, r));
    return st;
}

/* A slice of a list, or what cannot be indexed so: read, computed and assigned. */
static dl_status update_part(dlsh_session *s, const dlsh_node *n) {
    dlsh_value old, v, r;
    int in_place;
    DLSH_TRY(dlsh_eval(s, n->kids[0], &old));
    dl_status st = dlsh_eval(s, n->kids[1], &v);
    if (st) {
        dlsh_drop(old);
        return st;
    }
    DLSH_TRY(combine(s, n, old, v, &r, &in_place));
    return in_place ? DL_OK : dlsh_assign(s, n->kids[0], r);
}

static dl_status update_index(dlsh_session *s, const dlsh_node *n) {
    const dlsh_node *target = n->kids[0];
    dlsh_value x, v;
    if (update_number(s, n, dlsh_peek_place(s, target, &x))) return DL_OK;
    DLSH_TRY(dlsh_eval_quick(s, target->kids[0], &x));
    dl_status st;
    if (x.type == DLSH_TENSOR) {
        if (!(st = dlsh_eval(s, n->kids[1], &v))) {
            st = dlsh_at(s, n, dlsh_tensor_update_index(s, x.as.tensor, target, (dlsh_op)n->op, v));
            dlsh_drop(v);
        }
    } else if (target->nkids == 2 && target->kids[1]->kind != DLSH_N_SLICE && target->kids[1]->kind != DLSH_N_ELLIPSIS)
        st = update_key(s, n, x);
    else
        st = update_part(s, n);
    dlsh_drop(x);
    return st;
}

dl_status dlsh_exec_update(dlsh_session *s, const dlsh_node *n) {
    switch (n->kids[0]->kind) {
    case DLSH_N_NAME: return update_name(s, n);
    case DLSH_N_FIELD: return update_field(s, n);
    default: return update_index(s, n);
    }
}
