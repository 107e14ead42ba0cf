/* Statements. */
#include <string.h>

#include "lang/batch.h"
#include "lang/eval/collect.h"
#include "lang/eval/quick.h"

/* ---------------------------------------------------------------- variables */

static dl_status unpack(dlsh_session *s, dlsh_node *const *targets, int n, dlsh_value v);

static dl_status assign_field(dlsh_session *s, const dlsh_node *target, dlsh_value v) {
    DLSH_DROPPED dlsh_value object = dlsh_void();
    DLSH_TRY(dlsh_eval(s, target->kids[0], &object));
    return dlsh_at(s, target, dlsh_set_field(s, object, target->text, v));
}

/* Assigns to a FIELD, INDEX or TUPLE; takes v. */
static inline dl_status assign_part(dlsh_session *s, const dlsh_node *target, dlsh_value v) {
    dlsh_value owner, *place = target->kind == DLSH_N_INDEX ? dlsh_peek_place(s, target, &owner) : NULL;
    if (place) {
        if (v.type == DLSH_VOID) v = dlsh_none();
        dlsh_hold(owner, v);
        dlsh_replace(place, v);
        return DL_OK;
    }
    dl_status st = target->kind == DLSH_N_TUPLE   ? dlsh_at(s, target, unpack(s, target->kids, target->nkids, v))
                   : target->kind == DLSH_N_FIELD ? assign_field(s, target, v)
                                                  : dlsh_assign_index(s, target, v);
    dlsh_drop(v);
    return st;
}

dl_status dlsh_assign(dlsh_session *s, const dlsh_node *target, dlsh_value v) {
    if (target->kind != DLSH_N_NAME) return assign_part(s, target, v);
    dlsh_assign_name(s, target, v);
    return DL_OK;
}

/* `*rest` and the n - 1 names after it: rest is a list of the items that these leave. */
static dl_status unpack_rest(dlsh_session *s, dlsh_node *const *targets, int n, dlsh_iter *it) {
    dlsh_value l = dlsh_new_list(0), item;
    dl_status st = dlsh_failed(l) ? dl_failed() : DL_OK;
    int done = 0;
    while (!st && !(st = dlsh_iter_next(s, it, &item, &done)) && !done) st = dlsh_list_push(l.as.list, item);
    int kept = st ? 0 : l.as.list->n - (n - 1);
    if (!st && kept < 0)
        st = dlsh_fail(DL_ERR_VALUE, NULL, "the names behind *%.60s want %d values, got %d",
                       targets[0]->kids[0]->text ? targets[0]->kids[0]->text : "", n - 1, l.as.list->n);
    for (int i = 1; i < n && !st; i++) st = dlsh_assign(s, targets[i], dlsh_ref(l.as.list->items[kept + i - 1]));
    while (!st && l.as.list->n > kept) dlsh_drop(l.as.list->items[--l.as.list->n]);
    if (!st) return dlsh_assign(s, targets[0]->kids[0], l);
    dlsh_drop(l);
    return st;
}

const char *const dlsh_batch_names[2] = {"x", "y"};

/* How many parts the inputs or targets of a batch have: a list or record of tensors, or one tensor. */
static int count_parts(dlsh_value v) {
    return v.type == DLSH_LIST ? v.as.list->n : v.type == DLSH_RECORD ? v.as.record->n : 1;
}

static dl_status add_parts(dlsh_value list, dlsh_value v) {
    for (int i = 0; i < count_parts(v); i++)
        DLSH_TRY(dlsh_append(list, dlsh_ref(v.type == DLSH_LIST     ? v.as.list->items[i]
                                            : v.type == DLSH_RECORD ? v.as.record->values[i]
                                                                    : v)));
    return DL_OK;
}

/* A batch [x, y] for as many names as there are inputs, or inputs and targets, is a list of these; VOID: another value.
 */
