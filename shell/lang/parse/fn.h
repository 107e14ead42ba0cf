/* Functions written in the language, and what the resolver knows of their variables. */
#pragma once

#include "lang/session.h"

/* A local variable that an inner function uses too. */
typedef struct dlsh_cell {
    int refs, place;
    dlsh_value v; /* VOID: not assigned yet */
} dlsh_cell;

/* A slot of this function filled, when the function value is made, from a slot of the function around it. */
typedef struct dlsh_capture {
    int slot, outer;
} dlsh_capture;

/* Of FN nodes, and of NETs with parameters: node->info. Slots: parameters first, then other locals, then captures. */
typedef struct dlsh_fninfo {
    int nparams, nslots, ncaptures;
    int nfixed;             /* parameters before *rest and **rest */
    int rest, named_rest;   /* 1 + the slots of these; 0: there is none */
    int nparts;             /* of a net's function: slots after the parameters that hold the parts of the net, */
    int nmethods;           /* the last of which hold its methods and itself */
    const dlsh_node *hides; /* a name that its statements assign, which is a parameter or buffer of that net */
    const char **names;     /* of the slots */
    unsigned char *cells;   /* slot lives in a cell made at entry */
    int has_cells;          /* any of them */
    int plain;              /* a function whose slots are its own, and whose parameters take one argument each */
    dlsh_capture *captures;
    struct dlsh_kept *kept; /* its variables at the end of its last call (eval/kept.c); NULL: none */
} dlsh_fninfo;

struct dlsh_fn {
    int refs, place;
    int takes; /* how many arguments a plain function takes that is no net's; -1: another function */
    dlsh_unit *unit;
    const dlsh_node *node, *body; /* the FN or NET, and its last kid */
    const dlsh_fninfo *info;
    dlsh_value *defaults; /* one a parameter, VOID where it has none; evaluated when the function was made */
    dlsh_cell **captured; /* one a capture */
};

/* A cell that takes v, VOID without memory (recorded; v is then dropped). */
dlsh_value dlsh_new_cell(dlsh_value v);
void dlsh_fn_free(dlsh_fn *f);
/* The text it was written as, n bytes; valid as long as the function. */
const char *dlsh_fn_source(const dlsh_fn *f, size_t *n);

/* Gives every NAME of the unit its slot. Fails with DL_ERR_MEMORY only. */
dl_status dlsh_resolve(dlsh_session *s, dlsh_unit *unit);
