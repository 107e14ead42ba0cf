/* Inputs that lost their values on the way to the net: divided by //, cast to whole numbers, rounded; scaled there to
 * almost nothing, or to far too much. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"

enum { FEW = 8, LOOKED = 4096 };

static const char rounding[] = "long|int|short|u8|uint8|round|floor|ceil|trunc|floor_divide|byte";
/* What makes whole numbers on purpose, or other numbers. */
static const char making[] = "one_hot|eye|zeros|ones|arange|range|randint|randperm|bucketize|argsort|argmax|embedding";

/* x.to(i64), x.to(u8) */
static int casts_to_whole(const dlsh_node *call) {
    const dlsh_node *to = call->nkids > 1 ? call->kids[1] : NULL;
    if (to && to->kind == DLSH_N_KWARG) to = to->kids[0];
    return dlsh_is_method(call, "to") && to && dlsh_is_word("i64|i32|i16|i8|u8|int64|int32|uint8|long|int", to->text);
}

/* a > b, (a > b) & (c > d): true or false, of which a cast loses nothing */
static int is_condition(const dlsh_node *n) {
    if (dlsh_is_comparison(n)) return 1;
    const int joined = n->kind == DLSH_N_BINARY && n->nkids == 2;
    return joined && is_condition(n->kids[0]) && is_condition(n->kids[1]);
}

/* Does it round, the first op that does? A cast of what was rounded before loses nothing. */
static dlsh_property rounds(void *ctx, const dlsh_step *s) {
    const dlsh_node *n = s->n, *by = n->kind == DLSH_N_CALL ? n->kids[0] : NULL;
    const dlsh_value *v = by ? dlsh_value_of(ctx, s->file, by) : NULL;
    if (is_condition(by && by->kind == DLSH_N_FIELD ? by->kids[0] : n)) return DLSH_HAS_NOT;
    if (n->kind == DLSH_N_BINARY && n->op == DLSH_OP_FLOORDIV) return DLSH_HAS_FIRST;
    if (by && (dlsh_is_word(making, by->text) || (v && dlsh_unwrap(*v, &dlsh_net_class)))) return DLSH_HAS_NOT;
    return by && (casts_to_whole(n) || dlsh_is_word(rounding, by->text)) ? DLSH_HAS : DLSH_MAY_HAVE;
}

const dlsh_node *dlsh_rounded(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    return dlsh_origin(file, n, rounds, (void *)e);
}

/* ---------------------------------------------------------------- what is left */

/* How many different values some of the elements have. */
static long distinct(const dl_tensor *t) {
    const long n = dl_numel(t), each = n / LOOKED + 1;
    DLSH_FREED double *v = malloc(((size_t)n + 1) * sizeof *v);
    long k = 0, different = 0;
    if (!v || dl_read_f64(t, v)) return dl_error_clear(), n;
    for (long i = 0; i < n; i += each) v[k++] = v[i];
    qsort(v, (size_t)k, sizeof *v, dlsh_by_size);
    for (long i = 0; i < k; i++) different += !i || v[i] != v[i - 1];
    return different;
}

/* The first column with one value in all samples; one of ones may be a bias. -1: there is none. */
static long constant_column(const dl_tensor *x) {
    const long n = dl_shape(x)[0], width = dl_ndim(x) == 2 ? dl_shape(x)[1] : 0;
    DLSH_FREED double *v = width > 1 && n > 7 ? malloc((size_t)(n * width) * sizeof *v) : NULL;
    if (!v || dl_read_f64(x, v)) return dl_error_clear(), -1;
    long found = -1, ones = 0;
    for (long c = 0; c < width && found < 0; c++) {
        long i = 1;
        while (i < n && v[i * width + c] == v[c]) i++;
        if (i == n && (v[c] != 1 || ones++)) found = c;
    }
    return found;
}

enum { NOTHING, ALL, COLUMN };

/* What lost its values: where nearly all of them are the same, or few of them different. */
static int what_is_lost(const dlsh_examination *e, const dl_journal_row *r, char *how, size_t size) {
    const dl_tensor *x = e->probed && strcmp(e->probe.from, "random numbers") != 0 ? e->probe.in[0] : NULL;
    const dl_journal_value *v = &r->x;
    if (v->n && v->low == v->high) return snprintf(how, size, "all values of a batch are %.4g", v->low), ALL;
    if (v->n && v->zeros > 9 * v->n / 10)
        return snprintf(how, size, "%.0f %% of the values of a batch are 0", 100 * (double)v->zeros / (double)v->n),
               ALL;
    if (!x || r->what != e->net || !dl_dtype_is_float(dl_dtype_of(x))) return NOTHING;
    const long column = dlsh_learns_well(e, 0.9) ? -1 : constant_column(x);
    if (column >= 0)
        return snprintf(how, size, "column %ld, counted from 0, has one value in all samples of a batch", column),
               COLUMN;
    if (dl_numel(x) < 64 || dlsh_learns_well(e, 0.7)) return NOTHING;
    const long n = distinct(x);
    snprintf(how, size, "%ld different values are left among %ld", n, dl_numel(x));
    return n <= FEW ? ALL : NOTHING;
}

