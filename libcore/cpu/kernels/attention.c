/* Kernel of attention and its fused gradient: blocks of scores, row by row normalised by the largest score seen so far
 * (Dao and others: FlashAttention, 2022). A block is a product of matrices, so no more than one a thread is stored.
 * Sums over blocks run in the order of keys, or of queries, whoever computes them. */
#include "cpu/kernels/attention.h"
#include "core/error.h"
#include "core/scope.h"
#include "cpu/kernels/dropout.h"
#include "cpu/kernels/random.h"
#include "cpu/runtime/blas.h"
#include "cpu/runtime/gemm.h"
#include "cpu/runtime/iter.h"
#include "cpu/runtime/team.h"
#include "dlcore/copy.h"
#include "ops/attention.h"
#include "ops/rules/matmul.h"

#include <math.h>
#include <string.h>

enum { ROWS = 128, KEYS = 256 };

/* Operands in f32 or f64. Those of four dimensions have any strides but along the last one. */
typedef struct net {
    dl_attention_sizes a;
    dl_dtype t;
    long es;
    const dl_attention_loops *f;
    dl_tensor *q, *k, *v, *mask, *out, *stats;
    dl_tensor *g, *dq, *dk, *dv; /* of the gradient; d* are NULL where they are not wanted */
    double *mean;                /* of the gradient, weighted, a row each */
    const char *lengths;         /* of i64 or i32; NULL: all keys count */
    dl_dtype length_type;
    dl_rng_key key; /* of dropout */
    bool by_keys;   /* a task is a block of keys, else all of a head of keys or a block of queries */
    dl_first_error failed;
    dl_stop *stop;
} net;

/* One block of scores: queries from `row` on of a head, keys from `col` on. */
typedef struct block {
    long n, h, row, rows, col, cols;
    char *p, *d; /* weights, and their gradient: ROWS x KEYS */
} block;

static long least(long a, long b) { return a < b ? a : b; }
static long pieces(long n, long piece) { return (n + piece - 1) / piece; }

static char *at(const dl_tensor *t, long n, long h, long row) {
    return (char *)dl_ptr(t) + (n * t->stride[0] + h * t->stride[1] + row * t->stride[2]) * (long)dl_esize(t);
}
static dl_mat matrix(const dl_tensor *t, long n, long h, long row) {
    return (dl_mat){at(t, n, h, row), t->stride[2], 1};
}
static long head_of_keys(const net *w, long h) { return h / w->a.group; }
static double *stat(const net *w, const block *b, long row) {
    return (double *)dl_ptr(w->stats) + (b->n * w->a.heads + b->h) * w->a.rows + row;
}

/* How many keys the queries of a block see at most, and those of query `row`. */
static long length_of(const net *w, long n) {
    if (!w->lengths) return w->a.keys;
    int64_t len = w->length_type == DL_I64 ? ((const int64_t *)w->lengths)[n] : ((const int32_t *)w->lengths)[n];
    return len < 0 ? 0 : least(len, w->a.keys);
}
static long seen(const net *w, long n, long row) {
    long len = length_of(w, n);
    return w->a.causal ? least(len, row + 1) : len;
}

/* Row i of a block: how many of its keys count. */
static long counted(const net *w, const block *b, long i) {
    long end = seen(w, b->n, b->row + i) - b->col;
    return end < 0 ? 0 : least(end, b->cols);
}

static dl_mat scores(const block *b, char *p) { return (dl_mat){p, b->cols, 1}; }
static char *row_of(const net *w, const block *b, char *p, long i) { return p + i * b->cols * w->es; }

/* The mask of row i, applied with the scale; the scale that is left to do. */
static double masked(const net *w, const block *b, long i, char *x, long n) {
    const dl_tensor *m = w->mask;
    if (!m) return w->a.scale;
    long place = 0, index[4] = {b->n, b->h, b->row + i, b->col};
    for (int d = 0; d < 4; d++) place += m->shape[d] > 1 ? index[d] * m->stride[d] : 0;
    w->f->mask(x, n, w->a.scale, (char *)dl_ptr(m) + place * (long)dl_esize(m), m->shape[3] > 1 ? m->stride[3] : 0,
               m->dtype != DL_BOOL);
    return 1;
}

