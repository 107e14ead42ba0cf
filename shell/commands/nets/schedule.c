/* Schedules of the learning rate: schedule(KIND, ...), and scheduler(OPTIMIZER, ...), which sets the rates step by
 * step. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"

static void destroy_schedule(void *self) { dl_schedule_unref(self); }

static dl_status text_schedule(void *self, dlsh_buf *out) {
    dlsh_buf_printf(out, "<schedule %s>", dl_schedule_text(self));
    return DL_OK;
}

/* s(step): the rate for a base rate of 1, to look at a schedule or plot it. */
static dl_status call_schedule(dlsh_session *s, void *self, const dlsh_callargs *args, dlsh_value *out) {
    (void)s;
    if (args->n < 1 || args->n > 2 || args->values[0].type != DLSH_INT)
        return dlsh_fail(DL_ERR_VALUE, "s(100), s(100, 0.1)",
                         "a schedule is called with a step, and a base rate or none");
    double lr, base = args->n > 1 && dlsh_is_number(args->values[1]) ? dlsh_number(args->values[1]) : 1;
    DLSH_TRY(dl_schedule_lr(self, base, args->values[0].as.i, args->values[0].as.i, &lr));
    *out = dlsh_float(lr);
    return DL_OK;
}

static dl_status report_run(const dlsh_args *a) {
    dl_schedule_report(dlsh_arg_self(a), dlsh_arg_float(a, "metric"));
    return DL_OK;
}

static const dlsh_command schedule_methods[] = {
    DLSH_FN_ROW("report", report_run, "s.report(METRIC)",
                "Gives a plateau schedule the value that it watches, after each epoch of a loop written by hand.",
                DLSH_PARAMS({"metric", .want = "float", .doc = "such as the test loss"}),
                .examples = "s = schedule(\"plateau\", factor=0.5, patience=2)\ns.report(0.3)\no.lr = s(0, 0.1)"),
    {0}};

const dlsh_class dlsh_schedule_class = {.name = "schedule",
                                        .doc = "The learning rate as a function of the step; called with a step and a "
                                               "base rate (1) it gives the rate.",
                                        .destroy = destroy_schedule,
                                        .held = dlsh_held_little,
                                        .text = text_schedule,
                                        .methods = schedule_methods,
                                        .call = call_schedule};

enum { MAX_PARTS = 16 };

/* The schedules of a list, as a first value; 0: it is another value. */
static dl_status find_parts(const dlsh_args *a, dl_schedule **part, int *n) {
    const dlsh_value *v = dlsh_arg_count(a, "values") ? dlsh_arg_at(a, "values", 0) : NULL;
    if (!v || v->type != DLSH_LIST || !v->as.list->n || !dlsh_unwrap(v->as.list->items[0], &dlsh_schedule_class))
        return DL_OK;
    if (v->as.list->n > MAX_PARTS)
        return dlsh_arg_fail(a, "values", DL_ERR_VALUE, NULL, "a schedule is made of at most %d", MAX_PARTS);
    for (; *n < v->as.list->n; ++*n)
        if (!(part[*n] = dlsh_unwrap(v->as.list->items[*n], &dlsh_schedule_class)))
            return dlsh_arg_fail(a, "values", DL_ERR_TYPE, "schedule(\"cosine\", 100) is one",
                                 "item %d of the list is not a schedule but %s", *n,
                                 dlsh_type_name(v->as.list->items[*n]));
    return DL_OK;
}

/* ---------------------------------------------------------------- of a function */

typedef struct factors {
    dlsh_callback *each;
    int product; /* of the function's values up to a step, not its value there */
    long at;     /* the step that `so_far` is of */
    double so_far;
} factors;

static void free_factors(void *ctx) {
    factors *f = ctx;
    dlsh_callback_free(f->each);
    free(f);
}

static dl_status factor_at(const factors *f, long step, double *factor) {
    DLSH_DROPPED dlsh_value out = dlsh_void();
    dlsh_value at = dlsh_int(step);
    DLSH_TRY(dlsh_call(f->each->session, f->each->fn, &(dlsh_callargs){1, &at, NULL}, &out));
    if (dlsh_is_number(out)) return *factor = dlsh_number(out), DL_OK;
    if (out.type == DLSH_TENSOR) return dl_item_f(out.as.tensor, factor);
    return dlsh_fail(DL_ERR_TYPE, "schedule(\"lambda\", fn (i) { return 0.95 ** i })",
                     "the function of a schedule must return a number, got %s", dlsh_type_name(out));
}

