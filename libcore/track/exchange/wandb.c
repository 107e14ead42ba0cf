/* What W&B's program leaves on the disk: run-ID.wandb, and wandb-history.jsonl of former versions.
 *
 * The first is a log: 7 bytes of header, then, in blocks of 32 KiB, pieces of records, each with a head of 7 bytes
 * (CRC-32 of type and contents, length, type). A record is a message `Record` in the encoding of protocol buffers. */
#include "track/exchange/wandb.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "core/interrupt.h"
#include "core/list.h"
#include "io/nearest_file.h"
#include "track/exchange/protobuf.h"
#include "track/exchange/table.h"
#include "track/exchange/walk.h"

enum { BLOCK = 1 << 15, HEAD = 7 };
enum { WHOLE = 1, FIRST = 2, MIDDLE = 3, LAST = 4 }; /* types of pieces */

/* The numbers of fields, by message. */
enum { RECORD_HISTORY = 2, RECORD_SUMMARY = 3, RECORD_CONFIG = 5, RECORD_RUN = 17, RECORD_EXIT = 18 };
enum {
    RUN_ID = 1,
    RUN_PROJECT = 3,
    RUN_CONFIG = 4,
    RUN_GROUP = 6,
    RUN_NAME = 8,
    RUN_NOTES = 9,
    RUN_TAGS = 10,
    RUN_HOST = 13,
    RUN_START = 17
};
enum { TIME_SECONDS = 1, TIME_NANOS = 2, EXIT_CODE = 1, EXIT_RUNTIME = 2, STEP_NUMBER = 1 };
enum { UPDATE_ITEM = 1, HISTORY_ITEM = 1, HISTORY_STEP = 2 };
enum { ITEM_KEY = 1, ITEM_NESTED = 2, ITEM_BOOL = 4, ITEM_WHOLE = 5, ITEM_NUMBER = 6, ITEM_TEXT = 7, ITEM_JSON = 16 };

typedef struct result {
    char *key;
    double value;
    bool logged;
} result;

/* A log that is read twice: for what it tells of the run, then for points. */
typedef struct log {
    dl_intake *in;
    const char *path;
    uint8_t *bytes, *record; /* of the file; of a record in pieces */
    size_t n;
    char *text[RUN_HOST + 1]; /* by field of the run */
    int64_t started_us, runtime_s, exit_code, last_step;
    bool ended;
    char **tags;
    long ntag, tag_room;
    json_t *config;
    result *results; /* of the summary: those that have no points are the last values of their metrics */
    long nresult, result_room, result_last;
    long run;
} log_file;

static void free_log(const log_file *l) {
    for (int i = 0; i <= RUN_HOST; i++) free(l->text[i]);
    for (long i = 0; i < l->ntag; i++) free(l->tags[i]);
    for (long i = 0; i < l->nresult; i++) free(l->results[i].key);
    json_decref(l->config);
    free(l->tags);
    free(l->results);
    free(l->record);
    free(l->bytes);
}

static dl_status no_memory(const log_file *l) { return dl_fail(DL_ERR_MEMORY, "no memory for '%s'", l->path); }

/* ---------------------------------------------------------------- records */

typedef dl_status visitor(log_file *l, const dl_wire *record, int kind);

static dl_status take_record(log_file *l, const uint8_t *bytes, size_t n, visitor *visit) {
    for (dl_wire w = {.p = bytes, .end = bytes + n}; dl_wire_next(&w);)
        if (w.b) DL_TRY(visit(l, &w, w.field));
    return DL_OK;
}

