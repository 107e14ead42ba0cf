/* Codes for missing values in columns, as -999, also scaled ones, and the test that was to take them out. */
#include <math.h>
#include <stdlib.h>

#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"

/* Are the numbers of a column, but for one, hardly ever there twice? */
static int are_measured(const dlsh_samples *s, long c, double but) {
    long twice = 0, n = 0;
    for (long i = 1; i < s->n; i++) {
        const double v = s->x[i * s->width + c];
        n += v != but, twice += v != but && v == s->x[(i - 1) * s->width + c];
    }
    return s->real && 20 * twice < n;
}

/* Of a column: a number that is there several times, far from all others, as -999 where a value is missing. Of numbers
 * that were scaled it may be any. */
static double code_in(const dlsh_samples *s, long c, long *count) {
    dlsh_spread k = dlsh_spread_of(s, c);
    double code = NAN, sum = 0, squares = 0;
    for (long i = 0; i < s->n; i++) {
        double v = s->x[i * s->width + c];
        if (isfinite(v) && (isnan(code) || fabs(v - k.mean) > fabs(code - k.mean))) code = v;
    }
    *count = 0;
    for (long i = 0; i < s->n; i++) {
        double v = s->x[i * s->width + c];
        if (v == code) ++*count;
        if (v != code && isfinite(v)) sum += v, squares += v * v;
    }
    double n = (double)(s->n - *count), mean = n ? sum / n : 0, std = n ? sqrt(fmax(squares / n - mean * mean, 0)) : 0;
    int whole = code == floor(code) && fabs(code) >= 9;
    const int scaled = *count > 3 && 100 * *count >= s->n && are_measured(s, c, code);
    const double far = scaled ? 5 * *count < s->n ? 8 : 20 : whole ? 30 : INFINITY;
    return *count > 1 && *count < s->n / 2 && std > 0 && fabs(code - mean) > far * std ? code : NAN;
}

/* Where the samples were made before they were changed: x = (x - mean) / std leaves them where they were. */
static int line_before_changes(const char *file, int line) {
    enum { CHANGES = 8 };
    const dlsh_node *n = file ? dlsh_statement_at(file, line) : NULL, *to = NULL, *made = NULL;
    int at = n ? n->span.start : 0;
    if (n && n->kind == DLSH_N_ASSIGN && n->kids[0]->kind == DLSH_N_NAME) to = n->kids[0], made = n->kids[n->nkids - 1];
    for (int i = 0; made && i < CHANGES && dlsh_mentions(made, to->text); i++) {
        made = dlsh_definition_of(file, to->text, at, &at);
        if (made && made->span.line < line) line = made->span.line;
    }
    return line;
}

/* The variable with the number that a code in a column was before it was scaled, in as large a share of its rows;
 * *usual: the mean of the others. NULL: there is none. */
static const char *holder_of_code(const dlsh_examination *e, const dlsh_samples *of, long c, double share, double *code,
                                  double *usual) {
    DLSH_EACH_HOLDER (h, &e->holders) {
        const dl_tensor *t = h->value.type == DLSH_TENSOR ? h->value.as.tensor : NULL;
        const int table = t && dl_ndim(t) == 2 && dl_shape(t)[1] == of->width;
        dlsh_samples s = {.n = table || (t && dl_ndim(t) == 1) ? dl_shape(t)[0] : 0, .real = 1};
        s.width = table ? of->width : 1;
        DLSH_FREED double *x = s.n > 7 ? malloc((size_t)(s.n * s.width) * sizeof *x) : NULL;
        if (!x || dl_read_f64(t, x)) continue;
        long many = 0;
        const long k = table ? c : 0;
        const double v = (s.x = x, code_in(&s, k, &many));
        if (!(v == floor(v)) || !(fabs((double)many / (double)s.n - share) < 0.3 * share)) continue;
        *usual = (dlsh_spread_of(&s, k).mean - v * (double)many / (double)s.n) / (1 - (double)many / (double)s.n);
        return *code = v, h->name;
    }
    return dl_error_clear(), NULL;
}

