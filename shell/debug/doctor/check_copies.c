/* Copies that stay behind what they were made of: of a weight that is used beside it, of a net that is evaluated in its
 * place, of a state that is loaded when the training is over. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/checks.h"
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/texts.h"
#include "debug/doctor/trace.h"

enum { DEEPEST = 16 };

/* ---------------------------------------------------------------- what a value was copied from */

/* The tensor of a net at a path of fields; NULL: it has none. */
static dl_tensor *tensor_of_net(dl_module *m, const char *path) {
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = m ? dl_module_tensors(m, 1) : NULL;
    for (long i = 0; l && i < l->n; i++)
        if (!strcmp(l->entries[i].path, path)) return l->entries[i].tensor;
    return NULL;
}

/* m.a.weight, or a variable. */
static dl_tensor *param_at(const dlsh_examination *e, const char *file, const dlsh_node *n, char *path, size_t size) {
    char below[160];
    if (n->kind == DLSH_N_FIELD) {
        snprintf(below, sizeof below, "%s%s%s", n->text, *path ? "." : "", path);
        snprintf(path, size, "%s", below);
        return param_at(e, file, n->kids[0], path, size);
    }
    const dlsh_value *v = dlsh_value_of(e, file, n);
    if (!v) return NULL;
    if (*path) return tensor_of_net(dlsh_unwrap(*v, &dlsh_net_class), path);
    return v->type == DLSH_TENSOR && dl_requires_grad(v->as.tensor) && dl_is_leaf(v->as.tensor) ? v->as.tensor : NULL;
}

static const char copying[] = "detach|clone|T|t|transpose|permute|contiguous|to|float|double|copy|requires_grad_|data";

/* The parameter that an expression is a copy or another form of. */
typedef struct copy {
    const dlsh_examination *e;
    dl_tensor *of;
} copy;

static dlsh_property is_copy(void *ctx, const dlsh_step *at) {
    char path[160] = "";
    copy *c = ctx;
    const dlsh_node *n = at->n, *by = n->kind == DLSH_N_CALL ? n->kids[0] : n->kind == DLSH_N_FIELD ? n : NULL;
    c->of = at->added ? NULL : param_at(c->e, at->file, n, path, sizeof path);
    if (c->of) return DLSH_HAS_FIRST;
    if (n->kind == DLSH_N_NAME || dlsh_function_called(at->file, n)) return at->added ? DLSH_HAS_NOT : DLSH_MAY_HAVE;
    const char *name = by && by->text ? by->text : "";
    const int makes = by && by->kind == DLSH_N_NAME && dlsh_is_word("param|tensor|deepcopy|as_tensor", name);
    return makes || (*name && dlsh_is_word(copying, name)) ? DLSH_MAY_HAVE : DLSH_HAS_NOT;
}

static copy copy_of(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    copy c = {.e = e};
    if (n) dlsh_origin(file, n, is_copy, &c);
    return c;
}

/* ---------------------------------------------------------------- weights */

static int is_within_memory(const dl_tensor *t, const void *at) {
    const char *from = dl_data(t), *p = at;
    return p >= from && p < from + dl_numel(t) * dl_dtype_size(dl_dtype_of(t));
}

/* The variable without a gradient that has the memory of an operand; NULL: none. */
static const dl_tensor *variable_at(const dlsh_examination *e, const void *at, const char **name) {
    DLSH_EACH_HOLDER (h, &e->holders) {
        *name = h->name;
        if (h->value.type != DLSH_TENSOR || dl_requires_grad(h->value.as.tensor)) continue;
        if (!dl_device_of(h->value.as.tensor) && is_within_memory(h->value.as.tensor, at)) return h->value.as.tensor;
    }
    return NULL;
}

/* The parameter that a detached operand shares its memory with. */
static const dl_tensor *param_in_memory(const dlsh_examination *e, const void *at, const char **name) {
    dl_optimizer *o;
    dl_tensor *p;
    for (int i = 0; (o = dlsh_optimizer_at(e, i, NULL)); i++)
        for (long k = 0; (p = dl_optimizer_param(o, k, name)); k++)
            if (!dl_device_of(p) && is_within_memory(p, at)) return p;
    return NULL;
}

/* Do two tensors hold the same numbers, whatever their order of dimensions? Sums tell. */
static int has_same_sum(const dl_tensor *a, const dl_tensor *b) {
    const long n = dl_numel(a);
    if (dl_numel(b) != n) return 0;
    DLSH_FREED double *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);
    double sum = 0, size = 0;
    if (!x || !y || dl_read_f64(a, x) || dl_read_f64(b, y)) return dl_error_clear(), 1;
    for (long i = 0; i < n; i++) sum += x[i] - y[i], size += (x[i] < 0 ? -x[i] : x[i]);
    return (sum < 0 ? -sum : sum) <= 1e-6 * size;
}

