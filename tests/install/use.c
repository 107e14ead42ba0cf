/* A program of someone else's that uses the installed library. */
#include <stdio.h>
#include <string.h>
#include <dlcore.h>

int main(void) {
    puts(dl_status_name(DL_ERR_SHAPE));
    return strcmp(dl_status_name(DL_ERR_SHAPE), "shape error") != 0;
}
