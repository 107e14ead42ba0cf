/* Groups of parameters with options of their own: by the pattern of a path, or as they are added. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/journal.h"
#include "optim/algorithm.h"

enum { RATE = 0 }; /* the number of the option lr, in every row */

/* ---------------------------------------------------------------- making */

static dl_status add_group(dl_optimizer *o, const char *pattern, const dl_arg *args, int nargs, int *bad) {
    if (bad) *bad = -1;
    if (o->row->algorithm)
        return dl_fail_hint(DL_ERR_STATE, "give it a list of parameters",
                            "%s has one set of options for all parameters, no groups", o->row->kind.name);
    dl_opt_group *more = realloc(o->group, (size_t)(o->ngroup + 1) * sizeof *more);
    if (more) o->group = more;
    char *copy = strdup(pattern);
    if (!more || !copy) {
        free(copy);
        return dl_fail(DL_ERR_MEMORY, "no memory for a group of parameters");
    }
    dl_opt_group *g = &o->group[o->ngroup];
    g->pattern = copy;
    memcpy(g->val, o->val, sizeof g->val);
    dl_status st = dl_options_change("optimizer", &o->row->kind, args, nargs, g->val, bad);
    if (st == DL_OK) st = dl_opt_check(o->row, g->val);
    if (st == DL_OK)
        o->ngroup++;
    else
        free(copy);
    return st;
}

dl_status dl_optimizer_group(dl_optimizer *o, const char *pattern, const dl_arg *args, int nargs, int *bad) {
    if (!o || !pattern) return dl_fail_null(!o ? "the optimizer" : "the pattern of a group");
    if (bad) *bad = -1;
    if (o->n)
        return dl_fail_hint(DL_ERR_STATE, "make the groups first, then add the net",
                            "the optimizer has %ld parameters already: a group made now would not get them", o->n);
    return add_group(o, pattern, args, nargs, bad);
}

dl_status dl_optimizer_begin_group(dl_optimizer *o, const dl_arg *args, int nargs, int *bad) {
    if (!o) return dl_fail_null("the optimizer");
    DL_TRY(add_group(o, "", args, nargs, bad));
    o->current = o->ngroup;
    return DL_OK;
}

void dl_optimizer_end_group(dl_optimizer *o) { o->current = 0; }

/* The group of a parameter that is added now. */
int dl_optimizer_group_for(const dl_optimizer *o, const char *name) {
    int group = o->current - 1;
    for (int i = 0; i < o->ngroup && group < 0; i++)
        if (*o->group[i].pattern && !fnmatch(o->group[i].pattern, name, 0)) group = i;
    return group;
}

