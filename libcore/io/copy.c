/* Copies of files. */
#include <stdlib.h>

#include "io/atomic.h"
#include "io/input.h"

enum { PIECE = 1 << 20 };

static dl_status copy_pieces(const dl_input *from, dl_atomic *to) {
    char *piece = malloc(PIECE);
    dl_status st = piece ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for a copy of '%s'", from->name);
    for (uint64_t at = 0; st == DL_OK && at < from->size; at += PIECE) {
        size_t n = from->size - at < PIECE ? (size_t)(from->size - at) : PIECE;
        st = dl_input_read(from, at, piece, n);
        if (st == DL_OK) st = dl_atomic_write(to, piece, n);
    }
    free(piece);
    return st;
}

dl_status dl_file_copy(const char *from, const char *to) {
    dl_input in;
    dl_atomic out;
    DL_TRY(dl_input_open(&in, from));
    dl_status st = dl_atomic_open(&out, to);
    if (st == DL_OK) st = dl_atomic_finish(&out, copy_pieces(&in, &out));
    dl_input_close(&in);
    return st;
}
