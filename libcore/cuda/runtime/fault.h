/* Faults that kernels find in their operands, reported without making the host wait: the first thread to claim the
 * report writes it into pinned memory, which the host reads before the next call. */
#pragma once

/* FAULT(NAME, error code, message); the message is given the two values. */
#define DL_FAULT_LIST(X)                                                                                               \
    X(INDEX, DL_ERR_INDEX, "index %ld is out of range for a dimension of size %ld")                                    \
    X(LABEL, DL_ERR_INDEX, "label %ld is not one of the %ld classes, which count from 0")                              \
    X(COLUMN, DL_ERR_INDEX, "column %ld is out of range for a matrix of %ld columns")                                  \
    X(CROW, DL_ERR_INDEX, "crow must go up from 0 to the number of entries, but %ld stands before %ld")                \
    X(PIXEL, DL_ERR_INDEX, "index %ld lies outside the %ld pixels of the image")                                       \
    X(DIVISOR, DL_ERR_VALUE, "integer division by zero")                                                               \
    X(SHIFT, DL_ERR_VALUE, "a shift must be at least 0 and less than the number of bits of the dtype, not %ld")        \
    X(EXPONENT, DL_ERR_VALUE, "an integer to a negative integer power, %ld, is not an integer")                        \
    X(PROBABILITY, DL_ERR_VALUE, "a probability must be between 0 and 1")                                              \
    X(STEP, DL_ERR_VALUE, "step counts from 1, not %ld")

enum {
    DL_FAULT_NONE,
#define X(name, code, text) DL_FAULT_##name,
    DL_FAULT_LIST(X)
#undef X
};

typedef struct dl_fault {
    int kind, line;
    long a, b;
    const char *file, *op; /* host pointers, carried along */
} dl_fault;

/* Passed to kernels by value. */
typedef struct dl_fault_site {
    dl_fault *report;
    int *claim;
    const char *file, *op;
    int line;
} dl_fault_site;

#ifdef __CUDACC__
static __device__ inline void dl_fault_raise(const dl_fault_site &s, int kind, long a, long b) {
    if (atomicCAS(s.claim, 0, 1)) return;
    s.report->a = a, s.report->b = b;
    s.report->file = s.file, s.report->op = s.op, s.report->line = s.line;
    __threadfence_system();
    *(volatile int *)&s.report->kind = kind;
}
#endif
