/* The iterator: ordering and merging of dimensions, walking, threads, 16-bit operands in blocks. */
#include "cpu/runtime/iter.h"
#include "autograd/nonfinite.h"
#include "cpu/runtime/copy.h"
#include "cpu/runtime/team.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

static long grain = DL_ITER_GRAIN;

long dl_cpu_grain(long elements) { return __atomic_exchange_n(&grain, elements, __ATOMIC_RELAXED); }

/* The grain is the work done in the time that waking one thread takes; each further thread wakes in an eighth of it. */
int dl_cpu_threads(long n) {
    long one = __atomic_load_n(&grain, __ATOMIC_RELAXED);
    if (n < 2 * one || omp_in_parallel()) return 1;
    int most = dl_cpu_team();
    return n / most < one / 8 ? 1 : most;
}

int dl_cpu_threads_product(double macs) {
    double n = macs / DL_ITER_MACS;
    return dl_cpu_threads(n < 1e18 ? (long)n : (long)1e18);
}

void dl_iter_begin(dl_iter *it, int ndim, const long *shape) {
    it->nop = 0;
    it->ndim = ndim;
    it->numel = 1;
    for (int d = 0; d < ndim; d++) {
        it->shape[ndim - 1 - d] = shape[d];
        it->numel *= shape[d];
    }
}

void dl_iter_operand(dl_iter *it, void *ptr, dl_dtype dtype, int ndim, const long *shape, const long *stride) {
    int k = it->nop++;
    long size = dl_dtype_size(dtype);
    it->ptr[k] = (char *)ptr;
    it->dtype[k] = (int8_t)dtype;
    for (int d = 0; d < it->ndim; d++) {
        int mine = ndim - 1 - d;
        it->stride[d][k] = mine >= 0 && shape[mine] != 1 ? stride[mine] * size : 0;
    }
}

/* Does dimension a belong inside b? It has the smaller step in the first operand in which their steps differ. */
static bool inner_of(const dl_iter *it, int a, int b) {
    for (int k = 0; k < it->nop; k++) {
        long x = labs(it->stride[a][k]), y = labs(it->stride[b][k]);
        if (x == 0 || y == 0 || x == y) continue;
        return x < y;
    }
    return false;
}

static void swap_dims(dl_iter *it, int a, int b) {
    long t[DL_ITER_MAX], n = it->shape[a];
    size_t bytes = (size_t)it->nop * sizeof(long);
    it->shape[a] = it->shape[b];
    it->shape[b] = n;
    memcpy(t, it->stride[a], bytes);
    memcpy(it->stride[a], it->stride[b], bytes);
    memcpy(it->stride[b], t, bytes);
}

static bool merges(const dl_iter *it, int in, int out) {
    for (int k = 0; k < it->nop; k++)
        if (it->stride[out][k] != it->stride[in][k] * it->shape[in]) return false;
    return true;
}

void dl_iter_end(dl_iter *it) {
    int n = 0;
    size_t bytes = (size_t)it->nop * sizeof(long);
    for (int d = 0; d < it->ndim; d++) { /* drop sizes of 1 */
        if (it->shape[d] == 1) continue;
        it->shape[n] = it->shape[d];
        if (n != d) memcpy(it->stride[n], it->stride[d], bytes);
        n++;
    }
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && inner_of(it, j, j - 1); j--) swap_dims(it, j, j - 1);
    int m = 0;
    for (int d = 1; d < n; d++) {
        if (merges(it, m, d)) {
            it->shape[m] *= it->shape[d];
            continue;
        }
        m++;
        it->shape[m] = it->shape[d];
        if (m != d) memcpy(it->stride[m], it->stride[d], bytes);
    }
    if (n == 0) {
        it->shape[0] = 1;
        memset(it->stride[0], 0, bytes);
    }
    it->ndim = m + 1;
}

