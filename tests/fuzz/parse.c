/* Fuzz target: any text parses or fails; its tree can be dumped; completeness agrees with it. */
#include <assert.h>
#include <stdint.h>

#include "fuzz/fuzz.h"
#include "lang/parse/parse.h"
#include "lang/rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dlsh_syntax_error err;
    if (size > 1 << 16) return 0;
    dlsh_unit *u = dlsh_unit_new("fuzz", (const char *)data, size);
    assert(u);
    if (!dlsh_parse(u, find_test_row, NULL, &err)) {
        dlsh_buf b = {0};
        dlsh_dump(&b, u->root);
        dlsh_buf_free(&b);
    } else {
        assert(err.message[0]);
        assert(err.span.start >= 0 && err.span.start <= (int)size && err.span.line >= 1 && err.span.col >= 1);
    }
    dlsh_unit_drop(u);
    return 0;
}
