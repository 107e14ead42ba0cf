/* Breakpoints of trainings: a condition becomes a function of the layers that it names, which the trainer calls with
 * each step; what it computes is decided on the device. */
#include "debug/training.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/probe.h"
#include "debug/stopped.h"
#include "lang/eval/interp.h"
#include "lang/eval/pure.h"
#include "view/sink.h"

enum { PATH = 256, ARGS = 16, PEAKS = 2, NORM = 3 }; /* the last two: see dl_module_keep */

/* What a name in a condition stands for. */
typedef enum arg_kind { OF_LAYER, OF_RESULT, OF_LOSS, OF_FUNCTION } arg_kind; /* the last: a variable of one */
typedef struct argument {
    arg_kind kind;
    char path[PATH], name[PATH]; /* OF_FUNCTION: path is the function, unit its text */
    char unit[PATH];
    dl_module *m; /* of the trainer's net; borrowed, the trainer holds it */
} argument;

typedef struct training_point {
    struct training_point *next;
    dlsh_session *s;
    dl_trainer *t;
    int slot;  /* the trainer's number */
    int binds; /* its text has variables of its own: of a comprehension or a function */
    dlsh_point is;
    dlsh_callback *cb, *sides; /* NULL: gradients are looked at; it is not a comparison */
    dl_break_test test;        /* of the sides */
    dl_break_measure of;       /* and what the left one is compared by */
    int asks, kept;            /* of its layer it asks for that alone, PEAKS or NORM, 0 for more; it was told */
    argument arg[ARGS];
    int nargs;
    char host[200];   /* why it is evaluated on the host; "" */
    dlsh_buf last;    /* a watched value as it was; */
    char change[400]; /* and how it changed */
} training_point;

static training_point *points;

/* Behind those that there are, of trainings and of the walk. */
int dlsh_training_number(void) {
    int most = 0;
    for (const training_point *p = points; p; p = p->next) most = p->is.number > most ? p->is.number : most;
    for (int i = 0; i < dlsh_dbg.npoints; i++)
        most = dlsh_dbg.points[i].number > most ? dlsh_dbg.points[i].number : most;
    return most + 1;
}

/* The trainer lets it go. */
static void release(void *ctx) {
    training_point *p = ctx, **at = &points;
    while (*at && *at != p) at = &(*at)->next;
    if (*at) *at = p->next;
    if (p->kept) dl_module_keep(p->arg[0].m, -p->kept);
    dlsh_callback_free(p->cb);
    dlsh_callback_free(p->sides);
    dlsh_buf_free(&p->last);
    free(p);
}

/* ---------------------------------------------------------------- names of layers */

static int has_tensors(dl_module *m) {
    dl_module_list *l = dl_module_tensors(m, 3);
    int n = l && l->n;
    dl_module_list_free(l);
    return n;
}

/* The longest beginning of a path that is a layer, and its length; NULL: none. */
static dl_module *layer_of(dl_module *net, const char *path, size_t *n) {
    char begin[PATH];
    for (*n = strlen(path); *n && *n < sizeof begin; (*n)--) {
        if (path[*n] && path[*n] != '.') continue;
        snprintf(begin, sizeof begin, "%.*s", (int)*n, path);
        dl_module *m = dl_module_find(net, begin);
        if (m && !dlsh_is_net_tensor(m)) return m;
    }
    dl_error_clear();
    return NULL;
}

/* Appends the name of the argument. */
static dl_status add_argument(training_point *p, const argument *a, dlsh_buf *out) {
    int i = 0;
    while (i < p->nargs && strcmp(p->arg[i].name, a->name) != 0) i++;
    if (i == ARGS) return dlsh_fail(DL_ERR_VALUE, NULL, "a condition names at most %d layers", ARGS);
    if (i == p->nargs) p->arg[p->nargs++] = *a;
    dlsh_buf_puts(out, a->name);
    return DL_OK;
}

