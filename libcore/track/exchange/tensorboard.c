/* Files of events as TensorBoard reads them: records of TensorFlow (length, checksum, bytes, checksum), each of them a
 * message `Event` in the encoding of protocol buffers. */
#include "track/exchange/tensorboard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/atomic.h"
#include "io/nearest_file.h"
#include "track/exchange/protobuf.h"
#include "track/query.h"

enum { ROOM = 2 * DL_RING_KEY_MAX + 128, BUFFER = 1 << 16 };

typedef struct message {
    uint8_t bytes[ROOM];
    size_t n;
} message;

/* Records on their way into a file. */
typedef struct events {
    dl_status (*write)(void *file, const void *data, size_t n);
    void *file;
    uint8_t buffer[BUFFER];
    size_t n;
} events;

/* ---------------------------------------------------------------- encoding */

static void put_varint(message *m, uint64_t v) {
    for (; v > 127; v >>= 7) m->bytes[m->n++] = (uint8_t)(v | 128);
    m->bytes[m->n++] = (uint8_t)v;
}

static void put_field(message *m, int field, int type) { put_varint(m, (uint64_t)field << 3 | (uint64_t)type); }

static void put_little(message *m, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) m->bytes[m->n++] = (uint8_t)(v >> 8 * i);
}

static void put_bytes(message *m, int field, const void *data, size_t n) {
    put_field(m, field, DL_WIRE_BYTES);
    put_varint(m, n);
    memcpy(m->bytes + m->n, data, n);
    m->n += n;
}

static void put_time(message *m, int64_t t_us) {
    double seconds = (double)t_us / 1e6;
    uint64_t bits;
    memcpy(&bits, &seconds, sizeof bits);
    put_field(m, DL_TB_EVENT_TIME, DL_WIRE_FIXED64);
    put_little(m, bits, 8);
}

static uint32_t table[256];
static void fill_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
        table[i] = c;
    }
}

/* CRC-32C (Castagnoli), rotated and shifted as TensorFlow does with checksums of data that may hold checksums. */
uint32_t dl_tensorboard_crc(const void *data, size_t n) {
    const uint8_t *p = data;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_table);
    uint32_t c = ~0u;
    for (size_t i = 0; i < n; i++) c = table[(c ^ p[i]) & 255] ^ c >> 8;
    c = ~c;
    return (c >> 15 | c << 17) + 0xa282ead8u;
}

/* ---------------------------------------------------------------- the file */

static dl_status flush(events *e) {
    size_t n = e->n;
    e->n = 0;
    return n ? e->write(e->file, e->buffer, n) : DL_OK;
}

static dl_status put_record(events *e, const message *m) {
    message head = {.n = 0}, tail = {.n = 0};
    put_little(&head, m->n, 8);
    put_little(&head, dl_tensorboard_crc(head.bytes, 8), 4);
    put_little(&tail, dl_tensorboard_crc(m->bytes, m->n), 4);
    if (e->n + head.n + m->n + tail.n > BUFFER) DL_TRY(flush(e));
    const message *const parts[] = {&head, m, &tail};
    for (int i = 0; i < 3; i++) {
        memcpy(e->buffer + e->n, parts[i]->bytes, parts[i]->n);
        e->n += parts[i]->n;
    }
    return DL_OK;
}

/* The head of a file: its version, and in the name of its writer the run's uuid, by which an import knows the run. */
static dl_status put_version(events *e, int64_t t_us, const char *uuid) {
    static const char version[] = "brain.Event:2";
    message m = {.n = 0}, source = {.n = 0};
    char writer[64];
    snprintf(writer, sizeof writer, DL_TB_WRITER "%s", uuid);
    put_bytes(&source, DL_TB_SOURCE_WRITER, writer, strlen(writer));
    put_time(&m, t_us);
    put_bytes(&m, DL_TB_EVENT_VERSION, version, sizeof version - 1);
    put_bytes(&m, DL_TB_EVENT_SOURCE, source.bytes, source.n);
    return put_record(e, &m);
}

