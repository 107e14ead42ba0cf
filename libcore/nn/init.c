/* How weights start: numbers from the INIT stream, scaled by the fans of the weight; and fixed patterns. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/random/rng.h"
#include "core/scope.h"
#include "nn/module.h"
#include "nn/parse.h"
#include "dlcore/arithmetic.h"
#include "dlcore/create.h"

typedef struct fans {
    double in, out;
} fans;

/* A weight is [out, in, taps...]; a vector counts as one input to each output. */
static fans fans_of(const dl_tensor *t) {
    double taps = 1;
    for (int i = 2; i < t->ndim; i++) taps *= (double)t->shape[i];
    double out = t->ndim > 0 ? (double)t->shape[0] : 1, in = t->ndim > 1 ? (double)t->shape[1] : 1;
    return (fans){in * taps > 0 ? in * taps : 1, out * taps > 0 ? out * taps : 1};
}

/* t = value, whose reference it takes. Random numbers are drawn as f32 on the host: every dtype and device starts
 * alike. */
static dl_status put(dl_tensor *t, dl_tensor *value) {
    DL_OWNED dl_tensor *host = value;
    if (!host) return dl_failed();
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *moved = dl_to_device(host, dl_device_of(t));
    return moved ? dl_assign(t, moved) : dl_failed();
}

/* factor * (numbers + shift); takes the reference to numbers. */
static dl_tensor *scaled(dl_tensor *numbers, double shift, double factor) {
    DL_OWNED dl_tensor *n = numbers, *s = dl_scalar_f(shift), *f = dl_scalar_f(factor), *moved = dl_add(n, s);
    return dl_mul(moved, f);
}

static dl_status fill_uniform(dl_tensor *t, double bound) {
    dl_stream former = dl_rng_use(DL_STREAM_INIT);
    dl_tensor *u = dl_rand(t->shape, t->ndim, DL_F32, 0);
    dl_rng_use(former);
    return put(t, scaled(u, -0.5, 2 * bound));
}

static dl_status fill_normal(dl_tensor *t, double deviation) {
    dl_stream former = dl_rng_use(DL_STREAM_INIT);
    dl_tensor *z = dl_randn(t->shape, t->ndim, DL_F32, 0);
    dl_rng_use(former);
    return put(t, scaled(z, 0, deviation));
}

/* Standard normal numbers (uniform: in [0, 1)) for the elements of t, to be freed; NULL, error recorded. */
static double *draw(const dl_tensor *t, bool uniform) {
    dl_stream former = dl_rng_use(DL_STREAM_INIT);
    DL_OWNED dl_tensor *z = (uniform ? dl_rand : dl_randn)(t->shape, t->ndim, DL_F32, 0);
    dl_rng_use(former);
    double *v = z ? malloc(((size_t)t->numel + 1) * sizeof *v) : NULL;
    if (z && !v) dl_fail(DL_ERR_MEMORY, "no memory for the start of a weight");
    if (!v || dl_read_f64(z, v) == DL_OK) return v;
    free(v);
    return NULL;
}

/* t = v, which is freed. */
static dl_status put_numbers(dl_tensor *t, double *v) {
    dl_tensor *made = v ? dl_tensor_from(t->ndim, t->shape, DL_F64, 0, v) : NULL;
    free(v);
    return put(t, made);
}

static dl_status need_dims(const dl_tensor *t, const char *what, int least, int most) {
    if (t->ndim >= least && t->ndim <= most) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "initialisation %s is for weights of %d%s dimensions, not %d", what, least,
                   most == least ? "" : " or more", t->ndim);
}

/* ---------------------------------------------------------------- the kinds */

/* A kind with its options. */
typedef struct start {
    const dl_kind_row *kind;
    dl_optval val[DL_OPT_MAX];
} start;

static double opt(const start *s, const char *name) { return dl_option_f(s->kind, s->val, name); }
static bool is(const start *s, const char *name, const char *word) {
    return !strcmp(dl_option(s->kind, s->val, name)->u.s, word);
}

