/* Kernels of ops that make tensors from attributes. Values are made in blocks of f64, i64 or f32 and stored in the
 * dtype of the result. */
#include "cpu/kernels/random.h"
#include "cpu/runtime/iter.h"
#include "ops/rules/create.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 1024 };

typedef union block {
    double f64[BLOCK];
    long i64[BLOCK];
    float f32[BLOCK];
} block;

/* Makes the values of elements lo .. lo + n - 1 (lo divisible by BLOCK). */
typedef void (*maker)(const dl_call *c, long lo, long n, block *b);

typedef struct job {
    const dl_call *c;
    dl_dtype made;
    maker make;
} job;

static void fill_block(void *arg, long i) {
    const job *j = arg;
    dl_tensor *o = j->c->out[0];
    block b;
    long lo = i * BLOCK, n = o->numel - lo < BLOCK ? o->numel - lo : BLOCK, one = 1;
    void *to = (char *)dl_ptr(o) + lo * (long)dl_esize(o);
    /* a shorter block is made aside: a maker of pairs writes behind its last element */
    const bool there = o->dtype == (int8_t)j->made && n == BLOCK;
    j->make(j->c, lo, n, there ? to : &b);
    if (!there) dl_cpu_copy_strided(1, &n, to, o->dtype, &one, &b, j->made, &one);
}

static dl_status fill(dl_call *c, dl_dtype made, maker make) {
    long n = c->out[0]->numel;
    job j = {c, made, make};
    dl_cpu_for((n + BLOCK - 1) / BLOCK, dl_cpu_threads(n), fill_block, &j);
    return DL_OK;
}

static double number(const dl_aval *a) { return a->is_int ? (double)a->u.i : a->u.f; }

static dl_status run_full(dl_call *c) {
    dl_tensor *o = c->out[0];
    const dl_aval *v = ATTR(c, FULL_FILL_VALUE);
    double value[2] = {0}; /* as long as the largest element */
    long none[DL_MAX_DIM] = {0};
    bool zero = true;
    if (v->is_int)
        dl_store_i64(value, o->dtype, v->u.i);
    else
        dl_store_f64(value, o->dtype, v->u.f);
    for (size_t i = 0; i < sizeof value; i++) zero = zero && !((const char *)value)[i];
    if (zero && dl_is_dense(o))
        dl_cpu_clear(dl_ptr(o), (size_t)o->numel * dl_esize(o));
    else
        dl_cpu_copy_strided(o->ndim, o->shape, dl_ptr(o), o->dtype, o->stride, value, o->dtype, none);
    return DL_OK;
}
const dl_kernel dl_cpu_full = {.run = run_full, .dtypes = DL_ALL};

/* ---- sequences */

static void make_steps(const dl_call *c, long lo, long n, block *b) {
    bool alone = !ATTR(c, ARANGE_END)->given;
    double start = alone ? 0 : number(ATTR(c, ARANGE_START)), step = number(ATTR(c, ARANGE_STEP)), first = (double)lo;
    for (int i = 0; i < (int)n; i++) b->f64[i] = start + (first + i) * step;
}
static void make_whole_steps(const dl_call *c, long lo, long n, block *b) {
    long start = ATTR(c, ARANGE_END)->given ? ATTR_I(c, ARANGE_START) : 0, step = ATTR_I(c, ARANGE_STEP);
    for (long i = 0; i < n; i++) b->i64[i] = start + (lo + i) * step;
}
/* The same, when all of them are numbers of f64. */
static void make_exact_steps(const dl_call *c, long lo, long n, block *b) {
    const double start = ATTR(c, ARANGE_END)->given ? (double)ATTR_I(c, ARANGE_START) : 0,
                 step = (double)ATTR_I(c, ARANGE_STEP), first = start + (double)lo * step;
    for (int i = 0; i < (int)n; i++) b->f64[i] = first + i * step;
}
/* Vectors of f64 are made and converted faster than those of i64. */
static bool are_exact(const dl_call *c) {
    const double most = 1L << 52, start = fabs((double)ATTR_I(c, ARANGE_START)),
                 step = fabs((double)ATTR_I(c, ARANGE_STEP));
    return dl_dtype_is_float(c->out[0]->dtype) && start + step * (double)c->out[0]->numel < most;
}
static dl_status run_arange(dl_call *c) {
    bool whole = ATTR(c, ARANGE_START)->is_int && ATTR(c, ARANGE_STEP)->is_int;
    if (whole && are_exact(c)) return fill(c, DL_F64, make_exact_steps);
    return whole ? fill(c, DL_I64, make_whole_steps) : fill(c, DL_F64, make_steps);
}
const dl_kernel dl_cpu_arange = {.run = run_arange, .dtypes = DL_ANY};

