/* Checks that calls of the C library's memory and string functions stay within memory of known size. */
#include <string.h>

#include "ffi/compiler/block.h"
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
enum { NKNOWN = DLSH_COUNT(known) };

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

/* Functions that read text up to its NUL; those that copy it name the destination, and whether they append. */
static const struct {
    const char *name;
    int text, to, appends; /* to -1: nowhere */
} texts[] = {
    {"strlen", 0, -1, 0}, {"strcpy", 1, 0, 0},  {"stpcpy", 1, 0, 0},  {"strcat", 1, 0, 1},   {"strdup", 0, -1, 0},
    {"strcmp", 0, -1, 0}, {"strcmp", 1, -1, 0}, {"strchr", 0, -1, 0}, {"strrchr", 0, -1, 0}, {"strstr", 0, -1, 0},
    {"strstr", 1, -1, 0}, {"atoi", 0, -1, 0},   {"atol", 0, -1, 0},   {"atof", 0, -1, 0},    {"strtol", 0, -1, 0},
    {"strtod", 0, -1, 0}, {"puts", 0, -1, 0},   {"fputs", 0, -1, 0},  {"fopen", 0, -1, 0},   {"getenv", 0, -1, 0},
};
enum { NTEXTS = DLSH_COUNT(texts) };

int dlsh_c_counts_bytes(const dlsh_cfunc *f) {
    int found = 0;
    for (int i = 0; i < NKNOWN; i++) found |= !strcmp(f->proto->name, known[i].name);
    for (int i = 0; i < NTEXTS; i++) found |= !strcmp(f->proto->name, texts[i].name);
    return found && !dlsh_cblock_of(f);
}

/* Characters of the text that an argument points to; -1: it has no NUL within its memory. */
static long text_length(const dlsh_ccall *k, int at) {
    const char *s = k->slots[at].p;
    long have = bytes_behind(*k->given[at]);
    size_t n = s ? dlsh_c_strlen(s, have < 0 ? (size_t)-1 : (size_t)have) : 0;
    return s && have >= 0 && n == (size_t)have ? -1 : (long)n;
}

static dl_status check_texts(dlsh_ccall *k) {
    const dlsh_cproto *p = k->f->proto;
    for (int i = 0; i < NTEXTS; i++) {
        int at = texts[i].text, to = texts[i].to;
        if (strcmp(p->name, texts[i].name) || p->nparams <= at || !k->given[at] || k->types[at]->kind != DLSH_C_POINTER)
            continue;
        long length = text_length(k, at);
        k->failed_at = at;
        if (length < 0)
            return dlsh_fail(DL_ERR_VALUE, "new(\"char[]\", s) has room for it", "%s: the text has no NUL at its end",
                             dlsh_c_what(k, at));
        long room = to >= 0 && k->given[to] ? bytes_behind(*k->given[to]) : -1;
        long before = room >= 0 && texts[i].appends ? text_length(k, to) : 0;
        k->failed_at = to;
        if (room >= 0 && (before < 0 || before + length + 1 > room))
            return dlsh_fail(DL_ERR_SHAPE, NULL, "%s: %ld characters and a NUL do not fit into %ld bytes",
                             dlsh_c_what(k, to), before < 0 ? room : before + length, room);
    }
    return DL_OK;
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
    return check_texts(k);
}
