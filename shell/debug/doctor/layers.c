/* `layers`: a row of figures for each layer of a net, from a batch that a copy of it is run on. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/probe.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"
#include "view/elements.h"
#include "view/sink.h"
#include "view/text.h"

enum { BINS = 12, PATH = 256 };

/* A layer: what came out of it, and of its parameters. */
typedef struct layer {
    char path[PATH];
    const char *kind;
    dl_module *m; /* of the copy; borrowed */
    long params, calls;
    char shape[64];
    dlsh_stats out;
    long bins[BINS];
    double dead, far;       /* shares; NaN: of no meaning for the kind */
    double gradient, ratio; /* of its own parameters; NaN: not known */
    double constant;        /* share of units with the same value in all samples */
} layer;

typedef struct layers {
    layer *at;
    int n, cap;
    dl_status st;
} layers;

/* ---------------------------------------------------------------- what comes out */

/* Kinds whose results have limits, and the distance from 0 beyond which they hardly change. */
static const struct {
    const char *kind;
    double middle, far;
} bounded[] = {{"tanh", 0, 0.97}, {"sigmoid", 0.5, 0.47}, {"hardtanh", 0, 0.999}, {"hardsigmoid", 0.5, 0.499}};

static int is_relu(const char *kind) { return strstr(kind, "relu") && !strstr(kind, "leaky") && strcmp(kind, "prelu"); }

/* Units are channels, or the features of rows. */
static void count_units(layer *l, const double *v, const long *shape, int nd) {
    long n = shape[0], units = nd > 1 ? shape[1] : 1, inner = 1, dead = 0, constant = 0;
    for (int d = 2; d < nd; d++) inner *= shape[d];
    for (long u = 0; u < units; u++) {
        double low = INFINITY, high = -INFINITY;
        for (long i = 0; i < n * inner; i++) {
            double x = v[(i / inner * units + u) * inner + i % inner];
            low = fmin(low, x), high = fmax(high, x);
        }
        dead += high <= 0, constant += low == high;
    }
    if (is_relu(l->kind)) l->dead = (double)dead / (double)units;
    if (n > 1) l->constant = (double)constant / (double)units;
}

static void count_far(layer *l, const double *v, long n) {
    for (size_t b = 0; b < DLSH_COUNT(bounded); b++) {
        if (strcmp(bounded[b].kind, l->kind)) continue;
        long far = 0;
        for (long i = 0; i < n; i++) far += fabs(v[i] - bounded[b].middle) > bounded[b].far;
        l->far = (double)far / (double)n;
    }
}

static dl_status look_at(layer *l, dl_tensor *y) {
    long n = dl_numel(y);
    l->calls++;
    if (l->calls > 1 || !n) return DL_OK;
    for (int d = 0, k = 0; d < dl_ndim(y) && k < (int)sizeof l->shape; d++)
        k += snprintf(l->shape + k, sizeof l->shape - (size_t)k, "%s%ld", d ? "x" : "", dl_shape(y)[d]);
    DLSH_TRY(dlsh_stats_of(y, &l->out));
    if (l->out.max > l->out.min) DLSH_TRY(dlsh_histogram(y, l->out.min, l->out.max, BINS, l->bins));
    DLSH_FREED double *v = malloc((size_t)n * sizeof *v);
    if (!v) return dlsh_no_memory("a layer's result");
    DLSH_TRY(dl_read_f64(y, v));
    if (dl_ndim(y)) count_units(l, v, dl_shape(y), dl_ndim(y));
    count_far(l, v, n);
    return DL_OK;
}

static dl_status hook(void *ctx, dl_tensor *value, DLSH_UNUSED dl_tensor **instead) { return look_at(ctx, value); }

/* ---------------------------------------------------------------- the layers */

