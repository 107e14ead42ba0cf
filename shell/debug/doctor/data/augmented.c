/* Functions of the script that change samples at random on their way into a net, tried on samples: a copy of the net,
 * which learns a little more from samples as they are, says whether changed ones look like another class. */
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/data/pools.h"
#include "debug/doctor/data/turned.h"
#include "debug/doctor/syntax.h"
#include "dlcore/index.h"
#include "dlcore/loss.h"
#include "dlcore/reduce.h"

enum {
    CLASSES = 20,
    FEWEST = 60,
    SAMPLES = 600,
    BATCH = 32,
    STEPS = 80,
    DRAWS = 2,
    ELEMENTS = 1 << 12,
    WEIGHTS = 1 << 19
};

/* Samples with labels, the first half to learn from, the other one to be judged. */
typedef struct material {
    dl_tensor *x, *y; /* owned */
    long n, classes;
} material;

static void material_free(material *m) { dl_unref(m->x), dl_unref(m->y); }

/* ---------------------------------------------------------------- the judge */

static dl_tensor *some_of(dl_tensor *t, const long *index, long n) {
    DLSH_OWNED dl_tensor *at = dl_tensor_from(1, &n, DL_I64, 0, index);
    return at ? dl_index_select(t, at, 0) : NULL;
}

static dl_status learn(dl_module *net, dl_optimizer *o, const material *m, long step) {
    long index[BATCH];
    DLSH_SCOPED_GRAD_MODE(1);
    for (long i = 0; i < BATCH; i++) index[i] = (step * BATCH + i) * 7919 % (m->n / 2);
    DLSH_OWNED dl_tensor *x = some_of(m->x, index, BATCH), *y = some_of(m->y, index, BATCH);
    DLSH_OWNED dl_tensor *z = x ? dl_module_forward(net, x) : NULL;
    DLSH_OWNED dl_tensor *loss = z && y ? dl_cross_entropy(z, y, NULL, "mean", -100, 0) : NULL;
    if (!loss) return dl_failed();
    dl_optimizer_zero_grad(o);
    DLSH_TRY(dl_backward(loss, NULL, 0, 0));
    return dl_optimizer_step(o);
}

/* The classes that the net takes samples for; 0: it cannot be asked. */
static int ask(dl_module *net, dl_tensor *x, double *said) {
    DLSH_SCOPED_GRAD_MODE(0);
    DLSH_OWNED dl_tensor *z = x ? dl_module_forward(net, x) : NULL;
    DLSH_OWNED dl_tensor *best = z && dl_ndim(z) == 2 ? dl_argmax(z, (long[]){1}, 0) : NULL;
    return best && !dl_read_f64(best, said);
}

/* What the net says of the samples to be judged, as they are and changed. */
typedef struct verdict {
    long right, kept, count;      /* right as they are; right still; all */
    long own[CLASSES];            /* right as they are, by class */
    long moved[CLASSES][CLASSES]; /* of these, what they are taken for when they are changed */
} verdict;

static int judge(const material *m, const double *label, const double *plain, const double *changed, verdict *v) {
    for (long i = m->n / 2; i < m->n; i++) {
        const int c = (int)label[i], d = (int)changed[i];
        v->count++;
        if (plain[i] != label[i]) continue;
        v->right++, v->own[c]++;
        v->kept += c == d;
        if (d >= 0 && d < m->classes && d != c) v->moved[c][d]++;
    }
    return 1;
}

/* Many samples of one class that look like one other class. */
static int turns_class(const material *m, const verdict *v, int *from, int *to) {
    for (int c = 0; c < m->classes; c++)
        for (int d = 0; d < m->classes; d++) {
            long all = 0;
            for (int k = 0; k < m->classes; k++) all += v->moved[c][k];
            if (v->moved[c][d] < 8 || 10 * v->moved[c][d] < 3 * v->own[c] || 3 * v->moved[c][d] < 2 * all) continue;
            *from = c, *to = d;
            return 1;
        }
    return 0;
}

typedef struct trial {
    dlsh_examination *e;
    dlsh_probe probe; /* of the function */
    material m;
    double *label, *plain, *changed; /* [m.n] */
} trial;

