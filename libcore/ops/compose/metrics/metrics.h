/* What figures of predictions share. Tensors are temporaries of the pool, NULL: an error. */
#pragma once

#include "ops/compose/compose.h"

/* Labels as one row of i64. */
dl_tensor *dl_metric_labels(dl_pool *p, dl_tensor *t);
dl_status dl_metric_check_sizes(const dl_tensor *a, const dl_tensor *b);
/* Element [i, j]: how many examples of class i are taken for class j; classes 0: as many as there are. */
dl_tensor *dl_metric_table(dl_pool *p, dl_tensor *truth, dl_tensor *guess, long classes);
/* Of scores of two classes: labels and scores, rows of i64 and f64. Fails unless both classes occur. */
dl_status dl_metric_two_classes(dl_call *c, dl_pool *p, dl_tensor **label, dl_tensor **score);
