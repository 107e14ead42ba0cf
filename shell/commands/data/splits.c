/* Parts of datasets: random splits, folds, samples chosen by number. */
#include <stdlib.h>

#include "commands/data/data.h"
#include "lang/session.h"

static const char parts_hint[] = "random_split(d, [800, 200]), or random_split(d, [0.8, 0.2])";

/* The training split of a dataset, or the split itself. */
static dl_part part_arg(const dlsh_args *a) {
    dl_part p = {0};
    dlsh_part_of(*dlsh_arg(a, "data"), &p);
    return p;
}

static unsigned long seed_arg(const dlsh_args *a) {
    return dlsh_given(a, "seed") ? (unsigned long)dlsh_arg_int(a, "seed") : dl_seed_get();
}

/* Takes the datasets. */
static dl_status list_datasets(dl_dataset **d, long n, dlsh_value *out) {
    dlsh_value v = dlsh_new_list(n);
    dl_status st = dlsh_failed(v) ? dl_failed() : DL_OK;
    for (long i = 0; i < n; i++) {
        if (st == DL_OK)
            st = dlsh_append(v, dlsh_new_handle(&dlsh_dataset_class, d[i]));
        else
            dl_dataset_unref(d[i]);
    }
    return dlsh_give_filled(st, v, out);
}

/* Fractions become counts, rounded down; the samples that are left go to the first parts in turn. */
static dl_status counts_of(const dlsh_args *a, const dlsh_list *l, long have, long *counts) {
    double sum = 0;
    long left = have;
    for (int i = 0; i < l->n; i++) {
        dlsh_value v = l->items[i];
        if (!dlsh_is_number(v) || dlsh_number(v) < 0)
            return dlsh_arg_fail(a, "lengths", DL_ERR_TYPE, parts_hint, "part %d is %s; counts or fractions are wanted",
                                 i, dlsh_a(v));
        sum += dlsh_number(v);
    }
    int fractions = sum > 1 - 1e-6 && sum < 1 + 1e-6 && have != 1;
    for (int i = 0; i < l->n; i++) {
        dlsh_value v = l->items[i];
        if (!fractions && v.type != DLSH_INT)
            return dlsh_arg_fail(a, "lengths", DL_ERR_VALUE, parts_hint, "the fractions add up to %g and not to 1",
                                 sum);
        counts[i] = fractions ? (long)(dlsh_number(v) * (double)have + 1e-9) : v.as.i;
        left -= counts[i];
    }
    for (int i = 0; fractions && left > 0; i = (i + 1) % l->n) counts[i]++, left--;
    return DL_OK;
}

static dl_status random_split_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_list *l = dlsh_arg(a, "lengths")->as.list;
    dl_part p = part_arg(a);
    if (!l->n) return dlsh_arg_fail(a, "lengths", DL_ERR_VALUE, parts_hint, "no part is wanted");
    DLSH_FREED dl_dataset **parts = dl_memory_alloc(l->n, sizeof *parts);
    DLSH_FREED long *counts = parts ? dl_memory_alloc(l->n, sizeof *counts) : NULL;
    DLSH_TRY(counts ? counts_of(a, l, dl_dataset_len(p.data, p.split), counts) : dl_failed());
    DLSH_TRY(dl_dataset_random_split(p.data, p.split, counts, l->n, seed_arg(a), parts));
    return list_datasets(parts, l->n, result);
}

static dl_status kfold_run(const dlsh_args *a, dlsh_value *result) {
    dl_part p = part_arg(a);
    dl_fold_spec spec = {dlsh_arg_int(a, "k"), dlsh_arg_bool(a, "shuffle"), dlsh_arg_bool(a, "stratified"),
                         seed_arg(a)};
    if (spec.k < 2 || spec.k > dl_dataset_len(p.data, p.split))
        return dlsh_arg_fail(a, "k", DL_ERR_VALUE, NULL, "k=%ld folds; of %ld samples there are 2 to %ld", spec.k,
                             dl_dataset_len(p.data, p.split), dl_dataset_len(p.data, p.split));
    DLSH_FREED dl_dataset **folds = dl_memory_alloc(spec.k, sizeof *folds);
    DLSH_TRY(folds ? dl_dataset_kfold(p.data, p.split, &spec, folds) : dl_failed());
    return list_datasets(folds, spec.k, result);
}

static dl_status subset_run(const dlsh_args *a, dlsh_value *result) {
    dl_part p = part_arg(a);
    DLSH_FREED long *index = NULL;
    DLSH_TRY(dlsh_indices(dlsh_arg_session(a), *dlsh_arg(a, "indices"), dl_dataset_len(p.data, p.split), &index, &p.n));
    p.index = index;
    dl_dataset *d = dl_dataset_view(&p, NULL);
    return d ? dlsh_give(dlsh_new_handle(&dlsh_dataset_class, d), result) : dl_failed();
}

