/* Ops from C functions. */
#include "ffi/call/userop.h"

#include <ffi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffi/compiler/block.h"
#include "ffi/cparse/cwords.h"
#include "ffi/call/guard.h"
#include "ffi/inside.h"
#include "lang/eval/interp.h"

enum { MAX_PARAMS = 48 };

/* What an argument is. Tensors are numbered: inputs, results, gradients of results, gradients of inputs. */
typedef enum role_kind { MEMORY, TENSOR, COUNT, NDIM, SHAPE, NUMBER, STREAM } role_kind;
enum {
    IN = 0,
    OUT = DLSH_OP_MAX_IN,
    GOUT = OUT + DLSH_OP_MAX_OUT,
    GIN = GOUT + DLSH_OP_MAX_OUT,
    NTENSOR = GIN + DLSH_OP_MAX_IN
};

typedef struct role {
    role_kind kind;
    int index; /* of a tensor, or of a number */
} role;

typedef struct op_function {
    dlsh_value value; /* VOID: there is none */
    dlsh_cfunc *f;
    int n;
    role roles[MAX_PARAMS];
    ffi_cif cif;
    ffi_type *types[MAX_PARAMS];
    int real;        /* its block says `real`, so that it can be compiled in double */
    void *in_double; /* compiled so; NULL: not yet */
    dlsh_clib *double_lib;
} op_function;

struct dlsh_userop {
    dlsh_userop *next;
    dlsh_session *s;
    char *name;
    int nin, nout, nattr;
    char *in[DLSH_OP_MAX_IN], *out[DLSH_OP_MAX_OUT], *attr[DLSH_OP_MAX_ATTR];
    int in_dtype[DLSH_OP_MAX_IN], out_dtype[DLSH_OP_MAX_OUT]; /* -1: real */
    unsigned save_out;
    op_function forward[2], backward[2]; /* on the CPU, on CUDA */
    dlsh_value shape, sample;
};

static dlsh_userop *ops; /* those that stand, by name */

dlsh_userop *dlsh_userop_find(const char *name) {
    dlsh_userop *u = ops;
    while (u && strcmp(u->name, name)) u = u->next;
    return u;
}

static void op_function_free(op_function *c) {
    dlsh_drop(c->value);
    dlsh_clib_drop(c->double_lib);
    c->value = dlsh_void();
    c->double_lib = NULL;
}

static void drop_values(dlsh_userop *u) {
    for (int i = 0; i < 2; i++) {
        op_function_free(&u->forward[i]);
        op_function_free(&u->backward[i]);
    }
    dlsh_drop(u->shape);
    dlsh_drop(u->sample);
    u->shape = u->sample = dlsh_void();
}

/* The session ends: its ops stay in the table, and calling one is an error. */
void dlsh_userops_end(const dlsh_session *s) {
    for (dlsh_userop *u = ops; u; u = u->next)
        if (u->s == s) {
            drop_values(u);
            u->s = NULL;
        }
}

static void userop_free(void *ctx) {
    dlsh_userop *u = ctx;
    for (dlsh_userop **p = &ops; *p; p = &(*p)->next)
        if (*p == u) {
            *p = u->next;
            break;
        }
    drop_values(u);
    for (int i = 0; i < u->nin; i++) free(u->in[i]);
    for (int i = 0; i < u->nout; i++) free(u->out[i]);
    for (int i = 0; i < u->nattr; i++) free(u->attr[i]);
    free(u->name);
    free(u);
}

/* ---------------------------------------------------------------- which parameter is what */

static int index_of(char *const *names, int n, const char *name, size_t len) {
    for (int i = 0; i < n; i++)
        if (strlen(names[i]) == len && !memcmp(names[i], name, len)) return i;
    return -1;
}

