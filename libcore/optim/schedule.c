/* Schedules: the learning rate as a function of the step or the epoch. */
#include <ctype.h>
#include <math.h>
#include "core/scope.h"
#include <stdlib.h>
#include <string.h>

#include "core/interrupt.h"
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
    dl_schedule **part;
    int nparts;
    char *text;
};

/* Factor of the base rate at time t. */
typedef double curve(const dl_schedule *s, double t, double base);
/* The rate of a schedule that is made of others. */
typedef dl_status combination(const dl_schedule *s, double base, long step, long epoch, double *lr);
struct row {
    dl_kind_row kind;
    curve *f;
    combination *of_parts;
};

static double opt_f(const dl_schedule *s, const char *name) { return dl_option_f(&s->row->kind, s->val, name); }
static double opt_i(const dl_schedule *s, const char *name) { return (double)dl_option_i(&s->row->kind, s->val, name); }

static bool opt_is(const dl_schedule *s, const char *name, const char *word) {
    return !strcmp(dl_option(&s->row->kind, s->val, name)->u.s, word);
}

static double f_constant(const dl_schedule *s, double t, double base DL_UNUSED) {
    return t < opt_i(s, "until") ? opt_f(s, "factor") : 1;
}

static double f_constantlr(const dl_schedule *s, double t, double base DL_UNUSED) {
    return t < opt_i(s, "total_iters") ? opt_f(s, "factor") : 1;
}

static double f_step(const dl_schedule *s, double t, double base DL_UNUSED) {
    return pow(opt_f(s, "gamma"), floor(t / opt_i(s, "step_size")));
}

static double f_exponential(const dl_schedule *s, double t, double base DL_UNUSED) { return pow(opt_f(s, "gamma"), t); }

/* The share of the way to `steps`, at most 1. */
static double share(const dl_schedule *s, double t) { return fmin(t / opt_i(s, "steps"), 1); }

/* From 1 at u = 0 to 0 at u = 1. */
static double half_cosine(double u) { return 0.5 * (1 + cos(3.14159265358979323846 * u)); }

/* From 1 to min, as a factor, where the share that is left goes from 1 to 0. */
static double above_min(const dl_schedule *s, double left, double base) {
    double low = base > 0 ? opt_f(s, "min") / base : 0;
    return low + (1 - low) * left;
}

static double f_cosine(const dl_schedule *s, double t, double base) {
    return above_min(s, half_cosine(share(s, t)), base);
}

/* Loshchilov, Hutter: SGDR (2017). */
static double f_restarts(const dl_schedule *s, double t, double base) {
    double length = opt_i(s, "steps"), mult = opt_i(s, "mult");
    if (mult <= 1) t = fmod(t, length);
    for (; t >= length; length *= mult) t -= length;
    return above_min(s, half_cosine(t / length), base);
}

static double f_wsd(const dl_schedule *s, double t, double base) {
    double u = fmin(fmax(t - opt_i(s, "stable"), 0) / opt_i(s, "decay"), 1);
    return above_min(s,
                     opt_is(s, "shape", "cosine") ? half_cosine(u)
                     : opt_is(s, "shape", "sqrt") ? 1 - sqrt(u)
                                                  : 1 - u,
                     base);
}

static double f_linear(const dl_schedule *s, double t, double base DL_UNUSED) {
    const double from = opt_f(s, "start");
    const dl_optval *end = dl_option(&s->row->kind, s->val, "end");
    return from + ((end->given ? end->u.f : from < 1) - from) * share(s, t);
}

static double f_linearlr(const dl_schedule *s, double t, double base DL_UNUSED) {
    const double from = opt_f(s, "start_factor"), u = fmin(t / opt_i(s, "total_iters"), 1);
    return from + (opt_f(s, "end_factor") - from) * u;
}

static double f_warmup(const dl_schedule *s, double t, double base DL_UNUSED) {
    return fmin((t + 1) / opt_i(s, "steps"), 1);
}

static double f_polynomial(const dl_schedule *s, double t, double base) {
    return above_min(s, pow(1 - share(s, t), opt_f(s, "power")), base);
}

