/* Questions to the tree of a text. */
#pragma once

#include "debug/doctor/trace.h"

/* A walk over a tree, outer nodes first: DLSH_EACH_BELOW (t, root) ... t.n ... The root itself is the first one; NULL:
 * an empty tree. What lies deeper than DLSH_TREE_DEPTH below the root is left out. */
enum { DLSH_TREE_DEPTH = 256 };
typedef struct dlsh_tree {
    const dlsh_node *root, *n; /* n: where the walk is; NULL: before the root */
    const char *file;          /* of a walk over all texts */
    int text, skip, depth;
    const dlsh_node *within[DLSH_TREE_DEPTH]; /* the nodes around n, the innermost last */
    int kid[DLSH_TREE_DEPTH];                 /* the next one of each */
} dlsh_tree;
int dlsh_tree_next(dlsh_tree *t); /* 0: it is over */
#define DLSH_EACH_BELOW(t, of) for (dlsh_tree t = {.root = of}; dlsh_tree_next(&t);)
/* A walk over the trees of all texts that are kept, t.file is the name of the text. */
int dlsh_tree_next_of_all(dlsh_tree *t);
#define DLSH_EACH_NODE(t) for (dlsh_tree t = {.root = NULL}; dlsh_tree_next_of_all(&t);)
/* Is a loop around the node where the walk is? */
int dlsh_tree_in_loop(const dlsh_tree *t);
/* ... of nodes for which a condition holds, and which stand in such nodes alone: the condition is for t.n. */
#define DLSH_EACH_BELOW_IF(t, of, enter)                                                                               \
    DLSH_EACH_BELOW (t, of)                                                                                            \
        if (!(enter))                                                                                                  \
            dlsh_tree_skip(&t);                                                                                        \
        else
/* What is below the node where the walk is, is left out. */
static inline void dlsh_tree_skip(dlsh_tree *t) { t->skip = 1; }

/* Calls see for each node of each text that is kept, outer ones first; `within` are the nodes around it, the innermost
 * last. Stops where it returns something other than 0. */
typedef int dlsh_see_node(void *ctx, const char *file, const dlsh_node *n);
typedef int dlsh_see_within(void *ctx, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth);
int dlsh_each_node(dlsh_see_node *see, void *ctx);
int dlsh_each_within(dlsh_see_within *see, void *ctx);

/* x.NAME(...) */
int dlsh_is_method(const dlsh_node *n, const char *name);
/* x.detach() or x.data in an expression; NULL: it has none. */
const dlsh_node *dlsh_cut_of_name(const dlsh_node *n, const char *name);
/* Is one of them the command of that name? */
int dlsh_is_within(const dlsh_node *const *within, int depth, const char *command);
/* The object of a class that a name stands for; NULL: it is none. */
void *dlsh_object_of(const dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_class *cls);
/* The number that an expression has, from the text and from variables; NaN: it is not known. */
double dlsh_number_of(const dlsh_examination *e, const char *file, const dlsh_node *n);
/* The first call on a line whose name holds one of the words, "loss|entropy"; NULL: none. */
const dlsh_node *dlsh_call_on_line(const char *file, int line, const char *words);
/* ... within the statement that begins there, or else the only one of the text. */
const dlsh_node *dlsh_call_within(const char *file, int line, const char *words);
/* ... where a name stands for that value. */
double dlsh_number_with(const dlsh_examination *e, const char *file, const dlsh_node *n, const char *name,
                        double value);
/* Where a number came to be what it is, NaN: any; NULL: it is another one, or not known. */
const dlsh_node *dlsh_origin_of_number(const dlsh_examination *e, const char *file, const dlsh_node *n, double number);
/* An option of a call on a line: where its number is written, which may be a variable or an item of a record. */
typedef struct dlsh_written {
    int line, use; /* of the number, of the call; the same where the number is not known */
    char name[64]; /* what the call has for it; "" the number itself */
} dlsh_written;
/* calls: words of the names of calls, as of dlsh_call_on_line. */
dlsh_written dlsh_written_option(const dlsh_examination *e, const char *file, int line, const char *calls, int place,
                                 const char *name);
/* Adds to the evidence of a finding, at the line of an option's number, which line takes it. */
void dlsh_tell_use(dlsh_finding *f, const dlsh_written *o);
/* Where the factor of a part of an expression was given a name; 0: it has none (check_terms.c). */
int dlsh_line_of_factor(const dlsh_examination *e, const char *file, const dlsh_node *n, double factor);
/* Where a function that makes weights, randn(a, b) * std, is given that deviation; the line itself: it is given none.
 */
int dlsh_line_of_spread(const dlsh_examination *e, const char *file, int line, double spread);
/* Are two expressions written alike? */
int dlsh_same_text(const char *file, const dlsh_node *a, const dlsh_node *b);
/* Does a line of a text take an average of what is there and what is new, as of weights or of a batch's figures? file
 * NULL: any line of any text. (check_text.c) */
int dlsh_keeps_average(const dlsh_examination *e, const char *file, int line);
/* ... the function around that line? */
int dlsh_averages_around(const dlsh_examination *e, const char *file, int line);
/* Running averages of deviations that are used as variances, or the other way round. */
void dlsh_find_wrong_averages(dlsh_examination *e);
