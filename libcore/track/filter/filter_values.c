/* Values that runs have, for the hints of filters. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/error.h"
#include "track/filter/filter_names.h"

enum { SHOWN = 8, READ = 1000, LONGEST = 40 };

/* A value, and its distance from the one in the filter. */
typedef struct candidate {
    char text[LONGEST + 1];
    double distance;
    int at;
} candidate;

/* The SQL source of a name: the rows that hold its values, and their column. */
static void source_of(const dl_filter_name *o, const char **from, const char **column) {
    static const char *const rows[] = {[DL_FK_COLUMN] = "run as r where",
                                       [DL_FK_TAG] = "run as r join tag t on t.run_id = r.id where",
                                       [DL_FK_PARAM] = "run as r join param p on p.run_id = r.id where p.key = ?1 and",
                                       [DL_FK_METRIC] = ("run as r join series s on s.run_id = r.id where s.n > 0 and "
                                                         "s.key = ?1 and")};
    *from = rows[o->kind];
    *column = o->kind == DL_FK_TAG ? "t.tag" : o->kind == DL_FK_PARAM ? "p.value" : o->sql;
}

/* The SQL of column v as lists show it. */
#define DATE(v) "strftime('%%Y-%%m-%%d %%H:%%M', " v ", 'unixepoch', 'localtime')"

/* Prepares and frees the SQL; false on failure. */
static int prepare(sqlite3 *db, const dl_filter_name *o, sqlite3_stmt **q, char *sql) {
    int good = sql && dl_db_prepare(db, q, sql) == DL_OK;
    if (good && sqlite3_bind_parameter_count(*q)) sqlite3_bind_text(*q, 1, o->key, -1, SQLITE_STATIC);
    sqlite3_free(sql);
    return good;
}

/* Letters in another case differ less than other letters. */
static double distance_between(const char *a, const char *b) {
    char *end, *other, low[2][LONGEST + 1];
    double x = strtod(a, &end), y = strtod(b, &other);
    if (*a && !*end && *b && !*other) return fabs(x - y);
    const char *word[] = {a, b};
    for (int i = 0; i < 2; i++) {
        snprintf(low[i], sizeof low[i], "%s", word[i]);
        for (char *c = low[i]; *c; c++)
            if (*c >= 'A' && *c <= 'Z') *c += 'a' - 'A';
    }
    return dl_word_distance(low[0], low[1]) + (strcmp(a, b) != 0) * 0.5;
}

static int by_distance(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    return x->distance < y->distance ? -1 : x->distance > y->distance ? 1 : x->at - y->at;
}

#define VALUES(v) "select distinct " v " as v from %s %s and v is not null and v != '' order by %s limit %d"

void dl_filter_values(sqlite3 *db, const dl_filter_name *o, const char *live, const char *wanted, char *out,
                      size_t size) {
    const char *from, *column;
    source_of(o, &from, &column);
    *out = 0;
    candidate *all = malloc(READ * sizeof *all);
    const char *order = o->kind == DL_FK_PARAM ? "p.num, 1" : "1";
    DL_DB_STATEMENT(q);
    int n = 0, good = all && prepare(db, o, &q,
                                     sqlite3_mprintf(o->type == DL_FY_DATE ? VALUES(DATE("%s")) : VALUES("%s"), column,
                                                     from, live, order, READ));
    for (; good && n < READ && sqlite3_step(q) == SQLITE_ROW; n++) {
        all[n] = (candidate){.at = n};
        snprintf(all[n].text, sizeof all[n].text, "%s", (const char *)sqlite3_column_text(q, 0));
        if (wanted) all[n].distance = distance_between(wanted, all[n].text);
    }
    if (n) qsort(all, (size_t)n, sizeof *all, by_distance);
    size_t used = n ? (size_t)snprintf(out, size, "its value%s", n > 1 ? "s are" : " is") : 0;
    for (int i = 0; i < n && i <= SHOWN && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : " ", i < SHOWN ? all[i].text : "...");
    free(all);
}

void dl_filter_range(sqlite3 *db, const dl_filter_name *o, const char *live, char *out, size_t size) {
    const char *from, *column;
    source_of(o, &from, &column);
    if (o->kind == DL_FK_PARAM) column = "p.num";
    *out = 0;
    DL_DB_STATEMENT(q);
    int good =
        prepare(db, o, &q,
                sqlite3_mprintf(o->type == DL_FY_DATE ? "select " DATE("min(%s)") ", " DATE("max(%s)") " from %s %s"
                                                      : "select min(%s), max(%s) from %s %s",
                                column, column, from, live));
    if (good && sqlite3_step(q) == SQLITE_ROW && sqlite3_column_type(q, 0) != SQLITE_NULL) {
        char ends[2][32];
        for (int i = 0; i < 2; i++) {
            if (o->type == DL_FY_DATE)
                snprintf(ends[i], sizeof ends[i], "%s", (const char *)sqlite3_column_text(q, i));
            else
                snprintf(ends[i], sizeof ends[i], "%.6g", sqlite3_column_double(q, i));
        }
        if (strcmp(ends[0], ends[1]))
            snprintf(out, size, "it lies between %s and %s", ends[0], ends[1]);
        else
            snprintf(out, size, "it is %s", ends[0]);
    }
}
