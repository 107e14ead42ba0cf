/* The instruction set level of this machine. */
#include "cpu/runtime/simd.h"
#include "cpu/runtime/vmath.h"

dl_vmath_word dl_vmath_bits = {
    .snan = 0x7fa00000, .top = 0x42b20000, .snan_f64 = 0x7ff4000000000000, .top_f64 = 0x4086400000000000};

static int limit = 4;

static int detect(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    /* processors that have these have the rest of x86-64-v3, too; clang 14 does not know the names of all */
    int v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
             __builtin_cpu_supports("bmi2");
    int v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
    return v3 && v4 ? 4 : v3 ? 3 : 1;
#else
    return 1;
#endif
}

int dl_simd_level(void) {
    static int level;
    int l = __atomic_load_n(&level, __ATOMIC_RELAXED);
    if (!l) {
        l = detect();
        __atomic_store_n(&level, l, __ATOMIC_RELAXED);
    }
    int most = __atomic_load_n(&limit, __ATOMIC_RELAXED);
    return l <= most ? l : most < 3 ? 1 : most;
}

int dl_simd_limit(int level) {
    __atomic_store_n(&limit, level, __ATOMIC_RELAXED);
    return dl_simd_level();
}
