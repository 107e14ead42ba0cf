/* Functions of the language as C callbacks. A closure is made for a call and becomes idle when the call has returned,
 * unless the parameter is declared `keep`. An idle closure is used again for the next callback of its type; C calling
 * it meanwhile is an error. An error in a callback makes it return 0, and is raised when the C function returns:
 * nothing jumps over C frames. */
#include <pthread.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>

#include "ffi/call/guard.h"
#include "ffi/inside.h"
#include "lang/parse/fn.h"

typedef struct dlsh_cclosure {
    struct dlsh_cclosure *next;
    ffi_closure *closure;
    void *code;
    ffi_cif cif;
    ffi_type **types;
    const dlsh_ctype *function;
    size_t result_size;
    dlsh_cstate *state; /* NULL: the session has ended */
    pthread_t thread;
    const void *owner; /* of its call; the state itself: kept; NULL: asleep */
    dlsh_value f;      /* VOID while asleep */
    dlsh_value last;   /* what a pointer that was returned points into */
} closure;

enum { MAX_CLOSURES = 1024 };

static void set_failure(closure *c) {
    dlsh_cstate *st = c->state;
    if (!st->callback_failed) {
        if (!dl_error_take(&st->callback_error))
            st->callback_error = (dl_error){.code = DL_ERR_INTERNAL, .message = "a callback failed"};
        st->callback_failed = 1;
    }
    dl_error_clear();
}

static dl_status give_result(closure *c, dlsh_value v, void *result) {
    const dlsh_ctype *t = c->function->base;
    dlsh_cslot slot = {0};
    char what[120];
    if (t->kind == DLSH_C_VOID) return DL_OK;
    const char *name = dlsh_function_name(c->f);
    snprintf(what, sizeof what, name ? "the result of the callback %.80s" : "the callback's result", name);
    if (v.type == DLSH_NONE || v.type == DLSH_VOID)
        return dlsh_fail(DL_ERR_TYPE, "return ends it with a value", "%s must be %s, and it gave none", what,
                         dlsh_c_name(t));
    if (dlsh_c_is_struct(t) || t->kind == DLSH_C_POINTER) {
        DLSH_TRY(dlsh_c_store(c->state->s, t, v, t->kind == DLSH_C_POINTER ? (void *)&slot : result));
        dlsh_drop(c->last);
        c->last = dlsh_ref(v);
        if (t->kind == DLSH_C_POINTER) memcpy(result, &slot, sizeof slot.p);
        return DL_OK;
    }
    DLSH_TRY(dlsh_c_scalar(t->plain, v, what, &slot));
    /* libffi expects small integers widened to ffi_arg */
    memcpy(result, &slot, dlsh_c_is_float(t) ? dlsh_c_size(t) : sizeof(ffi_arg));
    return DL_OK;
}

static dl_status run(closure *c, void *result, void **args) {
    dlsh_value values[DLSH_C_MAX_ARGS];
    DLSH_DROPPED dlsh_value out = dlsh_void(), f = dlsh_ref(c->f);
    dlsh_session *s = c->state->s;
    int n = (int)c->function->n, have = 0;
    dl_status st = DL_OK;
    while (have < n && !(st = dlsh_c_load(s, c->function->params[have], args[have], &values[have]))) have++;
    dlsh_callargs given = {n, values, NULL};
    if (!st && dlsh_interrupted()) st = dlsh_fail(DL_ERR_INTERRUPT, NULL, "interrupted");
    if (!st) st = dlsh_call(s, f, &given, &out);
    if (!st) st = give_result(c, out, result);
    if (st && st != DL_ERR_INTERRUPT && f.type == DLSH_FN)
        st = dlsh_place_at(s, f.as.fn->unit, f.as.fn->node->span, st); /* if it has no other */
    for (int i = 0; i < have; i++) dlsh_drop(values[i]);
    return st;
}

static void called(DLSH_UNUSED ffi_cif *cif, void *result, void **args, void *user) {
    closure *c = user;
    size_t size = c->result_size;
    if (size) memset(result, 0, size < sizeof(ffi_arg) ? sizeof(ffi_arg) : size);
    if (!c->state) return;
    if (!pthread_equal(pthread_self(), c->thread)) {
        __atomic_store_n(&c->state->foreign_thread, 1, __ATOMIC_RELAXED); /* the session belongs to one thread */
        return;
    }
    if (c->state->callback_failed) return;
    dlsh_guard_leave();
    if (!c->owner) {
        dlsh_fail(DL_ERR_STATE, "declare the parameter with `keep` if C calls it later",
                  "C called a callback whose call had returned");
        set_failure(c);
    } else if (run(c, result, args)) {
        set_failure(c);
    }
    if (__fpending(stdout)) fflush(stdout); /* C may continue printing past stdio */
    dlsh_guard_enter();
}

