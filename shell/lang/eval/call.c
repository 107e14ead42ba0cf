/* Calls: functions of the language, and the way from a CALL node to whatever is called. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/eval/collect.h"
#include "lang/eval/quick.h"

enum { INLINE_ARGS = 8, INLINE_SLOTS = 16, QUICK_ARGS = 3 };

/* ---------------------------------------------------------------- making functions */

void dlsh_fn_free(dlsh_fn *f) {
    for (int i = 0; f->defaults && i < f->info->nparams; i++) dlsh_drop(f->defaults[i]);
    for (int i = 0; f->captured && i < f->info->ncaptures; i++)
        if (f->captured[i]) dlsh_drop((dlsh_value){DLSH_CELL, {.cell = f->captured[i]}});
    free(f->defaults);
    free(f->captured);
    dlsh_unit_drop(f->unit);
    free(f);
}

const char *dlsh_fn_source(const dlsh_fn *f, size_t *n) {
    const dlsh_span at = f->node->span;
    *n = (size_t)(at.end - at.start);
    return f->unit->text + at.start;
}

dl_status dlsh_make_fn(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    const dlsh_fninfo *info = n->info;
    dlsh_fn *f = dl_memory_alloc(1, sizeof *f);
    if (!f) return DL_ERR_MEMORY;
    *f = (dlsh_fn){.refs = 1, .place = -1, .unit = dlsh_unit_ref(s->unit), .node = n, .info = info};
    f->body = n->kids[n->nkids - 1];
    f->takes = info->plain && !info->nparts ? info->nparams : -1;
    f->defaults = dl_memory_alloc(info->nparams, sizeof *f->defaults);
    f->captured = f->defaults ? dl_memory_alloc(info->ncaptures, sizeof *f->captured) : NULL;
    if (f->captured) memset(f->captured, 0, (size_t)info->ncaptures * sizeof *f->captured);
    dl_status st = f->captured ? DL_OK : DL_ERR_MEMORY;
    for (int i = 0; f->defaults && i < info->nparams; i++) f->defaults[i] = dlsh_void();
    for (int i = 0; i < info->nparams && !st; i++)
        if (n->kids[i]->nkids) {
            st = dlsh_eval(s, n->kids[i]->kids[0], &f->defaults[i]);
            if (!st && f->defaults[i].type == DLSH_VOID) f->defaults[i] = dlsh_none();
        }
    for (int i = 0; i < info->ncaptures && !st; i++) {
        f->captured[i] = s->locals[info->captures[i].outer].as.cell;
        f->captured[i]->refs++;
    }
    if (st) {
        dlsh_fn_free(f);
        return st;
    }
    *out = (dlsh_value){DLSH_FN, {.fn = f}};
    int holds = info->ncaptures;
    for (int i = 0; i < info->nparams; i++) holds |= f->defaults[i].type >= DLSH_LIST;
    if (holds) dlsh_track(*out);
    return DL_OK;
}

const char *dlsh_function_name(dlsh_value f) {
    switch (f.type) {
    case DLSH_FN: return f.as.fn->node->text;
    case DLSH_BUILTIN: return f.as.builtin->name;
    case DLSH_OP: return dlsh_op_value_name(f);
    case DLSH_METHOD: return dlsh_function_name(f.as.method->fn);
    default: return NULL;
    }
}

int dlsh_callable(dlsh_value f) {
    return f.type == DLSH_FN || f.type == DLSH_BUILTIN || f.type == DLSH_OP || f.type == DLSH_METHOD ||
           (f.type == DLSH_HANDLE && f.as.handle->cls->call);
}

/* ---------------------------------------------------------------- binding arguments to parameters */

static const char *fn_name(const dlsh_fn *f) { return f->node->text ? f->node->text : "this function"; }

