/* dlsh: the program. */
#include "front/front.h"

#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* these are not set up so early */
static int sets(const char *entry, const char *name) {
    size_t n = strlen(name);
    return !strncmp(entry, name, n) && entry[n] == '=';
}

/* A waiting OpenMP thread spins for some 14 ms before it sleeps, which starves all threads as soon as another program
 * wants the processor: a training step then takes ten times as long. Even 0.1 ms doubles it. So no thread spins: waking
 * one takes some 10 us, and only work of 50 us and more has several. libgomp reads the setting when it is loaded, so
 * the program starts itself again, before any library is initialised. */
static void limit_spinning(DLSH_UNUSED int argc, char **argv, char **envp) {
    enum { MAX = 4096 };
    static char *env[MAX];
    int n = 0;
    for (; envp[n]; n++) {
        if (n == MAX - 2 || sets(envp[n], "GOMP_SPINCOUNT") || sets(envp[n], "OMP_WAIT_POLICY") ||
            sets(envp[n], "LD_PRELOAD")) /* the user chose; or a tool such as valgrind, which would not follow execve */
            return;
        env[n] = envp[n];
    }
    env[n] = (char *)"GOMP_SPINCOUNT=0";
    execve((const char *)getauxval(AT_EXECFN), argv, env); /* if it fails, the program is only slower */
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **, char **) = limit_spinning;
#endif

int main(int argc, char **argv) { return dlsh_main(argc, argv); }
