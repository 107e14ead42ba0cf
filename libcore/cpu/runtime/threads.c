/* How many threads the library's kernels may use. OpenMP's own setting, which OpenBLAS and oneDNN follow too. */
#include <omp.h>

#include "core/error.h"
#include "dlcore.h"

int dl_threads(void) { return omp_get_max_threads(); }

dl_status dl_threads_set(int n) {
    if (n < 1 || n > 1024)
        return dl_fail_hint(DL_ERR_VALUE, "the number of processors is a good choice",
                            "threads must be 1 to 1024, got %d", n);
    omp_set_num_threads(n);
    return DL_OK;
}
