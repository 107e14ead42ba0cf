/* `doctor`: what is wrong with a training. A table of checks (checks.def) looks at the journal, at the script, at the
 * variables, and at trials on copies. */
#pragma once

#include <string.h>

#include "debug/doctor/probe.h"
#include "debug/finding.h"

/* Something that trials run beside what is asked about. */
typedef struct dlsh_subject {
    dl_module *net;      /* NULL: a function */
    const dlsh_node *fn; /* ... its text; NULL: a net */
    dl_source place;
    dlsh_probe probe;
    int probed;
} dlsh_subject;
enum { DLSH_SUBJECTS = 6 };

typedef struct dlsh_examination {
    dlsh_session *s;
    dlsh_holders holders;
    dl_trainer *trainer; /* that is asked about, or the only one; NULL: none */
    dl_module *net;      /* ... or the trainer's; NULL: none, or several */
    dl_journal_row *rows;
    long nrows;
    dlsh_probe probe;
    int probed;      /* the probe is there, and its passes succeeded */
    dl_source place; /* of a function that the probe runs */
    dlsh_subject subjects[DLSH_SUBJECTS];
    int nsubjects;
    dlsh_finding *findings;
    int nfindings, capfindings, nnotes;
    dlsh_buf passed;   /* a line for each check that found nothing and has something to say */
    const char *check; /* that runs */
    int bad, told;     /* findings of the check that runs; has it said what is well? */
    int spoke;         /* has any check? */
    char **kept;       /* texts of dlsh_kept */
    int nkept, capkept;
} dlsh_examination;

