/* Element types by short names, for macros that paste them into names of loops; wrap_T: where arithmetic on T wraps
 * around by definition. */
#pragma once

typedef unsigned char bool_t;
typedef unsigned char u8;
typedef int i32;
typedef long i64;
typedef float f32;
typedef double f64;
typedef unsigned char wrap_u8;
typedef unsigned wrap_i32;
typedef unsigned long wrap_i64;
typedef float wrap_f32;
typedef double wrap_f64;

/* Complex numbers. */
typedef struct c64 {
    f32 re, im;
} c64;
typedef struct c128 {
    f64 re, im;
} c128;
