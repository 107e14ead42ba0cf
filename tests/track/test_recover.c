/* What happens when a process is killed: nothing pushed is lost, the run reads killed. And rings that are damaged. */
#include "track/support.h"

#include <sys/file.h>
#include <time.h>
#include "track/store.h"

enum { KEYS = 5 };
static const char *const keys[KEYS] = {"train/loss", "train/acc", "lr", "grad/norm", "grad/a longer name, with blanks"};

/* Pushes for ever and tells through the pipe, after each push, how many are done. */
static void child(int report) {
    dl_store *s = dl_store_open(db_path);
    dl_run *r = s ? dl_run_begin(s, NULL) : NULL;
    long id = dl_run_id(r);
    if (!r || write(report, &id, sizeof id) != sizeof id) _exit(3);
    for (long i = 0;; i++) {
        if (dl_metric(r, keys[i % KEYS], i / KEYS, (double)i) != DL_OK) _exit(4);
        if (i % 64 == 0 || i < 2000)
            if (write(report, &i, sizeof i) != sizeof i) _exit(5);
        if (i % 256 == 0) usleep(100);
    }
}

typedef struct victim {
    pid_t pid;
    int report;
    long run;
} victim;

static victim start(void) {
    victim v;
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    v.pid = fork();
    assert_true(v.pid >= 0);
    if (!v.pid) {
        close(fd[0]);
        child(fd[1]);
    }
    close(fd[1]);
    v.report = fd[0];
    assert_int_equal(read(v.report, &v.run, sizeof v.run), sizeof v.run);
    return v;
}

/* Kills it after so many microseconds of reading its reports; returns the last push that it reported. */
static long finish(victim *v, long after_us) {
    long last = -1, got[4096];
    ssize_t n;
    int64_t end = dl_now_us() + after_us;
    assert_int_equal(fcntl(v->report, F_SETFL, O_NONBLOCK), 0);
    while (dl_now_us() < end)
        if ((n = read(v->report, got, sizeof got)) >= (ssize_t)sizeof *got) last = got[n / (ssize_t)sizeof *got - 1];
    assert_int_equal(kill(v->pid, SIGKILL), 0);
    int status;
    assert_int_equal(waitpid(v->pid, &status, 0), v->pid);
    assert_true(WIFSIGNALED(status));
    while ((n = read(v->report, got, sizeof got)) >= (ssize_t)sizeof *got) last = got[n / (ssize_t)sizeof *got - 1];
    close(v->report);
    return last;
}

static void loses_nothing_when_killed(void **state) {
    (void)state;
    unsigned x = (unsigned)time(NULL);
    for (int round = 0; round < 20; round++) {
        victim v = start();
        x = x * 1664525u + 1013904223u;
        long told = finish(&v, (x >> 8) % 250000);
        dl_store *s = dl_store_open(db_path);
        has(s);
        char sql[512];
        snprintf(sql, sizeof sql, "select count(*) from metrics where run = %ld and value <= %ld", v.run, told);
        if (ask(sql) != (double)(told + 1)) fail_msg("round %d: %g of %ld points are there", round, ask(sql), told + 1);
        /* and each is the right one */
        snprintf(sql, sizeof sql,
                 "select count(*) from metrics where run = %ld and cast(value as integer) / %d != step", v.run, KEYS);
        assert_int_equal(ask(sql), 0);
        snprintf(sql, sizeof sql,
                 "select sum(n) = (select count(*) from metrics where run = %ld) from series where run_id ="
                 " %ld",
                 v.run, v.run);
        if (told >= 0) assert_int_equal(ask(sql), 1);
        snprintf(sql, sizeof sql, "select status || ': ' || error from run where id = %ld", v.run);
        char want[200], host[64] = "";
        gethostname(host, sizeof host - 1);
        snprintf(want, sizeof want, "killed: process %d on %s is gone", v.pid, host);
        assert_string_equal(ask_text(sql), want);
        snprintf(sql, sizeof sql,
                 "select abs(ended_us - coalesce((select max(t_us) from metric m join series s on s.id ="
                 " m.series_id where s.run_id = r.id), ended_us)) < 20e6 from run r where id = %ld",
                 v.run);
        assert_int_equal(ask(sql), 1);
        dl_store_stats stats;
        dl_store_stats_get(s, &stats);
        assert_int_equal(stats.killed, 1);
        ok(dl_store_close(s));
        assert_int_equal(count_files("-ring-"), 0);
    }
    assert_sound();
}

