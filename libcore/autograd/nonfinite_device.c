/* The making of NaN on a device, which has no flags to ask: what a call has made is copied to host memory and looked at
 * there. That waits for the device after each op, so it is done on request: under DL_NAN_STOP, and while a step of a
 * trainer that diverged is run again. */
#include "autograd/nonfinite.h"
#include "autograd/recording.h"
#include "autograd/tape.h"
#include "core/mode.h"

#include <stdlib.h>

__thread bool dl_nonfinite_again;

/* Copies are made without being watched themselves. */
static _Thread_local bool copying;

typedef struct quiet {
    dl_calls *recorder;
    int grad;
} quiet;

static quiet quiet_begin(void) {
    quiet q = {dl_recorder, dl_grad_mode(0)};
    dl_recorder = NULL;
    copying = true;
    return q;
}

static void quiet_end(const quiet *q) {
    copying = false;
    dl_recorder = q->recorder;
    dl_grad_mode(q->grad);
}

static dl_tensor *host_copy(dl_tensor *t) {
    if (!t || !dl_dtype_is_smooth(t->dtype)) return NULL;
    dl_tensor *near = dl_to_device(t, 0);
    if (!near) return dl_error_clear(), NULL;
    if (near != t && t->name && dl_tensor_set_name(near, t->name) != DL_OK) dl_error_clear();
    if (near != t) near->requires_grad = t->requires_grad;
    return near;
}

static dl_tensor **host_copies(dl_tensor *const *t, int n) {
    dl_tensor **near = calloc((size_t)n + 1, sizeof *near);
    for (int i = 0; near && i < n; i++) near[i] = host_copy(t[i]);
    return near;
}

static void drop(dl_tensor **t, int n) {
    for (int i = 0; t && i < n; i++) dl_unref(t[i]);
    free(t);
}

static bool any_bad(dl_tensor *const *t, int n) {
    for (int i = 0; i < n; i++)
        if (t[i] && dl_nonfinite_has(t[i])) return true;
    return false;
}

static dl_status check_copies(const dl_call *c) {
    dl_call near = *c;
    const bool updates = !c->op->out;
    near.device = 0;
    near.out = host_copies(c->out, c->nout);
    near.in = NULL;
    if (near.out && (updates || any_bad(near.out, near.nout))) near.in = host_copies(c->in, c->nin);
    dl_status s = near.in ? dl_nonfinite_check(&near) : DL_OK;
    drop(near.in, near.nin);
    drop(near.out, near.nout);
    return s;
}

static dl_status check_rule_copies(const dl_back *b) {
    dl_node node = *b->node;
    dl_back near = *b;
    near.node = &node;
    near.gin = host_copies(b->gin, b->nin);
    near.g = NULL, node.saved = NULL;
    if (near.gin && any_bad(near.gin, near.nin)) {
        near.g = host_copies(b->g, b->nout);
        node.saved = calloc((size_t)node.nsaved + 1, sizeof *node.saved);
        for (int i = 0; node.saved && i < node.nsaved; i++) {
            node.saved[i] = b->node->saved[i];
            node.saved[i].t = host_copy(b->node->saved[i].t);
        }
    }
    dl_status s = near.g && node.saved ? dl_nonfinite_check_rule(&near) : DL_OK;
    drop(near.gin, near.nin);
    drop(near.g, near.nout);
    for (int i = 0; node.saved && i < node.nsaved; i++) dl_unref(node.saved[i].t);
    free(node.saved);
    return s;
}

/* Work that is recorded for a graph has no numbers yet. */
static bool can_look(void) { return !copying && !dl_deferred_get(); }

dl_status dl_nonfinite_check_device(const dl_call *c) {
    if (!can_look()) return DL_OK;
    quiet q = quiet_begin();
    dl_status s = check_copies(c);
    quiet_end(&q);
    return s;
}

dl_status dl_nonfinite_check_rule_device(const dl_back *b) {
    if (!can_look()) return DL_OK;
    quiet q = quiet_begin();
    dl_status s = check_rule_copies(b);
    quiet_end(&q);
    return s;
}

dl_tensor *dl_nonfinite_copy(dl_tensor *t) {
    quiet q = quiet_begin();
    dl_tensor *near = host_copy(t);
    quiet_end(&q);
    return near;
}
