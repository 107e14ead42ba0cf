/* Times of kernels: each is run between two marks of its device, or two readings of the host's clock, and the times are
 * read when all is done. */
#include "core/op_times.h"

#include <stdlib.h>
#include <string.h>

#include "autograd/layer_mark.h"
#include "autograd/nonfinite.h"
#include "autograd/tape.h"
#include "core/device/device.h"
#include "core/list.h"
#include "core/mode.h"
#include "core/scope.h"

typedef struct timed {
    dl_op_time row; /* of one call */
    int device;
    void *from, *to; /* marks */
} timed;

struct dl_times {
    timed *call;
    long n, cap;
    int depth; /* kernels that run kernels count as one */
    double began;
    int device; /* of the first mark; 0: none */
    void *first;
};

__thread struct dl_times *dl_timer;

/* The backend of a device that has marks; NULL. */
static const dl_backend *marker(int device, int *index) {
    const dl_backend *b = device ? dl_backend_of(device, index) : NULL;
    return b && b->mark ? b : NULL;
}

static void *mark(int device) {
    int index;
    void *m = NULL;
    const dl_backend *b = marker(device, &index);
    if (b && b->mark(index, &m) != DL_OK) dl_error_clear();
    return m;
}

static void unmark(int device, void *m) {
    int index;
    const dl_backend *b = m ? marker(device, &index) : NULL;
    if (b) b->unmark(index, m);
}

static double between(int device, void *from, void *to) {
    int index;
    double seconds = 0;
    const dl_backend *b = from && to ? marker(device, &index) : NULL;
    if (b && b->between(index, from, to, &seconds) != DL_OK) dl_error_clear();
    return seconds;
}

/* Bytes of the elements of a view, each once. */
static double bytes_of(const dl_tensor *t) {
    double n = t ? dl_dtype_size((dl_dtype)t->dtype) : 0;
    for (int i = 0; t && i < t->ndim; i++)
        if (t->stride[i] || !t->shape[i]) n *= (double)t->shape[i];
    return n;
}

static dl_op_time work_of(const dl_call *c) {
    const dl_node *rule = dl_nonfinite_rule_get();
    const dl_layer_mark *layer = rule ? rule->layer : dl_layer_running;
    dl_op_time r = {.op = c->op->name, .layer = layer ? layer->path : "", .backward = rule != NULL, .calls = 1};
    for (int i = 0; i < c->nin; i++) r.bytes += bytes_of(c->in[i]);
    for (int i = 0; i < c->nout; i++) r.bytes += bytes_of(c->out[i]);
    r.flops = c->op->flops ? c->op->flops(c) : c->nout && c->out[0] ? (double)c->out[0]->numel : 0;
    return r;
}

/* The gradients that came in, and what was saved. */
static dl_op_time gradient_work_of(const dl_back *b) {
    const dl_layer_mark *layer = b->node->layer;
    dl_op_time r = {.op = b->op->name, .layer = layer ? layer->path : "", .backward = 1, .calls = 1};
    for (int i = 0; i < b->nout; i++) r.bytes += bytes_of(b->g[i]);
    for (int i = 0; i < b->node->nsaved; i++) r.bytes += bytes_of(b->node->saved[i].t);
    return r;
}

/* FLOPs of the op's forward pass, by the shapes that its node knows. */
static double forward_flops(const dl_back *b) {
    dl_tensor shape[16], *in[16], *out[16];
    dl_storage nowhere = {0};
    dl_call c = {.op = b->op, .in = in, .out = out, .nin = b->nin, .nout = b->nout, .attr = b->attr};
    if (!b->op->flops || b->nin + b->nout > 16) return 0;
    memset(shape, 0, sizeof shape);
    for (int i = 0; i < b->nin + b->nout; i++) {
        const dl_meta *m = &b->node->meta[i];
        dl_tensor *t = &shape[i];
        t->st = &nowhere;
        t->ndim = m->ndim, t->dtype = m->dtype, t->numel = 1;
        memcpy(t->shape, m->shape, sizeof t->shape);
        for (int k = 0; k < m->ndim; k++) t->numel *= m->shape[k];
        dl_strides_contiguous(t->ndim, t->shape, t->stride);
        *(i < b->nin ? &in[i] : &out[i - b->nin]) = t;
    }
    DL_SCOPED_ERROR;
    return b->op->flops(&c);
}

