/* Pruning: masks by which layers multiply their weights, PyTorch's functions of torch.nn.utils.prune. */
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "dlcore/index.h"
#include "dlcore/view.h"

/* ---------------------------------------------------------------- what is pruned */

/* A tensor of a layer that is to be pruned. */
typedef struct target {
    dl_module *layer;
    const char *name;
    dl_tensor *value, *mask; /* owned: as it is computed now, and its mask so far */
} target;

static void target_free(target *t) {
    DLSH_UNREF(t->value);
    DLSH_UNREF(t->mask);
}
#define SCOPED_TARGET __attribute__((cleanup(target_free), unused)) target

/* The fields layer and name are there. */
static dl_status target_read(target *t) {
    dl_error_clear();
    t->value = dl_module_value(t->layer, t->name);
    if (!t->value) {
        if (!dl_error_last()) DLSH_TRY(dl_module_check_built(t->layer));
        return dl_error_last() ? dl_failed()
                               : dlsh_fail(DL_ERR_NAME, "m.fc is a layer, \"weight\" its tensor",
                                           "%s has no tensor '%s' to prune", dl_module_name(t->layer), t->name);
    }
    DLSH_SCOPED_BUF path = {0};
    dlsh_buf_printf(&path, "%s_mask", t->name);
    dl_tensor *own =
        dl_module_is_parametrized(t->layer, t->name, "mask") ? dl_module_tensor(t->layer, dlsh_buf_text(&path)) : NULL;
    t->mask =
        own ? dl_ref(own)
            : dl_tensor_full(dl_ndim(t->value), dl_shape(t->value), dl_dtype_of(t->value), dl_device_of(t->value), 1);
    return t->mask ? DL_OK : dl_failed();
}

static dl_status target_of(const dlsh_args *a, target *t) {
    *t = (target){dlsh_arg_handle(a, "layer", &dlsh_net_class), dlsh_arg_str(a, "name"), NULL, NULL};
    return target_read(t);
}

static dl_status give_layer(const dlsh_args *a, dlsh_value *result) {
    *result = dlsh_ref(*dlsh_arg(a, "layer"));
    return DL_OK;
}

/* ---------------------------------------------------------------- one tensor */

/* How elements or slices are chosen. */
typedef struct choice {
    int random, slices;
} choice;

/* n of ln_structured: a number, or "fro". */
static dl_status norm_of(const dlsh_args *a, double *p) {
    const dlsh_value n = *dlsh_arg(a, "n");
    *p = 2;
    if (dlsh_is_number(n)) *p = dlsh_number(n);
    if (dlsh_is_number(n) || (n.type == DLSH_STR && !strcmp(n.as.str->s, "fro"))) return DL_OK;
    return dlsh_arg_fail(a, "n", DL_ERR_VALUE, "n=1, n=2, n=inf", "n is the p of a norm, a number or \"fro\", got %s",
                         dlsh_a(n));
}

static dl_status prune_run(const dlsh_args *a, dlsh_value *result) {
    const choice *c = dlsh_arg_data(a);
    const dlsh_value amount = *dlsh_arg(a, "amount");
    SCOPED_TARGET t;
    double p = 2;
    t = (target){0};
    DLSH_TRY(target_of(a, &t));
    if (c->slices && !c->random) DLSH_TRY(norm_of(a, &p));
    const long dim = c->slices ? dlsh_arg_int(a, "dim") : 0;
    dl_tensor *scores = c->random                            ? NULL
                        : dlsh_given(a, "importance_scores") ? dlsh_arg_tensor(a, "importance_scores")
                                                             : t.value;
    DLSH_OWNED dl_tensor *mask =
        dl_prune(t.mask, scores, dlsh_number(amount), amount.type == DLSH_INT, c->slices ? &dim : NULL, p);
    DLSH_TRY(mask ? dl_module_mask(t.layer, t.name, mask) : dl_failed());
    return give_layer(a, result);
}

