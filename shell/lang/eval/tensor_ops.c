/* Ops of libdlcore as functions, methods and operators; a new op needs no change here. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/eval/args.h"
#include "dlcore/copy.h"

/* What a function value points to: an op, and whether it works in place (name_). There is one for each name. */
typedef struct op_entry {
    struct op_entry *next;
    char name[48];
    dl_op_info info;
    int in_place, ntensors, list; /* list: the last tensor argument takes a list */
    int plain;                    /* the tensor arguments come first */
} op_entry;

static op_entry *entries;

/* Rows that are called instead where a tensor is given for an attribute. */
static const struct { const char *row, *form; } forms[] = {{"clamp", "clamp_bounds"}};

/* Is the row for calls by name? A form is reached by its row. */
static int is_callable(const dl_op_info *info) {
    for (size_t i = 0; i < DLSH_COUNT(forms); i++)
        if (!strcmp(forms[i].form, info->name)) return 1;
    return !info->internal;
}

/* What the table says of the row `base`. 0: there is no such function. */
static int describe(op_entry *e, const char *base) {
    dl_op_info info;
    if (!dl_op_describe_name(base, &info) || !is_callable(&info)) return 0;
    e->info = info;
    e->ntensors = e->list = 0;
    e->plain = 1;
    for (int i = 0; i < info.nargs; i++) {
        if (info.args[i].input < 0) continue;
        e->plain &= i == e->ntensors++;
        e->list |= !strcmp(info.args[i].kind, "tensors");
    }
    return 1;
}

static op_entry *make_entry(const char *name) {
    char base[48];
    size_t n = strlen(name);
    dl_op_info info;
    int in_place = n > 1 && name[n - 1] == '_' && name[0] != '_';
    if (n >= sizeof base) return NULL;
    memcpy(base, name, n + 1);
    if (in_place) base[n - 1] = 0;
    if (!dl_op_describe_name(base, &info) || !is_callable(&info)) return NULL;
    if (in_place && (!info.nargs || strcmp(info.args[0].kind, "tensor"))) return NULL;
    op_entry *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    memcpy(e->name, name, n + 1);
    e->in_place = in_place;
    describe(e, base);
    e->next = entries;
    return entries = e;
}

void dlsh_op_renew(const char *name) {
    size_t n = strlen(name);
    for (op_entry *e = entries; e; e = e->next)
        if (!strncmp(e->name, name, n) && (!e->name[n] || !strcmp(e->name + n, "_"))) describe(e, name);
}

static op_entry *entry(const char *name) {
    for (op_entry *e = entries; e; e = e->next)
        if (!strcmp(e->name, name)) return e;
    return make_entry(name);
}

dlsh_value dlsh_op_value(const char *name) {
    const op_entry *e = entry(name);
    return e && !e->in_place && !e->info.internal ? (dlsh_value){DLSH_OP, {.op = e}} : dlsh_void();
}

/* Methods that are not the function of their name, as in PyTorch. */
static const char *const own_methods[][2] = {{"unfold", "windows"}};

dlsh_value dlsh_op_method(const char *name) {
    for (size_t i = 0; i < DLSH_COUNT(own_methods); i++)
        if (!strcmp(name, own_methods[i][0])) name = own_methods[i][1];
    const op_entry *e = entry(name);
    return e && !e->info.internal && e->ntensors && !(e->list && e->ntensors == 1) ? (dlsh_value){DLSH_OP, {.op = e}}
                                                                                   : dlsh_void();
}

const char *dlsh_op_value_name(dlsh_value f) { return ((const op_entry *)f.as.op)->name; }

const char *dlsh_nearest_op(const char *name) {
    const char *names[512];
    dl_op_info info;
    int n = 0;
    for (int i = 0; n < 512 && dl_op_describe(i, &info); i++)
        if (!info.internal) names[n++] = info.name;
    return dlsh_nearest(name, names, n);
}

/* ---------------------------------------------------------------- operands */