/* A dl_schedule_fn: *lr is the base rate at first. */
static dl_status by_factors(void *ctx, long step, double *lr) {
    factors *f = ctx;
    double factor = 1;
    if (!f->product) {
        DLSH_TRY(factor_at(f, step, &factor));
        return *lr *= factor, DL_OK;
    }
    if (step < f->at) f->at = 0, f->so_far = 1;
    for (; f->at < step; f->at++) {
        DLSH_TRY(factor_at(f, f->at + 1, &factor));
        f->so_far *= factor;
    }
    return *lr *= f->so_far, DL_OK;
}

/* Words separated by |. */
static const char *const of_functions[] = {"lambda|lambdalr|LambdaLR",
                                           "multiplicative|multiplicativelr|MultiplicativeLR"};

static dl_schedule *of_function(const dlsh_args *a, int product) {
    const dlsh_value *v = dlsh_arg_count(a, "values") == 1 ? dlsh_arg_at(a, "values", 0) : NULL;
    if (!v || !dlsh_callable(*v) || dlsh_arg_extra(a, 0, NULL)) {
        dlsh_arg_fail(a, NULL, DL_ERR_TYPE, "schedule(\"lambda\", fn (i) { return 0.95 ** i })",
                      "schedule %s takes one function", product ? "multiplicative" : "lambda");
        return NULL;
    }
    factors *f = malloc(sizeof *f);
    if (!f) return dlsh_no_memory("a schedule"), NULL;
    *f = (factors){.each = dlsh_callback_new(dlsh_arg_session(a), *v), .product = product, .so_far = 1};
    if (!f->each) return free(f), NULL;
    return dl_schedule_function(by_factors, f, free_factors);
}

/* ---------------------------------------------------------------- cycles whose height is a function */

typedef struct cycles {
    factors f;             /* of the cycle, from 1, or of the step */
    dl_schedule *triangle; /* cycles of one height */
    double length;         /* steps of a cycle; 0: the function is one of the step */
} cycles;

static void free_cycles(void *ctx) {
    cycles *c = ctx;
    dlsh_callback_free(c->f.each);
    dl_schedule_unref(c->triangle);
    free(c);
}

/* A dl_schedule_fn, as CyclicLR of PyTorch computes it. */
static dl_status by_cycles(void *ctx, long step, double *lr) {
    const cycles *c = ctx;
    double least = 0, at = 0, height = 1;
    DLSH_TRY(dl_schedule_lr(c->triangle, *lr, 0, 0, &least));
    DLSH_TRY(dl_schedule_lr(c->triangle, *lr, step, step, &at));
    DLSH_TRY(factor_at(&c->f, c->length > 0 ? (long)floor(1 + (double)step / c->length) : step, &height));
    return *lr = least + (at - least) * height, DL_OK;
}

/* An option of the call that the table of schedules does not have; NULL: it is not given. */
static const dlsh_value *extra_of(const dlsh_args *a, const char *name) {
    const dlsh_value *v;
    const char *given;
    for (int i = 0; (given = dlsh_arg_extra(a, i, &v)); i++)
        if (!strcmp(given, name)) return v;
    return NULL;
}

/* Steps of a cycle by the options of a schedule that exists. */
static double cycle_length(const dl_arg *args, int n) {
    double up = 2000, down = 0;
    int place = 0;
    for (int i = 0; i < n; i++) {
        const int second = !args[i].name && place++ == 1;
        if (second || (args[i].name && !strcmp(args[i].name, "step_size_up"))) up = (double)args[i].i;
        if (args[i].name && !strcmp(args[i].name, "step_size_down")) down = (double)args[i].i;
    }
    return up + (down > 0 ? down : up);
}

