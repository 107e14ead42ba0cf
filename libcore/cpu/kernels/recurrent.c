/* Kernel of recurrent layers and its fused gradient. Of each layer and direction the inputs of all steps are one
 * product of matrices; each step adds the product of the state and runs the cells, a task for each sequence. */
#include "cpu/kernels/recurrent.h"
#include "autograd/tape.h"
#include "cpu/runtime/gemm.h"
#include "cpu/runtime/iter.h"
#include "ops/rules/recurrent.h"

#include <stdlib.h>
#include <string.h>

/* Operands and results of the layers in f32 or f64, contiguous; NULL: absent. */
typedef struct net {
    dl_recurrent_sizes r;
    dl_dtype t;
    long es; /* bytes of an element */
    const dl_cell_loops *f;
    const long *lengths;
    char *x, *hx, *cx, **param;
    char *out, *h, *c;
    char *reserve;
    char *zeros; /* `hidden` of them */
} net;

/* One direction of a layer, at step t. */
typedef struct job {
    const net *n;
    int part, direction;
    const dl_cell_row *row; /* what is the same for all sequences */
    long t;
    char *gates, *extra, *y; /* of this step; y has rows of all directions */
    const char *before;      /* states before the step, rows `before_step` elements apart */
    long before_step;
    char *state;                                     /* with lengths: the states h, carried over the padding */
    char *part_h, *d_gates, *d_hidden, *g, *dh, *dc; /* as in dl_cell_row */
} job;

/* ---------------------------------------------------------------- the reserve */

static long steps_rows(const dl_recurrent_sizes *r) { return r->steps * r->batch; }
static long gates_of(const dl_recurrent_sizes *r) { return r->gates * r->hidden; }
static bool has_extra(const dl_recurrent_sizes *r) { return r->cell == DL_CELL_LSTM || r->cell == DL_CELL_GRU; }
static long part_size(const dl_recurrent_sizes *r) { return steps_rows(r) * (gates_of(r) + has_extra(r) * r->hidden); }
static long width(const dl_recurrent_sizes *r) { return r->directions * r->hidden; }

/* Of each layer and direction the gates, then `extra` (dl_cell_row); behind these the results of the inner layers. */
static long reserve_size(const dl_recurrent_sizes *r) {
    return dl_recurrent_parts(r) * part_size(r) + (r->layers - 1) * steps_rows(r) * width(r);
}
static char *gates_at(const net *n, int part, long t) {
    return n->reserve + (part * part_size(&n->r) + t * n->r.batch * gates_of(&n->r)) * n->es;
}
static char *extra_at(const net *n, int part, long t) {
    return gates_at(n, part, n->r.steps) + t * n->r.batch * n->r.hidden * n->es;
}
/* The result of a layer at step t. */
static char *result_at(const net *n, int layer, long t) {
    long inner = dl_recurrent_parts(&n->r) * part_size(&n->r) + layer * steps_rows(&n->r) * width(&n->r);
    char *from = layer == n->r.layers - 1 ? n->out : n->reserve + inner * n->es;
    return from + t * n->r.batch * width(&n->r) * n->es;
}
static char *param(const net *n, int layer, int direction, int k) {
    return k < n->r.each ? n->param[(layer * n->r.directions + direction) * n->r.each + k] : NULL;
}
static long step_at(const net *n, int direction, long i) { return direction ? n->r.steps - 1 - i : i; }

/* The state of part `part` that a run starts with: a row a sequence, or the zeros for all. */
static const char *start(const net *n, const char *states, int part, long *step) {
    *step = states ? n->r.hidden : 0;
    return states ? states + part * n->r.batch * n->r.hidden * n->es : n->zeros;
}

/* Cells cost some 32 simple elements in f32, ten times as much in f64. */
static int threads_of(const net *n) {
    return dl_cpu_threads(n->r.batch * n->r.hidden * (has_extra(&n->r) ? 32 : 8) * (n->t == DL_F64 ? 10 : 1));
}