/* Where a variable was given its value; NULL: its text is not known. */
static const dlsh_node *made_in(const char *file, const char *name, int *line) {
    const dlsh_node *made = dlsh_definition_of(file, name, INT_MAX, NULL);
    if (made) *line = made->span.line;
    return made;
}

static void find_stale_weight(dlsh_examination *e, const dl_journal_node *n, const dl_journal_value *v) {
    const char *name = NULL;
    int line = n->line;
    const dl_tensor *variable = variable_at(e, v->data, &name);
    const dl_tensor *from = copy_of(e, n->file, variable ? made_in(n->file, name, &line) : NULL).of;
    if (!from || !dlsh_is_being_trained(e, from) || has_same_sum(variable, from)) return;
    dlsh_found(e, n->file, line,
               "use the weight itself where it is needed: then it is one weight, with the gradients "
               "of both places",
               "%s is a copy of a weight that is trained: it stays as that was, and gets no gradient\n"
               "each pass uses it (%s, line %d); by now it differs from the weight that it was made of",
               name, n->op, n->line);
}

/* The weight as it is now, cut off from its gradient at that place: as of codes that are compared with, it may be
 * meant.
 */
/* May the operand have been the parameter? Memory that was another tensor's may be the parameter's by now. */
static int may_have_been(const dl_tensor *p, const dl_journal_value *v) {
    double n = dlsh_elements_in(v), sum = 0, squares = 0;
    DLSH_FREED double *x = n == (double)dl_numel(p) ? malloc((size_t)dl_numel(p) * sizeof *x) : NULL;
    if (!x || !v->n || dl_read_f64(p, x)) return dl_error_clear(), 0;
    for (long i = 0; i < dl_numel(p); i++) sum += x[i] / n, squares += x[i] * x[i] / n;
    const double std = sqrt(fmax(squares - sum * sum, 0)), apart = fabs(std - v->std) + fabs(sum - v->mean);
    return apart < 0.5 * (std + v->std);
}

static void find_detached_weight(dlsh_examination *e, const dl_journal_node *n, const dl_journal_value *v) {
    const char *name;
    const dl_tensor *p = param_in_memory(e, v->data, &name);
    if (!p || !dl_requires_grad(p) || !may_have_been(p, v)) return; /* frozen, it has none anywhere */
    dlsh_finding *f =
        dlsh_found(e, n->file, n->line, "leave detach() or .data out, if the weight is to learn here, too",
                   "%s is used without its history: it gets no gradient from this place\n"
                   "%s takes it as a number like any other, by detach(), .data or no_grad",
                   name, n->op);
    dlsh_only_note(e, f);
}

static void look_at_weights(dlsh_examination *e, dlsh_pass p) {
    static const char weighing[] = "matmul|linear|conv2d|bmm|embedding|index_select|gather|einsum|conv1d";
    DLSH_EACH_OP (n, p) {
        if (!dlsh_op_is(n, weighing) || n->nin < 2) continue;
        for (int k = 0; k < 2; k++) {
            if (!n->in[k].constant || !n->in[k].data || n->in[1 - k].constant || n->in[k].ndim < 2) continue;
            find_stale_weight(e, n, &n->in[k]);
            find_detached_weight(e, n, &n->in[k]);
        }
    }
}

/* b.copy_(a) of two weights that are both trained: they begin alike and go apart. */
static int see_copied_weight(void *ctx, const char *file, const dlsh_node *n, const dlsh_node *const *within,
                             int depth) {
    dlsh_examination *e = ctx;
    const dlsh_node *to = dlsh_is_method(n, "copy_") && n->nkids > 1 ? n->kids[0]->kids[0] : NULL;
    for (int i = 0; to && i < depth; i++)
        if (dlsh_is_loop(within[i]) || within[i]->kind == DLSH_N_FN) return 0;
    const dl_tensor *a = copy_of(e, file, to).of, *b = a ? copy_of(e, file, n->kids[1]).of : NULL;
    if (!b || a == b || !dlsh_is_being_trained(e, a) || !dlsh_is_being_trained(e, b)) return 0;
    dlsh_finding *f = dlsh_found(e, file, n->span.line,
                                 "none, if two weights are meant that begin alike; to tie them use one weight at both "
                                 "places",
                                 "two weights begin as copies and are trained apart: copying does not tie them\n"
                                 "both are among the parameters of optimizers, and %s",
                                 has_same_sum(a, b) ? "have equal sums still" : "they differ by now");
    if (!f) return 0;
    dlsh_only_note(e, f);
    return 0;
}

