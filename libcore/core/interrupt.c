/* The request to stop. */
#include <signal.h>
#include "dlcore.h"

static volatile sig_atomic_t flag;

void dl_interrupt_set(int on) { flag = on; }
int dl_interrupt_get(void) { return flag; }