/* A rate of the schedule's own, as a factor of the base rate; an option of 0 is that rate itself. */
static double own_rate(const dl_schedule *s, const char *name, double base) {
    double rate = opt_f(s, name);
    return rate > 0 && base > 0 ? rate / base : 1;
}

static double cycle_steps(const dl_schedule *s) {
    double steps = opt_i(s, "total_steps");
    return steps > 0 ? steps : opt_i(s, "epochs") * opt_i(s, "steps_per_epoch");
}

static bool is_on(const dl_schedule *s, const char *name) { return dl_option_i(&s->row->kind, s->val, name); }

/* What goes from one value to the next in the phases of a cycle. */
static double in_phases(const dl_schedule *s, double t, const double *value) {
    double last = cycle_steps(s) - 1, peak = opt_f(s, "pct_start") * (last + 1) - 1;
    bool three = is_on(s, "three_phase");
    const double at[] = {0, peak, three ? 2 * peak : last, last};
    int phase = 0, phases = three ? 3 : 2;
    while (phase < phases - 1 && (t > at[phase + 1] || at[phase + 1] <= at[phase])) phase++;
    double start = fmax(at[phase], 0), length = at[phase + 1] - start;
    double u = length > 0 ? fmin((t - start) / length, 1) : 1, a = value[phase], b = value[phase + 1];
    return opt_is(s, "anneal_strategy", "cos") ? b + (a - b) * half_cosine(u) : a + (b - a) * u;
}

/* Smith, Topin: Super-convergence (2018), as PyTorch's OneCycleLR. */
static double f_onecycle(const dl_schedule *s, double t, double base) {
    double from = 1 / opt_f(s, "div_factor"), lowest = from / opt_f(s, "final_div_factor");
    return own_rate(s, "max_lr", base) *
           in_phases(s, t, (double[]){from, 1, is_on(s, "three_phase") ? from : lowest, lowest});
}
static double m_onecycle(const dl_schedule *s, double t) {
    const double low = opt_f(s, "base_momentum"), high = opt_f(s, "max_momentum");
    return in_phases(s, t, (double[]){high, low, high, high});
}

/* The share of the way up in a triangle. */
static double height_at(const dl_schedule *s, double t) {
    const double up = opt_i(s, "step_size_up"), down = opt_i(s, "step_size_down") > 0 ? opt_i(s, "step_size_down") : up;
    const double cycle = floor(t / (up + down)), at = t - cycle * (up + down);
    const double height = opt_is(s, "mode", "triangular2") ? pow(0.5, cycle)
                          : opt_is(s, "mode", "exp_range") ? pow(opt_f(s, "gamma"), t)
                                                           : 1;
    return height * (at <= up ? at / up : 1 - (at - up) / down);
}

/* Smith: Cyclical learning rates (2015), as PyTorch's CyclicLR. */
static double f_cyclic(const dl_schedule *s, double t, double base) {
    const double least = own_rate(s, "base_lr", base);
    return base > 0 ? least + (opt_f(s, "max_lr") / base - least) * height_at(s, t) : 1;
}
static double m_cyclic(const dl_schedule *s, double t) {
    const double low = opt_f(s, "base_momentum"), high = opt_f(s, "max_momentum");
    return high - (high - low) * height_at(s, t);
}

static double f_multistep(const dl_schedule *s, double t, double base DL_UNUSED) {
    const dl_optval *m = dl_option(&s->row->kind, s->val, "milestones");
    int passed = 0;
    for (int i = 0; i < m->n; i++) passed += t >= (double)m->u.v[i];
    return pow(opt_f(s, "gamma"), passed);
}

/* As often multiplied as the factor was, without changes that are too small. */
static double f_plateau(const dl_schedule *s, double t DL_UNUSED, double base) {
    const double low = base > 0 ? opt_f(s, "min") / base : 0, least = base > 0 ? opt_f(s, "eps") / base : 0;
    const double each = opt_f(s, "factor");
    double rate = 1;
    if (!(each > 0 && each < 1)) return fmax(s->factor, low);
    for (double left = s->factor; left < 1 - 1e-9; left /= each) {
        const double next = fmax(rate * each, low);
        if (!(rate - next > least)) break;
        rate = next;
    }
    return rate;
}
static double f_function(const dl_schedule *s DL_UNUSED, double t DL_UNUSED, double base DL_UNUSED) { return 1; }

