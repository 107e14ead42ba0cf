/* What ops do with samples: shapes that broadcast by accident, samples that influence each other, inputs without
 * influence. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/checks.h"
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/trial.h"
#include "dlcore/arithmetic.h"
#include "dlcore/index.h"
#include "dlcore/view.h"
#include "view/elements.h"

/* ---------------------------------------------------------------- by what is known of ops */

const char *dlsh_shape_text(int ndim, const long *shape, char *buf, size_t size) {
    size_t n = 0;
    for (int d = 0; d < ndim && n < size; d++)
        n += (size_t)snprintf(buf + n, size - n, "%s%ld", d ? "," : "", shape[d]);
    return buf;
}

static void look_at_reshape(dlsh_examination *e, const dl_journal_row *r) {
    char from[100], to[100];
    dlsh_found(e, r->file, r->line, "permute or transpose, which move dimensions; reshape keeps the order of elements",
               "a reshape stands where a transpose is meant: elements that belong together are torn apart\n"
               "it makes [%s] of [%s]: a dimension changes its place, but the elements keep their order",
               dlsh_shape_text(r->ndim, r->shape, to, sizeof to),
               dlsh_shape_text(r->x.ndim, r->x.shape, from, sizeof from));
}

/* Rows of scores for each place: [N, C, T] as [N * T, C] without a permutation puts scores of several classes in a row.
 */
static void look_at_rows(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_value *x = &n->in[0], *y = &n->out;
    if (!dlsh_op_is(n, "reshape|view") || x->ndim < 3 || y->ndim != 2 || x->constant) return;
    const long classes = x->shape[1], places = x->shape[x->ndim - 1];
    if (classes < 2 || y->shape[1] != classes || places == classes || y->shape[0] == x->shape[0]) return;
    if (!dlsh_op_is(dlsh_pass_user(p, n), "cross_entropy|log_softmax|softmax|nll_picked")) return;
    dlsh_finding *f =
        dlsh_find_at(e, n->file, n->line, "the classes last before: transpose(1, 2) or permute, then reshape");
    char from[100], to[100];
    dlsh_cause(f, "a reshape stands where a permutation is meant: a row of scores has those of several places in it");
    dlsh_evidence(f, "it makes [%s] of [%s], whose %ld classes are dimension 1, and elements keep their order",
                  dlsh_shape_text(y->ndim, y->shape, to, sizeof to),
                  dlsh_shape_text(x->ndim, x->shape, from, sizeof from), classes);
}

static int along_samples(const dl_journal_node *n) {
    static const char *const dims[] = {"dim=[0] ", "dim=0 "};
    char attrs[80];
    snprintf(attrs, sizeof attrs, "%s ", n->attrs);
    for (int i = 0; i < 2; i++)
        if (strstr(attrs, dims[i])) return n->in[0].ndim >= 2 && n->in[0].shape[0] > 1 && !n->in[0].leaf;
    return 0;
}

/* Does a product sum over the samples behind a node, so that a figure of the batch is meant, as a correlation? */
static int sums_over_samples(dlsh_pass p, const dl_journal_node *n, long samples) {
    for (int i = 0; n && i < 8; i++) {
        n = dlsh_pass_user(p, n);
        if (dlsh_op_is(n, "matmul|bmm|einsum") && (!n->out.ndim || n->out.shape[0] != samples)) return 1;
    }
    return 0;
}

/* A figure of all samples that is given back to each of them. */
static int is_shared(dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_node *user = dlsh_pass_user(p, n);
    if (!along_samples(n) || sums_over_samples(p, n, n->in[0].shape[0])) return 0;
    if (dlsh_op_is(n, "cumsum|flip|sort")) return 1;
    for (int i = 0; i < 6 && dlsh_op_is(user, "clamp|maximum|where|sqrt|reshape|unsqueeze"); i++)
        user = dlsh_pass_user(p, user);
    if (dlsh_op_is(n, "norm|square_sum|root_square_sum") && !dlsh_op_is(user, "div")) return 0; /* as a penalty */
    return dlsh_op_is(n, "mean|sum|var|amax|amin|norm|square_sum|root_square_sum") &&
           dlsh_op_is(user, "sub|div|add|mul") && user->out.ndim >= 2 && user->out.shape[0] == n->in[0].shape[0];
}

