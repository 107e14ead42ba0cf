/* Rows that the text picks of inputs and of targets, and of tables of numbers between samples. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"

/* Is it x[p], where p is what the last pick of samples is named? */
static int is_picked_by(const dlsh_node *n, const char *picks) {
    const size_t length = strcspn(picks, "#;");
    for (int i = 1; n->kind == DLSH_N_INDEX && length && i < n->nkids; i++)
        if (n->kids[i]->kind == DLSH_N_NAME && strlen(n->kids[i]->text) == length &&
            !strncmp(n->kids[i]->text, picks, length))
            return 1;
    return 0;
}

/* Does the statement of the last pick of targets pick results of a net in the same way? */
static int picks_results(const dlsh_examination *e, const dlsh_node *n, const dlsh_traced *y) {
    DLSH_EACH_BELOW (t, n)
        if (is_picked_by(t.n, y->picks) && dlsh_uses_net(e, dlsh_text_name(e), t.n->kids[0])) return 1;
    return 0;
}

/* The samples that a table of numbers between samples is used beside; NULL: it is none. */
static const dlsh_traced *samples_beside(const dlsh_traced *x, const dlsh_traced *all, int n) {
    const dl_tensor *t = x->whole;
    if (!t || dl_ndim(t) != 2 || dl_shape(t)[0] != dl_shape(t)[1]) return NULL;
    for (int k = 0; k < n; k++)
        if (all[k].role == DLSH_ROLE_INPUT && all[k].whole != t && all[k].whole && dl_ndim(all[k].whole) &&
            dl_shape(all[k].whole)[0] == dl_shape(t)[0])
            return &all[k];
    return NULL;
}