dl_tensor *dlsh_operand(dlsh_value v) {
    switch (v.type) {
    case DLSH_TENSOR: return dl_ref(v.as.tensor);
    case DLSH_INT: return dl_scalar_i(v.as.i);
    case DLSH_FLOAT: return dl_scalar_f(v.as.f);
    case DLSH_BOOL: return dl_scalar_b((int)v.as.i);
    case DLSH_LIST:
        dlsh_fail(DL_ERR_TYPE, "tensor([...]) makes a tensor of a list", "expected a tensor, got a list");
        return NULL;
    default: dlsh_fail(DL_ERR_TYPE, NULL, "expected a tensor, got %s", dlsh_a(v)); return NULL;
    }
}

static dl_status result(dl_tensor *t, dlsh_value *out) {
    *out = dlsh_tensor(t);
    return t ? DL_OK : dl_failed();
}

dl_status dlsh_tensor_binary(dlsh_op op, dlsh_value a, dlsh_value b, dlsh_value *out) {
    dl_tensor *in[2] = {dlsh_operand(a), NULL}, *res[8] = {0};
    int n = 0;
    dl_status st = in[0] && (in[1] = dlsh_operand(b)) ? DL_OK : dl_failed();
    if (st && !in[0]) in[1] = NULL;
    if (st == DL_ERR_TYPE) /* which of the two is told; other causes, such as no memory, stay */
        dlsh_fail(st, dl_error_last()->hint, "%s does not work on %s and %s", dlsh_op_text(op), dlsh_a(a), dlsh_a(b));
    if (!st) st = dl_op_call(dlsh_op_name(op), in, 2, NULL, res, &n);
    dl_unref(in[0]);
    dl_unref(in[1]);
    return st ? st : result(res[0], out);
}

/* As in PyTorch a tensor that is changed in place keeps its shape, and takes no result of a higher kind of dtype. */
dl_status dlsh_tensor_check_kept(const dl_tensor *t, const dl_tensor *result, const char *instead) {
    dl_dtype from = dl_dtype_of(result), to = dl_dtype_of(t);
    int same = dl_ndim(t) == dl_ndim(result);
    for (int i = 0; same && i < dl_ndim(t); i++) same = dl_shape(t)[i] == dl_shape(result)[i];
    if (same && dl_dtype_kind(from) <= dl_dtype_kind(to)) return DL_OK;
    char hint[200];
    DLSH_SCOPED_BUF sizes = {0};
    for (int k = 0; k < 2; k++) {
        const dl_tensor *x = k ? t : result;
        dlsh_buf_puts(&sizes, k ? " cannot be written into a tensor of shape [" : "a result of shape [");
        for (int i = 0; i < dl_ndim(x); i++) dlsh_buf_printf(&sizes, "%s%ld", i ? "," : "", dl_shape(x)[i]);
        dlsh_buf_puts(&sizes, "]");
    }
    if (instead)
        snprintf(hint, sizeof hint, "%.120s makes a new tensor%s%s", instead, same ? " of dtype " : "",
                 same ? dl_dtype_name(from) : "");
    else
        snprintf(hint, sizeof hint, "x = x.to(%s) makes a tensor that can hold it", dl_dtype_name(from));
    if (!same) return dlsh_fail(DL_ERR_SHAPE, hint, "%s", dlsh_buf_text(&sizes));
    return dlsh_fail(DL_ERR_DTYPE, hint, "a result of dtype %s cannot be written into a tensor of dtype %s",
                     dl_dtype_name(from), dl_dtype_name(to));
}

dl_tensor *dlsh_read_in_place(const char *op, dl_tensor *t, dl_tensor *const *others, int n) {
    int recorded = dl_requires_grad(t);
    for (int i = 0; i < n; i++) recorded |= others[i] && dl_requires_grad(others[i]);
    if (!recorded || !dl_grad_mode_get() || !strcmp(op, "add") || !strcmp(op, "sub")) return dl_ref(t);
    return dl_clone(t);
}