/* A figure of all elements, [N, K], where one of each sample was meant: it is put beside figures of samples. */
static const dl_journal_node *shared_by_all(dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_value *x = &n->in[0];
    const dl_journal_node *user = dlsh_pass_user(p, n);
    const int extreme = dlsh_op_is(n, "amax|amin"), total = dlsh_op_is(n, "sum|logsumexp|norm|mean");
    if ((!extreme && !total) || n->out.ndim || x->ndim < 2 || x->shape[0] < 2 || x->shape[0] == x->shape[1])
        return NULL;
    if (x->shape[1] < 2 || x->constant) return NULL;
    for (int i = 0; user && i < 3 && !user->out.ndim; i++) user = dlsh_pass_user(p, user);
    if (!user || !dlsh_op_is(user, "sub|div|add|mul|maximum|minimum")) return NULL;
    for (int k = 0; k < 2; k++) {
        const dl_journal_value *v = &user->in[k];
        const dl_journal_node *from = v->there ? dlsh_pass_node(p, v->from) : NULL;
        if (!from || v->ndim < 1 || v->shape[0] != x->shape[0] || dlsh_is_made_of(p, from, n)) continue;
        const int itself = v->ndim == x->ndim && dlsh_pass_node(p, x->from) == from;
        /* the largest score taken from all changes nothing; a total of all is a distribution over the batch */
        if (extreme ? !itself : itself && dlsh_op_is(user, "div") && dlsh_op_is(from, "exp|softplus|sigmoid|relu"))
            return user;
    }
    return NULL;
}

static void look_at_total(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_node *user = shared_by_all(p, n);
    if (user)
        dlsh_found(e, dlsh_node_file(n), dlsh_node_line(n),
                   "one figure for each sample: dim=1, with keepdim=true where it is divided by",
                   "%s runs over the whole batch: it mixes the samples, dim= is missing\n"
                   "it makes one number of [%ld,%ld]; %s at line %d puts it beside figures of each of the %ld samples",
                   n->op, n->in[0].shape[0], n->in[0].shape[1], user->op, user->line, n->in[0].shape[0]);
}

/* A mean over the numbers of each word, [N, T, E] to [N, T], of what an embedding gives. */
static int is_mean_of_features(dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_value *x = &n->in[0];
    const dl_journal_node *by = dlsh_pass_node(p, x->from);
    const int last = x->ndim == 3 && n->out.ndim == 2 && n->out.shape[1] == x->shape[1] && x->shape[1] != x->shape[2];
    for (int i = 0; by && i < 5 && dlsh_op_is(by, "add|dropout|mul|layer_norm|reshape|view|restride"); i++)
        by = dlsh_pass_node(p, by->in[0].from);
    return last && dlsh_op_is(by, "embedding|index_select") && by->in[0].leaf;
}

static void tell_features(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_node *user = dlsh_pass_user(p, n);
    if (!(dlsh_op_is(user, "linear|matmul"))) return;
    dlsh_finding *f = dlsh_found(
        e, n->file, n->line, "over the places: dim=1",
        "%s runs over the numbers of each word, and leaves the places: what the embedding tells is averaged away\n"
        "it makes [%ld,%ld] of [%ld,%ld,%ld]; %s takes the places as if they were features",
        n->op, n->out.shape[0], n->out.shape[1], n->in[0].shape[0], n->in[0].shape[1], n->in[0].shape[2], user->op);
    if (dlsh_settled_lower(r, 0.6)) dlsh_only_note(e, f);
}

/* A mean over the channels that a convolution has just made, before the layer that tells classes. */
static void look_at_channels(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_value *x = &n->in[0];
    char attrs[80];
    snprintf(attrs, sizeof attrs, "%s ", n->attrs);
    if (!dlsh_op_is(n, "mean|sum|amax") || *n->layer || x->ndim < 3 || n->out.ndim < 2 || n->out.ndim >= x->ndim)
        return;
    if (n->out.ndim == x->ndim - 1 && is_mean_of_features(p, n)) return tell_features(e, r, p, n);
    if (!strstr(attrs, "dim=[1] ") && !strstr(attrs, "dim=1 ") && !strstr(attrs, "dim=[1,")) return;
    const dl_journal_node *by = dlsh_pass_source(p, n, 0), *user = dlsh_pass_user(p, n);
    for (int i = 0; by && i < 4 && !strstr(by->op, "conv"); i++)
        by = strstr(by->op, "relu") || strstr(by->op, "norm") || strstr(by->op, "pool") ||
                     dlsh_op_is(by, "tanh|sigmoid|silu|gelu|dropout|add")
                 ? dlsh_pass_source(p, by, 0)
                 : NULL;
    if (!by || !strstr(by->op, "conv") || !dlsh_op_is(user, "linear|matmul|reshape|flatten")) return;
    dlsh_finding *f = dlsh_found(
        e, n->file, n->line, "over the places: dim=2, or dim=[2, 3] of pictures",
        "%s runs over the channels of %s, and leaves the places: what the filters have found is averaged away\n"
        "it makes [%ld,%ld...] of [%ld,%ld,%ld...]; %s takes the places as if they were features",
        n->op, *by->layer ? by->layer : by->op, n->out.shape[0], n->out.shape[1], x->shape[0], x->shape[1], x->shape[2],
        user->op);
    if (dlsh_settled_lower(r, 0.6)) dlsh_only_note(e, f);
}

static void look_at_samples(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    if (!is_shared(p, n) || dlsh_averages_around(e, n->file, n->line)) return;
    dlsh_finding *f =
        dlsh_find_at(e, dlsh_node_file(n), dlsh_node_line(n), "compute it for each sample: dim=1, or dim=-1");
    dlsh_cause(f, "%s mixes the samples of a batch", dlsh_op_is(n, "square_sum|root_square_sum") ? "norm" : n->op);
    if (dlsh_keeps_average(e, NULL, 0)) dlsh_only_note(e, f); /* as batch norm does, written by hand */
    dlsh_evidence(f, "%s runs along dimension 0, the %ld samples", n->op, n->in[0].shape[0]);
}