/* Gains of nonlinearities, as PyTorch has them; a leaky relu's depends on its slope. */
static const struct gain {
    const char *name;
    double gain;
} gains[] = {{"leaky_relu", 0},       {"relu", 1.4142135623730951},
             {"tanh", 5.0 / 3},       {"sigmoid", 1},
             {"selu", 0.75},          {"linear", 1},
             {"conv1d", 1},           {"conv2d", 1},
             {"conv3d", 1},           {"conv_transpose1d", 1},
             {"conv_transpose2d", 1}, {"conv_transpose3d", 1}};
enum { NGAINS = sizeof gains / sizeof *gains };

dl_status dl_init_gain(const char *nonlinearity, double slope, double *gain) {
    for (int i = 0; nonlinearity && i < NGAINS; i++)
        if (!strcmp(nonlinearity, gains[i].name)) {
            *gain = i ? gains[i].gain : sqrt(2 / (1 + slope * slope));
            return DL_OK;
        }
    return dl_fail(DL_ERR_VALUE, "nonlinearity is relu, leaky_relu, tanh, sigmoid, selu, linear or conv2d, not '%.40s'",
                   nonlinearity ? nonlinearity : "");
}

/* gain / sqrt(fan), of a nonlinearity that was checked */
static double kaiming(const start *s, fans f) {
    double gain = 1;
    dl_init_gain(dl_option(s->kind, s->val, "nonlinearity")->u.s, opt(s, "a"), &gain);
    return gain / sqrt(is(s, "mode", "fan_out") ? f.out : f.in);
}

#define FILL(name) static dl_status init_##name(dl_tensor *t, const start *s DL_UNUSED, fans f DL_UNUSED)
#define FILL_PLAIN(name, call)                                                                                         \
    FILL(name) { return call; }
FILL_PLAIN(default, fill_uniform(t, 1 / sqrt(f.in)))
FILL_PLAIN(kaiming_uniform, fill_uniform(t, sqrt(3) * kaiming(s, f)))
FILL_PLAIN(kaiming_normal, fill_normal(t, kaiming(s, f)))
FILL_PLAIN(xavier_uniform, fill_uniform(t, opt(s, "gain") * sqrt(6 / (f.in + f.out))))
FILL_PLAIN(xavier_normal, fill_normal(t, opt(s, "gain") * sqrt(2 / (f.in + f.out))))
FILL_PLAIN(lecun_normal, fill_normal(t, sqrt(1 / f.in)))
FILL_PLAIN(constant, put(t, dl_scalar_f(opt(s, "val"))))
FILL_PLAIN(zeros, put(t, dl_scalar_f(0)))
FILL_PLAIN(ones, put(t, dl_scalar_f(1)))

/* The middle of [a, b) is 0 for the default: the numbers are those of a bound. */
FILL(uniform) {
    double a = opt(s, "a"), b = opt(s, "b"), *v;
    if (a == -b) return fill_uniform(t, b);
    if ((v = draw(t, true)))
        for (long i = 0; i < t->numel; i++) v[i] = a + (b - a) * v[i];
    return put_numbers(t, v);
}

FILL(normal) {
    (void)f;
    double mean = opt(s, "mean"), std = opt(s, "std"), *v;
    if (mean == 0) return fill_normal(t, std);
    if ((v = draw(t, false)))
        for (long i = 0; i < t->numel; i++) v[i] = mean + std * v[i];
    return put_numbers(t, v);
}

/* The x below which a share p of normal numbers lies, by halving [low, high]. */
static double quantile(double p, double low, double high) {
    for (int i = 0; i < 40; i++) {
        double x = 0.5 * (low + high);
        *(0.5 * erfc(-x * 0.70710678118654752) < p ? &low : &high) = x;
    }
    return 0.5 * (low + high);
}

FILL(trunc_normal) {
    (void)f;
    double mean = opt(s, "mean"), std = opt(s, "std"), a = (opt(s, "a") - mean) / std, b = (opt(s, "b") - mean) / std;
    double low = fmax(fmin(a, 38), -38), high = fmax(fmin(b, 38), -38), *v = draw(t, true);
    double from = 0.5 * erfc(-low * 0.70710678118654752), to = 0.5 * erfc(-high * 0.70710678118654752);
    for (long i = 0; v && i < t->numel; i++) v[i] = mean + std * quantile(from + (to - from) * v[i], low, high);
    return put_numbers(t, v);
}

