/* The texts that a run keeps beside its metrics: what it printed, what ran, what was changed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/gzip.h"
#include "track/store.h"

enum { LONGEST = 1 << 28 };

/* The first column of the rows of a query by run and name, joined. */
static dl_status join(sqlite3 *db, const char *sql, long id, const char *name, char **text, size_t *n) {
    DL_DB_STATEMENT(q);
    int rc;
    DL_TRY(dl_db_prepare(db, &q, sql));
    DL_TRY(dl_db_bind(q, "it", (int64_t)id, name));
    FILE *out = open_memstream(text, n);
    if (!out) return dl_fail(DL_ERR_MEMORY, "no memory for a text");
    while ((rc = sqlite3_step(q)) == SQLITE_ROW)
        fwrite(sqlite3_column_blob(q, 0), 1, (size_t)sqlite3_column_bytes(q, 0), out);
    if (fclose(out)) return dl_fail(DL_ERR_MEMORY, "no memory for a text");
    return rc == SQLITE_DONE ? DL_OK : dl_db_fail(db, "read the store");
}

static dl_status read_text(sqlite3 *db, long id, const char *what, char **text) {
    static const char printed[] = "select text from event where run_id = ?1 and kind = ?2 order by id";
    static const char kept[] = "select b.data from artifact as a join blob as b on b.sha = a.sha"
                               " where a.run_id = ?1 and a.name = ?2 and a.step = 0";
    size_t n = 0;
    int changes = !strcmp(what, "changes");
    DL_TRY(join(db, strcmp(what, "output") ? kept : printed, id, changes ? "git.diff.gz" : what, text, &n));
    if (!changes || !n) return DL_OK;
    char *plain = dl_gunzip(*text, n, LONGEST, &n);
    free(*text);
    *text = plain;
    return plain ? DL_OK : dl_fail(DL_ERR_FORMAT, "the changes that run %ld keeps are damaged", id);
}

char *dl_run_text(dl_store *s, long id, const char *what) {
    char *text = NULL;
    if (!what) return dl_fail_null("what"), NULL;
    if (dl_store_read_lock(s) != DL_OK) return NULL;
    if (dl_store_read_unlock(s, read_text(s->r, id, what, &text)) == DL_OK) return text;
    free(text);
    return NULL;
}
