/* Making sweeps: their rows and their trials. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "track/server/server.h"
#include "track/sweep.h"

static const char *const methods[] = {"grid", "random", "tpe", "halving", "asha"};
static const char *const stats[] = {"best", "last", "min", "max", "mean", "first"};
enum { NMETHOD = sizeof methods / sizeof *methods, NSTAT = sizeof stats / sizeof *stats, MOST_TRIALS = 1000000 };

static int is_halving(const char *method) { return !strcmp(method, "halving") || !strcmp(method, "asha"); }

/* ---------------------------------------------------------------- points */

int dl_sweep_numbers(const char *text, double *out, int most) {
    int n = 0;
    char *end;
    for (const char *p = text ? text : ""; n < most; p = end) {
        out[n] = strtod(p, &end);
        if (end == p) break;
        n++;
    }
    return n;
}

/* The number of points of a grid; 0: it has none, or too many. */
static int64_t grid_size(const dl_dimension *dims, int n) {
    int64_t size = 1;
    for (int i = 0; i < n; i++)
        if (!dims[i].choices || dims[i].choices > MOST_TRIALS || (size *= dims[i].choices) > MOST_TRIALS) return 0;
    return size;
}

static void grid_point(const dl_sweep *w, int64_t index, double *point) {
    for (int k = w->ndim - 1; k >= 0; k--) {
        point[k] = (double)(index % w->dims[k].choices);
        index /= w->dims[k].choices;
    }
}

void dl_sweep_draw(const dl_sweep *w, int64_t index, double *point) {
    uint64_t state = (uint64_t)w->seed * 0x2545f4914f6cdd1du + (uint64_t)index;
    dl_sweep_uniform(&state);
    for (int k = 0; k < w->ndim; k++) {
        double u = dl_sweep_uniform(&state);
        point[k] = w->dims[k].choices ? floor(u * (double)w->dims[k].choices) : u;
    }
}

