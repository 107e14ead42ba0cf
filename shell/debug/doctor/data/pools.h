/* The samples that variables hold, by hashes of their rows, as the journal has them of what nets were given. */
#pragma once

#include "debug/doctor/doctor.h"

typedef struct dlsh_pool_row {
    unsigned long hash;
    long at;
} dlsh_pool_row;

/* Samples that a variable holds: a tensor, or a split of a data set. */
typedef struct dlsh_pool {
    char name[80];
    dl_split split;
    dl_dataset *data;  /* borrowed; NULL: a tensor */
    dl_tensor *tensor; /* borrowed */
    long n;
    dlsh_pool_row *row; /* [n], by rising hashes; owned */
    int trained, held;  /* a net was trained on it alone; on none of it */
} dlsh_pool;

enum { DLSH_POOLS = 48, DLSH_LABELS = 1 << 20 };
typedef struct dlsh_pools {
    dlsh_pool at[DLSH_POOLS];
    int n;
} dlsh_pools;

/* All variables with samples of that many elements. */
void dlsh_pools_find(const dlsh_examination *e, dlsh_pools *all, long width);
void dlsh_pools_free(dlsh_pools *all);
/* Hashes of all rows; 0: it is too large, or its rows have another size. */
int dlsh_pool_fill(dlsh_pool *p, long width);
const dlsh_pool_row *dlsh_row_of(const dlsh_pool *p, unsigned long hash);
int dlsh_has_row(const dlsh_pool *p, unsigned long hash);
/* How many of the rows that were noted of a pass are in the pool. */
int dlsh_rows_in(const dlsh_pool *p, const dl_journal_row *r);
/* The labels of a pool: of a data set its targets, of a tensor a variable with as many numbers. NULL: there are fewer.
 */
dl_tensor *dlsh_labels_of(const dlsh_examination *e, const dlsh_pool *p, int number);

/* ---- passes (check_batches.c) */
int dlsh_is_training_pass(const dlsh_examination *e, const dl_journal_row *r);
int dlsh_is_evaluation_pass(const dlsh_examination *e, const dl_journal_row *r);
/* The targets of the pass that had this input: an operand of a loss with a number for each sample. */
const dl_journal_value *dlsh_targets_of(const dlsh_examination *e, const dl_journal_row *r, const dl_journal_row **pass,
                                        const dl_journal_node **loss);
int dlsh_line_of_input(const dlsh_examination *e, const dl_journal_row *r);

/* Samples and classes of what is evaluated beside those of training, by rows that a variable picks (shared.c). */
void dlsh_find_shared(dlsh_examination *e, const dlsh_pools *all, const void *net);
/* A net that goes through all rounds of a loop that makes its parts anew (folds.c). */
void dlsh_find_kept_net(dlsh_examination *e, const dlsh_pools *all, const void *net, long width);
/* A figure that words of the text tell to be one of a test, and that is of the samples of the training (claims.c). */
void dlsh_find_wrong_claim(dlsh_examination *e, const dlsh_pools *all);
