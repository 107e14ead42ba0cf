/* The formulas of ops/pointwise.def as data. */
#include "ops/pointwise.h"
#include "ops/each.h"
#include "dlcore_ops.h"

#include <math.h>

#define NAME_OF(i, n) #n,
#define ROW(n, count, is_test, numbers, ...)                                                                           \
    {.name = #n, .operands = count, .test = is_test, .number = {DL_EACH(NAME_OF, numbers) NULL}, __VA_ARGS__},
#define FUNCTION_OF(name, numbers, ...) ROW(name, 1, false, numbers, __VA_ARGS__)
#define FUNCTION2_OF(name, numbers, ...) ROW(name, 2, false, numbers, __VA_ARGS__)
#define FUNCTION3_OF(name, numbers, ...) ROW(name, 3, false, numbers, __VA_ARGS__)
#define TEST(name, ...) ROW(name, 1, true, (), __VA_ARGS__)
#define TEST2(name, ...) ROW(name, 2, true, (), __VA_ARGS__)
#define FLOAT(...) .real = #__VA_ARGS__,
#define INT(...) .whole = #__VA_ARGS__,
#define BOOL(...) .truth = #__VA_ARGS__,
#define HALF(...) .half = #__VA_ARGS__,
#define GRAD_X(...) .grad[0] = #__VA_ARGS__,
#define GRAD_Y(...) .from_result = true, .grad[0] = #__VA_ARGS__,
#define GRAD_A GRAD_X
#define GRAD_B(...) .grad[1] = #__VA_ARGS__,
#define GRAD_C(...) .grad[2] = #__VA_ARGS__,
static const dl_formula formulas[] = {
#include "ops/pointwise.def"
};

/* 1 + the number of its formula for each row of the op table that has one */
static const short of_row[DL_NOP] = {
#define FUNCTION_OF(name, numbers, ...) [DL_OP_##name] = 1 + DL_FORMULA_##name,
#define FUNCTION2_OF FUNCTION_OF
#define FUNCTION3_OF FUNCTION_OF
#define TEST(name, ...) [DL_OP_##name] = 1 + DL_FORMULA_##name,
#define TEST2 TEST
#include "ops/pointwise.def"
};

int dl_formula_of(const dl_op *op) { return op->id < 0 ? -1 : of_row[op->id] - 1; }

const dl_formula *dl_formula_at(int i) { return i >= 0 && i < DL_NFORMULA ? &formulas[i] : NULL; }

void dl_formula_numbers(int i, const dl_op *op, const dl_aval *attr, dl_number *out) {
    for (int k = 0; formulas[i].number[k]; k++) {
        const dl_aval *v = &attr[dl_attr_index(op, formulas[i].number[k])];
        bool whole = v->is_int;
        out[k] = (dl_number){v->given ? whole ? (double)v->u.i : v->u.f : NAN, whole ? v->u.i : 0, v->given};
    }
}