static dlsh_value parts_of_batch(dlsh_value v, int n) {
    if (v.type != DLSH_LIST || n == 2 || v.as.list->n != 2 || v.as.list->names != dlsh_batch_names) return dlsh_void();
    const dlsh_value x = v.as.list->items[0], y = v.as.list->items[1];
    const int inputs = count_parts(x);
    if (n != inputs && n != inputs + count_parts(y)) return dlsh_void();
    dlsh_value all = dlsh_new_list(n);
    if (dlsh_failed(all) || (!add_parts(all, x) && (n == inputs || !add_parts(all, y)))) return all;
    dlsh_drop(all);
    return dlsh_void();
}

static dl_status unpack_items(dlsh_session *s, dlsh_node *const *targets, int n, dlsh_value v) {
    dlsh_iter it;
    dlsh_value item;
    int done = 0, rest = 0;
    if (dlsh_is_number(v) || v.type == DLSH_BOOL || v.type == DLSH_NONE)
        return dlsh_fail(DL_ERR_TYPE, "give each its value: a, b = 1, 2; or unpack a list: a, b = xs",
                         "%d names on the left, but %s on the right", n, dlsh_a(v));
    DLSH_TRY(dlsh_iter_begin(s, v, &it));
    it.part = DLSH_VALUES;
    dl_status st = DL_OK;
    for (int i = 0; i < n && !st; i++) {
        if (targets[i]->kind == DLSH_N_SPREAD) {
            st = unpack_rest(s, targets + i, n - i, &it);
            rest = 1;
            break;
        }
        st = dlsh_iter_next(s, &it, &item, &done);
        if (!st && done)
            st =
                dlsh_fail(DL_ERR_VALUE, NULL, "%d names on the left, %d value%s on the right", n, i, i == 1 ? "" : "s");
        else if (!st)
            st = dlsh_assign(s, targets[i], item);
    }
    if (!st && !rest) {
        st = dlsh_iter_next(s, &it, &item, &done);
        if (!st && !done) {
            dlsh_drop(item);
            st = dlsh_fail(DL_ERR_VALUE, "a list takes the rest: a, *rest = xs",
                           "more values on the right than the %d names on the left", n);
        }
    }
    dlsh_iter_end(&it);
    return st;
}

/* Gives the items of a sequence, or the values of a record, to n names. */
static dl_status unpack(dlsh_session *s, dlsh_node *const *targets, int n, dlsh_value v) {
    DLSH_DROPPED dlsh_value parts = parts_of_batch(v, n);
    return unpack_items(s, targets, n, dlsh_failed(parts) ? v : parts);
}

/* TUPLE: all values before any assignment, so that a, b = b, a swaps. */
static dl_status eval_list(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    return n->kind == DLSH_N_TUPLE ? dlsh_eval_items(s, n, out) : dlsh_eval(s, n, out);
}

/* name = name + more, while the name has a string: `more`. NULL: another assignment. */
static const dlsh_node *grown_text(dlsh_session *s, const dlsh_node *n) {
    const dlsh_node *name = n->kids[0], *sum = n->kids[1], *left;
    if (name->kind != DLSH_N_NAME || sum->kind != DLSH_N_BINARY || sum->op != DLSH_OP_ADD) return NULL;
    left = sum->kids[0];
    if (left->kind != DLSH_N_NAME || left->slot != name->slot || (left->flags ^ name->flags) & DLSH_LOCAL) return NULL;
    const dlsh_value *v = dlsh_quick_slot(s, name);
    return v && v->type == DLSH_STR ? sum->kids[1] : NULL;
}

/* x[key] = value where all three are names or literals and the place is there; 0: the general way. */
static inline int set_quickly(dlsh_session *s, const dlsh_node *n) {
    if (n->op || n->nkids != 2 || n->kids[0]->kind != DLSH_N_INDEX) return 0;
    dlsh_value owner, v = dlsh_peek(s, n->kids[1]), *place;
    if (v.type == DLSH_VOID || !(place = dlsh_peek_place(s, n->kids[0], &owner))) return 0;
    dlsh_hold(owner, v);
    dlsh_replace(place, dlsh_ref(v));
    return 1;
}

