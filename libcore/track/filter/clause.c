/* SQL under construction, with the values of its parameters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "track/query.h"

dl_status dl_clause_init(dl_clause *c) {
    *c = (dl_clause){.sql = sqlite3_str_new(NULL)};
    return c->sql ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for a query");
}

void dl_clause_free(dl_clause *c) {
    sqlite3_free(sqlite3_str_finish(c->sql));
    for (int i = 0; i < c->nvalue; i++) free(c->values[i].text);
    *c = (dl_clause){0};
}

int dl_clause_number(dl_clause *c, double number) {
    enum { ROOM = sizeof c->values / sizeof *c->values };
    if (c->nvalue == ROOM) {
        dl_fail_hint(DL_ERR_VALUE, "filter in two steps, or ask with sql", "the filter has more than %d values", ROOM);
        return 0;
    }
    c->values[c->nvalue].number = number;
    return ++c->nvalue;
}

int dl_clause_text(dl_clause *c, const char *text) {
    char *copy = strdup(text);
    int at = copy ? dl_clause_number(c, 0) : 0;
    if (!copy)
        dl_fail(DL_ERR_MEMORY, "no memory for a query");
    else if (at)
        c->values[at - 1].text = copy;
    else
        free(copy);
    return at;
}

dl_status dl_clause_bind(const dl_clause *c, sqlite3 *db, sqlite3_stmt *st) {
    for (int i = 0; i < c->nvalue && i < sqlite3_bind_parameter_count(st); i++) {
        int rc = c->values[i].text ? sqlite3_bind_text(st, i + 1, c->values[i].text, -1, SQLITE_TRANSIENT)
                                   : sqlite3_bind_double(st, i + 1, c->values[i].number);
        if (rc != SQLITE_OK) return dl_db_fail(db, "bind a value");
    }
    return DL_OK;
}

dl_status dl_clause_prepare(dl_clause *c, sqlite3 *db, const char *around, sqlite3_stmt **st) {
    *st = NULL;
    char *sql = sqlite3_str_errcode(c->sql) ? NULL : sqlite3_mprintf(around, sqlite3_str_value(c->sql));
    if (!sql) return dl_fail(DL_ERR_MEMORY, "no memory for a query");
    dl_status made = dl_db_prepare(db, st, sql);
    sqlite3_free(sql);
    return made == DL_OK ? dl_clause_bind(c, db, *st) : made;
}
