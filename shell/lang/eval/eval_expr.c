/* Expressions. */
#include <stdio.h>
#include <string.h>

#include "lang/eval/quick.h"

enum { CHECKED_DEPTH = 8 }; /* a tree that is deeper needs a look at the stack */

/* Adds a hint to the error of an unknown name, from the text around it. */
static dl_status unknown_name(const dlsh_session *s, const dlsh_node *n) {
    const char *arrow = s->unit ? dlsh_arrow_habit(s->unit->text, (size_t)n->span.end) : NULL;
    const char *comment = s->unit ? dlsh_comment_habit(s->unit->text, (size_t)n->span.start) : NULL;
    dl_error e;
    if (arrow && dl_error_take(&e)) {
        snprintf(e.hint, sizeof e.hint, "%s", arrow);
        dl_error_put(&e);
    } else if (comment)
        dlsh_add_hint("%s", comment);
    return DL_ERR_NAME;
}

static dl_status eval_name(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    if (n->flags & DLSH_LOCAL) {
        const dlsh_value *slot = &s->locals[n->slot];
        if (slot->type == DLSH_CELL) slot = &slot->as.cell->v;
        if (slot->type != DLSH_VOID) {
            *out = dlsh_ref(*slot);
            return DL_OK;
        }
        /* a global of the same name would be another variable */
        return dlsh_fail(DL_ERR_NAME, "a name that is assigned anywhere in a function is local to it",
                         "local variable '%s' has no value yet", n->text);
    }
    const dlsh_value *v = dlsh_global_value(s, n->slot);
    if (!v) return unknown_name(s, n);
    *out = dlsh_ref(*v);
    return DL_OK;
}

/* The string of a literal is made once, and lives as long as the unit. */
static dl_status eval_text(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    if (!n->info) {
        dlsh_value v = dlsh_string_n(n->text, (size_t)n->num.i);
        if (dlsh_failed(v)) return DL_ERR_MEMORY;
        DLSH_TRY(dlsh_unit_keep(s->unit, v));
        ((dlsh_node *)n)->info = v.as.str;
    }
    *out = dlsh_ref((dlsh_value){DLSH_STR, {.str = n->info}});
    return DL_OK;
}

/* *xs in a list. */
static dl_status add_items(dlsh_session *s, const dlsh_node *n, dlsh_list *to) {
    dlsh_value v, item;
    dlsh_iter it;
    int done = 0;
    DLSH_TRY(dlsh_eval(s, n->kids[0], &v));
    dl_status st = dlsh_iter_begin(s, v, &it);
    dlsh_drop(v);
    if (st) return dlsh_at(s, n, st);
    while (!st && !(st = dlsh_iter_next(s, &it, &item, &done)) && !done) st = dlsh_list_push(to, item);
    dlsh_iter_end(&it);
    return dlsh_at(s, n, st);
}

dl_status dlsh_eval_items(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    dlsh_value list = dlsh_new_list(n->nkids), item;
    dl_status st = dlsh_failed(list) ? dl_failed() : DL_OK;
    for (int i = 0; i < n->nkids && !st; i++) {
        if (n->kids[i]->kind == DLSH_N_SPREAD) {
            st = add_items(s, n->kids[i], list.as.list);
            continue;
        }
        st = dlsh_eval(s, n->kids[i], &item);
        if (!st) st = dlsh_list_push(list.as.list, item.type == DLSH_VOID ? dlsh_none() : item);
    }
    return dlsh_give_filled(st, list, out);
}

/* **r in a record: its fields, which take the places of earlier ones. */
static dl_status add_fields(dlsh_session *s, const dlsh_node *n, dlsh_record *to) {
    DLSH_DROPPED dlsh_value v = dlsh_void();
    DLSH_TRY(dlsh_eval(s, n->kids[0], &v));
    dl_status st = v.type == DLSH_RECORD ? DL_OK
                                         : dlsh_fail(DL_ERR_TYPE, "{**r, a: 1} has the fields of a record r",
                                                     "** in a record takes a record, got %s", dlsh_a(v));
    for (int i = 0; !st && i < v.as.record->n; i++)
        st = dlsh_record_set(to, v.as.record->keys[i], dlsh_ref(v.as.record->values[i]));
    return dlsh_at(s, n, st);
}

/* Is the key of kid i written before? Fields that a ** gave may be written again. */
static int repeats(const dlsh_node *n, int i) {
    for (int k = 0; k < i; k++)
        if (n->kids[k]->kind == DLSH_N_KWARG && n->kids[k]->nkids == 1 && !strcmp(n->kids[k]->text, n->kids[i]->text))
            return 1;
    return 0;
}

/* (expr): value, whose key takes the place of an earlier one. */
static dl_status add_computed(dlsh_session *s, const dlsh_node *field, dlsh_record *to) {
    dlsh_value v;
    DLSH_DROPPED dlsh_value key = dlsh_void();
    DLSH_TRY(dlsh_eval(s, field->kids[1], &key));
    DLSH_TRY(dlsh_eval(s, field->kids[0], &v));
    return dlsh_at(s, field->kids[1], dlsh_record_put(to, key, v.type == DLSH_VOID ? dlsh_none() : v));
}

