/* Batches as values: a list [x, y] of inputs and targets, each a tensor or a list or record of several. */
#pragma once

/* What the two items are called, as the field `names` of such a list; by it a statement that unpacks knows a batch. */
extern const char *const dlsh_batch_names[2];
