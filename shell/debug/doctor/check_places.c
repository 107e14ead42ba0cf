/* Sequences: places that see later ones, their targets, targets that were not shifted, padding that counts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/checks.h"
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"
#include "debug/doctor/trial.h"
#include "dlcore/arithmetic.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"

enum { PLACES = 1 << 16 };

/* ---------------------------------------------------------------- inputs and targets */

typedef enum relation { UNRELATED, SHIFTED, EQUAL } relation;

/* Whole numbers [n, places], more than two places. */
static int is_sequences(const dl_tensor *t) {
    return t && dl_ndim(t) == 2 && dl_shape(t)[1] > 2 && dl_shape(t)[0] > 1 && !dl_dtype_is_float(dl_dtype_of(t)) &&
           dl_dtype_of(t) != DL_BOOL && dl_numel(t) <= PLACES;
}

/* How targets y relate to x, of whose rows they have at least as many. */
static relation relation_of(const dl_tensor *x, const dl_tensor *y) {
    if (!is_sequences(x) || !is_sequences(y) || dl_shape(y)[1] != dl_shape(x)[1] || dl_shape(y)[0] < dl_shape(x)[0])
        return UNRELATED;
    const long n = dl_shape(x)[0], t = dl_shape(x)[1];
    DLSH_FREED double *a = malloc((size_t)dl_numel(x) * sizeof *a), *b = malloc((size_t)dl_numel(y) * sizeof *b);
    if (!a || !b || dl_read_f64(x, a) || dl_read_f64(y, b)) return dl_error_clear(), UNRELATED;
    int equal = 1, shifted = 1, constant = 1;
    for (long i = 0; i < n * t; i++) {
        equal &= a[i] == b[i], constant &= a[i] == a[0];
        shifted &= i % t == t - 1 || b[i] == a[i + 1];
    }
    return constant ? UNRELATED : equal ? EQUAL : shifted ? SHIFTED : UNRELATED;
}

/* ---------------------------------------------------------------- places that see later ones */

/* Another element at the last place. */
static dl_tensor *other_end(DLSH_UNUSED const dlsh_examination *e, dl_tensor *x) {
    DLSH_SCOPED_GRAD_MODE(0);
    const long t = dl_shape(x)[1];
    DLSH_OWNED dl_tensor *before = dl_narrow(x, 1, 0, t - 1), *last = dl_narrow(x, 1, t - 1, 1);
    DLSH_OWNED dl_tensor *high = dl_amax(x, NULL, 0, 0), *moved = high ? dl_sub(high, last) : NULL;
    return before && moved ? dl_cat((dl_tensor *[]){before, moved}, 2, 1) : NULL;
}

/* Do the places before the last one differ? within: of a result on the way, which may have a number for each pair. */
static int differs_before(const dl_tensor *a, const dl_tensor *b, const dl_tensor *x, int within) {
    const int places = a && b && dl_ndim(a) > 2 && dl_shape(a)[0] == dl_shape(x)[0] &&
                       dl_shape(a)[1] == dl_shape(x)[1] && !(within && dl_shape(a)[2] == dl_shape(a)[1]);
    if (!places || dl_ndim(b) != dl_ndim(a) || dl_numel(b) != dl_numel(a)) return 0;
    const long t = dl_shape(x)[1];
    DLSH_OWNED dl_tensor *p = dl_narrow((dl_tensor *)a, 1, 0, t - 1), *q = dl_narrow((dl_tensor *)b, 1, 0, t - 1);
    return dlsh_share_alike(p, q) < 1;
}

/* The last call before number `end` of one of these ops; -1: there is none. */
static long last_of(const dlsh_trial *a, long end, const char *ops) {
    for (long i = end; i >= 0; i--)
        if (dlsh_is_word(ops, a->calls[i].op)) return i;
    return -1;
}

