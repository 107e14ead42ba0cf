/* Prompts of a walk, an error and a lesson. */
#include "debug/debug.h"
#include "view/sink.h"

dl_status dlsh_debug_ask(dlsh_sink *sink, const char *prompt, dlsh_buf *line) {
    while (dlsh_input(sink, prompt, 0, line)) {
        if (!dlsh_interrupted() || !dlsh_sink_look(sink).live) return dl_failed();
        dl_interrupt_set(0);
        dl_error_clear();
        dlsh_buf_free(line);
    }
    return DL_OK;
}
