/* Inside: the fields of a space of C types and names. */
#pragma once

#include "ffi/values/ctype.h"

typedef struct dlsh_cchunk dlsh_cchunk;
struct dlsh_cchunk {
    dlsh_cchunk *next;
    size_t used, size;
    _Alignas(16) char bytes[];
};

struct dlsh_cspace {
    dlsh_cchunk *chunks;
    dlsh_ctype **types; /* open addressing over the interned ones */
    int ntypes, ntypeslots;
    dlsh_ctype consts[DLSH_C_LDOUBLE + 1];
    dlsh_ctype *complex[2]; /* of float, of double; once made */
    dlsh_cname **names;     /* in the order entered, replaced ones too */
    int nnames, capnames;
    dl_names by_name; /* the newest of each name */
};
