/* The iterator of pointwise kernels: the only place that knows strides. Operands are broadcast to the shape of the
 * first; dimensions are ordered by the first operand's strides and merged where memory allows, so that most calls
 * become one run of an inner loop. Large work is shared among OpenMP threads; every element is computed by one call of
 * the loop, so the result does not depend on how. */
#pragma once

#include "core/interrupt.h"
#include "core/op.h"

enum {
    DL_ITER_MAX = 8,         /* operands */
    DL_ITER_GRAIN = 1 << 15, /* elements that take as long as a thread that waits for work needs to begin */
    DL_ITER_MACS = 16,       /* multiplications of a matrix product that take as long as one element */
    DL_ITER_SHORT = 8,       /* elements in a row for which a call of a loop costs more than its work */
    DL_ITER_BLOCK = 1 << 19, /* elements between two checks for a request to stop: a millisecond or so */
};

/* n elements; operand i at ptr[i], advancing by stride[i] bytes. `arg` is what the kernel passes on. */
typedef void (*dl_loop)(long n, char **ptr, const long *stride, void *arg);

/* The same, of as many of the first elements as it likes; returns how many. */
typedef long (*dl_some)(long n, char **ptr, const long *stride, void *arg);

typedef struct dl_iter {
    int nop, ndim; /* ndim is at least 1 */
    long numel;
    char *ptr[DL_ITER_MAX];
    int8_t dtype[DL_ITER_MAX];
    long shape[DL_MAX_DIM];               /* innermost first */
    long stride[DL_MAX_DIM][DL_ITER_MAX]; /* in bytes */
} dl_iter;

/* op[0], usually the output, has the full shape; the others must broadcast to it. */
void dl_iter_init(dl_iter *it, int nop, dl_tensor *const *op);
/* The same in parts, for operands that are not tensors as they are: sets the shape, then each operand's first element
 * and strides in elements (negative ones are allowed), then orders and merges. */
void dl_iter_begin(dl_iter *it, int ndim, const long *shape);
void dl_iter_operand(dl_iter *it, void *ptr, dl_dtype dtype, int ndim, const long *shape, const long *stride);
void dl_iter_end(dl_iter *it);

/* Runs the loop over all elements. */
void dl_iter_run(const dl_iter *it, dl_loop loop, void *arg);
/* The same on this thread alone, for loops whose elements are not independent. */
void dl_iter_run_serial(const dl_iter *it, dl_loop loop, void *arg);
/* The same for a loop over f32: operands of f16 and bf16 are converted, in blocks, on the way in and out. The first
 * `nout` operands are only written, the others only read. */
void dl_iter_run_f32(const dl_iter *it, int nout, dl_loop loop, void *arg);
/* The same; where all operands have the same 16-bit dtype, `some` takes them as they are, and `loop` gets what it
 * leaves. NULL: it leaves all. */
void dl_iter_run_halves(const dl_iter *it, int nout, dl_loop loop, dl_some some, void *arg);

/* How many threads to use for pointwise work on n elements: all, or 1 where waking them would cost what they save, and
 * inside a parallel region. Never a number between, because OpenMP ends the threads that a smaller team leaves out and
 * starts them again for a larger one. The number depends on the work and the threads that there are alone, never on a
 * clock, because results of OpenBLAS and oneDNN depend on it. */
int dl_cpu_threads(long n);
/* The same for so many multiplications of a matrix product. */
int dl_cpu_threads_product(double macs);
/* Sets the grain, which DL_ITER_GRAIN is at first, and returns the former one; for tests that want threads for small
 * work. */
long dl_cpu_grain(long elements);

/* task(arg, i) for each i < n, shared among the threads; on this thread alone when threads is 1. A request to stop
 * leaves the rest undone (core/interrupt.h): a task takes some milliseconds at most, or checks for the request itself.
 */
void dl_cpu_for(long n, int threads, void (*task)(void *arg, long i), void *arg);

/* for (long i = 0; i < n; i++), on one thread, with a check of `stop` every DL_ITER_BLOCK elements. */
#define DL_CPU_EACH(i, n, stop)                                                                                        \
    for (long i##_lo = 0, i##_hi = 0; i##_lo < (n) && !dl_stop_asked(stop) &&                                          \
                                      (i##_hi = (n)-i##_lo < DL_ITER_BLOCK ? (n) : i##_lo + DL_ITER_BLOCK) > 0;        \
         i##_lo = i##_hi)                                                                                              \
        for (long i = i##_lo; i < i##_hi; i++)

/* Zeroes memory. */
void dl_cpu_clear(void *p, size_t bytes);

/* dst = src, cast and broadcast to dst's shape; the two do not overlap. Reads and writes each element once, in tiles
 * where the two are laid out differently. */
void dl_cpu_copy(dl_tensor *dst, const dl_tensor *src);
/* The same for memory described by hand; strides in elements. */
void dl_cpu_copy_strided(int ndim, const long *shape, void *dst, dl_dtype dt, const long *ds, const void *src,
                         dl_dtype st, const long *ss);

/* t itself (a new reference) when it is contiguous, else a contiguous copy. */
dl_tensor *dl_cpu_contiguous(dl_tensor *t);
/* A fresh tensor with the dtype, shape and strides of `like`, which is dense. */
dl_tensor *dl_cpu_empty_like(const dl_tensor *like);
/* t itself (a new reference) when it has the dtype and strides of `like`, which is dense, else a copy that has. */
dl_tensor *dl_cpu_strided_like(dl_tensor *t, const dl_tensor *like);

/* Runs `run`, which has no 16-bit form: calls of f16 and bf16 in f32, with copies of the inputs, the outputs rounded
 * at the end. Also makes the inputs contiguous when `contiguous` is set. */
dl_status dl_cpu_via_f32(dl_call *c, dl_status (*run)(dl_call *), bool contiguous);
/* Runs `run`, which reads 16-bit inputs as they are, and makes f32 of them, which is rounded at the end. */
dl_status dl_cpu_results_via_f32(dl_call *c, dl_status (*run)(dl_call *));
/* The kernel of an op by such a function; more fields of dl_kernel may follow. */
#define DL_CPU_KERNEL(name, function, contiguous, set, ...)                                                            \
    static dl_status run_##name(dl_call *c) { return dl_cpu_via_f32(c, function, contiguous); }                        \
    const dl_kernel dl_cpu_##name = {.run = run_##name, .dtypes = set, __VA_ARGS__};
/* A row that the CPU makes of other rows, COMPOSED(without_kernel). */
#define DL_CPU_MADE_OF_ROWS(name) const dl_kernel dl_cpu_##name = {.none = "the CPU makes it of other rows"};
/* A fused gradient in f32, of which only the results are rounded to 16 bits. */
dl_status dl_cpu_grad_via_f32(dl_back *b, dl_status (*fused)(dl_back *));

/* Contiguous conversion between the 16-bit floats and f32. */
void dl_cpu_half_to_f32(long n, const void *src, dl_dtype dtype, float *dst);
void dl_cpu_f32_to_half(long n, const float *src, void *dst, dl_dtype dtype);