/* A layer followed by a field is the layer, where it has weights; else its result. */
static dl_status add_layer(training_point *p, dl_module *m, const char *path, size_t n, dlsh_buf *out) {
    argument a = {.kind = path[n] && has_tensors(m) ? OF_LAYER : OF_RESULT, .m = m};
    snprintf(a.path, sizeof a.path, "%.*s", (int)n, path);
    snprintf(a.name, sizeof a.name, "%.200s%s", a.path, a.kind == OF_RESULT && has_tensors(m) ? "_result" : "");
    for (char *c = a.name; *c; c++)
        if (*c == '.') *c = '_';
    DLSH_TRY(add_argument(p, &a, out));
    dlsh_buf_puts(out, path + n);
    return DL_OK;
}

/* A path as it stands in the text: of a layer, with or without the net's variable before it, `loss`, or others. */
static dl_status add_path(training_point *p, const char *path, int called, dlsh_buf *out) {
    char first[PATH];
    const char *dot = strchr(path, '.'), *in = path;
    size_t n;
    snprintf(first, sizeof first, "%.*s", (int)(dot ? dot - path : (long)strlen(path)), path);
    argument own = {.kind = OF_FUNCTION};
    dlsh_running r;
    dlsh_value of_function;
    const int is_own = dlsh_dbg_own_variable(p->s, first, &of_function, &r);
    const dlsh_value *v = is_own ? &of_function : dlsh_get(p->s, first);
    dl_module *net = dl_trainer_model(p->t);
    const int is_net = v && dlsh_unwrap(*v, &dlsh_net_class) == net;
    if (is_net && dot) in = dot + 1;
    if (is_own && in == path) {
        snprintf(own.path, sizeof own.path, "%s", r.name);
        snprintf(own.unit, sizeof own.unit, "%s", r.unit);
        snprintf(own.name, sizeof own.name, "%s", first);
        DLSH_TRY(add_argument(p, &own, out));
        return dlsh_buf_puts(out, path + strlen(first)), DL_OK;
    }
    if (!strcmp(first, "loss")) {
        DLSH_TRY(add_argument(p, &(argument){.kind = OF_LOSS, .name = "loss"}, out));
        return dlsh_buf_puts(out, path + 4), DL_OK;
    }
    dl_module *m = (v && in == path) || (called && !dot) ? NULL : layer_of(net, in, &n);
    if (m) return add_layer(p, m, in, n, out);
    if (!v && dot && in == path && !p->binds)
        return dlsh_fail(DL_ERR_NAME, "layers t lists the layers", "no variable and no layer is called %s", path);
    dlsh_buf_puts(out, path);
    return DL_OK;
}

static size_t name_length(const char *c) {
    size_t n = 0;
    while (isalnum((unsigned char)c[n]) || c[n] == '_') n++;
    return n;
}

static size_t path_length(const char *c) {
    size_t n = name_length(c);
    while (n && c[n] == '.' && (isalpha((unsigned char)c[n + 1]) || c[n + 1] == '_')) n += 1 + name_length(c + n + 1);
    return n;
}

/* The text of a condition in terms of its arguments. */
static dl_status translate(training_point *p, const char *text, dlsh_buf *out) {
    for (const char *c = text; *c;) {
        const size_t digits = isdigit((unsigned char)*c) ? name_length(c) : 0, n = digits ? 0 : path_length(c);
        char path[PATH];
        if (n && n < sizeof path && (c == text || c[-1] != '.')) {
            snprintf(path, sizeof path, "%.*s", (int)n, c);
            DLSH_TRY(add_path(p, path, c[n] == '(', out));
            c += n;
            continue;
        }
        size_t plain = digits ? digits : n ? n : 1;
        if (*c == '"')
            while (c[plain] && (c[plain] != '"' || c[plain - 1] == '\\')) plain++;
        if (*c == '"' && c[plain]) plain++;
        dlsh_buf_add(out, c, plain);
        c += plain;
    }
    return DL_OK;
}

