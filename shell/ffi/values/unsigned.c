/* Unsigned 64-bit numbers above LONG_MAX, such as SIZE_MAX or hashes. They are exact, can be compared and passed back
 * to C; arithmetic is not offered. */
#include <stdio.h>
#include <stdlib.h>

#include "ffi/inside.h"

static dl_status text(void *self, dlsh_buf *b) {
    dlsh_buf_printf(b, "%lu", *(unsigned long *)self);
    return DL_OK;
}

static int equal(const void *a, const void *b) { return *(const unsigned long *)a == *(const unsigned long *)b; }

static dl_status get_signed(void *self, dlsh_value *out) {
    *out = dlsh_int((long)*(unsigned long *)self);
    return DL_OK;
}

static dl_status get_float(void *self, dlsh_value *out) {
    *out = dlsh_float((double)*(unsigned long *)self);
    return DL_OK;
}

static const dlsh_field fields[] = {
    {"bits", "The int of the same 64 bits, which is negative.", get_signed, NULL},
    {"float", "The nearest float.", get_float, NULL},
    {0},
};

static const dlsh_class unsigned_class = {.name = "C unsigned long",
                                          .doc = "A number of C that is larger than every int of the language.",
                                          .destroy = free,
                                          .text = text,
                                          .fields = fields,
                                          .equal = equal};

dlsh_value dlsh_c_unsigned_value(unsigned long u) {
    unsigned long *p = malloc(sizeof *p);
    if (!p) return dlsh_no_memory("a number of C"), dlsh_void();
    *p = u;
    return dlsh_new_handle(&unsigned_class, p);
}

int dlsh_c_unsigned_of(dlsh_value v, unsigned long *u) {
    const unsigned long *p = dlsh_unwrap(v, &unsigned_class);
    if (p) *u = *p;
    return p != NULL;
}
