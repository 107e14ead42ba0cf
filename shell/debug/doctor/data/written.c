/* Data that a loop writes into: a batch that is a view of the table, or another name for it, is changed in place. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/data/pools.h"
#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"

/* Does a tensor still hold all rows that passes had, those of the first ones too? Then it was written to as it was
 * made, each row once. 0 where it is not known. */
static int is_as_passed(const dlsh_examination *e, dl_tensor *t) {
    dlsh_pool p = {.tensor = t, .n = dl_ndim(t) ? dl_shape(t)[0] : 0};
    if (p.n < 4 || !dlsh_pool_fill(&p, dl_numel(t) / p.n)) return 0;
    int some = 0, changed = 0;
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        long known = 0;
        for (long k = 0; k < r->nseen; k++) known += dlsh_has_row(&p, r->seen[k]);
        some |= known > 1 && r->looked > 1;
        changed |= known && known < r->nseen;
    }
    free(p.row);
    return some && !changed;
}

/* Is one of the places of a write a mask, so that elements here and there are written? */
static int is_masked(const dlsh_examination *e, const char *file, const dlsh_node *to) {
    for (int i = 1; i < to->nkids; i++) {
        const dlsh_node *at = to->kids[i], *made = at->kind == DLSH_N_SLICE ? NULL : dlsh_made(file, at);
        const dlsh_value *v = dlsh_value_of(e, file, at);
        if (dlsh_is_comparison(made) || (v && v->type == DLSH_TENSOR && dl_dtype_of(v->as.tensor) == DL_BOOL)) return 1;
    }
    return 0;
}

/* The name into whose rows a statement puts some of something else, x[i] = v, as into a buffer, so that none is changed
 * into another, as it is by a mask, or by one number for several places; NULL: it does something else. */
static const char *filled_by(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    if (dlsh_is_method(n, "copy_") && n->kids[0]->kids[0]->kind == DLSH_N_NAME) return n->kids[0]->kids[0]->text;
    const dlsh_node *to = n && n->kind == DLSH_N_ASSIGN && n->nkids == 2 && !n->op ? n->kids[0] : NULL;
    const int number = to && isfinite(dlsh_number_of(e, file, n->kids[1]));
    if (to && to->kind == DLSH_N_NAME) return NULL;
    while (to && (to->kind == DLSH_N_INDEX || to->kind == DLSH_N_FIELD)) {
        if (to->kind == DLSH_N_INDEX && (number || is_masked(e, file, to))) return NULL;
        to = to->kids[0];
    }
    return to && to->kind == DLSH_N_NAME && !dlsh_mentions(n->kids[1], to->text) ? to->text : NULL;
}

/* Are rows put into what is written at a line, there or in the loop around it? */
static int puts_rows_in(const dlsh_examination *e, const char *file, int line) {
    const dlsh_node *n = dlsh_statement_at(file, line), *to = n && n->kind == DLSH_N_ASSIGN ? n->kids[0] : NULL;
    if (filled_by(e, file, n) && n->kind == DLSH_N_ASSIGN) return 1;
    while (to && (to->kind == DLSH_N_INDEX || to->kind == DLSH_N_FIELD)) to = to->kids[0];
    DLSH_EACH_BELOW (t, to ? dlsh_text_root(file) : NULL) {
        const char *name = filled_by(e, file, t.n);
        if (name && dlsh_names(to, name) && dlsh_runs_in_loop(file, t.n->span.line, line)) return 1;
    }
    return 0;
}

/* Does a step of an optimizer stand at a line? What it writes to is trained. */
static int takes_step(const dlsh_examination *e, dl_source at) {
    DLSH_EACH_ROW (r, e, DL_DID_STEP)
        if (r->line == at.line && !strcmp(r->file, at.file)) return 1;
    return 0;
}

/* The statement that gave what is written to a name of its own in the function, out = rows; NULL: none did. */
static const dlsh_node *alias_of_written(const char *file, int line) {
    const dlsh_node *n = dlsh_statement_at(file, line), *to = n && n->kind == DLSH_N_ASSIGN ? n->kids[0] : NULL;
    while (to && to->kind == DLSH_N_INDEX) to = to->kids[0];
    const dlsh_node *root = dlsh_text_root(file);
    if (!root || !to || to->kind != DLSH_N_NAME) return NULL;
    dlsh_definition d = dlsh_define(root, to->text, n->span.start);
    for (int i = 0; i < 8 && d.value && (n = dlsh_statement_at(file, d.value->span.line)) && n->op; i++)
        d = dlsh_define(root, to->text, d.at); /* out -= mean */
    return d.value && !d.each && !d.param && d.value->kind == DLSH_N_NAME ? d.value : NULL;
}

