/* Questions to the tree of a text. */
#include "debug/doctor/syntax.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "debug/doctor/texts.h"

enum { STEPS = 8 };

int dlsh_tree_next(dlsh_tree *t) {
    if (!t->n) return (t->n = t->root) != NULL;
    if (!t->skip && t->depth < DLSH_TREE_DEPTH) t->within[t->depth] = t->n, t->kid[t->depth++] = 0;
    t->skip = 0;
    while (t->depth) {
        const dlsh_node *around = t->within[t->depth - 1];
        int *kid = &t->kid[t->depth - 1];
        while (*kid < around->nkids && !around->kids[*kid]) ++*kid;
        if (*kid < around->nkids) return t->n = around->kids[(*kid)++], 1;
        t->depth--;
    }
    return 0;
}

int dlsh_tree_next_of_all(dlsh_tree *t) {
    const dlsh_unit *u;
    while (!t->root || !dlsh_tree_next(t)) {
        if (!(u = dlsh_text_at(t->text++))) return 0;
        t->root = u->root, t->file = u->name, t->n = NULL, t->skip = t->depth = 0;
    }
    return 1;
}

int dlsh_tree_in_loop(const dlsh_tree *t) {
    for (int i = 0; i < t->depth; i++)
        if (dlsh_is_loop(t->within[i])) return 1;
    return 0;
}

int dlsh_each_node(dlsh_see_node *see, void *ctx) {
    int st = 0;
    DLSH_EACH_NODE (t)
        if ((st = see(ctx, t.file, t.n))) break;
    return st;
}

int dlsh_each_within(dlsh_see_within *see, void *ctx) {
    int st = 0;
    DLSH_EACH_NODE (t)
        if ((st = see(ctx, t.file, t.n, t.within, t.depth))) break;
    return st;
}

int dlsh_is_method(const dlsh_node *n, const char *name) {
    return n && n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD && !strcmp(n->kids[0]->text, name);
}

const dlsh_node *dlsh_cut_of_name(const dlsh_node *n, const char *name) {
    DLSH_EACH_BELOW (t, n) {
        if (dlsh_is_method(t.n, "detach") && dlsh_names(t.n->kids[0]->kids[0], name)) return t.n;
        if (t.n->kind == DLSH_N_FIELD && !strcmp(t.n->text, "data") && dlsh_names(t.n->kids[0], name)) return t.n;
    }
    return NULL;
}

int dlsh_is_within(const dlsh_node *const *within, int depth, const char *command) {
    for (int i = 0; i < depth; i++)
        if (within[i]->kind == DLSH_N_COMMAND && within[i]->num.cmd && !strcmp(within[i]->num.cmd->name, command))
            return 1;
    return 0;
}

void *dlsh_object_of(const dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_class *cls) {
    const dlsh_value *v = dlsh_value_of(e, file, n);
    return v ? dlsh_unwrap(*v, cls) : NULL;
}

static double number(const dlsh_examination *e, const char *file, const dlsh_node *n, int depth);

static double number_of_binary(const dlsh_examination *e, const char *file, const dlsh_node *n, int depth) {
    const double a = number(e, file, n->kids[0], depth), b = number(e, file, n->kids[1], depth);
    switch (n->op) {
    case DLSH_OP_ADD: return a + b;
    case DLSH_OP_SUB: return a - b;
    case DLSH_OP_MUL: return a * b;
    case DLSH_OP_DIV: return a / b;
    case DLSH_OP_POW: return pow(a, b);
    default: return NAN;
    }
}

/* A name that stands for a number for the time being; NULL: none. */
static const char *replaced;
static double replaced_by;

static double number_of_name(const dlsh_examination *e, const char *file, const dlsh_node *n, int depth) {
    int at;
    if (replaced && !strcmp(n->text, replaced)) return replaced_by;
    const dlsh_node *made = dlsh_definition_of(file, n->text, n->span.start, &at);
    const dlsh_value *v = at < 0 ? dlsh_value_of(e, file, n) : NULL;
    if (made) return number(e, file, made, depth + 1);
    return v && dlsh_is_number(*v) ? dlsh_number(*v) : NAN;
}

