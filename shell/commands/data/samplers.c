/* Samplers: which samples an epoch of a loader or trainer has, and in what order. */
#include <stdlib.h>
#include <string.h>

#include "commands/data/data.h"
#include "lang/session.h"

static void destroy_sampler(void *self) { dl_sampler_unref(self); }
static dl_status text_sampler(void *self, struct dlsh_buf *out) {
    dlsh_buf_printf(out, "<sampler %s>", dl_sampler_kind(self));
    return DL_OK;
}
DLSH_GETTER(get_kind, dlsh_string(dl_sampler_kind(self)))

static const dlsh_field sampler_fields[] = {{"kind", "\"random\", \"weighted\", ...", get_kind, NULL}, {0}};

const dlsh_class dlsh_sampler_class = {.name = "sampler",
                                       .doc = "Which samples an epoch has, and in what order.",
                                       .destroy = destroy_sampler,
                                       .held = dlsh_held_little,
                                       .text = text_sampler,
                                       .fields = sampler_fields};

/* Numbers of a list, a range or a tensor [n]; the caller frees them. */
static dl_status numbers(const dlsh_args *a, dlsh_value v, double **out, long *n) {
    DLSH_DROPPED dlsh_value made = dlsh_void();
    dlsh_session *s = dlsh_arg_session(a);
    if (v.type == DLSH_TENSOR)
        made = dlsh_ref(v);
    else
        DLSH_TRY(dlsh_call_command(s, dlsh_find_command(s, "tensor", 6), &(dlsh_callargs){1, &v, NULL}, &made));
    dl_tensor *t = made.as.tensor;
    dl_status st = DL_OK;
    *n = dl_numel(t);
    if (dl_ndim(t) != 1)
        st = dlsh_arg_fail(a, "values", DL_ERR_SHAPE, NULL, "weights have one dimension, one a sample, not %d",
                           dl_ndim(t));
    if (st == DL_OK && !(*out = dl_memory_alloc(*n + 1, sizeof **out))) st = dl_failed();
    if (st == DL_OK && (st = dl_read_f64(t, *out)) != DL_OK) {
        free(*out);
        *out = NULL;
    }
    return st;
}

static dl_status weighted(const dlsh_args *a, const dlsh_value *v, dl_sampler **out) {
    int replacement = dlsh_given(a, "replacement") ? dlsh_arg_bool(a, "replacement") : 1;
    DLSH_FREED double *weights = NULL;
    long n = 0;
    DLSH_TRY(numbers(a, *v, &weights, &n));
    *out = dl_sampler_weighted(weights, n, dlsh_arg_int(a, "num_samples"), replacement);
    return *out ? DL_OK : dl_failed();
}

static dl_status chosen(dlsh_session *s, dlsh_value v, int shuffle, dl_sampler **out) {
    long n, *index;
    DLSH_TRY(dlsh_indices(s, v, -1, &index, &n));
    *out = dl_sampler_sequence(index, n, shuffle);
    free(index);
    return *out ? DL_OK : dl_failed();
}

static dl_status check_values(const dlsh_args *a, const char *kind, int wanted) {
    if (dlsh_given(a, "values") == wanted) return DL_OK;
    return dlsh_arg_fail(a, wanted ? "kind" : "values", DL_ERR_VALUE,
                         "sampler(\"weighted\", weights), sampler(\"sequence\", [3, 1, 2])",
                         wanted ? "a %s sampler needs its list or tensor" : "a %s sampler takes no list", kind);
}

static dl_status sampler_run(const dlsh_args *a, dlsh_value *result) {
    const char *kind = dlsh_arg_str(a, "kind");
    const dlsh_value *v = dlsh_arg(a, "values");
    int random = !strcmp(kind, "random"), stratified = !strcmp(kind, "stratified"), heavy = !strcmp(kind, "weighted");
    dl_sampler *s = NULL;
    DLSH_TRY(check_values(a, kind, !random && !stratified));
    if (!random && !heavy && (dlsh_given(a, "num_samples") || dlsh_given(a, "replacement")))
        return dlsh_arg_fail(a, dlsh_given(a, "num_samples") ? "num_samples" : "replacement", DL_ERR_VALUE, NULL,
                             "a %s sampler has neither num_samples nor replacement", kind);
    if (random) s = dl_sampler_random(dlsh_arg_int(a, "num_samples"), dlsh_arg_bool(a, "replacement"));
    if (stratified) s = dl_sampler_stratified();
    if (heavy)
        DLSH_TRY(weighted(a, v, &s));
    else if (!random && !stratified)
        DLSH_TRY(chosen(dlsh_arg_session(a), *v, !strcmp(kind, "subset"), &s));
    return s ? dlsh_give(dlsh_new_handle(&dlsh_sampler_class, s), result) : dl_failed();
}

dl_status dlsh_arg_sampler(const dlsh_args *a, dl_sampler **out) {
    const dlsh_value *v = dlsh_arg(a, "sampler");
    *out = NULL;
    if (!v || v->type == DLSH_NONE) return DL_OK;
    if (dlsh_given(a, "shuffle") && dlsh_arg_bool(a, "shuffle"))
        return dlsh_arg_fail(a, "shuffle", DL_ERR_VALUE, "a sampler decides the order: leave shuffle out",
                             "it takes shuffle or a sampler, not both");
    dl_sampler *s = dlsh_unwrap(*v, &dlsh_sampler_class);
    if (s) return *out = dl_sampler_ref(s), DL_OK;
    if (v->type == DLSH_LIST || v->type == DLSH_RANGE || v->type == DLSH_TENSOR)
        return chosen(dlsh_arg_session(a), *v, 0, out);
    int random = v->type == DLSH_STR && !strcmp(v->as.str->s, "random");
    if (!random && (v->type != DLSH_STR || strcmp(v->as.str->s, "stratified") != 0))
        return dlsh_arg_fail(a, "sampler", DL_ERR_VALUE,
                             "sampler=\"random\", \"stratified\", sampler(\"weighted\", w), or a list of numbers",
                             "this is not a sampler");
    *out = random ? dl_sampler_random(0, 0) : dl_sampler_stratified();
    return *out ? DL_OK : dl_failed();
}

const dlsh_command samplers_commands[] = {
    DLSH_FN_ROW(
        "sampler", sampler_run, "sampler(KIND, VALUES, num_samples=, replacement=)",
        "Chooses the samples of an epoch of a loader or trainer, and their order, which depends only on seed and "
        "epoch. random: all of them, or num_samples; weighted: drawn by weights, one a sample; stratified: every batch "
        "has "
        "its share of each class; sequence: the samples of a list, in its order; subset: the samples of a list, in "
        "random order.",
        DLSH_PARAMS({"kind", .want = "string", .doc = "what it goes by",
                     .complete = "random|weighted|stratified|sequence|subset"},
                    {"values", .want = "list|range|tensor", .flags = DLSH_OPTIONAL, .doc = "weights, or numbers"}),
        DLSH_OPTIONS({"num_samples", DLSH_OPT_INT, "0", .doc = "samples of an epoch (0: as many as there are)"},
                     {"replacement", DLSH_OPT_BOOL, NULL,
                      .doc = "may a sample come again in an epoch? default: of weighted ones true, else false"}),
        .examples = "l = loader(d.train, sampler=sampler(\"weighted\", w, num_samples=1000))\n"
                    "t = trainer(m, d, sampler=\"stratified\")"),
    {0}};
