/* Names to numbers: open addressing over names that the user keeps, numbered from 0 in the order they are added. */
#ifndef DLSH_LANG_NAMES_H
#define DLSH_LANG_NAMES_H

#include <stddef.h>

#include "dlcore.h"

typedef struct dlsh_names {
    int *slots, size;
} dlsh_names;

/* The name of number i. */
typedef const char *dlsh_name_at(const void *ctx, int i);

/* The number of a name; -1: it is not there. */
int dlsh_names_find(const dlsh_names *t, const char *name, size_t len, dlsh_name_at *at, const void *ctx);
/* Adds the name of number n, which is not there; 0 to n - 1 were added before, or are added now when the table is
 * empty. DL_ERR_MEMORY. */
dl_status dlsh_names_add(dlsh_names *t, int n, dlsh_name_at *at, const void *ctx);
void dlsh_names_free(dlsh_names *t);

#endif
