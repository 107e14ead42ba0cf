/* Calls that crash or never end come back with an error that says where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include "ffi/compiler/compile.h"
#include "ffi/call/guard.h"
#include "lang/session.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
#if defined(__SANITIZE_THREAD__)
enum { SIGNALS_WAIT = 1 }; /* until the code waits or locks */
#else
enum { SIGNALS_WAIT = 0 };
#endif

static const char text[] = "#include <stdlib.h>\n"
                           "#include <string.h>\n"
                           "#include <unistd.h>\n"
                           "static int at(int *p) { return *p; }\n"
                           "int null(void) { return at(0); }\n"               /* line 5, or 4 where inlined from */
                           "int divide(volatile int d) { return 100 / d; }\n" /* 6 */
                           "int give_up(void) { abort(); return 1; }\n"       /* 7 */
                           "int deep(int n) {\n"                              /* 8 */
                           "    volatile char big[4096]; big[0] = (char)n;\n" /* 9 */
                           "    return deep(n + 1) + big[0];\n"
                           "}\n"
                           "void loop(void) { for (volatile int i = 1; i; i ^= 2) {} }\n" /* 12 */
                           "int outside(const char *s) { return (int)strlen(s) + 1; }\n"  /* 13 */
                           "void doze(void) { sleep(30); }\n"                             /* 14 */
                           "void churn(void) { for (;;) free(malloc(100)); }\n"           /* 15 */
                           "int fine(void) { return 7; }\n"
                           "int illegal(void) { __builtin_trap(); return 1; }\n" /* 17 */
                           "void again(void (*f)(void)) { for (;;) f(); }\n"
                           "#include <signal.h>\n" /* 19 */
                           "void blocks(void) {\n"
                           "    sigset_t all; sigfillset(&all); sigdelset(&all, SIGABRT);\n"
                           "    sigprocmask(SIG_BLOCK, &all, 0); abort();\n" /* 22 */
                           "}\n";

static void *so;

static int load(void **state) {
    (void)state;
    char key[DLSH_CC_KEY];
    setenv("XDG_CACHE_HOME", "/proc/none", 1);
    dlsh_cc_job job = {.text = text, .len = sizeof text - 1, .file = "<c>", .line = 1, .col = 1, .flags = "-w"};
    dlsh_cc_result r;
    if (dlsh_cc_key(&job, 0, key) || dlsh_cc_compile(&job, key, &r)) fail_msg("%s", dl_errmsg());
    so = dlopen(r.path, RTLD_NOW | RTLD_LOCAL);
    dlsh_cc_result_free(&r);
    return so ? 0 : -1;
}

static int argument, result;
static void with_int(void *f) { result = ((int (*)(int))f)(argument); }
/* The language's part of a callback, in which nearly all of the time is spent. */
static void called_back(void) {
    dlsh_guard_leave();
    usleep(500);
    dlsh_guard_enter();
}
static void with_callback(void *f) { ((void (*)(void (*)(void)))f)(called_back); }
static void with_pointer(void *f) { result = ((int (*)(const char *))f)(NULL); }

static dl_status call(const char *name, void (*how)(void *)) {
    void *f = dlsym(so, name);
    assert_non_null(f);
    return dlsh_guard_run(name, how, f);
}

static void crashes(const char *name, void (*how)(void *), const char *cause, const char *place) {
    int before = dlsh_damaged(NULL);
    assert_int_equal(call(name, how), DL_ERR_CRASH);
    const char *said = dl_errmsg();
    if (!strstr(said, name) || !strstr(said, cause) || !strstr(said, place))
        fail_msg("'%s' lacks '%s', '%s' or '%s'", said, name, cause, place);
    assert_int_equal(dlsh_damaged(NULL), before + 1);
    argument = 0;
    assert_int_equal(call("fine", with_int), DL_OK); /* the session still works */
    assert_int_equal(result, 7);
}

static void signals(void) {
    crashes("null", with_int, "SIGSEGV) at address", "<c>:");
    argument = 0;
    crashes("divide", with_int, "division by zero (SIGFPE)", "divide at <c>:6");
    crashes("give_up", with_int, "SIGABRT", "give_up at <c>:7");
    crashes("give_up", with_int, "SIGABRT", "give_up at <c>:7"); /* abort works twice */
    crashes("blocks", with_int, "SIGABRT", "blocks at <c>:22");  /* signals that it has blocked are reported, too */
    crashes("outside", with_pointer, "SIGSEGV", "called from outside at <c>:13");
    crashes("illegal", with_int, "SIGILL", "illegal at <c>:17");
}

static void overflown_stack(void) {
    if (SANITIZED) return;
    for (int i = 0; i < 2; i++) crashes("deep", with_int, "SIGSEGV", "deep at <c>:");
}

static void *press(void *arg) {
    pthread_t *main_thread = arg;
    usleep(100000);
    pthread_kill(*main_thread, SIGINT);
    return NULL;
}

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void interrupted(const char *name, double at_most, int may_return) {
    pthread_t self = pthread_self(), other;
    /* what waits is measured by the wall, what works by the processor, which others may hold */
    clockid_t clock = strcmp(name, "loop") && strcmp(name, "churn") ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID;
    double began = now(clock);
    assert_int_equal(pthread_create(&other, NULL, press, &self), 0);
    dl_status st = call(name, strcmp(name, "again") ? with_int : with_callback);
    if (may_return && st == DL_OK)
        assert_true(dl_interrupt_get()); /* a system call ended early, and then C itself */
    else if (st != DL_ERR_INTERRUPT || !strstr(dl_errmsg(), name))
        fail_msg("%s: %d, '%s'", name, (int)st, dl_errmsg());
    if (now(clock) - began > at_most) fail_msg("%s took %.2f s", name, now(clock) - began);
    pthread_join(other, NULL);
    dl_interrupt_set(0);
    assert_int_equal(call("fine", with_int), DL_OK);
    free(malloc(100)); /* its lock is free */
}

static void endless(void) {
    interrupted("doze", 3, 1);
    interrupted("again", 3, 0);
    if (SIGNALS_WAIT) return;
    interrupted("loop", 1, 0);
    interrupted("churn", 3, 0);
    interrupted("churn", 3, 0);
}

/* A crash in C that was called from a callback comes back to the inner call. */
static void inner(void *arg) {
    (void)arg;
    dlsh_guard_leave();
    argument = 0;
    assert_int_equal(call("divide", with_int), DL_ERR_CRASH);
    dlsh_guard_enter();
    result = 11;
}

static void nested(void) {
    assert_int_equal(dlsh_guard_run("outer", inner, NULL), DL_OK);
    assert_int_equal(result, 11);
}

static void *in_thread(void *arg) {
    argument = 0;
    *(dl_status *)arg = call("divide", with_int);
    return NULL;
}

static void other_thread(void) {
    pthread_t t;
    dl_status st = DL_OK;
    assert_int_equal(pthread_create(&t, NULL, in_thread, &st), 0);
    pthread_join(t, NULL);
    assert_int_equal(st, DL_ERR_CRASH);
}

/* One test of cmocka's: each of them puts its own handlers in place of the guard's. */
static void guarded(void **state) {
    (void)state;
    signals();
    overflown_stack();
    endless();
    nested();
    other_thread();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(guarded)};
    return cmocka_run_group_tests(tests, load, NULL);
}
