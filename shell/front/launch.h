/* Programs that start others many times over, such as mpirun: what they say of it in the environment. */
#ifndef DLSH_FRONT_LAUNCH_H
#define DLSH_FRONT_LAUNCH_H

/* A session is one process. When a launcher started several, all but rank 0 are to stop here: a message is written to
 * standard error, and the exit status returned; -1: go on. DLSH_RANKS=independent lets each go on by itself. The status
 * is 0, because launchers end all processes, and with them the one that works, when one reports a failure. */
int dlsh_launch_stops(void);

#endif