/* A store that is open when somebody else dies learns of it when runs are listed. */
static void notices_while_open(void **state) {
    (void)state;
    dl_store *s = dl_store_open(db_path);
    dl_run *mine = dl_run_begin(s, NULL);
    victim v = start();
    long told = finish(&v, 30000);
    dl_run_list *l = dl_run_query_list(s, &(dl_run_query){.sort = "id"});
    has(l);
    assert_int_equal(l->n, 2);
    assert_int_equal(l->runs[0].status, DL_RUN_RUNNING);
    assert_int_equal(l->runs[1].status, DL_RUN_KILLED);
    long n = 0;
    for (long i = 0; i < l->runs[1].nseries; i++) n += l->runs[1].series[i].n;
    assert_true(n >= told + 1);
    dl_run_list_free(l);
    ok(dl_run_end(mine, DL_RUN_FINISHED, NULL));
    ok(dl_store_close(s));
}

static void leaves_the_living_alone(void **state) {
    (void)state;
    victim v = start();
    dl_store *s = dl_store_open(db_path);
    has(s);
    assert_string_equal(ask_text("select status from run"), "running");
    assert_int_equal(count_files("-ring-"), 1);
    /* a process whose pid cannot be seen, as from inside a container: the lock on its ring speaks for it */
    alter("update run set pid = pid + 1000000");
    char name[600];
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, "-ring-")) snprintf(name, sizeof name, "%s/%s", dir, e->d_name);
    closedir(d);
    int fd = open(name, O_RDWR);
    dl_ring_header h;
    assert_int_equal(pread(fd, &h, sizeof h, 0), sizeof h);
    h.pid += 1000000;
    assert_int_equal(pwrite(fd, &h.pid, sizeof h.pid, offsetof(dl_ring_header, pid)), sizeof h.pid);
    close(fd);
    dl_run_list *l = dl_run_query_list(s, NULL);
    has(l);
    assert_int_equal(l->runs[0].status, DL_RUN_RUNNING);
    dl_run_list_free(l);
    finish(&v, 0);
    has(l = dl_run_query_list(s, NULL));
    assert_int_equal(l->runs[0].status, DL_RUN_KILLED);
    dl_run_list_free(l);
    ok(dl_store_close(s));
}

/* The ring of a killed process is held a while longer: by a thread of it that still ends, or by another process that
 * commits it. */
static void *let_go(void *fd) {
    usleep(30000);
    close(*(int *)fd);
    return NULL;
}

static void waits_for_rings_that_are_held(void **state) {
    (void)state;
    victim v = start();
    dl_store *s = dl_store_open(db_path);
    char name[600] = "";
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, "-ring-")) snprintf(name, sizeof name, "%s/%s", dir, e->d_name);
    closedir(d);
    int fd = open(name, O_RDWR | O_CLOEXEC);
    long told = finish(&v, 20000);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    dl_run_list *l = dl_run_query_list(s, NULL);
    has(l);
    assert_int_equal(l->runs[0].status, DL_RUN_RUNNING); /* not killed: its points are not there yet */
    dl_run_list_free(l);
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, let_go, &fd), 0);
    dl_run *again = dl_run_resume(s, v.run, told / KEYS + 1000000, 0);
    has(again);
    char sql[200];
    snprintf(sql, sizeof sql, "select count(*) from metrics where run = %ld and value <= %ld", v.run, told);
    assert_int_equal(ask(sql), told + 1);
    assert_int_equal(pthread_join(other, NULL), 0);
    ok(dl_run_end(again, DL_RUN_FINISHED, NULL));
    ok(dl_store_close(s));
}

