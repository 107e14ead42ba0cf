/* Signals in guarded calls. The handler runs on a stack of its own, records what happened and jumps back to the call;
 * what is not safe in a handler is done afterwards. A thread that C has started has no place to jump to: it is stopped
 * for good, and the call that may be waiting for it is left. */
#define _GNU_SOURCE
#include "ffi/call/guard.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "lang/session.h"

typedef struct frame {
    sigjmp_buf env;
    struct frame *outer;
    int callbacks; /* that were running when the call began */
} frame;

/* The guarded calls from which the running callbacks were called. */
enum { MAX_CALLBACKS = 256 };
static _Thread_local frame *callback_frames[MAX_CALLBACKS];
static _Thread_local int ncallbacks;

static _Thread_local frame *volatile current;
static _Thread_local dlsh_crash crash;
static _Thread_local volatile sig_atomic_t tracing; /* the handler is walking the stack, which may crash in turn */

/* Shared by handlers and the thread that calls C; any thread may get a signal. */
#define GET(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define SET(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)
static pthread_t guarded_thread; /* the one that runs guarded C; meaningful while `guarding` */
static int guarding;
static const char *last_called = "";

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
enum { NFAULT = DLSH_COUNT(faults) };
static struct sigaction former[NFAULT], former_interrupt;

static int damages;
static char last_damage[512];

const char *dlsh_guard_running(void) { return GET(guarding) ? GET(last_called) : NULL; }

int dlsh_damaged(const char **what) {
    if (what) *what = last_damage;
    return damages;
}

/* ---------------------------------------------------------------- where it is safe to jump from
 * Ctrl-C must not tear the C library out of malloc: its lock would stay taken. So a call is left only while the
 * processor is outside of everything that was loaded when the guard began: in the user's own code. When that never
 * happens, a call that sleeps for example, it is left after a while nonetheless. */

enum { MAX_RANGES = 512, PERIOD_MS = 20, PATIENCE = 40 };
static struct { uintptr_t from, to; } initial_code[MAX_RANGES];
static int ninitial_code;

static int add_module(struct dl_phdr_info *info, DLSH_UNUSED size_t size, DLSH_UNUSED void *arg) {
    for (int i = 0; i < info->dlpi_phnum && ninitial_code < MAX_RANGES; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
        initial_code[ninitial_code].from = info->dlpi_addr + p->p_vaddr;
        initial_code[ninitial_code++].to = info->dlpi_addr + p->p_vaddr + p->p_memsz;
    }
    return 0;
}

static int is_initial_code(uintptr_t pc) {
    for (int i = 0; i < ninitial_code; i++)
        if (pc >= initial_code[i].from && pc < initial_code[i].to) return 1;
    return 0;
}

/* ---------------------------------------------------------------- handlers */

/* The program counter and stack pointer where a signal struck; NULL on other processors. */
static void read_registers(const void *context, void **pc, void **sp) {
    const ucontext_t *u = context;
#if defined(__x86_64__)
    *pc = (void *)u->uc_mcontext.gregs[REG_RIP];
    *sp = (void *)u->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    *pc = (void *)u->uc_mcontext.pc;
    *sp = (void *)u->uc_mcontext.sp;
#else
    (void)u;
    *pc = *sp = NULL;
#endif
}

/* Records the stack up to the fault, without the frames of the handler itself. */
static void trace(dlsh_crash *c, const void *context) {
    void *all[DLSH_CRASH_FRAMES + 8];
    read_registers(context, &c->pc, &c->sp);
    c->frames[0] = c->pc;
    c->n = 1;
    if (tracing) return;
    tracing = 1;
    int n = backtrace(all, DLSH_CRASH_FRAMES + 8), at = 0;
    while (at < n && all[at] != c->pc) at++;
    for (at++; at < n && c->n < DLSH_CRASH_FRAMES; at++) c->frames[c->n++] = all[at];
    tracing = 0;
}

#define TICK (SIGRTMIN + 4)

/* siglongjmp does not restore the signal mask, so that a call need not save it. The handler sets C's mask again, which
 * sanitizers extend while a handler runs, without the signals that the guard needs. */
