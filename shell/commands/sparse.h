/* Sparse matrices as values (sparse.c). */
#pragma once

#include "lang/command.h"

extern const dlsh_class dlsh_sparse_class;
