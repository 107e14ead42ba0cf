/* Kernels that write or join elements at indices along a dimension, in order; and the places of several indices.
 * Threads share the largest of the other dimensions. */
#include "core/scope.h"
#include "cpu/kernels/indices.h"
#include "cpu/runtime/iter.h"
#include "dlcore/view.h"
#include "ops/infer.h"
#include "ops/rules/index.h"

#include <string.h>

/* Operands: index, the result at index 0, source; `arg` is a dl_index_walk. Rows of indices are checked in blocks. */
#define PUT_EACH(T, m, x_step, w_step, v_step, ...)                                                                    \
    for (long i = 0; i < m; i++) {                                                                                     \
        T *at = (T *)(x + i * (x_step) + ((const long *)index)[i] * (w_step)), b = *(const T *)(v + i * (v_step));     \
        __VA_ARGS__;                                                                                                   \
    }
/* Dense elements at one index, in vectors: no two are at one place. */
#define PUT_ROW(T, v_step, ...)                                                                                        \
    _Pragma("GCC ivdep") for (long i = 0; i < n; i++) {                                                                \
        T *at = (T *)x + i, b = *(const T *)(v + i * (v_step));                                                        \
        __VA_ARGS__;                                                                                                   \
    }
#define PUT(name, T, ...)                                                                                              \
    static void name(long n, char **p, const long *s, void *arg) {                                                     \
        dl_index_walk *w = arg;                                                                                        \
        char *index = p[0], *x = p[1], *v = p[2];                                                                      \
        const long step = w->step, sx = s[1], sv = s[2], size = sizeof(T);                                             \
        const bool row = s[0] == sizeof(long), dense = sx == 0 && sv == size && step == size;                          \
        if (s[0] == 0 && sx == size && (sv == size || sv == 0)) {                                                      \
            if (!dl_indices_fit(w, (const long *)index, 1)) return;                                                    \
            x += *(const long *)index * step;                                                                          \
            if (sv)                                                                                                    \
                PUT_ROW(T, size, __VA_ARGS__)                                                                          \
            else                                                                                                       \
                PUT_ROW(T, 0, __VA_ARGS__)                                                                             \
            return;                                                                                                    \
        }                                                                                                              \
        for (long m; n > 0; n -= m, index += m * s[0], x += m * sx, v += m * sv) {                                     \
            m = !row ? 1 : n < DL_INDEX_BLOCK ? n : DL_INDEX_BLOCK;                                                    \
            if (!dl_indices_fit(w, (const long *)index, m)) return;                                                    \
            if (dense)                                                                                                 \
                PUT_EACH(T, m, 0, size, size, __VA_ARGS__)                                                             \
            else                                                                                                       \
                PUT_EACH(T, m, sx, step, sv, __VA_ARGS__)                                                              \
        }                                                                                                              \
    }
PUT(last1, unsigned char, *at = b)
PUT(last2, unsigned short, *at = b)
PUT(last4, unsigned, *at = b)
PUT(last8, unsigned long, *at = b)
#define SUM(dtype, T, OP) PUT(sum_##dtype, T, *at = (T)(*at OP b))
SUM(bool, unsigned char, |)
SUM(u8, unsigned char, +)
SUM(i32, unsigned, +)
SUM(i64, unsigned long, +)
SUM(f32, float, +)
SUM(f64, double, +)
#define TAKE(T, BETTER)                                                                                                \
    const T was = *at, best = b BETTER was ? b : was; /* one instruction, without a branch */                          \
    *at = b != b ? b : best