/* Is a text one of the words, set apart by |? NULL is none. */
static inline int dlsh_is_word(const char *words, const char *text) {
    return text && dlsh_has_word(words, text, strlen(text));
}
/* A new finding of the check that runs at a place; NULL without memory, or where it was found already. */
dlsh_finding *dlsh_find_at(dlsh_examination *e, const char *file, int line, const char *remedy);
/* ... with its cause and its evidence, a newline between both. */
dlsh_finding *dlsh_found(dlsh_examination *e, const char *file, int line, const char *remedy, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* A text that lasts as long as findings do, as a remedy with figures; "" without memory. */
const char *dlsh_kept(dlsh_examination *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* It may be meant: shown as a note. f NULL: nothing happens. */
void dlsh_only_note(dlsh_examination *e, dlsh_finding *f);
/* Did a check that ran before find something, with that word in its cause? */
int dlsh_was_found(const dlsh_examination *e, const char *check, const char *word);
/* What a check that ran before found, with that word in its cause, is what the check that runs tells better. */
void dlsh_take_back(dlsh_examination *e, const char *check, const char *word);
/* What that check found follows from the finding of the check that runs. */
void dlsh_mark_effects(dlsh_examination *e, const char *check);
/* What is well, with figures. */
void dlsh_passed(dlsh_examination *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Why a check could not be made: "not checked: " and that. */
void dlsh_unchecked(dlsh_examination *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- the journal (journal_reader.c) */
typedef struct dlsh_pass {
    const dl_journal_node *at; /* the newest first */
    long n;
} dlsh_pass;
dl_status dlsh_read_journal(dlsh_examination *e);
/* The next row of a kind from i on; NULL: there is none. *i is behind it. */
const dl_journal_row *dlsh_row_next(const dlsh_examination *e, dl_journal_kind kind, long *i);
/* ... behind another one; NULL: from the first. */
const dl_journal_row *dlsh_row_behind(const dlsh_examination *e, dl_journal_kind kind, const dl_journal_row *r);
/* A loop over the rows of a kind, and one that ends where a condition no longer holds. */
#define DLSH_EACH_ROW(r, e, kind) DLSH_EACH_ROW_WHILE (1, r, e, kind)
#define DLSH_EACH_ROW_WHILE(cond, r, e, kind)                                                                          \
    for (const dl_journal_row *r = dlsh_row_behind(e, kind, NULL); r && (cond); r = dlsh_row_behind(e, kind, r))
/* The loss that the training of passes began with, the last one at that place. */
double dlsh_first_loss(const dl_journal_row *pass);
/* The nodes of the first pass, or of the last one looked at. */
dlsh_pass dlsh_pass_of(const dl_journal_row *r, int last);
/* The nodes with one of the names, NULL: all, of the last pass looked at of each training; NULL behind the last one. */
typedef struct dlsh_node_walk {
    const dl_journal_row *row;
    dlsh_pass pass;
    long rows, nodes;
} dlsh_node_walk;
const dl_journal_node *dlsh_node_next(const dlsh_examination *e, const char *names, dlsh_node_walk *w);
/* Loops over the nodes of a pass, from the loss back, or from the oldest one on, and over the operands of a node. */
#define DLSH_EACH_OP(op_, p) for (const dl_journal_node *op_ = (p).at; op_ && op_ < (p).at + (p).n; op_++)
#define DLSH_EACH_OP_UP(op_, p)                                                                                        \
    for (const dl_journal_node *op_ = (p).n > 0 ? (p).at + (p).n - 1 : NULL; op_; op_ = op_ > (p).at ? op_ - 1 : NULL)
#define DLSH_EACH_OPERAND(v, op_)                                                                                      \
    for (const dl_journal_value *v = (op_)->in; v < (op_)->in + ((op_)->nin < 8 ? (op_)->nin : 8); v++)
/* Did a pass go through ops of a line? Data that are made there have no history. */
int dlsh_has_history_at(const dlsh_examination *e, const char *file, int line);
/* The node of that number; NULL: none. */
const dl_journal_node *dlsh_pass_node(dlsh_pass p, unsigned long seq);
/* The node that operand k comes from, views and casts left out; NULL: a leaf or a constant. */
const dl_journal_node *dlsh_pass_source(dlsh_pass p, const dl_journal_node *n, int k);
/* Is a leaf an operand of a node? */
int dlsh_pass_has(dlsh_pass p, const void *leaf);
/* Marks, [p.n], the node and all that it was computed from, but for what `skip` alone was; owned by the caller; NULL
 * without memory. */
char *dlsh_sources_of(dlsh_pass p, const dl_journal_node *n, const dl_journal_node *skip);
/* Is a node another one, or computed from it? */
int dlsh_is_made_of(dlsh_pass p, const dl_journal_node *n, const dl_journal_node *from);
/* The first node that uses its result; NULL: it is the root. */
const dl_journal_node *dlsh_pass_user(dlsh_pass p, const dl_journal_node *n);
/* Operand k of a node that weighs its input, the weight, as a leaf; NULL: it has none. *unit: the dimension of units;
 * unit may be NULL. */
const dl_journal_value *dlsh_node_weight(const dl_journal_node *n, int *unit);
/* Where an op of a layer stands: where the layer is defined, or in the forward of the net that the layer is. */
dl_source dlsh_place_of_op(dl_source layer, dl_source at);
/* Where a statement of the script set a leaf's numbers before the first pass; no file: they are as they were made. Of
 * a node's weight. */
dl_source dlsh_set_at(const dlsh_examination *e, dlsh_pass first, const dl_journal_value *leaf);
dl_source dlsh_weight_set_at(const dlsh_examination *e, dlsh_pass first, const dl_journal_node *n);
/* Where its layer is defined, or else the statement that ran it. */
const char *dlsh_node_file(const dl_journal_node *n);
int dlsh_node_line(const dl_journal_node *n);
/* As those of the library, in the text that the prompt's pieces are (text/joined.c). */
void dlsh_tensor_places(const dl_tensor *t, dl_source *maker, dl_source *writer);
static inline dl_source dlsh_writer_of(const dl_tensor *t) {
    dl_source maker, writer;
    dlsh_tensor_places(t, &maker, &writer);
    return writer;
}
dl_source dlsh_optimizer_source(const dl_optimizer *o);
dl_source dlsh_module_source(const dl_module *m);
dl_status dlsh_recorded_at(long i, dl_recorded *out);
dl_status dlsh_nan_event_at(int infinite, int i, dl_nan_event *out);
/* The statement that gave a leaf its numbers before the training, or else made it. */
dl_source dlsh_leaf_source(const dlsh_examination *e, const dl_journal_value *v, dl_source otherwise);
/* The line of the layer of a node that weighs its input, or else the one that made the weight. */
/* Where a node's layer stands; of a net that stands in another one several times where this one of them does. */
dl_source dlsh_source_of_use(const dlsh_examination *e, dlsh_pass p, const dl_journal_node *n);
dl_source dlsh_weight_source(const dlsh_examination *e, const dl_journal_node *n);
/* Where the text makes a parameter of one number, full() or ones(), if it does so once; else `otherwise`. */
dl_source dlsh_constant_parameter(dl_source otherwise);
/* Where a net's text makes the parameter at the end of a path with one number, if it does so once; else `otherwise`. */
dl_source dlsh_constant_in_net(const char *path, dl_source otherwise);
/* "softmax (layer softmax0, a.dlsh:3)" */
const char *dlsh_node_text(const dl_journal_node *n, char *buf, size_t size);
/* Does a minus stand before the loss, so that it is to be maximised? */
int dlsh_loss_is_negated(const dlsh_examination *e);
int dlsh_op_is(const dl_journal_node *n, const char *names);

/* ---- variables (program/holders.c) */
/* The value of a name at a place of a text; of a NAME where it stands, or of a field or item of it. NULL: it is not
 * known. */
const dlsh_value *dlsh_value_at(const dlsh_examination *e, const char *file, int place, const char *name);
const dlsh_value *dlsh_value_of(const dlsh_examination *e, const char *file, const dlsh_node *n);

/* ---- trials of everything that is trained (program/trials.c) */
void dlsh_subjects_find(dlsh_examination *e);
void dlsh_subjects_free(dlsh_examination *e);
/* Runs a check with what is asked about, and with each of the others in its place. */
dl_status dlsh_try_subjects(dlsh_examination *e, dl_status (*check)(dlsh_examination *e));

/* ---- objects (subjects.c) */
/* The object at an address of the journal, if a variable still holds it. */
dl_optimizer *dlsh_live_optimizer(const dlsh_examination *e, const void *at, const char **name);
dl_module *dlsh_live_net(const dlsh_examination *e, const void *at, const char **name);
/* Optimizer number i of variables and trainers; NULL past the last. */
dl_optimizer *dlsh_optimizer_at(const dlsh_examination *e, int i, dl_trainer **of);
int dlsh_optimizer_has(const dl_optimizer *o, const void *param);
int dlsh_net_has(dl_module *m, const void *param);
/* Was nothing written to it since the statement that made it? */
int dlsh_is_as_made(const dl_tensor *t);
/* The leaf at an address of the journal, if a net, an optimizer or a variable holds it. *path: its name. */
dl_tensor *dlsh_live_leaf(const dlsh_examination *e, const void *at, char *name, size_t size);

/* ---- parameters (check_grads.c) */
/* Finds what of a step's gradients is zeroed while the rest adds up: nets, parameters (passes/zeroing.c). */
int dlsh_zeroes_nets_partly(dlsh_examination *e, const dl_journal_row *step);
int dlsh_zeroes_partly(dlsh_examination *e, const dl_journal_row *step);
/* Gradients of a step's optimizer that the loss of another one leaves behind for the next step. */
void dlsh_find_left_gradients(dlsh_examination *e, const dl_journal_row *step);
/* The statement that zeroes another optimizer where this one, which nothing zeroes, takes its step; NULL: none. */
const dl_journal_row *dlsh_zeroed_instead(const dlsh_examination *e, const dl_journal_row *step,
                                          const dl_journal_row *pass);
/* Layers that are frozen with the random numbers that they began with, the last one or any other: notes
 * (check_frozen.c). */
void dlsh_find_frozen_head(dlsh_examination *e, const char *file);
void dlsh_find_frozen_layer(dlsh_examination *e, const char *file);
/* Has an optimizer the tensor, or does the script change it with gradients? */
int dlsh_is_being_trained(const dlsh_examination *e, const dl_tensor *t);

/* ---- updates (check_update.c) */
/* Is the loss of the last quarter of the passes that much lower than at first? */
int dlsh_settled_lower(const dl_journal_row *pass, double share);
/* Are updates too small to change anything, and is nothing known that keeps gradients from weights? */
int dlsh_stands_still(const dlsh_examination *e, const dl_journal_row *step, const dl_journal_row *pass);
/* A limit of the script's own that cuts gradients to almost nothing. Was it found? (check_hand.c) */
int dlsh_find_clipped_by_hand(dlsh_examination *e, const dl_journal_row *pass);
int dlsh_find_cut_by_hand(dlsh_examination *e, const dl_journal_row *pass);
/* The size of what a statement of the script changes itself; 0: it is not known (check_hand.c). */
int dlsh_judge_own_update(dlsh_examination *e, const dl_journal_row *step);
/* A rate that is multiplied anew by what counts all rounds, lr = lr * gamma ** epoch, as a statement sets it
 * (text/compounded.c). Was it found? */
int dlsh_find_compounded_rate(dlsh_examination *e, const char *file, int line);
/* How many samples the root of the last pass adds up, many; 0: it is a mean, or not known. */
long dlsh_samples_added(const dl_journal_row *pass);
/* The number of samples that the loss of a pass is the mean of; 0: it is none (check_loss.c). */
double dlsh_samples_averaged(dlsh_pass p);

/* Are the updates of steps larger than weights, none, or not finite, so that they tell nothing? Then it says so. */
int dlsh_are_wild(dlsh_examination *e, const dl_journal_row *step);

/* ---- modes (check_modes.c) */
/* Did a backward pass go through nodes of that line, or begin at it, as in a trainer, or at what was computed there? */
int dlsh_is_trained(const dlsh_examination *e, const dl_journal_row *at);
/* Is a pass without gradients there for the loss of a training, as that of a teacher? It evaluates nothing. */
int dlsh_gives_targets(const dlsh_examination *e, const dl_journal_row *at);

/* Is the spread of several passes of a net over the same samples asked for, [m(x) for k in range(50)]? */
int dlsh_asks_for_spread(const dlsh_examination *e);
/* Did a backward pass come before the last of these passes? Before the first one a net is run to be built. */
int dlsh_training_began(const dlsh_examination *e, const dl_journal_row *pass);
/* Does a net give the targets of a loss as the training goes on, as of a TD error, or of a teacher that follows? */
int dlsh_targets_move(const dlsh_examination *e, const dl_journal_row *pass);

/* ---- batches (check_batches.c) */
/* Did a backward pass go through ops of the statement that ran a net? */
int dlsh_is_in_pass(dlsh_pass p, const dl_journal_row *forward);
/* The pass of a training that is given the same samples at each step; NULL: there is none. */
const dl_journal_row *dlsh_same_batch(const dlsh_examination *e);

/* ---- trials (check_graph.c) */
/* Finds ops for training alone that run in evaluation mode, too. */
dl_status dlsh_look_at_evaluation(dlsh_examination *e);

/* Do several optimizers take steps in turn? Then one's loss may well rise, as in a game of two nets. */
int dlsh_has_rivals(const dlsh_examination *e);

/* ---- numbers that are not finite (passes/check_nonfinite.c) */
/* The first NaN, or the infinity that it was made of; 0: there is none. */
int dlsh_first_nan(dl_nan_event *out);

/* ---- the script (script.c) */
/* The tree of a text; NULL: not known. */
const dlsh_node *dlsh_text_root(const char *file);
/* The text of a line; NULL: not known. */
const char *dlsh_script_line(const dlsh_examination *e, const char *file, int line, int *n);
/* The first line that holds a word; 0: none does. */
int dlsh_script_line_with(const dlsh_examination *e, const char *file, const char *word);
/* Does that line hold the text? */
int dlsh_script_has(const dlsh_examination *e, const char *file, int line, const char *text);
