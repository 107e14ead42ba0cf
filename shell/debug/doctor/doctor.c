/* `doctor`: collects what is known, runs the table of checks, shows findings and what is well. */
#include "debug/doctor/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/debug.h"
#include "debug/doctor/checks.h"
#include "debug/doctor/text/joined.h"
#include "view/sink.h"

static const struct {
    const char *name, *fails, *passes; /* the last two: a line each */
    dl_status (*run)(dlsh_examination *e);
    int symptom, trial;
} checks[] = {
#define CHECK(function, name, fails, passes) {name, fails, passes, dlsh_check_##function, 0, 0},
#define TRIAL(function, name, fails, passes) {name, fails, passes, dlsh_check_##function, 0, 1},
#define SYMPTOM(function, name, fails, passes) {name, fails, passes, dlsh_check_##function, 1, 0},
#include "debug/doctor/checks.def"
};
enum { CHECKS = DLSH_COUNT(checks) };

/* ---------------------------------------------------------------- docs/doctor.md */

static void put_items(dlsh_buf *b, const char *lines, const char *before) {
    while (*lines) {
        const size_t n = strcspn(lines, "\n");
        dlsh_buf_printf(b, "- %s%.*s\n", before, (int)n, lines);
        lines += n + (lines[n] == '\n');
    }
}

void dlsh_doctor_page(dlsh_buf *b) {
    dlsh_buf_puts(
        b, "# What the doctor looks at\n\n"
           "`doctor` reports a `FAIL` or a `NOTE` for each finding, and then for each check of this page that found "
           "nothing, in this order, `PASS` with figures, or `----` with what kept it from looking. The names of "
           "those that have no more to tell are the end; see [debugging](debugging.md#what-is-wrong-with-a-training). "
           "This page is made from the table of checks. "
           "\"Not:\" is what looks like a finding and is none.\n");
    for (int i = 0; i < CHECKS; i++) {
        dlsh_buf_printf(b, "\n## %s\n\n", checks[i].name);
        put_items(b, checks[i].fails, "");
        put_items(b, checks[i].passes, "Not: ");
    }
}

/* ---------------------------------------------------------------- findings */

dlsh_finding *dlsh_find_at(dlsh_examination *e, const char *file, int line, const char *remedy) {
    if (!file) file = "";
    for (int i = 0; i < e->nfindings; i++) {
        const dlsh_finding *f = &e->findings[i];
        if (f->check == e->check && f->line == line && !strcmp(f->file, file)) return NULL;
    }
    dlsh_finding *more = dlsh_grow(e->findings, e->nfindings, &e->capfindings, sizeof *more);
    if (!more) return NULL;
    e->findings = more;
    e->bad++;
    more = &e->findings[e->nfindings++];
    *more = (dlsh_finding){.by = "doctor", .check = e->check, .file = file, .line = line, .remedy = remedy};
    return more;
}

/* A mistake that is made at several lines in the same words is told once, with all of them. Was it told? */
static int is_told(dlsh_examination *e, const char *file, int line, const char *cause, size_t n) {
    for (int i = 0; i < e->nfindings; i++) {
        dlsh_finding *f = &e->findings[i];
        const size_t used = strlen(f->evidence);
        if (f->check != e->check || f->line == line || strcmp(f->file, file) != 0 || strlen(f->cause) != n ||
            strncmp(f->cause, cause, n) != 0)
            continue;
        char last[32];
        const int k = snprintf(last, sizeof last, " line %d", line);
        if (used > (size_t)k && !strcmp(f->evidence + used - k, last)) return 1;
        snprintf(f->evidence + used, sizeof f->evidence - used,
                 strstr(f->evidence, "; the same in line ") ? ", line %d" : "; the same in line %d", line);
        return 1;
    }
    return 0;
}

dlsh_finding *dlsh_found(dlsh_examination *e, const char *file, int line, const char *remedy, const char *fmt, ...) {
    char text[1024];
    DLSH_FORMATTED(fmt, vsnprintf(text, sizeof text, fmt, ap));
    const int cause = (int)strcspn(text, "\n");
    dlsh_finding *f = is_told(e, file, line, text, (size_t)cause) ? NULL : dlsh_find_at(e, file, line, remedy);
    if (!f) return NULL;
    dlsh_cause(f, "%.*s", cause, text);
    dlsh_evidence(f, "%s", text + cause + (text[cause] != 0));
    return f;
}

