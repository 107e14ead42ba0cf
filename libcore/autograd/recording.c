/* The recording: a list of calls with their tensors, made while someone asks. */
#include "autograd/recording.h"
#include "autograd/nonfinite.h"
#include "autograd/tape.h"
#include "core/list.h"
#include "core/scope.h"

#include <stdlib.h>
#include <string.h>

/* A call; its tensors and numbers are one block. */
typedef struct entry {
    const dl_op *op;
    dl_aval *attr;
    dl_source src;
    const dl_layer_mark *layer;
    dl_composite composite;
    uint64_t seq, rule;
    bool gradient, redo;
    int nin, nout;
    dl_tensor **t; /* operands, results, the gradient that came in */
    unsigned long *from;
    unsigned char *needs;
    long *version; /* of the operands and results at the call */
} entry;

struct dl_calls {
    entry *entries;
    long n, cap;
};

__thread dl_calls *dl_recorder;
static _Thread_local dl_calls kept;

static void entry_free(entry *e) {
    for (int i = 0; e->t && i < e->nin + e->nout + 1; i++) dl_unref(e->t[i]);
    free(e->t);
    free(e->from);
    free(e->needs);
    free(e->version);
    free(e->attr);
    dl_op_unref(e->op);
}

static dl_tensor *header(dl_tensor *t) { return t ? dl_detach(t) : NULL; }

/* A new entry with room for its tensors; NULL: no memory. */
static entry *entry_new(const dl_op *op, const dl_aval *attr, int nin, int nout) {
    dl_calls *r = dl_recorder;
    if (DL_LIST_ROOM(r->entries, r->n, r->cap) != DL_OK) return NULL;
    entry *e = &r->entries[r->n];
    *e = (entry){.op = op, .nin = nin, .nout = nout};
    dl_op_ref(op);
    e->t = calloc((size_t)(nin + nout + 1), sizeof *e->t);
    e->from = calloc((size_t)nin + 1, sizeof *e->from);
    e->needs = calloc((size_t)nin + 1, 1);
    e->attr = calloc((size_t)op->nattr + 1, sizeof *e->attr);
    e->version = calloc((size_t)(nin + nout) + 1, sizeof *e->version);
    if (!e->t || !e->from || !e->needs || !e->attr || !e->version) return entry_free(e), NULL;
    if (op->nattr) memcpy(e->attr, attr, (size_t)op->nattr * sizeof *attr);
    r->n++;
    return e;
}

/* Notes what the tensors hold now. */
static void note_versions(entry *e) {
    for (int i = 0; i < e->nin + e->nout; i++) e->version[i] = e->t[i] ? dl_tensor_version(e->t[i]) : 0;
}

static bool changed(const entry *e) {
    for (int i = 0; i < e->nin + e->nout; i++)
        if (e->t[i] && dl_tensor_version(e->t[i]) != e->version[i]) return true;
    return false;
}

void dl_recording_add(const dl_call *c) {
    DL_SCOPED_ERROR;
    const dl_node *rule = dl_nonfinite_rule_get();
    entry *e = entry_new(c->op, c->attr, c->nin, c->nout);
    if (!e) {
        dl_recorder = NULL;
        return;
    }
    e->src = dl_source_get();
    e->layer = rule ? rule->layer : dl_layer_running;
    e->composite = rule ? rule->composite : dl_composite_running;
    e->rule = rule ? rule->seq : 0;
    e->redo = !c->op->mutates && !(c->op->flags & DL_F_RNG);
    for (int i = 0; i < c->nin; i++) {
        e->t[i] = header(c->in[i]);
        e->from[i] = c->in[i] && c->in[i]->node ? (unsigned long)c->in[i]->node->seq : 0;
        e->needs[i] = c->in[i] && dl_requires_grad(c->in[i]);
    }
    for (int i = 0; i < c->nout; i++) {
        e->t[c->nin + i] = header(c->out[i]);
        if (c->out[i] && c->out[i]->node) e->seq = c->out[i]->node->seq;
    }
    note_versions(e);
}

/* The forward call of a node, as far back as it was recorded. */
static const entry *forward_of(uint64_t seq) {
    for (long i = dl_recorder->n - 1; i >= 0; i--)
        if (dl_recorder->entries[i].seq == seq && !dl_recorder->entries[i].gradient) return &dl_recorder->entries[i];
    return NULL;
}

/* The operands: as recorded, else what the node has saved, and its leaves. */
static dl_tensor *operand(const dl_node *n, const entry *forward, int i) {
    if (forward && forward->t[i]) return dl_ref(forward->t[i]);
    for (int k = 0; k < n->nsaved; k++)
        if (n->saved[k].out == -1 - i && n->saved[k].t) return dl_ref(n->saved[k].t);
    return n->edge[i].leaf ? dl_detach(n->edge[i].leaf) : NULL;
}

void dl_recording_add_rule(const dl_back *b) {
    DL_SCOPED_ERROR;
    const dl_node *n = b->node;
    entry *e = entry_new(n->op, n->attr, n->nin, n->nin);
    if (!e) {
        dl_recorder = NULL;
        return;
    }
    const entry *forward = forward_of(n->seq);
    e->src = n->src;
    e->layer = n->layer;
    e->composite = n->composite;
    e->seq = e->rule = n->seq;
    e->gradient = true;
    e->redo = !n->op->mutates && !(n->op->flags & DL_F_RNG);
    for (int i = 0; i < n->nin; i++) {
        e->t[i] = operand(n, forward, i);
        e->t[n->nin + i] = header(b->gin[i]);
        e->from[i] = n->edge[i].node ? (unsigned long)n->edge[i].node->seq : 0;
    }
    e->t[2 * n->nin] = header(b->g[0]);
    note_versions(e);
}

int dl_recording_set(int on) {
    int had = dl_recorder != NULL;
    dl_recorder = on ? &kept : NULL;
    return had;
}

int dl_recording_get(void) { return dl_recorder != NULL; }

long dl_recording_count(void) { return kept.n; }

dl_status dl_recording_at(long i, dl_recorded *out) {
    if (i < 0 || i >= kept.n) return dl_fail(DL_ERR_INDEX, "call %ld of %ld recorded", i, kept.n);
    const entry *e = &kept.entries[i];
    *out = (dl_recorded){.op = e->op->name,
                         .file = e->src.file,
                         .line = e->src.line,
                         .layer = e->layer ? e->layer->path : "",
                         .layer_file = e->layer ? e->layer->src.file : "",
                         .layer_line = e->layer ? e->layer->src.line : 0,
                         .composite = e->composite.name,
                         .call = (unsigned long)e->composite.call,
                         .seq = (unsigned long)e->seq,
                         .rule = (unsigned long)e->rule,
                         .gradient = e->gradient,
                         .redo = e->redo,
                         .changed = changed(e),
                         .nin = e->nin,
                         .nout = e->nout,
                         .in = e->t,
                         .out = e->t + e->nin,
                         .grad = e->t[e->nin + e->nout],
                         .from = e->from,
                         .needs = e->needs};
    dl_attrs_text(out->attrs, sizeof out->attrs, e->op, e->attr);
    return DL_OK;
}

void dl_recording_clear(void) {
    for (long i = 0; i < kept.n; i++) entry_free(&kept.entries[i]);
    free(kept.entries);
    kept = (dl_calls){0};
}
