/* The data: what a training was given, by a trainer's data set or by the variables that its statements use. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/passes/passes.h"
#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/trace.h"

/* ---------------------------------------------------------------- one table of samples */

/* The column that is not finite in any sample; -1: none. */
static long lost_column(const dlsh_samples *s) {
    for (long c = 0; c < s->width; c++) {
        long i = 0;
        while (i < s->n && !isfinite(s->x[i * s->width + c])) i++;
        if (i == s->n) return c;
    }
    return -1;
}

int dlsh_nan_before_training(dl_nan_event *out) {
    return dlsh_first_nan(out) && !out->backward && !out->updates && !*out->layer;
}

static int has_holes(const dl_tensor *t) {
    DLSH_FREED double *v = malloc(((size_t)dl_numel(t) + 1) * sizeof *v);
    if (!v || dl_requires_grad(t) || dl_numel(t) > 1 << 22 || dl_read_f64(t, v)) return dl_error_clear(), 0;
    for (long i = 0; i < dl_numel(t); i++)
        if (!isfinite(v[i])) return 1;
    return 0;
}

static dlsh_property is_holed(void *ctx, const dlsh_step *s) {
    const dlsh_value *v = dlsh_value_then(ctx, s);
    if (!v || v->type != DLSH_TENSOR) return DLSH_MAY_HAVE;
    return has_holes(v->as.tensor) ? DLSH_HAS : DLSH_HAS_NOT;
}

/* Where the first variable with holes was made that the samples were made of. */
static int line_of_holes(const dlsh_examination *e, const dlsh_samples *s) {
    const dlsh_node *made = dlsh_definition_of(s->file, s->name, INT_MAX, NULL);
    const dlsh_node *by = made ? dlsh_origin(s->file, made, is_holed, (void *)e) : NULL;
    made = dlsh_defined(s->file, by);
    return made ? made->span.line : s->line;
}

/* A figure over what has holes, by which holes are filled. */
typedef struct filler {
    const dlsh_examination *e;
    const dlsh_node *figure;
} filler;

static dlsh_property is_holed_figure(void *ctx, const dlsh_step *at) {
    filler *f = ctx;
    const dlsh_node *n = at->n;
    const int figure = dlsh_is_call_of(n, "mean|median|sum|std|amin|amax|min|max|quantile");
    const dlsh_node *of = !figure ? NULL : n->kids[0]->kind == DLSH_N_FIELD ? n->kids[0]->kids[0] : n->kids[1];
    if (figure && dlsh_origin_at(at, of, is_holed, (void *)f->e)) f->figure = n;
    if (f->figure) return DLSH_HAS_FIRST;
    return n->kind == DLSH_N_NAME || n->kind == DLSH_N_INDEX ||
                   dlsh_is_call_of(n, "expand|expand_as|unsqueeze|reshape|item|to|clone|detach")
               ? DLSH_MAY_HAVE
               : DLSH_HAS_NOT;
}