/* Data sets give both of their splits, a split its samples to train. */
static dl_status take_joined(const dlsh_args *a, dlsh_value v, dl_part *train, int *ntrain, dl_part *test, int *ntest) {
    dl_part p = {0};
    if (!dlsh_part_of(v, &p))
        return dlsh_arg_fail(a, "data", DL_ERR_TYPE, "concat_dataset([a, b])", "datasets or splits are joined, got %s",
                             dlsh_a(v));
    train[(*ntrain)++] = p;
    if (!dlsh_unwrap(v, &dlsh_dataset_class) || !dl_dataset_len(p.data, DL_TEST)) return DL_OK;
    test[(*ntest)++] = (dl_part){p.data, DL_TEST, NULL, 0};
    return DL_OK;
}

static dl_status concat_run(const dlsh_args *a, dlsh_value *result) {
    const int given = dlsh_arg_count(a, "data");
    const dlsh_value *only = given == 1 ? dlsh_arg_at(a, "data", 0) : NULL;
    const dlsh_list *l = only && only->type == DLSH_LIST ? only->as.list : NULL;
    const int n = l ? (int)l->n : given;
    DLSH_FREED dl_part *parts = dl_memory_alloc(2L * n + 1, sizeof *parts);
    int ntrain = 0, ntest = 0;
    if (!parts) return dl_failed();
    for (int i = 0; i < n; i++)
        DLSH_TRY(take_joined(a, l ? l->items[i] : *dlsh_arg_at(a, "data", i), parts, &ntrain, parts + n, &ntest));
    if (!n) return dlsh_arg_fail(a, "data", DL_ERR_VALUE, "concat_dataset([a, b])", "there is nothing to join");
    dl_dataset *d = dl_dataset_join(parts, ntrain, parts + n, ntest);
    return d ? dlsh_give(dlsh_new_handle(&dlsh_dataset_class, d), result) : dl_failed();
}

#define DATA_PARAM                                                                                                     \
    { "data", .want = "dataset|split", .doc = "a split, d.train; of a dataset the training split" }
#define SEED_OPTION                                                                                                    \
    { "seed", DLSH_OPT_INT, NULL, .doc = "which samples come where; default: the seed of the session" }

const dlsh_command splits_commands[] = {
    DLSH_FN_ROW("random_split", random_split_run, "random_split(DATA, LENGTHS, seed=)",
                "Divides samples at random into a list of datasets. Nothing is copied.",
                DLSH_PARAMS(DATA_PARAM, {"lengths", .want = "list", .doc = "samples of each part, or fractions"}),
                DLSH_OPTIONS(SEED_OPTION),
                .examples = "train, test = random_split(d, [0.8, 0.2], seed=1)\nd = dataset(train, test)"),
    DLSH_FN_ROW("kfold", kfold_run, "kfold(DATA, K, shuffle=false, stratified=false, seed=)",
                "The K datasets of a cross-validation: each has a different part of the samples as its test split and "
                "trains on the rest.",
                DLSH_PARAMS(DATA_PARAM, {"k", .want = "int", .doc = "folds"}),
                DLSH_OPTIONS({"shuffle", DLSH_OPT_BOOL, "false", .doc = "folds of random samples, not of neighbours"},
                             {"stratified", DLSH_OPT_BOOL, "false", .doc = "every fold has its share of each class"},
                             SEED_OPTION),
                .examples = "for f in kfold(d, 5, shuffle=true, stratified=true) { print(len(f.train), len(f.test)) }"),
    DLSH_FN_ROW("subset", subset_run, "subset(DATA, INDICES)",
                "The dataset of some samples, in this order. Nothing is copied.",
                DLSH_PARAMS(DATA_PARAM, {"indices", .want = "list|range|tensor", .doc = "their numbers, or a mask"}),
                .examples = "small = subset(d.train, range(100))"),
    DLSH_FN_ROW("concat_dataset", concat_run, "concat_dataset([DATA...])",
                "The dataset of the samples of several, one after the other: training splits and test splits of "
                "datasets, and of splits the samples to train. They must look alike. Nothing is copied.",
                DLSH_PARAMS({"data", .want = "dataset|split|list", .flags = DLSH_VARIADIC,
                             .doc = "datasets and splits, or a list of them"}),
                .examples = "both = concat_dataset([d, dataset(\"digits\", n=100, seed=2)])\n"
                            "more = concat_dataset(d.train, d.test)"),
    {0}};
