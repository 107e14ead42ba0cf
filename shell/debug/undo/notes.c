/* What a statement is about to change, read off its tree: targets of assignments, and calls that write in place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/undo/undo.h"
#include "lang/eval/interp.h"

static void give_up(dlsh_undo_entry *e, const char *why, const char *name) {
    if (!*e->missing) snprintf(e->missing, sizeof e->missing, why, name);
}

/* ---------------------------------------------------------------- values */

/* Can it be kept without holding more than its elements? Not what has an end of its own, as a run, and no history. */
static int is_plain(dlsh_value v, size_t *bytes, int depth) {
    int list = v.type == DLSH_LIST;
    if (v.type == DLSH_TENSOR) return *bytes += dlsh_undo_bytes(v.as.tensor), dl_is_leaf(v.as.tensor);
    if (v.type == DLSH_STR) *bytes += v.as.str->len;
    if (!list && v.type != DLSH_RECORD) return v.type != DLSH_HANDLE && v.type != DLSH_METHOD;
    int n = list ? v.as.list->n : v.as.record->n;
    const dlsh_value *items = list ? v.as.list->items : v.as.record->values;
    *bytes += (size_t)n * sizeof *items;
    for (int i = 0; i < n; i++)
        if (depth > 20 || !is_plain(items[i], bytes, depth + 1)) return 0;
    return 1;
}

/* Keeps a former value in the part; of a result the values alone. */
static void keep_value(dlsh_undo_entry *e, dlsh_undo_kind kind, const char *name, dlsh_value owner, dlsh_value old) {
    size_t bytes = 0;
    int result = old.type == DLSH_TENSOR && !dl_is_leaf(old.as.tensor);
    if (!is_plain(old, &bytes, 0) && !result) {
        char what[100];
        snprintf(what, sizeof what, "%.40s was %.40s", name,
                 old.type == DLSH_LIST || old.type == DLSH_RECORD ? "a list of these" : dlsh_a(old));
        return give_up(e, "nets, trainers, runs and results with a history are not kept alive, and %s", what);
    }
    dlsh_undo_part *p = dlsh_undo_part_new(e, kind, name, bytes);
    if (!p) return;
    p->owner = dlsh_ref(owner);
    p->without_history = result;
    p->old = result ? dlsh_tensor(dl_detach(old.as.tensor)) : dlsh_ref(old);
}

static void keep_contents(dlsh_undo_entry *e, const char *name, dl_tensor *t) {
    for (int i = 0; i < e->n; i++)
        if (e->parts[i].kind == DLSH_UNDO_CONTENTS && e->parts[i].owner.as.tensor == t) return;
    dlsh_undo_part *p = dlsh_undo_part_new(e, DLSH_UNDO_CONTENTS, name, dlsh_undo_bytes(t));
    dl_tensor *copy = p ? dlsh_undo_copy(t) : NULL;
    if (p && !copy) {
        dl_error_clear();
        e->n--;
        return give_up(e, "there was no memory to keep %s", name);
    }
    if (!p) return;
    p->owner = dlsh_tensor(dl_ref(t));
    p->old = dlsh_tensor(copy);
}

static void keep_items(dlsh_undo_entry *e, const char *name, dlsh_value owner) {
    int list = owner.type == DLSH_LIST, n = list ? owner.as.list->n : owner.as.record->n;
    dlsh_undo_part *p = dlsh_undo_part_new(e, DLSH_UNDO_ITEMS, name, (size_t)n * sizeof(dlsh_value));
    if (!p) return;
    p->owner = dlsh_ref(owner);
    p->old = list ? dlsh_new_list(n) : dlsh_new_record();
    dl_status st = dlsh_failed(p->old) ? dl_failed() : DL_OK;
    for (int i = 0; !st && i < n; i++)
        st = list ? dlsh_list_push(p->old.as.list, dlsh_ref(owner.as.list->items[i]))
                  : dlsh_record_set(p->old.as.record, owner.as.record->keys[i], dlsh_ref(owner.as.record->values[i]));
    if (!st) return;
    dl_error_clear();
    give_up(e, "there was no memory to keep %s", name);
}

/* ---------------------------------------------------------------- targets */

/* Names, fields, and elements with plain indices: to look at them changes nothing. */
static int is_quiet(const dlsh_node *n) {
    switch (n->kind) {
    case DLSH_N_NAME:
    case DLSH_N_INT:
    case DLSH_N_STR:
    case DLSH_N_ELLIPSIS: return 1;
    case DLSH_N_FIELD:
    case DLSH_N_INDEX:
    case DLSH_N_SLICE:
    case DLSH_N_UNARY: break;
    default: return 0;
    }
    for (int i = 0; i < n->nkids; i++)
        if (n->kids[i] && !is_quiet(n->kids[i])) return 0;
    return 1;
}