/* The samples after the function; NULL: it gives something else, or leaves them as they are. */
static dl_tensor *changed_by(trial *t) {
    DLSH_SCOPED_GRAD_MODE(0);
    dl_tensor *z = dlsh_probe_call(&t->probe, t->m.x);
    const int fits = z && dl_ndim(z) == dl_ndim(t->m.x) && dl_dtype_of(z) == dl_dtype_of(t->m.x) &&
                     !memcmp(dl_shape(z), dl_shape(t->m.x), (size_t)dl_ndim(z) * sizeof(long));
    if (fits) return z;
    dl_unref(z);
    return NULL;
}

/* Two calls with the same samples differ: it changes them at random. */
static int is_random(trial *t) {
    DLSH_OWNED dl_tensor *a = changed_by(t), *b = a ? changed_by(t) : NULL;
    const long n = b ? dl_numel(b) : 0;
    DLSH_FREED double *x = malloc(((size_t)n + 1) * sizeof *x), *y = malloc(((size_t)n + 1) * sizeof *y);
    return n && x && y && !dl_read_f64(a, x) && !dl_read_f64(b, y) && memcmp(x, y, (size_t)n * sizeof *x) != 0;
}

static int count_draws(trial *t, dl_module *net, verdict *v) {
    for (int i = 0; i < DRAWS; i++) {
        DLSH_OWNED dl_tensor *z = changed_by(t);
        if (!z || !ask(net, z, t->changed)) return 0;
        judge(&t->m, t->label, t->plain, t->changed, v);
    }
    return 1;
}

static int learn_more(trial *t, dl_module *net) {
    dl_optimizer *o = dl_optimizer_parse("adam(lr=0.002)");
    int good = o && !dl_optimizer_add_module(o, net);
    for (long i = 0; good && i < STEPS; i++) good = !learn(net, o, &t->m, i);
    dl_optimizer_unref(o);
    return good;
}

/* Where the net is sure of changed samples the function is harmless. */
static int is_harmful(trial *t, dl_module *net, verdict *v, int *from, int *to) {
    dl_module_train(net, 0);
    if (!ask(net, t->m.x, t->plain) || !count_draws(t, net, v)) return 0;
    if (v->kept > 0.9 * (double)v->right && v->right > 0.8 * (double)v->count) return 0;
    dl_module_train(net, 1);
    const int learned = learn_more(t, net);
    dl_module_train(net, 0);
    *v = (verdict){0};
    if (!learned || !ask(net, t->m.x, t->plain) || !count_draws(t, net, v)) return 0;
    return v->right > 0.75 * (double)v->count && v->kept < 0.85 * (double)v->right && turns_class(&t->m, v, from, to);
}

/* ---------------------------------------------------------------- the function and the samples */

static int is_of_use(const dl_tensor *x, const dl_journal_row *r) {
    if (dl_ndim(x) != r->ndim || dl_ndim(x) < 2 || !dl_dtype_is_float(dl_dtype_of(x)) || dl_requires_grad(x)) return 0;
    return dl_shape(x)[0] >= FEWEST && dl_numel(x) / dl_shape(x)[0] <= ELEMENTS;
}

static int set_material(material *m, dl_tensor *x, dl_tensor *y) {
    DLSH_SCOPED_GRAD_MODE(0);
    m->n = dl_shape(x)[0] < SAMPLES ? dl_shape(x)[0] : SAMPLES;
    long *index = malloc((size_t)m->n * sizeof *index); /* in an order that mixes classes */
    for (long i = 0; index && i < m->n; i++) index[i] = (i * 7919 + 13) % m->n * dl_shape(x)[0] / m->n;
    m->x = index ? some_of(x, index, m->n) : NULL, m->y = m->x ? some_of(y, index, m->n) : NULL;
    free(index);
    return m->y != NULL;
}

/* Samples of variables, with the labels that belong to them: the largest ones that the function and the net take. */
static int find_material(const dlsh_examination *e, const dl_journal_row *r, material *m) {
    const dlsh_holder *h, *k;
    dl_tensor *best = NULL, *labels = NULL;
    for (int i = 0; (h = dlsh_holder_next(&e->holders, &i));) {
        dl_tensor *x = h->value.type == DLSH_TENSOR ? h->value.as.tensor : NULL;
        if (!x || !is_of_use(x, r) || (best && dl_shape(best)[0] >= dl_shape(x)[0])) continue;
        for (int j = 0; (k = dlsh_holder_next(&e->holders, &j));) {
            dl_tensor *y = k->value.type == DLSH_TENSOR ? k->value.as.tensor : NULL;
            if (y && dl_ndim(y) == 1 && dl_dtype_of(y) == DL_I64 && dl_shape(y)[0] == dl_shape(x)[0])
                best = x, labels = y;
        }
    }
    return best && set_material(m, best, labels);
}

