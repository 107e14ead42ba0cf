/* Trials on copies: the batch, the copy of the net and of its optimizer. */
#include "debug/doctor/probe.h"

#include <stdlib.h>
#include <string.h>

#include "commands/data/data.h"
#include "commands/data/fields.h"
#include "commands/nets/nets.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/view.h"

/* ---------------------------------------------------------------- begin and end */

static void begin_apart(dlsh_probe *p) {
    *p = (dlsh_probe){.from = ""};
    dl_rng_save(p->rng);
    p->journal = dl_journal_new();
    p->former = dl_journal_swap(p->journal);
}

static dl_status begin(dlsh_probe *p, dl_module *m) {
    begin_apart(p);
    p->net = dl_module_copy(m);
    return p->net ? DL_OK : dl_failed();
}

static void forget_results(dlsh_probe *p) {
    dl_unref(p->out);
    dl_unref(p->loss);
    p->out = p->loss = NULL;
}

void dlsh_probe_end(dlsh_probe *p) {
    forget_results(p);
    for (int i = 0; i < DL_NET_INPUTS; i++) dl_unref(p->in[i]), dl_unref(p->target[i]);
    dl_optimizer_unref(p->opt);
    dl_module_unref(p->net);
    if (p->fn) dlsh_callback_free(p->fn);
    dl_journal_swap(p->former);
    dl_journal_free(p->journal);
    dl_rng_restore(p->rng);
    *p = (dlsh_probe){.from = ""};
}

void dlsh_probe_pause(dlsh_probe *p) {
    if (p->journal) dl_journal_swap(p->former);
}

void dlsh_probe_resume(dlsh_probe *p) {
    if (p->journal) p->former = dl_journal_swap(p->journal);
}

/* ---------------------------------------------------------------- batches */

/* Of large samples a few are enough. */
static long few(const dl_dataset *d, long samples) {
    enum { ELEMENTS = 1 << 19, FEWEST = 4 };
    long each = 1;
    for (int i = 0; i < dl_dataset_ndim(d); i++) each *= dl_dataset_shape(d)[i];
    long n = each ? ELEMENTS / each : samples, len = dl_dataset_len(d, DL_TRAIN);
    n = n < FEWEST ? FEWEST : n;
    n = n < samples ? n : samples;
    return n < len ? n : len;
}

/* Samples at equal distances, so that all classes of a sorted split are there. */
static dl_status gather(dlsh_probe *p, dl_trainer *t, long samples) {
    dl_dataset *d = dl_trainer_dataset(t);
    const dl_batch_form *form = dl_dataset_form(d);
    long len = dl_dataset_len(d, DL_TRAIN), n = few(d, samples);
    DLSH_FREED long *index = malloc((size_t)(n + 1) * sizeof *index);
    if (!index) return dlsh_no_memory("samples");
    for (long i = 0; i < n; i++) index[i] = i * len / n;
    dl_status st = dl_dataset_gather(d, DL_TRAIN, index, n, p->in, p->target);
    p->nin = form->inputs, p->ntarget = form->targets;
    p->from = "training data";
    return st;
}

static dl_status to_device(dl_tensor **t, int n, int device) {
    for (int i = 0; i < n; i++) {
        dl_tensor *there = dl_to_device(t[i], device);
        if (!there) return dl_failed();
        dl_unref(t[i]);
        t[i] = there;
    }
    return DL_OK;
}

dl_status dlsh_probe_trainer(dlsh_probe *p, dl_trainer *t, long samples) {
    dl_module *m = dl_trainer_model(t);
    DLSH_TRY(begin(p, m));
    p->trainer = t;
    DLSH_TRY(gather(p, t, samples));
    DLSH_TRY(to_device(p->in, p->nin, dlsh_net_device(m)));
    return to_device(p->target, p->ntarget, dlsh_net_device(m));
}

/* The row of the net's last pass whose input may still be there. */
static int last_pass(const dl_module *m, dl_journal_row *out) {
    dl_journal_row r = {0};
    int found = 0;
    for (long i = 0; i < dl_journal_count(); i++)
        if (!dl_journal_at(i, &r) && r.kind == DL_DID_FORWARD && r.what == m && (!found || r.till > out->till))
            *out = r, found = 1;
    return found;
}