const char *dlsh_kept(dlsh_examination *e, const char *fmt, ...) {
    char text[300];
    DLSH_FORMATTED(fmt, vsnprintf(text, sizeof text, fmt, ap));
    char **more = dlsh_grow(e->kept, e->nkept, &e->capkept, sizeof *more), *copy = more ? strdup(text) : NULL;
    if (more) e->kept = more;
    return copy ? e->kept[e->nkept++] = copy : "";
}

void dlsh_only_note(dlsh_examination *e, dlsh_finding *f) {
    if (!f) return;
    f->note = 1;
    e->bad--, e->nnotes++;
}

int dlsh_was_found(const dlsh_examination *e, const char *check, const char *word) {
    for (int i = 0; i < e->nfindings; i++)
        if (!strcmp(e->findings[i].check, check) && strstr(e->findings[i].cause, word)) return 1;
    return 0;
}

void dlsh_take_back(dlsh_examination *e, const char *check, const char *word) {
    int n = 0;
    for (int i = 0; i < e->nfindings; i++)
        if (strcmp(e->findings[i].check, check) != 0 || !strstr(e->findings[i].cause, word))
            e->findings[n++] = e->findings[i];
    e->nfindings = n;
}

void dlsh_mark_effects(dlsh_examination *e, const char *check) {
    for (int i = 0; i < e->nfindings; i++)
        if (!strcmp(e->findings[i].check, check)) e->findings[i].effect = 1;
}

static void tell_check(dlsh_examination *e, const char *what, char *text) {
    if (e->bad || e->told) return;
    dlsh_drop_sign_of_nan(text);
    dlsh_buf_printf(&e->passed, "%s  %s: %s\n", what, e->check, text);
    e->told = 1;
}

void dlsh_passed(dlsh_examination *e, const char *fmt, ...) {
    char text[300];
    DLSH_FORMATTED(fmt, vsnprintf(text, sizeof text, fmt, ap));
    tell_check(e, "PASS", text);
}

void dlsh_unchecked(dlsh_examination *e, const char *fmt, ...) {
    char text[300] = "not checked: ";
    const size_t n = strlen(text);
    DLSH_FORMATTED(fmt, vsnprintf(text + n, sizeof text - n, fmt, ap));
    tell_check(e, "----", text);
}

/* The checks that found nothing and have nothing to tell: their names, in lines of WIDTH. */
static void tell_silent(dlsh_examination *e, const char *const *name, int n) {
    enum { WIDTH = 110 };
    const char lead[] = "----  also checked, nothing found:";
    size_t column = strlen(lead);
    if (n) dlsh_buf_printf(&e->passed, "%s", lead);
    for (int i = 0; i < n; i++) {
        const size_t own = strlen(name[i]) + 2;
        const int turns = column + own > WIDTH;
        dlsh_buf_printf(&e->passed, "%s%s%s", turns ? "\n      " : " ", name[i], i < n - 1 ? ";" : "\n");
        column = turns ? 6 + own : column + own;
    }
}

/* ---------------------------------------------------------------- showing */

static void show_finding(const dlsh_examination *e, dlsh_sink *sink, const dlsh_finding *f) {
    int n;
    const char *text = dlsh_script_line(e, f->file, f->line, &n);
    while (text && n > 0 && *text == ' ') text++, n--;
    dlsh_put(sink, "%s  %s\n", f->note ? "NOTE" : "FAIL", f->check);
    dlsh_put(sink, "      cause     %s\n      evidence  %s\n", f->cause, f->evidence);
    if (f->line)
        dlsh_put(sink, "      line      %s%s%d%s%.*s\n", f->file, *f->file ? ":" : "", f->line, text ? "  " : "",
                 text ? n : 0, text ? text : "");
    if (f->remedy) dlsh_put(sink, "      remedy    %s\n", f->remedy);
}

