/* Kernel of ranked_place for long rows: the place of the element that sorting would put at a rank, without sorting.
 * Each launch counts a digit of the keys (core/sort_key.h) that agree with the digits before it; the last block of a
 * row finds the digit that holds the rank. Then equal elements are counted by parts of the row, in order. */
#include "cuda/kernels/rows.cuh"

#include "core/sort_key.h"
#include "ops/names/sort.h"

enum {
    THREADS = 256,
    WARPS = THREADS / DL_WARP,
    DIGIT = 11,
    VALUES = 1 << DIGIT, /* of a digit; and the most parts of a row */
    EACH = VALUES / THREADS,
    COPIES = 4, /* of counts, since elements that are alike go to one of them */
    AHEAD = 4,
    BLOCKS = 4 /* for each multiprocessor */
};

/* Keys of up to 32 bits, in 32; else in 64. */
template <class U> using word_of = std::conditional_t<sizeof(U) <= 4, unsigned, uint64_t>;

/* What is known of the element of a row: digits of its key, and which one it is of those that agree with them. */
struct rank_state {
    uint64_t key, known;
    long left;
};

/* U: unsigned numbers of the size of an element. By row: counts [VALUES], NaN, blocks that have ended; all are 0
 * between launches, but for the NaN. */
template <class U> struct rank_job {
    const U *x;
    long *places;
    long rows, n, rank;
    bool middle, numbers; /* the rank in the middle: of numbers alone, or of all, where NaN, which comes last, wins */
    dl_order order;
    rank_state *state;
    unsigned *counts, *nans, *done;

    __device__ word_of<U> key(U x) const { return (word_of<U>)dl_order_key(order, x); }
    __device__ long first_rank(long nan) const {
        if (!middle) return rank;
        if (!numbers) return nan ? n - 1 : (n - 1) / 2;
        return nan < n ? (n - nan - 1) / 2 : 0;
    }
};

/* f(x) of the elements from..to that are this thread's, by 16 bytes where they are aligned. */
template <class U, class F> __device__ inline void each_of(const U *x, long from, long to, long first, long step, F f) {
    enum { PACK = 16 / sizeof(U) };
    typedef dl_vector<U, PACK> pack;
    const long packs = (size_t)(x + from) % 16 ? 0 : (to - from) / PACK;
    for (long i = first; i < packs; i += AHEAD * step) {
        pack p[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (i + k * step < packs) p[k] = ((const pack *)(x + from))[i + k * step];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (i + k * step < packs)
#pragma unroll
                for (int e = 0; e < PACK; e++) f(p[k].v[e]);
    }
    for (long i = from + packs * PACK + first; i < to; i += step) f(x[i]);
}

/* Which of the counts holds number *left of all that is counted; those before it are taken off. All threads of the
 * block take part and get both. */
__device__ inline unsigned holder(const unsigned *counts, long *left) {
    __shared__ unsigned warps[WARPS], value;
    __shared__ long rest;
    const unsigned lane = threadIdx.x % DL_WARP, warp = threadIdx.x / DL_WARP, first = threadIdx.x * EACH;
    unsigned count[EACH], own = 0;
#pragma unroll
    for (int k = 0; k < EACH; k++) own += count[k] = __ldcg(counts + first + k);
    unsigned upto = own;
#pragma unroll
    for (int by = 1; by < DL_WARP; by *= 2) {
        const unsigned left_of = __shfl_up_sync(0xffffffffu, upto, by);
        if (lane >= by) upto += left_of;
    }
    if (lane == DL_WARP - 1) warps[warp] = upto;
    __syncthreads();
    long before = (long)(upto - own);
    for (unsigned w = 0; w < warp; w++) before += warps[w];
    if (*left >= before && *left < before + own) {
        long more = *left - before;
        bool found = false;
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            if (!found && more < count[k]) found = true, value = first + k, rest = more;
            if (!found) more -= count[k];
        }
    }
    __syncthreads();
    const unsigned v = value;
    *left = rest;
    __syncthreads();
    return v;
}

/* True for the last block of a row, which can then read what the others have written. */
__device__ inline bool last_of_row(unsigned *done) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (!threadIdx.x) last = atomicInc(done, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    __threadfence();
    return last;
}

/* Rows along y. The digit of `width` bits from `shift` on. */
template <class U>
__global__ void __launch_bounds__(THREADS) digit_kernel(const __grid_constant__ rank_job<U> j, int shift, int width) {
    typedef word_of<U> K;
    __shared__ unsigned count[VALUES * COPIES], nans;
    const long row = blockIdx.y;
    const bool first = shift + width == 8 * (int)sizeof(U);
    rank_state *state = j.state + row;
    unsigned *all = j.counts + row * VALUES;
    const K prefix = first ? K(0) : (K)state->key, known = first ? K(0) : (K)state->known, mask = ((K)1 << width) - 1;
    for (int i = threadIdx.x; i < VALUES * COPIES; i += THREADS) count[i] = 0;
    if (!threadIdx.x) nans = 0;
    __syncthreads();
    unsigned *own = count + threadIdx.x % COPIES, nan = 0;
    each_of(j.x + row * j.n, 0L, j.n, (long)blockIdx.x * THREADS + threadIdx.x, (long)gridDim.x * THREADS, [&](U x) {
        const K key = j.key(x);
        nan += key == (K)j.order.all;
        if ((key & known) == prefix) atomicAdd(own + (unsigned)(key >> shift & mask) * COPIES, 1u);
    });
    if (first && j.order.inf && nan) atomicAdd(&nans, nan);
    __syncthreads();
    for (int v = threadIdx.x; v < VALUES; v += THREADS) {
        unsigned sum = 0;
#pragma unroll
        for (int k = 0; k < COPIES; k++) sum += count[v * COPIES + k];
        if (sum) atomicAdd(all + v, sum);
    }
    if (!threadIdx.x && nans) atomicAdd(j.nans + row, nans);
    if (!last_of_row(j.done + row)) return;
    long left = first ? j.first_rank(__ldcg(j.nans + row)) : state->left;
    const K v = holder(all, &left);
    for (int k = threadIdx.x; k < VALUES; k += THREADS) all[k] = 0;
    if (!threadIdx.x) *state = {(uint64_t)(prefix | v << shift), (uint64_t)(known | mask << shift), left};
}

