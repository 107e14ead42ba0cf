/* The size of updates: every so many steps, the norm of what a step changes over the norm of the parameters, of each
 * layer and of all of them. The parameters are copied before the step, and compared with the copies by ops after it, in
 * the order of the device and without waiting; the norms are read with the step's report. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "train/trainer.h"

/* The elements that are compared of a parameter: all up to here, of larger ones every n-th, at most so many. */
enum { ELEMENTS = 1 << 18 };

static long every = 100;

dl_status dl_updates_every_set(long steps) {
    if (steps < 0)
        return dl_fail(DL_ERR_VALUE, "updates are looked at every 1 or more steps, or never (0), not %ld", steps);
    __atomic_store_n(&every, steps, __ATOMIC_RELAXED);
    return DL_OK;
}

long dl_updates_every_get(void) { return __atomic_load_n(&every, __ATOMIC_RELAXED); }

struct dl_look {
    long n;
    long *which;      /* numbers of the optimizer's parameters */
    dl_tensor **was;  /* copies from before the step */
    dl_tensor *norms; /* [2n] on the device: of the changes, then of the parameters. NULL before the step is issued */
};

void dl_look_free(dl_look *x) {
    if (!x) return;
    for (long i = 0; i < x->n; i++) dl_unref(x->was[i]);
    dl_unref(x->norms);
    free(x->which);
    free(x->was);
    free(x);
}

/* ---------------------------------------------------------------- before and after the step */

static long common_divisor(long a, long b) {
    while (b) {
        const long rest = a % b;
        a = b, b = rest;
    }
    return a;
}

/* The elements that are compared, in any order. A stride that shares no factor with any dimension comes by all rows and
 * all columns. */
static dl_tensor *chosen(dl_tensor *p) {
    long step = (p->numel + ELEMENTS - 1) / ELEMENTS;
    if (!dl_strides_are_dense(p->ndim, p->shape, p->stride)) return dl_ref(p);
    while (common_divisor(p->numel, step) > 1) step++;
    return dl_view_new(p->st, (dl_dtype)p->dtype, 1, &(long){p->numel / step}, &step, p->offset);
}

static dl_status take_copies(const dl_optimizer *o, dl_look *x) {
    x->which = calloc((size_t)o->n + 1, sizeof *x->which);
    x->was = calloc((size_t)o->n + 1, sizeof *x->was);
    if (!x->which || !x->was) return dl_fail(DL_ERR_MEMORY, "no memory for the size of updates");
    for (long i = 0; i < o->n; i++) {
        dl_tensor *p = o->param[i].p;
        if (!p->requires_grad || !p->numel || !dl_dtype_is_float((dl_dtype)p->dtype)) continue;
        DL_OWNED dl_tensor *now = chosen(p);
        if (!now || !(x->was[x->n] = dl_clone(now))) return dl_failed();
        x->which[x->n++] = i;
    }
    return DL_OK;
}

/* Sums of squares of 16-bit numbers would overflow. */
static dl_tensor *wide(dl_tensor *t) {
    return t->dtype == DL_F32 || t->dtype == DL_F64 ? dl_ref(t) : dl_to_dtype(t, DL_F32);
}

static dl_tensor *norm_of(dl_tensor *t) {
    DL_OWNED dl_tensor *norm = dl_norm(t, NULL, 0, 0, 2);
    return norm ? dl_to_dtype(norm, DL_F64) : NULL;
}

static dl_status compare_one(dl_tensor *p, dl_tensor *was, dl_tensor **change, dl_tensor **size) {
    DL_OWNED dl_tensor *view = chosen(p), *now = view ? wide(view) : NULL, *old = now ? wide(was) : NULL;
    DL_OWNED dl_tensor *d = old ? dl_sub(now, old) : NULL;
    return d && (*change = norm_of(d)) && (*size = norm_of(old)) ? DL_OK : dl_failed();
}

static dl_status compare(const dl_optimizer *o, dl_look *x) {
    dl_tensor **norm = calloc(2 * (size_t)x->n, sizeof *norm);
    dl_status st = norm ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for the size of updates");
    for (long i = 0; st == DL_OK && i < x->n; i++) {
        st = compare_one(o->param[x->which[i]].p, x->was[i], &norm[i], &norm[x->n + i]);
        dl_unref(x->was[i]);
        x->was[i] = NULL;
    }
    if (st == DL_OK && !(x->norms = dl_stack(norm, (int)(2 * x->n), 0))) st = dl_failed();
    for (long i = 0; norm && i < 2 * x->n; i++) dl_unref(norm[i]);
    free(norm);
    return st;
}

