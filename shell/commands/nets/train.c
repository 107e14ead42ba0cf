/* Training: trainer(...), step, forward, backward, update, train, eval, and trainers as values. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "debug/stopped.h"
#include "debug/undo/undo.h"
#include "commands/context.h"
#include "commands/data/data.h"
#include "commands/data/fields.h"
#include "commands/history/redo.h"
#include "commands/nets/nets.h"
#include "lang/parse/fn.h"

/* ---------------------------------------------------------------- trainers as values */

static void destroy(void *self) {
    if (dlsh_ended_by()) dl_trainer_fail(self, dlsh_ended_by());
    dl_trainer_free(self);
}

static void rest(void *self) {
    if (dlsh_ended_by()) dl_trainer_fail(self, dlsh_ended_by());
    dl_trainer_rest(self);
}

static size_t held(void *self) {
    return dlsh_optimizer_held(dl_trainer_optimizer(self)) + dlsh_dataset_held(dl_trainer_dataset(self));
}

static dl_status text(void *self, dlsh_buf *out) {
    dl_trainer_state s = dlsh_trainer_state(self);
    dlsh_buf_printf(out, "<trainer of %s on %s, step %ld>", dl_module_name(dl_trainer_model(self)),
                    dl_dataset_name(dl_trainer_dataset(self)), s.step);
    return DL_OK;
}

/* What is done to gradients between backward and update, and to weights after it. */
static dlsh_value gradients_text(const dl_trainer_state *st) {
    DLSH_SCOPED_BUF b = {0};
    if (st->accumulate > 1) dlsh_buf_printf(&b, ", accumulate=%ld", st->accumulate);
    if (st->clip_norm > 0) dlsh_buf_printf(&b, ", clip_norm=%g", st->clip_norm);
    if (st->clip_value > 0) dlsh_buf_printf(&b, ", clip_value=%g", st->clip_value);
    if (st->ema > 0) dlsh_buf_printf(&b, ", ema=%g", st->ema);
    if (st->allow_nan) dlsh_buf_printf(&b, ", allow_nan");
    return dlsh_string(b.n ? dlsh_buf_text(&b) + 2 : "as they are");
}

/* A schedule in words; of a function of the language its text, as far as it fits, and its line. */
static dlsh_value schedule_text(const dl_schedule *s) {
    enum { SHOWN = 60 };
    const dlsh_callback *cb = s ? dl_schedule_context(s, dlsh_callback_free) : NULL;
    if (!cb || cb->fn.type != DLSH_FN) return dlsh_string(s ? dl_schedule_text(s) : "none");
    size_t n;
    const dlsh_fn *f = cb->fn.as.fn;
    const char *text = dlsh_fn_source(f, &n);
    size_t line = strcspn(text, "\n"), fits = line < n ? line : n;
    if (fits > SHOWN)
        for (fits = SHOWN; fits && ((unsigned char)text[fits] & 0xC0) == 0x80;) fits--; /* whole characters */
    return dlsh_stringf("%.*s%s, %s:%d", (int)fits, text, fits < n ? " ..." : "", f->unit->name, f->node->span.line);
}

static dl_status show(void *self, dlsh_sink *sink) {
    dl_trainer_state st = dlsh_trainer_state(self);
    const long held = dl_trainer_held(self) ? dl_dataset_len(dl_trainer_held(self), DL_TEST) : 0;
    dlsh_table t = DLSH_TABLE({"trainer", 'l', ""}, {"value", 'l', ""});
    const dlsh_entry rows[] = {{"net", dlsh_string(dl_module_name(dl_trainer_model(self)))},
                               {"dataset", dlsh_string(dl_dataset_name(dl_trainer_dataset(self)))},
                               {"optimizer", dlsh_string(dl_optimizer_text(dl_trainer_optimizer(self)))},
                               {"schedule", schedule_text(dl_trainer_schedule(self))},
                               {"loss function", dlsh_string(dl_trainer_loss_name(self))},
                               {"batch", dlsh_int(dl_loader_batch(dl_trainer_loader(self)))},
                               {"order", dlsh_string(st.sampler   ? "of a sampler"
                                                     : st.shuffle ? "shuffled in every epoch"
                                                                  : "of the split")},
                               {held ? "held out" : NULL, dlsh_stringf("%ld samples", held)},
                               {*st.stop ? "stop" : NULL, dlsh_string(st.stop)},
                               {*st.keep ? "keep" : NULL, dlsh_string(st.keep)},
                               {*st.checkpoint ? "checkpoint" : NULL, dlsh_string(st.checkpoint)},
                               {"transforms", dlsh_string(*st.transforms ? st.transforms : "none")},
                               {"gradients", gradients_text(&st)},
                               {"step", dlsh_int(st.step)},
                               {"epoch", dlsh_stringf("%ld, batch %ld of %ld", st.epoch, st.batch, st.batches)},
                               {"loss", dlsh_known(st.loss)},
                               {"lr", dlsh_known(st.lr)},
                               {"grad_norm", dlsh_known(st.grad_norm)},
                               {"run", st.run ? dlsh_int(st.run) : dlsh_none()}};
    return dlsh_table_show(sink, &t, dlsh_table_entries(&t, rows, DLSH_COUNT(rows)), NULL);
}