static dlsh_property has_order(void *ctx, const dlsh_step *at) {
    return is_picked_by(at->n, ctx) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* Samples that are put in an order that the table of numbers between them does not have. */
static void compare_table(dlsh_examination *e, const dlsh_traced *table, const dlsh_traced *x) {
    char order[sizeof x->picks];
    const dlsh_node *made = dlsh_definition_of(dlsh_text_name(e), table->base, INT_MAX, NULL);
    snprintf(order, sizeof order, "%s", x->picks);
    if (!made || !x->random || !strcspn(order, "#;")) return;
    if (dlsh_origin(dlsh_text_name(e), made, has_order, order)) return;
    dlsh_found(e, dlsh_text_name(e), x->pick_line, "the same order for both of its dimensions: a[p][:, p]",
               "labels do not belong to their inputs: %s is put in another order, %s, which holds numbers between its "
               "samples, is not\n"
               "the rows of %s are taken by [%.*s]; nothing that %s is made of (line %d) is",
               x->base, table->base, x->base, (int)strcspn(order, "#;"), order, table->base, made->span.line);
}

static int same_rows(const dl_tensor *a, const dl_tensor *b) {
    return a && b && dl_ndim(a) && dl_ndim(b) && dl_shape(a)[0] == dl_shape(b)[0];
}

/* The text from pick number n on. */
static const char *pick_at(const dlsh_traced *x, int n) {
    const char *p = x->picks;
    for (; n && *p; n--) p += strcspn(p, ";") + 1;
    return p;
}

/* The pick number n of picks for people: without the mark that tells two variables of one name apart. */
static const char *shown_pick(const dlsh_traced *x, int n, char *buf, size_t size) {
    const char *p = pick_at(x, n);
    const int length = (int)strcspn(p, "#;");
    snprintf(buf, size, length ? "by [%.*s]" : "as they are", length, p);
    return buf;
}

/* The place of the first pick in which two differ. */
static int first_difference(const char *a, const char *b) {
    int n = 0;
    for (;; n++) {
        const size_t i = strcspn(a, ";"), k = strcspn(b, ";");
        if (i != k || strncmp(a, b, i) || !a[i] || !b[k]) return n;
        a += i + 1, b += k + 1;
    }
}

/* The later one of the lines where the picks of inputs and targets part; of several in one line that of either. */
static int line_of_difference(const dlsh_traced *x, const dlsh_traced *y, int otherwise) {
    const int n = first_difference(x->picks, y->picks);
    const int a = n && n < x->nlines ? x->lines[n] : 0, b = n && n < y->nlines ? y->lines[n] : 0;
    return a || b ? a > b ? a : b : otherwise;
}

/* Y = labels, behind the line that put the rows of x in order: where y could have been, too; 0: it is none. */
static int line_of_left(const dlsh_traced *x, const dlsh_traced *y) {
    const int n = first_difference(x->picks, y->picks);
    const char *p = y->picks;
    for (int i = 0; i < n && *p; i++) p += strcspn(p, ";") + 1;
    return x->moved && !*p && n < x->nlines && y->name_line > x->lines[n] ? y->name_line : 0;
}

/* Is the table as it was before any rows were picked? x = x[p] leaves the name with what came of it. */
static int is_made_once(const dlsh_examination *e, const dlsh_traced *x) {
    const dlsh_node *made = dlsh_definition_of(dlsh_text_name(e), x->base, INT_MAX, NULL);
    return made && !dlsh_mentions(made, x->base);
}

/* Was y computed from the table of x as it is now, row by row, and are the same rows picked of both since then? */
static int is_made_of(const dlsh_examination *e, const dlsh_traced *y, const dlsh_traced *x) {
    int y_at, x_at, n = 0;
    const dlsh_node *made = dlsh_definition_of(dlsh_text_name(e), y->base, INT_MAX, &y_at);
    const dlsh_node *of = dlsh_definition_of(dlsh_text_name(e), x->base, INT_MAX, &x_at);
    if (!made || !of || !dlsh_mentions(made, x->base) || x_at >= y_at) return 0;
    size_t since = 0;
    while (x->picks[since] && n < x->nlines && x->lines[n] > made->span.line)
        since += strcspn(x->picks + since, ";") + 1, n++;
    return strlen(y->picks) == since && !strncmp(x->picks, y->picks, since);
}

/* Was x written with y in hand, x[:, 7] += y, behind the picks in which both differ? Both had one order then. */
static int is_written_of(const dlsh_traced *x, const dlsh_traced *y) {
    const int from = line_of_difference(x, y, y->pick_line);
    DLSH_EACH_NODE (t) {
        const dlsh_node *to = t.n->kind == DLSH_N_ASSIGN && t.n->nkids == 2 ? t.n->kids[0] : NULL;
        const int part = to && to->kind == DLSH_N_INDEX && dlsh_names(to->kids[0], x->base);
        if ((part || (to && t.n->op && dlsh_names(to, x->base))) && t.n->span.line > from &&
            dlsh_mentions(t.n, y->base))
            return 1;
    }
    return 0;
}

/* Are the picks alike when those before arithmetic with numbers count, too? */
static int are_alike_beyond(const dlsh_traced *x, const dlsh_traced *y) {
    char a[sizeof x->picks + sizeof x->beyond], b[sizeof a];
    snprintf(a, sizeof a, "%s%s", x->picks, x->beyond), snprintf(b, sizeof b, "%s%s", y->picks, y->beyond);
    return !strcmp(a, b) || !strcmp(a, y->picks) || !strcmp(x->picks, b);
}

/* y[:len(x)] behind x = x[keep]: targets that were only cut to the length of what was left of the inputs. */
static void find_cut_to_length(dlsh_examination *e, const dlsh_traced *x, const dlsh_traced *y) {
    const char *kept = x->beyond, *end = strchr(y->beyond, ';');
    const int slice = strchr(kept, ':') && !strpbrk(kept, "<>=");
    if (!*kept || slice || *y->beyond != ':' || !end || end[1] || strcmp(x->picks, y->picks) != 0) return;
    if (!same_rows(x->whole, y->whole) || dlsh_labels_tell(x->whole, y->whole)) return;
    dlsh_found(e, dlsh_text_name(e), y->beyond_line, "the same rows of both: x = x[keep]; y = y[keep]",
               "labels do not belong to their inputs: %s is only cut to as many rows as were picked for %s\n"
               "the rows of %s are taken by [%.*s], line %d, those of %s by [%.*s]",
               y->base, x->base, x->base, (int)strcspn(kept, "#;"), kept, x->beyond_line, y->base,
               (int)strcspn(y->beyond, "#;"), y->beyond);
}

/* x[:800] and y[800:]: of two parts that stand in lines of their own, each with both. */
static int are_of_two_parts(const dlsh_traced *x, const dlsh_traced *y) {
    const size_t a = strcspn(x->picks, "#;"), b = strcspn(y->picks, "#;");
    if (x->pick_line == y->pick_line || a < 2 || b < 2) return 0;
    const int first = x->picks[0] == ':' && y->picks[b - 1] == ':', last = y->picks[0] == ':' && x->picks[a - 1] == ':';
    return (first && !strncmp(x->picks + 1, y->picks, b - 1) && a == b) ||
           (last && !strncmp(y->picks + 1, x->picks, a - 1) && a == b);
}

/* ---------------------------------------------------------------- controls */

/* Labels in random order, and where they are put into it. */
typedef struct control {
    const char *base;
    int line;
} control;

static dlsh_property is_in_own_order(void *ctx, const dlsh_step *at) {
    const control *c = ctx;
    if (at->n->kind == DLSH_N_INDEX && at->n->span.line == c->line) return DLSH_HAS_NOT;
    return dlsh_names(at->n, c->base) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* fit(x, y) beside fit(x, y[p]) on that line. */
static int is_called_with(const char *file, const dlsh_node *call, const control *c) {
    DLSH_EACH_BELOW (t, dlsh_function_called(file, call) ? dlsh_text_root(file) : NULL)
        for (int i = 1; t.n != call && dlsh_is_call_of(t.n, call->kids[0]->text) && i < t.n->nkids; i++)
            if (i < call->nkids && dlsh_names(t.n->kids[i], c->base) && call->kids[i]->kind == DLSH_N_INDEX) return 1;
    return 0;
}

/* Is the same trained with the labels in their own order, too? Then the random order tells what chance gives. */
static int is_control(const dlsh_examination *e, const dlsh_traced *x, const dlsh_traced *y, int line) {
    control c = {y->base, line};
    const char *file = dlsh_text_name(e);
    if (*pick_at(x, first_difference(x->picks, y->picks)) || !y->random) return 0;
    DLSH_EACH_BELOW (t, dlsh_text_root(file)) {
        if (t.n->kind != DLSH_N_CALL || !t.n->kids[0]->text) continue;
        if (t.n->span.line == line && is_called_with(file, t.n, &c)) return 1;
        const int loss = t.n->kids[0]->kind == DLSH_N_NAME && dlsh_speaks_of(t.n->kids[0]->text, "loss|entropy");
        const dlsh_node *target = loss || dlsh_is_call_of(t.n, "dataset") ? dlsh_argument_of(t.n, 1, "target") : NULL;
        if (target && dlsh_origin(file, target, is_in_own_order, &c)) return 1;
    }
    return 0;
}

/* piece[k] for each k of a range, of a piece whose rows are those of the targets: times, taken one after another. */
static int is_taken_one_by_one(const dlsh_traced *x, const dlsh_traced *y) {
    const size_t a = strlen(x->picks), b = strlen(y->picks), n = strcspn(x->picks, "#;");
    char name[64];
    if (!b || a <= b || strcmp(x->picks + a - b, y->picks) != 0 || x->random || n >= sizeof name) return 0;
    snprintf(name, sizeof name, "%.*s", (int)n, x->picks);
    DLSH_EACH_NODE (t)
        if (t.n->kind == DLSH_N_FOR && dlsh_is_call_of(t.n->kids[t.n->nkids - 2], "range") &&
            dlsh_is_item_of(t.n, name))
            return 1;
    return 0;
}

/* Rows picked differently for inputs and targets. */
static void compare_picks(dlsh_examination *e, const dlsh_traced *x, const dlsh_traced *y) {
    if (!strcmp(x->base, y->base) || are_alike_beyond(x, y) || is_made_of(e, y, x) || !x->tensor || !y->tensor) return;
    if (x->several != y->several || are_of_two_parts(x, y) || is_written_of(x, y) || is_taken_one_by_one(x, y)) return;
    if (dlsh_was_found(e, e->check, "labels do not belong")) return; /* of another input, as of lengths */
    const int whole = x->of_base == strlen(x->picks) && y->of_base == strlen(y->picks); /* before any were picked */
    if (!whole && dlsh_labels_tell(x->whole, y->whole)) return;                         /* as p and its copy pick */
    const int once = is_made_once(e, x) && is_made_once(e, y);
    if (whole && once && dlsh_labels_belong(e, x->whole, y->whole)) return;
    if (whole && !once && x->random && y->random && dlsh_labels_tell(x->whole, y->whole)) return; /* after it */
    if (!same_rows(x->whole, y->whole) && !(x->moved != y->moved && same_rows(x->tensor, y->tensor))) return;
    if (!x->random && !y->random && !x->moved && !y->moved && (!*x->picks || !*y->picks)) return;
    int x_moves = x->random || x->moved, y_moves = y->random || y->moved;
    int later = *y->picks && (!*x->picks || y->pick_line > x->pick_line);
    const dlsh_traced *at = (x_moves != y_moves ? y_moves : later) ? y : x;
    const int left = line_of_left(x, y);
    dlsh_finding *f = dlsh_find_at(e, dlsh_text_name(e), left ? left : line_of_difference(x, y, at->pick_line),
                                   "one order for both: p = randperm(n); x = x[p]; y = y[p]");
    if (!f) return;
    const int control = is_control(e, x, y, f->line);
    if (control) dlsh_only_note(e, f);
    dlsh_cause(f, "labels do not belong to their inputs: rows of %s and %s are picked in different ways", x->base,
               y->base);
    char of_x[sizeof x->picks], of_y[sizeof y->picks];
    const int n = first_difference(x->picks, y->picks);
    char at_x[32] = "", at_y[32] = "";
    if (n < x->nlines && x->lines[n]) snprintf(at_x, sizeof at_x, " (line %d)", x->lines[n]);
    if (n < y->nlines && y->lines[n]) snprintf(at_y, sizeof at_y, " (line %d)", y->lines[n]);
    const dlsh_node *set = e->trainer && !*y->picks ? dlsh_trainer_option(e, dlsh_text_name(e), 1, "data") : NULL;
    const int as_is = set ? set->span.line : n >= y->nlines && y->name_line != y->base_line ? y->name_line : 0;
    if (as_is) snprintf(at_y, sizeof at_y, " (line %d)", as_is);
    if (!x_moves && !y_moves) f->remedy = "the same rows of both: x = x[keep]; y = y[keep]";
    const char *more = pick_at(x, n);
    if (!*pick_at(y, n) && *more && !x->random)
        f->remedy = dlsh_kept(e, "the same rows of %s: %s[%.*s]", y->base, y->base, (int)strcspn(more, "#;"), more);
    if (as_is) f->remedy = dlsh_kept(e, "one order for both: the same rows of %s in line %d", y->base, as_is);
    if (control)
        f->remedy = "none, where it tells what chance gives: the labels in their own order are trained on, too";
    const char *by_x = shown_pick(x, n, of_x, sizeof of_x), *by_y = shown_pick(y, n, of_y, sizeof of_y);
    dlsh_evidence(f, "the rows of %s are taken %s%s, those of %s %s%s%s", x->base, by_x, at_x, y->base, by_y, at_y,
                  x->random && !strcmp(by_x, by_y) ? ": two draws, which give two orders" : "");
}

/* Is there a target whose rows were picked as those of the input? */
static int has_partner(const dlsh_traced *x, const dlsh_traced *all, int n) {
    for (int k = 0; k < n; k++)
        if (all[k].role == DLSH_ROLE_TARGET && are_alike_beyond(x, &all[k]) && same_rows(x->whole, all[k].whole))
            return 1;
    return 0;
}

/* Are other rows of the same table picked as those of the target, or rows of the table whose labels these are, while
 * this one tells nothing of them? Then these are samples without labels. */
static int has_labelled(const dlsh_traced *x, const dlsh_traced *y, const dlsh_traced *all, int n) {
    for (int k = 0; k < n; k++) {
        if (all[k].role != DLSH_ROLE_INPUT || strcmp(all[k].picks, y->picks) != 0) continue;
        if (!strcmp(all[k].base, x->base)) return 1;
        const int own = same_rows(all[k].whole, y->whole) && dlsh_labels_tell(all[k].whole, y->whole);
        if (own && same_rows(x->whole, y->whole) && !dlsh_labels_tell(x->whole, y->whole)) return 1;
    }
    return 0;
}

void dlsh_compare_traced(dlsh_examination *e, const dlsh_traced *given, int n) {
    enum { MOST = 48 };
    static dlsh_traced all[MOST];
    n = n < MOST ? n : MOST;
    for (int i = 0; i < n; i++) {
        const size_t last = strcspn(given[i].picks, ";");
        const int results = given[i].role == DLSH_ROLE_TARGET && given[i].nlines && given[i].picks[last] &&
                            picks_results(e, dlsh_statement_at(dlsh_text_name(e), given[i].lines[0]), &given[i]);
        all[i] = given[i]; /* what is picked of results, too, is left out */
        if (results) memmove(all[i].picks, all[i].picks + last + 1, strlen(all[i].picks + last));
        if (results) memmove(all[i].lines, all[i].lines + 1, (size_t)--all[i].nlines * sizeof *all[i].lines);
        if (results) all[i].of_base -= all[i].of_base > last ? last + 1 : all[i].of_base;
    }
    for (int i = 0; i < n; i++) {
        const dlsh_traced *x = all[i].role == DLSH_ROLE_INPUT ? samples_beside(&all[i], all, n) : NULL;
        if (x) compare_table(e, &all[i], x);
        for (int k = 0; k < n; k++)
            if (all[i].role == DLSH_ROLE_INPUT && all[k].role == DLSH_ROLE_TARGET)
                find_cut_to_length(e, &all[i], &all[k]);
        if (x || has_partner(&all[i], all, n)) continue;
        for (int k = 0; k < n; k++)
            if (all[i].role == DLSH_ROLE_INPUT && all[k].role == DLSH_ROLE_TARGET &&
                !has_labelled(&all[i], &all[k], all, n))
                compare_picks(e, &all[i], &all[k]);
    }
}
