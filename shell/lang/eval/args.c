/* Arguments of rows of the command table: checked against the row, and read by the commands. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/eval/args.h"
#include "lang/parse/lexer.h"

/* ---------------------------------------------------------------- a sink that shows nothing */

static void no_text(dlsh_sink *s, const char *b, size_t n) { (void)s, (void)b, (void)n; }
static dl_status no_value(dlsh_sink *s, dlsh_value v) { return (void)s, (void)v, DL_OK; }
static dl_status no_table(dlsh_sink *s, const dlsh_table *t) { return (void)s, (void)t, DL_OK; }
static void no_error(dlsh_sink *s, const dlsh_diag *d) { (void)s, (void)d; }
static dl_status no_plot(dlsh_sink *s, const dlsh_plot *p) { return (void)s, (void)p, DL_OK; }
static dl_status no_display(dlsh_sink *s, const dlsh_bundle *b) { return (void)s, (void)b, DL_OK; }
static void no_flush(dlsh_sink *s) { (void)s; }
static const dlsh_sink_ops silent_ops = {.text = no_text,
                                         .complain = no_text,
                                         .value = no_value,
                                         .table = no_table,
                                         .error = no_error,
                                         .plot = no_plot,
                                         .display = no_display,
                                         .flush = no_flush};
static dlsh_sink silent = {&silent_ops};

/* ---------------------------------------------------------------- types */

static int word_in(const char *words, const char *word) { return dlsh_has_word(words, word, strlen(word)); }

int dlsh_wants(const char *want, dlsh_value v) {
    if (!want || word_in(want, dlsh_type_name(v))) return 1;
    if (v.type == DLSH_INT && (word_in(want, "float") || word_in(want, "number"))) return 1;
    if (v.type == DLSH_FLOAT && word_in(want, "number")) return 1;
    return word_in(want, "function") && dlsh_callable(v);
}

/* Is it a word option that takes lists and tensors, too? */
static int takes_numbers(const dlsh_option *o) {
    return o->kind == DLSH_OPT_WORD && o->want && word_in(o->want, "list");
}

static const char *optkind_want(const dlsh_option *o) {
    switch (o->kind) {
    case DLSH_OPT_BOOL: return "bool";
    case DLSH_OPT_INT: return "int";
    case DLSH_OPT_FLOAT: return "float";
    case DLSH_OPT_STRING: return "string";
    case DLSH_OPT_WORD: return takes_numbers(o) ? "string|int|float|bool|list|tensor" : "string|int|float|bool";
    case DLSH_OPT_VALUE: break;
    }
    return o->want;
}

/* How a value of a type is made, for hints. */
static const char *maker_of(const char *want) {
    static const struct {
        const char *want, *how;
    } makers[] = {{"trainer", "t = trainer(m, d) makes a trainer of a net and a dataset"},
                  {"net", "net m { linear 10 } makes a net"},
                  {"dataset", "d = dataset(\"digits\") makes a dataset"},
                  {"optimizer", "adam(lr=0.001) makes an optimizer"},
                  {"run", "r = start_run(\"name\") makes a run"},
                  {"tensor", "tensor([1, 2]) makes a tensor"}};
    for (size_t i = 0; i < DLSH_COUNT(makers); i++)
        if (word_in(want, makers[i].want)) return makers[i].how;
    return NULL;
}

/* Adds to the hint what the given name means: `t` may be a function of the language. */
static void put_given_name(char *hint, size_t size, const dlsh_arg_item *it, const char *how) {
    const dlsh_node *n = it->node;
    if (n && n->kind == DLSH_N_EXPR && n->nkids == 1) n = n->kids[0];
    int ours = it->value.type == DLSH_BUILTIN || it->value.type == DLSH_OP;
    if (n && n->kind == DLSH_N_NAME && ours)
        snprintf(hint, size, "no variable is called %.40s, it names the function %.40s(...); %s", n->text, n->text,
                 how);
    else if (n && n->kind == DLSH_N_NAME)
        snprintf(hint, size, "%.40s is %s; %s", n->text, dlsh_a(it->value), how);
    else
        snprintf(hint, size, "%s", how);
}

