/* The clock of activity, which dl_idle stops. */
#pragma once

#include <stdint.h>

/* Microseconds of a monotonic clock less all idle time. *idle, unless NULL: does it stand still? */
int64_t dl_active_us(int *idle);