static void jump_out(int sig, const void *context) {
    sigset_t mask = ((const ucontext_t *)context)->uc_sigmask;
    for (int i = 0; i < NFAULT; i++) sigdelset(&mask, faults[i]);
    sigdelset(&mask, SIGINT);
    sigdelset(&mask, TICK);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    frame *f = current;
    current = f->outer;
    tracing = 0;
    siglongjmp(f->env, sig);
}

static timer_t timer;
static int has_timer;
static int ticking, ticks;

static void tick(int on) {
    SET(ticking, on);
    if (on) SET(ticks, 0);
    struct itimerspec t = {.it_value = {0, on ? PERIOD_MS * 1000000L : 0},
                           .it_interval = {0, on ? PERIOD_MS * 1000000L : 0}};
    if (has_timer) timer_settime(timer, 0, &t, NULL);
}

static _Thread_local int ready;

/* ---- a crash in a thread that is not the shell's own */

enum { NO_CRASH, CRASH_BEING_WRITTEN, CRASH_PENDING }; /* WAITING: to be told */
static int thread_crash_state;                         /* atomic */
static dlsh_crash thread_crash;

static int take_thread_crash(dlsh_crash *out) {
    int waiting = CRASH_PENDING;
    if (__atomic_load_n(&thread_crash_state, __ATOMIC_ACQUIRE) != waiting) return 0;
    dlsh_crash copy = thread_crash;
    if (!__atomic_compare_exchange_n(&thread_crash_state, &waiting, NO_CRASH, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return 0;
    *out = copy;
    return 1;
}

/* Set after a call within a callback has reported a crashed thread: the calls around it may still wait for the thread.
 * */
static int reported_inside;
static dlsh_crash reported_crash;

static int thread_crash_pending(void) {
    return __atomic_load_n(&thread_crash_state, __ATOMIC_RELAXED) == CRASH_PENDING;
}

/* Jumps out of the call when that is safe, or when it was waited for long enough. */
static void try_jump_out(const void *context) {
    void *pc, *sp;
    read_registers(context, &pc, &sp);
    if (is_initial_code((uintptr_t)pc) && has_timer && (!GET(ticking) || GET(ticks) < PATIENCE)) {
        if (!GET(ticking)) tick(1);
        return;
    }
    tick(0);
    if (GET(reported_inside)) {
        crash = reported_crash;
    } else if (!take_thread_crash(&crash)) {
        crash = (dlsh_crash){.signal = SIGINT};
        trace(&crash, context);
    }
    jump_out(SIGINT, context);
}

static void on_tick(DLSH_UNUSED int sig, DLSH_UNUSED siginfo_t *info, void *context) {
    __atomic_add_fetch(&ticks, 1, __ATOMIC_RELAXED);
    if (current && (dl_interrupt_get() || thread_crash_pending() || GET(reported_inside))) try_jump_out(context);
}

/* Was the thread started by C? It was when a call is running, or when the stack has code that was loaded later. */
static int is_foreign_thread(const dlsh_crash *c) {
    if (ready || c->thread == (int)getpid()) return 0;
    int foreign = GET(guarding);
    for (int i = 0; i < c->n && !foreign; i++) foreign = !is_initial_code((uintptr_t)c->frames[i]);
    return foreign;
}

/* Stops the thread for good: what it would do next is not known, though it may hold locks. The first crash is reported.
 * */
static void stop_thread(const dlsh_crash *c) {
    sigset_t all;
    int none = NO_CRASH;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    if (__atomic_compare_exchange_n(&thread_crash_state, &none, CRASH_BEING_WRITTEN, 0, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED)) {
        thread_crash = *c;
        SET(ticks, 0);
        __atomic_store_n(&thread_crash_state, CRASH_PENDING, __ATOMIC_RELEASE);
        if (GET(guarding))
            pthread_kill(GET(guarded_thread), TICK);
        else
            dl_interrupt_set(1);
    }
    for (;;) pause();
}

/* Reports a signal that is about to end the process, when no other handler does. */
static void report_fatal(const dlsh_crash *c) {
    char text[900], where[40] = "";
    Dl_info at = {0};
    int known = c->signal != SIGABRT && dladdr(c->pc, &at) && at.dli_fname;
    const char *file = known ? strrchr(at.dli_fname, '/') : NULL, *name = known && at.dli_sname ? at.dli_sname : "";
    if (c->signal == SIGSEGV || c->signal == SIGBUS) snprintf(where, sizeof where, " at address %p", c->address);
    int n = snprintf(text, sizeof text, "\ndlsh: %s%s, thread %d%s%s%.80s%s%.120s\n", strsignal(c->signal), where,
                     c->thread, c->thread == (int)getpid() ? " (the main one)" : "", known ? ", in " : "", name,
                     *name ? " of " : "",
                     file    ? file + 1
                     : known ? at.dli_fname
                             : "");
    if (*GET(last_called))
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "dlsh: C may have damaged memory before; the function called last was %s\n", GET(last_called));
    if (damages) n += snprintf(text + n, sizeof text - (size_t)n, "dlsh: C had crashed before: %.400s\n", last_damage);
    n += snprintf(text + n, sizeof text - (size_t)n,
                  "dlsh: this session cannot go on. What its runs have logged is kept: dlsh -c runs\n");
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0) return;
}