/* Makes k vectors of n numbers orthonormal (Gram, Schmidt; twice, for the precision). Element j of vector i is
 * v[i * across + j * along]. */
static void orthonormalise(double *v, long k, long n, long across, long along) {
    for (long i = 0; i < k; i++) {
        double *x = v + i * across, length = 0;
        for (long twice = 0; twice < 2 * i; twice++) {
            const double *q = v + twice % i * across;
            double dot = 0;
            for (long j = 0; j < n; j++) dot += x[j * along] * q[j * along];
            for (long j = 0; j < n; j++) x[j * along] -= dot * q[j * along];
        }
        for (long j = 0; j < n; j++) length += x[j * along] * x[j * along];
        for (long j = 0; j < n; j++) x[j * along] /= sqrt(length);
    }
}

FILL(orthogonal) {
    (void)f;
    DL_TRY(need_dims(t, "orthogonal", 2, DL_MAX_DIM));
    if (!t->numel) return DL_OK;
    double *v = draw(t, false);
    long rows = t->shape[0], columns = t->numel / rows;
    if (v && rows <= columns) orthonormalise(v, rows, columns, columns, 1);
    if (v && rows > columns) orthonormalise(v, columns, rows, 1, columns);
    for (long i = 0; v && i < t->numel; i++) v[i] *= opt(s, "gain");
    return put_numbers(t, v);
}

FILL(sparse) {
    (void)f;
    DL_TRY(need_dims(t, "sparse", 2, 2));
    long rows = t->shape[0], columns = t->shape[1], zeros = (long)ceil(opt(s, "sparsity") * (double)rows);
    double *v = draw(t, false), *u = v ? draw(t, true) : NULL;
    long *order = u ? malloc(((size_t)rows + 1) * sizeof *order) : NULL;
    for (long c = 0; order && c < columns; c++) {
        for (long r = 0; r < rows; r++) order[r] = r, v[r * columns + c] *= opt(s, "std");
        for (long i = 0; i < zeros; i++) {
            long j = i + (long)(u[i * columns + c] * (double)(rows - i)), row = order[j];
            order[j] = order[i];
            v[row * columns + c] = 0;
        }
    }
    bool good = order;
    if (u && !good) dl_fail(DL_ERR_MEMORY, "no memory for the start of a weight");
    free(order);
    free(u);
    if (good) return put_numbers(t, v);
    free(v);
    return dl_failed();
}

/* Ones where output and input of a group have the same number, in the middle of the taps. */
static dl_status fill_dirac(dl_tensor *t, long groups) {
    long out = t->shape[0] / groups, in = t->shape[1], taps = 1, middle = 0;
    for (int i = 2; i < t->ndim; i++) taps *= t->shape[i], middle = middle * t->shape[i] + t->shape[i] / 2;
    double *v = calloc((size_t)t->numel + 1, sizeof *v);
    if (!v) return dl_fail(DL_ERR_MEMORY, "no memory for the start of a weight");
    for (long o = 0; t->numel && o < out * groups; o++)
        if (o % out < in) v[(o * in + o % out) * taps + middle] = 1;
    return put_numbers(t, v);
}

FILL(dirac) {
    (void)f;
    long groups = dl_option_i(s->kind, s->val, "groups");
    DL_TRY(need_dims(t, "dirac", 3, 5));
    if (t->shape[0] % groups)
        return dl_fail(DL_ERR_VALUE, "initialisation dirac: %ld outputs do not divide into %ld groups", t->shape[0],
                       groups);
    return fill_dirac(t, groups);
}

FILL(eye) {
    (void)s, (void)f;
    DL_TRY(need_dims(t, "eye", 2, 2));
    return fill_dirac(t, 1);
}

