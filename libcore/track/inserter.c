/* Adding points to the database: series, points, and the statistics of series that lists read. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/list.h"
#include "track/store.h"

static const char insert_sql[] = "insert or ignore into metric(series_id, step, t_us, value) values(?1, ?2, ?3, ?4)";
/* the same value again changes nothing: a ring replayed after its commit */
static const char update_sql[] =
    "update metric set t_us = ?3, value = ?4 where series_id = ?1 and step = ?2 and value is not ?4";
/* ?5, ?7: first and last step of the new points; ?10, ?12: their extremes, NULL when all are NaN. In an UPDATE all
 * right-hand sides see the old row. */
static const char merge_sql[] = "update series set n = n + ?2, n_nan = n_nan + ?3, sum = sum + ?4,"
                                " first = case when coalesce(first_step <= ?5, 0) then first else ?6 end, first_step = "
                                "min(coalesce(first_step, ?5), ?5),"
                                " last = case when coalesce(last_step >= ?7, 0) then last else ?8 end, last_step = "
                                "max(coalesce(last_step, ?7), ?7),"
                                " min_step = case when ?10 is null or min <= ?10 then min_step else ?9 end,"
                                " min = case when ?10 is null or min <= ?10 then min else ?10 end,"
                                " max_step = case when ?12 is null or max >= ?12 then max_step else ?11 end,"
                                " max = case when ?12 is null or max >= ?12 then max else ?12 end where id = ?1";

static const char rebuild_sql[] =
    "update series set (n, n_nan, sum, min, max, first_step, last_step) = (select count(*), count(*) - count(value),"
    " coalesce(sum(value), 0), min(value), max(value), min(step), max(step) from metric where series_id = ?1) where id "
    "= ?1";
static const char rebuild_steps_sql[] =
    "update series set first = (select value from metric where series_id = ?1 and step = first_step),"
    " last = (select value from metric where series_id = ?1 and step = last_step),"
    " min_step = (select step from metric where series_id = ?1 and value = series.min order by step limit 1),"
    " max_step = (select step from metric where series_id = ?1 and value = series.max order by step limit 1) where id "
    "= ?1";

dl_status dl_series_rebuild(sqlite3 *db, int64_t series) {
    DL_TRY(dl_db_run(db, rebuild_sql, "i", series));
    return dl_db_run(db, rebuild_steps_sql, "i", series);
}

void dl_inserter_detach(dl_inserter *k) {
    sqlite3_stmt **const all[] = {&k->insert, &k->update, &k->merge, &k->bulk, &k->newest};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        sqlite3_finalize(*all[i]);
        *all[i] = NULL;
    }
    k->db = NULL;
}

void dl_inserter_free(dl_inserter *k) {
    dl_inserter_detach(k);
    for (uint32_t i = 0; i < k->nname; i++) free(k->names[i].key);
    free(k->names);
    *k = (dl_inserter){0};
}

dl_status dl_inserter_name(dl_inserter *k, uint32_t index, int64_t run, const char *key) {
    if (index >= 1u << 26) return dl_fail(DL_ERR_STORE, "a process cannot have more than 67 million series");
    while (k->room <= index) DL_TRY(DL_LIST_ROOM(k->names, k->room, k->room));
    for (; k->nname <= index; k->nname++) k->names[k->nname] = (dl_name){0};
    char *copy = strdup(key);
    if (!copy) return dl_fail(DL_ERR_MEMORY, "no memory for a name");
    free(k->names[index].key);
    k->names[index] = (dl_name){run, 0, copy};
    return DL_OK;
}

void dl_inserter_forget(dl_inserter *k) {
    for (uint32_t i = 0; i < k->nname; i++) k->names[i].id = 0;
}

/* The row id of the series with this number, inserted if need be. *id stays 0 when the run does not exist. */
static dl_status series_row(dl_inserter *k, uint32_t index, int64_t *id) {
    *id = 0;
    if (index >= k->nname || !k->names[index].key) return DL_OK;
    dl_name *n = &k->names[index];
    if (!n->id) {
        DL_TRY(dl_db_run(k->db, "insert or ignore into series(run_id, key) select id, ?2 from run where id = ?1", "it",
                         n->run, n->key));
        DL_TRY(dl_db_int(k->db, &n->id, "select id from series where run_id = ?1 and key = ?2", "it", n->run, n->key));
    }
    *id = n->id;
    return DL_OK;
}