/* TensorBoard forgets what it has from this step on. */
static dl_status put_restart(events *e, int64_t t_us, int64_t step) {
    message m = {.n = 0}, log = {.n = 0};
    put_field(&log, DL_TB_LOG_STATUS, DL_WIRE_VARINT);
    put_varint(&log, DL_TB_LOG_START);
    put_time(&m, t_us);
    put_field(&m, DL_TB_EVENT_STEP, DL_WIRE_VARINT);
    put_varint(&m, (uint64_t)step);
    put_bytes(&m, DL_TB_EVENT_LOG, log.bytes, log.n);
    return put_record(e, &m);
}

static dl_status put_point(events *e, const char *key, int64_t step, int64_t t_us, double value) {
    message one = {.n = 0}, summary = {.n = 0}, m = {.n = 0};
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    put_bytes(&one, DL_TB_VALUE_TAG, key, strlen(key));
    put_field(&one, DL_TB_VALUE_SIMPLE, DL_WIRE_FIXED32);
    put_little(&one, bits, 4);
    put_bytes(&summary, DL_TB_SUMMARY_VALUE, one.bytes, one.n);
    put_time(&m, t_us);
    put_field(&m, DL_TB_EVENT_STEP, DL_WIRE_VARINT);
    put_varint(&m, (uint64_t)step);
    put_bytes(&m, DL_TB_EVENT_SUMMARY, summary.bytes, summary.n);
    return put_record(e, &m);
}

static dl_status put_points(sqlite3 *db, int64_t run, events *e) {
    DL_DB_STATEMENT(q);
    int rc;
    DL_TRY(dl_db_prepare(db, &q,
                         "select s.key, m.step, m.t_us, m.value from series as s join metric as m on m.series_id = s.id"
                         " where s.run_id = ?1 order by s.key, m.step"));
    sqlite3_bind_int64(q, 1, run);
    while ((rc = sqlite3_step(q)) == SQLITE_ROW)
        DL_TRY(put_point(e, (const char *)sqlite3_column_text(q, 0), sqlite3_column_int64(q, 1),
                         sqlite3_column_int64(q, 2), dl_column_number(q, 3)));
    return rc == SQLITE_DONE ? flush(e) : dl_db_fail(db, "read the store");
}

/* ---------------------------------------------------------------- folders */

static dl_status make_folder(const char *path) {
    return mkdir(path, 0777) && errno != EEXIST ? dl_fail_file("make", path) : DL_OK;
}

/* FOLDER/ID-NAME; a name is not a path. Takes the folder's trailing slashes away. */
static void folder_of(char *out, size_t size, const char *folder, int64_t run, const char *name) {
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/') n--;
    int k = snprintf(out, size, "%.*s/", (int)n, folder);
    k += snprintf(out + k, size - (size_t)k, "%lld-%.120s", (long long)run, name);
    for (char *p = out + n + 1; *p; p++)
        if (*p == '/' || (unsigned char)*p < 32) *p = '_';
}

typedef struct place {
    char folder[4096 + 256], path[4096 + 320], uuid[37];
    int64_t started;
} place;

/* Where the events of a run are, the folders made. */
static dl_status find_place(sqlite3 *db, int64_t run, const char *folder, place *p) {
    DL_DB_STATEMENT(q);
    if (strlen(folder) > 4000) return dl_fail(DL_ERR_VALUE, "the path %.80s... is too long", folder);
    DL_TRY(dl_db_prepare(db, &q, "select name, started_us, uuid from run where id = ?1"));
    sqlite3_bind_int64(q, 1, run);
    if (sqlite3_step(q) != SQLITE_ROW) return dl_run_missing((long)run);
    p->started = sqlite3_column_int64(q, 1);
    snprintf(p->uuid, sizeof p->uuid, "%s", (const char *)sqlite3_column_text(q, 2));
    folder_of(p->folder, sizeof p->folder, folder, run, (const char *)sqlite3_column_text(q, 0));
    snprintf(p->path, sizeof p->path, "%s/events.out.tfevents.%010lld.dlsh", p->folder,
             (long long)(p->started / 1000000));
    DL_TRY(make_folder(folder));
    return make_folder(p->folder);
}

