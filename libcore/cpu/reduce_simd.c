/* Primitives of reductions. A row of contiguous elements is folded as 32 columns; columns are reduced 16 rows at a time
 * in registers, 16 of these blocks in a first buffer, 16 of those in a second, and so on in a third. Rows of few
 * columns that follow each other without gaps are taken several at a time, as one wide row, which is folded at the end.
 */
#include "cpu/loop_types.h"
#include "cpu/reduce.h"
#include "cpu/vmath.h"

enum { LANES = 32, BLOCK = 16 };

/* T elements, A accumulators. MAP(x, m) makes an accumulator of an element; OP(a, b) joins two. */
#define REDUCER(name, T, A, MAP, OP)                                                                                   \
    static void name##_block(long rows, const char *x, long stride, const A *m, long ms, A *acc, bool first) {         \
        A a[LANES];                                                                                                    \
        A par[LANES];                                                                                                  \
        for (long j = 0; j < LANES; j++) par[j] = m ? m[j * ms] : 0;                                                   \
        for (long j = 0; j < LANES; j++) a[j] = MAP(((const T *)x)[j], par[j]);                                        \
        for (long r = 1; r < rows; r++) {                                                                              \
            const T *row = (const T *)(x + r * stride);                                                                \
            for (long j = 0; j < LANES; j++) a[j] = OP(a[j], MAP(row[j], par[j]));                                     \
        }                                                                                                              \
        if (first)                                                                                                     \
            for (long j = 0; j < LANES; j++) acc[j] = a[j];                                                            \
        else                                                                                                           \
            for (long j = 0; j < LANES; j++) acc[j] = OP(acc[j], a[j]);                                                \
    }                                                                                                                  \
    static void name##_edge(long rows, long width, const char *x, long stride, const A *m, long ms, A *acc,            \
                            bool first) {                                                                              \
        A a[LANES];                                                                                                    \
        for (long j = 0; j < width; j++) a[j] = MAP(((const T *)x)[j], (m ? m[j * ms] : 0));                           \
        for (long r = 1; r < rows; r++) {                                                                              \
            const T *row = (const T *)(x + r * stride);                                                                \
            for (long j = 0; j < width; j++) a[j] = OP(a[j], MAP(row[j], (m ? m[j * ms] : 0)));                        \
        }                                                                                                              \
        for (long j = 0; j < width; j++) acc[j] = first ? a[j] : OP(acc[j], a[j]);                                     \
    }                                                                                                                  \
    static void name##_join(long n, void *acc, const void *more) {                                                     \
        A *a = (A *)acc;                                                                                               \
        const A *b = (const A *)more;                                                                                  \
        for (long j = 0; j < n; j++) a[j] = OP(a[j], b[j]);                                                            \
    }                                                                                                                  \
    static void name##_wide(long rows, long width, const char *x, long stride, const void *m, long ms, void *acc);     \
    static void name##_cols(long rows, long width, const char *x, long stride, const void *m, long ms, void *acc) {    \
        long k = (2 * LANES + width - 1) / width, wide = k * width, full = rows / k;                                   \
        if (m || width >= LANES || stride != width * (long)sizeof(T) || full < 4) {                                    \
            name##_wide(rows, width, x, stride, m, ms, acc);                                                           \
            return;                                                                                                    \
        }                                                                                                              \
        A buf[4 * LANES];                                                                                              \
        name##_wide(full, wide, x, wide *(long)sizeof(T), NULL, 0, buf);                                               \
        for (long h = k; h > 1; h -= h / 2)                                                                            \
            for (long j = 0; j < h / 2 * width; j++) buf[j] = OP(buf[j], buf[j + (h - h / 2) * width]);                \
        if (rows > full * k) name##_edge(rows - full * k, width, x + full * k * stride, stride, NULL, 0, buf, false);  \
        memcpy(acc, buf, (size_t)width * sizeof(A));                                                                   \
    }                                                                                                                  \
    static void name##_wide(long rows, long width, const char *x, long stride, const void *m, long ms, void *acc) {    \
        A level[3][DL_REDUCE_TILE];                                                                                    \
        long n[3] = {0};                                                                                               \
        for (long i = 0; i < rows; i += BLOCK) {                                                                       \
            long h = rows - i < BLOCK ? rows - i : BLOCK, j = 0;                                                       \
            const A *p = (const A *)m;                                                                                 \
            for (; j + LANES <= width; j += LANES)                                                                     \
                name##_block(h, x + i * stride + j * (long)sizeof(T), stride, p ? p + j * ms : p, ms, level[0] + j,    \
                             n[0] == 0);                                                                               \
            if (j < width)                                                                                             \
                name##_edge(h, width - j, x + i * stride + j * (long)sizeof(T), stride, p ? p + j * ms : p, ms,        \
                            level[0] + j, n[0] == 0);                                                                  \
            n[0]++;                                                                                                    \
            for (int k = 0; k < 2 && n[k] == BLOCK; k++) {                                                             \
                if (n[k + 1]++)                                                                                        \
                    name##_join(width, level[k + 1], level[k]);                                                        \
                else                                                                                                   \
                    memcpy(level[k + 1], level[k], (size_t)width * sizeof(A));                                         \
                n[k] = 0;                                                                                              \
            }                                                                                                          \
        }                                                                                                              \
        int last = -1; /* the three are joined from the smallest up */                                                 \
        for (int k = 0; k < 3; k++) {                                                                                  \
            if (!n[k]) continue;                                                                                       \
            if (last >= 0) name##_join(width, level[k], level[last]);                                                  \
            last = k;                                                                                                  \
        }                                                                                                              \
        memcpy(acc, level[last], (size_t)width * sizeof(A));                                                           \
    }                                                                                                                  \
    static void name##_dense(long n, const char *x, const void *m, A *acc) {                                           \
        A lane[LANES];                                                                                                 \
        long rows = n / LANES, i = rows * LANES;                                                                       \
        A p = m ? *(const A *)m : 0;                                                                                   \
        const T *t = (const T *)x;                                                                                     \
        if (rows) {                                                                                                    \
            name##_wide(rows, LANES, x, LANES * sizeof(T), m, 0, lane);                                                \
            for (long w = LANES / 2; w; w /= 2)                                                                        \
                for (long j = 0; j < w; j++) lane[j] = OP(lane[j], lane[j + w]);                                       \
        } else                                                                                                         \
            lane[0] = MAP(t[i], p), i++;                                                                               \
        if (i < n) {                                                                                                   \
            A a = MAP(t[i], p);                                                                                        \
            for (i++; i < n; i++) a = OP(a, MAP(t[i], p));                                                             \
            lane[0] = OP(lane[0], a);                                                                                  \
        }                                                                                                              \
        *acc = lane[0];                                                                                                \
    }                                                                                                                  \
    static void name##_row(long n, const char *x, long stride, const void *m, void *acc) {                             \
        if (stride == sizeof(T)) {                                                                                     \
            name##_dense(n, x, m, (A *)acc);                                                                           \
            return;                                                                                                    \
        }                                                                                                              \
        T buf[1024];                                                                                                   \
        for (long i = 0; i < n; i += 1024) {                                                                           \
            long w = n - i < 1024 ? n - i : 1024;                                                                      \
            for (long k = 0; k < w; k++) buf[k] = *(const T *)(x + (i + k) * stride);                                  \
            A part;                                                                                                    \
            name##_dense(w, (const char *)buf, m, &part);                                                              \
            *(A *)acc = i ? OP(*(A *)acc, part) : part;                                                                \
        }                                                                                                              \
    }