/* where(x.isnan(), filler, x), x.masked_fill(hole, filler), x[hole] = filler */
static dlsh_property fills(void *ctx, const dlsh_step *at) {
    filler *f = ctx;
    const dlsh_node *n = at->n;
    if (at->added) dlsh_origin_at(at, n, is_holed_figure, f);
    for (int i = 2; dlsh_is_call_of(n, "where|masked_fill|nan_to_num") && i < n->nkids && !f->figure; i++)
        dlsh_origin_at(at, n->kids[i]->kind == DLSH_N_KWARG ? n->kids[i]->kids[0] : n->kids[i], is_holed_figure, f);
    return f->figure ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* Was it found that holes are filled by what is NaN itself? */
static int find_holed_filler(dlsh_examination *e, const dlsh_samples *s, long n, long at) {
    filler f = {.e = e};
    const dlsh_node *used = NULL; /* last, behind all that is put in */
    DLSH_EACH_BELOW (t, dlsh_text_root(s->file))
        if (dlsh_names(t.n, s->name)) used = t.n;
    if (used) dlsh_origin(s->file, used, fills, &f);
    if (!f.figure) return 0;
    dlsh_found(e, s->file, f.figure->span.line,
               "the figure of the values that are there: nanmean, or of x[~hole] for each column",
               "what fills the holes of %s is nan itself: %s is taken over values of which some are missing\n"
               "%ld nan or infinite remain, the first in sample %ld, column %ld, both counted from 0",
               s->name, f.figure->kids[0]->text, n, at / s->width, at % s->width);
    return 1;
}

/* Was something trained, and did what is not finite reach neither a net nor a loss? */
static int is_left_out(const dlsh_examination *e) {
    const dl_journal_row *r;
    int trained = 0;
    for (long i = 0; (r = dlsh_row_next(e, DL_DID_FORWARD, &i));)
        if (r->x.nans || (r->x.n && !isfinite(r->x.mean))) return 0;
    for (long i = 0; (r = dlsh_row_next(e, DL_DID_BACKWARD, &i)); trained = 1)
        if (!isfinite(r->first) || !isfinite(r->last)) return 0;
    return trained;
}

static void find_holes(dlsh_examination *e, const dlsh_samples *s) {
    static dl_nan_event event; /* a finding borrows its texts */
    long n = 0, at = -1;
    for (long i = 0; i < s->n * s->width; i++)
        if (!isfinite(s->x[i]) && !n++) at = i;
    if (!n || !s->width || is_left_out(e) || find_holed_filler(e, s, n, at)) return;
    const int made = dlsh_nan_before_training(&event);
    const long lost = s->width > 1 ? lost_column(s) : -1;
    const int first = line_of_holes(e, s);
    const int before = made && first < event.line && first != s->line && !strcmp(event.file, s->file);
    dlsh_finding *f = made && !before ? dlsh_find_at(e, event.file, event.line, *event.remedy ? event.remedy : NULL)
                                      : dlsh_find_at(e, s->file, s->written_line && !before ? s->written_line : first,
                                                     lost < 0 ? "leave these samples out, or fill them in"
                                                              : "leave the column out, or look where it was made");
    if (!f) return;
    if (before)
        dlsh_cause(f, "%s holds values that are not finite: some are here, and %s of line %d makes more of them",
                   s->name, event.op, event.line);
    else if (made)
        dlsh_cause(f, "%s holds values that are not finite: %s made them%s%s", s->name, event.op,
                   *event.reason ? ", " : "", event.reason);
    else
        dlsh_cause(f, "%s holds values that are not finite", s->name);
    if (lost >= 0)
        dlsh_evidence(f, "column %ld has none in any of %ld samples%s", lost, s->n,
                      made && !strcmp(event.op, "div") ? ": it is constant, so that its deviation is 0" : "");
    else
        dlsh_evidence(f, "%ld nan or infinite, the first in sample %ld, column %ld, both counted from 0", n,
                      at / s->width, at % s->width);
}

int dlsh_learns_well(const dlsh_examination *e, double share) {
    const dl_journal_row *r;
    int passes = 0;
    for (long i = 0; (r = dlsh_row_next(e, DL_DID_BACKWARD, &i)); passes++)
        if (!dlsh_settled_lower(r, share)) return 0;
    return passes > 0;
}

/* Does a norm layer stand before the first weights of the pass, or follow them? by: "batch_norm", one before them that
 * brings columns to one scale; "norm", any. */
static int normalises_first(dlsh_pass p, const char *by) {
    long k = p.n - 1;
    while (k >= 0 && !dlsh_node_weight(&p.at[k], NULL) && !strstr(p.at[k].op, by)) k--;
    if (k >= 0 && strstr(p.at[k].op, by)) return 1;
    if (strcmp(by, "norm") != 0) return 0;
    const dl_journal_node *user = k < 0 ? NULL : dlsh_pass_user(p, &p.at[k]);
    if (user && dlsh_op_is(user, "add")) user = dlsh_pass_user(p, user);
    return user && strstr(user->op, "norm");
}

int dlsh_normalised_first(const dlsh_examination *e, const char *by) {
    const dl_journal_row *r;
    int passes = 0;
    for (long i = 0; (r = dlsh_row_next(e, DL_DID_BACKWARD, &i)); passes++)
        if (!normalises_first(dlsh_pass_of(r, 0), by)) return 0;
    return passes > 0;
}

const char *dlsh_used_as_is(const dlsh_samples *s, int line, char *buf, size_t size) {
    *buf = 0;
    if (s->made_line && s->made_line != line)
        snprintf(buf, size, "; the data set of line %d takes them as they are", s->made_line);
    return buf;
}

/* Were the inputs that nets or weights were given of another size, so that something scaled the data on the way? */
static int is_scaled_on_the_way(const dlsh_examination *e, double rms) {
    const double given = dlsh_size_on_the_way(e);
    int any = 0;
    if (given < rms / 8 || given > 8 * rms) return 1;
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        if (!r->grad || !r->x.n || !dlsh_is_trained(e, r)) continue;
        if (!(sqrt(r->x.mean * r->x.mean + r->x.std * r->x.std) < rms / 8)) return 0;
        any = 1;
    }
    return any;
}