/* ---------------------------------------------------------------- nets */

/* Have two nets parameters of the same shapes? */
static int are_alike(dl_module *a, dl_module *b) {
    DLSH_ENDED(dl_module_list_free) dl_module_list *x = dl_module_tensors(a, 1), *y = dl_module_tensors(b, 1);
    int same = x && y && x->n && x->n == y->n;
    for (long i = 0; same && i < x->n; i++) {
        const dl_tensor *p = x->entries[i].tensor, *q = y->entries[i].tensor;
        same = dl_ndim(p) == dl_ndim(q) && !memcmp(dl_shape(p), dl_shape(q), (size_t)dl_ndim(p) * sizeof(long));
    }
    return same;
}

static int trains_any(const dlsh_examination *e, dl_module *m) {
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_tensors(m, 1);
    for (long i = 0; l && i < l->n; i++)
        if (dlsh_is_being_trained(e, l->entries[i].tensor)) return 1;
    return 0;
}

/* The first event of a training. */
static unsigned long training_began(const dlsh_examination *e) {
    unsigned long at = ULONG_MAX;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) at = r->at < at ? r->at : at;
    return at;
}

/* Does the statement of a pass train, too, as that of a trainer does which evaluates between its epochs? */
static int has_backward(const dlsh_examination *e, const dl_journal_row *pass) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if (r->line == pass->line && !strcmp(r->file, pass->file)) return 1;
    return 0;
}

static int is_evaluated_after(const dlsh_examination *e, const void *net) {
    const unsigned long began = training_began(e);
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD)
        if (r->what == net && r->till > began && !r->grad && !has_backward(e, r)) return 1;
    return 0;
}

/* Number i of the nets of variables and trainers; NULL past the last. */
static dl_module *net_at(const dlsh_examination *e, int i, const char **name) {
    DLSH_EACH_HOLDER (h, &e->holders) {
        *name = h->name;
        dl_trainer *t = dlsh_unwrap(h->value, &dlsh_trainer_class);
        dl_module *m = t ? dl_trainer_model(t) : dlsh_unwrap(h->value, &dlsh_net_class);
        if (m && !i--) return m;
    }
    return NULL;
}

static dl_module *trained_like(const dlsh_examination *e, dl_module *m, const char **name) {
    dl_module *other;
    for (int i = 0; (other = net_at(e, i, name)); i++)
        if (other != m && are_alike(other, m) && trains_any(e, other)) return other;
    return NULL;
}

static int stands_for(const dlsh_examination *e, const char *file, const dlsh_node *n, const dl_module *net,
                      const char *name) {
    const dl_module *m = dlsh_object_of(e, file, n, &dlsh_net_class);
    return m ? m == net : dlsh_names(n, name);
}

/* The call that copies a net of that name, or the one that the name stands for; line 0: there is none. */
static dl_source copier_of(const dlsh_examination *e, const dl_module *net, const char *name) {
    DLSH_EACH_NODE (t) {
        const dlsh_node *n = t.n, *of = NULL;
        if (dlsh_is_method(n, "copy") || dlsh_is_method(n, "clone")) of = n->kids[0]->kids[0];
        if (n->kind == DLSH_N_CALL && n->nkids > 1 && dlsh_names(n->kids[0], "deepcopy")) of = n->kids[1];
        if (of && stands_for(e, t.file, of, net, name)) return (dl_source){t.file, n->span.line};
    }
    return (dl_source){NULL, 0};
}

/* Was something made before the training began, and never in its loop? */
static int is_before_training(const dlsh_examination *e, const char *file, int line) {
    DLSH_EACH_ROW_WHILE (line > 0, r, e, DL_DID_BACKWARD) {
        if (!strcmp(r->file, file) && !dlsh_is_before_loop(file, line, r->line)) return 0;
    }
    return line > 0;
}

/* Was no weight of the net written after its maker? */
static int is_untouched(dl_module *m, dl_source *made) {
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_tensors(m, 1);
    for (long i = 0; l && i < l->n; i++) {
        dl_source writer;
        dlsh_tensor_places(l->entries[i].tensor, made, &writer);
        if (writer.file && made->file && (writer.line != made->line || strcmp(writer.file, made->file) != 0)) return 0;
    }
    return l && l->n;
}

/* Was every weight written last before the training, as by a smaller beginning? */
static int is_set_before(const dlsh_examination *e, dl_module *m) {
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_tensors(m, 1);
    for (long i = 0; l && i < l->n; i++) {
        const dl_source writer = dlsh_writer_of(l->entries[i].tensor);
        if (writer.file && !is_before_training(e, writer.file, writer.line)) return 0;
    }
    return l && l->n;
}

