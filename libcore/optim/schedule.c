/* Schedules: the learning rate as a function of the step or the epoch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/parse.h"
#include "optim/optimizer.h"

typedef struct row row;
struct dl_schedule {
    int refs;
    const row *row;
    dl_optval val[DL_OPT_MAX];
    bool by_epoch;
    double factor, best, bad, cooling; /* plateau: so far; best is NaN before the first report */
    dl_schedule_fn *fn;
    void *ctx;
    void (*release)(void *);
    char *text;
};

/* Factor of the base rate at time t. */
typedef double curve(const dl_schedule *s, double t, double base);
struct row {
    dl_kind_row kind;
    curve *f;
};

static double opt_f(const dl_schedule *s, const char *name) { return dl_option_f(&s->row->kind, s->val, name); }
static double opt_i(const dl_schedule *s, const char *name) { return (double)dl_option_i(&s->row->kind, s->val, name); }

static double f_constant(const dl_schedule *s, double t, double base) {
    (void)s, (void)t, (void)base;
    return 1;
}

static double f_step(const dl_schedule *s, double t, double base) {
    (void)base;
    return pow(opt_f(s, "gamma"), floor(t / opt_i(s, "step_size")));
}

static double f_exponential(const dl_schedule *s, double t, double base) {
    (void)base;
    return pow(opt_f(s, "gamma"), t);
}

/* The share of the way to `steps`, at most 1. */
static double share(const dl_schedule *s, double t) { return fmin(t / opt_i(s, "steps"), 1); }

/* From 1 at u = 0 to 0 at u = 1. */
static double half_cosine(double u) { return 0.5 * (1 + cos(3.14159265358979323846 * u)); }

static double f_cosine(const dl_schedule *s, double t, double base) {
    double low = base > 0 ? opt_f(s, "min") / base : 0;
    return low + (1 - low) * half_cosine(share(s, t));
}

static double f_linear(const dl_schedule *s, double t, double base) {
    (void)base;
    double from = opt_f(s, "start");
    return from + (opt_f(s, "end") - from) * share(s, t);
}

static double f_warmup(const dl_schedule *s, double t, double base) {
    (void)base;
    return fmin((t + 1) / opt_i(s, "steps"), 1);
}

static double f_polynomial(const dl_schedule *s, double t, double base) {
    double low = base > 0 ? opt_f(s, "min") / base : 0;
    return low + (1 - low) * pow(1 - share(s, t), opt_f(s, "power"));
}

/* Smith, Topin: Super-convergence (2018), as PyTorch's OneCycleLR with cosine annealing. */
static double f_onecycle(const dl_schedule *s, double t, double base) {
    (void)base;
    double last = opt_i(s, "steps") - 1, peak = opt_f(s, "pct_start") * (last + 1) - 1;
    double from = 1 / opt_f(s, "div_factor"), to = from / opt_f(s, "final_div_factor");
    if (t <= peak && peak > 0) return 1 + (from - 1) * half_cosine(t / peak);
    double u = last > peak ? fmin((t - peak) / (last - peak), 1) : 1;
    return to + (1 - to) * half_cosine(u);
}

static double f_multistep(const dl_schedule *s, double t, double base) {
    (void)base;
    const dl_optval *m = dl_option(&s->row->kind, s->val, "milestones");
    int passed = 0;
    for (int i = 0; i < m->n; i++) passed += t >= (double)m->u.v[i];
    return pow(opt_f(s, "gamma"), passed);
}

static double f_plateau(const dl_schedule *s, double t, double base) {
    (void)t;
    double low = base > 0 ? opt_f(s, "min") / base : 0;
    return fmax(s->factor, low);
}
#define f_function f_constant

#undef OPTIONS
#undef NO_OPTIONS
#define OPTIONS(npos, ...) .kind.options = (const dl_option_row[]){__VA_ARGS__{0}}, .kind.positional = npos,
#define NO_OPTIONS .kind.options = (const dl_option_row[]){{0}},
#define SCHEDULE(id, other, text, how, ...)                                                                            \
    {.kind.name = #id, .kind.alias = other, .kind.doc = text, .kind.example = how, __VA_ARGS__.f = f_##id},
static const row rows[] = {
#include "optim/schedules.def"
};
enum { NROWS = sizeof rows / sizeof *rows };

const dl_kind_row *dl_schedule_kind_at(int i) {
    return i >= 0 && i < NROWS && strcmp(rows[i].kind.name, "function") ? &rows[i].kind : NULL;
}

/* ---------------------------------------------------------------- life */

static char *make_text(const dl_schedule *s) {
    dl_text t = {0};
    const dl_kind_row *k = &s->row->kind;
    dl_text_add(&t, "%s(", k->name);
    for (int i = 0, n = 0; k->options[i].name; i++) {
        char value[300];
        if (!s->val[i].set) continue;
        dl_optval_text(&k->options[i], &s->val[i], value, sizeof value);
        dl_text_add(&t, "%s%s=%s", n++ ? ", " : "", k->options[i].name, value);
    }
    dl_text_add(&t, ")");
    return dl_text_take(&t);
}

/* One of two words. */
static dl_status check_word(const dl_schedule *s, const char *name, const char *a, const char *b) {
    if (dl_option_find(&s->row->kind, name) < 0) return DL_OK;
    const char *w = dl_option(&s->row->kind, s->val, name)->u.s;
    if (!strcmp(w, a) || !strcmp(w, b)) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "schedule %s: %s is %s or %s, not '%.40s'", s->row->kind.name, name, a, b, w);
}

