/* Calls of ops by name, with attributes as text. */
#include "core/form.h"
#include "core/scope.h"
#include "dlcore/copy.h"

#include <stdio.h>
#include <string.h>

/* name=value of the text of a call. */
typedef struct pair {
    char name[64], value[192];
} pair;

/* Reads the pair at *at, whose name is empty at the end of the text, and moves on. Values with blanks stand in brackets
 * or in quotation marks. */
static dl_status next_pair(const char **at, pair *out) {
    const char *p = *at;
    int used;
    *out->name = *out->value = 0;
    if (!p || !*(p += strspn(p, " "))) return DL_OK;
    if (sscanf(p, "%63[^= ]=%n", out->name, &used) != 1 || !used)
        return dl_fail(DL_ERR_SYNTAX, "attributes are name=value, not '%s'", p);
    p += used;
    if (!strncmp(p, "\"\"", 2)) /* a text without letters, which sscanf does not read */
        used = 2;
    else if (sscanf(p,
                    *p == '['   ? "%191[^]]]%n"
                    : *p == '"' ? "\"%191[^\"]\"%n"
                                : "%191[^ ]%n",
                    out->value, &used) != 1)
        return dl_fail(DL_ERR_SYNTAX, "%s= has no value", out->name);
    if (*p == '[' && strlen(out->value) + 1 < sizeof out->value && p[used - 1] == ']') strcat(out->value, "]");
    *at = p + used;
    return DL_OK;
}

static dl_status no_attribute(const dl_op *op, const char *name) {
    enum { MAX = DL_MAX_ATTR + 4 };
    const char *names[MAX];
    int n = 0;
    const dl_form *form;
    for (int i = 0; i < op->nattr; i++) names[n++] = op->attrs[i].name;
    for (int i = 0; n < MAX && (form = dl_form_at(op, i)); i++) names[n++] = form->argument.name;
    return dl_fail_unknown(name, names, n, n ? NULL : "it takes none", "%s has no attribute '%s'", op->name, name);
}

static dl_status no_op(const char *name) {
    const char *names[1024];
    int n = 0;
    for (const dl_op *op; n < 1024 && (op = dl_op_at(n)); n++) names[n] = op->name;
    return dl_fail_unknown(name, names, n, "dl_op_describe lists them", "there is no op called '%s'", name);
}

/* What a text asks for: the row that is called, and the dtype to which input 0 is cast first (-1: as it is); with
 * `both` so is the result, which is wider where integers are added. */
typedef struct request {
    const dl_op *named, *op;
    dl_aval attr[DL_MAX_ATTR];
    int cast;
    bool both;
} request;

/* The row that the arguments of the text ask for. */
static dl_status choose_row(request *r, const char *text) {
    pair next;
    dl_aval value;
    for (;;) {
        DL_TRY(next_pair(&text, &next));
        if (!*next.name) return DL_OK;
        const dl_form *form = dl_attr_index(r->named, next.name) < 0 ? dl_form_find(r->named, next.name) : NULL;
        if (!form || !form->to) continue;
        DL_TRY(dl_attr_read(r->named->name, &form->argument, next.value, &value));
        if (value.given && (form->kind == DL_FORM_ROW || value.u.i)) r->op = dl_op_find(form->to);
    }
}

/* An argument of the row that was named, but not of the one that is called. */
static dl_status read_form(request *r, const pair *next) {
    const dl_form *form = dl_form_find(r->named, next->name);
    dl_aval value;
    if (!form) return no_attribute(r->named, next->name);
    DL_TRY(dl_attr_read(r->named->name, &form->argument, next->value, &value));
    if (!value.given || (form->kind != DL_FORM_CAST && form->kind != DL_FORM_CAST_FLOAT)) return DL_OK;
    r->cast = (int)value.u.i;
    r->both = form->kind == DL_FORM_CAST;
    if (form->kind == DL_FORM_CAST_FLOAT && !dl_dtype_is_smooth((dl_dtype)r->cast))
        return dl_fail(DL_ERR_DTYPE, "%s: dtype must be a floating or complex dtype, not %s", r->named->name,
                       dl_dtype_name((dl_dtype)r->cast));
    return DL_OK;
}

/* "dim=1 keepdim=true" into the request. */
static dl_status read_text(request *r, const char *text) {
    pair next;
    DL_TRY(choose_row(r, text));
    dl_attr_defaults(r->op, r->attr);
    for (;;) {
        DL_TRY(next_pair(&text, &next));
        if (!*next.name) return DL_OK;
        int a = dl_attr_index(r->op, next.name);
        DL_TRY(a < 0 ? read_form(r, &next) : dl_attr_parse(r->op, a, next.value, &r->attr[a]));
    }
}

/* A failure of the row that is called, as one of the row that was named. */
static dl_status name_failure(const request *r, dl_status status) {
    dl_error error;
    if (status == DL_OK || r->op == r->named || !dl_error_take(&error)) return status;
    if (!strcmp(error.op, r->op->name)) snprintf(error.op, sizeof error.op, "%s", r->named->name);
    return dl_error_put(&error);
}

static dl_status invoke(const request *r, dl_tensor **in, int nin, dl_tensor **out) {
    if (r->cast < 0 || nin < 1 || !in[0]) return dl_invoke(r->op, in, nin, r->attr, out);
    dl_tensor *given = in[0];
    DL_OWNED dl_tensor *cast = dl_to(given, r->cast);
    if (!cast) return dl_failed();
    in[0] = cast;
    dl_status s = dl_invoke(r->op, in, nin, r->attr, out);
    in[0] = given;
    if (s != DL_OK || !r->both || out[0]->dtype == (int8_t)r->cast) return s;
    DL_OWNED dl_tensor *wide = out[0];
    out[0] = dl_to(wide, r->cast);
    return out[0] ? DL_OK : dl_failed();
}

dl_status dl_op_call(const char *name, dl_tensor **in, int nin, const char *attrs, dl_tensor **out, int *nout) {
    if (!name) return dl_fail_null("the name of an op");
    request r = {.named = dl_op_find(name), .cast = -1};
    r.op = r.named;
    if (!r.op) return no_op(name);
    DL_TRY(read_text(&r, attrs));
    dl_tensor *all[DL_MAX_OUT] = {0};
    DL_TRY(name_failure(&r, invoke(&r, in, nin, all)));
    *nout = r.op->visible;
    for (int i = 0; i < r.op->out; i++) {
        if (i < r.op->visible)
            out[i] = all[i];
        else
            dl_unref(all[i]);
    }
    return DL_OK;
}
