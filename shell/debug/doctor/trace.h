/* Where the numbers of a statement come from, as the script has it: variables, and the rows that were picked on the
 * way.
 */
#pragma once

#include "debug/doctor/doctor.h"

typedef enum dlsh_role { DLSH_ROLE_ANY, DLSH_ROLE_INPUT, DLSH_ROLE_TARGET } dlsh_role;

enum { DLSH_TRACED = 16 };
/* Data that a statement uses. */
typedef struct dlsh_traced {
    dlsh_role role;
    char name[64], base[64];   /* the variable that is nearest to the use; the one that the data were made in */
    char picks[240];           /* the rows that were taken on the way, the last first; "" none */
    char beyond[240];          /* those that were taken before numbers were added to or multiplied with all */
    int beyond_line;           /* of the last one of these */
    int pick_line;             /* of a pick */
    int pick_place;            /* in the text, of the last one */
    int lines[8], nlines;      /* of all picks, the last first, as far as they fit */
    size_t of_base;            /* so many letters of `picks` are of rows of the base; the others were taken before */
    int guessed;               /* the role is what the shape says */
    int scope;                 /* where the function begins of which it is a parameter alone; 0: it has a variable */
    int several;               /* it came through a parameter of a function that is called at several places */
    int random, moved;         /* one of the picks is in random order, or puts rows in another order */
    int name_line, base_line;  /* where both were made */
    dl_tensor *tensor, *whole; /* the values of both; borrowed; NULL: none is kept */
    dl_tensor *way[4];         /* the variables from the nearest to the base, their names, and where they were made */
    const char *way_name[4];
    int way_line[4], nway;
} dlsh_traced;

/* The innermost statement that begins on a line, of several the one that goes back; NULL: its text is not known. */
const dlsh_node *dlsh_statement_at(const char *file, int line);
/* What the statement at a line uses; how many. */
int dlsh_trace(const dlsh_examination *e, const char *file, int line, dlsh_traced out[DLSH_TRACED]);
/* What an expression uses. */
int dlsh_trace_value(const dlsh_examination *e, const char *file, const dlsh_node *value, dlsh_traced out[DLSH_TRACED]);

/* ---- the text (program/names.c) */
int dlsh_names(const dlsh_node *n, const char *name);
enum { DLSH_AROUND = 16 };
/* The functions around a place, the innermost last; how many. */
int dlsh_functions_around(const dlsh_node *root, int place, const dlsh_node *out[DLSH_AROUND]);
/* Is it a parameter or a variable of the function itself? */
int dlsh_is_own_name(const dlsh_node *fn, const char *name);
/* A definition of a name: the value it gets. */
typedef struct dlsh_definition {
    const dlsh_node *value;
    int at;    /* where it stands in the text; -1: there is none */
    int each;  /* the name stands for items of the value */
    int param; /* it is a parameter of a function, and the value what the last call gives it, or its default */
    int item;  /* which of several targets of a value it is; -1: the only one */
} dlsh_definition;
/* The newest one before a place, of the innermost function that has one; of functions around that, and of the top
 * level, any other one as well. */
dlsh_definition dlsh_define(const dlsh_node *root, const char *name, int before);
/* Until it is called with 0, answers about names are kept: the texts stay as they are. */
void dlsh_names_remember(int on);
/* From where names in the value are looked up: those of an argument at the call. */
int dlsh_place_of(const dlsh_definition *d);
/* The expression that a function of the text returns for it; NULL: its value is no call of one. */
const dlsh_node *dlsh_returned(const char *file, const dlsh_definition *d);
/* The last call of a function in the text; NULL: none. The only one; NULL: none, or several. */
const dlsh_node *dlsh_last_call(const dlsh_node *root, const dlsh_node *fn);
const dlsh_node *dlsh_only_call(const dlsh_node *root, const dlsh_node *fn);
static inline int dlsh_is_loop(const dlsh_node *n) { return n->kind == DLSH_N_FOR || n->kind == DLSH_N_WHILE; }
static inline int dlsh_is_comparison(const dlsh_node *n) {
    return n && n->kind == DLSH_N_BINARY && n->op >= DLSH_OP_EQ && n->op <= DLSH_OP_GE;
}
static inline const dlsh_node *dlsh_body_of(const dlsh_node *loop) { return loop->kids[loop->nkids - 1]; }
/* The innermost loop or function of a tree around a place; NULL: none. */
const dlsh_node *dlsh_block_around(const dlsh_node *n, int place);
/* The nodes around a place, the outermost first; how many. */
int dlsh_nodes_around(const dlsh_node *root, int place, const dlsh_node **out, int max);
/* The value that a name was given last before a place of the text, through parameters and what functions return; of a
 * loop its sequence. NULL: it is not known. *at: where that statement begins; at may be NULL. */
const dlsh_node *dlsh_definition_of(const char *file, const char *name, int before, int *at);
/* ... to a NAME, before where it stands; NULL also: n is another expression, or NULL. */
const dlsh_node *dlsh_defined(const char *file, const dlsh_node *n);
/* An argument of a call by place, or by name; NULL: it has none. */
const dlsh_node *dlsh_argument_of(const dlsh_node *call, int place, const char *name);