static void clear(const net *n, void *p, long elements) { dl_cpu_clear(p, (size_t)(elements * n->es)); }

/* ---------------------------------------------------------------- forward */

static bool is_padding(const job *j, long i) { return j->n->lengths && j->t >= j->n->lengths[i]; }

static void step_row(void *arg, long i) {
    const job *j = arg;
    const net *n = j->n;
    long h = n->r.hidden, row = h * n->es;
    char *y = j->y + (i * width(&n->r) + j->direction * h) * n->es, *extra = j->extra + i * row;
    const char *before = j->before + i * j->before_step * n->es;
    if (is_padding(j, i)) {
        memset(y, 0, (size_t)row);
        if (n->r.cell == DL_CELL_LSTM) memcpy(extra, before, (size_t)row);
        return;
    }
    dl_cell_row r = *j->row;
    r.gates = j->gates + i * gates_of(&n->r) * n->es, r.before = before, r.extra = extra, r.y = y;
    if (j->part_h) r.part = j->part_h + i * gates_of(&n->r) * n->es;
    n->f->step[n->r.cell](&r);
    if (j->state) memcpy(j->state + i * row, y, (size_t)row);
}

/* bias_ih + bias_hh; the bias_hh of a GRU's n stays apart. */
static void joined_bias(const net *n, const char *ih, const char *hh, char *to) {
    long rows = gates_of(&n->r), both = n->r.cell == DL_CELL_GRU ? 2 * n->r.hidden : rows;
    for (long i = 0; i < rows; i++)
        dl_store_f64(to + i * n->es, n->t,
                     dl_load_f64(ih + i * n->es, n->t) + (i < both ? dl_load_f64(hh + i * n->es, n->t) : 0));
}

/* The inputs' part of the gates of all steps. */
static dl_status input_gates(const net *n, int layer, int direction, const char *x, char *gates, char *bias) {
    long rows = steps_rows(&n->r), cols = gates_of(&n->r), in = dl_recurrent_input(&n->r, layer);
    char *ih = param(n, layer, direction, 2), *hh = param(n, layer, direction, 3);
    if (ih) {
        joined_bias(n, ih, hh, bias);
        dl_cpu_copy_strided(2, (long[]){rows, cols}, gates, n->t, (long[]){cols, 1}, bias, n->t, (long[]){0, 1});
    }
    dl_mat w = {param(n, layer, direction, 0), in, 1};
    return dl_cpu_gemm(n->t, rows, cols, in, (dl_mat){(char *)x, in, 1}, dl_mat_transposed(w), (dl_mat){gates, cols, 1},
                       ih != NULL);
}

/* Where a run of one direction keeps what lasts for a step, and the transposed weight of the state. */
typedef struct scratch {
    char *state, *part, *bias, *weight;
} scratch;

/* Products of a step so small that one thread computes them, whose right operand lies in whole vectors: the loops for
 * small products take it as it is, where BLAS would pack it in each step. */
static bool small_products(const net *n, long rows, long cols) {
    return cols * n->es % 64 == 0 && n->r.batch * rows * cols < 2l * DL_ITER_GRAIN * DL_ITER_MACS;
}
static dl_status step_product(const net *n, long k, long cols, dl_mat a, dl_mat b, dl_mat to, bool add) {
    if (b.cs == 1 && small_products(n, k, cols) &&
        (n->t == DL_F32 ? DL_SIMD_PICK(dl_tiny_gemm_f32)(n->r.batch, cols, k, a, b, to, add)
                        : DL_SIMD_PICK(dl_tiny_gemm_f64)(n->r.batch, cols, k, a, b, to, add)))
        return DL_OK;
    return dl_cpu_gemm(n->t, n->r.batch, cols, k, a, b, to, add);
}
/* The transposed weight of the state, dense where products are small. */
static dl_mat state_weight(const net *n, int layer, int direction, char *room) {
    const long h = n->r.hidden, cols = gates_of(&n->r);
    dl_mat w = dl_mat_transposed((dl_mat){param(n, layer, direction, 1), h, 1});
    if (n->r.steps < 2 || !small_products(n, h, cols)) return w;
    dl_cpu_copy_strided(2, (long[]){h, cols}, room, n->t, (long[]){cols, 1}, w.p, n->t, (long[]){w.rs, w.cs});
    return (dl_mat){room, cols, 1};
}