static dl_status show_rows(const dlsh_examination *e, dlsh_sink *sink) {
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"check", 'l', ""}, {"cause", 'l', ""}, {"evidence", 'l', ""}, {"file", 'l', ""},
                                     {"line", 'r', ""}, {"remedy", 'l', ""}, {"level", 'l', ""});
    for (int i = 0; i < e->nfindings; i++) {
        const dlsh_finding *f = &e->findings[i];
        DLSH_TRY(DLSH_TABLE_ROW(&t, dlsh_string(f->check), dlsh_string(f->cause), dlsh_string(f->evidence),
                                dlsh_string(f->file), dlsh_int(f->line),
                                f->remedy ? dlsh_string(f->remedy) : dlsh_none(),
                                dlsh_string(f->note ? "note" : "fail")));
    }
    return dlsh_table_show(sink, &t, DL_OK, NULL);
}

static dl_status show(dlsh_examination *e, dlsh_sink *sink) {
    if (dlsh_sink_look(sink).mode != DLSH_MODE_TABLE) return show_rows(e, sink);
    for (int i = 0; i < e->nfindings; i++) show_finding(e, sink, &e->findings[i]);
    const int any = e->nfindings || e->spoke;
    dlsh_put(sink, "%s",
             any ? dlsh_buf_text(&e->passed)
                 : "nothing to look at yet: run some steps, or name a trainer, a net or a loss\n");
    return DL_OK;
}

/* ---------------------------------------------------------------- what is examined */

/* The only object of a class among the variables; NULL: none, or several. */
static void *only(const dlsh_examination *e, const dlsh_class *cls) {
    void *found = NULL;
    DLSH_EACH_HOLDER (h, &e->holders) {
        void *self = dlsh_unwrap(h->value, cls);
        if (self && found && self != found) return NULL;
        if (self) found = self;
    }
    return found;
}

static void choose(dlsh_examination *e, const dlsh_args *a) {
    const dlsh_value *what = dlsh_arg(a, "what");
    e->trainer = what ? dlsh_unwrap(*what, &dlsh_trainer_class) : only(e, &dlsh_trainer_class);
    e->net = what ? dlsh_unwrap(*what, &dlsh_net_class) : only(e, &dlsh_net_class);
    dl_optimizer *o = what ? dlsh_unwrap(*what, &dlsh_optimizer_class) : NULL;
    if (o) e->net = dlsh_probe_find_net(&e->holders, o);
    if (!e->net && what && what->type == DLSH_TENSOR) e->net = only(e, &dlsh_net_class);
    if (e->trainer) e->net = dl_trainer_model(e->trainer);
}

static int has_passes(const dlsh_examination *e) {
    long i = 0;
    return dlsh_row_next(e, DL_DID_BACKWARD, &i) != NULL;
}

/* A pass on copies, which counts where nothing has run yet. */
static dl_status rehearse(dlsh_examination *e) {
    DLSH_TRY(dlsh_probe_forward(&e->probe));
    return e->probe.loss && !has_passes(e) ? dlsh_probe_backward(&e->probe, e->net) : DL_OK;
}

static dl_status begin_probe(dlsh_examination *e) {
    dl_status st =
        e->trainer ? dlsh_probe_trainer(&e->probe, e->trainer, 16) : dlsh_probe_net(&e->holders, &e->probe, e->net, 16);
    if (!st) st = rehearse(e);
    e->probed = !st;
    if (!st && !has_passes(e)) st = dlsh_read_journal(e);
    if (st) dl_error_clear();
    return DL_OK;
}

/* Gradients of a loss whose pass has not been run; those of the leaves are put back. */
static dl_status trace_loss(dlsh_examination *e, dl_tensor *loss) {
    DLSH_ENDED(dl_tape_free) dl_tape *tape = dl_requires_grad(loss) && dl_numel(loss) == 1 ? dl_tape_of(loss) : NULL;
    if (!tape) return dl_error_clear(), DL_OK;
    DLSH_FREED dl_tensor **had = calloc((size_t)tape->n + 1, sizeof(dl_tensor *));
    dl_status st = had ? DL_OK : dlsh_no_memory("gradients");
    for (long i = 0; !st && i < tape->n; i++) {
        if (!tape->nodes[i].leaf) continue;
        had[i] = dl_ref(dl_grad(tape->nodes[i].leaf));
        dl_set_grad(tape->nodes[i].leaf, NULL);
    }
    if (!st && dl_backward(loss, NULL, 1, 0)) dl_error_clear();
    for (long i = 0; had && i < tape->n; i++) {
        if (tape->nodes[i].leaf) dl_set_grad(tape->nodes[i].leaf, had[i]);
        dl_unref(had[i]);
    }
    return st ? st : dlsh_read_journal(e);
}

