/* The ring file: creating, pushing, reading, and parsing a file that a process left behind. */
#include "track/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include "core/error.h"
#include "track/whoami.h"

_Static_assert(sizeof(dl_ring_record) == 32, "the format says 32 bytes");
_Static_assert(sizeof(dl_ring_header) == DL_RING_PAGE, "the header is one page");
_Static_assert(offsetof(dl_ring_header, check) == 144, "padding would enter the checksum");

static const char ring_magic[8] = "dlring\n\0", name_magic[4] = "name";

static uint32_t header_check(const dl_ring_header *h) {
    return (uint32_t)crc32(0, (const Bytef *)h, offsetof(dl_ring_header, check));
}

static uint32_t name_check(const dl_ring_name *n, const char *key) {
    uLong c = crc32(0, (const Bytef *)&n->index, sizeof *n - offsetof(dl_ring_name, index));
    return (uint32_t)crc32(c, (const Bytef *)key, n->length);
}

/* Mixes each word bijectively (odd multiplications, shifts), so that any flipped bit changes the hash. */
static inline uint32_t stamp_of(uint32_t series, int64_t step, uint64_t value, int64_t t_us, uint64_t lap) {
    uint64_t x = (uint64_t)step * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29 ^ value) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 32 ^ (uint64_t)t_us) * 0x94d049bb133111ebu;
    x = (x ^ x >> 31 ^ series) * 0xd6e8feb86659fd93u;
    return (uint32_t)(x >> 40) << 8 | (uint32_t)(lap & 255);
}

/* Laps count from 1, so that a page of zeros holds no record of the first lap. */
static inline uint64_t lap_of(uint64_t position, uint64_t capacity) { return position / capacity + 1; }

static uint64_t bits_of(double v) {
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static dl_status check_limit(uint64_t size, const char *path) {
    struct rlimit limit;
    /* beyond the limit the kernel would kill the process with SIGXFSZ */
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur) return DL_OK;
    return dl_fail_hint(DL_ERR_STORE, "raise the limit (ulimit -f), or record nothing: --db none",
                        "%s needs %lu bytes, files of this process may have %lu", path, (unsigned long)size,
                        (unsigned long)limit.rlim_cur);
}

static dl_status check_space(int err, uint64_t size, const char *path) {
    if (!err) return DL_OK;
    return dl_fail_hint(DL_ERR_STORE, "free some space, choose another place, or record nothing: --db none",
                        "cannot reserve %lu bytes for %s: %s", (unsigned long)size, path, strerror(err));
}

/* Only what is new: the call walks through all that it is given, each time. */
static dl_status reserve(dl_ring *r, uint64_t size) {
    int err;
    DL_TRY(check_limit(size, r->path));
    do err = posix_fallocate(r->fd, (off_t)r->reserved, (off_t)(size - r->reserved));
    while (err == EINTR);
    if (!err) r->reserved = size;
    return check_space(err, size, r->path);
}

static void fill_header(dl_ring_header *h, uint64_t capacity, const dl_whoami *me) {
    memcpy(h->magic, ring_magic, sizeof h->magic);
    h->version = DL_RING_VERSION;
    h->record_size = sizeof(dl_ring_record);
    h->capacity = capacity;
    snprintf(h->host, sizeof h->host, "%s", me->host);
    snprintf(h->boot_id, sizeof h->boot_id, "%s", me->boot_id);
    h->pid = me->pid;
    h->pid_start = me->pid_start;
    h->check = header_check(h);
}

/* A new file, locked: -1 without one. Between the two somebody may take the empty file for what a killed process left,
 * and remove it: then it is made again. On a file system without locks the identity in the header must do. */
static int open_locked(const char *path) {
    for (;;) {
        struct stat st;
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666), busy;
        if (fd < 0) return -1;
        do busy = flock(fd, LOCK_EX);
        while (busy && errno == EINTR);
        if (fstat(fd, &st) || st.st_nlink) return fd;
        close(fd);
    }
}

