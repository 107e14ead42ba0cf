/* How weights start: uniform and normal numbers from the INIT stream, scaled by the fans of the weight. */
#include <math.h>
#include <string.h>

#include "core/rng.h"
#include "core/scope.h"
#include "nn/module.h"
#include "dlcore/binary.h"
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

static dl_status init_default(dl_tensor *t, fans f) { return fill_uniform(t, 1 / sqrt(f.in)); }
static dl_status init_kaiming_uniform(dl_tensor *t, fans f) { return fill_uniform(t, sqrt(6 / f.in)); }
static dl_status init_kaiming_normal(dl_tensor *t, fans f) { return fill_normal(t, sqrt(2 / f.in)); }
static dl_status init_xavier_uniform(dl_tensor *t, fans f) { return fill_uniform(t, sqrt(6 / (f.in + f.out))); }
static dl_status init_xavier_normal(dl_tensor *t, fans f) { return fill_normal(t, sqrt(2 / (f.in + f.out))); }
static dl_status init_lecun_normal(dl_tensor *t, fans f) { return fill_normal(t, sqrt(1 / f.in)); }
static dl_status init_uniform(dl_tensor *t, fans f) {
    (void)f;
    return fill_uniform(t, 0.1);
}
static dl_status init_normal(dl_tensor *t, fans f) {
    (void)f;
    return fill_normal(t, 0.02);
}
static dl_status init_zeros(dl_tensor *t, fans f) {
    (void)f;
    return put(t, dl_scalar_f(0));
}
static dl_status init_ones(dl_tensor *t, fans f) {
    (void)f;
    return put(t, dl_scalar_f(1));
}

static const struct init_row {
    dl_kind_row kind;
    dl_status (*fill)(dl_tensor *t, fans f);
} rows[] = {
#define INIT(id, text)                                                                                                 \
    {{.name = #id, .alias = "", .doc = text, .example = "linear 64 init=\"" #id "\"", NO_OPTIONS}, init_##id},
#include "nn/inits.def"
#undef INIT
};
enum { NINITS = sizeof rows / sizeof *rows };

const dl_kind_row *dl_init_kind_at(int i) { return i >= 0 && i < NINITS ? &rows[i].kind : NULL; }

dl_status dl_init_check(const char *name) {
    if (dl_kind_find(&rows[0].kind, NINITS, sizeof *rows, name) >= 0) return DL_OK;
    return dl_kind_unknown("initialisation", &rows[0].kind, NINITS, sizeof *rows, name);
}

dl_status dl_init_fill(dl_tensor *t, const char *name, double arg) {
    if (!name) return init_zeros(t, (fans){0});
    if (!strcmp(name, "constant")) return put(t, dl_scalar_f(arg));
    if (!strcmp(name, "bound")) return fill_uniform(t, arg);
    if (!strcmp(name, "deviation")) return fill_normal(t, arg);
    int i = dl_kind_find(&rows[0].kind, NINITS, sizeof *rows, name);
    if (i < 0) return dl_init_check(name);
    return rows[i].fill(t, fans_of(t));
}
