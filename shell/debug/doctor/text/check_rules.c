/* Functions of the script with a gradient of their own: is it the one of differences? */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/checks.h"
#include "debug/doctor/syntax.h"

enum { MOST = 4, ROWS = 3, COLUMNS = 4 };

typedef struct subject {
    dlsh_session *s;
    dlsh_value fn;
    char flat[32]; /* an op that it ran which has no derivative other than 0; "": none */
} subject;

static int call(dl_tensor **in, int n, dl_tensor **out, int max, void *arg) {
    const subject *f = arg;
    dlsh_value values[MOST];
    DLSH_DROPPED dlsh_value result = dlsh_void();
    for (int i = 0; i < n; i++) values[i] = (dlsh_value){DLSH_TENSOR, {.tensor = in[i]}};
    if (dlsh_call(f->s, f->fn, &(dlsh_callargs){n, values, NULL}, &result)) return -1;
    if (result.type != DLSH_TENSOR || max < 1) return dlsh_fail(DL_ERR_TYPE, NULL, "it gives something else"), -1;
    out[0] = dl_ref(result.as.tensor);
    return 1;
}

/* Numbers of both signs, none of them near 0 or 1, where functions bend. */
static dl_tensor *sample(int which) {
    double v[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) v[i] = 1.7 * sin(2.3 * i + 0.9 + which) + 0.05;
    dl_tensor *t = dl_tensor_from(2, (long[]){ROWS, COLUMNS}, DL_F64, 0, v);
    if (t && !dl_set_requires_grad(t, 1)) return t;
    dl_unref(t);
    return NULL;
}

/* With an op of steps in it, as of weights that are rounded, a gradient is made up on purpose. */
static void note_flat_ops(subject *f) {
    static const char flat[] = "sign|round|floor|ceil|trunc|argmax|argmin|one_hot|heaviside|bernoulli";
    dl_recorded r;
    for (long i = 0; i < dl_recording_count() && !*f->flat; i++)
        if (!dl_recording_at(i, &r) && dlsh_is_word(flat, r.op)) snprintf(f->flat, 32, "%s", r.op);
    dl_recording_clear();
}

/* Does the function give its argument as it is, so that the gradient alone is what it is for? */
static int is_identity(subject *f, dl_tensor **in, int n) {
    DLSH_SCOPED_GRAD_MODE(0);
    dl_tensor *out = NULL;
    double x[ROWS * COLUMNS], y[ROWS * COLUMNS];
    dl_recording_set(1);
    const int given = call(in, n, &out, 1, f);
    dl_recording_set(0);
    note_flat_ops(f);
    if (given != 1) return 1;
    const int same =
        dl_numel(out) == ROWS * COLUMNS && !dl_read_f64(in[0], x) && !dl_read_f64(out, y) && !memcmp(x, y, sizeof x);
    dl_unref(out);
    return same;
}

/* A function of the text that an argument of a call names, or is. */
static const dlsh_node *function_in(const char *file, const dlsh_node *call_node, int place) {
    const dlsh_node *n = call_node->nkids > place + 1 ? call_node->kids[place + 1] : NULL;
    if (n && n->kind == DLSH_N_KWARG) n = n->kids[0];
    return n && n->kind == DLSH_N_NAME ? dlsh_function_of(file, n->text) : n && n->kind == DLSH_N_FN ? n : NULL;
}

static void tell(dlsh_examination *e, const char *file, const dlsh_node *back, const char *name, const char *flat,
                 const dl_gradcheck_report *r) {
    const dlsh_node *result = dlsh_last_return(back);
    dlsh_finding *f =
        dlsh_find_at(e, file, result ? result->span.line : back->span.line,
                     *flat ? "none, if the gradient is to go straight through what has steps"
                           : "correct what backward returns; gradcheck NAME (randn(3, 2)) tells when it is right");
    if (*flat)
        dlsh_cause(f, "the gradient of %s is another one than that of its forward, which takes steps (%s)", name, flat);
    else
        dlsh_cause(f, "the gradient of %s is wrong: its backward does not give the derivative of its forward", name);
    if (*flat) dlsh_only_note(e, f);
    dlsh_evidence(f, "at an element of argument %d backward gives %.6g, differences of forward give %.6g", r->input,
                  r->analytic, r->numeric);
}

static int learns(const dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if (dlsh_settled_lower(r, 0.3)) return 1;
    return 0;
}

/* Where differences are 0, as of rounding, a gradient is made up on purpose; so it is where forward changes nothing. */
static void look_at_rule(dlsh_examination *e, const char *file, const char *name, subject f, const dlsh_node *made) {
    const dlsh_node *forth = function_in(file, made, 0), *back = function_in(file, made, 1);
    dl_tensor *in[MOST] = {NULL};
    dl_gradcheck_report r = {0};
    const int n = forth ? forth->nkids - 2 : 0; /* without ctx and the block */
    if (!back || n < 1 || n > MOST) return;
    int good = 1;
    for (int i = 0; i < n; i++) good &= (in[i] = sample(i)) != NULL;
    good = good && !is_identity(&f, in, n) && !dl_gradcheck(call, &f, in, n, 0, 1e-3, &r);
    if (good && !r.ok && fabs(r.numeric) > 1e-6 && isfinite(r.numeric) && !(*f.flat && learns(e)))
        tell(e, file, back, name, f.flat, &r);
    if (good && r.ok) dlsh_passed(e, "that of %s is the one of differences", name);
    for (int i = 0; i < n; i++) dl_unref(in[i]);
    dl_error_clear();
}

dl_status dlsh_check_rules(dlsh_examination *e) {
    DLSH_SCOPED_GRAD_MODE(1);
    if (dl_recording_count() || dl_recording_get()) return DL_OK;
    DLSH_EACH_NODE (t) {
        const dlsh_node *made = t.n->kind == DLSH_N_ASSIGN && t.n->nkids == 2 ? t.n->kids[1] : NULL;
        if (!made || made->kind != DLSH_N_CALL || !dlsh_names(made->kids[0], "autograd_function")) continue;
        const dlsh_value *v = dlsh_value_of(e, t.file, t.n->kids[0]);
        if (v && dlsh_callable(*v)) look_at_rule(e, t.file, t.n->kids[0]->text, (subject){.s = e->s, .fn = *v}, made);
    }
    return DL_OK;
}
