/* Kernels of distances of pairs of rows, and of margins between labels and other classes; other devices compose these
 * rows. */
#include "cpu/kernels/pairs/pairs.h"
#include "core/scope.h"
#include "cpu/runtime/iter.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "ops/infer.h"
#include "ops/rules/loss.h"
#include "ops/rules/matmul.h"

#include <stdlib.h>
#include <string.h>

static const dl_pair_loops *loops_of(dl_dtype t) { return &DL_SIMD_PICK(dl_pair)[t == DL_F64]; }

/* ---- pdist */

enum { VECTOR = 64, LANES_MOST = VECTOR / 4 };

/* The rows with zeros up to whole vectors, and the columns as rows. */
static dl_status lay_out(dl_pairs *j, const dl_tensor *x, void **room) {
    const long size = (long)dl_esize(x), spare = j->n + DL_PAIR_ROWS;
    j->row = (j->depth * size + VECTOR - 1) / VECTOR * VECTOR / size, j->wide = j->n + LANES_MOST;
    char *rows = *room = calloc(1, (size_t)((spare * j->row + j->depth * j->wide) * size + VECTOR));
    if (!rows) return dl_fail(DL_ERR_MEMORY, "no memory for %ld rows", j->n);
    j->x = rows, j->turned = rows + spare * j->row * size;
    dl_cpu_copy_strided(2, x->shape, rows, (dl_dtype)x->dtype, (long[]){j->row, 1}, dl_ptr(x), (dl_dtype)x->dtype,
                        x->stride);
    dl_cpu_copy_strided(2, x->shape, rows + spare * j->row * size, (dl_dtype)x->dtype, (long[]){1, j->wide}, dl_ptr(x),
                        (dl_dtype)x->dtype, x->stride);
    return DL_OK;
}

static dl_pairs pairs_of(const dl_tensor *x, double p) {
    dl_pairs j = {.p = p, .n = x->shape[0], .depth = x->shape[1]};
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

static dl_status pdist_run(dl_call *c) {
    dl_tensor *x = c->in[0];
    dl_pairs j = pairs_of(x, ATTR_F(c, PDIST_P));
    void *room = NULL;
    if (j.n < 2) return DL_OK;
    DL_TRY(lay_out(&j, x, &room));
    j.out = dl_ptr(c->out[0]);
    dl_cpu_for(j.tiles, dl_cpu_threads(c->out[0]->numel * j.depth / 4), x->dtype == DL_F64 ? run_tile_of_f64 : run_tile,
               &j);
    free(room);
    return DL_OK;
}

static dl_status pdist_back(dl_back *b) {
    dl_tensor *x = dl_saved_in(b, 0), *d = dl_saved_out(b, 0), *g = b->g[0];
    if (!x || !d) return dl_failed();
    dl_pairs j = pairs_of(x, ATTR_F(b, PDIST_P));
    dl_tensor *out = dl_zeros(x->shape, 2, x->dtype, 0), *dense = dl_tmp(b, dl_cpu_contiguous(g)),
              *lengths = dl_tmp(b, dl_cpu_contiguous(d));
    void *room = NULL;
    dl_status s = out && dense && lengths ? DL_OK : dl_failed();
    if (s == DL_OK && j.n > 1 && j.p != 0) s = lay_out(&j, x, &room);
    if (room) {
        j.out = dl_ptr(out), j.d = dl_ptr(lengths), j.g = dl_ptr(dense);
        dl_cpu_for(j.n, dl_cpu_threads(d->numel * j.depth / 2), x->dtype == DL_F64 ? run_row_back_of_f64 : run_row_back,
                   &j);
    }
    free(room);
    if (s == DL_OK) return dl_give(b, 0, out);
    dl_unref(out);
    return s;
}
static dl_status pdist_fused(dl_back *b) { return dl_cpu_grad_via_f32(b, pdist_back); }
DL_CPU_KERNEL(pdist, pdist_run, false, DL_FLOATS, .fused_grad = pdist_fused)

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