/* Fields that are numbers of the state. */
#define NUMBER(name, expr)                                                                                             \
    static dl_status get_##name(void *self, dlsh_value *out) {                                                         \
        dl_trainer_state s = dlsh_trainer_state(self);                                                                 \
        *out = expr;                                                                                                   \
        return DL_OK;                                                                                                  \
    }
NUMBER(step, dlsh_int(s.step))
NUMBER(epoch, dlsh_int(s.epoch))
NUMBER(batch, dlsh_int(s.batch))
NUMBER(loss_value, dlsh_known(s.loss))
NUMBER(acc, dlsh_known(s.acc))
NUMBER(lr, dlsh_known(s.lr))
NUMBER(grad_norm, dlsh_known(s.grad_norm))
NUMBER(diverged, dlsh_bool(s.diverged))
NUMBER(best, dlsh_known(s.best))
NUMBER(best_step, s.best_step ? dlsh_int(s.best_step) : dlsh_none())
NUMBER(stopped, *s.stopped ? dlsh_string(s.stopped) : dlsh_none())

/* Fields that are objects of the trainer. */
static dl_status get_hash(void *self, dlsh_value *out) {
    char hash[65];
    DLSH_TRY(dl_trainer_hash(self, hash));
    return dlsh_give(dlsh_string(hash), out);
}
DLSH_GETTER(get_model, dlsh_net_value(dl_trainer_model(self)))
DLSH_GETTER(get_data, dlsh_new_handle(&dlsh_dataset_class, dl_dataset_ref(dl_trainer_dataset(self))))
DLSH_GETTER(get_held, dl_trainer_held(self)
                          ? dlsh_new_handle(&dlsh_dataset_class, dl_dataset_ref(dl_trainer_held(self)))
                          : dlsh_none())
DLSH_GETTER(get_opt, dlsh_new_handle(&dlsh_optimizer_class, dl_optimizer_ref(dl_trainer_optimizer(self))))
DLSH_GETTER(get_batches, dlsh_new_handle(&dlsh_loader_class, dl_loader_ref(dl_trainer_loader(self))))

/* The last batch: all inputs, or all targets. */
static dl_status get_batch_part(void *self, int targets, dlsh_value *out) {
    dl_tensor *const *t = targets ? dl_trainer_targets(self) : dl_trainer_inputs(self);
    *out = dlsh_none();
    return t[0] ? dlsh_give(dlsh_fields_value(dl_loader_form(dl_trainer_loader(self)), targets, t), out) : DL_OK;
}
static dl_status get_x(void *self, dlsh_value *out) { return get_batch_part(self, 0, out); }
static dl_status get_y(void *self, dlsh_value *out) { return get_batch_part(self, 1, out); }
static dl_status get_output(void *self, dlsh_value *out) {
    dl_tensor *t = dl_trainer_output(self);
    *out = t ? dlsh_tensor(dl_ref(t)) : dlsh_none();
    return DL_OK;
}

/* The loss as a tensor with its history between forward and backward, else as a number. */
static dl_status get_loss(void *self, dlsh_value *out) {
    dl_trainer_state s = dlsh_trainer_state(self);
    dl_tensor *t = dl_trainer_loss(self);
    if (!t || s.phase != 1) return get_loss_value(self, out);
    *out = dlsh_tensor(dl_ref(t));
    return DL_OK;
}

static dl_status set_lr(void *self, dlsh_value v) {
    if (!dlsh_is_number(v)) return dlsh_fail(DL_ERR_TYPE, NULL, "lr must be a number, got %s", dlsh_type_name(v));
    return dl_trainer_set_lr(self, dlsh_number(v));
}

static dl_status get_run(void *self, dlsh_value *out) {
    dl_trainer_state s = dlsh_trainer_state(self);
    *out = dlsh_none();
    if (!s.run) return DL_OK;
    return dlsh_give(DLSH_RECORD_OF({"id", dlsh_int(s.run)}), out);
}

static dl_status get_capture(void *self, dlsh_value *out) {
    const char *state = dl_trainer_capture(self);
    return dlsh_give(*state ? dlsh_string(state) : dlsh_none(), out);
}

static const dlsh_field fields[] = {
    {"step", "steps done", get_step, NULL},
    {"hash", "SHA-256 of the whole state, as text", get_hash, NULL},
    {"epoch", "epoch, from 0", get_epoch, NULL},
    {"batch", "batches taken in the epoch", get_batch, NULL},
    {"loss", "loss of the last step; after forward a tensor with its history", get_loss, NULL},
    {"acc", "share of right answers in the last step", get_acc, NULL},
    {"lr", "learning rate; can be set", get_lr, set_lr},
    {"grad_norm", "norm of the gradient in the last step", get_grad_norm, NULL},
    {"diverged", "did loss or gradient cease to be finite?", get_diverged, NULL},
    {"model", "the net", get_model, NULL},
    {"best", "the best figure of evaluations, with stop= or keep=", get_best, NULL},
    {"best_step", "its step", get_best_step, NULL},
    {"stopped", "why the training was stopped early; none if it was not", get_stopped, NULL},
    {"data", "the dataset, without what val= holds out", get_data, NULL},
    {"held", "what val= holds out, as the test split of a dataset; none without", get_held, NULL},
    {"opt", "the optimizer", get_opt, NULL},
    {"batches", "the loader of the training split: x, y = next(t.batches)", get_batches, NULL},
    {"x", "batch of the last forward", get_x, NULL},
    {"y", "its targets", get_y, NULL},
    {"output", "what the net made of it", get_output, NULL},
    {"capture", "on a GPU: \"captured\", or why steps run op by op; none before it is decided", get_capture, NULL},
    {"run", "the run in the store, {id}; none before the first step", get_run, NULL},
    {NULL, NULL, NULL, NULL}};

