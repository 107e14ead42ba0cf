/* Inner loops that copy: elements of 1, 2, 4, 8 or 16 bytes as they are, and casts between the dtypes with a native C
 * type (16-bit floats go through f32). Out of range saturates to i64 and then wraps, and NaN becomes 0, as in
 * dl_store_f64. */
#include "cpu/runtime/copy.h"
#include "cpu/runtime/loop_types.h"
#include "cpu/runtime/simd.h"

static inline long to_long(double v) {
    return !(v == v) ? 0 : v >= 0x1p63 ? __LONG_MAX__ : v <= -0x1p63 ? -__LONG_MAX__ - 1 : (long)v;
}

/* Conversions by kind of target and source. */
#define TO_BOOL(v) ((unsigned char)((v) != 0))
#define TO_SELF(T, v) ((T)(v))
#define TO_INT(T, v) ((T)to_long((double)(v)))
#define TO_PAIR(T, part, v) ((T){(part)(v), 0})

#define LOOP(name, D, S, expr)                                                                                         \
    static void name(long n, char **p, const long *s, void *arg) {                                                     \
        (void)arg;                                                                                                     \
        if (s[0] == sizeof(D) && s[1] == sizeof(S)) {                                                                  \
            D *d = (D *)p[0];                                                                                          \
            const S *x = (const S *)p[1];                                                                              \
            _Pragma("GCC ivdep") for (long i = 0; i < n; i++) {                                                        \
                S v = x[i];                                                                                            \
                d[i] = expr;                                                                                           \
            }                                                                                                          \
        } else if (s[0] == sizeof(D) && s[1] == 0) {                                                                   \
            D *d = (D *)p[0];                                                                                          \
            S v = *(const S *)p[1];                                                                                    \
            D w = expr;                                                                                                \
            for (long i = 0; i < n; i++) d[i] = w;                                                                     \
        } else {                                                                                                       \
            char *d = p[0], *x = p[1];                                                                                 \
            for (long i = 0; i < n; i++, d += s[0], x += s[1]) {                                                       \
                S v = *(const S *)x;                                                                                   \
                *(D *)d = expr;                                                                                        \
            }                                                                                                          \
        }                                                                                                              \
    }

