/* Launchers of several processes. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/front.h"

/* The rank and the number of processes. Where both have to be there, the rank alone says nothing: batch scripts and
 * arrays of jobs have one, too, and other programs use the name. */
static const struct launcher {
    const char *name, *rank, *size;
    int both;
} launchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", 0},
    {"mpirun", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", 0},
    {"mpiexec", "PMI_RANK", "PMI_SIZE", 0},
    {"mpiexec", "PMIX_RANK", NULL, 0},
    {"mpiexec", "PALS_RANKID", "PALS_SIZE", 0},
    {"mpiexec", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", 0},
    {"aprun", "ALPS_APP_PE", NULL, 0},
    {"jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", 0},
    {"flux run", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", 0},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", 1},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", 1},
    {"torchrun", "RANK", "WORLD_SIZE", 1},
};

/* The whole number of a variable; -1: it holds none. */
static long number(const char *variable) {
    const char *text = variable ? getenv(variable) : NULL;
    char *end;
    long n = text && *text ? strtol(text, &end, 10) : -1;
    return text && *text && !*end ? n : -1;
}

static int is_further_rank(const struct launcher *l, long *rank, long *size) {
    *rank = number(l->rank);
    *size = number(l->size);
    return *rank > 0 && (*size > *rank || (*size < 0 && !l->both));
}

int dlsh_launch_stops(void) {
    const char *ranks = getenv("DLSH_RANKS");
    if (ranks && *ranks && strcmp(ranks, "independent")) {
        fprintf(stderr, "dlsh: DLSH_RANKS=%.80s means nothing; it may be: independent\n", ranks);
        return DLSH_EXIT_USAGE;
    }
    if (ranks && *ranks) return -1;
    for (size_t i = 0; i < DLSH_COUNT(launchers); i++) {
        char of[40] = "";
        long rank, size;
        if (!is_further_rank(&launchers[i], &rank, &size)) continue;
        if (size > 0) snprintf(of, sizeof of, " of %ld", size);
        fprintf(stderr,
                "dlsh: rank %ld%s of %s stops: several processes are not supported, and rank 0 does all of the work; "
                "DLSH_RANKS=independent runs each rank by itself\n",
                rank, of, launchers[i].name);
        return DLSH_EXIT_OK;
    }
    return -1;
}
