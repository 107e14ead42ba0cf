/* rescue: saving what a session holds after C has crashed in it. Memory may be damaged, so every object is saved on its
 * own, in a guarded call. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands/context.h"
#include "commands/nets.h"
#include "ffi/guard.h"

typedef struct saving {
    dlsh_session *s;
    const char *name;
    dlsh_value v;
    char path[512];
    dl_status st;
} saving;

static void save_one(void *arg) {
    saving *k = arg;
    dlsh_value values[2] = {k->v, dlsh_string(k->path)}, out = dlsh_void();
    dlsh_callargs args = {.n = 2, .values = values};
    k->st = dlsh_call_row(k->s, dlsh_find_row(k->s, "save", 4), &args, &out);
    dlsh_drop(out);
    dlsh_drop(values[1]);
}

/* How a value is kept: the ending of its file, "" in the file of plain values, NULL not at all. */
static const char *ending_of(dlsh_value v) {
    if (v.type == DLSH_TENSOR || dlsh_unwrap(v, &dlsh_net_class)) return ".safetensors";
    if (dlsh_unwrap(v, &dlsh_trainer_class)) return ".checkpoint.safetensors";
    return v.type <= DLSH_RECORD && v.type != DLSH_VOID ? "" : NULL;
}

static dl_status save_plain(const char *folder, const dlsh_record *plain, int n) {
    char path[512];
    dlsh_buf b = {0};
    if (!n) return DL_OK;
    dl_status st = dlsh_json(&b, (dlsh_value){.type = DLSH_RECORD, .as.record = (dlsh_record *)plain});
    snprintf(path, sizeof path, "%s/values.json", folder);
    if (!st) st = dlsh_buf_write(&b, path);
    dlsh_buf_free(&b);
    return st;
}

static dl_status make_folder(const char *folder) {
    if (!mkdir(folder, 0777) || errno == EEXIST) return DL_OK;
    return dlsh_fail(DL_ERR_IO, NULL, "the folder %s cannot be made: %s", folder, strerror(errno));
}

static dl_status rescue_run(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    dlsh_session *s = dlsh_arg_session(a);
    dlsh_sink *out = dlsh_arg_sink(a);
    const char *folder = dlsh_arg_str(a, "folder");
    DLSH_TRY(make_folder(folder));
    dlsh_value plain = dlsh_new_record();
    if (dlsh_failed(plain)) return dlsh_failure();
    int saved = 0, lost = 0, nplain = 0;
    for (int i = 0; i < dlsh_global_count(s); i++) {
        const dlsh_value *v;
        saving k = {.s = s, .name = dlsh_global_at(s, i, &v)};
        const char *ending = v && strcmp(k.name, "_") ? ending_of(*v) : NULL;
        if (!ending) continue;
        if (!*ending) {
            if (!dlsh_record_set(plain.as.record, k.name, dlsh_ref(*v))) nplain++;
            continue;
        }
        k.v = *v;
        snprintf(k.path, sizeof k.path, "%s/%s%s", folder, k.name, ending);
        dl_status st = dlsh_guard_run("rescue", save_one, &k);
        if (!st) st = k.st;
        if (!st) {
            saved++;
            dlsh_put(out, "%s\n", k.path);
        } else {
            lost++;
            dlsh_warn(s, NULL, "%s could not be saved: %s", k.name, dl_errmsg());
            dl_error_clear();
        }
    }
    dl_status st = save_plain(folder, plain.as.record, nplain);
    dlsh_drop(plain);
    if (!st) dlsh_put(out, "%d saved, %d plain values in values.json%s\n", saved, nplain, lost ? ", some lost" : "");
    return st;
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

static const dlsh_param rescue_params[] = {
    {.name = "folder", .kind = DLSH_ARG_WORD, .doc = "where to; made when missing", .complete = "file"}, {0}};

const dlsh_command rescue_commands[] = {
    {.name = "rescue",
     .flags = DLSH_ACTION,
     .usage = "rescue FOLDER",
     .doc = "Saves all tensors, nets and trainers of the session, each in a file of its own, and plain values in "
            "values.json. Meant for a session in which C has crashed: what cannot be saved is left out.",
     .params = rescue_params,
     .run = rescue_run,
     .examples = "rescue \"after_crash\""},
    {0}};
