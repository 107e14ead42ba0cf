/* Mistakes that the recording shows: the answer is another tensor of the passes, or lacks the mask of an op. */
#include <stdio.h>

#include "debug/debug.h"
#include "debug/learn/mistakes.h"
#include "debug/walk.h"
#include "dlcore/create.h"

/* Is operand k of the rule the leaf whose gradient is asked for? */
static int is_leaf(const dlsh_guess *g, const dl_recorded *c, int k) {
    return g->leaf && c->in[k] && !c->from[k] && dl_data(c->in[k]) == dl_data(g->leaf) &&
           dl_numel(c->in[k]) == dl_numel(g->leaf);
}

int dlsh_guess_contributions(const dlsh_guess *g) {
    int n = 0;
    dl_recorded c;
    for (long i = 0; i < dl_recording_count(); i++)
        for (int k = 0; !dl_recording_at(i, &c) && c.gradient && k < c.nin; k++) n += c.out[k] && is_leaf(g, &c, k);
    return n;
}

void dlsh_hint_of_places(const dlsh_guess *g, dlsh_buf *out) {
    const int all = dlsh_guess_contributions(g);
    dl_recorded c;
    char place[300];
    int n = 0;
    for (long i = 0; i < dl_recording_count(); i++)
        for (int k = 0; !dl_recording_at(i, &c) && c.gradient && k < c.nin; k++) {
            if (!c.out[k] || !is_leaf(g, &c, k) || n++ == 4) continue;
            dlsh_buf_printf(out, "%s%s", n > 1 ? ", " : "it goes into ", dlsh_debug_place(&c, place, sizeof place));
        }
    if (!n) return;
    if (all > 1)
        dlsh_buf_printf(out, "; each of the %d uses gives a contribution, and they are added", all);
    else
        dlsh_buf_puts(out, "; its gradient is that of the result there, times the derivative of that op");
}

/* Is the answer this tensor? */
static int is(const dlsh_guess *g, dl_tensor *t) {
    DLSH_OWNED dl_tensor *p =
        t && dl_numel(t) == dl_numel(g->answer) && dl_ndim(t) == dl_ndim(g->answer) ? dlsh_debug_plain(t) : NULL;
    int same = p && dlsh_guess_equal(p, g->answer, 1);
    if (!p) dl_error_clear();
    return same;
}

/* The tensors of one gradient rule. */
static void look_at_rule(const dlsh_guess *g, const dl_recorded *c, dlsh_buf *out) {
    char place[300];
    int to_leaf = 0;
    dlsh_debug_place(c, place, sizeof place);
    for (int k = 0; k < c->nin && !out->n; k++) {
        if (!is_leaf(g, c, k)) continue;
        DLSH_OWNED dl_tensor *local = NULL;
        int n = dlsh_guess_contributions(g);
        to_leaf = 1;
        if (n > 1 && is(g, c->out[k]))
            dlsh_buf_printf(out, "it is one of %d contributions, that of %s: all that use a tensor add to its gradient",
                            n, place);
        else if (!dlsh_debug_local(c, k, &local) && is(g, local))
            dlsh_buf_printf(out, "it is the derivative of %s alone: it is multiplied by the gradient that comes in",
                            place);
    }
    if (!out->n && is(g, c->grad))
        dlsh_buf_printf(out, "it is the gradient of the result of %s%s", place,
                        to_leaf ? ": what is missing is that op's own rule" : "");
    for (int k = 0; k < c->nin && !out->n; k++) {
        const char *name = dlsh_nodewalk_name(g->session, c, k);
        if (is(g, c->in[k]))
            dlsh_buf_printf(
                out, *name ? "it is the value of %.60s, not its gradient" : "it is an operand of %s, not a gradient",
                *name ? name : place);
    }
}

dl_status dlsh_mistake_of_place(const dlsh_guess *g, dlsh_buf *out) {
    dl_recorded c;
    for (long i = dl_recording_count() - 1; g->leaf && i >= 0 && !out->n; i--)
        if (!dl_recording_at(i, &c) && c.gradient) look_at_rule(g, &c, out);
    return dlsh_check_interrupt();
}

/* Does the rule give 0 somewhere although a gradient came in? */
static int masks(const dl_recorded *c) {
    for (int k = 0; k < c->nin; k++) {
        if (!c->grad || !c->out[k] || dl_numel(c->out[k]) != dl_numel(c->grad)) continue;
        DLSH_OWNED dl_tensor *in = dlsh_debug_plain(c->grad), *to = dlsh_debug_plain(c->out[k]);
        const double *a = in ? dl_data(in) : NULL, *b = to ? dl_data(to) : NULL;
        int found = 0;
        for (long i = 0; a && b && i < dl_numel(in) && !found; i++) found = a[i] != 0 && b[i] == 0;
        if (!a || !b) dl_error_clear();
        if (found) return 1;
    }
    return 0;
}

dl_status dlsh_mistake_of_mask(const dlsh_guess *g, dlsh_buf *out) {
    const double *t = dl_data(g->truth), *a = dl_data(g->answer);
    long more = 0, n = dl_numel(g->truth);
    DLSH_OWNED dl_tensor *where = dl_zeros(dl_shape(g->truth), dl_ndim(g->truth), DL_F64, 0);
    if (!where) return dl_failed();
    for (long i = 0; i < n; i++) {
        more += t[i] == 0 && a[i] != 0;
        ((double *)dl_data(where))[i] = t[i] == 0 ? 0 : a[i];
    }
    int only = more && more < n && dlsh_guess_equal(g->truth, where, 1);
    if (!only) return DL_OK;
    dlsh_buf_printf(out, "%ld element%s 0: no gradient passes there", more, more == 1 ? " is" : "s are");
    dl_recorded c;
    char place[300];
    for (long i = dl_recording_count() - 1; i >= 0; i--)
        if (!dl_recording_at(i, &c) && c.gradient && masks(&c)) {
            dlsh_buf_printf(out, ", by the rule of %s", dlsh_debug_place(&c, place, sizeof place));
            break;
        }
    return DL_OK;
}