/* Leaves out elements of a row, of weights or of their gradient. */
static void drop(const net *w, const block *b, long i, char *x, long n) {
    uint32_t words[KEYS + 8];
    unsigned char kept[KEYS];
    double p = w->a.dropout;
    uint64_t from = (uint64_t)(((b->n * w->a.heads + b->h) * w->a.rows + b->row + i) * w->a.keys + b->col);
    long skip = (long)(from % 4);
    DL_SIMD_PICK(dl_random_words)(w->key, from - (uint64_t)skip, n + skip, words);
    DL_SIMD_PICK(dl_dropout)
    [w->t == DL_F64](n, words + skip, p < 1 ? (uint32_t)dl_rng_threshold(p) : 0, p < 1 ? 1 / (1 - p) : 0, x, x, kept);
}

static dl_status multiply(const net *w, long m, long n, long k, dl_mat a, dl_mat b, dl_mat c, bool add) {
    return dl_cpu_gemm(w->t, m, n, k, a, b, c, add);
}

/* query key' */
static dl_status products(const net *w, const block *b, const dl_tensor *q, const dl_tensor *k, char *to) {
    return multiply(w, b->rows, b->cols, q->shape[3], matrix(q, b->n, b->h, b->row),
                    dl_mat_transposed(matrix(k, b->n, head_of_keys(w, b->h), b->col)), scores(b, to), false);
}

/* ---------------------------------------------------------------- forward */

static dl_status add_block(const net *w, const block *b, dl_soft *soft) {
    DL_TRY(products(w, b, w->q, w->k, b->p));
    for (long i = 0; i < b->rows; i++) {
        char *x = row_of(w, b, b->p, i);
        long n = counted(w, b, i);
        if (n) w->f->soften(x, n, masked(w, b, i, x, n), &soft[i], at(w->out, b->n, b->h, b->row + i), w->a.value_size);
        if (n < b->cols) memset(x + n * w->es, 0, (size_t)((b->cols - n) * w->es));
        if (n && w->a.dropout > 0) drop(w, b, i, x, n);
    }
    return multiply(w, b->rows, w->a.value_size, b->cols, scores(b, b->p),
                    matrix(w->v, b->n, head_of_keys(w, b->h), b->col), matrix(w->out, b->n, b->h, b->row), true);
}

/* A query that saw nothing gets 0, and weights of 0 in the gradient. */
static void finish(const net *w, const block *b, const dl_soft *soft) {
    for (long i = 0; i < b->rows; i++) {
        bool none = soft[i].top == -INFINITY;
        w->f->scaled(at(w->out, b->n, b->h, b->row + i), w->a.value_size, none ? 0 : 1 / soft[i].sum);
        *stat(w, b, b->row + i) = none ? INFINITY : soft[i].top + log(soft[i].sum);
    }
}

static dl_status run_rows(const net *w, block *b) {
    dl_soft soft[ROWS];
    for (long i = 0; i < b->rows; i++) soft[i] = (dl_soft){-INFINITY, 0};
    memset(at(w->out, b->n, b->h, b->row), 0, (size_t)(b->rows * w->a.value_size * w->es));
    long end = seen(w, b->n, b->row + b->rows - 1);
    for (b->col = 0; b->col < end && !dl_stop_asked(w->stop); b->col += KEYS) {
        b->cols = least(end - b->col, KEYS);
        DL_TRY(add_block(w, b, soft));
    }
    finish(w, b, soft);
    return DL_OK;
}

/* ---- tasks */

static size_t block_bytes(const net *w) { return (size_t)(least(w->a.rows, ROWS) * least(w->a.keys, KEYS) * w->es); }

/* Runs `work` on a block with memory of its own for `n` matrices of it. */
static void with_memory(net *w, block *b, int n, dl_status (*work)(const net *, block *)) {
    size_t each = block_bytes(w), bytes = each * (size_t)n + 1;
    b->p = dl_host_alloc(bytes), b->d = b->p ? b->p + each : NULL;
    if (!b->p || work(w, b) != DL_OK) dl_first_error_keep(&w->failed);
    if (b->p) dl_host_free(b->p, bytes);
}

/* The task of a block of queries: i counts blocks of a head last. */
static block rows_of_task(const net *w, long i) {
    long n = pieces(w->a.rows, ROWS), head = i / n, row = i % n * ROWS;
    if (w->a.causal) row = (n - 1 - i % n) * ROWS; /* the longest first */
    return (block){.n = head / w->a.heads, .h = head % w->a.heads, .row = row, .rows = least(w->a.rows - row, ROWS)};
}