static dl_status exec_assign(dlsh_session *s, const dlsh_node *n) {
    dlsh_value v;
    dl_status st = DL_OK;
    int targets = n->nkids - 1;
    if (n->op) return dlsh_exec_update(s, n);
    if (targets == 1) {
        const dlsh_node *more = grown_text(s, n);
        if (more) return dlsh_at(s, n->kids[1], dlsh_extend_name(s, n->kids[0], more));
        if (n->kids[1]->kind == DLSH_N_TUPLE) {
            DLSH_TRY(dlsh_eval_items(s, n->kids[1], &v));
            return dlsh_assign(s, n->kids[0], v);
        }
        dlsh_value one = dlsh_value_of(s, n->kids[1], &st);
        if (st) return st;
        if (n->kids[0]->kind == DLSH_N_NAME)
            dlsh_assign_name(s, n->kids[0], one);
        else
            st = assign_part(s, n->kids[0], one);
        return st;
    }
    DLSH_TRY(eval_list(s, n->kids[targets], &v));
    st = dlsh_at(s, n, unpack(s, n->kids, targets, v));
    dlsh_drop(v);
    return st;
}

/* ---------------------------------------------------------------- expression statements */

dl_status dlsh_show_value(dlsh_session *s, const dlsh_node *n, int silent, dlsh_value v) {
    if (s->fn_depth || v.type == DLSH_VOID) {
        dlsh_drop(v);
        return DL_OK;
    }
    dlsh_value *last = &s->globals[s->last_slot].value, old = *last;
    *last = dlsh_ref(v);
    dlsh_drop(old);
    int hidden = silent || s->quiet;
    if (!hidden && s->last && n == s->last_node) {
        *s->last = v;
        return DL_OK;
    }
    const dlsh_class *c = v.type == DLSH_HANDLE ? v.as.handle->cls : NULL;
    dl_status st = hidden         ? DL_OK
                   : c && c->show ? c->show(v.as.handle->self, s->sink)
                                  : s->sink->ops->value(s->sink, v);
    dlsh_drop(v);
    return st;
}

/* ---------------------------------------------------------------- control flow */

static inline dlsh_flow exec_block(dlsh_session *s, const dlsh_node *block);

static dlsh_flow exec_if(dlsh_session *s, const dlsh_node *n) {
    int yes;
    if (dlsh_eval_truth(s, n->kids[0], &yes)) return DLSH_FAILED;
    if (yes) return dlsh_exec_block(s, n->kids[1]);
    if (!n->kids[2]) return DLSH_GO;
    return n->kids[2]->kind == DLSH_N_IF ? exec_if(s, n->kids[2]) : dlsh_exec_block(s, n->kids[2]);
}

/* Between two rounds of a loop: collects when that is due, and looks for Ctrl-C. */
static int interrupted(dlsh_session *s, const dlsh_node *n) {
    dlsh_collect_if_due();
    return dlsh_at(s, n, dlsh_quick_interrupt(s)) != DL_OK;
}

static dlsh_flow exec_while(dlsh_session *s, const dlsh_node *n) {
    for (;;) {
        int yes;
        if (interrupted(s, n) || dlsh_eval_truth(s, n->kids[0], &yes)) return DLSH_FAILED;
        if (!yes) return DLSH_GO;
        dlsh_flow f = exec_block(s, n->kids[1]);
        if (f == DLSH_FLOW_BREAK) return DLSH_GO;
        if (f != DLSH_GO && f != DLSH_FLOW_CONTINUE) return f;
    }
}

