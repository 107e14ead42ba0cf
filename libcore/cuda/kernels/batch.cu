/* Batches of a split that lives on the device: gathered by the order of the epoch, and changed by the transforms of
 * data/transforms/transform.c with the same bits (this file is compiled without contraction). A block changes a sample.
 */
#include "cuda/runtime/graph.h"
#include "cuda/runtime/iter.cuh"
#include "data/transforms/transform.h"

enum { THREADS = 256 };

typedef struct steps {
    int n;
    struct {
        int kind;
        double p[DL_DEVICE_TRANSFORM_PARAMS];
    } step[DL_MAX_TRANSFORMS];
} steps;

/* A sample under change; all threads of the block share it. */
typedef struct sample {
    float *x, *tmp;
    long n, c, h, w;
} sample;

#define EACH(i, n) for (long i = threadIdx.x; i < (n); i += THREADS)

__device__ static void keep_copy(const sample &s) {
    EACH(i, s.n) s.tmp[i] = s.x[i];
    __syncthreads();
}

/* x[c][i][j] = f(plane of c in the copy, i, j) */
template <class F> __device__ void redraw(const sample &s, F f) {
    keep_copy(s);
    EACH(k, s.n) {
        long i = k / s.w % s.h, j = k % s.w, c = k / (s.w * s.h);
        s.x[k] = f(s.tmp + c * s.h * s.w, i, j);
    }
}

__device__ static void dev_normalize(const sample &s, const double *p, dl_draw *r) {
    EACH(i, s.n) {
        long c = i / (s.h * s.w);
        float mean = (float)dl_number_of(p, c), scale = (float)(1 / dl_number_of(p + 5, c));
        s.x[i] = (s.x[i] - mean) * scale;
    }
}

__device__ static void dev_flip(const sample &s, const double *p, dl_draw *r) {
    if (dl_draw_unit(r) >= p[0]) return;
    redraw(s, [&](const float *plane, long i, long j) { return plane[i * s.w + s.w - 1 - j]; });
}

__device__ static void dev_vflip(const sample &s, const double *p, dl_draw *r) {
    if (dl_draw_unit(r) >= p[0]) return;
    redraw(s, [&](const float *plane, long i, long j) { return plane[(s.h - 1 - i) * s.w + j]; });
}

__device__ static void dev_shift(const sample &s, const double *p, dl_draw *r) {
    uint32_t range = 2 * (uint32_t)p[0] + 1;
    long dy = (long)dl_draw_below(r, range) - (long)p[0], dx = (long)dl_draw_below(r, range) - (long)p[0];
    if (!dy && !dx) return;
    redraw(s, [&](const float *plane, long i, long j) {
        long y = i - dy, x = j - dx;
        return y >= 0 && y < s.h && x >= 0 && x < s.w ? plane[y * s.w + x] : (float)p[1];
    });
}

__device__ static void dev_crop(const sample &s, const double *p, dl_draw *r) { dev_shift(s, p, r); }

__device__ static void dev_rotate(const sample &s, const double *p, dl_draw *r) {
    double sine, cosine, cy = (double)(s.h - 1) / 2, cx = (double)(s.w - 1) / 2;
    dl_fixed_sincos(dl_draw_in(r, -p[0], p[0]) / 360, &sine, &cosine);
    redraw(s, [&](const float *plane, long i, long j) {
        double dy = (double)i - cy, dx = (double)j - cx;
        return dl_pixel_between(plane, s.h, s.w, cy + cosine * dy - sine * dx, cx + sine * dy + cosine * dx,
                                (float)p[1]);
    });
}

__device__ static void dev_cutout(const sample &s, const double *p, dl_draw *r) {
    long size = (long)p[0], y = (long)dl_draw_below(r, (uint32_t)s.h), x = (long)dl_draw_below(r, (uint32_t)s.w);
    long i0 = y - size / 2, j0 = x - size / 2;
    EACH(k, s.n) {
        long i = k / s.w % s.h, j = k % s.w;
        if (i >= i0 && i < i0 + size && j >= j0 && j < j0 + size) s.x[k] = (float)p[1];
    }
}

/* Element i takes draws 2 i and 2 i + 1 from here on, so that no thread waits for another. */
__device__ static void dev_noise(const sample &s, const double *p, dl_draw *r) {
    EACH(i, s.n) {
        uint64_t first = r->block * 4 - (uint64_t)r->left + 2 * (uint64_t)i;
        uint32_t word[2];
        for (int k = 0; k < 2; k++)
            word[k] = dl_philox_block(r->seed, DL_STREAM_DATA, r->call, (first + k) / 4).v[(first + k) % 4];
        float z, other;
        dl_rng_normal(word[0], word[1], &z, &other);
        s.x[i] += (float)(p[0] * (double)z);
    }
    uint64_t next = r->block * 4 - (uint64_t)r->left + 2 * (uint64_t)s.n;
    r->block = next / 4, r->left = 0;
    for (uint64_t k = 0; k < next % 4; k++) dl_draw_u32(r);
}

