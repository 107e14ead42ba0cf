/* Fuzz target: any text parses as C declarations or fails at a place in it, as a person's prototypes and as a header;
 * a text that failed has entered nothing. */
#include <assert.h>
#include <stdint.h>

#include "fuzz/fuzz.h"
#include "ffi/cparse/proto.h"

static void parse(const char *text, size_t size, unsigned flags) {
    dlsh_cspace *c = dlsh_cspace_new();
    dlsh_cdecls d = {0};
    dlsh_cerror e;
    assert(c);
    if (dlsh_c_parse(c, text, size, flags, &d, &e)) {
        assert(e.message[0] && e.line >= 1 && e.col >= 1 && e.offset >= 0 && e.offset <= (int)size);
        assert(d.n == 0 && dlsh_c_savepoint(c) == 0);
    } else {
        dlsh_c_enter_macros(c, &d);
    }
    for (int i = 0; i < d.n; i++) {
        assert(d.items[i].type && d.items[i].name);
        dlsh_buf b = {0};
        dlsh_c_print(&b, d.items[i].type, d.items[i].name);
        dlsh_buf_free(&b);
    }
    dlsh_cdecls_free(&d);
    dlsh_cspace_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    dlsh_cerror e;
    if (size > 1 << 14) return 0;
    parse(text, size, 0);
    parse(text, size, DLSH_C_LENIENT | DLSH_C_MACROS);
    dlsh_cspace *c = dlsh_cspace_new();
    assert(c);
    dlsh_c_parse_type(c, text, size, &e);
    dlsh_cspace_free(c);
    return 0;
}
