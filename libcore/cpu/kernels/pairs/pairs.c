/* Kernels of distances of pairs of rows, and of margins between labels and other classes; other devices compose these
 * rows. */
#include "cpu/kernels/pairs/pairs.h"
#include "core/scope.h"
#include "cpu/runtime/iter.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/view.h"
#include "ops/infer.h"
#include "ops/rules/loss.h"
#include "ops/rules/matmul.h"

#include <stdlib.h>
#include <string.h>

static const dl_pair_loops *loops_of(dl_dtype t) { return &DL_SIMD_PICK(dl_pair)[t == DL_F64]; }

/* ---- distances */

/* 16-bit numbers become f32 first: which of them is the largest difference, a rounded distance does not tell. */
enum { DISTANCES_OF = DL_BIT(DL_F32) | DL_BIT(DL_F64), VECTOR = 64, LANES_MOST = VECTOR / 4 };

/* [n, depth] numbers of type t with strides. */
typedef struct rows {
    dl_dtype t;
    const void *p;
    const long *stride;
} rows;

static void copy_rows(void *to, rows from, long n, long depth, long by_row, long by_column) {
    dl_cpu_copy_strided(2, (long[]){n, depth}, to, from.t, (long[]){by_row, by_column}, from.p, from.t, from.stride);
}

/* The rows with zeros up to whole vectors, and the columns of the others as rows. */
static dl_status lay_out(dl_pairs *j, rows x, rows y, void **room) {
    const long size = dl_dtype_size(x.t), spare = j->n + DL_PAIR_ROWS, others = j->others ? j->m : 0;
    j->row = (j->depth * size + VECTOR - 1) / VECTOR * VECTOR / size, j->wide = j->m + LANES_MOST;
    char *all = *room = calloc(1, (size_t)(((spare + others) * j->row + j->depth * j->wide) * size + VECTOR));
    if (!all) return dl_fail(DL_ERR_MEMORY, "no memory for %ld rows", j->n + others);
    char *beside = all + spare * j->row * size, *turned = beside + others * j->row * size;
    j->x = all, j->y = j->others ? beside : all, j->turned = turned;
    copy_rows(all, x, j->n, j->depth, j->row, 1);
    if (others) copy_rows(beside, y, j->m, j->depth, j->row, 1);
    copy_rows(turned, y, j->m, j->depth, 1, j->wide);
    return DL_OK;
}

static rows rows_of(const dl_tensor *x) { return (rows){(dl_dtype)x->dtype, dl_ptr(x), x->stride}; }

static dl_pairs pairs_of(const dl_tensor *x, double p) {
    dl_pairs j = {.p = p, .n = x->shape[0], .m = x->shape[0], .depth = x->shape[1]};
    j.tiles = (j.n + DL_PAIR_ROWS - 1) / DL_PAIR_ROWS;
    return j;
}

/* Long rows of tiles and short ones in turn, so that threads have as much to do. */
static void run_tile(void *arg, long i) {
    const dl_pairs *j = arg;
    loops_of(DL_F32)->distances(j, i % 2 ? j->tiles - 1 - i / 2 : i / 2);
}
static void run_tile_of_f64(void *arg, long i) {
    const dl_pairs *j = arg;
    loops_of(DL_F64)->distances(j, i % 2 ? j->tiles - 1 - i / 2 : i / 2);
}
static void run_row_back(void *arg, long i) { loops_of(DL_F32)->distances_back(arg, i); }
static void run_row_back_of_f64(void *arg, long i) { loops_of(DL_F64)->distances_back(arg, i); }

/* `count` distances. */
static dl_status run_tiles(dl_pairs *j, rows x, rows y, void *out, long count) {
    void *room = NULL;
    DL_TRY(lay_out(j, x, y, &room));
    j->out = out;
    dl_cpu_for(j->tiles, dl_cpu_threads(count * j->depth / 4), x.t == DL_F64 ? run_tile_of_f64 : run_tile, j);
    free(room);
    return DL_OK;
}