typedef struct summary {
    int64_t n, nan, first_step, last_step, min_step, max_step;
    double sum, first, last, min, max;
    int changed; /* an old value was replaced: the statistics are recomputed */
} summary;

/* Points come by rising step. */
static void add_to_summary(summary *t, int64_t step, double v) {
    if (!t->n++) t->first = v, t->first_step = step, t->min = t->max = NAN;
    t->last = v;
    t->last_step = step;
    if (isnan(v)) {
        t->nan++;
        return;
    }
    t->sum += v;
    if (!(t->min <= v)) t->min = v, t->min_step = step;
    if (!(t->max >= v)) t->max = v, t->max_step = step;
}

static dl_status execute(dl_inserter *k, sqlite3_stmt *st) {
    int rc = sqlite3_step(st);
    dl_status status = rc == SQLITE_DONE ? DL_OK : dl_db_fail(k->db, "commit points");
    sqlite3_reset(st);
    return status;
}

static dl_status add_point(dl_inserter *k, int64_t series, const dl_ring_record *r, summary *t) {
    sqlite3_bind_int64(k->insert, 1, series);
    sqlite3_bind_int64(k->insert, 2, r->step);
    sqlite3_bind_int64(k->insert, 3, r->t_us);
    sqlite3_bind_double(k->insert, 4, r->value); /* NaN becomes NULL */
    DL_TRY(execute(k, k->insert));
    if (sqlite3_changes(k->db)) {
        add_to_summary(t, r->step, r->value);
        return DL_OK;
    }
    if (k->keep_old) return DL_OK;
    DL_TRY(dl_db_bind(k->update, "iiid", series, r->step, r->t_us, r->value));
    DL_TRY(execute(k, k->update));
    t->changed |= sqlite3_changes(k->db);
    return DL_OK;
}

/* Rows of one INSERT: the overhead of a statement is that of several rows. */
enum { BULK = 16 };

static dl_status prepare_bulk(dl_inserter *k) {
    char sql[64 + BULK * 32];
    int n = snprintf(sql, sizeof sql, "insert into metric(series_id, step, t_us, value) values");
    for (int i = 0; i < BULK; i++)
        n += snprintf(sql + n, sizeof sql - (size_t)n, "%s(?1, ?%d, ?%d, ?%d)", i ? "," : "", 3 * i + 2, 3 * i + 3,
                      3 * i + 4);
    return dl_db_prepare(k->db, &k->bulk, sql);
}

/* BULK points of different steps, all after the last one in the database: none can be there already. */
static dl_status add_bulk(dl_inserter *k, int64_t series, const dl_ring_record *r, summary *t) {
    sqlite3_bind_int64(k->bulk, 1, series);
    for (int i = 0; i < BULK; i++) {
        sqlite3_bind_int64(k->bulk, 3 * i + 2, r[i].step);
        sqlite3_bind_int64(k->bulk, 3 * i + 3, r[i].t_us);
        sqlite3_bind_double(k->bulk, 3 * i + 4, r[i].value);
        add_to_summary(t, r[i].step, r[i].value);
    }
    return execute(k, k->bulk);
}

/* Points of one series, sorted, each step once. */
static dl_status add_series(dl_inserter *k, int64_t series, const dl_ring_record *r, uint64_t n, summary *t) {
    int64_t last = INT64_MIN;
    DL_TRY(dl_db_bind(k->newest, "i", series));
    int rc = sqlite3_step(k->newest);
    if (rc == SQLITE_ROW && sqlite3_column_type(k->newest, 0) != SQLITE_NULL) last = sqlite3_column_int64(k->newest, 0);
    sqlite3_reset(k->newest);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) return dl_db_fail(k->db, "commit points");
    for (uint64_t i = 0; i < n;) {
        if (n - i >= BULK && r[i].step > last) {
            DL_TRY(add_bulk(k, series, &r[i], t));
            i += BULK;
        } else {
            DL_TRY(add_point(k, series, &r[i++], t));
        }
    }
    return DL_OK;
}

static dl_status merge(dl_inserter *k, int64_t series, const summary *t) {
    if (t->changed) return dl_series_rebuild(k->db, series);
    if (!t->n) return DL_OK;
    DL_TRY(dl_db_bind(k->merge, "iiididididid", series, t->n, t->nan, t->sum, t->first_step, t->first, t->last_step,
                      t->last, t->min_step, t->min, t->max_step, t->max));
    return execute(k, k->merge);
}

