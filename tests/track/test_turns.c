/* Processes that write to one store: each gets its turn, however much the others have to commit. */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_process_gets_its_turn, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
