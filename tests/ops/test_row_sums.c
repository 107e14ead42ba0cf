/* support/sums.h on a device that adds up results of rows in one pass, as a GPU does. */
#include "support/fake_device.h"
#include "support/sums.h"

int main(int argc, char **argv) {
    fake_register();
    by_rules = true;
    return run_sums(argc > 1 ? argv[1] : NULL);
}