/* ---- where a value came to be what it is (program/origin.c) */
/* An expression on the way back; what a call of a function asks for stands in that function. */
typedef struct dlsh_step {
    const char *file;
    const dlsh_node *n, *call;    /* the call that runs the function around it; NULL: none, or any */
    int item;                     /* of several that it gives, the one that is asked for; -1: all */
    int added;                    /* it is put into what a name holds already, as an item */
    const struct dlsh_step *from; /* the one before it on the way, while the walk is there; NULL: it is the first */
    const struct dlsh_frame *in;  /* all calls that lead to it, likewise */
    const char *field;            /* the field of it that is asked for; NULL: all */
} dlsh_step;
typedef enum dlsh_property {
    DLSH_HAS_NOT,  /* nor has what it is made of */
    DLSH_MAY_HAVE, /* what it is made of tells */
    DLSH_HAS,      /* it, and maybe what it is made of */
    DLSH_HAS_FIRST /* it, and nothing that it is made of */
} dlsh_property;
typedef dlsh_property dlsh_has_property(void *ctx, const dlsh_step *at);
/* The earliest expression that has a property, back along the course of the values from an expression on, itself
 * included; NULL: none has. Slices, sizes and conditions are no values. */
const dlsh_node *dlsh_origin(const char *file, const dlsh_node *n, dlsh_has_property *has, void *ctx);
/* ... of one that stands in a function which that call runs; call NULL: the last one. */
const dlsh_node *dlsh_origin_in(const char *file, const dlsh_node *n, const dlsh_node *call, dlsh_has_property *has,
                                void *ctx);
/* ... of an expression that stands where the walk is. */
const dlsh_node *dlsh_origin_at(const dlsh_step *at, const dlsh_node *n, dlsh_has_property *has, void *ctx);
/* The call of a method that puts an expression into what it is of, total.add_(v); NULL: there is none. */
const dlsh_node *dlsh_call_that_adds(const dlsh_step *at);
/* The outermost of the calls through which the walk came; NULL: through none. */
const dlsh_node *dlsh_outer_call(const dlsh_step *at);
/* The expression that gives a value, through names, arguments, items and what functions return; itself, if it is none
 * of these; NULL: it is not known. */
const dlsh_node *dlsh_made(const char *file, const dlsh_node *n);
/* The value of a name on the way; NULL: it is none, or has another call's value by now. */
const dlsh_value *dlsh_value_then(const dlsh_examination *e, const dlsh_step *at);
/* The line that gives a value its numbers, within the functions that made it, too; picks and casts of it are left out.
 */
int dlsh_line_of_making(const char *file, const dlsh_node *n, int otherwise);
/* The data set by name whose numbers a value has, as they are but for picks and casts; NULL: it has others. */
const dlsh_node *dlsh_data_set_behind(const char *file, const dlsh_node *n);
/* Where a value begins to go a way of its own, apart from that of another one; NULL: nowhere, or one is not known. */
const dlsh_node *dlsh_apart(const char *file, const dlsh_node *n, const dlsh_node *other);
/* All that a value came from. */
enum { DLSH_STEPS = 256 };
typedef struct dlsh_course {
    dlsh_step at[DLSH_STEPS];
    int n;
} dlsh_course;
/* Is a name that of the items of a loop, or of a comprehension? */
int dlsh_is_item_of(const dlsh_node *loop, const char *name);
void dlsh_course_of(const char *file, const dlsh_node *n, dlsh_course *out);
void dlsh_course_in(const char *file, const dlsh_node *n, const dlsh_node *call, dlsh_course *out);
int dlsh_is_on(const dlsh_course *c, const dlsh_step *at);

/* A record that is written out, {lr: 0.1} or record(lr=0.1)? What it has for a key; NULL: nothing. */
int dlsh_is_record(const dlsh_node *n);
const dlsh_node *dlsh_value_of_key(const dlsh_node *record, const char *key);

/* Is it a call of one of the functions or methods? */
int dlsh_is_call_of(const dlsh_node *n, const char *names);

/* The function of a text, or the forward of its net, that a call runs; NULL: it is none. */
const dlsh_node *dlsh_function_called(const char *file, const dlsh_node *call);
/* The function, or the net, of that name in the text; NULL: it has none. What a function returns last; NULL: nothing.
 */
const dlsh_node *dlsh_function_of(const char *file, const char *name);
const dlsh_node *dlsh_net_of(const char *file, const char *name);
/* Is it the name of a layer or parameter, in the forward of its net? */
int dlsh_is_part_of_net(const dlsh_node *root, const dlsh_node *n);
/* The innermost net around a place; NULL: none. */
const dlsh_node *dlsh_net_around(const dlsh_node *root, int place);
const dlsh_node *dlsh_last_return(const dlsh_node *fn);

