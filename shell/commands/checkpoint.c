/* Files of weights and states: save, load, checkpoint. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands/history/redo.h"
#include "commands/nets/load_names.h"
#include "commands/nets/nets.h"
#include "commands/record_file.h"

/* ---------------------------------------------------------------- save */

static dl_status save_tensor(dl_tensor *t, const char *path) {
    const char *name = *dl_tensor_name(t) ? dl_tensor_name(t) : "tensor",
               *meta[] = {"dlsh.version", dl_version(), NULL};
    return dl_tensors_write(path, DL_HOLDS_TENSOR, 1, &name, &t, meta);
}

static dl_status save_picture(const dlsh_args *a, dlsh_value v, const char *path) {
    if (v.type != DLSH_TENSOR)
        return dlsh_arg_fail(a, "quality", DL_ERR_TYPE, "save x \"x.jpg\" quality=90", "quality is for pictures");
    long quality = dlsh_arg_int(a, "quality");
    if (quality < 1 || quality > 100)
        return dlsh_arg_fail(a, "quality", DL_ERR_VALUE, NULL, "quality=%ld; it is 1 to 100", quality);
    return dl_picture_write(path, v.as.tensor, (int)quality);
}

static dl_status save_run(const dlsh_args *a) {
    dlsh_value v = *dlsh_arg(a, "what");
    const char *path = dlsh_arg_str(a, "file");
    dl_module *m = dlsh_unwrap(v, &dlsh_net_class);
    if (m) return dl_module_save(m, path, NULL);
    dl_trainer *t = dlsh_unwrap(v, &dlsh_trainer_class);
    if (t) return dl_trainer_save(t, path);
    if (dlsh_given(a, "quality")) return save_picture(a, v, path);
    return v.type == DLSH_TENSOR ? save_tensor(v.as.tensor, path) : dlsh_save_state(v.as.record, path);
}

/* ---------------------------------------------------------------- load */

static dl_status record_of(const dl_tensor_file *f, dlsh_value *out) {
    DLSH_DROPPED dlsh_value r = dlsh_new_record();
    for (long i = 0; i < dl_tensor_file_count(f); i++)
        DLSH_TRY(dlsh_record_add(r, dl_tensor_file_name(f, i), dlsh_tensor(dl_ref(dl_tensor_file_at(f, i)))));
    return dlsh_hand_over(&r, out);
}

static dl_status value_of(const dl_stored *s, dlsh_value *out);

static dl_status list_of(const dl_stored *s, dlsh_value *out) {
    DLSH_DROPPED dlsh_value l = dlsh_new_list(s->n);
    for (long i = 0; i < s->n; i++) {
        dlsh_value v = dlsh_none();
        DLSH_TRY(value_of(&s->items[i], &v));
        DLSH_TRY(dlsh_append(l, v));
    }
    return dlsh_hand_over(&l, out);
}

static dl_status fields_of(const dl_stored *s, dlsh_value *out) {
    DLSH_DROPPED dlsh_value r = dlsh_new_record();
    for (long i = 0; i < s->n; i++) {
        dlsh_value v = dlsh_none();
        DLSH_TRY(value_of(&s->items[i], &v));
        DLSH_TRY(dlsh_record_add(r, s->keys[i], v));
    }
    return dlsh_hand_over(&r, out);
}

/* Of a file that holds more than named tensors. */
static dl_status value_of(const dl_stored *s, dlsh_value *out) {
    switch (s->kind) {
    case DL_STORED_BOOL: return dlsh_give(dlsh_bool(s->i != 0), out);
    case DL_STORED_INT: return dlsh_give(dlsh_int(s->i), out);
    case DL_STORED_FLOAT: return dlsh_give(dlsh_float(s->f), out);
    case DL_STORED_TEXT: return dlsh_give(dlsh_string(s->text), out);
    case DL_STORED_TENSOR: return dlsh_give(dlsh_tensor(dl_ref(s->tensor)), out);
    case DL_STORED_LIST: return list_of(s, out);
    case DL_STORED_RECORD: return fields_of(s, out);
    case DL_STORED_NONE: break;
    }
    return dlsh_give(dlsh_none(), out);
}

/* A net whose layers the file describes; of one with a forward of its own it has the weights alone. */
static int holds_chain(const dl_tensor_file *f) {
    const char *forward = dl_tensor_file_meta(f, "dlsh.forward");
    return dl_tensor_file_meta(f, "dlsh.model") && !dl_tensor_file_meta(f, "dlsh.trainer") &&
           !(forward && !strcmp(forward, "own"));
}