const dlsh_class dlsh_trainer_class = {
    .name = "trainer",
    .doc = "A net, a dataset, an optimizer and a loss, and the progress of the training. Its run ends with it.",
    .destroy = destroy,
    .held = held,
    .rest = rest,
    .text = text,
    .show = show,
    .fields = fields,
    .methods = dlsh_trainer_methods,
    .values = dlsh_trainer_values};

/* ---------------------------------------------------------------- trainer(...) */

static dl_tensor *call_loss(void *ctx, const dl_pack *output, const dl_pack *target) {
    dlsh_value in[2] = {dlsh_pack_value(output), dlsh_pack_value(target)};
    dl_tensor *loss = dlsh_failed(in[0]) || dlsh_failed(in[1]) ? NULL : dlsh_callback_call(ctx, in, 2);
    dlsh_drop(in[0]);
    dlsh_drop(in[1]);
    return loss;
}

static dl_status call_schedule(void *ctx, long step, double *lr) {
    dlsh_callback *cb = ctx;
    dlsh_value arg = dlsh_int(step), out = dlsh_void();
    DLSH_TRY(dlsh_call(cb->session, cb->fn, &(dlsh_callargs){1, &arg, NULL}, &out));
    dl_status st = DL_OK;
    if (dlsh_is_number(out))
        *lr = dlsh_number(out);
    else if (out.type == DLSH_TENSOR)
        st = dl_item_f(out.as.tensor, lr);
    else
        st = dlsh_fail(DL_ERR_TYPE, "return the learning rate", "the schedule must return a number, got %s",
                       dlsh_type_name(out));
    dlsh_drop(out);
    return st;
}

/* loss=cross_entropy (an op), loss="mse_loss", or a function of output and target. */
static dl_status choose_loss(const dlsh_args *a, dl_trainer_spec *spec) {
    const dlsh_value *v = dlsh_arg(a, "loss");
    if (!v || v->type == DLSH_NONE) return DL_OK;
    if (v->type == DLSH_STR) return spec->loss = v->as.str->s, DL_OK;
    if (!dlsh_callable(*v))
        return dlsh_arg_fail(a, "loss", DL_ERR_TYPE, "loss=cross_entropy, or fn (output, target) { return ... }",
                             "loss must be a function, got %s", dlsh_type_name(*v));
    spec->loss = dlsh_function_name(*v);
    if (v->type == DLSH_OP) return DL_OK;
    spec->loss_ctx = dlsh_callback_new(dlsh_arg_session(a), *v);
    spec->loss_fn = call_loss;
    spec->loss_key = dlsh_callback_key;
    spec->loss_release = dlsh_callback_free;
    return spec->loss_ctx ? DL_OK : dl_failed();
}

static dl_status choose_opt(const dlsh_args *a, dl_trainer_spec *spec) {
    const dlsh_value *v = dlsh_arg(a, "opt");
    dl_optimizer *o = v ? dlsh_unwrap(*v, &dlsh_optimizer_class) : NULL;
    if (o)
        spec->opt = dl_optimizer_ref(o);
    else if (!v || v->type == DLSH_STR)
        spec->opt = dl_optimizer_parse(v ? v->as.str->s : "adam");
    else
        return dlsh_arg_fail(a, "opt", DL_ERR_TYPE, "opt=adam(lr=1e-3)", "opt must be an optimizer, got %s",
                             dlsh_type_name(*v));
    return spec->opt ? DL_OK : dl_failed();
}

static dl_status choose_schedule(const dlsh_args *a, dl_trainer_spec *spec) {
    const dlsh_value *v = dlsh_arg(a, "schedule");
    if (!v || v->type == DLSH_NONE) return DL_OK;
    dl_schedule *s = dlsh_unwrap(*v, &dlsh_schedule_class);
    if (s)
        spec->schedule = dl_schedule_ref(s);
    else if (v->type == DLSH_STR)
        spec->schedule = dl_schedule_parse(v->as.str->s);
    else if (v->type == DLSH_OP) { /* cosine is a window function, too */
        const dl_kind_row *kind = dlsh_schedule_kind(dlsh_function_name(*v));
        return dlsh_arg_fail(a, "schedule", DL_ERR_TYPE, kind ? kind->example : "fn (step) { return 0.1 / (1 + step) }",
                             "schedule must be a schedule or a function of the step, not the op %s",
                             dlsh_function_name(*v));
    } else if (dlsh_callable(*v)) {
        dlsh_callback *cb = dlsh_callback_new(dlsh_arg_session(a), *v);
        if (cb) spec->schedule = dl_schedule_function(call_schedule, cb, dlsh_callback_free);
    } else
        return dlsh_arg_fail(a, "schedule", DL_ERR_TYPE, "schedule(\"cosine\", 1000), or fn (step) { return ... }",
                             "schedule must be a schedule or a function, got %s", dlsh_type_name(*v));
    return spec->schedule ? DL_OK : dl_failed();
}

