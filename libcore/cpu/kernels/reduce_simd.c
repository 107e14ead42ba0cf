/* Primitives of reductions. A row of contiguous elements is folded as 32 columns; columns are reduced 16 rows at a time
 * in registers, 16 of these blocks in a first buffer, 16 of those in a second, and so on in a third. Rows of few
 * columns that follow each other without gaps are taken several at a time, as one wide row, which is folded at the end.
 */
#include "cpu/runtime/loop_types.h"
#include "cpu/kernels/reduce.h"
#include "cpu/runtime/half_read.h"
#include "cpu/runtime/vmath_f64.h"

enum { LANES = 32, HALF = 16 /* whose accumulators stay in registers */, BLOCK = 16, VECTOR = 64 /* bytes */ };

/* Elements as they are in memory, S, and as they are reduced, T, which is f32 for 16 bits: element i of x; and n
 * elements at x, at most W, as an array v. */
#define AT(S, x, i) AT_##S((const S *)(x), i)
#define LOOK(S, v, W, n, x) LOOK_##S(S, v, W, n, (const S *)(x))
#define AS_IT_IS(S, v, W, n, x) const S *v = x
#define AS_F32(S, v, W, n, x)                                                                                          \
    f32 v[W];                                                                                                          \
    dl_read_##S(n, x, v)
#define ELEMENT(x, i) ((x)[i])
#define AT_u8 ELEMENT
#define AT_i32 ELEMENT
#define AT_i64 ELEMENT
#define AT_f32 ELEMENT
#define AT_f64 ELEMENT
#define AT_bf16(x, i) dl_read_one_bf16((x)[i])
#define AT_f16(x, i) dl_read_one_f16((x)[i])
#define LOOK_u8 AS_IT_IS
#define LOOK_i32 AS_IT_IS
#define LOOK_i64 AS_IT_IS
#define LOOK_f32 AS_IT_IS
#define LOOK_f64 AS_IT_IS
#define LOOK_bf16 AS_F32
#define LOOK_f16 AS_F32

/* A row of contiguous elements, by vectors of W accumulators; 16 chunks of 65 vectors are joined, and then these. */
#define DENSE(name, S, T, A, MAP, OP)                                                                                  \
    static void name##_long(long n, const char *x, const void *m, A *acc) {                                            \
        enum { W = sizeof(A) > sizeof(T) ? LANES : VECTOR / sizeof(T), CHUNK = 65 * W };                               \
        A mid[W], top[W], *sum = mid;                                                                                  \
        T p = m ? *(const T *)m : 0;                                                                                   \
        const S *t = (const S *)x;                                                                                     \
        long i = 0;                                                                                                    \
        for (long k = 0; i + W <= n; k++) {                                                                            \
            A lane[W];                                                                                                 \
            long end = n - i < CHUNK ? n : i + CHUNK;                                                                  \
            LOOK(S, f, W, W, t + i);                                                                                   \
            for (long j = 0; j < W; j++) lane[j] = (A)MAP(f[j], p);                                                    \
            for (i += W; i + 4 * W <= end; i += 4 * W) {                                                               \
                LOOK(S, v, 4 * W, 4 * W, t + i);                                                                       \
                for (long j = 0; j < W; j++)                                                                           \
                    lane[j] = OP(OP(lane[j], OP((A)MAP(v[j], p), (A)MAP(v[W + j], p))),                                \
                                 OP((A)MAP(v[2 * W + j], p), (A)MAP(v[3 * W + j], p)));                                \
            }                                                                                                          \
            for (; i + W <= end; i += W) {                                                                             \
                LOOK(S, v, W, W, t + i);                                                                               \
                for (long j = 0; j < W; j++) lane[j] = OP(lane[j], (A)MAP(v[j], p));                                   \
            }                                                                                                          \
            if (k % 16)                                                                                                \
                for (long j = 0; j < W; j++) mid[j] = OP(mid[j], lane[j]);                                             \
            else                                                                                                       \
                memcpy(mid, lane, sizeof(mid));                                                                        \
            if (k % 16 == 15 || (k > 15 && i + W > n)) {                                                               \
                if (k > 15)                                                                                            \
                    for (long j = 0; j < W; j++) top[j] = OP(top[j], mid[j]);                                          \
                else                                                                                                   \
                    memcpy(top, mid, sizeof(top));                                                                     \
                sum = top;                                                                                             \
            }                                                                                                          \
        }                                                                                                              \
        for (long j = 0; j < n - i; j++) sum[j] = OP(sum[j], (A)MAP(AT(S, t, i + j), p));                              \
        for (long w = W / 2; w; w /= 2)                                                                                \
            for (long j = 0; j < w; j++) sum[j] = OP(sum[j], sum[j + w]);                                              \
        *acc = sum[0];                                                                                                 \
    }                                                                                                                  \
    static void name##_dense(long n, const char *x, const void *m, A *acc) {                                           \
        if (n >= LANES && n >= (long)(VECTOR / sizeof(T))) {                                                           \
            name##_long(n, x, m, acc);                                                                                 \
            return;                                                                                                    \
        }                                                                                                              \
        T p = m ? *(const T *)m : 0;                                                                                   \
        A a = (A)MAP(AT(S, x, 0), p);                                                                                  \
        for (long i = 1; i < n; i++) a = OP(a, (A)MAP(AT(S, x, i), p));                                                \
        *acc = a;                                                                                                      \
    }