/* How many samples the loss of a pass compares, where a sample has one result; 0: not known. */
static long samples_of_loss(dlsh_pass p) {
    for (long k = 0; k < p.n; k++) {
        const dl_journal_value *x = &p.at[k].in[0];
        if (dlsh_op_is(&p.at[k], "cross_entropy|nll_picked|square_sum|logit_loss|probability_loss") && x->ndim)
            return x->ndim <= 2 ? x->shape[0] : 0;
    }
    return 0;
}

int dlsh_weighs_across(dlsh_pass p, const dl_journal_node *n, int *summed) {
    const char *at = dlsh_op_is(n, "softmax") && n->out.ndim > 2 ? strstr(n->attrs, "dim=") : NULL;
    const dl_journal_node *user = at ? dlsh_pass_user(p, n) : NULL;
    if (!dlsh_op_is(user, "matmul|bmm")) return -1;
    const int nd = n->out.ndim, d = (int)strtol(at + strlen("dim="), NULL, 10), along = d < 0 ? d + nd : d;
    *summed = user->in[0].from == n->seq ? nd - 1 : nd - 2;
    return along == *summed ? -1 : along;
}

void dlsh_find_weights_of_sum(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n, int of_samples) {
    int summed = 0;
    const int d = dlsh_weighs_across(p, n, &summed);
    if (d < 0 || (d == 0) != of_samples) return;
    dlsh_found(e, n->file, n->line, summed == n->out.ndim - 1 ? "dim=-1" : "dim=-2",
               "softmax runs over dimension %d, but the product behind it sums over dimension %d\n"
               "weights of a mean add up to 1 over what is summed, as the keys of an attention; these do over %s%s",
               d, summed, d == 0 ? "the samples" : "its queries",
               n->out.shape[d] == 1 ? ", of which there is one: all weights are 1, and no gradient gets through" : "");
}

/* Weights of each sample for each other one, by a softmax of [n, n] that is multiplied with the n samples. */
static void look_at_attention(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    const long rows = dlsh_op_is(n, "softmax") && n->out.ndim == 2 ? n->out.shape[0] : 0;
    const dl_journal_node *user = rows > 3 && n->out.shape[1] == rows ? dlsh_pass_user(p, n) : NULL;
    if (!dlsh_op_is(user, "matmul") || user->out.ndim != 2 || user->out.shape[0] != rows || samples_of_loss(p) != rows)
        return;
    dlsh_finding *f =
        dlsh_find_at(e, n->file, n->line, "attention within a sample: inputs of [samples, places, features]");
    dlsh_traced used[DLSH_TRACED];
    if (!f) return;
    dlsh_cause(f, "softmax mixes the samples of a batch: each sample attends to the others");
    dlsh_evidence(f,
                  "its result is [%ld,%ld], and the loss compares %ld samples: the weights are those of samples, not "
                  "of places within one",
                  rows, rows, rows);
    int picked = 0;
    for (long k = 0; k < p.n && !picked; k++) {
        const int m = dlsh_trace(e, p.at[k].file, p.at[k].line, used);
        for (int i = 0; i < m; i++) picked |= *used[i].picks != 0;
    }
    if (!picked) dlsh_only_note(e, f); /* all nodes of a graph, perhaps */
}

/* A recurrent layer, whose op takes [times, samples, features], over rows of samples. */
static void look_at_times(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    const long samples = dlsh_op_is(n, "recurrent") && n->in[0].ndim == 3 ? samples_of_loss(p) : 0;
    const long times = n->in[0].shape[0], others = n->in[0].shape[1];
    if (samples < 2 || times != samples || others == samples || others == 1) return;
    dlsh_found(e, dlsh_node_file(n), dlsh_node_line(n), "batch_first, or an input of [times, samples, features]",
               "a recurrent layer takes the samples for times: it mixes the samples of a batch\n"
               "its input has %ld times of %ld samples, [%ld,%ld,%ld], but the loss compares %ld samples",
               times, others, times, others, n->in[0].shape[2], samples);
}

/* ---------------------------------------------------------------- by dlsh_trial */

void dlsh_trial_free(dlsh_trial *t) {
    for (long i = 0; i < t->n; i++) dl_unref(t->result[i]);
    free(t->result);
    free(t->calls);
    free(t->from);
    *t = (dlsh_trial){0};
}

static int is_same(const dl_tensor *a, const dl_tensor *b) {
    return a && b && dl_data(a) == dl_data(b) && dl_ndim(a) == dl_ndim(b) &&
           !memcmp(dl_shape(a), dl_shape(b), (size_t)dl_ndim(a) * sizeof(long));
}