/* hp.lr, hp["lr"], rates[0]: as it is by now. */
static double number_of_item(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_value *v = dlsh_value_of(e, file, n);
    return v && dlsh_is_number(*v) ? dlsh_number(*v) : NAN;
}

static double number(const dlsh_examination *e, const char *file, const dlsh_node *n, int depth) {
    if (!n || depth > STEPS) return NAN;
    switch (n->kind) {
    case DLSH_N_INT: return (double)n->num.i;
    case DLSH_N_FLOAT: return n->num.f;
    case DLSH_N_UNARY: return n->op == DLSH_OP_NEG ? -number(e, file, n->kids[0], depth) : NAN;
    case DLSH_N_KWARG: return number(e, file, n->kids[0], depth);
    case DLSH_N_BINARY: return number_of_binary(e, file, n, depth);
    case DLSH_N_NAME: return number_of_name(e, file, n, depth);
    case DLSH_N_FIELD:
    case DLSH_N_INDEX: return number_of_item(e, file, n);
    default: return NAN;
    }
}

double dlsh_number_of(const dlsh_examination *e, const char *file, const dlsh_node *n) { return number(e, file, n, 0); }

double dlsh_number_with(const dlsh_examination *e, const char *file, const dlsh_node *n, const char *name,
                        double value) {
    replaced = name, replaced_by = value;
    const double found = number(e, file, n, 0);
    replaced = NULL;
    return found;
}

static const dlsh_node *call_of(const dlsh_node *n, int line, const char *words) {
    const dlsh_node *found = NULL, *by = n && n->kind == DLSH_N_CALL ? n->kids[0] : NULL;
    if (!n) return NULL;
    for (const char *w = words; by && by->kind == DLSH_N_NAME && n->span.line == line && *w;
         w += strcspn(w, "|"), w += *w == '|') {
        char word[32];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(w, "|"), w);
        if (strstr(by->text, word)) return n;
    }
    for (int i = 0; i < n->nkids && !found; i++) found = call_of(n->kids[i], line, words);
    return found;
}

const dlsh_node *dlsh_call_on_line(const char *file, int line, const char *words) {
    return call_of(dlsh_text_root(file), line, words);
}

typedef struct wanted {
    const dlsh_examination *e;
    double number;
} wanted;

static dlsh_property is_number(void *ctx, const dlsh_step *s) {
    const wanted *w = ctx;
    const double found = dlsh_number_of(w->e, s->file, s->n);
    const int computed = s->n->kind == DLSH_N_BINARY && isnan(w->number); /* of numbers that are not known */
    if (isnan(found)) return computed ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
    if (isnan(w->number)) return DLSH_HAS_FIRST; /* of a record */
    return fabs(found - w->number) <= 1e-6 * fabs(w->number) ? DLSH_HAS : DLSH_HAS_NOT;
}

const dlsh_node *dlsh_origin_of_number(const dlsh_examination *e, const char *file, const dlsh_node *n, double number) {
    wanted w = {e, number};
    return dlsh_origin(file, n, is_number, &w);
}

const dlsh_node *dlsh_call_within(const char *file, int line, const char *words) {
    const dlsh_node *call = dlsh_call_on_line(file, line, words), *s = dlsh_statement_at(file, line);
    for (int k = line + 1; !call && s && k <= line + 40 && k <= s->span.line + 40; k++)
        if ((call = dlsh_call_on_line(file, k, words)) && call->span.end > s->span.end) call = NULL;
    const dlsh_unit *u = call ? NULL : dlsh_text_of(file);
    for (int k = 1, n = 0; u && dlsh_script_line(NULL, file, k, &n); k++) {
        const dlsh_node *other = dlsh_call_on_line(file, k, words);
        if (other && dlsh_function_of(file, other->kids[0]->text)) other = NULL;
        if (other && call) return NULL;
        if (other) call = other;
    }
    return call;
}

