/* The text of formulas at run time: every one belongs to a row and says what the row takes; compiled by itself, it
 * computes what the library's loops compute, bit for bit. */
#include "support/tensors.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cpu/kernels/pointwise/pointwise.h"
#include "cpu/runtime/vmath.h"

/* Whether a formula has the operand of one letter. */
static bool names(const char *formula, char operand) {
    for (const char *p = formula; (p = strchr(p, operand)); p++)
        if ((p == formula || !isalnum((unsigned char)p[-1])) && !isalnum((unsigned char)p[1]) && p[1] != '_')
            return true;
    return false;
}

static void rows_and_formulas_agree(void **state) {
    (void)state;
    for (int i = 0; i < DL_NFORMULA; i++) {
        const dl_formula *f = dl_formula_at(i);
        const dl_op *op = dl_op_find(f->name);
        if (!op || dl_formula_of(op) != i) fail_msg("%s is not a row of the op table", f->name);
        unsigned dtypes = (f->real ? DL_FLOATS : 0) | (f->whole ? DL_INTS : 0) | (f->truth ? DL_BIT(DL_BOOL) : 0);
        unsigned taken = op->kernel[DL_BACKEND_CPU]->dtypes; /* formulas of complex numbers have no text */
        if ((taken & ~DL_COMPLEX) != dtypes || !taken) fail_msg("%s takes other dtypes", f->name);
        if (op->in_min != f->operands || op->in_max != f->operands) fail_msg("%s has other operands", f->name);
        for (int k = 0; f->number[k]; k++)
            if (dl_attr_index(op, f->number[k]) < 0) fail_msg("%s has no attribute %s", f->name, f->number[k]);
        if (f->operands == 1 && f->grad[0]) assert_true(f->from_result ? op->save_out & 1 : op->save_in & 1);
        if (f->operands > 1) assert_true(!f->grad[0] || f->grad[1]);
        for (int k = 0; f->operands > 1 && k < 3; k++)
            for (int i_in = 0; f->grad[k] && i_in < f->operands; i_in++)
                if (names(f->grad[k], (char)('a' + i_in)) && !(op->save_in >> i_in & 1))
                    fail_msg("%s: the gradient of operand %d reads operand %d, which is not saved", f->name, k, i_in);
    }
    assert_null(dl_formula_at(DL_NFORMULA));
    assert_int_equal(dl_formula_of(dl_op_find("matmul")), -1);
}

static void text_is_that_of_the_table(void **state) {
    (void)state;
    assert_string_equal(dl_formula_at(DL_FORMULA_silu)->real, "x / (1 + EXP(-x))");
    assert_string_equal(dl_formula_at(DL_FORMULA_tanh)->grad[0], "g * (1 - y * y)");
    assert_string_equal(dl_formula_at(DL_FORMULA_add)->whole, "U(a) + U(b)");
    assert_string_equal(dl_formula_at(DL_FORMULA_clamp)->number[1], "max");
    assert_null(dl_formula_at(DL_FORMULA_clamp)->number[2]);
    assert_null(dl_formula_at(DL_FORMULA_exp)->whole);
}

static const char *const single[] = {"x"}, *const several[] = {"a", "b", "c"};

/* A function of the numbers v, by the names of the operands, after the incoming gradient where `grad`. */
static void write_function(FILE *f, const dl_formula *r, const char *what, const char *text, bool grad) {
    const char *const *operand = r->operands > 1 ? several : single;
    fprintf(f, "double %s_%s(const double *v, const double *numbers) { (void)numbers;\n", what, r->name);
    if (grad) fputs("  const T g = *v++; (void)g;\n", f);
    for (int k = 0; k < r->operands; k++) {
        const char *name = grad && r->from_result ? "y" : operand[k];
        fprintf(f, "  const T %s = v[%d]; (void)%s;\n", name, k, name);
    }
    for (int k = 0; r->number[k]; k++)
        fprintf(f, "  const T %s = numbers[%d]; (void)%s;\n", r->number[k], k, r->number[k]);
    fprintf(f, "  return %s; }\n", text);
}

