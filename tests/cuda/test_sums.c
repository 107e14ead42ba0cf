/* support/sums.h on a GPU where there is one. */
#include "support/sums.h"

int main(int argc, char **argv) { return run_sums(argc > 1 ? argv[1] : NULL); }
