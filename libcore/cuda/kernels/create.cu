/* Kernels of ops that make tensors from attributes, and of random numbers: the same bits as on the CPU, since both use
 * core/random/rng_math.h and number elements in logical order. */
#include "cuda/runtime/iter.cuh"
#include "cuda/kernels/random.cuh"
#include "cuda/kernels/index/scatter.h"
#include "ops/names/create.h"

enum { THREADS = 256 };

/* A thread makes some packs of 16 bytes; a fresh tensor is aligned. */
enum { PACKS = 4 };
template <class T, class F> __global__ void __launch_bounds__(THREADS) make_kernel(T *out, long n, F f) {
    enum { V = 16 / sizeof(T) };
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        long i = ((long)blockIdx.x * (THREADS * PACKS) + k * THREADS + threadIdx.x) * V;
        dl_vector<T, V> p;
#pragma unroll
        for (int e = 0; e < V; e++) p.v[e] = dl_down<T>(f(i + e));
        if (i + V <= n)
            *(dl_vector<T, V> *)(out + i) = p;
        else
            for (int e = 0; e < V; e++)
                if (i + e < n) out[i + e] = p.v[e];
    }
}

static unsigned blocks_for(const dl_gpu *g, long threads) {
    long blocks = (threads + THREADS - 1) / THREADS, most = 64L * g->sms;
    return (unsigned)(blocks < most ? blocks : most);
}

/* out[i] = f(i), converted to the dtype of the result, which is contiguous. */
template <unsigned SET, class F> static dl_status make(const dl_call *c, F f) {
    DL_USE_GPU(g, c->device);
    dl_tensor *o = c->out[0];
    if (!o->numel) return DL_OK;
    return dl_dispatch<SET>(o->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        long each = THREADS * PACKS * 16 / (long)sizeof(T);
        make_kernel<<<dl_blocks(o->numel, each), THREADS, 0, g->stream>>>(dl_data<T>(o), (long)o->numel, f);
        return dl_gpu_launched(g);
    });
}

static double number(const dl_aval *a) { return a->is_int ? (double)a->u.i : a->u.f; }

struct whole_f {
    long start, step;
    __device__ long operator()(long i) const { return start + i * step; }
};
struct steps_f {
    double start, step;
    __device__ double operator()(long i) const { return __dadd_rn(start, __dmul_rn((double)i, step)); }
};

static dl_status run_full(dl_call *c) {
    const dl_aval *v = ATTR(c, FULL_FILL_VALUE);
    return v->is_int ? make<DL_ALL>(c, whole_f{v->u.i, 0}) : make<DL_ALL>(c, steps_f{v->u.f, 0});
}
const dl_kernel dl_cuda_full = {run_full, NULL, DL_ALL, NULL, 0};

static dl_status run_arange(dl_call *c) {
    bool alone = !ATTR(c, ARANGE_END)->given;
    if (ATTR(c, ARANGE_START)->is_int && ATTR(c, ARANGE_STEP)->is_int)
        return make<DL_ANY>(c, whole_f{alone ? 0 : ATTR_I(c, ARANGE_START), ATTR_I(c, ARANGE_STEP)});
    return make<DL_ANY>(c, steps_f{alone ? 0 : number(ATTR(c, ARANGE_START)), number(ATTR(c, ARANGE_STEP))});
}
const dl_kernel dl_cuda_arange = {run_arange, NULL, DL_ANY, NULL, 0};

/* Counted from the nearer end, so that both ends are exact. */
struct between_f {
    double start, end, step;
    long steps;
    __device__ double operator()(long i) const {
        return steps == 1 || i < steps / 2 ? __dadd_rn(start, __dmul_rn((double)i, step))
                                           : __dsub_rn(end, __dmul_rn((double)(steps - 1 - i), step));
    }
};
static between_f between(double start, double end, long steps) {
    return {start, end, steps > 1 ? (end - start) / (double)(steps - 1) : 0, steps};
}
static dl_status run_linspace(dl_call *c) {
    return make<DL_NUMBERS>(c, between(ATTR_F(c, LINSPACE_START), ATTR_F(c, LINSPACE_END), ATTR_I(c, LINSPACE_STEPS)));
}
const dl_kernel dl_cuda_linspace = {run_linspace, NULL, DL_NUMBERS, NULL, 0};