static dl_status unknown_parameter(const dlsh_fn *f, const char *name) {
    char hint[160];
    const char *nearest = dlsh_nearest(name, f->info->names, f->info->nfixed);
    size_t used = (size_t)snprintf(hint, sizeof hint, nearest ? "did you mean %s=?" : "its parameters are:", nearest);
    for (int i = 0; !nearest && i < f->info->nfixed && used < sizeof hint; i++)
        used += (size_t)snprintf(hint + used, sizeof hint - used, " %s", f->info->names[i]);
    return dlsh_fail(DL_ERR_NAME, hint, "%s has no parameter '%s'", fn_name(f), name);
}

static dl_status wrong_count(const dlsh_fn *f, int given) {
    int least = 0;
    for (int i = 0; i < f->info->nfixed; i++) least += f->defaults[i].type == DLSH_VOID;
    if (f->info->rest)
        return dlsh_fail(DL_ERR_TYPE, NULL, "%s takes at least %d argument%s, got %d", fn_name(f), least,
                         least == 1 ? "" : "s", given);
    if (least == f->info->nfixed)
        return dlsh_fail(DL_ERR_TYPE, NULL, "%s takes %d argument%s, got %d", fn_name(f), least, least == 1 ? "" : "s",
                         given);
    return dlsh_fail(DL_ERR_TYPE, NULL, "%s takes %d to %d arguments, got %d", fn_name(f), least, f->info->nfixed,
                     given);
}

static int param_of(const dlsh_fn *f, const char *name) {
    for (int i = 0; i < f->info->nfixed; i++)
        if (!strcmp(f->info->names[i], name)) return i;
    return -1;
}

static dl_status make_cells(const dlsh_fninfo *info, dlsh_value *slots) {
    for (int i = 0; i < info->nslots; i++) {
        if (!info->cells[i]) continue;
        slots[i] = dlsh_new_cell(slots[i]);
        if (dlsh_failed(slots[i])) return DL_ERR_MEMORY;
    }
    return DL_OK;
}

/* Gives argument i to its parameter, or to *rest or **rest. */
static dl_status bind_one(const dlsh_fn *f, const dlsh_callargs *args, int i, dlsh_value *slots) {
    const dlsh_fninfo *info = f->info;
    const char *name = args->names ? args->names[i] : NULL;
    dlsh_value v = args->values[i].type == DLSH_VOID ? dlsh_none() : args->values[i];
    int at = name ? param_of(f, name) : i;
    if (name && at < 0) {
        if (!info->named_rest) return unknown_parameter(f, name);
        dlsh_record *rest = slots[info->named_rest - 1].as.record;
        if (!dlsh_record_get(rest, name)) return dlsh_record_set(rest, name, dlsh_ref(v));
    } else if (at >= info->nfixed) {
        return info->rest ? dlsh_append(slots[info->rest - 1], dlsh_ref(v)) : wrong_count(f, args->n);
    } else if (slots[at].type == DLSH_VOID) {
        slots[at] = dlsh_ref(v);
        return DL_OK;
    }
    return dlsh_fail(DL_ERR_TYPE, NULL, "%s got two values for '%s'", fn_name(f), name ? name : info->names[at]);
}