/* fn (relu0, fc1) { return (isnan(relu0) | isnan(fc1.weight.grad)) } */
static dlsh_callback *make_function(const training_point *p, const char *result) {
    DLSH_SCOPED_BUF all = {0};
    dlsh_value fn;
    dlsh_buf_puts(&all, "(fn (");
    for (int i = 0; i < p->nargs; i++) dlsh_buf_printf(&all, "%s%s", i ? ", " : "", p->arg[i].name);
    dlsh_buf_printf(&all, ") { return %s })", result);
    const int depth = p->s->fn_depth;
    dl_source here = *dl_source_here();
    p->s->fn_depth = 0;
    dl_status st = dlsh_run(p->s, "<break>", dlsh_buf_text(&all), all.n, &fn);
    p->s->fn_depth = depth;
    *dl_source_here() = here;
    if (st) return NULL;
    dlsh_callback *cb = dlsh_callback_new(p->s, fn);
    dlsh_drop(fn);
    return cb;
}

/* Where A < B, and so on, is the whole text, the place of the operator, its length and test; 0: it is not that. */
static size_t comparison(const char *text, size_t *n, dl_break_test *test) {
    int depth = 0, found = 0;
    size_t at = 0;
    for (const char *c = text; *c; c++) {
        if (*c == '"') return 0;
        depth += (strchr("([{", *c) != NULL) - (strchr(")]}", *c) != NULL);
        if (depth) continue;
        const int word = isalpha((unsigned char)*c) && (c == text || !isalnum((unsigned char)c[-1]));
        if (strchr("|&?!=^", *c) ||
            (word && (!strncmp(c, "and ", 4) || !strncmp(c, "or ", 3) || !strncmp(c, "in ", 3))))
            return 0;
        if (*c != '<' && *c != '>') continue;
        if (found++ || c[1] == *c || (c > text && c[-1] == '-')) return 0;
        at = (size_t)(c - text);
        *n = 1 + (c[1] == '=');
        *test = *c == '<' ? (*n == 2 ? DL_BREAK_LESS_EQUAL : DL_BREAK_LESS)
                          : (*n == 2 ? DL_BREAK_GREATER_EQUAL : DL_BREAK_GREATER);
        c += *n - 1;
    }
    return at;
}

/* Functions of a tensor alone that the device computes where it decides. */
static const struct {
    const char *name;
    dl_break_measure of;
    int compared; /* with a limit; else it is the whole condition */
} measures[] = {{"norm", DL_BREAK_NORM, 1},
                {"dead", DL_BREAK_DEAD, 1},
                {"isnan", DL_BREAK_ANY_NAN, 0},
                {"isinf", DL_BREAK_ANY_INF, 0}};

/* Is the text one argument in parentheses? */
static int is_one_argument(const char *text, size_t n) {
    int depth = 0;
    for (size_t i = 0; i < n; i++) {
        depth += (strchr("([{", text[i]) != NULL) - (strchr(")]}", text[i]) != NULL);
        if (text[i] == '"' || (depth == 1 && strchr(",=", text[i])) || (!depth && i + 1 < n)) return 0;
    }
    return n > 2 && *text == '(' && !depth;
}

/* Leaves of `norm(x)` the `(x)`, where that is computed later. */
static void take_measure(training_point *p, const char **text, size_t *n, int compared) {
    const char *from = *text;
    size_t all = *n, name;
    while (all && isspace((unsigned char)*from)) from++, all--;
    while (all && isspace((unsigned char)from[all - 1])) all--;
    name = name_length(from);
    if (name >= all || !is_one_argument(from + name, all - name)) return;
    for (size_t i = 0; i < sizeof measures / sizeof *measures; i++) {
        const int same = strlen(measures[i].name) == name && !strncmp(from, measures[i].name, name);
        if (!same || measures[i].compared != compared || dlsh_get(p->s, measures[i].name)) continue;
        p->of = measures[i].of;
        *text = from + name, *n = all - name;
        return;
    }
}

/* Is it the result of a layer alone, the only one? */
static int is_result(const training_point *p, const char *text, size_t n) {
    const char *name = p->nargs == 1 && p->arg[0].kind == OF_RESULT ? p->arg[0].name : "";
    return *name && n == strlen(name) + 2 && !strncmp(text + 1, name, n - 2);
}