/* A accumulators. MAP(x, m) makes an accumulator of an element; OP(a, b) joins two. */
#define REDUCER(name, S, T, A, MAP, OP)                                                                                \
    static inline __attribute__((always_inline)) void name##_some(long rows, long width, const char *x, long stride,   \
                                                                  const T *m, long ms, A *acc, bool first) {           \
        A a[LANES];                                                                                                    \
        T par[LANES];                                                                                                  \
        LOOK(S, f, LANES, width, x);                                                                                   \
        for (long j = 0; j < width; j++) par[j] = m ? m[j * ms] : 0;                                                   \
        for (long j = 0; j < width; j++) a[j] = MAP(f[j], par[j]);                                                     \
        for (long r = 1; r < rows; r++) {                                                                              \
            LOOK(S, row, LANES, width, x + r * stride);                                                                \
            for (long j = 0; j < width; j++) a[j] = OP(a[j], MAP(row[j], par[j]));                                     \
        }                                                                                                              \
        if (first)                                                                                                     \
            for (long j = 0; j < width; j++) acc[j] = a[j];                                                            \
        else                                                                                                           \
            for (long j = 0; j < width; j++) acc[j] = OP(acc[j], a[j]);                                                \
    }                                                                                                                  \
    static void name##_block(long rows, const char *x, long stride, const T *m, long ms, A *acc, bool first) {         \
        name##_some(rows, LANES, x, stride, m, ms, acc, first);                                                        \
    }                                                                                                                  \
    static void name##_edge(long rows, long width, const char *x, long stride, const T *m, long ms, A *acc,            \
                            bool first) {                                                                              \
        name##_some(rows, width, x, stride, m, ms, acc, first);                                                        \
    }                                                                                                                  \
    DENSE(name, S, T, A, MAP, OP)                                                                                      \
    DRIVER(name, S, T, A, A, MAP, OP)

/* The largest or smallest of floats. The quick comparison is one instruction, and loses a NaN; a block that has one is
 * done again. */