/* The gradient by x, of `count` distances d with the gradients g. */
static dl_status run_rows_back(dl_pairs *j, rows x, rows y, const void *d, const void *g, void *out, long count) {
    void *room = NULL;
    DL_TRY(lay_out(j, x, y, &room));
    j->out = out, j->d = d, j->g = g;
    dl_cpu_for(j->n, dl_cpu_threads(count * j->depth / 2), x.t == DL_F64 ? run_row_back_of_f64 : run_row_back, j);
    free(room);
    return DL_OK;
}

static dl_status pdist_run(dl_call *c) {
    dl_tensor *x = c->in[0];
    dl_pairs j = pairs_of(x, ATTR_F(c, PDIST_P));
    return j.n < 2 ? DL_OK : run_tiles(&j, rows_of(x), rows_of(x), dl_ptr(c->out[0]), c->out[0]->numel);
}

static dl_status pdist_back(dl_back *b) {
    dl_tensor *x = dl_saved_in(b, 0), *d = dl_saved_out(b, 0), *g = b->g[0];
    if (!x || !d) return dl_failed();
    dl_pairs j = pairs_of(x, ATTR_F(b, PDIST_P));
    dl_tensor *out = dl_zeros(x->shape, 2, x->dtype, 0), *dense = dl_tmp(b, dl_cpu_contiguous(g)),
              *lengths = dl_tmp(b, dl_cpu_contiguous(d));
    dl_status s = out && dense && lengths ? DL_OK : dl_failed();
    if (s == DL_OK && j.n > 1 && j.p != 0)
        s = run_rows_back(&j, rows_of(x), rows_of(x), dl_ptr(lengths), dl_ptr(dense), dl_ptr(out), d->numel);
    if (s == DL_OK) return dl_give(b, 0, out);
    dl_unref(out);
    return s;
}
DL_CPU_KERNEL(pdist, pdist_run, false, DISTANCES_OF, .fused_grad = pdist_back)

/* Matrix i of dense ones. */
static char *matrix(const dl_tensor *t, long i) {
    return (char *)dl_ptr(t) + i * t->shape[1] * t->shape[2] * (long)dl_esize(t);
}

static dl_pairs crossed(long n, long m, long depth, double p) {
    return (dl_pairs){
        .p = p, .others = true, .n = n, .m = m, .depth = depth, .tiles = (n + DL_PAIR_ROWS - 1) / DL_PAIR_ROWS};
}

static dl_status distances_run(dl_call *c) {
    const dl_tensor *x = c->in[0], *y = c->in[1], *out = c->out[0];
    const long stride[2] = {x->shape[2], 1};
    for (long i = 0; i < x->shape[0] && out->numel; i++) {
        dl_pairs j = crossed(x->shape[1], y->shape[1], x->shape[2], ATTR_F(c, ROW_DISTANCES_P));
        DL_TRY(run_tiles(&j, (rows){(dl_dtype)x->dtype, matrix(x, i), stride},
                         (rows){(dl_dtype)x->dtype, matrix(y, i), stride}, matrix(out, i), j.n * j.m));
    }
    return DL_OK;
}

/* The gradient by x, of distances d[b,i,j] of x[b,i] from y[b,j]; all are dense. */
static dl_status distances_by(dl_back *b, int which, dl_tensor *x, dl_tensor *y, dl_tensor *d, dl_tensor *g) {
    const double p = ATTR_F(b, ROW_DISTANCES_P);
    const long stride[2] = {x->shape[2], 1};
    dl_status s = DL_OK;
    if (!DL_NEED(which)) return DL_OK;
    dl_tensor *out = dl_zeros(x->shape, 3, x->dtype, 0);
    if (!out || !d || !g) return dl_unref(out), dl_failed();
    for (long i = 0; i < x->shape[0] && d->numel && p != 0 && s == DL_OK; i++) {
        dl_pairs j = crossed(x->shape[1], y->shape[1], x->shape[2], p);
        s = run_rows_back(&j, (rows){(dl_dtype)x->dtype, matrix(x, i), stride},
                          (rows){(dl_dtype)x->dtype, matrix(y, i), stride}, matrix(d, i), matrix(g, i), matrix(out, i),
                          j.n * j.m);
    }
    return s == DL_OK ? dl_give(b, which, out) : (dl_unref(out), s);
}