static void on_fault(int sig, siginfo_t *info, void *context) {
    dlsh_crash c = {.signal = sig, .code = info->si_code, .address = info->si_addr};
    if (current) {
        if (!tracing) { /* a fault of the tracing itself must not replace the one it was to describe */
            crash = c;
            trace(&crash, context);
        }
        jump_out(sig, context);
    }
    c.thread = (int)gettid();
    if (!tracing) trace(&c, context);
    if (is_foreign_thread(&c)) stop_thread(&c);
    for (int i = 0; i < NFAULT; i++) /* as if there were no guard */
        if (faults[i] == sig) {
            sigaction(sig, &former[i], NULL);
            if (former[i].sa_handler == SIG_DFL && !(former[i].sa_flags & SA_SIGINFO)) report_fatal(&c);
        }
    if (info->si_code <= 0) raise(sig); /* sent by a program; a fault happens again by itself */
}

static void on_interrupt(int sig, siginfo_t *info, void *context) {
    if (former_interrupt.sa_flags & SA_SIGINFO)
        former_interrupt.sa_sigaction(sig, info, context);
    else if (former_interrupt.sa_handler != SIG_IGN && former_interrupt.sa_handler != SIG_DFL)
        former_interrupt.sa_handler(sig);
    else
        dlsh_interrupt();
    if (current) {
        if (!dl_interrupt_get()) return; /* the front did not take it for what runs now */
        try_jump_out(context);
    } else if (GET(guarding) && !pthread_equal(GET(guarded_thread), pthread_self()) && info->si_code != SI_TKILL) {
        pthread_kill(GET(guarded_thread), sig);
    }
}

/* ---------------------------------------------------------------- setting up */

static void install(int sig, void (*handler)(int, siginfo_t *, void *), int flags, struct sigaction *old) {
    struct sigaction a = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | flags};
    sigemptyset(&a.sa_mask);
    sigaction(sig, &a, old);
}

static void set_up(void) {
    void *warm[2];
    backtrace(warm, 2); /* loads what it needs, which no handler may do */
    dl_iterate_phdr(add_module, NULL);
    for (int i = 0; i < NFAULT; i++) install(faults[i], on_fault, SA_NODEFER, &former[i]);
    install(TICK, on_tick, SA_NODEFER | SA_RESTART, NULL);
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = TICK};
    has_timer = !timer_create(CLOCK_MONOTONIC, &e, &timer);
    /* keeps SA_RESTART when the prompt or kernel has set it */
    sigaction(SIGINT, NULL, &former_interrupt);
    install(SIGINT, on_interrupt, SA_NODEFER | (former_interrupt.sa_flags & SA_RESTART), &former_interrupt);
}

/* A stack for handlers, needed after a stack overflow. Freed with the thread. */
static pthread_key_t stack_key;
static void drop_stack(void *p) {
    stack_t off = {.ss_flags = SS_DISABLE};
    sigaltstack(&off, NULL);
    free(p);
}
static void make_key(void) {
    pthread_key_create(&stack_key, drop_stack);
    set_up();
}

