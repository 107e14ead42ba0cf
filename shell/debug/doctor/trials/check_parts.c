/* Parts of the input that a net does not look at: with other values there its result stays the same. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/checks.h"
#include "debug/doctor/text/reads.h"
#include "debug/doctor/trace.h"
#include "debug/doctor/trial.h"
#include "dlcore/index.h"
#include "dlcore/view.h"

enum { BLOCKS = 16, PICTURE_BLOCKS = 4, LARGE = 1 << 12, DIMS = 4 };

/* Of one dimension of the input: how much the result moves with each of some blocks of its places. */
typedef struct parts {
    int dim, n;           /* blocks */
    long places;          /* of the dimension */
    double moved[BLOCKS]; /* by the block; -1: not known, all samples have the same there */
} parts;

static long first_place(const parts *p, int block) { return block * p->places / p->n; }

/* The input with the samples' values exchanged from one place to another one. */
static dl_tensor *exchanged(dl_tensor *x, int dim, long from, long till) {
    DLSH_SCOPED_GRAD_MODE(0);
    const long end = dl_shape(x)[dim];
    DLSH_OWNED dl_tensor *part = dl_narrow(x, dim, from, till - from);
    DLSH_OWNED dl_tensor *other = part ? dl_roll(part, (long[]){1}, 1, (long[]){0}, 1) : NULL;
    if (!other || dlsh_share_alike(part, other) == 1) return NULL;
    DLSH_OWNED dl_tensor *before = dl_narrow(x, dim, 0, from), *behind = dl_narrow(x, dim, till, end - till);
    return before && behind ? dl_cat((dl_tensor *[]){before, other, behind}, 3, dim) : NULL;
}

/* The largest difference of two results, over the size of the first; 0: they are alike. */
static double distance(const dl_tensor *y, const dl_tensor *z) {
    const long n = dl_numel(y);
    double most = 0, size = 0;
    if (dlsh_share_alike(y, z) == 1) return 0;
    DLSH_FREED double *a = malloc((size_t)n * sizeof *a), *b = malloc((size_t)n * sizeof *b);
    if (!a || !b || dl_read_f64(y, a) || dl_read_f64(z, b)) return NAN;
    for (long i = 0; i < n; i++) most = fmax(most, fabs(a[i] - b[i])), size = fmax(size, fabs(a[i]));
    return most / fmax(size, 1e-30);
}

static void measure(dlsh_examination *e, dl_tensor *x, dl_tensor *y, parts *p) {
    for (int k = 0; k < p->n; k++) {
        DLSH_OWNED dl_tensor *other = exchanged(x, p->dim, first_place(p, k), first_place(p, k + 1)), *z = NULL;
        dlsh_trial run = {0};
        p->moved[k] = -1;
        if (other && !dlsh_trial_run(e, other, &run, &z)) p->moved[k] = distance(y, z);
        dlsh_trial_free(&run);
    }
}

/* Is what stands beside an unused block used as much as the others? A recurrence forgets bit by bit. */
static int ends_at_once(const parts *p) {
    double most = 0;
    for (int k = 0; k < p->n; k++) most = fmax(most, p->moved[k]);
    for (int k = 0; k < p->n; k++) {
        const int beside = (k && p->moved[k - 1] == 0) || (k + 1 < p->n && p->moved[k + 1] == 0);
        if (beside && p->moved[k] != 0 && !(p->moved[k] > 1e-3 * most)) return 0;
    }
    return most > 0;
}

/* The input with the values of all unused places exchanged. */
static dl_tensor *with_unused_exchanged(dl_tensor *x, const parts *p) {
    dl_tensor *all = dl_ref(x);
    for (int k = 0; k < p->n && all; k++) {
        if (p->moved[k] != 0) continue;
        dl_tensor *next = exchanged(all, p->dim, first_place(p, k), first_place(p, k + 1));
        dl_unref(all);
        all = next;
    }
    return all;
}

/* Is operand k of a call of the run, or the input, another one in the other run? */
static int is_changed(const dlsh_trial *a, const dlsh_trial *b, long call, int k) {
    const long from = a->from[call][k];
    return from == DLSH_TRIAL_INPUT || (from >= 0 && dlsh_share_alike(a->result[from], b->result[from]) < 1);
}

/* The last call that picks or masks and gives the same although an operand changed; NULL: there is none, as where
 * weights are 0. */
