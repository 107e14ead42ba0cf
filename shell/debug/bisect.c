/* `bisect`: the first step of a training after which a condition holds. */
#include <stdio.h>

#include "commands/nets/nets.h"
#include "debug/debug.h"
#include "debug/finding.h"
#include "lang/eval/interp.h"
#include "view/sink.h"

enum { FIGURES = 5, SHOWN = 16 }; /* digits of a hash */

static const char *const figure_names[FIGURES] = {"step", "loss", "acc", "lr", "grad_norm"};

typedef struct question {
    dlsh_session *s;
    const char *text;
} question;

/* The figures of the step; of a state that was restored but its number they are not known. */
static void figures(const dl_trainer *t, int made, dlsh_value v[FIGURES]) {
    dl_trainer_state now = dlsh_trainer_state(t);
    const double known[FIGURES] = {0, now.loss, now.acc, now.lr, now.grad_norm};
    v[0] = dlsh_int(now.step);
    for (int i = 1; i < FIGURES; i++) v[i] = made ? dlsh_float(known[i]) : dlsh_none();
}

/* Binds the figures that the text names to variables, whose own values wait in `hidden`. */
static dl_status lend(const question *q, dlsh_value v[FIGURES], dlsh_value hidden[FIGURES]) {
    for (int i = 0; i < FIGURES; i++) {
        if (!dlsh_debug_mentions(q->text, figure_names[i])) continue;
        const dlsh_value *had = dlsh_get(q->s, figure_names[i]);
        hidden[i] = had ? dlsh_ref(*had) : dlsh_void();
        DLSH_TRY(dlsh_set(q->s, figure_names[i], v[i]));
    }
    return DL_OK;
}

static void take_back(const question *q, dlsh_value hidden[FIGURES]) {
    for (int i = 0; i < FIGURES; i++) {
        if (!dlsh_debug_mentions(q->text, figure_names[i])) continue;
        if (hidden[i].type == DLSH_VOID)
            dlsh_unset(q->s, figure_names[i]);
        else if (dlsh_set(q->s, figure_names[i], hidden[i]))
            dl_error_clear();
    }
}

/* The answer of the condition; the last value of the session stays what it was. */
static dl_status evaluate(const question *q, int *yes) {
    const dlsh_value *had = dlsh_get(q->s, "_");
    dlsh_value last = had ? dlsh_ref(*had) : dlsh_void();
    DLSH_DROPPED dlsh_value answer = dlsh_void();
    int recording = dl_recording_set(0);
    DLSH_SCOPED_GRAD_MODE(0);
    DLSH_SCOPED_BUF text = {0};
    dlsh_buf_printf(&text, "(%s)", q->text); /* step alone would begin a command */
    dl_status st = dlsh_running_run(q->s, 0, dlsh_buf_text(&text), text.n, &answer);
    dl_recording_set(recording);
    *yes = !st && dlsh_debug_truth(answer);
    if (last.type != DLSH_VOID && dlsh_set(q->s, "_", last)) dl_error_clear();
    return st;
}

static dl_status ask(const question *q, dlsh_value v[FIGURES], int *yes) {
    dlsh_value hidden[FIGURES];
    for (int i = 0; i < FIGURES; i++) hidden[i] = dlsh_void();
    dl_status st = lend(q, v, hidden);
    *yes = 0;
    if (!st) st = evaluate(q, yes);
    take_back(q, hidden);
    return st;
}

/* Where a state was restored, gradients and figures are not there: what needs them does not hold. */
static int holds(void *ctx, dl_trainer *t, int made) {
    const question *q = ctx;
    dlsh_value v[FIGURES];
    int yes;
    figures(t, made, v);
    if (!ask(q, v, &yes)) return yes;
    if (made || dlsh_interrupted()) return -1;
    dlsh_place_clear(q->s);
    dl_error_clear();
    return 0;
}

/* ---------------------------------------------------------------- what it says */

static const char *plural(long n) { return n == 1 ? "" : "s"; }

static void put_way(dlsh_sink *sink, const dl_bisection *b) {
    dlsh_put(sink, "%ld step%s looked at, %ld made again; the trainer is as it was, state %.*s\n", b->looked,
             plural(b->looked), b->made, (int)SHOWN, b->hash);
    if (b->skipped)
        dlsh_put(sink, "%ld step%s could not be made again: something was changed between steps\n", b->skipped,
                 plural(b->skipped));
}

/* Is what was found certain to be the first? */
static void put_limits(dlsh_sink *sink, const dl_bisection *b, long last) {
    if (b->all && (b->stretches > 1 || !b->holds_now))
        dlsh_put(
            sink, "it comes and goes: it holds after %ld of %ld steps, in %ld stretch%s, and after the last it %s\n",
            b->held, last - b->from, b->stretches, b->stretches == 1 ? "" : "es", b->holds_now ? "holds" : "does not");
    else if (b->all)
        dlsh_put(sink, "from there on it holds after every step\n");
    else
        dlsh_put(sink, "kept states were halved, which is right for what stays true; `all` looks at every step\n");
}