static dl_status wrong_type(const dlsh_args *a, const char *name, const char *want, const dlsh_arg_item *it) {
    char words[96], made[200];
    snprintf(words, sizeof words, "%s", want);
    for (char *p = words; *p; p++)
        if (*p == '|') *p = '/';
    const char *hint = NULL, *choices = it->param ? it->param->complete : it->option ? it->option->complete : NULL;
    int dtype = choices && !strcmp(choices, "dtype");
    if (it->value.type == DLSH_TENSOR && (word_in(want, "int") || word_in(want, "float") || word_in(want, "number")))
        hint = "x.item() is the number in a tensor of one element";
    else if (it->value.type == DLSH_LIST && word_in(want, "tensor"))
        hint = "tensor([...]) makes a tensor of a list";
    else if (it->value.type == DLSH_FLOAT && word_in(want, "int"))
        hint = "int(x) drops the fraction";
    else if (it->value.type == DLSH_BUILTIN && dtype)
        hint = DLSH_DTYPE_HINT;
    else if (!strcmp(dlsh_type_name(it->value), "run") && word_in(want, "net"))
        hint = "export points.csv RUN writes the points of a run";
    else if (it->value.type == DLSH_RECORD && choices && !strcmp(choices, "file"))
        hint = "a file is named by text; weights that a record r has go into a net with m.load_state(r)";
    else if (word_in(want, "net") && it->value.type == DLSH_FN && it->value.as.fn->node->kind == DLSH_N_NET) {
        const char *net = it->value.as.fn->node->text ? it->value.as.fn->node->text : "the function";
        snprintf(made, sizeof made, "%.60s has arguments and makes a net when it is called: m = %.60s()", net, net);
        hint = made;
    } else if (maker_of(want)) {
        put_given_name(made, sizeof made, it, maker_of(want));
        hint = made;
    }
    dlsh_fail(DL_ERR_TYPE, hint, "%s: %s must be %s %s, got %s", a->cmd->name, name,
              strchr("aeiou", words[0]) ? "an" : "a", words, dlsh_type_name(it->value));
    return dlsh_at(a->s, it->node, DL_ERR_TYPE);
}

static dl_status wrong_choice(const dlsh_args *a, const char *name, const char *choices, const dlsh_arg_item *it) {
    const char *names[32];
    char copy[256], hint[300];
    int n = 0;
    snprintf(copy, sizeof copy, "%s", choices);
    for (char *p = strtok(copy, "|"); p && n < 32; p = strtok(NULL, "|")) names[n++] = p;
    const char *nearest = dlsh_nearest(it->value.as.str->s, names, n);
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean %s?", nearest);
    else
        snprintf(hint, sizeof hint, "one of: %s", choices);
    dlsh_fail(DL_ERR_VALUE, hint, "%s: %s cannot be '%s'", a->cmd->name, name, it->value.as.str->s);
    return dlsh_at(a->s, it->node, DL_ERR_VALUE);
}

/* A value for a WORD becomes its text. */
static dl_status to_word(dlsh_arg_item *it) {
    if (it->value.type == DLSH_STR) return DL_OK;
    DLSH_SCOPED_BUF b = {0};
    dl_status st = dlsh_text(&b, it->value);
    dlsh_value v = st ? dlsh_void() : dlsh_buf_string(&b);
    if (dlsh_failed(v)) return DL_ERR_MEMORY;
    dlsh_drop(it->value);
    it->value = v;
    return DL_OK;
}

/* `bool` is a function and a dtype. */
int dlsh_is_bool_type(dlsh_value v) { return v.type == DLSH_BUILTIN && !strcmp(v.as.builtin->name, "bool"); }

dl_status dlsh_whole_text(const char *what, const char *s, size_t n) {
    if (strlen(s) == n) return DL_OK;
    return dlsh_fail(DL_ERR_VALUE, "s.replace(\"\\0\", \"\") removes it",
                     "%s holds a NUL byte, which paths, names and options cannot have: \"%.60s\\0...\"", what, s);
}