static dl_status eval_record(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    dlsh_value r = dlsh_new_record(), v;
    dl_status st = dlsh_failed(r) ? dl_failed() : DL_OK;
    for (int i = 0; i < n->nkids && !st; i++) {
        const dlsh_node *field = n->kids[i];
        if (field->kind == DLSH_N_SPREAD) {
            st = add_fields(s, field, r.as.record);
            continue;
        }
        if (field->nkids > 1) {
            st = add_computed(s, field, r.as.record);
            continue;
        }
        if (dlsh_record_get(r.as.record, field->text) && repeats(n, i))
            st =
                dlsh_at(s, field, dlsh_fail(DL_ERR_NAME, NULL, "key '%.80s' occurs twice in this record", field->text));
        if (!st) st = dlsh_eval(s, field->kids[0], &v);
        if (!st) st = dlsh_record_set(r.as.record, field->text, v.type == DLSH_VOID ? dlsh_none() : v);
    }
    return dlsh_give_filled(st, r, out);
}

dl_status dlsh_truth_of(dlsh_session *s, const dlsh_node *n, dlsh_value v, int *yes) {
    dl_status st = dlsh_at(s, n, dlsh_truth(v, yes));
    dlsh_drop(v);
    return st;
}

/* && and || give a bool; the right side is evaluated only when the left one does not decide. */
static dl_status eval_logic(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    int yes;
    DLSH_TRY(dlsh_eval_truth(s, n->kids[0], &yes));
    if (yes == (n->kind == DLSH_N_AND)) DLSH_TRY(dlsh_eval_truth(s, n->kids[1], &yes));
    *out = dlsh_bool(yes);
    return DL_OK;
}

static dl_status eval_cond(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    int yes;
    DLSH_TRY(dlsh_eval_truth(s, n->kids[0], &yes));
    return dlsh_eval(s, n->kids[yes ? 1 : 2], out);
}

static dl_status eval_unary(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    DLSH_DROPPED dlsh_value a = dlsh_void();
    DLSH_TRY(dlsh_eval(s, n->kids[0], &a));
    return dlsh_unary((dlsh_op)n->op, a, out);
}

/* What is not done the quick way; takes both. */
static __attribute__((noinline)) dl_status general_binary(int op, dlsh_value a, dlsh_value b, dlsh_value *out) {
    dl_status st = dlsh_binary((dlsh_op)op, a, b, out);
    dlsh_drop(a);
    dlsh_drop(b);
    return st;
}

dl_status dlsh_eval_binary(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    dl_status st = n->depth > CHECKED_DEPTH ? dlsh_quick_stack(s) : DL_OK;
    if (st) return st;
    dlsh_value a = dlsh_value_of(s, n->kids[0], &st);
    if (st) return st;
    dlsh_value b = dlsh_value_of(s, n->kids[1], &st);
    if (st) {
        dlsh_drop(a);
        return st;
    }
    if (dlsh_quick_binary(n->op, a, b, out)) return DL_OK;
    if (n->op == DLSH_OP_IN && a.type == DLSH_STR && b.type == DLSH_RECORD) {
        *out = dlsh_bool(dlsh_record_get_text(b.as.record, a.as.str) != NULL);
        dlsh_drop(a);
        dlsh_drop(b);
        return DL_OK;
    }
    return general_binary(n->op, a, b, out);
}

static dl_status eval_field(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    DLSH_DROPPED dlsh_value object = dlsh_void();
    DLSH_TRY(dlsh_eval(s, n->kids[0], &object));
    return dlsh_get_field(s, object, n->text, out);
}

static dl_status eval(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    switch (n->kind) {
    case DLSH_N_NONE: *out = dlsh_none(); return DL_OK;
    case DLSH_N_BOOL: *out = dlsh_bool((int)n->num.i); return DL_OK;
    case DLSH_N_INT: *out = dlsh_int(n->num.i); return DL_OK;
    case DLSH_N_FLOAT: *out = dlsh_float(n->num.f); return DL_OK;
    case DLSH_N_IMAG: return dlsh_give(dlsh_tensor(dl_scalar_c(0, n->num.f)), out);
    case DLSH_N_STR: return eval_text(s, n, out);
    case DLSH_N_NAME: return eval_name(s, n, out);
    case DLSH_N_BINARY: return dlsh_eval_binary(s, n, out);
    case DLSH_N_UNARY: return eval_unary(s, n, out);
    case DLSH_N_CALL: return dlsh_eval_call(s, n, out);
    case DLSH_N_FIELD: return eval_field(s, n, out);
    case DLSH_N_INDEX: return dlsh_eval_index(s, n, out);
    case DLSH_N_LIST: return dlsh_eval_items(s, n, out);
    case DLSH_N_RECORD: return eval_record(s, n, out);
    case DLSH_N_AND:
    case DLSH_N_OR: return eval_logic(s, n, out);
    case DLSH_N_COND: return eval_cond(s, n, out);
    case DLSH_N_FN: return dlsh_make_fn(s, n, out);
    case DLSH_N_COMPREHENSION: return dlsh_eval_comprehension(s, n, out);
    case DLSH_N_NET: return dlsh_eval_net(s, n, out);
    default: return dlsh_fail(DL_ERR_INTERNAL, NULL, "not an expression: %s", dlsh_kind_name(n->kind));
    }
}

dl_status dlsh_eval(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    dl_status st = n->depth > CHECKED_DEPTH ? dlsh_quick_stack(s) : DL_OK;
    if (!st) st = eval(s, n, out);
    return st && !s->place.set ? dlsh_at(s, n, st) : st;
}

dl_status dlsh_argument_failed(const dlsh_node *n, dl_status st) {
    if (st == DL_ERR_NAME && n->kind == DLSH_N_NAME)
        dlsh_add_hint("assign it first, %.60s = ...; text stands in quotes, \"%.60s\"", n->text, n->text);
    return st;
}

dl_status dlsh_eval_argument(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    return dlsh_argument_failed(n, dlsh_eval(s, n, out));
}