static void read_options(const dlsh_args *a, dl_trainer_spec *spec, dl_run_spec *run) {
    spec->model = dlsh_arg_handle(a, "net", &dlsh_net_class);
    spec->data = dlsh_arg_handle(a, "data", &dlsh_dataset_class);
    spec->loader.batch = dlsh_arg_int(a, "batch");
    spec->loader.drop_last = dlsh_arg_bool(a, "drop_last");
    spec->loader.transforms = dlsh_arg_str(a, "transforms");
    spec->loader.workers = dlsh_arg_int(a, "workers") ? (int)dlsh_arg_int(a, "workers") : -1;
    spec->in_order = !dlsh_arg_bool(a, "shuffle");
    spec->accumulate = dlsh_arg_int(a, "accumulate");
    spec->clip_norm = dlsh_arg_float(a, "clip_norm");
    spec->clip_value = dlsh_arg_float(a, "clip_value");
    spec->ema = dlsh_arg_float(a, "ema");
    spec->val = dlsh_arg_float(a, "val");
    spec->keep = dlsh_arg_str(a, "keep");
    spec->checkpoint = dlsh_arg_str(a, "checkpoint");
    spec->checkpoint_every = dlsh_given(a, "checkpoint_every") ? dlsh_arg_int(a, "checkpoint_every") : 0;
    spec->checkpoint_steps = dlsh_arg_int(a, "checkpoint_steps");
    spec->allow_nan = dlsh_arg_bool(a, "allow_nan");
    spec->eval_every = dlsh_arg_int(a, "eval_every") ? dlsh_arg_int(a, "eval_every") : -1;
    spec->device = dlsh_default_device();
    *run = dlsh_run_spec(a);
    spec->run = run;
}

/* Names in the list metrics=, at most one more than a trainer takes, for its own message. */
static dl_status read_metrics(const dlsh_args *a, const char *names[DL_EVAL_METRICS + 2]) {
    const dlsh_value *v = dlsh_given(a, "metrics") ? dlsh_arg(a, "metrics") : NULL;
    int n = v ? v->as.list->n : 0;
    names[0] = NULL;
    for (int i = 0; i < n && i <= DL_EVAL_METRICS; i++) {
        dlsh_value x = v->as.list->items[i];
        if (x.type != DLSH_STR)
            return dlsh_arg_fail(a, "metrics", DL_ERR_TYPE, "metrics=[\"f1_score\", \"f1_score average=micro\"]",
                                 "metrics are names of functions, not %s", dlsh_a(x));
        names[i] = x.as.str->s, names[i + 1] = NULL;
    }
    return DL_OK;
}

/* stop="val/loss patience=5", stop=5 (its patience), or a record {metric: "val/loss", patience: 5} as such text. */
static dl_status read_stop(const dlsh_args *a, dlsh_buf *b, const char **text) {
    const dlsh_value *v = dlsh_given(a, "stop") ? dlsh_arg(a, "stop") : NULL;
    if (!v || v->type == DLSH_NONE || (v->type == DLSH_BOOL && !v->as.b)) return DL_OK;
    if (v->type == DLSH_STR)
        dlsh_buf_puts(b, v->as.str->s);
    else if (v->type == DLSH_INT)
        dlsh_buf_printf(b, "patience=%ld", v->as.i);
    else if (v->type != DLSH_RECORD && v->type != DLSH_BOOL)
        return dlsh_arg_fail(a, "stop", DL_ERR_TYPE, "stop=\"val/loss patience=5\"", "stop is text or a record, not %s",
                             dlsh_a(*v));
    for (int i = 0; v->type == DLSH_RECORD && i < v->as.record->n; i++) {
        dlsh_value x = v->as.record->values[i];
        if (x.type != DLSH_STR && !dlsh_is_number(x))
            return dlsh_arg_fail(a, "stop", DL_ERR_TYPE, "stop={metric: \"val/loss\", patience: 5}", "stop: %s is %s",
                                 v->as.record->keys[i], dlsh_a(x));
        dlsh_buf_printf(b, "%s%s=", i ? " " : "", v->as.record->keys[i]);
        if (x.type == DLSH_STR)
            dlsh_buf_printf(b, "\"%s\"", x.as.str->s);
        else if (x.type == DLSH_INT)
            dlsh_buf_printf(b, "%ld", x.as.i);
        else
            dlsh_buf_printf(b, "%.17g", dlsh_number(x));
    }
    *text = dlsh_buf_text(b);
    return DL_OK;
}

