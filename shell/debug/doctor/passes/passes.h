/* What the nodes of backward passes tell, for the checks. */
#pragma once

#include "debug/doctor/doctor.h"

enum { DLSH_DEEP = 40 };
/* One number, which needs no gradient. */
static inline int dlsh_is_number_in(const dl_journal_value *v) {
    return v->there && v->constant && v->n && v->low == v->high;
}
static inline double dlsh_elements_in(const dl_journal_value *v) {
    double n = 1;
    for (int d = 0; d < v->ndim; d++) n *= (double)v->shape[d];
    return n;
}
/* What a node can give, whatever the parameters are (passes/bounds.c). open: 1 where parameters take it below every
 * bound, 2 above; about: a number that is not known was added. */
typedef struct dlsh_bounds {
    double low, high;
    int open, about;
} dlsh_bounds;
dlsh_bounds dlsh_bounds_of(dlsh_pass p, const dl_journal_node *n);
/* ... without the limits that clamp() sets. */
dlsh_bounds dlsh_bounds_unclamped(dlsh_pass p, const dl_journal_node *n);
/* 1: a node's result is never negative, -1: it is never positive and has no lowest value, 0: neither is known. */
int dlsh_sign_of(dlsh_pass p, const dl_journal_node *n);
/* The op of a loss that compares what is computed with data; NULL: none is known (check_loss.c). */
const dl_journal_node *dlsh_compares(dlsh_pass p);
/* A quotient of sums of scores where one of probabilities belongs (passes/overlap.c). */
void dlsh_find_overlap_of_scores(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n);
/* A divergence of scores in place of logarithms of probabilities (likelihood.c). */
void dlsh_find_scores_for_logs(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n);
/* A loss without a floor of its own: how low the limits of clamp() let it fall, and that it fell so far; labels beyond
 * 0 and 1 in a likelihood by hand; endless: the loss falls without end (floors.c). Was it found? */
void dlsh_find_moved_away(dlsh_examination *e, const dl_journal_row *r); /* from the data, as the loss falls */
int dlsh_find_trained_factor(dlsh_examination *e, const dl_journal_row *r);
int dlsh_find_fall_to_limit(dlsh_examination *e, const dl_journal_row *r);
int dlsh_find_labels_beyond(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p, int endless);
/* Is a result relu's, by whatever name, clamp(x, min=0), maximum(x, 0), where(x > 0, x, 0), and not a mask's?
 * (check_units.c) */
int dlsh_is_relu(dlsh_pass p, const dl_journal_node *n);
/* Can all parts of the loss fall without end, so that it is to be turned as a whole? Not where both an exp and what it
 * is of fall together: then the sign of that part is wrong (likelihood.c). */
int dlsh_is_turned_whole(dlsh_pass p);
int dlsh_exp_falls_alone(dlsh_pass p, const dl_journal_node *x);
/* Did what is computed come nearer to the data that it is compared with? 1 where that is not known. */
int dlsh_came_near(dlsh_pass first, dlsh_pass last);
/* Targets whose classes are all nearly alike. */
void dlsh_find_flat_targets(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n);
/* exp(v) times an error, plus v: one sign too few. Was it found? */
int dlsh_find_variance_sign(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p);
/* ... what exp(v) multiplies on the way to a square, and v with the wrong sign in the loss (jacobian.c). */
int dlsh_find_jacobian_sign(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p);
/* A difference of scores of which the random sample's is made the higher one (ranking.c). */
void dlsh_find_ranking_sign(dlsh_examination *e);
/* The statement of the script that divides gradients itself; 0: none does (scaled.c). */
int dlsh_line_of_scaled_gradients(const char *file);
/* Gradients that are clipped before backward, or behind the step (clips.c). */
void dlsh_find_misplaced_clips(dlsh_examination *e);
/* Gradients that are clipped while the scale of the loss is still in them. */
void dlsh_find_clipped_before_scaled(dlsh_examination *e);
/* Does a product or quotient with a number scale cosines, or other numbers from -1 to 1 that differ much? */
int dlsh_scales_cosines(dlsh_pass p, const dl_journal_node *n);
/* Scores that a number makes so small or large that probabilities hardly change, or are 0 and 1. */
void dlsh_find_scaled_scores(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n);
void dlsh_find_grown_attention(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n);
/* z = z.detach() in a loop, of a parameter that the optimizer has; n of its parameters never got a gradient
 * (renewed.c). Was it found? */
