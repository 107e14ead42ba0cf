/* `profile`: where the time of a training step goes, layer by layer, measured on a copy of the net. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/probe.h"
#include "dlcore/matmul.h"
#include "view/sink.h"
#include "view/table.h"

enum { PATH = 256 };

struct profile;

/* A layer: seconds of its passes, over all steps. */
typedef struct part {
    struct profile *of;
    char path[PATH];
    dl_module *m; /* of the copy; borrowed */
    double forward, backward, flops, bytes;
} part;

typedef struct profile {
    part *at;
    int n, cap, device;
    double last; /* when the layer before was done */
    part *under; /* whose backward pass runs; NULL: that of the loss */
    double loss_backward;
} profile;

/* ---------------------------------------------------------------- the clock */

static double now(const profile *p) {
    if (p->device) dl_device_synchronize(p->device);
    return dl_seconds();
}

/* The gradient of a layer's result has arrived: from here on it is this layer's pass. */
static dl_status on_gradient(void *ctx, dl_tensor *g, dl_tensor **instead) {
    part *k = ctx;
    profile *p = k->of;
    double t = now(p);
    (void)g, (void)instead;
    *(p->under ? &p->under->backward : &p->loss_backward) += t - p->last;
    p->under = k, p->last = t;
    return DL_OK;
}

static dl_status on_result(void *ctx, dl_tensor *y, dl_tensor **instead) {
    part *k = ctx;
    profile *p = k->of;
    double t = now(p);
    (void)instead;
    k->forward += t - p->last;
    if (dl_requires_grad(y)) DLSH_TRY(dl_on_grad(y, on_gradient, k, NULL));
    p->last = now(p);
    return DL_OK;
}

/* ---------------------------------------------------------------- the layers */

static dl_status find_parts(profile *p, dl_module *m, const char *path) {
    for (int i = 0; i < dl_module_count(m); i++) {
        dl_module *c = dl_module_at(m, i);
        char below[PATH];
        snprintf(below, sizeof below, "%s%s%s", path, *path ? "." : "", dl_module_label(m, i));
        DLSH_TRY(find_parts(p, c, below));
        if (!dlsh_is_single_layer(c)) continue;
        part *more = dlsh_grow(p->at, p->n, &p->cap, sizeof *more);
        if (!more) return dl_failed();
        p->at = more;
        p->at[p->n] = (part){.m = c};
        snprintf(p->at[p->n++].path, PATH, "%s", below);
    }
    return DL_OK;
}

/* Work and memory of a forward pass over the batch. */
static dl_status find_work(profile *p, const dlsh_probe *probe) {
    dl_net_input in = {.ndim = dl_ndim(probe->in[0]), .dtype = dl_dtype_of(probe->in[0])};
    memcpy(in.shape, dl_shape(probe->in[0]), (size_t)in.ndim * sizeof *in.shape);
    DLSH_ENDED(dl_summary_free)
    dl_summary *s = probe->nin == 1 ? dl_module_summary(probe->net, &in, 1, p->device) : NULL;
    if (!s) return dl_error_clear(), DL_OK;
    for (long i = 0; i < s->n; i++)
        for (int k = 0; k < p->n; k++)
            if (!strcmp(s->layers[i].path, p->at[k].path))
                p->at[k].flops = s->layers[i].flops, p->at[k].bytes = s->layers[i].bytes;
    return DL_OK;
}

/* ---------------------------------------------------------------- what the device can do */

/* FLOP/s of a large product in f32, the best of some. */
static double device_limit(int device) {
    enum { SIDE = 768, TIMES = 4 };
    DLSH_SCOPED_GRAD_MODE(0);
    long shape[2] = {SIDE, SIDE};
    DLSH_OWNED dl_tensor *a = dl_tensor_full(2, shape, DL_F32, device, 1),
                         *b = dl_tensor_full(2, shape, DL_F32, device, 1);
    double best = INFINITY;
    for (int i = 0; a && b && i < TIMES; i++) {
        double t = dl_seconds();
        DLSH_OWNED dl_tensor *c = dl_matmul(a, b);
        if (device) dl_device_synchronize(device);
        t = dl_seconds() - t;
        best = c && t < best ? t : best;
    }
    return 2.0 * SIDE * SIDE * SIDE / best;
}

/* ---------------------------------------------------------------- running and showing */