/* Is a name that of a copy which is to follow? */
static int says_it_follows(const char *name) {
    static const char *const words[] = {"target", "ema", "avg", "average", "slow", "momentum", "mean_"};
    for (size_t i = 0; i < DLSH_COUNT(words); i++)
        if (strstr(name, words[i])) return 1;
    return 0;
}

/* A copy of the net that is trained, which gives targets and never follows; it may be meant, as what a policy is held
 * to. */
static void look_at_target(dlsh_examination *e, const dl_journal_row *r) {
    const char *name = "", *other = "";
    dl_source made = {0};
    dl_module *m = r->grad || r->count < 8 ? NULL : dlsh_live_net(e, r->what, &name);
    if (!m || trains_any(e, m) || !(is_untouched(m, &made) || is_set_before(e, m)) || !dlsh_is_trained(e, r)) return;
    dl_module *twin = trained_like(e, m, &other);
    const dl_source c = twin ? copier_of(e, twin, other) : (dl_source){NULL, 0};
    if (!c.line || !is_before_training(e, r->file, c.line)) return;
    if (dlsh_was_found(e, e->check, "copied the wrong way")) return;
    dlsh_finding *f = dlsh_found(
        e, c.file, c.line, "take its weights again every so often: target.load_state_dict(q.state_dict())",
        "%s, a copy of %s, never follows it: the targets are those of a net that was never trained\n"
        "it was used %ld times for the loss (line %d), and nothing was written to its weights since they were copied",
        name, other, r->count, r->line);
    if (!says_it_follows(name)) dlsh_only_note(e, f);
}

/* Is it run without gradients again and again, as for the targets of another net? */
static int gives_targets(const dlsh_examination *e, const void *net) {
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD)
        if (r->what == net && !r->grad && r->count >= 8) return 1;
    return 0;
}

/* q.load_state_dict(target.state_dict()) in the loop, or a loop over both that writes to the parameters of q: the copy
 * is carried over to the net that is trained. */
static void find_set_back(dlsh_examination *e, const char *file, int line, const dlsh_node *to, const dlsh_node *from) {
    dl_module *q = dlsh_object_of(e, file, to, &dlsh_net_class);
    dl_module *copy = q ? dlsh_object_of(e, file, from, &dlsh_net_class) : NULL;
    dl_source made = {0};
    const char *name = "", *other = "";
    if (!copy || copy == q || !trains_any(e, q) || trains_any(e, copy) || !are_alike(copy, q)) return;
    if (!is_untouched(copy, &made) || is_before_training(e, file, line) || !gives_targets(e, copy)) return;
    if (!is_before_training(e, made.file, made.line) || dlsh_was_found(e, "parameters and optimizers", "")) return;
    dlsh_live_net(e, q, &name), dlsh_live_net(e, copy, &other);
    dlsh_found(e, file, line, "the other way round: target.load_state_dict(q.state_dict())",
               "weights are copied the wrong way: %s, which is trained, is set back to %s, which never follows it\n"
               "optimizers train %s; nothing was written to the weights of %s since line %d, so that what was learned "
               "is thrown away here",
               name, other, name, other, made.line);
}

/* X.parameters() or X.state_dict(): X. */
static const dlsh_node *owner_of(const dlsh_node *n, const char *names) {
    const dlsh_node *by = n && n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD ? n->kids[0] : NULL;
    return by && dlsh_is_word(names, by->text) ? by->kids[0] : NULL;
}

/* What writes to a name in place: p.copy_(t), p.data.copy_(t), p += ..., p[...] = ...; NULL: nothing does. */
static const dlsh_node *write_to(const dlsh_node *n, const char *name) {
    DLSH_EACH_BELOW (t, n) {
        const dlsh_node *to = NULL;
        if (t.n->kind == DLSH_N_CALL && t.n->kids[0]->kind == DLSH_N_FIELD && t.n->kids[0]->text[0] &&
            t.n->kids[0]->text[strlen(t.n->kids[0]->text) - 1] == '_')
            to = t.n->kids[0]->kids[0];
        if (t.n->kind == DLSH_N_ASSIGN && (t.n->op || t.n->kids[0]->kind == DLSH_N_INDEX)) to = t.n->kids[0];
        while (to && to->nkids && (to->kind == DLSH_N_FIELD || to->kind == DLSH_N_INDEX)) to = to->kids[0];
        if (dlsh_names(to, name)) return t.n;
    }
    return NULL;
}