/* Counted from the nearer end, so that both ends are exact. */
static void make_between(const dl_call *c, long lo, long n, block *b) {
    double start = ATTR_F(c, LINSPACE_START), end = ATTR_F(c, LINSPACE_END);
    long steps = ATTR_I(c, LINSPACE_STEPS);
    double step = steps > 1 ? (end - start) / (double)(steps - 1) : 0, first = (double)lo,
           left = (double)(steps - 1 - lo);
    long near = steps == 1 ? 1 - lo : steps / 2 - lo;
    int k = 0, m = (int)(near < 0 ? 0 : near < n ? near : n);
    for (; k < m; k++) b->f64[k] = start + (first + k) * step;
    for (; k < (int)n; k++) b->f64[k] = end - (left - k) * step;
}
static dl_status run_linspace(dl_call *c) { return fill(c, DL_F64, make_between); }
const dl_kernel dl_cpu_linspace = {.run = run_linspace, .dtypes = DL_NUMBERS};

static dl_status run_eye(dl_call *c) {
    dl_tensor *o = c->out[0];
    long n = o->shape[0] < o->shape[1] ? o->shape[0] : o->shape[1], step = o->shape[1] + 1, none = 0, value = 1;
    dl_cpu_clear(dl_ptr(o), (size_t)o->numel * dl_esize(o));
    dl_cpu_copy_strided(1, &n, dl_ptr(o), (dl_dtype)o->dtype, &step, &value, DL_I64, &none);
    return DL_OK;
}
const dl_kernel dl_cpu_eye = {.run = run_eye, .dtypes = DL_ALL};

/* ---- random numbers */

dl_rng_key dl_rng_key_of(const dl_call *c) {
    dl_rng_key k = {dl_seed_get(), c->rng, (uint32_t)c->stream};
    return k;
}

/* Bits of the significand of the result. */
static int precision(const dl_call *c) {
    return c->out[0]->dtype == DL_F16 ? 11 : c->out[0]->dtype == DL_BF16 ? 8 : 24;
}

static void make_uniform(const dl_call *c, long lo, long n, block *b) {
    uint32_t w[BLOCK];
    int bits = precision(c);
    DL_SIMD_PICK(dl_random_words)(dl_rng_key_of(c), (uint64_t)lo, n, w);
    for (long i = 0; i < n; i++) b->f32[i] = dl_rng_uniform(w[i], bits);
}
static void make_uniform53(const dl_call *c, long lo, long n, block *b) {
    uint32_t w[2 * BLOCK];
    DL_SIMD_PICK(dl_random_words)(dl_rng_key_of(c), 2 * (uint64_t)lo, 2 * n, w);
    for (long i = 0; i < n; i++) b->f64[i] = dl_rng_uniform53(w[2 * i], w[2 * i + 1]);
}
static dl_status run_rand(dl_call *c) {
    return c->out[0]->dtype == DL_F64 ? fill(c, DL_F64, make_uniform53) : fill(c, DL_F32, make_uniform);
}
const dl_kernel dl_cpu_rand = {.run = run_rand, .dtypes = DL_FLOATS};

/* Every dtype gets the numbers of f32, rounded. */
static void make_normal(const dl_call *c, long lo, long n, block *b) {
    uint32_t w[BLOCK];
    DL_SIMD_PICK(dl_random_words)(dl_rng_key_of(c), (uint64_t)lo, n + n % 2, w);
    DL_SIMD_PICK(dl_random_normals)(n + n % 2, w, b->f32);
}
static dl_status run_randn(dl_call *c) { return fill(c, DL_F32, make_normal); }
const dl_kernel dl_cpu_randn = {.run = run_randn, .dtypes = DL_FLOATS};

