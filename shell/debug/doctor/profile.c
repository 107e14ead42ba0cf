/* `profile`: where the time of a training step, or of statements, goes: by layers and by ops, beside what the device
 * can do. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/probe.h"
#include "dlcore/copy.h"
#include "dlcore/matmul.h"
#include "view/sink.h"
#include "view/table.h"

enum { PATH = 256, PASSES = 3 };

typedef enum pass { FORWARD, BACKWARD, UPDATE } pass;
static const char *const pass_names[PASSES] = {"forward", "backward", "update"};

/* The calls of an op in a layer and pass. */
typedef struct entry {
    const char *op, *layer;
    pass pass;
    long calls;
    double seconds, flops, bytes;
} entry;

/* A layer of the net: its time by passes, and what its results and parameters take. */
typedef struct part {
    char path[PATH], *what;
    double seconds[PASSES], flops, bytes, memory;
} part;

typedef struct profile {
    entry *at;
    int n, cap, device;
    part *parts;
    int nparts, partcap;
    long steps;
    double wall, ops;       /* seconds, in all; of them in ops */
    double compute, memory; /* FLOP/s of a large product of matrices, bytes/s of a large copy */
    long side;              /* of the matrices of that product */
    double product;         /* its seconds */
} profile;

/* ---------------------------------------------------------------- what the device can do */

static void wait_for(const profile *p) {
    if (p->device) dl_device_synchronize(p->device);
}

/* Seconds of the best of some calls, on a matrix. */
static double best_of(const profile *p, long rows, long cols, dl_tensor *(*run)(dl_tensor *a)) {
    enum { TIMES = 4 };
    DLSH_SCOPED_GRAD_MODE(0);
    dl_tensor *a = dl_tensor_full(2, (long[]){rows, cols}, DL_F32, p->device, 1);
    double best = INFINITY;
    for (int i = 0; a && i < TIMES; i++) {
        wait_for(p);
        double t = dl_seconds();
        dl_tensor *c = run(a);
        wait_for(p);
        t = dl_seconds() - t;
        best = c && t < best ? t : best;
        dl_unref(c);
    }
    dl_unref(a);
    return best;
}

static dl_tensor *square(dl_tensor *a) { return dl_matmul(a, a); }

/* Large: they take some time on this device. */
static void find_limits(profile *p) {
    enum { LEAST = 768, MOST = 6144, ROWS = 8192, MOST_ROWS = 65536, COLS = 1024 };
    const double some = 1e-3;
    for (p->side = LEAST, p->product = 0; p->side <= MOST; p->side *= 2) {
        p->product = best_of(p, p->side, p->side, square);
        if (p->product > some || 2 * p->side > MOST) break;
    }
    p->compute = 2.0 * (double)(p->side * p->side * p->side) / p->product;
    for (long rows = ROWS; rows <= MOST_ROWS; rows *= 2) {
        const double t = best_of(p, rows, COLS, dl_clone);
        p->memory = 2.0 * 4 * COLS * (double)rows / t;
        if (t > some) break;
    }
}

/* ---------------------------------------------------------------- adding up */

static entry *entry_of(profile *p, const entry *e) {
    for (int i = 0; i < p->n; i++)
        if (p->at[i].op == e->op && p->at[i].pass == e->pass && !strcmp(p->at[i].layer, e->layer)) return &p->at[i];
    entry *more = dlsh_grow(p->at, p->n, &p->cap, sizeof *more);
    if (!more) return NULL;
    p->at = more;
    p->at[p->n] = (entry){.op = e->op, .layer = e->layer, .pass = e->pass};
    return &p->at[p->n++];
}

static dl_status add(profile *p, const entry *e) {
    entry *to = entry_of(p, e);
    if (!to) return dl_failed();
    to->calls += e->calls, to->seconds += e->seconds, to->flops += e->flops, to->bytes += e->bytes;
    return DL_OK;
}