#define EXTREME(name, S, T, INT, QUICK, OP)                                                                            \
    static inline __attribute__((always_inline)) void name##_some(long rows, long width, const char *x, long stride,   \
                                                                  T *acc, bool first) {                                \
        T a[LANES];                                                                                                    \
        INT nan[LANES], any = 0;                                                                                       \
        LOOK(S, f, LANES, width, x);                                                                                   \
        for (long j = 0; j < width; j++) a[j] = f[j];                                                                  \
        for (long j = 0; j < width; j++) nan[j] = a[j] != a[j];                                                        \
        for (long r = 1; r < rows; r++) {                                                                              \
            LOOK(S, row, LANES, width, x + r * stride);                                                                \
            for (long j = 0; j < width; j++) a[j] = QUICK(a[j], row[j]);                                               \
            for (long j = 0; j < width; j++) nan[j] |= row[j] != row[j];                                               \
        }                                                                                                              \
        for (long j = 0; j < width; j++) any |= nan[j];                                                                \
        if (any) {                                                                                                     \
            for (long j = 0; j < width; j++) a[j] = f[j];                                                              \
            for (long r = 1; r < rows; r++) {                                                                          \
                LOOK(S, row, LANES, width, x + r * stride);                                                            \
                for (long j = 0; j < width; j++) a[j] = OP(a[j], row[j]);                                              \
            }                                                                                                          \
        }                                                                                                              \
        for (long j = 0; j < width; j++) acc[j] = first ? a[j] : OP(acc[j], a[j]);                                     \
    }                                                                                                                  \
    static void name##_block(long rows, const char *x, long stride, const T *m, long ms, T *acc, bool first) {         \
        (void)m, (void)ms;                                                                                             \
        for (long j = 0; j < LANES; j += HALF)                                                                         \
            name##_some(rows, HALF, x + j * (long)sizeof(S), stride, acc + j, first);                                  \
    }                                                                                                                  \
    static void name##_edge(long rows, long width, const char *x, long stride, const T *m, long ms, T *acc,            \
                            bool first) {                                                                              \
        (void)m, (void)ms;                                                                                             \
        name##_some(rows, width, x, stride, acc, first);                                                               \
    }                                                                                                                  \
    static void name##_dense(long n, const char *x, const void *m, T *acc) {                                           \
        enum { W = VECTOR / sizeof(T) };                                                                               \
        T lane[W];                                                                                                     \
        INT nan[W] = {0}, any = 0;                                                                                     \
        const S *t = (const S *)x;                                                                                     \
        const T from = AT(S, t, 0);                                                                                    \
        long i = 0;                                                                                                    \
        (void)m;                                                                                                       \
        for (long j = 0; j < W; j++) lane[j] = from;                                                                   \
        for (; i + 4 * W <= n; i += 4 * W) {                                                                           \
            LOOK(S, v, 4 * W, 4 * W, t + i);                                                                           \
            for (long j = 0; j < W; j++) {                                                                             \
                T a = v[j], b = v[W + j], c = v[2 * W + j], d = v[3 * W + j];                                          \
                lane[j] = QUICK(QUICK(lane[j], QUICK(a, b)), QUICK(c, d));                                             \
                nan[j] |= (__builtin_isunordered(a, b) != 0) | (__builtin_isunordered(c, d) != 0);                     \
            }                                                                                                          \
        }                                                                                                              \
        for (long j = 0; j < W; j++) any |= nan[j];                                                                    \
        for (long w = W / 2; w; w /= 2)                                                                                \
            for (long j = 0; j < w; j++) lane[j] = QUICK(lane[j], lane[j + w]);                                        \
        *acc = any ? from : lane[0];                                                                                   \
        for (i = any ? 1 : i; i < n; i++) *acc = OP(*acc, AT(S, t, i));                                                \
    }                                                                                                                  \
    DRIVER(name, S, T, T, T, SELF, OP)

