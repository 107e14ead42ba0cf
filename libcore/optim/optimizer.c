/* Optimizers: options, groups and state of parameters; the arithmetic is in rows of the op table. */
#include "optim/algorithm.h"
#include "optim/direction.h"
#include "autograd/hooks.h"
#include "autograd/journal.h"
#include "autograd/nonfinite.h"
#include "core/list.h"
#include "core/scope.h"
#include "dlcore/copy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/parse.h"

/* ---------------------------------------------------------------- life */

/* "adam(lr=0.001, weight_decay=0.01)": the rate, and what differs from the defaults. */
static char *make_text(const dl_optimizer *o) {
    dl_text t = {0};
    const dl_kind_row *k = &o->row->kind;
    dl_text_add(&t, "%s(", k->name);
    for (int i = 0, n = 0; k->options[i].name; i++) {
        if (!o->val[i].set && strcmp(k->options[i].name, "lr")) continue;
        char value[160];
        dl_optval_text(&k->options[i], &o->val[i], value, sizeof value);
        dl_text_add(&t, "%s%s=%s", n++ ? ", " : "", k->options[i].name, value);
    }
    dl_text_add(&t, ")");
    return dl_text_take(&t);
}

dl_optimizer *dl_optimizer_new(const char *kind, const dl_arg *args, int nargs, int *bad) {
    if (!kind) return dl_fail_null("the kind of an optimizer"), NULL;
    if (bad) *bad = -1;
    const dl_opt_row *rows = dl_opt_rows;
    int i = dl_kind_find(&rows->kind, dl_opt_nrows, sizeof *rows, kind);
    if (i < 0) return dl_kind_unknown("optimizer", &rows->kind, dl_opt_nrows, sizeof *rows, kind), NULL;
    dl_optimizer *o = calloc(1, sizeof *o);
    if (!o) return dl_fail(DL_ERR_MEMORY, "no memory for an optimizer"), NULL;
    o->refs = 1;
    o->row = &rows[i];
    o->src = dl_source_get();
    if (dl_options_read("optimizer", &o->row->kind, args, nargs, o->val, bad) == DL_OK &&
        dl_opt_check(o->row, o->val) == DL_OK && (o->text = make_text(o)) &&
        (o->lr_tensor = dl_tensor_zeros(0, NULL, DL_F64, 0)) &&
        (o->step_tensor = dl_tensor_zeros(0, NULL, DL_F64, 0)) &&
        (!o->row->algorithm || (o->algorithm = o->row->algorithm->create()))) {
        o->base_lr = o->lr = dl_option_f(&o->row->kind, o->val, "lr");
        return o;
    }
    dl_optimizer_unref(o);
    return NULL;
}

static void *make(const char *kind, const dl_arg *args, int nargs) { return dl_optimizer_new(kind, args, nargs, NULL); }

dl_optimizer *dl_optimizer_parse(const char *text) { return dl_parse_call(text, make); }

DL_REF_FUNCTION(dl_optimizer)

void dl_optimizer_unref(dl_optimizer *o) {
    if (!o || __atomic_sub_fetch(&o->refs, 1, __ATOMIC_ACQ_REL)) return;
    for (long i = 0; i < o->n; i++) {
        free(o->param[i].name);
        dl_unref(o->param[i].p);
        for (int s = 0; s < DL_OPTIM_STATES; s++) dl_unref(o->param[i].state[s]);
    }
    for (int i = 0; i < o->ngroup; i++) free(o->group[i].pattern);
    if (o->row->algorithm) o->row->algorithm->destroy(o->algorithm);
    dl_hooks_free(&o->before);
    dl_hooks_free(&o->behind);
    dl_unref(o->lr_tensor);
    dl_unref(o->step_tensor);
    free(o->group);
    free(o->param);
    free(o->text);
    free(o);
}

/* ---------------------------------------------------------------- parameters */

