/* What training loops by hand use beside optimizers: nets called with other weights. */
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "commands/record_file.h"
#include "commands/nets/scaler.h"
#include "dlcore/index.h"

/* ---------------------------------------------------------------- functional_call(NET, PARAMETERS, INPUT...) */

typedef struct named {
    const char **paths;
    dl_tensor **tensors; /* borrowed, as are the paths */
    long n;
} named;

static dl_status add_named(const dlsh_args *a, named *to, const char *path, dlsh_value v) {
    if (v.type != DLSH_TENSOR)
        return dlsh_arg_fail(a, "parameters", DL_ERR_TYPE, NULL, "%s must be a tensor, got %s", path,
                             dlsh_type_name(v));
    to->paths[to->n] = path, to->tensors[to->n++] = v.as.tensor;
    return DL_OK;
}

/* A record of tensors by path; or a list of all, in the order of m.parameters(), which `all` holds. */
static dl_status name_tensors(const dlsh_args *a, const dl_module_list *all, dlsh_value v, named *to) {
    int record = v.type == DLSH_RECORD;
    long n = record ? v.as.record->n : v.as.list->n;
    to->paths = calloc((size_t)n + 1, sizeof *to->paths);
    to->tensors = calloc((size_t)n + 1, sizeof *to->tensors);
    if (!to->paths || !to->tensors) return dlsh_no_memory("the tensors of a call");
    if (!record && n != all->n)
        return dlsh_arg_fail(a, "parameters", DL_ERR_VALUE, "a record of some by path: {\"conv0.weight\": w}",
                             "the net has %ld parameters, the list %ld", all->n, n);
    for (long i = 0; i < n; i++)
        DLSH_TRY(add_named(a, to, record ? v.as.record->keys[i] : all->entries[i].path,
                           record ? v.as.record->values[i] : v.as.list->items[i]));
    return DL_OK;
}

/* Inputs by position, then by name. */
static dl_status collect_inputs(const dlsh_args *a, dlsh_value *values, const char **names, int room, int *n) {
    const dlsh_value *v;
    *n = dlsh_arg_count(a, "inputs");
    if (*n > room) return dlsh_arg_fail(a, "inputs", DL_ERR_VALUE, NULL, "a net takes at most %d inputs", room);
    for (int i = 0; i < *n; i++) values[i] = *dlsh_arg_at(a, "inputs", i), names[i] = NULL;
    for (int i = 0; (names[*n] = dlsh_arg_extra(a, i, &v)); i++) {
        values[(*n)++] = *v;
        if (*n == room) return dlsh_arg_fail(a, "inputs", DL_ERR_VALUE, NULL, "a net takes at most %d inputs", room);
    }
    return DL_OK;
}

static dl_status functional_run(const dlsh_args *a, dlsh_value *result) {
    enum { ROOM = 32 };
    dl_module *m = dlsh_arg_handle(a, "net", &dlsh_net_class);
    dlsh_value values[ROOM + 1];
    const char *names[ROOM + 1];
    int n;
    DLSH_TRY(collect_inputs(a, values, names, ROOM, &n));
    DLSH_ENDED(dl_module_list_free) dl_module_list *all = dl_module_tensors(m, 1);
    named with = {0};
    dl_status st = all ? name_tensors(a, all, *dlsh_arg(a, "parameters"), &with) : dl_failed();
    if (st == DL_OK) {
        dlsh_stand_ins s = {with.paths, with.tensors, with.n};
        st = dlsh_call_net(m, &(dlsh_callargs){n, values, names}, &s, result);
    }
    free(with.paths);
    free(with.tensors);
    return st;
}

/* ---------------------------------------------------------------- stack_module_state(NETS) */

static dl_status stack_one(const dlsh_args *a, const dl_module_list *const *of, int n, long k, dlsh_value record) {
    DLSH_FREED dl_tensor **t = calloc((size_t)n, sizeof *t);
    const char *path = of[0]->entries[k].path;
    if (!t) return dlsh_no_memory("the tensors of nets");
    for (int i = 0; i < n; i++) {
        if (k >= of[i]->n || strcmp(of[i]->entries[k].path, path))
            return dlsh_arg_fail(a, "nets", DL_ERR_VALUE, "the nets must be of one form", "net %d has no %s", i, path);
        t[i] = of[i]->entries[k].tensor;
        if (!t[i])
            return dlsh_arg_fail(a, "nets", DL_ERR_STATE, "call the net once, or build it", "net %d has no weights yet",
                                 i);
    }
    dl_tensor *all = dl_stack(t, n, 0);
    return all ? dlsh_record_set(record.as.record, path, dlsh_tensor(all)) : dl_failed();
}