/* A sum of f32 in f64, where four elements at a time are added up before. */
#define SUM_BY_FOURS(name, S, MAP)                                                                                     \
    static inline __attribute__((always_inline)) void name##_some(long rows, long width, const char *x, long stride,   \
                                                                  const f32 *m, long ms, f64 *acc, bool first) {       \
        f64 a[LANES];                                                                                                  \
        f32 par[LANES], b[LANES];                                                                                      \
        long r = (rows - 1) % 4 + 1;                                                                                   \
        LOOK(S, f, LANES, width, x);                                                                                   \
        for (long j = 0; j < width; j++) par[j] = m ? m[j * ms] : 0;                                                   \
        for (long j = 0; j < width; j++) b[j] = MAP(f[j], par[j]);                                                     \
        for (long i = 1; i < r; i++) {                                                                                 \
            LOOK(S, row, LANES, width, x + i * stride);                                                                \
            for (long j = 0; j < width; j++) b[j] += MAP(row[j], par[j]);                                              \
        }                                                                                                              \
        for (long j = 0; j < width; j++) a[j] = b[j];                                                                  \
        for (; r < rows; r += 4) {                                                                                     \
            LOOK(S, t, LANES, width, x + r * stride);                                                                  \
            LOOK(S, u, LANES, width, x + (r + 1) * stride);                                                            \
            LOOK(S, v, LANES, width, x + (r + 2) * stride);                                                            \
            LOOK(S, w, LANES, width, x + (r + 3) * stride);                                                            \
            for (long j = 0; j < width; j++)                                                                           \
                a[j] += (f64)((MAP(t[j], par[j]) + MAP(u[j], par[j])) + (MAP(v[j], par[j]) + MAP(w[j], par[j])));      \
        }                                                                                                              \
        if (first)                                                                                                     \
            for (long j = 0; j < width; j++) acc[j] = a[j];                                                            \
        else                                                                                                           \
            for (long j = 0; j < width; j++) acc[j] += a[j];                                                           \
    }                                                                                                                  \
    static void name##_block(long rows, const char *x, long stride, const f32 *m, long ms, f64 *acc, bool first) {     \
        for (long j = 0; j < LANES; j += HALF)                                                                         \
            name##_some(rows, HALF, x + j * (long)sizeof(S), stride, m ? m + j * ms : m, ms, acc + j, first);          \
    }                                                                                                                  \
    static void name##_edge(long rows, long width, const char *x, long stride, const f32 *m, long ms, f64 *acc,        \
                            bool first) {                                                                              \
        name##_some(rows, width, x, stride, m, ms, acc, first);                                                        \
    }                                                                                                                  \
    static void name##_dense(long n, const char *x, const void *m, f64 *acc) {                                         \
        f64 lane[HALF] = {0};                                                                                          \
        f32 p = m ? *(const f32 *)m : 0;                                                                               \
        const S *t = (const S *)x;                                                                                     \
        long i = 0;                                                                                                    \
        for (; i + 4 * HALF <= n; i += 4 * HALF, t += 4 * HALF) {                                                      \
            LOOK(S, v, 4 * HALF, 4 * HALF, t);                                                                         \
            for (long j = 0; j < HALF; j++)                                                                            \
                lane[j] +=                                                                                             \
                    (f64)((MAP(v[j], p) + MAP(v[HALF + j], p)) + (MAP(v[2 * HALF + j], p) + MAP(v[3 * HALF + j], p))); \
        }                                                                                                              \
        for (; i + HALF <= n; i += HALF, t += HALF) {                                                                  \
            LOOK(S, v, HALF, HALF, t);                                                                                 \
            for (long j = 0; j < HALF; j++) lane[j] += (f64)MAP(v[j], p);                                              \
        }                                                                                                              \
        const long rest = n - i, seen = HALF - rest; /* of the last HALF elements, which are read as one vector */     \
        if (rest && n >= HALF) {                                                                                       \
            LOOK(S, v, HALF, HALF, t - seen);                                                                          \
            for (long j = 0; j < HALF; j++) lane[j] += j >= seen ? (f64)MAP(v[j], p) : 0;                              \
        } else {                                                                                                       \
            for (long j = 0; j < rest; j++) lane[j] += (f64)MAP(AT(S, t, j), p);                                       \
        }                                                                                                              \
        f64 half[HALF / 2]; /* by steps of known width, which stay in registers */                                     \
        for (long j = 0; j < 8; j++) half[j] = lane[j] + lane[j + 8];                                                  \
        for (long j = 0; j < 4; j++) half[j] += half[j + 4];                                                           \
        for (long j = 0; j < 2; j++) half[j] += half[j + 2];                                                           \
        *acc = half[0] + half[1];                                                                                      \
    }                                                                                                                  \
    DRIVER(name, S, f32, f64, f32, MAP, PLUS)

/* What both kinds share, on top of NAME_block and NAME_edge, which reduce at most BLOCK rows of LANES columns, or of
 * fewer columns, and join the result with acc unless `first` is set. */
