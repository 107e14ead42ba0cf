/* ZIP archives: what .npz needs of them. Members are stored or deflated, sizes may need 64 bits. */
#pragma once

#include "io/atomic.h"
#include "io/input.h"

typedef struct dl_zip_member {
    char *name;
    int method; /* 0: stored, 8: deflated */
    uint32_t crc;
    uint64_t packed, size, header; /* bytes in the file and unpacked; where its header stands */
    uint64_t at;                   /* where its bytes begin */
} dl_zip_member;

typedef struct dl_zip {
    const dl_input *in;
    long n;
    dl_zip_member *members; /* in the order of the file */
} dl_zip;

/* Reads the directory of an archive, and checks that members lie within it without overlap and claim no more than they
 * can unpack to. Released by dl_zip_close, also on failure. Errors: DL_ERR_FORMAT, DL_ERR_UNSUPPORTED (encrypted,
 * another compression, of several parts), DL_ERR_IO, DL_ERR_MEMORY. */
dl_status dl_zip_open(dl_zip *z, const dl_input *in);
void dl_zip_close(dl_zip *z);

/* The bytes of one member, from the first to the last. */
typedef struct dl_zip_stream dl_zip_stream;
dl_zip_stream *dl_zip_begin(const dl_zip *z, const dl_zip_member *m);
/* The next n bytes; DL_ERR_FORMAT when there are fewer. */
dl_status dl_zip_next(dl_zip_stream *s, void *to, size_t n);
/* After the last byte: whether that was all, and the checksum is right. Releases the stream, as does dl_zip_drop. */
dl_status dl_zip_end(dl_zip_stream *s);
void dl_zip_drop(dl_zip_stream *s);

/* An archive under way: members are stored one after the other. */
typedef struct dl_zip_writer {
    dl_atomic *out;
    uint64_t at; /* bytes written */
    long n;
    dl_zip_member *members;
} dl_zip_writer;
/* One member whose bytes are those of parts[nparts] together. */
typedef struct dl_zip_part {
    const void *data;
    size_t n;
} dl_zip_part;
dl_status dl_zip_add(dl_zip_writer *w, const char *name, const dl_zip_part *parts, int nparts);
/* Writes the directory. */
dl_status dl_zip_finish(dl_zip_writer *w);
void dl_zip_writer_free(dl_zip_writer *w);