/* Of all nets what they have of a kind, stacked by path: 1 parameters, 2 buffers. */
static dl_status stack_kind(const dlsh_args *a, const dlsh_list *nets, int kind, dlsh_value *result) {
    const dl_module_list **of = calloc((size_t)nets->n, sizeof *of);
    DLSH_DROPPED dlsh_value record = dlsh_new_record();
    dl_status st = !of || dlsh_failed(record) ? dlsh_no_memory("the tensors of nets") : DL_OK;
    for (int i = 0; i < nets->n && !st; i++) {
        dl_module *m = dlsh_unwrap(nets->items[i], &dlsh_net_class);
        if (!m)
            st = dlsh_arg_fail(a, "nets", DL_ERR_TYPE, NULL, "the list holds nets, got %s", dlsh_a(nets->items[i]));
        else if (!(of[i] = dl_module_tensors(m, kind)))
            st = dl_failed();
    }
    for (long k = 0; !st && k < of[0]->n; k++) st = stack_one(a, of, nets->n, k, record);
    for (int i = 0; of && i < nets->n; i++) dl_module_list_free((dl_module_list *)of[i]);
    free(of);
    return st ? st : dlsh_hand_over(&record, result);
}

static dl_status stack_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_list *nets = dlsh_arg(a, "nets")->as.list;
    dlsh_value kinds[2] = {dlsh_void(), dlsh_void()};
    if (!nets->n) return dlsh_arg_fail(a, "nets", DL_ERR_VALUE, NULL, "there are no nets");
    DLSH_TRY(stack_kind(a, nets, 1, &kinds[0]));
    dl_status st = stack_kind(a, nets, 2, &kinds[1]);
    if (st) return dlsh_drop(kinds[0]), st;
    return dlsh_give(DLSH_LIST_OF(kinds[0], kinds[1]), result);
}

const dlsh_command loop_commands[] = {
    DLSH_FN_ROW(
        "stack_module_state", stack_run, "stack_module_state(NETS)",
        "The parameters of nets of one form, stacked along dimension 0, and their buffers: two records by path, for "
        "vmap over functional_call.",
        DLSH_PARAMS({"nets", .want = "list", .doc = "the nets"}),
        .examples = "p, b = stack_module_state(nets); vmap(fn (p, x) { return functional_call(nets[0], p, x) }, "
                    "in_dims=[0, none])(p, x)"),
    DLSH_ROW("functional_call", DLSH_ONLY_FUNCTION | DLSH_OPEN_OPTIONS, functional_run,
             "functional_call(NET, PARAMETERS, INPUT..., NAME=INPUT...)",
             "The output of a net with other tensors in place of its parameters and buffers, for this call; gradients "
             "flow into these tensors, also second derivatives.",
             DLSH_PARAMS({"net", .want = "net", .doc = "the net, which stays as it is"},
                         {"parameters", .want = "record|list",
                          .doc = "tensors by path, as m.named_parameters() gives them, all or some; or a list of all "
                                 "parameters"},
                         {"inputs", .flags = DLSH_VARIADIC, .doc = "what the net is called with"}),
             .examples = "w = m.named_parameters();\nfunctional_call(m, w, x)"),
    DLSH_FN_ROW("get_rng_state", dlsh_rng_state_run, "get_rng_state()", "The same as rng_state().",
                .examples = "r = get_rng_state(); x = rand(3); set_rng_state(r); all(rand(3) == x)"),
    DLSH_FN_ROW("rng_state", dlsh_rng_state_run, "rng_state()",
                "Seed and positions of the random streams, for set_rng_state or a checkpoint.",
                .examples = "save record(m=m, o=o, rng=rng_state()) \"loop.safetensors\""),
    DLSH_FN_ROW("set_rng_state", dlsh_set_rng_state_run, "set_rng_state(STATE)",
                "Restores the random streams: random numbers continue as they did after the rng_state() that returned "
                "the state.",
                DLSH_PARAMS({"state", .want = "rng_state", .doc = "what rng_state() gave, or a file holds"}),
                .examples = "r = rng_state()\nset_rng_state(r)"),
    DLSH_FN_ROW("grad_scaler", dlsh_grad_scaler_run, "grad_scaler(init_scale=65536, growth_factor=2, ...)",
                "Scales losses in loops written by hand under precision f16, as PyTorch's GradScaler does; a trainer "
                "scales by itself.",
                DLSH_OPTIONS({"init_scale", DLSH_OPT_FLOAT, "65536", .doc = "the factor at first"},
                             {"growth_factor", DLSH_OPT_FLOAT, "2", .doc = "it grows by this"},
                             {"backoff_factor", DLSH_OPT_FLOAT, "0.5", .doc = "it shrinks by this after an overflow"},
                             {"growth_interval", DLSH_OPT_INT, "2000", .doc = "good steps in a row before it grows"}),
                .examples = "s = grad_scaler()\nbackward s.scale(l)\ns.step(o);\ns.update()"),
    {0}};