#define DRIVER(name, S, T, A, R, MAP, OP)                                                                              \
    enum { name##_size = sizeof(A), name##_result = sizeof(R) };                                                       \
    static void name##_join(long n, void *acc, const void *more) {                                                     \
        A *a = (A *)acc;                                                                                               \
        const A *b = (const A *)more;                                                                                  \
        for (long j = 0; j < n; j++) a[j] = OP(a[j], b[j]);                                                            \
    }                                                                                                                  \
    static void name##_store(long n, const void *acc, char *out, long step) {                                          \
        const A *a = (const A *)acc;                                                                                   \
        if (n == 1)                                                                                                    \
            *(R *)out = (R)*a;                                                                                         \
        else if (step == sizeof(R))                                                                                    \
            for (long j = 0; j < n; j++) ((R *)out)[j] = (R)a[j];                                                      \
        else                                                                                                           \
            for (long j = 0; j < n; j++) *(R *)(out + j * step) = (R)a[j];                                             \
    }                                                                                                                  \
    static void name##_wide(long rows, long width, const char *x, long stride, const void *m, long ms, void *acc);     \
    static void name##_cols(long rows, long width, const char *x, long stride, const void *m, long ms, void *acc) {    \
        long k = (2 * LANES + width - 1) / width, wide = k * width, full = rows / k;                                   \
        if (m || width >= LANES || stride != width * (long)sizeof(S) || full < 4) {                                    \
            name##_wide(rows, width, x, stride, m, ms, acc);                                                           \
            return;                                                                                                    \
        }                                                                                                              \
        A buf[4 * LANES];                                                                                              \
        name##_wide(full, wide, x, wide *(long)sizeof(S), NULL, 0, buf);                                               \
        for (long h = k; h > 1; h -= h / 2)                                                                            \
            for (long j = 0; j < h / 2 * width; j++) buf[j] = OP(buf[j], buf[j + (h - h / 2) * width]);                \
        if (rows > full * k) name##_edge(rows - full * k, width, x + full * k * stride, stride, NULL, 0, buf, false);  \
        memcpy(acc, buf, (size_t)width * sizeof(A));                                                                   \
    }                                                                                                                  \
    static void name##_rows(long rows, long width, const char *x, long stride, const T *m, long ms, A *acc,            \
                            bool first) {                                                                              \
        long j = 0;                                                                                                    \
        for (; j + LANES <= width; j += LANES)                                                                         \
            name##_block(rows, x + j * (long)sizeof(S), stride, m ? m + j * ms : m, ms, acc + j, first);               \
        if (j < width)                                                                                                 \
            name##_edge(rows, width - j, x + j * (long)sizeof(S), stride, m ? m + j * ms : m, ms, acc + j, first);     \
    }                                                                                                                  \
    static void name##_wide(long rows, long width, const char *x, long stride, const void *m, long ms, void *acc) {    \
        if (rows <= BLOCK) {                                                                                           \
            name##_rows(rows, width, x, stride, (const T *)m, ms, (A *)acc, true);                                     \
            return;                                                                                                    \
        }                                                                                                              \
        A level[3][DL_REDUCE_TILE];                                                                                    \
        long n[3] = {0};                                                                                               \
        for (long i = 0; i < rows; i += BLOCK) {                                                                       \
            long h = rows - i < BLOCK ? rows - i : BLOCK;                                                              \
            name##_rows(h, width, x + i * stride, stride, (const T *)m, ms, level[0], n[0] == 0);                      \
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
    static void name##_row(long n, const char *x, long stride, const void *m, void *acc) {                             \
        if (stride == sizeof(S)) {                                                                                     \
            name##_dense(n, x, m, (A *)acc);                                                                           \
            return;                                                                                                    \
        }                                                                                                              \
        S buf[1024];                                                                                                   \
        for (long i = 0; i < n; i += 1024) {                                                                           \
            long w = n - i < 1024 ? n - i : 1024;                                                                      \
            for (long k = 0; k < w; k++) buf[k] = *(const S *)(x + (i + k) * stride);                                  \
            A part;                                                                                                    \
            name##_dense(w, (const char *)buf, m, &part);                                                              \
            *(A *)acc = i ? OP(*(A *)acc, part) : part;                                                                \
        }                                                                                                              \
    }