/* Strings that are wanted as such become C's; where any value is wanted they stay what they are. */
static dl_status check_bytes(const dlsh_args *a, const char *name, const char *want, const dlsh_arg_item *it) {
    char what[120];
    int bytes = it->param && it->param->flags & DLSH_BYTES;
    if (it->value.type != DLSH_STR || !want || bytes) return DL_OK;
    snprintf(what, sizeof what, "%s: %s", a->cmd->name, name ? name : "an argument");
    dl_status st = dlsh_whole_text(what, it->value.as.str->s, it->value.as.str->len);
    return st ? dlsh_at(a->s, it->node, st) : DL_OK;
}

static int unevaluated(const dlsh_param *p) {
    return p->kind == DLSH_ARG_STATEMENT || p->kind == DLSH_ARG_BLOCK || p->kind == DLSH_ARG_SYNTAX;
}

static dl_status check_item(const dlsh_args *a, dlsh_arg_item *it) {
    const dlsh_param *p = it->param;
    const dlsh_option *o = it->option;
    const char *name = p ? p->name : o ? o->name : it->name, *choices = p ? p->complete : o ? o->complete : NULL;
    if (p && unevaluated(p)) return DL_OK;
    if (it->value.type == DLSH_VOID) it->value = dlsh_none();
    const char *want = p ? p->want : o ? optkind_want(o) : NULL;
    int with_numbers = p ? p->flags & DLSH_NUMBERS : o && takes_numbers(o);
    if (p && p->kind == DLSH_ARG_WORD && !want)
        want = with_numbers ? "string|int|float|bool|list|tensor" : "string|int|float|bool";
    /* none means not given, for what may be missing */
    if (it->value.type == DLSH_NONE && (o || (p && p->flags & DLSH_OPTIONAL)) && !(want && word_in(want, "none"))) {
        it->absent = 1;
        return DL_OK;
    }
    if (choices && !strcmp(choices, "dtype") && dlsh_is_bool_type(it->value)) it->value = dlsh_string("bool");
    if (!dlsh_wants(want, it->value)) return wrong_type(a, name, want, it);
    DLSH_TRY(check_bytes(a, name, want, it));
    int word = (p && p->kind == DLSH_ARG_WORD) || (o && o->kind == DLSH_OPT_WORD);
    int numbers = it->value.type == DLSH_LIST || it->value.type == DLSH_TENSOR;
    if (word && !(with_numbers && numbers)) DLSH_TRY(to_word(it));
    if (choices && strchr(choices, '|') && it->value.type == DLSH_STR && !word_in(choices, it->value.as.str->s))
        return wrong_choice(a, name, choices, it);
    return DL_OK;
}