static void judges_other_hosts_by_heartbeat(void **state) {
    (void)state;
    char sql[300];
    dl_store *s = dl_store_open(db_path);
    for (int i = 0; i < 3; i++) ok(dl_run_end(dl_run_begin(s, NULL), DL_RUN_FINISHED, NULL));
    ok(dl_store_close(s));
    alter("update run set status = 'running', ended_us = null, pid = 1, pid_start = 7");
    alter("update run set host = 'elsewhere' where id < 3");
    snprintf(sql, sizeof sql, "update run set heartbeat_us = %lld where id = 2",
             (long long)(dl_now_us() - (DL_STALE_S + 10) * 1000000LL));
    alter(sql);
    alter("update run set boot_id = 'before', heartbeat_us = heartbeat_us - 1 where id = 3"); /* this host, rebooted
                                                                                                 since */
    s = dl_store_open(db_path);
    has(s);
    assert_string_equal(ask_text("select group_concat(status) from (select status from run order by id)"),
                        "running,killed,killed");
    ok(dl_store_close(s));
}

/* A forked child inherits handles without the thread that serves them. */
static void fork_is_harmless(void **state) {
    (void)state;
    dl_store *s = dl_store_open(db_path);
    dl_run *r = dl_run_begin(s, NULL);
    for (int i = 0; i < 100; i++) ok(dl_metric(r, "loss", i, i));
    pid_t pid = fork();
    if (!pid) {
        int bad = dl_metric(r, "loss", 1000, 0) || dl_metric(r, "new", 0, 0) || dl_store_flush(s);
        bad |= dl_run_end(r, DL_RUN_FAILED, NULL) || dl_store_close(s);
        _exit(bad);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    for (int i = 100; i < 200; i++) ok(dl_metric(r, "loss", i, i));
    ok(dl_run_end(r, DL_RUN_FINISHED, NULL));
    ok(dl_store_close(s));
    assert_int_equal(ask("select count(*) from metric"), 200);
    assert_string_equal(ask_text("select status from run"), "finished");
    assert_sound();
}

/* The status that somebody else gave a run that only slept is taken back by its next heartbeat. */
static void heartbeat_corrects(void **state) {
    (void)state;
    dl_store *s = dl_store_open(db_path);
    dl_run *r = dl_run_begin(s, NULL);
    ok(dl_run_end(r, DL_RUN_KILLED, "process 1 on elsewhere is gone"));
    dl_run *again = dl_run_resume(s, 1, 0, 0);
    has(again);
    assert_string_equal(ask_text("select status || typeof(error) from run"), "runningnull");
    ok(dl_run_end(again, DL_RUN_FINISHED, NULL));
    ok(dl_store_close(s));
}

/* ---------------------------------------------------------------- rings without a process */

typedef struct seen {
    long names, records;
    double sum;
} seen;

static dl_status see_name(void *ctx, uint32_t index, int64_t run, const char *key) {
    (void)index, (void)run, (void)key;
    ((seen *)ctx)->names++;
    return DL_OK;
}

static dl_status see_record(void *ctx, const dl_ring_record *r) {
    ((seen *)ctx)->records++;
    ((seen *)ctx)->sum += r->value;
    return DL_OK;
}

/* The image of a ring of 64 records that went round once: 40 committed, 50 waiting. */
static unsigned char *image(size_t *size) {
    char path[400];
    dl_ring r;
    dl_ring_record out[64];
    uint64_t at;
    snprintf(path, sizeof path, "%s/ring", dir);
    ok(dl_ring_create(&r, path, 64, dl_whoami_self()));
    ok(dl_ring_add_name(&r, 0, 1, "train/loss"));
    ok(dl_ring_add_name(&r, 1, 1, "odd"));
    for (int i = 0; i < 40; i++) assert_int_equal(dl_ring_push(&r, i & 1, i, i, 1000 + i, &at), 1);
    assert_int_equal(dl_ring_peek(&r, out, 64), 40);
    assert_true(out[39].value == 39 && out[39].stamp == 39);
    dl_ring_advance(&r, 40);
    for (int i = 40; i < 90; i++) assert_int_equal(dl_ring_push(&r, i & 1, i, i, 1000 + i, &at), 1);
    for (int i = 0; i < 14; i++) assert_int_equal(dl_ring_push(&r, 0, 0, 0, 0, &at), 1);
    assert_int_equal(dl_ring_push(&r, 0, 0, 0, 0, &at), 0); /* full */
    int fd = open(path, O_RDONLY);
    struct stat st;
    fstat(fd, &st);
    unsigned char *data = malloc((size_t)st.st_size);
    assert_int_equal(read(fd, data, (size_t)st.st_size), st.st_size);
    *size = (size_t)st.st_size;
    close(fd);
    assert_int_equal(dl_ring_close(&r), 64);
    unlink(path);
    return data;
}

static char *found; /* the file that another process is looking at */

static void *take_empty_files(void *stop) {
    while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED)) {
        struct stat st;
        int fd = open(found, O_RDWR | O_CLOEXEC);
        if (fd < 0) continue;
        if (!flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &st) && st.st_nlink && !st.st_size) unlink(found);
        close(fd);
    }
    return NULL;
}

