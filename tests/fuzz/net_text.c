/* Fuzz target: descriptions of nets, optimizers and schedules from any text; a net's own description reads back as
 * itself.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "dlcore.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 4096) return 0;
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    dl_module *m = dl_net_parse(text);
    if (m) {
        char *once = dl_module_text(m);
        dl_module *again = once ? dl_net_parse(once) : NULL;
        char *twice = again ? dl_module_text(again) : NULL;
        if (!once || !twice || strcmp(once, twice)) __builtin_trap();
        dl_text_free(once);
        dl_text_free(twice);
        dl_module_unref(again);
    }
    dl_module_unref(m);
    dl_optimizer_unref(dl_optimizer_parse(text));
    dl_schedule *s = dl_schedule_parse(text);
    double lr;
    if (s) dl_schedule_lr(s, 0.1, 3, 1, &lr);
    dl_schedule_unref(s);
    free(text);
    return 0;
}
