/* A net that was trained before, or read from a file, and is trained on by a loss that compares it with another one and
 * with no data: both come nearer to each other, and the teacher forgets what it knows. */
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/syntax.h"

/* A node that compares, and marks of the nodes that each of its operands is made of. */
typedef struct sides {
    dlsh_pass p;
    const dl_journal_node *n;
    const char *of[2];
} sides;

static int uses(dlsh_pass p, const char *met, const void *leaf) {
    DLSH_EACH_OP (m, p)
        DLSH_EACH_OPERAND (v, m)
            if (met[m - p.at] && v->there && v->leaf == leaf) return 1;
    return 0;
}

/* Does a statement give a leaf its numbers from a file, or from a state that was kept? */
static int is_read(const dlsh_examination *e, dlsh_pass first, const dl_journal_value *v) {
    static const char reading[] = "load|load_state_dict|load_state|load_weights|load_safetensors|restore";
    const dl_source set = dlsh_set_at(e, first, v), at = set.file ? set : v->made;
    DLSH_EACH_BELOW (t, at.file ? dlsh_statement_at(at.file, at.line) : NULL) {
        const char *by = t.n->kind == DLSH_N_COMMAND && t.n->num.cmd ? t.n->num.cmd->name : NULL;
        if (dlsh_is_call_of(t.n, reading) || dlsh_is_word(reading, by)) return 1;
    }
    return 0;
}

/* The line of passes that trained a leaf, and not the other one, before those of a row, or before those of the same
 * place that have both; -1: it was read; 0: none did. */
static int trained_before(const dlsh_examination *e, const dl_journal_row *now, const dl_journal_value *v,
                          const void *other) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        const dlsh_pass p = dlsh_pass_of(r, 0);
        if (r->count > 2 && (r == now || r->till < now->at) && dlsh_pass_has(p, v->leaf) && !dlsh_pass_has(p, other))
            return r->line;
    }
    return -is_read(e, dlsh_pass_of(now, 0), v);
}

/* Does the loss compare what is made of a leaf with data, behind that comparison or beside it? */
static int meets_data(const sides *s, const void *leaf) {
    static const char comparing[] = "cross_entropy|nll_picked|logit_loss|balanced_logit_loss|probability_loss|sub|"
                                    "divergence|log_divergence|square_difference|huber_difference|gather";
    const dlsh_pass p = s->p;
    DLSH_EACH_OP (m, p) {
        const int data = m->in[1].constant, before = s->of[0][m - p.at] || s->of[1][m - p.at];
        if (before || !dlsh_op_is(m, comparing) || m->in[0].constant == data || !m->in[data].ndim) continue;
        DLSH_FREED char *met = dlsh_sources_of(p, dlsh_pass_source(p, m, !data), NULL);
        if (met && uses(p, met, leaf)) return 1;
    }
    return 0;
}

/* A leaf with a gradient of one side alone. */
static const dl_journal_value *next_of(const sides *s, int side, const dl_journal_value *behind) {
    int found = !behind;
    DLSH_EACH_OP (m, s->p)
        DLSH_EACH_OPERAND (v, m) {
            if (found && s->of[side][m - s->p.at] && v->there && v->leaf && v->gradient > 0 &&
                !uses(s->p, s->of[!side], v->leaf))
                return v;
            found |= v == behind;
        }
    return NULL;
}

/* The optimizer whose steps, in the course of passes, change a leaf; the row of these. */
static dl_optimizer *stepping(const dlsh_examination *e, const dl_journal_row *r, const void *leaf,
                              const dl_journal_row **step) {
    DLSH_EACH_ROW (now, e, DL_DID_STEP) {
        dl_optimizer *o = now->till > r->at && now->at < r->till ? dlsh_live_optimizer(e, now->what, NULL) : NULL;
        if (o && now->till + 8 > r->till && dlsh_optimizer_has(o, leaf)) return *step = now, o;
    }
    return NULL;
}

static void judge(dlsh_examination *e, const dl_journal_row *r, const sides *s, int side) {
    const dl_journal_value *taught = next_of(s, !side, NULL);
    const dl_journal_row *step = NULL;
    char name[120] = "", other[120] = "";
    for (const dl_journal_value *v = NULL; taught && (v = next_of(s, side, v));) {
        dl_optimizer *o = stepping(e, r, v->leaf, &step);
        const int before = o ? trained_before(e, r, v, taught->leaf) : 0;
        if (!before || trained_before(e, r, taught, v->leaf) || meets_data(s, v->leaf) ||
            !dlsh_live_leaf(e, v->leaf, name, sizeof name) || !dlsh_live_leaf(e, taught->leaf, other, sizeof other))
            continue;
        const int both = dlsh_optimizer_has(o, taught->leaf);
        const dl_source made = both ? dlsh_optimizer_place(e, o) : (dl_source){step->file, step->line};
        const dlsh_node *call = dlsh_call_on_line(made.file, made.line, dl_optimizer_kind(o));
        const dlsh_node *given = both && call && call->nkids > 1 ? dlsh_defined(made.file, call->kids[1]) : NULL;
        dlsh_found(e, made.file, made.line,
                   "the parameters of the net that learns alone, and a target without history: no_grad, or detach()",
                   "a net that was trained before is changed by what it teaches: %s\n"
                   "%s, which %s, is trained with %s%s; line %d compares both with each other, and the loss of line "
                   "%d compares it with no data",
                   both ? "the optimizer has its parameters, too" : "its own optimizer takes a step, too", name,
                   before < 0 ? "was read from a file" : dlsh_kept(e, "line %d trained before", before), other,
                   given ? dlsh_kept(e, ": line %d joins them", given->span.line) : "", s->n->line, r->line);
        return;
    }
}

/* Was a parameter of a pass trained, or read, before, so that it may teach? */
static int may_be_taught(const dlsh_examination *e, const dl_journal_row *r) {
    const dlsh_pass first = dlsh_pass_of(r, 0);
    DLSH_EACH_ROW (before, e, DL_DID_BACKWARD)
        if (before->till < r->at && before->count > 2) return 1;
    DLSH_EACH_OP (n, first)
        DLSH_EACH_OPERAND (v, n)
            if (v->there && v->leaf && is_read(e, first, v)) return 1;
    return first.n != dlsh_pass_of(r, 1).n;
}

void dlsh_find_changed_teacher(dlsh_examination *e) {
    static const char pairs[] = "sub|square_difference|huber_difference|difference_power|row_distances|mul|divergence|"
                                "log_divergence|cross_entropy|logit_loss|probability_loss|matmul";
    DLSH_EACH_ROW_WHILE (!e->bad, r, e, DL_DID_BACKWARD) {
        const dlsh_pass p = may_be_taught(e, r) ? dlsh_pass_of(r, 1) : (dlsh_pass){0};
        DLSH_EACH_OP (n, p) {
            if (!dlsh_op_is(n, pairs) || !n->in[0].from || !n->in[1].from || n->in[0].constant || n->in[1].constant)
                continue;
            DLSH_FREED char *left = dlsh_sources_of(p, dlsh_pass_source(p, n, 0), NULL);
            DLSH_FREED char *right = dlsh_sources_of(p, dlsh_pass_source(p, n, 1), NULL);
            const sides s = {p, n, {left, right}};
            for (int side = 0; left && right && side < 2 && !e->bad; side++) judge(e, r, &s, side);
        }
    }
}
