/* The threads of parallel regions. Whether the system lets them start is tried before a region begins, because OpenMP
 * ends the process when it is refused one. */
#pragma once

#include <stddef.h>

/* How many threads a parallel region begun by this thread may have: OpenMP's setting, lowered to what the system lets
 * start. Tried once for each setting. */
int dl_cpu_team(void);
/* Parallel regions begun by this thread, those of libraries too, have n threads at most from now on. Returns the former
 * limit, which the caller sets again afterwards. (A region of one thread around the call would not do: OpenMP starts
 * new threads for every region nested in it.) */
int dl_cpu_team_limit(int n);
