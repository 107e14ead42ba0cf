/* TensorBoard's files of events, read: scalars, of old and of new kind, and hyperparameters. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/interrupt.h"
#include "core/list.h"
#include "io/nearest_file.h"
#include "track/exchange/protobuf.h"
#include "track/exchange/tensorboard.h"
#include "track/exchange/walk.h"

enum { LONGEST = 1 << 28 };

typedef struct point {
    uint32_t tag, order;
    int64_t step, t_us;
    double value;
} point;

typedef struct events {
    dl_intake *in;
    const char *path; /* of the file */
    char first[65 + 256 + 2];
    char uuid[37]; /* "": the file's own writer does not tell */
    char **tags;
    long ntag, tag_cap, tag_last;
    point *points;
    long n, cap;
    char **params; /* key, value, ... */
    long nparam, param_cap;
} events;

/* ---------------------------------------------------------------- decoding */

static double as_float(uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float v;
    memcpy(&v, &low, sizeof v);
    return v;
}

static int is_text(const dl_wire *w, const char *text) {
    return w->b && w->n == strlen(text) && !memcmp(w->b, text, w->n);
}

/* ---------------------------------------------------------------- scalars */

/* TensorFlow's numbers of dtypes, the field with single values, and the size of an element. */
static const struct {
    int dtype, field;
    size_t size;
} dtypes[] = {{1, 5, 4} /* float */, {2, 6, 8} /* double */, {3, 7, 4} /* int32 */, {9, 10, 8} /* int64 */};

static double element(int dtype, uint64_t bits) {
    return dtype == 1   ? as_float(bits)
           : dtype == 2 ? dl_wire_double(bits)
           : dtype == 3 ? (int32_t)bits
                        : (double)(int64_t)bits;
}

/* A tensor of one number; 0: it is something else. */
static int scalar_of(const dl_wire *tensor, double *v) {
    dl_wire w = dl_wire_inside(tensor);
    int row = -1, found = 0;
    while (dl_wire_next(&w)) {
        if (w.field == DL_TB_TENSOR_DTYPE)
            for (int i = 0; i < 4; i++)
                if (dtypes[i].dtype == (int)w.number) row = i;
        if (row < 0 || (w.field != DL_TB_TENSOR_CONTENT && w.field != dtypes[row].field)) continue;
        dl_wire one = w;
        if (w.type == DL_WIRE_BYTES) {
            one.number = 0;
            one.p = w.b, one.end = w.b + w.n;
            if (dtypes[row].dtype > 2 && w.field != DL_TB_TENSOR_CONTENT) {
                if (!dl_wire_varint(&one, &one.number) || one.p < one.end) return 0;
            } else if (w.n != dtypes[row].size) {
                return 0;
            }
            for (size_t i = 0; one.p == w.b && i < w.n; i++) one.number |= (uint64_t)w.b[i] << 8 * i;
        }
        if (found++) return 0;
        *v = element(dtypes[row].dtype, one.number);
    }
    return found;
}

static dl_status no_memory(const events *e) { return dl_fail(DL_ERR_MEMORY, "no memory for '%s'", e->path); }

/* The number of a tag: tags come in the same order again and again. */
static dl_status tag_of(events *e, const dl_wire *name, uint32_t *number) {
    for (long i = 1; i <= e->ntag; i++) {
        long at = (e->tag_last + i) % e->ntag;
        if (is_text(name, e->tags[at])) return *number = (uint32_t)(e->tag_last = at), DL_OK;
    }
    DL_TRY(DL_LIST_ROOM(e->tags, e->ntag, e->tag_cap));
    if (!(e->tags[e->ntag] = dl_wire_text(name))) return no_memory(e);
    e->tag_last = e->ntag++;
    *number = (uint32_t)e->tag_last;
    return DL_OK;
}

static dl_status add_param(events *e, const dl_wire *map) {
    dl_wire w = dl_wire_inside(map), any = {0}, one;
    char *key = NULL, *value = NULL;
    while (dl_wire_next(&w)) {
        if (w.field == DL_TB_MAP_KEY && !key) key = dl_wire_text(&w);
        if (w.field == DL_TB_MAP_VALUE) any = w;
    }
    for (one = dl_wire_inside(&any); dl_wire_next(&one);) {
        char text[64] = "";
        if (one.field == DL_TB_ANY_NUMBER) snprintf(text, sizeof text, "%.15g", dl_wire_double(one.number));
        if (one.field == DL_TB_ANY_BOOL) snprintf(text, sizeof text, one.number ? "true" : "false");
        free(value);
        value = one.field == DL_TB_ANY_STRING ? dl_wire_text(&one) : strdup(text);
    }
    dl_status st = DL_LIST_ROOM(e->params, e->nparam + 1, e->param_cap);
    if (st == DL_OK && key && value) {
        e->params[e->nparam++] = key, e->params[e->nparam++] = value;
        return DL_OK;
    }
    free(key);
    free(value);
    return st;
}

