/* The numbers of families of orthogonal polynomials: first, shift; a, b and c, each as its factor and its constant;
 * divided. p[0] = 1, p[1] = first x + shift and p[k + 1] = (a x + b) p[k] - c p[k - 1], where a, b and c are
 * (factor k + constant), over k + 1 if divided. */
#pragma once

#define CHEBYSHEV(first, shift) first, shift, 0, 2, 0, 0, 0, 1, 0
#define HERMITE(factor) factor, 0, 0, factor, 0, 0, factor, 0, 0
#define LAGUERRE -1, 1, 0, -1, 2, 1, 1, 0, 1
#define LEGENDRE 1, 0, 2, 1, 0, 0, 1, 0, 1