/* dlsh_iter_next, without a call for what loops mostly go over; Ctrl-C is looked for by the loop. */
static inline dlsh_value next_item(dlsh_session *s, dlsh_iter *it, int *done, dl_status *st) {
    const dlsh_value v = dlsh_get_at(&it->over);
    dlsh_value item = dlsh_void();
    if (v.type == DLSH_RANGE && it->at < it->n) return dlsh_int(v.as.range->from + it->at++ * v.as.range->step);
    if (v.type == DLSH_LIST && it->at < v.as.list->n) return dlsh_ref(dlsh_get_at(&v.as.list->items[it->at++]));
    if (v.type == DLSH_STR && it->at < it->n) {
        dlsh_str *letter = s->letters[(unsigned char)v.as.str->s[it->at]];
        if (letter) {
            it->at++;
            return dlsh_ref((dlsh_value){DLSH_STR, {.str = letter}});
        }
    }
    *st = dlsh_iter_next(s, it, &item, done);
    return dlsh_get_at(&item);
}

static dlsh_flow exec_for(dlsh_session *s, const dlsh_node *n) {
    int names = n->nkids - 2, done = 0;
    const dlsh_node *over = n->kids[names], *body = n->kids[names + 1];
    dlsh_value seq;
    dlsh_iter it;
    if (dlsh_eval(s, over, &seq)) return DLSH_FAILED;
    dl_status st = dlsh_at(s, over, dlsh_iter_begin(s, seq, &it));
    dlsh_drop(seq);
    if (st) return DLSH_FAILED;
    it.part = names == 1 && n->kids[0]->kind == DLSH_N_NAME ? DLSH_KEYS : DLSH_PAIRS;
    dlsh_flow f = DLSH_GO;
    while (f == DLSH_GO) {
        if (interrupted(s, n)) {
            f = DLSH_FAILED;
            break;
        }
        dlsh_value item = next_item(s, &it, &done, &st);
        if (st || done) {
            f = dlsh_at(s, over, st) ? DLSH_FAILED : DLSH_GO;
            break;
        }
        if (names == 1 && n->kids[0]->kind == DLSH_N_NAME)
            dlsh_assign_name(s, n->kids[0], item);
        else if (names == 1)
            st = dlsh_assign(s, n->kids[0], item);
        else {
            st = dlsh_at(s, n->kids[0], unpack(s, n->kids, names, item));
            dlsh_drop(item);
        }
        f = st ? DLSH_FAILED : exec_block(s, body);
        if (f == DLSH_FLOW_CONTINUE) f = DLSH_GO;
    }
    dlsh_iter_end(&it);
    return f == DLSH_FLOW_BREAK ? DLSH_GO : f;
}

static dlsh_flow exec_try(dlsh_session *s, const dlsh_node *n) {
    s->tries++;
    dlsh_flow f = dlsh_exec_block(s, n->kids[0]);
    s->tries--;
    const dl_error *e = f == DLSH_FAILED ? dl_error_last() : NULL;
    if (f != DLSH_FAILED || (e && e->code == DL_ERR_INTERRUPT)) return f;
    dlsh_value caught;
    if (dlsh_caught(s, &caught)) return DLSH_FAILED;
    if (n->kids[1])
        dlsh_assign(s, n->kids[1], caught);
    else
        dlsh_drop(caught);
    return dlsh_exec_block(s, n->kids[2]);
}

static dlsh_flow exec_return(dlsh_session *s, const dlsh_node *n) {
    dlsh_value *out = s->returned;
    *out = dlsh_void();
    if (!n->nkids) return DLSH_FLOW_RETURN;
    const dlsh_node *value = n->kids[0];
    if (value->kind == DLSH_N_TUPLE ? dlsh_eval_items(s, value, out) : dlsh_eval_quick(s, value, out))
        return DLSH_FAILED;
    if (out->type == DLSH_VOID) *out = dlsh_none();
    return DLSH_FLOW_RETURN;
}