/* A ring that is being made, and has no contents and no lock yet, looks like what a killed process left. */
static void makes_rings_that_are_removed(void **state) {
    (void)state;
    char path[400];
    int stop = 0;
    pthread_t other;
    snprintf(path, sizeof path, "%s/ring", dir);
    found = path;
    assert_int_equal(pthread_create(&other, NULL, take_empty_files, &stop), 0);
    for (int i = 0; i < 500; i++) {
        dl_ring r;
        ok(dl_ring_create(&r, path, 64, dl_whoami_self()));
        assert_int_equal(access(path, F_OK), 0);
        dl_ring_close(&r);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    assert_int_equal(pthread_join(other, NULL), 0);
}

static seen look(const unsigned char *data, size_t size, int *damaged) {
    seen s = {0, 0, 0};
    const dl_ring_visitor v = {&s, see_name, see_record};
    /* an exact copy, so that reading past the end is noticed */
    unsigned char *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    ok(dl_ring_parse(copy, size, &v, damaged));
    free(copy);
    return s;
}

static void reads_whole_rings(void **state) {
    (void)state;
    size_t size;
    int damaged;
    unsigned char *data = image(&size);
    seen s = look(data, size, &damaged);
    assert_int_equal(damaged, 0);
    assert_int_equal(s.names, 2);
    assert_int_equal(s.records, 64);
    assert_true(s.sum == (40 + 89) * 50 / 2);
    free(data);
}

/* Names beyond those that the file is made with: their space is taken, too, before they are written. */
static void takes_many_names(void **state) {
    (void)state;
    enum { MANY = 5000 };
    char path[400], name[32];
    dl_ring r;
    struct stat st;
    int damaged;
    snprintf(path, sizeof path, "%s/ring", dir);
    ok(dl_ring_create(&r, path, 64, dl_whoami_self()));
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "metric/%u", i);
        ok(dl_ring_add_name(&r, i, 1, name));
        assert_true(r.end <= r.reserved);
    }
    assert_true(r.end > r.mapped + 2 * DL_RING_NAMES);
    int fd = open(path, O_RDONLY);
    assert_int_equal(fstat(fd, &st), 0);
    assert_true((uint64_t)st.st_size == r.reserved && (uint64_t)st.st_blocks * 512 >= r.reserved);
    unsigned char *data = malloc((size_t)st.st_size);
    assert_int_equal(read(fd, data, (size_t)st.st_size), st.st_size);
    close(fd);
    seen s = look(data, (size_t)st.st_size, &damaged);
    assert_true(!damaged && s.names == MANY && s.records == 0);
    free(data);
    assert_int_equal(dl_ring_close(&r), 0);
}