dl_status dlsh_bind(const dlsh_fn *f, const dlsh_callargs *args, dlsh_value *slots) {
    const dlsh_fninfo *info = f->info;
    if (info->plain && !args->names && args->n == info->nparams) { /* the usual call */
        for (int i = 0; i < args->n; i++)
            slots[i] = args->values[i].type == DLSH_VOID ? dlsh_none() : dlsh_ref(args->values[i]);
        return DL_OK;
    }
    if (info->rest > 0 && dlsh_failed(slots[info->rest - 1] = dlsh_new_list(0))) return DL_ERR_MEMORY;
    if (info->named_rest > 0 && dlsh_failed(slots[info->named_rest - 1] = dlsh_new_record())) return DL_ERR_MEMORY;
    for (int i = 0; i < args->n; i++) DLSH_TRY(bind_one(f, args, i, slots));
    for (int i = 0; i < info->nfixed; i++)
        if (slots[i].type == DLSH_VOID) {
            if (f->defaults[i].type == DLSH_VOID) {
                int positional = 0;
                while (positional < args->n && !(args->names && args->names[positional])) positional++;
                if (positional == args->n) return wrong_count(f, args->n);
                return dlsh_fail(DL_ERR_TYPE, NULL, "%s needs a value for '%s'", fn_name(f), info->names[i]);
            }
            slots[i] = dlsh_ref(f->defaults[i]);
        }
    if (info->has_cells) DLSH_TRY(make_cells(info, slots));
    for (int i = 0; i < info->ncaptures; i++) {
        /* a captured name that is captured further still shares the same cell */
        dlsh_drop(slots[info->captures[i].slot]);
        f->captured[i]->refs++;
        slots[info->captures[i].slot] = (dlsh_value){DLSH_CELL, {.cell = f->captured[i]}};
    }
    return DL_OK;
}

/* Runs the body with its variables bound; *out is VOID where nothing is returned, and after a failure. */
static inline dl_status run_body(dlsh_session *s, const dlsh_fn *f, dlsh_value *slots, dlsh_value *out) {
    *out = dlsh_void();
    DLSH_TRY(dlsh_quick_interrupt(s)); /* recursion is a loop, too */
    dlsh_collect_if_due();
    if (f->info->kept) dlsh_kept_drop(f->info->kept);
    dlsh_frame frame;
    dlsh_frame_enter(s, &frame, f);
    s->locals = slots;
    s->returned = out;
    if (s->unit != f->unit) dlsh_enter_unit(s, f->unit);
    s->fn_depth++;
    dlsh_flow flow = dlsh_exec_block(s, f->body);
    s->fn_depth--;
    s->result_silent = 0; /* whatever the last call in the body was */
    dlsh_frame_leave(s);
    if (flow != DLSH_FLOW_RETURN) *out = dlsh_void();
    return flow == DLSH_FAILED ? dl_failed() : DL_OK;
}

/* An inner function that calls itself references the cell that references it. When nothing else does, the cycle is cut.
 */
static void cut_cycle(dlsh_value slot) {
    if (slot.type != DLSH_CELL || slot.as.cell->v.type != DLSH_FN) return;
    dlsh_cell *c = slot.as.cell;
    dlsh_value v = c->v;
    int own = 0;
    for (int i = 0; i < v.as.fn->info->ncaptures; i++) own += v.as.fn->captured[i] == c;
    if (!own || v.as.fn->refs != 1 || c->refs != own + 1) return;
    c->v = dlsh_void();
    dlsh_drop(v);
}

/* The variables of a call, all VOID: `few`, or more memory. NULL: a recorded failure. */
static inline dlsh_value *open_slots(dlsh_session *s, const dlsh_fn *f, dlsh_value *few) {
    int n = f->info->nslots;
    if (dlsh_quick_stack(s)) return NULL;
    dlsh_value *slots = n > INLINE_SLOTS ? malloc((size_t)n * sizeof *slots) : few;
    for (int i = 0; slots && i < n; i++) dlsh_put_at(&slots[i], dlsh_void());
    if (!slots) dlsh_no_memory("a call");
    return slots;
}

/* `keeps`: what the variables hold may be looked at later. Of numbers and text alone there is nothing to be seen. */
static inline void close_slots(dlsh_session *s, const dlsh_fn *f, dlsh_value *slots, const dlsh_value *few, int keeps) {
    for (int i = 0; i < f->info->nslots && keeps; i++) {
        if (slots[i].type != DLSH_TENSOR && slots[i].type != DLSH_HANDLE && slots[i].type != DLSH_CELL) continue;
        dlsh_keep_variables(s, f, slots);
        break;
    }
    for (int i = 0; i < f->info->nslots; i++) {
        if (slots[i].type == DLSH_CELL) cut_cycle(slots[i]);
        dlsh_drop(dlsh_get_at(&slots[i]));
    }
    if (slots != few) free(slots);
}