static dl_schedule *of_cycles(const dlsh_args *a, const char *kind, dl_arg *args, int n) {
    const dlsh_value *fn = extra_of(a, "scale_fn"), *mode = extra_of(a, "scale_mode"),
                     *cycled = extra_of(a, "cycle_momentum");
    const int by_step = mode && mode->type == DLSH_STR && !strcmp(mode->as.str->s, "iterations");
    if (!dlsh_callable(*fn) || (mode && !by_step && (mode->type != DLSH_STR || strcmp(mode->as.str->s, "cycle") != 0)))
        return dlsh_arg_fail(a, NULL, DL_ERR_TYPE,
                             "scale_fn=fn (x) { return 0.5 ** (x - 1) }, scale_mode=\"cycle\" or \"iterations\"",
                             "scale_fn is a function of the number of the cycle, or of the step"),
               NULL;
    if (!cycled || cycled->type != DLSH_BOOL || cycled->as.b)
        return dlsh_arg_fail(a, NULL, DL_ERR_UNSUPPORTED, "add cycle_momentum=false",
                             "with scale_fn the rate is moved, and the momentum is not"),
               NULL;
    cycles *c = malloc(sizeof *c);
    if (!c) return dlsh_no_memory("a schedule"), NULL;
    *c = (cycles){.f = {.each = dlsh_callback_new(dlsh_arg_session(a), *fn), .so_far = 1},
                  .triangle = dl_schedule_of(kind, NULL, 0, args, n, NULL),
                  .length = by_step ? 0 : cycle_length(args, n)};
    if (!c->f.each || !c->triangle) return free_cycles(c), NULL;
    return dl_schedule_function(by_cycles, c, free_cycles);
}

/* Options with names, without those of a function; 1 in *scaled where there is one. */
static dl_status read_options(const dlsh_args *a, dl_arg *args, dlsh_arg_room *room, int *n, int *scaled) {
    const dlsh_value *v;
    const char *name;
    *scaled = extra_of(a, "scale_fn") != NULL;
    for (int i = 0; (name = dlsh_arg_extra(a, i, &v)); i++) {
        if (*scaled && (!strcmp(name, "scale_fn") || !strcmp(name, "scale_mode"))) continue;
        if (*n == DLSH_ARG_ROOM) return dlsh_fail(DL_ERR_VALUE, NULL, "too many options");
        DLSH_TRY(dlsh_to_arg(name, *v, &room[*n], &args[*n]));
        ++*n;
    }
    return DL_OK;
}

static int is_cyclic(const char *kind) {
    return !strcmp(kind, "cyclic") || !strcmp(kind, "cycliclr") || !strcmp(kind, "CyclicLR");
}

/* "cosine 1000", the kind and its options in one text. */
static dl_schedule *of_text(const dlsh_args *a, const char *text) {
    if (!dlsh_arg_count(a, "values") && !dlsh_arg_extra(a, 0, NULL)) return dl_schedule_parse(text);
    return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, "schedule(\"cosine\", 1000, warmup=50)",
                         "options stand in the text, or behind the kind, not in both places"),
           NULL;
}

/* The schedule of that kind, made of the call's values and options; NULL: a recorded failure. */
static dl_schedule *make_schedule(const dlsh_args *a, const char *kind) {
    int scaled = 0;
    dl_arg args[DLSH_ARG_ROOM];
    dlsh_arg_room room[DLSH_ARG_ROOM];
    dl_schedule *part[MAX_PARTS];
    int n = 0, parts = 0;
    if (strpbrk(kind, " (")) return of_text(a, kind);
    for (int i = 0; i < 2; i++)
        if (dlsh_has_word(of_functions[i], kind, strlen(kind))) return of_function(a, i);
    if (find_parts(a, part, &parts)) return NULL;
    for (int i = parts > 0; i < dlsh_arg_count(a, "values") && n < DLSH_ARG_ROOM; i++, n++)
        if (dlsh_to_arg(NULL, *dlsh_arg_at(a, "values", i), &room[n], &args[n])) return NULL;
    if (read_options(a, args, room, &n, &scaled)) return NULL;
    if (scaled && is_cyclic(kind)) return of_cycles(a, kind, args, n);
    if (scaled)
        return dlsh_arg_fail(a, NULL, DL_ERR_NAME, "it belongs to schedule(\"cyclic\", ...)",
                             "schedule %s has no option 'scale_fn'", kind),
               NULL;
    return dl_schedule_of(kind, part, parts, args, n, NULL);
}

static dl_status schedule_run(const dlsh_args *a, dlsh_value *result) {
    dl_schedule *s = make_schedule(a, dlsh_arg_str(a, "kind"));
    return dlsh_give(s ? dlsh_new_handle(&dlsh_schedule_class, s) : dlsh_void(), result);
}