dl_status dlsh_tensor_update(dlsh_op op, dl_tensor *t, dlsh_value v, const char *instead) {
    DLSH_DROPPED dlsh_value r = dlsh_void();
    int other = v.type == DLSH_TENSOR;
    dl_tensor *from = dlsh_read_in_place(dlsh_op_name(op), t, &v.as.tensor, other);
    dl_status st = from ? dlsh_tensor_binary(op, (dlsh_value){DLSH_TENSOR, {.tensor = from}}, v, &r) : dl_failed();
    dl_unref(from);
    if (!st) st = dlsh_tensor_check_kept(t, r.as.tensor, instead);
    if (!st) st = dl_assign(t, r.as.tensor);
    return st;
}

dl_status dlsh_tensor_unary(dlsh_op op, dlsh_value a, dlsh_value *out) {
    dl_tensor *in = a.as.tensor, *res[8] = {0};
    int n = 0;
    if (op == DLSH_OP_NOT && dl_dtype_of(in) != DL_BOOL) { /* like `if`: the truth of the one element */
        int yes;
        DLSH_TRY(dlsh_truth(a, &yes));
        *out = dlsh_bool(!yes);
        return DL_OK;
    }
    DLSH_TRY(dl_op_call(dlsh_op_name(op), &in, 1, NULL, res, &n));
    return result(res[0], out);
}

/* ---------------------------------------------------------------- plain numbers */

static double sign(double x) { return isnan(x) ? x : (x > 0) - (x < 0); }
static double square(double x) { return x * x; }
static double rsqrt(double x) { return 1 / sqrt(x); }
static double reciprocal(double x) { return 1 / x; }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* Functions of one number, so that sqrt(2.0) needs no tensor; names as in the op table. */
static const struct {
    const char *name;
    double (*fn)(double);
} scalar_functions[] = {
    {"exp", exp},
    {"expm1", expm1},
    {"log", log},
    {"log2", log2},
    {"log10", log10},
    {"log1p", log1p},
    {"sqrt", sqrt},
    {"sin", sin},
    {"cos", cos},
    {"tan", tan},
    {"atan", atan},
    {"tanh", tanh},
    {"erf", erf},
    {"sign", sign},
    {"square", square},
    {"rsqrt", rsqrt},
    {"reciprocal", reciprocal},
    {"sigmoid", sigmoid},
    {"asin", asin},
    {"acos", acos},
    {"sinh", sinh},
    {"cosh", cosh},
};

/* The op on a single plain number; 0 when it takes the general way. */
static int scalar_call(const op_entry *e, const dlsh_callargs *args, dlsh_value *out) {
    if (args->n != 1 || args->names || !dlsh_is_number(args->values[0]) || e->in_place) return 0;
    for (size_t i = 0; i < DLSH_COUNT(scalar_functions); i++)
        if (!strcmp(scalar_functions[i].name, e->name)) {
            *out = dlsh_float(scalar_functions[i].fn(dlsh_number(args->values[0])));
            return 1;
        }
    return 0;
}

/* A tensor of a number of the language: f64 or i64, since no tensor decides the dtype of the result. */
static dl_tensor *plain_number(dlsh_value v) {
    double f = v.type == DLSH_FLOAT ? v.as.f : 0;
    long i = v.as.i;
    unsigned char b = v.as.i != 0;
    if (v.type == DLSH_FLOAT) return dl_tensor_from(0, NULL, DL_F64, 0, &f);
    return v.type == DLSH_INT ? dl_tensor_from(0, NULL, DL_I64, 0, &i) : dl_tensor_from(0, NULL, DL_BOOL, 0, &b);
}

static dl_status to_number(dl_tensor *t, dlsh_value *out) {
    double f;
    long i;
    int is_float = dl_dtype_is_float(dl_dtype_of(t));
    double parts[2];
    if (dl_dtype_is_complex(dl_dtype_of(t))) {
        DLSH_TRY(dl_item_c(t, parts));
        return dlsh_give(dlsh_tensor(dl_scalar_c(parts[0], parts[1])), out);
    }
    DLSH_TRY(is_float ? dl_item_f(t, &f) : dl_item_i(t, &i));
    *out = is_float ? dlsh_float(f) : dl_dtype_of(t) == DL_BOOL ? dlsh_bool((int)i) : dlsh_int(i);
    return DL_OK;
}

