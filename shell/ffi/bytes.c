/* What the C library's functions on raw memory read and write: as many bytes as other arguments say, which is checked
 * against what is known of the memory. */
#include <string.h>

#include "ffi/block.h"
#include "ffi/inside.h"

static const struct {
    const char *name;
    int memory, size, times; /* parameters: the pointer, its bytes, and what they are multiplied by (-1: nothing) */
} known[] = {
    {"memcpy", 0, 2, -1},      {"memcpy", 1, 2, -1},   {"memmove", 0, 2, -1}, {"memmove", 1, 2, -1},
    {"memset", 0, 2, -1},      {"memcmp", 0, 2, -1},   {"memcmp", 1, 2, -1},  {"strncpy", 0, 2, -1},
    {"snprintf", 0, 1, -1},    {"strftime", 0, 1, -1}, {"fgets", 0, 1, -1},   {"fread", 0, 1, 2},
    {"fwrite", 0, 1, 2},       {"read", 1, 2, -1},     {"write", 1, 2, -1},   {"pread", 1, 2, -1},
    {"pwrite", 1, 2, -1},      {"recv", 1, 2, -1},     {"send", 1, 2, -1},    {"getcwd", 0, 1, -1},
    {"gethostname", 0, 1, -1}, {"qsort", 0, 1, 2},     {"bsearch", 1, 2, 3},  {"compress", 2, 3, -1},
    {"uncompress", 2, 3, -1},  {"crc32", 1, 2, -1},    {"adler32", 1, 2, -1},
};
enum { NKNOWN = sizeof known / sizeof *known };

/* Bytes behind an argument; -1: not known. */
static long bytes_behind(dlsh_value v) {
    const dlsh_cpointer *p = dlsh_unwrap(v, &dlsh_cpointer_class);
    const dlsh_cstruct *x = dlsh_unwrap(v, &dlsh_cstruct_class);
    if (v.type == DLSH_TENSOR) return dl_numel(v.as.tensor) * dl_dtype_size(dl_dtype_of(v.as.tensor));
    if (v.type == DLSH_STR) return (long)v.as.str->len + 1;
    if (x) return dlsh_c_extent(x->owner, x->data);
    if (!p || !p->addr) return -1;
    long known_bytes = dlsh_counted(p->owner) ? dlsh_c_extent(p->owner, p->addr) : -1;
    return known_bytes < 0 && p->n >= 0 ? p->n * (long)dlsh_c_size(p->type->base) : known_bytes;
}

int dlsh_c_counts_bytes(const dlsh_cfunc *f) {
    for (int i = 0; i < NKNOWN; i++)
        if (!strcmp(f->proto->name, known[i].name)) return !dlsh_cblock_of(f);
    return 0;
}

dl_status dlsh_c_check_bytes(dlsh_ccall *k) {
    const dlsh_cproto *p = k->f->proto;
    for (int i = 0; i < NKNOWN; i++) {
        long need, have;
        int last = known[i].times > known[i].size ? known[i].times : known[i].size, at = known[i].memory;
        if (strcmp(p->name, known[i].name) || p->nparams <= last || p->nparams <= at || !k->given[at] ||
            !dlsh_c_is_integer(k->types[known[i].size]->plain))
            continue;
        need = k->slots[known[i].size].i;
        if (known[i].times >= 0 && __builtin_mul_overflow(need, k->slots[known[i].times].i, &need)) need = __LONG_MAX__;
        have = bytes_behind(*k->given[at]);
        if (have < 0 || (need >= 0 && need <= have)) continue;
        k->failed_at = at;
        return dlsh_fail(DL_ERR_SHAPE, NULL, "%s: %s would reach %ld bytes there, and it has %ld", dlsh_c_what(k, at),
                         p->name, need, have);
    }
    return DL_OK;
}