/* The number of the tensor with this name: an input, a result, or the gradient of one; -1: none. */
static int tensor_of(const dlsh_userop *u, const char *name, size_t len) {
    int i = index_of(u->in, u->nin, name, len);
    if (i >= 0) return IN + i;
    if ((i = index_of(u->out, u->nout, name, len)) >= 0) return OUT + i;
    size_t skip = len > 5 && !memcmp(name, "grad_", 5) ? 5 : len > 1 && *name == 'g' ? 1 : 0;
    if (!skip) return -1;
    if ((i = index_of(u->out, u->nout, name + skip, len - skip)) >= 0) return GOUT + i;
    return (i = index_of(u->in, u->nin, name + skip, len - skip)) >= 0 ? GIN + i : -1;
}

static int is_tensor_type(const dlsh_ctype *t) {
    return t->kind == DLSH_C_POINTER && t->base->plain->tag && !strcmp(t->base->plain->tag, "dl_tensor");
}

/* The dtype of the memory behind a pointer: -1 for `real`, -2 when no tensor has it. */
static int dtype_behind(const dlsh_ctype *t) {
    switch (t->base->plain->kind) {
    case DLSH_C_FLOAT:
    case DLSH_C_DOUBLE:
    case DLSH_C_VOID: return -1;
    case DLSH_C_LONG:
    case DLSH_C_LLONG: return DL_I64;
    case DLSH_C_INT: return DL_I32;
    case DLSH_C_UCHAR: return DL_U8;
    case DLSH_C_BOOL: return DL_BOOL;
    default: return is_tensor_type(t) ? -1 : -2;
    }
}

/* Fails for a tensor parameter with an unknown name; the hint lists the valid names. */
static dl_status unknown_name(const dlsh_userop *u, const op_function *c, const dlsh_cparam *p, int backward) {
    DLSH_SCOPED_BUF names = {0};
    for (int k = 0; k < u->nin + u->nout; k++) {
        const char *tensor = k < u->nin ? u->in[k] : u->out[k - u->nin];
        dlsh_buf_printf(&names, "%s%s", k ? ", " : "its names are ", tensor);
        if (backward) dlsh_buf_printf(&names, ", g%s", tensor);
    }
    return dlsh_fail(DL_ERR_TYPE, dlsh_buf_text(&names), "op %s: parameter '%s' of %s names no input%s", u->name,
                     p->name, c->f->proto->name, backward ? ", no result and no gradient of one" : " and no result");
}

static dl_status bad_parameter(const dlsh_userop *u, const op_function *c, const dlsh_cparam *p, const char *why) {
    return dlsh_fail(DL_ERR_TYPE, c->f->proto->text, "op %s: parameter '%s' of %s %s", u->name, p->name ? p->name : "?",
                     c->f->proto->name, why);
}

/* Checks the type of a parameter that is not a tensor: sizes are `const long *`, numbers convert. */
static dl_status check_small(const dlsh_userop *u, const op_function *c, const dlsh_cparam *p, const role *r) {
    const dlsh_ctype *t = p->type, *to = t->kind == DLSH_C_POINTER ? t->base->plain : NULL;
    if (r->kind == SHAPE && !(to && (to->kind == DLSH_C_LONG || to->kind == DLSH_C_LLONG)))
        return bad_parameter(u, c, p, "holds sizes: const long *");
    if (r->kind == STREAM && !to) return bad_parameter(u, c, p, "is the stream: void *");
    if (r->kind != SHAPE && r->kind != STREAM && !dlsh_c_is_integer(t->plain) && !dlsh_c_is_float(t->plain))
        return bad_parameter(u, c, p, "is a number");
    return DL_OK;
}

