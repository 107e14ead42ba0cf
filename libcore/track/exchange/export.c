/* Points of runs as text, a row each: CSV, or one JSON object a line. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "track/exchange/exchange.h"

typedef struct point {
    long long run, step;
    const char *key, *ts, *uuid; /* ts: ISO 8601, UTC */
    double value;                /* NaN, which the store keeps as NULL */
} point;

/* ---------------------------------------------------------------- CSV */

void dl_put_csv(FILE *f, const char *text) {
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

static void csv_head(FILE *f) { fputs("run,key,step,ts,value,uuid\n", f); }

/* All digits; what C prints for infinities is "inf", which CSV readers take, and NaN is an empty field. */
static void csv_row(FILE *f, const point *p) {
    fprintf(f, "%lld,", p->run);
    dl_put_csv(f, p->key);
    fprintf(f, ",%lld,%s,", p->step, p->ts);
    if (!isnan(p->value)) fprintf(f, "%.17g", p->value);
    fprintf(f, ",%s\n", p->uuid);
}

/* ---------------------------------------------------------------- JSON lines */

void dl_put_json(FILE *f, const char *s) {
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
    dl_put_json(f, p->key);
    fprintf(f, ",\"step\":%lld,\"ts\":\"%s\",\"value\":", p->step, p->ts);
    if (isnan(p->value))
        fputs("null", f);
    else if (isinf(p->value))
        fputs(p->value > 0 ? "\"Infinity\"" : "\"-Infinity\"", f);
    else
        fprintf(f, "%.17g", p->value);
    fprintf(f, ",\"uuid\":\"%s\"}\n", p->uuid);
}

/* ---------------------------------------------------------------- all points */

typedef struct layout {
    dl_format format;
    void (*head)(FILE *f);
    void (*row)(FILE *f, const point *p);
} layout;

static const layout layouts[] = {{DL_FORMAT_CSV, csv_head, csv_row}, {DL_FORMAT_JSONL, jsonl_head, jsonl_row}};

dl_status dl_export_points(const dl_leaving *l, FILE *f) {
    DL_DB_STATEMENT(q);
    const layout *y = layouts;
    int rc = SQLITE_DONE;
    while (y->format != l->text) y++;
    DL_TRY(dl_db_prepare(l->db, &q,
                         "select r.id, s.key, m.step, " DL_SQL_ISO(
                             "m.t_us") ", m.value, r.uuid from run as r join series"
                                       " as s on s.run_id = r.id join metric as m on m.series_id = s.id where r.id = ?1"
                                       " order by s.key, m.step"));
    y->head(f);
    for (long i = 0; i < l->n && rc == SQLITE_DONE && !ferror(f); i++) {
        sqlite3_bind_int64(q, 1, l->ids[i]);
        while ((rc = sqlite3_step(q)) == SQLITE_ROW && !ferror(f)) {
            point p = {.run = sqlite3_column_int64(q, 0),
                       .key = (const char *)sqlite3_column_text(q, 1),
                       .step = sqlite3_column_int64(q, 2),
                       .ts = (const char *)sqlite3_column_text(q, 3),
                       .value = dl_column_number(q, 4),
                       .uuid = (const char *)sqlite3_column_text(q, 5)};
            y->row(f, &p);
        }
        sqlite3_reset(q);
    }
    /* a file that cannot be written is reported by its closing */
    return rc == SQLITE_DONE || ferror(f) ? DL_OK : dl_db_fail(l->db, "read the store");
}
