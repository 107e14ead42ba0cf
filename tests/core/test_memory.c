/* The available memory, read from a folder in place of the system's files; the gate; the limits of a process. */
#include "support/folder.h"
#include "support/tensors.h"

#include <sys/resource.h>

#include "core/memory/memory.h"
#include "data/data.h"

#define MIB ((size_t)1 << 20)
static const char machine[] = "MemTotal: 16000000 kB\nMemFree: 100 kB\nMemAvailable: 8000000 kB\n";

/* A file of the folder, with the folders above it. */
static void put(const char *path, const char *text) {
    char command[512];
    snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s%s')\"", temp_dir, path);
    if (system(command)) fail();
    FILE *f = fopen(temp_path(path + 1), "w");
    fputs(text, f);
    fclose(f);
}

static int fresh(void **state) {
    if (temp_make(state)) return -1;
    put("/proc/meminfo", machine);
    return 0;
}

static int done(void **state) {
    dl_memory_root(NULL);
    return temp_remove(state);
}

/* Available and total memory, in MiB. */
static void expect_room(size_t left, size_t of) {
    dl_memory_root(temp_dir);
    dl_memory_space r = dl_memory_available();
    assert_int_equal(r.left / MIB, left);
    assert_int_equal(r.of / MIB, of);
}

static void machine_alone(void **state) {
    (void)state;
    expect_room(7812, 15625);
    put("/proc/self/cgroup", "0::/a\n"); /* a group without a hierarchy that is mounted */
    expect_room(7812, 15625);
}

static const char unified[] = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

/* Reclaimable page cache counts as free; the limits of parent groups count as well. */
static void version_2(void **state) {
    (void)state;
    put("/proc/self/mountinfo", unified);
    put("/proc/self/cgroup", "0::/user/job.scope\n");
    put("/sys/fs/cgroup/user/job.scope/memory.max", "max\n");
    put("/sys/fs/cgroup/user/job.scope/memory.current", "900000000\n");
    expect_room(7812, 15625);
    put("/sys/fs/cgroup/user/job.scope/memory.max", "314572800\n");     /* 300 MiB */
    put("/sys/fs/cgroup/user/job.scope/memory.current", "314572800\n"); /* all in use */
    expect_room(0, 300);
    put("/sys/fs/cgroup/user/job.scope/memory.stat",
        "anon 5242880\nfile 309329920\ninactive_file 209715200\nactive_file 94371840\nslab_reclaimable 0\n");
    expect_room(290, 300);
    put("/sys/fs/cgroup/user/memory.max", "1073741824\n");
    put("/sys/fs/cgroup/user/memory.current", "1002438656\n"); /* 956 MiB */
    expect_room(68, 1024);
}

/* A container sees its own group as the root, or under the name it has outside. */
static void container(void **state) {
    (void)state;
    put("/proc/self/mountinfo", "9 8 0:2 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    put("/sys/fs/cgroup/memory.max", "104857600\n");
    put("/sys/fs/cgroup/memory.current", "20971520\n");
    put("/proc/self/cgroup", "0::/\n");
    expect_room(80, 100);
    put("/proc/self/cgroup", "0::/docker/abc\n");
    expect_room(80, 100);
    put("/proc/self/cgroup", "0::/../../other\n");
    expect_room(80, 100);
    put("/proc/self/cgroup", "0::/docker/abc/inner\n");
    put("/sys/fs/cgroup/inner/memory.max", "41943040\n");
    expect_room(40, 40);
}

/* Beside a unified hierarchy without the controller of memory, as systemd's hybrid layout has it. */
static void version_1(void **state) {
    (void)state;
    put("/proc/self/mountinfo", "1 0 0:1 / / rw - ext4 /dev/sda rw\n"
                                "2 1 0:2 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                                "3 1 0:3 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                                "4 1 0:4 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put("/proc/self/cgroup", "9:name=systemd:/x\n4:cpu,memory:/jobs/7\n0::/y\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "314572800\n");
    put("/sys/fs/cgroup/memory/jobs/7/memory.usage_in_bytes", "309329920\n");
    put("/sys/fs/cgroup/memory/jobs/7/memory.stat",
        "cache 1\ninactive_file 1048576\ntotal_inactive_file 104857600\ntotal_active_file 52428800\n");
    expect_room(155, 300);
}

/* Pieces of any size end in an error, before the reserve is touched, and released memory can be allocated again. */
static void gate(void **state) {
    static const size_t sizes[] = {64, 4096, 1 << 20, 4 << 20, 48 << 20, 128 << 20};
    (void)state;
    put("/proc/self/mountinfo", unified);
    put("/proc/self/cgroup", "0::/job\n");
    put("/sys/fs/cgroup/job/memory.max", "268435456\n");
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        put("/sys/fs/cgroup/job/memory.current", "0\n");
        dl_memory_root(temp_dir);
        size_t taken = 0;
        for (int full = 0; taken < 100 * MIB && !full; taken += sizes[i]) full = dl_memory_request(sizes[i]) != DL_OK;
        assert_null(dl_error_last());
        put("/sys/fs/cgroup/job/memory.current", "255852544\n"); /* 12 MiB left, less than the reserve */
        for (taken = 0; taken < 200 * MIB && dl_memory_request(sizes[i]) == DL_OK;) taken += sizes[i];
        assert_in_range(taken, 0, 65 * MIB);
        assert_int_equal(dl_failed(), DL_ERR_MEMORY);
        assert_non_null(strstr(dl_errmsg(), "asked for"));
        dl_error_clear();
    }
    put("/sys/fs/cgroup/job/memory.current", "0\n");
    ok(dl_memory_request(4 << 20));
    dl_memory_root(NULL);
    void *p = dl_memory_alloc(1000, 8);
    assert_non_null(p);
    p = dl_memory_resize(p, 1000, 200000, 8);
    assert_non_null(p);
    free(p);
}

