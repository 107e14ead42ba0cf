/* The debugger of autograd: what its files share. */
#pragma once

#include "lang/session.h"

/* Texts that ran are kept for diagnoses. */
void dlsh_debug_services(dlsh_services *to);
/* The session is told of each NaN that its statements make. */
void dlsh_debug_serve(dlsh_session *s);

/* `why nan`: the call that first made one, and what holds one now. */
dl_status dlsh_why_nan(const dlsh_args *a);
dl_status dlsh_why_inf(const dlsh_args *a);

/* `why x.grad[3, 2]`: the terms of an element; n is the FIELD or INDEX. */
dl_status dlsh_why_gradient(const dlsh_args *a, const dlsh_node *n);
/* `why 2`: a term of the last answer. */
dl_status dlsh_why_term(const dlsh_args *a, long number);
/* Where the way from a leaf to the result of what was recorded ends; cause "": it is not known. */
typedef struct dlsh_missing {
    const char *remedy;
    char cause[400], where[300];
    const char *file; /* the statement that takes it without its history; NULL: none does */
    int line;
} dlsh_missing;
dl_status dlsh_missing_end(dl_tensor *x, dlsh_missing *out);
/* The first recorded call that takes a leaf, or a result that has a history, without it; 0: none does. */
int dlsh_missing_detached(dl_tensor *const *leaves, int n, dlsh_missing *out);
dl_status dlsh_why_none(const dlsh_args *a, dl_tensor *x);
dl_status dlsh_why_zero(const dlsh_args *a, dl_tensor *x);
/* The same of a part: `numbers` are those of its elements in logical order. */
dl_status dlsh_why_zero_part(const dlsh_args *a, dl_tensor *x, dl_tensor *numbers);
/* Does an op pick some elements of an operand and leave the others out? */
int dlsh_debug_picks(const char *op);
/* Where the gradient of an element of a leaf stops: the call whose derivatives by it are all 0; c->op NULL: none was
 * found. *direct: the leaf itself is its operand. */
dl_status dlsh_debug_zero_end(const dl_tensor *leaf, long element, dl_recorded *c, int *direct);

/* The op, its layer and line: "linear of layer fc1, net.dlsh:3". */
const char *dlsh_debug_place(const dl_recorded *c, char *buf, size_t size);

/* The elements as f64 in the host's memory, in logical order, contiguous; NULL: a recorded failure. */
dl_tensor *dlsh_debug_plain(dl_tensor *t);

/* The derivative of a recorded call by operand k, summed over the result; *out stays NULL where the call cannot be run
 * again. */
dl_status dlsh_debug_local(const dl_recorded *c, int k, dl_tensor **out);

/* Are both the same elements of the same memory, in the same shape? */
int dlsh_debug_alike(const dl_tensor *a, const dl_tensor *b);

/* "[3, 2]", the index of an element in logical order. */
const char *dlsh_debug_index(const dl_tensor *t, long element, char *buf, size_t size);

/* Asks for a line; at a terminal Ctrl-C gives up what was typed, and it is asked anew. */
dl_status dlsh_debug_ask(struct dlsh_sink *sink, const char *prompt, dlsh_buf *line);

/* Does an expression name that variable, not as a field? */
int dlsh_debug_mentions(const char *text, const char *name);
/* Is a condition true? Of a tensor: any element. */
int dlsh_debug_truth(dlsh_value v);

/* Nodes whose gradient rules were compared with differences. */
typedef struct dlsh_nodecheck {
    int second; /* second derivatives were compared too */
    long nodes, failed, checked, kinks, skipped;
    long without;            /* nodes whose rules cannot be differentiated */
    char unchecked[48];      /* the op of the first that was not */
    char first_without[300]; /* op, layer and line */
} dlsh_nodecheck;

/* Checks each node of what a number was computed from by itself, in f64, with `second` also the derivatives of its
 * gradient rule, and shows those that are wrong, with their lines. */
dl_status dlsh_nodecheck_run(dlsh_session *s, struct dlsh_sink *sink, dl_tensor *loss, int second, dlsh_nodecheck *sum);
void dlsh_nodecheck_say(struct dlsh_sink *sink, const dlsh_nodecheck *sum);

/* docs/doctor.md: what `doctor` looks at, from its table. */
void dlsh_doctor_page(dlsh_buf *b);