dl_status dlsh_tensor_item(dl_tensor *t, dlsh_value *out) { return to_number(t, out); }

/* ---------------------------------------------------------------- calls */

enum { MAX_IN = 1024 };

typedef struct op_call {
    const op_entry *e;
    dl_tensor **in; /* owned */
    int nin, tensors_seen;
    dlsh_buf attrs;
    unsigned given; /* bits of info.args */
    int wants_grad;
} op_call;

static dl_status add_tensor(op_call *c, dlsh_value v, int at) {
    dl_tensor *t = v.type == DLSH_NONE ? NULL : dlsh_operand(v);
    if (!t && v.type != DLSH_NONE) return dl_failed();
    if (v.type == DLSH_TENSOR) c->tensors_seen = 1;
    c->in[at] = t;
    if (at >= c->nin) c->nin = at + 1;
    return DL_OK;
}

static dl_status add_list(op_call *c, dlsh_value v, int at) {
    if (v.type == DLSH_TENSOR) return add_tensor(c, v, at);
    if (v.type != DLSH_LIST)
        return dlsh_fail(DL_ERR_TYPE, "write cat([a, b], dim=0)", "expected a list of tensors, got %s", dlsh_a(v));
    if (at + v.as.list->n > MAX_IN)
        return dlsh_fail(DL_ERR_VALUE, "join parts of the list first; x.unfold(dim, size, step) has all windows of x",
                         "at most %d tensors, got %d", MAX_IN, v.as.list->n);
    for (int i = 0; i < v.as.list->n; i++) DLSH_TRY(add_tensor(c, v.as.list->items[i], at + i));
    return DL_OK;
}

/* A list of integers; as padding also a word that the library knows. */
static int is_list(const dl_op_arg *a) { return !strcmp(a->kind, "ints") || !strcmp(a->kind, "ints, valid or same"); }

static dl_status wrong_kind(const op_call *c, const dl_op_arg *a, dlsh_value v) {
    const char *hint = v.type == DLSH_TENSOR       ? "x.item() is the number in a tensor of one element"
                       : !strcmp(a->kind, "dtype") ? DLSH_DTYPE_HINT
                                                   : NULL;
    const char *words = strcmp(a->kind, "ints, valid or same") ? "" : "\"valid\", \"same\", ";
    return dlsh_fail(DL_ERR_TYPE, hint, "%s must be %s%s%s, got %s", a->name, words,
                     strchr("aeiou", a->kind[0]) || is_list(a) ? "an " : "a ",
                     is_list(a) ? "int or a list of them" : a->kind, dlsh_a(v)),
           (void)c, DL_ERR_TYPE;
}

static dl_status put_int(op_call *c, const dl_op_arg *a, dlsh_value v, int *n) {
    long x = v.as.i;
    if (v.type != DLSH_INT &&
        (v.type != DLSH_TENSOR || dl_dtype_is_float(dl_dtype_of(v.as.tensor)) || dl_item_i(v.as.tensor, &x)))
        return wrong_kind(c, a, v);
    dlsh_buf_printf(&c->attrs, (*n)++ ? ",%ld" : "%ld", x);
    return DL_OK;
}

/* Pairs are one list after the other: dims=[[0, 1], [2, 0]]. */
static dl_status add_ints(op_call *c, const dl_op_arg *a, const dlsh_value *v, int n) {
    const dlsh_list *pair[2] = {0};
    int put = 0;
    if (n == 2 && v[0].type == DLSH_LIST && v[1].type == DLSH_LIST && v[0].as.list->n == v[1].as.list->n)
        pair[0] = v[0].as.list, pair[1] = v[1].as.list;
    dlsh_buf_puts(&c->attrs, "[");
    for (int k = 0; k < 2 && pair[0]; k++)
        for (int i = 0; i < pair[k]->n; i++) DLSH_TRY(put_int(c, a, pair[k]->items[i], &put));
    for (int i = 0; i < n && !pair[0]; i++) DLSH_TRY(put_int(c, a, v[i], &put));
    dlsh_buf_puts(&c->attrs, "]");
    return DL_OK;
}

