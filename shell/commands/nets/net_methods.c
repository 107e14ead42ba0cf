/* Methods of nets. */
#include <stdlib.h>
#include <string.h>

#include "commands/nets/load_names.h"
#include "commands/nets/nets.h"
#include "dlcore/arithmetic.h"

/* ---------------------------------------------------------------- modes, copies, dtypes */

static dl_status set_mode(const dlsh_args *a, dlsh_value *result) {
    int on = dlsh_arg_data(a) != NULL;
    if (on && dlsh_given(a, "mode")) on = dlsh_arg_bool(a, "mode");
    dl_module_train(dlsh_arg_self(a), on);
    *result = dlsh_ref(dlsh_arg_self_value(a));
    return DL_OK;
}

static dl_status copy_run(const dlsh_args *a, dlsh_value *result) {
    return dlsh_give(dlsh_new_handle(&dlsh_net_class, dl_module_copy(dlsh_arg_self(a))), result);
}

static dl_status to_run(const dlsh_args *a, dlsh_value *result) {
    const char *word = dlsh_arg_str(a, "target");
    dl_dtype dtype;
    int device;
    if (dl_dtype_parse(word, &dtype) == DL_OK)
        DLSH_TRY(dl_module_to(dlsh_arg_self(a), dtype, -1));
    else {
        dl_error_clear();
        if (dl_device_parse(word, &device) != DL_OK)
            return dlsh_arg_fail(a, "target", DL_ERR_VALUE, "m.to(f64), m.to(\"cuda\")",
                                 "'%s' is neither a dtype nor a device", word);
        DLSH_TRY(dl_module_to(dlsh_arg_self(a), -1, device));
    }
    *result = dlsh_ref(dlsh_arg_self_value(a));
    return DL_OK;
}

/* m.double(), ...: the row names the dtype or device. */
static dl_status cast_run(const dlsh_args *a, dlsh_value *result) {
    const char *word = dlsh_arg_data(a);
    dl_dtype dtype;
    int device = -1;
    const int cast = dl_dtype_parse(word, &dtype) == DL_OK;
    if (!cast) {
        dl_error_clear();
        DLSH_TRY(dl_device_parse(word, &device));
    }
    DLSH_TRY(dl_module_to(dlsh_arg_self(a), cast ? (int)dtype : -1, device));
    *result = dlsh_ref(dlsh_arg_self_value(a));
    return DL_OK;
}

static dl_status zero_run(const dlsh_args *a) {
    DLSH_TRY(dlsh_check_none(a));
    dl_module_zero_grad(dlsh_arg_self(a));
    return DL_OK;
}

/* ---------------------------------------------------------------- tensors */

/* Which tensors a method gives, and how: in a record by path, or in a list. */
typedef struct choice {
    int what; /* as dl_module_tensors takes it */
    int record;
} choice;

static dl_status tensors_run(const dlsh_args *a, dlsh_value *result) {
    const choice *c = dlsh_arg_data(a);
    DLSH_TRY(dl_module_check_built(dlsh_arg_self(a)));
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_tensors(dlsh_arg_self(a), c->what);
    DLSH_DROPPED dlsh_value v = !l ? dlsh_void() : c->record ? dlsh_new_record() : dlsh_new_list(l->n);
    for (long i = 0; i < l->n; i++) {
        dlsh_value t = dlsh_tensor(dl_ref(l->entries[i].tensor));
        DLSH_TRY(c->record ? dlsh_record_add(v, l->entries[i].path, t) : dlsh_append(v, t));
    }
    return dlsh_hand_over(&v, result);
}

/* The tensors of a record as those of a file; NULL: a recorded failure. */
dl_tensor_file *dlsh_file_of_record(const dlsh_args *a, const dlsh_record *r) {
    DLSH_FREED dl_tensor **t = calloc((size_t)r->n + 1, sizeof(dl_tensor *));
    dl_status st = t ? DL_OK : dlsh_no_memory("a list of tensors");
    for (int i = 0; st == DL_OK && i < r->n; i++) {
        if (r->values[i].type == DLSH_TENSOR)
            t[i] = r->values[i].as.tensor;
        else
            st = dlsh_arg_fail(a, "state", DL_ERR_TYPE, NULL, "a state is a record of tensors; field '%s' is %s",
                               r->keys[i], dlsh_a(r->values[i]));
    }
    dl_tensor_file *f = st == DL_OK ? dl_tensor_file_of(r->n, (const char *const *)r->keys, t) : NULL;
    return f;
}

