/* Transforms that turn a sample of one class into one of another: mirrored digits and letters. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands/data/data.h"
#include "debug/doctor/checks.h"
#include "debug/doctor/data/pools.h"
#include "debug/doctor/data/turned.h"
#include "debug/doctor/syntax.h"

/* Transforms that mirror or turn a picture. */
static const char *const turning[] = {"hflip", "vflip", "flip", "rotate", "rotation", "affine", "transpose"};
/* Data sets, and beginnings of names of classes, whose pictures then mean something else, or nothing. */
static const char *const sided[] = {"digits", "mnist", "emnist", "svhn", "letters", "left", "right", "arrow"};

static int is_by_degrees(const char *how) { return !strncmp(how, "rotat", 5) || !strcmp(how, "affine"); }

/* The largest angle of a transform, "rotation degrees=[-90, 180] ...", without its sign. */
static double degrees_in(const char *p) {
    const char *named = strstr(p, "degrees="), *next = strchr(p, ',');
    const size_t digits = strcspn(p, "0123456789");
    if (named && (!next || named < next)) p = named;
    double most = 0;
    p += strcspn(p, "0123456789");
    const int list = digits && p[-1] != '=' && p[-1] != ' ';
    for (int k = 0; k < (list ? 2 : 1); k++) {
        char *end;
        most = fmax(most, strtod(p, &end));
        p = end + strcspn(end, "0123456789]");
    }
    return most;
}

static const char *turns(const char *transforms) {
    for (size_t i = 0; i < DLSH_COUNT(turning); i++) {
        const char *p = strstr(transforms, turning[i]);
        if (!p || (p > transforms && !strchr(" ,_", p[-1]))) continue; /* random_rotation */
        if (is_by_degrees(turning[i]) && degrees_in(p) < 60) continue; /* small angles are harmless */
        return turning[i];
    }
    return NULL;
}

static int has_sides(const dl_dataset *d, const char **by) {
    const char *name = dl_dataset_name(d), *c;
    for (size_t i = 0; i < DLSH_COUNT(sided); i++)
        if (strstr(name, sided[i])) return *by = name, 1;
    for (long k = 0; (c = dl_dataset_class_name(d, k)) && k < 1000; k++)
        for (size_t i = 0; i < DLSH_COUNT(sided); i++)
            if (strstr(c, sided[i]) || !strcmp(c, "6") || !strcmp(c, "b")) return *by = c, 1;
    return 0;
}

/* ---------------------------------------------------------------- by trial */

/* Does the transform make samples of one class look like those of another one? The share of *from that looks like *to;
 * -1: it cannot be tried. Of rotations half a turn is tried, where they go so far. */
static double share_turned(dl_dataset *d, const char *transforms, const char *how, int *from, int *to) {
    enum { SAMPLES = 600, COLUMNS = 1 << 3, ROWS = 1 << 2 }; /* dimensions of pictures [n, channels, height, width] */
    dl_tensor *x[DL_NET_INPUTS] = {NULL}, *y[DL_NET_INPUTS] = {NULL};
    const long len = dl_dataset_len(d, DL_TRAIN), n = len < SAMPLES ? len : SAMPLES;
    const int rotates = is_by_degrees(how);
    long index[SAMPLES];
    if (rotates && degrees_in(strstr(transforms, how)) < 150) return 0;
    if (dl_dataset_ndim(d) != 3 || dl_dataset_classes(d) < 2 || dl_dataset_slow(d)) return -1;
    for (long i = 0; i < n; i++) index[i] = i * 7919 % n * len / n; /* classes may come in turns */
    const unsigned dims = !strcmp(how, "vflip") ? ROWS : rotates ? ROWS | COLUMNS : COLUMNS;
    const int good = n && !dl_dataset_gather(d, DL_TRAIN, index, n, x, y) && x[0] && y[0] && dl_ndim(x[0]) == 4;
    const double share = good ? dlsh_try_turned(x[0], y[0], dims, 0, from, to) : -1;
    for (int i = 0; i < DL_NET_INPUTS; i++) dl_unref(x[i]), dl_unref(y[i]);
    dl_error_clear();
    return share;
}

/* ---------------------------------------------------------------- by hand */

