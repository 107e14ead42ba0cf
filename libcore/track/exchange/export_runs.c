/* Runs as text, a row each: what is known of a run, its parameters, the last values of its metrics. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/list.h"
#include "track/exchange/exchange.h"

/* The columns that every run has: its name, and where it is found. JSON: 't' text, 'n' a number, 'l' a list. */
static const struct {
    const char *name, *sql;
    char json;
} columns[] = {
    {"id", "id", 'n'},
    {"uuid", "uuid", 't'},
    {"name", "name", 't'},
    {"experiment", "experiment", 't'},
    {"group", "grp", 't'},
    {"status", "status", 't'},
    {"started", DL_SQL_ISO("started_us"), 't'},
    {"ended", DL_SQL_ISO("ended_us"), 't'},
    {"seconds", "active_us / 1e6", 'n'},
    {"host", "nullif(host, '')", 't'},
    {"device", "device", 't'},
    {"seed", "seed", 'n'},
    {"model", "model_name", 't'},
    {"n_params", "n_params", 'n'},
    {"dataset", "dataset", 't'},
    {"commit", "git_commit", 't'},
    {"script", "script_path", 't'},
    {"args", "script_args", 't'},
    {"command", "cmdline", 't'},
    {"note", "note", 't'},
    {"error", "error", 't'},
    {"parent", "(select p.uuid from run as p where p.id = run.parent_id)", 't'},
    {"tags", "(select group_concat(tag, ',') from (select tag from tag where run_id = run.id order by tag))", 'l'},
};
enum { NCOLUMN = sizeof columns / sizeof *columns };

/* What differs from run to run: a name before the keys, and the keys and values of a run. */
static const struct {
    const char *name, *sql;
    char json; /* 'v': a number where the text is one */
} families[] = {
    {"params", "select key, value from param where run_id = ?1 order by key", 'v'},
    {"metrics", "select key, last from series where run_id = ?1 and n > 0 order by key", 'n'},
    {"steps", "select key, last_step from series where run_id = ?1 and n > 0 order by key", 'n'},
};
enum { NFAMILY = sizeof families / sizeof *families };

typedef struct keys {
    char **key;
    long n, cap;
} keys;

static dl_status prepare_columns(sqlite3 *db, sqlite3_stmt **q) {
    sqlite3_str *sql = sqlite3_str_new(db);
    for (int i = 0; i < NCOLUMN; i++) sqlite3_str_appendf(sql, "%s %s", i ? "," : "select", columns[i].sql);
    sqlite3_str_appendall(sql, " from run where id = ?1");
    char *text = sqlite3_str_finish(sql);
    dl_status st = text ? dl_db_prepare(db, q, text) : dl_fail(DL_ERR_MEMORY, "no memory for a table of runs");
    sqlite3_free(text);
    return st;
}

/* ---------------------------------------------------------------- values */

static void put_number(FILE *f, sqlite3_stmt *q, int col, const char *infinity[2]) {
    double v = sqlite3_column_double(q, col);
    if (sqlite3_column_type(q, col) == SQLITE_INTEGER)
        fprintf(f, "%lld", (long long)sqlite3_column_int64(q, col));
    else if (isinf(v))
        fputs(infinity[v < 0], f);
    else
        fprintf(f, "%.17g", v);
}

static void put_csv(FILE *f, sqlite3_stmt *q, int col) {
    static const char *infinity[2] = {"inf", "-inf"};
    int type = sqlite3_column_type(q, col);
    if (type == SQLITE_TEXT)
        dl_put_csv(f, (const char *)sqlite3_column_text(q, col));
    else if (type != SQLITE_NULL)
        put_number(f, q, col, infinity);
}

/* Is a text a number of JSON as it stands? */
static int is_number(const char *s) {
    const char *p = s + (*s == '-');
    size_t whole = strspn(p, "0123456789");
    char *end;
    if (!whole || (*p == '0' && whole > 1) || s[strspn(s, "0123456789+-.eE")]) return 0;
    p += whole;
    if (*p == '.' && !strspn(p + 1, "0123456789")) return 0;
    return isfinite(strtod(s, &end)) && !*end;
}

static void put_list(FILE *f, const char *text) {
    fputc('[', f);
    for (const char *p = text; *p;) {
        char one[1024];
        size_t n = strcspn(p, ",");
        snprintf(one, sizeof one, "%.*s", (int)n, p);
        if (p != text) fputc(',', f);
        dl_put_json(f, one);
        p += n + (p[n] != 0);
    }
    fputc(']', f);
}

static void put_json(FILE *f, sqlite3_stmt *q, int col, char kind) {
    static const char *infinity[2] = {"\"Infinity\"", "\"-Infinity\""};
    const char *text = (const char *)sqlite3_column_text(q, col);
    int type = sqlite3_column_type(q, col);
    if (kind == 'l')
        put_list(f, text ? text : "");
    else if (!text)
        fputs("null", f);
    else if (type != SQLITE_TEXT)
        put_number(f, q, col, infinity);
    else if (kind == 'v' && is_number(text))
        fputs(text, f);
    else
        dl_put_json(f, text);
}

/* ---------------------------------------------------------------- an object a line */