/* What the file holds: an array, a net with its weights, or a record of tensors. */
static dl_status open_file(const dlsh_args *a, const char *path, dlsh_value *out) {
    dl_tensor_file *f = dl_tensors_read(path, dlsh_default_device());
    if (!f) return dl_failed();
    if (dl_tensor_file_count(f) == 1 && !*dl_tensor_file_name(f, 0)) { /* .npy, a picture */
        dl_tensor *t = dl_ref(dl_tensor_file_at(f, 0));
        dl_tensor_file_free(f);
        return dlsh_give(dlsh_tensor(t), out);
    }
    if (dl_tensor_file_meta(f, "dlsh.record")) {
        dl_status st = dlsh_record_open(f, out);
        dl_tensor_file_free(f);
        return st ? dl_error_of_file(path) : st;
    }
    if (dl_tensor_file_value(f)) {
        dl_status given = value_of(dl_tensor_file_value(f), out);
        dl_tensor_file_free(f);
        return given;
    }
    int net = holds_chain(f);
    dl_status st = net ? DL_OK : record_of(f, out);
    const char *name, *why;
    for (long i = 0; !net && (name = dl_tensor_file_skipped(f, i, &why)); i++)
        dlsh_warn(dlsh_arg_session(a), NULL, "tensor '%s' is left out: %s", name, why);
    dl_tensor_file_free(f);
    if (!net) return st;
    return dlsh_give(dlsh_new_handle(&dlsh_net_class, dl_module_open(path, dlsh_default_device())), out);
}

static dl_status load_picture(const dlsh_args *a, const char *path, dlsh_value *out) {
    static const char *const modes[] = {"unchanged", "gray", "rgb", "rgba"}; /* as dl_picture_mode */
    long most = dlsh_given(a, "max_pixels") ? dlsh_arg_int(a, "max_pixels") : DL_MAX_PIXELS;
    int mode = 0;
    while (strcmp(modes[mode], dlsh_arg_str(a, "mode"))) mode++;
    if (most < 1) return dlsh_arg_fail(a, "max_pixels", DL_ERR_VALUE, NULL, "max_pixels=%ld; it is at least 1", most);
    return dlsh_give(
        dlsh_tensor(dl_picture_read(path, (dl_picture_mode)mode, dlsh_arg_bool(a, "apply_exif_orientation"), most,
                                    dlsh_default_device())),
        out);
}

static int picture_options_given(const dlsh_args *a) {
    return dlsh_given(a, "mode") || dlsh_given(a, "apply_exif_orientation") || dlsh_given(a, "max_pixels");
}

static dl_status load_renamed(const dlsh_args *a, dl_module *m, const char *path, dlsh_value *result) {
    dlsh_load_names how = dlsh_load_names_of(a);
    DLSH_ENDED(dl_tensor_file_free) dl_tensor_file *f = dl_tensors_read(path, 0);
    return f ? dlsh_load_named(&how, m, f, path, result) : dl_failed();
}

/* The variable r, or a record in it, r.teacher; NULL. */
static const dlsh_value *value_at(const dlsh_args *a, const char *path) {
    char copy[240], *rest = NULL;
    if (strlen(path) >= sizeof copy) return NULL;
    strcpy(copy, path);
    const char *name = strtok_r(copy, ".", &rest);
    const dlsh_value *v = name ? dlsh_get(dlsh_arg_session(a), name) : NULL;
    while (v && (name = strtok_r(NULL, ".", &rest)))
        v = v->type == DLSH_RECORD ? dlsh_record_get(v->as.record, name) : NULL;
    return v;
}

/* `load m r`: there is no file r, but a record with weights. */
static dl_status record_for_file(const dlsh_args *a, const char *path) {
    const dlsh_value *v = value_at(a, path);
    if (!v || v->type != DLSH_RECORD || !access(path, F_OK)) return DL_OK;
    char hint[120];
    snprintf(hint, sizeof hint, "weights of a record go into a net with m.load_state(%.60s)", path);
    return dlsh_arg_fail(a, "file", DL_ERR_TYPE, hint, "there is no file '%.60s', it is a record", path);
}

static dl_status load_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_value v = *dlsh_arg(a, "what");
    const char *path = dlsh_arg_str(a, "file");
    if (v.type == DLSH_STR) {
        if (path)
            return dlsh_arg_fail(a, "what", DL_ERR_TYPE, "load m \"FILE\"", "a file is loaded into a net or trainer");
        return picture_options_given(a) ? load_picture(a, v.as.str->s, result) : open_file(a, v.as.str->s, result);
    }
    if (picture_options_given(a))
        return dlsh_arg_fail(a, "what", DL_ERR_TYPE, "x = load(\"x.png\", mode=\"rgb\")",
                             "mode, apply_exif_orientation and max_pixels are for pictures");
    if (!path) return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "load m \"m.safetensors\"", "load needs the name of a file");
    DLSH_TRY(record_for_file(a, path));
    dl_module *m = dlsh_unwrap(v, &dlsh_net_class);
    if (dlsh_load_names_given(a)) {
        if (m) return load_renamed(a, m, path, result);
        return dlsh_arg_fail(a, "what", DL_ERR_TYPE, NULL, "strict, map, by and transpose are for loading into a net");
    }
    if (v.type == DLSH_RECORD) {
        DLSH_TRY(dlsh_record_load(v.as.record, path));
        *result = dlsh_ref(v);
        return DL_OK;
    }
    *result = dlsh_none();
    return m ? dl_module_load(m, path) : dl_trainer_load(dlsh_unwrap(v, &dlsh_trainer_class), path);
}