/* Ends the taking of times that dl_op_times_begin began; update: what ran is an optimizer. */
static dl_status take_times(profile *p, int update, int counts) {
    dl_op_time *rows = NULL;
    long n = 0;
    double wall = 0;
    dl_status st = dl_op_times_end(counts ? &rows : NULL, &n, &wall);
    if (counts) p->wall += wall;
    for (long i = 0; !st && i < n; i++) {
        const dl_op_time *r = &rows[i];
        st = add(p, &(entry){.op = r->op,
                             .layer = r->layer,
                             .pass = update        ? UPDATE
                                     : r->backward ? BACKWARD
                                                   : FORWARD,
                             .calls = r->calls,
                             .seconds = r->seconds,
                             .flops = r->flops,
                             .bytes = r->bytes});
    }
    free(rows);
    return st;
}

static void profile_end(profile *p) {
    for (int i = 0; i < p->nparts; i++) dl_text_free(p->parts[i].what);
    free(p->parts);
    free(p->at);
}

/* ---------------------------------------------------------------- steps of a trainer */

/* What waits on the device while the host issues a pass, so that kernels follow one another there as in a captured
 * step: products of matrices that take longer than that. */
static dl_status run_ahead(const profile *p, double seconds) {
    DLSH_SCOPED_GRAD_MODE(0);
    if (!p->device) return DL_OK;
    dl_tensor *a = dl_tensor_full(2, (long[]){p->side, p->side}, DL_F32, p->device, 1);
    dl_status st = a ? DL_OK : dl_failed();
    for (double t = 0; !st && t < seconds; t += p->product) {
        dl_tensor *c = dl_matmul(a, a);
        if (!c) st = dl_failed();
        dl_unref(c);
    }
    dl_unref(a);
    return st;
}

static dl_status one_step(profile *p, dlsh_probe *probe, double *host, int counts) {
    wait_for(p);
    DLSH_TRY(run_ahead(p, *host));
    const double began = dl_seconds();
    DLSH_TRY(dl_op_times_begin());
    dl_status st = dlsh_probe_forward(probe);
    if (!st) st = dlsh_probe_backward(probe, probe->net);
    *host = dl_seconds() - began;
    dl_status end = take_times(p, 0, counts && !st);
    if (st || end) return st ? st : end;
    if (!probe->opt) return DL_OK;
    DLSH_TRY(run_ahead(p, *host));
    DLSH_TRY(dl_op_times_begin());
    st = dl_optimizer_step(probe->opt);
    end = take_times(p, 1, counts && !st);
    return st ? st : end;
}