/* The call before number i whose result an operand is, or the input. */
static long maker_of(const dlsh_trial *t, long i, const dl_tensor *operand, const dl_tensor *x) {
    while (operand && --i >= 0)
        if (is_same(t->result[i], operand)) return i;
    return is_same(operand, x) ? DLSH_TRIAL_INPUT : DLSH_TRIAL_OTHER;
}

static void note_makers(dlsh_trial *t, long i, const dl_tensor *x) {
    for (int k = 0; k < DLSH_TRIAL_OPERANDS; k++)
        t->from[i][k] = maker_of(t, i, k < t->calls[i].nin ? t->calls[i].in[k] : NULL, x);
}

/* Runs the net on x, recorded. Layers' names and files live longer than the recording. */
dl_status dlsh_trial_run(dlsh_examination *e, dl_tensor *x, dlsh_trial *t, dl_tensor **out) {
    dlsh_probe *p = &e->probe;
    DLSH_SCOPED_GRAD_MODE(0);
    dl_rng_restore(p->rng);
    dl_recording_set(1);
    *out = dlsh_probe_call(p, x);
    dl_recording_set(0);
    t->n = dl_recording_count();
    t->result = calloc((size_t)t->n + 1, sizeof(dl_tensor *));
    t->calls = calloc((size_t)t->n + 1, sizeof *t->calls);
    t->from = calloc((size_t)t->n + 1, sizeof *t->from);
    dl_status st = *out ? t->result && t->calls && t->from ? DL_OK : dlsh_no_memory("a trial") : dl_failed();
    for (long i = 0; !st && i < t->n; i++) {
        st = dlsh_recorded_at(i, &t->calls[i]);
        if (!st && t->calls[i].nout) t->result[i] = dl_ref(t->calls[i].out[0]);
        if (!st) note_makers(t, i, x);
    }
    if (!t->result || !t->calls || !t->from) t->n = 0;
    dl_recording_clear();
    return st;
}

/* The share of elements that are the same in both; 1 where there is nothing to compare. */
double dlsh_share_alike(const dl_tensor *a, const dl_tensor *b) {
    long n = a ? dl_numel(a) : 0, equal = 0;
    if (!n || !b || dl_numel(b) != n) return 1;
    DLSH_FREED double *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);
    if (x && y && !dl_read_f64(a, x) && !dl_read_f64(b, y))
        for (long i = 0; i < n; i++)
            equal +=
                x[i] == y[i] || (isnan(x[i]) && isnan(y[i])) || fabs(x[i] - y[i]) <= 1e-5 * (fabs(x[i]) + fabs(y[i]));
    else
        equal = n, dl_error_clear();
    return (double)equal / (double)n;
}

/* The dimension of x that has the samples: 0, or of inputs [times, samples, features] the one that is as long as the
 * rows that the loss compares. */
static int samples_along(const dlsh_examination *e, const dl_tensor *x) {
    const dl_journal_row *pass = NULL;
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD)
        if (e->net && r->what == e->net && r->grad && r->ndim == dl_ndim(x) && (!pass || r->count > pass->count))
            pass = r;
    DLSH_EACH_ROW_WHILE (pass && pass->ndim > 2, r, e, DL_DID_BACKWARD) {
        const long n = samples_of_loss(dlsh_pass_of(r, 1));
        if (n > 1 && pass->shape[0] != n && pass->shape[1] == n) return 1;
    }
    return 0;
}

/* Is the input one sample alone, of a net that is trained with batches of them? */
static int is_one_sample(const dlsh_examination *e, const dl_tensor *x) {
    const dl_journal_row *pass = NULL;
    DLSH_EACH_ROW_WHILE (e->net, r, e, DL_DID_FORWARD)
        if (r->what == e->net && r->grad && (!pass || r->count > pass->count)) pass = r;
    return pass ? pass->ndim == dl_ndim(x) + 1 : e->net && dl_ndim(x) == 1 && dl_dtype_is_float(dl_dtype_of(x));
}

/* The input with all samples changed but the first, or the last. */
static dl_tensor *disturbed_but(const dlsh_examination *e, dl_tensor *x, int last) {
    DLSH_SCOPED_GRAD_MODE(0);
    const int dim = samples_along(e, x);
    long n = dl_shape(x)[dim];
    dl_tensor *both = NULL;
    if (n < 2) return NULL;
    DLSH_OWNED dl_tensor *kept = dl_narrow(x, dim, last ? n - 1 : 0, 1), *moved = NULL;
    DLSH_OWNED dl_tensor *others = dl_narrow(x, dim, !last, n - 1);
    if (others && dl_dtype_is_float(dl_dtype_of(x))) {
        DLSH_OWNED dl_tensor *factor = dl_scalar_f(-1.5), *shift = dl_scalar_f(0.3), *scaled = dl_mul(others, factor);
        moved = dl_add(scaled, shift);
    } else if (others && n > 2 && n <= DLSH_PROBE_SAMPLES) { /* one of them in place of all: sums change, too */
        DLSH_OWNED dl_tensor *one = dl_narrow(others, dim, 0, 1);
        dl_tensor *same[DLSH_PROBE_SAMPLES];
        for (long i = 0; i < n - 1; i++) same[i] = one;
        moved = one ? dl_cat(same, (int)n - 1, dim) : NULL;
    }
    if (kept && moved) both = dl_cat((dl_tensor *[]){last ? moved : kept, last ? kept : moved}, 2, dim);
    return both;
}
static dl_tensor *disturbed(const dlsh_examination *e, dl_tensor *x) { return disturbed_but(e, x, 0); }
static dl_tensor *disturbed_before(const dlsh_examination *e, dl_tensor *x) { return disturbed_but(e, x, 1); }