/* Is it a number as it stands, whatever the step computes? */
static int is_literal(const char *text) {
    char *end;
    strtod(text, &end);
    if (end == text) return 0;
    while (isspace((unsigned char)*end)) end++;
    return !*end;
}

/* The function; of a comparison also one that gives its two sides, which the end of the step compares: this saves
 * kernels in each step. */
static dl_status make_functions(training_point *p, const char *text) {
    DLSH_SCOPED_BUF body = {0}, whole = {0}, sides = {0};
    size_t n = 0;
    p->binds = dlsh_debug_mentions(text, "for") || dlsh_debug_mentions(text, "fn");
    DLSH_TRY(translate(p, text, &body));
    dlsh_buf_printf(&whole, "(%s)", dlsh_buf_text(&body));
    if (!(p->cb = make_function(p, dlsh_buf_text(&whole)))) return dl_failed();
    const char *left = dlsh_buf_text(&body), *right = left;
    size_t at = comparison(left, &n, &p->test);
    const int compared = at > 0;
    right = compared ? left + at + n : "1";
    if (!compared) at = body.n;
    take_measure(p, &left, &at, compared);
    if (is_result(p, left, at))
        p->asks = p->of == DL_BREAK_DEAD || p->of == DL_BREAK_ANY_NAN ? PEAKS
                  : p->of == DL_BREAK_NORM && is_literal(right)       ? NORM
                                                                      : 0;
    if (!compared && !p->of) return DL_OK;
    dlsh_buf_printf(&sides, "[(%.*s), (%s)]", (int)at, left, right);
    return (p->sides = make_function(p, dlsh_buf_text(&sides))) ? DL_OK : dl_failed();
}

/* ---------------------------------------------------------------- computing */

/* The variable as it is now, of the innermost call of its function. */
static dl_status value_of_variable(const training_point *p, const argument *a, dlsh_value *out) {
    dlsh_running r;
    const char *name;
    dlsh_value v;
    for (int i = 0; dlsh_running_at(p->s, i, &r); i++) {
        if (strcmp(r.name, a->path) != 0 || strcmp(r.unit, a->unit) != 0) continue;
        for (int k = 0; (name = dlsh_running_variable(p->s, i, k, &v)); k++)
            if (!strcmp(name, a->name) && v.type != DLSH_VOID) return *out = dlsh_ref(v), DL_OK;
    }
    return dlsh_fail(DL_ERR_NAME, "dbg { delete N } removes the breakpoint; break lists them",
                     "%s of the breakpoint %s is a variable of the function %s, which has returned", a->name,
                     p->is.text, a->path);
}

static dl_status value_of(const training_point *p, const argument *a, const dlsh_probe *probe, dlsh_value *out) {
    if (a->kind == OF_FUNCTION) return value_of_variable(p, a, out);
    dl_module *m = probe && a->m ? dl_module_find(probe->net, a->path) : a->m;
    dl_tensor *loss = probe ? probe->loss : dl_trainer_loss(p->t);
    dl_tensor *t = a->kind == OF_LOSS ? loss : a->kind == OF_RESULT ? dl_module_kept(m) : NULL;
    *out = a->kind == OF_LAYER ? dlsh_net_value(m) : t ? dlsh_tensor(dl_ref(t)) : dlsh_none();
    return DL_OK;
}

/* Calls the condition; in a probe with that net's layers. VOID: a layer that it names has not run. */
static dl_status compute(training_point *p, const dlsh_callback *cb, const dlsh_probe *probe, dlsh_value *out) {
    dlsh_value in[ARGS];
    int n = 0, all = 1;
    dl_status st = DL_OK;
    *out = dlsh_void();
    for (; n < p->nargs && !st; n++) {
        in[n] = dlsh_void();
        st = value_of(p, &p->arg[n], probe, &in[n]);
        all &= in[n].type != DLSH_NONE || p->arg[n].kind == OF_FUNCTION;
    }
    const int recording = dl_recording_set(0);
    if (!st) st = all ? dlsh_call(p->s, cb->fn, &(dlsh_callargs){n, in, NULL}, out) : DL_OK;
    dl_recording_set(recording);
    while (n) dlsh_drop(in[--n]);
    return st;
}