/* Appends the attribute as text, which the library parses. */
static dl_status add_attr(op_call *c, const dl_op_arg *a, dlsh_value v) {
    int numeric = !strcmp(a->kind, "float") || !strcmp(a->kind, "number");
    if (v.type == DLSH_NONE && a->dflt) return DL_OK;
    dlsh_buf_printf(&c->attrs, "%s%s=", c->attrs.n ? " " : "", a->name);
    if (is_list(a) && (v.type != DLSH_STR || !strcmp(a->kind, "ints")))
        return v.type == DLSH_LIST ? add_ints(c, a, v.as.list->items, v.as.list->n) : add_ints(c, a, &v, 1);
    if (v.type == DLSH_INT && (numeric || !strcmp(a->kind, "int")))
        dlsh_buf_printf(&c->attrs, "%ld", v.as.i);
    else if (v.type == DLSH_FLOAT && numeric)
        dlsh_buf_printf(&c->attrs, "%.17g%s", v.as.f, v.as.f == floor(v.as.f) && fabs(v.as.f) < 1e15 ? ".0" : "");
    else if (dlsh_is_number(v) && !strcmp(a->kind, "string")) /* ord=1 beside ord="fro" */
        dlsh_buf_printf(&c->attrs, "%g", dlsh_number(v));
    else if (v.type == DLSH_BOOL && !strcmp(a->kind, "bool"))
        dlsh_buf_puts(&c->attrs, v.as.i ? "true" : "false");
    else if (v.type == DLSH_STR && !numeric && strcmp(a->kind, "int") && strcmp(a->kind, "bool") &&
             !strpbrk(v.as.str->s, "\"\n"))
        dlsh_buf_printf(&c->attrs, !*v.as.str->s || strpbrk(v.as.str->s, " =") ? "\"%s\"" : "%s", v.as.str->s);
    else if (dlsh_is_bool_type(v) && !strcmp(a->kind, "dtype"))
        dlsh_buf_puts(&c->attrs, "bool");
    else
        return wrong_kind(c, a, v);
    return DL_OK;
}

static dl_status no_argument(const op_call *c, const char *name) {
    const char *names[20] = {0};
    char hint[200];
    int n = c->e->info.nargs;
    for (int i = 0; i < n; i++) names[i] = c->e->info.args[i].name;
    const char *foreign = dlsh_foreign_argument(name), *nearest = foreign ? NULL : dlsh_nearest(name, names, n);
    if (foreign) return dlsh_fail(DL_ERR_NAME, foreign, "%s has no argument '%s'", c->e->name, name);
    size_t used = (size_t)snprintf(hint, sizeof hint, nearest ? "did you mean %s=?" : "its arguments are:", nearest);
    for (int i = 0; !nearest && i < n && used < sizeof hint; i++)
        used += (size_t)snprintf(hint + used, sizeof hint - used, " %s", names[i]);
    return dlsh_fail(DL_ERR_NAME, hint, "%s has no argument '%s'", c->e->name, name);
}

static int creates(const op_entry *e) {
    for (int i = 0; i < e->info.nargs; i++)
        if (!strcmp(e->info.args[i].kind, "device")) return 1;
    return 0;
}

static int default_device = -1; /* not chosen yet: a GPU if there is one, looked for when the first tensor is made */

int dlsh_default_device(void) {
    if (default_device < 0) default_device = dl_device_count() > 1;
    return default_device;
}

void dlsh_set_default_device(int device) { default_device = device; }

/* Adds the default device for ops that make new tensors. */
static void place_new(op_call *c) {
    const dl_op_info *info = &c->e->info;
    int device = dlsh_default_device();
    for (int i = 0; device && i < info->nargs; i++)
        if (!strcmp(info->args[i].kind, "device") && !(c->given >> i & 1))
            dlsh_buf_printf(&c->attrs, "%s%s=%s", c->attrs.n ? " " : "", info->args[i].name, dl_device_name(device));
}