/* All operands contiguous and of one shape: a single run. */
static bool init_flat(dl_iter *it, int nop, dl_tensor *const *op) {
    const dl_tensor *o = op[0];
    for (int k = 0; k < nop; k++) {
        if (op[k]->ndim != o->ndim || op[k]->numel != o->numel) return false;
        if (k && memcmp(op[k]->shape, o->shape, (size_t)o->ndim * sizeof(long))) return false;
        if (!dl_strides_are_contiguous(o->ndim, op[k]->shape, op[k]->stride)) return false;
    }
    it->nop = nop;
    it->ndim = 1;
    it->shape[0] = it->numel = o->numel;
    for (int k = 0; k < nop; k++) {
        it->ptr[k] = (char *)dl_ptr(op[k]);
        it->dtype[k] = op[k]->dtype;
        it->stride[0][k] = (long)dl_esize(op[k]);
    }
    return true;
}

void dl_iter_init(dl_iter *it, int nop, dl_tensor *const *op) {
    if (init_flat(it, nop, op)) return;
    dl_iter_begin(it, op[0]->ndim, op[0]->shape);
    for (int k = 0; k < nop; k++)
        dl_iter_operand(it, dl_ptr(op[k]), op[k]->dtype, op[k]->ndim, op[k]->shape, op[k]->stride);
    dl_iter_end(it);
}

/* `count` rows of dimension 0, which begin at ptr and lie along dimension 1. Of a constant nop the copies of addresses
 * are a few moves: of short rows these take as long as the loop. */
static inline __attribute__((always_inline)) void run_rows(const dl_iter *it, int nop, long count, char **ptr,
                                                           dl_loop loop, void *arg) {
    char *run[DL_ITER_MAX];
    for (long r = 0; r < count; r++) {
        for (int k = 0; k < nop; k++) run[k] = ptr[k], ptr[k] += it->stride[1][k];
        loop(it->shape[0], run, it->stride[0], arg);
    }
}

/* The part of a row from idx[0] on; n is its length. */
static void run_piece(const dl_iter *it, long n, char **ptr, dl_loop loop, void *arg) {
    char *run[DL_ITER_MAX];
    for (int k = 0; k < it->nop; k++) run[k] = ptr[k], ptr[k] += n * it->stride[0][k];
    loop(n, run, it->stride[0], arg);
}

/* Where a dimension has come to its end, the next one goes on. */
static void carry(const dl_iter *it, int from, long *idx, char **ptr) {
    for (int d = from; d < it->ndim && idx[d] == it->shape[d]; d++) {
        for (int k = 0; k < it->nop; k++) {
            ptr[k] -= it->stride[d][k] * it->shape[d];
            if (d + 1 < it->ndim) ptr[k] += it->stride[d + 1][k];
        }
        idx[d] = 0;
        if (d + 1 < it->ndim) idx[d + 1]++;
    }
}

/* Elements lo..hi in iteration order. */
static void walk(const dl_iter *it, long lo, long hi, dl_loop loop, void *arg) {
    long idx[DL_MAX_DIM] = {0}, rest = lo;
    char *ptr[DL_ITER_MAX];
    memcpy(ptr, it->ptr, (size_t)it->nop * sizeof *ptr);
    for (int d = 0; d < it->ndim && rest; d++) {
        idx[d] = rest % it->shape[d];
        rest /= it->shape[d];
        for (int k = 0; k < it->nop; k++) ptr[k] += idx[d] * it->stride[d][k];
    }
    while (lo < hi) {
        const long row = it->shape[0];
        if (idx[0] || it->ndim == 1 || hi - lo < row) {
            const long n = row - idx[0] < hi - lo ? row - idx[0] : hi - lo;
            run_piece(it, n, ptr, loop, arg);
            lo += n, idx[0] += n;
            carry(it, 0, idx, ptr);
            continue;
        }
        const long left = it->shape[1] - idx[1], whole = (hi - lo) / row, count = left < whole ? left : whole;
        switch (it->nop) {
        case 2: run_rows(it, 2, count, ptr, loop, arg); break;
        case 3: run_rows(it, 3, count, ptr, loop, arg); break;
        case 4: run_rows(it, 4, count, ptr, loop, arg); break;
        default: run_rows(it, it->nop, count, ptr, loop, arg);
        }
        lo += count * row, idx[1] += count;
        carry(it, 1, idx, ptr);
    }
}

