/* The threads of parallel regions, made sure of before a region starts: when the system refuses a thread, or OpenBLAS
 * the address space of its buffers, these libraries end the process or wait for ever instead of failing. */
#ifndef DL_CPU_TEAM_H
#define DL_CPU_TEAM_H

#include <stddef.h>

/* How many threads a parallel region begun by this thread may have: OpenMP's setting, lowered to what the system lets
 * start. Tried once for each setting. */
int dl_cpu_team(void);
/* Parallel regions begun by this thread, those of libraries too, have n threads at most from now on. Returns what was
 * the limit before, to be given to dl_cpu_team_limit afterwards. No region of one thread serves for this: in one,
 * OpenMP starts new threads for every region of a library. */
int dl_cpu_team_limit(int n);

#endif
