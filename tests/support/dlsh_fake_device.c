/* dlsh with a device made of the host's memory: what is not placed beside its operands fails as on a GPU. */
#include "support/fake_device.h"

#include "front/front.h"

int main(int argc, char **argv) {
    fake_register();
    return dlsh_main(argc, argv);
}