/* Up to the end, or a record that is not whole: its program was killed, or is writing it. */
static dl_status each_record(log_file *l, visitor *visit) {
    size_t at = HEAD, kept = 0;
    for (long i = 0;; i++) {
        if (BLOCK - at % BLOCK < HEAD) at += BLOCK - at % BLOCK;
        if (at + HEAD > l->n) return DL_OK;
        const uint8_t *head = l->bytes + at;
        const uint32_t crc = head[0] | head[1] << 8 | head[2] << 16 | (uint32_t)head[3] << 24;
        const size_t n = head[4] | (size_t)head[5] << 8;
        const int type = head[6];
        if (at + HEAD + n > l->n) return DL_OK;
        if (!type && !n && !crc) return DL_OK; /* room that was not written yet */
        if (crc != (uint32_t)crc32(0, head + 6, (uInt)(n + 1)) || type < WHOLE || type > LAST)
            return dl_fail_hint(DL_ERR_FORMAT, "fetch or copy it again", "'%s' is damaged at byte %ld", l->path,
                                (long)at);
        at += HEAD + n;
        if (type == WHOLE || type == FIRST) kept = 0;
        memcpy(l->record + kept, head + HEAD, n); /* all pieces together are not longer than the file */
        kept += n;
        DL_TRY(dl_interrupt_check_at(i));
        if (type == WHOLE || type == LAST) DL_TRY(take_record(l, l->record, kept, visit));
    }
}

/* ---------------------------------------------------------------- items: a key and a value */

/* "key", or "a.b" of a nested one; 0: too long. */
static int key_of(const dl_wire *item, char *key, size_t size) {
    size_t n = 0;
    for (dl_wire w = dl_wire_inside(item); dl_wire_next(&w);) {
        if ((w.field != ITEM_KEY && w.field != ITEM_NESTED) || !w.b) continue;
        if (n + w.n + 2 > size) return 0;
        if (n) key[n++] = '.';
        memcpy(key + n, w.b, w.n);
        n += w.n;
    }
    key[n] = 0;
    return n > 0;
}

/* A number, as JSON or as a field of its own; true and false are 1 and 0. NaN and infinities are written as words. */
static int number_of(const dl_wire *item, double *v) {
    char text[64], *end;
    for (dl_wire w = dl_wire_inside(item); dl_wire_next(&w);) {
        if (w.field == ITEM_NUMBER && w.type == DL_WIRE_FIXED64) return *v = dl_wire_double(w.number), 1;
        if (w.type == DL_WIRE_VARINT && w.field == ITEM_BOOL) return *v = w.number != 0, 1;
        if (w.type == DL_WIRE_VARINT && w.field == ITEM_WHOLE) /* zigzag */
            return *v = (double)((int64_t)(w.number >> 1) ^ -(int64_t)(w.number & 1)), 1;
        if (w.field != ITEM_JSON || !w.n || w.n >= sizeof text) continue;
        memcpy(text, w.b, w.n);
        text[w.n] = 0;
        if (!strcmp(text, "true") || !strcmp(text, "false")) return *v = *text == 't', 1;
        *v = strtod(text, &end);
        return !*end;
    }
    return 0;
}

/* ---------------------------------------------------------------- what it tells of the run */

