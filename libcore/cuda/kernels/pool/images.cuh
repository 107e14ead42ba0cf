/* Images [N,C,H,W] of any strides, in packs of elements that lie side by side. */
#pragma once

#include "cuda/runtime/iter.cuh"

/* N batches of images, the first one the result. A thread makes a pack of it: elements side by side in a row or, where
 * channels are `last`, across channels. Strides in bytes, as n, c, h, w. */
template <int N> struct dl_frame {
    long shape[4], stride[N][4]; /* the shape is the result's */
    char *ptr[N];
    int pack, channel; /* the first of the channels here */
    bool last;
    uint32_t count; /* packs */
    dl_divisor size[3];
};

/* Where a pack begins: its (first) channel, row and column in the result, and that channel's plane of each batch. */
template <int N> struct dl_spot {
    int c, y, x;
    char *plane[N];
};

template <bool LAST, int P, int N> __device__ inline dl_spot<N> dl_frame_at(const dl_frame<N> &f, uint32_t i) {
    dl_spot<N> s;
    uint32_t rest[4];
    rest[0] = i;
#pragma unroll
    for (int k = 0; k < 3; k++) {
        uint32_t q = f.size[k].quotient(rest[k]);
        rest[k] -= q * f.size[k].d;
        rest[k + 1] = q;
    }
    long n = rest[3], c = LAST ? rest[0] * P : rest[2];
    s.c = (int)c + f.channel, s.y = (int)rest[LAST ? 2 : 1], s.x = (int)(LAST ? rest[1] : rest[0] * P);
#pragma unroll
    for (int k = 0; k < N; k++) s.plane[k] = f.ptr[k] + n * f.stride[k][0] + c * f.stride[k][1];
    return s;
}

/* P channels; `repeated`: all are one. */
template <class T, int P> __device__ inline dl_vector<T, P> dl_channels_at(const char *p, bool repeated) {
    if (!repeated) return *(const dl_vector<T, P> *)p;
    dl_vector<T, P> v;
#pragma unroll
    for (int e = 0; e < P; e++) v.v[e] = *(const T *)p;
    return v;
}

static inline void dl_frame_operand(long (&stride)[4], char **ptr, const dl_tensor *t) {
    *ptr = (char *)dl_ptr(t);
    for (int d = 0; d < 4; d++) stride[d] = t->stride[d] * (long)dl_esize(t);
}

/* t[0] is the result. With channels first, packs are used when the first `results` tensors allow it; the others are
 * read by element, so that threads of packs of f64 would read too far from each other. */
template <int N> dl_frame<N> dl_frame_of(const dl_tensor *const (&t)[N], int results) {
    enum { PACK = 4 };
    dl_frame<N> f = {};
    memcpy(f.shape, t[0]->shape, sizeof f.shape);
    f.last = t[0]->stride[1] == 1 && t[0]->shape[1] > 1;
    int along = f.last ? 1 : 3;
    bool packs = f.shape[along] % PACK == 0 && (f.last || dl_esize(t[0]) < sizeof(double));
    for (int k = 0; k < N; k++) {
        dl_frame_operand(f.stride[k], &f.ptr[k], t[k]);
        if (k >= results && (!f.last || !f.stride[k][1])) continue;
        size_t size = dl_esize(t[k]), all = (size_t)f.ptr[k], line = size * PACK;
        for (int d = 0; d < 4; d++)
            if (d != along) all |= (size_t)f.stride[k][d];
        packs = packs && f.stride[k][along] == (long)size && all % (line < 16 ? line : 16) == 0;
    }
    f.pack = packs ? PACK : 1;
    return f;
}

/* launch(f) for the frame or, where it has too many packs, for its parts. */
template <int N, class G> dl_status dl_frame_run(dl_frame<N> f, G launch) {
    const double most = 0x7fffff00;
    double packs = (double)f.shape[0] * (double)f.shape[1] * (double)f.shape[2] * (double)f.shape[3] / f.pack;
    if (!packs) return DL_OK;
    if (packs > most && f.shape[0] == 1 && f.shape[1] <= f.pack)
        return dl_fail(DL_ERR_SHAPE, "image planes must have fewer than 2^31 pixels");
    if (packs > most) {
        dl_frame<N> rest = f;
        int d = f.shape[0] > 1 ? 0 : 1;
        long half = (f.shape[d] / 2 + f.pack - 1) / f.pack * f.pack;
        if (d == 0) half = f.shape[0] / 2;
        f.shape[d] = half, rest.shape[d] -= half;
        if (d) rest.channel += (int)half;
        for (int k = 0; k < N; k++) rest.ptr[k] += half * f.stride[k][d];
        dl_status s = dl_frame_run(f, launch);
        return s == DL_OK ? dl_frame_run(rest, launch) : s;
    }
    f.count = (uint32_t)packs;
    const long first[3] = {f.shape[3] / f.pack, f.shape[2], f.shape[1]};
    const long last[3] = {f.shape[1] / f.pack, f.shape[3], f.shape[2]};
    for (int k = 0; k < 3; k++) f.size[k] = dl_divisor((uint32_t)(f.last ? last : first)[k]);
    return launch(f);
}

/* launch(f, P, LAST) with the pack and the order of f as constants. */
template <int N, class G> dl_status dl_frame_dispatch(const dl_frame<N> &f, G launch) {
    std::integral_constant<int, 4> four;
    std::integral_constant<int, 1> one;
    if (f.last) return f.pack > 1 ? launch(four, std::true_type()) : launch(one, std::true_type());
    return f.pack > 1 ? launch(four, std::false_type()) : launch(one, std::false_type());
}
