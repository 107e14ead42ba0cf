/* Inside: the arguments of one command being run. */
#pragma once

#include "lang/eval/interp.h"

enum { DLSH_FEW_ARGS = 8 };

/* One argument: of a parameter, of an option, or neither (open options). */
typedef struct dlsh_arg_item {
    const dlsh_param *param;
    const dlsh_option *option;
    const char *name;
    const dlsh_node *node; /* the value's; NULL when called without a tree */
    dlsh_value value;      /* owned; VOID for statements and blocks */
    int absent;            /* none was given where that means nothing */
} dlsh_arg_item;

/* Defaults of options, parsed when they are asked for. */
typedef struct dlsh_parsed dlsh_parsed;
struct dlsh_parsed {
    dlsh_parsed *next;
    const dlsh_option *option;
    dlsh_value v;
};

struct dlsh_args {
    dlsh_session *s;
    const dlsh_command *cmd;
    const dlsh_node *node; /* COMMAND or CALL; NULL when called from C */
    dlsh_value self;       /* borrowed */
    int as_function, silent, n;
    dlsh_arg_item few[DLSH_FEW_ARGS], *items;
    dlsh_parsed *parsed;
    int failed;          /* there was no memory for a default */
    int extra, extra_at; /* the option outside the row that was read last, and its item: the next one is after it */
    dlsh_buf text;
    dlsh_flow flow; /* how a block or statement that ran inside ended */
};

/* Room for n items; DL_ERR_MEMORY. */
dl_status dlsh_args_reserve(dlsh_args *a, int n);
/* The name here of an argument that PyTorch or NumPy calls otherwise: dim for axis, batch for batch_size; NULL for
 * others. Calls take both. */
const char *dlsh_argument_here(const char *name);
/* What to write in the place of an argument that ops of other libraries have; NULL: nothing is known. */
const char *dlsh_foreign_argument(const char *name);
/* Checks the items against the command's parameters, runs it, releases the items. */
dl_status dlsh_run_command(dlsh_args *a, int silenced, dlsh_value *out);
/* Is v of one of the types named in want ("net|trainer")? */
int dlsh_wants(const char *want, dlsh_value v);

#define DLSH_DTYPE_HINT "dtypes are f32, f64, bf16, f16, c64, c128, i64, i32, u8 and bool"
/* Is it the function `bool`, which stands for the dtype where one is asked for? */
int dlsh_is_bool_type(dlsh_value v);
