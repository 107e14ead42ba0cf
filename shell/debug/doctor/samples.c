/* Gathering samples: what the check of data looks at. */
#include "debug/doctor/samples.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/checks.h"
#include "debug/doctor/data/pools.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"
#include "dlcore/view.h"

enum { MOST = 2000, ELEMENTS = 1 << 21 };

static const char *text_name = "";
const char *dlsh_text_name(const dlsh_examination *e) { return (void)e, text_name; }

void dlsh_samples_free(dlsh_samples *s) {
    free(s->x);
    free(s->y);
    *s = (dlsh_samples){0};
}

dlsh_spread dlsh_spread_of(const dlsh_samples *s, long c) {
    double sum = 0, squares = 0;
    long n = 0;
    for (long i = 0; i < s->n; i++) {
        const double v = s->x[i * s->width + c];
        if (isfinite(v)) sum += v, squares += v * v, n++;
    }
    const double mean = n ? sum / (double)n : 0;
    return (dlsh_spread){mean, n ? sqrt(fmax(squares / (double)n - mean * mean, 0)) : NAN, n};
}

static double *read_rows(dl_tensor *t, long n) {
    DLSH_OWNED dl_tensor *part = dl_narrow(t, 0, 0, n);
    double *v = part ? malloc(((size_t)dl_numel(part) + 1) * sizeof *v) : NULL;
    if (v && dl_read_f64(part, v)) free(v), v = NULL;
    dl_error_clear();
    return v;
}

int dlsh_samples_set(dlsh_samples *s, dl_tensor *x, dl_tensor *y) {
    DLSH_SCOPED_GRAD_MODE(0);
    if (!x || dl_ndim(x) < 1 || dl_dtype_is_complex(dl_dtype_of(x)) || !dl_shape(x)[0]) return 0;
    long n = dl_shape(x)[0];
    s->width = dl_numel(x) / n;
    s->n = n < MOST ? n : MOST;
    s->total = n;
    while (s->n > 8 && s->n * s->width > ELEMENTS) s->n /= 2;
    s->real = dl_dtype_is_float(dl_dtype_of(x)) || dl_dtype_of(x) == DL_U8;
    s->picture = dl_ndim(x) > 2;
    s->x = read_rows(x, s->n);
    int single = y && dl_ndim(y) && dl_shape(y)[0] == n && dl_numel(y) == n;
    if (single) s->y = read_rows(y, s->n);
    s->classes = single && !dl_dtype_is_float(dl_dtype_of(y));
    return s->x != NULL;
}

static int by_hash(const void *a, const void *b) {
    const unsigned long x = *(const unsigned long *)a, y = *(const unsigned long *)b;
    return (x > y) - (x < y);
}

int dlsh_is_among(const unsigned long *rows, long n, unsigned long hash) {
    return bsearch(&hash, rows, (size_t)n, sizeof *rows, by_hash) != NULL;
}

unsigned long *dlsh_sorted_rows(const dlsh_samples *s) {
    unsigned long *h = malloc(((size_t)s->n + 1) * sizeof *h);
    for (long i = 0; h && i < s->n; i++) h[i] = dl_hash(s->x + i * s->width, s->width * (long)sizeof *s->x);
    if (h) qsort(h, (size_t)s->n, sizeof *h, by_hash);
    return h;
}

/* ---------------------------------------------------------------- of data sets */

/* Samples at equal distances, of the split or of an order of `len` of its samples; `whole`: the first ones, as they
 * stand. */
static int gather(dlsh_samples *s, dl_dataset *d, dl_split split, const long *order, long len, int whole) {
    long n = len < MOST ? len : MOST;
    DLSH_FREED long *index = NULL;
    dl_tensor *x[DL_NET_INPUTS] = {NULL}, *y[DL_NET_INPUTS] = {NULL};
    if (!n || dl_dataset_slow(d)) return 0;
    for (long each = dl_dataset_ndim(d) ? 1 : 0, i = 0; i < dl_dataset_ndim(d); i++) {
        each *= dl_dataset_shape(d)[i];
        while (n > 8 && n * each > ELEMENTS) n /= 2;
    }
    index = malloc((size_t)n * sizeof *index);
    for (long i = 0; index && i < n; i++) index[i] = whole ? i : order ? order[i * len / n] : i * len / n;
    int good = index && !dl_dataset_gather(d, split, index, n, x, y) && dlsh_samples_set(s, x[0], y[0]);
    for (int i = 0; i < DL_NET_INPUTS; i++) dl_unref(x[i]), dl_unref(y[i]);
    dl_error_clear();
    s->total = len;
    snprintf(s->name, sizeof s->name, "the %s split", split == DL_TRAIN ? "training" : "test");
    snprintf(s->target, sizeof s->target, "the targets");
    return good;
}