/* ---------------------------------------------------------------- checkpoint */

static dl_status checkpoint_save(const dlsh_args *a) {
    return dl_trainer_save(dlsh_arg_handle(a, "trainer", &dlsh_trainer_class), dlsh_arg_str(a, "file"));
}

static dl_status checkpoint_resume(const dlsh_args *a) {
    dl_trainer *t = dlsh_arg_handle(a, "trainer", &dlsh_trainer_class);
    DLSH_TRY(dl_trainer_load(t, dlsh_arg_str(a, "file")));
    dl_trainer_state s = dlsh_trainer_state(t);
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
    DLSH_ROW(
        "save", DLSH_ACTION, save_run, "save VALUE FILE",
        "Writes a net, a trainer, a tensor or a record in the format that the ending of the name chooses: "
        ".safetensors (also without an ending), .npz for tensors, .npy for one tensor, .png and .jpg for one picture "
        "[channels, height, width] of u8, or of numbers from 0 to 1. A record may hold tensors, "
        "nets, optimizers, loaders, rng_state(), numbers, strings, lists and records. The file is written whole or "
        "not at all.",
        DLSH_PARAMS({"what", .want = "net|trainer|tensor|record", .doc = "a net, a trainer, a tensor or a record"},
                    {"file", DLSH_ARG_WORD,
                     .doc =
                         "its place; the ending chooses .safetensors, .npz (tensors), .npy (one tensor), .png or .jpg "
                         "(a picture)",
                     .complete = "file"}),
        DLSH_OPTIONS({"quality", DLSH_OPT_INT, "75", .doc = "of a JPEG, 1 to 100"}),
        .examples = "save m \"m.safetensors\"\nsave record(m=m, o=o, rng=rng_state(), step=100) \"loop.safetensors\""),
    DLSH_ROW(
        "load", DLSH_ACTION | DLSH_FUNCTION, load_run, "load NET|TRAINER|RECORD FILE, or load(FILE)",
        "Reads weights into a net, or a checkpoint into a trainer or a record of nets, optimizers, loaders, "
        "rng_state() "
        "and numbers; or gives what a file holds: a net, a record (.safetensors, .npz), an array (.npy), a picture "
        "(.png, .jpg: u8 [channels, height, width]), tensors, "
        "numbers and strings that PyTorch saved (.pt, .pth) or Python pickled (.pkl); code in such files is not run. "
        "The "
        "content decides the format; a name that says otherwise is an error. With strict=false, map, by or transpose a "
        "report "
        "tells what matched, and is the result of the function.",
        DLSH_PARAMS(
            {"what", .want = "net|trainer|record|string", .doc = "what to load into; or the file alone, in quotes"},
            {"file", DLSH_ARG_WORD, .flags = DLSH_OPTIONAL, .doc = "the file", .complete = "file"}),
        DLSH_OPTIONS(DLSH_LOAD_OPTIONS,
                     {"mode", DLSH_OPT_WORD, "unchanged", .doc = "channels of a picture; unchanged: those of the file",
                      .complete = "unchanged|gray|rgb|rgba"},
                     {"apply_exif_orientation", DLSH_OPT_BOOL, "false", .doc = "turn a picture as its camera noted"},
                     {"max_pixels", DLSH_OPT_INT, NULL, .doc = "a picture of more is an error; default 178956970"}),
        .examples = "load m \"m.safetensors\"\nm = load(\"m.safetensors\")\nx = load(\"cat.png\", mode=\"rgb\")\nload "
                    "m \"torch.safetensors\" strict=false "
                    "map={\"0.weight\": \"conv0.weight\"}\nload m \"torch.safetensors\" by=order\nload record(m=m, "
                    "o=o, rng=rng_state()) \"loop.safetensors\""),
    DLSH_ROW(
        "checkpoint", DLSH_ACTION, NULL, "checkpoint save|resume TRAINER FILE",
        "Saves the whole state of a training, or resumes a training exactly from it. The function checkpoint(FN, X...) "
        "is recompute.",
        DLSH_PARAMS({"what", DLSH_ARG_SUBCOMMAND, .doc = "save or resume"}), .subs = checkpoint_subs,
        .function = "recompute", .examples = "checkpoint save t t.safetensors"),
    {0}};