static void put_first(dlsh_sink *sink, const char *text, const dl_bisection *b) {
    char place[300] = "";
    if (b->source.file && b->source.line)
        snprintf(place, sizeof place, ", made at %s:%d", b->source.file, b->source.line);
    if (b->first == b->from)
        dlsh_put(sink, "%s holds already after step %ld, the first that was kept\n", text, b->first);
    else
        dlsh_put(sink, "%s first holds after step %ld: epoch %ld, batch %ld%s\n", text, b->first, b->epoch + 1,
                 b->batch, place);
}

static void keep(dlsh_session *s, const char *text, const dl_bisection *b) {
    dlsh_finding f = {.by = "bisect",
                      .check = "the first step",
                      .pass = "update",
                      .file = b->source.file,
                      .line = b->source.file ? b->source.line : 0};
    dlsh_cause(&f, "%s first holds after step %ld", text, b->first);
    dlsh_evidence(&f, "epoch %ld, batch %ld; %ld steps looked at, %ld made again%s", b->epoch + 1, b->batch, b->looked,
                  b->made, b->all ? ", every step" : "");
    dlsh_finding_keep(s, &f);
}

static void put_none(dlsh_sink *sink, const char *text, const dl_bisection *b, const dl_trainer_state *now) {
    if (b->all) dlsh_put(sink, "%s holds after none of the steps %ld to %ld\n", text, b->from, now->step);
    if (b->holds_now && now->diverged)
        dlsh_put(sink, "%s holds in step %ld, which diverged and was not counted\n", text, now->step + 1);
    else if (b->holds_now)
        dlsh_put(sink, "%s holds now, after no step that was made again: what it depends on was changed since\n", text);
    else if (!b->all)
        dlsh_put(sink, "%s does not hold after step %ld, the last; `all` looks at every step\n", text, now->step);
}

static dl_status report(const dlsh_args *a, const char *text, const dl_bisection *b, const dl_trainer_state *now) {
    dlsh_sink *sink = dlsh_arg_sink(a);
    if (b->first >= 0) {
        put_first(sink, text, b);
        put_limits(sink, b, now->step);
        keep(dlsh_arg_session(a), text, b);
    } else
        put_none(sink, text, b, now);
    put_way(sink, b);
    return DL_OK;
}

static dlsh_value number_or_none(long n) { return n >= 0 ? dlsh_int(n) : dlsh_none(); }

static dl_status bisect_run(const dlsh_args *a, dlsh_value *result) {
    dl_trainer *t = dlsh_arg_handle(a, "trainer", &dlsh_trainer_class);
    question q = {dlsh_arg_session(a), dlsh_arg_str(a, "condition")};
    dl_bisection b = {.all = dlsh_arg_bool(a, "all")};
    dl_trainer_state now = dlsh_trainer_state(t);
    dl_status st = dl_trainer_bisect(t, holds, &q, &b);
    if (st == DL_ERR_INTERRUPT) {
        dlsh_place_clear(q.s);
        return dlsh_fail(DL_ERR_INTERRUPT, NULL, "bisect was interrupted after %ld steps; the trainer is as it was",
                         b.looked);
    }
    DLSH_TRY(st);
    DLSH_TRY(report(a, q.text, &b, &now));
    return dlsh_give(DLSH_RECORD_OF({"step", number_or_none(b.first)},
                                    {"line", b.first >= 0 && b.source.file ? dlsh_int(b.source.line) : dlsh_none()},
                                    {"file", b.first >= 0 && b.source.file ? dlsh_string(b.source.file) : dlsh_none()},
                                    {"epoch", b.first >= 0 ? dlsh_int(b.epoch + 1) : dlsh_none()},
                                    {"batch", b.first >= 0 ? dlsh_int(b.batch) : dlsh_none()},
                                    {"looked", dlsh_int(b.looked)}, {"made", dlsh_int(b.made)},
                                    {"held", b.all ? dlsh_int(b.held) : dlsh_none()},
                                    {"stretches", b.all ? dlsh_int(b.stretches) : dlsh_none()}),
                     result);
}

const dlsh_command bisect_commands[] = {
    DLSH_ROW(
        "bisect", DLSH_ACTION | DLSH_FUNCTION, bisect_run, "bisect TRAINER \"CONDITION\" [all]",
        "The first step of a training after which a condition holds, with the statement that made it. States that "
        "were kept are halved, and the steps between two of them made again, each looked at; see rewind. That is "
        "right for what stays true; for what comes and goes, all looks at every step and says how often it holds. "
        "The condition sees the net's weights and gradients as after the step, and step, loss, acc, lr and "
        "grad_norm of it. Afterwards the trainer is as it was, compared by hash; its run hears of the result "
        "alone, as an event. As a function its result is a record with step, line, file, epoch, batch, looked, "
        "made, held, stretches.",
        DLSH_PARAMS({"trainer", .want = "trainer", .doc = "what was trained"},
                    {"condition", .want = "string", .doc = "an expression, as text; of a tensor any element counts"}),
        DLSH_OPTIONS({"all", DLSH_OPT_BOOL, "false", .doc = "look at every step"}),
        .examples = "bisect t \"norm(m.linear.weight) > 10\"\nbisect t \"isnan(loss)\" all"),
    {0}};
