/* What the generated typed functions (gen/ops/api_gen.c) are made of. */
#pragma once

#include "core/op.h"

void dl_api_int(dl_aval *a, long v);
void dl_api_float(dl_aval *a, double v);
/* Keeps whether the number is a whole one. */
void dl_api_num(dl_aval *a, double v);
void dl_api_ints(dl_aval *a, const long *v, int n);
void dl_api_str(dl_aval *a, const char *s);
/* Runs a row on nin slots; more[] receives outputs 1, 2, ... (a NULL entry of the array ends it). */
dl_tensor *dl_api_run(const dl_op *op, dl_tensor **in, int nin, const dl_aval *attr, dl_tensor ***more);
/* Runs a row whose last input is a list, after nhead single ones. */
dl_tensor *dl_api_list(const dl_op *op, dl_tensor **head, int nhead, dl_tensor **list, int nlist, const dl_aval *attr,
                       dl_tensor ***more);
dl_status dl_api_list_status(const dl_op *op, dl_tensor **head, int nhead, dl_tensor **list, int nlist,
                             const dl_aval *attr);