/* Those that go on. The gradient of each operand that is a matrix takes a product like that of the forward pass. */
static void add_gradients(const dl_back *b, dl_op_time *r) {
    const double product = forward_flops(b);
    for (int i = 0; i < b->nin; i++) {
        r->bytes += bytes_of(b->gin[i]);
        if (b->gin[i]) r->flops += product > 0 && b->gin[i]->ndim > 1 ? product : (double)b->gin[i]->numel;
    }
}

/* A kernel between two marks. */
static timed begin(struct dl_times *x, int device) {
    timed t = {.device = device, .from = mark(device)};
    if (!x->first && t.from) x->first = mark(x->device = device);
    x->depth++;
    t.row.seconds = -dl_seconds();
    return t;
}

static void end(struct dl_times *x, timed *t, const dl_op_time *row) {
    const double seconds = t->row.seconds + dl_seconds();
    t->row = *row, t->row.seconds = seconds;
    x->depth--;
    if (t->from) t->to = mark(t->device);
    if (DL_LIST_ROOM(x->call, x->n, x->cap) == DL_OK)
        x->call[x->n++] = *t;
    else
        unmark(t->device, t->from), unmark(t->device, t->to);
}

dl_status dl_times_run(const dl_kernel *k, dl_call *c) {
    struct dl_times *x = dl_timer;
    if (x->depth || dl_deferred_get()) return k->run(c);
    timed t = begin(x, c->device);
    dl_status st = k->run(c);
    const dl_op_time row = work_of(c);
    end(x, &t, &row);
    return st;
}

dl_status dl_times_run_fused(const dl_kernel *k, dl_back *b) {
    struct dl_times *x = dl_timer;
    if (x->depth || dl_deferred_get()) return k->fused_grad(b);
    dl_op_time row = gradient_work_of(b);
    timed t = begin(x, dl_back_device(b));
    dl_status st = k->fused_grad(b);
    add_gradients(b, &row);
    end(x, &t, &row);
    return st;
}

/* ---------------------------------------------------------------- begin and end */

dl_status dl_op_times_begin(void) {
    if (dl_timer) return dl_fail(DL_ERR_STATE, "times are being taken already");
    if (!(dl_timer = calloc(1, sizeof *dl_timer))) return dl_fail(DL_ERR_MEMORY, "no memory for times");
    dl_timer->began = dl_seconds();
    return DL_OK;
}

static bool same_row(const dl_op_time *a, const dl_op_time *b) {
    return a->op == b->op && a->backward == b->backward && !strcmp(a->layer, b->layer);
}

static int longest_first(const void *a, const void *b) {
    const double x = ((const dl_op_time *)a)->seconds, y = ((const dl_op_time *)b)->seconds;
    return x < y ? 1 : -(x > y);
}

/* Adds up the calls of each row. */
static dl_op_time *sum_up(struct dl_times *x, long *n) {
    dl_op_time *rows = calloc((size_t)x->n + 1, sizeof *rows);
    *n = 0;
    for (long i = 0; rows && i < x->n; i++) {
        timed *t = &x->call[i];
        long k = 0;
        if (t->to) t->row.seconds = between(t->device, t->from, t->to);
        while (k < *n && !same_row(&rows[k], &t->row)) k++;
        dl_op_time *r = &rows[k];
        if (k == *n) rows[(*n)++] = (dl_op_time){.op = t->row.op, .layer = t->row.layer, .backward = t->row.backward};
        r->calls++, r->seconds += t->row.seconds, r->flops += t->row.flops, r->bytes += t->row.bytes;
    }
    if (rows) qsort(rows, (size_t)*n, sizeof *rows, longest_first);
    return rows;
}

dl_status dl_op_times_end(dl_op_time **rows, long *n, double *wall) {
    struct dl_times *x = dl_timer;
    if (!x) return dl_fail(DL_ERR_STATE, "no times are being taken");
    dl_timer = NULL;
    void *last = x->first ? mark(x->device) : NULL;
    if (x->first) dl_device_synchronize(x->device);
    if (wall) *wall = last ? between(x->device, x->first, last) : dl_seconds() - x->began;
    if (rows) *rows = sum_up(x, n);
    for (long i = 0; i < x->n; i++)
        unmark(x->call[i].device, x->call[i].from), unmark(x->call[i].device, x->call[i].to);
    unmark(x->device, x->first), unmark(x->device, last);
    free(x->call);
    free(x);
    return rows && !*rows ? dl_fail(DL_ERR_MEMORY, "no memory for times") : DL_OK;
}