typedef struct init_row {
    dl_kind_row kind;
    dl_status (*fill)(dl_tensor *t, const start *s, fans f);
} init_row;
static const init_row rows[] = {
#define INIT(id, other, text, how, ...)                                                                                \
    {{.name = #id, .alias = other, .doc = text, .example = "linear 64 init=\"" how "\"", __VA_ARGS__}, init_##id},
#include "nn/inits.def"
};
enum { NINITS = sizeof rows / sizeof *rows };

const dl_kind_row *dl_init_kind_at(int i) { return i >= 0 && i < NINITS ? &rows[i].kind : NULL; }

/* ---------------------------------------------------------------- from text */

static dl_status check_start(const start *s) {
    const char *what = s->kind->name, *const least[] = {"std", "sparsity"};
    for (int i = 0; i < 2; i++)
        if (dl_option_find(s->kind, least[i]) >= 0 && !(opt(s, least[i]) >= 0))
            return dl_fail(DL_ERR_VALUE, "initialisation %s: %s must be at least 0, not %g", what, least[i],
                           opt(s, least[i]));
    if (dl_option_find(s->kind, "sparsity") >= 0 && opt(s, "sparsity") > 1)
        return dl_fail(DL_ERR_VALUE, "initialisation %s: sparsity is at most 1, not %g", what, opt(s, "sparsity"));
    if (dl_option_find(s->kind, "groups") >= 0 && dl_option_i(s->kind, s->val, "groups") < 1)
        return dl_fail(DL_ERR_VALUE, "initialisation %s: groups must be at least 1", what);
    if (dl_option_find(s->kind, "b") >= 0 && !(opt(s, "a") <= opt(s, "b")))
        return dl_fail(DL_ERR_VALUE, "initialisation %s: a is %g, above b, %g", what, opt(s, "a"), opt(s, "b"));
    if (dl_option_find(s->kind, "mode") < 0) return DL_OK;
    if (!is(s, "mode", "fan_in") && !is(s, "mode", "fan_out"))
        return dl_fail(DL_ERR_VALUE, "initialisation %s: mode is fan_in or fan_out", what);
    double gain;
    return dl_init_gain(dl_option(s->kind, s->val, "nonlinearity")->u.s, 0, &gain);
}

static void unknown(const char *name) {
    dl_error e;
    dl_kind_unknown("initialisation", &rows[0].kind, NINITS, sizeof *rows, name);
    if (!dl_error_take(&e)) return;
    if (!*e.hint) snprintf(e.hint, sizeof e.hint, "help init lists them");
    dl_error_put(&e);
}

static void *make_start(const char *name, const dl_arg *args, int nargs) {
    int i = dl_kind_find(&rows[0].kind, NINITS, sizeof *rows, name);
    if (i < 0) return unknown(name), NULL;
    start *s = calloc(1, sizeof *s);
    if (!s) return dl_fail(DL_ERR_MEMORY, "no memory for an initialisation"), NULL;
    s->kind = &rows[i].kind;
    if (dl_options_read("initialisation", s->kind, args, nargs, s->val, NULL) == DL_OK && check_start(s) == DL_OK)
        return s;
    free(s);
    return NULL;
}

dl_status dl_init_check(const char *text) {
    start *s = dl_parse_call(text, make_start);
    free(s);
    return s ? DL_OK : dl_failed();
}

dl_status dl_init_fill(dl_tensor *t, const char *text, double arg) {
    if (!text) return put(t, dl_scalar_f(0));
    if (!strcmp(text, "constant")) return put(t, dl_scalar_f(arg));
    if (!strcmp(text, "bound")) return fill_uniform(t, arg);
    if (!strcmp(text, "deviation")) return fill_normal(t, arg);
    DL_FREED start *s = dl_parse_call(text, make_start);
    if (!s) return dl_failed();
    return ((const init_row *)s->kind)->fill(t, s, fans_of(t));
}

dl_status dl_init_tensor(dl_tensor *t, const char *text) {
    if (!t || !text) return dl_fail_null(t ? "the initialisation" : "the tensor");
    if (!dl_dtype_is_float(t->dtype))
        return dl_fail(DL_ERR_DTYPE, "weights are floating numbers, the tensor is %s", dl_dtype_name(t->dtype));
    DL_FREED start *s = dl_parse_call(text, make_start);
    if (!s) return dl_failed();
    const init_row *row = (const init_row *)s->kind;
    if (!row->fill || !strcmp(s->kind->name, "default"))
        return dl_fail(DL_ERR_VALUE, "how a weight starts by default is the layer's affair");
    DL_SCOPED_GRAD_MODE(0);
    return row->fill(t, s, fans_of(t));
}