/* The line that cuts the history of what is computed at a line off from nets and parameters; 0: none does (cut.c). */
int dlsh_cut_line(const dlsh_examination *e, const char *file, int line);
/* q.sample() of a distribution in a text, which has no gradient, as rsample() has; 0: it has none. */
int dlsh_line_of_sample(const char *file);
#define DLSH_DRAW_WITH_HISTORY "rsample(), through which gradients go; sample() only draws"
/* The same by a trial of the net, for a parameter that no gradient reaches; 0: nothing cuts its way to the result. */
int dlsh_cut_by_trial(dlsh_examination *e, const dl_tensor *p, const char **file);
const dlsh_node *dlsh_cut_at(const dlsh_examination *e, const char *file, int line); /* that call; NULL: none does */
/* Does an expression call a net, or a function, through the names in it? */
int dlsh_uses_net(const dlsh_examination *e, const char *file, const dlsh_node *n);
/* Is what is computed at a line made of what is computed at another one? */
int dlsh_comes_from(const dlsh_examination *e, const char *file, int line, int maker);
/* ... with its history, and not as the input of a net? */
int dlsh_is_part_of(const dlsh_examination *e, const char *file, int line, int maker);

/* ---- the course of the program: a function runs where it is called last (program/order.c) */
/* Does a line run before the outermost loop around another one, the loops around calls included? Without a loop: before
 * that line. */
int dlsh_is_before_loop(const char *file, int line, int within);
/* Does a line run in that loop, by any call of the function around it? */
int dlsh_runs_in_loop(const char *file, int line, int within);
/* Does a line run behind another one, in the same pass of a loop, by the last calls of the functions around both? */
int dlsh_runs_behind(const char *file, int line, int other);
/* ... within a node of the text, as a function or a loop? */
int dlsh_runs_within(const char *file, int line, const dlsh_node *n);
/* The places of a line, of the call of the function around it, and so on; how many. */
enum { DLSH_LEVELS = 8 };
int dlsh_places_of(const char *file, int line, int places[DLSH_LEVELS]);
int dlsh_places_from(const char *file, int place, int places[DLSH_LEVELS]); /* of a place in the text */
int dlsh_line_of_place(const char *file, int place);
int dlsh_place_of_line(const char *file, int line); /* of its first letter, in a net, too; 0: the text is not known */
/* The line that runs another one in a function that runs `beside`, too: of a helper its call; itself: there is none. */
int dlsh_line_beside(const char *file, int line, int beside);

/* ---- data sets in the text (data_places.c) */
/* What made an argument of the call that made the trainer, by place or by name; NULL: it is not known. */
const dlsh_node *dlsh_trainer_option(const dlsh_examination *e, const char *file, int place, const char *option);
/* Where the only trainer was given its loss by name, or was made; 0: there is none, or its loss is a function. */
int dlsh_line_of_trainer_loss(const dlsh_examination *e, const char *file);
/* Where the part was made that a data set of parts, dataset(train, test), has for its test split; 0: it has none. */
int dlsh_test_line(const char *file, const dlsh_node *made);

/* A loader that a loop goes over. */
typedef struct dlsh_dealt {
    dl_dataset *data; /* borrowed */
    dl_split split;
    int in_order, line;    /* without shuffle and sampler; where the loader is made */
    const dlsh_node *made; /* the call that made the data set; NULL: it is not known */
} dlsh_dealt;
/* Is what a loop goes over a loader that is told to shuffle? *line: where it is made. */
int dlsh_is_shuffled(const char *file, const dlsh_node *seq, int *line);
/* The data and split of an expression: a data set, a split of one, or a part in a variable; 0: it is none. */
int dlsh_data_named(const dlsh_examination *e, const char *file, const dlsh_node *n, dlsh_dealt *out);
/* Of the loops around a line; 0: none of them has a loader. */
int dlsh_loader_around(const dlsh_examination *e, const char *file, int line, dlsh_dealt *out);

/* ---- what optimizers are given (program/chosen.c) */
/* What made the net that a parameter's name begins with, where it is the copy of another one; NULL: it is none. */
const dlsh_node *dlsh_copied_net(const char *file, const char *parameter);
/* params = f.parameters() in a loop before the optimizer, which is given the last ones alone: that line; 0: it is not.
 */
int dlsh_line_of_overwritten(const dl_source *made);
/* Where the rate of an optimizer's call is given what is called its decay, and the decay what is called its rate; 0:
 * nowhere. *given: the name that the rate has there. */
int dlsh_line_of_exchange(dlsh_examination *e, const char *file, const dlsh_node *call, const char **given);
/* Where an optimizer was made, in a record the line of its key. */
dl_source dlsh_optimizer_place(const dlsh_examination *e, const dl_optimizer *o);
/* The list of nets or parameters that an optimizer is given by a name, [a, b], also within a call; the last of the
 * lists that choose its parameters by a condition, [p for n, p in named if test(n)]: that line; 0: there is none. */
int dlsh_line_of_list(const dlsh_examination *e, const dl_source *made);
int dlsh_line_of_choice(const dl_source *made);
