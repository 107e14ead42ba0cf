/* How many threads the system lets this process start. */
#include "cpu/runtime/team.h"

#include <omp.h>
#include <pthread.h>
#include <stdlib.h>

/* The threads of a trial wait until the last one has been started. */
static void *wait_for_all(void *gate) {
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* How many of n threads can live at the same time. */
static int count_startable(int n) {
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
    static _Thread_local int tried = 1; /* so many threads can be started */
    int want = omp_get_max_threads();
    if (want <= tried || omp_in_parallel()) return want;
    int started = count_startable(want - 1);
    tried = started < want - 1 ? 1 + started / 2 : want; /* half of the threads that are left stay for other uses */
    if (tried < want) omp_set_num_threads(tried);
    return tried;
}
