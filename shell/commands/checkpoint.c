/* Files of weights and states: save, load, checkpoint. */
#include <stdlib.h>
#include <string.h>

#include "commands/context.h"
#include "commands/nets.h"

/* ---------------------------------------------------------------- save */

/* A record of tensors as one file. */
static dl_status save_record(const dlsh_args *a, const dlsh_record *r, const char *path) {
    dl_tensor **t = calloc((size_t)r->n + 1, sizeof *t);
    if (!t) return dlsh_fail(DL_ERR_MEMORY, NULL, "no memory for a list of tensors");
    dl_status st = DL_OK;
    for (int i = 0; i < r->n && st == DL_OK; i++) {
        if (r->values[i].type == DLSH_TENSOR)
            t[i] = r->values[i].as.tensor;
        else
            st = dlsh_arg_fail(a, "what", DL_ERR_TYPE, NULL, "only tensors can be saved; field '%s' is: %s", r->keys[i],
                               dlsh_type_name(r->values[i]));
    }
    const char *meta[] = {"dlsh.version", dl_version(), NULL};
    if (st == DL_OK) st = dl_tensors_write(path, DL_HOLDS_RECORD, r->n, (const char *const *)r->keys, t, meta);
    free(t);
    return st;
}

static dl_status save_tensor(dl_tensor *t, const char *path) {
    const char *name = *dl_tensor_name(t) ? dl_tensor_name(t) : "tensor",
               *meta[] = {"dlsh.version", dl_version(), NULL};
    return dl_tensors_write(path, DL_HOLDS_TENSOR, 1, &name, &t, meta);
}

static dl_status save_run(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    dlsh_value v = *dlsh_arg(a, "what");
    const char *path = dlsh_arg_str(a, "file");
    dl_module *m = dlsh_unwrap(v, &dlsh_net_class);
    if (m) return dl_module_save(m, path, NULL);
    dl_trainer *t = dlsh_unwrap(v, &dlsh_trainer_class);
    if (t) return dl_trainer_save(t, path);
    return v.type == DLSH_TENSOR ? save_tensor(v.as.tensor, path) : save_record(a, v.as.record, path);
}

/* ---------------------------------------------------------------- load */

static dl_status record_of(const dl_tensor_file *f, dlsh_value *out) {
    dlsh_value r = dlsh_new_record();
    dl_status st = dlsh_failed(r) ? dl_failed() : DL_OK;
    for (long i = 0; i < dl_tensor_file_count(f) && st == DL_OK; i++)
        st = dlsh_record_set(r.as.record, dl_tensor_file_name(f, i), dlsh_tensor(dl_ref(dl_tensor_file_at(f, i))));
    return dlsh_give_filled(st, r, out);
}

/* What the file holds: an array, a net with its weights, or a record of tensors. */
static dl_status open_file(const dlsh_args *a, const char *path, dlsh_value *out) {
    dl_tensor_file *f = dl_tensors_read(path, dlsh_default_device());
    if (!f) return dl_failed();
    if (!strcmp(dl_tensor_file_format(f), "npy")) {
        dl_tensor *t = dl_ref(dl_tensor_file_at(f, 0));
        dl_tensor_file_free(f);
        return dlsh_give(dlsh_tensor(t), out);
    }
    int net = dl_tensor_file_meta(f, "dlsh.model") && !dl_tensor_file_meta(f, "dlsh.trainer");
    dl_status st = net ? DL_OK : record_of(f, out);
    const char *name, *why;
    for (long i = 0; !net && (name = dl_tensor_file_skipped(f, i, &why)); i++)
        dlsh_warn(dlsh_arg_session(a), NULL, "tensor '%s' is left out: %s", name, why);
    dl_tensor_file_free(f);
    if (!net) return st;
    return dlsh_give(dlsh_new_handle(&dlsh_net_class, dl_module_open(path, dlsh_default_device())), out);
}

