/* Kernel of dropout and its fused gradient. The mask of element i, in logical order, is word i % 4 of block i / 4 of
 * the call's random numbers, as on the CPU. */
#include "cuda/runtime/iter.cuh"
#include "cuda/kernels/random.cuh"
#include "ops/names/norm.h"

enum { EACH = 4 }; /* elements of a thread: the words of a block */

/* Multiplied by 0, not set to it, so that NaN stays NaN. */
template <class T> struct drop {
    dl_gpu_key key;
    uint64_t least; /* the smallest word that keeps an element; 2**32 keeps none */
    calc_t<T> scale;
    __device__ T of(uint32_t word, T x, bool *keep) const {
        *keep = word >= least;
        return dl_down<T>(dl_up(x) * (*keep ? scale : calc_t<T>(0)));
    }
};

/* Contiguous operands: one block of random words a thread. */
template <class T>
__global__ void __launch_bounds__(DL_BLOCK) flat_kernel(const T *x, T *y, bool *mask, long n, drop<T> f) {
    long i = ((long)blockIdx.x * DL_BLOCK + threadIdx.x) * EACH;
    if (i >= n) return;
    dl_rng_key key = f.key.numbered();
    dl_philox w = dl_philox_block(key.seed, key.stream, key.call, (uint64_t)i / 4);
    if (i + EACH <= n) {
        dl_vector<T, EACH> in = *(const dl_vector<T, EACH> *)(x + i), out;
        dl_vector<bool, EACH> keep;
#pragma unroll
        for (int j = 0; j < EACH; j++) out.v[j] = f.of(w.v[j], in.v[j], &keep.v[j]);
        *(dl_vector<T, EACH> *)(y + i) = out;
        *(dl_vector<bool, EACH> *)(mask + i) = keep;
    } else {
        for (int j = 0; i + j < n; j++) y[i + j] = f.of(w.v[j], x[i + j], mask + i + j);
    }
}

/* Operands: y, mask, x, the element's number. */
template <class T> struct anywhere {
    drop<T> f;
    __device__ void operator()(char *const *p) const {
        uint32_t w = dl_rng_word(f.key.numbered(), (uint64_t)p[3]);
        *(T *)p[0] = f.of(w, *(const T *)p[2], (bool *)p[1]);
    }
};

static bool aligned(const dl_tensor *t) {
    size_t pack = dl_esize(t) * EACH;
    return dl_is_contiguous(t) && (size_t)dl_ptr(t) % (pack < 16 ? pack : 16) == 0;
}

template <class T> static dl_status fill(dl_gpu *g, dl_tensor *x, dl_tensor *y, dl_tensor *mask, const drop<T> &f) {
    if (aligned(x) && aligned(y) && aligned(mask)) {
        flat_kernel<T><<<dl_blocks(y->numel, DL_BLOCK * EACH), DL_BLOCK, 0, g->stream>>>(
            dl_data<T>(x), dl_data<T>(y), dl_data<bool>(mask), (long)y->numel, f);
        return dl_gpu_launched(g);
    }
    long count[DL_MAX_DIM];
    dl_strides_contiguous(y->ndim, y->shape, count);
    dl_it it;
    dl_it_begin(&it, y->ndim, y->shape);
    dl_it_tensor(&it, y), dl_it_tensor(&it, mask), dl_it_tensor(&it, x);
    dl_it_count(&it, y->ndim, y->shape, count);
    dl_it_end(&it);
    return dl_places<4>(g, it, anywhere<T>{f});
}

/* Not training: the output is the input itself. */
static dl_status run_dropout(dl_call *c) {
    DL_USE_GPU(g, c->device);
    if (!ATTR_I(c, DROPOUT_TRAINING) || !c->out[0]->numel) return DL_OK;
    double p = ATTR_F(c, DROPOUT_P);
    return dl_dispatch<DL_FLOATS>(c->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        drop<T> f = {dl_gpu_key_of(g, c), p == 1 ? (uint64_t)1 << 32 : dl_rng_threshold(p),
                     (calc_t<T>)(p == 1 ? 0 : 1 / (1 - p))};
        return fill<T>(g, c->in[0], c->out[0], OUTPUT(c, DROPOUT_MASK), f);
    });
}

template <class C> struct kept {
    C scale;
    __device__ C operator()(C g, bool keep) const { return g * (keep ? C(1) : C(0)) * scale; }
};

static dl_status grad_dropout(dl_back *b) {
    double p = ATTR_F(b, DROPOUT_P);
    if (!ATTR_I(b, DROPOUT_TRAINING)) return dl_give(b, 0, dl_ref(b->g[0]));
    dl_tensor *mask = OUT_(DROPOUT_MASK);
    dl_gpu *gpu = mask ? dl_gpu_use(mask->st->device) : NULL;
    dl_tensor *dx = gpu ? dl_tmp(b, dl_cuda_empty_like(mask, (dl_dtype)b->g[0]->dtype)) : NULL;
    if (!dx) return dl_failed();
    dl_it it = dl_it_of({dx, b->g[0], mask});
    dl_status s = dl_dispatch<DL_FLOATS>(dx->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        typedef calc_t<T> C;
        return dl_each<kept<C>, T, T, bool>(gpu, it, kept<C>{(C)(p < 1 ? 1 / (1 - p) : 0)});
    });
    return s == DL_OK ? dl_give(b, 0, dl_ref(dx)) : s;
}

const dl_kernel dl_cuda_dropout = {run_dropout, grad_dropout, DL_FLOATS, NULL, 0};
