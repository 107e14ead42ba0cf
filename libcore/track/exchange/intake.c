/* Taking over runs and points of other programs' files: one transaction, in which nothing is added twice. */
#define _GNU_SOURCE /* asprintf */
#include "track/exchange/intake.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/list.h"

/* Runs that were imported carry this in place of the boot id of a process. */
#define IMPORTED "import"

typedef struct taken {
    char uuid[37], parent[37];
    int64_t id, started_us;
    int64_t first_us, last_us;           /* of its new points */
    int64_t before;                      /* points that it had */
    int is_new, changed, started, ended; /* the last two: the file tells when */
} taken;

struct dl_intake {
    dl_store *store;
    dl_import_spec spec;
    taken *runs;
    long nrun, room;
    dl_inserter inserter;
    uint32_t *slots; /* numbers of names + 1, by hash; 0: free */
    uint32_t nslot;
    dl_ring_record *batch;
    uint64_t nbatch;
    int64_t points_before;
};

const dl_import_spec *dl_intake_spec(const dl_intake *in) { return &in->spec; }

/* ---------------------------------------------------------------- uuids */

static void put_dashes(const char hex[32], char out[37]) {
    snprintf(out, 37, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

/* Version 8, of which the digits are the program's own. */
void dl_intake_uuid(const char *program, const char *id, char out[37]) {
    char sha[65], *text = NULL;
    if (asprintf(&text, "%s\n%s", program, id) < 0) text = NULL;
    dl_sha256_hex(text ? text : id, strlen(text ? text : id), sha);
    free(text);
    sha[12] = '8';
    sha[16] = '8';
    put_dashes(sha, out);
}

int dl_uuid_parse(const char *text, char out[37]) {
    char hex[33];
    int n = 0;
    for (; *text && n <= 32; text++) {
        if (*text == '-') continue;
        if (!isxdigit((unsigned char)*text) || n == 32) return 0;
        hex[n++] = (char)tolower((unsigned char)*text);
    }
    if (n != 32) return 0;
    put_dashes(hex, out);
    return 1;
}

/* ---------------------------------------------------------------- begin */

static dl_status count_points(sqlite3 *db, int64_t *n) {
    *n = 0;
    return dl_db_int(db, n, "select sum(n) from series", "");
}

dl_status dl_intake_begin(dl_intake **out, dl_store *s, const dl_import_spec *spec) {
    dl_intake *in = calloc(1, sizeof *in);
    if (in) in->batch = malloc(DL_BATCH * sizeof *in->batch);
    if (!in || !in->batch) return free(in), dl_fail(DL_ERR_MEMORY, "no memory to import runs");
    in->store = s;
    if (spec) in->spec = *spec;
    in->inserter.keep_old = 1;
    in->inserter.db = s->w;
    *out = in;
    dl_status st = dl_db_begin(s->w);
    if (st == DL_OK) st = count_points(s->w, &in->points_before);
    return st == DL_OK ? DL_OK : dl_intake_end(in, st, NULL);
}

/* ---------------------------------------------------------------- runs */

static dl_status find(sqlite3 *db, taken *t, int *imported) {
    DL_DB_STATEMENT(q);
    DL_TRY(dl_db_prepare(db, &q,
                         "select id, started_us, boot_id = '" IMPORTED "', (select coalesce(sum(n), 0) from series"
                         " where run_id = run.id) from run where uuid = ?1"));
    DL_TRY(dl_db_bind(q, "t", t->uuid));
    int rc = sqlite3_step(q);
    if (rc != SQLITE_ROW) return rc == SQLITE_DONE ? DL_OK : dl_db_fail(db, "read the store");
    t->id = sqlite3_column_int64(q, 0);
    t->started_us = sqlite3_column_int64(q, 1);
    *imported = sqlite3_column_int(q, 2);
    t->before = sqlite3_column_int64(q, 3);
    return DL_OK;
}

/* A process of which nothing is known here is not running: whether it was is the business of where it ran. */
static void settle_status(dl_incoming *r) {
    if (!r->status || (strcmp(r->status, "running") && strcmp(r->status, "paused"))) return;
    r->status = "killed";
    if (!r->error) r->error = "it had not ended when it was imported";
}

static dl_status insert(dl_intake *in, const dl_incoming *r, taken *t) {
    const char *experiment = r->experiment ? r->experiment : in->spec.experiment;
    const char *name = r->name ? r->name : in->spec.name ? in->spec.name : r->called;
    t->started_us = r->started_us ? r->started_us : dl_now_us();
    DL_TRY(dl_db_run(in->store->w,
                     "insert into run(uuid, name, experiment, status, host, started_us, heartbeat_us, boot_id, pid,"
                     " pid_start) values(?1, coalesce(?2, ''), coalesce(?3, 'default'), coalesce(?4, 'finished'), "
                     "coalesce(?5, ''), ?6, ?6,"
                     " '" IMPORTED "', 0, 0)",
                     "ttttti", t->uuid, name, experiment, r->status, r->host, t->started_us));
    t->id = sqlite3_last_insert_rowid(in->store->w);
    t->is_new = 1;
    if (name) return DL_OK;
    return dl_db_run(in->store->w, "update run set name = 'run-' || id where id = ?1", "i", t->id);
}

static dl_status set_text(sqlite3 *db, taken *t, const char *sql, const char *value) {
    if (!value || !*value) return DL_OK;
    DL_TRY(dl_db_run(db, sql, "it", t->id, value));
    t->changed |= sqlite3_changes(db) > 0;
    return DL_OK;
}

static dl_status set_number(sqlite3 *db, taken *t, const char *sql, int64_t value) {
    if (!value) return DL_OK;
    DL_TRY(dl_db_run(db, sql, "ii", t->id, value));
    t->changed |= sqlite3_changes(db) > 0;
    return DL_OK;
}

/* What the file tells and the row lacks, or has otherwise. */
static dl_status refresh(sqlite3 *db, const dl_incoming *r, taken *t) {
#define SQL(column) "update run set " #column " = ?2 where id = ?1 and " #column " is not ?2"
#define SET_TEXT(column) DL_TRY(set_text(db, t, SQL(column), r->column));
#define SET_NUMBER(column) DL_TRY(set_number(db, t, SQL(column), r->column));
/* A time of whole milliseconds says no more than one that is less than one away; others are exact. */
#define SET_TIME(column)                                                                                               \
    DL_TRY(set_number(                                                                                                 \
        db, t, SQL(column) " and abs(coalesce(" #column ", 0) - ?2) >= case ?2 % 1000 when 0 then 1000 else 1 end",    \
        r->column));
    DL_INCOMING_TEXTS(SET_TEXT)
    DL_INCOMING_NUMBERS(SET_NUMBER)
    DL_INCOMING_TIMES(SET_TIME)
#undef SET_TIME
#undef SET_NUMBER
#undef SET_TEXT
#undef SQL
    if (r->status && !r->error) DL_TRY(dl_db_run(db, "update run set error = null where id = ?1", "i", t->id));
    if (!r->ended_us) return DL_OK;
    return dl_db_run(db, "update run set heartbeat_us = ended_us where id = ?1", "i", t->id);
}

static dl_status take(dl_intake *in, const dl_incoming *told, taken *t) {
    dl_incoming r = *told;
    int imported = 1;
    DL_TRY(find(in->store->w, t, &imported));
    settle_status(&r);
    if (!t->id) DL_TRY(insert(in, &r, t));
    return imported ? refresh(in->store->w, &r, t) : DL_OK;
}

dl_status dl_intake_run(dl_intake *in, const dl_incoming *r, long *run) {
    long i = in->nrun;
    while (i > 0 && strcmp(in->runs[i - 1].uuid, r->uuid)) i--;
    *run = i - 1;
    if (i) return DL_OK;
    DL_TRY(DL_LIST_ROOM(in->runs, in->nrun, in->room));
    taken *t = &in->runs[in->nrun];
    *t = (taken){0};
    memcpy(t->uuid, r->uuid, sizeof t->uuid);
    memcpy(t->parent, r->parent, sizeof t->parent);
    t->started = r->started_us != 0, t->ended = r->ended_us != 0;
    DL_TRY(take(in, r, t));
    *run = in->nrun++;
    return DL_OK;
}

/* ---------------------------------------------------------------- what belongs to a run */

dl_status dl_intake_param(dl_intake *in, long run, const char *key, const char *value) {
    char *end;
    double num = strtod(value, &end);
    if (end == value || *end) num = __builtin_nan("");
    DL_TRY(dl_db_run(in->store->w, "insert or ignore into param(run_id, key, value, num) values(?1, ?2, ?3, ?4)",
                     "ittd", in->runs[run].id, key, value, num));
    in->runs[run].changed |= sqlite3_changes(in->store->w) > 0;
    return DL_OK;
}

dl_status dl_intake_tag(dl_intake *in, long run, const char *tag) {
    if (!*tag) return DL_OK;
    DL_TRY(
        dl_db_run(in->store->w, "insert or ignore into tag(run_id, tag) values(?1, ?2)", "it", in->runs[run].id, tag));
    in->runs[run].changed |= sqlite3_changes(in->store->w) > 0;
    return DL_OK;
}

/* ---------------------------------------------------------------- points */

static dl_status flush(dl_intake *in) {
    int64_t lost = 0;
    uint64_t n = in->nbatch;
    in->nbatch = 0;
    return dl_inserter_add(&in->inserter, in->batch, n, &lost);
}

static uint32_t slot_of(const dl_intake *in, int64_t id, const char *key) {
    uint64_t h = dl_hash(key, (long)strlen(key)) ^ (uint64_t)id * 0x9e3779b97f4a7c15u;
    uint32_t at = (uint32_t)(h ^ h >> 32) & (in->nslot - 1);
    for (; in->slots[at]; at = (at + 1) & (in->nslot - 1)) {
        const dl_name *n = &in->inserter.names[in->slots[at] - 1];
        if (n->run == id && !strcmp(n->key, key)) break;
    }
    return at;
}

/* Twice as many slots as names. */
static dl_status widen(dl_intake *in) {
    uint32_t names = in->inserter.nname;
    if (in->nslot > 2 * names) return DL_OK;
    uint32_t *slots = calloc(in->nslot ? 2 * in->nslot : 256, sizeof *slots);
    if (!slots) return dl_fail(DL_ERR_MEMORY, "no memory for the names of metrics");
    free(in->slots);
    in->slots = slots;
    in->nslot = in->nslot ? 2 * in->nslot : 256;
    for (uint32_t i = 0; i < names; i++)
        in->slots[slot_of(in, in->inserter.names[i].run, in->inserter.names[i].key)] = i + 1;
    return DL_OK;
}

static dl_status number_of(dl_intake *in, int64_t id, const char *key, uint32_t *number) {
    if (!*key || strlen(key) > DL_RING_KEY_MAX)
        return dl_fail(DL_ERR_VALUE, "the name of a metric has 1 to %d bytes", DL_RING_KEY_MAX);
    DL_TRY(widen(in));
    uint32_t at = slot_of(in, id, key);
    if (!in->slots[at]) {
        DL_TRY(dl_inserter_name(&in->inserter, in->inserter.nname, id, key));
        in->slots[at] = in->inserter.nname;
    }
    *number = in->slots[at] - 1;
    return DL_OK;
}

dl_status dl_intake_point(dl_intake *in, long run, const char *key, int64_t step, int64_t t_us, double value) {
    taken *t = &in->runs[run];
    uint32_t series = 0;
    if (in->nbatch == DL_BATCH) DL_TRY(flush(in));
    DL_TRY(number_of(in, t->id, strcmp(key, "loss") ? key : "train/loss", &series));
    if (t_us) {
        if (!t->first_us || t_us < t->first_us) t->first_us = t_us;
        if (t_us > t->last_us) t->last_us = t_us;
    }
    in->batch[in->nbatch] = (dl_ring_record){.series = series,
                                             .stamp = (uint32_t)in->nbatch,
                                             .step = step,
                                             .value = value,
                                             .t_us = t_us ? t_us : t->started_us};
    in->nbatch++;
    return DL_OK;
}

dl_status dl_intake_last(dl_intake *in, long run, const char *key, int64_t step, double value) {
    int64_t n = 0;
    const char *full = strcmp(key, "loss") ? key : "train/loss";
    DL_TRY(dl_db_int(in->store->w, &n, "select n from series where run_id = ?1 and key = ?2", "it", in->runs[run].id,
                     full));
    return n ? DL_OK : dl_intake_point(in, run, key, step, 0, value);
}

/* ---------------------------------------------------------------- end */

#define OF_IMPORTED " where id = ?1 and boot_id = '" IMPORTED "'"
static const char parent_sql[] =
    "update run set parent_id = (select id from run where uuid = ?2) where id = ?1 and parent_id is null";
static const char ended_sql[] = "update run set ended_us = max(coalesce(ended_us, started_us), ?2), heartbeat_us ="
                                " max(coalesce(ended_us, started_us), ?2)" OF_IMPORTED;
static const char active_sql[] =
    "update run set active_us = max(coalesce(ended_us, started_us) - started_us, 0)" OF_IMPORTED " and active_us = 0";

/* Times that the file does not tell are those of the points; the parent may have come later. */
static dl_status complete(sqlite3 *db, taken *t, dl_import_result *out) {
    int64_t n = 0;
    DL_TRY(dl_db_int(db, &n, "select sum(n) from series where run_id = ?1", "i", t->id));
    if (t->is_new && !t->started && t->first_us)
        DL_TRY(dl_db_run(db, "update run set started_us = ?2 where id = ?1", "ii", t->id, t->first_us));
    if (*t->parent) DL_TRY(dl_db_run(db, parent_sql, "it", t->id, t->parent));
    if (!t->ended) DL_TRY(dl_db_run(db, ended_sql, "ii", t->id, t->last_us));
    DL_TRY(dl_db_run(db, active_sql, "i", t->id));
    out->runs += t->is_new;
    out->updated += !t->is_new && (t->changed || n != t->before);
    out->known += !t->is_new && !t->changed && n == t->before;
    return DL_OK;
}

static dl_status finish(dl_intake *in, dl_import_result *out) {
    int64_t n = 0;
    DL_TRY(flush(in));
    for (long i = 0; i < in->nrun; i++) DL_TRY(complete(in->store->w, &in->runs[i], out));
    DL_TRY(count_points(in->store->w, &n));
    out->points = (long)(n - in->points_before);
    return DL_OK;
}

dl_status dl_intake_end(dl_intake *in, dl_status st, dl_import_result *out) {
    if (st == DL_OK) st = finish(in, out);
    dl_inserter_free(&in->inserter);
    st = dl_db_end(in->store->w, st);
    free(in->runs);
    free(in->slots);
    free(in->batch);
    free(in);
    return st;
}
