/* Makes the kernels of ops of ops/pointwise.def: DL_FUNCTIONS with one operand, DL_FUNCTIONS2 with two, DL_FUNCTIONS3
 * with three, DL_TESTS with one or two. No guard: a source defines what it makes, and includes this. */
#ifdef DL_FUNCTIONS
#define DL_FUNCTIONS_ONLY(...) __VA_ARGS__
#else
#define DL_FUNCTIONS_ONLY(...)
#endif
#ifdef DL_FUNCTIONS2
#define DL_FUNCTIONS2_ONLY(...) __VA_ARGS__
#else
#define DL_FUNCTIONS2_ONLY(...)
#endif
#ifdef DL_FUNCTIONS3
#define DL_FUNCTIONS3_ONLY(...) __VA_ARGS__
#else
#define DL_FUNCTIONS3_ONLY(...)
#endif
#ifdef DL_TESTS
#define DL_TESTS_ONLY(...) __VA_ARGS__
#else
#define DL_TESTS_ONLY(...)
#endif

/* For each op: which formulas it has, then their functions, then its kernel. */
#define DL_HAS(name, ...) enum { has_##name = 0 __VA_ARGS__ };
#define FUNCTION_OF(name, numbers, ...) DL_FUNCTIONS_ONLY(DL_HAS(name, __VA_ARGS__))
#define FUNCTION2_OF(name, numbers, ...) DL_FUNCTIONS2_ONLY(DL_HAS(name, __VA_ARGS__))
#define FUNCTION3_OF(name, numbers, ...) DL_FUNCTIONS3_ONLY(DL_HAS(name, __VA_ARGS__))
#define TEST(name, ...) DL_TESTS_ONLY(DL_HAS(name, __VA_ARGS__))
#define TEST2(name, ...) DL_TESTS_ONLY(DL_HAS(name, __VA_ARGS__))
#define FLOAT(...) | DL_FLOATS
#define INT(...) | DL_INTS
#define BOOL(...) | DL_BIT(DL_BOOL)
#define COMPLEX(...) | DL_COMPLEX
#define HALF(...) | DL_HAS_HALF
#define GRAD_X(...) | DL_HAS_GRAD_X
#define GRAD_Y(...) | DL_HAS_GRAD_Y
#define GRAD_COMPLEX_X(...) | DL_HAS_GRAD_COMPLEX_X
#define GRAD_COMPLEX_Y(...) | DL_HAS_GRAD_COMPLEX_Y
#define GRAD_B(...) | DL_HAS_GRAD_ALL
#define FAULTS | DL_HAS_FAULTS
#include "ops/pointwise.def"

#define FUNCTION_OF(name, numbers, ...) DL_FUNCTIONS_ONLY(DL_STRUCT(name, 1, 0, numbers, T, (T x), __VA_ARGS__))
#define FUNCTION2_OF(name, numbers, ...) DL_FUNCTIONS2_ONLY(DL_STRUCT(name, 2, 0, numbers, T, (T a, T b), __VA_ARGS__))
#define FUNCTION3_OF(name, numbers, ...)                                                                               \
    DL_FUNCTIONS3_ONLY(DL_STRUCT(name, 3, 0, numbers, T, (T a, T b, T c), __VA_ARGS__))
#define TEST(name, ...) DL_TESTS_ONLY(DL_STRUCT(name, 1, 1, (), bool, (T x), __VA_ARGS__))
#define TEST2(name, ...) DL_TESTS_ONLY(DL_STRUCT(name, 2, 1, (), bool, (T a, T b), __VA_ARGS__))
#define FLOAT(...)                                                                                                     \
    if constexpr (dl_is_real<T> && !(H && (HAS & DL_HAS_HALF))) return dl_typed<T, TESTS != 0>(__VA_ARGS__);
#define HALF(...)                                                                                                      \
    if constexpr (H) return dl_typed<T, false>(__VA_ARGS__);
