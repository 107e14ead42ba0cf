/* Conversion of 16-bit floats from and to f32, over contiguous memory. */
#include "cpu/runtime/half.h"
#include "core/dtype.h"

#include <string.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

void DL_SIMD_NAME(dl_f16_up)(long n, const unsigned short *src, float *dst) {
    long i = 0;
#ifdef __F16C__
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src + i))));
#endif
    for (; i < n; i++) dst[i] = dl_f16_to_f32(src[i]);
}

void DL_SIMD_NAME(dl_f16_down)(long n, const float *src, unsigned short *dst) {
    long i = 0;
#ifdef __F16C__
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(dst + i), _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++) dst[i] = dl_f32_to_f16(src[i]);
}

void DL_SIMD_NAME(dl_bf16_up)(long n, const unsigned short *src, float *dst) {
    for (long i = 0; i < n; i++) {
        unsigned u = (unsigned)src[i] << 16;
        memcpy(&dst[i], &u, 4);
    }
}

void DL_SIMD_NAME(dl_bf16_down)(long n, const float *src, unsigned short *dst) {
    for (long i = 0; i < n; i++) {
        unsigned u;
        memcpy(&u, &src[i], 4);
        unsigned nan = u >> 16 | 0x40, num = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
        dst[i] = (unsigned short)((u & 0x7fffffff) > 0x7f800000 ? nan : num);
    }
}