static dl_status put_object(const dl_leaving *l, FILE *f, long id, sqlite3_stmt *facts, sqlite3_stmt *const *family) {
    int rc = sqlite3_step(facts);
    if (rc != SQLITE_ROW) return rc == SQLITE_DONE ? dl_run_missing(id) : dl_db_fail(l->db, "read the store");
    for (int i = 0; i < NCOLUMN; i++) {
        fprintf(f, "%c\"%s\":", i ? ',' : '{', columns[i].name);
        put_json(f, facts, i, columns[i].json);
    }
    for (int i = 0; i < NFAMILY; i++) {
        fprintf(f, ",\"%s\":{", families[i].name);
        for (int n = 0; (rc = sqlite3_step(family[i])) == SQLITE_ROW; n++) {
            if (n) fputc(',', f);
            dl_put_json(f, (const char *)sqlite3_column_text(family[i], 0));
            fputc(':', f);
            put_json(f, family[i], 1, families[i].json);
        }
        if (rc != SQLITE_DONE) return dl_db_fail(l->db, "read the store");
        fputc('}', f);
    }
    fputs("}\n", f);
    return DL_OK;
}

/* ---------------------------------------------------------------- a table */

static void free_keys(keys *k) {
    for (long i = 0; i < k->n; i++) free(k->key[i]);
    free(k->key);
}

/* Where a key stands, or would stand, in the list. */
static long place_of(const keys *k, const char *key) {
    long low = 0, high = k->n;
    while (low < high) {
        long mid = (low + high) / 2;
        if (strcmp(k->key[mid], key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static dl_status add_key(keys *k, const char *key) {
    long at = place_of(k, key);
    if (at < k->n && !strcmp(k->key[at], key)) return DL_OK;
    DL_TRY(DL_LIST_ROOM(k->key, k->n, k->cap));
    char *copy = strdup(key);
    if (!copy) return dl_fail(DL_ERR_MEMORY, "no memory for a table of runs");
    memmove(&k->key[at + 1], &k->key[at], (size_t)(k->n++ - at) * sizeof *k->key);
    k->key[at] = copy;
    return DL_OK;
}

/* All keys that one of the runs has, in order. */
static dl_status gather(const dl_leaving *l, sqlite3_stmt *q, keys *k) {
    int rc = SQLITE_DONE;
    for (long i = 0; i < l->n && rc == SQLITE_DONE; i++) {
        sqlite3_bind_int64(q, 1, l->ids[i]);
        while ((rc = sqlite3_step(q)) == SQLITE_ROW) DL_TRY(add_key(k, (const char *)sqlite3_column_text(q, 0)));
        sqlite3_reset(q);
    }
    return rc == SQLITE_DONE ? DL_OK : dl_db_fail(l->db, "read the store");
}

static void put_head(FILE *f, const keys *k) {
    for (int i = 0; i < NCOLUMN; i++) fprintf(f, "%s%s", i ? "," : "", columns[i].name);
    for (int i = 0; i < NFAMILY; i++)
        for (long n = 0; n < k[i].n; n++) {
            char name[DL_RING_KEY_MAX + 32];
            snprintf(name, sizeof name, "%s.%s", families[i].name, k[i].key[n]);
            fputc(',', f);
            dl_put_csv(f, name);
        }
    fputc('\n', f);
}

static dl_status put_row(const dl_leaving *l, FILE *f, long id, sqlite3_stmt *facts, sqlite3_stmt *const *family,
                         const keys *k) {
    int rc = sqlite3_step(facts);
    if (rc != SQLITE_ROW) return rc == SQLITE_DONE ? dl_run_missing(id) : dl_db_fail(l->db, "read the store");
    for (int i = 0; i < NCOLUMN; i++) {
        if (i) fputc(',', f);
        put_csv(f, facts, i);
    }
    for (int i = 0; i < NFAMILY; i++) {
        long at = 0, to = 0;
        while ((rc = sqlite3_step(family[i])) == SQLITE_ROW) {
            for (to = place_of(&k[i], (const char *)sqlite3_column_text(family[i], 0)); at <= to; at++) fputc(',', f);
            put_csv(f, family[i], 1);
        }
        for (; at < k[i].n; at++) fputc(',', f);
        if (rc != SQLITE_DONE) return dl_db_fail(l->db, "read the store");
    }
    fputc('\n', f);
    return DL_OK;
}

/* ---------------------------------------------------------------- all runs */

typedef struct queries {
    sqlite3_stmt *facts, *family[NFAMILY];
    keys keys[NFAMILY];
} queries;

static void free_queries(const queries *q) {
    sqlite3_finalize(q->facts);
    for (int i = 0; i < NFAMILY; i++) {
        sqlite3_finalize(q->family[i]);
        keys k = q->keys[i];
        free_keys(&k);
    }
}

dl_status dl_export_runs(const dl_leaving *l, FILE *f) {
    queries q DL_SCOPE(free_queries) = {0};
    int table = l->text == DL_FORMAT_CSV;
    DL_TRY(prepare_columns(l->db, &q.facts));
    for (int i = 0; i < NFAMILY; i++) DL_TRY(dl_db_prepare(l->db, &q.family[i], families[i].sql));
    for (int i = 0; table && i < NFAMILY; i++) DL_TRY(gather(l, q.family[i], &q.keys[i]));
    if (table) put_head(f, q.keys);
    for (long i = 0; i < l->n && !ferror(f); i++) {
        sqlite3_bind_int64(q.facts, 1, l->ids[i]);
        for (int k = 0; k < NFAMILY; k++) sqlite3_bind_int64(q.family[k], 1, l->ids[i]);
        DL_TRY(table ? put_row(l, f, l->ids[i], q.facts, q.family, q.keys)
                     : put_object(l, f, l->ids[i], q.facts, q.family));
        sqlite3_reset(q.facts);
        for (int k = 0; k < NFAMILY; k++) sqlite3_reset(q.family[k]);
    }
    return DL_OK;
}