/* What a pass is given: the data of a trainer or loader, the argument of the net. */
static const dlsh_node *given(const dlsh_examination *e, const dl_journal_row *r) {
    dlsh_dealt l;
    if (e->trainer) {
        const dlsh_node *made = dlsh_trainer_option(e, r->file, 1, "data");
        return made && made->kind == DLSH_N_CALL ? dlsh_argument_of(made, 0, "x") : NULL;
    }
    const dlsh_node *call = dlsh_call_of_net(e, r->file, dlsh_statement_at(r->file, r->line));
    if (call && dlsh_rounded(e, r->file, call->kids[1])) return call->kids[1];
    dlsh_loader_around(e, r->file, r->line, &l);
    return l.made && l.made->kind == DLSH_N_CALL ? dlsh_argument_of(l.made, 0, "x") : NULL;
}

/* Another line that divides by // on the way of the same values; 0: there is none. */
static int another_division(const char *file, const dlsh_node *values, const dlsh_node *first) {
    dlsh_course c;
    dlsh_course_of(file, values, &c);
    for (int i = 0; i < c.n; i++)
        if (c.at[i].n->kind == DLSH_N_BINARY && c.at[i].n->op == DLSH_OP_FLOORDIV &&
            c.at[i].n->span.line != first->span.line)
            return c.at[i].n->span.line;
    return 0;
}

void dlsh_find_rounded(dlsh_examination *e) {
    char how[120];
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        const dlsh_node *from = r->grad && r->count > 1 ? given(e, r) : NULL;
        const dlsh_node *by = from ? dlsh_rounded(e, r->file, from) : NULL;
        const int lost = by ? what_is_lost(e, r, how, sizeof how) : NOTHING;
        if (!lost) continue;
        const int divides = by->kind == DLSH_N_BINARY, more = divides ? another_division(r->file, from, by) : 0;
        char again[40] = "";
        if (more) snprintf(again, sizeof again, "; line %d divides so, too", more);
        dlsh_found(e, r->file, by->span.line,
                   divides ? "divide by /, which keeps fractions"
                           : "keep floating numbers: leave the rounding out, or scale before it",
                   "%s leaves almost nothing of %s: fractions are cut off\n"
                   "%s, which the net is given at line %d%s",
                   divides ? "//, the division of whole numbers," : "a cast or rounding to whole numbers",
                   lost == ALL ? "the inputs" : "a column of the inputs", how, r->line, again);
    }
}

/* ---------------------------------------------------------------- scaled on the way */

/* The first factor, or divisor, that the values of an expression go through. */
static dlsh_property scales(void *ctx, const dlsh_step *s) {
    const dlsh_node *n = s->n;
    const dlsh_value *v = n->kind == DLSH_N_CALL ? dlsh_value_of(ctx, s->file, n->kids[0]) : NULL;
    if (v && dlsh_unwrap(*v, &dlsh_net_class)) return DLSH_HAS_NOT;
    const int binary = n->kind == DLSH_N_BINARY && (n->op == DLSH_OP_MUL || n->op == DLSH_OP_DIV);
    return binary || dlsh_is_call_of(n, "mul|div|mul_|div_") ? DLSH_HAS : DLSH_MAY_HAVE;
}

/* Data that meet a weight; NULL: the node has none. */
static const dl_journal_value *data_of(const dl_journal_node *n) {
    const dl_journal_value *x = dlsh_node_weight(n, NULL) ? &n->in[0] : NULL;
    return x && x->there && x->constant && x->n >= 16 && !x->nans && x->ndim > 1 ? x : NULL;
}

double dlsh_size_on_the_way(const dlsh_examination *e) {
    double most = NAN;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        const dlsh_pass p = dlsh_pass_of(r, 1);
        const dl_journal_value *x = NULL;
        for (long k = p.n - 1; k >= 0; k--)
            if ((x = data_of(&p.at[k]))) most = fmax(most, hypot(x->mean, x->std));
    }
    return most;
}