static dl_status custom_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_TRY(dl_module_mask(dlsh_arg_handle(a, "layer", &dlsh_net_class), dlsh_arg_str(a, "name"),
                            dlsh_arg_tensor(a, "mask")));
    return give_layer(a, result);
}

static dl_status identity_run(const dlsh_args *a, dlsh_value *result) {
    SCOPED_TARGET t = {0};
    DLSH_TRY(target_of(a, &t));
    DLSH_TRY(dl_module_mask(t.layer, t.name, t.mask));
    return give_layer(a, result);
}

static dl_status remove_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_TRY(dl_module_unparametrize(dlsh_arg_handle(a, "layer", &dlsh_net_class), dlsh_arg_str(a, "name"), "mask", 1));
    return give_layer(a, result);
}

static int is_pruned(dl_module *m) {
    int pruned = dl_module_is_parametrized(m, NULL, "mask");
    for (int i = 0; !pruned && i < dl_module_count(m); i++) pruned = is_pruned(dl_module_at(m, i));
    return pruned;
}

static dl_status is_pruned_run(const dlsh_args *a, dlsh_value *result) {
    *result = dlsh_bool(is_pruned(dlsh_arg_handle(a, "layer", &dlsh_net_class)));
    return DL_OK;
}

/* ---------------------------------------------------------------- several at once */

typedef struct targets {
    target *t;
    int n;
} targets;

static void targets_free(targets *all) {
    for (int i = 0; i < all->n; i++) target_free(&all->t[i]);
    free(all->t);
}
#define SCOPED_TARGETS __attribute__((cleanup(targets_free), unused)) targets

static dl_status pair_error(const dlsh_args *a) {
    return dlsh_arg_fail(a, "parameters", DL_ERR_TYPE, "[[m.fc, \"weight\"], [m.head, \"weight\"]]",
                         "parameters are pairs of a layer and the name of its tensor");
}

static dl_status targets_of(const dlsh_args *a, targets *all) {
    const dlsh_list *l = dlsh_arg(a, "parameters")->as.list;
    all->t = calloc((size_t)l->n + 1, sizeof *all->t);
    if (!all->t) return dlsh_no_memory("a list of parameters");
    for (int i = 0; i < l->n; i++) {
        const dlsh_list *pair = l->items[i].type == DLSH_LIST ? l->items[i].as.list : NULL;
        if (!pair || pair->n != 2 || pair->items[1].type != DLSH_STR) return pair_error(a);
        dl_module *m = dlsh_unwrap(pair->items[0], &dlsh_net_class);
        if (!m) return pair_error(a);
        all->t[all->n++] = (target){m, pair->items[1].as.str->s, NULL, NULL};
        DLSH_TRY(target_read(&all->t[i]));
    }
    return l->n ? DL_OK : pair_error(a);
}

/* Tensors as one row. */
static dl_tensor *joined(dl_tensor **t, int n) {
    dl_tensor *flat[n], *out = NULL;
    const long all = -1;
    int made = 0;
    while (made < n && (flat[made] = dl_reshape(t[made], &all, 1))) made++;
    if (made == n) out = dl_cat(flat, n, 0);
    for (int i = 0; i < made; i++) dl_unref(flat[i]);
    return out;
}

/* The scores of each, given or its values. */
static dl_status scores_of(const dlsh_args *a, const targets *all, dl_tensor **t) {
    const dlsh_value *given = dlsh_given(a, "importance_scores") ? dlsh_arg(a, "importance_scores") : NULL;
    const dlsh_list *l = given ? given->as.list : NULL;
    if (l && l->n != all->n)
        return dlsh_arg_fail(a, "importance_scores", DL_ERR_VALUE, "none in a place stands for the values themselves",
                             "%d scores for %d parameters", l->n, all->n);
    for (int i = 0; i < all->n; i++) {
        t[i] = l && l->items[i].type == DLSH_TENSOR ? l->items[i].as.tensor : all->t[i].value;
        if (dl_numel(t[i]) != dl_numel(all->t[i].value))
            return dlsh_arg_fail(a, "importance_scores", DL_ERR_SHAPE, NULL, "scores have the shape of the parameter");
    }
    return DL_OK;
}