/* A mask of later places: triu(...), or places that are compared with each other. */
static dlsh_property makes_mask(void *ctx, const dlsh_step *s) {
    const dlsh_node *n = s->n;
    (void)ctx;
    if (dlsh_is_call_of(n, "tril|triu|tril_|triu_")) return DLSH_HAS_FIRST;
    const int compares = dlsh_is_comparison(n);
    return compares ? DLSH_HAS : dlsh_is_call_of(n, "argmax|topk|sort") ? DLSH_HAS_NOT : DLSH_MAY_HAVE;
}

/* x.masked_fill(mask, v), where(mask, x, v), attn(x, x, x, attn_mask=mask): the mask. */
static const dlsh_node *mask_in(const dlsh_node *n) {
    const int after =
        n->kind == DLSH_N_CALL && dlsh_names(n->kids[0], "masked_fill") ? 2 : 1; /* masked_fill(x, mask, v) */
    const dlsh_node *found =
        dlsh_is_call_of(n, "masked_fill|masked_fill_|where") && n->nkids > after ? n->kids[after] : NULL;
    if (n->kind == DLSH_N_KWARG && dlsh_has_word("attn_mask|mask|src_mask|tgt_mask", n->text, strlen(n->text)))
        return n->kids[0];
    for (int i = 0; i < n->nkids && !found; i++) found = n->kids[i] ? mask_in(n->kids[i]) : NULL;
    return found;
}

/* Where the mask was made that a call hides places by; the line of the call where that is not known. */
static int line_of_mask(const dl_recorded *c) {
    const char *file = *c->layer ? c->file : dlsh_call_file(c);
    const dlsh_node *n = dlsh_statement_at(file, *c->layer ? c->line : dlsh_call_line(c)),
                    *mask = n ? mask_in(n) : NULL;
    const dlsh_node *by = mask ? dlsh_origin(file, mask, makes_mask, NULL) : NULL;
    return by ? by->span.line : dlsh_call_line(c);
}

static void judge_places(dlsh_examination *e, const dlsh_trial *a, const dlsh_trial *b, dl_tensor *x, dl_tensor *y,
                         dl_tensor *z) {
    static const char *const causes[] = {"tril|triu", "where|masked_fill", "softmax|attention|recurrent"};
    long first = 0, by = -1;
    if (!differs_before(y, z, x, 0)) {
        dlsh_passed(e, "the result for a place depends on what comes before it alone");
        return;
    }
    while (first < a->n && first < b->n && !differs_before(a->result[first], b->result[first], x, 1)) first++;
    if (first == a->n || first == b->n) first = (a->n < b->n ? a->n : b->n) - 1; /* as many classes as places */
    for (size_t i = 0; i < DLSH_COUNT(causes) && by < 0; i++) by = last_of(a, first, causes[i]);
    const dl_recorded *c = &a->calls[by < 0 ? first : by];
    const int own = dlsh_call_on_line(c->file, c->line, "scaled_dot_product_attention") != NULL; /* no layer's call */
    const int name = own ? 0 : (int)strcspn(c->layer, "."), masked = line_of_mask(c) != dlsh_call_line(c);
    dlsh_found(
        e, dlsh_call_file(c), line_of_mask(c),
        masked ? "a mask that is true where none may look: triu(ones(t, t), diagonal=1) > 0"
        : name ? dlsh_kept(e, "is_causal=true in the call of %.*s, or a mask that hides later places", name, c->layer)
               : "hide later places: is_causal=true, or a mask; triu(ones(t, t), diagonal=1) is 1 where none may look",
        "places see later ones, their targets among them: %s lets them\n"
        "targets are the next elements of the input; with another last element the results of earlier places change, "
        "first in %s%s%s (line %d)%s%s",
        name ? dlsh_kept(e, "%.*s", name, c->layer) : c->op, a->calls[first].op,
        *a->calls[first].layer ? " of layer " : "", a->calls[first].layer, dlsh_call_line(&a->calls[first]),
        masked ? "; this line makes the mask of " : "", masked ? name ? c->layer : c->op : "");
}

