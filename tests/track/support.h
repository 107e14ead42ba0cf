/* What the tests of the store share: a temporary folder, and looking into a database from outside. */
#ifndef TESTS_TRACK_SUPPORT_H
#define TESTS_TRACK_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "dlcore.h"

static char dir[256], db_path[300];

#define ok(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != DL_OK) fail_msg("%s: %s", #call, dl_errmsg());                                                   \
    } while (0)
#define has(ptr)                                                                                                       \
    do {                                                                                                               \
        if (!(ptr)) fail_msg("%s: %s", #ptr, dl_errmsg());                                                             \
    } while (0)
#define error_says(text)                                                                                               \
    do {                                                                                                               \
        if (!strstr(dl_errmsg(), text)) fail_msg("the error should say '%s', it says '%s'", text, dl_errmsg());        \
    } while (0)

static inline int make_dir(void **state) {
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/dl-track-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir)) return -1;
    snprintf(db_path, sizeof db_path, "%s/experiments.db", dir);
    dl_error_clear();
    return 0;
}

/* Files of the folder whose name contains `part`. */
static inline int count_files(const char *part) {
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.' && strstr(e->d_name, part);
    if (d) closedir(d);
    return n;
}

static inline int remove_dir(void **state) {
    (void)state;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (e->d_name[0] != '.') unlink(path);
    }
    if (d) closedir(d);
    return rmdir(dir);
}

/* The first value of a query, on a separate connection, as an outside reader would use. */
static inline double ask(const char *sql) {
    sqlite3 *db;
    sqlite3_stmt *st = NULL;
    if (sqlite3_open_v2(db_path, &db, SQLITE_OPEN_READONLY, NULL)) fail_msg("cannot open %s", db_path);
    sqlite3_busy_timeout(db, 10000);
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL)) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    if (sqlite3_step(st) != SQLITE_ROW) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    double v = sqlite3_column_type(st, 0) == SQLITE_NULL ? NAN : sqlite3_column_double(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return v;
}

static inline const char *ask_text(const char *sql) {
    static char text[4096];
    sqlite3 *db;
    sqlite3_stmt *st = NULL;
    if (sqlite3_open_v2(db_path, &db, SQLITE_OPEN_READONLY, NULL)) fail_msg("cannot open %s", db_path);
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL)) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    if (sqlite3_step(st) != SQLITE_ROW) fail_msg("%s: no row", sql);
    snprintf(text, sizeof text, "%s", sqlite3_column_text(st, 0) ? (const char *)sqlite3_column_text(st, 0) : "(null)");
    sqlite3_finalize(st);
    sqlite3_close(db);
    return text;
}

/* Changes a database without the store. */
static inline void alter(const char *sql) {
    sqlite3 *db;
    if (sqlite3_open(db_path, &db)) fail_msg("cannot open %s", db_path);
    sqlite3_busy_timeout(db, 10000);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL)) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
}

static inline void assert_sound(void) { assert_string_equal(ask_text("pragma integrity_check"), "ok"); }

#endif