/* Parameters of two nets may have one name: the later gets a number, so that their states are told apart. */
static char *free_name(const dl_optimizer *o, const char *name) {
    size_t size = strlen(name) + 24;
    char *own = malloc(size);
    if (own) strcpy(own, name);
    for (long i = 0, number = 2; own && i < o->n; i++)
        if (!strcmp(o->param[i].name, own)) snprintf(own, size, "%s.%ld", name, number++), i = -1;
    return own;
}

dl_status dl_optimizer_register(dl_optimizer *o, const char *name, dl_tensor *param) {
    for (long i = 0; i < o->n; i++)
        if (o->param[i].p == param)
            return dl_fail(DL_ERR_NAME, "the optimizer has a parameter '%s' already", o->param[i].name);
    DL_TRY(DL_LIST_ROOM(o->param, o->n, o->cap));
    dl_opt_param p = {.name = free_name(o, name), .p = dl_ref(param), .group = dl_optimizer_group_for(o, name)};
    if (!p.name) {
        dl_unref(param);
        return dl_fail(DL_ERR_MEMORY, "no memory for parameters");
    }
    o->param[o->n++] = p;
    return DL_OK;
}

dl_status dl_optimizer_add(dl_optimizer *o, const char *name, dl_tensor *param) {
    if (!o) return dl_fail_null("the optimizer");
    if (!param) return dl_fail_null("the parameter");
    if (!dl_is_leaf(param) || !dl_requires_grad(param))
        return dl_fail_hint(DL_ERR_AUTOGRAD, "use param(x)",
                            "'%s' is not a parameter: a leaf that needs a gradient is one", name);
    return dl_optimizer_register(o, name, param);
}

bool dl_optimizer_has(const dl_optimizer *o, const dl_tensor *param) {
    for (long i = 0; i < o->n; i++)
        if (o->param[i].p == param) return true;
    return false;
}

dl_status dl_optimizer_add_module(dl_optimizer *o, dl_module *m) {
    if (!o || !m) return dl_fail_null(!o ? "the optimizer" : "the net");
    DL_TRY(dl_module_check_built(m));
    dl_module_list *l = dl_module_tensors(m, 1);
    if (!l) return dl_failed();
    dl_status st = DL_OK;
    for (long i = 0; i < l->n && st == DL_OK; i++)
        st = dl_optimizer_register(o, l->entries[i].path, l->entries[i].tensor);
    dl_module_list_free(l);
    return st;
}

void dl_optimizer_zero_grad(dl_optimizer *o) {
    dl_journal_zero(o);
    for (long i = 0; i < o->n; i++) dl_set_grad(o->param[i].p, NULL);
}

double dl_optimizer_lr(const dl_optimizer *o) { return o->lr; }

dl_status dl_optimizer_check_lr(double lr) {
    if (lr >= 0 && !isinf(lr)) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "a learning rate is at least 0 and finite, not %g", lr);
}

dl_status dl_optimizer_put_lr(dl_optimizer *o, double lr) {
    DL_TRY(dl_optimizer_check_lr(lr));
    dl_journal_rate(o, o->lr = lr);
    return DL_OK;
}

dl_status dl_optimizer_set_lr(dl_optimizer *o, double lr) {
    if (!o) return dl_fail_null("the optimizer");
    if (o->trainers)
        return dl_fail_hint(
            DL_ERR_STATE, "t.lr = 0.1, t being the trainer",
            "this optimizer is a trainer's, which sets its rate at each step: from t.lr, by the schedule "
            "if there is one");
    return dl_optimizer_put_lr(o, lr);
}

long dl_optimizer_steps(const dl_optimizer *o) { return o->steps; }
dl_source dl_optimizer_source(const dl_optimizer *o) { return o->src; }

dl_tensor *dl_optimizer_param(const dl_optimizer *o, long i, const char **name) {
    if (i < 0 || i >= o->n) return NULL;
    if (name) *name = o->param[i].name;
    return o->param[i].p;
}