/* What was set in the beginning, or changed later. */
static dl_status take_config(log_file *l, const dl_wire *config) {
    for (dl_wire w = dl_wire_inside(config); dl_wire_next(&w);) {
        char key[DL_RING_KEY_MAX];
        if (w.field != UPDATE_ITEM || !key_of(&w, key, sizeof key) || *key == '_') continue;
        for (dl_wire item = dl_wire_inside(&w); dl_wire_next(&item);) {
            if (item.field != ITEM_JSON || !item.b) continue;
            json_t *value = json_loadb((const char *)item.b, item.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
            if (value && json_object_set_new(l->config, key, value)) return no_memory(l);
        }
    }
    return DL_OK;
}

/* The number of a result, -1: it is none. They come in the same order again and again. */
static long result_of(log_file *l, const char *key) {
    for (long i = 1; i <= l->nresult; i++) {
        long at = (l->result_last + i) % l->nresult;
        if (!strcmp(l->results[at].key, key)) return l->result_last = at;
    }
    return -1;
}

static dl_status take_summary(log_file *l, const dl_wire *summary) {
    for (dl_wire w = dl_wire_inside(summary); dl_wire_next(&w);) {
        char key[DL_RING_KEY_MAX];
        double v;
        if (w.field != UPDATE_ITEM || !key_of(&w, key, sizeof key) || *key == '_' || !number_of(&w, &v)) continue;
        long i = result_of(l, key);
        if (i < 0) {
            DL_TRY(DL_LIST_ROOM(l->results, l->nresult, l->result_room));
            l->results[i = l->nresult] = (result){.key = strdup(key)};
            if (!l->results[i].key) return no_memory(l);
            l->nresult++;
        }
        l->results[i].value = v;
    }
    return DL_OK;
}

static int64_t time_of(const dl_wire *time) {
    int64_t us = 0;
    for (dl_wire w = dl_wire_inside(time); dl_wire_next(&w);)
        us += w.field == TIME_SECONDS ? (int64_t)w.number * 1000000
              : w.field == TIME_NANOS ? (int64_t)w.number / 1000
                                      : 0;
    return us;
}

static dl_status take_run(log_file *l, const dl_wire *run) {
    for (dl_wire w = dl_wire_inside(run); dl_wire_next(&w);) {
        if (w.field == RUN_START) l->started_us = time_of(&w);
        if (w.field == RUN_CONFIG) DL_TRY(take_config(l, &w));
        if (w.field == RUN_TAGS && w.b) {
            DL_TRY(DL_LIST_ROOM(l->tags, l->ntag, l->tag_room));
            if (!(l->tags[l->ntag] = dl_wire_text(&w))) return no_memory(l);
            l->ntag++;
        } else if (w.b && w.field > 0 && w.field <= RUN_HOST) {
            free(l->text[w.field]);
            if (!(l->text[w.field] = dl_wire_text(&w))) return no_memory(l);
        }
    }
    return DL_OK;
}

static dl_status take_facts(log_file *l, const dl_wire *record, int kind) {
    if (kind == RECORD_RUN) return take_run(l, record);
    if (kind == RECORD_CONFIG) return take_config(l, record);
    if (kind == RECORD_SUMMARY) return take_summary(l, record);
    if (kind != RECORD_EXIT) return DL_OK;
    l->ended = true;
    for (dl_wire w = dl_wire_inside(record); dl_wire_next(&w);) {
        if (w.field == EXIT_CODE) l->exit_code = (int32_t)w.number;
        if (w.field == EXIT_RUNTIME) l->runtime_s = (int32_t)w.number;
    }
    return DL_OK;
}

/* A parameter, one for each value of a nested one: "optimizer.lr". */
static dl_status put_param(const log_file *l, const char *key, const json_t *value) {
    const char *name;
    json_t *part;
    if (json_is_object(value) && json_object_size(value)) {
        json_object_foreach((json_t *)value, name, part) {
            char deeper[2 * DL_RING_KEY_MAX];
            if (snprintf(deeper, sizeof deeper, "%s.%s", key, name) < (int)sizeof deeper)
                DL_TRY(put_param(l, deeper, part));
        }
        return DL_OK;
    }
    if (json_is_string(value)) return dl_intake_param(l->in, l->run, key, json_string_value(value));
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    dl_status st = text ? dl_intake_param(l->in, l->run, key, text) : no_memory(l);
    free(text);
    return st;
}

static dl_status put_run(log_file *l) {
    const char *key;
    json_t *value;
    if (!l->text[RUN_ID]) return dl_fail(DL_ERR_FORMAT, "'%s' does not tell of a run", l->path);
    dl_incoming r = {.name = l->text[RUN_NAME],
                     .called = l->text[RUN_ID],
                     .experiment = l->text[RUN_PROJECT],
                     .grp = l->text[RUN_GROUP],
                     .note = l->text[RUN_NOTES],
                     .host = l->text[RUN_HOST],
                     .started_us = l->started_us,
                     .ended_us = l->ended && l->started_us ? l->started_us + l->runtime_s * 1000000 : 0,
                     .status = !l->ended      ? "running"
                               : l->exit_code ? "failed"
                                              : "finished"};
    dl_intake_uuid("wandb", l->text[RUN_ID], r.uuid);
    DL_TRY(dl_intake_run(l->in, &r, &l->run));
    json_object_foreach(l->config, key, value) DL_TRY(put_param(l, key, value));
    for (long i = 0; i < l->ntag; i++) DL_TRY(dl_intake_tag(l->in, l->run, l->tags[i]));
    return DL_OK;
}

/* ---------------------------------------------------------------- points */

static dl_status take_points(log_file *l, const dl_wire *record, int kind) {
    int64_t step = 0, at = 0;
    double v;
    char key[DL_RING_KEY_MAX];
    if (kind != RECORD_HISTORY) return DL_OK;
    for (dl_wire w = dl_wire_inside(record); dl_wire_next(&w);) {
        for (dl_wire s = dl_wire_inside(&w); w.field == HISTORY_STEP && dl_wire_next(&s);)
            if (s.field == STEP_NUMBER) step = (int64_t)s.number;
        if (w.field != HISTORY_ITEM || !key_of(&w, key, sizeof key) || !number_of(&w, &v)) continue;
        if (!strcmp(key, "_timestamp") && v > 0 && v < 1e11) at = llround(v * 1e6);
        if (!strcmp(key, "_step") && fabs(v) < 9e15) step = (int64_t)v;
    }
    if (step > l->last_step) l->last_step = step;
    for (dl_wire w = dl_wire_inside(record); dl_wire_next(&w);) {
        if (w.field != HISTORY_ITEM || !key_of(&w, key, sizeof key) || *key == '_' || !number_of(&w, &v)) continue;
        long i = result_of(l, key);
        if (i >= 0) l->results[i].logged = true;
        DL_TRY(dl_intake_point(l->in, l->run, key, step, at, v));
    }
    return DL_OK;
}

static dl_status read_bytes(log_file *l) {
    struct stat info;
    int fd = open(l->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info)) {
        dl_status st = dl_fail_file("read", l->path);
        if (fd >= 0) close(fd);
        return st;
    }
    l->bytes = malloc((size_t)info.st_size + 1);
    l->record = malloc((size_t)info.st_size + 1);
    l->config = json_object();
    ssize_t got = 1;
    while (l->bytes && got > 0 && l->n < (size_t)info.st_size) {
        got = read(fd, l->bytes + l->n, (size_t)info.st_size - l->n);
        if (got > 0) l->n += (size_t)got;
    }
    close(fd);
    if (!l->bytes || !l->record || !l->config) return no_memory(l);
    if (got < 0) return dl_fail_file("read", l->path);
    return l->n >= HEAD && !memcmp(l->bytes, ":W&B", 4)
               ? DL_OK
               : dl_fail(DL_ERR_FORMAT, "'%s' is not a log of W&B, whatever its name says", l->path);
}