static dl_status exec_c(dlsh_session *s, const dlsh_node *n) {
    if (s->services.c_run) return dlsh_at(s, n, s->services.c_run(s, s->unit, n));
    return dlsh_at(s, n,
                   dlsh_fail(DL_ERR_UNSUPPORTED, NULL, "this build cannot call C: %s",
                             n->kind == DLSH_N_EXTERN ? "extern" : "a C block"));
}

static dl_status exec_fn(dlsh_session *s, const dlsh_node *n) {
    dlsh_value v;
    DLSH_TRY(dlsh_make_fn(s, n, &v));
    dlsh_assign_name(s, n, v);
    return DL_OK;
}

static dlsh_flow checked(dl_status st) { return st ? DLSH_FAILED : DLSH_GO; }

static dlsh_flow exec_expr(dlsh_session *s, const dlsh_node *n) {
    dl_status st = DL_OK;
    dlsh_value v = dlsh_value_of(s, n->kids[0], &st);
    if (st) return DLSH_FAILED;
    if (s->fn_depth) { /* nothing is shown */
        dlsh_drop(v);
        return DLSH_GO;
    }
    int silent = (n->flags & DLSH_SILENT) || (n->kids[0]->kind == DLSH_N_CALL && s->result_silent);
    return dlsh_at(s, n, dlsh_show_value(s, n, silent, v)) ? DLSH_FAILED : DLSH_GO;
}

static inline dlsh_flow exec(dlsh_session *s, const dlsh_node *n) {
    s->source->line = n->span.line;
    s->statement = n;
    if (__builtin_expect(s->watched, 0)) {
        int done = s->services.at_statement(s, n);
        if (done) return done < 0 ? DLSH_FAILED : DLSH_GO;
    }
    if (n->kind == DLSH_N_ASSIGN)
        return set_quickly(s, n) ? DLSH_GO : checked(exec_assign(s, n)); /* most often; jumps are foreseen one by one */
    if (n->kind == DLSH_N_IF) return exec_if(s, n);
    if (n->kind == DLSH_N_RETURN) return exec_return(s, n);
    switch (n->kind) {
    case DLSH_N_EXPR: return exec_expr(s, n);
    case DLSH_N_COMMAND: return dlsh_exec_command(s, n);
    case DLSH_N_WHILE: return exec_while(s, n);
    case DLSH_N_FOR: return exec_for(s, n);
    case DLSH_N_FN: return checked(exec_fn(s, n));
    case DLSH_N_NET: return checked(dlsh_exec_net(s, n));
    case DLSH_N_TRY: return exec_try(s, n);
    case DLSH_N_BREAK: return DLSH_FLOW_BREAK;
    case DLSH_N_CONTINUE: return DLSH_FLOW_CONTINUE;
    case DLSH_N_BLOCK: return dlsh_exec_block(s, n);
    case DLSH_N_EXTERN:
    case DLSH_N_CBLOCK: return checked(exec_c(s, n));
    default:
        return checked(dlsh_at(s, n, dlsh_fail(DL_ERR_INTERNAL, NULL, "not a statement: %s", dlsh_kind_name(n->kind))));
    }
}

/* The flow of a statement, after those who watch have heard of its failure. */
static dlsh_flow ended(dlsh_session *s, const dlsh_node *n, dlsh_flow f) {
    if (f == DLSH_FAILED && s->watched) s->services.at_failure(s, n);
    return f;
}

dlsh_flow dlsh_exec(dlsh_session *s, const dlsh_node *n) { return ended(s, n, exec(s, n)); }

static inline dlsh_flow exec_block(dlsh_session *s, const dlsh_node *block) {
    for (int i = 0; i < block->nkids; i++) {
        dlsh_flow f = exec(s, block->kids[i]);
        if (f != DLSH_GO) return ended(s, block->kids[i], f);
        if (s->exiting) return DLSH_FLOW_EXIT;
    }
    return s->exiting ? DLSH_FLOW_EXIT : DLSH_GO;
}

dlsh_flow dlsh_exec_block(dlsh_session *s, const dlsh_node *block) { return exec_block(s, block); }