static int read_labels(trial *t) {
    const size_t size = ((size_t)t->m.n + 1) * sizeof(double);
    t->label = malloc(size), t->plain = malloc(size), t->changed = malloc(size);
    if (!t->label || !t->plain || !t->changed || dl_read_f64(t->m.y, t->label)) return 0;
    for (long i = 0; i < t->m.n; i++) {
        if (!(t->label[i] >= 0 && t->label[i] < CLASSES)) return 0;
        if (t->label[i] + 1 > (double)t->m.classes) t->m.classes = (long)t->label[i] + 1;
    }
    return t->m.classes > 1;
}

/* The part of a function that puts elements in another order, or turns their signs; NULL: it has none. */
static const dlsh_node *changing_part(const dlsh_node *n) {
    static const char turning[] = "flip|fliplr|flipud|hflip|vflip|rot90|roll|transpose|permute|neg";
    DLSH_EACH_BELOW (t, n)
        if (!t.n || dlsh_is_call_of(t.n, turning)) return t.n;
    return NULL;
}

static void tell(dlsh_examination *e, const char *file, const dlsh_node *fn, const dlsh_node *call, const verdict *v,
                 int from, int to) {
    const dlsh_node *at = changing_part(fn);
    dlsh_found(
        e, file, at ? at->span.line : fn->span.line,
        "leave out what turns one class into the other, or give the changed samples their "
        "other label",
        "%s turns samples of one class into another class, but they keep their label\n"
        "tried on samples that were kept apart: of %ld of class %d %ld look like class %d after the call of line %d; a "
        "copy of the net that learned from samples as they are has %.0f %% right, of changed ones %.0f %%",
        fn->text, v->own[from], from, v->moved[from][to], to, call->span.line,
        100.0 * (double)v->right / (double)v->count, 100.0 * (double)v->kept / (double)v->count);
}

static void try_function(dlsh_examination *e, const char *file, const dlsh_node *fn, const dlsh_node *call,
                         dlsh_value value, const dl_journal_row *r, dl_module *m) {
    trial t = {.e = e};
    verdict v = {0};
    int from = 0, to = 0;
    if (find_material(e, r, &t.m) && read_labels(&t)) {
        if (!dlsh_probe_function(&t.probe, e->s, value, t.m.x, t.m.n) && is_random(&t)) {
            dl_module *net = dl_module_copy(m);
            if (net && is_harmful(&t, net, &v, &from, &to)) tell(e, file, fn, call, &v, from, to);
            dl_module_unref(net);
        }
        dlsh_probe_end(&t.probe);
    }
    dl_error_clear();
    material_free(&t.m);
    free(t.label), free(t.plain), free(t.changed);
}

static long weights_of(dl_module *m) {
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_tensors(m, 1);
    long n = 0;
    for (long i = 0; l && i < l->n; i++) n += dl_numel(l->entries[i].tensor);
    return n;
}

/* augment(x) in the course of a training, of a function of the script. */
static int see_change(void *ctx, const char *file, const dlsh_node *n) {
    dlsh_examination *e = ctx;
    if (n->kind != DLSH_N_CALL || n->nkids != 2 || n->kids[0]->kind != DLSH_N_NAME) return 0;
    const dlsh_value *v = dlsh_value_of(e, file, n->kids[0]);
    const dlsh_node *fn = v && v->type == DLSH_FN ? dlsh_function_of(file, n->kids[0]->text) : NULL;
    if (!fn || dlsh_uses_net(e, file, fn) || !dlsh_draws(fn)) return 0;
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        if (!dlsh_is_training_pass(e, r) || dlsh_is_before_loop(file, n->span.line, r->line)) continue;
        dl_module *m = dlsh_live_net(e, r->what, NULL);
        if (!m || !r->ndim || weights_of(m) > WEIGHTS) continue;
        try_function(e, file, fn, n, *v, r, m);
        return e->bad;
    }
    return 0;
}

void dlsh_find_changed(dlsh_examination *e) { dlsh_each_node(see_change, e); }
