/* Keeping house: freeing what deleted runs hold, copies, files without gaps. */
#include <stdio.h>
#include <unistd.h>
#include "track/server/server.h"
#include "track/store.h"

/* Bytes of the store. The file itself is smaller while a part is in the WAL, and larger until that is gone. */
static long file_size(sqlite3 *db) {
    int64_t pages = 0, size = 0;
    if (dl_db_int(db, &pages, "pragma page_count", "") || dl_db_int(db, &size, "pragma page_size", "")) return 0;
    return (long)(pages * size);
}

/* The file without gaps, and the WAL in it. Readers of other processes keep the WAL until they end. */
static dl_status vacuum(dl_store *s) {
    DL_TRY(dl_db_run(s->w, "vacuum", ""));
    sqlite3_wal_checkpoint_v2(s->w, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    return DL_OK;
}

dl_status dl_store_vacuum(dl_store *s) {
    if (s && !s->none && access(s->path, F_OK)) return DL_OK; /* a store without runs has no file */
    DL_TRY(dl_store_flush(s));
    DL_TRY(dl_store_write_lock(s));
    return dl_store_write_unlock(s, vacuum(s));
}

dl_status dl_store_backup(dl_store *s, const char *path) {
    if (!path) return dl_fail_null("path of the copy");
    if (!access(path, F_OK))
        return dl_fail_hint(DL_ERR_IO, "choose another name, or remove it first", "%s exists already", path);
    if (s && (s->none || access(s->path, F_OK)))
        return dl_fail_hint(DL_ERR_STATE, "start with --db FILE", "there is no store to copy");
    DL_TRY(dl_store_flush(s));
    DL_TRY(dl_store_write_lock(s));
    return dl_store_write_unlock(s, dl_db_copy(s->w, path, "make a copy of the store"));
}

/* ---------------------------------------------------------------- gc */

/* Runs that go: deleted before then, and open in no process. */
#define GONE "(select id from run where deleted_us < ?1 and status not in ('running', 'paused'))"
/* Contents that no run has, or will have when those are gone. */
#define LOOSE "from blob where sha not in (select sha from artifact where path is null and run_id not in " GONE ")"

static dl_status count(sqlite3 *db, int64_t before, dl_gc_result *out) {
    int64_t n[4] = {0};
    DL_TRY(dl_db_int(db, &n[0], "select count(*) from " GONE, "i", before));
    DL_TRY(dl_db_int(db, &n[1], "select coalesce(sum(n), 0) from series where run_id in " GONE, "i", before));
    DL_TRY(dl_db_int(db, &n[2], "select count(*) " LOOSE, "i", before));
    DL_TRY(dl_db_int(db, &n[3], "select coalesce(sum(length(data)), 0) " LOOSE, "i", before));
    out->runs = (long)n[0], out->points = (long)n[1], out->contents = (long)n[2], out->bytes = (long)n[3];
    return DL_OK;
}

static dl_status erase(sqlite3 *db, int64_t before) {
    static const char *const steps[] = {
        "delete from metric where series_id in (select id from series where run_id in " GONE ")",
        "delete from series where run_id in " GONE,
        "delete from param where run_id in " GONE,
        "delete from tag where run_id in " GONE,
        "delete from event where run_id in " GONE,
        "delete from artifact where run_id in " GONE,
        "update run set parent_id = null where parent_id in " GONE,
        "update trial set run_id = null where run_id in " GONE,
        "delete " LOOSE,
        "delete from run where id in " GONE,
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) DL_TRY(dl_db_run(db, steps[i], "i", before));
    return DL_OK;
}

static dl_status collect(dl_store *s, int64_t before, int dry, dl_gc_result *out) {
    DL_TRY(dl_db_begin(s->w));
    dl_status st = count(s->w, before, out);
    if (st == DL_OK && !dry) st = erase(s->w, before);
    DL_TRY(dl_db_end(s->w, st));
    return dry ? DL_OK : vacuum(s);
}

dl_status dl_store_gc(dl_store *s, long before_us, int dry, dl_gc_result *out) {
    if (!out) return dl_fail_null("place of the result");
    *out = (dl_gc_result){0};
    DL_TRY(dl_server_refuse(s, "gc"));
    if (s && !s->none && access(s->path, F_OK)) return DL_OK;
    DL_TRY(dl_store_flush(s));
    DL_TRY(dl_store_write_lock(s));
    out->file_before = file_size(s->w);
    dl_status st = collect(s, before_us, dry, out);
    out->file_after = file_size(s->w);
    return dl_store_write_unlock(s, st);
}
