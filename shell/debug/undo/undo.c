/* `undo`: takes back what the last statements changed. */
#include "debug/undo/undo.h"

#include "debug/dbg.h"

#include <stdio.h>
#include <string.h>

#include "lang/eval/interp.h"
#include "view/sink.h"

enum { MOST = 100 };

/* The statements, the newest last, and the one that runs. */
static struct {
    dlsh_session *session; /* whose they are */
    dlsh_undo_entry kept[MOST], now;
    int n, running, undid; /* undid: the statement took something back, and is no entry itself */
    size_t bytes;
    unsigned long budget;
    int chosen;
} history;

unsigned long dlsh_undo_budget_get(void) { return history.budget; }

static void drop_oldest(void) {
    history.bytes -= history.kept[0].bytes;
    dlsh_undo_entry_free(&history.kept[0]);
    memmove(history.kept, history.kept + 1, (size_t)--history.n * sizeof *history.kept);
}

void dlsh_undo_budget_set(unsigned long bytes) {
    history.budget = bytes;
    history.chosen = 1;
    while (history.n && (history.bytes > bytes || !bytes)) drop_oldest();
}

void dlsh_undo_for_people(void) {
    if (!history.chosen) history.budget = 64UL << 20;
}

/* ---------------------------------------------------------------- around a statement */

static void begin_statement(dlsh_session *s, const dlsh_node *n) {
    if (!history.budget) return;
    if (history.session != s)
        while (history.n) drop_oldest();
    history.session = s;
    history.now = (dlsh_undo_entry){0};
    const char *text = s->unit->text + n->span.start;
    int length = n->span.end - n->span.start, line = (int)strcspn(text, "\n");
    snprintf(history.now.text, sizeof history.now.text, "%.*s", length < line ? length : line, text);
    history.running = 1, history.undid = 0;
    if (dlsh_undo_is_deep(n)) dlsh_undo_watch_begin(s);
    dlsh_undo_statement(s, &history.now, n);
    for (int i = 0; i < history.now.n; i++) history.now.parts[i].before = dlsh_undo_stamp(s, &history.now.parts[i]);
}

/* What the statement left as it was needs no taking back. */
static void forget_unchanged(dlsh_session *s, dlsh_undo_entry *e) {
    int left = 0;
    for (int i = 0; i < e->n; i++) {
        dlsh_undo_part *p = &e->parts[i];
        p->after = dlsh_undo_stamp(s, p);
        if (p->after == p->before)
            dlsh_undo_part_free(p);
        else
            e->parts[left++] = *p;
    }
    e->n = left;
}

static void end_statement(dlsh_session *s, int failed) {
    dlsh_undo_entry *e = &history.now;
    if (!history.running) return;
    history.running = 0;
    dl_error before;
    dl_status had = dl_error_take(&before);
    forget_unchanged(s, e);
    char name[64];
    if (dlsh_undo_watch_end(e, name, sizeof name) && !*e->missing)
        snprintf(e->missing, sizeof e->missing,
                 "it changed %s where that is not kept, as in a function or a backward pass", name);
    if (*e->missing && !failed && history.budget) {
        for (int i = 0; i < e->n; i++) dlsh_undo_part_free(&e->parts[i]);
        e->n = 0, e->bytes = 0;
    }
    if (history.budget && !history.undid && (e->n || (*e->missing && !failed))) {
        if (history.n == MOST) drop_oldest();
        history.kept[history.n++] = *e;
        history.bytes += e->bytes;
        while (history.bytes > history.budget) drop_oldest();
    } else
        dlsh_undo_entry_free(e);
    *e = (dlsh_undo_entry){0};
    if (had) dl_error_put(&before);
}

void dlsh_undo_services(dlsh_services *to) { to->begin_statement = begin_statement, to->end_statement = end_statement; }

/* ---------------------------------------------------------------- steps */

static int counts(const dlsh_session *s) { return history.running && history.session == s; }