/* The nearest variable on the way to what a loop uses that was made before it, as a part of another one; a name that is
 * given its value within holds the last batch alone. -1: there is none. */
int dlsh_part_before(const dlsh_traced *x, const char *file, int line) {
    for (int i = 0; i < x->nway; i++)
        if (x->way_line[i] && dlsh_is_before_loop(file, x->way_line[i], line)) return i;
    return -1;
}

/* A tensor that is changed again and again, although it holds data; of a pass: as its training goes on. */
void dlsh_find_written(dlsh_examination *e, const dl_journal_row *pass, const dlsh_traced *all, int n) {
    for (int i = 0; i < n; i++) {
        const int before = pass ? dlsh_part_before(&all[i], pass->file, pass->line) : -1;
        const int k = before < 0 ? all[i].nway - 1 : before;
        dl_tensor *t = k < 0 ? all[i].tensor : all[i].way[k];
        dl_source maker, writer;
        if (!t || !all[i].role) continue;
        dlsh_tensor_places(t, &maker, &writer);
        if (dl_tensor_version(t) < 3 || writer.line == maker.line) continue;
        const int within = pass && !strcmp(writer.file, pass->file);
        if (within && !dlsh_runs_in_loop(writer.file, writer.line, pass->line)) continue;
        if (takes_step(e, writer) || puts_rows_in(e, writer.file, writer.line) ||
            dlsh_keeps_average(e, writer.file, writer.line))
            continue;
        if (within && !strcmp(maker.file, pass->file) && dlsh_runs_in_loop(maker.file, maker.line, pass->line))
            continue; /* it is made anew in the loop, and written as it is made */
        if (pass && is_as_passed(e, t)) continue;
        const dlsh_node *alias = alias_of_written(writer.file, writer.line);
        dlsh_found(
            e, writer.file, alias ? alias->span.line : writer.line,
            alias ? "a copy of its own, clone(); a second name shares the memory"
                  : "a new tensor in place of the write, xb = xb + noise; what is done once stands before the loop",
            "the data in %s are written in place, again and again: they are not what they were\n"
            "%ld writes, the last at line %d; views such as x[a:b] share the memory",
            k < 0 ? all[i].base : all[i].way_name[k], dl_tensor_version(t), writer.line);
    }
}

/* Does a tensor hold hardly any of the rows that passes at a place had? */
static int has_lost_rows(dl_tensor *t, const dl_journal_row *r) {
    dlsh_pool p = {.tensor = t, .n = dl_ndim(t) ? dl_shape(t)[0] : 0};
    long known = 0;
    if (p.n < 4 || !dlsh_pool_fill(&p, dl_numel(t) / p.n)) return 0;
    for (long k = 0; k < r->nseen; k++) known += dlsh_has_row(&p, r->seen[k]);
    free(p.row);
    return 2 * known < r->nseen;
}

/* Had each pass at a place that was looked at rows that none before it had? */
static int has_new_rows(const dl_journal_row *r) {
    enum { ROWS_OF_PASS = 64 };
    const long rows = r->x.ndim && r->x.shape[0] < ROWS_OF_PASS ? r->x.shape[0] : ROWS_OF_PASS;
    return r->looked > 2 && !r->alike && 10 * r->nseen > 9 * r->looked * rows;
}

/* The samples of an evaluation, changed with each of its passes, as by a function that writes into what it is given. */
void dlsh_find_written_in_evaluation(dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        dlsh_traced used[DLSH_TRACED];
        const int changes = !r->grad && has_new_rows(r) && !dlsh_is_trained(e, r);
        const int n = changes ? dlsh_trace(e, r->file, r->line, used) : 0;
        for (int k = 0; k < n; k++) {
            dl_tensor *t = used[k].whole ? used[k].whole : used[k].tensor;
            if (t && used[k].role == DLSH_ROLE_INPUT && dl_tensor_version(t) >= r->count && has_lost_rows(t, r))
                dlsh_find_written(e, NULL, &used[k], 1);
        }
    }
}