/* parts: of a net's forward, borrowed, whose variables are the results of layers and not kept; NULL. */
static dl_status call_fn(dlsh_session *s, dlsh_fn *f, dlsh_value *parts, const dlsh_callargs *args,
                         const dlsh_node *node, dlsh_value *out) {
    dlsh_value few[INLINE_SLOTS], *slots = open_slots(s, f, few);
    if (!slots) return dl_failed();
    for (int i = 0; parts && i < f->info->nparts; i++) slots[f->info->nparams + i] = dlsh_ref(parts[i]);
    f->refs++; /* it may be reassigned while it runs */
    dl_status st = dlsh_bind(f, args, slots);
    if (st)
        dlsh_at(s, node, st);
    else if ((st = run_body(s, f, slots, out)))
        dlsh_trace_call(s, f->node->text, node);
    close_slots(s, f, slots, few, !parts);
    dlsh_drop((dlsh_value){DLSH_FN, {.fn = f}});
    return st;
}

/* ---------------------------------------------------------------- calling any value */

static dl_status call_at(dlsh_session *s, dlsh_value f, const dlsh_callargs *args, const dlsh_node *node,
                         dlsh_value *out);

static dl_status not_callable(dlsh_value f) {
    const char *hint = f.type == DLSH_LIST || f.type == DLSH_TENSOR ? "elements are taken with [ ]"
                       : f.type == DLSH_RECORD
                           ? "elements are taken with [ ]; weights of a file are loaded into a net: load m FILE"
                       : f.type == DLSH_STR ? "text is formatted with format(\"...\", x)"
                                            : NULL;
    return dlsh_fail(DL_ERR_TYPE, hint, "%s cannot be called", dlsh_a(f));
}

/* Methods of a class get self apart from their arguments; other functions as the first argument. */
static int is_class_method(dlsh_value self, dlsh_value fn) {
    if (self.type != DLSH_HANDLE || fn.type != DLSH_BUILTIN) return 0;
    for (const dlsh_command *c = self.as.handle->cls->methods; c && c->name; c++)
        if (c == fn.as.builtin) return 1;
    return 0;
}

/* Calls fn with self before the arguments. */
static dl_status call_with(dlsh_session *s, dlsh_value self, dlsh_value fn, const dlsh_callargs *args,
                           const dlsh_node *node, dlsh_value *out) {
    if (is_class_method(self, fn)) return dlsh_call_command_at(s, fn.as.builtin, self, args, node, out);
    dlsh_value few[INLINE_ARGS + 1], *values = few;
    const char *few_names[INLINE_ARGS + 1], **names = few_names;
    int n = args->n + 1;
    if (n > INLINE_ARGS + 1) {
        values = malloc((size_t)n * sizeof *values);
        names = malloc((size_t)n * sizeof *names);
        if (!values || !names) {
            free(values);
            free(names);
            return dlsh_no_memory("a call");
        }
    }
    values[0] = self;
    names[0] = NULL;
    if (args->n) memcpy(values + 1, args->values, (size_t)args->n * sizeof *values);
    for (int i = 0; i < args->n; i++) names[i + 1] = args->names ? args->names[i] : NULL;
    dlsh_callargs all = {n, values, names};
    dl_status st = call_at(s, fn, &all, node, out);
    if (values != few) {
        free(values);
        free(names);
    }
    return st;
}