void dlsh_undo_optimizer(dlsh_session *s, dl_optimizer *o) {
    int first = history.now.n;
    if (!counts(s)) return;
    dlsh_undo_note_optimizer(&history.now, o);
    for (int i = first; i < history.now.n; i++) history.now.parts[i].before = dlsh_undo_stamp(s, &history.now.parts[i]);
}

void dlsh_undo_trainer(dlsh_session *s, dl_trainer *t) {
    int first = history.now.n;
    if (!counts(s)) return;
    dlsh_undo_note_trainer(&history.now, t);
    if (history.now.n > first) history.now.parts[first].before = dlsh_undo_stamp(s, &history.now.parts[first]);
}

/* ---------------------------------------------------------------- the command */

/* Statements before it find what they left: a restored tensor has another version, a result is another tensor. */
static void restamp(dlsh_session *s, const dlsh_undo_entry *e) {
    for (int i = 0; i < history.n; i++)
        for (int k = 0; k < history.kept[i].n; k++) {
            dlsh_undo_part *q = &history.kept[i].parts[k];
            for (int j = 0; j < e->n; j++) {
                const dlsh_undo_part *p = &e->parts[j];
                int same = p->kind == q->kind && (p->kind == DLSH_UNDO_CONTENTS || !strcmp(p->name, q->name));
                if (same && q->after == p->before) q->after = dlsh_undo_stamp(s, q);
            }
        }
}

static dl_status undo_one(const dlsh_args *a) {
    dlsh_session *s = dlsh_arg_session(a);
    history.undid = 1;
    if (dlsh_dbg.active || dlsh_at_error_stands())
        return dlsh_fail(DL_ERR_STATE, "quit, then undo", "a statement is not done: undo takes back those before it%s",
                         dlsh_dbg.active ? "; back goes back in the walk" : "");
    if (!history.budget)
        return dlsh_fail(DL_ERR_STATE, "set undo 64MB, before the statements", "nothing is kept to be taken back");
    if (!history.n || history.session != s)
        return dlsh_fail(DL_ERR_STATE, "assignments and steps are kept, from the setting undo on",
                         "there is nothing to take back");
    DLSH_SCOPED(dlsh_undo_entry_free) dlsh_undo_entry e = history.kept[--history.n];
    history.bytes -= e.bytes;
    DLSH_TRY(dlsh_undo_apply(s, &e));
    restamp(s, &e);
    dlsh_put(dlsh_arg_sink(a), "taken back: %s\n", e.text);
    return DL_OK;
}

static dl_status undo_run(const dlsh_args *a) {
    long n = dlsh_given(a, "n") ? dlsh_arg_int(a, "n") : 1;
    if (n < 1) return dlsh_arg_fail(a, "n", DL_ERR_VALUE, "undo 2", "a number of statements is at least 1, not %ld", n);
    for (long i = 0; i < n; i++) DLSH_TRY(undo_one(a));
    return DL_OK;
}

const dlsh_command undo_commands[] = {
    DLSH_ROW(
        "undo", DLSH_ACTION, undo_run, "undo [N]",
        "Takes back the last assignment or step, or the last N: of a variable, an element, a field, a tensor changed "
        "in place (x += y, x.zero_(), also in no_grad { }), an optimizer (o.step()), a trainer (step t, train t: by "
        "rewind). A loop and a branch count as one statement. It keeps what statements at the prompt or the top level "
        "of "
        "a cell changed, up to the memory of the setting undo, in scripts after set undo 64MB. Of functions steps are "
        "kept; where one changed a tensor in place, and of backward and seed, undo refuses, and the next undo goes on "
        "before it. A result comes back without its history, and nets, "
        "trainers and runs that a variable "
        "held before are not kept alive.",
        DLSH_PARAMS({"n", .want = "int", .flags = DLSH_OPTIONAL, .doc = "how many statements; 1 when left out"}),
        .examples = "set undo 64MB\nx = ones(3); x[0] = 5; undo; x\nw = param(ones(2)); o = sgd([w], lr=0.1)\n"
                    "backward sum(w); o.step(); undo; w"),
    {0}};