static dl_status read_log(dl_intake *in, const char *path) {
    log_file l DL_SCOPE(free_log) = {.in = in, .path = path};
    DL_TRY(read_bytes(&l));
    DL_TRY(each_record(&l, take_facts));
    DL_TRY(put_run(&l));
    DL_TRY(each_record(&l, take_points));
    for (long i = 0; i < l.nresult; i++)
        if (!l.results[i].logged) DL_TRY(dl_intake_last(in, l.run, l.results[i].key, l.last_step, l.results[i].value));
    return DL_OK;
}

/* ---------------------------------------------------------------- folders */

static int is_log(const char *name) {
    const char *end = strrchr(name, '.');
    return !strncmp(name, "run-", 4) && end && !strcmp(end, ".wandb");
}

static int is_run(const char *name) { return !strcmp(name, "wandb-history.jsonl") || is_log(name); }

int dl_wandb_found(const char *path) { return dl_walk_found(path, is_run); }

static dl_status read_file(dl_intake *in, const char *path) {
    const char *slash = strrchr(path, '/');
    if (is_log(slash ? slash + 1 : path)) return read_log(in, path);
    dl_table_taker t DL_SCOPE(dl_table_free) = {.in = in, .run = -1};
    return dl_table_read_jsonl(&t, path);
}

static dl_status read_files(void *ctx, const char *folder DL_UNUSED, char *const *files, long n,
                            const char *below DL_UNUSED) {
    for (long i = 0; i < n; i++) DL_TRY(read_file(ctx, files[i]));
    return DL_OK;
}

dl_status dl_wandb_read(dl_intake *in, const char *path) {
    struct stat info;
    if (stat(path, &info)) return dl_fail_file("read", path);
    return S_ISDIR(info.st_mode) ? dl_walk(path, is_run, read_files, in) : read_file(in, path);
}