static dlsh_property is_spread(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    return dlsh_is_call_of(at->n, "std|var|max|amax|norm|quantile") ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* (c - c.mean()) / c.std() */
static dlsh_property divides_by_spread(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    const int divides = at->n->kind == DLSH_N_BINARY && at->n->op == DLSH_OP_DIV;
    return divides && dlsh_origin_at(at, at->n->kids[1], is_spread, NULL) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* Where the code is written into the samples, or these were made before they were changed, or else where a column was
 * taken that was scaled with a code in it. *scaled: where it was scaled; 0: it was not. */
static int line_of_code(const dlsh_examination *e, const dlsh_samples *s, double code, int *scaled) {
    const dlsh_node *data = dlsh_part_of_data(e, s, DLSH_ROLE_INPUT);
    const dlsh_node *put = data && fabs(code) >= 9 ? dlsh_origin_of_number(e, s->file, data, code) : NULL;
    if (put) return *scaled = 0, put->span.line;
    const int line = s->written_line ? s->written_line : line_before_changes(s->file, s->line);
    const dlsh_node *x = code != floor(code) && line == s->line ? data : NULL;
    const dlsh_node *by = x ? dlsh_origin(s->file, x, divides_by_spread, NULL) : NULL;
    const dlsh_node *what = by && by->kids[0]->kind == DLSH_N_BINARY ? by->kids[0]->kids[0] : NULL;
    const int given = what && what->kind == DLSH_N_NAME && /* to a function that scales, each column or all */
                      dlsh_define(dlsh_text_root(s->file), what->text, what->span.start).param;
    const dlsh_node *column = given ? NULL : dlsh_defined(s->file, what);
    *scaled = by ? by->span.line : 0;
    return column && column->kind == DLSH_N_INDEX ? column->span.line : by ? *scaled : line;
}

/* A comparison that is to take a code out of data, and does not. */
typedef struct gate {
    const dlsh_examination *e;
    const char *file;
    double code, usual; /* a number that is none */
    int from;           /* in the text: where the code is put in; -1: not known */
} gate;

/* From the text, or of a field by the value that it has. */
static double number_at(const gate *g, const dlsh_node *n) {
    const dlsh_value *v = n->kind == DLSH_N_FIELD ? dlsh_value_of(g->e, g->file, n) : NULL;
    return v && dlsh_is_number(*v) ? dlsh_number(*v) : dlsh_number_of(g->e, g->file, n);
}

/* Is the comparison true of both, or of neither: |x| < 900, x == 999? */
static int treats_alike(const gate *g, const dlsh_node *n) {
    const double right = number_at(g, n->kids[1]), left = number_at(g, n->kids[0]);
    const dlsh_node *of = isnan(right) ? n->kids[1] : n->kids[0];
    const int size = dlsh_is_call_of(of, "abs"), turned = isnan(right);
    const double limit = turned ? left : right;
    int is[2];
    if (!(fabs(limit) >= 9)) return 0; /* no code */
    for (int k = 0; k < 2; k++) {
        const double v = k ? g->usual : g->code, w = size ? fabs(v) : v, a = turned ? limit : w, b = turned ? w : limit;
        is[k] = n->op == DLSH_OP_EQ   ? a == b
                : n->op == DLSH_OP_NE ? a != b
                : n->op == DLSH_OP_LT ? a < b
                : n->op == DLSH_OP_LE ? a <= b
                : n->op == DLSH_OP_GT ? a > b
                                      : a >= b;
    }
    return is[0] == is[1];
}

/* On the way of the data, behind the place where the code is put in. */
static dlsh_property lets_through(void *ctx, const dlsh_step *at) {
    const gate *g = ctx;
    const int test = dlsh_is_comparison(at->n) && at->n->span.start > g->from;
    return test && treats_alike(g, at->n) ? DLSH_HAS : DLSH_MAY_HAVE;
}

/* The same in what an assignment picks, x[x > 900] = 0, of a name on the way. */
static const dlsh_node *gate_of_writes(gate *g, const dlsh_node *data) {
    static dlsh_course way;
    dlsh_course_of(g->file, data, &way);
    DLSH_EACH_BELOW (t, dlsh_text_root(g->file)) {
        const dlsh_node *to = t.n->kind == DLSH_N_ASSIGN && t.n->nkids == 2 ? t.n->kids[0] : NULL;
        if (!to || to->kind != DLSH_N_INDEX || to->nkids < 2 || to->kids[0]->kind != DLSH_N_NAME) continue;
        int used = 0;
        for (int i = 0; i < way.n && !used; i++) used = dlsh_names(way.at[i].n, to->kids[0]->text);
        const dlsh_node *by = used ? dlsh_origin(g->file, to->kids[1], lets_through, g) : NULL;
        if (by) return by;
    }
    return NULL;
}

/* The comparison of the text that is to find a code, and does not; NULL: there is none. */
static const dlsh_node *failing_test(const dlsh_examination *e, const dlsh_samples *s, double code, double usual) {
    const dlsh_node *data = s->file ? dlsh_part_of_data(e, s, DLSH_ROLE_INPUT) : NULL;
    const dlsh_node *put = data ? dlsh_origin_of_number(e, s->file, data, code) : NULL;
    gate g = {e, s->file, code, usual, put ? put->span.start : -1};
    const dlsh_node *by = data ? dlsh_origin(s->file, data, lets_through, &g) : NULL;
    return by || !data ? by : gate_of_writes(&g, data);
}

/* A number that is put in for elements that a mask picks: where(empty, -999, x), x.masked_fill(empty, -1e4),
 * x[empty] = -999, x * full - 999 * empty. */
typedef struct put_code {
    const dlsh_examination *e;
    double number, became; /* what it is after scaling */
} put_code;

/* Is an expression such a number, as it is or in a tensor of its own? */
static int is_code(put_code *c, const char *file, const dlsh_node *n, int any_sign) {
    if (dlsh_is_call_of(n, "tensor|full|full_like") && n->nkids > 1) n = n->kids[n->nkids - 1];
    const double v = dlsh_number_of(c->e, file, n);
    if (!isfinite(v) || v != floor(v) || fabs(v) < 9 || (!any_sign && (c->became ? v * c->became < 0 : v > 0)))
        return 0;
    return c->number = v, 1;
}

static dlsh_property puts_code(void *ctx, const dlsh_step *at) {
    put_code *c = ctx;
    const dlsh_node *n = at->n;
    const int call = dlsh_is_call_of(n, "where|masked_fill|masked_fill_|index_fill|index_fill_");
    for (int i = 1; call && i < n->nkids; i++)
        if (is_code(c, at->file, n->kids[i], 0)) return DLSH_HAS_FIRST;
    for (int k = 0; n->kind == DLSH_N_BINARY && n->op == DLSH_OP_MUL && k < 2; k++) {
        const dlsh_node *mask = n->kids[!k];
        if (dlsh_is_call_of(mask, "float|double|to") && mask->kids[0]->kind == DLSH_N_FIELD)
            mask = mask->kids[0]->kids[0];
        const dlsh_value *v = dlsh_value_of(c->e, at->file, mask);
        if (v && v->type == DLSH_TENSOR && dl_dtype_of(v->as.tensor) == DL_BOOL && is_code(c, at->file, n->kids[k], 1))
            return DLSH_HAS_FIRST;
    }
    return at->added && is_code(c, at->file, n, 0) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

int dlsh_find_codes(dlsh_examination *e, const dlsh_samples *s) {
    long count = 0;
    if (s->width > DLSH_COLUMNS || s->n < 8 || s->picture) return 0;
    for (long c = 0; c < s->width; c++) {
        const double code = code_in(s, c, &count), share = (double)count / (double)s->n;
        if (isnan(code)) continue;
        int scaled = 0;
        int line = line_of_code(e, s, code, &scaled);
        const int whole = code == floor(code) && fabs(code) >= 9;
        double was = code, usual = whole ? (dlsh_spread_of(s, c).mean - share * code) / (1 - share) : 0;
        const char *of = whole ? NULL : holder_of_code(e, s, c, share, &was, &usual);
        const dlsh_node *data = !whole && !of && s->file ? dlsh_part_of_data(e, s, DLSH_ROLE_INPUT) : NULL;
        put_code by = {e, code, code};
        const dlsh_node *put = data ? dlsh_origin(s->file, data, puts_code, &by) : NULL;
        if (put) was = by.number;
        if (put && !scaled && put->span.line > line) line = put->span.line; /* into the table, before it was scaled */
        const dlsh_node *test = was == floor(was) ? failing_test(e, s, was, usual) : NULL;
        dlsh_finding *f = dlsh_find_at(
            e, s->file, test ? test->span.line : line,
            test ? dlsh_kept(e,
                             "a test that tells %.6g from all others, as x == %.6g, and the column's mean in its place",
                             was, was)
                 : "fill missing values in, as by the column's mean, and tell the net by a column of its own");
        dlsh_cause(f, "column %ld of %s holds %.6g%s%s%s, which looks like a code for a missing value%s", c, s->name,
                   was, of ? " of " : "", of ? of : "", !of && put ? dlsh_kept(e, " (scaled: %.4g)", code) : "",
                   test ? ": this line lets it through" : "");
        dlsh_evidence(
            f, "%ld of %ld samples have it, far outside of what the others have%s%s", count, s->n,
            test ? ": the comparison is the same for it as for them" : "",
            whole    ? ""
            : scaled ? dlsh_kept(e, "; mean and deviation, by which line %d scales the column, have it in them", scaled)
                     : "; figures that scale the column, as mean and deviation, have it in them");
        return 1;
    }
    return 0;
}
