/* Files of a user that outlive sessions: the history of the prompt, that of notebooks, lessons that were finished. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands/context.h"

char *dlsh_state_file(const char *name) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    DLSH_SCOPED_BUF folder = {0}, path = {0};
    if (state && *state)
        dlsh_buf_puts(&folder, state);
    else if (home && *home)
        dlsh_buf_printf(&folder, "%s/.local/state", home);
    struct stat st;
    int have = folder.n && !stat(dlsh_buf_text(&folder), &st) && S_ISDIR(st.st_mode);
    if (!have && state && *state) have = !mkdir(state, 0700);
    if (have) {
        dlsh_buf_puts(&folder, "/dlsh");
        if (!mkdir(dlsh_buf_text(&folder), 0700) || errno == EEXIST)
            dlsh_buf_printf(&path, "%s/%s", dlsh_buf_text(&folder), name);
    }
    if (!path.n && home && *home) dlsh_buf_printf(&path, "%s/.dlsh_%s", home, name);
    return path.n ? strdup(dlsh_buf_text(&path)) : NULL;
}
