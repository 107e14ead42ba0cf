/* Targets that leak into the inputs: a column that is the target, or a part of the table that the text makes of it
 * while other parts, of which the target is made, are there without it. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"

/* ---------------------------------------------------------------- the target as it is */

/* Does the column have one value for each class? */
static int tells_class(const dlsh_samples *s, long c) {
    enum { MOST = 64 };
    double value[MOST];
    long label[MOST], n = 0;
    for (long i = 0; i < s->n; i++) {
        double v = s->x[i * s->width + c];
        long y = (long)s->y[i], k = 0;
        while (k < n && label[k] != y && value[k] != v) k++;
        if (k < n && (label[k] != y || value[k] != v)) return 0;
        if (k < n) continue;
        if (n == MOST) return 0;
        label[n] = y, value[n++] = v;
    }
    return n > 1 && s->n >= 2 * n; /* several of a class */
}

/* Is the column the target, number by number? */
static int is_target(const dlsh_samples *s, long c) {
    int differ = 0;
    for (long i = 0; i < s->n; i++) {
        if (s->guessed || s->x[i * s->width + c] != s->y[i]) return 0;
        differ |= s->y[i] != s->y[0];
    }
    return differ;
}

/* A window of rows from a place on, of what the targets are taken of, too? */
static dlsh_property is_window(void *ctx, const dlsh_step *s) {
    const dlsh_node *n = s->n, *rows = n->kind == DLSH_N_INDEX && n->nkids == 2 ? n->kids[1] : NULL;
    if (dlsh_is_on(ctx, s)) return DLSH_HAS_NOT;
    const int window = rows && rows->kind == DLSH_N_SLICE && rows->kids[0] && rows->kids[0]->kind != DLSH_N_INT;
    return window && rows->kids[1] ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* Where windows are taken that reach the target; else where the samples were made, or written to last. */
static int line_of_column(const dlsh_examination *e, const dlsh_samples *s) {
    dlsh_course targets;
    const dlsh_node *x = dlsh_part_of_data(e, s, DLSH_ROLE_INPUT), *y = dlsh_part_of_data(e, s, DLSH_ROLE_TARGET);
    if (x && y) dlsh_course_of(s->file, y, &targets);
    const dlsh_node *by = x && y && x != y ? dlsh_origin(s->file, x, is_window, &targets) : NULL;
    return by ? by->span.line : s->written_line ? s->written_line : s->line;
}

/* series[w - 1:], of a series that the windows of the inputs are taken of, too: series.unfold(0, w, 1). */
static dlsh_property is_of_series(void *inputs, const dlsh_step *at) {
    const dlsh_course *way = inputs;
    const dlsh_node *n = at->n, *rows = n->kind == DLSH_N_INDEX && n->nkids == 2 ? n->kids[1] : NULL;
    int windows = 0, same = 0;
    if (!rows || n->kids[0]->kind != DLSH_N_NAME || (rows->kind == DLSH_N_SLICE && !rows->kids[0]))
        return DLSH_MAY_HAVE;
    for (int i = 0; i < way->n; i++) {
        const dlsh_node *m = way->at[i].n;
        windows |= dlsh_is_call_of(m, "unfold") || (m->kind == DLSH_N_INDEX && m->nkids == 2 && m != n);
        same |= m->kind == DLSH_N_NAME && m != n->kids[0] && dlsh_names(n->kids[0], m->text);
    }
    return windows && same ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* Does a bound of a window have that many places added, series[i:i + w + 1], series[i + 1:i + 9]? */
static int is_late(const dlsh_node *window, long places) {
    DLSH_EACH_BELOW (t, window)
        for (int k = 0; t.n->kind == DLSH_N_BINARY && t.n->op == DLSH_OP_ADD && k < 2; k++)
            if (t.n->kids[k]->kind == DLSH_N_INT && t.n->kids[k]->num.i == places) return 1;
    return 0;
}

/* Where the target is taken out of the series too early; NULL: the windows reach too far, or it is no series. */
static const dlsh_node *taken_early(const dlsh_examination *e, const dlsh_samples *s, long places) {
    static dlsh_course inputs;
    const dlsh_node *x = dlsh_part_of_data(e, s, DLSH_ROLE_INPUT), *y = dlsh_part_of_data(e, s, DLSH_ROLE_TARGET);
    if (!x || !y || x == y) return NULL;
    dlsh_course_of(s->file, x, &inputs);
    for (int i = 0; i < inputs.n; i++) {
        const dlsh_node *m = inputs.at[i].n, *rows = m->kind == DLSH_N_INDEX && m->nkids == 2 ? m->kids[1] : NULL;
        if (rows && rows->kind == DLSH_N_SLICE && rows->kids[0] && is_late(rows, places)) return NULL;
    }
    return dlsh_origin(s->file, y, is_of_series, &inputs);
}

void dlsh_find_target_column(dlsh_examination *e, const dlsh_samples *s) {
    if (!s->y || s->width > DLSH_COLUMNS || s->width < 3 || s->n < 16 || s->picture) return;
    if (!s->real) return; /* words, of which one may well be what is asked for */
    for (long c = 0; c < s->width; c++) {
        if (!(s->classes ? tells_class(s, c) : is_target(s, c))) continue;
        const long places = s->width - c;
        const dlsh_node *early = taken_early(e, s, places);
        dlsh_finding *f = dlsh_find_at(e, s->file, early ? early->span.line : line_of_column(e, s),
                                       early ? "begin the targets later, behind the window: its last value is known"
                                             : "leave the column out: it is not known where the net is used");
        dlsh_cause(f, "column %ld of %s is the target itself", c, s->name);
        if (f && early)
            dlsh_cause(f, "targets are taken %ld place%s too early: column %ld of the window is the target itself",
                       places, places > 1 ? "s" : "", c);
        if (f && s->classes)
            dlsh_evidence(f, "it has one value for each class of %s in all %ld samples", s->target, s->n);
        if (f && !s->classes)
            dlsh_evidence(f, "it is equal to %s in all %ld samples: what is to be told stands in the input", s->target,
                          s->n);
        return;
    }
}

/* ---------------------------------------------------------------- by the text */

enum { PARTS = 16, DEEPEST = 10 };

/* What a table is put together of: an expression at a place of the text, or a variable with its definition. */
typedef struct part {
    const dlsh_node *made;
    const char *name; /* NULL: an expression */
    int at;           /* from where names in it are looked up */
} part;

typedef struct parts {
    part at[PARTS];
    int n;
} parts;

static void add_part(parts *p, const dlsh_node *made, const char *name, int at) {
    if (made && p->n < PARTS) p->at[p->n++] = (part){made, name, at};
}

/* Does an index take rows, or others than all? */
static int takes_rows(const dlsh_node *n) {
    const dlsh_node *rows = n->nkids > 1 ? n->kids[1] : NULL;
    if (!rows || rows->kind == DLSH_N_ELLIPSIS || rows->kind == DLSH_N_NONE) return 0;
    return rows->kind != DLSH_N_SLICE || rows->kids[0] || rows->kids[1] || rows->kids[2];
}

/* What a name was given before a place; no value: nothing that the text computes. */
static dlsh_definition made_before(const char *file, const char *name, int before) {
    const dlsh_node *root = dlsh_text_root(file);
    dlsh_definition d = dlsh_define(root, name, before);
    if (!d.value || d.param || d.each || d.item >= 0 || d.value->kind == DLSH_N_FN) d.value = NULL;
    return d;
}

/* Is an expression computed from a variable, row by row? */
static int reads(const char *file, const dlsh_node *n, int before, const char *name, int depth) {
    static const char moving[] = "roll|flip|cumsum|sort|diff|pad|gather|index_select|len|size|zeros_like|ones_like|"
                                 "rand_like|randn_like|bincount|mean|sum|std|unique";
    if (!n || depth > DEEPEST || n->kind == DLSH_N_FN) return 0;
    if (n->kind == DLSH_N_NAME) {
        if (!strcmp(n->text, name)) return 1;
        const dlsh_definition d = made_before(file, n->text, before);
        return d.value && reads(file, d.value, d.at, name, depth + 1);
    }
    if (n->kind == DLSH_N_INDEX && takes_rows(n)) return 0;
    if (n->kind == DLSH_N_FIELD && dlsh_is_word("shape|ndim|dtype", n->text)) return 0;
    const dlsh_node *by = n->kind == DLSH_N_CALL ? n->kids[0] : NULL;
    if (dlsh_is_call_of(n, moving)) return 0;
    for (int i = by && by->kind == DLSH_N_NAME; i < n->nkids; i++)
        if (reads(file, n->kids[i], before, name, depth)) return 1;
    return 0;
}

/* Is what a definition makes computed from data that an expression names? */
static int reads_of(const dlsh_examination *e, const char *file, const dlsh_definition *d, const dlsh_node *of) {
    if (!of || of->kind == DLSH_N_FN) return 0;
    if (of->kind == DLSH_N_NAME) {
        const dlsh_value *v = dlsh_value_of(e, file, of);
        return v && v->type == DLSH_TENSOR && dl_numel(v->as.tensor) > 15 && reads(file, d->value, d->at, of->text, 0);
    }
    for (int i = of->kind == DLSH_N_CALL && of->kids[0]->kind == DLSH_N_NAME; i < of->nkids; i++)
        if (reads_of(e, file, d, of->kids[i])) return 1;
    return 0;
}

/* Parts in a list, a record, or a comprehension over these: what is computed, or a variable with numbers. */
typedef struct listed {
    const dlsh_examination *e;
    parts *to;
    int before, depth; /* from where names of the list are looked up */
} listed;

static int add_columns(const dlsh_examination *e, const char *file, const dlsh_node *n, int before, parts *p,
                       int depth);

static dlsh_property is_listed(void *ctx, const dlsh_step *at) {
    listed *l = ctx;
    const dlsh_node *n = at->n, *of = n->kind == DLSH_N_INDEX || n->kind == DLSH_N_FIELD ? n->kids[0] : n;
    const dlsh_value *v = dlsh_value_of(l->e, at->file, of);
    const int holds = v && v->type != DLSH_TENSOR;
    if (holds || dlsh_is_word("values|items|list", n->kind == DLSH_N_CALL ? n->kids[0]->text : NULL))
        return DLSH_MAY_HAVE;
    if (n->kind == DLSH_N_LIST || dlsh_is_record(n) || n->kind == DLSH_N_KWARG || n->kind == DLSH_N_TUPLE ||
        n->kind == DLSH_N_COMPREHENSION || n->kind == DLSH_N_STR)
        return DLSH_MAY_HAVE;
    if (n->kind == DLSH_N_NAME && !v) return DLSH_MAY_HAVE; /* of a comprehension, or a parameter */
    const int before = n->span.start < l->before ? n->span.start : l->before;
    const dlsh_definition d =
        n->kind == DLSH_N_NAME ? made_before(at->file, n->text, before) : (dlsh_definition){.value = n, .at = before};
    if (!d.value || add_columns(l->e, at->file, n, before, l->to, l->depth + 1)) return DLSH_HAS_NOT;
    add_part(l->to, d.value, n->kind == DLSH_N_NAME ? n->text : NULL, d.at);
    return DLSH_HAS_NOT;
}

/* The columns that a table is put together of, through what is done to all of them; 0: it is not. */
static int add_columns(const dlsh_examination *e, const char *file, const dlsh_node *n, int before, parts *p,
                       int depth) {
    static const char joins[] = "cat|stack|hstack|concat|concatenate|column_stack";
    const dlsh_node *by = n && n->kind == DLSH_N_CALL ? n->kids[0] : NULL;
    if (!n || depth > DEEPEST) return 0;
    if (dlsh_is_call_of(n, joins)) {
        listed l = {e, p, before, depth};
        const int had = p->n;
        if (n->nkids > 1) dlsh_origin(file, n->kids[1], is_listed, &l);
        return p->n > had;
    }
    if (n->kind == DLSH_N_INDEX || n->kind == DLSH_N_BINARY || (by && by->kind == DLSH_N_FIELD))
        return add_columns(e, file, by ? by->kids[0] : n->kids[0], before, p, depth + 1); /* (table - mean) / std */
    if (n->kind != DLSH_N_NAME) return 0;
    const dlsh_definition d = made_before(file, n->text, before);
    return d.value && add_columns(e, file, d.value, d.at, p, depth + 1);
}

/* The part that is made of the target, which is itself made of another part; NULL: there is none. */
static const dlsh_node *leaking_part(const dlsh_examination *e, const char *file, const parts *p, const char *target) {
    const dlsh_definition made = made_before(file, target, INT_MAX);
    const dlsh_node *found = NULL;
    int of_others = 0;
    for (int i = 0; made.value && i < p->n; i++) {
        const part *x = &p->at[i];
        if (reads(file, x->made, x->at, target, 0)) {
            found = found ? found : x->made;
            continue;
        }
        of_others |= x->name ? reads(file, made.value, made.at, x->name, 0) : reads_of(e, file, &made, x->made);
    }
    return of_others ? found : NULL;
}

/* table[:, 5] = target + noise; NULL: there is no such statement. */
static const dlsh_node *written_with(const char *table, const char *target) {
    DLSH_EACH_NODE (t) {
        const dlsh_node *to = t.n->kind == DLSH_N_ASSIGN && t.n->nkids == 2 ? t.n->kids[0] : NULL;
        if (!to || to->kind != DLSH_N_INDEX || to->nkids < 3 || takes_rows(to) || !dlsh_names(to->kids[0], table))
            continue;
        if (reads(t.file, t.n->kids[1], t.n->span.start, target, 0)) return t.n;
    }
    return NULL;
}

/* ---------------------------------------------------------------- by the numbers */

typedef struct ranked { /* to be sorted by x, its first member */
    double x;
    long at;
} ranked;

/* How well the labels of samples agree with those of the nearest ones in one column: 0 as by chance, 1 always. */
static double told_by(const dlsh_samples *s, long c) {
    double deviation;
    DLSH_FREED ranked *r = malloc((size_t)s->n * sizeof *r);
    DLSH_FREED double *own = malloc((size_t)s->n * sizeof *own), *near = malloc((size_t)s->n * sizeof *near);
    if (!r || !own || !near) return 0;
    for (long i = 0; i < s->n; i++) r[i] = (ranked){s->x[i * s->width + c], i};
    qsort(r, (size_t)s->n, sizeof *r, dlsh_by_size);
    for (long i = 0; i < s->n; i++) {
        const int down = i == s->n - 1 || (i && r[i].x - r[i - 1].x < r[i + 1].x - r[i].x);
        own[i] = s->y[r[i].at], near[i] = s->y[r[down ? i - 1 : i + 1].at];
    }
    const double chance = dlsh_by_chance(s->y, s->n, s->classes, &deviation);
    return (dlsh_agree(own, near, s->n, s->classes) - chance) / fmax(1 - chance, 1e-9);
}

/* The column that tells nearly all of the target, where no other one does; -1: there is none. */
static long telling_column(const dlsh_samples *s, double *best, double *second) {
    long found = -1;
    *best = *second = 0;
    for (long c = 0; c < s->width; c++) {
        const double told = told_by(s, c);
        if (told > *best)
            *second = *best, *best = told, found = c;
        else
            *second = fmax(*second, told);
    }
    return *best > 0.85 && *second < 0.75 ? found : -1;
}

static dlsh_property reads_target(void *name, const dlsh_step *at) {
    return at->n->kind != DLSH_N_NAME && dlsh_mentions(at->n, name) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* The part of the inputs, or the statement that writes into one, that is made of the target; NULL: there is none. */
static const dlsh_node *leak_of(const dlsh_examination *e, const char *file, const dlsh_traced *all, int n,
                                const dlsh_traced *target) {
    const dlsh_definition y = made_before(file, target->base, INT_MAX);
    parts p = {0};
    for (int i = 0; i < n; i++) {
        const dlsh_traced *x = &all[i];
        const dlsh_definition d = made_before(file, x->base, INT_MAX);
        if (x->role != DLSH_ROLE_INPUT || !strcmp(x->base, target->base) || strcmp(x->picks, target->picks) != 0)
            continue;
        if (d.value && !add_columns(e, file, d.value, d.at, &p, 0)) add_part(&p, d.value, x->base, d.at);
        const dlsh_node *by =
            y.value && reads(file, y.value, y.at, x->base, 0) ? written_with(x->base, target->base) : NULL;
        if (by) return by;
    }
    const dlsh_node *part = leaking_part(e, file, &p, target->base);
    const dlsh_node *made = part ? dlsh_origin(file, part, reads_target, (void *)target->base) : NULL;
    return made ? made : part;
}

void dlsh_find_leaked(dlsh_examination *e, const char *file, const dlsh_traced *all, int n, const dlsh_samples *s) {
    const dlsh_traced *target = NULL;
    double best, second;
    dlsh_find_encoded(e, file, all, n, s);
    if (!s->y || s->width > DLSH_COLUMNS || s->width < 2 || s->n < 40 || s->picture || !s->real) return;
    for (int i = 0; i < n && !target; i++)
        if (all[i].role == DLSH_ROLE_TARGET) target = &all[i];
    if (!target || dlsh_was_found(e, e->check, "is the target itself")) return;
    const dlsh_node *leak = leak_of(e, file, all, n, target);
    const long c = leak ? telling_column(s, &best, &second) : -1;
    dlsh_finding *f = c < 0 ? NULL
                            : dlsh_find_at(e, file, leak->span.line,
                                           "leave it out: it is made of what is to be told, and not known where the "
                                           "net is used");
    if (!f) return;
    dlsh_cause(f, "the target leaks into the input: column %ld is made of %s", c, target->base);
    dlsh_evidence(f,
                  "%s is made of other columns (line %d), and this one is made of it; alone it tells %.0f %% of what "
                  "there is to tell, of the others each at most %.0f %%",
                  target->base, target->base_line, 100 * best, 100 * fmax(second, 0));
}
