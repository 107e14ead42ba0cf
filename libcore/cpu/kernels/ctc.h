/* Loops over the states of a sequence: ctc_simd.c defines them, ctc.c runs them. */
#pragma once

#include "cpu/runtime/simd.h"

typedef struct dl_ctc_loops {
    /* out = ln(e**a + e**b + e**(c + skip)) + add */
    void (*join)(long n, const double *a, const double *b, const double *c, const double *skip, const double *add,
                 double *out);
    /* out = e**(a + b + by) */
    void (*shares)(long n, const double *a, const double *b, double by, double *out);
} dl_ctc_loops;
DL_SIMD_DECL(extern const dl_ctc_loops, dl_ctc, );
