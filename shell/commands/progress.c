/* progress(xs): a loop of one's own with rate and time left. Loops within loops share one line, that of the outermost,
 * whose time left counts all their turns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/eval/interp.h"
#include "lang/session.h"

/* What is to be gone through. */
typedef struct subject {
    dlsh_value over;
    long total; /* 0: unknown */
    char label[64];
} subject;

/* A loop over it. */
typedef struct loop {
    dlsh_iter it;
    dlsh_sink *sink;
    long at, total;
    int begun, within;            /* within: another loop ran in the present turn */
    double started, turns, drawn; /* seconds; turns of the innermost loops since then */
    char label[64];
    struct loop *outer, *inner; /* inner: the one that runs within the present turn */
} loop;

static loop *innermost; /* of those under way */

/* ---------------------------------------------------------------- the line */

/* Turns done of those of all loops down to the innermost, as if each had as many as now. total 0: one is unknown. */
static void count_job(const loop *l, double *at, double *total) {
    *at = 0, *total = 1;
    for (; l; l = l->inner) {
        if (!l->total) *total = 0;
        *at = *at * (double)l->total + (double)l->at, *total *= (double)l->total;
    }
}

/* "batches 12/40  rows 3/9": the loops within. */
static void detail_of(const loop *l, char *out, size_t size) {
    size_t n = 0;
    *out = 0;
    for (l = l->inner; l && n < size; l = l->inner) {
        n += (size_t)snprintf(out + n, size - n, "%s%s%s%ld", n ? "  " : "", l->label, *l->label ? " " : "", l->at);
        if (l->total && n < size) n += (size_t)snprintf(out + n, size - n, "/%ld", l->total);
    }
}

static void show(loop *top, int done) {
    static const double scale = 1e6; /* parts of a job whose turns may be too many for a long */
    char detail[160];
    double at, total, t = dl_seconds();
    if (!top->sink->ops->progress || (!done && t - top->drawn < 0.05)) return;
    top->drawn = t;
    count_job(top, &at, &total);
    detail_of(top, detail, sizeof detail);
    const dlsh_progress p = {.label = top->label,
                             .at = top->at,
                             .total = top->total,
                             .done = done,
                             .job_at = total > 0 ? (long)(at / total * scale) : 0,
                             .job_total = total > 0 ? (long)scale : 0,
                             .detail = detail,
                             .seconds = t - top->started,
                             .turns = top->turns};
    top->sink->ops->progress(top->sink, &p);
}

static loop *outermost(loop *l) {
    while (l->outer) l = l->outer;
    return l;
}

/* ---------------------------------------------------------------- loops */

static void begin(loop *l) {
    l->begun = 1;
    l->started = dl_seconds();
    l->outer = innermost;
    if (l->outer) l->outer->inner = l, l->outer->within = 1;
    innermost = l;
}

static void end(loop *l) {
    loop *top = outermost(l);
    if (!l->begun) return;
    l->begun = 0;
    if (l == top) show(l, 1);
    if (l->inner) l->inner->outer = l->outer; /* one that is kept beyond its loop */
    if (l->outer) l->outer->inner = l->inner;
    if (innermost == l) innermost = l->outer;
}

static void destroy_loop(void *self) {
    loop *l = self;
    end(l);
    dlsh_iter_end(&l->it);
    free(l);
}

static dl_status next_of_loop(dlsh_session *s, void *self, dlsh_value *out, int *done) {
    loop *l = self;
    if (!l->begun && !l->at)
        begin(l);
    else if (l->begun) {
        l->at++;
        if (!l->within) outermost(l)->turns++;
        l->within = 0;
    }
    DLSH_TRY(dlsh_iter_next(s, &l->it, out, done));
    if (*done)
        end(l);
    else if (l->begun)
        show(outermost(l), 0);
    return DL_OK;
}

static void loop_values(void *self, const dlsh_visitor *to) { to->value(((loop *)self)->it.over, to->ctx); }

static const dlsh_class loop_class = {.name = "progress",
                                      .doc = "A loop with a line of progress.",
                                      .destroy = destroy_loop,
                                      .next = next_of_loop,
                                      .values = loop_values};

/* ---------------------------------------------------------------- progress(xs) */

static void destroy_subject(void *self) {
    dlsh_drop(((subject *)self)->over);
    free(self);
}

static dl_status iterate(dlsh_session *s, void *self, dlsh_value *out) {
    subject *x = self;
    loop *l = calloc(1, sizeof *l);
    if (!l) return dlsh_no_memory("a loop");
    l->sink = dlsh_session_sink(s), l->total = x->total;
    memcpy(l->label, x->label, sizeof l->label);
    dl_status st = dlsh_iter_begin(s, x->over, &l->it);
    if (!st) return dlsh_give(dlsh_new_handle(&loop_class, l), out);
    free(l);
    return st;
}

static dl_status len_subject(void *self, long *out) {
    *out = ((subject *)self)->total;
    return DL_OK;
}

static void subject_values(void *self, const dlsh_visitor *to) { to->value(((subject *)self)->over, to->ctx); }

static const dlsh_class subject_class = {.name = "progress",
                                         .doc = "Something to go through with a line of progress.",
                                         .destroy = destroy_subject,
                                         .iterate = iterate,
                                         .len = len_subject,
                                         .values = subject_values};

static dl_status progress_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value over = *dlsh_arg(a, "xs");
    const char *label = dlsh_arg_str(a, "label");
    long total = dlsh_given(a, "total") ? dlsh_arg_int(a, "total") : 0;
    if (total < 0) return dlsh_arg_fail(a, "total", DL_ERR_VALUE, NULL, "a total is at least 0, not %ld", total);
    if (!dlsh_given(a, "total") && dlsh_length(over, &total)) {
        dl_error_clear();
        total = 0;
    }
    subject *x = calloc(1, sizeof *x);
    if (!x) return dlsh_no_memory("a loop");
    x->over = dlsh_ref(over), x->total = total;
    snprintf(x->label, sizeof x->label, "%s", label ? label : "");
    return dlsh_give(dlsh_new_handle(&subject_class, x), result);
}

const dlsh_command progress_commands[] = {
    DLSH_FN_ROW(
        "progress", progress_run, "progress(XS, label=\"\", total=N)",
        "Goes through a list, range, tensor, loader or other thing with a line of progress: turns done, rate, time "
        "left. Loops within such a loop share its line, and the time left is that of all of them. At a terminal "
        "and in a notebook the line is redrawn; elsewhere it is written once at the end.",
        DLSH_PARAMS({"xs", .doc = "what `for` goes through"}),
        DLSH_OPTIONS({"label", DLSH_OPT_STRING, NULL, .doc = "what stands before the line"},
                     {"total", DLSH_OPT_INT, NULL, .doc = "turns, where xs does not tell how many it has"}),
        .examples = "for e in progress(range(3), label=\"epoch\") {\n    for i in progress(range(100)) { i * e }\n}"),
    {0}};
