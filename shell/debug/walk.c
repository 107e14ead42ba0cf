/* Walking over nodes: the backward pass is run once, recorded, and then looked at place by place. */
#include "debug/walk.h"

#include <stdlib.h>
#include <string.h>

#include "dlcore/copy.h"

int dlsh_debug_alike(const dl_tensor *a, const dl_tensor *b) {
    int d = dl_ndim(a);
    if (dl_data(a) != dl_data(b) || d != dl_ndim(b) || dl_dtype_of(a) != dl_dtype_of(b)) return 0;
    for (int i = 0; i < d; i++)
        if (dl_shape(a)[i] != dl_shape(b)[i] || dl_stride(a)[i] != dl_stride(b)[i]) return 0;
    return 1;
}

/* The leaves below the loss, and copies of the gradients they have. */
static dl_status find_leaves(dlsh_nodewalk *w, dl_tensor *loss) {
    DLSH_ENDED(dl_tape_free) dl_tape *tape = dl_tape_of(loss);
    if (!tape) return dl_failed();
    w->leaves = calloc((size_t)tape->n + 1, sizeof *w->leaves);
    DLSH_TRY(w->leaves ? DL_OK : dlsh_no_memory("leaves"));
    for (long i = 0; i < tape->n; i++) {
        dl_tensor *t = tape->nodes[i].leaf, *g = t ? dl_grad(t) : NULL;
        if (!t) continue;
        dlsh_walk_leaf *leaf = &w->leaves[w->nleaves++];
        *leaf = (dlsh_walk_leaf){.t = dl_ref(t)};
        DLSH_SCOPED_GRAD_MODE(0);
        if (g && !(leaf->before = dl_clone(g))) return dl_failed();
    }
    return DL_OK;
}

static int is_leaf(const dl_recorded *c, int k, const dlsh_walk_leaf *leaf) {
    return !c->from[k] && c->in[k] && c->out[k] && dl_data(c->in[k]) == dl_data(leaf->t);
}

/* The gradient rules that ran since call `first`. */
static dl_status find_calls(dlsh_nodewalk *w, long first) {
    long count = dl_recording_count();
    dl_recorded c;
    w->call = malloc((size_t)(count - first + 1) * sizeof *w->call);
    w->seq = malloc((size_t)(count - first + 1) * sizeof *w->seq);
    if (!w->call || !w->seq) return dlsh_no_memory("nodes");
    for (long i = first; i < count; i++) {
        if (dl_recording_at(i, &c) || !c.gradient) continue;
        for (int l = 0; l < w->nleaves; l++)
            for (int k = 0; k < c.nin; k++)
                if (is_leaf(&c, k, &w->leaves[l])) w->leaves[l].parts++, w->leaves[l].last = w->n;
        w->seq[w->n] = c.seq;
        w->call[w->n++] = i;
    }
    return DL_OK;
}

void dlsh_nodewalk_go(dlsh_nodewalk *w, int place) {
    w->at = place < 0 ? 0 : place > 2 * w->n ? 2 * w->n : place;
    for (int i = 0; i < w->nleaves; i++) {
        dlsh_walk_leaf *l = &w->leaves[i];
        int complete = l->parts && w->at >= w->n + l->last;
        dl_set_grad(l->t, complete ? l->after : l->before);
    }
}

int dlsh_nodewalk_node(const dlsh_nodewalk *w, int place, dl_recorded *out, int *backward) {
    if (place < 0 || place >= 2 * w->n) return 0;
    *backward = place >= w->n;
    return dl_recording_at(w->call[*backward ? place - w->n : w->n - 1 - place], out) == DL_OK;
}

/* Place of a node in the pass, -1: it is not in it. They run from the newest on, so that numbers fall. */
static int place_of(const dlsh_nodewalk *w, unsigned long seq) {
    int from = 0, to = w->n;
    while (from < to) {
        int i = from + (to - from) / 2;
        if (w->seq[i] == seq) return i;
        if (w->seq[i] > seq)
            from = i + 1;
        else
            to = i;
    }
    return -1;
}

int dlsh_nodewalk_place(const dlsh_nodewalk *w, unsigned long seq) {
    int i = place_of(w, seq);
    return i < 0 ? -1 : w->n - 1 - i;
}

dl_tensor *dlsh_nodewalk_result(const dlsh_nodewalk *w, const dl_recorded *node) {
    int i = place_of(w, node->seq);
    return i < 0 ? NULL : w->result[i];
}

dl_tensor *dlsh_nodewalk_operand(const dlsh_nodewalk *w, const dl_recorded *node, int k) {
    int i = node->in[k] ? -1 : place_of(w, node->from[k]);
    return i < 0 ? node->in[k] : w->result[i];
}