static dl_status check(dlsh_args *a) {
    for (int i = 0; i < a->n; i++) DLSH_TRY(check_item(a, &a->items[i]));
    for (const dlsh_param *p = a->cmd->params; p && p->name; p++) {
        if (p->flags & (DLSH_OPTIONAL | DLSH_VARIADIC) || p->kind == DLSH_ARG_SUBCOMMAND) continue;
        int found = 0;
        for (int i = 0; i < a->n; i++) found |= a->items[i].param == p;
        if (!found) {
            dlsh_fail(DL_ERR_TYPE, a->cmd->usage, "%s needs a value for '%s'", a->cmd->name, p->name);
            return dlsh_at(a->s, a->node, DL_ERR_TYPE);
        }
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- running a row */

dl_status dlsh_run_command(dlsh_args *a, int silenced, dlsh_value *out) {
    dlsh_session *s = a->s;
    int quiet = s->quiet, action = a->cmd->flags & DLSH_ACTION;
    const dlsh_node *statement = s->statement;
    *out = dlsh_void();
    dl_status st = check(a);
    if (!st) {
        a->silent = action && (silenced || quiet || s->fn_depth);
        s->quiet = a->silent;
        st = a->cmd->act ? a->cmd->act(a) : a->cmd->run(a, out);
        if (!st && a->failed) st = dlsh_fail(DL_ERR_MEMORY, NULL, "no memory for the arguments of %s", a->cmd->name);
        if (!st) st = dlsh_check_interrupt(); /* loops may have been left early */
        s->quiet = quiet;
        s->statement = statement;
        if (st) {
            dlsh_at(s, a->node, st);
            dlsh_drop(*out);
            *out = dlsh_void();
        }
    }
    while (a->parsed) {
        dlsh_parsed *next = a->parsed->next;
        dlsh_drop(a->parsed->v);
        free(a->parsed);
        a->parsed = next;
    }
    for (int i = 0; i < a->n; i++) dlsh_drop(a->items[i].value);
    dlsh_buf_free(&a->text);
    if (a->items != a->few) free(a->items);
    a->items = a->few;
    a->n = 0;
    return st;
}

dl_status dlsh_args_reserve(dlsh_args *a, int n) {
    a->items = a->few;
    if (n <= DLSH_FEW_ARGS) return DL_OK;
    a->items = calloc((size_t)n, sizeof *a->items);
    if (a->items) return DL_OK;
    a->items = a->few;
    return dlsh_no_memory("arguments");
}

static const dlsh_param *param_named(const dlsh_command *c, const char *name) {
    for (const dlsh_param *p = c->params; p && p->name; p++)
        if (!strcmp(p->name, name)) return p;
    return NULL;
}

static dl_status no_such_argument(const dlsh_command *c, const char *name) {
    char hint[160] = "";
    const char *foreign = dlsh_foreign_argument(name), *nearest = foreign ? NULL : dlsh_command_nearest(c, name);
    if (foreign)
        snprintf(hint, sizeof hint, "%s", foreign);
    else if (nearest)
        snprintf(hint, sizeof hint, "did you mean %s=?", nearest);
    else if (c->usage)
        snprintf(hint, sizeof hint, "usage: %s", c->usage);
    return dlsh_fail(DL_ERR_NAME, hint, "%s has no argument '%s'", c->name, name);
}

const char *dlsh_argument_here(const char *name) {
    static const char *const names[][2] = {
        {"axis", "dim"},
        {"keepdims", "keepdim"},
        {"unbiased", "correction"},
        {"batch_size", "batch"},
        {"num_workers", "workers"},
        {"collate_fn", "collate"},
        {"retain_graph", "retain"},
        {"grad_outputs", "seed"},
        {"outputs", "output"},
        {"func", "function"},
        {"fn", "function"},
        {"primals", "inputs"},
        {"atol", "tol"},
        {"max_norm", "max"},
        {"rcond", "rtol"},
        {"tol", "atol"},
        {"value", "src"},
        {"clip_value", "max"},
        {"params", "parameters"},
        {"chunks", "size"},
        {"split_size", "size"},
        {"split_sizes", "size"},
        {"split_size_or_sections", "size"},
        {"axis0", "dim0"},
        {"axis1", "dim1"},
        {"input", "A"},
        {"A", "input"},
        {"tensor", "input"},
    };
    for (size_t i = 0; i < DLSH_COUNT(names); i++)
        if (!strcmp(names[i][0], name)) return names[i][1];
    return NULL;
}

/* What a name of a call stands for. */
static void find_named(dlsh_arg_item *it, const dlsh_command *c, const char *name) {
    it->option = dlsh_command_option(c, name, strlen(name));
    it->param = it->option ? NULL : param_named(c, name);
    it->name = name;
}

/* Places argument i of a call: by position, or by name. */
static dl_status place(dlsh_args *a, const dlsh_callargs *args, int i) {
    const dlsh_command *c = a->cmd;
    const char *name = args->names ? args->names[i] : NULL;
    dlsh_arg_item it = {0};
    if (name) {
        find_named(&it, c, name);
        if (!it.option && !it.param && dlsh_argument_here(name)) find_named(&it, c, dlsh_argument_here(name));
        if (!it.option && !it.param && !(c->flags & DLSH_OPEN_OPTIONS)) return no_such_argument(c, name);
        for (int k = 0; k < a->n; k++)
            if ((it.param && a->items[k].param == it.param) || (it.option && a->items[k].option == it.option))
                return dlsh_fail(DL_ERR_TYPE, NULL, "%s got two values for '%s'", c->name, name);
    } else {
        it.param = dlsh_command_param(c, i);
        if (!it.param)
            return dlsh_fail(DL_ERR_TYPE, c->usage, "%s got %d argument%s more than it takes", c->name, args->n - i,
                             args->n - i == 1 ? "" : "s");
    }
    if (it.param && it.param->kind != DLSH_ARG_SYNTAX &&
        (unevaluated(it.param) || it.param->kind == DLSH_ARG_SUBCOMMAND)) {
        char hint[160];
        int hides = dlsh_hidden_hint(a->s, c->name, hint, sizeof hint);
        return dlsh_fail(DL_ERR_TYPE, hides ? hint : c->usage, "%s takes its %s only in a statement", c->name,
                         it.param->name);
    }
    /* the nodes of the call, for messages: the last args->n kids */
    if (a->node && a->node->kind == DLSH_N_CALL && !a->node->op && a->node->nkids - 1 <= args->n) {
        int k = i - (args->n - (a->node->nkids - 1));
        if (k >= 0) {
            it.node = a->node->kids[k + 1];
            if (it.node->kind == DLSH_N_KWARG) it.node = it.node->kids[0];
        }
    }
    it.value = dlsh_ref(args->values[i]);
    a->items[a->n++] = it;
    return DL_OK;
}

dl_status dlsh_call_command_at(dlsh_session *s, const dlsh_command *row, dlsh_value self, const dlsh_callargs *args,
                               const dlsh_node *node, dlsh_value *out) {
    dlsh_args a = {.s = s, .cmd = row, .node = node, .self = self, .as_function = 1};
    if (!row->run && !row->act) return dlsh_fail(DL_ERR_TYPE, row->usage, "%s is not a function", row->name);
    DLSH_TRY(dlsh_args_reserve(&a, args->n));
    dl_status st = DL_OK;
    for (int i = 0; i < args->n && !st; i++) st = place(&a, args, i);
    if (st) {
        dlsh_at(s, node, st);
        for (int i = 0; i < a.n; i++) dlsh_drop(a.items[i].value);
        if (a.items != a.few) free(a.items);
        return st;
    }
    return dlsh_run_command(&a, 1, out);
}

/* ---------------------------------------------------------------- reading */

dlsh_session *dlsh_arg_session(const dlsh_args *a) { return a->s; }
const dlsh_command *dlsh_arg_command(const dlsh_args *a) { return a->cmd; }
const void *dlsh_arg_data(const dlsh_args *a) { return a->cmd->data; }
dlsh_sink *dlsh_arg_sink(const dlsh_args *a) { return a->silent ? &silent : a->s->sink; }
void *dlsh_arg_self(const dlsh_args *a) { return a->self.type == DLSH_HANDLE ? a->self.as.handle->self : NULL; }
dlsh_value dlsh_arg_self_value(const dlsh_args *a) { return a->self; }

/* The k-th item given for a parameter or option; NULL when there is none. */
static const dlsh_arg_item *item(const dlsh_args *a, const char *name, int k) {
    const dlsh_option *o = dlsh_command_option(a->cmd, name, strlen(name));
    const dlsh_param *p = o ? NULL : param_named(a->cmd, name);
    assert((o || p) && "a name that is not in the row");
    for (int i = 0; i < a->n; i++)
        if (!a->items[i].absent && ((o && a->items[i].option == o) || (p && a->items[i].param == p)) && !k--)
            return &a->items[i];
    return NULL;
}

int dlsh_given(const dlsh_args *a, const char *name) { return item(a, name, 0) != NULL; }

/* The value of a default that is not a string; VOID for a string. Allocates nothing. */
static dlsh_value parse_default(const dlsh_option *o) {
    char *end;
    const char *t = o->dflt;
    if (!t || !strcmp(t, "none")) return dlsh_none();
    if (o->kind == DLSH_OPT_STRING || o->kind == DLSH_OPT_WORD) return dlsh_void();
    if (!strcmp(t, "true") || !strcmp(t, "false")) return dlsh_bool(*t == 't');
    long i = strtol(t, &end, 10);
    if (*t && !*end) return o->kind == DLSH_OPT_FLOAT ? dlsh_float((double)i) : dlsh_int(i);
    double f = strtod(t, &end);
    return *t && !*end ? dlsh_float(f) : dlsh_void();
}

/* The value given, else the default; VOID for a default that is a string, and when there is none. */
static dlsh_value scalar(const dlsh_args *a, const char *name) {
    const dlsh_arg_item *it = item(a, name, 0);
    const dlsh_option *o = it ? NULL : dlsh_command_option(a->cmd, name, strlen(name));
    return it ? it->value : o && o->dflt ? parse_default(o) : dlsh_void();
}

const dlsh_value *dlsh_arg(const dlsh_args *a, const char *name) {
    const dlsh_arg_item *it = item(a, name, 0);
    if (it) return &it->value;
    const dlsh_option *o = dlsh_command_option(a->cmd, name, strlen(name));
    if (!o || !o->dflt) return NULL;
    for (dlsh_parsed *p = a->parsed; p; p = p->next)
        if (p->option == o) return &p->v;
    dlsh_parsed *p = malloc(sizeof *p);
    dlsh_value v = parse_default(o);
    if (v.type == DLSH_VOID) v = dlsh_string(o->dflt);
    if (!p || dlsh_failed(v)) {
        ((dlsh_args *)a)->failed = 1; /* the command's run fails, whatever it made of the missing default */
        free(p);
        return NULL;
    }
    *p = (dlsh_parsed){a->parsed, o, v};
    ((dlsh_args *)a)->parsed = p;
    return &p->v;
}

long dlsh_arg_int(const dlsh_args *a, const char *name) {
    dlsh_value v = scalar(a, name);
    return v.type == DLSH_FLOAT ? (long)v.as.f : v.type == DLSH_INT || v.type == DLSH_BOOL ? v.as.i : 0;
}

double dlsh_arg_float(const dlsh_args *a, const char *name) {
    dlsh_value v = scalar(a, name);
    return dlsh_is_number(v) ? dlsh_number(v) : 0;
}

int dlsh_arg_bool(const dlsh_args *a, const char *name) {
    dlsh_value v = scalar(a, name);
    return (v.type == DLSH_BOOL || v.type == DLSH_INT) && v.as.i;
}

const char *dlsh_arg_str(const dlsh_args *a, const char *name) {
    const dlsh_arg_item *it = item(a, name, 0);
    if (it) return it->value.type == DLSH_STR ? it->value.as.str->s : NULL;
    const dlsh_option *o = dlsh_command_option(a->cmd, name, strlen(name));
    return o && o->dflt && parse_default(o).type == DLSH_VOID ? o->dflt : NULL;
}

dl_tensor *dlsh_arg_tensor(const dlsh_args *a, const char *name) {
    const dlsh_value *v = dlsh_arg(a, name);
    return v && v->type == DLSH_TENSOR ? v->as.tensor : NULL;
}

void *dlsh_arg_handle(const dlsh_args *a, const char *name, const dlsh_class *cls) {
    const dlsh_value *v = dlsh_arg(a, name);
    return v ? dlsh_unwrap(*v, cls) : NULL;
}

int dlsh_arg_count(const dlsh_args *a, const char *name) {
    int n = 0;
    while (item(a, name, n)) n++;
    return n;
}

const dlsh_value *dlsh_arg_at(const dlsh_args *a, const char *name, int i) {
    const dlsh_arg_item *it = item(a, name, i);
    return it ? &it->value : NULL;
}

const char *dlsh_arg_extra(const dlsh_args *a, int i, const dlsh_value **value) {
    int known = i >= a->extra, seen = known ? a->extra : 0;
    for (int k = known ? a->extra_at : 0; k < a->n; k++)
        if (!a->items[k].param && !a->items[k].option && seen++ == i) {
            if (value) *value = &a->items[k].value;
            ((dlsh_args *)a)->extra = i, ((dlsh_args *)a)->extra_at = k;
            return a->items[k].name;
        }
    return NULL;
}

const dlsh_node *dlsh_arg_extra_node(const dlsh_args *a, int i) {
    return dlsh_arg_extra(a, i, NULL) ? a->items[a->extra_at].node : NULL;
}

int dlsh_arg_called(const dlsh_args *a) { return a->as_function; }

const dlsh_node *dlsh_arg_node(const dlsh_args *a, const char *name) {
    const dlsh_arg_item *it = item(a, name, 0);
    return it ? it->node : NULL;
}

const char *dlsh_arg_text(const dlsh_args *a, const char *name) { return dlsh_arg_source(a, dlsh_arg_node(a, name)); }

const char *dlsh_arg_source(const dlsh_args *a, const dlsh_node *n) {
    if (!n || !a->s->unit) return "";
    dlsh_buf *b = &((dlsh_args *)a)->text;
    dlsh_buf_free(b);
    dlsh_buf_add(b, a->s->unit->text + n->span.start, (size_t)(n->span.end - n->span.start));
    return dlsh_buf_text(b);
}

dl_status dlsh_arg_exec(const dlsh_args *a, const char *name, dlsh_value *result) {
    const dlsh_node *n = dlsh_arg_node(a, name);
    dlsh_session *s = a->s;
    if (result) *result = dlsh_void();
    if (!n) return DL_OK;
    if (result && n->kind == DLSH_N_EXPR) return dlsh_eval(s, n->kids[0], result);
    dlsh_flow flow = n->kind == DLSH_N_BLOCK ? dlsh_exec_block(s, n) : dlsh_exec(s, n);
    if (flow == DLSH_FAILED) return dl_failed();
    ((dlsh_args *)a)->flow = flow;
    return DL_OK;
}

dl_status dlsh_arg_fail(const dlsh_args *a, const char *name, dl_status code, const char *hint, const char *fmt, ...) {
    DLSH_FORMATTED(fmt, dlsh_vfail(code, hint, fmt, ap));
    const dlsh_node *n = name ? dlsh_arg_node(a, name) : NULL;
    return dlsh_at(a->s, n ? n : a->node, code);
}

/* Where byte `at` of the text stands in the source, which has it in quotes or as a bare word; -1: it was computed. */
static int literal_at(const dlsh_args *a, const dlsh_node *n, const char *text, int at) {
    if (!n || !a->s->unit) return -1;
    const dlsh_unit *unit = a->s->unit;
    int size = (int)strlen(text);
    for (int from = n->span.start; from < n->span.end; from++) {
        if (unit->text[from] != '"' && unit->text[from] != '\'') continue;
        int place = dlsh_string_byte(unit, from, text, at);
        if (place >= 0) return place;
    }
    const int from = n->span.end - size;
    const int bare = from >= n->span.start && from > 0 && unit->text[from - 1] == '=' &&
                     !strncmp(unit->text + from, text, (size_t)size);
    return bare ? from + at : -1;
}

dl_status dlsh_arg_fail_in(const dlsh_args *a, const char *name, int at, int length, dl_status code, const char *hint,
                           const char *fmt, ...) {
    const dlsh_node *n = dlsh_arg_node(a, name);
    const char *text = dlsh_arg_str(a, name);
    const int from = text ? literal_at(a, n, text, at) : -1, end = text ? literal_at(a, n, text, at + length) : -1;
    char shown[512];
    va_list ap;
    va_start(ap, fmt);
    if (from < 0) {
        snprintf(shown, sizeof shown, "%s%s'%.*s' stands in %s='%.80s'", hint ? hint : "", hint && *hint ? "; " : "",
                 text ? length : 0, text ? text + at : "", name, text ? text : "");
        dlsh_vfail(code, shown, fmt, ap);
        code = dlsh_at(a->s, n ? n : a->node, code);
    } else {
        vsnprintf(shown, sizeof shown, fmt, ap);
        code = dlsh_fail_in_text(a->s, a->s->unit, from, end > from ? end - from : length, code, hint, "%s", shown);
    }
    va_end(ap);
    return code;
}

dl_status dlsh_arg_fail_at(const dlsh_args *a, const char *name, int i, dl_status code, const char *hint,
                           const char *fmt, ...) {
    DLSH_FORMATTED(fmt, dlsh_vfail(code, hint, fmt, ap));
    const dlsh_arg_item *it = item(a, name, i);
    return dlsh_at(a->s, it && it->node ? it->node : a->node, code);
}
