/* Whole numbers beyond 2^24 that a cast to f32 rounds, where what comes next needs the digits that it takes: a
 * remainder, a sine, a difference of neighbours. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"

enum { DEEPEST = 8, MANTISSA = 24 };
static const double turn = 6.283185307179586;

/* A cast to f32 on the way back from an expression, and what it was multiplied with since. */
typedef struct cast {
    const dlsh_node *call, *of; /* what was cast; call NULL: there is none */
    double factor;
    int sliced;
} cast;

static int is_cast(const dlsh_node *n) {
    const dlsh_node *to = dlsh_is_method(n, "to") && n->nkids > 1 ? n->kids[1] : NULL;
    if (to && to->kind == DLSH_N_KWARG) to = to->kids[0];
    return dlsh_is_method(n, "float") || (to && to->text && dlsh_has_word("f32|float32", to->text, strlen(to->text)));
}

/* The value that an op only scales, moves or shapes; NULL: it does more. */
static const dlsh_node *moved_by(const dlsh_examination *e, const char *file, const dlsh_node *n, cast *c) {
    static const char shaping[] = "unsqueeze|squeeze|reshape|view|flatten|contiguous|clone";
    if (n->kind == DLSH_N_INDEX && n->nkids == 2 && n->kids[1]->kind == DLSH_N_SLICE) return c->sliced = 1, n->kids[0];
    if (n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD && dlsh_is_call_of(n, shaping))
        return n->kids[0]->kids[0];
    if (n->kind != DLSH_N_BINARY || n->op < DLSH_OP_ADD || n->op > DLSH_OP_DIV) return NULL;
    for (int k = 0; k < 2; k++) {
        const double number = dlsh_number_of(e, file, n->kids[!k]);
        if (!isfinite(number) || number == 0 || (k && n->op == DLSH_OP_DIV)) continue;
        if (n->op == DLSH_OP_MUL) c->factor *= fabs(number);
        if (n->op == DLSH_OP_DIV) c->factor /= fabs(number);
        return n->kids[k];
    }
    return NULL;
}

static cast cast_behind(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    cast c = {.factor = 1};
    for (int i = 0; n && i < DEEPEST; i++) {
        if (is_cast(n)) return c.call = n, c.of = n->kids[0]->kids[0], c;
        n = n->kind == DLSH_N_NAME ? dlsh_defined(file, n) : moved_by(e, file, n, &c);
    }
    return c;
}

/* The whole numbers that a cast was given, as f64: the caller's; NULL: not known, or f32 has them all. */
static double *numbers_of(const dlsh_examination *e, const char *file, const cast *c, long *n) {
    const dlsh_value *v = c->call ? dlsh_value_of(e, file, c->of) : NULL;
    const dl_tensor *t = v && v->type == DLSH_TENSOR ? v->as.tensor : NULL;
    *n = t && !dl_dtype_is_float(dl_dtype_of(t)) ? dl_numel(t) : 0;
    double *all = *n > 1 && *n < 1 << 22 ? malloc((size_t)*n * sizeof *all) : NULL;
    if (all && dl_read_f64(t, all)) dl_error_clear(), free(all), all = NULL;
    return all;
}

/* The distance of neighbours of f32 at the largest number. */
static double step_of(const double *v, long n) {
    double most = 0;
    for (long i = 0; i < n; i++) most = fmax(most, fabs(v[i]));
    return most > 0 ? ldexp(1, ilogb(most) - (MANTISSA - 1)) : 0;
}

/* How much of the differences of neighbours is made by rounding. */
static double share_of_rounding(const double *v, long n) {
    double whole = 0, wrong = 0;
    for (long i = 1; i < n; i++) {
        const double d = v[i] - v[i - 1], rounded = (double)(float)v[i] - (double)(float)v[i - 1];
        whole += fabs(d), wrong += fabs(d - rounded);
    }
    return whole > 0 ? wrong / whole : 0;
}

typedef struct use {
    const dlsh_node *of, *other; /* of a difference both sides */
    double period;               /* NaN: none */
    const char *name;
} use;

/* What an expression needs the digits of; of NULL: of nothing. */
static use use_of(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    const int method = n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD;
    const dlsh_node *first = method ? n->kids[0]->kids[0] : n->nkids > 1 ? n->kids[1] : NULL;
    const dlsh_node *second = n->nkids > 2 - method ? n->kids[2 - method] : NULL;
    if (n->kind == DLSH_N_BINARY && n->op == DLSH_OP_MOD)
        return (use){n->kids[0], NULL, fabs(dlsh_number_of(e, file, n->kids[1])), "the remainder"};
    if (n->kind == DLSH_N_BINARY && n->op == DLSH_OP_SUB)
        return (use){n->kids[0], n->kids[1], NAN, "the difference of neighbours"};
    if (second && dlsh_is_call_of(n, "remainder|fmod"))
        return (use){first, NULL, fabs(dlsh_number_of(e, file, second)), "the remainder"};
    if (dlsh_is_call_of(n, "sin|cos")) return (use){first, NULL, turn, "the angle"};
    return (use){.of = dlsh_is_call_of(n, "diff") ? first : NULL, NULL, NAN, "the difference of neighbours"};
}

static int see_use(void *ctx, const char *file, const dlsh_node *n) {
    dlsh_examination *e = ctx;
    const use u = use_of(e, file, n);
    const cast c = u.of ? cast_behind(e, file, u.of) : (cast){0}, d = u.other ? cast_behind(e, file, u.other) : c;
    long count;
    if (!c.call || d.call != c.call || (u.other && (!c.sliced || !d.sliced))) return 0;
    DLSH_FREED double *v = numbers_of(e, file, &c, &count);
    const double step = v ? step_of(v, count) : 0;
    const int lost =
        isnan(u.period) ? step > 1 && share_of_rounding(v, count) > 0.25 : step > 1 && step * c.factor > u.period / 4;
    if (!lost) return 0;
    long changed = 0;
    for (long i = 0; i < count; i++) changed += (double)(float)v[i] != v[i];
    dlsh_found(e, file, c.call->span.line, "compute with whole numbers first, or with f64, and cast what comes out",
               "a cast to f32 takes digits that %s needs: f32 has steps of %.0f there\n"
               "%ld of %ld whole numbers are other ones after the cast; line %d computes %s of what is left",
               u.name, step, changed, count, n->span.line, u.name);
    return 0;
}

void dlsh_find_lost_digits(dlsh_examination *e) { dlsh_each_node(see_use, e); }