static void make_integers(const dl_call *c, long lo, long n, block *b) {
    uint32_t w[2 * BLOCK];
    dl_rng_key k = dl_rng_key_of(c);
    uint64_t low = (uint64_t)ATTR_I(c, RANDINT_LOW), range = (uint64_t)ATTR_I(c, RANDINT_HIGH) - low;
    DL_SIMD_PICK(dl_random_words)(k, 2 * (uint64_t)lo, 2 * n, w);
    for (long i = 0; i < n; i++) {
        uint64_t bits = (uint64_t)w[2 * i + 1] << 32 | w[2 * i];
        b->i64[i] = (long)(low + dl_rng_below(k, (uint64_t)(lo + i), bits, range));
    }
}
static dl_status run_randint(dl_call *c) { return fill(c, DL_I64, make_integers); }
const dl_kernel dl_cpu_randint = {.run = run_randint, .dtypes = DL_ANY};

/* ---- permutations: the order of random 64-bit keys, equal ones in the order of their numbers. What is sorted are the
 * upper bits of keys, with the numbers in the lower ones */

enum { DIGIT = 11, BUCKETS = 1 << DIGIT };

typedef struct permuted {
    dl_rng_key key;
    uint64_t *a, *b; /* n numbers each, sorted in turn */
    long n;
    int low, passes;        /* bits of a number; passes over digits from the top */
    long each;              /* numbers of a part, whole blocks of words */
    long (*count)[BUCKETS]; /* of each part, of each digit, the lowest first; then where the next number goes */
    dl_stop *stop;
} permuted;

static int shift_of(const permuted *p, int pass) { return 64 - (p->passes - pass) * DIGIT; }

/* The keys of a part, and how many have each digit. */
static void draw_part(void *arg, long part) {
    permuted *p = arg;
    const long end = (part + 1) * p->each < p->n ? (part + 1) * p->each : p->n;
    uint32_t w[2 * BLOCK];
    for (long lo = part * p->each; lo < end && !dl_stop_asked(p->stop); lo += BLOCK) {
        const long m = end - lo < BLOCK ? end - lo : BLOCK;
        DL_SIMD_PICK(dl_random_words)(p->key, 2 * (uint64_t)lo, 2 * m, w);
        for (long i = 0; i < m; i++) {
            const uint64_t key = (uint64_t)w[2 * i + 1] << 32 | w[2 * i];
            p->a[lo + i] = key >> p->low << p->low | (uint64_t)(lo + i);
        }
        for (int k = 0; k < p->passes; k++) {
            long *count = p->count[part * p->passes + k];
            for (long i = 0; i < m; i++) count[p->a[lo + i] >> shift_of(p, k) & (BUCKETS - 1)]++;
        }
    }
}

static void draw_keys(permuted *p, long parts) {
    dl_cpu_for(parts, (int)parts, draw_part, p);
    for (long k = p->passes; k < parts * p->passes; k++)
        for (int d = 0; d < BUCKETS; d++) p->count[k % p->passes][d] += p->count[k][d];
}

/* One pass of a stable radix sort. */
static void sort_pass(permuted *p, int pass) {
    long *at = p->count[pass], sum = 0;
    const int shift = shift_of(p, pass);
    uint64_t *from = p->a, *to = p->b;
    for (int d = 0; d < BUCKETS; d++) {
        const long count = at[d];
        at[d] = sum;
        sum += count;
    }
    const long n = p->n;
    DL_CPU_EACH (i, n, p->stop) {
        const uint64_t v = from[i];
        to[at[v >> shift & (BUCKETS - 1)]++] = v;
    }
    p->a = to, p->b = from;
}

static uint64_t key_at(const permuted *p, uint64_t sorted) {
    const uint64_t number = sorted & (((uint64_t)1 << p->low) - 1), odd = number & 1;
    uint32_t w[4]; /* words come in fours */
    DL_SIMD_PICK(dl_random_words)(p->key, 2 * (number - odd), 4, w);
    return (uint64_t)w[2 * odd + 1] << 32 | w[2 * odd];
}

/* Where the upper bits of keys are equal, which is rare, whole keys are made anew. */
static bool is_after(const permuted *p, uint64_t x, uint64_t y) {
    if ((x ^ y) >> p->low) return x > y;
    const uint64_t a = key_at(p, x), b = key_at(p, y);
    return a != b ? a > b : x > y;
}

