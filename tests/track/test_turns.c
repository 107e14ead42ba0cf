/* Processes that write to one store: each gets its turn, however much the others have to commit, and loses nothing
 * while one holds the lock; who waits says so. */
#include "track/support.h"

#include <sys/mman.h>
#include "track/store.h"

enum { TURNS = 6, MOST_BATCHES = 4 * TURNS };

typedef struct shared {
    int begun, stop;
    long committed;
} shared;

/* Pushes faster than the disk takes points, so that the writer begins one transaction after the other. */
static void write_without_end(shared *x) {
    dl_store *s = dl_store_open(db_path);
    dl_run *r = dl_run_begin(s, NULL);
    dl_series *loss = dl_series_of(r, "loss");
    dl_store_stats st;
    for (long i = 0; loss && getppid() != 1 && !__atomic_load_n(&x->stop, __ATOMIC_ACQUIRE); i++) {
        dl_series_push(loss, i, 1);
        if (i % 1024) continue;
        dl_store_stats_get(s, &st);
        __atomic_store_n(&x->committed, st.committed, __ATOMIC_RELEASE);
        __atomic_store_n(&x->begun, st.committed > 2 * DL_BATCH, __ATOMIC_RELEASE);
    }
    _exit(0);
}

static void each_process_gets_its_turn(void **state) {
    (void)state;
    int status;
    shared *x = mmap(NULL, sizeof *x, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(x, MAP_FAILED);
    pid_t other = fork();
    if (!other) write_without_end(x);
    for (int ms = 0; ms < 20000 && !__atomic_load_n(&x->begun, __ATOMIC_ACQUIRE); ms++) usleep(1000);
    assert_true(x->begun);
    long before = __atomic_load_n(&x->committed, __ATOMIC_ACQUIRE);
    dl_store *s = dl_store_open(db_path);
    has(s);
    dl_run *r = dl_run_begin(s, NULL);
    has(r);
    for (int i = 0; i < TURNS; i++) ok(dl_run_note(s, dl_run_id(r), "a change, in a transaction"));
    long meanwhile = (__atomic_load_n(&x->committed, __ATOMIC_ACQUIRE) - before) / DL_BATCH;
    __atomic_store_n(&x->stop, 1, __ATOMIC_RELEASE);
    ok(dl_store_close(s));
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
    munmap(x, sizeof *x);
    if (meanwhile > MOST_BATCHES) fail_msg("%d changes waited for %ld batches of the other process", TURNS, meanwhile);
}

/* ---------------------------------------------------------------- a lock that is held */

static void waits_for_locks(void **state) {
    (void)state;
    sqlite3 *other;
    dl_store *s = dl_store_open(db_path);
    dl_run *r = dl_run_begin(s, NULL);
    ok(dl_metric(r, "loss", 1000, 1));
    ok(dl_store_flush(s));
    assert_int_equal(sqlite3_open(db_path, &other), 0);
    assert_int_equal(sqlite3_exec(other, "begin immediate", NULL, NULL, NULL), 0);
    int64_t begin = dl_now_us();
    for (int i = 0; i < 1000; i++) ok(dl_metric(r, "loss", i, i)); /* a push does not care */
    assert_true(dl_now_us() - begin < 200000);
    usleep(300000);
    assert_int_equal(ask("select count(*) from metric"), 1);
    assert_int_equal(sqlite3_exec(other, "commit", NULL, NULL, NULL), 0);
    ok(dl_store_flush(s));
    assert_int_equal(ask("select count(*) from metric"), 1001);
    sqlite3_close(other);
    ok(dl_store_close(s));
}

/* Another process, which takes the lock of the store when a byte comes and keeps it until its pipe is closed. It is
 * made before the store is opened: connections of SQLite do not outlive a fork, and a ring is held by all who have it.
 */
typedef struct locker {
    int go, locked;
    pid_t pid;
} locker;

static locker make_locker(void) {
    int go[2], locked[2];
    char byte;
    assert_int_equal(pipe(go) | pipe(locked), 0);
    pid_t pid = fork();
    if (!pid) {
        sqlite3 *db;
        close(go[1]);
        close(locked[0]);
        if (read(go[0], &byte, 1) != 1) _exit(1);
        if (sqlite3_open(db_path, &db) || sqlite3_busy_timeout(db, 5000)) _exit(2);
        if (sqlite3_exec(db, "begin immediate", NULL, NULL, NULL) || write(locked[1], "x", 1) != 1) _exit(3);
        if (read(go[0], &byte, 1)) _exit(4);
        _exit(sqlite3_close(db)); /* and with it the lock */
    }
    close(go[0]);
    close(locked[1]);
    return (locker){go[1], locked[0], pid};
}

static void take_lock(const locker *l) {
    char byte = 0;
    assert_int_equal(write(l->go, &byte, 1), 1);
    assert_int_equal(read(l->locked, &byte, 1), 1);
}

static int free_lock(const locker *l) {
    int status;
    close(l->go);
    close(l->locked);
    waitpid(l->pid, &status, 0);
    return status;
}

enum { RING = 1 << 12, WHILE_LOCKED = 50000 };

/* Pushes more than the ring takes while another process has the lock, with values that change at the same step. `away`:
 * a folder has the name of the file beside the ring. */
static dl_store *push_while_locked(dl_run **r, locker *l, int away) {
    char more[600];
    *l = make_locker();
    dl_store *s = dl_store_open(db_path);
    has(s);
    s->capacity = RING;
    has(*r = dl_run_begin(s, NULL));
    ok(dl_metric(*r, "loss", 0, 0));
    ok(dl_store_flush(s));
    snprintf(more, sizeof more, "%.500s.more", s->ring.path);
    if (away) assert_int_equal(mkdir(more, 0700), 0);
    take_lock(l);
    for (long i = 0; i < WHILE_LOCKED; i++) {
        ok(dl_metric(*r, "loss", i, (double)i));
        ok(dl_metric(*r, "same", 7, (double)i));
    }
    if (away) rmdir(more);
    return s;
}

static void assert_all_there(void) {
    assert_int_equal(ask("select count(*) from metrics where key = 'train/loss'"), WHILE_LOCKED);
    assert_int_equal(ask("select count(*) from metrics where key = 'train/loss' and value = step"), WHILE_LOCKED);
    assert_int_equal(ask("select value from metrics where key = 'same'"), WHILE_LOCKED - 1);
    assert_int_equal(count_files("-ring-"), 0);
    assert_sound();
}

static void keeps_what_a_lock_holds_up(void **state) {
    (void)state;
    char text[512];
    locker l;
    dl_run *r;
    dl_store *s = push_while_locked(&r, &l, 0);
    assert_int_equal(count_files(".more"), 1);
    assert_int_equal(dl_store_warning(s, text, sizeof text), 1);
    if (!strstr(text, "takes no points") || !strstr(text, ".more")) fail_msg("%s", text);
    assert_int_equal(free_lock(&l), 0);
    for (long i = 0; i < 100; i++) ok(dl_metric(r, "after", i, (double)i));
    ok(dl_store_flush(s));
    for (int i = 0; i < 5000 && dl_spill_on(&s->ring); i++) usleep(1000); /* the writer ends it behind its commit */
    assert_int_equal(dl_spill_on(&s->ring), 0);
    assert_int_equal(s->ring.spill.file[0].size, 0); /* the ring has room again */
    for (long i = 100; i < 200; i++) ok(dl_metric(r, "after", i, (double)i));
    assert_int_equal(dl_store_warning(s, text, sizeof text), 0);
    dl_store_stats stats;
    dl_store_stats_get(s, &stats);
    assert_int_equal(stats.dropped, 0);
    assert_int_equal(stats.pushed, 2 * WHILE_LOCKED + 201);
    ok(dl_store_close(s));
    assert_int_equal(ask("select count(*) from metrics where key = 'after'"), 200);
    assert_all_there();
}

/* What is said of waits, and how often. */
typedef struct heard {
    int n;
    char text[512];
} heard;
static void hear(void *ctx, const char *text) {
    heard *h = ctx;
    h->n++;
    snprintf(h->text, sizeof h->text, "%s", text);
}

static void *free_soon(void *l) {
    usleep(1400000);
    return (void *)(intptr_t)free_lock(l);
}
static void *interrupt_soon(void *unused) {
    usleep(200000);
    dl_interrupt_set(1);
    return unused;
}

/* A commit of this process that takes long, as on a busy disk. */
static void *commit_slowly(void *arg) {
    dl_store *s = arg;
    if (dl_store_write_lock(s) != DL_OK) return s;
    usleep(1400000);
    return dl_store_write_unlock(s, DL_OK) == DL_OK ? NULL : s;
}

static void says_nothing_of_its_own_commits(void **state) {
    (void)state;
    heard h = {0};
    void *failed = NULL;
    pthread_t thread;
    dl_store *s = dl_store_open(db_path);
    dl_run *r = dl_run_begin(s, NULL);
    has(r);
    ok(dl_store_flush(s));
    dl_store_on_wait(hear, &h);
    pthread_create(&thread, NULL, commit_slowly, s);
    usleep(100000);
    const int64_t begin = dl_steady_us();
    ok(dl_run_event(r, 0, "e", NULL, NULL));
    assert_true(dl_steady_us() - begin > 1000000);
    pthread_join(thread, &failed);
    assert_null(failed);
    dl_store_on_wait(NULL, NULL);
    if (h.n) fail_msg("%s", h.text);
    ok(dl_run_end(r, DL_RUN_FINISHED, NULL));
    ok(dl_store_close(s));
}

static dl_status wait_to_read(dl_run *r) {
    dl_run_list_free(dl_run_query_list(r->store, NULL));
    return DL_OK;
}
static dl_status wait_to_write(dl_run *r) { return dl_run_event(r, 0, "e", NULL, NULL); }
static dl_status wait_to_begin(dl_run *r) {
    dl_run *second = dl_run_begin(r->store, NULL);
    return second ? dl_run_end(second, DL_RUN_FINISHED, NULL) : dl_failed();
}

/* Calls that wait say so once; the use of the machine is recorded meanwhile; an interrupt ends the wait. */
static void tells_what_it_waits_for(void **state) {
    (void)state;
    static const struct {
        dl_status (*call)(dl_run *r);
        const char *then;
    } waits[] = {{wait_to_read, "then what is committed is read"},
                 {wait_to_write, "then this fails"},
                 {wait_to_begin, "then the run is recorded in another file"},
                 {wait_to_write, NULL}};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        const int ends = waits[i].then != NULL;
        char sql[200];
        heard h = {0};
        pthread_t thread;
        locker l = make_locker();
        dl_store *s = dl_store_open(db_path);
        dl_run *r = dl_run_begin(s, NULL);
        has(r);
        ok(dl_store_flush(s));
        dl_store_on_wait(hear, &h);
        take_lock(&l);
        ok(dl_metric(r, "loss", 0, 1));
        pthread_mutex_lock(&s->runs_lock);
        r->usage.active_us -= 3600 * 1000000L; /* it is time to look at it */
        pthread_mutex_unlock(&s->runs_lock);
        if (i) usleep(150000); /* the writer waits as well, holding the connection */
        pthread_create(&thread, NULL, ends ? free_soon : interrupt_soon, &l);
        assert_int_equal(waits[i].call(r), ends ? DL_OK : DL_ERR_INTERRUPT);
        int64_t end = dl_now_us();
        pthread_join(thread, NULL);
        dl_interrupt_set(0);
        if (!ends) free_lock(&l);
        dl_store_on_wait(NULL, NULL);
        assert_int_equal(h.n, ends);
        if (ends && (!strstr(h.text, waits[i].then) || !strstr(h.text, db_path))) fail_msg("%s", h.text);
        ok(dl_run_end(r, DL_RUN_FINISHED, NULL));
        ok(dl_store_close(s));
        snprintf(sql, sizeof sql, "select count(*) from metrics where key = 'system/cpu' and ts < %.3f",
                 (double)end / 1e6 - (ends ? 0.5 : 0));
        assert_int_equal(ask(sql), 1);
        assert_int_equal(ask("select count(*) from metrics where key = 'train/loss'"), 1);
        assert_sound();
        unlink(db_path);
    }
}

