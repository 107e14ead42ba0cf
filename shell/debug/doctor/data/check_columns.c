/* The columns of a table of samples: constant ones, equal ones, of different scale, samples that are all alike. */
#include <limits.h>
#include <math.h>

#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"

static dlsh_property gives_zeros(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    return dlsh_is_call_of(at->n, "zeros|zeros_like|empty") ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* Where zeros were made that samples are made of, and nothing has filled; else where the samples were. */
static int line_of_zeros(const dlsh_samples *s) {
    const dlsh_node *made = dlsh_definition_of(s->file, s->name, INT_MAX, NULL);
    const dlsh_node *by = made ? dlsh_origin(s->file, made, gives_zeros, NULL) : NULL;
    return by ? by->span.line : s->line;
}

/* (t - mean) * std: columns that are multiplied by what they should be divided by. */
static dlsh_property multiplies_by_deviation(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    const dlsh_node *n = at->n;
    for (int k = 0; n->kind == DLSH_N_BINARY && n->op == DLSH_OP_MUL && k < 2; k++)
        if (dlsh_is_call_of(n->kids[k], "std|var")) return DLSH_HAS_FIRST;
    return DLSH_MAY_HAVE;
}

/* x.std(), mean(x), (x - x.min()) / x.max(): a figure of all numbers of a table of so many columns. */
typedef struct figure {
    const dlsh_examination *e;
    long width;
} figure;

static dlsh_property is_of_whole_table(void *ctx, const dlsh_step *at) {
    const figure *f = ctx;
    const dlsh_node *n = at->n,
                    *by = dlsh_is_call_of(n, "std|var|mean|max|min|amax|amin|norm|std_mean|median") ? n->kids[0] : NULL;
    const int method = by && by->kind == DLSH_N_FIELD;
    if (!by || n->nkids != (method ? 1 : 2) || n->kids[n->nkids - 1]->kind == DLSH_N_KWARG) return DLSH_MAY_HAVE;
    const dlsh_node *of = method ? by->kids[0] : n->kids[1];
    while (dlsh_is_call_of(of, "abs|float|double") && of->kids[0]->kind == DLSH_N_FIELD) of = of->kids[0]->kids[0];
    while (of->kind == DLSH_N_INDEX && of->nkids == 2) of = of->kids[0]; /* some of the rows */
    const dlsh_value *v = dlsh_value_of(f->e, at->file, of);
    const int table =
        v && v->type == DLSH_TENSOR && dl_ndim(v->as.tensor) == 2 && dl_shape(v->as.tensor)[1] == f->width;
    return table ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* Were columns of unlike scale brought to size by one figure for all of them? Was it found? */
static int find_one_figure(dlsh_examination *e, const dlsh_samples *s, long small, double least, long large,
                           double most) {
    figure f = {e, s->width};
    const dlsh_node *x = dlsh_part_of_data(e, s, DLSH_ROLE_INPUT);
    const dlsh_node *by = x ? dlsh_origin(s->file, x, is_of_whole_table, &f) : NULL;
    if (!by || most > 30) return 0;
    return dlsh_found(e, s->file, by->span.line, "a figure for each column: mean(x, dim=0), std(x, dim=0)",
                      "the inputs are scaled by one figure of the whole table, not by one of each column: columns of "
                      "small scale are almost constant\n"
                      "in %s the deviation of column %ld is %.3g, that of column %ld %.3g",
                      s->name, large, most, small, least) != NULL;
}

/* One of the columns that a call joins, stack([a, b], 1). */
typedef struct column {
    long number, width;
    const dlsh_node *found;
} column;

static dlsh_property joins_columns(void *ctx, const dlsh_step *at) {
    column *c = ctx;
    const dlsh_node *list = dlsh_is_call_of(at->n, "stack|column_stack|cat|hstack|concat") && at->n->nkids > 1
                                ? dlsh_made(at->file, at->n->kids[1])
                                : NULL;
    if (!list || list->kind != DLSH_N_LIST || list->nkids != c->width) return DLSH_MAY_HAVE;
    c->found = list->kids[c->number];
    return DLSH_HAS_FIRST;
}

/* sin(t), t.cos() of whole turns: where t is made. */
static const dlsh_node *angle_of(const char *file, const dlsh_node *n) {
    const dlsh_node *by = dlsh_made(file, n), *angle = NULL;
    while (by && (by->kind == DLSH_N_INDEX || dlsh_is_call_of(by, "unsqueeze|reshape|view"))) /* as of a column */
        by = dlsh_made(file, by->kind == DLSH_N_INDEX ? by->kids[0] : by->kids[0]->kids[0]);
    if (!dlsh_is_call_of(by, "sin|cos")) return NULL;
    angle = by->kids[0]->kind == DLSH_N_FIELD ? by->kids[0]->kids[0] : by->nkids > 1 ? by->kids[1] : NULL;
    angle = angle ? dlsh_made(file, angle) : NULL;
    return angle ? angle : by;
}

/* A column of sines of whole turns has nothing but what rounding left. Was it found? */
static int is_of_whole_turns(dlsh_examination *e, const dlsh_samples *s, long number, double deviation) {
    column c = {number, s->width, NULL};
    const dlsh_node *x = deviation < 1e-3 ? dlsh_part_of_data(e, s, DLSH_ROLE_INPUT) : NULL;
    const dlsh_node *joined = x ? dlsh_origin(s->file, x, joins_columns, &c) : NULL;
    const dlsh_node *angle = joined ? angle_of(s->file, c.found) : NULL;
    if (!angle || !dlsh_found(e, s->file, angle->span.line,
                              "divide by the period first, as 2 * pi * hour / 24: then a day is one turn",
                              "column %ld of %s is constant: it is a sine or cosine of whole turns\n"
                              "its deviation is %.2g, which is what rounding left",
                              number, s->name, deviation))
        return angle != NULL;
    return 1;
}

/* Have all columns of a table about one scale? */
static int has_one_scale(const dl_tensor *t, long width) {
    double least = INFINITY, most = 0;
    dlsh_samples s = {.n = t && dl_ndim(t) == 2 && dl_shape(t)[1] == width ? dl_shape(t)[0] : 0, .width = width};
    DLSH_FREED double *x =
        s.n > 7 && dl_dtype_is_float(dl_dtype_of(t)) ? malloc((size_t)dl_numel(t) * sizeof *x) : NULL;
    if (!x || dl_read_f64(t, x)) return dl_error_clear(), 0;
    s.x = x;
    for (long c = 0; c < width; c++) {
        const double std = dlsh_spread_of(&s, c).std;
        least = fmin(least, std), most = fmax(most, std);
    }
    return least > 0 && most < 4 * least;
}

/* The variable that the text makes of a table by scaling its columns; NULL: there is none. *line: where. */
static const char *scaled_form_of(const dlsh_examination *e, const dlsh_samples *s, const dlsh_node *x, int *line) {
    static dlsh_course way;
    while (x && x->kind == DLSH_N_INDEX) x = x->kids[0];
    const dlsh_node *made = dlsh_defined(s->file, x);
    DLSH_EACH_HOLDER_WHILE (made, h, &e->holders) {
        if (h->value.type != DLSH_TENSOR || h->file || dlsh_names(x, h->name)) continue;
        if (!has_one_scale(h->value.as.tensor, s->width)) continue;
        const dlsh_node *own = dlsh_definition_of(s->file, h->name, INT_MAX, NULL);
        if (!own || own->span.start < made->span.end) continue;
        dlsh_course_of(s->file, own, &way);
        if (!dlsh_is_on(&way, &(dlsh_step){.file = s->file, .n = made, .item = -1})) continue;
        return *line = own->span.line, h->name;
    }
    return NULL;
}

/* Columns whose deviations differ by far. */
static void find_scales(dlsh_examination *e, const dlsh_samples *s, long small, double least, long large, double most) {
    if (is_of_whole_turns(e, s, small, least)) return;
    const dlsh_node *x = dlsh_part_of_data(e, s, DLSH_ROLE_INPUT);
    const dlsh_node *by = x ? dlsh_origin(s->file, x, multiplies_by_deviation, NULL) : NULL;
    int scaled_at = 0;
    const char *scaled = x && !by && s->made_line ? scaled_form_of(e, s, x, &scaled_at) : NULL;
    dlsh_finding *f =
        dlsh_find_at(e, s->file,
                     by       ? by->span.line
                     : scaled ? s->made_line
                              : s->line,
                     by       ? "divide by the deviation: here values are multiplied by it"
                     : scaled ? dlsh_kept(e, "%s, which line %d made: its columns are scaled", scaled, scaled_at)
                              : "normalise each column: (x - mean(x, dim=0)) / std(x, dim=0)");
    if (!f) return;
    dlsh_cause(f, "the columns of %s differ in scale: column %ld outweighs the others", s->name, large);
    char used[64];
    dlsh_evidence(f, "the deviation of column %ld is %.3g, that of column %ld %.3g%s", large, most, small, least,
                  dlsh_used_as_is(s, s->line, used, sizeof used));
}

static void find_columns(dlsh_examination *e, const dlsh_samples *s) {
    dl_nan_event event;
    long constant = -1, small = -1, large = -1, constants = 0;
    dlsh_spread low = {0, INFINITY, 0}, high = {0, 0, 0};
    if (s->width > DLSH_COLUMNS || s->n < 8 || s->picture || !s->real) return; /* whole numbers may be words */
    for (long c = 0; c < s->width; c++) {
        dlsh_spread k = dlsh_spread_of(s, c);
        if (isnan(k.std)) continue;
        if (k.std <= 1e-9 * (fabs(k.mean) + 1e-30)) {
            constant = c, constants++;
        } else {
            if (k.std < low.std) low = k, small = c;
            if (k.std > high.std) high = k, large = c;
        }
    }
    const dlsh_spread k = constant >= 0 ? dlsh_spread_of(s, constant) : (dlsh_spread){1, 0, 0};
    const int centred = k.mean == 0 && !s->written_line; /* as of one that was constant and normalised: no harm */
    const int all = constants == s->width;
    if (constant >= 0 && s->width > 1 && (all || (k.mean != 1 && !centred)) &&
        !dlsh_learns_well(e, 0.95)) { /* a bias */
        dlsh_finding *f = dlsh_find_at(e, s->file,
                                       s->written_line ? s->written_line
                                       : all           ? line_of_zeros(s)
                                                       : s->line,
                                       all ? "look at how the rows were made, as of one tensor that is written in place"
                                           : "leave the column out, or look where its values got lost");
        if (f && all) dlsh_cause(f, "all %ld samples of %s that were looked at are equal", s->n, s->name);
        if (f && !all) dlsh_cause(f, "column %ld of %s is constant", constant, s->name);
        if (f)
            f->effect = dlsh_was_found(e, e->check, "one and the same tensor") ||
                        dlsh_was_found(e, e->check, "cut off") || dlsh_nan_before_training(&event);
        if (f && all)
            dlsh_evidence(f, "each of its %ld columns has one value; it was made at line %d", s->width, s->line);
        if (f && !all)
            dlsh_evidence(f, "it is %.4g in all %ld samples: it tells nothing; %s was made at line %d", k.mean, s->n,
                          s->name, s->line);
    }
    long same = 1;
    for (long c = 1; c < s->width; c++) {
        long i = 0;
        while (i < s->n && s->x[i * s->width + c] == s->x[i * s->width]) i++;
        same += i == s->n;
    }
    const int made_of_results = s->apart && !dlsh_is_before_loop(s->file, s->line, s->user_line);
    dlsh_finding *copies = same == s->width && same > 1 && constant < 0 && !made_of_results
                               ? dlsh_find_at(e, s->file, s->line, "a column for each feature: look at the index")
                               : NULL;
    if (copies) dlsh_cause(copies, "all columns of %s are the same one", s->name);
    if (copies) dlsh_evidence(copies, "its %ld columns have equal values in all %ld samples", same, s->n);
    if (small < 0 || !(high.std > 100 * low.std) || dlsh_normalised_first(e, "batch_norm")) return;
    const int far = high.std > (high.std > 10 ? 300 : 1000) * low.std;
    if ((far || !dlsh_learns_well(e, 0.5)) && find_one_figure(e, s, small, low.std, large, high.std)) return;
    if (far) find_scales(e, s, small, low.std, large, high.std);
}

/* Samples that are all about the same, as rows that were each scaled by their own figures. */
static void find_alike(dlsh_examination *e, const dlsh_samples *s) {
    double squares = 0, spread = 0;
    if (s->width < 2 || s->width > DLSH_COLUMNS || s->n < 16 || s->picture || !s->real || e->bad) return;
    for (long c = 0; c < s->width; c++) {
        const dlsh_spread k = dlsh_spread_of(s, c);
        if (k.n < s->n) return;
        spread += k.std * k.std, squares += k.mean * k.mean + k.std * k.std;
    }
    const double size = sqrt(squares / (double)s->width), apart = sqrt(spread / (double)s->width);
    if (!(size > 0.05) || !(size < 20) || !(apart < 0.01 * size) || apart == 0 || dlsh_learns_well(e, 0.5)) return;
    const dlsh_node *x = dlsh_part_of_data(e, s, DLSH_ROLE_INPUT);
    dlsh_found(e, s->file, x ? dlsh_line_of_rows(e, s->file, x, NULL, s->line) : s->line,
               "normalise each column by itself: (x - mean(x, dim=0)) / std(x, dim=0)",
               "samples of %s are all about the same: what tells them apart is %.2g of their size\n"
               "columns have deviations of %.2g on average, where values are about %.2g",
               s->name, apart / size, apart, size);
}

/* The share of a column's elements that are the number which most of them are, if more than half are. */
static double share_of_one(const dlsh_samples *s, long c) {
    double number = 0;
    long votes = 0, n = 0;
    for (long i = 0; i < s->n; i++) {
        const double v = s->x[i * s->width + c];
        if (!votes) number = v;
        votes += v == number ? 1 : -1;
    }
    for (long i = 0; i < s->n; i++) n += s->x[i * s->width + c] == number;
    return (double)n / (double)s->n;
}

/* A column that a division by //, or a cast, left almost nothing of. Was it found? */
static int find_divided(dlsh_examination *e, const dlsh_samples *s) {
    if (s->width < 2 || s->width > DLSH_COLUMNS || s->n < 32 || s->picture || !s->real) return 0;
    const dlsh_node *x = dlsh_part_of_data(e, s, DLSH_ROLE_INPUT);
    for (long k = 0; x && k < s->width; k++) {
        column c = {k, s->width, NULL};
        const double share = share_of_one(s, k);
        if (share < 0.95 || !dlsh_origin(s->file, x, joins_columns, &c)) continue;
        const dlsh_node *by = dlsh_rounded(e, s->file, c.found);
        const int divides = by && by->kind == DLSH_N_BINARY;
        if (by && (divides || !dlsh_learns_well(e, 0.5)))
            return dlsh_found(e, s->file, by->span.line,
                              divides ? "divide by /, which keeps fractions"
                                      : "keep floating numbers: leave the rounding out, or scale before it",
                              "%s leaves almost nothing of a column of the inputs: fractions are cut off\n"
                              "%.0f %% of column %ld of %s are one number",
                              divides ? "//, the division of whole numbers," : "a cast or rounding to whole numbers",
                              100 * share, k, s->name) != NULL;
    }
    return 0;
}

/* Has each row mean 0, and all of them the same deviation? */
static int has_scaled_rows(const dlsh_samples *s) {
    double first = 0;
    for (long i = 0; i < s->n; i++) {
        double sum = 0, squares = 0;
        for (long c = 0; c < s->width; c++) sum += s->x[i * s->width + c];
        const double mean = sum / (double)s->width;
        for (long c = 0; c < s->width; c++) squares += pow(s->x[i * s->width + c] - mean, 2);
        const double deviation = sqrt(squares / (double)s->width);
        if (!i) first = deviation;
        if (!(fabs(mean) <= 1e-3 * deviation) || !(fabs(deviation - first) <= 0.02 * first)) return 0;
    }
    return 1;
}

/* Rows of a few features that were each scaled by its own mean and deviation: how large they are is lost, of two
 * columns all but the sign of their difference. Was it found? */
static int find_scaled_rows(dlsh_examination *e, const dlsh_samples *s) {
    enum { FEW = 3 };
    if (s->width < 2 || s->width > DLSH_COLUMNS || s->n < 16 || s->picture || !s->real || !has_scaled_rows(s)) return 0;
    if (s->width > FEW && dlsh_learns_well(e, 0.6)) return 0;
    const dlsh_node *x = dlsh_part_of_data(e, s, DLSH_ROLE_INPUT);
    const int line = x ? dlsh_line_of_rows(e, s->file, x, NULL, 0) : 0;
    return line && dlsh_found(e, s->file, line, "figures of each column over all samples, dim=0",
                              "each sample of %s is scaled by its own mean and deviation: what tells samples apart is "
                              "lost\n"
                              "each row of %ld numbers has mean 0 and the same deviation, as the figures of this line "
                              "are of rows, dim=1",
                              s->name, s->width) != NULL;
}

void dlsh_judge_columns(dlsh_examination *e, const dlsh_samples *s) {
    if (find_scaled_rows(e, s) || find_divided(e, s)) return;
    find_columns(e, s);
    find_alike(e, s);
}