/* Calls with the CALL node for the places of arguments (may be NULL). */
static dl_status call_at(dlsh_session *s, dlsh_value f, const dlsh_callargs *args, const dlsh_node *node,
                         dlsh_value *out) {
    *out = dlsh_void();
    switch (f.type) {
    case DLSH_FN:
        if (f.as.fn->node->kind == DLSH_N_NET) return dlsh_call_net_template(s, f.as.fn, args, out);
        return call_fn(s, f.as.fn, NULL, args, node, out);
    case DLSH_BUILTIN: return dlsh_call_command_at(s, f.as.builtin, dlsh_void(), args, node, out);
    case DLSH_OP: return dlsh_call_op(f, args, out);
    case DLSH_METHOD: return call_with(s, f.as.method->self, f.as.method->fn, args, node, out);
    case DLSH_HANDLE:
        if (f.as.handle->cls->call) return f.as.handle->cls->call(s, f.as.handle->self, args, out);
        return not_callable(f);
    default: return not_callable(f);
    }
}

dl_status dlsh_call(dlsh_session *s, dlsh_value f, const dlsh_callargs *args, dlsh_value *out) {
    return call_at(s, f, args, NULL, out);
}

dl_status dlsh_call_command(dlsh_session *s, const dlsh_command *row, const dlsh_callargs *args, dlsh_value *out) {
    return dlsh_call_command_at(s, row, dlsh_void(), args, NULL, out);
}

/* ---------------------------------------------------------------- CALL nodes */

typedef struct arguments {
    dlsh_callargs args;
    dlsh_value few[INLINE_ARGS], *values;
    const char *few_names[INLINE_ARGS], **names;
    int n, cap, named;
    dlsh_value keys; /* of records whose fields are arguments: a list, VOID without */
} arguments;

static void release(arguments *a) {
    for (int i = 0; i < a->n; i++) dlsh_drop(a->values[i]);
    if (a->values != a->few) {
        free(a->values);
        free(a->names);
    }
    dlsh_drop(a->keys);
}

static dl_status more_room(arguments *a) {
    dlsh_value *values = malloc(2 * (size_t)a->cap * sizeof *values);
    const char **names = malloc(2 * (size_t)a->cap * sizeof *names);
    if (!values || !names) {
        free(values);
        free(names);
        return dlsh_no_memory("a call");
    }
    memcpy(values, a->values, (size_t)a->n * sizeof *values);
    memcpy(names, a->names, (size_t)a->n * sizeof *names);
    if (a->values != a->few) {
        free(a->values);
        free(a->names);
    }
    a->values = values;
    a->names = names;
    a->cap *= 2;
    return DL_OK;
}

/* Takes v, also on failure. */
static dl_status add(arguments *a, const char *name, dlsh_value v) {
    dl_status st = DL_OK;
    if (a->n == DLSH_MAX_ARGS)
        st = dlsh_fail(DL_ERR_VALUE, "give a list instead", "a call with more than %d arguments", DLSH_MAX_ARGS);
    else if (a->n == a->cap)
        st = more_room(a);
    if (st) {
        dlsh_drop(v);
        return st;
    }
    a->names[a->n] = name;
    a->values[a->n++] = v;
    a->named |= name != NULL;
    return DL_OK;
}

/* f(**r): the names are kept apart from the record, which may change during the call. */
static dl_status add_fields(arguments *a, dlsh_value r) {
    if (r.type != DLSH_RECORD)
        return dlsh_fail(DL_ERR_TYPE, "named arguments: f(**{a: 1}); f(*xs) gives those of a list",
                         "** takes a record, got %s", dlsh_a(r));
    if (a->keys.type == DLSH_VOID) a->keys = dlsh_new_list(0);
    for (int i = 0; i < r.as.record->n; i++) {
        dlsh_value key = dlsh_string(r.as.record->keys[i]);
        DLSH_TRY(dlsh_append(a->keys, key));
        DLSH_TRY(add(a, key.as.str->s, dlsh_ref(r.as.record->values[i])));
    }
    return DL_OK;
}

static dl_status add_spread(dlsh_session *s, arguments *a, const dlsh_node *n) {
    dlsh_value v, item;
    dlsh_iter it;
    int done = 0;
    DLSH_TRY(dlsh_eval(s, n->kids[0], &v));
    dl_status st = DL_OK;
    if (n->op == DLSH_OP_POW)
        st = add_fields(a, v);
    else if (!(st = dlsh_iter_begin(s, v, &it))) {
        while (!st && !(st = dlsh_iter_next(s, &it, &item, &done)) && !done) st = add(a, NULL, item);
        dlsh_iter_end(&it);
    }
    dlsh_drop(v);
    return dlsh_at(s, n, st);
}