/* The role of a parameter that is not a tensor, by its name: n, NAME_n, NAME_ndim, NAME_shape, an attribute, stream. */
static int small_role(const dlsh_userop *u, const dlsh_cparam *p, role *r) {
    static const struct {
        const char *ending;
        role_kind kind;
    } endings[] = {{"_n", COUNT}, {"_ndim", NDIM}, {"_shape", SHAPE}};
    size_t len = strlen(p->name);
    int a = index_of(u->attr, u->nattr, p->name, len);
    if (a >= 0) return *r = (role){NUMBER, a}, 1;
    if (!strcmp(p->name, "n")) return *r = (role){COUNT, IN}, 1;
    if (!strcmp(p->name, "stream")) return *r = (role){STREAM, 0}, 1;
    for (size_t i = 0; i < DLSH_COUNT(endings); i++) {
        size_t k = strlen(endings[i].ending);
        if (len <= k || strcmp(p->name + len - k, endings[i].ending)) continue;
        int t = tensor_of(u, p->name, len - k);
        if (t >= 0) return *r = (role){endings[i].kind, t}, 1;
    }
    return 0;
}

static char *copy_name(const char *s) {
    char *c = strdup(s);
    if (!c) dlsh_no_memory("an op");
    return c;
}

/* A pointer parameter of the forward function that is not an input is a result. */
static dl_status add_result(dlsh_userop *u, const op_function *c, const dlsh_cparam *p) {
    if (p->type->base->is_const)
        return bad_parameter(u, c, p, "is not an input of the op, and as const no result either");
    if (u->nout == DLSH_OP_MAX_OUT) return bad_parameter(u, c, p, "is a ninth result; an op has at most 8");
    u->out_dtype[u->nout] = dtype_behind(p->type);
    u->out[u->nout] = copy_name(p->name);
    return u->out[u->nout] ? (u->nout++, DL_OK) : DL_ERR_MEMORY;
}

/* FORWARD: finds the results; ALIKE: the forward function of another device, which has the same ones. */
enum { BACKWARD, FORWARD, ALIKE };

static dl_status tensor_role(dlsh_userop *u, op_function *c, const dlsh_cparam *p, int kind, role *r) {
    int t = tensor_of(u, p->name, strlen(p->name)), forward = kind != BACKWARD;
    if (kind == FORWARD && (t < 0 || t >= OUT)) {
        DLSH_TRY(add_result(u, c, p));
        t = OUT + u->nout - 1;
    }
    if (t < 0 || (forward && t >= GOUT)) return unknown_name(u, c, p, !forward);
    int written = forward ? t >= OUT : t >= GIN, dtype = dtype_behind(p->type);
    if (dtype == -2) return bad_parameter(u, c, p, "points to what no tensor holds");
    if (!written && !p->type->base->is_const) return bad_parameter(u, c, p, "is only read: declare it const");
    if (written && p->type->base->is_const) return bad_parameter(u, c, p, "is to be written, and so cannot be const");
    int known = t < OUT ? u->in_dtype[t] : t < GOUT ? u->out_dtype[t - OUT] : dtype;
    if (kind != FORWARD && dtype != known && p->type->base->kind != DLSH_C_VOID && !is_tensor_type(p->type))
        return bad_parameter(u, c, p, "has another type in the forward function");
    if (t < OUT && kind == FORWARD) u->in_dtype[t] = dtype;
    if (!forward && t >= OUT && t < GOUT) u->save_out |= 1u << (t - OUT);
    *r = (role){is_tensor_type(p->type) ? TENSOR : MEMORY, t};
    return DL_OK;
}

