/* Making nets from descriptions of layers. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/reparam.h"

dl_status dl_layer_repeat_check(dl_module *m);
dl_status dl_layer_repeat_check(dl_module *m) {
    const dl_optval *n = dl_m_opt(m, "n");
    if (!n->given || (n->u.i >= 1 && n->u.i <= 10000)) return DL_OK;
    return dl_fail_hint(DL_ERR_VALUE, m->row->kind.example, "layer %s: n must be 1 to 10000, not %ld",
                        m->row->kind.name, n->u.i);
}

enum { MAX_LAYERS = 20000 };

/* A net that stands in a repeat or list by its name, and the copy of it in the present repetition. */
typedef struct twin {
    struct twin *next;
    const dl_module *of;
    dl_module *copy;
} twin;

/* What went wrong where, for the caller; and how many layers there are so far, as repeats within repeats multiply. */
typedef struct fault {
    const dl_layer_spec *at;
    int arg, layers;
    int repeated; /* how many repeats are around */
    twin *twins;  /* of the innermost one */
} fault;

static dl_module *make(const dl_layer_spec *s, fault *f);

/* A net that was made before: itself, so that nets that name it share its weights. In a repeat each repetition has one
 * of its own, with weights of its own. */
static dl_module *present(dl_module *m, fault *f) {
    if (!f->repeated || !strcmp(m->row->kind.name, "function")) return dl_module_ref(m);
    for (const twin *t = f->twins; t; t = t->next)
        if (t->of == m) return dl_module_ref(t->copy);
    twin *t = malloc(sizeof *t);
    if (!t) return dl_fail(DL_ERR_MEMORY, "no memory for a net"), NULL;
    *t = (twin){f->twins, m, dl_module_again(m)};
    f->twins = t;
    return dl_module_ref(t->copy);
}

/* Another repetition begins; end_repetition takes what this returns. */
static twin *begin_repetition(fault *f) {
    twin *around = f->twins;
    f->twins = NULL;
    f->repeated++;
    return around;
}

static void end_repetition(fault *f, twin *around) {
    for (twin *t = f->twins, *next; t; t = next) {
        next = t->next;
        dl_module_unref(t->copy);
        free(t);
    }
    f->twins = around;
    f->repeated--;
}

/* Adds n layers to a module; repeats add theirs `times` over. */
static dl_status fill(dl_module *m, const dl_layer_spec *s, int n, fault *f) {
    for (int i = 0; i < n; i++) {
        dl_module *child = make(&s[i], f);
        if (!child) return dl_failed();
        f->at = &s[i], f->arg = -1;
        const char *base = s[i].group || s[i].module ? s[i].kind : child->row->kind.name;
        DL_TRY(dl_module_append(m, s[i].label, base ? base : dl_module_name(child), child));
    }
    return DL_OK;
}

/* In a repeat a label is numbered like a kind: fc0, fc1, ... */
static dl_status fill_once(dl_module *m, const dl_layer_spec *s, fault *f) {
    for (int i = 0; i < s->nbody; i++) {
        dl_layer_spec one = s->body[i];
        const char *label = one.label;
        one.label = NULL;
        dl_module *child = make(&one, f);
        if (f->at == &one) f->at = &s->body[i];
        if (!child) return dl_failed();
        const char *base = label ? label : one.group || one.module ? one.kind : child->row->kind.name;
        DL_TRY(dl_module_append(m, NULL, base ? base : dl_module_name(child), child));
    }
    return DL_OK;
}

static dl_status fill_repeat(dl_module *m, const dl_layer_spec *s, fault *f) {
    dl_status st = DL_OK;
    for (long k = 0; st == DL_OK && k < dl_m_int(m, "n"); k++) {
        twin *around = begin_repetition(f);
        st = fill_once(m, s, f);
        end_repetition(f, around);
    }
    return st;
}

/* Several layers as one, or a single one as it is. */
static dl_module *make_chain(const dl_layer_spec *s, int n, fault *f) {
    if (n == 1 && !s->label) return make(s, f);
    dl_module *m = dl_module_new(dl_layer_row_find("sequential"), NULL);
    if (!m || fill(m, s, n, f) == DL_OK) return m;
    dl_module_unref(m);
    return NULL;
}