static dl_status write_atomic(void *file, const void *data, size_t n) { return dl_atomic_write(file, data, n); }

dl_status dl_tensorboard_write(sqlite3 *db, int64_t run, const char *folder) {
    place p;
    dl_atomic file;
    DL_TRY(find_place(db, run, folder, &p));
    events *e = calloc(1, sizeof *e);
    if (!e) return dl_fail(DL_ERR_MEMORY, "no memory for a file of events");
    dl_status st = dl_atomic_open(&file, p.path);
    if (st == DL_OK) {
        e->write = write_atomic, e->file = &file;
        st = put_version(e, p.started, p.uuid);
        if (st == DL_OK) st = put_points(db, run, e);
        st = dl_atomic_finish(&file, st);
    }
    free(e);
    return st;
}

/* ---------------------------------------------------------------- as points come */

static dl_status write_fd(void *file, const void *data, size_t n) {
    const char *p = data;
    while (n) {
        ssize_t k = write(*(const int *)file, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return DL_ERR_IO;
        p += k, n -= (size_t)k;
    }
    return DL_OK;
}

struct dl_tensorboard {
    place place;
    events events;
};

void dl_tensorboard_unfollow(dl_tensorboard *t) { free(t); }

/* What was written in part would end the file for its readers. */
static dl_status finish_append(dl_tensorboard *t, int fd, off_t before, dl_status st) {
    if (st == DL_OK) st = flush(&t->events);
    t->events.n = 0;
    if (st == DL_OK) return DL_OK;
    dl_fail_file("write", t->place.path);
    if (ftruncate(fd, before)) return st;
    return st;
}

static dl_status append(dl_tensorboard *t, dl_status (*put)(events *e, const void *what), const void *what) {
    int fd = open(t->place.path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    off_t before = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    if (before < 0) {
        dl_status st = dl_fail_file("write", t->place.path);
        if (fd >= 0) close(fd);
        return st;
    }
    t->events.file = &fd;
    dl_status st = before ? DL_OK : put_version(&t->events, t->place.started, t->place.uuid);
    if (st == DL_OK) st = put(&t->events, what);
    st = finish_append(t, fd, before, st);
    close(fd);
    return st;
}

typedef struct batch {
    const dl_ring_record *records;
    uint64_t n;
    const dl_inserter *names;
    int64_t run;
} batch;

static dl_status put_batch(events *e, const void *what) {
    const batch *b = what;
    for (uint64_t i = 0; i < b->n; i++) {
        const dl_ring_record *r = &b->records[i];
        if (r->series >= b->names->nname || b->names->names[r->series].run != b->run) continue;
        DL_TRY(put_point(e, b->names->names[r->series].key, r->step, r->t_us, r->value));
    }
    return DL_OK;
}

static dl_status put_step(events *e, const void *what) { return put_restart(e, dl_now_us(), *(const int64_t *)what); }

static dl_status put_nothing(events *e DL_UNUSED, const void *what DL_UNUSED) { return DL_OK; }

dl_status dl_tensorboard_append(dl_tensorboard *t, int64_t run, const dl_inserter *names, const dl_ring_record *records,
                                uint64_t n) {
    batch b = {records, n, names, run};
    return append(t, put_batch, &b);
}

dl_status dl_tensorboard_restart(dl_tensorboard *t, int64_t step) { return append(t, put_step, &step); }

dl_tensorboard *dl_tensorboard_follow(sqlite3 *db, int64_t run, const char *folder, int64_t step) {
    dl_tensorboard *t = calloc(1, sizeof *t);
    if (!t) return dl_fail(DL_ERR_MEMORY, "no memory for a file of events"), NULL;
    t->events.write = write_fd;
    dl_status st = find_place(db, run, folder, &t->place);
    if (st == DL_OK) st = access(t->place.path, F_OK) ? append(t, put_nothing, NULL) : dl_tensorboard_restart(t, step);
    if (st == DL_OK) return t;
    free(t);
    return NULL;
}