double dl_optimizer_option(const dl_optimizer *o, const char *name, double other) {
    int i = dl_option_find(&o->row->kind, name);
    if (i < 0 || (o->row->kind.options[i].kind != DL_ARG_FLOAT && o->row->kind.options[i].kind != DL_ARG_BOOL))
        return other;
    return o->row->kind.options[i].kind == DL_ARG_BOOL ? (double)o->val[i].u.i : o->val[i].u.f;
}
const char *dl_optimizer_kind(const dl_optimizer *o) { return o->row->kind.name; }
const char *dl_optimizer_text(const dl_optimizer *o) { return o->text; }

/* ---------------------------------------------------------------- steps */

enum { HEAD = 2, MAX_RUN = (DL_MAX_IN - HEAD) / (2 + DL_OPTIM_STATES) };

/* Parameters collected for one run of the op. */
typedef struct batch {
    dl_opt_param *p[MAX_RUN];
    int n;
} batch;

/* Bits: states that there are. */
static unsigned made(const dl_opt_param *p) {
    unsigned bits = 0;
    for (int s = 0; s < DL_OPTIM_STATES; s++) bits |= (unsigned)(p->state[s] != NULL) << s;
    return bits;
}

static bool run_together(const dl_opt_param *a, const dl_opt_param *b) {
    return a->group == b->group && a->steps == b->steps && a->p->dtype == b->p->dtype &&
           a->p->st->device == b->p->st->device && made(a) == made(b);
}

/* The net was moved to another dtype or device: its state follows. */
static dl_status move_state(dl_tensor **state, const dl_tensor *p) {
    dl_tensor *cast = dl_to_dtype(*state, dl_optim_state_dtype(p)),
              *there = cast ? dl_to_device(cast, p->st->device) : NULL;
    dl_unref(cast);
    if (!there) return dl_failed();
    dl_unref(*state);
    *state = there;
    return DL_OK;
}

static dl_status make_states(dl_opt_param *p, unsigned states) {
    for (int s = 0; s < DL_OPTIM_STATES; s++) {
        const dl_tensor *t = p->state[s];
        if (t && (t->dtype != (int)dl_optim_state_dtype(p->p) || t->st->device != p->p->st->device))
            DL_TRY(move_state(&p->state[s], p->p));
        if (p->state[s] || !(states >> s & 1)) continue;
        p->state[s] = dl_tensor_zeros(p->p->ndim, p->p->shape, dl_optim_state_dtype(p->p), p->p->st->device);
        if (!p->state[s]) return dl_failed();
    }
    return DL_OK;
}

static dl_status set_number(dl_tensor **t, double v, int device) {
    if (device == dl_device_of(*t) && device == 0) return *(double *)dl_ptr(*t) = v, DL_OK;
    dl_tensor *host = dl_tensor_from(0, NULL, DL_F64, 0, &v), *there = host ? dl_to_device(host, device) : NULL;
    dl_unref(host);
    if (!there) return dl_failed();
    dl_unref(*t);
    *t = there;
    return DL_OK;
}

/* Rate and step number of a run: the optimizer's own tensors, or those of a trainer's control block. */
static dl_status set_numbers(dl_optimizer *o, const dl_opt_param *lead, dl_tensor **in) {
    const dl_group_rates *r = o->rates ? &o->rates[lead->group + 1] : NULL;
    int device = lead->p->st->device;
    bool counted = r && r->steps == lead->steps;
    if (!r) DL_TRY(set_number(&o->lr_tensor, dl_optimizer_rate(o, lead->group, o->lr), device));
    if (!counted) DL_TRY(set_number(&o->step_tensor, (double)lead->steps + 1, device));
    in[0] = r ? r->rates : o->lr_tensor;
    in[1] = counted ? r->step : o->step_tensor;
    return DL_OK;
}

