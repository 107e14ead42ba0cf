/* The formulas of pointwise rows as data: which rows have one, their text, and the numbers in them. */
#pragma once

#include "core/op.h"
enum { DL_MAX_NUMBERS = 4 };
/* An attribute in a formula. */
typedef struct dl_number {
    double f; /* NaN: absent */
    long i;   /* of a whole number */
    bool given;
} dl_number;

typedef struct dl_formula {
    const char *name;
    int operands;                           /* x; a and b; or a, b and c */
    bool test;                              /* the result is bool */
    const char *number[DL_MAX_NUMBERS + 1]; /* attributes, ending in NULL */
    const char *real, *whole, *truth;       /* text for floats, integers and bool; NULL: not taken */
    const char *half;                       /* for results of 16 bits on a GPU; NULL: `real` */
    const char *grad[3];                    /* of each operand, in one pass from g and the operands; NULL: none */
    bool from_result;                       /* from g and the result, which the formula calls y */
} dl_formula;

/* The number of a row's formula, -1 when it has none; and a formula by its number. */
int dl_formula_of(const dl_op *op);
const dl_formula *dl_formula_at(int i);
/* The numbers of formula i from a call's attributes. */
void dl_formula_numbers(int i, const dl_op *op, const dl_aval *attr, dl_number *out);