static dl_source place_of(const dl_recorded *c) {
    return dlsh_place_of_op((dl_source){c->layer_file, c->layer_line}, (dl_source){c->file, c->line});
}
const char *dlsh_call_file(const dl_recorded *c) { return place_of(c).file; }
int dlsh_call_line(const dl_recorded *c) { return place_of(c).line; }

static const char *call_layer(const dl_recorded *c, char *buf, size_t size) {
    snprintf(buf, size, "%s%s%s", c->op, *c->layer ? " of layer " : "", c->layer);
    return buf;
}

/* The outermost layer around a call, or that one itself, that can have batch_first, and a line; NULL: there is none. */
static dl_module *with_batch_first(const dlsh_examination *e, const dl_recorded *c) {
    char path[200];
    for (const char *end = c->layer; e->net && *end; end += *end == '.') {
        end += strcspn(end, ".");
        snprintf(path, sizeof path, "%.*s", (int)(end - c->layer), c->layer);
        dl_module *m = dl_module_find(e->net, path);
        if (m && dl_kind_has_flag(dl_layer_kind(dl_module_kind(m)), "batch_first") && *dl_module_source(m).file)
            return m;
    }
    return NULL;
}

/* A layer of sequences that takes samples for places. */
static int find_places_taken(dlsh_examination *e, const dl_recorded *c, long samples, const char *kept) {
    dl_module *m = with_batch_first(e, c);
    char *text = m ? dl_module_text(m) : NULL;
    if (!text) return 0;
    const int set = strstr(text, "batch_first") != NULL;
    dl_text_free(text);
    const dl_source at = dl_module_source(m);
    dlsh_found(e, at.file, at.line, set ? "leave batch_first out" : "add batch_first",
               "%s mixes the samples of a batch, which it takes for places: batch_first is %s\n"
               "with the other %ld samples changed, what %s (layer %s, line %d) gives for %s changes",
               dl_module_kind(m), set ? "set" : "missing", samples - 1, c->composite ? c->composite : c->op, c->layer,
               c->line, kept);
    return 1;
}

/* Is it a number of samples by its text: x.shape[0], n where n = x.shape[0], -1? */
static int counts_samples(const char *file, const dlsh_node *n) {
    if (n->kind == DLSH_N_NAME) {
        const dlsh_node *made = dlsh_defined(file, n);
        return made && made->kind != DLSH_N_NAME && counts_samples(file, made);
    }
    const dlsh_node *of = n->kind == DLSH_N_INDEX && n->nkids == 2 ? n->kids[0] : NULL;
    return (of && of->kind == DLSH_N_FIELD && !strcmp(of->text, "shape") && n->kids[1]->kind == DLSH_N_INT &&
            !n->kids[1]->num.i) ||
           (dlsh_is_call_of(n, "len|size") && n->nkids > 1);
}

/* z.reshape(H, n, t, d): the samples in another place than the first one. */
static int line_of_torn(const char *file, int otherwise) {
    DLSH_EACH_BELOW (t, dlsh_text_root(file)) {
        const int method = t.n->kind == DLSH_N_CALL && t.n->kids[0]->kind == DLSH_N_FIELD;
        if (!method || !dlsh_is_call_of(t.n, "reshape|view") || t.n->nkids < 3) continue;
        if (counts_samples(file, t.n->kids[1]) || t.n->kids[1]->kind == DLSH_N_UNARY) continue;
        for (int i = 2; i < t.n->nkids; i++)
            if (counts_samples(file, t.n->kids[i])) return t.n->span.line;
    }
    return otherwise;
}

/* The call that made few numbers of all samples, as their deviation, which call number i takes in; i: there is none. */
static long reduced_before(const dlsh_trial *t, long i, long samples) {
    for (int k = 0; k < DLSH_TRIAL_OPERANDS; k++) {
        long found = -1, j = t->from[i][k];
        for (; j >= 0 && t->result[j] && dl_numel(t->result[j]) < samples; j = t->from[j][0]) found = j;
        if (found >= 0 && j != DLSH_TRIAL_OTHER) return found;
    }
    return i;
}

