/* What trials run: the net or trainer that is asked about; else nets that are trained and functions of the script that
 * compute what is trained. */
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/texts.h"
#include "dlcore/view.h"

enum { SAMPLES = 16 };

static void keep(dlsh_examination *e, dlsh_subject *s) {
    if (s->probed)
        dlsh_probe_pause(&s->probe), e->nsubjects++;
    else
        dlsh_probe_end(&s->probe), dl_error_clear();
}

/* ---------------------------------------------------------------- functions */

static int last_line(const dlsh_node *n) {
    int line = 0;
    DLSH_EACH_BELOW (t, n) line = t.n->span.line > line ? t.n->span.line : line;
    return line;
}

/* Do gradients of several passes go through ops of the function? */
static int is_trained(const dlsh_examination *e, const char *file, const dlsh_node *fn) {
    const int end = last_line(fn);
    const dl_journal_node *n;
    for (dlsh_node_walk w = {0}; (n = dlsh_node_next(e, NULL, &w));)
        if (w.row->count > 2 && !strcmp(n->file, file) && n->line >= fn->span.line && n->line <= end) return 1;
    return 0;
}

/* A place along a dimension of n elements, from the end where it is negative; 0: it is no number of the text. */
static int place_of(const dlsh_node *n, long size, long otherwise, long *out) {
    const int back = n && n->kind == DLSH_N_UNARY && n->op == DLSH_OP_NEG;
    const dlsh_node *number = back ? n->kids[0] : n;
    *out = otherwise;
    if (!n) return 1;
    if (number->kind != DLSH_N_INT) return 0;
    *out = back ? size - number->num.i : number->num.i;
    return *out >= 0 && *out <= size;
}

/* t[:, :-1] and its kin: slices between numbers of the text. An owned tensor, or NULL. */
static dl_tensor *sliced(dl_tensor *t, const dlsh_node *index) {
    dl_tensor *made = index->nkids - 1 <= dl_ndim(t) ? dl_ref(t) : NULL;
    for (int i = 1; made && i < index->nkids; i++) {
        const dlsh_node *s = index->kids[i];
        const long size = dl_shape(made)[i - 1];
        long from = 0, to = 0;
        const int known = s && s->kind == DLSH_N_SLICE && !s->kids[2] && place_of(s->kids[0], size, 0, &from) &&
                          place_of(s->kids[1], size, size, &to) && from < to;
        dl_tensor *part = known ? dl_narrow(made, i - 1, from, to - from) : NULL;
        dl_unref(made);
        made = part;
    }
    return made;
}

/* The data that a call is given, as its variable holds them; an owned tensor, or NULL. */
static dl_tensor *given(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    const int index = n->kind == DLSH_N_INDEX;
    const dlsh_value *v = dlsh_value_of(e, file, index ? n->kids[0] : n);
    if (!v || v->type != DLSH_TENSOR || dl_requires_grad(v->as.tensor) || dl_ndim(v->as.tensor) < 1) return NULL;
    DLSH_SCOPED_GRAD_MODE(0);
    return index ? sliced(v->as.tensor, n) : dl_ref(v->as.tensor);
}

static int see_call(void *ctx, const char *file, const dlsh_node *n) {
    dlsh_examination *e = ctx;
    if (n->kind != DLSH_N_CALL || n->nkids != 2 || n->kids[0]->kind != DLSH_N_NAME) return 0;
    const dlsh_value *v = dlsh_value_of(e, file, n->kids[0]);
    const dlsh_node *fn = v && v->type == DLSH_FN ? dlsh_function_of(file, n->kids[0]->text) : NULL;
    for (int i = 0; i < e->nsubjects; i++)
        if (fn && e->subjects[i].fn == fn) return 0;
    if (!fn || e->nsubjects == DLSH_SUBJECTS || !is_trained(e, file, fn)) return 0;
    DLSH_OWNED dl_tensor *x = given(e, file, n->kids[1]);
    if (!x) return dl_error_clear(), 0;
    dlsh_subject *s = &e->subjects[e->nsubjects];
    *s = (dlsh_subject){.fn = fn, .place = {file, fn->span.line}};
    const dl_status st = dlsh_probe_function(&s->probe, e->s, *v, x, SAMPLES);
    s->probed = !st;
    keep(e, s);
    return 0;
}

/* ---------------------------------------------------------------- nets */

static int is_part(dl_module *whole, const dl_module *m) {
    for (int i = 0; i < dl_module_count(whole); i++) {
        dl_module *c = dl_module_at(whole, i);
        if (c == m || is_part(c, m)) return 1;
    }
    return 0;
}

/* Nets that went through passes with gradients, each of them once, parts of others left out. */
static void add_nets(dlsh_examination *e) {
    DLSH_EACH_HOLDER_WHILE (e->nsubjects < DLSH_SUBJECTS, h, &e->holders) {
        dl_module *m = dlsh_unwrap(h->value, &dlsh_net_class);
        int trained = 0, part = 0;
        DLSH_EACH_ROW_WHILE (m, r, e, DL_DID_FORWARD) trained |= r->what == m && r->grad && r->count > 2;
        DLSH_EACH_HOLDER_WHILE (trained, other, &e->holders) {
            dl_module *whole = dlsh_unwrap(other->value, &dlsh_net_class);
            part |= whole && whole != m && is_part(whole, m);
        }
        if (!trained || part || !dl_module_is_built(m)) continue;
        dlsh_subject *s = &e->subjects[e->nsubjects];
        *s = (dlsh_subject){.net = m, .place = dlsh_module_source(m)};
        const dl_status st = dlsh_probe_net(&e->holders, &s->probe, m, SAMPLES);
        s->probed = !st && strcmp(s->probe.from, "random numbers") != 0;
        keep(e, s);
    }
}

/* ---------------------------------------------------------------- all */

void dlsh_subjects_find(dlsh_examination *e) {
    dlsh_probe_pause(&e->probe);
    if (!e->net) add_nets(e);
    if (!e->trainer) dlsh_each_node(see_call, e);
    dlsh_probe_resume(&e->probe);
}

void dlsh_subjects_free(dlsh_examination *e) {
    for (int i = 0; i < e->nsubjects; i++)
        dlsh_probe_resume(&e->subjects[i].probe), dlsh_probe_end(&e->subjects[i].probe);
    e->nsubjects = 0;
}

dl_status dlsh_try_subjects(dlsh_examination *e, dl_status (*check)(dlsh_examination *e)) {
    const dlsh_subject own = {.net = e->net, .probe = e->probe, .probed = e->probed, .place = e->place};
    dl_status st = check(e);
    for (int i = 0; !st && i < e->nsubjects; i++) {
        dlsh_subject *s = &e->subjects[i];
        e->net = s->net, e->probe = s->probe, e->probed = s->probed, e->place = s->place;
        dlsh_probe_resume(&e->probe);
        st = check(e);
        dlsh_probe_pause(&e->probe);
        s->probe = e->probe;
    }
    e->net = own.net, e->probe = own.probe, e->probed = own.probed, e->place = own.place;
    return st;
}
