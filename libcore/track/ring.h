/* The ring file: points not yet in the database, in memory mapped from a file, so that they outlive the process. Those
 * that a full ring has no room for are appended to a second file, the spill.
 *
 * File: one page of header, `capacity` records of 32 bytes, then names, appended as series appear. Any thread pushes
 * without a lock; one thread, the writer, reads. A record is valid when its stamp fits its contents and its lap, so a
 * push that was cut short is told from a whole one. The process holds flock() on the file while it lives: a ring that
 * can be locked has lost its owner. */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include "dlcore.h"

enum {
    DL_RING_PAGE = 4096,
    DL_RING_VERSION = 1,
    DL_RING_CAPACITY = 1 << 18,
    DL_RING_KEY_MAX = 1024,
    DL_RING_NAMES = 1 << 16 /* bytes for names that are taken at once, as the disk may be full later, and each time */
};
enum {
    DL_SPILL_FILES = 2,      /* beside the ring and, where that cannot be written, in the folder for temporary files */
    DL_SPILL_EASY = 1 << 26, /* bytes of it from which pushes wait for a writer that makes progress */
    DL_SPILL_MOST = 1 << 30
};

/* Not a series: the record tells the end of the run `step`, of which `value` is the status. */
#define DL_RING_END (UINT32_MAX - 1)

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
    uint32_t check;                   /* of all before it */
    char spill[300];                  /* path of the spill in the folder for temporary files; "": there is none */
    uint64_t spilled[DL_SPILL_FILES]; /* bytes of its files that are committed */
    char pad0[512 - 464];
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

/* A file of records in the order of their pushes. */
typedef struct dl_spill_file {
    int fd; /* -1: not made */
    uint64_t size, done;
    char path[4096 + 8];
} dl_spill_file;

typedef struct dl_spill {
    pthread_mutex_t lock; /* of the files, but that the writer alone changes `done` */
    int on, last;         /* points go to file[last] until all are committed */
    uint64_t in, out;     /* records since the start */
    dl_spill_file file[DL_SPILL_FILES];
} dl_spill;

typedef struct dl_ring {
    dl_ring_header *header;
    dl_ring_record *records;
    uint64_t capacity, mapped, reserved, end; /* end: where the next name goes */
    int fd;
    char path[4096];
    dl_spill spill;
} dl_ring;

typedef struct dl_whoami dl_whoami;

/* Makes and locks a ring file `path`, capacity a power of two. The disk space is taken at once, since a store into a
 * mapping cannot fail gracefully. */
dl_status dl_ring_create(dl_ring *r, const char *path, uint64_t capacity, const dl_whoami *me);
/* Unmaps; removes the files unless they still hold points. Returns how many. */
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

/* spill.c. Do points go there, so that their order is kept? Appends one, also if they did not until now; the bytes that
 * are not committed; copies up to n records from there on, *n is their number; and lets them go. */
int dl_spill_on(const dl_ring *r);
dl_status dl_spill_push(dl_ring *r, uint32_t series, int64_t step, double value, int64_t t_us);
uint64_t dl_spill_left(dl_ring *r);
dl_status dl_spill_peek(dl_ring *r, dl_ring_record *out, uint64_t *n);
void dl_spill_advance(dl_ring *r, uint64_t n);
/* The name of the file that points go to, for messages. Renames the one beside the ring; closes all, and removes them
 * unless they hold points. */
const char *dl_spill_path(dl_ring *r);
void dl_spill_follow(dl_ring *r);
void dl_spill_close(dl_ring *r);
/* Points since the start, in both files: pushed, committed. */
uint64_t dl_ring_pushed(const dl_ring *r);
uint64_t dl_ring_committed(const dl_ring *r);

/* Writes a record with its stamp into out. */
void dl_ring_stamp(dl_ring_record *out, uint32_t series, int64_t step, double value, int64_t t_us);
/* Was it written by that? */
int dl_ring_is_whole(const dl_ring_record *rec);

/* Receives the contents of a ring file: names in order, then records in order. */
typedef struct dl_ring_visitor {
    void *ctx;
    dl_status (*name)(void *ctx, uint32_t index, int64_t run, const char *key);
    dl_status (*record)(void *ctx, const dl_ring_record *rec);
} dl_ring_visitor;
/* Reads the image of a ring file, which may be damaged: without a valid header every record with a valid stamp is
 * delivered, and *damaged is set. Fails only when a visitor does. */
dl_status dl_ring_parse(const void *data, uint64_t size, const dl_ring_visitor *v, int *damaged);
/* The same for the records of the spill of the ring that was at `path`; `missing` is the name of a file that should be
 * there, or "". The second removes its files. */
dl_status dl_spill_parse(const char *path, const void *ring, uint64_t size, const dl_ring_visitor *v,
                         char missing[300]);
void dl_spill_remove(const char *path, const void *ring, uint64_t size);