/* Reads a function's parameters. */
static dl_status read_function(dlsh_userop *u, op_function *c, dlsh_value v, int kind, const char *what) {
    c->value = dlsh_void();
    if (v.type == DLSH_VOID) return DL_OK;
    c->f = dlsh_cfunc_of(v);
    if (!c->f)
        return dlsh_fail(DL_ERR_TYPE, "it is made by a C block or by extern", "op %s: %s= takes a C function, not %s",
                         u->name, what, dlsh_a(v));
    int cuda = !strncmp(what, "cuda", 4), on_gpu = c->f->lib && c->f->lib->device;
    if (cuda != on_gpu)
        return dlsh_fail(DL_ERR_TYPE,
                         cuda ? "CUDA { ... } compiles functions that launch kernels"
                              : "cuda= and cuda_backward= take those of CUDA blocks",
                         "op %s: %s= takes a function that works on %s, and %s does not", u->name, what,
                         cuda ? "a GPU" : "the CPU", c->f->proto->name);
    c->value = dlsh_ref(v);
    const dlsh_cproto *p = c->f->proto;
    dlsh_cspace *space = dlsh_c_space(u->s);
    dlsh_cblock *b = dlsh_cblock_of(c->f);
    c->real = b && dlsh_c_mentions(b->text, "real");
    c->n = p->nparams;
    if (c->n > MAX_PARAMS || p->type->varargs)
        return dlsh_fail(DL_ERR_TYPE, p->text, "op %s: %s has too many parameters", u->name, p->name);
    for (int i = 0; i < c->n; i++) {
        const dlsh_cparam *q = &p->params[i];
        if (!q->name) return bad_parameter(u, c, q, "has no name, by which it would be known");
        if (!(c->types[i] = dlsh_c_ffi_type(space, q->type))) return dl_failed();
        if (small_role(u, q, &c->roles[i])) {
            DLSH_TRY(check_small(u, c, q, &c->roles[i]));
            continue;
        }
        if (q->type->kind != DLSH_C_POINTER)
            return bad_parameter(u, c, q, "is neither a tensor nor a number of the op");
        DLSH_TRY(tensor_role(u, c, q, kind, &c->roles[i]));
    }
    ffi_type *result = dlsh_c_ffi_type(space, p->type->base);
    if (!result) return dl_failed();
    if (ffi_prep_cif(&c->cif, FFI_DEFAULT_ABI, (unsigned)c->n, result, c->types) != FFI_OK)
        return dlsh_fail(DL_ERR_UNSUPPORTED, NULL, "libffi cannot call %s", p->text);
    return DL_OK;
}

/* ---------------------------------------------------------------- calls */

typedef struct job {
    op_function *c;
    void *addr;
    void **ptrs;
    dlsh_cslot result;
} job;

static void body(void *arg) {
    job *j = arg;
    ffi_call(&j->c->cif, FFI_FN(j->addr), &j->result, j->ptrs);
}

/* The function's address for a dtype: code that uses `real` is compiled again for f64, once. */
static dl_status address_of(op_function *c, dl_dtype dtype, void **addr) {
    *addr = c->f->addr;
    if (dtype != DL_F64 || !c->real) return DL_OK;
    if (!c->in_double)
        DLSH_TRY(dlsh_cblock_variant(dlsh_cblock_of(c->f), "-DDLSH_REAL=double", c->f->proto->name, &c->in_double,
                                     &c->double_lib));
    *addr = c->in_double;
    return DL_OK;
}

static void put_number(const dlsh_ctype *t, double v, dlsh_cslot *to) {
    if (t->plain->kind == DLSH_C_FLOAT)
        to->f = (float)v;
    else if (t->plain->kind == DLSH_C_DOUBLE)
        to->d = v;
    else if (t->plain->kind == DLSH_C_LDOUBLE)
        to->ld = v;
    else
        to->i = (long)v;
}

/* A number of the op; one with a fraction does not fit an integer parameter. */
static dl_status put_attribute(const op_function *c, const dlsh_cparam *p, double v, dlsh_cslot *to) {
    char what[120];
    if (dlsh_c_is_float(p->type->plain)) {
        put_number(p->type, v, to);
        return DL_OK;
    }
    snprintf(what, sizeof what, "the number %s of %s", p->name, c->f->proto->name);
    return dlsh_c_scalar(p->type->plain, v == (double)(long)v ? dlsh_int((long)v) : dlsh_float(v), what, to);
}

