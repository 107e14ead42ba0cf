/* Chooses the algorithm of a convolution: cuDNN's engines, products of matrices and the project's own kernels, with
 * channels first or last, are timed when a shape is first used; in f32 their accuracy is checked too. The choice is
 * stored, see plans.h. */
#include "cuda/conv/check.h"
#include "cuda/runtime/plans.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 2048, NEIGHBOURS = 8, NATURAL = 12, OTHER = 8 };
static const size_t WORKSPACE = (size_t)2 << 30;   /* most bytes of workspace of an engine */
static const long PATCHES = 1L << 28;              /* most elements of a matrix of patches that is tried */
static const double SMALL = 1 << 23, BUDGET = 0.4; /* floating-point operations; seconds of measuring in one layout */

/* All that the choice depends on; without padding bytes, since it is hashed. */
typedef struct key {
    dl_conv_nd g;
    int kind, t, gpu, tf32, deterministic, fits; /* fits: two bits an operand, see fit() */
} key;

typedef enum means { BY_DNN, BY_GEMM, BY_SUMS, BY_IMAGES } means;

typedef struct way {
    means by;
    bool last;
    int which;            /* BY_SUMS */
    bool opposite;        /* as the opposite problem, see dl_conv_opposite */
    dl_dnn_choice choice; /* BY_DNN */
    dl_dnn_plan *plan;
} way;

typedef struct plan {
    key k;
    way w;
} plan;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int under_way; /* a convolution of volumes may run some of images */
static plan *plans[SLOTS];

/* ---- layouts */

static bool dense(const dl_tensor *t, bool last) {
    long want = 1;
    for (int i = 0; i < t->ndim; i++) {
        int d = dl_conv_order(t->ndim, last, i);
        if (t->shape[d] > 1 && t->stride[d] != want) return false;
        want *= t->shape[d];
    }
    return !((size_t)dl_ptr(t) & 15);
}

/* Bit 0: channels first, bit 1: channels last; an operand with neither is copied. */
static int fit(const dl_tensor *t) { return dense(t, false) | dense(t, true) << 1; }

/* t itself if it is dense in this layout, else a dense tensor of its shape, with its values if `filled`. */
static dl_tensor *laid_out(dl_gpu *g, dl_tensor *t, bool last, bool filled) {
    if (dense(t, last)) return dl_ref(t);
    dl_tensor *d = dl_tensor_empty(t->ndim, t->shape, t->dtype, t->st->device);
    if (!d) return NULL;
    long step = 1;
    for (int i = 0; i < t->ndim; i++) {
        int dim = dl_conv_order(t->ndim, last, i);
        d->stride[dim] = step;
        step *= t->shape[dim];
    }
    if (!filled || dl_cuda_copy(g, d, t) == DL_OK) return d;
    dl_unref(d);
    return NULL;
}

/* ---- running one algorithm */

bool dl_conv_opposite(const dl_conv *g, dl_conv *o) {
    *o = *g;
    o->C = g->O, o->O = g->C;
    for (int d = 0; d < 2; d++) {
        o->in[d] = g->out[d], o->out[d] = g->in[d];
        o->pad[d] = g->dil[d] * (g->k[d] - 1) - g->pad[d];
        if (g->stride[d] != 1 || o->pad[d] < 0) return false;
    }
    return g->groups == 1 && g->k[0] * g->k[1] > 1;
}