#define BEST(dtype, T)                                                                                                 \
    PUT(largest_##dtype, T, TAKE(T, >))                                                                                \
    PUT(least_##dtype, T, TAKE(T, <))
BEST(u8, unsigned char)
BEST(i32, int)
BEST(i64, long)
BEST(f32, float)
BEST(f64, double)

typedef struct put {
    dl_tensor *o, *v, *index;
    int dim, cut; /* cut: the dimension of which each part has `each` */
    long each;
    dl_index_walk *walk;
    dl_loop loop;
} put;

static void add_operand(dl_iter *it, const dl_tensor *t, const put *a, long from, bool result) {
    long stride[DL_MAX_DIM], shift = 0;
    for (int d = 0; d < t->ndim; d++) stride[d] = (result && d == a->dim) || t->shape[d] == 1 ? 0 : t->stride[d];
    if (t->ndim) shift = from * stride[a->cut] * (long)dl_esize(t);
    dl_iter_operand(it, (char *)dl_ptr(t) + shift, t->dtype, t->ndim, a->v->shape, stride);
}

static void put_part(void *arg, long k) {
    const put *a = arg;
    const long from = k * a->each;
    long shape[DL_MAX_DIM];
    memcpy(shape, a->v->shape, sizeof shape);
    if (a->v->ndim && a->cut != a->dim) shape[a->cut] = shape[a->cut] - from < a->each ? shape[a->cut] - from : a->each;
    dl_iter it;
    dl_iter_begin(&it, a->v->ndim, shape);
    add_operand(&it, a->index, a, from, false);
    add_operand(&it, a->o, a, from, true);
    add_operand(&it, a->v, a, from, false);
    dl_iter_end(&it);
    dl_iter_run_serial(&it, a->loop, a->walk);
}

static void put_parts(put *a, dl_tensor *index) {
    a->index = index, a->cut = a->dim;
    for (int d = 0; d < a->v->ndim; d++)
        if (d != a->dim && (a->cut == a->dim || a->v->shape[d] > a->v->shape[a->cut])) a->cut = d;
    const long n = a->v->ndim && a->cut != a->dim ? a->v->shape[a->cut] : 1;
    const int threads = dl_cpu_threads(a->v->numel);
    a->each = (n + threads - 1) / threads;
    dl_cpu_for((n + a->each - 1) / a->each, threads, put_part, a);
}

/* An index of one dimension as one of n, along dim. */
static dl_tensor *along(dl_tensor *index, int dim, int n) {
    long shape[DL_MAX_DIM];
    if (index->ndim == n || !n) return dl_ref(index);
    for (int d = 0; d < n; d++) shape[d] = d == dim ? index->numel : 1;
    return dl_reshape(index, shape, n);
}

static dl_status put_at(dl_call *c, dl_loop loop) {
    put a = {.o = c->out[0], .v = INPUT(c, PUT_LAST_SRC), .loop = loop};
    dl_cpu_copy(a.o, c->in[0]);
    DL_TRY(dl_dim_norm(ATTR_I(c, INDEXED_DIM), a.o->ndim, &a.dim));
    const long size = a.o->ndim ? a.o->shape[a.dim] : 1;
    dl_index_walk w = {(a.o->ndim ? a.o->stride[a.dim] : 0) * (long)dl_esize(a.o), size, 0};
    a.walk = &w;
    DL_OWNED dl_tensor *wide = along(c->in[1], a.dim, a.v->ndim);
    DL_OWNED dl_tensor *given = wide ? dl_cpu_without_repeats(wide, a.dim) : NULL;
    DL_OWNED dl_tensor *index = given ? dl_cpu_indices_to_check(given, a.dim, size) : NULL;
    if (!index) return dl_failed();
    if (!a.v->numel) return DL_OK;
    put_parts(&a, index);
    if (!w.wrong) return DL_OK;
    DL_OWNED dl_tensor *made = dl_cpu_indices(given, a.dim, size);
    if (!made) return dl_failed();
    dl_cpu_copy(a.o, c->in[0]);
    put_parts(&a, made);
    return DL_OK;
}

static dl_status run_put_last(dl_call *c) {
    static const dl_loop loop[9] = {[1] = last1, [2] = last2, [4] = last4, [8] = last8};
    return put_at(c, loop[dl_esize(c->out[0])]);
}
const dl_kernel dl_cpu_put_last = {.run = run_put_last, .dtypes = DL_ANY};

static dl_status plain_put_best(dl_call *c) {
#define LOOPS(what)                                                                                                    \
    {                                                                                                                  \
        [DL_BOOL] = what##_u8, [DL_U8] = what##_u8, [DL_I32] = what##_i32, [DL_I64] = what##_i64,                      \
        [DL_F32] = what##_f32, [DL_F64] = what##_f64                                                                   \
    }
    static const dl_loop largest[DL_NDTYPE] = LOOPS(largest), least[DL_NDTYPE] = LOOPS(least);
    return put_at(c, (ATTR_I(c, PUT_BEST_LARGEST) ? largest : least)[c->out[0]->dtype]);
}
DL_CPU_KERNEL(put_best, plain_put_best, false, DL_ANY)

dl_status dl_cpu_add_elements(dl_call *c) {
    static const dl_loop sums[DL_NDTYPE] = {[DL_BOOL] = sum_bool, [DL_U8] = sum_u8,   [DL_I32] = sum_i32,
                                            [DL_I64] = sum_i64,   [DL_F32] = sum_f32, [DL_F64] = sum_f64};
    return put_at(c, sums[c->out[0]->dtype]);
}
DL_CPU_KERNEL(scatter_add, dl_cpu_add_elements, false, DL_ANY)

/* ---- places of several indices */

/* Operands: place, index. */
static void next_place(long n, char **p, const long *s, void *arg) {
    const long size = *(const long *)arg;
    char *o = p[0], *index = p[1];
    for (long i = 0; i < n; i++, o += s[0], index += s[1]) *(long *)o = *(long *)o * size + *(const long *)index;
}

static dl_status run_joint_place(dl_call *c) {
    dl_tensor *o = c->out[0];
    dl_cpu_clear(dl_ptr(o), (size_t)o->numel * sizeof(long));
    for (int i = 0; i < c->nin; i++) {
        long size = ATTR(c, JOINT_PLACE_SIZES)->u.v[i];
        DL_OWNED dl_tensor *index = dl_cpu_indices(c->in[i], i, size);
        if (!index) return dl_failed();
        dl_iter it;
        dl_iter_init(&it, 2, (dl_tensor *[]){o, index});
        dl_iter_run(&it, next_place, &size);
    }
    return DL_OK;
}
const dl_kernel dl_cpu_joint_place = {.run = run_joint_place, .dtypes = DL_INTS};