/* A dimension of rows or columns of pictures, alone or in a list. */
static int is_of_picture(const dlsh_node *n) {
    if (!n) return 0;
    if (n->kind == DLSH_N_KWARG) return is_of_picture(n->kids[0]);
    if (n->kind == DLSH_N_INT) return n->num.i == 2 || n->num.i == 3;
    if (n->kind == DLSH_N_UNARY) return n->kids[0]->kind == DLSH_N_INT && n->kids[0]->num.i < 3;
    for (int i = 0; n->kind == DLSH_N_LIST && i < n->nkids; i++)
        if (is_of_picture(n->kids[i])) return 1;
    return 0;
}

typedef struct turned_by {
    const dlsh_examination *e;
    const char *file, *name;
    int line;
} turned_by;

static int is_from(const dlsh_examination *e, const char *file, const dlsh_node *n, const dl_journal_row *r) {
    return !strcmp(r->file, file) && dlsh_comes_from(e, file, r->line, n->span.line);
}

/* ... or from another call of that name? */
static int is_from_alike(const dlsh_examination *e, const char *file, const dlsh_node *n, const dl_journal_row *r) {
    if (is_from(e, file, n, r)) return 1;
    DLSH_EACH_BELOW (t, dlsh_text_root(file))
        if (t.n != n && dlsh_is_call_of(t.n, n->kids[0]->text) && is_from(e, file, t.n, r)) return 1;
    return 0;
}

static int has_call_of(const dlsh_node *n, const char *name) {
    DLSH_EACH_BELOW (t, n)
        if (dlsh_is_call_of(t.n, name)) return 1;
    return 0;
}

/* dataset(x.flip(3), y, test_x.flip(3), test_y): are both parts turned? 0: also where no data set is made of it. */
static int is_of_both_parts(const dlsh_node *n, const dlsh_node *const *within, int depth) {
    for (int i = depth - 1; i >= 0; i--) {
        const dlsh_node *x = dlsh_is_call_of(within[i], "dataset") ? dlsh_argument_of(within[i], 0, "x") : NULL;
        const dlsh_node *test = x ? dlsh_argument_of(within[i], 2, "test_x") : NULL;
        if (test) return has_call_of(x, n->kids[0]->text) && has_call_of(test, n->kids[0]->text);
    }
    return 0;
}

/* Is it a part of a call that puts samples together, so that others stay as they are? */
static int is_joined(const dlsh_node *const *within, int depth) {
    for (int i = 0; i < depth; i++)
        if (dlsh_is_call_of(within[i], "cat|concat|stack|where|append|dataset")) return 1;
    return 0;
}

/* Is it done to all samples of a net, those of evaluations, too, and not by chance? Then it is a form of the data. */
static int is_for_all(const dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node *const *within,
                      int depth) {
    const dl_journal_row *of = NULL;
    int evaluated = 0;
    if (dlsh_is_by_chance(within, depth)) return 0;
    if (is_of_both_parts(n, within, depth)) return 1;
    if (is_joined(within, depth)) return 0;
    DLSH_EACH_ROW_WHILE (!of, r, e, DL_DID_FORWARD)
        if (dlsh_is_training_pass(e, r) && is_from(e, file, n, r)) of = r;
    DLSH_EACH_ROW_WHILE (of, r, e, DL_DID_FORWARD) {
        const int evaluates = r->what == of->what && dlsh_is_evaluation_pass(e, r);
        if (evaluates && !is_from_alike(e, file, n, r)) return 0;
        evaluated |= evaluates;
    }
    return evaluated;
}

/* Is a call neither an argument of another one, nor repeated? What it gives is data of their own, which are all turned.
 */
static int is_once(const dlsh_node *n, const dlsh_node *const *within, int depth) {
    for (int i = 0; i < depth; i++) {
        const dlsh_node *by = within[i]->kind == DLSH_N_CALL ? within[i]->kids[0] : NULL;
        const int method =
            by && by->kind == DLSH_N_FIELD && n->span.start >= by->span.start && n->span.end <= by->span.end;
        if ((by && !method) || within[i]->kind == DLSH_N_FN || dlsh_is_loop(within[i])) return 0;
    }
    return 1;
}

/* x.flip([3]), hflip(x), rot90(x, 1, [2, 3]) */
static int see_turn(void *ctx, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth) {
    turned_by *t = ctx;
    const dlsh_node *by = n->kind == DLSH_N_CALL ? n->kids[0] : NULL;
    const char *name = by ? by->text : NULL;
    if (!name || is_once(n, within, depth) || !dlsh_is_word("flip|hflip|vflip|fliplr|flipud|rot90|rotate", name))
        return 0;
    if (!strcmp(name, "flip") && !(n->nkids > 1 && is_of_picture(n->kids[n->nkids - 1]))) return 0;
    if (is_for_all(t->e, file, n, within, depth)) return 0;
    *t = (turned_by){t->e, file, name, n->span.line};
    return 1;
}

