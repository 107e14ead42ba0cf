/* Rows on their way between SQLite and PostgreSQL, in the text format of COPY. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/list.h"
#include "track/db.h"
#include "track/server/calls.h"

static const char sending[] = "take rows", fetching[] = "be read";

/* ---------------------------------------------------------------- to the server */

enum { BLOCK = 1 << 16 };

typedef struct block {
    dl_pq *k;
    size_t n;
    dl_status st;
    char text[BLOCK];
} block;

static void flush(block *b) {
    if (b->st == DL_OK && b->n && dl_pq_call.putCopyData(b->k->conn, b->text, (int)b->n) != 1)
        b->st = dl_pq_fail(b->k, sending, NULL);
    b->n = 0;
}

static void put(block *b, const char *text, size_t n) {
    for (size_t k; n; text += k, n -= k) {
        if (b->n == BLOCK) flush(b);
        k = BLOCK - b->n < n ? BLOCK - b->n : n;
        memcpy(b->text + b->n, text, k);
        b->n += k;
    }
}

static void put_byte(block *b, char c) {
    if (b->n == BLOCK) flush(b);
    b->text[b->n++] = c;
}

/* Bytes of the character at s of n, 0: it is not UTF-8, which a server does not take. */
static int character(const unsigned char *s, int n) {
    int k = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    if (k > n) return 0;
    for (int i = 1; i < k; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if (k == 3 && ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f))) return 0;
    if (k == 4 && ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))) return 0;
    return k;
}

/* Text as it is, but bytes that are no text, which become U+FFFD. */
static void put_text(block *b, const unsigned char *s, int n) {
    static const char special[] = "\\\t\n\r", letters[] = "\\tnr";
    for (int k; n > 0; s += k, n -= k) {
        const char *p = s[0] ? strchr(special, s[0]) : NULL;
        k = character(s, n);
        if (p)
            put_byte(b, '\\'), put_byte(b, letters[p - special]);
        else if (k && s[0])
            put(b, (const char *)s, (size_t)k);
        else
            put(b, "\xef\xbf\xbd", 3), k = 1;
    }
}

static void put_blob(block *b, const unsigned char *s, int n) {
    static const char digits[] = "0123456789abcdef";
    put(b, "\\\\x", 3);
    for (int i = 0; i < n; i++) put_byte(b, digits[s[i] >> 4]), put_byte(b, digits[s[i] & 15]);
}

static void put_cell(block *b, sqlite3_stmt *q, int col) {
    char number[40];
    switch (sqlite3_column_type(q, col)) {
    case SQLITE_NULL: put(b, "\\N", 2); return;
    case SQLITE_TEXT: put_text(b, sqlite3_column_text(q, col), sqlite3_column_bytes(q, col)); return;
    case SQLITE_BLOB: put_blob(b, sqlite3_column_blob(q, col), sqlite3_column_bytes(q, col)); return;
    case SQLITE_INTEGER: snprintf(number, sizeof number, "%lld", sqlite3_column_int64(q, col)); break;
    default: {
        double v = sqlite3_column_double(q, col);
        if (isinf(v))
            snprintf(number, sizeof number, "%sInfinity", v < 0 ? "-" : "");
        else
            snprintf(number, sizeof number, "%.17g", v);
    }
    }
    put(b, number, strlen(number));
}

dl_status dl_pq_copy_begin(dl_pq *k, const char *into) {
    char sql[4096];
    if (snprintf(sql, sizeof sql, "copy %s from stdin", into) >= (int)sizeof sql)
        return dl_fail(DL_ERR_STORE, "the columns of %.40s are too many for a server", into);
    DL_TRY(dl_pq_begin(k, sending, sql));
    DL_TRY(dl_pq_await(k, sending));
    PGresult *r = dl_pq_call.getResult(k->conn);
    bool good = r && dl_pq_call.resultStatus(r) == PGRES_COPY_IN;
    dl_status st = good ? DL_OK : dl_pq_fail(k, sending, r);
    dl_pq_call.clear(r);
    return good ? DL_OK : dl_pq_finish(k, sending, st);
}

dl_status dl_pq_copy_rows(dl_pq *k, sqlite3_stmt *rows, sqlite3 *db) {
    block *b = malloc(sizeof *b);
    if (!b) return dl_fail(DL_ERR_MEMORY, "no memory for rows");
    b->k = k, b->n = 0, b->st = DL_OK;
    int rc, width = sqlite3_column_count(rows);
    while ((rc = sqlite3_step(rows)) == SQLITE_ROW && b->st == DL_OK) {
        for (int i = 0; i < width; i++) {
            if (i) put_byte(b, '\t');
            put_cell(b, rows, i);
        }
        put_byte(b, '\n');
    }
    flush(b);
    dl_status st = b->st;
    free(b);
    if (st == DL_OK && rc != SQLITE_DONE) st = dl_db_fail(db, "read the store");
    sqlite3_reset(rows);
    return st;
}

dl_status dl_pq_copy_end(dl_pq *k, dl_status st) {
    if (!k->conn) return st;
    if (dl_pq_call.putCopyEnd(k->conn, st == DL_OK ? NULL : "given up") != 1 && st == DL_OK)
        st = dl_pq_fail(k, sending, NULL);
    return dl_pq_finish(k, sending, st);
}

