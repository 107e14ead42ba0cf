/* Samples as numbers: of a trainer's data set, or of variables. */
#pragma once

#include "debug/doctor/doctor.h"
#include "debug/doctor/trace.h"

typedef struct dlsh_samples {
    double *x, *y;        /* [n * width], [n]; y NULL: targets are not single numbers; owned */
    long n, width, total; /* n of total are looked at */
    int real, picture;    /* floating; of two dimensions or more */
    int classes;          /* targets are whole numbers */
    int guessed;          /* that they are the targets is what their shape says */
    int in_order;         /* batches are taken in this order */
    char name[64], target[64];
    const char *file, *target_file, *user_file; /* where they were made; where they are used */
    int line, target_line, user_line;
    int written_line, target_written_line; /* last, in place; 0: never */
    int made_line;                         /* of the data set */
    int prepared_line;                     /* of the table that the data set was given for them; 0: not known */
    int elsewhere;  /* what ran was given none of these rows as they are: they are prepared where they are used */
    int left_out;   /* those of its rows that ran are known, and none of them was trained on */
    int apart;      /* the passes that trained nets had other rows */
    int dealt_line; /* they are a batch of a loader that takes samples in their order; 0: they are not */
} dlsh_samples;

/* Of tables; pixels at the border may well be constant. */
enum { DLSH_COLUMNS = 48 };

void dlsh_samples_free(dlsh_samples *s);
/* x [n, ...], y [n] or [n, 1] (NULL: none). */
int dlsh_samples_set(dlsh_samples *s, dl_tensor *x, dl_tensor *y);
/* Is a hash among sorted ones? */
int dlsh_is_among(const unsigned long *rows, long n, unsigned long hash);
/* How many rows of the table passes had that trained nets, or that did not; 0 also where no rows are known. net: those
 * of that one alone; NULL: of any. */
long dlsh_rows_passed(const dlsh_examination *e, const dlsh_samples *s, const void *net, int trained, long *known);
/* For qsort: doubles by rising size, or what begins with one. */
int dlsh_by_size(const void *a, const void *b);
/* Of the numbers of a column that are finite; none: NaN for the deviation. */
typedef struct dlsh_spread {
    double mean, std;
    long n;
} dlsh_spread;
dlsh_spread dlsh_spread_of(const dlsh_samples *s, long c);
/* Hashes of all rows, sorted, as the journal makes them of a net's input; owned by the caller; NULL without memory. */
unsigned long *dlsh_sorted_rows(const dlsh_samples *s);
/* Were rows of the samples evaluated that no pass trained on, as far as their rows are known? */
int dlsh_leaves_rows_out(const dlsh_examination *e, const dlsh_samples *s);
/* Looks at one table, compares two splits, and what was picked of inputs and targets. */
void dlsh_judge_samples(dlsh_examination *e, const dlsh_samples *s);
/* By experiment: labels that belong to other rows, or to other classes than in training (check_labels.c). Rows of both
 * are in the order of the split. */
void dlsh_judge_labels(dlsh_examination *e, const dlsh_samples *s);
void dlsh_compare_labels(dlsh_examination *e, const dlsh_samples *train, dlsh_samples *test);
void dlsh_compare_splits(dlsh_examination *e, const dlsh_samples *train, const dlsh_samples *test);
/* Columns of two parts, and the rows of one table that statements pick for training and evaluation (check_split.c). */
void dlsh_compare_classes(dlsh_examination *e, const dlsh_samples *train, const dlsh_samples *test);
void dlsh_compare_columns(dlsh_examination *e, const dlsh_samples *train, const dlsh_samples *test);
/* Which of two parts alone is scaled on its way, x - mean, x / 255, and where; NULL: it is not, or both are. */
void dlsh_scaled_alone(const char *file, const dlsh_node *train, const dlsh_node *test, const dlsh_node **of_train,
                       const dlsh_node **of_test);