/* The data set of digits or letters among the variables. */
static const dl_dataset *sided_data(const dlsh_examination *e, const char **by) {
    DLSH_EACH_HOLDER (h, &e->holders) {
        const dl_dataset *d = dlsh_unwrap(h->value, &dlsh_dataset_class);
        if (d && dl_dataset_ndim(d) == 3 && has_sides(d, by)) return d;
    }
    return NULL;
}

static const char *turned_digits(const char *turn) {
    return strstr(turn, "rot")    ? "6 turned is 9"
           : strstr(turn, "flip") ? "a mirrored 2 is no digit"
                                  : "6 turned is 9, a mirrored 2 is no digit";
}

static void find_turned_by_hand(dlsh_examination *e) {
    const char *by = "";
    turned_by t = {.e = e};
    const dl_dataset *d = sided_data(e, &by);
    if (!d || !dlsh_each_within(see_turn, &t)) return;
    dlsh_found(e, t.file, t.line, "crop and small rotations keep the class; leave this one out",
               "%s turns samples of one class into another class, or into none\n"
               "pictures of %s (%s) have a left and a right: %s",
               t.name, dl_dataset_name(d), by, turned_digits(t.name));
}

/* ---------------------------------------------------------------- by an option */

/* transforms="flip" of a trainer or a loader, with the data that they change. */
static void look_at_option(dlsh_examination *e, dl_dataset *d, const char *transforms, const char *file, int line) {
    const char *by = "", *turn = turns(transforms);
    int from = 0, to = 0;
    const int named = turn && has_sides(d, &by);
    const double share = turn && !named ? share_turned(d, transforms, turn, &from, &to) : 0;
    if (share < 0) dlsh_unchecked(e, "whether %s turns one class into another one could not be tried", turn);
    if (!named && !(share > 0.3)) {
        dlsh_passed(e, "%s", transforms);
        return;
    }
    dlsh_finding *f =
        dlsh_find_at(e, file, line, "crop and small rotations keep the class; leave this one out, or make it small");
    dlsh_cause(f, "the transform %s turns samples of one class into another class, or into none", turn);
    if (named)
        dlsh_evidence(f, "pictures of %s (%s) have a left and a right: %s", dl_dataset_name(d), by,
                      turned_digits(turn));
    else
        dlsh_evidence(f, "tried on samples: it brings %.0f%% of those of class %d to where samples of class %d are",
                      100 * share, from, to);
}

static const dlsh_node *text_of(const char *file, const dlsh_node *given) {
    const dlsh_node *made = given ? dlsh_made(file, given) : NULL;
    return made && made->kind == DLSH_N_STR ? made : NULL;
}

static void look_at_trainer(dlsh_examination *e) {
    dl_trainer_state st;
    dl_trainer_get(e->trainer, &st);
    if (!*st.transforms) return;
    const dl_source made = dlsh_optimizer_source(dl_trainer_optimizer(e->trainer));
    const char *turn = turns(st.transforms);
    const dlsh_node *given = dlsh_trainer_option(e, made.file, INT_MAX - 1, "transforms");
    const dlsh_node *text = given ? text_of(made.file, given) : NULL;
    const int line = text ? text->span.line : turn ? dlsh_script_line_with(e, made.file, turn) : 0;
    look_at_option(e, dl_trainer_dataset(e->trainer), st.transforms, made.file, line ? line : made.line);
}

/* ---------------------------------------------------------------- the check */

dl_status dlsh_check_transforms(dlsh_examination *e) {
    dlsh_dealt l;
    find_turned_by_hand(e);
    if (!e->bad) dlsh_find_turned(e);
    if (!e->bad) dlsh_find_changed(e);
    dlsh_find_unturned(e);
    if (e->trainer) look_at_trainer(e);
    DLSH_EACH_NODE (t) {
        const dlsh_node *given =
            dlsh_is_call_of(t.n, "loader") ? dlsh_argument_of(t.n, INT_MAX - 1, "transforms") : NULL;
        const dlsh_node *text = text_of(t.file, given);
        if (text && dlsh_data_named(e, t.file, dlsh_argument_of(t.n, 0, "data"), &l))
            look_at_option(e, l.data, text->text, t.file, text->span.line);
    }
    return DL_OK;
}