static void run_task(void *arg, long i) {
    net *w = arg;
    block b = rows_of_task(w, i);
    with_memory(w, &b, 1, run_rows);
}

static double macs(const net *w) {
    const dl_attention_sizes *a = &w->a;
    return (double)(a->batch * a->heads) * (double)a->rows * (double)a->keys * (double)(a->size + a->value_size) *
           (w->t == DL_F64 ? 2 : 1) / (a->causal ? 2 : 1);
}

/* Tasks of unequal length, each of calls of BLAS with one thread. */
static dl_status run_tasks(net *w, long n, double work, void (*task)(void *, long)) {
    int threads = dl_cpu_threads_product(work);
    if (!dl_blas_get()) return dl_failed();
    dl_stop stop = dl_stop_begin();
    w->stop = &stop;
    if (threads == 1 || n == 1) {
        int had = dl_cpu_team_limit(1);
        for (long i = 0; i < n && !dl_stop_asked(&stop); i++) task(w, i);
        dl_cpu_team_limit(had);
    } else {
#pragma omp parallel for num_threads(threads) schedule(dynamic)
        for (long i = 0; i < n; i++)
            if (!dl_stop_asked(&stop)) task(w, i);
    }
    dl_stop_end(&stop);
    return dl_first_error_raise(&w->failed);
}

/* ---------------------------------------------------------------- operands */

/* t itself, or a copy whose last dimension lies side by side. */
static dl_tensor *readable(dl_tensor *t) {
    bool good = t->shape[3] == 1 || t->stride[3] == 1;
    for (int i = 0; i < 3; i++) good = good && (t->shape[i] == 1 || t->stride[i] >= 0);
    bool rows = t->shape[2] == 1 || t->stride[2] >= t->shape[3];
    return good && rows ? dl_ref(t) : dl_cpu_contiguous(t);
}

static void settings(net *w, dl_tensor *lengths, dl_tensor *seed) {
    w->es = (long)dl_dtype_size(w->t), w->f = &DL_SIMD_PICK(dl_attention_rows)[w->t == DL_F64];
    if (lengths) w->lengths = dl_ptr(lengths), w->length_type = lengths->dtype;
    if (seed) {
        const uint64_t *s = dl_ptr(seed);
        w->key = (dl_rng_key){s[0], s[1] >> 8, DL_STREAM_DROPOUT};
    }
}

static dl_status attention_float(dl_call *c) {
    dl_tensor *own[4] = {NULL}, *lengths = INPUT(c, ATTENTION_LENGTHS), *seed = INPUT(c, ATTENTION_SEED);
    net w = {.t = c->dtype, .mask = INPUT(c, ATTENTION_ATTN_MASK), .out = c->out[0], .stats = c->out[1]};
    DL_TRY(dl_attention_of(c, &w.a));
    if (!c->out[1]->numel) return DL_OK;
    bool good = true;
    for (int i = 0; i < 3; i++) good = (own[i] = readable(c->in[i])) != NULL && good;
    if (good && lengths) good = (lengths = own[3] = dl_cpu_contiguous(lengths)) != NULL;
    dl_status s = good ? DL_OK : dl_failed();
    DL_OWNED dl_tensor *wide = NULL;
    if (good && c->out[1]->dtype != DL_F64)
        if (!(w.stats = wide = dl_tensor_empty(3, c->out[1]->shape, DL_F64, 0))) s = dl_failed();
    if (s == DL_OK) {
        w.q = own[0], w.k = own[1], w.v = own[2];
        settings(&w, lengths, w.a.dropout > 0 ? seed : NULL);
        s = run_tasks(&w, w.a.batch * w.a.heads * pieces(w.a.rows, ROWS), macs(&w), run_task);
    }
    if (s == DL_OK && wide) dl_cpu_copy(c->out[1], wide);
    for (int i = 0; i < 4; i++) dl_unref(own[i]);
    return s;
}

/* ---------------------------------------------------------------- gradient */

