/* Polynomials by Horner's rule: DL_HORNER(F, x, a, b, c) is F(F(a, x, b), x, c), F(p, x, c) being p * x + c in the way
 * that the source wants it. Coefficients of falling powers, three to ten of them. */
#pragma once

#define DL_MUL_ADD(p, x, c) ((p) * (x) + (c))

#define DL_HORNER_2(F, x, p, c) F(p, x, c)
#define DL_HORNER_3(F, x, p, c, ...) DL_HORNER_2(F, x, F(p, x, c), __VA_ARGS__)
#define DL_HORNER_4(F, x, p, c, ...) DL_HORNER_3(F, x, F(p, x, c), __VA_ARGS__)
#define DL_HORNER_5(F, x, p, c, ...) DL_HORNER_4(F, x, F(p, x, c), __VA_ARGS__)
#define DL_HORNER_6(F, x, p, c, ...) DL_HORNER_5(F, x, F(p, x, c), __VA_ARGS__)
#define DL_HORNER_7(F, x, p, c, ...) DL_HORNER_6(F, x, F(p, x, c), __VA_ARGS__)
#define DL_HORNER_8(F, x, p, c, ...) DL_HORNER_7(F, x, F(p, x, c), __VA_ARGS__)
#define DL_HORNER_9(F, x, p, c, ...) DL_HORNER_8(F, x, F(p, x, c), __VA_ARGS__)
#define DL_HORNER_10(F, x, p, c, ...) DL_HORNER_9(F, x, F(p, x, c), __VA_ARGS__)
#define DL_HORNER_OF(a, b, c, d, e, f, g, h, i, j, name, ...) name
#define DL_HORNER(F, x, ...)                                                                                           \
    DL_HORNER_OF(__VA_ARGS__, DL_HORNER_10, DL_HORNER_9, DL_HORNER_8, DL_HORNER_7, DL_HORNER_6, DL_HORNER_5,           \
                 DL_HORNER_4, DL_HORNER_3, )                                                                           \
    (F, x, __VA_ARGS__)