/* A process that is killed meanwhile: `away`, its folder takes no further file. */
static void recovers_what_a_lock_held_up(void **state) {
    (void)state;
    char text[512];
    for (int away = 0; away < 2; away++) {
        int status, done[2];
        char byte = 0;
        pid_t pid;
        assert_int_equal(pipe(done), 0);
        if (!(pid = fork())) {
            dl_run *r;
            locker l;
            push_while_locked(&r, &l, away);
            if (write(done[1], &byte, 1) != 1) _exit(3);
            pause();
        }
        close(done[1]);
        assert_int_equal(read(done[0], &byte, 1), 1);
        kill(pid, SIGKILL); /* and the lock ends with the pipe, which that process had */
        waitpid(pid, &status, 0);
        assert_int_equal(count_files(".more"), !away);
        dl_store *s = dl_store_open(db_path);
        has(s);
        dl_store_stats stats;
        dl_store_stats_get(s, &stats);
        assert_true(stats.recovered >= 2 * WHILE_LOCKED);
        if (dl_store_warning(s, text, sizeof text)) fail_msg("%s", text);
        ok(dl_store_close(s));
        assert_all_there();
        unlink(db_path);
        close(done[0]);
    }
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        T(each_process_gets_its_turn),   T(waits_for_locks),
        T(keeps_what_a_lock_holds_up),   T(tells_what_it_waits_for),
        T(recovers_what_a_lock_held_up), T(says_nothing_of_its_own_commits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