/* Where a tensor was written in place; 0: never, or in another file. */
static int written_at(const dl_tensor *t, const char *file) {
    const dl_source writer = dlsh_writer_of(t);
    return dl_tensor_version(t) && writer.file && !strcmp(writer.file, file) ? writer.line : 0;
}

/* Where the data set was made that a variable's numbers are taken from as they are, x = d.train.x.float(); else where
 * the variable was made. */
static int line_of_numbers(const dlsh_examination *e, const char *file, const dlsh_traced *x) {
    dlsh_dealt d;
    const dlsh_node *n = dlsh_definition_of(file, x->name, INT_MAX, NULL);
    while (n && n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD) n = n->kids[0]->kids[0];
    if (!n || n->kind != DLSH_N_FIELD || strcmp(n->text, "x") != 0) return x->name_line;
    return dlsh_data_named(e, file, n->kids[0], &d) && d.made ? d.made->span.line : x->name_line;
}

/* What is known of the places of a data set: of the call that made it, and of the tensors that it was made of. */
static void place(const dlsh_examination *e, dlsh_samples *s, const char *file, int made, int used,
                  const dlsh_traced *given, int n) {
    int known[2] = {0}; /* those of the training part come first */
    s->file = s->target_file = s->user_file = file;
    s->line = s->target_line = s->made_line = made ? made : used;
    s->user_line = used ? used : made;
    for (int i = 0; i < n; i++) {
        if (!given[i].name_line) continue;
        int target = given[i].role == DLSH_ROLE_TARGET, written = written_at(given[i].tensor, file);
        if (known[target]++) continue;
        *(target ? &s->target_line : &s->line) = target ? given[i].name_line : line_of_numbers(e, file, &given[i]);
        *(target ? &s->target_written_line : &s->written_line) = written;
    }
}

typedef struct dealt {
    dl_dataset *data;
    dl_split split;
    const long *order; /* of the first epoch, `samples` of them; NULL: of the split */
    long samples;
    int in_order; /* it is the order of the batches */
    const char *file;
    int made, used; /* lines */
    const dlsh_node *maker;
} dealt;

/* Where the targets of the test split were made: the variable that the data set was given for them. */
static int line_of_test_targets(const dlsh_examination *e, const dealt *d, int otherwise) {
    dlsh_traced used[DLSH_TRACED];
    const dlsh_node *y = d->maker ? dlsh_argument_of(d->maker, 3, "test_y") : NULL;
    const int n = y ? dlsh_trace_value(e, d->file, y, used) : 0;
    int line = 0;
    const dlsh_node *made = dlsh_defined(d->file, y);
    const dlsh_node *own =
        y && y->kind == DLSH_N_FIELD ? dlsh_apart(d->file, y, dlsh_argument_of(d->maker, 1, "y")) : NULL;
    if (made || own) return own ? own->span.line : made->span.line;
    for (int i = 0; i < n && !line; i++) line = used[i].name_line;
    return line ? line : y ? y->span.line : otherwise;
}

/* Of the rows as they stand in the splits. */
static void compare_labels(dlsh_examination *e, const dealt *d, const dlsh_samples *train, const dlsh_samples *test,
                           int other) {
    DLSH_SCOPED(dlsh_samples_free) dlsh_samples a = {0}, b = {0};
    if (!gather(&a, d->data, d->split, NULL, dl_dataset_len(d->data, d->split), 1)) return;
    a.target_file = train->target_file, a.target_line = train->target_line;
    a.file = d->file, a.line = d->made;
    if (!dlsh_was_found(e, e->check, "labels do not belong")) dlsh_judge_labels(e, &a);
    if (!other || !gather(&b, d->data, DL_TEST, NULL, dl_dataset_len(d->data, DL_TEST), 1)) return;
    b.target_file = test->target_file, b.target_line = line_of_test_targets(e, d, test->line);
    dlsh_compare_labels(e, &a, &b);
}