/* The first call whose result does not keep what belongs to a sample. */
static void find_mixing(dlsh_examination *e, const dlsh_trial *a, const dlsh_trial *b, long samples, const char *kept) {
    for (long i = 0; i < a->n && i < b->n; i++) {
        long n = a->result[i] ? dl_numel(a->result[i]) : 0;
        if (n < samples || dlsh_share_alike(a->result[i], b->result[i]) >= 0.5 / (double)samples) continue;
        char what[200];
        const dl_recorded *c = &a->calls[reduced_before(a, i, samples)];
        if (find_places_taken(e, c, samples, kept)) return;
        const char *file = dlsh_call_file(c);
        dlsh_found(e, file, line_of_torn(file, dlsh_call_line(c)),
                   dlsh_is_word("softmax|log_softmax|sum|mean|cumsum|logsumexp|amax|amin|sort|norm|var|std", c->op)
                       ? "another dim: dimension 0 holds the samples, the places of a sample stand behind it, dim=1"
                       : "let each op keep the dimension of samples: look at dim= and at reshape",
                   "%s mixes the samples of a batch\n"
                   "with the other %ld samples changed, its result for %s changes, too",
                   call_layer(c, what, sizeof what), samples - 1, kept);
        return;
    }
}

static const char *const ways_to_lose[] = {"dead and saturated units", "gradients by depth"};

static int is_explained(const dlsh_examination *e) {
    int found = 0;
    for (size_t i = 0; i < DLSH_COUNT(ways_to_lose); i++) found |= dlsh_was_found(e, ways_to_lose[i], "");
    return found;
}

/* The first call whose result stays although an operand changed. */
static void find_ignoring(dlsh_examination *e, const dlsh_trial *a, const dlsh_trial *b) {
    char what[200] = "the net";
    const char *file = e->net ? dlsh_module_source(e->net).file : e->place.file;
    int line = e->net ? dlsh_module_source(e->net).line : e->place.line;
    long next = 0;
    int weighed = 0; /* does it meet weights before it is lost? Then gradients and units tell why */
    for (long i = a->n - 2; i >= 0 && !next; i--)
        if (i < b->n && dlsh_share_alike(a->result[i], b->result[i]) < 1) next = i + 1;
    for (long i = 0; i < next; i++)
        weighed |= dlsh_is_word("linear|matmul|conv1d|conv2d|conv3d|embedding", a->calls[i].op);
    if (weighed && is_explained(e)) return;
    if (next < a->n) {
        call_layer(&a->calls[next], what, sizeof what);
        file = dlsh_call_file(&a->calls[next]), line = dlsh_call_line(&a->calls[next]);
    }
    dlsh_finding *f =
        dlsh_find_at(e, file, line, "look at what is given on there: a factor of 0, dead units, another variable");
    if (!f) return;
    f->effect = dlsh_was_found(e, "all of the input counts", "the wrong way round") ||
                dlsh_was_found(e, "names are used where they belong", "no part in the result") ||
                dlsh_was_found(e, "parameters and optimizers", "pulls the weights to 0") ||
                dlsh_was_found(e, "what the loss is given", "never reached");
    for (size_t i = 0; i < DLSH_COUNT(ways_to_lose) && !weighed; i++) dlsh_mark_effects(e, ways_to_lose[i]);
    dlsh_cause(f, "the result of the net does not depend on its input");
    dlsh_evidence(f, "with other samples it is the same; %s is the first that gives the same for both", what);
}

/* Does the result of the sample that was kept stay? */
static int finds_mixing(dlsh_examination *e, const dlsh_trial *a, const dlsh_trial *b, const dl_tensor *y,
                        const dl_tensor *z, long n, const char *kept) {
    if (dl_numel(y) < n || dlsh_share_alike(y, z) >= 0.5 / (double)n) return 0;
    find_mixing(e, a, b, n, kept);
    return 1;
}

static void judge_mixing(dlsh_examination *e, const dlsh_trial *a, const dlsh_trial *b, dl_tensor *x, dl_tensor *y,
                         dl_tensor *z) {
    finds_mixing(e, a, b, y, z, dl_shape(x)[samples_along(e, x)], "the first one");
}

/* Those before it alone may change it, as in a layer that runs along the samples. */
static void judge_mixing_before(dlsh_examination *e, const dlsh_trial *a, const dlsh_trial *b, dl_tensor *x,
                                dl_tensor *y, dl_tensor *z) {
    const long n = dl_shape(x)[samples_along(e, x)];
    if (!finds_mixing(e, a, b, y, z, n, "the last one"))
        dlsh_passed(e, "the result for one sample stays when %ld others change, in evaluation mode", n - 1);
}