int dlsh_is_scaled_alike(const char *file, int line, int other);
/* Samples in the text, and the tensor that holds them; NULL: not known. */
typedef struct dlsh_share {
    const dlsh_node *made;
    const dl_tensor *tensor;
    const char *name;
} dlsh_share;
/* Are the samples of an evaluation scaled by figures of their own, where those of training are, too? */
int dlsh_compare_figures(dlsh_examination *e, const char *file, const dlsh_share *train, const dlsh_share *test);
void dlsh_compare_rows(dlsh_examination *e, const char *file, const dlsh_traced *all, int n);
/* What the inputs or targets of samples are in the text: an argument of the data set, ANY: inputs of its test part;
 * else what a line assigns. NULL: it is not known. */
const dlsh_node *dlsh_part_of_data(const dlsh_examination *e, const dlsh_samples *s, dlsh_role role);
/* Where rows were repeated that both parts are made of, before they were shared out (*copied); else where the test part
 * takes its own. */
int dlsh_line_of_shared(const dlsh_examination *e, const dlsh_samples *train, const dlsh_samples *test, int *copied);
/* Where the order was made in which rows are taken for an expression or a statement, or where a slice takes them. */
int dlsh_line_of_order(const char *file, const dlsh_node *of, int otherwise);
/* Samples of one part that are nearly those of the other one (check_near.c). */
void dlsh_find_near(dlsh_examination *e, const dlsh_samples *train, const dlsh_samples *test);
/* A target that is one number for all samples, by the variable that the loss is given. */
void dlsh_find_constant_target(dlsh_examination *e, const char *file, const dlsh_traced *t);
/* Do numbers tell nothing of each other, as far as the row that is most like a row says? Changes x. */
int dlsh_are_unrelated(double *x, double *y, long n, long width);
/* How well two labels of each row agree: the share of equal ones, of numbers their correlation. What agrees by chance,
 * and the deviation of that. */
double dlsh_agree(const double *x, const double *y, long n, int classes);
double dlsh_by_chance(const double *y, long n, int classes, double *deviation);
/* Constant and equal columns, columns of different scale, samples that are all alike (data/check_columns.c). */
void dlsh_judge_columns(dlsh_examination *e, const dlsh_samples *s);
/* Does a norm layer stand before the first weights of each pass, or follow them? It takes away what scale the input
 * has. by: "batch_norm", one before them that brings columns to one scale; "norm", any. (check_data.c) */
int dlsh_normalised_first(const dlsh_examination *e, const char *by);
/* What takes data that are named at a line as they are, where it is known. */
const char *dlsh_used_as_is(const dlsh_samples *s, int line, char *buf, size_t size);
/* The op that made the first NaN, before any step of an optimizer: the data were prepared so. */
int dlsh_nan_before_training(dl_nan_event *out);
/* Where the figures that samples are scaled by are told to be of each row by itself, on the way from a variable, NULL:
 * any; otherwise: nowhere. */
int dlsh_line_of_rows(const dlsh_examination *e, const char *file, const dlsh_node *value, const char *till,
                      int otherwise);