/* Does the memory of a tensor hold the input of that pass? */
static int holds(const dl_tensor *t, const dl_journal_row *r) {
    const char *from = dl_data(t), *at = r->data;
    if (!at || dl_ndim(t) != r->ndim || !dl_is_contiguous(t) || !r->ndim) return 0;
    for (int d = 1; d < r->ndim; d++)
        if (dl_shape(t)[d] != r->shape[d]) return 0;
    return at >= from && at < from + dl_numel(t) * dl_dtype_size(dl_dtype_of(t));
}

static dl_tensor *first_rows(dl_tensor *t, long n) {
    return dl_ndim(t) && dl_shape(t)[0] > n ? dl_narrow(t, 0, 0, n) : dl_ref(t);
}

/* samples 0: as many as the net was built with. A state has them in another dimension than the first input: the second
 * one that fits, where `second` is set. */
static dl_tensor *random_input(const dl_net_input *in, const dl_net_input *first, int second, long samples) {
    long shape[8];
    int at = -1;
    memcpy(shape, in->shape, sizeof shape);
    for (int d = 0; d < in->ndim && first->ndim > 0 && (at < 0 || second); d++)
        if (in->shape[d] == first->shape[0]) second -= at >= 0, at = d;
    if (in->ndim && samples) shape[at < 0 ? 0 : at] = samples;
    if (!dl_dtype_is_float(in->dtype)) return dl_tensor_zeros(in->ndim, shape, in->dtype, 0);
    return dl_randn(shape, in->ndim, in->dtype, 0);
}

/* Sequences of words of a length: the first places of longer rows, or pieces of one text. */
static dl_tensor *pieces_of(dl_tensor *t, long places, long samples) {
    if (dl_dtype_is_float(dl_dtype_of(t)) || dl_dtype_of(t) == DL_BOOL || !dl_is_contiguous(t) || places < 3)
        return NULL;
    if (dl_ndim(t) == 2 && dl_shape(t)[1] > places && dl_shape(t)[0] > 1) {
        DLSH_OWNED dl_tensor *rows = first_rows(t, samples);
        return rows ? dl_narrow(rows, 1, 0, places) : NULL;
    }
    const long n = dl_ndim(t) == 1 && dl_shape(t)[0] >= 8 * places ? dl_shape(t)[0] / places : 0;
    DLSH_OWNED dl_tensor *some = n ? dl_narrow(t, 0, 0, (n < samples ? n : samples) * places) : NULL;
    return some ? dl_reshape(some, (long[]){-1, places}, 2) : NULL;
}

static int find_sequences(const dlsh_holders *all, dlsh_probe *p, const dl_net_input *in, const dl_journal_row *r,
                          long samples) {
    const int words = r->ndim == 2 && !dl_dtype_is_float(in->dtype);
    DLSH_EACH_HOLDER_WHILE (words && !p->in[0], h, all) {
        dl_tensor *t = h->value.type == DLSH_TENSOR ? h->value.as.tensor : NULL;
        DLSH_OWNED dl_tensor *made = t && !dl_requires_grad(t) ? pieces_of(t, r->shape[1], samples) : NULL;
        if (made) p->in[0] = dl_contiguous(made);
    }
    return p->in[0] && !to_device(p->in, 1, dlsh_net_device(p->net));
}

