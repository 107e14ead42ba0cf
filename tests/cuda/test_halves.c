/* Formulas that have a quick form for results of 16 bits, on the GPU against the CPU: all numbers of 16 bits, and many
 * pairs of them. */
#include "cuda/gpu.h"
#include "dlcore/arithmetic.h"
#include "dlcore/binary.h"
#include "dlcore/elementary.h"
#include "dlcore/unary.h"

#include <math.h>
#include <stdint.h>

enum { NUMBERS = 1 << 16 };

typedef dl_tensor *unary(dl_tensor *x);
typedef dl_tensor *binary(dl_tensor *a, dl_tensor *b);

static dl_tensor *gelu_tanh(dl_tensor *x) { return dl_gelu(x, "tanh"); }

/* Bits by * i + from of number i. */
static dl_tensor *numbers(dl_dtype dtype, unsigned by, unsigned from) {
    const long n = NUMBERS;
    dl_tensor *t = must(dl_tensor_empty(1, &n, dtype, 0));
    for (unsigned i = 0; i < NUMBERS; i++) ((uint16_t *)dl_data(t))[i] = (uint16_t)(by * i + from);
    return t;
}

static int in_order(uint16_t bits) { return bits & 0x8000 ? -(int)(bits & 0x7fff) : (int)bits; }

/* Results differ by at most `apart` numbers of the dtype, or are both next to 0. Releases them. */
static void close(dl_tensor *cpu, dl_tensor *gpu, const char *name, int apart) {
    dl_tensor *back = must(dl_to_device(must(gpu), 0)), *a = must(dl_to_dtype(must(cpu), DL_F64)),
              *b = must(dl_to_dtype(back, DL_F64));
    for (long i = 0; i < NUMBERS; i++) {
        const double x = ((double *)dl_data(a))[i], y = ((double *)dl_data(b))[i];
        const int off = in_order(((uint16_t *)dl_data(cpu))[i]) - in_order(((uint16_t *)dl_data(back))[i]);
        const bool nan = isnan(x) || isnan(y);
        if (nan ? isnan(x) && isnan(y) : (off <= apart && off >= -apart) || (fabs(x) < 1e-36 && fabs(y) < 1e-36))
            continue;
        fail_msg("%s of %s, number %ld: %g on the GPU, not %g", name, dl_dtype_name(dl_dtype_of(cpu)), i, y, x);
    }
    dl_unref(cpu), dl_unref(gpu), dl_unref(back), dl_unref(a), dl_unref(b);
}

static void of_one(void **state) {
    (void)state;
    NEEDS_GPU();
    static const struct {
        const char *name;
        unary *fn;
    } rows[] = {{"gelu by tanh", gelu_tanh},
                {"hardswish", dl_hardswish},
                {"hardsigmoid", dl_hardsigmoid},
                {"silu", dl_silu},
                {"rsqrt", dl_rsqrt}};
    for (int t = DL_F16; t <= DL_BF16; t++) {
        dl_tensor *x = numbers((dl_dtype)t, 1, 0), *there = must(dl_to_device(x, GPU));
        for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
            close(rows[i].fn(x), rows[i].fn(there), rows[i].name, 1);
        dl_unref(x), dl_unref(there);
    }
}

static void of_two(void **state) {
    (void)state;
    NEEDS_GPU();
    static const struct {
        const char *name;
        binary *fn;
        int apart;
    } rows[] = {{"hypot", dl_hypot, 1}, {"fmod", dl_fmod, 0}, {"remainder", dl_remainder, 0}};
    for (int t = DL_F16; t <= DL_BF16; t++)
        for (unsigned k = 0; k < 40; k++) { /* pairs of every distance, neighbours among them */
            dl_tensor *a = numbers((dl_dtype)t, 1, 0),
                      *b = numbers((dl_dtype)t, k < 20 ? 1 : 40503 + 2 * k, 37 * k * k);
            dl_tensor *a_there = must(dl_to_device(a, GPU)), *b_there = must(dl_to_device(b, GPU));
            for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
                close(rows[i].fn(a, b), rows[i].fn(a_there, b_there), rows[i].name, rows[i].apart);
            dl_unref(a), dl_unref(b), dl_unref(a_there), dl_unref(b_there);
        }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_one), cmocka_unit_test(of_two)};
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
