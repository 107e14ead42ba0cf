/* Plans of Fourier transforms: how a length is computed, and its roots of unity. They are kept. */
#include "cpu/kernels/fft/fft.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers */

/* e**(-2 pi i k / n), each part to the last bit or nearly: the angle is brought below pi / 4 in whole numbers. */
static void root_of_unity(long k, long n, double *re, double *im) {
    const double quarter = 1.57079632679489661923;
    k %= n;
    const __int128 four = (__int128)4 * k;
    const long q = (long)(four / n), r = (long)(four - (__int128)q * n);
    double c, s;
    if (2 * (__int128)r <= n)
        c = cos((double)r / (double)n * quarter), s = sin((double)r / (double)n * quarter);
    else
        c = sin((double)(n - r) / (double)n * quarter), s = cos((double)(n - r) / (double)n * quarter);
    const double turned[4][2] = {{c, s}, {-s, c}, {-c, -s}, {s, -c}};
    *re = turned[q][0], *im = -turned[q][1];
}

static long lanes_of(dl_dtype type) { return DL_SIMD_PICK(dl_fft)[type == DL_F64].lanes; }

static size_t size_of(dl_dtype type) { return (size_t)dl_dtype_size(type); }

static void *numbers(dl_dtype type, long n) {
    return aligned_alloc(DL_FFT_MAX_LANES, dl_fft_padded((size_t)n * size_of(type) + 1));
}

static void put(void *to, dl_dtype type, long i, double v) {
    dl_store_f64((char *)to + (size_t)i * size_of(type), type, v);
}

static void put_root(void *to, dl_dtype type, long at, long k, long n) {
    double re, im;
    root_of_unity(k, n, &re, &im);
    put(to, type, 2 * at, re), put(to, type, 2 * at + 1, im);
}

/* ---- the three ways */

static void find_factors(dl_fft_plan *p) {
    static const int first[] = {8, 4, 2, 3, 5};
    long n = p->n;
    for (int i = 0; i < 5; i++) /* 16 is 4 times 4, which is less work than 8 times 2 */
        for (; n % first[i] == 0 && (first[i] < 8 || n % 16 || n % 32 == 0); n /= first[i])
            p->factor[p->nfactors++] = first[i];
    for (int f = 7; f <= DL_FFT_MAX_RADIX; f += 2)
        for (; n % f == 0; n /= f) p->factor[p->nfactors++] = f;
    if (n > 1) p->nfactors = -1;
}

static bool fill_passes(dl_fft_plan *p) {
    long left = p->n;
    for (int i = 0; i < p->nfactors; i++) {
        const long r = p->factor[i], size = left;
        left /= r;
        if (!(p->twiddle[i] = numbers(p->type, 2 * left * (r - 1)))) return false;
        for (long q = 0; q < left; q++)
            for (long k = 1; k < r; k++) put_root(p->twiddle[i], p->type, q * (r - 1) + k - 1, q * k % size, size);
        if (r <= 5) continue;
        if (!(p->roots[i] = numbers(p->type, 2 * r))) return false;
        for (long k = 0; k < r; k++) put_root(p->roots[i], p->type, k, k, r);
    }
    return true;
}

/* The product of factors that is nearest to the square root. */
static long near_root(const dl_fft_plan *p) {
    long best = 1;
    for (unsigned set = 0; set < 1u << (p->nfactors < 20 ? p->nfactors : 20); set++) {
        long d = 1;
        for (int i = 0; i < p->nfactors && i < 20; i++) d *= set >> i & 1 ? p->factor[i] : 1;
        if ((double)d * (double)d <= (double)p->n * 1.0001 && d > best) best = d;
    }
    return best;
}

enum { LONG = 64 }; /* two factors of 8 fill half of the lanes or more */

static bool fill_steps(dl_fft_plan *p) {
    const long lanes = p->lanes, rows = near_root(p), columns = p->n / rows;
    const long blocks = (columns + lanes - 1) / lanes;
    p->rows = dl_fft_plan_get(rows, p->type, true), p->columns = dl_fft_plan_get(columns, p->type, true);
    if (!p->rows || !p->columns || !(p->turn = numbers(p->type, 2 * blocks * lanes * rows))) return false;
    for (long b = 0; b < blocks; b++)
        for (long k = 0; k < rows; k++)
            for (long l = 0; l < lanes; l++) {
                double re, im;
                const long at = 2 * lanes * (b * rows + k) + l;
                root_of_unity((long)((__int128)(b * lanes + l) * k % p->n), p->n, &re, &im);
                put(p->turn, p->type, at, re), put(p->turn, p->type, at + lanes, im);
            }
    return true;
}