/* Where the variable was made that the data set was given for the inputs of its test split. */
static int line_of_table(const dealt *d, int otherwise) {
    const dlsh_node *x = d->maker ? dlsh_argument_of(d->maker, 2, "test_x") : NULL;
    const dlsh_node *made = dlsh_defined(d->file, x);
    return made ? made->span.line : otherwise;
}

/* Is a table of the data set computed from another one, as by (x - mean) / std? */
static int is_computed(const dealt *d, int place, const char *name) {
    const dlsh_node *x = d->maker ? dlsh_made(d->file, dlsh_argument_of(d->maker, place, name)) : NULL;
    return x && x->kind == DLSH_N_BINARY;
}

static void examine_dataset(dlsh_examination *e, const dealt *d) {
    DLSH_SCOPED(dlsh_samples_free) dlsh_samples train = {0}, test = {0};
    dlsh_traced given[DLSH_TRACED];
    int n = d->maker ? dlsh_trace_value(e, d->file, d->maker, given) : 0;
    int part = d->maker ? dlsh_test_line(d->file, d->maker) : 0;
    text_name = d->file;
    dlsh_compare_traced(e, given, n);
    dlsh_find_chosen_columns(e, d->file, d->maker, given, n);
    int any = gather(&train, d->data, d->split, d->order, d->samples, 0);
    int other = d->split == DL_TRAIN && gather(&test, d->data, DL_TEST, NULL, dl_dataset_len(d->data, DL_TEST), 0);
    place(e, &train, d->file, d->made, d->used, given, n);
    place(e, &test, d->file, d->made, d->used, given, n);
    test.line = part ? part : test.made_line;
    const int raw = is_computed(d, 0, "x") && !is_computed(d, 2, "test_x"); /* one part alone was prepared */
    test.prepared_line = part ? part : raw ? test.made_line : line_of_table(d, test.made_line);
    train.in_order = d->in_order && dl_dataset_classes(d->data) > 0;
    if (any) dlsh_judge_samples(e, &train), dlsh_find_leaked(e, d->file, given, n, &train);
    if (any && other) dlsh_compare_classes(e, &train, &test), dlsh_compare_splits(e, &train, &test);
    if (any) compare_labels(e, d, &train, &test, other);
}

static void examine_trainer(dlsh_examination *e, const char *file) {
    dl_loader *l = dl_trainer_loader(e->trainer);
    long n = l ? dl_loader_samples(l) : 0, *order = n ? malloc((size_t)n * sizeof *order) : NULL;
    if (order && !dl_loader_order(l, 0, order)) {
        const dlsh_node *maker = dlsh_trainer_option(e, file, 1, "data");
        dealt d = {dl_loader_dataset(l), dl_loader_split(l), order, n, 1, file, .maker = maker};
        d.made = maker ? maker->span.line : dlsh_script_line_with(e, file, "dataset(");
        d.used = dlsh_script_line_with(e, file, "trainer(");
        examine_dataset(e, &d);
    }
    dl_error_clear();
    free(order);
}

/* A loop with backward passes over samples that were kept apart. */
static void find_trained_test(dlsh_examination *e, const dl_journal_row *r, const dlsh_dealt *l) {
    if (l->split != DL_TEST || !dl_dataset_len(l->data, DL_TRAIN)) return;
    dlsh_found(e, r->file, l->line, "loader(d.train, ...) for the loop that trains",
               "the net is trained with the test split\n"
               "%ld backward passes at line %d are of batches of it; the training split has %ld samples",
               r->count, r->line, dl_dataset_len(l->data, DL_TRAIN));
}

/* The loader that the loop around a backward pass goes over. */
static void examine_loader(dlsh_examination *e, const dl_journal_row *r) {
    dlsh_dealt l;
    if (!dlsh_loader_around(e, r->file, r->line, &l)) return;
    find_trained_test(e, r, &l);
    dealt d = {l.data, l.split, NULL, dl_dataset_len(l.data, l.split), l.in_order, r->file, .maker = l.made};
    d.made = l.made ? l.made->span.line : l.line, d.used = l.line;
    examine_dataset(e, &d);
}