/* Samples of the form that the net takes: a variable with as many rows as its last pass had or more, or a data set. */
static int find_data(const dlsh_holders *all, dlsh_probe *p, const dl_net_input *in, const dl_journal_row *r,
                     long samples) {
    long index[DLSH_PROBE_SAMPLES];
    DLSH_EACH_HOLDER_WHILE (!p->in[0], h, all) {
        dl_tensor *t = h->value.type == DLSH_TENSOR ? h->value.as.tensor : NULL;
        int fits = t && !dl_requires_grad(t) && dl_dtype_of(t) == in->dtype && dl_ndim(t) == r->ndim && r->ndim > 1 &&
                   dl_shape(t)[0] >= r->shape[0];
        for (int d = 1; fits && d < r->ndim; d++) fits = dl_shape(t)[d] == r->shape[d];
        if (fits) p->in[0] = first_rows(t, samples);
    }
    DLSH_EACH_HOLDER_WHILE (!p->in[0], h, all) {
        dl_dataset *d = dlsh_unwrap(h->value, &dlsh_dataset_class);
        int fits = d && !dl_dataset_slow(d) && dl_dataset_form(d)->inputs == 1 && dl_dataset_ndim(d) == r->ndim - 1;
        for (int k = 1; fits && k < r->ndim; k++) fits = dl_dataset_shape(d)[k - 1] == r->shape[k];
        const long len = fits ? dl_dataset_len(d, DL_TRAIN) : 0, n = fits ? few(d, samples) : 0;
        for (long k = 0; k < n; k++) index[k] = k * len / n;
        dl_tensor *x[DL_NET_INPUTS] = {NULL}, *y[DL_NET_INPUTS] = {NULL};
        if (n && !dl_dataset_gather(d, DL_TRAIN, index, n, x, y) && dl_dtype_of(x[0]) == in->dtype)
            p->in[0] = dl_ref(x[0]);
        for (int k = 0; k < DL_NET_INPUTS; k++) dl_unref(x[k]), dl_unref(y[k]);
    }
    p->from = "the form that it takes";
    return p->in[0] && !to_device(p->in, 1, dlsh_net_device(p->net));
}

/* The first rows of an input, or all of them for a net that runs on all alone, as one of the nodes of a graph does. */
static dl_status take_rows(dlsh_probe *p, dl_tensor *all, long samples) {
    p->in[0] = first_rows(all, samples);
    if (!p->in[0]) return dl_failed();
    if (dl_numel(p->in[0]) == dl_numel(all) || dlsh_probe_forward(p) == DL_OK) return DL_OK;
    dl_error_clear();
    dl_unref(p->in[0]);
    p->in[0] = dl_ref(all), p->whole = 1;
    return DL_OK;
}

static dl_status random_inputs(dlsh_probe *p, const dl_net_input *in, int second, long samples) {
    for (int i = 0; i < p->nin; i++) {
        dl_unref(p->in[i]);
        p->in[i] = in[i].ndim >= 0 ? random_input(&in[i], &in[0], second && i, samples) : NULL;
        if (in[i].ndim >= 0 && !p->in[i]) return dl_failed();
    }
    return to_device(p->in, p->nin, dlsh_net_device(p->net));
}

static dl_status find_input(const dlsh_holders *all, dlsh_probe *p, dl_module *m, long samples) {
    dl_net_input in[DL_NET_INPUTS];
    dl_journal_row r = {0};
    dl_journal *own = dl_journal_swap(p->former);
    int seen = last_pass(m, &r);
    dl_journal_swap(own);
    p->nin = dl_module_inputs(m, in);
    if (!p->nin)
        return dlsh_fail(DL_ERR_STATE, "run a batch through it, m(x), or give the trainer",
                         "what the net %s takes is not known yet", dl_module_name(m));
    DLSH_EACH_HOLDER_WHILE (seen && p->nin == 1, h, all) {
        if (h->value.type != DLSH_TENSOR || !holds(h->value.as.tensor, &r)) continue;
        p->from = "the input of its last pass";
        return take_rows(p, h->value.as.tensor, samples);
    }
    if (p->nin == 1 && seen && find_data(all, p, &in[0], &r, samples)) return DL_OK;
    if (p->nin == 1 && seen && find_sequences(all, p, &in[0], &r, samples)) return DL_OK;
    dl_error_clear();
    p->from = "random numbers";
    for (int second = 0; second < 2; second++) {
        DLSH_TRY(random_inputs(p, in, second, samples < 8 ? samples : 8));
        if (p->nin == 1 || dlsh_probe_forward(p) == DL_OK) return DL_OK;
        dl_error_clear();
    }
    return random_inputs(p, in, 0, 0);
}

dl_status dlsh_probe_net(const dlsh_holders *all, dlsh_probe *p, dl_module *m, long samples) {
    DLSH_TRY(begin(p, m));
    DLSH_SCOPED_GRAD_MODE(0);
    return find_input(all, p, m, samples);
}