/* ---------------------------------------------------------------- targets that are the inputs */

/* x, y: the inputs and the targets in the text. */
static void find_unshifted(dlsh_examination *e, const char *file, const dlsh_node *x, const dlsh_node *y, int used) {
    const dlsh_node *made = dlsh_apart(file, y, x);
    dlsh_found(e, file, made ? made->span.line : used,
               made && made->kind == DLSH_N_INDEX && made->nkids > 2
                   ? "targets one place later: x = ids[:, :-1], y = ids[:, 1:]"
                   : "targets one place later: x = ids[i:i + n], y = ids[i + 1:i + n + 1]",
               "targets are the inputs themselves: the net learns to copy them\n"
               "all elements are equal, place by place (seen at line %d); next elements were not taken",
               used);
}

/* The field y of the samples that a function makes. */
static const dlsh_node *made_target(const char *file, const dlsh_node *by) {
    const dlsh_node *fn = by && by->kind == DLSH_N_NAME ? dlsh_function_of(file, by->text) : by;
    const dlsh_node *back = fn && fn->kind == DLSH_N_FN ? dlsh_last_return(fn) : NULL;
    const dlsh_node *sample = back && back->nkids ? back->kids[0] : NULL;
    for (int i = 0; sample && sample->kind == DLSH_N_RECORD && i < sample->nkids; i++)
        if (sample->kids[i]->kind == DLSH_N_KWARG && !strcmp(sample->kids[i]->text, "y")) return sample->kids[i];
    return NULL;
}

/* dataset(x, y): a data set of x alone is meant to be its own target. */
static void look_at_trainer(dlsh_examination *e) {
    const char *file = dlsh_optimizer_source(dl_trainer_optimizer(e->trainer)).file;
    const dlsh_node *made = dlsh_trainer_option(e, file, 1, "data"), *y = made ? dlsh_argument_of(made, 1, "y") : NULL;
    if (made && !y) y = made_target(file, dlsh_argument_of(made, 0, "x"));
    if (!y || relation_of(e->probe.in[0], e->probe.target[0]) != EQUAL) return;
    find_unshifted(e, file, y->kind == DLSH_N_KWARG ? NULL : dlsh_argument_of(made, 0, "x"), y, y->span.line);
}

static int are_alike(const dl_journal_value *x, const dl_journal_value *y) {
    return x->n > 2 && x->n == y->n && x->hash == y->hash;
}

enum { BOTH = 3 };
/* What a pass embeds: 1: the targets, 2: other rows of as many places, as what is written so far. */
static int embeds(dlsh_pass p, const dl_journal_value *targets) {
    int given = 0;
    for (long k = 0; k < p.n; k++) {
        const dl_journal_value *rows = &p.at[k].in[1];
        if (dlsh_op_is(&p.at[k], "index_select|index") && p.at[k].in[0].leaf)
            given |= are_alike(rows, targets) ? 1 : rows->n == targets->n ? 2 : 0;
    }
    return given;
}

/* Is what a net was given last, or what was embedded in the pass, the targets? *x: it, in the text. */
static int is_given(const dlsh_examination *e, dlsh_pass p, const dl_journal_value *targets, const dlsh_node **x) {
    const int given = embeds(p, targets);
    DLSH_EACH_ROW_WHILE (given < 2, r, e, DL_DID_FORWARD)
        if (r->grad && r->ndim == 2 && r->shape[1] > 2 && are_alike(&r->x, targets)) {
            const dlsh_node *call = dlsh_call_of_net_at(e, r->file, r->line);
            *x = call ? call->kids[1] : NULL;
            return 1;
        }
    return given == 1;
}

/* y.flatten(): y */
static const dlsh_node *without_form(const dlsh_node *n) {
    while (n && dlsh_is_call_of(n, "flatten|reshape|view|long|contiguous") && n->kids[0]->kind == DLSH_N_FIELD)
        n = n->kids[0]->kids[0];
    return n;
}

