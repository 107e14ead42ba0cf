/* Fenced host memory: each kind of wrong access ends the process that makes it, with blocks at either end of their
 * pages. The program runs itself for each: test_core_fence FAULT BYTES OTHERS. */
#include "support/tensors.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile char sink; /* keeps the compiler from dropping the read */

static void read_at(char *p, long i) { sink = *(volatile char *)(p + i); }
static void write_at(char *p, long i) { *(volatile char *)(p + i) = 1; }

static const char *const faults[] = {"none",         "read behind", "write behind", "read before",
                                     "write before", "freed",       "freed twice",  "wrong size"};

/* Runs in a process of its own; with `many` other blocks alive, all its blocks are on the heap. */
static int commit(const char *fault, size_t bytes, long many) {
    for (long i = 0; i < many; i++)
        if (!dl_host_alloc(8)) return 3;
    char *p = dl_host_alloc(bytes);
    if (!p) return 3;
    for (size_t i = 0; i < bytes; i++) {
        if (p[i] != (char)0xFF) return 4;
        p[i] = 0;
    }
    if (!strcmp(fault, "read behind")) read_at(p, (long)bytes);
    if (!strcmp(fault, "write behind")) write_at(p, (long)bytes);
    if (!strcmp(fault, "read before")) read_at(p, -1);
    if (!strcmp(fault, "write before")) write_at(p, -1);
    dl_host_free(p, !strcmp(fault, "wrong size") ? bytes + 1 : bytes);
    if (!strcmp(fault, "freed")) read_at(p, (long)bytes / 2);
    if (!strcmp(fault, "freed twice")) dl_host_free(p, bytes);
    return 0;
}

/* Did the process end with status 0? */
static bool survives(const char *guard, const char *fault, const char *bytes, const char *many) {
    pid_t child = fork();
    if (!child) {
        setenv("DLCORE_GUARD", guard, 1);
        if (!freopen("/dev/null", "w", stderr)) _exit(9);
        execl("/proc/self/exe", "test_core_fence", fault, bytes, many, (char *)NULL);
        _exit(9);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && (WEXITSTATUS(status) == 3 || WEXITSTATUS(status) == 9));
    return WIFEXITED(status) && !WEXITSTATUS(status);
}

/* What is detected: reads of the page beside, writes on either side, and a size that moves the beginning. */
static void faults_are_seen(void **state) {
    (void)state;
    static const char *const sizes[] = {"1", "24", "100", "4096", "70000"};
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int guard = 1; guard <= 2; guard++)
            for (unsigned f = 0; f < sizeof faults / sizeof *faults; f++) {
                const char *other_side = guard == 1 ? "read before" : "read behind";
                if (!strcmp(faults[f], other_side) || (guard == 2 && !strcmp(faults[f], "wrong size"))) continue;
                bool well = survives(guard == 1 ? "1" : "2", faults[f], sizes[s], "0");
                if (well != !strcmp(faults[f], "none"))
                    fail_msg("DLCORE_GUARD=%d, %s bytes, fault '%s': %s", guard, sizes[s], faults[f],
                             well ? "not seen" : "seen");
            }
}

static void more_than_have_pages(void **state) {
    (void)state;
    static const char *const seen[] = {"write behind", "write before"};
    for (int guard = 1; guard <= 2; guard++) {
        const char *mode = guard == 1 ? "1" : "2";
        for (int i = 0; i < 2; i++) assert_false(survives(mode, seen[i], "4096", "21000"));
        assert_true(survives(mode, "none", "4096", "21000"));
        assert_true(survives(mode, "none", "100", "21000"));
    }
}

/* Tensors of all sizes, also 0, work as usual, and freed blocks do not accumulate. */
static void blocks_come_and_go(void **state) {
    (void)state;
    size_t before = dl_host_bytes();
    for (long i = 0; i < 20000; i++) {
        dl_tensor *t = must(dl_tensor_full(1, SHAPE(i % 70), DL_F32, 0, 2));
        for (long j = 0; j < i % 70; j++) assert_true(((float *)dl_data(t))[j] == 2);
        dl_unref(t);
    }
    assert_true(dl_host_bytes() < before + (64u << 20));
}

int main(int argc, char **argv) {
    if (argc > 3) _exit(commit(argv[1], (size_t)atol(argv[2]), atol(argv[3])));
    const struct CMUnitTest tests[] = {cmocka_unit_test(faults_are_seen), cmocka_unit_test(more_than_have_pages),
                                       cmocka_unit_test(blocks_come_and_go)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