/* ---------------------------------------------------------------- a loop's */

/* The class of all targets of a loss; NaN: they differ, or are not known. */
static double class_of(dlsh_pass p) {
    for (long k = 0; k < p.n; k++) {
        const dl_journal_value *y = &p.at[k].in[1];
        if (dlsh_op_is(&p.at[k], "cross_entropy|nll_picked"))
            return y->there && y->n > 3 && y->low == y->high ? y->low : NAN;
    }
    return NAN;
}

/* The loss of classes, of many samples; NULL: there is none. */
static const dl_journal_node *many_targets(dlsh_pass p) {
    for (long k = 0; k < p.n; k++)
        if (dlsh_op_is(&p.at[k], "cross_entropy|nll_picked")) return p.at[k].in[1].n > 15 ? &p.at[k] : NULL;
    return NULL;
}

static void find_one_class_a_batch(dlsh_examination *e, const dl_journal_row *r) {
    const dlsh_pass first = dlsh_pass_of(r, 0), last = dlsh_pass_of(r, 1);
    const double a = class_of(first), b = class_of(last);
    if (isnan(a) || isnan(b)) return;
    if (a == b) return;
    const dl_journal_node *loss = many_targets(last);
    const dlsh_node *call = loss ? dlsh_call_on_line(loss->file, loss->line, "loss|entropy|nll") : NULL;
    const dlsh_node *y = call ? dlsh_argument_of(call, 1, "target") : NULL;
    dlsh_found(e, last.at->file, dlsh_line_of_order(last.at->file, y, last.at->line),
               "batches of all classes, in random order",
               "samples come in the order of their classes: a batch holds one class alone\n"
               "all targets of the first batch are %.4g, those of another one %.4g",
               a, b);
}

/* Did the loss never rise again to what it began with? It does where a batch has another class. */
static int stays_low(const dl_journal_row *r) {
    const int n = r->ncurve;
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < n / 4; i++) low = fmin(low, r->curve[i]);
    for (int i = n / 4; i < n; i++) high = fmax(high, r->curve[i]);
    return n >= 8 && high <= low;
}

/* All targets are one class, in the first batch and in a later one, and nothing else is known of them. */
static void find_same_targets(dlsh_examination *e, const dl_journal_row *r) {
    const dlsh_pass first = dlsh_pass_of(r, 0), last = dlsh_pass_of(r, 1);
    const double a = class_of(first), b = class_of(last);
    const dl_journal_node *loss = many_targets(last);
    if (isnan(a) || a != b || r->count < 8 || e->bad || !loss || !stays_low(r)) return;
    dlsh_found(e, loss->file, dlsh_line_of_target(loss), "look at how the targets were made",
               "all targets are the same\n"
               "those of the first batch and of another one are all %.4g",
               a);
}

long dlsh_rows_passed(const dlsh_examination *e, const dlsh_samples *s, const void *net, int trained, long *known) {
    DLSH_FREED unsigned long *h = dlsh_sorted_rows(s);
    long n = 0;
    *known = 0;
    DLSH_EACH_ROW_WHILE (h, r, e, DL_DID_FORWARD) {
        if (dlsh_is_training_pass(e, r) != trained || (net && net != r->what)) continue;
        for (long k = 0; k < r->nseen; k++) n += dlsh_is_among(h, s->n, r->seen[k]);
        *known += r->nseen;
    }
    return n;
}

int dlsh_leaves_rows_out(const dlsh_examination *e, const dlsh_samples *s) {
    DLSH_FREED unsigned long *h = dlsh_sorted_rows(s);
    long known, tested = 0, both = 0;
    const long trained = h ? dlsh_rows_passed(e, s, NULL, 1, &known) : 0;
    DLSH_EACH_ROW_WHILE (trained, r, e, DL_DID_FORWARD)
        for (long k = 0; k < r->nseen && dlsh_is_evaluation_pass(e, r); k++) {
            const int of_it = dlsh_is_among(h, s->n, r->seen[k]);
            int seen = 0;
            DLSH_EACH_ROW_WHILE (of_it && !seen, t, e, DL_DID_FORWARD)
                for (long j = 0; j < t->nseen && !seen && dlsh_is_training_pass(e, t); j++)
                    seen = t->seen[j] == r->seen[k];
            tested += of_it, both += seen;
        }
    return 20 * both < tested && trained * tested > 5 * s->n; /* of all rows some would have been there by chance */
}

