/* Tensors in nested lists and records, which functions of functions take and give back in the same form. */
#pragma once

#include "lang/value.h"

/* A growing list of borrowed tensors. {0}: empty. */
typedef struct dlsh_leaves {
    dl_tensor **t;
    int n;
    long cap;
} dlsh_leaves;
void dlsh_leaves_free(dlsh_leaves *l);
#define DLSH_SCOPED_LEAVES __attribute__((cleanup(dlsh_leaves_free), unused)) dlsh_leaves

/* What stands in the place of leaf i of a tree; VOID: a recorded failure. */
typedef dlsh_value dlsh_leaf_fn(dlsh_value leaf, int i, void *ctx);

/* Appends the tensors of v in order. Another value is DL_ERR_TYPE; `what` names v in the message. */
dl_status dlsh_tree_leaves(dlsh_value v, const char *what, dlsh_leaves *l);
/* A tree of the form of v with leaf(...) in the places of its leaves; *next counts them. Anything but a list or record
 * is a leaf. */
dlsh_value dlsh_tree_map(dlsh_value v, dlsh_leaf_fn *leaf, void *ctx, int *next);
/* A tree of the form of v with the tensors t, whose references it does not take. */
dlsh_value dlsh_tree_of(dlsh_value v, dl_tensor *const *t);