/* s + 1e-8, s.clamp(min=1e-6), max(s, 1e-6): s. */
static const dlsh_node *without_floor(const dlsh_node *n) {
    if (n && n->kind == DLSH_N_BINARY && n->op == DLSH_OP_ADD && n->kids[1]->kind == DLSH_N_FLOAT) return n->kids[0];
    if (!dlsh_is_call_of(n, "clamp|clamp_min|maximum")) return n;
    return n->kids[0]->kind == DLSH_N_FIELD ? n->kids[0]->kids[0] : n->nkids > 1 ? n->kids[1] : n;
}

/* x / s, where s is nearly 0 for one column, as the deviation of one that is constant in a part of the rows. */
static int find_tiny_divisor(dlsh_examination *e, const dlsh_samples *s) {
    double low = INFINITY, sum = 0;
    long which = 0;
    const dlsh_node *made = s->file ? dlsh_definition_of(s->file, s->name, INT_MAX, NULL) : NULL;
    const dlsh_node *by =
        made && made->kind == DLSH_N_BINARY && made->op == DLSH_OP_DIV ? without_floor(made->kids[1]) : NULL;
    const dlsh_value *v = by ? dlsh_value_of(e, s->file, by) : NULL;
    dl_tensor *t = v && v->type == DLSH_TENSOR ? v->as.tensor : NULL;
    const long n = t ? dl_numel(t) : 0;
    DLSH_FREED double *d = n > 1 && n == s->width ? malloc((size_t)n * sizeof *d) : NULL;
    if (!d || dl_read_f64(t, d)) return dl_error_clear(), 0;
    for (long i = 0; i < n; i++) {
        sum += fabs(d[i]);
        if (fabs(d[i]) < low) low = fabs(d[i]), which = i;
    }
    double most = 0;
    for (long i = 0; i < s->n; i++) most = fmax(most, fabs(s->x[i * s->width + which]));
    if (!(low < 1e-4 * sum / (double)n) || !(most > 1000)) return 0;
    const dlsh_node *set = dlsh_defined(s->file, by);
    dlsh_found(e, s->file, set ? set->span.line : made->span.line,
               "leave the column out, or divide by 1 where the deviation is 0",
               "column %ld of %s is divided by nearly 0: it is constant in the rows that the deviation was taken of\n"
               "that is %.3g, of the other columns about %.3g; divided by it, values go up to %.4g",
               which, s->name, low, sum / (double)n, most);
    return 1;
}