static dl_status put_argument(op_function *c, int i, dl_tensor *const *t, const double *attr, int device,
                              dlsh_cslot *to) {
    const role *r = &c->roles[i];
    const dlsh_ctype *type = c->f->proto->params[i].type;
    dl_tensor *x = r->kind <= SHAPE ? t[r->index] : NULL;
    if (r->kind <= SHAPE && r->kind != MEMORY && !x)
        return dlsh_fail(DL_ERR_INTERNAL, NULL, "%s wants a tensor that is not there", c->f->proto->name);
    switch (r->kind) {
    case MEMORY: to->p = x ? dl_data(x) : NULL; break;
    case TENSOR: to->p = x; break;
    case COUNT: put_number(type, (double)dl_numel(x), to); break;
    case NDIM: put_number(type, dl_ndim(x), to); break;
    case SHAPE: to->p = (void *)dl_shape(x); break;
    case NUMBER: DLSH_TRY(put_attribute(c, &c->f->proto->params[i], attr[r->index], to)); break;
    case STREAM: DLSH_TRY(dl_device_stream(device, &to->p)); break;
    }
    return DL_OK;
}

static dl_status call(op_function *c, dl_tensor *const *t, const double *attr) {
    dlsh_cslot slots[MAX_PARAMS];
    void *ptrs[MAX_PARAMS];
    job j = {.c = c, .ptrs = ptrs};
    memset(slots, 0, sizeof slots);
    DLSH_TRY(address_of(c, dl_dtype_of(t[IN]), &j.addr));
    for (int i = 0; i < c->n; i++) {
        ptrs[i] = &slots[i];
        DLSH_TRY(put_argument(c, i, t, attr, dl_device_of(t[IN]), &slots[i]));
    }
    DLSH_TRY(dlsh_guard_run(c->f->proto->name, body, &j));
    if (c->f->proto->type->base->plain->kind == DLSH_C_INT && (int)j.result.i)
        return dlsh_fail(DL_ERR_VALUE, NULL, "%s returned %d", c->f->proto->name, (int)j.result.i);
    return DL_OK;
}

static dl_status check_dtypes(const dlsh_userop *u, dl_tensor *const *in) {
    for (int i = 0; i < u->nin; i++)
        if (u->in_dtype[i] >= 0 && (int)dl_dtype_of(in[i]) != u->in_dtype[i])
            return dlsh_fail(DL_ERR_DTYPE, "convert it with .to(DTYPE)", "input %s is %s in C, not %s", u->in[i],
                             dl_dtype_name((dl_dtype)u->in_dtype[i]), dl_dtype_name(dl_dtype_of(in[i])));
    return DL_OK;
}

/* Does the function get no size but n, so that all inputs must have the same? */
static int knows_n_alone(const dlsh_userop *u, const op_function *c) {
    if (u->shape.type != DLSH_VOID || u->sample.type != DLSH_VOID) return 0;
    for (int i = 0; i < c->n; i++) {
        const role *r = &c->roles[i];
        if (r->kind == SHAPE || r->kind == NDIM || r->kind == TENSOR || (r->kind == COUNT && r->index != IN)) return 0;
    }
    return 1;
}

static dl_status check_sizes(const dlsh_userop *u, const op_function *c, dl_tensor *const *in) {
    for (int i = 1; i < u->nin; i++)
        if (dl_numel(in[i]) != dl_numel(in[0]) && knows_n_alone(u, c))
            return dlsh_fail(DL_ERR_SHAPE, "let it take NAME_n or NAME_shape, or give sizes that fit with sample=",
                             "input %s has %ld elements and %s %ld, but %s is told one size only", u->in[i],
                             dl_numel(in[i]), u->in[0], dl_numel(in[0]), c->f->proto->name);
    return DL_OK;
}

/* Fills memory with bytes that arithmetic does not produce by chance, so that unwritten elements show. */
static int poisoning;
void dlsh_userop_poison(int on) { poisoning = on; }

static void poison(dl_tensor *const *t, int n) {
    for (int i = 0; poisoning && i < n; i++)
        if (t[i] && !dl_device_of(t[i]))
            memset(dl_data(t[i]), DLSH_OP_POISON, (size_t)(dl_numel(t[i]) * dl_dtype_size(dl_dtype_of(t[i]))));
}

