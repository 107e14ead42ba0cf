/* Signals in guarded calls. The handler runs on a stack of its own, notes what happened and jumps back; everything that
 * is not safe in a handler is done afterwards. */
#define _GNU_SOURCE
#include "ffi/guard.h"

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

#include "lang/session.h"

typedef struct frame {
    sigjmp_buf env;
    struct frame *outer;
    int callbacks; /* that were running when the call began */
} frame;

/* The calls that callbacks running now have been called from. */
enum { MAX_CALLBACKS = 256 };
static _Thread_local frame *left[MAX_CALLBACKS];
static _Thread_local int nleft;

static _Thread_local frame *volatile current;
static _Thread_local dlsh_crash crash;
static _Thread_local volatile sig_atomic_t tracing; /* the handler is walking the stack, which may crash in turn */

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { NFAULT = sizeof faults / sizeof *faults };
static struct sigaction former[NFAULT], former_interrupt;

static int damages;
static char last_damage[512];

int dlsh_damaged(const char **what) {
    if (what) *what = last_damage;
    return damages;
}

/* ---------------------------------------------------------------- where it is safe to jump from
 * Ctrl-C must not tear the C library out of malloc: its lock would stay taken. So a call is left only while the
 * processor is outside of everything that was loaded when the guard began: in the user's own code. When that never
 * happens, a call that sleeps for example, it is left after a while nonetheless. */

enum { MAX_RANGES = 512, PERIOD_MS = 20, PATIENCE = 40 };
static struct { uintptr_t from, to; } ours[MAX_RANGES];
static int nours;

static int note_module(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    (void)arg;
    for (int i = 0; i < info->dlpi_phnum && nours < MAX_RANGES; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
        ours[nours].from = info->dlpi_addr + p->p_vaddr;
        ours[nours++].to = info->dlpi_addr + p->p_vaddr + p->p_memsz;
    }
    return 0;
}

static int is_ours(uintptr_t pc) {
    for (int i = 0; i < nours; i++)
        if (pc >= ours[i].from && pc < ours[i].to) return 1;
    return 0;
}

/* ---------------------------------------------------------------- handlers */

static void *pc_of(const void *context) {
    const ucontext_t *u = context;
#if defined(__x86_64__)
    return (void *)u->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (void *)u->uc_mcontext.pc;
#else
    (void)u;
    return NULL;
#endif
}

/* Notes the stack down to the fault: the frames of the handler itself come first and are left out. */
static void trace(const void *context) {
    void *all[DLSH_CRASH_FRAMES + 8];
    crash.pc = pc_of(context);
    crash.frames[0] = crash.pc;
    crash.n = 1;
    if (tracing) return;
    tracing = 1;
    int n = backtrace(all, DLSH_CRASH_FRAMES + 8), at = 0;
    while (at < n && all[at] != crash.pc) at++;
    for (at++; at < n && crash.n < DLSH_CRASH_FRAMES; at++) crash.frames[crash.n++] = all[at];
    tracing = 0;
}

static void leave(int sig) {
    frame *f = current;
    current = f->outer;
    tracing = 0;
    siglongjmp(f->env, sig);
}

static void on_fault(int sig, siginfo_t *info, void *context) {
    if (!current) { /* not C that was called from the shell: as if there were no guard */
        for (int i = 0; i < NFAULT; i++)
            if (faults[i] == sig) sigaction(sig, &former[i], NULL);
        if (info->si_code <= 0) raise(sig); /* sent by a program; a fault happens again by itself */
        return;
    }
    if (!tracing) { /* a fault of the tracing itself must not replace the one it was to describe */
        crash = (dlsh_crash){.signal = sig, .code = info->si_code, .address = info->si_addr};
        trace(context);
    }
    leave(sig);
}

#define TICK (SIGRTMIN + 4)
static timer_t timer;
static int has_timer;
static volatile sig_atomic_t ticking, ticks;

static void tick(int on) {
    ticking = on;
    if (on) ticks = 0;
    struct itimerspec t = {.it_value = {0, on ? PERIOD_MS * 1000000L : 0},
                           .it_interval = {0, on ? PERIOD_MS * 1000000L : 0}};
    if (has_timer) timer_settime(timer, 0, &t, NULL);
}

/* Leaves the call when that is safe, or has to be. */
static void try_to_leave(const void *context) {
    uintptr_t pc = (uintptr_t)pc_of(context);
    if (is_ours(pc) && has_timer && (!ticking || ticks < PATIENCE)) {
        if (!ticking) tick(1);
        return;
    }
    tick(0);
    crash = (dlsh_crash){.signal = SIGINT};
    trace(context);
    leave(SIGINT);
}

