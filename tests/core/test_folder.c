/* The user's cache folder: where it is, and when there is none. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "dlcore.h"
#include "support/folder.h"

static void found_and_made(void **state) {
    (void)state;
    char path[200], want[200];
    struct stat st;
    setenv("HOME", temp_dir, 1);
    unsetenv("XDG_CACHE_HOME");
    assert_int_equal(dl_cache_folder("part", path, sizeof path), DL_OK);
    snprintf(want, sizeof want, "%s/.cache/dlsh/part", temp_dir);
    assert_string_equal(path, want);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 077, 0);
    snprintf(want, sizeof want, "%s/x", temp_dir);
    setenv("XDG_CACHE_HOME", want, 1);
    assert_int_equal(dl_cache_folder("part", path, sizeof path), DL_OK);
    assert_string_equal(path, strcat(want, "/dlsh/part"));
}

static void there_is_none(void **state) {
    (void)state;
    char path[200], file[80];
    setenv("XDG_CACHE_HOME", "relative", 1); /* to be ignored, says the standard */
    unsetenv("HOME");
    assert_int_equal(dl_cache_folder("c", path, sizeof path), DL_ERR_IO);
    snprintf(file, sizeof file, "%s/file", temp_dir);
    fclose(fopen(file, "w"));
    setenv("XDG_CACHE_HOME", file, 1);
    assert_int_equal(dl_cache_folder("c", path, sizeof path), DL_ERR_IO);
    assert_non_null(strstr(dl_errmsg(), "cannot be made"));
    setenv("XDG_CACHE_HOME", temp_dir, 1);
    assert_int_equal(dl_cache_folder("c", path, 10), DL_ERR_IO);
}

/* A folder that others can write to must not be used for code or plans. */
static void not_of_the_user_alone(void **state) {
    (void)state;
    char path[200];
    setenv("XDG_CACHE_HOME", temp_dir, 1);
    assert_int_equal(dl_cache_folder("open", path, sizeof path), DL_OK);
    assert_int_equal(chmod(path, 0777), 0);
    assert_int_equal(dl_cache_folder("open", path, sizeof path), DL_ERR_IO);
    assert_non_null(strstr(dl_errmsg(), "alone"));
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(dl_cache_folder("open", path, sizeof path), DL_OK);
    if (geteuid()) return;
    assert_int_equal(chown(path, 12345, 12345), 0);
    assert_int_equal(dl_cache_folder("open", path, sizeof path), DL_ERR_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(found_and_made), cmocka_unit_test(there_is_none),
                                       cmocka_unit_test(not_of_the_user_alone)};
    return cmocka_run_group_tests(tests, temp_make, temp_remove);
}
