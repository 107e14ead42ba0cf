/* What kernels give beside the outputs of an op. */
#include "core/aside.h"

static _Thread_local dl_tensor **wanted;

void dl_squares_want(dl_tensor **sums) { wanted = sums; }

dl_tensor **dl_squares_wanted(void) { return wanted && !*wanted ? wanted : NULL; }