static dl_status run(profile *p, dlsh_probe *probe, long steps, double *seconds) {
    double began = 0;
    for (long i = -1; i < steps; i++) { /* the first one does not count: caches are cold */
        if (!i) {
            began = now(p);
            for (int k = 0; k < p->n; k++) p->at[k].forward = p->at[k].backward = 0;
            p->loss_backward = 0;
        }
        p->last = now(p), p->under = NULL;
        DLSH_TRY(dlsh_probe_forward(probe));
        p->last = now(p);
        DLSH_TRY(dlsh_probe_backward(probe, probe->net));
        if (p->under) p->under->backward += now(p) - p->last;
        DLSH_TRY(dlsh_check_interrupt());
    }
    *seconds = now(p) - began;
    return DL_OK;
}

static dlsh_value milliseconds(double seconds, long steps) { return dlsh_float(1e3 * seconds / (double)steps); }

static dl_status show(const profile *p, dlsh_sink *sink, long steps, double seconds, const char *title) {
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"layer", 'l', ""}, {"what", 'l', ""}, {"forward ms", 'r', "%.3g"},
                                     {"backward ms", 'r', "%.3g"}, {"share", 'r', ""}, {"flops", 'r', ""},
                                     {"GFLOP/s", 'r', "%.3g"}, {"of limit", 'r', ""}, {"memory", 'r', ""});
    dlsh_mode mode = dlsh_sink_look(sink).mode;
    double limit = device_limit(p->device);
    if (mode == DLSH_MODE_TABLE) t.title = title;
    for (int i = 0; i < p->n; i++) {
        const part *k = &p->at[i];
        double both = k->forward + k->backward, rate = both > 0 ? 3 * k->flops * (double)steps / both : 0;
        DLSH_ENDED(dl_text_free) char *what = dl_module_text(k->m);
        DLSH_TRY(dlsh_table_row(
            &t, (dlsh_value[]){dlsh_string(k->path), dlsh_string(what ? what : ""), milliseconds(k->forward, steps),
                               milliseconds(k->backward, steps), dlsh_stringf("%.1f%%", 100 * both / seconds),
                               dlsh_amount(k->flops, 0, mode), dlsh_float(1e-9 * rate),
                               dlsh_stringf("%.1f%%", 100 * rate / limit), dlsh_amount(k->bytes, 1, mode)}));
    }
    DLSH_TRY(dlsh_table_show(sink, &t, DL_OK, NULL));
    if (mode == DLSH_MODE_TABLE)
        dlsh_put(sink,
                 "%.3g ms a step, forward and backward; the device does %.3g GFLOP/s in a large product of matrices\n",
                 1e3 * seconds / (double)steps, 1e-9 * limit);
    return DL_OK;
}

static dl_status profile_run(const dlsh_args *a) {
    dl_trainer *t = dlsh_arg_handle(a, "trainer", &dlsh_trainer_class);
    long steps = dlsh_arg_int(a, "steps");
    dlsh_probe probe = {0};
    profile p = {0};
    double seconds = 0;
    char title[160];
    if (steps < 1) return dlsh_arg_fail(a, "steps", DL_ERR_VALUE, NULL, "steps must be at least 1, got %ld", steps);
    dl_status st = dlsh_probe_trainer(&probe, t, dl_loader_batch(dl_trainer_loader(t)));
    if (!st) p.device = dl_device_of(probe.in[0]), st = find_parts(&p, probe.net, "");
    for (int i = 0; !st && i < p.n; i++) p.at[i].of = &p, st = dl_on_forward(p.at[i].m, on_result, &p.at[i], NULL);
    if (!st) st = find_work(&p, &probe);
    if (!st) st = run(&p, &probe, steps, &seconds);
    snprintf(title, sizeof title, "net %s, %ld steps of %ld samples", dl_module_name(dl_trainer_model(t)), steps,
             probe.in[0] && dl_ndim(probe.in[0]) ? dl_shape(probe.in[0])[0] : 0);
    if (!st) st = show(&p, dlsh_arg_sink(a), steps, seconds, title);
    dlsh_probe_end(&probe);
    free(p.at);
    return st;
}

const dlsh_command profile_commands[] = {
    DLSH_ROW(
        "profile", DLSH_REPORT, profile_run, "profile TRAINER [steps=20]",
        "Where the time of a training step goes, layer by layer: milliseconds of the forward and of the backward pass, "
        "their share of the step, FLOPs of the forward pass, FLOP/s of both passes (taken as three times that), their "
        "share of what the device does in a large product of matrices, and memory of results and parameters. It is "
        "measured on a copy of the net and a batch of training data: the trainer stays as it is.",
        DLSH_PARAMS({"trainer", .want = "trainer", .doc = "what trains"}),
        DLSH_OPTIONS({"steps", DLSH_OPT_INT, "20", .doc = "how many passes to measure"}),
        .examples = "profile t steps=20"),
    {0}};