/* Powers of 2, a quarter of the time: not exact in the last digits of f64. */
struct power2_f {
    between_f exponent;
    __device__ double operator()(long i) const { return exp2(exponent(i)); }
};
struct power_f {
    between_f exponent;
    double base;
    __device__ double operator()(long i) const { return pow(base, exponent(i)); }
};
static dl_status run_logspace(dl_call *c) {
    const double start = ATTR_F(c, LOGSPACE_START), end = ATTR_F(c, LOGSPACE_END), base = ATTR_F(c, LOGSPACE_BASE);
    const long steps = ATTR_I(c, LOGSPACE_STEPS);
    if (base <= 0 || c->out[0]->dtype == DL_F64) return make<DL_NUMBERS>(c, power_f{between(start, end, steps), base});
    return make<DL_NUMBERS>(c, power2_f{between(log2(base) * start, log2(base) * end, steps)});
}
const dl_kernel dl_cuda_logspace = {run_logspace, NULL, DL_NUMBERS, NULL, 0};

template <class T> __global__ void diagonal_kernel(T *out, long n, long step) {
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i * step] = dl_down<T>(1);
}
static dl_status run_eye(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *o = c->out[0];
    long rows = o->shape[0], cols = o->shape[1], n = rows < cols ? rows : cols;
    if (!n) return DL_OK;
    DL_TRY(dl_cuda_clear(g, o));
    return dl_dispatch<DL_ALL>(o->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        diagonal_kernel<<<dl_blocks(n, THREADS), THREADS, 0, g->stream>>>(dl_data<T>(o), n, cols + 1);
        return dl_gpu_launched(g);
    });
}
const dl_kernel dl_cuda_eye = {run_eye, NULL, DL_ALL, NULL, 0};

/* ---- random numbers */

__device__ static uint64_t bits_of(const dl_rng_key &k, long i) {
    dl_philox b = dl_philox_block(k.seed, k.stream, k.call, (uint64_t)i >> 1);
    return i & 1 ? (uint64_t)b.v[3] << 32 | b.v[2] : (uint64_t)b.v[1] << 32 | b.v[0];
}

/* EACH values of type R, made of the four words of a block; the first is that of element i. */
struct uniform_f {
    enum { EACH = 4 };
    typedef float R;
    int bits;
    __device__ void operator()(const dl_rng_key &, long, const dl_philox &b, R (&v)[EACH]) const {
        for (int j = 0; j < 4; j++) v[j] = dl_rng_uniform(b.v[j], bits);
    }
};
struct normal_f {
    enum { EACH = 4 };
    typedef float R;
    __device__ void operator()(const dl_rng_key &, long, const dl_philox &b, R (&v)[EACH]) const {
        dl_rng_normal(b.v[0], b.v[1], &v[0], &v[1]);
        dl_rng_normal(b.v[2], b.v[3], &v[2], &v[3]);
    }
};
struct uniform53_f {
    enum { EACH = 2 };
    typedef double R;
    __device__ void operator()(const dl_rng_key &, long, const dl_philox &b, R (&v)[EACH]) const {
        for (int j = 0; j < 2; j++) v[j] = dl_rng_uniform53(b.v[2 * j], b.v[2 * j + 1]);
    }
};
/* Of a range below 2**32 the product has 96 bits, and only where its second word is 0 can a number have to be drawn
 * again. */
struct integer_f {
    enum { EACH = 2 };
    typedef long R;
    uint64_t low, range;
    __device__ long one(const dl_rng_key &k, long i, uint64_t w) const {
        if (range >> 32 == 0) {
            uint64_t last = (uint64_t)(uint32_t)w * (uint32_t)range;
            uint64_t first = (w >> 32) * (uint32_t)range + (last >> 32);
            if ((uint32_t)first) return (long)(low + (first >> 32));
        }
        return (long)(low + dl_rng_below(k, (uint64_t)i, w, range));
    }
    __device__ void operator()(const dl_rng_key &k, long i, const dl_philox &b, R (&v)[EACH]) const {
        for (int j = 0; j < 2; j++) v[j] = one(k, i + j, (uint64_t)b.v[2 * j + 1] << 32 | b.v[2 * j]);
    }
};

template <class T, class F> __global__ void draw_kernel(T *out, long n, dl_gpu_key key, F f) {
    enum { V = F::EACH };
    const dl_rng_key k = key.numbered();
    long step = (long)gridDim.x * blockDim.x;
    for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; V * i < n; i += step) {
        typename F::R v[V];
        f(k, V * i, dl_philox_block(k.seed, k.stream, k.call, (uint64_t)i), v);
        dl_vector<T, V> p;
#pragma unroll
        for (int j = 0; j < V; j++) p.v[j] = dl_down<T>(v[j]);
        if (V * i + V <= n)
            *(dl_vector<T, V> *)(out + V * i) = p; /* a fresh tensor is aligned */
        else
            for (int j = 0; j < V && V * i + j < n; j++) out[V * i + j] = p.v[j];
    }
}