static dl_status run_direction(const net *n, int layer, int direction, const char *x, const scratch *s) {
    const dl_recurrent_sizes *r = &n->r;
    int part = layer * r->directions + direction;
    bool gru = r->cell == DL_CELL_GRU, lstm = r->cell == DL_CELL_LSTM;
    long cols = gates_of(r), hs, cs;
    const char *h = start(n, n->hx, part, &hs), *c = start(n, n->cx, part, &cs);
    DL_TRY(input_gates(n, layer, direction, x, gates_at(n, part, 0), s->bias));
    char *hh = param(n, layer, direction, 3);
    dl_cell_row row = {.hidden = r->hidden, .bias = hh ? hh + 2 * r->hidden * n->es : NULL};
    const dl_mat w = state_weight(n, layer, direction, s->weight);
    job j = {.n = n, .part = part, .direction = direction, .row = &row, .state = n->lengths ? s->state : NULL};
    if (gru) j.part_h = s->part;
    for (long i = 0; i < r->steps; i++) {
        if (j.state && !i)
            dl_cpu_copy_strided(2, (long[]){r->batch, r->hidden}, j.state, n->t, (long[]){r->hidden, 1}, h, n->t,
                                (long[]){hs, 1});
        if (j.state) h = j.state, hs = r->hidden;
        j.t = step_at(n, direction, i);
        j.gates = gates_at(n, part, j.t), j.extra = extra_at(n, part, j.t), j.y = result_at(n, layer, j.t);
        dl_mat to = {gru ? s->part : j.gates, cols, 1};
        if (h == n->zeros && gru)
            clear(n, s->part, r->batch * cols);
        else if (h != n->zeros)
            DL_TRY(step_product(n, r->hidden, cols, (dl_mat){(char *)h, hs, 1}, w, to, !gru));
        j.before = lstm ? c : h, j.before_step = lstm ? cs : hs;
        dl_cpu_for(r->batch, threads_of(n), step_row, &j);
        DL_TRY(dl_interrupt_check());
        h = j.y + direction * r->hidden * n->es, hs = width(r);
        c = j.extra, cs = r->hidden;
    }
    if (j.state) h = j.state, hs = r->hidden;
    long size = r->batch * r->hidden * n->es;
    dl_cpu_copy_strided(2, (long[]){r->batch, r->hidden}, n->h + part * size, n->t, (long[]){r->hidden, 1}, h, n->t,
                        (long[]){hs, 1});
    if (lstm) memcpy(n->c + part * size, c, (size_t)size);
    return DL_OK;
}