__device__ static void change(const sample &s, const steps &t, dl_draw *r) {
    for (int i = 0; i < t.n; i++) {
        __syncthreads();
        switch (t.step[i].kind) {
#define TRANSFORM(name, ...)                                                                                           \
    case DL_TRANSFORM_##name:                                                                                          \
        dev_##name(s, t.step[i].p, r);                                                                                 \
        break;
#include "data/transforms/transforms.def"
#undef TRANSFORM
        }
    }
}

/* The sample that a block makes: its place in the split. */
__device__ static long number_of(const dl_control *c, const dl_batch_source &f) {
    long at = c->from + blockIdx.x;
    return f.order ? f.order[at] : at;
}

__device__ static void give_target(const dl_batch_source &f, long i, unsigned *y) {
    EACH(k, f.target / 4) y[blockIdx.x * (f.target / 4) + k] = ((const unsigned *)f.y)[i * (f.target / 4) + k];
}

/* V words of four bytes of a sample: numbers of a table, in one plane, or what the sample is made of. */
template <int V> __device__ void give(const dl_batch_source &f, const dl_divisor &plane, long i, uint32_t k, float *x) {
    if (!f.lut) {
        *(dl_vector<unsigned, V> *)(x + k) = *(const dl_vector<unsigned, V> *)((const unsigned *)f.x + i * f.numel + k);
        return;
    }
    dl_vector<unsigned char, V> from =
        *(const dl_vector<unsigned char, V> *)((const unsigned char *)f.x + i * f.numel + k);
    const float *lut = f.lut + plane.quotient(k) * 256;
    dl_vector<float, V> p;
#pragma unroll
    for (int j = 0; j < V; j++) p.v[j] = lut[from.v[j]];
    *(dl_vector<float, V> *)(x + k) = p;
}

/* As they are; several blocks make a sample. */
template <int V>
__global__ void __launch_bounds__(THREADS) gather_kernel(const dl_control *c, const __grid_constant__ dl_batch_source f,
                                                         dl_divisor plane, float *x, unsigned *y) {
    long i = number_of(c, f);
    for (uint32_t k = (blockIdx.y * THREADS + threadIdx.x) * V; k < f.numel; k += gridDim.y * (THREADS * V))
        give<V>(f, plane, i, k, x + blockIdx.x * f.numel);
    if (!blockIdx.y) give_target(f, i, y);
}

__global__ static void __launch_bounds__(THREADS)
    change_kernel(const dl_control *c, const __grid_constant__ dl_batch_source f, dl_divisor plane,
                  const __grid_constant__ steps t, float *x, unsigned *y, float *tmp) {
    long i = number_of(c, f), to = blockIdx.x * f.numel;
    EACH(k, f.numel) give<1>(f, plane, i, (uint32_t)k, x + to);
    give_target(f, i, y);
    sample s = {x + to, tmp + to, f.numel, f.c, f.h, f.w};
    dl_draw r = dl_draw_begin(f.seed, DL_FOR_TRANSFORM, (uint64_t)c->epoch, (uint64_t)i);
    change(s, t, &r);
}

/* Without a table a sample is so many words; `numel` counts them. */
static dl_batch_source in_words(const dl_batch_source *f) {
    dl_batch_source w = *f;
    if (!f->lut) w.numel = w.plane = f->numel * (f->size / 4);
    return w;
}

dl_status dl_cuda_make_batch(dl_gpu *g, const dl_control *c, const dl_batch_source *of, void *x, void *y, long n) {
    steps t = {};
    float *tmp = NULL;
    dl_batch_source words = in_words(of), *f = &words;
    if (f->numel >> 30)
        return dl_fail_hint(DL_ERR_UNSUPPORTED, "cut them into parts", "samples of %ld numbers are too large for a GPU",
                            of->numel);
    if (f->transforms) {
        t.n = f->transforms->n;
        for (int i = 0; i < t.n; i++) {
            t.step[i].kind = f->transforms->step[i].kind;
            memcpy(t.step[i].p, f->transforms->step[i].p, sizeof t.step[i].p);
        }
    }
    if (t.n && !(tmp = (float *)dl_gpu_take(g, (size_t)(n * f->numel) * sizeof *tmp))) return dl_failed();
    dl_divisor plane((uint32_t)f->plane);
    bool fours = f->numel % 4 == 0 && f->plane % 4 == 0 && (size_t)f->x % 16 == 0 && (size_t)x % 16 == 0;
    long each = THREADS * (fours ? 4L : 1L);
    long parts = (f->numel + each - 1) / each;
    dim3 grid((unsigned)n, parts < 1 ? 1 : parts < 65535 ? (unsigned)parts : 65535);
    if (t.n)
        change_kernel<<<(unsigned)n, THREADS, 0, g->stream>>>(c, *f, plane, t, (float *)x, (unsigned *)y, tmp);
    else if (fours)
        gather_kernel<4><<<grid, THREADS, 0, g->stream>>>(c, *f, plane, (float *)x, (unsigned *)y);
    else
        gather_kernel<1><<<grid, THREADS, 0, g->stream>>>(c, *f, plane, (float *)x, (unsigned *)y);
    dl_status s = dl_gpu_launched(g);
    dl_gpu_drop(g, tmp);
    return s;
}