/* The value of a quiet expression; VOID where it has none, which the statement itself will say. */
static dlsh_value look(dlsh_session *s, const dlsh_node *n) {
    dlsh_value v;
    if (!dlsh_eval(s, n, &v)) return v;
    dl_error_clear();
    dlsh_place_clear(s);
    return dlsh_void();
}

static const char *text_of(dlsh_session *s, const dlsh_node *n, char *buf, size_t size) {
    int length = n->span.end - n->span.start;
    snprintf(buf, size, "%.*s", length, s->unit->text + n->span.start);
    return buf;
}

static void note_field(dlsh_session *s, dlsh_undo_entry *e, const dlsh_node *n, dlsh_value owner) {
    dlsh_value old;
    char name[64];
    text_of(s, n, name, sizeof name);
    if (owner.type == DLSH_RECORD) return keep_items(e, name, owner);
    if (owner.type == DLSH_TENSOR && !strcmp(n->text, "data")) return keep_contents(e, name, owner.as.tensor);
    if (dlsh_get_field(s, owner, n->text, &old)) {
        dl_error_clear();
        return give_up(e, "the former value of %s is not known", name);
    }
    size_t bytes = 0;
    if (owner.type == DLSH_HANDLE && !is_plain(old, &bytes, 0))
        give_up(e, "%s is not a number, a text or a tensor", name);
    else
        keep_value(e, DLSH_UNDO_FIELD, n->text, owner, old);
    dlsh_drop(old);
}

/* A FIELD or INDEX. */
static void note_part(dlsh_session *s, dlsh_undo_entry *e, const dlsh_node *n) {
    char name[64];
    if (!is_quiet(n->kids[0]))
        return give_up(e, "what %s changes is known only once it has run", text_of(s, n, name, sizeof name));
    DLSH_DROPPED dlsh_value owner = look(s, n->kids[0]);
    text_of(s, n->kids[0], name, sizeof name);
    if (owner.type == DLSH_VOID || dlsh_callable(owner)) return; /* the statement makes it, or fails */
    if (n->kind == DLSH_N_FIELD)
        note_field(s, e, n, owner);
    else if (owner.type == DLSH_TENSOR)
        keep_contents(e, name, owner.as.tensor);
    else if (owner.type == DLSH_LIST || owner.type == DLSH_RECORD)
        keep_items(e, name, owner);
    else
        give_up(e, "elements of %s are not kept", name);
}

/* A target that holds a tensor, which `op=` writes to in place. */
static int note_update(dlsh_session *s, dlsh_undo_entry *e, const dlsh_node *n) {
    char name[64];
    int tensor = 0;
    if (!is_quiet(n)) return 0;
    if (n->kind == DLSH_N_INDEX) { /* of a tensor an element, which note_part sees */
        dlsh_value owner = look(s, n->kids[0]);
        tensor = owner.type == DLSH_TENSOR;
        dlsh_drop(owner);
        if (tensor) return 0;
    }
    DLSH_DROPPED dlsh_value v = look(s, n);
    tensor = v.type == DLSH_TENSOR;
    if (tensor) keep_contents(e, text_of(s, n, name, sizeof name), v.as.tensor);
    return tensor;
}

/* A variable that an assignment or a definition sets; in a loop that may be more than once. */
static void note_name(dlsh_session *s, dlsh_undo_entry *e, const char *name) {
    for (int i = 0; i < e->n; i++)
        if (e->parts[i].kind == DLSH_UNDO_VARIABLE && !strcmp(e->parts[i].name, name)) return;
    const dlsh_value *v = dlsh_get(s, name);
    keep_value(e, DLSH_UNDO_VARIABLE, name, dlsh_void(), v ? *v : dlsh_void());
}

static void note_target(dlsh_session *s, dlsh_undo_entry *e, const dlsh_node *n) {
    if (dlsh_holds_targets(n)) {
        for (int i = 0; i < n->nkids; i++) note_target(s, e, n->kids[i]);
    } else if (n->kind == DLSH_N_NAME) {
        note_name(s, e, n->text);
    } else {
        note_part(s, e, n);
    }
}

/* ---------------------------------------------------------------- calls in place */

static int writes(const char *name) { return name && *name && name[strlen(name) - 1] == '_' && *name != '_'; }