/* One number, or what is measured, beside a number of the host; of f32 that is rounded, as an op does it. */
static int compare_later(const training_point *p, dlsh_value v, dl_break_value *out) {
    if (v.type != DLSH_LIST || v.as.list->n != 2) return 0;
    const dlsh_value a = v.as.list->items[0], b = v.as.list->items[1];
    if (a.type != DLSH_TENSOR || !dlsh_is_number(b) || (!p->of && dl_numel(a.as.tensor) != 1)) return 0;
    const dl_dtype dtype = dl_dtype_of(a.as.tensor);
    if (p->of ? !dl_dtype_is_float(dtype) : dtype != DL_F32 && dtype != DL_F64) return 0;
    const double limit = dlsh_number(b);
    const int squares = p->kept == NORM && dl_module_kept_squares(p->arg[0].m);
    *out = (dl_break_value){dl_ref(a.as.tensor), p->test, dtype != DL_F64 || squares ? (double)(float)limit : limit,
                            squares ? DL_BREAK_SQUARES : p->of};
    return 1;
}

static dl_status compare_sides(training_point *p, dl_break_value *out) {
    dlsh_value v;
    if (!p->sides || *p->host) return DL_OK;
    DLSH_TRY(compute(p, p->sides, NULL, &v));
    const int known = v.type != DLSH_VOID;
    if (known && !compare_later(p, v, out)) {
        dlsh_callback_free(p->sides);
        p->sides = NULL;
    }
    dlsh_drop(v);
    return DL_OK;
}

/* A value of the host becomes a tensor there. */
static dl_status condition(void *ctx, dl_trainer *t, dl_break_value *out) {
    training_point *p = ctx;
    dlsh_value v;
    (void)t;
    DLSH_TRY(compare_sides(p, out));
    if (out->is) return DL_OK;
    DLSH_TRY(compute(p, p->cb, NULL, &v));
    if (v.type == DLSH_TENSOR)
        out->is = dl_ref(v.as.tensor);
    else if (v.type != DLSH_VOID && v.type != DLSH_NONE)
        out->is = dl_scalar_f(dlsh_debug_truth(v));
    dl_status st = out->is || v.type == DLSH_VOID || v.type == DLSH_NONE ? DL_OK : dl_failed();
    dlsh_drop(v);
    return st;
}

/* Of a watch: is the value another one than after the last step? */
static dl_status changed(void *ctx, dl_trainer *t, dl_break_value *out) {
    training_point *p = ctx;
    dlsh_value v;
    DLSH_SCOPED_BUF now = {0}, text = {0};
    (void)t;
    DLSH_TRY(compute(p, p->cb, NULL, &v));
    dl_status st = dlsh_json(&now, v);
    if (!st) st = dlsh_text(&text, v);
    dlsh_drop(v);
    DLSH_TRY(st);
    const char *had = dlsh_buf_text(&p->last), *tab = strchr(had, '\t');
    const int differs = p->last.n && strcmp(tab + 1, dlsh_buf_text(&now)) != 0;
    if (differs)
        snprintf(p->change, sizeof p->change, "%.*s -> %.180s", (int)(tab - had < 180 ? tab - had : 180), had,
                 dlsh_buf_text(&text));
    dlsh_buf_free(&p->last);
    dlsh_buf_printf(&p->last, "%s\t%s", dlsh_buf_text(&text), dlsh_buf_text(&now));
    return (out->is = dl_scalar_f(differs)) ? DL_OK : dl_failed();
}

/* ---------------------------------------------------------------- on the device, or on the host */

static int is_trained(const training_point *p, const dl_tensor *x) {
    const dl_tensor *own;
    for (long i = 0; (own = dl_optimizer_param(dl_trainer_optimizer(p->t), i, NULL)); i++)
        if (own == x) return 1;
    return 0;
}

