/* The clock of activity, which stands still while the program waits for its user. */
#include "core/active.h"

#include <time.h>

#include "dlcore.h"

/* Twice the lag behind the monotonic clock; while idle, twice the time shown, plus 1. One word, so that threads read it
 * in one piece. */
static int64_t state;

static int64_t monotonic_us(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

double dl_seconds(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static int64_t shown(int64_t word, int64_t now) { return word & 1 ? word >> 1 : now - (word >> 1); }

int64_t dl_active_us(int *idle) {
    int64_t word = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
    if (idle) *idle = (int)(word & 1);
    return shown(word, monotonic_us());
}

void dl_idle(int on) {
    int64_t word = __atomic_load_n(&state, __ATOMIC_RELAXED), now = monotonic_us(), at = shown(word, now);
    __atomic_store_n(&state, on ? at * 2 + 1 : (now - at) * 2, __ATOMIC_RELEASE);
}