/* Each gets its part of a mask for all. */
static dl_status hand_out(const targets *all, dl_tensor *mask) {
    long at = 0;
    for (int i = 0; i < all->n; i++) {
        const target *t = &all->t[i];
        const long n = dl_numel(t->value);
        DLSH_OWNED dl_tensor *part = dl_narrow(mask, 0, at, n),
                             *own = part ? dl_reshape(part, dl_shape(t->value), dl_ndim(t->value)) : NULL;
        DLSH_TRY(own ? dl_module_mask(t->layer, t->name, own) : dl_failed());
        at += n;
    }
    return DL_OK;
}

/* Is the method that of random elements? */
static dl_status is_random(const dlsh_args *a, int *random) {
    const dlsh_value v = *dlsh_arg(a, "pruning_method");
    const char *name = v.type == DLSH_STR ? v.as.str->s : dlsh_callable(v) ? dlsh_function_name(v) : NULL;
    *random = name && !strcmp(name, "random_unstructured");
    if (*random || (name && !strcmp(name, "l1_unstructured"))) return DL_OK;
    return dlsh_arg_fail(a, "pruning_method", DL_ERR_VALUE, "pruning_method=l1_unstructured",
                         "elements of several tensors are pruned by l1_unstructured or random_unstructured");
}

static dl_status global_run(const dlsh_args *a) {
    SCOPED_TARGETS all = {0};
    int random;
    DLSH_TRY(is_random(a, &random));
    DLSH_TRY(targets_of(a, &all));
    const dlsh_value amount = *dlsh_arg(a, "amount");
    dl_tensor *scores[all.n], *masks[all.n];
    DLSH_TRY(scores_of(a, &all, scores));
    for (int i = 0; i < all.n; i++) masks[i] = all.t[i].mask;
    DLSH_SCOPED_GRAD_MODE(0);
    DLSH_OWNED dl_tensor *mask = joined(masks, all.n), *score = mask ? joined(scores, all.n) : NULL,
                         *more = score ? dl_prune(mask, random ? NULL : score, dlsh_number(amount),
                                                  amount.type == DLSH_INT, NULL, 1)
                                       : NULL;
    return more ? hand_out(&all, more) : dl_failed();
}

/* ---------------------------------------------------------------- the rows */

#define TARGET                                                                                                         \
    {"layer", .want = "net", .doc = "a layer with weights, or a net that holds the tensor itself"}, {                  \
        "name", .want = "string", .doc = "its tensor: \"weight\""                                                      \
    }
#define AMOUNT                                                                                                         \
    { "amount", .want = "float", .doc = "share of what is not pruned yet (0.3), or how many (3)" }
#define DIM                                                                                                            \
    { "dim", .want = "int", .doc = "dimension of the slices" }
#define SCORES                                                                                                         \
    {                                                                                                                  \
        "importance_scores", DLSH_OPT_VALUE, .want = "tensor|none",                                                    \
                                             .doc = "of the shape of the tensor, instead of its values"                \
    }
#define MASKED " The layer then multiplies name_orig, which is trained, by name_mask, a buffer, whenever it runs."
#define A_NET "net m { fc: linear 4 -> relu }\nm(randn(2, 3));\n"