static dl_status run_dnn(const dl_conv_job *job, const way *w) {
    size_t size = dl_dnn_workspace(w->plan), turned = (size_t)job->weight->numel * dl_esize(job->weight);
    void *space = size ? dl_gpu_take(job->gpu, size) : NULL, *weight = dl_ptr(job->weight), *image = dl_ptr(job->image);
    void *result = dl_ptr(job->result);
    dl_status s = size && !space ? dl_failed() : DL_OK;
    if (w->opposite) image = dl_ptr(job->result), result = dl_ptr(job->image), weight = NULL;
    if (s == DL_OK && w->opposite && !(weight = dl_gpu_take(job->gpu, turned))) s = dl_failed();
    if (s == DL_OK && w->opposite) s = dl_conv_flip(job->gpu, job->weight, weight, w->last);
    if (s == DL_OK) s = dl_dnn_run(job->gpu, w->plan, image, weight, result, space);
    if (w->opposite) dl_gpu_drop(job->gpu, weight);
    dl_gpu_drop(job->gpu, space);
    return s;
}

static dl_status run_way(const dl_conv_job *job, const way *w) {
    dl_tensor *given[3] = {job->image, job->weight, job->result}, *use[3] = {NULL, NULL, NULL};
    static const int written[] = {[DL_CONV_FORWARD] = 2, [DL_CONV_DX] = 0, [DL_CONV_DW] = 1};
    int out = written[job->kind];
    dl_status s = DL_OK;
    for (int i = 0; i < 3 && s == DL_OK; i++)
        if (!(use[i] = laid_out(job->gpu, given[i], w->last, i != out))) s = dl_failed();
    dl_conv_job inner = *job;
    inner.image = use[0], inner.weight = use[1], inner.result = use[2];
    if (s == DL_OK)
        s = w->by == BY_GEMM     ? dl_conv_gemm(&inner, w->last)
            : w->by == BY_SUMS   ? dl_conv_sums(&inner, w->which)
            : w->by == BY_IMAGES ? dl_conv_by_images(&inner)
                                 : run_dnn(&inner, w);
    if (s == DL_OK && use[out] != given[out]) s = dl_cuda_copy(job->gpu, given[out], use[out]);
    for (int i = 0; i < 3; i++) dl_unref(use[i]);
    return s == DL_OK ? dl_gpu_launched(job->gpu) : s;
}

/* ---- choices as text: "sums NAME", "cols LAST", "images LAST", or "dnn LAST OPPOSITE ENGINE TYPE=VALUE ..." */

/* False: the text does not fit. */
static bool write_way(const way *w, const key *k, char *text) {
    if (w->by == BY_SUMS)
        return snprintf(text, DL_PLAN_TEXT, "sums %s", dl_conv_sums_name((dl_conv_kind)k->kind, w->which)) > 0;
    if (w->by == BY_GEMM) return snprintf(text, DL_PLAN_TEXT, "cols %d", w->last) > 0;
    if (w->by == BY_IMAGES) return snprintf(text, DL_PLAN_TEXT, "images %d", w->last) > 0;
    int n = snprintf(text, DL_PLAN_TEXT, "dnn %d %d %ld", w->last, w->opposite, w->choice.engine);
    for (int i = 0; i < w->choice.nknobs && n < DL_PLAN_TEXT; i++)
        n += snprintf(text + n, DL_PLAN_TEXT - (size_t)n, " %d=%ld", w->choice.knob[i].type, w->choice.knob[i].value);
    return n < DL_PLAN_TEXT;
}

static bool read_way(const char *text, const key *k, way *w) {
    int last = 0, opposite = 0, used = 0;
    memset(w, 0, sizeof *w);
    if (!strncmp(text, "sums ", 5))
        return w->by = BY_SUMS, (w->which = dl_conv_sums_find((dl_conv_kind)k->kind, text + 5)) >= 0;
    if (sscanf(text, "cols %d%n", &last, &used) == 1) return w->by = BY_GEMM, w->last = last, !text[used];
    if (sscanf(text, "images %d%n", &last, &used) == 1) return w->by = BY_IMAGES, w->last = last, !text[used];
    if (sscanf(text, "dnn %d %d %ld%n", &last, &opposite, &w->choice.engine, &used) != 3) return false;
    w->last = last, w->opposite = opposite;
    for (text += used; *text; text += used) {
        int i = w->choice.nknobs++;
        if (i == DL_DNN_KNOBS ||
            sscanf(text, " %d=%ld%n", &w->choice.knob[i].type, &w->choice.knob[i].value, &used) != 2)
            return false;
    }
    return true;
}

