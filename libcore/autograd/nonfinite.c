/* Which call first made a NaN, or an infinity, from operands without one; kept with the numbers that explain it, so
 * that no tensor is held. */
#include "autograd/nonfinite.h"
#include "autograd/tape.h"
#include "core/scope.h"
#include "ops/formulas.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

int dl_nan_mode = DL_NAN_WARN;
int dl_fp_from_teams;

enum { KEPT = 8, OPERANDS = sizeof((dl_nan_event *)0)->operand / sizeof(dl_nan_operand) };

/* The first events of each kind: [0] NaN, [1] infinities. */
static struct {
    pthread_mutex_t lock;
    dl_nan_event event[2][KEPT];
    int n[2];
    bool stale;
    long updates;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct {
    dl_nan_fn *fn;
    void *ctx;
} watcher;
static _Thread_local const dl_node *rule;
/* Inside ops made of others, which may clear up what their parts make. */
static _Thread_local int composing;
static _Thread_local dl_nan_event held;

dl_nan_policy dl_nan_policy_get(void) { return (dl_nan_policy)__atomic_load_n(&dl_nan_mode, __ATOMIC_RELAXED); }

dl_status dl_nan_policy_set(dl_nan_policy p) {
    if (p < DL_NAN_OFF || p > DL_NAN_STOP)
        return dl_fail(DL_ERR_VALUE, "%d is not a policy: off, warn and stop are 0 to 2", (int)p);
    __atomic_store_n(&dl_nan_mode, (int)p, __ATOMIC_RELAXED);
    return DL_OK;
}

void dl_nan_watch(dl_nan_fn *fn, void *ctx) { watcher.fn = fn, watcher.ctx = ctx; }

const dl_node *dl_nonfinite_rule(const dl_node *n) {
    const dl_node *former = rule;
    rule = n;
    return former;
}

const dl_node *dl_nonfinite_rule_get(void) { return rule; }

void dl_nonfinite_count_update(void) { __atomic_add_fetch(&kept.updates, 1, __ATOMIC_RELAXED); }

void dl_nan_forget(void) {
    pthread_mutex_lock(&kept.lock);
    kept.stale = true;
    __atomic_store_n(&kept.updates, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&kept.lock);
}

dl_status dl_nan_event_at(int infinite, int i, dl_nan_event *out) {
    dl_status s = DL_OK;
    pthread_mutex_lock(&kept.lock);
    if (i < 0 || i >= kept.n[!!infinite])
        s = dl_fail(DL_ERR_INDEX, "there is no event %d", i);
    else
        *out = kept.event[!!infinite][i];
    pthread_mutex_unlock(&kept.lock);
    return s;
}

/* ---------------------------------------------------------------- elements */

static bool readable(const dl_tensor *t) { return t && dl_in_host_memory(t) && dl_dtype_is_smooth(t->dtype); }

/* The elements of a tensor in logical order. */
typedef struct walk {
    const dl_tensor *t;
    long at[DL_MAX_DIM];
    int64_t offset;
} walk;

/* Of a complex number the real part, or the imaginary one when that alone is not finite. */
static double value_at(const walk *w) {
    const dl_dtype t = w->t->dtype, part = dl_dtype_of_parts(t);
    const char *p = (const char *)w->t->st->data + w->offset * (int64_t)dl_esize(w->t);
    const double v = dl_load_f64(p, part), imag = part == t ? 0 : dl_load_f64(p + dl_dtype_size(part), part);
    return isfinite(imag) || isnan(v) ? v : imag;
}

/* False after the last element. */
static bool advance(walk *w) {
    for (int d = w->t->ndim - 1; d >= 0; d--) {
        w->offset += w->t->stride[d];
        if (++w->at[d] < w->t->shape[d]) return true;
        w->offset -= w->t->stride[d] * w->t->shape[d];
        w->at[d] = 0;
    }
    return false;
}

/* ---- floating numbers that lie densely, in any order, by their bits, whose comparisons raise no flag and come in
 * vectors. `top`: the bits of infinity. Bits of negative numbers are turned, so that all are ordered as integers. */

#define TURNED(I, v) ((I)((v) ^ ((v) >> (8 * sizeof(I) - 1) & MOST_##I)))
#define MOST_int16_t INT16_MAX
#define MOST_int32_t INT32_MAX
#define MOST_int64_t INT64_MAX
#define BY_BITS(I)                                                                                                     \
    static bool clean_##I(const void *x, int64_t n, int64_t infinity) {                                                \
        const I top = (I)infinity, *p = x;                                                                             \
        I bad = 0;                                                                                                     \
        for (int64_t i = 0; i < n; i++) bad |= (I)((p[i] & MOST_##I) >= top);                                          \
        return !bad;                                                                                                   \
    }                                                                                                                  \
    static void describe_##I(const void *x, int64_t n, int64_t infinity, dl_dtype t, dl_nan_operand *o) {              \
        enum { STRETCH = sizeof(I) == 2 ? 1 << 14 : 1 << 20 }; /* as many as an I counts */                            \
        const I top = (I)infinity, bottom = TURNED(I, (I)(top | ~MOST_##I)), *p = x;                                   \
        I low = top, high = bottom;                                                                                    \
        for (int64_t end, i = 0; i < n; i = end) {                                                                     \
            I nan = 0, inf = 0;                                                                                        \
            for (end = n - i < STRETCH ? n : i + STRETCH; i < end; i++) {                                              \
                const I v = p[i], size = v & MOST_##I, k = TURNED(I, v);                                               \
                nan += size > top, inf += size == top;                                                                 \
                const I least = size < top ? k : top, most = size < top ? k : bottom;                                  \
                low = least < low ? least : low, high = most > high ? most : high;                                     \
            }                                                                                                          \
            o->nan += nan, o->inf += inf;                                                                              \
        }                                                                                                              \
        low = TURNED(I, low), high = TURNED(I, high);                                                                  \
        o->low = dl_load_f64(&low, t), o->high = dl_load_f64(&high, t);                                                \
    }                                                                                                                  \
    /* The first bad number from i on; n: there is none. */                                                            \
    static int64_t next_bad_##I(const void *x, int64_t i, int64_t n, int64_t infinity, bool infinite) {                \
        const I top = (I)infinity, *p = x;                                                                             \
        while (i < n && !(infinite ? (p[i] & MOST_##I) == top : (p[i] & MOST_##I) > top)) i++;                         \
        return i;                                                                                                      \
    }
BY_BITS(int16_t)
BY_BITS(int32_t)
BY_BITS(int64_t)

typedef struct by_bits {
    bool (*clean)(const void *x, int64_t n, int64_t infinity);
    void (*describe)(const void *x, int64_t n, int64_t infinity, dl_dtype t, dl_nan_operand *o);
    int64_t (*next_bad)(const void *x, int64_t i, int64_t n, int64_t infinity, bool infinite);
    int64_t infinity;
} by_bits;

/* NULL: the numbers do not lie so, or are complex. */
static const by_bits *bits_of(const dl_tensor *t) {
#define ROW(I, infinity)                                                                                               \
    { clean_##I, describe_##I, next_bad_##I, infinity }
    static const by_bits rows[DL_NDTYPE] = {[DL_F16] = ROW(int16_t, 0x7c00),
                                            [DL_BF16] = ROW(int16_t, 0x7f80),
                                            [DL_F32] = ROW(int32_t, 0x7f800000),
                                            [DL_F64] = ROW(int64_t, 0x7ff0000000000000)};
#undef ROW
    return dl_is_dense(t) && rows[t->dtype].clean ? &rows[t->dtype] : NULL;
}

/* All finite? Others than such numbers are said to be suspicious. */
static bool is_clean(const dl_tensor *t) {
    const by_bits *f = bits_of(t);
    return f && f->clean(dl_ptr(t), t->numel, f->infinity);
}

static void describe_operand(const dl_tensor *t, dl_nan_operand *o) {
    *o = (dl_nan_operand){.low = INFINITY, .high = -INFINITY};
    snprintf(o->name, sizeof o->name, "%s", t->name ? t->name : "");
    snprintf(o->kind, sizeof o->kind, "%s%s", dl_type_of(t), dl_shape_of(t));
    if (!readable(t) || !t->numel) return;
    const by_bits *f = bits_of(t);
    if (f) {
        f->describe(dl_ptr(t), t->numel, f->infinity, (dl_dtype)t->dtype, o);
        return;
    }
    walk w = {.t = t, .offset = t->offset};
    do {
        double v = value_at(&w);
        if (isnan(v))
            o->nan++;
        else if (isinf(v))
            o->inf++;
        else
            o->low = fmin(o->low, v), o->high = fmax(o->high, v);
    } while (advance(&w));
}

/* Does the op work element by element? */
static bool is_pointwise(const dl_op *op) { return dl_formula_of(op) >= 0 || !strcmp(op->name, "where"); }

/* The element of an operand that an element of the result is made from; false: the shapes do not say. */
static bool operand_value(const dl_tensor *t, const dl_nan_event *e, double *out) {
    walk w = {.t = t, .offset = t->offset};
    if (!readable(t) || t->ndim > e->ndim) return false;
    for (int d = 0; d < t->ndim; d++) {
        long i = e->at[e->ndim - t->ndim + d];
        if (t->shape[d] == 1) continue;
        if (i >= t->shape[d]) return false;
        w.offset += i * t->stride[d];
    }
    *out = value_at(&w);
    return true;
}

/* ---------------------------------------------------------------- what is wrong with a result */

/* Operands of what has run, an op or the kernel of a gradient. */
typedef struct work {
    const char *name;
    dl_tensor *const *in;
    int nin;
    bool pointwise;
} work;

static bool bad(double v, bool infinite) { return infinite ? isinf(v) : isnan(v); }

/* Is the bad element explained by an operand that is bad already? */
static bool inherited(const work *w, const dl_nan_event *e, bool infinite) {
    for (int i = 0; i < w->nin; i++) {
        double v;
        if (!readable(w->in[i])) continue;
        if (w->pointwise && operand_value(w->in[i], e, &v)) {
            if (bad(v, infinite) || (infinite && isnan(v))) return true;
        } else {
            dl_nan_operand o;
            if (is_clean(w->in[i])) continue;
            describe_operand(w->in[i], &o);
            if (o.nan || (infinite && o.inf)) return true;
        }
    }
    return false;
}

/* Moves to a bad element, `w` itself or one behind it; false: there is none. *i is the element's number. */
static bool to_bad(walk *w, int64_t *i, bool infinite) {
    const dl_tensor *t = w->t;
    const by_bits *f = dl_is_contiguous(t) ? bits_of(t) : NULL;
    if (f) {
        *i = f->next_bad(dl_ptr(t), *i, t->numel, f->infinity, infinite);
        w->offset = t->offset + *i;
        for (int64_t d = t->ndim, rest = *i; d-- > 0; rest /= t->shape[d]) w->at[d] = rest % t->shape[d];
        return *i < t->numel;
    }
    while (!bad(value_at(w), infinite)) {
        if (!advance(w)) return false;
        ++*i;
    }
    return true;
}

/* The first bad element that no operand explains. */
static bool find_first(const work *w, const dl_tensor *t, bool infinite, dl_nan_event *e) {
    walk at = {.t = t, .offset = t->offset};
    int64_t i = 0;
    e->count = 0, e->numel = t->numel, e->ndim = t->ndim;
    do {
        if (!to_bad(&at, &i, infinite)) break;
        memcpy(e->at, at.at, sizeof e->at);
        e->value = value_at(&at);
        if (!inherited(w, e, infinite)) {
            dl_nan_operand all;
            describe_operand(t, &all);
            e->count = infinite ? all.inf : all.nan;
            return true;
        }
        i++;
    } while (w->pointwise && i < t->numel && advance(&at));
    return false;
}

static void fill_in(char *out, size_t size, const char *text, const double *v) {
    size_t n = 0;
    for (const char *p = text; *p && n + 1 < size; p++) {
        if (*p == '$' && (p[1] == 'a' || p[1] == 'b'))
            n += (size_t)snprintf(out + n, size - n, "%.6g", v[*++p - 'a']);
        else
            out[n++] = *p;
    }
    out[n < size ? n : size - 1] = 0;
}

static void explain_operands(dl_nan_event *e) {
    for (int i = 0; i < e->noperands; i++) {
        const dl_nan_operand *o = &e->operand[i];
        if (!o->inf) continue;
        snprintf(e->reason, sizeof e->reason, "operand %d%s%s holds %ld infinit%s", i, *o->name ? ", " : "", o->name,
                 o->inf, o->inf == 1 ? "y" : "ies");
        snprintf(e->remedy, sizeof e->remedy,
                 "find where the infinity comes from: a row that is masked wholly, or "
                 "numbers that grew from step to step: then lower the learning rate");
        return;
    }
    for (int i = 0; i < e->noperands; i++) {
        double top = fmax(fabs(e->operand[i].low), fabs(e->operand[i].high));
        if (!(top > 1e15) || isinf(top)) continue;
        snprintf(e->reason, sizeof e->reason, "sums overflow: operand %d holds %.3g", i, top);
        snprintf(e->remedy, sizeof e->remedy,
                 "numbers grew from step to step: lower the learning rate, or clip_norm=1");
        return;
    }
    if (!e->numel || (e->noperands && !strcmp(e->op, "mean")))
        snprintf(e->reason, sizeof e->reason, "a mean of no elements");
    else if (!strcmp(e->op, "var") || !strcmp(e->op, "std"))
        snprintf(e->reason, sizeof e->reason, "the spread of a single element, divided by n - 1 = 0"),
            snprintf(e->remedy, sizeof e->remedy, "take it over several elements, or correction=0");
}

bool dl_nonfinite_explain(dl_nan_event *e, double a, double b) {
    const double v[2] = {a, b};
#define REASON(name, condition, reason_, remedy_)                                                                      \
    if (!*e->reason && !strcmp(e->op, name) && !isnan(a) && (condition)) {                                             \
        fill_in(e->reason, sizeof e->reason, reason_, v);                                                              \
        fill_in(e->remedy, sizeof e->remedy, remedy_, v);                                                              \
    }
#include "autograd/nonfinite.def"
#undef REASON
    return *e->reason;
}

static void explain(dl_nan_event *e) {
    double v[2] = {NAN, NAN};
    for (int i = 0; i < 2 && i < e->noperands; i++)
        if (e->operand[i].has_value) v[i] = e->operand[i].value;
    if (e->backward && !strcmp(e->op, e->forward) && e->noperands > 1 && e->operand[1].has_value)
        fill_in(e->reason, sizeof e->reason,
                "the gradient $a that came in, times the slope where the operand or result is $b", v);
    if (!dl_nonfinite_explain(e, v[0], v[1])) explain_operands(e);
    if (e->zero_gradient)
        snprintf(
            e->remedy, sizeof e->remedy,
            "the gradient that came in was 0, and 0 times an infinite slope is NaN: %.20s(x + 1e-12); where it comes "
            "from a branch of where() that was not taken, select the argument first: %.20s(where(ok, x, 1))",
            e->forward, e->forward);
}

/* ---------------------------------------------------------------- keeping */

static bool same_call(const dl_nan_event *a, const dl_nan_event *b) {
    return a->line == b->line && a->backward == b->backward && !strcmp(a->op, b->op) && !strcmp(a->file, b->file) &&
           !strcmp(a->forward, b->forward);
}

/* Counts how often the call was seen before. */
static void keep(dl_nan_event *e, bool infinite) {
    bool fresh = true;
    pthread_mutex_lock(&kept.lock);
    if (kept.stale) kept.n[0] = kept.n[1] = 0, kept.stale = false;
    int *n = &kept.n[infinite];
    for (int i = 0; i < *n && fresh; i++) {
        if (!same_call(&kept.event[infinite][i], e)) continue;
        e->again = ++kept.event[infinite][i].again;
        fresh = false;
    }
    if (fresh && *n < KEPT) kept.event[infinite][(*n)++] = *e;
    pthread_mutex_unlock(&kept.lock);
}

void dl_nonfinite_note_origin(const dl_tensor *t) {
    dl_nan_event e;
    pthread_mutex_lock(&kept.lock);
    const bool known = kept.n[1] && !kept.stale;
    pthread_mutex_unlock(&kept.lock);
    if (known || !dl_nan_origin(t, &e)) return;
    e.updates = __atomic_load_n(&kept.updates, __ATOMIC_RELAXED);
    keep(&e, true);
}

static void set_place(dl_nan_event *e, const dl_back *b) {
    dl_source here = dl_source_get(), from = here;
    const dl_node *n = b ? b->node : rule;
    const dl_layer_mark *layer = n ? n->layer : dl_layer_running;
    if (layer) {
        snprintf(e->layer, sizeof e->layer, "%s", layer->path);
        snprintf(e->layer_file, sizeof e->layer_file, "%s", layer->src.file);
        e->layer_line = layer->src.line;
    }
    if (n) {
        from = n->src;
        e->backward = 1;
        snprintf(e->forward, sizeof e->forward, "%s", n->op->name);
    }
    snprintf(e->file, sizeof e->file, "%s", from.file);
    snprintf(e->seen_file, sizeof e->seen_file, "%s", here.file);
    e->line = from.line;
    e->seen_line = here.line;
    e->updates = __atomic_load_n(&kept.updates, __ATOMIC_RELAXED);
}

static void add_operands(dl_nan_event *e, dl_tensor *const *in, int n, bool pointwise) {
    for (int i = 0; i < n && e->noperands < OPERANDS; i++) {
        if (!in[i]) continue;
        dl_nan_operand *o = &e->operand[e->noperands++];
        describe_operand(in[i], o);
        o->has_value = pointwise && operand_value(in[i], e, &o->value);
    }
}

void dl_nonfinite_operands(dl_nan_event *e, dl_tensor *const *in, int n) { add_operands(e, in, n, true); }

static void set_operands(dl_nan_event *e, const work *w) {
    add_operands(e, w->in, w->nin, w->pointwise);
    e->zero_gradient = e->backward && w->pointwise && w->nin > 0 && e->operand[0].has_value && !e->operand[0].value;
}

/* Keeps the event, and says so as the policy wants it. */
static dl_status tell(dl_nan_event *e) {
    dl_nan_policy policy = dl_nan_policy_get();
    keep(e, false);
    if (watcher.fn) watcher.fn(watcher.ctx, e);
    if (policy != DL_NAN_STOP) return DL_OK;
    return dl_fail_hint(DL_ERR_VALUE, *e->remedy ? e->remedy : "`why nan` tells more",
                        "made NaN from operands without one%s%s", *e->reason ? ": " : "", e->reason);
}

void dl_nonfinite_met(const dl_tensor *t) {
    static _Thread_local dl_source last;
    const dl_source here = dl_source_get();
    pthread_mutex_lock(&kept.lock);
    const bool known = kept.n[0] && !kept.stale;
    pthread_mutex_unlock(&kept.lock);
    if (dl_in_host_memory(t) || known || dl_nan_policy_get() != DL_NAN_WARN || !watcher.fn) return;
    if (last.file == here.file && last.line == here.line) return;
    last = here;
    dl_nan_event e = {.met = 1, .line = t->node->src.line, .seen_line = here.line, .value = NAN};
    snprintf(e.op, sizeof e.op, "%s", t->node->op->name);
    snprintf(e.file, sizeof e.file, "%s", t->node->src.file);
    snprintf(e.seen_file, sizeof e.seen_file, "%s", here.file);
    snprintf(
        e.remedy, sizeof e.remedy,
        "set nan stop, and run it again: each op on the GPU is then looked at, and the one that makes nan is named");
    watcher.fn(watcher.ctx, &e);
}

/* Looks at one result. */
static dl_status look_at(const work *w, const dl_tensor *t, const dl_back *b, bool update) {
    if (!readable(t) || !t->numel || is_clean(t)) return DL_OK;
    for (int infinite = 0; infinite < 2; infinite++) {
        dl_nan_event e = {.update = update};
        if (!find_first(w, t, infinite, &e)) continue;
        snprintf(e.op, sizeof e.op, "%s", w->name);
        set_place(&e, b);
        set_operands(&e, w);
        explain(&e);
        for (int i = 0; i < w->nin && i < OPERANDS && !infinite && !b; i++)
            if (w->in[i] && e.operand[i].inf) dl_nonfinite_note_origin(w->in[i]);
        if (infinite)
            keep(&e, true);
        else if (!composing)
            return tell(&e);
        else if (!*held.op)
            held = e;
    }
    return DL_OK;
}

bool dl_nonfinite_has(const dl_tensor *t) {
    dl_nan_operand o = {0};
    if (!readable(t) || !t->numel || is_clean(t)) return false;
    describe_operand(t, &o);
    return o.nan || o.inf;
}

static bool holds_nan(dl_tensor *t) {
    dl_nan_operand o = {0};
    DL_OWNED dl_tensor *near = dl_nonfinite_copy(t);
    if (near && !is_clean(near)) describe_operand(near, &o);
    return o.nan > 0;
}

void dl_nonfinite_compose(void) { composing++; }

dl_status dl_nonfinite_composed(const dl_call *c) {
    if (--composing || !*held.op) return DL_OK;
    dl_nan_event e = held;
    *held.op = 0;
    for (int i = 0; i < c->nout; i++) {
        if (c->out[i] && holds_nan(c->out[i])) return tell(&e);
    }
    return DL_OK;
}

static void clear(void) {
    dl_fp_clear();
    __atomic_store_n(&dl_fp_from_teams, 0, __ATOMIC_RELAXED);
}

dl_status dl_nonfinite_check(const dl_call *c) {
    work w = {c->op->name, c->in, c->nin, is_pointwise(c->op)};
    dl_status s = DL_OK;
    for (int i = 0; i < c->nout && s == DL_OK; i++) s = look_at(&w, c->out[i], NULL, false);
    /* an op that only writes to its operands is an optimizer's step: gradients and states explain what it made */
    for (int i = 0; i < c->nin && s == DL_OK && !c->op->out; i++) {
        work rest = {c->op->name, c->in + i + 1, c->nin - i - 1, false};
        if (c->in[i] && c->in[i]->requires_grad) s = look_at(&rest, c->in[i], NULL, true);
    }
    clear();
    return s;
}

dl_status dl_nonfinite_check_rule(const dl_back *b) {
    dl_tensor *in[OPERANDS + DL_MAX_OUT];
    int n = 0;
    for (int i = 0; i < b->nout; i++)
        if (b->g[i]) in[n++] = b->g[i];
    for (int i = 0; i < b->node->nsaved && n < OPERANDS + DL_MAX_OUT; i++) in[n++] = b->node->saved[i].t;
    work w = {b->op->name, in, n, is_pointwise(b->op)};
    dl_status s = DL_OK;
    for (int i = 0; i < b->nin && s == DL_OK; i++) s = look_at(&w, b->gin[i], b, false);
    clear();
    return s;
}
