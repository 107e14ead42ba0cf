/* Numbers of the formulas of ops/pointwise.def: DL_FORMULA_add, ... */
#pragma once

#include "ops/formulas.h"

enum {
#define FUNCTION_OF(name, numbers, ...) DL_FORMULA_##name,
#define FUNCTION2_OF FUNCTION_OF
#define FUNCTION3_OF FUNCTION_OF
#define TEST(name, ...) DL_FORMULA_##name,
#define TEST2 TEST
#include "ops/pointwise.def"
    DL_NFORMULA
};