/* f64 functions of all floating formulas, run_NAME(operands, numbers) and grad0_NAME(g and operands or y, numbers). */
static void write_source(const char *path) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("#include <stddef.h>\n#define DL_FN(f32, f64) f64\n#include \"cpu/runtime/vmath_circle.h\"\n"
          "#include \"cpu/runtime/vmath_bessel_jy.h\"\n#include \"cpu/runtime/vmath_inverse.h\"\n"
          "#include \"cpu/runtime/vmath_power.h\"\n"
          "#include \"ops/formula_bessel.h\"\n"
          "#include \"ops/formula.h\"\n#define T double\n#define LOW(n) n\n"
          "#define HIGH(n) n\n#define DL_HELPER(name) static inline T name\n#define DL_HELPER_OF(name) name\n"
          "#define DL_REAL_HELPERS\n#include \"ops/formula_math.h\"\n",
          f);
    fprintf(f, "dl_vmath_word dl_vmath_bits = {%ld, %ld, %ld, %ld};\n", dl_vmath_bits.snan, dl_vmath_bits.top,
            dl_vmath_bits.snan_f64, dl_vmath_bits.top_f64);
    for (int i = 0; i < DL_NFORMULA; i++) {
        const dl_formula *r = dl_formula_at(i);
        if (!r->real) continue;
        write_function(f, r, "run", r->real, false);
        for (int k = 0; k < 3; k++)
            if (r->grad[k]) write_function(f, r, (const char *[]){"grad0", "grad1", "grad2"}[k], r->grad[k], true);
    }
    fclose(f);
}

enum { VALUES = 13 };
static const double x[VALUES] = {0, -0.0, 0.5, -0.5, 1.25, -3, 7, 1e-5, 40, -40, 0.9, INFINITY, NAN};
typedef double function(const double *, const double *);

static void compare(const char *name, const char *what, dl_loop loop, function *f, bool test) {
    dl_pointwise_arg arg = {
        .number = {{.f = -0.25, .given = true}, {.f = 2, .given = true}, {.f = 0.5, .given = true}}};
    const double numbers[3] = {-0.25, 2, 0.5};
    const long stride[5] = {8, 8, 8, 8, 8};
    assert_non_null(loop);
    assert_non_null(f);
    for (int i = 0; i < VALUES; i++)
        for (int k = 0; k < VALUES; k++) {
            double v[4] = {x[i], x[k], x[(i + 2 * k) % VALUES], x[(2 * i + k + 3) % VALUES]};
            double got = 0, want = f(v, numbers);
            unsigned char truth = 0;
            char *at[5] = {test ? (char *)&truth : (char *)&got, (char *)&v[0], (char *)&v[1], (char *)&v[2],
                           (char *)&v[3]};
            loop(1, at, stride, &arg);
            if (test) got = truth;
            if (got != want && !(got != got && want != want))
                fail_msg("%s of %s(%g, %g, %g, %g) is %.17g, by its text %.17g", what, name, v[0], v[1], v[2], v[3],
                         got, want);
        }
}

/* Powers of f64 are computed otherwise where an instruction gives a product and a sum (vmath_power.h). */
#if DL_SIMD_ONLY >= 3
#define LEVEL_OPTION "-march=x86-64-v3"
#else
#define LEVEL_OPTION ""
#endif

static void text_computes_the_same(void **state) {
    (void)state;
    char dir[] = "/tmp/dlcore_formula_XXXXXX", source[64], library[64], command[400], name[64];
    assert_non_null(mkdtemp(dir));
    snprintf(source, sizeof source, "%s/f.c", dir);
    snprintf(library, sizeof library, "%s/f.so", dir);
    write_source(source);
    snprintf(command, sizeof command,
             "cc -O1 -shared -fPIC -ffp-contract=off " LEVEL_OPTION " -std=gnu17 -Ilibcore -o %s %s -lm", library,
             source);
    assert_int_equal(system(command), 0);
    void *lib = dlopen(library, RTLD_NOW);
    if (!lib) fail_msg("%s", dlerror());
    dl_simd_limit(1); /* without fused products */
    for (int i = 0; i < DL_NFORMULA; i++) {
        const dl_formula *r = dl_formula_at(i);
        const struct dl_pointwise_table *loops = DL_SIMD_PICK(dl_pointwise)[DL_F64];
        /* powers by 1, 2 and 3 are products */
        if (!r->real || i == DL_FORMULA_pow) continue;
        snprintf(name, sizeof name, "run_%s", r->name);
        compare(r->name, "result", loops->run[i], (function *)dlsym(lib, name), r->test);
        for (int k = 0; k < 3; k++) {
            if (!r->grad[k]) continue;
            snprintf(name, sizeof name, "grad%d_%s", k, r->name);
            compare(r->name, "gradient", loops->grad[k][i], (function *)dlsym(lib, name), false);
        }
    }
    dl_simd_limit(4);
    dlclose(lib);
    unlink(source), unlink(library), rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_formulas_agree),
        cmocka_unit_test(text_is_that_of_the_table),
        cmocka_unit_test(text_computes_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