/* Gradients of what the trainer trains are made anew by each step. */
static int has_gradients(void *ctx, dlsh_value v) {
    const training_point *p = ctx;
    dl_module *m = dlsh_unwrap(v, &dlsh_net_class);
    dl_module_list *l = m ? dl_module_tensors(m, 1) : NULL;
    int yes = v.type == DLSH_TENSOR ? is_trained(p, v.as.tensor) : l != NULL;
    for (long i = 0; l && i < l->n; i++) yes &= is_trained(p, l->entries[i].tensor);
    dl_module_list_free(l);
    return yes;
}

/* A dl_key_fn. What an impure function reaches is not held: the trainer may be part of it. */
static dl_status key(void *ctx, unsigned long *out) {
    training_point *p = ctx;
    dlsh_callback *cb = p->cb;
    if (!cb->purity) {
        if (!(cb->purity = dlsh_purity_new(p->s, cb->fn))) return dl_failed();
        dlsh_purity_allow_grads(cb->purity, has_gradients, p);
    }
    dl_status st = dlsh_purity_key(cb->purity, out);
    if (st) dlsh_purity_free(cb->purity), cb->purity = NULL;
    return st;
}

/* A trial on a copy of the net shows what the condition is, and names that it does not know. */
static dl_status look(training_point *p, dlsh_probe *probe, dlsh_value *v) {
    DLSH_TRY(dlsh_probe_trainer(probe, p->t, DLSH_PROBE_SAMPLES));
    dl_module_train(probe->net, 1);
    for (int i = 0; i < p->nargs; i++)
        if (p->arg[i].kind == OF_RESULT) dl_module_keep(dl_module_find(probe->net, p->arg[i].path), 1);
    DLSH_TRY(dlsh_probe_forward(probe));
    DLSH_TRY(dlsh_probe_backward(probe, dl_trainer_model(p->t)));
    DLSH_SCOPED_GRAD_MODE(0);
    return compute(p, p->cb, probe, v);
}

static dl_status try_it(training_point *p) {
    dlsh_probe probe = {.from = ""};
    dlsh_value v = dlsh_void();
    const dl_nan_policy policy = dl_nan_policy_get();
    dl_nan_policy_set(DL_NAN_OFF);
    dl_status st = look(p, &probe, &v);
    dl_nan_policy_set(policy);
    if (!st && v.type != DLSH_TENSOR && v.type != DLSH_VOID)
        snprintf(p->host, sizeof p->host, "it is %s, not a tensor", dlsh_a(v));
    dlsh_drop(v);
    dl_error e;
    if (st) dl_error_take(&e);
    if (probe.net) dlsh_probe_end(&probe);
    if (st == DL_ERR_NAME || st == DL_ERR_SYNTAX) return dl_error_put(&e);
    dlsh_place_clear(p->s);
    return DL_OK; /* what fails for other reasons may do so in a step, which then says it */
}

static dl_status find_where(training_point *p) {
    unsigned long k;
    for (int i = 0; i < p->nargs; i++)
        if (p->arg[i].kind == OF_FUNCTION)
            snprintf(p->host, sizeof p->host, "%.60s is a variable of the function %.60s", p->arg[i].name,
                     p->arg[i].path);
    dl_status st = key(p, &k);
    if (!st) return try_it(p);
    if (st != DL_ERR_UNSUPPORTED) return st;
    snprintf(p->host, sizeof p->host, "%s", dl_errmsg());
    dl_error_clear();
    return DL_OK;
}

/* ---------------------------------------------------------------- adding */

/* The name of the variable that holds it. */
static const char *name_of(const dlsh_session *s, const dl_trainer *t) {
    for (int i = 0; i < dlsh_global_count(s); i++) {
        const dlsh_value *v;
        const char *name = dlsh_global_at(s, i, &v);
        if (v && dlsh_unwrap(*v, &dlsh_trainer_class) == t && strcmp(name, "_") != 0) return name;
    }
    return "t";
}