static dl_status prepare(void) {
    enum { STACK = 128 << 10 };
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    stack_t now, s = {.ss_size = STACK};
    if (!sigaltstack(NULL, &now) && now.ss_flags & SS_DISABLE) {
        s.ss_sp = malloc(STACK);
        if (!s.ss_sp) return dlsh_no_memory("a stack of signal handlers");
        sigaltstack(&s, NULL);
        pthread_setspecific(stack_key, s.ss_sp);
    }
    ready = 1;
    return DL_OK;
}

/* ---------------------------------------------------------------- calls */

/* After a jump out of a call: counts the damage and reports the crash. */
static dl_status call_failed(const char *name) {
    damages++;
    if (GET(ticking)) tick(0);
    reported_crash = crash;
    SET(reported_inside, crash.thread && ncallbacks);
    if (crash.thread) dl_interrupt_set(0); /* which was to stop what no call could be left for */
    return dlsh_crash_tell(&crash, name, last_damage, sizeof last_damage);
}

dl_status dlsh_guard_check(void) {
    if (__builtin_expect(!thread_crash_pending(), 1)) return DL_OK;
    return take_thread_crash(&crash) ? call_failed("C") : DL_OK;
}

/* A call that was left while it printed may hold the lock of the stream, or leave it locked without an owner, so that
 * the next print would wait for ever. A lock held by another thread is left alone. */
static void free_stream(FILE *f) {
#ifdef __GLIBC__
    struct {
        int taken, depth;
        void *owner;
    } *lock = (void *)f->_lock;
    const struct timespec moment = {0, 1000000};
    for (int i = 0; i < 100; i++) {
        if (!ftrylockfile(f)) {
            if (lock->depth > 1)
                memset(lock, 0, sizeof *lock);
            else
                funlockfile(f);
            return;
        }
        if (__atomic_load_n(&lock->owner, __ATOMIC_RELAXED)) return;
        nanosleep(&moment, NULL);
    }
    memset(lock, 0, sizeof *lock);
#else
    (void)f;
#endif
}

static void free_streams(void) {
    free_stream(stdout);
    free_stream(stderr);
}

dl_status dlsh_guard_run(const char *name, void (*fn)(void *), void *arg) {
    if (__builtin_expect(!ready, 0)) DLSH_TRY(prepare());
    frame f = {.outer = current, .callbacks = ncallbacks};
    if (sigsetjmp(f.env, 0)) {
        SET(guarding, current != NULL);
        ncallbacks = f.callbacks;
        if (!current && !ncallbacks) free_streams(); /* C around the call may own them */
        return call_failed(name);
    }
    SET(guarded_thread, pthread_self());
    SET(guarding, 1);
    current = &f;
    fn(arg);
    current = f.outer;
    SET(guarding, f.outer != NULL);
    if (__builtin_expect(GET(ticking), 0)) tick(0);
    if (!ncallbacks) SET(reported_inside, 0);
    if (__builtin_expect(thread_crash_pending(), 0) && take_thread_crash(&crash)) return call_failed(name);
    return DL_OK;
}

void dlsh_guard_leave(void) {
    if (ncallbacks < MAX_CALLBACKS) callback_frames[ncallbacks] = current;
    ncallbacks++;
    current = NULL;
    SET(guarding, 0);
}

void dlsh_guard_enter(void) {
    ncallbacks--;
    current = ncallbacks < MAX_CALLBACKS ? callback_frames[ncallbacks] : NULL; /* beyond that depth C runs bare */
    SET(guarded_thread, pthread_self());
    SET(guarding, current != NULL);
    /* interrupted in the callback: C is not told, may call back for ever, and ticks may always arrive while it does */
    if (!GET(guarding) || !has_timer || !(dl_interrupt_get() || thread_crash_pending() || GET(reported_inside))) return;
    if (!GET(ticking))
        tick(1);
    else if (GET(ticks) >= PATIENCE)
        raise(TICK);
}

dl_status dlsh_guard_load(const char *what, void (*fn)(void *), void *arg) {
    SET(last_called, "a constructor");
    return dlsh_guard_run(what, fn, arg);
}

dl_status dlsh_guard_call(const dlsh_cfunc *f, void (*fn)(void *), void *arg) {
    const char *name = dlsh_cfunc_proto(f)->name; /* lives as long as the session */
    SET(last_called, name);
    return dlsh_guard_run(name, fn, arg);
}