/* An input of usual size that ops without weights make almost constant, as one that is normalised twice. */
static void find_shrunk(dlsh_examination *e, const dlsh_trial *a, dl_tensor *x) {
    dlsh_stats in, out;
    if (!dl_dtype_is_float(dl_dtype_of(x)) || dlsh_stats_of(x, &in) || !(in.std > 0.1) || !(in.std < 3)) return;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if (dlsh_settled_lower(r, 0.3)) return;
    for (long i = 0; i < a->n && dlsh_is_word("to|sub|div|mul|add", a->calls[i].op); i++) {
        if (!a->result[i] || dlsh_stats_of(a->result[i], &out)) return;
        if (dl_numel(a->result[i]) != dl_numel(x)) continue; /* a number that is met */
        if (!(out.std < 0.05 * in.std) || out.std == 0) continue;
        dlsh_finding *f =
            dlsh_find_at(e, a->calls[i].file, a->calls[i].line, "normalise once: here, or where the data are made");
        if (!f) return;
        dlsh_mark_effects(e, "dead and saturated units");
        dlsh_cause(f, "%s of the net makes its input almost constant: it was scaled before", a->calls[i].op);
        dlsh_evidence(f, "the input has mean %.3g and deviation %.3g, and behind this op mean %.3g and deviation %.3g",
                      in.mean, in.std, out.mean, out.std);
        return;
    }
}

static void judge_input(dlsh_examination *e, const dlsh_trial *a, const dlsh_trial *b, dl_tensor *x, dl_tensor *y,
                        dl_tensor *z) {
    find_shrunk(e, a, x);
    if (dlsh_share_alike(y, z) == 1)
        find_ignoring(e, a, b);
    else
        dlsh_passed(e, "other samples give other results");
}

static int is_finite(const dl_tensor *t) {
    dlsh_stats s;
    return !dlsh_stats_of(t, &s) && !s.nans && !s.infs;
}

/* Ops that are for training alone, but ran in evaluation mode. */
static void judge_evaluation(dlsh_examination *e, const dlsh_trial *a, const dlsh_trial *b, dl_tensor *x, dl_tensor *y,
                             dl_tensor *z) {
    char what[200];
    (void)b, (void)x, (void)y, (void)z;
    for (long i = 0; i < a->n && !dlsh_asks_for_spread(e); i++) {
        const dl_recorded *c = &a->calls[i];
        if (!strstr(c->op, "dropout") || strstr(c->attrs, "training=false")) continue;
        dlsh_found(e, dlsh_call_file(c), dlsh_call_line(c),
                   "a layer `dropout`, which eval() switches off, in place of the op",
                   "%s drops units in evaluation mode, too: it does not know the mode of the net\n"
                   "a pass in evaluation mode ran it",
                   call_layer(c, what, sizeof what));
    }
}

dl_status dlsh_compare_passes(dlsh_examination *e, dlsh_disturb *disturb, dlsh_judge *judge) {
    /* contiguous as the other batch is: both passes make the same calls */
    DLSH_OWNED dl_tensor *x = e->probed && e->probe.nin == 1 ? dl_contiguous(e->probe.in[0]) : NULL;
    DLSH_OWNED dl_tensor *y = NULL, *z = NULL;
    if (!x || !dl_ndim(x) || dl_shape(x)[0] < 2 || is_one_sample(e, x) || dl_recording_count() || dl_recording_get())
        return DL_OK;
    DLSH_OWNED dl_tensor *other = disturb(e, x);
    if (!other || dlsh_share_alike(x, other) == 1) return dl_error_clear(), DL_OK; /* all samples are the same */
    dlsh_trial a = {0}, b = {0};
    if (e->probe.net) dl_module_train(e->probe.net, 0);
    dl_status st = dlsh_trial_run(e, x, &a, &y);
    if (!st) st = dlsh_trial_run(e, other, &b, &z);
    if (e->probe.net) dl_module_train(e->probe.net, 1);
    if (!st && is_finite(y) && is_finite(z)) judge(e, &a, &b, x, y, z);
    dlsh_trial_free(&a);
    dlsh_trial_free(&b);
    dl_error_clear();
    return DL_OK;
}

dl_status dlsh_check_mixing(dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_RESHAPED) look_at_reshape(e, r);
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        dlsh_pass p = dlsh_pass_of(r, 1);
        for (long k = p.n - 1; k >= 0; k--)
            look_at_samples(e, p, &p.at[k]), look_at_channels(e, r, p, &p.at[k]), look_at_times(e, p, &p.at[k]),
                look_at_total(e, p, &p.at[k]), look_at_rows(e, p, &p.at[k]), look_at_attention(e, p, &p.at[k]),
                dlsh_find_weights_of_sum(e, p, &p.at[k], 1);
    }
    if (e->probe.whole && !e->bad) {
        dlsh_unchecked(e, "the net runs on all its %ld rows, not on some of them, as on the nodes of a graph",
                       dl_shape(e->probe.in[0])[0]);
        return DL_OK;
    }
    /* a function may well take means of a batch, as a batch norm by hand does */
    const dl_status st = e->bad || e->probe.fn ? DL_OK : dlsh_compare_passes(e, disturbed, judge_mixing);
    return st || e->bad || e->probe.fn ? st : dlsh_compare_passes(e, disturbed_before, judge_mixing_before);
}

dl_status dlsh_look_at_evaluation(dlsh_examination *e) { return dlsh_compare_passes(e, disturbed, judge_evaluation); }