dl_status dl_pq_copy(dl_pq *k, const char *into, sqlite3 *db, const char *query) {
    DL_DB_STATEMENT(q);
    DL_TRY(dl_db_prepare(db, &q, query));
    DL_TRY(dl_pq_copy_begin(k, into));
    return dl_pq_copy_end(k, dl_pq_copy_rows(k, q, db));
}

/* ---------------------------------------------------------------- from the server */

void dl_pq_rows_free(dl_pq_rows *r) {
    free(r->text);
    free(r->at);
    *r = (dl_pq_rows){0};
}

const char *dl_pq_cell(const dl_pq_rows *r, long row, int col) {
    long at = r->at[row * r->width + col];
    return at < 0 ? NULL : r->text + at;
}

int64_t dl_pq_int(const dl_pq_rows *r, long row, int col) {
    const char *text = dl_pq_cell(r, row, col);
    return text ? strtoll(text, NULL, 10) : 0;
}

/* One line of COPY: cells divided by tabs. */
static dl_status take_line(dl_pq_rows *r, const char *s, long n) {
    if (n && s[n - 1] == '\n') n--;
    const char *end = s + n;
    while (r->size + n + 2 + r->width >= r->room) DL_TRY(DL_LIST_ROOM(r->text, r->room, r->room));
    for (;; s++) {
        DL_TRY(DL_LIST_ROOM(r->at, r->ncell, r->cells));
        bool null = end - s >= 2 && s[0] == '\\' && s[1] == 'N';
        r->at[r->ncell++] = null ? -1 : r->size;
        for (; s < end && *s != '\t'; s++) {
            static const char letters[] = "bfnrtv", bytes[] = "\b\f\n\r\t\v";
            const char *p = *s == '\\' && s + 1 < end ? strchr(letters, s[1]) : NULL;
            if (*s == '\\' && s + 1 < end) s++;
            if (!null) r->text[r->size++] = p ? bytes[p - letters] : *s;
        }
        r->text[r->size++] = 0;
        if (s >= end) break;
    }
    r->n++;
    return DL_OK;
}

/* Copies lines until the end; waits for each with a limit. */
static dl_status take_lines(dl_pq *k, dl_pq_rows *out) {
    for (;;) {
        char *line = NULL;
        int n = dl_pq_call.getCopyData(k->conn, &line, 1);
        if (n == -1) return DL_OK;
        if (n == -2) return dl_pq_fail(k, fetching, NULL);
        if (n > 0) {
            dl_status st = take_line(out, line, n);
            dl_pq_call.freemem(line);
            DL_TRY(st);
        } else {
            DL_TRY(dl_pq_wait(k, fetching));
        }
    }
}

dl_status dl_pq_fetch(dl_pq *k, dl_pq_rows *out, const char *query) {
    char *sql = sqlite3_mprintf("copy (%s) to stdout", query);
    if (!sql) return dl_fail(DL_ERR_MEMORY, "no memory for a query");
    dl_pq_rows_free(out);
    dl_status st = dl_pq_begin(k, fetching, sql);
    sqlite3_free(sql);
    DL_TRY(st);
    DL_TRY(dl_pq_await(k, fetching));
    PGresult *r = dl_pq_call.getResult(k->conn);
    bool good = r && dl_pq_call.resultStatus(r) == PGRES_COPY_OUT;
    out->width = good ? dl_pq_call.nfields(r) : 0;
    if (!good) st = dl_pq_fail(k, fetching, r);
    dl_pq_call.clear(r);
    if (good && (st = take_lines(k, out)) != DL_OK) dl_pq_close(k); /* the rest is still under way */
    return dl_pq_finish(k, fetching, st);
}

/* ---------------------------------------------------------------- into SQLite */

static int hex(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

static int bind_blob(sqlite3_stmt *q, int i, const char *text) {
    size_t n = strlen(text) >= 2 ? (strlen(text) - 2) / 2 : 0;
    if (!n) return sqlite3_bind_zeroblob(q, i, 0);
    unsigned char *data = sqlite3_malloc64(n);
    if (!data) return SQLITE_NOMEM;
    for (size_t j = 0; j < n; j++) data[j] = (unsigned char)(hex(text[2 + 2 * j]) << 4 | hex(text[3 + 2 * j]));
    return sqlite3_bind_blob64(q, i, data, n, sqlite3_free);
}

static int bind_cell(sqlite3_stmt *q, int i, char kind, const char *text) {
    if (!text) return sqlite3_bind_null(q, i);
    switch (kind) {
    case 'i': return sqlite3_bind_int64(q, i, strtoll(text, NULL, 10));
    case 'd': return sqlite3_bind_double(q, i, strtod(text, NULL));
    case 'b': return bind_blob(q, i, text);
    default: return sqlite3_bind_text(q, i, text, -1, SQLITE_STATIC);
    }
}

dl_status dl_pq_store(sqlite3 *db, const char *sql, const char *kinds, const dl_pq_rows *r) {
    DL_DB_STATEMENT(q);
    if (!r->n) return DL_OK;
    DL_TRY(dl_db_prepare(db, &q, sql));
    int most = sqlite3_bind_parameter_count(q);
    for (long row = 0; row < r->n; row++) {
        for (int i = 0; kinds[i] && i < most; i++)
            if (bind_cell(q, i + 1, kinds[i], dl_pq_cell(r, row, i)) != SQLITE_OK)
                return dl_db_fail(db, "take what a server has");
        if (sqlite3_step(q) != SQLITE_DONE) return dl_db_fail(db, "take what a server has");
        sqlite3_reset(q);
    }
    return DL_OK;
}
