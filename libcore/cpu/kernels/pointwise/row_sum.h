/* Sums of a row's results in one pass, see ops/compose/rows/row_sum.h: a call of the row with one operand more; and
 * whether they are such for these operands. */
#pragma once

#include "core/op.h"

dl_status dl_cpu_row_sum(dl_call *c);
bool dl_cpu_sums_row(const dl_call *c);
