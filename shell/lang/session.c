/* A session: its life, and running text in it. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "lang/eval/collect.h"
#include "lang/eval/interp.h"
#include "lang/parse/parse.h"

/* ---------------------------------------------------------------- life */

static const dlsh_command *const own_tables[] = {dlsh_core_rows,  dlsh_file_rows,   dlsh_string_rows, dlsh_list_rows,
                                                 dlsh_math_rows,  dlsh_tensor_rows, dlsh_pieces_rows, dlsh_draw_rows,
                                                 dlsh_dtype_rows, dlsh_numeric_rows};

dlsh_session *dlsh_session_new(dlsh_sink *sink, const dlsh_services *services) {
    dlsh_session *s = calloc(1, sizeof *s);
    if (!s) {
        dlsh_no_memory("a session");
        return NULL;
    }
    s->sink = sink;
    s->names_epoch = 2;
    s->source = dl_source_here();
    s->interrupt = dl_interrupt_word();
    if (services) s->services = *services;
    dl_status st = DL_OK;
    for (size_t i = 0; i < DLSH_COUNT(own_tables) && !st; i++) st = dlsh_add_commands(s, own_tables[i]);
    s->last_slot = st ? -1 : dlsh_global_slot(s, "_");
    if (s->last_slot < 0 || (s->services.c_open && !(s->c_state = s->services.c_open(s)))) {
        dlsh_session_free(s);
        return NULL;
    }
    return s;
}

void dlsh_session_free(dlsh_session *s) {
    if (!s) return;
    dlsh_kept_forget(s);
    dlsh_globals_free(s);
    dlsh_collect_all();
    if (s->c_state && s->services.c_close) s->services.c_close(s->c_state);
    for (size_t i = 0; i < sizeof s->letters / sizeof *s->letters; i++)
        if (s->letters[i]) dlsh_drop((dlsh_value){DLSH_STR, {.str = s->letters[i]}});
    dlsh_place_clear(s);
    dlsh_buf_free(&s->diag_source);
    dlsh_buf_free(&s->diag_trace);
    free(s);
}

dlsh_sink *dlsh_session_sink(const dlsh_session *s) { return s->sink; }
void dlsh_session_set_sink(dlsh_session *s, dlsh_sink *sink) { s->sink = sink; }
void *dlsh_get_c_state(const dlsh_session *s) { return s->c_state; }
void dlsh_set_result_silent(dlsh_session *s) { s->result_silent = 1; }
void dlsh_set_failed_arg(dlsh_session *s, int i) { s->failed_arg = i + 1; }
void dlsh_forget_names(dlsh_session *s) { s->names_epoch++; }

void dlsh_exit(dlsh_session *s, int code) {
    s->exiting = 1;
    s->exit_code = code;
}

int dlsh_exiting(const dlsh_session *s, int *code) {
    if (code) *code = s->exit_code;
    return s->exiting;
}

void dlsh_interrupt(void) { dl_interrupt_set(1); }
int dlsh_interrupted(void) { return dl_interrupt_get(); }
dl_status dlsh_check_interrupt(void) {
    return __builtin_expect(dl_interrupt_get(), 0) ? dlsh_fail(DL_ERR_INTERRUPT, NULL, "interrupted") : DL_OK;
}

/* ---------------------------------------------------------------- the stack */

static size_t stack_limit(void) {
    struct rlimit l;
    size_t size = 8u << 20;
    if (!getrlimit(RLIMIT_STACK, &l) && l.rlim_cur != RLIM_INFINITY && l.rlim_cur < size) size = l.rlim_cur;
    return size / 2;
}

dl_status dlsh_check_stack(dlsh_session *s) {
    const char here = 0, *at = &here; /* the distance matters, not the object */
    size_t used = at < s->stack_base ? (size_t)(s->stack_base - at) : (size_t)(at - s->stack_base);
    if (used < s->stack_limit) return DL_OK;
    return dlsh_fail(DL_ERR_STATE, "does the function call itself without an end?", "calls are nested too deeply");
}

/* ---------------------------------------------------------------- running */

/* The command that has the word for one of its own, as dbg has watch; NULL: none. */
static const dlsh_command *owner_of(const dlsh_session *s, const char *word) {
    const dlsh_command *c;
    for (int i = 0; (c = dlsh_command_at(s, i)); i++)
        for (const dlsh_command *sub = c->params && c->params->kind == DLSH_ARG_SUBCOMMAND ? NULL : c->subs;
             sub && sub->name; sub++)
            if (!strcmp(sub->name, word)) return c;
    return NULL;
}