static dl_status load_state_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_load_names how = dlsh_load_names_of(a);
    DLSH_ENDED(dl_tensor_file_free) dl_tensor_file *f = dlsh_file_of_record(a, dlsh_arg(a, "state")->as.record);
    return !f                         ? dl_failed()
           : dlsh_load_names_given(a) ? dlsh_load_named(&how, dlsh_arg_self(a), f, "the state", result)
                                      : dl_module_load_tensors(dlsh_arg_self(a), f, "the state", NULL, NULL);
}

/* w = decay * w + (1 - decay) * the other's; integers and buffers become the other's. */
static dl_status average(dl_tensor *own, dl_tensor *other, double decay, int copied) {
    if (copied || !dl_dtype_is_float(dl_dtype_of(own))) return dl_assign(own, other);
    DLSH_OWNED dl_tensor *keep = dl_scalar_f(decay), *take = dl_scalar_f(1 - decay),
                         *a = keep ? dl_mul(own, keep) : NULL, *b = take ? dl_mul(other, take) : NULL,
                         *sum = a && b ? dl_add(a, b) : NULL;
    return sum ? dl_assign(own, sum) : dl_failed();
}

static dl_status average_run(const dlsh_args *a) {
    double decay = dlsh_arg_float(a, "decay");
    dl_module *m = dlsh_arg_handle(a, "net", &dlsh_net_class);
    if (!(decay >= 0 && decay <= 1))
        return dlsh_arg_fail(a, "decay", DL_ERR_VALUE, NULL, "decay is a number from 0 to 1, not %g", decay);
    DLSH_TRY(dl_module_check_built(dlsh_arg_self(a)));
    DLSH_TRY(dl_module_check_built(m));
    DLSH_ENDED(dl_module_list_free)
    dl_module_list *own = dl_module_tensors(dlsh_arg_self(a), 3), *other = dl_module_tensors(m, 3);
    DLSH_TRY(own && other ? DL_OK : dl_failed());
    DLSH_SCOPED_GRAD_MODE(0);
    for (long i = 0; i < own->n; i++)
        if (i >= other->n || own->n != other->n || strcmp(own->entries[i].path, other->entries[i].path))
            return dlsh_arg_fail(a, "net", DL_ERR_VALUE, "e = m.copy()", "the nets have not the same parameters");
    for (long i = 0; i < own->n; i++)
        DLSH_TRY(average(own->entries[i].tensor, other->entries[i].tensor, decay, own->entries[i].buffer));
    return DL_OK;
}

static dl_status requires_grad_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_TRY(dl_module_check_built(dlsh_arg_self(a)));
    int on = dlsh_given(a, "on") ? dlsh_arg_bool(a, "on") : 1;
    dl_module_list *l = dl_module_tensors(dlsh_arg_self(a), 1);
    dl_status st = l ? DL_OK : dl_failed();
    for (long i = 0; st == DL_OK && i < l->n; i++) st = dl_set_requires_grad(l->entries[i].tensor, on);
    dl_module_list_free(l);
    if (st == DL_OK) *result = dlsh_ref(dlsh_arg_self_value(a));
    return st;
}

/* ---------------------------------------------------------------- layers */

/* Calls visit for the layers below m at any depth; a layer that occurs twice is met twice. */
typedef dl_status visit_layer(void *ctx, const char *path, dl_module *m);
typedef struct walk {
    visit_layer *visit;
    void *ctx;
    int deep;  /* layers in layers, too */
    int after; /* contents before what holds them */
} walk;

