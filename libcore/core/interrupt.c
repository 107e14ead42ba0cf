/* The request to stop. */
#include "core/interrupt.h"

#include <signal.h>
#include "dlcore.h"

static volatile sig_atomic_t flag;
static __thread int held;

void dl_interrupt_set(int on) { flag = on; }
int dl_interrupt_get(void) { return held ? 0 : flag; }

int dl_interrupt_hold(int on) {
    int before = held;
    held = on;
    return before;
}
