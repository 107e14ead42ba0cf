/* Trying whether threads can be started. */
#include "cpu/runtime/team.h"

#include <omp.h>
#include <pthread.h>
#include <stdlib.h>

/* Threads started for a trial all live until the last one was. */
static void *wait_for_all(void *gate) {
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* How many of n threads can live at the same time. */
static int start(int n) {
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t *threads = malloc((size_t)n * sizeof *threads);
    int started = 0;
    if (!threads) return 0;
    pthread_mutex_lock(&gate);
    while (started < n && !pthread_create(&threads[started], NULL, wait_for_all, &gate)) started++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    free(threads);
    return started;
}

int dl_cpu_team_limit(int n) {
    int had = omp_get_max_threads();
    if (n != had) omp_set_num_threads(n);
    return had;
}

int dl_cpu_team(void) {
    static _Thread_local int sure = 1;
    int want = omp_get_max_threads();
    if (want <= sure || omp_in_parallel()) return want;
    int started = start(want - 1);
    sure = started < want - 1 ? 1 + started / 2 : want; /* half of what was left stays for other uses */
    if (sure < want) omp_set_num_threads(sure);
    return sure;
}