/* ---------------------------------------------------------------- scheduler(OPTIMIZER, SCHEDULE) */

enum { RATE = 0 }; /* the number of the option lr of an optimizer */

typedef struct scheduler {
    dl_optimizer *o;
    dl_schedule *s;
    double *base; /* the rates of the groups before it began */
    int groups;
    long step;
} scheduler;

static void destroy_scheduler(void *self) {
    scheduler *c = self;
    dl_optimizer_unref(c->o);
    dl_schedule_unref(c->s);
    free(c->base);
    free(c);
}

static dl_status text_scheduler(void *self, dlsh_buf *out) {
    const scheduler *c = self;
    dlsh_buf_printf(out, "<scheduler %s of %s, step %ld>", dl_schedule_text(c->s), dl_optimizer_kind(c->o), c->step);
    return DL_OK;
}

static dl_status rate_of(const scheduler *c, int group, double *lr) {
    dl_arg a;
    DLSH_TRY(dl_optimizer_group_get(c->o, group, RATE, &a));
    *lr = a.f;
    return DL_OK;
}

/* Takes the rates of groups that it does not know yet as their base. */
static dl_status find_groups(scheduler *c) {
    const int n = dl_optimizer_groups(c->o);
    double *base = n > c->groups ? realloc(c->base, (size_t)n * sizeof *base) : c->base;
    if (!base) return dlsh_no_memory("the rates of an optimizer");
    c->base = base;
    for (; c->groups < n; c->groups++) DLSH_TRY(rate_of(c, c->groups, &base[c->groups]));
    return DL_OK;
}

/* The momentum of a group, or the first of its betas. */
static dl_status set_momentum(const scheduler *c, int group, double momentum) {
    const dl_kind_row *k = dlsh_optimizer_kind(c->o);
    for (int i = 0; k->options[i].name; i++) {
        const int betas = !strcmp(k->options[i].name, "betas");
        dl_arg a;
        if (!betas && strcmp(k->options[i].name, "momentum") != 0) continue;
        DLSH_TRY(dl_optimizer_group_get(c->o, group, i, &a));
        const double pair[2] = {momentum, betas ? a.fv[1] : 0};
        a.name = k->options[i].name;
        if (betas)
            a.fv = pair;
        else
            a.f = momentum;
        return dl_optimizer_group_set(c->o, group, &a);
    }
    return dlsh_fail(DL_ERR_VALUE, "cycle_momentum=false", "%s has neither momentum nor betas to cycle", k->name);
}

/* Each group has the rate that the schedule makes of its own base. */
static dl_status set_rates(scheduler *c) {
    const double momentum = dl_schedule_momentum(c->s, c->step, c->step);
    double lr;
    DLSH_TRY(find_groups(c));
    for (int i = 0; i < c->groups && !isnan(momentum); i++) DLSH_TRY(set_momentum(c, i, momentum));
    for (int i = 0; i < c->groups; i++) {
        DLSH_TRY(dl_schedule_lr(c->s, c->base[i], c->step, c->step, &lr));
        const dl_arg a = {.name = "lr", .kind = DL_ARG_FLOAT, .f = lr};
        DLSH_TRY(c->groups == 1 ? dl_optimizer_set_lr(c->o, lr) : dl_optimizer_group_set(c->o, i, &a));
    }
    return DL_OK;
}

static dl_status step_run(const dlsh_args *a) {
    scheduler *c = dlsh_arg_self(a);
    if (dlsh_given(a, "metric")) {
        const dlsh_value *v = dlsh_arg(a, "metric");
        double metric = 0;
        DLSH_TRY(v->type == DLSH_TENSOR ? dl_item_f(v->as.tensor, &metric) : DL_OK);
        dl_schedule_report(c->s, v->type == DLSH_TENSOR ? metric : dlsh_number(*v));
    }
    c->step++;
    return set_rates(c);
}

