/* update_bn: running statistics of batch norms that are those of a whole data set. A copy of the net runs the batches,
 * and hooks at its batch norms look at what these get. */
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "lang/session.h"
#include "dlcore/arithmetic.h"
#include "dlcore/reduce.h"

/* A batch norm of the copy, the same layer of the net, and sums over batches of means and variances. */
typedef struct norm {
    dl_module *copy, *layer;
    dl_tensor *sum[2];
    long n;
} norm;
typedef struct norms {
    norm *all;
    long n;
    const dlsh_args *a;
    dlsh_iter it;
    dl_module *copy;
} norms;

static long count(const dl_module *m) {
    long n = !strcmp(dl_module_kind(m), "batchnorm");
    for (int i = 0; i < dl_module_count(m); i++) n += count(dl_module_at(m, i));
    return n;
}

/* Adds what a batch norm gets to the sums. */
static dl_status look(void *ctx, dl_tensor *x, DLSH_UNUSED dl_tensor **instead) {
    norm *to = ctx;
    long dims[8];
    int n = 0;
    for (int i = 0; i < dl_ndim(x); i++)
        if (i != 1) dims[n++] = i;
    DLSH_SCOPED_GRAD_MODE(0);
    for (int i = 0; i < 2; i++) {
        DLSH_OWNED dl_tensor *one = i ? dl_var(x, dims, n, 1, 0) : dl_mean(x, dims, n, 0),
                             *sum = one && to->sum[i] ? dl_add(to->sum[i], one)
                                    : one             ? dl_ref(one)
                                                      : NULL;
        if (!sum) return dl_failed();
        dl_unref(to->sum[i]);
        to->sum[i] = dl_ref(sum);
    }
    to->n++;
    return DL_OK;
}

/* The layers of both nets come in the same order; one that occurs twice is taken once. */
static dl_status hook(norms *w, dl_module *copy, dl_module *m) {
    for (int i = 0; i < dl_module_count(m); i++) DLSH_TRY(hook(w, dl_module_at(copy, i), dl_module_at(m, i)));
    if (strcmp(dl_module_kind(m), "batchnorm") != 0) return DL_OK;
    for (long i = 0; i < w->n; i++)
        if (w->all[i].layer == m) return DL_OK;
    norm *to = &w->all[w->n++];
    *to = (norm){.copy = copy, .layer = m};
    return dl_before_forward(copy, look, to, NULL);
}

/* What the net gets of a batch: the first of several. */
static dlsh_value input_of(dlsh_value batch) {
    if (batch.type == DLSH_LIST && batch.as.list->n) return batch.as.list->items[0];
    if (batch.type == DLSH_RECORD && batch.as.record->n) return batch.as.record->values[0];
    return batch;
}

static dl_status run_batches(norms *w) {
    dlsh_session *s = dlsh_arg_session(w->a);
    for (int done = 0;;) {
        DLSH_DROPPED dlsh_value batch = dlsh_void(), out = dlsh_void();
        DLSH_TRY(dlsh_iter_next(s, &w->it, &batch, &done));
        if (done) return DL_OK;
        dlsh_value x = input_of(batch);
        if (x.type != DLSH_TENSOR)
            return dlsh_arg_fail(w->a, "loader", DL_ERR_TYPE, "update_bn(loader(d.train, batch=64), m)",
                                 "a batch begins with the input of the net, a tensor, got %s", dlsh_a(x));
        DLSH_TRY(dlsh_call_net(w->copy, &(dlsh_callargs){1, &x, NULL}, NULL, &out));
    }
}

/* The means over batches become the running statistics of the net's own layers. */
static dl_status give(const norm *from) {
    static const char *const names[] = {"running_mean", "running_var"};
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_tensors(from->layer, 2);
    DLSH_OWNED dl_tensor *n = l ? dl_scalar_f((double)from->n) : NULL;
    if (!n) return dl_failed();
    for (long i = 0; i < l->n; i++)
        for (int k = 0; k < 2; k++) {
            if (!from->n || strcmp(l->entries[i].path, names[k]) != 0) continue;
            DLSH_OWNED dl_tensor *mean = dl_div(from->sum[k], n);
            DLSH_TRY(mean ? dl_assign(l->entries[i].tensor, mean) : dl_failed());
        }
    return DL_OK;
}

static dl_status update_all(norms *w, dl_module *m) {
    DLSH_SCOPED_GRAD_MODE(0);
    DLSH_TRY(hook(w, w->copy, m));
    dl_module_train(w->copy, 1);
    DLSH_TRY(run_batches(w));
    for (long i = 0; i < w->n; i++) DLSH_TRY(give(&w->all[i]));
    return DL_OK;
}

static dl_status update_bn_run(const dlsh_args *a) {
    dl_module *m = dlsh_arg_handle(a, "net", &dlsh_net_class);
    DLSH_TRY(dl_module_check_built(m));
    norms w = {.a = a};
    DLSH_TRY(dlsh_iter_begin(dlsh_arg_session(a), *dlsh_arg(a, "loader"), &w.it));
    w.copy = dl_module_copy(m);
    w.all = w.copy ? dl_memory_alloc(count(m) + 1, sizeof *w.all) : NULL;
    dl_status st = w.all ? update_all(&w, m) : dl_failed();
    dlsh_iter_end(&w.it);
    dl_module_unref(w.copy); /* before what its hooks write to */
    for (long i = 0; i < w.n; i++) dl_unref(w.all[i].sum[0]), dl_unref(w.all[i].sum[1]);
    free(w.all);
    return st;
}

const dlsh_command norms_commands[] = {
    DLSH_ACT_ROW(
        "update_bn", update_bn_run, "update_bn(LOADER, NET)",
        "Makes the running statistics of all batch norms the means over batches, as averaged weights need: those "
        "that they have belong to the weights that were trained.",
        DLSH_PARAMS({"loader", .doc = "batches, or lists and records that begin with the net's input"},
                    {"net", .want = "net", .doc = "the net"}),
        .examples = "net m { linear 4 -> batchnorm }\nx = randn(64, 3); m(x); e = m.copy()\n"
                    "e.update_parameters(m, decay=0.9)\nupdate_bn([x[:32], x[32:]], e)"),
    {0}};