/* The weights p of a block and d, the gradient of its scores times the scale; p as dropout leaves it. */
static dl_status back_scores(const net *w, const block *b) {
    DL_TRY(products(w, b, w->q, w->k, b->p));
    DL_TRY(products(w, b, w->g, w->v, b->d));
    for (long i = 0; i < b->rows; i++) {
        char *p = row_of(w, b, b->p, i), *d = row_of(w, b, b->d, i);
        long n = counted(w, b, i), row = b->row + i;
        size_t rest = (size_t)((b->cols - n) * w->es);
        if (n) {
            w->f->again(p, n, masked(w, b, i, p, n), *stat(w, b, row));
            if (w->a.dropout > 0) drop(w, b, i, d, n);
            w->f->grad(p, d, n, w->mean[(b->n * w->a.heads + b->h) * w->a.rows + row], w->a.scale);
            if (w->a.dropout > 0) drop(w, b, i, p, n);
        }
        memset(p + n * w->es, 0, rest), memset(d + n * w->es, 0, rest);
    }
    return DL_OK;
}

static dl_status to_queries(const net *w, const block *b) {
    if (!w->dq) return DL_OK;
    return multiply(w, b->rows, w->a.size, b->cols, scores(b, b->d), matrix(w->k, b->n, head_of_keys(w, b->h), b->col),
                    matrix(w->dq, b->n, b->h, b->row), true);
}

static dl_status to_keys(const net *w, const block *b) {
    long h = head_of_keys(w, b->h);
    if (w->dv)
        DL_TRY(multiply(w, b->cols, w->a.value_size, b->rows, dl_mat_transposed(scores(b, b->p)),
                        matrix(w->g, b->n, b->h, b->row), matrix(w->dv, b->n, h, b->col), true));
    if (!w->dk) return DL_OK;
    return multiply(w, b->cols, w->a.size, b->rows, dl_mat_transposed(scores(b, b->d)),
                    matrix(w->q, b->n, b->h, b->row), matrix(w->dk, b->n, h, b->col), true);
}

/* All keys for the block of queries of b. */
static dl_status back_rows(const net *w, block *b, bool keys) {
    long end = seen(w, b->n, b->row + b->rows - 1);
    for (b->col = 0; b->col < end && !dl_stop_asked(w->stop); b->col += KEYS) {
        b->cols = least(end - b->col, KEYS);
        DL_TRY(back_scores(w, b));
        DL_TRY(to_queries(w, b));
        if (keys) DL_TRY(to_keys(w, b));
    }
    return DL_OK;
}
static dl_status back_queries(const net *w, block *b) { return back_rows(w, b, false); }

/* All queries of the heads that share those keys. */
static dl_status back_head(const net *w, block *b) {
    for (long g = 0, first = b->h; g < w->a.group; g++)
        for (b->h = first + g, b->row = 0; b->row < w->a.rows; b->row += ROWS) {
            b->rows = least(w->a.rows - b->row, ROWS);
            DL_TRY(back_rows(w, b, true));
        }
    return DL_OK;
}

/* The same for one block of keys. */
static dl_status back_keys(const net *w, block *b) {
    for (long g = 0, first = b->h; g < w->a.group; g++)
        for (b->h = first + g, b->row = 0; b->row < w->a.rows; b->row += ROWS) {
            b->rows = least(w->a.rows - b->row, ROWS);
            long end = seen(w, b->n, b->row + b->rows - 1), cols = b->cols;
            if (end <= b->col || dl_stop_asked(w->stop)) continue;
            b->cols = least(cols, end - b->col);
            dl_status s = back_scores(w, b);
            if (s == DL_OK) s = to_keys(w, b);
            b->cols = cols;
            DL_TRY(s);
        }
    return DL_OK;
}

static void back_task(void *arg, long i) {
    net *w = arg;
    long n = w->by_keys ? pieces(w->a.keys, KEYS) : 1, head = i / n, col = i % n * KEYS;
    block b = {.n = head / w->a.kv_heads, .h = head % w->a.kv_heads * w->a.group};
    if (w->by_keys) b.col = col, b.cols = least(w->a.keys - col, KEYS);
    with_memory(w, &b, 2, w->by_keys ? back_keys : back_head);
}
static void back_queries_task(void *arg, long i) {
    net *w = arg;
    block b = rows_of_task(w, i);
    with_memory(w, &b, 2, back_queries);
}

static void mean_task(void *arg, long i) {
    const net *w = arg;
    block b = rows_of_task(w, i);
    for (long r = b.row; r < b.row + b.rows; r++)
        w->mean[(b.n * w->a.heads + b.h) * w->a.rows + r] =
            w->f->dot(at(w->g, b.n, b.h, r), at(w->out, b.n, b.h, r), w->a.value_size);
}

