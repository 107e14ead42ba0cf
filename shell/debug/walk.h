/* A walk over the nodes of a result: forward, oldest first, then backward, newest first. The gradients of leaves are
 * those of the place where the walk stands. */
#pragma once

#include "debug/debug.h"

/* A leaf, and its gradient before and after the backward pass. */
typedef struct dlsh_walk_leaf {
    dl_tensor *t, *before, *after; /* owned */
    int parts, last;               /* contributions in all; place in the pass of the last one */
} dlsh_walk_leaf;

typedef struct dlsh_nodewalk {
    int n;              /* nodes; places are 0 to 2 n: forward up to n, then backward */
    int at;             /* nodes done */
    long *call;         /* [n] their gradient rules in the recording, in the order of the pass */
    unsigned long *seq; /* [n] their nodes' numbers, falling */
    dl_tensor **result; /* [n] what the nodes gave; NULL: neither kept nor to be had by running them again; owned */
    dlsh_walk_leaf *leaves;
    int nleaves;
    int recording; /* the former setting */
} dlsh_nodewalk;

/* Runs the backward pass of `loss` (of a trainer: its own), recorded, and goes to the beginning. */
dl_status dlsh_nodewalk_begin(dlsh_nodewalk *w, dl_tensor *loss, dl_trainer *t);
/* To a place; gradients follow. */
void dlsh_nodewalk_go(dlsh_nodewalk *w, int place);
/* The node at the place: its gradient rule's record; *backward tells which pass. False at the end. */
int dlsh_nodewalk_node(const dlsh_nodewalk *w, int place, dl_recorded *out, int *backward);
/* The place of the forward pass of the node with that number; -1: it is not in the walk. */
int dlsh_nodewalk_place(const dlsh_nodewalk *w, unsigned long seq);
/* The result of a node; NULL: not known. Borrowed. */
dl_tensor *dlsh_nodewalk_result(const dlsh_nodewalk *w, const dl_recorded *node);
/* An operand; NULL: not known. Borrowed. */
dl_tensor *dlsh_nodewalk_operand(const dlsh_nodewalk *w, const dl_recorded *node, int k);
/* Name of an operand of a node: of a variable or parameter that it is; "" */
const char *dlsh_nodewalk_name(dlsh_session *s, const dl_recorded *node, int k);
/* The leaf that operand k is, with how many contributions had come up to the place; NULL: none. */
const dlsh_walk_leaf *dlsh_nodewalk_leaf(const dlsh_nodewalk *w, const dl_recorded *node, int k, int *parts);
void dlsh_nodewalk_end(dlsh_nodewalk *w);