static inline dlsh_value eval_argument(dlsh_session *s, const dlsh_node *n, dl_status *st) {
    dlsh_value v = dlsh_peek(s, n), made;
    if (v.type != DLSH_VOID) return dlsh_ref(v);
    *st = dlsh_eval_made(s, n, &made);
    if (!*st) return dlsh_get_at(&made);
    dlsh_argument_failed(n, *st);
    return dlsh_void();
}

static dl_status evaluate(dlsh_session *s, const dlsh_node *n, arguments *a) {
    a->values = a->few;
    a->names = a->few_names;
    a->n = a->named = 0;
    a->cap = INLINE_ARGS;
    a->keys = dlsh_void();
    for (int i = 1; i < n->nkids; i++) {
        const dlsh_node *k = n->kids[i];
        const char *name = k->kind == DLSH_N_KWARG ? k->text : NULL;
        dlsh_value v;
        if (k->kind == DLSH_N_SPREAD) {
            DLSH_TRY(add_spread(s, a, k));
            continue;
        }
        dl_status st = DL_OK;
        v = eval_argument(s, name ? k->kids[0] : k, &st);
        if (st) return st;
        DLSH_TRY(dlsh_at(s, n, add(a, name, v)));
    }
    a->args = (dlsh_callargs){a->n, a->values, a->named ? a->names : NULL};
    return DL_OK;
}

/* The method of an object whose methods depend on its type alone, kept in the FIELD node; NULL: find_callee finds it.
 */
static inline const dlsh_command *kept_method(const dlsh_node *n, dlsh_value self) {
    if (n->op != self.type || (self.type != DLSH_LIST && self.type != DLSH_STR && self.type != DLSH_RECORD))
        return NULL;
    return self.type == DLSH_RECORD && dlsh_record_get(self.as.record, n->text) ? NULL : n->num.cmd;
}

/* x.name(...): a field that can be called, or a method, without making a method value. */
static dl_status find_callee(dlsh_session *s, const dlsh_node *n, dlsh_value *self, dlsh_value *f) {
    *self = *f = dlsh_void();
    if (n->kind != DLSH_N_FIELD) return dlsh_eval_quick(s, n, f);
    DLSH_TRY(dlsh_eval_quick(s, n->kids[0], self));
    const dlsh_command *kept = kept_method(n, *self);
    if (kept) {
        *f = (dlsh_value){DLSH_BUILTIN, {.builtin = kept}};
        return DL_OK;
    }
    if (dlsh_find_method(s, *self, n->text, f)) {
        if (f->type == DLSH_BUILTIN) {
            ((dlsh_node *)n)->op = (unsigned char)self->type;
            ((dlsh_node *)n)->num.cmd = f->as.builtin;
        }
        return DL_OK;
    }
    dl_status st = dlsh_at(s, n, dlsh_get_field(s, *self, n->text, f));
    dlsh_drop(*self);
    *self = dlsh_void();
    return st;
}

/* Is it called for what it does, rather than for its value? */
static int acts(dlsh_value f) {
    if (f.type == DLSH_METHOD) f = f.as.method->fn;
    if (f.type == DLSH_BUILTIN && f.as.builtin->flags & DLSH_ACTS) return 1;
    if (f.type != DLSH_BUILTIN && f.type != DLSH_OP) return 0;
    const char *name = f.type == DLSH_OP ? dlsh_op_value_name(f) : f.as.builtin->name;
    return name[strlen(name) - 1] == '_'; /* changes its tensor */
}