/* A pattern without a parameter is a mistake in it: nothing would get its options. */
dl_status dl_optimizer_check_groups(const dl_optimizer *o) {
    for (int g = 0; g < o->ngroup; g++) {
        const char *pattern = o->group[g].pattern;
        long i = 0;
        while (i < o->n && *pattern && fnmatch(pattern, o->param[i].name, 0)) i++;
        if (!*pattern || i < o->n) continue;
        char hint[400];
        snprintf(hint, sizeof hint, "the first of %ld paths is %s; o.named_parameters() gives all of them", o->n,
                 o->param[0].name);
        return dl_fail_hint(DL_ERR_NAME, hint, "no parameter of the optimizer has a path that matches the group '%s'",
                            pattern);
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- options */

const dl_optval *dl_optimizer_options(const dl_optimizer *o, int group) {
    return group < 0 ? o->val : o->group[group].val;
}

/* A group's own rate keeps its ratio to the optimizer's. */
double dl_optimizer_rate(const dl_optimizer *o, int group, double lr) {
    if (group < 0) return lr;
    double own = o->group[group].val[RATE].u.f;
    return o->base_lr > 0 ? own / o->base_lr * lr : own;
}

int dl_optimizer_groups(const dl_optimizer *o) { return o->ngroup + 1; }

int dl_optimizer_group_of(const dl_optimizer *o, long i) { return i < 0 || i >= o->n ? -1 : o->param[i].group + 1; }

static dl_status check_group(const dl_optimizer *o, int group) {
    if (!o) return dl_fail_null("the optimizer");
    if (group >= 0 && group <= o->ngroup) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "there is no group %d: the optimizer has %d", group, o->ngroup + 1);
}

dl_status dl_optimizer_group_get(const dl_optimizer *o, int group, int option, dl_arg *out) {
    DL_TRY(check_group(o, group));
    const dl_option_row *row = &o->row->kind.options[option];
    const dl_optval *v = &dl_optimizer_options(o, group - 1)[option];
    *out = (dl_arg){.name = row->name, .kind = row->kind, .n = v->n, .v = v->u.v, .fv = v->u.fv};
    if (row->kind == DL_ARG_FLOAT) out->f = option == RATE ? dl_optimizer_rate(o, group - 1, o->lr) : v->u.f;
    if (row->kind == DL_ARG_STR) out->s = v->u.s;
    if (row->kind == DL_ARG_INT || row->kind == DL_ARG_BOOL) out->i = v->u.i;
    return DL_OK;
}

static void put_rate(dl_optimizer *o, int group, double lr) {
    dl_optval *v = group < 0 ? o->val : o->group[group].val;
    v[RATE].u.f = lr;
}

/* From here on the ratios between the groups are those of their present rates. */
static void rebase(dl_optimizer *o, double lr) {
    for (int g = 0; g < o->ngroup; g++) put_rate(o, g, dl_optimizer_rate(o, g, o->lr));
    put_rate(o, -1, lr);
    o->base_lr = o->lr = lr;
}

dl_status dl_optimizer_group_set(dl_optimizer *o, int group, const dl_arg *arg) {
    DL_TRY(check_group(o, group));
    if (o->trainers)
        return dl_fail_hint(DL_ERR_STATE,
                            "t.lr = 0.1, t being the trainer, sets the rate, of all groups in proportion; "
                            "for other options make a new trainer",
                            "this optimizer is a trainer's, which has taken its options over");
    bool rate = arg->name && dl_option_find(&o->row->kind, arg->name) == RATE;
    if (o->row->algorithm && !rate)
        return dl_fail_hint(DL_ERR_STATE, "make a new optimizer", "the options of %s are fixed when it is made",
                            o->row->kind.name);
    dl_optval val[DL_OPT_MAX], *own = group ? o->group[group - 1].val : o->val;
    memcpy(val, own, sizeof val);
    DL_TRY(dl_options_change("optimizer", &o->row->kind, arg, 1, val, NULL));
    DL_TRY(dl_opt_check(o->row, val));
    double lr = val[RATE].u.f;
    if (rate) DL_TRY(dl_optimizer_check_lr(lr));
    if (rate) rebase(o, group ? o->lr : lr);
    if (rate && group) put_rate(o, group - 1, lr);
    if (rate && !group) dl_journal_rate(o, lr);
    if (!rate) memcpy(own, val, sizeof val);
    o->edits++;
    return DL_OK;
}

/* ---------------------------------------------------------------- as numbers, for states */

static int values_of(const dl_optimizer *o) {
    int n = 1;
    const dl_option_row *row = o->row->kind.options;
    for (int i = 1; row[i].name; i++) n += row[i].kind == DL_ARG_FLOATS ? 2 : 1;
    return n;
}

dl_tensor *dl_optimizer_groups_tensor(const dl_optimizer *o) {
    int n = values_of(o);
    dl_tensor *t = dl_tensor_zeros(2, (long[]){o->ngroup + 1, n}, DL_F64, 0);
    for (int g = -1; t && g < o->ngroup; g++) {
        double v[DL_MAX_ATTR], *row = (double *)dl_ptr(t) + (g + 1) * n;
        dl_opt_values(o->row, dl_optimizer_options(o, g), v);
        row[0] = dl_optimizer_rate(o, g, o->lr);
        memcpy(row + 1, v, (size_t)(n - 1) * sizeof *v);
    }
    return t;
}

dl_status dl_optimizer_check_groups_tensor(const dl_optimizer *o, const dl_tensor *t) {
    int n = values_of(o);
    if (t->dtype != DL_F64 || t->ndim != 2 || t->shape[0] != o->ngroup + 1 || t->shape[1] != n)
        return dl_fail_hint(DL_ERR_VALUE, "make it with the groups that it was saved with",
                            "the state has the options of %ld groups, the optimizer %d", t->ndim ? t->shape[0] : 0L,
                            o->ngroup + 1);
    const double *row = dl_ptr((dl_tensor *)t);
    for (int g = -1; g < o->ngroup; g++, row += n) {
        dl_optval val[DL_OPT_MAX];
        memcpy(val, dl_optimizer_options(o, g), sizeof val);
        dl_opt_take_values(o->row, row + 1, val);
        DL_TRY(dl_optimizer_check_lr(row[0]));
        DL_TRY(dl_opt_check(o->row, val));
    }
    return DL_OK;
}

void dl_optimizer_restore_groups(dl_optimizer *o, const dl_tensor *t) {
    int n = values_of(o);
    const double *row = dl_ptr((dl_tensor *)t);
    o->base_lr = o->lr = row[0];
    for (int g = -1; g < o->ngroup; g++, row += n) {
        dl_opt_take_values(o->row, row + 1, g < 0 ? o->val : o->group[g].val);
        put_rate(o, g, row[0]);
    }
    o->edits++;
}
