/* `lr_find`: a range test of the learning rate, drawn. */
#include <math.h>
#include <stdlib.h>

#include "commands/nets/nets.h"
#include "view/rich/plot.h"

static const char hint[] = "lr_find t from=1e-6 to=1 steps=200";

static dl_status check(const dlsh_args *a, const dl_lr_range *r) {
    if (!(r->from > 0 && r->to > r->from && isfinite(r->to)))
        return dlsh_arg_fail(a, "from", DL_ERR_VALUE, hint,
                             "rates go from a number above 0 to a larger one, not from %g to %g", r->from, r->to);
    if (r->steps < 10 || r->steps > 1000000)
        return dlsh_arg_fail(a, "steps", DL_ERR_VALUE, hint, "a range test takes 10 to 1000000 steps, not %ld",
                             r->steps);
    if (!(r->smooth >= 0 && r->smooth < 1))
        return dlsh_arg_fail(a, "smooth", DL_ERR_VALUE, hint, "the weight of the past is from 0 to below 1, got %g",
                             r->smooth);
    return DL_OK;
}

/* The losses of a test that diverges would press the part that matters to the ground: those above the first by more
 * than half of what it falls are not drawn. In place: the record is made before. */
static void crop(const dl_lr_range *r, double *bottom, double *top) {
    double least = INFINITY;
    for (long i = 0; i < r->n; i++) {
        least = fmin(least, r->mean[i]);
        *bottom = fmin(*bottom, fmin(r->loss[i], r->mean[i]));
    }
    const double most = least < r->mean[0] ? r->mean[0] + 0.5 * (r->mean[0] - least) : INFINITY;
    for (long i = 0; i < r->n; i++) {
        if (r->loss[i] > most) r->loss[i] = NAN;
        if (r->mean[i] > most) r->mean[i] = NAN;
        *top = fmax(*top, fmax(r->loss[i], r->mean[i]));
    }
}

static dl_status draw(const dlsh_args *a, const dl_lr_range *r) {
    dlsh_sink *sink = dlsh_arg_sink(a);
    const char *file = dlsh_arg_str(a, "out");
    double ends[] = {INFINITY, -INFINITY};
    crop(r, &ends[0], &ends[1]);
    const double at[] = {r->suggestion, r->suggestion};
    const dlsh_curve curves[] = {{.label = "loss", .n = r->n, .x = r->lr, .y = r->loss, .points = 1},
                                 {.label = "mean", .n = r->n, .x = r->lr, .y = r->mean},
                                 {.label = "suggestion", .n = 2, .x = at, .y = ends}};
    const dlsh_plot p = {.title = "range test of the learning rate",
                         .xlabel = "lr",
                         .ylabel = "loss",
                         .file = file,
                         .ncurves = isnan(r->suggestion) ? 2 : 3,
                         .curves = curves,
                         .logx = 1};
    if (!file) return sink->ops->plot ? sink->ops->plot(sink, &p) : DL_OK;
    DLSH_TRY(dlsh_plot_draw(&p, NULL, NULL)); /* not by the sink: that of a function call draws nothing */
    dlsh_put(sink, "wrote %s\n", file);
    return DL_OK;
}

static void say(const dlsh_args *a, const dl_lr_range *r) {
    dlsh_sink *sink = dlsh_arg_sink(a);
    if (isnan(r->suggestion)) {
        dlsh_put(sink, "no suggestion: the loss does not fall between %.3g and %.3g\n", r->from,
                 r->n ? r->lr[r->n - 1] : r->to);
        return;
    }
    dlsh_put(sink, "suggestion: lr=%.2g, where the loss falls fastest; it is least at %.2g", r->suggestion, r->lowest);
    if (r->n < r->steps) dlsh_put(sink, " and diverges at %.2g", r->lr[r->n - 1]);
    dlsh_put(sink, "\n");
}

static dl_status record_of(const dl_lr_range *r, dlsh_value *result) {
    dlsh_value lr = dlsh_new_list(r->n), loss = dlsh_new_list(r->n), mean = dlsh_new_list(r->n);
    dl_status st = dlsh_failed(lr) || dlsh_failed(loss) || dlsh_failed(mean) ? dl_failed() : DL_OK;
    for (long i = 0; i < r->n && !st; i++) {
        st = dlsh_append(lr, dlsh_float(r->lr[i]));
        if (!st) st = dlsh_append(loss, dlsh_float(r->loss[i]));
        if (!st) st = dlsh_append(mean, dlsh_float(r->mean[i]));
    }
    if (st) {
        dlsh_drop(lr);
        dlsh_drop(loss);
        dlsh_drop(mean);
        return st;
    }
    return dlsh_give(DLSH_RECORD_OF({"suggestion", dlsh_known(r->suggestion)}, {"lowest", dlsh_known(r->lowest)},
                                    {"lr", lr}, {"loss", loss}, {"mean", mean}),
                     result);
}

static dl_status lr_find_run(const dlsh_args *a, dlsh_value *result) {
    dl_lr_range r = {.from = dlsh_arg_float(a, "from"),
                     .to = dlsh_arg_float(a, "to"),
                     .steps = dlsh_arg_int(a, "steps"),
                     .smooth = dlsh_arg_float(a, "smooth"),
                     .diverge = 4};
    DLSH_TRY(check(a, &r));
    DLSH_FREED double *room = dl_memory_alloc(3 * r.steps, sizeof *room);
    if (!room) return dl_failed();
    r.lr = room, r.loss = room + r.steps, r.mean = room + 2 * r.steps;
    DLSH_TRY(dl_trainer_lr_find(dlsh_arg_handle(a, "trainer", &dlsh_trainer_class), &r));
    const int people = dlsh_sink_look(dlsh_arg_sink(a)).mode == DLSH_MODE_TABLE;
    DLSH_TRY(record_of(&r, result));
    if (r.n > 1 && (dlsh_given(a, "out") || (people && !dlsh_arg_called(a)))) DLSH_TRY(draw(a, &r));
    if (people && !dlsh_arg_called(a)) say(a, &r);
    if (!people && !dlsh_arg_called(a)) DLSH_TRY(dlsh_arg_sink(a)->ops->value(dlsh_arg_sink(a), *result));
    return DL_OK;
}

const dlsh_command lr_find_commands[] = {
    DLSH_ROW(
        "lr_find", DLSH_ACTION | DLSH_FUNCTION, lr_find_run, "lr_find TRAINER [from=1e-7] [to=10] [steps=100]",
        "A range test of the learning rate: trains with rates that rise from step to step, draws the loss over them "
        "and suggests a rate. The trainer is then as it was before: weights, optimizer, random numbers, position in "
        "the data. As a function a record: suggestion, lowest, and the lists lr, loss, mean.",
        DLSH_PARAMS({.name = "trainer", .want = "trainer", .doc = "what trains: trainer(net, data, ...)"}),
        DLSH_OPTIONS({"from", DLSH_OPT_FLOAT, "1e-7", .doc = "the first rate"},
                     {"to", DLSH_OPT_FLOAT, "10", .doc = "the last one; the test ends earlier when the loss diverges"},
                     {"steps", DLSH_OPT_INT, "100", .doc = "steps of training"},
                     {"smooth", DLSH_OPT_FLOAT, "0.9", .doc = "the weight of the past in means of the loss"},
                     {"out", DLSH_OPT_WORD, NULL, .doc = "draw into a file: NAME.png, NAME.svg or NAME.txt",
                      .complete = "file"}),
        .examples = "lr_find t\nr = lr_find(t, from=1e-5, to=1)\nt.lr = r.suggestion"),
    {0}};