template <unsigned SET, class F> static dl_status draw(const dl_call *c, F f) {
    DL_USE_GPU(g, c->device);
    dl_tensor *o = c->out[0];
    if (!o->numel) return DL_OK;
    return dl_dispatch<SET>(o->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        unsigned blocks = blocks_for(g, o->numel / F::EACH + 1);
        draw_kernel<<<blocks, THREADS, 0, g->stream>>>(dl_data<T>(o), (long)o->numel, dl_gpu_key_of(g, c), f);
        return dl_gpu_launched(g);
    });
}

static dl_status run_rand(dl_call *c) {
    int dtype = c->out[0]->dtype;
    if (dtype == DL_F64) return draw<DL_BIT(DL_F64)>(c, uniform53_f());
    return draw<DL_FLOATS>(c, uniform_f{dtype == DL_F16 ? 11 : dtype == DL_BF16 ? 8 : 24});
}
const dl_kernel dl_cuda_rand = {run_rand, NULL, DL_FLOATS, NULL, 0};

static dl_status run_randn(dl_call *c) { return draw<DL_FLOATS>(c, normal_f()); }
const dl_kernel dl_cuda_randn = {run_randn, NULL, DL_FLOATS, NULL, 0};

static dl_status run_randint(dl_call *c) {
    uint64_t low = (uint64_t)ATTR_I(c, RANDINT_LOW);
    return draw<DL_ANY>(c, integer_f{low, (uint64_t)ATTR_I(c, RANDINT_HIGH) - low});
}
const dl_kernel dl_cuda_randint = {run_randint, NULL, DL_ANY, NULL, 0};

/* launch(elements of the input, of the result, g, how many, is the input aligned to 16 bytes) draws a number for each
 * element of the input. */
template <class F> static dl_status draw_for_each(dl_call *c, F launch) {
    DL_USE_GPU(g, c->device);
    dl_tensor *o = c->out[0], *x = dl_cuda_contiguous(g, c->in[0]);
    dl_tensor *flat = !x                    ? NULL
                      : dl_is_contiguous(o) ? dl_ref(o)
                                            : dl_tensor_empty(o->ndim, o->shape, (dl_dtype)o->dtype, c->device);
    dl_status s = flat ? DL_OK : dl_failed();
    if (s == DL_OK && o->numel)
        s = dl_dispatch<DL_FLOATS>(x->dtype, [&](auto tag) {
            typedef decltype(tag) T;
            launch((const T *)dl_data<T>(x), dl_data<T>(flat), g, (long)o->numel, (size_t)dl_ptr(x) % 16 == 0);
            return dl_gpu_launched(g);
        });
    if (s == DL_OK && flat != o) s = dl_cuda_copy(g, o, flat);
    dl_unref(x);
    dl_unref(flat);
    return s;
}

/* Four elements share a block of words. */
template <class T>
__global__ void toss_kernel(const T *p, T *out, long n, bool aligned, dl_gpu_key key, dl_fault_site site) {
    const dl_rng_key k = key.numbered();
    long step = (long)gridDim.x * blockDim.x;
    for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; 4 * i < n; i += step) {
        dl_philox b = dl_philox_block(k.seed, k.stream, k.call, (uint64_t)i);
        dl_vector<T, 4> v;
        if (aligned && 4 * i + 4 <= n) {
            v = *(const dl_vector<T, 4> *)(p + 4 * i);
        } else {
#pragma unroll
            for (int j = 0; j < 4; j++) v.v[j] = 4 * i + j < n ? p[4 * i + j] : dl_down<T>(0);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            double at = (double)dl_up(v.v[j]);
            bool good = at >= 0 && at <= 1;
            if (!good) dl_fault_raise(site, DL_FAULT_PROBABILITY, 0, 0);
            v.v[j] = dl_down<T>((int)(good && b.v[j] < dl_rng_threshold(at)));
        }
        if (4 * i + 4 <= n)
            *(dl_vector<T, 4> *)(out + 4 * i) = v;
        else
            for (int j = 0; j < 4 && 4 * i + j < n; j++) out[4 * i + j] = v.v[j];
    }
}
static dl_status run_bernoulli(dl_call *c) {
    return draw_for_each(c, [&](auto *x, auto *out, dl_gpu *g, long n, bool aligned) {
        toss_kernel<<<blocks_for(g, n / 4 + 1), THREADS, 0, g->stream>>>(x, out, n, aligned, dl_gpu_key_of(g, c),
                                                                         dl_gpu_site(g, c->op));
    });
}
const dl_kernel dl_cuda_bernoulli = {run_bernoulli, NULL, DL_FLOATS, NULL, 0};

/* ---- Poisson numbers of small rates: the count at which the share of the distribution reaches a uniform number */