static dl_status check_options(const dlsh_args *a) {
    static const char *const positive[] = {"batch", "accumulate"};
    for (int i = 0; i < 2; i++)
        if (dlsh_arg_int(a, positive[i]) < 1)
            return dlsh_arg_fail(a, positive[i], DL_ERR_VALUE, NULL, "%s must be at least 1, not %ld", positive[i],
                                 dlsh_arg_int(a, positive[i]));
    return DL_OK;
}

static dl_status trainer_run(const dlsh_args *a, dlsh_value *result) {
    dl_trainer_spec spec = {0};
    dl_run_spec run;
    const char *metrics[DL_EVAL_METRICS + 2];
    DLSH_SCOPED_BUF stop = {0};
    DLSH_TRY(check_options(a));
    DLSH_TRY(read_stop(a, &stop, &spec.stop));
    DLSH_TRY(read_metrics(a, metrics));
    read_options(a, &spec, &run);
    spec.metrics = metrics;

    spec.store = dlsh_store(dlsh_arg_session(a));
    dl_status st = spec.store ? DL_OK : dl_failed();
    if (st == DL_OK) st = choose_opt(a, &spec);
    if (st == DL_OK) st = choose_schedule(a, &spec);
    if (st == DL_OK) st = dlsh_arg_sampler(a, &spec.loader.sampler);
    if (st == DL_OK) st = dlsh_arg_collate(a, &spec.loader.collate);
    if (st == DL_OK) st = choose_loss(a, &spec);
    if (st == DL_OK) {
        dl_trainer *t = dl_trainer_new(&spec);
        st = t ? dlsh_give(dlsh_new_handle(&dlsh_trainer_class, t), result) : dl_failed();
    }
    dl_optimizer_unref(spec.opt);
    dl_schedule_unref(spec.schedule);
    dl_sampler_unref(spec.loader.sampler);
    dl_collate_unref(spec.loader.collate);
    return st;
}

/* ---------------------------------------------------------------- steps */

static dl_trainer *trainer_of(const dlsh_args *a) { return dlsh_arg_handle(a, "trainer", &dlsh_trainer_class); }

typedef struct figure {
    const char *name, *format;
    double value;
} figure;

/* For people "step 3  loss 2.301  lr 0.001"; else a record; as a function the record is the result. */
static dl_status put_figures(const dlsh_args *a, long step, const figure *f, int n, dlsh_value *result) {
    dlsh_value r = dlsh_new_record();
    if (dlsh_failed(r)) return dl_failed();
    dl_status st = dlsh_record_set(r.as.record, "step", dlsh_int(step));
    for (int i = 0; i < n && st == DL_OK; i++)
        if (!isnan(f[i].value) || !strcmp(f[i].name, "loss"))
            st = dlsh_record_set(r.as.record, f[i].name, dlsh_float(f[i].value));
    dlsh_sink *sink = dlsh_arg_sink(a);
    if (st == DL_OK && dlsh_sink_look(sink).mode != DLSH_MODE_TABLE)
        st = dlsh_arg_node(a, "trainer") ? sink->ops->value(sink, r) : DL_OK;
    else if (st == DL_OK) {
        dlsh_put(sink, "step %ld", step);
        for (int i = 0; i < n; i++) {
            if (isnan(f[i].value) && strcmp(f[i].name, "loss")) continue;
            dlsh_put(sink, "  %s ", f[i].name);
            dlsh_put(sink, f[i].format, dlsh_plain_nan(f[i].value));
        }
        dlsh_put(sink, "\n");
    }
    return dlsh_give_filled(st, r, result);
}

/* Says, once for a trainer, why its steps do not run from a graph. */
static void put_notice(const dlsh_args *a, dl_trainer *t) {
    const char *why = dl_trainer_notice(t);
    dlsh_sink *sink = dlsh_arg_sink(a);
    if (why && dlsh_sink_look(sink).mode == DLSH_MODE_TABLE) dlsh_put(sink, "note: steps run op by op: %s\n", why);
}

/* Which breakpoint stopped it, and how to go on. */
static int put_broke(const dlsh_args *a, dl_trainer *t) {
    dlsh_sink *sink = dlsh_arg_sink(a);
    return dlsh_sink_look(sink).mode == DLSH_MODE_TABLE && dlsh_training_stopped(dlsh_arg_session(a), sink, t);
}

static dl_status step_run(const dlsh_args *a, dlsh_value *result) {
    dl_trainer *t = trainer_of(a);
    long n = dlsh_given(a, "n") ? dlsh_arg_int(a, "n") : 1;
    if (n < 1) return dlsh_arg_fail(a, "n", DL_ERR_VALUE, NULL, "a number of steps is at least 1, not %ld", n);
    long epochs = 0;
    DLSH_TRY(dlsh_take_up(a, t, &epochs, &n));
    dlsh_undo_trainer(dlsh_arg_session(a), t);
    unsigned broke = 0;
    for (long i = 0, at; i < n && !broke; i++) {
        if (dlsh_interrupted()) return dlsh_fail(DL_ERR_INTERRUPT, NULL, "interrupted after %ld steps", i);
        DLSH_TRY(dl_trainer_step(t));
        broke = dl_trainer_broke(t, &at);
    }
    put_notice(a, t);
    put_broke(a, t);
    dl_trainer_state s = dlsh_trainer_state(t);
    if (!n) return dlsh_give(DLSH_RECORD_OF({"step", dlsh_int(s.step)}), result); /* of a run that goes on later */
    const figure f[] = {
        {"loss", "%.6g", s.loss}, {"acc", "%.4g", s.acc}, {"lr", "%.6g", s.lr}, {"grad_norm", "%.6g", s.grad_norm}};
    return put_figures(a, s.step, f, 4, result);
}