static void key_text(const key *k, char *text) {
    const dl_conv_nd *g = &k->g;
    const struct {
        const char *name;
        const long *size;
    } each[] = {{"in", g->in}, {"out", g->out}, {"k", g->k}, {"stride", g->stride}, {"pad", g->pad}, {"dil", g->dil}};
    int n = snprintf(text, DL_PLAN_TEXT, "conv %d %s tf32=%d det=%d fits=%d %ld %ld %ld groups %ld", k->kind,
                     dl_dtype_name((dl_dtype)k->t), k->tf32, k->deterministic, k->fits, g->N, g->C, g->O, g->groups);
    for (int i = 0; i < 6; i++) {
        n += snprintf(text + n, DL_PLAN_TEXT - (size_t)n, " %s", each[i].name);
        for (int d = 0; d < g->dims; d++) n += snprintf(text + n, DL_PLAN_TEXT - (size_t)n, " %ld", each[i].size[d]);
    }
}

/* ---- choosing */

/* The ways that may be chosen, by the environment variable DLCORE_CONV_WAYS, for benchmarks: names separated by commas
 * out of "cudnn", "patches", "images" and those of dl_conv_sums_name. Unset: all. Choices under it are not stored. */
static const char *limited(void) { return getenv("DLCORE_CONV_WAYS"); }

static bool allowed(const char *name) {
    const char *list = limited();
    size_t n = name ? strlen(name) : 0;
    for (; n && list; list = strchr(list, ','), list += list != NULL)
        if (!strncmp(list, name, n) && (!list[n] || list[n] == ',')) return true;
    return n && !limited();
}

typedef struct trial {
    const dl_conv_job *job;
    const way *w;
} trial;

static dl_status run_trial(void *arg) {
    const trial *t = arg;
    return run_way(t->job, t->w);
}

typedef struct search {
    const dl_conv_job *job;
    const key *k;
    dl_conv_check *check; /* NULL: accuracy is not checked */
    way best, closest;    /* the fastest accurate one; the most accurate of the others */
    float ms;             /* of the best; negative: none yet */
    double off;           /* error of the closest divided by the allowed error; 0: none yet */
    bool small;
    bool out_of_memory; /* an algorithm found no memory, so the choice is not stored */
} search;

static void note_memory(search *s) {
    const dl_error *e = dl_error_last();
    if (e && e->code == DL_ERR_MEMORY) s->out_of_memory = true;
    dl_error_clear();
}

/* Measures w, and keeps it if it is the best so far. Takes ownership of its plan. */
static void try_way(search *s, way w) {
    trial t = {s->check ? &s->check->job : s->job, &w};
    dl_error_clear();
    float ms = dl_plan_measure(s->job->gpu, run_trial, &t, s->ms);
    bool faster = ms >= 0 && (s->ms < 0 || ms < s->ms);
    double off = faster && s->check ? dl_conv_check_off(s->check) : 0;
    note_memory(s);
    if (faster && off >= 0 && off <= 1) {
        dl_dnn_plan_free(s->best.plan);
        s->best = w, s->ms = ms;
    } else if (faster && off > 1 && (s->off == 0 || off < s->off)) {
        dl_dnn_plan_free(s->closest.plan);
        s->closest = w, s->off = off;
    } else
        dl_dnn_plan_free(w.plan);
}