/* Results that the recording holds: of forward calls, and as operands of later nodes. */
static void find_results(dlsh_nodewalk *w) {
    dl_recorded c;
    for (long i = 0; i < dl_recording_count(); i++) {
        int at = dl_recording_at(i, &c) || c.gradient || c.rule || !c.nout ? -1 : place_of(w, c.seq);
        if (at >= 0 && !w->result[at]) w->result[at] = dl_ref(c.out[0]);
    }
    for (int i = 0; i < w->n; i++)
        for (int k = 0; !dl_recording_at(w->call[i], &c) && k < c.nin; k++) {
            int at = c.in[k] ? place_of(w, c.from[k]) : -1;
            if (at >= 0 && !w->result[at]) w->result[at] = dl_ref(c.in[k]);
        }
}

/* A node run again, from operands that are known. */
static dl_tensor *run_again(const dlsh_nodewalk *w, const dl_recorded *c) {
    dl_tensor *in[32], *made[8] = {NULL};
    int n = 0;
    if (!c->redo || c->nin > 32) return NULL;
    for (int k = 0; k < c->nin; k++)
        if (!(in[k] = dlsh_nodewalk_operand(w, c, k))) return NULL;
    DLSH_SCOPED_GRAD_MODE(0);
    if (dl_op_call(c->op, in, c->nin, c->attrs, made, &n)) dl_error_clear();
    for (int i = 1; i < n; i++) dl_unref(made[i]);
    return made[0];
}

/* Oldest first, so that operands are there. */
static dl_status fill_results(dlsh_nodewalk *w) {
    dl_recorded c;
    w->result = calloc((size_t)w->n + 1, sizeof *w->result);
    if (!w->result) return dlsh_no_memory("results");
    find_results(w);
    dl_nan_policy policy = dl_nan_policy_get();
    dl_nan_policy_set(DL_NAN_OFF);
    for (int i = w->n - 1; i >= 0; i--)
        if (!w->result[i] && !dl_recording_at(w->call[i], &c)) w->result[i] = run_again(w, &c);
    dl_nan_policy_set(policy);
    return DL_OK;
}

dl_status dlsh_nodewalk_begin(dlsh_nodewalk *w, dl_tensor *loss, dl_trainer *t) {
    *w = (dlsh_nodewalk){.recording = dl_recording_set(1)};
    long first = dl_recording_count();
    dl_status st = find_leaves(w, loss);
    if (!st) st = t ? dl_trainer_backward(t) : dl_backward(loss, NULL, 1, 0);
    dl_recording_set(0);
    if (!st) st = find_calls(w, first);
    if (!st) st = fill_results(w);
    for (int i = 0; !st && i < w->nleaves; i++) {
        dl_tensor *g = dl_grad(w->leaves[i].t);
        w->leaves[i].after = g ? dl_ref(g) : NULL;
        /* a gradient that was added to in place keeps its memory: the walk needs both values */
        DLSH_SCOPED_GRAD_MODE(0);
        if (g && w->leaves[i].before && !(dl_unref(w->leaves[i].after), w->leaves[i].after = dl_clone(g)))
            st = dl_failed();
    }
    dlsh_nodewalk_go(w, st ? 2 * w->n : 0);
    if (st) dlsh_nodewalk_end(w);
    return st;
}

const char *dlsh_nodewalk_name(dlsh_session *s, const dl_recorded *node, int k) {
    const char *own = node->in[k] ? dl_tensor_name(node->in[k]) : "";
    for (int i = 0; node->in[k] && i < dlsh_global_count(s); i++) {
        const dlsh_value *v;
        const char *name = dlsh_global_at(s, i, &v);
        if (!v || v->type != DLSH_TENSOR || !strcmp(name, "_")) continue;
        if (dl_data(v->as.tensor) == dl_data(node->in[k]) && dl_numel(v->as.tensor) == dl_numel(node->in[k]))
            return name;
    }
    return own;
}

const dlsh_walk_leaf *dlsh_nodewalk_leaf(const dlsh_nodewalk *w, const dl_recorded *node, int k, int *parts) {
    const dlsh_walk_leaf *found = NULL;
    dl_recorded c;
    *parts = 0;
    for (int i = 0; i < w->nleaves && !found; i++)
        if (is_leaf(node, k, &w->leaves[i])) found = &w->leaves[i];
    const int here = w->at - w->n;
    for (int i = 0; found && i <= here && i < w->n; i++)
        for (int j = 0; !dl_recording_at(w->call[i], &c) && j < (i == here ? k + 1 : c.nin); j++)
            *parts += is_leaf(&c, j, found);
    return found;
}

void dlsh_nodewalk_end(dlsh_nodewalk *w) {
    for (int i = 0; i < w->nleaves; i++) {
        dl_unref(w->leaves[i].t);
        dl_unref(w->leaves[i].before);
        dl_unref(w->leaves[i].after);
    }
    free(w->leaves);
    for (int i = 0; w->result && i < w->n; i++) dl_unref(w->result[i]);
    free(w->result);
    free(w->call);
    free(w->seq);
    if (w->recording)
        dl_recording_set(1);
    else
        dl_recording_clear();
    *w = (dlsh_nodewalk){0};
}
