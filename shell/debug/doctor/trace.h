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
    int pick_line, random;     /* of a pick; random: one of them is in random order */
    int name_line, base_line;  /* where both were made */
    dl_tensor *tensor, *whole; /* the values of both; borrowed; NULL: none is kept */
} dlsh_traced;

/* The innermost statement that begins on a line; NULL: its text is not known. */
const dlsh_node *dlsh_statement_at(const char *file, int line);
/* What the statement at a line uses; how many. */
int dlsh_trace(const dlsh_examination *e, const char *file, int line, dlsh_traced out[DLSH_TRACED]);