static dl_status check(dl_schedule *s) {
    static const char *const positive[] = {"steps", "step_size"};
    for (int i = 0; i < 2; i++)
        if (dl_option_find(&s->row->kind, positive[i]) >= 0 && opt_i(s, positive[i]) < 1)
            return dl_fail(DL_ERR_VALUE, "schedule %s: %s must be at least 1, not %g", s->row->kind.name, positive[i],
                           opt_i(s, positive[i]));
    DL_TRY(check_word(s, "by", "step", "epoch"));
    DL_TRY(check_word(s, "mode", "min", "max"));
    s->by_epoch =
        dl_option_find(&s->row->kind, "by") >= 0 && !strcmp(dl_option(&s->row->kind, s->val, "by")->u.s, "epoch");
    return DL_OK;
}

static dl_schedule *create(const row *r) {
    dl_schedule *s = calloc(1, sizeof *s);
    if (!s) return dl_fail(DL_ERR_MEMORY, "no memory for a schedule"), NULL;
    *s = (dl_schedule){.refs = 1, .row = r, .factor = 1, .best = NAN};
    return s;
}

dl_schedule *dl_schedule_new(const char *kind, const dl_arg *args, int nargs, int *bad) {
    if (!kind) return dl_fail_null("the kind of a schedule"), NULL;
    if (bad) *bad = -1;
    int i = dl_kind_find(&rows[0].kind, NROWS, sizeof *rows, kind);
    if (i < 0 || !strcmp(rows[i].kind.name, "function"))
        return dl_kind_unknown("schedule", &rows[0].kind, NROWS - 1, sizeof *rows, kind), NULL;
    dl_schedule *s = create(&rows[i]);
    if (s && dl_options_read("schedule", &rows[i].kind, args, nargs, s->val, bad) == DL_OK && check(s) == DL_OK &&
        (s->text = make_text(s)))
        return s;
    dl_schedule_unref(s);
    return NULL;
}

static void *make(const char *kind, const dl_arg *args, int nargs) { return dl_schedule_new(kind, args, nargs, NULL); }

dl_schedule *dl_schedule_parse(const char *text) { return dl_parse_call(text, make); }

void *dl_schedule_context(const dl_schedule *s, void (*release)(void *)) {
    return s->release == release ? s->ctx : NULL;
}

dl_schedule *dl_schedule_function(dl_schedule_fn *fn, void *ctx, void (*release)(void *)) {
    dl_schedule *s = fn ? create(&rows[NROWS - 1]) : (dl_fail_null("the function of a schedule"), NULL);
    if (s && !(s->text = strdup("function"))) {
        dl_fail(DL_ERR_MEMORY, "no memory for a schedule");
        dl_schedule_unref(s);
        s = NULL;
    }
    if (!s) {
        if (release) release(ctx);
        return NULL;
    }
    s->fn = fn, s->ctx = ctx, s->release = release;
    return s;
}

dl_schedule *dl_schedule_ref(dl_schedule *s) {
    if (s) __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
    return s;
}

void dl_schedule_unref(dl_schedule *s) {
    if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL)) return;
    if (s->release) s->release(s->ctx);
    free(s->text);
    free(s);
}

const char *dl_schedule_text(const dl_schedule *s) { return s->text; }

/* ---------------------------------------------------------------- use */

dl_status dl_schedule_lr(dl_schedule *s, double base, long step, long epoch, double *lr) {
    if (!s) return dl_fail_null("the schedule");
    if (s->fn) {
        dl_status st = s->fn(s->ctx, step, lr);
        if (st != DL_OK || (*lr >= 0 && isfinite(*lr))) return st;
        return dl_fail(DL_ERR_VALUE, "the schedule's function gave the learning rate %g at step %ld", *lr, step);
    }
    double t = (double)(s->by_epoch ? epoch : step), warm = 0;
    if (dl_option_find(&s->row->kind, "warmup") >= 0) warm = opt_i(s, "warmup");
    if (t < warm)
        *lr = base * (t + 1) / warm;
    else
        *lr = base * s->row->f(s, t - warm, base);
    return DL_OK;
}

void dl_schedule_report(dl_schedule *s, double metric) {
    if (s->row->f != f_plateau || isnan(metric)) return;
    bool up = !strcmp(dl_option(&s->row->kind, s->val, "mode")->u.s, "max");
    double margin = opt_f(s, "threshold") * fabs(s->best);
    bool better = isnan(s->best) || (up ? metric > s->best + margin : metric < s->best - margin);
    if (better) s->best = metric;
    if (s->cooling > 0) {
        s->cooling--;
        s->bad = 0;
        return;
    }
    s->bad = better ? 0 : s->bad + 1;
    if (s->bad <= opt_i(s, "patience")) return;
    s->factor *= opt_f(s, "factor");
    s->cooling = opt_i(s, "cooldown");
    s->bad = 0;
}

void dl_schedule_get_state(const dl_schedule *s, double state[DL_SCHEDULE_STATE]) {
    state[0] = s->factor, state[1] = s->best, state[2] = s->bad, state[3] = s->cooling;
}

void dl_schedule_set_state(dl_schedule *s, const double state[DL_SCHEDULE_STATE]) {
    s->factor = state[0], s->best = state[1], s->bad = state[2], s->cooling = state[3];
}
