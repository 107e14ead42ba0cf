/* Fourier transforms on the CPU: plans, and the loops that compute by them. */
#pragma once

#include "core/tensor.h"
#include "cpu/runtime/simd.h"

enum {
    DL_FFT_MAX_LANES = 64,   /* bytes of the parts of one element of as many transforms as fit, at most */
    DL_FFT_MAX_RADIX = 61,   /* larger prime factors are left to Bluestein's way */
    DL_FFT_MAX_FACTORS = 40, /* of a size of up to 2**53 */
};

/* What a length needs, in numbers of one of the two types. */
typedef struct dl_fft_plan dl_fft_plan;
struct dl_fft_plan {
    long n;
    int refs;
    dl_dtype type; /* DL_F32 or DL_F64 */
    bool direct;   /* by passes alone */
    long lanes;    /* for which `turn` is laid out: dl_fft_loops */
    /* Stockham's way: the factors, and for each pass e**(-2 pi i p k / size left) for p < size left / factor,
     * 0 < k < factor; and of a factor above 5 its own roots of unity. Pairs of parts. */
    int nfactors, factor[DL_FFT_MAX_FACTORS];
    void *twiddle[DL_FFT_MAX_FACTORS], *roots[DL_FFT_MAX_FACTORS];
    /* Four steps: n = rows columns; `turn` has e**(-2 pi i j k / n) for k < rows in each column j, in lanes of columns.
     */
    dl_fft_plan *rows, *columns;
    void *turn;
    /* Bluestein's way (1970): a convolution of the length of `wide` with the transform of `filter`, by `chirp`. */
    dl_fft_plan *wide;
    void *chirp, *filter;
};

/* A plan that is kept for the next call; NULL without memory. `direct`: by passes, as the factors allow.
 * dl_fft_done gives it back. */
dl_fft_plan *dl_fft_plan_get(long n, dl_dtype type, bool direct);
void dl_fft_done(dl_fft_plan *p);
/* Does the plan work on one transform at a time? Else on a lane for each. */
bool dl_fft_by_row(const dl_fft_plan *p);
/* A number of bytes after which whole lanes may begin. */
static inline size_t dl_fft_padded(size_t bytes) {
    return (bytes + DL_FFT_MAX_LANES - 1) / DL_FFT_MAX_LANES * DL_FFT_MAX_LANES;
}
/* Bytes of the work space of one call, for lanes or for a row. */
size_t dl_fft_work(const dl_fft_plan *p);

typedef enum dl_fft_kind { DL_FFT_COMPLEX, DL_FFT_FROM_REAL, DL_FFT_TO_REAL } dl_fft_kind;

/* A call: `rows` transforms of n elements, the elements of each `inner` apart. */
typedef struct dl_fft_job {
    dl_fft_kind kind;
    bool inverse;
    bool once; /* gradients: of half of the frequencies each counts for itself alone, and is the sum of two */
    double scale;
    long n, inner, rows;
    const void *in;
    void *out;
    const dl_fft_plan *plan;
} dl_fft_job;

typedef struct dl_fft_loops {
    long lanes; /* transforms that are computed together */
    /* Some transforms from number `from` on, of real numbers twice as many as lanes. */
    void (*run_lanes)(const dl_fft_job *j, long from, long count, void *work);
    /* One transform, of real numbers two. */
    void (*run_row)(const dl_fft_job *j, long from, long count, void *work);
    /* A part of the two steps of a long transform, from column or row `from` on, for as many as lanes, from z to t. */
    void (*step)(const dl_fft_plan *p, int step, long from, const void *z, void *t, void *work);
    void (*load)(const dl_fft_job *j, long from, long count, void *z);
    void (*store)(const dl_fft_job *j, long from, long count, const void *z);
    /* The transform of the filter of Bluestein's way, in place. */
    void (*transform)(const dl_fft_plan *p, void *z, void *work);
} dl_fft_loops;

DL_SIMD_DECL(extern const dl_fft_loops, dl_fft, [2]); /* f32, f64 */