/* What the first weights of each pass are given, where the tables that it is made of are of a usual size. */
void dlsh_find_scaled_on_the_way(dlsh_examination *e) {
    DLSH_EACH_ROW_WHILE (!e->bad, r, e, DL_DID_BACKWARD) {
        const dlsh_pass p = dlsh_pass_of(r, 1);
        for (long k = p.n - 1; k >= 0 && !dlsh_settled_lower(r, 0.5); k--) {
            const dl_journal_node *n = &p.at[k];
            const dl_journal_value *x = data_of(n);
            const double size = x ? hypot(x->mean, x->std) : 1;
            if (!(size < 0.006 || size > 20) || !(size > 0)) continue;
            const dlsh_node *call = dlsh_call_of_net_at(e, n->file, n->line);
            const dlsh_node *from = call ? call->kids[1] : dlsh_statement_at(n->file, n->line);
            const dlsh_node *by = from ? dlsh_origin(n->file, from, scales, e) : NULL;
            if (!by || !dlsh_found(e, n->file, by->span.line, "scale once: so that values are about -1 to 1",
                                   "the inputs are scaled to %s on their way to the net\n"
                                   "at line %d the net is given values from %.4g to %.4g; nets begin with weights for "
                                   "about -1 to 1, and the loss went from %.4g to %.4g",
                                   size < 1 ? "almost nothing" : "far too large values", n->line, x->low, x->high,
                                   r->first, r->last))
                continue;
            return;
        }
    }
}

/* ---------------------------------------------------------------- zeros */

static int is_one_number(const dl_tensor *t) {
    const long n = dl_numel(t);
    DLSH_FREED double *v = n > 1 && n < 1 << 20 && !dl_requires_grad(t) ? malloc((size_t)n * sizeof *v) : NULL;
    if (!v || dl_read_f64(t, v)) return dl_error_clear(), 0;
    for (long i = 1; i < n; i++)
        if (v[i] != v[0]) return 0;
    return 1;
}

static dlsh_property gives_zeros(void *ctx, const dlsh_step *s) {
    const dlsh_node *n = s->n;
    const dlsh_value *held = n->kind == DLSH_N_NAME ? dlsh_value_then(ctx, s) : NULL;
    if (held && held->type == DLSH_TENSOR && is_one_number(held->as.tensor)) return DLSH_HAS;
    const dlsh_value *v = n->kind == DLSH_N_CALL ? dlsh_value_of(ctx, s->file, n->kids[0]) : NULL;
    if ((v && dlsh_unwrap(*v, &dlsh_net_class)) || dlsh_is_call_of(n, "param|Parameter")) return DLSH_HAS_NOT;
    return dlsh_is_call_of(n, "zeros|zeros_like|empty|empty_like|new_zeros") ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* What a statement multiplies a weight with, x @ w, or gives a net; NULL: neither is there. */
static const dlsh_node *input_in(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    DLSH_EACH_BELOW (t, n) {
        const dlsh_value *v = t.n->kind == DLSH_N_CALL && t.n->nkids > 1 ? dlsh_value_of(e, file, t.n->kids[0]) : NULL;
        if (v && dlsh_unwrap(*v, &dlsh_net_class)) return t.n->kids[1];
        if (t.n->kind == DLSH_N_BINARY && t.n->op == DLSH_OP_MATMUL) return t.n->kids[0];
    }
    return NULL;
}

/* col = out[:, j]; col = v: the second statement, where the first name of a function's zeros has a view. */
static const dlsh_node *rebound_view(const dlsh_node *root, const dlsh_node *n, const dlsh_node *zeros) {
    DLSH_EACH_BELOW (t, n)
        if (t.n->kind == DLSH_N_ASSIGN && !t.n->op && t.n->nkids == 2 && t.n->kids[0]->kind == DLSH_N_NAME) {
            const dlsh_definition view = dlsh_define(root, t.n->kids[0]->text, t.n->span.start);
            const dlsh_node *of = view.value && view.value->kind == DLSH_N_INDEX ? view.value->kids[0] : NULL;
            const dlsh_definition made =
                of && of->kind == DLSH_N_NAME ? dlsh_define(root, of->text, of->span.start) : (dlsh_definition){0};
            if (made.value == zeros && !dlsh_mentions(t.n->kids[1], t.n->kids[0]->text)) return t.n;
        }
    return NULL;
}

const dlsh_node *dlsh_zeros_given(const dlsh_examination *e, const char *file, int line, const dlsh_node **rebound) {
    const dlsh_node *root = dlsh_text_root(file), *at = dlsh_statement_at(file, line);
    const dlsh_node *input = at ? input_in(e, file, at) : NULL;
    const dlsh_node *zeros = input ? dlsh_origin(file, input, gives_zeros, (void *)e) : NULL;
    if (zeros && zeros->kind == DLSH_N_NAME) zeros = dlsh_defined(file, zeros);
    *rebound = zeros ? rebound_view(root, root, zeros) : NULL;
    return zeros;
}