static int changes_items(const char *method) {
    static const char names[] = "append|extend|insert|pop|remove|clear|sort|reverse|update|setdefault";
    return method && dlsh_has_word(names, method, strlen(method));
}

/* x.add_(1), relu_(x), l.append(x) */
static void note_call(dlsh_session *s, dlsh_undo_entry *e, const dlsh_node *n) {
    char name[64];
    if (n->kind != DLSH_N_CALL) return;
    const dlsh_node *callee = n->kids[0], *of = NULL;
    const int items = callee->kind == DLSH_N_FIELD && changes_items(callee->text);
    if (callee->kind == DLSH_N_FIELD && (items || writes(callee->text))) of = callee->kids[0];
    if (callee->kind == DLSH_N_NAME && writes(callee->text) && n->nkids > 1) of = n->kids[1];
    if (!of || !is_quiet(of)) return;
    DLSH_DROPPED dlsh_value v = look(s, of);
    text_of(s, of, name, sizeof name);
    if (v.type == DLSH_TENSOR && !items) keep_contents(e, name, v.as.tensor);
    if ((v.type == DLSH_LIST || v.type == DLSH_RECORD) && items) keep_items(e, name, v);
}

/* ---------------------------------------------------------------- statements */

static void note_assignment(dlsh_session *s, dlsh_undo_entry *e, const dlsh_node *n) {
    int targets = n->nkids - 1;
    note_call(s, e, n->kids[targets]);
    for (int i = 0; i < targets; i++)
        if (!n->op || !note_update(s, e, n->kids[i])) note_target(s, e, n->kids[i]);
}

static int is_control(const dlsh_node *n) {
    return n->kind == DLSH_N_FOR || n->kind == DLSH_N_WHILE || n->kind == DLSH_N_IF || n->kind == DLSH_N_TRY;
}

/* Commands that run the statement or the block that they are given. */
static int runs_statement(const dlsh_node *n) {
    static const char *const names[] = {"no_grad", "enable_grad", "set_grad_enabled", "autocast", "time", "xcheck"};
    for (size_t i = 0; n->kind == DLSH_N_COMMAND && i < sizeof names / sizeof *names; i++)
        if (!strcmp(n->num.cmd->name, names[i])) return 1;
    return 0;
}

int dlsh_undo_is_deep(const dlsh_node *n) {
    if (n->kind == DLSH_N_FN || n->kind == DLSH_N_NET) return 0;
    if (is_control(n) || n->kind == DLSH_N_CALL) return 1;
    if (n->kind == DLSH_N_COMMAND && !runs_statement(n))
        return n->num.cmd->flags & DLSH_ACTION || !strcmp(n->num.cmd->name, "dbg");
    for (int i = 0; i < n->nkids; i++)
        if (n->kids[i] && dlsh_undo_is_deep(n->kids[i])) return 1;
    return 0;
}

/* Everything in a loop or a branch, as far as it is there before. */
static void note_within(dlsh_session *s, dlsh_undo_entry *e, const dlsh_node *n) {
    const int targets = n->kind == DLSH_N_FOR ? n->nkids - 2 : 0;
    for (int i = 0; i < targets; i++) note_target(s, e, n->kids[i]);
    if (n->kind == DLSH_N_TRY && n->kids[1]) note_target(s, e, n->kids[1]);
    if (n->kind == DLSH_N_ASSIGN) note_assignment(s, e, n);
    if ((n->kind == DLSH_N_NET || n->kind == DLSH_N_FN) && n->text) note_name(s, e, n->text);
    note_call(s, e, n);
    for (int i = targets; i < n->nkids && n->kind != DLSH_N_NET && n->kind != DLSH_N_FN; i++)
        if (n->kids[i]) note_within(s, e, n->kids[i]);
}

/* The variables that `unset` names. */
static void note_unset(dlsh_session *s, dlsh_undo_entry *e, const dlsh_node *n) {
    if (n->kind == DLSH_N_ARG && n->nkids && n->kids[0]->text && dlsh_get(s, n->kids[0]->text))
        note_name(s, e, n->kids[0]->text);
    for (int i = 0; i < n->nkids; i++)
        if (n->kids[i] && n->kids[i]->kind == DLSH_N_ARG) note_unset(s, e, n->kids[i]);
}