static dl_status run_batch(dl_optimizer *o, const batch *b) {
    const dl_opt_param *lead = b->p[0];
    const dl_opt_row *row = o->row;
    dl_tensor *in[DL_MAX_IN], *out[DL_MAX_OUT] = {0};
    dl_aval attr[DL_MAX_ATTR];
    double v[DL_MAX_ATTR];
    dl_opt_values(row, dl_optimizer_options(o, lead->group), v);
    unsigned states = row->wants(v);
    bool first = states && !(made(lead) & states);
    int nin = HEAD + 2 * b->n;
    dl_direction_fn *direction = dl_direction_of(row);
    DL_TRY(set_numbers(o, lead, in));
    for (int i = 0; i < b->n; i++) {
        DL_TRY(make_states(b->p[i], states));
        if (direction) DL_TRY(direction(row, dl_optimizer_options(o, lead->group), b->p[i], in));
        in[HEAD + i] = b->p[i]->p, in[HEAD + b->n + i] = b->p[i]->p->grad;
    }
    for (int s = 0; s < DL_OPTIM_STATES; s++)
        for (int i = 0; i < b->n && states >> s & 1; i++) in[nin++] = b->p[i]->state[s];
    dl_opt_attrs(row, v, first, attr);
    DL_TRY(dl_invoke(dl_op_row(*row->op), in, nin, attr, out));
    for (int i = 0; i < b->n; i++) {
        b->p[i]->steps++;
        if (dl_direction_passes(row)) dl_unref(b->p[i]->state[0]), b->p[i]->state[0] = NULL;
    }
    return DL_OK;
}

static dl_status check_parameters(const dl_optimizer *o) {
    if (!o) return dl_fail_null("the optimizer");
    if (o->n) return o->steps ? DL_OK : dl_optimizer_check_groups(o);
    return dl_fail_hint(DL_ERR_STATE, "give it to a trainer, or add a net or parameters to it",
                        "the optimizer has no parameters");
}

dl_status dl_optimizer_check_single(const dl_optimizer *o) {
    if (!o->row->algorithm) return DL_OK;
    return dl_fail_hint(
        DL_ERR_STATE, "in a loop of your own: o.step(fn () { o.zero_grad(); l = loss(); backward l; return l })",
        "%s evaluates the loss itself: its step needs a function that computes loss and gradients", o->row->kind.name);
}

static dl_status step(dl_optimizer *o) {
    DL_TRY(check_parameters(o));
    DL_TRY(dl_optimizer_check_single(o));
    batch b = {.n = 0};
    dl_status st = DL_OK;
    DL_SCOPED_GRAD_MODE(0);
    for (long i = 0; i < o->n && st == DL_OK; i++) {
        dl_opt_param *p = &o->param[i];
        if (!p->p->grad) continue;
        if (b.n && (b.n == MAX_RUN || !run_together(b.p[0], p))) {
            st = run_batch(o, &b);
            b.n = 0;
        }
        b.p[b.n++] = p;
    }
    if (st == DL_OK && b.n) st = run_batch(o, &b);
    if (st == DL_OK) o->steps++;
    return st;
}

/* Tells the journal; true: it is to be told of the end, too. */
static bool see_step(const dl_optimizer *o, dl_journal_step *seen) {
    dl_tensor *few[DL_JOURNAL_PARAMS], **p = o->n <= DL_JOURNAL_PARAMS ? few : malloc((size_t)o->n * sizeof *p);
    for (long i = 0; p && i < o->n; i++) p[i] = o->param[i].p;
    bool look = p && dl_journal_step_begin(seen, o, o->lr, p, o->n);
    if (p != few) free(p);
    return look;
}

static dl_status update(dl_optimizer *o) {
    int held = dl_interrupt_hold(1);
    dl_journal_step seen;
    bool look = o && o->n && see_step(o, &seen);
    dl_status st = step(o);
    if (look) dl_journal_step_end(&seen);
    for (long i = 0; st == DL_OK && i < o->n; i++) /* the row touches all that it is given */
        if (o->param[i].p->grad) dl_journal_used(o->param[i].p->grad);
    dl_interrupt_hold(held);
    dl_nonfinite_count_update();
    return st;
}

/* ---- hooks, which no value goes through */