typedef struct option {
    const dlsh_examination *e;
    const char *name;
} option;

/* {params: net, weight_decay: 0.01}, of a list of groups that a call is given. */
static dlsh_property is_of_group(void *ctx, const dlsh_step *s) {
    const option *o = ctx;
    const int named = s->n->kind == DLSH_N_KWARG && !strcmp(s->n->text, o->name);
    return named && !(dlsh_number_of(o->e, s->file, s->n) <= 0) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

dlsh_written dlsh_written_option(const dlsh_examination *e, const char *file, int line, const char *calls, int place,
                                 const char *name) {
    dlsh_written o = {.line = line, .use = line};
    const dlsh_unit *u = dlsh_text_of(file);
    const dlsh_node *call = u ? dlsh_call_within(file, line, calls) : NULL;
    const dlsh_node *as = call ? dlsh_argument_of(call, place, name) : NULL;
    option of = {e, name};
    if (call && !as && call->nkids > 1) as = dlsh_origin(file, call->kids[1], is_of_group, &of);
    const dlsh_node *by = as ? dlsh_origin_of_number(e, file, as, dlsh_number_of(e, file, as)) : NULL;
    if (!as) return o;
    o.line = by ? by->span.line : as->span.line;
    if (by && by != as && as->kind != DLSH_N_INT && as->kind != DLSH_N_FLOAT)
        snprintf(o.name, sizeof o.name, "%.*s", as->span.end - as->span.start, u->text + as->span.start);
    return o;
}

void dlsh_tell_use(dlsh_finding *f, const dlsh_written *o) {
    const size_t n = f ? strlen(f->evidence) : 0;
    if (f && *o->name) snprintf(f->evidence + n, sizeof f->evidence - n, "; line %d takes it as %s", o->use, o->name);
}

int dlsh_same_text(const char *file, const dlsh_node *a, const dlsh_node *b) {
    const dlsh_unit *u = dlsh_text_of(file);
    const int n = a->span.end - a->span.start;
    return u && n > 0 && b->span.end - b->span.start == n &&
           !memcmp(u->text + a->span.start, u->text + b->span.start, (size_t)n);
}

/* A parameter of the function that a random tensor is multiplied by, randn(a, b) * std; NULL: there is none. */
static const dlsh_node *parameter_beside(const dlsh_node *fn) {
    DLSH_EACH_BELOW (t, fn)
        for (int k = 0; t.n->kind == DLSH_N_BINARY && t.n->op == DLSH_OP_MUL && k < 2; k++) {
            if (!dlsh_is_call_of(t.n->kids[k], "randn|rand|normal|uniform")) continue;
            for (int j = 0; j + 1 < fn->nkids; j++)
                if (fn->kids[j]->kind == DLSH_N_PARAM && dlsh_names(t.n->kids[1 - k], fn->kids[j]->text))
                    return fn->kids[j];
        }
    return NULL;
}

int dlsh_line_of_spread(const dlsh_examination *e, const char *file, int line, double spread) {
    const dlsh_node *root = dlsh_text_root(file), *around[DLSH_AROUND],
                    *s = root ? dlsh_statement_at(file, line) : NULL;
    const int depth = s ? dlsh_functions_around(root, s->span.start, around) : 0;
    const dlsh_node *fn = depth ? around[depth - 1] : NULL, *p = fn && fn->text ? parameter_beside(fn) : NULL;
    int place = 0;
    while (p && fn->kids[place] != p) place++;
    DLSH_EACH_BELOW (t, p ? root : NULL) {
        const int call = t.n->kind == DLSH_N_CALL && dlsh_names(t.n->kids[0], fn->text);
        const dlsh_node *given = call ? dlsh_argument_of(t.n, place, p->text) : NULL;
        const double number = given ? dlsh_number_of(e, file, given) : NAN;
        if (fabs(number - spread) < 0.2 * spread) return given->span.line;
    }
    return line;
}
