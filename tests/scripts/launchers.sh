# Of the processes that a launcher starts, rank 0 works and the others stop; jobs of an array and scripts of a batch are
# alone.
try() {
    echo "$*"
    env "$@" dlsh -n --db none -c '1 + 1' 2>&1
    echo "status $?"
}
try OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2
try OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2
try PMI_RANK=3 PMI_SIZE=4
try PMIX_RANK=1
try FLUX_TASK_RANK=2 FLUX_JOB_SIZE=3
try PALS_RANKID=1
try MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2
try SLURM_PROCID=1 SLURM_NTASKS=2
try SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2
try SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_ARRAY_TASK_ID=3
try SLURM_PROCID=1
try RANK=1 WORLD_SIZE=2
try RANK=1 WORLD_SIZE=1
try RANK=7
try RANK=first WORLD_SIZE=second
try OMPI_COMM_WORLD_RANK=1 DLSH_RANKS=independent
try DLSH_RANKS=some
OMPI_COMM_WORLD_RANK=1 dlsh --version > version && sed 's/ .*//' version | head -1
for options in '-np 2' '--nproc=4' '-qp'; do
    dlsh $options -c 1 2>&1
    echo "status $?"
done