/* What add_hparams and the plugin "hparams" write: HParamsPluginData. */
static dl_status take_hparams(events *e, const dl_wire *content) {
    for (dl_wire w = dl_wire_inside(content); dl_wire_next(&w);) {
        if (w.field != DL_TB_HPARAMS_START) continue;
        for (dl_wire start = dl_wire_inside(&w); dl_wire_next(&start);)
            if (start.field == DL_TB_START_HPARAMS) DL_TRY(add_param(e, &start));
    }
    return DL_OK;
}

static dl_status take_metadata(events *e, const dl_wire *metadata) {
    for (dl_wire w = dl_wire_inside(metadata); dl_wire_next(&w);) {
        if (w.field != DL_TB_METADATA_PLUGIN) continue;
        dl_wire content = {0};
        int hparams = 0;
        for (dl_wire plugin = dl_wire_inside(&w); dl_wire_next(&plugin);) {
            if (plugin.field == DL_TB_PLUGIN_NAME) hparams = is_text(&plugin, "hparams");
            if (plugin.field == DL_TB_PLUGIN_CONTENT) content = plugin;
        }
        if (hparams) DL_TRY(take_hparams(e, &content));
    }
    return DL_OK;
}

static dl_status take_value(events *e, const dl_wire *summary_value, int64_t step, int64_t t_us) {
    dl_wire w = dl_wire_inside(summary_value), tag = {0};
    point p = {.step = step, .t_us = t_us, .order = (uint32_t)e->n};
    int found = 0;
    while (dl_wire_next(&w)) {
        if (w.field == DL_TB_VALUE_TAG) tag = w;
        if (w.field == DL_TB_VALUE_SIMPLE && w.type == DL_WIRE_FIXED32) p.value = as_float(w.number), found = 1;
        if (w.field == DL_TB_VALUE_TENSOR) found = scalar_of(&w, &p.value);
        if (w.field == DL_TB_VALUE_METADATA) DL_TRY(take_metadata(e, &w));
    }
    if (!found || !tag.n || tag.n > DL_RING_KEY_MAX) return DL_OK;
    DL_TRY(tag_of(e, &tag, &p.tag));
    DL_TRY(DL_LIST_ROOM(e->points, e->n, e->cap));
    e->points[e->n++] = p;
    return DL_OK;
}

/* ---------------------------------------------------------------- events */

/* The program began anew at this step: what it had logged from there on is void. */
static void restart(events *e, int64_t step) {
    long kept = 0;
    for (long i = 0; i < e->n; i++)
        if (e->points[i].step < step) e->points[kept++] = e->points[i];
    e->n = kept;
}

static void take_source(events *e, const dl_wire *source) {
    size_t n = strlen(DL_TB_WRITER);
    for (dl_wire w = dl_wire_inside(source); dl_wire_next(&w);) {
        char uuid[64] = "";
        if (w.field != DL_TB_SOURCE_WRITER || w.n < n || memcmp(w.b, DL_TB_WRITER, n)) continue;
        snprintf(uuid, sizeof uuid, "%.*s", (int)(w.n - n), (const char *)w.b + n);
        if (!*e->uuid) dl_uuid_parse(uuid, e->uuid);
    }
}

static dl_status take_event(events *e, const uint8_t *bytes, size_t n) {
    dl_wire w = {.p = bytes, .end = bytes + n}, summary = {0};
    int64_t step = 0, t_us = 0;
    int began = 0;
    while (dl_wire_next(&w)) {
        if (w.field == DL_TB_EVENT_TIME) t_us = (int64_t)llround(dl_wire_double(w.number) * 1e6);
        if (w.field == DL_TB_EVENT_STEP) step = (int64_t)w.number;
        if (w.field == DL_TB_EVENT_SUMMARY) summary = w;
        if (w.field == DL_TB_EVENT_SOURCE) take_source(e, &w);
        if (w.field == DL_TB_EVENT_LOG)
            for (dl_wire log = dl_wire_inside(&w); dl_wire_next(&log);)
                began |= log.field == DL_TB_LOG_STATUS && log.number == DL_TB_LOG_START;
    }
    if (began) restart(e, step);
    for (dl_wire v = dl_wire_inside(&summary); dl_wire_next(&v);)
        if (v.field == DL_TB_SUMMARY_VALUE) DL_TRY(take_value(e, &v, step, t_us));
    return DL_OK;
}

static dl_status damaged(const events *e, long at) {
    return dl_fail_hint(DL_ERR_FORMAT, "fetch or copy it again",
                        "'%s' is damaged: the checksum of the record at byte %ld is wrong", e->path, at);
}

static uint32_t little(const uint8_t *p) { return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24; }