static dl_status forward_run(const dlsh_args *a, dlsh_value *result) {
    dl_trainer *t = trainer_of(a);
    DLSH_TRY(dl_trainer_forward(t));
    dl_trainer_state s = dlsh_trainer_state(t);
    const figure f[] = {{"loss", "%.6g", s.loss}, {"acc", "%.4g", s.acc}};
    return put_figures(a, s.step, f, 2, result);
}

static dl_status backward_run(const dlsh_args *a) {
    const dlsh_value *v = dlsh_arg(a, "what");
    if (v->type != DLSH_TENSOR) return dl_trainer_backward(dlsh_unwrap(*v, &dlsh_trainer_class));
    dl_tensor *seed = dlsh_arg_tensor(a, "seed");
    return dl_backward(v->as.tensor, seed ? seed : dlsh_arg_tensor(a, "gradient"), dlsh_arg_bool(a, "retain"),
                       dlsh_arg_bool(a, "create_graph"));
}

static dl_status update_run(const dlsh_args *a, dlsh_value *result) {
    dl_trainer *t = trainer_of(a);
    DLSH_TRY(dl_trainer_update(t));
    dl_trainer_state s = dlsh_trainer_state(t);
    const figure f[] = {{"loss", "%.6g", s.loss}, {"lr", "%.6g", s.lr}, {"grad_norm", "%.6g", s.grad_norm}};
    return put_figures(a, s.step, f, 3, result);
}

/* ---------------------------------------------------------------- train and eval */

typedef struct bar {
    dlsh_session *session;
    dlsh_sink *sink;
    double loss, acc; /* sums over the epoch */
    long n;
    dlsh_progress line; /* as shown last; borrows the members below */
    char label[64];
    const char *names[6];
    double values[6];
    int ranks[6];
} bar;

/* rank: metrics of low rank are left out of a narrow line first. */
static void add_metric(bar *b, int *n, const char *name, double value, int rank) {
    b->names[*n] = name;
    b->values[*n] = value;
    b->ranks[(*n)++] = rank;
}

/* A line an epoch, or one for all steps; metrics are means over the line. */
static int progress(void *ctx, const dl_train_progress *p) {
    bar *b = ctx;
    b->loss += p->loss, b->acc += p->acc, b->n++;
    int end = p->last || (p->epochs && p->epoch_end), n = 0;
    add_metric(b, &n, "loss", b->loss / (double)b->n, 2);
    if (!isnan(b->acc)) add_metric(b, &n, "acc", b->acc / (double)b->n, 1);
    if (p->epoch_end && !isnan(p->val_loss)) add_metric(b, &n, "val/loss", p->val_loss, 3);
    if (p->epoch_end && !isnan(p->val_acc)) add_metric(b, &n, "val/acc", p->val_acc, 3);
    if (p->epoch_end && !isnan(p->test_loss)) add_metric(b, &n, "test/loss", p->test_loss, 0);
    if (p->epoch_end && !isnan(p->test_acc)) add_metric(b, &n, "test/acc", p->test_acc, isnan(p->val_acc) ? 3 : 0);
    snprintf(b->label, sizeof b->label, "train");
    if (p->epochs) snprintf(b->label, sizeof b->label, "epoch %ld/%ld", p->epoch, p->epochs);
    b->line = (dlsh_progress){.label = b->label,
                              .at = p->epochs ? p->batch : p->done,
                              .total = p->epochs ? p->batches : p->total,
                              .job_at = p->done,
                              .job_total = p->total,
                              .done = end,
                              .more = !p->last,
                              .curve = "loss",
                              .point = p->loss,
                              .unit = "samples/s",
                              .rate = p->samples_per_s,
                              .nmetrics = n,
                              .names = b->names,
                              .values = b->values,
                              .ranks = b->ranks};
    if (b->sink->ops->progress) b->sink->ops->progress(b->sink, &b->line);
    if (end) b->loss = b->acc = 0, b->n = 0;
    dlsh_store_warnings(b->session); /* a training may take hours */
    return dlsh_interrupted();
}

/* Ends the line of progress of a training that failed or was interrupted. */
static dl_status show_stopped(bar *b, const dl_trainer *t, dl_status status) {
    if (!b->line.label || !b->sink->ops->progress) return status; /* it has not begun */
    char text[64];
    dl_trainer_state s = dlsh_trainer_state(t);
    b->line.failed = status != DL_ERR_INTERRUPT;
    snprintf(text, sizeof text, "%s after step %ld",
             b->line.failed ? "failed"
             : *s.stopped   ? "stopped"
                            : "interrupted",
             s.step);
    b->line.stopped = text;
    b->sink->ops->progress(b->sink, &b->line);
    return status;
}