#define ENTRY(name, A, ident)                                                                                          \
    { name##_row, name##_cols, name##_join, sizeof(A), ident }

#define SELF(x, m) ((void)(m), (x))
#define TRUTH(x, m) ((void)(m), (unsigned char)((x) != 0))
#define WIDE(x, m) ((void)(m), (unsigned long)(x)) /* wrapping sums of integers */
#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
#define LARGER_NAN(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define SMALLER_NAN(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#define OR(a, b) ((unsigned char)((a) | (b)))
#define AND(a, b) ((unsigned char)((a) & (b)))

#define INTS(T)                                                                                                        \
    REDUCER(sum_##T, T, unsigned long, WIDE, PLUS)                                                                     \
    REDUCER(prod_##T, T, unsigned long, WIDE, TIMES)                                                                   \
    REDUCER(max_##T, T, T, SELF, LARGER)                                                                               \
    REDUCER(min_##T, T, T, SELF, SMALLER)
INTS(u8)
INTS(i32)
INTS(i64)

#define FLOATS(T)                                                                                                      \
    REDUCER(sum_##T, T, T, SELF, PLUS)                                                                                 \
    REDUCER(prod_##T, T, T, SELF, TIMES)                                                                               \
    REDUCER(max_##T, T, T, SELF, LARGER_NAN)                                                                           \
    REDUCER(min_##T, T, T, SELF, SMALLER_NAN)
FLOATS(f32)
FLOATS(f64)

#define TRUTHS(T)                                                                                                      \
    REDUCER(any_##T, T, u8, TRUTH, OR)                                                                                 \
    REDUCER(all_##T, T, u8, TRUTH, AND)
TRUTHS(u8)
TRUTHS(i32)
TRUTHS(i64)
TRUTHS(f32)
TRUTHS(f64)

#define EXP32(x, m) dl_vexp((x) - (m))
#define EXP64(x, m) exp((x) - (m))
REDUCER(sumexp_f32, f32, f32, EXP32, PLUS)
REDUCER(sumexp_f64, f64, f64, EXP64, PLUS)

#define SQUARE(x, m) (((x) - (m)) * ((x) - (m)))
REDUCER(sumsquare_f32, f32, f32, SQUARE, PLUS)
REDUCER(sumsquare_f64, f64, f64, SQUARE, PLUS)

#define ROW(name, A, ident)                                                                                            \
    {                                                                                                                  \
        [DL_BOOL] = ENTRY(name##_u8, A(u8), ident), [DL_U8] = ENTRY(name##_u8, A(u8), ident),                          \
        [DL_I32] = ENTRY(name##_i32, A(i32), ident), [DL_I64] = ENTRY(name##_i64, A(i64), ident),                      \
        [DL_F32] = ENTRY(name##_f32, A(f32), ident), [DL_F64] = ENTRY(name##_f64, A(f64), ident)                       \
    }
#define LONG_OR_u8 i64
#define LONG_OR_i32 i64
#define LONG_OR_i64 i64
#define LONG_OR_f32 f32
#define LONG_OR_f64 f64
#define A_SUM(T) LONG_OR_##T
#define A_SELF(T) T
#define A_TRUTH(T) u8

const dl_reducer DL_SIMD_NAME(dl_reducer_table)[DL_NREDUCE][DL_NDTYPE] = {
    [DL_R_SUM] = ROW(sum, A_SUM, 0),
    [DL_R_PROD] = ROW(prod, A_SUM, 1),
    [DL_R_MAX] = ROW(max, A_SELF, 0),
    [DL_R_MIN] = ROW(min, A_SELF, 0),
    [DL_R_ANY] = ROW(any, A_TRUTH, 0),
    [DL_R_ALL] = ROW(all, A_TRUTH, 1),
    [DL_R_SUMEXP] = {[DL_F32] = ENTRY(sumexp_f32, f32, 0), [DL_F64] = ENTRY(sumexp_f64, f64, 0)},
    [DL_R_SUMSQUARE] = {[DL_F32] = ENTRY(sumsquare_f32, f32, 0), [DL_F64] = ENTRY(sumsquare_f64, f64, 0)},
};

/* ---- finding a value */

#define FINDER(T)                                                                                                      \
    static long find_row_##T(long n, const char *x, long stride, const void *value) {                                  \
        T v = *(const T *)value;                                                                                       \
        for (long i = 0; i < n; i++) {                                                                                 \
            T e = *(const T *)(x + i * stride);                                                                        \
            if (e == v || (v != v && e != e)) return i;                                                                \
        }                                                                                                              \
        return 0;                                                                                                      \
    }                                                                                                                  \
    static void find_cols_##T(long rows, long width, const char *x, long stride, const void *value, long *index) {     \
        const T *v = (const T *)value;                                                                                 \
        for (long i = rows - 1; i >= 0; i--) {                                                                         \
            const T *row = (const T *)(x + i * stride);                                                                \
            for (long j = 0; j < width; j++)                                                                           \
                index[j] = row[j] == v[j] || (v[j] != v[j] && row[j] != row[j]) ? i : index[j];                        \
        }                                                                                                              \
    }
FINDER(u8)
FINDER(i32)
FINDER(i64)
FINDER(f32)
FINDER(f64)

const dl_finder DL_SIMD_NAME(dl_finder_table)[DL_NDTYPE] = {
    [DL_BOOL] = {find_row_u8, find_cols_u8},  [DL_U8] = {find_row_u8, find_cols_u8},
    [DL_I32] = {find_row_i32, find_cols_i32}, [DL_I64] = {find_row_i64, find_cols_i64},
    [DL_F32] = {find_row_f32, find_cols_f32}, [DL_F64] = {find_row_f64, find_cols_f64}};