/* The parameters of the net that a pattern fits, borrowed. */
static long params_of(const training_point *p, const char *net, const char *paths, dl_tensor **list, long room) {
    dlsh_value own;
    dlsh_running r;
    const dlsh_value *v = dlsh_dbg_own_variable(p->s, net, &own, &r) ? &own : dlsh_get(p->s, net);
    dl_module *m = v ? dlsh_unwrap(*v, &dlsh_net_class) : NULL;
    dl_module_list *l = m ? dl_module_tensors(m, 1) : NULL;
    long n = 0;
    for (long i = 0; l && i < l->n && n < room; i++)
        if (!fnmatch(paths, l->entries[i].path, 0)) list[n++] = l->entries[i].tensor;
    dl_module_list_free(l);
    return n;
}

/* A watch of an expression as a condition. */
static dl_status watch_text(const training_point *p, dlsh_buf *b) {
    static const char *const forms[][2] = {
        {"change", "%s"}, {"nan", "isnan(%s)"}, {"inf", "isinf(%s)"}, {"zero", "all((%s) == 0)"}};
    for (int i = 0; i < 4; i++)
        if (!strcmp(p->is.when, forms[i][0])) {
            const char *at = strstr(forms[i][1], "%s");
            dlsh_buf_printf(b, "%.*s%s%s", (int)(at - forms[i][1]), forms[i][1], p->is.text, at + 2);
        }
    return DL_OK;
}

/* The function of the point, and what the trainer is to know of it. */
static dl_status describe(training_point *p, dl_breakpoint *b) {
    DLSH_SCOPED_BUF text = {0};
    const int watch = p->is.kind == DLSH_AT_CHANGE, compare = watch && !strcmp(p->is.when, "change");
    if (watch)
        DLSH_TRY(watch_text(p, &text));
    else
        dlsh_buf_puts(&text, p->is.text);
    DLSH_TRY(make_functions(p, dlsh_buf_text(&text)));
    DLSH_TRY(find_where(p));
    b->fn = compare ? changed : condition;
    b->each = compare;
    if (compare) snprintf(p->host, sizeof p->host, "the value is compared with the one before");
    if (!*p->host) b->key = key;
    return DL_OK;
}

static dl_status add_to_trainer(const dlsh_args *a, training_point *p, dl_breakpoint *b) {
    enum { PARAMS = 4096 };
    char net[DLSH_DBG_TEXT], paths[DLSH_DBG_TEXT];
    dl_module *layer[ARGS];
    dl_tensor **param = NULL;
    dl_status st = DL_OK;
    if (p->is.kind == DLSH_AT_CHANGE && dlsh_dbg_pattern(p->is.text, net, paths)) {
        if (*p->is.when != 'n' && *p->is.when != 'i')
            return dlsh_arg_fail(a, "when", DL_ERR_VALUE, "watch m.*.grad when=nan",
                                 "gradients of a training are watched for nan or inf");
        if (!(param = malloc(PARAMS * sizeof(dl_tensor *)))) return dlsh_no_memory("parameters");
        b->nparam = params_of(p, net, paths, param, PARAMS);
        b->test = *p->is.when == 'n' ? DL_BREAK_NAN : DL_BREAK_INF;
        if (!b->nparam)
            st = dlsh_arg_fail(a, "expression", DL_ERR_NAME, "watch m.*.grad, m being a net", "no parameter fits %s",
                               p->is.text);
    } else
        st = describe(p, b);
    for (int i = 0; i < p->nargs; i++)
        if (p->arg[i].kind == OF_RESULT) layer[b->nlayers++] = p->arg[i].m;
    b->layer = layer, b->param = param;
    if (!st) {
        b->release = release;
        st = dl_trainer_break(p->t, b, &p->slot);
        if (!st && p->asks) dl_module_keep(p->arg[0].m, p->kept = p->asks);
        b->ctx = st ? NULL : b->ctx; /* it has been released */
    }
    free(param);
    return st;
}

