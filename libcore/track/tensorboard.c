/* Files of events as TensorBoard reads them: records of TensorFlow (length, checksum, bytes, checksum), each of them a
 * message `Event` in the encoding of protocol buffers. */
#include "track/tensorboard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/atomic.h"
#include "io/nearest_file.h"
#include "track/query.h"

/* Types of fields on the wire, and the numbers of the fields of Event, Summary and Summary.Value. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum {
    EVENT_TIME = 1,
    EVENT_STEP = 2,
    EVENT_VERSION = 3,
    EVENT_SUMMARY = 5,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SIMPLE = 2
};
enum { ROOM = 2 * DL_RING_KEY_MAX + 128, BUFFER = 1 << 16 };

typedef struct message {
    uint8_t bytes[ROOM];
    size_t n;
} message;

typedef struct events {
    dl_atomic file;
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
    put_field(m, field, BYTES);
    put_varint(m, n);
    memcpy(m->bytes + m->n, data, n);
    m->n += n;
}

static void put_time(message *m, int64_t t_us) {
    double seconds = (double)t_us / 1e6;
    uint64_t bits;
    memcpy(&bits, &seconds, sizeof bits);
    put_field(m, EVENT_TIME, FIXED64);
    put_little(m, bits, 8);
}

/* CRC-32C (Castagnoli), rotated and shifted as TensorFlow does with checksums of data that may hold checksums. */
static uint32_t masked_crc(const uint8_t *p, size_t n) {
    static uint32_t table[256];
    if (!table[1])
        for (uint32_t i = 256; i-- > 0;) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
            table[i] = c;
        }
    uint32_t c = ~0u;
    for (size_t i = 0; i < n; i++) c = table[(c ^ p[i]) & 255] ^ c >> 8;
    c = ~c;
    return (c >> 15 | c << 17) + 0xa282ead8u;
}

/* ---------------------------------------------------------------- the file */

static dl_status flush(events *e) {
    size_t n = e->n;
    e->n = 0;
    return n ? dl_atomic_write(&e->file, e->buffer, n) : DL_OK;
}

static dl_status put_record(events *e, const message *m) {
    message head = {.n = 0}, tail = {.n = 0};
    put_little(&head, m->n, 8);
    put_little(&head, masked_crc(head.bytes, 8), 4);
    put_little(&tail, masked_crc(m->bytes, m->n), 4);
    if (e->n + head.n + m->n + tail.n > BUFFER) DL_TRY(flush(e));
    const message *const parts[] = {&head, m, &tail};
    for (int i = 0; i < 3; i++) {
        memcpy(e->buffer + e->n, parts[i]->bytes, parts[i]->n);
        e->n += parts[i]->n;
    }
    return DL_OK;
}

static dl_status put_version(events *e, int64_t t_us) {
    static const char version[] = "brain.Event:2";
    message m = {.n = 0};
    put_time(&m, t_us);
    put_bytes(&m, EVENT_VERSION, version, sizeof version - 1);
    return put_record(e, &m);
}

static dl_status put_point(events *e, const char *key, int64_t step, int64_t t_us, double value) {
    message one = {.n = 0}, summary = {.n = 0}, m = {.n = 0};
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    put_bytes(&one, VALUE_TAG, key, strlen(key));
    put_field(&one, VALUE_SIMPLE, FIXED32);
    put_little(&one, bits, 4);
    put_bytes(&summary, SUMMARY_VALUE, one.bytes, one.n);
    put_time(&m, t_us);
    put_field(&m, EVENT_STEP, VARINT);
    put_varint(&m, (uint64_t)step);
    put_bytes(&m, EVENT_SUMMARY, summary.bytes, summary.n);
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

dl_status dl_tensorboard_write(sqlite3 *db, int64_t run, const char *folder) {
    DL_DB_STATEMENT(q);
    char path[4096 + 256], file[sizeof path + 64];
    if (strlen(folder) > 4000) return dl_fail(DL_ERR_VALUE, "the path %.80s... is too long", folder);
    DL_TRY(dl_db_prepare(db, &q, "select name, started_us from run where id = ?1"));
    sqlite3_bind_int64(q, 1, run);
    if (sqlite3_step(q) != SQLITE_ROW) return dl_run_missing((long)run);
    int64_t started = sqlite3_column_int64(q, 1);
    folder_of(path, sizeof path, folder, run, (const char *)sqlite3_column_text(q, 0));
    snprintf(file, sizeof file, "%s/events.out.tfevents.%010lld.dlsh", path, (long long)(started / 1000000));
    DL_TRY(make_folder(folder));
    DL_TRY(make_folder(path));
    events *e = calloc(1, sizeof *e);
    if (!e) return dl_fail(DL_ERR_MEMORY, "no memory for a file of events");
    dl_status st = dl_atomic_open(&e->file, file);
    if (st == DL_OK) {
        st = put_version(e, started);
        if (st == DL_OK) st = put_points(db, run, e);
        st = dl_atomic_finish(&e->file, st);
    }
    free(e);
    return st;
}