/* Parts of rows along x: how many elements equal the one that is looked for. Of these the last block of a row finds the
 * one that is meant: in which part, in which of THREADS pieces of it, and where there. */
template <class U>
__global__ void __launch_bounds__(THREADS) place_kernel(const __grid_constant__ rank_job<U> j, long part) {
    typedef word_of<U> K;
    __shared__ unsigned equal;
    const long row = blockIdx.y, from = blockIdx.x * part;
    const U *x = j.x + row * j.n;
    const K key = (K)j.state[row].key;
    unsigned *counts = j.counts + row * VALUES, own = 0;
    if (!threadIdx.x) equal = 0;
    __syncthreads();
    each_of(x, from, from + part < j.n ? from + part : j.n, (long)threadIdx.x, (long)THREADS,
            [&](U v) { own += j.key(v) == key; });
    if (own) atomicAdd(&equal, own);
    __syncthreads();
    if (!threadIdx.x) counts[blockIdx.x] = equal;
    if (!last_of_row(j.done + row)) return;
    long left = j.state[row].left;
    const long begin = holder(counts, &left) * part, end = begin + part < j.n ? begin + part : j.n;
    const long each = (part + VALUES - 1) / VALUES;
    for (int k = threadIdx.x; k < VALUES; k += THREADS) {
        const long at = begin + k * each, to = at + each < end ? at + each : end;
        unsigned same = 0;
#pragma unroll 8
        for (long i = at; i < to; i++) same += j.key(x[i]) == key;
        counts[k] = same;
    }
    __threadfence();
    __syncthreads();
    long i = begin + holder(counts, &left) * each;
    if (threadIdx.x) return;
    for (;; i++)
        if (j.key(x[i]) == key && !left--) break;
    j.places[row] = i;
}

template <class U> static dl_status find_ranks(dl_gpu *g, const rank_job<U> &j) {
    enum { PACK = 16 / sizeof(U) };
    const unsigned rows = (unsigned)j.rows;
    const long wanted = dl_blocks(j.n, THREADS * PACK * AHEAD), most = dl_blocks(BLOCKS * (long)g->sms, j.rows);
    const dim3 blocks((unsigned)(wanted < most ? wanted : most), rows);
    for (int shift = 8 * (int)sizeof(U), width; shift;) {
        width = shift < DIGIT ? shift : DIGIT, shift -= width;
        digit_kernel<U><<<blocks, THREADS, 0, g->stream>>>(j, shift, width);
        DL_TRY(dl_gpu_launched(g));
    }
    const long parts = dl_blocks(j.n, THREADS * PACK), each = dl_blocks(j.n, parts < VALUES ? parts : (long)VALUES);
    const long part = dl_blocks(each, PACK) * (long)PACK;
    place_kernel<U><<<dim3(dl_blocks(j.n, part), rows), THREADS, 0, g->stream>>>(j, part);
    return dl_gpu_launched(g);
}

static dl_status run_ranked_place(dl_call *c) {
    DL_USE_GPU(g, c->device);
    const dl_aval *rank = ATTR(c, RANKED_PLACE_K);
    const long rows = (long)c->out[0]->numel;
    if (!rows) return DL_OK;
    dl_tensor *x = dl_cuda_contiguous(g, c->in[0]);
    const size_t words = (size_t)rows * (VALUES + 2),
                 bytes = (size_t)rows * sizeof(rank_state) + words * sizeof(unsigned);
    char *work = x ? (char *)dl_gpu_take(g, bytes) : NULL;
    dl_status s = work ? dl_gpu_check(g, cudaMemsetAsync(work, 0, bytes, g->stream), "clearing counts") : dl_failed();
    if (s == DL_OK)
        s = dl_dispatch_size(dl_esize(x), [&](auto tag) {
            typedef decltype(tag) U;
            rank_state *state = (rank_state *)work;
            unsigned *counts = (unsigned *)(state + rows);
            return find_ranks(g,
                              rank_job<U>{(const U *)dl_ptr(x), dl_data<long>(c->out[0]), rows, (long)x->numel / rows,
                                          rank->given ? rank->u.i : 0, !rank->given,
                                          ATTR_I(c, RANKED_PLACE_NUMBERS) != 0, dl_order_of((dl_dtype)x->dtype, false),
                                          state, counts, counts + rows * VALUES, counts + rows * (VALUES + 1)});
        });
    dl_gpu_drop(g, work);
    dl_unref(x);
    return s;
}
const dl_kernel dl_cuda_ranked_place = {run_ranked_place, NULL, DL_ANY, NULL, 0};