/* Those without layers below them; of others, such as attention, those with parameters of their own. */
static dl_status find_layers(layers *all, dl_module *m, const char *path) {
    for (int i = 0; i < dl_module_count(m); i++) {
        dl_module *c = dl_module_at(m, i);
        char below[PATH];
        snprintf(below, sizeof below, "%s%s%s", path, *path ? "." : "", dl_module_label(m, i));
        DLSH_TRY(find_layers(all, c, below));
        if (!dlsh_is_single_layer(c)) continue;
        layer *more = dlsh_grow(all->at, all->n, &all->cap, sizeof *more);
        if (!more) return dl_failed();
        all->at = more;
        layer *l = &all->at[all->n++];
        *l = (layer){.kind = dl_module_kind(c), .m = c, .dead = NAN, .far = NAN, .gradient = NAN, .ratio = NAN};
        snprintf(l->path, sizeof l->path, "%s", below);
        l->params = dl_module_params(c);
    }
    return DL_OK;
}

/* Root of the mean square of the gradients of a layer's parameters, as a norm. */
static dl_status read_gradients(layers *all) {
    for (int i = 0; i < all->n; i++) {
        dl_module_list *l = dl_module_tensors(all->at[i].m, 1);
        double squares = 0;
        int any = 0;
        if (!l) return dl_failed();
        for (long k = 0; k < l->n; k++) {
            dlsh_stats s;
            dl_tensor *g = dl_grad(l->entries[k].tensor);
            if (!g || dlsh_stats_of(g, &s)) continue;
            any = 1;
            squares += s.nans ? NAN : s.norm * s.norm;
        }
        dl_module_list_free(l);
        if (any) all->at[i].gradient = sqrt(squares);
    }
    return DL_OK;
}

static dl_status norm_of(dl_tensor *t, double *squares) {
    dlsh_stats s;
    if (!t || dlsh_stats_of(t, &s)) return dl_failed();
    *squares += s.nans ? NAN : s.norm * s.norm;
    return DL_OK;
}

/* Of one parameter: its size before a step, and how much the step changed it. */
static dl_status compare(dl_tensor *before, dl_tensor *after, double *size, double *change) {
    DLSH_OWNED dl_tensor *d = dl_sub(after, before);
    DLSH_TRY(norm_of(before, size));
    return norm_of(d, change);
}

/* With `before` NULL-filled: takes copies of the parameters; else sets the ratios from them. */
static dl_status compare_all(layers *all, dl_tensor **before) {
    long at = 0;
    dl_status st = DL_OK;
    for (int i = 0; !st && i < all->n; i++) {
        DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_tensors(all->at[i].m, 1);
        double size = 0, change = 0;
        st = l ? DL_OK : dl_failed();
        for (long k = 0; !st && k < l->n; k++, at++) {
            if (!dl_requires_grad(l->entries[k].tensor)) continue;
            if (before[at])
                st = compare(before[at], l->entries[k].tensor, &size, &change);
            else if (!(before[at] = dl_clone(l->entries[k].tensor)))
                st = dl_failed();
        }
        all->at[i].ratio = size > 0 ? sqrt(change / size) : NAN;
    }
    return st;
}

/* One step of the copied optimizer. */
static dl_status find_ratios(layers *all, dlsh_probe *p) {
    long n = 0;
    for (int i = 0; i < all->n; i++) {
        DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_tensors(all->at[i].m, 1);
        n += l ? l->n : 0;
    }
    DLSH_FREED dl_tensor **before = calloc((size_t)n + 1, sizeof(dl_tensor *));
    if (!before) return dlsh_no_memory("parameters");
    DLSH_SCOPED_GRAD_MODE(0);
    dl_status st = compare_all(all, before);
    if (!st) st = dl_optimizer_step(p->opt);
    if (!st) st = compare_all(all, before);
    for (long i = 0; i < n; i++) dl_unref(before[i]);
    return st;
}

/* ---------------------------------------------------------------- what looks wrong */

typedef struct verdict {
    const char *text;
    int (*holds)(const layer *l, double middle);
} verdict;

