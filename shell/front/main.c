/* dlsh: the program. */
#include "front/front.h"

int main(int argc, char **argv) { return dlsh_main(argc, argv); }