static int by_step_order(const void *pa, const void *pb) {
    const dl_ring_record *a = pa, *b = pb;
    if (a->step != b->step) return a->step < b->step ? -1 : 1;
    return a->stamp < b->stamp ? -1 : 1;
}

/* Counting sort by series, stable. Points of unknown series come first, as one group. */
static dl_status group_by_series(dl_inserter *k, dl_ring_record *recs, uint64_t n) {
    uint32_t *start = calloc((size_t)k->nname + 2, sizeof *start);
    dl_ring_record *sorted = malloc(n * sizeof *sorted);
    dl_status st = DL_OK;
    if (start && sorted) {
        for (uint64_t i = 0; i < n; i++) {
            if (recs[i].series >= k->nname) recs[i].series = UINT32_MAX;
            start[recs[i].series + 2u]++; /* UINT32_MAX + 2 is 1 */
        }
        for (uint32_t i = 1; i < k->nname + 2; i++) start[i] += start[i - 1];
        for (uint64_t i = 0; i < n; i++) sorted[start[recs[i].series + 1u]++] = recs[i];
        memcpy(recs, sorted, n * sizeof *recs);
    } else {
        st = dl_fail(DL_ERR_MEMORY, "no memory for a batch of points");
    }
    free(start);
    free(sorted);
    return st;
}

/* Sorts the points of one series and keeps the latest of each step; returns how many are left. */
static uint64_t keep_latest(dl_ring_record *r, uint64_t n) {
    uint64_t kept = 0, i = 1;
    while (i < n && r[i - 1].step < r[i].step) i++;
    if (i >= n) return n; /* the usual case: steps increase */
    qsort(r, n, sizeof *r, by_step_order);
    for (i = 0; i < n; i++)
        if (i + 1 == n || r[i + 1].step != r[i].step) r[kept++] = r[i];
    return kept;
}

static const char end_sql[] =
    "update run set status = ?2, ended_us = ?3, heartbeat_us = ?3, error = null,"
    " active_us = active_us + max(0, ?3 - coalesce(active_since_us, ?3)), active_since_us = null"
    " where id = ?1 and status in ('running', 'paused', 'killed')";

/* Writes the ends of runs that could not be written when they ended, and takes them out; *n is what is left. */
static dl_status write_ends(dl_inserter *k, dl_ring_record *recs, uint64_t *n) {
    uint64_t kept = 0;
    for (uint64_t i = 0; i < *n; i++) {
        if (recs[i].series != DL_RING_END)
            recs[kept++] = recs[i];
        else
            DL_TRY(dl_db_run(k->db, end_sql, "iti", recs[i].step, dl_run_status_name((dl_run_status)recs[i].value),
                             recs[i].t_us));
    }
    *n = kept;
    return DL_OK;
}

dl_status dl_inserter_add(dl_inserter *k, dl_ring_record *recs, uint64_t n, int64_t *lost) {
    if (!k->insert) DL_TRY(dl_db_prepare(k->db, &k->insert, insert_sql));
    if (!k->update) DL_TRY(dl_db_prepare(k->db, &k->update, update_sql));
    if (!k->merge) DL_TRY(dl_db_prepare(k->db, &k->merge, merge_sql));
    if (!k->newest) DL_TRY(dl_db_prepare(k->db, &k->newest, "select last_step from series where id = ?1"));
    if (!k->bulk) DL_TRY(prepare_bulk(k));
    if (!n) return DL_OK;
    DL_TRY(write_ends(k, recs, &n));
    if (!n) return DL_OK;
    DL_TRY(group_by_series(k, recs, n));
    for (uint64_t i = 0, end; i < n; i = end) {
        int64_t series;
        summary t = {0};
        for (end = i + 1; end < n && recs[end].series == recs[i].series;) end++;
        DL_TRY(series_row(k, recs[i].series, &series));
        if (series) {
            DL_TRY(add_series(k, series, &recs[i], keep_latest(&recs[i], end - i), &t));
            DL_TRY(merge(k, series, &t));
        } else {
            *lost += (int64_t)(end - i);
        }
    }
    return DL_OK;
}