/* The function or command that a statement calls; "" none. */
static const char *called(const dlsh_node *n) {
    if (n->kind == DLSH_N_COMMAND) return n->num.cmd->name;
    const dlsh_node *call = n->kind == DLSH_N_EXPR ? n->kids[0] : NULL;
    return call && call->kind == DLSH_N_CALL && call->kids[0]->kind == DLSH_N_NAME ? call->kids[0]->text : "";
}

/* Of the process, and in no variable. */
static void note_streams(dlsh_undo_entry *e, const dlsh_node *n) {
    const char *name = called(n);
    if (!strcmp(name, "seed") || !strcmp(name, "manual_seed"))
        give_up(e, "the random streams that %s starts anew are not kept", name);
}

void dlsh_undo_statement(dlsh_session *s, dlsh_undo_entry *e, const dlsh_node *n) {
    if (!strcmp(called(n), "unset")) note_unset(s, e, n);
    note_streams(e, n);
    if (n->kind == DLSH_N_ASSIGN) note_assignment(s, e, n);
    if (n->kind == DLSH_N_NET || n->kind == DLSH_N_FN) note_name(s, e, n->text);
    if (n->kind == DLSH_N_EXPR) note_call(s, e, n->kids[0]);
    if (is_control(n)) note_within(s, e, n);
    if (!runs_statement(n)) return;
    for (int i = 0; i < n->nkids; i++) {
        const dlsh_node *given = n->kids[i]->kind == DLSH_N_ARG && n->kids[i]->nkids ? n->kids[i]->kids[0] : NULL;
        if (given && given->kind != DLSH_N_BLOCK) dlsh_undo_statement(s, e, given);
        for (int k = 0; given && given->kind == DLSH_N_BLOCK && k < given->nkids; k++)
            dlsh_undo_statement(s, e, given->kids[k]);
    }
}

/* ---------------------------------------------------------------- steps */

typedef struct states {
    char **names;
    dl_tensor **tensors;
    int n, namecap, cap, failed;
    size_t bytes;
} states;

static dl_status count_state(void *ctx, DLSH_UNUSED const char *name, dl_tensor *t) {
    ((states *)ctx)->bytes += dlsh_undo_bytes(t);
    return DL_OK;
}

static dl_status copy_state(void *ctx, const char *name, dl_tensor *t) {
    states *x = ctx;
    char **names = dlsh_grow(x->names, x->n, &x->namecap, sizeof *names);
    if (!names) return dl_failed();
    x->names = names;
    dl_tensor **tensors = dlsh_grow(x->tensors, x->n, &x->cap, sizeof(dl_tensor *));
    if (!tensors) return dl_failed();
    x->tensors = tensors;
    dl_tensor *copy = dlsh_undo_copy(t);
    char *own = copy ? strdup(name) : NULL;
    if (!own) return dl_unref(copy), copy ? dlsh_no_memory("a state") : dl_failed();
    x->names[x->n] = own;
    x->tensors[x->n++] = copy;
    return DL_OK;
}

static void keep_state(dlsh_undo_entry *e, dl_optimizer *o) {
    states x = {0};
    dl_status st = dl_optimizer_state(o, count_state, &x);
    dlsh_undo_part *p = st ? NULL : dlsh_undo_part_new(e, DLSH_UNDO_STATE, "the state of the optimizer", x.bytes);
    if (!st && !p) return;
    if (!st) st = dl_optimizer_state(o, copy_state, &x);
    if (!st) p->self = dl_optimizer_ref(o);
    if (!st && !(p->state = dl_tensor_file_of(x.n, (const char *const *)x.names, x.tensors))) st = dl_failed();
    for (int i = 0; i < x.n; i++) {
        free(x.names[i]);
        dl_unref(x.tensors[i]);
    }
    free(x.names);
    free(x.tensors);
    if (!st) return;
    dl_error_clear();
    give_up(e, "%s", "there was no memory to keep the state of the optimizer");
}

void dlsh_undo_note_optimizer(dlsh_undo_entry *e, dl_optimizer *o) {
    const char *name;
    dl_tensor *t;
    for (int i = 0; i < e->n; i++)
        if (e->parts[i].self == o) return;
    for (long i = 0; (t = dl_optimizer_param(o, i, &name)); i++)
        keep_contents(e, name && *name ? name : "a parameter", t);
    keep_state(e, o);
}

void dlsh_undo_note_trainer(dlsh_undo_entry *e, dl_trainer *t) {
    for (int i = 0; i < e->n; i++)
        if (e->parts[i].self == t) return;
    dlsh_undo_part *p = dlsh_undo_part_new(e, DLSH_UNDO_TRAINER, "the trainer", 0);
    if (p) p->self = t;
}