static void expect_cause(const char *whose) {
    assert_int_equal(dl_failed(), DL_ERR_MEMORY);
    assert_non_null(strstr(dl_errmsg(), "asked for"));
    assert_non_null(strstr(dl_errmsg(), whose));
    assert_non_null(strstr(dl_error_last()->hint, "smaller"));
    dl_error_clear();
}

/* The error of a refusal names the memory that is left, the remedy, and what the memory was for. */
static void causes_stay(void **state) {
    (void)state;
    put("/proc/self/mountinfo", unified);
    put("/proc/self/cgroup", "0::/job\n");
    put("/sys/fs/cgroup/job/memory.max", "268435456\n");
    put("/sys/fs/cgroup/job/memory.current", "255852544\n");
    put("/table", "1,2\n");
    uint8_t *bytes = NULL;
    size_t n = 0;
    dl_memory_root(temp_dir);
    dl_error_clear();
    assert_null(dl_data_alloc(128, 1 << 20));
    expect_cause("128 pieces");
    assert_int_equal(dl_file_read(temp_path("table"), 128 << 20, &bytes, &n), DL_ERR_MEMORY);
    expect_cause("table");
    dl_memory_root(NULL);
}

/* Products of sizes that do not fit are errors, not small numbers. */
static void products(void **state) {
    (void)state;
    assert_null(dl_memory_alloc(1L << 61, 16));
    assert_null(dl_memory_alloc(-1, 8));
    assert_null(dl_memory_alloc(1L << 32, 1L << 32));
    assert_int_equal(dl_failed(), DL_ERR_MEMORY);
    assert_int_equal(dl_shape_count(3, SHAPE(2, 3, 4)), 24);
    assert_int_equal(dl_shape_count(0, NULL), 1);
    assert_int_equal(dl_shape_count(2, SHAPE(3037000500, 3037000500)), -1);
    assert_int_equal(dl_shape_count(2, SHAPE(3, 6148914691236517206)), -1);
    assert_int_equal(dl_shape_count(2, SHAPE(-1, 5)), -1);
    assert_int_equal(dl_shape_count(9, SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1)), -1);
    dl_error_clear();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* these take an address space of their own */
/* A limit of the address space is a limit like the others. */
static void limit(void **state) {
    (void)state;
    struct rlimit was, now;
    dl_memory_root(NULL);
    getrlimit(RLIMIT_AS, &was);
    now = was, now.rlim_cur = (rlim_t)1 << 30;
    if (setrlimit(RLIMIT_AS, &now)) skip();
    long n = 0;
    void *held[512] = {0};
    while (n < 512 && (held[n] = dl_host_alloc(4 << 20))) n++;
    assert_in_range(n, 50, 300);
    assert_int_equal(dl_failed(), DL_ERR_MEMORY);
    while (n--) dl_host_free(held[n], 4 << 20);
    setrlimit(RLIMIT_AS, &was);
    dl_error_clear();
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(machine_alone, fresh, done),
        cmocka_unit_test_setup_teardown(version_2, fresh, done),
        cmocka_unit_test_setup_teardown(container, fresh, done),
        cmocka_unit_test_setup_teardown(version_1, fresh, done),
        cmocka_unit_test_setup_teardown(gate, fresh, done),
        cmocka_unit_test_setup_teardown(causes_stay, fresh, done),
        cmocka_unit_test(products),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        cmocka_unit_test(limit),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