static dl_status lr_chained(const dl_schedule *s, double base, long step, long epoch, double *lr) {
    *lr = base;
    for (int i = 0; i < s->nparts; i++) DL_TRY(dl_schedule_lr(s->part[i], *lr, step, epoch, lr));
    return DL_OK;
}

static dl_status lr_sequential(const dl_schedule *s, double base, long step, long epoch, double *lr) {
    const long *at = dl_option(&s->row->kind, s->val, "milestones")->u.v;
    long t = s->by_epoch ? epoch : step, from = 0;
    int i = 0;
    for (; i < s->nparts - 1 && t >= at[i]; i++) from = at[i];
    return dl_schedule_lr(s->part[i], base, s->by_epoch ? step : step - from, s->by_epoch ? epoch - from : epoch, lr);
}

#undef OPTIONS
#undef NO_OPTIONS
#define OPTIONS(npos, ...) .kind.options = (const dl_option_row[]){__VA_ARGS__{0}}, .kind.positional = npos,
#define NO_OPTIONS .kind.options = (const dl_option_row[]){{0}},
#define SCHEDULE(id, other, text, how, ...)                                                                            \
    {.kind.name = #id, .kind.alias = other, .kind.doc = text, .kind.example = how, __VA_ARGS__.f = f_##id},
#define SCHEDULE_OF(id, other, text, how, ...)                                                                         \
    {.kind.name = #id, .kind.alias = other, .kind.doc = text, .kind.example = how, __VA_ARGS__.of_parts = lr_##id},
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
    for (int i = 0; i < s->nparts; i++) dl_text_add(&t, "%s%s", i ? ", " : "", s->part[i]->text);
    for (int i = 0, n = s->nparts; k->options[i].name; i++) {
        char value[300];
        if (!s->val[i].set) continue;
        dl_optval_text(&k->options[i], &s->val[i], value, sizeof value);
        dl_text_add(&t, "%s%s=%s", n++ ? ", " : "", k->options[i].name, value);
    }
    dl_text_add(&t, ")");
    return dl_text_take(&t);
}

/* Options that are one of some words, and whole numbers with a least value. */
static const struct limit {
    const char *name, *words;
    long least;
    const char *of; /* the schedule; NULL: of all that have it */
} limits[] = {{"by", "step|epoch", 0, NULL},
              {"mode", "min|max", 0, "plateau"},
              {"mode", "triangular|triangular2|exp_range", 0, "cyclic"},
              {"threshold_mode", "rel|abs", 0, NULL},
              {"steps", NULL, 1, NULL},
              {"total_steps", NULL, 0, NULL},
              {"epochs", NULL, 0, NULL},
              {"steps_per_epoch", NULL, 0, NULL},
              {"step_size", NULL, 1, NULL},
              {"step_size_up", NULL, 1, NULL},
              {"step_size_down", NULL, 0, NULL},
              {"shape", "linear|cosine|sqrt", 0, NULL},
              {"mult", NULL, 1, NULL},
              {"decay", NULL, 1, NULL},
              {"anneal_strategy", "cos|linear", 0, NULL},
              {"stable", NULL, 0, NULL},
              {"until", NULL, 0, NULL},
              {"total_iters", NULL, 0, "constantlr"},
              {"total_iters", NULL, 1, "linearlr"},
              {"warmup", NULL, 0, NULL}};

static bool among(const char *words, const char *w) {
    size_t n = strlen(w);
    for (const char *at = words; n && at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (!strncmp(at, w, n) && (at[n] == '|' || !at[n])) return true;
    return false;
}

static dl_status check_limit(const dl_schedule *s, const struct limit *l) {
    const dl_kind_row *k = &s->row->kind;
    int at = dl_option_find(k, l->name); /* by another name, too */
    if (at < 0 || strcmp(k->options[at].name, l->name) || (l->of && strcmp(l->of, k->name))) return DL_OK;
    const dl_optval *v = dl_option(&s->row->kind, s->val, l->name);
    if (l->words && !among(l->words, v->u.s))
        return dl_fail(DL_ERR_VALUE, "schedule %s: %s is one of %s, not '%.40s'", s->row->kind.name, l->name, l->words,
                       v->u.s);
    if (!l->words && v->u.i < l->least)
        return dl_fail(DL_ERR_VALUE, "schedule %s: %s must be at least %ld, not %ld", s->row->kind.name, l->name,
                       l->least, v->u.i);
    return DL_OK;
}

static dl_status check(dl_schedule *s) {
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) DL_TRY(check_limit(s, &limits[i]));
    if (s->row->f == f_onecycle && cycle_steps(s) < 1)
        return dl_fail(DL_ERR_VALUE, "schedule onecycle needs total_steps, or epochs and steps_per_epoch");
    s->by_epoch = dl_option_find(&s->row->kind, "by") >= 0 && opt_is(s, "by", "epoch");
    return DL_OK;
}

/* The one part that keeps a state, if any; *n counts them. */
static dl_schedule *stateful(const dl_schedule *s, int *n) {
    dl_schedule *found = NULL;
    for (int i = 0; i < s->nparts; i++) {
        dl_schedule *p = s->part[i], *inner = p->row->f == f_plateau ? p : stateful(p, n);
        *n += p->row->f == f_plateau;
        if (inner) found = inner;
    }
    return found;
}

/* Takes references to parts. */
static dl_status set_parts(dl_schedule *s, dl_schedule *const *part, int n) {
    const char *name = s->row->kind.name;
    int plateaus = 0;
    if (!s->row->of_parts) return n ? dl_fail(DL_ERR_VALUE, "schedule %s is not made of other schedules", name) : DL_OK;
    if (!n)
        return dl_fail_hint(DL_ERR_VALUE, "schedule(\"chained\", [schedule(\"warmup\", 10), schedule(\"cosine\", 90)])",
                            "schedule %s needs a list of schedules", name);
    if (!(s->part = calloc((size_t)n, sizeof(dl_schedule *))))
        return dl_fail(DL_ERR_MEMORY, "no memory for a schedule");
    for (int i = 0; i < n; i++) s->part[s->nparts++] = dl_schedule_ref(part[i]);
    stateful(s, &plateaus);
    if (plateaus > 1) return dl_fail(DL_ERR_VALUE, "schedule %s: only one of its schedules can be a plateau", name);
    if (dl_option_find(&s->row->kind, "milestones") < 0) return DL_OK;
    const dl_optval *at = dl_option(&s->row->kind, s->val, "milestones");
    if (at->n != n - 1)
        return dl_fail(DL_ERR_VALUE, "schedule %s: %d schedules need %d milestones, not %d", name, n, n - 1, at->n);
    for (int i = 0; i < at->n; i++)
        if (at->u.v[i] < (i ? at->u.v[i - 1] : 0))
            return dl_fail(DL_ERR_VALUE, "schedule %s: milestones must be in rising order, from 0", name);
    return DL_OK;
}

static dl_schedule *create(const row *r) {
    dl_schedule *s = calloc(1, sizeof *s);
    if (!s) return dl_fail(DL_ERR_MEMORY, "no memory for a schedule"), NULL;
    *s = (dl_schedule){.refs = 1, .row = r, .factor = 1, .best = NAN};
    return s;
}

/* A name of PyTorch's classes, such as StepLR, which are other names of rows in small letters; -1: it is none. */
static int find_class(const char *kind) {
    char small[64];
    const size_t n = strlen(kind);
    if (n >= sizeof small || n < 3 || strcmp(kind + n - 2, "LR") != 0) return -1;
    for (size_t i = 0; i <= n; i++) small[i] = (char)tolower((unsigned char)kind[i]);
    return dl_kind_find(&rows[0].kind, NROWS, sizeof *rows, small);
}

dl_schedule *dl_schedule_of(const char *kind, dl_schedule *const *part, int nparts, const dl_arg *args, int nargs,
                            int *bad) {
    if (!kind) return dl_fail_null("the kind of a schedule"), NULL;
    if (bad) *bad = -1;
    int i = dl_kind_find(&rows[0].kind, NROWS, sizeof *rows, kind);
    if (i < 0) i = find_class(kind);
    if (i < 0 || !strcmp(rows[i].kind.name, "function"))
        return dl_kind_unknown("schedule", &rows[0].kind, NROWS - 1, sizeof *rows, kind), NULL;
    dl_schedule *s = create(&rows[i]);
    if (s && dl_options_read("schedule", &rows[i].kind, args, nargs, s->val, bad) == DL_OK && check(s) == DL_OK &&
        set_parts(s, part, nparts) == DL_OK && (s->text = make_text(s)))
        return s;
    dl_schedule_unref(s);
    return NULL;
}

dl_schedule *dl_schedule_new(const char *kind, const dl_arg *args, int nargs, int *bad) {
    return dl_schedule_of(kind, NULL, 0, args, nargs, bad);
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

DL_REF_FUNCTION(dl_schedule)

void dl_schedule_unref(dl_schedule *s) {
    if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL)) return;
    if (s->release) s->release(s->ctx);
    for (int i = 0; i < s->nparts; i++) dl_schedule_unref(s->part[i]);
    free(s->part);
    free(s->text);
    free(s);
}