/* stack([a, b, c], 1): an item for each column. */
static dlsh_property puts_columns_together(void *width, const dlsh_step *at) {
    const dlsh_node *list = dlsh_is_call_of(at->n, "stack|column_stack") && at->n->nkids > 1 ? at->n->kids[1] : NULL;
    if (list && list->kind == DLSH_N_LIST && list->nkids == *(long *)width) return DLSH_HAS_FIRST;
    return at->n->kind == DLSH_N_BINARY || at->n->kind == DLSH_N_CALL ? DLSH_HAS_NOT : DLSH_MAY_HAVE;
}

/* Where the only column that is not scaled was made, and what it is called; else where the samples were. */
static int line_of_scale(const dlsh_samples *s, const char **name) {
    long worst = -1, width = s->width;
    for (long c = 0; c < width && width <= DLSH_COLUMNS; c++) {
        const dlsh_spread k = dlsh_spread_of(s, c);
        if (!(hypot(k.mean, k.std) > 20)) continue;
        if (worst >= 0) return s->line;
        worst = c;
    }
    const dlsh_node *made = worst < 0 ? NULL : dlsh_definition_of(s->file, s->name, INT_MAX, NULL);
    const dlsh_node *by = made ? dlsh_origin(s->file, made, puts_columns_together, &width) : NULL;
    const dlsh_node *item = by ? by->kids[1]->kids[worst] : NULL;
    made = dlsh_defined(s->file, item);
    if (made) *name = item->text;
    return made ? made->span.line : s->line;
}

/* x / 255, x * 0.001 */
static dlsh_property makes_small(void *ctx, const dlsh_step *at) {
    const dlsh_node *n = at->n;
    const int divides = n->kind == DLSH_N_BINARY && n->op == DLSH_OP_DIV;
    const int scales = divides || (n->kind == DLSH_N_BINARY && n->op == DLSH_OP_MUL);
    const double by = scales ? dlsh_number_of(ctx, at->file, n->kids[1]) : NAN;
    return (divides && by > 50) || (!divides && fabs(by) < 0.02) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* Is the first column one of ones, for a bias? */
static int has_ones(const dlsh_samples *s) {
    long n = 0;
    while (n < s->n && s->x[n * s->width] == 1) n++;
    return n == s->n && n > 0;
}

/* The loss of who knows the targets' shares alone, or their mean, where these are compared by differences. */
static double loss_of_shares(const dlsh_samples *s, dlsh_pass p) {
    double sum = 0, squares = 0, entropy = 0;
    for (long i = 0; i < s->n; i++) {
        long same = 0;
        for (long k = 0; k < s->n; k++) same += s->y[k] == s->y[i];
        sum += s->y[i], squares += s->y[i] * s->y[i], entropy -= log((double)same / (double)s->n);
    }
    const double n = (double)s->n, mean = sum / n;
    const int differs = dlsh_op_is(dlsh_compares(p), "sub|square_difference|huber_difference");
    return differs ? squares / n - mean * mean : entropy / n;
}

/* Does the last loss say that most of what the targets hold was learned? */
static int is_mostly_learned(const dlsh_examination *e, const dlsh_samples *s) {
    int passes = 0;
    if (!s->y || s->n < 2) return 0;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        if (!dlsh_settled_lower(r, 0.5) || !(r->last < 0.3 * loss_of_shares(s, dlsh_pass_of(r, 1)))) return 0;
        passes++;
    }
    return passes > 0;
}