static dl_status walk_layers(const walk *w, dl_module *m, const char *path) {
    for (int i = 0; i < dl_module_count(m); i++) {
        dl_module *c = dl_module_at(m, i);
        if (dlsh_is_net_tensor(c)) continue;
        DLSH_SCOPED_BUF b = {0};
        dlsh_buf_printf(&b, "%s%s%s", path, *path ? "." : "", dl_module_label(m, i));
        const char *below = dlsh_buf_text(&b);
        if (!w->after) DLSH_TRY(w->visit(w->ctx, below, c));
        if (w->deep) DLSH_TRY(walk_layers(w, c, below));
        if (w->after) DLSH_TRY(w->visit(w->ctx, below, c));
    }
    return DL_OK;
}

/* Puts a layer that is not there yet into a list or a record. */
static dl_status put_layer(void *ctx, const char *path, dl_module *m) {
    dlsh_value v = *(dlsh_value *)ctx;
    int n = v.type == DLSH_LIST ? v.as.list->n : v.as.record->n;
    const dlsh_value *items = v.type == DLSH_LIST ? v.as.list->items : v.as.record->values;
    for (int i = 0; i < n; i++)
        if (dlsh_unwrap(items[i], &dlsh_net_class) == m) return DL_OK;
    dlsh_value layer = dlsh_net_value(m);
    return v.type == DLSH_LIST ? dlsh_list_push(v.as.list, layer) : dlsh_record_set(v.as.record, path, layer);
}

/* Words of a row: "deep" goes into layers, "named" gives a record; with the net itself when deep. */
static dl_status layers_run(const dlsh_args *a, dlsh_value *result) {
    int deep = dlsh_has_word(dlsh_arg_data(a), "deep", 4), named = dlsh_has_word(dlsh_arg_data(a), "named", 5);
    DLSH_DROPPED dlsh_value v = named ? dlsh_new_record() : dlsh_new_list(8);
    if (dlsh_failed(v)) return dl_failed();
    dl_module *m = dlsh_arg_self(a);
    if (deep) DLSH_TRY(put_layer(&v, "", m));
    DLSH_TRY(walk_layers(&(walk){put_layer, &v, deep, 0}, m, ""));
    return dlsh_hand_over(&v, result);
}

/* Each layer once. They are found first, because the function may replace layers. */
static dl_status apply_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_value fn = *dlsh_arg(a, "fn");
    DLSH_DROPPED dlsh_value layers = dlsh_new_list(8);
    if (dlsh_failed(layers)) return dl_failed();
    if (!dlsh_callable(fn))
        return dlsh_arg_fail(a, "fn", DL_ERR_TYPE, "m.apply(fn (l) { print(l.kind) })",
                             "apply calls a function with each layer, got %s", dlsh_type_name(fn));
    DLSH_TRY(walk_layers(&(walk){put_layer, &layers, 1, 1}, dlsh_arg_self(a), ""));
    DLSH_TRY(put_layer(&layers, "", dlsh_arg_self(a)));
    for (int i = 0; i < layers.as.list->n; i++) {
        DLSH_DROPPED dlsh_value out = dlsh_void();
        DLSH_TRY(dlsh_call(dlsh_arg_session(a), fn, &(dlsh_callargs){1, &layers.as.list->items[i], NULL}, &out));
    }
    *result = dlsh_ref(dlsh_arg_self_value(a));
    return DL_OK;
}

/* ---------------------------------------------------------------- building, summary */

/* The inputs of a batch of one sample, from the shapes of what a sample is made of, or as the net had them before;
 * -1: a recorded failure. */
static int batch_inputs(const dlsh_args *a, dl_net_input *in) {
    int n = dlsh_arg_count(a, "shape");
    if (!n && (n = dl_module_inputs(dlsh_arg_self(a), in))) return n;
    if (n < 1 || n > DL_NET_INPUTS)
        return dlsh_arg_fail(a, "shape", DL_ERR_VALUE, "the shape of a sample of each input, [1, 28, 28]",
                             "a net takes 1 to %d inputs, whose shapes are given; got %d", DL_NET_INPUTS, n),
               -1;
    for (int i = 0; i < n; i++) {
        dlsh_arg_room room;
        dl_arg shape;
        if (dlsh_to_arg("shape", *dlsh_arg_at(a, "shape", i), &room, &shape) != DL_OK) return -1;
        if (shape.kind != DL_ARG_INTS || shape.n > 7)
            return dlsh_arg_fail(a, "shape", DL_ERR_VALUE, "[1, 28, 28]", "the shape of a sample is a list of ints"),
                   -1;
        in[i] = (dl_net_input){shape.n + 1, {1}, dl_module_takes(dlsh_arg_self(a))};
        memcpy(in[i].shape + 1, shape.v, (size_t)shape.n * sizeof *shape.v);
    }
    return n;
}

