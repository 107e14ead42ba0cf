/* The experiment store of the process, opened on first use; the script that runs; the default device. */
#include "commands/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "view/console.h"

static struct {
    char *file; /* NULL: not chosen */
    dl_store *store;
    dlsh_session *session; /* that is told of waits; NULL: the console is */
    char *tensorboard;     /* NULL: none */
    char *path, *text, *args;
    dlsh_origin origin;
    dlsh_script_args script_args;
    char error[512];
} context = {.origin = {"", "", ""}};

const char *dlsh_store_file(void) {
    if (context.file) return context.file;
    const char *env = getenv("DLSH_DB");
    return env && *env ? env : "experiments.db";
}

const char *dlsh_store_shown(void) {
    static char shown[1024];
    dl_store_shown(dlsh_store_file(), shown, sizeof shown);
    return shown;
}

int dlsh_store_there(void) {
    const char *file = dlsh_store_file();
    return dl_store_on_server(file) || !access(file, R_OK);
}

static void tell_wait(void *unused DLSH_UNUSED, const char *text) {
    if (context.session)
        dlsh_warn(context.session, NULL, "%s", text);
    else
        dlsh_console_say("%s", text);
}

void dlsh_store_told_to(dlsh_session *s) {
    context.session = s;
    dl_store_on_wait(tell_wait, NULL);
}

dl_store *dlsh_store(dlsh_session *s) {
    if (s && s != context.session) dlsh_store_told_to(s);
    if (!context.store) context.store = dl_store_open(dlsh_store_file());
    if (context.store && s) dlsh_store_warnings(s);
    return dl_store_in_use(context.store);
}

void dlsh_store_warnings(dlsh_session *s) {
    char text[512];
    dl_store *const all[] = {context.store, dl_store_in_use(context.store)};
    for (int i = 0; i < 2; i++)
        while (all[i] && dl_store_warning(all[i], text, sizeof text)) dlsh_warn(s, NULL, "%s", text);
}

dl_status dlsh_store_close(void) {
    dl_store *store = context.store;
    context.store = NULL;
    return store ? dl_store_close(store) : DL_OK;
}

const char *dlsh_ended_by(void) { return context.error[0] ? context.error : NULL; }

void dlsh_end_by(const char *error) { snprintf(context.error, sizeof context.error, "%s", error ? error : ""); }

/* A copy of text in *to, whose former contents are freed. */
static dl_status set_text(char **to, const char *text) {
    char *copy = strdup(text ? text : "");
    if (!copy) return dlsh_no_memory("a text");
    free(*to);
    *to = copy;
    return DL_OK;
}

dl_status dlsh_store_choose(const char *path) {
    dl_status closed = dlsh_store_close();
    DLSH_TRY(set_text(&context.file, path));
    return closed;
}

const char *dlsh_tensorboard(void) { return context.tensorboard ? context.tensorboard : "none"; }
dl_status dlsh_tensorboard_choose(const char *folder) { return set_text(&context.tensorboard, folder); }

const dlsh_origin *dlsh_origin_get(void) { return &context.origin; }

dl_status dlsh_origin_set(const dlsh_origin *o) {
    DLSH_TRY(set_text(&context.path, o->path));
    context.origin.path = context.path;
    DLSH_TRY(set_text(&context.text, o->text));
    context.origin.text = context.text;
    DLSH_TRY(set_text(&context.args, o->args));
    context.origin.args = context.args;
    return DL_OK;
}

dlsh_script_args *dlsh_script_args_get(void) { return &context.script_args; }

dl_status dlsh_device_choose(const char *name) {
    int device;
    DLSH_TRY(dl_device_parse(name, &device));
    /* creating a tensor shows whether this build and machine have the device */
    DLSH_OWNED dl_tensor *probe = dl_tensor_zeros(0, NULL, DL_F32, device);
    if (!probe) return dl_failed();
    dlsh_set_default_device(device);
    return DL_OK;
}