/* The targets themselves as the last input of a net of several, as a decoder's. Was it found? */
static int find_given_targets(dlsh_examination *e, const dlsh_node *loss_call, const dl_journal_node *loss) {
    const dlsh_node *target = loss_call ? without_form(dlsh_argument_of(loss_call, 1, "target")) : NULL;
    const dlsh_node *made = target ? dlsh_made(loss->file, target) : NULL;
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        const dlsh_node *call = made && r->grad && r->count > 3 && !strcmp(r->file, loss->file)
                                    ? dlsh_call_of_net_at(e, r->file, r->line)
                                    : NULL;
        const dlsh_node *last = call && call->nkids > 2 ? call->kids[call->nkids - 1] : NULL;
        if (!last || dlsh_made(r->file, last) != made) continue;
        const dlsh_node *by = dlsh_defined(r->file, last);
        const int alias = by && by->kind == DLSH_N_NAME;
        return dlsh_found(
                   e, r->file, alias ? by->span.line : last->span.line,
                   "a first word, then the targets but the last: cat([go, y[:, :-1]], 1)",
                   "the net is given its targets as they are, and copies them: each place sees what it is to tell\n"
                   "%s is what the loss of line %d compares with, place by place; when the net writes by itself, it "
                   "has only what comes before",
                   last->kind == DLSH_N_NAME ? last->text : "its last input", loss->line) != NULL;
    }
    return 0;
}

/* An item of a sequence of numbers, s[i], through names and picks. */
static dlsh_property is_item(void *ctx, const dlsh_step *at) {
    const dlsh_examination *e = ctx;
    const dlsh_value *v = at->n->kind == DLSH_N_INDEX ? dlsh_value_of(e, at->file, at->n->kids[0]) : NULL;
    const int sequence = v && v->type == DLSH_TENSOR && dl_ndim(v->as.tensor) == 1;
    return sequence && !dl_dtype_is_float(dl_dtype_of(v->as.tensor)) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* A column of windows [n, places] that is the target of each, several classes of them; -1: there is none. */
static long column_of_target(const dl_tensor *x, const dl_tensor *y) {
    if (!is_sequences(x) || !y || dl_ndim(y) != 1 || dl_shape(y)[0] != dl_shape(x)[0] || dl_shape(y)[0] < 16) return -1;
    const long n = dl_shape(x)[0], t = dl_shape(x)[1];
    DLSH_FREED double *a = malloc((size_t)(n * t) * sizeof *a), *b = malloc((size_t)n * sizeof *b);
    if (!a || !b || dl_read_f64(x, a) || dl_read_f64(y, b)) return dl_error_clear(), -1;
    for (long c = 0; c < t; c++) {
        long i = 0, changes = 0;
        for (; i < n && a[i * t + c] == b[i]; i++) changes += i && b[i] != b[i - 1];
        if (i == n && changes > 3) return c;
    }
    return -1;
}

/* Windows of a sequence that hold what comes next in place of ending before it. */
static void find_window_target(dlsh_examination *e, const dl_journal_node *loss, const dlsh_node *call) {
    dlsh_traced used[DLSH_TRACED];
    const int n = call && call->nkids > 2 ? dlsh_trace(e, loss->file, loss->line, used) : 0;
    const dlsh_node *x = n ? dlsh_origin(loss->file, call->kids[1], is_item, (void *)e) : NULL;
    const dlsh_node *y = n ? dlsh_origin(loss->file, call->kids[2], is_item, (void *)e) : NULL;
    if (!x || !y || !dlsh_same_text(loss->file, x->kids[0], y->kids[0])) return;
    for (int k = 0; k < n; k++)
        DLSH_EACH_HOLDER (h, &e->holders) {
            const long c = h->value.type == DLSH_TENSOR ? column_of_target(h->value.as.tensor, used[k].tensor) : -1;
            if (c >= 0)
                dlsh_found(
                    e, loss->file, y->span.line, "the element behind the window, or windows that end before it",
                    "the target stands in the input: the net learns to copy it, and cannot tell what comes next\n"
                    "in all %ld rows %s is column %ld of %s; both are taken from the same sequence (seen at line "
                    "%d)",
                    dl_shape(used[k].tensor)[0], used[k].name, c, h->name, loss->line);
        }
}

/* Of a loop: a loss that has the elements of the input for its targets. */
static void look_at_loops(dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        const dlsh_pass p = dlsh_pass_of(r, 1);
        for (long k = 0; k < p.n && r->count > 3; k++) {
            const dl_journal_node *loss = &p.at[k];
            const dlsh_node *x = NULL;
            if (!dlsh_op_is(loss, "cross_entropy|nll_picked") || !(loss->in[1].std > 0)) continue;
            const dlsh_node *call = dlsh_call_on_line(loss->file, loss->line, "loss|entropy|nll");
            if (embeds(p, &loss->in[1]) == BOTH && find_given_targets(e, call, loss)) continue;
            find_window_target(e, loss, call);
            if (!is_given(e, p, &loss->in[1], &x)) continue;
            find_unshifted(e, loss->file, x, call ? dlsh_argument_of(call, 1, "target") : NULL, loss->line);
        }
    }
}