/* False: there is no opposite problem. */
static bool problem_of(const dl_conv_job *job, const key *k, bool last, bool opposite, dl_dnn_problem *p) {
    *p = (dl_dnn_problem){(dl_conv_kind)k->kind, (dl_dtype)k->t, k->g, last, k->tf32, k->deterministic};
    if (!opposite) return true;
    p->kind = k->kind == DL_CONV_FORWARD ? DL_CONV_DX : DL_CONV_FORWARD;
    dl_conv turned;
    if (job->volume || k->kind == DL_CONV_DW || !dl_conv_opposite(&job->g, &turned)) return false;
    p->g = dl_conv_of_images(&turned);
    return true;
}

static void try_engines(search *s, bool last, bool opposite, int most) {
    dl_gpu *g = s->job->gpu;
    dl_dnn_choice c[NATURAL];
    dl_dnn_problem p;
    double from = dl_seconds();
    bool some = allowed("cudnn") && problem_of(s->job, s->k, last, opposite, &p) && dl_dnn_ready(g) == DL_OK;
    int n = some ? dl_dnn_choices(g, &p, c, most) : 0, good = 0;
    for (int i = 0; i < n && !(good && (s->small || dl_seconds() - from > BUDGET)); i++) {
        way w = {.last = last, .opposite = opposite, .choice = c[i], .plan = dl_dnn_plan_new(g, &p, &c[i])};
        if (!w.plan) continue;
        if (dl_dnn_workspace(w.plan) > WORKSPACE) {
            dl_dnn_plan_free(w.plan);
            continue;
        }
        try_way(s, w);
        good += s->ms >= 0;
    }
}

static void try_gemm(search *s, bool last) {
    const key *k = s->k;
    if (allowed("patches") && dl_conv_gemm_size(&s->job->g, s->job->kind, last) <= PATCHES && k->g.groups <= 4)
        try_way(s, (way){.last = last, .by = BY_GEMM});
}

static void try_sums(search *s) {
    const key *k = s->k;
    for (int i = 0; i < DL_CONV_SUMS; i++)
        if (allowed(dl_conv_sums_name(s->job->kind, i)) &&
            dl_conv_sums_take(&s->job->g, (dl_conv_kind)k->kind, (dl_dtype)k->t, i))
            try_way(s, (way){.by = BY_SUMS, .which = i});
}

static double operations(const dl_conv_nd *g) {
    double n = 2.0 * (double)(g->N * g->O * (g->C / g->groups));
    for (int d = 0; d < g->dims; d++) n *= (double)(g->out[d] * g->k[d]);
    return n;
}

/* The images that volumes are made of choose their ways in a run that is not measured. */
static void try_images(search *s, bool last) {
    way w = {.last = last, .by = BY_IMAGES};
    if (allowed("images") && run_way(s->check ? &s->check->job : s->job, &w) == DL_OK) try_way(s, w);
}

static void try_all(search *s, bool natural) {
    try_engines(s, natural, false, NATURAL);
    if (s->job->volume) {
        try_engines(s, !natural, false, OTHER);
        try_images(s, natural);
        return;
    }
    if (!natural) try_sums(s);
    if (s->small) return;
    if (s->check) try_engines(s, natural, true, OTHER); /* in f32 only: on tensor cores both are equally fast */
    try_engines(s, !natural, false, OTHER);
    try_gemm(s, natural);
    try_gemm(s, !natural);
}

/* Tries all algorithms, with the accuracy check in f32. */
static void look(search *s, bool natural) {
    const key *k = s->k;
    dl_conv_check check;
    dl_error_clear();
    if (k->t == DL_F32 && !k->tf32 && !s->small && dl_conv_check_begin(&check, s->job)) {
        s->check = &check;
        try_all(s, natural);
        dl_conv_check_end(&check);
        s->check = NULL;
    }
    note_memory(s);
    if (s->ms < 0 && s->off == 0) try_all(s, natural);
    dl_error_clear(); /* errors of algorithms that do not run */
}