const char *dl_schedule_text(const dl_schedule *s) { return s->text; }

/* ---------------------------------------------------------------- use */

dl_status dl_schedule_lr(dl_schedule *s, double base, long step, long epoch, double *lr) {
    if (!s) return dl_fail_null("the schedule");
    if (s->fn) {
        int held = dl_interrupt_hold(0); /* the function may run for ever */
        *lr = base;
        dl_status st = s->fn(s->ctx, step, lr);
        dl_interrupt_hold(held);
        if (st != DL_OK || (*lr >= 0 && isfinite(*lr))) return st;
        return dl_fail(DL_ERR_VALUE, "the schedule's function gave the learning rate %g at step %ld", *lr, step);
    }
    if (s->row->of_parts) return s->row->of_parts(s, base, step, epoch, lr);
    double t = (double)(s->by_epoch ? epoch : step), warm = 0;
    if (dl_option_find(&s->row->kind, "warmup") >= 0) warm = opt_i(s, "warmup");
    if (t < warm)
        *lr = base * (t + 1) / warm;
    else
        *lr = base * s->row->f(s, t - warm, base);
    return DL_OK;
}

/* Schedules that move the momentum, too. */
static const struct mover {
    curve *rate;
    double (*momentum)(const dl_schedule *s, double t);
} movers[] = {{f_onecycle, m_onecycle}, {f_cyclic, m_cyclic}};