static dl_tensor *turned(dl_back *b, dl_tensor *t) {
    dl_tensor *view = t ? dl_tmp(b, dl_permute(t, (long[]){0, 2, 1}, 3)) : NULL;
    return view ? dl_tmp(b, dl_cpu_contiguous(view)) : NULL;
}

static dl_status distances_back(dl_back *b) {
    dl_tensor *in[4] = {dl_saved_in(b, 0), dl_saved_in(b, 1), dl_saved_out(b, 0), b->g[0]};
    for (int i = 0; i < 4; i++)
        if (!in[i] || !(in[i] = dl_tmp(b, dl_cpu_contiguous(in[i])))) return dl_failed();
    DL_TRY(distances_by(b, 0, in[0], in[1], in[2], in[3]));
    return DL_NEED(1) ? distances_by(b, 1, in[1], in[0], turned(b, in[2]), turned(b, in[3])) : DL_OK;
}
DL_CPU_KERNEL(row_distances, distances_run, true, DISTANCES_OF, .fused_grad = distances_back)

/* ---- multilabel_margins */

typedef struct margins {
    dl_margins j;
    void (*run)(const dl_margins *j, long row);
} margins;
static void run_margins(void *arg, long i) { ((margins *)arg)->run(&((margins *)arg)->j, i); }

static dl_tensor *whole_numbers(dl_tensor *t) {
    DL_OWNED dl_tensor *wide = dl_to(t, DL_I64);
    return wide ? dl_cpu_contiguous(wide) : NULL;
}

static dl_status check_labels(const dl_margins *m) {
    for (long i = 0; i < m->n; i++)
        for (long k = 0; k < m->classes && m->y[i * m->classes + k] >= 0; k++)
            if (m->y[i * m->classes + k] >= m->classes) {
                dl_fail_index(m->y[i * m->classes + k], 1, m->classes);
                return dl_failed();
            }
    return DL_OK;
}

static dl_status margins_over(const dl_tensor *x, const dl_tensor *y, const void *g, void *out, bool back) {
    margins m = {.j = {.n = x->shape[0], .classes = x->shape[1], .x = dl_ptr(x), .g = g, .y = dl_ptr(y), .out = out}};
    if (!x->numel) return DL_OK;
    const dl_pair_loops *loops = loops_of((dl_dtype)x->dtype);
    m.run = back ? loops->margins_back : loops->margins;
    if (!back) DL_TRY(check_labels(&m.j));
    dl_cpu_for(m.j.n, dl_cpu_threads(x->numel * 4), run_margins, &m);
    return DL_OK;
}

static dl_status margins_run(dl_call *c) {
    DL_OWNED dl_tensor *y = whole_numbers(c->in[1]);
    if (y && !c->in[0]->numel) memset(dl_ptr(c->out[0]), 0, (size_t)c->out[0]->numel * dl_esize(c->out[0]));
    return y ? margins_over(c->in[0], y, NULL, dl_ptr(c->out[0]), false) : dl_failed();
}

static dl_status margins_back(dl_back *b) {
    dl_tensor *x = dl_saved_in(b, 0), *y = dl_saved_in(b, 1);
    x = x ? dl_tmp(b, dl_cpu_contiguous(x)) : NULL, y = y ? dl_tmp(b, whole_numbers(y)) : NULL;
    dl_tensor *g = dl_tmp(b, dl_cpu_contiguous(b->g[0])), *out = x ? dl_zeros(x->shape, 2, x->dtype, 0) : NULL;
    if (!out || !y || !g) return dl_unref(out), dl_failed();
    margins_over(x, y, dl_ptr(g), dl_ptr(out), true);
    return dl_give(b, 0, out);
}
static dl_status margins_fused(dl_back *b) { return dl_cpu_grad_via_f32(b, margins_back); }
DL_CPU_KERNEL(multilabel_margins, margins_run, true, DL_FLOATS, .fused_grad = margins_fused)
DL_CPU_MADE_OF_ROWS(multi_margins)
