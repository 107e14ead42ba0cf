/* Where names are read and written in a tree. */
#pragma once

#include "debug/doctor/syntax.h"

/* How often a name is read in a tree, updates of it by itself left out: x += 1 and x = f(x) read nothing for others. */
int dlsh_reads(const dlsh_node *n, const char *name);
/* ... of what begins behind a place of the text. */
int dlsh_reads_behind(const dlsh_node *n, const char *name, int place);
/* Is an expression the name, alone or in a tuple? */
int dlsh_is_listed(const dlsh_node *t, const char *name);
/* Does an assignment give the name itself a value? */
int dlsh_assigns(const dlsh_node *n, const char *name);
/* The function around a node, or else the text's root, of the nodes that are around it. */
const dlsh_node *dlsh_scope_of(const dlsh_node *const *within, int depth);
/* Does a tree hold a backward pass, or a step of an optimizer? */
int dlsh_trains(const dlsh_node *n);
/* Shares that are divided by another number of samples than was counted (check_counts.c). */
void dlsh_find_wrong_counts(dlsh_examination *e);
/* The number that something is divided by, as a number of samples; -1: it is not known. */
long dlsh_divisor_of(const dlsh_examination *e, const char *file, const dlsh_node *n);
/* What a part of a net gives in its forward, where nothing reads it. */
typedef struct dlsh_lost {
    dl_source at;             /* where it is lost, or a recurrent part begins without it; line 0: it is read */
    const char *name, *taker; /* of the result; of that recurrent part, NULL: there is none */
    int made;                 /* the line that makes it */
    const char *instead;      /* another part, which stands twice where this one never does; NULL: none */
} dlsh_lost;
dlsh_lost dlsh_lost_result(const char *path); /* of a parameter of that part: "m.enc.weight, ..." */
/* Where a loop of the net around a line runs its blocks one after another, h = b(h), so that nothing goes past them; 0:
 * there is none. *own: it is the net of that line itself, not one that has such nets for its blocks. */
int dlsh_line_of_blocks(const char *file, int line, int *own);
/* grad(loss, w), or grad(f)(w). */
int dlsh_gives_gradients(const dlsh_node *n);
/* An update of a weight, or of a gradient, that goes with a wrong power of the gradient (powers.c). Was it found? */
/* Are the steps of an update by hand of one size, however large gradients are, as by their signs? */
int dlsh_is_scale_free(const dlsh_examination *e, const char *file, int line);
int dlsh_find_wrong_power(dlsh_examination *e, const char *file, const dlsh_node *update, int of_gradient);
/* Figures that mix a variable with what was made of it by scaling: 1 - error(p, scaled) / raw.var(), p - raw. */
void dlsh_find_mixed_scales(dlsh_examination *e);
/* Numbers of sorted items that are taken for their ranks (ranks.c). */
void dlsh_find_items_for_ranks(dlsh_examination *e);
/* Results that are brought back to the scale of the targets in part (brought_back.c). */
void dlsh_find_brought_back(dlsh_examination *e);
/* 1: a figure is to rise, -1: to fall, 0: not known; by its name alone, or by how it is computed (aim.c). */
int dlsh_aim_of_name(const char *name);
int dlsh_aim_of(const char *file, const dlsh_node *n);
/* A state of samples that a loop over batches in random order carries on (carried.c). */
void dlsh_find_carried_state(dlsh_examination *e, const char *file, const dlsh_node *loop);
/* Lists that a loop fills from behind and that are never turned back (turned_back.c). */
void dlsh_find_not_turned_back(dlsh_examination *e);
/* Does a text hold one of the words, set apart by |? Capitals count as small letters. */
int dlsh_speaks_of(const char *text, const char *words);
/* Does a text speak of a test? told: in words for people or in the name of a figure, and of no training beside that
 * (data/claims.c). */
int dlsh_claims_test(const char *file, int told);
/* The best value of all samples where that of each one is meant, in a target (whole_batch.c). */
void dlsh_find_whole_batch(dlsh_examination *e);
/* Units that functions of the script drop in evaluation, too (own_dropout.c). */
void dlsh_find_own_dropout(dlsh_examination *e);
