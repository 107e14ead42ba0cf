/* Where the way between a loss and a parameter ends, from what the journal has of the last passes and from the text:
 * for `why zero` and `why none` of passes that were not recorded. */
#include "debug/doctor/text/joined.h"
#include "debug/path.h"

#include <stdlib.h>

#include "debug/doctor/doctor.h"
#include "debug/doctor/trace.h"

static int has(const unsigned long *seq, long n, unsigned long what) {
    for (long i = 0; what && i < n; i++)
        if (seq[i] == what) return 1;
    return 0;
}

/* From the parameter on to the first node that a gradient other than 0 came to. */
static const dl_journal_node *block_in(dlsh_pass p, const dl_tensor *x) {
    DLSH_FREED unsigned long *seq = malloc(((size_t)p.n + 1) * sizeof *seq);
    long n = 0;
    for (long i = p.n - 1; seq && i >= 0; i--) {
        const dl_journal_node *node = &p.at[i];
        int next = 0;
        for (int k = 0; k < node->nin && k < 8; k++)
            next |= node->in[k].there && (node->in[k].leaf == x || has(seq, n, node->in[k].from));
        if (!next) continue;
        if (node->out.gradient > 0) return node;
        seq[n++] = node->seq;
    }
    return NULL;
}

static dlsh_place place_of(const dl_journal_node *n) {
    return n ? (dlsh_place){n->op, dlsh_node_file(n), dlsh_node_line(n)} : (dlsh_place){0};
}

dlsh_place dlsh_path_blocked(dlsh_session *s, const dl_tensor *x) {
    dlsh_examination e = {.s = s};
    const dl_journal_row *r;
    const dl_journal_node *found = NULL;
    if (dlsh_read_journal(&e)) return dl_error_clear(), (dlsh_place){0};
    for (long i = 0; !found && (r = dlsh_row_next(&e, DL_DID_BACKWARD, &i));) found = block_in(dlsh_pass_of(r, 1), x);
    free(e.rows);
    return place_of(found);
}

/* The last pass: what an earlier loss was cut off from says nothing of this one. */
static dlsh_place cut_of_last(const dlsh_examination *e) {
    const dl_journal_row *r, *last = NULL;
    for (long i = 0; (r = dlsh_row_next(e, DL_DID_BACKWARD, &i));)
        if (!last || r->till > last->till) last = r;
    const int line = last ? dlsh_cut_line(e, last->file, last->line) : 0;
    const dl_source at = line ? dlsh_part_source((dl_source){last->file, line}) : (dl_source){0};
    return (dlsh_place){"", at.file, at.line};
}

dlsh_place dlsh_path_cut(dlsh_session *s) {
    dlsh_examination e = {.s = s};
    dl_status st = dlsh_texts_join();
    if (!st) st = dlsh_read_journal(&e);
    if (st) dl_error_clear();
    dlsh_holders_find(s, &e.holders);
    const dlsh_place at = st ? (dlsh_place){0} : cut_of_last(&e);
    dlsh_holders_free(&e.holders);
    free(e.rows);
    dlsh_texts_part();
    return at;
}