dl_status dl_sweep_add_point(sqlite3 *db, const dl_sweep *w, int64_t index, const double *point) {
    double seeds[1024];
    char text[DL_SWEEP_DIMS * 26] = "";
    int n = dl_sweep_numbers(w->seeds, seeds, 1024);
    size_t used = 0;
    for (int k = 0; k < w->ndim; k++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.17g", k ? " " : "", point[k]);
    for (int i = 0; i < (n ? n : 1); i++)
        DL_TRY(dl_db_run(db,
                         n ? "insert into trial(sweep_id, number, point, seed) values(?1, ?2, ?3, ?4)"
                           : "insert into trial(sweep_id, number, point, seed) values(?1, ?2, ?3, null)",
                         n ? "iiti" : "iit", w->id, index * (n ? n : 1) + i + 1, text, (int64_t)(n ? seeds[i] : 0)));
    return DL_OK;
}

/* The points of a grid in a random order, at most w->points: halving is not to see neighbours first. */
static dl_status add_shuffled(sqlite3 *db, const dl_sweep *w, int64_t size) {
    int64_t *order = malloc((size_t)size * sizeof *order);
    if (!order) return dl_fail(DL_ERR_MEMORY, "no memory for %ld trials", (long)size);
    uint64_t state = (uint64_t)w->seed;
    double point[DL_SWEEP_DIMS];
    dl_status st = DL_OK;
    for (int64_t i = 0; i < size; i++) order[i] = i;
    for (int64_t i = size - 1; i > 0; i--) {
        int64_t k = (int64_t)(dl_sweep_uniform(&state) * (double)(i + 1)), t = order[i];
        order[i] = order[k], order[k] = t;
    }
    for (int64_t i = 0; i < w->points && st == DL_OK; i++) {
        grid_point(w, order[i], point);
        st = dl_sweep_add_point(db, w, i, point);
    }
    free(order);
    return st;
}

static dl_status add_trials(sqlite3 *db, const dl_sweep *w) {
    int64_t size = grid_size(w->dims, w->ndim);
    double point[DL_SWEEP_DIMS];
    if (!strcmp(w->method, "tpe")) return DL_OK;
    if (strcmp(w->method, "grid") && size && size <= 4 * MOST_TRIALS && w->points <= size)
        return add_shuffled(db, w, size);
    for (int64_t i = 0; i < w->points; i++) {
        if (!strcmp(w->method, "grid"))
            grid_point(w, i, point);
        else
            dl_sweep_draw(w, i, point);
        DL_TRY(dl_sweep_add_point(db, w, i, point));
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- the row */

static int among(const char *word, const char *const *words, int n) {
    while (n && strcmp(words[n - 1], word)) n--;
    return n;
}

static dl_status check(const dl_sweep_spec *p) {
    if (!p->method || !among(p->method, methods, NMETHOD))
        return dl_fail_unknown(p->method ? p->method : "", methods, NMETHOD, NULL, "there is no such search");
    if (p->stat && !among(p->stat, stats, NSTAT))
        return dl_fail_unknown(p->stat, stats, NSTAT, NULL, "a metric has no %.80s", p->stat);
    if (p->ndim < 0 || p->ndim > DL_SWEEP_DIMS)
        return dl_fail(DL_ERR_VALUE, "a sweep has at most %d parameters, not %d", DL_SWEEP_DIMS, p->ndim);
    if (p->points < 0 || p->points > MOST_TRIALS)
        return dl_fail(DL_ERR_VALUE, "a sweep cannot have %ld points", p->points);
    if (!p->points && !grid_size(p->dims, p->ndim))
        return dl_fail_hint(DL_ERR_VALUE, "random=50 draws so many points",
                            "a grid needs lists of values, of at most %d points in all", MOST_TRIALS);
    if (is_halving(p->method) && p->max_steps < 1)
        return dl_fail_hint(DL_ERR_VALUE, "max_steps=300: what a trial that is not stopped runs",
                            "%s needs the number of steps of a trial", p->method);
    if (is_halving(p->method) && (p->min_steps < 0 || p->min_steps >= p->max_steps) && p->max_steps > 1)
        return dl_fail(DL_ERR_VALUE, "the first round must have at least 1 step and fewer than %ld, not %ld",
                       p->max_steps, p->min_steps);
    if (p->eta != 0 && !(p->eta > 1))
        return dl_fail(DL_ERR_VALUE, "of eta=%g trials one goes on: it must be more than 1", p->eta);
    return DL_OK;
}

/* "c7 o5 u": choices, ordered ones, a number. */
static void write_dims(const dl_sweep_spec *p, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < p->ndim && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, p->dims[i].choices ? "%s%c%ld" : "%s%c", i ? " " : "",
                                 !p->dims[i].choices  ? 'u'
                                 : p->dims[i].ordered ? 'o'
                                                      : 'c',
                                 p->dims[i].choices);
}

static int read_dims(const char *p, dl_dimension *dims) {
    int n = 0;
    for (; p && *p && n < DL_SWEEP_DIMS; n++) {
        char *end = (char *)p + 1;
        dims[n] = (dl_dimension){.choices = *p == 'u' ? 0 : strtol(p + 1, &end, 10), .ordered = *p == 'o'};
        p = end + strspn(end, " ");
    }
    return n;
}

static dl_status insert_sweep(sqlite3 *db, const dl_sweep_spec *p, dl_sweep *w) {
    char uuid[37], dims[DL_SWEEP_DIMS * 24], seeds[4096] = "";
    size_t used = 0;
    double eta = p->eta != 0 ? p->eta : 3;
    int64_t first = p->min_steps ? p->min_steps : (int64_t)((double)p->max_steps / (eta * eta));
    dl_uuid(uuid);
    write_dims(p, dims, sizeof dims);
    for (int i = 0; i < p->nseed; i++) {
        used += (size_t)snprintf(seeds + used, sizeof seeds - used, "%s%ld", i ? " " : "", p->seeds[i]);
        if (used >= sizeof seeds) return dl_fail(DL_ERR_VALUE, "a sweep cannot have %d seeds", p->nseed);
    }
    DL_TRY(dl_db_run(
        db,
        "insert into sweep(spec, method, goal, uuid, name, created_us, script_path, script_text, cwd, metric, stat,"
        " direction, dims, points, seeds, max_steps, min_steps, eta, seed) values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, "
        "?10, ?11,"
        " ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
        "tttttitttttititiidi", p->text ? p->text : "{}", p->method, p->metric ? p->metric : "", uuid, p->name,
        dl_now_us(), p->script_path, p->script_text, p->cwd, p->metric, p->stat ? p->stat : "best",
        (int64_t)(p->direction ? p->direction : dl_metric_direction(p->metric)), dims,
        p->points ? (int64_t)p->points : grid_size(p->dims, p->ndim), seeds,
        is_halving(p->method) ? (int64_t)p->max_steps : (int64_t)0, first > 1 ? first : (int64_t)1, eta,
        (int64_t)p->seed));
    int64_t id = sqlite3_last_insert_rowid(db);
    DL_TRY(dl_db_run(db, "update sweep set name = coalesce(name, 'sweep-' || id) where id = ?1", "i", id));
    DL_TRY(dl_sweep_load(db, id, w));
    return add_trials(db, w);
}

static void copy_text(char *to, size_t size, sqlite3_stmt *q, int col) {
    const char *text = (const char *)sqlite3_column_text(q, col);
    snprintf(to, size, "%s", text ? text : "");
}

dl_status dl_sweep_load(sqlite3 *db, int64_t id, dl_sweep *w) {
    DL_DB_STATEMENT(q);
    double seeds[1024];
    DL_TRY(dl_db_prepare(
        db, &q,
        "select method, metric, stat, direction, dims, points, seeds, max_steps, min_steps, eta, seed from"
        " sweep where id = ?1"));
    DL_TRY(dl_db_bind(q, "i", id));
    int rc = sqlite3_step(q);
    if (rc == SQLITE_DONE) return dl_fail_hint(DL_ERR_NAME, "sweep show lists them", "there is no sweep %ld", (long)id);
    if (rc != SQLITE_ROW) return dl_db_fail(db, "read the store");
    *w = (dl_sweep){.id = id,
                    .direction = sqlite3_column_int(q, 3),
                    .points = sqlite3_column_int64(q, 5),
                    .max_steps = sqlite3_column_int64(q, 7),
                    .min_steps = sqlite3_column_int64(q, 8),
                    .eta = sqlite3_column_double(q, 9),
                    .seed = sqlite3_column_int64(q, 10)};
    copy_text(w->method, sizeof w->method, q, 0);
    copy_text(w->metric, sizeof w->metric, q, 1);
    copy_text(w->stat, sizeof w->stat, q, 2);
    copy_text(w->seeds, sizeof w->seeds, q, 6);
    w->ndim = read_dims((const char *)sqlite3_column_text(q, 4), w->dims);
    w->nseed = dl_sweep_numbers(w->seeds, seeds, 1024);
    return DL_OK;
}

long dl_sweep_begin(dl_store *s, const dl_sweep_spec *spec) {
    dl_sweep w = {0};
    if (!spec) return dl_fail_null("description of the sweep"), 0;
    if (check(spec) != DL_OK || dl_server_refuse(s, "a sweep") != DL_OK || dl_store_write_lock(s) != DL_OK) return 0;
    dl_status st = dl_db_begin(s->w);
    if (st == DL_OK) st = dl_db_end(s->w, insert_sweep(s->w, spec, &w));
    return dl_store_write_unlock(s, st) == DL_OK ? (long)w.id : 0;
}