static const dl_recorded *leaving_out(const dlsh_trial *a, const dlsh_trial *b) {
    static const char picking[] =
        "select|slice|narrow|index|index_select|gather|take|take_along_dim|split|chunk|unbind|"
        "masked_select|where|mul|masked_fill|restride|as_strided";
    for (long i = (a->n < b->n ? a->n : b->n) - 1; i >= 0; i--) {
        if (!dlsh_is_word(picking, a->calls[i].op)) continue;
        if (!a->result[i] || !b->result[i] || dlsh_share_alike(a->result[i], b->result[i]) < 1) continue;
        for (int k = 0; k < DLSH_TRIAL_OPERANDS; k++)
            if (is_changed(a, b, i, k)) return &a->calls[i];
    }
    return NULL;
}

static void tell(dlsh_examination *e, const dl_recorded *c, const parts *p, long used, long first, long last) {
    dlsh_found(e, dlsh_call_file(c), dlsh_call_line(c),
               "let all places count: the last state, y[:, -1], a mean over them, or flatten; in a loop over "
               "them the index of the loop",
               "%s looks at %ld of %ld places of its input alone: %s%s%s leaves the others out\n"
               "with other values at places %ld to %ld of dimension %d of the input the result stays the same",
               e->probe.net ? "the net" : "the function", used, p->places, c->op, *c->layer ? " of layer " : "",
               c->layer, first, last, p->dim);
}

/* More than half of the places without any influence. */
static void judge(dlsh_examination *e, dl_tensor *x, const dlsh_trial *a, const parts *p) {
    long unused = 0, first = -1, last = -1;
    for (int k = 0; k < p->n; k++) {
        if (p->moved[k] != 0) continue;
        unused += first_place(p, k + 1) - first_place(p, k);
        if (first < 0) first = first_place(p, k);
        last = first_place(p, k + 1) - 1;
    }
    if (2 * unused < p->places || unused == p->places || !ends_at_once(p)) return;
    DLSH_OWNED dl_tensor *other = with_unused_exchanged(x, p), *z = NULL;
    dlsh_trial b = {0};
    if (other && !dlsh_trial_run(e, other, &b, &z)) {
        const dl_recorded *c = leaving_out(a, &b);
        if (c) tell(e, c, p, p->places - unused, first, last);
    }
    dlsh_trial_free(&b);
}

/* Places of a dimension behind the samples. */
static void look_at_dim(dlsh_examination *e, dl_tensor *x, dl_tensor *y, const dlsh_trial *a, int dim) {
    const int large = dl_ndim(x) > 3 || dl_numel(x) > LARGE, most = large ? PICTURE_BLOCKS : BLOCKS;
    parts p = {.dim = dim, .places = dl_shape(x)[dim]};
    p.n = (int)(p.places < most ? p.places : most);
    if (p.n < 2) return;
    measure(e, x, y, &p);
    judge(e, x, a, &p);
}

/* ---------------------------------------------------------------- masks that are the wrong way round */

/* Places of sequences that are to count, [n * t], and the others, at the end or at the start of rows. */
typedef struct places {
    char *counts;
    long n, t;
} places;

static void places_free(places *p) { free(p->counts); }

/* Is a place filled up: with the number that most rows end in, or with zeros, of floats? */
static int is_filled(const dl_tensor *x, const double *v, long at, double fill) {
    const long width = dl_numel(x) / dl_shape(x)[0] / dl_shape(x)[1];
    for (long c = 0; c < width; c++)
        if (v[at * width + c] != fill) return 0;
    return 1;
}

/* Rows of several lengths that are filled up, at one end, with what no row has within it. */
static int find_lengths(const dl_tensor *x, int at_end, places *p) {
    const int words = !dl_dtype_is_float(dl_dtype_of(x));
    DLSH_FREED double *v = malloc(((size_t)dl_numel(x) + 1) * sizeof *v);
    if (!v || dl_read_f64(x, v)) return dl_error_clear(), 0;
    const long width = dl_numel(x) / p->n / p->t;
    double fill = 0;
    long most = 0, padded = 0, first = -1, several = 0;
    for (long i = 0, same; words && i<p->n; i++, most = same> most ? same : most) {
        const double end = v[(i * p->t + (at_end ? p->t - 1 : 0)) * width];
        same = 0;
        for (long k = 0; k < p->n; k++) same += v[(k * p->t + (at_end ? p->t - 1 : 0)) * width] == end;
        if (same > most) fill = end;
    }
    for (long i = 0; i < p->n; i++) {
        long own = 0;
        for (long k = 0; k < p->t; k++) {
            const long at = i * p->t + (at_end ? k : p->t - 1 - k);
            p->counts[at] = (char)!is_filled(x, v, at, fill);
            if (p->counts[at] && own < k) return 0;
            own += p->counts[at];
        }
        if (!own) return 0;
        padded += own < p->t, several |= first >= 0 && own != first, first = own;
    }
    return several && padded > 2 && 8 * padded > p->n;
}

