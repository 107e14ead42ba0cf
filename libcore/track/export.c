/* Points of runs written to a file, a row each: CSV, or one JSON object a line; or to a folder of TensorBoard. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/atomic.h"
#include "io/format.h"
#include "io/nearest_file.h"
#include "track/query.h"
#include "track/tensorboard.h"

typedef struct point {
    long long run, step;
    const char *key, *ts; /* ISO 8601, UTC */
    double value;         /* NaN, which the store keeps as NULL */
} point;

/* ---------------------------------------------------------------- CSV */

static void put_field(FILE *f, const char *text) {
    if (!text[strcspn(text, ",\"\n\r")]) {
        fputs(text, f);
        return;
    }
    fputc('"', f);
    for (; *text; text++) {
        if (*text == '"') fputc('"', f);
        fputc(*text, f);
    }
    fputc('"', f);
}

static void csv_head(FILE *f) { fputs("run,key,step,ts,value\n", f); }

/* All digits; what C prints for infinities is "inf", which CSV readers take, and NaN is an empty field. */
static void csv_row(FILE *f, const point *p) {
    fprintf(f, "%lld,", p->run);
    put_field(f, p->key);
    fprintf(f, ",%lld,%s,", p->step, p->ts);
    if (!isnan(p->value)) fprintf(f, "%.17g", p->value);
    fputc('\n', f);
}

/* ---------------------------------------------------------------- JSON lines */

static void put_json_string(FILE *f, const char *s) {
    fputc('"', f);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            fprintf(f, "\\%c", *s);
        else if ((unsigned char)*s < 32 || *s == 127)
            fprintf(f, "\\u%04x", *s);
        else
            fputc(*s, f);
    }
    fputc('"', f);
}

static void jsonl_head(FILE *f) { (void)f; }

/* NaN is null; infinities are strings, as the shell's JSON has them. */
static void jsonl_row(FILE *f, const point *p) {
    fprintf(f, "{\"run\":%lld,\"key\":", p->run);
    put_json_string(f, p->key);
    fprintf(f, ",\"step\":%lld,\"ts\":\"%s\",\"value\":", p->step, p->ts);
    if (isnan(p->value))
        fputs("null}\n", f);
    else if (isinf(p->value))
        fputs(p->value > 0 ? "\"Infinity\"}\n" : "\"-Infinity\"}\n", f);
    else
        fprintf(f, "%.17g}\n", p->value);
}

/* ---------------------------------------------------------------- all points */

typedef struct layout {
    dl_format format;
    void (*head)(FILE *f);
    void (*row)(FILE *f, const point *p);
} layout;

static const layout layouts[] = {{DL_FORMAT_CSV, csv_head, csv_row}, {DL_FORMAT_JSONL, jsonl_head, jsonl_row}};

static dl_status put_runs(sqlite3 *db, const long *ids, long n, const layout *l, FILE *f) {
    DL_DB_STATEMENT(q);
    int rc = SQLITE_DONE;
    DL_TRY(dl_db_prepare(db, &q,
                         "select run, key, step, strftime('%Y-%m-%dT%H:%M:%fZ', ts, 'unixepoch'), value from metrics "
                         "where run = ?1 or (?1 is null and run in (select id"
                         " from run where deleted_us is null)) order by run, key, step"));
    l->head(f);
    for (long i = 0; i < (ids ? n : 1) && rc == SQLITE_DONE; i++) {
        if (ids) sqlite3_bind_int64(q, 1, ids[i]);
        while ((rc = sqlite3_step(q)) == SQLITE_ROW && !ferror(f)) {
            point p = {.run = sqlite3_column_int64(q, 0),
                       .key = (const char *)sqlite3_column_text(q, 1),
                       .step = sqlite3_column_int64(q, 2),
                       .ts = (const char *)sqlite3_column_text(q, 3),
                       .value = sqlite3_column_type(q, 4) == SQLITE_NULL ? NAN : sqlite3_column_double(q, 4)};
            l->row(f, &p);
        }
        sqlite3_reset(q);
    }
    /* a file that cannot be written is reported by its closing */
    return rc == SQLITE_DONE || ferror(f) ? DL_OK : dl_db_fail(db, "read the store");
}

static dl_status put_file(dl_store *s, const long *ids, long n, const layout *l, dl_atomic *a, const char *path) {
    int fd = dup(a->fd);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f) {
        if (fd >= 0) close(fd);
        return dl_fail_file("write", path);
    }
    dl_status st = dl_store_read_lock(s);
    if (st == DL_OK) st = dl_store_read_unlock(s, put_runs(s->r, ids, n, l, f));
    errno = 0;
    int bad = ferror(f) | (fflush(f) != 0), err = errno;
    bad |= fclose(f) != 0;
    if (err) errno = err;
    if (st == DL_OK && bad) st = dl_fail_file("write", path);
    return st;
}

/* A folder of TensorBoard. */
static dl_status put_folders(sqlite3 *db, const long *ids, long n, const char *folder) {
    DL_DB_STATEMENT(q);
    int rc = SQLITE_DONE;
    for (long i = 0; ids && i < n; i++) DL_TRY(dl_tensorboard_write(db, ids[i], folder));
    if (ids) return DL_OK;
    DL_TRY(dl_db_prepare(db, &q, "select id from run where deleted_us is null order by id"));
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) DL_TRY(dl_tensorboard_write(db, sqlite3_column_int64(q, 0), folder));
    return rc == SQLITE_DONE ? DL_OK : dl_db_fail(db, "read the store");
}

dl_status dl_store_export(dl_store *s, const long *ids, long n, const char *path) {
    dl_format format;
    dl_atomic a;
    if (!path) return dl_fail_null("path");
    if (*path && path[strlen(path) - 1] == '/') {
        DL_TRY(dl_store_read_lock(s));
        return dl_store_read_unlock(s, put_folders(s->r, ids, n, path));
    }
    DL_TRY(dl_format_to_write(path, DL_HOLDS_ROWS, &format));
    DL_TRY(dl_atomic_open(&a, path));
    const layout *l = layouts;
    while (l->format != format) l++;
    dl_status st = put_file(s, ids, n, l, &a, path);
    if (st == DL_OK) return dl_atomic_commit(&a);
    dl_atomic_discard(&a);
    return st;
}
