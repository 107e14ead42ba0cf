/* Choosing among the variants of loops that *_simd.c files are compiled to, one a level of the instruction set: 1 is
 * the baseline of the architecture; on x86-64, 3 is AVX2 with FMA and 4 is AVX-512. */
#pragma once

#define DL_SIMD_CAT_(a, b) a##b
#define DL_SIMD_CAT(a, b) DL_SIMD_CAT_(a, b)
/* In a *_simd.c file: the name with this variant's suffix. */
#define DL_SIMD_NAME(name) DL_SIMD_CAT(name, DL_SIMD_SUFFIX)

/* The level of this machine. */
int dl_simd_level(void);
/* Uses no level above `level` from now on, for tests. Returns the level in use. */
int dl_simd_limit(int level);

/* DL_SIMD_DECL(extern const dl_loop, table, [4]) declares the variants, DL_SIMD_PICK(table) is the one to use. With
 * DL_SIMD_ONLY, a level, there are no others, and the machine must have it. */
#ifdef DL_SIMD_ONLY
#define DL_SIMD_DECL(type, name, dims) type DL_SIMD_CAT(name##_v, DL_SIMD_ONLY) dims
#define DL_SIMD_PICK(name) (DL_SIMD_CAT(name##_v, DL_SIMD_ONLY))
#elif defined(__x86_64__)
#define DL_SIMD_DECL(type, name, dims) type name##_v1 dims, name##_v3 dims, name##_v4 dims
#define DL_SIMD_PICK(name) (dl_simd_level() == 4 ? name##_v4 : dl_simd_level() == 3 ? name##_v3 : name##_v1)
#else
#define DL_SIMD_DECL(type, name, dims) type name##_v1 dims
#define DL_SIMD_PICK(name) (name##_v1)
#endif