static int has_nan(const layer *l, double middle) { return (void)middle, l->out.nans || l->out.infs; }
static int is_dead(const layer *l, double middle) { return (void)middle, l->dead > 0.5; }
static int is_far(const layer *l, double middle) { return (void)middle, l->far > 0.5; }
static int is_unused(const layer *l, double middle) { return (void)middle, !l->calls && !(l->gradient > 0); }
static int is_constant(const layer *l, double middle) { return (void)middle, l->constant > 0.99 && l->out.n > 1; }
static int is_huge(const layer *l, double middle) { return (void)middle, l->out.std > 100; }
static int has_zero_gradient(const layer *l, double middle) { return (void)middle, l->gradient == 0; }
static int has_bad_gradient(const layer *l, double middle) { return (void)middle, l->params && isinf(l->gradient); }
static int has_small_gradient(const layer *l, double middle) { return l->gradient > 0 && l->gradient < 1e-4 * middle; }
static int has_large_gradient(const layer *l, double middle) { return l->gradient > 1e4 * middle; }
static int changes_much(const layer *l, double middle) { return (void)middle, l->ratio > 0.1; }
static int changes_little(const layer *l, double middle) { return (void)middle, l->ratio < 1e-6; }

static const verdict verdicts[] = {
    {"not used", is_unused},
    {"nan or infinite", has_nan},
    {"dead", is_dead},
    {"saturated", is_far},
    {"the same for all samples", is_constant},
    {"large", is_huge},
    {"no gradient", has_zero_gradient},
    {"gradient not finite", has_bad_gradient},
    {"vanishing gradient", has_small_gradient},
    {"exploding gradient", has_large_gradient},
    {"large update", changes_much},
    {"small update", changes_little},
};

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the gradients there are. */
static double middle_gradient(const layers *all) {
    double middle = NAN;
    DLSH_FREED double *v = malloc(((size_t)all->n + 1) * sizeof *v);
    int n = 0;
    for (int i = 0; v && i < all->n; i++)
        if (all->at[i].gradient > 0 && isfinite(all->at[i].gradient)) v[n++] = all->at[i].gradient;
    if (n) qsort(v, (size_t)n, sizeof *v, by_size), middle = v[n / 2];
    return middle;
}

/* ---------------------------------------------------------------- the table */

static dlsh_value known(double v) { return isnan(v) ? dlsh_none() : dlsh_float(v); }

static dlsh_value percent(double v, dlsh_mode mode) {
    return isnan(v) ? dlsh_none() : mode == DLSH_MODE_TABLE ? dlsh_stringf("%.0f%%", 100 * v) : dlsh_float(v);
}

static dlsh_value spark(const layer *l, const dlsh_look *look) {
    DLSH_SCOPED_BUF b = {0};
    double heights[BINS];
    for (int i = 0; i < BINS; i++) heights[i] = (double)l->bins[i];
    if (l->out.max > l->out.min) dlsh_spark(&b, heights, BINS, look->unicode);
    return dlsh_string(dlsh_buf_text(&b));
}

static dlsh_value marks(const layer *l, double middle) {
    char text[256] = "";
    for (size_t i = 0, n = 0; i < DLSH_COUNT(verdicts) && n < sizeof text; i++)
        if (verdicts[i].holds(l, middle))
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "! ", verdicts[i].text);
    return dlsh_string(text);
}

static dl_status show(dlsh_sink *sink, const layers *all, const char *title) {
    static const int rank[] = {12, 10, 9, 7, 6, 8, 5, 4, 3, 2, 1, 11};
    dlsh_table t =
        DLSH_TABLE({"layer", 'l', ""}, {"shape", 'l', ""}, {"params", 'r', ""}, {"mean", 'r', "%.3g"},
                   {"std", 'r', "%.3g"}, {"absmax", 'r', "%.3g"}, {"dead", 'r', ""}, {"satur", 'r', ""},
                   {"grad", 'r', "%.3g"}, {"update", 'r', "%.2g"}, {"histogram", 'l', ""}, {"wrong", 'l', ""});
    dlsh_look look = dlsh_sink_look(sink);
    double middle = middle_gradient(all);
    dl_status st = DL_OK;
    t.rank = rank;
    if (look.mode == DLSH_MODE_TABLE) t.title = title;
    for (int i = 0; !st && i < all->n; i++) {
        const layer *l = &all->at[i];
        double most = fmax(fabs(l->out.min), fabs(l->out.max));
        st = DLSH_TABLE_ROW(&t, dlsh_string(l->path), dlsh_string(l->shape), dlsh_int(l->params),
                            known(l->calls ? l->out.mean : NAN), known(l->calls ? l->out.std : NAN),
                            known(l->calls ? most : NAN), percent(l->dead, look.mode), percent(l->far, look.mode),
                            known(l->gradient), known(l->ratio), spark(l, &look), marks(l, middle));
    }
    return dlsh_table_show(sink, &t, st, NULL);
}