int dlsh_find_renewed_parameter(dlsh_examination *e, const dl_optimizer *o, long n);
/* A penalty on weights that pulls them to 0 (penalty.c). */
void dlsh_find_heavy_penalty(dlsh_examination *e, const dl_journal_row *r);
/* Targets that the results of a node cannot come near, as negative ones behind relu (limits.c). */
void dlsh_find_out_of_reach(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n);
/* Two results that are compared with one target, while their own one is read by no loss (shared_target.c). */
void dlsh_find_shared_target(dlsh_examination *e, dlsh_pass p);
/* A net that was trained before and is trained by the loss of which it gives the targets (teacher.c). */
void dlsh_find_changed_teacher(dlsh_examination *e);
/* Codes that a choice gives and through which the input's gradient does not come back (codes.c). */
void dlsh_find_codes_cut_off(dlsh_examination *e, dlsh_pass p);
/* Parameters that a function makes anew for each pass. */
void dlsh_find_remade_parameters(dlsh_examination *e);
/* Optimizers that never take a step (idle.c). */
void dlsh_find_idle_optimizers(dlsh_examination *e);
/* "50,5,5" (check_graph.c) */
const char *dlsh_shape_text(int ndim, const long *shape, char *buf, size_t size);
/* A matrix without a gradient, of numbers that are not negative, that multiplies what goes through it more than once:
 * as one of neighbours that is not divided by their number. *gain: by how much each time; *times: how often. NULL:
 * there is none (check_initial.c). */
const dl_journal_node *dlsh_fixed_gain(dlsh_pass p, double *gain, long *times);
extern const char dlsh_fixed_remedy[];
/* Metrics that compare scores with labels, or pick classes along another dimension than the loss has them (scores.c).
 */
void dlsh_find_wrong_scores(dlsh_examination *e);
/* Choices, 0 or 1, in metrics that go by the order of scores. */
void dlsh_find_choices_for_scores(dlsh_examination *e);
/* Where a part of the loss of a pass is made: of a helper the statement that calls it (check_targets.c). */
int dlsh_line_of_part(const dlsh_examination *e, const dl_journal_row *r, const dl_journal_node *n);
/* Weights of a sum that do not add up to 1: the dimension of a softmax, where the product behind it sums over another
 * one; -1: it does not. (check_graph.c) */
int dlsh_weighs_across(dlsh_pass p, const dl_journal_node *n, int *summed);
void dlsh_find_weights_of_sum(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n, int of_samples);
/* The label that a loss of classes ignores, where some of its targets have it; NaN: it leaves none out. */
double dlsh_ignored_label(const dl_journal_node *n);
/* The share of right ones among all places, where the loss leaves some out, as padding (left_out.c). */
void dlsh_find_counted_padding(dlsh_examination *e);
/* Does a node multiply two leaves of zeros, as factors or layers in a row, so that neither ever changes? by: the nodes
 * that take them (check_symmetry.c). */
int dlsh_has_two_zeros(dlsh_pass p, const dl_journal_node *n, const dl_journal_node *by[2],
                       const dl_journal_value *leaf[2]);
/* Does a later weight follow the product of a node, a vector too (check_symmetry.c)? */
int dlsh_is_hidden(dlsh_pass p, const dl_journal_node *n);
/* Probabilities that add up to 1 over another dimension than that along which the loss picks (normalised.c). Are they
 * picked along their own one, as far as it is known? */
void dlsh_find_other_dimension(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p, const dl_journal_node *n);
int dlsh_is_picked_along(dlsh_pass p, const dl_journal_node *n);
/* Is a parameter that nothing trains a part of a target alone, which a trained net learns from (check_targets.c)? */
int dlsh_is_of_fixed_target(const dlsh_examination *e, const void *leaf);
/* Does momentum add up steps to a rate that is far too large, so that the loss comes back to where it began, or units
 * die (check_update.c)? Then that is told. */
int dlsh_momentum_swings(dlsh_examination *e, const dl_journal_row *step, const dl_journal_row *pass, double momentum,
                         double rate);
void dlsh_tell_swings(dlsh_examination *e, dlsh_finding *f, const dl_journal_row *step, const dl_journal_row *pass,
                      double momentum, double rate);
