/* Copies: clone, restride, to, writing into a region, where. */
#include "cpu/runtime/copy.h"
#include "cpu/runtime/loop_types.h"
#include "ops/rules/copy.h"
#include "ops/rules/where.h"
#include "ops/rules/view.h"

#include <string.h>

static void move_loop(long n, char **p, const long *s DL_UNUSED, void *arg) {
    memcpy(p[0], p[1], (size_t)n * *(const size_t *)arg);
}

/* Rows of a few bytes, as two moves that may overlap. */
#define TWICE(T)                                                                                                       \
    for (long i = 0; i < n; i++, d += s[0], x += s[1]) {                                                               \
        T a, b;                                                                                                        \
        memcpy(&a, x, sizeof a), memcpy(&b, x + bytes - sizeof b, sizeof b);                                           \
        memcpy(d, &a, sizeof a), memcpy(d + bytes - sizeof b, &b, sizeof b);                                           \
    }
static void short_rows_loop(long n, char **p, const long *s, void *arg) {
    const size_t bytes = *(const size_t *)arg;
    char *d = p[0];
    const char *x = p[1];
    if (bytes >= 16)
        TWICE(c128)
    else if (bytes >= 8)
        TWICE(uint64_t)
    else if (bytes >= 4)
        TWICE(uint32_t)
    else
        TWICE(uint16_t)
}

/* `it` without dimension 0. */
static dl_iter without_first(const dl_iter *it) {
    dl_iter rows = *it;
    rows.ndim--, rows.numel /= it->shape[0];
    memmove(rows.shape, it->shape + 1, (size_t)rows.ndim * sizeof *rows.shape);
    memmove(rows.stride, it->stride + 1, (size_t)rows.ndim * sizeof *rows.stride);
    return rows;
}

/* Copies dense elements that are to come a few times each, one after another; false: it is not so. */
static bool copy_repeated(const dl_iter *it, long size) {
    const long times = it->shape[0];
    if (it->ndim < 2 || times < 2 || times >= DL_ITER_SHORT || it->shape[1] < DL_ITER_SHORT) return false;
    if (it->stride[0][0] != size || it->stride[0][1] || it->stride[1][0] != times * size || it->stride[1][1] != size)
        return false;
    dl_iter rows = without_first(it);
    dl_iter_run(&rows, DL_SIMD_PICK(dl_repeat_loop)[size], (void *)(uintptr_t)&times);
    return true;
}

/* Copies dense rows of 2 to 32 bytes by rows instead of elements; false: the rows are not such. */
static bool copy_short_rows(const dl_iter *it, long size) {
    size_t bytes = (size_t)(it->shape[0] * size);
    if (it->ndim < 2 || it->shape[0] < 2 || it->shape[0] >= DL_ITER_SHORT || bytes > 2 * sizeof(c128)) return false;
    if (it->stride[0][0] != size || it->stride[0][1] != size) return false;
    dl_iter rows = without_first(it);
    dl_iter_run(&rows, short_rows_loop, &bytes);
    return true;
}

/* Dense rows between f32 and a 16-bit type, without a block of f32 between. */
static void widen_loop(long n, char **p, const long *s DL_UNUSED, void *arg) {
    dl_cpu_half_to_f32(n, p[1], *(const dl_dtype *)arg, (float *)p[0]);
}
static void narrow_loop(long n, char **p, const long *s DL_UNUSED, void *arg) {
    dl_cpu_f32_to_half(n, (const float *)p[1], p[0], *(const dl_dtype *)arg);
}

/* The loop of a cast that needs no strides; NULL: none. */
static dl_loop dense_cast(const dl_iter *it, dl_dtype dt, dl_dtype st) {
    const bool dense = it->stride[0][0] == dl_dtype_size(dt) && it->stride[0][1] == dl_dtype_size(st) &&
                       it->shape[0] >= DL_ITER_SHORT; /* else loops go along another dimension */
    return !dense                                   ? NULL
           : st == DL_F32 && DL_BIT(dt) & DL_HALVES ? narrow_loop
           : dt == DL_F32 && DL_BIT(st) & DL_HALVES ? widen_loop
                                                    : NULL;
}

/* The dimension along which the source is dense while the target is dense along dimension 0; 0: a plain copy. */
static int transposed_dim(const dl_iter *it, long size) {
    if (it->ndim < 2 || it->stride[0][0] != size || it->stride[0][1] == size || it->stride[0][1] == 0) return 0;
    for (int d = 1; d < it->ndim; d++)
        if (it->stride[d][1] == size && it->shape[d] >= 4 && it->shape[0] >= 4) return d;
    return 0;
}

typedef struct transposition {
    const dl_iter *it;
    dl_transpose_fn fn;
    int d;
    long bands;
} transposition;

/* A band of rows of dimension 0 in the plane of dimensions 0 and d. */
static void transpose_band(void *arg, long i) {
    const transposition *t = arg;
    const dl_iter *it = t->it;
    long rest = i / t->bands, lo = i % t->bands * DL_TRANSPOSE_ROWS, rows = it->shape[0] - lo;
    char *dst = it->ptr[0] + lo * it->stride[0][0], *src = it->ptr[1] + lo * it->stride[0][1];
    for (int k = 1; k < it->ndim; k++) {
        if (k == t->d) continue;
        dst += rest % it->shape[k] * it->stride[k][0];
        src += rest % it->shape[k] * it->stride[k][1];
        rest /= it->shape[k];
    }
    t->fn(it->shape[t->d], rows < DL_TRANSPOSE_ROWS ? rows : DL_TRANSPOSE_ROWS, dst, it->stride[t->d][0], src,
          it->stride[0][1]);
}