/* Inputs and labels whose rows the text makes in two orders (data/row_order.c). */
void dlsh_find_row_order(dlsh_examination *e, const dlsh_samples *s);
/* ... inputs and labels of data sets that are each put in a random order of their own. */
void dlsh_find_two_draws(dlsh_examination *e);
/* Where rows of inputs and labels are taken in two random orders, the later place. */
int dlsh_line_of_two_draws(const char *file, const dlsh_node *x, const dlsh_node *y, int otherwise);
/* Do samples that are alike have labels that are alike, so that these belong to them? */
int dlsh_labels_tell(const dl_tensor *x, const dl_tensor *y);
/* Had the last passes that were looked at, as far as their rows are known, the labels of their inputs? */
int dlsh_labels_belong(const dlsh_examination *e, dl_tensor *x, dl_tensor *y);
/* What a training had, for evaluations to be compared with. */
typedef struct dlsh_training {
    const dl_journal_row *back;
    const dlsh_samples *train, *own;
    const dlsh_traced *used;
    const dl_tensor *table;
    int slice; /* it took some of the rows of its table: others may be evaluated */
} dlsh_training;
/* What was run without a backward pass, compared with it; lines: of its own passes (data/evaluated.c). */
void dlsh_compare_evaluations(dlsh_examination *e, const dlsh_training *t, const int *lines, int nlines);
void dlsh_compare_traced(dlsh_examination *e, const dlsh_traced *all, int n);
/* Columns that are the target itself, and parts of a table that are made of it (leaked.c). */
void dlsh_find_target_column(dlsh_examination *e, const dlsh_samples *s);
void dlsh_find_leaked(dlsh_examination *e, const char *file, const dlsh_traced *all, int n, const dlsh_samples *s);
/* Figures of groups of targets in inputs, over rows that are not for training, too (data/encoded.c). */
void dlsh_find_encoded(dlsh_examination *e, const char *file, const dlsh_traced *all, int n, const dlsh_samples *s);
/* Columns that what is used has, chosen by all rows of the targets (data/chosen_columns.c). */
void dlsh_find_chosen_columns(dlsh_examination *e, const char *file, const dlsh_node *use, const dlsh_traced *all,
                              int n);
/* Where the target of a loss was given its value, within the function that made it, too (check_batches.c). */
int dlsh_line_of_target(const dl_journal_node *loss);
/* Has the loss fallen to that share, whatever the data are like? (check_data.c) */
int dlsh_learns_well(const dlsh_examination *e, double share);
/* Weights of classes, or of positives, in a loss that are larger for those that are there more often (class_weights.c).
 */
void dlsh_find_turned_weights(dlsh_examination *e, const dlsh_samples *s);
/* The call or // through which the values of an expression went; NULL: none (check_rounding.c). */
const dlsh_node *dlsh_rounded(const dlsh_examination *e, const char *file, const dlsh_node *n);
/* Inputs that were cut off to whole numbers (check_rounding.c). */
void dlsh_find_rounded(dlsh_examination *e);
/* Whole numbers whose digits a cast to f32 takes before they are needed (check_digits.c). */
void dlsh_find_lost_digits(dlsh_examination *e);
/* The call of zeros() that gave the input of the product on a line; NULL: none did. *rebound: the statement that gives
 * a view of these another value in place of writing into it; NULL: there is none. */
const dlsh_node *dlsh_zeros_given(const dlsh_examination *e, const char *file, int line, const dlsh_node **rebound);
void dlsh_find_scaled_on_the_way(dlsh_examination *e);
/* The largest size, the root of a mean square, of data that weights were given; NaN: not known. */
double dlsh_size_on_the_way(const dlsh_examination *e);
/* Codes for missing values, as -999, among the numbers of a column (data/missing.c). */
int dlsh_find_codes(dlsh_examination *e, const dlsh_samples *s);
/* Words of two parts that are numbered by themselves each (data/numbering.c). */
void dlsh_find_numbered_apart(dlsh_examination *e);
/* Identifiers that a remainder brings to fewer numbers (data/folded.c). */
void dlsh_find_folded(dlsh_examination *e);
/* Samples that are written into again and again, as a training goes on, or an evaluation (data/written.c). */
void dlsh_find_written(dlsh_examination *e, const dl_journal_row *pass, const dlsh_traced *all, int n);
void dlsh_find_written_in_evaluation(dlsh_examination *e);
/* The nearest variable on the way to what a loop uses that was made before it; -1: there is none. */
int dlsh_part_before(const dlsh_traced *x, const char *file, int line);
/* Lists of samples that are all one tensor (check_items.c). */
void dlsh_find_same_items(dlsh_examination *e);
/* The call of a net in a statement; NULL: none (check_batches.c). */
const dlsh_node *dlsh_call_of_net_at(const dlsh_examination *e, const char *file, int line);
const dlsh_node *dlsh_call_of_net(const dlsh_examination *e, const char *file, const dlsh_node *n);
/* The file of the statement that is looked at. */
const char *dlsh_text_name(const dlsh_examination *e);
