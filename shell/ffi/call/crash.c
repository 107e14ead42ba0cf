/* The message for a call that did not return: signal, function, source line. */
#define _GNU_SOURCE
#include "ffi/compiler/compile.h"
#include "ffi/call/guard.h"
#include "ffi/compiler/spawn.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "lang/session.h"

static const struct {
    int signal, code;
    const char *what;
} causes[] = {
    {SIGSEGV, 0, "invalid memory access (SIGSEGV)"},
    {SIGBUS, BUS_ADRALN, "unaligned memory access (SIGBUS)"},
    {SIGBUS, 0, "access to memory that is not there (SIGBUS)"},
    {SIGFPE, FPE_INTDIV, "integer division by zero (SIGFPE)"},
    {SIGFPE, FPE_INTOVF, "integer overflow (SIGFPE)"},
    {SIGFPE, 0, "arithmetic error (SIGFPE)"},
    {SIGILL, 0, "invalid instruction (SIGILL)"},
    {SIGABRT, 0, "abort (SIGABRT): it called abort() or an assertion failed"},
    {SIGTRAP, 0, "breakpoint (SIGTRAP)"},
    {SIGINT, 0, "interrupted"},
};

/* Was the address near the end of the thread's stack, and the stack pointer, too? */
static int overflowed(const dlsh_crash *c) {
    enum { NEAR = 256 << 10, FAR = 64 << 20, CLOSE = 64 << 10 };
    pthread_attr_t attr;
    void *low = NULL;
    size_t size = 0;
    uintptr_t at = (uintptr_t)c->address, sp = (uintptr_t)c->sp;
    if (c->signal != SIGSEGV) return 0;
    if (c->thread) return at + CLOSE >= sp && at < sp + CLOSE; /* another's: nothing but its stack ends there */
    if (pthread_getattr_np(pthread_self(), &attr)) return 0;
    int known = !pthread_attr_getstack(&attr, &low, &size);
    pthread_attr_destroy(&attr);
    uintptr_t end = (uintptr_t)low;
    return known && at + FAR >= end && at < end + NEAR && sp + FAR >= end && sp < end + NEAR;
}

static const char *cause_of(const dlsh_crash *c) {
    if (overflowed(c)) return "stack overflow (SIGSEGV)";
    for (size_t i = 0; i < DLSH_COUNT(causes); i++)
        if (causes[i].signal == c->signal && (!causes[i].code || causes[i].code == c->code)) return causes[i].what;
    return "a signal";
}

/* "sq at <c>:1": function and line of an offset in a library, from addr2line. 0: not known. */
static int locate(const char *path, uintptr_t offset, char *out, size_t size) {
    char program[256], at[32], function[128], place[256];
    if (!dlsh_spawn_find("addr2line", program, sizeof program)) return 0;
    snprintf(at, sizeof at, "0x%lx", (unsigned long)offset);
    char *argv[] = {"addr2line", "-f", "-s", "-e", (char *)path, at, NULL};
    dlsh_output said = {.limit = 4096};
    int status = 0, ok = 0;
    if (!dlsh_spawn_read(program, argv, 0, &said, &status) && WIFEXITED(status) && !WEXITSTATUS(status))
        ok = sscanf(dlsh_buf_text(&said.text), "%127[^\n]\n%255[^\n]", function, place) == 2 && place[0] != '?' &&
             !strstr(place, ":?");
    dl_error_clear();
    dlsh_buf_free(&said.text);
    if (!ok) return 0;
    char *extra = strstr(place, " (discriminator");
    if (extra) *extra = 0;
    int within, from;
    const char *file = dlsh_cc_origin(path, &from);
    if (file && sscanf(place, DLSH_CC_FILE ":%d", &within) == 1)
        snprintf(out, size, "%s at %s:%d", function, file, from + within - 1);
    else
        snprintf(out, size, "%s at %s", function, place);
    return 1;
}

/* Describes an address: by function and line in code compiled here, else by the nearest symbol. called: it is a return
 * address. *compiled: the code was compiled here. 0: nothing is known. */
static int place_of(void *address, int called, int *compiled, char *out, size_t size) {
    Dl_info info;
    int line;
    *compiled = 0;
    if (!dladdr((char *)address - called, &info) || !info.dli_fname) return 0;
    uintptr_t offset = (uintptr_t)address - (uintptr_t)called - (uintptr_t)info.dli_fbase;
    *compiled = dlsh_cc_origin(info.dli_fname, &line) != NULL;
    if (*compiled && locate(info.dli_fname, offset, out, size)) return 1;
    const char *slash = strrchr(info.dli_fname, '/'), *lib = slash ? slash + 1 : info.dli_fname;
    if (info.dli_sname)
        snprintf(out, size, "%s+%lu of %s", info.dli_sname, (unsigned long)((char *)address - (char *)info.dli_saddr),
                 lib);
    else
        snprintf(out, size, "%s+0x%lx", lib, (unsigned long)offset);
    return 1;
}

/* ", in strlen+13 of libc.so.6, called from f at <c>:1" */
static void places(const dlsh_crash *c, char *out, size_t size) {
    char at[400];
    int compiled = 0;
    size_t n = 0;
    out[0] = 0;
    if (c->signal != SIGABRT && place_of(c->pc, 0, &compiled, at, sizeof at)) /* abort() itself tells nothing */
        n = (size_t)snprintf(out, size, ", in %s", at);
    for (int i = 1; !compiled && i < c->n && n < size; i++)
        if (place_of(c->frames[i], 1, &compiled, at, sizeof at) && compiled)
            snprintf(out + n, size - n, "%s %s", n ? ", called from" : ", in", at);
}

dl_status dlsh_crash_tell(const dlsh_crash *c, const char *name, char *line, int size) {
    char where[420], address[40] = "";
    places(c, where, sizeof where);
    if ((c->signal == SIGSEGV && c->code != SI_KERNEL) || c->signal == SIGBUS)
        snprintf(address, sizeof address, " at address 0x%lx", (unsigned long)c->address);
    if (c->signal == SIGSEGV && c->code == SI_KERNEL) snprintf(address, sizeof address, " at a wild address");
    char thread[80] = "";
    if (c->thread) snprintf(thread, sizeof thread, "thread %d, which C has started, was stopped: ", c->thread);
    snprintf(line, (size_t)size, "%s: %s%s%s%s", name, thread, cause_of(c), address, where);
    return dlsh_fail(c->signal == SIGINT ? DL_ERR_INTERRUPT : DL_ERR_CRASH,
                     "memory may be damaged: `rescue \"FOLDER\"` saves what there is; then start again", "%s", line);
}
