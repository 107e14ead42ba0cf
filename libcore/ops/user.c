/* Ops that users make at run time, with functions of theirs as kernels. The gradient is an op of its own, which has
 * none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/op.h"
#include "core/scope.h"

enum { MAX_ATTR = 8 };

typedef struct user_op {
    dl_op op, back; /* op first: a row is its user_op */
    dl_kernel kernel[DL_NBACKEND], back_kernel[DL_NBACKEND];
    dl_attr attrs[MAX_ATTR + 1];
    dl_aval defaults[MAX_ATTR + 1];
    dl_op_spec spec;
    int uses;
    char *strings; /* names, one after another */
} user_op;

static const user_op *of_row(const dl_op *op) { return (const user_op *)op; }
static const user_op *of_back(const dl_op *op) { return (const user_op *)((const char *)op - offsetof(user_op, back)); }

static void user_free(const dl_op *op) {
    user_op *u = (user_op *)of_row(op);
    if (u->spec.release) u->spec.release(u->spec.ctx);
    free(u->strings);
    free(u);
}

/* ---------------------------------------------------------------- the calls */

static void read_attrs(const dl_op *op, const dl_aval *attr, double *out) {
    for (int i = 0; i < op->nattr; i++) {
        int whole = attr[i].is_int || op->attrs[i].kind == DL_A_INT || op->attrs[i].kind == DL_A_BOOL;
        out[i] = whole ? (double)attr[i].u.i : attr[i].u.f;
    }
}

/* Contiguous forms of the operands, released with the list; NULL for absent ones. */
typedef struct operands {
    dl_tensor *t[3 * DL_MAX_NAMED_IN];
    int n;
} operands;

static void release(operands *o) {
    for (int i = 0; i < o->n; i++) dl_unref(o->t[i]);
}

static dl_status contiguous(const dl_call *c, operands *o) {
    for (; o->n < c->nin; o->n++) {
        dl_tensor *in = c->in[o->n];
        o->t[o->n] = in ? dl_contiguous(in) : NULL;
        if (in && !o->t[o->n]) return dl_failed();
    }
    return DL_OK;
}

static dl_status run_forward(dl_call *c) {
    const user_op *u = of_row(c->op);
    operands o DL_SCOPE(release) = {0};
    double attr[MAX_ATTR];
    read_attrs(c->op, c->attr, attr);
    DL_SCOPED_GRAD_MODE(0);
    DL_TRY(contiguous(c, &o));
    return u->spec.forward(u->spec.ctx, o.t, c->out, attr);
}

/* Inputs of the gradient's row: gradients of the results, the inputs, the saved results. */
static dl_status run_backward(dl_call *c) {
    const user_op *u = of_back(c->op);
    int nin = u->spec.nin, nout = u->spec.nout;
    operands o DL_SCOPE(release) = {0};
    double attr[MAX_ATTR];
    read_attrs(c->op, c->attr, attr);
    DL_SCOPED_GRAD_MODE(0);
    DL_TRY(contiguous(c, &o));
    return u->spec.backward(u->spec.ctx, o.t + nout, o.t + nout + nin, o.t, c->out, attr);
}

/* ---------------------------------------------------------------- shapes */

static dl_status infer_forward(const dl_call *c, dl_meta *out) {
    const user_op *u = of_row(c->op);
    double attr[MAX_ATTR];
    read_attrs(c->op, c->attr, attr);
    for (int k = 0; k < u->spec.nout; k++) {
        dl_dtype dtype = c->dtype;
        int ndim = c->in[0]->ndim;
        long shape[DL_MAX_DIM] = {0};
        memcpy(shape, c->in[0]->shape, (size_t)ndim * sizeof *shape);
        if (u->spec.shape) DL_TRY(u->spec.shape(u->spec.ctx, k, c->in, attr, &dtype, &ndim, shape));
        int64_t numel;
        DL_TRY(dl_shape_check(ndim, shape, &numel));
        out[k] = dl_meta_like(c->in[0], ndim, shape);
        out[k].dtype = (int8_t)dtype;
        out[k].device = c->device;
    }
    return DL_OK;
}