/* Two elements share a block of words. The terms of the sum are those of POISSON_QUANTILE, divided by table. */
enum { RECIPROCALS = 256 };
__device__ inline double least_count(double rate, double u, const double *reciprocal) {
    double sum = exp(-rate), next = sum * rate, count = 0;
    for (int k = 1; sum < u && sum + next > sum; k++) {
        count += 1, sum += next;
        next = next * rate * (k + 1 < RECIPROCALS ? reciprocal[k + 1] : 1.0 / (k + 1));
    }
    return sum == sum ? count : sum;
}

template <class T>
__global__ void __launch_bounds__(THREADS) poisson_kernel(const T *rate, T *out, long n, bool aligned, dl_gpu_key key) {
    __shared__ double reciprocal[RECIPROCALS];
    for (int i = threadIdx.x; i < RECIPROCALS; i += THREADS) reciprocal[i] = 1.0 / i;
    __syncthreads();
    const dl_rng_key k = key.numbered();
    const long step = (long)gridDim.x * THREADS;
    for (long i = (long)blockIdx.x * THREADS + threadIdx.x; 2 * i < n; i += step) {
        const dl_philox b = dl_philox_block(k.seed, k.stream, k.call, (uint64_t)i);
        const bool both = 2 * i + 2 <= n;
        dl_vector<T, 2> v;
        if (aligned && both)
            v = *(const dl_vector<T, 2> *)(rate + 2 * i);
        else
            v.v[0] = rate[2 * i], v.v[1] = both ? rate[2 * i + 1] : rate[2 * i];
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const double u = dl_rng_uniform53(b.v[2 * j], b.v[2 * j + 1]);
            v.v[j] = dl_down<T>((calc_t<T>)least_count((double)dl_up(v.v[j]), u, reciprocal));
        }
        if (both)
            *(dl_vector<T, 2> *)(out + 2 * i) = v;
        else
            out[2 * i] = v.v[0];
    }
}

static dl_status run_poisson_few(dl_call *c) {
    return draw_for_each(c, [&](auto *x, auto *out, dl_gpu *g, long n, bool aligned) {
        poisson_kernel<<<blocks_for(g, n / 2 + 1), THREADS, 0, g->stream>>>(x, out, n, aligned, dl_gpu_key_of(g, c));
    });
}
const dl_kernel dl_cuda_poisson_few = {run_poisson_few, NULL, DL_FLOATS, NULL, 0};

/* ---- permutations: the order of random 64-bit keys, equal ones in the order of their numbers */

__global__ static void keys_kernel(uint64_t *key, long *number, long n, dl_gpu_key k) {
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) key[i] = bits_of(k.numbered(), i), number[i] = i;
}

/* Keys that are sorted by their bits from `low` on: runs of equal ones are sorted by the other bits. */
__global__ static void tidy_kernel(uint64_t *key, long *number, long n, int low) {
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x, end = i + 2;
    if (i + 1 >= n) return;
    uint64_t run = key[i] >> low;
    if (key[i + 1] >> low != run || (i && key[i - 1] >> low == run)) return;
    while (end < n && key[end] >> low == run) end++;
    for (long k = i + 1; k < end; k++) {
        uint64_t own = key[k];
        long mine = number[k], to = k;
        for (; to > i && key[to - 1] > own; to--) key[to] = key[to - 1], number[to] = number[to - 1];
        key[to] = own, number[to] = mine;
    }
}

/* The lowest bit to sort n random keys by: hardly any two of them agree in all bits above it. */
static int lowest_bit(long n) {
    int wanted = (2 * dl_bits(n) - 4 + 7) / 8 * 8;
    return wanted < 64 ? 64 - (wanted > 16 ? wanted : 16) : 0;
}

static dl_status run_randperm(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *o = c->out[0];
    long n = o->numel, one = 1;
    if (!n) return DL_OK;
    uint64_t *key = (uint64_t *)dl_gpu_take(g, 4 * sizeof(long) * (size_t)n), *key2 = key + n;
    long *number = (long *)(key2 + n), *sorted = number + n;
    if (!key) return dl_failed();
    keys_kernel<<<dl_blocks(n, THREADS), THREADS, 0, g->stream>>>(key, number, n, dl_gpu_key_of(g, c));
    dl_status s = dl_gpu_launched(g);
    int low = lowest_bit(n);
    if (s == DL_OK) s = dl_cuda_sort_pairs(g, key, key2, number, sorted, n, low, 64);
    if (s == DL_OK && low) {
        tidy_kernel<<<dl_blocks(n, THREADS), THREADS, 0, g->stream>>>(key2, sorted, n, low);
        s = dl_gpu_launched(g);
    }
    if (s == DL_OK) s = dl_cuda_copy_strided(g, 1, &n, dl_ptr(o), (dl_dtype)o->dtype, &one, sorted, DL_I64, &one);
    dl_gpu_drop(g, key);
    return s;
}
const dl_kernel dl_cuda_randperm = {run_randperm, NULL, DL_ANY, NULL, 0};