/* A look at the parameters before a step; *st says why there is none. */
static dl_look *look(const dl_optimizer *o, dl_status *st) {
    const int recording = dl_recording_set(0);
    DL_SCOPED_GRAD_MODE(0);
    dl_look *x = calloc(1, sizeof *x);
    *st = x ? take_copies(o, x) : dl_fail(DL_ERR_MEMORY, "no memory for the size of updates");
    dl_recording_set(recording);
    if (*st == DL_OK && x->n) return x;
    dl_look_free(x);
    return NULL;
}

/* And at what the step has made of them. */
static dl_status look_again(const dl_optimizer *o, dl_look *x) {
    const int recording = dl_recording_set(0);
    DL_SCOPED_GRAD_MODE(0);
    dl_status st = compare(o, x);
    dl_recording_set(recording);
    return st;
}

/* The training goes on; the run says why there are no more. */
static void give_up(dl_trainer *t) {
    char text[400];
    snprintf(text, sizeof text, "update_ratio is not recorded from here on: %.300s", dl_errmsg());
    dl_error_clear();
    t->updates_off = true;
    if (dl_run_event(t->run, t->step + 1, "warning", text, NULL) != DL_OK) dl_error_clear();
}

dl_look *dl_updates_before(dl_trainer *t) {
    const long n = dl_updates_every_get(), number = t->step + t->issued - t->taken + 1;
    if (!t->run || !dl_run_id(t->run) || !n || number % n || t->updates_off) return NULL;
    dl_status st;
    dl_look *x = look(t->opt, &st);
    if (st != DL_OK) give_up(t);
    return x;
}

void dl_updates_after(dl_trainer *t, dl_look *x, dl_status issued) {
    if (!x) return;
    if (issued != DL_OK) return dl_look_free(x);
    dl_look **at = &t->look[(t->issued - 1) % DL_REPORTS];
    dl_look_free(*at);
    *at = x;
    if (look_again(t->opt, x) == DL_OK) return;
    dl_look_free(x);
    *at = NULL;
    give_up(t);
}

/* ---------------------------------------------------------------- with the report */

typedef struct sums {
    double change, size;
} sums;

typedef struct place {
    dl_run *run;
    long step;
} place;

static void push(const place *at, const char *layer, sums s) {
    char name[300];
    if (!(s.size > 0) || !isfinite(s.change)) return;
    snprintf(name, sizeof name, "update_ratio%s%.280s", *layer ? "/" : "", layer);
    if (dl_metric(at->run, name, at->step, sqrt(s.change / s.size)) != DL_OK) dl_error_clear();
}

/* "conv1.weight" is of the layer "conv1". */
static size_t length_of_layer(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

static void record(const place *at, const dl_optimizer *o, const dl_look *x, const double *norm) {
    sums all = {0, 0}, layer = {0, 0};
    char name[256];
    for (long i = 0; i < x->n; i++) {
        const char *own = o->param[x->which[i]].name;
        const char *next = i + 1 < x->n ? o->param[x->which[i + 1]].name : "";
        const size_t n = length_of_layer(own);
        const sums s = {norm[i] * norm[i], norm[x->n + i] * norm[x->n + i]};
        layer.change += s.change, layer.size += s.size;
        all.change += s.change, all.size += s.size;
        if (length_of_layer(next) == n && !strncmp(own, next, n)) continue;
        snprintf(name, sizeof name, "%.*s", (int)(n < 255 ? n : 255), own);
        push(at, name, layer);
        layer = (sums){0, 0};
    }
    push(at, "", all);
}

void dl_updates_take(dl_trainer *t, long number, bool good) {
    dl_look **at = &t->look[number % DL_REPORTS], *x = *at;
    if (!x) return;
    *at = NULL;
    if (good && t->run) {
        DL_OWNED dl_tensor *here = dl_to_device(x->norms, 0);
        if (here)
            record(&(place){t->run, t->step}, t->opt, x, dl_data(here));
        else
            give_up(t);
    }
    dl_look_free(x);
}

void dl_updates_drop(dl_trainer *t) {
    for (long i = 0; i < DL_REPORTS; i++) dl_updates_take(t, i, false);
}

/* ---------------------------------------------------------------- loops written by hand */

dl_look *dl_update_before(const dl_optimizer *o) {
    const long n = dl_updates_every_get();
    dl_status st = DL_OK;
    if (!o || !n || (dl_optimizer_steps(o) + 1) % n) return NULL;
    dl_look *x = look(o, &st);
    if (st != DL_OK) dl_error_clear();
    return x;
}

void dl_update_after(dl_look *x, const dl_optimizer *o, dl_run *run, long step) {
    if (!x) return;
    DL_SCOPED_ERROR;
    DL_OWNED dl_tensor *here = run && look_again(o, x) == DL_OK ? dl_to_device(x->norms, 0) : NULL;
    if (here) record(&(place){run, step}, o, x, dl_data(here));
    dl_look_free(x);
}