static dl_status infer_backward(const dl_call *c, dl_meta *out) {
    const user_op *u = of_back(c->op);
    for (int i = 0; i < u->spec.nin; i++) {
        const dl_tensor *t = c->in[u->spec.nout + i];
        out[i] = t ? dl_meta_like(t, t->ndim, t->shape) : (dl_meta){.alias = -1};
        out[i].absent = !t || u->spec.nondiff_in >> i & 1 || !dl_dtype_is_float(t->dtype);
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- gradients */

/* A result without gradient gets zeros: functions of users need not know of absent ones. */
static dl_tensor *gradient_of(dl_back *b, int k) {
    if (b->g[k]) return b->g[k];
    const dl_meta *m = dl_out_meta(b, k);
    return dl_tmp(b, dl_tensor_zeros(m->ndim, m->shape, m->dtype, m->device));
}

static dl_status grad_user(dl_back *b) {
    const user_op *u = of_row(b->op);
    int nin = u->spec.nin, nout = u->spec.nout;
    dl_tensor *all[3 * DL_MAX_NAMED_IN] = {0}, *gin[DL_MAX_OUT] = {0};
    for (int k = 0; k < nout; k++)
        if (!(all[k] = gradient_of(b, k))) return dl_failed();
    for (int i = 0; i < nin; i++)
        if (!(all[nout + i] = dl_saved_in(b, i))) return dl_failed();
    for (int k = 0; k < nout; k++)
        if (u->spec.save_out >> k & 1 && !(all[nout + nin + k] = dl_saved_out(b, k))) return dl_failed();
    DL_TRY(dl_invoke(&u->back, all, nin + 2 * nout, b->attr, gin));
    dl_status st = DL_OK;
    for (int i = 0; i < nin; i++) {
        if (st == DL_OK && gin[i] && DL_NEED(i))
            st = dl_give(b, i, gin[i]);
        else
            dl_unref(gin[i]);
    }
    return st;
}

static dl_status no_second(dl_back *b) {
    return dl_fail_hint(DL_ERR_AUTOGRAD, "write the op in terms of other ops where second derivatives are needed",
                        "the gradient of %s is a function of the user's, which has no gradient itself",
                        of_back(b->op)->op.name);
}

/* ---------------------------------------------------------------- definition */

static dl_status check(const dl_op_spec *s) {
    if (!s->name || !*s->name || !s->forward) return dl_fail(DL_ERR_VALUE, "an op needs a name and a forward function");
    if (s->nin < 1 || s->nin > DL_MAX_NAMED_IN || s->nout < 1 || s->nout > DL_MAX_OUT || s->nattr > MAX_ATTR)
        return dl_fail(DL_ERR_VALUE, "%s: an op has 1 to 8 inputs, 1 to 8 results and at most 8 numbers", s->name);
    if (!s->dtypes[0] && !s->dtypes[1]) return dl_fail(DL_ERR_VALUE, "%s: an op takes at least one dtype", s->name);
    return DL_OK;
}

/* Copies of all names in one block; `at` walks through it. */
static size_t text_size(const dl_op_spec *s) {
    size_t n = strlen(s->name) + strlen("_backward") + strlen(s->name) + (s->doc ? strlen(s->doc) : 0) + 3;
    for (int i = 0; i < s->nin; i++) n += strlen(s->in_name[i]) + 1;
    for (int i = 0; i < s->nout; i++) n += strlen(s->out_name[i]) + 1;
    for (int i = 0; i < s->nattr; i++)
        n += strlen(s->attr_name[i]) + (s->attr_default[i] ? strlen(s->attr_default[i]) : 0) + 2;
    return n;
}

static const char *copy(char **at, const char *text, const char *more) {
    char *p = *at;
    *at += sprintf(p, "%s%s", text, more) + 1;
    return p;
}

static void name_all(user_op *u, char *at) {
    dl_op_spec *s = &u->spec;
    u->op.name = copy(&at, s->name, "");
    u->back.name = copy(&at, s->name, "_backward");
    u->op.doc = u->back.doc = copy(&at, s->doc ? s->doc : "", "");
    for (int i = 0; i < s->nin; i++) u->op.in_name[i] = copy(&at, s->in_name[i], "");
    for (int i = 0; i < s->nout; i++) u->op.out_name[i] = copy(&at, s->out_name[i], "");
    for (int i = 0; i < s->nattr; i++) {
        const char *dflt = s->attr_default[i] ? s->attr_default[i] : "";
        int whole = *dflt && !strpbrk(dflt, ".einEIN"), yes_no = !strcmp(dflt, "true") || !strcmp(dflt, "false");
        u->attrs[i] = (dl_attr){copy(&at, s->attr_name[i], ""),
                                yes_no  ? DL_A_BOOL
                                : whole ? DL_A_INT
                                        : DL_A_FLOAT,
                                NULL, ""};
        u->attrs[i].dflt = copy(&at, dflt, "");
    }
    s->name = u->op.name;
    s->doc = u->op.doc;
    s->in_name = s->out_name = s->attr_name = s->attr_default = NULL;
}

static void fill_rows(user_op *u) {
    const dl_op_spec *s = &u->spec;
    dl_op *op = &u->op, *back = &u->back;
    op->id = back->id = -1;
    op->formula = back->formula = "";
    op->in_min = op->in_max = s->nin;
    op->out = s->nout;
    op->visible = s->visible > 0 && s->visible <= s->nout ? s->visible : s->nout;
    op->attrs = back->attrs = u->attrs;
    op->nattr = back->nattr = s->nattr;
    op->defaults = back->defaults = u->defaults;
    op->save_in = (1u << s->nin) - 1;
    op->save_out = s->save_out;
    op->nondiff_in = s->nondiff_in;
    op->nondiff_out = s->nondiff_out;
    op->flags = s->backward ? 0 : DL_F_NODIFF;
    op->promote = DL_P_FIRST;
    op->amp = back->amp = DL_AMP_FULL;
    op->infer = infer_forward;
    op->grad = s->backward ? grad_user : NULL;
    op->uses = back->uses = &u->uses;
    op->release = user_free;
    back->flags = DL_F_INTERNAL;
    back->in_max = s->nin + 2 * s->nout;
    back->out = back->visible = s->nin;
    back->promote = DL_P_NONE;
    back->infer = infer_backward;
    back->grad = no_second;
    for (int d = 0; d < DL_NBACKEND; d++) {
        u->kernel[d] = (dl_kernel){
            .run = s->dtypes[d] ? run_forward : NULL, .dtypes = s->dtypes[d], .none = "it was defined without one"};
        u->back_kernel[d] = u->kernel[d];
        u->back_kernel[d].run = s->dtypes[d] ? run_backward : NULL;
        op->kernel[d] = &u->kernel[d];
        back->kernel[d] = &u->back_kernel[d];
    }
}

static void user_free_back(const dl_op *op) { user_free(&of_back(op)->op); }

dl_status dl_op_define(const dl_op_spec *spec) {
    if (!spec) return dl_fail_null("the description of an op");
    DL_TRY(check(spec));
    user_op *u = calloc(1, sizeof *u);
    char *strings = malloc(text_size(spec));
    if (!u || !strings) {
        free(u);
        free(strings);
        return dl_fail(DL_ERR_MEMORY, "no memory for an op");
    }
    u->spec = *spec;
    u->strings = strings;
    u->uses = 1;
    name_all(u, strings);
    fill_rows(u);
    u->back.release = user_free_back;
    dl_status st = dl_attr_parse_defaults(&u->op, u->defaults);
    if (st == DL_OK) st = dl_op_register(&u->op);
    if (st != DL_OK) {
        u->spec.release = NULL;
        user_free(&u->op);
    }
    return st;
}