/* Sorts by the lower digits what the passes over the upper ones left as equal: an insertion sort of near neighbours. */
static void insert(permuted *p) {
    uint64_t *a = p->a;
    const int low = p->low;
    DL_CPU_EACH (i, p->n - 1, p->stop) {
        const uint64_t v = a[i + 1];
        if (a[i] >> low < v >> low) continue;
        long k = i + 1;
        for (; k > 0 && is_after(p, a[k - 1], v); k--) a[k] = a[k - 1];
        a[k] = v;
    }
}

static dl_status run_randperm(dl_call *c) {
    dl_tensor *o = c->out[0];
    const long n = o->numel, one = 1;
    if (!n) return DL_OK;
    dl_stop stop = dl_stop_begin();
    permuted p = {.key = dl_rng_key_of(c), .n = n, .low = 64 - __builtin_clzl((unsigned long)n), .stop = &stop};
    p.passes = n <= 32 ? 0 : n <= 1 << 24 ? 2 : 3;
    const long parts = dl_cpu_threads(n);
    p.each = ((n + parts - 1) / parts + BLOCK - 1) / BLOCK * BLOCK;
    const size_t numbers = 2 * (size_t)n * sizeof(uint64_t), counts = (size_t)(parts * p.passes) * sizeof *p.count;
    void *room = dl_host_alloc(numbers + counts);
    if (!room) return dl_stop_end(&stop), dl_failed();
    p.a = room, p.b = p.a + n, p.count = (void *)(p.b + n);
    memset(p.count, 0, counts);
    draw_keys(&p, parts);
    for (int k = 0; k < p.passes && !stop.incomplete; k++) sort_pass(&p, k);
    if (!stop.incomplete) insert(&p);
    const uint64_t number = ((uint64_t)1 << p.low) - 1;
    DL_CPU_EACH (i, n, &stop) p.a[i] &= number;
    dl_stop_end(&stop);
    dl_cpu_copy_strided(1, &n, dl_ptr(o), o->dtype, &one, p.a, DL_I64, &one);
    dl_host_free(room, numbers + counts);
    return DL_OK;
}
const dl_kernel dl_cpu_randperm = {.run = run_randperm, .dtypes = DL_ANY};

/* ---- bernoulli */

typedef struct draws {
    const dl_call *c;
    dl_first_error failed;
} draws;

#define DRAW(T)                                                                                                        \
    static void draw_##T(draws *d, const T *p, T *o, long n, const uint32_t *w) {                                      \
        for (long i = 0; i < n; i++) {                                                                                 \
            const double share = (double)p[i];                                                                         \
            if (!(share >= 0 && share <= 1)) {                                                                         \
                dl_fail(DL_ERR_VALUE, "a probability must be between 0 and 1, not %g", share);                         \
                dl_first_error_keep(&d->failed);                                                                       \
                return;                                                                                                \
            }                                                                                                          \
            o[i] = (T)(w[i] < dl_rng_threshold(share));                                                                \
        }                                                                                                              \
    }
DRAW(float)
DRAW(double)

static void draw_block(void *arg, long k) {
    draws *d = arg;
    const dl_tensor *x = d->c->in[0], *o = d->c->out[0];
    const long lo = k * BLOCK, n = x->numel - lo < BLOCK ? x->numel - lo : BLOCK;
    uint32_t w[BLOCK];
    DL_SIMD_PICK(dl_random_words)(dl_rng_key_of(d->c), (uint64_t)lo, n, w);
    if (x->dtype == DL_F32)
        draw_float(d, (const float *)dl_ptr(x) + lo, (float *)dl_ptr(o) + lo, n, w);
    else
        draw_double(d, (const double *)dl_ptr(x) + lo, (double *)dl_ptr(o) + lo, n, w);
}

static dl_status plain_bernoulli(dl_call *c) {
    draws d = {.c = c};
    const long n = c->in[0]->numel;
    dl_cpu_for((n + BLOCK - 1) / BLOCK, dl_cpu_threads(n), draw_block, &d);
    return dl_first_error_raise(&d.failed);
}
DL_CPU_KERNEL(bernoulli, plain_bernoulli, true, DL_FLOATS)
DL_CPU_MADE_OF_ROWS(poisson_few)
DL_CPU_MADE_OF_ROWS(logspace)