static void reads_damaged_rings(void **state) {
    (void)state;
    size_t size;
    int damaged;
    unsigned char *data = image(&size);
    dl_ring_header *h = (dl_ring_header *)data;
    dl_ring_record *rec = (dl_ring_record *)(data + DL_RING_PAGE);
    /* one record broken: the others stay */
    rec[50].step ^= 1 << 20;
    assert_int_equal(look(data, size, &damaged).records, 63);
    rec[50].step ^= 1 << 20;
    /* the name region broken: the second name stays */
    unsigned char *name = data + DL_RING_PAGE + 64 * 32;
    name[30] ^= 1;
    seen s = look(data, size, &damaged);
    assert_true(damaged && s.names == 1 && s.records == 64);
    name[30] ^= 1;
    /* header or cursors broken: all records prove themselves */
    h->capacity = 1ul << 60;
    s = look(data, size, &damaged);
    assert_true(damaged && s.names == 2 && s.records == 64);
    h->capacity = 64;
    h->tail = h->head + 1;
    s = look(data, size, &damaged);
    assert_true(damaged && s.names == 2 && s.records == 64);
    h->tail = h->head - 64;
    memset(data, 0, DL_RING_PAGE);
    s = look(data, size, &damaged);
    assert_true(damaged && s.names == 2 && s.records == 64);
    free(data);
}

static void reads_cut_off_rings(void **state) {
    (void)state;
    size_t size;
    int damaged;
    unsigned char *data = image(&size);
    for (size_t n = 0; n <= size; n++) {
        seen s = look(data, n, &damaged);
        size_t whole = n < DL_RING_PAGE ? 0 : (n - DL_RING_PAGE) / 32;
        assert_int_equal(s.records, whole > 64 ? 64 : whole);
    }
    free(data);
}

/* A damaged ring gives what it has, and stays for inspection under another name. */
static void keeps_damaged_rings(void **state) {
    (void)state;
    char ring[400], text[512];
    dl_store *s = dl_store_open(db_path);
    dl_run *r = dl_run_begin(s, NULL);
    ok(dl_metric(r, "odd", 41, -1)); /* committed already, and to be kept as it is */
    ok(dl_store_close(s));
    size_t size;
    unsigned char *data = image(&size);
    data[0] = 'x';
    snprintf(ring, sizeof ring, "%s-ring-1234-0123abcd", db_path);
    FILE *f = fopen(ring, "w");
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
    free(data);
    s = dl_store_open(db_path);
    has(s);
    assert_int_equal(dl_store_warning(s, text, sizeof text), 1);
    assert_non_null(strstr(text, "was damaged: 64 points of it are committed"));
    assert_int_equal(count_files("-ring-"), 1);
    assert_int_equal(count_files(".damaged"), 1);
    assert_int_equal(ask("select count(*) from metric"), 51); /* the fourteen are one step */
    assert_int_equal(ask("select value from metrics where key = 'odd' and step = 41"), -1);
    ok(dl_store_close(s));
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        T(loses_nothing_when_killed),
        T(notices_while_open),
        T(waits_for_rings_that_are_held),
        T(makes_rings_that_are_removed),
        T(leaves_the_living_alone),
        T(judges_other_hosts_by_heartbeat),
        T(heartbeat_corrects),
        T(fork_is_harmless),
        T(reads_whole_rings),
        T(takes_many_names),
        T(reads_damaged_rings),
        T(reads_cut_off_rings),
        T(keeps_damaged_rings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