void dl_iter_run_serial(const dl_iter *it, dl_loop loop, void *arg) {
    dl_stop stop = dl_stop_begin();
    for (long lo = 0, hi; lo < it->numel && !dl_stop_asked(&stop); lo = hi) {
        hi = lo + DL_ITER_BLOCK < it->numel ? lo + DL_ITER_BLOCK : it->numel;
        walk(it, lo, hi, loop, arg);
    }
    dl_stop_end(&stop);
}

void dl_cpu_for(long n, int threads, void (*task)(void *arg, long i), void *arg) {
    dl_stop stop = dl_stop_begin();
    if (threads == 1 || n == 1) {
        for (long i = 0; i < n && !dl_stop_asked(&stop); i++) task(arg, i);
    } else {
#pragma omp parallel for num_threads(threads) schedule(static)
        for (long i = 0; i < n; i++)
            if (!dl_stop_asked(&stop)) task(arg, i), dl_fp_hand_over();
    }
    dl_stop_end(&stop);
}

typedef struct clearing {
    char *p;
    long bytes, each;
} clearing;

static void clear_part(void *arg, long i) {
    const clearing *c = arg;
    const long at = i * c->each;
    memset(c->p + at, 0, (size_t)(c->bytes - at < c->each ? c->bytes - at : c->each));
}

void dl_cpu_clear(void *p, size_t bytes) {
    const int threads = dl_cpu_threads((long)bytes / 8); /* a word takes as long as an element of other work */
    clearing c = {p, (long)bytes, 8 * DL_ITER_BLOCK};
    if (c.bytes / threads < c.each) c.each = (c.bytes / threads + 64) / 64 * 64;
    dl_cpu_for((c.bytes + c.each - 1) / c.each, threads, clear_part, &c);
}

typedef struct job {
    const dl_iter *it;
    dl_loop loop;
    void *arg;
    long part;       /* elements of a task */
    int d;           /* the second dimension of tiles */
    long n0, nd;     /* sizes of tiles along dimensions 0 and d */
    long t0, t1;     /* numbers of tiles */
    unsigned across; /* operands that are read and lie along dimension d: tiles of them are transposed first */
} job;

static void run_part(void *arg, long i) {
    const job *j = (const job *)arg;
    long lo = i * j->part, hi = lo + j->part;
    walk(j->it, lo, hi < j->it->numel ? hi : j->it->numel, j->loop, j->arg);
}

/* ---- tiles: for operands laid out crosswise, so that each line of memory is used while it is in the cache */

enum { TILE_0 = 32, TILE_D = 16, TILED_FROM = 16384, LONG_TILE = 512, LENGTHENED_FROM = 64 };
enum { ACROSS_0 = 128, ACROSS_D = 32, ACROSS_MOST = 3, ACROSS_BYTES = 8 }; /* tiles with transposed operands */

/* A dimension along which some operand is dense that is not dense along dimension 0; 0 when there is none. */
static int crosswise(const dl_iter *it) {
    if (it->numel < TILED_FROM || it->shape[0] < 8) return 0;
    for (int k = 0; k < it->nop; k++) {
        long size = dl_dtype_size(it->dtype[k]);
        if (labs(it->stride[0][k]) < 8 * size) continue;
        for (int d = 1; d < it->ndim; d++)
            if (labs(it->stride[d][k]) == size && it->shape[d] >= 8) return d;
    }
    return 0;
}

/* Which operands from `first` on are such, of those that tiles have room for. */
static unsigned lie_across(const dl_iter *it, int d, int first) {
    unsigned which = 0;
    for (int k = first, n = 0; k < it->nop && n < ACROSS_MOST; k++) {
        const long size = dl_dtype_size(it->dtype[k]);
        if (it->stride[d][k] != size || it->stride[0][k] == size || !it->stride[0][k] || size > ACROSS_BYTES) continue;
        which |= 1u << k, n++;
    }
    return which;
}

