/* Hooks: lists of functions at leaves, nodes and layers. */
#include "autograd/hooks.h"
#include "autograd/tape.h"
#include "core/scope.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"

#include <stdlib.h>

static long alive;

bool dl_hooks_exist(void) { return __atomic_load_n(&alive, __ATOMIC_RELAXED) > 0; }

dl_status dl_hooks_add(dl_hook **list, int out, dl_hook_fn *fn, void *ctx, void (*release)(void *ctx)) {
    dl_hook *h = malloc(sizeof *h);
    if (!h) {
        if (release) release(ctx);
        return dl_fail(DL_ERR_MEMORY, "no memory for a hook");
    }
    *h = (dl_hook){fn, ctx, release, out, NULL};
    while (*list) list = &(*list)->next;
    *list = h;
    __atomic_add_fetch(&alive, 1, __ATOMIC_RELAXED);
    return DL_OK;
}

void dl_hooks_remove(dl_hook **list, int out) {
    while (*list) {
        dl_hook *h = *list;
        if (out >= 0 && h->out != out) {
            list = &h->next;
            continue;
        }
        *list = h->next;
        if (h->release) h->release(h->ctx);
        free(h);
        __atomic_sub_fetch(&alive, 1, __ATOMIC_RELAXED);
    }
}

void dl_hooks_free(dl_hook **list) { dl_hooks_remove(list, -1); }

static dl_status run_one(const dl_hook *h, dl_tensor **value) {
    dl_tensor *instead = NULL;
    dl_status st = h->fn(h->ctx, *value, &instead);
    if (st == DL_OK && instead && !dl_shape_eq(instead, *value))
        st = dl_fail_hint(DL_ERR_SHAPE, "return none to leave it as it is", "a hook gave shape %s in place of shape %s",
                          dl_shape_of(instead), dl_shape_of(*value));
    if (st != DL_OK || !instead) return dl_unref(instead), st;
    dl_unref(*value);
    *value = instead;
    return DL_OK;
}

dl_status dl_hooks_run(const dl_hook *list, dl_tensor **value) {
    for (const dl_hook *h = list; h; h = h->next) DL_TRY(run_one(h, value));
    return DL_OK;
}

dl_status dl_hooks_run_outputs(const dl_hook *list, dl_tensor **g) {
    for (const dl_hook *h = list; h; h = h->next)
        if (g[h->out]) DL_TRY(run_one(h, &g[h->out]));
    return DL_OK;
}

static _Thread_local dl_hook_place hooked; /* what the running hook looks at */

dl_status dl_hooks_run_node(dl_node *node, unsigned long pass, dl_tensor **g) {
    const dl_hook_place outer = hooked;
    dl_status st = DL_OK;
    for (const dl_hook *h = node->hooks; h && st == DL_OK; h = h->next) {
        if (!g[h->out]) continue;
        hooked = (dl_hook_place){node, h->out, pass};
        st = run_one(h, &g[h->out]);
    }
    hooked = outer;
    return st;
}

dl_hook_place dl_hook_here(void) { return hooked; }

/* A pass holds the nodes that it has come to. */
dl_tensor *dl_hook_result(dl_hook_place at, dl_tensor *value) {
    dl_tensor *t = value ? dl_detach(value) : (dl_fail_null("the value"), NULL);
    if (t && at.pass && at.pass == hooked.pass) t->node = dl_node_ref(at.node), t->out = at.out;
    return t;
}

/* ---------------------------------------------------------------- where they are */

dl_status dl_on_grad(dl_tensor *t, dl_hook_fn *fn, void *ctx, void (*release)(void *ctx)) {
    dl_status st = !t ? dl_fail_null("the tensor") : dl_history_renew(t);
    if (st == DL_OK && !dl_requires_grad(t))
        st = dl_fail_hint(DL_ERR_AUTOGRAD, "make a leaf with param(x) or tensor(..., grad=true)",
                          "a tensor that needs no gradient gets none");
    if (st != DL_OK) {
        if (release) release(ctx);
        return st;
    }
    dl_hook **list = t->node ? &t->node->hooks : &t->hooks;
    int out = t->node ? t->out : 0;
    if (fn) return dl_hooks_add(list, out, fn, ctx, release);
    dl_hooks_remove(list, out);
    return DL_OK;
}

dl_status dl_on_accumulated(dl_tensor *t, dl_hook_fn *fn, void *ctx, void (*release)(void *ctx)) {
    dl_status st = !t ? dl_fail_null("the tensor") : !fn ? dl_fail_null("the function") : dl_history_renew(t);
    if (st == DL_OK && (t->node || !dl_requires_grad(t)))
        st = dl_fail_hint(DL_ERR_AUTOGRAD, "make a leaf with param(x) or tensor(..., grad=true)",
                          "only leaves that need a gradient have a sum of gradients");
    if (st == DL_OK) return dl_hooks_add(&t->hooks, DL_HOOK_BEHIND, fn, ctx, release);
    if (release) release(ctx);
    return st;
}

/* ---------------------------------------------------------------- gradients of results */

/* ctx is where the gradient is kept: at the node, which the tensor owns, so that nothing holds itself. */
static dl_status keep_grad(void *ctx, dl_tensor *value, DL_UNUSED dl_tensor **instead) {
    dl_tensor **kept = ctx;
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *was = *kept;
    *kept = was ? dl_add(was, value) : dl_clone(value);
    return *kept ? DL_OK : dl_failed();
}

static void forget_grad(void *ctx) {
    dl_unref(*(dl_tensor **)ctx);
    free(ctx);
}

dl_tensor *const *dl_retained_grad(const dl_tensor *t) {
    static dl_tensor *const none = NULL;
    for (const dl_hook *h = t->node ? t->node->hooks : NULL; h; h = h->next)
        if (h->fn == keep_grad && h->out == t->out) return h->ctx;
    return &none;
}

static bool retains_grad(const dl_tensor *t) {
    for (const dl_hook *h = t->node->hooks; h; h = h->next)
        if (h->fn == keep_grad && h->out == t->out) return true;
    return false;
}

dl_status dl_retain_grad(dl_tensor *t) {
    if (!t) return dl_fail_null("the tensor");
    if (t->node ? retains_grad(t) : dl_requires_grad(t)) return DL_OK;
    void *ctx = calloc(1, sizeof(dl_tensor *));
    return ctx ? dl_on_grad(t, keep_grad, ctx, forget_grad) : dl_fail(DL_ERR_MEMORY, "no memory for a gradient");
}
