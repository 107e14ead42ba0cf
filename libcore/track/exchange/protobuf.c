/* Messages in the encoding of protocol buffers, read field by field. */
#include "track/exchange/protobuf.h"

#include <stdlib.h>
#include <string.h>

int dl_wire_varint(dl_wire *w, uint64_t *v) {
    *v = 0;
    for (int shift = 0; w->p < w->end && shift < 64; shift += 7) {
        uint8_t byte = *w->p++;
        *v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return 1;
    }
    return 0;
}

int dl_wire_next(dl_wire *w) {
    uint64_t key;
    if (w->p >= w->end || !dl_wire_varint(w, &key)) return 0;
    w->field = (int)(key >> 3), w->type = (int)(key & 7);
    w->b = NULL, w->n = 0;
    if (w->type == DL_WIRE_VARINT) return dl_wire_varint(w, &w->number);
    if (w->type == DL_WIRE_BYTES) {
        uint64_t n;
        if (!dl_wire_varint(w, &n) || n > (uint64_t)(w->end - w->p)) return 0;
        w->b = w->p, w->n = (size_t)n;
    } else {
        w->n = w->type == DL_WIRE_FIXED64 ? 8 : w->type == DL_WIRE_FIXED32 ? 4 : 0;
        if (!w->n || w->n > (size_t)(w->end - w->p)) return 0;
        w->number = 0;
        for (size_t i = 0; i < w->n; i++) w->number |= (uint64_t)w->p[i] << 8 * i;
    }
    w->p += w->n;
    return 1;
}

dl_wire dl_wire_inside(const dl_wire *w) { return (dl_wire){.p = w->b, .end = w->b ? w->b + w->n : NULL}; }

double dl_wire_double(uint64_t bits) {
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

char *dl_wire_text(const dl_wire *w) {
    char *text = w->b ? malloc(w->n + 1) : NULL;
    if (!text) return NULL;
    memcpy(text, w->b, w->n);
    text[w->n] = 0;
    return text;
}