static void on_tick(int sig, siginfo_t *info, void *context) {
    (void)sig;
    (void)info;
    ticks++;
    if (current && dl_interrupt_get()) try_to_leave(context);
}

static pthread_t guarded_thread; /* the one that runs guarded C; meaningful while `guarding` */
static volatile sig_atomic_t guarding;

static void on_interrupt(int sig, siginfo_t *info, void *context) {
    if (former_interrupt.sa_flags & SA_SIGINFO)
        former_interrupt.sa_sigaction(sig, info, context);
    else if (former_interrupt.sa_handler != SIG_IGN && former_interrupt.sa_handler != SIG_DFL)
        former_interrupt.sa_handler(sig);
    else
        dlsh_interrupt();
    if (current) {
        if (!dl_interrupt_get()) return; /* the front did not take it for what runs now */
        try_to_leave(context);
    } else if (guarding && !pthread_equal(guarded_thread, pthread_self()) && info->si_code != SI_TKILL) {
        pthread_kill(guarded_thread, sig);
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
    dl_iterate_phdr(note_module, NULL);
    for (int i = 0; i < NFAULT; i++) install(faults[i], on_fault, SA_NODEFER, &former[i]);
    install(TICK, on_tick, SA_NODEFER | SA_RESTART, NULL);
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = TICK};
    has_timer = !timer_create(CLOCK_MONOTONIC, &e, &timer);
    /* a front that wants interrupted writes to go on gets that here, too */
    sigaction(SIGINT, NULL, &former_interrupt);
    install(SIGINT, on_interrupt, SA_NODEFER | (former_interrupt.sa_flags & SA_RESTART), &former_interrupt);
}

/* A stack for handlers, so that a stack that has overflowed can be left. Kept as long as the thread lives. */
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

static _Thread_local int ready;

static dl_status prepare(void) {
    enum { STACK = 128 << 10 };
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    stack_t now, s = {.ss_size = STACK};
    if (!sigaltstack(NULL, &now) && now.ss_flags & SS_DISABLE) {
        s.ss_sp = malloc(STACK);
        if (!s.ss_sp) return dlsh_fail(DL_ERR_MEMORY, NULL, "no memory for a stack of signal handlers");
        sigaltstack(&s, NULL);
        pthread_setspecific(stack_key, s.ss_sp);
    }
    ready = 1;
    return DL_OK;
}

/* ---------------------------------------------------------------- calls */

/* After a jump: nothing of the call is left but what the handler noted. */
static dl_status lost(const char *name) {
    damages++;
    if (ticking) tick(0);
    return dlsh_crash_tell(&crash, name, last_damage, sizeof last_damage);
}

dl_status dlsh_guard_run(const char *name, void (*fn)(void *), void *arg) {
    if (__builtin_expect(!ready, 0)) DLSH_TRY(prepare());
    frame f = {.outer = current, .callbacks = nleft};
    if (sigsetjmp(f.env, 0)) {
        guarding = current != NULL;
        nleft = f.callbacks;
        return lost(name);
    }
    guarded_thread = pthread_self();
    guarding = 1;
    current = &f;
    fn(arg);
    current = f.outer;
    guarding = f.outer != NULL;
    if (__builtin_expect(ticking, 0)) tick(0);
    return DL_OK;
}

void dlsh_guard_leave(void) {
    if (nleft < MAX_CALLBACKS) left[nleft] = current;
    nleft++;
    current = NULL;
    guarding = 0;
}

void dlsh_guard_enter(void) {
    nleft--;
    current = nleft < MAX_CALLBACKS ? left[nleft] : NULL; /* beyond that depth C runs bare */
    guarded_thread = pthread_self();
    guarding = current != NULL;
    /* interrupted in the callback: C is not told and may call on for ever, and ticks may always come while it calls */
    if (!guarding || !has_timer || !dl_interrupt_get()) return;
    if (!ticking)
        tick(1);
    else if (ticks >= PATIENCE)
        raise(TICK);
}

static void load(void) {
    if (!ready && prepare()) dl_error_clear(); /* the call will try it again */
}

static dl_status run(void (*body)(void *), void *arg, const dlsh_cfunc *f) {
    return dlsh_guard_run(dlsh_cfunc_proto(f)->name, body, arg);
}

const dlsh_cguard dlsh_guard = {run, dlsh_guard_leave, dlsh_guard_enter, load};
