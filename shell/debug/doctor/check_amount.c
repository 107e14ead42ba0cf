/* How much was trained: trainings that end before each sample was seen, averages of weights that are still those of the
 * start, figures of a batch that has one sample. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/checks.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/trace.h"

/* The pass of a trainer, at the command that ran it last. */
static const dl_journal_row *pass_of_trainer(const dlsh_examination *e) {
    const dl_journal_row *last = NULL;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) last = !last || r->till > last->till ? r : last;
    return last;
}

/* Does the loss fall still, from the first half of the numbers that are kept to the second one? */
static int falls(const dl_journal_row *r) {
    const int half = r->ncurve / 2;
    double before = 0, behind = 0;
    for (int i = 0; i < half; i++) before += r->curve[i], behind += r->curve[r->ncurve - 1 - i];
    return half > 1 && before - behind > 0.05 * fabs(before);
}

static void find_short(dlsh_examination *e, const dl_trainer_state *st) {
    const dl_journal_row *r = pass_of_trainer(e);
    if (!r || st->step < 4 || st->epoch || !(st->step < st->batches) || r->count != st->step || !falls(r)) return;
    if (*st->stopped || st->diverged) return;
    dlsh_found(e, r->file, r->line, "train t epochs=15, or as many steps as several epochs have",
               "the training ended before each sample was seen once, and the loss still falls\n"
               "%ld steps were run, and an epoch has %ld: %.0f %% of the samples were never used; loss %.4g to %.4g",
               st->step, st->batches, 100 * (1 - (double)st->step / (double)st->batches), r->first, r->last);
}

/* ---------------------------------------------------------------- averages */

static const char average_remedy[] = "a smaller decay, as 0.99, or many more steps: about 5 / (1 - decay)";

static void find_behind(dlsh_examination *e, const char *file, int line, double decay, double steps) {
    const double left = pow(decay, steps);
    if (decay < 1 && left > 0.75)
        dlsh_found(e, file, line, average_remedy,
                   "the average of weights is far behind: %.0f %% of it are still the weights of the start\n"
                   "it keeps %.6g of itself at each of %.0f updates, and evaluations use it",
                   100 * left, decay, steps);
}

static void look_at_trainer(dlsh_examination *e) {
    dl_trainer_state st;
    dl_trainer_get(e->trainer, &st);
    const dl_source made = dlsh_optimizer_source(dl_trainer_optimizer(e->trainer));
    find_short(e, &st);
    if (!(st.ema > 0) || st.step < 4) return;
    const dlsh_node *n = dlsh_trainer_option(e, made.file, INT_MAX - 1, "ema");
    find_behind(e, made.file, n ? n->span.line : made.line, st.ema, (double)st.step);
}

/* Is the net run when all training is over? */
static int is_used_behind(const dlsh_examination *e, const void *net) {
    const dl_journal_row *last = pass_of_trainer(e);
    DLSH_EACH_ROW_WHILE (last, r, e, DL_DID_FORWARD)
        if (r->what == net && r->at > last->till) return 1;
    return 0;
}

/* avg.update_parameters(m, decay=0.9999) */
static void see_average(dlsh_examination *e, const char *file, const dlsh_node *n) {
    long steps = 0;
    const dlsh_node *decay = dlsh_is_method(n, "update_parameters") ? dlsh_argument_of(n, 1, "decay") : NULL;
    dl_module *m = decay ? dlsh_object_of(e, file, n->kids[0]->kids[0], &dlsh_net_class) : NULL;
    DLSH_EACH_ROW_WHILE (m, r, e, DL_DID_STEP) steps = r->count > steps ? r->count : steps;
    if (steps > 3 && is_used_behind(e, m))
        find_behind(e, file, n->span.line, dlsh_number_of(e, file, decay), (double)steps);
}

/* ---------------------------------------------------------------- batches of one sample */

static int has_batch_norm(dl_module *m) {
    if (strstr(dl_module_kind(m), "batchnorm")) return 1;
    for (int i = 0; i < dl_module_count(m); i++)
        if (has_batch_norm(dl_module_at(m, i))) return 1;
    return 0;
}

static int line_of_batch(const dlsh_examination *e, const dl_journal_row *r, const char **file) {
    dlsh_dealt l;
    *file = r->file;
    if (!e->trainer) return dlsh_loader_around(e, r->file, r->line, &l) ? l.line : r->line;
    const dl_source made = dlsh_optimizer_source(dl_trainer_optimizer(e->trainer));
    const dlsh_node *n = dlsh_trainer_option(e, made.file, INT_MAX - 1, "batch");
    *file = made.file;
    return n ? n->span.line : made.line;
}

/* Were all passes of one sample, and not only the last one, where the number of samples left one over? Each pass that
 * was looked at has added a row. */
static int has_one_sample(const dl_journal_row *r) {
    return r->ndim > 1 && r->shape[0] == 1 && r->x.ndim && r->x.shape[0] == 1 && r->nseen <= r->looked;
}

static void look_at_single(dlsh_examination *e, const dl_journal_row *r) {
    const char *file, *name = "the net";
    dl_module *m =
        r->training && r->grad && r->count >= 8 && has_one_sample(r) ? dlsh_live_net(e, r->what, &name) : NULL;
    if (!m || !has_batch_norm(m) || !dlsh_is_trained(e, r)) return;
    const int line = line_of_batch(e, r, &file);
    dlsh_found(e, file, line, "batches of 16 samples or more; or layernorm, groupnorm",
               "batches have one sample: batchnorm takes each sample's own mean away, and what tells samples apart\n"
               "%ld passes of %s at line %d had shape[0] = 1; in evaluation it uses averages over all of them",
               r->count, name, r->line);
}

/* ---------------------------------------------------------------- the check */

dl_status dlsh_check_amount(dlsh_examination *e) {
    if (e->trainer) look_at_trainer(e);
    DLSH_EACH_NODE (t) see_average(e, t.file, t.n);
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) look_at_single(e, r);
    return DL_OK;
}