/* Does what a call gives choose among units, as a mask that is multiplied with them does? */
static int is_mask(const dlsh_trial *t, long i) {
    static const char casts[] = "to|clone|mul|div|reshape|view", masking[] = "mul|where|div|masked_fill";
    for (long j = i + 1; j < t->n; j++) {
        const char *op = t->calls[j].op;
        for (int k = 0; k < DLSH_TRIAL_OPERANDS && k < t->calls[j].nin; k++) {
            if (t->from[j][k] != i) continue;
            const long other = t->from[j][!k];
            if (dlsh_is_word(masking, op) && t->calls[j].nin > 1 && other != DLSH_TRIAL_OTHER) return 1;
            if (dlsh_is_word(casts, op) && is_mask(t, j)) return 1;
        }
    }
    return 0;
}

/* Twice over the same batch, with the next random numbers: what is chosen by chance, as by a mask of the script's own.
 */
int dlsh_find_chosen_by_chance(dlsh_examination *e, dl_source *at) {
    dlsh_trial a = {0}, b = {0};
    DLSH_OWNED dl_tensor *y = NULL, *z = NULL;
    unsigned long before[DL_RNG_STATE];
    if (!e->probed || e->probe.nin != 1 || dl_recording_count() || dl_recording_get()) return 0;
    memcpy(before, e->probe.rng, sizeof before);
    if (e->probe.net) dl_module_train(e->probe.net, 0);
    dl_status st = dlsh_trial_run(e, e->probe.in[0], &a, &y);
    dl_rng_save(e->probe.rng);
    if (!st) st = dlsh_trial_run(e, e->probe.in[0], &b, &z);
    if (e->probe.net) dl_module_train(e->probe.net, 1);
    memcpy(e->probe.rng, before, sizeof before);
    int found = 0;
    for (long i = 0; !st && !found && y && z && dlsh_share_alike(y, z) < 1 && i < a.n && i < b.n; i++) {
        const char *op = a.calls[i].op;
        found = dlsh_is_word("bernoulli|gt|ge|lt|le", op) && a.result[i] && b.result[i] &&
                dlsh_share_alike(a.result[i], b.result[i]) < 1 && is_mask(&a, i);
        if (found) *at = (dl_source){dlsh_call_file(&a.calls[i]), dlsh_call_line(&a.calls[i])};
    }
    dlsh_trial_free(&a), dlsh_trial_free(&b);
    dl_error_clear();
    return found;
}

/* ---------------------------------------------------------------- inputs that are all the same */

/* Does a node meet data, which need no gradient, with a parameter? 2: the data are one number again and again. */
static int meets_data(const dl_journal_node *n) {
    int leaf = 0, data = 0;
    DLSH_EACH_OPERAND (v, n) {
        if (!v->there) continue;
        leaf |= v->leaf && v->ndim > 0;
        if (!v->constant || !v->ndim || (v->ndim == 1 && v->shape[0] < 2)) continue;
        data = v->ndim > 1 && v->n > 1 && v->low == v->high && !v->nans && data != 1 ? 2 : 1;
    }
    return leaf ? data : 0;
}

static void look_at_data(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p) {
    const dl_journal_node *same = NULL;
    if (r->count < 3 || dlsh_was_found(e, "the data", "fractions")) return; /* tried by hand; or known why */
    for (long k = 0; k < p.n; k++) {
        int met = meets_data(&p.at[k]);
        const int input = dlsh_op_is(&p.at[k], "linear|matmul|conv2d") && p.at[k].in[0].leaf && p.at[k].in[1].leaf;
        if (met == 1 || input) return; /* an input whose gradient is asked for is data, too */
        if (met == 2) same = &p.at[k];
    }
    if (!dlsh_compares(p)) return; /* nothing of samples is asked for, as of a policy without a state */
    const dlsh_node *rebound = NULL, *zeros = same ? dlsh_zeros_given(e, same->file, same->line, &rebound) : NULL;
    dlsh_finding *f =
        rebound ? dlsh_find_at(e, same->file, rebound->span.line,
                               dlsh_kept(e, "write into it: %s[:] = ...; = alone gives the name another value",
                                         rebound->kids[0]->text))
        : same
            ? dlsh_find_at(e, same->file, zeros ? zeros->span.line : same->line, "give the net the data of this batch")
            : NULL;
    if (!f) return;
    dlsh_mark_effects(e, "parameters and optimizers");
    const dl_journal_value *x = &same->in[!same->in[0].constant];
    f->effect = dlsh_was_found(e, "names are used where they belong", "no part in the result") ||
                (x->low == 0 && !zeros && dlsh_was_found(e, "dead and saturated units", "are dead"));
    dlsh_cause(f, "the result of the net does not depend on its input, which is the same for all samples");
    dlsh_evidence(f, "all elements of the input of %s are %.4g; the loss went from %.4g to %.4g", same->op, x->low,
                  r->first, r->last);
}

dl_status dlsh_check_input_used(dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) look_at_data(e, r, dlsh_pass_of(r, 1));
    return e->bad || dlsh_was_found(e, "what the loss is given", "of size 1")
               ? DL_OK
               : dlsh_compare_passes(e, disturbed, judge_input);
}
