/* What runs: texts and calls of functions, for a debugger. */
#include <stdlib.h>
#include <string.h>

#include "lang/eval/quick.h"

void dlsh_watch_statements(dlsh_session *s, int on) {
    if (s->services.at_statement) __atomic_store_n(&s->watched, on, __ATOMIC_RELAXED);
}

/* What number i is: its function, its text, its statement and its variables; the frame that it entered with. */
static const dlsh_frame *entered(const dlsh_session *s, int i, dlsh_frame *now) {
    const dlsh_frame *f = s->frame;
    *now = (dlsh_frame){.unit = s->unit, .statement = s->statement, .locals = s->locals};
    for (; f && i > 0; i--) {
        *now = *f;
        f = f->up;
    }
    return f && now->unit && now->statement ? f : NULL;
}

int dlsh_running_at(const dlsh_session *s, int i, dlsh_running *out) {
    dlsh_frame now;
    const dlsh_frame *f = entered(s, i, &now);
    if (!f) return 0;
    const char *name = !f->fn ? "" : f->fn->node->text ? f->fn->node->text : "fn";
    *out = (dlsh_running){name, now.unit->name, now.statement->span.line, now.statement->span.col};
    return 1;
}

const dlsh_node *dlsh_running_function(const dlsh_session *s, int i) {
    dlsh_frame now;
    const dlsh_frame *f = entered(s, i, &now);
    return f && f->fn ? f->fn->node : NULL;
}

const dlsh_unit *dlsh_running_unit(const dlsh_session *s, const char *name) {
    const dlsh_unit *u = s->unit;
    for (const dlsh_frame *f = s->frame; f && name && u; u = f->unit, f = f->up)
        if (!strcmp(u->name, name)) return u;
    return NULL;
}

/* Slot k, through its cell; NULL: there are fewer. */
static dlsh_value *variable(const dlsh_session *s, int i, int k, const char **name) {
    dlsh_frame now;
    const dlsh_frame *f = entered(s, i, &now);
    if (!f || !f->fn || k >= f->fn->info->nslots) return NULL;
    *name = f->fn->info->names[k];
    return now.locals[k].type == DLSH_CELL ? &now.locals[k].as.cell->v : &now.locals[k];
}

const char *dlsh_running_variable(const dlsh_session *s, int i, int k, dlsh_value *v) {
    const char *name;
    const dlsh_value *at = variable(s, i, k, &name);
    if (!at) return NULL;
    *v = *at;
    return name;
}

dlsh_value *dlsh_running_slot(dlsh_session *s, int i, int k, const char **name) { return variable(s, i, k, name); }

/* The variable that is set becomes the value of the global of its name, whose own value waits in `hidden`. */
static void lend(dlsh_session *s, dlsh_value *at, const char *name, dlsh_value *hidden) {
    int slot = at->type == DLSH_VOID ? -1 : dlsh_global_slot(s, name);
    if (slot < 0) return;
    *hidden = s->globals[slot].value;
    s->globals[slot].value = dlsh_ref(*at);
}

/* And back. What was unset keeps its value. */
static void take_back(dlsh_session *s, dlsh_value *at, const char *name, dlsh_value hidden) {
    int slot = at->type == DLSH_VOID ? -1 : dlsh_global_slot(s, name);
    if (slot < 0) return;
    dlsh_value value = s->globals[slot].value;
    s->globals[slot].value = hidden;
    if (value.type != DLSH_VOID) dlsh_replace(at, value);
}

dl_status dlsh_running_run(dlsh_session *s, int i, const char *text, size_t len, dlsh_value *out) {
    const char *name;
    dlsh_value *at;
    int n = 0, depth = s->fn_depth, quiet = s->quiet;
    *out = dlsh_void();
    while (variable(s, i, n, &name)) n++;
    dlsh_value *last = s->last;
    DLSH_FREED dlsh_value *hidden = dl_memory_alloc(n, sizeof *hidden);
    const dlsh_node *last_node = s->last_node;
    if (!hidden) return DL_ERR_MEMORY;
    dl_source here = *s->source;
    for (int k = 0; (at = variable(s, i, k, &name)); k++) lend(s, at, name, &hidden[k]);
    s->fn_depth = s->quiet = 0;
    dl_status st = dlsh_run(s, "<debugger>", text, len, out);
    s->fn_depth = depth;
    s->quiet = quiet;
    for (int k = n - 1; k >= 0 && (at = variable(s, i, k, &name)); k--) take_back(s, at, name, hidden[k]);
    s->last = last;
    s->last_node = last_node;
    *s->source = here;
    return st;
}