static dl_status run_hooks(const dl_hook *list) {
    dl_tensor *none = NULL;
    return list ? dl_hooks_run(list, &none) : DL_OK;
}

dl_status dl_before_step(dl_optimizer *o, dl_hook_fn *fn, void *ctx, void (*release)(void *ctx)) {
    return dl_hooks_add(&o->before, 0, fn, ctx, release);
}

dl_status dl_behind_step(dl_optimizer *o, dl_hook_fn *fn, void *ctx, void (*release)(void *ctx)) {
    return dl_hooks_add(&o->behind, 0, fn, ctx, release);
}

dl_status dl_optimizer_step(dl_optimizer *o) {
    if (o) DL_TRY(run_hooks(o->before));
    DL_TRY(update(o));
    return run_hooks(o->behind);
}

/* An interrupt can stop an evaluation, never an update. */
static dl_status minimize(dl_optimizer *o, dl_closure_fn *closure, void *ctx, double *loss) {
    double unused;
    if (!closure) return dl_fail_null("the function that computes the loss");
    if (!loss) loss = &unused;
    if (o->row->algorithm) {
        DL_TRY(o->row->algorithm->run(o, closure, ctx, loss));
        o->steps++;
        return DL_OK;
    }
    {
        DL_SCOPED_GRAD_MODE(1);
        DL_TRY(closure(ctx, loss));
    }
    return update(o);
}

dl_status dl_optimizer_minimize(dl_optimizer *o, dl_closure_fn *closure, void *ctx, double *loss) {
    DL_TRY(check_parameters(o));
    DL_TRY(run_hooks(o->before));
    DL_TRY(minimize(o, closure, ctx, loss));
    return run_hooks(o->behind);
}

/* ---------------------------------------------------------------- state for checkpoints */

int dl_optimizer_state_shape(const dl_optimizer *o, const dl_tensor *p, int state, long *shape) {
    memcpy(shape, p->shape, sizeof *shape * (size_t)p->ndim);
    if (dl_direction_passes(o->row) && state && p->ndim > 1) shape[p->ndim - state] = 1;
    return p->ndim;
}

bool dl_optimizer_state_needed(const dl_optimizer *o, int state) {
    return dl_direction_passes(o->row) ? state == 1 : state < o->row->own;
}

void dl_optimizer_state_name(const dl_optimizer *o, long param, int state, char *out, size_t size) {
    snprintf(out, size, "%s.%s", o->row->state[state], o->param[param].name);
}

dl_status dl_optimizer_check_restore(const dl_optimizer *o, long param, int state, const dl_tensor *t) {
    const dl_opt_param *p = &o->param[param];
    long shape[DL_MAX_DIM];
    const int n = dl_optimizer_state_shape(o, p->p, state, shape);
    if (dl_sizes_eq(t->ndim, t->shape, n, shape)) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "%s of '%s' has shape %s, not %s as for a parameter %s", o->row->state[state], p->name,
                   dl_shape_of(t), dl_shape_text(n, shape), dl_shape_of(p->p));
}

dl_status dl_optimizer_restore(dl_optimizer *o, long param, int state, dl_tensor *t) {
    dl_opt_param *p = &o->param[param];
    DL_TRY(dl_optimizer_check_restore(o, param, state, t));
    dl_tensor *cast = dl_to_dtype(t, dl_optim_state_dtype(p->p)),
              *moved = cast ? dl_to_device(cast, p->p->st->device) : NULL;
    dl_unref(cast);
    if (!moved) return dl_failed();
    /* written in place where it can be: captured steps know where it lies */
    DL_SCOPED_GRAD_MODE(0);
    dl_tensor *old = p->state[state];
    bool fits = old && dl_shape_eq(old, moved);
    dl_tensor *own = fits ? NULL : moved == t ? dl_clone(moved) : dl_ref(moved);
    dl_status st = fits ? dl_assign(old, moved) : own ? DL_OK : dl_failed();
    dl_unref(moved);
    if (!own) return st;
    dl_unref(old);
    p->state[state] = own;
    return DL_OK;
}