dl_status dlsh_c_callback_failure(dlsh_cstate *st, dl_status status) {
    int foreign = __atomic_exchange_n(&st->foreign_thread, 0, __ATOMIC_RELAXED), failed = st->callback_failed;
    st->callback_failed = 0;
    if (status) return status; /* what ended the call itself is told */
    if (failed) return dl_error_put(&st->callback_error);
    if (!foreign) return DL_OK;
    return dlsh_fail(DL_ERR_STATE, "callbacks run on the session's thread only",
                     "C called back from a thread of its own");
}

static void destroy(closure *c) {
    dlsh_drop(c->f);
    dlsh_drop(c->last);
    if (c->closure) ffi_closure_free(c->closure);
    free(c->types);
    free(c);
}

static closure *make(dlsh_cstate *st, const dlsh_ctype *t) {
    closure *c = calloc(1, sizeof *c);
    ffi_type *result = dlsh_c_ffi_type(st->space, t->base);
    if (!c || !result) goto fail;
    *c = (closure){.function = t,
                   .result_size = dlsh_c_size(t->base),
                   .state = st,
                   .thread = pthread_self(),
                   .f = dlsh_void(),
                   .last = dlsh_void()};
    if (!(c->types = calloc((size_t)t->n + 1, sizeof *c->types))) goto fail;
    for (long i = 0; i < t->n; i++)
        if (!(c->types[i] = dlsh_c_ffi_type(st->space, t->params[i]))) goto fail;
    c->closure = ffi_closure_alloc(sizeof *c->closure, &c->code);
    if (!c->closure || ffi_prep_cif(&c->cif, FFI_DEFAULT_ABI, (unsigned)t->n, result, c->types) != FFI_OK ||
        ffi_prep_closure_loc(c->closure, &c->cif, called, c, c->code) != FFI_OK) {
        dlsh_fail(DL_ERR_UNSUPPORTED, NULL, "libffi makes no callback of type %s", dlsh_c_name(t));
        goto fail;
    }
    c->next = st->closures;
    st->closures = c;
    return c;
fail:
    if (!dl_error_last()) dlsh_no_memory("a callback");
    if (c) destroy(c);
    return NULL;
}

void *dlsh_c_closure(dlsh_session *s, const dlsh_ctype *t, dlsh_value f, const void *owner) {
    dlsh_cstate *st = dlsh_c_state(s);
    int n = 0;
    if (t->varargs || t->n > DLSH_C_MAX_ARGS) {
        dlsh_fail(DL_ERR_UNSUPPORTED, NULL, "a callback cannot be %s", dlsh_c_name(t));
        return NULL;
    }
    if (!owner) owner = st;
    closure *c = st->closures;
    /* a function that is kept twice shares one closure */
    for (closure *k = c; k && owner == st; k = k->next)
        if (k->owner == st && k->function == t && k->f.type == f.type && k->f.as.refs == f.as.refs) return k->code;
    for (; c && (c->owner || c->function != t); c = c->next) n++;
    if (!c && n >= MAX_CLOSURES) {
        dlsh_fail(DL_ERR_STATE, "keep belongs to callbacks that are given once", "more than %d callbacks are kept",
                  MAX_CLOSURES);
        return NULL;
    }
    if (!c && !(c = make(st, t))) return NULL;
    c->owner = owner;
    c->f = dlsh_ref(f);
    return c->code;
}

void dlsh_c_closures_end(dlsh_cstate *st, const void *owner) {
    for (closure *c = st->closures; c; c = c->next) {
        if (c->owner != owner) continue;
        DLSH_DROPPED dlsh_value f = c->f, last = c->last;
        c->owner = NULL;
        c->f = c->last = dlsh_void();
    }
}

/* Kept closures may still be called, for example by functions of atexit: they stay, and do nothing from now on. */
int dlsh_c_closures_free(dlsh_cstate *st) {
    static closure *left;
    int n = 0;
    for (closure *c = st->closures, *next; c; c = next) {
        next = c->next;
        if (c->owner != st) {
            destroy(c);
            continue;
        }
        dlsh_drop(c->f);
        dlsh_drop(c->last);
        c->f = c->last = dlsh_void();
        c->state = NULL;
        c->next = left;
        left = c;
        n++;
    }
    st->closures = NULL;
    return n;
}