const dlsh_command prune_commands[] = {
    DLSH_ACT_ROW("random_unstructured", prune_run, "random_unstructured(LAYER, NAME, AMOUNT)",
                 "Prunes elements of a tensor at random." MASKED, DLSH_PARAMS(TARGET, AMOUNT),
                 .data = &(const choice){1, 0},
                 .examples = A_NET "prune.random_unstructured(m.fc, \"weight\", amount=0.5)\nm.fc.weight_mask"),
    DLSH_ACT_ROW("l1_unstructured", prune_run, "l1_unstructured(LAYER, NAME, AMOUNT)",
                 "Prunes the elements of a tensor with the smallest absolute values." MASKED,
                 DLSH_PARAMS(TARGET, AMOUNT), DLSH_OPTIONS(SCORES), .data = &(const choice){0, 0},
                 .examples = A_NET "prune.l1_unstructured(m.fc, \"weight\", amount=0.3)\nm.fc.weight\n"
                                   "keys(m.state())"),
    DLSH_ACT_ROW("random_structured", prune_run, "random_structured(LAYER, NAME, AMOUNT, DIM)",
                 "Prunes whole slices of a tensor along a dimension at random." MASKED,
                 DLSH_PARAMS(TARGET, AMOUNT, DIM), .data = &(const choice){1, 1},
                 .examples = A_NET "prune.random_structured(m.fc, \"weight\", amount=1, dim=0)"),
    DLSH_ACT_ROW("ln_structured", prune_run, "ln_structured(LAYER, NAME, AMOUNT, N, DIM)",
                 "Prunes whole slices of a tensor along a dimension, those with the smallest n-norms." MASKED,
                 DLSH_PARAMS(TARGET, AMOUNT, {"n", .doc = "the p of the norm: 1, 2, inf, \"fro\""}, DIM),
                 DLSH_OPTIONS(SCORES), .data = &(const choice){0, 1},
                 .examples = A_NET "prune.ln_structured(m.fc, \"weight\", amount=0.5, n=2, dim=0)\n"
                                   "m.fc.weight_mask.sum(dim=1)"),
    DLSH_ACT_ROW(
        "global_unstructured", global_run, "global_unstructured(PARAMETERS, METHOD, amount=)",
        "Prunes elements of several tensors, compared with one another.",
        DLSH_PARAMS({"parameters", .want = "list", .doc = "pairs: [[m.fc, \"weight\"], ...]"},
                    {"pruning_method", .doc = "l1_unstructured or random_unstructured"}),
        DLSH_OPTIONS(
            {"amount", DLSH_OPT_FLOAT, "0.5", .doc = "share of all that is not pruned yet, or how many"},
            {"importance_scores", DLSH_OPT_VALUE, .want = "list|none", .doc = "a tensor or none for each pair"}),
        .examples = "net m { fc: linear 4 -> relu; head: linear 2 }\nm(randn(2, 3));\n"
                    "prune.global_unstructured([[m.fc, \"weight\"], [m.head, \"weight\"]], "
                    "prune.l1_unstructured, amount=0.2)"),
    DLSH_ACT_ROW("custom_from_mask", custom_run, "custom_from_mask(LAYER, NAME, MASK)",
                 "Prunes a tensor where a mask is 0." MASKED,
                 DLSH_PARAMS(TARGET, {"mask", .want = "tensor", .doc = "of its shape: 1 where it is kept"}),
                 .examples = A_NET "prune.custom_from_mask(m.fc, \"bias\", tensor([1, 0, 1, 1]))\nm.fc.bias"),
    DLSH_ACT_ROW("prune_identity", identity_run, "prune_identity(LAYER, NAME)",
                 "Gives a tensor a mask that prunes nothing yet; also written prune.identity.", DLSH_PARAMS(TARGET),
                 .examples = A_NET "prune.identity(m.fc, \"weight\")\nis_pruned(m)"),
    DLSH_ACT_ROW("prune_remove", remove_run, "prune_remove(LAYER, NAME)",
                 "Makes pruning permanent: the tensor is a parameter again, 0 where its mask was 0; also written "
                 "prune.remove.",
                 DLSH_PARAMS(TARGET),
                 .examples = A_NET "prune.l1_unstructured(m.fc, \"weight\", amount=0.3);\n"
                                   "prune.remove(m.fc, \"weight\")\nkeys(m.state())"),
    DLSH_FN_ROW("is_pruned", is_pruned_run, "is_pruned(NET)", "Has a tensor of a net, or of a layer in it, a mask?",
                DLSH_PARAMS({"layer", .want = "net", .doc = "a net or layer"}), .examples = A_NET "prune.is_pruned(m)"),
    {0}};