static dl_status ended(const dlsh_userop *u) {
    return u->s ? DL_OK : dlsh_fail(DL_ERR_STATE, NULL, "the session that defined this op has ended");
}

static dl_status forward(void *ctx, dl_tensor *const *in, dl_tensor **out, const double *attr) {
    dlsh_userop *u = ctx;
    dl_tensor *t[NTENSOR] = {0};
    DLSH_TRY(ended(u));
    DLSH_TRY(check_dtypes(u, in));
    DLSH_TRY(check_sizes(u, &u->forward[dl_device_of(in[0]) > 0], in));
    poison(out, u->nout);
    memcpy(t + IN, in, (size_t)u->nin * sizeof *t);
    memcpy(t + OUT, out, (size_t)u->nout * sizeof *t);
    return call(&u->forward[dl_device_of(in[0]) > 0], t, attr);
}

static dl_status backward(void *ctx, dl_tensor *const *in, dl_tensor *const *out, dl_tensor *const *gout,
                          dl_tensor **gin, const double *attr) {
    dlsh_userop *u = ctx;
    dl_tensor *t[NTENSOR] = {0};
    int gpu = dl_device_of(in[0]) > 0;
    DLSH_TRY(ended(u));
    if (u->backward[gpu].value.type == DLSH_VOID)
        return dlsh_fail(DL_ERR_AUTOGRAD, "x.detach() keeps gradients out of what is not to be learnt through",
                         "op %s was made without %s=, so it has no gradient%s", u->name,
                         gpu ? "cuda_backward" : "backward", gpu ? " on the GPU" : "");
    poison(gin, u->nin);
    memcpy(t + IN, in, (size_t)u->nin * sizeof *t);
    memcpy(t + OUT, out, (size_t)u->nout * sizeof *t);
    memcpy(t + GOUT, gout, (size_t)u->nout * sizeof *t);
    memcpy(t + GIN, gin, (size_t)u->nin * sizeof *t);
    return call(&u->backward[dl_device_of(in[0]) > 0], t, attr);
}

/* ---------------------------------------------------------------- shapes */

static dl_status read_sizes(const dlsh_userop *u, dlsh_value v, int *ndim, long *shape) {
    if (v.type != DLSH_LIST || v.as.list->n > 8)
        return dlsh_fail(DL_ERR_TYPE, "shape=fn (x) { return [x.shape[0], 4] }",
                         "op %s: sizes are a list of ints, not %s", u->name, dlsh_a(v));
    *ndim = v.as.list->n;
    for (int i = 0; i < *ndim; i++) {
        if (v.as.list->items[i].type != DLSH_INT)
            return dlsh_fail(DL_ERR_TYPE, NULL, "op %s: a size is an int, not %s", u->name,
                             dlsh_a(v.as.list->items[i]));
        shape[i] = v.as.list->items[i].as.i;
    }
    return DL_OK;
}

static dl_status shape(void *ctx, int k, dl_tensor *const *in, const double *attr, dl_dtype *dtype, int *ndim,
                       long *sizes) {
    dlsh_userop *u = ctx;
    dlsh_value args[DLSH_OP_MAX_IN + DLSH_OP_MAX_ATTR];
    DLSH_DROPPED dlsh_value v = dlsh_void();
    DLSH_TRY(ended(u));
    if (u->out_dtype[k] >= 0) *dtype = (dl_dtype)u->out_dtype[k];
    if (u->shape.type == DLSH_VOID) return DL_OK;
    for (int i = 0; i < u->nin; i++) args[i] = dlsh_tensor(dl_ref(in[i]));
    for (int i = 0; i < u->nattr; i++)
        args[u->nin + i] = attr[i] == (double)(long)attr[i] ? dlsh_int((long)attr[i]) : dlsh_float(attr[i]);
    dlsh_callargs call = {.n = u->nin + u->nattr, .values = args};
    dl_status st = dlsh_call(u->s, u->shape, &call, &v);
    for (int i = 0; i < u->nin; i++) dlsh_drop(args[i]);
    if (!st) { /* one list for all results, or a list of them */
        int each = v.type == DLSH_LIST && v.as.list->n == u->nout && v.as.list->items[0].type == DLSH_LIST;
        st = read_sizes(u, each ? v.as.list->items[k] : v, ndim, sizes);
    }
    return st;
}