static int is_int(const dlsh_node *n, long v) { return n && n->kind == DLSH_N_INT && n->num.i == v; }

static int ends_before_last(const dlsh_node *slice) {
    const dlsh_node *end = slice->kids[1];
    return !slice->kids[0] && end && end->kind == DLSH_N_UNARY && end->op == DLSH_OP_NEG && is_int(end->kids[0], 1);
}

/* *places: 0 where it takes those from a place on, p, so that there is one for each of them. */
static int is_one_later(const dlsh_examination *e, const char *file, const dlsh_node *a, const dlsh_node *b,
                        long *places) {
    const dlsh_node *from = a->kids[0], *later = b->kids[0];
    /* s[:, :t] beside s[:, 1:]: the loss takes as many of both */
    if ((ends_before_last(a) || (!from && a->kids[1])) && is_int(later, 1) && !b->kids[1]) return 1;
    const double first = later && !b->kids[1] && ends_before_last(a) ? dlsh_number_of(e, file, later) : 0;
    if (first > 1 && first < (double)*places) return *places = 0, 1; /* s[:, p:] */
    return from && later && later->kind == DLSH_N_BINARY && later->op == DLSH_OP_ADD && is_int(later->kids[1], 1) &&
           dlsh_same_text(file, from, later->kids[0]);
}

static int ends_in_slice(const dlsh_node *n) {
    return n->kind == DLSH_N_INDEX && n->nkids > 1 && n->kids[n->nkids - 1]->kind == DLSH_N_SLICE;
}

/* x[:, :-1] beside x[:, 1:], or x[i:i + n] beside x[i + 1:i + n + 1], of the same variable. */
static int shifts_in_text(const dlsh_examination *e, long *places) {
    DLSH_EACH_NODE (a)
        DLSH_EACH_BELOW (b, ends_in_slice(a.n) ? a.root : NULL) {
            if (a.n == b.n || !ends_in_slice(b.n) || a.n->nkids != b.n->nkids) continue;
            if (!dlsh_same_text(a.file, a.n->kids[0], b.n->kids[0])) continue;
            if (is_one_later(e, a.file, a.n->kids[a.n->nkids - 1], b.n->kids[b.n->nkids - 1], places)) return 1;
        }
    return 0;
}

/* Has the loss a target for each place of sequences of that length, several in a batch? */
static int has_target_each(const dlsh_examination *e, long places) {
    const dl_journal_node *loss;
    for (dlsh_node_walk w = {0}; (loss = dlsh_node_next(e, "cross_entropy|nll_picked", &w));) {
        const long n = (long)dlsh_elements_in(&loss->in[1]);
        if (places > 2 && n > places && n % places == 0) return 1;
    }
    return 0;
}