static void see_set_back(dlsh_examination *e, const char *file, const dlsh_node *n) {
    if ((dlsh_is_method(n, "load_state_dict") || dlsh_is_method(n, "load_state")) && n->nkids > 1) {
        const dlsh_node *from = owner_of(n->kids[1], "state_dict|state");
        if (from) find_set_back(e, file, n->span.line, n->kids[0]->kids[0], from);
    }
    const dlsh_node *both = n->kind == DLSH_N_FOR && n->nkids > 3 ? n->kids[n->nkids - 2] : NULL;
    if (!both || both->kind != DLSH_N_CALL || both->nkids < 3 || !dlsh_names(both->kids[0], "zip")) return;
    for (int k = 0; k < 2; k++) {
        const dlsh_node *to = owner_of(both->kids[1 + k], "parameters"), *name = n->kids[k];
        const dlsh_node *from = owner_of(both->kids[2 - k], "parameters");
        const dlsh_node *by =
            to && from && name->kind == DLSH_N_NAME ? write_to(n->kids[n->nkids - 1], name->text) : NULL;
        if (by) find_set_back(e, file, by->span.line, to, from);
    }
}

static void look_at_evaluated(dlsh_examination *e, const dl_journal_row *r) {
    const char *name = "", *other = "";
    dl_source made = {0};
    dl_module *m = r->grad || r->till <= training_began(e) ? NULL : dlsh_live_net(e, r->what, &name);
    if (!m || trains_any(e, m) || !is_untouched(m, &made) || dlsh_is_trained(e, r)) return;
    if (dlsh_was_found(e, "parameters and optimizers", "no optimizer trains") ||
        dlsh_was_found(e, "parameters and optimizers", "is a copy of"))
        return;
    dl_module *twin = trained_like(e, m, &other);
    if (!twin || is_evaluated_after(e, twin) || !is_before_training(e, r->file, made.line)) return;
    const dl_source own = copier_of(e, twin, other), c = own.line ? own : copier_of(e, m, name);
    dlsh_found(e, c.line ? c.file : r->file, c.line ? c.line : r->line,
               "evaluate the net that was trained, or copy its weights when it has become better",
               "%s is evaluated, but another net was trained, %s: %s is as it was before the training\n"
               "no optimizer has its weights, and nothing was written to them since line %d; it is evaluated at line "
               "%d, and the net that was trained never is",
               name, other, name, made.line, r->line);
}

/* The net that a name was made a copy of in the text, where it is trained; NULL: of none. */
static dl_module *copied_net(const dlsh_examination *e, const char *file, const char *name, int *line) {
    const dlsh_node *made = made_in(file, name, line);
    const dlsh_node *of = NULL;
    if (dlsh_is_method(made, "copy") || dlsh_is_method(made, "clone")) of = made->kids[0]->kids[0];
    if (made && made->kind == DLSH_N_CALL && made->nkids > 1 && dlsh_names(made->kids[0], "deepcopy"))
        of = made->kids[1];
    dl_module *m = of ? dlsh_object_of(e, file, of, &dlsh_net_class) : NULL;
    return m && trains_any(e, m) ? m : NULL;
}

/* Is a net run at all behind the last backward pass? */
static int is_run_after(const dlsh_examination *e, const void *net) {
    unsigned long last = 0;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) last = r->till > last ? r->till : last;
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD)
        if (r->what == net && r->till > last) return 1;
    return 0;
}

/* A copy from before any training that is evaluated in place of the net, as an average that nothing brings up to date.
 */
static void look_at_follower(dlsh_examination *e, const dl_journal_row *r) {
    const char *name = "";
    int line = 0;
    dl_source made = {0};
    dl_module *m = r->till > training_began(e) && !e->bad ? dlsh_live_net(e, r->what, &name) : NULL;
    if (!m || trains_any(e, m) || !is_untouched(m, &made) || !is_run_after(e, m)) return;
    if (dlsh_was_found(e, "parameters and optimizers", "is a copy of")) return;
    dl_module *of = copied_net(e, r->file, name, &line);
    if (!of || !is_before_training(e, r->file, line) || is_run_after(e, of)) return; /* or both are compared */
    dlsh_found(e, r->file, r->line,
               "evaluate the net that was trained, or bring the copy up to date in the loop: "
               "copy.update_parameters(net, decay=0.99)",
               "%s is never updated: it is a copy of a net from before the training, with weights of the start\n"
               "line %d copies it, no statement writes to its weights after that, and the net itself is not run here",
               name, line);
}