/* Calls f, on self where that is not VOID. */
static dl_status call_evaluated(dlsh_session *s, const dlsh_node *n, dlsh_value self, dlsh_value f,
                                const dlsh_callargs *args, dlsh_value *out) {
    s->failed_arg = 0;
    dl_status st = self.type == DLSH_VOID ? call_at(s, f, args, n, out) : call_with(s, self, f, args, n, out);
    if (st && s->failed_arg > 0 && s->failed_arg < n->nkids && !n->op) dlsh_at(s, n->kids[s->failed_arg], st);
    s->failed_arg = 0;
    return st;
}

/* A function that takes these arguments as they stand: they are evaluated where they are bound. */
static dl_status call_plain(dlsh_session *s, dlsh_fn *f, const dlsh_node *n, dlsh_value *out) {
    dlsh_value few[INLINE_SLOTS], *slots = open_slots(s, f, few);
    dl_status st = DL_OK;
    if (!slots) return dl_failed();
    f->refs++; /* it may be reassigned while it runs */
    for (int i = 1; i < n->nkids && !st; i++) {
        dlsh_value v = eval_argument(s, n->kids[i], &st);
        if (!st) dlsh_put_at(&slots[i - 1], v.type == DLSH_VOID ? dlsh_none() : v);
    }
    if (!st && (st = run_body(s, f, slots, out))) dlsh_trace_call(s, f->node->text, n);
    close_slots(s, f, slots, few, 1);
    dlsh_drop((dlsh_value){DLSH_FN, {.fn = f}});
    return st;
}

dl_status dlsh_call_one(dlsh_session *s, dlsh_value f, dlsh_value v, dlsh_value *out) {
    dlsh_fn *fn = f.as.fn;
    if (fn->takes != 1) {
        dl_status st = dlsh_call(s, f, &(dlsh_callargs){1, &v, NULL}, out);
        dlsh_drop(v);
        return st;
    }
    dlsh_value few[INLINE_SLOTS], *slots = open_slots(s, fn, few);
    if (!slots) {
        dlsh_drop(v);
        return dl_failed();
    }
    dlsh_put_at(&slots[0], v);
    dl_status st = run_body(s, fn, slots, out);
    close_slots(s, fn, slots, few, 0);
    return st;
}

/* A row with few arguments, self being the first unless it is VOID: the short way, or with the same arguments the
 * general one. */
static dl_status call_row(dlsh_session *s, dlsh_value self, const dlsh_command *row, const dlsh_node *n,
                          dlsh_value *out) {
    dlsh_value v[QUICK_ARGS + 1];
    int first = self.type != DLSH_VOID, k = first;
    dl_status st = DL_OK;
    dlsh_put_at(&v[0], self);
    for (int i = 1; i < n->nkids && !st; i++) {
        dlsh_value one = eval_argument(s, n->kids[i], &st);
        if (!st) dlsh_put_at(&v[k++], one);
    }
    s->result_silent = 0;
    dlsh_put_at(out, dlsh_void());
    if (!st && !row->quick(v, k, out)) {
        dlsh_callargs args = {k - first, v + first, NULL};
        st = call_evaluated(s, n, self, (dlsh_value){DLSH_BUILTIN, {.builtin = row}}, &args, out);
    }
    while (k > first) dlsh_drop(dlsh_get_at(&v[--k]));
    if (!s->fn_depth) s->result_silent = acts((dlsh_value){DLSH_BUILTIN, {.builtin = row}});
    return st;
}

/* The short way of a row for arguments that need no evaluation: they are borrowed, because a short way evaluates
 * nothing. 0: nothing has happened. */
static inline int call_peeked(dlsh_session *s, dlsh_value self, const dlsh_command *row, const dlsh_node *n,
                              dlsh_value *out) {
    dlsh_value v[QUICK_ARGS + 1], *end = v;
    if (self.type != DLSH_VOID) dlsh_put_at(end++, self);
    for (int i = 1; i < n->nkids; i++, end++) {
        dlsh_put_at(end, dlsh_peek(s, n->kids[i]));
        if (end->type == DLSH_VOID) return 0;
    }
    dlsh_put_at(out, dlsh_void());
    if (!row->quick(v, (int)(end - v), out)) return 0;
    s->result_silent = s->fn_depth ? 0 : acts((dlsh_value){DLSH_BUILTIN, {.builtin = row}});
    return 1;
}

