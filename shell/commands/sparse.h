/* Sparse matrices as values (sparse.c). */
#ifndef DLSH_COMMANDS_SPARSE_H
#define DLSH_COMMANDS_SPARSE_H

#include "lang/command.h"

extern const dlsh_class dlsh_sparse_class;

#endif