/* Elements are named by their numbers: n chains alike, or else each layer in braces by itself. */
static dl_status fill_list(dl_module *m, const dl_layer_spec *s, fault *f) {
    bool times = dl_m_opt(m, "n")->given;
    long n = times ? dl_m_int(m, "n") : s->nbody;
    for (long k = 0; k < n; k++) {
        char number[24];
        snprintf(number, sizeof number, "%ld", k);
        twin *around = times ? begin_repetition(f) : NULL;
        dl_module *child = times ? make_chain(s->body, s->nbody, f) : make(&s->body[k], f);
        if (times) end_repetition(f, around);
        if (!child) return dl_failed();
        const char *label = times ? NULL : s->body[k].label;
        DL_TRY(dl_module_append(m, label ? label : number, NULL, child));
    }
    return DL_OK;
}

static dl_status add_shortcut(dl_module *m, const dl_layer_spec *s, fault *f) {
    dl_module *c = dl_module_new(dl_layer_row_find("sequential"), NULL);
    if (!c) return dl_failed();
    dl_status st = fill(c, s->shortcut, s->nshortcut, f);
    if (st != DL_OK) {
        dl_module_unref(c);
        return st;
    }
    m->has_shortcut = true;
    return dl_module_append(m, "shortcut", NULL, c);
}

/* Are braces there exactly where the row wants them? */
static dl_status check_body(const dl_layer_row *row, const dl_layer_spec *s) {
    const char *name = row->kind.name;
    if (s->nshortcut && !(row->flags & DL_L_SHORTCUT))
        return dl_fail_hint(DL_ERR_VALUE, "a shortcut belongs to residual { ... }", "layer %s takes no shortcut", name);
    if (s->nbody && !(row->flags & DL_L_BODY)) return dl_fail(DL_ERR_VALUE, "layer %s takes no layers in braces", name);
    if (!s->nbody && row->flags & DL_L_BODY && !s->group)
        return dl_fail_hint(DL_ERR_VALUE, row->kind.example, "layer %s needs layers in braces", name);
    return DL_OK;
}

/* What every layer takes, apart from the options of its row. */
static bool is_common(const dl_arg *a) {
    return a->name && (!strcmp(a->name, "tie") || !strcmp(a->name, "parametrize"));
}

/* tie=PATH, parametrize="mask weight". */
static dl_status take_common(dl_module *m, const dl_layer_spec *s) {
    DL_TRY(dl_reparam_of_row(m));
    for (int i = 0; i < s->nargs && !s->group; i++) {
        const dl_arg *a = &s->args[i];
        if (!is_common(a)) continue;
        if (a->kind == DL_ARG_STR && !strcmp(a->name, "parametrize")) {
            DL_TRY(dl_reparam_read(m, a->s));
            continue;
        }
        if (*a->name == 'p') return dl_fail_hint(DL_ERR_TYPE, "parametrize=\"mask weight\"", "parametrize is a text");
        if (a->kind != DL_ARG_STR) return dl_fail_hint(DL_ERR_TYPE, "tie=emb.weight", "tie names a parameter");
        if (!(m->tie = strdup(a->s))) return dl_fail(DL_ERR_MEMORY, "no memory for a layer");
    }
    return DL_OK;
}

/* The other arguments, whose count is *n; NULL without memory. which[i]: where argument i stood. */
static dl_arg *own_args(const dl_layer_spec *s, int *n, int *which) {
    dl_arg *a = malloc((size_t)(s->nargs + 1) * sizeof *a);
    *n = 0;
    for (int i = 0; a && i < s->nargs && !s->group; i++)
        if (!is_common(&s->args[i])) which[*n] = i, a[(*n)++] = s->args[i];
    if (!a) dl_fail(DL_ERR_MEMORY, "no memory for a layer");
    return a;
}