static dl_status build_run(const dlsh_args *a) {
    dl_net_input in[DL_NET_INPUTS];
    int n = batch_inputs(a, in);
    return n < 0 ? dl_failed() : dl_module_build_for(dlsh_arg_self(a), in, n, dlsh_default_device());
}

static dl_status summary_run(const dlsh_args *a) {
    dl_net_input in[DL_NET_INPUTS];
    int n = batch_inputs(a, in);
    DLSH_ENDED(dl_summary_free)
    dl_summary *sum = n < 0 ? NULL : dl_module_summary(dlsh_arg_self(a), in, n, dlsh_net_device(dlsh_arg_self(a)));
    if (!sum) return dl_failed();
    return dlsh_show_summary(dlsh_session_sink(dlsh_arg_session(a)), dlsh_arg_self(a), sum);
}

/* ---------------------------------------------------------------- the rows */

static const dlsh_param summary_params[] = {
    {"shape", .want = "list", .flags = DLSH_VARIADIC,
     .doc = "shape of one sample, [1, 28, 28]; of a net of several inputs one for each"},
    {0}};

const dlsh_command dlsh_net_methods[] = {
    DLSH_ACT_ROW("train", set_mode, "m.train([MODE])", "Training mode: dropout and batchnorm act.",
                 DLSH_PARAMS({"mode", .want = "bool", .flags = DLSH_OPTIONAL, .doc = "false: evaluation mode"}),
                 .data = "on"),
    DLSH_ACT_ROW("eval", set_mode, "m.eval()", "Evaluation mode."),
    DLSH_FN_ROW("copy", copy_run, "m.copy()", "A new net with copies of the weights."),
    DLSH_ACT_ROW("to", to_run, "m.to(TARGET)", "Moves the weights to a dtype or device, in place.",
                 DLSH_PARAMS({"target", DLSH_ARG_WORD, .doc = "a dtype (f64) or a device (\"cuda\")"}),
                 .examples = "m.to(f64)"),
    DLSH_ACT_ROW("float", cast_run, "m.float()", "The same as m.to(f32).", .data = "f32"),
    DLSH_ACT_ROW("double", cast_run, "m.double()", "The same as m.to(f64).", .data = "f64"),
    DLSH_ACT_ROW("half", cast_run, "m.half()", "The same as m.to(f16).", .data = "f16"),
    DLSH_ACT_ROW("bfloat16", cast_run, "m.bfloat16()", "The same as m.to(bf16).", .data = "bf16"),
    DLSH_ACT_ROW("cuda", cast_run, "m.cuda()", "The same as m.to(\"cuda\").", .data = "cuda"),
    DLSH_ACT_ROW("cpu", cast_run, "m.cpu()", "The same as m.to(\"cpu\").", .data = "cpu"),
    DLSH_ACT_ROW("zero_grad", zero_run, "m.zero_grad()", "Forgets all gradients.", .params = dlsh_none_params),
    DLSH_PURE_ROW("parameters", tensors_run, "m.parameters()",
                  "A list of the parameters; an error before they are made.", .data = &(const choice){1, 0}),
    DLSH_PURE_ROW("named_parameters", tensors_run, "m.named_parameters()", "A record of the parameters by path.",
                  .data = &(const choice){1, 1},
                  .examples = "for name, p in m.named_parameters() { print(name, p.shape) }"),
    DLSH_PURE_ROW("buffers", tensors_run, "m.buffers()",
                  "A list of the buffers: tensors that are kept and saved, but not trained.",
                  .data = &(const choice){2, 0}),
    DLSH_PURE_ROW("named_buffers", tensors_run, "m.named_buffers()", "A record of the buffers by path.",
                  .data = &(const choice){2, 1}),
    DLSH_FN_ROW("state", tensors_run, "m.state()", "A record of all parameters and buffers by path.",
                .data = &(const choice){3, 1}),
    DLSH_FN_ROW("state_dict", tensors_run, "m.state_dict()", "The same as m.state().", .data = &(const choice){3, 1}),
    DLSH_ROW("load_state_dict", DLSH_ONLY_FUNCTION | DLSH_ACTION, load_state_run,
             "m.load_state_dict(RECORD, strict=true, map=, by=)", "The same as m.load_state(RECORD).",
             DLSH_PARAMS({"state", .want = "record", .doc = "tensors by path"}), DLSH_OPTIONS(DLSH_LOAD_OPTIONS),
             .examples = "m.load_state_dict(load(\"m.safetensors\").m)"),
    DLSH_ROW("load_state", DLSH_ONLY_FUNCTION | DLSH_ACTION, load_state_run,
             "m.load_state(RECORD, strict=true, map=, by=)",
             "Copies the tensors of a record, as m.state() gives it, into the net; options as those of load.",
             DLSH_PARAMS({"state", .want = "record", .doc = "tensors by path"}), DLSH_OPTIONS(DLSH_LOAD_OPTIONS),
             .examples = "c = load(\"loop.safetensors\")\nm.load_state(c.m)"),
    DLSH_FN_ROW("update_parameters", average_run, "e.update_parameters(NET, decay=0.999)",
                "Averages weights in a loop written by hand: the weights of e, a copy of the net, move towards those "
                "of the net; buffers are copied. A trainer "
                "has ema= for it.",
                DLSH_PARAMS({"net", .want = "net", .doc = "the net that is trained"}),
                DLSH_OPTIONS({"decay", DLSH_OPT_FLOAT, "0.999", .doc = "share of the average that stays"}),
                .examples = "e = m.copy()\ne.update_parameters(m, decay=0.99)"),
    DLSH_ACT_ROW("requires_grad_", requires_grad_run, "m.requires_grad_([ON])",
                 "Lets all parameters of a net or layer be trained, or with false freezes them.",
                 DLSH_PARAMS({"on", .want = "bool", .flags = DLSH_OPTIONAL, .doc = "trained (true), or frozen"}),
                 .examples = "m.conv0.requires_grad_(false);"),
    DLSH_PURE_ROW("layers", layers_run, "m.layers()", "A list of the layers directly inside.", .data = ""),
    DLSH_PURE_ROW("children", layers_run, "m.children()", "The same as m.layers().", .data = ""),
    DLSH_PURE_ROW("named_children", layers_run, "m.named_children()", "A record of the layers directly inside by name.",
                  .data = "named"),
    DLSH_PURE_ROW("modules", layers_run, "m.modules()", "A list of the net and all layers at any depth, each once.",
                  .data = "deep"),
    DLSH_PURE_ROW("named_modules", layers_run, "m.named_modules()",
                  "A record of the net, named \"\", and all layers at any depth by path, each once.",
                  .data = "deep|named", .examples = "for name, l in m.named_modules() { print(name, l.kind) }"),
    DLSH_ACT_ROW("apply", apply_run, "m.apply(FN)",
                 "Calls a function with each layer at any depth, once, inner layers before those that contain them, "
                 "and with the net.",
                 DLSH_PARAMS({"fn", .doc = "what is called with a layer"}),
                 .examples = "m.apply(fn (l) { if l.kind == \"linear\" { no_grad { l.bias.fill_(0.1); } } });"),
    DLSH_FN_ROW("build", build_run, "m.build(SHAPE...)",
                "Makes the weights for samples of a shape, unless they exist; otherwise the first input or a trainer "
                "makes them.",
                .params = summary_params, .examples = "m.build([1, 28, 28])"),
    DLSH_FN_ROW("summary", summary_run, "m.summary(SHAPE...)",
                "The table of layers for samples of a shape: outputs, parameters, operations, memory.",
                .params = summary_params, .examples = "m.summary([1, 28, 28])"),
    {0}};