static dl_status add_argument(op_call *c, const dl_op_arg *a, dlsh_value v) {
    if (a->input < 0) return add_attr(c, a, v);
    return strcmp(a->kind, "tensors") ? add_tensor(c, v, a->input) : add_list(c, v, a->input);
}

static dl_status named(op_call *c, const char *name, dlsh_value v) {
    const dl_op_info *info = &c->e->info;
    for (int i = 0; i < info->nargs; i++) {
        if (strcmp(info->args[i].name, name)) continue;
        if (c->given >> i & 1) return dlsh_fail(DL_ERR_TYPE, NULL, "%s got two values for '%s'", c->e->name, name);
        c->given |= 1u << i;
        return add_argument(c, &info->args[i], v);
    }
    if (creates(c->e) && (!strcmp(name, "grad") || !strcmp(name, "requires_grad")))
        return dlsh_truth(v, &c->wants_grad);
    const char *own = dlsh_argument_here(name);
    if (own && v.type == DLSH_BOOL && !strcmp(own, "correction")) v = dlsh_int(v.as.i); /* unbiased=false */
    for (int i = 0; own && i < info->nargs; i++)
        if (!strcmp(info->args[i].name, own)) return named(c, own, v);
    return no_argument(c, name);
}

/* zeros(2, 3), x.reshape(2, -1): ints written one after another fill the row's only list, if it must be given. */
static int gathers(const dl_op_info *info, int at) {
    int lists = 0;
    for (int i = 0; i < info->nargs; i++) lists += is_list(&info->args[i]);
    return lists == 1 && is_list(&info->args[at]) && !info->args[at].dflt;
}

static int is_positional(const dlsh_callargs *args, int i) { return i < args->n && !(args->names && args->names[i]); }

/* The argument that positional value v is for, `at` being the first that is still open: a tensor never stands for an
 * attribute, so gather(x, index, 0) is understood beside PyTorch's gather(x, 0, index). */
static int argument_for(const op_call *c, dlsh_value v, int at) {
    const dl_op_info *info = &c->e->info;
    if (v.type != DLSH_TENSOR || info->args[at].input >= 0) return at;
    for (int k = at; k < info->npositional; k++)
        if (info->args[k].input >= 0 && !(c->given >> k & 1)) return k;
    return at;
}

static dl_status too_many(const op_call *c, int n) {
    const dl_op_info *info = &c->e->info;
    DLSH_SCOPED_BUF hint = {0};
    dlsh_op_signature(&hint, info);
    return dlsh_fail(DL_ERR_TYPE, dlsh_buf_text(&hint), "%s takes at most %d arguments%s, got %d", c->e->name,
                     info->npositional, info->npositional < info->nargs ? " by position" : "", n);
}

/* Takes value i, and those after it that belong to the same argument. *i becomes the next one. */
static dl_status take(op_call *c, const dlsh_callargs *args, int at, int *i) {
    const dl_op_arg *a = &c->e->info.args[at];
    dlsh_value v = args->values[*i];
    int n = 1;
    c->given |= 1u << at;
    if (v.type == DLSH_INT && gathers(&c->e->info, at)) {
        while (is_positional(args, *i + n) && args->values[*i + n].type == DLSH_INT) n++;
        dlsh_buf_printf(&c->attrs, "%s%s=", c->attrs.n ? " " : "", a->name);
        DLSH_TRY(add_ints(c, a, args->values + *i, n));
    } else {
        DLSH_TRY(add_argument(c, a, v));
        if (!strcmp(a->kind, "tensors") && v.type == DLSH_TENSOR) /* the list's items one after another */
            for (; is_positional(args, *i + n) && args->values[*i + n].type == DLSH_TENSOR; n++)
                DLSH_TRY(add_list(c, args->values[*i + n], c->nin));
    }
    *i += n;
    return DL_OK;
}

