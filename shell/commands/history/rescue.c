/* rescue: saving what a session holds after C has crashed in it. Memory may be damaged, so every object is saved on its
 * own, in a guarded call. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "commands/nets/nets.h"
#include "ffi/call/guard.h"

typedef struct saving {
    dlsh_session *s;
    const char *name;
    dlsh_value v;
    char path[4096];
    dlsh_buf json; /* of a plain value */
    dl_status st;
} saving;

static void save_one(void *arg) {
    saving *k = arg;
    dlsh_value values[2] = {k->v, dlsh_string(k->path)}, out = dlsh_void();
    dlsh_callargs args = {.n = 2, .values = values};
    k->st = dlsh_call_command(k->s, dlsh_find_command(k->s, "save", 4), &args, &out);
    dlsh_drop(out);
    dlsh_drop(values[1]);
}

static void plain_json(void *arg) {
    saving *k = arg;
    k->st = dlsh_json(&k->json, k->v);
}

static bool is_of_tensors(const dlsh_record *r) {
    bool all = r->n > 0;
    for (int i = 0; i < r->n; i++) all &= r->values[i].type == DLSH_TENSOR;
    return all;
}

/* How a value is kept: the ending of its file, "" in the file of plain values, NULL not at all. */
static const char *ending_of(dlsh_value v) {
    if (v.type == DLSH_TENSOR || dlsh_unwrap(v, &dlsh_net_class)) return ".safetensors";
    if (v.type == DLSH_RECORD && is_of_tensors(v.as.record)) return ".safetensors";
    if (dlsh_unwrap(v, &dlsh_trainer_class)) return ".checkpoint.safetensors";
    return v.type <= DLSH_RECORD && v.type != DLSH_VOID ? "" : NULL;
}

static dl_status make_folder(const char *folder) {
    struct stat info;
    char hint[240];
    if (!mkdir(folder, 0777)) return DL_OK;
    int err = errno;
    if (err == EEXIST && !stat(folder, &info)) {
        if (S_ISDIR(info.st_mode)) return DL_OK;
        err = ENOTDIR;
    }
    dl_file_remedy(folder, err, hint, sizeof hint);
    return dlsh_fail(DL_ERR_IO, hint, "the folder '%s' cannot be made: %s", folder, strerror(err));
}

/* Saves one variable; a plain one goes to `plain`, the text of values.json. */
static dl_status save_value(saving *k, const char *folder, const char *ending, dlsh_buf *plain) {
    if (snprintf(k->path, sizeof k->path, "%s/%s%s", folder, k->name, ending) >= (int)sizeof k->path)
        return dlsh_fail(DL_ERR_VALUE, "choose a shorter folder", "the path of its file is too long");
    dl_status st = dlsh_guard_run("rescue", *ending ? save_one : plain_json, k);
    if (!st) st = k->st;
    if (!st && !*ending) {
        dlsh_buf_printf(plain, "%s\"%s\":", plain->n ? ",\n" : "{", k->name);
        dlsh_buf_add(plain, dlsh_buf_text(&k->json), k->json.n);
    }
    dlsh_buf_free(&k->json);
    return st;
}

static dl_status write_plain(dlsh_buf *plain, const char *folder) {
    char path[4096];
    if (!plain->n) return DL_OK;
    dlsh_buf_puts(plain, "}");
    snprintf(path, sizeof path, "%s/values.json", folder);
    return dlsh_buf_write(plain, path);
}

static dl_status rescue_run(const dlsh_args *a) {
    dlsh_session *s = dlsh_arg_session(a);
    dlsh_sink *out = dlsh_arg_sink(a);
    const char *folder = dlsh_arg_str(a, "folder");
    DLSH_TRY(make_folder(folder));
    DLSH_SCOPED_BUF plain = {0};
    int saved = 0, lost = 0, nplain = 0;
    for (int i = 0; i < dlsh_global_count(s); i++) {
        const dlsh_value *v;
        saving k = {.s = s, .name = dlsh_global_at(s, i, &v)};
        const char *ending = v && strcmp(k.name, "_") ? ending_of(*v) : NULL;
        if (!ending) continue;
        k.v = *v;
        if (save_value(&k, folder, ending, &plain)) {
            lost++;
            dlsh_warn(s, NULL, "%s could not be saved: %s", k.name, dl_errmsg());
            dl_error_clear();
        } else if (!*ending) {
            nplain++;
        } else {
            saved++;
            dlsh_put(out, "%s\n", k.path);
        }
    }
    DLSH_TRY(write_plain(&plain, folder));
    dlsh_put(out, "%d saved, %d plain values%s%s\n", saved, nplain, nplain ? " in values.json" : "",
             lost ? ", some lost" : "");
    return DL_OK;
}

int dlsh_rescue_count(dlsh_session *s) {
    int n = 0;
    for (int i = 0; i < dlsh_global_count(s); i++) {
        const dlsh_value *v;
        const char *name = dlsh_global_at(s, i, &v), *ending = v && strcmp(name, "_") ? ending_of(*v) : NULL;
        n += ending && *ending;
    }
    return n;
}

const dlsh_command rescue_commands[] = {
    DLSH_ROW(
        "rescue", DLSH_ACTION, rescue_run, "rescue FOLDER",
        "Saves all tensors, records of tensors, nets and trainers of the session, each in a file of its own, and "
        "plain values in values.json. Meant for a session in which C has crashed: what cannot be saved is left out.",
        DLSH_PARAMS({"folder", DLSH_ARG_WORD, .doc = "where to; made when missing", .complete = "file"}),
        .examples = "rescue \"after_crash\""),
    {0}};