#define INT(...)                                                                                                       \
    if constexpr (dl_is_int<T>) return (std::conditional_t<TESTS, bool, T>)(__VA_ARGS__);
#define BOOL(...)                                                                                                      \
    if constexpr (std::is_same<T, bool>::value) return (bool)(__VA_ARGS__);
#define COMPLEX(...)                                                                                                   \
    if constexpr (dl_is_complex<T>) return dl_typed<T, TESTS != 0>(__VA_ARGS__);
#include "ops/pointwise.def"

#define FUNCTION_OF(name, numbers, ...) DL_FUNCTIONS_ONLY(DL_GRAD_STRUCT(name, a, numbers, (T g, T x), __VA_ARGS__))
#define GRAD_X(...) __VA_ARGS__
#include "ops/pointwise.def"
#define FUNCTION_OF(name, numbers, ...) DL_FUNCTIONS_ONLY(DL_GRAD_STRUCT(name, a, numbers, (T g, T y), __VA_ARGS__))
#define GRAD_Y(...) __VA_ARGS__
#include "ops/pointwise.def"
#define FUNCTION_OF(name, numbers, ...)                                                                                \
    DL_FUNCTIONS_ONLY(DL_GRAD_STRUCT(name, complex, numbers, (T g, T x), __VA_ARGS__))
#define GRAD_COMPLEX_X(...) __VA_ARGS__
#include "ops/pointwise.def"
#define FUNCTION_OF(name, numbers, ...)                                                                                \
    DL_FUNCTIONS_ONLY(DL_GRAD_STRUCT(name, complex, numbers, (T g, T y), __VA_ARGS__))
#define GRAD_COMPLEX_Y(...) __VA_ARGS__
#include "ops/pointwise.def"
#define DL_GRAD_STRUCT2(...) DL_FUNCTIONS2_ONLY(DL_GRAD_STRUCT(__VA_ARGS__))
#define DL_GRAD_STRUCT3(...) DL_FUNCTIONS3_ONLY(DL_GRAD_STRUCT(__VA_ARGS__))
#define FUNCTION2_OF(name, numbers, ...) DL_GRAD_STRUCT2(name, a, numbers, (T g, T a, T b), __VA_ARGS__)
#define FUNCTION3_OF(name, numbers, ...) DL_GRAD_STRUCT3(name, a, numbers, (T g, T a, T b, T c), __VA_ARGS__)
#define GRAD_A(...) __VA_ARGS__
#include "ops/pointwise.def"
#define FUNCTION2_OF(name, numbers, ...) DL_GRAD_STRUCT2(name, b, numbers, (T g, T a, T b), __VA_ARGS__)
#define FUNCTION3_OF(name, numbers, ...) DL_GRAD_STRUCT3(name, b, numbers, (T g, T a, T b, T c), __VA_ARGS__)
#define GRAD_B(...) __VA_ARGS__
#include "ops/pointwise.def"
#define FUNCTION3_OF(name, numbers, ...) DL_GRAD_STRUCT3(name, c, numbers, (T g, T a, T b, T c), __VA_ARGS__)
#define GRAD_C(...) __VA_ARGS__
#include "ops/pointwise.def"

#define FUNCTION_OF(name, numbers, ...) DL_FUNCTIONS_ONLY(DL_KERNEL(name, 0, name##_grad_a))
#define FUNCTION2_OF(name, numbers, ...) DL_FUNCTIONS2_ONLY(DL_KERNEL(name, DL_K_NUMBERS, name##_grad_a, name##_grad_b))
#define FUNCTION3_OF(name, numbers, ...)                                                                               \
    DL_FUNCTIONS3_ONLY(DL_KERNEL(name, DL_K_NUMBERS, name##_grad_a, name##_grad_b, name##_grad_c))
#define TEST(name, ...) DL_TESTS_ONLY(DL_KERNEL(name, 0, name##_grad_a))
#define TEST2(name, ...) DL_TESTS_ONLY(DL_KERNEL(name, DL_K_NUMBERS, name##_grad_a))
#include "ops/pointwise.def"
