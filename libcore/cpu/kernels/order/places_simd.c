/* Loops of places, see places.h. */
#include "cpu/kernels/order/places.h"

enum { TOGETHER = 16, BLOCK = 32 };

/* Several values are looked for at once: each step reads one element for each of them, and does not branch on it. The
 * first step leaves a part of first - 1 elements, in which every other halves what is left. */
#define SEARCH(T, name, RISES)                                                                                         \
    static inline __attribute__((always_inline)) void name(const T *row, long n, const T *values, const long count,    \
                                                           long *restrict at, long first) {                            \
        for (long j = 0; j < count; j++) at[j] = RISES(row[first - 1], values[j]) ? n - first + 1 : 0;                 \
        for (long step = first / 2; step; step /= 2)                                                                   \
            for (long j = 0; j < count; j++) at[j] += RISES(row[at[j] + step - 1], values[j]) ? step : 0;              \
    }
#define BEFORE(a, v) (!((a) >= (v)))
#define UP_TO(a, v) (!((a) > (v)))

#define PLACES(T)                                                                                                      \
    SEARCH(T, left_##T, BEFORE)                                                                                        \
    SEARCH(T, right_##T, UP_TO)                                                                                        \
    static void search_##T(const void *r, long n, const void *v, long count, long *at, bool right) {                   \
        const T *row = r, *values = v;                                                                                 \
        long numbers = n, first = 1, i = 0;                                                                            \
        while (numbers && row[numbers - 1] != row[numbers - 1]) numbers--; /* NaN is behind every number */            \
        while (2 * first <= numbers) first *= 2;                                                                       \
        for (; numbers && i + TOGETHER <= count; i += TOGETHER) {                                                      \
            long found[TOGETHER];                                                                                      \
            if (right)                                                                                                 \
                right_##T(row, numbers, values + i, TOGETHER, found, first);                                           \
            else                                                                                                       \
                left_##T(row, numbers, values + i, TOGETHER, found, first);                                            \
            memcpy(at + i, found, sizeof found);                                                                       \
        }                                                                                                              \
        if (numbers && right)                                                                                          \
            right_##T(row, numbers, values + i, count - i, at + i, first);                                             \
        else if (numbers)                                                                                              \
            left_##T(row, numbers, values + i, count - i, at + i, first);                                              \
        else                                                                                                           \
            memset(at, 0, (size_t)count * sizeof *at);                                                                 \
        for (i = 0; numbers < n && i < count; i++)                                                                     \
            if (values[i] != values[i]) at[i] = n;                                                                     \
    }                                                                                                                  \
    /* Blocks without a better element are many. */                                                                    \
    static inline                                                                                                      \
        __attribute__((always_inline)) void running_of_##T(const T *x, long *at, long n, const bool largest) {         \
        T best = *x;                                                                                                   \
        long place = 0;                                                                                                \
        for (long i = 0; i < n; i += BLOCK) {                                                                          \
            const long end = n - i < BLOCK ? n : i + BLOCK;                                                            \
            int better = end - i < BLOCK;                                                                              \
            for (int j = 0; j < BLOCK && end - i == BLOCK; j++)                                                        \
                better |= !(largest ? x[i + j] < best : x[i + j] > best);                                              \
            if (!better)                                                                                               \
                for (long j = i; j < i + BLOCK; j++) at[j] = place;                                                    \
            for (long j = i; better && j < end; j++) {                                                                 \
                if ((largest ? x[j] >= best : x[j] <= best) || x[j] != x[j]) best = x[j], place = j;                   \
                at[j] = place;                                                                                         \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void running_##T(const void *x, long *at, long n, bool largest) {                                           \
        if (largest)                                                                                                   \
            running_of_##T(x, at, n, true);                                                                            \
        else                                                                                                           \
            running_of_##T(x, at, n, false);                                                                           \
    }
PLACES(int)
PLACES(long)
PLACES(float)
PLACES(double)

const dl_places_loops DL_SIMD_NAME(dl_places)[DL_NDTYPE] = {
    [DL_I32] = {search_int, running_int},
    [DL_I64] = {search_long, running_long},
    [DL_F32] = {search_float, running_float},
    [DL_F64] = {search_double, running_double},
};