/* chirp[j] = e**(-pi i j**2 / n); the filter is its conjugate, from -n + 1 to n - 1 around 0, divided by its length. */
static bool fill_chirp(dl_fft_plan *p) {
    long m = 256;
    while (m < 2 * p->n - 1) m *= 2;
    p->wide = dl_fft_plan_get(m, p->type, false);
    p->chirp = numbers(p->type, 2 * p->n), p->filter = numbers(p->type, 2 * m);
    void *work = p->wide ? aligned_alloc(DL_FFT_MAX_LANES, dl_fft_work(p->wide)) : NULL;
    if (!p->chirp || !p->filter || !work) return free(work), false;
    memset(p->filter, 0, (size_t)(2 * m) * size_of(p->type));
    for (long j = 0; j < p->n; j++) {
        double re, im;
        const long k = (long)((__int128)j * j % (2 * p->n));
        root_of_unity(k, 2 * p->n, &re, &im);
        put(p->chirp, p->type, 2 * j, re), put(p->chirp, p->type, 2 * j + 1, im);
        for (int side = 0; side < 2; side++) {
            const long at = side && j ? m - j : j;
            put(p->filter, p->type, 2 * at, re / (double)m), put(p->filter, p->type, 2 * at + 1, -im / (double)m);
        }
    }
    DL_SIMD_PICK(dl_fft)[p->type == DL_F64].transform(p->wide, p->filter, work);
    free(work);
    return true;
}

bool dl_fft_by_row(const dl_fft_plan *p) { return p->wide || p->rows; }

size_t dl_fft_work(const dl_fft_plan *p) {
    const size_t pairs = dl_fft_padded((size_t)p->n * 2 * size_of(p->type)), line = 4 * DL_FFT_MAX_LANES;
    if (p->wide) return pairs + dl_fft_padded((size_t)p->wide->n * 2 * size_of(p->type)) + dl_fft_work(p->wide);
    if (p->rows) return 2 * pairs + line * (size_t)(p->rows->n > p->columns->n ? p->rows->n : p->columns->n);
    return line * (size_t)p->n;
}

/* ---- plans that were made */

enum { KEPT = 64 };
static dl_fft_plan *kept[KEPT];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void drop(dl_fft_plan *p) {
    if (!p) return;
    for (int i = 0; i < DL_FFT_MAX_FACTORS; i++) free(p->twiddle[i]), free(p->roots[i]);
    dl_fft_done(p->rows), dl_fft_done(p->columns), dl_fft_done(p->wide);
    free(p->turn), free(p->chirp), free(p->filter), free(p);
}

void dl_fft_done(dl_fft_plan *p) {
    if (p && !__atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL)) drop(p);
}

static dl_fft_plan *make(long n, dl_dtype type, bool direct) {
    dl_fft_plan *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->n = n, p->refs = 1, p->type = type, p->direct = direct, p->lanes = lanes_of(type);
    find_factors(p);
    const bool known = p->nfactors >= 0, steps = known && !direct && n >= LONG && near_root(p) >= 8;
    if (!known) p->nfactors = 0;
    bool good = known ? steps || fill_passes(p) : fill_chirp(p);
    if (good && steps) good = fill_steps(p);
    if (!good) drop(p), p = NULL;
    return p;
}

/* One that is kept, with a reference of the caller's. */
static dl_fft_plan *find(long n, dl_dtype type, bool direct) {
    const long lanes = lanes_of(type);
    dl_fft_plan *p = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < KEPT && kept[i] && !p; i++)
        if (kept[i]->n == n && kept[i]->type == type && kept[i]->direct == direct && kept[i]->lanes == lanes) {
            p = kept[i];
            memmove(kept + 1, kept, (size_t)i * sizeof *kept);
            kept[0] = p;
            __atomic_add_fetch(&p->refs, 1, __ATOMIC_RELAXED);
        }
    pthread_mutex_unlock(&lock);
    return p;
}

dl_fft_plan *dl_fft_plan_get(long n, dl_dtype type, bool direct) {
    dl_fft_plan *p = find(n, type, direct);
    if (p || !(p = make(n, type, direct))) return p;
    __atomic_add_fetch(&p->refs, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&lock);
    dl_fft_plan *last = kept[KEPT - 1];
    memmove(kept + 1, kept, (KEPT - 1) * sizeof *kept);
    kept[0] = p;
    pthread_mutex_unlock(&lock);
    dl_fft_done(last);
    return p;
}