/* A task for each head of keys, with five products a block; where heads are few, tasks for blocks of keys, then for
 * blocks of queries, with seven. Both add up in one order. */
static dl_status back_all(net *w) {
    const dl_attention_sizes *a = &w->a;
    long heads = a->batch * a->kv_heads, rows = a->batch * a->heads * pieces(a->rows, ROWS);
    double work = macs(w) * 2.5;
    int threads = dl_cpu_threads_product(work);
    dl_cpu_for(rows, dl_cpu_threads(a->batch * a->heads * a->rows * a->value_size), mean_task, w);
    w->by_keys = threads > 1 && heads % threads && heads < 4 * threads;
    if (!w->by_keys) return run_tasks(w, heads, work, back_task);
    if (w->dk || w->dv) DL_TRY(run_tasks(w, heads * pieces(a->keys, KEYS), work, back_task));
    return w->dq ? run_tasks(w, rows, work, back_queries_task) : DL_OK;
}

static dl_status make_wanted(const net *w, dl_back *b, dl_tensor *made[3]) {
    for (int i = 0; i < 3; i++) {
        const dl_meta *m = dl_in_meta(b, i);
        if (DL_NEED(i) && !(made[i] = dl_tensor_zeros(4, m->shape, w->t, 0))) return dl_failed();
    }
    return DL_OK;
}

/* Fills in what the gradient reads; the tensors stay with the pass. */
static dl_status back_operands(net *w, dl_back *b) {
    dl_tensor *in[3] = {IN_(ATTENTION_QUERY), IN_(ATTENTION_KEY), IN_(ATTENTION_VALUE)}, *lengths = NULL, *seed = NULL;
    for (int i = 0; i < 3; i++)
        if (!in[i] || !(in[i] = T(readable(in[i])))) return dl_failed();
    w->q = in[0], w->k = in[1], w->v = in[2], w->t = w->q->dtype;
    w->g = T(dl_cpu_contiguous(G0));
    w->out = OUT_(ATTENTION_OUT), w->stats = OUT_(ATTENTION_STATS);
    if (!w->g || !w->out || !w->stats) return dl_fail_null("the gradient of attention");
    if (!(w->out = T(dl_cpu_contiguous(w->out))) || !(w->stats = T(dl_to(w->stats, DL_F64)))) return dl_failed();
    if (dl_in_meta(b, DL_IN_ATTENTION_ATTN_MASK)->ndim && b->nin > DL_IN_ATTENTION_ATTN_MASK)
        w->mask = IN_(ATTENTION_ATTN_MASK);
    if (b->nin > DL_IN_ATTENTION_LENGTHS && META(ATTENTION_LENGTHS)->ndim)
        lengths = T(dl_cpu_contiguous(IN_(ATTENTION_LENGTHS)));
    if (w->a.dropout > 0) seed = IN_(ATTENTION_SEED);
    settings(w, lengths, seed);
    return DL_OK;
}

static dl_status attention_back(dl_back *b) {
    net w = {0};
    dl_tensor *made[3] = {NULL};
    dl_attention_of_node(b, &w.a);
    DL_TRY(back_operands(&w, b));
    dl_status s = make_wanted(&w, b, made);
    size_t bytes = (size_t)(w.a.batch * w.a.heads * w.a.rows + 1) * sizeof *w.mean;
    if (s == DL_OK && !(w.mean = dl_host_alloc(bytes))) s = dl_failed();
    w.dq = made[0], w.dk = made[1], w.dv = made[2];
    if (s == DL_OK && w.a.kv_heads && w.stats->numel && w.a.keys) s = back_all(&w);
    if (w.mean) dl_host_free(w.mean, bytes);
    for (int i = 0; i < 3; i++) {
        if (s == DL_OK && made[i])
            s = dl_give(b, i, made[i]);
        else
            dl_unref(made[i]);
    }
    return s;
}

static dl_status attention_run(dl_call *c) { return dl_cpu_via_f32(c, attention_float, false); }
static dl_status attention_fused(dl_back *b) { return dl_cpu_grad_via_f32(b, attention_back); }
const dl_kernel dl_cpu_attention = {.run = attention_run, .fused_grad = attention_fused, .dtypes = DL_FLOATS};