/* The dimension of a call's result that has the places; -1: none. Weights over places have them last. */
static int dim_of_places(const dl_recorded *c, const dl_tensor *y, const places *p) {
    const int last = y ? dl_ndim(y) - 1 : 0;
    if (last < 1 || dl_shape(y)[0] != p->n) return -1;
    if (dl_shape(y)[last] == p->t && !(last == 2 && dl_shape(y)[1] == p->t && strcmp(c->op, "softmax") != 0))
        return last;
    return last > 1 && dl_shape(y)[1] == p->t ? 1 : -1;
}

/* Does a call leave nothing of the places that count, and keep the others? Scores are hidden by what is far below 0,
 * vectors and weights by 0. Rows in which all places count are left out. */
static int keeps_others(const dl_recorded *c, const dl_tensor *y, const places *p) {
    static const char hiding[] = "where|masked_fill|add|sub", scaling[] = "where|masked_fill|mul|softmax";
    const int dim = dim_of_places(c, y, p), scores = dlsh_is_word(hiding, c->op);
    const int vectors = dlsh_is_word(scaling, c->op) && (!strcmp(c->op, "softmax") || (dim == 1 && dl_ndim(y) > 2));
    const long size = y ? dl_numel(y) : 0;
    DLSH_FREED double *v = dim > 0 && (scores || vectors) ? malloc(((size_t)size + 1) * sizeof *v) : NULL;
    if (!v || !dl_dtype_is_float(dl_dtype_of(y)) || dl_read_f64(y, v)) return dl_error_clear(), 0;
    long inner = 1, kept = 0, lost = 0;
    for (int d = dim + 1; d < dl_ndim(y); d++) inner *= dl_shape(y)[d];
    for (long i = 0; i < size; i++) {
        const long row = i / (size / p->n), place = i / inner % p->t;
        if (p->counts[row * p->t] && p->counts[row * p->t + p->t - 1]) continue;
        const int hidden = (scores && v[i] < -1e4) || (vectors && fabs(v[i]) < 1e-9);
        if (p->counts[row * p->t + place] && !hidden) return 0;
        kept += !p->counts[row * p->t + place] && !hidden, lost += !p->counts[row * p->t + place] && hidden;
    }
    return kept > 4 * lost;
}

/* Is nothing left of scores or weights of a place and those before it, and all of those behind it? */
static int keeps_future(const dl_recorded *c, const dl_tensor *y, long t) {
    const int last = y ? dl_ndim(y) - 1 : 0, weights = !strcmp(c->op, "softmax");
    if (last < 1 || t < 3 || dl_shape(y)[last] != t || dl_shape(y)[last - 1] != t) return 0;
    if (!weights && !dlsh_is_word("where|masked_fill|add|sub", c->op)) return 0;
    DLSH_FREED double *v = malloc(((size_t)dl_numel(y) + 1) * sizeof *v);
    if (!v || !dl_dtype_is_float(dl_dtype_of(y)) || dl_read_f64(y, v)) return dl_error_clear(), 0;
    for (long i = 0; i < dl_numel(y); i++) {
        const long at = i % t, of = i / t % t;
        const int hidden = weights ? v[i] < 1e-9 : v[i] < -1e4;
        if (of + 1 < t && hidden != (at <= of)) return 0; /* for the last place nothing would be left */
    }
    return 1;
}