/* Was the table given to nets, but not in training, as one that a function made last? */
static int is_of_evaluation(const dlsh_examination *e, const dlsh_samples *s) {
    long known;
    return !dlsh_rows_passed(e, s, NULL, 1, &known) && known && dlsh_rows_passed(e, s, NULL, 0, &known);
}

static int set_passed(const dlsh_examination *e, dlsh_samples *s) {
    long known;
    s->apart = !dlsh_rows_passed(e, s, NULL, 1, &known) && known;
    return 1;
}

/* Inputs of a statement, with the targets that belong to them. */
static int set_traced(const dlsh_examination *e, dlsh_samples *s, const dlsh_traced *all, int n, const char *file,
                      int line, long batch) {
    for (int i = 0; i < n; i++) {
        dl_tensor *x = all[i].whole ? all[i].whole : all[i].tensor, *y = NULL;
        if (all[i].role != DLSH_ROLE_INPUT || !x || dl_ndim(x) < 2 || dl_shape(x)[0] < 4) continue;
        for (int j = 0; j < 2 * n && !y; j++) {
            const int k = j % n; /* those that the text gives to a loss come first */
            dl_tensor *t = all[k].whole ? all[k].whole : all[k].tensor;
            if (all[k].role != DLSH_ROLE_TARGET || all[k].guessed != (j >= n) || !t || !dl_ndim(t) ||
                dl_shape(t)[0] != dl_shape(x)[0])
                continue;
            if (all[k].guessed && dl_dtype_of(t) == DL_BOOL) continue;                  /* a mask */
            if (all[i].scope && all[k].scope && all[i].scope != all[k].scope) continue; /* of other batches */
            y = t, s->guessed = all[k].guessed;
            snprintf(s->target, sizeof s->target, "%s", all[k].base);
            s->target_line = all[k].base_line;
            s->target_written_line = written_at(t, file);
            s->in_order = !dl_dtype_is_float(dl_dtype_of(t)) && !all[i].random && batch > 0 && batch < dl_shape(x)[0];
        }
        s->file = s->target_file = s->user_file = file;
        s->line = all[i].base_line ? all[i].base_line : line;
        /* x = raw: there it was not prepared */
        const dlsh_node *made = dlsh_definition_of(file, all[i].name, INT_MAX, NULL);
        if (made && made->kind == DLSH_N_NAME && all[i].name_line) s->line = all[i].name_line;
        s->user_line = all[i].pick_line ? all[i].pick_line : line;
        s->written_line = written_at(x, file);
        snprintf(s->name, sizeof s->name, "%s", all[i].base);
        return dlsh_samples_set(s, x, y) && set_passed(e, s);
    }
    return 0;
}

/* Lines of a pass, each once. */
static int lines_of(dlsh_pass p, int *lines, int max, const char **file, long *batch) {
    int n = 0;
    for (long k = p.n - 1; k >= 0; k--) {
        int known = 0;
        for (int i = 0; i < n; i++) known |= lines[i] == p.at[k].line;
        if (!known && n < max) lines[n++] = p.at[k].line, *file = p.at[k].file;
        if (!*batch && p.at[k].in[0].ndim > 1 && !p.at[k].in[0].leaf) *batch = p.at[k].in[0].shape[0];
    }
    return n;
}

/* What the statements of a pass use, all of them together. */
static int trace_lines(const dlsh_examination *e, const char *file, const int *lines, int nlines, dlsh_traced *out,
                       int max) {
    int n = 0;
    for (int i = 0; i < nlines; i++) {
        dlsh_traced some[DLSH_TRACED];
        int k = dlsh_trace(e, file, lines[i], some);
        for (int j = 0; j < k && n < max; j++) out[n++] = some[j];
    }
    return n;
}

enum { LINES = 24, ALL = 48 };

static const dlsh_traced *first_input(const dlsh_traced *all, int n) {
    for (int i = 0; i < n; i++)
        if (all[i].role == DLSH_ROLE_INPUT && all[i].tensor && dl_ndim(all[i].tensor) > 1) return &all[i];
    return NULL;
}