/* ---------------------------------------------------------------- what others ask */

int dlsh_userop_inputs(const dlsh_userop *u) { return u->nin; }
int dlsh_userop_has_backward(const dlsh_userop *u) { return u->backward[0].value.type != DLSH_VOID; }

int dlsh_userop_input(const dlsh_userop *u, int i, dl_dtype real, dl_dtype *dtype) {
    *dtype = u->in_dtype[i] < 0 ? real : (dl_dtype)u->in_dtype[i];
    return u->in_dtype[i] < 0;
}

dl_status dlsh_userop_sample(const dlsh_userop *u, int i, int *ndim, long *shape_out) {
    if (u->sample.type == DLSH_LIST && i < u->sample.as.list->n)
        return read_sizes(u, u->sample.as.list->items[i], ndim, shape_out);
    *ndim = 2, shape_out[0] = 3, shape_out[1] = 4;
    return DL_OK;
}

/* Has the function a pointer to this kind of number as the memory of a tensor? */
static int has_memory_of(const op_function *c, dlsh_ckind kind) {
    for (int i = 0; c->value.type != DLSH_VOID && i < c->n; i++)
        if (c->roles[i].kind == MEMORY && c->f->proto->params[i].type->base->plain->kind == kind) return 1;
    return 0;
}

/* The dtypes that a function takes, as bits: f32, and f64 when it can be compiled for that. A function that takes only
 * dl_tensor takes both. */
static unsigned dtypes_of(const op_function *c) {
    if (c->value.type == DLSH_VOID) return 0;
    if (has_memory_of(c, DLSH_C_DOUBLE)) return 1u << DL_F64;
    return 1u << DL_F32 | (c->real || !has_memory_of(c, DLSH_C_FLOAT) ? 1u << DL_F64 : 0);
}

dl_status dlsh_userop_double(const dlsh_userop *u) {
    if (dtypes_of(&u->forward[0]) >> DL_F64 & 1 &&
        (!dlsh_userop_has_backward(u) || dtypes_of(&u->backward[0]) >> DL_F64 & 1))
        return DL_OK;
    return dlsh_fail(DL_ERR_DTYPE,
                     "write `real` instead of float in the C block; it is compiled as float, and as double",
                     "op %s cannot be computed in f64", u->name);
}

int dlsh_userop_cuda_real(const dlsh_userop *u, dl_dtype *real) {
    unsigned both = dtypes_of(&u->forward[1]);
    if (u->backward[1].value.type != DLSH_VOID) both &= dtypes_of(&u->backward[1]);
    *real = both >> DL_F64 & 1 ? DL_F64 : DL_F32;
    return u->forward[1].value.type != DLSH_VOID;
}

/* ---------------------------------------------------------------- definition */

static dl_status copy_names(dlsh_userop *u, const dlsh_op_plan *p) {
    u->name = copy_name(p->name);
    for (; u->nin < p->nin; u->nin++)
        if (!(u->in[u->nin] = copy_name(p->in[u->nin]))) return DL_ERR_MEMORY;
    for (; u->nattr < p->nattr; u->nattr++)
        if (!(u->attr[u->nattr] = copy_name(p->attr[u->nattr]))) return DL_ERR_MEMORY;
    return u->name ? DL_OK : DL_ERR_MEMORY;
}

