/* Parameters, or their gradients, as one vector: joined, written back, and its norm. */
#include <math.h>
#include <stdlib.h>

#include "commands/nets/nets.h"
#include "commands/tree.h"
#include "lang/command.h"
#include "lang/session.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"

/* Owned tensors. */
typedef struct pieces {
    dl_tensor **t;
    long n;
} pieces;

static void pieces_free(pieces *p) {
    for (long i = 0; i < p->n; i++) dl_unref(p->t[i]);
    free(p->t);
}
#define SCOPED_PIECES __attribute__((cleanup(pieces_free), unused)) pieces

/* New references to the parameters of a net, or to the tensors of a list or record. */
static dl_status take_tensors(dlsh_value v, pieces *out) {
    dl_module *m = dlsh_unwrap(v, &dlsh_net_class);
    if (m) DLSH_TRY(dl_module_check_built(m));
    dl_module_list *all = m ? dl_module_tensors(m, 1) : NULL;
    DLSH_SCOPED_LEAVES leaves = {0};
    dl_status st = m ? (all ? DL_OK : dl_failed()) : dlsh_tree_leaves(v, "parameters", &leaves);
    const long n = all ? all->n : leaves.n;
    if (!st && !(out->t = malloc((size_t)(n + 1) * sizeof *out->t))) st = dlsh_no_memory("parameters");
    for (; !st && out->n < n; out->n++) out->t[out->n] = dl_ref(all ? all->entries[out->n].tensor : leaves.t[out->n]);
    dl_module_list_free(all);
    if (!st && !n) st = dlsh_fail(DL_ERR_VALUE, NULL, "there are no parameters");
    return st;
}

/* Replaces the tensors by their elements in a row each. */
static dl_status flatten(pieces *p) {
    const long all = -1;
    for (long i = 0; i < p->n; i++) {
        dl_tensor *row = dl_reshape(p->t[i], &all, 1);
        if (!row) return dl_failed();
        dl_unref(p->t[i]);
        p->t[i] = row;
    }
    return DL_OK;
}

enum { TOGETHER = 512 }; /* tensors that are joined by one call */

/* Joins the rows, until one is left. */
static dl_status join(pieces *p) {
    while (p->n > 1) {
        long made = 0;
        for (long from = 0; from < p->n; from += TOGETHER) {
            const long n = p->n - from < TOGETHER ? p->n - from : TOGETHER;
            dl_tensor *row = dl_cat(p->t + from, (int)n, 0);
            if (!row) return dl_failed();
            for (long i = 0; i < n; i++) dl_unref(p->t[from + i]), p->t[from + i] = NULL;
            p->t[made++] = row;
        }
        p->n = made;
    }
    return DL_OK;
}

static dl_status to_vector_run(const dlsh_args *a, dlsh_value *result) {
    SCOPED_PIECES p = {0};
    DLSH_TRY(take_tensors(*dlsh_arg(a, "parameters"), &p));
    DLSH_TRY(flatten(&p));
    DLSH_TRY(join(&p));
    return dlsh_give(dlsh_tensor(dl_ref(p.t[0])), result);
}

static dl_status from_vector_run(const dlsh_args *a) {
    SCOPED_PIECES p = {0};
    dl_tensor *v = dlsh_arg_tensor(a, "vector");
    long size = 0, at = 0;
    DLSH_TRY(take_tensors(*dlsh_arg(a, "parameters"), &p));
    for (long i = 0; i < p.n; i++) size += dl_numel(p.t[i]);
    if (dl_ndim(v) != 1 || dl_numel(v) != size)
        return dlsh_arg_fail(a, "vector", DL_ERR_SHAPE, "parameters_to_vector(m) makes one",
                             "the vector has %d dimensions and %ld elements, the parameters have %ld elements",
                             dl_ndim(v), dl_numel(v), size);
    DLSH_SCOPED_GRAD_MODE(0);
    for (long i = 0; i < p.n; i++) {
        const long end = at + dl_numel(p.t[i]);
        DLSH_OWNED dl_tensor *part = dl_slice(v, 0, &at, &end, 1),
                             *shaped = part ? dl_reshape(part, dl_shape(p.t[i]), dl_ndim(p.t[i])) : NULL;
        DLSH_TRY(shaped ? dl_assign(p.t[i], shaped) : dl_failed());
        at = end;
    }
    return DL_OK;
}

/* The norm of the norms of all tensors. */
static dl_status total_norm_run(const dlsh_args *a, dlsh_value *result) {
    SCOPED_PIECES p = {0};
    const double by = dlsh_arg_float(a, "norm_type");
    double total = 0;
    if (isnan(by)) return dlsh_arg_fail(a, "norm_type", DL_ERR_VALUE, NULL, "norm_type must be a number or inf");
    DLSH_TRY(take_tensors(*dlsh_arg(a, "tensors"), &p));
    DLSH_TRY(flatten(&p));
    for (long i = 0; i < p.n; i++) {
        dl_tensor *norm = dl_vector_norm(p.t[i], by, NULL, 0, 0);
        if (!norm) return dl_failed();
        dl_unref(p.t[i]);
        p.t[i] = norm;
    }
    DLSH_TRY(flatten(&p));
    DLSH_TRY(join(&p));
    DLSH_OWNED dl_tensor *all = dl_vector_norm(p.t[0], by, NULL, 0, 0);
    DLSH_TRY(all ? dl_item_f(all, &total) : dl_failed());
    if (dlsh_arg_bool(a, "error_if_nonfinite") && !isfinite(total))
        return dlsh_arg_fail(a, "tensors", DL_ERR_VALUE, "error_if_nonfinite=false gives it", "the norm is %g", total);
    return dlsh_give(dlsh_tensor(dl_ref(all)), result);
}

#define PARAMETERS_PARAM                                                                                               \
    { "parameters", .want = "net|tensor|list|record", .doc = "a net, or parameters in a list or record" }
const dlsh_command vector_commands[] = {
    DLSH_FN_ROW("parameters_to_vector", to_vector_run, "parameters_to_vector(PARAMETERS)",
                "All elements of parameters, or of their gradients, in one vector, through which gradients flow.",
                DLSH_PARAMS(PARAMETERS_PARAM), .examples = "parameters_to_vector(m.parameters()).shape"),
    DLSH_ACT_ROW("vector_to_parameters", from_vector_run, "vector_to_parameters(VECTOR, PARAMETERS)",
                 "Writes the elements of a vector into parameters, one after another.",
                 DLSH_PARAMS({"vector", .want = "tensor", .doc = "as parameters_to_vector gives it"}, PARAMETERS_PARAM),
                 .examples = "v = parameters_to_vector(m)\nvector_to_parameters(v * 0.5, m)"),
    DLSH_FN_ROW("get_total_norm", total_norm_run, "get_total_norm(TENSORS)",
                "The norm of all elements of tensors, such as gradients, taken together.",
                DLSH_PARAMS({"tensors", .want = "net|tensor|list|record", .doc = "tensors in a list or record"}),
                DLSH_OPTIONS({"norm_type", DLSH_OPT_FLOAT, "2", .doc = "which norm; inf: the largest element"},
                             {"error_if_nonfinite", DLSH_OPT_BOOL, "false", .doc = "fail where it is NaN or infinite"}),
                .examples = "get_total_norm([ones(3), ones(2)])"),
    {0}};