/* A finding by its check and a word of its cause, and what follows from it. */
static const struct {
    const char *check, *word, *effect, *effect_word;
} explains[] = {
    {"what the loss is given", "never reached", "gradients get through", ""},
    {"what the loss is given", "never reached", "dead and saturated units", ""},
    {"what the loss is given", "never reached", "the net uses its input", ""},
    {"gradients get through", "the wrong sign", "what the loss is given", "multiplied by 0"},
    {"sign and floor of the loss", "no floor", "gradients get through", "beyond its limits"},
    {"sign and floor of the loss", "variance", "gradients get through", ""},
    {"what the loss is given", "over dimension", "the initial loss", ""},
    {"independence of samples", "mixes the samples", "numbers are finite", "a single element"},
    {"the data", "", "the initial loss", ""},
    {"the data", "", "size of updates", "is too large"},
    {"the data", "some are here", "numbers are finite", ""},
    {"gradients by depth", "activations grow", "size of updates", ""},
    {"the initial loss", "", "size of updates", "clipping cuts"},
    {"updates written by hand", "the gradient is smaller", "gradients get through", ""},
    {"updates written by hand", "the gradient is smaller", "dead and saturated units", ""},
    {"updates written by hand", "grows with them", "sign and floor of the loss", ""},
    {"updates written by hand", "grows with them", "numbers are finite", ""},
    {"updates written by hand", "grows with them", "dead and saturated units", ""},
    {"parts of the loss", "summed over the batch", "dead and saturated units", ""},
    {"what the program means", "random numbers, made anew", "batches and evaluations", ""},
    {"gradients get through", "codes that were chosen", "parts of the loss", "outweighs"},
    {"targets of the loss", "by what it teaches", "dead and saturated units", ""},
    {"gradients get through", "without history", "parts of the loss", ""},
    {"parameters and optimizers", "no optimizer trains", "size of updates", "is too large"},
    {"parameters and optimizers", "without their history", "parts of the loss", ""},
    {"parameters and optimizers", "without their history", "layers reach the data", ""},
    {"parameters and optimizers", "without their history", "batches and evaluations", "not scaled"},
    {"training and evaluation mode", "is trained in evaluation mode", "the initial loss", ""},
};

static void mark_consequences(dlsh_examination *e) {
    for (size_t k = 0; k < DLSH_COUNT(explains); k++)
        for (int i = 0; i < e->nfindings && dlsh_was_found(e, explains[k].check, explains[k].word); i++)
            if (!strcmp(e->findings[i].check, explains[k].effect) &&
                strstr(e->findings[i].cause, explains[k].effect_word))
                e->findings[i].effect = 1;
}

/* Causes first; notes, and what may follow from causes, are told behind. */
static void put_notes_last(dlsh_examination *e) {
    int causes = 0;
    mark_consequences(e);
    for (int i = 0; i < e->nfindings; i++) causes += !e->findings[i].note && !e->findings[i].effect;
    for (int i = 0, left = e->nfindings; causes && left > 0; left--) {
        if (!e->findings[i].effect && !e->findings[i].note) {
            i++;
            continue;
        }
        dlsh_finding f = e->findings[i];
        if (!f.note) f.note = 1, e->nnotes++;
        if (f.effect) f.remedy = "first what is told above, which this may follow from";
        memmove(&e->findings[i], &e->findings[i + 1], (size_t)(e->nfindings - i - 1) * sizeof f);
        e->findings[e->nfindings - 1] = f;
    }
}