/* Why the training ended before its time, and which weights the net has now. */
static void put_end(const dlsh_args *a, const dl_trainer_state *s) {
    dlsh_sink *sink = dlsh_arg_sink(a);
    if (dlsh_sink_look(sink).mode != DLSH_MODE_TABLE) return;
    if (*s->stopped) dlsh_put(sink, "stopped after step %ld: %s\n", s->step, s->stopped);
    if (s->shows_best && s->best_step != s->step)
        dlsh_put(sink, "the net has the weights of step %ld, %.*s %.6g\n", s->best_step, (int)strcspn(s->keep + 5, " "),
                 s->keep + 5, s->best);
}

static dl_status train_run(const dlsh_args *a, dlsh_value *result) {
    dl_trainer *t = trainer_of(a);
    long epochs = dlsh_arg_int(a, "epochs"), steps = dlsh_arg_int(a, "steps");
    if (!dlsh_given(a, "epochs") && !dlsh_given(a, "steps"))
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "train t epochs=2, or train t steps=100",
                             "train needs a number of epochs or steps");
    bar b = {.session = dlsh_arg_session(a), .sink = dlsh_arg_sink(a)};
    const int wanted = epochs || steps;
    if (epochs >= 0 && steps >= 0 && !(epochs && steps)) DLSH_TRY(dlsh_take_up(a, t, &epochs, &steps));
    dlsh_undo_trainer(dlsh_arg_session(a), t);
    dl_status trained = wanted && !epochs && !steps ? DL_OK : dl_trainer_train(t, epochs, steps, progress, &b);
    if (trained) return show_stopped(&b, t, trained);
    long at;
    const int broke = dl_trainer_broke(t, &at) != 0;
    dl_trainer_state s = dlsh_trainer_state(t);
    if (broke) show_stopped(&b, t, DL_ERR_INTERRUPT);
    put_notice(a, t);
    if (broke)
        put_broke(a, t);
    else
        put_end(a, &s);
    const char *best = *s.stop || *s.keep ? "best_step" : NULL;
    return dlsh_give(DLSH_RECORD_OF({"step", dlsh_int(s.step)}, {"loss", dlsh_float(s.loss)},
                                    {best, dlsh_int(s.best_step)},
                                    {*s.stopped ? "stopped" : NULL, dlsh_string(s.stopped)}),
                     result);
}

static dl_status eval_run(const dlsh_args *a, dlsh_value *result) {
    dl_eval_result e;
    static const char *const names[] = {[DL_TRAIN] = "train", [DL_TEST] = "test", [DL_VAL] = "val"};
    const char *name = dlsh_arg_str(a, "split");
    int split = 0;
    while (split < 3 && strcmp(name, names[split])) split++;
    if (split == 3)
        return dlsh_arg_fail(a, "split", DL_ERR_VALUE, "split=test, split=train, split=val", "there is no split '%s'",
                             name);
    DLSH_TRY(dl_trainer_eval(trainer_of(a), (dl_split)split, &e));
    const char *acc = isnan(e.acc) ? NULL : "acc";
    DLSH_DROPPED dlsh_value r = DLSH_RECORD_OF({"loss", dlsh_float(e.loss)}, {acc, dlsh_float(e.acc)});
    for (int i = 0; i < e.nmetrics; i++) DLSH_TRY(dlsh_record_add(r, e.metric_name[i], dlsh_float(e.metric[i])));
    return dlsh_hand_over(&r, result);
}

/* ---------------------------------------------------------------- the rows */

#define TRAINER                                                                                                        \
    { .name = "trainer", .want = "trainer", .doc = "what trains: trainer(net, data, ...)" }
static const dlsh_param one_trainer[] = {TRAINER, {0}};