static void find_scale(dlsh_examination *e, const dlsh_samples *s) {
    const char *name = NULL;
    double low = INFINITY, high = -INFINITY, sum = 0, squares = 0;
    long n = 0;
    if (!s->real) return;
    const int ones = s->width > 1 && has_ones(s);
    for (long i = 0; i < s->n * s->width; i++) {
        double v = s->x[i];
        if (!isfinite(v) || (ones && i % s->width == 0)) continue;
        low = fmin(low, v), high = fmax(high, v), sum += v, squares += v * v, n++;
    }
    double mean = n ? sum / (double)n : 0, rms = n ? sqrt(squares / (double)n) : 0;
    const int normalised = n && rms > 20 && dlsh_normalised_first(e, "norm");
    if (n && rms > 20 && is_scaled_on_the_way(e, rms)) return;
    if (normalised && dlsh_learns_well(e, 0.5))
        return dlsh_passed(e, "%s goes from %.3g to %.3g; a norm layer scales it", s->name, low, high);
    if (n && rms > 20 && !e->bad) {
        const int line = line_of_scale(s, &name);
        dlsh_finding *f =
            dlsh_found(e, s->file, line,
                       high <= 255.5 && low >= 0 && high > 100 ? "divide by 255, or normalise: (x - mean) / std"
                                                               : "normalise: (x - mean(x)) / std(x)",
                       "%s is not scaled%s%s\n"
                       "its values go from %.4g to %.4g, with mean %.4g; nets begin with weights for about -1 to 1",
                       s->name, name ? ": its column " : "", name ? name : "", low, high, mean);
        if (normalised || is_mostly_learned(e, s)) dlsh_only_note(e, f);
    } else if (n && rms > 0 && rms < 0.006 && !e->bad) {
        const dlsh_node *x = dlsh_part_of_data(e, s, DLSH_ROLE_INPUT);
        const dlsh_node *by = x ? dlsh_origin(s->file, x, makes_small, (void *)e) : NULL;
        dlsh_found(e, s->file, by ? by->span.line : s->line, "scale it once: (x - mean(x)) / std(x)",
                   "%s is scaled to almost nothing: its values are too small\n"
                   "its values go from %.4g to %.4g; nets begin with weights for about -1 to 1",
                   s->name, low, high);
    } else if (n && !e->bad && s->apart)
        dlsh_unchecked(
            e, "%s has other rows than the training was given: those of a test, or numbers that it got later", s->name);
    else if (n && !e->bad)
        dlsh_passed(e, "%s, %ld%s samples: %.3g to %.3g, mean %.3g%s; %s%s", s->name, s->n,
                    s->n < s->total ? " of its" : "", low, high, mean, n < s->n * s->width ? ", some not finite" : "",
                    !s->y                              ? "its targets were not seen"
                    : strcmp(s->target, "the targets") ? "looked at with targets "
                                                       : "looked at with ",
                    s->y ? s->target : "");
}

/* The largest size of what losses compared results with; NaN: not known. */
static double size_of_targets(const dlsh_examination *e) {
    double most = NAN;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        const dlsh_pass p = dlsh_pass_of(r, 0);
        const dl_journal_node *n = p.n ? dlsh_compares(p) : NULL;
        const dl_journal_value *y = n ? &n->in[n->in[1].constant] : NULL;
        if (y && y->n) most = fmax(most, hypot(y->mean, y->std));
    }
    return most;
}

/* Targets that are far from what a net gives at first. */
static void find_target_scale(dlsh_examination *e, const dlsh_samples *s) {
    double sum = 0, squares = 0;
    long n = 0, large = 0;
    for (long i = 0; s->y && !s->classes && i < s->n; i++)
        if (isfinite(s->y[i])) sum += s->y[i], squares += s->y[i] * s->y[i], n++, large += fabs(s->y[i]) > 30;
    double mean = n ? sum / (double)n : 0, rms = n ? sqrt(squares / (double)n) : 0;
    if (!(rms > 100) || size_of_targets(e) < rms / 8) return; /* scaled on the way to the loss */
    if (4 * large < n) return;                                /* a few far ones, which no scale brings near */
    dlsh_finding *f =
        dlsh_find_at(e, s->target_file, s->target_line, "train on (y - mean(y)) / std(y), and turn the results back");
    if (dlsh_learns_well(e, 0.95)) dlsh_only_note(e, f);
    dlsh_cause(f, "%s %s not scaled: errors and gradients are as large as they are", s->target,
               strncmp(s->target, "the ", 4) != 0 ? "is" : "are");
    char used[64];
    dlsh_evidence(f, "they have mean %.4g and deviation %.4g; a net begins with results of about -1 to 1%s", mean,
                  sqrt(fmax(rms * rms - mean * mean, 0)), dlsh_used_as_is(s, s->target_line, used, sizeof used));
}