static dl_status run_checks(dlsh_examination *e) {
    char explained[] = "not checked: a FAIL may explain it";
    const char *silent[CHECKS];
    int nsilent = 0;
    for (int i = 0; i < CHECKS; i++) {
        const int told = e->nfindings > e->nnotes, from = e->nfindings;
        const size_t passed = e->passed.n;
        const int follows = checks[i].symptom && told && checks[i].run != dlsh_check_nonfinite;
        e->check = checks[i].name, e->bad = e->told = 0;
        if (!follows) DLSH_TRY(checks[i].trial ? dlsh_try_subjects(e, checks[i].run) : checks[i].run(e));
        e->spoke |= e->told;
        if (e->bad && e->passed.s) e->passed.s[e->passed.n = passed] = 0; /* another loss was well */
        if (e->nfindings == from && follows) tell_check(e, "----", explained);
        if (e->nfindings == from && !e->bad && !e->told) silent[nsilent++] = checks[i].name;
        for (int k = from; checks[i].symptom && told && k < e->nfindings; k++)
            if (!e->findings[k].own) dlsh_only_note(e, &e->findings[k]);
        DLSH_TRY(dlsh_check_interrupt());
    }
    tell_silent(e, silent, nsilent);
    put_notes_last(e);
    return DL_OK;
}

static dl_status doctor_run(const dlsh_args *a) {
    const dlsh_value *what = dlsh_arg(a, "what");
    dlsh_examination e = {.s = dlsh_arg_session(a)};
    dl_nan_policy policy = dl_nan_policy_get();
    dl_nan_policy_set(DL_NAN_OFF);
    dl_status st = dlsh_texts_join();
    if (!st) st = dlsh_read_journal(&e);
    if (!st) dlsh_holders_find(e.s, &e.holders);
    choose(&e, a);
    dl_journal *own = dl_journal_new(), *former = dl_journal_swap(own);
    if (!st && what && what->type == DLSH_TENSOR && !has_passes(&e)) st = trace_loss(&e, what->as.tensor);
    dl_journal_swap(former);
    if (!st && e.net && dl_module_is_built(e.net)) st = begin_probe(&e);
    if (!st && !what) dlsh_subjects_find(&e);
    if (!st) st = run_checks(&e);
    dlsh_subjects_free(&e);
    if (e.probe.journal) dlsh_probe_end(&e.probe);
    dl_journal_free(own);
    dl_nan_policy_set(policy);
    for (int i = 0; i < e.nfindings; i++) dlsh_part_finding(&e.findings[i]);
    dlsh_part_text(&e.passed);
    dlsh_texts_part();
    for (int i = 0; !st && i < e.nfindings; i++)
        if (!e.findings[i].note) dlsh_finding_keep(e.s, &e.findings[i]);
    if (!st) st = show(&e, dlsh_arg_sink(a));
    dlsh_holders_free(&e.holders);
    dlsh_buf_free(&e.passed);
    for (int i = 0; i < e.nkept; i++) free(e.kept[i]);
    free(e.kept);
    free(e.findings);
    free(e.rows);
    return st;
}

const dlsh_command doctor_commands[] = {
    DLSH_ROW(
        "doctor", DLSH_REPORT, doctor_run, "doctor [TRAINER | NET | OPTIMIZER | LOSS]",
        "Says what is wrong with a training: for each finding the cause, the evidence, the line of the source and a "
        "remedy, and PASS with figures for what is well. It knows trainers and loops written by hand, from what they "
        "did and from trials on copies; nothing of what it looks at changes. It looks at the loss and its targets, at "
        "gradients and what cuts them off, at optimizers and the size of updates, at shapes and samples that influence "
        "each other, at data, batches and evaluations, at modes, masks and sequences, at copies and averages, at "
        "figures that the program computes, and at weights and units by depth; docs/doctor.md lists the checks. What "
        "may follow from a finding is told behind it, as a note. What the text alone shows (lint) is said without it, "
        "before the text runs: the gradient of a tensor that was detached, steps in a loop that never zeroes "
        "gradients.",
        DLSH_PARAMS({"what", .want = "trainer|net|optimizer|tensor", .flags = DLSH_OPTIONAL,
                     .doc = "a trainer, a net, its optimizer or a loss; all that ran when left out"}),
        .examples = "net m { linear 8 -> relu -> linear 2 -> softmax }\nx = randn(16, 4); m(x); o = sgd(m, lr=0.1)\n"
                    "for i in range(3) { l = cross_entropy(m(x), randint(0, 2, [16])); backward l; o.step() }\n"
                    "doctor l"),
    {0}};