static dl_status run_layers(const net *n, const scratch *s) {
    const char *x = n->x;
    for (int l = 0; l < n->r.layers; l++) {
        for (int d = 0; d < n->r.directions; d++) DL_TRY(run_direction(n, l, d, x, s));
        x = result_at(n, l, 0);
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- operands */

/* Tensors that live as long as a call. */
typedef struct pool {
    dl_tensor *t[24], **many;
    int n, nmany;
} pool;

static void drop_pool(pool *p) {
    for (int i = 0; i < p->n; i++) dl_unref(p->t[i]);
    for (int i = 0; i < p->nmany; i++) dl_unref(p->many[i]);
    free(p->many);
}

static char *room(pool *p, dl_dtype t, long n) {
    dl_tensor *a = dl_tensor_empty(1, &n, t, 0);
    if (a) p->t[p->n++] = a;
    return a ? dl_ptr(a) : NULL;
}

/* t in the dtype, contiguous: itself or a copy. A new reference. */
static dl_tensor *usable(dl_tensor *t, dl_dtype dtype) {
    if (t->dtype == (int8_t)dtype) return dl_cpu_contiguous(t);
    dl_tensor *own = dl_tensor_empty(t->ndim, t->shape, dtype, 0);
    if (own) dl_cpu_copy(own, t);
    return own;
}

/* Fills n from the inputs; those of 16 bits are computed in f32. */
static dl_status operands(net *n, pool *p, dl_tensor *const *in, int nin) {
    n->t = in[0]->dtype == DL_F64 ? DL_F64 : DL_F32, n->es = dl_dtype_size(n->t);
    n->f = &DL_SIMD_PICK(dl_cells)[n->t == DL_F64];
    p->many = calloc((size_t)nin, sizeof *p->many);
    char **at = (char **)room(p, DL_I64, nin);
    if (!p->many || !at) return dl_fail(DL_ERR_MEMORY, "no memory for the operands of a recurrent layer");
    for (p->nmany = 0; p->nmany < nin; p->nmany++) {
        int i = p->nmany;
        at[i] = NULL;
        if (!in[i]) continue;
        p->many[i] = usable(in[i], i == DL_IN_RECURRENT_LENGTHS ? DL_I64 : n->t);
        if (!p->many[i]) return dl_failed();
        at[i] = dl_ptr(p->many[i]);
    }
    n->x = at[DL_IN_RECURRENT_INPUT], n->hx = at[DL_IN_RECURRENT_HX], n->cx = at[DL_IN_RECURRENT_CX];
    n->lengths = (const long *)at[DL_IN_RECURRENT_LENGTHS], n->param = at + DL_IN_RECURRENT_PARAMS;
    if (!(n->zeros = room(p, n->t, n->r.hidden))) return dl_failed();
    clear(n, n->zeros, n->r.hidden);
    return n->lengths ? dl_recurrent_check_lengths(&n->r, n->lengths) : DL_OK;
}

/* An output in the dtype that is computed in: itself or a copy to be, in the pool. */
static dl_tensor *computed(const net *n, pool *p, dl_tensor *out) {
    if (!out || out->dtype == (int8_t)n->t) return out;
    dl_tensor *own = dl_tensor_empty(out->ndim, out->shape, n->t, 0);
    return own ? p->t[p->n++] = own : NULL;
}

static dl_status run_all(dl_call *c, net *n, pool *p) {
    dl_tensor *own[DL_OUT_RECURRENT_RESERVE] = {NULL};
    const dl_recurrent_sizes *r = &n->r;
    DL_TRY(operands(n, p, c->in, c->nin));
    for (int i = 0; i < DL_OUT_RECURRENT_RESERVE; i++)
        if (c->out[i] && !(own[i] = computed(n, p, c->out[i]))) return dl_failed();
    n->out = dl_ptr(own[DL_OUT_RECURRENT_OUT]), n->h = dl_ptr(own[DL_OUT_RECURRENT_H]);
    if (own[DL_OUT_RECURRENT_C]) n->c = dl_ptr(own[DL_OUT_RECURRENT_C]);
    scratch s = {room(p, n->t, n->lengths ? r->batch * r->hidden : 0),
                 room(p, n->t, r->cell == DL_CELL_GRU ? r->batch * gates_of(r) : 0), room(p, n->t, gates_of(r)),
                 room(p, n->t, r->hidden * gates_of(r))};
    n->reserve = room(p, n->t, reserve_size(r));
    if (!s.state || !s.part || !s.bias || !s.weight || !n->reserve) return dl_failed();
    dl_tensor *reserve = p->t[p->n - 1];
    if (c->out[DL_OUT_RECURRENT_OUT]->numel) DL_TRY(run_layers(n, &s));
    for (int i = 0; i < DL_OUT_RECURRENT_RESERVE; i++)
        if (own[i] != c->out[i]) dl_cpu_copy(c->out[i], own[i]);
    if (dl_recurrent_keeps(c)) c->out[DL_OUT_RECURRENT_RESERVE] = dl_ref(reserve);
    return DL_OK;
}

static dl_status recurrent_run(dl_call *c) {
    net n = {0};
    pool p = {.n = 0};
    dl_status s = dl_recurrent_of(c, &n.r);
    if (s == DL_OK) s = run_all(c, &n, &p);
    drop_pool(&p);
    return s;
}

/* ---------------------------------------------------------------- gradient */

/* Memory of the gradient. */
typedef struct back {
    net n;
    dl_back *b;
    char *g;                  /* of the results of the layer at hand; NULL: none */
    char *gh, *gc;            /* of the last states; NULL: none */
    char *dx, *next;          /* of its input, and the memory for that of the layer before */
    char *d_gates, *d_hidden; /* of all steps */
    char *before;             /* the states h before each step */
    char *dh, *dc;            /* one step */
    dl_tensor **given;        /* the gradients of the inputs, as they are made; NULL where none is wanted */
} back;

static void back_row(void *arg, long i) {
    const job *j = arg;
    const net *n = j->n;
    long h = n->r.hidden, cols = gates_of(&n->r) * n->es;
    dl_cell_row r = *j->row;
    r.d_gates = j->d_gates + i * cols, r.d_hidden = j->d_hidden + i * cols;
    if (is_padding(j, i)) {
        memset(r.d_gates, 0, (size_t)cols);
        memset(r.d_hidden, 0, (size_t)cols);
        return;
    }
    r.gates = j->gates + i * cols, r.extra = j->extra + i * h * n->es;
    r.before = j->before + i * j->before_step * n->es;
    r.g = j->g ? j->g + (i * width(&n->r) + j->direction * h) * n->es : NULL;
    r.dh = j->dh + i * h * n->es, r.dc = j->dc + i * h * n->es;
    n->f->back[n->r.cell](&r);
}

/* The states h before each step, side by side. A sequence that runs from its end starts where its padding begins. */
static void gather_before(const back *k, int layer, int direction) {
    const net *n = &k->n;
    const dl_recurrent_sizes *r = &n->r;
    long hs, row = r->hidden * n->es;
    const char *hx = start(n, n->hx, layer * r->directions + direction, &hs);
    for (long i = 0; i < r->steps; i++) {
        long t = step_at(n, direction, i);
        char *to = k->before + t * r->batch * row;
        const char *y = i ? result_at(n, layer, step_at(n, direction, i - 1)) + direction * row : NULL;
        for (long s = 0; s < r->batch; s++) {
            bool first = !i || (direction && n->lengths && t == n->lengths[s] - 1);
            memcpy(to + s * row, first ? hx + s * hs * n->es : y + s * width(r) * n->es, (size_t)row);
        }
    }
}

/* to[rows,cols] = g, or zeros. */
static void take_state(const net *n, char *to, const char *g, int part) {
    long size = n->r.batch * n->r.hidden;
    if (g)
        memcpy(to, g + part * size * n->es, (size_t)(size * n->es));
    else
        clear(n, to, size);
}

/* From the last step to the first: d_gates and d_hidden of all steps, dh and dc of the first states. */
static dl_status back_steps(const back *k, int layer, int direction) {
    const net *n = &k->n;
    const dl_recurrent_sizes *r = &n->r;
    int part = layer * r->directions + direction;
    bool lstm = r->cell == DL_CELL_LSTM;
    long cols = gates_of(r), cs;
    const char *cx = start(n, n->cx, part, &cs);
    dl_cell_row row = {.hidden = r->hidden};
    job j = {.n = n, .part = part, .direction = direction, .row = &row, .dh = k->dh, .dc = k->dc};
    take_state(n, k->dh, k->gh, part);
    take_state(n, k->dc, k->gc, part);
    gather_before(k, layer, direction);
    for (long i = r->steps - 1; i >= 0; i--) {
        j.t = step_at(n, direction, i);
        long at = j.t * r->batch;
        j.gates = gates_at(n, part, j.t), j.extra = extra_at(n, part, j.t);
        j.g = k->g ? k->g + at * width(r) * n->es : NULL;
        j.before = k->before + at * r->hidden * n->es, j.before_step = r->hidden;
        if (lstm && i) j.before = extra_at(n, part, step_at(n, direction, i - 1));
        if (lstm && !i) j.before = cx, j.before_step = cs;
        j.d_gates = k->d_gates + at * cols * n->es, j.d_hidden = k->d_hidden + at * cols * n->es;
        dl_cpu_for(r->batch, threads_of(n), back_row, &j);
        DL_TRY(step_product(n, cols, r->hidden, (dl_mat){j.d_hidden, cols, 1},
                            (dl_mat){param(n, layer, direction, 1), r->hidden, 1}, (dl_mat){k->dh, r->hidden, 1},
                            true));
        DL_TRY(dl_interrupt_check());
    }
    return DL_OK;
}

/* Sums of the columns of g [rows,cols], rows in order, in f64. */
static void column_sums(const net *n, const char *g, long cols, char *to) {
    enum { BAND = 64 };
    for (long c0 = 0; c0 < cols; c0 += BAND) {
        double sum[BAND] = {0};
        long nc = cols - c0 < BAND ? cols - c0 : BAND, rows = steps_rows(&n->r);
        for (long i = 0; i < rows; i++) {
            const float *f = (const float *)g + i * cols + c0;
            const double *d = (const double *)g + i * cols + c0;
            for (long c = 0; n->t == DL_F32 && c < nc; c++) sum[c] += (double)f[c];
            for (long c = 0; n->t == DL_F64 && c < nc; c++) sum[c] += d[c];
        }
        for (long c = 0; c < nc; c++) dl_store_f64(to + (c0 + c) * n->es, n->t, sum[c]);
    }
}

/* g' x for g [rows,cols] and x [rows,size], into the gradient of input i, where it is wanted. */
static dl_status give_product(const back *k, int i, const char *g, const char *x, long size) {
    long cols = gates_of(&k->n.r);
    if (!k->given[i]) return DL_OK;
    return dl_cpu_gemm(k->n.t, cols, size, steps_rows(&k->n.r), (dl_mat){(char *)g, 1, cols},
                       (dl_mat){(char *)x, size, 1}, (dl_mat){dl_ptr(k->given[i]), size, 1}, false);
}

static void give_state(const back *k, int input, int part, const char *from) {
    long size = k->n.r.batch * k->n.r.hidden * k->n.es;
    if (k->given[input]) memcpy((char *)dl_ptr(k->given[input]) + part * size, from, (size_t)size);
}

static dl_status back_direction(const back *k, int layer, int direction) {
    const net *n = &k->n;
    const dl_recurrent_sizes *r = &n->r;
    int first = dl_recurrent_param(r, layer, direction, 0), part = layer * r->directions + direction;
    long cols = gates_of(r), in = dl_recurrent_input(r, layer);
    const char *x = layer ? result_at(n, layer - 1, 0) : n->x;
    DL_TRY(back_steps(k, layer, direction));
    if (k->dx)
        DL_TRY(dl_cpu_gemm(n->t, steps_rows(r), in, cols, (dl_mat){k->d_gates, cols, 1},
                           (dl_mat){param(n, layer, direction, 0), in, 1}, (dl_mat){k->dx, in, 1}, direction > 0));
    DL_TRY(give_product(k, first, k->d_gates, x, in));
    DL_TRY(give_product(k, first + 1, k->d_hidden, k->before, r->hidden));
    for (int i = 2; i < r->each; i++)
        if (k->given[first + i]) column_sums(n, i == 2 ? k->d_gates : k->d_hidden, cols, dl_ptr(k->given[first + i]));
    give_state(k, DL_IN_RECURRENT_HX, part, k->dh);
    give_state(k, DL_IN_RECURRENT_CX, part, k->dc);
    return DL_OK;
}

static dl_status back_layers(back *k, pool *p) {
    const dl_recurrent_sizes *r = &k->n.r;
    long inner = r->layers > 1 ? steps_rows(r) * width(r) : 0;
    char *side[2] = {room(p, k->n.t, inner), room(p, k->n.t, r->layers > 2 ? inner : 0)};
    if (!side[0] || !side[1]) return dl_failed();
    for (int l = r->layers - 1; l >= 0; l--) {
        dl_tensor *dx = k->given[DL_IN_RECURRENT_INPUT];
        k->dx = l ? side[l % 2 && r->layers > 2] : dx ? dl_ptr(dx) : NULL;
        for (int d = 0; d < r->directions; d++) DL_TRY(back_direction(k, l, d));
        k->g = k->dx;
    }
    return DL_OK;
}

/* A gradient that came in, as it is used; *at NULL: there is none. */
static dl_status incoming(back *k, pool *p, int i, char **at) {
    dl_tensor *g = k->b->g[i], *own = g ? usable(g, k->n.t) : NULL;
    *at = own ? dl_ptr(own) : NULL;
    if (own) p->t[p->n++] = own;
    return g && !own ? dl_failed() : DL_OK;
}

static bool wanted(const dl_back *b, int i) { return DL_NEED(i); }

static dl_status make_given(back *k) {
    for (int i = 0; i < k->b->nin; i++) {
        const dl_meta *m = dl_in_meta(k->b, i);
        if (!wanted(k->b, i) || !m->ndim || i == DL_IN_RECURRENT_LENGTHS) continue;
        if (!(k->given[i] = dl_tensor_empty(m->ndim, m->shape, k->n.t, 0))) return dl_failed();
    }
    return DL_OK;
}

static dl_status back_all(back *k, pool *p) {
    net *n = &k->n;
    const dl_recurrent_sizes *r = &n->r;
    dl_tensor *in[DL_MAX_IN], *out, *reserve;
    for (int i = 0; i < k->b->nin; i++) {
        in[i] = dl_in_meta(k->b, i)->ndim ? dl_saved_in(k->b, i) : NULL;
        if (dl_in_meta(k->b, i)->ndim && !in[i]) return dl_failed();
    }
    out = dl_saved_out(k->b, DL_OUT_RECURRENT_OUT), reserve = dl_saved_out(k->b, DL_OUT_RECURRENT_RESERVE);
    if (!out || !reserve) return dl_fail_null("the reserve of a recurrent layer");
    DL_TRY(operands(n, p, in, k->b->nin));
    if (!(out = usable(out, n->t))) return dl_failed();
    p->t[p->n++] = out;
    n->out = dl_ptr(out), n->reserve = dl_ptr(reserve);
    DL_TRY(incoming(k, p, DL_OUT_RECURRENT_OUT, &k->g));
    DL_TRY(incoming(k, p, DL_OUT_RECURRENT_H, &k->gh));
    DL_TRY(incoming(k, p, DL_OUT_RECURRENT_C, &k->gc));
    long rows = steps_rows(r), state = r->batch * r->hidden;
    k->d_gates = room(p, n->t, rows * gates_of(r));
    k->d_hidden = r->cell == DL_CELL_GRU ? room(p, n->t, rows * gates_of(r)) : k->d_gates;
    k->before = room(p, n->t, rows * r->hidden), k->dh = room(p, n->t, state), k->dc = room(p, n->t, state);
    if (!k->d_gates || !k->d_hidden || !k->before || !k->dh || !k->dc) return dl_failed();
    DL_TRY(make_given(k));
    return back_layers(k, p);
}

static dl_status recurrent_back(dl_back *b) {
    dl_tensor *given[DL_MAX_IN] = {NULL};
    back k = {.b = b, .given = given};
    pool p = {.n = 0};
    bool wide = b->wide;
    dl_recurrent_of_node(b, &k.n.r);
    b->wide = true;
    dl_status s = back_all(&k, &p);
    b->wide = wide;
    for (int i = 0; i < b->nin; i++) {
        if (s == DL_OK && given[i])
            s = dl_give(b, i, given[i]);
        else
            dl_unref(given[i]);
    }
    drop_pool(&p);
    return s;
}

const dl_kernel dl_cpu_recurrent = {.run = recurrent_run, .fused_grad = recurrent_back, .dtypes = DL_FLOATS};