const dlsh_command train_commands[] = {
    DLSH_FN_ROW(
        "trainer", trainer_run, "trainer(NET, DATA, opt=adam(), batch=64, ...)",
        "Joins a net, a dataset, an optimizer and a loss. Its first step opens a run, which ends when the trainer is "
        "replaced or the session ends.",
        DLSH_PARAMS({"net", .want = "net", .doc = "the net to train"},
                    {"data", .want = "dataset", .doc = "what to train it on"}),
        DLSH_OPTIONS(
            {"opt", DLSH_OPT_VALUE, NULL, .doc = "optimizer (adam(lr=1e-3))"},
            {"batch", DLSH_OPT_INT, "64", .doc = "samples in a batch"},
            {"loss", DLSH_OPT_VALUE, NULL,
             .doc = "loss of output and target: an op or a function (cross_entropy for classes, else mse_loss)"},
            {"name", DLSH_OPT_STRING, NULL, .doc = "name of the run"},
            {"schedule", DLSH_OPT_VALUE, NULL,
             .doc = "learning rate over time: schedule(\"cosine\", 1000), or a function of the step"},
            {"accumulate", DLSH_OPT_INT, "1", .doc = "batches to a step"},
            {"clip_norm", DLSH_OPT_FLOAT, "0", .doc = "limit of the gradient's norm (0: none)"},
            {"clip_value", DLSH_OPT_FLOAT, "0", .doc = "limit of each element of the gradient (0: none)"},
            {"ema", DLSH_OPT_FLOAT, "0", .doc = "decay of averaged weights, which eval uses (0: none)"},
            {"shuffle", DLSH_OPT_BOOL, "true", .doc = "a new order every epoch"}, DLSH_SAMPLER_OPTION,
            DLSH_COLLATE_OPTION,
            {"drop_last", DLSH_OPT_BOOL, "false", .doc = "leave out a last batch that is not full"},
            {"transforms", DLSH_OPT_STRING, NULL, .doc = "changes to samples as they are loaded, \"crop 4, flip\""},
            {"workers", DLSH_OPT_INT, "1", .doc = "threads; 0: batches are made when asked for"},
            {"eval_every", DLSH_OPT_INT, "1", .doc = "epochs of train between evaluations (0: none)"},
            {"metrics", DLSH_OPT_VALUE, NULL, .want = "list",
             .doc = "figures of evaluations beside loss and accuracy, of all samples at once: [\"f1_score\"]"},
            {"val", DLSH_OPT_FLOAT, "0",
             .doc = "training samples held out and evaluated with the test split: a share below 1, or a number; each "
                    "class with its share (0: none)"},
            {"stop", DLSH_OPT_VALUE, NULL, .want = "string|int|record",
             .doc = "ends training early: \"val/loss patience=3 min_delta=0 mode=min\", any of it; a number is the "
                    "patience, in evaluations"},
            {"keep", DLSH_OPT_STRING, NULL,
             .doc = "\"best\", or \"best val/acc\": training ends with the weights of the best evaluation"},
            {"checkpoint", DLSH_OPT_STRING, NULL,
             .doc = "a file from which the training can go on, written by train at ends of epochs and when it ends or "
                    "is interrupted; {step} in the name keeps each: \"t-{step}.safetensors\""},
            {"checkpoint_every", DLSH_OPT_INT, "1", .doc = "epochs between two checkpoints"},
            {"checkpoint_steps", DLSH_OPT_INT, "0", .doc = "or steps between two"},
            {"allow_nan", DLSH_OPT_BOOL, "false", .doc = "go on when the loss is not finite"}, DLSH_RUN_OPTIONS),
        .examples = "t = trainer(m, d, opt=sgd(lr=0.1), batch=64, name=\"first\")"),
    DLSH_ROW("step", DLSH_ACTION | DLSH_FUNCTION, step_run, "step TRAINER [N]",
             "Runs N training steps (1) and prints loss, accuracy, rate and gradient norm of the last.",
             DLSH_PARAMS(TRAINER, {"n", .want = "int", .flags = DLSH_OPTIONAL, .doc = "how many steps (1)"}),
             .examples = "step t\nstep t 100"),
    DLSH_ROW("forward", DLSH_ACTION | DLSH_FUNCTION, forward_run, "forward TRAINER",
             "First part of a step: takes the next batch, zeroes the gradients, computes output and loss.",
             .params = one_trainer, .examples = "forward t"),
    DLSH_ROW(
        "backward", DLSH_ACTION | DLSH_FUNCTION, backward_run, "backward TENSOR|TRAINER [GRADIENT]",
        "Adds the gradients of a loss to the .grad of every parameter it depends on; of a trainer, its second part of "
        "a step.",
        DLSH_PARAMS({"what", .want = "tensor|trainer", .doc = "a loss, or a trainer after forward"},
                    {"gradient", .want = "tensor", .flags = DLSH_OPTIONAL, .doc = "the same as seed"}),
        DLSH_OPTIONS({"seed", DLSH_OPT_VALUE, NULL, .doc = "gradient to start from, in the shape of the tensor",
                      .want = "tensor"},
                     {"retain", DLSH_OPT_BOOL, "false", .doc = "keep the history for another pass"},
                     {"create_graph", DLSH_OPT_BOOL, "false", .doc = "record the pass itself"}),
        .examples = "backward l\nbackward t"),
    DLSH_ROW("update", DLSH_ACTION | DLSH_FUNCTION, update_run, "update TRAINER",
             "Third part of a step: limits the gradients, sets the rate, changes the weights, records the metrics.",
             .params = one_trainer, .examples = "update t"),
    DLSH_ROW(
        "train", DLSH_ACTION | DLSH_FUNCTION, train_run, "train TRAINER epochs=N | steps=N",
        "Trains, with a line of progress an epoch, and evaluates the test split after each. Ctrl-C finishes the step.",
        .params = one_trainer,
        DLSH_OPTIONS({"epochs", DLSH_OPT_INT, NULL, .doc = "passes through the training split"},
                     {"steps", DLSH_OPT_INT, NULL, .doc = "or a number of steps"}),
        .examples = "train t epochs=2\ntrain t steps=100"),
    DLSH_ROW("eval", DLSH_ACTION | DLSH_FUNCTION | DLSH_SHOW_RESULT, eval_run, "eval TRAINER [split=test]",
             "Loss and accuracy over a split, in evaluation mode, as a record.", .params = one_trainer,
             DLSH_OPTIONS({"split", DLSH_OPT_WORD, "test", .doc = "which samples", .complete = "test|train|val"}),
             .examples = "eval t\nr = eval(t)"),
    {0}};
