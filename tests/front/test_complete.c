/* Completion as notebooks ask for it: where the word begins, sorted names without doubles, nothing where nothing fits.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "front/front.h"
#include "view/console.h"

extern const dlsh_command general_commands[], settings_commands[], history_commands[];

static dlsh_session *s;

static int open_session(void **state) {
    (void)state;
    s = dlsh_session_new(dlsh_console(), NULL);
    return !s || dlsh_add_commands(s, general_commands) || dlsh_add_commands(s, settings_commands) ||
           dlsh_add_commands(s, history_commands);
}

static int close_session(void **state) {
    (void)state;
    dlsh_session_free(s);
    return 0;
}

/* Completes text; asserts where the word begins and that `wanted` is (or, NULL, that nothing is) among the names. */
static void check(const char *text, size_t start, const char *wanted) {
    size_t from;
    char *const *names;
    int n = dlsh_complete(s, text, strlen(text), &from, &names), found = 0;
    assert_int_equal(from, start);
    for (int i = 0; i < n; i++) {
        assert_int_equal(strncmp(names[i], text + start, strlen(text + start)), 0);
        if (i) assert_true(strcmp(names[i - 1], names[i]) < 0);
        if (wanted) found |= !strcmp(names[i], wanted);
    }
    if (wanted)
        assert_true(found);
    else
        assert_int_equal(n, 0);
}

static void names_that_fit(void **state) {
    (void)state;
    check("cross_en", 0, "cross_entropy(");
    check("x = cross_en", 4, "cross_entropy(");
    check("sum(zeros(2), keep", 14, "keepdim=");
    check("", 0, "show");
    check("x = 1\nse", 6, "seed");
    check("se", 0, "set");
    check("zzzz", 0, NULL);
    check("# cross_en", 2, NULL);
    check("read \"/etc/passw", 6, "/etc/passwd");
}

static void fields_of_values(void **state) {
    (void)state;
    assert_int_equal(dlsh_run(s, "<1>", "r = record(alpha=1, beta=zeros(2))", 34, NULL), DL_OK);
    check("r.al", 2, "alpha");
    check("1 + r.beta.sha", 11, "shape");
    dlsh_value v;
    assert_true(dlsh_chain_value(s, "x + r.alpha", 11, &v));
    assert_int_equal(v.as.i, 1);
    assert_false(dlsh_chain_value(s, "r.gamma", 7, &v));
    assert_false(dlsh_chain_value(s, "", 0, &v));
}

/* Options come first, however they are spelt. */
static void options_first(void **state) {
    (void)state;
    char *const *names;
    size_t start;
    assert_true(dlsh_complete(s, "adam(", 5, &start, &names) > 10);
    assert_string_equal(names[0], "amsgrad=");
    assert_string_equal(names[1], "betas=");
    assert_true(dlsh_complete(s, "adam(l", 6, &start, &names) > 2);
    assert_string_equal(names[0], "lr=");
}

/* Inside the text of a condition, of columns and of SQL; without a store the names that every store has. */
static void words_of_queries(void **state) {
    (void)state;
    check("runs where=\"stat", 12, "status");
    check("runs where=\"lr < 0.1 and (na", 26, "name");
    check("runs where=\"status = fin", 21, "finished");
    check("runs where=\"status != kil", 22, "killed");
    check("runs(limit=3, where=\"sta", 21, "started");
    check("x = best(\"acc\", where='mi", 23, "min(");
    check("runs cols=id,sta", 13, "status");
    check("runs sort=-sta", 11, "started");
    check("sql \"sel", 5, "select");
    check("sql(\"select x fr", 14, "from");
    check("runs where=\"zzz", 12, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_that_fit), cmocka_unit_test(fields_of_values),
                                       cmocka_unit_test(options_first), cmocka_unit_test(words_of_queries)};
    return cmocka_run_group_tests(tests, open_session, close_session);
}