dl_status dlsh_probe_function(dlsh_probe *p, dlsh_session *s, dlsh_value fn, dl_tensor *x, long samples) {
    begin_apart(p);
    dlsh_purity *purity = dlsh_purity_new(s, fn);
    unsigned long key;
    dl_status st = purity ? dlsh_purity_key(purity, &key) : dl_failed();
    if (purity) dlsh_purity_free(purity);
    if (st) return st;
    p->fn = dlsh_callback_new(s, fn);
    p->in[0] = first_rows(x, samples);
    p->nin = 1, p->from = "its last call";
    return p->fn && p->in[0] ? DL_OK : dl_failed();
}

/* ---------------------------------------------------------------- passes */

dl_tensor *dlsh_probe_call(dlsh_probe *p, dl_tensor *x) {
    if (p->net) return dl_module_forward(p->net, x);
    dlsh_value in = {.type = DLSH_TENSOR, .as.tensor = x};
    return dlsh_callback_call(p->fn, &in, 1);
}

/* Scores [n, places, classes] of targets [n, places], which a trainer takes as rows. */
static int has_classes_last(const dl_tensor *x, const dl_tensor *y) {
    const int nd = dl_ndim(y);
    return nd > 1 && dl_ndim(x) == nd + 1 && !dl_dtype_is_float(dl_dtype_of(y)) &&
           !memcmp(dl_shape(x), dl_shape(y), (size_t)nd * sizeof(long));
}

static dl_tensor *loss_by_name(const dlsh_probe *p) {
    dl_tensor *made[8] = {NULL};
    int n = 0, last = has_classes_last(p->out, p->target[0]);
    DLSH_OWNED dl_tensor *x =
        last ? dl_reshape(p->out, (long[]){-1, dl_shape(p->out)[dl_ndim(p->out) - 1]}, 2) : dl_ref(p->out);
    DLSH_OWNED dl_tensor *y = last ? dl_reshape(p->target[0], (long[]){-1}, 1) : dl_ref(p->target[0]);
    if (x && y) dl_op_call(dl_trainer_loss_name(p->trainer), (dl_tensor *[]){x, y}, 2, NULL, made, &n);
    return made[0];
}

/* The trainer's loss: an op by its name, or the caller's function. */
static dl_tensor *loss_of(const dlsh_probe *p, const dl_pack *out) {
    void *ctx = dl_trainer_loss_context(p->trainer);
    if (!ctx) return loss_by_name(p);
    dlsh_value args[2] = {dlsh_pack_value(out),
                          dlsh_fields_value(dl_dataset_form(dl_trainer_dataset(p->trainer)), 1, p->target)};
    dl_tensor *loss = dlsh_failed(args[0]) || dlsh_failed(args[1]) ? NULL : dlsh_callback_call(ctx, args, 2);
    dlsh_drop(args[0]);
    dlsh_drop(args[1]);
    return loss;
}

dl_status dlsh_probe_forward(dlsh_probe *p) {
    DLSH_SCOPED_GRAD_MODE(1);
    forget_results(p);
    DLSH_ENDED(dl_pack_unref)
    dl_pack *in = dl_pack_new(p->in, p->nin, NULL, NULL), *out = in ? dl_module_call(p->net, in) : NULL;
    if (!out) return dl_failed();
    p->out = dl_ref(dl_pack_tensor(out, 0));
    if (p->trainer) p->loss = loss_of(p, out);
    return p->trainer && !p->loss ? dl_failed() : DL_OK;
}

dl_status dlsh_probe_backward(dlsh_probe *p, dl_module *of) {
    dl_module_zero_grad(p->net);
    if (p->loss) return dl_backward(p->loss, NULL, 0, 0);
    DLSH_ENDED(dl_module_list_free) dl_module_list *from = dl_module_tensors(of, 1), *to = dl_module_tensors(p->net, 1);
    dl_status st = from && to ? DL_OK : dl_failed();
    DLSH_SCOPED_GRAD_MODE(0);
    for (long i = 0; !st && i < from->n && i < to->n; i++) {
        dl_tensor *g = dl_grad(from->entries[i].tensor), *copy = g ? dl_clone(g) : NULL;
        if (g) st = copy ? dl_set_grad(to->entries[i].tensor, copy) : dl_failed();
        dl_unref(copy);
    }
    return st;
}