static void copy_transposed(const dl_iter *it, int d, long size) {
    transposition t = {it, DL_SIMD_PICK(dl_transpose)[size], d,
                       (it->shape[0] + DL_TRANSPOSE_ROWS - 1) / DL_TRANSPOSE_ROWS};
    dl_cpu_for(it->numel / it->shape[0] / it->shape[d] * t.bands, dl_cpu_threads(it->numel), transpose_band, &t);
}

static void run_copy(dl_iter *it) {
    dl_dtype dt = it->dtype[0], st = it->dtype[1];
    size_t size = (size_t)dl_dtype_size(dt);
    if (it->numel == 0) return;
    if (dt != st) {
        const dl_loop loop = dense_cast(it, dt, st);
        if (loop) {
            dl_iter_run(it, loop, loop == narrow_loop ? &dt : &st);
            return;
        }
        dl_iter_run_f32(it, 1, DL_SIMD_PICK(dl_cast_loop)[st][dt], NULL);
        return;
    }
    if (it->numel >= 256 && (copy_short_rows(it, (long)size) || copy_repeated(it, (long)size))) return;
    int d = it->numel >= 256 ? transposed_dim(it, (long)size) : 0;
    if (d)
        copy_transposed(it, d, (long)size);
    else if (it->stride[0][0] == (long)size && it->stride[0][1] == (long)size && it->shape[0] >= DL_ITER_SHORT)
        dl_iter_run(it, move_loop, &size);
    else
        dl_iter_run(it, DL_SIMD_PICK(dl_copy_loop)[size], NULL);
}

void dl_cpu_copy(dl_tensor *dst, const dl_tensor *src) {
    dl_iter it;
    dl_tensor *op[2] = {dst, (dl_tensor *)src};
    dl_iter_init(&it, 2, op);
    run_copy(&it);
}

void dl_cpu_copy_strided(int ndim, const long *shape, void *dst, dl_dtype dt, const long *ds, const void *src,
                         dl_dtype st, const long *ss) {
    dl_iter it;
    dl_iter_begin(&it, ndim, shape);
    dl_iter_operand(&it, dst, dt, ndim, shape, ds);
    dl_iter_operand(&it, (void *)src, st, ndim, shape, ss);
    dl_iter_end(&it);
    run_copy(&it);
}

dl_tensor *dl_cpu_contiguous(dl_tensor *t) {
    if (dl_is_contiguous(t)) return dl_ref(t);
    dl_tensor *c = dl_tensor_empty(t->ndim, t->shape, t->dtype, 0);
    if (c) dl_cpu_copy(c, t);
    return c;
}

dl_tensor *dl_cpu_empty_like(const dl_tensor *like) {
    dl_tensor *c = dl_tensor_empty(like->ndim, like->shape, like->dtype, 0);
    if (c) memcpy(c->stride, like->stride, sizeof c->stride);
    return c;
}

dl_tensor *dl_cpu_strided_like(dl_tensor *t, const dl_tensor *like) {
    bool same = t->dtype == like->dtype;
    for (int i = 0; i < t->ndim; i++) same = same && (t->shape[i] < 2 || t->stride[i] == like->stride[i]);
    if (same) return dl_ref(t);
    dl_tensor *c = dl_cpu_empty_like(like);
    if (c) dl_cpu_copy(c, t);
    return c;
}

static dl_status run_clone(dl_call *c) {
    dl_cpu_copy(c->out[0], c->in[0]);
    return DL_OK;
}
const dl_kernel dl_cpu_clone = {.run = run_clone, .dtypes = DL_ALL};
const dl_kernel dl_cpu_restride = {.run = run_clone, .dtypes = DL_ALL};
const dl_kernel dl_cpu_to = {.run = run_clone, .dtypes = DL_ALL};

/* The output shares the memory of the input; only the region is written. */
static dl_status run_as_strided_set(dl_call *c) {
    const dl_aval *size = ATTR(c, AS_STRIDED_SET_SIZE), *stride = ATTR(c, AS_STRIDED_SET_STRIDE);
    dl_tensor *x = c->out[0], *v = c->in[1];
    dl_iter it;
    dl_iter_begin(&it, size->n, size->u.v);
    dl_iter_operand(&it, (char *)x->st->data + ATTR_I(c, AS_STRIDED_SET_OFFSET) * (long)dl_esize(x), x->dtype, size->n,
                    size->u.v, stride->u.v);
    dl_iter_operand(&it, dl_ptr(v), v->dtype, v->ndim, v->shape, v->stride);
    dl_iter_end(&it);
    run_copy(&it);
    return DL_OK;
}
const dl_kernel dl_cpu_as_strided_set = {.run = run_as_strided_set, .dtypes = DL_ALL};

static dl_status run_where(dl_call *c) {
    dl_tensor *op[4] = {c->out[0], c->in[0], c->in[1], c->in[2]};
    dl_iter it;
    dl_iter_init(&it, 4, op);
    dl_iter_run(&it, DL_SIMD_PICK(dl_where_loop)[dl_esize(c->out[0])], NULL);
    return DL_OK;
}
const dl_kernel dl_cpu_where = {.run = run_where, .dtypes = DL_ALL};