/* ---------------------------------------------------------------- classes */

/* Is each class one run of samples? How many classes. */
static long runs_of_classes(const dlsh_samples *s) {
    long runs = 1;
    for (long i = 1; i < s->n; i++) {
        if (s->y[i] == s->y[i - 1]) continue;
        if (++runs > s->n / 4) return 0;
        for (long k = 0; k < i; k++)
            if (s->y[k] == s->y[i]) return 0;
    }
    return runs;
}

/* Did the targets of a pass that was looked at change to and fro between classes? Then batches are mixed. */
static int has_mixed_batch(const dlsh_examination *e) {
    const dl_journal_node *n;
    for (dlsh_node_walk w = {0}; (n = dlsh_node_next(e, "cross_entropy|nll_picked|logit_loss", &w));) {
        const dl_journal_value *y = &n->in[1];
        int changes = 0, distinct = 0;
        for (long j = 0; y->nfew >= 8 && j < y->nfew; j++) {
            int known = 0;
            for (long l = 0; l < j; l++) known |= y->few[l] == y->few[j];
            distinct += !known, changes += j && y->few[j] != y->few[j - 1];
        }
        if (changes > distinct) return 1;
    }
    return 0;
}

/* Are rows counted up by it? */
static dlsh_property counts_up(void *ctx, const dlsh_step *s) {
    const char *by = s->n->kind == DLSH_N_CALL ? s->n->kids[0]->text : NULL;
    (void)ctx;
    if (dlsh_is_call_of(s->n, "arange|range|linspace")) return DLSH_HAS_FIRST;
    return by && strstr(by, "rand") ? DLSH_HAS_NOT : DLSH_MAY_HAVE;
}