int dlsh_is_single_layer(const dl_module *m) {
    for (int i = 0; i < dl_module_count(m); i++)
        if (!dlsh_is_net_tensor(dl_module_at(m, i))) return 0;
    return !dlsh_is_net_tensor(m);
}

/* ---------------------------------------------------------------- the optimizer */

static int trains(const dl_optimizer *o, const dl_module_list *l) {
    const dl_tensor *p;
    for (long i = 0; (p = dl_optimizer_param(o, i, NULL)); i++)
        for (long k = 0; k < l->n; k++)
            if (l->entries[k].tensor == p && dl_requires_grad(p)) return 1;
    return 0;
}

dl_optimizer *dlsh_probe_find_optimizer(const dlsh_holders *all, dl_module *m) {
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_tensors(m, 1);
    dl_optimizer *found = NULL;
    DLSH_EACH_HOLDER_WHILE (l && !found, h, all) {
        dl_trainer *t = dlsh_unwrap(h->value, &dlsh_trainer_class);
        dl_optimizer *o = t ? dl_trainer_optimizer(t) : dlsh_unwrap(h->value, &dlsh_optimizer_class);
        if (o && trains(o, l)) found = o;
    }
    return found;
}

dl_module *dlsh_probe_find_net(const dlsh_holders *all, const dl_optimizer *o) {
    dl_module *found = NULL;
    DLSH_EACH_HOLDER_WHILE (!found, h, all) {
        dl_module *m = dlsh_unwrap(h->value, &dlsh_net_class);
        DLSH_ENDED(dl_module_list_free) dl_module_list *l = m ? dl_module_tensors(m, 1) : NULL;
        if (l && trains(o, l)) found = m;
    }
    return found;
}

typedef struct states {
    char *names[4096];
    dl_tensor *tensors[4096];
    long n;
} states;

static dl_status add_state(void *ctx, const char *name, dl_tensor *t) {
    states *all = ctx;
    if (all->n == 4096) return DL_OK;
    all->names[all->n] = strdup(name);
    all->tensors[all->n] = dl_clone(t);
    return all->names[all->n] && all->tensors[all->n++] ? DL_OK : dl_failed();
}

/* Names of parameters stay, so that the state fits. */
static dl_status add_params(dlsh_probe *p, const dl_optimizer *o, dl_module *of) {
    DLSH_ENDED(dl_module_list_free) dl_module_list *from = dl_module_tensors(of, 1), *to = dl_module_tensors(p->net, 1);
    DLSH_TRY(from && to ? DL_OK : dl_failed());
    const char *name;
    dl_tensor *own;
    for (long i = 0; (own = dl_optimizer_param(o, i, &name)); i++)
        for (long k = 0; k < from->n && k < to->n; k++)
            if (from->entries[k].tensor == own && dl_requires_grad(to->entries[k].tensor))
                DLSH_TRY(dl_optimizer_add(p->opt, name, to->entries[k].tensor));
    return DL_OK;
}

dl_status dlsh_probe_optimizer(dlsh_probe *p, dl_optimizer *o, dl_module *of) {
    DLSH_SCOPED_GRAD_MODE(0);
    DLSH_FREED states *all = calloc(1, sizeof *all);
    if (!all) return dlsh_no_memory("the state of an optimizer");
    p->opt = dl_optimizer_parse(dl_optimizer_text(o));
    dl_status st = p->opt ? add_params(p, o, of) : dl_failed();
    if (!st) st = dl_optimizer_state(o, add_state, all);
    dl_tensor_file *f = st ? NULL : dl_tensor_file_of(all->n, (const char *const *)all->names, all->tensors);
    if (!st && (!f || dl_optimizer_load_state(p->opt, f, ""))) dl_error_clear(); /* groups: without its state */
    if (!st) st = dl_optimizer_set_lr(p->opt, dl_optimizer_lr(o));
    dl_tensor_file_free(f);
    for (long i = 0; i < all->n; i++) free(all->names[i]), dl_unref(all->tensors[i]);
    return st;
}