/* How many places the sequences have that nets were trained with; 0: not known. */
static long trained_places(const dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD)
        if (r->grad && r->ndim == 2 && r->count > 3 && dlsh_is_trained(e, r)) return r->shape[1];
    return 0;
}

/* Is one of the variables the next elements of x? */
static int has_next(const dlsh_examination *e, const dl_tensor *x) {
    if (e->trainer) return relation_of(x, e->probe.target[0]) == SHIFTED;
    DLSH_EACH_HOLDER (h, &e->holders) {
        if (h->value.type == DLSH_TENSOR && relation_of(x, h->value.as.tensor) == SHIFTED) return 1;
    }
    long places = e->probe.fn ? dl_shape(x)[1] : trained_places(e);
    return shifts_in_text(e, &places) && (!places || has_target_each(e, places));
}

/* ---------------------------------------------------------------- padding in the loss */

typedef struct padding {
    double token, label, share; /* share of all places */
} padding;

/* Rows that end in the same token, of which the target is one label, too. */
static int find_padding(const dl_tensor *x, const dl_tensor *y, padding *out) {
    if (!is_sequences(x) || !is_sequences(y) || dl_shape(y)[1] != dl_shape(x)[1] || dl_shape(y)[0] < dl_shape(x)[0])
        return 0;
    const long n = dl_shape(x)[0], t = dl_shape(x)[1];
    DLSH_FREED double *a = malloc((size_t)dl_numel(x) * sizeof *a), *b = malloc((size_t)dl_numel(y) * sizeof *b);
    if (!a || !b || dl_read_f64(x, a) || dl_read_f64(y, b)) return dl_error_clear(), 0;
    long places = 0, rows = 0, votes = 0;
    *out = (padding){0};
    for (long i = 1; i <= n; i++) { /* what half of the rows or more end in */
        if (!votes) out->token = a[i * t - 1], out->label = b[i * t - 1];
        votes += a[i * t - 1] == out->token ? 1 : -1;
    }
    for (long i = 0; i < n; i++) {
        long end = t;
        while (end > 0 && a[i * t + end - 1] == out->token && b[i * t + end - 1] == out->label) end--;
        places += t - end, rows += end < t;
        for (long k = 0; k < end; k++)
            if (a[i * t + k] == out->token) return 0; /* it is a token like others */
    }
    out->share = (double)places / (double)(n * t);
    return 2 * rows >= n && out->share >= 0.2 && out->share < 1;
}

/* Targets of a variable that has as many places as x, or of the trainer. */
static int padded(const dlsh_examination *e, const dl_tensor *x, padding *out) {
    if (e->trainer) return find_padding(x, e->probe.target[0], out);
    DLSH_EACH_HOLDER (h, &e->holders) {
        const dl_tensor *y = h->value.type == DLSH_TENSOR && h->value.as.tensor != x ? h->value.as.tensor : NULL;
        if (y && relation_of(x, y) != EQUAL && find_padding(x, y, out)) return 1;
    }
    return 0;
}

/* Are so many rows of scores those of all places of a batch, as far as the batches of nets are known? */
static int is_of_places(const dlsh_examination *e, long rows, long places) {
    int known = 0;
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        if (!r->grad || r->ndim != 2 || r->shape[1] != places) continue;
        if (r->x.ndim == 2 &&
            (rows == r->shape[0] * places || rows == r->x.shape[0] * places || rows == r->x.shape[0] * r->x.shape[1]))
            return 1;
        known = 1;
    }
    return !known && rows >= places && rows % places == 0;
}

