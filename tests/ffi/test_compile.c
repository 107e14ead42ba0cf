/* Compiling C text: libraries that load, the cache, messages at the text's own line and column. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <math.h>

#include "ffi/compiler/compile.h"
#include "ffi/compiler/spawn.h"
#include "support/folder.h"

static int make_cache(void **state) {
    unsetenv("DLSH_CC");
    return temp_make(state) || setenv("XDG_CACHE_HOME", temp_dir, 1);
}

static dlsh_cc_job job_of(const char *text) {
    return (dlsh_cc_job){.text = text, .len = strlen(text), .file = "<7>", .line = 3, .col = 4};
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static dl_status compile(const dlsh_cc_job *job, dlsh_cc_result *r) {
    char key[DLSH_CC_KEY];
    if (dlsh_cc_key(job, 0, key)) fail_msg("%s", dl_errmsg());
    return dlsh_cc_compile(job, key, r);
}

/* Loads what was compiled and calls its f(3). */
static double call(const dlsh_cc_result *r) {
    void *so = dlopen(r->path, RTLD_NOW | RTLD_LOCAL);
    if (!so) fail_msg("%s", dlerror());
    double (*f)(double) = (double (*)(double))dlsym(so, "f");
    double v = f(3);
    dlclose(so);
    unlink(r->path);
    return v;
}

static void compiles_and_caches(void **state) {
    (void)state;
    dlsh_cc_result r;
    dlsh_cc_job job = job_of("#include <math.h>\ndouble f(double x) { return sqrt(x) * x; }");
    double began = now();
    assert_int_equal(compile(&job, &r), DL_OK);
    double first = now() - began;
    assert_false(r.cached);
    assert_true(fabs(call(&r) - 5.196152) < 1e-6);
    dlsh_cc_result_free(&r);
    began = now();
    assert_int_equal(compile(&job, &r), DL_OK);
    double second = now() - began;
    assert_true(r.cached);
    assert_true(fabs(call(&r) - 5.196152) < 1e-6);
    dlsh_cc_result_free(&r);
    print_message("first %.1f ms, cached %.2f ms\n", first * 1e3, second * 1e3);
    job.flags = "-O0";
    assert_int_equal(compile(&job, &r), DL_OK);
    assert_false(r.cached);
    unlink(r.path);
    dlsh_cc_result_free(&r);
}

/* A header that changes makes the entry of the cache void. */
static void follows_headers(void **state) {
    (void)state;
    char header[128], flags[160];
    snprintf(header, sizeof header, "%s/with space.h", temp_dir);
    snprintf(flags, sizeof flags, "-include '%s'", header);
    for (int i = 1; i <= 2; i++) {
        FILE *f = fopen(header, "w");
        assert_non_null(f);
        fprintf(f, "#define VALUE %d\n%s", i, i == 2 ? "\n" : "");
        fclose(f);
        dlsh_cc_job job = job_of("double f(double x) { return x + VALUE; }");
        dlsh_cc_result r;
        job.flags = flags;
        assert_int_equal(compile(&job, &r), DL_OK);
        assert_false(r.cached);
        assert_true(call(&r) == 3 + i);
        dlsh_cc_result_free(&r);
    }
}

static void places_errors(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
        int line, col, width, more;
    } wrong[] = {
        {"int f(void) { return nothing; }", "'nothing' undeclared", 3, 4 + 21, 7, 0},
        {"\n  int f(void) {\n    return 1 +;\n}", "expected expression before ';'", 5, 15, 1, 0},
        {"int f(void) { return g(1); }", "implicit declaration of function 'g'", 3, 4 + 21, 1, 0},
        {"int *f(void) { return 5; }", "makes pointer from integer", 3, 4 + 22, 1, 0},
        {"#include <no_such_header.h>\nint f(void) { return 1; }", "no_such_header.h: No such file", 3, 4 + 9, 17, 0},
        {"int f(void) { return a + b; }", "'a' undeclared", 3, 4 + 21, 1, 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        dlsh_cc_job job = job_of(wrong[i].text);
        dlsh_cc_result r;
        assert_int_equal(compile(&job, &r), DL_ERR_SYNTAX);
        if (!strstr(dl_errmsg(), wrong[i].message)) fail_msg("'%s' lacks '%s'", dl_errmsg(), wrong[i].message);
        assert_true(r.nmessages > wrong[i].more);
        assert_int_equal(r.messages[0].line, wrong[i].line);
        assert_int_equal(r.messages[0].col, wrong[i].col);
        if (!strstr(wrong[i].text, "include")) assert_int_equal(r.messages[0].width, wrong[i].width);
        assert_true(access(r.path, F_OK) != 0);
        dlsh_cc_result_free(&r);
    }
}