#define ENTRY(name, ident)                                                                                             \
    { name##_row, name##_cols, name##_join, name##_store, name##_size, name##_result, ident }

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
    REDUCER(sum_##T, T, T, unsigned long, WIDE, PLUS)                                                                  \
    REDUCER(prod_##T, T, T, unsigned long, WIDE, TIMES)                                                                \
    REDUCER(max_##T, T, T, T, SELF, LARGER)                                                                            \
    REDUCER(min_##T, T, T, T, SELF, SMALLER)                                                                           \
    TRUTHS(T, T)

#define TRUTHS(S, T)                                                                                                   \
    REDUCER(any_##S, S, T, u8, TRUTH, OR)                                                                              \
    REDUCER(all_##S, S, T, u8, TRUTH, AND)

#define FLOATS(S, T, INT)                                                                                              \
    REDUCER(prod_##S, S, T, T, SELF, TIMES)                                                                            \
    EXTREME(max_##S, S, T, INT, LARGER, LARGER_NAN)                                                                    \
    EXTREME(min_##S, S, T, INT, SMALLER, SMALLER_NAN)                                                                  \
    TRUTHS(S, T)

#define EXP32(x, m) dl_vexp((x) - (m))
#define EXP64(x, m) dl_vexp_f64((x) - (m))
#define SQUARE(x, m) (((x) - (m)) * ((x) - (m)))
#define ABS32(x, m) ((void)(m), fabsf(x))
#define ABS64(x, m) ((void)(m), fabs(x))
#define KNOWN(x, m) ((void)(m), (x) == (x) ? (x) : 0)

/* Of floats that are reduced in f32. */
#define SINGLES(S)                                                                                                     \
    FLOATS(S, f32, int)                                                                                                \
    SUM_BY_FOURS(sum_##S, S, SELF)                                                                                     \
    REDUCER(sum_few_##S, S, f32, f32, SELF, PLUS)                                                                      \
    REDUCER(sumexp_##S, S, f32, f32, EXP32, PLUS)                                                                      \
    SUM_BY_FOURS(sumsquare_##S, S, SQUARE)                                                                             \
    SUM_BY_FOURS(sumabs_##S, S, ABS32)                                                                                 \
    SUM_BY_FOURS(sumknown_##S, S, KNOWN)

INTS(u8)
INTS(i32)
INTS(i64)
SINGLES(f32)
SINGLES(bf16)
SINGLES(f16)
FLOATS(f64, f64, long)
REDUCER(sum_f64, f64, f64, f64, SELF, PLUS)
REDUCER(sumexp_f64, f64, f64, f64, EXP64, PLUS)
REDUCER(sumsquare_f64, f64, f64, f64, SQUARE, PLUS)
REDUCER(sumabs_f64, f64, f64, f64, ABS64, PLUS)
REDUCER(sumknown_f64, f64, f64, f64, KNOWN, PLUS)

#define SINGLES_OF(name, ident)                                                                                        \
    [DL_F32] = ENTRY(name##_f32, ident), [DL_BF16] = ENTRY(name##_bf16, ident), [DL_F16] = ENTRY(name##_f16, ident)
#define FLOATS_OF(name, ident) SINGLES_OF(name, ident), [DL_F64] = ENTRY(name##_f64, ident)
#define ALL_OF(name, ident)                                                                                            \
    [DL_BOOL] = ENTRY(name##_u8, ident), [DL_U8] = ENTRY(name##_u8, ident), [DL_I32] = ENTRY(name##_i32, ident),       \
    [DL_I64] = ENTRY(name##_i64, ident), FLOATS_OF(name, ident)

const dl_reducer DL_SIMD_NAME(dl_reducer_table)[DL_NREDUCE][DL_NDTYPE] = {
    [DL_R_SUM] = {ALL_OF(sum, 0)},
    [DL_R_SUM_FEW] = {SINGLES_OF(sum_few, 0)},
    [DL_R_PROD] = {ALL_OF(prod, 1)},
    [DL_R_MAX] = {ALL_OF(max, 0)},
    [DL_R_MIN] = {ALL_OF(min, 0)},
    [DL_R_ANY] = {ALL_OF(any, 0)},
    [DL_R_ALL] = {ALL_OF(all, 1)},
    [DL_R_SUMEXP] = {FLOATS_OF(sumexp, 0)},
    [DL_R_SUMSQUARE] = {FLOATS_OF(sumsquare, 0)},
    [DL_R_SUMABS] = {FLOATS_OF(sumabs, 0)},
    [DL_R_SUMKNOWN] = {FLOATS_OF(sumknown, 0)},
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