/* dataset(..., pad_target=0): where rows are filled up with that label; NULL: nowhere. */
static const dlsh_node *filled_with(const dlsh_examination *e, double label, const char **file) {
    DLSH_EACH_NODE (t)
        if (t.n->kind == DLSH_N_KWARG && !strcmp(t.n->text, "pad_target") && dlsh_number_of(e, t.file, t.n) == label)
            return *file = t.file, t.n;
    return NULL;
}

/* A loss of all places: neither a mask nor an ignored label leaves those of the padding out. */
static void look_at_padding(dlsh_examination *e, dlsh_pass p, const dl_tensor *x, const padding *pad) {
    char ignored[48];
    snprintf(ignored, sizeof ignored, "ignore_index=%.0f", pad->label);
    DLSH_EACH_OP (n, p) {
        const long rows = n->in[0].ndim ? n->in[0].shape[0] * (n->in[0].ndim > 2 ? n->in[0].shape[2] : 1) : 0;
        if (!dlsh_op_is(n, "cross_entropy|nll_picked") || n->out.ndim || strstr(n->attrs, ignored)) continue;
        if (isfinite(dlsh_ignored_label(n))) continue;
        if (!is_of_places(e, rows, dl_shape(x)[1]) || (n->nin > 2 && n->in[2].there && n->in[2].zeros)) continue;
        const char *file = n->file;
        const dlsh_node *by = filled_with(e, pad->label, &file);
        dlsh_found(e, file, by ? by->span.line : n->line,
                   by ? "pad_target=-100, which the loss leaves out"
                      : "ignore_index= of the padding's label, or a mask",
                   "the padding counts in the loss: %.0f %% of all places are padding\n"
                   "rows of the input end in token %.0f, whose target is always %.0f; the loss (line %d) takes all %ld "
                   "places of a row, so that always saying %.0f is right for most of them",
                   100 * pad->share, pad->token, pad->label, n->line, dl_shape(x)[1], pad->label);
    }
}

/* A mask of 0 and 1 that keeps as many places as the padding has, and not as many as the rest. */
static void look_at_mask(dlsh_examination *e, dlsh_pass p, const dl_tensor *x, const padding *pad) {
    DLSH_EACH_OP (n, p) {
        const int m = n->in[0].constant ? 0 : 1;
        const dl_journal_value *v = &n->in[m];
        if (!dlsh_op_is(n, "mul") || !v->there || !v->constant || !v->n || v->low != 0 || v->high != 1) continue;
        if (fabs(v->mean * v->mean + v->std * v->std - v->mean) > 1e-6 || !n->out.ndim) continue;
        long places = 1;
        for (int d = 0; d < v->ndim; d++) places *= v->shape[d];
        if (places % dl_shape(x)[1] || fabs(pad->share - 0.5) < 0.12 || fabs(v->mean - pad->share) > 0.08) continue;
        dlsh_found(e, n->file, n->line, "the mask of the places that are no padding",
                   "the mask is the wrong way round: the loss is of the padding alone\n"
                   "it keeps %.0f %% of the places, and %.0f %% of all are padding",
                   100 * v->mean, 100 * pad->share);
    }
}

static void find_padded_loss(dlsh_examination *e, const dl_tensor *x) {
    padding pad;
    if (!padded(e, x, &pad)) return;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        look_at_padding(e, dlsh_pass_of(r, 1), x, &pad), look_at_mask(e, dlsh_pass_of(r, 1), x, &pad);
}

dl_status dlsh_check_places(dlsh_examination *e) {
    const dl_tensor *x = e->probed && e->probe.nin == 1 ? e->probe.in[0] : NULL;
    if (!e->trainer) look_at_loops(e);
    if (!is_sequences(x)) return DL_OK;
    if (e->trainer) look_at_trainer(e);
    find_padded_loss(e, x);
    if (dlsh_was_found(e, "all of the input counts", "the wrong way round")) return DL_OK;
    return !e->bad && has_next(e, x) ? dlsh_compare_passes(e, other_end, judge_places) : DL_OK;
}