/* Of the groups that have parameters, as o.param_groups lists them; the rates of data: the bases. */
static dlsh_value rates(const scheduler *c, int bases) {
    DLSH_DROPPED dlsh_value l = dlsh_new_list(c->groups);
    dlsh_value out = dlsh_void();
    const int empty = !dl_optimizer_param(c->o, 0, NULL);
    for (int g = 0; g < c->groups && !dlsh_failed(l); g++) {
        double lr = c->base[g];
        int used = empty;
        for (long i = 0; !used && dl_optimizer_param(c->o, i, NULL); i++) used = dl_optimizer_group_of(c->o, i) == g;
        if (used && ((!bases && rate_of(c, g, &lr)) || dlsh_append(l, dlsh_float(lr)))) return dlsh_void();
    }
    return dlsh_hand_over(&l, &out) ? dlsh_void() : out;
}

static dl_status last_run(const dlsh_args *a, dlsh_value *result) {
    return dlsh_give(rates(dlsh_arg_self(a), 0), result);
}

DLSH_GETTER(get_step, dlsh_int(((scheduler *)self)->step))
DLSH_GETTER(get_bases, rates(self, 1))
static const dlsh_field scheduler_fields[] = {{"last_epoch", "steps done", get_step, NULL},
                                              {"base_lrs", "rates of the groups without it", get_bases, NULL},
                                              {NULL, NULL, NULL, NULL}};

static dl_status scheduler_state_run(const dlsh_args *a, dlsh_value *result) {
    const scheduler *c = dlsh_arg_self(a);
    double state[DL_SCHEDULE_STATE];
    dlsh_value v[DL_SCHEDULE_STATE];
    DLSH_DROPPED dlsh_value bases = dlsh_new_list(c->groups);
    dl_schedule_get_state(c->s, state);
    for (int i = 0; i < DL_SCHEDULE_STATE; i++) v[i] = isnan(state[i]) ? dlsh_none() : dlsh_float(state[i]);
    for (int i = 0; i < c->groups; i++) DLSH_TRY(dlsh_append(bases, dlsh_float(c->base[i])));
    return dlsh_give(DLSH_RECORD_OF({"last_epoch", dlsh_int(c->step)}, {"base_lrs", dlsh_ref(bases)},
                                    {"schedule", dlsh_list_of(v, DL_SCHEDULE_STATE)}),
                     result);
}

/* n numbers of a field of the state; none stands for NaN. */
static dl_status read_numbers(const dlsh_args *a, const char *name, int n, double *out) {
    const dlsh_value *v = dlsh_record_get(dlsh_arg(a, "state")->as.record, name);
    int good = v && v->type == DLSH_LIST && v->as.list->n == n;
    for (int i = 0; good && i < n; i++) {
        const dlsh_value x = v->as.list->items[i];
        good = dlsh_is_number(x) || x.type == DLSH_NONE;
        out[i] = dlsh_is_number(x) ? dlsh_number(x) : NAN;
    }
    if (good) return DL_OK;
    return dlsh_arg_fail(a, "state", DL_ERR_VALUE, "make it with the same optimizer and schedule",
                         "it is no state of this scheduler: %s should be a list of %d numbers", name, n);
}

static dl_status load_scheduler_run(const dlsh_args *a) {
    scheduler *c = dlsh_arg_self(a);
    double state[DL_SCHEDULE_STATE];
    const dlsh_value *step = dlsh_record_get(dlsh_arg(a, "state")->as.record, "last_epoch");
    DLSH_FREED double *base = malloc((size_t)c->groups * sizeof *base);
    if (!base) return dlsh_no_memory("the rates of an optimizer");
    if (!step || step->type != DLSH_INT)
        return dlsh_arg_fail(a, "state", DL_ERR_VALUE, "what s.state_dict() gave",
                             "a state of a scheduler has an int last_epoch");
    DLSH_TRY(read_numbers(a, "schedule", DL_SCHEDULE_STATE, state));
    DLSH_TRY(read_numbers(a, "base_lrs", c->groups, base));
    memcpy(c->base, base, (size_t)c->groups * sizeof *base);
    dl_schedule_set_state(c->s, state);
    c->step = step->as.i;
    return set_rates(c);
}

static const dlsh_command scheduler_methods[] = {
    DLSH_ACT_ROW("step", step_run, "s.step([METRIC])",
                 "Counts a step, or an epoch, and sets the rates of the optimizer; a plateau schedule takes what it "
                 "watches.",
                 DLSH_PARAMS({"metric", .want = "number|tensor", .flags = DLSH_OPTIONAL,
                              .doc = "such as the test loss, for plateau"}),
                 .examples = "o.step(); s.step()"),
    DLSH_FN_ROW("get_last_lr", last_run, "s.get_last_lr()", "A list of the present rates of the optimizer's groups."),
    DLSH_FN_ROW("state_dict", scheduler_state_run, "s.state_dict()", "A record of its state, which can be saved."),
    DLSH_ACT_ROW("load_state_dict", load_scheduler_run, "s.load_state_dict(RECORD)",
                 "Goes on from a state, and sets the rates.",
                 DLSH_PARAMS({"state", .want = "record", .doc = "what s.state_dict() gave"})),
    {0}};