/* Statements that ran nets whose layers have lines of their own, in the course of a training. */
static int add_lines_of_nets(const dlsh_examination *e, const dl_journal_row *back, const char *file, int *lines,
                             int n) {
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        int known = 0;
        for (int k = 0; k < n; k++) known |= lines[k] == r->line;
        if (known || n == LINES || !r->grad || r->count < 4 || strcmp(r->file, file) != 0) continue;
        if (r->at > back->till || r->till < back->at) continue; /* of another training */
        if (dlsh_is_trained(e, r)) lines[n++] = r->line;
    }
    return n;
}

static void examine_loop(dlsh_examination *e, const dl_journal_row *r) {
    int lines[LINES];
    const char *file = r->file;
    long batch = 0;
    static dlsh_traced all[ALL];
    int nlines = lines_of(dlsh_pass_of(r, 1), lines, LINES, &file, &batch);
    nlines = add_lines_of_nets(e, r, file, lines, nlines);
    int n = trace_lines(e, file, lines, nlines, all, ALL);
    DLSH_SCOPED(dlsh_samples_free) dlsh_samples s = {0}, near = {0};
    text_name = file;
    dlsh_find_written(e, r, all, n);
    dlsh_compare_traced(e, all, n);
    dlsh_compare_rows(e, file, all, n);
    for (int i = 0; i < nlines; i++) dlsh_find_chosen_columns(e, file, dlsh_statement_at(file, lines[i]), all, n);
    for (int i = 0; i < n; i++)
        if (all[i].name_line && dlsh_is_before_loop(file, all[i].name_line, r->line))
            dlsh_find_constant_target(e, file, &all[i]);
    dlsh_dealt l; /* then variables hold the last batch alone */
    int whole = !dlsh_loader_around(e, r->file, r->line, &l);
    if (whole && l.line && l.in_order) s.dealt_line = l.line;
    if (whole && set_traced(e, &s, all, n, file, r->line, batch)) {
        dlsh_judge_samples(e, &s);
        dlsh_find_leaked(e, file, all, n, &s);
        if (!dlsh_was_found(e, e->check, "labels do not belong")) dlsh_judge_labels(e, &s);
    }
    const dlsh_traced *used = first_input(all, n);
    const int part = used ? dlsh_part_before(used, file, r->line) : -1;
    snprintf(near.name, sizeof near.name, "%s", part > 0 ? used->way_name[part] : s.name);
    dlsh_samples *with = s.y && s.width ? &s : &near; /* whose targets are known */
    dl_tensor *table = used ? part > 0 ? used->way[part] : used->tensor : NULL;
    if (!table || !dlsh_samples_set(&near, table, NULL)) return;
    set_passed(e, &near);
    near.file = file, near.line = part > 0 ? used->way_line[part] : used->name_line;
    const dlsh_samples *own = part >= 0 ? &near : with;
    const dlsh_node *made = dlsh_statement_at(own->file, own->line);
    const int slice = made && made->kind == DLSH_N_ASSIGN && made->kids[made->nkids - 1]->kind == DLSH_N_INDEX;
    const dlsh_training t = {r, with, own, used, table, slice};
    if (!is_of_evaluation(e, own)) dlsh_compare_evaluations(e, &t, lines, nlines);
}

/* ---------------------------------------------------------------- a loop without backward passes */