/* The tensors of a function are all float or all double, and the gradient is computed in the dtypes of the op. */
static dl_status check_precision(const dlsh_userop *u, const op_function *f, const op_function *b) {
    const op_function *both[] = {f, b};
    for (int k = 0; k < 2; k++)
        if (has_memory_of(both[k], DLSH_C_FLOAT) && has_memory_of(both[k], DLSH_C_DOUBLE))
            return dlsh_fail(DL_ERR_DTYPE, both[k]->f->proto->text,
                             "op %s: %s has both float and double tensors; an op computes in one of them", u->name,
                             both[k]->f->proto->name);
    if (f->value.type == DLSH_VOID || b->value.type == DLSH_VOID || !(dtypes_of(f) & ~dtypes_of(b))) return DL_OK;
    return dlsh_fail(DL_ERR_DTYPE, "write `real` in both", "op %s: %s computes in another precision than %s", u->name,
                     b->f->proto->name, f->f->proto->name);
}

static dl_status read_functions(dlsh_userop *u, const dlsh_op_plan *p) {
    DLSH_TRY(read_function(u, &u->forward[0], p->forward, FORWARD, "forward"));
    DLSH_TRY(read_function(u, &u->forward[1], p->cuda_forward, u->nout ? ALIKE : FORWARD, "cuda"));
    DLSH_TRY(read_function(u, &u->backward[0], p->backward, BACKWARD, "backward"));
    DLSH_TRY(read_function(u, &u->backward[1], p->cuda_backward, BACKWARD, "cuda_backward"));
    for (int d = 0; d < 2; d++) DLSH_TRY(check_precision(u, &u->forward[d], &u->backward[d]));
    if (p->visible > u->nout)
        return dlsh_fail(DL_ERR_VALUE, NULL, "op %s: visible=%d, and it has %d result%s", u->name, p->visible, u->nout,
                         u->nout == 1 ? "" : "s");
    if (u->nout) return DL_OK;
    return dlsh_fail(DL_ERR_TYPE, "a result is a pointer that is not const", "op %s has no result", u->name);
}

static dl_status define(dlsh_userop *u, const dlsh_op_plan *p) {
    dl_op_spec spec = {.name = u->name,
                       .doc = p->doc,
                       .nin = u->nin,
                       .nout = u->nout,
                       .visible = p->visible,
                       .in_name = (const char *const *)u->in,
                       .out_name = (const char *const *)u->out,
                       .save_out = u->save_out,
                       .nattr = u->nattr,
                       .attr_name = (const char *const *)u->attr,
                       .attr_default = p->attr_default,
                       .dtypes = {dtypes_of(&u->forward[0]), dtypes_of(&u->forward[1])},
                       .shape = shape,
                       .forward = forward,
                       .backward = backward, /* which says so when there is none */
                       .ctx = u,
                       .release = userop_free};
    for (int i = 0; i < u->nin; i++) spec.nondiff_in |= (unsigned)(u->in_dtype[i] >= 0) << i;
    for (int k = 0; k < u->nout; k++) spec.nondiff_out |= (unsigned)(u->out_dtype[k] >= 0) << k;
    for (int k = p->visible; p->visible && k < u->nout; k++) spec.nondiff_out |= 1u << k;
    return dl_op_define(&spec);
}

dl_status dlsh_userop_define(dlsh_session *s, const dlsh_op_plan *p) {
    dlsh_userop *u = calloc(1, sizeof *u);
    if (!u) return dlsh_no_memory("an op");
    u->s = s;
    u->shape = dlsh_ref(p->shape);
    u->sample = dlsh_ref(p->sample);
    for (int i = 0; i < 2; i++) u->forward[i].value = u->backward[i].value = dlsh_void();
    dl_status st = copy_names(u, p);
    if (!st) st = read_functions(u, p);
    if (!st) st = define(u, p);
    if (st) {
        userop_free(u);
        return st;
    }
    u->next = ops;
    ops = u;
    dlsh_op_renew(u->name);
    return DL_OK;
}