/* Targets that a net gave before the loop, which is brought up to date within and never asked again. */
static void look_at_stale(dlsh_examination *e, const dl_journal_row *r) {
    const char *name = "";
    dl_module *m = r->grad || r->till > training_began(e) ? NULL : dlsh_live_net(e, r->what, &name);
    if (!m || trains_any(e, m) || is_evaluated_after(e, m) || !dlsh_is_trained(e, r)) return;
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_tensors(m, 1);
    const dl_source writer = l && l->n ? dlsh_writer_of(l->entries[0].tensor) : (dl_source){NULL, 0};
    if (!writer.file || is_before_training(e, writer.file, writer.line)) return;
    dlsh_found(e, r->file, r->line, "compute it in the loop, each time with the net as it is then",
               "the targets are computed once, by %s as it was before the training: they never follow it\n"
               "line %d changes the weights of %s in the loop, and nothing runs it after line %d",
               name, writer.line, name, r->line);
}

/* The call that leads to what a line computes. */
typedef struct leading {
    int line;
    const dlsh_node *call;
} leading;

static dlsh_property is_computed_there(void *ctx, const dlsh_step *at) {
    leading *l = ctx;
    if (at->n->span.line != l->line || !at->from) return DLSH_MAY_HAVE;
    return l->call = dlsh_outer_call(at), DLSH_HAS_FIRST;
}

/* mse_loss(x, y), where a target comes from there. */
static dlsh_property has_target_of(void *ctx, const dlsh_step *at) {
    const char *by = at->n->kind == DLSH_N_CALL ? at->n->kids[0]->text : NULL;
    if (!by || !strstr(by, "loss")) return DLSH_MAY_HAVE;
    const dlsh_node *target = dlsh_argument_of(at->n, 1, "target");
    return target && dlsh_origin_at(at, target, is_computed_there, ctx) ? DLSH_HAS_FIRST : DLSH_HAS_NOT;
}

/* Targets that the net itself gave before it was ever trained, as values of what comes next. */
static void look_at_own_targets(dlsh_examination *e, const dl_journal_row *r) {
    const char *name = "";
    dl_module *m = r->grad || r->till > training_began(e) ? NULL : dlsh_live_net(e, r->what, &name);
    leading l = {.line = r->line};
    const dlsh_node *at = NULL;
    int after = 0;
    if (!m || !trains_any(e, m)) return;
    DLSH_EACH_ROW_WHILE (!at, pass, e, DL_DID_BACKWARD) {
        const dlsh_node *s =
            pass->count > 20 && !strcmp(pass->file, r->file) ? dlsh_statement_at(r->file, pass->line) : NULL;
        at = s ? dlsh_origin(r->file, s, has_target_of, &l) : NULL;
        after = pass->line;
    }
    const int line = l.call ? l.call->span.line : r->line;
    if (at && dlsh_is_before_loop(r->file, line, after))
        dlsh_found(e, r->file, line, "compute it in the loop, each time with the net as it is then",
                   "the targets are computed once, by %s before it was ever trained: they never follow it\n"
                   "line %d runs it before the first step, and the loss of line %d is made of what it gave",
                   name, r->line, after);
}

/* ---------------------------------------------------------------- states and names */

/* m.state_dict(), which holds the weights themselves, by whatever name, key or function it is kept; no copy of it. */
typedef struct state {
    const dlsh_examination *e;
    const dl_module *of;
} state;

static dlsh_property is_that_net(void *ctx, const dlsh_step *at) {
    const state *s = ctx;
    if (dlsh_object_of(s->e, at->file, at->n, &dlsh_net_class) == s->of) return DLSH_HAS_FIRST;
    return at->n->kind == DLSH_N_CALL ? DLSH_HAS_NOT : DLSH_MAY_HAVE; /* m.copy() */
}

static dlsh_property is_state_itself(void *ctx, const dlsh_step *at) {
    const dlsh_node *net = owner_of(at->n, "state_dict|state");
    if (net && dlsh_origin_at(at, net, is_that_net, ctx)) return DLSH_HAS_FIRST;
    return at->n->kind == DLSH_N_CALL && !dlsh_function_called(at->file, at->n) ? DLSH_HAS_NOT : DLSH_MAY_HAVE;
}

static void find_shared_state(dlsh_examination *e, const char *file, const dlsh_node *load, const dlsh_node *made) {
    char name[80] = "";
    const dlsh_node *s = load->kids[1];
    if (s->kind == DLSH_N_NAME || s->kind == DLSH_N_FIELD) snprintf(name, sizeof name, "%s", s->text);
    dlsh_found(e, file, made->span.line, "keep a copy: m.copy().state_dict(), or deepcopy(m.state_dict())",
               "%s is no copy: it holds the weights of the net themselves, which go on changing\n"
               "line %d loads it into the net that it was taken of, which changes nothing: what was best is lost",
               *name ? name : "what is kept", load->span.line);
}