/* randint(HIGH, SIZE), of whose bounds one is given: the lower one is 0. */
static void default_low(op_call *c, const dlsh_callargs *args) {
    if (!c->e->info.nargs || strcmp(c->e->info.args[0].name, "low") != 0) return;
    int bounds = 0;
    while (is_positional(args, bounds) && args->values[bounds].type == DLSH_INT) bounds++;
    for (int i = 0; args->names && i < args->n; i++)
        if (args->names[i]) bounds += !strcmp(args->names[i], "low") ? 2 : !strcmp(args->names[i], "high");
    if (bounds != 1) return;
    dlsh_buf_puts(&c->attrs, "low=0");
    c->given |= 1;
}

static dl_status positional(op_call *c, const dlsh_callargs *args) {
    const dl_op_info *info = &c->e->info;
    int at = 0;
    default_low(c, args);
    for (int i = 0; is_positional(args, i);) {
        while (at < info->npositional && c->given >> at & 1) at++;
        if (at >= info->npositional) return too_many(c, args->n);
        DLSH_TRY(take(c, args, argument_for(c, args->values[i], at), &i));
    }
    return DL_OK;
}

void dlsh_op_signature(dlsh_buf *b, const dl_op_info *op) {
    dlsh_buf_printf(b, "%s(", op->name);
    for (int i = 0; i < op->nargs; i++) {
        const dl_op_arg *a = &op->args[i];
        dlsh_buf_printf(b, "%s%s%s%s%s", i ? ", " : "", i == op->npositional ? "*, " : "", a->name, a->dflt ? "=" : "",
                        a->dflt ? a->dflt : "");
    }
    dlsh_buf_puts(b, ")");
}

static dl_status missing(const op_call *c) {
    const dl_op_info *info = &c->e->info;
    int i = 0;
    while (i < info->nargs && (info->args[i].dflt || c->given >> i & 1)) i++;
    if (i == info->nargs) return DL_OK;
    DLSH_SCOPED_BUF hint = {0};
    dlsh_op_signature(&hint, info);
    return dlsh_fail(DL_ERR_TYPE, dlsh_buf_text(&hint), "%s needs %s '%s'", c->e->name,
                     info->args[i].input >= 0 ? "a tensor for" : "a value for", info->args[i].name);
}

/* The failing op, where the record does not name it yet. */
static dl_status name_op(const op_entry *e, dl_status st) {
    dl_error err;
    if (!st || !dl_error_take(&err)) return st;
    if (!err.op[0] && strncmp(err.message, e->name, strlen(e->name))) snprintf(err.op, sizeof err.op, "%s", e->name);
    return dl_error_put(&err);
}

/* Whether all tensor arguments are numbers of the language, so that the result is one, too. */
static int all_plain(const dlsh_callargs *args, const op_entry *e) {
    if (!e->plain) return 0;
    int n = args->n < e->ntensors ? args->n : e->ntensors;
    for (int i = 0; i < n; i++)
        if (!dlsh_is_number(args->values[i]) && args->values[i].type != DLSH_BOOL) return 0;
    return e->ntensors > 0 && n > 0 && !e->list && !e->in_place;
}

static dl_status give(const op_call *c, dl_tensor **res, int n, int plain, dlsh_value *out) {
    dl_status st = DL_OK;
    if (c->wants_grad && n == 1) st = dl_set_requires_grad(res[0], 1);
    if (!st && c->e->in_place) {
        char instead[96];
        snprintf(instead, sizeof instead, "without the underscore %.60s", c->e->info.name);
        st = dlsh_tensor_check_kept(c->in[0], res[0], instead);
    }
    if (!st && c->e->in_place && (st = dl_assign(c->in[0], res[0])) == DL_OK) {
        DLSH_OWNED dl_tensor *was = res[0];
        res[0] = dl_ref(c->in[0]);
    }
    if (!st && n == 1 && plain && dl_ndim(res[0]) == 0) {
        st = to_number(res[0], out);
        dl_unref(res[0]);
        return st;
    }
    if (!st && n == 1) {
        *out = dlsh_tensor(res[0]);
        return DL_OK;
    }
    dlsh_value list = st ? dlsh_void() : dlsh_new_list(n);
    if (!st && dlsh_failed(list)) st = DL_ERR_MEMORY;
    for (int i = 0; i < n; i++)
        if (st)
            dl_unref(res[i]);
        else
            st = dlsh_list_push(list.as.list, dlsh_tensor(res[i]));
    if (!st && n == c->e->info.nout) list.as.list->names = c->e->info.out, list.as.list->nnames = n;
    return dlsh_give_filled(st, list, out);
}

