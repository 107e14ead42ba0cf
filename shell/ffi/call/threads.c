/* Threads that a C block starts get a stack for signal handlers, so that an overflow of their stack is handled like any
 * other crash. A handler cannot run on a full stack, and only the thread itself can set another one; so calls of
 * pthread_create in the block go to a wrapper that does this first. */
#define _GNU_SOURCE /* memmem */
#include "ffi/compiler/compile.h"

#include <string.h>

int dlsh_cc_starts_threads(const dlsh_cc_job *job) {
    return !job->cuda && memmem(job->text, job->len, "pthread_create", sizeof "pthread_create" - 1) != NULL;
}

/* Appended to the block's text; the linker option --wrap directs the calls here. */
const char dlsh_cc_threads[] =
    "#include <pthread.h>\n"
    "#include <signal.h>\n"
    "#include <stdlib.h>\n"
    "int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);\n"
    "struct dlsh_thread_start { void *(*run)(void *); void *arg; };\n"
    "#ifdef SA_ONSTACK\n"
    "static void dlsh_thread_end(void *stack) {\n"
    "    stack_t off = {.ss_flags = SS_DISABLE};\n"
    "    sigaltstack(&off, 0);\n"
    "    free(stack);\n"
    "}\n"
    "static void *dlsh_thread_run(void *p) {\n"
    "    struct dlsh_thread_start start = *(struct dlsh_thread_start *)p;\n"
    "    stack_t own = {.ss_size = 128 << 10};\n"
    "    void *result;\n"
    "    free(p);\n"
    "    own.ss_sp = malloc(own.ss_size);\n"
    "    if (own.ss_sp) sigaltstack(&own, 0);\n"
    "    pthread_cleanup_push(dlsh_thread_end, own.ss_sp);\n"
    "    result = start.run(start.arg);\n"
    "    pthread_cleanup_pop(1);\n"
    "    return result;\n"
    "}\n"
    "#endif\n"
    "int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*run)(void *), void *arg) {\n"
    "#ifdef SA_ONSTACK\n"
    "    struct dlsh_thread_start *start = malloc(sizeof *start);\n"
    "    int error;\n"
    "    if (start) {\n"
    "        *start = (struct dlsh_thread_start){run, arg};\n"
    "        error = __real_pthread_create(id, attr, dlsh_thread_run, start);\n"
    "        if (error) free(start);\n"
    "        return error;\n"
    "    }\n"
    "#endif\n"
    "    return __real_pthread_create(id, attr, run, arg);\n"
    "}\n";