/* The next record, its bytes in *bytes; *n 0: there is no further one that is whole. */
static dl_status read_record(const events *e, FILE *f, uint8_t **bytes, size_t *room, size_t *n) {
    uint8_t head[12];
    long at = ftell(f);
    uint64_t length = 0;
    *n = 0;
    if (fread(head, 1, sizeof head, f) < sizeof head) return DL_OK;
    for (int i = 0; i < 8; i++) length |= (uint64_t)head[i] << 8 * i;
    if (dl_tensorboard_crc(head, 8) != little(head + 8) || length > LONGEST) return damaged(e, at);
    if (length + 4 > *room) {
        uint8_t *more = realloc(*bytes, length + 4);
        if (!more) return no_memory(e);
        *bytes = more, *room = length + 4;
    }
    if (fread(*bytes, 1, length + 4, f) < length + 4) return DL_OK;
    if (dl_tensorboard_crc(*bytes, length) != little(*bytes + length)) return damaged(e, at);
    *n = length;
    return DL_OK;
}

/* A run whose writer is another program is known by the name of its first file and the record that this begins with. */
static void remember_first(events *e, const uint8_t *bytes, size_t n) {
    const char *slash = strrchr(e->path, '/');
    char sha[65];
    if (*e->first) return;
    dl_sha256_hex(bytes, n, sha);
    snprintf(e->first, sizeof e->first, "%.255s %s", slash ? slash + 1 : e->path, sha);
}

static dl_status read_file(events *e, const char *path) {
    uint8_t *bytes = NULL;
    size_t room = 0, n = 0;
    FILE *f = fopen(path, "re");
    if (!f) return dl_fail_file("read", path);
    e->path = path;
    dl_status st;
    while ((st = read_record(e, f, &bytes, &room, &n)) == DL_OK && n) {
        remember_first(e, bytes, n);
        st = dl_interrupt_check_at(e->n);
        if (st == DL_OK) st = take_event(e, bytes, n);
        if (st != DL_OK) break;
    }
    free(bytes);
    fclose(f);
    return st;
}

/* ---------------------------------------------------------------- runs */

/* The latest of a step last. */
static int by_tag_and_step(const void *pa, const void *pb) {
    const point *a = pa, *b = pb;
    if (a->tag != b->tag) return a->tag < b->tag ? -1 : 1;
    if (a->step != b->step) return a->step < b->step ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

static dl_status hand_over(events *e, const char *name) {
    dl_incoming r = {.called = name};
    long run;
    if (!*e->first) return DL_OK; /* no record yet */
    if (*e->uuid)
        memcpy(r.uuid, e->uuid, sizeof r.uuid);
    else
        dl_intake_uuid("tensorboard", e->first, r.uuid);
    DL_TRY(dl_intake_run(e->in, &r, &run));
    for (long i = 0; i < e->nparam; i += 2) DL_TRY(dl_intake_param(e->in, run, e->params[i], e->params[i + 1]));
    qsort(e->points, (size_t)e->n, sizeof *e->points, by_tag_and_step);
    for (long i = 0; i < e->n; i++) {
        const point *p = &e->points[i];
        if (i + 1 < e->n && p[1].tag == p->tag && p[1].step == p->step) continue;
        DL_TRY(dl_intake_point(e->in, run, e->tags[p->tag], p->step, p->t_us, p->value));
    }
    return DL_OK;
}

static void free_events(const events *e) {
    for (long i = 0; i < e->ntag; i++) free(e->tags[i]);
    for (long i = 0; i < e->nparam; i++) free(e->params[i]);
    free(e->tags);
    free(e->params);
    free(e->points);
}

static int is_event_file(const char *name) { return strstr(name, "tfevents") != NULL; }

/* This project calls the folders ID-NAME. */
static const char *own_name(const char *below) {
    const char *slash = strrchr(below, '/'), *name = slash ? slash + 1 : below;
    size_t digits = strspn(name, "0123456789");
    return digits && name[digits] == '-' && name[digits + 1] ? name + digits + 1 : name;
}

/* The name of a run is its folder's path from where the import begins, as in TensorBoard; there, the folder's own. */
static dl_status read_folder(void *ctx, const char *folder, char *const *files, long n, const char *below) {
    events e DL_SCOPE(free_events) = {.in = ctx};
    char name[512];
    snprintf(name, sizeof name, "%s", folder);
    for (size_t k = strlen(name); k > 1 && name[k - 1] == '/';) name[--k] = 0;
    const char *slash = strrchr(name, '/');
    for (long i = 0; i < n; i++) DL_TRY(read_file(&e, files[i]));
    if (*e.uuid && *below) below = own_name(below);
    return hand_over(&e, *below ? below : slash && slash[1] ? slash + 1 : name);
}

int dl_tensorboard_found(const char *path) { return dl_walk_found(path, is_event_file); }

dl_status dl_tensorboard_read(dl_intake *in, const char *path) {
    struct stat info;
    if (stat(path, &info)) return dl_fail_file("read", path);
    if (S_ISDIR(info.st_mode)) return dl_walk(path, is_event_file, read_folder, in);
    events e DL_SCOPE(free_events) = {.in = in};
    DL_TRY(read_file(&e, path));
    return hand_over(&e, NULL);
}