/* Reads the options of a layer into opt. */
static dl_status read_options(const dl_layer_row *row, const dl_layer_spec *s, dl_optval *opt, fault *f) {
    int n, which[DL_OPT_MAX + 1];
    if (s->nargs > DL_OPT_MAX) return dl_fail(DL_ERR_VALUE, "layer %s has more than %d arguments", s->kind, DL_OPT_MAX);
    dl_arg *args = own_args(s, &n, which);
    if (!args) return dl_failed();
    dl_status st = dl_options_read("layer", &row->kind, args, n, opt, &f->arg);
    if (st != DL_OK && f->arg >= 0 && f->arg < n) f->arg = which[f->arg];
    free(args);
    return st;
}

static dl_module *make_row(const dl_layer_row *row, const dl_layer_spec *s, fault *f) {
    dl_optval *opt = calloc(DL_OPT_MAX, sizeof *opt);
    if (!opt) return dl_fail(DL_ERR_MEMORY, "no memory for a layer"), NULL;
    if (check_body(row, s) != DL_OK || read_options(row, s, opt, f) != DL_OK) {
        free(opt);
        return NULL;
    }
    dl_module *m = dl_module_new(row, opt);
    if (!m) return NULL;
    m->src = s->src;
    if (s->group && dl_module_set_name(m, s->kind) != DL_OK) goto fail;
    if (row->check && row->check(m) != DL_OK) goto fail;
    if (row->parts && row->parts(m) != DL_OK) goto fail;
    m->code = dl_code_ref(s->code);
    bool repeat = !strcmp(row->kind.name, "repeat"), list = !strcmp(row->kind.name, "list");
    if ((repeat ? fill_repeat(m, s, f) : list ? fill_list(m, s, f) : fill(m, s->body, s->nbody, f)) != DL_OK) goto fail;
    if (s->nshortcut && add_shortcut(m, s, f) != DL_OK) goto fail;
    if (take_common(m, s) != DL_OK || (s->group && dl_module_find_ties(m, false) != DL_OK)) goto fail;
    return m;
fail:
    dl_module_unref(m);
    return NULL;
}

static dl_status check_label(const char *label) {
    bool ok = *label && !isdigit((unsigned char)*label);
    for (const char *p = label; *p; p++) ok &= isalnum((unsigned char)*p) || *p == '_';
    if (ok) return DL_OK;
    return dl_fail(DL_ERR_NAME, "'%s' is not a name for a layer: letters, digits and _ are", label);
}

static dl_module *make(const dl_layer_spec *s, fault *f) {
    f->at = s, f->arg = -1, f->layers++;
    if (f->layers > MAX_LAYERS) return dl_fail(DL_ERR_VALUE, "a net has at most %d layers", MAX_LAYERS), NULL;
    if (s->label && check_label(s->label) != DL_OK) return NULL;
    if (s->module) return present(s->module, f);
    if (!s->kind) return dl_fail(DL_ERR_VALUE, "a layer needs a kind"), NULL;
    const dl_layer_row *row = dl_layer_row_find(!s->group ? s->kind : s->code ? "net" : "sequential");
    if (!row || (row->flags & DL_L_HIDDEN && !s->code)) return dl_layer_unknown(s->kind), NULL;
    return make_row(row, s, f);
}

dl_module *dl_net_build_code(const char *name, const dl_layer_spec *layers, int n, dl_code *code,
                             const dl_layer_spec **at, int *arg) {
    fault f = {.arg = -1};
    dl_module *m = dl_module_new(dl_layer_row_find(code ? "net" : "sequential"), NULL);
    if (m) m->code = dl_code_ref(code);
    bool filled = m && (!name || dl_module_set_name(m, name) == DL_OK) && fill(m, layers, n, &f) == DL_OK;
    bool ok = filled && dl_module_find_ties(m, true) == DL_OK && dl_module_set_paths(m) == DL_OK &&
              dl_module_set_origin(m) == DL_OK;
    if (at) *at = filled ? NULL : f.at;
    if (arg) *arg = f.arg;
    if (ok) return m;
    dl_module_unref(m);
    return NULL;
}

dl_module *dl_net_build(const char *name, const dl_layer_spec *layers, int n, const dl_layer_spec **at, int *arg) {
    return dl_net_build_code(name, layers, n, NULL, at, arg);
}
