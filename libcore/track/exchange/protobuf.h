/* Messages in the encoding of protocol buffers, read field by field. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* How a field is written. */
enum { DL_WIRE_VARINT = 0, DL_WIRE_FIXED64 = 1, DL_WIRE_BYTES = 2, DL_WIRE_FIXED32 = 5 };

typedef struct dl_wire {
    const uint8_t *p, *end;
    int field, type;
    uint64_t number;  /* of VARINT, FIXED64, FIXED32 */
    const uint8_t *b; /* of BYTES */
    size_t n;
} dl_wire;

/* The next field; 0 at the end, and where the message is damaged. */
int dl_wire_next(dl_wire *w);
int dl_wire_varint(dl_wire *w, uint64_t *v);
/* The message in a field of BYTES; an empty one for others. */
dl_wire dl_wire_inside(const dl_wire *w);
double dl_wire_double(uint64_t bits);
/* A copy of a field of BYTES, which the caller frees; NULL for others, and without memory. */
char *dl_wire_text(const dl_wire *w);