/* n by `rows` elements at x, which lie along dimension d, into a tile whose rows lie along dimension 0. */
static void transpose_tile(const dl_iter *it, int k, long n, long rows, const char *x, char *tile) {
    const long size = dl_dtype_size(it->dtype[k]), step = it->stride[0][k];
    for (long at = 0; at < n; at += DL_TRANSPOSE_ROWS) {
        const long some = n - at < DL_TRANSPOSE_ROWS ? n - at : DL_TRANSPOSE_ROWS;
        DL_SIMD_PICK(dl_transpose)[size](rows, some, tile + at * size, ACROSS_0 * size, x + at * step, step);
    }
}

/* A tile whose operands in `across` are transposed, so that the loop finds their rows dense. */
static void run_across(const job *j, long n, long rows, char **ptr) {
    const dl_iter *it = j->it;
    _Alignas(64) char tile[ACROSS_MOST][ACROSS_0 * ACROSS_D * ACROSS_BYTES];
    char *run[DL_ITER_MAX];
    long step[DL_ITER_MAX], next[DL_ITER_MAX];
    for (int k = 0, t = 0; k < it->nop; k++) {
        step[k] = it->stride[0][k], next[k] = it->stride[j->d][k];
        if (!(j->across >> k & 1)) continue;
        transpose_tile(it, k, n, rows, ptr[k], tile[t]);
        ptr[k] = tile[t++], step[k] = dl_dtype_size(it->dtype[k]), next[k] = ACROSS_0 * step[k];
    }
    for (long r = 0; r < rows; r++) {
        memcpy(run, ptr, sizeof run);
        j->loop(n, run, step, j->arg);
        for (int k = 0; k < it->nop; k++) ptr[k] += next[k];
    }
}

static void run_tile(void *arg, long i) {
    const job *j = (const job *)arg;
    const dl_iter *it = j->it;
    long lo0 = i % j->t0 * j->n0, lod = i / j->t0 % j->t1 * j->nd, rest = i / j->t0 / j->t1;
    long n = it->shape[0] - lo0 < j->n0 ? it->shape[0] - lo0 : j->n0;
    long rows = it->shape[j->d] - lod < j->nd ? it->shape[j->d] - lod : j->nd;
    char *ptr[DL_ITER_MAX], *run[DL_ITER_MAX];
    for (int k = 0; k < it->nop; k++) ptr[k] = it->ptr[k] + lo0 * it->stride[0][k] + lod * it->stride[j->d][k];
    for (int d = 1; d < it->ndim; d++) {
        if (d == j->d) continue;
        for (int k = 0; k < it->nop; k++) ptr[k] += rest % it->shape[d] * it->stride[d][k];
        rest /= it->shape[d];
    }
    if (j->across) {
        run_across(j, n, rows, ptr);
        return;
    }
    for (long r = 0; r < rows; r++) {
        memcpy(run, ptr, sizeof run);
        j->loop(n, run, it->stride[0], j->arg);
        for (int k = 0; k < it->nop; k++) ptr[k] += it->stride[j->d][k];
    }
}

/* A longer dimension for the loop, where dimension 0 is so short that calls would take most of the time; 0: it is not,
 * or there is none. */
static int longer(const dl_iter *it) {
    if (it->numel < LENGTHENED_FROM || it->shape[0] >= DL_ITER_SHORT) return 0;
    for (int d = 1; d < it->ndim; d++)
        if (it->shape[d] >= 2 * DL_ITER_SHORT) return d;
    return 0;
}

/* Operands from `first_read` on are only read. */
static void run(const dl_iter *it, int first_read, dl_loop loop, void *arg) {
    long n = it->numel;
    if (n == 0) return;
    int threads = dl_cpu_threads(n);
    long part = n / threads < DL_ITER_BLOCK ? n / threads : DL_ITER_BLOCK;
    job j = {.it = it, .loop = loop, .arg = arg, .part = (part + 64) / 64 * 64, .n0 = TILE_0, .nd = TILE_D};
    dl_iter turned;
    if ((j.d = longer(it))) {
        turned = *it;
        swap_dims(&turned, 0, j.d);
        j.it = &turned, j.n0 = LONG_TILE, j.nd = DL_ITER_SHORT;
    } else if (!(j.d = crosswise(it))) {
        dl_cpu_for((n + j.part - 1) / j.part, threads, run_part, &j);
        return;
    } else if ((j.across = lie_across(it, j.d, first_read))) {
        j.n0 = ACROSS_0, j.nd = ACROSS_D;
    }
    j.t0 = (j.it->shape[0] + j.n0 - 1) / j.n0;
    j.t1 = (j.it->shape[j.d] + j.nd - 1) / j.nd;
    dl_cpu_for(n / j.it->shape[0] / j.it->shape[j.d] * j.t0 * j.t1, threads, run_tile, &j);
}

