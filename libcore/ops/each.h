/* Lists of up to four names in macros: DL_EACH(X, (a, b)) is X(0, a) X(1, b), DL_COUNT((a, b)) is 2. */
#pragma once

#define DL_EACH_0(X)
#define DL_EACH_1(X, a) X(0, a)
#define DL_EACH_2(X, a, b) X(0, a) X(1, b)
#define DL_EACH_3(X, a, b, c) X(0, a) X(1, b) X(2, c)
#define DL_EACH_4(X, a, b, c, d) X(0, a) X(1, b) X(2, c) X(3, d)
#define DL_PICK_5TH(a, b, c, d, e, n, ...) n
#define DL_COUNT_OF(...) DL_PICK_5TH(0 __VA_OPT__(, ) __VA_ARGS__, 4, 3, 2, 1, 0)
#define DL_COUNT(list) DL_COUNT_OF list
#define DL_JOIN_(a, b) a##b
#define DL_JOIN(a, b) DL_JOIN_(a, b)
#define DL_PASS(f, ...) f(__VA_ARGS__)
#define DL_BARE(...) __VA_ARGS__
#define DL_EACH(X, list) DL_PASS(DL_JOIN(DL_EACH_, DL_COUNT(list)), X DL_WITH list)
#define DL_WITH(...) __VA_OPT__(, ) __VA_ARGS__