static dlsh_property makes_mask(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    const int compares = dlsh_is_comparison(at->n);
    return compares || dlsh_is_call_of(at->n, "tril|triu") ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* The mask that a statement is given by name, of those whose names hold a word; NULL: it is given none. */
static const dlsh_node *mask_given(const dlsh_node *n, const char *word) {
    DLSH_EACH_BELOW (t, n)
        if (t.n->kind == DLSH_N_KWARG && strstr(t.n->text, word)) return t.n;
    return NULL;
}

/* Where the mask is made that the statement of a call is given; else the line of that. */
static int line_of_mask(const dl_recorded *c) {
    const dlsh_node *s = dlsh_statement_at(c->file, c->line), *given = mask_given(s, "mask");
    const dlsh_node *of = given ? given->kids[0] : !strcmp(c->op, "mul") ? s : NULL;
    const dlsh_node *made = of ? dlsh_origin(c->file, of, makes_mask, NULL) : NULL;
    return made ? made->span.line : c->line;
}

/* A layer's mask of padding is turned round where it is made, or where it is given if others read it, too. */
static void tell_padding(dlsh_examination *e, const dl_recorded *c, const dlsh_node *given) {
    const dlsh_node *root = dlsh_text_root(c->file), *around[DLSH_AROUND], *mask = given->kids[0];
    const int depth = dlsh_functions_around(root, given->span.start, around), made = line_of_mask(c);
    const char *name = mask->kind == DLSH_N_NAME ? mask->text : NULL;
    const int read = name && dlsh_reads(depth ? around[depth - 1] : root, name) > 1;
    dlsh_found(e, c->file, read || !name ? given->span.line : made,
               dlsh_kept(e, "give %s the opposite: %s=!%s", given->text, given->text, name ? name : "(...)"),
               "the mask is the wrong way round: %s hides the places that count and leaves the padding\n"
               "%s is true where attention is not allowed; line %d makes the mask%s",
               given->text, given->text, made, read ? ", which others read as it is" : "");
}

static void find_turned_triangle(dlsh_examination *e, const dl_tensor *x, const dlsh_trial *a) {
    for (long i = 0; i < a->n && !e->bad; i++) {
        const dl_recorded *c = &a->calls[i];
        if (!a->result[i] || !keeps_future(c, a->result[i], dl_shape(x)[1])) continue;
        dlsh_found(e, c->file, line_of_mask(c),
                   "hide what comes later: triu(ones(t, t), diagonal=1) is 1 where none may look",
                   "the mask is the wrong way round: a place sees those behind it alone, not itself and those before\n"
                   "%s gives [%ld,%ld] for each sample, of which nothing is left on and below the diagonal",
                   c->op, dl_shape(x)[1], dl_shape(x)[1]);
    }
}

static void find_turned_mask(dlsh_examination *e, dl_tensor *x, const dlsh_trial *a) {
    DLSH_SCOPED(places_free) places p = {.n = dl_shape(x)[0], .t = dl_shape(x)[1]};
    p.counts = calloc((size_t)(p.n * p.t) + 1, 1);
    if (!p.counts || p.t < 3 || (!find_lengths(x, 1, &p) && !find_lengths(x, 0, &p))) return;
    for (long i = 0; i < a->n; i++) {
        const dl_recorded *c = &a->calls[i];
        if (!a->result[i] || !keeps_others(c, a->result[i], &p)) continue;
        const dlsh_node *given = mask_given(dlsh_statement_at(c->file, c->line), "key_padding");
        if (given) return tell_padding(e, c, given);
        dlsh_finding *f = dlsh_find_at(e, c->file, line_of_mask(c),
                                       "hide the padding: where the mask is true in masked_fill, nothing is left");
        if (!f) return;
        long real = 0;
        for (long k = 0; k < p.n * p.t; k++) real += p.counts[k];
        dlsh_cause(f, "the mask is the wrong way round: %s hides the places that count and leaves the padding",
                   c->composite ? c->composite : c->op);
        dlsh_evidence(f,
                      "of the %ld places of %ld samples %ld are no padding; nothing of them is left in any sample that "
                      "has padding, whatever they are",
                      p.n * p.t, p.n, real);
        return;
    }
}

dl_status dlsh_check_parts(dlsh_examination *e) {
    dl_tensor *x = e->probed && e->probe.nin == 1 ? e->probe.in[0] : NULL;
    DLSH_OWNED dl_tensor *y = NULL;
    if (!x || dl_ndim(x) < 2 || dl_ndim(x) > DIMS || dl_shape(x)[0] < 3) return DL_OK;
    if (dl_recording_count() || dl_recording_get()) return DL_OK;
    if (dlsh_was_found(e, "names are used where they belong", "has no part in the result")) return DL_OK;
    if (dlsh_was_found(e, "independence of samples", "") || dlsh_was_found(e, "statements stand in the right loop", ""))
        return DL_OK;
    dlsh_trial a = {0};
    if (e->probe.net) dl_module_train(e->probe.net, 0);
    const int ran = !dlsh_trial_run(e, x, &a, &y);
    if (ran) find_turned_mask(e, x, &a), find_turned_triangle(e, x, &a);
    if (ran)
        for (int dim = 1; dim < dl_ndim(x) && !e->bad; dim++) look_at_dim(e, x, y, &a, dim);
    if (e->probe.net) dl_module_train(e->probe.net, 1);
    dlsh_trial_free(&a);
    dl_error_clear();
    return DL_OK;
}