/* Inputs as tensors of the numbers that they are made of; floating: of f64 all. */
static dl_status make_plain(op_call *c, const dlsh_callargs *args, int floating) {
    for (int i = 0; i < c->nin; i++) {
        dlsh_value v = args->values[i];
        dl_unref(c->in[i]);
        c->in[i] = plain_number(floating && v.type != DLSH_FLOAT ? dlsh_float((double)v.as.i) : v);
        if (!c->in[i]) return dl_failed();
    }
    return DL_OK;
}

static dl_status run_op(op_call *c, dl_tensor **res, int *n) {
    return dl_op_call(c->e->info.name, c->in, c->nin, c->attrs.n ? dlsh_buf_text(&c->attrs) : NULL, res, n);
}

static int has_tensor(const dlsh_callargs *args) {
    for (int i = 1; i < args->n; i++)
        if (args->values[i].type == DLSH_TENSOR) return 1;
    return 0;
}

/* The row for this call of e: a form of it, or e. */
static const op_entry *form_for(const op_entry *e, const dlsh_callargs *args) {
    char name[48];
    for (size_t i = 0; i < DLSH_COUNT(forms); i++) {
        if (strcmp(forms[i].row, e->info.name) || !has_tensor(args)) continue;
        snprintf(name, sizeof name, "%s%s", forms[i].form, e->in_place ? "_" : "");
        return entry(name);
    }
    return e;
}

dl_status dlsh_call_op(dlsh_value op, const dlsh_callargs *args, dlsh_value *out) {
    op_call c = {.e = dlsh_failed(op) ? NULL : form_for(op.as.op, args)};
    if (!c.e) return dlsh_fail(DL_ERR_MEMORY, NULL, "no memory to call an op");
    dl_tensor *few[16] = {0}, *res[8] = {0};
    int n = 0, plain = all_plain(args, c.e);
    *out = dlsh_void();
    if (args->n == 1 && args->values[0].type == DLSH_TENSOR && !strcmp(c.e->info.name, "where"))
        return name_op(c.e, dlsh_nonzero_columns(args->values[0].as.tensor, out));
    if (scalar_call(c.e, args, out)) return DL_OK;
    c.in = c.e->list ? calloc(MAX_IN, sizeof *c.in) : few;
    if (!c.in) return dlsh_no_memory("a call");
    dl_status st = positional(&c, args);
    for (int i = 0; i < args->n && !st; i++)
        if (args->names && args->names[i]) st = named(&c, args->names[i], args->values[i]);
    if (!st) st = missing(&c);
    place_new(&c);
    if (!st && plain) st = make_plain(&c, args, 0);
    dl_tensor *into = c.in[0], *from = NULL;
    if (!st && c.e->in_place) {
        from = c.in[0] = dlsh_read_in_place(c.e->info.name, into, c.in + 1, c.nin - 1);
        if (!from) st = dl_failed();
    }
    if (!st) st = run_op(&c, res, &n);
    const dl_dtype made = !st && plain && n ? dl_dtype_of(res[0]) : DL_F64;
    if (dl_dtype_is_float(made) && made != DL_F64) { /* of whole numbers; floats of the language are f64 */
        for (int i = 0; i < n; i++) dl_unref(res[i]);
        st = make_plain(&c, args, 1);
        if (!st) st = run_op(&c, res, &n);
        into = c.in[0];
    }
    c.in[0] = into;
    dl_unref(from);
    if (!st) st = give(&c, res, n, plain, out);
    for (int i = 0; i < c.nin; i++) dl_unref(c.in[i]);
    if (c.in != few) free(c.in);
    dlsh_buf_free(&c.attrs);
    return name_op(c.e, st);
}
