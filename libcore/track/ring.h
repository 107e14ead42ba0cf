/* The ring file: points not yet in the database, in memory mapped from a file, so that they outlive the process.
 *
 * File: one page of header, `capacity` records of 32 bytes, then names, appended as series appear. Any thread pushes
 * without a lock; one thread, the writer, reads. A record is valid when its stamp fits its contents and its lap, so a
 * push that was cut short is told from a whole one. The process holds flock() on the file while it lives: a ring that
 * can be locked has lost its owner. */
#pragma once

#include <stdint.h>
#include "dlcore.h"

enum { DL_RING_PAGE = 4096, DL_RING_VERSION = 1, DL_RING_CAPACITY = 1 << 18, DL_RING_KEY_MAX = 1024 };

typedef struct dl_ring_record {
    uint32_t series; /* number of the name, from 0 */
    uint32_t stamp;  /* hash of the rest << 8 | lap & 255; written last */
    int64_t step;
    double value;
    int64_t t_us;
} dl_ring_record;

/* The cursors lie on cache lines of their own. Both count records since the start and only grow. */
typedef struct dl_ring_header {
    char magic[8];
    uint32_t version, record_size;
    uint64_t capacity;
    char host[64], boot_id[40];
    int64_t pid;
    uint64_t pid_start;
    uint32_t check; /* of all before it */
    char pad0[512 - 148];
    uint64_t head; /* next to be written */
    char pad1[512 - 8];
    uint64_t tail; /* next to be committed */
    char pad2[DL_RING_PAGE - 1024 - 8];
} dl_ring_header;

/* Names are written as this, the key, and zeros up to a multiple of 8. */
typedef struct dl_ring_name {
    char magic[4];
    uint32_t check; /* of all after it, with the key */
    uint32_t index, length;
    int64_t run;
} dl_ring_name;

typedef struct dl_ring {
    dl_ring_header *header;
    dl_ring_record *records;
    uint64_t capacity, mapped, end; /* end: where the next name goes */
    int fd;
    char path[4096];
} dl_ring;

typedef struct dl_whoami dl_whoami;

/* Makes and locks a ring file `path`, capacity a power of two. The disk space is taken at once, since a store into a
 * mapping cannot fail gracefully. */
dl_status dl_ring_create(dl_ring *r, const char *path, uint64_t capacity, const dl_whoami *me);
/* Unmaps; removes the file unless it still holds points. Returns how many. */
uint64_t dl_ring_close(dl_ring *r);
/* Renames the file after a store that has moved. Without it the ring continues, but does not outlive the process. */
void dl_ring_follow(dl_ring *r, const char *store);
/* Appends a name; on return it outlives the process. Not concurrent with itself. */
dl_status dl_ring_add_name(dl_ring *r, uint32_t index, int64_t run, const char *key);
/* 1 done, 0 full. *position is the number of the record. */
int dl_ring_push(dl_ring *r, uint32_t series, int64_t step, double value, int64_t t_us, uint64_t *position);
/* Copies up to n whole records from the tail on; the stamps of the copies are overwritten with their order. */
uint64_t dl_ring_peek(const dl_ring *r, dl_ring_record *out, uint64_t n);
void dl_ring_advance(dl_ring *r, uint64_t n);
uint64_t dl_ring_head(const dl_ring *r);
uint64_t dl_ring_tail(const dl_ring *r);

/* Receives the contents of a ring file: names in order, then records in order. */
typedef struct dl_ring_visitor {
    void *ctx;
    dl_status (*name)(void *ctx, uint32_t index, int64_t run, const char *key);
    dl_status (*record)(void *ctx, const dl_ring_record *rec);
} dl_ring_visitor;
/* Reads the image of a ring file, which may be damaged: without a valid header every record with a valid stamp is
 * delivered, and *damaged is set. Fails only when a visitor does. */
dl_status dl_ring_parse(const void *data, uint64_t size, const dl_ring_visitor *v, int *damaged);