dl_status dlsh_training_add(const dlsh_args *a, dl_trainer *t, const dlsh_point *is) {
    training_point *p = calloc(1, sizeof *p);
    if (!p) return dlsh_no_memory("a breakpoint");
    *p = (training_point){.s = dlsh_arg_session(a), .t = t, .is = *is};
    dl_breakpoint b = {.text = p->is.text, .ctx = p, .ignore = is->ignore};
    dl_status st = add_to_trainer(a, p, &b);
    if (st && b.ctx) release(p);
    if (st) return st;
    p->is.number = dlsh_training_number();
    training_point **at = &points;
    while (*at) at = &(*at)->next;
    *at = p;
    dlsh_sink *sink = dlsh_arg_sink(a);
    dlsh_put(sink, "%s %d: %s, in the training of %s\n", is->kind == DLSH_AT_CHANGE ? "watch" : "breakpoint",
             p->is.number, p->is.text, name_of(p->s, t));
    if (*p->host) dlsh_put(sink, "  evaluated on the host, each step is waited for: %s\n", p->host);
    return DL_OK;
}

/* ---------------------------------------------------------------- the list */

const dlsh_point *dlsh_training_at(int i, long *hits, const char **decided) {
    training_point *p = points;
    int host = 0;
    while (p && i--) p = p->next;
    *hits = 0;
    if (!p) return NULL;
    if (dl_trainer_break_hits(p->t, p->slot, hits, &host)) dl_error_clear();
    *decided = host || *p->host ? "host" : "device";
    return &p->is;
}

int dlsh_training_delete(int all, long number) {
    int n = 0;
    for (training_point *p = points, *next; p; p = next) {
        next = p->next;
        if (!all && p->is.number != number) continue;
        n++;
        if (dl_trainer_unbreak(p->t, p->slot)) dl_error_clear();
    }
    return n;
}

void dlsh_training_lend(dl_trainer *t) {
    for (training_point *p = points; p; p = p->next)
        if (p->t == t && dlsh_dbg.npoints < DLSH_DBG_POINTS) dlsh_dbg.points[dlsh_dbg.npoints++] = p->is;
}

dl_trainer *dlsh_training_of(const dlsh_args *a) {
    const dlsh_session *s = dlsh_arg_session(a);
    dl_trainer *t = dlsh_arg_handle(a, "trainer", &dlsh_trainer_class), *other = NULL;
    int n = 0;
    for (int i = 0; !t && i < dlsh_global_count(s); i++) {
        const dlsh_value *v;
        dlsh_global_at(s, i, &v);
        dl_trainer *found = v ? dlsh_unwrap(*v, &dlsh_trainer_class) : NULL;
        n += found && found != other;
        if (found) other = found;
    }
    if (t || n == 1) return t ? t : other;
    if (n)
        dlsh_arg_fail(a, NULL, DL_ERR_STATE, "break CONDITION trainer=t", "there are several trainers");
    else
        dlsh_dbg_need(a);
    return NULL;
}

/* ---------------------------------------------------------------- a training that stopped */

int dlsh_training_stopped(dlsh_session *s, dlsh_sink *sink, dl_trainer *t) {
    long step;
    const unsigned which = dl_trainer_broke(t, &step);
    const char *name = name_of(s, t);
    for (training_point *p = points; which && p; p = p->next) {
        if (p->t != t || !(which >> p->slot & 1)) continue;
        if (*p->change)
            dlsh_put(sink, "watch %s: %s, in step %ld, before its update\n", p->is.text, p->change, step);
        else
            dlsh_put(sink, "%s %d: %s%s%s, in step %ld, before its update\n",
                     p->is.kind == DLSH_AT_CHANGE ? "watch" : "breakpoint", p->is.number, p->is.text,
                     p->is.kind == DLSH_AT_CHANGE ? " is " : "", p->is.when, step);
        *p->change = 0;
    }
    if (which)
        dlsh_put(sink, "  dbg step %s walks over the step; step %s or train %s goes on with it\n", name, name, name);
    return which != 0;
}
