/* Points of one metric, whole or thinned out for a plot; and all points of runs as CSV. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "track/query.h"

typedef struct points {
    dl_points public;
    dl_arena arena;
} points;

/* The same arrays, writable. */
typedef struct columns {
    double *step, *value, *low, *high;
    long *count, *time_us;
} columns;

void dl_points_free(dl_points *p) {
    if (!p) return;
    dl_arena_free(&((points *)p)->arena);
    free(p);
}

static int get_columns(points *p, long room, columns *c) {
    double **const numbers[] = {&c->step, &c->value, &c->low, &c->high};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!(*numbers[i] = dl_arena_get(&p->arena, (size_t)room * sizeof(double)))) return 0;
    c->count = dl_arena_get(&p->arena, (size_t)room * sizeof(long));
    c->time_us = dl_arena_get(&p->arena, (size_t)room * sizeof(long));
    return c->count && c->time_us;
}

/* Adds a point to slot i. While adding, step and value hold sums; `valid` counts the values that are not NaN. */
static void add(columns *c, long i, long *valid, double step, double v, long t) {
    if (!c->count[i]++) c->low[i] = c->high[i] = NAN;
    c->step[i] += step;
    c->time_us[i] = t;
    if (isnan(v)) return;
    valid[i]++;
    c->value[i] += v;
    if (!(c->low[i] <= v)) c->low[i] = v;
    if (!(c->high[i] >= v)) c->high[i] = v;
}

/* Means from sums; slots without a point are closed up. Returns how many are left. */
static long finish(columns *c, const long *valid, long n) {
    long kept = 0;
    for (long i = 0; i < n; i++) {
        if (!c->count[i]) continue;
        c->step[kept] = c->step[i] / (double)c->count[i];
        c->value[kept] = valid[i] ? c->value[i] / (double)valid[i] : NAN;
        c->low[kept] = c->low[i];
        c->high[kept] = c->high[i];
        c->time_us[kept] = c->time_us[i];
        c->count[kept++] = c->count[i];
    }
    return kept;
}

typedef struct extent {
    int64_t id, n, first, last;
} extent;

static dl_status find_series(sqlite3 *db, long run, const char *key, extent *e) {
    DL_DB_STATEMENT(q);
    DL_TRY(dl_db_prepare(db, &q,
                         "select id, n, first_step, last_step from series where run_id = ?1 and key = ?2 and n > 0"));
    DL_TRY(dl_db_bind(q, "it", (int64_t)run, key));
    int rc = sqlite3_step(q);
    if (rc == SQLITE_DONE) return dl_fail_hint(DL_ERR_NAME, "see run show", "run %ld has no metric '%.200s'", run, key);
    if (rc != SQLITE_ROW) return dl_db_fail(db, "read the store");
    *e = (extent){sqlite3_column_int64(q, 0), sqlite3_column_int64(q, 1), sqlite3_column_int64(q, 2),
                  sqlite3_column_int64(q, 3)};
    return DL_OK;
}

static dl_status read_points(sqlite3 *db, const extent *e, long slots, columns *c, long *valid) {
    DL_DB_STATEMENT(q);
    DL_TRY(dl_db_prepare(db, &q, "select step, t_us, value from metric where series_id = ?1 order by step"));
    sqlite3_bind_int64(q, 1, e->id);
    double span = (double)e->last - (double)e->first + 1;
    int rc;
    for (long i = 0; (rc = sqlite3_step(q)) == SQLITE_ROW; i++) {
        int64_t step = sqlite3_column_int64(q, 0);
        long at = slots < e->n ? (long)(((double)step - (double)e->first) / span * (double)slots) : i;
        if (at >= slots) at = slots - 1; /* a point was added since its series was read */
        add(c, at, valid, (double)step, dl_column_number(q, 2), (long)sqlite3_column_int64(q, 1));
    }
    return rc == SQLITE_DONE ? DL_OK : dl_db_fail(db, "read the store");
}

/* Points that are read of an interval, and from how many times as many on that pays. */
enum { SAMPLE = 8, SAMPLE_FROM = 4 };

/* Of each interval its first points alone, found by the index: a long series is not read as a whole. */
static dl_status read_samples(sqlite3 *db, const extent *e, long slots, columns *c, long *valid) {
    DL_DB_STATEMENT(q);
    char sql[160];
    snprintf(
        sql, sizeof sql,
        "select step, t_us, value from metric where series_id = ?1 and step >= ?2 and step < ?3 order by step limit %d",
        SAMPLE);
    DL_TRY(dl_db_prepare(db, &q, sql));
    double span = (double)e->last - (double)e->first + 1;
    int rc = SQLITE_DONE;
    for (long i = 0; i < slots && rc == SQLITE_DONE; i++) {
        int64_t from = e->first + (int64_t)(span * (double)i / (double)slots);
        int64_t to = e->first + (int64_t)(span * (double)(i + 1) / (double)slots);
        DL_TRY(dl_db_bind(q, "iii", e->id, i + 1 == slots ? e->last : from, i + 1 == slots ? e->last + 1 : to));
        while ((rc = sqlite3_step(q)) == SQLITE_ROW)
            add(c, i, valid, (double)sqlite3_column_int64(q, 0), dl_column_number(q, 2),
                (long)sqlite3_column_int64(q, 1));
        sqlite3_reset(q);
    }
    return rc == SQLITE_DONE ? DL_OK : dl_db_fail(db, "read the store");
}

/* Another process may be committing: the extent and the points must be of one moment. */
static dl_status load(sqlite3 *db, long run, const char *key, long max_points, points *p) {
    extent e = {0};
    columns c;
    char full[DL_RING_KEY_MAX + 8];
    DL_TRY(dl_metric_key(db, key, full, sizeof full));
    DL_TRY(find_series(db, run, full, &e));
    long most = labs(max_points), slots = most && most < e.n ? most : (long)e.n;
    int sampled = max_points < 0 && e.n / slots >= SAMPLE_FROM * SAMPLE;
    long *valid = dl_arena_get(&p->arena, (size_t)slots * sizeof *valid);
    if (!valid || !get_columns(p, slots, &c)) return dl_failed();
    DL_TRY((sampled ? read_samples : read_points)(db, &e, slots, &c, valid));
    p->public = (dl_points){.n = finish(&c, valid, slots),
                            .step = c.step,
                            .value = c.value,
                            .low = c.low,
                            .high = c.high,
                            .count = c.count,
                            .time_us = c.time_us,
                            .total = (long)e.n};
    return DL_OK;
}

dl_points *dl_series_points(dl_store *s, long id, const char *key, long max_points) {
    if (!key) return dl_fail_null("name of the metric"), NULL;
    points *p = calloc(1, sizeof *p);
    if (!p) return dl_fail(DL_ERR_MEMORY, "no memory for points"), NULL;
    dl_status st = dl_store_read_lock(s);
    if (st == DL_OK) {
        st = dl_db_run(s->r, "begin", "");
        if (st == DL_OK) st = dl_db_end(s->r, load(s->r, id, key, max_points, p));
        dl_store_read_unlock(s, st);
    }
    if (st == DL_OK) return &p->public;
    dl_points_free(&p->public);
    return NULL;
}
