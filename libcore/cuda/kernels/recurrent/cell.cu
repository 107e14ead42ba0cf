/* Recurrent cells of one step and their gradients, a thread for each unit of each row. The formulas are those of
 * cpu/kernels/recurrent_simd.c. */
#include "cuda/kernels/recurrent/one_step.h"
#include "cuda/runtime/types.cuh"

enum { THREADS = 256 };

template <class C> __device__ C sigmoid(C x) { return C(1) / (C(1) + exp(-x)); }
template <class T> __device__ calc_t<T> number_at(const void *p, long i) {
    return p ? calc_t<T>(dl_up(((const T *)p)[i])) : calc_t<T>(0);
}
template <class T> __device__ void put(void *p, long i, calc_t<T> x) {
    if (p) ((T *)p)[i] = dl_down<T>(x);
}

/* Unit k of row b: its number among the states, and that of its gate j among the gates. */
struct unit {
    long batch, hidden, k, state, row;
    __device__ unit(long i, long units, int gates) : hidden(units), k(i % units), state(i) {
        row = i / units * gates * units + k;
    }
    __device__ long gate(int j) const { return row + j * hidden; }
    __device__ long bias(int j) const { return k + j * hidden; }
};

/* Of each cell the number of its gates; run: the sums of the inputs and of the state become the gates, kept in x, and
 * the result is the state h; back: the gates become the gradients of these sums, d that of h. `e` is dl_cell_step's
 * extra; `direct` the gradient of the state before, as far as it goes through no weight. */
struct lstm_cell {
    enum { GATES = 4 };
    template <class C> static __device__ C run(C (&x)[4], const C (&h)[4], C before, C &e) {
        x[0] = sigmoid(x[0] + h[0]), x[1] = sigmoid(x[1] + h[1]), x[2] = tanh(x[2] + h[2]), x[3] = sigmoid(x[3] + h[3]);
        e = x[1] * before + x[0] * x[2];
        return x[3] * tanh(e);
    }
    template <class C> static __device__ C back(C (&x)[4], C (&h)[4], C before, C e, C d, C dc) {
        C i = x[0], f = x[1], g = x[2], o = x[3], t = tanh(e), a = dc + d * o * (1 - t * t);
        x[0] = h[0] = a * g * i * (1 - i), x[1] = h[1] = a * before * f * (1 - f);
        x[2] = h[2] = a * i * (1 - g * g), x[3] = h[3] = d * t * o * (1 - o);
        return a * f;
    }
};
struct gru_cell {
    enum { GATES = 3 };
    template <class C> static __device__ C run(C (&x)[3], const C (&h)[3], C before, C &e) {
        e = h[2];
        x[0] = sigmoid(x[0] + h[0]), x[1] = sigmoid(x[1] + h[1]), x[2] = tanh(x[2] + x[0] * e);
        return x[2] + x[1] * (before - x[2]);
    }
    template <class C> static __device__ C back(C (&x)[3], C (&h)[3], C before, C e, C d, C) {
        C r = x[0], z = x[1], q = x[2], a = d * (1 - z) * (1 - q * q);
        x[0] = h[0] = a * e * r * (1 - r), x[1] = h[1] = d * (before - q) * z * (1 - z);
        x[2] = a, h[2] = a * r;
        return d * z;
    }
};
struct tanh_cell {
    enum { GATES = 1 };
    template <class C> static __device__ C run(C (&x)[1], const C (&h)[1], C, C &) { return x[0] = tanh(x[0] + h[0]); }
    template <class C> static __device__ C back(C (&x)[1], C (&h)[1], C, C, C d, C) {
        x[0] = h[0] = d * (1 - x[0] * x[0]);
        return 0;
    }
};
struct relu_cell {
    enum { GATES = 1 };
    template <class C> static __device__ C run(C (&x)[1], const C (&h)[1], C, C &) {
        C a = x[0] + h[0];
        return x[0] = a < 0 ? C(0) : a; /* NaN stays */
    }
    template <class C> static __device__ C back(C (&x)[1], C (&h)[1], C, C, C d, C) {
        x[0] = h[0] = x[0] <= 0 ? C(0) : d;
        return 0;
    }
};

template <class T, class F> __global__ void __launch_bounds__(THREADS) run_kernel(dl_cell_step s) {
    typedef calc_t<T> C;
    long i = (long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= s.batch * s.hidden) return;
    unit u(i, s.hidden, F::GATES);
    C x[F::GATES], h[F::GATES], e = 0;
#pragma unroll
    for (int j = 0; j < F::GATES; j++) {
        x[j] = number_at<T>(s.from_x, u.gate(j)) + number_at<T>(s.bias_x, u.bias(j));
        h[j] = number_at<T>(s.from_h, u.gate(j)) + number_at<T>(s.bias_h, u.bias(j));
    }
    C y = F::run(x, h, number_at<T>(s.before, i), e);
    put<T>(s.y, i, y);
    put<T>(s.h, i, y);
    put<T>(s.c, i, e);
    if (!s.gates) return;
#pragma unroll
    for (int j = 0; j < F::GATES; j++) ((C *)s.gates)[u.gate(j)] = x[j];
    ((C *)s.extra)[i] = e;
}

template <class T, class F> __global__ void __launch_bounds__(THREADS) back_kernel(dl_cell_back s) {
    typedef calc_t<T> C;
    long i = (long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= s.batch * s.hidden) return;
    unit u(i, s.hidden, F::GATES);
    C x[F::GATES], h[F::GATES];
#pragma unroll
    for (int j = 0; j < F::GATES; j++) x[j] = ((const C *)s.gates)[u.gate(j)];
    C d = number_at<T>(s.gy, i) + number_at<T>(s.gh, i);
    C direct = F::back(x, h, number_at<T>(s.before, i), ((const C *)s.extra)[i], d, number_at<T>(s.gc, i));
#pragma unroll
    for (int j = 0; j < F::GATES; j++) {
        put<T>(s.d_x, u.gate(j), x[j]);
        if (s.d_h != s.d_x) put<T>(s.d_h, u.gate(j), h[j]);
    }
    put<T>(s.direct, i, direct);
}

/* g(T(), F()) for an element type and a cell. */
template <class G> static dl_status each_cell(dl_dtype t, dl_cell cell, G g) {
    return dl_dispatch<DL_FLOATS>(t, [&](auto tag) {
        switch (cell) {
        case DL_CELL_LSTM: return g(tag, lstm_cell());
        case DL_CELL_GRU: return g(tag, gru_cell());
        case DL_CELL_TANH: return g(tag, tanh_cell());
        default: return g(tag, relu_cell());
        }
    });
}

dl_status dl_cuda_cell(dl_gpu *g, const dl_cell_step *s) {
    return each_cell(s->t, s->cell, [&](auto tag, auto cell) {
        run_kernel<decltype(tag), decltype(cell)>
            <<<dl_blocks(s->batch * s->hidden, THREADS), THREADS, 0, g->stream>>>(*s);
        return dl_gpu_launched(g);
    });
}

dl_status dl_cuda_cell_back(dl_gpu *g, const dl_cell_back *b) {
    return each_cell(b->t, b->cell, [&](auto tag, auto cell) {
        back_kernel<decltype(tag), decltype(cell)>
            <<<dl_blocks(b->batch * b->hidden, THREADS), THREADS, 0, g->stream>>>(*b);
        return dl_gpu_launched(g);
    });
}