/* m.load_state_dict(S) with a state that was taken before the training alone. */
static void see_loaded(dlsh_examination *e, const char *file, const dlsh_node *n) {
    int line = 0;
    if (!dlsh_is_method(n, "load_state_dict") && !dlsh_is_method(n, "load_state")) return;
    const dlsh_node *s = n->nkids > 1 ? n->kids[1] : NULL;
    dl_module *m = dlsh_object_of(e, file, n->kids[0]->kids[0], &dlsh_net_class);
    const dlsh_node *made = s && s->kind == DLSH_N_NAME ? made_in(file, s->text, &line) : NULL;
    state own = {e, m};
    if (dlsh_was_found(e, e->check, "are one net")) return;
    const dlsh_node *live = m && s && trains_any(e, m) ? dlsh_origin(file, s, is_state_itself, &own) : NULL;
    if (live) {
        find_shared_state(e, file, n, live);
        return;
    }
    if (!m || !made || !trains_any(e, m) || is_before_training(e, file, n->span.line) ||
        !is_before_training(e, file, line))
        return;
    if (made->kind == DLSH_N_NONE ||
        (made->kind == DLSH_N_CALL && made->kids[0]->text && strstr(made->kids[0]->text, "load")))
        return;
    dlsh_found(e, file, line, "take it again where the net has become better: s = m.state_dict() there",
               "the state that is loaded after the training was taken before it: what was learned is thrown away\n"
               "%s is set at this line alone, before the first step, and line %d loads it",
               s->text, n->span.line);
}

/* ---------------------------------------------------------------- two names of one net */

/* Is an expression all that something is given: a name, a field of a record, an item of a list, or a result? Methods
 * that give the net back, net.eval(), are left out. */
static dlsh_kind given_to(const dlsh_node *root, const dlsh_node *n) {
    const dlsh_node *around[DLSH_TREE_DEPTH];
    int i = dlsh_nodes_around(root, n->span.start, around, DLSH_TREE_DEPTH) - 1;
    while (i > 0 && around[i] != n) i--;
    while (i > 1 && around[i - 1]->kind == DLSH_N_FIELD && around[i - 2]->kind == DLSH_N_CALL &&
           around[i - 2]->kids[0] == around[i - 1])
        i -= 2;
    return i > 0 ? around[i - 1]->kind : DLSH_N_NONE;
}

/* The place that gives a net another name, back from an expression that has it; within a function that gives the net
 * back, what that does with it. */
typedef struct alias {
    const dlsh_node *start, *found, *call;
    int result;
    dlsh_course other; /* of the other name */
} alias;

static dlsh_property is_alias(void *ctx, const dlsh_step *at) {
    alias *a = ctx;
    if (at->n->kind != DLSH_N_NAME || at->n == a->start) return DLSH_MAY_HAVE;
    for (int i = 0; i < a->other.n; i++)
        if (a->other.at[i].n == at->n) return DLSH_MAY_HAVE;
    const dlsh_kind to = given_to(dlsh_text_root(at->file), at->n);
    const int given =
        to == DLSH_N_ASSIGN || to == DLSH_N_KWARG || to == DLSH_N_LIST || to == DLSH_N_TUPLE || to == DLSH_N_RETURN;
    if (!given || (a->found && !(a->result && at->call == a->call))) return DLSH_MAY_HAVE;
    a->found = at->n, a->call = at->call, a->result = to == DLSH_N_RETURN;
    return DLSH_MAY_HAVE;
}

static const dlsh_node *alias_behind(const char *file, const dlsh_node *n, const dlsh_node *other) {
    static alias a;
    a = (alias){.start = n};
    dlsh_course_of(file, other, &a.other);
    dlsh_origin(file, n, is_alias, &a);
    return a.found;
}

/* Two names by which weights are carried over, or one of which gives the targets: they are of one net. */
static void find_one_net(dlsh_examination *e, const char *file, const dlsh_node *to, const dlsh_node *from, int line) {
    dl_module *m = dlsh_object_of(e, file, to, &dlsh_net_class);
    if (!m || m != dlsh_object_of(e, file, from, &dlsh_net_class) || dlsh_same_text(file, to, from) ||
        !trains_any(e, m))
        return;
    const dlsh_node *of_to = alias_behind(file, to, from);
    const dlsh_node *made = of_to ? of_to : alias_behind(file, from, to);
    if (!made) return;
    const dlsh_unit *u = dlsh_text_of(file);
    dlsh_found(e, file, made->span.line, "make it a copy: target = net.copy(), and bring that up to date now and then",
               "%.*s and %.*s are one net, no copy: both change with each step\n"
               "this line gives the net another name; line %d uses both as if they were two nets",
               to->span.end - to->span.start, u->text + to->span.start, from->span.end - from->span.start,
               u->text + from->span.start, line);
}