void dl_iter_run(const dl_iter *it, dl_loop loop, void *arg) { run(it, it->nop, loop, arg); }

/* ---- 16-bit operands */

enum { BLOCK = 1024 };

typedef struct half_run {
    const dl_iter *it;
    int nout;
    dl_loop loop;
    dl_some some;
    void *arg;
} half_run;

static bool is_half(int dtype) { return DL_BIT(dtype) & DL_HALVES; }

/* Gathers a strided run of 16-bit elements, or spreads one. */
static void half_pack(long n, const char *src, long stride, uint16_t *dst) {
    for (long i = 0; i < n; i++) memcpy(&dst[i], src + i * stride, 2);
}
static void half_unpack(long n, const uint16_t *src, char *dst, long stride) {
    for (long i = 0; i < n; i++) memcpy(dst + i * stride, &src[i], 2);
}

static void half_block(const half_run *h, long n, char **ptr, const long *stride) {
    _Alignas(64) float buf[DL_ITER_MAX][BLOCK]; /* vectors across lines of the cache take twice as long */
    uint16_t pack[BLOCK];
    char *p[DL_ITER_MAX];
    long s[DL_ITER_MAX];
    for (int k = 0; k < h->it->nop; k++) {
        dl_dtype dt = h->it->dtype[k];
        p[k] = ptr[k], s[k] = stride[k];
        if (!is_half(dt)) continue;
        p[k] = (char *)buf[k], s[k] = sizeof(float);
        if (k < h->nout) continue;
        if (stride[k] == 0) {
            dl_cpu_half_to_f32(1, ptr[k], dt, buf[k]);
            s[k] = 0;
        } else if (stride[k] == 2) {
            dl_cpu_half_to_f32(n, ptr[k], dt, buf[k]);
        } else {
            half_pack(n, ptr[k], stride[k], pack);
            dl_cpu_half_to_f32(n, pack, dt, buf[k]);
        }
    }
    h->loop(n, p, s, h->arg);
    for (int k = 0; k < h->nout; k++) {
        dl_dtype dt = h->it->dtype[k];
        if (!is_half(dt)) continue;
        if (stride[k] == 2) {
            dl_cpu_f32_to_half(n, buf[k], ptr[k], dt);
        } else {
            dl_cpu_f32_to_half(n, buf[k], pack, dt);
            half_unpack(n, pack, ptr[k], stride[k]);
        }
    }
}

static void half_loop(long n, char **ptr, const long *stride, void *arg) {
    const half_run *h = (const half_run *)arg;
    const long done = h->some ? h->some(n, ptr, stride, h->arg) : 0;
    for (int k = 0; done && k < h->it->nop; k++) ptr[k] += stride[k] * done;
    for (long i = done; i < n; i += BLOCK) {
        half_block(h, n - i < BLOCK ? n - i : BLOCK, ptr, stride);
        for (int k = 0; k < h->it->nop; k++) ptr[k] += stride[k] * BLOCK;
    }
}

void dl_iter_run_halves(const dl_iter *it, int nout, dl_loop loop, dl_some some, void *arg) {
    bool half = false;
    half_run h = {it, nout, loop, some, arg};
    for (int k = 0; k < it->nop; k++) {
        half = half || is_half(it->dtype[k]);
        if (it->dtype[k] != it->dtype[0]) h.some = NULL;
    }
    if (half)
        run(it, nout, half_loop, &h);
    else
        run(it, nout, loop, arg);
}

void dl_iter_run_f32(const dl_iter *it, int nout, dl_loop loop, void *arg) {
    dl_iter_run_halves(it, nout, loop, NULL, arg);
}