static dl_status run_steps(profile *p, dlsh_probe *probe) {
    double host = 0;
    for (long i = -2; i < p->steps; i++) { /* the first ones do not count: caches are cold, plans are made */
        DLSH_TRY(one_step(p, probe, &host, i >= 0));
        DLSH_TRY(dlsh_check_interrupt());
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- layers */

static part *new_part(profile *p, const char *path) {
    part *more = dlsh_grow(p->parts, p->nparts, &p->partcap, sizeof *more);
    if (!more) return NULL;
    p->parts = more;
    part *k = &p->parts[p->nparts++];
    *k = (part){.memory = NAN};
    snprintf(k->path, PATH, "%s", path);
    return k;
}

static dl_status find_parts(profile *p, dl_module *m, const char *path) {
    for (int i = 0; i < dl_module_count(m); i++) {
        dl_module *c = dl_module_at(m, i);
        char below[PATH];
        snprintf(below, sizeof below, "%s%s%s", path, *path ? "." : "", dl_module_label(m, i));
        DLSH_TRY(find_parts(p, c, below));
        if (!dlsh_is_single_layer(c)) continue;
        part *k = new_part(p, below);
        if (!k) return dl_failed();
        k->what = dl_module_text(c);
    }
    return DL_OK;
}

/* Memory of results and parameters for the batch. */
static dl_status find_memory(profile *p, const dlsh_probe *probe) {
    dl_net_input in = {.ndim = dl_ndim(probe->in[0]), .dtype = dl_dtype_of(probe->in[0])};
    memcpy(in.shape, dl_shape(probe->in[0]), (size_t)in.ndim * sizeof *in.shape);
    dl_summary *s = probe->nin == 1 ? dl_module_summary(probe->net, &in, 1, p->device) : NULL;
    if (!s) return dl_error_clear(), DL_OK;
    for (long i = 0; i < s->n; i++)
        for (int k = 0; k < p->nparts; k++)
            if (!strcmp(s->layers[i].path, p->parts[k].path)) p->parts[k].memory = s->layers[i].bytes;
    dl_summary_free(s);
    return DL_OK;
}

/* The part that a call belongs to: the layer, or what is outside of layers. */
static part *part_of(profile *p, const char *layer) {
    const char *path = *layer ? layer : "(no layer)";
    for (int i = 0; i < p->nparts; i++)
        if (!strcmp(p->parts[i].path, path)) return &p->parts[i];
    return new_part(p, path);
}

static dl_status share_out(profile *p) {
    for (int i = 0; i < p->n; i++) {
        const entry *e = &p->at[i];
        part *k = part_of(p, e->layer);
        if (!k) return dl_failed();
        p->ops += e->seconds;
        k->seconds[e->pass] += e->seconds, k->flops += e->flops, k->bytes += e->bytes;
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- showing */

static dlsh_value milliseconds(const profile *p, double seconds) {
    return dlsh_float(1e3 * seconds / (double)p->steps);
}

static dlsh_value percent(double part, double of) { return dlsh_stringf("%.1f%%", of > 0 ? 100 * part / of : 0); }

/* The nearer of the two limits: what part of the time the device would need at its best. */
static dlsh_value of_limit(const profile *p, double seconds, double flops, double bytes) {
    const double compute = flops / p->compute, memory = bytes / p->memory;
    if (seconds <= 0) return dlsh_string("");
    return dlsh_stringf("%.0f%% %s", 100 * (compute > memory ? compute : memory) / seconds,
                        compute > memory ? "compute" : "memory");
}

static double per_second(double work, double seconds) { return seconds > 0 ? 1e-9 * work / seconds : 0; }

static dl_status show_layers(const profile *p, dlsh_sink *sink, const char *title) {
    dlsh_mode mode = dlsh_sink_look(sink).mode;
    dlsh_table t = DLSH_TABLE({"layer", 'l', ""}, {"what", 'l', ""}, {"forward ms", 'r', "%.3g"},
                              {"backward ms", 'r', "%.3g"}, {"share", 'r', ""}, {"GFLOP/s", 'r', "%.3g"},
                              {"GB/s", 'r', "%.3g"}, {"of limit", 'l', ""}, {"memory", 'r', ""});
    dl_status st = DL_OK;
    if (mode == DLSH_MODE_TABLE) t.title = title;
    for (int i = 0; !st && i < p->nparts; i++) {
        const part *k = &p->parts[i];
        const double all = k->seconds[FORWARD] + k->seconds[BACKWARD] + k->seconds[UPDATE];
        st = DLSH_TABLE_ROW(&t, dlsh_string(k->path), dlsh_string(k->what ? k->what : ""),
                            milliseconds(p, k->seconds[FORWARD]), milliseconds(p, k->seconds[BACKWARD]),
                            percent(all, p->ops), dlsh_float(per_second(k->flops, all)),
                            dlsh_float(per_second(k->bytes, all)), of_limit(p, all, k->flops, k->bytes),
                            isnan(k->memory) ? dlsh_string("") : dlsh_amount(k->memory, 1, mode));
    }
    return dlsh_table_show(sink, &t, st, NULL);
}

static int longest_first(const void *a, const void *b) {
    const double x = ((const entry *)a)->seconds, y = ((const entry *)b)->seconds;
    return x < y ? 1 : -(x > y);
}

/* The ops of all layers together. */
static dl_status join_layers(const profile *p, profile *out) {
    dl_status st = DL_OK;
    for (int i = 0; !st && i < p->n; i++) {
        entry e = p->at[i];
        e.layer = "";
        st = add(out, &e);
    }
    return st;
}

static dl_status show_ops(const profile *p, dlsh_sink *sink, int layers) {
    dlsh_table t = DLSH_TABLE({"op", 'l', ""}, {"pass", 'l', ""}, {"calls", 'r', "%.4g"}, {"ms", 'r', "%.3g"},
                              {"share", 'r', ""}, {"GFLOP/s", 'r', "%.3g"}, {"GB/s", 'r', "%.3g"},
                              {"of limit", 'l', ""}, {layers ? "layer" : "", 'l', ""});
    dl_status st = DL_OK;
    if (!layers) t.ncols--;
    if (p->n) qsort(p->at, (size_t)p->n, sizeof *p->at, longest_first);
    for (int i = 0; !st && i < p->n; i++) {
        const entry *e = &p->at[i];
        st = DLSH_TABLE_ROW(&t, dlsh_string(e->op), dlsh_string(pass_names[e->pass]),
                            dlsh_float((double)e->calls / (double)p->steps), milliseconds(p, e->seconds),
                            percent(e->seconds, p->ops), dlsh_float(per_second(e->flops, e->seconds)),
                            dlsh_float(per_second(e->bytes, e->seconds)), of_limit(p, e->seconds, e->flops, e->bytes),
                            layers ? dlsh_string(e->layer) : dlsh_none());
    }
    return dlsh_table_show(sink, &t, st, "no op ran\n");
}

/* The calls of each op in a layer and pass, as records; of one step. */
static dl_status give_calls(const profile *p, dlsh_value *result) {
    const double steps = (double)p->steps;
    dlsh_value list = dlsh_new_list(p->n);
    dl_status st = dlsh_failed(list) ? dl_failed() : DL_OK;
    if (p->n) qsort(p->at, (size_t)p->n, sizeof *p->at, longest_first);
    for (int i = 0; !st && i < p->n; i++) {
        const entry *e = &p->at[i];
        st = dlsh_list_push(list.as.list,
                            DLSH_RECORD_OF({"op", dlsh_string(e->op)}, {"layer", dlsh_string(e->layer)},
                                           {"pass", dlsh_string(pass_names[e->pass])},
                                           {"calls", dlsh_float((double)e->calls / steps)},
                                           {"ms", milliseconds(p, e->seconds)}, {"flops", dlsh_float(e->flops / steps)},
                                           {"bytes", dlsh_float(e->bytes / steps)}));
    }
    return dlsh_give_filled(st, list, result);
}

static dl_status show(profile *p, const dlsh_args *a, const char *title) {
    dlsh_sink *sink = dlsh_arg_sink(a);
    const char *by = dlsh_arg_str(a, "by");
    const int all = !strcmp(by, "all");
    dl_status st = share_out(p);
    profile joined = *p;
    joined.at = NULL, joined.n = joined.cap = 0;
    if (!st && (all || !strcmp(by, "layer"))) st = show_layers(p, sink, title);
    if (!st && !strcmp(by, "call")) st = show_ops(p, sink, 1);
    if (!st && (all || !strcmp(by, "op"))) {
        st = join_layers(p, &joined);
        if (!st) st = show_ops(&joined, sink, 0);
    }
    free(joined.at);
    if (st || dlsh_sink_look(sink).mode != DLSH_MODE_TABLE) return st;
    dlsh_put(sink,
             "%.3g ms a step, %.3g of them in ops%s; the device does %.3g GFLOP/s in a large product of matrices "
             "and copies %.3g GB/s\n",
             1e3 * p->wall / (double)p->steps, 1e3 * p->ops / (double)p->steps,
             p->device ? ", between events on its stream" : "", 1e-9 * p->compute, 1e-9 * p->memory);
    return DL_OK;
}

/* ---------------------------------------------------------------- the command */

static dl_status tell(profile *p, const dlsh_args *a, const char *title, dlsh_value *result) {
    return dlsh_arg_called(a) ? give_calls(p, result) : show(p, a, title);
}

static dl_status profile_trainer(const dlsh_args *a, profile *p, dl_trainer *t, dlsh_value *result) {
    dlsh_probe probe = {.from = ""};
    char title[160];
    dl_status st = dlsh_probe_trainer(&probe, t, dl_loader_batch(dl_trainer_loader(t)));
    if (!st) p->device = dl_device_of(probe.in[0]), st = find_parts(p, probe.net, "");
    if (!st) st = find_memory(p, &probe);
    if (!st && dlsh_probe_optimizer(&probe, dl_trainer_optimizer(t), dl_trainer_model(t))) {
        dl_optimizer_unref(probe.opt); /* without its update */
        probe.opt = NULL;
        dl_error_clear();
    }
    if (!st) find_limits(p), dl_module_train(probe.net, 1), st = run_steps(p, &probe);
    snprintf(title, sizeof title, "net %s, %ld steps of %ld samples", dl_module_name(dl_trainer_model(t)), p->steps,
             probe.in[0] && dl_ndim(probe.in[0]) ? dl_shape(probe.in[0])[0] : 0);
    if (!st) st = tell(p, a, title, result);
    dlsh_probe_end(&probe);
    return st;
}

/* Statements run as they do without it, but steps of trainers op by op. */
static dl_status profile_block(const dlsh_args *a, profile *p) {
    const int capture = dl_capture_get();
    p->device = dlsh_default_device();
    find_limits(p);
    DLSH_TRY(dl_op_times_begin());
    dl_capture_set(0);
    dl_status st = DL_OK;
    for (long i = 0; !st && i < p->steps; i++) st = dlsh_arg_exec(a, "statements", NULL);
    dl_capture_set(capture);
    dl_status end = take_times(p, 0, !st);
    if (st || end) return st ? st : end;
    return show(p, a, "statements");
}

static dl_status profile_run(const dlsh_args *a, dlsh_value *result) {
    dl_trainer *t = dlsh_arg_handle(a, "trainer", &dlsh_trainer_class);
    const int block = dlsh_arg_node(a, "statements") != NULL;
    profile p = {.steps = dlsh_given(a, "steps") ? dlsh_arg_int(a, "steps") : block ? 1 : 20};
    if (p.steps < 1) return dlsh_arg_fail(a, "steps", DL_ERR_VALUE, NULL, "steps must be at least 1, got %ld", p.steps);
    if ((t != NULL) == block)
        return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, "profile t, or profile { backward l }",
                             "profile takes a trainer or statements");
    dl_status st = block ? profile_block(a, &p) : profile_trainer(a, &p, t, result);
    profile_end(&p);
    return st;
}

const dlsh_command profile_commands[] = {
    DLSH_ROW(
        "profile", DLSH_REPORT | DLSH_FUNCTION, profile_run, "profile TRAINER [steps=20] | profile { STATEMENTS }",
        "Where the time of a training step goes, or of statements: by layers, and by ops, the longest first, forward "
        "and backward apart: milliseconds and calls of a step, share of the step, FLOP/s and bytes/s, and how much of "
        "what the device can do that is: the larger of the FLOPs at the rate of a large product of matrices, and of "
        "the bytes of operands and results at that of a large copy. Times are between events on a GPU's stream, which "
        "wait for nothing. A step of a trainer is one of a copy of its net and optimizer on a batch of training data: "
        "the trainer stays as it is. Statements run as always, but trainers op by op. As a function its result is a "
        "list of records, one for each op in a layer and pass, the longest first: op, layer, pass, calls, ms, flops "
        "and "
        "bytes of a step.",
        DLSH_PARAMS({"trainer", .want = "trainer", .flags = DLSH_OPTIONAL, .doc = "what trains"},
                    {"statements", DLSH_ARG_BLOCK, .flags = DLSH_OPTIONAL, .doc = "what is run, steps= times"}),
        DLSH_OPTIONS({"steps", DLSH_OPT_INT, NULL, .doc = "how many steps to measure (20; statements run once)"},
                     {"by", DLSH_OPT_WORD, "all", .doc = "which tables: of layers, ops, calls of an op in a layer",
                      .complete = "all|layer|op|call"}),
        .examples =
            "profile t steps=20\nprofile t by=call\nprofile(t)[0].op\nprofile { l = sum(relu(x @ w)); backward l }"),
    {0}};