static dl_status call_any(dlsh_session *s, dlsh_value self, dlsh_value f, const dlsh_node *n, dlsh_value *out) {
    arguments a;
    dl_status st = evaluate(s, n, &a);
    s->result_silent = 0;
    *out = dlsh_void();
    if (!st) st = call_evaluated(s, n, self, f, &a.args, out);
    release(&a);
    if (!s->fn_depth && f.type != DLSH_HANDLE) s->result_silent = acts(f); /* inside functions nothing is shown */
    return st;
}

/* A NAME that is a variable, or a row of the tables: what it means, borrowed. VOID: the general way finds out. */
static inline dlsh_value peek_callee(dlsh_session *s, const dlsh_node *n) {
    if (n->kind != DLSH_N_NAME) return dlsh_void();
    const dlsh_value *v = dlsh_quick_slot(s, n);
    if (v) return dlsh_get_at(v);
    if (n->flags & DLSH_LOCAL || s->globals[n->slot].looked_up != 1) return dlsh_void();
    return dlsh_get_at(&s->globals[n->slot].builtin);
}

static inline int takes_plainly(dlsh_value f, int nargs) { return f.type == DLSH_FN && f.as.fn->takes == nargs; }

static inline int has_short_way(const dlsh_command *row, int nargs) { return row->quick && nargs <= QUICK_ARGS; }

/* Any callee and any arguments. */
static dl_status call_general(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    DLSH_DROPPED dlsh_value self = dlsh_void(), f = dlsh_void();
    DLSH_TRY(find_callee(s, n->kids[0], &self, &f));
    return n->flags & DLSH_POSITIONAL && f.type == DLSH_BUILTIN && has_short_way(f.as.builtin, n->nkids - 1)
               ? call_row(s, self, f.as.builtin, n, out)
               : call_any(s, self, f, n, out);
}

dl_status dlsh_eval_call(dlsh_session *s, const dlsh_node *n, dlsh_value *out) {
    const dlsh_node *callee = n->kids[0];
    int nargs = n->nkids - 1;
    if (!(n->flags & DLSH_POSITIONAL)) return call_general(s, n, out);
    if (callee->kind == DLSH_N_FIELD) {
        dlsh_value self = dlsh_peek(s, callee->kids[0]);
        const dlsh_command *row = self.type == DLSH_VOID ? NULL : kept_method(callee, self);
        if (!row || !has_short_way(row, nargs)) return call_general(s, n, out);
        if (call_peeked(s, self, row, n, out)) return DL_OK;
        dlsh_ref(self);
        dl_status st = call_row(s, self, row, n, out);
        dlsh_drop(self);
        return st;
    }
    dlsh_value f = peek_callee(s, callee);
    if (takes_plainly(f, nargs)) return call_plain(s, f.as.fn, n, out);
    if (f.type == DLSH_BUILTIN && has_short_way(f.as.builtin, nargs)) {
        if (call_peeked(s, dlsh_void(), f.as.builtin, n, out)) return DL_OK;
        return call_row(s, dlsh_void(), f.as.builtin, n, out);
    }
    return call_general(s, n, out);
}

int dlsh_forward_parts(dlsh_value forward, const char *const **names) {
    const dlsh_fninfo *info = forward.as.fn->info;
    *names = info->names + info->nparams;
    return info->nparts;
}

dl_status dlsh_call_forward(dlsh_session *s, dlsh_value forward, dlsh_value *parts, const dlsh_callargs *args,
                            dlsh_value *out) {
    return call_fn(s, forward.as.fn, parts, args, NULL, out);
}