/* a.load_state_dict(b.state_dict()), or a loop over the parameters of both, a.update_parameters(b). */
static void see_one_net(dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_node *from = NULL, *to = NULL;
    if (dlsh_is_call_of(n, "load_state_dict|load_state|update_parameters|copy_") && n->nkids > 1 &&
        n->kids[0]->kind == DLSH_N_FIELD) {
        to = n->kids[0]->kids[0], from = owner_of(n->kids[1], "state_dict|state");
        if (!from) from = n->kids[1];
    } else if (dlsh_is_call_of(n, "zip") && n->nkids > 2) {
        static const char all[] = "parameters|named_parameters|buffers|state_dict";
        to = owner_of(n->kids[1], all), from = owner_of(n->kids[2], all);
    }
    if (to && from) find_one_net(e, file, to, from, n->span.line);
}

/* The first call in a statement of a net that is trained; NULL: there is none. */
static const dlsh_node *net_called(const dlsh_examination *e, const char *file, int line, const dl_module *m) {
    DLSH_EACH_NODE (t)
        if (!strcmp(t.file, file) && t.n->kind == DLSH_N_CALL && t.n->span.line == line &&
            dlsh_object_of(e, file, t.n->kids[0], &dlsh_net_class) == m)
            return t.n->kids[0];
    return NULL;
}

/* Two names, or two parts of what has one name. */
static int are_alike_in_form(const char *file, const dlsh_node *a, const dlsh_node *b) {
    return a->kind == b->kind && (a->kind == DLSH_N_NAME || dlsh_same_text(file, a->kids[0], b->kids[0]));
}

/* Targets that a net gives by another name than that by which it is trained. */
static void look_at_two_names(dlsh_examination *e, const dl_journal_row *r) {
    const char *name = "";
    dl_module *m = r->grad || r->count < 8 || e->bad ? NULL : dlsh_live_net(e, r->what, &name);
    if (!m || !trains_any(e, m) || !dlsh_is_trained(e, r)) return;
    const dlsh_node *by = net_called(e, r->file, r->line, m), *root = dlsh_text_root(r->file);
    DLSH_EACH_ROW_WHILE (by && !e->bad, t, e, DL_DID_FORWARD) {
        const dlsh_node *other = t->what == m && t->grad && t->line != r->line && !strcmp(t->file, r->file)
                                     ? net_called(e, t->file, t->line, m)
                                     : NULL;
        const int beside =
            other && dlsh_block_around(root, by->span.start) == dlsh_block_around(root, other->span.start);
        if (beside && are_alike_in_form(r->file, by, other)) find_one_net(e, r->file, by, other, r->line);
    }
}

/* best = m, in the branch of a loop: the same net under another name. */
static void see_alias(dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node *const *within,
                      int depth) {
    int loop = 0, choice = 0;
    if (n->kind != DLSH_N_ASSIGN || n->nkids != 2 || n->op || n->kids[0]->kind != DLSH_N_NAME) return;
    dl_module *m = dlsh_object_of(e, file, n->kids[1], &dlsh_net_class);
    for (int i = 0; i < depth; i++) {
        loop |= dlsh_is_loop(within[i]);
        choice |= loop && within[i]->kind == DLSH_N_IF;
    }
    if (!m || !choice || !trains_any(e, m)) return;
    dlsh_found(e, file, n->span.line, "keep a copy: best = m.copy()",
               "%s is no copy of %s but the same net: it goes on being trained\n"
               "the line gives the net a second name within the loop; what was best is not kept",
               n->kids[0]->text, n->kids[1]->text);
}

dl_status dlsh_check_copies(dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) look_at_weights(e, dlsh_pass_of(r, 1));
    dlsh_each_within(see_copied_weight, e);
    DLSH_EACH_NODE (t) see_set_back(e, t.file, t.n);
    DLSH_EACH_NODE (t) see_one_net(e, t.file, t.n);
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) look_at_two_names(e, r);
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD)
        look_at_evaluated(e, r), look_at_target(e, r), look_at_follower(e, r), look_at_stale(e, r),
            look_at_own_targets(e, r);
    DLSH_EACH_NODE (t) see_loaded(e, t.file, t.n);
    DLSH_EACH_NODE (t) see_alias(e, t.file, t.n, t.within, t.depth);
    return DL_OK;
}