double dl_schedule_momentum(const dl_schedule *s, long step, long epoch) {
    for (size_t i = 0; s && i < sizeof movers / sizeof *movers; i++)
        if (s->row->f == movers[i].rate && is_on(s, "cycle_momentum"))
            return movers[i].momentum(s, (double)(s->by_epoch ? epoch : step));
    return NAN;
}

void dl_schedule_report(dl_schedule *s, double metric) {
    for (int i = 0; i < s->nparts; i++) dl_schedule_report(s->part[i], metric);
    if (s->row->f != f_plateau || isnan(metric)) return;
    bool up = opt_is(s, "mode", "max");
    double margin = opt_f(s, "threshold") * (opt_is(s, "threshold_mode", "abs") ? 1 : fabs(s->best));
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

/* What keeps the state: the schedule itself, or one of its parts. */
static dl_schedule *keeper(const dl_schedule *s) {
    int n = 0;
    dl_schedule *part = stateful(s, &n);
    return part ? part : (dl_schedule *)s;
}

void dl_schedule_get_state(const dl_schedule *s, double state[DL_SCHEDULE_STATE]) {
    const dl_schedule *k = keeper(s);
    state[0] = k->factor, state[1] = k->best, state[2] = k->bad, state[3] = k->cooling;
}

void dl_schedule_set_state(dl_schedule *s, const double state[DL_SCHEDULE_STATE]) {
    dl_schedule *k = keeper(s);
    k->factor = state[0], k->best = state[1], k->bad = state[2], k->cooling = state[3];
}
