# Crashes that are not plain wild pointers: a mapped file that became shorter, and threads that C has
# started.
command -v cc >/dev/null || exit 77
cat > crash.dlsh <<'END'
extern "libc.so.6" int usleep(unsigned n);
C flags="-pthread" {
    #include <fcntl.h>
    #include <pthread.h>
    #include <stdlib.h>
    #include <sys/mman.h>
    #include <unistd.h>
    int beyond(void) {
        int fd = open("mapped", O_RDWR | O_CREAT, 0600);
        if (ftruncate(fd, 8192)) return -1;
        volatile char *p = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
        if (ftruncate(fd, 0)) return -1;
        return p[4096];
    }
    static int deref(int *p) { return *p; }
    static void *at_once(void *arg) { usleep(20000); return (void *)(long)deref(arg); }
    static void *later(void *arg) { usleep(300000); return (void *)(long)deref(arg); }
    static void *gives_up(void *arg) { abort(); return arg; }
    static void run(void *(*f)(void *), int wait) {
        pthread_t t;
        pthread_create(&t, NULL, f, NULL);
        if (wait) pthread_join(t, NULL); else pthread_detach(t);
    }
    void waits(void) { run(at_once, 1); }
    void aborts(void) { run(gives_up, 1); }
    void sleeps(void) { run(at_once, 0); sleep(20); } // left when the thread crashes
    void calls(void (*f)(void)) { pthread_t t; pthread_create(&t, NULL, at_once, NULL); f(); pthread_join(t, NULL); }
    void leaves(void) { run(later, 0); }
    int fine(void) { return 7; }
}
fn told(f) { try { f() } catch e { print(e.kind, e.message) } }
told(beyond)
fine()
told(waits)
told(waits)
told(aborts)
told(sleeps)
told(fn () { calls(fn () { usleep(20000000) }) })
told(fn () { calls(fn () { for i in range(100000000) { i + 1 } }) })
fine()
x = ones(300, 300)
(x @ x).sum().item()
leaves()
while true { x = randn(10) }
print("not reached")
END
dlsh -n --db none crash.dlsh 2>&1
echo "= $?"
echo "--- goes on with -k"
{ sed '/^told/d; /not reached/d' crash.dlsh; echo 'fine()'; } > on.dlsh
dlsh -n -k --db none on.dlsh 2>&1
echo "= $?"
echo "--- stacks, breakpoints, assertions"
cat > more.dlsh <<'END'
C { #include <assert.h>
    #include <signal.h>
    int deep(int n) { volatile char b[4096]; b[0] = (char)n; return n == 100000000 ? 0 : deep(n + 1) + b[0]; }
    int large(void) { volatile char b[20000000]; b[0] = 1; b[19999999] = 2; return b[0] + b[5]; }
    void checked(int x) {
        assert(x > 3);
    }
    void trap(void) { raise(SIGTRAP); }
    int line(void) { return __LINE__; }
    const char *file(void) { return __FILE__; }
}
fn told(f) { try { f() } catch e { print(e.message) } }
told(fn () { deep(0) })
told(large)
told(fn () { checked(1) })
told(trap)
told(fn () { isolate deep(0) })
[line(), file()]
END
dlsh -n --db none more.dlsh 2>&1 | sed 's/at address 0x[0-9a-f]*/at address A/; s/libc.so.6+0x[0-9a-f]*/libc/'
echo "--- threads of a block that overflow their stacks"
cat > threads.dlsh <<'END'
C flags="-pthread" {
    #include <pthread.h>
    #include <unistd.h>
    static int deep(int n) { volatile char b[1000]; b[0] = (char)n; return n == 100000000 ? 0 : deep(n + 1) + b[0]; }
    static void *overflows(void *arg) { return (void *)(long)deep(0); }
    static void *fine(void *arg) { return (void *)((long)arg + 1); }
    static void *exits(void *arg) { pthread_exit((void *)7); return arg; }
    static long run(void *(*f)(void *), void *arg) { pthread_t t; void *r; pthread_create(&t, NULL, f, arg); pthread_join(t, &r); return (long)r; }
    void waits(void) { run(overflows, 0); }
    long okay(long x) { return run(fine, (void *)x); }
    long leaves(void) { return run(exits, 0); }
    void later(void) { pthread_t t; pthread_create(&t, NULL, overflows, 0); pthread_detach(t); sleep(20); }
}
fn told(f) { try { f() } catch e { print(e.kind, e.message) } }
okay(41)
leaves()
told(waits)
okay(41)
told(later)
told(fn () { isolate waits() })
n = 0; for i in range(200) { n += okay(i) }; n
END
dlsh -n --db none threads.dlsh 2>&1 | sed 's/at address 0x[0-9a-f]*/at address A/; s/thread [0-9]*/thread N/'
echo "--- constructors"
cat > start.c <<'END'
#include <stdlib.h>
__attribute__((constructor)) static void start(void) { abort(); }
int f(void) { return 1; }
END
cc -shared -fPIC -o libstart.so start.c
cat > start.dlsh <<'END'
C { #include <stdlib.h>
    __attribute__((constructor)) static void start(void) {
        abort();
    }
    int g(void) { return 1; } }
extern "./libstart.so" int f(void);
C { int h(void) { return 7; } }
h()
END
dlsh -n --db none -k start.dlsh 2>&1