/* The last pick of rows: the slice, or where its order was made; the loader that deals them. */
static dlsh_property picks(void *ctx, const dlsh_step *s) {
    const char *name = s->n->kind == DLSH_N_CALL ? s->n->kids[0]->text : NULL;
    const dlsh_node **by = ctx, *rows = s->n->kind == DLSH_N_INDEX && s->n->nkids > 1 ? s->n->kids[1] : NULL;
    if (name && !strcmp(name, "dataset")) return DLSH_HAS_NOT;
    if (name && !strcmp(name, "loader")) return *by = s->n, DLSH_HAS_FIRST;
    if (!rows || (rows->kind == DLSH_N_SLICE && !rows->kids[0] && !rows->kids[1])) return DLSH_MAY_HAVE;
    *by = rows->kind == DLSH_N_SLICE ? s->n : dlsh_origin(s->file, rows, counts_up, NULL);
    return *by ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

int dlsh_line_of_order(const char *file, const dlsh_node *of, int otherwise) {
    const dlsh_node *by = NULL;
    if (of && of->kind == DLSH_N_ASSIGN) of = of->kids[of->nkids - 1];
    if (of) dlsh_origin(file, of, picks, &by);
    return by ? by->span.line : otherwise;
}

static void find_order(dlsh_examination *e, const dlsh_samples *s) {
    long classes = s->y && s->n >= 16 && s->in_order ? runs_of_classes(s) : 0;
    if (classes < 2 || has_mixed_batch(e) || dlsh_same_batch(e)) return; /* it is given all, or one batch */
    const int line = dlsh_line_of_order(s->user_file, dlsh_statement_at(s->user_file, s->user_line), s->user_line);
    dlsh_found(e, s->user_file, line, "shuffle: shuffle=true, or p = randperm(n) for both x and y",
               "samples come in the order of their classes: a batch holds one class alone\n"
               "%s: %ld classes one after another, and batches are taken in that order, at line %d",
               s->target, classes, s->user_line);
}

/* one = ones(64, 1): the judgements of a game of two nets, or a residual that is to be 0. */
static int is_made_constant(const dlsh_samples *s) {
    const dlsh_node *made =
        s->target_written_line ? NULL : dlsh_definition_of(s->target_file, s->target, INT_MAX, NULL);
    return dlsh_is_call_of(made, "ones|zeros|full|ones_like|zeros_like|full_like");
}

static void find_one_class(dlsh_examination *e, const dlsh_samples *s) {
    if (!s->y || s->n < 8) return;
    for (long i = 1; i < s->n; i++)
        if (s->y[i] != s->y[0]) return;
    if (is_made_constant(s) || dlsh_was_found(e, e->check, "one class alone")) return;
    if (s->dealt_line) {
        dlsh_found(e, s->file, s->dealt_line, "shuffle=true: samples come in the order of classes",
                   "samples come in the order of their classes: a batch holds one class alone\n"
                   "the loader does not shuffle, and in its last batch all of %s are %.4g",
                   s->target, s->y[0]);
        return;
    }
    dlsh_found(e, s->target_file, s->target_line, "look at how the targets were made",
               "all targets are the same\n"
               "%s is %.4g for all %ld samples",
               s->target, s->y[0], s->n);
}

/* Of a variable that was made of others, as by a cast that cuts fractions off. */
void dlsh_find_constant_target(dlsh_examination *e, const char *file, const dlsh_traced *t) {
    dlsh_samples s = {.target_file = file, .target_line = t->name_line};
    if (t->role != DLSH_ROLE_TARGET || !t->tensor || t->tensor == t->whole || dl_numel(t->tensor) < 16) return;
    DLSH_FREED double *y = malloc((size_t)dl_numel(t->tensor) * sizeof *y);
    if (!y || dl_read_f64(t->tensor, y)) return dl_error_clear(), (void)0;
    s.y = y, s.n = dl_numel(t->tensor);
    snprintf(s.target, sizeof s.target, "%s", t->name);
    find_one_class(e, &s);
}

/* Has a loss weights of its classes? */
static int has_weights_of_classes(const dlsh_examination *e) {
    const dl_journal_node *n;
    for (dlsh_node_walk w = {0}; (n = dlsh_node_next(e, "cross_entropy|nll_picked|logit_loss", &w));)
        if (n->nin > 2 && n->in[2].there) return 1;
    return 0;
}

/* One class that has nearly all samples: always saying it is right for most of them. */
static void find_rare_classes(dlsh_examination *e, const dlsh_samples *s) {
    long most = 0;
    if (!s->y || !s->classes || s->n < 100 || has_weights_of_classes(e)) return;
    for (long i = 0, n; i < s->n && i < 16; i++) {
        n = 0;
        for (long k = 0; k < s->n; k++) n += s->y[k] == s->y[i];
        most = n > most ? n : most;
    }
    if (most == s->n || 100 * most < 93 * s->n || dlsh_was_found(e, e->check, "the wrong way round")) return;
    dlsh_finding *f = dlsh_found(e, s->target_file, s->target_line,
                                 "weights of classes, or more samples of the rare ones; and look at more than accuracy",
                                 "one class has %.3g %% of the samples: always saying it is right for most of them\n"
                                 "%ld of %ld of %s",
                                 100 * (double)most / (double)s->n, most, s->n, s->target);
    dlsh_only_note(e, f);
}

/* ---------------------------------------------------------------- splits */

static long distinct(const unsigned long *h, long n) {
    long k = n > 0;
    for (long i = 1; i < n; i++) k += h[i] != h[i - 1];
    return k;
}

/* Rows of b that are among those of a; *pairs: of one row each that are equal. Both are sorted. */
static long found_in(const unsigned long *a, long n, const unsigned long *b, long m, double *pairs) {
    long found = 0;
    *pairs = 0;
    for (long i = 0, k = 0, same; k < m; k += same) {
        long equal = 0;
        for (same = 1; k + same < m && b[k + same] == b[k];) same++;
        while (i < n && a[i] < b[k]) i++;
        while (i + equal < n && a[i + equal] == b[k]) equal++;
        found += equal ? same : 0, *pairs += (double)equal * (double)same;
    }
    return found;
}

/* Pairs of equal rows that drawing as many rows of each anew would give by chance, as those within one part tell. */
static double pairs_by_chance(const unsigned long *a, long n, const unsigned long *b, long m) {
    double pa, pb;
    found_in(a, n, a, n, &pa), found_in(b, m, b, m, &pb);
    const double of_a = n > 1 ? (pa - (double)n) / ((double)n * (double)(n - 1)) : 0;
    const double of_b = m > 1 ? (pb - (double)m) / ((double)m * (double)(m - 1)) : 0;
    return fmax(of_a, of_b) * (double)n * (double)m;
}

int dlsh_by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Is the first column of numbers that hardly occur twice by chance? Whole numbers, also scaled, do. */
static int has_many_values(const dlsh_samples *s) {
    const long n = s->real ? s->n : 0;
    long values = n > 0;
    DLSH_FREED double *v = malloc((size_t)(n + 1) * sizeof *v);
    for (long i = 0; v && i < n; i++) v[i] = s->x[i * s->width];
    if (v) qsort(v, (size_t)n, sizeof *v, dlsh_by_size);
    for (long i = 1; v && i < n; i++) values += v[i] > v[i - 1];
    return n > 15 && values > n / 8;
}

void dlsh_compare_splits(dlsh_examination *e, const dlsh_samples *train, const dlsh_samples *test) {
    if (train->width != test->width || train->width < 2 || !train->n || !test->n) return;
    DLSH_FREED unsigned long *h = dlsh_sorted_rows(train), *g = dlsh_sorted_rows(test);
    double pairs = 0, same;
    dlsh_compare_columns(e, train, test);
    long both = h && g ? found_in(h, train->n, g, test->n, &pairs) : 0;
    long back = h && g ? found_in(g, test->n, h, train->n, &same) : 0;
    /* rows of few values repeat by themselves */
    int repeats = !h || (distinct(h, train->n) < train->n - train->n / 10 && !has_many_values(train));
    if (h && g && !has_many_values(train)) repeats |= pairs < 3 * pairs_by_chance(h, train->n, g, test->n);
    const long few = test->real ? test->n / 50 : test->n / 10; /* rows of words may be equal by chance */
    /* of a table that has the training rows, too, as many as were looked at of it */
    const int within = (double)back * (double)test->total >= 0.8 * (double)train->n * (double)test->n;
    const int of_it = back == train->n || (test->total > test->n && within);
    if (dlsh_was_found(e, e->check, "scaled by its own")) return; /* few different rows are left */
    if (dlsh_was_found(e, e->check, "that are evaluated are in the training data")) return;
    if (repeats || both < 2 || both < few || of_it || test->left_out || !*train->name) {
        if (h && g && both < 2 && !repeats) dlsh_find_near(e, train, test);
        return;
    }
    int copied;
    const int line = dlsh_line_of_shared(e, train, test, &copied);
    dlsh_found(e, test->file, line,
               copied ? "split first, each sample in one part alone; then augment or repeat"
                      : "each sample in one part alone: p = randperm(n); p[:800] for training, p[800:] apart",
               "%ld of %ld samples of %s are in the training data (%s), too\n"
               "their rows are equal: the evaluation measures what was learned by heart",
               both, test->n, test->name, train->name);
}

void dlsh_judge_samples(dlsh_examination *e, const dlsh_samples *s) {
    find_holes(e, s);
    if (!find_tiny_divisor(e, s) && !dlsh_find_codes(e, s)) dlsh_judge_columns(e, s);
    dlsh_find_target_column(e, s);
    find_scale(e, s);
    find_target_scale(e, s);
    find_one_class(e, s);
    dlsh_find_turned_weights(e, s);
    find_rare_classes(e, s);
    find_order(e, s);
    dlsh_find_row_order(e, s);
}