const dlsh_class dlsh_scheduler_class = {.name = "scheduler",
                                         .doc = "Sets the rates of an optimizer by a schedule, step by step.",
                                         .destroy = destroy_scheduler,
                                         .held = dlsh_held_little,
                                         .text = text_scheduler,
                                         .fields = scheduler_fields,
                                         .methods = scheduler_methods};

static dl_status scheduler_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value *v = dlsh_arg(a, "schedule");
    dl_schedule *given = dlsh_unwrap(*v, &dlsh_schedule_class);
    if (given && (dlsh_arg_count(a, "values") || dlsh_arg_extra(a, 0, NULL)))
        return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, "scheduler(o, \"step\", 30, gamma=0.1), or scheduler(o, s)",
                             "a schedule has its options already");
    dl_schedule *s = given ? dl_schedule_ref(given) : make_schedule(a, v->as.str->s);
    if (!s) return dl_failed();
    scheduler *c = malloc(sizeof *c);
    if (!c) return dl_schedule_unref(s), dlsh_no_memory("a scheduler");
    *c = (scheduler){.o = dl_optimizer_ref(dlsh_arg_handle(a, "optimizer", &dlsh_optimizer_class)), .s = s};
    dl_status st = set_rates(c);
    if (st) return destroy_scheduler(c), st;
    return dlsh_give(dlsh_new_handle(&dlsh_scheduler_class, c), result);
}

/* ---------------------------------------------------------------- the rows */

const dlsh_command schedule_commands[] = {
    DLSH_ROW(
        "schedule", DLSH_ONLY_FUNCTION | DLSH_OPEN_OPTIONS, schedule_run, "schedule(KIND, VALUE..., OPTION=VALUE...)",
        "The learning rate as a function of the step, for trainer(..., schedule=...). With kind lambda a function "
        "of the step gives a factor of the base rate, with multiplicative the factor from the step before. Names of "
        "PyTorch's classes, such as \"StepLR\", are other names of the kinds. A cyclic one takes scale_fn=, a function "
        "of the number of the cycle, from 1, or with scale_mode=\"iterations\" of the step, that gives the height.",
        DLSH_PARAMS({"kind", DLSH_ARG_WORD, .doc = "\"cosine\", \"step\", ...: `help schedules` lists them",
                     .complete = "schedule"},
                    {"values", .flags = DLSH_VARIADIC,
                     .doc = "its main arguments; of chained and sequential a list of schedules; of lambda and "
                            "multiplicative a function"}),
        .examples = "s = schedule(\"cosine\", 1000, warmup=50)\ns(500)\n"
                    "rise = schedule(\"linear\", 10, start=0.1, end=1)\n"
                    "s = schedule(\"sequential\", [rise, schedule(\"exponential\", 0.99)], milestones=[10])\n"
                    "s = schedule(\"lambda\", fn (i) { return 0.95 ** i })"),
    DLSH_ROW(
        "scheduler", DLSH_ONLY_FUNCTION | DLSH_OPEN_OPTIONS, scheduler_run,
        "scheduler(OPTIMIZER, SCHEDULE|KIND, VALUE..., OPTION=VALUE...)",
        "A schedule bound to an optimizer, for a loop written by hand: it sets the rate of each group at once, and "
        "at each s.step().",
        DLSH_PARAMS({"optimizer", .want = "optimizer", .doc = "whose rates are set"},
                    {"schedule", .want = "schedule|string",
                     .doc = "a schedule, or its kind with the values and options of schedule(...) behind it"},
                    {"values", .flags = DLSH_VARIADIC, .doc = "main arguments of the kind"}),
        .examples = "w = param(ones(3)); o = sgd([w], lr=0.1)\ns = scheduler(o, \"step\", 30, gamma=0.1)\n"
                    "s.step()\ns.get_last_lr()"),
    {0}};
