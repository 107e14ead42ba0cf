/* Transfer of a call to a helper process: values as JSON, memory as bytes in shared memory. */
#pragma once

#include "ffi/inside.h"
#include "lang/json.h"

/* The memory of one argument: a tensor's elements, what a pointer points to, a struct. */
typedef struct dlsh_cpart {
    size_t at, bytes; /* its place in the shared memory; bytes 0: none */
    void *data;       /* here; NULL: on an accelerator */
    int written;      /* C may write to it */
} dlsh_cpart;

/* The parameter that the i-th argument is for; NULL: it is one of the variable ones. */
const dlsh_cparam *dlsh_transfer_param(const dlsh_cproto *p, int i);
/* The type of the i-th result: that of the function, when it has one, then of out and inout parameters. NULL: none. */
const dlsh_ctype *dlsh_transfer_result(const dlsh_cproto *p, int i);

/* Measures the memory of the arguments, and refuses values that cannot be transferred. *size: of all. */
dl_status dlsh_transfer_measure(const dlsh_cproto *p, const dlsh_callargs *args, dlsh_cpart *parts, size_t *size);
/* Copies an argument's memory to the shared memory. */
dl_status dlsh_transfer_share(dlsh_value v, const dlsh_cpart *part, char *memory);
/* Copies back what C has written to an argument's memory. */
dl_status dlsh_transfer_copy_back(dlsh_value v, const dlsh_cpart *part, const char *memory);

/* A value as JSON; part NULL: it is a result, and its memory is part of the JSON. NULL: recorded. */
json_t *dlsh_transfer_to_json(dlsh_value v, const dlsh_cpart *part);
/* The value of such JSON, for a parameter or result of type t (NULL: not known). VOID: recorded. */
dlsh_value dlsh_transfer_from_json(dlsh_session *s, const json_t *j, char *memory, const dlsh_ctype *t);

/* Declarations of all types that a prototype needs, and of itself, for a session that knows none of them (declare.c).
 */
void dlsh_c_declare(dlsh_cspace *c, const dlsh_cproto *p, dlsh_buf *out);