static void other_compilers(void **state) {
    (void)state;
    static const char *const names[] = {"clang", "tcc", "gcc -std=c11"};
    for (int i = 0; i < 3; i++) {
        char name[32], path[256];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(names[i], " "), names[i]);
        if (!dlsh_spawn_find(name, path, sizeof path)) {
            print_message("no %s here\n", name);
            continue;
        }
        dlsh_cc_job job = job_of("double f(double x) { return 2 * x; }"),
                    bad = job_of("\ndouble f(double x) { return y; }");
        dlsh_cc_result r;
        job.compiler = bad.compiler = names[i];
        if (compile(&job, &r)) fail_msg("%s: %s", names[i], dl_errmsg());
        assert_true(call(&r) == 6);
        dlsh_cc_result_free(&r);
        assert_int_equal(compile(&bad, &r), DL_ERR_SYNTAX);
        assert_int_equal(r.messages[0].line, 4);
        assert_non_null(strstr(r.messages[0].text, "y"));
        dlsh_cc_result_free(&r);
    }
    char key[DLSH_CC_KEY];
    dlsh_cc_job job = job_of("int x;");
    job.compiler = "no-such-compiler -O2";
    assert_int_equal(dlsh_cc_key(&job, 0, key), DL_ERR_IO);
    assert_non_null(strstr(dl_errmsg(), "no program 'no-such-compiler'"));
}

static void words(void **state) {
    (void)state;
    char **argv = NULL;
    int argc = 0;
    assert_int_equal(dlsh_cc_words(" -a 'b c' d\\ e \"f\\\"g\"'' ", &argv, &argc), DL_OK);
    assert_int_equal(argc, 4);
    assert_string_equal(argv[1], "b c");
    assert_string_equal(argv[2], "d e");
    assert_string_equal(argv[3], "f\"g");
    dlsh_cc_words_free(argv);
    argv = NULL;
    argc = 0;
    assert_int_equal(dlsh_cc_words("-a 'b", &argv, &argc), DL_ERR_VALUE);
    dlsh_cc_words_free(argv);
}

/* nvcc shows the line with its macros written out, and a caret: the column is found where the text is the same. */
static void columns_of_nvcc(void **state) {
    (void)state;
    static const char cuda[] = " one();\n\nextern \"C\"\n#line 2 \"<C>\"\n__global__ void k(float *x) { x[t.q] = 1; }\n"
                               "#line 3 \"<C>\"\n\tint f(int a) { return a + nope; }\nint m(int a) { return Z(a); }\n";
    static const char said[] = "<C>(2): error: class \"uint3\" has no member \"q\"\n"
                               "  __attribute__((global)) void k(float *x) { x[t.q] = 1; }\n"
                               "                                                 ^\n\n"
                               "<C>(3): error: identifier \"nope\" is undefined\n"
                               "   int f(int a) { return a + nope; }\n"
                               "                             ^\n\n"
                               "<C>(4): error: identifier \"zilch\" is undefined\n"
                               "  int m(int a) { return (a + zilch); }\n"
                               "                             ^\n\n"
                               "other.h(3): error: identifier \"far\" is undefined\n"
                               "  int far;\n"
                               "      ^\n\n"
                               "3 errors detected in the compilation of \"1.cu\".\n";
    dlsh_cc_job job = {.cuda = 1, .text = cuda, .len = sizeof cuda - 1, .file = "<c>", .line = 10, .col = 7};
    dlsh_cc_result r = {0};
    assert_int_equal(dlsh_cc_read_messages(&job, said, sizeof said - 1, &r), DL_OK);
    static const struct { int line, col, width; } want[] = {{11, 35, 1}, {12, 28, 4}, {13, 0, 1}, {0, 0, 1}};
    assert_int_equal(r.nmessages, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(r.messages[i].line, want[i].line);
        assert_int_equal(r.messages[i].col, want[i].col);
        assert_int_equal(r.messages[i].width, want[i].width);
    }
    dlsh_cc_result_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiles_and_caches), cmocka_unit_test(follows_headers), cmocka_unit_test(places_errors),
        cmocka_unit_test(other_compilers),     cmocka_unit_test(words),           cmocka_unit_test(columns_of_nvcc)};
    return cmocka_run_group_tests(tests, make_cache, temp_remove);
}
