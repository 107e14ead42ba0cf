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
    dl_conv g;
    int kind, t, gpu, tf32, deterministic, fits; /* fits: two bits an operand, see fit() */
} key;

typedef enum means { BY_DNN, BY_GEMM, BY_SUMS } means;

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
static plan *plans[SLOTS];

/* ---- layouts */

static bool dense(const dl_tensor *t, bool last) {
    static const int order[2][4] = {{3, 2, 1, 0}, {1, 3, 2, 0}};
    long want = 1;
    for (int i = 0; i < 4; i++) {
        int d = order[last][i];
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
    dl_tensor *d = dl_tensor_empty(4, t->shape, t->dtype, t->st->device);
    if (!d) return NULL;
    long C = t->shape[1], H = t->shape[2], W = t->shape[3];
    if (last) memcpy(d->stride, (long[]){H * W * C, 1, W * C, C}, 4 * sizeof(long));
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
        s = w->by == BY_GEMM   ? dl_conv_gemm(&inner, w->last)
            : w->by == BY_SUMS ? dl_conv_sums(&inner, w->which)
                               : run_dnn(&inner, w);
    if (s == DL_OK && use[out] != given[out]) s = dl_cuda_copy(job->gpu, given[out], use[out]);
    for (int i = 0; i < 3; i++) dl_unref(use[i]);
    return s == DL_OK ? dl_gpu_launched(job->gpu) : s;
}

/* ---- choices as text: "sums NAME", "cols LAST", or "dnn LAST OPPOSITE ENGINE TYPE=VALUE ..." */

/* False: the text does not fit. */
static bool write_way(const way *w, const key *k, char *text) {
    if (w->by == BY_SUMS)
        return snprintf(text, DL_PLAN_TEXT, "sums %s", dl_conv_sums_name((dl_conv_kind)k->kind, w->which)) > 0;
    if (w->by == BY_GEMM) return snprintf(text, DL_PLAN_TEXT, "cols %d", w->last) > 0;
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
    const dl_conv *g = &k->g;
    snprintf(
        text, DL_PLAN_TEXT,
        "conv %d %s tf32=%d det=%d fits=%d %ld %ld %ld groups %ld in %ld %ld out %ld %ld k %ld %ld stride %ld %ld pad "
        "%ld %ld dil %ld %ld",
        k->kind, dl_dtype_name((dl_dtype)k->t), k->tf32, k->deterministic, k->fits, g->N, g->C, g->O, g->groups,
        g->in[0], g->in[1], g->out[0], g->out[1], g->k[0], g->k[1], g->stride[0], g->stride[1], g->pad[0], g->pad[1],
        g->dil[0], g->dil[1]);
}

/* ---- choosing */

/* The ways that may be chosen, by the environment variable DLCORE_CONV_WAYS, for benchmarks: names separated by commas
 * out of "cudnn", "patches" and those of dl_conv_sums_name. Unset: all. Choices under it are not stored. */
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
static bool problem_of(const key *k, bool last, bool opposite, dl_dnn_problem *p) {
    *p = (dl_dnn_problem){(dl_conv_kind)k->kind, (dl_dtype)k->t, k->g, last, k->tf32, k->deterministic};
    if (!opposite) return true;
    p->kind = k->kind == DL_CONV_FORWARD ? DL_CONV_DX : DL_CONV_FORWARD;
    return k->kind != DL_CONV_DW && dl_conv_opposite(&k->g, &p->g);
}

static void try_engines(search *s, bool last, bool opposite, int most) {
    dl_gpu *g = s->job->gpu;
    dl_dnn_choice c[NATURAL];
    dl_dnn_problem p;
    double from = dl_seconds();
    bool some = allowed("cudnn") && problem_of(s->k, last, opposite, &p) && dl_dnn_ready(g) == DL_OK;
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
    if (allowed("patches") && dl_conv_gemm_size(&k->g, s->job->kind, last) <= PATCHES && k->g.groups <= 4)
        try_way(s, (way){.last = last, .by = BY_GEMM});
}

static void try_sums(search *s) {
    const key *k = s->k;
    for (int i = 0; i < DL_CONV_SUMS; i++)
        if (allowed(dl_conv_sums_name(s->job->kind, i)) &&
            dl_conv_sums_take(&k->g, (dl_conv_kind)k->kind, (dl_dtype)k->t, i))
            try_way(s, (way){.by = BY_SUMS, .which = i});
}

static double operations(const dl_conv *g) {
    return 2.0 * (double)(g->N * g->O * g->out[0] * g->out[1]) * (double)(g->C / g->groups * g->k[0] * g->k[1]);
}

static void try_all(search *s, bool natural) {
    try_engines(s, natural, false, NATURAL);
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
    way w = s.ms >= 0 ? s.best : s.off > 0 ? s.closest : (way){.by = BY_GEMM, .last = natural}; /* takes every shape */
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
    if (w->by == BY_SUMS) return dl_conv_sums_take(&k->g, (dl_conv_kind)k->kind, (dl_dtype)k->t, w->which);
    return w->by == BY_GEMM ||
           (problem_of(k, w->last, w->opposite, &p) && (w->plan = dl_dnn_plan_new(job->gpu, &p, &w->choice)));
}

static dl_status find(const dl_conv_job *job, const key *k, plan **out) {
    unsigned long h = dl_hash(k, sizeof *k), at = h % SLOTS;
    for (unsigned i = 0; i < NEIGHBOURS; i++) {
        at = (h + i) % SLOTS;
        if (!plans[at]) break;
        if (!memcmp(&plans[at]->k, k, sizeof *k)) return *out = plans[at], DL_OK;
    }
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
    if (plans[at]) dl_dnn_plan_free(plans[at]->w.plan), free(plans[at]);
    plans[at] = p;
    return *out = p, DL_OK;
}

dl_status dl_conv_run(const dl_conv_job *job) {
    key k;
    plan *p = NULL;
    memset(&k, 0, sizeof k);
    k.g = job->g, k.kind = (int)job->kind, k.t = (int)job->t, k.gpu = job->gpu->index;
    k.tf32 = job->t == DL_F32 && dl_tf32_allowed(), k.deterministic = dl_deterministic();
    k.fits = fit(job->image) | fit(job->weight) << 2 | fit(job->result) << 4;
    pthread_mutex_lock(&lock);
    dl_status s = find(job, &k, &p);
    if (s == DL_OK) s = run_way(job, &p->w);
    pthread_mutex_unlock(&lock);
    return s;
}