/* *keep: the choice may be stored for later processes. */
static dl_status choose(const dl_conv_job *job, const key *k, way *out, bool *keep) {
    bool natural = (k->fits & 3) == 2;
    search s = {.job = job, .k = k, .ms = -1, .small = operations(&k->g) < SMALL};
    look(&s, natural);
    if (s.ms < 0 && s.off == 0 && limited())
        return dl_fail_hint(DL_ERR_UNSUPPORTED, "unset it", "DLCORE_CONV_WAYS allows no way for this convolution");
    means always = job->volume ? BY_IMAGES : BY_GEMM; /* take every shape */
    way w = s.ms >= 0 ? s.best : s.off > 0 ? s.closest : (way){.by = always, .last = natural};
    if (s.ms >= 0) dl_dnn_plan_free(s.closest.plan);
    if (job->gpu->lost) {
        dl_dnn_plan_free(w.plan);
        return dl_gpu_check(job->gpu, job->gpu->lost, "choosing an algorithm");
    }
    *out = w, *keep = !s.out_of_memory && !limited();
    return DL_OK;
}

/* The stored choice of an earlier process, if it still runs. */
static bool restore(const dl_conv_job *job, const key *k, const char *text, way *w) {
    char value[DL_PLAN_TEXT];
    if (limited() || !dl_plan_find(job->gpu, text, value) || !read_way(value, k, w)) return false;
    dl_dnn_problem p;
    if (w->by == BY_SUMS) return dl_conv_sums_take(&job->g, (dl_conv_kind)k->kind, (dl_dtype)k->t, w->which);
    return w->by == BY_GEMM || w->by == BY_IMAGES ||
           (problem_of(job, k, w->last, w->opposite, &p) && (w->plan = dl_dnn_plan_new(job->gpu, &p, &w->choice)));
}

/* Where the plan is, or where it goes. */
static plan **slot_of(const key *k) {
    unsigned long h = dl_hash(k, sizeof *k);
    plan **at = NULL;
    for (unsigned i = 0; i < NEIGHBOURS; i++) {
        at = &plans[(h + i) % SLOTS];
        if (!*at || !memcmp(&(*at)->k, k, sizeof *k)) break;
    }
    return at;
}

static dl_status find(const dl_conv_job *job, const key *k, plan **out) {
    plan **at = slot_of(k);
    if (*at && !memcmp(&(*at)->k, k, sizeof *k)) return *out = *at, DL_OK;
    char text[DL_PLAN_TEXT], value[DL_PLAN_TEXT];
    key_text(k, text);
    plan *p = calloc(1, sizeof *p);
    if (!p) return dl_fail(DL_ERR_MEMORY, "no memory for the plan of a convolution");
    p->k = *k;
    if (!restore(job, k, text, &p->w)) {
        bool keep = false;
        dl_status s = dl_plan_may_measure(job->gpu, "a convolution");
        if (s == DL_OK) s = choose(job, k, &p->w, &keep);
        if (s != DL_OK) return free(p), s;
        if (keep && write_way(&p->w, k, value)) dl_plan_keep(job->gpu, text, value);
    }
    at = slot_of(k); /* one of the images may have taken the place */
    if (*at) dl_dnn_plan_free((*at)->w.plan), free(*at);
    return *at = *out = p, DL_OK;
}

dl_status dl_conv_run(const dl_conv_job *job) {
    key k;
    plan *p = NULL;
    memset(&k, 0, sizeof k);
    k.g = job->volume ? *job->volume : dl_conv_of_images(&job->g);
    k.kind = (int)job->kind, k.t = (int)job->t, k.gpu = job->gpu->index;
    k.tf32 = job->t == DL_F32 && dl_tf32_allowed(), k.deterministic = dl_deterministic();
    k.fits = fit(job->image) | fit(job->weight) << 2 | fit(job->result) << 4;
    if (!under_way++) pthread_mutex_lock(&lock);
    dl_status s = find(job, &k, &p);
    if (s == DL_OK) s = run_way(job, &p->w);
    if (!--under_way) pthread_mutex_unlock(&lock);
    return s;
}