/* ---------------------------------------------------------------- layers [t|m] */

/* Hooks of a copy end with it. */
static dl_status measure(layers *all, dlsh_probe *p, dl_module *m, dl_optimizer *o) {
    DLSH_TRY(find_layers(all, p->net, ""));
    for (int i = 0; i < all->n; i++) DLSH_TRY(dl_on_forward(all->at[i].m, hook, &all->at[i], NULL));
    DLSH_TRY(dlsh_probe_forward(p));
    DLSH_TRY(dlsh_probe_backward(p, m));
    DLSH_TRY(read_gradients(all));
    int any = 0;
    for (int i = 0; i < all->n; i++) any |= !isnan(all->at[i].gradient);
    if (!o || !any) return DL_OK;
    DLSH_TRY(dlsh_probe_optimizer(p, o, m));
    return find_ratios(all, p);
}

/* The only trainer, or else the only net, among the variables. */
static dl_status find_subject(const dlsh_args *a, const dlsh_holders *all, dlsh_value *out) {
    const dlsh_class *const classes[] = {&dlsh_trainer_class, &dlsh_net_class};
    if (dlsh_given(a, "what")) return *out = *dlsh_arg(a, "what"), DL_OK;
    for (int c = 0; c < 2; c++) {
        int n = 0;
        DLSH_EACH_HOLDER (h, all)
            if (dlsh_unwrap(h->value, classes[c])) *out = h->value, n++;
        if (n == 1) return DL_OK;
        if (n)
            return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "layers m", "there are %d %ss: which one?", n,
                                 classes[c]->name);
    }
    return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "layers t, or layers m", "there is neither a trainer nor a net");
}

static dl_status layers_run(const dlsh_args *a) {
    DLSH_SCOPED(dlsh_holders_free) dlsh_holders held = {0};
    dlsh_value what = dlsh_void();
    dlsh_probe p = {0};
    layers all = {0};
    char title[200];
    dlsh_holders_find(dlsh_arg_session(a), &held);
    DLSH_TRY(find_subject(a, &held, &what));
    dl_trainer *t = dlsh_unwrap(what, &dlsh_trainer_class);
    dl_module *m = t ? dl_trainer_model(t) : dlsh_unwrap(what, &dlsh_net_class);
    dl_status st = t ? dlsh_probe_trainer(&p, t, DLSH_PROBE_SAMPLES) : dlsh_probe_net(&held, &p, m, DLSH_PROBE_SAMPLES);
    if (!st) st = measure(&all, &p, m, t ? dl_trainer_optimizer(t) : dlsh_probe_find_optimizer(&held, m));
    const char *name = dlsh_given(a, "what") && !t ? dlsh_arg_text(a, "what") : dl_module_name(m);
    snprintf(title, sizeof title, "net %s, %ld samples of %s", name,
             p.in[0] && dl_ndim(p.in[0]) ? dl_shape(p.in[0])[0] : 0, p.from);
    if (!st) st = show(dlsh_arg_sink(a), &all, title);
    free(all.at);
    dlsh_probe_end(&p);
    return st;
}

const dlsh_command layers_commands[] = {
    DLSH_ROW("layers", DLSH_REPORT, layers_run, "layers [TRAINER | NET]",
             "A row of figures for each layer, from a batch run on a copy: shape of its result, parameters, mean, "
             "standard deviation and largest absolute value, the share of units that are dead and of elements that are "
             "saturated, the norm of its parameters' gradients, update over size of the parameters in a step, a "
             "histogram, and what looks wrong. A trainer's batch is from its training data; for a net the input of its "
             "last pass is taken where a variable still holds it, else random numbers, and the gradients that its "
             "parameters have. Nothing of what is looked at changes.",
             DLSH_PARAMS({"what", .want = "trainer|net", .flags = DLSH_OPTIONAL,
                          .doc = "a trainer or a net; the only one when left out"}),
             .examples = "net m { linear 8 -> relu -> linear 2 }; m(randn(16, 4)); layers m"),
    {0}};