/* The hint for a word that stands where a command may and is none; "": there is none. */
static void other_meaning(dlsh_session *s, const char *word, char *hint, size_t size) {
    const char *known = dlsh_foreign_name(word), *nearest = dlsh_nearest_command(s, word);
    const dlsh_value *mine = dlsh_get(s, word);
    DLSH_DROPPED dlsh_value v = mine ? dlsh_ref(*mine) : dlsh_builtin_value(s, word);
    int callable = v.type == DLSH_FN || v.type == DLSH_BUILTIN;
    const dlsh_command *owner = owner_of(s, word);
    *hint = 0;
    if (owner)
        snprintf(hint, size, "it is a word of %.30s: %.30s { %.60s ... }", owner->name, owner->name, word);
    else if (known)
        snprintf(hint, size, "%s", known);
    else if (callable)
        snprintf(hint, size, "a function is called with parentheses: %.60s(...)", word);
    else if (dl_layer_kind(word))
        snprintf(hint, size, "a layer stands in a net: net m { %.60s ... }", word);
    else if (nearest)
        snprintf(hint, size, "'%.60s' is not a command; did you mean %s?", word, nearest);
}

static dl_status syntax_failure(dlsh_session *s, dlsh_unit *u, const dlsh_syntax_error *e) {
    char hint[256] = "";
    if (e->command) other_meaning(s, e->command, hint, sizeof hint);
    dlsh_fail(e->code, *hint ? hint : e->hint, "%s", e->message);
    return dlsh_at_span(s, u, e->span, e->code);
}

/* The outermost run stores its failure with the place; an inner one (`read`) leaves both to the statement around it. */
static dl_status settle_failure(dlsh_session *s, dl_status st) {
    if (s->running > 1) return st;
    dlsh_failure_keep(s);
    dlsh_place_clear(s);
    return s->error.code;
}

/* One top-level statement; its failure is kept and placed. */
static dl_status run_statement(dlsh_session *s, const dlsh_node *n) {
    const dlsh_services *on = &s->services;
    const int own = s->running > 1 && *s->unit->name == '<'; /* the shell's, within a statement, as of a breakpoint */
    if (on->before_statement && !own)
        on->before_statement(s, s->unit->text + n->span.start, (size_t)(n->span.end - n->span.start));
    dlsh_flow flow = DLSH_FAILED;
    const int outermost = s->running == 1;
    if (on->begin_statement && outermost) on->begin_statement(s, n);
    if (on->c_check && on->c_check()) {
    } else if (!dlsh_check_interrupt()) {
        flow = dlsh_exec(s, n);
        if (on->c_check && on->c_check()) {
            dlsh_place_clear(s); /* of the interruption by which it stopped the statement */
            flow = DLSH_FAILED;
        }
        if (flow != DLSH_FAILED && dlsh_check_interrupt()) flow = DLSH_FAILED; /* it came too late for the statement */
    }
    if (on->end_statement && outermost) on->end_statement(s, flow == DLSH_FAILED);
    if (flow != DLSH_FAILED) {
        if (on->after_statement) on->after_statement(s);
        return DL_OK;
    }
    dlsh_at(s, n, DL_ERR_INTERNAL);
    return settle_failure(s, dl_failed());
}

static dl_status run_unit(dlsh_session *s, dlsh_unit *u, dlsh_value *last) {
    dl_status first = DL_OK;
    for (int i = 0; i < u->root->nkids && !s->exiting; i++) {
        s->last = last && i == u->root->nkids - 1 ? last : NULL;
        s->last_node = u->root->kids[i];
        dl_status st = run_statement(s, u->root->kids[i]);
        s->last = NULL;
        if (!st) continue;
        if (!first) first = st;
        if (!s->services.keep_going || s->running > 1 || st == DL_ERR_INTERRUPT) break;
        dlsh_report_error(s);
        if (s->services.after_statement) s->services.after_statement(s);
    }
    return first;
}

dl_status dlsh_run(dlsh_session *s, const char *name, const char *text, size_t len, dlsh_value *last) {
    dlsh_syntax_error err;
    const char base = 0;
    dlsh_frame frame;
    dlsh_unit *u = dlsh_unit_new(name, text, len);
    dl_status st = u ? DL_OK : dl_failed();
    int nested = s->running++;
    if (last) *last = dlsh_void();
    if (!nested) {
        dl_idle(0);
        dl_interrupt_set(0);
        dl_nan_forget();
        s->source = dl_source_here();
        s->stack_base = &base;
        s->stack_limit = stack_limit();
    } else if (!st) {
        st = dlsh_check_stack(s);
    }
    s->failed = 0;
    dlsh_frame_enter(s, &frame, NULL);
    if (!st && dlsh_parse(u, dlsh_command_finder(), s, &err)) st = syntax_failure(s, u, &err);
    if (!st) st = dlsh_resolve(s, u);
    if (st) {
        st = settle_failure(s, st);
    } else {
        dlsh_enter_unit(s, u);
        s->locals = s->returned = NULL;
        if (s->services.parsed) s->services.parsed(s, u);
        st = run_unit(s, u, last);
    }
    dlsh_frame_leave(s);
    s->running--;
    dlsh_unit_drop(u);
    if (!nested) dl_idle(1);
    if (st && nested) dlsh_trace_call(s, name, s->statement);
    if (st && last) { /* of a statement that an interruption reached after its end */
        dlsh_drop(*last);
        *last = dlsh_void();
    }
    return st;
}