dl_status dl_ring_create(dl_ring *r, const char *path, uint64_t capacity, const dl_whoami *me) {
    dl_ring_header header = {0};
    *r = (dl_ring){.capacity = capacity, .fd = -1, .mapped = DL_RING_PAGE + capacity * sizeof(dl_ring_record)};
    r->end = r->mapped;
    pthread_mutex_init(&r->spill.lock, NULL);
    for (int i = 0; i < DL_SPILL_FILES; i++) r->spill.file[i].fd = -1;
    snprintf(r->path, sizeof r->path, "%s", path);
    fill_header(&header, capacity, me);
    DL_TRY(check_limit(r->mapped, path));
    r->fd = open_locked(path);
    if (r->fd < 0)
        return dl_fail_hint(DL_ERR_STORE,
                            errno == EACCES || errno == EROFS
                                ? "recording needs a folder that can be written: --db FILE"
                                : "see --db FILE for another place",
                            "cannot make %s: %s", path, strerror(errno));
    /* the header first: a process that is killed while space is reserved leaves a ring without records, no damage */
    int err = pwrite(r->fd, &header, sizeof header, 0) == (ssize_t)sizeof header ? 0 : errno ? errno : ENOSPC;
    dl_status st = check_space(err, r->mapped, path);
    if (st == DL_OK) st = reserve(r, r->mapped + DL_RING_NAMES);
    if (st != DL_OK) goto fail;
    void *map = mmap(NULL, r->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    if (map == MAP_FAILED) {
        st = dl_fail(DL_ERR_STORE, "cannot map %s: %s", path, strerror(errno));
        goto fail;
    }
#ifdef MADV_POPULATE_READ
    madvise(map, r->mapped, MADV_POPULATE_READ); /* else resident memory grows with every page first touched */
#endif
    r->header = map;
    r->records = (dl_ring_record *)((char *)map + DL_RING_PAGE);
    return DL_OK;
fail:
    unlink(path);
    close(r->fd);
    r->fd = -1;
    return st;
}

uint64_t dl_ring_close(dl_ring *r) {
    if (!r->header) return 0;
    uint64_t left = dl_ring_pushed(r) - dl_ring_committed(r);
    dl_spill_close(r);
    if (!left) unlink(r->path);
    munmap(r->header, r->mapped);
    close(r->fd); /* and with it the lock: from here on another process may take the file over */
    *r = (dl_ring){.fd = -1};
    return left;
}

void dl_ring_follow(dl_ring *r, const char *store) {
    const char *own = strstr(r->path, "-ring-"), *last = own;
    char path[sizeof r->path];
    while (last && (last = strstr(last + 1, "-ring-"))) own = last;
    if (!own || snprintf(path, sizeof path, "%s%s", store, own) >= (int)sizeof path || !strcmp(path, r->path)) return;
    if (rename(r->path, path)) return;
    strcpy(r->path, path);
    dl_spill_follow(r);
}

dl_status dl_ring_add_name(dl_ring *r, uint32_t index, int64_t run, const char *key) {
    struct {
        dl_ring_name head;
        char key[DL_RING_KEY_MAX + 8];
    } n = {.head = {.index = index, .length = (uint32_t)strlen(key), .run = run}};
    if (n.head.length > DL_RING_KEY_MAX)
        return dl_fail(DL_ERR_VALUE, "the name of a metric has %u bytes, at most %d are taken", n.head.length,
                       DL_RING_KEY_MAX);
    memcpy(n.head.magic, name_magic, sizeof name_magic);
    memcpy(n.key, key, n.head.length);
    n.head.check = name_check(&n.head, n.key);
    size_t size = sizeof n.head + (n.head.length + 7u) / 8 * 8;
    if (r->end + size > r->reserved) DL_TRY(reserve(r, r->end + size + DL_RING_NAMES));
    ssize_t wrote = pwrite(r->fd, &n, size, (off_t)r->end);
    if (wrote != (ssize_t)size)
        return dl_fail(DL_ERR_STORE, "cannot write to %s: %s", r->path, wrote < 0 ? strerror(errno) : "short write");
    r->end += size;
    return DL_OK;
}

int dl_ring_push(dl_ring *r, uint32_t series, int64_t step, double value, int64_t t_us, uint64_t *position) {
    dl_ring_header *h = r->header;
    uint64_t at = __atomic_load_n(&h->head, __ATOMIC_RELAXED);
    do
        if (at - __atomic_load_n(&h->tail, __ATOMIC_ACQUIRE) >= r->capacity) return 0;
    while (!__atomic_compare_exchange_n(&h->head, &at, at + 1, 1, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
    dl_ring_record *rec = &r->records[at & (r->capacity - 1)];
    uint64_t bits = bits_of(value);
    /* relaxed atomics: the writer may be looking at the slot, and decides by the stamp */
    __atomic_store_n(&rec->series, series, __ATOMIC_RELAXED);
    __atomic_store_n(&rec->step, step, __ATOMIC_RELAXED);
    __atomic_store_n((uint64_t *)&rec->value, bits, __ATOMIC_RELAXED);
    __atomic_store_n(&rec->t_us, t_us, __ATOMIC_RELAXED);
    __atomic_store_n(&rec->stamp, stamp_of(series, step, bits, t_us, lap_of(at, r->capacity)), __ATOMIC_RELEASE);
    *position = at;
    return 1;
}

/* Copies the record at `position` if it is whole. */
static int take(const dl_ring_record *rec, uint64_t lap, dl_ring_record *out) {
    uint32_t stamp = __atomic_load_n(&rec->stamp, __ATOMIC_ACQUIRE);
    uint64_t bits = __atomic_load_n((const uint64_t *)&rec->value, __ATOMIC_RELAXED);
    out->series = __atomic_load_n(&rec->series, __ATOMIC_RELAXED);
    out->step = __atomic_load_n(&rec->step, __ATOMIC_RELAXED);
    out->t_us = __atomic_load_n(&rec->t_us, __ATOMIC_RELAXED);
    out->stamp = stamp;
    memcpy(&out->value, &bits, sizeof bits);
    return stamp == stamp_of(out->series, out->step, bits, out->t_us, lap);
}

void dl_ring_stamp(dl_ring_record *out, uint32_t series, int64_t step, double value, int64_t t_us) {
    *out = (dl_ring_record){series, stamp_of(series, step, bits_of(value), t_us, 1), step, value, t_us};
}

int dl_ring_is_whole(const dl_ring_record *rec) {
    dl_ring_record copy;
    return take(rec, 1, &copy);
}

uint64_t dl_ring_peek(const dl_ring *r, dl_ring_record *out, uint64_t n) {
    uint64_t tail = dl_ring_tail(r), ready = dl_ring_head(r) - tail, i;
    if (n > ready) n = ready;
    for (i = 0; i < n; i++) {
        uint64_t at = tail + i;
        if (!take(&r->records[at & (r->capacity - 1)], lap_of(at, r->capacity), &out[i])) break;
        out[i].stamp = (uint32_t)i;
    }
    return i;
}

void dl_ring_advance(dl_ring *r, uint64_t n) { __atomic_fetch_add(&r->header->tail, n, __ATOMIC_RELEASE); }
uint64_t dl_ring_head(const dl_ring *r) { return __atomic_load_n(&r->header->head, __ATOMIC_ACQUIRE); }
uint64_t dl_ring_tail(const dl_ring *r) { return __atomic_load_n(&r->header->tail, __ATOMIC_ACQUIRE); }

/* ---------------------------------------------------------------- parsing a file */

/* Names have checksums, so they are searched at every multiple of 8: a broken one is skipped alone. After the last one
 * there are zeros. */
static dl_status parse_names(const unsigned char *data, uint64_t from, uint64_t size, const dl_ring_visitor *v,
                             int *damaged) {
    char key[DL_RING_KEY_MAX + 1];
    for (uint64_t at = from; size - at >= sizeof(dl_ring_name);) {
        dl_ring_name n;
        memcpy(&n, data + at, sizeof n);
        uint64_t room = size - at - sizeof n;
        const char *text = (const char *)data + at + sizeof n;
        if (memcmp(n.magic, name_magic, sizeof name_magic) || n.length > DL_RING_KEY_MAX || n.length > room ||
            n.check != name_check(&n, text) || memchr(text, 0, n.length)) {
            *damaged |= memcmp(&n, (const char[8]){0}, 8) != 0;
            at += 8;
            continue;
        }
        memcpy(key, text, n.length);
        key[n.length] = 0;
        DL_TRY(v->name(v->ctx, n.index, n.run, key));
        uint64_t whole = sizeof n + (n.length + 7u) / 8 * 8;
        at += whole < size - at ? whole : size - at;
    }
    return DL_OK;
}

/* Without cursors: every slot whose stamp fits its own lap byte. */
static dl_status salvage_records(const unsigned char *data, uint64_t size, const dl_ring_visitor *v) {
    for (uint64_t at = DL_RING_PAGE; size >= sizeof(dl_ring_record) && at <= size - sizeof(dl_ring_record);
         at += sizeof(dl_ring_record)) {
        dl_ring_record raw, rec;
        memcpy(&raw, data + at, sizeof raw);
        if (raw.stamp && take(&raw, raw.stamp & 255, &rec)) DL_TRY(v->record(v->ctx, &rec));
    }
    return DL_OK;
}

static dl_status parse_records(const unsigned char *data, uint64_t size, const dl_ring_header *h,
                               const dl_ring_visitor *v, int *damaged) {
    for (uint64_t pos = h->tail; pos != h->head; pos++) {
        uint64_t at = DL_RING_PAGE + (pos & (h->capacity - 1)) * sizeof(dl_ring_record);
        dl_ring_record raw, rec;
        if (at > size || size - at < sizeof raw) {
            *damaged = 1;
            continue;
        }
        memcpy(&raw, data + at, sizeof raw);
        /* an invalid one was being written when the process died; its push never returned */
        if (take(&raw, lap_of(pos, h->capacity), &rec)) DL_TRY(v->record(v->ctx, &rec));
    }
    return DL_OK;
}

dl_status dl_ring_parse(const void *data, uint64_t size, const dl_ring_visitor *v, int *damaged) {
    dl_ring_header h = {0};
    memcpy(&h, data, size < sizeof h ? size : sizeof h);
    *damaged = 0;
    int sound = size >= sizeof h && !memcmp(h.magic, ring_magic, sizeof ring_magic) && h.version == DL_RING_VERSION &&
                h.record_size == sizeof(dl_ring_record) && h.check == header_check(&h) && h.capacity &&
                !(h.capacity & (h.capacity - 1)) && h.capacity <= (uint64_t)INT_MAX && h.head - h.tail <= h.capacity;
    if (sound) {
        uint64_t names = DL_RING_PAGE + h.capacity * sizeof(dl_ring_record);
        if (names < size) DL_TRY(parse_names(data, names, size, v, damaged));
        return parse_records(data, size, &h, v, damaged);
    }
    int ignored;
    if (size > DL_RING_PAGE) {
        *damaged = 1;
        DL_TRY(parse_names(data, DL_RING_PAGE, size, v, &ignored));
        return salvage_records(data, size, v);
    }
    return DL_OK;
}