static dl_status load_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_value v = *dlsh_arg(a, "what");
    const char *path = dlsh_arg_str(a, "file");
    if (v.type == DLSH_STR) {
        if (path)
            return dlsh_arg_fail(a, "what", DL_ERR_TYPE, "load m \"FILE\"", "a file is loaded into a net or trainer");
        return open_file(a, v.as.str->s, result);
    }
    if (!path) return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "load m \"m.safetensors\"", "load needs the name of a file");
    dl_module *m = dlsh_unwrap(v, &dlsh_net_class);
    *result = dlsh_none();
    return m ? dl_module_load(m, path) : dl_trainer_load(dlsh_unwrap(v, &dlsh_trainer_class), path);
}

/* ---------------------------------------------------------------- checkpoint */

static dl_status checkpoint_save(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    return dl_trainer_save(dlsh_arg_handle(a, "trainer", &dlsh_trainer_class), dlsh_arg_str(a, "file"));
}

static dl_status checkpoint_resume(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    dl_trainer *t = dlsh_arg_handle(a, "trainer", &dlsh_trainer_class);
    DLSH_TRY(dl_trainer_load(t, dlsh_arg_str(a, "file")));
    dl_trainer_state s;
    dl_trainer_get(t, &s);
    dlsh_put(dlsh_arg_sink(a), "goes on after step %ld\n", s.step);
    return DL_OK;
}

static const dlsh_param checkpoint_params[] = {{"trainer", .want = "trainer", .doc = "what trains"},
                                               {"file", DLSH_ARG_WORD, .doc = "the checkpoint", .complete = "file"},
                                               {0}};
static const dlsh_command checkpoint_subs[] = {
    DLSH_ROW("save", DLSH_ACTION, checkpoint_save, "checkpoint save TRAINER FILE",
             "Writes what an exact resumption needs: weights, optimizer, random streams, position in the data.",
             .params = checkpoint_params, .examples = "checkpoint save t t.safetensors"),
    DLSH_ROW("resume", DLSH_ACTION, checkpoint_resume, "checkpoint resume TRAINER FILE",
             "Resumes from a checkpoint, with a trainer made like the one that saved it; the run is continued.",
             .params = checkpoint_params, .examples = "checkpoint resume t t.safetensors"),
    {0}};

const dlsh_command checkpoint_commands[] = {
    DLSH_ROW("save", DLSH_ACTION, save_run, "save VALUE FILE",
             "Writes a net, a trainer, a tensor or a record of tensors in the format that the ending of the name "
             "chooses: .safetensors (also without an ending), .npz for tensors, .npy for one tensor. The file is "
             "written whole or not at all.",
             DLSH_PARAMS({"what", .want = "net|trainer|tensor|record",
                          .doc = "a net, a trainer, a tensor or a record of tensors"},
                         {"file", DLSH_ARG_WORD,
                          .doc = "its place; the ending chooses .safetensors, .npz (tensors) or .npy (one tensor)",
                          .complete = "file"}),
             .examples = "save m \"m.safetensors\""),
    DLSH_ROW(
        "load", DLSH_ACTION | DLSH_FUNCTION, load_run, "load NET|TRAINER FILE, or load(FILE)",
        "Reads weights into a net; or gives what a file holds: a net, a record of tensors (.safetensors, .npz), an "
        "array (.npy). The content decides the format; a name that says otherwise is an error.",
        DLSH_PARAMS({"what", .want = "net|trainer|string", .doc = "what to load into; or the file alone, in quotes"},
                    {"file", DLSH_ARG_WORD, .flags = DLSH_OPTIONAL, .doc = "the file", .complete = "file"}),
        .examples = "load m \"m.safetensors\"\nm = load(\"m.safetensors\")"),
    DLSH_ROW("checkpoint", DLSH_ACTION, NULL, "checkpoint save|resume TRAINER FILE",
             "Saves the whole state of a training, or resumes a training exactly from it.",
             DLSH_PARAMS({"what", DLSH_ARG_SUBCOMMAND, .doc = "save or resume"}), .subs = checkpoint_subs,
             .examples = "checkpoint save t t.safetensors"),
    {0}};
