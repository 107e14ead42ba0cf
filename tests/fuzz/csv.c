/* Fuzz target: CSV tables from any bytes, the first of which chooses separator and header. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "data/tables/csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const headers[] = {"auto", "yes", "no"};
    if (!size) return 0;
    dl_csv_spec spec = {*data & 128  ? "0, -1"
                        : *data & 16 ? "1"
                                     : "",
                        headers[*data % 3], *data & 32 ? ';' : ',', *data & 64};
    dl_csv_table t;
    if (dl_csv_table_read("fuzz", (const char *)data + 1, size - 1, &spec, &t) == DL_OK) {
        volatile double sum = 0;
        for (long i = 0; i < t.n * t.features; i++) sum = sum + (spec.whole ? (double)t.whole[i] : (double)t.x[i]);
        for (long i = 0; i < t.n * t.labels; i++) sum = sum + (double)strlen(t.label[i]);
    }
    dl_csv_table_free(&t);
    return 0;
}