/* With a loop for a source that is read backwards, as flip does. */
#define COPY(name, T)                                                                                                  \
    LOOP(name##_onward, T, T, v)                                                                                       \
    static void name(long n, char **p, const long *s, void *arg) {                                                     \
        if (s[0] == sizeof(T) && s[1] == -(long)sizeof(T)) {                                                           \
            T *d = (T *)p[0];                                                                                          \
            const T *x = (const T *)p[1];                                                                              \
            _Pragma("GCC ivdep") for (long i = 0; i < n; i++) d[i] = x[-i];                                            \
        } else {                                                                                                       \
            name##_onward(n, p, s, arg);                                                                               \
        }                                                                                                              \
    }
COPY(copy1, unsigned char)
COPY(copy2, unsigned short)
COPY(copy4, unsigned)
COPY(copy8, unsigned long)
COPY(copy16, c128)

const dl_loop DL_SIMD_NAME(dl_copy_loop)[17] = {[1] = copy1, [2] = copy2, [4] = copy4, [8] = copy8, [16] = copy16};

/* Each source type to all targets; X is the expression macro of integer targets. */
#define FROM(id, S, INT)                                                                                               \
    LOOP(id##_bool, unsigned char, S, TO_BOOL(v))                                                                      \
    LOOP(id##_u8, unsigned char, S, INT(unsigned char, v))                                                             \
    LOOP(id##_i32, int, S, INT(int, v))                                                                                \
    LOOP(id##_i64, long, S, INT(long, v))                                                                              \
    LOOP(id##_f32, float, S, TO_SELF(float, v))                                                                        \
    LOOP(id##_f64, double, S, TO_SELF(double, v))                                                                      \
    LOOP(id##_c64, c64, S, TO_PAIR(c64, f32, v))                                                                       \
    LOOP(id##_c128, c128, S, TO_PAIR(c128, f64, v))
FROM(u8, unsigned char, TO_SELF)
FROM(i32, int, TO_SELF)
FROM(i64, long, TO_SELF)
FROM(f32, float, TO_INT)
FROM(f64, double, TO_INT)

/* The real part of complex numbers; both are 0 where bool is false. */
#define FROM_PAIR(id, S)                                                                                               \
    LOOP(id##_bool, unsigned char, S, (unsigned char)(v.re != 0 || v.im != 0))                                         \
    LOOP(id##_u8, unsigned char, S, TO_INT(unsigned char, v.re))                                                       \
    LOOP(id##_i32, int, S, TO_INT(int, v.re))                                                                          \
    LOOP(id##_i64, long, S, TO_INT(long, v.re))                                                                        \
    LOOP(id##_f32, float, S, TO_SELF(float, v.re))                                                                     \
    LOOP(id##_f64, double, S, TO_SELF(double, v.re))                                                                   \
    LOOP(id##_c64, c64, S, ((c64){(f32)v.re, (f32)v.im}))                                                              \
    LOOP(id##_c128, c128, S, ((c128){(f64)v.re, (f64)v.im}))
FROM_PAIR(c64, c64)
FROM_PAIR(c128, c128)

#define ROW(id)                                                                                                        \
    {                                                                                                                  \
        [DL_BOOL] = id##_bool, [DL_U8] = id##_u8, [DL_I32] = id##_i32, [DL_I64] = id##_i64, [DL_F16] = id##_f32,       \
        [DL_BF16] = id##_f32, [DL_F32] = id##_f32, [DL_F64] = id##_f64, [DL_C64] = id##_c64, [DL_C128] = id##_c128     \
    }

/* [source][target] */
const dl_loop DL_SIMD_NAME(dl_cast_loop)[DL_NDTYPE][DL_NDTYPE] = {
    [DL_BOOL] = ROW(u8),  [DL_U8] = ROW(u8),   [DL_I32] = ROW(i32), [DL_I64] = ROW(i64), [DL_F16] = ROW(f32),
    [DL_BF16] = ROW(f32), [DL_F32] = ROW(f32), [DL_F64] = ROW(f64), [DL_C64] = ROW(c64), [DL_C128] = ROW(c128)};

/* ---- several operands side by side: a loop of its own for two dense ones, else one operand after another by blocks */

enum { WOVEN = 512 };

#define WEAVE(name, T)                                                                                                 \
    static void name##_two(long n, T *restrict o, const T *restrict a, const T *restrict b) {                          \
        for (long i = 0; i < n; i++) o[2 * i] = a[i], o[2 * i + 1] = b[i];                                             \
    }                                                                                                                  \
    static void name(long n, char **p, const long *s, void *arg) {                                                     \
        const int parts = *(const int *)arg;                                                                           \
        if (parts == 2 && s[0] == 2 * sizeof(T) && s[1] == sizeof(T) && s[2] == sizeof(T)) {                           \
            name##_two(n, (T *)p[0], (const T *)p[1], (const T *)p[2]);                                                \
            return;                                                                                                    \
        }                                                                                                              \
        for (long at = 0; at < n; at += WOVEN)                                                                         \
            for (int k = 0; k < parts; k++) {                                                                          \
                const long end = n - at < WOVEN ? n : at + WOVEN;                                                      \
                for (long i = at; i < end; i++) *((T *)(p[0] + i * s[0]) + k) = *(const T *)(p[1 + k] + i * s[1 + k]); \
            }                                                                                                          \
    }
WEAVE(weave1, unsigned char)
WEAVE(weave2, unsigned short)
WEAVE(weave4, unsigned)
WEAVE(weave8, unsigned long)
WEAVE(weave16, c128)

const dl_loop DL_SIMD_NAME(dl_weave_loop)[17] = {
    [1] = weave1, [2] = weave2, [4] = weave4, [8] = weave8, [16] = weave16};

/* Dense elements, each written so often as *arg says, one after another. */
#define REPEAT(name, T)                                                                                                \
    static inline void name##_times(long n, long times, T *restrict o, const T *restrict x) {                          \
        for (long i = 0; i < n; i++)                                                                                   \
            for (long k = 0; k < times; k++) o[i * times + k] = x[i];                                                  \
    }                                                                                                                  \
    static void name(long n, char **p, const long *s, void *arg) {                                                     \
        const long times = *(const long *)arg;                                                                         \
        T *o = (T *)p[0];                                                                                              \
        const T *x = (const T *)p[1];                                                                                  \
        (void)s;                                                                                                       \
        if (times == 2)                                                                                                \
            name##_times(n, 2, o, x);                                                                                  \
        else if (times == 3)                                                                                           \
            name##_times(n, 3, o, x);                                                                                  \
        else if (times == 4)                                                                                           \
            name##_times(n, 4, o, x);                                                                                  \
        else                                                                                                           \
            name##_times(n, times, o, x);                                                                              \
    }
REPEAT(repeat1, unsigned char)
REPEAT(repeat2, unsigned short)
REPEAT(repeat4, unsigned)
REPEAT(repeat8, unsigned long)
REPEAT(repeat16, c128)

const dl_loop DL_SIMD_NAME(dl_repeat_loop)[17] = {
    [1] = repeat1, [2] = repeat2, [4] = repeat4, [8] = repeat8, [16] = repeat16};

/* ---- condition, two values */

#define WHERE(name, T)                                                                                                 \
    static void name(long n, char **p, const long *s, void *arg) {                                                     \
        (void)arg;                                                                                                     \
        char *o = p[0], *c = p[1], *a = p[2], *b = p[3];                                                               \
        T *to = (T *)o, *x = (T *)a, *y = (T *)b;                                                                      \
        const unsigned char *m = (const unsigned char *)c;                                                             \
        bool dense = s[0] == sizeof(T) && s[1] == 1;                                                                   \
        if (dense && s[2] == sizeof(T) && s[3] == sizeof(T)) {                                                         \
            _Pragma("GCC ivdep") for (long i = 0; i < n; i++) {                                                        \
                T u = x[i], v = y[i];                                                                                  \
                to[i] = m[i] ? u : v;                                                                                  \
            }                                                                                                          \
        } else if (dense && s[2] == sizeof(T) && s[3] == 0) {                                                          \
            T v = *y;                                                                                                  \
            _Pragma("GCC ivdep") for (long i = 0; i < n; i++) {                                                        \
                T u = x[i];                                                                                            \
                to[i] = m[i] ? u : v;                                                                                  \
            }                                                                                                          \
        } else if (dense && s[2] == 0 && s[3] == sizeof(T)) {                                                          \
            T u = *x;                                                                                                  \
            _Pragma("GCC ivdep") for (long i = 0; i < n; i++) {                                                        \
                T v = y[i];                                                                                            \
                to[i] = m[i] ? u : v;                                                                                  \
            }                                                                                                          \
        } else if (dense && s[2] == 0 && s[3] == 0) {                                                                  \
            T u = *x, v = *y;                                                                                          \
            _Pragma("GCC ivdep") for (long i = 0; i < n; i++) to[i] = m[i] ? u : v;                                    \
        } else if (s[1] == 0 && s[0] == sizeof(T) && n && s[*m ? 2 : 3] % (long)sizeof(T) == 0) {                      \
            const T *from = *m ? x : y;                                                                                \
            const long step = s[*m ? 2 : 3] / (long)sizeof(T);                                                         \
            const T first = *from;                                                                                     \
            if (step == 0)                                                                                             \
                for (long i = 0; i < n; i++) to[i] = first;                                                            \
            else if (step == 1)                                                                                        \
                _Pragma("GCC ivdep") for (long i = 0; i < n; i++) to[i] = from[i];                                     \
            else                                                                                                       \
                for (long i = 0; i < n; i++) to[i] = from[i * step];                                                   \
        } else {                                                                                                       \
            for (long i = 0; i < n; i++, o += s[0], c += s[1], a += s[2], b += s[3]) *(T *)o = *c ? *(T *)a : *(T *)b; \
        }                                                                                                              \
    }
WHERE(where1, unsigned char)
WHERE(where2, unsigned short)
WHERE(where4, unsigned)
WHERE(where8, unsigned long)
WHERE(where16, c128)

const dl_loop DL_SIMD_NAME(dl_where_loop)[17] = {
    [1] = where1, [2] = where2, [4] = where4, [8] = where8, [16] = where16};

/* ---- transposition: rows of the source become columns of the target, in tiles that fit the first cache */

enum { TILE = DL_TRANSPOSE_ROWS };

/* A block of WIDE by WIDE elements, from x to rows of a tile. A round interleaves each row of the upper half with that
 * of the lower half; after ROUNDS, the logarithm of WIDE, rows are columns. FIRST, SECOND: the lanes of both results.
 */
#define BLOCK(name, T, WIDE, ROUNDS, FIRST, SECOND)                                                                    \
    typedef T name##_row __attribute__((vector_size(WIDE * sizeof(T))));                                               \
    static inline void name(T *to, const char *x, long xrow) {                                                         \
        name##_row row[WIDE], next[WIDE];                                                                              \
        const name##_row first = FIRST, second = SECOND;                                                               \
        for (int r = 0; r < WIDE; r++) memcpy(&row[r], x + r * xrow, sizeof *row);                                     \
        for (int i = 0; i < ROUNDS; i++) {                                                                             \
            for (int r = 0; r < WIDE / 2; r++) {                                                                       \
                next[2 * r] = __builtin_shuffle(row[r], row[r + WIDE / 2], first);                                     \
                next[2 * r + 1] = __builtin_shuffle(row[r], row[r + WIDE / 2], second);                                \
            }                                                                                                          \
            memcpy(row, next, sizeof row);                                                                             \
        }                                                                                                              \
        for (int r = 0; r < WIDE; r++) memcpy(to + r * TILE, &row[r], sizeof *row);                                    \
    }
#define HALF8(n)                                                                                                       \
    { n, n + 8, n + 1, n + 9, n + 2, n + 10, n + 3, n + 11 }
#define HALF16(n)                                                                                                      \
    {                                                                                                                  \
        n, n + 16, n + 1, n + 17, n + 2, n + 18, n + 3, n + 19, n + 4, n + 20, n + 5, n + 21, n + 6, n + 22, n + 7,    \
            n + 23                                                                                                     \
    }
BLOCK(block1, unsigned char, 16, 4, HALF16(0), HALF16(8))
BLOCK(block2, unsigned short, 8, 3, HALF8(0), HALF8(4))
BLOCK(block4, unsigned, 8, 3, HALF8(0), HALF8(4))
#define HALF4(n)                                                                                                       \
    { n, n + 4, n + 1, n + 5 }
BLOCK(block8, unsigned long, 4, 2, HALF4(0), HALF4(2))
static inline void block16(c128 *to, const char *x, long xrow) { (void)xrow, memcpy(to, x, sizeof *to); }

#define TRANSPOSE(name, block, WIDE, T)                                                                                \
    static void name(long n, long rows, char *d, long drow, const char *x, long xrow) {                                \
        T buf[TILE][TILE];                                                                                             \
        for (long i = 0; i < n; i += TILE) {                                                                           \
            const long w = n - i < TILE ? n - i : TILE, wide = w / WIDE * WIDE, high = rows / WIDE * WIDE;             \
            for (long r = 0; r < high; r += WIDE) {                                                                    \
                const char *from = x + r * xrow + i * (long)sizeof(T);                                                 \
                for (long k = 0; k < wide; k += WIDE) block(&buf[k][r], from + k * (long)sizeof(T), xrow);             \
            }                                                                                                          \
            for (long r = 0; r < rows; r++)                                                                            \
                for (long k = r < high ? wide : 0; k < w; k++) buf[k][r] = ((const T *)(x + r * xrow))[i + k];         \
            for (long k = 0; k < w; k++) {                                                                             \
                T *row = (T *)(d + (i + k) * drow);                                                                    \
                if (rows == TILE)                                                                                      \
                    for (long r = 0; r < TILE; r++) row[r] = buf[k][r];                                                \
                else                                                                                                   \
                    for (long r = 0; r < rows; r++) row[r] = buf[k][r];                                                \
            }                                                                                                          \
        }                                                                                                              \
    }
TRANSPOSE(transpose1, block1, 16, unsigned char)
TRANSPOSE(transpose2, block2, 8, unsigned short)
TRANSPOSE(transpose4, block4, 8, unsigned)
TRANSPOSE(transpose8, block8, 4, unsigned long)
TRANSPOSE(transpose16, block16, 1, c128)

const dl_transpose_fn DL_SIMD_NAME(dl_transpose)[17] = {
    [1] = transpose1, [2] = transpose2, [4] = transpose4, [8] = transpose8, [16] = transpose16};