/* Does a statement change a variable by what a product of matrices gives, w -= rate * (x.T @ error)? */
static dlsh_property is_product(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    const int product = at->n->kind == DLSH_N_BINARY && at->n->op == DLSH_OP_MATMUL;
    return product || dlsh_is_call_of(at->n, "matmul|mm|einsum|outer") ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

static int changes_weights(const char *file, const dlsh_node *n) {
    if (n->kind != DLSH_N_ASSIGN || n->nkids != 2) return 0;
    const dlsh_node *to = n->kids[0], *value = n->kids[1];
    const int moves = n->op == DLSH_OP_SUB || n->op == DLSH_OP_ADD ||
                      (!n->op && value->kind == DLSH_N_BINARY && value->op == DLSH_OP_SUB &&
                       dlsh_same_text(file, to, value->kids[0]));
    return moves && dlsh_origin(file, value, is_product, NULL) != NULL;
}

/* The lines of the loop around a place that gives gradients by formula. */
static int lines_in(const dlsh_node *loop, int *lines, int max) {
    int n = 0;
    DLSH_EACH_BELOW (t, loop) {
        const int known = n && lines[n - 1] == t.n->span.line;
        if (t.n->kind == DLSH_N_ASSIGN && !known && n < max) lines[n++] = t.n->span.line;
    }
    return n;
}

static void examine_formulas(dlsh_examination *e, const char *file, const dlsh_node *loop) {
    static dlsh_traced all[ALL];
    int lines[LINES];
    const int n = trace_lines(e, file, lines, lines_in(loop, lines, LINES), all, ALL);
    DLSH_SCOPED(dlsh_samples_free) dlsh_samples s = {0};
    text_name = file;
    dlsh_compare_traced(e, all, n);
    dlsh_compare_rows(e, file, all, n);
    if (!set_traced(e, &s, all, n, file, loop->span.line, 0)) return;
    dlsh_judge_samples(e, &s);
    if (!dlsh_was_found(e, e->check, "labels do not belong")) dlsh_judge_labels(e, &s);
}

/* The innermost loops with updates by formula, of a program without backward passes. */
static void examine_updates(dlsh_examination *e) {
    const dlsh_node *seen = NULL;
    DLSH_EACH_NODE (t) {
        const dlsh_node *loop = NULL;
        for (int i = 0; i < t.depth; i++)
            if (dlsh_is_loop(t.within[i])) loop = t.within[i];
        if (!loop || loop == seen || !changes_weights(t.file, t.n)) continue;
        seen = loop;
        examine_formulas(e, t.file, loop);
    }
}

/* ---------------------------------------------------------------- a metric's */

/* The rows of an accuracy: m(xt).argmax(dim=1) == y[:100]. */
static void see_metric(dlsh_examination *e, const char *file, const dlsh_node *n) {
    for (int i = 0; i < 2 && n->kind == DLSH_N_BINARY && n->op == DLSH_OP_EQ; i++) {
        const dlsh_node *said = n->kids[i], *labels = n->kids[1 - i];
        for (int k = 0; k < 3 && said && said->kind == DLSH_N_NAME; k++) said = dlsh_defined(file, said);
        const dlsh_node *call = said ? dlsh_call_of_net(e, file, said) : NULL;
        if (!call || dlsh_call_of_net(e, file, labels)) continue;
        dlsh_traced all[2 * DLSH_TRACED];
        const int inputs = dlsh_trace_value(e, file, call->kids[1], all);
        const int both = inputs + dlsh_trace_value(e, file, labels, all + inputs);
        for (int k = 0; k < both; k++) all[k].role = k < inputs ? DLSH_ROLE_INPUT : DLSH_ROLE_TARGET;
        text_name = file;
        const int before = e->nfindings;
        dlsh_compare_traced(e, all, both);
        for (int k = before; k < e->nfindings; k++) e->findings[k].line = n->span.line;
    }
}

dl_status dlsh_check_data(dlsh_examination *e) {
    const char *file = "";
    dlsh_find_rounded(e);
    dlsh_find_lost_digits(e);
    dlsh_find_same_items(e);
    dlsh_find_numbered_apart(e);
    dlsh_find_two_draws(e);
    dlsh_find_folded(e);
    if (e->trainer) file = dlsh_optimizer_source(dl_trainer_optimizer(e->trainer)).file;
    if (e->trainer) examine_trainer(e, file);
    DLSH_EACH_ROW_WHILE (!e->trainer, r, e, DL_DID_BACKWARD) {
        if (!r->nnodes[1]) continue;
        find_one_class_a_batch(e, r);
        examine_loop(e, r), examine_loader(e, r);
        find_same_targets(e, r);
    }
    if (!e->trainer && !dlsh_row_behind(e, DL_DID_BACKWARD, NULL)) examine_updates(e);
    dlsh_find_written_in_evaluation(e);
    dlsh_find_scaled_on_the_way(e);
    if (!dlsh_was_found(e, e->check, "labels do not belong"))
        DLSH_EACH_NODE (t) see_metric(e, t.file, t.n);
    dl_error_clear();
    return DL_OK;
}
